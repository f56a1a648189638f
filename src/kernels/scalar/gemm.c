/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of products of matrices. */
#include "core/half.h"
#include "kernels/gemm.h"

static void gemm(const embed__gemm *g, int64_t stride, int64_t step) {
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t c = 0; c < g->n; ++c) {
      const float *a = (const float *)g->a + i * stride, *b = (const float *)g->b + c / EMBED__STRIP * EMBED__STRIP * g->k + c % EMBED__STRIP;
      float *out = &g->c[i * g->ldc + c], sum = g->add ? *out : 0;
      for (int64_t begin = 0; begin < g->k; begin += EMBED__GEMM_CHAIN) {
        float chain = 0;
        for (int64_t j = begin; j < g->k && j < begin + EMBED__GEMM_CHAIN; ++j) {
          float product = a[j * step] * b[j * EMBED__STRIP];
          chain += product;
        }
        sum = begin == 0 && !g->add ? chain : sum + chain;
      }
      *out = sum;
    }
  }
}

static float upper(uint32_t word) { return embed__f32_of_bits(word & 0xFFFF0000u); }
static float lower(uint32_t word) { return embed__f32_of_bits(word << 16); }

static void pairs(const embed__gemm *g, int64_t stride, int64_t step) {
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t c = 0; c < g->n; ++c) {
      const uint32_t *a = (const uint32_t *)g->a + i * stride, *b = (const uint32_t *)g->b + c / EMBED__STRIP * EMBED__STRIP * g->k + c % EMBED__STRIP;
      float *out = &g->c[i * g->ldc + c], sum = g->add ? *out : 0;
      for (int64_t begin = 0; begin < g->k; begin += EMBED__PAIR_CHAIN) {
        float chain = 0;
        for (int64_t j = begin; j < g->k && j < begin + EMBED__PAIR_CHAIN; ++j) {
          float first = upper(a[j * step]) * upper(b[j * EMBED__STRIP]), second = lower(a[j * step]) * lower(b[j * EMBED__STRIP]);
          chain += first;
          chain += second;
        }
        sum = begin == 0 && !g->add ? chain : sum + chain;
      }
      *out = sum;
    }
  }
}

static void by_rows(const embed__gemm *g) { gemm(g, g->lda, 1); }
static void by_columns(const embed__gemm *g) { gemm(g, 1, g->lda); }
static void pairs_by_rows(const embed__gemm *g) { pairs(g, g->lda, 1); }
static void pairs_by_columns(const embed__gemm *g) { pairs(g, 1, g->lda); }

void embed__gemm_scalar(embed__gemm_kernels *k) {
  *k = (embed__gemm_kernels){.by_rows = by_rows, .by_columns = by_columns, .rows = 1, .pairs_by_rows = pairs_by_rows, .pairs_by_columns = pairs_by_columns};
}
