/* SPDX-License-Identifier: BSD-3-Clause */
/* The targets' logits before the sweep, so that one sweep counts the ids that rank before them: the products of the targets' own rows
 * with the sweep's multiplier, whose order of sums depends on dim alone. Where a logit of the sweep has other bits after all
 * (OpenBLAS), its rank is counted in a second sweep. */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "head/answers_job.h"
#include "thread/run.h"

typedef struct guess_job {
  embed__job *job;
  /* Per worker. */
  float *x, *decoded;
  unsigned char *packed, *panel;
  int64_t packed_bytes, decoded_floats;
} guess_job;

static void load_row(const embed__job *job, int64_t row, float *x) {
  const embed__sweep *s = &job->from->sweep;
  const int64_t from = s->rows ? s->rows[job->first + row] : job->first + row;
  embed__load_row(job->kernels, s->x + from * s->ldx * embed__float_bytes(s->x_dtype), s->x_dtype, x, s->table->dim);
  if (s->round) embed__round_activation(job->kernels, s->activation, x, s->table->dim);
}

static float by_multiplier(const guess_job *g, int64_t column, const float *x, int32_t worker, float *decoded) {
  const embed__sweep *s = &g->job->from->sweep;
  const embed_table *t = s->table;
  float z[EMBED__PANEL_ROWS];
  unsigned char *packed = g->packed + worker * g->packed_bytes;
  s->multiplier->pack_x(x, t->dim, 1, t->dim, t->group, packed);
  if (s->way == EMBED__PREPARED) {
    const int64_t in_panel = column % EMBED__PANEL_ROWS;
    const unsigned char *panel = embed__panels(s->prepared) + column / EMBED__PANEL_ROWS * s->panel_bytes;
    s->multiplier->multiply(panel, s->panel_bytes, s->panel_bytes, in_panel + 1, packed, 1, t->dim, t->group, z, EMBED__PANEL_ROWS);
    return z[in_panel];
  }
  const void *row = embed__row(t, column);
  int64_t row_bytes = t->row_bytes;
  if (s->way == EMBED__PACKED) {
    unsigned char *panel = g->panel + worker * s->panel_bytes;
    if (s->decoded_floats) {
      embed__decode_stored(g->job->kernels, t, column, decoded, 1.0f);
      row = decoded;
      row_bytes = t->dim * (int64_t)sizeof(float);
    }
    g->job->kernels->panel.pack[s->form](row, row_bytes, 1, t->dim, t->group, panel, false);
    row = panel;
    row_bytes = s->panel_bytes;
  }
  s->multiplier->multiply(row, row_bytes, row_bytes, 1, packed, 1, t->dim, t->group, z, 1);
  return z[0];
}

static void guess_row(void *arg, int64_t row, int32_t worker) {
  const guess_job *g = arg;
  embed__job *job = g->job;
  embed__asked_row *of_row = &job->rows[row];
  const embed__sweep *s = &job->from->sweep;
  const int64_t column = of_row->target_column;
  float *x = g->x + worker * s->table->dim, *decoded = g->decoded ? g->decoded + worker * g->decoded_floats : NULL, z;
  load_row(job, row, x);
  if (s->multiplier && !(s->beyond && embed__beyond_digits(x, s->table->dim)))
    z = by_multiplier(g, column, x, worker, decoded);
  else
    embed__product(job->kernels, s->table, column, 1, x, s->table->dim, 1, decoded, &z, 1);
  embed__finish_logits(job->from->head, &z, 1, 1, column, 1);
  (void)embed__apply_nan_policy(job->r->nan, &z, 1);
  if (job->r->processed) embed__edit_tile(&of_row->edits, &z, 1, column, embed__tile_ids(job, column));
  of_row->guess = z;
}

static void read_given(embed__job *job, int64_t row) {
  embed__asked_row *of_row = &job->rows[row];
  const embed__source *from = job->from;
  const int64_t at = from->rows ? from->rows[job->first + row] : job->first + row, column = of_row->target_column;
  of_row->guess = from->logits[at * from->ld_logits + column];
  (void)embed__apply_nan_policy(job->r->nan, &of_row->guess, 1);
  if (job->r->processed) embed__edit_tile(&of_row->edits, &of_row->guess, 1, column, NULL);
}

embed_status embed__guess_targets(embed_context *ctx, embed__job *job) {
  const embed__sweep *s = &job->from->sweep;
  const int64_t workers = embed__workers(ctx);
  guess_job g = {.job = job};
  if (!job->from->head) {
    for (int64_t row = 0; row < job->count; ++row) read_given(job, row);
    return EMBED_OK;
  }
  const embed_table *t = s->table;
  EMBED__TRY(embed__scratch_matrix(ctx, workers, t->dim, sizeof(float), &g.x));
  g.decoded_floats = t->codec->stored < 0 ? t->dim : 0;
  if (g.decoded_floats || s->decoded_floats) {
    g.decoded_floats = t->dim;
    EMBED__TRY(embed__scratch_matrix(ctx, workers, t->dim, sizeof(float), &g.decoded));
  }
  if (s->multiplier) {
    g.packed_bytes = embed__ceil_div(s->multiplier->x_bytes(1, t->dim, t->group), EMBED__PANEL_ALIGNMENT) * EMBED__PANEL_ALIGNMENT;
    EMBED__TRY(embed__scratch_matrix(ctx, workers, g.packed_bytes, 1, &g.packed));
    if (s->way == EMBED__PACKED) EMBED__TRY(embed__scratch_matrix(ctx, workers, s->panel_bytes, 1, &g.panel));
  }
  return embed__run(ctx, job->count, guess_row, &g);
}
