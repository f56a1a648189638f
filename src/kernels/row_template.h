/* SPDX-License-Identifier: BSD-3-Clause */
/* The row kernels in the words of a level's vector.h, which is included before. Whole vectors, then the rest in part:
 * nothing past a row is touched. Products and sums are rounded apart, as in scalar/row.c. */
#include "kernels/row.h"

/* A block of a row is in registers before the first of it is stored: loads that alternate with stores reach 70 to 80 %
 * of that. VALUE is what out gets before the caller's scale multiplies it. */
#define DECODE_VECTORS(count, form, size)                                                          \
  for (; j + (count)*WIDTH <= dim; j += (count)*WIDTH) {                                           \
    floats v[count];                                                                               \
    UNROLL for (int i = 0; i < (count); ++i) v[i] = load_##form(bytes + (size) * (j + i * WIDTH)); \
    UNROLL for (int i = 0; i < (count); ++i) store(out + j + i * WIDTH, times(VALUE(v[i]), by));   \
  }
#define DECODE(form, size)                                    \
  const unsigned char *bytes = row;                           \
  const floats by = spread(scale);                            \
  int64_t j = 0;                                              \
  DECODE_VECTORS(BLOCK, form, size)                           \
  DECODE_VECTORS(4, form, size)                               \
  DECODE_VECTORS(1, form, size)                               \
  if (j < dim) {                                              \
    floats v = load_##form##_part(bytes + (size)*j, dim - j); \
    store_part(out + j, dim - j, times(VALUE(v), by));        \
  }

#define VALUE(v) (v)
static void decode_f32(const void *row, float *out, int64_t dim, float scale) { DECODE(f32, 4) }
static void decode_f16(const void *row, float *out, int64_t dim, float scale) { DECODE(f16, 2) }
static void decode_bf16(const void *row, float *out, int64_t dim, float scale) { DECODE(bf16, 2) }
#undef VALUE
#define VALUE(v) times(of_row, v)
static void decode_i8(const void *row, float *out, int64_t dim, float scale) {
  float row_scale;
  memcpy(&row_scale, (const unsigned char *)row + dim, 4);
  const floats of_row = spread(row_scale);
  DECODE(i8, 1)
}
#undef VALUE

#define ROUND(form)                                                               \
  unsigned char *bytes = (unsigned char *)out;                                    \
  int64_t j = 0;                                                                  \
  for (; j + WIDTH <= dim; j += WIDTH) store_##form(bytes + 2 * j, load(in + j)); \
  if (j < dim) store_##form##_part(bytes + 2 * j, dim - j, load_part(in + j, dim - j));
static void to_f16(const float *in, uint16_t *out, int64_t dim) { ROUND(f16) }
static void to_bf16(const float *in, uint16_t *out, int64_t dim) { ROUND(bf16) }

#define COPY_VECTORS(count, put)                                                     \
  for (; at + (count)*BYTES <= bytes; at += (count)*BYTES) {                         \
    words v[count];                                                                  \
    UNROLL for (int i = 0; i < (count); ++i) v[i] = load_words(in + at + i * BYTES); \
    UNROLL for (int i = 0; i < (count); ++i) put(to + at + i * BYTES, v[i]);         \
  }
#define COPY(put)          \
  COPY_VECTORS(BLOCK, put) \
  COPY_VECTORS(4, put)     \
  COPY_VECTORS(1, put)
static void copy(const void *row, void *out, int64_t bytes, bool streaming) {
  const unsigned char *in = row;
  unsigned char *to = out;
  int64_t at = 0;
  if (streaming) {
    int64_t head = (int64_t)(-(uintptr_t)to % BYTES); /* past the caches go whole aligned vectors only */
    if (head > bytes) head = bytes;
    if (head) copy_part(to, in, head);
    at = head;
    COPY(stream_words)
  } else {
    COPY(store_words)
  }
  if (at < bytes) copy_part(to + at, in + at, bytes - at);
}

static void fence(void) { stream_end(); }

/* target[j] = result of a = target[j] and b = row[j]. */
#define UPDATE(target, result)                                                    \
  int64_t j = 0;                                                                  \
  for (; j + WIDTH <= dim; j += WIDTH) {                                          \
    floats a = load((target) + j), b = load(row + j);                             \
    store((target) + j, result);                                                  \
  }                                                                               \
  if (j < dim) {                                                                  \
    floats a = load_part((target) + j, dim - j), b = load_part(row + j, dim - j); \
    store_part((target) + j, dim - j, result);                                    \
  }
static void add(float *sum, const float *row, int64_t dim) { UPDATE(sum, plus(a, b)) }
static void add_scaled(float *sum, const float *row, int64_t dim, float weight) {
  const floats by = spread(weight);
  UPDATE(sum, plus(a, times(by, b)))
}
static void multiply(float *values, const float *row, int64_t dim, float factor) {
  const floats by = spread(factor);
  UPDATE(values, times(times(a, by), b))
}
static void keep_max(float *best, const float *row, int64_t dim) { UPDATE(best, larger(a, b)) }
static void keep_min(float *best, const float *row, int64_t dim) { UPDATE(best, smaller(a, b)) }

static void scale(float *row, int64_t dim, float factor) {
  const floats by = spread(factor);
  int64_t j = 0;
  for (; j + WIDTH <= dim; j += WIDTH) store(row + j, times(load(row + j), by));
  if (j < dim) store_part(row + j, dim - j, times(load_part(row + j, dim - j), by));
}

/* Past the row stand zeros, whose squares change no sum. */
static double sum_squares(const float *row, int64_t dim) {
  doubles sum[PARTS][2];
  UNROLL for (int p = 0; p < PARTS; ++p) sum[p][0] = sum[p][1] = no_doubles();
  int64_t j = 0;
  for (; j + 16 <= dim; j += 16) {
    UNROLL for (int p = 0; p < PARTS; ++p) {
      floats v = load(row + j + p * WIDTH);
      sum[p][0] = plus_square(sum[p][0], lower_doubles(v));
      sum[p][1] = plus_square(sum[p][1], upper_doubles(v));
    }
  }
  UNROLL for (int p = 0; p < PARTS; ++p) {
    int64_t left = dim - j - p * WIDTH;
    if (left <= 0) break;
    floats v = left >= WIDTH ? load(row + j + p * WIDTH) : load_part(row + j + p * WIDTH, left);
    sum[p][0] = plus_square(sum[p][0], lower_doubles(v));
    sum[p][1] = plus_square(sum[p][1], upper_doubles(v));
  }
  double lane[16];
  UNROLL for (int p = 0; p < PARTS; ++p) {
    store_doubles(lane + p * WIDTH, sum[p][0]);
    store_doubles(lane + p * WIDTH + WIDTH / 2, sum[p][1]);
  }
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

/* Each level's embed__row_<level> hands its own copies of these out. */
static void use_all(embed__row_kernels *k) {
  k->decode[EMBED__STORED_F32] = decode_f32;
  k->decode[EMBED__STORED_F16] = decode_f16;
  k->decode[EMBED__STORED_BF16] = decode_bf16;
  k->decode[EMBED__STORED_I8] = decode_i8;
  k->to_f16 = to_f16;
  k->to_bf16 = to_bf16;
  k->copy = copy;
  k->fence = fence;
  k->add = add;
  k->add_scaled = add_scaled;
  k->scale = scale;
  k->multiply = multiply;
  k->keep_max = keep_max;
  k->keep_min = keep_min;
  k->sum_squares = sum_squares;
}
