/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's array file, version 1.0: floats, rows one behind the other from a multiple of 64 on. The name of the table is not kept. */
#include <string.h>

#include "io/text.h"
#include "io/writer.h"

static const char *type_of(embed_dtype dtype) { return dtype == EMBED_F64 ? "<f8" : dtype == EMBED_F32 ? "<f4" : dtype == EMBED_F16 ? "<f2" : NULL; }

static embed_status check_table(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (type_of(t->dtype)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: npy has no type for %s rows: ask for f32, f16 or f64, or write an .embed file", w->label,
                     embed__dtype_name(t->dtype));
}

static embed_status write_npy(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  enum { HEADER = 192, TEXT_AT = 10, ALIGN = 64 };
  unsigned char header[HEADER];
  char dict[HEADER - TEXT_AT];
  const embed__written_table *t = embed__written(w, 0);
  embed__text text = embed__text_in(dict, sizeof dict);
  embed__text_add(&text, "{'descr': '");
  embed__text_add(&text, type_of(t->dtype));
  embed__text_add(&text, "', 'fortran_order': False, 'shape': (");
  embed__text_number(&text, t->rows);
  embed__text_add(&text, ", ");
  embed__text_number(&text, t->dim);
  embed__text_add(&text, "), }");
  size_t bytes = strlen(dict), whole = (TEXT_AT + bytes + ALIGN) / ALIGN * ALIGN; /* a newline at least */
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01", 7);
  header[7] = 0;
  header[8] = (unsigned char)(whole - TEXT_AT);
  header[9] = 0;
  memcpy(header + TEXT_AT, dict, bytes);
  header[whole - 1] = '\n';
  EMBED__TRY(embed__safe_write(ctx, f, header, (int64_t)whole));
  return embed__written_rows(ctx, w, t, embed__rows_to_file, f);
}

const embed__writer_format embed__writer_npy = {.name = "npy", .extensions = ".npy", .check_table = check_table, .write = write_npy};
