/* SPDX-License-Identifier: BSD-3-Clause */
/* bitsandbytes' four bits in safetensors (functional.py, QuantState): X of bytes, two codes each, the first in the high bits; X.quant_map, 16
 * floats that codes stand for; X.absmax, a float for each `blocksize` numbers of the whole matrix, row after row; and X.quant_state.
 * bitsandbytes__nf4 (or fp4), JSON in bytes: {"quant_type", "blocksize", "shape": [rows, dim], ...}. A value is map[code] * absmax[block]. Where
 * absmax is of bytes it is quantised itself: nested_map[byte] * nested_absmax[block of nested_blocksize] + nested_offset. In floats, each step
 * rounded, as its kernels do. A matrix without these would be other numbers: one whose parts do not agree is no table. */
#include "core/checked.h"
#include "core/memory.h"
#include "io/floats.h"
#include "io/json.h"
#include "io/scales.h"
#include "io/text.h"

enum { CODES = 16, BYTES = 256, LONGEST = 1 << 16 };

typedef struct recipe {
  int64_t absmax, map, nested_absmax, nested_map; /* tensors; nested: -1 = none */
  int64_t block, nested_block;
  float offset;
  int32_t none;
} recipe;
enum { PARTS = 4 };

static float float_at(const embed_file *f, int64_t tensor, int64_t i) { return embed__le_f32(embed__tensor_data(f, &f->tensors[tensor]) + 4 * i); }

static float absmax_at(const embed_file *f, const recipe *r, int64_t block) {
  if (r->nested_map < 0) return float_at(f, r->absmax, block);
  const float value = float_at(f, r->nested_map, embed__tensor_data(f, &f->tensors[r->absmax])[block]) * float_at(f, r->nested_absmax, block / r->nested_block);
  return value + r->offset;
}

static void decode_four_bits(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  const unsigned char *data = embed__tensor_data(f, tensor);
  const int64_t dim = tensor->shape[1];
  float map[CODES], scale = 0;
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  for (int i = 0; i < CODES; ++i) map[i] = float_at(f, r.map, i);
  for (int64_t i = first * dim, known = -1; i < end * dim; ++i, rows += 4) {
    if (i / r.block != known) scale = absmax_at(f, &r, known = i / r.block);
    const float value = map[i % 2 ? data[i / 2] & 15 : data[i / 2] >> 4] * scale;
    memcpy(rows, &value, sizeof value);
  }
}

/* --- The state */

typedef struct state {
  int64_t block, nested_block, shape[2];
  int extents; /* of shape */
  float offset;
} state;

static embed_status read_shape(embed__json *j, state *s) {
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_ARRAY_END) return EMBED_OK;
    if (j->kind != EMBED__JSON_INTEGER) return embed__json_expected(j, "an extent");
    if (s->extents < 2) s->shape[s->extents] = j->integer;
    ++s->extents;
  }
}

static embed_status read_value(embed__json *j, state *s) {
  const bool block = embed__json_is(j, "blocksize"), nested = embed__json_is(j, "nested_blocksize");
  if (embed__json_is(j, "shape") && s->extents == 0) {
    EMBED__TRY(embed__json_expect(j, EMBED__JSON_ARRAY, "a shape"));
    return read_shape(j, s);
  }
  if (block || nested) {
    EMBED__TRY(embed__json_expect(j, EMBED__JSON_INTEGER, "a number"));
    *(block ? &s->block : &s->nested_block) = j->integer;
    return EMBED_OK;
  }
  if (!embed__json_is(j, "nested_offset")) return embed__json_skip(j);
  EMBED__TRY(embed__json_next(j));
  const unsigned char *first = (const unsigned char *)j->string, *end = first + j->string_bytes;
  const bool number = j->kind == EMBED__JSON_INTEGER || j->kind == EMBED__JSON_REAL;
  return number && embed__read_float(first, end, &s->offset) == end ? EMBED_OK : embed__json_expected(j, "a float");
}

static embed_status read_state(embed_context *ctx, const char *label, char *text, int64_t bytes, int64_t at, state *s) {
  embed__json j;
  embed__json_begin(&j, ctx, label, text, bytes, at);
  embed_status status = embed__json_expect(&j, EMBED__JSON_OBJECT, "a state in braces");
  while (status == EMBED_OK && (status = embed__json_next(&j)) == EMBED_OK && j.kind != EMBED__JSON_OBJECT_END) status = read_value(&j, s);
  if (status == EMBED_OK) status = embed__json_expect(&j, EMBED__JSON_END, "blanks behind the state");
  embed__json_end(&j);
  return status;
}

/* --- The parts */

static bool are_floats(const embed_file *f, int64_t i, int64_t count) {
  const embed__tensor *tensor = &f->tensors[i];
  return embed__kind_of(tensor) == EMBED__SINGLE && tensor->rank == 1 && tensor->shape[0] == count;
}

static embed_status use(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t states, const state *s, recipe *r) {
  const embed__tensor *of = &f->tensors[states], *absmax = &f->tensors[r->absmax];
  int64_t count;
  const bool matrix = s->extents == 2 && s->shape[1] > 0 && embed__mul(s->shape[0], s->shape[1], &count);
  if (!matrix || s->block < 1 || embed__ceil_div(count, 2) != tensor->bytes) return embed__no_table(ctx, f, tensor, "its bytes are not those of its state", of);
  if (!are_floats(f, r->map, CODES)) return embed__no_table(ctx, f, tensor, "its map is not 16 floats", &f->tensors[r->map]);
  const int64_t blocks = embed__ceil_div(count, s->block);
  if (absmax->rank != 1 || absmax->shape[0] != blocks) return embed__no_table(ctx, f, tensor, "its absmax is not one for each block", absmax);
  if (strcmp(absmax->stored, "U8") == 0) {
    if (r->nested_absmax < 0 || r->nested_map < 0 || s->nested_block < 1 || !are_floats(f, r->nested_map, BYTES) ||
        !are_floats(f, r->nested_absmax, embed__ceil_div(blocks, s->nested_block)))
      return embed__no_table(ctx, f, tensor, "its absmax is of bytes, and what they stand for is not there", absmax);
  } else {
    if (!are_floats(f, r->absmax, blocks)) return embed__no_table(ctx, f, tensor, "its absmax is neither of floats nor of bytes", absmax);
    r->nested_absmax = r->nested_map = -1;
  }
  r->block = s->block;
  r->nested_block = s->nested_block;
  r->offset = s->offset;
  return embed__decode_as(
      ctx, f, tensor,
      &(embed__decoding){
          .decode = decode_four_bits, .recipe = r, .recipe_bytes = sizeof *r, .parts = PARTS, .rows = s->shape[0], .dim = s->shape[1], .dtype = EMBED_F32});
}

static embed_status find_state(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t states, recipe *r) {
  enum { ROOM = EMBED__LABEL + 200 };
  const embed__tensor *of = &f->tensors[states];
  char label[ROOM]; /* with its name: of the byte alone nobody knows in which shard it lies */
  embed__text about = embed__text_in(label, sizeof label);
  state s;
  memset(&s, 0, sizeof s);
  if (strcmp(of->stored, "U8") != 0 || of->bytes > LONGEST || of->bytes < 2) return embed__no_table(ctx, f, tensor, "its state is not some bytes of JSON", of);
  char *text = embed__allocate(&ctx->memory, (size_t)of->bytes + 1, EMBED__ALIGNMENT);
  if (!text) return embed__out_of_memory(ctx, of->bytes + 1);
  memcpy(text, embed__tensor_data(f, of), (size_t)of->bytes);
  text[of->bytes] = '\0';
  embed__text_add(&about, f->label);
  embed__text_add(&about, ": tensor ");
  embed__text_add(&about, of->name);
  embed_status status = read_state(ctx, label, text, of->bytes, of->offset, &s);
  embed__free(&ctx->memory, text, (size_t)of->bytes + 1, EMBED__ALIGNMENT);
  return status == EMBED_OK ? use(ctx, f, tensor, states, &s, r) : status;
}

static embed_status find_parts(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t absmax, int64_t *found) {
  const size_t whole = strlen(tensor->name);
  recipe r;
  memset(&r, 0, sizeof r);
  const int64_t nf4 = embed__beside(f, tensor, whole, ".quant_state.bitsandbytes__nf4");
  const int64_t states = nf4 < 0 ? embed__beside(f, tensor, whole, ".quant_state.bitsandbytes__fp4") : nf4;
  r.absmax = absmax;
  r.map = embed__beside(f, tensor, whole, ".quant_map");
  r.nested_absmax = embed__beside(f, tensor, whole, ".nested_absmax");
  r.nested_map = embed__beside(f, tensor, whole, ".nested_quant_map");
  if (r.map < 0 || states < 0)
    return embed__no_table(ctx, f, tensor, r.map < 0 ? "it has absmax and no quant_map" : "it has absmax and no quant_state", &f->tensors[absmax]);
  if (strcmp(tensor->stored, "U8") != 0) return embed__no_table(ctx, f, tensor, "its four bits are stored as another type than bytes", tensor);
  EMBED__TRY(find_state(ctx, f, tensor, states, &r));
  if (!tensor->decode) return EMBED_OK;
  tensor->stored = nf4 < 0 ? "bnb-fp4" : "bnb-nf4";
  ++*found;
  return EMBED_OK;
}

embed_status embed__find_bitsandbytes(embed_context *ctx, embed_file *f) {
  int64_t found = 0;
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    const size_t stem = embed__stem(&f->tensors[i], ".absmax");
    const int64_t owner = stem ? embed__tokens_find(f->names, f->tensors[i].name, (int64_t)stem) : -1;
    if (owner >= 0) EMBED__TRY(find_parts(ctx, f, &f->tensors[owner], i, &found));
  }
  if (found == 0) return EMBED_OK;
  return embed__file_note(
      ctx, f, found,
      found == 1 ? "tensor is of bitsandbytes' four bits, with its state beside it" : "tensors are of bitsandbytes' four bits, with their state beside them");
}
