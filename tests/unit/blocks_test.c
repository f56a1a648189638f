/* SPDX-License-Identifier: BSD-3-Clause */
/* The block forms of GGUF: ggml's bytes and floats, every element by its formula, rows at the edge of memory, rows that
 * cannot be stored. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "codec/blocks.h"
#include "codec/scale_search.h"

static embed__kernels kernels;

static int setup(void **state) {
  (void)state;
  embed__level_fill(0, &kernels);
  return 0;
}

typedef struct form {
  embed_dtype dtype;
  int columns, bytes;
  int halves[2];        /* where the block keeps its half floats, -1 = it has none, no second */
  const char *hex;      /* of the row 37 j mod 101, encoded */
  uint64_t hash;        /* of its floats, decoded */
  float values[5];      /* of the block 73 i + 41, decoded: elements 0, 1, 31, 128, 255, */
  uint64_t values_hash; /* and of all */
  double error;         /* root mean square over that row */
} form;

static const form forms[] = {
    {EMBED_Q8_0,
     32,
     34,
     {0, -1},
     "4d2681df3d9af856b41270cd2b89e745a2005ebb1977d53390ee4caa0866c3217fdc",
     0xa2be9d387b094506,
     {-4.3125f, .25f, -6.875f},
     0x74564655883e3454,
     0.00686711626},
    {EMBED_Q4_0, 32, 18, {0, -1}, "4036e046acf258bd1379df358be046acf268", 0xd09ee64791b8c83c, {.1875f, -.25f, -.5f}, 0x913048753d292b0b, 0.132409775},
    {EMBED_Q4_1, 32, 20, {0, 2}, "ab3640c2d0369bf257bd1369ce258ae0469cf258", 0xa0ee97a1f0eec6e8, {.84375f, .40625f, .59375f}, 0xd3ca999124b9afaa, 0.136155604},
    {EMBED_Q5_0, 32, 22, {0, -1}, "4032a4a52d6dc07c38f3bf6b26e2ae5a15d18d49f4c0", 0x0776558aa4dada87, {.9375f, .5f, .125f}, 0xc236d4b8c8e47615, 0.0612515695},
    {EMBED_Q5_1,
     32,
     24,
     {0, 2},
     "743240c2a4a52d6db07b37e3af6a26d29d5905c18c48f4b0",
     0x3a862be72ad346c0,
     {1.09375f, .65625f, .71875f},
     0xaf37c21febcb0c46,
     0.0518662379},
    {EMBED_Q2_K,
     256,
     84,
     {80, 82},
     "dedecddffedeffcedebcdeeedcefbeef68b1d66cb11b6c861bb1c66cb1d66cb21b6d861b71c628b1d76cb61b6d861bb11b7d862b71c62cb1db6c861b718628b1"
     "db6cb51b6c861ba1c66cb1db6cb61b6c01309d32",
     0x07a12d52b33deebf,
     {.5f, 1.0625f, -.21875f, -.15625f, -.21875f},
     0x4aea19bfd8c99c66,
     0.467856183},
    {EMBED_Q3_K,
     256,
     110,
     {108, -1},
     "86dc2bc6fd23d67923dc3986fc2bd6fda451fe045bae05fbae51fba459fe045b4827e28d7823de897722dd8877e29d785df2b79c2db68b5de2f7485d22b7882d"
     "fd6297c82d528bf8225688fd2e578b3de2c7787dd29bbc2d968b7de2d7787dd2b69ab69a653aa600303ff033dea7",
     0xdd1ded9cffc28c8a,
     {-.4375f, .875f, -.5f, 1.5f, -1.5f},
     0xf8ac790a14963471,
     0.243588093},
    {EMBED_Q4_K,
     256,
     144,
     {0, 2},
     "de1e2c2afefffffcfffdfefecfdcfffea0156bc1278cd3489e045ab0167bc2378de349ae056ab1267cd2389de459af15268ce248ad0459b0157bd1379ce348ae"
     "046ac0267bd2379df359be156ac1268c9df359be157ac1268ce248ad0459b0157bd1379ce348ae046ac0267bd2379df3156ac1268cd2489df459b0157bc1378c"
     "e348ae046ab0267bd2379de359ae156a",
     0x5fc624e1c22ea84b,
     {5.78125f, .09375f, -1.53125f, 11.03125f, -.71875f},
     0x33eefa2f38497c2d,
     0.108538177},
    {EMBED_Q5_K,
     256,
     176,
     {0, 2},
     "8e1a532afffdfdfdfffcfeffdfeffdcf326c9936cc9366c9b36499324c9926cc9366c9336c99364c9b66cdb366d9336c702be7a35f1ad6824d09c5813cf8b46f"
     "2be7935e1ad6824d09c5703cf8a36f2b5e1ad5914d09c4803cf8b36f2be6a25e1ad5914d09c4703cf7b36f2be6a25e1a3be8b36e2be6925e19c5814c08b4703c"
     "f7a36f2ad6925d19c5814c08b4703be71bd7824e0ab5713de9a4602cd8935f1bc6824e0ab5713de9a4601cd7935f1bc6",
     0x0b11dadbf43424be,
     {18.78125f, .09375f, -1.53125f, 32.03125f, -.71875f},
     0x717aae6660f8057e,
     0.0532914406},
    {EMBED_Q6_K,
     256,
     210,
     {208, -1},
     "d158bf37be25ad048b047bf37ad159d0c941ea63eb74fb741d951ea72fc841c9bf35ad169b048df26be069d147cf38bd1a922c840d85ed77ff57d038b04aa22b"
     "67df58c139b22aa22b931c85fd76ee57ce5ad137b31a902c830f86ec78ff55d1c841da62eb63fc840d951ea63fb840c9d129b30b931c74fe86de67ff47d129b1"
     "18b1c66cb11b6c861b71c61cb1c76cb22453f9248ef9138ef4538d2452f9248ed4a209d47e09a37e14a349d4ae09d77ec863be1463c9147ec923bec463bd1463"
     "807f897a867a84877f737d7a81877c897592",
     0x475eaa0fbc7ef96b,
     {10.0625f, -2.875f, -100, -21.4375f, 18},
     0xcd7f843c074a3c38,
     0.0255580679},
    {EMBED_IQ4_NL, 32, 18, {0, -1}, "ab26e035acf157ce1369df249be136adf258", 0x8c88c49957e5e0ac, {2.375f, -3.0625f, -7.9375f}, 0x0ef1dcfbe55bb2e4, 0.130148431},
    {EMBED_IQ4_XS,
     256,
     136,
     {0, -1},
     "ab920ccfe021fff2e035acf157ce1369df249be136adf258630fc942fea721ec751fda530eb842fd47be1269df248be035adf157ce137adf0269df138be035ad"
     "f147ce1269df249b31ec8520db641fb942fda731ec751fda8520db641fc942fea731ec851fda630e259cf147be0269df138be035adf147ce1fc952fea731ec85"
     "20db641fb942fda7",
     0x15737c8fd0bf82f8,
     {-188.5f, 45.3125f, 68.875f, 110.5f, -46.875f},
     0x269d4b580d5e4567,
     0.128511268},
    {EMBED_MXFP4,
     32,
     17,
     {-1, -1},
     "7e6fdb257ec946fea267ec146fda357eb0",
     0x766d15fc5befb308,
     {0x1p-86f, -0x1.8p-86f, -0x1.8p-86f},
     0xb93c5da585bb3492,
     0.193270576},
    {EMBED_NVFP4,
     64,
     36,
     {-1, -1},
     "303030307fcb45fea956ee0266ed1267dc347fba45ffb956ee0167dd0267dc347fca56fe",
     0x6746e7cacb248d58,
     {-.84375f, 1.125f, -80},
     0xe5361ddaee693833,
     0.193112611},
};
enum { FORMS = sizeof forms / sizeof *forms, MOST = 4 * 256 };

/* FNV-1a of their little-endian bytes. */
static uint64_t hash_of_floats(const float *x, int n) {
  uint64_t h = 0xcbf29ce484222325;
  for (int i = 0; i < n; ++i)
    for (int shift = 0; shift < 32; shift += 8) h = (h ^ (embed__bits_of_f32(x[i]) >> shift & 255)) * 0x100000001b3;
  return h;
}

static void known_row(float *row, int64_t dim, int64_t period) {
  for (int64_t j = 0; j < dim; ++j) row[j] = (float)((37 * (j % period)) % 101 - 50) / 16;
}

static bool encode(const form *f, const float *row, void *out, int64_t dim) { return embed__codec_find(f->dtype)->encode(&kernels, row, out, dim, 0, NULL); }

static void decode(const form *f, const void *row, float *out, int64_t dim) { embed__codec_find(f->dtype)->decode(&kernels, row, out, dim, 0, 1.0f); }

/* A row encoded into memory that ends where it ends. */
static guarded encoded(const form *f, const float *row, int64_t dim) {
  size_t bytes = (size_t)embed__row_bytes(f->dtype, dim, 0);
  guarded out = guarded_new(bytes, 1);
  memset(out.at, 0xA5, bytes);
  assert_true(encode(f, row, out.at, dim));
  return out;
}

static void rows_are_whole_blocks(void **state) {
  (void)state;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    assert_int_equal(embed__row_bytes(f->dtype, f->columns, 0), f->bytes);
    assert_int_equal(embed__row_bytes(f->dtype, 7 * f->columns, 128), 7 * f->bytes); /* the group is of no concern here */
    for (int64_t more = 1; more < f->columns; ++more) assert_int_equal(embed__row_bytes(f->dtype, f->columns + more, 0), EMBED_E_UNSUPPORTED);
    assert_int_equal(embed__row_bytes(f->dtype, INT64_MAX / 256 * 256, 0),
                     f->bytes > f->columns ? EMBED_E_OVERFLOW : INT64_MAX / 256 * 256 / f->columns * f->bytes);
  }
}

static void the_known_row_is_ggmls_bytes(void **state) {
  (void)state;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    float row[MOST], back[MOST];
    known_row(row, 3 * f->columns, f->columns);
    guarded got = encoded(f, row, 3 * f->columns);
    assert_int_equal(strlen(f->hex), 2 * (size_t)f->bytes);
    for (int i = 0; i < 3 * f->bytes; ++i) {
      const char pair[3] = {f->hex[2 * (i % f->bytes)], f->hex[2 * (i % f->bytes) + 1], 0};
      if (got.at[i] != strtoul(pair, NULL, 16)) fail_msg("%s: byte %d is %02x, not %s", embed__dtype_name(f->dtype), i, got.at[i], pair);
    }
    memset(back, 0xFF, sizeof back);
    decode(f, got.at, back, 3 * f->columns);
    for (int b = 0; b < 3; ++b) assert_true(hash_of_floats(back + b * f->columns, f->columns) == f->hash);
    guarded_free(got);
  }
}

static void known_blocks_decode_to_ggmls_floats(void **state) {
  (void)state;
  static const int at[5] = {0, 1, 31, 128, 255};
  for (const form *f = forms; f < forms + FORMS; ++f) {
    guarded block = guarded_new((size_t)f->bytes, 1);
    float got[256];
    for (int i = 0; i < f->bytes; ++i) block.at[i] = (unsigned char)(73 * i + 41);
    if (f->halves[0] >= 0) embed__put_half(block.at + f->halves[0], 0.0625f);
    if (f->halves[1] >= 0) embed__put_half(block.at + f->halves[1], 0.03125f);
    decode(f, block.at, got, f->columns);
    for (int k = 0; k < 5 && at[k] < f->columns; ++k)
      if (got[at[k]] != f->values[k]) fail_msg("%s: element %d is %g, not %g", embed__dtype_name(f->dtype), at[k], (double)got[at[k]], (double)f->values[k]);
    assert_true(hash_of_floats(got, f->columns) == f->values_hash);
    guarded_free(block);
  }
}

/* Element j of a block as the formats' table says it, one at a time. */
static float element(const form *f, const unsigned char *b, int j) {
  static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static const float fp4[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, 0, -.5f, -1, -1.5f, -2, -3, -4, -6}; /* -0 is 0 in ggml */
  float d = f->halves[0] < 0 ? 0 : embed__half_at(b + f->halves[0]), m = f->halves[1] < 0 ? 0 : embed__half_at(b + f->halves[1]);
  const unsigned char *scales = b + 4;
  int r = j % 128, n = j / 128, i = j / 32, sc, mn, q;
  if (i < 4) {
    sc = scales[i] & 63;
    mn = scales[i + 4] & 63;
  } else {
    sc = i < 8 ? (scales[i + 4] & 15) | (scales[i - 4] >> 6) << 4 : 0;
    mn = i < 8 ? (scales[i + 4] >> 4) | (scales[i] >> 6) << 4 : 0;
  }
  switch (f->dtype) {
    case EMBED_Q8_0: return d * (float)(int8_t)b[2 + j];
    case EMBED_Q4_0: return d * (float)((j < 16 ? b[2 + j] & 15 : b[2 + j - 16] >> 4) - 8);
    case EMBED_Q4_1: return d * (float)(j < 16 ? b[4 + j] & 15 : b[4 + j - 16] >> 4) + m;
    case EMBED_Q5_0: return d * (float)(((j < 16 ? b[6 + j] & 15 : b[6 + j - 16] >> 4) | (b[2 + j / 8] >> j % 8 & 1) << 4) - 16);
    case EMBED_Q5_1: return d * (float)((j < 16 ? b[8 + j] & 15 : b[8 + j - 16] >> 4) | (b[4 + j / 8] >> j % 8 & 1) << 4) + m;
    case EMBED_Q2_K: return d * (float)(b[j / 16] & 15) * (float)(b[16 + 32 * n + r % 32] >> 2 * (r / 32) & 3) - m * (float)(b[j / 16] >> 4);
    case EMBED_Q3_K:
      i = j / 16;
      sc = ((i < 8 ? b[96 + i] & 15 : b[96 + i - 8] >> 4) | (b[104 + i % 4] >> 2 * (i / 4) & 3) << 4) - 32;
      q = (b[32 + 32 * n + r % 32] >> 2 * (r / 32) & 3) - (b[j % 32] >> j / 32 & 1 ? 0 : 4);
      return d * (float)sc * (float)q;
    case EMBED_Q4_K: return d * (float)sc * (float)(b[16 + 32 * (j / 64) + j % 32] >> (j / 32 % 2 ? 4 : 0) & 15) - m * (float)mn;
    case EMBED_Q5_K:
      q = (b[48 + 32 * (j / 64) + j % 32] >> (j / 32 % 2 ? 4 : 0) & 15) + (b[16 + j % 32] >> j / 32 & 1 ? 16 : 0);
      return d * (float)sc * (float)q - m * (float)mn;
    case EMBED_IQ4_NL: return d * (float)iq4[j < 16 ? b[2 + j] & 15 : b[2 + j - 16] >> 4];
    case EMBED_IQ4_XS:
      sc = ((b[4 + i / 2] >> (i % 2 ? 4 : 0) & 15) | ((b[2] | b[3] << 8) >> 2 * i & 3) << 4) - 32;
      return d * (float)sc * (float)iq4[b[8 + 16 * i + j % 16] >> (j % 32 < 16 ? 0 : 4) & 15];
    case EMBED_MXFP4: return (float)ldexp((double)fp4[j < 16 ? b[1 + j] & 15 : b[1 + j - 16] >> 4], b[0] - 127);
    case EMBED_NVFP4:
      q = b[j / 16];
      d = q == 0x7F ? 0 : (q & 0x78) == 0 ? ldexpf((float)(q & 7), -9) : ldexpf(1 + (float)(q & 7) / 8, (q >> 3 & 15) - 7);
      return d * fp4[b[4 + j / 16 * 8 + j % 8] >> (j % 16 < 8 ? 0 : 4) & 15];
    default:
      i = r / 32;
      q = ((b[64 * n + r % 32 + 32 * (i & 1)] >> (i < 2 ? 0 : 4) & 15) | (b[128 + 32 * n + r % 32] >> 2 * i & 3) << 4) - 32;
      return d * (float)(int8_t)b[192 + 8 * n + r % 32 / 16 + 2 * i] * (float)q;
  }
}

/* Random blocks with every finite scale, at odd addresses, behind and before unreadable pages; scaled afterwards. */
static void every_element_follows_its_formula(void **state) {
  (void)state;
  uint64_t random = 7;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    for (int round = 0; round < 60; ++round) {
      int blocks = 1 + round % 4, dim = blocks * f->columns;
      size_t bytes = (size_t)(blocks * f->bytes), shift = (size_t)(round % 5);
      guarded row = guarded_new(bytes + shift, round % 3 != 0);
      unsigned char *at = row.at + shift;
      float got[MOST], scaled[MOST];
      for (size_t i = 0; i < bytes; ++i) at[i] = (unsigned char)(test_random(&random) >> 40);
      for (int b = 0; b < blocks; ++b)
        for (int h = 0; h < 2 && f->halves[h] >= 0; ++h) {
          unsigned char *high = at + b * f->bytes + f->halves[h] + 1;
          if ((*high & 0x7C) == 0x7C) *high ^= 0x40; /* no infinity, no NaN */
        }
      decode(f, at, got, dim);
      embed__codec_find(f->dtype)->decode(&kernels, at, scaled, dim, 0, 1.7f);
      for (int j = 0; j < dim; ++j) {
        float want = element(f, at + j / f->columns * f->bytes, j % f->columns), wide = want * 1.7f;
        if (memcmp(&got[j], &want, 4)) fail_msg("%s: element %d is %a, not %a", embed__dtype_name(f->dtype), j, (double)got[j], (double)want);
        assert_same_bits(&scaled[j], &wide, 4);
      }
      guarded_free(row);
    }
  }
}

static void the_error_is_the_forms_own(void **state) {
  (void)state;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    float row[256], back[256];
    double squares = 0;
    known_row(row, f->columns, f->columns);
    guarded got = encoded(f, row, f->columns);
    decode(f, got.at, back, f->columns);
    for (int j = 0; j < f->columns; ++j) squares += ((double)back[j] - (double)row[j]) * ((double)back[j] - (double)row[j]);
    double error = sqrt(squares / f->columns);
    if (fabs(error - f->error) > 1e-8 * f->error + 1e-10) fail_msg("%s: %.9g, not %.9g", embed__dtype_name(f->dtype), error, f->error);
    guarded_free(got);
  }
}

/* Of rows in [-1, 1), the largest error in units that the form can tell apart. */
static void values_come_back_within_a_step(void **state) {
  (void)state;
  static const double steps[FORMS] = {0.55 / 127, 1.0 / 8, 1.0 / 15, 1.0 / 16, 1.0 / 31, 0.8, 0.36, 0.16, 0.08, 0.05, 0.13, 0.14, 0.25, 0.2};
  uint64_t random = 11;
  for (int k = 0; k < FORMS; ++k) {
    const form *f = &forms[k];
    double worst = 0;
    for (int round = 0; round < 100; ++round) {
      float row[MOST], back[MOST];
      for (int j = 0; j < MOST; ++j) row[j] = test_uniform(&random);
      guarded got = encoded(f, row, MOST);
      decode(f, got.at, back, MOST);
      for (int j = 0; j < MOST; ++j) { /* a loop of fmax() crashes gcc 12 for aarch64 */
        const double error = fabs((double)back[j] - (double)row[j]);
        if (!(error <= worst)) worst = error;
      }
      guarded_free(got);
    }
    if (worst > 1.01 * steps[k] || worst < 0.3 * steps[k]) fail_msg("%s: off by %g, a step is %g", embed__dtype_name(f->dtype), worst, steps[k]);
  }
}

static void halves_are_finite(const form *f, const unsigned char *row, int64_t dim) {
  for (int64_t b = 0; b < dim / f->columns; ++b)
    for (int h = 0; h < 2 && f->halves[h] >= 0; ++h) assert_true(isfinite(embed__half_at(row + b * f->bytes + f->halves[h])));
}

/* QU-03: whole rows, single blocks and single sub-blocks of zeros. */
static void zeros_come_back_as_zeros(void **state) {
  (void)state;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    for (int zeros = 16; zeros <= MOST; zeros *= 2) {
      float row[MOST], back[MOST];
      known_row(row, MOST, MOST);
      for (int j = 0; j < MOST; ++j)
        if (j / zeros % 2 == 0) row[j] = j % 2 ? -0.0f : 0.0f;
      guarded got = encoded(f, row, MOST);
      halves_are_finite(f, got.at, MOST);
      memset(back, 0xFF, sizeof back);
      decode(f, got.at, back, MOST);
      for (int j = 0; j < MOST; ++j) {
        assert_true(isfinite(back[j]));
        if (j / zeros % 2 == 0 && zeros >= f->columns) assert_true(back[j] == 0);
      }
      guarded_free(got);
    }
  }
}

/* Rows that lead the searches astray: constants, one value far out, tiny steps on a large offset, magnitudes to the ends. */
static void odd_rows_stay_finite_and_near(void **state) {
  (void)state;
  uint64_t random = 3;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    for (int kind = 0; kind < 7; ++kind) {
      for (int power = -149; power <= 15; ++power) {
        float row[256], back[256], largest = 0, size = ldexpf(1, power);
        for (int j = 0; j < 256; ++j) {
          float u = test_uniform(&random),
                shapes[] = {1, -1, j == 77 ? -1 : 0.0001f * u, -1 + 0x1p-21f * u, 1 + 0x1p-21f * u, j % 2 ? u : -u * 1e-30f, j < 16 ? u : 0};
          row[j] = size * shapes[kind];
          largest = fmaxf(largest, fabsf(row[j]));
        }
        if (f->dtype == EMBED_NVFP4 && power > 11) { /* 2688 is the largest */
          assert_false(encode(f, row, (unsigned char[144]){0}, 256));
          continue;
        }
        guarded got = encoded(f, row, 256);
        halves_are_finite(f, got.at, 256);
        decode(f, got.at, back, 256);
        /* The least half above zero may be off by half of itself, times the largest number it multiplies. */
        double near = (double)largest * (f->dtype == EMBED_Q2_K    ? 0.75
                                         : f->dtype == EMBED_Q3_K  ? 0.4
                                         : f->dtype == EMBED_MXFP4 ? 0.25
                                                                   : 0.2) +
                      (f->dtype == EMBED_NVFP4 ? 0x1p-10 * 6 : 0x1p-25 * 128 * 32);
        for (int j = 0; j < 256; ++j)
          if (!(fabs((double)back[j] - (double)row[j]) <= near))
            fail_msg("%s kind %d 2^%d: element %d, %g, comes back as %g", embed__dtype_name(f->dtype), kind, power, j, (double)row[j], (double)back[j]);
        guarded_free(got);
      }
    }
  }
}

/* QU-05 */
static void nan_and_infinity_are_refused_at_every_column(void **state) {
  (void)state;
  static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0x1p32f};
  for (const form *f = forms; f < forms + FORMS; ++f) {
    unsigned char out[512 * 2];
    for (int at = 0; at < 512; ++at)
      for (int b = 0; b < 7; ++b) {
        float row[512];
        known_row(row, 512, 512);
        row[at] = bad[b];
        assert_false(encode(f, row, out, 512));
      }
    assert_true(embed__codec_find(f->dtype)->finite_only);
  }
}

/* Magnitudes whose scale is a finite half are stored, a quarter more is refused. */
static void scales_past_the_half_float_are_refused(void **state) {
  (void)state;
  static const double reach[FORMS] = {127, 8,  1,        16,  1,        15,    32 * 4,
                                      63,  63, 128 * 32, 120, 120 * 32, 65536, 2688.0 / 65504}; /* with a minimum, that decides; of MXFP4 2^32 does */
  for (int k = 0; k < FORMS; ++k) {
    const form *f = &forms[k];
    for (int over = 0; over < 2; ++over) {
      float row[256], back[256], size = (float)(65504 * reach[k] * (over ? 1.25 : 0.8));
      unsigned char out[1024];
      for (int j = 0; j < 256; ++j) row[j] = j % 2 ? -size : size;
      assert_int_equal(encode(f, row, out, 256), !over);
      if (over) continue;
      halves_are_finite(f, out, 256);
      decode(f, out, back, 256);
      for (int j = 0; j < 256; ++j) assert_true(fabs((double)back[j] - (double)row[j]) <= 0.25 * (double)size);
    }
  }
}

/* Stored data of others: a scale that is no number gives no number, and nothing worse. */
static void scales_of_nan_and_infinity_decode(void **state) {
  (void)state;
  static const uint16_t bad[] = {0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0xFFFF};
  uint64_t random = 5;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    for (int h = 0; h < 2 && f->halves[h] >= 0; ++h) {
      for (int b = 0; b < 6; ++b) {
        guarded block = guarded_new((size_t)f->bytes, 1);
        float got[256];
        for (int i = 0; i < f->bytes; ++i) block.at[i] = (unsigned char)(test_random(&random) >> 40);
        if (f->halves[1] >= 0) embed__put_half(block.at + f->halves[1 - h], 1);
        embed__put_le_u16(block.at + f->halves[h], bad[b]);
        decode(f, block.at, got, f->columns);
        for (int j = 0; j < f->columns; ++j) assert_true((bad[b] & 0x3FF) ? isnan(got[j]) : !isfinite(got[j]));
        guarded_free(block);
      }
    }
  }
}

/* QU-08 */
static void equal_rows_are_equal_bytes(void **state) {
  (void)state;
  uint64_t random = 9;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    float rows[2][768], back[2][768];
    for (int j = 0; j < 768; ++j) rows[0][j] = rows[1][j] = test_uniform(&random);
    int64_t bytes = 768 / f->columns * f->bytes;
    assert_int_equal(embed__row_bytes(f->dtype, 768, 0), bytes);
    guarded both = guarded_new((size_t)(2 * bytes), 1);
    for (int r = 0; r < 2; ++r) assert_true(encode(f, rows[r], both.at + r * bytes, 768));
    assert_same_bits(both.at, both.at + bytes, (size_t)bytes);
    for (int r = 0; r < 2; ++r) decode(f, both.at + r * bytes, back[r], 768);
    assert_same_bits(back[0], back[1], sizeof back[0]);
    guarded_free(both);
  }
}

static void noise_changes_nothing(void **state) {
  (void)state;
  for (const form *f = forms; f < forms + FORMS; ++f) {
    const embed__codec *codec = embed__codec_find(f->dtype);
    embed__noise noise = {.seed = 4, .row = 2, .dim = 256};
    float row[256];
    unsigned char plain[288], noisy[288];
    known_row(row, 256, 256);
    assert_false(codec->rounds_stochastically);
    assert_true(codec->encode(&kernels, row, plain, 256, 0, NULL) && codec->encode(&kernels, row, noisy, 256, 0, &noise));
    assert_same_bits(plain, noisy, (size_t)embed__row_bytes(f->dtype, 256, 0));
  }
}

/* By the step that is not yet a half, halves away from zero. */
static void q8_0_rounds_halves_away_from_zero(void **state) {
  (void)state;
  float row[32] = {127, 62.5f, -62.5f, 0.5f, -0.5f, 1.5f, 0.49999997f, -127};
  const int8_t want[8] = {127, 63, -63, 1, -1, 2, 0, -127};
  unsigned char out[34];
  assert_true(encode(&forms[0], row, out, 32));
  assert_same_bits(out + 2, want, 8);
}

/* The group of 32 columns is Q4_0 by another name, and has its formula tested in codec_test.c. */
static void q4_0_is_the_int4_group_of_32(void **state) {
  (void)state;
  uint64_t random = 13;
  for (int round = 0; round < 2000; ++round) {
    float row[32];
    unsigned char out[18], group[18];
    for (int j = 0; j < 32; ++j) row[j] = test_uniform(&random);
    assert_true(encode(&forms[1], row, out, 32));
    assert_true(embed__codec_find(EMBED_I4_GROUP)->encode(&kernels, row, group, 32, 32, NULL));
    assert_same_bits(out, group, 18);
  }
}

/* ggml's zero scales and what it makes of the scales that are no numbers. */
static void fp4_scales_are_ggmls(void **state) {
  (void)state;
  const form *mx = &forms[FORMS - 2], *nv = &forms[FORMS - 1];
  for (int byte = 0; byte < 256; ++byte) {
    unsigned char block[36];
    float got[64];
    memset(block, 0x22, sizeof block); /* every value is 1 */
    block[0] = (unsigned char)byte;
    decode(mx, block, got, 32);
    assert_true(got[0] == ldexpf(1, byte - 127) && got[31] == got[0]); /* 255 is 2^128 as a float: infinity */
    for (int s = 0; s < 4; ++s) block[s] = (unsigned char)byte;
    decode(nv, block, got, 64);
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const float want = byte == 0x7F ? 0 : exponent ? ldexpf(8 + (float)mantissa, exponent - 10) : ldexpf((float)mantissa, -9);
    assert_true(got[0] == want && got[63] == want);
  }
}

/* Of two values as near, the one closer to zero; ggml's steps are its own: 248 and more become 448, halves go up. */
static void fp4_rounds_as_ggml(void **state) {
  (void)state;
  float row[64] = {6, 5, -5, 2.5f, 1.75f, -1.75f, 0.25f, -0.25f, 3.5f, 0.2500001f, -3.5f, 5.0000005f, -0.0f, 0.75f};
  unsigned char block[36];
  assert_true(encode(&forms[FORMS - 2], row, block, 32));
  static const unsigned char low[16] = {7, 6, 14, 4, 3, 11, 0, 0, 5, 1, 13, 7, 0, 1, 0, 0};
  assert_int_equal(block[0], 127);
  for (int j = 0; j < 16; ++j) assert_int_equal(block[1 + j], low[j]);
  static const struct {
    float most;
    int step;
  } steps[] = {{6 * 448, 0x7E},  {6 * 248, 0x7E},   {6 * 247.9f, 0x77},    {6, 0x38},          {6 * 1.0625f, 0x39}, {6 * 1.06f, 0x38},
               {6 * 0x1p-9f, 1}, {6 * 0x1p-10f, 1}, {5.99f * 0x1p-10f, 0}, {6 * 0x1.fp-7f, 7}, {6 * 0x1p-6f, 8}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    memset(row, 0, sizeof row);
    row[50] = -steps[i].most;
    assert_true(encode(&forms[FORMS - 1], row, block, 64));
    const unsigned char want[4] = {0, 0, 0, (unsigned char)steps[i].step};
    assert_same_bits(block, want, 4);
  }
}

/* Rows of all sizes down to the least number: the exponent ends at 0. */
static void mxfp4_exponents_follow_the_largest(void **state) {
  (void)state;
  for (int power = -149; power < 32; ++power) {
    float row[32] = {0};
    unsigned char block[17];
    row[5] = -ldexpf(1.5f, power);
    assert_true(encode(&forms[FORMS - 2], row, block, 32));
    assert_int_equal(block[0], power - 2 + 127 < 0 ? 0 : power - 2 + 127);
  }
}

static void nearest_is_to_even_and_cut(void **state) {
  (void)state;
  static const float from[] = {0.5f, 1.5f, -0.5f, -1.5f, 2.5f, 0.4999f, -3.7f, 4194303, -4194303, 1e30f, -INFINITY, INFINITY, NAN};
  static const int to[] = {0, 2, 0, -2, 2, 0, -4, 4194303, -4194303, 4194303, -4194303, 4194303, -4194303};
  for (size_t i = 0; i < sizeof to / sizeof *to; ++i) assert_int_equal(embed__nearest(from[i]), to[i]);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_whole_blocks),
      cmocka_unit_test(the_known_row_is_ggmls_bytes),
      cmocka_unit_test(known_blocks_decode_to_ggmls_floats),
      cmocka_unit_test(every_element_follows_its_formula),
      cmocka_unit_test(the_error_is_the_forms_own),
      cmocka_unit_test(values_come_back_within_a_step),
      cmocka_unit_test(zeros_come_back_as_zeros),
      cmocka_unit_test(odd_rows_stay_finite_and_near),
      cmocka_unit_test(nan_and_infinity_are_refused_at_every_column),
      cmocka_unit_test(scales_past_the_half_float_are_refused),
      cmocka_unit_test(scales_of_nan_and_infinity_decode),
      cmocka_unit_test(equal_rows_are_equal_bytes),
      cmocka_unit_test(noise_changes_nothing),
      cmocka_unit_test(q8_0_rounds_halves_away_from_zero),
      cmocka_unit_test(q4_0_is_the_int4_group_of_32),
      cmocka_unit_test(fp4_scales_are_ggmls),
      cmocka_unit_test(fp4_rounds_as_ggml),
      cmocka_unit_test(mxfp4_exponents_follow_the_largest),
      cmocka_unit_test(nearest_is_to_even_and_cut),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, setup, NULL);
}
