/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads with a sketch as their users see them: the same answers, what is told of them, stale and refreshed, and when they stop trying.
 * unit/sketch_test.c has the tables that are made to break it. */
#include "test.h"

#include <embed/embed.h>
#include <stdbool.h>

#include "counting.h"

#define OK(call) assert_int_equal((call), EMBED_OK)

enum { VOCAB = 5003, DIM = 96, K = 12, MOST_N = 20 };

typedef struct fixture {
  embed_pool *pool;
  embed_context *ctx;
  embed_table *t;
  embed_head *plain, *sketched;
  float x[MOST_N * DIM];
} fixture;

static embed_head *head_of(embed_context *ctx, const embed_table *t, uint32_t flags) {
  const embed_head_options o = {.size = sizeof o, .flags = flags};
  embed_head *h = NULL;
  OK(embed_head_create(ctx, t, NULL, &o, &h));
  return h;
}

static fixture fixture_new(int32_t threads, uint32_t form) {
  fixture f = {.pool = NULL};
  uint64_t state = 7;
  if (threads > 1) OK(embed_pool_create(threads, &f.pool));
  const embed_context_options o = {.size = sizeof o, .pool = f.pool};
  const embed_table_options table = {.size = sizeof table, .dtype = EMBED_BF16};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .seed = 3};
  OK(embed_context_create(&o, &f.ctx));
  OK(embed_table_create(f.ctx, VOCAB, DIM, &table, &f.t));
  OK(embed_table_init(f.ctx, f.t, &init));
  f.plain = head_of(f.ctx, f.t, form);
  f.sketched = head_of(f.ctx, f.t, form | EMBED_HEAD_SKETCH);
  for (int j = 0; j < MOST_N * DIM; ++j) f.x[j] = test_uniform(&state);
  return f;
}

static void fixture_free(fixture f) {
  embed_head_release(f.plain);
  embed_head_release(f.sketched);
  embed_table_release(f.t);
  embed_context_release(f.ctx);
  embed_pool_release(f.pool);
}

static embed_head_info info_of(const fixture *f, const embed_head *h) {
  embed_head_info info = {.size = sizeof info};
  OK(embed_head_describe(f->ctx, h, &info));
  return info;
}

static void same(const fixture *f, int64_t n, int32_t k, bool logsumexp) {
  static int32_t ids[2][MOST_N * VOCAB], count[2][MOST_N];
  static float z[2][MOST_N * VOCAB], lse[2][MOST_N];
  OK(embed_topk(f->ctx, f->plain, f->x, EMBED_F32, n, 0, k, ids[0], z[0], logsumexp ? lse[0] : NULL, count[0], NULL));
  OK(embed_topk(f->ctx, f->sketched, f->x, EMBED_F32, n, 0, k, ids[1], z[1], logsumexp ? lse[1] : NULL, count[1], NULL));
  assert_same_bits(ids[1], ids[0], (size_t)(n * k) * 4);
  assert_same_bits(z[1], z[0], (size_t)(n * k) * 4);
  assert_same_bits(count[1], count[0], (size_t)n * 4);
  if (logsumexp) assert_same_bits(lse[1], lse[0], (size_t)n * 4);
}

static void the_best_are_found_with_their_bits_and_what_was_read_is_told(void **state) {
  static const int32_t threads[] = {1, 2, 7};
  (void)state;
  if (!TEST_SKETCH_SEARCHES) skip();
  for (int i = 0; i < 3; ++i)
    for (uint32_t form = 0; form <= EMBED_HEAD_PREPARE; form += EMBED_HEAD_PREPARE) {
      fixture f = fixture_new(threads[i], form);
      embed_head_info before = info_of(&f, f.sketched);
      const int64_t sketch = before.extra_bytes - info_of(&f, f.plain).extra_bytes;
      assert_true(sketch > VOCAB * DIM * 6 / 8 && sketch < VOCAB * 128 && before.sketch_searches == 0);
      same(&f, 1, K, false);
      embed_head_info after = info_of(&f, f.sketched);
      const int64_t verified = after.sketch_rows_verified;
      assert_int_equal(after.sketch_searches, 1);
      assert_true(verified >= K && verified < VOCAB / 4);
      assert_int_equal(after.sketch_bytes_read, sketch + verified * 2 * DIM);
      for (int64_t n = 2; n <= 16; n += 7) same(&f, n, 1, false);
      assert_int_equal(info_of(&f, f.sketched).sketch_searches, 4);
      fixture_free(f);
    }
}

/* More hidden rows, log-sum-exp, k of a quarter and more: the table is swept. */
static void what_a_search_cannot_answer_is_swept(void **state) {
  (void)state;
  fixture f = fixture_new(2, 0);
  same(&f, 17, K, false);
  same(&f, 1, K, true);
  same(&f, 1, VOCAB / 3, false);
  same(&f, 2, VOCAB, false);
  assert_int_equal(info_of(&f, f.sketched).sketch_searches, 0);
  same(&f, 1, 0, false);
  fixture_free(f);
}

static void a_changed_table_is_stale_until_refreshed(void **state) {
  (void)state;
  fixture f = fixture_new(1, 0);
  const int64_t id = 4321;
  int32_t best;
  float row[DIM], z = 77;
  for (int j = 0; j < DIM; ++j) row[j] = 5 * f.x[j];
  OK(embed_table_set_rows(f.ctx, f.t, &id, 1, row, EMBED_F32, 0, NULL));
  assert_int_equal(embed_topk(f.ctx, f.sketched, f.x, EMBED_F32, 1, 0, 1, &best, &z, NULL, NULL, NULL), EMBED_E_STALE);
  assert_true(z == 77 && strstr(embed_error_text(f.ctx), "embed_head_refresh"));
  OK(embed_head_refresh(f.ctx, f.sketched));
  OK(embed_topk(f.ctx, f.sketched, f.x, EMBED_F32, 1, 0, 1, &best, &z, NULL, NULL, NULL));
  assert_int_equal(best, id);
  same(&f, 3, K, false);
  assert_int_equal(info_of(&f, f.sketched).sketch_searches, 2 * TEST_SKETCH_SEARCHES);
  fixture_free(f);
}

/* Rows of an overlay are its base's and its rows': what is written to either, through an overlay of overlays too, makes a sketch old. */
static void a_sketch_of_an_overlay_is_stale_when_what_it_reads_has_changed(void **state) {
  (void)state;
  fixture f = fixture_new(1, 0);
  const int64_t above = VOCAB, below = 17, first = 0;
  const embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
  embed_table *rows = NULL, *overlay = NULL, *outer = NULL;
  float row[DIM];
  OK(embed_table_create(f.ctx, 1, DIM, &o, &rows));
  OK(embed_table_overlay(f.ctx, f.t, &above, 1, rows, 0, &overlay));
  OK(embed_table_overlay(f.ctx, overlay, NULL, 0, rows, 0, &outer));
  embed_head *h = head_of(f.ctx, outer, EMBED_HEAD_SKETCH);
  for (int i = 0; i < 2; ++i) {
    embed_table *changed = i ? rows : f.t;
    int32_t best = -1;
    float z = 77;
    for (int j = 0; j < DIM; ++j) row[j] = (float)(5 + i) * f.x[j];
    OK(embed_topk(f.ctx, h, f.x, EMBED_F32, 1, 0, 1, &best, &z, NULL, NULL, NULL));
    OK(embed_table_set_rows(f.ctx, changed, i ? &first : &below, 1, row, EMBED_F32, 0, NULL));
    assert_int_equal(embed_topk(f.ctx, h, f.x, EMBED_F32, 1, 0, 1, &best, &z, NULL, NULL, NULL), EMBED_E_STALE);
    OK(embed_head_refresh(f.ctx, h));
    OK(embed_topk(f.ctx, h, f.x, EMBED_F32, 1, 0, 1, &best, &z, NULL, NULL, NULL));
    assert_int_equal(best, i ? above : below);
  }
  embed_head_release(h);
  embed_table_release(outer);
  embed_table_release(overlay);
  embed_table_release(rows);
  fixture_free(f);
}

static void options_that_no_bound_fits_are_refused(void **state) {
  (void)state;
  fixture f = fixture_new(1, 0);
  const embed_head_options bad[] = {{.size = sizeof bad[0], .flags = EMBED_HEAD_SKETCH, .logit_scale = -1},
                                    {.size = sizeof bad[0], .flags = EMBED_HEAD_SKETCH | EMBED_HEAD_BLAS}};
  for (int i = 0; i < 2; ++i) {
    embed_head *h = (embed_head *)(uintptr_t)8;
    assert_int_equal(embed_head_create(f.ctx, f.t, NULL, &bad[i], &h), EMBED_E_OPTION);
    assert_null(h);
  }
  fixture_free(f);
}

/* All logits are equal where x has numbers only in columns that the rows have not: nothing can be left out. */
static void what_never_pays_is_seldom_tried(void **state) {
  enum { CALLS = 400 };
  (void)state;
  if (!TEST_SKETCH_SEARCHES) skip();
  fixture f = fixture_new(1, 0);
  float row[DIM] = {0};
  for (int64_t v = 0; v < VOCAB; ++v) {
    OK(embed_table_get_rows(f.ctx, f.t, &v, 1, row, EMBED_F32, 0));
    memset(row + DIM / 2, 0, DIM / 2 * sizeof *row);
    OK(embed_table_set_rows(f.ctx, f.t, &v, 1, row, EMBED_F32, 0, NULL));
  }
  OK(embed_head_refresh(f.ctx, f.sketched));
  memset(f.x, 0, DIM / 2 * sizeof *f.x);
  for (int call = 0; call < CALLS; ++call) same(&f, 1, K, false);
  embed_head_info info = info_of(&f, f.sketched);
  const int64_t sketch = info.extra_bytes - info_of(&f, f.plain).extra_bytes, tries = info.sketch_bytes_read / sketch;
  assert_int_equal(info.sketch_searches, 0);
  assert_true(tries >= 4 && tries <= CALLS / 10);
  for (int j = 0; j < DIM / 2; ++j) f.x[j] = (float)(j % 5) - 2; /* and again once it does */
  for (int call = 0; call < CALLS; ++call) same(&f, 1, K, false);
  assert_true(info_of(&f, f.sketched).sketch_searches > CALLS / 4);
  fixture_free(f);
}

static void a_search_without_memory_says_so(void **state) {
  (void)state;
  fixture f = fixture_new(1, 0);
  counting c;
  int32_t ids[K];
  float z[K];
  for (int k = 0;; ++k) {
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL);
    atomic_store(&c.fail_at, k);
    const embed_status status = embed_topk(ctx, f.sketched, f.x, EMBED_F32, 1, 0, K, ids, z, NULL, NULL, NULL);
    const bool failed = atomic_load(&c.fail_at) < 0;
    assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
    OK(embed_topk(ctx, f.sketched, f.x, EMBED_F32, 1, 0, K, ids, z, NULL, NULL, NULL));
    embed_context_release(ctx);
    counting_check(&c);
    assert_true(k < 100);
    if (!failed) break;
  }
  assert_int_equal(info_of(&f, f.sketched).sketch_searches > 2, TEST_SKETCH_SEARCHES);
  fixture_free(f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_best_are_found_with_their_bits_and_what_was_read_is_told),
    cmocka_unit_test(what_a_search_cannot_answer_is_swept),
    cmocka_unit_test(a_changed_table_is_stale_until_refreshed),
    cmocka_unit_test(a_sketch_of_an_overlay_is_stale_when_what_it_reads_has_changed),
    cmocka_unit_test(options_that_no_bound_fits_are_refused),
    cmocka_unit_test(what_never_pays_is_seldom_tried),
    cmocka_unit_test(a_search_without_memory_says_so),
};
TEST_MAIN(tests)
