/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/pages.h"
#include "optim/history.h"
#include "thread/run.h"

const embed__optimizer_form *embed__optimizer_find(embed_optimizer_kind kind) {
  switch (kind) {
#define OPTIMIZER(constant, name) \
  case constant:                  \
    return &embed__optimizer_##name;
#include "optim/optimizers.def"
#undef OPTIMIZER
    default: return NULL;
  }
}

static embed_status wrong(embed_context *ctx, const char *what) { return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_optimizer_options: %s", what); }

/* A number that the kind has no use for would be a misunderstanding. */
static embed_status check_takes(embed_context *ctx, const embed_optimizer_options *o, const embed__optimizer_form *form) {
  const struct {
    uint32_t bit;
    double value;
    const char *name;
  } all[] = {{EMBED__TAKES_BETA1, o->beta1, "beta1"},          {EMBED__TAKES_BETA2, o->beta2, "beta2"}, {EMBED__TAKES_EPSILON, o->epsilon, "epsilon"},
             {EMBED__TAKES_MOMENTUM, o->momentum, "momentum"}, {EMBED__TAKES_L1, o->l1, "l1"},          {EMBED__TAKES_DECAY, o->weight_decay, "weight_decay"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (!isfinite((float)all[i].value) || all[i].value < 0)
      return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_optimizer_options: %s must be finite and not negative", all[i].name);
    if (all[i].value != 0 && !(form->takes & all[i].bit))
      return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_optimizer_options: %s has no use for %s", form->name, all[i].name);
  }
  if (o->flags & ~form->flags)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_optimizer_options: %s has no use for flags 0x%x", form->name, o->flags & ~(form->flags));
  return EMBED_OK;
}

embed_status embed__optimizer_options(embed_context *ctx, const embed_optimizer_options *given, embed_optimizer_options *o,
                                      const embed__optimizer_form **form) {
  EMBED__TRY(embed__options(ctx, "embed_optimizer_options", given, EMBED__OPTIM_FLAGS, o, sizeof *o));
  const embed__optimizer_form *f = embed__optimizer_find(o->kind);
  if (!f) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_optimizer_kind", o->kind);
  const uint32_t roundings = o->flags & EMBED_OPTIM_NEAREST;
  o->flags &= ~roundings;
  EMBED__TRY(check_takes(ctx, o, f));
  o->flags |= roundings;
  if (o->state != EMBED_F32 && o->state != EMBED_BF16) return wrong(ctx, "state is neither EMBED_F32 nor EMBED_BF16");
  if (!isfinite((float)o->lr) || o->lr < 0) return wrong(ctx, "lr must be finite and not negative");
  if (!isfinite(o->max_norm) || o->max_norm < 0) return wrong(ctx, "max_norm must be finite and not negative");
  if (((o->flags & EMBED_OPTIM_BETA1_ZERO) && o->beta1 != 0) || ((o->flags & EMBED_OPTIM_BETA2_ZERO) && o->beta2 != 0) ||
      ((o->flags & EMBED_OPTIM_EPSILON_ZERO) && o->epsilon != 0))
    return wrong(ctx, "a number and the flag that makes it 0");
  if (!(o->flags & EMBED_OPTIM_BETA1_ZERO) && o->beta1 == 0) o->beta1 = f->beta1;
  if (!(o->flags & EMBED_OPTIM_BETA2_ZERO) && o->beta2 == 0) o->beta2 = f->beta2;
  if (!(o->flags & EMBED_OPTIM_EPSILON_ZERO) && o->epsilon == 0) o->epsilon = f->epsilon;
  const bool ftrl = (f->takes & EMBED__TAKES_L1) != 0; /* its beta1 is no share */
  if ((!ftrl && o->beta1 >= 1) || o->beta2 >= 1 || o->momentum >= 1) return wrong(ctx, "beta1, beta2 and momentum must be below 1");
  if ((o->flags & EMBED_OPTIM_NESTEROV) && o->momentum == 0) return wrong(ctx, "EMBED_OPTIM_NESTEROV without momentum");
  *form = f;
  return EMBED_OK;
}

/* --- Memory */

static void free_all(embed_optimizer *o) {
  const embed_allocator memory = o->memory;
  embed__history_free(o->history, &memory);
  embed__free(&memory, o->frozen, (size_t)embed__bitmap_bytes(o->rows), EMBED__ALIGNMENT);
  embed__free(&memory, o->block, (size_t)o->block_bytes, o->block_alignment);
  embed__free(&memory, o, sizeof *o, EMBED__ALIGNMENT);
}

void embed__optimizer_release(embed_optimizer *o) {
  if (o && embed__release(&o->references)) free_all(o);
}

void embed_optimizer_release(embed_optimizer *o) { embed__optimizer_release(o); }

/* Where the parts of the block begin; -1: it does not fit into an int64_t. */
typedef struct layout {
  int64_t stamps, scalars, columns, state, bytes;
} layout;

static int64_t aligned(int64_t bytes) {
  return bytes < 0 || bytes > INT64_MAX - EMBED__ALIGNMENT ? -1 : (bytes + EMBED__ALIGNMENT - 1) / EMBED__ALIGNMENT * EMBED__ALIGNMENT;
}

static bool lay_out(embed_optimizer *o, layout *l) {
  const int64_t element = o->o.state == EMBED_BF16 ? 2 : 4, stamp = o->form->deferred || o->form->own_step ? (int64_t)sizeof *o->stamps : 0;
  int64_t state, scalars, stamps;
  o->slots = (o->form->takes & EMBED__TAKES_MOMENTUM) && o->o.momentum == 0 ? 0 : o->form->slots;
  if (!embed__mul(o->dim, element, &o->slot_bytes) || !embed__mul(o->slot_bytes, o->slots, &o->state_bytes)) return false;
  o->state_bytes = aligned(o->state_bytes);
  if (o->state_bytes < 0 || !embed__mul(o->rows, o->state_bytes, &state)) return false;
  if (!embed__mul(o->rows, stamp, &stamps) || !embed__mul(o->rows, o->form->scalars * (int64_t)sizeof(float), &scalars)) return false;
  l->state = 0;
  if (!embed__add(l->state, state, &l->stamps) || !embed__add(l->stamps, aligned(stamps), &l->scalars)) return false;
  if (!embed__add(l->scalars, aligned(scalars), &l->columns)) return false;
  return embed__add(l->columns, o->form->columns ? aligned(o->dim * (int64_t)sizeof(float)) : 0, &l->bytes);
}

typedef struct clear_job {
  unsigned char *at;
  int64_t bytes;
} clear_job;

static void clear(void *arg, int64_t task, int32_t worker) {
  const clear_job *job = arg;
  (void)worker;
  const int64_t first = task * EMBED__HUGE_PAGE;
  memset(job->at + first, 0, (size_t)embed__min(EMBED__HUGE_PAGE, job->bytes - first));
}

static embed_status take_block(embed_context *ctx, embed_optimizer *o) {
  layout l;
  if (!lay_out(o, &l)) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "the state of %" PRId64 " rows x %" PRId64 " does not fit", o->rows, o->dim);
  const int64_t bytes = embed__whole_pages(l.bytes);
  if (bytes == 0) return EMBED_OK;
  if ((uint64_t)bytes > SIZE_MAX) return embed__out_of_memory(ctx, -1);
  o->block_bytes = bytes;
  o->block_alignment = bytes >= EMBED__HUGE_PAGES_FROM ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT;
  unsigned char *block = embed__allocate(&o->memory, (size_t)bytes, o->block_alignment);
  if (!block) return embed__out_of_memory(ctx, bytes);
  if (bytes >= EMBED__HUGE_PAGES_FROM) embed__want_huge_pages(block, (size_t)bytes);
  o->block = block;
  if (o->slots) o->state = block + l.state;
  if (l.scalars > l.stamps) o->stamps = (int64_t *)(void *)(block + l.stamps);
  if (l.columns > l.scalars) o->scalars = (float *)(void *)(block + l.scalars);
  if (l.bytes > l.columns) o->columns = (float *)(void *)(block + l.columns);
  clear_job job = {block, bytes};
  EMBED__TRY(embed__run(ctx, embed__ceil_div(bytes, EMBED__HUGE_PAGE), clear, &job));
  for (int64_t r = 0; o->form->deferred && r < o->rows; ++r) o->stamps[r] = ~(int64_t)0; /* at step 0, never had gradient */
  return EMBED_OK;
}

static embed_status check_table(embed_context *ctx, const embed_table *t) {
  if (embed__is_float(t->dtype)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "a table of %s cannot be trained: its rows cannot hold a small step (train f32, f16 or bf16, then convert)",
                     embed__dtype_name(t->dtype));
}

embed_status embed__optimizer_new(embed_context *ctx, const embed_table *t, const embed_optimizer_options *o, embed_optimizer **out) {
  EMBED__TRY(check_table(ctx, t));
  embed_optimizer *made = embed__new(&ctx->memory, sizeof *made);
  if (!made) return embed__out_of_memory(ctx, sizeof *made);
  atomic_init(&made->references, 1);
  made->memory = ctx->memory;
  made->form = embed__optimizer_find(o->kind);
  made->o = *o;
  made->rows = t->vocab;
  made->dim = t->dim;
  made->dtype = t->dtype;
  embed_status status = take_block(ctx, made);
  if (status == EMBED_OK && made->form->deferred) status = embed__history_new(ctx, made);
  if (status != EMBED_OK) {
    free_all(made);
    return status;
  }
  *out = made;
  return EMBED_OK;
}

embed_status embed__optimizer_fits(embed_context *ctx, const embed_optimizer *o, const embed_table *t) {
  if (t->vocab != o->rows || t->dim != o->dim)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the optimiser was made for %" PRId64 " ids x %" PRId64 ", the table has %" PRId64 " x %" PRId64, o->rows,
                       o->dim, t->vocab, t->dim);
  if (t->dtype != o->dtype)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the optimiser was made for a table of %s, this one is %s", embed__dtype_name(o->dtype),
                       embed__dtype_name(t->dtype));
  return embed__check_writable(ctx, t);
}

embed_status embed_optimizer_create(embed_context *ctx, const embed_table *t, const embed_optimizer_options *opts, embed_optimizer **out) {
  embed_optimizer_options o;
  const embed__optimizer_form *form;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__optimizer_options(ctx, opts, &o, &form));
  return embed__optimizer_new(ctx, t, &o, out);
}

int64_t embed_optimizer_steps(const embed_optimizer *o) { return o ? o->step : -1; }
