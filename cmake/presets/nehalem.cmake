# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh nehalem: x86-64 on a CPU without AVX: the scalar level, in qemu.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64-static -cpu Nehalem CACHE STRING "")
