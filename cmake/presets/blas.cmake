# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh blas: tests/api/blas_test.c with every variant of OpenBLAS.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
