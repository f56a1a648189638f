/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/optim.h: gradients of a table and its optimisers: training touches only rows that have gradient. */
#ifndef EMBED_OPTIM_H
#define EMBED_OPTIM_H

#include <embed/lookup.h>
#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Gradients: rows of a table's gradient, a few (sparse) or all (dense). */
/**
 * embed_grad_create: an empty sparse gradient: it holds the rows that something was added to.
 *
 * Shapes   dim columns, at least 1; rows are those of any table of that dim.
 * Types    f32.
 * Errors   E_ARGUMENT, E_MEMORY; *out is NULL then.
 * Threads  ctx exclusive; the gradient outlives it.
 * Cost     none; memory for rows comes with them (k * (4 * dim + 8) bytes, half as much again after the first call that
 *          adds) and stays until the release.
 * Since    0.1.
 */
EMBED_FN embed_status embed_grad_create(embed_context *ctx, int64_t dim, embed_grad **out); /* sparse */
/**
 * embed_grad_create_dense: a gradient with all rows.
 *
 * Shapes   memory [rows, dim] with row stride ld elements (0 = dim), the caller's and used as it is until the release, or
 *          NULL: owned, zeros. rows >= 0, dim >= 1.
 * Types    f32.
 * Empty    rows = 0 owns nothing.
 * Errors   E_ARGUMENT, E_OVERFLOW, E_MEMORY; *out is NULL then, memory untouched.
 * Threads  ctx exclusive; the gradient outlives it.
 * Cost     owned: rows * ld * 4 bytes, written once; from 8 MiB on they ask for huge pages.
 * Since    0.1.
 */
EMBED_FN embed_status embed_grad_create_dense(embed_context *ctx, int64_t rows, int64_t dim, float *memory /* NULL = owned */, int64_t ld, embed_grad **out);
/* Scatter-add of d_out [n, dim]; duplicates coalesced in ascending position, so the sum is reproducible. */
/**
 * embed_grad_add: rows added to those that ids name.
 *
 *   g[ids[i], :] += d_out[i, :]
 *
 * A row's sum starts at +0 and goes on in f32 in ascending position, call after call: two calls give the bits of one with
 * both lists, and a sparse gradient those of a dense one.
 *
 * Shapes   ids [n]: below the rows of a dense g, of a sparse one not negative; d_out [n, dim] with row stride ld_d_out
 *          elements (0 = dim), not g's own memory.
 * Empty    n = 0 does nothing and reads no pointer.
 * Errors   E_ID (embed_error_at = the position), E_ARGUMENT, E_OVERFLOW, E_MEMORY; g is then as before. E_CALLBACK: the
 *          executor failed, g's values are unspecified.
 * Threads  g, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads n * dim * 4, reads and writes the rows named (fresh ones of a sparse g are written, past the caches from
 *          16 MiB on), 40n bytes of scratch; time linear in n. A sparse g that gets rows between those it has moves those behind.
 *          No allocation after warm-up.
 * Since    0.1.
 * Source   torch's index_add_ and coalesce.
 */
EMBED_FN embed_status embed_grad_add(embed_context *ctx, embed_grad *g, const int32_t *ids, int64_t n, const float *d_out, int64_t ld_d_out);
/* The same for a lookup made with opts (scale, policy, padding) on a table of this vocab: ids are checked here. */
/**
 * embed_lookup_backward: the gradient of embed_lookup.
 *
 *   g[row of ids[i], :] += scale * d_out[i, :]
 *
 * The row of an id is the one that the lookup read: unk_id's, the clamped, the hashed. Padding ids and ids under
 * EMBED_OOV_ZERO have none: nothing is added. scale is rounded to scale_round as in the lookup; the product is f32 (its
 * rounding has the gradient 1, as in torch). max_norm: the gradient passes straight to the row, as in torch, where no
 * gradient flows through the clipping. EMBED_LOOKUP_ADD changes nothing. EMBED_BACKWARD_BY_FREQUENCY: the weight of a row is
 * scale / (its positions in this call), rounded to f32.
 *
 * Shapes   ids [n]; d_out [n, dim] with row stride ld_d_out elements (0 = dim); vocab: of the table, at most the rows of a
 *          dense g.
 * Types    d_out F32, F16 or BF16, at any address; g f32, whatever the table's dtype. A sum goes on as in embed_grad_add.
 * Empty    n = 0 does nothing and reads no pointer; padding ids alone leave a sparse g without rows.
 * Errors   E_ID, E_OPTION as embed_lookup; E_MISMATCH: a dense g with fewer rows than vocab; the others of
 *          embed_grad_add. g is as before, but for E_CALLBACK.
 * Threads  g, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     as embed_grad_add.
 * Since    0.1.
 * Source   torch.nn.Embedding, scale_grad_by_freq there (dense alone).
 */
EMBED_FN embed_status embed_lookup_backward(embed_context *ctx, embed_grad *g, int64_t vocab, const int64_t *ids, int64_t n, const void *d_out,
                                            embed_dtype d_out_dtype, int64_t ld_d_out, const embed_lookup_options *opts);
enum { EMBED_BACKWARD_BY_FREQUENCY = 32 }; /* flag of the options of embed_lookup_backward and embed_bag_backward; the lookups refuse it */
/**
 * embed_bag_backward: the gradient of embed_bag_i64, with respect to the rows and to the weights.
 *
 *   SUM            g[i] += w_j d_out_b                 d_weights[j] = p_j                       p_j = <d_out_b, W[i]>
 *   MEAN           g[i] += w_j / number  d_out_b       d_weights[j] = p_j / number
 *   WEIGHTED_MEAN  g[i] += w_j / S  d_out_b            d_weights[j] = (p_j - <d_out_b, out_b>) / S        S = sum of w
 *   SQRT_N         g[i] += w_j / Q  d_out_b            d_weights[j] = (p_j - w_j / Q <d_out_b, out_b>) / Q   Q = sqrt(sum w^2)
 *   MAX, MIN       g[i, c] += d_out_b[c] where position j of the bag gave out_b[c]: the first of equals, the first NaN
 *
 * for each position j of bag b and its row i. Factors are taken in double and rounded to f32; d_weights is summed in double. A bag
 * that was divided by 0 gave zeros: its factors and d_weights are 0. A row that is in a bag and gave no maximum is in a sparse g, with
 * zeros. EMBED_BACKWARD_BY_FREQUENCY: g's factors, not those of the weights, are divided by the row's positions in this call.
 *
 * Shapes   W [rows, dim]; ids [n]; offsets [bags + 1] and weights [n] or NULL (= 1) as in embed_bag; d_out [bags, dim] with row
 *          stride ld_d_out elements (0 = dim); d_weights [n], written, not weights itself, or NULL; g NULL when d_weights alone is wanted.
 * Types    W any dtype (read for MAX, MIN and d_weights alone); d_out F32, F16 or BF16, at any address; g, d_weights f32.
 * Empty    bags = 0 and n = 0 do nothing. Padding ids and ids under EMBED_OOV_ZERO add nothing; d_weights of padding is 0.
 * Errors   those of embed_bag; E_MISMATCH: g has another dim, or is dense with fewer rows than W's vocab; E_ARGUMENT: weights or
 *          d_weights with MAX or MIN, neither g nor d_weights; E_UNSUPPORTED: MAX or MIN of a bag of 2^31 ids. g and d_weights are
 *          as before, but for E_CALLBACK.
 * Threads  t shared; g, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     as embed_grad_add, with n upstream rows read; MAX, MIN read n rows of W and take bags * dim * 4 bytes of scratch, d_weights
 *          reads n rows of W (twice with WEIGHTED_MEAN and SQRT_N).
 * Since    0.1.
 * Source   torch.nn.EmbeddingBag.
 */
EMBED_FN embed_status embed_bag_backward(embed_context *ctx, embed_grad *g, const embed_table *t, const int64_t *ids, int64_t n, const int64_t *offsets,
                                         int64_t bags, const float *weights, const void *d_out, embed_dtype d_out_dtype, int64_t ld_d_out,
                                         float *d_weights, const embed_bag_options *opts);
typedef struct embed_merge_options {
  uint32_t size, flags; /* EMBED_MERGE_SCALE_ZERO */
  double scale;         /* of what is added; 0 = 1 */
} embed_merge_options;
enum { EMBED_MERGE_SCALE_ZERO = 1 /* adds nothing, not even a NaN */ };
/**
 * embed_grad_merge: one gradient added to another. The input's sparse gradient goes into the head's dense one, so that a tied
 * table steps once; scale is the knob by which the input's part counts.
 *
 *   g[r, :] += scale * from[r, :]; bias as well
 *
 * Shapes   the same dim; a dense g has every row of `from`; a bias of `from` has the length of g's, or g gets one.
 * Types    f32; scale is rounded to f32, product and sum are rounded apart.
 * Empty    an empty `from` adds nothing.
 * Errors   E_MISMATCH: dim, rows or bias; E_OPTION: scale not finite, EMBED_MERGE_SCALE_ZERO beside a scale; E_ARGUMENT: g is
 *          `from`; E_OVERFLOW, E_MEMORY. g is as before, but for E_CALLBACK.
 * Threads  from shared; g, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads the rows of `from`, reads and writes as many of g; 8 to 24 bytes of scratch a row when g is sparse.
 * Since    0.1.
 */
EMBED_FN embed_status embed_grad_merge(embed_context *ctx, embed_grad *g, const embed_grad *from, const embed_merge_options *opts);
typedef struct embed_clip_options {
  uint32_t size, flags;
  double max_row_norm; /* L2 norm that no row exceeds but for rounding, clipped first; 0 = off */
  double max_norm;     /* of all rows and the bias together; 0 = off */
} embed_clip_options;
/**
 * embed_grad_clip: rows, then the whole, scaled down to a norm.
 *
 *   x *= max / (||x|| + 1e-6) where ||x|| > max
 *
 * *norm is the norm of the whole gradient before any clipping (rows and bias; for two tables' common norm: without options, then scale
 * both by embed_step_options.grad_scale). The bias is part of the whole and not clipped as a row.
 *
 * Shapes   norm one value, or NULL.
 * Types    norms are summed in double, in an order of their own; factors are rounded to f32.
 * Empty    a gradient without rows has norm 0.
 * Errors   E_NONFINITE: a NaN or an infinity (embed_error_at = its row), g as before; E_OPTION: a limit negative or NaN; E_MEMORY.
 *          E_CALLBACK: g is unspecified.
 * Threads  g, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads g once, with max_row_norm twice more; writes what is clipped.
 * Since    0.1.
 * Source   torch.nn.utils.clip_grad_norm_.
 */
EMBED_FN embed_status embed_grad_clip(embed_context *ctx, embed_grad *g, double *norm, const embed_clip_options *opts);
typedef struct embed_share { /* output struct: both parts of a tied table's gradient */
  uint32_t size, flags;
  double input_norm, output_norm;  /* Frobenius */
  double norm_share;               /* output / (input + output) of the norms; 0 where both are 0 */
  double energy_share;             /* the same of their squares */
  double cosine;                   /* between the parts; 0 where one is 0 */
  double positions_norm;           /* of d_out, in which repeated ids are not added up; 0 without it */
  double positions_share;          /* output / (positions + output); 0 without d_out */
  int64_t input_rows, output_rows; /* that have gradient */
} embed_share;
typedef struct embed_share_options {
  uint32_t size, flags;
  int64_t rows;          /* of counts */
  int64_t bands;         /* 0 = 1; at most 4096 */
  const int64_t *counts; /* [rows] how often a row occurs; C memory */
  const int64_t *edges;  /* [bands - 1] ascending: band b has the rows with edges[b - 1] <= count < edges[b]; C memory */
} embed_share_options;
/**
 * embed_grad_share: how much of a tied table's gradient comes from the output of the model and how much from its input, over
 * all rows and by how often rows occur.
 *
 * Shapes   input: what lookups added; output: what the head added (both may be one); d_out [n, dim] with row stride ld_d_out
 *          elements (0 = dim), the gradient of the looked up rows, or NULL; bands [bands, 3] or NULL: of each band the sums of the
 *          input's squares, of the output's squares, and of the products of both.
 * Types    d_out F32, F16 or BF16, at any address; everything is summed in double.
 * Empty    no rows give norms, shares and cosine of 0.
 * Errors   E_CALLBACK, E_MISMATCH: dims, or rows of a gradient past those of counts; E_OPTION: bands, edges that descend, bands without counts;
 *          E_ARGUMENT, E_OVERFLOW, E_MEMORY; share and bands are untouched. NaN and infinity go through to the figures.
 * Threads  input, output shared; ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads both gradients, where both have rows twice, and d_out.
 * Since    0.1.
 * Source   arXiv 2603.26663 takes the norms' share, by positions; where ids repeat it is not that of the gradients.
 */
EMBED_FN embed_status embed_grad_share(embed_context *ctx, const embed_grad *input, const embed_grad *output, const void *d_out, embed_dtype d_out_dtype,
                                       int64_t n, int64_t ld_d_out, embed_share *share, double *bands, const embed_share_options *opts);
/**
 * embed_grad_is_dense: 1 for a gradient with all rows, 0 for a sparse one.
 *
 * Errors   0 when g is NULL.
 * Threads  g shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int32_t embed_grad_is_dense(const embed_grad *g);
/**
 * embed_grad_rows: rows that the gradient holds.
 *
 * Errors   EMBED_E_ARGUMENT (as a negative count) when g is NULL.
 * Threads  g shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_grad_rows(const embed_grad *g);        /* k (sparse) or rows */
/**
 * embed_grad_ids: the table's rows that a sparse gradient holds. Valid until something is added to g or g is released.
 *
 * Errors   NULL when g is NULL, dense, or never held a row.
 * Threads  g shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const int64_t *embed_grad_ids(const embed_grad *g);  /* [k], ascending; NULL when dense */
/**
 * embed_grad_values: the rows, of a dense gradient with the ld that it was made with. Valid as embed_grad_ids.
 *
 * Errors   NULL when g is NULL or never held a row.
 * Threads  g shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const float *embed_grad_values(const embed_grad *g); /* [k, dim] */
/**
 * embed_grad_bias: the gradient of a head's bias, of every row of its vocabulary. Valid until g is released; for steps that
 * the caller takes.
 *
 * Errors   NULL when g is NULL or no head with a bias has added to it.
 * Threads  g exclusive when written to.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API float *embed_grad_bias(embed_grad *g);               /* [rows] or NULL */
/**
 * embed_grad_clear: no gradient: a sparse one has no rows (and keeps its memory), a dense one zeros; the bias as well.
 *
 * Errors   none; NULL does nothing.
 * Threads  g exclusive.
 * Cost     writes a dense one's rows and the bias.
 * Since    0.1.
 */
EMBED_API void embed_grad_clear(embed_grad *g);
/**
 * embed_grad_release: gives the memory back, but for the caller's; NULL is fine.
 *
 * Errors   none.
 * Threads  g exclusive.
 * Cost     none.
 * Since    0.1.
 */
EMBED_API void embed_grad_release(embed_grad *g);

/* --- Row counters: how often each row had gradient, in the caller's memory. */
/**
 * embed_count_rows: each position of a list counted at its row.
 *
 *   counts[row of ids[i]] += 1
 *
 * The row of an id is that of embed_lookup_backward with the same vocab and opts: padding ids and ids under EMBED_OOV_ZERO have none
 * and are not counted. Positions are not weighed: scale, max_norm, EMBED_LOOKUP_ADD and EMBED_BACKWARD_BY_FREQUENCY change nothing.
 * A count that has reached UINT32_MAX stays there.
 *
 * Shapes   ids [n]; vocab: of the table; counts [vocab], not ids' own memory.
 * Empty    n = 0 does nothing and reads no pointer.
 * Errors   E_ID (embed_error_at = the position), E_OPTION as embed_lookup_backward; E_ARGUMENT: n or vocab negative, ids or counts
 *          NULL. counts is then as before.
 * Threads  counts, ctx exclusive. The calling thread alone works.
 * Cost     reads ids twice, reads and writes a count a position; allocates nothing.
 * Since    0.1.
 */
EMBED_FN embed_status embed_count_rows(embed_context *ctx, const int64_t *ids, int64_t n, int64_t vocab, uint32_t *counts,
                                       const embed_lookup_options *opts);
/**
 * embed_count_decay: counters multiplied by a factor, so that what was long ago counts less.
 *
 *   counts[r] = the whole number nearest to counts[r] * factor, the even one of two
 *
 * The product is a double. Counts that lose less than a half stay what they are: with 0.9 those up to 4.
 *
 * Shapes   counts [rows]; factor from 0 (all counts become 0) to 1.
 * Empty    rows = 0 does nothing and reads no pointer.
 * Errors   E_ARGUMENT: a factor outside [0, 1] or NaN, rows negative, counts NULL. counts is then as before.
 * Threads  counts, ctx exclusive. The calling thread alone works.
 * Cost     reads and writes counts; allocates nothing.
 * Since    0.1.
 */
EMBED_FN embed_status embed_count_decay(embed_context *ctx, uint32_t *counts, int64_t rows, double factor);
/**
 * embed_count_top: the ids of the rows counted most, a shortlist for embed_head_create_subset.
 *
 * Larger counts come first, of equal ones the smaller id, so that a shorter list is the beginning of a longer one. counts may come from
 * embed_count_rows or from a file of token frequencies.
 *
 * Shapes   counts [vocab]; ids [k], not counts' own memory.
 * Empty    k = 0 does nothing and reads no pointer.
 * Errors   E_ARGUMENT: k or vocab negative, k above vocab, counts or ids NULL; E_OVERFLOW: vocab above INT32_MAX; E_MEMORY. ids is then
 *          as before.
 * Threads  counts shared, ids, ctx exclusive. The calling thread alone works.
 * Cost     reads counts and sorts them, 8 vocab bytes of scratch; no allocation after warm-up.
 * Since    0.1.
 */
EMBED_FN embed_status embed_count_top(embed_context *ctx, const uint32_t *counts, int64_t vocab, int64_t k, int32_t *ids);

/* --- Optimisers: the state of one table, and steps. */
typedef int32_t embed_optimizer_kind;
enum { EMBED_OPTIM_NONE = -1, EMBED_OPTIM_SGD = 0, EMBED_OPTIM_ADAGRAD, EMBED_OPTIM_ADAGRAD_ROW, EMBED_OPTIM_ADAM_SPARSE, EMBED_OPTIM_ADAMW,
       EMBED_OPTIM_ADAMW_DEFERRED, EMBED_OPTIM_ADAM_LAZY, EMBED_OPTIM_ADAM_ROW, EMBED_OPTIM_RMSPROP, EMBED_OPTIM_LION, EMBED_OPTIM_LAMB,
       EMBED_OPTIM_FTRL, EMBED_OPTIM_ADAFACTOR };
typedef struct embed_optimizer_options {
  uint32_t size, flags;        /* EMBED_OPTIM_*_ZERO and the flags below them */
  embed_optimizer_kind kind;
  embed_dtype state;           /* 0 = F32; BF16 */
  double lr;                   /* required, here or with every step */
  double beta1, beta2, epsilon; /* 0 = the kind's default; a true zero by flag */
  double momentum, weight_decay, max_norm; /* 0 = none */
  double l1;                   /* FTRL's; 0 = none */
  uint64_t seed;               /* of stochastic rounding */
} embed_optimizer_options;
enum { EMBED_OPTIM_BETA1_ZERO = 1, EMBED_OPTIM_BETA2_ZERO = 2, EMBED_OPTIM_EPSILON_ZERO = 4 };
enum {
  EMBED_OPTIM_REPLAY = 8,    /* deferred: missed steps one by one, the bits of the dense run; else in closed form */
  EMBED_OPTIM_LAZY = 16,     /* SGD: rows without gradient stay, although there is momentum or weight decay */
  EMBED_OPTIM_NESTEROV = 32, /* SGD */
  EMBED_OPTIM_NEAREST = 64   /* 16-bit rows and states are rounded to nearest, not stochastically */
};
typedef struct embed_step_options {
  uint32_t size, flags;   /* EMBED_STEP_* */
  double lr;              /* with EMBED_STEP_LR, also when 0; else the optimiser's */
  double grad_scale;      /* 0 = 1 */
  double max_grad_norm;   /* 0 = off */
  const float *row_rates; /* [vocab] what the rate of each row is multiplied by; NULL = 1; C memory */
  const void *reserved;
} embed_step_options;
enum { EMBED_STEP_LR = 1, EMBED_STEP_CHECK_FINITE = 2 };
/**
 * embed_optimizer_create: the state of one table, all zeros, no step taken yet. g is a row's gradient, times grad_scale and clipped.
 *
 *   SGD             w -= lr g; with momentum b = momentum b + g, w -= lr b (NESTEROV: lr (g + momentum b)). As torch.optim.SGD, rows
 *                   without gradient count as gradient 0 and move where there is momentum or decay; LAZY leaves them out
 *   ADAGRAD         h += g^2, w -= lr g / (sqrt h + epsilon 1e-10)
 *   ADAGRAD_ROW     one h per row, of mean(g^2); epsilon 1e-8 (FBGEMM's exact row-wise Adagrad, duplicates merged)
 *   ADAM_SPARSE     torch.optim.SparseAdam: rows with gradient alone, corrections of the table's step, epsilon before them
 *   ADAMW           torch.optim.AdamW: every row decays and drifts at every step (weight_decay 0: Adam)
 *   ADAMW_DEFERRED  the same, rows without gradient later: embed_optimizer_touch
 *   ADAM_LAZY       AdamW of the rows with gradient alone, corrections count a row's own steps
 *   ADAM_ROW        Adam with one second moment per row, of mean(g^2); rows with gradient alone
 *   RMSPROP         v = beta2 v + (1 - beta2) g^2, w -= lr g / (sqrt v + epsilon); beta2 0.99; rows with gradient alone
 *   LION            w -= lr sign(beta1 m + (1 - beta1) g), m = beta2 m + (1 - beta2) g; beta2 0.99; rows with gradient alone
 *   LAMB            Adam's direction + weight_decay w, made as long as the row; epsilon 1e-6; rows with gradient alone
 *   FTRL            FTRL-Proximal with l1, l2 = weight_decay, beta = beta1 (0); rows with gradient alone; a rate of 0 is no step
 *   ADAFACTOR       torch.optim.Adafactor on the matrix of the rows with gradient: r, c: mean squares of rows and columns with beta2 = 1 -
 *                   step^-0.8 (r: the row's own steps), v = r c / mean(c), at least epsilon^2 (2^-23); u = g / sqrt v, made no longer than
 *                   RMS 1; w -= min(lr, 1 / sqrt step) max(1e-3, RMS of w) u. A dense gradient gives torch's numbers. A
 *                   NaN in g reaches all rows with gradient: EMBED_STEP_CHECK_FINITE
 *
 * Shapes   state for the table's vocab rows; rows behind vocab are never touched.
 * Types    tables of F32, F16 and BF16. Numbers of a step are computed in double, rows updated in f32. 16-bit rows, and moments of
 *          state BF16, are rounded stochastically by bits that depend on seed, row, column and step alone (NEAREST: to nearest, which
 *          loses steps below half a unit). Squares that RMSPROP, FTRL and ADAFACTOR keep stop at 3.38e38, near f32's end: finite
 *          gradients whose squares are past it leave numbers. A master copy in f32: train an F32 table and embed_table_convert it.
 * Options  beta1 0.9, beta2 0.999, epsilon 1e-8 unless the list says otherwise; 0 means that default, a true 0 needs its flag.
 *          weight_decay: SGD, ADAGRAD*, RMSPROP add weight_decay w to the gradient, the others decay by lr weight_decay (decoupled), all
 *          but SGD and ADAMW* rows with gradient alone. max_norm: rows with gradient are no longer than that, but for rounding, after their step,
 *          those of a rate of 0 too; 16-bit tables are rounded after it, each number of a row by up to 2^-7 (BF16) or 2^-10 (F16) of it, half of that with NEAREST.
 * Errors   E_OPTION (a negative lr or none that is a number, a number or flag that the kind has no use for, a beta or momentum of 1 and more),
 *          E_UNSUPPORTED (a quantised or F64 table), E_OVERFLOW, E_MEMORY, E_ARGUMENT; *out is NULL.
 * Threads  t shared, ctx exclusive. The optimiser holds no table: a step takes any of the same vocab, dim and dtype.
 * Cost     0 (SGD), 4 (*_ROW, and 4 dim more for ADAM_ROW), 4 dim or 8 dim (momentum, ADAGRAD, RMSPROP, LION; ADAM*, LAMB, FTRL) bytes a
 *          row, half of the latter two with BF16, these in whole 64 bytes a row; 8 more for ADAM_LAZY and ADAMW_DEFERRED; ADAFACTOR 12, and 4
 *          a column. Writes it.
 * Since    0.1.   Source  torch.optim, FBGEMM, Loshchilov and Hutter 2019, McMahan et al. 2013, You et al. 2020, Chen et al. 2023, Shazeer and
 *          Stern 2018.
 */
EMBED_FN embed_status embed_optimizer_create(embed_context *ctx, const embed_table *t, const embed_optimizer_options *opts, embed_optimizer **out);
/**
 * embed_optimizer_step: one step of the table from one gradient. A dense gradient has a gradient for every row, a sparse one for its own.
 *
 * Shapes   g as wide as t; a dense g has t's vocab rows (or all stored ones, of which the first vocab count). The gradient's bias is the
 *          caller's to apply: a table has none.
 * Types    as embed_optimizer_create. grad_scale multiplies the gradient first (1 / loss scale). max_grad_norm: where the norm of the
 *          whole gradient is above it, it is scaled by max_grad_norm / (norm + 1e-6), as torch does; the bias is not in it (embed_grad_clip
 *          has both). Rows that are frozen count for neither. row_rates: the step of row r is that of lr row_rates[r], its decay too; with 0
 *          its moments go on and its weights stay.
 * Empty    a gradient without rows is a step: moments decay where every row moves, the count of steps grows.
 * Errors   E_NONFINITE (with CHECK_FINITE or max_grad_norm; embed_error_at = the row, also a row whose norm times grad_scale is past
 *          the range of floats), E_ID (a row past the vocabulary; embed_error_at = its place in g), E_MISMATCH (dim, rows, dtype),
 *          E_READ_ONLY, E_OPTION (no rate, a negative one, one of row_rates that is negative or not finite (embed_error_at = the row); lr
 *          weight_decay of 1 and more for ADAMW_DEFERRED), E_UNSUPPORTED (row_rates with ADAMW_DEFERRED), E_MEMORY, E_ARGUMENT: the
 *          step was not taken, table, state and count are as before. E_CALLBACK leaves them unspecified.
 * Threads  o, t and ctx exclusive, g shared. The same bits for any thread count, pool or executor. Prepared heads of t are stale afterwards.
 * Cost     rows with gradient alone: reads and writes their weights and state; SGD with momentum and ADAMW: of all rows. ADAMW_DEFERRED
 *          keeps 72 bytes a step until all rows are touched, as a dense gradient does. ADAFACTOR reads g three times, the rows
 *          twice. Allocates nothing else after warm-up.
 * Since    0.1.   Source  torch.optim.Optimizer.step, torch.nn.utils.clip_grad_norm_.
 */
EMBED_FN embed_status embed_optimizer_step(embed_context *ctx, embed_optimizer *o, embed_table *t, const embed_grad *g, const embed_step_options *opts);
/* Deferred kinds: bring these rows up to date before they are read; ids NULL = all rows. Others: nothing to do. */
/**
 * embed_optimizer_touch: what the rows' missed steps would have done to them. A step does this for its own rows; whoever reads others
 * (a lookup, a head's whole table, a writer) touches them first.
 *
 * Shapes   ids [n], in any order, the same one twice is fine; NULL = all rows, and n is not read.
 * Types    closed form: decay by the product over the steps, moments by powers, the drift of all missed steps from four sums that are kept
 *          per step. Of what an exact sum would move a row by, it is off by 2e-7 at most where sqrt(v) is near epsilon, by rounding
 *          elsewhere; rows for which that cannot be said go step by step until what is left is below 1e-10 of it (about 240 steps with
 *          beta1 0.9; src/optim/CATCH_UP.md). REPLAY, and betas whose terms do not fall within 4,096 steps (beta1 >= sqrt(beta2)):
 *          every missed step as ADAMW takes it, equal bits.
 * Empty    n = 0 does nothing.
 * Errors   E_ID (embed_error_at = position), E_MISMATCH, E_READ_ONLY, E_MEMORY, E_ARGUMENT: nothing was touched. E_CALLBACK leaves table
 *          and state unspecified.
 * Threads  o, t and ctx exclusive. The same bits for any thread count. Prepared heads of t are stale after a row was touched.
 * Cost     reads and writes weights and state of the rows that are behind; REPLAY: times the steps they missed. Touching all rows forgets
 *          the history of steps.
 * Since    0.1.
 */
EMBED_FN embed_status embed_optimizer_touch(embed_context *ctx, embed_optimizer *o, embed_table *t, const int64_t *ids, int64_t n);
/**
 * embed_optimizer_freeze: rows that steps leave as they are, bit for bit: weights, moments, counts, decay. Their gradient is dropped.
 *
 * Shapes   rows first .. first + n - 1 of the vocabulary; of them those whose bit is set, bitmap[i / 8] >> i % 8 & 1 for row first + i; NULL
 *          = all of them. frozen 0 thaws them. Other rows stay what they were.
 * Empty    n = 0 does nothing.
 * Errors   E_ARGUMENT (a range outside the vocabulary), E_MISMATCH, E_READ_ONLY, E_MEMORY: nothing has changed. E_CALLBACK as
 *          embed_optimizer_touch.
 * Threads  o, t and ctx exclusive.
 * Cost     a bit a row; ADAMW_DEFERRED touches all rows first.
 * Since    0.1.
 */
EMBED_FN embed_status embed_optimizer_freeze(embed_context *ctx, embed_optimizer *o, embed_table *t, int64_t first, int64_t n, const uint8_t *bitmap,
                                             int32_t frozen);
/**
 * embed_optimizer_steps: steps taken, those before it was saved and restored among them.
 *
 * Errors   none; -1 for NULL.
 * Threads  o shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_optimizer_steps(const embed_optimizer *o);
/**
 * embed_writer_optimizer: the optimiser beside its table, for .embed: options, state, counts, history and frozen rows. It is retained, and
 * read at commit, in the same pass as the table: a file holds both of the same step or does not appear.
 *
 * Types    t has been handed in as it is stored (embed_writer_table, as = NULL), and is the table that o trains.
 * Errors   E_NOT_FOUND (t has not been handed in), E_MISMATCH (another vocab, dim or dtype), E_ARGUMENT (an optimiser of the same table
 *          twice, a committed writer), E_UNSUPPORTED (another format than .embed; a big-endian machine), E_MEMORY; at commit E_STALE (a
 *          step since, or a touch of all rows or a first freeze, which change the section's size; else what holds at commit is written).
 * Threads  o and t shared, ctx and w exclusive.
 * Cost     a copy of a name; commit writes what embed_optimizer_create lists, and 8 bytes a step of a history.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_optimizer(embed_context *ctx, embed_writer *w, embed_optimizer *o, const embed_table *t);
/**
 * embed_optimizer_restore: the optimiser that was saved beside table i of a file (-1: the token table), for t, a table to be written that
 * holds the same rows (embed_table_convert of embed_file_table). Training goes on with the bits that it would have had.
 *
 * Errors   E_NOT_FOUND (none was saved there), E_FORMAT (damaged, or no optimiser; every count is proved), E_MISMATCH (t has another
 *          vocab, dim or dtype), E_UNSUPPORTED (a later version; a big-endian machine), E_ARGUMENT (i), E_MEMORY; *out is NULL.
 * Threads  f and t shared, ctx exclusive. Nothing of the file is held.
 * Cost     reads the section twice: its sum, and a copy.
 * Since    0.1.
 */
EMBED_FN embed_status embed_optimizer_restore(embed_context *ctx, const embed_file *f, int64_t i, const embed_table *t, embed_optimizer **out);
/**
 * embed_optimizer_release: frees the state; a writer that was given it keeps it until it is released itself.
 *
 * Errors   none; NULL does nothing.
 * Threads  o exclusive.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_optimizer_release(embed_optimizer *o);

/* --- Learning rates, to be given to steps with EMBED_STEP_LR. */
typedef int32_t embed_lr_schedule;
enum { EMBED_LR_CONSTANT = 0, EMBED_LR_LINEAR, EMBED_LR_COSINE, EMBED_LR_INVERSE_SQRT };
typedef int32_t embed_lr_rule;
enum { EMBED_LR_ONE = 0, EMBED_LR_SQRT_WIDTH, EMBED_LR_WIDTH };
/**
 * embed_lr_at: the rate of step 1, 2, ..: up to warmup lr step / warmup, then
 *
 *   CONSTANT lr; LINEAR and COSINE from lr at warmup down to least at total and later; INVERSE_SQRT lr sqrt(max(warmup, 1) / step)
 *
 * Errors   NaN for step below 1, warmup below 0, a negative rate, total not above warmup where it counts, an unknown schedule.
 * Threads  any.
 * Cost     none.
 * Since    0.1.
 */
EMBED_API double embed_lr_at(embed_lr_schedule schedule, double lr, int64_t step, int64_t warmup, int64_t total, double least);
/**
 * embed_lr_ratio: rate of the embedding / rate of the hidden layers for a width, from a ratio that was found good at base_width.
 *
 *   ONE base_ratio; SQRT_WIDTH base_ratio sqrt(width / base_width) (large vocabularies); WIDTH base_ratio width / base_width (muP)
 *
 * Never a default: the papers give the growth, not the constant.
 * Errors   NaN for a width below 1, a ratio that is no number, an unknown rule.
 * Threads  any.
 * Cost     none.
 * Since    0.1.   Source  Hayou and Liu 2025 (arXiv 2506.15025).
 */
EMBED_API double embed_lr_ratio(embed_lr_rule rule, int64_t width, int64_t base_width, double base_ratio);

#ifdef __cplusplus
}
#endif
#endif
