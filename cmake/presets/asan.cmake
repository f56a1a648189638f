# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh asan: clang's sanitizers, which also see masked AVX-512 loads (gcc's do not).
set(CMAKE_BUILD_TYPE Debug CACHE STRING "")
set(CMAKE_COMPILE_WARNING_AS_ERROR ON CACHE BOOL "")
set(EMBED_TESTS ON CACHE BOOL "")
set(EMBED_SANITIZE address,undefined CACHE STRING "")
# Checks as calls: inlined, they make clang spend minutes on each file of unrolled kernels.
set(CMAKE_C_FLAGS "-mllvm -asan-instrumentation-with-call-threshold=0 -Wno-unused-command-line-argument" CACHE STRING "")
