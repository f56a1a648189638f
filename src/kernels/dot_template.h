/* SPDX-License-Identifier: BSD-3-Clause */
/* The tile products in the words of a level's vector.h, which is included before. Sums of 4 rows with up to TILE_HIDDEN
 * vectors stay in registers, so that what is loaded of a row or of x serves several of them. A sum is the same chain of
 * FMAs and the same tree over lanes in tiles of every shape. */
#include "kernels/dot.h"

enum {
  AHEAD_BYTES = 1024,         /* with one pass over the rows, each row stream is fetched so far ahead: 8 % at n = 1 */
  ROW_BLOCK_BYTES = 16 << 10, /* of rows that meet all of x before the next are read, with room for 4 vectors of x in L1 */
};

typedef struct tile {
  const unsigned char *row; /* of the first sum */
  int64_t next_row;         /* bytes to the next */
  const float *x;
  int64_t ldx, dim;
  float *z; /* of the first row and vector */
  int64_t next_z, ldz;
  /* Memory fetched ahead while the tile computes: at every step a line of some rows, next_row apart, soon_step further
   * on than at the step before. It may lie past the table, so that it is no pointer; a prefetch never faults. */
  uintptr_t soon, soon_step;
} tile;

INLINE int64_t column_bytes(embed__stored form) { return form == EMBED__STORED_F32 ? 4 : form == EMBED__STORED_I8 ? 1 : 2; }

INLINE floats stored(embed__stored form, const unsigned char *at) {
  switch (form) {
    case EMBED__STORED_F16: return load_f16(at);
    case EMBED__STORED_BF16: return load_bf16(at);
    case EMBED__STORED_I8: return load_i8(at);
    default: return load_f32(at);
  }
}

INLINE floats stored_part(embed__stored form, const unsigned char *at, int64_t t) {
  switch (form) {
    case EMBED__STORED_F16: return load_f16_part(at, t);
    case EMBED__STORED_BF16: return load_bf16_part(at, t);
    case EMBED__STORED_I8: return load_i8_part(at, t);
    default: return load_f32_part(at, t);
  }
}

/* sum[h][r] += row r times vector h, at up to WIDTH columns from j on. One vector of the rows at a time: with 12 sums and
 * those of x they fill the 16 registers of AVX2. */
INLINE void step(embed__stored form, int rows, int hidden, const tile *t, int64_t j, int64_t columns, floats sum[TILE_HIDDEN][4]) {
  floats x[TILE_HIDDEN];
  UNROLL for (int h = 0; h < hidden; ++h) {
    const float *at = t->x + h * t->ldx + j;
    x[h] = columns >= WIDTH ? load(at) : load_part_minus_zero(at, columns);
  }
  UNROLL for (int r = 0; r < rows; ++r) {
    const unsigned char *at = t->row + r * t->next_row + j * column_bytes(form);
    floats w = columns >= WIDTH ? stored(form, at) : stored_part(form, at, columns);
    UNROLL for (int h = 0; h < hidden; ++h) sum[h][r] = times_plus(w, x[h], sum[h][r]);
  }
}

/* The lanes of parts from .. to - 1 of every sum. */
INLINE void accumulate(embed__stored form, int rows, int hidden, int from, int to, int fetch, const tile *t, floats sum[PARTS][TILE_HIDDEN][4]) {
  UNROLL for (int p = from; p < to; ++p) {
    UNROLL for (int h = 0; h < hidden; ++h) { UNROLL for (int r = 0; r < rows; ++r) sum[p][h][r] = zeros(); }
  }
  uintptr_t soon = t->soon;
  int64_t j = 0;
  for (; j + 16 <= t->dim; j += 16, soon += t->soon_step) {
    UNROLL for (int r = 0; r < fetch; ++r) prefetch(soon + (uintptr_t)(r * t->next_row));
    UNROLL for (int p = from; p < to; ++p) step(form, rows, hidden, t, j + p * WIDTH, WIDTH, sum[p]);
  }
  UNROLL for (int p = from; p < to; ++p) {
    int64_t columns = t->dim - j - p * WIDTH;
    if (WIDTH < 16 && columns >= WIDTH)
      step(form, rows, hidden, t, j + p * WIDTH, WIDTH, sum[p]);
    else if (columns > 0)
      step(form, rows, hidden, t, j + p * WIDTH, columns, sum[p]);
  }
}

INLINE four scales_of(int rows, const tile *t) {
  float scale[4] = {0};
  for (int r = 0; r < rows; ++r) memcpy(scale + r, t->row + r * t->next_row + t->dim, 4);
  return load_four(scale);
}

INLINE void products(embed__stored form, int rows, int hidden, int fetch, const tile *t) {
  floats sum[PARTS][TILE_HIDDEN][4];
  if (hidden == 1) {
    accumulate(form, rows, hidden, 0, PARTS, fetch, t, sum);
  } else { /* the sums of two parts would not fit the registers */
    UNROLL for (int p = 0; p < PARTS; ++p) accumulate(form, rows, hidden, p, p + 1, p == 0 ? fetch : 0, t, sum);
  }
  UNROLL for (int h = 0; h < hidden; ++h) {
    UNROLL for (int r = 0; r < 4; ++r) {
      if (r >= rows)
        sum[0][h][r] = zeros();
      else if (PARTS == 2)
        sum[0][h][r] = plus(sum[0][h][r], sum[PARTS - 1][h][r]);
    }
  }
  four z[TILE_HIDDEN];
  sums_of_tile(sum[0], hidden, z);
  UNROLL for (int h = 0; h < hidden; ++h) {
    float value[4];
    store_four(value, form == EMBED__STORED_I8 ? times_four(z[h], scales_of(rows, t)) : z[h]);
    UNROLL for (int r = 0; r < rows; ++r) t->z[h * t->ldz + r * t->next_z] = value[r];
  }
}

/* The 4 rows of a tile stand a quarter of `count` apart: as far streams they never run slower than side by side, and 10
 * to 30 % faster at n = 4 and 8. When x needs several passes over a block of rows, each fetches a slice of the next
 * block: 20 to 40 % at n = 8 to 64. */
INLINE void tiles(embed__stored form, const unsigned char *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim,
                  float *z, int64_t ldz) {
  int64_t quarter = count / 4, bytes = dim * column_bytes(form), step_bytes = 16 * column_bytes(form);
  int64_t block = ROW_BLOCK_BYTES / 4 / bytes > 0 ? ROW_BLOCK_BYTES / 4 / bytes : 1;
  int64_t passes = (n + TILE_HIDDEN - 1) / TILE_HIDDEN, slices = passes / 2;
  for (int64_t begin = 0; begin < quarter; begin += block) {
    int64_t end = begin + block < quarter ? begin + block : quarter;
    for (int64_t pass = 0, i = 0; i < n; ++pass, i += TILE_HIDDEN) {
      for (int64_t r = begin; r < end; ++r) {
        const unsigned char *row = rows + r * row_bytes;
        tile t = {row, quarter * row_bytes, x + i * ldx, ldx, dim, z + i * ldz + r, quarter, ldz, (uintptr_t)row, (uintptr_t)step_bytes};
        if (passes == 1) {
          t.soon += AHEAD_BYTES;
        } else if (pass / 2 < slices) { /* an odd pass out fetches what is there */
          t.soon += (uintptr_t)(block * row_bytes + pass / 2 * bytes / slices);
          t.soon_step = (uintptr_t)(step_bytes / slices);
        }
        if (n - i == 1) {
          products(form, 4, 1, 4, &t);
        } else if (n - i == 2) {
          products(form, 4, 2, 4, &t);
        } else if (n - i < TILE_HIDDEN) {
          products(form, 4, 3, 4, &t);
        } else if (passes == 1) {
          products(form, 4, TILE_HIDDEN, 4, &t);
        } else { /* of two passes one fetches the slice of rows 0 and 1, one that of 2 and 3 */
          t.soon += (uintptr_t)(pass % 2 * 2 * t.next_row);
          products(form, 4, TILE_HIDDEN, 2, &t);
        }
      }
    }
  }
  for (int64_t r = 4 * quarter; r < count; ++r) { /* three rows at most */
    for (int64_t i = 0; i < n; ++i) {
      tile t = {rows + r * row_bytes, 0, x + i * ldx, 0, dim, z + i * ldz + r, 0, 0, 0, 0};
      products(form, 1, 1, 0, &t);
    }
  }
}

#define TILE(name, form)                                                                                                                             \
  static void name(const void *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, float *z, int64_t ldz) { \
    tiles(form, rows, row_bytes, count, x, ldx, n, dim, z, ldz);                                                                                     \
  }
TILE(tile_f32, EMBED__STORED_F32)
TILE(tile_f16, EMBED__STORED_F16)
TILE(tile_bf16, EMBED__STORED_BF16)
TILE(tile_i8, EMBED__STORED_I8)

static void use_all(embed__dot_kernels *k) {
  k->tile[EMBED__STORED_F32] = tile_f32;
  k->tile[EMBED__STORED_F16] = tile_f16;
  k->tile[EMBED__STORED_BF16] = tile_bf16;
  k->tile[EMBED__STORED_I8] = tile_i8;
  k->vector_bits = 8 * BYTES;
}
