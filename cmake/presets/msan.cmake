# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh msan: clang's sanitizer of uninitialised memory, without OpenBLAS and zlib, which it cannot see into.
include(${CMAKE_CURRENT_LIST_DIR}/noblas.cmake)
set(EMBED_SANITIZE memory CACHE STRING "")
set(EMBED_ZLIB OFF CACHE BOOL "")
