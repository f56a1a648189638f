/* SPDX-License-Identifier: BSD-3-Clause */
/* embed convert IN OUT: the token table, its tokens and a head of its own, in the format that OUT ends in. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "numbers.h"
#include "progress.h"
#include "session.h"
#include "text.h"

typedef struct conversion {
  cli_session s;
  const char *out;
  embed_writer *writer;
  embed_table_options as;
  int64_t first, end;            /* rows */
  int all;                       /* of them */
  embed_tensor_info token, head; /* head.size 0 = none of its own */
  embed_table *parts[4];         /* what the writer reads, to be released */
  int part_count;
  const char *lost[4]; /* what OUT cannot hold */
  int lost_count;
} conversion;

static int fails(const conversion *c) { return cli_fail(c->out, "%s", embed_error_text(c->s.ctx)); }

static int ends_in(const char *path, const char *extension) {
  size_t whole = strlen(path), bytes = strlen(extension);
  return whole >= bytes && strcasecmp(path + whole - bytes, extension) == 0;
}

/* Columns per scale: the public calls do not tell, the bytes of a row do. */
static int32_t group_of(const embed_table *t) {
  for (int32_t group = 32; group <= 128; group *= 2)
    if (embed_row_bytes(embed_table_dtype(t), embed_table_dim(t), group) == embed_table_row_bytes(t)) return group;
  return 0;
}

/* Rows c->first to c->end - 1 of t, in place. */
static int take_rows(conversion *c, embed_table *t, embed_table **out) {
  embed_table_options o = {.size = sizeof o, .dtype = embed_table_dtype(t), .row_bytes = embed_table_row_bytes(t), .group = group_of(t)};
  c->parts[c->part_count++] = t;
  *out = t;
  if (c->all) return CLI_DONE;
  if (c->end > embed_table_vocab(t))
    return cli_fail(c->s.path, "rows %" PRId64 ":%" PRId64 " reach past the vocabulary of %" PRId64 " rows", c->first, c->end, embed_table_vocab(t));
  const char *data = embed_table_data(t);
  if (embed_table_view(c->s.ctx, data + c->first * o.row_bytes, c->end - c->first, embed_table_dim(t), &o, NULL, NULL, out) != EMBED_OK) return fails(c);
  c->parts[c->part_count++] = *out;
  return CLI_DONE;
}

static void lose(conversion *c, const char *what) { c->lost[c->lost_count++] = what; }

static int put_tables(conversion *c) {
  embed_table *t;
  int64_t head = -1, token = -1, bias = -1;
  if (embed_file_role(c->s.ctx, c->s.file, EMBED_ROLE_TOKEN, &token) != EMBED_OK) return cli_library_fail(&c->s);
  if (embed_file_role(c->s.ctx, c->s.file, EMBED_ROLE_HEAD, &head) != EMBED_OK) return cli_library_fail(&c->s);
  if (embed_file_role(c->s.ctx, c->s.file, EMBED_ROLE_HEAD_BIAS, &bias) != EMBED_OK) return cli_library_fail(&c->s);
  if (embed_file_table(c->s.ctx, c->s.file, -1, &t) != EMBED_OK) return cli_library_fail(&c->s);
  int status = take_rows(c, t, &t);
  if (status) return status;
  c->token.size = sizeof c->token;
  if (embed_file_tensor(c->s.ctx, c->s.file, token, &c->token) != EMBED_OK) return cli_library_fail(&c->s);
  if (embed_writer_table(c->s.ctx, c->writer, c->token.name, t, &c->as) != EMBED_OK) return fails(c);
  if (bias >= 0) lose(c, "the head's bias");
  if (head < 0 || head == token) return CLI_DONE;
  if (embed_file_table(c->s.ctx, c->s.file, head, &t) != EMBED_OK) return cli_library_fail(&c->s);
  status = take_rows(c, t, &t);
  if (status) return status;
  c->head.size = sizeof c->head;
  if (embed_file_tensor(c->s.ctx, c->s.file, head, &c->head) != EMBED_OK) return cli_library_fail(&c->s);
  if (!ends_in(c->out, ".embed") && !ends_in(c->out, ".safetensors")) {
    lose(c, "the head");
    return CLI_DONE;
  }
  return embed_writer_table(c->s.ctx, c->writer, c->head.name, t, &c->as) == EMBED_OK ? CLI_DONE : fails(c);
}

static int has_tokens(const conversion *c) {
  for (int64_t id = c->first; id < c->end; ++id)
    if (embed_file_token(c->s.file, id, NULL)) return 1;
  return 0;
}

static int put_tokens(conversion *c) {
  if (!has_tokens(c)) return CLI_DONE;
  for (int64_t id = c->first; id < c->end; ++id) {
    int64_t bytes;
    const char *token = embed_file_token(c->s.file, id, &bytes);
    if (!token) continue;
    embed_status status = embed_writer_token(c->s.ctx, c->writer, id - c->first, token, bytes);
    if (status == EMBED_E_UNSUPPORTED) {
      lose(c, "the tokens");
      return CLI_DONE;
    }
    if (status != EMBED_OK) return fails(c);
  }
  return CLI_DONE;
}

/* Other names of the table, as a file of this library's keeps them. */
static int put_ties(conversion *c) {
  const char *key, *value;
  int64_t bytes;
  if (!ends_in(c->out, ".embed") && !ends_in(c->out, ".safetensors")) return CLI_DONE;
  for (int64_t i = 0; embed_file_metadata(c->s.ctx, c->s.file, i, &key, &value, &bytes) == EMBED_OK; ++i) {
    if (strncmp(key, "tied.", 5) != 0 || !key[5] || strcmp(value, c->token.name) != 0 || (c->head.size && strcmp(key + 5, c->head.name) == 0)) continue;
    if (embed_writer_alias(c->s.ctx, c->writer, key + 5, c->token.name) != EMBED_OK) return fails(c);
  }
  return CLI_DONE;
}

static int put_text(conversion *c, const char *key, const char *text) {
  return embed_writer_metadata(c->s.ctx, c->writer, key, text, (int64_t)strlen(text)) == EMBED_OK ? CLI_DONE : fails(c);
}

static int put_number(conversion *c, const char *key, double number) {
  char text[64];
  snprintf(text, sizeof text, "%.9g", number);
  return put_text(c, key, text);
}

/* What roles and conventions were found in IN is said in OUT, where OUT can say it. */
static int put_conventions(conversion *c) {
  embed_conventions has = {.size = sizeof has};
  if (embed_file_conventions(c->s.ctx, c->s.file, &has) != EMBED_OK) return cli_library_fail(&c->s);
  int neutral = has.lookup_scale == 1 && has.logit_scale == 1 && has.logit_softcap == 0 && has.norm_epsilon == 0 && has.norm_flags == 0;
  if (!ends_in(c->out, ".embed")) {
    if (!neutral) lose(c, "the family's scales");
    return CLI_DONE;
  }
  int status = put_text(c, "embed.role.token", c->token.name);
  if (!status) status = put_text(c, "embed.role.head", c->head.size ? c->head.name : c->token.name);
  if (status || neutral) return status;
  status = put_number(c, "embed.lookup_scale", (double)has.lookup_scale);
  if (!status) status = put_text(c, "embed.scale_round", embed_dtype_name(has.scale_round));
  if (!status) status = put_number(c, "embed.logit_scale", (double)has.logit_scale);
  if (!status) status = put_number(c, "embed.logit_softcap", (double)has.logit_softcap);
  if (!status) status = put_number(c, "embed.norm_epsilon", (double)has.norm_epsilon);
  if (!status) status = put_number(c, "embed.norm_flags", has.norm_flags);
  return status;
}

static void tell(const conversion *c) {
  embed_dtype dtype = c->as.dtype == EMBED_DTYPE_NONE ? ends_in(c->out, ".bin") || ends_in(c->out, ".w2v") ? EMBED_F32 : c->token.dtype : c->as.dtype;
  cli_print_text(stdout, c->out, strlen(c->out));
  printf(": %" PRId64 " rows x %" PRId64 "  %s", c->end - c->first, embed_table_dim(c->parts[0]), embed_dtype_name(dtype));
  for (int i = 0; i < c->lost_count; ++i) printf("%s%s", i ? ", " : "; not kept: ", c->lost[i]);
  putchar('\n');
}

static int convert(conversion *c) {
  embed_table *t = NULL;
  if (embed_file_table(c->s.ctx, c->s.file, -1, &t) != EMBED_OK) return cli_library_fail(&c->s);
  if (c->all) c->end = embed_table_rows(t);
  embed_table_release(t);
  if (embed_writer_create(c->s.ctx, c->out, NULL, &c->writer) != EMBED_OK) return fails(c);
  int status = put_tables(c);
  if (!status) status = put_tokens(c);
  if (!status) status = put_ties(c);
  if (!status) status = put_conventions(c);
  if (!status && embed_writer_commit(c->s.ctx, c->writer) != EMBED_OK) status = fails(c);
  return status;
}

int cli_convert(const cli_options *o) {
  conversion c = {.out = o->operands[1], .all = !o->rows, .as = {.size = sizeof c.as, .dtype = EMBED_DTYPE_NONE}};
  if (o->dtype && (c.as.dtype = embed_dtype_find(o->dtype)) == EMBED_DTYPE_NONE) return cli_usage("convert", "there is no dtype \"%s\"", o->dtype);
  if (o->rows) {
    cli_span rows;
    int status = cli_range_read("convert", "--rows", o->rows, &rows);
    if (status) return status;
    c.first = rows.first;
    c.end = rows.end;
  }
  int status = cli_session_open(&c.s, o);
  if (!status) status = convert(&c);
  cli_progress_end();
  if (!status) tell(&c);
  embed_writer_release(c.writer);
  for (int i = c.part_count - 1; i >= 0; --i) embed_table_release(c.parts[i]);
  cli_session_close(&c.s);
  return status;
}
