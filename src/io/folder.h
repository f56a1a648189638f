/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that are kept as a folder: one file of it holds the weights, or says which ones do. */
#ifndef EMBED__FOLDER_H
#define EMBED__FOLDER_H

#include <stddef.h>

#include "core/error.h"

/* *out: the path of that file, `bytes` bytes from ctx->memory at EMBED__ALIGNMENT; NULL when path is no folder. E_IO: a folder without one; E_MEMORY. */
embed_status embed__folder_model(embed_context *ctx, const char *path, char **out, size_t *bytes);

#endif
