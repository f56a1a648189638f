/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading .embed files (FORMAT.md). Opening reads the head, the directory, metadata and conventions, never rows or tokens: it costs the
 * same for any size. What those hold is bounded here and checked where it is used; their sums are checked where the whole file is read
 * anyway (EMBED_FILE_COPY) and where the caller asks (EMBED_FILE_CHECK). */
#include "io/container.h"

#include <embed/lookup.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "io/byte_order.h"
#include "io/crc32c.h"
#include "io/floats.h"
#include "io/format.h"

typedef struct reading {
  embed_context *ctx;
  embed_file *f;
  const unsigned char *data;
  int64_t size, end; /* of the file, of head and directory */
  int64_t sections, tables;
  bool check_sums; /* of every section, not of those alone that are read here */
  embed__crc32c crc;
} reading;

typedef struct section {
  const unsigned char *entry;
  int64_t at; /* of the entry in the file */
  int64_t index;
  uint32_t kind;
  int64_t offset, bytes;
  const char *name;
} section;

static embed_status bad(const reading *r, int64_t at, const char *what) {
  return embed__fail(r->ctx, EMBED_E_FORMAT, at, "%s: at byte %" PRId64 " %s", r->f->label, at, what);
}

static const char *kind_name(uint32_t kind) {
  static const char *const names[] = {"of an unknown kind", "table", "tokens", "metadata", "conventions", "extra"};
  return names[kind <= EMBED__SECTION_EXTRA ? kind : 0];
}

/* section 4 (table "token_embd.weight") */
static embed_status bad_entry(const reading *r, const section *s, int field, const char *what) {
  return embed__fail(r->ctx, EMBED_E_FORMAT, s->at + field, "%s: section %" PRId64 " (%s%s%.80s%s): at byte %" PRId64 " %s", r->f->label, s->index,
                     kind_name(s->kind), *s->name ? " \"" : "", s->name, *s->name ? "\"" : "", s->at + field, what);
}

bool embed__container_probe(const unsigned char *data, int64_t bytes) { return bytes >= 8 && memcmp(data, EMBED__CONTAINER_MAGIC, 8) == 0; }

static embed_status check_head(reading *r, const embed_file_options *o) {
  const unsigned char *d = r->data;
  if (!embed__container_probe(d, r->size)) return bad(r, 0, "it does not begin with the magic bytes of .embed");
  if (r->size < EMBED__HEAD)
    return embed__fail(r->ctx, EMBED_E_FORMAT, r->size, "%s: the file ends at byte %" PRId64 " within its head of 64 bytes: it was cut short", r->f->label,
                       r->size);
  unsigned major = embed__le16(d + EMBED__HEAD_MAJOR);
  if (major != EMBED__CONTAINER_MAJOR)
    return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, EMBED__HEAD_MAJOR, "%s: version %u of .embed; version %d is read", r->f->label, major,
                       EMBED__CONTAINER_MAJOR);
  if (embed__crc32c_add(&r->crc, 0, d, EMBED__HEAD_SUM) != embed__le32(d + EMBED__HEAD_SUM))
    return bad(r, EMBED__HEAD_SUM, "the head has another sum than it says: it was damaged");
  const uint64_t file = embed__u64_at(d + EMBED__HEAD_FILE), end = embed__u64_at(d + EMBED__HEAD_END);
  if (file > (uint64_t)r->size)
    return embed__fail(r->ctx, EMBED_E_FORMAT, r->size, "%s: it has %" PRIu64 " bytes by its head, the file ends at %" PRId64 ": it was cut short", r->f->label,
                       file, r->size);
  if (file < (uint64_t)r->size)
    return embed__fail(r->ctx, EMBED_E_FORMAT, (int64_t)file, "%s: it has %" PRIu64 " bytes by its head, the file ends at %" PRId64, r->f->label, file,
                       r->size);
  for (int at = EMBED__HEAD_ZERO; at < EMBED__HEAD_SUM; ++at)
    if (d[at]) return bad(r, at, "the head holds something that this version does not know");
  r->sections = (int64_t)embed__le32(d + EMBED__HEAD_SECTIONS);
  if (r->sections < 1 || r->sections > EMBED__CONTAINER_SECTIONS) return bad(r, EMBED__HEAD_SECTIONS, "the number of sections is not 1 to 4096");
  if (end > file || end < (uint64_t)(EMBED__HEAD + r->sections * EMBED__ENTRY)) return bad(r, EMBED__HEAD_END, "the directory ends where it cannot");
  r->end = (int64_t)end;
  if (r->end > embed__header_limit(o))
    return embed__fail(r->ctx, EMBED_E_FORMAT, EMBED__HEAD_END, "%s: the header has %" PRId64 " bytes, at most %" PRId64 " were asked for", r->f->label, r->end,
                       embed__header_limit(o));
  if (embed__crc32c_add(&r->crc, 0, d + EMBED__HEAD, r->end - EMBED__HEAD) != embed__le32(d + EMBED__HEAD_DIRECTORY_SUM))
    return bad(r, EMBED__HEAD_DIRECTORY_SUM, "the directory has another sum than the head says: it was damaged");
  return EMBED_OK;
}

static bool sum_is_right(const embed__crc32c *crc, const unsigned char *data, const section *s) {
  return embed__crc32c_add(crc, 0, data + s->offset, s->bytes) == embed__le32(s->entry + EMBED__ENTRY_SUM);
}

static embed_status check_sum(const reading *r, const section *s) {
  return sum_is_right(&r->crc, r->data, s) ? EMBED_OK
                                           : bad_entry(r, s, EMBED__ENTRY_SUM, "its bytes have another sum than the directory says: they were damaged");
}

/* The parts that all kinds share. last: where the section before ends. */
static embed_status read_entry(const reading *r, int64_t i, int64_t last, section *s) {
  *s = (section){.at = EMBED__HEAD + i * EMBED__ENTRY, .index = i, .name = ""};
  s->entry = r->data + s->at;
  s->kind = embed__le32(s->entry + EMBED__ENTRY_KIND);
  const uint64_t offset = embed__u64_at(s->entry + EMBED__ENTRY_OFFSET), bytes = embed__u64_at(s->entry + EMBED__ENTRY_BYTES);
  const uint64_t name = embed__u64_at(s->entry + EMBED__ENTRY_NAME), name_bytes = embed__le32(s->entry + EMBED__ENTRY_NAME_BYTES);
  const uint64_t names = (uint64_t)(EMBED__HEAD + r->sections * EMBED__ENTRY), end = (uint64_t)r->end;
  if (name < names || name >= end || name_bytes >= end - name) return bad_entry(r, s, EMBED__ENTRY_NAME, "its name lies outside the directory");
  const char *text = (const char *)r->data + name;
  if (memchr(text, '\0', (size_t)name_bytes + 1) != text + name_bytes) return bad_entry(r, s, EMBED__ENTRY_NAME, "its name does not end in its only NUL");
  s->name = text;
  if (offset < (uint64_t)last) return bad_entry(r, s, EMBED__ENTRY_OFFSET, "it begins before the one before it ends");
  if (offset > (uint64_t)r->size || bytes > (uint64_t)r->size - offset) return bad_entry(r, s, EMBED__ENTRY_BYTES, "it ends behind the file");
  s->offset = (int64_t)offset;
  s->bytes = (int64_t)bytes;
  if (s->offset % EMBED__CONTAINER_ALIGN) return bad_entry(r, s, EMBED__ENTRY_OFFSET, "it does not begin at a multiple of 64");
  return EMBED_OK;
}

static bool group_is_right(const embed__dtype_info *info, int32_t group) { return info->block == 0 ? group == 32 || group == 64 || group == 128 : group == 0; }

/* The extents of a table against each other and against its bytes. */
static embed_status check_extents(const reading *r, const section *s, const embed__tensor *t, uint64_t row_bytes) {
  int64_t packed, bytes;
  const embed__dtype_info *info = embed__dtype_find(t->dtype);
  if (!group_is_right(info, t->group)) return bad_entry(r, s, EMBED__ENTRY_GROUP, "its group is none that its dtype has");
  packed = embed__row_bytes(t->dtype, t->shape[1], t->group);
  if (packed < 0) return bad_entry(r, s, EMBED__ENTRY_DIM, "its dtype has no rows of so many columns");
  if (row_bytes < (uint64_t)packed || row_bytes > INT64_MAX) return bad_entry(r, s, EMBED__ENTRY_ROW_BYTES, "its rows are closer than they are long");
  if (!embed__mul(t->shape[0], (int64_t)row_bytes, &bytes)) return bad_entry(r, s, EMBED__ENTRY_ROWS, "its size does not fit into 64 bits");
  if (t->shape[0]) bytes -= (int64_t)row_bytes - packed;
  if (bytes != s->bytes) return bad_entry(r, s, EMBED__ENTRY_BYTES, "its bytes are not those of its rows");
  return EMBED_OK;
}

static embed_status read_roles(const reading *r, const section *s, int64_t index) {
  const uint32_t roles = embed__le32(s->entry + EMBED__ENTRY_ROLES);
  if (roles >> EMBED__ROLES) return bad_entry(r, s, EMBED__ENTRY_ROLES, "it has a role that this version does not know");
  for (int role = 0; role < EMBED__ROLES; ++role) {
    if (!(roles >> role & 1)) continue;
    if (r->f->roles[role] >= 0) return bad_entry(r, s, EMBED__ENTRY_ROLES, "it has a role that another table has");
    r->f->roles[role] = index;
    r->f->roles_given = true;
  }
  return EMBED_OK;
}

static embed_status read_table(reading *r, const section *s) {
  const int64_t index = r->tables++;
  embed__tensor *t = &r->f->tensors[index];
  const uint64_t rows = embed__u64_at(s->entry + EMBED__ENTRY_ROWS), vocab = embed__u64_at(s->entry + EMBED__ENTRY_VOCAB);
  const uint64_t dim = embed__u64_at(s->entry + EMBED__ENTRY_DIM), row_bytes = embed__u64_at(s->entry + EMBED__ENTRY_ROW_BYTES);
  if (!*s->name) return bad_entry(r, s, EMBED__ENTRY_NAME, "a table has no name");
  for (int64_t i = 0; i < index; ++i)
    if (!strcmp(r->f->tensors[i].name, s->name)) return bad_entry(r, s, EMBED__ENTRY_NAME, "its name stands twice");
  if (s->offset % EMBED__CONTAINER_PAGE) return bad_entry(r, s, EMBED__ENTRY_OFFSET, "a table does not begin at a multiple of 4096");
  if (rows > INT64_MAX) return bad_entry(r, s, EMBED__ENTRY_ROWS, "its rows do not fit into 63 bits");
  if (vocab > rows || (vocab == 0 && rows > 0)) return bad_entry(r, s, EMBED__ENTRY_VOCAB, "its vocabulary is not 1 to its rows");
  if (dim < 1 || dim > INT64_MAX) return bad_entry(r, s, EMBED__ENTRY_DIM, "its columns are not 1 to 2^63 - 1");
  const uint32_t vector = embed__le32(s->entry + EMBED__ENTRY_VECTOR);
  if (vector > 1 || embed__u64_at(s->entry + EMBED__ENTRY_LAST))
    return bad_entry(r, s, EMBED__ENTRY_VECTOR, "it says something that this version does not know");
  if (vector && rows != 1) return bad_entry(r, s, EMBED__ENTRY_VECTOR, "a vector has one row");
  *t = (embed__tensor){.name = s->name, .shape = {(int64_t)rows, (int64_t)dim}, .rank = 2, .offset = s->offset, .bytes = s->bytes, .vocab = (int64_t)vocab};
  t->dtype = (embed_dtype)embed__le32(s->entry + EMBED__ENTRY_DTYPE);
  t->group = (int32_t)embed__le32(s->entry + EMBED__ENTRY_GROUP);
  t->stored = t->dtype == EMBED_PQ ? NULL : embed__dtype_name(t->dtype); /* codes without centroids are no rows */
  if (t->stored) {
    EMBED__TRY(check_extents(r, s, t, row_bytes));
    t->row_bytes = (int64_t)row_bytes;
    t->swapped = embed__is_swapped(t->dtype, false);
  } else {
    return bad_entry(r, s, EMBED__ENTRY_DTYPE, "its dtype is none");
  }
  if (vector) {
    t->rank = 1;
    t->shape[0] = t->shape[1];
  }
  return read_roles(r, s, index);
}

static embed_status read_tokens(const reading *r, const section *s) {
  embed__stored_tokens stored;
  int64_t at;
  const char *why;
  if (r->f->tokens) return bad_entry(r, s, EMBED__ENTRY_KIND, "it is the second of tokens");
  if (!embed__stored_open(r->data + s->offset, s->bytes, &stored, &at, &why))
    return embed__fail(r->ctx, EMBED_E_FORMAT, s->offset + at, "%s: the section of tokens at byte %" PRId64 " %s", r->f->label, s->offset + at, why);
  EMBED__TRY(embed__tokens_stored(r->ctx, &stored, &r->f->tokens));
  if (stored.repeated) EMBED__TRY(embed__file_note(r->ctx, r->f, stored.repeated, "rows repeat the token of an earlier row: the first of them owns it"));
  if (stored.empty) EMBED__TRY(embed__file_note(r->ctx, r->f, stored.empty, "rows have an empty token"));
  return EMBED_OK;
}

/* Pairs: u32 bytes of the key, u32 of the value, key, NUL, value, NUL; up to the end of the section. */
static embed_status read_metadata(const reading *r, const section *s, const embed_file_options *o) {
  if (r->f->metadata_count) return bad_entry(r, s, EMBED__ENTRY_KIND, "it is the second of metadata");
  if (s->bytes > embed__header_limit(o)) return bad_entry(r, s, EMBED__ENTRY_BYTES, "it is longer than a header may be");
  EMBED__TRY(check_sum(r, s));
  for (int64_t at = s->offset, end = s->offset + s->bytes; at < end;) {
    if (end - at < 10) return bad(r, at, "the metadata ends within a pair");
    const int64_t key_bytes = embed__le32(r->data + at), value_bytes = embed__le32(r->data + at + 4), first = at + 8;
    if (key_bytes + value_bytes > end - first - 2) return bad(r, at, "a pair of the metadata ends behind it");
    const unsigned char *key = r->data + first, *value = key + key_bytes + 1;
    if (memchr(key, '\0', (size_t)key_bytes + 1) != key + key_bytes || value[value_bytes] != '\0')
      return bad(r, at, "a pair of the metadata does not end in NULs");
    EMBED__TRY(embed__file_add_metadata(r->ctx, r->f, key, key_bytes, value, value_bytes, embed__read_number((const char *)value, value_bytes)));
    at = first + key_bytes + value_bytes + 2;
  }
  return EMBED_OK;
}

static float float_at(const unsigned char *p) {
  uint32_t bits = embed__le32(p);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static embed_status read_conventions(const reading *r, const section *s) {
  embed_conventions *c = &r->f->conventions;
  const unsigned char *p = r->data + s->offset;
  if (c->size) return bad_entry(r, s, EMBED__ENTRY_KIND, "it is the second of conventions");
  if (s->bytes != EMBED__CONVENTIONS) return bad_entry(r, s, EMBED__ENTRY_BYTES, "conventions are not 24 bytes");
  EMBED__TRY(check_sum(r, s));
  *c = (embed_conventions){.size = sizeof *c,
                           .lookup_scale = float_at(p + EMBED__CONVENTIONS_LOOKUP),
                           .scale_round = (embed_dtype)embed__le32(p + EMBED__CONVENTIONS_ROUND),
                           .logit_scale = float_at(p + EMBED__CONVENTIONS_LOGIT),
                           .logit_softcap = float_at(p + EMBED__CONVENTIONS_SOFTCAP),
                           .norm_epsilon = float_at(p + EMBED__CONVENTIONS_EPSILON),
                           .norm_flags = (int32_t)embed__le32(p + EMBED__CONVENTIONS_FLAGS)};
  if (!isfinite(c->lookup_scale) || c->lookup_scale == 0) return bad(r, s->offset + EMBED__CONVENTIONS_LOOKUP, "the lookup scale is 0 or not finite");
  if (!embed__is_float(c->scale_round)) return bad(r, s->offset + EMBED__CONVENTIONS_ROUND, "the dtype of the lookup scale is none of floats");
  if (!isfinite(c->logit_scale) || c->logit_scale == 0) return bad(r, s->offset + EMBED__CONVENTIONS_LOGIT, "the logit scale is 0 or not finite");
  if (!isfinite(c->logit_softcap) || c->logit_softcap < 0) return bad(r, s->offset + EMBED__CONVENTIONS_SOFTCAP, "the soft-cap is below 0 or not finite");
  if (!isfinite(c->norm_epsilon) || c->norm_epsilon < 0) return bad(r, s->offset + EMBED__CONVENTIONS_EPSILON, "the norm's epsilon is below 0 or not finite");
  if (c->norm_flags & ~(EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE)) return bad(r, s->offset + EMBED__CONVENTIONS_FLAGS, "the norm has a flag that is unknown");
  return EMBED_OK;
}

static embed_status read_section(reading *r, const section *s, const embed_file_options *o) {
  const uint32_t flags = embed__le32(s->entry + EMBED__ENTRY_FLAGS);
  if (flags & ~(uint32_t)EMBED__SECTION_NEEDED) return bad_entry(r, s, EMBED__ENTRY_FLAGS, "it has a flag that this version does not know");
  if (r->check_sums) EMBED__TRY(check_sum(r, s));
  switch (s->kind) {
    case EMBED__SECTION_TABLE: return read_table(r, s);
    case EMBED__SECTION_TOKENS: return read_tokens(r, s);
    case EMBED__SECTION_METADATA: return read_metadata(r, s, o);
    case EMBED__SECTION_CONVENTIONS: return read_conventions(r, s);
    case EMBED__SECTION_EXTRA: return EMBED_OK;
    default: break;
  }
  if (!(flags & EMBED__SECTION_NEEDED)) return EMBED_OK;
  return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, s->at, "%s: section %" PRId64 " \"%.80s\" is of kind %u, which is needed and not known to this version",
                     r->f->label, s->index, s->name, s->kind);
}

embed_status embed__container_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reading r = {.ctx = ctx, .f = f, .data = f->map.data, .size = f->map.bytes};
  int64_t tables = 0;
  r.check_sums = (o->flags & (EMBED_FILE_COPY | EMBED_FILE_CHECK)) != 0;
  embed__crc32c_init(&r.crc);
  EMBED__TRY(check_head(&r, o));
  for (int64_t i = 0; i < r.sections; ++i) tables += embed__le32(r.data + EMBED__HEAD + i * EMBED__ENTRY + EMBED__ENTRY_KIND) == EMBED__SECTION_TABLE;
  if (tables == 0) return bad(&r, EMBED__HEAD_SECTIONS, "none of the sections is a table");
  EMBED__TRY(embed__file_tensors(ctx, f, tables));
  for (int64_t i = 0, last = r.end; i < r.sections; ++i) {
    section s;
    EMBED__TRY(read_entry(&r, i, last, &s));
    EMBED__TRY(read_section(&r, &s, o));
    last = s.offset + s.bytes;
  }
  if (f->roles_given && f->roles[EMBED_ROLE_TOKEN] < 0) return bad(&r, EMBED__HEAD_SECTIONS, "tables have roles and none is the token table");
  if (f->roles_given && f->roles[EMBED_ROLE_HEAD] != f->roles[EMBED_ROLE_TOKEN]) f->own_head = f->roles[EMBED_ROLE_HEAD];
  return EMBED_OK;
}

/* The extra section of this name. All of the directory was proved when the file was opened. */
static bool find_extra(const embed_file *f, const char *name, section *out) {
  const bool ours = f->format->open == embed__container_open;
  const int64_t sections = ours ? (int64_t)embed__le32(f->map.data + EMBED__HEAD_SECTIONS) : 0;
  for (int64_t i = 0; i < sections; ++i) {
    section s = {.entry = f->map.data + EMBED__HEAD + i * EMBED__ENTRY};
    const int64_t at = (int64_t)embed__u64_at(s.entry + EMBED__ENTRY_NAME);
    if (embed__le32(s.entry + EMBED__ENTRY_KIND) != EMBED__SECTION_EXTRA || strcmp((const char *)f->map.data + at, name) != 0) continue;
    s.offset = (int64_t)embed__u64_at(s.entry + EMBED__ENTRY_OFFSET);
    s.bytes = (int64_t)embed__u64_at(s.entry + EMBED__ENTRY_BYTES);
    *out = s;
    return true;
  }
  return false;
}

embed_status embed__container_extra(embed_context *ctx, const embed_file *f, const char *name, const unsigned char **data, int64_t *bytes) {
  section s;
  embed__crc32c crc;
  if (!find_extra(f, name, &s)) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is no section \"%.80s\"", f->label, name);
  embed__crc32c_init(&crc);
  if (!sum_is_right(&crc, f->map.data, &s))
    return embed__fail(ctx, EMBED_E_FORMAT, s.offset, "%s: the section \"%.80s\" has another sum than the directory says: it was damaged", f->label, name);
  *data = f->map.data + s.offset;
  *bytes = s.bytes;
  return EMBED_OK;
}

void embed__container_extra_in_place(const embed_file *f, const char *name, const unsigned char **data, int64_t *bytes) {
  section s;
  *data = NULL;
  if (!find_extra(f, name, &s)) return;
  *data = f->map.data + s.offset;
  *bytes = s.bytes;
}
