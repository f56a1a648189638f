/* SPDX-License-Identifier: BSD-3-Clause */
/* torch.save before PyTorch 1.6, and since then with _use_new_zipfile_serialization=False (torch/serialization.py, _legacy_save). Pickles
 * one behind the other: a magic number, the version of the protocol, the writer's machine, what was saved, the names of its storages;
 * then the storages in this order: how many elements, and they, little-endian whatever the machine. */
#include "io/torch.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/scratch.h"
#include "io/cursor.h"

enum { HEADS = 3, COUNT = 8 /* bytes of the number of elements */ };

/* The magic number as each protocol pickles it; 4 and 5 frame it. */
static const unsigned char NUMBER[] = {0x8A, 10, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19, '.'};
enum { NUMBER_BYTES = sizeof NUMBER, FRAME = 9 };

bool embed__torch_is_old(const unsigned char *data, int64_t bytes) {
  if (bytes < 2 + FRAME + NUMBER_BYTES || data[0] != 0x80 || data[1] < 2 || data[1] > 5) return false;
  return memcmp(data + 2 + (data[2] == 0x95 ? FRAME : 0), NUMBER, NUMBER_BYTES) == 0;
}

/* Reads the pickle at byte *at, afterwards the byte behind it. p: zeroed, but for context and label. */
static embed_status read_pickle(embed__torch *t, embed__pickle *p, int64_t *at) {
  const embed__map *map = &t->f->map;
  if (*at == map->bytes)
    return embed__fail(t->ctx, EMBED_E_FORMAT, *at, "%s: the file ends at byte %" PRId64 " where a pickle should begin: it was cut short", t->f->label, *at);
  p->text = map->data + *at;
  p->base = *at;
  p->bytes = embed__min(map->bytes - *at, embed__min(embed__header_limit(t->o), INT32_MAX));
  EMBED__TRY(embed__pickle_read(p));
  *at += p->at;
  return EMBED_OK;
}

/* One that decides nothing. */
static embed_status skip_pickle(embed__torch *t, int64_t *at) {
  embed__pickle p = {.ctx = t->ctx, .label = t->f->label};
  const embed_status status = read_pickle(t, &p, at);
  embed__pickle_free(&p);
  return status;
}

/* The names of the storages, in the order in which they lie behind the pickles. */
static embed_status take_keys(embed__torch *t, const embed__pickle *p) {
  int64_t count = 0, bytes = 0;
  const embed__pickle_box *list = p->root.kind == EMBED__PICKLE_BOX ? &p->boxes[p->root.place] : NULL;
  if (!list || !list->list) return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "has no list of storages");
  for (uint32_t i = list->first; i; i = p->entries[i - 1].next, ++count) {
    const embed__pickle_value *key = &p->entries[i - 1].value;
    if (key->kind != EMBED__PICKLE_TEXT || key->count > EMBED__TORCH_KEY)
      return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "has a storage whose name is no text, or too long");
    bytes += key->count;
  }
  EMBED__TRY(embed__tokens_new(t->ctx, count, bytes, &t->keys));
  for (uint32_t i = list->first; i; i = p->entries[i - 1].next)
    embed__tokens_add(t->keys, p->text + p->entries[i - 1].value.place, p->entries[i - 1].value.count);
  if (embed__tokens_repeated(t->keys)) return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "has a storage twice");
  return EMBED_OK;
}

static embed_status read_keys(embed__torch *t, int64_t *at) {
  embed__pickle p = {.ctx = t->ctx, .label = t->f->label, .every_value = true};
  embed_status status = read_pickle(t, &p, at);
  if (status == EMBED_OK) status = take_keys(t, &p);
  embed__pickle_free(&p);
  return status;
}

/* How wide elements are only the tensors say. */
static embed_status measure_elements(embed__torch *t) {
  const embed__pickle *p = &t->pickle;
  for (int64_t i = 0; i < p->storage_count; ++i) {
    const embed__pickle_value *stored = &p->storages[i], *key = &p->items[stored->place];
    const int64_t k = embed__tokens_find(t->keys, p->text + key->place, key->count), width = embed__pickle_types[stored->count].bytes;
    if (k < 0) continue; /* the tensor is refused by its name when it is read */
    if (t->storages[k].bytes && t->storages[k].bytes != width) return embed__pickle_fail(p, EMBED_E_FORMAT, key->place, "has one storage of two types");
    t->storages[k].bytes = width;
  }
  return EMBED_OK;
}

static embed_status place_storages(embed__torch *t, int64_t at) {
  embed__cursor in = embed__cursor_of(t->ctx, t->f);
  const int64_t count = embed__tokens_count(t->keys);
  in.at = at;
  EMBED__TRY(embed__check_room(&in, count, COUNT, "storages"));
  EMBED__TRY(embed__scratch_get(t->ctx, count, sizeof *t->storages, &t->storages));
  if (count) memset(t->storages, 0, (size_t)count * sizeof *t->storages);
  EMBED__TRY(measure_elements(t));
  for (int64_t k = 0; k < count; ++k) {
    embed__torch_storage *s = &t->storages[k];
    int64_t elements, bytes;
    EMBED__TRY(embed__take_i64(&in, "a storage", &elements));
    if (!s->bytes)
      return embed__fail(t->ctx, EMBED_E_FORMAT, in.at - COUNT, "%s: storage %" PRId64 " at byte %" PRId64 " is of no tensor", t->f->label, k, in.at - COUNT);
    if (!embed__mul(elements, s->bytes, &bytes))
      return embed__fail(t->ctx, EMBED_E_OVERFLOW, in.at - COUNT, "%s: storage %" PRId64 " at byte %" PRId64 " has %" PRId64 " elements", t->f->label, k,
                         in.at - COUNT, elements);
    EMBED__TRY(embed__need(&in, bytes, "the elements of a storage"));
    *s = (embed__torch_storage){.at = in.at, .bytes = bytes};
    in.at += bytes;
  }
  return in.at == in.end ? EMBED_OK : embed__file_note(t->ctx, t->f, in.end - in.at, "bytes behind the last storage are not read");
}

static embed_status find_storage(embed__torch *t, const char *key, int64_t key_bytes, embed__torch_storage *out, bool *found) {
  const int64_t k = embed__tokens_find(t->keys, key, key_bytes);
  *found = k >= 0;
  if (*found) *out = t->storages[k];
  return EMBED_OK;
}

embed_status embed__torch_old_read(embed__torch *t) {
  int64_t at = 0;
  t->find = find_storage;
  for (int i = 0; i < HEADS; ++i) EMBED__TRY(skip_pickle(t, &at));
  t->pickle.every_value = true; /* Python 2 made dicts of pairs */
  EMBED__TRY(read_pickle(t, &t->pickle, &at));
  EMBED__TRY(read_keys(t, &at));
  return place_storages(t, at);
}
