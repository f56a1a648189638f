/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/prepared.h"

#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/pages.h"
#include "thread/run.h"

_Static_assert(sizeof(embed__panels_header) == EMBED__PANEL_ALIGNMENT, "panels follow on their alignment");

enum { PANELS_PER_TASK = 16 };

bool embed__preparable(const embed_context *ctx, const embed_table *t) {
  int form = embed__form_of(t);
  return form >= 0 && ctx->kernels->panel.pack[form] != NULL;
}

typedef struct prepare_job {
  const embed__kernels *kernels;
  const embed_table *t;
  const embed__prepared *p;
} prepare_job;

static void make_panels(void *arg, int64_t task, int32_t worker) {
  const prepare_job *job = arg;
  const embed_table *t = job->t;
  const int64_t panels = embed__ceil_div(t->vocab, EMBED__PANEL_ROWS);
  unsigned char *first = job->p->block + sizeof(embed__panels_header);
  (void)worker;
  for (int64_t p = task * PANELS_PER_TASK; p < embed__min(panels, (task + 1) * PANELS_PER_TASK); ++p) {
    int64_t row = p * EMBED__PANEL_ROWS, count = embed__min(EMBED__PANEL_ROWS, t->vocab - row);
    job->kernels->panel.pack[job->p->form](embed__row(t, row), t->row_bytes, count, t->dim, t->group, first + p * job->p->panel_bytes, true);
  }
  job->kernels->row.fence();
}

static embed__panels_header header_of(const embed_table *t, const embed__prepared *p) {
  return (embed__panels_header){EMBED__PANELS_VERSION, p->form, t->vocab, t->dim, p->panel_bytes, t->dtype, t->group, {0}};
}

static embed_status make(embed_context *ctx, const embed_table *t, embed__prepared *p) {
  const embed__panels_header header = header_of(t, p);
  prepare_job job = {ctx->kernels, t, p};
  uint64_t changes = embed__table_changes(t);
  p->changes = changes - 1; /* stale until they are all made */
  memcpy(p->block, &header, sizeof header);
  int64_t tasks = embed__ceil_div(embed__ceil_div(t->vocab, EMBED__PANEL_ROWS), PANELS_PER_TASK);
  EMBED__TRY(embed__run_long(ctx, tasks, make_panels, &job, 0, tasks));
  p->changes = changes;
  return EMBED_OK;
}

/* What the form of this table is, and how long its block. */
static bool describe(const embed_context *ctx, const embed_table *t, embed__prepared *p) {
  int64_t bytes;
  *p = (embed__prepared){.form = (embed__panel_form)embed__form_of(t)};
  p->panel_bytes = ctx->kernels->panel.bytes[p->form](t->dim, t->group);
  if (!embed__mul(embed__ceil_div(t->vocab, EMBED__PANEL_ROWS), p->panel_bytes, &bytes) || !embed__add(bytes, (int64_t)sizeof(embed__panels_header), &bytes))
    return false;
  p->bytes = (size_t)bytes;
  return true;
}

embed_status embed__prepare(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__prepared *out) {
  embed__prepared p;
  if (!describe(ctx, t, &p)) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a prepared copy of the table does not fit into memory");
  p.alignment = p.bytes >= EMBED__HUGE_PAGE ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT;
  p.block = embed__allocate(memory, p.bytes, p.alignment);
  if (!p.block) return embed__out_of_memory(ctx, (int64_t)p.bytes);
  if (p.alignment == EMBED__HUGE_PAGE) embed__want_huge_pages(p.block, p.bytes);
  embed_status status = make(ctx, t, &p);
  if (status != EMBED_OK) {
    embed__prepared_free(memory, &p);
    return status;
  }
  *out = p;
  return EMBED_OK;
}

embed_status embed__prepare_again(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__prepared *p) {
  return p->alignment == 0 ? embed__prepare(ctx, t, memory, p) : make(ctx, t, p);
}

bool embed__prepared_view(const embed_context *ctx, const embed_table *t, const unsigned char *data, int64_t bytes, embed__prepared *out) {
  embed__prepared p;
  if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ || !embed__preparable(ctx, t) || !describe(ctx, t, &p)) return false;
  if ((uint64_t)bytes != p.bytes || (uintptr_t)data % EMBED__PANEL_ALIGNMENT != 0) return false;
  const embed__panels_header header = header_of(t, &p);
  if (memcmp(data, &header, sizeof header) != 0) return false;
  p.block = (unsigned char *)(uintptr_t)data; /* alignment 0: never written */
  p.changes = embed__table_changes(t);
  *out = p;
  return true;
}

void embed__prepared_free(const embed_allocator *memory, embed__prepared *p) {
  if (p->alignment) embed__free(memory, p->block, p->bytes, p->alignment);
  p->block = NULL;
}

bool embed__is_fresh(const embed__prepared *p, const embed_table *t) { return embed__table_changes(t) == p->changes; }
