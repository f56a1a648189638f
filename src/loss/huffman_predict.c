/* SPDX-License-Identifier: BSD-3-Clause */
/* The most probable classes by best-first search: a node waits with the most that may lie below it. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "core/options.h"
#include "loss/huffman.h"
#include "loss/pairs.h"
#include "sweep/sweep.h"
#include "thread/run.h"

typedef struct place {
  double score; /* log-probability */
  float most;   /* as it would be returned: a class' own, an inner node's of what lies below */
  int32_t node; /* of the tree: a class, or leaves + an inner node */
} place;

typedef struct predict_job {
  const embed_head *head;
  const embed_huffman *tree;
  const embed__kernels *kernels;
  embed__sweep s; /* hidden */
  int64_t k;
  double least;  /* log-probability */
  double growth; /* scores grow by no more on the way down */
  bool fasttext;
  int32_t *ids;
  float *logprobs;
  int64_t *count;
  /* Per worker. */
  place *open; /* [leaves] a heap, the best first */
  float *x;    /* [dim] */
  float *decoded;
  int64_t decoded_floats;
  _Atomic int64_t refused;
} predict_job;

static place place_of(const predict_job *job, int32_t node, double score) {
  return (place){score, (float)(node < job->tree->leaves ? score : score + job->growth), node};
}

/* Of equal ones inner nodes first, below which a class of the same may lie, then classes by id. */
static bool is_better(const predict_job *job, const place *a, const place *b) {
  if (a->most != b->most) return a->most > b->most;
  const bool a_inner = a->node >= job->tree->leaves, b_inner = b->node >= job->tree->leaves;
  return a_inner != b_inner ? a_inner : a->node < b->node;
}

static void push(const predict_job *job, place *open, int64_t *count, place new) {
  int64_t at = (*count)++;
  while (at > 0 && is_better(job, &new, &open[(at - 1) / 2])) {
    open[at] = open[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  open[at] = new;
}

static place pop(const predict_job *job, place *open, int64_t *count) {
  const place best = open[0], last = open[--*count];
  int64_t at = 0;
  for (int64_t child; (child = 2 * at + 1) < *count; at = child) {
    if (child + 1 < *count && is_better(job, &open[child + 1], &open[child])) ++child;
    if (!is_better(job, &open[child], &last)) break;
    open[at] = open[child];
  }
  open[at] = last;
  return best;
}

/* log of the probability of going right, and of going left. */
static void steps_of(const predict_job *job, double z, double step[2]) {
  step[1] = job->fasttext ? log(embed__sigmoid(z) + 1e-5) : -embed__softplus(-z);
  step[0] = job->fasttext ? log(embed__sigmoid(-z) + 1e-5) : -embed__softplus(z);
}

static void predict_row(void *arg, int64_t row, int32_t worker) {
  predict_job *job = arg;
  const embed_huffman *tree = job->tree;
  const embed_table *t = job->head->table;
  place *open = job->open + worker * tree->leaves;
  float *x = job->x + worker * t->dim, *decoded = job->decoded ? job->decoded + worker * job->decoded_floats : NULL;
  int32_t *ids = job->ids + row * job->k;
  float *logprobs = job->logprobs + row * job->k;
  int64_t found = 0, waiting = 1;
  embed__load_row(job->kernels, job->s.x + row * job->s.ldx * embed__float_bytes(job->s.x_dtype), job->s.x_dtype, x, t->dim);
  open[0] = place_of(job, (int32_t)(2 * tree->leaves - 2), 0);
  while (found < job->k && waiting > 0) {
    const place best = pop(job, open, &waiting);
    if (best.node < tree->leaves) {
      ids[found] = best.node;
      logprobs[found++] = best.most;
      continue;
    }
    const int64_t node = best.node - tree->leaves;
    float z;
    double step[2];
    embed__product(job->kernels, t, node, 1, x, t->dim, 1, decoded, &z, 1);
    embed__finish_logits(job->head, &z, 1, 1, node, 1);
    if (isnan(z)) {
      embed__keep_least(&job->refused, row);
      break;
    }
    steps_of(job, (double)z, step);
    for (int side = 0; side < 2; ++side) {
      const place child = place_of(job, tree->child[2 * node + side], best.score + step[side]);
      if (!(child.score < job->least)) push(job, open, &waiting, child);
    }
  }
  if (job->count) job->count[row] = found;
  for (; found < job->k; ++found) ids[found] = -1, logprobs[found] = -INFINITY;
}

static embed_status predict(embed_context *ctx, predict_job *job) {
  const int64_t workers = embed__workers(ctx), n = job->s.n;
  job->kernels = ctx->kernels;
  job->decoded_floats = embed__decoded_floats(job->head->table);
  EMBED__TRY(embed__scratch_matrix(ctx, workers, job->tree->leaves, sizeof *job->open, &job->open));
  EMBED__TRY(embed__scratch_matrix(ctx, workers, job->head->table->dim, sizeof *job->x, &job->x));
  if (job->decoded_floats) EMBED__TRY(embed__scratch_matrix(ctx, workers, job->decoded_floats, sizeof *job->decoded, &job->decoded));
  EMBED__TRY(embed__run_long(ctx, n, predict_row, job, 0, n));
  const int64_t refused = atomic_load(&job->refused);
  if (refused == INT64_MAX) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_NONFINITE, refused, "a logit of hidden row %" PRId64 " is NaN", refused);
}

embed_status embed_huffman_predict(embed_context *ctx, const embed_head *h, const embed_huffman *t, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                   int64_t ld_hidden, int64_t k, int32_t *ids, float *logprobs, int64_t *count, const embed_huffman_predict_options *opts) {
  embed_huffman_predict_options o;
  embed_sweep_options none;
  predict_job job = {.head = h, .tree = t, .k = k, .ids = ids, .logprobs = logprobs, .count = count, .refused = INT64_MAX};
  int64_t entries, bytes;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, NULL, &none, &job.s));
  EMBED__TRY(embed__options(ctx, "embed_huffman_predict_options", opts, EMBED_HUFFMAN_FASTTEXT, &o, sizeof o));
  if (!(o.threshold >= 0 && o.threshold <= 1)) return embed__fail(ctx, EMBED_E_OPTION, -1, "threshold must be between 0 and 1");
  EMBED__TRY(embed__few_whole(ctx, h));
  EMBED__TRY(embed__huffman_fits(ctx, h, t));
  if (k < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "k is %" PRId64, k);
  if (!embed__mul(n, k, &entries) || !embed__mul(entries, (int64_t)sizeof(float), &bytes))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rows of %" PRId64 " results do not fit into memory", n, k);
  if (entries > 0 && !ids) return embed__null(ctx, "ids");
  if (entries > 0 && !logprobs) return embed__null(ctx, "logprobs");
  job.fasttext = (o.flags & EMBED_HUFFMAN_FASTTEXT) != 0;
  job.least = log(o.threshold + (job.fasttext ? 1e-5 : 0));
  job.growth = job.fasttext ? 1e-5 * (double)t->height : 0; /* log(1 + 1e-5) a step is less, by more than sums in double lose */
  if (entries > 0) return embed__end(ctx, predict(ctx, &job));
  for (int64_t i = 0; count && i < n; ++i) count[i] = 0;
  return EMBED_OK;
}
