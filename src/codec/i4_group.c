/* SPDX-License-Identifier: BSD-3-Clause */
/* Per group of 32, 64 or 128 columns a half-float scale, then group / 2 bytes: within 32 columns byte j holds column j
 * in its low and column j + 16 in its high nibble; value = scale * (nibble - 8). Encoded as ggml's Q4_0 does
 * (ggml-quants.c): scale = the value of largest magnitude / -8, nibble = min(15, trunc(x / scale + 8.5)). A short last
 * group is stored whole, its missing columns as zeros. */
#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "core/half.h"

static int64_t group_bytes(int32_t group) { return 2 + group / 2; }

/* Where column c of a group has its nibble. */
static int64_t byte_of(int64_t c) { return 2 + c / 32 * 16 + c % 16; }
static int shift_of(int64_t c) { return c % 32 < 16 ? 0 : 4; }

static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  if (embed__decoded_by_kernel(k, EMBED__FORM_i4_group, row, out, dim, group, scale)) return;
  const unsigned char *bytes = row;
  for (int64_t first = 0; first < dim; first += group, bytes += group_bytes(group)) {
    float d = embed__f32_of_f16(embed__le_u16(bytes));
    int64_t columns = dim - first < group ? dim - first : group;
    for (int64_t c = 0; c < columns; ++c) {
      int nibble = (bytes[byte_of(c)] >> shift_of(c)) & 15;
      out[first + c] = d * (float)(nibble - 8) * scale;
    }
  }
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  for (int64_t j = 0; j < dim; ++j)
    if (!isfinite(row[j])) return false;
  unsigned char *bytes = out;
  for (int64_t first = 0; first < dim; first += group, bytes += group_bytes(group)) {
    int64_t columns = dim - first < group ? dim - first : group;
    float extreme = 0;
    for (int64_t c = 0; c < columns; ++c)
      if (fabsf(row[first + c]) > fabsf(extreme)) extreme = row[first + c];
    float d = extreme / -8.0f, inverse = d != 0 ? 1.0f / d : 0;
    uint16_t half = embed__f16_of_f32(d);
    if ((half & 0x7FFFu) >= 0x7C00u) return false; /* the scale is past the half float's range */
    if (!isfinite(inverse)) inverse = 0;           /* a group of subnormals: its scale rounds to zero */
    memset(bytes, 0, (size_t)group_bytes(group));
    embed__put_le_u16(bytes, half);
    for (int64_t c = 0; c < group; ++c) {
      float x = c < columns ? row[first + c] * inverse : 0;
      float place = noise && c < columns ? floorf(x + 8.0f + embed__noise_at(noise, first + c)) : truncf(x + 8.5f);
      int nibble = (int)fminf(15, fmaxf(0, place));
      bytes[byte_of(c)] |= (unsigned char)(nibble << shift_of(c));
    }
  }
  return true;
}

const embed__codec embed__codec_i4_group = {-1, true, true, decode, encode, EMBED__FORM_i4_group};
