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
 * Sketch   EMBED_HEAD_SKETCH keeps the rows once more in 6 bits a weight. embed_topk, embed_sample, and a sweep that asks for nothing but
 *          top-k or tokens, with rules or without, but no log-probabilities, then reads that copy, bounds every logit, and reads only rows
 *          that can still be among the best or, drawn at a temperature alone, have the largest sum with their noise: for up to 16 hidden
 *          rows, exact activation, vocab / 4 candidates at most, samplers that need no sum over the row (greedy, temperature, top_k and
 *          what follows it, min_p). Ids and logits are the bits of the head without it, always.
 *          Where bounds tell little (ties, tables of 8 bits and less, numbers above 2^30 or not finite), and at level neon, the table is
 *          swept. Up to date as the prepared form: E_STALE until embed_head_refresh. sketch_* of embed_head_describe tell what it read.
 * Errors   E_OPTION (scale or soft-cap not finite, a flag of embed_file_head, BLAS with PREPARE or SKETCH, SKETCH with a negative
 *          scale), E_UNSUPPORTED (vocab past 2^31 - 1, SKETCH past 2^20 columns), E_MEMORY; with PREPARE or SKETCH also E_OVERFLOW,
 *          E_CANCELLED, E_CALLBACK; *out is NULL then.
 * Threads  t shared, ctx exclusive; the head may be shared by any number of threads. Preparing runs on the context's.
 * Cost     a copy of bias; no copy of the table but the prepared one: it reads and writes the table's bytes once; a sketch writes
 *          0.79 bytes a weight (columns filled up to 64) and takes some ns a weight.
 * Since    0.1.
 * Source   tied output embeddings: Press, Wolf, 2017; soft-cap: Gemma 2, 2024.
 */
EMBED_FN embed_status embed_head_create(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *opts, embed_head **out);
/**
 * embed_head_create_subset: a head over some rows of another: draft models, grammars, shortlists.
 *
 * Shapes   ids [n], each once, in any order; logit j belongs to id ids[j] and has the bits that h gives it
 *          (EMBED_HEAD_BLAS, overlays, and large fp32 batches at level scalar: another order of sums).
 * Types    h's dtype, bias, scale, soft-cap and form (prepared stays prepared).
 *          Answers (top-k, tokens) carry the original ids, equal logits go by the lower of them; targets, rules and the ids
 *          of embed_logits_at are original ids too. A subset of a subset takes original ids of the first head.
 *          embed_head_vocab is n, embed_head_table NULL, ids_checksum of embed_head_describe tells which ids.
 * Empty    n = 0 makes a head without logits.
 * Errors   E_ID (outside the vocabulary, not in the subset h, or an id twice; at = its (later) position), E_ARGUMENT, E_MEMORY,
 *          E_OVERFLOW, E_CANCELLED, E_CALLBACK; *out is NULL then. Once the table that rows were copied from has changed every
 *          call on the head is E_STALE until embed_head_refresh.
 * Threads  h shared, ctx exclusive; the head may be shared by any number of threads.
 * Cost     a copy of n rows (EMBED_PQ: none, 16 n bytes that say where they are) and bias, 12 n bytes for the ids, and the form.
 * Since    0.1.
 */
EMBED_FN embed_status embed_head_create_subset(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t n, embed_head **out);
/**
 * embed_head_refresh: makes the prepared form and the sketch anew after the table has changed (training, embed_table_set_rows,
 * embed_table_init, embed_table_changed); copies a subset's rows again. A head without either stays as it is.
 *
 * Errors   E_MEMORY; E_CANCELLED, E_CALLBACK: the head is stale until a refresh succeeds.
 * Threads  h must be the caller's alone for the call, t shared.
 * Cost     embed_head_create's for these forms; no allocation of its own but scratch.
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
 * Errors   none; NULL for NULL and for a subset.
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
  uint64_t ids_checksum; /* of a subset's ids in order: FNV-1a over 4 bytes each, little-endian; 0 = a whole head */
  int64_t sketch_searches, sketch_rows_verified, sketch_bytes_read; /* so far: calls that the sketch answered, rows of the table that they read, and all bytes */
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
 * Types    hidden F32, F16 or BF16; W any dtype; sums in fp32, error <= 2e-6 of sum |w||x| against the decoded weights. Where most
 *          roundings fall to one side, as of products that are all alike, or one product is most of the sum, it may be up to
 *          2^-24 (256 + dim / 16) of it, with EMBED_HEAD_BLAS 2^-24 dim.
 * Rounded  opts->activation EMBED_BF16 or EMBED_Q8_0, of any table and form: hidden is rounded to that dtype first (BF16 to
 *          nearest even: 2^-8 of each |x|; Q8_0 in blocks of 32 columns, the last may be shorter: 1/254 of the block's
 *          largest |x|, and its scale to 2^-11, or 2^-25 where that is more: blocks below 4e-6 are 0), then as above. Where
 *          it is no faster on this CPU it is only that. Subnormal numbers may count as 0 with BF16. Another dtype is E_OPTION.
 * NaN      EMBED_NAN_MAX leaves NaN as computed; IGNORE writes -inf for it; ERROR is E_NONFINITE (at = the hidden row). An infinite hidden
 *          value gives what floats give, of any table and form: an infinity, or NaN where two meet or a weight is 0. Q8_0 cannot hold one,
 *          nor a block whose largest |x| is past 127 * 65504: rounded to it all of the row's logits are NaN.
 * Empty    n = 0 or vocab = 0 does nothing.
 * Errors   E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY, E_STALE, E_UNSUPPORTED (EMBED_HEAD_BLAS in a reproducible context, or of a library
 *          without OpenBLAS): nothing written. E_NONFINITE, E_CANCELLED, E_CALLBACK: unspecified.
 * Threads  h shared, ctx exclusive. Same bits for any pool or executor, given the level, n, the head's form, and what
 *          OpenBLAS multiplies (EMBED_HEAD_BLAS; large fp32 batches at level scalar) its core and thread count; rounded to
 *          BF16 also whether the CPU's bfloat products are worth using; at level amx, from 20 hidden rows and 64 columns on, whether one of their
 *          numbers is above 2^30 in size, which tiles do not take. A reproducible context removes n, OpenBLAS and these.
 * Cost     reads vocab * row_bytes once per 512 hidden rows (embed_topk: 128), writes 4 n vocab; scratch of some hidden rows,
 *          from 14 to 128 of them on (by dtype and form) of 512 KiB per worker (by tiles 1.25 MiB); no allocation after warm-up.
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
 * Errors   E_ID (at = position in ids, nothing written), else as embed_logits, but for E_UNSUPPORTED.
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
 *          logit when logsumexp is asked. A head with a sketch: 0.4 of a bf16 table's bytes and the rows that it verifies; scratch of 4
 *          bytes per id and hidden row. Where that does not pay, 0.6 of the plain sweep more, and then seldom tried: 4 % on average.
 * Since    0.1.
 * Source   Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
 */
EMBED_FN embed_status embed_topk(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                 int32_t k, int32_t *ids, float *logits, float *logsumexp, int32_t *count, const embed_sweep_options *opts);

/**
 * embed_rules_create: no rules yet, for one sequence over a vocabulary.
 *
 *   z' = penalised(z + bias), -inf for ids that are banned or not allowed; z after scale and soft-cap
 *   penalised(z) = (z < 0 ? z * repetition : z / repetition) - count * frequency - presence, for ids in the history only
 *
 * In double, rounded to fp32 once; logits of other ids keep their bits. Penalties come from embed_sample_params: no params, none.
 *
 * Errors   E_ARGUMENT (vocab below 0), E_UNSUPPORTED (past 2^31 - 1), E_MEMORY; *out is NULL then.
 * Threads  ctx exclusive; a sweep takes rules as const: any number of sweeps may share them.
 * Cost     one small allocation. In a sweep: per row the ids named and the history looked at; a look at every word of allowed bits.
 * Since    0.1.
 * Source   repetition: Keskar et al., "CTRL", 2019; frequency and presence: OpenAI's API.
 */
EMBED_FN embed_status embed_rules_create(embed_context *ctx, int64_t vocab, embed_rules **out);
/**
 * embed_rules_ban: these ids are never drawn; bans add up until embed_rules_clear.
 *
 * Shapes   ids [n], repeats allowed.
 * Empty    n = 0 does nothing.
 * Errors   E_ID (at = position), E_ARGUMENT, E_MEMORY: r is as it was.
 * Threads  r and ctx exclusive.
 * Cost     n and the ids named so far.
 * Since    0.1.
 */
EMBED_FN embed_status embed_rules_ban(embed_context *ctx, embed_rules *r, const int32_t *ids, int64_t n);
/**
 * embed_rules_allow: only ids whose bit is set, as a grammar's mask has them; replaces the bits of the call before.
 *
 * Shapes   bits [words], id i is bit i % 32 of word i / 32; copied; NULL = all ids are allowed again. words must be
 *          ceil(vocab / 32); bits past the vocabulary do not matter. A banned id stays banned.
 * Errors   E_MISMATCH (another number of words), E_MEMORY: r is as it was.
 * Threads  r and ctx exclusive.
 * Cost     a copy; memory for it at the first call only.
 * Since    0.1.
 */
EMBED_FN embed_status embed_rules_allow(embed_context *ctx, embed_rules *r, const uint32_t *bits, int64_t words);
/**
 * embed_rules_bias: numbers added to these ids' logits. A later bias of an id replaces the one before; 0 takes it back.
 *
 * Shapes   ids, bias [n]; of repeats the last counts.
 * Empty    n = 0 does nothing.
 * Errors   E_ID, E_NONFINITE (at = position), E_ARGUMENT, E_MEMORY: r is as it was.
 * Threads  r and ctx exclusive.
 * Cost     n and the ids named so far.
 * Since    0.1.
 */
EMBED_FN embed_status embed_rules_bias(embed_context *ctx, embed_rules *r, const int32_t *ids, const float *bias, int64_t n);
/**
 * embed_rules_push: ids that the sequence now has, oldest first: the history that penalties look at.
 *
 * Shapes   ids [n].
 * Empty    n = 0 does nothing.
 * Errors   E_ID (at = position), E_ARGUMENT, E_MEMORY: r is as it was.
 * Threads  r and ctx exclusive.
 * Cost     a copy; memory doubles when it is full.
 * Since    0.1.
 */
EMBED_FN embed_status embed_rules_push(embed_context *ctx, embed_rules *r, const int32_t *ids, int64_t n);
/**
 * embed_rules_pop: takes the last n pushed ids back (drafts that were not accepted).
 *
 * Errors   E_ARGUMENT (n below 0 or more than there are): r is as it was.
 * Threads  r and ctx exclusive.
 * Cost     none.
 * Since    0.1.
 */
EMBED_FN embed_status embed_rules_pop(embed_context *ctx, embed_rules *r, int64_t n);
/**
 * embed_rules_clear: no bans, bits, biases and history, as new; memory is kept.
 *
 * Errors   none; NULL does nothing.
 * Threads  r exclusive.
 * Cost     none.
 * Since    0.1.
 */
EMBED_API void embed_rules_clear(embed_rules *r);
/**
 * embed_rules_release: frees them.
 *
 * Errors   none; NULL does nothing.
 * Threads  r exclusive: no sweep may be using it.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_rules_release(embed_rules *r);

typedef int32_t embed_sample_order;
enum { EMBED_ORDER_NONE = -1, EMBED_ORDER_HF = 0, EMBED_ORDER_LLAMACPP };
typedef struct embed_sample_params { /* one, or one per row: then params[0].size bytes apart; all zero = greedy */
  uint32_t size, flags;
  uint64_t seed;
  int64_t position;    /* the draw depends on (seed, position, id), never on the row, threads or tiles */
  double temperature;  /* 0 = greedy */
  double top_p, min_p, typical_p, top_n_sigma; /* 0 = off */
  double repetition, frequency, presence;      /* penalties on the history; repetition 0 = 1 */
  int32_t top_k;       /* 0 = off */
  int32_t last_n;      /* history looked at; 0 = all */
  int32_t min_keep;    /* 0 = 1 */
  embed_sample_order order;
} embed_sample_params;
/**
 * embed_sample: a token for each hidden row, drawn in the head's own sweep.
 *
 *   ids[i] = argmax over the survivors v of  z[i, v] / temperature + g(seed, position, v)
 *   g = -log(-log u), u = (2 w + 1) 2^-33, w word (v & 3) of Philox4x32-10, counter (v >> 2, position low, position high, 2), key seed
 *
 * which is one draw from the softmax of their z / temperature (z after scale, soft-cap, rules and penalties). Filters, in double,
 * each on the renormalised survivors of the one before; min_keep survive each at least:
 *   EMBED_ORDER_HF        temperature, top_n_sigma, top_k, top_p, min_p, typical_p: those after it see z / temperature
 *   EMBED_ORDER_LLAMACPP  top_n_sigma, top_k, typical_p, top_p, min_p on z itself, temperature last
 *   top_n_sigma  z >= largest - top_n_sigma * their standard deviation (without -inf), as llama.cpp; transformers has none
 *   top_k        the k best, exactly: equal values by lower id (transformers keeps all that equal the k-th)
 *   top_p        the shortest prefix, best first, equal values by lower id, whose probabilities sum to top_p; off at 0 and 1
 *   min_p        HF: probability >= min_p * largest; LLAMACPP: z >= largest + log(min_p)
 *   typical_p    the shortest prefix by |-log p - entropy| ascending whose probabilities sum to typical_p; off at 0 and 1
 * temperature 0 takes the best (as top-k has it) and looks at no filter.
 *
 * Shapes   hidden as embed_logits; rules [n] or NULL, entries may be NULL; params NULL (params_count 0: greedy, no penalties), one
 *          (1) or one per row (n), params[0].size bytes apart; ids, logprobs [n]; logprobs may be NULL.
 * Types    logprobs F32: the model's own log-probability of the id, of the softmax of all logits before rules; with
 *          EMBED_SWEEP_PROCESSED that in the distribution drawn from (temperature 0: of the softmax after rules). params: a temperature
 *          of 0 or 1e-250 to 1e300; top_p, min_p, typical_p in [0, 1]; top_n_sigma, repetition, top_k, last_n, min_keep, position >= 0.
 * NaN      as embed_sweep.
 * Empty    n = 0 does nothing.
 * Errors   E_OPTION (params; at = the row; of one for all as of any options), E_ARGUMENT (params_count), E_MISMATCH (rules; at = the row),
 *          else as embed_logits. E_NONFINITE (at = the row): a row with no logit above -inf; one with NaN or +inf that is drawn from. On all of
 *          them nothing is written; E_CANCELLED, E_CALLBACK likewise.
 * Threads  h and rules shared, ctx exclusive. Same ids for any thread count, alone or in a batch where the logits are the same.
 * Cost     embed_topk's sweep, k = top_k or 1,024 (no filter: none kept, a few operations per logit). A second sweep for rows whose
 *          survivors are not among the best 1,024: typical_p without a smaller top_k, a wider nucleus, a wider min_p or top_n_sigma,
 *          a top_k past 1,024; one for as many such rows as fit into 16 MiB of logits, and 16 bytes * vocab per worker. Some
 *          operations per id and filter then: the vocabulary is never sorted.
 * Since    0.1.
 * Source   Gumbel-max: Gumbel, 1954; orders: transformers' logits processors and llama.cpp's default chain.
 */
EMBED_FN embed_status embed_sample(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                   const embed_rules *const *rules, const embed_sample_params *params, int64_t params_count, int32_t *ids,
                                   float *logprobs, const embed_sweep_options *opts);

enum { EMBED_ASK_LOGITS = 1, EMBED_ASK_LOGSUMEXP = 2, EMBED_ASK_ENTROPY = 4, EMBED_ASK_TOPK_IDS = 8, EMBED_ASK_TOPK_LOGITS = 16, EMBED_ASK_TOPK_COUNT = 32,
       EMBED_ASK_TARGET_LOGPROB = 64, EMBED_ASK_TARGET_RANK = 128, EMBED_ASK_TOKEN = 256, EMBED_ASK_TOKEN_LOGPROB = 512 };
/**
 * embed_sweep: several answers from one sweep of the table, in memory that does not grow with n * vocab.
 *
 * LOGITS [n, vocab], TOPK_IDS and TOPK_LOGITS [n, k], TOPK_COUNT and TOKEN [n, 1] are of the processed logits: after scale and
 * soft-cap, then rules and penalties. LOGSUMEXP, ENTROPY (nats), TARGET_LOGPROB, TARGET_RANK, TOKEN_LOGPROB [n, 1] are the
 * model's own, before rules; with EMBED_SWEEP_PROCESSED they are of the distribution that tokens are drawn from, after rules,
 * penalties, temperature and filters (temperature 0 counts as 1, without filters): an id that is banned or filtered out has -inf.
 * TARGET_RANK is 1 + how many ids rank before the target (higher logit, or the same and a lower id), 1 for the best; filters
 * do not change it.
 *
 * Shapes   hidden [*, dim] with row stride ld_hidden elements (0 = dim); rows [n]: which of them, repeats allowed, NULL = 0 .. n - 1;
 *          targets [n], only read where a target is asked about; rules [n] or NULL, entries may be NULL;
 *          params NULL, one (params_count 1) or one per row (n), params[0].size bytes apart; opts->k columns of top-k.
 * Types    as embed_logits: the bits that it gives for this n. An answer's bits do not depend on what else is asked.
 * NaN      EMBED_NAN_MAX: NaN ranks above everything, as in PyTorch; log-probabilities are NaN then, and a row of which a token is
 *          asked (temperature above 0) is E_NONFINITE; IGNORE: as -inf; ERROR: E_NONFINITE.
 * Empty    n = 0 or ask = 0 reads nothing, but checks its arguments: answers of no rows, or none; k = 0 gives no columns, count 0.
 *          k past vocab is filled with id -1, logit -inf.
 * Errors   E_ARGUMENT (a negative row, k, params_count), E_OPTION, E_ID (a target outside the vocabulary or the subset; at = its
 *          position), E_MISMATCH (rules of another vocabulary; at = the row), E_OVERFLOW, E_MEMORY, E_STALE: result keeps what
 *          it had, or is empty when memory ran out on the way. E_NONFINITE (at = the row: see NaN; or no logit above -inf and
 *          anything but LOGITS asked), E_UNSUPPORTED (as embed_logits), E_CANCELLED, E_CALLBACK: result is empty.
 * Threads  h and rules shared, ctx and result exclusive. Same bits for any pool or executor, as embed_logits.
 * Cost     embed_topk's sweep. Scratch: of 128 (OpenBLAS: 512) rows at a time, per row 16 bytes for each candidate and worker and 32 to
 *          72 for each 1,024 ids. A second sweep of these rows, where a row's filters may keep more than 1,024 ids, and for
 *          TARGET_RANK of EMBED_HEAD_BLAS.
 * Since    0.1.
 */
EMBED_FN embed_status embed_sweep(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t ld_hidden,
                                  const int64_t *rows, int64_t n, const int32_t *targets, const embed_rules *const *rules,
                                  const embed_sample_params *params, int64_t params_count, const embed_sweep_options *opts, embed_result *result);
/**
 * embed_sweep_logits: the same answers from logits that are there already.
 *
 * Shapes   logits [*, vocab] with row stride ld_logits elements (0 = vocab), never written; the rest as embed_sweep.
 * Types    F32; scale and soft-cap are the caller's affair, rules and penalties are not. opts->activation must be 0.
 * NaN      as embed_sweep.
 * Empty    as embed_sweep.
 * Errors   as embed_sweep, but for E_STALE; E_UNSUPPORTED is a vocab past 2^31 - 1: result keeps what it had.
 * Threads  logits and rules shared, ctx and result exclusive. Same bits for any pool or executor.
 * Cost     reads 4 n vocab; 1,024 columns are copied at a time where rules or IGNORE change them.
 * Since    0.1.
 */
EMBED_FN embed_status embed_sweep_logits(embed_context *ctx, const float *logits, int64_t vocab, int64_t ld_logits, const int64_t *rows, int64_t n,
                                         const int32_t *targets, const embed_rules *const *rules, const embed_sample_params *params,
                                         int64_t params_count, const embed_sweep_options *opts, embed_result *result);
/**
 * embed_result_create: room for the answers of a sweep, to be used again and again.
 *
 * Errors   E_ARGUMENT, E_MEMORY; *out is NULL then.
 * Threads  ctx exclusive.
 * Cost     one small allocation; a sweep takes what it needs, by this context's allocator, and keeps it.
 * Since    0.1.
 */
EMBED_FN embed_status embed_result_create(embed_context *ctx, embed_result **out);
/**
 * embed_result_f32: LOGITS, LOGSUMEXP, ENTROPY, TOPK_LOGITS, TARGET_LOGPROB or TOKEN_LOGPROB of the last sweep.
 *
 * Shapes   [*rows, *cols], dense; rows and cols may be NULL. Valid until r's next sweep or release.
 * Errors   none: NULL, 0 and 0 for what was not asked, is of the other type or is not one EMBED_ASK_*; and after a sweep that failed.
 * Threads  r shared.
 * Cost     reads a few fields.
 * Since    0.1.
 */
EMBED_API const float *embed_result_f32(const embed_result *r, uint32_t ask, int64_t *rows, int64_t *cols); /* NULL = not asked; until r's next sweep */
/**
 * embed_result_i32: TOPK_IDS, TOPK_COUNT, TARGET_RANK or TOKEN of the last sweep.
 *
 * Shapes   as embed_result_f32.
 * Errors   as embed_result_f32.
 * Threads  r shared.
 * Cost     reads a few fields.
 * Since    0.1.
 */
EMBED_API const int32_t *embed_result_i32(const embed_result *r, uint32_t ask, int64_t *rows, int64_t *cols);
/**
 * embed_result_release: frees it and what it holds.
 *
 * Errors   none; NULL does nothing.
 * Threads  r exclusive.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_result_release(embed_result *r);
/**
 * embed_verify: speculative decoding: which drafts the head accepts, and the token that follows them.
 *
 *   draft x at a row with target distribution p, drawn from q:  accepted where a q(x) < p(x), which is with probability min(1, p(x) / q(x))
 *   first one rejected:  argmax of log(max(p - q, 0)) + g;      all accepted:  embed_sample's draw from the last row
 *
 * so that the tokens are distributed as embed_sample's, one after another, whatever q was. p is what embed_sample draws from: after
 * rules, penalties (on the history and the sequence's drafts before the row), temperature and filters. Row j of a sequence draws at
 * position + j: a = (2 w + 1) 2^-33, w word 0 of Philox4x32-10 with counter (0, position low, position high, 5), key seed; g is
 * embed_sample's noise of position + j + 2^63, which no call of it has: the drafts may come from embed_sample with the same seed and
 * positions. Temperature 0 accepts the drafts that are the best.
 *
 * Shapes   hidden [offsets[seqs], dim] with row stride ld_hidden elements (0 = dim); offsets [seqs + 1] ascending from 0: sequence s owns
 *          hidden rows offsets[s] .. offsets[s+1] - 1, one or more, and a draft for each but the last; drafts [offsets[seqs] - seqs],
 *          sequence after sequence; draft_probs [drafts, vocab] with ld_draft_probs (0 = vocab): the q that each was drawn from, vocab =
 *          embed_head_vocab; NULL: drafts were not drawn (greedy, looked up), q is all on x. rules [seqs] or NULL; params one
 *          (params_count 1), one per sequence (seqs) or NULL (0: greedy). ids [offsets[seqs]]: from offsets[s] on the accepted
 *          drafts, the token, then -1; accepted [seqs].
 * Types    draft_probs F32, from 0 on, used as they are: each row should sum to 1; p, q and the rest in double.
 * NaN      as embed_sample; EMBED_NAN_ERROR looks at every hidden row, behind a rejection too.
 * Empty    seqs = 0 does nothing.
 * Errors   E_ARGUMENT (offsets; at = the sequence; draft_probs negative, infinite or NaN; at = the draft), E_ID (drafts; at = position),
 *          E_OPTION (params; at = the sequence), E_MISMATCH (rules; at = the sequence), else as embed_logits. E_NONFINITE (at = the
 *          hidden row) as embed_sample, for rows up to a sequence's first rejection. On all of them nothing is written.
 * Threads  h and rules shared, ctx exclusive. Same ids for any thread count, alone or in a batch where the logits are the same.
 * Cost     embed_logits' sweep, for as many rows at once as fit into 64 MiB of logits; reads draft_probs once; scratch of these logits and
 *          16 bytes * vocab per worker.
 * Since    0.1.
 * Source   Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", 2023.
 */
EMBED_FN embed_status embed_verify(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t ld_hidden,
                                   const int64_t *offsets, int64_t seqs, const int32_t *drafts, const float *draft_probs, int64_t ld_draft_probs,
                                   const embed_rules *const *rules, const embed_sample_params *params, int64_t params_count, int32_t *ids,
                                   int32_t *accepted, const embed_sweep_options *opts);

#ifdef __cplusplus
}
#endif
#endif
