/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__INSERT_H
#define EMBED__INSERT_H

#include "scatter/grad.h"

/* Makes the rows `ids` [n], ascending and each once, part of a sparse gradient. place[r]: where row ids[r] is, or, when it
 * was not there before, ~ of that: its values are then not written yet. On any error g is as before, its values apart
 * when an executor fails (E_CALLBACK). */
embed_status embed__grad_insert(embed_context *ctx, embed_grad *g, const int64_t *ids, int64_t n, int64_t *place);
/* E_MISMATCH: another dim, or a dense g with fewer rows than `rows`. */
embed_status embed__grad_check(embed_context *ctx, const embed_grad *g, int64_t rows, int64_t dim);
/* A bias of `rows` zeros that is not g's yet, or g's own; E_MISMATCH when that has another length. Then, with the status of what
 * else had to work, it becomes g's or is given back; returns that status. */
embed_status embed__grad_make_bias(embed_context *ctx, const embed_grad *g, int64_t rows, float **bias);
embed_status embed__grad_take_bias(embed_grad *g, int64_t rows, float *bias, embed_status status);

#endif
