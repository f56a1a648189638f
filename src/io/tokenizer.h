/* SPDX-License-Identifier: BSD-3-Clause */
/* The token strings of a model whose file has none, from what transformers keeps beside it. */
#ifndef EMBED__TOKENIZER_H
#define EMBED__TOKENIZER_H

#include "io/file.h"

/* Fills f->tokens from tokenizer.json or vocab.txt in path's folder, when there is one and f has none: the first that is good, for ids below
 * rows. one_each: only a vocab.txt with a line for every row (a folder that no tokenizer is known to belong to). What is odd is noted, and so
 * is one that cannot be read; neither makes a good file fail. E_MEMORY and E_CANCELLED alone are errors. */
embed_status embed__tokenizer_read(embed_context *ctx, embed_file *f, const char *path, const embed_file_options *o, int64_t rows, bool one_each);

#endif
