# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh i386: pointers of 32 bits. The CPU runs them itself, with the cross compiler's C library: qemu 7.2's i386
# hangs in programs with threads.
set(EMBED_TRIPLET i686-linux-gnu CACHE STRING "")
set(EMBED_EMULATOR "" CACHE STRING "")
set(CMAKE_EXE_LINKER_FLAGS "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2 -Wl,-rpath,/usr/i686-linux-gnu/lib" CACHE STRING "")
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
