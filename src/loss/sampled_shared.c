/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates that all rows share are a small table: its logits and gradients go through the pass of a whole one (pass.h), a chunk of hidden
 * rows at a time. Targets are rows of their own. The gradient's rows are there before the first chunk: nothing fails from then on. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "loss/pass.h"
#include "loss/sampled.h"
#include "scatter/group.h"
#include "scatter/insert.h"
#include "sweep/sweep.h"
#include "thread/run.h"

enum { MEMORY = 56000000 /* bytes of a chunk */, TAKEN = 16 /* lanes of a task of losses */, GATHERED = 64 /* rows of a task */ };

typedef struct shared_job {
  const embed__sampled *s;
  const embed__kernels *kernels;
  embed__pass pass;
  embed__loss loss; /* of the small head: which rows are ignored */
  embed__loss_job b;
  embed_table table; /* [samples, dim] */
  embed_head head;
  float *rows, *bias; /* the candidates', bias NULL without one */
  float *slope;       /* [lanes] the target's, of its product */
  float *dw, *db;     /* of the candidates, [samples, dim] and [samples]; NULL without a gradient */
  int64_t *place;     /* [counted, then samples] rows of the gradient, by position; NULL: they are those of the table */
  int64_t first;      /* counted rows of chunks before */
  float *of_target;   /* [dim] per worker */
  float *decoded;     /* per worker, or NULL */
  int64_t decoded_floats;
} shared_job;

static void gather(void *arg, int64_t task, int32_t worker) {
  const shared_job *job = arg;
  const embed_head *h = job->s->pairs.head;
  const embed_table *t = embed__few_table(h);
  const int64_t end = embed__min(job->s->samples, (task + 1) * GATHERED);
  (void)worker;
  for (int64_t j = task * GATHERED; j < end; ++j) {
    embed__decode_stored(job->kernels, t, job->s->candidates[j], job->rows + j * t->dim, 1.0f);
    if (job->bias) job->bias[j] = h->bias[embed__few_column(h, job->s->candidates[j])];
  }
}

/* Corrected logits of some candidates; hits are -inf. */
static void multiply(void *arg, int64_t task, int32_t worker) {
  const shared_job *job = arg;
  const embed__sampled *s = job->s;
  const embed__pass *p = &job->pass;
  const int64_t first = task * p->together, count = embed__min(p->together, p->vocab - first);
  float *z = p->z + first * p->lanes;
  embed__pass_multiply(p, first, count, z, worker);
  for (int64_t r = 0; r < count; ++r) {
    const int32_t candidate = s->candidates[first + r];
    for (int64_t i = 0; s->expected && i < p->lanes; ++i) z[r * p->lanes + i] -= s->expected[first + r];
    for (int64_t i = 0; !s->keep_hits && i < p->rows; ++i)
      if (p->lane[i].target == candidate) z[r * p->lanes + i] = -INFINITY;
  }
}

/* The target's logit; its row stays in of_target. */
static float target_logit(const shared_job *job, const embed__lane *lane, int32_t worker) {
  const embed__pairs *p = &job->s->pairs;
  const int64_t dim = job->pass.dim;
  float *x = job->of_target + worker * dim;
  embed__load_row(job->kernels, p->x + lane->at * p->ldx * embed__float_bytes(p->x_dtype), p->x_dtype, x, dim);
  return embed__few_logit(job->kernels, p->head, lane->target, x, job->decoded ? job->decoded + worker * job->decoded_floats : NULL);
}

/* What a lane's slopes are multiplied by on their way to the product, but for the soft-cap. */
static double factor_of(const shared_job *job, int64_t at) {
  const embed__pairs *p = &job->s->pairs;
  return (double)p->head->scale * (p->upstream ? (double)p->upstream[at] : p->each);
}

static double of_cap(const shared_job *job, double logit) {
  const double cap = (double)job->s->pairs.head->softcap;
  return cap > 0 ? 1 - logit / cap * (logit / cap) : 1;
}

typedef struct taken {
  float z[TAKEN];  /* the targets' logits, as finished */
  double u[TAKEN]; /* corrected */
  double loss[TAKEN];
  double slope[TAKEN]; /* by u */
  double factor[TAKEN];
} taken;

/* Lanes [0, lanes) from z on, `count` of them rows: losses, and z becomes slopes of products where there are gradients. */
static void take_softmax(const shared_job *job, float *z, int64_t count, int64_t lanes, taken *k) {
  const embed__softmax_kernels *soft = &job->kernels->softmax;
  const int64_t samples = job->s->samples, ld = job->pass.lanes;
  float most[TAKEN], factor[TAKEN] = {0}, zeros[TAKEN] = {0};
  double others[TAKEN];
  for (int64_t i = 0; i < lanes; ++i) most[i] = i < count ? (float)k->u[i] : 0;
  soft->max(z, ld, samples, lanes, most);
  soft->sum_exp(z, ld, samples, lanes, most, others);
  for (int64_t i = 0; i < count; ++i) {
    const double target = exp(k->u[i] - (double)most[i]), all = target + others[i];
    k->loss[i] = others[i] < target ? log1p(others[i] / target) : (double)most[i] + log(all) - k->u[i];
    k->slope[i] = -(others[i] / all);
    factor[i] = (float)(k->factor[i] / all);
  }
  if (!job->pass.back) return;
  for (int64_t r = 0; r < samples; ++r) {
    float *row = z + r * ld, logit[TAKEN];
    memcpy(logit, row, (size_t)lanes * sizeof *logit);
    soft->gradient(row, ld, 1, lanes, most, factor, zeros, NULL);
    for (int64_t i = 0; job->head.softcap > 0 && i < count; ++i)
      row[i] = row[i] == 0 ? 0 : row[i] * (float)of_cap(job, (double)logit[i] + (job->s->expected ? (double)job->s->expected[r] : 0));
  }
}

static void take_logistic(const shared_job *job, float *z, int64_t count, taken *k) {
  const int64_t ld = job->pass.lanes;
  for (int64_t i = 0; i < count; ++i) {
    k->loss[i] = embed__softplus(-k->u[i]);
    k->slope[i] = -embed__sigmoid(-k->u[i]);
  }
  for (int64_t r = 0; r < job->s->samples; ++r) {
    float *row = z + r * ld;
    for (int64_t i = 0; i < count; ++i) {
      const double u = (double)row[i], slope = embed__sigmoid(u);
      k->loss[i] += embed__softplus(u);
      if (job->pass.back) row[i] = slope == 0 ? 0 : (float)(slope * k->factor[i] * of_cap(job, u + (job->s->expected ? (double)job->s->expected[r] : 0)));
    }
  }
}

static void take(void *arg, int64_t task, int32_t worker) {
  shared_job *job = arg;
  const embed__sampled *s = job->s;
  const embed__pass *p = &job->pass;
  const int64_t first = task * TAKEN, count = embed__min(TAKEN, p->rows - first), lanes = embed__min(TAKEN, p->lanes - first);
  taken k = {0};
  for (int64_t i = 0; i < count; ++i) {
    const embed__lane *lane = &p->lane[first + i];
    k.z[i] = target_logit(job, lane, worker);
    k.u[i] = (double)k.z[i] - (s->target_expected ? (double)s->target_expected[lane->at] : 0);
    k.factor[i] = factor_of(job, lane->at);
  }
  if (s->kind == EMBED_SAMPLED_SOFTMAX)
    take_softmax(job, p->z + first, count, lanes, &k);
  else
    take_logistic(job, p->z + first, count, &k);
  for (int64_t i = 0; i < count; ++i) {
    if (s->pairs.losses) s->pairs.losses[p->lane[first + i].at] = (float)k.loss[i];
    job->slope[first + i] = (float)(k.slope[i] * k.factor[i] * of_cap(job, (double)k.z[i]));
  }
}

static void candidate_gradients(void *arg, int64_t segment, int32_t worker) {
  const shared_job *job = arg;
  const embed__pass *p = &job->pass;
  const int64_t begin = p->vocab * segment / p->segments, end = p->vocab * (segment + 1) / p->segments;
  float *partial = p->partial ? p->partial + segment * p->rows * p->dim : NULL;
  for (int64_t first = begin, count; first < end; first += count) {
    count = embed__min(p->together, end - first);
    embed__pass_add(p, p->z + first * p->lanes, first, count, partial, first > begin, worker);
  }
}

static float *gradient_row(const shared_job *job, int64_t position, int32_t id) {
  return embed__grad_row(job->s->pairs.grad, job->place ? job->place[position] : id);
}

/* 32 columns of the targets' rows, hidden row by hidden row. */
static void target_gradients(void *arg, int64_t strip, int32_t worker) {
  const shared_job *job = arg;
  const embed__pass *p = &job->pass;
  const int64_t column = strip * EMBED__STRIP, columns = embed__min(EMBED__STRIP, p->dim - column);
  const float *x = embed__in_words(p) ? embed__words_columns(p, strip, worker) : p->by_column + column * p->rows;
  for (int64_t i = 0; i < p->rows; ++i)
    job->kernels->row.add_scaled(gradient_row(job, job->first + i, p->lane[i].target) + column, x + i * EMBED__STRIP, columns, job->slope[i]);
}

static void add_candidates(void *arg, int64_t strip, int32_t worker) {
  const shared_job *job = arg;
  const embed__sampled *s = job->s;
  const int64_t column = strip * EMBED__STRIP, columns = embed__min(EMBED__STRIP, job->pass.dim - column);
  (void)worker;
  for (int64_t j = 0; j < s->samples; ++j)
    job->kernels->row.add(gradient_row(job, s->few.counted + j, s->candidates[j]) + column, job->dw + j * job->pass.dim + column, columns);
}

static void hidden_row(void *arg, int64_t row, int32_t worker) {
  const shared_job *job = arg;
  const embed__pass *p = &job->pass;
  const embed__pairs *of = &job->s->pairs;
  const embed_table *t = embed__few_table(of->head);
  float *sum = p->partial + row * p->dim, *w = job->of_target + worker * p->dim;
  for (int64_t s = 1; s < p->segments; ++s) job->kernels->row.add(sum, p->partial + (s * p->rows + row) * p->dim, p->dim);
  embed__decode_stored(job->kernels, t, p->lane[row].target, w, 1.0f);
  job->kernels->row.add_scaled(sum, w, p->dim, job->slope[row]);
  embed__store_row(job->kernels, sum, of->dx + p->lane[row].at * of->lddx * embed__float_bytes(of->dx_dtype), of->dx_dtype, p->dim);
}

/* The small head, and a pass over it. */
static embed_status prepare(embed_context *ctx, shared_job *job) {
  const embed__sampled *s = job->s;
  const embed_head *h = s->pairs.head;
  const int64_t dim = h->table->dim, workers = embed__workers(ctx);
  EMBED__TRY(embed__scratch_matrix(ctx, s->samples, dim, sizeof *job->rows, &job->rows));
  if (h->bias) EMBED__TRY(embed__scratch_get(ctx, s->samples, sizeof *job->bias, &job->bias));
  EMBED__TRY(embed__run(ctx, embed__ceil_div(s->samples, GATHERED), gather, job));
  job->table.data = (unsigned char *)job->rows;
  job->table.rows = job->table.vocab = s->samples;
  job->table.dim = dim;
  job->table.row_bytes = job->table.packed_bytes = dim * (int64_t)sizeof(float);
  job->table.dtype = EMBED_F32;
  job->table.codec = embed__codec_find(EMBED_F32);
  job->head.table = &job->table;
  job->head.bias = job->bias;
  job->head.scale = h->scale;
  job->head.softcap = h->softcap;
  job->loss = (embed__loss){.vocab = s->samples, .ignore = s->few.ignore};
  job->b = (embed__loss_job){.head = &job->head, .loss = &job->loss, .x = s->pairs.x, .x_dtype = s->pairs.x_dtype, .n = s->pairs.n, .ldx = s->pairs.ldx};
  job->b.targets = s->targets;
  job->b.counted = s->few.counted;
  job->b.losses = s->pairs.losses;
  job->b.dx = s->pairs.dx;
  job->b.dx_dtype = s->pairs.dx_dtype;
  job->b.lddx = s->pairs.lddx;
  if (s->pairs.grad) {
    EMBED__TRY(embed__scratch_matrix(ctx, s->samples, dim, sizeof *job->dw, &job->dw));
    if (h->bias) EMBED__TRY(embed__scratch_get(ctx, s->samples, sizeof *job->db, &job->db));
    memset(job->dw, 0, (size_t)(s->samples * dim) * sizeof *job->dw);
    if (job->db) memset(job->db, 0, (size_t)s->samples * sizeof *job->db);
    job->b.dw = job->dw;
    job->b.lddw = dim;
    job->b.db = job->db;
  }
  embed__pass *p = &job->pass;
  *p = embed__pass_of(ctx, &job->b);
  p->forward = false; /* no log-sum-exp by blocks */
  p->stored = s->samples;
  embed__pass_set_lanes(p, embed__min(EMBED__MOST_LANES, embed__max(1, MEMORY / (embed__pass_lane_bytes(p) + s->samples * (int64_t)sizeof(float)))));
  EMBED__TRY(embed__pass_scratch(ctx, p));
  EMBED__TRY(embed__scratch_get(ctx, p->lanes, sizeof *job->slope, &job->slope));
  EMBED__TRY(embed__scratch_matrix(ctx, workers, dim, sizeof *job->of_target, &job->of_target));
  job->decoded_floats = embed__decoded_floats(h->table);
  return job->decoded_floats ? embed__scratch_matrix(ctx, workers, job->decoded_floats, sizeof *job->decoded, &job->decoded) : EMBED_OK;
}

/* Rows of a sparse gradient for all that will be added. */
static embed_status insert_rows(embed_context *ctx, shared_job *job) {
  const embed__sampled *s = job->s;
  embed_grad *g = s->pairs.grad;
  embed__groups groups;
  int64_t all, next = 0, *place;
  int32_t *ids;
  if (!embed__add(s->few.counted, s->samples, &all)) return embed__out_of_memory(ctx, -1);
  EMBED__TRY(embed__scratch_get(ctx, all, sizeof *ids, &ids));
  for (int64_t i = 0; i < s->pairs.n; ++i)
    if (s->targets[i] != s->few.ignore) ids[next++] = s->targets[i];
  memcpy(ids + next, s->candidates, (size_t)s->samples * sizeof *ids);
  const embed__ids list = {.at = ids, .n = all};
  const embed__id_policy policy = {.vocab = embed__head_ids(s->pairs.head), .oov = EMBED_OOV_ERROR};
  EMBED__TRY(embed__group(ctx, &list, &policy, &groups));
  EMBED__TRY(embed__scratch_get(ctx, groups.count, sizeof *place, &place));
  EMBED__TRY(embed__scratch_get(ctx, all, sizeof *job->place, &job->place));
  EMBED__TRY(embed__grad_insert(ctx, g, groups.rows, groups.count, place));
  for (int64_t r = 0; r < groups.count; ++r) {
    const int64_t at = place[r] < 0 ? ~place[r] : place[r];
    if (place[r] < 0) memset(embed__grad_row(g, at), 0, (size_t)g->dim * sizeof(float));
    for (int64_t e = groups.begin[r]; e < groups.begin[r + 1]; ++e) job->place[groups.positions[e]] = at;
  }
  return EMBED_OK;
}

static embed_status open_gradient(embed_context *ctx, shared_job *job) {
  embed_grad *g = job->s->pairs.grad;
  const int64_t vocab = embed__head_ids(job->s->pairs.head);
  float *bias = g->bias;
  if (job->bias) EMBED__TRY(embed__grad_make_bias(ctx, g, vocab, &bias));
  const embed_status status = g->dense ? EMBED_OK : insert_rows(ctx, job);
  return job->bias ? embed__grad_take_bias(g, vocab, bias, status) : status;
}

static embed_status run_chunk(embed_context *ctx, shared_job *job, int64_t done, int64_t total) {
  embed__pass *p = &job->pass;
  const embed__pairs *of = &job->s->pairs;
  const int64_t blocks = embed__ceil_div(p->vocab, p->together), strips = embed__strips(p->dim);
  EMBED__TRY(embed__run(ctx, embed__ceil_div(p->lanes, EMBED__STRIP), embed__pass_pack, p));
  EMBED__TRY(embed__run_long(ctx, blocks, multiply, job, done, total));
  EMBED__TRY(embed__run(ctx, embed__ceil_div(p->rows, TAKEN), take, job));
  if (!p->back) return EMBED_OK;
  EMBED__TRY(embed__run_long(ctx, p->segments, candidate_gradients, job, done + blocks, total));
  if (of->grad) EMBED__TRY(embed__run(ctx, strips, target_gradients, job));
  for (int64_t i = 0; job->db && i < p->rows; ++i) of->grad->bias[p->lane[i].target] += job->slope[i];
  return of->dx ? embed__run(ctx, p->rows, hidden_row, job) : EMBED_OK;
}

embed_status embed__sampled_shared(embed_context *ctx, const embed__sampled *s) {
  shared_job job = {.s = s, .kernels = ctx->kernels};
  embed__pass *p = &job.pass;
  int64_t next = 0;
  EMBED__TRY(prepare(ctx, &job));
  if (s->pairs.grad) EMBED__TRY(open_gradient(ctx, &job));
  const int64_t steps = embed__ceil_div(p->vocab, p->together) + (p->back ? p->segments : 0);
  for (; job.first < s->few.counted; job.first += p->rows) {
    next = embed__pass_choose(p, next);
    EMBED__TRY(run_chunk(ctx, &job, job.first / p->chunk * steps, embed__ceil_div(s->few.counted, p->chunk) * steps));
  }
  if (s->pairs.grad) EMBED__TRY(embed__run(ctx, embed__strips(p->dim), add_candidates, &job));
  for (int64_t j = 0; job.db && j < s->samples; ++j) s->pairs.grad->bias[s->candidates[j]] += job.db[j];
  embed__pass_ignored(p);
  return EMBED_OK;
}
