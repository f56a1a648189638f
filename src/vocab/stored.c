/* SPDX-License-Identifier: BSD-3-Clause */
#include "vocab/stored.h"

#include <string.h>

#include "core/checked.h"
#include "vocab/siphash.h"

enum { ID_BITS = 40, KEYS = 16 };
static const uint64_t ID_MASK = ((uint64_t)1 << ID_BITS) - 1;

/* Places of the head's fields; u64 each. */
enum { COUNT = 0, ARENA = 8, SLOTS = 16, KEY_0 = 24, KEY_1 = 32, REPEATED = 40, EMPTY = 48, ZERO = 56 };

static uint64_t get64(const unsigned char *p) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= (uint64_t)p[i] << (8 * i);
  return word;
}

static void put64(unsigned char *p, uint64_t word) {
  for (int i = 0; i < 8; ++i) p[i] = (unsigned char)(word >> (8 * i));
}

/* At most two thirds full. */
static uint64_t slots_for(int64_t count) {
  uint64_t slots = 2;
  while (slots < (uint64_t)count + (uint64_t)count / 2 + 1) slots *= 2;
  return slots;
}

bool embed__stored_open(const unsigned char *section, int64_t bytes, embed__stored_tokens *out, int64_t *at, const char **why) {
  uint64_t field[EMBED__STORED_HEAD / 8];
  *at = 0;
  *why = "is shorter than its head of 64 bytes";
  if (bytes < EMBED__STORED_HEAD) return false;
  for (int i = 0; i < EMBED__STORED_HEAD / 8; ++i) field[i] = get64(section + 8 * i);
  const uint64_t count = field[COUNT / 8], arena = field[ARENA / 8], slots = field[SLOTS / 8], room = (uint64_t)bytes - EMBED__STORED_HEAD;
  *at = COUNT;
  *why = "has not the size that its counts ask for";
  if (count > ID_MASK >> 1 || count > room / 8 || arena > room || slots > room / 8) return false;
  if (8 * (count + 1) + 8 * slots + arena != room) return false;
  *at = SLOTS;
  *why = "has a number of slots that is no power of two above its count";
  if (slots < 2 || (slots & (slots - 1)) != 0 || slots <= count) return false;
  *at = REPEATED;
  *why = "repeats or leaves empty more tokens than it has";
  if (field[REPEATED / 8] > count || field[EMPTY / 8] > count) return false;
  *at = ZERO;
  *why = "holds something that this version does not know";
  if (field[ZERO / 8] != 0) return false;
  out->offsets = section + EMBED__STORED_HEAD;
  out->slots = out->offsets + 8 * (count + 1);
  out->arena = out->slots + 8 * slots;
  out->count = (int64_t)count;
  out->arena_bytes = (int64_t)arena;
  out->slot_mask = slots - 1;
  out->key[0] = field[KEY_0 / 8];
  out->key[1] = field[KEY_1 / 8];
  out->repeated = (int64_t)field[REPEATED / 8];
  out->empty = (int64_t)field[EMPTY / 8];
  return true;
}

const char *embed__stored_get(const embed__stored_tokens *t, int64_t id, int64_t *bytes) {
  if (id < 0 || id >= t->count) return NULL;
  const uint64_t begin = get64(t->offsets + 8 * id), end = get64(t->offsets + 8 * (id + 1));
  if (begin >= end || end > (uint64_t)t->arena_bytes || t->arena[end - 1] != '\0') return NULL;
  *bytes = (int64_t)(end - 1 - begin);
  return (const char *)t->arena + begin;
}

int64_t embed__stored_find(const embed__stored_tokens *t, const void *token, int64_t bytes) {
  const uint64_t hash = embed__siphash(t->key, token, bytes);
  for (uint64_t i = 0; i < EMBED__STORED_PROBES && i <= t->slot_mask; ++i) {
    const uint64_t slot = get64(t->slots + 8 * ((hash + i) & t->slot_mask));
    if (slot == 0) return -1;
    if (((slot ^ hash) & ~ID_MASK) != 0) continue;
    int64_t length, id = (int64_t)(slot & ID_MASK) - 1;
    const char *stored = embed__stored_get(t, id, &length);
    if (stored && length == bytes && (bytes == 0 || memcmp(stored, token, (size_t)bytes) == 0)) return id;
  }
  return -1;
}

int64_t embed__stored_bytes(int64_t count, int64_t arena_bytes) {
  int64_t bytes;
  if (count < 0 || (uint64_t)count > ID_MASK >> 1) return -1;
  if (!embed__mul(count + 1 + (int64_t)slots_for(count), 8, &bytes) || !embed__add(bytes, arena_bytes, &bytes)) return -1;
  return embed__add(bytes, EMBED__STORED_HEAD, &bytes) ? bytes : -1;
}

/* False: some token finds no slot within the probes. */
static bool fill_slots(embed__stored_tokens *t, unsigned char *slots) {
  memset(slots, 0, (size_t)(t->slot_mask + 1) * 8);
  t->repeated = 0;
  for (int64_t id = 0; id < t->count; ++id) {
    int64_t bytes;
    const char *token = embed__stored_get(t, id, &bytes);
    if (!token) continue;
    if (embed__stored_find(t, token, bytes) >= 0) {
      ++t->repeated;
      continue;
    }
    const uint64_t hash = embed__siphash(t->key, token, bytes);
    uint64_t i = 0;
    while (i < EMBED__STORED_PROBES && i <= t->slot_mask && get64(slots + 8 * ((hash + i) & t->slot_mask)) != 0) ++i;
    if (i == EMBED__STORED_PROBES || i > t->slot_mask) return false;
    put64(slots + 8 * ((hash + i) & t->slot_mask), (hash & ~ID_MASK) | (uint64_t)(id + 1));
  }
  return true;
}

bool embed__stored_build(unsigned char *section, int64_t bytes, int64_t count, const embed__token_span *spans, const char *text) {
  unsigned char *offsets = section + EMBED__STORED_HEAD, *slots = offsets + 8 * (count + 1);
  embed__stored_tokens t = {.offsets = offsets, .slots = slots, .count = count, .slot_mask = slots_for(count) - 1};
  unsigned char *arena = slots + 8 * (t.slot_mask + 1);
  t.arena = arena;
  t.arena_bytes = section + bytes - arena;
  int64_t at = 0;
  for (int64_t id = 0; id < count; ++id) {
    put64(offsets + 8 * id, (uint64_t)at);
    if (spans[id].bytes < 0) continue;
    if (spans[id].bytes > 0) memcpy(arena + at, text + spans[id].begin, (size_t)spans[id].bytes);
    at += spans[id].bytes;
    arena[at++] = '\0';
    t.empty += spans[id].bytes == 0;
  }
  put64(offsets + 8 * count, (uint64_t)at);
  /* The key follows from the tokens, so that the same tokens give the same file, and who chooses tokens that collide has
   * chosen another key. */
  bool spread = false;
  for (uint64_t i = 0; i < KEYS && !spread; ++i) {
    t.key[0] = embed__siphash((const uint64_t[2]){i, 0}, arena, at);
    t.key[1] = embed__siphash((const uint64_t[2]){i, 1}, arena, at);
    spread = fill_slots(&t, slots);
  }
  memset(section, 0, EMBED__STORED_HEAD);
  put64(section + COUNT, (uint64_t)count);
  put64(section + ARENA, (uint64_t)t.arena_bytes);
  put64(section + SLOTS, t.slot_mask + 1);
  put64(section + KEY_0, t.key[0]);
  put64(section + KEY_1, t.key[1]);
  put64(section + REPEATED, (uint64_t)t.repeated);
  put64(section + EMPTY, (uint64_t)t.empty);
  return spread;
}
