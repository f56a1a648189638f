/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed integers in safetensors, put down bit by bit by the makers' own descriptions: for the reader's tests, and as seeds of the fuzzers.
 * A matrix is codes[row * dim + column] of `bits` bits. */
#ifndef PACKED_FILE_H
#define PACKED_FILE_H

#include "safetensors_file.h"

enum { PF_ROOM = 1 << 19, PF_HEADER = 8192 };
static unsigned char pf_data[PF_ROOM], pf_file[PF_ROOM + PF_HEADER];
static char pf_header[PF_HEADER];
static size_t pf_count, pf_bytes; /* of the data; of the whole file, once it is made */

static inline void pf_begin(void) {
  pf_count = 0;
  strcpy(pf_header, "{");
}

/* A tensor of zeros; returns its bytes. shape: as JSON has it. */
static inline unsigned char *pf_tensor(const char *name, const char *type, const char *shape, size_t bytes) {
  const size_t at = strlen(pf_header);
  unsigned char *first = pf_data + pf_count;
  memset(first, 0, bytes);
  snprintf(pf_header + at, sizeof pf_header - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", at > 1 ? "," : "", name, type, shape,
           pf_count, pf_count + bytes);
  pf_count += bytes;
  return first;
}

static inline unsigned char *pf_matrix(const char *name, const char *type, int64_t rows, int64_t columns, int width) {
  char shape[64];
  snprintf(shape, sizeof shape, "[%lld,%lld]", (long long)rows, (long long)columns);
  return pf_tensor(name, type, shape, (size_t)(rows * columns * width));
}

static inline unsigned char *pf_vector(const char *name, const char *type, int64_t count, int width) {
  char shape[64];
  snprintf(shape, sizeof shape, "[%lld]", (long long)count);
  return pf_tensor(name, type, shape, (size_t)(count * width));
}

static inline void pf_put(unsigned char *at, uint64_t value, int width) {
  for (int b = 0; b < width; ++b) at[b] = (unsigned char)(value >> 8 * b);
}

/* As often as one likes. */
static inline size_t pf_end(void) {
  const size_t bytes = strlen(pf_header);
  if (bytes < 2 || strcmp(pf_header + bytes - 2, "}}") != 0) strcat(pf_header, "}");
  return pf_bytes = make_safetensors(pf_file, pf_header, 8, pf_data, pf_count);
}

/* Bit `bit` of word `word`. */
static inline void pf_bit(unsigned char *words, int64_t word, int bit, unsigned value) {
  if (value & 1u) words[4 * word + bit / 8] |= (unsigned char)(1 << bit % 8);
}

/* MLX: the bits of a row one after another. */
static inline void pf_along(unsigned char *words, const uint8_t *codes, int64_t rows, int64_t dim, int bits) {
  for (int64_t i = 0; i < rows * dim * bits; ++i) pf_bit(words, i / 32, (int)(i % 32), (unsigned)codes[i / bits] >> i % bits);
}

/* compressed-tensors: 32 / bits codes in a word, what is left of it is nothing. */
static inline void pf_in_words(unsigned char *words, const uint8_t *codes, int64_t rows, int64_t dim, int bits) {
  const int64_t n = 32 / bits, wide = (dim + n - 1) / n;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < dim; ++j)
      for (int b = 0; b < bits; ++b) pf_bit(words, r * wide + j / n, (int)(j % n) * bits + b, (unsigned)codes[r * dim + j] >> b);
}

/* compressed-tensors' zero points [rows, groups]: the same down the rows. */
static inline void pf_down_words(unsigned char *words, const uint8_t *zeros, int64_t rows, int64_t groups, int bits) {
  const int64_t n = 32 / bits;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t g = 0; g < groups; ++g)
      for (int b = 0; b < bits; ++b) pf_bit(words, r / n * groups + g, (int)(r % n) * bits + b, (unsigned)zeros[r * groups + g] >> b);
}

/* GPTQ: words [dim * bits / 32, rows]; the bits of a row go down its column. */
static inline void pf_down(unsigned char *words, const uint8_t *codes, int64_t rows, int64_t dim, int bits) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < dim * bits; ++i) pf_bit(words, i / 32 * rows + r, (int)(i % 32), (unsigned)codes[r * dim + i / bits] >> i % bits);
}

/* GPTQ's zeros [groups, rows * bits / 32]. */
static inline void pf_zeros(unsigned char *words, const uint8_t *zeros, int64_t rows, int64_t groups, int bits) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < rows * bits; ++i) pf_bit(words, g * (rows * bits / 32) + i / 32, (int)(i % 32), (unsigned)zeros[i / bits * groups + g] >> i % bits);
}

/* AWQ: place i of 8 in a word holds column order[i]; words [dim, rows / 8]. Its zeros are a matrix of [rows, groups] put down so. */
static inline void pf_awq(unsigned char *words, const uint8_t *codes, int64_t rows, int64_t dim) {
  static const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int64_t j = 0; j < dim; ++j)
    for (int64_t word = 0; word < rows / 8; ++word)
      for (int i = 0; i < 8; ++i)
        for (int b = 0; b < 4; ++b) pf_bit(words, j * (rows / 8) + word, 4 * i + b, (unsigned)codes[(8 * word + order[i]) * dim + j] >> b);
}

/* Scale i, as its type holds it; different for each i below 1,000. */
static inline double pf_scale(const char *type, int64_t i, unsigned char *at) {
  float value;
  uint32_t word;
  if (!strcmp(type, "F16")) { /* (1024 + i) / 2^13 */
    const int64_t low = i % 1024;
    pf_put(at, 0x3000u + (uint64_t)low, 2);
    return (1024 + (double)low) / 8192;
  }
  value = 0.013f + 0.0007f * (float)(i % 1000);
  memcpy(&word, &value, 4);
  if (!strcmp(type, "BF16")) {
    pf_put(at, word >> 16, 2);
    word &= 0xFFFF0000u;
    memcpy(&value, &word, 4);
    return (double)value;
  }
  pf_put(at, word, 4);
  return (double)value;
}

static inline int pf_width(const char *type) { return !strcmp(type, "F32") ? 4 : 2; }

static inline void pf_codes(uint8_t *codes, int64_t count, int bits, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    codes[i] = (uint8_t)(seed >> 40 & ((1u << bits) - 1));
  }
}

/* Whole small files, one of each kind. */
enum { PF_FIRST_KINDS = 9, PF_KINDS = 16 };
static inline void pf_scales(const char *name, const char *type, int64_t down, int64_t across) {
  unsigned char *at = pf_matrix(name, type, down, across, pf_width(type));
  for (int64_t i = 0; i < down * across; ++i) (void)pf_scale(type, i, at + i * pf_width(type));
}

/* Codes that cross words, forms of a table that are not floats, rows of an odd number of columns. */
static inline void make_other_packed(int kind) {
  enum { ROWS = 8, DIM = 64, GROUPS = 2, MANY = 32, ODD = 13, BLOCK = 16 };
  static const char state[] = "{\"quant_type\":\"fp4\",\"blocksize\":16,\"shape\":[5,13]}";
  static uint8_t codes[MANY * DIM], zeros[MANY * GROUPS];
  unsigned char *at;
  const int bits = kind == 10 ? 8 : kind == 11 || kind == 13 || kind == 15 ? 4 : 3;
  pf_codes(codes, MANY * DIM, bits, 7);
  pf_codes(zeros, MANY * GROUPS, bits, 9);
  pf_begin();
  switch (kind) {
    case 9: /* MLX, three bits; half floats in bfloats */
      pf_along(pf_matrix("model.embed_tokens.weight", "U32", ROWS, DIM * 3 / 32, 4), codes, ROWS, DIM, 3);
      pf_scales("model.embed_tokens.scales", "BF16", ROWS, GROUPS);
      pf_scales("model.embed_tokens.biases", "BF16", ROWS, GROUPS);
      break;
    case 10: /* mxfp8, nvfp4 */
    case 11:
      pf_along(pf_matrix("lm_head.weight", "U32", ROWS, DIM * bits / 32, 4), codes, ROWS, DIM, bits);
      at = pf_matrix("lm_head.scales", "U8", ROWS, kind == 10 ? 2 : 4, 1);
      for (int i = 0; i < ROWS * (kind == 10 ? 2 : 4); ++i) at[i] = (unsigned char)(kind == 10 ? 120 + i : 30 + i);
      break;
    case 12: /* compressed-tensors, words that codes do not fill and a scale for a row, and groups of 32 */
    case 13:
      pf_in_words(pf_matrix("lm_head.weight_packed", "I32", ROWS, kind == 12 ? 7 : 8, 4), codes, ROWS, DIM, bits);
      pf_scales("lm_head.weight_scale", kind == 12 ? "F32" : "BF16", ROWS, kind == 12 ? 1 : GROUPS);
      at = pf_tensor("lm_head.weight_shape", "I32", "[2]", 8);
      pf_put(at, ROWS, 4), pf_put(at + 4, DIM, 4);
      break;
    case 14: /* GPTQ, three bits */
      pf_down(pf_matrix("lm_head.qweight", "I32", DIM * 3 / 32, MANY, 4), codes, MANY, DIM, 3);
      pf_zeros(pf_matrix("lm_head.qzeros", "I32", GROUPS, MANY * 3 / 32, 4), zeros, MANY, GROUPS, 3);
      pf_scales("lm_head.scales", "F16", GROUPS, MANY);
      break;
    default: /* bitsandbytes' fp4; rows begin in the middle of a byte, and so do they in a block */
      at = pf_matrix("lm_head.weight", "U8", (5 * ODD + 1) / 2, 1, 1);
      for (int i = 0; i < 5 * ODD; ++i) at[i / 2] = (unsigned char)(at[i / 2] | codes[i] << (i % 2 ? 0 : 4));
      at = pf_vector("lm_head.weight.absmax", "F32", (5 * ODD + BLOCK - 1) / BLOCK, 4);
      for (int i = 0; i < (5 * ODD + BLOCK - 1) / BLOCK; ++i) (void)pf_scale("F32", i, at + 4 * i);
      at = pf_vector("lm_head.weight.quant_map", "F32", 16, 4);
      for (int i = 0; i < 16; ++i) (void)pf_scale("F32", 60 * i, at + 4 * i);
      at = pf_vector("lm_head.weight.quant_state.bitsandbytes__fp4", "U8", sizeof state - 1, 1);
      memcpy(at, state, sizeof state - 1);
  }
  (void)pf_end();
}

static inline void make_packed(int kind) {
  enum { ROWS = 8, DIM = 64, GROUPS = 2 };
  static uint8_t codes[ROWS * DIM], zeros[ROWS * GROUPS];
  unsigned char *at;
  if (kind >= PF_FIRST_KINDS) {
    make_other_packed(kind);
    return;
  }
  pf_codes(codes, ROWS * DIM, 4, 3);
  pf_codes(zeros, ROWS * GROUPS, 4, 5);
  pf_begin();
  switch (kind) {
    case 0: /* MLX, four bits; a norm tells the bits */
    case 1: /* its floats */
      pf_along(pf_matrix("model.embed_tokens.weight", "U32", ROWS, DIM / 8, 4), codes, ROWS, DIM, 4);
      at = pf_matrix("model.embed_tokens.scales", kind ? "U8" : "F16", ROWS, GROUPS, kind ? 1 : 2);
      for (int i = 0; i < ROWS * GROUPS; ++i) kind ? (void)(at[i] = (unsigned char)(120 + i % 9)) : (void)pf_scale("F16", i, at + 2 * i);
      if (kind) break;
      at = pf_matrix("model.embed_tokens.biases", "F16", ROWS, GROUPS, 2);
      for (int i = 0; i < ROWS * GROUPS; ++i) (void)pf_scale("F16", 100 + i, at + 2 * i);
      (void)pf_vector("model.norm.weight", "F16", DIM, 2);
      break;
    case 2: /* compressed-tensors, with zero points and the groups of columns */
      pf_in_words(pf_matrix("lm_head.weight_packed", "I32", ROWS, DIM / 8, 4), codes, ROWS, DIM, 4);
      at = pf_matrix("lm_head.weight_scale", "BF16", ROWS, GROUPS, 2);
      for (int i = 0; i < ROWS * GROUPS; ++i) (void)pf_scale("BF16", i, at + 2 * i);
      at = pf_tensor("lm_head.weight_shape", "I64", "[2]", 16);
      pf_put(at, ROWS, 8), pf_put(at + 8, DIM, 8);
      pf_down_words(pf_matrix("lm_head.weight_zero_point", "I32", 1, GROUPS, 4), zeros, ROWS, GROUPS, 4);
      at = pf_tensor("lm_head.weight_g_idx", "I32", "[64]", 256);
      for (int j = 0; j < DIM; ++j) pf_put(at + 4 * j, (uint64_t)(j % GROUPS), 4);
      break;
    case 3: /* GPTQ, AWQ */
    case 4:
      at = pf_matrix("lm_head.qweight", "I32", kind == 3 ? DIM / 8 : DIM, kind == 3 ? ROWS : ROWS / 8, 4);
      kind == 3 ? pf_down(at, codes, ROWS, DIM, 4) : pf_awq(at, codes, ROWS, DIM);
      at = pf_matrix("lm_head.qzeros", "I32", GROUPS, ROWS / 8, 4);
      kind == 3 ? pf_zeros(at, zeros, ROWS, GROUPS, 4) : pf_awq(at, zeros, ROWS, GROUPS);
      at = pf_matrix("lm_head.scales", "F16", GROUPS, ROWS, 2);
      for (int i = 0; i < ROWS * GROUPS; ++i) (void)pf_scale("F16", i, at + 2 * i);
      if (kind == 4) break;
      at = pf_tensor("lm_head.g_idx", "I32", "[64]", 256);
      for (int j = 0; j < DIM; ++j) pf_put(at + 4 * j, (uint64_t)(j % GROUPS), 4);
      break;
    case 5: /* bitsandbytes, plain and nested */
    case 6: {
      static const char *const states[] = {"{\"quant_type\":\"nf4\",\"blocksize\":64,\"dtype\":\"bfloat16\",\"shape\":[8,64]}",
                                           "{\"quant_type\":\"nf4\",\"blocksize\":64,\"dtype\":\"bfloat16\",\"shape\":[8,64],\"nested_blocksize\":4,"
                                           "\"nested_dtype\":\"float32\",\"nested_offset\":0.0625}"};
      at = pf_matrix("lm_head.weight", "U8", ROWS * DIM / 2, 1, 1);
      for (int i = 0; i < ROWS * DIM; ++i) at[i / 2] = (unsigned char)(at[i / 2] | codes[i] << (i % 2 ? 0 : 4));
      at = pf_vector("lm_head.weight.absmax", kind == 5 ? "F32" : "U8", ROWS, kind == 5 ? 4 : 1);
      for (int i = 0; i < ROWS; ++i) kind == 5 ? (void)pf_scale("F32", i, at + 4 * i) : (void)(at[i] = (unsigned char)(31 * i));
      at = pf_vector("lm_head.weight.quant_map", "F32", 16, 4);
      for (int i = 0; i < 16; ++i) (void)pf_scale("F32", 60 * i, at + 4 * i);
      at = pf_vector("lm_head.weight.quant_state.bitsandbytes__nf4", "U8", (int64_t)strlen(states[kind - 5]), 1);
      memcpy(at, states[kind - 5], strlen(states[kind - 5]));
      if (kind == 5) break;
      at = pf_vector("lm_head.weight.nested_absmax", "F32", 2, 4);
      for (int i = 0; i < 2; ++i) (void)pf_scale("F32", 10 + i, at + 4 * i);
      at = pf_vector("lm_head.weight.nested_quant_map", "F32", 256, 4);
      for (int i = 0; i < 256; ++i) (void)pf_scale("F32", 3 * i, at + 4 * i);
      break;
    }
    case 7: /* int8: bitsandbytes' scales, compressed-tensors' zero points */
    default:
      at = pf_matrix("lm_head.weight", "I8", ROWS, DIM, 1);
      for (int i = 0; i < ROWS * DIM; ++i) at[i] = (unsigned char)(codes[i] * 16 + i % 16);
      at = pf_tensor(kind == 7 ? "lm_head.SCB" : "lm_head.weight_scale", "F32", kind == 7 ? "[8]" : "[8,1]", 4 * ROWS);
      for (int i = 0; i < ROWS; ++i) (void)pf_scale("F32", i, at + 4 * i);
      if (kind == 7) break;
      at = pf_tensor("lm_head.weight_zero_point", "I8", "[8,1]", ROWS);
      for (int i = 0; i < ROWS; ++i) at[i] = (unsigned char)(17 * i);
  }
  (void)pf_end();
}

#endif
