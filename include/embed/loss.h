/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/loss.h: cross-entropy fused with the head; never builds [n, vocab]. Target -100 is ignored; any other outside [0, vocab) is EMBED_E_ID */
#ifndef EMBED_LOSS_H
#define EMBED_LOSS_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t embed_reduction;
enum { EMBED_REDUCTION_NONE = -1, EMBED_REDUCE_MEAN = 0, EMBED_REDUCE_SUM, EMBED_REDUCE_ROWS };
typedef struct embed_loss_options {
  uint32_t size, flags;      /* EMBED_LOSS_* */
  double label_smoothing;    /* 0 = off; over all classes, as torch */
  double z_loss;             /* weight of logsumexp squared; 0 = off */
  embed_reduction reduction; /* what d_loss NULL means in embed_cross_entropy_train */
  int32_t ignore_index;      /* with EMBED_LOSS_IGNORE_INDEX, else -100 */
  const float *class_weight; /* [vocab] or NULL; C memory */
  const void *reserved;
  double gradient_filter;    /* gradients: slopes up to this may be left out; 0 = none are */
} embed_loss_options;
enum {
  EMBED_LOSS_IGNORE_INDEX = 1,
  EMBED_LOSS_SMOOTH_OTHERS = 2, /* smoothing over the other classes, as Megatron */
  EMBED_LOSS_KAHAN = 4,         /* gradients of the table carry the rounding errors of their sums along */
  EMBED_LOSS_BF16 = 8           /* what is multiplied is rounded to BF16; sums stay in fp32 */
};
/**
 * embed_cross_entropy: the loss of each hidden row against its target.
 *
 *   z[i, :] = the head's logits; lse[i] = log sum_v exp(z[i, v]); t = targets[i]; w = class_weight (1); e = label_smoothing
 *   loss[i] = (1 - e) w[t] (lse[i] - z[i, t]) + e / vocab * sum_v w[v] (lse[i] - z[i, v]) + z_loss lse[i]^2
 *
 * Shapes   hidden [n, dim] with row stride ld_hidden elements (0 = dim); targets [n]; loss, logsumexp [n], either may be NULL. Of a subset
 *          head targets and ignore_index are original ids, class_weight goes by column, as its logits.
 * Types    hidden F32, F16 or BF16; W any dtype, its logits as right as embed_logits'; the sum of exp and the loss in double,
 *          rounded once.
 * Options  EMBED_LOSS_SMOOTH_OTHERS: e / (vocab - 1) on each other class instead of e / vocab on all (Megatron): the above with
 *          e vocab / (vocab - 1). reduction is not looked at: the rows' losses are what comes out; PyTorch's mean is their sum
 *          divided by the number of counted rows, with class weights by the sum of w[t] over those.
 * Rounded  EMBED_LOSS_BF16: hidden and W, decoded, are rounded to BF16 before they are multiplied (to nearest even: 2^-8 of each number; below
 *          2^-126 they count as 0). The product of two is exact and sums are in fp32, so a product hidden . W is off by at most
 *          2^-7 + 2^-16 of sum |w||x| (2^-8 where one side is BF16, nothing where both are) beyond embed_logits' own error; bias, exp
 *          and loss are as without. Of any dtype, always by the library's own products: EMBED_HEAD_BLAS too.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_LOSS_IGNORE_INDEX (a class may be it, it stays in the sums):
 *          loss 0; their logsumexp is computed.
 * NaN      as it comes. A logit of -inf: its target's loss is +inf, and with smoothing every loss of the row (weight 0 leaves
 *          a class out, but not a NaN).
 * Empty    n = 0 does nothing. vocab = 0: every row must be ignored.
 * Errors   E_ID (a target outside [0, vocab), or the subset, that is not ignored; at = its position), E_ARGUMENT, E_OPTION (smoothing or
 *          gradient_filter outside [0, 1], z_loss negative or not finite, a class weight not finite: at = the class), E_OVERFLOW, E_MEMORY,
 *          E_STALE, E_UNSUPPORTED (EMBED_HEAD_BLAS, as embed_logits; not with EMBED_LOSS_BF16): nothing written. E_CANCELLED, E_CALLBACK:
 *          unspecified.
 * Threads  h shared, ctx exclusive. Same bits for any thread count. F32, F16 and BF16 tables go through the library's own products,
 *          prepared or not: the loss of a row does not depend on n, but on whether level amx multiplies by tiles, which it does in
 *          contexts that are not reproducible from 32 counted rows and 64 columns on, where no number of the call's hidden rows is above 2^30 in size.
 *          Others, and EMBED_HEAD_BLAS, as embed_topk's logsumexp. Rounded: no table depends on n, and all levels have the same bits,
 *          but where a product or partial sum is below 2^-126: CPUs that multiply pairs of bfloats make it 0 (which ones do: as
 *          embed_logits). Level amx has an order of its own.
 * Cost     2 n vocab dim operations, two exp per logit at most; reads the table once per 256 hidden rows (quantised: 128). Scratch
 *          of some MB at any n and vocab; no allocation after warm-up.
 * Since    0.1.
 * Source   torch.nn.CrossEntropyLoss; z-loss: PaLM, 2022; Milakov, Gimelshein, 2018.
 */
EMBED_FN embed_status embed_cross_entropy(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                          int64_t ld_hidden, const int32_t *targets, float *loss, float *logsumexp, const embed_loss_options *opts);
/**
 * embed_cross_entropy_backward: later backward, from the stored logsumexp.
 *
 *   g[i, v] = d_loss[i] * d loss[i] / d z[i, v], through soft-cap and scale to the product hidden . W
 *   d_hidden[i, :] = sum_v g[i, v] W[v, :]          d_weight[v, :] += sum_i g[i, v] hidden[i, :]
 *
 * Shapes   hidden, targets as embed_cross_entropy; logsumexp, d_loss [n]; d_hidden [n, dim] with stride ld_d_hidden elements
 *          (0 = dim) is written, d_weight [vocab, dim] with ld_d_weight is added to; either may be NULL. Rows of W from vocab
 *          on have no gradient; of a subset head d_weight goes by column. A bias' gradient: embed_cross_entropy_train.
 * Types    hidden F32, F16 or BF16; W any dtype, decoded; d_hidden, d_weight F32. g is formed in fp32; sums in fp32.
 * Options  as given to embed_cross_entropy; reduction is not looked at. gradient_filter e, EMBED_LOSS_KAHAN and EMBED_LOSS_BF16 as
 *          embed_cross_entropy_train.
 * Ignored  d_hidden rows of 0 and no part in d_weight, whatever hidden, logsumexp and d_loss hold there. d_hidden may be hidden.
 * Empty    n = 0 does nothing.
 * Errors   as embed_cross_entropy, but for E_UNSUPPORTED; E_ARGUMENT also for logsumexp or d_loss NULL.
 * Threads  h shared, ctx exclusive. Same bits for any thread count, always by the library's own kernels: d_hidden does not
 *          depend on n, but by tiles as embed_cross_entropy.
 * Cost     6 n vocab dim operations: logits are made again, a few hundred rows of the table at a time; reads the table and
 *          reads and writes d_weight once per 256 counted rows. Scratch below 64 MB at any n and vocab (dim up to 16,384, 2 threads).
 * Since    0.1.
 * Source   Cut Cross-Entropy: Wijmans et al., 2024, without its filter.
 */
EMBED_FN embed_status embed_cross_entropy_backward(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                                   int64_t ld_hidden, const int32_t *targets, const float *logsumexp, const float *d_loss,
                                                   float *d_hidden, int64_t ld_d_hidden, float *d_weight, int64_t ld_d_weight,
                                                   const embed_loss_options *opts);
/**
 * embed_cross_entropy_train: forward and backward in one pass over each chunk of logits (no recomputation).
 *
 *   loss as embed_cross_entropy; d_hidden as embed_cross_entropy_backward; g += the head's gradient, and that of its bias
 *
 * Shapes   hidden, targets as embed_cross_entropy; d_loss [n] is the upstream of each row's loss; NULL: by opts->reduction
 *          1 / count for EMBED_REDUCE_MEAN (with class weights 1 / sum of w[t] over the counted rows, as PyTorch; 0 where that is
 *          0), 1 for SUM and ROWS. loss [n] the rows' losses, count (targets not ignored), d_hidden [n, dim], g: each may be NULL.
 * Types    hidden, d_hidden F32, F16 or BF16, d_hidden rounded once; W any dtype, decoded. Logits, g and all sums in fp32.
 * Options  gradient_filter e: 24 classes at a time are left out of both gradients where |g[i, v]| <= e |d_loss[i] scale| for each of them and
 *          every row i of the chunk, upstream apart (g after soft-cap and scale). The loss is exact; a row of d_hidden is off by at most
 *          e |d_loss[i] scale| sum of |W[v]|, a row of the table's gradient by e |scale| sum of |d_loss[i]| |hidden[i]|, the bias' by
 *          e |scale| sum of |d_loss[i]|. d_hidden then depends on n. EMBED_LOSS_KAHAN: what g's rows and the bias lose when
 *          chunks are added is kept for the next chunk of the call, so that they are off by one unit and not by one a chunk.
 * Rounded  EMBED_LOSS_BF16: the loss as embed_cross_entropy's with it; g, formed in fp32 from the logits that the loss has, is rounded to BF16
 *          like hidden and W before it is multiplied: d_hidden is off by at most 2^-7 + 2^-16 of sum |g||W|, the table's gradient of sum
 *          |g||hidden| (2^-8 where W, hidden is BF16), and fp32 sums. The filter looks at g, and the bias' gradient sums g, unrounded.
 * Gradient g of this dim, sparse (it then has every row of the vocabulary) or dense with at least vocab rows: E_MISMATCH else. Of a
 *          subset head that is the first head's vocabulary: its rows and the bias' are the original ids.
 * Ignored  loss 0, d_hidden rows of 0, no part in g, whatever hidden and d_loss hold there. All ignored: count 0, no NaN.
 *          d_hidden may be hidden.
 * Empty    n = 0: count 0.
 * Errors   E_MISMATCH, and as embed_cross_entropy but for E_UNSUPPORTED: nothing written. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  h shared, ctx and g exclusive. Same bits for any thread count, always by the library's own kernels: loss and
 *          d_hidden of a row do not depend on n, but by tiles as embed_cross_entropy.
 * Cost     6 n vocab dim operations; reads the table twice and reads and writes the gradient once per chunk of at most 256
 *          counted rows. Scratch of at most 64 MB at any n and vocab (dim up to 16,384, 2 threads; up to 3 MB for each more): what
 *          of a chunk's logits does not fit is made twice. EMBED_LOSS_KAHAN: as much again as the gradient. No allocation after warm-up.
 * Since    0.1.
 * Source   Liger Kernel's fused linear cross-entropy: Hsu et al., 2024; the filter: Wijmans et al., 2024.
 */
EMBED_FN embed_status embed_cross_entropy_train(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                                int64_t ld_hidden, const int32_t *targets, const float *d_loss, float *loss, int64_t *count,
                                                void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g,
                                                const embed_loss_options *opts);

/**
 * embed_sequence_logprobs: the log-probability of each sequence's targets, as losses of preference (DPO and its kin) want it.
 *
 *   out[s] = sum_{offsets[s] <= i < offsets[s+1]} (z[i, targets[i]] - lse[i])      over rows that are not ignored
 *
 * Shapes   hidden, targets as embed_cross_entropy; offsets [seqs+1], ascending, offsets[0] = 0, offsets[seqs] = n; out [seqs]; counts
 *          [seqs], the rows that were summed, or NULL.
 * Types    as embed_cross_entropy; rows' terms in fp32 are summed in double, rounded once.
 * Options  flags (EMBED_LOSS_BF16 too), ignore_index and, for gradients, gradient_filter: label_smoothing, z_loss and class_weight are E_OPTION.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_LOSS_IGNORE_INDEX (a prompt, padding).
 * Empty    seqs = 0 does nothing; a sequence without counted rows gives 0.
 * Errors   as embed_cross_entropy; E_ARGUMENT also for offsets (at = the first wrong one's index).
 * Threads  h shared, ctx exclusive. Same bits for any thread count.
 * Cost     that of embed_cross_entropy and 4n bytes.
 * Since    0.1.
 * Source   Rafailov et al., Direct Preference Optimization, 2023.
 */
EMBED_FN embed_status embed_sequence_logprobs(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                              int64_t ld_hidden, const int32_t *targets, const int64_t *offsets, int64_t seqs, float *out,
                                              int64_t *counts, const embed_loss_options *opts);
/**
 * embed_sequence_logprobs_backward: its gradients: embed_cross_entropy_train with d_loss[i] = -d_out[s] on the rows i of sequence s.
 *
 *   d_hidden[i, :] = d_out[s] d out[s] / d hidden[i, :]; g += the head's gradient, and that of its bias
 *
 * Shapes   as embed_sequence_logprobs; d_out [seqs]; d_hidden [n, dim] with stride ld_d_hidden elements (0 = dim), g: each may be NULL.
 * Types    hidden, d_hidden F32, F16 or BF16, d_hidden rounded once; W any dtype, decoded. Logits and all sums in fp32.
 * Options  as embed_sequence_logprobs.
 * Gradient as embed_cross_entropy_train.
 * Ignored  d_hidden rows of 0, no part in g. d_hidden may be hidden.
 * Empty    n = 0 adds nothing.
 * Errors   E_MISMATCH, and as embed_sequence_logprobs but for E_UNSUPPORTED: nothing written. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  h shared, ctx and g exclusive. Same bits for any thread count.
 * Cost     that of embed_cross_entropy_train and 4n bytes: logits are made again, the memory stays within its bounds.
 * Since    0.1.
 */
EMBED_FN embed_status embed_sequence_logprobs_backward(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                                       int64_t ld_hidden, const int32_t *targets, const int64_t *offsets, int64_t seqs,
                                                       const float *d_out, void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden,
                                                       embed_grad *g, const embed_loss_options *opts);

typedef int32_t embed_divergence;
enum { EMBED_DIVERGENCE_NONE = -1, EMBED_DIVERGENCE_KL = 0, EMBED_DIVERGENCE_JENSEN_SHANNON };
typedef struct embed_distill_options {
  uint32_t size, flags;      /* EMBED_DISTILL_* */
  double temperature;        /* both logits are divided by it; 0 = 1 */
  double mix;                /* the teacher's share in the mixture of EMBED_DIVERGENCE_JENSEN_SHANNON; 0 = 1/2 */
  embed_divergence divergence;
  embed_reduction reduction; /* what d_loss NULL means in embed_distill_train */
  int32_t ignore_index;      /* with EMBED_DISTILL_IGNORE_INDEX, else -100 */
  int32_t reserved;
} embed_distill_options;
enum { EMBED_DISTILL_IGNORE_INDEX = 1, EMBED_DISTILL_SQUARED = 2 /* losses times temperature^2 (Hinton): gradients that hardly depend on it */,
       EMBED_DISTILL_BF16 = 4 /* EMBED_LOSS_BF16 for both heads */ };
/**
 * embed_distill: how far a student's distribution over the vocabulary is from its teacher's, for each pair of hidden rows.
 *
 *   p = softmax(teacher's logits / temperature); q = softmax(student's logits / temperature); m = mix p + (1 - mix) q
 *   KL               loss[i] = sum_v p log(p / q)
 *   JENSEN_SHANNON   loss[i] = mix sum_v p log(p / m) + (1 - mix) sum_v q log(q / m)
 *
 * Shapes   teacher_hidden [n, dim of the teacher] with row stride ld_teacher elements (0 = that dim); hidden [n, dim of the student] with
 *          ld_hidden; targets [n] or NULL: only which rows are ignored is asked of them; loss [n]. Dims may differ, vocabs not; one
 *          head may be both.
 * Types    hidden F32, F16 or BF16; tables any dtype, decoded. Logits in fp32, each with its head's bias, scale and soft-cap; exp in
 *          fp32, terms and their sums in double, so that a loss near 0 keeps its digits; never negative.
 * Rounded  EMBED_DISTILL_BF16: what is multiplied, of both heads, as EMBED_LOSS_BF16 in embed_cross_entropy; in embed_distill_train the
 *          student's slopes too, as in embed_cross_entropy_train.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_DISTILL_IGNORE_INDEX: loss 0, hidden rows are not read.
 * NaN      as it comes, in its row alone; a logit of +inf gives NaN. A class with a student's logit of -inf and not the teacher's: KL
 *          is +inf; with both it adds nothing.
 * Empty    n = 0 does nothing. vocab = 0: losses of counted rows are left as they are.
 * Errors   E_ID (a target outside [0, vocab) that is not ignored; at = its position), E_MISMATCH (vocabs), E_ARGUMENT, E_OPTION
 *          (temperature outside [1e-6, 1e6], mix outside (0, 1)), E_OVERFLOW, E_MEMORY, E_STALE: nothing written. E_CANCELLED,
 *          E_CALLBACK: unspecified.
 * Threads  heads shared, ctx exclusive. Same bits for any thread count, always by the library's own kernels: a row's loss does not
 *          depend on n, but by tiles as embed_cross_entropy, for each head by its own hidden rows.
 * Cost     2 n vocab operations for each column of both tables, two exp per logit and side, for JENSEN_SHANNON a logarithm; what of a
 *          chunk's logits does not fit is made again. Scratch of at most 64 MB at any n and vocab (dims up to 16,384, 2 threads; up to
 *          7 MB for each more).
 * Since    0.1.
 * Source   Hinton, Vinyals, Dean, 2015; generalised Jensen-Shannon: Agarwal et al., 2024; torch.nn.KLDivLoss.
 */
EMBED_FN embed_status embed_distill(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype, int64_t ld_teacher,
                                    const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                    const int32_t *targets, float *loss, const embed_distill_options *opts);
/**
 * embed_distill_train: the same with the student's gradients; the teacher has none.
 *
 *   loss as embed_distill; d_hidden[i, :] = d_loss[i] d loss[i] / d hidden[i, :]; g += the student's head's gradient and its bias'
 *
 * Shapes   as embed_distill; d_loss [n] is the upstream of each row's loss; NULL: by opts->reduction 1 / count for EMBED_REDUCE_MEAN
 *          (torch's batchmean), 1 for SUM and ROWS. loss [n], count (rows not ignored), d_hidden [n, dim of the student] with stride
 *          ld_d_hidden elements (0 = dim), g: each may be NULL.
 * Types    as embed_distill; d_hidden F32, F16 or BF16, rounded once; a logit's slope in double, rounded to fp32; sums in fp32.
 * Gradient g of the student's dim, sparse (it then has every row of the vocabulary) or dense with at least vocab rows: E_MISMATCH else.
 * Ignored  loss 0, d_hidden rows of 0, no part in g. All ignored: count 0, no NaN. d_hidden may be hidden.
 * Empty    n = 0: count 0. vocab = 0: losses as embed_distill, d_hidden rows of 0.
 * Errors   as embed_distill. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  heads shared, ctx and g exclusive. Same bits for any thread count; loss, that of embed_distill to the bit, and d_hidden of a
 *          row do not depend on n, but as there.
 * Cost     as embed_distill and 4 n vocab dim operations of the student's gradients; the gradient is read and written once per chunk of
 *          at most 256 counted rows. No allocation after warm-up.
 * Since    0.1.
 * Source   as embed_distill; Liger Kernel's fused linear distillation losses, 2024.
 */
EMBED_FN embed_status embed_distill_train(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype,
                                          int64_t ld_teacher, const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                          int64_t ld_hidden, const int32_t *targets, const float *d_loss, float *loss, int64_t *count, void *d_hidden,
                                          embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_distill_options *opts);

/* --- Losses over a few classes of many: no sweep, gradients for the rows that were used alone. */
typedef int32_t embed_candidates_kind;
enum { EMBED_CANDIDATES_NONE = -1, EMBED_CANDIDATES_LOG_UNIFORM = 0, EMBED_CANDIDATES_UNIFORM, EMBED_CANDIDATES_COUNTS };
typedef struct embed_candidates_options {
  uint32_t size, flags; /* EMBED_CANDIDATES_* */
  double power;         /* of the counts; 0 = 1; word2vec has 0.75 */
  uint64_t seed;
  embed_candidates_kind kind;
  int32_t reserved;
} embed_candidates_options;
enum { EMBED_CANDIDATES_REPEATS = 1 /* draws independent of each other; else every class at most once in a list */ };
/**
 * embed_candidates_create: a distribution over the classes, from which candidates are drawn.
 *
 *   LOG_UNIFORM  q(v) = log((v + 2) / (v + 1)) / log(vocab + 1): ids by falling frequency, Zipf's law
 *   UNIFORM      q(v) = 1 / vocab
 *   COUNTS       q(v) = counts[v]^power / sum of all; a count of 0, or below 2^-53 of the sum, is never drawn
 *
 * Shapes   counts [vocab] for COUNTS, else NULL; vocab at least 1.
 * Errors   E_ARGUMENT (vocab, counts missing, given for another kind, negative: at = the first such, or all 0), E_OPTION (power outside
 *          [0, 8], or given for another kind), E_UNSUPPORTED (vocab past 2^31 - 1), E_OVERFLOW, E_MEMORY; *out is NULL then.
 * Threads  ctx exclusive; candidates outlive it and may be shared.
 * Cost     COUNTS: 12 bytes a class and a power each; counts are copied.
 * Since    0.1.
 * Source   TensorFlow's candidate samplers; word2vec's table of negative samples.
 */
EMBED_FN embed_status embed_candidates_create(embed_context *ctx, int64_t vocab, const int64_t *counts, const embed_candidates_options *opts,
                                              embed_candidates **out);
/**
 * embed_candidates_draw: n candidates of list `position`; which they are depends on seed, position and their place alone.
 *
 * Without repeats classes are drawn until n different ones are there, and stand in the order in which they came. *tries: how many were
 * drawn, n with repeats: embed_candidates_log_expected asks for it.
 *
 * Shapes   ids [n]; tries one value, or NULL; position: of the list, say the number of the step, at least 0.
 * Empty    n = 0: tries 0.
 * Errors   E_ARGUMENT (n, position, more candidates than classes that can be drawn), E_UNSUPPORTED (n different ones have not come within
 *          2^26 + 1,024 vocab draws: most of what is left is too rare), E_CANCELLED, E_MEMORY: nothing written.
 * Threads  c shared, ctx exclusive. Same candidates for any thread count.
 * Cost     some 15 to 60 ns a draw on the calling thread: uniform the least, log-uniform an exponential, COUNTS a search in memory; without
 *          repeats a bit a class of scratch, cleared.
 * Since    0.1.
 * Source   Philox: Salmon et al., 2011; tf.random.log_uniform_candidate_sampler (unique).
 */
EMBED_FN embed_status embed_candidates_draw(embed_context *ctx, const embed_candidates *c, int64_t position, int64_t n, int32_t *ids, int64_t *tries);
/**
 * embed_candidates_log_expected: the logarithm of how often a list is expected to hold each class: what sampled losses subtract from logits.
 *
 *   with repeats log(tries q(v)), without log(1 - (1 - q(v))^tries)
 *
 * Shapes   ids [n]; tries as embed_candidates_draw gave it, at least 1; out [n].
 * Types    in double, rounded once. A class that is never drawn: -inf, which no loss takes as a correction.
 * Empty    n = 0 does nothing.
 * Errors   E_ID (at = the position, nothing written), E_ARGUMENT.
 * Threads  c shared, ctx exclusive.
 * Cost     two logarithms a class.
 * Since    0.1.
 * Source   tf.nn.sampled_softmax_loss: true_expected_count, sampled_expected_count.
 */
EMBED_FN embed_status embed_candidates_log_expected(embed_context *ctx, const embed_candidates *c, const int32_t *ids, int64_t n, int64_t tries, float *out);
/**
 * embed_candidates_release: gives the memory back; NULL is fine.
 *
 * Errors   none.
 * Threads  c exclusive.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_candidates_release(embed_candidates *c);

typedef int32_t embed_sampled_kind;
enum { EMBED_SAMPLED_NONE = -1, EMBED_SAMPLED_SOFTMAX = 0, EMBED_SAMPLED_NCE, EMBED_SAMPLED_NEGATIVE };
typedef struct embed_sampled_options {
  uint32_t size, flags;      /* EMBED_SAMPLED_* */
  embed_sampled_kind kind;
  embed_reduction reduction; /* what d_loss NULL means */
  int32_t ignore_index;      /* with EMBED_SAMPLED_IGNORE_INDEX, else -100 */
  int32_t reserved;
} embed_sampled_options;
enum {
  EMBED_SAMPLED_IGNORE_INDEX = 1,
  EMBED_SAMPLED_KEEP_HITS = 2, /* a candidate that is the row's target stays; else it is left out for that row */
  EMBED_SAMPLED_PER_ROW = 4    /* every hidden row has candidates of its own */
};
/**
 * embed_sampled_loss: the loss of each hidden row against its target and a few candidates instead of all classes, with its gradients.
 *
 *   u[t] = the head's logit of the target - target_log_expected[i]; u[c] = that of candidate c - log_expected[c]
 *   SOFTMAX   loss[i] = log(exp u[t] + sum_c exp u[c]) - u[t]
 *   NCE       loss[i] = log(1 + exp -u[t]) + sum_c log(1 + exp u[c])        log_expected = log(k q): k candidates drawn from q
 *   NEGATIVE  as NCE without the corrections: word2vec's skip-gram with negative sampling, where candidates have q of counts^0.75
 *   d_hidden[i, :] = d_loss[i] d loss[i] / d hidden[i, :]; g += the head's gradient, and that of its bias
 *
 * Shapes   hidden, targets as embed_cross_entropy; candidates [samples], the same for all rows, or [n, samples] with
 *          EMBED_SAMPLED_PER_ROW, log_expected likewise; target_log_expected [n]. Both log_expected or none (SOFTMAX then has no
 *          correction; NCE needs them, NEGATIVE refuses them). d_loss [n] is the upstream of each row's loss; NULL: by opts->reduction
 *          1 / count for EMBED_REDUCE_MEAN, 1 for SUM and ROWS. loss [n], count (targets not ignored), d_hidden [n, dim] with stride
 *          ld_d_hidden elements (0 = dim), g: each may be NULL.
 * Types    hidden, d_hidden F32, F16 or BF16, d_hidden rounded once; W any dtype, decoded. Logits with bias, scale and soft-cap in fp32,
 *          losses in double, so are the corrections of candidates per row, shared ones are taken off in fp32; g and sums in fp32.
 * Options  A candidate that is the row's target is left out, as TensorFlow's remove_accidental_hits; KEEP_HITS keeps it (tf.nn.nce_loss's
 *          default). A candidate that stands twice counts twice.
 * Gradient g of this dim; a dense one has at least vocab rows: E_MISMATCH else. A sparse one gets the rows of counted targets and of
 *          candidates, and no others. A head's bias has one of vocab numbers in either.
 * Subset   of a subset head targets, candidates and ignore_index are original ids, vocab and the gradient's rows the first head's; rows are
 *          read where they were copied from, so all bits are those of the first head. embed_candidates_draw over as many classes as
 *          the subset has draws places in its list of ids.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_SAMPLED_IGNORE_INDEX: loss 0, d_hidden rows of 0, no part in g. Their
 *          candidates are checked; with PER_ROW they get no rows in g. All ignored: count 0. d_hidden may be hidden.
 * NaN      as it comes, in its row and the gradient of the rows that it meets.
 * Empty    n = 0: count 0. samples = 0: the target alone.
 * Errors   E_ID (a target or candidate outside [0, vocab), or the subset; at = its position, the text says of which), E_ARGUMENT (a
 *          log_expected that is not finite: at = its position), E_OPTION, E_MISMATCH, E_OVERFLOW, E_MEMORY, E_STALE: nothing written.
 *          E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  h shared, ctx and g exclusive. Same bits for any thread count; loss and d_hidden of a row do not depend on n, but where all rows share
 *          the candidates by tiles as embed_cross_entropy.
 * Cost     6 n (samples + 1) dim operations; PER_ROW waits for the rows: reads n (samples + 1) of them three times; some 60 bytes of
 *          scratch for each target and candidate. Else candidates are read once and multiplied as a small head: scratch of 8 dim bytes and
 *          1 KiB a candidate and some MB, at any n.
 * Since    0.1.
 * Source   tf.nn.sampled_softmax_loss (Jean et al., 2015); NCE: Gutmann, Hyvarinen, 2010; Mnih, Teh, 2012; Mikolov et al., 2013.
 */
EMBED_FN embed_status embed_sampled_loss(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                         const int32_t *targets, const int32_t *candidates, int64_t samples, const float *target_log_expected,
                                         const float *log_expected, const float *d_loss, float *loss, int64_t *count, void *d_hidden,
                                         embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_sampled_options *opts);

/**
 * embed_huffman_create: the Huffman tree of the classes' counts, whose inner nodes are rows of a head: hierarchical softmax.
 *
 * The tree that fastText and word2vec build: of the two least, the first becomes the left child (code 0), the second the right one (code
 * 1); a class goes before an inner node where its count is less, not where it is equal. Inner nodes are numbered 0 .. leaves - 2 as they
 * are made: the root is leaves - 2. Counts need not descend: classes are taken in descending order of their counts, equal ones by id.
 * fastText's files hold labels and words in that order.
 *
 * Shapes   counts [leaves], at least 0; leaves at least 1.
 * Errors   E_ARGUMENT (leaves; a negative count: at = its class), E_OVERFLOW (their sum), E_UNSUPPORTED (leaves past 2^30), E_MEMORY; *out
 *          is NULL then.
 * Threads  ctx exclusive; the tree outlives it and may be shared.
 * Cost     16 bytes a class, and a sort.
 * Since    0.1.
 * Source   Mikolov et al., 2013; fastText's HierarchicalSoftmaxLoss::buildTree.
 */
EMBED_FN embed_status embed_huffman_create(embed_context *ctx, const int64_t *counts, int64_t leaves, embed_huffman **out);
/**
 * embed_huffman_path: the inner nodes above a class, the nearest first, the root last, and which way each goes: 1 = right.
 *
 * Shapes   nodes, codes [room], either may be NULL; *length: how many there are; more than room are not written.
 * Errors   E_ID (a class outside the tree), E_ARGUMENT.
 * Threads  t shared, ctx exclusive.
 * Cost     a step per node.
 * Since    0.1.
 */
EMBED_FN embed_status embed_huffman_path(embed_context *ctx, const embed_huffman *t, int64_t leaf, int32_t *nodes, int32_t *codes, int64_t room,
                                         int64_t *length);
typedef struct embed_huffman_options {
  uint32_t size, flags;      /* EMBED_HUFFMAN_IGNORE_INDEX */
  embed_reduction reduction; /* what d_loss NULL means */
  int32_t ignore_index;      /* with EMBED_HUFFMAN_IGNORE_INDEX, else -100 */
} embed_huffman_options;
enum { EMBED_HUFFMAN_IGNORE_INDEX = 1, EMBED_HUFFMAN_FASTTEXT = 2 /* predict: every log x is log(x + 1e-5), as fastText has it */ };
/**
 * embed_huffman_loss: hierarchical softmax: the loss of each hidden row along the path of its target, with its gradients.
 *
 *   loss[i] = sum over the path's nodes of log(1 + exp z) - code z        z = the head's logit of the node
 *   d_hidden[i, :] = d_loss[i] d loss[i] / d hidden[i, :]; g += the head's gradient, and that of its bias
 *
 * Shapes   hidden [n, dim] with row stride ld_hidden elements (0 = dim); targets [n], classes of the tree; the head's vocab is at least
 *          leaves - 1: row r is that of inner node r. d_loss, loss, count, d_hidden, g as embed_sampled_loss.
 * Types    as embed_sampled_loss.
 * Gradient g of this dim; a dense one has at least vocab rows: E_MISMATCH else. A sparse one gets the rows of the nodes.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_HUFFMAN_IGNORE_INDEX: loss 0, d_hidden rows of 0, no part in g. All
 *          ignored: count 0. d_hidden may be hidden.
 * NaN      as it comes.
 * Empty    n = 0: count 0. A tree of one class has no nodes: loss 0.
 * Errors   E_ID (a target outside the tree; at = its position), E_MISMATCH (a head with too few rows; g), E_UNSUPPORTED (a subset's head),
 *          E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY, E_STALE: nothing written. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  h, t shared, ctx and g exclusive. Same bits for any thread count; loss and d_hidden of a row do not depend on n.
 * Cost     6 dim operations a node, which are as many as the target's code is long: log2(leaves) and fewer on average. Some 60 bytes of
 *          scratch each.
 * Since    0.1.
 * Source   Morin, Bengio, 2005; Mikolov et al., 2013; fastText.
 */
EMBED_FN embed_status embed_huffman_loss(embed_context *ctx, const embed_head *h, const embed_huffman *t, const void *hidden, embed_dtype hidden_dtype,
                                         int64_t n, int64_t ld_hidden, const int32_t *targets, const float *d_loss, float *loss, int64_t *count,
                                         void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_huffman_options *opts);
typedef struct embed_huffman_predict_options {
  uint32_t size, flags; /* EMBED_HUFFMAN_FASTTEXT */
  double threshold;     /* classes less probable than this are left out; 0 = none, with EMBED_HUFFMAN_FASTTEXT those below 1e-5 */
} embed_huffman_predict_options;
/**
 * embed_huffman_predict: the k most probable classes of each hidden row, by best-first search down the tree.
 *
 *   logprob[leaf] = sum over its path of -log(1 + exp -z) where the code is 1, -log(1 + exp z) where it is 0
 *
 * Shapes   hidden, h as embed_huffman_loss; ids, logprobs [n, k], the most probable first by the returned value, equal ones by lower id; count
 *          [n], how many are there, or NULL; the rest is id -1, log-probability -inf.
 * Types    hidden F32, F16 or BF16; W any dtype, decoded; logits in fp32, sums in double, rounded once.
 * Options  EMBED_HUFFMAN_FASTTEXT: probabilities x of a step count as log(x + 1e-5), as in fastText's predict, whose figures these then
 *          are; without it they sum to 1. The threshold t is log(t + 1e-5) then, for the nodes on the way too, as there: with 0 classes
 *          below log(1e-5) do not come.
 * Empty    n = 0 or k = 0 does nothing but counts of 0.
 * Errors   E_ARGUMENT (k), E_OPTION (threshold outside [0, 1]), E_MISMATCH, E_UNSUPPORTED (a subset's head), E_OVERFLOW, E_MEMORY, E_STALE:
 *          nothing written. E_NONFINITE (a logit on the way is NaN; at = the row), E_CANCELLED, E_CALLBACK: unspecified.
 * Threads  h, t shared, ctx exclusive. Same answers for any thread count.
 * Cost     a product for each node that is opened: those at least as probable as the k-th class (FASTTEXT: or less by 1e-5 a level of
 *          the tree, which further steps may add). Scratch of 16 bytes a class and worker.
 * Since    0.1.
 * Source   fastText's HierarchicalSoftmaxLoss::predict.
 */
EMBED_FN embed_status embed_huffman_predict(embed_context *ctx, const embed_head *h, const embed_huffman *t, const void *hidden, embed_dtype hidden_dtype,
                                            int64_t n, int64_t ld_hidden, int64_t k, int32_t *ids, float *logprobs, int64_t *count,
                                            const embed_huffman_predict_options *opts);
/**
 * embed_huffman_release: gives the memory back; NULL is fine.
 *
 * Errors   none.
 * Threads  t exclusive.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_huffman_release(embed_huffman *t);

#ifdef __cplusplus
}
#endif
#endif
