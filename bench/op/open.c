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

/* A skip-gram model with 1000 buckets of n-grams. */
static bool make_fasttext(open_job *j, int tokens) {
  static const int32_t arguments[] = {DIM, 5, 5, 5, 5, 1, 2, 2, 1000, 3, 6, 100};
  uint64_t random = 4;
  put_number(j, 793712314, 4);
  put_number(j, 12, 4);
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; ++i) put_number(j, (uint64_t)arguments[i], 4);
  put_zeros(j, 8);
  put_number(j, (uint64_t)tokens, 4); /* entries, words, labels */
  put_number(j, (uint64_t)tokens, 4);
  put_number(j, 0, 4);
  put_number(j, (uint64_t)tokens * 10, 8);
  put_number(j, UINT64_MAX, 8); /* not pruned */
  for (int i = 0; i < tokens; ++i) {
    char token[16];
    put(j, token, (size_t)make_token(i, &random, token));
    put_zeros(j, 1 + 8 + 1); /* its end, count and kind */
  }
  j->header = j->count;
  for (int matrix = 0; matrix < 2; ++matrix) {
    const uint64_t rows = (uint64_t)tokens + (matrix ? 0 : 1000);
    put_number(j, 0, 1);
    put_number(j, rows, 8);
    put_number(j, DIM, 8);
    put_zeros(j, rows * DIM * sizeof(float));
  }
  return j->count <= j->room;
}

static bool make_finalfusion(open_job *j, int tokens) {
  uint64_t random = 4;
  put(j, "FiFu", 4);
  put_number(j, 0, 4);
  put_number(j, 2, 4); /* chunks: words, array */
  put_number(j, 1, 4);
  put_number(j, 2, 4);
  put_number(j, 1, 4);
  const size_t length = j->count;
  put_zeros(j, 8);
  put_number(j, (uint64_t)tokens, 8);
  for (int i = 0; i < tokens; ++i) {
    char token[16];
    const int bytes = make_token(i, &random, token);
    put_number(j, (uint64_t)bytes, 4);
    put(j, token, (size_t)bytes);
  }
  j->header = j->count;
  for (int i = 0; i < 8; ++i) j->bytes[length + (size_t)i] = (unsigned char)((j->count - length - 8) >> (8 * i));
  const size_t padding = 4 - j->count % 4, array = (size_t)tokens * DIM * sizeof(float); /* what precedes it is a multiple of 4 */
  put_number(j, 2, 4);
  put_number(j, 8 + 4 + 4 + padding + array, 8);
  put_number(j, (uint64_t)tokens, 8);
  put_number(j, DIM, 4);
  put_number(j, 10, 4); /* f32 */
  put_zeros(j, padding + array);
  return j->count <= j->room;
}

/* --- A checkpoint as torch.save writes it: a pickle that names a storage for each tensor, the storages at multiples of 64 bytes */

static void put_text(open_job *j, const char *s) { /* BINUNICODE */
  put(j, "X", 1);
  put_number(j, strlen(s), 4);
  put(j, s, strlen(s));
}

static void put_codes(open_job *j, const char *codes) { put(j, codes, strlen(codes)); }

static void put_shape(open_job *j, int count, int first, int second) {
  const int numbers[2] = {first, second};
  for (int i = 0; i < count; ++i) {
    put(j, "M", 1);
    put_number(j, (uint64_t)numbers[i], 2);
  }
  put(j, count == 1 ? "\x85" : "\x86", 1);
}

static int rows_of(int i, int tensors) {
  const int part = (i - 1) % LAYER;
  return i == tensors - 1 || (i && (part == 0 || part == LAYER - 1)) ? 1 : i ? DIM : 1024;
}

static void put_pickled_tensor(open_job *j, int i, int tensors) {
  static const char *const parts[LAYER] = {"input_layernorm.weight",  "mlp.down_proj.weight",    "mlp.gate_proj.weight",
                                           "mlp.up_proj.weight",      "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                           "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight"};
  char name[80] = "model.embed_tokens.weight", key[16];
  const int rows = rows_of(i, tensors), rank = rows == 1 ? 1 : 2;
  if (i) snprintf(name, sizeof name, "model.layers.%d.%s", (i - 1) / LAYER, parts[(i - 1) % LAYER]);
  if (i == tensors - 1) strcpy(name, "model.norm.weight");
  snprintf(key, sizeof key, "%d", i);
  put_text(j, name);
  put_codes(j, "ctorch._utils\n_rebuild_tensor_v2\n((");
  put_text(j, "storage");
  put_codes(j, "ctorch\nHalfStorage\n");
  put_text(j, key);
  put_text(j, "cpu");
  put(j, "J", 1);
  put_number(j, (uint64_t)(rows * DIM), 4);
  put(j, "tQK\0", 4);
  put_shape(j, rank, rank == 1 ? DIM : rows, DIM);
  put_shape(j, rank, rank == 1 ? 1 : DIM, 1);
  put_codes(j,
            "\x89"
            "ccollections\nOrderedDict\n)RtR");
}

/* Local header with a padded extra field, and the data. Sums are left zero: nobody asks for them. */
static void put_member(open_job *j, const char *name, const void *data, size_t bytes) {
  const size_t begin = j->count + 30 + strlen(name), pad = (64 - begin % 64) % 64;
  put_number(j, 0x04034B50u, 4);
  put_zeros(j, 14);
  put_number(j, bytes, 4);
  put_number(j, bytes, 4);
  put_number(j, strlen(name), 2);
  put_number(j, pad, 2);
  put(j, name, strlen(name));
  put_zeros(j, pad);
  if (data)
    put(j, data, bytes);
  else
    put_zeros(j, bytes);
}

static void put_entry(open_job *j, const char *name, size_t at, size_t bytes) {
  put_number(j, 0x02014B50u, 4);
  put_zeros(j, 16);
  put_number(j, bytes, 4);
  put_number(j, bytes, 4);
  put_number(j, strlen(name), 2);
  put_zeros(j, 12);
  put_number(j, at, 4);
  put(j, name, strlen(name));
}

static bool make_torch(open_job *j, int tensors) {
  size_t *const at = malloc((size_t)tensors * sizeof *at);
  unsigned char *pickle = NULL;
  if (!at) return false;
  put(j, "\x80\x02}(", 4);
  for (int i = 0; i < tensors; ++i) put_pickled_tensor(j, i, tensors);
  put(j, "u.", 2);
  const size_t bytes = j->count;
  pickle = malloc(bytes);
  if (pickle) {
    char name[32];
    memcpy(pickle, j->bytes, bytes);
    j->count = 0;
    put_member(j, "archive/data.pkl", pickle, bytes);
    for (int i = 0; i < tensors; ++i) {
      at[i] = j->count;
      snprintf(name, sizeof name, "archive/data/%d", i);
      put_member(j, name, NULL, (size_t)rows_of(i, tensors) * DIM * 2);
    }
    const size_t directory = j->count;
    put_entry(j, "archive/data.pkl", 0, bytes);
    for (int i = 0; i < tensors; ++i) {
      snprintf(name, sizeof name, "archive/data/%d", i);
      put_entry(j, name, at[i], (size_t)rows_of(i, tensors) * DIM * 2);
    }
    const size_t end = j->count;
    put_number(j, 0x06054B50u, 4);
    put_number(j, 0, 4);
    put_number(j, (uint64_t)tensors + 1, 2);
    put_number(j, (uint64_t)tensors + 1, 2);
    put_number(j, end - directory, 4);
    put_number(j, directory, 4);
    put_number(j, 0, 2);
    j->header = bytes + (end - directory); /* what says where tensors are, in two places */
  }
  free(pickle);
  free(at);
  return pickle && j->count <= j->room;
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

typedef enum kind { SAFETENSORS, GGUF, EMBED, FASTTEXT, FINALFUSION, TORCH } kind;

static void open_line(op *o, const op_line *line, kind of) {
  static const struct {
    const char *what;
    size_t room; /* bytes of the whole file, at most, per n */
    int times;
    double promised; /* seconds */
  } kinds[] = {{"open    safetensors  %d tensors", 12000, 20, 100e-6},
               {"open    gguf  %d tokens", 60 + DIM * sizeof(float), 1, 5e-3},
               {"open    embed  %d tokens", 64, 50, 100e-6},
               {"open    fasttext  %d tokens", 32 + 2 * DIM * sizeof(float), 20, 200e-6},
               {"open    finalfusion  %d tokens", 32 + DIM * sizeof(float), 20, 200e-6},
               {"open    pytorch  %d tensors", 12000, 20, 1e-3}};
  static bool (*const make[])(open_job *, int) = {make_safetensors, make_gguf, NULL, make_fasttext, make_finalfusion, make_torch};
  const int n = (int)line->n;
  const bool many = (of == FASTTEXT || of == FINALFUSION) && n > 10000; /* each token is hashed: as with GGUF */
  op_outcome outcome = {0};
  open_job j = {.o = o, .outcome = &outcome, .room = (size_t)n * kinds[of].room + (1 << 20), .times = many ? 1 : kinds[of].times};
  char what[64];
  snprintf(j.path, sizeof j.path, "%s/bench-op-XXXXXX", P_tmpdir);
  const int descriptor = mkstemp(j.path);
  if (descriptor >= 0) close(descriptor);
  j.bytes = bench_memory(j.room);
  bool made = descriptor >= 0 && j.bytes;
  if (made && of == EMBED) write_embed(&j, n);
  if (made && of != EMBED) made = make[of](&j, n) && write_bytes(&j);
  if (!made) snprintf(outcome.text, sizeof outcome.text, "no memory or no file");
  snprintf(what, sizeof what, kinds[of].what, n);
  run(o, line, &j, what, many ? kinds[GGUF].promised : kinds[of].promised);
  if (descriptor >= 0) unlink(j.path);
  bench_memory_release(j.bytes, j.room);
}

void op_open_safetensors(op *o, const op_line *line) { open_line(o, line, SAFETENSORS); }

void op_open_gguf(op *o, const op_line *line) { open_line(o, line, GGUF); }

void op_open_embed(op *o, const op_line *line) { open_line(o, line, EMBED); }

void op_open_fasttext(op *o, const op_line *line) { open_line(o, line, FASTTEXT); }

void op_open_finalfusion(op *o, const op_line *line) { open_line(o, line, FINALFUSION); }

void op_open_torch(op *o, const op_line *line) { open_line(o, line, TORCH); }
