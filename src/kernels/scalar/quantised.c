/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of panels of quantised rows and of their products. */
#include <math.h>

#include "kernels/quantised_x.h"

static float half_at(const unsigned char *at) { return embed__f32_of_f16(embed__le_u16(at)); }

/* u of a column of a stored row; at: the row's block that the column is in, j: the column's place in it. */
static unsigned u_at(embed__panel_form form, const unsigned char *at, int64_t j, int32_t group) {
  int64_t l = j % 32, place = j / 32;
  switch (form) {
    case EMBED__PANEL_I8: return at[j] ^ 128u;
    case EMBED__PANEL_Q8_0: return at[2 + j] ^ 128u;
    case EMBED__PANEL_I4:
    case EMBED__PANEL_Q4_0: return at[2 + place * 16 + l % 16] >> (l < 16 ? 0 : 4) & 15u;
    case EMBED__PANEL_Q4_K: return at[16 + 32 * (place / 2) + l] >> 4 * (place % 2) & 15u;
    case EMBED__PANEL_Q5_K: return (at[48 + 32 * (place / 2) + l] >> 4 * (place % 2) & 15u) | (at[16 + l] >> place & 1u) << 4;
    default: {
      int64_t n = place / 4, g = place % 4;
      (void)group;
      return (at[64 * n + 32 * (g % 2) + l] >> 4 * (g / 2) & 15u) | (at[128 + 32 * n + l] >> 2 * g & 3u) << 4;
    }
  }
}

/* Columns of the stored blocks that u_at counts in. */
static int64_t stored_columns(embed__panel_form form, int32_t group) {
  scaling how = scaling_of(form);
  return how == WITH_OFFSET || how == PER_HALF ? BLOCK_COLUMNS * K_BLOCKS : group_columns(form, group);
}

static unsigned u_of_row(embed__panel_form form, const unsigned char *row, int64_t column, int64_t dim, int32_t group) {
  int64_t columns = stored_columns(form, group);
  if (form == EMBED__PANEL_I8 && column >= dim) return 128;
  return u_at(form, row + stored_block(form, column / BLOCK_COLUMNS, group), column % columns, group);
}

static void pack_scales(embed__panel_form form, const unsigned char *row, int64_t r, int64_t first, int64_t here, int32_t group, unsigned char *to) {
  const int64_t each = group_columns(form, group) / BLOCK_COLUMNS;
  unsigned char *halves = to + here / K_BLOCKS * HEADER_BYTES;
  for (int64_t b = 0; b < here; ++b) {
    const unsigned char *at = row + stored_block(form, first + b, group);
    if (scaling_of(form) == PER_BLOCK) {
      memcpy(to + 2 * (b / each * ROWS + r), at, 2);
    } else if (b % K_BLOCKS == 0) {
      for (int w = 0; w < 4; ++w) memcpy(to + b / K_BLOCKS * HEADER_BYTES + 4 * (w * ROWS + r), at + (form == EMBED__PANEL_Q6_K ? 192 : 0) + 4 * w, 4);
      if (form == EMBED__PANEL_Q6_K) memcpy(halves + 2 * (b / K_BLOCKS * ROWS + r), at + 208, 2);
    }
  }
}

static void pack(embed__panel_form form, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, unsigned char *panel) {
  const int64_t blocks = blocks_of(dim);
  memset(panel, 0, (size_t)quantised_bytes(form, dim, group));
  for (int64_t r = 0; r < ROWS; ++r) {
    const unsigned char *row = rows + (r < count ? r : 0) * row_bytes;
    if (r < count && scaling_of(form) == PER_ROW) memcpy(panel + 4 * r, row + dim, 4);
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
      int64_t here = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
      unsigned char *chunk = panel + chunk_at(form, first, group), *payload = chunk + scale_bytes(form, here, group);
      if (r < count && scaling_of(form) != PER_ROW) pack_scales(form, row, r, first, here, group, chunk);
      for (int64_t j = 0; j < here * BLOCK_COLUMNS; ++j) {
        int64_t b = j / BLOCK_COLUMNS, g = j % BLOCK_COLUMNS / 4, c = j % 4;
        unsigned u = u_of_row(form, row, first * BLOCK_COLUMNS + j, dim, group);
        if (in_nibbles(form))
          payload[b * BLOCK_BYTES / 2 + g % 4 * 64 + 4 * r + c] |= (unsigned char)(u << (g < 4 ? 0 : 4));
        else
          payload[b * BLOCK_BYTES + g * 64 + 4 * r + c] = (unsigned char)u;
      }
    }
  }
}

/* A lane of a block. */
typedef struct lane_block {
  unsigned u[BLOCK_COLUMNS];
  float scale[HALVES], rest;
  int32_t center;
} lane_block;

/* a * v of a whole number, as levels have it that take v as the low bits of 2^23 + v. */
static float times_magic(float a, uint32_t v) { return fmaf(0x1p23f + (float)v, a, a * -0x1p23f); }

/* Of a form with offsets. */
static void set_center(embed__panel_form form, float d, float dmin, uint32_t step, uint32_t offset, lane_block *lane) {
  const float magic = 0x1.8p23f, most = magic + (float)most_u(form), quotient = dmin / d, ratio = quotient > 0 ? quotient : 0;
  float center = fmaf(times_magic(ratio, offset), 1.0f / (float)step, magic);
  center = (center < most ? center : most) - magic;
  lane->center = (int32_t)center;
  lane->scale[0] = times_magic(d, step);
  lane->rest = fmaf(-center, lane->scale[0], times_magic(dmin, offset));
}

static lane_block lane_at(embed__panel_form form, const unsigned char *panel, int64_t block, int64_t r, int64_t dim, int32_t group) {
  const int64_t b = block % CHUNK_BLOCKS, first = block - b, blocks = blocks_of(dim), here = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
  const unsigned char *scales = panel + chunk_at(form, first, group), *payload = scales + scale_bytes(form, here, group) + b * bytes_of_block(form);
  const unsigned char *k_block = scales + b / K_BLOCKS * HEADER_BYTES + 4 * r;
  lane_block lane = {.rest = 0};
  uint32_t word[4], step, offset;
  for (int64_t j = 0; j < BLOCK_COLUMNS; ++j) {
    int64_t g = j / 4, c = j % 4;
    lane.u[j] = in_nibbles(form) ? payload[g % 4 * 64 + 4 * r + c] >> (g < 4 ? 0 : 4) & 15u : payload[g * 64 + 4 * r + c];
  }
  switch (scaling_of(form)) {
    case PER_ROW: lane.scale[0] = embed__le_f32(panel + 4 * r); break;
    case PER_BLOCK: lane.scale[0] = half_at(scales + 2 * (b * BLOCK_COLUMNS / group_columns(form, group) * ROWS + r)); break;
    case WITH_OFFSET:
      for (int w = 0; w < 4; ++w) word[w] = embed__le_u16(k_block + 64 * w) | (uint32_t)embed__le_u16(k_block + 64 * w + 2) << 16;
      six_bits(word, (int)(b % K_BLOCKS), &step, &offset);
      set_center(form, half_at(k_block), half_at(k_block + 2), step, offset, &lane);
      break;
    case PER_HALF:
      for (int h = 0; h < HALVES; ++h) {
        int64_t i = b % K_BLOCKS * HALVES + h;
        float d = half_at(scales + here / K_BLOCKS * HEADER_BYTES + 2 * (b / K_BLOCKS * ROWS + r));
        lane.scale[h] = d * (float)(int8_t)k_block[i / 4 * 64 + i % 4];
      }
  }
  return lane;
}

/* The sums of a lane's halves of a block with a row of digits, v of a tile of so many: of WITH_OFFSET less the center, else less the zero. */
static void isums(embed__panel_form form, const lane_block *lane, const int32_t *record, int64_t width, int64_t v, int32_t isum[HALVES]) {
  const int32_t zero = scaling_of(form) == WITH_OFFSET ? lane->center : zero_of(form);
  int8_t digit[BLOCK_COLUMNS];
  for (int g = 0; g < 8; ++g) memcpy(digit + 4 * g, record + g * width + v, 4);
  isum[0] = isum[1] = 0;
  for (int j = 0; j < BLOCK_COLUMNS; ++j) isum[2 * j / BLOCK_COLUMNS] += ((int32_t)lane->u[j] - zero) * digit[j];
}

static float float_at(const int32_t *record, int at, int64_t width) {
  float value;
  memcpy(&value, record + at * width, 4);
  return value;
}

/* A hidden row's limbs are a tile. */
static float exact_sum(embed__panel_form form, const lane_block *lane, int64_t blocks, const int32_t *record, int limbs, float sum) {
  const scaling how = scaling_of(form);
  const float by = float_at(record, AT_SCALE, limbs);
  float chain = 0;
  int32_t all[MOST_LIMBS] = {0};
  for (int64_t b = 0; b < blocks; ++b) {
    const int32_t *const at = record + RECORD_WORDS * limbs * b;
    float whole[HALVES] = {0};
    for (int l = 0; l < limbs; ++l) {
      int32_t isum[HALVES];
      isums(form, &lane[b], at, limbs, l, isum);
      all[l] += isum[0] + isum[1];
      if (how != PER_HALF) isum[0] += isum[1];
      for (int h = 0; h < HALVES; ++h) whole[h] = l == 0 ? (float)isum[h] : fmaf((float)isum[h], unit_of_limb(l), whole[h]);
    }
    chain = fmaf(whole[0], lane[b].scale[0], chain);
    if (how == PER_HALF) chain = fmaf(whole[1], lane[b].scale[1], chain);
    if (how == WITH_OFFSET) chain = fmaf(-lane[b].rest, float_at(at, AT_B, limbs), chain);
  }
  if (how != PER_ROW) return fmaf(chain, by, sum);
  for (int l = 0; l < limbs; ++l) sum = fmaf((float)all[l] * float_at(record + l, AT_SCALE, limbs), lane[0].scale[0], sum);
  return sum;
}

static float rounded_sum(embed__panel_form form, const lane_block *lane, int64_t blocks, const int32_t *record, float sum) {
  const scaling how = scaling_of(form);
  float chain = 0;
  for (int64_t b = 0; b < blocks; ++b, record += RECORD_WORDS) {
    const float by = float_at(record, AT_SCALE, 1);
    int32_t isum[HALVES];
    isums(form, &lane[b], record, 1, 0, isum);
    if (how == PER_ROW)
      chain = fmaf((float)(isum[0] + isum[1]), by, chain);
    else if (how == PER_HALF)
      chain = fmaf((float)isum[1] * by, lane[b].scale[1], fmaf((float)isum[0] * by, lane[b].scale[0], chain));
    else
      chain = fmaf((float)(isum[0] + isum[1]) * by, lane[b].scale[0], chain);
    if (how == WITH_OFFSET) chain = fmaf(-lane[b].rest, float_at(record, AT_B, 1), chain);
  }
  return how == PER_ROW ? fmaf(chain, lane[0].scale[0], sum) : sum + chain;
}

static void multiply_panel(embed__panel_form form, embed__activation activation, const unsigned char *panel, int64_t lanes, digits x, int64_t n, int64_t dim,
                           int32_t group, float *z, int64_t ldz) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t r = 0; r < lanes; ++r) z[i * ldz + r] = 0;
  for (int64_t first = 0; first < x.blocks; first += CHUNK_BLOCKS) {
    for (int64_t r = 0; r < lanes; ++r) {
      lane_block lane[CHUNK_BLOCKS];
      int64_t here = x.blocks - first < CHUNK_BLOCKS ? x.blocks - first : CHUNK_BLOCKS;
      for (int64_t b = 0; b < here; ++b) lane[b] = lane_at(form, panel, first + b, r, dim, group);
      for (const digit_tile *t = x.tile; t < x.tile + x.tiles; ++t) {
        const int32_t *record = x.record + RECORD_WORDS * (t->first * x.blocks + t->limbs * first);
        float *sum = z + t->hidden[0] * ldz + r;
        *sum = activation == EMBED__EXACT ? exact_sum(form, lane, here, record, t->limbs, *sum) : rounded_sum(form, lane, here, record, *sum);
      }
    }
  }
}

static void multiply(embed__panel_form form, embed__activation activation, const unsigned char *panels, int64_t stride, int64_t count, const void *packed,
                     int64_t n, int64_t dim, int32_t group, float *z, int64_t ldz) {
  for (int64_t r = 0; r < count; r += ROWS)
    multiply_panel(form, activation, panels + r / ROWS * stride, count - r < ROWS ? count - r : ROWS, digits_at(packed, n, dim), n, dim, group, z + r, ldz);
}

static int64_t x_bytes_exact(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return digits_bytes(n, dim, EMBED__EXACT);
}
static int64_t x_bytes_rounded(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return digits_bytes(n, dim, EMBED__ROUNDED_Q8_0);
}

#define FORM(name, form)                                                                                                                 \
  static int64_t bytes_##name(int64_t dim, int32_t group) { return quantised_bytes(form, dim, group); }                                  \
  static void pack_##name(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming) { \
    (void)streaming;                                                                                                                     \
    pack(form, rows, row_bytes, count, dim, group, panel);                                                                               \
  }                                                                                                                                      \
  MULTIPLIER(name, form, exact, EMBED__EXACT)                                                                                            \
  MULTIPLIER(name, form, rounded, EMBED__ROUNDED_Q8_0)
#define MULTIPLIER(name, form, kind, activation)                                                                                                  \
  static void pack_##kind##_##name(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {                            \
    (void)group;                                                                                                                                  \
    pack_digits(form, activation, 1, 0, x, ldx, n, dim, packed);                                                                                  \
  }                                                                                                                                               \
  static void multiply_##kind##_##name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, \
                                       int32_t group, float *z, int64_t ldz) {                                                                    \
    (void)soon;                                                                                                                                   \
    multiply(form, activation, rows, stride, count, packed, n, dim, group, z, ldz);                                                               \
  }

QUANTISED_FORMS(FORM)

#define USE(name, form)                                                                                           \
  k->bytes[form] = bytes_##name;                                                                                  \
  k->pack[form] = pack_##name;                                                                                    \
  k->prepared[form][EMBED__EXACT] = (embed__multiplier){x_bytes_exact, pack_exact_##name, multiply_exact_##name}; \
  k->prepared[form][EMBED__ROUNDED_Q8_0] = (embed__multiplier){x_bytes_rounded, pack_rounded_##name, multiply_rounded_##name};

void embed__quantised_scalar(embed__panel_kernels *k) { QUANTISED_FORMS(USE) }
