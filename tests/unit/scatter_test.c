/* SPDX-License-Identifier: BSD-3-Clause */
/* Positions grouped by row; gradients opened for a whole head; what optimisers read of them. */
#include "scatter/grad.h"

#include <math.h>

#include "core/error.h"
#include "scatter/group.h"
#include "test.h"

static embed_context *context_new(void) {
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  return ctx;
}

/* Rows of up to 63 bits: more than a key has beside its position. */
static void positions_are_grouped_by_row_in_ascending_order(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 3, 17, 100, 1000, 5000};
  static const int bits[] = {0, 1, 5, 11, 12, 20, 33, 47, 62, 63};
  embed_context *ctx = context_new();
  int64_t *ids = malloc(5000 * sizeof *ids), *seen = malloc(5000 * sizeof *seen);
  uint64_t random = 6;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (size_t b = 0; b < sizeof bits / sizeof *bits; ++b)
      for (int ascending = 0; ascending < 2; ++ascending) {
        int64_t n = sizes[s], at = 0, kept = 0;
        embed__groups groups;
        const embed__id_policy policy = {.vocab = INT64_MAX, .padding = true, .padding_id = 1};
        for (int64_t i = 0; i < n; ++i)
          ids[i] = (int64_t)((test_random(&random) >> 1) & (((uint64_t)1 << bits[b]) - 1) & ~(test_random(&random) % 3 ? 0 : (uint64_t)-2));
        for (int64_t i = 0; i < n && ascending; ++i) ids[i] = i / 3;
        for (int64_t i = 0; i < n; ++i) kept += ids[i] != 1;
        assert_int_equal(embed__begin(ctx), EMBED_OK);
        assert_int_equal(embed__group(ctx, &(embed__ids){ids, n, true}, &policy, &groups), EMBED_OK);
        memset(seen, 0, 5000 * sizeof *seen);
        int64_t longest = 0;
        for (int64_t r = 0; r < groups.count; ++r) {
          assert_true(r == 0 || groups.rows[r] > groups.rows[r - 1]);
          assert_int_equal(groups.begin[r], at);
          assert_true(groups.begin[r + 1] > at);
          for (; at < groups.begin[r + 1]; ++at) {
            int64_t p = groups.positions[at];
            assert_true(p >= 0 && p < n && ids[p] == groups.rows[r] && !seen[p]++);
            assert_true(at == groups.begin[r] || p > groups.positions[at - 1]);
          }
          if (groups.begin[r + 1] - groups.begin[r] > longest) longest = groups.begin[r + 1] - groups.begin[r];
        }
        assert_int_equal(at, kept); /* all but padding */
        assert_int_equal(groups.begin[groups.count], kept);
        assert_int_equal(groups.longest, longest);
      }
  free(ids);
  free(seen);
  embed_context_release(ctx);
}

static void opening_makes_all_rows_and_the_bias(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  embed_grad *g = NULL, *dense = NULL, *copy = NULL;
  assert_int_equal(embed_grad_create(ctx, 2, &g), EMBED_OK);
  assert_int_equal(embed_grad_create(ctx, 2, &copy), EMBED_OK);
  assert_int_equal(embed_grad_create_dense(ctx, 6, 2, NULL, 0, &dense), EMBED_OK);
  const float d[] = {1, 2, 3, 4};
  assert_int_equal(embed_grad_add(ctx, g, (const int32_t[]){4, 1}, 2, d, 0), EMBED_OK);
  assert_int_equal(embed__begin(ctx), EMBED_OK);
  assert_int_equal(embed__grad_open(ctx, g, 4, 2, true), EMBED_E_MISMATCH); /* row 4 lies past them */
  assert_int_equal(embed__grad_open(ctx, g, 5, 3, true), EMBED_E_MISMATCH);
  assert_int_equal(embed_grad_rows(g), 2);
  assert_null(embed_grad_bias(g));
  for (int again = 0; again < 2; ++again) {
    assert_int_equal(embed__begin(ctx), EMBED_OK);
    assert_int_equal(embed__grad_open(ctx, g, 5, 2, true), EMBED_OK);
    const float want[] = {0, 0, 3, 4, 0, 0, 0, 0, 1, 2};
    assert_int_equal(embed_grad_rows(g), 5);
    for (int i = 0; i < 5; ++i) assert_true(embed__grad_id(g, i) == i && embed__grad_row(g, i) == embed_grad_values(g) + 2 * i);
    assert_memory_equal(embed_grad_values(g), want, sizeof want);
    assert_non_null(embed_grad_bias(g));
    for (int i = 0; i < 5; ++i) assert_true(embed_grad_bias(g)[i] == (again ? (float)i : 0));
    for (int i = 0; i < 5; ++i) embed_grad_bias(g)[i] = (float)i;
  }
  assert_int_equal(embed__begin(ctx), EMBED_OK);
  assert_int_equal(embed__grad_open(ctx, g, 6, 2, true), EMBED_E_MISMATCH); /* a bias of 5 rows */
  assert_int_equal(embed__grad_open(ctx, dense, 7, 2, false), EMBED_E_MISMATCH);
  assert_int_equal(embed__grad_open(ctx, dense, 6, 2, false), EMBED_OK);
  assert_null(embed_grad_bias(dense));
  /* The bias goes along. */
  embed_merge_options twice = {.size = sizeof twice, .scale = 2};
  assert_int_equal(embed_grad_merge(ctx, dense, g, &twice), EMBED_OK);
  assert_int_equal(embed_grad_merge(ctx, dense, g, NULL), EMBED_OK);
  assert_int_equal(embed_grad_merge(ctx, copy, dense, NULL), EMBED_OK);
  for (int i = 0; i < 5; ++i) assert_true(embed_grad_bias(dense)[i] == 3 * (float)i && embed_grad_bias(copy)[i] == 3 * (float)i);
  assert_true(embed_grad_values(copy)[8] == 3 && embed_grad_rows(copy) == 6);
  double norm;
  assert_int_equal(embed_grad_clip(ctx, g, &norm, NULL), EMBED_OK);
  assert_true(fabs(norm - sqrt(30 + 30)) < 1e-12); /* rows 1 + 4 + 9 + 16, bias 1 + 4 + 9 + 16 */
  assert_int_equal(embed_grad_clip(ctx, g, &norm, &(embed_clip_options){.size = sizeof(embed_clip_options), .max_norm = norm / 2}), EMBED_OK);
  assert_true(fabs((double)embed_grad_bias(g)[4] - 2) < 1e-6);
  embed_grad_clear(g);
  assert_true(embed_grad_rows(g) == 0 && embed_grad_bias(g)[4] == 0);
  embed_grad_release(g);
  embed_grad_release(dense);
  embed_grad_release(copy);
  embed_context_release(ctx);
}

static void what_is_not_finite_is_named_by_the_tables_row(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  embed_grad *g = NULL;
  embed__grad_norms norms;
  const float d[] = {3, 4, 1, INFINITY, NAN, 0};
  assert_int_equal(embed_grad_create(ctx, 2, &g), EMBED_OK);
  assert_int_equal(embed_grad_add(ctx, g, (const int32_t[]){40}, 1, d, 0), EMBED_OK);
  assert_int_equal(embed__begin(ctx), EMBED_OK);
  assert_int_equal(embed__grad_open(ctx, g, 50, 2, true), EMBED_OK);
  assert_int_equal(embed__grad_check_finite(ctx, g, &norms), EMBED_OK);
  assert_true(norms.squares == 25 && norms.bias_squares == 0 && norms.first_nonfinite == -1 && norms.bias_nonfinite == -1);
  g->bias[7] = -INFINITY;
  assert_int_equal(embed__grad_check_finite(ctx, g, NULL), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 7);
  assert_non_null(strstr(embed_error_text(ctx), "bias"));
  assert_int_equal(embed_grad_add(ctx, g, (const int32_t[]){49, 31, 30}, 3, d, 0), EMBED_OK);
  assert_int_equal(embed__begin(ctx), EMBED_OK);
  assert_int_equal(embed__grad_check_finite(ctx, g, NULL), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 30);
  assert_true(embed__clip_factor(5, 0) == 1 && embed__clip_factor(5, 5) == 1 && fabs(embed__clip_factor(10, 5) - 0.5) < 1e-6);
  embed_grad_release(g);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(positions_are_grouped_by_row_in_ascending_order),
    cmocka_unit_test(opening_makes_all_rows_and_the_bias),
    cmocka_unit_test(what_is_not_finite_is_named_by_the_tables_row),
};
TEST_MAIN(tests)
