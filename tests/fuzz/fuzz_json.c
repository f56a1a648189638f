/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes to the JSON parser: it ends, its tokens lie in the text, and what it takes once it takes again. */
#include <embed/embed.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool fact) {
  if (!fact) abort();
}

typedef struct outcome {
  embed_status status;
  int64_t tokens, at;
} outcome;

/* Values below the top are skipped where skip says so. */
static outcome parse(embed_context *ctx, const uint8_t *data, size_t size, bool skip) {
  char *text = malloc(size + 1); /* exactly: the sanitizer sees one byte too far */
  embed__json j;
  outcome o = {.at = -1};
  int64_t first = -1, opened = 0;
  must(text != NULL);
  memcpy(text, data, size);
  text[size] = '\0';
  embed__json_begin(&j, ctx, "fuzz", text, (int64_t)size, 0);
  do {
    o.status = skip && j.depth == 1 && j.kind == EMBED__JSON_KEY ? embed__json_skip(&j) : embed__json_next(&j);
    if (o.status != EMBED_OK) break;
    must(j.first >= first && j.first <= (int64_t)size);
    must(j.depth >= 0 && j.depth <= EMBED__JSON_DEPTH);
    if (j.kind == EMBED__JSON_OBJECT || j.kind == EMBED__JSON_ARRAY) ++opened;
    if (j.kind == EMBED__JSON_OBJECT_END || j.kind == EMBED__JSON_ARRAY_END) --opened;
    if (!skip) must(opened == j.depth);
    if (j.kind == EMBED__JSON_KEY || j.kind == EMBED__JSON_STRING) {
      must(j.string >= text && j.string + j.string_bytes < text + size);
      must(j.string[j.string_bytes] == '\0');
    }
    first = j.first;
    ++o.tokens;
    must(o.tokens <= (int64_t)size + 1);
  } while (j.kind != EMBED__JSON_END);
  if (o.status != EMBED_OK) {
    o.at = embed_error_at(ctx);
    must(o.status == EMBED_E_FORMAT || o.status == EMBED_E_OVERFLOW);
    must(o.at >= 0 && o.at <= (int64_t)size);
    must(embed_error_text(ctx)[0] != '\0');
  }
  embed__json_end(&j);
  free(text);
  return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static embed_context *ctx;
  if (!ctx) must(embed_context_create(NULL, &ctx) == EMBED_OK);
  outcome all = parse(ctx, data, size, false), skipped = parse(ctx, data, size, true);
  must(all.status == skipped.status && all.at == skipped.at); /* skipping proves as much as reading */
  return 0;
}
