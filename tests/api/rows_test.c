/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows read and written by id, converted on the way. */
#include "counting.h"

static embed_context *ctx;

static int start(void **state) {
  (void)state;
  ctx = context_new();
  return 0;
}

static int stop(void **state) {
  (void)state;
  embed_context_release(ctx);
  return 0;
}

static void get_gives_the_decoded_row_rounded_once(void **state) {
  (void)state;
  embed_context *contexts[CONTEXTS];
  int count = contexts_new(contexts);
  enum { ROWS = 6 };
  const int64_t ids[] = {5, 0, 0, 3};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t DIM = whole_dim(stored_dtypes[d], 37);
    test_table made = table_new(ctx, stored_dtypes[d], ROWS, DIM, 1, 11);
    for (int f = 0; f < COUNT(float_dtypes); ++f) {
      for (int c = 0; c < count; ++c) {
        int64_t ld = c % 2 ? DIM + 3 : 0, stride = ld ? ld : DIM, size = size_of(float_dtypes[f]);
        guarded out = guarded_new((size_t)((3 * stride + DIM) * size), 1);
        memset(out.at, 0xA5, (size_t)((3 * stride + DIM) * size));
        OK(embed_table_get_rows(contexts[c], made.t, ids, 4, out.at, float_dtypes[f], ld));
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < DIM; ++j) assert_value(out.at, float_dtypes[f], i * stride + j, rounded_to(float_dtypes[f], made.decoded[ids[i] * DIM + j]));
          if (i < 3) assert_true(test_all_bytes(out.at + (i * stride + DIM) * size, (size_t)((stride - DIM) * size), 0xA5));
        }
        guarded_free(out);
      }
    }
    table_free(made);
  }
  contexts_free(contexts, count);
}

/* How far a value of [-1, 1) may come back from what was set. */
static double step_of(embed_dtype t) {
  switch (t) {
    case EMBED_I8_ROW:
    case EMBED_U8_ROW:
    case EMBED_Q8_0: return 1.0 / 126;
    case EMBED_F8_E4M3: return 1.0 / 32;
    case EMBED_Q6_K: return 0.05;
    case EMBED_F8_E5M2: return 1.0 / 16;
    case EMBED_U4_ROW: return 0.07;
    case EMBED_Q5_0:
    case EMBED_Q5_1:
    case EMBED_Q5_K: return 0.08;
    case EMBED_I4_GROUP:
    case EMBED_Q4_0:
    case EMBED_IQ4_NL:
    case EMBED_IQ4_XS:
    case EMBED_Q4_1: return 0.14;
    case EMBED_NVFP4: return 0.2;
    case EMBED_MXFP4: return 0.25;
    case EMBED_U2_ROW: return 0.34;
    case EMBED_Q4_K: return 0.17;
    case EMBED_Q3_K: return 0.4;
    case EMBED_Q2_K: return 0.9;
    default: return 0;
  }
}

static void set_then_get_gives_the_rows_back(void **state) {
  (void)state;
  enum { ROWS = 5 };
  const int64_t ids[] = {4, 1, 2};
  uint64_t random = 77;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t DIM = whole_dim(stored_dtypes[d], 33);
    for (int f = 0; f < COUNT(float_dtypes); ++f) {
      int64_t size = size_of(float_dtypes[f]), ld = DIM + 2, bytes = embed_row_bytes(stored_dtypes[d], DIM, 0);
      embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d], .row_bytes = bytes + 7};
      guarded src = guarded_new((size_t)((2 * ld + DIM) * size), 1), memory = guarded_new((size_t)(4 * (bytes + 7) + bytes), 1);
      memset(src.at, 0xFF, (size_t)((2 * ld + DIM) * size)); /* NaN between the rows */
      memset(memory.at, 0xA5, (size_t)(4 * (bytes + 7) + bytes));
      for (int i = 0; i < 3; ++i) { /* values that bfloats hold */
        for (int j = 0; j < DIM; ++j) {
          float x = rounded_to(EMBED_BF16, test_uniform(&random));
          uint32_t u;
          memcpy(&u, &x, 4);
          uint16_t high = (uint16_t)(u >> 16), half = 0;
          unsigned char *at = src.at + (i * ld + j) * size;
          for (uint32_t h = 0; float_dtypes[f] == EMBED_F16 && h < 65536; h += 1) { /* slow and plain */
            if (f32_of_f16_bits((uint16_t)h) == rounded_to(EMBED_F16, x)) {
              half = (uint16_t)h;
              break;
            }
          }
          if (float_dtypes[f] == EMBED_F32)
            memcpy(at, &x, 4);
          else
            memcpy(at, float_dtypes[f] == EMBED_BF16 ? &high : &half, 2);
        }
      }
      embed_table *t;
      OK(embed_table_borrow(ctx, memory.at, ROWS, DIM, &o, NULL, NULL, &t));
      OK(embed_table_set_rows(ctx, t, ids, 3, src.at, float_dtypes[f], ld, NULL));
      float back[3][256];
      OK(embed_table_get_rows(ctx, t, ids, 3, back, EMBED_F32, 256));
      double step = step_of(stored_dtypes[d]);
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < DIM; ++j) {
          float want = value_at(src.at, float_dtypes[f], i * ld + j);
          if (stored_dtypes[d] == EMBED_F16 || stored_dtypes[d] == EMBED_BF16) want = rounded_to(stored_dtypes[d], want);
          if (fabs((double)back[i][j] - (double)want) > step) fail_msg("dtype %d: %a, not %a", stored_dtypes[d], (double)back[i][j], (double)want);
        }
      }
      for (int r = 0; r < ROWS; ++r) { /* rows that nobody named, and what lies between rows */
        if (r == 0 || r == 3) assert_true(test_all_bytes(memory.at + r * (bytes + 7), (size_t)bytes, 0xA5));
        if (r < ROWS - 1) assert_true(test_all_bytes(memory.at + r * (bytes + 7) + bytes, 7, 0xA5));
      }
      embed_table_release(t);
      guarded_free(src);
      guarded_free(memory);
    }
  }
}

static void the_last_of_equal_ids_wins(void **state) {
  (void)state;
  const int64_t ids[] = {1, 0, 1, 1};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d]};
    embed_table *t;
    float src[4][256], back[2][256];
    const int64_t both[] = {0, 1}, dim = whole_dim(stored_dtypes[d], 1);
    for (int i = 0; i < 4; ++i) /* of one column, or a single value among zeros that every form meets */
      for (int j = 0; j < 256; ++j) src[i][j] = j == 0 ? -32 * (float)(1 + i) : 0;
    OK(embed_table_create(ctx, 2, dim, &o, &t));
    OK(embed_table_set_rows(ctx, t, ids, 4, src, EMBED_F32, 256, NULL));
    OK(embed_table_get_rows(ctx, t, both, 2, back, EMBED_F32, 256));
    const float within = stored_dtypes[d] == EMBED_NVFP4 ? 4 : 0.2f; /* its steps are floats of 3 bits */
    assert_near(back[0][0], -64, within / 2);
    assert_near(back[1][0], -128, within);
    embed_table_release(t);
  }
}

static void an_id_outside_the_rows_is_named_and_nothing_is_written(void **state) {
  (void)state;
  static const int64_t bad[] = {-1, 4, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
  embed_table_options o = {.size = sizeof o, .vocab = 2};
  embed_table *t;
  OK(embed_table_create(ctx, 4, 3, &o, &t));
  for (int i = 0; i < COUNT(bad); ++i) {
    const int64_t ids[] = {3, 0, bad[i], bad[i]}; /* rows past the vocabulary are rows all the same */
    unsigned char out[4 * 3 * 4], src[sizeof out];
    char number[32];
    memset(out, 0xA5, sizeof out);
    memset(src, 0, sizeof src);
    src[0] = 1;
    snprintf(number, sizeof number, "%lld", (long long)bad[i]);
    assert_int_equal(embed_table_get_rows(ctx, t, ids, 4, out, EMBED_F32, 0), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 2);
    assert_says(ctx, number);
    assert_says(ctx, "4 rows");
    assert_true(test_all_bytes(out, sizeof out, 0xA5));
    assert_int_equal(embed_table_set_rows(ctx, t, ids, 4, src, EMBED_F32, 0, NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 2);
    assert_true(test_all_bytes(embed_table_data(t), 4 * 3 * 4, 0));
  }
  embed_table_release(t);
}

/* QU-05 */
static void rows_that_cannot_be_stored_leave_the_table_as_it_was(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  const int64_t ids[] = {0, 2, 1};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d]};
    embed_table *t;
    const int64_t dim = whole_dim(stored_dtypes[d], 40);
    OK(embed_table_create(ctx, 3, dim, &o, &t));
    int64_t bytes = 3 * embed_table_row_bytes(t);
    memset(embed_table_mutable_data(t), 0x3C, (size_t)bytes);
    for (int b = 0; b < COUNT(bad); ++b) {
      float src[3][256];
      for (int i = 0; i < 3 * 256; ++i) src[i / 256][i % 256] = 1;
      src[1][dim - 1] = bad[b];
      embed_status status = embed_table_set_rows(ctx, t, ids, 3, src, EMBED_F32, 256, NULL);
      const int small_float = stored_dtypes[d] == EMBED_F8_E4M3 || stored_dtypes[d] == EMBED_F8_E5M2;
      if (step_of(stored_dtypes[d]) > 0 && !small_float) {
        assert_int_equal(status, EMBED_E_NONFINITE);
        assert_int_equal(embed_error_at(ctx), 1); /* position in src */
        assert_true(test_all_bytes(embed_table_data(t), (size_t)bytes, 0x3C));
      } else {
        assert_int_equal(status, EMBED_OK); /* floats hold them */
        float back[256];
        const int64_t two = 2;
        OK(embed_table_get_rows(ctx, t, &two, 1, back, EMBED_F32, 0));
        assert_true(isnan(bad[b]) || stored_dtypes[d] == EMBED_F8_E4M3 ? isnan(back[dim - 1]) : back[dim - 1] == bad[b]); /* E4M3 has no infinity */
      }
    }
    embed_table_release(t);
  }
}

static void buffers_that_break_their_contract_are_refused(void **state) {
  (void)state;
  static const struct {
    int64_t n, ld;
    embed_dtype dtype;
    embed_status status;
  } bad[] = {
      {-1, 0, EMBED_F32, EMBED_E_ARGUMENT},
      {2, 2, EMBED_F32, EMBED_E_ARGUMENT},
      {2, -3, EMBED_F32, EMBED_E_ARGUMENT},
      {2, 0, EMBED_F64, EMBED_E_ARGUMENT},
      {2, 0, EMBED_I8_ROW, EMBED_E_ARGUMENT},
      {2, 0, EMBED_DTYPE_NONE, EMBED_E_ARGUMENT},
      {INT64_MAX, 0, EMBED_F32, EMBED_E_OVERFLOW},
      {2, INT64_MAX / 2, EMBED_F32, EMBED_E_OVERFLOW},
      {(int64_t)1 << 62, 3, EMBED_BF16, EMBED_E_OVERFLOW},
  };
  const int64_t ids[2] = {0, 1};
  float buffer[6];
  embed_table *t;
  OK(embed_table_create(ctx, 2, 3, NULL, &t));
  memset(buffer, 0xA5, sizeof buffer);
  for (int i = 0; i < COUNT(bad); ++i) {
    if (embed_table_get_rows(ctx, t, ids, bad[i].n, buffer, bad[i].dtype, bad[i].ld) != bad[i].status) fail_msg("get, case %d: %s", i, embed_error_text(ctx));
    if (embed_table_set_rows(ctx, t, ids, bad[i].n, buffer, bad[i].dtype, bad[i].ld, NULL) != bad[i].status)
      fail_msg("set, case %d: %s", i, embed_error_text(ctx));
  }
  assert_int_equal(embed_table_get_rows(ctx, t, NULL, 2, buffer, EMBED_F32, 0), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_get_rows(ctx, t, ids, 2, NULL, EMBED_F32, 0), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_set_rows(ctx, t, NULL, 2, buffer, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_set_rows(ctx, t, ids, 2, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(buffer, sizeof buffer, 0xA5));
  assert_true(test_all_bytes(embed_table_data(t), 24, 0));
  embed_table_release(t);
}

/* FF-01 */
static void with_a_count_of_0_no_pointer_is_followed(void **state) {
  (void)state;
  static const uintptr_t addresses[] = {0, 1, 8};
  embed_table *t;
  OK(embed_table_create(ctx, 2, 3, NULL, &t));
  for (int i = 0; i < COUNT(addresses); ++i) {
    void *nowhere = (void *)addresses[i];
    OK(embed_table_get_rows(ctx, t, nowhere, 0, nowhere, EMBED_F32, 0));
    OK(embed_table_set_rows(ctx, t, nowhere, 0, nowhere, EMBED_F32, 0, NULL));
  }
  embed_table_release(t);
}

static void stochastic_rounding_is_reproducible_and_right_in_the_mean(void **state) {
  (void)state;
  enum { ROWS = 4096, DIM = 8 };
  int64_t *ids = malloc(ROWS * sizeof *ids);
  float *src = malloc(ROWS * DIM * sizeof *src), *back = malloc(ROWS * DIM * sizeof *src);
  for (int r = 0; r < ROWS; ++r) {
    ids[r] = r;
    for (int j = 0; j < DIM; ++j) src[r * DIM + j] = 1 + (float)j * 0x1p-10f; /* between the bfloats 1 and 1 + 2^-7 */
  }
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
  embed_rows_options noisy = {.size = sizeof noisy, .flags = EMBED_ROWS_STOCHASTIC, .seed = 5}, other = noisy;
  embed_table *a, *b;
  other.seed = 6;
  OK(embed_table_create(ctx, ROWS, DIM, &o, &a));
  OK(embed_table_create(ctx, ROWS, DIM, &o, &b));
  OK(embed_table_set_rows(ctx, a, ids, ROWS, src, EMBED_F32, 0, &noisy));
  OK(embed_table_get_rows(ctx, a, ids, ROWS, back, EMBED_F32, 0));
  for (int j = 0; j < DIM; ++j) {
    double up = 0, share = j / 8.0;
    for (int r = 0; r < ROWS; ++r) {
      float x = back[r * DIM + j];
      assert_true(x == 1 || x == 1 + 0x1p-7f);
      up += x > 1;
    }
    assert_true(fabs(up / ROWS - share) <= 5 * sqrt(share * (1 - share) / ROWS));
  }
  for (int r = ROWS - 1; r >= 0; --r) /* row by row, in another order: the same bits */
    OK(embed_table_set_rows(ctx, b, &ids[r], 1, src + r * DIM, EMBED_F32, 0, &noisy));
  assert_same_bits(embed_table_data(a), embed_table_data(b), ROWS * DIM * 2);
  OK(embed_table_set_rows(ctx, b, ids, ROWS, src, EMBED_F32, 0, &other));
  assert_memory_not_equal(embed_table_data(a), embed_table_data(b), ROWS * DIM * 2);
  noisy.flags = 2;
  assert_int_equal(embed_table_set_rows(ctx, a, ids, 1, src, EMBED_F32, 0, &noisy), EMBED_E_OPTION);
  embed_table_release(a);
  embed_table_release(b);
  free(ids);
  free(src);
  free(back);
}

static void blocks_have_no_stochastic_rounding(void **state) {
  (void)state;
  embed_rows_options noisy = {.size = sizeof noisy, .flags = EMBED_ROWS_STOCHASTIC};
  const int64_t id = 0;
  float src[256] = {1};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    bool block = stored_dtypes[d] >= 64;
    const int64_t dim = whole_dim(stored_dtypes[d], 256);
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d]};
    embed_table *t;
    OK(embed_table_create(ctx, 1, dim, &o, &t));
    assert_int_equal(embed_table_set_rows(ctx, t, &id, 1, src, EMBED_F32, 0, &noisy), block ? EMBED_E_UNSUPPORTED : EMBED_OK);
    if (block) {
      assert_says(ctx, embed_dtype_name(stored_dtypes[d]));
      assert_true(test_all_bytes(embed_table_data(t), (size_t)embed_table_row_bytes(t), 0));
    }
    embed_table_release(t);
  }
}

static void a_warm_get_and_set_allocate_nothing(void **state) {
  (void)state;
  counting c;
  counting_start(&c);
  embed_context *counted = counting_context(&c, NULL);
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_I8_ROW};
  embed_table *t;
  const int64_t ids[3] = {0, 1, 2};
  static float rows[3][70000];
  OK(embed_table_create(counted, 3, 70000, &o, &t));
  for (int round = 0; round < 6; ++round) {
    int64_t before = atomic_load(&c.calls);
    OK(embed_table_set_rows(counted, t, ids, 3, rows, EMBED_F32, 0, NULL));
    OK(embed_table_get_rows(counted, t, ids, 3, rows, EMBED_F32, 0));
    if (round > 1) assert_int_equal(atomic_load(&c.calls), before);
  }
  embed_context_trim(counted);
  assert_true(atomic_load(&c.bytes) < 300000); /* the table and the context */
  embed_table_release(t);
  embed_context_release(counted);
  counting_check(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(get_gives_the_decoded_row_rounded_once),
    cmocka_unit_test(set_then_get_gives_the_rows_back),
    cmocka_unit_test(the_last_of_equal_ids_wins),
    cmocka_unit_test(an_id_outside_the_rows_is_named_and_nothing_is_written),
    cmocka_unit_test(rows_that_cannot_be_stored_leave_the_table_as_it_was),
    cmocka_unit_test(buffers_that_break_their_contract_are_refused),
    cmocka_unit_test(with_a_count_of_0_no_pointer_is_followed),
    cmocka_unit_test(stochastic_rounding_is_reproducible_and_right_in_the_mean),
    cmocka_unit_test(blocks_have_no_stochastic_rounding),
    cmocka_unit_test(a_warm_get_and_set_allocate_nothing),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
