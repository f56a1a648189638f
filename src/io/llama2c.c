/* SPDX-License-Identifier: BSD-3-Clause */
/* llama2.c's checkpoints (karpathy/llama2.c, run.c, runq.c, export.py): seven numbers and the weights of a Llama one after another. The
 * first format has neither magic nor version: it is known by its size, which follows from the numbers to the byte. Version 1 has
 * both, version 2 stores int8 weights with a scale per group. The tokens stand in a file of their own, tokenizer.bin or
 * tok<rows>.bin, which is read where it lies beside. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/half.h"
#include "core/memory.h"
#include "io/byte_order.h"
#include "io/cursor.h"
#include "io/decoded.h"
#include "io/format.h"
#include "io/text.h"

enum { MAGIC = 0x616b3432 /* "ak42" */, PLAIN = 28, HEADER = 256, TENSORS = 16, LARGEST = 1 << 24 /* of the extents */ };
enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQUENCE, NUMBERS };

typedef struct model {
  const unsigned char *numbers;
  int64_t number[NUMBERS];
  int32_t version; /* 0 = without one */
  bool tied;
  int64_t group; /* weights per scale, version 2 */
  int64_t at;    /* where the next tensor begins */
  bool fits;     /* so far, into 64 bits */
  int count;
  embed__tensor tensors[TENSORS];
} model;

/* Rows of int8 with a scale per group, all scales behind all rows. */
typedef struct groups {
  int64_t weights, scales, dim, group;
} groups;

static void decode_groups(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  groups g;
  memcpy(&g, tensor->recipe, sizeof g);
  for (int64_t i = first * g.dim; i < end * g.dim; ++i, rows += 4) {
    const float value = (float)(int8_t)f->map.data[g.weights + i] * embed__le_f32(f->map.data + g.scales + 4 * (i / g.group));
    memcpy(rows, &value, 4);
  }
}

/* --- Where the tensors lie */

static embed__tensor *next_tensor(model *m, const char *name, int64_t a, int64_t b, int64_t c) {
  embed__tensor *tensor = &m->tensors[m->count++];
  *tensor = (embed__tensor){.name = name, .stored = "f32", .shape = {a, b, c}, .rank = c ? 3 : b ? 2 : 1, .offset = m->at, .dtype = EMBED_F32};
  tensor->swapped = embed__is_swapped(EMBED_F32, false);
  return tensor;
}

/* c = 0, and b = 0: there is no such extent. */
static void floats(model *m, const char *name, int64_t a, int64_t b, int64_t c) {
  embed__tensor *tensor = next_tensor(m, name, a, b, c);
  m->fits = m->fits && embed__mul(a, b ? b : 1, &tensor->bytes) && embed__mul(tensor->bytes, c ? c : 1, &tensor->bytes) &&
            embed__mul(tensor->bytes, 4, &tensor->bytes) && embed__add(m->at, tensor->bytes, &m->at);
}

/* `count` int8 matrices of a * b weights, each with its scales behind it; those of layers have no name and are not listed. */
static void bytes_of(model *m, const char *name, int64_t count, int64_t a, int64_t b) {
  int64_t weights, scales, bytes;
  if (name) next_tensor(m, name, a, b, 0)->stored = "q8";
  m->fits = m->fits && embed__mul(a, b, &weights) && embed__mul(weights / m->group, 4, &scales) && embed__add(weights, scales, &bytes) &&
            embed__mul(bytes, count, &bytes) && embed__add(m->at, bytes, &m->at);
}

static void weights_of_layers(model *m) {
  const int64_t *n = m->number, head = n[DIM] / n[HEADS], layers = n[LAYERS], all = n[HEADS] * head, shared = n[KV_HEADS] * head;
  if (m->version == 2) {
    bytes_of(m, NULL, layers, all, n[DIM]);           /* wq */
    bytes_of(m, NULL, layers, shared, n[DIM]);        /* wk */
    bytes_of(m, NULL, layers, shared, n[DIM]);        /* wv */
    bytes_of(m, NULL, layers, n[DIM], all);           /* wo */
    bytes_of(m, NULL, 3 * layers, n[HIDDEN], n[DIM]); /* w1, w2, w3 */
    return;
  }
  floats(m, "wq", layers, all, n[DIM]);
  floats(m, "wk", layers, shared, n[DIM]);
  floats(m, "wv", layers, shared, n[DIM]);
  floats(m, "wo", layers, n[DIM], all);
  if (m->version == 0) floats(m, "rms_ffn_weight", layers, n[DIM], 0);
  floats(m, "w1", layers, n[HIDDEN], n[DIM]);
  floats(m, "w2", layers, n[DIM], n[HIDDEN]);
  floats(m, "w3", layers, n[HIDDEN], n[DIM]);
}

static void table(model *m, const char *name) {
  if (m->version == 2)
    bytes_of(m, name, 1, m->number[VOCAB], m->number[DIM]);
  else
    floats(m, name, m->number[VOCAB], m->number[DIM], 0);
}

static void lay_out(model *m) {
  const int64_t *n = m->number;
  m->at = m->version ? HEADER : PLAIN;
  m->fits = true;
  if (m->version) {
    floats(m, "rms_att_weight", n[LAYERS], n[DIM], 0);
    floats(m, "rms_ffn_weight", n[LAYERS], n[DIM], 0);
    floats(m, "rms_final_weight", n[DIM], 0, 0);
  }
  table(m, "token_embedding_table");
  if (!m->version) floats(m, "rms_att_weight", n[LAYERS], n[DIM], 0);
  weights_of_layers(m);
  if (!m->version) {
    floats(m, "rms_final_weight", n[DIM], 0, 0);
    floats(m, "freq_cis_real", n[SEQUENCE], n[DIM] / n[HEADS] / 2, 0);
    floats(m, "freq_cis_imag", n[SEQUENCE], n[DIM] / n[HEADS] / 2, 0);
  }
  if (!m->tied) table(m, "wcls");
}

/* Reads the header and follows what it says; false: it is none. */
static bool read_model(const unsigned char *data, int64_t bytes, model *m) {
  memset(m, 0, sizeof *m);
  if (bytes < PLAIN) return false;
  m->numbers = data;
  if (embed__le32(data) == MAGIC) {
    if (bytes < HEADER) return false;
    m->version = (int32_t)embed__le32(data + 4);
    m->numbers = data + 8;
    if (m->version < 1 || m->version > 2) return false;
  }
  for (int i = 0; i < NUMBERS; ++i) m->number[i] = (int32_t)embed__le32(m->numbers + 4 * i);
  m->tied = m->version ? m->numbers[4 * NUMBERS] != 0 : m->number[VOCAB] > 0;
  if (m->version == 0 && m->number[VOCAB] < 0) m->number[VOCAB] = -m->number[VOCAB];
  if (m->version == 2) m->group = (int32_t)embed__le32(m->numbers + 4 * NUMBERS + 1);
  for (int i = 0; i < NUMBERS; ++i)
    if (m->number[i] < 1 || m->number[i] > LARGEST) return false;
  if (m->number[DIM] % m->number[HEADS] != 0 || m->number[DIM] / m->number[HEADS] % 2 != 0) return false; /* rotations are of pairs */
  if (m->version == 2 && (m->group < 1 || m->number[DIM] % m->group != 0 || m->number[HIDDEN] % m->group != 0)) return false;
  lay_out(m);
  return true;
}

bool embed__llama2c_probe(const unsigned char *data, int64_t bytes) {
  model m;
  if (bytes >= 8 && embed__le32(data) == MAGIC) return true;
  return read_model(data, bytes, &m) && m.fits && m.at == bytes;
}

/* --- Tokens */

/* The numbers of a llama2.c tokenizer: the longest length, then per token a score, a length, and the bytes. */
static embed_status read_tokens(embed__cursor *in, int64_t count, embed_file *f) {
  int64_t bytes = 0;
  embed__cursor again;
  in->at = 4;
  EMBED__TRY(embed__check_room(in, count, 8, "tokens"));
  again = *in;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t score;
    int32_t length;
    EMBED__TRY(embed__take_u32(in, "tokens", &score));
    EMBED__TRY(embed__take_i32(in, "tokens", &length));
    EMBED__TRY(embed__check_room(in, length, 1, "bytes of a token"));
    in->at += length;
    bytes += length;
  }
  if (in->at != in->end)
    return embed__fail(in->ctx, EMBED_E_FORMAT, in->at, "%s: %" PRId64 " bytes follow the %" PRId64 " tokens", in->label, in->end - in->at, count);
  EMBED__TRY(embed__tokens_new(in->ctx, count, bytes, &f->tokens));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = (int64_t)embed__le32(again.data + again.at + 4);
    embed__tokens_append(f->tokens, again.data + again.at + 8, length);
    again.at += 8 + length;
  }
  embed__tokens_index(f->tokens);
  return EMBED_OK;
}

/* A file that is no tokenizer of so many tokens is noted and forgotten. */
static embed_status read_tokenizer(embed_context *ctx, embed_file *f, const char *path, const char *name, uint32_t flags, int64_t count) {
  embed__map map = {.data = NULL};
  embed_status status = embed__map_open(ctx, path, name, flags & EMBED_FILE_COPY, &map);
  if (status == EMBED_OK && map.bytes < 4) status = embed__fail(ctx, EMBED_E_FORMAT, map.bytes, "%s: it is shorter than 4 bytes", name);
  embed__cursor in = {.ctx = ctx, .label = name, .data = map.data, .end = map.bytes};
  if (status == EMBED_OK) status = read_tokens(&in, count, f);
  embed__map_close(&ctx->memory, &map);
  if (status == EMBED_OK || status == EMBED_E_MEMORY || status == EMBED_E_CANCELLED) return status;
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  enum { LINE = 160 };
  char line[LINE];
  embed__text t = embed__text_in(line, sizeof line);
  embed__text_add(&t, name);
  embed__text_add(&t, " beside the file is not its tokenizer, or cannot be read: there are no tokens");
  return embed__file_note_line(ctx, f, line);
}

static embed_status find_tokens(embed_context *ctx, embed_file *f, uint32_t flags, int64_t rows) {
  enum { NAME = 48 };
  char numbered[NAME];
  const char *slash = strrchr(f->path, '/'), *names[] = {numbered, "tokenizer.bin"};
  const size_t folder = slash ? (size_t)(slash - f->path) + 1 : 0, room = folder + NAME;
  char *path = embed__allocate(&ctx->memory, room, EMBED__ALIGNMENT);
  embed_status status = EMBED_OK;
  if (!path) return embed__out_of_memory(ctx, (int64_t)room);
  memcpy(path, f->path, folder);
  embed__text t = embed__text_in(numbered, sizeof numbered);
  embed__text_add(&t, "tok");
  embed__text_number(&t, rows);
  embed__text_add(&t, ".bin");
  for (size_t i = 0; i < sizeof names / sizeof *names && status == EMBED_OK && !f->tokens; ++i) {
    memcpy(path + folder, names[i], strlen(names[i]) + 1);
    if (embed__map_is_there(path)) status = read_tokenizer(ctx, f, path, names[i], flags, rows);
  }
  embed__free(&ctx->memory, path, room, EMBED__ALIGNMENT);
  return status;
}

/* --- The file */

static embed_status keep_groups(embed_context *ctx, embed_file *f, const model *m, embed__tensor *tensor) {
  const char *kept;
  const groups g = {.weights = tensor->offset, .scales = tensor->offset + tensor->shape[0] * tensor->shape[1], .dim = m->number[DIM], .group = m->group};
  EMBED__TRY(embed__file_keep(ctx, f, &g, sizeof g, &kept));
  tensor->recipe = kept;
  tensor->decode = decode_groups;
  tensor->offset = -1;
  tensor->bytes = 4 * tensor->shape[0] * tensor->shape[1];
  return EMBED_OK;
}

static embed_status adopt(embed_context *ctx, embed_file *f, const model *m) {
  EMBED__TRY(embed__file_tensors(ctx, f, m->count));
  memcpy(f->tensors, m->tensors, (size_t)m->count * sizeof *f->tensors);
  for (int64_t i = 0; i < m->count; ++i) {
    embed__tensor *tensor = &f->tensors[i];
    if (!strcmp(tensor->stored, "q8")) EMBED__TRY(keep_groups(ctx, f, m, tensor));
    if (!strcmp(tensor->name, "token_embedding_table")) f->roles[EMBED_ROLE_TOKEN] = i;
    if (!strcmp(tensor->name, "wcls")) f->roles[EMBED_ROLE_HEAD] = i;
    if (!strcmp(tensor->name, "rms_final_weight")) f->roles[EMBED_ROLE_NORM] = i;
  }
  f->roles_given = true;
  f->conventions = (embed_conventions){
      .size = sizeof f->conventions, .lookup_scale = 1.0f, .scale_round = EMBED_F32, .logit_scale = 1.0f, .norm_epsilon = 1e-5f /* run.c's own */};
  return EMBED_OK;
}

embed_status embed__llama2c_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  model m;
  const bool good = read_model(f->map.data, f->map.bytes, &m);
  if (f->map.bytes >= HEADER && embed__le32(f->map.data) == MAGIC && (m.version < 1 || m.version > 2))
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, 4, "%s: llama2.c version %d; 1, 2 and the one without a version are read", f->label, m.version);
  if (!good) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: its first numbers are not those of a llama2.c checkpoint", f->label);
  if (HEADER > embed__header_limit(o))
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the header has up to %d bytes, at most %" PRId64 " were asked for", f->label, HEADER,
                       embed__header_limit(o));
  if (!m.fits) return embed__fail(ctx, EMBED_E_OVERFLOW, 0, "%s: the size of its weights does not fit into 64 bits", f->label);
  if (m.at > f->map.bytes)
    return embed__fail(ctx, EMBED_E_FORMAT, f->map.bytes, "%s: its weights end at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", f->label, m.at,
                       f->map.bytes);
  if (m.at < f->map.bytes)
    return embed__fail(ctx, EMBED_E_FORMAT, m.at, "%s: its weights end at byte %" PRId64 ", the file at %" PRId64, f->label, m.at, f->map.bytes);
  EMBED__TRY(adopt(ctx, f, &m));
  return find_tokens(ctx, f, o->flags, m.number[VOCAB]);
}
