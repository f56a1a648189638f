/* SPDX-License-Identifier: BSD-3-Clause */
#include "head/head.h"

#include <inttypes.h>

#include "core/options.h"
#include "core/scratch.h"
#include "io/text.h"
#include "roles/roles.h"

static embed_status check_options(embed_context *ctx, const embed_head_options *given, embed_head_options *o) {
  const uint32_t forms = EMBED_HEAD_BLAS | EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH, both = EMBED_HEAD_REQUIRE_TIED | EMBED_HEAD_REQUIRE_UNTIED;
  EMBED__TRY(embed__options(ctx, "embed_head_options", given, forms | EMBED_HEAD_RAW | both, o, sizeof *o));
  if ((o->flags & both) == both) return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_HEAD_REQUIRE_TIED and REQUIRE_UNTIED exclude each other");
  return EMBED_OK;
}

/* What a file without a head of its own says to who wants one: the names that it has. */
static embed_status no_own_head(embed_context *ctx, const embed_file *f) {
  enum { NAMES = 200 };
  char names[NAMES];
  embed__text list = embed__text_in(names, sizeof names);
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    if (i) embed__text_add(&list, ", ");
    embed__text_add(&list, f->tensors[i].name);
  }
  return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is no head of its own: \"%.100s\" is the token table and the head of these %" PRId64 " tensors: %s",
                     f->label, f->tensors[f->roles[EMBED_ROLE_TOKEN]].name, f->tensor_count, names);
}

/* *i: the tensor that the head sweeps. Where a file stores the same numbers twice, who demands an untied head gets the second. */
static embed_status choose_tensor(embed_context *ctx, const embed_file *f, uint32_t flags, int64_t *i) {
  int64_t table = f->roles[EMBED_ROLE_TOKEN];
  *i = f->roles[EMBED_ROLE_HEAD];
  if (*i < 0)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is neither a head nor a token table among its %" PRId64 " tensors", f->label, f->tensor_count);
  if (flags & EMBED_HEAD_REQUIRE_UNTIED && f->own_head < 0) return no_own_head(ctx, f);
  if (flags & EMBED_HEAD_REQUIRE_UNTIED) *i = f->own_head;
  if (flags & EMBED_HEAD_REQUIRE_TIED && *i != table)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: a tied head is asked for, the file holds \"%.100s\", which is not \"%.100s\"", f->label,
                       f->tensors[*i].name, f->tensors[table].name);
  return EMBED_OK;
}

/* One hidden size for both ends. */
static embed_status check_dim(embed_context *ctx, const embed_file *f, int64_t head, const embed_table *table) {
  int64_t rows, dim, table_rows, table_dim;
  const embed__tensor *a = &f->tensors[head], *b = &f->tensors[f->roles[EMBED_ROLE_TOKEN]];
  if (!embed__tensor_extents(a, &rows, &dim) || !embed__tensor_extents(b, &table_rows, &table_dim)) return EMBED_OK; /* no tables: refused when opened */
  if (dim != table_dim)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: head \"%.100s\" has %" PRId64 " columns, token table \"%.100s\" %" PRId64, f->label, a->name, dim,
                       b->name, table_dim);
  if (table && table->dim != dim)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: the table given has %" PRId64 " columns, head \"%.100s\" %" PRId64, f->label, table->dim, a->name, dim);
  return EMBED_OK;
}

/* The head's bias as floats in *bias; NULL where the file has none. */
static embed_status read_bias(embed_context *ctx, const embed_file *f, const embed_table *head, float **bias) {
  embed_table *stored = NULL;
  int64_t i = f->roles[EMBED_ROLE_HEAD_BIAS];
  *bias = NULL;
  if (i < 0) return EMBED_OK;
  EMBED__TRY(embed__file_table(ctx, f, i, &stored));
  embed_status status = EMBED_OK;
  if (stored->dim != head->rows && stored->dim != head->vocab)
    status = embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: head bias \"%.100s\" has %" PRId64 " elements, the head %" PRId64 " rows", f->label,
                         f->tensors[i].name, stored->dim, head->rows);
  if (status == EMBED_OK) status = embed__scratch_get(ctx, stored->dim, sizeof **bias, bias);
  if (status == EMBED_OK) embed__decode(ctx, stored, 0, *bias, 1.0f);
  embed__table_release(stored);
  return status;
}

static embed_status file_head(embed_context *ctx, const embed_file *f, const embed_table *table, embed_head_options *o, embed_head **out) {
  const embed_conventions file = embed__file_conventions(f);
  embed_table *opened = NULL;
  int64_t head;
  float *bias;
  EMBED__TRY(choose_tensor(ctx, f, o->flags, &head));
  EMBED__TRY(check_dim(ctx, f, head, table));
  if (!(o->flags & EMBED_HEAD_RAW)) {
    if (o->logit_scale == 0) o->logit_scale = file.logit_scale;
    if (o->logit_softcap == 0) o->logit_softcap = file.logit_softcap;
  }
  o->flags &= EMBED_HEAD_BLAS | EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH;
  if (head != f->roles[EMBED_ROLE_TOKEN]) table = NULL; /* untied: the caller's table is the other end */
  if (!table) EMBED__TRY(embed__file_table(ctx, f, head, &opened));
  if (!table) table = opened;
  embed_status status = read_bias(ctx, f, table, &bias);
  embed__prepared prepared;
  /* Rows that lie in the file are held by whoever holds it, and so is a form saved beside them. */
  const bool of_file = table->done_arg == f && table->data == embed__tensor_data(f, &f->tensors[head]);
  const bool saved = of_file && o->flags & EMBED_HEAD_PREPARE && embed__head_saved(ctx, f, f->tensors[head].name, table, &prepared);
  if (status == EMBED_OK) status = embed__head_new(ctx, table, bias, o, saved ? &prepared : NULL, out);
  embed__table_release(opened); /* the head has its own reference */
  return status;
}

embed_status embed_file_head(embed_context *ctx, const embed_file *f, const embed_table *table, const embed_head_options *opts, embed_head **out) {
  embed_head_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(check_options(ctx, opts, &o));
  return embed__end(ctx, file_head(ctx, f, table, &o, out));
}
