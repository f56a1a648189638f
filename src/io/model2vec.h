/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__MODEL2VEC_H
#define EMBED__MODEL2VEC_H

#include "io/safetensors.h"

/* Where s has the tensors of a Model2Vec model that are no table as they stand, makes the table of them: see model2vec.c. */
embed_status embed__model2vec_extend(embed_context *ctx, embed_file *f, embed__safetensors *s);

#endif
