/* SPDX-License-Identifier: BSD-3-Clause */
/* What the config.json beside a safetensors file or a PyTorch checkpoint adds to it. */
#ifndef EMBED__CONFIG_H
#define EMBED__CONFIG_H

#include "io/file.h"

/* Reads the file named exactly config.json in path's folder, where there is one, when f's roles are known: f->conventions by its family,
 * and lines of the notes. What f holds decides: a config that says otherwise is noted. One that cannot be read, is no JSON or belongs to
 * a table of another width is noted too and not used; it never makes a good file fail. E_MEMORY alone is an error. */
embed_status embed__config_read(embed_context *ctx, embed_file *f, const char *path, uint32_t flags);

#endif
