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
/**
 * embed_head_create: a table seen from the output side. Tied = the table that lookups use; untied = another one.
 *
 *   logits[i, v] = softcap(logit_scale * (hidden[i, :] . W[v, :] + bias[v]))
 *
 * Shapes   W [rows, dim], of which rows [0, vocab) are swept; bias [vocab] or NULL, copied; t is retained, never copied.
 * Types    any dtype of table; bias F32.
 * Prepared EMBED_HEAD_PREPARE keeps the rows once more, 16 of them interleaved: the fastest form from a few hidden rows on.
 *          F32, F16, BF16, int8, int4, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K, in about their own size; tables of other dtypes and
 *          overlays are swept as they are. extra_bytes of embed_head_describe tells. Once the table has changed
 *          (embed_table_set_rows, init, changed) every call on the head is E_STALE until embed_head_refresh.
 * Errors   E_OPTION (scale or soft-cap not finite, a flag of embed_file_head, BLAS with PREPARE), E_UNSUPPORTED (SKETCH;
 *          vocab past 2^31 - 1), E_MEMORY; with PREPARE also E_OVERFLOW, E_CANCELLED, E_CALLBACK; *out is NULL then.
 * Threads  t shared, ctx exclusive; the head may be shared by any number of threads. Preparing runs on the context's.
 * Cost     a copy of bias; no copy of the table but the prepared one: it reads and writes the table's bytes once.
 * Since    0.1.
 * Source   tied output embeddings: Press, Wolf, 2017; soft-cap: Gemma 2, 2024.
 */
EMBED_FN embed_status embed_head_create(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *opts, embed_head **out);
/**
 * embed_head_refresh: makes the prepared form anew after the table has changed (training, embed_table_set_rows,
 * embed_table_init, embed_table_changed); a head without one stays as it is.
 *
 * Errors   E_MEMORY; E_CANCELLED, E_CALLBACK: the head is stale until a refresh succeeds.
 * Threads  h must be the caller's alone for the call, t shared.
 * Cost     embed_head_create's for the prepared form; no allocation of its own.
 * Since    0.1.
 */
EMBED_FN embed_status embed_head_refresh(embed_context *ctx, embed_head *h); /* prepare and sketch again, after training */
/**
 * embed_head_retain: one more owner; returns h.
 *
 * Errors   none; NULL gives NULL.
 * Threads  from any thread, at any time.
 * Cost     an atomic addition.
 * Since    0.1.
 */
EMBED_API embed_head *embed_head_retain(const embed_head *h);
/**
 * embed_head_release: one owner less; the last lets go of the table.
 *
 * Errors   none; NULL does nothing.
 * Threads  from any thread, at any time.
 * Cost     an atomic subtraction; the last frees.
 * Since    0.1.
 */
EMBED_API void embed_head_release(const embed_head *h);
/**
 * embed_head_table: the table that it sweeps, as long as the head lives; the head's own reference, not one more.
 *
 * Errors   none; NULL for NULL.
 * Threads  h shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const embed_table *embed_head_table(const embed_head *h); /* NULL for heads that are not one table */
/**
 * embed_head_is_tied: do this head and this table read the same storage?
 *
 * Errors   none; 0 where either is NULL.
 * Threads  h and t shared.
 * Cost     compares two addresses.
 * Since    0.1.
 */
EMBED_API int32_t embed_head_is_tied(const embed_head *h, const embed_table *t); /* 1 when both read the same storage */
/**
 * embed_head_vocab: how many logits a hidden row has.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  h shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_head_vocab(const embed_head *h);            /* width of a row of logits */
/**
 * embed_head_dim: columns of a hidden row.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  h shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_head_dim(const embed_head *h);
typedef struct embed_head_info { /* output struct: the caller sets size */
  uint32_t size, flags;
  int64_t vocab, dim;
  int64_t table_bytes, extra_bytes; /* read in place; prepared form, sketch and bias */
  float logit_scale, logit_softcap;
} embed_head_info;
/**
 * embed_head_describe: what the head reads and keeps.
 *
 * Errors   E_ARGUMENT (NULL), E_OPTION (size below 8); out is untouched then.
 * Threads  h shared, ctx exclusive.
 * Cost     reads a few fields.
 * Since    0.1.
 */
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
/**
 * embed_logits: every logit of every hidden row.
 *
 *   logits[i, v] = softcap(logit_scale * (hidden[i, :] . W[v, :] + bias[v]))
 *
 * Shapes   hidden [n, dim] with row stride ld_hidden elements (0 = dim); logits [n, vocab] with ld_logits (0 = vocab).
 * Types    hidden F32, F16 or BF16; W any dtype; sums in fp32, error <= 2e-6 of sum |w||x| against the decoded weights.
 * Rounded  opts->activation EMBED_BF16 or EMBED_Q8_0, of any table and form: hidden is rounded to that dtype first (BF16 to
 *          nearest even: 2^-9 of each |x|; Q8_0 in blocks of 32 columns, the last may be shorter: 1/254 of the block's
 *          largest |x|, and its scale to 2^-11), then as above. Where it is no faster on this CPU it is only that.
 *          Subnormal numbers may count as 0 with BF16. Another dtype is E_OPTION.
 * NaN      EMBED_NAN_MAX leaves NaN as computed; IGNORE writes -inf for it; ERROR is E_NONFINITE (at = the hidden row).
 * Empty    n = 0 or vocab = 0 does nothing.
 * Errors   E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY, E_STALE: nothing written. E_NONFINITE, E_CANCELLED, E_CALLBACK:
 *          unspecified.
 * Threads  h shared, ctx exclusive. Same bits for any pool or executor, given the level, n, the head's form, and what
 *          OpenBLAS multiplies (EMBED_HEAD_BLAS; large fp32 batches at level scalar) its core and thread count; rounded to
 *          BF16 also whether the CPU's bfloat products are worth using. A reproducible context removes n, OpenBLAS and that.
 * Cost     reads vocab * row_bytes once per 512 hidden rows (embed_topk: 128), writes 4 n vocab; scratch of some hidden rows,
 *          from 32 or 96 of them on (by dtype) of 256 KiB per worker; no allocation after warm-up.
 * Since    0.1.
 */
EMBED_FN embed_status embed_logits(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                   float *logits, int64_t ld_logits, const embed_sweep_options *opts);
/**
 * embed_logits_at: logits of the given ids only.
 *
 * Shapes   hidden as embed_logits; ids [m], repeats allowed; logits [n, m] with ld_logits (0 = m).
 * Types    as embed_logits, always by the library's own kernels: the bits of a reproducible context's embed_logits on this
 *          head, prepared or not.
 * Empty    n = 0 or m = 0 does nothing.
 * Errors   E_ID (at = position in ids, nothing written), else as embed_logits.
 * Threads  h shared, ctx exclusive. Same bits for any thread count and any n.
 * Cost     reads m rows; for hidden of 16 bits scratch of n * dim floats.
 * Since    0.1.
 */
EMBED_FN embed_status embed_logits_at(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                      const int32_t *ids, int64_t m, float *logits, int64_t ld_logits, const embed_sweep_options *opts);
/**
 * embed_topk: the k best logits of each hidden row, without an array of all of them.
 *
 * Shapes   hidden as embed_logits; ids, logits [n, k], best first by the returned value, equal values by lower id;
 *          logsumexp [n] over all logits and count [n] may be NULL. count = min(k, vocab); the rest is id -1, logit -inf.
 * Types    as embed_logits: the returned logits are the bits that embed_logits gives for this n.
 * NaN      EMBED_NAN_MAX: NaN ranks above everything, as in PyTorch (logsumexp is NaN then); IGNORE: as -inf; ERROR:
 *          E_NONFINITE.
 * Empty    n = 0 does nothing; k = 0 gives count 0 and the logsumexp.
 * Errors   E_NONFINITE also for a row with no logit above -inf, under every policy (at = the row); else as embed_logits.
 * Threads  h shared, ctx exclusive. Same answers for any thread count.
 * Cost     embed_logits' sweep; scratch of 16 bytes * k per hidden row and worker, 128 (512) rows at a time; one exp per
 *          logit when logsumexp is asked.
 * Since    0.1.
 * Source   Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
 */
EMBED_FN embed_status embed_topk(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                 int32_t k, int32_t *ids, float *logits, float *logsumexp, int32_t *count, const embed_sweep_options *opts);

#ifdef __cplusplus
}
#endif
#endif
