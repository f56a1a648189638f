/* SPDX-License-Identifier: BSD-3-Clause */
/* The k best of tiles that pass by, against a sort of all values: every order in which a heap can fill. */
#include "test.h"

#include <math.h>
#include <stdbool.h>

#include "core/cpu.h"
#include "sweep/sweep.h"
#include "sweep/topk.h"

enum { TILES = 3, ALL = TILES * EMBED__BLOCK };

/* Value descending, NaN first, equal values (0 and -0 too) by lower id. */
static const float *values;
static int by_rank(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  const float v = values[x], w = values[y];
  if (isnan(v) != isnan(w)) return isnan(v) ? -1 : 1;
  if (v > w || v < w) return v > w ? -1 : 1;
  return x < y ? -1 : 1;
}

/* Tiles come from the first one to the last, or from the last: another thread may have had those between. A heap, or a list. */
static void check_order(bool backwards, bool list, const float *z, int64_t n, int64_t capacity, const int32_t *exclude, int64_t excluded) {
  static embed__kernels kernels;
  static embed__ranked entries[2 * ALL];
  static int32_t want[ALL];
  embed__level_fill(embed__level_best(embed__cpu_let()), &kernels);
  embed__topk top = {.entries = entries, .capacity = capacity, .room = list ? 2 * capacity : 0};
  int64_t kept = 0;
  for (int32_t id = 0; id < n; ++id) {
    bool out = false;
    for (int64_t e = 0; e < excluded; ++e) out |= exclude[e] == id;
    if (!out) want[kept++] = id;
  }
  values = z;
  qsort(want, (size_t)kept, sizeof *want, by_rank);
  for (int tile = 0; tile < TILES; ++tile) {
    const int64_t at = (backwards ? TILES - 1 - tile : tile) * EMBED__BLOCK;
    if (at < n) embed__topk_offer(&kernels, &top, z + at, n - at < EMBED__BLOCK ? n - at : EMBED__BLOCK, (int32_t)at, exclude, excluded);
  }
  embed__topk_sort(&top);
  assert_int_equal(top.count, kept < capacity ? kept : capacity);
  for (int64_t i = 0; i < top.count; ++i) {
    if (entries[i].id != want[i]) fail_msg("place %d of %d among %d: id %d, not %d", (int)i, (int)capacity, (int)n, entries[i].id, want[i]);
    assert_memory_equal(&entries[i].value, &z[want[i]], sizeof(float));
  }
}

static void check(const float *z, int64_t n, int64_t capacity, const int32_t *exclude, int64_t excluded) {
  for (int way = 0; way < 4; ++way) check_order(way & 1, way & 2, z, n, capacity, exclude, excluded);
}

static void the_best_of_any_order_are_found(void **state) {
  static const int64_t capacities[] = {1, 2, 40, 63, 64, 65, 200, 1024, 1500, ALL};
  static const int64_t counts[] = {0, 1, 63, 64, 65, 127, 128, 129, 1000, 1024, 1025, ALL};
  static float z[ALL];
  uint64_t random = 7;
  (void)state;
  for (int order = 0; order < 6; ++order) {
    for (int i = 0; i < ALL; ++i) {
      const float places[] = {(float)i, (float)-i, 1.0f, (float)(i % 7), test_uniform(&random), test_uniform(&random)};
      z[i] = places[order];
      if (order == 3 && i % 7 == 0) z[i] = i % 2 ? -0.0f : 0.0f;
      if (order == 5 && i % 5 == 0) z[i] = i % 3 == 0 ? NAN : i % 2 ? INFINITY : -INFINITY;
    }
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; ++c)
      for (size_t n = 0; n < sizeof counts / sizeof *counts; ++n) check(z, counts[n], capacities[c], NULL, 0);
  }
}

/* Without its excluded ids a tile may not fill the heap. */
static void excluded_ids_take_no_place(void **state) {
  static float z[ALL];
  int32_t exclude[70];
  uint64_t random = 8;
  (void)state;
  for (int i = 0; i < 70; ++i) exclude[i] = i;
  for (int i = 0; i < ALL; ++i) z[i] = i < 70 ? 5.0f : test_uniform(&random);
  for (int64_t capacity = 1; capacity <= 80; ++capacity) check(z, ALL, capacity, exclude, 70);
  check(z, 70, 40, exclude, 70);
  check(z, 71, 40, exclude, 70);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_best_of_any_order_are_found),
    cmocka_unit_test(excluded_ids_take_no_place),
};
TEST_MAIN(tests)
