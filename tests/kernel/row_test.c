/* SPDX-License-Identifier: BSD-3-Clause */
/* Row kernels: every level gives the bits of the scalar file, and touches nothing outside its rows. */
#include "timed.h"

enum { ROOM = 4 * LONGEST + 64, SLACK = 64 }; /* bytes; SLACK beside an output must keep its pattern */
static const float scales[] = {1.0f, -1.5f, 0.37f};

static int64_t stored_bytes(int form, int64_t dim) {
  static const int64_t each[EMBED__STORED_COUNT] = {4, 2, 2, 1};
  return dim * each[form] + (form == EMBED__STORED_I8 ? 4 : 0);
}

/* Random bytes are random halves, bfloats and int8s with every special value among them; an int8 row's scale is a number. */
static void fill_row(int form, unsigned char *row, int64_t dim, uint64_t *state) {
  if (form == EMBED__STORED_F32) {
    for (int64_t j = 0; j < dim; ++j) {
      float value = hard_float(state);
      memcpy(row + 4 * j, &value, 4);
    }
    return;
  }
  random_bytes(row, (size_t)stored_bytes(form, dim), state);
  float scale = test_uniform(state);
  if (form == EMBED__STORED_I8) embed__put_le_f32(row + dim, scale);
}

/* Both ends of the output are watched: one by the unreadable page, the other by a pattern. */
static unsigned char *place_output(guarded g, size_t bytes, int at_end) {
  memset(g.at, 0xA5, ROOM);
  return placed(g, ROOM, bytes, at_end);
}
static void assert_pattern_beside(guarded g, size_t bytes, int at_end) { assert_true(test_all_bytes(at_end ? g.at : g.at + bytes, ROOM - bytes, 0xA5)); }

static void check_decode(const embed__kernels *k) {
  embed__kernels scalar = scalar_kernels();
  uint64_t state = 1;
  static float want[LONGEST];
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded in = guarded_new(ROOM, at_end), out = guarded_new(ROOM, at_end);
    for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
      for (int l = 0; l < LENGTHS; ++l) {
        int64_t dim = lengths[l];
        unsigned char *row = placed(in, ROOM, (size_t)stored_bytes(form, dim), at_end);
        fill_row(form, row, dim, &state);
        for (int s = 0; s < 3; ++s) {
          float *got = (float *)(void *)place_output(out, (size_t)(4 * dim), at_end);
          scalar.row.decode[form](row, want, dim, scales[s]);
          k->row.decode[form](row, got, dim, scales[s]);
          assert_same_bits(got, want, (size_t)(4 * dim));
          assert_pattern_beside(out, (size_t)(4 * dim), at_end);
        }
      }
    }
    guarded_free(in);
    guarded_free(out);
  }
}
static void decoded_rows_have_the_bits_of_scalar(void **state) {
  (void)state;
  each_level(1, check_decode);
}

static void check_offsets(const embed__kernels *k) {
  embed__kernels scalar = scalar_kernels();
  uint64_t state = 2;
  static const int64_t dims[] = {1, 7, 16, 33, 64, 100, 768};
  static unsigned char memory[ROOM];
  static float want[LONGEST], got[LONGEST];
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    for (size_t d = 0; d < sizeof dims / sizeof *dims; ++d) {
      for (int offset = 0; offset < 64; ++offset) {
        fill_row(form, memory + offset, dims[d], &state);
        scalar.row.decode[form](memory + offset, want, dims[d], 1.0f);
        k->row.decode[form](memory + offset, got + offset % 16, dims[d], 1.0f);
        assert_same_bits(got + offset % 16, want, (size_t)(4 * dims[d]));
      }
    }
  }
}
static void rows_may_start_at_any_byte(void **state) {
  (void)state;
  each_level(1, check_offsets);
}

/* Against core/half.h, the truth of the 16-bit types; * 1.0f makes a signalling NaN quiet. */
static void check_widening(const embed__kernels *k) {
  static uint16_t all[65536];
  static float out[65536];
  for (int form = EMBED__STORED_F16; form <= EMBED__STORED_BF16; ++form) {
    for (int i = 0; i < 65536; ++i) all[i] = (uint16_t)i;
    k->row.decode[form](all, out, 65536, 1.0f);
    for (int i = 0; i < 65536; ++i) {
      float want = form == EMBED__STORED_F16 ? embed__f32_of_f16((uint16_t)i) : embed__f32_of_bf16((uint16_t)i);
      uint32_t bits = embed__bits_of_f32(want);
      if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits |= 0x400000u;
      assert_int_equal(embed__bits_of_f32(out[i]), bits);
    }
  }
}
static void every_half_and_bfloat_widens_exactly(void **state) {
  (void)state;
  each_level(0, check_widening);
}

static void check_known_narrowing(const embed__kernels *k) {
  static const uint32_t bfloat_in[] = {0x3F808000, 0x3F808001, 0x3F818000, 0x7F7F8000, 0x7F800001, 0x00018000};
  static const uint16_t bfloat_out[] = {0x3F80, 0x3F81, 0x3F82, 0x7F80, 0x7FC0, 0x0002};
  static const float half_in[] = {65504.0f, 65519.996f, 65520.0f, 0x1p-25f, 0x1.000002p-25f, 0x1p-14f, 1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f};
  static const uint16_t half_out[] = {0x7BFF, 0x7BFF, 0x7C00, 0x0000, 0x0001, 0x0400, 0x3C00, 0x3C02};
  /* Alone and in a whole vector: the masked and the plain path. */
  for (int64_t dim = 1; dim <= 16; dim += 15) {
    float in[16];
    uint16_t out[16];
    for (size_t i = 0; i < sizeof bfloat_in / sizeof *bfloat_in; ++i) {
      for (int j = 0; j < 16; ++j) in[j] = embed__f32_of_bits(bfloat_in[i]);
      k->row.to_bf16(in, out, dim);
      for (int64_t j = 0; j < dim; ++j) assert_int_equal(out[j], bfloat_out[i]);
    }
    for (size_t i = 0; i < sizeof half_in / sizeof *half_in; ++i) {
      for (int j = 0; j < 16; ++j) in[j] = half_in[i];
      k->row.to_f16(in, out, dim);
      for (int64_t j = 0; j < dim; ++j) assert_int_equal(out[j], half_out[i]);
    }
  }
}
static void known_values_narrow_to_nearest_even(void **state) {
  (void)state;
  each_level(0, check_known_narrowing);
}

/* The neighbours of every half and bfloat and of the ties between them, then a million bit patterns. */
static void check_narrowing(const embed__kernels *k) {
  enum { N = 4096 };
  static float in[N];
  static uint16_t out[2][N];
  uint64_t state = 3;
  const uint32_t boundaries = 65536u * 3, total = 2 * boundaries + 1000000;
  for (uint32_t start = 0; start < total; start += N) {
    for (uint32_t i = 0; i < N; ++i) {
      uint32_t word = start + i, which = word % boundaries, bits;
      if (word < boundaries)
        bits = ((which / 3) << 16 | 0x8000u) + which % 3 - 1;
      else if (word < 2 * boundaries)
        bits = (embed__bits_of_f32(embed__f32_of_f16((uint16_t)(which / 3))) | 0x1000u) + which % 3 - 1;
      else
        bits = (uint32_t)test_random(&state);
      in[i] = embed__f32_of_bits(bits);
    }
    k->row.to_f16(in, out[0], N);
    k->row.to_bf16(in, out[1], N);
    for (int i = 0; i < N; ++i) {
      assert_int_equal(out[0][i], embed__f16_of_f32(in[i]));
      assert_int_equal(out[1][i], embed__bf16_of_f32(in[i]));
    }
  }
}
static void narrowing_agrees_with_the_scalar_types_on_a_million_patterns(void **state) {
  (void)state;
  each_level(0, check_narrowing);
}

static void check_narrow_rows(const embed__kernels *k) {
  uint64_t state = 4;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded in = guarded_new(ROOM, at_end), out = guarded_new(ROOM, at_end);
    for (int type = 0; type < 2; ++type) {
      for (int l = 0; l < LENGTHS; ++l) {
        int64_t dim = lengths[l];
        float *row = (float *)(void *)placed(in, ROOM, (size_t)(4 * dim), at_end);
        hard_floats(row, dim, &state);
        uint16_t *got = (uint16_t *)(void *)place_output(out, (size_t)(2 * dim), at_end);
        (type ? k->row.to_bf16 : k->row.to_f16)(row, got, dim);
        for (int64_t j = 0; j < dim; ++j) assert_int_equal(got[j], type ? embed__bf16_of_f32(row[j]) : embed__f16_of_f32(row[j]));
        assert_pattern_beside(out, (size_t)(2 * dim), at_end);
      }
    }
    guarded_free(in);
    guarded_free(out);
  }
}
static void narrowed_rows_stay_inside_their_extents(void **state) {
  (void)state;
  each_level(0, check_narrow_rows);
}

static void check_copy(const embed__kernels *k) {
  uint64_t state = 5;
  static unsigned char from[8192], to[8192];
  random_bytes(from, sizeof from, &state);
  static const int64_t sizes[] = {511, 768, 1023, 1024, 1025, 1536, 2048, 3072, 4095, 4096, 7000};
  for (int streaming = 0; streaming < 2; ++streaming) {
    for (int64_t s = 0; s < 300 + 11; ++s) {
      int64_t bytes = s < 300 ? s : sizes[s - 300];
      for (int offset = 0; offset < 64; offset += s < 300 ? 7 : 1) {
        int in = (offset * 5 + (int)s) % 64;
        memset(to, 0xA5, sizeof to);
        k->row.copy(from + in, to + 64 + offset, bytes, streaming);
        k->row.fence();
        assert_memory_equal(to + 64 + offset, from + in, (size_t)bytes);
        assert_true(test_all_bytes(to, (size_t)(64 + offset), 0xA5));
        assert_true(test_all_bytes(to + 64 + offset + bytes, sizeof to - (size_t)(64 + offset + bytes), 0xA5));
      }
    }
  }
}
static void copies_are_exact_at_every_offset(void **state) {
  (void)state;
  each_level(0, check_copy);
}

static void check_copy_at_pages(const embed__kernels *k) {
  uint64_t state = 6;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded in = guarded_new(ROOM, at_end), out = guarded_new(ROOM, at_end);
    for (int streaming = 0; streaming < 2; ++streaming) {
      for (int64_t bytes = 0; bytes < 700; ++bytes) {
        unsigned char *row = placed(in, ROOM, (size_t)bytes, at_end), *got = place_output(out, (size_t)bytes, at_end);
        random_bytes(row, (size_t)bytes, &state);
        k->row.copy(row, got, bytes, streaming);
        k->row.fence();
        assert_same_bits(got, row, (size_t)bytes);
        assert_pattern_beside(out, (size_t)bytes, at_end);
      }
    }
    guarded_free(in);
    guarded_free(out);
  }
}
static void copies_stay_inside_their_extents(void **state) {
  (void)state;
  each_level(0, check_copy_at_pages);
}

enum { ADD, ADD_SCALED, MULTIPLY, KEEP_MAX, KEEP_MIN, SCALE, UPDATES };
static void update(const embed__kernels *k, int what, float *target, const float *row, int64_t dim, float factor) {
  switch (what) {
    case ADD: k->row.add(target, row, dim); break;
    case ADD_SCALED: k->row.add_scaled(target, row, dim, factor); break;
    case MULTIPLY: k->row.multiply(target, row, dim, factor); break;
    case KEEP_MAX: k->row.keep_max(target, row, dim); break;
    case KEEP_MIN: k->row.keep_min(target, row, dim); break;
    default: k->row.scale(target, dim, factor);
  }
}

/* Which of two NaNs a sum gives is open; that cannot be said of a comparison. */
static void check_updates(const embed__kernels *k) {
  embed__kernels scalar = scalar_kernels();
  uint64_t state = 7;
  static float want[LONGEST];
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded in = guarded_new(ROOM, at_end), out = guarded_new(ROOM, at_end);
    for (int what = 0; what < UPDATES; ++what) {
      for (int l = 0; l < LENGTHS; ++l) {
        int64_t dim = lengths[l];
        size_t bytes = (size_t)(4 * dim);
        float *row = (float *)(void *)placed(in, ROOM, bytes, at_end), *got = (float *)(void *)place_output(out, bytes, at_end);
        hard_floats(row, dim, &state);
        hard_floats(want, dim, &state);
        for (int64_t j = 0; j < dim; ++j)
          if (what <= MULTIPLY && isnan(row[j])) want[j] = 1.0f;
        memcpy(got, want, bytes);
        update(&scalar, what, want, row, dim, scales[l % 3]);
        update(k, what, got, row, dim, scales[l % 3]);
        assert_same_bits(got, want, bytes);
        assert_pattern_beside(out, bytes, at_end);
      }
    }
    guarded_free(in);
    guarded_free(out);
  }
}
static void updates_have_the_bits_of_scalar(void **state) {
  (void)state;
  each_level(1, check_updates);
}

/* 1 + 2^-12 squared has a bit that a fused product would keep. */
static void check_two_roundings(const embed__kernels *k) {
  float sum[33], row[33];
  for (int j = 0; j < 33; ++j) row[j] = 1.0f + 0x1p-12f, sum[j] = -1.0f - 0x1p-11f;
  k->row.add_scaled(sum, row, 33, 1.0f + 0x1p-12f);
  for (int j = 0; j < 33; ++j) assert_true(sum[j] == 0.0f);
}
static void weighted_sums_round_twice(void **state) {
  (void)state;
  each_level(0, check_two_roundings);
}

static void check_kept(const embed__kernels *k) {
  static const float best[] = {1, 1, NAN, 1, NAN, -INFINITY, 0.0f, -0.0f}, row[] = {2, 0, 3, NAN, NAN, -1, -0.0f, 0.0f};
  static const float larger[] = {2, 1, NAN, NAN, NAN, -1, 0.0f, -0.0f}, smaller[] = {1, 0, NAN, NAN, NAN, -INFINITY, 0.0f, -0.0f};
  for (int64_t dim = 8; dim <= 24; dim += 4) { /* 8 cases again and again */
    for (int min = 0; min < 2; ++min) {
      float got[24], in[24];
      for (int64_t j = 0; j < dim; ++j) got[j] = best[j % 8], in[j] = row[j % 8];
      (min ? k->row.keep_min : k->row.keep_max)(got, in, dim);
      for (int64_t j = 0; j < dim; ++j) {
        float want = min ? smaller[j % 8] : larger[j % 8];
        assert_true(isnan(want) ? isnan(got[j]) : embed__bits_of_f32(got[j]) == embed__bits_of_f32(want));
      }
    }
  }
}
static void extremes_keep_nan_and_the_first_of_equals(void **state) {
  (void)state;
  each_level(0, check_kept);
}

static void check_sum_squares(const embed__kernels *k) {
  embed__kernels scalar = scalar_kernels();
  uint64_t state = 8;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded in = guarded_new(ROOM, at_end);
    for (int l = 0; l < LENGTHS; ++l) {
      for (int round = 0; round < 8; ++round) {
        int64_t dim = lengths[l];
        float *row = (float *)(void *)placed(in, ROOM, (size_t)(4 * dim), at_end);
        for (int64_t j = 0; j < dim; ++j) row[j] = round == 7 ? hard_float(&state) : ldexpf(test_uniform(&state), round * (int)(j % 7) * 10 - 100);
        double want = scalar.row.sum_squares(row, dim), got = k->row.sum_squares(row, dim);
        assert_true(isnan(want) ? isnan(got) : !memcmp(&got, &want, sizeof got));
      }
    }
    guarded_free(in);
  }
}
static void sums_of_squares_have_the_same_bits_at_every_level(void **state) {
  (void)state;
  each_level(1, check_sum_squares);
}

/* Both addresses are unreadable. */
static void check_nothing(const embed__kernels *k) {
  guarded in = guarded_new(64, 1), out = guarded_new(64, 1);
  const float *row = (const float *)(const void *)(in.at + 64);
  float *to = (float *)(void *)(out.at + 64);
  for (int form = 0; form < EMBED__STORED_I8; ++form) k->row.decode[form](row, to, 0, 1.5f);
  k->row.decode[EMBED__STORED_I8](in.at + 60, to, 0, 1.5f); /* its scale is there */
  k->row.to_f16(row, (uint16_t *)(void *)to, 0);
  k->row.to_bf16(row, (uint16_t *)(void *)to, 0);
  for (int streaming = 0; streaming < 2; ++streaming) k->row.copy(row, to, 0, streaming);
  for (int what = 0; what < UPDATES; ++what) update(k, what, to, row, 0, 1.5f);
  assert_true(k->row.sum_squares(row, 0) == 0);
  guarded_free(in);
  guarded_free(out);
}
static void rows_of_no_columns_touch_nothing(void **state) {
  (void)state;
  each_level(0, check_nothing);
}

static void check_control(const embed__kernels *k) {
  static unsigned char row[2048];
  static float out[512];
  uint64_t state = 9;
  unsigned before = control_bits();
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    fill_row(form, row, 301, &state);
    k->row.decode[form](row, out, 301, 1.0f);
    for (int what = 0; what < UPDATES; ++what) update(k, what, out, out + 250, 201, 2.0f);
    (void)k->row.sum_squares(out, 301);
    k->row.copy(row, out, 1200, true);
    k->row.fence();
  }
  assert_int_equal(control_bits(), before);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* --- timed: a row of 4096 columns --- */

typedef struct timed_row {
  const embed__kernels *k;
  int which; /* form or update */
  unsigned char row[ROOM], other[ROOM];
} timed_row;

static float *floats_at(unsigned char *at) { return (float *)(void *)at; }
static void run_decode(void *job) {
  timed_row *t = job;
  t->k->row.decode[t->which](t->row, floats_at(t->other), LONGEST, 1.5f);
}
static void run_narrow(void *job) {
  timed_row *t = job;
  (t->which ? t->k->row.to_bf16 : t->k->row.to_f16)(floats_at(t->row), (uint16_t *)(void *)t->other, LONGEST);
}
static void run_copy(void *job) {
  timed_row *t = job;
  t->k->row.copy(t->row, t->other, 4 * LONGEST, false);
}
static void run_update(void *job) {
  timed_row *t = job;
  update(t->k, t->which, floats_at(t->other), floats_at(t->row), LONGEST, 1.0f);
}
static void run_sum_squares(void *job) {
  timed_row *t = job;
  floats_at(t->other)[0] = (float)t->k->row.sum_squares(floats_at(t->row), LONGEST);
}

static void time_rows(const embed__kernels *k, kernel_timer *timer) {
  static const char *const forms[EMBED__STORED_COUNT] = {"decode f32", "decode f16", "decode bf16", "decode i8"};
  static const char *const names[UPDATES] = {"add", "add scaled", "multiply", "keep max", "keep min", "scale"};
  timed_kernel *const updates[UPDATES] = {(timed_kernel *)k->row.add,      (timed_kernel *)k->row.add_scaled, (timed_kernel *)k->row.multiply,
                                          (timed_kernel *)k->row.keep_max, (timed_kernel *)k->row.keep_min,   (timed_kernel *)k->row.scale};
  static timed_row t;
  uint64_t state = 10;
  t.k = k;
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    t.which = form;
    random_bytes(t.row, ROOM, &state);
    for (int64_t j = 0; form == EMBED__STORED_F32 && j < LONGEST; ++j) floats_at(t.row)[j] = test_uniform(&state);
    kernel_bench(
        timer, &(timed_case){forms[form], (timed_kernel *)k->row.decode[form], run_decode, &t, (double)stored_bytes(form, LONGEST) + 4 * LONGEST, TIMED_BYTES});
  }
  for (int64_t j = 0; j < LONGEST; ++j) floats_at(t.row)[j] = test_uniform(&state);
  t.which = 0;
  kernel_bench(timer, &(timed_case){"to f16", (timed_kernel *)k->row.to_f16, run_narrow, &t, 6 * LONGEST, TIMED_BYTES});
  t.which = 1;
  kernel_bench(timer, &(timed_case){"to bf16", (timed_kernel *)k->row.to_bf16, run_narrow, &t, 6 * LONGEST, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"copy", (timed_kernel *)k->row.copy, run_copy, &t, 8 * LONGEST, TIMED_BYTES});
  for (t.which = 0; t.which < UPDATES; ++t.which) {
    for (int64_t j = 0; j < LONGEST; ++j)
      floats_at(t.row)[j] = copysignf(1.0f, floats_at(t.row)[j]), floats_at(t.other)[j] = 0.5f; /* products keep their size */
    kernel_bench(timer, &(timed_case){names[t.which], updates[t.which], run_update, &t, t.which == SCALE ? 8 * LONGEST : 12 * LONGEST, TIMED_BYTES});
  }
  kernel_bench(timer, &(timed_case){"sum of squares", (timed_kernel *)k->row.sum_squares, run_sum_squares, &t, 4 * LONGEST, TIMED_BYTES});
}
KERNEL_CASES(time_rows)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(decoded_rows_have_the_bits_of_scalar),
    cmocka_unit_test(rows_may_start_at_any_byte),
    cmocka_unit_test(every_half_and_bfloat_widens_exactly),
    cmocka_unit_test(known_values_narrow_to_nearest_even),
    cmocka_unit_test(narrowing_agrees_with_the_scalar_types_on_a_million_patterns),
    cmocka_unit_test(narrowed_rows_stay_inside_their_extents),
    cmocka_unit_test(copies_are_exact_at_every_offset),
    cmocka_unit_test(copies_stay_inside_their_extents),
    cmocka_unit_test(updates_have_the_bits_of_scalar),
    cmocka_unit_test(weighted_sums_round_twice),
    cmocka_unit_test(extremes_keep_nan_and_the_first_of_equals),
    cmocka_unit_test(sums_of_squares_have_the_same_bits_at_every_level),
    cmocka_unit_test(rows_of_no_columns_touch_nothing),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("row", tests, time_rows)
