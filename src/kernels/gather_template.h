/* SPDX-License-Identifier: BSD-3-Clause */
/* The gather kernels in the words of a level's vector.h and gather.c, which stand before. One body per stored form; what
 * becomes of a chunk of columns (float or half, past the caches or not) is decided once per chunk and row, which the
 * branch predictor makes free: a copy of the body for each would be six times the code. */
#include "kernels/gather.h"

#define OUTLINE static __attribute__((noinline)) /* shared by forms, or away from their loops */

enum {
  VECTORS = 4,             /* of a chunk, loaded before the first is stored: more are no faster */
  CHUNK = VECTORS * WIDTH, /* columns of a row per step */
  BLOCK_COLUMNS = 32,      /* what block_columns decodes */
  BLOCK_VECTORS = 32 / WIDTH,
};

/* Where the 32 columns from j on begin, of forms with a group: with their scale. */
INLINE int64_t stored_at(embed__form form, int64_t group, int64_t j) {
  switch (form) {
    case EMBED__FORM_f32: return 4 * j;
    case EMBED__FORM_f16:
    case EMBED__FORM_bf16: return 2 * j;
    case EMBED__FORM_i4_group: return j / group * (2 + group / 2) + j % group / 2;
    case EMBED__FORM_q4_0: return j / 32 * 18;
    case EMBED__FORM_q4_1: return j / 32 * 20;
    case EMBED__FORM_q5_0: return j / 32 * 22;
    case EMBED__FORM_q5_1: return j / 32 * 24;
    case EMBED__FORM_q8_0: return j / 32 * 34;
    case EMBED__FORM_q2_k: return j / 256 * 84 + j % 256 / 4;
    case EMBED__FORM_q3_k: return j / 256 * 110 + j % 256 / 4;
    case EMBED__FORM_q4_k: return j / 256 * 144 + j % 256 / 2;
    case EMBED__FORM_q5_k: return j / 256 * 176 + j % 256 / 2;
    case EMBED__FORM_q6_k: return j / 256 * 210 + j % 256 / 2;
    default: return j;
  }
}

/* Into the second-level cache: a fetch into the first holds one of its few line buffers until memory answers, which stores
 * and loads want. Of a K block's fields this meets the q; the few bytes of scales come with them or with the next. */
INLINE void fetch_chunk(embed__form form, int64_t group, const unsigned char *row, int64_t j) {
  enum { K = 256 };
  const int64_t lines = (stored_at(form, group, K) * CHUNK / K + 63) / 64;
  const uintptr_t at = (uintptr_t)(row + stored_at(form, group, j));
  UNROLL for (int i = 0; i < lines; ++i) prefetch_to_l2(at + (uintptr_t)(64 * i));
}

INLINE float float_at(const unsigned char *at) {
  float x;
  memcpy(&x, at, 4);
  return x;
}
INLINE uint32_t word_at(const unsigned char *at) {
  uint32_t x;
  memcpy(&x, at, 4);
  return x;
}

/* Column c of 16 in the low, column c + 16 in the high nibble of a byte; what stands above the nibble is left. */
INLINE ints nibbles(const unsigned char *at, int i) { return right(bytes_at(at + i * WIDTH % 16), i * WIDTH / 16 * 4); }

/* Six bits of step and of offset for sub-block i of Q4_K and Q5_K. */
INLINE void affine_at(const unsigned char *s, int64_t i, int *step, int *offset) {
  if (i < 4) {
    *step = s[i] & 63;
    *offset = s[i + 4] & 63;
  } else {
    *step = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    *offset = s[i + 4] >> 4 | s[i] >> 6 << 4;
  }
}

/* The step of Q3_K's sub-block i. */
INLINE int third_step(const unsigned char *s, int64_t i) { return ((s[i % 8] >> i / 8 * 4 & 15) | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32; }

/* The plain blocks: 32 columns with a scale of their own. */
INLINE void plain_block(embed__form form, const unsigned char *block, floats v[BLOCK_VECTORS]) {
  const bool fifth = form == EMBED__FORM_q5_0 || form == EMBED__FORM_q5_1, offset = form == EMBED__FORM_q4_1 || form == EMBED__FORM_q5_1;
  const floats d = spread(half_at(block)), m = offset ? spread(half_at(block + 2)) : d;
  const unsigned char *bits = block + (offset ? 4 : 2), *qs = bits + (fifth ? 4 : 0);
  const uint32_t high = fifth ? word_at(bits) : 0;
  UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) {
    if (form == EMBED__FORM_q8_0) {
      v[i] = times(d, load_i8(block + 2 + i * WIDTH));
      continue;
    }
    const ints q = nibbles(qs, i);
    const int zero = offset ? 0 : fifth ? 16 : 8;
    floats step = fifth ? floats_of(minus(either(low_bits(q, 4), where(high >> i * WIDTH, 16)), zero)) : floats_of_nibbles(q, zero);
    v[i] = offset ? plus(times(d, step), m) : times(d, step);
  }
}

/* The K blocks: 32 columns from column c of a block of 256 on, where sub-blocks have 16 or 32. */
INLINE void k_block(embed__form form, const unsigned char *block, int64_t c, floats v[BLOCK_VECTORS]) {
  const int64_t i = c / 32, n = c / 128, r = c / 32 % 4; /* r: which of the 32 columns that share bytes */
  switch (form) {
    case EMBED__FORM_q2_k: {
      const float d = half_at(block + 80), dmin = half_at(block + 82);
      UNROLL for (int p = 0; p < BLOCK_VECTORS; ++p) {
        int s = block[2 * i + p * WIDTH / 16];
        ints q = low_bits(right(bytes_at(block + 16 + 32 * n + p * WIDTH), (int)(2 * r)), 2);
        v[p] = less(times(spread(d * (float)(s & 15)), floats_of(q)), spread(dmin * (float)(s >> 4)));
      }
      return;
    }
    case EMBED__FORM_q3_k: {
      const float d = half_at(block + 108);
      UNROLL for (int p = 0; p < BLOCK_VECTORS; ++p) {
        ints q = low_bits(right(bytes_at(block + 32 + 32 * n + p * WIDTH), (int)(2 * r)), 2);
        q = either(q, left(low_bits(right(bytes_at(block + p * WIDTH), (int)i), 1), 2));
        v[p] = times(spread(d * (float)third_step(block + 96, 2 * i + p * WIDTH / 16)), floats_of(minus(q, 4)));
      }
      return;
    }
    case EMBED__FORM_q6_k: {
      const float d = half_at(block + 208);
      UNROLL for (int p = 0; p < BLOCK_VECTORS; ++p) {
        ints q = low_bits(right(bytes_at(block + 64 * n + 32 * (r % 2) + p * WIDTH), (int)(4 * (r / 2))), 4);
        q = either(q, left(low_bits(right(bytes_at(block + 128 + 32 * n + p * WIDTH), (int)(2 * r)), 2), 4));
        v[p] = times(spread(d * (float)(signed char)block[192 + 2 * i + p * WIDTH / 16]), floats_of(minus(q, 32)));
      }
      return;
    }
    default: { /* Q4_K, Q5_K */
      const bool fifth = form == EMBED__FORM_q5_k;
      int six_step, six_offset;
      affine_at(block + 4, i, &six_step, &six_offset);
      const floats step = spread(half_at(block) * (float)six_step), offset = spread(half_at(block + 2) * (float)six_offset);
      const unsigned char *qs = block + (fifth ? 48 : 16) + 32 * (i / 2);
      UNROLL for (int p = 0; p < BLOCK_VECTORS; ++p) {
        const ints q = right(bytes_at(qs + p * WIDTH), (int)(4 * (i % 2)));
        floats value;
        if (fifth)
          value = floats_of(either(low_bits(q, 4), left(low_bits(right(bytes_at(block + 16 + p * WIDTH), (int)i), 1), 4)));
        else
          value = floats_of_nibbles(q, 0);
        v[p] = less(times(step, value), offset);
      }
    }
  }
}

/* Columns [j, j + 32) of a row, decoded; j is a multiple of 32. */
INLINE void block_columns(embed__form form, int64_t group, const unsigned char *row, int64_t dim, int64_t j, floats v[BLOCK_VECTORS]) {
  switch (form) {
    case EMBED__FORM_f32: UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) v[i] = load_f32(row + 4 * (j + i * WIDTH)); return;
    case EMBED__FORM_f16: UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) v[i] = load_f16(row + 2 * (j + i * WIDTH)); return;
    case EMBED__FORM_bf16: UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) v[i] = load_bf16(row + 2 * (j + i * WIDTH)); return;
    case EMBED__FORM_i8_row: UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) v[i] = times(spread(float_at(row + dim)), load_i8(row + j + i * WIDTH)); return;
    case EMBED__FORM_u8_row:
      UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) {
        v[i] = times_plus(spread(float_at(row + dim)), floats_of(bytes_at(row + j + i * WIDTH)), spread(float_at(row + dim + 4)));
      }
      return;
    case EMBED__FORM_i4_group: {
      const unsigned char *scaled = row + j / group * (2 + group / 2);
      const floats d = spread(half_at(scaled));
      UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) v[i] = times(d, floats_of_nibbles(nibbles(scaled + 2 + j % group / 2, i), 8));
      return;
    }
    case EMBED__FORM_q2_k: k_block(form, row + j / 256 * 84, j % 256, v); return;
    case EMBED__FORM_q3_k: k_block(form, row + j / 256 * 110, j % 256, v); return;
    case EMBED__FORM_q4_k: k_block(form, row + j / 256 * 144, j % 256, v); return;
    case EMBED__FORM_q5_k: k_block(form, row + j / 256 * 176, j % 256, v); return;
    case EMBED__FORM_q6_k: k_block(form, row + j / 256 * 210, j % 256, v); return;
    default: plain_block(form, row + stored_at(form, group, j), v);
  }
}

/* Columns are stored one by one: any number of them can be read. */
INLINE bool one_by_one(embed__form form) {
  return form == EMBED__FORM_f32 || form == EMBED__FORM_f16 || form == EMBED__FORM_bf16 || form == EMBED__FORM_i8_row || form == EMBED__FORM_u8_row;
}

/* Columns [j, j + t) of such a row, 0 < t < WIDTH. */
INLINE floats part_columns(embed__form form, const unsigned char *row, int64_t dim, int64_t j, int64_t t) {
  switch (form) {
    case EMBED__FORM_f32: return load_f32_part(row + 4 * j, t);
    case EMBED__FORM_f16: return load_f16_part(row + 2 * j, t);
    case EMBED__FORM_bf16: return load_bf16_part(row + 2 * j, t);
    case EMBED__FORM_i8_row: return times(spread(float_at(row + dim)), load_i8_part(row + j, t));
    default: return times_plus(spread(float_at(row + dim)), floats_of(bytes_at_part(row + j, t)), spread(float_at(row + dim + 4)));
  }
}

INLINE floats one_vector(embed__form form, const unsigned char *row, int64_t dim, int64_t j) {
  switch (form) {
    case EMBED__FORM_f32: return load_f32(row + 4 * j);
    case EMBED__FORM_f16: return load_f16(row + 2 * j);
    case EMBED__FORM_bf16: return load_bf16(row + 2 * j);
    case EMBED__FORM_i8_row: return times(spread(float_at(row + dim)), load_i8(row + j));
    default: return times_plus(spread(float_at(row + dim)), floats_of(bytes_at(row + j)), spread(float_at(row + dim + 4)));
  }
}

/* The last columns of a row, fewer than a chunk, into out [CHUNK]. i4 stores its last group whole; the other blocks have
 * no part of one. */
INLINE void last_columns(embed__form form, int64_t group, const unsigned char *row, int64_t dim, int64_t j, float *out) {
  for (; j + BLOCK_COLUMNS <= dim || (form == EMBED__FORM_i4_group && j < dim); j += BLOCK_COLUMNS, out += BLOCK_COLUMNS) {
    floats v[BLOCK_VECTORS];
    block_columns(form, group, row, dim, j, v);
    UNROLL for (int i = 0; i < BLOCK_VECTORS; ++i) store(out + i * WIDTH, v[i]);
  }
  if (!one_by_one(form)) return;
  for (; j + WIDTH <= dim; j += WIDTH, out += WIDTH) store(out, one_vector(form, row, dim, j));
  const int64_t rest = dim - j;
  if (rest > 0 && rest < WIDTH) store(out, part_columns(form, row, dim, j, rest)); /* gcc wants both bounds */
}
typedef void last_of_form(const embed__rows *rows, int r, int64_t j, float *out);

OUTLINE void put_halves(const embed__place *to, unsigned char *at, floats a, floats b, floats c, floats d) {
  const floats v[VECTORS] = {a, b, c, d};
#define PUT_ALL(put, size) UNROLL for (int i = 0; i < VECTORS; ++i) put(at + (size)*i * WIDTH, v[i])
  if (to->type == EMBED_F16) {
    if (to->streaming)
      PUT_ALL(stream_f16, 2);
    else
      PUT_ALL(store_f16, 2);
  } else {
    if (to->streaming)
      PUT_ALL(stream_bf16, 2);
    else
      PUT_ALL(store_bf16, 2);
  }
}

INLINE void put_chunk(const embed__place *to, unsigned char *out, int64_t j, const floats v[VECTORS]) {
  if (to->type == EMBED_F32) {
    unsigned char *at = out + 4 * j;
    if (to->streaming)
      PUT_ALL(stream_f32, 4);
    else
      PUT_ALL(store_f32, 4);
  } else {
    put_halves(to, out + 2 * j, v[0], v[1], v[2], v[3]);
  }
#undef PUT_ALL
}

/* t columns from j on; whole vectors may go past the caches here, too, but it would not be worth its code. */
OUTLINE void put_last(const embed__place *to, unsigned char *out, int64_t j, int64_t t, const float *row, floats by) {
  unsigned char *at = out + (to->type == EMBED_F32 ? 4 : 2) * j;
  for (; t > 0; t -= WIDTH, row += WIDTH) {
    floats v = times(load(row), by); /* the buffer has room for whole vectors */
    if (to->type == EMBED_F32) {
      if (t >= WIDTH)
        store_f32(at, v);
      else
        store_part((float *)(void *)at, t, v);
      at += 4 * WIDTH;
    } else if (to->type == EMBED_F16) {
      if (t >= WIDTH)
        store_f16(at, v);
      else
        store_f16_part(at, t, v);
      at += 2 * WIDTH;
    } else {
      if (t >= WIDTH)
        store_bf16(at, v);
      else
        store_bf16_part(at, t, v);
      at += 2 * WIDTH;
    }
  }
}

INLINE void chunk_columns(embed__form form, int64_t group, const unsigned char *row, int64_t dim, int64_t j, floats v[VECTORS]) {
  UNROLL for (int b = 0; b < CHUNK / BLOCK_COLUMNS; ++b) block_columns(form, group, row, dim, j + b * BLOCK_COLUMNS, v + b * BLOCK_VECTORS);
}

INLINE void fetch_last(const embed__rows *rows) {
  for (int r = 0; r < rows->count; ++r) prefetch_to_l2((uintptr_t)(rows->ahead[r] + rows->bytes - 1));
}

INLINE void decode_rows(embed__form form, int64_t group, last_of_form *last, const embed__rows *rows, float scale, const embed__place *to) {
  const floats by = spread(scale);
  const bool scaled = scale != 1.0f || form == EMBED__FORM_f32 || form == EMBED__FORM_f16 ||
                      form == EMBED__FORM_bf16; /* by 1, a product changes only NaNs that come as they are stored */
  const int64_t dim = rows->dim;
  const embed__place place = *to;
  int64_t j = 0;
  for (; j + CHUNK <= dim; j += CHUNK) {
    unsigned char *out = place.at;
    for (int r = 0; r < rows->count; ++r, out += place.step) {
      floats v[VECTORS];
      fetch_chunk(form, group, rows->ahead[r], j);
      chunk_columns(form, group, rows->row[r], dim, j, v);
      if (scaled) {
        UNROLL for (int i = 0; i < VECTORS; ++i) v[i] = times(v[i], by);
      }
      put_chunk(&place, out, j, v);
    }
  }
  fetch_last(rows);
  if (j == dim) return;
  for (int r = 0; r < rows->count; ++r) {
    float row[CHUNK];
    last(rows, r, j, row);
    put_last(&place, place.at + r * place.step, j, dim - j, row, by);
  }
}

/* sum = sum and one more row's vector. A bfloat is widened by a shift, which leaves a signalling NaN as it is: decoding
 * multiplies by a scale, and makes it quiet. An extreme multiplies by its weight of 1, which no compiler leaves out. */
INLINE floats take_in(embed__pooling how, bool bfloats, bool only, floats weight, floats row, floats sum) {
  if (how == EMBED__POOL_SUM) return plus(sum, row);
  if (how == EMBED__POOL_WEIGHTED) return plus(sum, times(weight, row));
  if (bfloats) row = times(weight, row);
  if (only) return row;
  return how == EMBED__POOL_MAX ? larger(sum, row) : smaller(sum, row);
}

INLINE void pool_part(embed__pooling how, bool bfloats, bool first, float weight, const float *row, int64_t t, float *pooled) {
  for (; t > 0; t -= WIDTH, row += WIDTH, pooled += WIDTH) {
    floats sum = first ? zeros() : t >= WIDTH ? load(pooled) : load_part(pooled, t);
    sum = take_in(how, bfloats, first, spread(weight), load(row), sum);
    if (t >= WIDTH)
      store(pooled, sum);
    else
      store_part(pooled, t, sum);
  }
}
/* Apart: with a variable for bfloats clang multiplies other rows by 1, which makes their NaNs quiet. */
OUTLINE void pool_last(embed__pooling how, bool first, float weight, const float *row, int64_t t, float *pooled) {
  pool_part(how, false, first, weight, row, t, pooled);
}
OUTLINE void pool_last_bfloats(embed__pooling how, bool first, float weight, const float *row, int64_t t, float *pooled) {
  pool_part(how, true, first, weight, row, t, pooled);
}

INLINE void pool_as(embed__form form, int64_t group, last_of_form *last, const embed__rows *rows, embed__pooling how, const float *weights, bool first,
                    float *pooled) {
  const int64_t dim = rows->dim;
  int64_t j = 0;
  for (; j + CHUNK <= dim; j += CHUNK) {
    floats sum[VECTORS];
    UNROLL for (int i = 0; i < VECTORS; ++i) sum[i] = first ? zeros() : load(pooled + j + i * WIDTH);
    for (int r = 0; r < rows->count; ++r) {
      floats v[VECTORS], weight = how == EMBED__POOL_SUM ? zeros() : spread(weights[r]);
      fetch_chunk(form, group, rows->ahead[r], j);
      chunk_columns(form, group, rows->row[r], dim, j, v);
      UNROLL for (int i = 0; i < VECTORS; ++i) sum[i] = take_in(how, form == EMBED__FORM_bf16, first && r == 0, weight, v[i], sum[i]);
    }
    UNROLL for (int i = 0; i < VECTORS; ++i) store(pooled + j + i * WIDTH, sum[i]);
  }
  fetch_last(rows);
  if (j == dim) return;
  for (int r = 0; r < rows->count; ++r) {
    float row[CHUNK];
    last(rows, r, j, row);
    const float weight = how == EMBED__POOL_SUM ? 0 : weights[r];
    if (form == EMBED__FORM_bf16)
      pool_last_bfloats(how, first && r == 0, weight, row, dim - j, pooled + j);
    else
      pool_last(how, first && r == 0, weight, row, dim - j, pooled + j);
  }
}

/* The sums, which are what people ask for, have loops of their own. */
INLINE void pool_rows(embed__form form, int64_t group, last_of_form *last, const embed__rows *rows, embed__pooling how, const float *weights, bool first,
                      float *pooled) {
  if (how == EMBED__POOL_SUM)
    pool_as(form, group, last, rows, EMBED__POOL_SUM, weights, first, pooled);
  else
    pool_as(form, group, last, rows, how, weights, first, pooled);
}

#define FORM(form, group)                                                                                                           \
  OUTLINE void last_##form##_##group(const embed__rows *rows, int r, int64_t j, float *out) {                                       \
    last_columns(EMBED__FORM_##form, group, rows->row[r], rows->dim, j, out);                                                       \
  }                                                                                                                                 \
  static void decode_##form##_##group(const embed__rows *rows, float scale, const embed__place *out) {                              \
    decode_rows(EMBED__FORM_##form, group, last_##form##_##group, rows, scale, out);                                                \
  }                                                                                                                                 \
  static void pool_##form##_##group(const embed__rows *rows, embed__pooling how, const float *weights, bool first, float *pooled) { \
    pool_rows(EMBED__FORM_##form, group, last_##form##_##group, rows, how, weights, first, pooled);                                 \
  }
/* Without a group of the table's choice. */
#define FORMS(EACH) \
  EACH(f32, 0)      \
  EACH(f16, 0)      \
  EACH(bf16, 0)     \
  EACH(i8_row, 0)   \
  EACH(u8_row, 0) EACH(q8_0, 0) EACH(q4_0, 0) EACH(q4_1, 0) EACH(q5_0, 0) EACH(q5_1, 0) EACH(q2_k, 0) EACH(q3_k, 0) EACH(q4_k, 0) EACH(q5_k, 0) EACH(q6_k, 0)
FORMS(FORM)
FORM(i4_group, 32)
FORM(i4_group, 64)
FORM(i4_group, 128)

static void decode_i4_group(const embed__rows *rows, float scale, const embed__place *out) {
  if (rows->group == 32)
    decode_i4_group_32(rows, scale, out);
  else if (rows->group == 64)
    decode_i4_group_64(rows, scale, out);
  else
    decode_i4_group_128(rows, scale, out);
}
static void pool_i4_group(const embed__rows *rows, embed__pooling how, const float *weights, bool first, float *pooled) {
  if (rows->group == 32)
    pool_i4_group_32(rows, how, weights, first, pooled);
  else if (rows->group == 64)
    pool_i4_group_64(rows, how, weights, first, pooled);
  else
    pool_i4_group_128(rows, how, weights, first, pooled);
}

/* Fewer than 64 bytes. */
INLINE void copy_part_long(unsigned char *out, const unsigned char *row, int64_t bytes) {
  for (; bytes >= BYTES; bytes -= BYTES, out += BYTES, row += BYTES) store_words(out, load_words(row));
  if (bytes > 0) copy_part(out, row, bytes);
}

INLINE void copy_as(const embed__rows *rows, const embed__place *to, bool streaming) {
  enum { STEP = VECTORS * BYTES };
  const int64_t bytes = rows->bytes, step = to->step;
  unsigned char *const first = to->at;
  int64_t at = streaming ? (int64_t)(-(uintptr_t)first % 64) : 0; /* the same for all rows */
  if (at > bytes) at = bytes;
  for (int r = 0; at && r < rows->count; ++r) copy_part_long(first + r * step, rows->row[r], at);
  for (; at + STEP <= bytes; at += STEP) {
    unsigned char *out = first + at;
    for (int r = 0; r < rows->count; ++r, out += step) {
      words v[VECTORS];
      UNROLL for (int b = 0; b < STEP; b += 64) prefetch_to_l2((uintptr_t)(rows->ahead[r] + at + b));
      UNROLL for (int i = 0; i < VECTORS; ++i) v[i] = load_words(rows->row[r] + at + i * BYTES);
      UNROLL for (int i = 0; i < VECTORS; ++i) {
        if (streaming)
          stream_words(out + i * BYTES, v[i]);
        else
          store_words(out + i * BYTES, v[i]);
      }
    }
  }
  if (at == bytes) return;
  unsigned char *out = first;
  for (int r = 0; r < rows->count; ++r, out += step) {
    int64_t rest = at;
    prefetch_to_l2((uintptr_t)(rows->ahead[r] + at));
    prefetch_to_l2((uintptr_t)(rows->ahead[r] + bytes - 1));
    for (; rest + BYTES <= bytes; rest += BYTES) {
      if (streaming)
        stream_words(out + rest, load_words(rows->row[r] + rest));
      else
        store_words(out + rest, load_words(rows->row[r] + rest));
    }
    const int64_t left = bytes - rest;
    if (left > 0 && left < BYTES) copy_part(out + rest, rows->row[r] + rest, left);
  }
}
static void copy(const embed__rows *rows, const embed__place *out) {
  if (out->streaming)
    copy_as(rows, out, true);
  else
    copy_as(rows, out, false);
}

static void use_all(embed__gather_kernels *k) {
#define USE(form, group)                                   \
  k->decode[EMBED__FORM_##form] = decode_##form##_##group; \
  k->pool[EMBED__FORM_##form] = pool_##form##_##group;
  FORMS(USE)
#undef USE
  k->decode[EMBED__FORM_i4_group] = decode_i4_group;
  k->pool[EMBED__FORM_i4_group] = pool_i4_group;
  k->copy = copy;
}
