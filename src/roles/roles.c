/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensor is which: by names, and where names say nothing by shapes. */
#include "roles/roles.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "io/decoded.h"
#include "roles/names.h"
#include "roles/notes.h"

static bool is_matrix(const embed__tensor *tensor) { return tensor->rank == 2 && tensor->dtype != EMBED_DTYPE_NONE && tensor->shape[1] > 0; }

/* Whether its name gives it to something beside the table. */
static bool is_spoken_for(const embed__tensor *tensor) {
  for (int32_t role = EMBED_ROLE_HEAD; role < EMBED__NAMED_ROLES; ++role)
    if (embed__is_role_name(tensor->name, role)) return true;
  return false;
}

/* The only matrix with this many rows (and columns; 0 = any) that no name gives away; -1 = none or several. */
static int64_t only_matrix(const embed_file *f, int64_t rows, int64_t dim) {
  int64_t found = -1;
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    const embed__tensor *tensor = &f->tensors[i];
    if (!is_matrix(tensor) || tensor->shape[0] != rows || (dim && tensor->shape[1] != dim) || is_spoken_for(tensor)) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

static int64_t largest_matrix(const embed_file *f, int64_t *matrices) {
  int64_t found = -1, most = -1;
  *matrices = 0;
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    const embed__tensor *tensor = &f->tensors[i];
    int64_t elements;
    if (!is_matrix(tensor) || is_spoken_for(tensor) || !embed__mul(tensor->shape[0], tensor->shape[1], &elements)) continue;
    ++*matrices;
    if (elements <= most) continue;
    most = elements;
    found = i;
  }
  return found;
}

/* The table by what the file's writer said: "tied.lm_head.weight" = its name. -1 = nothing that helps. */
static int64_t claimed_table(const embed_file *f) {
  static const char prefix[] = "tied.";
  for (int64_t k = 0; k < f->metadata_count; ++k) {
    const char *key = f->metadata[k].key, *name = key + sizeof prefix - 1;
    if (strncmp(key, prefix, sizeof prefix - 1) != 0) continue;
    int64_t i = embed__is_role_name(name, EMBED_ROLE_HEAD) || embed__is_role_name(name, EMBED_ROLE_TOKEN) ? embed__tensor_named(f, f->metadata[k].value) : -1;
    if (i >= 0 && f->tensors[i].rank == 2) return i;
  }
  return -1;
}

static embed_status note_table(embed_context *ctx, embed_file *f, int64_t i, const char *why, const char *ending) {
  embed__line line;
  f->roles[EMBED_ROLE_TOKEN] = i;
  embed__line_start(&line, "token table ");
  embed__line_name(&line, f->tensors[i].name);
  embed__text_add(&line.text, why);
  if (ending) embed__line_name(&line, ending);
  return embed__file_note_line(ctx, f, line.bytes);
}

/* Nothing is named as a table: shapes decide, and the notes say so. */
static embed_status table_by_shape(embed_context *ctx, embed_file *f, int64_t head) {
  int64_t matrices, i = -1;
  if (f->tensor_count == 1 && !is_spoken_for(&f->tensors[0])) {
    f->roles[EMBED_ROLE_TOKEN] = 0;
    return EMBED_OK;
  }
  if (head >= 0) {
    i = only_matrix(f, f->tensors[head].shape[0], f->tensors[head].shape[1]);
    if (i < 0) return EMBED_OK; /* the head serves as the table: tie.c */
    return note_table(ctx, f, i, ": the only tensor of the head's shape; no name tells it", NULL);
  }
  i = claimed_table(f);
  if (i >= 0) return note_table(ctx, f, i, ": the file's metadata ties an end to it; no name tells it", NULL);
  if (f->tokens) i = only_matrix(f, embed__tokens_count(f->tokens), 0);
  if (i >= 0) return note_table(ctx, f, i, ": the only tensor with a row per token; no name tells it", NULL);
  i = largest_matrix(f, &matrices);
  if (i < 0) return EMBED_OK;
  return note_table(ctx, f, i, matrices == 1 ? ": the only matrix; no name tells it" : ": the largest matrix; no name tells it", NULL);
}

static embed_status find_table(embed_context *ctx, embed_file *f, int64_t head) {
  const char *ending;
  int64_t i = embed__role_named(f, EMBED_ROLE_TOKEN, &ending);
  if (i < 0) return table_by_shape(ctx, f, head);
  if (ending) return note_table(ctx, f, i, ": its name ends in ", ending);
  f->roles[EMBED_ROLE_TOKEN] = i;
  return EMBED_OK;
}

/* A tensor of this role; one found by its ending alone has to be as wide as the table: other towers of a model have such names. */
static int64_t find_beside_table(const embed_file *f, int32_t role) {
  const char *ending;
  int64_t i = embed__role_named(f, role, &ending), table = f->roles[EMBED_ROLE_TOKEN], rows, dim;
  if (i < 0 || !ending || table < 0 || !embed__tensor_extents(&f->tensors[table], &rows, &dim)) return i;
  return f->tensors[i].shape[f->tensors[i].rank - 1] == dim ? i : -1;
}

static embed_status find_norm(embed_context *ctx, embed_file *f) {
  embed__line line;
  int64_t i = find_beside_table(f, EMBED_ROLE_NORM);
  bool input = i < 0;
  if (input) i = find_beside_table(f, EMBED__INPUT_NORM);
  if (i < 0) return EMBED_OK;
  f->roles[EMBED_ROLE_NORM] = i;
  f->roles[EMBED_ROLE_NORM_BIAS] = embed__role_sibling(f, EMBED_ROLE_NORM_BIAS, i, "weight", "bias");
  if (f->roles[EMBED_ROLE_NORM_BIAS] < 0) f->roles[EMBED_ROLE_NORM_BIAS] = embed__role_sibling(f, EMBED_ROLE_NORM_BIAS, i, "gamma", "beta");
  if (!input) return EMBED_OK;
  embed__line_start(&line, "norm ");
  embed__line_name(&line, f->tensors[i].name);
  embed__text_add(&line.text, " belongs to the input: it follows the sum of token, position and type rows");
  return embed__file_note_line(ctx, f, line.bytes);
}

static embed_status find_positions(embed_context *ctx, embed_file *f) {
  const char *ending;
  embed__line line;
  f->roles[EMBED_ROLE_TYPE] = find_beside_table(f, EMBED_ROLE_TYPE);
  f->roles[EMBED_ROLE_POSITION] = find_beside_table(f, EMBED_ROLE_POSITION);
  if (f->roles[EMBED_ROLE_POSITION] >= 0) return EMBED_OK;
  const int64_t factor = f->roles[EMBED_ROLE_POSITION] = embed__role_named(f, EMBED__FACTOR, &ending);
  if (factor < 0) return EMBED_OK;
  embed__line_start(&line, "positions ");
  embed__line_name(&line, f->tensors[factor].name);
  embed__text_add(&line.text, ": token rows are multiplied by them, not added");
  return embed__file_note_line(ctx, f, line.bytes);
}

/* Rows for every layer have the ids of the token table. Where a table of that name has other rows it is one of n-grams: llama.cpp stores
 * both under one name. */
static embed_status find_further_tables(embed_context *ctx, embed_file *f) {
  const char *ending;
  embed__line line;
  const int64_t table = f->roles[EMBED_ROLE_TOKEN], layers = embed__role_named(f, EMBED_ROLE_PER_LAYER, &ending);
  f->roles[EMBED_ROLE_NGRAM] = embed__role_named(f, EMBED_ROLE_NGRAM, &ending);
  if (layers < 0) return EMBED_OK;
  const int64_t rows = f->tensors[layers].shape[0];
  if (table < 0 || (f->tensors[table].rank == 2 && f->tensors[table].shape[0] == rows)) {
    f->roles[EMBED_ROLE_PER_LAYER] = layers;
    if (table >= 0) f->tensors[layers].vocab = f->tensors[table].vocab;
    return EMBED_OK;
  }
  if (f->roles[EMBED_ROLE_NGRAM] >= 0) return EMBED_OK;
  f->roles[EMBED_ROLE_NGRAM] = layers;
  embed__line_start(&line, "");
  embed__line_name(&line, f->tensors[layers].name);
  embed__text_add(&line.text, " has ");
  embed__text_number(&line.text, rows);
  embed__text_add(&line.text, " rows, ");
  embed__line_name(&line, f->tensors[table].name);
  embed__text_add(&line.text, " ");
  embed__text_number(&line.text, f->tensors[table].shape[0]);
  embed__text_add(&line.text, ": its rows are those of n-grams, not of layers");
  return embed__file_note_line(ctx, f, line.bytes);
}

static int64_t find_head_bias(const embed_file *f) {
  const char *ending;
  int64_t own = f->own_head < 0 ? -1 : embed__role_sibling(f, EMBED_ROLE_HEAD_BIAS, f->own_head, "weight", "bias");
  return own >= 0 ? own : embed__role_named(f, EMBED_ROLE_HEAD_BIAS, &ending);
}

/* The rows that are ids: as many as the file names tokens. A table with fewer keeps its rows: an id past them is refused, never
 * clamped. */
static embed_status limit_vocab(embed_context *ctx, embed_file *f, int64_t i) {
  embed__line line;
  embed__tensor *tensor = &f->tensors[i];
  int64_t tokens = f->tokens ? embed__tokens_count(f->tokens) : 0, rows, dim;
  if (tokens == 0 || tensor->vocab > 0 || !embed__tensor_extents(tensor, &rows, &dim) || tensor->rank != 2 || rows == tokens) return EMBED_OK;
  embed__line_start(&line, "");
  embed__line_name(&line, tensor->name);
  embed__text_add(&line.text, " has ");
  embed__text_number(&line.text, rows);
  embed__text_add(&line.text, " rows, the file names ");
  embed__text_number(&line.text, tokens);
  embed__text_add(&line.text, rows > tokens ? " tokens: the rows behind them are padding" : " tokens: the tokens behind the rows have none");
  if (rows > tokens) tensor->vocab = tokens;
  return embed__file_note_line(ctx, f, line.bytes);
}

/* {arch}.vocab_size is often stale (1bit-MONSTER#935): it is held against the table and changes nothing. */
static embed_status check_vocab_size(embed_context *ctx, embed_file *f) {
  enum { KEY = 128 };
  char key[KEY];
  embed__line line;
  int64_t rows, dim, table = f->roles[EMBED_ROLE_TOKEN];
  const embed__metadata *arch = embed__file_metadata_find(f, "general.architecture");
  if (!arch || table < 0 || !embed__tensor_extents(&f->tensors[table], &rows, &dim)) return EMBED_OK;
  embed__text text = embed__text_in(key, sizeof key);
  embed__text_add(&text, arch->value);
  embed__text_add(&text, ".vocab_size");
  const embed__metadata *size = embed__file_metadata_find(f, key);
  if (!size || !isfinite(size->number) || size->number == (double)rows) return EMBED_OK;
  embed__line_start(&line, key);
  embed__text_add(&line.text, " says ");
  embed__text_add(&line.text, size->value);
  embed__text_add(&line.text, ", ");
  embed__line_name(&line, f->tensors[table].name);
  embed__text_add(&line.text, " has ");
  embed__text_number(&line.text, rows);
  embed__text_add(&line.text, " rows: the rows count");
  return embed__file_note_line(ctx, f, line.bytes);
}

/* A file that says itself what its tensors are for (.embed) is believed: two ends that it stores are two, be they equal or not. */
static embed_status resolve_given(embed_context *ctx, embed_file *f) {
  int64_t head = f->roles[EMBED_ROLE_HEAD], table = f->roles[EMBED_ROLE_TOKEN];
  if (table < 0 || head < 0) return embed__tie(ctx, f, head);
  f->own_head = head == table ? -1 : head;
  return EMBED_OK;
}

static embed_status resolve_by_names(embed_context *ctx, embed_file *f) {
  const char *ending;
  int64_t head = embed__role_named(f, EMBED_ROLE_HEAD, &ending);
  EMBED__TRY(find_table(ctx, f, head));
  EMBED__TRY(embed__tie(ctx, f, head));
  f->roles[EMBED_ROLE_HEAD_BIAS] = find_head_bias(f);
  EMBED__TRY(find_positions(ctx, f));
  EMBED__TRY(find_norm(ctx, f));
  EMBED__TRY(check_vocab_size(ctx, f));
  if (f->roles[EMBED_ROLE_TOKEN] >= 0) EMBED__TRY(limit_vocab(ctx, f, f->roles[EMBED_ROLE_TOKEN]));
  EMBED__TRY(find_further_tables(ctx, f));
  if (f->own_head < 0) return EMBED_OK;
  if (f->roles[EMBED_ROLE_HEAD] == f->own_head) return limit_vocab(ctx, f, f->own_head);
  f->tensors[f->own_head].vocab = f->tensors[f->roles[EMBED_ROLE_TOKEN]].vocab;
  return EMBED_OK;
}

/* The ends alone: of all tensors it would be an eighth of a file that is read. */
embed_status embed__roles_resolve(embed_context *ctx, embed_file *f) {
  EMBED__TRY(f->roles_given ? resolve_given(ctx, f) : resolve_by_names(ctx, f));
  EMBED__TRY(embed__narrow_packed(ctx, f, f->roles[EMBED_ROLE_TOKEN]));
  EMBED__TRY(embed__narrow_packed(ctx, f, f->roles[EMBED_ROLE_HEAD]));
  return embed__narrow_packed(ctx, f, f->own_head);
}

embed_status embed_file_role(embed_context *ctx, const embed_file *f, embed_role role, int64_t *i) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, i);
  if (role < 0 || role >= EMBED__ROLES) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%d is no role: they are 0 to %d", role, EMBED__ROLES - 1);
  *i = f->roles[role];
  return EMBED_OK;
}
