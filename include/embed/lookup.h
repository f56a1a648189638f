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
  float max_norm;          /* each decoded row is clipped to this L2 norm first (max_norm / (norm + 1e-7)), then scaled, rounded, added; 0 = off; never writes the table */
  embed_dtype scale_round; /* EMBED_F32 (0) = no rounding; BF16, F16: scale and product rounded to it (Gemma) */
  embed_oov_policy oov;    /* what an id outside [0, vocab) gives */
  int64_t unk_id;          /* row used with EMBED_OOV_UNK */
  int64_t padding_id;      /* with EMBED_LOOKUP_PADDING: gives a zero row and gets no gradient; may lie outside [0, vocab), such ids are then no error */
} embed_lookup_options;
enum { EMBED_LOOKUP_ADD = 1 /* out += row, for token + position + type */, EMBED_LOOKUP_PADDING = 2 };
/* out[i, :] = scale * W[ids[i], :]; every void buffer is followed by its dtype (F32, F16, BF16); ld_out in elements, 0 = dim. */
EMBED_FN embed_status embed_lookup(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, void *out, embed_dtype out_dtype,
                                   int64_t ld_out, const embed_lookup_options *opts);
EMBED_FN embed_status embed_lookup_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out, embed_dtype out_dtype,
                                       int64_t ld_out, const embed_lookup_options *opts);
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
/* out[b, :] = reduce over j in [offsets[b], offsets[b+1]) of weights[j] * W[ids[j], :]; offsets [bags + 1] ascending from 0 to n
 * (bags = 0 needs n = 0); weights may be NULL. */
EMBED_FN embed_status embed_bag(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                const float *weights, void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts);
EMBED_FN embed_status embed_bag_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                    const float *weights, void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts);
typedef struct embed_mix_options { uint32_t size, flags; } embed_mix_options;
/* out [n, dim] = weights [n, vocab] x W, through BLAS where built in: one-hot rows give the lookup, probabilities the expected embedding. */
EMBED_FN embed_status embed_mix(embed_context *ctx, const embed_table *t, const float *weights, int64_t n, int64_t ld_weights, float *out,
                                int64_t ld_out, const embed_mix_options *opts);
typedef struct embed_position_options {
  uint32_t size, flags; /* EMBED_LOOKUP_ADD; EMBED_POSITION_HALVES: [sin | cos] with exponent i / (dim/2 - 1), fairseq's form (0 when dim < 4; odd dim: last column 0) */
  float base;           /* 0 = 10000 */
  float scale;          /* 0 = 1 */
} embed_position_options;
enum { EMBED_POSITION_HALVES = 16 };
/* Sinusoidal positions first .. first + n - 1 into out [n, dim]. Learned positions and types are tables: look them up with EMBED_LOOKUP_ADD. */
EMBED_FN embed_status embed_positions(embed_context *ctx, int64_t first, int64_t n, int64_t dim, void *out, embed_dtype out_dtype, int64_t ld_out,
                                      const embed_position_options *opts);
typedef struct embed_norm_options {
  uint32_t size, flags; /* EMBED_NORM_LAYER (else RMS), EMBED_NORM_PLUS_ONE: weight is stored minus one */
  float epsilon;        /* 0 = 1e-6 (RMS), 1e-5 (layer) */
  int32_t reserved;
} embed_norm_options;
enum { EMBED_NORM_LAYER = 1, EMBED_NORM_PLUS_ONE = 2 };
/* Row norm in place: x [n, dim]; weight, bias [dim], either may be NULL. */
EMBED_FN embed_status embed_norm_rows(embed_context *ctx, void *x, embed_dtype x_dtype, int64_t n, int64_t dim, int64_t ld_x, const float *weight,
                                      const float *bias, const embed_norm_options *opts);

#ifdef __cplusplus
}
#endif
#endif
