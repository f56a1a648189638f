/* SPDX-License-Identifier: BSD-3-Clause */
/* How rows travel from a table to the caller's buffer. The sizes that decide it stand here and nowhere else; none of
 * them depends on the number of threads.
 *
 * Measured: GB/s of f32 written, 32,768 random ids (8,192 of 4096 columns), 2 threads of a Sapphire Rapids that reads 17
 * to 21 GB/s. A step takes 256 bytes of output of each row that goes side by side; the next step's rows are fetched.
 *
 *   rows side by side, stores       f32 768  bf16 768  int8 768  int4 768  f32 384  int8 384  f32 4096  int8 4096
 *   memcpy loop                         7.2                                    6.7                 8.1
 *   1, plain                            8.0       8.6       9.4       9.8      7.3       9.4       7.6        9.3
 *   8, plain                            7.1       8.1      10.6      11.3      6.1       8.8       8.2       11.8
 *   1, past the caches                 13.3      18.7      21.7      24.3     10.9      16.8      13.3       26.4
 *   4, past the caches                 14.9      20.1      24.3      26.6     11.7      20.3      14.7       29.3
 *   8, past the caches                 14.6      21.6      24.3      27.5     12.3      20.4      15.0       29.2
 *   4, into a stage, then past         13.4      18.0      21.2      22.0     10.6      17.0      13.5       25.1
 *
 * So: 8, past the caches, wherever an output fits none; through a stage where its rows have no whole lines. Steps of 4
 * and of 8 rows past the caches measured best on a Zen 4, too: there 1.4 to 1.6 times FBGEMM's f32 kernel, which takes one
 * row at a time with plain stores.
 *
 * Those figures are of rows fetched into the first-level cache. Fetched into the second (a table of 2 GiB, the two in turns, GB/s
 * written, of bags read; not measured on a Zen):
 *
 *                            f32 384   768  4096   bf16 384   768  4096   int8 384   768  4096
 *   past the caches, first      12.5  14.4  15.6       14.8  18.2  24.1       16.0  20.4  28.2
 *                    second     13.5  15.5  16.2       15.7  18.7  24.3       18.1  21.6  28.9
 *   512 rows, cached, loop      10.4  11.8  13.1       11.6  12.5               8.9  12.6
 *     4 side by side, first     12.8  13.8  13.1       15.4  19.4              17.3  25.2
 *     8 side by side, second    14.6  14.7  13.3       18.4  19.7              19.6  27.3
 *   bags of 32, first           14.2  15.9  19.5        9.8  13.3               6.5   7.4  12.9
 *               second          15.0  17.5  20.7       10.8  14.1               7.1   8.1  13.1
 *
 * From a table in the last-level cache lookups gain 5 to 20 % likewise; bags of rows of 384 columns lose 8 %, and 30 % where the whole
 * table is in the second. With the second, 8 rows are at least as fast as 4 into a cached output, but for 3 % at 4096 columns;
 * fetching 2 or 3 steps ahead changes nothing above 5 %, chunks of 128 or 512 bytes, 16 rows, and fetching into both nothing.
 * Cached f32 outputs: rows at random that are only read, 8 side by side, come at 1.45 to 1.53 times the speed of a memcpy loop, so
 * 1.7 times is past the limit of this machine; 1.2 to 1.55 times of it is reached in the bare loops (1.1 at 4096 columns, whose 512 rows
 * are 8 MiB). Stores past the cache are slower there, so is fetching the output ahead (by 5 to 50 %); the NTA hint halves the speed.
 * Bags: 8 rows a step into a row that stays in the first-level cache, 0.8 of the read limit at 768 columns, 1.0 at 4096,
 * 0.75 at 384; row by row 0.6. */
#ifndef EMBED__GATHER_PLAN_H
#define EMBED__GATHER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gather.h"

enum {
  /* An output larger than this is written past the caches: its first lines would be gone before anybody reads them, and
   * a plain store reads each line before it writes it. About one core's share of a server's last-level cache. */
  EMBED__STREAM_BYTES = 16 << 20,
  /* Rows that go past the caches one by one are not shorter than this: of whole cache lines, and of others, whose ragged
   * ends weigh more than their lines. */
  EMBED__STREAM_ROW_BYTES = 256,
  EMBED__STREAM_RAGGED_BYTES = 1 << 10,
  /* Rows that cannot be streamed where they are made (no whole lines) collect here first, in a first-level cache. */
  EMBED__STAGE_BYTES = 16 << 10,
  /* Stored bytes that are asked for ahead of the row in work; the most rows that is, where rows are taken one by one. */
  EMBED__AHEAD_BYTES = 16 << 10,
  EMBED__AHEAD_ROWS = 16,
  /* Side by side: the next step's rows are asked for, and of short ones more, to so many bytes. */
  EMBED__AHEAD_SIDE_BYTES = 4 << 10,
  /* Rows of one task, bytes: a 64th of the work, between what is far above the cost of handing a task out and what lets
   * threads end together. The first rows of a task are not asked for by the rows before them: few tasks are better. */
  EMBED__TASK_BYTES = 256 << 10, /* where rows are taken one by one */
  EMBED__LEAST_TASK_BYTES = 192 << 10,
  EMBED__MOST_TASK_BYTES = 1 << 20,
  EMBED__TASKS = 64
};

/* Rows of one task where each is `row_bytes` of work, of n rows in all: tasks of about one size, and of few an even
 * number. */
int64_t embed__rows_of_task(int64_t n, int64_t row_bytes);
static inline int64_t embed__rows_per_task(int64_t row_bytes) { return row_bytes < EMBED__TASK_BYTES ? EMBED__TASK_BYTES / row_bytes : 1; }

/* How many rows ahead of a step of EMBED__SIDE rows the rows are fetched that come next; at least that many. */
int64_t embed__side_ahead(int64_t stored_bytes);

typedef enum embed__way {
  EMBED__WAY_PLAIN,      /* into the caches */
  EMBED__WAY_STREAM,     /* past them, each row where it is made */
  EMBED__WAY_STAGE,      /* past them by way of a stage that is copied as one piece: rows without whole lines, close together */
  EMBED__WAY_STAGE_ROWS, /* the same, row by row: rows without whole lines, apart */
} embed__way;

/* The way of n rows of width bytes, step bytes apart from `at` on. whole_rows: the kernel wants row and step on whole
 * lines; else only step. */
embed__way embed__way_of(const void *at, int64_t n, int64_t width, int64_t step, bool whole_rows);

#endif
