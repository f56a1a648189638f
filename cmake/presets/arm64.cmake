# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh arm64: the neon level, in qemu.
set(EMBED_TRIPLET aarch64-linux-gnu CACHE STRING "")
set(EMBED_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu CACHE STRING "")
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
