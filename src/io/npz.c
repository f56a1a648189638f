/* SPDX-License-Identifier: BSD-3-Clause */
/* numpy.savez (numpy/lib/_npyio_impl.py): a zip archive of npy arrays, each named as its member without ".npy". Stored members are read
 * where they lie; deflated ones (savez_compressed) are inflated while the file is opened, into the tables that they are. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "core/scratch.h"
#include "io/format.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "io/text.h"
#include "io/zip.h"

static const char ENDING[] = ".npy";
enum { ENDING_BYTES = sizeof ENDING - 1 };

bool embed__npz_probe(const unsigned char *data, int64_t bytes) { return embed__zip_holds(data, bytes, ENDING); }

typedef struct reader {
  embed_context *ctx;
  embed_file *f;
  const embed_file_options *o;
  embed__zip zip;
  unsigned char *header; /* [EMBED__NPY_HEADER], of a deflated member; made for the first */
} reader;

/* "PATH: member "E.npy"" */
enum { WHERE = EMBED__LABEL + 160 };
static void label_member(char where[WHERE], const reader *r, const embed__zip_member *member) {
  enum { NAME = 100 };
  char name[NAME + 1] = "";
  embed__text text = embed__text_in(name, sizeof name);
  embed__text_add(&text, member->name);
  text = embed__text_in(where, WHERE);
  embed__text_add(&text, r->f->label);
  embed__text_add(&text, ": member \"");
  embed__text_add(&text, name);
  embed__text_add(&text, "\"");
}

/* An archive holds nothing but its arrays: what is behind one is no array's. */
static embed_status check_end(const reader *r, const embed__zip_member *member, int64_t end, int64_t member_end) {
  if (end == member_end) return EMBED_OK;
  return embed__fail(r->ctx, EMBED_E_FORMAT, member->data, "%s: member \"%.100s\": the array ends at byte %" PRId64 ", the member at %" PRId64, r->f->label,
                     member->name, end, member_end);
}

/* An array of Python objects or structures (a saved word list) is listed beside the others, and nothing of it is read: the context forgets
 * the failure. */
static embed_status read_header(reader *r, const embed__npy *in, embed__tensor *tensor, bool *opaque) {
  const embed_status status = embed__npy_read(r->ctx, r->f, in, r->o, tensor);
  *opaque = status == EMBED_E_UNSUPPORTED;
  if (!*opaque) return status;
  *tensor = (embed__tensor){.name = tensor->name, .stored = tensor->stored ? tensor->stored : "structures", .offset = -1};
  r->ctx->error_text[0] = '\0';
  r->ctx->error_at = -1;
  return EMBED_OK;
}

static embed_status read_stored(reader *r, const embed__zip_member *member, embed__tensor *tensor) {
  char where[WHERE];
  const int64_t end = member->data + member->stored;
  label_member(where, r, member);
  if (r->o->flags & EMBED_FILE_CHECK) EMBED__TRY(embed__zip_check_sum(&r->zip, member));
  bool opaque;
  EMBED__TRY(read_header(r, &(embed__npy){.label = where, .data = r->f->map.data, .first = member->data, .end = end}, tensor, &opaque));
  return opaque ? EMBED_OK : check_end(r, member, tensor->offset + tensor->bytes, end);
}

/* --- Deflated members */

/* have: the elements that came with the header, at most tensor->bytes of them. */
static embed_status inflate_into(embed__inflate *s, unsigned char *to, const unsigned char *have, int64_t have_bytes, int64_t bytes) {
  memcpy(to, have, (size_t)have_bytes);
  EMBED__TRY(embed__inflate_read(s, to + have_bytes, bytes - have_bytes));
  return embed__inflate_finish(s);
}

static embed_status inflate_in_order(reader *r, embed__inflate *s, embed__tensor *tensor, const unsigned char *have, int64_t have_bytes) {
  embed_table_options o = {.size = sizeof o, .dtype = tensor->dtype, .flags = embed__copy_flags(tensor->bytes)};
  int64_t rows, dim;
  (void)embed__tensor_extents(tensor, &rows, &dim);
  EMBED__TRY(embed__table_new(r->ctx, rows, dim, &o, &tensor->table)); /* released with the file, whatever comes */
  tensor->table->vector = tensor->rank == 1;
  return inflate_into(s, tensor->table->data, have, have_bytes, tensor->bytes);
}

static embed_status inflate_and_reorder(reader *r, embed__inflate *s, embed__tensor *tensor, const unsigned char *have, int64_t have_bytes) {
  const size_t bytes = (size_t)tensor->bytes;
  if (tensor->bytes > PTRDIFF_MAX) return embed__out_of_memory(r->ctx, tensor->bytes);
  unsigned char *elements = embed__allocate(&r->ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!elements) return embed__out_of_memory(r->ctx, tensor->bytes);
  embed_status status = inflate_into(s, elements, have, have_bytes, tensor->bytes);
  if (status == EMBED_OK) status = embed__tensor_copy(r->ctx, tensor, elements, &tensor->table);
  embed__free(&r->ctx->memory, elements, bytes, EMBED__ALIGNMENT);
  return status;
}

static embed_status read_inflated(reader *r, embed__inflate *s, const embed__zip_member *member, embed__tensor *tensor) {
  char where[WHERE];
  const int64_t have = embed__min(member->bytes, EMBED__NPY_HEADER);
  int64_t rows, dim;
  bool opaque;
  label_member(where, r, member);
  EMBED__TRY(embed__inflate_read(s, r->header, have));
  EMBED__TRY(read_header(r, &(embed__npy){.label = where, .data = r->header, .end = member->bytes}, tensor, &opaque));
  if (opaque) return embed__inflate_finish(s);
  const int64_t at = tensor->offset, behind = embed__min(have - at, tensor->bytes);
  tensor->offset = -1; /* its numbers are nowhere in the file */
  EMBED__TRY(check_end(r, member, at + tensor->bytes, member->bytes));
  if (tensor->dtype == EMBED_DTYPE_NONE || !embed__tensor_extents(tensor, &rows, &dim) || dim < 1) return embed__inflate_finish(s);
  if (tensor->swapped || tensor->column_major) return inflate_and_reorder(r, s, tensor, r->header + at, behind);
  return inflate_in_order(r, s, tensor, r->header + at, behind);
}

static embed_status read_deflated(reader *r, const embed__zip_member *member, embed__tensor *tensor) {
  const embed__deflated from = embed__zip_deflated(&r->zip, member);
  embed__inflate *s;
  EMBED__TRY(embed__inflate_justify(r->ctx, &from));
  if (!r->header) EMBED__TRY(embed__scratch_get(r->ctx, EMBED__NPY_HEADER, 1, &r->header));
  EMBED__TRY(embed__inflate_begin(r->ctx, &from, &s));
  const embed_status status = read_inflated(r, s, member, tensor);
  embed__inflate_end(s);
  return status;
}

/* --- The archive */

static embed_status read_member(reader *r, const embed__zip_member *member) {
  embed__tensor *tensor = &r->f->tensors[r->f->tensor_count];
  embed__tokens_append(r->f->names, member->name, member->name_bytes - ENDING_BYTES);
  int64_t ignored;
  tensor->name = embed__tokens_get(r->f->names, r->f->tensor_count++, &ignored);
  return member->deflated ? read_deflated(r, member, tensor) : read_stored(r, member, tensor);
}

static embed_status read_members(reader *r) {
  int64_t arrays = 0, bytes = 0;
  for (int64_t i = 0; i < r->zip.count; ++i) {
    const embed__zip_member *member = &r->zip.members[i];
    if (!embed__ends_with(member->name, member->name_bytes, ENDING)) continue;
    ++arrays;
    bytes += member->name_bytes - ENDING_BYTES;
  }
  if (arrays == 0)
    return embed__fail(r->ctx, EMBED_E_FORMAT, 0, "%s: it is a zip archive of %" PRId64 " members, none of them an npy array", r->f->label, r->zip.count);
  EMBED__TRY(embed__file_tensors(r->ctx, r->f, arrays));
  r->f->tensor_count = 0;
  EMBED__TRY(embed__tokens_new(r->ctx, arrays, bytes, &r->f->names));
  for (int64_t i = 0; i < r->zip.count; ++i)
    if (embed__ends_with(r->zip.members[i].name, r->zip.members[i].name_bytes, ENDING)) EMBED__TRY(read_member(r, &r->zip.members[i]));
  embed__tokens_index(r->f->names);
  return arrays == r->zip.count ? EMBED_OK : embed__file_note(r->ctx, r->f, r->zip.count - arrays, "members of the archive are no npy arrays");
}

embed_status embed__npz_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.ctx = ctx, .f = f, .o = o};
  embed_status status = embed__zip_open(ctx, f, &r.zip);
  if (status == EMBED_OK) status = read_members(&r);
  embed__zip_free(&r.zip);
  return status;
}
