/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: which way a sweep goes, and how it is cut. All choices stand here, with what was measured. */
#include "core/checked.h"
#include "core/cpu.h"
#include "core/error.h"
#include "sweep/chunk.h"
#include "sweep/gemm_blas.h"
#include "sweep/prepared.h"
#include "thread/run.h"

enum {
  BLAS_ROWS = 48,       /* hidden rows from which OpenBLAS is faster than kernels without vectors */
  BLAS_CHUNK = 512,     /* hidden rows per call of OpenBLAS */
  PACK_ROWS = 96,       /* hidden rows from which making panels on the way gains more than it costs, */
  PACK_FLOAT_ROWS = 18, /* of f32 and f16 (28 where vectors have 256 bits), and */
  PACK_NARROW_ROWS = 28,
  PACK_BF16_ROWS = 14,     /* of bf16, whose tiles widen rows for every 4 hidden rows anew */
  LIMBS_F32_ROWS = 64,     /* by tiles of limbs, where there are some: of f32, */
  LIMBS_F16_ROWS = 28,     /* f16, */
  LIMBS_BF16_ROWS = 20,    /* bf16 (never as few as a sketch searches for: head/BOUND.md counts a rounding for a product), */
  LIMBS_DECODED_ROWS = 48, /* rows that only become floats, */
  LIMBS_PANEL_ROWS = 96,   /* and those that have faster panels until then, prepared ones of f32 and quantised ones, */
  LIMBS_DIM = 64,          /* of that many columns: tiles are filled up to 32 */
  LIMBS_WIDE_DIM = 2048,   /* With more, limbs of floats and of hidden rows together leave L2: */
  LIMBS_WIDE_ROWS = 128,   /* they pay from here on. */
  PACK_BYTES = 512 << 10,  /* of panels at once, per worker: they meet all hidden rows from L2 */
  LIMBS_BYTES = 896 << 10, /* of limbs, which stay in L2 while hidden rows, that may come from L3, meet them tile after tile */
  BLOCK_BYTES = 8 << 20,   /* of a block's panels, per worker */
  OWN_CHUNK = 128,         /* hidden rows per pass: products that are reduced at once stay in L2 */
  OUT_CHUNK = 512,         /* and where they are all kept */
  TILE_ROWS = 64,          /* of them per task, on rows as stored and of quantised panels, whose hidden rows are larger, */
  PANEL_ROWS = 128,        /* and on panels of floats */
  FEW_BLOCKS = 8,          /* up to here tasks take fewer rows, so that there are enough of them */
  FEW_ROWS = 16,
  FEW_LIMBS_ROWS = 64,    /* of limbs, which cost more to make */
  APART_ROWS = 12,        /* up to so many products are written where the caller wants them */
  STREAM_BYTES = 2 << 20, /* of products, from where on they go past the caches */
  DIRECT_ROWS = 4,        /* hidden rows up to which quantised rows without panels are multiplied as floats */
  STATE_BYTES = 32 << 20  /* of all slots' tiles and states together */
};

/* What was measured (Sapphire Rapids, 2 threads, 50257 x 768, read 20 to 28 GB/s, FMA 330 GFLOP/s), and what follows:
 *
 * hidden rows    f32, GFLOP/s             bf16                     quantised, exact
 *                tiles packed prepared    tiles packed prepared    prepared (q4_K)  packed as f32 (q2_K)
 *  16            123    133     178       125    203     240       189               82
 *  32            134    207     270       128    240     283       184              116
 *  64            119    250     280       156    240     268       188              146
 * 128            151    268     298       144    255     254       220              203
 * 512            136    280     296       168    276     250       250              281
 *
 * ms of the same exact products by tiles of limbs (level amx) / as without them, on a quiet machine (FMA 347 GFLOP/s; beside other guests both lose,
 * tiles more: there f32 is even at 96, f16 at 32):
 *                f32          prepared     f16 prepared  bf16 prepared  q4_K prepared  q2_K
 *  24                                      6.8 / 6.9     5.2 /  6.3
 *  32            12.1 / 11.4  11.4 /  8.0  6.9 / 9.3     5.1 /  8.4     19.4 /   9.0   20.6 / 19.3
 *  48            14.4 / 14.9  13.6 / 11.7  8.8 / 13.8    6.5 / 12.5
 *  64            16.7 / 19.1  15.9 / 15.6  10.8 / 18.9   7.6 / 16.8     22.0 /  17.8   23.7 / 32.1
 *  96            20.2 / 26.4  20.2 / 23.6                               24.1 /  26.3   26.3 / 32.6
 * 512                                                                   84.6 / 144.5
 * 32768 x 4096:
 *  64            71.3 / 63.2               45.7 / 63.6   33.7 / 56.4    74.0 /  64.7
 * 128            120  / 121                87.6 / 135    58.7 / 115     122  / 121
 * 512            370  / 458                                             414  / 547
 *
 * hidden rows, ms, of a table in a cache      1     2     3     4
 * q8_0  as stored      1.29  1.48  1.70  1.95    prepared  0.94  1.05  1.20  1.54
 * int8  as stored      0.96  1.24  1.58  1.89    prepared  0.86  0.95  1.19  1.63
 *
 * - Products for a caller's array are made in scratch and copied in runs: stores of 64 bytes to rows that lie
 *   vocab * 4 bytes apart cost 5 to 10 % from 64 hidden rows on, and scratch rows 4,096 bytes apart cost as much. Past
 *   the caches the copy gains another 3 (f32) to 8 % (int8).
 * - Where there are no panels, up to DIRECT_ROWS hidden rows meet quantised rows as they are stored. Panels are at least as
 *   fast for every n: from memory 1.0 to 1.1 (q6_K 1.1 to 1.3, q5_K 1.0 to 1.5) times, from a cache 1.0 to 1.8 times.
 * - Up to 8 rows everything waits for memory: rows as they are stored. So do larger batches until panels pay.
 * - While panels made on the way are multiplied, the rows of the next ones are fetched: 1.15 to 1.2 times at 64 rows of f32,
 *   1.1 at 128, nothing at 512; before that, panels paid from 32 (f32) and 24 (16 bits) hidden rows on.
 * - Exact products of quantised rows cost an integer product per 8 bits of x: from PACK_ROWS on it is cheaper to
 *   decode the rows once per chunk, even for a prepared head.
 * - OpenBLAS (SkylakeX core) did 133, 160, 259 GFLOP/s of f32 at 64, 128, 512 rows where we did 182, 186, 259; its
 *   Haswell core 115, 116, 153 beside 115, 132, 145 of avx2. It is asked by name (EMBED_HEAD_BLAS), or where our panels
 *   have no kernels but scalar's. */
static bool blas_pays(const embed_context *ctx, int64_t n) {
  if (embed__blas_threads() == 1 && !embed__blas_runs_side_by_side() && embed__workers(ctx) > 1) return false; /* one thread against all of ours */
  return ctx->kernels->panel.vector_bits < 256 && n >= BLAS_ROWS;
}

/* Sapphire Rapids, 2 threads: FMA 330 GFLOP/s, vdpbf16ps 160; widening costs less than that. On Zen 4 and 5 it is twice
 * FMA, and tiles are many times as fast. A reproducible context takes what its level has. */
bool embed__pair_products_pay(const embed_context *ctx) {
  return ctx->flags & EMBED_CONTEXT_REPRODUCIBLE || ctx->kernels->panel.has_tiles || !(embed__cpu() & EMBED__CPU_SLOW_PAIRS);
}

static bool has_own(const embed_context *ctx, embed__activation activation, const embed__multiplier of_form[EMBED__ACTIVATIONS]) {
  return of_form[activation].multiply && (activation != EMBED__ROUNDED_BF16 || embed__pair_products_pay(ctx));
}

/* The multiplier of the sweep's activation, or the exact one on hidden rows that are rounded before. */
static void choose_multiplier(const embed_context *ctx, embed__sweep *s, const embed__multiplier of_form[EMBED__ACTIVATIONS]) {
  s->round = s->activation != EMBED__EXACT && !has_own(ctx, s->activation, of_form);
  s->multiplier = &of_form[s->round ? EMBED__EXACT : s->activation];
}

/* Exact products of int8 rows by tiles, twice (16 hidden rows) to five times (512) as fast as panels of floats. */
static bool has_tiles_for(const embed_context *ctx, const embed__sweep *s) {
  return ctx->kernels->panel.has_tiles && s->form == EMBED__PANEL_I8 && s->activation == EMBED__EXACT;
}

/* From how many hidden rows on exact products of floats go by tiles, at a level that has such panels. */
static int64_t limbs_rows(const embed__sweep *s) {
  if (s->form == EMBED__PANEL_F16) return LIMBS_F16_ROWS;
  if (s->form == EMBED__PANEL_BF16) return LIMBS_BF16_ROWS;
  if (s->table->dim > LIMBS_WIDE_DIM) return LIMBS_WIDE_ROWS;
  if (s->form < 0) return LIMBS_DECODED_ROWS;
  return s->prepared || s->form != EMBED__PANEL_F32 ? LIMBS_PANEL_ROWS : LIMBS_F32_ROWS;
}

/* The form of limbs that such a sweep has its panels in, -1 = none. */
static int limbs_form(const embed_context *ctx, const embed__sweep *s) {
  const int form = embed__limbs_of(s->form < 0 || embed__is_quantised_form(s->form) ? EMBED__PANEL_F32 : s->form);
  const bool pays = s->activation == EMBED__EXACT && !has_tiles_for(ctx, s) && s->n >= limbs_rows(s) && s->table->dim >= LIMBS_DIM;
  return pays && ctx->kernels->panel.pack[form] && !(ctx->flags & EMBED_CONTEXT_REPRODUCIBLE) &&
                 embed__limbs_hold_rows(ctx->kernels, s->x, s->x_dtype, s->rows, s->n, s->ldx, s->table->dim)
             ? form
             : -1;
}

/* From how many hidden rows on panels are made on the way, and of what form. */
static int64_t pack_rows(const embed_context *ctx, const embed__sweep *s, int *form) {
  const embed__panel_kernels *k = &ctx->kernels->panel;
  const int stored = s->form;
  *form = stored < 0 || embed__is_quantised_form(stored) || !k->pack[stored] ? EMBED__PANEL_F32 : stored;
  /* A level with vectors for quantised panels has some for the rows as well; scalar's products are slower than panels of floats. */
  if (embed__is_quantised_form(stored) && (s->activation != EMBED__EXACT || has_tiles_for(ctx, s)) && has_own(ctx, s->activation, k->in_place[stored])) {
    *form = stored;
    return PACK_ROWS;
  }
  if (*form != stored) return PACK_ROWS;
  if (stored == EMBED__PANEL_BF16) return PACK_BF16_ROWS;
  return k->vector_bits >= 512 ? PACK_FLOAT_ROWS : PACK_NARROW_ROWS;
}

/* Exact products of a few hidden rows with quantised rows as they are stored, whose weights become floats in registers. The
 * order of sums is not that of panels: a reproducible context has the latter for every n. */
static bool direct_pays(const embed_context *ctx, const embed__sweep *s) {
  const embed__kernels *k = ctx->kernels;
  const embed__codec *codec = s->table->codec;
  if (s->prepared || !embed__is_quantised_form(s->form) || s->activation != EMBED__EXACT || s->n > DIRECT_ROWS || ctx->flags & EMBED_CONTEXT_REPRODUCIBLE)
    return false;
  return k->dot.vector_bits >= 512 && (codec->stored >= 0 || k->dot_blocks.tile[codec->form]);
}

static void choose_way(const embed_context *ctx, embed__sweep *s, bool blas) {
  const embed__panel_kernels *k = &ctx->kernels->panel;
  const embed_table *t = s->table;
  const bool reproducible = ctx->flags & EMBED_CONTEXT_REPRODUCIBLE; /* panels made on the way may have another order of sums */
  int packed;
  s->form = embed__form_of(t);
  s->multiplier = NULL;
  s->round = s->activation != EMBED__EXACT;
  bool pack = s->n >= pack_rows(ctx, s, &packed) && !reproducible && !(s->prepared && packed == s->form);
  const int limbs = s->force_blas ? -1 : limbs_form(ctx, s);
  if (limbs >= 0) {
    pack = true;
    packed = limbs;
  }
  if (s->force_blas || (blas && s->direct && !s->prepared && blas_pays(ctx, s->n))) {
    s->way = EMBED__BY_BLAS;
  } else if (direct_pays(ctx, s)) {
    s->way = EMBED__IN_PLACE;
  } else if (pack) {
    s->way = EMBED__PACKED;
    s->form = packed;
    s->panel_bytes = k->bytes[packed](t->dim, t->group);
    choose_multiplier(ctx, s, k->prepared[packed]);
  } else if (s->prepared) {
    s->way = EMBED__PREPARED;
    s->panel_bytes = s->prepared->panel_bytes;
    choose_multiplier(ctx, s, k->prepared[s->form]);
  } else {
    s->way = EMBED__IN_PLACE;
    const embed__multiplier *in_place = s->form >= 0 ? k->in_place[s->form] : NULL;
    bool rounded = s->activation != EMBED__EXACT && in_place && has_own(ctx, s->activation, in_place);
    const bool without_tile = t->codec->stored < 0 || (has_tiles_for(ctx, s) && !reproducible); /* of dot.h, or for such n a slower one */
    if (rounded || (without_tile && in_place && in_place[EMBED__EXACT].multiply)) choose_multiplier(ctx, s, in_place);
  }
}

static void cut(const embed_context *ctx, embed__sweep *s) {
  const embed_table *t = s->table;
  int64_t blocks = embed__ceil_div(t->vocab, EMBED__BLOCK);
  s->slots = s->way == EMBED__BY_BLAS ? 1 : embed__workers(ctx);
  if (s->way == EMBED__BY_BLAS) {
    s->chunk = embed__min(s->n, BLAS_CHUNK); /* fixed: another chunk could give other bits */
    return;
  }
  bool floats = s->way != EMBED__IN_PLACE && !embed__is_quantised_form(s->form), few = blocks <= FEW_BLOCKS;
  const bool limbs = s->form >= EMBED__PANEL_F32_LIMBS;
  const int64_t block_panels = EMBED__BLOCK / EMBED__PANEL_ROWS;
  /* Panels are read, or made, once for a whole chunk; a reducer needs all of a block for that, which costs less than making them anew. */
  bool block = s->way == EMBED__PACKED && s->n > PANEL_ROWS && block_panels * s->panel_bytes <= BLOCK_BYTES;
  bool once = floats && !few && (s->out || block);
  int64_t row_bytes = s->state_bytes + (s->out || once ? 0 : EMBED__TILE_LD * (int64_t)sizeof(float));
  int64_t bounded = STATE_BYTES / embed__max(1, row_bytes) / s->slots;
  s->chunk = embed__max(1, embed__min(s->n, embed__min(s->out || once ? OUT_CHUNK : OWN_CHUNK, bounded)));
  s->part = embed__min(s->chunk, few ? (limbs ? FEW_LIMBS_ROWS : FEW_ROWS) : floats ? PANEL_ROWS : TILE_ROWS);
  s->task = once ? s->chunk : s->part;
  s->panels = block_panels;
  bool by_bytes = s->out ? s->way == EMBED__PACKED || s->task > s->part : s->way == EMBED__PACKED && !once;
  if (by_bytes) s->panels = embed__max(2, embed__min(s->panels, (limbs ? LIMBS_BYTES : PACK_BYTES) / s->panel_bytes / 4 * 4));
  s->tile_rows = s->out && s->n <= APART_ROWS ? 0 : s->part;
  s->streaming = s->out && s->tile_rows && s->n > STREAM_BYTES / (int64_t)sizeof(float) / embed__max(1, t->vocab);
}

embed_status embed__plan_sweep(embed_context *ctx, embed__sweep *s) {
  bool reproducible = ctx->flags & EMBED_CONTEXT_REPRODUCIBLE, built_in = embed__blas_threads() != 0;
  if (s->force_blas && !built_in) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_HEAD_BLAS: this library is built without OpenBLAS");
  if (s->force_blas && reproducible) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_HEAD_BLAS: a reproducible context keeps away from OpenBLAS");
  s->direct = embed__floats_in_place(s->table);
  choose_way(ctx, s, built_in && !reproducible);
  cut(ctx, s);
  return EMBED_OK;
}
