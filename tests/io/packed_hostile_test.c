/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed integers in safetensors whose parts are missing, or do not agree, or lie: no table and the reason, or an error, never a crash. */
#include "files.h"
#include "packed_file.h"

typedef struct odd {
  const char *header, *tensor, *why; /* why: NULL = it is listed as it stands, without a word */
  size_t bytes;
} odd;

#define T(name, type, shape, from, to) "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static const odd odds[] = {
    /* MLX */
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "}", "w.weight", NULL, 64},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[2,1]", 64, 68) "}", "w.weight", "it has scales and no biases (F16 [2, 1])", 68},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.biases", "F16", "[2,1]", 64, 68) "}", "w.weight", NULL, 68},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[3,1]", 64, 70) "," T("w.biases", "F16", "[3,1]", 70, 76) "}", "w.weight",
     "no row for each of its own", 76},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[2]", 64, 68) "," T("w.biases", "F16", "[2]", 68, 72) "}", "w.weight",
     "no row for each of its own", 72},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[2,0]", 64, 64) "," T("w.biases", "F16", "[2,0]", 64, 64) "}", "w.weight",
     "no row for each of its own", 64},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[2,1]", 64, 68) "," T("w.biases", "BF16", "[2,1]", 68, 72) "}", "w.weight",
     "its biases are not as its scales are (BF16 [2, 1])", 72},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "F16", "[2,1]", 64, 68) "," T("w.biases", "F16", "[1,2]", 68, 72) "}", "w.weight",
     "its biases are not as its scales are", 72},
    {"{" T("w.weight", "U32", "[2,8]", 0, 64) "," T("w.scales", "I32", "[2,1]", 64, 72) "," T("w.biases", "I32", "[2,1]", 72, 80) "}", "w.weight",
     "its scales are no floats", 80},
    {"{" T("w.weight", "U32", "[2,7]", 0, 56) "," T("w.scales", "F16", "[2,1]", 56, 60) "," T("w.biases", "F16", "[2,1]", 60, 64) "}", "w.weight",
     "agree with no bits and group of MLX", 64},
    {"{" T("w.weight", "U32", "[2,0]", 0, 0) "," T("w.scales", "F16", "[2,1]", 0, 4) "," T("w.biases", "F16", "[2,1]", 4, 8) "}", "w.weight",
     "agree with no bits and group of MLX", 8},
    {"{" T("w.weight", "U32", "[2,3]", 0, 24) "," T("w.scales", "U8", "[2,1]", 24, 26) "}", "w.weight", "none of mxfp4, mxfp8 and nvfp4", 26},
    {"{" T("w.weight", "U32", "[1,2,8]", 0, 64) "," T("w.scales", "F16", "[1,2,1]", 64, 68) "," T("w.biases", "F16", "[1,2,1]", 68, 72) "}", "w.weight", NULL,
     72},
    {"{" T("w.weight", "U32", "[0,4611686018427387904]", 0, 0) "," T("w.scales", "F16", "[0,4611686018427387904]", 0, 0) "," T(
         "w.biases", "F16", "[0,4611686018427387904]", 0, 0) "}",
     "w.weight", "agree with no bits and group of MLX", 0},
    {"{" T("w.weight", "U32", "[0,288230376151711744]", 0, 0) "," T("w.scales", "F16", "[0,288230376151711744]", 0, 0) "," T(
         "w.biases", "F16", "[0,288230376151711744]", 0, 0) "}",
     "w.weight", "agree with no bits and group of MLX", 0},
    /* 2^59 words and 2^53 scales of no rows: 5 x 64 bits */
    {"{" T("w.weight", "U32", "[0,1152921504606846980]", 0, 0) "," T("w.scales", "F16", "[0,115292150460684698]", 0, 0) "," T(
         "w.biases", "F16", "[0,115292150460684698]", 0, 0) "}",
     "w.weight", "its size as floats does not fit", 0},
    /* as many columns as 64 bits do not hold */
    {"{" T("w.weight", "U32", "[0,2882303761517117440]", 0, 0) "," T("w.scales", "F16", "[0,144115188075855872]", 0, 0) "," T(
         "w.biases", "F16", "[0,144115188075855872]", 0, 0) "}",
     "w.weight", "its size as floats does not fit", 0},
    {"{" T("w.weight", "U32", "[0,2305843009213693952]", 0, 0) "," T("w.scales", "U8", "[0,1152921504606846976]", 0, 0) "}", "w.weight",
     "its size as floats does not fit", 0},
    /* compressed-tensors */
    {"{" T("w.weight_packed", "I32", "[2,8]", 0, 64) "}", "w.weight_packed", "it has no weight_scale", 64},
    {"{" T("w.weight_packed", "I32", "[2,8]", 0, 64) "," T("w.weight_scale", "F16", "[2,1]", 64, 68) "}", "w.weight_packed", "it has no weight_shape", 68},
    {"{" T("w.weight_packed", "I32", "[2,8]", 0, 64) "," T("w.weight_scale", "F16", "[2,1]", 64, 68) "," T("w.weight_shape", "I64", "[3]", 68, 92) "}",
     "w.weight_packed", "its weight_shape is not two numbers", 92},
    {"{" T("w.weight_packed", "I32", "[2,8]", 0, 64) "," T("w.weight_scale", "F16", "[2,1]", 64, 68) "," T("w.weight_shape", "F32", "[2]", 68, 76) "}",
     "w.weight_packed", "its weight_shape is not two numbers", 76},
    {"{" T("w.weight_packed", "I32", "[2,8]", 0, 64) "," T("w.weight_scale", "F16", "[2,1]", 64, 68) "," T("w.weight_shape", "I64", "[2]", 68, 84) "}",
     "w.weight_packed", "its rows are not those of its weight_shape", 84}, /* zeros */
    {"{" T("w.weight_packed", "I32", "[2,2,4]", 0, 64) "," T("w.weight_scale", "F16", "[2,1]", 64, 68) "," T("w.weight_shape", "I64", "[2]", 68, 84) "}",
     "w.weight_packed", NULL, 84},
    /* GPTQ, AWQ */
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "}", "w.qweight", "it has no scales", 1024},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.scales", "F16", "[1,32]", 1024, 1088) "}", "w.qweight", "it has no qzeros", 1088},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,4]", 1024, 1040) "," T("w.scales", "I16", "[1,32]", 1040, 1104) "}", "w.qweight",
     "its scales are no floats for groups", 1104},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[2,4]", 1024, 1056) "," T("w.scales", "F16", "[1,32]", 1056, 1120) "}", "w.qweight",
     "not grouped as its scales are", 1120},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[0,4]", 1024, 1024) "," T("w.scales", "F16", "[0,32]", 1024, 1024) "}", "w.qweight",
     "its scales are no floats for groups", 1024},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,5]", 1024, 1044) "," T("w.scales", "F16", "[1,32]", 1044, 1108) "}", "w.qweight",
     "not of 2, 3, 4 or 8 bits", 1108},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,0]", 1024, 1024) "," T("w.scales", "F16", "[1,32]", 1024, 1088) "}", "w.qweight",
     "not of 2, 3, 4 or 8 bits", 1088},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,4]", 1024, 1040) "," T("w.scales", "F16", "[1,33]", 1040, 1106) "}", "w.qweight",
     "its columns are not those of its scales", 1106},
    {"{" T("w.qweight", "I32", "[8,0]", 0, 0) "," T("w.qzeros", "I32", "[1,0]", 0, 0) "," T("w.scales", "F16", "[1,0]", 0, 0) "}", "w.qweight",
     "not of 2, 3, 4 or 8 bits", 0},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[3,4]", 1024, 1072) "," T("w.scales", "F16", "[3,32]", 1072, 1264) "}", "w.qweight",
     "no whole number of groups", 1264},
    {"{" T("w.qweight", "I32", "[7,32]", 0, 896) "," T("w.qzeros", "I32", "[1,3]", 896, 908) "," T("w.scales", "F16", "[1,32]", 908, 972) "}", "w.qweight",
     "its words are no whole number of columns", 972},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,4]", 1024, 1040) "," T("w.scales", "F16", "[1,32]", 1040, 1104) "," T(
         "w.g_idx", "I32", "[63]", 1104, 1356) "}",
     "w.qweight", "the groups of its columns are not one for each", 1356},
    {"{" T("w.qweight", "I32", "[8,32]", 0, 1024) "," T("w.qzeros", "I32", "[1,4]", 1024, 1040) "," T("w.scales", "F16", "[1,32]", 1040, 1104) "," T(
         "w.g_idx", "I64", "[64]", 1104, 1616) "}",
     "w.qweight", "the groups of its columns are not one for each", 1616},
    {"{" T("w.qweight", "I32", "[64,4]", 0, 1024) "," T("w.qzeros", "I32", "[1,5]", 1024, 1044) "," T("w.scales", "F16", "[1,32]", 1044, 1108) "}", "w.qweight",
     "its zero points are not packed as it is", 1108},
    {"{" T("w.qweight", "I32", "[0,4]", 0, 0) "," T("w.qzeros", "I32", "[1,4]", 0, 16) "," T("w.scales", "F16", "[1,32]", 16, 80) "}", "w.qweight", NULL, 80},
    {"{" T("w.qweight", "I32", "[4611686018427387904,0]", 0, 0) "," T("w.qzeros", "I32", "[1,0]", 0, 0) "," T("w.scales", "F16", "[1,0]", 0, 0) "}",
     "w.qweight", "not of 2, 3, 4 or 8 bits", 0},
    /* bitsandbytes */
    {"{" T("w", "U8", "[4,1]", 0, 4) "," T("w.absmax", "F32", "[1]", 4, 8) "}", "w", "it has absmax and no quant_map", 8},
    {"{" T("w", "U8", "[4,1]", 0, 4) "," T("w.absmax", "F32", "[1]", 4, 8) "," T("w.quant_map", "F32", "[16]", 8, 72) "}", "w",
     "it has absmax and no quant_state", 72},
    {"{" T("w", "BF16", "[2,1]", 0, 4) "," T("w.absmax", "F32", "[1]", 4, 8) "," T("w.quant_map", "F32", "[16]", 8, 72) "," T("w.quant_state.bitsandbytes__nf4",
                                                                                                                              "U8", "[2]", 72, 74) "}",
     "w", "as another type than bytes", 74},
    {"{" T("w", "U8", "[4,1]", 0, 4) "," T("w.absmax", "F32", "[1]", 4, 8) "," T("w.quant_map", "F32", "[16]", 8, 72) "," T("w.quant_state.bitsandbytes__nf4",
                                                                                                                            "I8", "[2]", 72, 74) "}",
     "w", "its state is not some bytes of JSON", 74},
    /* int8 */
    {"{" T("w", "I8", "[2,2]", 0, 4) "," T("w_zero_point", "I8", "[2]", 4, 6) "}", "w", "it has zero points and no scales", 6},
    {"{" T("w", "I8", "[2,2]", 0, 4) "," T("w_zero_point", "I8", "[1]", 4, 5) "," T("w_scale", "F16", "[2]", 5, 9) "}", "w", "one for each scale (I8 [1])", 9},
    {"{" T("w", "I8", "[2,2]", 0, 4) "," T("w_zero_point", "I32", "[2]", 4, 12) "," T("w_scale", "F16", "[2]", 12, 16) "}", "w", "one for each scale (I32 [2])",
     16},
    {"{" T("w", "F8_E4M3", "[2,2]", 0, 4) "," T("w_zero_point", "I8", "[2]", 4, 6) "," T("w_scale", "F16", "[2]", 6, 10) "}", "w", "one for each scale", 10},
    {"{" T("x.weight", "I8", "[2,2]", 0, 4) "," T("x.SCB", "F32", "[3]", 4, 16) "}", "x.weight", "its scales are not one", 16},
};

static void parts_that_do_not_agree_leave_no_table(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof odds / sizeof *odds; ++k) {
    embed_table *t = (embed_table *)(uintptr_t)8;
    static unsigned char nothing[2048];
    const size_t bytes = make_safetensors(pf_file, odds[k].header, 8, nothing, odds[k].bytes);
    embed_file *f = open_file(ctx, write_file("odd", pf_file, bytes), NULL);
    assert_int_equal(info_of(ctx, f, odds[k].tensor).dtype, EMBED_DTYPE_NONE);
    const int flat = info_of(ctx, f, odds[k].tensor).shape[1] == 0; /* then that is what the error says */
    const embed_status status = embed_file_table(ctx, f, find(ctx, f, odds[k].tensor), &t);
    if (status != EMBED_E_UNSUPPORTED && (status != EMBED_E_MISMATCH || (odds[k].why && !flat))) fail_msg("%d: %s", (int)k, embed_error_text(ctx));
    assert_null(t);
    if (odds[k].why && !flat && !strstr(embed_error_text(ctx), odds[k].why)) fail_msg("%d: %s", (int)k, embed_error_text(ctx));
    if (!odds[k].why) assert_null(strchr(embed_error_text(ctx), ';'));
    embed_file_release(f);
  }
  unlink(path_of("odd"));
  embed_context_release(ctx);
}

/* Made well, then changed in one place. */
static void shapes_and_groups_of_the_data_are_proved(void **state) {
  (void)state;
  static const struct {
    int kind, at_last; /* of make_packed; bytes before the end of the data */
    int value;
    const char *why;
  } all[] = {{2, 4, 2, "a column has a group that has no scale (I32 [64]), tensor lm_head.weight_g_idx"},
             {2, 1, 0x80, "a column has a group that has no scale"},
             {3, 256, 255, "a column has a group that has no scale (I32 [64]), tensor lm_head.g_idx"},
             {2, 256 + 8 + 8, 63, NULL}, /* columns by weight_shape: 63 in as many words, and no whole number of groups but by their index */
             {2, 256 + 8 + 8, 56, "do not tell one number of bits"},
             {2, 256 + 8 + 1, 0x80, "its rows are not those of its weight_shape"},
             {2, 256 + 8 + 16, 7, "its rows are not those of its weight_shape"}};
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    embed_table *t = NULL;
    make_packed(all[k].kind);
    pf_file[pf_bytes - (size_t)all[k].at_last] = (unsigned char)all[k].value;
    embed_file *f = open_file(ctx, write_file("proved", pf_file, pf_bytes), NULL);
    const int64_t i = find(ctx, f, all[k].kind == 2 ? "lm_head.weight_packed" : "lm_head.qweight");
    const embed_status status = embed_file_table(ctx, f, i, &t);
    if (all[k].why ? status != EMBED_E_UNSUPPORTED || !strstr(embed_error_text(ctx), all[k].why) : !strstr(embed_error_text(ctx), "the groups of its columns"))
      fail_msg("%d: %s", (int)k, embed_error_text(ctx));
    embed_file_release(f);
  }
  unlink(path_of("proved"));
  embed_context_release(ctx);
}

/* int8 that bitsandbytes left as a GPU multiplies it: 1 to 3 are orders of tiles. */
static void tiles_of_a_gpu_are_no_rows(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int format = 0; format < 4; ++format) {
    embed_table *t = NULL;
    pf_begin();
    (void)pf_matrix("x.weight", "I8", 8, 32, 1);
    (void)pf_vector("x.SCB", "F32", 8, 4);
    *pf_tensor("x.weight_format", "U8", "[]", 1) = (unsigned char)format;
    embed_file *f = open_file(ctx, write_file("tiles", pf_file, pf_end()), NULL);
    const embed_status status = embed_file_table(ctx, f, find(ctx, f, "x.weight"), &t);
    if (status != (format ? EMBED_E_UNSUPPORTED : EMBED_OK)) fail_msg("%d: %s", format, embed_error_text(ctx));
    if (format) assert_non_null(strstr(embed_error_text(ctx), "does not lie row by row (U8 []), tensor x.weight_format"));
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("tiles"));
  embed_context_release(ctx);
}

/* Columns by weight_shape up to 2^63 - 1, of no rows. */
static void columns_without_rows_may_be_any_number(void **state) {
  (void)state;
  static const char header[] = "{" T("w.weight_packed", "I32", "[0,1152921504606846976]", 0, 0) "," T("w.weight_scale", "F16", "[0,1]", 0, 0) "," T(
      "w.weight_shape", "I64", "[2]", 0, 16) "}";
  embed_context *ctx = new_context(NULL);
  embed_table *t = NULL;
  unsigned char shape[16] = {0};
  pf_put(shape + 8, INT64_MAX, 8);
  embed_file *f = open_file(ctx, write_file("columns", pf_file, make_safetensors(pf_file, header, 8, shape, sizeof shape)), NULL);
  assert_int_equal(embed_file_table(ctx, f, find(ctx, f, "w.weight_packed"), &t), EMBED_E_UNSUPPORTED);
  assert_non_null(strstr(embed_error_text(ctx), "its size as floats does not fit"));
  embed_file_release(f);
  unlink(path_of("columns"));
  embed_context_release(ctx);
}

/* A name of 497 bytes whose scales have one of 510, and whose zero points would have one of 515. */
static void what_no_name_can_ask_for_is_not_taken_to_be_absent(void **state) {
  (void)state;
  enum { STEM = 497 };
  static const char *const parts[] = {"packed", "scale", "shape", "zero_point"};
  char name[STEM + 32];
  embed_context *ctx = new_context(NULL);
  embed_table *t = NULL;
  pf_begin();
  for (int k = 0; k < 4; ++k) {
    memset(name, 'n', STEM);
    snprintf(name + STEM, sizeof name - STEM, ".weight_%s", parts[k]);
    if (k == 2) {
      unsigned char *at = pf_vector(name, "I64", 2, 8);
      pf_put(at, 8, 8), pf_put(at + 8, 64, 8);
    } else {
      (void)pf_matrix(name, k == 1 ? "F16" : "I32", k == 3 ? 1 : 8, k == 0 ? 8 : 1, k == 1 ? 2 : 4);
    }
  }
  embed_file *f = open_file(ctx, write_file("long", pf_file, pf_end()), NULL);
  assert_int_equal(embed_file_table(ctx, f, 0, &t), EMBED_E_UNSUPPORTED);
  assert_non_null(strstr(embed_error_text(ctx), "its name is too long"));
  embed_file_release(f);
  unlink(path_of("long"));
  embed_context_release(ctx);
}

static void a_state_that_is_no_json_is_an_error_with_its_byte(void **state) {
  (void)state;
  static const char *const states[] = {"{\"blocksize\":64,\"shape\":[8,64]", "{\"blocksize\":\"64\",\"shape\":[8,64]}", "{\"blocksize\":64,\"shape\":[8,6.4]}",
                                       "[]", "{\"blocksize\":64,\"shape\":[8,64],\"nested_offset\":\"0\"}"};
  static const char *const odd_states[] = {"{}",
                                           "{\"blocksize\":0,\"shape\":[8,64]}",
                                           "{\"blocksize\":64,\"shape\":[8,64,1]}",
                                           "{\"blocksize\":64,\"shape\":[8,62]}",
                                           "{\"blocksize\":32,\"shape\":[8,64]}",
                                           "{\"blocksize\":64,\"shape\":[-8,-64]}",
                                           "{\"blocksize\":64,\"shape\":[512]}",
                                           "{\"blocksize\":64,\"shape\":[4294967296,4294967296]}",
                                           "{\"blocksize\":-64,\"shape\":[8,64]}"};
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof states / sizeof *states + sizeof odd_states / sizeof *odd_states; ++k) {
    const int parsed = k >= sizeof states / sizeof *states;
    const char *text = parsed ? odd_states[k - sizeof states / sizeof *states] : states[k];
    embed_table *t = NULL;
    embed_file *f = NULL;
    make_packed(5);
    unsigned char *at = pf_data + pf_count - 70;
    while (*at != '{') ++at;
    const size_t room = (size_t)(pf_data + pf_count - at);
    assert_true(strlen(text) <= room);
    memset(at, ' ', room);
    memcpy(at, text, strlen(text));
    (void)make_safetensors(pf_file, pf_header, 8, pf_data, pf_count);
    const char *path = write_file("state", pf_file, pf_bytes);
    if (!parsed) {
      assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_FORMAT);
      assert_true(embed_error_at(ctx) >= (int64_t)(pf_bytes - room) && embed_error_at(ctx) <= (int64_t)pf_bytes);
      assert_non_null(strstr(embed_error_text(ctx), "tensor lm_head.weight.quant_state.bitsandbytes__nf4"));
      continue;
    }
    f = open_file(ctx, path, NULL);
    assert_int_equal(embed_file_table(ctx, f, find(ctx, f, "lm_head.weight"), &t), EMBED_E_UNSUPPORTED);
    embed_file_release(f);
  }
  unlink(path_of("state"));
  embed_context_release(ctx);
}

/* What the fuzzers begin with reaches each way to decode. */
static void every_kind_is_decoded(void **state) {
  (void)state;
  static const struct {
    embed_dtype dtype;
    const char *stored;
  } all[PF_KINDS] = {{EMBED_Q4_1, "mlx4-g32"},   {EMBED_F32, "mxfp4-g32"},     {EMBED_F32, "int4-by-index"}, {EMBED_F32, "gptq4-by-index"},
                     {EMBED_F32, "awq4-g32"},    {EMBED_F32, "bnb-nf4"},       {EMBED_F32, "bnb-nf4"},       {EMBED_I8_ROW, "I8"},
                     {EMBED_F32, "I8"},          {EMBED_Q4_1, "mlx3-g32"},     {EMBED_F32, "mxfp8-g32"},     {EMBED_F32, "nvfp4-g16"},
                     {EMBED_I8_ROW, "int3-g64"}, {EMBED_I4_GROUP, "int4-g32"}, {EMBED_F32, "gptq3-g32"},     {EMBED_F32, "bnb-fp4"}};
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < PF_KINDS; ++kind) {
    embed_tensor_info info = {.size = sizeof info};
    make_packed(kind);
    embed_file *f = open_file(ctx, write_file("kind", pf_file, pf_bytes), NULL);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
    if (info.dtype != all[kind].dtype || strcmp(info.stored, all[kind].stored) != 0) fail_msg("%d: %s as %s", kind, info.stored, embed_dtype_name(info.dtype));
    assert_int_equal(embed_table_dtype(t), info.dtype);
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("kind"));
  embed_context_release(ctx);
}

static void every_kind_survives_truncation_and_failures_of_memory(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < PF_KINDS; ++kind) {
    make_packed(kind);
    for (size_t cut = 0; cut < pf_bytes; cut += cut < 1024 ? 3 : 61) assert_int_not_equal(try_file(ctx, write_file("cut", pf_file, cut), NULL), EMBED_OK);
    const char *path = write_file("cut", pf_file, pf_bytes);
    assert_int_equal(try_file(ctx, path, NULL), EMBED_OK);
    survives_failures(path, NULL);
  }
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

/* The header's bytes; what stands in the data is proved above. */
static void every_kind_survives_mutations(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < PF_KINDS; ++kind) {
    make_packed(kind);
    const size_t header = pf_bytes - pf_count;
    for (size_t i = 8; i < header; ++i)
      for (int v = 0; v < 4; ++v) {
        const unsigned char was = pf_file[i];
        pf_file[i] = (unsigned char)"09,6"[v];
        if (pf_file[i] != was) (void)try_file(ctx, write_file("mutated", pf_file, pf_bytes), NULL);
        pf_file[i] = was;
      }
  }
  unlink(path_of("mutated"));
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_that_do_not_agree_leave_no_table),
      cmocka_unit_test(shapes_and_groups_of_the_data_are_proved),
      cmocka_unit_test(tiles_of_a_gpu_are_no_rows),
      cmocka_unit_test(columns_without_rows_may_be_any_number),
      cmocka_unit_test(what_no_name_can_ask_for_is_not_taken_to_be_absent),
      cmocka_unit_test(a_state_that_is_no_json_is_an_error_with_its_byte),
      cmocka_unit_test(every_kind_is_decoded),
      cmocka_unit_test(every_kind_survives_truncation_and_failures_of_memory),
      cmocka_unit_test(every_kind_survives_mutations),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
