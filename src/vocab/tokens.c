/* SPDX-License-Identifier: BSD-3-Clause */
#include "vocab/tokens.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "core/checked.h"
#include "core/memory.h"
#include "core/pages.h"
#include "vocab/hash.h"
#include "vocab/siphash.h"

/* A slot of the index: 0 = free, else bits of the token's hash above id + 1, which has as many as the largest needs. A token lies in
 * the first slot that was free from the first of its group on. */
enum { GROUP = 4 };

struct embed__tokens {
  embed_allocator memory;
  size_t block_bytes; /* of this, offsets, slots and arena together */
  int64_t *offsets;   /* [room + 1] token id is arena[offsets[id] .. offsets[id + 1] - 1); it has none where both are the same */
  uint32_t *slots;    /* open addressing with linear probing by groups, at most two thirds full */
  char *arena;        /* the tokens, a NUL after each, and EMBED__HASH_SLACK bytes */
  int64_t room, count, indexed;
  uint64_t slot_mask;
  int32_t id_bits;
  uint64_t key[2];
  int64_t steps;   /* slots that tokens walked past, see embed__hash_fails */
  bool is_careful; /* with SipHash */
  bool has_gaps;   /* ids without a token */
  int64_t repeated, empty;
  bool is_stored; /* the tokens are those of `stored`, and nothing above is used but memory, block_bytes and the three counts */
  embed__stored_tokens stored;
};

/* A file could be made so that all its tokens meet in one slot of a known hash: each index has a key of its own. */
static void choose_key(uint64_t key[2]) {
  key[0] = key[1] = (uint64_t)(uintptr_t)key;
  if (getentropy(key, 2 * sizeof *key) != 0) key[1] = ~key[0];
}

static uint64_t slots_for(int64_t count) {
  uint64_t slots = GROUP;
  while (slots < (uint64_t)count + (uint64_t)count / 2 + 1) slots *= 2;
  return slots;
}

static size_t alignment_of(size_t block_bytes) { return block_bytes >= EMBED__HUGE_PAGE ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT; }

/* From 1 MiB on in whole huge pages: the first writing of small ones took a third of opening a vocabulary of 152,000 tokens. */
static void *allocate_block(const embed_allocator *memory, int64_t *bytes) {
  int64_t whole;
  if (*bytes >= EMBED__HUGE_PAGE / 2 && embed__add(*bytes, EMBED__HUGE_PAGE - 1, &whole)) *bytes = whole & -(int64_t)EMBED__HUGE_PAGE;
  void *block = embed__allocate(memory, (size_t)*bytes, alignment_of((size_t)*bytes));
  if (block && *bytes >= EMBED__HUGE_PAGE) embed__want_huge_pages(block, (size_t)*bytes);
  return block;
}

embed_status embed__tokens_keyed(embed_context *ctx, int64_t count, int64_t bytes, const uint64_t key[2], embed__tokens **out) {
  int64_t arena_bytes, block_bytes, tables;
  *out = NULL;
  if (count >= UINT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%" PRId64 " tokens are named, at most %" PRIu32 " can be", count, UINT32_MAX - 1);
  const uint64_t slots = slots_for(count);
  tables = (int64_t)(sizeof **out + (uint64_t)(count + 1) * sizeof(int64_t) + slots * sizeof(uint32_t));
  if (!embed__add(count + EMBED__HASH_SLACK, bytes, &arena_bytes) || !embed__add(tables, arena_bytes, &block_bytes) || (uint64_t)block_bytes > SIZE_MAX)
    return embed__out_of_memory(ctx, -1);
  embed__tokens *t = allocate_block(&ctx->memory, &block_bytes);
  if (!t) return embed__out_of_memory(ctx, block_bytes);
  memset(t, 0, sizeof *t);
  t->memory = ctx->memory;
  t->block_bytes = (size_t)block_bytes;
  t->room = count;
  t->slot_mask = slots - 1;
  while (count >> t->id_bits) ++t->id_bits;
  t->offsets = (int64_t *)(void *)(t + 1);
  t->slots = (uint32_t *)(void *)(t->offsets + count + 1);
  t->arena = (char *)(t->slots + slots);
  t->offsets[0] = 0;
  memset(t->slots, 0, (size_t)slots * sizeof *t->slots);
  memcpy(t->key, key, sizeof t->key);
  *out = t;
  return EMBED_OK;
}

embed_status embed__tokens_new(embed_context *ctx, int64_t count, int64_t bytes, embed__tokens **out) {
  uint64_t key[2];
  choose_key(key);
  return embed__tokens_keyed(ctx, count, bytes, key, out);
}

embed_status embed__tokens_stored(embed_context *ctx, const embed__stored_tokens *section, embed__tokens **out) {
  *out = embed__new(&ctx->memory, sizeof **out);
  if (!*out) return embed__out_of_memory(ctx, (int64_t)sizeof **out);
  (*out)->memory = ctx->memory;
  (*out)->block_bytes = sizeof **out;
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
  embed__free(&memory, t, t->block_bytes, alignment_of(t->block_bytes));
}

/* --- Adding */

void embed__tokens_append(embed__tokens *t, const void *token, int64_t bytes) {
  int64_t begin = t->offsets[t->count];
  memcpy(t->arena + begin, token, (size_t)bytes);
  t->arena[begin + bytes] = '\0';
  t->offsets[++t->count] = begin + bytes + 1;
  if (bytes == 0) ++t->empty;
}

void embed__tokens_append_none(embed__tokens *t) {
  t->offsets[t->count + 1] = t->offsets[t->count];
  ++t->count;
  t->has_gaps = true;
}

/* Most tokens have less than 16 bytes: those are copied whole, with bytes of what follows, which the next token overwrites. */
void embed__tokens_append_row(embed__tokens *t, const void *strings, int64_t count, bool big_endian, const void *end) {
  const unsigned char *p = strings, *const last = end;
  int64_t at = t->offsets[t->count], *offset = t->offsets + t->count + 1, empty = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bytes = (int64_t)(big_endian ? __builtin_bswap64(embed__word8(p)) : embed__word8(p));
    p += 8;
    char *to = t->arena + at;
    if (bytes <= EMBED__HASH_SLACK && last - p >= EMBED__HASH_SLACK)
      memcpy(to, p, EMBED__HASH_SLACK);
    else
      memcpy(to, p, (size_t)bytes);
    to[bytes] = '\0';
    p += bytes;
    at += bytes + 1;
    offset[i] = at;
    empty += bytes == 0;
  }
  t->count += count;
  t->empty += empty;
}

/* --- The index */

/* -1 = it has none. */
static int64_t length_of(const embed__tokens *t, int64_t id) { return t->offsets[id + 1] - t->offsets[id] - 1; }

static uint32_t id_mask(const embed__tokens *t) { return (uint32_t)(((uint64_t)1 << t->id_bits) - 1); }
static uint32_t tag_of(const embed__tokens *t, uint64_t hash) { return (uint32_t)(hash >> 32 << t->id_bits); }

/* The first slot of a group. */
static uint64_t group_of(const embed__tokens *t, uint64_t hash) { return hash & t->slot_mask & ~(uint64_t)(GROUP - 1); }

/* The slot of an equal token, or the free one where it would go. */
static uint32_t *slot_of(const embed__tokens *t, const void *token, int64_t bytes, uint64_t hash) {
  const uint32_t ids = id_mask(t), tag = tag_of(t, hash);
  for (uint64_t at = group_of(t, hash);; at = (at + 1) & t->slot_mask) {
    const uint32_t slot = t->slots[at];
    if (slot == 0) return &t->slots[at];
    if (((slot ^ tag) & ~ids) != 0) continue;
    const int64_t id = (int64_t)(slot & ids) - 1;
    if (length_of(t, id) == bytes && (bytes == 0 || memcmp(t->arena + t->offsets[id], token, (size_t)bytes) == 0)) return &t->slots[at];
  }
}

static void index_slowly(embed__tokens *t, int64_t id, uint64_t hash) {
  uint32_t *slot = slot_of(t, t->arena + t->offsets[id], length_of(t, id), hash);
  t->steps += (int64_t)(((uint64_t)(slot - t->slots) - group_of(t, hash)) & t->slot_mask);
  if (*slot)
    ++t->repeated;
  else
    *slot = tag_of(t, hash) | (uint32_t)(id + 1);
}

/* A group's slots side by side, as gcc and clang have them on every machine; words: the same, two lanes each. */
typedef uint32_t lanes __attribute__((vector_size(GROUP * sizeof(uint32_t))));
typedef uint64_t words __attribute__((vector_size(GROUP * sizeof(uint32_t))));

/* Where the group has a free slot and none with the token's tag there is nothing to compare, and no branch to mispredict but whether
 * it is so. */
static inline void index_token(embed__tokens *t, int64_t id, uint64_t hash) {
  const uint32_t tag = tag_of(t, hash), tags = ~id_mask(t);
  uint32_t *const group = t->slots + group_of(t, hash);
  lanes slots;
  memcpy(&slots, group, sizeof slots);
  const words alike = (words)(((slots ^ tag) & tags) == 0), taken = (words)((lanes)(slots != 0) & 1);
  const uint64_t pairs = taken[0] + taken[1], count = (pairs + (pairs >> 32)) & UINT32_MAX;
  if (count == GROUP || (alike[0] | alike[1]))
    index_slowly(t, id, hash);
  else
    group[count] = tag | (uint32_t)(id + 1);
}

/* The next token that there is, by itself. */
static void index_next(embed__tokens *t) {
  const int64_t id = t->indexed++, bytes = length_of(t, id);
  const char *token = t->arena + t->offsets[id];
  if (bytes < 0) return;
  index_token(t, id, t->is_careful ? embed__siphash(t->key, token, bytes) : embed__hash_slack(t->key, token, bytes));
}

/* Slots lie all over memory: those of some tokens are fetched together. */
static void index_up_to(embed__tokens *t, int64_t end) {
  enum { TOGETHER = 32 };
  uint64_t hashes[TOGETHER];
  const uint64_t mask = t->slot_mask, key[2] = {t->key[0], t->key[1]};
  while (t->has_gaps && t->indexed < end && (t->is_careful || !embed__hash_fails(t->steps, t->indexed))) index_next(t);
  if (t->has_gaps) return;
  while (t->indexed < end) {
    const int64_t first = t->indexed, count = embed__min(TOGETHER, end - first), *offsets = t->offsets + first;
    for (int64_t i = 0; i < count; ++i) {
      const char *token = t->arena + offsets[i];
      const int64_t bytes = offsets[i + 1] - offsets[i] - 1;
      hashes[i] = t->is_careful ? embed__siphash(key, token, bytes) : embed__hash_slack(key, token, bytes);
      __builtin_prefetch(&t->slots[hashes[i] & mask], 1);
    }
    for (int64_t i = 0; i < count; ++i) index_token(t, first + i, hashes[i]);
    t->indexed = first + count;
    if (!t->is_careful && embed__hash_fails(t->steps, t->indexed)) return;
  }
}

void embed__tokens_index(embed__tokens *t) {
  index_up_to(t, t->count);
  if (t->indexed == t->count && (t->is_careful || !embed__hash_fails(t->steps, t->indexed))) return;
  t->is_careful = true; /* from the first one on, once */
  t->indexed = t->repeated = 0;
  memset(t->slots, 0, (size_t)(t->slot_mask + 1) * sizeof *t->slots);
  index_up_to(t, t->count);
}

void embed__tokens_add(embed__tokens *t, const void *token, int64_t bytes) {
  embed__tokens_append(t, token, bytes);
  embed__tokens_index(t);
}

/* --- Asking */

int64_t embed__tokens_count(const embed__tokens *t) { return t->is_stored ? t->stored.count : t->count; }

const char *embed__tokens_get(const embed__tokens *t, int64_t id, int64_t *bytes) {
  if (t->is_stored) return embed__stored_get(&t->stored, id, bytes);
  if (id < 0 || id >= t->count || length_of(t, id) < 0) return NULL;
  *bytes = length_of(t, id);
  return t->arena + t->offsets[id];
}

int64_t embed__tokens_find(const embed__tokens *t, const void *token, int64_t bytes) {
  if (t->is_stored) return embed__stored_find(&t->stored, token, bytes);
  const uint64_t hash = t->is_careful ? embed__siphash(t->key, token, bytes) : embed__hash(t->key, token, bytes);
  return (int64_t)(*slot_of(t, token, bytes, hash) & id_mask(t)) - 1;
}

int64_t embed__tokens_repeated(const embed__tokens *t) { return t->repeated; }

int64_t embed__tokens_empty(const embed__tokens *t) { return t->empty; }

bool embed__tokens_is_careful(const embed__tokens *t) { return t->is_careful; }
