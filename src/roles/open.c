/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening stands here and not in io/: a file is open when its roles are known, and io/ knows none. */
#include <inttypes.h>
#include <string.h>

#include "core/memory.h"
#include "core/options.h"
#include "io/folder.h"
#include "io/format.h"
#include "io/text.h"
#include "io/tokenizer.h"
#include "roles/config.h"
#include "roles/roles.h"

static embed_status check_options(embed_context *ctx, const embed_file_options *given, embed_file_options *o) {
  EMBED__TRY(embed__options(ctx, "embed_file_options", given, EMBED_FILE_POPULATE | EMBED_FILE_COPY | EMBED_FILE_CHECK, o, sizeof *o));
  if (o->max_header < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "max_header is %" PRId64 " bytes", o->max_header);
  if (o->dim < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "dim is %" PRId64, o->dim);
  if (o->vocab < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "vocab is %" PRId64, o->vocab);
  if (o->reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_file_options.reserved is not NULL");
  return EMBED_OK;
}

/* The token table has as many rows as the caller expects; 0 = any. */
static embed_status check_vocab(embed_context *ctx, const embed_file *f, int64_t wanted) {
  enum { SHAPE = 200 };
  char shape[SHAPE];
  int64_t rows, dim, table = f->roles[EMBED_ROLE_TOKEN];
  if (wanted == 0) return EMBED_OK;
  if (table < 0) return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: %" PRId64 " rows are expected, there is no token table", f->label, wanted);
  const embed__tensor *tokens = &f->tensors[table];
  if (embed__tensor_extents(tokens, &rows, &dim) && rows == wanted) return EMBED_OK;
  embed__text text = embed__text_in(shape, sizeof shape);
  embed__text_shape(&text, tokens->shape, tokens->rank);
  return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: %" PRId64 " rows are expected, the token table \"%.100s\" has shape %s", f->label, wanted, tokens->name,
                     shape);
}

/* GGUF and .embed say of themselves what their family does; the other formats have none. */
static bool is_of_transformers(const embed_file *f) {
  const char *name = f->format->name;
  return !strcmp(name, "safetensors") || !strcmp(name, "safetensors-index") || !strcmp(name, "pytorch") || !strcmp(name, "pytorch-index");
}

/* Their files have no tokens; a tokenizer in the same folder is the model's. Any npz may lie in a folder: only a vocabulary with a token
 * for each of its rows is believed. Rows behind the last token stay ids: a file beside is a hint, and may be another model's. */
static embed_status read_tokens(embed_context *ctx, embed_file *f, const char *path, const embed_file_options *o) {
  const int64_t table = f->roles[EMBED_ROLE_TOKEN];
  int64_t rows, dim;
  const bool npz = !strcmp(f->format->name, "npz");
  if ((!npz && !is_of_transformers(f)) || table < 0 || f->tensors[table].rank != 2 || !embed__tensor_extents(&f->tensors[table], &rows, &dim)) return EMBED_OK;
  return embed__tokenizer_read(ctx, f, path, o, rows, npz);
}

static embed_status open_path(embed_context *ctx, const char *path, const embed_file_options *o, embed_file **out) {
  EMBED__TRY(embed__file_open(ctx, path, o, out));
  embed_status status = embed__roles_resolve(ctx, *out);
  if (status == EMBED_OK && is_of_transformers(*out)) status = embed__config_read(ctx, *out, path, o->flags);
  if (status == EMBED_OK) status = read_tokens(ctx, *out, path, o);
  if (status == EMBED_OK) status = check_vocab(ctx, *out, o->vocab);
  if (status != EMBED_OK) {
    embed__file_release(*out);
    *out = NULL;
  }
  return status;
}

embed_status embed_file_open(embed_context *ctx, const char *path, const embed_file_options *opts, embed_file **out) {
  embed_file_options o;
  char *of_folder;
  size_t bytes;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, path);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(check_options(ctx, opts, &o));
  EMBED__TRY(embed__folder_model(ctx, path, &of_folder, &bytes));
  const embed_status status = open_path(ctx, of_folder ? of_folder : path, &o, out);
  embed__free(&ctx->memory, of_folder, bytes, EMBED__ALIGNMENT);
  return embed__end(ctx, status);
}
