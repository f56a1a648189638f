/* SPDX-License-Identifier: BSD-3-Clause */
/* A bar on stderr, when that is a terminal and the work has taken more than a second. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

/* The context's callback: one call of the library is so far; 0 = go on. */
int32_t cli_progress(void *unused, int64_t done, int64_t total);
/* Work of several calls: what the callback tells from now on is step `step` of `steps` (0 of 1 at first). */
void cli_progress_step(int64_t step, int64_t steps);
/* Takes the bar away before a line is printed. */
void cli_progress_clear(void);
/* The same before the answer is printed: no bar from now on. */
void cli_progress_end(void);

#endif
