/* SPDX-License-Identifier: BSD-3-Clause */
/* The tasks of a pass, in the order in which they run. */
#include "loss/pass.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "sweep/sweep.h"

/* 32 hidden rows as floats, in both packed forms. Lanes past the rows are zeros. */
void embed__pass_pack(void *pass, int64_t strip, int32_t worker) {
  const embed__pass *p = pass;
  const embed__loss_job *b = p->b;
  if (embed__in_words(p)) {
    embed__words_pack(p, strip, worker);
    return;
  }
  const int64_t dim = p->dim, row_bytes = b->ldx * embed__float_bytes(b->x_dtype);
  float *by_row = p->by_row + strip * EMBED__STRIP * dim, *x = embed__pass_decoded(p, worker);
  for (int64_t l = 0; l < EMBED__STRIP; ++l) {
    const int64_t row = strip * EMBED__STRIP + l;
    if (row >= p->rows) {
      for (int64_t j = 0; j < dim; ++j) by_row[j * EMBED__STRIP + l] = 0;
      continue;
    }
    embed__load_row(p->kernels, b->x + p->lane[row].at * row_bytes, b->x_dtype, x, dim);
    if (p->operands == EMBED__BY_ROUNDED) p->kernels->bfloats.round(x, dim);
    for (int64_t j = 0; j < dim; ++j) by_row[j * EMBED__STRIP + l] = x[j];
    for (int64_t j = 0; p->by_column && j < dim; j += EMBED__STRIP) {
      float *to = p->by_column + j * p->rows + row * EMBED__STRIP;
      const int64_t columns = embed__min(EMBED__STRIP, dim - j);
      memcpy(to, x + j, (size_t)columns * sizeof *to);
      memset(to + columns, 0, (size_t)(EMBED__STRIP - columns) * sizeof *to);
    }
  }
}

/* Rows [first, first + count) of the table as floats, p->decoded_ld apart: in L2 and side by side, also those that are floats. */
static const float *table_rows(const embed__pass *p, int64_t first, int64_t count, int32_t worker) {
  const embed_table *t = p->table;
  float *decoded = embed__pass_decoded(p, worker);
  const bool rounded = p->operands == EMBED__BY_ROUNDED;
  for (int64_t r = 0; r < count; ++r) {
    float *row = decoded + r * p->decoded_ld;
    if (rounded && p->floats) {
      p->kernels->bfloats.round_to((const float *)(const void *)embed__row(t, first + r), row, p->dim);
      continue;
    }
    embed__decode_stored(p->kernels, t, first + r, row, 1.0f);
    if (rounded) p->kernels->bfloats.round(row, p->dim);
  }
  return decoded;
}

const void *embed__pass_soon(const embed__pass *p, int64_t first, int64_t count, int64_t *bytes) {
  *bytes = 0;
  if (p->table->overlay || first >= p->vocab) return NULL;
  *bytes = embed__min(count, p->vocab - first) * p->table->row_bytes;
  return embed__row(p->table, first);
}

/* As embed__finish_logits, for the transposed form. */
static void finish(const embed__pass *p, float *z, int64_t first, int64_t count) {
  const embed_head *h = p->b->head;
  if (h->bias || h->scale != 1.0f) {
    for (int64_t r = 0; r < count; ++r) {
      const float bias = h->bias ? h->bias[first + r] : 0;
      for (int64_t i = 0; i < p->lanes; ++i) z[r * p->lanes + i] = h->scale * (z[r * p->lanes + i] + bias);
    }
  }
  if (h->softcap > 0) p->kernels->softmax.softcap(z, p->lanes, count, p->lanes, h->softcap);
  for (int64_t i = 0; p->times != 1.0f && i < count * p->lanes; ++i) z[i] *= p->times;
}

/* Where hidden rows stand in limbs and the other operand cannot. */
static void multiply_by_strips(const embed__pass *p, const embed__gemm *g, const float *(*strip)(const embed__pass *p, int64_t strip, int32_t worker),
                               int32_t worker) {
  for (int64_t c = 0; c < g->n; c += EMBED__STRIP) {
    embed__gemm of_strip = *g;
    of_strip.n = embed__min(EMBED__STRIP, g->n - c);
    of_strip.b = strip(p, c / EMBED__STRIP, worker);
    of_strip.c = g->c + c;
    p->kernels->gemm.by_rows(&of_strip);
  }
}

void embed__pass_multiply(const embed__pass *p, int64_t first, int64_t count, float *z, int32_t worker) {
  if (!embed__in_words(p) || !embed__words_multiply(p, first, count, z, worker)) {
    embed__gemm g = {.m = count, .n = p->lanes, .k = p->dim, .lda = p->decoded_ld, .b = p->by_row, .c = z, .ldc = p->lanes};
    g.a = table_rows(p, first, count, worker);
    g.soon = embed__pass_soon(p, first + count, count, &g.soon_bytes);
    if (p->operands == EMBED__BY_LIMBS)
      multiply_by_strips(p, &g, embed__words_rows, worker);
    else
      p->kernels->gemm.by_rows(&g);
  }
  finish(p, z, first, count);
  for (int64_t i = 0; i < p->rows; ++i) {
    const int64_t target = p->lane[i].target - first;
    if (target >= 0 && target < count) p->lane[i].target_logit = z[target * p->lanes + i];
  }
}

/* A column whose largest value is infinite. */
static void sum_at_infinity(const embed__pass *p, const float *z, int64_t count, float *max, double *sum) {
  float column[EMBED__BLOCK];
  for (int64_t r = 0; r < count; ++r) column[r] = z[r * p->lanes];
  embed__logsumexp s = embed__logsumexp_of(p->kernels, column, count);
  *max = s.max;
  *sum = s.sum;
}

/* A class of weight 0 is left out: its logit may be -inf. */
static void sum_weighted(const embed__pass *p, const float *z, int64_t first, int64_t count, double *sum) {
  const float *weight = p->b->loss->weight;
  memset(sum, 0, (size_t)p->lanes * sizeof *sum);
  for (int64_t r = 0; r < count; ++r) {
    const double w = weight ? (double)weight[first + r] : 1;
    for (int64_t i = 0; w != 0 && i < p->lanes; ++i) sum[i] += w * (double)z[r * p->lanes + i];
  }
}

void embed__pass_logits(void *pass, int64_t block, int32_t worker) {
  const embed__pass *p = pass;
  const int64_t first = block * EMBED__BLOCK, count = embed__min(EMBED__BLOCK, p->vocab - first), state = block * p->lanes;
  float *z = embed__pass_place(p, first, count, worker);
  for (int64_t done = 0; done < count; done += p->together) {
    embed__pass_multiply(p, first + done, embed__min(p->together, count - done), z + done * p->lanes, worker);
  }
  for (int64_t i = 0; i < p->lanes; ++i) p->max[state + i] = -INFINITY;
  p->kernels->softmax.max(z, p->lanes, count, p->lanes, p->max + state);
  p->kernels->softmax.sum_exp(z, p->lanes, count, p->lanes, p->max + state, p->sum + state);
  for (int64_t i = 0; i < p->rows; ++i)
    if (isinf(p->max[state + i])) sum_at_infinity(p, z + i, count, &p->max[state + i], &p->sum[state + i]);
  if (p->weighted) sum_weighted(p, z, first, count, p->weighted + state);
}

/* In the sweep's tree. */
embed__logsumexp embed__pass_all_blocks(const embed__pass *p, int64_t row, int32_t worker) {
  embed__logsumexp *states = p->states + worker * p->blocks;
  for (int64_t b = 0; b < p->blocks; ++b) states[b] = (embed__logsumexp){p->max[b * p->lanes + row], p->sum[b * p->lanes + row]};
  embed__merge_tree(states, p->blocks, sizeof *states, embed__logsumexp_merge);
  return states[0];
}

void embed__pass_slope(void *pass, int64_t row, int32_t worker) {
  const embed__pass *p = pass;
  const embed__loss_job *b = p->b;
  embed__lane *lane = &p->lane[row];
  embed__logsumexp all = {.sum = 1};
  if (p->forward) {
    double weighted = 0;
    all = embed__pass_all_blocks(p, row, worker);
    lane->logsumexp = embed__logsumexp_exact(&all);
    for (int64_t block = 0; p->weighted && block < p->blocks; ++block) weighted += p->weighted[block * p->lanes + row];
    if (b->found) b->found[lane->at] = (float)lane->logsumexp;
    if (lane->target < 0) return;
    if (b->losses) b->losses[lane->at] = (float)embed__row_loss(b->loss, lane->logsumexp, (double)lane->target_logit, weighted, lane->target);
  } else {
    all.max = b->logsumexp[lane->at];
    lane->logsumexp = (double)all.max;
  }
  const double scale = (double)b->head->scale;
  lane->slope = embed__row_slope(b->loss, lane->logsumexp, lane->target, b->upstream ? (double)b->upstream[lane->at] : b->each);
  p->shift[row] = all.max;
  p->factor[row] = (float)(scale * lane->slope.softmax / all.sum);
  p->minus[row] = (float)(scale * lane->slope.all);
  if (p->limit) p->limit[row] = (float)(b->loss->filter * fabs(scale * (b->upstream ? (double)b->upstream[lane->at] : b->each)));
}

/* z = d loss / d product, for table rows [first, first + count). The target's is a small difference as its probability nears 1: it
 * is formed in double. */
static void slope_of_logits(const embed__pass *p, float *z, int64_t first, int64_t count) {
  const embed__softmax_kernels *k = &p->kernels->softmax;
  const embed__loss *l = p->b->loss;
  const float *weight = l->weight ? l->weight + first : NULL, cap = p->b->head->softcap;
  if (cap > 0) {
    for (int64_t r = 0; r < count; ++r) {
      float logit[EMBED__MOST_LANES], *row = z + r * p->lanes;
      memcpy(logit, row, (size_t)p->lanes * sizeof *logit);
      k->gradient(row, p->lanes, 1, p->lanes, p->shift, p->factor, p->minus, weight ? weight + r : NULL);
      for (int64_t i = 0; i < p->lanes; ++i) row[i] *= 1.0f - (logit[i] / cap) * (logit[i] / cap);
    }
  } else {
    k->gradient(z, p->lanes, count, p->lanes, p->shift, p->factor, p->minus, weight);
  }
  for (int64_t i = 0; i < p->rows; ++i) {
    const embed__lane *lane = &p->lane[i];
    const int64_t target = lane->target - first;
    if (target < 0 || target >= count) continue;
    double logit = (double)lane->target_logit, slope = lane->slope.softmax * exp(logit - lane->logsumexp) - lane->slope.target;
    slope -= lane->slope.all * embed__class_weight(l, lane->target);
    if (cap > 0) slope *= 1 - logit / (double)cap * (logit / (double)cap);
    z[target * p->lanes + i] = (float)(slope * (double)p->b->head->scale);
  }
}

/* Table rows as strips of 32 columns. */
static void pack_table(const embed__pass *p, int64_t first, int64_t count, int32_t worker) {
  float *strips = embed__pass_strips(p, worker);
  const bool in_place = p->floats && p->operands != EMBED__BY_ROUNDED;
  const int64_t ld = in_place ? p->table->row_bytes / (int64_t)sizeof(float) : p->decoded_ld;
  const float *w = in_place ? (const float *)(const void *)embed__row(p->table, first) : table_rows(p, first, count, worker);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t j = 0; j < p->dim; j += EMBED__STRIP) {
      float *to = strips + j * count + r * EMBED__STRIP;
      if (p->dim - j >= EMBED__STRIP) {
        memcpy(to, w + r * ld + j, EMBED__STRIP * sizeof *to);
      } else {
        memcpy(to, w + r * ld + j, (size_t)(p->dim - j) * sizeof *to);
        memset(to + (p->dim - j), 0, (size_t)(EMBED__STRIP - (p->dim - j)) * sizeof *to);
      }
    }
  }
}

/* Kahan's sum: carry holds what the additions before have added too much. */
static void add_carrying(float *restrict sum, const float *restrict number, float *restrict carry, int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
    const float before = sum[j], corrected = number[j] - carry[j], after = before + corrected;
    carry[j] = (after - before) - corrected;
    sum[j] = after;
  }
}

static void add_bias_gradient(const embed__pass *p, const float *g, int64_t first, int64_t count, float *db) {
  for (int64_t r = 0; r < count; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < p->rows; ++i) sum += (double)g[r * p->lanes + i];
    float *to = db + (p->b->rows ? p->b->rows[first + r] : first + r);
    if (p->carry_bias) {
      const float number = (float)sum;
      add_carrying(to, &number, p->carry_bias + first + r, 1);
    } else {
      *to = (float)((double)*to + sum);
    }
  }
}

void embed__pass_add_weights(const embed__pass *p, embed__gemm product, embed__pass_product *multiply, int64_t first, int64_t count, int32_t worker) {
  const embed__loss_job *b = p->b;
  product.m = count;
  product.n = p->dim;
  if (!p->apart) {
    product.c = b->dw + first * b->lddw;
    product.ldc = b->lddw;
    product.add = true;
    multiply(p, &product, worker);
    return;
  }
  product.c = p->apart + worker * p->together * p->dim;
  product.ldc = p->dim;
  product.add = false;
  multiply(p, &product, worker);
  for (int64_t r = 0; r < count; ++r) {
    float *to = b->dw + (b->rows ? b->rows[first + r] : first + r) * b->lddw;
    if (p->carry)
      add_carrying(to, product.c + r * p->dim, p->carry + (first + r) * p->dim, p->dim);
    else
      p->kernels->row.add(to, product.c + r * p->dim, p->dim);
  }
}

static void by_floats(const embed__pass *p, const embed__gemm *g, int32_t worker) {
  (void)worker;
  p->kernels->gemm.by_rows(g);
}
static void by_floats_of_limbs(const embed__pass *p, const embed__gemm *g, int32_t worker) { multiply_by_strips(p, g, embed__words_columns, worker); }

static void add_products(const embed__pass *p, const float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  const embed__loss_job *b = p->b;
  if (b->dx && (!embed__in_words(p) || !embed__words_add_hidden(p, g, first, count, partial, add, worker))) {
    embed__gemm product = {.m = p->rows, .n = p->dim, .k = count, .a = g, .lda = p->lanes, .c = partial, .ldc = p->dim, .add = add};
    pack_table(p, first, count, worker);
    product.b = embed__pass_strips(p, worker);
    product.soon = embed__pass_soon(p, first + count, count, &product.soon_bytes);
    p->kernels->gemm.by_columns(&product);
  }
  if (b->dw && (!embed__in_words(p) || !embed__words_add_weights(p, g, first, count, worker))) {
    const embed__gemm product = {.k = p->rows, .a = g, .lda = p->lanes, .b = p->by_column};
    embed__pass_add_weights(p, product, embed__in_words(p) ? by_floats_of_limbs : by_floats, first, count, worker);
  }
}

/* From the slopes of some logits to the gradients that they have a part in; the bias' is no product. add: partial holds something. */
void embed__pass_add(const embed__pass *p, float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  if (p->b->db) add_bias_gradient(p, g, first, count, p->b->db);
  if (p->operands == EMBED__BY_ROUNDED) p->kernels->bfloats.round(g, count * p->lanes);
  add_products(p, g, first, count, partial, add, worker);
}

void embed__pass_gradients(void *pass, int64_t segment, int32_t worker) {
  const embed__pass *p = pass;
  const int64_t begin = p->vocab * segment / p->segments, end = p->vocab * (segment + 1) / p->segments;
  float *partial = p->partial ? p->partial + segment * p->rows * p->dim : NULL;
  bool added = false;
  for (int64_t first = begin, count; first < end; first += count) {
    count = embed__min(p->together, end - first);
    float *z = embed__pass_place(p, first, count, worker);
    if (!embed__pass_keeps(p, first, count)) embed__pass_multiply(p, first, count, z, worker);
    slope_of_logits(p, z, first, count);
    if (p->limit) {
      added = embed__pass_add_filtered(p, z, first, count, partial, added, worker);
    } else {
      embed__pass_add(p, z, first, count, partial, added, worker);
      added = true;
    }
  }
  if (!added && partial) memset(partial, 0, (size_t)(p->rows * p->dim) * sizeof *partial);
}

/* The segments' sums, in their order. A segment without rows has none. */
void embed__pass_hidden(void *pass, int64_t row, int32_t worker) {
  const embed__pass *p = pass;
  const embed__loss_job *b = p->b;
  float *sum = p->partial + row * p->dim;
  (void)worker;
  for (int64_t s = 1; s < p->segments; ++s) p->kernels->row.add(sum, p->partial + (s * p->rows + row) * p->dim, p->dim);
  embed__store_row(p->kernels, sum, b->dx + p->lane[row].at * b->lddx * embed__float_bytes(b->dx_dtype), b->dx_dtype, p->dim);
}
