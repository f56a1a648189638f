/* SPDX-License-Identifier: BSD-3-Clause */
/* Panels of quantised rows and their products. Every level gives scalar's bits; scalar is held against the codecs and
 * sums in double. */
#include "timed.h"

#include "codec/codec.h"
#include "kernels/quantised.h"

enum { FORMS = EMBED__PANEL_Q6_K - EMBED__PANEL_I8 + 1, ROWS = 105, HIDDEN = 40, ALIGNMENT = 64 };
static const struct kind {
  embed__panel_form form;
  embed_dtype dtype;
  int64_t multiple; /* of dim */
  int64_t half[2];  /* where a block keeps its halves, -1 = none */
  int64_t block_columns, block_bytes;
} kinds[FORMS] = {
    {EMBED__PANEL_I8, EMBED_I8_ROW, 1, {-1, -1}, 0, 0},        {EMBED__PANEL_I4, EMBED_I4_GROUP, 1, {0, -1}, 0, 0},
    {EMBED__PANEL_Q8_0, EMBED_Q8_0, 32, {0, -1}, 32, 34},      {EMBED__PANEL_Q4_0, EMBED_Q4_0, 32, {0, -1}, 32, 18},
    {EMBED__PANEL_Q4_K, EMBED_Q4_K, 256, {0, 2}, 256, 144},    {EMBED__PANEL_Q5_K, EMBED_Q5_K, 256, {0, 2}, 256, 176},
    {EMBED__PANEL_Q6_K, EMBED_Q6_K, 256, {208, -1}, 256, 210},
};
static const embed__activation activations[] = {EMBED__EXACT, EMBED__ROUNDED_Q8_0};

/* A table and hidden rows against unreadable pages, and what they are. */
typedef struct setup {
  const struct kind *kind;
  int64_t dim, rows, row_bytes, table_bytes, n, ldx;
  int32_t group;
  guarded table, hidden;
  float *x;
} setup;

static int64_t stored_bytes(const struct kind *kind, int64_t dim, int32_t group) { return embed__row_bytes(kind->dtype, dim, group); }

static void random_rows(setup *s, uint64_t *state) {
  random_bytes(s->table.at, (size_t)s->table_bytes, state);
  for (int64_t r = 0; r < s->rows; ++r) {
    unsigned char *row = s->table.at + r * s->row_bytes;
    if (s->kind->form == EMBED__PANEL_I8) {
      float scale = r % 7 == 3 ? 0x1p-140f : test_uniform(state);
      embed__put_le_f32(row + s->dim, scale);
      continue;
    }
    int64_t columns = s->kind->block_columns ? s->kind->block_columns : s->group;
    int64_t bytes = s->kind->block_bytes ? s->kind->block_bytes : 2 + s->group / 2;
    for (int64_t b = 0; b < (s->dim + columns - 1) / columns; ++b) {
      for (int h = 0; h < 2 && s->kind->half[h] >= 0; ++h) {
        uint16_t half = embed__f16_of_f32(test_uniform(state) * (r % 7 == 3 ? 0x1p-16f : 1.0f));
        embed__put_le_u16(row + b * bytes + s->kind->half[h], half);
      }
    }
  }
}

static void random_hidden(setup *s, uint64_t *state) {
  for (int64_t i = 0; i < s->n; ++i) {
    for (int64_t j = 0; j < s->dim; ++j) {
      float x = test_uniform(state);
      switch (i / 2 % 8) {                                            /* two of a kind are one tile */
        case 1: x = embed__f32_of_bf16(embed__bf16_of_f32(x)); break; /* fewer limbs */
        case 2: x = (float)(int)(100 * x); break;                     /* two */
        case 3: x *= j % 53 == 7 ? 1e6f : 1; break;                   /* six */
        case 4: x = j == s->dim / 2 ? 1.0f : -0.0f; break;
        case 5: x *= 0x1p-130f; break;
        case 6: x *= j % 37 ? 1e-3f : 1e3f; break;
        default: break;
      }
      s->x[i * s->ldx + j] = x;
    }
  }
}

static setup setup_new(const struct kind *kind, int64_t dim, int32_t group, int64_t rows, int64_t n, uint64_t *state) {
  setup s = {.kind = kind, .dim = dim, .rows = rows, .n = n, .group = kind->form == EMBED__PANEL_I4 ? group : 0};
  const int64_t packed = stored_bytes(kind, dim, s.group);
  const int at_end = *state % 4 != 3;
  s.row_bytes = packed + (int64_t)(*state % 5); /* apart, at any byte */
  s.ldx = dim + 3 * (int64_t)(*state % 2);
  s.table_bytes = (rows - 1) * s.row_bytes + packed;
  s.table = guarded_new((size_t)s.table_bytes, at_end);
  s.hidden = guarded_new((size_t)((n - 1) * s.ldx + dim) * sizeof *s.x, at_end);
  s.x = (float *)(void *)s.hidden.at;
  random_rows(&s, state);
  random_hidden(&s, state);
  return s;
}
static void setup_free(setup *s) {
  guarded_free(s->table);
  guarded_free(s->hidden);
}

/* Panels of rows [first, first + count), ending at an unreadable page. */
static guarded panels_of(const embed__panel_kernels *k, const setup *s, int64_t first, int64_t count, bool streaming) {
  int64_t bytes = k->bytes[s->kind->form](s->dim, s->group), panels = (count + 15) / 16;
  guarded g = guarded_new((size_t)(panels * bytes), 1);
  assert_int_equal(bytes % ALIGNMENT, 0);
  memset(g.at, 0xA5, (size_t)(panels * bytes));
  for (int64_t p = 0; p < panels; ++p) {
    int64_t here = count - 16 * p < 16 ? count - 16 * p : 16;
    k->pack[s->kind->form](s->table.at + (first + 16 * p) * s->row_bytes, s->row_bytes, here, s->dim, s->group, g.at + p * bytes, streaming);
  }
  return g;
}

/* z [n, count] of hidden rows [i, i + n) and rows or panels `rows`, in a pattern that nothing else may touch. */
static void products(const embed__panel_kernels *k, const setup *s, embed__activation activation, bool prepared, const void *rows, int64_t count, int64_t i,
                     int64_t n, float *z) {
  const embed__multiplier *m = prepared ? &k->prepared[s->kind->form][activation] : &k->in_place[s->kind->form][activation];
  int64_t bytes = m->x_bytes(n, s->dim, s->group), ldz = count + 3, stride = prepared ? k->bytes[s->kind->form](s->dim, s->group) : s->row_bytes;
  assert_int_equal(bytes % 64, 0);
  guarded packed = guarded_new((size_t)(bytes ? bytes : 64), 1), out = guarded_new((size_t)(n * ldz + 3) * 4, 1);
  float *at = (float *)(void *)out.at;
  memset(out.at, 0xA5, (size_t)(n * ldz + 3) * 4);
  m->pack_x(s->x + i * s->ldx, s->ldx, n, s->dim, s->group, packed.at);
  m->multiply(rows, stride, stride, count, packed.at, n, s->dim, s->group, at + 3, ldz);
  for (int64_t h = 0; h < n; ++h) {
    memcpy(z + h * count, at + 3 + h * ldz, (size_t)count * 4);
    memset(at + 3 + h * ldz, 0xA5, (size_t)count * 4);
  }
  assert_true(test_all_bytes(out.at, (size_t)(n * ldz + 3) * 4, 0xA5));
  guarded_free(packed);
  guarded_free(out);
}

static const int64_t block_counts[] = {1, 2, 3, 5, 8, 15, 16, 17, 33};
enum { BLOCK_COUNTS = sizeof block_counts / sizeof *block_counts };

/* Calls check for every form, and for dims of every tail of blocks, chunks and K blocks. */
static void each_shape(const embed__kernels *k, void (*check)(const embed__kernels *k, const struct kind *kind, int64_t dim, int32_t group)) {
  for (int f = 0; f < FORMS; ++f) {
    if (kinds[f].multiple == 1) {
      for (int64_t dim = 1; dim <= 70; dim += dim < 36 ? 1 : 7)
        for (int32_t group = 32; group <= (kinds[f].form == EMBED__PANEL_I4 ? 128 : 32); group *= 2) check(k, &kinds[f], dim, group);
      check(k, &kinds[f], 768, 64);
      check(k, &kinds[f], 541, 128);
    } else {
      for (int b = 0; b < (kinds[f].multiple == 32 ? BLOCK_COUNTS : 3); ++b) check(k, &kinds[f], kinds[f].multiple * block_counts[b], 0);
    }
  }
}

static const int64_t counts[] = {0, 1, 15, 16, 17, 33, ROWS}, hiddens[] = {0, 1, 2, 3, 4, 5, 7, 16, 40};

static void check_scalar_bits(const embed__kernels *k, const struct kind *kind, int64_t dim, int32_t group) {
  static float want[HIDDEN * ROWS], z[HIDDEN * ROWS];
  embed__kernels scalar = scalar_kernels();
  uint64_t state = (uint64_t)dim + 77;
  setup s = setup_new(kind, dim, group, ROWS, HIDDEN, &state);
  guarded spec = panels_of(&scalar.panel, &s, 0, ROWS, false);
  for (int streaming = 0; streaming < 2; ++streaming) {
    guarded ours = panels_of(&k->panel, &s, 0, ROWS, streaming);
    k->row.fence();
    assert_same_bits(ours.at, spec.at, (size_t)((ROWS + 15) / 16 * k->panel.bytes[kind->form](dim, s.group)));
    guarded_free(ours);
  }
  for (int a = 0; a < 2; ++a) {
    for (size_t h = 0; h < sizeof hiddens / sizeof *hiddens; ++h) {
      const int64_t n = hiddens[h], several[] = {counts[h % (sizeof counts / sizeof *counts)], n < 5 ? 88 : 0}; /* few hidden rows meet more panels at once */
      for (int c = 0; c < 2; ++c) {
        products(&scalar.panel, &s, activations[a], true, spec.at, several[c], 0, n, want);
        products(&k->panel, &s, activations[a], true, spec.at, several[c], 0, n, z);
        assert_same_bits(z, want, (size_t)(n * several[c]) * 4);
        if (!k->panel.in_place[kind->form][activations[a]].multiply) continue;
        products(&k->panel, &s, activations[a], false, s.table.at, several[c], 0, n, z);
        assert_same_bits(z, want, (size_t)(n * several[c]) * 4);
      }
    }
  }
  for (int64_t i = 0; i < 16; ++i) { /* alone, and with the next, before many panels: every number of limbs */
    for (int64_t n = 1; n <= 2; ++n) {
      products(&scalar.panel, &s, EMBED__EXACT, true, spec.at, 88, i, n, want);
      products(&k->panel, &s, EMBED__EXACT, true, spec.at, 88, i, n, z);
      assert_same_bits(z, want, (size_t)(n * 88) * 4);
    }
  }
  guarded_free(spec);
  setup_free(&s);
}
static void check_levels(const embed__kernels *k) { each_shape(k, check_scalar_bits); }
static void every_level_gives_the_bits_of_scalar_prepared_and_in_place(void **state) {
  (void)state;
  each_level(1, check_levels);
}

/* The same products whatever else the call computes: the last rows and hidden rows, at the ends of table and buffer. */
static void check_any_part(const embed__kernels *k, const struct kind *kind, int64_t dim, int32_t group) {
  static float all[HIDDEN * ROWS], z[HIDDEN * ROWS];
  uint64_t state = (uint64_t)dim + 5;
  setup s = setup_new(kind, dim, group, ROWS, HIDDEN, &state);
  for (int a = 0; a < 2; ++a) {
    guarded panels = panels_of(&k->panel, &s, 0, ROWS, false);
    products(&k->panel, &s, activations[a], true, panels.at, ROWS, 0, HIDDEN, all);
    guarded_free(panels);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
      int64_t count = counts[c], n = hiddens[c], from = ROWS - count, i = HIDDEN - n;
      for (int prepared = 0; prepared < 2; ++prepared) {
        if (!prepared && !k->panel.in_place[kind->form][activations[a]].multiply) continue;
        guarded part = count ? panels_of(&k->panel, &s, from, count, false) : panels_of(&k->panel, &s, 0, 1, false);
        products(&k->panel, &s, activations[a], prepared, prepared ? part.at : s.table.at + from * s.row_bytes, count, i, n, z);
        for (int64_t h = 0; h < n; ++h) assert_same_bits(z + h * count, all + (i + h) * ROWS + from, (size_t)count * 4);
        guarded_free(part);
      }
    }
  }
  setup_free(&s);
}
static void check_parts(const embed__kernels *k) { each_shape(k, check_any_part); }
static void a_product_is_the_same_in_calls_of_every_shape(void **state) {
  (void)state;
  each_level(0, check_parts);
}

/* Every number of rows and of hidden rows, of few columns. */
static void check_every_number(const embed__kernels *k) {
  static const int64_t of_rows[] = {0, 1, 15, 16, 17, 33, 41}, of_hidden[] = {1, 2, 4, 13};
  static float all[HIDDEN * ROWS], z[HIDDEN * ROWS];
  uint64_t state = 81;
  for (int f = 0; f < FORMS; ++f) {
    setup s = setup_new(&kinds[f], kinds[f].multiple == 1 ? 67 : kinds[f].multiple, 32, ROWS, HIDDEN, &state);
    guarded panels = panels_of(&k->panel, &s, 0, ROWS, false);
    for (int a = 0; a < 2; ++a)
      for (int prepared = 0; prepared < 2; ++prepared) {
        if (!prepared && !k->panel.in_place[kinds[f].form][activations[a]].multiply) continue;
        const unsigned char *rows = prepared ? panels.at : s.table.at;
        products(&k->panel, &s, activations[a], prepared, rows, ROWS, 0, HIDDEN, all);
        for (int64_t count = 0; count <= ROWS; ++count)
          for (int64_t n = 0; n <= HIDDEN; ++n) {
            bool chosen = false;
            for (int i = 0; i < 7; ++i) chosen = chosen || count == of_rows[i];
            for (int i = 0; i < 4; ++i) chosen = chosen || n == of_hidden[i];
            if (!chosen) continue;
            products(&k->panel, &s, activations[a], prepared, rows, count, HIDDEN - n, n, z);
            for (int64_t h = 0; h < n; ++h) assert_same_bits(z + h * count, all + (HIDDEN - n + h) * ROWS, (size_t)count * 4);
          }
      }
    guarded_free(panels);
    setup_free(&s);
  }
}
static void any_number_of_rows_and_hidden_rows_gives_the_same_bits(void **state) {
  (void)state;
  each_level(0, check_every_number);
}

/* Largest error of all products, as a share of sum |w||x|, with w as the codec decodes it. x: what was multiplied. */
static double largest_error(const setup *s, const float *z, const float *x, int64_t ldx) {
  float *w = malloc((size_t)s->dim * sizeof *w);
  embed__kernels scalar = scalar_kernels();
  double worst = 0;
  for (int64_t r = 0; r < s->rows; ++r) {
    embed__codec_find(s->kind->dtype)->decode(&scalar, s->table.at + r * s->row_bytes, w, s->dim, s->group, 1.0f);
    for (int64_t i = 0; i < s->n; ++i) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < s->dim; ++j) {
        double product = (double)w[j] * (double)x[i * ldx + j];
        sum += product;
        size += fabs(product);
      }
      double error = fabs((double)z[i * s->rows + r] - sum);
      if (error <= 1e-43 * (double)s->dim) continue; /* sums of subnormal numbers have no more bits */
      if (!(error <= worst * size)) worst = size > 0 ? error / size : INFINITY;
    }
  }
  free(w);
  return worst;
}

static void check_error_of(const embed__kernels *k, const struct kind *kind, int64_t dim, int32_t group) {
  static float z[HIDDEN * ROWS];
  uint64_t state = (uint64_t)dim + 9;
  setup s = setup_new(kind, dim, group, ROWS, HIDDEN, &state);
  guarded panels = panels_of(&k->panel, &s, 0, ROWS, false);
  products(&k->panel, &s, EMBED__EXACT, true, panels.at, ROWS, 0, HIDDEN, z);
  double exact = largest_error(&s, z, s.x, s.ldx);
  if (!(exact <= 2e-6)) fail_msg("%s, dim %d, group %d: %g of sum |w||x|", embed__dtype_name(kind->dtype), (int)dim, (int)group, exact);
  if (dim % 32 == 0) { /* what the codec of Q8_0 makes of x */
    const embed__codec *codec = embed__codec_find(EMBED_Q8_0);
    float *rounded = malloc((size_t)(HIDDEN * dim) * sizeof *rounded);
    unsigned char *row = malloc((size_t)dim * 2);
    for (int64_t i = 0; i < HIDDEN; ++i) {
      assert_true(codec->encode(k, s.x + i * s.ldx, row, dim, 0, NULL));
      codec->decode(k, row, rounded + i * dim, dim, 0, 1.0f);
    }
    products(&k->panel, &s, EMBED__ROUNDED_Q8_0, true, panels.at, ROWS, 0, HIDDEN, z);
    double error = largest_error(&s, z, rounded, dim);
    if (!(error <= 2e-6)) fail_msg("%s, dim %d, rounded: %g of sum |w||x|", embed__dtype_name(kind->dtype), (int)dim, error);
    free(rounded);
    free(row);
  }
  guarded_free(panels);
  setup_free(&s);
}
static void products_are_within_2e_6_of_double(void **state) {
  (void)state;
  embed__kernels scalar = scalar_kernels();
  each_shape(&scalar, check_error_of);
  check_error_of(&scalar, &kinds[0], 4096, 0);
  check_error_of(&scalar, &kinds[4], 4096, 0);
}

/* The weights of the large numbers are 0: nothing hides what becomes of the small ones. */
static void outliers_that_meet_zeros_leave_the_rest_exact(void **state) {
  (void)state;
  embed__kernels scalar = scalar_kernels();
  static float z[ROWS];
  for (float outlier = 1; outlier < 5e8f; outlier *= 10) {
    uint64_t seed = 3;
    setup s = setup_new(&kinds[0], 96, 0, ROWS, 1, &seed);
    for (int64_t j = 5; j < 96; j += 32) {
      s.x[j] = outlier;
      for (int64_t r = 0; r < ROWS; ++r) s.table.at[r * s.row_bytes + j] = 0;
    }
    guarded panels = panels_of(&scalar.panel, &s, 0, ROWS, false);
    products(&scalar.panel, &s, EMBED__EXACT, true, panels.at, ROWS, 0, 1, z);
    double error = largest_error(&s, z, s.x, s.ldx);
    if (!(error <= 2e-6)) fail_msg("outliers of %g: %g of sum |w||x|", (double)outlier, error);
    guarded_free(panels);
    setup_free(&s);
  }
}

static void check_nonfinite_of(const embed__kernels *k, const struct kind *kind, int64_t dim, int32_t group) {
  static float clean[HIDDEN * ROWS], z[HIDDEN * ROWS];
  uint64_t state = (uint64_t)dim + 13;
  if (dim % 5 > 1) return;
  setup s = setup_new(kind, dim, group, 17, 7, &state);
  for (int a = 0; a < 2; ++a) {
    guarded panels = panels_of(&k->panel, &s, 0, 17, false);
    products(&k->panel, &s, activations[a], true, panels.at, 17, 0, 7, clean);
    for (int bad = 0; bad < 3; ++bad) {
      float *at = s.x + 2 * s.ldx + dim - 1, before = *at;
      *at = bad == 0 ? NAN : bad == 1 ? INFINITY : -INFINITY;
      products(&k->panel, &s, activations[a], true, panels.at, 17, 0, 7, z);
      for (int64_t i = 0; i < 7; ++i) {
        if (i != 2) assert_same_bits(z + i * 17, clean + i * 17, 17 * 4);
        for (int64_t r = 0; r < 17 && i == 2; ++r) assert_true(bad == 0 ? isnan(z[i * 17 + r]) : !isfinite(z[i * 17 + r]));
      }
      *at = before;
    }
    guarded_free(panels);
    /* A scale, or an offset, that is no number or infinite is seen in its own row's products. */
    for (int bad = 0; bad < 6; ++bad) {
      static const uint16_t halves[] = {0x7E00, 0x7C00, 0xFC00};
      if (bad >= 3 && kind->half[1] < 0) break;
      unsigned char saved[4], *scale = s.table.at + 5 * s.row_bytes + (kind->form == EMBED__PANEL_I8 ? dim : kind->half[bad / 3]);
      memcpy(saved, scale, 4);
      if (kind->form == EMBED__PANEL_I8)
        embed__put_le_f32(scale, embed__f32_of_f16(halves[bad % 3]));
      else
        embed__put_le_u16(scale, halves[bad % 3]);
      panels = panels_of(&k->panel, &s, 0, 17, false);
      products(&k->panel, &s, activations[a], true, panels.at, 17, 0, 7, z);
      for (int64_t i = 0; i < 7; ++i) {
        for (int64_t r = 0; r < 17; ++r) {
          if (r == 5)
            assert_true(bad % 3 == 0 ? isnan(z[i * 17 + r]) : !isfinite(z[i * 17 + r]));
          else
            assert_same_bits(z + i * 17 + r, clean + i * 17 + r, 4);
        }
      }
      memcpy(scale, saved, 4);
      guarded_free(panels);
    }
  }
  setup_free(&s);
}
static void check_nonfinite(const embed__kernels *k) { each_shape(k, check_nonfinite_of); }
static void what_is_no_number_touches_its_own_products_alone(void **state) {
  (void)state;
  each_level(0, check_nonfinite);
}

static void check_control(const embed__kernels *k) {
  static float z[HIDDEN * ROWS];
  unsigned before = control_bits();
  for (int f = 0; f < FORMS; ++f) {
    uint64_t state = 21;
    setup s = setup_new(&kinds[f], 256, 32, ROWS, HIDDEN, &state);
    guarded panels = panels_of(&k->panel, &s, 0, ROWS, false);
    for (int a = 0; a < 2; ++a) products(&k->panel, &s, activations[a], true, panels.at, ROWS, 0, HIDDEN, z);
    assert_int_equal(control_bits(), before);
    guarded_free(panels);
    setup_free(&s);
  }
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* Weights and digits at their ends, all of one sign: what a level adds up in few bits. */
static void check_largest(const embed__kernels *k) {
  static const float ends[] = {0x1.FBFBFCp0f, -0x1.FBFBFCp0f, 0x1.010102p0f, -0x1.010102p0f, 0x1.FDFEFEp0f, 0x1.80808p0f, -0x1.80808p0f};
  enum { ENDS = sizeof ends / sizeof *ends };
  static float want[ENDS * ROWS], z[ENDS * ROWS];
  const embed__kernels scalar = scalar_kernels();
  uint64_t state = 9;
  for (int f = 0; f < FORMS; ++f) {
    setup s = setup_new(&kinds[f], 1024, 32, ROWS, ENDS, &state);
    for (int64_t i = 0; i < ENDS; ++i)
      for (int64_t j = 0; j < s.dim; ++j) s.x[i * s.ldx + j] = ends[i];
    for (int fill = 0; fill < 3; ++fill) {
      random_rows(&s, &state);
      for (int64_t b = 0; b < s.table_bytes; ++b) s.table.at[b] = (unsigned char)(fill == 0 ? 0xFF : fill == 1 ? 0x80 : b % 2 ? 0x7F : 0x80);
      for (int64_t r = 0; r < ROWS; ++r) { /* finite scales */
        unsigned char *row = s.table.at + r * s.row_bytes;
        const int64_t columns = kinds[f].block_columns ? kinds[f].block_columns : 32, bytes = kinds[f].block_bytes ? kinds[f].block_bytes : 18;
        if (kinds[f].form == EMBED__PANEL_I8) embed__put_le_f32(row + s.dim, 0.5f);
        for (int64_t b = 0; b < s.dim / columns; ++b)
          for (int h = 0; h < 2 && kinds[f].half[h] >= 0; ++h) embed__put_le_u16(row + b * bytes + kinds[f].half[h], h ? 0x2E66 : 0x3C00);
      }
      guarded panels = panels_of(&scalar.panel, &s, 0, ROWS, false);
      for (int a = 0; a < 2; ++a)
        for (int64_t n = 1; n <= ENDS; n += n == 1 ? 1 : 5) {
          products(&scalar.panel, &s, activations[a], true, panels.at, ROWS, 0, n, want);
          products(&k->panel, &s, activations[a], true, panels.at, ROWS, 0, n, z);
          assert_same_bits(z, want, (size_t)(n * ROWS) * 4);
          if (a == 0 && n == ENDS) assert_true(largest_error(&s, want, s.x, s.ldx) <= 0x1p-24 * (256 + 1024 / 16)); /* all products are alike */
        }
      guarded_free(panels);
    }
    setup_free(&s);
  }
}
static void the_largest_sums_do_not_overflow(void **state) {
  (void)state;
  each_level(0, check_largest);
}

static void sizes_that_do_not_fit_are_refused(void **state) {
  (void)state;
  embed__kernels scalar = scalar_kernels();
  for (int f = 0; f < FORMS; ++f) assert_int_equal(scalar.panel.bytes[kinds[f].form](INT64_MAX / 256 * 256, 32), -1);
  assert_int_equal(scalar.panel.bytes[EMBED__PANEL_I8](33, 0), 2 * 512 + 64);
  assert_int_equal(scalar.panel.bytes[EMBED__PANEL_I4](130, 64), 5 * 256 + 2 * 64);
  assert_int_equal(scalar.panel.bytes[EMBED__PANEL_Q4_K](512, 0), 512 / 256 * 144 * 16);
}

/* --- timed: 64 rows of 1024 columns; where a level multiplies no rows in place, its specification is scalar's product of panels --- */

enum { TIMED_ROWS = 64, TIMED_DIM = 1024, TIMED_HIDDEN = 16 };
typedef struct timed_products {
  const embed__panel_kernels *k;
  const setup *s;
  const embed__multiplier *m;
  const unsigned char *rows;
  int64_t stride, n;
  void *packed;
  float z[TIMED_HIDDEN * TIMED_ROWS];
  _Alignas(64) unsigned char panel[32 * TIMED_DIM];
} timed_products;

static void run_pack(void *job) {
  timed_products *t = job;
  t->k->pack[t->s->kind->form](t->s->table.at, t->s->row_bytes, 16, TIMED_DIM, t->s->group, t->panel, false);
}
static void run_multiply(void *job) {
  timed_products *t = job;
  t->m->multiply(t->rows, t->stride, t->stride, TIMED_ROWS, t->packed, t->n, TIMED_DIM, t->s->group, t->z, TIMED_ROWS);
}

static void time_multiplier(timed_products *t, embed__activation a, bool in_place, const unsigned char *panels, kernel_timer *timer) {
  const embed__panel_form form = t->s->kind->form;
  const bool stored = in_place && t->k->in_place[form][a].multiply;
  t->m = stored ? &t->k->in_place[form][a] : &t->k->prepared[form][a];
  t->rows = stored ? t->s->table.at : panels;
  t->stride = stored ? t->s->row_bytes : t->k->bytes[form](TIMED_DIM, t->s->group);
  for (t->n = 1; t->n <= TIMED_HIDDEN; t->n *= 16) {
    char what[48];
    snprintf(what, sizeof what, "%s%s%s, %d hidden", embed__dtype_name(t->s->kind->dtype), in_place ? " in place" : "", a == EMBED__EXACT ? "" : " rounded",
             (int)t->n);
    timed_case c = {what, (timed_kernel *)t->m->multiply, run_multiply, t, 2.0 * TIMED_ROWS * TIMED_DIM * (double)t->n, TIMED_DIGITS};
    if (t->n == 1) c.amount = (double)(stored ? TIMED_ROWS * t->stride : TIMED_ROWS / 16 * t->stride), c.limit = TIMED_BYTES;
    t->packed = aligned_alloc(64, (size_t)t->m->x_bytes(t->n, TIMED_DIM, t->s->group) + 64);
    t->m->pack_x(t->s->x, t->s->ldx, t->n, TIMED_DIM, t->s->group, t->packed);
    kernel_bench(timer, &c);
    free(t->packed);
  }
}

static void time_products(const embed__kernels *k, kernel_timer *timer) {
  static timed_products t;
  for (int f = 0; f < FORMS; ++f) {
    uint64_t state = 31;
    setup s = setup_new(&kinds[f], TIMED_DIM, 32, TIMED_ROWS, TIMED_HIDDEN, &state);
    for (int64_t j = 0; j < (TIMED_HIDDEN - 1) * s.ldx + TIMED_DIM; ++j) s.x[j] = test_uniform(&state); /* four limbs, the usual number */
    guarded panels = panels_of(&k->panel, &s, 0, TIMED_ROWS, false);
    t.k = &k->panel, t.s = &s;
    char what[32];
    snprintf(what, sizeof what, "pack %s", embed__dtype_name(s.kind->dtype));
    const double bytes = (double)(16 * s.row_bytes + k->panel.bytes[s.kind->form](TIMED_DIM, s.group));
    kernel_bench(timer, &(timed_case){what, (timed_kernel *)k->panel.pack[s.kind->form], run_pack, &t, bytes, TIMED_BYTES});
    for (int a = 0; a < 2; ++a)
      for (int in_place = 0; in_place < 2; ++in_place) time_multiplier(&t, activations[a], in_place, panels.at, timer);
    guarded_free(panels);
    setup_free(&s);
  }
}
KERNEL_CASES(time_products)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_level_gives_the_bits_of_scalar_prepared_and_in_place),
    cmocka_unit_test(a_product_is_the_same_in_calls_of_every_shape),
    cmocka_unit_test(any_number_of_rows_and_hidden_rows_gives_the_same_bits),
    cmocka_unit_test(products_are_within_2e_6_of_double),
    cmocka_unit_test(outliers_that_meet_zeros_leave_the_rest_exact),
    cmocka_unit_test(what_is_no_number_touches_its_own_products_alone),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(the_largest_sums_do_not_overflow),
    cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("quantised", tests, time_products)
