/* SPDX-License-Identifier: BSD-3-Clause */
/* A head for OpenBLAS in a reproducible context: every call that sweeps it for logits refuses and leaves all as it was; the others, by the
 * library's own kernels, do their work. */
#include "calls.h"

static const char *const refused[] = {"logits", "topk", "sample", "sample_params", "verify", "whole_sweep", "cross_entropy", "sequence_logprobs"};

static bool is_refused(const char *name) {
  for (int i = 0; i < COUNT(refused); ++i)
    if (!strcmp(name, refused[i])) return true;
  return false;
}

static void calls_that_sweep_refuse_and_write_nothing(void **state) {
  const embed_head_options blas = {.size = sizeof blas, .flags = EMBED_HEAD_BLAS};
  const embed_context_options reproducible = {.size = sizeof reproducible, .flags = EMBED_CONTEXT_REPRODUCIBLE};
  embed_context *ctx = NULL;
  world w;
  outcome o;
  int refusals = 0;
  (void)state;
  world_new(&w);
  OK(embed_context_create(&reproducible, &ctx));
  embed_head_release(w.head);
  OK(embed_head_create(ctx, w.table, NULL, &blas, &w.head));
  for (int i = 0; i < COUNT(calls); ++i) {
    const embed_status status = use(&calls[i], ctx, &w, NULL, &o);
    if (status != (is_refused(calls[i].name) ? EMBED_E_UNSUPPORTED : EMBED_OK)) fail_msg("%s answers %s", calls[i].name, embed_status_name(status));
    if (status == EMBED_OK) {
      used(&o);
    } else {
      ++refusals;
      untouched(&calls[i], &o);
      assert_non_null(strstr(embed_error_text(ctx), "OpenBLAS"));
    }
  }
  assert_int_equal(refusals, COUNT(refused));
  assert_non_null(embed_result_f32(w.result, EMBED_ASK_LOGITS, NULL, NULL)); /* of whole_sweep_logits */
  assert_int_equal(use_whole_sweep(ctx, &w, NULL, &o), EMBED_E_UNSUPPORTED);
  assert_null(embed_result_f32(w.result, EMBED_ASK_LOGITS, NULL, NULL));
  world_free(&w);
  embed_context_release(ctx);
}

/* Products of bfloats are the library's own. */
static void a_rounded_loss_is_not_refused(void **state) {
  const embed_head_options blas = {.size = sizeof blas, .flags = EMBED_HEAD_BLAS};
  const embed_context_options reproducible = {.size = sizeof reproducible, .flags = EMBED_CONTEXT_REPRODUCIBLE};
  const embed_loss_options rounded = {.size = sizeof rounded, .flags = EMBED_LOSS_BF16};
  const int64_t whole[2] = {0, WORLD_N};
  embed_context *ctx = NULL;
  embed_head *h = NULL;
  world w;
  float loss[WORLD_N];
  (void)state;
  world_new(&w);
  OK(embed_context_create(&reproducible, &ctx));
  OK(embed_head_create(ctx, w.table, NULL, &blas, &h));
  OK(embed_cross_entropy(ctx, h, w.vectors, EMBED_F32, WORLD_N, 0, w.ids, loss, NULL, &rounded));
  OK(embed_sequence_logprobs(ctx, h, w.vectors, EMBED_F32, WORLD_N, 0, w.ids, whole, 1, loss, NULL, &rounded));
  embed_head_release(h);
  world_free(&w);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(calls_that_sweep_refuse_and_write_nothing),
    cmocka_unit_test(a_rounded_loss_is_not_refused),
};
TEST_MAIN(tests)
