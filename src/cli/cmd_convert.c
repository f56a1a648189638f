/* SPDX-License-Identifier: BSD-3-Clause */
/* embed convert IN OUT: the token table and its tokens, a head of its own, what stands beside them by role, conventions and metadata, in
 * the format that is asked for or that OUT ends in; what that cannot hold is told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "json.h"
#include "numbers.h"
#include "progress.h"
#include "session.h"
#include "text.h"

enum { ROLES = EMBED_ROLE_NGRAM + 1, PARTS = 3 * ROLES + 2, LOST = 2 * ROLES + 5 };

static const struct {
  const char *key, *what, *which;
} roles[ROLES] = {{"embed.role.token", "the table", "which one is the table"},
                  {"embed.role.head", "the head", "which one is the head"},
                  {"embed.role.head_bias", "the head's bias", "which one is the head's bias"},
                  {"embed.role.position", "the positions", "which ones are the positions"},
                  {"embed.role.type", "the types", "which ones are the types"},
                  {"embed.role.norm", "the norm", "which one is the norm"},
                  {"embed.role.norm_bias", "the norm's bias", "which one is the norm's bias"},
                  {"embed.role.per_layer", "the rows of layers", "which ones are the rows of layers"},
                  {"embed.role.ngram", "the rows of n-grams", "which ones are the rows of n-grams"}};

typedef struct conversion {
  cli_session s;
  const cli_options *o;
  const char *out;
  embed_writer *writer;
  embed_table_options as;
  int64_t first, end;            /* rows */
  int64_t vocab;                 /* of IN */
  int all;                       /* of them */
  int many, pairs;               /* OUT holds more than one table; ties and metadata */
  int gguf;                      /* IN and OUT are GGUF, and all tokens go over: values keep their kinds */
  embed_tensor_info kept[ROLES]; /* by role: what was handed to the writer, under its name there; size 0 = nothing, or a tied head */
  const char *was;               /* the token table's name in IN */
  embed_table *parts[PARTS];     /* what the writer reads, to be released; the token table first */
  int part_count;
  const char *lost[LOST]; /* what OUT cannot hold */
  int lost_count;
} conversion;

static int fails(const conversion *c) { return cli_fail(c->out, "%s", embed_error_text(c->s.ctx)); }

static int ends_in(const char *path, const char *extension) {
  size_t whole = strlen(path), bytes = strlen(extension);
  return whole >= bytes && strcasecmp(path + whole - bytes, extension) == 0;
}

/* OUT is of this format, by --format or by what it ends in. */
static int writes(const conversion *c, const char *format, const char *extension) {
  return c->o->format ? strcmp(c->o->format, format) == 0 : ends_in(c->out, extension);
}

/* Formats that have f32 alone. */
static int writes_f32(const conversion *c) {
  return writes(c, "word2vec", ".bin") || writes(c, "word2vec", ".w2v") || writes(c, "word2vec-text", ".vec") || writes(c, "word2vec-text", ".txt") ||
         writes(c, "finalfusion", ".fifu");
}

static int starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* The name in OUT of what IN calls so. */
static const char *renamed(const conversion *c, const char *name) {
  const size_t bytes = strlen(name);
  for (int i = 0; i < c->o->rename_count; ++i)
    if (starts(c->o->renames[i], name) && c->o->renames[i][bytes] == '=') return c->o->renames[i] + bytes + 1;
  return name;
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
  if (o.dtype == EMBED_PQ) { /* codes have no view without their centroids */
    embed_table *floats;
    if (embed_table_convert(c->s.ctx, t, NULL, &floats) != EMBED_OK) return fails(c);
    c->parts[c->part_count++] = t = floats;
    o = (embed_table_options){.size = sizeof o, .row_bytes = embed_table_row_bytes(t)};
  }
  const char *data = embed_table_data(t);
  if (embed_table_view(c->s.ctx, data + c->first * o.row_bytes, c->end - c->first, embed_table_dim(t), &o, NULL, NULL, out) != EMBED_OK) return fails(c);
  c->parts[c->part_count++] = *out;
  return CLI_DONE;
}

static void lose(conversion *c, const char *what) { c->lost[c->lost_count++] = what; }

/* Of a bias, a number per row of the head: the numbers of these rows. */
static int take_numbers(conversion *c, embed_table *t, embed_table **out) {
  const embed_dtype dtype = embed_table_dtype(t);
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  int64_t width = dtype == EMBED_F64 ? 8 : dtype == EMBED_F32 ? 4 : dtype == EMBED_F16 || dtype == EMBED_BF16 ? 2 : 0;
  c->parts[c->part_count++] = t;
  *out = t;
  if (c->all) return CLI_DONE;
  if (!width || c->end > embed_table_dim(t)) return cli_fail(c->s.path, "the head's bias has no numbers of rows %" PRId64 ":%" PRId64, c->first, c->end);
  const char *data = embed_table_data(t);
  if (embed_table_view(c->s.ctx, data + c->first * width, 1, c->end - c->first, &o, NULL, NULL, out) != EMBED_OK) return fails(c);
  c->parts[c->part_count++] = *out;
  return CLI_DONE;
}

/* --dtype is for the two ends. What stands beside them stays as it is, or becomes f32 where OUT has no such type. */
static int put_role(conversion *c, embed_role role, int64_t i) {
  embed_tensor_info info = {.size = sizeof info};
  embed_table_options as = c->as;
  embed_table *t;
  if (embed_file_tensor(c->s.ctx, c->s.file, i, &info) != EMBED_OK) return cli_library_fail(&c->s);
  if (role > EMBED_ROLE_TOKEN && (!c->many || info.dtype == EMBED_DTYPE_NONE)) {
    lose(c, roles[role].what);
    return CLI_DONE;
  }
  if (embed_file_table(c->s.ctx, c->s.file, i, &t) != EMBED_OK) return cli_library_fail(&c->s);
  int status = CLI_DONE;
  if (role <= EMBED_ROLE_HEAD || role == EMBED_ROLE_PER_LAYER) /* a row per id */
    status = take_rows(c, t, &t);
  else if (role == EMBED_ROLE_HEAD_BIAS)
    status = take_numbers(c, t, &t);
  else
    c->parts[c->part_count++] = t;
  if (status) return status;
  if (role > EMBED_ROLE_HEAD) as.dtype = EMBED_DTYPE_NONE;
  if (role == EMBED_ROLE_TOKEN) c->was = info.name;
  info.name = renamed(c, info.name);
  embed_status written = embed_writer_table(c->s.ctx, c->writer, info.name, t, &as);
  if (written == EMBED_E_UNSUPPORTED && role > EMBED_ROLE_HEAD) {
    as.dtype = EMBED_F32;
    written = embed_writer_table(c->s.ctx, c->writer, info.name, t, &as);
  }
  if (written != EMBED_OK) return fails(c);
  c->kept[role] = info;
  return CLI_DONE;
}

static int put_tables(conversion *c) {
  int64_t token = -1;
  for (embed_role role = EMBED_ROLE_TOKEN; role < ROLES; ++role) {
    int64_t i = -1;
    if (embed_file_role(c->s.ctx, c->s.file, role, &i) != EMBED_OK) return cli_library_fail(&c->s);
    if (role == EMBED_ROLE_TOKEN) token = i;
    if (i < 0 || (role != EMBED_ROLE_TOKEN && i == token)) continue; /* a tied head is the table */
    int status = put_role(c, role, i);
    if (status) return status;
  }
  return CLI_DONE;
}

static int has_tokens(const conversion *c) {
  for (int64_t id = c->first; id < c->end; ++id)
    if (embed_file_token(c->s.file, id, NULL)) return 1;
  return 0;
}

static int put_tokens(conversion *c) {
  if (!has_tokens(c)) return CLI_DONE;
  if (c->gguf) return embed_writer_tokens(c->s.ctx, c->writer, c->s.file) == EMBED_OK ? CLI_DONE : fails(c);
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

static int is_kept(const conversion *c, const char *name) {
  for (int role = 0; role < ROLES; ++role)
    if (c->kept[role].size && strcmp(c->kept[role].name, name) == 0) return 1;
  return 0;
}

/* Other names of the table, as a file of this library's keeps them. */
static int put_ties(conversion *c) {
  const char *key, *value;
  int64_t bytes;
  if (!c->pairs) return CLI_DONE;
  for (int64_t i = 0; embed_file_metadata(c->s.ctx, c->s.file, i, &key, &value, &bytes) == EMBED_OK; ++i) {
    if (!starts(key, "tied.") || !key[5] || strcmp(value, c->was) != 0) continue;
    const char *name = renamed(c, key + 5), *table = c->kept[EMBED_ROLE_TOKEN].name;
    if (!is_kept(c, name) && embed_writer_alias(c->s.ctx, c->writer, name, table) != EMBED_OK) return fails(c);
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

/* The roles that were found in IN are said in OUT, where OUT can say them; by their names they would be found again at best. */
static int put_roles(conversion *c) {
  int status = CLI_DONE;
  for (int role = 0; !status && role < ROLES && writes(c, "embed", ".embed"); ++role) {
    const embed_tensor_info *tensor = &c->kept[role];
    if (role == EMBED_ROLE_HEAD && !tensor->size) tensor = &c->kept[EMBED_ROLE_TOKEN];
    if (tensor->size) status = put_text(c, roles[role].key, tensor->name);
  }
  return status;
}

/* GGUF's own keys say them, and go over as they are, but where IN has keys of this library's. */
static int says_conventions(const conversion *c) {
  const char *key, *value;
  int64_t bytes;
  int own = 0;
  for (int64_t i = 0; embed_file_metadata(c->s.ctx, c->s.file, i, &key, &value, &bytes) == EMBED_OK; ++i) own |= starts(key, "embed.");
  return writes(c, "gguf", ".gguf") && strcmp(embed_file_format(c->s.file), "gguf") == 0 && !own;
}

static int put_conventions(conversion *c) {
  embed_conventions has = {.size = sizeof has};
  if (embed_file_conventions(c->s.ctx, c->s.file, &has) != EMBED_OK) return cli_library_fail(&c->s);
  if (has.lookup_scale == 1 && has.logit_scale == 1 && has.logit_softcap == 0 && has.norm_epsilon == 0 && has.norm_flags == 0) return CLI_DONE;
  if (says_conventions(c)) return CLI_DONE;
  if (!c->pairs) {
    lose(c, "the family's scales and norm");
    return CLI_DONE;
  }
  int status = put_number(c, "embed.lookup_scale", (double)has.lookup_scale);
  if (!status) status = put_text(c, "embed.scale_round", embed_dtype_name(has.scale_round));
  if (!status) status = put_number(c, "embed.logit_scale", (double)has.logit_scale);
  if (!status) status = put_number(c, "embed.logit_softcap", (double)has.logit_softcap);
  if (!status) status = put_number(c, "embed.norm_epsilon", (double)has.norm_epsilon);
  if (!status) status = put_number(c, "embed.norm_flags", has.norm_flags);
  return status;
}

/* What is said of IN's bytes and not of the model, and what other calls here write. */
static int is_of_the_file(const char *key) {
  static const char *const keys[] = {"format", "general.alignment", "general.file_type", "general.quantization_version"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
    if (strcmp(key, keys[i]) == 0) return 1;
  return strncmp(key, "tied.", 5) == 0 || strncmp(key, "embed.", 6) == 0 || strncmp(key, "split.", 6) == 0;
}

/* "[49152 strings]": the library tells of a long array, it does not give it as text. */
static int is_summary(const char *value) {
  size_t digits = value[0] == '[' ? strspn(value + 1, "0123456789") : 0;
  const char *rest = value + 1 + digits;
  return digits && (strcmp(rest, " strings]") == 0 || strcmp(rest, " numbers]") == 0 || strcmp(rest, " bools]") == 0);
}

/* Of other rows than those that a range leaves. */
static int is_of_all_rows(const char *key) { return ends_in(key, "_token_id") || ends_in(key, ".vocab_size"); }

/* IN's own pairs. One that OUT cannot hold (safetensors: no UTF-8) is left out and told. */
static int put_metadata(conversion *c) {
  const char *key, *value;
  int64_t bytes, left_out = 0, i = 0;
  for (; embed_file_metadata(c->s.ctx, c->s.file, i, &key, &value, &bytes) == EMBED_OK; ++i) {
    if (is_of_the_file(key) || (is_summary(value) && !c->gguf) || strcmp(key, "tokenizer.ggml.tokens") == 0) continue;
    embed_status status =
        c->pairs && *key && (c->all || !is_of_all_rows(key)) ? embed_writer_metadata(c->s.ctx, c->writer, key, value, bytes) : EMBED_E_ARGUMENT;
    if (status == EMBED_E_ARGUMENT)
      ++left_out;
    else if (status != EMBED_OK)
      return fails(c);
  }
  if (left_out) lose(c, c->pairs ? "some metadata" : "the metadata");
  return CLI_DONE;
}

/* What the names in OUT, read again, do not say; an .embed file says it by itself. A file that cannot be opened again was written all the same. */
static int check_found(conversion *c) {
  embed_file *out = NULL;
  int status = CLI_DONE;
  if (!c->many || writes(c, "embed", ".embed") || embed_file_open(c->s.ctx, c->out, NULL, &out) != EMBED_OK) return CLI_DONE;
  for (int role = 0; !status && role < ROLES; ++role) {
    embed_tensor_info found = {.size = sizeof found};
    int64_t i = -1;
    if (!c->kept[role].size) continue;
    if (embed_file_role(c->s.ctx, out, (embed_role)role, &i) != EMBED_OK || (i >= 0 && embed_file_tensor(c->s.ctx, out, i, &found) != EMBED_OK))
      status = fails(c);
    else if (i < 0 || strcmp(found.name, c->kept[role].name) != 0)
      lose(c, roles[role].which);
  }
  embed_table *t = NULL;
  if (!status && c->all && embed_file_table(c->s.ctx, out, -1, &t) == EMBED_OK && embed_table_vocab(t) != c->vocab) lose(c, "where the vocabulary ends");
  embed_table_release(t);
  embed_file_release(out);
  return status;
}

static void tell_json(const conversion *c, embed_dtype dtype) {
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "file"), cli_json_bytes(&j, c->out, (int64_t)strlen(c->out));
  cli_json_key(&j, "rows"), cli_json_integer(&j, c->end - c->first);
  cli_json_key(&j, "dim"), cli_json_integer(&j, embed_table_dim(c->parts[0]));
  cli_json_key(&j, "dtype"), cli_json_text(&j, embed_dtype_name(dtype));
  cli_json_key(&j, "not_kept"), cli_json_open(&j, '[');
  for (int i = 0; i < c->lost_count; ++i) cli_json_text(&j, c->lost[i]);
  cli_json_close(&j, ']');
  cli_json_close(&j, '}');
  cli_json_end();
}

static void tell(const conversion *c) {
  const embed_dtype asked = c->as.dtype == EMBED_DTYPE_NONE ? c->kept[EMBED_ROLE_TOKEN].dtype : c->as.dtype;
  const embed_dtype dtype = writes_f32(c) || asked == EMBED_PQ ? EMBED_F32 : asked;
  if (c->o->json) {
    tell_json(c, dtype);
    return;
  }
  cli_print_text(stdout, c->out, strlen(c->out));
  printf(": %" PRId64 " rows x %" PRId64 "  %s", c->end - c->first, embed_table_dim(c->parts[0]), embed_dtype_name(dtype));
  for (int i = 0; i < c->lost_count; ++i) printf("%s%s", i ? ", " : "; not kept: ", c->lost[i]);
  putchar('\n');
}

/* --rename names what is there; a name that nothing bears is a slip of the pen. */
static int check_renames(const conversion *c) {
  for (int i = 0; i < c->o->rename_count; ++i) {
    const char *names = c->o->renames[i];
    embed_tensor_info info = {.size = sizeof info};
    int64_t tensor = 0;
    const int64_t count = embed_file_count(c->s.file);
    for (; tensor < count; ++tensor) {
      if (embed_file_tensor(c->s.ctx, c->s.file, tensor, &info) != EMBED_OK) return cli_library_fail(&c->s);
      if (starts(names, info.name) && names[strlen(info.name)] == '=') break;
    }
    if (tensor == count) return cli_fail(c->s.path, "there is no table to be renamed: \"%s\"", names);
  }
  return CLI_DONE;
}

static int create(conversion *c) {
  const embed_writer_options options = {.size = sizeof options, .format = c->o->format};
  if (embed_writer_create(c->s.ctx, c->out, &options, &c->writer) != EMBED_OK) return fails(c);
  c->pairs = embed_writer_metadata(c->s.ctx, c->writer, "", NULL, 0) != EMBED_E_UNSUPPORTED; /* an empty key is refused by those that have keys */
  c->many = c->pairs || writes(c, "npz", ".npz");
  c->gguf = c->all && writes(c, "gguf", ".gguf") && strcmp(embed_file_format(c->s.file), "gguf") == 0;
  return CLI_DONE;
}

static int convert(conversion *c) {
  embed_table *t = NULL;
  if (embed_file_table(c->s.ctx, c->s.file, -1, &t) != EMBED_OK) return cli_library_fail(&c->s);
  if (c->all) c->end = embed_table_rows(t);
  c->vocab = embed_table_vocab(t);
  embed_table_release(t);
  if (c->all && writes_f32(c) && c->vocab < c->end) { /* a token for each row, or no row */
    c->end = c->vocab;
    lose(c, "rows behind the vocabulary");
  }
  int status = check_renames(c);
  if (!status) status = create(c);
  if (!status) status = put_tables(c);
  if (!status) status = put_tokens(c);
  if (!status) status = put_ties(c);
  if (!status) status = put_roles(c);
  if (!status) status = put_conventions(c);
  if (!status) status = put_metadata(c);
  if (!status && embed_writer_commit(c->s.ctx, c->writer) != EMBED_OK) status = fails(c);
  if (!status) status = check_found(c);
  return status;
}

int cli_convert(const cli_options *o) {
  conversion c = {.o = o, .out = o->operands[1], .all = !o->rows, .as = {.size = sizeof c.as, .dtype = EMBED_DTYPE_NONE}};
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
