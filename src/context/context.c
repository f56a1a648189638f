/* SPDX-License-Identifier: BSD-3-Clause */
#include <embed/context.h>

#include <string.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"
#include "kernels/kernels.h"
#include "thread/run.h"

/* A context and the kernels of its level, in one piece of memory. */
typedef struct whole {
  embed_context context;
  embed__kernels kernels;
} whole;

static embed_status take_allocator(embed_context *draft, const embed_allocator *given) {
  draft->memory = embed__default_allocator;
  if (!given) return EMBED_OK;
  EMBED__TRY(embed__options(draft, "embed_allocator", given, 0, &draft->memory, sizeof draft->memory));
  if (draft->memory.allocate && draft->memory.release) return EMBED_OK;
  return embed__fail(draft, EMBED_E_OPTION, -1, "embed_allocator needs both allocate and release");
}

static embed_status take_threads(embed_context *draft, const embed_context_options *o) {
  if (o->pool && o->executor) return embed__fail(draft, EMBED_E_OPTION, -1, "pool and executor are both given: one of them runs the tasks");
  if (o->pool) {
    draft->pool_pid = embed__pool_pid(o->pool);
    draft->pool = o->pool;
    return embed__begin(draft); /* refuses a pool of the parent in a forked child */
  }
  if (!o->executor) return EMBED_OK;
  EMBED__TRY(embed__options(draft, "embed_executor", o->executor, 0, &draft->executor, sizeof draft->executor));
  if (!draft->executor.run) return embed__fail(draft, EMBED_E_OPTION, -1, "embed_executor.run is NULL");
  enum { MOST_WORKERS = 4096 };
  if (draft->executor.workers < 1 || draft->executor.workers > MOST_WORKERS)
    return embed__fail(draft, EMBED_E_OPTION, -1, "embed_executor.workers is %d, it must be 1 to %d", draft->executor.workers, MOST_WORKERS);
  return EMBED_OK;
}

/* A cap below tiles leaves the process as it is: they are not asked for. */
static embed_status take_level(embed_context *draft, const char *cap, int *level) {
  *level = embed__level_best(embed__cpu() & ~(uint32_t)EMBED__CPU_AMX);
  int wanted = cap ? embed__level_find(cap) : embed__level_count();
  if (wanted > *level) *level = embed__level_best(embed__cpu_let());
  if (wanted < 0)
    return embed__fail(draft, EMBED_E_OPTION, -1, "isa \"%.40s\" is no kernel level of this architecture; its highest here is \"%s\"", cap,
                       embed__level_name(embed__level_best(embed__cpu())));
  if (wanted < *level) *level = wanted;
  return EMBED_OK;
}

/* Fills draft, which lives on the stack until everything has been proved. */
static embed_status prepare(embed_context *draft, const embed_context_options *given, embed_context_options *o, int *level) {
  EMBED__TRY(embed__options(draft, "embed_context_options", given, EMBED_CONTEXT_REPRODUCIBLE, o, sizeof *o));
  if (o->max_scratch < 0) return embed__fail(draft, EMBED_E_OPTION, -1, "max_scratch is %lld bytes", (long long)o->max_scratch);
  EMBED__TRY(take_allocator(draft, o->allocator));
  EMBED__TRY(take_threads(draft, o));
  EMBED__TRY(take_level(draft, o->isa, level));
  draft->flags = o->flags;
  draft->max_scratch = o->max_scratch;
  draft->cancel = o->cancel;
  draft->progress = o->progress;
  draft->progress_arg = o->progress_arg;
  draft->isa = embed__level_name(*level);
  return EMBED_OK;
}

static void explain(const embed_context_options *o, const embed_context *draft) {
  if (!o->why || o->why_bytes < 1) return;
  size_t room = (size_t)o->why_bytes - 1, length = strlen(draft->error_text);
  if (length > room) length = room;
  while (length && (draft->error_text[length] & 0xC0) == 0x80) --length; /* whole characters only */
  memcpy(o->why, draft->error_text, length);
  o->why[length] = '\0';
}

embed_status embed_context_create(const embed_context_options *opts, embed_context **out) {
  if (!out) return EMBED_E_ARGUMENT;
  *out = NULL;
  embed_context draft;
  embed_context_options o;
  int level = 0;
  memset(&draft, 0, sizeof draft);
  memset(&o, 0, sizeof o);
  draft.error_at = -1;
  embed_status status = prepare(&draft, opts, &o, &level);
  whole *made = NULL;
  if (status == EMBED_OK) {
    made = embed__new(&draft.memory, sizeof *made);
    if (!made) status = embed__out_of_memory(&draft, (int64_t)sizeof *made);
  }
  explain(&o, &draft);
  if (status != EMBED_OK) return status;
  embed__level_fill(level, &made->kernels);
  made->context = draft;
  made->context.kernels = &made->kernels;
  (void)embed__pool_retain(draft.pool);
  *out = &made->context;
  return EMBED_OK;
}

void embed_context_release(embed_context *ctx) {
  if (!ctx) return;
  embed__scratch_free(&ctx->scratch, &ctx->memory);
  embed__pool_release(ctx->pool);
  const embed_allocator memory = ctx->memory;
  embed__free(&memory, ctx, sizeof(whole), EMBED__ALIGNMENT);
}

void embed_context_trim(embed_context *ctx) {
  if (ctx) embed__scratch_free(&ctx->scratch, &ctx->memory);
}

const char *embed_context_isa(const embed_context *ctx) { return ctx ? ctx->isa : NULL; }
