/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends whose rows are decoded: what makes two of them one is what they hold, not where that stands. */
#include "files.h"
#include "safetensors_file.h"
#include "zip_file.h"

static unsigned char file[4096];

static int is_tied(embed_context *ctx, const char *path, const char *note) {
  int64_t head = -1, table = -1;
  embed_file *f = open_file(ctx, path, NULL);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &table), EMBED_OK);
  assert_true(head >= 0 && table >= 0);
  if (!strstr(embed_file_notes(f), note)) fail_msg("%s", embed_file_notes(f));
  embed_file_release(f);
  return head == table;
}

/* Two ends of F8_E4M3 [2, 2] (or I8) and their scales; what stands where is said by the tensors' offsets. */
static const char *scaled_ends(const char *type, const char *scales, int head_at, int head_scale_at, const unsigned char data[28]) {
  char header[1024];
  snprintf(header, sizeof header,
           "{\"model.embed_tokens.weight\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
           "\"lm_head.weight\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[%d,%d]},"
           "\"model.embed_tokens.weight_scale\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[8,16]},"
           "\"lm_head.weight_scale\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}}",
           type, type, head_at, head_at + 4, scales, head_scale_at, head_scale_at + 8);
  return write_file("tied", file, make_safetensors(file, header, 8, data, 24));
}

static void ends_with_equal_scales_are_tied(void **state) {
  (void)state;
  static const unsigned char data[28] = {0x38, 0x40, 0x44, 0x48, 0x38, 0x40, 0x44, 0x48, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40};
  embed_context *ctx = new_context(NULL);
  for (int k = 0; k < 2; ++k) {
    const char *const type = k ? "I8" : "F8_E4M3";
    unsigned char other[28];
    assert_true(is_tied(ctx, scaled_ends(type, "[2]", 4, 16, data), "equals byte for byte token table"));
    memcpy(other, data, sizeof other);
    other[23] ^= 1;
    assert_false(is_tied(ctx, scaled_ends(type, "[2]", 4, 16, other), "first at byte 7 of what stands in \"lm_head.weight_scale\": untied"));
    memcpy(other, data, sizeof other);
    other[6] ^= 1;
    assert_false(is_tied(ctx, scaled_ends(type, "[2]", 4, 16, other), "first at byte 2 of both: untied"));
    /* as many scales of another shape: whether they mean the same is not asked */
    assert_false(is_tied(ctx, scaled_ends(type, "[2,1]", 4, 16, data), "is of another kind than token table"));
  }
  unlink(path_of("tied"));
  embed_context_release(ctx);
}

/* Every second column of a storage [3, 4, 2]: no table can have them as they lie. */
static const char *torch_ends(const char *head_storage, const float *storage, int64_t head_offset) {
  static const int64_t shape[2] = {3, 4}, strides[2] = {8, 2};
  pk_begin();
  pk_op('}');
  pk_text("lm_head.weight");
  pk_tensor("FloatStorage", head_storage, 26, head_offset, 2, shape, strides);
  pk_op('s');
  pk_text("model.embed_tokens.weight");
  pk_tensor("FloatStorage", "0", 26, 0, 2, shape, strides);
  pk_ops("s.");
  zf_begin();
  zf_add("m/data.pkl", pk, pk_count);
  zf_add("m/data/0", file_floats(storage, 26), 104);
  zf_add("m/data/1", file_floats(storage + 26, 26), 104);
  zf_end(0);
  return write_file("tied.pt", zf, zf_count);
}

static void ends_of_odd_strides_are_tied_by_their_rows(void **state) {
  (void)state;
  float storage[52];
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 26; ++i) storage[i] = (float)i, storage[26 + i] = i % 2 ? -1.0f : (float)i; /* what lies between is another's */
  assert_true(is_tied(ctx, torch_ends("1", storage, 0), "equals row for row token table"));
  assert_true(is_tied(ctx, torch_ends("0", storage, 0), "equals row for row token table")); /* one storage */
  assert_false(is_tied(ctx, torch_ends("0", storage, 1), "first in row 0 of both: untied"));
  storage[26 + 22] = 0.5f;
  assert_false(is_tied(ctx, torch_ends("1", storage, 0), "first in row 2 of both: untied"));
  survives_failures(torch_ends("1", storage, 0), NULL);
  unlink(path_of("tied.pt"));
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends_with_equal_scales_are_tied),
      cmocka_unit_test(ends_of_odd_strides_are_tied_by_their_rows),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
