/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's array file, version 1.0: floats, rows one behind the other from a multiple of 64 on. The name of the table is not kept. */
#include "io/write_npy.h"

#include <string.h>

#include "io/text.h"

static const char *type_of(embed_dtype dtype) { return dtype == EMBED_F64 ? "<f8" : dtype == EMBED_F32 ? "<f4" : dtype == EMBED_F16 ? "<f2" : NULL; }

embed_status embed__npy_check(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (type_of(t->dtype)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: %s has no type for %s rows: ask for f32, f16 or f64, or write an .embed file", w->label,
                     w->format->name, embed__dtype_name(t->dtype));
}

int64_t embed__npy_head(const embed__written_table *t, bool vector, unsigned char head[EMBED__NPY_WRITTEN]) {
  enum { TEXT_AT = 10, ALIGN = 64 };
  char dict[EMBED__NPY_WRITTEN - TEXT_AT];
  embed__text text = embed__text_in(dict, sizeof dict);
  embed__text_add(&text, "{'descr': '");
  embed__text_add(&text, type_of(t->dtype));
  embed__text_add(&text, "', 'fortran_order': False, 'shape': (");
  if (!vector || !t->table->vector) {
    embed__text_number(&text, t->rows);
    embed__text_add(&text, ", ");
  }
  embed__text_number(&text, t->dim);
  embed__text_add(&text, vector && t->table->vector ? ",), }" : "), }");
  const size_t bytes = strlen(dict), whole = (TEXT_AT + bytes + ALIGN) / ALIGN * ALIGN; /* a newline at least */
  memset(head, ' ', EMBED__NPY_WRITTEN);
  memcpy(head, "\x93NUMPY\x01", 7);
  head[7] = 0;
  head[8] = (unsigned char)(whole - TEXT_AT);
  head[9] = 0;
  memcpy(head + TEXT_AT, dict, bytes);
  head[whole - 1] = '\n';
  return (int64_t)whole;
}

static embed_status write_npy(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  unsigned char head[EMBED__NPY_WRITTEN];
  const embed__written_table *t = embed__written(w, 0);
  EMBED__TRY(embed__safe_write(ctx, f, head, embed__npy_head(t, false, head)));
  return embed__written_rows(ctx, w, t, embed__rows_to_file, f);
}

const embed__writer_format embed__writer_npy = {.name = "npy", .extensions = ".npy", .check_table = embed__npy_check, .write = write_npy};
