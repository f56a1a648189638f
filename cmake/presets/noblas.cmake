# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh noblas: the library without OpenBLAS, on its own kernels alone.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
set(EMBED_BLAS OFF CACHE BOOL "")
