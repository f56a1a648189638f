/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "progress.h"

int cli_context(cli_session *s, const char *isa, embed_context **out) {
  char why[512] = "";
  embed_context_options options = {.size = sizeof options, .pool = s->pool, .isa = isa, .progress = cli_progress, .why = why, .why_bytes = sizeof why};
  embed_status status = embed_context_create(&options, out);
  if (status == EMBED_OK) return CLI_DONE;
  return cli_fail(isa ? "EMBED_ISA" : s->path, "%s", why[0] ? why : embed_status_name(status));
}

int cli_session_open(cli_session *s, const cli_options *o) {
  *s = (cli_session){.path = o->operands[0]};
  const char *isa = getenv("EMBED_ISA");
  if (isa && !*isa) isa = NULL;
  embed_status status = o->threads == 1 ? EMBED_OK : embed_pool_create(o->threads, &s->pool);
  if (status != EMBED_OK) return cli_fail("--threads", "the threads could not be started (%s)", embed_status_name(status));
  if (cli_context(s, isa, &s->ctx)) return CLI_FAILED;
  const int writes = cli_command_find(o->command)->takes & CLI_FROM;
  const embed_file_options options_of_file = {.size = sizeof options_of_file, .format = writes ? o->from : o->format, .dim = o->dim, .vocab = o->vocab};
  return embed_file_open(s->ctx, s->path, &options_of_file, &s->file) == EMBED_OK ? CLI_DONE : cli_library_fail(s);
}

int cli_session_table(cli_session *s) { return embed_file_table(s->ctx, s->file, -1, &s->table) == EMBED_OK ? CLI_DONE : cli_library_fail(s); }

int cli_session_head(cli_session *s, const embed_head_options *options) {
  return embed_file_head(s->ctx, s->file, s->table, options, &s->head) == EMBED_OK ? CLI_DONE : cli_library_fail(s);
}

void cli_session_close(cli_session *s) {
  cli_progress_end();
  embed_head_release(s->head);
  embed_table_release(s->table);
  embed_file_release(s->file);
  embed_context_release(s->ctx);
  embed_pool_release(s->pool);
  *s = (cli_session){0};
}

int cli_library_fail(const cli_session *s) { return cli_fail(s->path, "%s", embed_error_text(s->ctx)); }

void *cli_array(const cli_session *s, int64_t count, int64_t each, size_t bytes) {
  size_t product = 0;
  void *array = NULL;
  if (!__builtin_mul_overflow(count, each, &product) && !__builtin_mul_overflow(product, bytes, &product)) array = malloc(product ? product : 1);
  if (!array) cli_fail(s->path, "out of memory: %" PRId64 " x %" PRId64 " x %zu bytes", count, each, bytes);
  return array;
}

int cli_session_row(cli_session *s, const char *word, int32_t *id) {
  int64_t row, vocab = embed_table_vocab(s->table);
  size_t length = strlen(word);
  if (word[0] == '#' && cli_parse_number(word + 1, length - 1, &row)) {
    if (row >= vocab) return cli_fail(s->path, "row %s is outside the vocabulary of %" PRId64 " rows", word, vocab);
  } else if (embed_file_token_id(s->ctx, s->file, word, (int64_t)length, &row) != EMBED_OK) {
    return cli_library_fail(s);
  }
  if (row > INT32_MAX) return cli_fail(s->path, "row %" PRId64 " is beyond the %" PRId32 " that can be searched", row, INT32_MAX);
  *id = (int32_t)row;
  return CLI_DONE;
}
