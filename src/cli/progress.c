/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* One terminal, one bar. */
static struct {
  double begun, drawn; /* seconds; begun 0 = not yet */
  int64_t step, steps;
  int shown, ended;
} bar = {.steps = 1};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int32_t cli_progress(void *unused, int64_t done, int64_t total) {
  (void)unused;
  double now = seconds();
  if (bar.begun == 0) bar.begun = now;
  if (bar.ended || now - bar.begun < 1 || now - bar.drawn < 0.1 || !isatty(STDERR_FILENO)) return 0;
  enum { CELLS = 40 };
  double share = ((double)bar.step + (total > 0 ? (double)done / (double)total : 0)) / (double)bar.steps;
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  int full = (int)(share * CELLS);
  fprintf(stderr, "\rembed: [%.*s%*s] %3d %%", full, "########################################", CELLS - full, "", (int)(share * 100));
  fflush(stderr);
  bar.drawn = now;
  bar.shown = 1;
  return 0;
}

void cli_progress_step(int64_t step, int64_t steps) {
  bar.step = step;
  bar.steps = steps > 0 ? steps : 1;
  (void)cli_progress(NULL, 0, 1);
}

void cli_progress_clear(void) {
  if (bar.shown) fputs("\r\033[K", stderr);
  bar.shown = 0;
}

void cli_progress_end(void) {
  cli_progress_clear();
  bar.ended = 1;
}
