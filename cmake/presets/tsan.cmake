# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh tsan: clang's thread sanitizer, without OpenBLAS, whose locks it cannot see.
include(${CMAKE_CURRENT_LIST_DIR}/noblas.cmake)
set(EMBED_SANITIZE thread CACHE STRING "")
