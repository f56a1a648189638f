/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather kernels: rows side by side have the bits of the codec's own loop at level scalar, row after row, and nothing
 * outside rows and outputs is touched. */
#include "timed.h"

#include "codec/codec.h"

enum { ROW_ROOM = 4 * LONGEST + 64, COUNTS = EMBED__SIDE, EVERY_DIM = 66 };
/* After every tail of a step; multiples of 32 and of 256 are all that some forms can have. */
static const int64_t longer_dims[] = {95, 96, 100, 127, 128, 192, 256, 300, 384, 511, 512, 768, 1024};
static const embed_dtype dtypes[] = {
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) constant,
#include "core/dtypes.def"
#undef DTYPE
};
enum { DIMS = EVERY_DIM + sizeof longer_dims / sizeof *longer_dims, DTYPES = sizeof dtypes / sizeof *dtypes };
static embed__kernels scalar;

typedef struct form {
  embed_dtype dtype;
  const embed__codec *codec;
  int32_t group;
  int64_t dim, bytes;
} form;

/* Half floats that are scales: finite, so that a sum has at most one NaN; sometimes infinite where there is no offset. */
static void tame_scale(unsigned char *half, bool alone, uint64_t *state) {
  half[1] &= 0xBF;
  if (alone && test_random(state) >> 60 == 0) half[0] = 0, half[1] = 0x7C;
}

static void tame_scales(const form *f, unsigned char *row, uint64_t *state) {
  const embed__dtype_info *info = embed__dtype_find(f->dtype);
  int64_t columns = info->block ? info->block : f->group, bytes = info->block ? info->block_bytes : 2 + f->group / 2;
  for (int64_t j = 0; columns > 1 && j < f->dim; j += columns, row += bytes) {
    switch (f->dtype) {
      case EMBED_Q3_K: tame_scale(row + 108, true, state); break;
      case EMBED_Q6_K: tame_scale(row + 208, true, state); break;
      case EMBED_Q2_K: tame_scale(row + 80, false, state), tame_scale(row + 82, false, state); break;
      case EMBED_Q4_1:
      case EMBED_Q5_1:
      case EMBED_Q4_K:
      case EMBED_Q5_K: tame_scale(row, false, state), tame_scale(row + 2, false, state); break;
      default: tame_scale(row, true, state);
    }
  }
}

static void fill_stored(const form *f, unsigned char *row, uint64_t *state) {
  random_bytes(row, (size_t)f->bytes, state);
  if (f->dtype == EMBED_F32) {
    for (int64_t j = 0; j < f->dim; ++j) {
      float value = hard_float(state);
      memcpy(row + 4 * j, &value, 4);
    }
  } else if (f->dtype == EMBED_I8_ROW || f->dtype == EMBED_U8_ROW) {
    float scale[2] = {test_uniform(state), test_uniform(state)};
    memcpy(row + f->dim, scale, f->dtype == EMBED_U8_ROW ? 8 : 4);
  } else {
    tame_scales(f, row, state);
  }
}

typedef void form_check(const embed__kernels *k, const form *f, uint64_t *state);

/* Every form that the level has kernels for, every length that it can hold, every group. */
static void each_form(const embed__kernels *k, form_check *check) {
  uint64_t state = 11;
  scalar = scalar_kernels();
  for (int d = 0; d < DTYPES; ++d) {
    const embed__codec *codec = embed__codec_find(dtypes[d]);
    if (!k->gather.decode[codec->form]) continue;
    for (int32_t group = 32; group <= (dtypes[d] == EMBED_I4_GROUP ? 128 : 32); group *= 2) {
      for (int l = 0; l < DIMS; ++l) {
        const int64_t dim = l < EVERY_DIM ? l + 1 : longer_dims[l - EVERY_DIM];
        form f = {.dtype = dtypes[d], .codec = codec, .group = group, .dim = dim, .bytes = embed__row_bytes(dtypes[d], dim, group)};
        if (f.bytes > 0) check(k, &f, &state);
      }
    }
  }
}

/* Rows of one call: the first begins and the others end at an unreadable page, one stands at any byte. */
typedef struct stand {
  guarded first, last;
  unsigned char loose[ROW_ROOM];
} stand;
static stand *stand_new(void) {
  stand *s = malloc(sizeof *s);
  s->first = guarded_new(ROW_ROOM, 0);
  s->last = guarded_new(ROW_ROOM, 1);
  return s;
}
static void stand_free(stand *s) {
  guarded_free(s->first);
  guarded_free(s->last);
  free(s);
}

static embed__rows stored_rows(stand *s, const form *f, int count, uint64_t *state) {
  embed__rows rows = {.count = count, .group = f->group, .dim = f->dim, .bytes = f->bytes};
  unsigned char *at[3] = {s->first.at, placed(s->last, ROW_ROOM, (size_t)f->bytes, 1), s->loose + test_random(state) % 64};
  for (int i = 0; i < 3; ++i) fill_stored(f, at[i], state);
  for (int r = 0; r < EMBED__SIDE; ++r) rows.row[r] = at[r % 3], rows.ahead[r] = at[(r + 1) % 3];
  return rows;
}

static void decode_as_scalar(const form *f, const void *row, float scale, embed_dtype type, void *out) {
  static float wide[LONGEST];
  f->codec->decode(&scalar, row, wide, f->dim, f->group, scale);
  if (type == EMBED_F32)
    memcpy(out, wide, (size_t)f->dim * 4);
  else
    (type == EMBED_F16 ? scalar.row.to_f16 : scalar.row.to_bf16)(wide, out, f->dim);
}

static void check_decoded(const embed__kernels *k, const form *f, const embed__rows *rows, const embed__place *place, unsigned char *all, size_t room) {
  static const float scales[] = {1.0f, -1.5f, 0.37f};
  static unsigned char want[4 * LONGEST];
  const size_t width = (size_t)(f->dim * (place->type == EMBED_F32 ? 4 : 2));
  for (int s = f->dtype == EMBED_F32 ? 1 : 0; s < 3; ++s) { /* floats are copied where the scale is 1 */
    memset(all, 0xA5, room);
    k->gather.decode[f->codec->form](rows, scales[s], place);
    k->row.fence();
    for (int r = 0; r < rows->count; ++r) {
      decode_as_scalar(f, rows->row[r], scales[s], place->type, want);
      assert_same_bits(place->at + r * place->step, want, width);
      memset(place->at + r * place->step, 0xA5, width);
    }
    assert_true(test_all_bytes(all, room, 0xA5)); /* between rows and beside them */
  }
}

/* Counts of one form and length: all where the length is a tail, else one of few and one of many. */
static int next_count(const form *f, int count) { return f->dim <= EVERY_DIM || f->dim % 32 == 0 ? count + 1 : count + 5; }

static stand *rows_of_test;
/* Outputs that go past the caches start on a line: they end at an unreadable page, or begin at one. */
static void check_form_decodes(const embed__kernels *k, const form *f, uint64_t *state) {
  static const embed_dtype types[] = {EMBED_F32, EMBED_F16, EMBED_BF16};
  for (int count = 1; count <= COUNTS; count = next_count(f, count)) {
    embed__rows rows = stored_rows(rows_of_test, f, count, state);
    for (int t = 0; t < 3; ++t) {
      const int64_t width = f->dim * (t ? 2 : 4), lines = (width + 63) / 64 * 64;
      for (int streaming = 0; streaming < 2; ++streaming) {
        const int64_t step = streaming ? lines + 64 * (count % 2) : width + (count % 2 ? 7 : 0);
        const size_t room = (size_t)(step * (count - 1) + (streaming ? lines : width));
        guarded out = guarded_new(room, (f->dim + count + t) % 3 != 0);
        embed__place place = {.at = out.at, .step = step, .type = types[t], .streaming = streaming};
        check_decoded(k, f, &rows, &place, out.at, room);
        guarded_free(out);
      }
    }
  }
}
static void check_decode(const embed__kernels *k) { each_form(k, check_form_decodes); }
static void rows_side_by_side_have_the_bits_of_scalar(void **state) {
  (void)state;
  rows_of_test = stand_new();
  each_level(1, check_decode);
  stand_free(rows_of_test);
}

/* Which NaN comes out of several is open in a sum. */
static void assert_same_sum(const float *got, const float *want, int64_t dim, bool extreme) {
  for (int64_t j = 0; j < dim; ++j)
    if (extreme || !isnan(want[j]) || !isnan(got[j])) assert_int_equal(embed__bits_of_f32(got[j]), embed__bits_of_f32(want[j]));
}

static void pool_as_scalar(const form *f, const embed__rows *rows, embed__pooling how, const float *weights, bool first, float *pooled) {
  static float row[LONGEST];
  for (int r = 0; r < rows->count; ++r) {
    f->codec->decode(&scalar, rows->row[r], row, f->dim, f->group, 1.0f);
    bool only = first && r == 0;
    if (only) memset(pooled, 0, (size_t)f->dim * 4);
    switch (how) {
      case EMBED__POOL_SUM: scalar.row.add(pooled, row, f->dim); break;
      case EMBED__POOL_WEIGHTED: scalar.row.add_scaled(pooled, row, f->dim, weights[r]); break;
      default:
        if (only)
          memcpy(pooled, row, (size_t)f->dim * 4);
        else
          (how == EMBED__POOL_MAX ? scalar.row.keep_max : scalar.row.keep_min)(pooled, row, f->dim);
    }
  }
}

static void check_form_pools(const embed__kernels *k, const form *f, uint64_t *state) {
  static float want[LONGEST];
  float weights[EMBED__SIDE];
  const size_t bytes = (size_t)f->dim * 4;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded out = guarded_new(ROW_ROOM, at_end);
    for (int count = 1; count <= COUNTS; count = next_count(f, count)) {
      embed__rows rows = stored_rows(rows_of_test, f, count, state);
      for (int how = EMBED__POOL_SUM; how <= EMBED__POOL_MIN; ++how) {
        for (int first = 0; first < 2; ++first) {
          for (int r = 0; r < EMBED__SIDE; ++r) weights[r] = how == EMBED__POOL_WEIGHTED ? test_uniform(state) : 1.0f;
          memset(out.at, 0xA5, ROW_ROOM);
          float *got = (float *)(void *)placed(out, ROW_ROOM, bytes, at_end);
          if (!first) hard_floats(got, f->dim, state);
          memcpy(want, got, bytes);
          pool_as_scalar(f, &rows, (embed__pooling)how, weights, first, want);
          k->gather.pool[f->codec->form](&rows, (embed__pooling)how, weights, first, got);
          assert_same_sum(got, want, f->dim, how >= EMBED__POOL_MAX);
          assert_true(test_all_bytes(at_end ? out.at : out.at + bytes, ROW_ROOM - bytes, 0xA5));
        }
      }
    }
    guarded_free(out);
  }
}
static void check_pool(const embed__kernels *k) { each_form(k, check_form_pools); }
static void pooled_rows_have_the_bits_of_scalar(void **state) {
  (void)state;
  rows_of_test = stand_new();
  each_level(1, check_pool);
  stand_free(rows_of_test);
}

static void check_copies(const embed__kernels *k) {
  uint64_t state = 12;
  if (!k->gather.copy) return;
  for (int64_t bytes = 1; bytes < 1300; bytes += bytes < 300 ? 1 : 37) {
    form f = {.dtype = EMBED_F64, .dim = bytes, .bytes = bytes};
    for (int count = 1; count <= COUNTS; ++count) {
      embed__rows rows = stored_rows(rows_of_test, &f, count, &state);
      for (int streaming = 0; streaming < 2; ++streaming) {
        const int64_t step = streaming ? (bytes + 63) / 64 * 64 + 64 : bytes + count, offset = streaming ? (bytes * 5 + count) % 64 : 0;
        const size_t room = (size_t)(offset + step * (count - 1) + bytes);
        guarded out = guarded_new(room, !(bytes % 2));
        memset(out.at, 0xA5, room);
        embed__place place = {.at = out.at + offset, .step = step, .streaming = streaming};
        k->gather.copy(&rows, &place);
        k->row.fence();
        for (int r = 0; r < count; ++r) {
          assert_same_bits(place.at + r * step, rows.row[r], (size_t)bytes);
          memset(place.at + r * step, 0xA5, (size_t)bytes);
        }
        assert_true(test_all_bytes(out.at, room, 0xA5));
        guarded_free(out);
      }
    }
  }
}
static void rows_are_copied_exactly_at_every_offset(void **state) {
  (void)state;
  rows_of_test = stand_new();
  each_level(1, check_copies);
  stand_free(rows_of_test);
}

static void check_form_controls(const embed__kernels *k, const form *f, uint64_t *state) {
  static float out[LONGEST];
  embed__rows rows = stored_rows(rows_of_test, f, 1, state);
  unsigned before = control_bits();
  k->gather.decode[f->codec->form](&rows, 2.0f, &(embed__place){.at = (unsigned char *)out, .type = EMBED_F32});
  k->gather.pool[f->codec->form](&rows, EMBED__POOL_SUM, NULL, false, out);
  assert_int_equal(control_bits(), before);
}
static void check_control(const embed__kernels *k) { each_form(k, check_form_controls); }
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  rows_of_test = stand_new();
  each_level(1, check_control);
  stand_free(rows_of_test);
}

/* --- timed: 8 rows of 768 columns (of 1024 all would meet in the same cache sets); the specification takes them one after another --- */

enum { TIMED_DIM = 768 };
typedef struct timed_rows {
  const embed__kernels *k;
  const form *f;
  embed__rows rows;
  embed__place place;
  float out[EMBED__SIDE * TIMED_DIM], row[TIMED_DIM];
} timed_rows;

static void run_decode(void *job) {
  timed_rows *t = job;
  embed__gather_decode *decode = t->k->gather.decode[t->f->codec->form];
  if (decode) {
    decode(&t->rows, 1.5f, &t->place);
  } else {
    for (int r = 0; r < EMBED__SIDE; ++r) t->f->codec->decode(&scalar, t->rows.row[r], t->out + r * TIMED_DIM, TIMED_DIM, t->f->group, 1.5f);
  }
}
static void run_pool(void *job) {
  timed_rows *t = job;
  embed__gather_pool *pool = t->k->gather.pool[t->f->codec->form];
  if (pool)
    pool(&t->rows, EMBED__POOL_SUM, NULL, true, t->out);
  else
    pool_as_scalar(t->f, &t->rows, EMBED__POOL_SUM, NULL, true, t->out);
}
static void run_copy(void *job) {
  timed_rows *t = job;
  if (t->k->gather.copy) {
    t->k->gather.copy(&t->rows, &t->place);
  } else {
    for (int r = 0; r < EMBED__SIDE; ++r) scalar.row.copy(t->rows.row[r], t->place.at + r * t->place.step, t->rows.bytes, false);
  }
}

static void time_rows(const embed__kernels *k, kernel_timer *timer) {
  static timed_rows t;
  static unsigned char stored[2 * EMBED__SIDE * 4 * TIMED_DIM];
  uint64_t state = 13;
  scalar = scalar_kernels();
  for (int d = 0; d < DTYPES; ++d) {
    form f = {.dtype = dtypes[d], .codec = embed__codec_find(dtypes[d]), .group = 32, .dim = TIMED_DIM, .bytes = embed__row_bytes(dtypes[d], TIMED_DIM, 32)};
    embed__kernels best;
    embed__level_fill(embed__level_best(embed__cpu_let()), &best);
    /* Of dtypes without kernels the specification says little, but where no dtype has one it is all there is. */
    const bool left_out = best.gather.decode[EMBED__FORM_f32] && !best.gather.decode[f.codec->form];
    if (f.bytes <= 0 || f.bytes > 4 * TIMED_DIM || left_out) continue;
    t.k = k, t.f = &f;
    t.place = (embed__place){.at = (unsigned char *)t.out, .step = 4 * TIMED_DIM, .type = EMBED_F32};
    t.rows = (embed__rows){.count = EMBED__SIDE, .group = f.group, .dim = TIMED_DIM, .bytes = f.bytes};
    for (int r = 0; r < 2 * EMBED__SIDE; ++r) {
      unsigned char *at = stored + r * f.bytes;
      fill_stored(&f, at, &state);
      for (int64_t j = 0; f.dtype == EMBED_F32 && j < TIMED_DIM; ++j) memcpy(at + 4 * j, &(float){test_uniform(&state)}, 4);
      if (r < EMBED__SIDE)
        t.rows.row[r] = at;
      else
        t.rows.ahead[r - EMBED__SIDE] = at;
    }
    char what[32];
    snprintf(what, sizeof what, "decode %s", embed__dtype_name(f.dtype));
    embed__gather_decode *decode = k->gather.decode[f.codec->form];
    timed_kernel *const specification = (timed_kernel *)f.codec->decode;
    kernel_bench(timer, &(timed_case){what, decode ? (timed_kernel *)decode : specification, run_decode, &t, (double)(EMBED__SIDE * (f.bytes + 4 * TIMED_DIM)),
                                      TIMED_BYTES});
    snprintf(what, sizeof what, "pool %s", embed__dtype_name(f.dtype));
    embed__gather_pool *pool = k->gather.pool[f.codec->form];
    kernel_bench(timer,
                 &(timed_case){what, pool ? (timed_kernel *)pool : specification, run_pool, &t, (double)(EMBED__SIDE * f.bytes + 4 * TIMED_DIM), TIMED_BYTES});
    if (f.dtype != EMBED_F32) continue;
    timed_kernel *const copy = k->gather.copy ? (timed_kernel *)k->gather.copy : (timed_kernel *)k->row.copy;
    kernel_bench(timer, &(timed_case){"copy", k->gather.copy || k->row.copy == scalar.row.copy ? copy : NULL, run_copy, &t, (double)(2 * EMBED__SIDE * f.bytes),
                                      TIMED_BYTES});
  }
}
KERNEL_CASES(time_rows)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_side_by_side_have_the_bits_of_scalar),
    cmocka_unit_test(pooled_rows_have_the_bits_of_scalar),
    cmocka_unit_test(rows_are_copied_exactly_at_every_offset),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("gather", tests, time_rows)
