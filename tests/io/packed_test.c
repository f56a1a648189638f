/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed integers in safetensors: MLX, compressed-tensors, GPTQ, AWQ. Each number is what its maker's formula gives in double, rounded to
 * float once; what does not agree with itself is no table. */
#include <math.h>

#include "files.h"
#include "packed_file.h"

enum { MOST = 64 * 1024 };
static uint8_t codes[MOST], zeros[MOST];
static double scales[MOST], biases[MOST];
static float got[MOST];

/* The tensor's rows, in got. */
static embed_dtype read_tensor(embed_context *ctx, const embed_file *f, const char *name, int64_t rows, int64_t dim) {
  embed_table *t = NULL;
  const embed_tensor_info info = info_of(ctx, f, name);
  if (embed_file_table(ctx, f, find(ctx, f, name), &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_true(info.rank == 2 && info.shape[0] == rows && info.shape[1] == dim);
  assert_int_equal(embed_table_rows(t), rows);
  assert_int_equal(embed_table_dim(t), dim);
  assert_int_equal(info.dtype, embed_table_dtype(t));
  memset(got, 0xA5, sizeof got);
  read_rows(ctx, t, got);
  embed_table_release(t);
  return info.dtype;
}

static void same(float is, double want, int64_t row, int64_t j) {
  if (is != (float)want) fail_msg("row %d column %d is %a, not %a", (int)row, (int)j, (double)is, (double)(float)want);
}

static const char *written(const char *name) { return write_file(name, pf_file, pf_end()); }

static unsigned char *put_scales(const char *name, const char *type, int64_t down, int64_t across, int64_t first, double *out) {
  unsigned char *at = pf_matrix(name, type, down, across, pf_width(type));
  for (int64_t i = 0; i < down * across; ++i) out[i] = pf_scale(type, first + i, at + i * pf_width(type));
  return at;
}

/* --- MLX */

static void put_mlx(const char *stem, const char *type, int64_t rows, int64_t dim, int bits, int64_t group) {
  char name[128];
  snprintf(name, sizeof name, "%s.weight", stem);
  pf_codes(codes, rows * dim, bits, (uint64_t)(bits + group));
  pf_along(pf_matrix(name, "U32", rows, dim * bits / 32, 4), codes, rows, dim, bits);
  snprintf(name, sizeof name, "%s.scales", stem);
  (void)put_scales(name, type, rows, dim / group, 0, scales);
  snprintf(name, sizeof name, "%s.biases", stem);
  (void)put_scales(name, type, rows, dim / group, 500, biases);
}

static embed_dtype is_mlx(embed_context *ctx, const embed_file *f, const char *name, int64_t rows, int64_t dim, int64_t group) {
  const embed_dtype dtype = read_tensor(ctx, f, name, rows, dim);
  for (int64_t i = 0; i < rows * dim; ++i) {
    const int64_t g = i / dim * (dim / group) + i % dim / group;
    same(got[i], codes[i] * scales[g] + biases[g], i / dim, i % dim);
  }
  return dtype;
}

static void every_bits_and_group_of_mlx_is_read(void **state) {
  (void)state;
  enum { ROWS = 5 };
  static const int all[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
  static const char *const types[] = {"F16", "BF16", "F32"};
  embed_context *ctx = new_context(NULL);
  for (size_t b = 0; b < 6; ++b)
    for (size_t g = 0; g < 3; ++g)
      for (int t = 0; t < 3; ++t) {
        const int64_t dim = 3 * groups[g];
        char stored[32];
        pf_begin();
        put_mlx("model.embed_tokens", types[t], ROWS, dim, all[b], groups[g]);
        (void)pf_vector("model.norm.weight", "F32", dim, 4);
        embed_file *f = open_file(ctx, written("mlx"), NULL);
        /* four bits become Q4_1 where scales and biases are half floats, whatever type they are in */
        assert_int_equal(is_mlx(ctx, f, "model.embed_tokens.weight", ROWS, dim, groups[g]), all[b] <= 4 && t < 2 ? EMBED_Q4_1 : EMBED_F32);
        const embed_tensor_info info = info_of(ctx, f, "model.embed_tokens.weight");
        snprintf(stored, sizeof stored, "mlx%d-g%d", all[b], groups[g]);
        assert_string_equal(info.stored, stored);
        assert_int_equal(info.bytes, ROWS * dim * all[b] / 8);
        assert_int_equal(info.role, EMBED_ROLE_TOKEN);
        assert_non_null(strstr(embed_file_notes(f), "1 tensor is packed as MLX does"));
        embed_file_release(f);
      }
  unlink(path_of("mlx"));
  embed_context_release(ctx);
}

static void a_scale_that_is_no_half_float_keeps_floats(void **state) {
  (void)state;
  static const struct {
    uint16_t bits;
    double value;
    embed_dtype dtype;
  } all[] = {{0x3700, 0x1p-17, EMBED_Q4_1}, {0x3680, 0x1p-18, EMBED_Q4_1},   {0x3681, 0x1.02p-18, EMBED_F32}, {0x0D00, 0x1p-101, EMBED_F32},
             {0x4780, 0x1p16, EMBED_F32},   {0x477F, 0x1.FEp15, EMBED_Q4_1}, {0xB700, -0x1p-17, EMBED_Q4_1}};
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k)
    for (int biased = 0; biased < 2; ++biased) {
      pf_begin();
      put_mlx("model.embed_tokens", "BF16", 3, 96, 4, 32);
      pf_put(pf_data + pf_count - (biased ? 0 : 18) - 4, all[k].bits, 2); /* the last but one of the scales, or of the biases */
      (biased ? biases : scales)[7] = all[k].value;
      (void)pf_vector("model.norm.weight", "F32", 96, 4);
      embed_file *f = open_file(ctx, written("halves"), NULL);
      assert_int_equal(is_mlx(ctx, f, "model.embed_tokens.weight", 3, 96, 32), all[k].dtype);
      embed_file_release(f);
    }
  unlink(path_of("halves"));
  embed_context_release(ctx);
}

static float e2m1(int code) {
  static const float all[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -all[code & 7] : all[code & 7];
}

static double e4m3(int byte) {
  const int exponent = byte >> 3 & 15, low = byte & 7;
  const double value = exponent ? ldexp(8 + low, exponent - 10) : ldexp(low, -9);
  return byte & 128 ? -value : value;
}

static void the_floats_of_mlx_are_read(void **state) {
  (void)state;
  enum { ROWS = 7 };
  static const struct {
    const char *stored;
    int bits, group;
  } modes[] = {{"mxfp4-g32", 4, 32}, {"mxfp8-g32", 8, 32}, {"nvfp4-g16", 4, 16}};
  embed_context *ctx = new_context(NULL);
  for (int m = 0; m < 3; ++m) {
    const int64_t groups = m == 2 ? 2 : 3, dim = groups * modes[m].group;
    pf_codes(codes, ROWS * dim, modes[m].bits, 11);
    for (int64_t i = 0; i < ROWS * dim; ++i)
      if ((codes[i] & 127) == 127) codes[i] = 1; /* E4M3's NaN */
    pf_begin();
    pf_along(pf_matrix("lm_head.weight", "U32", ROWS, dim * modes[m].bits / 32, 4), codes, ROWS, dim, modes[m].bits);
    unsigned char *at = pf_matrix("lm_head.scales", "U8", ROWS, groups, 1);
    for (int64_t i = 0; i < ROWS * groups; ++i) at[i] = (unsigned char)(m == 2 ? 40 + i : 110 + i);
    memcpy(zeros, at, (size_t)(ROWS * groups));
    embed_file *f = open_file(ctx, written("mx"), NULL);
    assert_int_equal(read_tensor(ctx, f, "lm_head.weight", ROWS, dim), EMBED_F32);
    assert_string_equal(info_of(ctx, f, "lm_head.weight").stored, modes[m].stored);
    for (int64_t i = 0; i < ROWS * dim; ++i) {
      const int scale = zeros[i / dim * groups + i % dim / modes[m].group];
      same(got[i], (m == 1 ? e4m3(codes[i]) : (double)e2m1(codes[i])) * (m == 2 ? e4m3(scale) : ldexp(1, scale - 127)), i / dim, i % dim);
    }
    embed_file_release(f);
  }
  unlink(path_of("mx"));
  embed_context_release(ctx);
}

/* What tells 4 bits in groups of 64 from 8 in groups of 32: shapes are the same. */
static const char *in_folder(const char *name) {
  static char paths[2][4200];
  static unsigned next;
  char *path = paths[next++ % 2];
  snprintf(path, sizeof paths[0], "%s/io-%ld-packed/%s", TEST_BINARY_DIR, (long)getpid(), name);
  return path;
}

static void put_in_folder(const char *name, const void *bytes, size_t count) {
  char folder[4200];
  strcpy(folder, in_folder(""));
  (void)mkdir(folder, 0700);
  (void)unlink(in_folder(name));
  FILE *out = fopen(in_folder(name), "wbe");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, count, out), count);
  assert_int_equal(fclose(out), 0);
}

static embed_file *open_with_config(embed_context *ctx, const char *config) {
  (void)pf_end();
  put_in_folder("model.safetensors", pf_file, pf_bytes);
  (void)unlink(in_folder("config.json"));
  if (config) put_in_folder("config.json", config, strlen(config));
  return open_file(ctx, in_folder("model.safetensors"), NULL);
}

static void empty_folder(void) {
  (void)unlink(in_folder("config.json"));
  (void)unlink(in_folder("model.safetensors"));
  (void)rmdir(in_folder(""));
}

static void config_tells_bits_where_no_norm_does(void **state) {
  (void)state;
  static const struct {
    const char *config, *stored; /* NULL = no table */
  } all[] = {{"{\"quantization\":{\"group_size\":64,\"bits\":4}}", "mlx4-g64"},
             {"{\"quantization\":{\"bits\":8,\"group_size\":32,\"mode\":\"affine\"}}", "mlx8-g32"},
             {"{\"quantization_config\":{\"bits\":2,\"group_size\":128}}", "mlx2-g128"},
             {"{\"quantization\":{\"group_size\":64,\"bits\":4,\"lm_head\":{\"bits\":8,\"group_size\":32}}}", "mlx8-g32"},
             {"{\"quantization\":{\"lm_head\":{\"group_size\":128,\"bits\":2},\"group_size\":64,\"bits\":4,\"x\":false,\"y\":[1,{}]}}", "mlx2-g128"},
             {"{\"quantization\":{\"group_size\":32,\"bits\":4,\"lm_head\":{\"bits\":8}}}", "mlx8-g32"},
             {"{\"quantization\":{\"group_size\":64,\"bits\":4,\"other\":{\"bits\":8,\"group_size\":32},\"lm_head\":true}}", "mlx4-g64"},
             {"{\"quantization\":{\"group_size\":64,\"bits\":6}}", NULL},
             {"{\"quantization\":{\"group_size\":-64,\"bits\":4}}", NULL},
             {"{\"quantization\":{\"group_size\":99999999999,\"bits\":4}}", NULL},
             {"{\"quantization\":{\"group_size\":64,\"bits\":\"4\"}}", NULL},
             {"{\"quantization\":[{\"group_size\":64,\"bits\":4}]}", NULL},
             {"{\"quantization\":{\"group_size\":64,\"bits\":4}", NULL}, /* cut short: what it said so far counts for nothing */
             {"{\"bits\":4,\"group_size\":64}", NULL},
             {"[]", NULL},
             {NULL, NULL}};
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    embed_table *t = NULL;
    pf_begin();
    put_mlx("lm_head", "F16", 3, 128, 4, 64);
    embed_file *f = open_with_config(ctx, all[k].config);
    const embed_tensor_info info = info_of(ctx, f, "lm_head.weight");
    if (all[k].stored) {
      assert_string_equal(info.stored, all[k].stored);
      if (k == 0) (void)is_mlx(ctx, f, "lm_head.weight", 3, 128, 64);
    } else {
      assert_string_equal(info.stored, "U32");
      assert_int_equal(embed_file_table(ctx, f, find(ctx, f, "lm_head.weight"), &t), EMBED_E_UNSUPPORTED);
      assert_non_null(strstr(embed_error_text(ctx), "neither a norm of the file nor config.json"));
    }
    embed_file_release(f);
  }
  empty_folder();
  embed_context_release(ctx);
}

/* A config of another model beside it; a square matrix, which norms say nothing of, follows what they decided. */
static void norms_come_before_config(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pf_begin();
  put_mlx("model.layers.0.self_attn.o_proj", "F16", 128, 256, 4, 64); /* 4 bits in groups of 64: 256 wide; 8 in groups of 32: as wide as the norm */
  put_mlx("model.embed_tokens", "F16", 3, 128, 4, 64);
  (void)pf_vector("model.norm.weight", "F32", 128, 4);
  embed_file *f = open_with_config(ctx, "{\"quantization\":{\"group_size\":32,\"bits\":8}}");
  (void)is_mlx(ctx, f, "model.embed_tokens.weight", 3, 128, 64);
  assert_non_null(strstr(embed_file_notes(f), "config.json says 8 bits in groups of 32, by the file's norms model.embed_tokens.weight has 4 in groups of 64"));
  embed_file_release(f);
  f = open_with_config(ctx, "{\"quantization\":{\"group_size\":64,\"bits\":4}}");
  assert_null(strstr(embed_file_notes(f), "config.json says"));
  assert_int_equal(info_of(ctx, f, "model.layers.0.self_attn.o_proj.weight").shape[1], 256);
  embed_file_release(f);
  pf_begin();
  put_mlx("model.embed_tokens", "F16", 3, 128, 4, 64);
  put_mlx("model.layers.0.self_attn.o_proj", "F16", 128, 256, 4, 64);
  (void)pf_vector("model.norm.weight", "F32", 128, 4);
  f = open_with_config(ctx, NULL);
  (void)is_mlx(ctx, f, "model.layers.0.self_attn.o_proj.weight", 128, 256, 64);
  embed_file_release(f);
  empty_folder();
  embed_context_release(ctx);
}

/* --- compressed-tensors */

static void put_compressed(int64_t rows, int64_t dim, int bits, int64_t groups, const char *type, int zero_points, int indexed, const char *shape_type) {
  const int64_t n = 32 / bits;
  const int wide = !strcmp(shape_type, "I64") ? 8 : 4;
  pf_codes(codes, rows * dim, bits, (uint64_t)(bits + dim));
  pf_codes(zeros, rows * groups, bits, 77);
  pf_begin();
  unsigned char *at = pf_tensor("lm_head.weight_shape", shape_type, "[2]", (size_t)(2 * wide));
  pf_put(at, (uint64_t)rows, wide), pf_put(at + wide, (uint64_t)dim, wide);
  pf_in_words(pf_matrix("lm_head.weight_packed", "I32", rows, (dim + n - 1) / n, 4), codes, rows, dim, bits);
  (void)put_scales("lm_head.weight_scale", type, rows, groups, 0, scales);
  if (zero_points) pf_down_words(pf_matrix("lm_head.weight_zero_point", "I32", (rows + n - 1) / n, groups, 4), zeros, rows, groups, bits);
  if (!indexed) return;
  at = pf_vector("lm_head.weight_g_idx", "I32", dim, 4);
  for (int64_t j = 0; j < dim; ++j) pf_put(at + 4 * j, (uint64_t)(indexed == 1 ? j * 7 % groups : j / (dim / groups)), 4);
}

static void every_form_of_compressed_tensors_is_read(void **state) {
  (void)state;
  enum { ROWS = 37 };
  static const int all[] = {2, 3, 4, 5, 6, 8};
  static const int64_t dims[] = {128, 330, 301}, groups[] = {2, 5, 1};
  static const char *const types[] = {"F16", "BF16", "F32"};
  embed_context *ctx = new_context(NULL);
  for (int b = 0; b < 6; ++b)
    for (int d = 0; d < 3; ++d)
      for (int form = 0; form < 6; ++form) { /* with zero points or not; no groups of columns, some, those that follow one another */
        const int zero_points = form % 2, indexed = form / 2;
        const int64_t dim = dims[d], in_a_row = groups[d];
        put_compressed(ROWS, dim, all[b], in_a_row, types[(b + d) % 3], zero_points, indexed, form % 3 ? "I64" : "I32");
        embed_file *f = open_file(ctx, written("compressed"), NULL);
        const embed_dtype dtype = read_tensor(ctx, f, "lm_head.weight_packed", ROWS, dim);
        const int grouped = !zero_points && (indexed != 1 || in_a_row == 1);
        assert_int_equal(dtype, grouped && in_a_row == 1 ? EMBED_I8_ROW : grouped && d == 0 && (b + d) % 3 < 2 && all[b] <= 4 ? EMBED_I4_GROUP : EMBED_F32);
        for (int64_t i = 0; i < ROWS * dim; ++i) {
          const int64_t j = i % dim, g = i / dim * in_a_row + (indexed == 1 ? j * 7 % in_a_row : j / (dim / in_a_row));
          same(got[i], (codes[i] - (zero_points ? zeros[g] : 1 << (all[b] - 1))) * scales[g], i / dim, j);
        }
        const embed_tensor_info info = info_of(ctx, f, "lm_head.weight_packed");
        char stored[32];
        snprintf(stored, sizeof stored, indexed == 1 && in_a_row > 1 ? "int%d-by-index" : "int%d-g%d", all[b], (int)(dim / in_a_row));
        assert_string_equal(info.stored, stored);
        assert_int_equal(info.role, EMBED_ROLE_TOKEN); /* the head alone: it serves as both */
        assert_non_null(strstr(embed_file_notes(f), "1 tensor is packed as compressed-tensors does"));
        embed_file_release(f);
      }
  unlink(path_of("compressed"));
  embed_context_release(ctx);
}

/* As it is made: no column has been given a group. */
static void an_index_that_was_never_set_counts_for_nothing(void **state) {
  (void)state;
  enum { ROWS = 5, DIM = 128, GROUPS = 2 };
  embed_context *ctx = new_context(NULL);
  for (int unset = 1; unset <= DIM; unset += DIM - 1) {
    put_compressed(ROWS, DIM, 4, GROUPS, "F32", 1, 1, "I64");
    memset(pf_data + pf_count - (size_t)unset * 4, 0xFF, (size_t)unset * 4); /* the last columns */
    embed_file *f = open_file(ctx, written("unset"), NULL);
    (void)read_tensor(ctx, f, "lm_head.weight_packed", ROWS, DIM);
    for (int64_t i = 0; i < ROWS * DIM; ++i) {
      const int64_t g = i / DIM * GROUPS + i % DIM / (DIM / GROUPS);
      same(got[i], (codes[i] - zeros[g]) * scales[g], i / DIM, i % DIM);
    }
    assert_string_equal(info_of(ctx, f, "lm_head.weight_packed").stored, "int4-g64");
    embed_file_release(f);
  }
  unlink(path_of("unset"));
  embed_context_release(ctx);
}

/* --- GPTQ, AWQ */

static void put_gptq(int64_t rows, int64_t dim, int bits, int64_t groups, int indexed, int middle) {
  pf_codes(codes, rows * dim, bits, (uint64_t)(bits + dim));
  pf_codes(zeros, rows * groups, bits, 78);
  if (middle) memset(zeros, (1 << (bits - 1)) - (middle < 0), (size_t)(rows * groups));
  pf_begin();
  pf_down(pf_matrix("lm_head.qweight", "I32", dim * bits / 32, rows, 4), codes, rows, dim, bits);
  pf_zeros(pf_matrix("lm_head.qzeros", "I32", groups, rows * bits / 32, 4), zeros, rows, groups, bits);
  (void)put_scales("lm_head.scales", "F16", groups, rows, 0, scales);
  if (!indexed) return;
  unsigned char *at = pf_vector("lm_head.g_idx", "I32", dim, 4);
  for (int64_t j = 0; j < dim; ++j) pf_put(at + 4 * j, (uint64_t)(indexed == 1 ? j * 5 % groups : j / (dim / groups)), 4);
}

static void every_form_of_gptq_is_read(void **state) {
  (void)state;
  enum { ROWS = 64, DIM = 96, GROUPS = 3 };
  static const int all[] = {2, 3, 4, 8};
  static const char *const configs[] = {NULL, "{\"quantization_config\":{\"bits\":4,\"checkpoint_format\":\"gptq\",\"sym\":false}}",
                                        "{\"quantization_config\":{\"bits\":4,\"checkpoint_format\":\"gptq_v2\"}}", "{\"quantization_config\":"};
  embed_context *ctx = new_context(NULL);
  for (int b = 0; b < 4; ++b)
    for (int indexed = 0; indexed < 3; ++indexed)
      for (int c = 0; c < 4; ++c)
        for (int middle = -1; middle < 2; ++middle) { /* zeros of the middle say themselves what they are */
          put_gptq(ROWS, DIM, all[b], GROUPS, indexed, middle);
          embed_file *f = open_with_config(ctx, configs[c]);
          (void)read_tensor(ctx, f, "lm_head.qweight", ROWS, DIM);
          const int more = middle ? middle < 0 : c != 2;
          for (int64_t i = 0; i < ROWS * DIM; ++i) {
            const int64_t row = i / DIM, j = i % DIM, g = indexed == 1 ? j * 5 % GROUPS : j / (DIM / GROUPS);
            const int zero = (zeros[row * GROUPS + g] + more) % (1 << all[b]); /* of so many bits: 0 was stored as -1 */
            same(got[i], (codes[i] - zero) * scales[g * ROWS + row], row, j);
          }
          assert_non_null(strstr(embed_file_notes(f), "1 tensor is packed as GPTQ does"));
          embed_file_release(f);
        }
  empty_folder();
  embed_context_release(ctx);
}

static void awq_is_read(void **state) {
  (void)state;
  enum { ROWS = 48, DIM = 100, GROUPS = 4 };
  embed_context *ctx = new_context(NULL);
  pf_codes(codes, ROWS * DIM, 4, 21);
  pf_codes(zeros, ROWS * GROUPS, 4, 22);
  pf_begin();
  pf_awq(pf_matrix("lm_head.qweight", "I32", DIM, ROWS / 8, 4), codes, ROWS, DIM);
  pf_awq(pf_matrix("lm_head.qzeros", "I32", GROUPS, ROWS / 8, 4), zeros, ROWS, GROUPS);
  (void)put_scales("lm_head.scales", "F16", GROUPS, ROWS, 0, scales);
  embed_file *f = open_file(ctx, written("awq"), NULL);
  (void)read_tensor(ctx, f, "lm_head.qweight", ROWS, DIM);
  for (int64_t i = 0; i < ROWS * DIM; ++i) {
    const int64_t row = i / DIM, g = i % DIM / (DIM / GROUPS);
    same(got[i], (codes[i] - zeros[row * GROUPS + g]) * scales[g * ROWS + row], row, i % DIM);
  }
  assert_string_equal(info_of(ctx, f, "lm_head.qweight").stored, "awq4-g25");
  assert_non_null(strstr(embed_file_notes(f), "1 tensor is packed as AWQ does"));
  embed_file_release(f);
  unlink(path_of("awq"));
  embed_context_release(ctx);
}

/* --- bitsandbytes, int8 */

static void four_bits_of_bitsandbytes_are_read(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 5; kind < 7; ++kind) {
    float map[16], absmax[8];
    unsigned char at[4];
    make_packed(kind);
    pf_codes(codes, 8 * 64, 4, 3);
    for (int i = 0; i < 16; ++i) map[i] = (float)pf_scale("F32", 60 * i, at);
    for (int i = 0; i < 8; ++i)
      absmax[i] = kind == 5 ? (float)pf_scale("F32", i, at) : (float)pf_scale("F32", 3 * 31 * i, at) * (float)pf_scale("F32", 10 + i / 4, at) + 0.0625f;
    embed_file *f = open_file(ctx, write_file("bnb", pf_file, pf_bytes), NULL);
    assert_int_equal(read_tensor(ctx, f, "lm_head.weight", 8, 64), EMBED_F32);
    for (int i = 0; i < 8 * 64; ++i) same(got[i], (double)(map[codes[i]] * absmax[i / 64]), i / 64, i % 64);
    assert_string_equal(info_of(ctx, f, "lm_head.weight").stored, "bnb-nf4");
    assert_non_null(strstr(embed_file_notes(f), "1 tensor is of bitsandbytes' four bits"));
    embed_file_release(f);
  }
  unlink(path_of("bnb"));
  embed_context_release(ctx);
}

/* 65 codes in 33 bytes, 16 to a block: neither bytes nor blocks end where rows do. */
static void four_bits_of_odd_rows_are_read(void **state) {
  (void)state;
  enum { ROWS = 5, DIM = 13 };
  unsigned char at[4];
  embed_context *ctx = new_context(NULL);
  make_packed(15);
  pf_codes(codes, ROWS * DIM, 4, 7);
  embed_file *f = open_file(ctx, write_file("odd", pf_file, pf_bytes), NULL);
  assert_int_equal(read_tensor(ctx, f, "lm_head.weight", ROWS, DIM), EMBED_F32);
  for (int i = 0; i < ROWS * DIM; ++i) same(got[i], (double)((float)pf_scale("F32", 60 * codes[i], at) * (float)pf_scale("F32", i / 16, at)), i / DIM, i % DIM);
  assert_string_equal(info_of(ctx, f, "lm_head.weight").stored, "bnb-fp4");
  embed_file_release(f);
  unlink(path_of("odd"));
  embed_context_release(ctx);
}

static void int8_has_a_scale_of_bitsandbytes_or_a_zero_point(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 7; kind < 9; ++kind) {
    unsigned char at[4];
    make_packed(kind);
    pf_codes(codes, 8 * 64, 4, 3);
    embed_file *f = open_file(ctx, write_file("int8", pf_file, pf_bytes), NULL);
    assert_int_equal(read_tensor(ctx, f, "lm_head.weight", 8, 64), kind == 7 ? EMBED_I8_ROW : EMBED_F32);
    for (int i = 0; i < 8 * 64; ++i) {
      const int8_t q = (int8_t)(codes[i] * 16 + i % 16), zero = (int8_t)(17 * (i / 64));
      const double scale = pf_scale("F32", i / 64, at);
      same(got[i], kind == 7 ? (double)((float)q * (float)(scale / 127)) : (q - zero) * scale, i / 64, i % 64);
    }
    embed_file_release(f);
  }
  unlink(path_of("int8"));
  embed_context_release(ctx);
}

/* --- Ends */

/* A head that is packed beside a table that is not, found by its name, and its bias. */
static void a_packed_head_is_a_head(void **state) {
  (void)state;
  enum { ROWS = 32, DIM = 64 };
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < 2; ++kind) {
    embed_head *h = NULL;
    int64_t head = -1, bias = -1;
    float x[DIM] = {1}, logits[ROWS];
    if (kind)
      put_compressed(ROWS, DIM, 4, 1, "F16", 0, 0, "I64");
    else
      put_gptq(ROWS, DIM, 4, 1, 0, -1);
    unsigned char *at = pf_vector("lm_head.bias", "F32", ROWS, 4);
    for (int r = 0; r < ROWS; ++r) (void)pf_scale("F32", r, at + 4 * r);
    (void)pf_matrix("model.embed_tokens.weight", "F16", ROWS, DIM, 2);
    embed_file *f = open_file(ctx, written("head"), NULL);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD_BIAS, &bias), EMBED_OK);
    assert_int_equal(head, find(ctx, f, kind ? "lm_head.weight_packed" : "lm_head.qweight"));
    assert_int_equal(bias, find(ctx, f, "lm_head.bias"));
    assert_non_null(strstr(embed_file_notes(f), "untied"));
    assert_int_equal(embed_file_head(ctx, f, NULL, NULL, &h), EMBED_OK);
    assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_OK);
    for (int r = 0; r < ROWS; ++r) {
      unsigned char ignored[4];
      same(logits[r], (double)((float)((codes[r * DIM] - 8) * scales[r]) + (float)pf_scale("F32", r, ignored)), r, 0);
    }
    embed_head_release(h);
    embed_file_release(f);
  }
  unlink(path_of("head"));
  embed_context_release(ctx);
}

/* By the end of its name, below what no list knows. */
static void a_packed_table_is_found_by_its_ending(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  int64_t table = -1;
  put_gptq(32, 64, 4, 1, 0, -1);
  for (char *at = pf_header; (at = strstr(at, "\"lm_head."));) memcpy(at, "\"x.e____.", 9);
  char renamed[PF_HEADER];
  size_t length = 0;
  for (const char *from = pf_header, *at; *from; from = at ? at + 6 : from + strlen(from)) {
    at = strstr(from, "e____.");
    length +=
        (size_t)snprintf(renamed + length, sizeof renamed - length, "%.*s%s", (int)(at ? (size_t)(at - from) : strlen(from)), from, at ? "embed_tokens." : "");
    assert_true(length < sizeof renamed);
  }
  strcpy(pf_header, renamed);
  embed_file *f = open_file(ctx, written("ending"), NULL);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &table), EMBED_OK);
  assert_int_equal(table, find(ctx, f, "x.embed_tokens.qweight"));
  assert_non_null(strstr(embed_file_notes(f), "its name ends in \"embed_tokens.weight\""));
  embed_file_release(f);
  unlink(path_of("ending"));
  embed_context_release(ctx);
}

/* Two ends of equal parts are one; another scale, bias or zero is another matrix, and the notes say where. */
static void ends_are_tied_by_all_their_parts(void **state) {
  (void)state;
  static const char *const parts[] = {NULL, "weight", "scales", "biases"};
  embed_context *ctx = new_context(NULL);
  for (int k = 0; k < 4; ++k) {
    char name[64];
    int64_t head = -1, table = -1;
    pf_begin();
    put_mlx("model.embed_tokens", "BF16", 3, 64, 4, 64);
    const size_t bytes = pf_count;
    put_mlx("lm_head", "BF16", 3, 64, 4, 64);
    (void)pf_vector("model.norm.weight", "F32", 64, 4);
    const size_t at[] = {0, 5, 3 * 32 + 3, 3 * 32 + 6 + 1};
    if (k) pf_data[bytes + at[k]] ^= 1;
    embed_file *f = open_file(ctx, written("ends"), NULL);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &table), EMBED_OK);
    assert_int_equal(head == table, k == 0);
    assert_int_equal(head, find(ctx, f, k ? "lm_head.weight" : "model.embed_tokens.weight"));
    snprintf(name, sizeof name, k == 1 ? "first at byte 5 of both" : "first at byte %d of what stands in \"lm_head.%s\"", k == 2 ? 3 : 1,
             parts[k] ? parts[k] : "");
    if (!strstr(embed_file_notes(f), k ? name : "equals byte for byte")) fail_msg("%s", embed_file_notes(f));
    embed_file_release(f);
  }
  unlink(path_of("ends"));
  embed_context_release(ctx);
}

/* --- Elsewhere */

static void a_hint_survives_failures_of_memory(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pf_begin();
  put_mlx("lm_head", "F16", 3, 128, 4, 64);
  embed_file_release(open_with_config(ctx, "{\"quantization\":{\"group_size\":64,\"bits\":4,\"lm_head\":{\"bits\":4,\"group_size\":64}}}"));
  survives_failures(in_folder("model.safetensors"), NULL); /* a hint's memory too */
  empty_folder();
  embed_context_release(ctx);
}

/* An index is proved when the file is opened. */
static void an_index_that_changes_later_reads_no_other_memory(void **state) {
  (void)state;
  enum { ROWS = 64, DIM = 96, GROUPS = 3 };
  embed_context *ctx = new_context(NULL);
  put_gptq(ROWS, DIM, 4, GROUPS, 1, -1);
  embed_file *f = open_file(ctx, written("changed"), NULL);
  change_file("changed", (size_t)info_of(ctx, f, "lm_head.g_idx").offset, "\xFF\xFF\xFF\xFF", 4);
  (void)read_tensor(ctx, f, "lm_head.qweight", ROWS, DIM);
  for (int64_t row = 0; row < ROWS; ++row) same(got[row * DIM], (codes[row * DIM] - 8) * scales[(GROUPS - 1) * ROWS + row], row, 0);
  embed_file_release(f);
  unlink(path_of("changed"));
  embed_context_release(ctx);
}

static void seven_threads_decode_the_same_rows(void **state) {
  (void)state;
  enum { ROWS = 512, DIM = 96 };
  static float one[ROWS * DIM];
  for (int threads = 1; threads <= 7; threads += 6) {
    embed_pool *pool = NULL;
    assert_int_equal(embed_pool_create(threads, &pool), EMBED_OK);
    embed_context *ctx = new_context(pool);
    put_gptq(ROWS, DIM, 4, 3, 1, 0);
    embed_file *f = open_file(ctx, written("threads"), NULL);
    (void)read_tensor(ctx, f, "lm_head.qweight", ROWS, DIM);
    if (threads == 1)
      memcpy(one, got, sizeof one);
    else
      assert_same_bits(got, one, sizeof one);
    embed_file_release(f);
    embed_context_release(ctx);
    embed_pool_release(pool);
  }
  unlink(path_of("threads"));
}

#define T(name, type, shape, from, to) "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

/* An index whose scales lie in another file than the codes. */
static void parts_may_lie_in_another_shard(void **state) {
  (void)state;
  static const char codes_header[] = "{" T("w.weight", "U32", "[1,10]", 0, 40) "}",
                    parts_header[] = "{" T("w.scales", "F32", "[1,1]", 0, 4) "," T("w.biases", "F32", "[1,1]", 4, 8) "}";
  static const unsigned char parts[8] = {0, 0, 0, 0x40, 0, 0, 0, 0x3F}; /* 2 and 0.5 */
  unsigned char words[40] = {0xE1};                                     /* 5 bits: 1, then 7 */
  char first[4096], second[4096], text[8192];
  embed_context *ctx = new_context(NULL);
  strcpy(first, write_file("codes.safetensors", pf_file, make_safetensors(pf_file, codes_header, 8, words, 40)));
  strcpy(second, write_file("parts.safetensors", pf_file, make_safetensors(pf_file, parts_header, 8, parts, 8)));
  const char *a = strrchr(first, '/') + 1, *b = strrchr(second, '/') + 1;
  const int bytes = snprintf(text, sizeof text, "{\"weight_map\":{\"w.weight\":\"%s\",\"w.scales\":\"%s\",\"w.biases\":\"%s\"}}", a, b, b);
  const char *index = write_file("packed.index.json", text, (size_t)bytes);
  embed_file *f = open_file(ctx, index, NULL);
  (void)read_tensor(ctx, f, "w.weight", 1, 64);
  assert_true(got[0] == 2.5f && got[1] == 14.5f && got[2] == 0.5f && got[63] == 0.5f);
  assert_int_equal(info_of(ctx, f, "w.weight").shard, 0);
  embed_file_release(f);
  unlink(index), unlink(first), unlink(second);
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bits_and_group_of_mlx_is_read),
      cmocka_unit_test(a_scale_that_is_no_half_float_keeps_floats),
      cmocka_unit_test(the_floats_of_mlx_are_read),
      cmocka_unit_test(config_tells_bits_where_no_norm_does),
      cmocka_unit_test(norms_come_before_config),
      cmocka_unit_test(every_form_of_compressed_tensors_is_read),
      cmocka_unit_test(an_index_that_was_never_set_counts_for_nothing),
      cmocka_unit_test(every_form_of_gptq_is_read),
      cmocka_unit_test(awq_is_read),
      cmocka_unit_test(four_bits_of_bitsandbytes_are_read),
      cmocka_unit_test(four_bits_of_odd_rows_are_read),
      cmocka_unit_test(int8_has_a_scale_of_bitsandbytes_or_a_zero_point),
      cmocka_unit_test(a_packed_head_is_a_head),
      cmocka_unit_test(a_packed_table_is_found_by_its_ending),
      cmocka_unit_test(ends_are_tied_by_all_their_parts),
      cmocka_unit_test(a_hint_survives_failures_of_memory),
      cmocka_unit_test(an_index_that_changes_later_reads_no_other_memory),
      cmocka_unit_test(seven_threads_decode_the_same_rows),
      cmocka_unit_test(parts_may_lie_in_another_shard),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
