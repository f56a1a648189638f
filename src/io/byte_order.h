/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and machines of either byte order. Tables hold floats in the machine's order, whose kernels read them as they are; all other
 * dtypes in little-endian, whose codecs read them byte by byte. One routine turns rows round, for readers and writers. */
#ifndef EMBED__BYTE_ORDER_H
#define EMBED__BYTE_ORDER_H

#include "io/file.h"

/* Whether rows of a file of this order must be turned round before a table here can have them. */
bool embed__is_swapped(embed_dtype dtype, bool big_endian_file);
/* Turns the fields of packed rows round where they stand: elements of floats; scales and 32-bit words of GGUF's blocks. bytes: of whole
 * rows. Dtypes of single bytes stay as they are; so do this library's own, which no file has in big-endian. */
void embed__swap_rows(embed_dtype dtype, unsigned char *rows, int64_t bytes);
/* A table of its own of rows that must be turned round and may be apart; o describes it but for its flags. */
embed_status embed__swapped_table(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                                  embed_table **out);

#endif
