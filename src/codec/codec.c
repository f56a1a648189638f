/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec.h"

#include "core/philox.h"

const embed__codec *embed__codec_find(embed_dtype t) {
  switch (t) {
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) \
  case constant:                                                           \
    return &embed__codec_##codec;
#include "core/dtypes.def"
#undef DTYPE
    default: return NULL;
  }
}

float embed__noise_at(const embed__noise *noise, int64_t column) {
  uint64_t element = noise->row * (uint64_t)noise->dim + (uint64_t)column;
  uint32_t words[4];
  embed__random_quad(noise->seed, EMBED__STREAM_ROUND, element >> 2, words);
  return (float)(words[element & 3] >> 8) * 0x1p-24f;
}
