/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs built against older and newer headers: each options struct in each call that takes one. */
#include "api/calls.h"

static world w;

static int start(void **state) {
  (void)state;
  world_new(&w);
  return 0;
}

static int stop(void **state) {
  (void)state;
  world_free(&w);
  return 0;
}

static void shorter_and_longer_options_of_zeros_are_all_defaults(void **state) {
  (void)state;
  static outcome want, got;
  for (int i = 0; i < COUNT(calls); ++i) {
    if (!calls[i].options) continue;
    OK(use(&calls[i], w.ctx, &w, NULL, &want));
    used(&want);
    for (uint32_t size = 8; size <= calls[i].options + 64; ++size) { /* its end is the end of readable memory */
      guarded options = guarded_new(size, 1);
      memset(options.at, 0, size);
      memcpy(options.at, &size, 4);
      if (use(&calls[i], w.ctx, &w, options.at, &got) != EMBED_OK) fail_msg("%s with %u bytes: %s", calls[i].name, size, embed_error_text(w.ctx));
      used(&got);
      assert_same_bits(got.out, want.out, sizeof got.out);
      guarded_free(options);
    }
  }
}

static void unknown_fields_flags_and_sizes_are_refused(void **state) {
  (void)state;
  static outcome got;
  for (int i = 0; i < COUNT(calls); ++i) {
    if (!calls[i].options) continue;
    const call *c = &calls[i];
    for (uint32_t size = 0; size < 8; ++size) {
      uint32_t options[64] = {size};
      if (use(c, w.ctx, &w, options, &got) != EMBED_E_OPTION) fail_msg("%s takes a size of %u", c->name, size);
      untouched(c, &got);
      assert_says(w.ctx, "size");
    }
    for (uint32_t tail = 0; tail < 32; tail += 31) {
      unsigned char options[256] = {0};
      uint32_t size = c->options + 32;
      memcpy(options, &size, 4);
      options[c->options + tail] = 0x80;
      if (use(c, w.ctx, &w, options, &got) != EMBED_E_OPTION) fail_msg("%s takes an unknown field", c->name);
      assert_int_equal(embed_error_at(w.ctx), c->options + tail);
      untouched(c, &got);
    }
    uint32_t options[64] = {c->options, 0x80000000u};
    if (use(c, w.ctx, &w, options, &got) != EMBED_E_OPTION) fail_msg("%s takes flag 31", c->name);
    untouched(c, &got);
    assert_says(w.ctx, "flags");
  }
}

static void output_structs_keep_to_their_size(void **state) {
  (void)state;
  static outcome full, got;
  for (int i = 0; i < COUNT(calls); ++i) {
    if (!calls[i].output) continue;
    OK(use(&calls[i], w.ctx, &w, NULL, &full));
    for (uint32_t size = 0; size <= calls[i].output + 64; ++size) {
      uint32_t known = size < calls[i].output ? size : calls[i].output;
      embed_status status = use(&calls[i], w.ctx, &w, &size, &got);
      if (size < 8) {
        assert_int_equal(status, EMBED_E_OPTION);
        untouched(&calls[i], &got);
        continue;
      }
      assert_int_equal(status, EMBED_OK);
      assert_memory_equal(got.out, &size, 4);
      assert_memory_equal(got.out + 4, full.out + 4, known - 4);
      assert_true(test_all_bytes(got.out + known, size - known, 0));
      assert_true(test_all_bytes(got.out + size, sizeof got.out - size, 0xA5));
    }
  }
}

/* Context options: three structs, each of which may be older or newer than the library. */
static embed_status run_serially(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = 0; i < n; ++i) task(job, i, 0);
  return EMBED_OK;
}
static void *allocate(void *arg, size_t bytes, size_t alignment) {
  (void)arg;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)arg, (void)bytes, (void)alignment;
  free(memory);
}

enum { OPTIONS, EXECUTOR, ALLOCATOR };

/* Creates a context from one struct that ends at unreadable memory; returns its status, and the position from why's owner. */
static embed_status create_with(int which, const void *given, uint32_t size, const char *text) {
  embed_context *ctx = (embed_context *)&w;
  char why[512] = "";
  guarded held = guarded_new(size < 8 ? 8 : size, 1);
  memcpy(held.at, given, size < 8 ? 8 : size);
  embed_context_options o = {.size = sizeof o, .why = why, .why_bytes = sizeof why};
  if (which == EXECUTOR) o.executor = (const void *)held.at;
  if (which == ALLOCATOR) o.allocator = (const void *)held.at;
  embed_status status = embed_context_create(which == OPTIONS ? (const void *)held.at : &o, &ctx);
  if (status == EMBED_OK)
    embed_context_release(ctx);
  else
    assert_null(ctx);
  if (which != OPTIONS && text && !strstr(why, text)) fail_msg("\"%s\" does not say: %s", why, text);
  guarded_free(held);
  return status;
}

static void context_options_and_what_they_point_to_may_be_older_or_newer(void **state) {
  (void)state;
  const embed_context_options options = {.size = 0};
  const embed_executor executor = {.run = run_serially, .workers = 1};
  const embed_allocator allocator = {.allocate = allocate, .release = release};
  const struct {
    const void *good;
    uint32_t bytes, least; /* what it has; what it cannot do without */
  } structs[] = {{&options, sizeof(embed_context_options), 8},
                 {&executor, sizeof(embed_executor), offsetof(embed_executor, reserved)},
                 {&allocator, sizeof(embed_allocator), sizeof(embed_allocator)}};
  for (int which = OPTIONS; which <= ALLOCATOR; ++which) {
    const uint32_t bytes = structs[which].bytes;
    for (uint32_t size = 0; size <= bytes + 64; ++size) {
      if (size > 8 && size < bytes && size % sizeof(void *) != 0) continue; /* half a pointer is nobody's struct */
      unsigned char given[256] = {0};
      memcpy(given, structs[which].good, size < bytes ? size : bytes);
      memcpy(given, &size, 4);
      embed_status status = create_with(which, given, size, size < 8 ? ".size is" : NULL);
      if ((status == EMBED_OK) != (size >= structs[which].least)) fail_msg("struct %d with %u bytes: %d", which, size, status);
      if (size < structs[which].least) assert_int_equal(status, EMBED_E_OPTION);
      if (size <= bytes) continue;
      given[size - 1] = 1; /* a field that this library does not know */
      assert_int_equal(create_with(which, given, size, "is not zero"), EMBED_E_OPTION);
    }
    unsigned char given[256] = {0};
    memcpy(given, structs[which].good, bytes);
    memcpy(given, &bytes, 4);
    given[7] = 0x40; /* a flag that this library does not know */
    assert_int_equal(create_with(which, given, bytes, "flags"), EMBED_E_OPTION);
  }
}

/* The one struct of them that says what data is: without its values there is none. */
static void what_codes_mean_may_be_said_by_an_older_or_newer_struct(void **state) {
  (void)state;
  static const unsigned char codes[] = {0, 1, 1};
  static const float values[] = {1, 2};
  const embed_pq pq = {.width = 1, .centroids = 2, .values = values};
  for (uint32_t size = 0; size <= sizeof(embed_pq) + 64; ++size) {
    if (size > 8 && size < sizeof pq && size % sizeof(void *) != 0) continue;
    embed_table *t = (embed_table *)&w;
    guarded held = guarded_new(size < 8 ? 8 : size, 1);
    memset(held.at, 0, size < 8 ? 8 : size);
    memcpy(held.at, &pq, size < 8 ? 8 : size < sizeof pq ? size : sizeof pq);
    memcpy(held.at, &size, 4);
    const embed_status status = embed_table_view_pq(w.ctx, codes, 3, 1, (const void *)held.at, NULL, NULL, NULL, &t);
    assert_int_equal(status, size < 8 ? EMBED_E_OPTION : size < offsetof(embed_pq, norms) ? EMBED_E_ARGUMENT : EMBED_OK);
    embed_table_release(t); /* NULL where it was refused */
    if (size > sizeof pq) {
      held.at[size - 1] = 1; /* a field that this library does not know */
      assert_int_equal(embed_table_view_pq(w.ctx, codes, 3, 1, (const void *)held.at, NULL, NULL, NULL, &t), EMBED_E_OPTION);
      assert_null(t);
    }
    guarded_free(held);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shorter_and_longer_options_of_zeros_are_all_defaults),
    cmocka_unit_test(unknown_fields_flags_and_sizes_are_refused),
    cmocka_unit_test(output_structs_keep_to_their_size),
    cmocka_unit_test(context_options_and_what_they_point_to_may_be_older_or_newer),
    cmocka_unit_test(what_codes_mean_may_be_said_by_an_older_or_newer_struct),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
