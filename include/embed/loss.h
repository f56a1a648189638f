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
} embed_loss_options;
enum { EMBED_LOSS_IGNORE_INDEX = 1, EMBED_LOSS_SMOOTH_OTHERS = 2 /* smoothing over the other classes, as Megatron */ };
/**
 * embed_cross_entropy: the loss of each hidden row against its target.
 *
 *   z[i, :] = the head's logits; lse[i] = log sum_v exp(z[i, v]); t = targets[i]; w = class_weight (1); e = label_smoothing
 *   loss[i] = (1 - e) w[t] (lse[i] - z[i, t]) + e / vocab * sum_v w[v] (lse[i] - z[i, v]) + z_loss lse[i]^2
 *
 * Shapes   hidden [n, dim] with row stride ld_hidden elements (0 = dim); targets [n]; loss, logsumexp [n], either may be NULL.
 * Types    hidden F32, F16 or BF16; W any dtype, its logits as right as embed_logits'; the sum of exp and the loss in double,
 *          rounded once.
 * Options  EMBED_LOSS_SMOOTH_OTHERS: e / (vocab - 1) on each other class instead of e / vocab on all (Megatron): the above with
 *          e vocab / (vocab - 1). reduction is not looked at: the rows' losses are what comes out; PyTorch's mean is their sum
 *          divided by the number of counted rows, with class weights by the sum of w[t] over those.
 * Ignored  rows whose target is -100, or ignore_index with EMBED_LOSS_IGNORE_INDEX (a class may be it, it stays in the sums):
 *          loss 0; their logsumexp is computed.
 * NaN      as it comes. A logit of -inf: its target's loss is +inf, and with smoothing every loss of the row (weight 0 leaves
 *          a class out).
 * Empty    n = 0 does nothing. vocab = 0: every row must be ignored.
 * Errors   E_ID (a target outside [0, vocab) that is not ignored; at = its position), E_ARGUMENT, E_OPTION (smoothing outside
 *          [0, 1], z_loss negative or not finite, a class weight not finite: at = the class), E_OVERFLOW, E_MEMORY, E_STALE: nothing
 *          written. E_CANCELLED, E_CALLBACK: unspecified.
 * Threads  h shared, ctx exclusive. Same bits for any thread count. F32, F16 and BF16 tables go through the library's own products,
 *          prepared or not: the loss of a row does not depend on n. Others, and EMBED_HEAD_BLAS, as embed_topk's logsumexp.
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
 *          on have no gradient. A bias' gradient: embed_cross_entropy_train.
 * Types    hidden F32, F16 or BF16; W any dtype, decoded; d_hidden, d_weight F32. g is formed in fp32; sums in fp32.
 * Options  as given to embed_cross_entropy; reduction is not looked at.
 * Ignored  d_hidden rows of 0 and no part in d_weight, whatever hidden, logsumexp and d_loss hold there. d_hidden may be hidden.
 * Empty    n = 0 does nothing.
 * Errors   as embed_cross_entropy; E_ARGUMENT also for logsumexp or d_loss NULL.
 * Threads  h shared, ctx exclusive. Same bits for any thread count, always by the library's own kernels: d_hidden does not
 *          depend on n.
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
 * Gradient g of this dim, sparse (it then has every row of the vocabulary) or dense with at least vocab rows: E_MISMATCH else.
 * Ignored  loss 0, d_hidden rows of 0, no part in g, whatever hidden and d_loss hold there. All ignored: count 0, no NaN.
 *          d_hidden may be hidden.
 * Empty    n = 0: count 0.
 * Errors   as embed_cross_entropy, E_MISMATCH: nothing written. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  h shared, ctx and g exclusive. Same bits for any thread count, always by the library's own kernels: loss and
 *          d_hidden of a row do not depend on n.
 * Cost     6 n vocab dim operations; reads the table twice and reads and writes the gradient once per chunk of at most 256
 *          counted rows. Scratch of at most 64 MB at any n and vocab (dim up to 16,384, 2 threads; up to 3 MB for each more): what
 *          of a chunk's logits does not fit is made twice. No allocation after warm-up.
 * Since    0.1.
 * Source   Liger Kernel's fused linear cross-entropy: Hsu et al., 2024.
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
 * Options  flags and ignore_index alone: label_smoothing, z_loss and class_weight are E_OPTION.
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
 * Errors   as embed_sequence_logprobs, E_MISMATCH: nothing written. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
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
enum { EMBED_DISTILL_IGNORE_INDEX = 1, EMBED_DISTILL_SQUARED = 2 /* losses times temperature^2 (Hinton): gradients that hardly depend on it */ };
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
 * Ignored  rows whose target is -100, or ignore_index with EMBED_DISTILL_IGNORE_INDEX: loss 0, hidden rows are not read.
 * NaN      as it comes, in its row alone; a logit of +inf gives NaN. A class with a student's logit of -inf and not the teacher's: KL
 *          is +inf; with both it adds nothing.
 * Empty    n = 0 does nothing. vocab = 0: losses of counted rows are left as they are.
 * Errors   E_ID (a target outside [0, vocab) that is not ignored; at = its position), E_MISMATCH (vocabs), E_ARGUMENT, E_OPTION
 *          (temperature outside [1e-6, 1e6], mix outside (0, 1)), E_OVERFLOW, E_MEMORY, E_STALE: nothing written. E_CANCELLED,
 *          E_CALLBACK: unspecified.
 * Threads  heads shared, ctx exclusive. Same bits for any thread count, always by the library's own kernels: a row's loss does not
 *          depend on n.
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
 * Empty    n = 0: count 0.
 * Errors   as embed_distill. E_CANCELLED, E_CALLBACK: outputs and g unspecified.
 * Threads  heads shared, ctx and g exclusive. Same bits for any thread count; loss, that of embed_distill to the bit, and d_hidden of a
 *          row do not depend on n.
 * Cost     as embed_distill and 4 n vocab dim operations of the student's gradients; the gradient is read and written once per chunk of
 *          at most 256 counted rows. No allocation after warm-up.
 * Since    0.1.
 * Source   as embed_distill; Liger Kernel's fused linear distillation losses, 2024.
 */
EMBED_FN embed_status embed_distill_train(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype,
                                          int64_t ld_teacher, const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                          int64_t ld_hidden, const int32_t *targets, const float *d_loss, float *loss, int64_t *count, void *d_hidden,
                                          embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_distill_options *opts);

#ifdef __cplusplus
}
#endif
#endif
