/* SPDX-License-Identifier: BSD-3-Clause */
/* PyTorch's checkpoints: which tensors a pickle names, and that it can do nothing else. */
#include "files.h"
#include "zip_file.h"

#include <stdbool.h>

static const float values[12] = {0.0f, -0.0f, 1.5f, -2.25f, 3e38f, 1e-40f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 65504.0f};
static const int64_t table[2] = {3, 4}, rows[2] = {4, 1}, columns[2] = {1, 3};

static const char *write_archive(const char *name) {
  torch_archive(NULL, file_floats(values, 12), sizeof values);
  return write_file(name, zf, zf_count);
}

/* Byte `at` of the pickle, in the archive that was written last. */
static int64_t pickle_byte(size_t at) { return (int64_t)(zf_members[0].data + at); }

static void same_table(embed_context *ctx, const embed_file *f, const char *name, const float *want, int64_t wanted_rows, int64_t dim) {
  int64_t i = -1;
  embed_table *t = NULL;
  float got[12];
  if (embed_file_find(ctx, f, name, &i) != EMBED_OK || embed_file_table(ctx, f, i, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_int_equal(embed_table_rows(t), wanted_rows);
  assert_int_equal(embed_table_dim(t), dim);
  read_rows(ctx, t, got);
  assert_same_bits(got, want, sizeof *got * (size_t)(wanted_rows * dim));
  embed_table_release(t);
}

static void a_state_dict_opens_with_its_ties(void **state) {
  (void)state;
  static const char *const names[] = {"model.wte.weight", "model.lm_head.weight", "model.ln_f.weight", "optimizer.0"};
  embed_context *ctx = new_context(NULL);
  pk_state_dict();
  for (uint32_t flags = 0; flags < 8; ++flags) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_file *f = open_file(ctx, write_archive("dict"), &o);
    int64_t head = -1;
    assert_string_equal(embed_file_format(f), "pytorch");
    assert_int_equal(embed_file_count(f), 4);
    for (int64_t i = 0; i < 4; ++i) {
      embed_tensor_info info = {.size = sizeof info};
      assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
      assert_string_equal(info.name, names[i]);
      assert_string_equal(info.stored, "float32");
      assert_int_equal(info.dtype, EMBED_F32);
      assert_int_equal(info.rank, i < 2 ? 2 : 1);
      assert_int_equal(info.offset, (int64_t)zf_members[1].data + (i == 2 ? 32 : i == 3 ? 16 : 0));
      assert_int_equal(info.bytes, i < 2 ? 48 : 16);
    }
    same_table(ctx, f, names[0], values, 3, 4);
    same_table(ctx, f, names[1], values, 3, 4);
    same_table(ctx, f, names[2], values + 8, 1, 4);
    same_table(ctx, f, names[3], values + 4, 1, 4);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
    assert_int_equal(head, 0);
    assert_non_null(strstr(embed_file_notes(f), "tied"));
    embed_file_release(f);
  }
  unlink(path_of("dict"));
  embed_context_release(ctx);
}

static void tensors_alone_in_lists_and_as_parameters_have_names(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_begin();
  pk_name("torch._utils", "_rebuild_parameter");
  pk_op('(');
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_op(0x88);
  pk_name("collections", "OrderedDict");
  pk_ops(")RtR.");
  embed_file *f = open_file(ctx, write_archive("alone"), NULL);
  assert_int_equal(embed_file_count(f), 1);
  same_table(ctx, f, "tensor", values, 3, 4);
  embed_file_release(f);
  pk_begin(); /* protocol 4's names, a list in a list by its memo, a key that is a number */
  pk_op(0x95);
  pk_uint(0, 8);
  pk_ops(
      "]\x94"
      "0}\x94(J");
  pk_uint(0xFFFFFFFE, 4);
  pk_ops("h");
  pk_uint(0, 1);
  pk_op(0x8C);
  pk_ops("\x01t");
  pk_op(0x8C);
  pk_ops("\x0ctorch._utils");
  pk_op(0x8C);
  pk_ops("\x12_rebuild_tensor_v2");
  pk_op(0x93);
  pk_op('(');
  pk_storage("FloatStorage", "0", 12);
  pk_ops("K");
  pk_uint(0, 1);
  pk_extents(2, table);
  pk_extents(2, rows);
  pk_ops("tRu.");
  f = open_file(ctx, write_archive("alone"), NULL);
  assert_int_equal(embed_file_count(f), 1);
  same_table(ctx, f, "t", values, 3, 4);
  embed_file_release(f);
  unlink(path_of("alone"));
  embed_context_release(ctx);
}

static void strides_and_byte_orders_are_read_as_they_are(void **state) {
  (void)state;
  static float turned[12], big[12];
  static const int64_t narrow[2] = {3, 2}, pair[2] = {2, 2}, spread[2] = {5, 2}, none[2] = {0, 1};
  static const float left[6] = {0.0f, -0.0f, 3e38f, 1e-40f, 9.0f, 10.0f};
  embed_context *ctx = new_context(NULL);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) turned[c * 3 + r] = values[r * 4 + c];
  for (int i = 0; i < 48; ++i) ((unsigned char *)big)[i / 4 * 4 + 3 - i % 4] = ((const unsigned char *)file_floats(values, 12))[i];
  for (int how = 0; how < 6; ++how) { /* as they are, turned, a slice of columns, every second column, an expanded row */
    pk_begin();
    pk_op('}');
    pk_text("w");
    pk_tensor("FloatStorage", "0", 12, 0, 2,
              how == 2               ? narrow
              : how == 3 || how == 5 ? pair
                                     : table,
              how == 1               ? columns
              : how == 3 || how == 5 ? spread
              : how == 4             ? none
                                     : rows);
    pk_ops("s.");
    torch_archive(how % 5 ? "little" : "big", how == 1 ? file_floats(turned, 12) : how % 5 ? file_floats(values, 12) : big, 48);
    embed_file *f = open_file(ctx, write_file("strides", zf, zf_count), NULL);
    if (how < 2) same_table(ctx, f, "w", values, 3, 4);
    if (how == 2) same_table(ctx, f, "w", left, 3, 2);
    if (how == 3 || how == 5) same_table(ctx, f, "w", (const float[]){values[0], values[2], values[5], values[7]}, 2, 2);
    if (how == 2 || how == 4) {
      embed_tensor_info info = {.size = sizeof info};
      assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
      assert_int_equal(info.bytes, how == 2 ? 40 : 16); /* from the first element to the last */
    }
    if (how == 4) {
      embed_table *t = NULL;
      assert_int_equal(embed_file_table(ctx, f, 0, &t), EMBED_E_UNSUPPORTED);
      assert_non_null(strstr(embed_error_text(ctx), "contiguous"));
    }
    embed_file_release(f);
  }
  pk_state_dict();
  torch_archive("middle", values, 48);
  refused(ctx, write_file("strides", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[1].data, "neither little nor big");
  unlink(path_of("strides"));
  embed_context_release(ctx);
}

/* The transpose of a matrix of bytes. */
static void turned_floats_of_8_bits_are_read(void **state) {
  (void)state;
  static const unsigned char stored[12] = {0x38, 0x30, 0x28, 0x40, 0x44, 0x48, 0xB8, 0xC0, 0, 0x3C, 0x7E, 0x08};
  static const float want[12] = {1, 2, -1, 1.5f, 0.5f, 3, -2, 448, 0.25f, 4, 0, 0x1p-6f};
  embed_context *ctx = new_context(NULL);
  pk_begin();
  pk_name("torch._utils", "_rebuild_tensor_v3");
  pk_op('(');
  pk_storage("UntypedStorage", "0", 12);
  pk_int(0);
  pk_extents(2, table);
  pk_extents(2, columns);
  pk_ops("\x89N");
  pk_name("torch", "float8_e4m3fn");
  pk_ops("NtR.");
  torch_archive(NULL, stored, sizeof stored);
  embed_file *f = open_file(ctx, write_file("turned", zf, zf_count), NULL);
  same_table(ctx, f, "tensor", want, 3, 4);
  embed_file_release(f);
  unlink(path_of("turned"));
  embed_context_release(ctx);
}

static void every_type_is_listed_and_floats_are_tables(void **state) {
  (void)state;
  static const struct {
    const char *storage, *type, *stored;
    int64_t bytes;
    embed_dtype dtype;
  } types[] = {{"FloatStorage", NULL, "float32", 4, EMBED_F32},
               {"HalfStorage", NULL, "float16", 2, EMBED_F16},
               {"BFloat16Storage", NULL, "bfloat16", 2, EMBED_BF16},
               {"DoubleStorage", NULL, "float64", 8, EMBED_F64},
               {"LongStorage", NULL, "int64", 8, EMBED_DTYPE_NONE},
               {"CharStorage", NULL, "int8", 1, EMBED_DTYPE_NONE},
               {"BoolStorage", NULL, "bool", 1, EMBED_DTYPE_NONE},
               {"ComplexDoubleStorage", NULL, "complex128", 16, EMBED_DTYPE_NONE},
               {"UntypedStorage", "uint16", "uint16", 2, EMBED_DTYPE_NONE},
               {"UntypedStorage", "float32", "float32", 4, EMBED_F32}};
  static const int64_t one[2] = {1, 3}, strides[2] = {3, 1};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    embed_tensor_info info = {.size = sizeof info};
    embed_table *t = NULL;
    pk_begin();
    if (!types[i].type) {
      pk_tensor(types[i].storage, "0", 3, 0, 2, one, strides);
    } else {
      pk_name("torch._utils", "_rebuild_tensor_v3");
      pk_op('(');
      pk_storage(types[i].storage, "0", 3 * types[i].bytes);
      pk_int(0);
      pk_extents(2, one);
      pk_extents(2, strides);
      pk_op(0x89);
      pk_ops("N");
      pk_name("torch", types[i].type);
      pk_ops("NtR");
    }
    pk_ops(".");
    torch_archive(NULL, values, (size_t)(3 * types[i].bytes));
    embed_file *f = open_file(ctx, write_file("types", zf, zf_count), NULL);
    assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
    assert_string_equal(info.stored, types[i].stored);
    assert_int_equal(info.dtype, types[i].dtype);
    assert_int_equal(info.bytes, 3 * types[i].bytes);
    assert_int_equal(embed_file_table(ctx, f, 0, &t), types[i].dtype == EMBED_DTYPE_NONE ? EMBED_E_UNSUPPORTED : EMBED_OK);
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("types"));
  embed_context_release(ctx);
}

/* A tensor whose parts are wrong somewhere. */
static void every_tensor_is_held_against_its_storage(void **state) {
  (void)state;
  static const struct {
    const char *type, *key;
    int64_t elements, offset, shape[2], strides[2];
    embed_status status;
    const char *says;
  } cases[] = {
      {"FloatStorage", "1", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "storage that the archive does not have"},
      {"FloatStorage", "../data.pkl", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "storage that the archive does not have"},
      {"FloatStorage", "0123456789012345678901234567890123456789012345678901234567890123456789", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "name is too long"},
      {"FloatStorage", "0", 13, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "its storage of 52 bytes has 48"},
      {"FloatStorage", "0", 12, 1, {3, 4}, {4, 1}, EMBED_E_FORMAT, "ends at byte 52 of its storage of 48 bytes"},
      {"FloatStorage", "0", 12, 0, {4, 4}, {4, 1}, EMBED_E_FORMAT, "ends at byte 64 of its storage of 48 bytes"},
      {"FloatStorage", "0", 12, 0, {4, 3}, {5, 1}, EMBED_E_FORMAT, "ends at byte 72 of its storage of 48 bytes"},
      {"DoubleStorage", "0", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "its storage of 96 bytes has 48"},
      {"FloatStorage", "0", -1, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "names a storage otherwise"},
      {"FloatStorage", "0", 12, -1, {3, 4}, {4, 1}, EMBED_E_FORMAT, "rebuilds a tensor from what is no"},
      {"FloatStorage", "0", 12, 0, {-3, 4}, {4, 1}, EMBED_E_FORMAT, "rebuilds a tensor from what is no"},
      {"FloatStorage", "0", 12, 0, {3, 4}, {-4, 1}, EMBED_E_FORMAT, "rebuilds a tensor from what is no"},
      {"FloatStorage", "0", INT64_MAX, 0, {3, 4}, {4, 1}, EMBED_E_OVERFLOW, "64 bits"},
      {"FloatStorage", "0", 12, INT64_MAX / 4, {3, 4}, {4, 1}, EMBED_E_OVERFLOW, "64 bits"},
      {"FloatStorage", "0", 12, 0, {INT64_MAX, INT64_MAX}, {0, 0}, EMBED_E_OVERFLOW, "64 bits"},
      {"FloatStorage", "0", 12, 0, {3, 4}, {INT64_MAX, 1}, EMBED_E_OVERFLOW, "64 bits"},
      {"FloatStorage", "0", 12, 0, {2, 1}, {INT64_MAX, 1}, EMBED_E_OVERFLOW, "64 bits"},
      {"Size", "0", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "names a storage otherwise"},
      {"float32", "0", 12, 0, {3, 4}, {4, 1}, EMBED_E_FORMAT, "names a storage otherwise"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    embed_file *f = NULL;
    pk_begin();
    pk_op('}');
    pk_text("w");
    pk_tensor(cases[i].type, cases[i].key, cases[i].elements, cases[i].offset, 2, cases[i].shape, cases[i].strides);
    pk_ops("s.");
    assert_int_equal(embed_file_open(ctx, write_archive("parts"), NULL, &f), cases[i].status);
    if (!strstr(embed_error_text(ctx), cases[i].says)) fail_msg("case %zu: %s", i, embed_error_text(ctx));
    assert_in_range(embed_error_at(ctx), 0, zf_count);
  }
  unlink(path_of("parts"));
  embed_context_release(ctx);
}

static void a_pickle_runs_nothing(void **state) {
  (void)state;
  static const struct {
    const char *module, *name;
  } names[] = {{"os", "system"},
               {"builtins", "eval"},
               {"__builtin__", "getattr"},
               {"torch", "load"},
               {"torch.hub", "load"},
               {"torch", ""},
               {"", ""},
               {"numpy", "fromfile"},
               {"torch.FloatStorage", "x"},
               {"collections", "OrderedDict.fromkeys"},
               {"__main__", "Model"},
               {"__torch", "Net"},
               {"__torch__x", "Net"},
               {"x.__torch__", "Net"},
               {"torch.jit._pickle", "build_anything"}};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char says[128];
    snprintf(says, sizeof says, "asks for %s.%s at byte", names[i].module, names[i].name);
    pk_begin();
    pk_name(names[i].module, names[i].name);
    pk_op('(');
    pk_text("rm -r /");
    pk_ops("tR.");
    (void)write_archive("runs");
    refused(ctx, path_of("runs"), NULL, EMBED_E_UNSUPPORTED, pickle_byte(2), says);
    pk_begin(); /* protocol 4's way */
    pk_text(names[i].module);
    pk_text(names[i].name);
    const size_t at = pk_count;
    pk_op(0x93);
    pk_ops(")R.");
    (void)write_archive("runs");
    refused(ctx, path_of("runs"), NULL, EMBED_E_UNSUPPORTED, pickle_byte(at), says);
  }
  unlink(path_of("runs"));
  embed_context_release(ctx);
}

static void what_no_pickle_of_tensors_has_is_refused_at_its_byte(void **state) {
  (void)state;
#define BYTES(s) s, sizeof s - 1
  static const struct {
    const char *code; /* behind the protocol */
    size_t bytes, at; /* of the opcode that fails */
    const char *says;
  } cases[] = {
      {BYTES(""), 0, "cut short"},
      {BYTES("\x80\x06"), 0, "protocol past 5"},
      {BYTES("\x82\x01."), 0, "opcode 0x82"},
      {BYTES("\x83\x01\x00."), 0, "opcode 0x83"},
      {BYTES("\x84\x01\x00\x00\x00."), 0, "opcode 0x84"},
      {BYTES("P0\n."), 0, "opcode 0x50"},
      {BYTES("ios\nsystem\n."), 0, "opcode 0x69"},
      {BYTES("(o."), 1, "opcode 0x6f"},
      {BYTES("N)}\x92."), 3, "opcode 0x92"},
      {BYTES("\x97."), 0, "opcode 0x97"},
      {BYTES("I1\n."), 0, "opcode 0x49"},
      {BYTES("."), 0, "another number of values"},
      {BYTES("NN."), 2, "another number of values"},
      {BYTES("(."), 1, "takes a value that nobody put"},
      {BYTES("N.N"), 2, "bytes behind its last opcode"},
      {BYTES("0"), 0, "drops a value"},
      {BYTES("1"), 0, "mark that is not there"},
      {BYTES("2"), 0, "nobody put"},
      {BYTES("(2"), 1, "nobody put"},
      {BYTES("t"), 0, "mark that is not there"},
      {BYTES("Nt"), 1, "mark that is not there"},
      {BYTES("(\x85"), 1, "tuple of a mark"},
      {BYTES("N\x86"), 1, "values that are not there"},
      {BYTES("u"), 0, "mark that is not there"},
      {BYTES("(u"), 1, "container that is not there"},
      {BYTES("((u"), 2, "no such container"},
      {BYTES("}(Nu"), 3, "key without a value"},
      {BYTES("](NNu"), 4, "no such container"},
      {BYTES("}(Ne"), 3, "no such container"},
      {BYTES("}Ns"), 2, "container that is not there"},
      {BYTES("}(Ns"), 3, "puts a mark"},
      {BYTES("s"), 0, "container that is not there"},
      {BYTES("a"), 0, "container that is not there"},
      {BYTES(")Na"), 2, "no such container"},
      {BYTES("(Nd"), 2, "key without a value"},
      {BYTES("q\x01"), 0, "not there"},
      {BYTES("(q\x01"), 1, "not there"},
      {BYTES("Nr\xFF\xFF\xFF\xFF."), 1, "past its own length"},
      {BYTES("Nr\x00\x00\x00\x80."), 1, "past its own length"},
      {BYTES("h\x01."), 0, "never kept"},
      {BYTES("Nq\x02h\x01."), 3, "never kept"},
      {BYTES("j\xFF\xFF\xFF\xFF."), 0, "never kept"},
      {BYTES("X\xFF\xFF\xFF\xFF."), 0, "runs over its end"},
      {BYTES("\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF."), 0, "runs over its end"},
      {BYTES("\x8B\xFF\xFF\xFF\xFF."), 0, "runs over its end"},
      {BYTES("N\x93."), 1, "nobody put"},
      {BYTES("NN\x93."), 2, "name that is no text"},
      {BYTES("NNR."), 2, "what is no tuple"},
      {BYTES("N)R."), 2, "no name of pickle.def"},
      {BYTES("ctorch\nFloatStorage\n)R."), 21, "no name of pickle.def"},
      {BYTES("ctorch._utils\n_rebuild_tensor_v2\n)R."), 34, "another number of parts"},
      {BYTES("ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR."), 39, "no storage, offset"},
      {BYTES("ctorch._utils\n_rebuild_parameter\n)R."), 34, "what is no tensor"},
      {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n)R."), 38, "of a class from what is no tensor"},
      {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n(NNNtR."), 42, "of a class from what is no tensor"},
      {BYTES("NQ."), 1, "names a storage otherwise"},
      {BYTES("Nb."), 1, "nothing"},
      {BYTES("U\x01xNb."), 4, "what has none"},
      {BYTES("N."), 0, "no dict, list or tensor"},
      {BYTES("}."), 0, "no dict, list or tensor"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    embed_file *f = NULL;
    pk_begin();
    pk_bytes(cases[i].code, cases[i].bytes);
    const embed_status status = embed_file_open(ctx, write_archive("opcode"), NULL, &f);
    const bool whole = strstr(cases[i].says, "no dict") != NULL;
    if (!strstr(embed_error_text(ctx), cases[i].says) || embed_error_at(ctx) != (whole ? pickle_byte(0) : pickle_byte(2 + cases[i].at)))
      fail_msg("case %zu: %s at %d, wanted %s", i, embed_error_text(ctx), (int)(embed_error_at(ctx) - pickle_byte(2)), cases[i].says);
    assert_int_equal(status, strstr(cases[i].says, "protocol") ? EMBED_E_UNSUPPORTED : EMBED_E_FORMAT);
  }
  pk_count = 0;
  pk_ops("(dp0\n.");
  write_archive("opcode");
  refused(ctx, path_of("opcode"), NULL, EMBED_E_FORMAT, pickle_byte(0), "does not begin with its protocol");
  unlink(path_of("opcode"));
  embed_context_release(ctx);
}

static void deep_and_circular_dicts_end(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_begin();
  pk_ops("}q");
  pk_uint(0, 1);
  pk_text("w");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_op('s');
  pk_text("self"); /* it holds itself, and an empty dict twice */
  pk_ops("h");
  pk_uint(0, 1);
  pk_ops("s(");
  pk_text("x");
  pk_ops("}q\x05");
  pk_text("y");
  pk_ops("h\x05u.");
  embed_file *f = open_file(ctx, write_archive("deep"), NULL);
  assert_int_equal(embed_file_count(f), 1);
  assert_non_null(strstr(embed_file_notes(f), "2 dicts or lists have a second name"));
  embed_file_release(f);
  for (int depth = 63; depth <= 10000; depth = depth == 63 ? 64 : 10000 + (depth == 10000)) {
    pk_begin();
    for (int i = 0; i < depth; ++i) pk_op(']');
    pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
    for (int i = 0; i < depth; ++i) pk_op('a');
    pk_op('.');
    if (depth == 63) {
      embed_file_release(open_file(ctx, write_archive("deep"), NULL));
      continue;
    }
    (void)write_archive("deep");
    if (depth == 64) {
      embed_file_release(open_file(ctx, path_of("deep"), NULL));
      continue;
    }
    refused(ctx, path_of("deep"), NULL, EMBED_E_UNSUPPORTED, pickle_byte(0), "more than 64 dicts");
  }
  unlink(path_of("deep"));
  embed_context_release(ctx);
}

static void two_tensors_of_one_name_and_names_of_no_bytes_are_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_begin(); /* "a.b", and "b" in "a" */
  pk_ops("}(");
  pk_text("a.b");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("q\x01");
  pk_text("a");
  pk_ops("}");
  pk_text("b");
  pk_ops("h\x01su.");
  write_archive("name");
  refused(ctx, path_of("name"), NULL, EMBED_E_FORMAT, pickle_byte(0), "are named \"a.b\"");
  pk_begin();
  pk_ops("}X\x03");
  pk_uint(0, 3);
  pk_bytes("a\0b", 3);
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("s.");
  write_archive("name");
  refused(ctx, path_of("name"), NULL, EMBED_E_FORMAT, pickle_byte(8), "a NUL in a name");
  static char longest[4098];
  memset(longest, 'x', 4097);
  pk_begin();
  pk_op('}');
  pk_text(longest);
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("s.");
  write_archive("name");
  refused(ctx, path_of("name"), NULL, EMBED_E_FORMAT, pickle_byte(8), "more than 4096 bytes");
  longest[4000] = '\0';
  pk_begin(); /* hundreds of tensors below one long name */
  pk_op('}');
  pk_text(longest);
  pk_ops("](");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("q\x01");
  for (int i = 0; i < 2000; ++i) pk_ops("h\x01");
  pk_ops("es.");
  write_archive("name");
  refused(ctx, path_of("name"), NULL, EMBED_E_FORMAT, pickle_byte(0), "more of names than it has bytes for");
  unlink(path_of("name"));
  embed_context_release(ctx);
}

static void a_config_beside_it_says_what_its_family_does(void **state) {
  (void)state;
  static const char config[] = "{\"model_type\":\"granite\",\"hidden_size\":4,\"logits_scaling\":8.0,\"embedding_multiplier\":12,\"rms_norm_eps\":1e-06}";
  embed_context *ctx = new_context(NULL);
  embed_conventions c = {.size = sizeof c};
  assert_int_equal(mkdir(path_of("family"), 0700), 0);
  (void)write_file("family/config.json", config, sizeof config - 1);
  pk_state_dict();
  embed_file *f = open_file(ctx, write_archive("family/pytorch_model.bin"), NULL);
  assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
  assert_true(c.lookup_scale == 12 && c.logit_scale == 0.125f && c.norm_epsilon == 1e-6f);
  embed_file_release(f);
  unlink(path_of("family/config.json"));
  unlink(path_of("family/pytorch_model.bin"));
  rmdir(path_of("family"));
  embed_context_release(ctx);
}

static void archives_that_are_no_checkpoint_say_so(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_state_dict();
  zf_begin();
  zf_add("a/b/data.pkl", pk, pk_count);
  zf_end(0);
  refused(ctx, write_file("old", zf, zf_count), NULL, EMBED_E_FORMAT, 0, "none of them the data.pkl");
  embed_file_options o = {.size = sizeof o, .max_header = (int64_t)pk_count - 1};
  (void)write_archive("old");
  refused(ctx, path_of("old"), &o, EMBED_E_FORMAT, pickle_byte(0), "(max_header)");
  o = (embed_file_options){.size = sizeof o, .flags = EMBED_FILE_CHECK};
  zf[zf_members[1].data + 5] ^= 1;
  refused(ctx, write_file("old", zf, zf_count), &o, EMBED_E_FORMAT, (int64_t)zf_members[1].data, "the archive says");
  unlink(path_of("old"));
  embed_context_release(ctx);
}

static void a_checkpoint_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_state_dict();
  (void)write_archive("cut");
  for (size_t cut = 1; cut < zf_count; ++cut) {
    embed_file *f = NULL;
    assert_int_equal(embed_file_open(ctx, write_file("cut", zf, cut), NULL, &f), EMBED_E_FORMAT);
  }
  pk_state_dict();
  for (const size_t whole = pk_count; pk_count > 1;) { /* the pickle alone */
    embed_file *f = NULL;
    --pk_count;
    assert_int_equal(embed_file_open(ctx, write_archive("cut"), NULL, &f), EMBED_E_FORMAT);
    if (pk_count > 2 && !strstr(embed_error_text(ctx), "cut short") && !strstr(embed_error_text(ctx), "runs over")) fail_msg("%s", embed_error_text(ctx));
    assert_true(pk_count < whole);
  }
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

static void no_single_wrong_byte_harms(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_state_dict();
  (void)write_archive("mutant");
  survives_mutations(ctx, "mutant", zf, zf_count);
  embed_context_release(ctx);
}

static void every_failed_allocation_is_an_error_and_nothing_else(void **state) {
  (void)state;
  pk_state_dict();
  const char *path = write_archive("memory");
  survives_failures(path, NULL);
  unlink(path_of("memory"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_state_dict_opens_with_its_ties),
    cmocka_unit_test(tensors_alone_in_lists_and_as_parameters_have_names),
    cmocka_unit_test(strides_and_byte_orders_are_read_as_they_are),
    cmocka_unit_test(turned_floats_of_8_bits_are_read),
    cmocka_unit_test(every_type_is_listed_and_floats_are_tables),
    cmocka_unit_test(every_tensor_is_held_against_its_storage),
    cmocka_unit_test(a_pickle_runs_nothing),
    cmocka_unit_test(what_no_pickle_of_tensors_has_is_refused_at_its_byte),
    cmocka_unit_test(deep_and_circular_dicts_end),
    cmocka_unit_test(two_tensors_of_one_name_and_names_of_no_bytes_are_refused),
    cmocka_unit_test(a_config_beside_it_says_what_its_family_does),
    cmocka_unit_test(archives_that_are_no_checkpoint_say_so),
    cmocka_unit_test(a_checkpoint_cut_at_any_byte_is_refused),
    cmocka_unit_test(no_single_wrong_byte_harms),
    cmocka_unit_test(every_failed_allocation_is_an_error_and_nothing_else),
};
TEST_MAIN(tests)
