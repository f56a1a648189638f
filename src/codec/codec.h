/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage formats of a row. Everything works through decode and encode of single rows; a stored form that has kernels
 * of its own names it, and gather and sweep then read rows in place. */
#ifndef EMBED__CODEC_H
#define EMBED__CODEC_H

#include "core/dtype.h"
#include "kernels/kernels.h"

/* Stochastic rounding: word j of the row decides element j. A codec without noise rounds as its format says. */
typedef struct embed__noise {
  uint64_t seed;
  uint64_t row; /* of the table */
  int64_t dim;  /* element (row, column) takes the word of index row * dim + column */
} embed__noise;

typedef struct embed__codec {
  int stored; /* embed__stored, or -1: decoded first */
  bool rounds_stochastically;
  bool finite_only; /* encode answers false for a row with NaN or infinity */
  /* out[j] = decoded value (rounded to float) * scale */
  void (*decode)(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale);
  /* Writes the whole packed row, whatever stood there. noise may be NULL. */
  bool (*encode)(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise);
  embed__form form; /* which gather kernels read it, where the level has some */
} embed__codec;

/* One per line of the dtype registry, each in a file of its own (some share one). */
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) extern const embed__codec embed__codec_##codec;
#include "core/dtypes.def"
#undef DTYPE

const embed__codec *embed__codec_find(embed_dtype t); /* NULL = not in this build */

/* One row by the level's gather kernel, which has the bits of the codec's own loop; false where it has none. */
static inline bool embed__decoded_by_kernel(const embed__kernels *k, embed__form form, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  if (!k->gather.decode[form]) return false;
  embed__rows one = {.row = {row}, .ahead = {row}, .count = 1, .group = group, .dim = dim, .bytes = 1};
  k->gather.decode[form](&one, scale, &(embed__place){.at = (unsigned char *)out, .type = EMBED_F32});
  return true;
}

/* In [0, 1), for element column of the noise's row. */
float embed__noise_at(const embed__noise *noise, int64_t column);

#endif
