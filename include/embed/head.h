/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/head.h: hidden [n, dim] -> logits and tokens: the sweep side. */
#ifndef EMBED_HEAD_H
#define EMBED_HEAD_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct embed_head_options {
  uint32_t size, flags; /* EMBED_HEAD_* */
  float logit_scale;    /* 0 = 1 (embed_file_head: the file's) */
  float logit_softcap;  /* c * tanh(z / c); 0 = off (embed_file_head: the file's) */
} embed_head_options;
enum { EMBED_HEAD_BLAS = 2 /* always cblas_sgemm */, EMBED_HEAD_REQUIRE_TIED = 4, EMBED_HEAD_REQUIRE_UNTIED = 8,
       EMBED_HEAD_PREPARE = 16 /* interleaved copy for batches */, EMBED_HEAD_SKETCH = 32 /* low-bit copy for certified search */,
       EMBED_HEAD_RAW = 64 /* embed_file_head: leave the file's scale and soft-cap out */ };
/* Retains t, copies bias [vocab] (may be NULL). Tied = the table that lookups use. */
EMBED_FN embed_status embed_head_create(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *opts, embed_head **out);
EMBED_API embed_head *embed_head_retain(const embed_head *h);
EMBED_API void embed_head_release(const embed_head *h);
EMBED_API const embed_table *embed_head_table(const embed_head *h); /* NULL for heads that are not one table */
EMBED_API int32_t embed_head_is_tied(const embed_head *h, const embed_table *t); /* 1 when both read the same storage */
EMBED_API int64_t embed_head_vocab(const embed_head *h);            /* width of a row of logits */
EMBED_API int64_t embed_head_dim(const embed_head *h);
typedef struct embed_head_info { /* output struct: the caller sets size */
  uint32_t size, flags;
  int64_t vocab, dim;
  int64_t table_bytes, extra_bytes; /* read in place; prepared form, sketch and bias */
  float logit_scale, logit_softcap;
} embed_head_info;
EMBED_FN embed_status embed_head_describe(embed_context *ctx, const embed_head *h, embed_head_info *out);

typedef int32_t embed_nan_policy;
enum { EMBED_NAN_NONE = -1, EMBED_NAN_MAX = 0 /* as PyTorch: NaN wins */, EMBED_NAN_ERROR /* outputs unspecified */, EMBED_NAN_IGNORE /* as -inf */ };
typedef struct embed_sweep_options {
  uint32_t size, flags;   /* EMBED_SWEEP_* */
  uint32_t ask;           /* EMBED_ASK_*, for embed_sweep */
  int32_t k;              /* for the top-k asks */
  embed_nan_policy nan;
  embed_dtype activation; /* 0 = exact (fp32 accuracy); BF16, Q8_0: hidden rounded to it first (faster at batch; the error is documented) */
} embed_sweep_options;
enum { EMBED_SWEEP_PROCESSED = 1 /* log-probabilities after rules and filters, not the model's own */ };
EMBED_FN embed_status embed_logits(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                   float *logits, int64_t ld_logits, const embed_sweep_options *opts);
/* logits of the given ids only: out [n, m]. */
EMBED_FN embed_status embed_logits_at(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                      const int32_t *ids, int64_t m, float *logits, int64_t ld_logits, const embed_sweep_options *opts);
/* ids, logits [n, k] best first by the returned value, ties by id; the logits are the bits embed_logits gives for this n. logsumexp, count [n] may be NULL; count = min(k, vocab), the rest is id -1, -inf.
 * A row with no logit above -inf is EMBED_E_NONFINITE (at = the row) under every policy. */
EMBED_FN embed_status embed_topk(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                 int32_t k, int32_t *ids, float *logits, float *logsumexp, int32_t *count, const embed_sweep_options *opts);

#ifdef __cplusplus
}
#endif
#endif
