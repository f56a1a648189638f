/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's working memory: pieces apart and aligned, nothing allocated once warm, bounds kept. */
#include "test.h"

#include "core/error.h"
#include "core/memory.h"

typedef struct counted {
  int64_t blocks, bytes, calls; /* alive, alive, ever */
  int64_t fail_after;           /* this many more calls succeed; -1 = all */
} counted;

static void *allocate(void *arg, size_t bytes, size_t alignment) {
  counted *c = arg;
  ++c->calls;
  if (c->fail_after == 0) return NULL;
  if (c->fail_after > 0) --c->fail_after;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes)) return NULL;
  ++c->blocks;
  c->bytes += (int64_t)bytes;
  return memory;
}

static void release(void *arg, void *memory, size_t bytes, size_t alignment) {
  counted *c = arg;
  (void)alignment;
  --c->blocks;
  c->bytes -= (int64_t)bytes;
  free(memory);
}

static counted counter;
static embed_context ctx;

static int setup(void **state) {
  (void)state;
  memset(&ctx, 0, sizeof ctx);
  counter = (counted){.fail_after = -1};
  ctx.memory = (embed_allocator){sizeof ctx.memory, 0, &counter, allocate, release};
  return 0;
}

static int teardown(void **state) {
  (void)state;
  embed__scratch_free(&ctx.scratch, &ctx.memory);
  return counter.blocks == 0 && counter.bytes == 0 ? 0 : -1;
}

static void take_all(const int64_t *sizes, int n, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    unsigned char *piece[16];
    assert_int_equal(embed__begin(&ctx), EMBED_OK);
    for (int i = 0; i < n; ++i) {
      assert_int_equal(embed__scratch_get(&ctx, sizes[i], 1, &piece[i]), EMBED_OK);
      assert_int_equal((uintptr_t)piece[i] % EMBED__ALIGNMENT, 0);
      memset(piece[i], i + 1, (size_t)sizes[i]);
    }
    for (int i = 0; i < n; ++i) assert_true(test_all_bytes(piece[i], (size_t)sizes[i], (unsigned char)(i + 1)));
    assert_int_equal(embed__end(&ctx, EMBED_OK), EMBED_OK);
  }
}

static void pieces_are_aligned_and_do_not_overlap(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 0, 63, 64, 65, 1000, 65536, 3, 200000, 128, 1 << 20, 7};
  take_all(sizes, 12, 3);
}

static void a_call_of_the_same_size_allocates_nothing(void **state) {
  (void)state;
  static const int64_t sizes[] = {100000, 50, 300000, 5000, 64, 70000};
  take_all(sizes, 6, 2);
  int64_t calls = counter.calls;
  take_all(sizes, 6, 20);
  assert_int_equal(counter.calls, calls);
  take_all(sizes, 3, 20); /* nor a smaller one */
  assert_int_equal(counter.calls, calls);
  assert_int_equal(counter.blocks, 1);
}

static void max_scratch_bounds_what_is_kept(void **state) {
  (void)state;
  static const int64_t large[] = {1 << 20}, small[] = {1000};
  ctx.max_scratch = 100000;
  take_all(large, 1, 1);
  assert_int_equal(counter.bytes, 0);
  take_all(small, 1, 2);
  assert_true(counter.bytes > 0 && counter.bytes <= ctx.max_scratch);
  ctx.max_scratch = 0;
  take_all(large, 1, 2);
  assert_true(counter.bytes >= 1 << 20);
}

static void trim_gives_all_back(void **state) {
  (void)state;
  static const int64_t sizes[] = {100000, 300000};
  take_all(sizes, 2, 1);
  embed_context_trim(&ctx);
  assert_int_equal(counter.blocks, 0);
  take_all(sizes, 2, 2);
  embed_context_trim(&ctx);
  embed_context_trim(&ctx);
  embed_context_trim(NULL);
  assert_int_equal(counter.blocks, 0);
}

static void sizes_that_do_not_fit_are_overflow_and_no_memory_is_memory(void **state) {
  (void)state;
  void *out = &ctx;
  assert_int_equal(embed__scratch_get(&ctx, INT64_MAX / 4, 8, &out), EMBED_E_OVERFLOW);
  assert_int_equal(embed__scratch_get(&ctx, -1, 8, &out), EMBED_E_OVERFLOW);
  assert_int_equal(embed__scratch_matrix(&ctx, (int64_t)1 << 32, (int64_t)1 << 32, 4, &out), EMBED_E_OVERFLOW);
  assert_int_equal(embed__scratch_matrix(&ctx, (int64_t)1 << 31, (int64_t)1 << 31, 4, &out), EMBED_E_OVERFLOW);
  assert_null(embed__scratch_take(&ctx, INT64_MAX, 1));
  assert_ptr_equal(out, &ctx);
  counter.fail_after = 0;
  assert_int_equal(embed__scratch_get(&ctx, 1000, 8, &out), EMBED_E_MEMORY);
  assert_non_null(strstr(ctx.error_text, "8000"));
  assert_ptr_equal(out, &ctx);
}

/* Joining the chunks of the last call may fail: the next piece tries again. */
static void a_failed_join_loses_nothing(void **state) {
  (void)state;
  static const int64_t sizes[] = {100000, 300000, 500000};
  take_all(sizes, 3, 1);
  assert_true(counter.blocks > 1);
  counter.fail_after = 0;
  assert_int_equal(embed__begin(&ctx), EMBED_OK);
  assert_int_equal(counter.blocks, 0);
  void *out;
  assert_int_equal(embed__scratch_get(&ctx, 10, 1, &out), EMBED_E_MEMORY);
  counter.fail_after = -1;
  take_all(sizes, 3, 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(pieces_are_aligned_and_do_not_overlap, setup, teardown),
    cmocka_unit_test_setup_teardown(a_call_of_the_same_size_allocates_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(max_scratch_bounds_what_is_kept, setup, teardown),
    cmocka_unit_test_setup_teardown(trim_gives_all_back, setup, teardown),
    cmocka_unit_test_setup_teardown(sizes_that_do_not_fit_are_overflow_and_no_memory_is_memory, setup, teardown),
    cmocka_unit_test_setup_teardown(a_failed_join_loses_nothing, setup, teardown),
};
TEST_MAIN(tests)
