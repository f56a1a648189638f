/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the gather side share: contexts of every level and thread count, tables at the end of readable
 * memory, and 16-bit floats by plain arithmetic. */
#ifndef TEST_GATHER_H
#define TEST_GATHER_H

#include <embed/embed.h>
#include <math.h>
#include <stdbool.h>

#include "test.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define OK(call)     assert_int_equal((call), EMBED_OK)

enum { CONTEXTS = 12 };

static inline embed_context *context_with(const char *isa, int32_t threads) {
  embed_pool *pool = NULL;
  embed_context *ctx = NULL;
  if (threads > 1) OK(embed_pool_create(threads, &pool));
  embed_context_options o = {.size = sizeof o, .isa = isa, .pool = pool};
  embed_status status = embed_context_create(&o, &ctx);
  embed_pool_release(pool);
  return status == EMBED_OK ? ctx : NULL; /* no such level on this architecture */
}

/* scalar on one thread first; a level that this CPU lacks is its lower neighbour once more. */
static inline int contexts_new(embed_context *all[CONTEXTS]) {
  static const char *const levels[] = {"scalar", "avx2", "avx512", NULL};
  static const int32_t threads[] = {1, 2, 7};
  int count = 0;
  for (int l = 0; l < COUNT(levels); ++l)
    for (int t = 0; t < COUNT(threads); ++t) {
      all[count] = context_with(levels[l], threads[t]);
      if (all[count]) ++count;
    }
  assert_true(count >= 2 * COUNT(threads)); /* the scalar one and the best */
  return count;
}

static inline void contexts_free(embed_context **all, int count) {
  for (int i = 0; i < count; ++i) embed_context_release(all[i]);
}

static inline embed_context *context_new(void) {
  embed_context *ctx = context_with(NULL, 1);
  assert_non_null(ctx);
  return ctx;
}

static inline int64_t size_of(embed_dtype t) { return t == EMBED_F32 ? 4 : 2; }

static inline float f32_of_bf16_bits(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static inline float f32_of_f16_bits(uint16_t h) {
  int exponent = (h >> 10) & 31, mantissa = h & 1023;
  double x = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY) : exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
  return (float)(h >> 15 ? -x : x);
}

/* x rounded to nearest even in the type, as a float. */
static inline float rounded_to(embed_dtype t, float x) {
  if (t == EMBED_F32 || x == 0 || !isfinite(x)) return x;
  int exponent;
  (void)frexp((double)x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
  int step = exponent - (t == EMBED_BF16 ? 8 : 11);
  int least = t == EMBED_BF16 ? -133 : -24;
  if (step < least) step = least;
  double y = ldexp(nearbyint(ldexp((double)x, -step)), step);
  if (t == EMBED_F16 && fabs(y) > 65504) y = x > 0 ? (double)INFINITY : -(double)INFINITY;
  return copysignf((float)y, x);
}

/* Element i of a buffer of any alignment. */
static inline float value_at(const void *buffer, embed_dtype t, int64_t i) {
  const unsigned char *at = (const unsigned char *)buffer + i * size_of(t);
  uint16_t half;
  float x;
  if (t == EMBED_F32) {
    memcpy(&x, at, 4);
    return x;
  }
  memcpy(&half, at, 2);
  return t == EMBED_BF16 ? f32_of_bf16_bits(half) : f32_of_f16_bits(half);
}

static inline void assert_value(const void *buffer, embed_dtype t, int64_t i, float want) {
  float got = value_at(buffer, t, i);
  if (memcmp(&got, &want, 4) != 0 && !(isnan(got) && isnan(want))) fail_msg("element %lld is %a, not %a", (long long)i, (double)got, (double)want);
}

/* Not cmocka's assert_float_equal: it lets a step of float pass, and infinity for any number. */
static inline void assert_near(float got, float want, float within) {
  if (!(fabsf(got - want) <= within)) fail_msg("%a is not near %a", (double)got, (double)want);
}

static inline void assert_exactly(float got, float want) {
  if (!(got == want)) fail_msg("%a is not %a", (double)got, (double)want);
}

static inline embed_table *view_floats(embed_context *ctx, const float *w, int64_t rows, int64_t dim) {
  embed_table *t = NULL;
  OK(embed_table_view(ctx, w, rows, dim, NULL, NULL, NULL, &t));
  return t;
}

typedef struct test_table {
  embed_table *t;
  float *decoded; /* [rows, dim] */
  guarded memory;
} test_table;

/* A table of random rows whose last byte is the last of readable memory; bytes of 0xFF between rows. */
static inline test_table table_new(embed_context *ctx, embed_dtype dtype, int64_t rows, int64_t dim, int64_t gap, uint64_t seed) {
  test_table made = {.decoded = malloc((size_t)(rows * dim) * sizeof(float))};
  embed_table *floats = NULL, *packed = NULL;
  for (int64_t i = 0; i < rows * dim; ++i) made.decoded[i] = 3 * test_uniform(&seed);
  OK(embed_table_borrow(ctx, made.decoded, rows, dim, NULL, NULL, NULL, &floats));
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  OK(embed_table_convert(ctx, floats, &o, &packed));
  int64_t bytes = embed_table_row_bytes(packed);
  o.row_bytes = bytes + gap;
  o.data_bytes = (rows - 1) * o.row_bytes + bytes;
  made.memory = guarded_new((size_t)o.data_bytes, 1);
  memset(made.memory.at, 0xFF, (size_t)o.data_bytes);
  for (int64_t r = 0; r < rows; ++r) memcpy(made.memory.at + r * o.row_bytes, (const char *)embed_table_data(packed) + r * bytes, (size_t)bytes);
  OK(embed_table_view(ctx, made.memory.at, rows, dim, &o, NULL, NULL, &made.t));
  int64_t *ids = malloc((size_t)rows * sizeof *ids);
  for (int64_t r = 0; r < rows; ++r) ids[r] = r;
  OK(embed_table_get_rows(ctx, made.t, ids, rows, made.decoded, EMBED_F32, 0));
  free(ids);
  embed_table_release(packed);
  embed_table_release(floats);
  return made;
}

static inline void table_free(test_table made) {
  embed_table_release(made.t);
  guarded_free(made.memory);
  free(made.decoded);
}

static const embed_dtype stored_dtypes[] = {EMBED_F32,    EMBED_F16,    EMBED_BF16,  EMBED_F64,     EMBED_I8_ROW,  EMBED_I4_GROUP, EMBED_U8_ROW,
                                            EMBED_Q8_0,   EMBED_Q4_0,   EMBED_Q4_1,  EMBED_Q5_0,    EMBED_Q5_1,    EMBED_Q2_K,     EMBED_Q3_K,
                                            EMBED_Q4_K,   EMBED_Q5_K,   EMBED_Q6_K,  EMBED_F8_E4M3, EMBED_F8_E5M2, EMBED_U4_ROW,   EMBED_U2_ROW,
                                            EMBED_IQ4_NL, EMBED_IQ4_XS, EMBED_MXFP4, EMBED_NVFP4};
static const embed_dtype float_dtypes[] = {EMBED_F32, EMBED_F16, EMBED_BF16};

/* The least number of columns from dim on that the dtype can store: of the GGUF blocks, whole ones. */
static inline int64_t whole_dim(embed_dtype t, int64_t dim) {
  while (embed_row_bytes(t, dim, 0) == EMBED_E_UNSUPPORTED) ++dim;
  return dim;
}

static inline void assert_says(const embed_context *ctx, const char *words) {
  if (!strstr(embed_error_text(ctx), words)) fail_msg("\"%s\" does not say \"%s\"", embed_error_text(ctx), words);
}

#endif
