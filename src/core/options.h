/* SPDX-License-Identifier: BSD-3-Clause */
/* Options structs come from programs built against older and newer headers: nothing reads them but this. */
#ifndef EMBED__OPTIONS_H
#define EMBED__OPTIONS_H

#include <stddef.h>

#include "core/error.h"

/* Copies the caller's struct (NULL = all default) into ours of `bytes` bytes and zero-fills what it lacks.
 * E_OPTION: size below 8, a tail we do not know that is not zero, a flag outside `flags`. */
embed_status embed__options(embed_context *ctx, const char *name, const void *given, uint32_t flags, void *copy, size_t bytes);
/* The other way: writes as much of ours as the caller's struct has room for, zero behind; keeps its size. */
embed_status embed__output(embed_context *ctx, const char *name, void *given, const void *ours, size_t bytes);

#endif
