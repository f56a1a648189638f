/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, sharing and describing heads, and what all their calls check. */
#include "head/head.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"

static size_t bias_bytes(const embed_table *t) { return (size_t)t->vocab * sizeof(float); }

static void free_head(embed_head *h) {
  const embed_allocator memory = h->memory;
  if (h->bias) embed__free(&memory, h->bias, bias_bytes(h->table), EMBED__ALIGNMENT);
  embed__prepared_free(&memory, &h->prepared);
  embed__sketch_free(&memory, h->sketch);
  embed__subset_free(h);
  embed__table_release(h->table);
  embed__free(&memory, h, sizeof *h, EMBED__ALIGNMENT);
}

embed_status embed__head_form(embed_context *ctx, embed_head *h) {
  if (h->flags & EMBED_HEAD_PREPARE && !h->prepared.block && embed__preparable(ctx, h->table))
    EMBED__TRY(embed__prepare(ctx, h->table, &h->memory, &h->prepared));
  return h->flags & EMBED_HEAD_SKETCH ? embed__sketch_new(ctx, h->table, &h->memory, &h->sketch) : EMBED_OK;
}

/* Copies of what is the caller's, and the table's second form. */
static embed_status fill(embed_context *ctx, embed_head *h, const float *bias, const embed__prepared *saved) {
  const embed_table *t = h->table;
  if (bias) {
    h->bias = embed__allocate(&h->memory, bias_bytes(t), EMBED__ALIGNMENT);
    if (!h->bias) return embed__out_of_memory(ctx, (int64_t)bias_bytes(t));
    memcpy(h->bias, bias, bias_bytes(t));
  }
  if (saved) h->prepared = *saved;
  return embed__head_form(ctx, h);
}

embed_status embed__head_new(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *o, const embed__prepared *saved,
                             embed_head **out) {
  *out = NULL;
  if (t->vocab > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "a head over %" PRId64 " ids: logits have 32-bit ids", t->vocab);
  if (!isfinite(o->logit_scale)) return embed__fail(ctx, EMBED_E_OPTION, -1, "logit_scale is not finite");
  if (!isfinite(o->logit_softcap) || o->logit_softcap < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "logit_softcap must be 0 or a positive number");
  if (o->flags & EMBED_HEAD_SKETCH && o->logit_scale < 0)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "logit_scale is negative: EMBED_HEAD_SKETCH bounds logits of a positive one");
  if (o->flags & EMBED_HEAD_BLAS && o->flags & (EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH))
    return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_HEAD_BLAS excludes PREPARE and SKETCH: OpenBLAS multiplies the table as it is");
  embed_head *h = embed__new(&ctx->memory, sizeof *h);
  if (!h) return embed__out_of_memory(ctx, (int64_t)sizeof *h);
  h->references = 1;
  h->memory = ctx->memory;
  h->scale = o->logit_scale != 0 ? o->logit_scale : 1.0f;
  h->softcap = o->logit_softcap;
  h->flags = o->flags & (EMBED_HEAD_BLAS | EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH);
  embed__table_retain(t);
  h->table = t;
  embed_status status = fill(ctx, h, bias, saved);
  if (status == EMBED_OK)
    *out = h;
  else
    free_head(h);
  return status;
}

embed_status embed_head_create(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *opts, embed_head **out) {
  embed_head_options o;
  const uint32_t forms = EMBED_HEAD_BLAS | EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH;
  const uint32_t of_files = EMBED_HEAD_REQUIRE_TIED | EMBED_HEAD_REQUIRE_UNTIED | EMBED_HEAD_RAW;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__options(ctx, "embed_head_options", opts, forms | of_files, &o, sizeof o));
  if (o.flags & of_files)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_HEAD_REQUIRE_* and RAW are for embed_file_head: this head is the table it is given");
  return embed__end(ctx, embed__head_new(ctx, t, bias, &o, NULL, out));
}

static embed_status refresh(embed_context *ctx, embed_head *h) {
  if (h->base) EMBED__TRY(embed__subset_copy(ctx, h));
  if (h->prepared.block) EMBED__TRY(embed__prepare_again(ctx, h->table, &h->memory, &h->prepared));
  return h->sketch ? embed__sketch_again(ctx, h->table, h->sketch) : EMBED_OK;
}

embed_status embed_head_refresh(embed_context *ctx, embed_head *h) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  return embed__end(ctx, refresh(ctx, h));
}

embed_head *embed_head_retain(const embed_head *h) {
  embed_head *shared = (embed_head *)(uintptr_t)h;
  if (shared) embed__retain(&shared->references);
  return shared;
}

void embed_head_release(const embed_head *h) {
  embed_head *last = (embed_head *)(uintptr_t)h;
  if (last && embed__release(&last->references)) free_head(last);
}

const embed_table *embed_head_table(const embed_head *h) { return h && !h->base ? h->table : NULL; }

int32_t embed_head_is_tied(const embed_head *h, const embed_table *t) {
  if (!h || !t) return 0;
  const embed_table *own = h->table;
  bool same_rows = own->data == t->data && own->row_bytes == t->row_bytes && own->dtype == t->dtype && own->group == t->group && own->dim == t->dim &&
                   own->codebook == t->codebook;
  return own == t || (same_rows && own->data != NULL);
}

int64_t embed_head_vocab(const embed_head *h) { return h ? h->table->vocab : EMBED_E_ARGUMENT; }
int64_t embed_head_dim(const embed_head *h) { return h ? h->table->dim : EMBED_E_ARGUMENT; }

embed_status embed_head_describe(embed_context *ctx, const embed_head *h, embed_head_info *out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  const embed_table *t = h->table;
  embed_head_info info = {.vocab = t->vocab, .dim = t->dim, .table_bytes = t->vocab * t->row_bytes, .logit_scale = h->scale, .logit_softcap = h->softcap};
  if (h->base) info.ids_checksum = h->map.checksum;
  info.extra_bytes = (int64_t)(h->bias ? bias_bytes(t) : 0) + (int64_t)h->prepared.bytes;
  if (h->sketch) {
    info.extra_bytes += (int64_t)h->sketch->bytes;
    info.sketch_searches = atomic_load(&h->sketch->searches);
    info.sketch_rows_verified = atomic_load(&h->sketch->verified);
    info.sketch_bytes_read = atomic_load(&h->sketch->bytes_read);
  }
  return embed__output(ctx, "embed_head_info", out, &info, sizeof info);
}

static void softcap(float cap, float *z, int64_t n) {
  for (int64_t c = 0; c < n; ++c) z[c] = cap * tanhf(z[c] / cap);
}

void embed__finish_biased(const embed_head *h, float *z, int64_t n) {
  if (h->scale != 1.0f)
    for (int64_t c = 0; c < n; ++c) z[c] *= h->scale;
  if (h->softcap > 0) softcap(h->softcap, z, n);
}

void embed__finish_logits(const embed_head *h, float *z, int64_t ldz, int64_t rows, int64_t column, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    float *row = z + i * ldz;
    if (h->bias)
      for (int64_t c = 0; c < columns; ++c) row[c] += h->bias[column + c];
    embed__finish_biased(h, row, columns);
  }
}

static embed_status choose_activation(embed_context *ctx, embed_dtype dtype, embed__activation *activation) {
  switch (dtype) {
    case EMBED_F32: *activation = EMBED__EXACT; return EMBED_OK;
    case EMBED_BF16: *activation = EMBED__ROUNDED_BF16; return EMBED_OK;
    case EMBED_Q8_0: *activation = EMBED__ROUNDED_Q8_0; return EMBED_OK;
    default: return embed__fail(ctx, EMBED_E_OPTION, -1, "activation is dtype %d: 0 is exact, EMBED_BF16 and EMBED_Q8_0 round", dtype);
  }
}

embed_status embed__head_fresh(embed_context *ctx, const embed_head *h) {
  if (h->base && embed__table_changes(h->base) != h->base_changes)
    return embed__fail(ctx, EMBED_E_STALE, -1, "the table has changed since this subset's rows were copied: embed_head_refresh copies them again");
  const bool prepared = !h->prepared.block || embed__is_fresh(&h->prepared, h->table), sketched = !h->sketch || embed__sketch_is_fresh(h->sketch, h->table);
  if (prepared && sketched) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_STALE, -1, "the table has changed since this head was prepared: embed_head_refresh makes it anew");
}

embed_status embed__head_sweep(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                               const embed_sweep_options *opts, embed_sweep_options *o, embed__sweep *s) {
  EMBED__NOT_NULL(ctx, h);
  EMBED__TRY(embed__options(ctx, "embed_sweep_options", opts, EMBED_SWEEP_PROCESSED, o, sizeof *o));
  if (o->nan < EMBED_NAN_MAX || o->nan > EMBED_NAN_IGNORE) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_nan_policy", o->nan);
  memset(s, 0, sizeof *s);
  EMBED__TRY(choose_activation(ctx, o->activation, &s->activation));
  EMBED__TRY(embed__head_fresh(ctx, h));
  EMBED__TRY(embed__check_buffer(ctx, "hidden", hidden, hidden_dtype, n, h->table->dim, ld_hidden, &s->ldx));
  s->table = h->table;
  s->prepared = h->prepared.block ? &h->prepared : NULL;
  s->x = hidden;
  s->x_dtype = hidden_dtype;
  s->n = n;
  s->force_blas = h->flags & EMBED_HEAD_BLAS;
  return EMBED_OK;
}

bool embed__apply_nan_policy(embed_nan_policy policy, float *z, int64_t n) {
  if (policy == EMBED_NAN_MAX) return false;
  for (int64_t c = 0; c < n; ++c) {
    if (!isnan(z[c])) continue;
    if (policy == EMBED_NAN_ERROR) return true;
    z[c] = -INFINITY;
  }
  return false;
}
