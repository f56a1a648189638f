/* SPDX-License-Identifier: BSD-3-Clause */
/* Sketched products in the words of a level's sketch.c, which are defined before: LANES, PARTS (vectors of a line), STREAMS, ints, reals,
 * dot4(sum, u, x): sum + the four products of each lane's bytes, u in [0, 63], x signed. A pass is up to HIDDEN_MOST hidden rows with one
 * panel, or one hidden row with STREAMS panels far apart: memory gives more to several streams. */
#include <string.h>

#include "kernels/sketch.h"
#include "kernels/template.h"

enum { LINE = 64, GROUP_LINES = 3, BLOCK_LINES = 4 * GROUP_LINES, AHEAD_BYTES = 2048, VECTORS_MOST = STREAMS * PARTS };

typedef struct pass {
  const unsigned char *panel[VECTORS_MOST]; /* scales */
  const unsigned char *weights[VECTORS_MOST];
  const int32_t *record; /* of the first hidden row */
  int64_t blocks;
  const float *steps;
  float *z[VECTORS_MOST];
  int64_t ldz;
} pass;

/* Four lines of weights out of three. */
INLINE void unpack(const unsigned char *at, ints u[4]) {
  ints a = load_ints(at), b = load_ints(at + LINE), c = load_ints(at + 2 * LINE);
  u[0] = masked(a, 63);
  u[1] = masked(b, 63);
  u[2] = masked(c, 63);
  u[3] = either(either(shifted_masked(a, 2, 48), shifted_masked(b, 4, 12)), shifted_masked(c, 6, 3));
}

/* vectors: of LANES rows, PARTS of each panel. */
INLINE void multiply_pass(int vectors, int hidden, const pass *p) {
  reals chain[VECTORS_MOST][HIDDEN_MOST];
  UNROLL for (int v = 0; v < vectors; ++v) { UNROLL for (int h = 0; h < hidden; ++h) chain[v][h] = no_reals(); }
  for (int64_t b = 0; b < p->blocks; ++b) {
    ints high[VECTORS_MOST][HIDDEN_MOST], low[VECTORS_MOST][HIDDEN_MOST];
    UNROLL for (int h = 0; h < hidden; ++h) {
      const int32_t *record = p->record + (h * p->blocks + b) * EMBED__SKETCH_RECORD;
      UNROLL for (int v = 0; v < vectors; ++v) high[v][h] = no_ints(), low[v][h] = spread_word(record + 32);
    }
    UNROLL for (int g = 0; g < 4; ++g) {
      const int64_t at = (b * BLOCK_LINES + g * GROUP_LINES) * LINE;
      UNROLL for (int v = 0; v < vectors; ++v) {
        ints u[4];
        if (v % PARTS == 0) {
          UNROLL for (int l = 0; l < GROUP_LINES; ++l) prefetch((uintptr_t)(p->weights[v] + at + l * LINE) + AHEAD_BYTES);
        }
        unpack(p->weights[v] + at, u);
        UNROLL for (int h = 0; h < hidden; ++h) {
          const int32_t *record = p->record + (h * p->blocks + b) * EMBED__SKETCH_RECORD + 4 * g;
          UNROLL for (int l = 0; l < 4; ++l) {
            high[v][h] = dot4(high[v][h], u[l], spread_word(record + l));
            low[v][h] = dot4(low[v][h], u[l], spread_word(record + 16 + l));
          }
        }
      }
    }
    UNROLL for (int v = 0; v < vectors; ++v) {
      const reals scale = load_bfloats(p->panel[v] + b * 2 * EMBED__SKETCH_ROWS);
      UNROLL for (int h = 0; h < hidden; ++h) chain[v][h] = times_plus(reals_of(plus_ints(times_256(high[v][h]), low[v][h])), scale, chain[v][h]);
    }
  }
  UNROLL for (int v = 0; v < vectors; ++v) {
    UNROLL for (int h = 0; h < hidden; ++h) store_reals(p->z[v] + h * p->ldz, times(chain[v][h], spread_real(p->steps[h])));
  }
}

typedef struct sketch_job {
  const unsigned char *panels;
  int64_t stride, scale_bytes, blocks, n;
  const float *steps;
  const int32_t *records;
  float *z;
  int64_t ldz;
} sketch_job;

/* All hidden rows with one panel, or with several, `apart` of each other: the PARTS of one are its halves. */
INLINE void multiply_panels(int vectors, const sketch_job *j, int64_t panel, int64_t apart) {
  pass p = {.blocks = j->blocks, .ldz = j->ldz};
  for (int v = 0; v < vectors; ++v) {
    const int64_t at = panel + v / PARTS * apart;
    p.panel[v] = j->panels + at * j->stride + v % PARTS * LANES * 2;
    p.weights[v] = j->panels + at * j->stride + j->scale_bytes + v % PARTS * LANES * 4;
  }
  for (int64_t i = 0; i < j->n; i += HIDDEN_MOST) {
    p.record = j->records + i * j->blocks * EMBED__SKETCH_RECORD;
    p.steps = j->steps + i;
    for (int v = 0; v < vectors; ++v) p.z[v] = j->z + i * j->ldz + (panel + v / PARTS * apart) * EMBED__SKETCH_ROWS + v % PARTS * LANES;
    switch (j->n - i) {
      case 1: multiply_pass(vectors, 1, &p); break;
#if HIDDEN_MOST > 2
      case 2: multiply_pass(vectors, 2, &p); break;
      case 3: multiply_pass(vectors, 3, &p); break;
#endif
      default: multiply_pass(vectors, HIDDEN_MOST, &p); break;
    }
  }
}

static void multiply(const void *panels, int64_t stride, int64_t count, const void *packed, int64_t n, int64_t dim, float *z, int64_t ldz) {
  const sketch_job j = {.panels = panels,
                        .stride = stride,
                        .scale_bytes = embed__sketch_scale_bytes(dim),
                        .blocks = embed__sketch_blocks(dim),
                        .n = n,
                        .steps = packed,
                        .records = (const int32_t *)((const unsigned char *)packed + embed__sketch_steps_bytes(n)),
                        .z = z,
                        .ldz = ldz};
  const int64_t all = (count + EMBED__SKETCH_ROWS - 1) / EMBED__SKETCH_ROWS, apart = n == 1 ? all / STREAMS : 0;
  for (int64_t p = 0; p < apart; ++p) multiply_panels(STREAMS * PARTS, &j, p, apart);
  for (int64_t p = STREAMS * apart; p < all; ++p) multiply_panels(PARTS, &j, p, 0);
}
