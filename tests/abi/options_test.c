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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shorter_and_longer_options_of_zeros_are_all_defaults),
    cmocka_unit_test(unknown_fields_flags_and_sizes_are_refused),
    cmocka_unit_test(output_structs_keep_to_their_size),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
