/* SPDX-License-Identifier: BSD-3-Clause */
/* An optimiser in a file: a section "optim.NAME" beside the table NAME (io/FORMAT.md). All numbers are little-endian:
 *
 *   160 bytes: u32 version 1, i32 kind, u32 flags, i32 state's dtype, i32 table's dtype, u32 0, u64 rows, dim, step, f64 lr, beta1, beta2,
 *   epsilon, momentum, weight_decay, max_norm, l1, u64 seed, base, count of rates, 1 = there is a bitmap, 0, 0
 *   rows x slots x dim of the state's dtype, rows x scalars of f32, rows stamps of i64, rates of f64, the bitmap of frozen rows, for
 *   Adafactor a f32 per column
 *
 * The sums of a history are made anew from its rates. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "io/byte_order.h"
#include "io/container.h"
#include "io/file.h"
#include "io/writer.h"
#include "optim/history.h"

enum { NAME_BYTES = 512, HEADER = 160, VERSION = 1, NUMBERS = 8 };
enum {
  AT_KIND = 4,
  AT_FLAGS = 8,
  AT_STATE = 12,
  AT_DTYPE = 16,
  AT_ZERO = 20,
  AT_ROWS = 24,
  AT_DIM = 32,
  AT_STEP = 40,
  AT_NUMBERS = 48,
  AT_SEED = 112,
  AT_BASE = 120,
  AT_RATES = 128,
  AT_BITMAP = 136,
  AT_END = 144
};

static bool section_name(char name[NAME_BYTES], const char *table) {
  static const char prefix[] = "optim.";
  if (strlen(table) >= NAME_BYTES - sizeof prefix) return false;
  memcpy(name, prefix, sizeof prefix);
  strcat(name, table);
  return true;
}

static double *numbers_of(embed_optimizer_options *o, int i) {
  double *const all[NUMBERS] = {&o->lr, &o->beta1, &o->beta2, &o->epsilon, &o->momentum, &o->weight_decay, &o->max_norm, &o->l1};
  return all[i];
}

/* Bytes of the parts behind the header, in their order; false: past an int64_t. */
typedef struct parts {
  int64_t state, scalars, stamps, rates, bitmap, columns, all;
} parts;

static bool parts_of(const embed_optimizer *o, int64_t rates, bool bitmap, parts *p) {
  int64_t slots;
  if (!embed__mul(o->slot_bytes, o->slots, &slots) || !embed__mul(o->rows, slots, &p->state)) return false;
  if (!embed__mul(o->rows, o->form->scalars * (int64_t)sizeof(float), &p->scalars)) return false;
  if (!embed__mul(o->rows, o->stamps ? (int64_t)sizeof *o->stamps : 0, &p->stamps) || !embed__mul(rates, sizeof(double), &p->rates)) return false;
  p->bitmap = bitmap ? embed__bitmap_bytes(o->rows) : 0;
  p->columns = o->columns ? o->dim * (int64_t)sizeof(float) : 0; /* no more than a row's slot would have */
  return embed__add(HEADER, p->state, &p->all) && embed__add(p->all, p->scalars, &p->all) && embed__add(p->all, p->stamps, &p->all) &&
         embed__add(p->all, p->rates, &p->all) && embed__add(p->all, p->bitmap, &p->all) && embed__add(p->all, p->columns, &p->all);
}

/* --- Writing */

typedef struct handed {
  embed_optimizer *o; /* retained */
  int64_t step, bytes;
} handed;

static void let_go(void *arg) {
  handed *h = arg;
  const embed_allocator memory = h->o->memory;
  embed__optimizer_release(h->o);
  embed__free(&memory, h, sizeof *h, EMBED__ALIGNMENT);
}

static int64_t rates_of(const embed_optimizer *o) { return o->history ? o->history->count : 0; }

static void fill_header(const embed_optimizer *o, unsigned char header[HEADER]) {
  embed_optimizer_options options = o->o;
  memset(header, 0, HEADER);
  embed__put_le(header, VERSION, 4);
  embed__put_le(header + AT_KIND, (uint32_t)options.kind, 4);
  embed__put_le(header + AT_FLAGS, options.flags, 4);
  embed__put_le(header + AT_STATE, (uint32_t)options.state, 4);
  embed__put_le(header + AT_DTYPE, (uint32_t)o->dtype, 4);
  embed__put_le(header + AT_ROWS, (uint64_t)o->rows, 8);
  embed__put_le(header + AT_DIM, (uint64_t)o->dim, 8);
  embed__put_le(header + AT_STEP, (uint64_t)o->step, 8);
  for (int i = 0; i < NUMBERS; ++i) memcpy(header + AT_NUMBERS + 8 * i, numbers_of(&options, i), 8);
  embed__put_le(header + AT_SEED, options.seed, 8);
  embed__put_le(header + AT_BASE, (uint64_t)(o->history ? o->history->base : 0), 8);
  embed__put_le(header + AT_RATES, (uint64_t)rates_of(o), 8);
  embed__put_le(header + AT_BITMAP, o->frozen != NULL, 8);
}

static embed_status give_parts(embed_context *ctx, void *arg, embed__section_sink *sink) {
  const handed *h = arg;
  const embed_optimizer *o = h->o;
  unsigned char header[HEADER];
  parts p;
  if (o->step != h->step || !parts_of(o, rates_of(o), o->frozen != NULL, &p) || p.all != h->bytes)
    return embed__fail(ctx, EMBED_E_STALE, -1, "the optimiser was handed in at step %" PRId64 " and has changed since", h->step);
  fill_header(o, header);
  EMBED__TRY(embed__section_add(ctx, sink, header, HEADER));
  const int64_t slots = o->slots * o->slot_bytes;
  if (slots == o->state_bytes)
    EMBED__TRY(embed__section_add(ctx, sink, o->state, p.state));
  else
    for (int64_t r = 0; r < o->rows; ++r) EMBED__TRY(embed__section_add(ctx, sink, o->state + r * o->state_bytes, slots));
  EMBED__TRY(embed__section_add(ctx, sink, o->scalars, p.scalars));
  EMBED__TRY(embed__section_add(ctx, sink, o->stamps, p.stamps));
  for (int64_t i = 0; i < rates_of(o); ++i) EMBED__TRY(embed__section_add(ctx, sink, &o->history->past[i].lr, sizeof(double)));
  EMBED__TRY(embed__section_add(ctx, sink, o->frozen, p.bitmap));
  return embed__section_add(ctx, sink, o->columns, p.columns);
}

/* The name under which the writer has this table as it is stored; NULL = it has not. */
static const char *written_name(const embed_writer *w, const embed_table *t) {
  for (int64_t i = 0; i < w->tables.count; ++i) {
    const embed__written_table *written = embed__written(w, i);
    if (written->table == t && written->dtype == t->dtype && written->vocab == t->vocab) return written->name;
  }
  return NULL;
}

static embed_status write_optimizer(embed_context *ctx, embed_writer *w, embed_optimizer *o, const embed_table *t) {
  char section[NAME_BYTES];
  parts p;
  if (EMBED__BIG_ENDIAN_HOST) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: optimisers are saved in little-endian, this machine is not", w->label);
  if (t->vocab != o->rows || t->dim != o->dim || t->dtype != o->dtype)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1,
                       "%s: the optimiser is one of %" PRId64 " ids x %" PRId64 " of %s, the table has %" PRId64 " x %" PRId64 " of %s", w->label, o->rows,
                       o->dim, embed__dtype_name(o->dtype), t->vocab, t->dim, embed__dtype_name(t->dtype));
  const char *name = written_name(w, t);
  if (!name)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: the table is not among the %" PRId64 " tables handed in as they are stored", w->label, w->tables.count);
  if (!section_name(section, name)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the table's name has more than %d bytes", w->label, NAME_BYTES);
  if (!parts_of(o, rates_of(o), o->frozen != NULL, &p)) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%s: the optimiser does not fit", w->label);
  handed *h = embed__new(&o->memory, sizeof *h);
  if (!h) return embed__out_of_memory(ctx, sizeof *h);
  embed__retain(&o->references);
  *h = (handed){o, o->step, p.all};
  const embed_status status = embed__writer_section_from(ctx, w, section, p.all, give_parts, h, let_go);
  if (status != EMBED_OK) let_go(h);
  return status;
}

embed_status embed_writer_optimizer(embed_context *ctx, embed_writer *w, embed_optimizer *o, const embed_table *t) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, o);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__writer_open(ctx, w));
  return write_optimizer(ctx, w, o, t);
}

/* --- Reading: a section may say anything. */

static embed_status broken(embed_context *ctx, const embed_file *f, int64_t at, const char *what) {
  return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: the saved optimiser is broken: %s", f->label, what);
}

/* What the header says, and that this table is what it was saved beside. */
static embed_status read_header(embed_context *ctx, const embed_file *f, const unsigned char *data, int64_t bytes, const embed_table *t,
                                embed_optimizer_options *o) {
  const embed__optimizer_form *form;
  embed_optimizer_options said = {.size = sizeof said};
  if (bytes < HEADER) return broken(ctx, f, -1, "it is shorter than its header");
  if (embed__le32(data) != VERSION)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: the saved optimiser has version %u, this one reads 1", f->label, embed__le32(data));
  said.kind = (int32_t)embed__le32(data + AT_KIND);
  said.flags = embed__le32(data + AT_FLAGS);
  said.state = (int32_t)embed__le32(data + AT_STATE);
  for (int i = 0; i < NUMBERS; ++i) memcpy(numbers_of(&said, i), data + AT_NUMBERS + 8 * i, 8);
  said.seed = embed__u64_at(data + AT_SEED);
  if (embed__optimizer_options(ctx, &said, o, &form) != EMBED_OK || memcmp(&said, o, sizeof said)) return broken(ctx, f, -1, "its options are none");
  const uint64_t rows = embed__u64_at(data + AT_ROWS), dim = embed__u64_at(data + AT_DIM);
  if (rows != (uint64_t)t->vocab || dim != (uint64_t)t->dim || (int32_t)embed__le32(data + AT_DTYPE) != t->dtype)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1,
                       "%s: the optimiser was saved for %" PRIu64 " ids x %" PRIu64 " of dtype %d, the table has %" PRId64 " x %" PRId64 " of %d", f->label,
                       rows, dim, (int)embed__le32(data + AT_DTYPE), t->vocab, t->dim, (int)t->dtype);
  if (embed__le32(data + AT_ZERO) || embed__u64_at(data + AT_END) || embed__u64_at(data + AT_END + 8) || embed__u64_at(data + AT_BITMAP) > 1)
    return broken(ctx, f, -1, "bytes that are 0 in this version are not");
  return EMBED_OK;
}

static embed_status read_history(embed_context *ctx, const embed_file *f, embed_optimizer *o, int64_t base, int64_t step, const unsigned char *rates) {
  o->history->base = o->step = base;
  while (o->step < step) {
    double lr;
    memcpy(&lr, rates + 8 * (o->step - base), 8);
    if (!isfinite(lr) || lr < 0 || !((double)(float)(lr * o->o.weight_decay) < 1)) return broken(ctx, f, o->step - base, "a learning rate is none");
    EMBED__TRY(embed__history_reserve(ctx, o));
    ++o->step;
    embed__history_append(o, lr);
  }
  return EMBED_OK;
}

static embed_status read_parts(embed_context *ctx, const embed_file *f, const unsigned char *data, int64_t bytes, embed_optimizer *o) {
  const uint64_t step = embed__u64_at(data + AT_STEP), base = embed__u64_at(data + AT_BASE), rates = embed__u64_at(data + AT_RATES);
  const bool bitmap = embed__u64_at(data + AT_BITMAP) != 0;
  parts p;
  if (step > INT64_MAX / 2 || base > step || rates != (o->history ? step - base : 0) || (!o->history && base != 0))
    return broken(ctx, f, -1, "its steps do not add up");
  if (!parts_of(o, (int64_t)rates, bitmap, &p) || p.all != bytes) return broken(ctx, f, -1, "it has more or fewer bytes than its header says");
  const unsigned char *at = data + HEADER;
  const int64_t slots = o->slots * o->slot_bytes;
  for (int64_t r = 0; slots > 0 && r < o->rows; ++r) memcpy(o->state + r * o->state_bytes, at + r * slots, (size_t)slots);
  at += p.state;
  if (p.scalars) memcpy(o->scalars, at, (size_t)p.scalars);
  at += p.scalars;
  if (p.stamps) memcpy(o->stamps, at, (size_t)p.stamps);
  for (int64_t r = 0; o->stamps && r < o->rows; ++r) {
    const int64_t stamp = o->history ? embed__stamp_step(o->stamps[r]) : o->stamps[r];
    if (stamp < (int64_t)base || stamp > (int64_t)step) return broken(ctx, f, r, "a row stands at a step that never was");
  }
  at += p.stamps;
  if (o->history) EMBED__TRY(read_history(ctx, f, o, (int64_t)base, (int64_t)step, at));
  o->step = (int64_t)step;
  at += p.rates;
  if (p.columns) memcpy(o->columns, at + p.bitmap, (size_t)p.columns);
  if (!p.bitmap) return EMBED_OK;
  o->frozen = embed__allocate(&o->memory, (size_t)p.bitmap, EMBED__ALIGNMENT);
  if (!o->frozen) return embed__out_of_memory(ctx, p.bitmap);
  memcpy(o->frozen, at, (size_t)p.bitmap);
  return EMBED_OK;
}

static embed_status restore(embed_context *ctx, const embed_file *f, int64_t i, const embed_table *t, embed_optimizer **out) {
  char section[NAME_BYTES];
  const unsigned char *data;
  int64_t bytes;
  embed_optimizer_options o;
  embed_optimizer *made = NULL;
  if (i == -1) i = f->roles[EMBED_ROLE_TOKEN];
  if (i == -1) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s has no token table", f->label);
  if (i < 0 || i >= f->tensor_count)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: there is no tensor %" PRId64 " among %" PRId64, f->label, i, f->tensor_count);
  if (!section_name(section, f->tensors[i].name)) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: no optimiser was saved beside this table", f->label);
  EMBED__TRY(embed__container_extra(ctx, f, section, &data, &bytes));
  if (EMBED__BIG_ENDIAN_HOST) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: optimisers are saved in little-endian, this machine is not", f->label);
  EMBED__TRY(read_header(ctx, f, data, bytes, t, &o));
  EMBED__TRY(embed__optimizer_new(ctx, t, &o, &made));
  const embed_status status = read_parts(ctx, f, data, bytes, made);
  if (status != EMBED_OK) {
    embed__optimizer_release(made);
    return status;
  }
  *out = made;
  return EMBED_OK;
}

embed_status embed_optimizer_restore(embed_context *ctx, const embed_file *f, int64_t i, const embed_table *t, embed_optimizer **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, out);
  return embed__end(ctx, restore(ctx, f, i, t, out));
}
