/* SPDX-License-Identifier: BSD-3-Clause */
/* Zip archives and the pickles of torch.save made byte by byte: for the readers' tests, and as seeds of the fuzzers. */
#ifndef ZIP_FILE_H
#define ZIP_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ZF_ROOM = 1 << 17, ZF_MEMBERS = 16, ZF_STORED = 0, ZF_DEFLATED = 8, ZF_LOCAL = 30, ZF_ENTRY = 46, ZF_END = 22 };

static unsigned char zf[ZF_ROOM];
static size_t zf_count, zf_directory; /* bytes; where the directory begins */
static struct {
  const char *name;
  size_t at, data, entry; /* of its own header, of its first byte, of its entry in the directory */
  size_t stored, bytes;
  uint32_t sum;
  int method, flags;
} zf_members[ZF_MEMBERS];
static int zf_member_count;

static inline void zf_put(size_t at, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) zf[at + (size_t)i] = (unsigned char)(value >> (8 * i));
}

static inline void zf_uint(uint64_t value, int width) {
  zf_put(zf_count, value, width);
  zf_count += (size_t)width;
}

static inline void zf_bytes(const void *bytes, size_t count) {
  if (count) memcpy(zf + zf_count, bytes, count);
  zf_count += count;
}

static inline uint32_t zf_sum(const void *bytes, size_t count) {
  uint32_t sum = ~0u;
  for (size_t i = 0; i < count; ++i) {
    sum ^= ((const unsigned char *)bytes)[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  return ~sum;
}

static inline void zf_begin(void) { zf_count = 0, zf_member_count = 0; }

/* pad: zeros in the extra field of its own header; whole, sum: of what is unpacked. flags 8: sizes stand behind the data. */
static inline void zf_raw(const char *name, int method, int flags, size_t pad, const void *data, size_t stored, size_t whole, uint32_t sum) {
  const size_t at = zf_count, name_bytes = strlen(name);
  const int behind = flags & 8;
  zf_uint(0x04034B50u, 4);
  zf_uint(20, 2);
  zf_uint((uint64_t)flags, 2);
  zf_uint((uint64_t)method, 2);
  zf_uint(0, 4);
  zf_uint(behind ? 0 : sum, 4);
  zf_uint(behind ? 0 : stored, 4);
  zf_uint(behind ? 0 : whole, 4);
  zf_uint(name_bytes, 2);
  zf_uint(pad, 2);
  zf_bytes(name, name_bytes);
  memset(zf + zf_count, 0, pad);
  zf_count += pad;
  zf_members[zf_member_count].name = name;
  zf_members[zf_member_count].at = at;
  zf_members[zf_member_count].data = zf_count;
  zf_members[zf_member_count].stored = stored;
  zf_members[zf_member_count].bytes = whole;
  zf_members[zf_member_count].sum = sum;
  zf_members[zf_member_count].method = method;
  zf_members[zf_member_count++].flags = flags;
  zf_bytes(data, stored);
  if (!behind) return;
  zf_uint(0x08074B50u, 4);
  zf_uint(sum, 4);
  zf_uint(stored, 4);
  zf_uint(whole, 4);
}

static inline void zf_add(const char *name, const void *data, size_t bytes) { zf_raw(name, ZF_STORED, 0, 0, data, bytes, bytes, zf_sum(data, bytes)); }

/* Deflated without being made shorter: blocks of literal bytes. */
static inline void zf_add_deflated(const char *name, const void *data, size_t bytes) {
  static unsigned char blocks[ZF_ROOM];
  enum { BLOCK = 300 };
  size_t count = 0, at = 0;
  do {
    const size_t some = bytes - at < BLOCK ? bytes - at : BLOCK;
    blocks[count] = at + some == bytes;
    blocks[count + 1] = (unsigned char)some;
    blocks[count + 2] = (unsigned char)(some >> 8);
    blocks[count + 3] = (unsigned char)~some;
    blocks[count + 4] = (unsigned char)(~some >> 8);
    if (some) memcpy(blocks + count + 5, (const unsigned char *)data + at, some);
    count += 5 + some;
    at += some;
  } while (at < bytes);
  zf_raw(name, ZF_DEFLATED, 0, 0, blocks, count, bytes, zf_sum(data, bytes));
}

/* wide: sizes and places of 64 bits, in the entries and at the end. */
static inline void zf_end(int wide) {
  zf_directory = zf_count;
  for (int i = 0; i < zf_member_count; ++i) {
    const size_t name_bytes = strlen(zf_members[i].name);
    zf_members[i].entry = zf_count;
    zf_uint(0x02014B50u, 4);
    zf_uint(20, 2);
    zf_uint(20, 2);
    zf_uint((uint64_t)zf_members[i].flags, 2);
    zf_uint((uint64_t)zf_members[i].method, 2);
    zf_uint(0, 4);
    zf_uint(zf_members[i].sum, 4);
    zf_uint(wide ? UINT32_MAX : zf_members[i].stored, 4);
    zf_uint(wide ? UINT32_MAX : zf_members[i].bytes, 4);
    zf_uint(name_bytes, 2);
    zf_uint(wide ? 28 : 0, 2);
    zf_uint(0, 8); /* comment, disk, attributes */
    zf_uint(0, 2);
    zf_uint(wide ? UINT32_MAX : zf_members[i].at, 4);
    zf_bytes(zf_members[i].name, name_bytes);
    if (!wide) continue;
    zf_uint(1, 2);
    zf_uint(24, 2);
    zf_uint(zf_members[i].bytes, 8);
    zf_uint(zf_members[i].stored, 8);
    zf_uint(zf_members[i].at, 8);
  }
  const size_t end = zf_count, count = (size_t)zf_member_count;
  if (wide) {
    zf_uint(0x06064B50u, 4);
    zf_uint(44, 8);
    zf_uint(45, 2);
    zf_uint(45, 2);
    zf_uint(0, 8);
    zf_uint(count, 8);
    zf_uint(count, 8);
    zf_uint(end - zf_directory, 8);
    zf_uint(zf_directory, 8);
    zf_uint(0x07064B50u, 4);
    zf_uint(0, 4);
    zf_uint(end, 8);
    zf_uint(1, 4);
  }
  zf_uint(0x06054B50u, 4);
  zf_uint(0, 4);
  zf_uint(wide ? UINT16_MAX : count, 2);
  zf_uint(wide ? UINT16_MAX : count, 2);
  zf_uint(wide ? UINT32_MAX : end - zf_directory, 4);
  zf_uint(wide ? UINT32_MAX : zf_directory, 4);
  zf_uint(0, 2);
}

/* --- Pickles */

enum { PK_ROOM = 1 << 15 };
static unsigned char pk[PK_ROOM];
static size_t pk_count;

static inline void pk_bytes(const void *bytes, size_t count) {
  memcpy(pk + pk_count, bytes, count);
  pk_count += count;
}

static inline void pk_uint(uint64_t value, int width) {
  for (int i = 0; i < width; ++i) pk[pk_count++] = (unsigned char)(value >> (8 * i));
}

static inline void pk_op(int code) { pk_uint((uint64_t)code, 1); }

static inline void pk_ops(const char *codes) { pk_bytes(codes, strlen(codes)); }

static inline void pk_begin(void) {
  pk_count = 0;
  pk_ops("\x80\x02");
}

static inline void pk_text(const char *s) {
  pk_op('X');
  pk_uint(strlen(s), 4);
  pk_ops(s);
}

static inline void pk_int(int64_t number) {
  if (number >= 0 && number < 256) {
    pk_op('K');
    pk_uint((uint64_t)number, 1);
  } else {
    pk_op(0x8A);
    pk_op(8);
    pk_uint((uint64_t)number, 8);
  }
}

static inline void pk_name(const char *module, const char *name) {
  pk_op('c');
  pk_ops(module);
  pk_ops("\n");
  pk_ops(name);
  pk_ops("\n");
}

static inline void pk_storage(const char *type, const char *key, int64_t elements) {
  pk_op('(');
  pk_text("storage");
  pk_name("torch", type);
  pk_text(key);
  pk_text("cpu");
  pk_int(elements);
  pk_ops("tQ");
}

static inline void pk_extents(int rank, const int64_t *extents) {
  pk_op('(');
  for (int i = 0; i < rank; ++i) pk_int(extents[i]);
  pk_op('t');
}

static inline void pk_tensor(const char *type, const char *key, int64_t elements, int64_t offset, int rank, const int64_t *shape, const int64_t *strides) {
  pk_name("torch._utils", "_rebuild_tensor_v2");
  pk_op('(');
  pk_storage(type, key, elements);
  pk_int(offset);
  pk_extents(rank, shape);
  pk_extents(rank, strides);
  pk_op(0x89);
  pk_name("collections", "OrderedDict");
  pk_ops(")RtR");
}

/* The archive of the pickle that was made. order: NULL = without byteorder. */
static inline void torch_archive(const char *order, const void *storage, size_t bytes) {
  zf_begin();
  zf_raw("m/data.pkl", ZF_STORED, 8, 3, pk, pk_count, pk_count, zf_sum(pk, pk_count));
  if (order) zf_add("m/byteorder", order, strlen(order));
  zf_add("m/data/0", storage, bytes);
  zf_add("m/version", "3\n", 2);
  zf_end(1);
}

/* A file as PyTorch before 1.6 saved it: the pickle that was made, one storage. */
static inline void torch_old_file(const void *storage, uint64_t elements, size_t bytes) {
  static const unsigned char heads[] =
      "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_version"
      "q\x01M\xE9\x03X\x0D\x00\x00\x00little_endianq\x02\x88u.";
  zf_begin();
  zf_bytes(heads, sizeof heads - 1);
  zf_bytes(pk, pk_count);
  zf_bytes(
      "\x80\x02]q\x00X\x01\x00\x00\x00"
      "0q\x01"
      "a.",
      15);
  zf_uint(elements, 8);
  zf_bytes(storage, bytes);
}

/* A state dict as torch saves it: a table with its tied head, a norm in the same storage, another dict around, odds and ends. */
static inline void pk_state_dict(void) {
  static const int64_t table[2] = {3, 4}, rows[2] = {4, 1}, four[1] = {4}, one[1] = {1};
  pk_begin();
  pk_ops("}(");
  pk_text("model");
  pk_name("collections", "OrderedDict");
  pk_ops(")Rq\x01(");
  pk_text("wte.weight");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_text("lm_head.weight");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_text("ln_f.weight");
  pk_tensor("FloatStorage", "0", 12, 8, 1, four, one);
  pk_ops("u}");
  pk_text("_metadata");
  pk_ops("h\x01sb");
  pk_text("step");
  pk_ops("K\x07");
  pk_text("optimizer");
  pk_ops("](");
  pk_tensor("FloatStorage", "0", 12, 4, 1, four, one);
  pk_ops("Ne");
  pk_ops("u.");
}

/* --- TorchScript: as torch/csrc/jit/serialization/pickler.cpp writes a module, whose classes are names of __torch__ */

/* Up to where its attributes begin. */
static inline void pk_object(const char *module, const char *name) {
  pk_name(module, name);
  pk_ops(")\x81}(");
  pk_text("training");
  pk_op(0x89);
  pk_text("_is_full_backward_hook");
  pk_op('N');
}

/* An embedding, a list of layers whose class is named once, a dict and numbers with their types, an object kept as a tuple. */
static inline void pk_script_module(void) {
  static const int64_t table[2] = {3, 4}, rows[2] = {4, 1}, four[1] = {4}, one[1] = {1};
  pk_begin();
  pk_object("__torch__", "Net");
  pk_text("embedding");
  pk_object("__torch__.torch.nn.modules.sparse", "Embedding");
  pk_text("weight");
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("ub");
  pk_text("layers");
  pk_object("__torch__.torch.nn.modules.container", "ModuleList");
  pk_text("0");
  pk_name("__torch__.torch.nn.modules.linear.___torch_mangle_0", "Linear");
  pk_ops("q\x05)\x81}(");
  pk_text("bias");
  pk_tensor("FloatStorage", "0", 12, 4, 1, four, one);
  pk_ops("ub");
  pk_text("1");
  pk_ops("h\x05)\x81}(");
  pk_text("bias");
  pk_tensor("FloatStorage", "0", 12, 8, 1, four, one);
  pk_ops("ubub");
  pk_text("buffers");
  pk_name("torch.jit._pickle", "restore_type_tag");
  pk_ops("(}(");
  pk_text("scale");
  pk_tensor("FloatStorage", "0", 12, 0, 1, four, one);
  pk_op('u');
  pk_text("Dict[str, Tensor]");
  pk_ops("tR");
  pk_text("sizes");
  pk_name("torch.jit._pickle", "build_intlist");
  pk_ops(
      "(](K\x03"
      "K\x04"
      "etR");
  pk_text("kind");
  pk_name("__torch__", "Kind");
  pk_ops("K\x01R"); /* its value alone, no tuple */
  pk_text("packed");
  pk_name("__torch__.torch.classes.quantized", "PackedParams");
  pk_ops(")\x81(");
  pk_tensor("FloatStorage", "0", 12, 0, 1, four, one);
  pk_ops("NtbubX"); /* a text behind the module: nothing of it counts */
  pk_uint(0, 4);
  pk_ops("0.");
}

/* What torch.jit.save puts beside the pickle. */
static inline void script_archive(const void *storage, size_t bytes) {
  static const char code[] = "class Net(Module):\n  def forward(self):\n    import os\n    return os.abort()\n";
  zf_begin();
  zf_raw("m/data.pkl", ZF_STORED, 8, 3, pk, pk_count, pk_count, zf_sum(pk, pk_count));
  zf_add("m/byteorder", "little", 6);
  zf_add("m/data/0", storage, bytes);
  zf_add("m/code/__torch__.py", code, sizeof code - 1);
  zf_add("m/code/__torch__.py.debug_pkl", "\x80\x02(t.", 5);
  zf_add("m/constants.pkl", "\x80\x02).", 4);
  zf_add("m/version", "3\n", 2);
  zf_end(0);
}

#endif
