/* SPDX-License-Identifier: BSD-3-Clause */
/* Integers of 2 to 8 bits packed into words of 32, as quantised checkpoints have them in safetensors. A code q of row r, column j is the
 * number (q - z) * s, or q * s + b: s, z and b belong to the row and to the group g of columns that j is in. Formed in double, rounded to
 * float once. Low bits come first in a word; a stream of codes runs on from word to word, in "words" no code crosses one.
 *
 *   MLX                 X.weight [rows, dim * bits / 32], a stream along the row; X.scales, X.biases [rows, groups]: q * s + b
 *     mxfp4, mxfp8      X.scales are bytes e of 2^(e - 127), a group is 32 columns; no biases: s * E2M1(q), s * E4M3(q)
 *     nvfp4             X.scales are bytes of E4M3, a group is 16 columns: s * E2M1(q)
 *   compressed-tensors  X.weight_packed [rows, ceil(dim / n)], n = 32 / bits codes a word; X.weight_shape = rows, dim; X.weight_scale [rows,
 *                       groups]; X.weight_zero_point [ceil(rows / n), groups], n codes a word down the rows, or none: z = 2^(bits - 1);
 *                       X.weight_g_idx: the group of each column, or none, or a -1 in it
 *   GPTQ                X.qweight [dim * bits / 32, rows], a stream down the column; X.scales [groups, rows]; X.qzeros [groups, rows * bits /
 *                       32], a stream along, to which GPTQ adds 1 in as many bits (the largest is 0, as which -1 was stored) and its second
 *                       version ("gptq_v2") nothing; X.g_idx as above
 *   AWQ                 X.qweight [dim, rows / 8], column r of 8 at bits 4 * order[r % 8]; X.qzeros likewise; X.scales [groups, rows]
 *
 * The tensor keeps its name and gets the shape [rows, dim]. Its tables are of the smallest dtype that has every number's bits, often f32.
 * One whose parts do not agree is no table: the codes alone would be other numbers. */
#include <inttypes.h>
#include <stdatomic.h>

#include "core/checked.h"
#include "core/least.h"
#include "io/scales.h"
#include "io/text.h"
#include "thread/run.h"

enum { TOGETHER = 32, AWQ_CODES = 8, FEW = 16 };

typedef enum layout { STREAM, WORDS, DOWN, ACROSS } layout;  /* of codes: see above; ACROSS is AWQ's */
typedef enum numbers { INTEGERS, FLOATS4, FLOATS8 } numbers; /* that codes stand for */
typedef enum family { MLX, COMPRESSED, GPTQ, AWQ, FAMILIES } family;

typedef struct recipe {
  int64_t scales, zeros, index; /* tensors: zeros are MLX's biases, index has the group of each column; -1 = none */
  int64_t rows, groups, group;  /* group: its columns */
  int32_t bits, layout, numbers, family, of_scales;
  int32_t origin; /* z where there are no zeros; what is added to those that there are */
} recipe;
enum { PARTS = 3 };

/* --- Decoding */

#define INLINE static inline __attribute__((always_inline)) /* with constant bits the loops are unrolled */

INLINE void take(const uint32_t *words, int bits, uint8_t *codes) {
  for (int j = 0; j < TOGETHER; ++j) {
    const int at = j * bits, shift = at % 32;
    uint32_t code = words[at / 32] >> shift;
    if (shift + bits > 32) code |= words[at / 32 + 1] << (32 - shift);
    codes[j] = (uint8_t)(code & ((1u << bits) - 1u));
  }
}

/* Codes of a stream whose words lie `stride` bytes apart. */
static void take_stream(const unsigned char *p, int64_t stride, int bits, int64_t count, uint8_t codes[TOGETHER]) {
  uint32_t words[9] = {0};
  for (int64_t i = 0; i < embed__ceil_div(count * bits, 32); ++i) words[i] = embed__le32(p + i * stride);
  switch (bits) {
    case 2: take(words, 2, codes); break;
    case 3: take(words, 3, codes); break;
    case 4: take(words, 4, codes); break;
    case 5: take(words, 5, codes); break;
    case 6: take(words, 6, codes); break;
    default: take(words, 8, codes);
  }
}

/* Code i of those that begin at p, `n` to a word, words `stride` bytes apart. */
static uint32_t code_in(const unsigned char *p, int64_t stride, int64_t i, int bits) {
  const int64_t n = 32 / bits;
  return (embed__le32(p + i / n * stride) >> (i % n * bits)) & ((1u << bits) - 1u);
}

static uint32_t awq_code(const unsigned char *p, int64_t row) {
  static const unsigned char order[AWQ_CODES] = {0, 4, 1, 5, 2, 6, 3, 7};
  return (embed__le32(p + row / AWQ_CODES * 4) >> (4 * order[row % AWQ_CODES])) & 15;
}

static void take_codes(const recipe *r, const unsigned char *data, int64_t row, int64_t dim, int64_t at, uint8_t codes[TOGETHER]) {
  const int64_t count = embed__min(TOGETHER, dim - at), n = 32 / r->bits;
  switch (r->layout) {
    case STREAM: take_stream(data + row * (dim * r->bits / 32 * 4) + at * r->bits / 32 * 4, 4, r->bits, count, codes); break;
    case DOWN: take_stream(data + (at * r->bits / 32 * r->rows + row) * 4, 4 * r->rows, r->bits, count, codes); break;
    case ACROSS:
      for (int64_t j = 0; j < count; ++j) codes[j] = (uint8_t)awq_code(data + (at + j) * (r->rows / AWQ_CODES * 4), row);
      break;
    default:
      data += row * embed__ceil_div(dim, n) * 4;
      for (int64_t j = 0; j < count; ++j) codes[j] = (uint8_t)code_in(data, 4, at + j, r->bits);
  }
}

/* z of a row's group g. */
static int32_t zero_at(const recipe *r, const unsigned char *zeros, int64_t row, int64_t g) {
  uint32_t z, next = 0;
  const int64_t at = row * r->bits, words = r->rows * r->bits / 32;
  switch (r->family) {
    case COMPRESSED: return (int32_t)code_in(zeros + 4 * g, 4 * r->groups, row, r->bits);
    case AWQ: return (int32_t)awq_code(zeros + g * (r->rows / AWQ_CODES * 4), row);
    default:
      zeros += (g * words + at / 32) * 4;
      z = embed__le32(zeros) >> (at % 32);
      if (at % 32 + r->bits > 32) next = embed__le32(zeros + 4) << (32 - at % 32);
      return (int32_t)(((z | next) + (uint32_t)r->origin) & ((1u << r->bits) - 1u));
  }
}

static double number_of(int32_t kind, uint8_t code) {
  static const float fp4[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const double value = (double)fp4[code & 7];
  if (kind == INTEGERS) return code;
  return kind == FLOATS8 ? (double)embed__f32_of_e4m3(code) : code & 8 ? -value : value;
}

/* What a row's group has. */
typedef struct affine {
  double scale, bias;
  int32_t zero;
} affine;

static affine affine_at(const embed_file *f, const recipe *r, int64_t row, int64_t g) {
  const bool along = r->family == MLX || r->family == COMPRESSED;
  const int64_t at = along ? row * r->groups + g : g * r->rows + row;
  const unsigned char *zeros = r->zeros < 0 ? NULL : embed__tensor_data(f, &f->tensors[r->zeros]);
  affine a = {.scale = embed__scale_at(embed__tensor_data(f, &f->tensors[r->scales]), (embed__kind)r->of_scales, at), .zero = r->origin};
  if (zeros && r->family == MLX) a.bias = embed__scale_at(zeros, (embed__kind)r->of_scales, at);
  if (zeros && r->family != MLX) a.zero = zero_at(r, zeros, row, g);
  return a;
}

static void put_numbers(const recipe *r, affine a, const uint8_t *codes, int64_t count, unsigned char *out) {
  const bool biased = r->family == MLX && r->zeros >= 0;
  for (int64_t j = 0; j < count; ++j, out += 4) {
    const double q = r->numbers == INTEGERS ? (double)(codes[j] - a.zero) : number_of(r->numbers, codes[j]);
    const float value = (float)(biased ? q * a.scale + a.bias : q * a.scale);
    memcpy(out, &value, sizeof value);
  }
}

static void decode_packed(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  uint8_t codes[TOGETHER] = {0};
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  const int64_t dim = tensor->shape[1];
  const unsigned char *data = embed__tensor_data(f, tensor), *index = r.index < 0 ? NULL : embed__tensor_data(f, &f->tensors[r.index]);
  for (int64_t row = first; row < end; ++row) {
    affine a = {.scale = 0};
    for (int64_t at = 0, known = -1; at < dim; at += TOGETHER) {
      const int64_t count = embed__min(TOGETHER, dim - at);
      take_codes(&r, data, row, dim, at, codes);
      for (int64_t j = 0, behind; j < count; j = behind) {
        /* Proved, but a mapped file can change after that. */
        const int64_t g = index ? embed__min((int64_t)embed__le32(index + 4 * (at + j)), r.groups - 1) : (at + j) / r.group;
        behind = index ? j + 1 : embed__min(count, (g + 1) * r.group - at);
        if (g != known) a = affine_at(f, &r, row, g);
        known = g;
        put_numbers(&r, a, codes + j, behind - j, rows);
        rows += 4 * (behind - j);
      }
    }
  }
}

/* --- Forms of a table that hold the same numbers in fewer bytes */

/* Codes of four bits at most with half scales and biases: Q4_1's d * q + m. */
static void decode_q4_1(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  uint8_t codes[TOGETHER];
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  const int64_t dim = tensor->shape[1];
  const unsigned char *data = embed__tensor_data(f, tensor);
  for (int64_t row = first; row < end; ++row)
    for (int64_t at = 0; at < dim; at += TOGETHER, rows += 20) {
      const affine a = affine_at(f, &r, row, at / r.group);
      take_codes(&r, data, row, dim, at, codes);
      embed__put_le_u16(rows, embed__f16_of_f32((float)a.scale));
      embed__put_le_u16(rows + 2, embed__f16_of_f32((float)a.bias));
      for (int j = 0; j < 16; ++j) rows[4 + j] = (unsigned char)(codes[j] | codes[j + 16] << 4);
    }
}

/* Codes around the middle with half scales: i4_group's scale * (nibble - 8). */
static void decode_i4_group(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  uint8_t codes[TOGETHER];
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  const int64_t dim = tensor->shape[1];
  const unsigned char *data = embed__tensor_data(f, tensor);
  for (int64_t row = first; row < end; ++row)
    for (int64_t at = 0; at < dim; at += TOGETHER, rows += 16) {
      take_codes(&r, data, row, dim, at, codes);
      if (at % r.group == 0) {
        embed__put_le_u16(rows, embed__f16_of_f32((float)affine_at(f, &r, row, at / r.group).scale));
        rows += 2;
      }
      for (int j = 0; j < 16; ++j) rows[j] = (unsigned char)((codes[j] + 8 - r.origin) | (codes[j + 16] + 8 - r.origin) << 4);
    }
}

/* One scale for a row of codes around the middle: int8 rows. */
static void decode_i8_row(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  uint8_t codes[TOGETHER];
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  const int64_t dim = tensor->shape[1];
  const unsigned char *data = embed__tensor_data(f, tensor);
  for (int64_t row = first; row < end; ++row, rows += 4) {
    for (int64_t at = 0; at < dim; at += TOGETHER) {
      take_codes(&r, data, row, dim, at, codes);
      for (int64_t j = 0; j < embed__min(TOGETHER, dim - at); ++j) *rows++ = (unsigned char)(codes[j] - r.origin);
    }
    embed__put_le_f32(rows, (float)affine_at(f, &r, row, 0).scale);
  }
}

/* The smallest form that has every number's bits. halves: scales and biases are half floats. */
static embed_dtype form_of(const recipe *r, bool halves, int64_t dim, embed__decode_rows **decode) {
  const bool middle = r->family == COMPRESSED && r->zeros < 0 && r->index < 0;
  const bool grouped = r->group == 32 || r->group == 64 || r->group == 128;
  *decode = decode_packed;
  if (r->family == MLX && r->numbers == INTEGERS && r->bits <= 4 && halves) return *decode = decode_q4_1, EMBED_Q4_1;
  if (middle && r->bits <= 4 && halves && grouped) return *decode = decode_i4_group, EMBED_I4_GROUP;
  if (middle && r->group == dim) return *decode = decode_i8_row, EMBED_I8_ROW;
  return EMBED_F32;
}

/* --- What the tensors say of one another */

typedef struct finder {
  embed_context *ctx;
  embed_file *f;
  embed__hints hints;
  bool hinted;         /* they were read */
  int64_t width[FEW];  /* of the file's norms: what a model's rows have */
  int widths;          /* -1 = not looked for yet */
  embed__width common; /* what norms decided first */
  bool contradicted;   /* config.json, and it was noted */
  int64_t found[FAMILIES];
} finder;

static bool is_type(const embed__tensor *tensor, const char *name) { return !strcmp(tensor->stored, name); }

static const embed__tensor *part(const finder *x, int64_t i) { return i < 0 ? NULL : &x->f->tensors[i]; }

static bool is_matrix(const embed__tensor *tensor, int64_t rows, int64_t columns) {
  return tensor->rank == 2 && tensor->shape[0] == rows && tensor->shape[1] == columns;
}

static bool is_scale(embed__kind k) { return k == EMBED__SINGLE || k == EMBED__HALF || k == EMBED__BFLOAT; }

static embed_status adopt(finder *x, embed__tensor *tensor, const recipe *r, int64_t dim, const char *name) {
  enum { LONGEST = 48 };
  char text[LONGEST];
  const char *stored;
  embed__decode_rows *decode;
  embed__text t = embed__text_in(text, sizeof text);
  embed__text_add(&t, name);
  if (r->numbers == INTEGERS) embed__text_number(&t, r->bits);
  embed__text_add(&t, r->index < 0 ? "-g" : "-by-index");
  if (r->index < 0) embed__text_number(&t, r->group);
  EMBED__TRY(embed__file_keep(x->ctx, x->f, text, (int64_t)strlen(text), &stored));
  const embed_dtype dtype = form_of(r, r->of_scales == EMBED__HALF, dim, &decode);
  if (dtype == EMBED_I4_GROUP) tensor->group = (int32_t)r->group;
  EMBED__TRY(embed__decode_as(
      x->ctx, x->f, tensor,
      &(embed__decoding){
          .decode = decode, .recipe = r, .recipe_bytes = sizeof *r, .parts = PARTS, .rows = r->rows, .dim = dim, .dtype = dtype, .stored = stored}));
  x->found[r->family] += tensor->decode != NULL;
  return EMBED_OK;
}

static recipe no_recipe(family of) {
  recipe r;
  memset(&r, 0, sizeof r);
  r.family = (int32_t)of;
  r.scales = r.zeros = r.index = -1;
  return r;
}

/* compressed-tensors makes an index of -1, and as long as it meets one groups are those of columns in their order. */
static bool has_unset(const unsigned char *index, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j)
    if (embed__le32(index + 4 * j) == UINT32_MAX) return true;
  return false;
}

/* The group of each column: 32-bit numbers below r->groups. Where column j is in group j / (dim / groups) nothing needs to look them up. */
static embed_status use_index(finder *x, embed__tensor *tensor, recipe *r, int64_t i, int64_t dim, bool *good) {
  const embed__tensor *index = part(x, i);
  *good = true;
  r->group = dim % r->groups ? 0 : dim / r->groups;
  if (!index && r->group) return EMBED_OK;
  *good = false;
  if (!index) return embed__no_table(x->ctx, x->f, tensor, "its columns are no whole number of groups by its scales", part(x, r->scales));
  if (!is_type(index, "I32") || index->rank != 1 || index->shape[0] != dim)
    return embed__no_table(x->ctx, x->f, tensor, "the groups of its columns are not one for each", index);
  const unsigned char *p = embed__tensor_data(x->f, index);
  bool plain = r->group > 0;
  if (plain && r->family == COMPRESSED && has_unset(p, dim)) return *good = true, EMBED_OK;
  for (int64_t j = 0; j < dim; ++j) {
    const int64_t g = (int64_t)embed__le32(p + 4 * j);
    if (g >= r->groups) return embed__no_table(x->ctx, x->f, tensor, "a column has a group that has no scale", index);
    plain = plain && g == j / r->group;
  }
  if (!plain) r->index = i;
  *good = true;
  return EMBED_OK;
}

/* --- MLX: rows of scales say bits * group, not which of the two is what */

static void find_widths(finder *x) {
  x->widths = 0;
  for (int64_t i = 0; i < x->f->tensor_count && x->widths < FEW; ++i) {
    const embed__tensor *tensor = &x->f->tensors[i];
    if (tensor->rank != 1 || !embed__stem(tensor, "norm.weight")) continue;
    int k = 0;
    while (k < x->widths && x->width[k] != tensor->shape[0]) ++k;
    if (k == x->widths) x->width[x->widths++] = tensor->shape[0];
  }
}

static bool is_width(const finder *x, int64_t extent) {
  for (int k = 0; k < x->widths; ++k)
    if (x->width[k] == extent) return true;
  return false;
}

/* -1 = it does not fit into 64 bits: a matrix without rows may have any number of groups. */
static int64_t dim_of(int64_t groups, int64_t group) {
  int64_t dim;
  (void)embed__mul(groups, group, &dim);
  return dim;
}

static bool same(embed__width a, embed__width b) { return a.bits == b.bits && a.group == b.group; }

/* All that `columns` words and `groups` scales of a row may be. */
static int candidates(int64_t columns, int64_t groups, embed__width out[FEW]) {
  static const int32_t all[] = {4, 8, 2, 3, 5, 6}, sizes[] = {64, 32, 128};
  int count = 0;
  for (size_t b = 0; b < sizeof all / sizeof *all; ++b)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      int64_t words;
      if (embed__mul(groups, sizes[s] / 32 * all[b], &words) && words == columns) out[count++] = (embed__width){.bits = all[b], .group = sizes[s]};
    }
  return count;
}

static int place_of(const embed__width *all, int count, embed__width wanted) {
  int k = 0;
  while (k < count && !same(all[k], wanted)) ++k;
  return k;
}

static embed_status note_contradiction(finder *x, const embed__tensor *tensor, embed__width hint, embed__width is) {
  char line[400];
  embed__text t = embed__text_in(line, sizeof line);
  if (x->contradicted) return EMBED_OK;
  x->contradicted = true;
  embed__text_add(&t, "config.json says ");
  embed__text_number(&t, hint.bits);
  embed__text_add(&t, " bits in groups of ");
  embed__text_number(&t, hint.group);
  embed__text_add(&t, ", by the file's norms ");
  embed__text_add(&t, strlen(tensor->name) < 200 ? tensor->name : "a tensor");
  embed__text_add(&t, " has ");
  embed__text_number(&t, is.bits);
  embed__text_add(&t, " in groups of ");
  embed__text_number(&t, is.group);
  return embed__file_note_line(x->ctx, x->f, line);
}

/* Of several candidates: the one by which rows are as wide as the file's norms, unless the tensor makes vectors of that width itself (it may
 * take any); what config.json says of this tensor or of all; what was decided by the norms elsewhere in the file. *k = count: nothing tells. */
static embed_status choose(finder *x, const embed__tensor *tensor, const embed__width *all, int count, int64_t groups, int *k) {
  const int64_t i = tensor - x->f->tensors;
  int by_norm = count, norms = 0;
  if (!x->hinted) EMBED__TRY(embed__hints_read(x->ctx, x->f, &x->hints));
  x->hinted = true;
  if (x->widths < 0) find_widths(x);
  const embed__width own = x->hints.own ? x->hints.own[i] : (embed__width){0};
  const embed__width hint = {.bits = own.bits ? own.bits : x->hints.all.bits, .group = own.group ? own.group : x->hints.all.group};
  if (!is_width(x, tensor->shape[0]))
    for (int c = 0; c < count; ++c)
      if (is_width(x, dim_of(groups, all[c].group))) by_norm = c, ++norms;
  const int hinted = place_of(all, count, hint);
  if (norms == 1) {
    if (!x->common.bits) x->common = all[by_norm];
    *k = by_norm;
    return hint.bits && hint.group && hinted != by_norm ? note_contradiction(x, tensor, hint, all[by_norm]) : EMBED_OK;
  }
  *k = hinted < count ? hinted : place_of(all, count, x->common);
  return EMBED_OK;
}

/* MLX's floats: what a row has of scales tells which. */
static embed_status find_mlx_floats(finder *x, embed__tensor *tensor, recipe *r) {
  static const struct mode {
    const char *name;
    int32_t bits, group, numbers;
    embed__kind scales;
  } modes[] = {{"mxfp4", 4, 32, FLOATS4, EMBED__POWER}, {"mxfp8", 8, 32, FLOATS8, EMBED__POWER}, {"nvfp4", 4, 16, FLOATS4, EMBED__E4M3}};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    int64_t words;
    if (!embed__mul(r->groups, modes[m].group * modes[m].bits / 32, &words) || words != tensor->shape[1]) continue;
    r->bits = modes[m].bits;
    r->group = modes[m].group;
    r->numbers = modes[m].numbers;
    r->of_scales = (int32_t)modes[m].scales;
    return adopt(x, tensor, r, dim_of(r->groups, modes[m].group), modes[m].name);
  }
  return embed__no_table(x->ctx, x->f, tensor, "its words and scales agree with none of mxfp4, mxfp8 and nvfp4", part(x, r->scales));
}

static embed_status find_mlx(finder *x, embed__tensor *tensor, size_t stem) {
  embed__width all[FEW];
  recipe r = no_recipe(MLX);
  int chosen = 0;
  const embed__tensor *scales = part(x, r.scales = embed__beside(x->f, tensor, stem, ".scales"));
  const embed__tensor *biases = part(x, r.zeros = embed__beside(x->f, tensor, stem, ".biases"));
  if (!scales || tensor->rank != 2) return EMBED_OK; /* experts have three extents */
  r.rows = tensor->shape[0];
  if (scales->rank != 2 || scales->shape[0] != r.rows || scales->shape[1] < 1)
    return embed__no_table(x->ctx, x->f, tensor, "its scales have no row for each of its own", scales);
  r.groups = scales->shape[1];
  r.of_scales = (int32_t)embed__kind_of(scales);
  if (is_type(scales, "U8") && !biases) return find_mlx_floats(x, tensor, &r);
  if (!is_scale((embed__kind)r.of_scales)) return embed__no_table(x->ctx, x->f, tensor, "its scales are no floats", scales);
  if (!biases) return embed__no_table(x->ctx, x->f, tensor, "it has scales and no biases", scales);
  if (!is_matrix(biases, r.rows, r.groups) || !is_type(biases, scales->stored))
    return embed__no_table(x->ctx, x->f, tensor, "its biases are not as its scales are", biases);
  const int count = candidates(tensor->shape[1], r.groups, all);
  if (count == 0) return embed__no_table(x->ctx, x->f, tensor, "its words and scales agree with no bits and group of MLX", scales);
  if (count > 1) EMBED__TRY(choose(x, tensor, all, count, r.groups, &chosen));
  if (chosen == count)
    return embed__no_table(x->ctx, x->f, tensor, "neither a norm of the file nor config.json beside it tells the bits from the group", scales);
  r.bits = all[chosen].bits;
  r.group = all[chosen].group;
  return adopt(x, tensor, &r, dim_of(r.groups, r.group), "mlx");
}

/* --- compressed-tensors */

/* The bits of codes of which 32 / bits are in a word; 0 = none or several agree with the words of a row, and with the zero points'. */
static int32_t bits_in_words(int64_t dim, int64_t words, int64_t rows, int64_t zero_words) {
  static const int32_t all[] = {2, 3, 4, 5, 6, 8}; /* 7 has as many in a word as 8 */
  int32_t found = 0;
  for (size_t b = 0; b < sizeof all / sizeof *all; ++b) {
    const int64_t n = 32 / all[b];
    if (embed__ceil_div(dim, n) != words || (zero_words >= 0 && embed__ceil_div(rows, n) != zero_words)) continue;
    if (found) return 0;
    found = all[b];
  }
  return found;
}

static int64_t extent_at(const unsigned char *p, const embed__tensor *shape, int i) {
  return is_type(shape, "I64") ? (int64_t)embed__le64(p + 8 * i) : (int64_t)(int32_t)embed__le32(p + 4 * i);
}

static embed_status find_compressed(finder *x, embed__tensor *tensor, size_t stem) {
  recipe r = no_recipe(COMPRESSED);
  bool good;
  const embed__tensor *scales = part(x, r.scales = embed__beside(x->f, tensor, stem, ".weight_scale"));
  const embed__tensor *zeros = part(x, r.zeros = embed__beside(x->f, tensor, stem, ".weight_zero_point"));
  const embed__tensor *shape = part(x, embed__beside(x->f, tensor, stem, ".weight_shape"));
  const int64_t index = embed__beside(x->f, tensor, stem, ".weight_g_idx");
  if (tensor->rank != 2) return EMBED_OK;
  if (stem + sizeof ".weight_zero_point" > EMBED__BESIDE) /* without those that may be there it would be other numbers */
    return embed__no_table(x->ctx, x->f, tensor, "its name is too long to look for what stands beside it", tensor);
  if (!scales || !shape) return embed__no_table(x->ctx, x->f, tensor, scales ? "it has no weight_shape" : "it has no weight_scale", tensor);
  if (shape->rank != 1 || shape->shape[0] != 2 || (!is_type(shape, "I64") && !is_type(shape, "I32")))
    return embed__no_table(x->ctx, x->f, tensor, "its weight_shape is not two numbers", shape);
  const unsigned char *extents = embed__tensor_data(x->f, shape);
  const int64_t dim = extent_at(extents, shape, 1);
  r.rows = tensor->shape[0];
  if (extent_at(extents, shape, 0) != r.rows || dim < 1) return embed__no_table(x->ctx, x->f, tensor, "its rows are not those of its weight_shape", shape);
  r.of_scales = (int32_t)embed__kind_of(scales);
  if (!is_scale((embed__kind)r.of_scales) || scales->rank != 2 || scales->shape[0] != r.rows || scales->shape[1] < 1)
    return embed__no_table(x->ctx, x->f, tensor, "its scales are no floats for each of its rows", scales);
  r.groups = scales->shape[1];
  if (zeros && (!is_type(zeros, "I32") || zeros->rank != 2 || zeros->shape[1] != r.groups))
    return embed__no_table(x->ctx, x->f, tensor, "its zero points are not packed as its scales are grouped", zeros);
  r.bits = bits_in_words(dim, tensor->shape[1], r.rows, zeros ? zeros->shape[0] : -1);
  if (!r.bits) return embed__no_table(x->ctx, x->f, tensor, "its weight_shape and words do not tell one number of bits", zeros ? zeros : shape);
  EMBED__TRY(use_index(x, tensor, &r, index, dim, &good));
  if (!good) return EMBED_OK;
  r.layout = 32 % r.bits == 0 && dim % (32 / r.bits) == 0 ? STREAM : WORDS;
  r.origin = 1 << (r.bits - 1);
  return adopt(x, tensor, &r, dim, "int");
}

/* --- GPTQ and AWQ */

/* Whether the zeros of the first group are those of weights around the middle, stored as they are: by them the second version tells itself.
 * -1 = the middle less 1, the first version; 0 = they say nothing. */
static int middle_zeros(const finder *x, const recipe *r) {
  const unsigned char *zeros = embed__tensor_data(x->f, part(x, r->zeros));
  const int32_t middle = 1 << (r->bits - 1);
  bool plain = true, first = true;
  for (int64_t row = 0; row < r->rows && (plain || first); ++row) {
    const int32_t stored = zero_at(r, zeros, row, 0); /* nothing is added yet */
    plain = plain && stored == middle;
    first = first && stored == middle - 1;
  }
  return plain ? 1 : first ? -1 : 0;
}

static embed_status find_down(finder *x, embed__tensor *tensor, recipe *r, int64_t index) {
  const embed__tensor *zeros = part(x, r->zeros);
  int64_t bits, dim_bits;
  bool good;
  if (!embed__mul(32, zeros->shape[1], &bits) || r->rows == 0 || bits % r->rows || !memchr("\2\3\4\10", (int)embed__min(bits / r->rows, 9), 4))
    return embed__no_table(x->ctx, x->f, tensor, "its zero points are not of 2, 3, 4 or 8 bits", zeros);
  r->bits = (int32_t)(bits / r->rows);
  if (!embed__mul(32, tensor->shape[0], &dim_bits) || dim_bits == 0 || dim_bits % r->bits)
    return embed__no_table(x->ctx, x->f, tensor, "its words are no whole number of columns by its zero points", zeros);
  EMBED__TRY(use_index(x, tensor, r, index, dim_bits / r->bits, &good));
  if (!good) return EMBED_OK;
  const int middle = middle_zeros(x, r);
  if (middle == 0 && !x->hinted) {
    EMBED__TRY(embed__hints_read(x->ctx, x->f, &x->hints));
    x->hinted = true;
  }
  r->origin = middle > 0 || (middle == 0 && x->hints.plain_zeros) ? 0 : 1;
  r->layout = DOWN;
  return adopt(x, tensor, r, dim_bits / r->bits, "gptq");
}

static embed_status find_across(finder *x, embed__tensor *tensor, recipe *r) {
  bool good;
  if (part(x, r->zeros)->shape[1] != tensor->shape[1])
    return embed__no_table(x->ctx, x->f, tensor, "its zero points are not packed as it is", part(x, r->zeros));
  if (tensor->shape[0] < 1) return EMBED_OK;
  EMBED__TRY(use_index(x, tensor, r, -1, tensor->shape[0], &good));
  if (!good) return EMBED_OK;
  r->family = AWQ;
  r->bits = 4;
  r->layout = ACROSS;
  return adopt(x, tensor, r, tensor->shape[0], "awq");
}

static embed_status find_qweight(finder *x, embed__tensor *tensor, size_t stem) {
  recipe r = no_recipe(GPTQ);
  int64_t across;
  const embed__tensor *scales = part(x, r.scales = embed__beside(x->f, tensor, stem, ".scales"));
  const embed__tensor *zeros = part(x, r.zeros = embed__beside(x->f, tensor, stem, ".qzeros"));
  if (tensor->rank != 2) return EMBED_OK;
  if (!scales || !zeros) return embed__no_table(x->ctx, x->f, tensor, scales ? "it has no qzeros" : "it has no scales", tensor);
  r.of_scales = (int32_t)embed__kind_of(scales);
  if (!is_scale((embed__kind)r.of_scales) || scales->rank != 2 || scales->shape[0] < 1)
    return embed__no_table(x->ctx, x->f, tensor, "its scales are no floats for groups", scales);
  r.groups = scales->shape[0];
  r.rows = scales->shape[1];
  if (!is_type(zeros, "I32") || zeros->rank != 2 || zeros->shape[0] != r.groups)
    return embed__no_table(x->ctx, x->f, tensor, "its zero points are not grouped as its scales are", zeros);
  if (tensor->shape[1] == r.rows) return find_down(x, tensor, &r, embed__beside(x->f, tensor, stem, ".g_idx"));
  if (embed__mul(AWQ_CODES, tensor->shape[1], &across) && across == r.rows) return find_across(x, tensor, &r);
  return embed__no_table(x->ctx, x->f, tensor, "its columns are not those of its scales", scales);
}

/* --- The file */

static embed_status find_one(finder *x, embed__tensor *tensor) {
  size_t stem;
  if (is_type(tensor, "U32")) return (stem = embed__stem(tensor, ".weight")) ? find_mlx(x, tensor, stem) : EMBED_OK;
  if (!is_type(tensor, "I32")) return EMBED_OK;
  if ((stem = embed__stem(tensor, ".weight_packed"))) return find_compressed(x, tensor, stem);
  return (stem = embed__stem(tensor, ".qweight")) ? find_qweight(x, tensor, stem) : EMBED_OK;
}

static embed_status find_all(finder *x) {
  static const char *const notes[FAMILIES][2] = {
      {"tensor is packed as MLX does, with its scales and biases beside it", "tensors are packed as MLX does, with their scales and biases beside them"},
      {"tensor is packed as compressed-tensors does, with its scales beside it",
       "tensors are packed as compressed-tensors does, with their scales beside them"},
      {"tensor is packed as GPTQ does, with its scales and zeros beside it", "tensors are packed as GPTQ does, with their scales and zeros beside them"},
      {"tensor is packed as AWQ does, with its scales and zeros beside it", "tensors are packed as AWQ does, with their scales and zeros beside them"}};
  for (int64_t i = 0; i < x->f->tensor_count; ++i) EMBED__TRY(find_one(x, &x->f->tensors[i]));
  for (int k = 0; k < FAMILIES; ++k)
    if (x->found[k]) EMBED__TRY(embed__file_note(x->ctx, x->f, x->found[k], notes[k][x->found[k] > 1]));
  return EMBED_OK;
}

/* --- Scales that are half floats in a wider type */

typedef struct narrowing {
  const unsigned char *scales;
  embed__kind kind;
  int64_t count;
  _Atomic int64_t first; /* task with one that is not, INT64_MAX = none yet */
} narrowing;

enum { SCALES = 1 << 16 /* of a task */ };

static void try_halves(void *arg, int64_t task, int32_t worker) {
  narrowing *n = arg;
  bool halves = true;
  (void)worker;
  if (task >= atomic_load(&n->first)) return;
  for (int64_t i = task * SCALES, end = embed__min(n->count, i + SCALES); i < end; ++i) {
    const float scale = (float)embed__scale_at(n->scales, n->kind, i);
    const uint32_t bits = embed__bits_of_f32(scale), power = bits >> 23 & 255;
    if (n->kind == EMBED__BFLOAT && power >= 127 - 17 && power <= 127 + 15) continue; /* 8 bits of mantissa are there */
    halves = halves && embed__bits_of_f32(embed__f32_of_f16(embed__f16_of_f32(scale))) == bits;
  }
  if (!halves) embed__keep_least(&n->first, task);
}

static embed_status are_halves(embed_context *ctx, const embed_file *f, int64_t i, const recipe *r, bool *halves) {
  narrowing n = {.kind = (embed__kind)r->of_scales, .count = r->rows * r->groups, .first = INT64_MAX};
  if (i < 0 || !*halves) return EMBED_OK;
  n.scales = embed__tensor_data(f, &f->tensors[i]);
  const int64_t tasks = embed__ceil_div(n.count, SCALES);
  EMBED__TRY(embed__run_long(ctx, tasks, try_halves, &n, 0, tasks));
  *halves = n.first == INT64_MAX;
  return EMBED_OK;
}

embed_status embed__narrow_packed(embed_context *ctx, embed_file *f, int64_t i) {
  embed__tensor *tensor = i < 0 ? NULL : &f->tensors[i];
  embed__decode_rows *decode;
  bool halves = true;
  recipe r;
  if (!tensor || tensor->decode != decode_packed) return EMBED_OK;
  memcpy(&r, tensor->recipe, sizeof r);
  const embed_dtype dtype = form_of(&r, true, tensor->shape[1], &decode);
  if (dtype == EMBED_F32) return EMBED_OK;
  EMBED__TRY(are_halves(ctx, f, r.scales, &r, &halves));
  EMBED__TRY(are_halves(ctx, f, r.zeros, &r, &halves)); /* MLX's biases: the others that narrow have none */
  if (!halves) return EMBED_OK;
  if (dtype == EMBED_I4_GROUP) tensor->group = (int32_t)r.group;
  tensor->dtype = dtype;
  tensor->decode = decode;
  return EMBED_OK;
}

embed_status embed__find_packed(embed_context *ctx, embed_file *f) {
  finder x = {.ctx = ctx, .f = f, .widths = -1};
  const embed_status status = find_all(&x);
  embed__hints_free(ctx, &x.hints);
  return status;
}
