/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows in place: the bits of decoded rows under the tile of floats. */
#include "timed.h"

#include "codec/codec.h"

enum { FORMS = 6, ROWS = 40, HIDDEN = 9, PAD = 5 };
static const struct kind {
  embed_dtype dtype;
  embed__form form;
  int64_t half[2]; /* where a block keeps its halves, -1 = none */
  int64_t block_columns, block_bytes;
} kinds[FORMS] = {
    {EMBED_I4_GROUP, EMBED__FORM_i4_group, {0, -1}, 0, 0}, {EMBED_Q8_0, EMBED__FORM_q8_0, {0, -1}, 32, 34},
    {EMBED_Q4_0, EMBED__FORM_q4_0, {0, -1}, 32, 18},       {EMBED_Q4_K, EMBED__FORM_q4_k, {0, 2}, 256, 144},
    {EMBED_Q5_K, EMBED__FORM_q5_k, {0, 2}, 256, 176},      {EMBED_Q6_K, EMBED__FORM_q6_k, {208, -1}, 256, 210},
};

/* Rows of any bits, stride bytes apart, between the ends of which and an unreadable page nothing is; scales from tiny to large. */
typedef struct setup {
  const struct kind *kind;
  int64_t dim, packed, stride, ldx;
  int32_t group;
  guarded table, hidden;
  float *x, *decoded; /* decoded [ROWS, dim], by the codec of level scalar */
} setup;

static void random_halves(const setup *s, unsigned char *row, uint64_t *state) {
  int64_t bytes = s->kind->block_bytes ? s->kind->block_bytes : 2 + s->group / 2;
  for (int64_t at = 0; at < s->packed; at += bytes) {
    for (int h = 0; h < 2 && s->kind->half[h] >= 0; ++h) {
      float size = (const float[]){1, 0x1p-20f, 30000, 1, 0}[test_random(state) % 5];
      uint16_t half = embed__f16_of_f32(test_uniform(state) * size);
      memcpy(row + at + s->kind->half[h], &half, 2);
    }
  }
}

static void decode_all(const setup *s) {
  embed__kernels scalar = scalar_kernels();
  for (int64_t r = 0; r < ROWS; ++r)
    embed__codec_find(s->kind->dtype)->decode(&scalar, s->table.at + r * s->stride, s->decoded + r * s->dim, s->dim, s->group, 1.0f);
}

static setup setup_new(const struct kind *kind, int64_t dim, int32_t group, uint64_t seed) {
  uint64_t state = seed;
  setup s = {.kind = kind, .dim = dim, .group = group, .packed = embed__row_bytes(kind->dtype, dim, group), .ldx = dim + (int64_t)seed % 3};
  s.stride = s.packed + (int64_t)seed % PAD; /* any alignment of rows */
  const int at_end = seed % 4 != 3;
  s.table = guarded_new((size_t)((ROWS - 1) * s.stride + s.packed), at_end);
  s.hidden = guarded_new((size_t)((HIDDEN - 1) * s.ldx + dim) * sizeof(float), at_end);
  s.x = (float *)(void *)s.hidden.at;
  s.decoded = malloc((size_t)(ROWS * dim) * sizeof(float));
  random_bytes(s.table.at, (size_t)((ROWS - 1) * s.stride + s.packed), &state);
  for (int64_t r = 0; r < ROWS; ++r) random_halves(&s, s.table.at + r * s.stride, &state);
  for (int64_t i = 0; i < (HIDDEN - 1) * s.ldx + dim; ++i) s.x[i] = test_uniform(&state) * (i % 41 == 3 ? 1e5f : i % 7 ? 1 : -0.0f);
  decode_all(&s);
  return s;
}
static void setup_free(setup *s) {
  guarded_free(s->table);
  guarded_free(s->hidden);
  free(s->decoded);
}

/* z [n, count] of rows [first, first + count) and hidden rows [i, i + n), in a pattern that nothing else may touch. */
static void products(const embed__kernels *k, const setup *s, int64_t first, int64_t count, int64_t i, int64_t n, float *z) {
  const int64_t ldz = count + 2;
  guarded out = guarded_new((size_t)(n * ldz) * 4 + 4, 1);
  float *at = (float *)(void *)out.at;
  memset(at, 0xA5, (size_t)(n * ldz) * 4 + 4);
  k->dot_blocks.tile[s->kind->form](s->table.at + first * s->stride, s->stride, count, s->x + i * s->ldx, s->ldx, n, s->dim, s->group, at + 1, ldz);
  for (int64_t h = 0; h < n; ++h) {
    memcpy(z + h * count, at + 1 + h * ldz, (size_t)count * 4);
    memset(at + 1 + h * ldz, 0xA5, (size_t)count * 4);
  }
  assert_true(test_all_bytes(at, (size_t)(n * ldz) * 4 + 4, 0xA5));
  guarded_free(out);
}

static void each_shape(const embed__kernels *k, void (*check)(const embed__kernels *k, setup *s)) {
  static const int64_t blocks[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 33, 64};
  uint64_t seed = 1;
  for (int f = 0; f < FORMS; ++f) {
    if (!k->dot_blocks.tile[kinds[f].form]) continue;
    for (int32_t group = 32; group <= (kinds[f].block_columns ? 32 : 128); group *= 2) {
      for (size_t b = 0; b < sizeof blocks / sizeof *blocks; ++b) {
        if (kinds[f].block_columns == 256 && blocks[b] > 8) continue;
        for (int64_t tail = 0; tail < (kinds[f].block_columns ? 1 : 32); tail += 1 + 2 * (blocks[b] > 1)) {
          int64_t columns = kinds[f].block_columns ? kinds[f].block_columns : 32;
          setup s = setup_new(&kinds[f], columns * blocks[b] - tail, kinds[f].block_columns ? 0 : group, ++seed);
          check(k, &s);
          setup_free(&s);
        }
      }
    }
  }
}

static void check_bits(const embed__kernels *k, setup *s) {
  static float want[HIDDEN * ROWS], z[HIDDEN * ROWS];
  for (int64_t count = 1; count <= ROWS; count += s->dim < 100 ? 1 : 13) {
    int64_t n = 1 + count % HIDDEN, i = HIDDEN - n, first = ROWS - count;
    products(k, s, first, count, i, n, z);
    k->dot.tile[EMBED__STORED_F32](s->decoded + first * s->dim, 4 * s->dim, count, s->x + i * s->ldx, s->ldx, n, s->dim, want, count);
    assert_same_bits(z, want, (size_t)(n * count) * 4);
  }
  for (int64_t n = 0; n <= HIDDEN; ++n) {
    products(k, s, 0, n == 4 ? 0 : ROWS, 0, n, z);
    if (n == 4) continue;
    k->dot.tile[EMBED__STORED_F32](s->decoded, 4 * s->dim, ROWS, s->x, s->ldx, n, s->dim, want, ROWS);
    assert_same_bits(z, want, (size_t)(n * ROWS) * 4);
  }
}
static void check_levels(const embed__kernels *k) { each_shape(k, check_bits); }
static void products_have_the_bits_of_decoded_rows(void **state) {
  (void)state;
  each_level(0, check_levels);
}

static void check_error(const embed__kernels *k, setup *s) {
  static float z[HIDDEN * ROWS];
  products(k, s, 0, ROWS, 0, HIDDEN, z);
  for (int64_t i = 0; i < HIDDEN; ++i) {
    for (int64_t r = 0; r < ROWS; ++r) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < s->dim; ++j) {
        double product = (double)s->decoded[r * s->dim + j] * (double)s->x[i * s->ldx + j];
        sum += product;
        size += fabs(product);
      }
      double error = fabs((double)z[i * ROWS + r] - sum);
      if (!(error <= 2e-6 * size)) fail_msg("%s, dim %d: %g of sum |w||x|", embed__dtype_name(s->kind->dtype), (int)s->dim, error / size);
    }
  }
}
static void check_errors(const embed__kernels *k) { each_shape(k, check_error); }
static void products_are_within_2e_6_of_double(void **state) {
  (void)state;
  each_level(0, check_errors);
}

/* A hidden row, or the scale of a table row, that is no number: its own products and no others. */
static void check_no_number(const embed__kernels *k, setup *s) {
  static float clean[HIDDEN * ROWS], z[HIDDEN * ROWS];
  if (s->dim % 3) return;
  products(k, s, 0, ROWS, 0, HIDDEN, clean);
  float *x = s->x + 2 * s->ldx + s->dim - 1, before = *x;
  *x = NAN;
  products(k, s, 0, ROWS, 0, HIDDEN, z);
  for (int64_t i = 0; i < HIDDEN; ++i) {
    if (i != 2) assert_same_bits(z + i * ROWS, clean + i * ROWS, ROWS * 4);
    for (int64_t r = 0; r < ROWS && i == 2; ++r) assert_true(isnan(z[i * ROWS + r]));
  }
  *x = before;
  for (int bad = 0; bad < 2; ++bad) {
    memcpy(s->table.at + 7 * s->stride + s->kind->half[0], &(uint16_t){(uint16_t)(bad ? 0x7C00 : 0x7E00)}, 2);
    products(k, s, 0, ROWS, 0, HIDDEN, z);
    for (int64_t i = 0; i < HIDDEN; ++i) {
      for (int64_t r = 0; r < ROWS; ++r) {
        if (r != 7)
          assert_same_bits(z + i * ROWS + r, clean + i * ROWS + r, 4);
        else
          assert_true(bad ? !isfinite(z[i * ROWS + r]) : isnan(z[i * ROWS + r]));
      }
    }
  }
}
static void check_no_numbers(const embed__kernels *k) { each_shape(k, check_no_number); }
static void what_is_no_number_touches_its_own_products_alone(void **state) {
  (void)state;
  each_level(0, check_no_numbers);
}

static void check_control(const embed__kernels *k, setup *s) {
  static float z[HIDDEN * ROWS];
  unsigned before = control_bits();
  products(k, s, 0, ROWS, 0, HIDDEN, z);
  assert_int_equal(control_bits(), before);
}
static void check_controls(const embed__kernels *k) { each_shape(k, check_control); }
static void control_bits_stay(void **state) {
  (void)state;
  each_level(0, check_controls);
}

/* --- timed: 40 rows of 1024 columns; the specification decodes them first --- */

typedef struct timed_blocks {
  const embed__kernels *k;
  const setup *s;
  int64_t n;
  float z[HIDDEN * ROWS];
} timed_blocks;

static void run_blocks(void *job) {
  timed_blocks *t = job;
  const setup *s = t->s;
  embed__dot_blocks *tile = t->k->dot_blocks.tile[s->kind->form];
  if (tile) {
    tile(s->table.at, s->stride, ROWS, s->x, s->ldx, t->n, s->dim, s->group, t->z, ROWS);
  } else {
    decode_all(s);
    t->k->dot.tile[EMBED__STORED_F32](s->decoded, 4 * s->dim, ROWS, s->x, s->ldx, t->n, s->dim, t->z, ROWS);
  }
}

static void time_blocks(const embed__kernels *k, kernel_timer *timer) {
  static timed_blocks t;
  for (int f = 0; f < FORMS; ++f) {
    embed__dot_blocks *tile = k->dot_blocks.tile[kinds[f].form];
    setup s = setup_new(&kinds[f], 1024, kinds[f].block_columns ? 0 : 32, 3);
    t.k = k, t.s = &s;
    for (t.n = 1; t.n <= 8; t.n *= 8) {
      char what[32];
      snprintf(what, sizeof what, "%s, %d hidden", embed__dtype_name(kinds[f].dtype), (int)t.n);
      timed_case c = {
          what,       tile ? (timed_kernel *)tile : (timed_kernel *)embed__codec_find(kinds[f].dtype)->decode, run_blocks, &t, (double)(ROWS * s.stride),
          TIMED_BYTES};
      if (t.n > 1) c.amount = 2.0 * ROWS * (double)(s.dim * t.n), c.limit = TIMED_OPERATIONS;
      kernel_bench(timer, &c);
    }
    setup_free(&s);
  }
}
KERNEL_CASES(time_blocks)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_have_the_bits_of_decoded_rows),
    cmocka_unit_test(products_are_within_2e_6_of_double),
    cmocka_unit_test(what_is_no_number_touches_its_own_products_alone),
    cmocka_unit_test(control_bits_stay),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("dot_blocks", tests, time_blocks)
