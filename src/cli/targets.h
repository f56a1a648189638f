/* SPDX-License-Identifier: BSD-3-Clause */
/* Token ids from an .npy file of integers, [n]. */
#ifndef CLI_TARGETS_H
#define CLI_TARGETS_H

#include "session.h"

/* *targets [n], to be freed, each a row of s->head; 0, or CLI_FAILED after the one line on stderr. */
int cli_targets_read(const cli_session *s, const char *path, int64_t n, int32_t **targets);
/* The same for a history, as long as it is. */
int cli_history_read(const cli_session *s, const char *path, int64_t *n, int32_t **ids);

#endif
