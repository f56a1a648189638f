/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a model file: it is refused with a reason, or all of it can be used. EMBED_FUZZ_FORMAT is the format that is asked
 * for, "" = by content, or what stands beside a good file: "config", "tokenizer", "vocabulary". The bytes lie in memory that has a path
 * (memfd): the way in is embed_file_open, and nothing is written to a disk; what needs a folder has one in memory too. */
#include <embed/embed.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../io/packed_file.h"
#include "../io/zip_file.h"
#include "io/container.h"
#include "io/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FEW = 40, WIDE = 1 << 16, BESIDE = 256, SHARD = 4096 };
static const char format[] = EMBED_FUZZ_FORMAT;
static char folder[64];           /* "" = none */
static const int64_t columns = 3; /* of formats that do not say it */

static bool is(const char *name) { return strcmp(format, name) == 0; }

/* The name of the bytes beside a good file, NULL = they are the file. */
static const char *beside(void) { return is("config") ? "config.json" : is("tokenizer") ? "tokenizer.json" : is("vocabulary") ? "vocab.txt" : NULL; }

/* Its bytes are JSON that names files which are there. */
static bool is_index(void) { return is("safetensors-index") || is("pytorch-index"); }

static void must(bool fact) {
  if (!fact) abort();
}

static size_t most; /* bytes of one allocation: a small multiple of the file, whatever its header says */

/* Exactly as many bytes as are asked for: the sanitizer sees one too far. */
static void *allocate(void *arg, size_t bytes, size_t alignment) {
  void *block = NULL;
  (void)arg;
  must(bytes <= most);
  return posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}

static void release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)arg;
  (void)bytes;
  (void)alignment;
  free(memory);
}

static void failed(embed_context *ctx, const void *handle) { must(handle == NULL && embed_error_text(ctx)[0] != '\0'); }

static void use_table(embed_context *ctx, const embed_table *t) {
  static float row[WIDE];
  int64_t rows = embed_table_rows(t), dim = embed_table_dim(t);
  if (rows == 0 || dim > WIDE) return;
  for (int64_t r = 0; r<rows; r += rows> 1 ? rows - 1 : 1) must(embed_table_get_rows(ctx, t, &r, 1, row, EMBED_F32, 0) == EMBED_OK);
}

static void use_tensors(embed_context *ctx, const embed_file *f, int64_t size) {
  for (int64_t i = 0; i < embed_file_count(f) && i < FEW; ++i) {
    embed_tensor_info info = {.size = sizeof info};
    embed_table *t = NULL;
    int64_t found = -1;
    must(embed_file_tensor(ctx, f, i, &info) == EMBED_OK);
    must(info.rank >= 0 && info.rank <= 8 && info.bytes >= 0 && info.offset <= size);
    must(info.offset < 0 || info.bytes <= size - info.offset);
    must(embed_file_find(ctx, f, info.name, &found) == EMBED_OK && found >= 0 && found <= i);
    if (embed_file_table(ctx, f, i, &t) == EMBED_OK)
      use_table(ctx, t);
    else
      failed(ctx, t);
    embed_table_release(t);
  }
}

static void use_strings(embed_context *ctx, const embed_file *f) {
  const char *key, *value, *token;
  int64_t bytes, other_bytes, id;
  embed_status found;
  const bool stored = strcmp(embed_file_format(f), "embed") == 0;
  for (int64_t i = 0; i < FEW && embed_file_metadata(ctx, f, i, &key, &value, &bytes) == EMBED_OK; ++i) must(key[strlen(key)] == 0 && value[bytes] == 0);
  for (int64_t i = 0; i < FEW && (token = embed_file_token(f, i, &bytes)); ++i) {
    must(token[bytes] == '\0');
    found = embed_file_token_id(ctx, f, token, bytes, &id);
    if (stored && (found != EMBED_OK || id > i)) { /* its index lies in the file and may be wrong: nothing is built to check it by */
      must(found == EMBED_OK || found == EMBED_E_NOT_FOUND);
      if (found != EMBED_OK) continue;
      const char *other = embed_file_token(f, id, &other_bytes);
      must(other && other_bytes == bytes && memcmp(other, token, (size_t)bytes) == 0);
      continue;
    }
    must(found == EMBED_OK && id >= 0 && id <= i);
  }
  must(embed_file_notes(f)[0] != '\n');
}

static void use_roles(embed_context *ctx, const embed_file *f) {
  embed_conventions c = {.size = sizeof c};
  embed_head *head = NULL;
  embed_table *t = NULL;
  for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_NGRAM; ++role) {
    int64_t i = -2;
    must(embed_file_role(ctx, f, role, &i) == EMBED_OK && i >= -1 && i < embed_file_count(f));
  }
  for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_HEAD; ++role) {
    int64_t count = -2, classes = -2;
    const embed_status status = embed_file_class_counts(ctx, f, role, &count, 1, &classes);
    must(status == EMBED_E_NOT_FOUND || (status == EMBED_OK && classes >= 0 && (classes == 0 || count >= 0)));
  }
  if (embed_file_conventions(ctx, f, &c) != EMBED_OK) failed(ctx, NULL);
  if (embed_file_table(ctx, f, -1, &t) != EMBED_OK) failed(ctx, t);
  if (embed_file_head(ctx, f, t, NULL, &head) != EMBED_OK) failed(ctx, head);
  embed_head_release(head);
  embed_table_release(t);
}

/* --- What stands around the bytes */

static const char *in_folder(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_beside(const char *name, const void *bytes, size_t count) {
  int descriptor = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  must(descriptor >= 0 && write(descriptor, bytes, count) == (ssize_t)count);
  close(descriptor);
}

/* One tensor [3, 4] of floats. */
static void write_safetensors(const char *name, const char *tensor) {
  char file[BESIDE] = "";
  int header = snprintf(file + 8, sizeof file - 8, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", tensor);
  file[0] = (char)header;
  write_beside(name, file, 8 + (size_t)header + 48);
}

static void write_torch(const char *name, const char *tensor) {
  static const int64_t table[2] = {3, 4}, rows[2] = {4, 1};
  static const unsigned char storage[48] = {0};
  pk_begin();
  pk_op('}');
  pk_text(tensor);
  pk_tensor("FloatStorage", "0", 12, 0, 2, table, rows);
  pk_ops("s.");
  torch_archive(NULL, storage, sizeof storage);
  must(zf_count <= SHARD);
  write_beside(name, zf, zf_count);
}

/* With a matrix whose bits config.json tells. */
static void write_model(const char *name) {
  pf_begin();
  (void)pf_matrix("model.embed_tokens.weight", "F32", 3, 4, 4);
  (void)pf_matrix("x.weight", "U32", 1, 16, 4);
  (void)pf_matrix("x.scales", "F16", 1, 2, 2);
  (void)pf_matrix("x.biases", "F16", 1, 2, 2);
  (void)pf_end();
  must(pf_bytes <= SHARD);
  write_beside(name, pf_file, pf_bytes);
}

static void clear_folder(void) {
  static const char *const names[] = {"1.bin",       "2.bin",          "1.safetensors", "2.safetensors", "model.safetensors", "model.safetensors.index.json",
                                      "config.json", "tokenizer.json", "vocab.txt"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) (void)unlink(in_folder(names[i]));
  (void)rmdir(folder);
}

static void make_folder(void) {
  const char *roots[] = {"/dev/shm", "/tmp"};
  for (int i = 0; i < 2; ++i) {
    snprintf(folder, sizeof folder, "%s/fuzz.XXXXXX", roots[i]);
    if (mkdtemp(folder)) break;
    must(i == 0);
  }
  must(atexit(clear_folder) == 0);
  write_torch("1.bin", "a");
  write_torch("2.bin", "b");
  write_safetensors("1.safetensors", "a");
  write_safetensors("2.safetensors", "b");
  write_model("model.safetensors");
}

/* Sums that are right, where there is room for them: a fuzzer guesses none, and what stands behind them would never be read. */
static void seal(uint8_t *file, size_t size) {
  embed__crc32c crc;
  if (size < EMBED__HEAD) return;
  embed__crc32c_init(&crc);
  const uint64_t end = embed__u64_at(file + EMBED__HEAD_END), sections = embed__le32(file + EMBED__HEAD_SECTIONS);
  for (uint64_t i = 0; i < sections && EMBED__HEAD + (i + 1) * EMBED__ENTRY <= size; ++i) {
    uint8_t *entry = file + EMBED__HEAD + i * EMBED__ENTRY;
    const uint64_t at = embed__u64_at(entry + EMBED__ENTRY_OFFSET), bytes = embed__u64_at(entry + EMBED__ENTRY_BYTES);
    if (at <= size && bytes <= size - at) embed__put_le(entry + EMBED__ENTRY_SUM, embed__crc32c_add(&crc, 0, file + at, (int64_t)bytes), 4);
  }
  if (end >= EMBED__HEAD && end <= size)
    embed__put_le(file + EMBED__HEAD_DIRECTORY_SUM, embed__crc32c_add(&crc, 0, file + EMBED__HEAD, (int64_t)end - EMBED__HEAD), 4);
  embed__put_le(file + EMBED__HEAD_SUM, embed__crc32c_add(&crc, 0, file, EMBED__HEAD_SUM), 4);
}

/* A pickle alone, or an array alone, gets an archive around it: few mutations of a whole archive leave one. */
static void wrap(const uint8_t **data, size_t *size) {
  static const unsigned char storage[BESIDE] = {0, 0, 128, 63, 0, 0, 0, 64};
  if (*size == 0 || *size > ZF_ROOM / 4) return;
  zf_begin();
  if (is("pytorch") && **data == 0x80 && (*size < 3 || (*data)[2] != 0x8A)) { /* that one is whole without an archive */
    zf_add("m/data.pkl", *data, *size);
    zf_add("m/data/0", storage, sizeof storage);
  } else if (is("npz") && **data == 0x93) {
    zf_add_deflated("a.npy", *data, *size);
  } else {
    return;
  }
  zf_end(0);
  *data = zf;
  *size = zf_count;
}

/* The path to be opened, with the bytes behind it or beside it. */
static const char *place(const uint8_t *data, size_t size) {
  static int descriptor = -1;
  static char path[128];
  if (descriptor < 0) {
    if (beside() || is_index()) {
      make_folder();
      descriptor = open(in_folder(beside() ? beside() : "model.safetensors.index.json"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      snprintf(path, sizeof path, "%s", in_folder(beside() ? "model.safetensors" : "model.safetensors.index.json"));
    } else {
      descriptor = memfd_create("fuzz", MFD_CLOEXEC);
      snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    must(descriptor >= 0);
  }
  must(ftruncate(descriptor, (off_t)size) == 0);
  if (is("embed") && size) {
    uint8_t *sealed = malloc(size);
    must(sealed != NULL);
    memcpy(sealed, data, size);
    seal(sealed, size);
    must(pwrite(descriptor, sealed, size, 0) == (ssize_t)size);
    free(sealed);
  } else {
    must(pwrite(descriptor, data, size, 0) == (ssize_t)size);
  }
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static embed_context *ctx;
  embed_file *f = NULL;
  most = (size_t)-1;
  if (!ctx) {
    const embed_allocator memory = {.size = sizeof memory, .allocate = allocate, .release = release};
    const embed_context_options o = {.size = sizeof o, .allocator = &memory};
    must(embed_context_create(&o, &ctx) == EMBED_OK);
  }
  wrap(&data, &size);
  const char *path = place(data, size);
  most = (is("npz") || is("pytorch") || is("") ? 1100 : 64) * (size + BESIDE) + (1 << 16); /* deflate makes 1032 bytes of one */
  const embed_file_options copied = {.size = sizeof copied,
                                     .flags = EMBED_FILE_COPY,
                                     .format = *format && !beside() ? format : NULL,
                                     .dim = strncmp(format, "raw", 3) == 0 || is("glove-binary") ? columns : 0};
  if (embed_file_open(ctx, path, &copied, &f) != EMBED_OK) {
    failed(ctx, f);
    must(!beside()); /* a good file is beside it */
    return 0;
  }
  most = (size_t)-1;
  use_tensors(ctx, f, (int64_t)size + (*folder ? SHARD : 0));
  use_strings(ctx, f);
  use_roles(ctx, f);
  embed_file_release(f);
  return 0;
}
