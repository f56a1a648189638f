/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors by what families call them: roles.def. */
#ifndef EMBED__NAMES_H
#define EMBED__NAMES_H

#include "io/file.h"

enum { EMBED__INPUT_NORM = EMBED__ROLES, EMBED__FACTOR, EMBED__NAMED_ROLES }; /* of roles.def: callers know them as NORM and POSITION */

/* The tensor of exactly this name, -1 = none. */
int64_t embed__tensor_named(const embed_file *f, const char *name);
/* The tensor that the names of this role find, -1 = none. *ending: the ending that found it, NULL = a whole name did. */
int64_t embed__role_named(const embed_file *f, int32_t role, const char **ending);
/* The tensor named as tensor `of` with ".from" at its end changed to ".to", fit for the role; -1 = none. */
int64_t embed__role_sibling(const embed_file *f, int32_t role, int64_t of, const char *from, const char *to);
/* Whether a family calls this role so. */
bool embed__is_role_name(const char *name, int32_t role);

#endif
