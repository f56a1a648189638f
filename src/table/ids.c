/* SPDX-License-Identifier: BSD-3-Clause */
#include "table/ids.h"

#include <inttypes.h>
#include <math.h>

#include "core/error.h"
#include "core/half.h"

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the output function of seed id. */
static uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

int64_t embed__replaced_row(const embed__id_policy *p, int64_t id) {
  switch (p->oov) {
    case EMBED_OOV_UNK: return p->unk_id;
    case EMBED_OOV_CLAMP: return id < 0 ? 0 : p->vocab - 1;
    case EMBED_OOV_HASH: return (int64_t)(splitmix64((uint64_t)id) % (uint64_t)p->vocab);
    default: return EMBED__ROW_ZERO;
  }
}

embed_status embed__check_policy(embed_context *ctx, int64_t vocab, bool padding, embed_oov_policy oov, int64_t unk_id, int64_t padding_id,
                                 embed__id_policy *out) {
  if (oov < EMBED_OOV_ERROR || oov > EMBED_OOV_HASH) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_oov_policy", oov);
  if (oov == EMBED_OOV_UNK && (unk_id < 0 || unk_id >= vocab))
    return embed__fail(ctx, EMBED_E_OPTION, -1, "unk_id %" PRId64 " is outside the vocabulary of %" PRId64 " rows", unk_id, vocab);
  *out = (embed__id_policy){.vocab = vocab, .unk_id = unk_id, .padding_id = padding_id, .oov = oov, .padding = padding};
  return EMBED_OK;
}

static bool is_outside(const embed__id_policy *p, int64_t id) { return ((uint64_t)id >= (uint64_t)p->vocab) & !(p->padding & (id == p->padding_id)); }

/* One pass without a branch on the ids; only a list that fails is searched for the place. */
embed_status embed__check_ids(embed_context *ctx, const embed__ids *ids, const embed__id_policy *p, int64_t *replaced) {
  int64_t outside = 0, position = 0;
  if (ids->n > 0 && !ids->at) return embed__null(ctx, "ids");
  for (int64_t i = 0; i < ids->n; ++i) outside += is_outside(p, embed__id_at(ids, i));
  *replaced = outside;
  bool nowhere = p->vocab == 0 && (p->oov == EMBED_OOV_CLAMP || p->oov == EMBED_OOV_HASH);
  if (outside == 0 || (p->oov != EMBED_OOV_ERROR && !nowhere)) return EMBED_OK;
  while (!is_outside(p, embed__id_at(ids, position))) ++position;
  return embed__fail(ctx, EMBED_E_ID, position, "id %" PRId64 " at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows",
                     embed__id_at(ids, position), position, p->vocab);
}

static embed_status refuse_offset(embed_context *ctx, int64_t at, const char *what, int64_t offset, int64_t other) {
  return embed__fail(ctx, EMBED_E_ARGUMENT, at, "offset %" PRId64 " at position %" PRId64 " %s %" PRId64, offset, at, what, other);
}

/* Beside how many members there are. */
static embed_status refuse_end(embed_context *ctx, int64_t at, const char *what, const char *members, int64_t offset, int64_t n) {
  return embed__fail(ctx, EMBED_E_ARGUMENT, at, "offset %" PRId64 " at position %" PRId64 " is %s the number of %s, %" PRId64, offset, at, what, members, n);
}

embed_status embed__check_offsets(embed_context *ctx, const int64_t *offsets, int64_t bags, int64_t n, const char *members, const char *groups) {
  int64_t before = 0;
  if (bags == 0) return n == 0 ? EMBED_OK : embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%" PRId64 " %s are given for 0 %s", n, members, groups);
  EMBED__NOT_NULL(ctx, offsets);
  if (offsets[0] != 0) return refuse_offset(ctx, 0, "is not", offsets[0], 0);
  for (int64_t b = 0; b <= bags; ++b) {
    int64_t offset = offsets[b];
    if (offset < before) return refuse_offset(ctx, b, "is below the one before it,", offset, before);
    if (offset > n) return refuse_end(ctx, b, "past", members, offset, n);
    before = offset;
  }
  return before == n ? EMBED_OK : refuse_end(ctx, bags, "the last and not", members, before, n);
}

static embed_status refuse_scale(embed_context *ctx, const char *what) { return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_lookup_options: %s", what); }

embed_status embed__check_scale(embed_context *ctx, const embed_lookup_options *o, float *scale) {
  if (!isfinite(o->scale)) return refuse_scale(ctx, "scale must be finite");
  if (!(o->max_norm >= 0)) return refuse_scale(ctx, "max_norm must not be negative or NaN");
  *scale = o->scale != 0 ? o->scale : 1.0f;
  switch (o->scale_round) {
    case EMBED_F32: break;
    case EMBED_F16: *scale = embed__f32_of_f16(embed__f16_of_f32(*scale)); break;
    case EMBED_BF16: *scale = embed__f32_of_bf16(embed__bf16_of_f32(*scale)); break;
    default: return refuse_scale(ctx, "scale_round must be F32, F16 or BF16");
  }
  return isfinite(*scale) ? EMBED_OK : refuse_scale(ctx, "scale is past the range of scale_round");
}
