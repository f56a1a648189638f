/* SPDX-License-Identifier: BSD-3-Clause */
/* What some of the K forms share: Q2_K and Q3_K pack two bits alike, Q4_K and Q5_K the steps of their 8 sub-blocks. */
#ifndef EMBED__K_BLOCKS_H
#define EMBED__K_BLOCKS_H

#include "codec/blocks.h"
#include "codec/scale_search.h"

/* Two bits of 256 values in 64 bytes: column 128 n + 32 r + l stands in byte 32 n + l at bit 2 r. So sub-block i of 16
 * columns has its bytes from embed__pairs_byte(i) on, at bit embed__pairs_bit(i). */
static inline int embed__pairs_byte(int i) { return 32 * (i / 8) + 16 * (i % 2); }
static inline int embed__pairs_bit(int i) { return 2 * (i / 2 % 4); }

static inline void embed__put_pairs(const int *q, unsigned char *qs) {
  memset(qs, 0, 64);
  for (int j = 0; j < 256; ++j) qs[32 * (j / 128) + j % 32] |= (unsigned char)((q[j] & 3) << 2 * (j / 32 % 4));
}

/* The 16 bytes that begin a Q4_K or Q5_K block: half d, half dmin, then for each of 8 sub-blocks a step and an offset of
 * six bits. Of the first four each has a byte of its own; of the last four the low four bits share bytes 8 .. 11 and the
 * upper two stand above the first four's. */
enum { EMBED__AFFINE_HEADER = 16, EMBED__AFFINE_COLUMNS = 32 };

static inline void embed__affine_at(const unsigned char *header, int i, int *step, int *offset) {
  const unsigned char *s = header + 4;
  if (i < 4) {
    *step = s[i] & 63;
    *offset = s[i + 4] & 63;
  } else {
    *step = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    *offset = s[i + 4] >> 4 | s[i] >> 6 << 4;
  }
}

/* Finds and writes the header; q: the 256 values, rounded anew with the steps as stored. False: past the half float's range. */
bool embed__encode_affine(const float *x, const embed__affine_plan *plan, unsigned char *header, int *q);

#endif
