# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh check: everything tested, as it will be installed but for the debug information.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(CMAKE_COMPILE_WARNING_AS_ERROR ON CACHE BOOL "")
set(EMBED_TESTS ON CACHE BOOL "")
