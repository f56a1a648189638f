# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh s390x: the most significant byte first, in qemu.
set(EMBED_TRIPLET s390x-linux-gnu CACHE STRING "")
set(EMBED_EMULATOR qemu-s390x-static -L /usr/s390x-linux-gnu CACHE STRING "")
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
