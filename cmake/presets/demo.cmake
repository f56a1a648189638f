# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh demo: what a user builds, and the benchmark that the demo ends with.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(EMBED_TESTS OFF CACHE BOOL "")
set(EMBED_BENCH ON CACHE BOOL "")
