/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of products of matrices. */
#include "kernels/gemm.h"

static void gemm(const embed__gemm *g, int64_t stride, int64_t step) {
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t c = 0; c < g->n; ++c) {
      const float *a = g->a + i * stride, *b = g->b + c / EMBED__STRIP * EMBED__STRIP * g->k + c % EMBED__STRIP;
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

static void by_rows(const embed__gemm *g) { gemm(g, g->lda, 1); }
static void by_columns(const embed__gemm *g) { gemm(g, 1, g->lda); }

void embed__gemm_scalar(embed__gemm_kernels *k) {
  k->by_rows = by_rows;
  k->by_columns = by_columns;
  k->rows = 1;
}
