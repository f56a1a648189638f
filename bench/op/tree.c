/* SPDX-License-Identifier: BSD-3-Clause */
/* The most probable classes below a Huffman tree. The peer is fastText's way written down: depth first, left before right, what
 * is below the k-th best so far left out; on as many threads. Both read a row of the table at each node that they come to. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { K = 5, LANES = 16, NODES = OP_ROWS - 1 };

typedef struct tree_job {
  op *o;
  op_outcome *outcome;
  int64_t n;
  embed_head *head;
  embed_huffman *tree;
  const float *w;   /* [OP_ROWS, OP_DIM] */
  float *hidden;    /* [n, OP_DIM] */
  int32_t *child;   /* [NODES][2] a class, or ~ an inner node */
  int32_t *ids;     /* [n, K] ours */
  float *logprobs;  /* [n, K] */
  float *theirs;    /* [n, K] */
  int64_t *visited; /* [n] nodes */
  bool known;       /* theirs[K - 1] is where to stop */
} tree_job;

static void ours(void *job) {
  tree_job *j = job;
  op_note(j->o, j->outcome, embed_huffman_predict(j->o->context, j->head, j->tree, j->hidden, EMBED_F32, j->n, 0, K, j->ids, j->logprobs, NULL, NULL));
}

static float dot(const float *a, const float *b) {
  float lane[LANES] = {0}, sum = 0;
  for (int j = 0; j < OP_DIM; j += LANES)
    for (int l = 0; l < LANES; ++l) lane[l] += a[j + l] * b[j + l];
  for (int l = 0; l < LANES; ++l) sum += lane[l];
  return sum;
}

static void keep(float *best, float score) {
  int at = K - 1;
  for (; at > 0 && best[at - 1] < score; --at) best[at] = best[at - 1];
  best[at] = score;
}

static void descend(tree_job *j, int64_t row, int32_t node, float score) {
  float *best = j->theirs + row * K;
  if (score <= best[K - 1]) return;
  if (node >= 0) {
    if (!j->known) keep(best, score);
    return;
  }
  const float z = dot(j->w + (int64_t)~node * OP_DIM, j->hidden + row * OP_DIM);
  ++j->visited[row];
  descend(j, row, j->child[2 * ~node], score - log1pf(expf(z)));
  descend(j, row, j->child[2 * ~node + 1], score - log1pf(expf(-z)));
}

static void plain(void *job, int thread, int threads) {
  tree_job *j = job;
  for (int64_t row = j->n * thread / threads; row < j->n * (thread + 1) / threads; ++row) {
    for (int k = 0; k < K; ++k) j->theirs[row * K + k] = -INFINITY;
    j->visited[row] = 0;
    descend(j, row, ~(NODES - 1), 0);
  }
}

/* Nodes that no exact search leaves out: those more probable than the last answer. The peer knows it in advance and finds nothing new. */
static int64_t least_nodes(tree_job *j) {
  int64_t nodes = 0;
  j->known = true;
  for (int64_t row = 0; row < j->n; ++row) {
    for (int k = 0; k < K; ++k) {
      const double got = (double)j->logprobs[row * K + k], want = (double)j->theirs[row * K + k];
      if (!(fabs(got - want) <= 1e-3 * (1 + fabs(want)))) snprintf(j->outcome->text, sizeof j->outcome->text, "a class has %g, the peer's %g", got, want);
    }
    j->theirs[row * K + K - 1] = j->logprobs[row * K + K - 1];
    j->visited[row] = 0;
    descend(j, row, ~(NODES - 1), 0);
    nodes += j->visited[row];
  }
  return nodes;
}

/* From the paths, as the library builds them. */
static void read_tree(tree_job *j) {
  enum { MOST = 256 };
  for (int32_t leaf = 0; leaf < OP_ROWS && !op_wrong(j->outcome); ++leaf) {
    int32_t nodes[MOST], codes[MOST], below = leaf;
    int64_t length = 0;
    op_note(j->o, j->outcome, embed_huffman_path(j->o->context, j->tree, leaf, nodes, codes, MOST, &length));
    for (int64_t i = 0; i < length && i < MOST; below = ~nodes[i++]) j->child[2 * nodes[i] + codes[i]] = below;
  }
}

static bool prepare(tree_job *j) {
  op *o = j->o;
  embed_table *table = (embed_table *)(uintptr_t)op_table(o, EMBED_F32, j->outcome);
  int64_t *counts = malloc(sizeof *counts * OP_ROWS);
  j->hidden = op_vectors(j->n, OP_DIM, 0.1f, j->outcome);
  j->child = malloc(sizeof *j->child * 2 * NODES);
  j->ids = malloc(sizeof *j->ids * (size_t)(j->n * K));
  j->logprobs = malloc(sizeof *j->logprobs * (size_t)(j->n * K));
  j->theirs = malloc(sizeof *j->theirs * (size_t)(j->n * K));
  j->visited = malloc(sizeof *j->visited * (size_t)j->n);
  if (!counts || !j->child || !j->ids || !j->logprobs || !j->theirs || !j->visited) snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  if (!op_wrong(j->outcome)) {
    for (int64_t v = 0; v < OP_ROWS; ++v) counts[v] = 100000000 / (v + 1);
    j->w = embed_table_data(table);
    op_note(o, j->outcome, embed_huffman_create(o->context, counts, OP_ROWS, &j->tree));
    op_note(o, j->outcome, embed_head_create(o->context, table, NULL, NULL, &j->head));
    read_tree(j);
  }
  free(counts);
  return !op_wrong(j->outcome);
}

void op_huffman_predict(op *o, const op_line *line) {
  op_outcome outcome = {0};
  tree_job j = {.o = o, .outcome = &outcome, .n = line->n};
  bench_figure figures[2] = {0};
  int64_t nodes = 0;
  char what[96];
  if (prepare(&j)) {
    const bench_work works[2] = {{.call = ours, .job = &j}, {.loop = plain, .job = &j}};
    bench_measure(o->bench, works, 2, figures);
    nodes = least_nodes(&j);
  }
  snprintf(what, sizeof what, "predict f32   " OP_SHAPE " batch %-4d", (int)line->n);
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "read in this run", .ours = figures[0], .limit = figures[0].read};
  r.peer_name = "depth first";
  r.peer = figures[1];
  r.figure = r.ours.seconds > 0 ? (double)nodes * OP_DIM * 4 / r.ours.seconds / 1e9 : 0;
  snprintf(r.beside, sizeof r.beside, "%.0f nodes a row", (double)nodes / (double)line->n);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_head_release(j.head);
  embed_huffman_release(j.tree);
  if (j.hidden) bench_memory_release(j.hidden, sizeof(float) * (size_t)(j.n * OP_DIM));
  free(j.child), free(j.ids), free(j.logprobs), free(j.theirs), free(j.visited);
}
