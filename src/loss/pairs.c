/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of a hidden row and a row of the table. Logits and slopes first, hidden row by hidden row; then the table's gradient, which may
 * fail; then what is written. */
#include "loss/pairs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "scatter/insert.h"
#include "sweep/sweep.h"
#include "thread/run.h"

enum { TASK_PRODUCTS = 64 << 10 /* of numbers */ };

double embed__softplus(double z) { return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)); }

double embed__sigmoid(double z) {
  if (z >= 0) return 1 / (1 + exp(-z));
  const double e = exp(z);
  return e / (1 + e);
}

embed_status embed__few_whole(embed_context *ctx, const embed_head *h) {
  return h->base ? embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "the rows of this head are a subset's, not the nodes of a tree: it must be a whole head")
                 : EMBED_OK;
}

float embed__few_logit(const embed__kernels *k, const embed_head *h, int32_t id, const float *x, float *decoded) {
  const embed_table *t = embed__few_table(h);
  float z;
  embed__product(k, t, id, 1, x, t->dim, 1, decoded, &z, 1);
  embed__finish_logits(h, &z, 1, 1, embed__few_column(h, id), 1);
  return z;
}

static embed_status check_in_subset(embed_context *ctx, const embed_head *h, const int32_t *targets, int64_t n, int32_t ignore) {
  for (int64_t i = 0; h->base && targets && i < n; ++i)
    if (targets[i] != ignore && embed__column_of(&h->map, targets[i]) < 0)
      return embed__fail(ctx, EMBED_E_ID, i, "target %d at position %" PRId64 " is not among the %" PRId64 " ids of this subset", targets[i], i, h->map.count);
  return EMBED_OK;
}

embed_status embed__few_begin(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                              const int32_t *targets, const float *d_loss, float *loss, void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden,
                              embed_grad *g, embed__few *few, embed__pairs *p) {
  embed_sweep_options none;
  embed__sweep s;
  double weights;
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, NULL, &none, &s));
  if (few->reduction < EMBED_REDUCE_MEAN || few->reduction > EMBED_REDUCE_ROWS)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_reduction", few->reduction);
  *p = (embed__pairs){.head = h, .x = s.x, .x_dtype = hidden_dtype, .n = n, .ldx = s.ldx, .upstream = d_loss, .losses = loss, .grad = g};
  if (d_hidden) EMBED__TRY(embed__check_buffer(ctx, "d_hidden", d_hidden, d_hidden_dtype, n, h->table->dim, ld_d_hidden, &p->lddx));
  p->dx = d_hidden;
  p->dx_dtype = d_hidden_dtype;
  const embed__loss l = {.vocab = few->classes, .ignore = few->ignore};
  EMBED__TRY(check_in_subset(ctx, h, targets, n, few->ignore));
  EMBED__TRY(embed__loss_targets(ctx, &l, targets, n, &few->counted, &weights));
  if (g) EMBED__TRY(embed__grad_check(ctx, g, embed__head_ids(h), h->table->dim));
  p->each = few->reduction != EMBED_REDUCE_MEAN ? 1 : few->counted > 0 ? 1 / (double)few->counted : 0;
  return EMBED_OK;
}

typedef struct pairs_job {
  const embed__pairs *p;
  const embed__kernels *kernels;
  const embed_table *table;
  int64_t dim, grain; /* hidden rows of a task */
  float *z;           /* [pairs] logits, then the slopes of the products */
  float *losses;      /* [n] */
  /* Per worker. */
  float *rows;    /* [2, dim]: a hidden row; a row of the table */
  float *decoded; /* what products of stored rows need, or NULL */
  int64_t decoded_floats;
  double *slope; /* [longest] */
  int64_t longest;
} pairs_job;

/* Slopes of the products: through soft-cap and scale, times upstream. */
static void keep_slopes(const pairs_job *job, int64_t row, float *z, int64_t count, const double *slope) {
  const embed__pairs *p = job->p;
  const double cap = (double)p->head->softcap, by = (double)p->head->scale * (p->upstream ? (double)p->upstream[row] : p->each);
  for (int64_t j = 0; j < count; ++j) {
    const double of_cap = cap > 0 ? (double)z[j] / cap : 0;
    z[j] = (float)(slope[j] * by * (1 - of_cap * of_cap));
  }
}

static void take_row(const pairs_job *job, int64_t row, int32_t worker) {
  const embed__pairs *p = job->p;
  const int64_t first = p->begin[row], count = p->begin[row + 1] - first;
  float *x = job->rows + worker * 2 * job->dim, *decoded = job->decoded ? job->decoded + worker * job->decoded_floats : NULL, *z = job->z + first;
  double *slope = job->slope + worker * job->longest;
  job->losses[row] = 0;
  if (count == 0) return;
  embed__load_row(job->kernels, p->x + row * p->ldx * embed__float_bytes(p->x_dtype), p->x_dtype, x, job->dim);
  for (int64_t j = 0; j < count; ++j) z[j] = embed__few_logit(job->kernels, p->head, p->ids[first + j], x, decoded);
  job->losses[row] = (float)p->loss(p->what, row, first, z, count, slope);
  keep_slopes(job, row, z, count, slope);
}

static void take_rows(void *arg, int64_t task, int32_t worker) {
  const pairs_job *job = arg;
  const int64_t end = embed__min(job->p->n, (task + 1) * job->grain);
  for (int64_t row = task * job->grain; row < end; ++row) take_row(job, row, worker);
}

static void hidden_rows(void *arg, int64_t task, int32_t worker) {
  const pairs_job *job = arg;
  const embed__pairs *p = job->p;
  const embed_table *t = job->table;
  const int64_t end = embed__min(p->n, (task + 1) * job->grain), row_bytes = p->lddx * embed__float_bytes(p->dx_dtype);
  float *sum = job->rows + worker * 2 * job->dim, *w = sum + job->dim;
  for (int64_t row = task * job->grain; row < end; ++row) {
    memset(sum, 0, (size_t)job->dim * sizeof *sum);
    for (int64_t j = p->begin[row]; j < p->begin[row + 1]; ++j) {
      embed__decode_stored(job->kernels, t, p->ids[j], w, 1.0f);
      job->kernels->row.add_scaled(sum, w, job->dim, job->z[j]);
    }
    embed__store_row(job->kernels, sum, p->dx + row * row_bytes, p->dx_dtype, job->dim);
  }
}

static embed_status add_gradient(embed_context *ctx, const pairs_job *job) {
  const embed__pairs *p = job->p;
  const int64_t pairs = p->begin[p->n], vocab = job->table->vocab;
  int64_t *source;
  float *bias = p->grad->bias;
  EMBED__TRY(embed__scratch_get(ctx, pairs, sizeof *source, &source));
  for (int64_t i = 0; i < p->n; ++i)
    for (int64_t j = p->begin[i]; j < p->begin[i + 1]; ++j) source[j] = i;
  const embed__ids ids = {.at = p->ids, .n = pairs};
  const embed__id_policy policy = {.vocab = vocab, .oov = EMBED_OOV_ERROR};
  embed__upstream up = {.at = p->x, .row_bytes = p->ldx * embed__float_bytes(p->x_dtype), .dtype = p->x_dtype, .dim = job->dim, .scale = 1.0f};
  up.source = source;
  up.weights = job->z;
  if (p->head->bias) EMBED__TRY(embed__grad_make_bias(ctx, p->grad, vocab, &bias));
  embed_status status = embed__scatter(ctx, p->grad, &ids, &policy, &up);
  if (p->head->bias) status = embed__grad_take_bias(p->grad, vocab, bias, status);
  EMBED__TRY(status);
  for (int64_t j = 0; p->head->bias && j < pairs; ++j) bias[p->ids[j]] += job->z[j];
  return EMBED_OK;
}

embed_status embed__pairs_run(embed_context *ctx, const embed__pairs *p) {
  const embed_table *t = embed__few_table(p->head);
  const int64_t workers = embed__workers(ctx), pairs = p->begin[p->n];
  pairs_job job = {.p = p, .kernels = ctx->kernels, .table = t, .dim = t->dim, .decoded_floats = embed__decoded_floats(t), .longest = 1};
  for (int64_t i = 0; i < p->n; ++i) job.longest = embed__max(job.longest, p->begin[i + 1] - p->begin[i]);
  job.grain = embed__max(1, TASK_PRODUCTS / t->dim / embed__max(1, pairs / embed__max(1, p->n)));
  EMBED__TRY(embed__scratch_get(ctx, pairs, sizeof *job.z, &job.z));
  EMBED__TRY(embed__scratch_get(ctx, p->n, sizeof *job.losses, &job.losses));
  EMBED__TRY(embed__scratch_matrix(ctx, 2 * workers, t->dim, sizeof *job.rows, &job.rows));
  EMBED__TRY(embed__scratch_matrix(ctx, workers, job.longest, sizeof *job.slope, &job.slope));
  if (job.decoded_floats) EMBED__TRY(embed__scratch_matrix(ctx, workers, job.decoded_floats, sizeof *job.decoded, &job.decoded));
  const int64_t tasks = embed__ceil_div(p->n, job.grain);
  EMBED__TRY(embed__run_long(ctx, tasks, take_rows, &job, 0, tasks));
  if (p->grad) EMBED__TRY(add_gradient(ctx, &job));
  if (p->losses && p->n > 0) memcpy(p->losses, job.losses, (size_t)p->n * sizeof *p->losses);
  return p->dx ? embed__run(ctx, tasks, hidden_rows, &job) : EMBED_OK;
}
