/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C (Castagnoli; RFC 3720, B.4), eight bytes at a time. */
#ifndef EMBED__CRC32C_H
#define EMBED__CRC32C_H

#include <stdint.h>

typedef struct embed__crc32c {
  uint32_t table[8][256];
} embed__crc32c;

void embed__crc32c_init(embed__crc32c *c); /* a few microseconds: cheaper than 8 KiB of constants is to read in */
void embed__crc32_init(embed__crc32c *c);  /* the same for CRC-32 as zip has it (APPNOTE.TXT, 4.4.7) */
/* The sum of what `sum` is the sum of (0 = nothing) and these bytes behind it. */
uint32_t embed__crc32c_add(const embed__crc32c *c, uint32_t sum, const void *bytes, int64_t count);

#endif
