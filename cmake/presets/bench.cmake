# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh bench: the benchmarks.
include(${CMAKE_CURRENT_LIST_DIR}/demo.cmake)
