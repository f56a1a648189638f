# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh fuzz: libFuzzer under clang's sanitizers.
include(${CMAKE_CURRENT_LIST_DIR}/asan.cmake)
set(EMBED_FUZZ ON CACHE BOOL "")
set(EMBED_BLAS OFF CACHE BOOL "")
set(EMBED_CLI OFF CACHE BOOL "")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g" CACHE STRING "") # millions of executions
