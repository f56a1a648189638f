# SPDX-License-Identifier: BSD-3-Clause
# Toolchain of the goals arm64, s390x and i386: Debian's cross gcc, cmocka for that machine below EMBED_FOREIGN (see
# foreign_cmocka in bootstrap.sh), tests run by EMBED_EMULATOR. The goal's preset says which.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EMBED_TRIPLET EMBED_FOREIGN EMBED_EMULATOR)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${EMBED_TRIPLET}")
string(REGEX REPLACE "^i686" "i386" architecture "${EMBED_TRIPLET}") # Debian's folders of i386
set(CMAKE_C_COMPILER ${EMBED_TRIPLET}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${architecture})
set(CMAKE_FIND_ROOT_PATH /usr/${EMBED_TRIPLET} ${EMBED_FOREIGN})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${EMBED_FOREIGN}/usr/lib/${architecture}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${EMBED_FOREIGN})
set(CMAKE_CROSSCOMPILING_EMULATOR ${EMBED_EMULATOR})
