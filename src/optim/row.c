/* SPDX-License-Identifier: BSD-3-Clause */
/* A row and its state as floats, and back. 16-bit rows are rounded at random, up with the probability of the rest that is cut
 * off: to nearest, steps below half a unit would be lost for ever, and with beta2 = 0.999 a bf16 moment would never decay. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "core/philox.h"
#include "optim/optim.h"
#include "thread/run.h"

embed_status embed__updating_begin(embed_context *ctx, embed_optimizer *o, embed_table *t, embed__updating *u) {
  float *zeros;
  *u = (embed__updating){.kernels = ctx->kernels, .o = o, .t = t, .in_place = embed__floats_in_place(t), .state_in_place = o->o.state == EMBED_F32};
  EMBED__TRY(embed__scratch_matrix(ctx, (int64_t)embed__workers(ctx) * EMBED__ROWS_OF_SCRATCH, t->dim, sizeof(float), &u->scratch));
  EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof(float), &zeros));
  memset(zeros, 0, (size_t)t->dim * sizeof *zeros);
  u->zeros = zeros;
  return EMBED_OK;
}

static unsigned char *slot_at(const embed_optimizer *o, int64_t row, int slot) { return o->state + row * o->state_bytes + slot * o->slot_bytes; }

void embed__row_open(const embed__updating *u, int32_t worker, int64_t row, embed__trained_row *r) {
  const embed_optimizer *o = u->o;
  const int64_t dim = u->t->dim;
  float *scratch = u->scratch + (int64_t)worker * EMBED__ROWS_OF_SCRATCH * dim;
  unsigned char *stored = u->t->data + row * u->t->row_bytes;
  *r = (embed__trained_row){.row = row, .dim = dim, .w = scratch, .work = scratch + dim, .next = -1, .survey = u->survey};
  if (u->in_place)
    r->w = (float *)(void *)stored;
  else
    u->t->codec->decode(u->kernels, stored, r->w, dim, u->t->group, 1.0f);
  for (int i = 0; i < o->slots; ++i) {
    r->slot[i] = u->state_in_place ? (float *)(void *)slot_at(o, row, i) : scratch + (2 + i) * dim;
    if (!u->state_in_place) u->kernels->row.decode[EMBED__STORED_BF16](slot_at(o, row, i), r->slot[i], dim, 1.0f);
  }
  if (o->scalars) r->scalars = o->scalars + row * o->form->scalars;
}

/* 16 random bits for each of 8 columns from one call: what is rounded (the row, a slot), row, column and step decide them. */
static void random_bits(const embed_optimizer *o, int64_t row, int64_t step, int what, int64_t block, uint32_t words[4]) {
  const uint32_t key[2] = {(uint32_t)o->o.seed, (uint32_t)(o->o.seed >> 32)};
  const uint32_t high = (uint32_t)what | ((uint32_t)((uint64_t)row >> 32) & 0x7FFFu) << 2 | (uint32_t)((uint64_t)step >> 32) << 17;
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)row, (uint32_t)step, high};
  embed__philox(counter, key, words);
}

static void round_bf16(const embed_optimizer *o, const float *in, unsigned char *out, int64_t dim, int64_t row, int64_t step, int what) {
  for (int64_t first = 0; first < dim; first += 8) {
    uint32_t words[4];
    random_bits(o, row, step, what, first / 8, words);
    for (int64_t j = first; j < dim && j < first + 8; ++j) {
      const uint32_t bits = embed__bits_of_f32(in[j]), noise = words[(j - first) / 2] >> 16 * (j & 1) & 0xFFFFu;
      const bool finite = (bits & 0x7F800000u) != 0x7F800000u && ((bits + 0xFFFFu) & 0x7F800000u) != 0x7F800000u;
      const uint16_t half = finite ? (uint16_t)((bits + noise) >> 16) : embed__bf16_of_f32(in[j]);
      memcpy(out + 2 * j, &half, 2);
    }
  }
}

/* The upper neighbour with the probability of x's place between the two, which are whole steps of the type apart. */
static uint16_t random_f16(float x, uint32_t noise) {
  const uint16_t near = embed__f16_of_f32(x);
  const float value = embed__f32_of_f16(near);
  if (!isfinite(x) || value == x) return near;
  uint16_t inner = near & 0x7FFFu;
  if (fabsf(value) > fabsf(x)) --inner;
  const float below = embed__f32_of_f16(inner), above = embed__f32_of_f16((uint16_t)(inner + 1));
  if (!isfinite(above)) return near;
  const bool outer = (double)(fabsf(x) - below) > (double)noise * 0x1p-16 * (double)(above - below);
  return (uint16_t)((near & 0x8000u) | (inner + (outer ? 1u : 0u)));
}

static void round_f16(const embed_optimizer *o, const float *in, unsigned char *out, int64_t dim, int64_t row, int64_t step) {
  for (int64_t first = 0; first < dim; first += 8) {
    uint32_t words[4];
    random_bits(o, row, step, 0, first / 8, words);
    for (int64_t j = first; j < dim && j < first + 8; ++j) {
      const uint16_t half = random_f16(in[j], words[(j - first) / 2] >> 16 * (j & 1) & 0xFFFFu);
      memcpy(out + 2 * j, &half, 2);
    }
  }
}

void embed__row_close(const embed__updating *u, embed__trained_row *r, int64_t step) {
  const embed_optimizer *o = u->o;
  const embed_table *t = u->t;
  const bool nearest = (o->o.flags & EMBED_OPTIM_NEAREST) != 0;
  unsigned char *stored = t->data + r->row * t->row_bytes;
  if (!u->in_place) {
    if (nearest || t->dtype == EMBED_F32)
      (void)t->codec->encode(u->kernels, r->w, stored, r->dim, t->group, NULL);
    else if (t->dtype == EMBED_BF16)
      round_bf16(o, r->w, stored, r->dim, r->row, step, 0);
    else
      round_f16(o, r->w, stored, r->dim, r->row, step);
  }
  for (int i = 0; i < o->slots && !u->state_in_place; ++i) {
    unsigned char *out = slot_at(o, r->row, i);
    if (nearest)
      u->kernels->row.to_bf16(r->slot[i], (uint16_t *)(void *)out, r->dim);
    else
      round_bf16(o, r->slot[i], out, r->dim, r->row, step, 1 + i);
  }
}

void embed__row_prefetch(const embed__updating *u, int64_t row) {
  const embed_optimizer *o = u->o;
  const unsigned char *w = u->t->data + row * u->t->row_bytes;
  for (int64_t at = 0; at < u->t->packed_bytes; at += 64) __builtin_prefetch(w + at, 1, 3);
  for (int64_t at = 0; at < o->state_bytes; at += 64) __builtin_prefetch(o->state + row * o->state_bytes + at, 1, 3);
}

/* torch's renorm: rows longer than max_norm become that long. */
static void cap_norm(const embed__updating *u, embed__trained_row *r) {
  const double norm = sqrt(u->kernels->row.sum_squares(r->w, r->dim));
  if (norm > u->o->o.max_norm) u->kernels->row.scale(r->w, r->dim, (float)(u->o->o.max_norm / (norm + 1e-7)));
}

/* Some columns at a time, those of the next row fetched before: all lines of it at once would wait for the memory, and the memory then for us.
 * Measured (2 threads, SparseAdam, medians of 60 in one process): 4,096 rows of 768 2.4 ms, at once 2.8; 16,384 of 384 6.6, at once 7.1. */
static void update_row(const embed__updating *u, const embed__opt_numbers *n, embed__trained_row *r) {
  enum { COLUMNS = 128 };
  const embed_optimizer *o = u->o;
  if (r->next < 0) {
    o->form->update(u->kernels, &o->o, n, r);
    return;
  }
  const float *next = (const float *)(const void *)(u->t->data + r->next * u->t->row_bytes);
  for (int64_t first = 0; first < r->dim; first += COLUMNS) {
    embed__trained_row part = *r;
    part.dim = embed__min(COLUMNS, r->dim - first);
    part.w += first;
    part.g += first;
    for (int64_t j = 0; j < part.dim; j += 16) __builtin_prefetch(next + first + j, 1, 3);
    for (int i = 0; i < o->slots; ++i) {
      const float *slot = (const float *)(const void *)slot_at(o, r->next, i) + first;
      part.slot[i] += first;
      for (int64_t j = 0; j < part.dim; j += 16) __builtin_prefetch(slot + j, 1, 3);
    }
    o->form->update(u->kernels, &o->o, n, &part);
  }
}

void embed__row_step(const embed__updating *u, embed__trained_row *r, float *room, const float *g, float scale, const embed__opt_numbers *n) {
  const embed_optimizer *o = u->o;
  const float l2 = o->form->l2 ? (float)o->o.weight_decay : 0;
  r->g = g ? g : u->zeros;
  if (l2 != 0 || (g && scale != 1)) {
    u->kernels->opt.gradient(r->g, r->w, room, r->dim, g ? scale : 1, l2);
    r->g = room;
  }
  if (o->form->own_step) {
    embed__opt_numbers own = {0};
    o->form->numbers(&o->o, u->lr, ++o->stamps[r->row], &own);
    update_row(u, &own, r);
  } else {
    update_row(u, n, r);
  }
  if (g && o->o.max_norm > 0) cap_norm(u, r);
}
