/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/inflate.h"

#include <inttypes.h>
#include <string.h>

#if EMBED__ZLIB
#define ZLIB_CONST
#include <zlib.h>

#include "core/checked.h"
#include "core/memory.h"

struct embed__inflate {
  embed_context *ctx;
  embed_allocator memory;
  embed__deflated from;
  z_stream z;
  int64_t taken, given; /* bytes of both sides */
  uLong sum;
  bool begun, ended; /* inflateInit was called; the last block has ended */
};

/* zlib frees without saying how much: the size stands in front. */
static void *allocate(void *memory, uInt items, uInt size) {
  int64_t bytes;
  if (!embed__mul(items, size, &bytes) || !embed__add(bytes, EMBED__ALIGNMENT, &bytes)) return Z_NULL;
  unsigned char *block = embed__allocate(memory, (size_t)bytes, EMBED__ALIGNMENT);
  if (!block) return Z_NULL;
  memcpy(block, &bytes, sizeof bytes);
  return block + EMBED__ALIGNMENT;
}

static void release(void *memory, void *given) {
  int64_t bytes;
  unsigned char *block = (unsigned char *)given - EMBED__ALIGNMENT;
  memcpy(&bytes, block, sizeof bytes);
  embed__free(memory, block, (size_t)bytes, EMBED__ALIGNMENT);
}

embed_status embed__inflate_begin(embed_context *ctx, const embed__deflated *from, embed__inflate **out) {
  embed__inflate *s = embed__new(&ctx->memory, sizeof *s);
  *out = NULL;
  if (!s) return embed__out_of_memory(ctx, (int64_t)sizeof *s);
  s->ctx = ctx;
  s->memory = ctx->memory;
  s->from = *from;
  s->sum = crc32(0, Z_NULL, 0);
  s->z.zalloc = allocate;
  s->z.zfree = release;
  s->z.opaque = &s->memory;
  s->begun = inflateInit2(&s->z, -MAX_WBITS) == Z_OK;
  if (!s->begun) {
    embed__inflate_end(s);
    return embed__out_of_memory(ctx, (int64_t)sizeof(z_stream));
  }
  *out = s;
  return EMBED_OK;
}

void embed__inflate_end(embed__inflate *s) {
  if (!s) return;
  if (s->begun) (void)inflateEnd(&s->z);
  const embed_allocator memory = s->memory;
  embed__free(&memory, s, sizeof *s, EMBED__ALIGNMENT);
}

static embed_status wrong(const embed__inflate *s, const char *what) {
  const int64_t at = s->from.at + s->taken;
  return embed__fail(s->ctx, EMBED_E_FORMAT, at, "%s: member \"%.100s\": %s at byte %" PRId64 " of the file, %" PRId64 " of its %" PRId64 " bytes inflated",
                     s->from.label, s->from.member, what, at, s->given, s->from.whole);
}

/* Up to count bytes; *got = 0 where the data has ended. */
static embed_status some(embed__inflate *s, void *out, int64_t count, int64_t *got) {
  enum { MOST = 1 << 30 };
  const int64_t room = embed__min(count, MOST), left = embed__min(s->from.bytes - s->taken, MOST);
  s->z.next_in = s->from.data + s->taken;
  s->z.avail_in = (uInt)left;
  s->z.next_out = out;
  s->z.avail_out = (uInt)room;
  *got = 0;
  if (s->ended) return EMBED_OK;
  const int answer = inflate(&s->z, Z_NO_FLUSH);
  s->taken += left - s->z.avail_in;
  *got = room - s->z.avail_out;
  s->given += *got;
  s->sum = crc32(s->sum, out, (uInt)*got);
  s->ended = answer == Z_STREAM_END;
  if (answer == Z_MEM_ERROR) return embed__out_of_memory(s->ctx, 1 << MAX_WBITS); /* its window */
  if (answer == Z_OK || s->ended) return EMBED_OK;
  return wrong(s, answer == Z_BUF_ERROR && s->taken == s->from.bytes ? "its deflated data ends too early" : "its deflated data is wrong");
}

embed_status embed__inflate_read(embed__inflate *s, void *out, int64_t count) {
  unsigned char *to = out;
  while (count > 0) {
    int64_t got;
    EMBED__TRY(some(s, to, count, &got));
    if (got == 0 && s->ended) return wrong(s, "it ends too early");
    to += got;
    count -= got;
  }
  return EMBED_OK;
}

embed_status embed__inflate_finish(embed__inflate *s) {
  enum { PIECE = 4096 };
  unsigned char rest[PIECE];
  while (s->given < s->from.whole) EMBED__TRY(embed__inflate_read(s, rest, embed__min(PIECE, s->from.whole - s->given)));
  while (!s->ended) { /* the end of the last block may still stand there */
    int64_t got;
    EMBED__TRY(some(s, rest, 1, &got));
    if (got > 0) return wrong(s, "it gives more bytes than it declares");
  }
  if (s->taken != s->from.bytes) return wrong(s, "its deflated data ends before the member does");
  if ((uint32_t)s->sum != s->from.sum)
    return embed__fail(s->ctx, EMBED_E_FORMAT, s->from.at, "%s: member \"%.100s\" at byte %" PRId64 ": its sum is %08" PRIx32 ", the archive says %08" PRIx32,
                       s->from.label, s->from.member, s->from.at, (uint32_t)s->sum, s->from.sum);
  return EMBED_OK;
}

#else

embed_status embed__inflate_begin(embed_context *ctx, const embed__deflated *from, embed__inflate **out) {
  *out = NULL;
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, from->at, "%s: member \"%.100s\" at byte %" PRId64 " is deflated, and this build of libembed has no zlib",
                     from->label, from->member, from->at);
}

embed_status embed__inflate_read(embed__inflate *s, void *out, int64_t count) {
  (void)s, (void)out, (void)count;
  return EMBED_E_UNSUPPORTED;
}

embed_status embed__inflate_finish(embed__inflate *s) {
  (void)s;
  return EMBED_E_UNSUPPORTED;
}

void embed__inflate_end(embed__inflate *s) { (void)s; }

#endif

embed_status embed__inflate_all(embed_context *ctx, const embed__deflated *from, void *out) {
  embed__inflate *s;
  EMBED__TRY(embed__inflate_begin(ctx, from, &s));
  embed_status status = out ? embed__inflate_read(s, out, from->whole) : EMBED_OK;
  if (status == EMBED_OK) status = embed__inflate_finish(s);
  embed__inflate_end(s);
  return status;
}

embed_status embed__inflate_justify(embed_context *ctx, const embed__deflated *from) {
  enum { USUAL = 16 }; /* rows of floats become a half or a tenth; a long run of one byte, a thousandth, is quickly read twice */
  return from->whole / USUAL <= from->bytes ? EMBED_OK : embed__inflate_all(ctx, from, NULL);
}
