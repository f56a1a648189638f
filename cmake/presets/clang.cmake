# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh clang: the second compiler's warnings and tests.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
