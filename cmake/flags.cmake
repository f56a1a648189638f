# SPDX-License-Identifier: BSD-3-Clause
# embed_flags: what every file of the project is compiled with. _GNU_SOURCE because -std=c11 hides POSIX;
# -ffp-contract=off because compilers fuse a * b + c differently; -ffile-prefix-map so that no path of the building
# machine ends up in the library.
add_library(embed_flags INTERFACE)
target_compile_features(embed_flags INTERFACE c_std_11)
target_compile_definitions(embed_flags INTERFACE _GNU_SOURCE)
target_compile_options(embed_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wundef
  -ffp-contract=off -fno-fast-math -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^i[3-6]86$")
  target_compile_options(embed_flags INTERFACE -msse2 -mfpmath=sse) # x87 registers would round twice
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "s390x" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(embed_flags INTERFACE -fexcess-precision=fast) # standard C's float is computed in double there
endif()
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(EMBED_SANITIZE)
  add_compile_options(-fsanitize=${EMBED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${EMBED_SANITIZE})
endif()
set(EMBED_FAST -O3) # of kernels and codecs
if(EMBED_SANITIZE MATCHES memory)
  list(APPEND EMBED_FAST -fno-vectorize) # a loop that becomes scatters leaves what it wrote unwritten in that sanitizer's eyes
endif()

# What each kernel level may assume of the CPU; its files are kernels/<level>/*.c.
set(EMBED_LEVELS scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|i[3-6]86)$")
  list(APPEND EMBED_LEVELS avx2 avx512 avx512vnni avx512bf16)
  if(CMAKE_SIZEOF_VOID_P EQUAL 8)
    list(APPEND EMBED_LEVELS amx)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND EMBED_LEVELS neon)
endif()
set(EMBED_LEVEL_FLAGS_scalar "")
set(EMBED_LEVEL_FLAGS_avx2 -mavx2 -mfma -mf16c)
# Part of the base architecture. gcc would move loads ahead of the products until sums of a tile spill.
set(EMBED_LEVEL_FLAGS_neon $<$<C_COMPILER_ID:GNU>:-fno-schedule-insns>)
set(EMBED_LEVEL_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
set(EMBED_LEVEL_FLAGS_avx512vnni ${EMBED_LEVEL_FLAGS_avx512} -mavx512vnni)
set(EMBED_LEVEL_FLAGS_avx512bf16 ${EMBED_LEVEL_FLAGS_avx512vnni} -mavx512bf16)
set(EMBED_LEVEL_FLAGS_amx ${EMBED_LEVEL_FLAGS_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)
