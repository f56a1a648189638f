/* SPDX-License-Identifier: BSD-3-Clause */
/* Python's Lib/pickletools.py says what each opcode does; torch/serialization.py and torch/_utils.py what torch puts there. */
#include "io/pickle.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/file.h"

typedef embed__pickle_value value;

const embed__pickle_type embed__pickle_types[] = {
#define NAME(module, name, kind)
#define TYPE(storage, name, bytes, dtype) {storage, name, bytes, dtype},
#include "io/pickle.def"
#undef TYPE
#undef NAME
};
enum { TYPES = sizeof embed__pickle_types / sizeof *embed__pickle_types };

static const struct {
  const char *module, *name;
  uint32_t kind;
} names[] = {
#define NAME(module, name, kind) {module, name, kind},
#define TYPE(storage, name, bytes, dtype)
#include "io/pickle.def"
#undef TYPE
#undef NAME
};
enum { NAMES = sizeof names / sizeof *names };

embed_status embed__pickle_fail(const embed__pickle *p, embed_status status, int64_t at, const char *what) {
  return embed__fail(p->ctx, status, p->base + at, "%s: the pickle %s at byte %" PRId64, p->label, what, p->base + at);
}

/* Of the opcode that is run. */
static embed_status fail(const embed__pickle *p, const char *what) { return embed__pickle_fail(p, EMBED_E_FORMAT, p->at, what); }

/* --- What grows */

/* An array of `room` elements of `size` bytes is made `needed` or more; what is new is zero. */
static embed_status grow(const embed__pickle *p, void *array_pointer, int64_t *room, int64_t needed, size_t size) {
  enum { FIRST = 64 };
  void *old;
  if (needed <= *room) return EMBED_OK;
  memcpy(&old, array_pointer, sizeof old);
  const int64_t most = size == sizeof(value) ? 2 * p->bytes : p->bytes; /* nearly always: of an opcode's items, beside those taken off the stack; else one */
  const int64_t doubled = needed > most ? 2 * *room : embed__min(2 * *room, most); /* one by one, what pairs make of a list would take its square */
  const int64_t wanted = embed__max(embed__max(needed, FIRST), doubled);
  if (wanted > PTRDIFF_MAX / (int64_t)size) return embed__out_of_memory(p->ctx, wanted * (int64_t)size);
  unsigned char *made = embed__allocate(&p->ctx->memory, (size_t)wanted * size, EMBED__ALIGNMENT);
  if (!made) return embed__out_of_memory(p->ctx, wanted * (int64_t)size);
  const size_t kept = (size_t)*room * size;
  if (kept) memcpy(made, old, kept);
  memset(made + kept, 0, (size_t)wanted * size - kept);
  embed__free(&p->ctx->memory, old, kept, EMBED__ALIGNMENT);
  memcpy(array_pointer, &made, sizeof made);
  *room = wanted;
  return EMBED_OK;
}

static embed_status push(embed__pickle *p, uint32_t kind, int64_t count, int64_t place) {
  EMBED__TRY(grow(p, &p->stack, &p->stack_room, p->stack_count + 1, sizeof *p->stack));
  p->stack[p->stack_count++] = (value){.kind = kind, .count = (uint32_t)count, .place = place};
  return EMBED_OK;
}

static embed_status push_value(embed__pickle *p, value v) { return push(p, v.kind, v.count, v.place); }

static embed_status pop(embed__pickle *p, value *v) {
  if (p->stack_count == 0 || p->stack[p->stack_count - 1].kind == EMBED__PICKLE_MARK) return fail(p, "takes a value that nobody put on its stack");
  *v = p->stack[--p->stack_count];
  return EMBED_OK;
}

/* The values behind the last mark: stack[*first .. stack_count). */
static embed_status find_mark(const embed__pickle *p, int64_t *first) {
  int64_t at = p->stack_count;
  while (at > 0 && p->stack[at - 1].kind != EMBED__PICKLE_MARK) --at;
  *first = at;
  return at > 0 ? EMBED_OK : fail(p, "takes values down to a mark that is not there");
}

static embed_status push_box(embed__pickle *p, bool list) {
  EMBED__TRY(grow(p, &p->boxes, &p->box_room, p->box_count + 1, sizeof *p->boxes));
  p->boxes[p->box_count] = (embed__pickle_box){.list = list};
  return push(p, EMBED__PICKLE_BOX, 0, p->box_count++);
}

static embed_status push_object(embed__pickle *p) {
  EMBED__TRY(push_box(p, false));
  p->boxes[p->box_count - 1].object = true;
  ++p->objects;
  return EMBED_OK;
}

/* The top `count` values become a tuple in the place of themselves and what lies between them and stack[below]. */
static embed_status push_tuple(embed__pickle *p, int64_t first, int64_t below) {
  const int64_t count = p->stack_count - first, place = p->item_count + 1;
  for (int64_t i = first; i < p->stack_count; ++i)
    if (p->stack[i].kind == EMBED__PICKLE_MARK) return fail(p, "makes a tuple of a mark");
  EMBED__TRY(grow(p, &p->items, &p->item_room, place + count, sizeof *p->items));
  p->items[p->item_count] = (value){.place = -1};
  if (count) memcpy(p->items + place, p->stack + first, (size_t)count * sizeof *p->items);
  p->item_count = place + count;
  p->stack_count = below;
  return push(p, EMBED__PICKLE_TUPLE, count, place);
}

/* --- Containers */

static bool may_hold_tensors(value v) {
  return v.kind == EMBED__PICKLE_BOX || v.kind == EMBED__PICKLE_TENSOR || (v.kind == EMBED__PICKLE_TUPLE && v.count > 0);
}

static embed_status put(embed__pickle *p, const value *box, value key, value v) {
  embed__pickle_box *of = &p->boxes[box->place];
  if (of->list) key = (value){.kind = EMBED__PICKLE_INT, .place = of->count++};
  if (!p->every_value && !may_hold_tensors(v)) return EMBED_OK;
  EMBED__TRY(grow(p, &p->entries, &p->entry_room, p->entry_count + 1, sizeof *p->entries));
  p->entries[p->entry_count++] = (embed__pickle_entry){.key = key, .value = v};
  if (of->last)
    p->entries[of->last - 1].next = (uint32_t)p->entry_count;
  else
    of->first = (uint32_t)p->entry_count;
  of->last = (uint32_t)p->entry_count;
  return EMBED_OK;
}

/* Its count too: what is put in afterwards would be taken for the entries behind those that are gone. */
static void empty(embed__pickle_box *box) { box->first = box->last = box->count = 0; }

/* stack[first .. ) into the container stack[target]; what lies above the container goes. Sets and their like take anything. */
static embed_status fill(embed__pickle *p, int64_t target, int64_t first, bool pairs) {
  if (target < 0) return fail(p, "fills a container that is not there");
  const value box = p->stack[target];
  const int64_t count = p->stack_count - first;
  const bool is_box = box.kind == EMBED__PICKLE_BOX;
  if (pairs && count % 2) return fail(p, "has a key without a value");
  if (is_box ? p->boxes[box.place].list == pairs : box.kind != EMBED__PICKLE_PLAIN) return fail(p, "fills what is no such container");
  for (int64_t i = first; is_box && i < p->stack_count; i += 1 + pairs) EMBED__TRY(put(p, &box, p->stack[i], p->stack[i + pairs]));
  p->stack_count = target + 1;
  return EMBED_OK;
}

static embed_status fill_from_mark(embed__pickle *p, bool pairs) {
  int64_t first;
  EMBED__TRY(find_mark(p, &first));
  return fill(p, first - 2, first, pairs);
}

/* The top one or two values. */
static embed_status fill_one(embed__pickle *p, bool pairs) {
  const int64_t first = p->stack_count - 1 - pairs;
  for (int64_t i = embed__max(first, 0); i < p->stack_count; ++i)
    if (p->stack[i].kind == EMBED__PICKLE_MARK) return fail(p, "puts a mark into a container");
  return fill(p, first - 1, first, pairs);
}

/* DICT and LIST: a container of what lies behind the mark, in its place. */
static embed_status box_from_mark(embed__pickle *p, bool list) {
  int64_t first;
  EMBED__TRY(find_mark(p, &first));
  const value box = {.kind = EMBED__PICKLE_BOX, .place = p->box_count};
  EMBED__TRY(grow(p, &p->boxes, &p->box_room, p->box_count + 1, sizeof *p->boxes));
  p->boxes[p->box_count++] = (embed__pickle_box){.list = list};
  if (!list && (p->stack_count - first) % 2) return fail(p, "has a key without a value");
  for (int64_t i = first; i < p->stack_count; i += list ? 1 : 2) EMBED__TRY(put(p, &box, p->stack[i], p->stack[list ? i : i + 1]));
  p->stack_count = first - 1;
  return push_value(p, box);
}

embed_status embed__pickle_box_of(embed__pickle *p, const value *tuple, int64_t *box) {
  *box = p->items[tuple->place - 1].place;
  if (*box >= 0) return EMBED_OK;
  const value made = {.kind = EMBED__PICKLE_BOX, .place = p->box_count};
  EMBED__TRY(grow(p, &p->boxes, &p->box_room, p->box_count + 1, sizeof *p->boxes));
  p->boxes[p->box_count++] = (embed__pickle_box){.list = true};
  for (uint32_t i = 0; i < tuple->count; ++i) EMBED__TRY(put(p, &made, made, p->items[tuple->place + i]));
  *box = p->items[tuple->place - 1].place = made.place;
  return EMBED_OK;
}

/* --- Names */

static bool same(const embed__pickle *p, int64_t at, int64_t bytes, const char *s) {
  return (size_t)bytes == strlen(s) && memcmp(p->text + at, s, (size_t)bytes) == 0;
}

/* "torch.FloatStorage", "torch.storage.UntypedStorage": a storage; "torch.float8_e4m3fn": a type. -1 = neither */
static int64_t find_type(const embed__pickle *p, int64_t module, int64_t module_bytes, int64_t name, int64_t bytes, bool *storage) {
  const bool torch = same(p, module, module_bytes, "torch"), below = same(p, module, module_bytes, "torch.storage");
  for (int64_t i = 0; i < TYPES && (torch || below); ++i) {
    *storage = embed__pickle_types[i].storage && same(p, name, bytes, embed__pickle_types[i].storage);
    if (*storage || (torch && same(p, name, bytes, embed__pickle_types[i].name))) return i;
  }
  return -1;
}

/* "__torch__", "__torch__.model": where TorchScript puts the classes that it compiled, whose code lies beside the pickle. */
static bool is_script(const embed__pickle *p, int64_t module, int64_t module_bytes) {
  static const char script[] = "__torch__.";
  const int64_t bytes = (int64_t)sizeof script - 1;
  return same(p, module, module_bytes, "__torch__") || (module_bytes >= bytes && same(p, module, bytes, script));
}

static embed_status push_name(embed__pickle *p, int64_t module, int64_t module_bytes, int64_t name, int64_t bytes) {
  enum { SHOWN = 100 };
  for (int64_t i = 0; i < NAMES; ++i)
    if (same(p, module, module_bytes, names[i].module) && same(p, name, bytes, names[i].name))
      return names[i].kind == EMBED__PICKLE_PLAIN ? push(p, EMBED__PICKLE_NAME, 0, i) : push(p, names[i].kind, 0, i);
  if (is_script(p, module, module_bytes)) return push(p, EMBED__PICKLE_CLASS, 0, 0);
  bool storage = false;
  const int64_t type = find_type(p, module, module_bytes, name, bytes, &storage);
  if (type >= 0) return push(p, EMBED__PICKLE_TYPE, storage, type);
  char shown[2][SHOWN + 1] = {"", ""};
  memcpy(shown[0], p->text + module, (size_t)embed__min(module_bytes, SHOWN));
  memcpy(shown[1], p->text + name, (size_t)embed__min(bytes, SHOWN));
  for (int i = 0; i < 2; ++i)
    for (char *at = shown[i]; *at; ++at)
      if ((unsigned char)*at < 32 || *at == 127) *at = '?'; /* a terminal may read it */
  return embed__fail(p->ctx, EMBED_E_UNSUPPORTED, p->base + p->at,
                     "%s: the pickle asks for %s.%s at byte %" PRId64 ", which is no part of a tensor: nothing of a file is ever run; a state dict alone opens",
                     p->label, shown[0], shown[1], p->base + p->at);
}

/* GLOBAL: two lines behind the opcode. */
static embed_status read_name(embed__pickle *p, int64_t *next) {
  int64_t place[2], bytes[2];
  for (int i = 0; i < 2; ++i) {
    const unsigned char *end = *next < p->bytes ? memchr(p->text + *next, '\n', (size_t)(p->bytes - *next)) : NULL;
    if (!end) return embed__pickle_fail(p, EMBED_E_FORMAT, p->bytes, "ends in the middle of a name: it was cut short");
    place[i] = *next;
    bytes[i] = end - p->text - *next;
    *next += bytes[i] + 1;
  }
  return push_name(p, place[0], bytes[0], place[1], bytes[1]);
}

static embed_status stack_name(embed__pickle *p) {
  value name = {0}, module = {0};
  EMBED__TRY(pop(p, &name));
  EMBED__TRY(pop(p, &module));
  if (name.kind != EMBED__PICKLE_TEXT || module.kind != EMBED__PICKLE_TEXT) return fail(p, "asks for a name that is no text");
  return push_name(p, module.place, module.count, name.place, name.count);
}

/* --- What would be calls */

/* ('storage', torch.FloatStorage, '0', 'cpu', 12): the file's own way to name the bytes of a tensor. Before PyTorch 1.6 a sixth part said
 * which piece of another storage it is; None is none. */
static embed_status find_storage(embed__pickle *p) {
  value id = {0};
  EMBED__TRY(pop(p, &id));
  const value *item = id.kind == EMBED__PICKLE_TUPLE && (id.count == 5 || id.count == 6) ? p->items + id.place : NULL;
  if (!item || item[0].kind != EMBED__PICKLE_TEXT || !same(p, item[0].place, item[0].count, "storage") || item[1].kind != EMBED__PICKLE_TYPE ||
      item[1].count != 1 || item[2].kind != EMBED__PICKLE_TEXT || item[3].kind != EMBED__PICKLE_TEXT || item[4].kind != EMBED__PICKLE_INT ||
      item[4].place < 0 || (id.count == 6 && item[5].kind != EMBED__PICKLE_PLAIN))
    return fail(p, "names a storage otherwise than as (\"storage\", type, member, device, elements)");
  const value stored[2] = {item[2], item[4]};
  const int64_t type = item[1].place, place = p->item_count;
  EMBED__TRY(grow(p, &p->items, &p->item_room, place + 2, sizeof *p->items));
  memcpy(p->items + place, stored, sizeof stored);
  p->item_count += 2;
  EMBED__TRY(push(p, EMBED__PICKLE_STORED, type, place));
  EMBED__TRY(grow(p, &p->storages, &p->storage_room, p->storage_count + 1, sizeof *p->storages));
  p->storages[p->storage_count++] = p->stack[p->stack_count - 1];
  return EMBED_OK;
}

/* MOST: torch has no more, and a long tuple may be shown again and again for two bytes each. */
static bool all_numbers(const embed__pickle *p, const value *tuple) {
  enum { MOST = 64 };
  if (tuple->kind != EMBED__PICKLE_TUPLE || tuple->count > MOST) return false;
  for (uint32_t i = 0; i < tuple->count; ++i)
    if (p->items[tuple->place + i].kind != EMBED__PICKLE_INT || p->items[tuple->place + i].place < 0) return false;
  return true;
}

/* (storage, offset, shape, strides, requires_grad, hooks, metadata); v3 has (..., hooks, type, metadata). */
static embed_status rebuild(embed__pickle *p, const value *call, const value *arguments) {
  const bool typed = call->kind == EMBED__PICKLE_REBUILD_TYPED;
  const uint32_t count = arguments->count;
  if (typed ? count < 7 || count > 8 : count < 4 || count > 7) return fail(p, "rebuilds a tensor from another number of parts than it has");
  const value *a = p->items + arguments->place;
  if (a[0].kind != EMBED__PICKLE_STORED || a[1].kind != EMBED__PICKLE_INT || a[1].place < 0 || !all_numbers(p, &a[2]) || !all_numbers(p, &a[3]) ||
      a[2].count != a[3].count || (typed && (a[6].kind != EMBED__PICKLE_TYPE || a[6].count != 0)))
    return fail(p, "rebuilds a tensor from what is no storage, offset, shape and strides");
  return push(p, EMBED__PICKLE_TENSOR, typed ? 7 : 4, arguments->place);
}

/* (rebuild, class, what rebuild is called with, attributes): a tensor of a class of its own. */
static embed_status rebuild_class(embed__pickle *p, const value *arguments) {
  const value *a = arguments->count >= 3 ? p->items + arguments->place : NULL;
  if (!a || (a[0].kind != EMBED__PICKLE_REBUILD && a[0].kind != EMBED__PICKLE_REBUILD_TYPED) || a[2].kind != EMBED__PICKLE_TUPLE)
    return fail(p, "rebuilds a tensor of a class from what is no tensor");
  return rebuild(p, &a[0], &a[2]);
}

/* Python 2's way to pickle an OrderedDict: a list of lists of two. It is emptied, so that no second one is made of it for six bytes. */
static embed_status dict_of_pairs(embed__pickle *p, value list) {
  if (!p->every_value || list.kind != EMBED__PICKLE_BOX || !p->boxes[list.place].list)
    return embed__pickle_fail(p, EMBED_E_UNSUPPORTED, p->at, "makes an OrderedDict of a list");
  EMBED__TRY(push_box(p, false));
  const value made = p->stack[p->stack_count - 1];
  uint32_t next = p->boxes[list.place].first;
  empty(&p->boxes[list.place]);
  while (next) {
    const value pair = p->entries[next - 1].value;
    const embed__pickle_box *two = pair.kind == EMBED__PICKLE_BOX ? &p->boxes[pair.place] : NULL;
    if (!two || !two->list || two->count != 2) return fail(p, "makes an OrderedDict of what are no pairs");
    const embed__pickle_entry key = p->entries[two->first - 1], held = p->entries[key.next - 1];
    EMBED__TRY(put(p, &made, key.value, held.value));
    next = p->entries[next - 1].next;
  }
  return EMBED_OK;
}

static embed_status reduce(embed__pickle *p) {
  value arguments = {0}, call = {0};
  EMBED__TRY(pop(p, &arguments));
  EMBED__TRY(pop(p, &call));
  if (call.kind == EMBED__PICKLE_CLASS) return push_object(p); /* of whatever: an enumeration's is its value alone */
  if (arguments.kind != EMBED__PICKLE_TUPLE) return fail(p, "calls with what is no tuple");
  const value *first = arguments.count ? p->items + arguments.place : NULL;
  switch (call.kind) {
    case EMBED__PICKLE_REBUILD:
    case EMBED__PICKLE_REBUILD_TYPED: return rebuild(p, &call, &arguments);
    case EMBED__PICKLE_PARAMETER:
      if (!first || first->kind != EMBED__PICKLE_TENSOR) return fail(p, "makes a parameter of what is no tensor");
      return push_value(p, *first);
    case EMBED__PICKLE_FIRST: return first ? push_value(p, *first) : fail(p, "marks the type of nothing");
    case EMBED__PICKLE_REBUILD_CLASS: return rebuild_class(p, &arguments);
    case EMBED__PICKLE_DICT_TYPE: return first ? dict_of_pairs(p, *first) : push_box(p, false);
    case EMBED__PICKLE_FILLED_DICT_TYPE: return push_box(p, false);
    case EMBED__PICKLE_OTHER_TENSOR: ++p->other_tensors; return push(p, EMBED__PICKLE_PLAIN, 0, 0);
    case EMBED__PICKLE_NAME: return push(p, EMBED__PICKLE_PLAIN, 0, 0);
    default: return fail(p, "calls what is no name of pickle.def");
  }
}

/* An object's attributes are those of its dict, or the parts of whatever else was kept of it. They are taken out of it: were they shared,
 * three bytes could put all of them anywhere once more. */
static embed_status set_attributes(embed__pickle *p, int64_t object, value state) {
  int64_t from = state.place;
  if (state.kind == EMBED__PICKLE_TENSOR) return put(p, &(value){.kind = EMBED__PICKLE_BOX, .place = object}, (value){.kind = EMBED__PICKLE_INT}, state);
  if (state.kind == EMBED__PICKLE_TUPLE && state.count > 0)
    EMBED__TRY(embed__pickle_box_of(p, &state, &from));
  else if (state.kind != EMBED__PICKLE_BOX)
    return EMBED_OK;
  embed__pickle_box *to = &p->boxes[object], *taken = &p->boxes[from];
  if (to == taken || !taken->first) return EMBED_OK;
  if (to->last)
    p->entries[to->last - 1].next = taken->first;
  else
    to->first = taken->first;
  to->last = taken->last;
  empty(taken);
  return EMBED_OK;
}

/* Attributes of a dict (torch's _metadata) and of plain values are dropped. */
static embed_status build(embed__pickle *p) {
  value state = {0};
  EMBED__TRY(pop(p, &state));
  if (p->stack_count == 0) return fail(p, "sets attributes of nothing");
  const value *built = &p->stack[p->stack_count - 1];
  const uint32_t kind = built->kind;
  if (kind == EMBED__PICKLE_BOX && p->boxes[built->place].object) return set_attributes(p, built->place, state);
  return kind == EMBED__PICKLE_BOX || kind == EMBED__PICKLE_PLAIN ? EMBED_OK : fail(p, "sets attributes of what has none");
}

/* --- The memo */

static embed_status memoize(embed__pickle *p, int64_t index) {
  if (p->stack_count == 0 || p->stack[p->stack_count - 1].kind == EMBED__PICKLE_MARK) return fail(p, "keeps a value that is not there");
  if (index >= p->bytes) return fail(p, "keeps a value at a place past its own length");
  EMBED__TRY(grow(p, &p->memo, &p->memo_room, index + 1, sizeof *p->memo));
  p->memo_count += p->memo[index].kind == EMBED__PICKLE_UNSET;
  p->memo[index] = p->stack[p->stack_count - 1];
  return EMBED_OK;
}

static embed_status recall(embed__pickle *p, int64_t index) {
  if (index >= p->memo_room || p->memo[index].kind == EMBED__PICKLE_UNSET) return fail(p, "takes a value that was never kept");
  return push_value(p, p->memo[index]);
}

/* --- Opcodes */

/* What stands behind an opcode: a number of so many bytes, and so many bytes more where it is a length. */
typedef struct shape {
  unsigned char code, width;
  bool length;
} shape;
static const shape shapes[] = {
    {0x80, 1, 0}, {'J', 4, 0}, {'K', 1, 0}, {'M', 2, 0},  {0x8A, 1, 1}, {0x8B, 4, 1}, {'G', 8, 0}, {'X', 4, 1}, {0x8C, 1, 1}, {0x8D, 8, 1}, {'T', 4, 1},
    {'U', 1, 1},  {'B', 4, 1}, {'C', 1, 1}, {0x8E, 8, 1}, {0x96, 8, 1}, {'q', 1, 0},  {'r', 4, 0}, {'h', 1, 0}, {'j', 4, 0},  {0x95, 8, 0},
};

/* *next: behind the opcode, afterwards behind all that belongs to it. */
static embed_status read_argument(const embed__pickle *p, unsigned char code, int64_t *next, uint64_t *number, int64_t *bytes) {
  size_t i = 0;
  *number = 0;
  *bytes = 0;
  while (i < sizeof shapes / sizeof *shapes && shapes[i].code != code) ++i;
  if (i == sizeof shapes / sizeof *shapes) return EMBED_OK;
  if (p->bytes - *next < shapes[i].width) return embed__pickle_fail(p, EMBED_E_FORMAT, p->bytes, "ends in the middle of an opcode: it was cut short");
  for (int k = 0; k < shapes[i].width; ++k) *number |= (uint64_t)p->text[*next + k] << (8 * k);
  *next += shapes[i].width;
  if (!shapes[i].length) return EMBED_OK;
  if (*number > (uint64_t)(p->bytes - *next)) return fail(p, "has a text or number that runs over its end");
  *bytes = (int64_t)*number;
  *next += *bytes;
  return EMBED_OK;
}

/* Little-endian, two's complement; one that 64 bits do not hold is no size of anything. */
static embed_status push_long(embed__pickle *p, int64_t at, int64_t bytes) {
  uint64_t number = bytes > 0 && p->text[at + bytes - 1] >= 0x80 ? UINT64_MAX : 0;
  if (bytes > 8) return push(p, EMBED__PICKLE_PLAIN, 0, 0);
  for (int64_t i = bytes; i-- > 0;) number = number << 8 | p->text[at + i];
  return push(p, EMBED__PICKLE_INT, 0, (int64_t)number);
}

static embed_status drop(embed__pickle *p) {
  if (p->stack_count == 0) return fail(p, "drops a value that is not there");
  --p->stack_count; /* a mark too: POP takes what is on top */
  return EMBED_OK;
}

static embed_status small_tuple(embed__pickle *p, int64_t count) {
  if (p->stack_count < count) return fail(p, "makes a tuple of values that are not there");
  return push_tuple(p, p->stack_count - count, p->stack_count - count);
}

static embed_status tuple_from_mark(embed__pickle *p) {
  int64_t first;
  EMBED__TRY(find_mark(p, &first));
  return push_tuple(p, first, first - 1);
}

static embed_status drop_to_mark(embed__pickle *p, bool plain) {
  int64_t first;
  EMBED__TRY(find_mark(p, &first));
  p->stack_count = first - 1;
  return plain ? push(p, EMBED__PICKLE_PLAIN, 0, 0) : EMBED_OK;
}

static embed_status duplicate(embed__pickle *p) {
  value top = {0};
  EMBED__TRY(pop(p, &top));
  EMBED__TRY(push_value(p, top));
  return push_value(p, top);
}

static embed_status unknown(const embed__pickle *p, unsigned char code) {
  return embed__fail(p->ctx, EMBED_E_FORMAT, p->base + p->at, "%s: the pickle has opcode 0x%02x at byte %" PRId64 ", which no pickle of tensors has", p->label,
                     code, p->base + p->at);
}

/* Opcodes that make or move values. number: what stands behind the opcode; text: its bytes, `bytes` of them. */
static embed_status run(embed__pickle *p, unsigned char code, uint64_t number, int64_t text, int64_t bytes) {
  switch (code) {
    case 0x80: return number <= 5 ? EMBED_OK : embed__pickle_fail(p, EMBED_E_UNSUPPORTED, p->at, "is of a protocol past 5");
    case 0x95: return EMBED_OK; /* FRAME: how much to read at once */
    case '(': return push(p, EMBED__PICKLE_MARK, 0, 0);
    case 'N':
    case 'G':
    case 0x8F: /* EMPTY_SET */
    case 'B':
    case 'C':
    case 0x8E:
    case 0x96: return push(p, EMBED__PICKLE_PLAIN, 0, 0);
    case 0x88:
    case 0x89: return push(p, EMBED__PICKLE_INT, 0, code == 0x88);
    case 'J': return push(p, EMBED__PICKLE_INT, 0, (int64_t)number - ((int64_t)(number >> 31) << 32));
    case 'K':
    case 'M': return push(p, EMBED__PICKLE_INT, 0, (int64_t)number);
    case 0x8A:
    case 0x8B: return push_long(p, text, bytes);
    case 'X':
    case 'T':
    case 'U':
    case 0x8C:
    case 0x8D: return push(p, EMBED__PICKLE_TEXT, bytes, text);
    case ')': return push(p, EMBED__PICKLE_TUPLE, 0, 0);
    case '}': return push_box(p, false);
    case ']': return push_box(p, true);
    case 't': return tuple_from_mark(p);
    case 0x85:
    case 0x86:
    case 0x87: return small_tuple(p, code - 0x84);
    case 'd': return box_from_mark(p, false);
    case 'l': return box_from_mark(p, true);
    case 's': return fill_one(p, true);
    case 'a': return fill_one(p, false);
    case 'u': return fill_from_mark(p, true);
    case 'e': return fill_from_mark(p, false);
    case 0x90: return drop_to_mark(p, false); /* ADDITEMS: the set stays */
    case 0x91: return drop_to_mark(p, true);  /* FROZENSET */
    case '0': return drop(p);
    case '1': return drop_to_mark(p, false);
    case '2': return duplicate(p);
    case 'q':
    case 'r': return memoize(p, (int64_t)number);
    case 0x94: return memoize(p, p->memo_count);
    case 'h':
    case 'j': return recall(p, (int64_t)number);
    case 0x93: return stack_name(p);
    case 'Q': return find_storage(p);
    case 'R':
    case 0x81: return reduce(p); /* NEWOBJ makes what a call makes */
    case 'b': return build(p);
    default: return unknown(p, code);
  }
}

embed_status embed__pickle_read(embed__pickle *p) {
  if (p->bytes == 0 || p->text[0] != 0x80) return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "does not begin with its protocol");
  for (;;) {
    if (p->at >= p->bytes) return embed__pickle_fail(p, EMBED_E_FORMAT, p->bytes, "ends without its last opcode: it was cut short");
    const unsigned char code = p->text[p->at];
    int64_t next = p->at + 1, bytes;
    uint64_t number;
    if (code == '.') break;
    if (code == 'c') {
      EMBED__TRY(read_name(p, &next));
    } else {
      EMBED__TRY(read_argument(p, code, &next, &number, &bytes));
      EMBED__TRY(run(p, code, number, next - bytes, bytes));
    }
    p->at = next;
  }
  if (p->stack_count != 1) return fail(p, "ends with another number of values than one");
  EMBED__TRY(pop(p, &p->root));
  ++p->at;
  return EMBED_OK;
}

void embed__pickle_free(embed__pickle *p) {
  const embed_allocator *memory = &p->ctx->memory;
  embed__free(memory, p->stack, (size_t)p->stack_room * sizeof *p->stack, EMBED__ALIGNMENT);
  embed__free(memory, p->memo, (size_t)p->memo_room * sizeof *p->memo, EMBED__ALIGNMENT);
  embed__free(memory, p->items, (size_t)p->item_room * sizeof *p->items, EMBED__ALIGNMENT);
  embed__free(memory, p->storages, (size_t)p->storage_room * sizeof *p->storages, EMBED__ALIGNMENT);
  embed__free(memory, p->boxes, (size_t)p->box_room * sizeof *p->boxes, EMBED__ALIGNMENT);
  embed__free(memory, p->entries, (size_t)p->entry_room * sizeof *p->entries, EMBED__ALIGNMENT);
}
