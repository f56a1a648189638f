/* SPDX-License-Identifier: BSD-3-Clause */
/* A Huffman tree of classes. Nodes 0 .. leaves - 1 are the classes, leaves + i is inner node i: row i of a head. */
#ifndef EMBED__HUFFMAN_H
#define EMBED__HUFFMAN_H

#include <embed/loss.h>
#include <stdbool.h>

#include "head/head.h"

struct embed_huffman {
  embed_allocator memory;
  int64_t leaves, height; /* height: steps from the root to the farthest class */
  int32_t *parent;        /* [2 leaves - 1], in the upper 31 bits; the lowest says whether the node is a right child. -1 above the root */
  int32_t *child;         /* [leaves - 1][2] left, right */
};

static inline int64_t embed__huffman_nodes(const embed_huffman *t) { return t->leaves - 1; }
/* The inner node above `node`, -1 = it is the root; *right: which child it is. */
static inline int64_t embed__huffman_above(const embed_huffman *t, int64_t node, bool *right) {
  const int32_t up = t->parent[node];
  *right = up & 1;
  return up < 0 ? -1 : up >> 1;
}
/* E_MISMATCH: a head with fewer rows than the tree has inner nodes. */
embed_status embed__huffman_fits(embed_context *ctx, const embed_head *h, const embed_huffman *t);

#endif
