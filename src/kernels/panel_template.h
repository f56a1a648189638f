/* SPDX-License-Identifier: BSD-3-Clause */
/* Panels of floats in the words of a level's vector.h and the few more that its panel.c defines, both included before.
 * A tile is the sums of some panels with a group of hidden rows: they stay in registers for a chain of columns, each
 * line of a panel meets the whole group, each number of the group all panels. Hidden rows are packed by groups, the
 * numbers of a column side by side, so that both are read in ascending order. */
#include "kernels/panel.h"

enum {
  TILE_PANELS = 4,     /* at most */
  LINE = 64,           /* bytes of a panel's line: one column of f32, two of 16 bits */
  NEAR = 2048,         /* bytes that a panel's stream is fetched ahead into L1, */
  FAR = 4096,          /* into L2 when the panel is passed over once, but not with four streams: those are slower for it, */
  NEAR_X = 512,        /* and the hidden rows' into L1 */
  X_BYTES = 256 << 10, /* of hidden rows that meet a panel before its next columns: they stay in L2 */
};

typedef enum kind {
  OF_F32,
  OF_F16,
  OF_BF16,
  OF_PAIRS /* bfloats times pairs of bfloats, where the level has such products */
} kind;

typedef struct panel_tile {
  const unsigned char *panel[TILE_PANELS];
  int64_t first, end;     /* lines */
  int64_t dim, lanes;     /* lanes: that are stored, of each panel */
  const unsigned char *x; /* the group's numbers for line first */
  float *z[TILE_PANELS];
  int64_t ldz;
  /* Memory fetched while the tile computes: at line first + i that at soon + i * soon_step behind each panel's begin. It
   * may lie past the table: a prefetch never faults. */
  uintptr_t soon, soon_step;
} panel_tile;

INLINE int64_t line_columns(kind k) { return k == OF_F32 ? 1 : 2; }
INLINE int64_t line_numbers(kind k) { return k == OF_F16 || k == OF_BF16 ? 2 : 1; } /* of a hidden row, 4 bytes each */
INLINE int64_t row_numbers(kind k, int64_t dim) { return k == OF_PAIRS ? dim / 2 + dim % 2 : dim; }

INLINE floats line_part(kind k, const unsigned char *line, int column, int part) {
  switch (k) {
    case OF_F16: return load_f16(line + 32 * column + 2 * WIDTH * part);
    case OF_BF16: return column ? upper_bfloats(line + BYTES * part) : lower_bfloats(line + BYTES * part);
    default: return load_f32(line + BYTES * part);
  }
}

/* The sums take in one column, or one pair of columns. */
INLINE void add_column(kind k, int panels, int hidden, const panel_tile *t, int64_t line, int column, const unsigned char *x, floats sum[][GROUP]) {
  floats w[TILE_PANELS * PARTS];
  UNROLL for (int v = 0; v < panels * PARTS; ++v) w[v] = line_part(k, t->panel[v / PARTS] + line * LINE, column, v % PARTS);
  UNROLL for (int h = 0; h < hidden; ++h) {
    floats by = spread_number(x + 4 * h);
    UNROLL for (int v = 0; v < panels * PARTS; ++v) sum[v][h] = k == OF_PAIRS ? add_pairs(sum[v][h], w[v], by) : times_plus(w[v], by, sum[v][h]);
  }
}

INLINE void keep(int panels, int hidden, const panel_tile *t, bool add, floats sum[][GROUP]) {
  UNROLL for (int v = 0; v < panels * PARTS; ++v) {
    UNROLL for (int h = 0; h < hidden; ++h) {
      float *z = t->z[v / PARTS] + h * t->ldz + v % PARTS * WIDTH;
      int64_t lanes = t->lanes - v % PARTS * WIDTH;
      if (panels > 1 || lanes >= WIDTH)
        store(z, add ? plus(load(z), sum[v][h]) : sum[v][h]);
      else if (lanes > 0)
        store_part(z, lanes, add ? plus(load_part(z, lanes), sum[v][h]) : sum[v][h]);
    }
  }
}

INLINE void sum_tile(kind k, int panels, int hidden, const panel_tile *t) {
  const int64_t chain = EMBED__PANEL_CHAIN / line_columns(k), step = 4 * hidden * line_numbers(k);
  const unsigned char *x = t->x;
  uintptr_t soon = t->soon;
  for (int64_t line = t->first, begin = line; line < t->end; begin = line) {
    floats sum[TILE_PANELS * PARTS][GROUP];
    UNROLL for (int v = 0; v < panels * PARTS; ++v) { UNROLL for (int h = 0; h < hidden; ++h) sum[v][h] = zeros(); }
    int64_t end = t->end - line < chain ? t->end : line + chain;
    bool odd = line_numbers(k) == 2 && 2 * end > t->dim; /* the last line has one column */
    for (; line < end - odd; ++line, x += step, soon += t->soon_step) {
      UNROLL for (int p = 0; p < panels; ++p) prefetch((uintptr_t)(t->panel[p] + line * LINE + NEAR));
      prefetch((uintptr_t)(x + NEAR_X));
      UNROLL for (int p = 0; panels < TILE_PANELS && p < panels; ++p) prefetch_to_l2((uintptr_t)t->panel[p] + soon);
      for (int c = 0; c < line_numbers(k); ++c) add_column(k, panels, hidden, t, line, c, x + 4 * hidden * c, sum);
    }
    if (odd) add_column(k, panels, hidden, t, line++, 0, x, sum);
    if (begin == 0)
      keep(panels, hidden, t, false, sum);
    else
      keep(panels, hidden, t, true, sum);
  }
}

/* Which tiles there are: those whose sums fit the registers, and that `multiply` below asks for. */
INLINE bool is_tile(int panels, int hidden) { return panels == 1 || (panels * PARTS * hidden <= TILE_SUMS && (panels == 4 || GROUP < 12 || hidden >= 6)); }

#ifdef ONE_BODY
static void sum_group(kind k, int panels, int hidden, const panel_tile *t) { sum_tile(k, panels, hidden, t); }
#else
#define TILE_OF(H)                                                                        \
  case H:                                                                                 \
    if (H <= GROUP && is_tile(panels, H)) sum_tile(k, panels, H <= GROUP ? H : GROUP, t); \
    break;
INLINE void sum_group(kind k, int panels, int hidden, const panel_tile *t) {
  switch (hidden) {
    TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6) TILE_OF(7) TILE_OF(8) TILE_OF(9) TILE_OF(10) TILE_OF(11) TILE_OF(12) default : break;
  }
}
#endif

/* Groups of hidden rows, as even as can be: group g begins at row g * n / groups. */
static int64_t groups_of(int64_t n) { return (n + GROUP - 1) / GROUP; }

typedef struct panel_job {
  const unsigned char *panels;
  int64_t stride, soon, dim;
  const unsigned char *x;
  int64_t n, first, end; /* lines */
  float *z;
  int64_t ldz;
} panel_job;

/* Some panels, `apart` of each other, times all groups. While several groups pass over a panel each fetches a slice of
 * what comes soon. */
INLINE void sum_panels(kind k, int panels, const panel_job *job, int64_t panel, int64_t apart, int64_t lanes) {
  int64_t groups = groups_of(job->n), bytes = (job->end - job->first) * LINE;
  panel_tile t = {.first = job->first, .end = job->end, .dim = job->dim, .lanes = lanes, .ldz = job->ldz};
  for (int p = 0; p < panels; ++p) t.panel[p] = job->panels + (panel + p * apart) * job->stride;
  for (int64_t g = 0; g < groups; ++g) {
    int64_t row = g * job->n / groups, hidden = (g + 1) * job->n / groups - row;
    for (int p = 0; p < panels; ++p) t.z[p] = job->z + row * job->ldz + (panel + p * apart) * EMBED__PANEL_ROWS;
    t.x = job->x + 4 * (row * row_numbers(k, job->dim) + hidden * line_numbers(k) * job->first);
    if (groups == 1) {
      t.soon = (uintptr_t)(job->first * LINE + FAR);
      t.soon_step = LINE;
    } else {
      t.soon = (uintptr_t)(job->soon + job->first * LINE + g * bytes / groups);
      t.soon_step = (uintptr_t)((LINE + groups - 1) / groups);
    }
    sum_group(k, panels, (int)hidden, &t);
  }
}

/* Panels of a tile stand a part of `count` apart: far streams. */
INLINE void runs(kind k, int panels, const panel_job *job, int64_t begin, int64_t end) {
  int64_t apart = (end - begin) / panels;
  for (int64_t p = begin; p < begin + apart; ++p) sum_panels(k, panels, job, p, apart, EMBED__PANEL_ROWS);
}

INLINE void multiply(kind k, const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, float *z, int64_t ldz) {
  if (n < 1 || count < 1) return;
  int64_t lines = (dim + line_columns(k) - 1) / line_columns(k), whole = count / EMBED__PANEL_ROWS;
  int64_t chain = EMBED__PANEL_CHAIN / line_columns(k), part = lines;
  if (groups_of(n) > 1) { /* so many columns at once that the hidden rows stay in L2 */
    part = X_BYTES / (4 * n * line_numbers(k)) / chain * chain;
    if (part < chain) part = chain;
  }
  panel_job job = {.panels = rows, .stride = stride, .soon = soon, .dim = dim, .x = packed, .n = n, .z = z, .ldz = ldz};
  int together = TOGETHER(n);
  for (job.first = 0; job.first < lines; job.first = job.end) {
    job.end = lines - job.first < part ? lines : job.first + part;
    int64_t done = whole - whole % together;
    if (together == 4)
      runs(k, 4, &job, 0, done);
    else if (together == 2)
      runs(k, 2, &job, 0, done);
    else
      runs(k, 1, &job, 0, done);
    runs(k, 1, &job, done, whole);
    if (count % EMBED__PANEL_ROWS) sum_panels(k, 1, &job, whole, 0, count % EMBED__PANEL_ROWS);
  }
}

#define MULTIPLY(name, kind)                                                                                                                           \
  static void name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, float *z, \
                   int64_t ldz) {                                                                                                                      \
    (void)group;                                                                                                                                       \
    multiply(kind, rows, stride, soon, count, packed, n, dim, z, ldz);                                                                                 \
  }
