/* SPDX-License-Identifier: BSD-3-Clause */
/* Building the tree: classes in descending order of their counts are one queue, taken from the end, inner nodes as they are made the other. */
#include "loss/huffman.h"

#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/sort.h"

enum { MOST_LEAVES = 1 << 30 /* a parent and which child fit into 32 bits */ };

typedef struct counted_class {
  int64_t count;
  int32_t id;
} counted_class;

typedef struct inner_node {
  int64_t weight, height; /* height: steps to the farthest class below */
} inner_node;

static bool comes_before(const void *a, const void *b) {
  const counted_class *x = a, *y = b;
  return x->count != y->count ? x->count > y->count : x->id < y->id;
}

static size_t parent_bytes(int64_t leaves) { return (size_t)(2 * leaves - 1) * sizeof(int32_t); }
static size_t child_bytes(int64_t leaves) { return (size_t)(2 * leaves - 2) * sizeof(int32_t); }

void embed_huffman_release(embed_huffman *t) {
  if (!t) return;
  const embed_allocator memory = t->memory;
  embed__free(&memory, t->parent, parent_bytes(t->leaves), EMBED__ALIGNMENT);
  embed__free(&memory, t->child, child_bytes(t->leaves), EMBED__ALIGNMENT);
  embed__free(&memory, t, sizeof *t, EMBED__ALIGNMENT);
}

/* leaf [leaves] descending; inner [leaves - 1] is filled as they are made. */
static void build(embed_huffman *t, const counted_class *leaf, inner_node *inner) {
  const int64_t leaves = t->leaves;
  int64_t next_leaf = leaves - 1, next_node = 0;
  for (int64_t made = 0; made < leaves - 1; ++made) {
    inner[made] = (inner_node){0};
    for (int32_t side = 0; side < 2; ++side) {
      const bool is_leaf = next_leaf >= 0 && (next_node == made || leaf[next_leaf].count < inner[next_node].weight);
      const int64_t least = is_leaf ? leaf[next_leaf].id : leaves + next_node;
      inner[made].weight += is_leaf ? leaf[next_leaf].count : inner[next_node].weight;
      inner[made].height = embed__max(inner[made].height, is_leaf ? 1 : inner[next_node].height + 1);
      t->child[2 * made + side] = (int32_t)least;
      t->parent[least] = (int32_t)made << 1 | side;
      next_leaf -= is_leaf;
      next_node += !is_leaf;
    }
  }
  t->parent[2 * leaves - 2] = -1;
  t->height = leaves > 1 ? inner[leaves - 2].height : 0;
}

static embed_status create(embed_context *ctx, const int64_t *counts, int64_t leaves, embed_huffman **out) {
  counted_class *leaf;
  inner_node *inner;
  EMBED__TRY(embed__scratch_get(ctx, leaves, sizeof *leaf, &leaf));
  EMBED__TRY(embed__scratch_get(ctx, leaves, sizeof *inner, &inner));
  embed_huffman *t = embed__new(&ctx->memory, sizeof *t);
  if (!t) return embed__out_of_memory(ctx, (int64_t)sizeof *t);
  t->memory = ctx->memory;
  t->leaves = leaves;
  if ((uint64_t)leaves <= PTRDIFF_MAX / 16) t->parent = embed__allocate(&t->memory, parent_bytes(leaves), EMBED__ALIGNMENT);
  if (t->parent) t->child = embed__allocate(&t->memory, child_bytes(leaves), EMBED__ALIGNMENT);
  if (!t->child) {
    embed_huffman_release(t);
    return embed__out_of_memory(ctx, 16 * leaves);
  }
  for (int64_t i = 0; i < leaves; ++i) leaf[i] = (counted_class){counts[i], (int32_t)i};
  embed__sort(leaf, leaves, sizeof *leaf, comes_before);
  build(t, leaf, inner);
  *out = t;
  return EMBED_OK;
}

embed_status embed_huffman_create(embed_context *ctx, const int64_t *counts, int64_t leaves, embed_huffman **out) {
  int64_t sum = 0;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  if (leaves < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "leaves is %" PRId64 ", a tree has at least 1 class", leaves);
  if (leaves > MOST_LEAVES) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "a tree of %" PRId64 " classes: at most %d", leaves, MOST_LEAVES);
  EMBED__NOT_NULL(ctx, counts);
  for (int64_t i = 0; i < leaves; ++i) {
    if (counts[i] < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, i, "the count of class %" PRId64 " is %" PRId64, i, counts[i]);
    if (!embed__add(sum, counts[i], &sum)) return embed__fail(ctx, EMBED_E_OVERFLOW, i, "the sum of the counts does not fit into 64 bits at class %" PRId64, i);
  }
  return embed__end(ctx, create(ctx, counts, leaves, out));
}

embed_status embed_huffman_path(embed_context *ctx, const embed_huffman *t, int64_t leaf, int32_t *nodes, int32_t *codes, int64_t room, int64_t *length) {
  int64_t count = 0;
  bool right;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, length);
  if (room < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "room is %" PRId64, room);
  if (leaf < 0 || leaf >= t->leaves) return embed__fail(ctx, EMBED_E_ID, -1, "class %" PRId64 " is outside the tree of %" PRId64, leaf, t->leaves);
  for (int64_t node = embed__huffman_above(t, leaf, &right); node >= 0; node = embed__huffman_above(t, t->leaves + node, &right), ++count) {
    if (count < room && nodes) nodes[count] = (int32_t)node;
    if (count < room && codes) codes[count] = right;
  }
  *length = count;
  return EMBED_OK;
}
