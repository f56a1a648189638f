/* SPDX-License-Identifier: BSD-3-Clause */
/* More hidden rows times classes than 32 bits count. */
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gather.h"

/* Room for that many floats whose pages are one piece of memory again and again, but for the last piece; NULL where there is no such memory. */
enum { PIECE = 1 << 26 };
static float *folded_room(int64_t bytes, const float **last_piece) {
  const int64_t pieces = bytes / PIECE + 1;
  unsigned char *room = mmap(NULL, (size_t)pieces * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const int memory = memfd_create("logits", MFD_CLOEXEC);
  if (room == MAP_FAILED || memory < 0 || ftruncate(memory, 2 * (off_t)PIECE) != 0) return NULL;
  for (int64_t i = 0; i < pieces; ++i)
    if (mmap(room + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, i == pieces - 1 ? PIECE : 0) == MAP_FAILED) return NULL;
  close(memory);
  *last_piece = (const float *)(const void *)(room + (pieces - 1) * PIECE);
  return (float *)(void *)room;
}

static void hidden_rows_times_classes_past_two_to_the_31(void **state) { /* HD-07 */
  (void)state;
  if (sizeof(void *) < 8) skip();
  enum { N = 15408, VOCAB = 151936 };
  embed_context *ctx = context_new();
  float *w = malloc(sizeof *w * VOCAB), *x = malloc(sizeof *x * N), *loss = malloc(sizeof *loss * N), *best = malloc(sizeof *best * N);
  float *lse = malloc(sizeof *lse * N);
  int32_t *ids = malloc(sizeof *ids * N), *targets = malloc(sizeof *targets * N);
  for (int32_t v = 0; v < VOCAB; ++v) w[v] = (float)v * 0x1p-16f;
  for (int32_t i = 0; i < N; ++i) {
    x[i] = (i % 2 ? -1.0f : 1.0f) * (float)(1 + i % 3);
    targets[i] = (int32_t)((int64_t)i * 9 % VOCAB);
  }
  embed_table *t = view_floats(ctx, w, VOCAB, 1);
  embed_head *h;
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  OK(embed_topk(ctx, h, x, EMBED_F32, N, 0, 1, ids, best, lse, NULL, NULL));
  OK(embed_cross_entropy(ctx, h, x, EMBED_F32, N, 0, targets, loss, NULL, NULL));
  double sums[6] = {0}; /* of exp(x w), by i % 6 */
  for (int k = 0; k < 6; ++k)
    for (int32_t v = 0; v < VOCAB; ++v) sums[k] += exp((double)x[k] * (double)w[v]);
  for (int32_t i = 0; i < N; ++i) {
    const double log_sum = log(sums[i % 6]);
    assert_int_equal(ids[i], i % 2 ? 0 : VOCAB - 1);
    assert_true(best[i] == x[i] * w[ids[i]]);
    assert_true(fabs((double)lse[i] - log_sum) < 1e-5);
    assert_true(fabs((double)loss[i] - (log_sum - (double)x[i] * (double)w[targets[i]])) < 1e-5);
  }
  embed_head_release(h);
  for (int32_t v = 0; v < VOCAB; ++v) w[v] = 2; /* every logit is 2: so it does not matter who writes a folded page last */
  for (int32_t i = 0; i < N; ++i) x[i] = 1;
  const int64_t bytes = (int64_t)N * VOCAB * 4;
  const float *last;
  float *z = folded_room(bytes, &last);
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  if (z) {
    OK(embed_logits(ctx, h, x, EMBED_F32, N, 0, z, 0, NULL));
    int64_t wrong = 0;
    for (int64_t j = 0; j < PIECE / 4; ++j) wrong += last[j] != (j < bytes % PIECE / 4 ? 2 : 0) || z[j] != 2;
    assert_int_equal(wrong, 0);
    munmap(z, (size_t)(bytes / PIECE + 1) * PIECE);
  }
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  free(w), free(x), free(loss), free(best), free(lse), free(ids), free(targets);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(hidden_rows_times_classes_past_two_to_the_31),
};
TEST_MAIN(tests)
