# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh valgrind: what the sanitizers do not see (OpenBLAS, the C library), up to the avx2 level.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
set(CMAKE_CROSSCOMPILING_EMULATOR valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite CACHE STRING "")
