/* SPDX-License-Identifier: BSD-3-Clause */
/* GGUF files written field by field, each of which may be wrong. */
#ifndef GGUF_FILE_H
#define GGUF_FILE_H

#include "files.h"

enum { GG_ROOM = 1 << 20 };
enum { GG_U8, GG_I8, GG_U16, GG_I16, GG_U32, GG_I32, GG_F32, GG_BOOL, GG_STRING, GG_ARRAY, GG_U64, GG_I64, GG_F64 };

static unsigned char gg[GG_ROOM]; /* the file being made; one test runs at a time */
static size_t gg_count;

static inline void gg_bytes(const void *bytes, size_t count) {
  assert_true(gg_count + count <= GG_ROOM);
  memcpy(gg + gg_count, bytes, count);
  gg_count += count;
}

static int gg_big_endian; /* numbers of files made from now on; 0 after each test */

static inline void gg_uint(uint64_t value, int width) {
  for (int i = 0; i < width; ++i) gg_bytes(&(unsigned char){(unsigned char)(value >> (8 * (gg_big_endian ? width - 1 - i : i)))}, 1);
}

static inline void gg_u32(uint32_t value) { gg_uint(value, 4); }
static inline void gg_u64(uint64_t value) { gg_uint(value, 8); }

static inline void gg_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  gg_u32(bits);
}

static inline void gg_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  gg_u64(bits);
}

static inline void gg_string(const char *s, size_t bytes) {
  gg_u64(bytes);
  gg_bytes(s, bytes);
}

static inline void gg_begin(uint32_t version, uint64_t tensors, uint64_t pairs) {
  gg_count = 0;
  gg_bytes("GGUF", 4);
  gg_u32(version);
  gg_u64(tensors);
  gg_u64(pairs);
}

/* The value comes behind it. */
static inline void gg_key(const char *key, uint32_t kind) {
  gg_string(key, strlen(key));
  gg_u32(kind);
}

static inline void gg_pair_string(const char *key, const char *value) {
  gg_key(key, GG_STRING);
  gg_string(value, strlen(value));
}

static inline void gg_pair_u32(const char *key, uint32_t value) {
  gg_key(key, GG_U32);
  gg_u32(value);
}

static inline void gg_array(const char *key, uint32_t kind, uint64_t count) {
  gg_key(key, GG_ARRAY);
  gg_u32(kind);
  gg_u64(count);
}

static inline void gg_tokens(const char *const *tokens, uint64_t count) {
  gg_array("tokenizer.ggml.tokens", GG_STRING, count);
  for (uint64_t i = 0; i < count; ++i) gg_string(tokens[i], strlen(tokens[i]));
}

/* columns first, as the file has them */
static inline void gg_tensor(const char *name, uint32_t rank, const uint64_t *extents, uint32_t type, uint64_t offset) {
  gg_string(name, strlen(name));
  gg_u32(rank);
  for (uint32_t i = 0; i < rank; ++i) gg_u64(extents[i]);
  gg_u32(type);
  gg_u64(offset);
}

static inline void gg_pad(size_t alignment) {
  while (gg_count % alignment) gg_bytes("", 1);
}

static inline const char *gg_written(void) { return write_file("gguf", gg, gg_count); }

/* Values 0.5, 1.5, -2.5, ... that differ from place to place. */
static inline float gg_value(int64_t i) { return (float)(i % 3 == 2 ? -i : i) + 0.5f; }

static inline void gg_floats(int64_t count, int64_t first) {
  for (int64_t i = 0; i < count; ++i) gg_f32(gg_value(first + i));
}

#define TABLE "token_embd.weight"

/* The file of one table [rows, columns] of floats whose tensor begins at byte 69 (version 3, architecture "llama"). */
static inline void gg_simple(uint64_t columns, uint64_t rows) {
  gg_begin(3, 1, 1);
  gg_pair_string("general.architecture", "llama");
  gg_tensor(TABLE, 2, (const uint64_t[]){columns, rows}, 0, 0);
  gg_pad(32);
  gg_floats((int64_t)(columns * rows), 0);
}

/* Rows of gg_floats from number `first` on. */
static inline void rows_are(embed_context *ctx, const embed_table *t, int64_t rows, int64_t dim, int64_t first) {
  float got[64];
  assert_true(rows * dim <= 64);
  assert_int_equal(embed_table_rows(t), rows);
  assert_int_equal(embed_table_dim(t), dim);
  read_rows(ctx, t, got);
  for (int64_t i = 0; i < rows * dim; ++i) assert_true(got[i] == gg_value(first + i));
}

static inline void gg_close(embed_context *ctx, embed_file *f) {
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

#endif
