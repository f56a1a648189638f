/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/lookup.h: ids [n] -> vectors [n, dim]: the gather side. */
#ifndef EMBED_LOOKUP_H
#define EMBED_LOOKUP_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t embed_oov_policy;
enum { EMBED_OOV_NONE = -1, EMBED_OOV_ERROR = 0, EMBED_OOV_UNK, EMBED_OOV_ZERO, EMBED_OOV_CLAMP,
       EMBED_OOV_HASH /* row splitmix64(id) % vocab: x += 0x9E3779B97F4A7C15; x = (x ^ x>>30) * 0xBF58476D1CE4E5B9; x = (x ^ x>>27) * 0x94D049BB133111EB; x ^ x>>31; splitmix64(0) = 0xE220A8397B1DCDAF */ };
typedef struct embed_lookup_options {
  uint32_t size, flags;    /* EMBED_LOOKUP_ADD, EMBED_LOOKUP_PADDING */
  float scale;             /* multiplies every row; 0 = 1 */
  float max_norm;          /* each decoded row is clipped to this L2 norm first (max_norm / (norm + 1e-7)), then scaled, rounded, added; a row with an infinity stays; 0 = off; never writes the table */
  embed_dtype scale_round; /* EMBED_F32 (0) = no rounding; BF16, F16: scale and product rounded to it (Gemma) */
  embed_oov_policy oov;    /* what an id outside [0, vocab) gives */
  int64_t unk_id;          /* row used with EMBED_OOV_UNK */
  int64_t padding_id;      /* with EMBED_LOOKUP_PADDING: gives a zero row and gets no gradient; may lie outside [0, vocab), such ids are then no error */
} embed_lookup_options;
enum { EMBED_LOOKUP_ADD = 1 /* out += row, for token + position + type */, EMBED_LOOKUP_PADDING = 2 };
/**
 * embed_lookup: the rows that ids name.
 *
 *   out[i, :] = scale * W[ids[i], :]
 *
 * The steps of a row, in this order: decoded and rounded to f32; clipped to max_norm; multiplied by scale; with
 * EMBED_LOOKUP_ADD added to what out holds (widened to f32); rounded once to out's dtype. Where none of them changes
 * the row, its stored bits are copied, NaN payloads too.
 *
 * Shapes   W [rows, dim]; ids [n], below the table's vocab; out [n, dim] with row stride ld_out elements (0 = dim); what
 *          lies between the rows of out is not touched. out does not overlap W or ids.
 * Types    W any dtype; out F32, F16 or BF16, at any address.
 * Empty    n = 0 does nothing and reads no pointer. A padding id and an id under EMBED_OOV_ZERO give +0 whatever the
 *          scale; with EMBED_LOOKUP_ADD they add 0.
 * Errors   E_ID: an id outside [0, vocab) that oov does not place (embed_error_at = its position, nothing written); on a
 *          table without valid ids CLAMP and HASH place none. E_OPTION: scale that is not finite or past scale_round's
 *          range, max_norm negative or NaN, scale_round, oov, unk_id. E_ARGUMENT, E_OVERFLOW, E_MEMORY, E_UNSUPPORTED;
 *          E_CALLBACK: the executor failed, out is unspecified.
 * Threads  t shared, ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads n * row_bytes + 4n (ids twice), writes n * dim * size(out); an output above 16 MiB is written past the
 *          caches. No allocation after warm-up.
 * Since    0.1.
 * Source   torch.nn.functional.embedding; the scale's rounding is Gemma's.
 */
EMBED_FN embed_status embed_lookup(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, void *out, embed_dtype out_dtype,
                                   int64_t ld_out, const embed_lookup_options *opts);
/**
 * embed_lookup_i64: embed_lookup with 64-bit ids: the same rows, errors and counts.
 *
 * Shapes   as embed_lookup.
 * Types    as embed_lookup.
 * Errors   as embed_lookup.
 * Threads  t shared, ctx exclusive.
 * Cost     as embed_lookup, with 8n bytes of ids.
 * Since    0.1.
 */
EMBED_FN embed_status embed_lookup_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out, embed_dtype out_dtype,
                                       int64_t ld_out, const embed_lookup_options *opts);
/**
 * embed_replaced_ids: how many ids outside [0, vocab) the policy replaced in ctx's last lookup or bag. Padding ids do not
 * count; 0 after one that failed. Other calls leave it alone.
 *
 * Errors   EMBED_E_ARGUMENT (as a negative count) when ctx is NULL.
 * Threads  ctx exclusive.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_replaced_ids(const embed_context *ctx); /* by the last lookup or bag of ctx */
typedef int32_t embed_bag_mode;
/* SUM of weights * rows; MEAN = sum / number; WEIGHTED_MEAN = sum / sum of weights (0 where that is 0); SQRT_N = sum / sqrt(number), with weights
 * sqrt(sum of squares); MAX, MIN element by element, NaN wins, no weights. An empty bag gives zeros. */
enum { EMBED_BAG_NONE = -1, EMBED_BAG_SUM = 0, EMBED_BAG_MEAN, EMBED_BAG_WEIGHTED_MEAN, EMBED_BAG_SQRT_N, EMBED_BAG_MAX, EMBED_BAG_MIN };
typedef struct embed_bag_options {
  uint32_t size, flags; /* EMBED_LOOKUP_ADD, EMBED_LOOKUP_PADDING (left out and not counted) */
  embed_bag_mode mode;
  embed_oov_policy oov;
  int64_t unk_id, padding_id;
} embed_bag_options;
/**
 * embed_bag: pooled lookup over lists of ids.
 *
 *   out[b, :] = reduce_{offsets[b] <= j < offsets[b+1]}  weights[j] * W[ids[j], :]
 *
 * A row is decoded and rounded to f32, weight * row is rounded to f32, and rows are summed in f32 in the order of their
 * ids. Denominators are summed in double and rounded to f32; the sum is divided by them. MAX and MIN keep the first of
 * equal values. With EMBED_LOOKUP_ADD the result is added to what out holds (widened to f32).
 *
 * Shapes   W [rows, dim]; ids [n]; offsets [bags + 1], ascending, offsets[0] = 0, offsets[bags] = n; weights [n] or NULL
 *          (= 1); out [bags, dim] with row stride ld_out elements (0 = dim).
 * Types    W any dtype; out F32, F16 or BF16, at any address; sums kept in f32, rounded once.
 * Empty    bags = 0 needs n = 0, does nothing and reads no pointer. A bag without ids, or with padding ids alone, gives
 *          zeros in every mode. An id under EMBED_OOV_ZERO is a row of zeros that counts; a padding id is left out with
 *          its weight.
 * Errors   E_ARGUMENT: the first wrong offset (embed_error_at = its index), ids for 0 bags, weights with MAX or MIN.
 *          E_ID (embed_error_at = the id's position). E_OPTION: mode, oov, unk_id. All before anything is written.
 *          E_OVERFLOW, E_MEMORY, E_UNSUPPORTED; E_CALLBACK: the executor failed, out is unspecified.
 * Threads  t shared, ctx exclusive. Same bits for any pool, executor and ISA level. A bag is one thread's.
 * Cost     reads n * row_bytes + 4n (ids twice), writes bags * dim * size(out); no allocation after warm-up.
 * Since    0.1.
 * Source   torch.nn.EmbeddingBag; FBGEMM EmbeddingSpMDM.
 */
EMBED_FN embed_status embed_bag(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                const float *weights, void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts);
/**
 * embed_bag_i64: embed_bag with 64-bit ids: the same rows, errors and counts.
 *
 * Shapes   as embed_bag.
 * Types    as embed_bag.
 * Errors   as embed_bag.
 * Threads  t shared, ctx exclusive.
 * Cost     as embed_bag, with 8n bytes of ids.
 * Since    0.1.
 */
EMBED_FN embed_status embed_bag_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                    const float *weights, void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts);
typedef struct embed_mix_options { uint32_t size, flags; } embed_mix_options;
/**
 * embed_mix: every row of the vocabulary, mixed by weights: one-hot rows give the lookup, probabilities the expected
 * embedding.
 *
 *   out[i, :] = sum_v weights[i, v] * W[v, :]
 *
 * Shapes   W [rows, dim], of which the first vocab are read; weights [n, vocab] with row stride ld_weights elements (0 =
 *          vocab); out [n, dim] with row stride ld_out elements (0 = dim).
 * Types    W any dtype, decoded to f32; weights and out f32.
 * Empty    n = 0 does nothing and reads no pointer; a table without valid ids gives zeros.
 * Errors   E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY, E_UNSUPPORTED. E_CANCELLED and E_CALLBACK leave out unspecified.
 * Threads  t shared, ctx exclusive. Same bits for any pool or executor, given what a product through OpenBLAS depends on
 *          (its core and threads); EMBED_CONTEXT_REPRODUCIBLE: own kernels, a row's bits do not depend on n either.
 *          A NaN or infinite row of W reaches every row of out: its weight of 0 does not silence it.
 * Cost     n * vocab * dim multiply-adds; long work: cancel and progress are looked at between blocks of rows.
 * Since    0.1.
 * Source   one-hot times matrix, as the lookup is defined in print.
 */
EMBED_FN embed_status embed_mix(embed_context *ctx, const embed_table *t, const float *weights, int64_t n, int64_t ld_weights, float *out,
                                int64_t ld_out, const embed_mix_options *opts);
typedef struct embed_position_options {
  uint32_t size, flags; /* EMBED_LOOKUP_ADD; EMBED_POSITION_HALVES: [sin | cos] with exponent i / (dim/2 - 1), fairseq's form (0 when dim < 4; odd dim: last column 0) */
  float base;           /* 0 = 10000 */
  float scale;          /* 0 = 1 */
} embed_position_options;
enum { EMBED_POSITION_HALVES = 16 };
/**
 * embed_positions: sinusoids of positions first .. first + n - 1. Learned positions and types are tables: look them up
 * with EMBED_LOOKUP_ADD.
 *
 *   out[i, 2k] = scale * sin(p / base^(2k / dim)),  out[i, 2k + 1] = scale * cos(the same),  p = first + i
 *   EMBED_POSITION_HALVES: h = dim / 2; out[i, k] = scale * sin(p / base^(k / (h - 1))), out[i, h + k] = scale * cos(the same)
 *
 * Computed in double with the C library's sin, cos and pow, rounded to f32, with EMBED_LOOKUP_ADD added to what out holds
 * (widened to f32), rounded once to out's dtype. An odd dim ends in a sine, with EMBED_POSITION_HALVES in a 0.
 *
 * Shapes   out [n, dim] with row stride ld_out elements (0 = dim); first >= 0, dim >= 1.
 * Types    out F32, F16 or BF16, at any address.
 * Empty    n = 0 does nothing and reads no pointer.
 * Errors   E_ARGUMENT: first or n negative, dim below 1. E_OPTION: base negative or not finite, scale not finite.
 *          E_OVERFLOW: positions past 2^53, where doubles no longer tell them apart. E_MEMORY, E_UNSUPPORTED;
 *          E_CALLBACK: the executor failed, out is unspecified.
 * Threads  ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     n * dim sines and cosines; no allocation after warm-up.
 * Since    0.1.
 * Source   Vaswani et al. 2017, section 3.5; tensor2tensor and fairseq for the halves.
 */
EMBED_FN embed_status embed_positions(embed_context *ctx, int64_t first, int64_t n, int64_t dim, void *out, embed_dtype out_dtype, int64_t ld_out,
                                      const embed_position_options *opts);
typedef struct embed_norm_options {
  uint32_t size, flags; /* EMBED_NORM_LAYER (else RMS), EMBED_NORM_PLUS_ONE: weight is stored minus one */
  float epsilon;        /* 0 = 1e-6 (RMS), 1e-5 (layer) */
  int32_t reserved;
} embed_norm_options;
enum { EMBED_NORM_LAYER = 1, EMBED_NORM_PLUS_ONE = 2 };
/**
 * embed_norm_rows: RMS norm or layer norm of each row, in place.
 *
 *   RMS:               x[i, :] = x[i, :] / sqrt(mean(x[i, :]^2) + epsilon) * weight + bias
 *   EMBED_NORM_LAYER:  x[i, :] = (x[i, :] - mean) / sqrt(variance + epsilon) * weight + bias, the variance biased
 *
 * Statistics and values in double, rounded to f32, then once to x's dtype.
 *
 * Shapes   x [n, dim] with row stride ld_x elements (0 = dim), dim >= 1; weight, bias [dim], either may be NULL (1 and 0).
 * Types    x F32, F16 or BF16, at any address; weight, bias f32. EMBED_NORM_PLUS_ONE: a weight given is stored minus one
 *          (Gemma's checkpoints).
 * Empty    n = 0 does nothing and reads no pointer.
 * Errors   E_ARGUMENT: n negative, dim below 1. E_OPTION: epsilon negative or not finite, reserved not 0. E_OVERFLOW,
 *          E_MEMORY, E_UNSUPPORTED; E_CALLBACK: the executor failed, x is unspecified. NaN stays in its row.
 * Threads  ctx exclusive. Same bits for any pool, executor and ISA level.
 * Cost     reads and writes x once; no allocation after warm-up.
 * Since    0.1.
 * Source   Zhang, Sennrich 2019 (RMS); Ba, Kiros, Hinton 2016 (layer).
 */
EMBED_FN embed_status embed_norm_rows(embed_context *ctx, void *x, embed_dtype x_dtype, int64_t n, int64_t dim, int64_t ld_x, const float *weight,
                                      const float *bias, const embed_norm_options *opts);

#ifdef __cplusplus
}
#endif
#endif
