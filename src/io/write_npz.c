/* SPDX-License-Identifier: BSD-3-Clause */
/* numpy.savez's archive: a zip file (PKWARE APPNOTE.TXT 6.3) of stored npy arrays, each named as its table with ".npy" behind. The elements
 * of each lie at a multiple of 64 in the file, which the member's extra field sees to. What 32 bits cannot say is said in zip64's 64. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "io/crc32c.h"
#include "io/file.h"
#include "io/write_npy.h"

enum {
  LOCAL = 30,
  CENTRAL = 46,
  END64 = 56,
  LOCATOR = 20,
  END = 22,
  SUM_AT = 14, /* in a local head */
  ALIGN = 64,
  FIELD = 4, /* the head of an extra field */
  ZIP64 = 1,
  ALIGNMENT = 0xD935, /* what Android's zipalign leaves: two bytes of alignment, then zeros */
  NAME_BYTES = 65535 - 4,
  VERSION = 20,
  VERSION64 = 45,
  UTF8 = 1 << 11,
  DAY = 1 << 5 | 1 /* 1980-01-01 */
};
static const int64_t FULL = UINT32_MAX, FULL_COUNT = 65535;

typedef struct member {
  int64_t at, bytes; /* the local head's place; head and elements of the array */
  uint32_t sum;
} member;

typedef struct output {
  embed_context *ctx;
  embed_writer *w;
  embed__safe_file *file;
  embed__crc32c crc;
  member *members;
  uint32_t sum; /* of the member being written */
} output;

static embed_status check_name(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes) {
  if (bytes > NAME_BYTES)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: a table's name has %" PRId64 " bytes, at most %d may be in an npz file", w->label, bytes, NAME_BYTES);
  return embed__written_utf8(ctx, w, what, text, bytes);
}

static int flags_of(const char *name) {
  for (; *name; ++name)
    if ((unsigned char)*name >= 0x80) return UTF8;
  return 0;
}

/* What a local head and its entry in the directory share. Returns where it ends. */
static unsigned char *put_common(unsigned char *p, const char *name, const member *m, int64_t extra) {
  const bool wide = m->bytes >= FULL;
  const uint64_t size = wide ? UINT32_MAX : (uint64_t)m->bytes;
  p = embed__put_le(p, wide || m->at >= FULL ? VERSION64 : VERSION, 2);
  p = embed__put_le(p, (uint64_t)flags_of(name), 2);
  p = embed__put_le(p, 0, 2); /* stored */
  p = embed__put_le(p, 0, 2);
  p = embed__put_le(p, DAY, 2);
  p = embed__put_le(p, m->sum, 4);
  p = embed__put_le(p, size, 4);
  p = embed__put_le(p, size, 4);
  p = embed__put_le(p, strlen(name) + 4, 2);
  return embed__put_le(p, (uint64_t)extra, 2);
}

static embed_status put_name(output *o, const char *name) {
  EMBED__TRY(embed__safe_write(o->ctx, o->file, name, (int64_t)strlen(name)));
  return embed__safe_write(o->ctx, o->file, ".npy", 4);
}

static embed_status put_local(output *o, const char *name, const member *m) {
  unsigned char head[LOCAL], extra[FIELD + 16 + FIELD + 2], *p = extra;
  if (m->bytes >= FULL) {
    p = embed__put_le(p, ZIP64, 2);
    p = embed__put_le(p, 16, 2);
    p = embed__put_le(p, (uint64_t)m->bytes, 8);
    p = embed__put_le(p, (uint64_t)m->bytes, 8);
  }
  const int64_t end = m->at + LOCAL + (int64_t)strlen(name) + 4 + (p - extra) + FIELD + 2, padding = (ALIGN - end % ALIGN) % ALIGN;
  p = embed__put_le(p, ALIGNMENT, 2);
  p = embed__put_le(p, (uint64_t)(2 + padding), 2);
  p = embed__put_le(p, ALIGN, 2);
  put_common(embed__put_le(head, 0x04034B50, 4), name, m, p - extra + padding);
  EMBED__TRY(embed__safe_write(o->ctx, o->file, head, LOCAL));
  EMBED__TRY(put_name(o, name));
  EMBED__TRY(embed__safe_write(o->ctx, o->file, extra, p - extra));
  return embed__safe_zeros(o->ctx, o->file, padding);
}

static embed_status put_entry(output *o, const char *name, const member *m) {
  unsigned char head[CENTRAL] = {0}, extra[FIELD + 24], *p = extra + FIELD;
  if (m->bytes >= FULL) {
    p = embed__put_le(p, (uint64_t)m->bytes, 8);
    p = embed__put_le(p, (uint64_t)m->bytes, 8);
  }
  if (m->at >= FULL) p = embed__put_le(p, (uint64_t)m->at, 8);
  const int64_t numbers = p - extra - FIELD, bytes = numbers ? FIELD + numbers : 0;
  embed__put_le(embed__put_le(extra, ZIP64, 2), (uint64_t)numbers, 2);
  put_common(embed__put_le(embed__put_le(head, 0x02014B50, 4), VERSION64, 2), name, m, bytes);
  embed__put_le(head + CENTRAL - 4, m->at >= FULL ? UINT32_MAX : (uint64_t)m->at, 4);
  EMBED__TRY(embed__safe_write(o->ctx, o->file, head, CENTRAL));
  EMBED__TRY(put_name(o, name));
  return embed__safe_write(o->ctx, o->file, extra, bytes);
}

static embed_status add_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  output *o = arg;
  (void)first, (void)rows;
  o->sum = embed__crc32c_add(&o->crc, o->sum, block, bytes);
  return embed__safe_write(ctx, o->file, block, bytes);
}

static embed_status put_member(output *o, const embed__written_table *t, member *m) {
  unsigned char head[EMBED__NPY_WRITTEN], sum[4];
  const int64_t head_bytes = embed__npy_head(t, true, head);
  m->at = o->file->written;
  if (!embed__add(head_bytes, t->bytes, &m->bytes)) return embed__out_of_memory(o->ctx, -1);
  EMBED__TRY(put_local(o, t->name, m));
  o->sum = embed__crc32c_add(&o->crc, 0, head, head_bytes);
  EMBED__TRY(embed__safe_write(o->ctx, o->file, head, head_bytes));
  EMBED__TRY(embed__written_rows(o->ctx, o->w, t, add_rows, o));
  m->sum = o->sum;
  embed__put_le(sum, m->sum, sizeof sum);
  return embed__safe_patch(o->ctx, o->file, m->at + SUM_AT, sum, sizeof sum);
}

static embed_status put_end(output *o, int64_t directory, int64_t bytes) {
  const int64_t count = o->w->tables.count, end = o->file->written;
  const uint64_t narrow = count >= FULL_COUNT ? (uint64_t)FULL_COUNT : (uint64_t)count;
  unsigned char room[END64 + LOCATOR + END] = {0}, *p = room;
  if (count >= FULL_COUNT || directory >= FULL || bytes >= FULL) {
    p = embed__put_le(embed__put_le(p, 0x06064B50, 4), END64 - 12, 8);
    p = embed__put_le(embed__put_le(p, VERSION64, 2), VERSION64, 2) + 8; /* disks 0 */
    p = embed__put_le(embed__put_le(p, (uint64_t)count, 8), (uint64_t)count, 8);
    p = embed__put_le(embed__put_le(p, (uint64_t)bytes, 8), (uint64_t)directory, 8);
    p = embed__put_le(p, 0x07064B50, 4) + 4;
    p = embed__put_le(embed__put_le(p, (uint64_t)end, 8), 1, 4);
  }
  p = embed__put_le(p, 0x06054B50, 4) + 4;
  p = embed__put_le(embed__put_le(p, narrow, 2), narrow, 2);
  p = embed__put_le(p, bytes >= FULL ? UINT32_MAX : (uint64_t)bytes, 4);
  p = embed__put_le(p, directory >= FULL ? UINT32_MAX : (uint64_t)directory, 4) + 2;
  return embed__safe_write(o->ctx, o->file, room, p - room);
}

static embed_status write_npz(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  output o = {.ctx = ctx, .w = w, .file = f};
  const int64_t count = w->tables.count;
  EMBED__TRY(embed__scratch_get(ctx, count, sizeof *o.members, &o.members));
  memset(o.members, 0, (size_t)count * sizeof *o.members);
  embed__crc32_init(&o.crc);
  for (int64_t i = 0; i < count; ++i) EMBED__TRY(put_member(&o, embed__written(w, i), &o.members[i]));
  const int64_t directory = f->written;
  for (int64_t i = 0; i < count; ++i) EMBED__TRY(put_entry(&o, embed__written(w, i)->name, &o.members[i]));
  return put_end(&o, directory, f->written - directory);
}

const embed__writer_format embed__writer_npz = {
    .name = "npz", .extensions = ".npz", .many = true, .check_table = embed__npy_check, .check_text = check_name, .write = write_npz};
