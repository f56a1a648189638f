/* SPDX-License-Identifier: BSD-3-Clause */
/* torch.save since PyTorch 1.6 (torch/serialization.py): a zip archive PREFIX/data.pkl, PREFIX/byteorder, PREFIX/data/KEY for each
 * storage. The pickle names the tensors and says where in a storage each lies; dicts inside one another give names with dots. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/scratch.h"
#include "io/format.h"
#include "io/pickle.h"
#include "io/text.h"
#include "io/zip.h"

enum { DEPTH = 64 /* dicts inside one another */, KEY = 64 /* bytes of a storage's name */, LONGEST_KEY = 4096 /* of a dict's */, DIGITS = 24 };

static const char PICKLE[] = "/data.pkl";
static const unsigned char OLD[] = {0x80, 2, 0x8A, 10, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19}; /* torch's magic number, pickled */

static bool is_old(const unsigned char *data, int64_t bytes) { return bytes >= (int64_t)sizeof OLD && memcmp(data, OLD, sizeof OLD) == 0; }

bool embed__torch_probe(const unsigned char *data, int64_t bytes) { return is_old(data, bytes) || embed__zip_holds(data, bytes, PICKLE); }

typedef struct reader {
  embed_context *ctx;
  embed_file *f;
  const embed_file_options *o;
  embed__zip zip;
  embed__pickle pickle;
  char *member;                       /* PREFIX and what follows it: a name being asked for */
  int64_t prefix;                     /* bytes of PREFIX, the slash included */
  bool big_endian;                    /* PREFIX/byteorder */
  int64_t count, name_bytes, longest; /* of the tensors: the first walk counts, the second fills in */
  char *name;                         /* [longest], in the second walk */
  int64_t repeated;                   /* containers that are there under several names */
} reader;

/* --- Members */

static const embed__zip_member *find_member(const reader *r, const char *name, int64_t bytes) {
  memcpy(r->member + r->prefix, name, (size_t)bytes);
  return embed__zip_find(&r->zip, r->member, r->prefix + bytes);
}

static embed_status must_be_stored(const reader *r, const embed__zip_member *member) {
  if (member->deflated) return embed__zip_fail(&r->zip, member, EMBED_E_UNSUPPORTED, member->at, "is deflated, torch.save stores as it is: save it again");
  return EMBED_OK;
}

static embed_status find_pickle(reader *r, const embed__zip_member **out) {
  enum { ROOM = 16 };
  for (int64_t i = 0; i < r->zip.count; ++i) {
    const embed__zip_member *member = &r->zip.members[i];
    const char *slash = memchr(member->name, '/', (size_t)member->name_bytes);
    if (!slash || strcmp(slash, PICKLE) != 0) continue;
    r->prefix = slash - member->name + 1;
    EMBED__TRY(embed__scratch_get(r->ctx, r->prefix + KEY + ROOM, 1, &r->member));
    memcpy(r->member, member->name, (size_t)r->prefix);
    *out = member;
    return must_be_stored(r, member);
  }
  return embed__fail(r->ctx, EMBED_E_FORMAT, 0, "%s: it is a zip archive of %" PRId64 " members, none of them the data.pkl of a PyTorch checkpoint",
                     r->f->label, r->zip.count);
}

static embed_status read_byte_order(reader *r) {
  const embed__zip_member *member = find_member(r, "byteorder", 9);
  if (!member) return EMBED_OK; /* PyTorch before 2.1: little-endian */
  EMBED__TRY(must_be_stored(r, member));
  const char *text = (const char *)r->f->map.data + member->data;
  r->big_endian = member->bytes == 3 && memcmp(text, "big", 3) == 0;
  if (r->big_endian || (member->bytes == 6 && memcmp(text, "little", 6) == 0)) return EMBED_OK;
  return embed__zip_fail(&r->zip, member, EMBED_E_FORMAT, member->data, "says neither little nor big");
}

/* --- A tensor */

static embed_status wrong(const reader *r, const embed__tensor *tensor, embed_status status, int64_t at, const char *what) {
  return embed__fail(r->ctx, status, at, "%s: tensor \"%.100s\" %s (byte %" PRId64 ")", r->f->label, tensor->name, what, at);
}

static embed_status find_storage(reader *r, const embed__tensor *tensor, const embed__pickle_value *key, const embed__zip_member **member) {
  char name[5 + KEY];
  if (key->count > KEY) return wrong(r, tensor, EMBED_E_FORMAT, r->pickle.base + key->place, "lies in a storage whose name is too long");
  memcpy(name, "data/", 5);
  memcpy(name + 5, r->pickle.text + key->place, key->count);
  *member = find_member(r, name, 5 + (int64_t)key->count);
  if (!*member) return wrong(r, tensor, EMBED_E_FORMAT, r->pickle.base + key->place, "lies in a storage that the archive does not have");
  return must_be_stored(r, *member);
}

/* Elements from the first to behind the last, and whether they lie in C order without gaps, or as the transpose of a matrix that does.
 * False: a product does not fit into 64 bits. */
static bool measure(embed__tensor *tensor, const embed__pickle_value *strides, int64_t *elements, int64_t *span, bool *packed) {
  int64_t expected = 1, last = 0, reach;
  bool in_order = true;
  *elements = 1;
  for (int32_t i = tensor->rank; i-- > 0;) {
    const int64_t extent = tensor->shape[i], stride = strides[i].place;
    if (!embed__mul(*elements, extent, elements)) return false;
    if (extent > 1 && stride != expected) in_order = false;
    if (extent > 1 && (!embed__mul(extent - 1, stride, &reach) || !embed__add(last, reach, &last))) return false;
    if (extent > 0 && !embed__mul(expected, extent, &expected)) return false;
  }
  if (last == INT64_MAX) return false;
  *span = *elements ? last + 1 : 0;
  const bool turned = !in_order && tensor->rank == 2 && strides[0].place == 1 && strides[1].place == tensor->shape[0];
  tensor->column_major = turned && *elements > 0;
  *packed = in_order || turned || *elements == 0;
  return true;
}

/* a: what rebuild was called with; typed: with the elements' type. */
static embed_status read_tensor(reader *r, const embed__pickle_value *value, embed__tensor *tensor) {
  const embed__pickle_value *items = r->pickle.items, *a = items + value->place, *stored = items + a[0].place;
  const embed__pickle_type *type = &embed__pickle_types[value->count == 7 ? a[6].place : a[0].count], *unit = &embed__pickle_types[a[0].count];
  const embed__zip_member *member = NULL;
  int64_t elements, span, bytes, skipped, behind, room;
  bool packed;
  EMBED__TRY(find_storage(r, tensor, &stored[0], &member));
  tensor->stored = type->name;
  tensor->dtype = type->dtype;
  if (a[2].count > EMBED__RANKS) return wrong(r, tensor, EMBED_E_UNSUPPORTED, member->data, "has more than 8 extents");
  tensor->rank = (int32_t)a[2].count;
  for (int32_t i = 0; i < tensor->rank; ++i) tensor->shape[i] = items[a[2].place + i].place;
  if (!measure(tensor, items + a[3].place, &elements, &span, &packed) || !embed__mul(elements, type->bytes, &bytes) || !embed__mul(span, type->bytes, &span) ||
      !embed__mul(a[1].place, type->bytes, &skipped) || !embed__add(skipped, span, &behind) || !embed__mul(stored[1].place, unit->bytes, &room))
    return wrong(r, tensor, EMBED_E_OVERFLOW, member->data, "has extents whose product does not fit into 64 bits");
  if (room > member->bytes)
    return embed__fail(r->ctx, EMBED_E_FORMAT, member->data, "%s: tensor \"%.100s\": its storage of %" PRId64 " bytes has %" PRId64 " at byte %" PRId64,
                       r->f->label, tensor->name, room, member->bytes, member->data);
  if (behind > room)
    return embed__fail(r->ctx, EMBED_E_FORMAT, member->data,
                       "%s: tensor \"%.100s\" ends at byte %" PRId64 " of its storage of %" PRId64 " bytes (byte %" PRId64 ")", r->f->label, tensor->name,
                       behind, room, member->data);
  tensor->offset = member->data + skipped;
  tensor->bytes = packed ? bytes : span;
  if (!packed) {
    tensor->dtype = EMBED_DTYPE_NONE;
    tensor->hint = " with these strides: make it contiguous and save it again";
  }
  tensor->swapped = tensor->dtype != EMBED_DTYPE_NONE && r->big_endian != EMBED__BIG_ENDIAN_HOST;
  return EMBED_OK;
}

/* --- Names: a walk over dicts and lists, each once, from what was pickled */

typedef struct frame {
  embed__pickle_box *box;
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

/* In the first walk tensors are counted; in the second, which has r->name, they are read. */
static embed_status meet_tensor(reader *r, const embed__pickle_value *value, int64_t bytes) {
  int64_t ignored;
  if (!r->name) {
    ++r->count;
    r->longest = embed__max(r->longest, bytes);
    r->name_bytes += bytes;
    /* Long names of few bytes: the dicts around them are counted for each tensor. */
    if (r->name_bytes > 16 * r->pickle.bytes + KEY) return embed__pickle_fail(&r->pickle, EMBED_E_FORMAT, 0, "makes more of names than it has bytes for");
    return EMBED_OK;
  }
  embed__tensor *tensor = &r->f->tensors[r->f->tensor_count];
  embed__tokens_append(r->f->names, r->name, bytes);
  tensor->name = embed__tokens_get(r->f->names, r->f->tensor_count++, &ignored);
  return read_tensor(r, value, tensor);
}

static void enter(frame *in, embed__pickle_box *box, int64_t prefix, unsigned char walk) {
  box->seen = walk;
  *in = (frame){.box = box, .next = box->first, .prefix = prefix};
}

/* walk: 1, then 2. */
static embed_status walk_tensors(reader *r, unsigned char walk) {
  embed__pickle *p = &r->pickle;
  frame frames[DEPTH];
  int depth = 0;
  enter(&frames[depth++], &p->boxes[p->root.place], 0, walk);
  while (depth > 0) {
    frame *in = &frames[depth - 1];
    if (!in->next) {
      --depth;
      continue;
    }
    const embed__pickle_entry *entry = &p->entries[in->next - 1];
    in->next = entry->next;
    char digits[DIGITS];
    const char *text;
    int64_t bytes;
    EMBED__TRY(key_text(p, &entry->key, digits, &text, &bytes));
    if (!text) continue;
    if (r->name && in->prefix + bytes <= r->longest) memcpy(r->name + in->prefix, text, (size_t)bytes);
    const int64_t end = in->prefix + bytes;
    if (entry->value.kind == EMBED__PICKLE_TENSOR) {
      EMBED__TRY(meet_tensor(r, &entry->value, end));
      continue;
    }
    embed__pickle_box *box = &p->boxes[entry->value.place];
    r->repeated += walk == 1 && box->seen == walk;
    if (box->seen == walk) continue;
    if (depth == DEPTH) return embed__pickle_fail(p, EMBED_E_UNSUPPORTED, 0, "has more than 64 dicts inside one another");
    if (r->name && end < r->longest) r->name[end] = '.';
    enter(&frames[depth++], box, end + 1, walk);
  }
  return EMBED_OK;
}

static embed_status walk_root(reader *r, unsigned char walk) {
  static const char alone[] = "tensor"; /* the file has no name for it */
  if (r->pickle.root.kind == EMBED__PICKLE_BOX) return walk_tensors(r, walk);
  if (r->pickle.root.kind != EMBED__PICKLE_TENSOR) return EMBED_OK;
  if (r->name) memcpy(r->name, alone, sizeof alone - 1);
  return meet_tensor(r, &r->pickle.root, sizeof alone - 1);
}

static embed_status check_names(const reader *r) {
  embed__tokens_index(r->f->names);
  for (int64_t i = 0; i < r->count && embed__tokens_repeated(r->f->names) > 0; ++i) {
    const char *name = r->f->tensors[i].name;
    if (embed__tokens_find(r->f->names, name, (int64_t)strlen(name)) != i)
      return embed__fail(r->ctx, EMBED_E_FORMAT, r->pickle.base, "%s: two tensors of the pickle at byte %" PRId64 " are named \"%.100s\"", r->f->label,
                         r->pickle.base, name);
  }
  return EMBED_OK;
}

static embed_status read_tensors(reader *r) {
  EMBED__TRY(walk_root(r, 1));
  if (r->count == 0)
    return embed__fail(r->ctx, EMBED_E_FORMAT, r->pickle.base, "%s: the pickle at byte %" PRId64 " is no dict, list or tensor with tensors in it", r->f->label,
                       r->pickle.base);
  EMBED__TRY(embed__file_tensors(r->ctx, r->f, r->count));
  r->f->tensor_count = 0;
  EMBED__TRY(embed__tokens_new(r->ctx, r->count, r->name_bytes, &r->f->names));
  EMBED__TRY(embed__scratch_get(r->ctx, r->longest + 1, 1, &r->name));
  EMBED__TRY(walk_root(r, 2));
  EMBED__TRY(check_names(r));
  return r->repeated ? embed__file_note(r->ctx, r->f, r->repeated, "dicts or lists have a second name: they are read under the first") : EMBED_OK;
}

static embed_status check_sums(const reader *r) {
  for (int64_t i = 0; i < r->zip.count; ++i)
    if (!r->zip.members[i].deflated) EMBED__TRY(embed__zip_check_sum(&r->zip, &r->zip.members[i]));
  return EMBED_OK;
}

static embed_status read_archive(reader *r) {
  const embed__zip_member *member = NULL;
  EMBED__TRY(embed__zip_open(r->ctx, r->f, &r->zip));
  EMBED__TRY(find_pickle(r, &member));
  EMBED__TRY(read_byte_order(r));
  if (r->o->flags & EMBED_FILE_CHECK) EMBED__TRY(check_sums(r));
  const int64_t limit = embed__min(embed__header_limit(r->o), INT32_MAX);
  if (member->bytes > limit)
    return embed__fail(r->ctx, EMBED_E_FORMAT, member->data, "%s: the pickle has %" PRId64 " bytes, at most %" PRId64 " are read (max_header)", r->f->label,
                       member->bytes, limit);
  r->pickle.text = r->f->map.data + member->data;
  r->pickle.bytes = member->bytes;
  r->pickle.base = member->data;
  EMBED__TRY(embed__pickle_read(&r->pickle));
  return read_tensors(r);
}

embed_status embed__torch_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.ctx = ctx, .f = f, .o = o, .pickle = {.ctx = ctx, .label = f->label}};
  if (is_old(f->map.data, f->map.bytes))
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, 0,
                       "%s: it is a PyTorch checkpoint as versions before 1.6 saved them, one pickle without an archive: load it there and save it again",
                       f->label);
  embed_status status = read_archive(&r);
  embed__pickle_free(&r.pickle);
  embed__zip_free(&r.zip);
  return status;
}
