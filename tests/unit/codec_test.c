/* SPDX-License-Identifier: BSD-3-Clause */
/* Stored forms of a row: known bytes, decoding by the formula, rows that cannot be stored, stochastic rounding. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "codec/codec.h"
#include "core/cpu.h"
#include "core/half.h"

static embed__kernels kernels;

static int setup(void **state) {
  (void)state;
  embed__level_fill(0, &kernels);
  return 0;
}

static const embed_dtype dtypes[] = {
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) constant,
#include "core/dtypes.def"
#undef DTYPE
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };
static bool has_codec(int d) { return embed__codec_find(dtypes[d])->encode != NULL; } /* EMBED_PQ's rows are a table's */

/* The least number of columns, at least `wanted`, that the dtype can store: block forms want whole blocks. */
static int64_t fitting(embed_dtype dtype, int64_t wanted) {
  const embed__dtype_info *info = embed__dtype_find(dtype);
  return info->whole ? (wanted + info->block - 1) / info->block * info->block : wanted;
}
enum { MOST_COLUMNS = 512 };

/* One row encoded between unreadable pages, its bytes set to a pattern before. */
static guarded encoded(embed_dtype dtype, const float *row, int64_t dim, int32_t group, const embed__noise *noise) {
  int64_t bytes = embed__row_bytes(dtype, dim, group);
  assert_true(bytes > 0);
  guarded out = guarded_new((size_t)bytes, 1);
  memset(out.at, 0xA5, (size_t)bytes);
  assert_true(embed__codec_find(dtype)->encode(&kernels, row, out.at, dim, group ? group : 32, noise));
  return out;
}

static void decode(embed_dtype dtype, const void *row, float *out, int64_t dim, int32_t group) {
  embed__codec_find(dtype)->decode(&kernels, row, out, dim, group ? group : 32, 1.0f);
}

static uint32_t word_at(const unsigned char *at) { return embed__bits_of_f32(embed__le_f32(at)); }

static void int8_rows_are_the_known_bytes(void **state) {
  (void)state;
  const float row[4] = {-1, 0, 0.5f, 2};
  const int8_t q[4] = {-64, 0, 32, 127};
  guarded got = encoded(EMBED_I8_ROW, row, 4, 0, NULL);
  assert_same_bits(got.at, q, 4);
  assert_int_equal(word_at(got.at + 4), 0x3C810204);
  guarded_free(got);
}

static void int8_ties_round_to_even(void **state) {
  (void)state;
  const float row[5] = {127, 62.5f, -62.5f, 0.5f, 1.5f};
  const int8_t q[5] = {127, 62, -62, 0, 2};
  guarded got = encoded(EMBED_I8_ROW, row, 5, 0, NULL);
  assert_same_bits(got.at, q, 5);
  assert_int_equal(word_at(got.at + 5), 0x3F800000);
  guarded_free(got);
}

/* Never -128; the largest magnitude is met; every value is within half a step. */
static void int8_rows_stay_within_half_a_step(void **state) {
  (void)state;
  uint64_t random = 5;
  for (int round = 0; round < 200; ++round) {
    float row[67], back[67], size = ldexpf(1, round % 2 ? -120 + round : round - 100), largest = 0;
    for (int j = 0; j < 67; ++j) row[j] = test_uniform(&random) * size;
    for (int j = 0; j < 67; ++j) largest = fmaxf(largest, fabsf(row[j]));
    guarded got = encoded(EMBED_I8_ROW, row, 67, 0, NULL);
    decode(EMBED_I8_ROW, got.at, back, 67, 0);
    double step = (double)largest / 127;
    for (int j = 0; j < 67; ++j) {
      assert_true((int8_t)got.at[j] >= -127);
      if (fabs((double)back[j] - (double)row[j]) > 0.50001 * step + 1e-45) fail_msg("%a comes back as %a, a step is %a", (double)row[j], (double)back[j], step);
    }
    guarded_free(got);
  }
}

/* Rows whose scale is subnormal, or whose inverse overflows. */
static void tiny_rows_are_stored_without_infinities(void **state) {
  (void)state;
  static const float sizes[] = {0x1p-149f, 0x1p-148f, 0x1p-142f, 0x1p-135f, 0x1p-130f, 0x1p-126f, 0x1p-121f, 0x1p-119f, 0x1p-100f};
  for (int d = 0; d < DTYPES; ++d) {
    if (!has_codec(d)) continue;
    int64_t dim = fitting(dtypes[d], 40);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      float row[MOST_COLUMNS], back[MOST_COLUMNS];
      for (int64_t j = 0; j < dim; ++j) row[j] = sizes[s] * (float)(j % 5 - 2) / 2;
      guarded got = encoded(dtypes[d], row, dim, 0, NULL);
      decode(dtypes[d], got.at, back, dim, 0);
      for (int64_t j = 0; j < dim; ++j) assert_true(fabsf(back[j]) <= 2 * sizes[s] + 0x1p-149f);
      guarded_free(got);
    }
  }
}

static void uint8_rows_are_fbgemms_bytes(void **state) {
  (void)state;
  const float row[4] = {-1, 0, 0.5f, 2};
  const uint8_t q[4] = {0, 85, 128, 255};
  float back[4];
  guarded got = encoded(EMBED_U8_ROW, row, 4, 0, NULL);
  assert_same_bits(got.at, q, 4);
  assert_int_equal(word_at(got.at + 4), 0x3C40C0C1);
  assert_int_equal(word_at(got.at + 8), 0xBF800000);
  decode(EMBED_U8_ROW, got.at, back, 4, 0);
  assert_true(back[1] == 1.9557774e-8f); /* one rounding: fma; with two it would be 0 */
  assert_true(back[0] == -1 && fabsf(back[3] - 2) < 1e-6f);
  guarded_free(got);
  const float tiny[2] = {0, 1e-8f}; /* FBGEMM's epsilon: 255 / (1e-8 + 1e-8) */
  got = encoded(EMBED_U8_ROW, tiny, 2, 0, NULL);
  assert_true(got.at[0] == 0 && (got.at[1] == 127 || got.at[1] == 128));
  guarded_free(got);
}

static void rows_of_4_and_2_bits_are_fbgemms_bytes(void **state) {
  (void)state;
  const float row[4] = {-1, 0, 0.5f, 2};
  const unsigned char four[6] = {0x50, 0xF8, 0x66, 0x32, 0x00, 0xBC}, two[5] = {0xE4, 0x00, 0x3C, 0x00, 0xBC};
  const float of_four[4] = {-1, -0.000244140625f, 0.599609375f, 1.999267578125f}, of_two[4] = {-1, 0, 1, 2};
  float back[4];
  guarded got = encoded(EMBED_U4_ROW, row, 4, 0, NULL);
  assert_same_bits(got.at, four, 6);
  decode(EMBED_U4_ROW, got.at, back, 4, 0);
  assert_same_bits(back, of_four, sizeof back);
  guarded_free(got);
  got = encoded(EMBED_U2_ROW, row, 4, 0, NULL);
  assert_same_bits(got.at, two, 5);
  decode(EMBED_U2_ROW, got.at, back, 4, 0);
  assert_same_bits(back, of_two, sizeof back);
  guarded_free(got);
}

/* FBGEMM's reference by its text, at every width and every rest of columns: random rows, constant ones whose bias as a half lies above or
 * below them, tiny ones. Bits that no column has are zero. */
static void rows_of_4_and_2_bits_follow_their_formula(void **state) {
  (void)state;
  uint64_t random = 23;
  for (int round = 0; round < 600; ++round) {
    const embed_dtype dtype = round % 2 ? EMBED_U4_ROW : EMBED_U2_ROW;
    const int bits = round % 2 ? 4 : 2, together = 8 / bits, most = (1 << bits) - 1, dim = 1 + round % 71, packed = (dim + together - 1) / together;
    const float size = round % 5 == 4 ? ldexpf(1, round % 60 - 45) : 1, constant = test_uniform(&random);
    float row[71], back[71], low = INFINITY, high = -INFINITY;
    for (int j = 0; j < dim; ++j) row[j] = size * (round % 7 == 6 ? constant : test_uniform(&random));
    for (int j = 0; j < dim; ++j) {
      low = fminf(low, row[j]);
      high = fmaxf(high, row[j]);
    }
    guarded got = encoded(dtype, row, dim, 0, NULL);
    const float bias = embed__f32_of_f16(embed__f16_of_f32(low)), range = high - bias;
    float scale = embed__f32_of_f16(embed__f16_of_f32(range == 0 ? 1 : range / (float)most));
    if (scale == 0) scale = 1;
    assert_int_equal(embed__le_u16(got.at + packed), embed__f16_of_f32(scale));
    assert_int_equal(embed__le_u16(got.at + packed + 2), embed__f16_of_f32(low));
    decode(dtype, got.at, back, dim, 0);
    for (int j = 0; j < packed * together; ++j) {
      const int q = got.at[j / together] >> bits * (j % together) & most;
      const long nearest = j < dim ? lrintf((row[j] - bias) * (1 / scale)) : 0;
      assert_int_equal(q, nearest < 0 ? 0 : nearest > most ? most : nearest);
      if (j >= dim) continue;
      assert_true(back[j] == (float)((double)scale * q + (double)bias));
      assert_true(fabsf(back[j] - row[j]) <= 0.5001f * fabsf(scale) + 0.001f * (fabsf(low) + fabsf(high)) || scale == 1);
    }
    guarded_free(got);
  }
}

/* Rows of others: no number in the scale or the bias gives none, and nothing worse. */
static void rows_of_4_and_2_bits_decode_whatever_the_halves_are(void **state) {
  (void)state;
  static const uint16_t odd[] = {0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF};
  for (embed_dtype dtype = EMBED_U4_ROW; dtype <= EMBED_U2_ROW; ++dtype)
    for (int i = 0; i < 5; ++i)
      for (int which = 0; which < 2; ++which) {
        const int64_t bytes = embed__row_bytes(dtype, 37, 0);
        guarded row = guarded_new((size_t)bytes, 1);
        float back[37];
        memset(row.at, 0xFF, (size_t)bytes);
        embed__put_le_u16(row.at + bytes - 4, which ? 0x3C00 : odd[i]);
        embed__put_le_u16(row.at + bytes - 2, which ? odd[i] : 0x3C00);
        decode(dtype, row.at, back, 37, 0);
        for (int j = 0; j < 37; ++j) assert_true((odd[i] & 0x3FF) ? isnan(back[j]) : isinf(back[j]));
        guarded_free(row);
      }
}

/* spec F1, and all 256 of each form there and back. */
static void floats_of_8_bits_round_to_the_nearest_even(void **state) {
  (void)state;
  static const struct {
    float x;
    int e4m3, e5m2; /* -1 = not stated */
  } known[] = {{464, 0x7E, -1},
               {464.0001f, 0x7F, -1},
               {0x1p-10f, 0x00, -1},
               {0x1.000002p-10f, 0x01, -1},
               {-0.3f, 0xAA, -1},
               {1.0625f, 0x38, -1},
               {1.1875f, 0x3A, -1},
               {240, 0x77, -1},
               {61439, 0x7F, 0x7B},
               {65504, 0x7F, 0x7C},
               {0x1p-17f, 0x00, 0x00},
               {0.3f, 0x2A, 0x35},
               {0x1.000002p-17f, 0x00, 0x01},
               {61440, 0x7F, 0x7C},
               {-61440, 0xFF, 0xFC},
               {INFINITY, 0x7F, 0x7C},
               {-0.0f, 0x80, 0x80},
               {0x1p-149f, 0x00, 0x00},
               {448, 0x7E, -1},
               {-57344, 0xFF, 0xFB},
               {0x1.ffp-7f, 0x08, -1},
               {0x1.8p-9f, 0x02, -1},
               {0x1.4p-8f, 0x02, -1},
               {0x1.cp-8f, 0x04, -1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    unsigned char out[2];
    assert_true(embed__codec_find(EMBED_F8_E4M3)->encode(&kernels, &known[i].x, out, 1, 32, NULL));
    assert_true(embed__codec_find(EMBED_F8_E5M2)->encode(&kernels, &known[i].x, out + 1, 1, 32, NULL));
    if (out[0] != known[i].e4m3) fail_msg("%a is %02x in e4m3, not %02x", (double)known[i].x, out[0], known[i].e4m3);
    if (known[i].e5m2 >= 0 && out[1] != known[i].e5m2) fail_msg("%a is %02x in e5m2, not %02x", (double)known[i].x, out[1], known[i].e5m2);
  }
  for (int form = 0; form < 2; ++form) {
    const embed_dtype dtype = form ? EMBED_F8_E5M2 : EMBED_F8_E4M3;
    const int mantissa = form ? 2 : 3, bias = form ? 15 : 7;
    for (int byte = 0; byte < 256; ++byte) {
      const unsigned char stored = (unsigned char)byte;
      const int exponent = (byte & 127) >> mantissa, low = byte & ((1 << mantissa) - 1);
      float got, want = exponent ? ldexpf((float)(low + (1 << mantissa)), exponent - bias - mantissa) : ldexpf((float)low, 1 - bias - mantissa);
      unsigned char back;
      if (form && exponent == 31) want = low ? NAN : INFINITY;
      if (!form && (byte & 127) == 127) want = NAN;
      if (byte & 128) want = -want;
      decode(dtype, &stored, &got, 1, 0);
      assert_true(isnan(want) ? isnan(got) && !signbit(got) == !(byte & 128) : got == want && !signbit(got) == !signbit(want));
      assert_true(embed__codec_find(dtype)->encode(&kernels, &got, &back, 1, 32, NULL));
      assert_true(back == byte || isnan(want));
    }
  }
}

/* Between two neighbours the middle decides, and the even one of them at the middle. */
static void floats_of_8_bits_round_at_the_middle(void **state) {
  (void)state;
  for (int form = 0; form < 2; ++form) {
    const embed_dtype dtype = form ? EMBED_F8_E5M2 : EMBED_F8_E4M3;
    for (int byte = 0; byte < (form ? 0x7B : 0x7E); ++byte) {
      const unsigned char pair[2] = {(unsigned char)byte, (unsigned char)(byte + 1)};
      float two[2];
      decode(dtype, pair, two, 2, 0);
      const float middle = (two[0] + two[1]) / 2, at[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
      unsigned char got[3];
      assert_true(embed__codec_find(dtype)->encode(&kernels, at, got, 3, 32, NULL));
      assert_int_equal(got[0], byte);
      assert_int_equal(got[1], byte + byte % 2);
      assert_int_equal(got[2], byte + 1);
    }
  }
}

/* FNV-1a of their little-endian bytes. */
static uint64_t hash_of_floats(const float *x, int n) {
  uint64_t h = 0xcbf29ce484222325;
  for (int i = 0; i < n; ++i)
    for (int shift = 0; shift < 32; shift += 8) h = (h ^ (embed__bits_of_f32(x[i]) >> shift & 255)) * 0x100000001b3;
  return h;
}

static void int4_groups_of_32_are_ggmls_q4_0(void **state) {
  (void)state;
  static const unsigned char bytes[18] = {0x40, 0x36, 0xe0, 0x46, 0xac, 0xf2, 0x58, 0xbd, 0x13, 0x79, 0xdf, 0x35, 0x8b, 0xe0, 0x46, 0xac, 0xf2, 0x68};
  float row[32], back[32];
  for (int j = 0; j < 32; ++j) row[j] = (float)((37 * j) % 101 - 50) / 16;
  guarded got = encoded(EMBED_I4_GROUP, row, 32, 32, NULL);
  assert_same_bits(got.at, bytes, sizeof bytes);
  decode(EMBED_I4_GROUP, got.at, back, 32, 32);
  assert_true(hash_of_floats(back, 32) == 0xd09ee64791b8c83c);
  guarded_free(got);
}

/* The layout's formula for every group size, with a short last group. */
static void int4_groups_follow_their_formula(void **state) {
  (void)state;
  uint64_t random = 3;
  static const int32_t groups[] = {32, 64, 128};
  for (int g = 0; g < 3; ++g) {
    for (int64_t dim = 1; dim <= 300; dim += dim < 140 ? 1 : 17) {
      int32_t group = groups[g];
      float row[300], back[300];
      for (int64_t j = 0; j < dim; ++j) row[j] = test_uniform(&random);
      guarded got = encoded(EMBED_I4_GROUP, row, dim, group, NULL);
      decode(EMBED_I4_GROUP, got.at, back, dim, group);
      for (int64_t first = 0; first < (dim + group - 1) / group * group; first += group) {
        const unsigned char *block = got.at + first / group * (2 + group / 2);
        float extreme = 0;
        for (int64_t j = first; j < first + group && j < dim; ++j)
          if (fabsf(row[j]) > fabsf(extreme)) extreme = row[j];
        float exact = extreme / -8, inverse = exact != 0 ? 1 / exact : 0;
        const uint16_t half = embed__le_u16(block);
        assert_int_equal(half, embed__f16_of_f32(exact));
        for (int64_t c = 0; c < group; ++c) {
          int64_t j = first + c, part = c / 32, in = c % 32;
          int nibble = block[2 + 16 * part + in % 16] >> (in < 16 ? 0 : 4) & 15;
          int wanted = j < dim ? (int)(row[j] * inverse + 8.5f) : 8; /* missing columns are stored as zeros */
          if (wanted > 15) wanted = 15;
          assert_int_equal(nibble, wanted);
          if (j < dim) assert_true(back[j] == embed__f32_of_f16(half) * (float)(nibble - 8));
        }
      }
      guarded_free(got);
    }
  }
}

/* QU-03 */
static void zero_rows_come_back_as_zeros_with_a_finite_scale(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; ++d) {
    if (!has_codec(d)) continue;
    int64_t dim = fitting(dtypes[d], 70);
    for (int negative = 0; negative < 2; ++negative) {
      float row[MOST_COLUMNS], back[MOST_COLUMNS];
      for (int64_t j = 0; j < dim; ++j) row[j] = negative && j % 2 ? -0.0f : 0.0f;
      guarded got = encoded(dtypes[d], row, dim, 0, NULL);
      memset(back, 0xFF, sizeof back);
      decode(dtypes[d], got.at, back, dim, 0);
      for (int64_t j = 0; j < dim; ++j) assert_true(back[j] == 0);
      if (dtypes[d] == EMBED_I8_ROW) assert_int_equal(word_at(got.at + dim) & 0x7FFFFFFF, 0);
      guarded_free(got);
    }
  }
}

/* QU-05 */
static void scaled_forms_refuse_nan_and_infinity_at_every_column(void **state) {
  (void)state;
  static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (int d = 0; d < DTYPES; ++d) {
    if (!has_codec(d)) continue;
    const embed__codec *codec = embed__codec_find(dtypes[d]);
    for (int64_t wanted = 1; wanted <= 70; wanted += 23) {
      int64_t dim = fitting(dtypes[d], wanted);
      for (int64_t at = 0; at < dim; ++at) {
        for (int b = 0; b < 4; ++b) {
          float row[MOST_COLUMNS];
          unsigned char out[MOST_COLUMNS * 8];
          for (int64_t j = 0; j < dim; ++j) row[j] = 1;
          row[at] = bad[b];
          assert_int_equal(codec->encode(&kernels, row, out, dim, 32, NULL), !codec->finite_only);
        }
      }
    }
  }
  /* Values that no scale can hold. */
  float wide[2] = {FLT_MAX, -FLT_MAX};
  unsigned char out[64];
  assert_false(embed__codec_find(EMBED_U8_ROW)->encode(&kernels, wide, out, 2, 32, NULL));
  assert_false(embed__codec_find(EMBED_I4_GROUP)->encode(&kernels, wide, out, 2, 32, NULL));
  assert_true(embed__codec_find(EMBED_I8_ROW)->encode(&kernels, wide, out, 2, 32, NULL));
  static const float past[][2] = {{FLT_MAX, -FLT_MAX}, {-65520, 0}, {65520, 65520}, {0, 65520.0f * 15}}; /* of the half float: the bias, the scale */
  for (int i = 0; i < 4; ++i)
    for (embed_dtype dtype = EMBED_U4_ROW; dtype <= EMBED_U2_ROW; ++dtype) assert_false(embed__codec_find(dtype)->encode(&kernels, past[i], out, 2, 32, NULL));
}

/* The mean of many stochastic roundings is the value; each is one of its two neighbours; the seed decides. */
static void stochastic_rounding_is_unbiased_and_reproducible(void **state) {
  (void)state;
  enum { DIM = 64, ROUNDS = 4096 };
  uint64_t random = 17;
  float row[DIM];
  for (int j = 0; j < DIM; ++j) row[j] = test_uniform(&random);
  row[0] = 0;
  row[1] = 1; /* the largest, exact in every form but int4 */
  for (int d = 0; d < DTYPES; ++d) {
    if (!has_codec(d)) continue;
    if (dtypes[d] == EMBED_F32 || dtypes[d] == EMBED_F64 || !embed__codec_find(dtypes[d])->rounds_stochastically) continue;
    const bool halves = dtypes[d] == EMBED_I4_GROUP || dtypes[d] == EMBED_U4_ROW || dtypes[d] == EMBED_U2_ROW;
    double sum[DIM] = {0};
    float low[DIM], high[DIM], back[DIM];
    for (int i = 0; i < ROUNDS; ++i) {
      embed__noise noise = {.seed = 99, .row = (uint64_t)i, .dim = DIM};
      guarded got = encoded(dtypes[d], row, DIM, 0, &noise), again = encoded(dtypes[d], row, DIM, 0, &noise);
      assert_same_bits(got.at, again.at, (size_t)embed__row_bytes(dtypes[d], DIM, 0));
      decode(dtypes[d], got.at, back, DIM, 0);
      for (int j = 0; j < DIM; ++j) {
        sum[j] += (double)back[j];
        low[j] = i == 0 || back[j] < low[j] ? back[j] : low[j];
        high[j] = i == 0 || back[j] > high[j] ? back[j] : high[j];
      }
      guarded_free(got);
      guarded_free(again);
    }
    int moved = 0;
    for (int j = 0; j < DIM; ++j) {
      double step = (double)high[j] - (double)low[j], mean = sum[j] / ROUNDS, ends = halves ? 0.001 : 0; /* scales are halves */
      double nibble_end = dtypes[d] == EMBED_I4_GROUP && row[j] < 0 ? 0.13 : 0;                          /* 15 is the end on one side: -7/8 of the extreme */
      moved += step > 0;
      assert_true((double)row[j] >= (double)low[j] - 1e-6 - ends - nibble_end);
      assert_true((double)row[j] <= (double)high[j] + 1e-6 + ends);
      if (nibble_end == 0 || row[j] > -0.87f) {
        if (fabs(mean - (double)row[j]) > 5 * step / (2 * 64) + ends / 2 + 1e-6)
          fail_msg("%s column %d: %.9g in the mean instead of %.9g", embed__dtype_name(dtypes[d]), j, mean, (double)row[j]);
      }
    }
    assert_true(moved > DIM / 2);
  }
}

/* Decoding is scale * value, the value rounded to float first. */
static void a_scale_multiplies_the_decoded_float(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; ++d) {
    if (!has_codec(d)) continue;
    uint64_t random = 21;
    float row[MOST_COLUMNS], plain[MOST_COLUMNS], scaled[MOST_COLUMNS];
    int64_t dim = fitting(dtypes[d], 50);
    for (int64_t j = 0; j < dim; ++j) row[j] = test_uniform(&random);
    guarded got = encoded(dtypes[d], row, dim, 0, NULL);
    decode(dtypes[d], got.at, plain, dim, 0);
    embed__codec_find(dtypes[d])->decode(&kernels, got.at, scaled, dim, 32, 1.7f);
    for (int64_t j = 0; j < dim; ++j) plain[j] *= 1.7f;
    assert_same_bits(scaled, plain, (size_t)dim * sizeof *plain);
    guarded_free(got);
  }
}

static void floats_keep_every_bit(void **state) {
  (void)state;
  const uint32_t odd[6] = {0x7FA00001, 0xFFFFFFFF, 0x80000000, 0x00000001, 0x7F800000, 0x7F800001};
  float row[6], back[6];
  memcpy(row, odd, sizeof row);
  guarded got = encoded(EMBED_F32, row, 6, 0, NULL);
  decode(EMBED_F32, got.at, back, 6, 0);
  assert_same_bits(got.at, odd, sizeof odd);
  assert_same_bits(back, odd, sizeof odd);
  guarded_free(got);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(int8_rows_are_the_known_bytes),
    cmocka_unit_test(int8_ties_round_to_even),
    cmocka_unit_test(int8_rows_stay_within_half_a_step),
    cmocka_unit_test(tiny_rows_are_stored_without_infinities),
    cmocka_unit_test(uint8_rows_are_fbgemms_bytes),
    cmocka_unit_test(rows_of_4_and_2_bits_are_fbgemms_bytes),
    cmocka_unit_test(rows_of_4_and_2_bits_follow_their_formula),
    cmocka_unit_test(rows_of_4_and_2_bits_decode_whatever_the_halves_are),
    cmocka_unit_test(floats_of_8_bits_round_to_the_nearest_even),
    cmocka_unit_test(floats_of_8_bits_round_at_the_middle),
    cmocka_unit_test(int4_groups_of_32_are_ggmls_q4_0),
    cmocka_unit_test(int4_groups_follow_their_formula),
    cmocka_unit_test(zero_rows_come_back_as_zeros_with_a_finite_scale),
    cmocka_unit_test(scaled_forms_refuse_nan_and_infinity_at_every_column),
    cmocka_unit_test(stochastic_rounding_is_unbiased_and_reproducible),
    cmocka_unit_test(a_scale_multiplies_the_decoded_float),
    cmocka_unit_test(floats_keep_every_bit),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, setup, NULL);
}
