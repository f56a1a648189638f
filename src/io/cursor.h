/* SPDX-License-Identifier: BSD-3-Clause */
/* A place in a little-endian binary file: takes fixed-width fields off it, none of them past its end. */
#ifndef EMBED__CURSOR_H
#define EMBED__CURSOR_H

#include <inttypes.h>

#include "core/error.h"
#include "io/file.h"

typedef struct embed__cursor {
  embed_context *ctx;
  const char *label;
  const unsigned char *data;
  int64_t at, end; /* bytes of data */
} embed__cursor;

static inline uint64_t embed__le64(const unsigned char *p) { return embed__le32(p) | (uint64_t)embed__le32(p + 4) << 32; }

static inline embed__cursor embed__cursor_of(embed_context *ctx, const embed_file *f) {
  return (embed__cursor){.ctx = ctx, .label = f->label, .data = f->map.data, .end = f->map.bytes};
}

/* That many bytes more. */
static inline embed_status embed__need(const embed__cursor *c, int64_t bytes, const char *what) {
  if (bytes <= c->end - c->at) return EMBED_OK;
  return embed__fail(c->ctx, EMBED_E_FORMAT, c->end, "%s: %s at byte %" PRId64 " need %" PRId64 " bytes, the file ends at byte %" PRId64 ": it was cut short",
                     c->label, what, c->at, bytes, c->end);
}

static inline embed_status embed__take_u8(embed__cursor *c, const char *what, uint8_t *out) {
  *out = 0;
  EMBED__TRY(embed__need(c, 1, what));
  *out = c->data[c->at++];
  return EMBED_OK;
}

static inline embed_status embed__take_u32(embed__cursor *c, const char *what, uint32_t *out) {
  *out = 0;
  EMBED__TRY(embed__need(c, 4, what));
  *out = embed__le32(c->data + c->at);
  c->at += 4;
  return EMBED_OK;
}

static inline embed_status embed__take_i32(embed__cursor *c, const char *what, int32_t *out) {
  uint32_t bits = 0;
  embed_status status = embed__take_u32(c, what, &bits);
  *out = (int32_t)bits;
  return status;
}

static inline embed_status embed__take_i64(embed__cursor *c, const char *what, int64_t *out) {
  *out = 0;
  EMBED__TRY(embed__need(c, 8, what));
  *out = (int64_t)embed__le64(c->data + c->at);
  c->at += 8;
  return EMBED_OK;
}

/* A number of things of at least `least` bytes each, for all of which there is room behind it. */
static inline embed_status embed__check_room(const embed__cursor *c, int64_t count, int64_t least, const char *what) {
  if (count >= 0 && count <= (c->end - c->at) / least) return EMBED_OK;
  if (count < 0) return embed__fail(c->ctx, EMBED_E_FORMAT, c->at, "%s: there are %" PRId64 " %s in front of byte %" PRId64, c->label, count, what, c->at);
  return embed__fail(c->ctx, EMBED_E_FORMAT, c->end,
                     "%s: %" PRId64 " %s from byte %" PRId64 " on take %" PRId64 " bytes each at least, the file ends at byte %" PRId64 ": it was cut short",
                     c->label, count, what, c->at, least, c->end);
}

#endif
