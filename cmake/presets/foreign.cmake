# SPDX-License-Identifier: BSD-3-Clause
# What arm64, s390x and i386 share: another machine's compiler, no OpenBLAS, tests in qemu.
include(${CMAKE_CURRENT_LIST_DIR}/noblas.cmake)
set(CMAKE_TOOLCHAIN_FILE ${CMAKE_CURRENT_LIST_DIR}/../cross.cmake CACHE FILEPATH "")
