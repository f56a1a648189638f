/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass whose products are of bfloats, two to a word: pairs of what is summed side by side, made on the way. EMBED__BY_WORDS: the numbers
 * rounded; sums have the order of those of rounded floats, so their bits; but in tiles. EMBED__BY_LIMBS: floats as sums of three bfloats,
 * whose words stand in three planes (kernels/gemm.h). */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "loss/pass.h"
#include "thread/run.h"

static int64_t half_of(int64_t n) { return embed__ceil_div(n, 2); }
static int64_t planes(const embed__pass *p) { return p->operands == EMBED__BY_LIMBS ? 3 : 1; }
static int64_t strip_columns(const embed__pass *p) { return embed__strips(p->dim) * EMBED__STRIP; }

embed_status embed__words_scratch(embed_context *ctx, embed__pass *p) {
  enum { APART = 16 /* rows of 4 KiB would share few sets of L1 */ };
  const int64_t workers = embed__workers(ctx);
  p->word_ld = half_of(p->dim) + APART;
  p->row_plane = embed__strips(p->lanes) * EMBED__STRIP * half_of(p->dim);
  p->column_plane = half_of(p->chunk) * strip_columns(p);
  p->table_plane = embed__max(p->together * p->word_ld, half_of(p->together) * strip_columns(p));
  p->slope_plane = half_of(p->together) * p->lanes;
  EMBED__TRY(embed__scratch_matrix(ctx, planes(p), p->row_plane, sizeof *p->row_words, &p->row_words));
  p->room_floats = embed__max(p->room_floats, planes(p) * p->table_plane);
  EMBED__TRY(embed__scratch_matrix(ctx, 2 * workers, p->dim, sizeof *p->pair, &p->pair));
  p->strip_ld = 2 * embed__max(half_of(p->dim), half_of(p->chunk)) * EMBED__STRIP;
  if (p->operands == EMBED__BY_LIMBS) EMBED__TRY(embed__scratch_matrix(ctx, workers, p->strip_ld, sizeof *p->strip, &p->strip));
  if (!p->back) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, planes(p), p->column_plane, sizeof *p->column_words, &p->column_words));
  return embed__scratch_matrix(ctx, workers * planes(p), p->slope_plane, sizeof *p->slope_words, &p->slope_words);
}

static uint32_t *table_words(const embed__pass *p, int32_t worker) { return (uint32_t *)(void *)embed__pass_decoded(p, worker); }
static uint32_t *slope_words(const embed__pass *p, int32_t worker) { return p->slope_words + worker * planes(p) * p->slope_plane; }

/* Words of numbers, their planes apart; false: limbs do not hold them. */
static bool pair_along(const embed__pass *p, const float *x, int64_t n, uint32_t *out, int64_t plane) {
  if (p->operands == EMBED__BY_LIMBS) return p->kernels->gemm.limbs_along(x, n, out, plane);
  p->kernels->bfloats.pair_along(x, n, out);
  return true;
}
static bool pair_across(const embed__pass *p, const float *first, const float *second, int64_t n, uint32_t *out, int64_t plane) {
  if (p->operands == EMBED__BY_LIMBS) return p->kernels->gemm.limbs_across(first, second, n, out, plane);
  p->kernels->bfloats.pair_across(first, second, n, out);
  return true;
}

static void by_rows(const embed__pass *p, const embed__gemm *g, int32_t worker) {
  (void)worker;
  (p->operands == EMBED__BY_LIMBS ? p->kernels->gemm.limbs_by_rows : p->kernels->gemm.pairs_by_rows)(g);
}
static void by_columns(const embed__pass *p, const embed__gemm *g) {
  (p->operands == EMBED__BY_LIMBS ? p->kernels->gemm.limbs_by_columns : p->kernels->gemm.pairs_by_columns)(g);
}

/* Two rows side by side as words of pair number `pair` of `pairs`, in strips; second may be NULL. */
static bool pack_across(const embed__pass *p, const float *first, const float *second, int64_t pair, int64_t pairs, uint32_t *strips, int64_t plane) {
  bool held = true;
  for (int64_t j = 0; j < p->dim; j += EMBED__STRIP) {
    const int64_t columns = embed__min(EMBED__STRIP, p->dim - j);
    uint32_t *to = strips + j * pairs + pair * EMBED__STRIP;
    held &= pair_across(p, first + j, second ? second + j : NULL, columns, to, plane);
    for (int64_t l = 0; columns < EMBED__STRIP && l < planes(p); ++l) memset(to + l * plane + columns, 0, (size_t)(EMBED__STRIP - columns) * sizeof *to);
  }
  return held;
}

/* 32 hidden rows; lanes past the rows are zeros. */
void embed__words_pack(const embed__pass *p, int64_t strip, int32_t worker) {
  const embed__loss_job *b = p->b;
  const int64_t words = half_of(p->dim), row_bytes = b->ldx * embed__float_bytes(b->x_dtype);
  uint32_t *by_row = p->row_words + strip * EMBED__STRIP * words, *of_row = table_words(p, worker);
  float *pair = p->pair + worker * 2 * p->dim;
  for (int64_t l = 0; l < EMBED__STRIP; ++l) {
    const int64_t row = strip * EMBED__STRIP + l;
    float *x = pair + l % 2 * p->dim;
    if (row < p->rows) {
      embed__load_row(p->kernels, b->x + p->lane[row].at * row_bytes, b->x_dtype, x, p->dim);
      pair_along(p, x, p->dim, of_row, p->table_plane);
    }
    for (int64_t k = 0; k < planes(p); ++k)
      for (int64_t w = 0; w < words; ++w) by_row[k * p->row_plane + w * EMBED__STRIP + l] = row < p->rows ? of_row[k * p->table_plane + w] : 0;
    if (p->column_words && l % 2 && row <= p->rows) pack_across(p, pair, row < p->rows ? x : NULL, row / 2, half_of(p->rows), p->column_words, p->column_plane);
  }
}

/* A strip of `words` words as floats again, [2 words, 32]. */
static const float *floats_of(const embed__pass *p, const uint32_t *strip, int64_t words, int64_t plane, int32_t worker) {
  float *out = p->strip + worker * p->strip_ld;
  for (int64_t at = 0; at < words * EMBED__STRIP; ++at) {
    float *to = out + at / EMBED__STRIP * 2 * EMBED__STRIP + at % EMBED__STRIP, first = 0, second = 0;
    for (int64_t k = planes(p); k-- > 0;) { /* exact: each limb begins where the one before ends */
      first += embed__f32_of_bits(strip[k * plane + at] << 16);
      second += embed__f32_of_bits(strip[k * plane + at] & 0xFFFF0000u);
    }
    to[0] = first * 0x1p-24f;
    to[EMBED__STRIP] = second * 0x1p-24f;
  }
  return out;
}
const float *embed__words_rows(const embed__pass *p, int64_t strip, int32_t worker) {
  return floats_of(p, p->row_words + strip * EMBED__STRIP * half_of(p->dim), half_of(p->dim), p->row_plane, worker);
}
const float *embed__words_columns(const embed__pass *p, int64_t strip, int32_t worker) {
  return floats_of(p, p->column_words + strip * EMBED__STRIP * half_of(p->rows), half_of(p->rows), p->column_plane, worker);
}

/* A row of the table as floats: where it lies, or decoded to `room`. */
static const float *row_of(const embed__pass *p, int64_t row, float *room) {
  const embed_table *t = p->table;
  if (p->floats) return (const float *)(const void *)embed__row(t, row);
  embed__decode_stored(p->kernels, t, row, room, 1.0f);
  return room;
}

bool embed__words_multiply(const embed__pass *p, int64_t first, int64_t count, float *z, int32_t worker) {
  uint32_t *rows = table_words(p, worker);
  float *room = p->pair + worker * 2 * p->dim;
  for (int64_t r = 0; r < count; ++r)
    if (!pair_along(p, row_of(p, first + r, room), p->dim, rows + r * p->word_ld, p->table_plane)) return false;
  embed__gemm g = {.m = count, .n = p->lanes, .k = half_of(p->dim), .a = rows, .lda = p->word_ld, .b = p->row_words, .c = z, .ldc = p->lanes};
  g.a_plane = p->table_plane;
  g.b_plane = p->row_plane;
  g.soon = embed__pass_soon(p, first + count, count, &g.soon_bytes);
  by_rows(p, &g, worker);
  return true;
}

bool embed__words_add_hidden(const embed__pass *p, const float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  const int64_t pairs = half_of(count);
  uint32_t *strips = table_words(p, worker), *slopes = slope_words(p, worker);
  float *room = p->pair + worker * 2 * p->dim;
  for (int64_t r = 0; r < count; r += 2) {
    const bool two = r + 1 < count;
    const float *w = row_of(p, first + r, room), *next = two ? row_of(p, first + r + 1, room + p->dim) : NULL;
    if (!pack_across(p, w, next, r / 2, pairs, strips, p->table_plane)) return false;
    if (!pair_across(p, g + r * p->lanes, two ? g + (r + 1) * p->lanes : NULL, p->lanes, slopes + r / 2 * p->lanes, p->slope_plane)) return false;
  }
  embed__gemm product = {.m = p->rows, .n = p->dim, .k = pairs, .a = slopes, .lda = p->lanes, .b = strips, .c = partial, .ldc = p->dim, .add = add};
  product.a_plane = p->slope_plane;
  product.b_plane = p->table_plane;
  product.soon = embed__pass_soon(p, first + count, count, &product.soon_bytes);
  by_columns(p, &product);
  return true;
}

bool embed__words_add_weights(const embed__pass *p, const float *g, int64_t first, int64_t count, int32_t worker) {
  const int64_t ld = p->lanes / 2;
  uint32_t *slopes = slope_words(p, worker);
  for (int64_t r = 0; r < count; ++r)
    if (!pair_along(p, g + r * p->lanes, p->rows, slopes + r * ld, p->slope_plane)) return false;
  const embed__gemm product = {.k = half_of(p->rows), .a = slopes, .lda = ld, .b = p->column_words, .a_plane = p->slope_plane, .b_plane = p->column_plane};
  embed__pass_add_weights(p, product, by_rows, first, count, worker);
  return true;
}
