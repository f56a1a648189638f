/* SPDX-License-Identifier: BSD-3-Clause */
/* One typed shim per kind of vector: cgo looks at what a void * points to and refuses slices inside structs that hold
 * pointers; a typed pointer to numbers passes. */
#ifndef LIBEMBED_GO_SHIM_H
#define LIBEMBED_GO_SHIM_H
#include <embed/embed.h>
#include <stdlib.h>

static inline embed_status go_lookup_f32(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, float *out,
                                         const embed_lookup_options *opts) {
  return embed_lookup(ctx, t, ids, n, out, EMBED_F32, 0, opts);
}
static inline embed_status go_lookup_16(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, uint16_t *out, embed_dtype dtype,
                                        const embed_lookup_options *opts) {
  return embed_lookup(ctx, t, ids, n, out, dtype, 0, opts);
}
static inline embed_status go_bag_f32(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                      const float *weights, float *out, const embed_bag_options *opts) {
  return embed_bag(ctx, t, ids, n, offsets, bags, weights, out, EMBED_F32, 0, opts);
}
static inline embed_status go_get_rows_f32(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, float *out) {
  return embed_table_get_rows(ctx, t, ids, n, out, EMBED_F32, 0);
}
static inline embed_status go_set_rows_f32(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, const float *src) {
  return embed_table_set_rows(ctx, t, ids, n, src, EMBED_F32, 0, NULL);
}
static inline embed_status go_logits_f32(embed_context *ctx, const embed_head *h, const float *hidden, int64_t n, float *logits,
                                         const embed_sweep_options *opts) {
  return embed_logits(ctx, h, hidden, EMBED_F32, n, 0, logits, 0, opts);
}
static inline embed_status go_logits_at_f32(embed_context *ctx, const embed_head *h, const float *hidden, int64_t n, const int32_t *ids, int64_t m,
                                            float *logits, const embed_sweep_options *opts) {
  return embed_logits_at(ctx, h, hidden, EMBED_F32, n, 0, ids, m, logits, 0, opts);
}
static inline embed_status go_topk_f32(embed_context *ctx, const embed_head *h, const float *hidden, int64_t n, int32_t k, int32_t *ids, float *logits,
                                       float *logsumexp, int32_t *count, const embed_sweep_options *opts) {
  return embed_topk(ctx, h, hidden, EMBED_F32, n, 0, k, ids, logits, logsumexp, count, opts);
}
static inline embed_status go_sweep_f32(embed_context *ctx, const embed_head *h, const float *hidden, const int64_t *rows, int64_t n,
                                        const int32_t *targets, embed_rules **rules, const embed_sample_params *params, int64_t params_count,
                                        const embed_sweep_options *opts, embed_result *result) {
  return embed_sweep(ctx, h, hidden, EMBED_F32, 0, rows, n, targets, (const embed_rules *const *)rules, params, params_count, opts, result);
}
static inline embed_status go_sample_f32(embed_context *ctx, const embed_head *h, const float *hidden, int64_t n, embed_rules **rules,
                                         const embed_sample_params *params, int64_t params_count, int32_t *ids, float *logprobs) {
  return embed_sample(ctx, h, hidden, EMBED_F32, n, 0, (const embed_rules *const *)rules, params, params_count, ids, logprobs, NULL);
}
static inline embed_status go_cross_entropy_train_f32(embed_context *ctx, const embed_head *h, const float *hidden, int64_t n, const int32_t *targets,
                                                      float *loss, int64_t *count, float *d_hidden, embed_grad *g, const embed_loss_options *opts) {
  return embed_cross_entropy_train(ctx, h, hidden, EMBED_F32, n, 0, targets, NULL, loss, count, d_hidden, EMBED_F32, 0, g, opts);
}
static inline embed_status go_lookup_backward_f32(embed_context *ctx, embed_grad *g, int64_t vocab, const int64_t *ids, int64_t n, const float *d_out,
                                                  const embed_lookup_options *opts) {
  return embed_lookup_backward(ctx, g, vocab, ids, n, d_out, EMBED_F32, 0, opts);
}
#endif
