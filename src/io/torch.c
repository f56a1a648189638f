/* SPDX-License-Identifier: BSD-3-Clause */
/* PyTorch's checkpoints (torch/serialization.py). Since 1.6 torch.save makes a zip archive PREFIX/data.pkl, PREFIX/byteorder,
 * PREFIX/data/KEY for each storage; before, one file of pickles (torch_old.c). The pickle names the tensors and says where in a storage each
 * lies; dicts, lists and tuples inside one another give names with dots. torch.jit.save's archives have code beside them, which stays
 * there, and objects in their pickle, whose attributes are read as a dict's values are. */
#include "io/torch.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/scratch.h"
#include "io/format.h"
#include "io/inflate.h"
#include "io/text.h"

enum { DEPTH = 64 /* dicts inside one another */, LONGEST_KEY = 4096 /* of a dict's */, DIGITS = 24 };

static const char PICKLE[] = "/data.pkl";

bool embed__torch_probe(const unsigned char *data, int64_t bytes) { return embed__torch_is_old(data, bytes) || embed__zip_holds(data, bytes, PICKLE); }

typedef struct reader {
  embed__torch t;
  int64_t count, name_bytes, longest; /* of the tensors: the first walk counts, the second fills in */
  int64_t key_bytes;                  /* of all keys that the first walk meets */
  char *name;                         /* [longest], in the second walk */
  int64_t repeated;                   /* containers that are there under several names */
} reader;

/* --- Members of the archive */

static const embed__zip_member *find_member(const embed__torch *t, const char *name, int64_t bytes) {
  memcpy(t->member + t->prefix, name, (size_t)bytes);
  return embed__zip_find(&t->zip, t->member, t->prefix + bytes);
}

/* Its bytes: where they lie, or inflated, once, to memory that the file keeps. */
static embed_status read_member(embed__torch *t, const embed__zip_member *member, embed__torch_storage *out) {
  *out = (embed__torch_storage){.at = member->data, .bytes = member->bytes};
  if (!member->deflated) return EMBED_OK;
  if (!t->inflated) {
    EMBED__TRY(embed__scratch_get(t->ctx, t->zip.count, sizeof *t->inflated, &t->inflated));
    memset(t->inflated, 0, (size_t)t->zip.count * sizeof *t->inflated);
  }
  unsigned char **memory = &t->inflated[member - t->zip.members];
  if (!*memory) {
    const embed__deflated from = embed__zip_deflated(&t->zip, member);
    EMBED__TRY(embed__inflate_justify(t->ctx, &from));
    EMBED__TRY(embed__file_room(t->ctx, t->f, member->bytes, memory));
    EMBED__TRY(embed__inflate_all(t->ctx, &from, *memory));
  }
  out->memory = *memory;
  return EMBED_OK;
}

static const unsigned char *bytes_of(const embed__torch *t, const embed__torch_storage *s) { return s->memory ? s->memory : t->f->map.data + s->at; }

static embed_status find_pickle(embed__torch *t, const embed__zip_member **out) {
  enum { ROOM = 16 };
  for (int64_t i = 0; i < t->zip.count; ++i) {
    const embed__zip_member *member = &t->zip.members[i];
    const char *slash = memchr(member->name, '/', (size_t)member->name_bytes);
    if (!slash || strcmp(slash, PICKLE) != 0) continue;
    t->prefix = slash - member->name + 1;
    EMBED__TRY(embed__scratch_get(t->ctx, t->prefix + EMBED__TORCH_KEY + ROOM, 1, &t->member));
    memcpy(t->member, member->name, (size_t)t->prefix);
    *out = member;
    return EMBED_OK;
  }
  return embed__fail(t->ctx, EMBED_E_FORMAT, 0, "%s: it is a zip archive of %" PRId64 " members, none of them the data.pkl of a PyTorch checkpoint",
                     t->f->label, t->zip.count);
}

static embed_status read_byte_order(embed__torch *t) {
  enum { LONGEST = 6 };
  const embed__zip_member *member = find_member(t, "byteorder", 9);
  embed__torch_storage order;
  if (!member) return EMBED_OK; /* PyTorch before 2.1: little-endian */
  if (member->bytes <= LONGEST) {
    EMBED__TRY(read_member(t, member, &order));
    t->big_endian = order.bytes == 3 && memcmp(bytes_of(t, &order), "big", 3) == 0;
    if (t->big_endian || (order.bytes == LONGEST && memcmp(bytes_of(t, &order), "little", LONGEST) == 0)) return EMBED_OK;
  }
  return embed__zip_fail(&t->zip, member, EMBED_E_FORMAT, member->data, "says neither little nor big");
}

static embed_status find_in_archive(embed__torch *t, const char *key, int64_t key_bytes, embed__torch_storage *out, bool *found) {
  char name[5 + EMBED__TORCH_KEY];
  memcpy(name, "data/", 5);
  memcpy(name + 5, key, (size_t)key_bytes);
  const embed__zip_member *member = find_member(t, name, 5 + key_bytes);
  *found = member != NULL;
  return member ? read_member(t, member, out) : EMBED_OK;
}

static embed_status check_sums(const embed__torch *t) {
  for (int64_t i = 0; i < t->zip.count; ++i)
    if (!t->zip.members[i].deflated) EMBED__TRY(embed__zip_check_sum(&t->zip, &t->zip.members[i])); /* the others' are, always */
  return EMBED_OK;
}

static embed_status read_archive(embed__torch *t) {
  const embed__zip_member *member = NULL;
  embed__torch_storage text;
  t->find = find_in_archive;
  EMBED__TRY(embed__zip_open(t->ctx, t->f, &t->zip));
  EMBED__TRY(find_pickle(t, &member));
  EMBED__TRY(read_byte_order(t));
  if (t->o->flags & EMBED_FILE_CHECK) EMBED__TRY(check_sums(t));
  const int64_t limit = embed__min(embed__header_limit(t->o), INT32_MAX);
  if (member->bytes > limit)
    return embed__fail(t->ctx, EMBED_E_FORMAT, member->data, "%s: the pickle has %" PRId64 " bytes, at most %" PRId64 " are read (max_header)", t->f->label,
                       member->bytes, limit);
  EMBED__TRY(read_member(t, member, &text));
  t->pickle.text = bytes_of(t, &text);
  t->pickle.bytes = text.bytes;
  t->pickle.base = member->data; /* of an inflated one, places count from there too */
  EMBED__TRY(embed__pickle_read(&t->pickle));
  if (t->pickle.at == t->pickle.bytes) return EMBED_OK;
  return embed__pickle_fail(&t->pickle, EMBED_E_FORMAT, t->pickle.at, "has bytes behind its last opcode");
}

/* --- A tensor */

static embed_status wrong(const embed__torch *t, const embed__tensor *tensor, embed_status status, int64_t at, const char *what) {
  return embed__fail(t->ctx, status, at, "%s: tensor \"%.100s\" %s (byte %" PRId64 ")", t->f->label, tensor->name, what, at);
}

static embed_status find_storage(embed__torch *t, const embed__tensor *tensor, const embed__pickle_value *key, embed__torch_storage *out) {
  bool found = false;
  const int64_t at = t->pickle.base + key->place;
  if (key->count > EMBED__TORCH_KEY) return wrong(t, tensor, EMBED_E_FORMAT, at, "lies in a storage whose name is too long");
  EMBED__TRY(t->find(t, (const char *)t->pickle.text + key->place, key->count, out, &found));
  return found ? EMBED_OK : wrong(t, tensor, EMBED_E_FORMAT, at, "lies in a storage that the archive does not have");
}

/* Elements from the first to behind the last, and whether they lie in C order without gaps. False: a product does not fit into 64 bits. */
static bool measure(const embed__tensor *tensor, const embed__pickle_value *strides, int64_t *elements, int64_t *span, bool *in_order) {
  int64_t expected = 1, last = 0, reach;
  *in_order = true;
  *elements = 1;
  for (int32_t i = tensor->rank; i-- > 0;) {
    const int64_t extent = tensor->shape[i], stride = strides[i].place;
    if (!embed__mul(*elements, extent, elements)) return false;
    if (extent > 1 && stride != expected) *in_order = false;
    if (extent > 1 && (!embed__mul(extent - 1, stride, &reach) || !embed__add(last, reach, &last))) return false;
    if (extent > 0 && !embed__mul(expected, extent, &expected)) return false;
  }
  if (last == INT64_MAX) return false;
  *span = *elements ? last + 1 : 0;
  *in_order = *in_order || *elements == 0;
  return true;
}

/* Rows that no table can have as they lie: elements apart from one another. */
typedef struct apart {
  int64_t row, column; /* bytes between them */
  int64_t width;       /* of an element */
  bool swap;
} apart;

static void decode_apart(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  const unsigned char *data = embed__tensor_data(f, tensor);
  int64_t ignored, dim;
  apart a;
  memcpy(&a, tensor->recipe, sizeof a);
  (void)embed__tensor_extents(tensor, &ignored, &dim);
  for (int64_t row = first; row < end; ++row)
    for (int64_t j = 0; j < dim; ++j, rows += a.width) {
      const unsigned char *from = data + row * a.row + j * a.column;
      for (int64_t k = 0; k < a.width; ++k) rows[k] = from[a.swap ? a.width - 1 - k : k];
    }
}

/* What strides are there: a transposed matrix, rows with something between them, any others. bytes: as many as tables of it have. */
static embed_status describe_strides(embed__torch *t, embed__tensor *tensor, const embed__pickle_value *strides, int64_t width, int64_t bytes, int64_t span) {
  const bool matrix = tensor->rank == 2;
  const int64_t row = matrix ? strides[0].place : 0, column = tensor->rank ? strides[tensor->rank - 1].place : 0;
  const char *kept;
  tensor->bytes = span;
  if (matrix && row == 1 && column == tensor->shape[0]) {
    tensor->column_major = true;
    return EMBED_OK;
  }
  if (matrix && (column == 1 || tensor->shape[1] == 1) && row >= tensor->shape[1]) {
    tensor->row_bytes = row * width;
    return EMBED_OK;
  }
  if (tensor->dtype == EMBED_DTYPE_NONE || tensor->rank > 2 || bytes > span) { /* an expanded one would be more than there is */
    tensor->dtype = EMBED_DTYPE_NONE;
    tensor->hint = " with these strides: make it contiguous and save it again";
    return EMBED_OK;
  }
  const apart a = {.row = row * width, .column = column * width, .width = width, .swap = t->big_endian != EMBED__BIG_ENDIAN_HOST};
  EMBED__TRY(embed__file_keep(t->ctx, t->f, &a, sizeof a, &kept));
  tensor->recipe = kept;
  tensor->decode = decode_apart;
  return EMBED_OK;
}

/* What rebuild was called with; typed: with the elements' type. */
static embed_status read_tensor(embed__torch *t, const embed__pickle_value *value, embed__tensor *tensor) {
  const embed__pickle_value *items = t->pickle.items, *a = items + value->place, *stored = items + a[0].place;
  const embed__pickle_type *type = &embed__pickle_types[value->count == 7 ? a[6].place : a[0].count], *unit = &embed__pickle_types[a[0].count];
  embed__torch_storage storage;
  int64_t elements, span, bytes, skipped, behind, room;
  bool in_order;
  EMBED__TRY(find_storage(t, tensor, &stored[0], &storage));
  tensor->stored = type->name;
  tensor->dtype = type->dtype;
  if (a[2].count > EMBED__RANKS) return wrong(t, tensor, EMBED_E_UNSUPPORTED, storage.at, "has more than 8 extents");
  tensor->rank = (int32_t)a[2].count;
  for (int32_t i = 0; i < tensor->rank; ++i) tensor->shape[i] = items[a[2].place + i].place;
  if (!measure(tensor, items + a[3].place, &elements, &span, &in_order) || !embed__mul(elements, type->bytes, &bytes) ||
      !embed__mul(span, type->bytes, &span) || !embed__mul(a[1].place, type->bytes, &skipped) || !embed__add(skipped, span, &behind) ||
      !embed__mul(stored[1].place, unit->bytes, &room))
    return wrong(t, tensor, EMBED_E_OVERFLOW, storage.at, "has extents whose product does not fit into 64 bits");
  if (room > storage.bytes)
    return embed__fail(t->ctx, EMBED_E_FORMAT, storage.at, "%s: tensor \"%.100s\": its storage of %" PRId64 " bytes has %" PRId64 " at byte %" PRId64,
                       t->f->label, tensor->name, room, storage.bytes, storage.at);
  if (behind > room)
    return embed__fail(t->ctx, EMBED_E_FORMAT, storage.at,
                       "%s: tensor \"%.100s\" ends at byte %" PRId64 " of its storage of %" PRId64 " bytes (byte %" PRId64 ")", t->f->label, tensor->name,
                       behind, room, storage.at);
  tensor->offset = storage.memory ? -1 : storage.at + skipped;
  tensor->memory = storage.memory ? storage.memory + skipped : NULL;
  tensor->bytes = bytes;
  if (!in_order) EMBED__TRY(describe_strides(t, tensor, items + a[3].place, type->bytes, bytes, span));
  tensor->swapped = tensor->dtype != EMBED_DTYPE_NONE && !tensor->decode && type->bytes > 1 && t->big_endian != EMBED__BIG_ENDIAN_HOST;
  return EMBED_OK;
}

/* --- Names: a walk over dicts, lists and tuples, each once, from what was pickled */

typedef struct frame {
  uint32_t next;  /* entry + 1 */
  int64_t prefix; /* bytes of the names inside that are those of the dicts around, the dots included */
} frame;

/* The text of a key, NULL = neither text nor number: no tensor is named by it. */
static embed_status key_text(const embed__pickle *p, const embed__pickle_value *key, char digits[DIGITS], const char **text, int64_t *bytes) {
  *text = NULL;
  *bytes = key->count;
  if (key->kind == EMBED__PICKLE_INT) {
    embed__text t = embed__text_in(digits, DIGITS);
    embed__text_number(&t, key->place);
    *text = digits;
    *bytes = (int64_t)strlen(digits);
  }
  if (key->kind != EMBED__PICKLE_TEXT) return EMBED_OK;
  *text = (const char *)p->text + key->place;
  if (*bytes > LONGEST_KEY) return embed__pickle_fail(p, EMBED_E_FORMAT, key->place, "has a name of more than 4096 bytes");
  return memchr(*text, 0, key->count) ? embed__pickle_fail(p, EMBED_E_FORMAT, key->place, "has a NUL in a name") : EMBED_OK;
}

/* Two bytes of a pickle put a tensor or a name there once more: names, with those of the dicts around them, and tensors have to be worth it. */
static embed_status check_worth(const reader *r) {
  enum { NAMES = 16, LEAST_NAMES = 64, TENSOR = 8 /* bytes for each */, LEAST_TENSORS = 1 << 10 };
  const embed__pickle *p = &r->t.pickle;
  const int64_t most = NAMES * p->bytes + LEAST_NAMES;
  if (r->name_bytes > most || r->key_bytes > most) return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "makes more of names than it has bytes for");
  if (r->count > p->bytes / TENSOR + LEAST_TENSORS) return embed__pickle_fail(p, EMBED_E_FORMAT, 0, "names more tensors than it has bytes for");
  return EMBED_OK;
}

/* In the first walk tensors are counted; in the second, which has r->name, they are read. */
static embed_status meet_tensor(reader *r, const embed__pickle_value *value, int64_t bytes) {
  int64_t ignored;
  if (!r->name) {
    ++r->count;
    r->longest = embed__max(r->longest, bytes);
    r->name_bytes += bytes;
    return check_worth(r);
  }
  embed_file *f = r->t.f;
  embed__tensor *tensor = &f->tensors[f->tensor_count];
  embed__tokens_append(f->names, r->name, bytes);
  tensor->name = embed__tokens_get(f->names, f->tensor_count++, &ignored);
  return read_tensor(&r->t, value, tensor);
}

static void enter(frame *in, embed__pickle_box *box, int64_t prefix, unsigned char walk) {
  box->seen = walk;
  *in = (frame){.next = box->first, .prefix = prefix};
}

static embed_status find_box(reader *r, const embed__pickle_value *value, embed__pickle_box **box) {
  int64_t place = value->place;
  if (value->kind == EMBED__PICKLE_TUPLE) {
    const embed__pickle_value tuple = *value; /* entries move when one is made */
    EMBED__TRY(embed__pickle_box_of(&r->t.pickle, &tuple, &place));
  }
  *box = &r->t.pickle.boxes[place];
  return EMBED_OK;
}

/* walk: 1, then 2. */
static embed_status walk_tensors(reader *r, unsigned char walk) {
  embed__pickle *p = &r->t.pickle;
  frame frames[DEPTH];
  int depth = 0;
  embed__pickle_box *box;
  EMBED__TRY(find_box(r, &p->root, &box));
  enter(&frames[depth++], box, 0, walk);
  while (depth > 0) {
    frame *in = &frames[depth - 1];
    if (!in->next) {
      --depth;
      continue;
    }
    const embed__pickle_entry *entry = &p->entries[in->next - 1];
    const embed__pickle_value value = entry->value;
    in->next = entry->next;
    if (value.kind != EMBED__PICKLE_TENSOR && value.kind != EMBED__PICKLE_BOX && (value.kind != EMBED__PICKLE_TUPLE || value.count == 0)) continue;
    char digits[DIGITS];
    const char *text;
    int64_t bytes;
    EMBED__TRY(key_text(p, &entry->key, digits, &text, &bytes));
    if (!text) continue;
    r->key_bytes += walk == 1 ? bytes : 0;
    EMBED__TRY(check_worth(r));
    if (r->name && in->prefix + bytes <= r->longest) memcpy(r->name + in->prefix, text, (size_t)bytes);
    const int64_t end = in->prefix + bytes;
    if (value.kind == EMBED__PICKLE_TENSOR) {
      EMBED__TRY(meet_tensor(r, &value, end));
      continue;
    }
    EMBED__TRY(find_box(r, &value, &box));
    r->repeated += walk == 1 && value.kind == EMBED__PICKLE_BOX && box->seen == walk;
    if (box->seen == walk) continue;
    if (depth == DEPTH) return embed__pickle_fail(p, EMBED_E_UNSUPPORTED, 0, "has more than 64 dicts inside one another");
    if (r->name && end < r->longest) r->name[end] = '.';
    enter(&frames[depth++], box, end + 1, walk);
  }
  return EMBED_OK;
}

static embed_status walk_root(reader *r, unsigned char walk) {
  static const char alone[] = "tensor"; /* the file has no name for it */
  const embed__pickle_value *root = &r->t.pickle.root;
  if (root->kind == EMBED__PICKLE_BOX || (root->kind == EMBED__PICKLE_TUPLE && root->count > 0)) return walk_tensors(r, walk);
  if (root->kind != EMBED__PICKLE_TENSOR) return EMBED_OK;
  if (r->name) memcpy(r->name, alone, sizeof alone - 1);
  return meet_tensor(r, root, sizeof alone - 1);
}

static embed_status check_names(const embed__torch *t) {
  embed_file *f = t->f;
  embed__tokens_index(f->names);
  for (int64_t i = 0; i < f->tensor_count && embed__tokens_repeated(f->names) > 0; ++i) {
    const char *name = f->tensors[i].name;
    if (embed__tokens_find(f->names, name, (int64_t)strlen(name)) != i)
      return embed__fail(t->ctx, EMBED_E_FORMAT, t->pickle.base, "%s: two tensors of the pickle at byte %" PRId64 " are named \"%.100s\"", f->label,
                         t->pickle.base, name);
  }
  return EMBED_OK;
}

static embed_status add_notes(const reader *r) {
  const embed__torch *t = &r->t;
  if (r->repeated) EMBED__TRY(embed__file_note(t->ctx, t->f, r->repeated, "dicts or lists have a second name: they are read under the first"));
  if (t->pickle.objects)
    EMBED__TRY(embed__file_note(t->ctx, t->f, t->pickle.objects, "objects of TorchScript are read by their attributes; none of its code is run"));
  if (t->pickle.other_tensors)
    EMBED__TRY(embed__file_note(t->ctx, t->f, t->pickle.other_tensors, "tensors are not listed: sparse, quantised by torch, or without a storage"));
  return EMBED_OK;
}

static embed_status read_tensors(reader *r) {
  embed__torch *t = &r->t;
  EMBED__TRY(walk_root(r, 1));
  if (r->count == 0)
    return embed__fail(t->ctx, EMBED_E_FORMAT, t->pickle.base, "%s: the pickle at byte %" PRId64 " is no dict, list or tensor with tensors in it", t->f->label,
                       t->pickle.base);
  EMBED__TRY(embed__file_tensors(t->ctx, t->f, r->count));
  t->f->tensor_count = 0;
  EMBED__TRY(embed__tokens_new(t->ctx, r->count, r->name_bytes, &t->f->names));
  EMBED__TRY(embed__scratch_get(t->ctx, r->longest + 1, 1, &r->name));
  EMBED__TRY(walk_root(r, 2));
  EMBED__TRY(check_names(t));
  return add_notes(r);
}

embed_status embed__torch_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.t = {.ctx = ctx, .f = f, .o = o, .pickle = {.ctx = ctx, .label = f->label}}};
  embed_status status = embed__torch_is_old(f->map.data, f->map.bytes) ? embed__torch_old_read(&r.t) : read_archive(&r.t);
  if (status == EMBED_OK) status = read_tensors(&r);
  embed__pickle_free(&r.t.pickle);
  embed__tokens_free(r.t.keys);
  embed__zip_free(&r.t.zip);
  return status;
}
