/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden states from an .npy file of floats, [n, dim] or [dim]. */
#ifndef CLI_HIDDEN_H
#define CLI_HIDDEN_H

#include "session.h"

/* *rows [*n, dim of s->head], to be freed; 0, or CLI_FAILED after the one line on stderr. */
int cli_hidden_read(cli_session *s, const char *path, float **rows, int64_t *n);

#endif
