/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "io/zip.h"

#include "core/checked.h"
#include "core/memory.h"
#include "core/sort.h"
#include "io/crc32c.h"

/* Sizes of the records without their variable parts; places of fields in them. */
enum {
  LOCAL = 30,
  ENTRY = 46,
  END = 22,
  END64 = 56,
  LOCATOR = 20,
  COMMENT = 65535, /* the longest */
  STORED = 0,
  DEFLATED = 8,
  RATIO = 1032 /* 258 bytes for the two bits of their length and distance: deflate makes no more of a byte */
};
static const uint32_t LOCAL_SIGNATURE = 0x04034B50u, ENTRY_SIGNATURE = 0x02014B50u, END_SIGNATURE = 0x06054B50u, END64_SIGNATURE = 0x06064B50u,
                      LOCATOR_SIGNATURE = 0x07064B50u;

static uint64_t le64(const unsigned char *p) { return embed__le32(p) | (uint64_t)embed__le32(p + 4) << 32; }

/* The last record of the archive, -1 = none: its comment ends with the file. */
static int64_t find_end(const unsigned char *data, int64_t bytes) {
  for (int64_t at = bytes - END; at >= 0 && at >= bytes - END - COMMENT; --at)
    if (data[at] == 'P' && embed__le32(data + at) == END_SIGNATURE && embed__le16(data + at + 20) == bytes - at - END) return at;
  return -1;
}

static bool local_ends_with(const unsigned char *data, int64_t bytes, const char *ending) {
  if (bytes < LOCAL || embed__le32(data) != LOCAL_SIGNATURE) return false;
  return embed__ends_with((const char *)data + LOCAL, embed__min(embed__le16(data + 26), bytes - LOCAL), ending);
}

/* Where the directory begins by the last record, or by the one of 64 bits in front of it; a file may lie. */
static int64_t directory_of(const unsigned char *data, int64_t bytes) {
  const int64_t end = find_end(data, bytes);
  if (end < 0) return bytes;
  uint64_t at = embed__le32(data + end + 16);
  if (at == UINT32_MAX && end >= LOCATOR && embed__le32(data + end - LOCATOR) == LOCATOR_SIGNATURE) {
    const uint64_t wide = le64(data + end - LOCATOR + 8);
    if (wide <= (uint64_t)end && (uint64_t)end - wide >= END64) at = le64(data + wide + 48);
  }
  return at < (uint64_t)bytes ? (int64_t)at : bytes;
}

bool embed__zip_holds(const unsigned char *data, int64_t bytes, const char *ending) {
  if (bytes < LOCAL || embed__le32(data) != LOCAL_SIGNATURE) return false;
  if (local_ends_with(data, bytes, ending)) return true;
  int64_t at = directory_of(data, bytes);
  while (at <= bytes - ENTRY && embed__le32(data + at) == ENTRY_SIGNATURE) {
    const int64_t name = embed__le16(data + at + 28), rest = embed__le16(data + at + 30) + embed__le16(data + at + 32);
    if (name > bytes - at - ENTRY) break;
    if (embed__ends_with((const char *)data + at + ENTRY, name, ending)) return true;
    at += ENTRY + name + rest;
  }
  return false;
}

embed_status embed__zip_fail(const embed__zip *z, const embed__zip_member *member, embed_status status, int64_t at, const char *what) {
  return embed__fail(z->ctx, status, at, "%s: member \"%.100s\" %s (byte %" PRId64 ")", z->label, member->name, what, at);
}

/* --- Where the directory is */

typedef struct directory {
  int64_t first, end; /* bytes of the file */
  int64_t count;      /* of entries */
} directory;

static embed_status malformed(const embed__zip *z, int64_t at, const char *what) {
  return embed__fail(z->ctx, EMBED_E_FORMAT, at, "%s: %s (byte %" PRId64 ")", z->label, what, at);
}

/* The record of 64-bit sizes that stands in front of the last one. */
static embed_status read_end64(const embed__zip *z, int64_t locator, uint64_t fields[3], int64_t *at) {
  const uint64_t place = le64(z->file + locator + 8);
  if (embed__le32(z->file + locator + 4) != 0 || embed__le32(z->file + locator + 16) > 1)
    return embed__fail(z->ctx, EMBED_E_UNSUPPORTED, locator, "%s: the archive is one of several parts (byte %" PRId64 ")", z->label, locator);
  if (place > (uint64_t)locator || (uint64_t)locator - place < END64 || embed__le32(z->file + place) != END64_SIGNATURE)
    return malformed(z, locator, "the archive's 64-bit end is not where its locator says");
  *at = (int64_t)place;
  if (le64(z->file + *at + 4) != (uint64_t)(locator - *at - 12)) return malformed(z, *at + 4, "the archive's 64-bit end does not end at its locator");
  if (embed__le32(z->file + *at + 16) != 0 || embed__le32(z->file + *at + 20) != 0 || le64(z->file + *at + 24) != le64(z->file + *at + 32))
    return embed__fail(z->ctx, EMBED_E_UNSUPPORTED, *at + 16, "%s: the archive is one of several parts (byte %" PRId64 ")", z->label, *at + 16);
  fields[0] = le64(z->file + *at + 32);
  fields[1] = le64(z->file + *at + 40);
  fields[2] = le64(z->file + *at + 48);
  return EMBED_OK;
}

static embed_status find_directory(const embed__zip *z, directory *d) {
  const int64_t end = find_end(z->file, z->file_bytes);
  if (end < 0) return malformed(z, z->file_bytes, "the zip archive has no end: it was cut short");
  const unsigned char *p = z->file + end;
  const uint64_t here[3] = {embed__le16(p + 10), embed__le32(p + 12), embed__le32(p + 16)}, full[3] = {UINT16_MAX, UINT32_MAX, UINT32_MAX};
  uint64_t fields[3] = {here[0], here[1], here[2]}; /* entries, bytes of the directory, its place */
  d->end = end;
  const bool wide = end >= LOCATOR && embed__le32(p - LOCATOR) == LOCATOR_SIGNATURE;
  if (wide) {
    EMBED__TRY(read_end64(z, end - LOCATOR, fields, &d->end));
    for (int i = 0; i < 3; ++i)
      if (here[i] != full[i] && here[i] != fields[i]) return malformed(z, end, "the archive's two ends differ");
  } else if (embed__le16(p + 4) != 0 || embed__le16(p + 6) != 0 || embed__le16(p + 8) != here[0]) {
    return embed__fail(z->ctx, EMBED_E_UNSUPPORTED, end, "%s: the archive is one of several parts (byte %" PRId64 ")", z->label, end);
  }
  if (fields[1] > (uint64_t)d->end || fields[2] != (uint64_t)d->end - fields[1])
    return embed__fail(z->ctx, EMBED_E_FORMAT, end,
                       "%s: the archive's directory of %" PRIu64 " bytes at byte %" PRIu64 " does not end at byte %" PRId64 ", where it should", z->label,
                       fields[1], fields[2], d->end);
  if (fields[0] > fields[1] / ENTRY)
    return embed__fail(z->ctx, EMBED_E_FORMAT, end, "%s: the archive's directory of %" PRIu64 " bytes does not hold %" PRIu64 " entries", z->label, fields[1],
                       fields[0]);
  d->first = (int64_t)fields[2];
  d->count = (int64_t)fields[0];
  return EMBED_OK;
}

/* --- Its entries */

/* 64-bit sizes behind an entry, in the place of those that are full. fields: unpacked, stored, place. */
static embed_status read_wide(const embed__zip *z, const embed__zip_member *member, int64_t extra, int64_t extra_end, uint64_t fields[3]) {
  enum { HEAD = 4, WIDE = 1 };
  while (extra_end - extra >= HEAD) {
    const int64_t bytes = embed__le16(z->file + extra + 2), next = extra + HEAD + bytes;
    if (next > extra_end) break;
    if (embed__le16(z->file + extra) == WIDE) {
      int64_t at = extra + HEAD;
      for (int i = 0; i < 3; ++i) {
        if (fields[i] != UINT32_MAX) continue;
        if (next - at < 8) return embed__zip_fail(z, member, EMBED_E_FORMAT, at, "has not all of its 64-bit sizes");
        fields[i] = le64(z->file + at);
        at += 8;
      }
      return EMBED_OK;
    }
    extra = next;
  }
  return EMBED_OK; /* full fields without 64-bit ones are sizes, and too large for the file */
}

/* The member's own header says the same, and its bytes lie before the directory. */
static embed_status check_local(const embed__zip *z, const unsigned char *entry, int64_t entries, uint64_t place, embed__zip_member *member) {
  enum { SIZES_BEHIND = 8 };
  if (place > (uint64_t)entries || (uint64_t)entries - place < LOCAL)
    return embed__zip_fail(z, member, EMBED_E_FORMAT, entry - z->file, "begins behind the last place where one can");
  member->at = (int64_t)place;
  const unsigned char *p = z->file + place;
  const int64_t name = embed__le16(p + 26), extra = embed__le16(p + 28);
  member->data = member->at + LOCAL + name + extra;
  if (embed__le32(p) != LOCAL_SIGNATURE) return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at, "is not where the directory says");
  if (member->data > entries || member->stored > entries - member->data)
    return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at, "runs into the archive's directory");
  if (name != member->name_bytes || memcmp(p + LOCAL, member->name, (size_t)name) != 0)
    return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at + LOCAL, "has another name in its own header");
  if (embed__le16(p + 8) != embed__le16(entry + 10) || ((embed__le16(p + 6) ^ embed__le16(entry + 8)) & 1))
    return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at + 8, "has another method in its own header");
  if (embed__le16(p + 6) & SIZES_BEHIND) return EMBED_OK;
  const uint32_t stored = embed__le32(p + 18), bytes = embed__le32(p + 22);
  if (embed__le32(p + 14) != member->sum || (stored != UINT32_MAX && stored != (uint64_t)member->stored) ||
      (bytes != UINT32_MAX && bytes != (uint64_t)member->bytes))
    return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at + 14, "has another sum or size in its own header");
  return EMBED_OK;
}

static embed_status check_kind(const embed__zip *z, const unsigned char *entry, const embed__zip_member *member) {
  enum { ENCRYPTED = 0x2041, PATCH = 0x20 };
  const int64_t at = entry - z->file;
  const int flags = embed__le16(entry + 8), method = embed__le16(entry + 10);
  if (flags & ENCRYPTED) return embed__zip_fail(z, member, EMBED_E_UNSUPPORTED, at + 8, "is encrypted");
  if (flags & PATCH) return embed__zip_fail(z, member, EMBED_E_UNSUPPORTED, at + 8, "is a patch of another file");
  if (method != STORED && method != DEFLATED)
    return embed__fail(z->ctx, EMBED_E_UNSUPPORTED, at + 10,
                       "%s: member \"%.100s\" is packed by method %d, stored (0) and deflated (8) ones are read (byte %" PRId64 ")", z->label, member->name,
                       method, at + 10);
  return EMBED_OK;
}

/* *at: the entry, afterwards the next. */
static embed_status read_entry(embed__zip *z, const directory *d, int64_t *at, embed__zip_member *member) {
  const unsigned char *p = z->file + *at;
  if (d->end - *at < ENTRY || embed__le32(p) != ENTRY_SIGNATURE) return malformed(z, *at, "an entry of the archive's directory should begin");
  const int64_t name = embed__le16(p + 28), extra = *at + ENTRY + name, comment = extra + embed__le16(p + 30), next = comment + embed__le16(p + 32);
  if (next > d->end) return malformed(z, *at, "an entry of the archive's directory runs over its end");
  const char *text = (const char *)p + ENTRY;
  if (name == 0 || memchr(text, 0, (size_t)name)) return malformed(z, *at + ENTRY, "a member's name is empty or has a NUL");
  embed__tokens_append(z->names, text, name);
  member->name = embed__tokens_get(z->names, z->count++, &member->name_bytes);
  EMBED__TRY(check_kind(z, p, member));
  uint64_t fields[3] = {embed__le32(p + 24), embed__le32(p + 20), embed__le32(p + 42)};
  EMBED__TRY(read_wide(z, member, extra, comment, fields));
  if (fields[0] > INT64_MAX || fields[1] > (uint64_t)d->first) return embed__zip_fail(z, member, EMBED_E_FORMAT, *at + 20, "is larger than the archive");
  member->bytes = (int64_t)fields[0];
  member->stored = (int64_t)fields[1];
  member->sum = embed__le32(p + 16);
  member->deflated = embed__le16(p + 10) == DEFLATED;
  if (!member->deflated && member->bytes != member->stored) return embed__zip_fail(z, member, EMBED_E_FORMAT, *at + 20, "is stored as it is and has two sizes");
  if (member->deflated && (member->bytes / RATIO > member->stored || member->bytes > member->stored * RATIO))
    return embed__zip_fail(z, member, EMBED_E_FORMAT, *at + 24, "declares more bytes than its deflated data can give");
  EMBED__TRY(check_local(z, p, d->first, fields[2], member));
  *at = next;
  return EMBED_OK;
}

/* --- None twice, none over another */

static embed_status check_names(const embed__zip *z) {
  if (embed__tokens_repeated(z->names) == 0) return EMBED_OK;
  for (int64_t i = 0; i < z->count; ++i)
    if (embed__tokens_find(z->names, z->members[i].name, z->members[i].name_bytes) != i)
      return embed__zip_fail(z, &z->members[i], EMBED_E_FORMAT, z->members[i].at, "is there twice");
  return EMBED_OK;
}

static bool pointed_before(const void *a, const void *b) { return (*(const embed__zip_member *const *)a)->at < (*(const embed__zip_member *const *)b)->at; }

/* order: NULL = as they stand. */
static embed_status check_chain(const embed__zip *z, const embed__zip_member *const *order) {
  int64_t end = 0;
  for (int64_t i = 0; i < z->count; ++i) {
    const embed__zip_member *member = order ? order[i] : &z->members[i];
    if (member->at < end) return embed__zip_fail(z, member, EMBED_E_FORMAT, member->at, "lies over another one");
    end = member->data + member->stored;
  }
  return EMBED_OK;
}

static embed_status check_places(const embed__zip *z) {
  bool ascending = true;
  for (int64_t i = 1; i < z->count && ascending; ++i) ascending = z->members[i - 1].at <= z->members[i].at;
  if (ascending) return check_chain(z, NULL);
  const size_t bytes = (size_t)z->count * sizeof(embed__zip_member *);
  const embed__zip_member **order = embed__allocate(&z->ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!order) return embed__out_of_memory(z->ctx, (int64_t)bytes);
  for (int64_t i = 0; i < z->count; ++i) order[i] = &z->members[i];
  embed__sort(order, z->count, sizeof *order, pointed_before);
  const embed_status status = check_chain(z, order);
  embed__free(&z->ctx->memory, order, bytes, EMBED__ALIGNMENT);
  return status;
}

/* --- All of it */

embed_status embed__zip_open(embed_context *ctx, const embed_file *f, embed__zip *out) {
  directory d = {0};
  *out = (embed__zip){.ctx = ctx, .file = f->map.data, .file_bytes = f->map.bytes, .label = f->label};
  EMBED__TRY(find_directory(out, &d));
  out->room = d.count;
  if (d.count > PTRDIFF_MAX / (int64_t)sizeof *out->members) return embed__out_of_memory(ctx, d.count * (int64_t)sizeof *out->members);
  out->members = embed__new(&ctx->memory, (size_t)d.count * sizeof *out->members);
  if (!out->members) return embed__out_of_memory(ctx, d.count * (int64_t)sizeof *out->members);
  EMBED__TRY(embed__tokens_new(ctx, d.count, d.end - d.first - d.count * ENTRY, &out->names));
  int64_t at = d.first;
  for (int64_t i = 0; i < d.count; ++i) EMBED__TRY(read_entry(out, &d, &at, &out->members[i]));
  embed__tokens_index(out->names);
  if (at != d.end) return malformed(out, at, "the archive's directory has more bytes than its entries");
  EMBED__TRY(check_names(out));
  return check_places(out);
}

void embed__zip_free(embed__zip *z) {
  if (z->members) embed__free(&z->ctx->memory, z->members, (size_t)z->room * sizeof *z->members, EMBED__ALIGNMENT);
  embed__tokens_free(z->names);
  *z = (embed__zip){.members = NULL};
}

const embed__zip_member *embed__zip_find(const embed__zip *z, const char *name, int64_t bytes) {
  const int64_t found = embed__tokens_find(z->names, name, bytes);
  return found < 0 ? NULL : &z->members[found];
}

embed_status embed__zip_check_sum(const embed__zip *z, const embed__zip_member *member) {
  embed__crc32c crc;
  embed__crc32_init(&crc);
  const uint32_t sum = embed__crc32c_add(&crc, 0, z->file + member->data, member->stored);
  if (sum == member->sum) return EMBED_OK;
  return embed__fail(z->ctx, EMBED_E_FORMAT, member->data, "%s: member \"%.100s\" at byte %" PRId64 ": its sum is %08" PRIx32 ", the archive says %08" PRIx32,
                     z->label, member->name, member->data, sum, member->sum);
}

embed__deflated embed__zip_deflated(const embed__zip *z, const embed__zip_member *member) {
  return (embed__deflated){.label = z->label,
                           .member = member->name,
                           .data = z->file + member->data,
                           .at = member->data,
                           .bytes = member->stored,
                           .whole = member->bytes,
                           .sum = member->sum};
}
