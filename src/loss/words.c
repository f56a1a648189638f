/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass whose products are of bfloats, two to a word: pairs of what is summed side by side, made on the way. The sums have the order of
 * those of rounded floats, so their bits; but in tiles (kernels/gemm.h). */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "loss/pass.h"
#include "thread/run.h"

static int64_t half_of(int64_t n) { return embed__ceil_div(n, 2); }
static int64_t strip_columns(const embed__pass *p) { return embed__strips(p->dim) * EMBED__STRIP; }

embed_status embed__words_scratch(embed_context *ctx, embed__pass *p) {
  enum { APART = 16 /* rows of 4 KiB would share few sets of L1 */ };
  const int64_t workers = embed__workers(ctx);
  p->word_ld = half_of(p->dim) + APART;
  p->table_word_count = embed__max(p->together * p->word_ld, half_of(p->together) * strip_columns(p));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__strips(p->lanes) * EMBED__STRIP, half_of(p->dim), sizeof *p->row_words, &p->row_words));
  EMBED__TRY(embed__scratch_matrix(ctx, workers, p->table_word_count, sizeof *p->table_words, &p->table_words));
  EMBED__TRY(embed__scratch_matrix(ctx, 2 * workers, p->dim, sizeof *p->pair, &p->pair));
  if (!p->back) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, half_of(p->chunk), strip_columns(p), sizeof *p->column_words, &p->column_words));
  return embed__scratch_matrix(ctx, workers * half_of(p->together), p->lanes, sizeof *p->slope_words, &p->slope_words);
}

/* Two rows side by side as words of pair number `pair` of `pairs`, in strips; second may be NULL. */
static void pack_across(const embed__pass *p, const float *first, const float *second, int64_t pair, int64_t pairs, uint32_t *strips) {
  for (int64_t j = 0; j < p->dim; j += EMBED__STRIP) {
    const int64_t columns = embed__min(EMBED__STRIP, p->dim - j);
    uint32_t *to = strips + j * pairs + pair * EMBED__STRIP;
    p->kernels->bfloats.pair_across(first + j, second ? second + j : NULL, columns, to);
    memset(to + columns, 0, (size_t)(EMBED__STRIP - columns) * sizeof *to);
  }
}

/* 32 hidden rows; lanes past the rows are zeros. */
void embed__words_pack(const embed__pass *p, int64_t strip, int32_t worker) {
  const embed__loss_job *b = p->b;
  const int64_t words = half_of(p->dim), row_bytes = b->ldx * embed__float_bytes(b->x_dtype);
  uint32_t *by_row = p->row_words + strip * EMBED__STRIP * words, *of_row = p->table_words + worker * p->table_word_count;
  float *pair = p->pair + worker * 2 * p->dim;
  for (int64_t l = 0; l < EMBED__STRIP; ++l) {
    const int64_t row = strip * EMBED__STRIP + l;
    float *x = pair + l % 2 * p->dim;
    if (row < p->rows) {
      embed__load_row(p->kernels, b->x + p->lane[row].at * row_bytes, b->x_dtype, x, p->dim);
      p->kernels->bfloats.pair_along(x, p->dim, of_row);
    }
    for (int64_t w = 0; w < words; ++w) by_row[w * EMBED__STRIP + l] = row < p->rows ? of_row[w] : 0;
    if (p->column_words && l % 2 && row <= p->rows) pack_across(p, pair, row < p->rows ? x : NULL, row / 2, half_of(p->rows), p->column_words);
  }
}

/* A row of the table as floats: where it lies, or decoded to `room`. */
static const float *row_of(const embed__pass *p, int64_t row, float *room) {
  const embed_table *t = p->table;
  if (p->floats) return (const float *)(const void *)embed__row(t, row);
  embed__decode_stored(p->kernels, t, row, room, 1.0f);
  return room;
}

void embed__words_multiply(const embed__pass *p, int64_t first, int64_t count, float *z, int32_t worker) {
  uint32_t *rows = p->table_words + worker * p->table_word_count;
  float *room = p->pair + worker * 2 * p->dim;
  for (int64_t r = 0; r < count; ++r) p->kernels->bfloats.pair_along(row_of(p, first + r, room), p->dim, rows + r * p->word_ld);
  embed__gemm g = {.m = count, .n = p->lanes, .k = half_of(p->dim), .a = rows, .lda = p->word_ld, .b = p->row_words, .c = z, .ldc = p->lanes};
  g.soon = embed__pass_soon(p, first + count, count, &g.soon_bytes);
  p->kernels->gemm.pairs_by_rows(&g);
}

static void add_hidden(const embed__pass *p, const float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  const int64_t pairs = half_of(count);
  uint32_t *strips = p->table_words + worker * p->table_word_count, *slopes = p->slope_words + worker * half_of(p->together) * p->lanes;
  float *room = p->pair + worker * 2 * p->dim;
  for (int64_t r = 0; r < count; r += 2) {
    const bool two = r + 1 < count;
    const float *w = row_of(p, first + r, room), *next = two ? row_of(p, first + r + 1, room + p->dim) : NULL;
    pack_across(p, w, next, r / 2, pairs, strips);
    p->kernels->bfloats.pair_across(g + r * p->lanes, two ? g + (r + 1) * p->lanes : NULL, p->lanes, slopes + r / 2 * p->lanes);
  }
  embed__gemm product = {.m = p->rows, .n = p->dim, .k = pairs, .a = slopes, .lda = p->lanes, .b = strips, .c = partial, .ldc = p->dim, .add = add};
  product.soon = embed__pass_soon(p, first + count, count, &product.soon_bytes);
  p->kernels->gemm.pairs_by_columns(&product);
}

static void add_weights(const embed__pass *p, const float *g, int64_t first, int64_t count, int32_t worker) {
  const int64_t ld = p->lanes / 2;
  uint32_t *slopes = p->slope_words + worker * half_of(p->together) * p->lanes;
  for (int64_t r = 0; r < count; ++r) p->kernels->bfloats.pair_along(g + r * p->lanes, p->rows, slopes + r * ld);
  embed__pass_add_weights(p, (embed__gemm){.k = half_of(p->rows), .a = slopes, .lda = ld, .b = p->column_words}, p->kernels->gemm.pairs_by_rows, first, count,
                          worker);
}

void embed__words_add(const embed__pass *p, const float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  if (p->b->dx) add_hidden(p, g, first, count, partial, add, worker);
  if (p->b->dw) add_weights(p, g, first, count, worker);
}
