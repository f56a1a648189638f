/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical softmax: the nodes above a target are pairs with its hidden row. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "loss/huffman.h"
#include "loss/pairs.h"

typedef struct paths {
  const unsigned char *right; /* [pairs] which way the path goes */
} paths;

static double loss_of_row(const void *what, int64_t row, int64_t pair, const float *logits, int64_t count, double *slope) {
  const unsigned char *right = ((const paths *)what)->right + pair;
  double loss = 0;
  (void)row;
  for (int64_t j = 0; j < count; ++j) {
    const double z = (double)logits[j];
    loss += embed__softplus(right[j] ? -z : z);
    slope[j] = right[j] ? -embed__sigmoid(-z) : embed__sigmoid(z);
  }
  return loss;
}

/* Writes the path of a class, or with ids NULL counts it. */
static int64_t path_of(const embed_huffman *t, int32_t leaf, int32_t *ids, unsigned char *rights) {
  int64_t count = 0;
  bool right;
  for (int64_t at = leaf;; ++count) {
    const int64_t node = embed__huffman_above(t, at, &right);
    if (node < 0) return count;
    if (ids) ids[count] = (int32_t)node;
    if (ids) rights[count] = right;
    at = t->leaves + node;
  }
}

static embed_status run(embed_context *ctx, const embed_huffman *t, const int32_t *targets, int32_t ignore, embed__pairs *p) {
  int64_t *begin;
  int32_t *ids;
  unsigned char *rights;
  EMBED__TRY(embed__scratch_get(ctx, p->n + 1, sizeof *begin, &begin));
  begin[0] = 0;
  for (int64_t i = 0; i < p->n; ++i) begin[i + 1] = begin[i] + (targets[i] == ignore ? 0 : path_of(t, targets[i], NULL, NULL));
  EMBED__TRY(embed__scratch_get(ctx, begin[p->n], sizeof *ids, &ids));
  EMBED__TRY(embed__scratch_get(ctx, begin[p->n], 1, &rights));
  for (int64_t i = 0; i < p->n; ++i)
    if (targets[i] != ignore) path_of(t, targets[i], ids + begin[i], rights + begin[i]);
  const paths what = {rights};
  p->begin = begin;
  p->ids = ids;
  p->loss = loss_of_row;
  p->what = &what;
  return embed__pairs_run(ctx, p);
}

embed_status embed__huffman_fits(embed_context *ctx, const embed_head *h, const embed_huffman *t) {
  if (h->table->vocab >= embed__huffman_nodes(t)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_MISMATCH, -1, "a head of %" PRId64 " rows for a tree of %" PRId64 " inner nodes", h->table->vocab, embed__huffman_nodes(t));
}

embed_status embed_huffman_loss(embed_context *ctx, const embed_head *h, const embed_huffman *t, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                int64_t ld_hidden, const int32_t *targets, const float *d_loss, float *loss, int64_t *count, void *d_hidden,
                                embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_huffman_options *opts) {
  embed_huffman_options o;
  embed__pairs p;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__options(ctx, "embed_huffman_options", opts, EMBED_HUFFMAN_IGNORE_INDEX, &o, sizeof o));
  EMBED__TRY(embed__few_whole(ctx, h));
  EMBED__TRY(embed__huffman_fits(ctx, h, t));
  embed__few few = {.classes = t->leaves, .ignore = o.flags & EMBED_HUFFMAN_IGNORE_INDEX ? o.ignore_index : -100, .reduction = o.reduction};
  EMBED__TRY(embed__few_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, targets, d_loss, loss, d_hidden, d_hidden_dtype, ld_d_hidden, g, &few, &p));
  EMBED__TRY(embed__end(ctx, run(ctx, t, targets, few.ignore, &p)));
  if (count) *count = few.counted;
  return EMBED_OK;
}
