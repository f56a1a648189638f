/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
static int utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  int more = s[0] >= 0xC2 && s[0] <= 0xDF ? 1 : s[0] >= 0xE0 && s[0] <= 0xEF ? 2 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 3 : 0;
  if (!more) return 0;
  for (int i = 1; i <= more; ++i)
    if ((s[i] & 0xC0) != 0x80) return 0;     /* also stops at the terminating NUL */
  if (s[0] == 0xE0 && s[1] < 0xA0) return 0; /* overlong */
  if (s[0] == 0xED && s[1] > 0x9F) return 0; /* surrogate */
  if (s[0] == 0xF0 && s[1] < 0x90) return 0;
  if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
  return more + 1;
}

/* File names and tokens may hold any bytes and a long text may be cut anywhere: what is not UTF-8 becomes '?'. */
static void make_utf8(char *text) {
  unsigned char *s = (unsigned char *)text;
  while (*s) {
    int length = utf8_length(s);
    if (length) {
      s += length;
    } else {
      *s++ = '?';
    }
  }
}

embed_status embed__fail(embed_context *ctx, embed_status status, int64_t at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(ctx->error_text, sizeof ctx->error_text, format, arguments) < 0) ctx->error_text[0] = '\0';
  va_end(arguments);
  make_utf8(ctx->error_text);
  ctx->error_at = at;
  return status;
}

embed_status embed__out_of_memory(embed_context *ctx, int64_t bytes) {
  if (bytes < 0) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a size does not fit into 64 bits");
  return embed__fail(ctx, EMBED_E_MEMORY, -1, "the allocator has no %" PRId64 " bytes", bytes);
}

embed_status embed__null(embed_context *ctx, const char *argument) { return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s is NULL", argument); }

const char *embed_error_text(const embed_context *ctx) { return ctx ? ctx->error_text : "the context is NULL"; }

int64_t embed_error_at(const embed_context *ctx) { return ctx ? ctx->error_at : -1; }

const char *embed_status_name(embed_status s) {
  static const char *const names[] = {
      "EMBED_OK",       "EMBED_E_ARGUMENT", "EMBED_E_MEMORY",    "EMBED_E_ID",        "EMBED_E_OPTION",   "EMBED_E_UNSUPPORTED",
      "EMBED_E_FORMAT", "EMBED_E_IO",       "EMBED_E_NOT_FOUND", "EMBED_E_READ_ONLY", "EMBED_E_OVERFLOW", "EMBED_E_CANCELLED",
      "EMBED_E_STALE",  "EMBED_E_MISMATCH", "EMBED_E_CALLBACK",  "EMBED_E_NONFINITE",
  };
  const int32_t count = (int32_t)(sizeof names / sizeof *names);
  return s <= 0 && s > -count ? names[-s] : "unknown status";
}

uint32_t embed_version(void) { return EMBED_VERSION; }
