/* SPDX-License-Identifier: BSD-3-Clause */
/* Small good files of the kinds that hold vectors, put together field by field; tests and the fuzzers' seeds begin with them. */
#ifndef VECTOR_FILES_H
#define VECTOR_FILES_H

#include "files.h"

enum { VF_ROOM = 1 << 15, VF_MARKS = 16 };

static unsigned char vf[VF_ROOM]; /* the file being made; one test runs at a time */
static size_t vf_count;
static size_t vf_mark[VF_MARKS]; /* bytes that tests want to find again */

static inline void vf_bytes(const void *bytes, size_t count) {
  assert_true(vf_count + count <= VF_ROOM);
  memcpy(vf + vf_count, bytes, count);
  vf_count += count;
}

static inline void vf_uint(uint64_t value, int width) {
  for (int i = 0; i < width; ++i) vf_bytes(&(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static inline void vf_i32(int32_t value) { vf_uint((uint32_t)value, 4); }
static inline void vf_i64(int64_t value) { vf_uint((uint64_t)value, 8); }

static inline void vf_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  vf_uint(bits, 4);
}

static inline void vf_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  vf_uint(bits, 8);
}

/* first, first + 0.25, ... */
static inline void vf_ramp(float first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) vf_f32(first + 0.25f * (float)i);
}

static inline void vf_put(size_t at, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) vf[at + (size_t)i] = (unsigned char)(value >> (8 * i));
}

static inline void vf_begin(void) { vf_count = 0; }

/* --- fastText: 3 words, 2 labels (where it has any), 3 columns */

enum { FT_PLAIN, FT_LABELS, FT_QUANTISED, FT_OLDEST, FT_KINDS };
enum { FT_ARGS, FT_COUNTS, FT_ENTRIES, FT_INPUT, FT_OUTPUT, FT_PAIRS };
enum { FT_BUCKETS = 2 };

static inline void ft_entry(const char *name, int64_t count, int kind) {
  vf_bytes(name, strlen(name) + 1);
  vf_i64(count);
  vf_uint((uint64_t)kind, 1);
}

static inline void ft_quantiser(int32_t dim, int32_t parts, int32_t width, int32_t last) {
  vf_i32(dim), vf_i32(parts), vf_i32(width), vf_i32(last);
  vf_ramp(0, 256 * dim);
}

/* Codes 10 * row + part; norms, where there are any, those of row + 4: 1, 1.25, ... */
static inline void ft_quantised(int64_t rows, int normed) {
  vf_uint((uint64_t)normed, 1);
  vf_i64(rows), vf_i64(3), vf_i32((int32_t)(2 * rows));
  for (int64_t i = 0; i < 2 * rows; ++i) vf_uint((uint64_t)(10 * (i / 2) + i % 2), 1);
  ft_quantiser(3, 2, 2, 1);
  if (!normed) return;
  for (int64_t i = 0; i < rows; ++i) vf_uint((uint64_t)(i + 4), 1);
  ft_quantiser(1, 1, 1, 1);
}

/* Element i of the input matrix is i / 4, of the output matrix 100 + i / 4. */
static inline void ft_floats(int64_t rows, float first) {
  vf_i64(rows), vf_i64(3);
  vf_ramp(first, 3 * rows);
}

static inline void make_fasttext(int kind) {
  const int labels = kind == FT_LABELS ? 2 : 0, buckets = kind == FT_LABELS ? 0 : FT_BUCKETS, pruned = kind == FT_QUANTISED ? 1 : -1;
  vf_begin();
  if (kind != FT_OLDEST) vf_i32(793712314), vf_i32(kind == FT_QUANTISED ? 11 : 12);
  vf_mark[FT_ARGS] = vf_count;
  vf_i32(3), vf_i32(5), vf_i32(6), vf_i32(7), vf_i32(8), vf_i32(1);     /* dim ws epoch minCount neg wordNgrams */
  vf_i32(kind == FT_LABELS ? 3 : 2), vf_i32(kind == FT_LABELS ? 3 : 1); /* loss model */
  vf_i32(buckets), vf_i32(2), vf_i32(labels ? 0 : 4), vf_i32(100), vf_f64(1e-4);
  vf_mark[FT_COUNTS] = vf_count;
  vf_i32(3 + labels), vf_i32(3), vf_i32(labels), vf_i64(1000);
  if (kind != FT_OLDEST) vf_i64(pruned);
  vf_mark[FT_ENTRIES] = vf_count;
  ft_entry("</s>", 9, 0), ft_entry("z\xC3\xBCrich", 8, 0), ft_entry("", 7, 0);
  if (labels) ft_entry("__label__a", 2, 1), ft_entry("__label__b", 1, 1);
  vf_mark[FT_PAIRS] = vf_count;
  if (pruned > 0) vf_i32(1), vf_i32(0);
  if (kind != FT_OLDEST) vf_uint(kind == FT_QUANTISED, 1);
  vf_mark[FT_INPUT] = vf_count;
  if (kind == FT_QUANTISED)
    ft_quantised(4, 1);
  else
    ft_floats(3 + buckets, 0);
  if (kind != FT_OLDEST) vf_uint(kind == FT_QUANTISED, 1);
  vf_mark[FT_OUTPUT] = vf_count;
  if (kind == FT_QUANTISED)
    ft_quantised(3, 0);
  else
    ft_floats(labels ? 2 : 3, 100);
}

/* --- finalfusion: 3 words, 4 columns */

enum { FF_PLAIN, FF_QUANTISED, FF_BUCKETS, FF_EXPLICIT, FF_LONE, FF_KINDS };
enum { FF_VOCABULARY, FF_ARRAY, FF_METADATA, FF_CODES };

static inline size_t ff_chunk(uint32_t kind) {
  vf_uint(kind, 4);
  vf_i64(0);
  return vf_count;
}

static inline void ff_end(size_t first) { vf_put(first - 8, vf_count - first, 8); }

static inline void ff_word(const char *word) {
  vf_uint(strlen(word), 4);
  vf_bytes(word, strlen(word));
}

static inline void ff_pad(void) {
  for (size_t padding = 4 - vf_count % 4; padding; --padding) vf_uint(0, 1);
}

static inline void ff_vocabulary(int kind) {
  static const uint32_t chunks[] = {1, 1, 3, 8};
  const size_t first = ff_chunk(chunks[kind]);
  vf_mark[FF_VOCABULARY] = first;
  vf_i64(3);
  if (kind == FF_EXPLICIT) vf_i64(2);
  if (kind == FF_BUCKETS || kind == FF_EXPLICIT) vf_uint(3, 4), vf_uint(6, 4);
  if (kind == FF_BUCKETS) vf_uint(1, 4); /* 2^1 */
  ff_word("Berlin"), ff_word("z\xC3\xBCrich"), ff_word("x");
  if (kind == FF_EXPLICIT) ff_word("<Be"), vf_i64(0), ff_word("in>"), vf_i64(1);
  ff_end(first);
}

/* Rows of 4 columns in 2 parts of 3 centroids, [c, c + 0.25] with c = 0, 0.5, ..; a projection that turns columns round; norms 2, 2.25 .. */
static inline void ff_quantised(void) {
  const size_t first = ff_chunk(4);
  vf_mark[FF_ARRAY] = first;
  vf_uint(1, 4), vf_uint(1, 4), vf_uint(2, 4), vf_uint(4, 4), vf_uint(3, 4), vf_i64(3), vf_uint(1, 4), vf_uint(10, 4);
  ff_pad();
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) vf_f32(i + j == 3);
  vf_ramp(0, 2 * 3 * 2);
  vf_ramp(2, 3);
  vf_mark[FF_CODES] = vf_count;
  vf_bytes("\0\1\2\0\1\2", 6);
  ff_end(first);
}

static inline void ff_array(int64_t rows) {
  const size_t first = ff_chunk(2);
  vf_mark[FF_ARRAY] = first;
  vf_i64(rows), vf_uint(4, 4), vf_uint(10, 4);
  ff_pad();
  vf_ramp(0, 4 * rows);
  ff_end(first);
}

static inline void make_finalfusion(int kind) {
  static const char toml[] = "[common]\nname = \"x\"\n";
  static const uint32_t vocabularies[] = {1, 1, 3, 8};
  vf_begin();
  if (kind == FF_LONE) {
    ff_array(3);
    return;
  }
  vf_bytes("FiFu", 4), vf_uint(0, 4), vf_uint(kind == FF_PLAIN ? 4 : 2, 4);
  if (kind == FF_PLAIN) vf_uint(5, 4);
  vf_uint(vocabularies[kind], 4), vf_uint(kind == FF_QUANTISED ? 4 : 2, 4);
  if (kind == FF_PLAIN) vf_uint(6, 4);
  if (kind == FF_PLAIN) {
    const size_t first = ff_chunk(5);
    vf_mark[FF_METADATA] = first;
    vf_bytes(toml, sizeof toml - 1);
    ff_end(first);
  }
  ff_vocabulary(kind);
  if (kind == FF_QUANTISED)
    ff_quantised();
  else
    ff_array(kind == FF_PLAIN ? 3 : 5);
  if (kind == FF_PLAIN) {
    const size_t first = ff_chunk(6);
    vf_i64(3), vf_uint(10, 4);
    ff_pad();
    vf_ramp(1, 3);
    ff_end(first);
  }
}

/* --- llama2.c: dim 4, hidden 6, 2 layers, 2 heads, 1 of keys, 3 tokens, 2 positions; with a head of its own where untied */

static inline void l2_numbers(int vocab) { vf_i32(4), vf_i32(6), vf_i32(2), vf_i32(2), vf_i32(1), vf_i32(vocab), vf_i32(2); }

static inline void l2_groups(float scale, int64_t weights) {
  for (int64_t i = 0; i < weights; ++i) vf_uint((uint64_t)(uint8_t)(i - 3), 1);
  for (int64_t i = 0; i < weights / 2; ++i) vf_f32(scale);
}

/* The table's element i is i / 4, the head's 50 + i / 4; in version 2 (i - 3) * 0.5 and (i - 3) * 2. */
static inline void make_llama2c(int version, int untied) {
  enum { ATTENTION = 2 * (4 * 4 + 2 * 2 * 4 + 4 * 4), FORWARD = 2 * 3 * 6 * 4 };
  vf_begin();
  if (version == 0) {
    l2_numbers(untied ? -3 : 3);
    vf_ramp(0, 12), vf_ramp(1, 8), vf_ramp(0, ATTENTION), vf_ramp(1, 8), vf_ramp(0, FORWARD), vf_ramp(7, 4), vf_ramp(0, 4);
    if (untied) vf_ramp(50, 12);
    return;
  }
  vf_uint(0x616b3432, 4), vf_i32(version);
  l2_numbers(3);
  vf_uint((uint64_t)!untied, 1);
  if (version == 2) vf_i32(2);
  while (vf_count < 256) vf_uint(0, 1);
  vf_ramp(1, 16), vf_ramp(7, 4);
  if (version == 1) {
    vf_ramp(0, 12), vf_ramp(0, ATTENTION + FORWARD);
    if (untied) vf_ramp(50, 12);
    return;
  }
  l2_groups(0.5f, 12);
  for (int layer = 0; layer < 2; ++layer)
    l2_groups(1, 16), l2_groups(1, 8), l2_groups(1, 8), l2_groups(1, 16), l2_groups(1, 24), l2_groups(1, 24), l2_groups(1, 24);
  if (untied) l2_groups(2, 12);
}

static inline void l2_token(const char *token) {
  vf_f32(0), vf_i32((int32_t)strlen(token));
  vf_bytes(token, strlen(token));
}

static inline void make_llama2c_tokens(void) {
  vf_begin();
  vf_i32(7);
  l2_token("<unk>"), l2_token("\n<s>\n"), l2_token("");
}

/* --- Model2Vec: 2 rows of 3 columns, int8; 4 tokens */

enum { M2V_INT8, M2V_MAPPED, M2V_MAPPED_HALF, M2V_WEIGHTED, M2V_KINDS };

/* embeddings: 1, -2, 3, -4, 5, -6, as f16 where half; mapping 1 0 1 1; weights 1, 0.5, 0.25, 2 (the first 2 without a mapping). */
static inline void make_model2vec(int kind) {
  static const char *const headers[M2V_KINDS] = {
      "{\"embeddings\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}",
      ("{\"weights\":{\"dtype\":\"F64\",\"shape\":[4],\"data_offsets\":[0,32]},\"embeddings\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[32,38]},"
       "\"mapping\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[38,54]}}"),
      "{\"mapping\":{\"dtype\":\"I64\",\"shape\":[4],\"data_offsets\":[0,32]},\"embeddings\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[32,44]}}",
      "{\"weights\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"embeddings\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[8,14]}}"};
  static const int mapping[] = {1, 0, 1, 1};
  static const float weights[] = {1, 0.5f, 0.25f, 2};
  static const unsigned halves[] = {0x3C00, 0xC000, 0x4200, 0xC400, 0x4500, 0xC600};
  vf_begin();
  vf_i64((int64_t)strlen(headers[kind]));
  vf_bytes(headers[kind], strlen(headers[kind]));
  for (int i = 0; kind == M2V_MAPPED && i < 4; ++i) vf_f64((double)weights[i]);
  for (int i = 0; kind == M2V_MAPPED_HALF && i < 4; ++i) vf_i64(mapping[i]);
  for (int i = 0; kind == M2V_WEIGHTED && i < 2; ++i) vf_f32(weights[i + 1]);
  if (kind == M2V_MAPPED_HALF)
    for (int i = 0; i < 6; ++i) vf_uint(halves[i], 2);
  else
    vf_bytes("\x01\xFE\x03\xFC\x05\xFA", 6);
  vf_mark[0] = vf_count;
  for (int i = 0; kind == M2V_MAPPED && i < 4; ++i) vf_i32(mapping[i]);
}

/* --- What every kind must stand */

/* Every beginning of the file, mapped and copied. */
static inline void vf_survives_cuts(embed_context *ctx, const char *name, const char *format) {
  for (size_t count = 1; count < vf_count; ++count) {
    embed_file_options o = {.size = sizeof o, .format = format, .flags = count % 2 ? EMBED_FILE_COPY : 0};
    const char *path = write_file(name, vf, count);
    if (try_file(ctx, path, &o) == EMBED_OK) fail_msg("%s is a file when cut at byte %zu", name, count);
    assert_true(embed_error_at(ctx) <= (int64_t)count);
  }
}

/* Each bit of the bytes turned round, and each byte set to what its neighbours in a count may not be. */
static inline void vf_survives_flips(embed_context *ctx, const char *name, const char *format, size_t first, size_t end) {
  static const unsigned char values[] = {0, 0x7F, 0x80, 0xFF};
  static unsigned char bad[VF_ROOM];
  for (size_t i = first; i < end; ++i)
    for (int v = 0; v < 12; ++v) {
      embed_file_options o = {.size = sizeof o, .format = format, .flags = v % 2 ? EMBED_FILE_COPY : 0};
      memcpy(bad, vf, vf_count);
      bad[i] = (unsigned char)(v < 8 ? bad[i] ^ 1 << v : values[v - 8]);
      (void)try_file(ctx, write_file(name, bad, vf_count), &o);
    }
  unlink(path_of(name));
}

static inline embed_file *vf_open(embed_context *ctx, const char *name, const char *format) {
  embed_file_options o = {.size = sizeof o, .format = format};
  return open_file(ctx, write_file(name, vf, vf_count), &o);
}

static inline void vf_refused(embed_context *ctx, const char *name, const char *format, embed_status status, int64_t at, const char *says) {
  embed_file_options o = {.size = sizeof o, .format = format};
  refused(ctx, write_file(name, vf, vf_count), &o, status, at, says);
}

#ifdef TEST_SOURCE_DIR /* the seeds have none */
/* A file of the shared data; skips the test where there is none. Valid until the next call. */
static inline const char *vf_shared(const char *folder, const char *name) {
  static char path[8192];
  const char *shared = test_shared(TEST_SOURCE_DIR);
  if (!shared) skip();
  snprintf(path, sizeof path, "%s/%s/%s", shared, folder, name);
  return path;
}
#endif

static inline int64_t vf_role(embed_context *ctx, const embed_file *f, embed_role role) {
  int64_t i = -2;
  assert_int_equal(embed_file_role(ctx, f, role, &i), EMBED_OK);
  return i;
}

/* Row r of tensor i of a file, which has so many columns. */
static inline void vf_row_is(embed_context *ctx, const embed_file *f, int64_t i, int64_t row, const float *want, int64_t dim) {
  float got[64];
  embed_table *t = NULL;
  if (embed_file_table(ctx, f, i, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_int_equal(embed_table_dim(t), dim);
  assert_true(dim <= 64);
  assert_int_equal(embed_table_get_rows(ctx, t, &row, 1, got, EMBED_F32, 0), EMBED_OK);
  assert_memory_equal(got, want, (size_t)dim * sizeof *got);
  embed_table_release(t);
}

static inline void vf_token_is(embed_context *ctx, const embed_file *f, int64_t id, const char *want) {
  int64_t bytes = -1, found = -1;
  const char *token = embed_file_token(f, id, &bytes);
  assert_non_null(token);
  assert_int_equal(bytes, strlen(want));
  assert_memory_equal(token, want, (size_t)bytes);
  assert_int_equal(embed_file_token_id(ctx, f, want, bytes, &found), EMBED_OK);
  assert_int_equal(found, id);
}

static inline const char *vf_metadata(embed_context *ctx, const embed_file *f, const char *key) {
  const char *k, *value;
  int64_t bytes;
  for (int64_t i = 0; embed_file_metadata(ctx, f, i, &k, &value, &bytes) == EMBED_OK; ++i)
    if (!strcmp(k, key)) return value;
  return "";
}

#endif
