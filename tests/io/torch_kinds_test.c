/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of PyTorch checkpoints beside the plain archive: deflated members, the file of before 1.6, shards with an index; what stands
 * in training checkpoints beside tensors; and pickles of few bytes that ask for much. */
#include "files.h"
#include "zip_file.h"

#include <stdbool.h>
#include <time.h>

static const float values[12] = {0.0f, -0.0f, 1.5f, -2.25f, 3e38f, 1e-40f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 65504.0f};
static const int64_t table[2] = {3, 4}, rows[2] = {4, 1};

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

static void same_state_dict(embed_context *ctx, const embed_file *f) {
  assert_int_equal(embed_file_count(f), 4);
  same_table(ctx, f, "model.wte.weight", values, 3, 4);
  same_table(ctx, f, "model.lm_head.weight", values, 3, 4);
  same_table(ctx, f, "model.ln_f.weight", values + 8, 1, 4);
  same_table(ctx, f, "optimizer.0", values + 4, 1, 4);
  assert_non_null(strstr(embed_file_notes(f), "tied"));
}

static void put_tensor(const char *key) { pk_tensor("FloatStorage", key, 12, 0, 2, table, rows); }

/* --- Deflated members */

static void deflated_archive(void) {
  pk_state_dict();
  zf_begin();
  zf_add_deflated("m/data.pkl", pk, pk_count);
  zf_add_deflated("m/byteorder", "little", 6);
  zf_add_deflated("m/data/0", file_floats(values, 12), sizeof values);
  zf_end(0);
}

static bool has_zlib(embed_context *ctx, const char *path) {
  embed_file *f = NULL;
  if (embed_file_open(ctx, path, NULL, &f) == EMBED_OK) {
    embed_file_release(f);
    return true;
  }
  assert_non_null(strstr(embed_error_text(ctx), "no zlib"));
  return false;
}

static void deflated_members_are_inflated_once_and_read(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  deflated_archive();
  const char *path = write_file("deflated", zf, zf_count);
  if (has_zlib(ctx, path)) {
    for (uint32_t flags = 0; flags < 8; ++flags) {
      embed_file_options o = {.size = sizeof o, .flags = flags};
      embed_tensor_info info = {.size = sizeof info};
      embed_file *f = open_file(ctx, path, &o);
      same_state_dict(ctx, f);
      assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
      assert_int_equal(info.offset, -1);
      assert_int_equal(info.bytes, 48);
      embed_table *t = open_table(ctx, f);
      embed_file_release(f); /* a table outlives the handle */
      float got[12];
      read_rows(ctx, t, got);
      assert_same_bits(got, values, sizeof values);
      embed_table_release(t);
    }
    zf[zf_members[2].data + 5 + 7] ^= 1;
    refused(ctx, write_file("deflated", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[2].data, "the archive says");
    survives_failures((deflated_archive(), write_file("deflated", zf, zf_count)), NULL);
    survives_mutations(ctx, "deflated", zf, zf_count);
  }
  unlink(path_of("deflated"));
  embed_context_release(ctx);
}

/* --- Before PyTorch 1.6 */

static void files_of_before_1_6_open(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (uint32_t flags = 0; flags < 4; ++flags) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    pk_state_dict();
    torch_old_file(file_floats(values, 12), 12, 48);
    embed_file *f = open_file(ctx, write_file("before", zf, zf_count), &o);
    embed_tensor_info info = {.size = sizeof info};
    assert_string_equal(embed_file_format(f), "pytorch");
    same_state_dict(ctx, f);
    assert_int_equal(embed_file_tensor(ctx, f, 2, &info), EMBED_OK);
    assert_int_equal(info.offset, (int64_t)zf_count - 16);
    embed_file_release(f);
  }
  unlink(path_of("before"));
  embed_context_release(ctx);
}

static void dicts_that_python_2_pickled_open(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int how = 0; how < 4; ++how) {
    pk_begin();
    pk_name("collections", "OrderedDict");
    pk_ops("q\x01](]("); /* [["wte.weight", a], ["step", 7]] */
    pk_op('U');
    pk_uint(10, 1);
    pk_ops("wte.weight");
    put_tensor("0");
    pk_ops("e](");
    pk_text("step");
    if (how != 2) pk_int(7);
    pk_ops("ee");
    pk_ops(how == 3 ? "\x85q\x05R0h\x01h\x05R." : "\x85R}b.");
    if (how == 1)
      torch_archive(NULL, file_floats(values, 12), 48);
    else
      torch_old_file(file_floats(values, 12), 12, 48);
    const char *path = write_file("python2", zf, zf_count);
    if (how == 0) {
      embed_file *f = open_file(ctx, path, NULL);
      assert_int_equal(embed_file_count(f), 1);
      same_table(ctx, f, "wte.weight", values, 3, 4);
      embed_file_release(f);
    } else {
      static const char *const says[] = {"", "OrderedDict of a list", "what are no pairs", "no dict, list or tensor"};
      embed_file *f = NULL;
      assert_int_equal(embed_file_open(ctx, path, NULL, &f), how == 1 ? EMBED_E_UNSUPPORTED : EMBED_E_FORMAT);
      if (!strstr(embed_error_text(ctx), says[how])) fail_msg("%s", embed_error_text(ctx));
    }
  }
  unlink(path_of("python2"));
  embed_context_release(ctx);
}

/* A list of one pair becomes a dict and is empty from then on; with one value more it is no pair, and no second value is there to be read. */
static void a_list_that_became_a_dict_is_empty(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int how = 0; how < 3; ++how) {
    pk_begin();
    pk_name("collections", "OrderedDict");
    pk_ops("q\x01]q\x02"); /* the list */
    pk_ops(how == 0   ? "](K\x01K\x02"
                        "ea0h\x01h\x02\x85R0"
           : how == 1 ? "K\x01"
                        "a0"
                      : "](K\x01K\x02"
                        "ea0");
    if (how) { /* an object takes what it holds */
      pk_name("__torch__", "Net");
      pk_ops(
          ")\x81h\x02"
          "b0");
    }
    pk_ops(
        "h\x02K\x03"
        "a0"); /* one value more */
    pk_ops(
        "]h\x02"
        "a\x85R."); /* a dict of a list with this list in it */
    torch_old_file(file_floats(values, 12), 12, 48);
    refused(ctx, write_file("emptied", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)(zf_count - 48 - 8 - 15 - 2), "what are no pairs");
  }
  unlink(path_of("emptied"));
  embed_context_release(ctx);
}

static void the_parts_of_an_old_file_are_held_against_one_another(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const char *path = path_of("parts");
  pk_state_dict();
  torch_old_file(file_floats(values, 12), 13, 48);
  const int64_t storage = (int64_t)zf_count - 48;
  write_file("parts", zf, zf_count);
  refused(ctx, path, NULL, EMBED_E_FORMAT, (int64_t)zf_count, "the elements of a storage");
  zf_put((size_t)storage - 8, 11, 8);
  write_file("parts", zf, zf_count);
  refused(ctx, path, NULL, EMBED_E_FORMAT, storage, "its storage of 48 bytes has 44");
  zf_put((size_t)storage - 8, UINT64_MAX, 8);
  write_file("parts", zf, zf_count);
  refused(ctx, path, NULL, EMBED_E_OVERFLOW, storage - 8, "has -1 elements");
  zf_put((size_t)storage - 8, UINT64_C(1) << 61, 8);
  write_file("parts", zf, zf_count);
  refused(ctx, path, NULL, EMBED_E_OVERFLOW, storage - 8, "elements");
  zf_put((size_t)storage - 8, 12, 8);
  zf[storage - 8 - 5] = '1'; /* the list names another storage */
  write_file("parts", zf, zf_count);
  refused(ctx, path, NULL, EMBED_E_FORMAT, storage - 8, "is of no tensor");
  pk_state_dict();
  torch_old_file(file_floats(values, 12), 12, 48);
  zf_uint(7, 3);
  embed_file *f = open_file(ctx, write_file("parts", zf, zf_count), NULL);
  assert_non_null(strstr(embed_file_notes(f), "3 bytes behind the last storage"));
  embed_file_release(f);
  for (size_t cut = 16; cut < zf_count - 3; ++cut) {
    f = NULL;
    assert_int_equal(embed_file_open(ctx, write_file("parts", zf, cut), NULL, &f), EMBED_E_FORMAT);
  }
  survives_mutations(ctx, "parts", zf, zf_count - 3);
  survives_failures(write_file("parts", zf, zf_count - 3), NULL);
  unlink(path);
  embed_context_release(ctx);
}

/* --- Shards */

static size_t make_torch_index(char *out, size_t room, const char *first, const char *second) {
  return (size_t)snprintf(out, room, "{\"metadata\": {\"total_size\": 96}, \"weight_map\": {\"wte.weight\": \"%s\", \"lm_head.weight\": \"%s\"}}\n", first,
                          second);
}

static void shards_open_by_their_index(void **state) {
  (void)state;
  static float other[12];
  char index[400];
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 12; ++i) other[i] = (float)i;
  assert_int_equal(mkdir(path_of("shards"), 0700), 0);
  pk_begin();
  pk_op('}');
  pk_text("wte.weight");
  put_tensor("0");
  pk_ops("s.");
  torch_archive(NULL, file_floats(values, 12), 48);
  write_file("shards/1.bin", zf, zf_count);
  pk_begin();
  pk_op('}');
  pk_text("lm_head.weight");
  put_tensor("0");
  pk_ops("s.");
  torch_old_file(file_floats(other, 12), 12, 48);
  write_file("shards/2.bin", zf, zf_count);
  const size_t bytes = make_torch_index(index, sizeof index, "1.bin", "2.bin");
  const char *path = write_file("shards/pytorch_model.bin.index.json", index, bytes);
  for (uint32_t flags = 0; flags < 4; ++flags) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_tensor_info info = {.size = sizeof info};
    int64_t head = -1;
    embed_file *f = open_file(ctx, path, &o);
    assert_string_equal(embed_file_format(f), "pytorch-index");
    assert_int_equal(embed_file_count(f), 2);
    same_table(ctx, f, "wte.weight", values, 3, 4);
    same_table(ctx, f, "lm_head.weight", other, 3, 4);
    assert_int_equal(embed_file_tensor(ctx, f, 1, &info), EMBED_OK);
    assert_int_equal(info.shard, 1);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
    assert_int_equal(head, 1);
    embed_file_release(f);
  }
  survives_failures(path, NULL);
  write_file("shards/pytorch_model.bin.index.json", index, make_torch_index(index, sizeof index, "1.bin", "3.bin"));
  path = path_of("shards/pytorch_model.bin.index.json");
  refused(ctx, path, NULL, EMBED_E_IO, strstr(index, "\"3.bin") - index, "shard \"3.bin\" of tensor \"lm_head.weight\"");
  write_file("shards/pytorch_model.bin.index.json", index, make_torch_index(index, sizeof index, "1.bin", "1.bin"));
  refused(ctx, path, NULL, EMBED_E_FORMAT, strrchr(index, ':') + 2 - index, "which has no such tensor");
  unlink(path_of("shards/1.bin"));
  unlink(path_of("shards/2.bin"));
  unlink(path_of("shards/pytorch_model.bin.index.json"));
  rmdir(path_of("shards"));
  embed_context_release(ctx);
}

/* --- Beside tensors */

static void what_training_saves_beside_tensors_is_passed_over(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pk_begin();
  pk_ops("}(");
  pk_text("args");
  pk_name("argparse", "Namespace");
  pk_ops(")\x81}");
  pk_text("lr");
  pk_ops("G");
  pk_uint(0, 8);
  pk_ops("sb");
  pk_text("loss");
  pk_name("numpy.core.multiarray", "scalar");
  pk_name("numpy", "dtype");
  pk_text("f8");
  pk_ops("\x89\x88\x87R(K\x03");
  pk_text("<");
  pk_ops("NNNJ\xFF\xFF\xFF\xFFtbU\x02xx\x86R");
  pk_text("defaults");
  pk_name("collections", "defaultdict");
  pk_name("__builtin__", "list");
  pk_ops("\x85R");
  pk_text("w");
  put_tensor("0");
  pk_ops("s");
  pk_text("meta");
  pk_name("torch._utils", "_rebuild_meta_tensor_no_storage");
  pk_ops("()tR");
  pk_text("buffer");
  pk_name("torch._tensor", "_rebuild_from_type_v2");
  pk_ops("(");
  pk_name("torch._utils", "_rebuild_tensor_v2");
  pk_name("torch.nn.parameter", "Buffer");
  pk_ops("(");
  pk_storage("FloatStorage", "0", 12);
  pk_int(0);
  pk_extents(2, table);
  pk_extents(2, rows);
  pk_ops("\x89Nt}tR");
  pk_text("pair");
  put_tensor("0");
  pk_ops("K\x05\x86\x85q\x07");
  pk_text("again");
  pk_ops("h\x07u.");
  torch_archive(NULL, file_floats(values, 12), 48);
  embed_file *f = open_file(ctx, write_file("beside", zf, zf_count), NULL);
  assert_int_equal(embed_file_count(f), 3);
  same_table(ctx, f, "defaults.w", values, 3, 4);
  same_table(ctx, f, "buffer", values, 3, 4);
  same_table(ctx, f, "pair.0.0", values, 3, 4);
  assert_non_null(strstr(embed_file_notes(f), "1 tensors are not listed"));
  embed_file_release(f);
  pk_begin(); /* a tuple at the root */
  put_tensor("0");
  pk_ops("q\x01h\x01\x86.");
  torch_archive(NULL, file_floats(values, 12), 48);
  f = open_file(ctx, write_file("beside", zf, zf_count), NULL);
  assert_int_equal(embed_file_count(f), 2);
  same_table(ctx, f, "1", values, 3, 4);
  embed_file_release(f);
  unlink(path_of("beside"));
  embed_context_release(ctx);
}

/* --- TorchScript */

static void a_script_module_opens_by_its_attributes(void **state) {
  (void)state;
  static const char *const names[] = {"embedding.weight", "layers.0.bias", "layers.1.bias", "buffers.scale", "packed.0"};
  static const int64_t first[] = {0, 4, 8, 0, 0};
  embed_context *ctx = new_context(NULL);
  pk_script_module();
  script_archive(file_floats(values, 12), sizeof values);
  for (uint32_t flags = 0; flags < 8; ++flags) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_file *f = open_file(ctx, write_file("script", zf, zf_count), &o);
    assert_string_equal(embed_file_format(f), "pytorch");
    assert_int_equal(embed_file_count(f), 5);
    for (int64_t i = 0; i < 5; ++i) {
      embed_tensor_info info = {.size = sizeof info};
      assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
      assert_string_equal(info.name, names[i]);
      same_table(ctx, f, names[i], values + first[i], i ? 1 : 3, 4);
    }
    int64_t role = -1;
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &role), EMBED_OK);
    assert_int_equal(role, 0);
    assert_non_null(strstr(embed_file_notes(f), "7 objects of TorchScript"));
    embed_file_release(f);
  }
  survives_failures(path_of("script"), NULL);
  unlink(path_of("script"));
  embed_context_release(ctx);
}

/* The pickle between its protocol and its end. */
static const char *write_script(const char *code, size_t bytes) {
  pk_begin();
  pk_name("__torch__", "A");
  pk_ops("q\x01)\x81q\x02"); /* 1: a class, 2: an object of it */
  put_tensor("0");
  pk_ops(
      "q\x03"
      "0");
  pk_bytes(code, bytes);
  script_archive(file_floats(values, 12), sizeof values);
  return write_file("script", zf, zf_count);
}

/* Objects built of themselves, of one another, twice, of what is taken elsewhere: each attribute is in one place, and walks end. */
static void objects_that_no_module_has_end(void **state) {
  (void)state;
#define BYTES(s) s, sizeof s - 1
  static const struct {
    const char *code;
    size_t bytes;
    embed_status status;
    const char *names; /* of the tensors, or what the error says */
  } cases[] = {
      {BYTES("}U\x01wh\x03sb."), EMBED_OK, "w "},
      {BYTES("h\x02"
             "b."),
       EMBED_E_FORMAT, "with tensors in it"}, /* of itself */
      {BYTES("}U\x01wh\x03sbh\x02"
             "b."),
       EMBED_OK, "w "}, /* and once more of itself */
      {BYTES("}U\x01wh\x03sb}U\x01vh\x03sb."), EMBED_OK, "w v "},
      {BYTES("}U\x01wh\x03sq\x04"
             "bh\x04"
             "bh\x04U\x01vh\x03s0."),
       EMBED_OK, "w "}, /* what it took is not shared */
      {BYTES("h\x03h\x03\x86q\x04"
             "bh\x04"
             "b."),
       EMBED_OK, "0 1 "}, /* a tuple, and again */
      {BYTES("](h\x03h\x03"
             "eb."),
       EMBED_OK, "0 1 "}, /* a list */
      {BYTES("h\x03"
             "b."),
       EMBED_OK, "0 "},
      {BYTES("Nb}U\x01wh\x03sb."), EMBED_OK, "w "},
      {BYTES("}U\x01kh\x02sb}U\x01wh\x03sb."), EMBED_OK, "w "}, /* its own attribute */
      {BYTES("}U\x01"
             "bh\x01)\x81q\x04}U\x01wh\x03sbsbh\x04}U\x01kh\x02sb0."),
       EMBED_OK, "b.w "},                       /* each an attribute of the other */
      {BYTES("U\x01wh\x03s."), EMBED_OK, "w "}, /* an item of it */
      {BYTES("0h\x01."), EMBED_E_FORMAT, "with tensors in it"},
      {BYTES("0h\x01}b."), EMBED_E_FORMAT, "sets attributes of what has none"},
      {BYTES("0h\x01}R."), EMBED_E_FORMAT, "with tensors in it"},
      {BYTES("0h\x01h\x01\x81}U\x01wh\x03sb."), EMBED_OK, "w "},
      {BYTES("(b."), EMBED_E_FORMAT, "takes a value that nobody put"},
      {BYTES("h\x03"
             "a."),
       EMBED_E_FORMAT, "fills what is no such container"},
      {BYTES("0ctorch.jit._pickle\nrestore_type_tag\n)R."), EMBED_E_FORMAT, "marks the type of nothing"},
      {BYTES("0ctorch.jit._pickle\nrestore_type_tag\nNR."), EMBED_E_FORMAT, "calls with what is no tuple"},
      {BYTES("0ctorch.jit._pickle\nrestore_type_tag\nh\x03U\x06Tensor\x86R."), EMBED_OK, "tensor "},
      {BYTES("ctorch.jit._pickle\nbuild_tensor_from_id\nK\x01\x85R0}U\x01wh\x03sb."), EMBED_OK, "w "},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const char *path = write_script(cases[i].code, cases[i].bytes);
    embed_file *f = NULL;
    char names[64] = "";
    const embed_status status = embed_file_open(ctx, path, NULL, &f);
    if (status != cases[i].status) fail_msg("case %zu: %s", i, embed_error_text(ctx));
    for (int64_t t = 0; f && t < embed_file_count(f); ++t) {
      embed_tensor_info info = {.size = sizeof info};
      assert_int_equal(embed_file_tensor(ctx, f, t, &info), EMBED_OK);
      strncat(strncat(names, info.name, 20), " ", 2);
    }
    if (f && strcmp(names, cases[i].names) != 0) fail_msg("case %zu: %s", i, names);
    if (!f && !strstr(embed_error_text(ctx), cases[i].names)) fail_msg("case %zu: %s", i, embed_error_text(ctx));
    embed_file_release(f);
  }
#undef BYTES
  unlink(path_of("script"));
  embed_context_release(ctx);
}

static void a_script_module_cut_or_changed_anywhere_does_no_harm(void **state) {
  (void)state;
  static unsigned char good[PK_ROOM];
  embed_context *ctx = new_context(NULL);
  pk_script_module();
  const size_t whole = pk_count;
  memcpy(good, pk, whole);
  for (size_t cut = 0; cut < whole; ++cut) {
    pk_count = cut;
    script_archive(file_floats(values, 12), sizeof values);
    embed_file *f = NULL;
    assert_int_equal(embed_file_open(ctx, write_file("script", zf, zf_count), NULL, &f), EMBED_E_FORMAT);
  }
  for (size_t at = 0; at < whole; ++at)
    for (int v = 0; v < 12; ++v) {
      memcpy(pk, good, whole);
      pk[at] = (unsigned char)(v < 8 ? good[at] ^ 1 << v : "b}\x81R"[v - 8]);
      pk_count = whole;
      script_archive(file_floats(values, 12), sizeof values);
      (void)try_file(ctx, write_file("script", zf, zf_count), NULL);
    }
  unlink(path_of("script"));
  embed_context_release(ctx);
}

/* --- Few bytes that ask for much */

/* The archive of a large pickle; freed by the caller. */
static const char *write_large(const char *name, const unsigned char *text, size_t bytes) {
  enum { ENDS = 4096 };
  unsigned char *whole = malloc(bytes + ENDS);
  assert_non_null(whole);
  pk_count = 0;
  torch_archive(NULL, values, sizeof values); /* an empty pickle: its place is made by hand */
  const size_t data = zf_members[0].data;
  memcpy(whole, zf, data);
  memcpy(whole + data, text, bytes);
  memcpy(whole + data + bytes, zf + data, zf_count - data);
  unsigned char *end = whole + bytes;
  const size_t directory = zf_directory;
  const uint32_t sum = zf_sum(text, bytes);
  for (int i = 0; i < zf_member_count; ++i) {
    unsigned char *entry = end + zf_members[i].entry, *wide = entry + ZF_ENTRY + strlen(zf_members[i].name) + 4;
    const uint64_t at = zf_members[i].at + (i ? bytes : 0), size = i ? zf_members[i].bytes : bytes;
    for (int k = 0; k < 8; ++k) {
      wide[k] = wide[8 + k] = (unsigned char)(size >> (8 * k));
      wide[16 + k] = (unsigned char)(at >> (8 * k));
    }
    if (i == 0)
      for (int k = 0; k < 4; ++k) entry[16 + k] = (unsigned char)(sum >> (8 * k));
  }
  unsigned char *end64 = end + zf_count - ZF_END - 20 - 56;
  for (int k = 0; k < 8; ++k) {
    end64[48 + k] = (unsigned char)((uint64_t)(directory + bytes) >> (8 * k));
    end64[56 + 8 + k] = (unsigned char)((uint64_t)(end64 - whole) >> (8 * k));
  }
  const char *path = write_file(name, whole, zf_count + bytes);
  free(whole);
  return path;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The same long thing shown again and again for two bytes each. */
static void what_is_repeated_is_not_paid_again_and_again(void **state) {
  (void)state;
  enum { LONG = 200000, AGAIN = 200000, ROOM = 1 << 21 };
  embed_context *ctx = new_context(NULL);
  unsigned char *text = malloc(ROOM);
  assert_non_null(text);
  for (int how = 0; how < 3; ++how) {
    static const char *const says[] = {"no storage, offset", "more of names than it has bytes for", "more tensors than it has bytes for"};
    size_t count = 0;
    pk_begin();
    if (how == 0) { /* a shape of very many extents */
      pk_name("torch._utils", "_rebuild_tensor_v2");
      pk_ops("q\x01(");
      pk_storage("FloatStorage", "0", 12);
      pk_ops("K");
      pk_uint(0, 1);
      pk_op('(');
    } else if (how == 1) { /* a long key of very many dicts */
      pk_op('X');
      pk_uint(4096, 4);
      memset(pk + pk_count, 'x', 4096);
      pk_count += 4096;
      pk_ops(
          "q\x01"
          "0}(");
    } else { /* one tensor very often */
      put_tensor("0");
      pk_ops(
          "q\x01"
          "0](");
    }
    memcpy(text, pk, pk_count);
    count = pk_count;
    if (how == 0) {
      for (int i = 0; i < LONG; ++i) memcpy(text + count, "K\x01", 2), count += 2;
      memcpy(text + count, "tq\x02h\x02tq\x03", 8), count += 8;
      for (int i = 0; i < AGAIN; ++i) memcpy(text + count, "h\x01h\x03R0", 6), count += 6;
    } else if (how == 1) {
      for (int i = 0; i < AGAIN; ++i) memcpy(text + count, "h\x01}", 3), count += 3;
      text[count++] = 'u';
    } else {
      for (int i = 0; i < AGAIN; ++i) memcpy(text + count, "h\x01", 2), count += 2;
      text[count++] = 'e';
    }
    text[count++] = '.';
    assert_true(count <= ROOM);
    const double before = seconds();
    embed_file *f = NULL;
    assert_int_equal(embed_file_open(ctx, write_large("large", text, count), NULL, &f), EMBED_E_FORMAT);
    if (!strstr(embed_error_text(ctx), says[how])) fail_msg("%s", embed_error_text(ctx));
    assert_true(seconds() - before < 2);
  }
  free(text);
  unlink(path_of("large"));
  embed_context_release(ctx);
}

/* A list that holds one pair for each byte of the pickle, and the dict that is made of it: twice as many entries as bytes. */
static void a_dict_of_very_many_pairs_takes_no_square(void **state) {
  (void)state;
  enum { MANY = 60000, ROOM = 1 << 17 };
  embed_context *ctx = new_context(NULL);
  unsigned char *text = malloc(ROOM);
  assert_non_null(text);
  pk_begin();
  pk_name("collections", "OrderedDict");
  pk_ops(
      "](](K\x01K\x02"
      "e");
  torch_old_file(values, 0, 0);
  size_t count = zf_count - 8 - 15; /* up to the names of its storages */
  memcpy(text, zf, count);
  memset(text + count, '2', MANY), count += MANY;
  memcpy(text + count, "e\x85R.", 4), count += 4;
  const double before = seconds();
  refused(ctx, write_file("pairs", text, count), NULL, EMBED_E_FORMAT, (int64_t)count, "where a pickle should begin");
  assert_true(seconds() - before < 2);
  free(text);
  unlink(path_of("pairs"));
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(deflated_members_are_inflated_once_and_read),
    cmocka_unit_test(files_of_before_1_6_open),
    cmocka_unit_test(dicts_that_python_2_pickled_open),
    cmocka_unit_test(a_list_that_became_a_dict_is_empty),
    cmocka_unit_test(the_parts_of_an_old_file_are_held_against_one_another),
    cmocka_unit_test(shards_open_by_their_index),
    cmocka_unit_test(what_training_saves_beside_tensors_is_passed_over),
    cmocka_unit_test(a_script_module_opens_by_its_attributes),
    cmocka_unit_test(objects_that_no_module_has_end),
    cmocka_unit_test(a_script_module_cut_or_changed_anywhere_does_no_harm),
    cmocka_unit_test(what_is_repeated_is_not_paid_again_and_again),
    cmocka_unit_test(a_dict_of_very_many_pairs_takes_no_square),
};
TEST_MAIN(tests)
