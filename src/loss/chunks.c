/* SPDX-License-Identifier: BSD-3-Clause */
/* How loss and gradients are cut into chunks, and what they take of memory. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/pages.h"
#include "loss/pass.h"
#include "sweep/sweep.h"
#include "thread/run.h"

enum {
  MEMORY = 60600000,         /* bytes of a chunk all of whose logits are kept: with what workers have, below 64 MB */
  MEMORY_OF_PART = 57000000, /* and where some are made again, for which workers have more */
  VECTOR = 16,               /* lanes are rounded up to it */
  FEW_LANES = 128,           /* with fewer the table is read so often that it is cheaper to make some logits twice */
  TOGETHER = 240,            /* table rows multiplied at once: a multiple of every level's tiles, .. */
  TOGETHER_BYTES = 1 << 20,  /* .. that stay in L2 as floats .. */
  LIMBS_TOGETHER = 192,      /* .. in limbs, with more beside them .. */
  LIMBS_FORWARD = 96,        /* .. where no gradients follow (3 to 5 % faster; with gradients even, at some widths slower) .. */
  FEW_TOGETHER = 24,         /* .. but not fewer */
  FEW_SEGMENTS = 8,          /* tasks of the gradients, .. */
  MOST_SEGMENTS = 16,        /* .. as long as their sums are small beside the logits */
  SEGMENT_SHARE = 16,
  LIMBS_ROWS = 32, /* from which on taking floats apart for tiles pays, .. */
  LIMBS_DIM = 64,  /* .. of that many columns */
};

static bool is_ignored(const embed__loss_job *b, int64_t at) { return b->targets && b->targets[at] == b->loss->ignore; }

/* Rows that have a lane: those counted, and where their log-sum-exp is asked for the ignored ones too. */
static int64_t rows_of(const embed__loss_job *b) { return b->found ? b->n : b->counted; }

static int64_t round_up(int64_t n, int64_t to) { return embed__ceil_div(n, to) * to; }

/* Bytes of a lane that do not grow with the vocabulary's stored logits. */
int64_t embed__pass_lane_bytes(const embed__pass *p) {
  const int64_t forms = p->operands == EMBED__BY_LIMBS ? 3 : 2; /* of hidden rows: by row and by column, limbs half as large again */
  int64_t numbers = (p->b->dx ? p->segments * p->dim : 0) + forms * round_up(p->dim, EMBED__STRIP) + 3;
  return numbers * (int64_t)sizeof(float) + p->blocks * (int64_t)(sizeof(float) + 2 * sizeof(double)) + (int64_t)sizeof(embed__lane);
}

/* Whether limbs hold all numbers of the hidden rows; ignored ones are not read, but for their log-sum-exp. */
static bool limbs_hold_hidden(const embed_context *ctx, const embed__loss_job *b) {
  for (int64_t i = 0; i < b->n; ++i) {
    if (!b->found && is_ignored(b, i)) continue;
    if (!embed__limbs_hold_rows(ctx->kernels, b->x, b->x_dtype, &i, 1, b->ldx, b->head->table->dim)) return false;
  }
  return true;
}

static embed__operands operands_of(const embed_context *ctx, const embed__loss_job *b) {
  const embed__gemm_kernels *k = &ctx->kernels->gemm;
  if (b->loss->bf16) return k->has_pairs && embed__pair_products_pay(ctx) ? EMBED__BY_WORDS : EMBED__BY_ROUNDED;
  const bool limbs = k->limbs_by_rows && !(ctx->flags & EMBED_CONTEXT_REPRODUCIBLE) && b->counted >= LIMBS_ROWS && b->head->table->dim >= LIMBS_DIM;
  return limbs && limbs_hold_hidden(ctx, b) ? EMBED__BY_LIMBS : EMBED__BY_FLOATS;
}

embed__pass embed__pass_of(const embed_context *ctx, const embed__loss_job *b) {
  const embed_table *t = b->head->table;
  const int64_t floats_together = TOGETHER_BYTES / (int64_t)sizeof(float), segments = t->vocab / (SEGMENT_SHARE * t->dim);
  const embed__operands operands = operands_of(ctx, b);
  const bool back = b->dx || b->dw || b->grad || b->db;
  const int64_t together = operands != EMBED__BY_LIMBS ? TOGETHER : back ? LIMBS_TOGETHER : LIMBS_FORWARD;
  return (embed__pass){.b = b,
                       .kernels = ctx->kernels,
                       .table = t,
                       .vocab = t->vocab,
                       .dim = t->dim,
                       .blocks = embed__ceil_div(t->vocab, EMBED__BLOCK),
                       .forward = !b->logsumexp,
                       .back = back,
                       .together = embed__max(FEW_TOGETHER, embed__min(together, floats_together / t->dim / FEW_TOGETHER * FEW_TOGETHER)),
                       .segments = embed__min(embed__max(FEW_SEGMENTS, embed__min(MOST_SEGMENTS, segments)), t->vocab),
                       .operands = operands,
                       .floats = embed__floats_in_place(t),
                       .decoded_ld = t->dim + VECTOR, /* rows of 4 KiB would share few sets of L1 */
                       .times = 1};
}

void embed__pass_set_lanes(embed__pass *p, int64_t most) {
  if (most > VECTOR) most = most / VECTOR * VECTOR;
  p->chunk = embed__ceil_div(rows_of(p->b), embed__ceil_div(rows_of(p->b), most));
  p->lanes = round_up(p->chunk, VECTOR);
}

/* Depends on the number of rows, vocab and dim alone. */
static void plan(embed__pass *p) {
  int64_t fixed = embed__pass_lane_bytes(p), of_logits = p->vocab * (int64_t)sizeof(float);
  int64_t most = embed__min(EMBED__MOST_LANES, embed__max(1, MEMORY / 2 / fixed));
  if (p->forward && p->back) most = embed__min(most, embed__max(FEW_LANES, MEMORY / (fixed + of_logits)));
  embed__pass_set_lanes(p, most);
  if (p->forward && p->back) {
    int64_t room = embed__max(0, MEMORY - fixed * p->lanes) / (p->lanes * (int64_t)sizeof(float));
    if (room < p->vocab) room = embed__max(0, MEMORY_OF_PART - fixed * p->lanes) / (p->lanes * (int64_t)sizeof(float)) / EMBED__BLOCK * EMBED__BLOCK;
    p->stored = embed__min(room, p->vocab);
  }
}

/* A column of logits has a page of 4 KiB for every few of its numbers. */
static void want_huge_pages(void *memory, size_t bytes) {
  const size_t skipped = (size_t)(-(uintptr_t)memory % EMBED__HUGE_PAGE);
  if (bytes > skipped) embed__want_huge_pages((unsigned char *)memory + skipped, bytes - skipped);
}

/* One chunk alone is one sum. */
static embed_status take_carries(embed_context *ctx, embed__pass *p) {
  const embed__loss_job *b = p->b;
  if ((!b->dw && !b->grad) || rows_of(b) <= p->chunk) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, p->vocab, p->dim, sizeof(float), &p->carry));
  want_huge_pages(p->carry, (size_t)(p->vocab * p->dim) * sizeof(float));
  memset(p->carry, 0, (size_t)(p->vocab * p->dim) * sizeof(float));
  if (!b->head->bias) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, p->vocab, sizeof(float), &p->carry_bias));
  memset(p->carry_bias, 0, (size_t)p->vocab * sizeof(float));
  return EMBED_OK;
}

/* Hidden rows as floats. */
static embed_status take_hidden(embed_context *ctx, embed__pass *p) {
  EMBED__TRY(embed__scratch_matrix(ctx, round_up(p->lanes, EMBED__STRIP), p->dim, sizeof(float), &p->by_row));
  return p->back ? embed__scratch_matrix(ctx, p->chunk, round_up(p->dim, EMBED__STRIP), sizeof(float), &p->by_column) : EMBED_OK;
}

/* What the products read. */
static embed_status take_operands(embed_context *ctx, embed__pass *p) {
  p->room_floats = p->operands == EMBED__BY_WORDS ? 0 : p->together * (p->decoded_ld + round_up(p->dim, EMBED__STRIP));
  EMBED__TRY(embed__in_words(p) ? embed__words_scratch(ctx, p) : take_hidden(ctx, p));
  return embed__scratch_matrix(ctx, embed__workers(ctx), p->room_floats, sizeof *p->room, &p->room);
}

embed_status embed__pass_scratch(embed_context *ctx, embed__pass *p) {
  const int64_t workers = embed__workers(ctx), states = p->blocks * p->lanes;
  EMBED__TRY(embed__scratch_get(ctx, p->chunk, sizeof *p->lane, &p->lane));
  EMBED__TRY(take_operands(ctx, p));
  EMBED__TRY(embed__scratch_get(ctx, p->lanes, sizeof(float), &p->shift));
  EMBED__TRY(embed__scratch_get(ctx, p->lanes, sizeof(float), &p->factor));
  EMBED__TRY(embed__scratch_get(ctx, p->lanes, sizeof(float), &p->minus));
  if (p->stored) EMBED__TRY(embed__scratch_matrix(ctx, p->stored, p->lanes, sizeof(float), &p->z));
  if (p->stored) want_huge_pages(p->z, (size_t)(p->stored * p->lanes) * sizeof(float));
  if (p->stored < p->vocab) EMBED__TRY(embed__scratch_matrix(ctx, workers * EMBED__BLOCK, p->lanes, sizeof(float), &p->made));
  if (p->b->loss->filter > 0) EMBED__TRY(embed__scratch_get(ctx, p->lanes, sizeof(float), &p->limit));
  if (p->b->loss->kahan) EMBED__TRY(take_carries(ctx, p));
  if ((p->b->grad && embed__head_map(p->b->head)) || p->carry) EMBED__TRY(embed__scratch_matrix(ctx, workers * p->together, p->dim, sizeof(float), &p->apart));
  if (p->b->dx) EMBED__TRY(embed__scratch_matrix(ctx, p->segments * p->chunk, p->dim, sizeof(float), &p->partial));
  if (!p->forward) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, states, sizeof *p->max, &p->max));
  EMBED__TRY(embed__scratch_get(ctx, states, sizeof *p->sum, &p->sum));
  EMBED__TRY(embed__scratch_matrix(ctx, workers, p->blocks, sizeof *p->states, &p->states));
  return embed__is_smooth(p->b->loss) ? embed__scratch_get(ctx, states, sizeof *p->weighted, &p->weighted) : EMBED_OK;
}

int64_t embed__pass_choose(embed__pass *p, int64_t next) {
  const embed__loss_job *b = p->b;
  p->rows = 0;
  for (; next < b->n && p->rows < p->chunk; ++next)
    if (b->found || !is_ignored(b, next)) p->lane[p->rows++] = (embed__lane){.at = next, .target = b->targets && !is_ignored(b, next) ? b->targets[next] : -1};
  return next;
}

/* done, total: in blocks and segments. */
static embed_status run_chunk(embed_context *ctx, embed__pass *p, int64_t done, int64_t total) {
  EMBED__TRY(embed__run(ctx, embed__ceil_div(p->lanes, EMBED__STRIP), embed__pass_pack, p));
  if (p->forward) EMBED__TRY(embed__run_long(ctx, p->blocks, embed__pass_logits, p, done, total));
  for (int64_t i = p->rows; i < p->lanes; ++i) p->shift[i] = p->factor[i] = p->minus[i] = 0;
  EMBED__TRY(embed__run(ctx, p->rows, embed__pass_slope, p));
  if (!p->back) return EMBED_OK;
  EMBED__TRY(embed__run_long(ctx, p->segments, embed__pass_gradients, p, done + (p->forward ? p->blocks : 0), total));
  return p->b->dx ? embed__run(ctx, p->rows, embed__pass_hidden, p) : EMBED_OK;
}

void embed__pass_ignored(const embed__pass *p) {
  const embed__loss_job *b = p->b;
  const int64_t bytes = embed__float_bytes(b->dx_dtype);
  for (int64_t i = 0; i < b->n; ++i) {
    const bool ignored = is_ignored(b, i);
    if (ignored && b->losses) b->losses[i] = 0;
    if (ignored && b->found && b->loss->vocab == 0) b->found[i] = -INFINITY;
    if ((ignored || b->loss->vocab == 0) && b->dx) memset(b->dx + i * b->lddx * bytes, 0, (size_t)(p->dim * bytes));
  }
}

embed_status embed__loss_open(embed_context *ctx, embed__loss_job *b) {
  const embed_table *t = b->head->table;
  const embed__id_map *map = embed__head_map(b->head);
  EMBED__TRY(embed__grad_open(ctx, b->grad, embed__head_ids(b->head), t->dim, b->head->bias != NULL));
  b->rows = map ? map->ids : NULL;
  b->dw = b->grad->values;
  b->lddw = b->grad->ld;
  b->db = b->head->bias ? b->grad->bias : NULL;
  return EMBED_OK;
}

embed_status embed__loss_run(embed_context *ctx, embed__loss_job *b) {
  embed__pass p = embed__pass_of(ctx, b);
  if (rows_of(b) > 0 && p.vocab > 0) {
    plan(&p);
    EMBED__TRY(embed__pass_scratch(ctx, &p));
  }
  if (b->grad) EMBED__TRY(embed__loss_open(ctx, b));
  int64_t next = 0, steps = (p.forward ? p.blocks : 0) + (p.back ? p.segments : 0);
  for (int64_t done = 0; done < rows_of(b) && p.vocab > 0; done += p.rows) {
    next = embed__pass_choose(&p, next);
    EMBED__TRY(run_chunk(ctx, &p, done / p.chunk * steps, embed__ceil_div(rows_of(b), p.chunk) * steps));
  }
  embed__pass_ignored(&p);
  return EMBED_OK;
}
