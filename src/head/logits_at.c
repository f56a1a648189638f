/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_logits_at: the products of some rows, with the bits that a sweep of the head gives them. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/head.h"
#include "thread/run.h"

enum { IDS = 16 /* of a task: a panel's worth */, PART = 64 /* hidden rows packed together */ };

typedef struct at_job {
  const embed_head *head;
  const embed__kernels *kernels;
  const int32_t *columns; /* of the ids */
  float *out;
  int64_t n, m, ldout;
  embed_nan_policy nan;
  const embed__multiplier *multiplier; /* NULL: dot.h's tiles */
  const float *x;
  int64_t ldx;
  unsigned char *packed; /* hidden rows as the multiplier has them, part by part */
  int64_t part_bytes;
  unsigned char *beyond; /* [n] as embed__sweep's, or NULL */
  /* Per worker. */
  unsigned char *rows; /* of the ids, side by side, and the panel that they become: prepared heads */
  int64_t rows_bytes;
  float *decoded;
  int64_t decoded_floats;
  _Atomic int64_t refused;
} at_job;

static void multiply_parts(const at_job *job, const void *rows, int64_t stride, int64_t count, float *z) {
  const embed_table *t = job->head->table;
  for (int64_t i = 0; i < job->n; i += PART)
    job->multiplier->multiply(rows, stride, stride, count, job->packed + i / PART * job->part_bytes, embed__min(PART, job->n - i), t->dim, t->group,
                              z + i * job->ldout, job->ldout);
}

/* The rows of the ids become a panel like those of the prepared form. */
static void multiply_as_panel(const at_job *job, const int32_t *ids, int64_t count, int32_t worker, float *z) {
  const embed_head *h = job->head;
  const embed_table *t = h->table;
  unsigned char *panel = job->rows + worker * job->rows_bytes, *rows = panel + h->prepared.panel_bytes;
  for (int64_t r = 0; r < count; ++r) memcpy(rows + r * t->packed_bytes, embed__row(t, ids[r]), (size_t)t->packed_bytes);
  job->kernels->panel.pack[h->prepared.form](rows, t->packed_bytes, count, t->dim, t->group, panel, false);
  multiply_parts(job, panel, h->prepared.panel_bytes, count, z);
}

static void logits_of_ids(void *arg, int64_t task, int32_t worker) {
  at_job *job = arg;
  const embed_table *t = job->head->table;
  const int32_t *ids = job->columns + task * IDS;
  const int64_t count = embed__min(IDS, job->m - task * IDS);
  float *z = job->out + task * IDS, *decoded = job->decoded ? job->decoded + worker * job->decoded_floats : NULL;
  if (job->head->prepared.block) multiply_as_panel(job, ids, count, worker, z);
  for (int64_t j = 0; j < count; ++j) {
    if (!job->multiplier)
      embed__product(job->kernels, t, ids[j], 1, job->x, job->ldx, job->n, decoded, z + j, job->ldout);
    else if (!job->head->prepared.block)
      multiply_parts(job, embed__row(t, ids[j]), t->row_bytes, 1, z + j);
    for (int64_t i = 0; job->beyond && i < job->n; ++i)
      if (job->beyond[i]) embed__product(job->kernels, t, ids[j], 1, job->x + i * job->ldx, job->ldx, 1, decoded, z + j + i * job->ldout, job->ldout);
    embed__finish_logits(job->head, z + j, job->ldout, job->n, ids[j], 1);
    for (int64_t i = 0; i < job->n; ++i)
      if (embed__apply_nan_policy(job->nan, z + j + i * job->ldout, 1)) embed__keep_least(&job->refused, i);
  }
}

/* As the planner does it for a reproducible context: prepared form, multiplier in place, or tiles. */
static bool choose_multiplier(at_job *job, embed__activation activation) {
  const embed_head *h = job->head;
  const embed__panel_kernels *k = &job->kernels->panel;
  int form = embed__form_of(h->table);
  const embed__multiplier *of_form = h->prepared.block ? k->prepared[form] : form >= 0 ? k->in_place[form] : NULL;
  bool own = activation != EMBED__EXACT && of_form && of_form[activation].multiply, round = activation != EMBED__EXACT && !own;
  bool tiles = !h->prepared.block && !own && (h->table->codec->stored >= 0 || !of_form || !of_form[EMBED__EXACT].multiply);
  if (!tiles) job->multiplier = &of_form[own ? activation : EMBED__EXACT];
  return round;
}

static embed_status load_hidden(embed_context *ctx, at_job *job, const embed__sweep *s, bool round) {
  const embed_table *t = s->table;
  job->x = (const float *)(const void *)s->x;
  job->ldx = s->ldx;
  if (s->x_dtype != EMBED_F32 || round) {
    float *x;
    EMBED__TRY(embed__scratch_matrix(ctx, s->n, t->dim, sizeof *x, &x));
    for (int64_t i = 0; i < s->n; ++i) {
      embed__load_row(ctx->kernels, s->x + i * s->ldx * embed__float_bytes(s->x_dtype), s->x_dtype, x + i * t->dim, t->dim);
      if (round) embed__round_activation(ctx->kernels, s->activation, x + i * t->dim, t->dim);
    }
    job->x = x;
    job->ldx = t->dim;
  }
  if (!job->multiplier) return EMBED_OK;
  job->part_bytes = job->multiplier->x_bytes(embed__min(PART, s->n), t->dim, t->group);
  EMBED__TRY(embed__scratch_matrix(ctx, embed__ceil_div(s->n, PART), job->part_bytes, 1, &job->packed));
  for (int64_t i = 0; i < s->n; i += PART)
    job->multiplier->pack_x(job->x + i * job->ldx, job->ldx, embed__min(PART, s->n - i), t->dim, t->group, job->packed + i / PART * job->part_bytes);
  if (!embed__in_digits(embed__form_of(t), s->activation)) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, s->n, 1, &job->beyond));
  for (int64_t i = 0; i < s->n; ++i) job->beyond[i] = embed__beyond_digits(job->x + i * job->ldx, t->dim);
  return EMBED_OK;
}

static embed_status logits_at(embed_context *ctx, at_job *job, const embed__sweep *s) {
  const embed_table *t = s->table;
  const int64_t workers = embed__workers(ctx);
  job->kernels = ctx->kernels;
  bool round = choose_multiplier(job, s->activation);
  EMBED__TRY(load_hidden(ctx, job, s, round));
  if (embed__decoded_rows(t) > 0) job->decoded_floats = !job->multiplier ? embed__decoded_floats(t) : job->beyond ? t->dim : 0;
  if (job->decoded_floats) EMBED__TRY(embed__scratch_matrix(ctx, workers, job->decoded_floats, sizeof(float), &job->decoded));
  if (s->prepared) {
    job->rows_bytes = s->prepared->panel_bytes + embed__ceil_div(IDS * t->packed_bytes, EMBED__PANEL_ALIGNMENT) * EMBED__PANEL_ALIGNMENT;
    EMBED__TRY(embed__scratch_matrix(ctx, workers, job->rows_bytes, 1, &job->rows));
  }
  int64_t tasks = embed__ceil_div(job->m, IDS);
  EMBED__TRY(embed__run_long(ctx, tasks, logits_of_ids, job, 0, tasks));
  int64_t refused = atomic_load(&job->refused);
  return refused == INT64_MAX ? EMBED_OK : embed__nan_error(ctx, refused);
}

/* The ids' rows in the head's own table. */
static embed_status take_columns(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t m, const int32_t **columns) {
  int32_t *mapped;
  *columns = ids;
  if (!h->base) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, m, sizeof *mapped, &mapped));
  for (int64_t j = 0; j < m; ++j) mapped[j] = embed__column_of(&h->map, ids[j]);
  *columns = mapped;
  return EMBED_OK;
}

embed_status embed_logits_at(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                             const int32_t *ids, int64_t m, float *logits_out, int64_t ld_logits, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep s;
  at_job job = {.head = h, .out = logits_out, .n = n, .m = m, .refused = INT64_MAX};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &s));
  if (m < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "m is %" PRId64, m);
  EMBED__TRY(embed__check_buffer(ctx, "logits", logits_out, EMBED_F32, m ? n : 0, m, ld_logits, &job.ldout));
  if (m > 0 && !ids) return embed__null(ctx, "ids");
  EMBED__TRY(embed__head_check_ids(ctx, h, ids, m));
  if (n == 0 || m == 0) return EMBED_OK;
  job.nan = o.nan;
  EMBED__TRY(take_columns(ctx, h, ids, m, &job.columns));
  return embed__end(ctx, logits_at(ctx, &job, &s));
}
