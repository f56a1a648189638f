/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of the sweep in other shapes than dot.h's: on panels, and on rows with hidden vectors packed for them.
 *
 * A panel is 16 rows of a table interleaved, one row to a lane, in one run of bytes: a vector of 16 sums is 16 logits
 * that stand side by side, so nothing is summed across lanes and a scale per row is one vector. A prepared head keeps
 * panel p of rows 16 p .. 16 p + 15 at p * bytes; rows past the vocabulary are zeros. Panels start on 64 bytes and are
 * multiples of 64; their layout is the same at every level, since files hold them.
 *
 * A multiplier is one way to multiply: hidden rows are packed once for it, then meet any number of rows or panels.
 *   z[i * ldz + r] = sum_j decoded(row r, j) * activation(x row i, j)            0 <= r < count, 0 <= i < n
 * Any count, n >= 0, dim >= 1; nothing is written but these z, nothing read but the rows (whole panels) and x. No
 * allocation, no state, MXCSR's control bits untouched. The order of one sum depends on dim, form, activation and level
 * alone: never on count, n, or where in the call the row stands. A hidden row with a NaN gives NaN in all of its
 * products, one with an infinity NaN or infinities (digits: NaN); neither touches the products of other hidden rows.
 *
 * Exact: error <= 2e-6 of sum |w||x|, where roundings all fall to one side up to 2^-24 * 256 (a chain). Rounded: the same, against x rounded
 * to that dtype first.
 *
 * Order of the float forms, exact: columns ascending in chains of 256 that start at 0, w[j] * x[j] added by FMA (scalar:
 * product and sum rounded apart); the chains' sums are added in ascending order. So avx2, avx512 and neon give the same
 * bits, and f16 and bf16 those of the same numbers in f32. Limbs: chains of 1,024 columns, in which
 * tiles sum products of bfloats in pairs. */
#ifndef EMBED__PANEL_H
#define EMBED__PANEL_H

#include <stdbool.h>
#include <stdint.h>

enum { EMBED__PANEL_ROWS = 16, EMBED__PANEL_CHAIN = 256 /* columns */, EMBED__PANEL_ALIGNMENT = 64 };

/* What a panel, or a row of a multiplier in place, holds. Numbers stand in files: never change one. */
typedef enum embed__panel_form {
  EMBED__PANEL_F32,  /* panel: [dim][16] floats */
  EMBED__PANEL_F16,  /* panel: [ceil(dim / 2)][2][16] halves: a line is two columns */
  EMBED__PANEL_BF16, /* panel: [ceil(dim / 2)][16][2] bfloats: a lane of a line is two columns, as vdpbf16ps has them */
  /* Quantised rows: layout in quantised.h. */
  EMBED__PANEL_I8,
  EMBED__PANEL_I4,
  EMBED__PANEL_Q8_0,
  EMBED__PANEL_Q4_0,
  EMBED__PANEL_Q4_K,
  EMBED__PANEL_Q5_K,
  EMBED__PANEL_Q6_K,
  /* Rows of floats as sums of bfloats, for tiles; of no file: a level lays them out as it likes, and only amx has them. */
  EMBED__PANEL_F32_LIMBS,
  EMBED__PANEL_F16_LIMBS,
  EMBED__PANEL_BF16_LIMBS,
  EMBED__PANEL_FORMS
} embed__panel_form;

static inline bool embed__is_quantised_form(int form) { return form >= EMBED__PANEL_I8 && form <= EMBED__PANEL_Q6_K; }
static inline int embed__limbs_of(int form) { return form - EMBED__PANEL_F32 + EMBED__PANEL_F32_LIMBS; } /* of rows whose own form holds floats */

/* Hidden rows meet panels of limbs only where none of their numbers is above this in size, or NaN. Panels of other rows are the level's care. */
#define EMBED__LIMBS_MOST 0x1p+30f

/* What hidden rows are rounded to before they are multiplied. */
typedef enum embed__activation {
  EMBED__EXACT,
  EMBED__ROUNDED_BF16, /* to nearest even; vdpbf16ps and tdpbf16ps take subnormal numbers as 0 and round after each of two products */
  EMBED__ROUNDED_Q8_0, /* blocks of 32 columns from column 0, as the codec of that dtype; the last may be shorter */
  EMBED__ACTIVATIONS
} embed__activation;

typedef struct embed__multiplier {
  /* Bytes of n packed hidden rows; a multiple of 64. */
  int64_t (*x_bytes)(int64_t n, int64_t dim, int32_t group);
  /* packed starts on 64 bytes. Rounds x itself where the activation asks for it. */
  void (*pack_x)(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed);
  /* rows: panels, stride bytes apart, of which count rows are asked for; or count stored rows, stride bytes apart. While a panel is
   * multiplied, memory that lies `soon` bytes behind it may be fetched: stride, or where the next panels will be made from. */
  void (*multiply)(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, float *z,
                   int64_t ldz);
} embed__multiplier;

/* One panel of count <= 16 stored rows, any alignment; lanes from count on become zeros. streaming: past the caches
 * (stores may be weakly ordered: the row kernels' fence() after the last). */
typedef void embed__panel_pack(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming);

/* A multiplier without functions is not there: then hidden rows are rounded first and the exact one is taken. The exact
 * one on panels is there, at every level, for each form that has bytes and pack. */
typedef struct embed__panel_kernels {
  int64_t (*bytes[EMBED__PANEL_FORMS])(int64_t dim, int32_t group); /* of a panel, the same at every level; -1 = does not fit in 63 bits */
  embed__panel_pack *pack[EMBED__PANEL_FORMS];
  embed__multiplier prepared[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS];
  embed__multiplier in_place[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS]; /* beside dot.h's tiles, which take x as it is */
  int vector_bits;                                                    /* of the vectors that the panels of floats are multiplied with */
  bool has_tiles; /* for products of bfloats and of digits; exact ones of int8 rows are faster than floats */
} embed__panel_kernels;

void embed__panel_scalar(embed__panel_kernels *k);
void embed__panel_avx2(embed__panel_kernels *k);
void embed__panel_avx512(embed__panel_kernels *k);
void embed__panel_avx512bf16(embed__panel_kernels *k);
void embed__panel_amx(embed__panel_kernels *k);
void embed__limbs_amx(embed__panel_kernels *k);
void embed__panel_neon(embed__panel_kernels *k);

#endif
