/* SPDX-License-Identifier: BSD-3-Clause */
#include "vocab/tokens.h"

#include <string.h>
#include <sys/random.h>

#include "core/checked.h"
#include "core/memory.h"
#include "vocab/siphash.h"

/* A slot of the index: 0 = free, else 24 bits of the token's hash above id + 1. */
enum { ID_BITS = 40 };
static const uint64_t ID_MASK = ((uint64_t)1 << ID_BITS) - 1;

struct embed__tokens {
  embed_allocator memory;
  char *arena;      /* the tokens, a NUL after each */
  int64_t *offsets; /* [room + 1] token id is arena[offsets[id] .. offsets[id + 1] - 1) */
  uint64_t *slots;  /* open addressing with linear probing, at most half full */
  int64_t room, count, indexed;
  int64_t arena_bytes;
  uint64_t slot_mask;
  uint64_t key[2];
  int64_t repeated, empty;
  bool is_stored; /* the tokens are those of `stored`, and nothing above is used but memory and the three counts */
  embed__stored_tokens stored;
};

/* A file could be made so that all its tokens meet in one slot of a known hash: each index has a key of its own. */
static void choose_key(embed__tokens *t) {
  if (getentropy(t->key, sizeof t->key) == 0) return;
  t->key[0] = (uint64_t)(uintptr_t)t->arena;
  t->key[1] = (uint64_t)(uintptr_t)t->slots;
}

static uint64_t slots_for(int64_t count) {
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)count) slots *= 2;
  return slots;
}

embed_status embed__tokens_new(embed_context *ctx, int64_t count, int64_t bytes, embed__tokens **out) {
  int64_t arena_bytes;
  *out = NULL;
  if (!embed__add(count, bytes, &arena_bytes) || count > (int64_t)(ID_MASK >> 1) || (uint64_t)count > SIZE_MAX / 64) return embed__out_of_memory(ctx, -1);
  embed__tokens *t = embed__new(&ctx->memory, sizeof *t);
  if (!t) return embed__out_of_memory(ctx, (int64_t)sizeof *t);
  t->memory = ctx->memory;
  t->room = count;
  t->arena_bytes = arena_bytes;
  t->slot_mask = slots_for(count) - 1;
  size_t slot_bytes = (size_t)(t->slot_mask + 1) * sizeof *t->slots, offset_bytes = (size_t)(count + 1) * sizeof *t->offsets;
  t->arena = embed__allocate(&ctx->memory, (size_t)arena_bytes, EMBED__ALIGNMENT);
  t->offsets = embed__allocate(&ctx->memory, offset_bytes, EMBED__ALIGNMENT);
  t->slots = embed__new(&ctx->memory, slot_bytes);
  if (!t->arena || !t->offsets || !t->slots) {
    embed__tokens_free(t);
    return embed__out_of_memory(ctx, arena_bytes + (int64_t)(offset_bytes + slot_bytes));
  }
  t->offsets[0] = 0;
  choose_key(t);
  *out = t;
  return EMBED_OK;
}

embed_status embed__tokens_stored(embed_context *ctx, const embed__stored_tokens *section, embed__tokens **out) {
  *out = embed__new(&ctx->memory, sizeof **out);
  if (!*out) return embed__out_of_memory(ctx, (int64_t)sizeof **out);
  (*out)->memory = ctx->memory;
  (*out)->is_stored = true;
  (*out)->stored = *section;
  (*out)->count = section->count;
  (*out)->repeated = section->repeated;
  (*out)->empty = section->empty;
  return EMBED_OK;
}

void embed__tokens_free(embed__tokens *t) {
  if (!t) return;
  const embed_allocator memory = t->memory;
  embed__free(&memory, t->arena, (size_t)t->arena_bytes, EMBED__ALIGNMENT);
  embed__free(&memory, t->offsets, (size_t)(t->room + 1) * sizeof *t->offsets, EMBED__ALIGNMENT);
  embed__free(&memory, t->slots, (size_t)(t->slot_mask + 1) * sizeof *t->slots, EMBED__ALIGNMENT);
  embed__free(&memory, t, sizeof *t, EMBED__ALIGNMENT);
}

static int64_t length_of(const embed__tokens *t, int64_t id) { return t->offsets[id + 1] - t->offsets[id] - 1; }

/* The slot of an equal token, or the free one where it would go. */
static uint64_t *slot_of(const embed__tokens *t, const void *token, int64_t bytes, uint64_t hash) {
  for (uint64_t at = hash & t->slot_mask;; at = (at + 1) & t->slot_mask) {
    uint64_t slot = t->slots[at];
    if (slot == 0) return &t->slots[at];
    if (((slot ^ hash) & ~ID_MASK) != 0) continue;
    int64_t id = (int64_t)(slot & ID_MASK) - 1;
    if (length_of(t, id) == bytes && (bytes == 0 || memcmp(t->arena + t->offsets[id], token, (size_t)bytes) == 0)) return &t->slots[at];
  }
}

void embed__tokens_append(embed__tokens *t, const void *token, int64_t bytes) {
  int64_t begin = t->offsets[t->count];
  memcpy(t->arena + begin, token, (size_t)bytes);
  t->arena[begin + bytes] = '\0';
  t->offsets[++t->count] = begin + bytes + 1;
  if (bytes == 0) ++t->empty;
}

static void index_token(embed__tokens *t, int64_t id, uint64_t hash) {
  uint64_t *slot = slot_of(t, t->arena + t->offsets[id], length_of(t, id), hash);
  if (*slot)
    ++t->repeated;
  else
    *slot = (hash & ~ID_MASK) | (uint64_t)(id + 1);
}

/* Slots lie all over memory: those of some tokens are fetched together (opening 152,000 tokens: 16 ms one by one, 10 ms so). */
void embed__tokens_index(embed__tokens *t) {
  enum { TOGETHER = 32 };
  uint64_t hashes[TOGETHER];
  while (t->indexed < t->count) {
    const int64_t first = t->indexed, count = embed__min(TOGETHER, t->count - first);
    for (int64_t i = 0; i < count; ++i) {
      hashes[i] = embed__siphash(t->key, t->arena + t->offsets[first + i], length_of(t, first + i));
      __builtin_prefetch(&t->slots[hashes[i] & t->slot_mask], 1);
    }
    for (int64_t i = 0; i < count; ++i) index_token(t, first + i, hashes[i]);
    t->indexed = first + count;
  }
}

void embed__tokens_add(embed__tokens *t, const void *token, int64_t bytes) {
  embed__tokens_append(t, token, bytes);
  embed__tokens_index(t);
}

int64_t embed__tokens_count(const embed__tokens *t) { return t->is_stored ? t->stored.count : t->count; }

const char *embed__tokens_get(const embed__tokens *t, int64_t id, int64_t *bytes) {
  if (t->is_stored) return embed__stored_get(&t->stored, id, bytes);
  if (id < 0 || id >= t->count) return NULL;
  *bytes = length_of(t, id);
  return t->arena + t->offsets[id];
}

int64_t embed__tokens_find(const embed__tokens *t, const void *token, int64_t bytes) {
  if (t->is_stored) return embed__stored_find(&t->stored, token, bytes);
  uint64_t slot = *slot_of(t, token, bytes, embed__siphash(t->key, token, bytes));
  return (int64_t)(slot & ID_MASK) - 1;
}

int64_t embed__tokens_repeated(const embed__tokens *t) { return t->repeated; }

int64_t embed__tokens_empty(const embed__tokens *t) { return t->empty; }
