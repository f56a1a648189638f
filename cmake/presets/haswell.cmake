# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh haswell: x86-64 on a CPU with AVX2 at most, in qemu.
include(${CMAKE_CURRENT_LIST_DIR}/check.cmake)
# Without what qemu warns of. qemu 7.2 touches what AVX2's masked moves leave out: the label `masked` is left out too.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64-static -cpu Haswell,-pcid,-x2apic,-tsc-deadline,-invpcid,-hle,-rtm CACHE STRING "")
