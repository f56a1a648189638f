/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a file that lies in the page cache, up to the first row: open, find the token table, look one id up, let go of both. The limit
 * is what any reader does at least: open, read the bytes that say what the file holds, close. The peer is the time that was promised. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op.h"

enum { DIM = 64, LAYER = 9, HEADER_OF_EMBED = 4096 /* bytes: one page */ };

typedef struct open_job {
  op *o;
  op_outcome *outcome;
  char path[64];
  unsigned char *bytes; /* the file being written; afterwards where its header is read to */
  size_t room, count, header;
  int times; /* opened per sample */
} open_job;

/* --- Files as models have them */

static void put(open_job *j, const void *from, size_t bytes) {
  if (j->count + bytes > j->room) bytes = j->room - j->count; /* never: room was reckoned */
  memcpy(j->bytes + j->count, from, bytes);
  j->count += bytes;
}

static void put_number(open_job *j, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) put(j, &(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static void put_string(open_job *j, const char *s, size_t bytes) {
  put_number(j, bytes, 8);
  put(j, s, bytes);
}

static void put_key(open_job *j, const char *key, uint32_t kind) {
  put_string(j, key, strlen(key));
  put_number(j, kind, 4);
}

static void put_zeros(open_job *j, size_t bytes) {
  if (j->count + bytes <= j->room) memset(j->bytes + j->count, 0, bytes);
  j->count += bytes;
}

/* The id in letters, then others: 2 to 12 bytes, 7 on average, as the tokens of Qwen2 are; no two are equal. */
static int make_token(int id, uint64_t *random, char token[16]) {
  const int least = 2 + (int)(bench_random(random) % 11);
  int bytes = 0;
  for (int rest = id; rest || !bytes; rest /= 26) token[bytes++] = (char)('a' + rest % 26);
  while (bytes < least) token[bytes++] = (char)('A' + bench_random(random) % 26);
  return bytes;
}

static void put_tokens(open_job *j, const char *key, int count, bool merges) {
  uint64_t random = 4;
  put_key(j, key, 9);
  put_number(j, 8, 4);
  put_number(j, (uint64_t)count, 8);
  for (int i = 0; i < count; ++i) {
    char token[16];
    const int bytes = make_token(i, &random, token);
    if (merges) token[bytes / 2] = ' '; /* two halves */
    put_string(j, token, (size_t)bytes);
  }
}

static bool make_gguf(open_job *j, int tokens) {
  const uint64_t table = (uint64_t)tokens * DIM * sizeof(float);
  put(j, "GGUF", 4);
  put_number(j, 3, 4);
  put_number(j, 2, 8); /* tensors */
  put_number(j, 4, 8); /* pairs */
  put_key(j, "general.architecture", 8);
  put_string(j, "qwen2", 5);
  put_tokens(j, "tokenizer.ggml.tokens", tokens, false);
  put_key(j, "tokenizer.ggml.token_type", 9);
  put_number(j, 5, 4);
  put_number(j, (uint64_t)tokens, 8);
  for (int i = 0; i < tokens; ++i) put_number(j, 1, 4);
  put_tokens(j, "tokenizer.ggml.merges", tokens, true);
  put_key(j, "token_embd.weight", 2);
  put_number(j, DIM, 8);
  put_number(j, (uint64_t)tokens, 8);
  put_number(j, 0, 4); /* F32 */
  put_number(j, 0, 8);
  put_key(j, "output_norm.weight", 1);
  put_number(j, DIM, 8);
  put_number(j, 0, 4);
  put_number(j, table, 8);
  j->header = j->count;
  put_zeros(j, (32 - j->count % 32) % 32 + table + DIM * sizeof(float));
  return j->count <= j->room;
}

/* A table, layers of nine tensors, a norm: as Llama and its kin are stored. */
static bool make_safetensors(open_job *j, int tensors) {
  static const char *const parts[LAYER] = {"input_layernorm.weight",  "mlp.down_proj.weight",    "mlp.gate_proj.weight",
                                           "mlp.up_proj.weight",      "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                           "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight"};
  char entry[256];
  size_t data = 0;
  put_number(j, 0, 8);
  put(j, "{\"__metadata__\":{\"format\":\"pt\"}", 31);
  for (int i = 0; i < tensors; ++i) {
    const int part = (i - 1) % LAYER, rows = i == 0 ? 1024 : DIM;
    const bool norm = i == tensors - 1 || (i && (part == 0 || part == LAYER - 1));
    const size_t bytes = (size_t)(norm ? 1 : rows) * DIM * 2;
    char name[80] = "model.embed_tokens.weight", shape[32];
    if (i) snprintf(name, sizeof name, "model.layers.%d.%s", (i - 1) / LAYER, parts[part]);
    if (i == tensors - 1) strcpy(name, "model.norm.weight");
    snprintf(shape, sizeof shape, norm ? "%d" : "%d,%d", norm ? DIM : rows, DIM);
    put(j, entry,
        (size_t)snprintf(entry, sizeof entry, ",\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", name, shape, data, data + bytes));
    data += bytes;
  }
  put(j, "}       ", 1 + (8 - (j->count + 1) % 8) % 8);
  j->header = j->count;
  for (int i = 0; i < 8; ++i) j->bytes[i] = (unsigned char)((j->header - 8) >> (8 * i));
  put_zeros(j, data);
  return j->count <= j->room;
}

static bool write_bytes(open_job *j) {
  const int descriptor = open(j->path, O_WRONLY | O_TRUNC);
  bool written = descriptor >= 0;
  for (size_t at = 0; written && at < j->count;) {
    const ssize_t some = write(descriptor, j->bytes + at, j->count - at);
    written = some > 0;
    at += written ? (size_t)some : 0;
  }
  if (descriptor >= 0) close(descriptor);
  return written;
}

/* By the library's own writer: the table's rows, and as many tokens as GGUF has. */
static void write_embed(open_job *j, int tokens) {
  embed_context *const ctx = j->o->context;
  embed_table_options options = {.size = sizeof options, .dtype = EMBED_F32};
  embed_writer_options format = {.size = sizeof format, .format = "embed"};
  embed_table *table = NULL;
  embed_writer *writer = NULL;
  uint64_t random = 4;
  op_note(j->o, j->outcome, embed_table_create(ctx, tokens, DIM, &options, &table));
  if (!op_wrong(j->outcome)) op_note(j->o, j->outcome, embed_writer_create(ctx, j->path, &format, &writer));
  if (!op_wrong(j->outcome)) op_note(j->o, j->outcome, embed_writer_table(ctx, writer, "token_embd.weight", table, NULL));
  for (int i = 0; i < tokens && !op_wrong(j->outcome); ++i) {
    char token[16];
    const int bytes = make_token(i, &random, token);
    op_note(j->o, j->outcome, embed_writer_token(ctx, writer, i, token, bytes));
  }
  if (!op_wrong(j->outcome)) op_note(j->o, j->outcome, embed_writer_commit(ctx, writer));
  embed_writer_release(writer);
  embed_table_release(table);
  j->header = HEADER_OF_EMBED;
}

/* --- What is timed */

static void open_to_first_row(void *job) {
  open_job *j = job;
  embed_context *const ctx = j->o->context;
  for (int i = 0; i < j->times && !op_wrong(j->outcome); ++i) {
    embed_file *file = NULL;
    embed_table *table = NULL;
    float row[DIM];
    op_note(j->o, j->outcome, embed_file_open(ctx, j->path, NULL, &file));
    if (!op_wrong(j->outcome)) op_note(j->o, j->outcome, embed_file_table(ctx, file, -1, &table));
    if (!op_wrong(j->outcome)) op_note(j->o, j->outcome, embed_lookup(ctx, table, &(int32_t){5}, 1, row, EMBED_F32, 0, NULL));
    embed_table_release(table);
    embed_file_release(file);
  }
}

static void read_header(void *job) {
  open_job *j = job;
  for (int i = 0; i < j->times; ++i) {
    const int descriptor = open(j->path, O_RDONLY);
    if (descriptor < 0 || read(descriptor, j->bytes, j->header) != (ssize_t)j->header) snprintf(j->outcome->text, sizeof j->outcome->text, "no header to read");
    if (descriptor >= 0) close(descriptor);
  }
}

static void run(op *o, const op_line *line, open_job *j, const char *what, double promised) {
  op_result r = {.what = what, .unit = "MB/s", .limit_name = "open, read and close of its header", .peer_name = "the promised time"};
  if (!op_wrong(j->outcome)) {
    bench_figure figures[2] = {0};
    const bench_work works[2] = {{.call = open_to_first_row, .job = j}, {.call = read_header, .job = j}};
    bench_measure(o->bench, works, 2, figures);
    for (int i = 0; i < 2; ++i) figures[i].seconds /= j->times;
    r.ours = figures[0];
    r.figure = figures[0].seconds > 0 ? (double)j->header / figures[0].seconds / 1e6 : 0;
    r.limit = figures[1].seconds > 0 ? (double)j->header / figures[1].seconds / 1e6 : 0;
    r.peer = figures[0]; /* it holds in every sample */
    r.peer.seconds = promised;
  }
  r.wrong = op_wrong(j->outcome);
  op_report(o, line, &r);
}

typedef enum kind { SAFETENSORS, GGUF, EMBED } kind;

static void open_line(op *o, const op_line *line, kind of) {
  static const struct {
    const char *what;
    size_t room; /* bytes of the whole file, at most, per n */
    int times;
    double promised; /* seconds */
  } kinds[] = {{"open    safetensors  %d tensors", 12000, 20, 100e-6},
               {"open    gguf  %d tokens", 60 + DIM * sizeof(float), 1, 5e-3},
               {"open    embed  %d tokens", 64, 50, 100e-6}};
  const int n = (int)line->n;
  op_outcome outcome = {0};
  open_job j = {.o = o, .outcome = &outcome, .room = (size_t)n * kinds[of].room + (1 << 20), .times = kinds[of].times};
  char what[64];
  snprintf(j.path, sizeof j.path, "%s/bench-op-XXXXXX", P_tmpdir);
  const int descriptor = mkstemp(j.path);
  if (descriptor >= 0) close(descriptor);
  j.bytes = bench_memory(j.room);
  bool made = descriptor >= 0 && j.bytes;
  if (made && of == EMBED) write_embed(&j, n);
  if (made && of != EMBED) made = (of == GGUF ? make_gguf(&j, n) : make_safetensors(&j, n)) && write_bytes(&j);
  if (!made) snprintf(outcome.text, sizeof outcome.text, "no memory or no file");
  snprintf(what, sizeof what, kinds[of].what, n);
  run(o, line, &j, what, kinds[of].promised);
  if (descriptor >= 0) unlink(j.path);
  bench_memory_release(j.bytes, j.room);
}

void op_open_safetensors(op *o, const op_line *line) { open_line(o, line, SAFETENSORS); }

void op_open_gguf(op *o, const op_line *line) { open_line(o, line, GGUF); }

void op_open_embed(op *o, const op_line *line) { open_line(o, line, EMBED); }
