/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a model file, by content: it is refused with a reason, or all of it can be used. The bytes lie in memory that
 * has a path (memfd): the way in is embed_file_open, and nothing is written to a disk. */
#include <embed/embed.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FEW = 40, WIDE = 1 << 16 };

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
  int64_t bytes, id;
  for (int64_t i = 0; i < FEW && embed_file_metadata(ctx, f, i, &key, &value, &bytes) == EMBED_OK; ++i) must(key[strlen(key)] == 0 && value[bytes] == 0);
  for (int64_t i = 0; i < FEW && (token = embed_file_token(f, i, &bytes)); ++i) {
    must(token[bytes] == '\0');
    must(embed_file_token_id(ctx, f, token, bytes, &id) == EMBED_OK && id >= 0 && id <= i);
  }
  must(embed_file_notes(f)[0] != '\n');
}

static void use_roles(embed_context *ctx, const embed_file *f) {
  embed_conventions c = {.size = sizeof c};
  embed_head *head = NULL;
  embed_table *t = NULL;
  for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_NORM_BIAS; ++role) {
    int64_t i = -2;
    must(embed_file_role(ctx, f, role, &i) == EMBED_OK && i >= -1 && i < embed_file_count(f));
  }
  if (embed_file_conventions(ctx, f, &c) != EMBED_OK) failed(ctx, NULL);
  if (embed_file_table(ctx, f, -1, &t) != EMBED_OK) failed(ctx, t);
  if (embed_file_head(ctx, f, t, NULL, &head) != EMBED_OK) failed(ctx, head);
  embed_head_release(head);
  embed_table_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static embed_context *ctx;
  static int descriptor = -1;
  static char path[64];
  embed_file *f = NULL;
  most = (size_t)-1;
  if (!ctx) {
    const embed_allocator memory = {.size = sizeof memory, .allocate = allocate, .release = release};
    const embed_context_options o = {.size = sizeof o, .allocator = &memory};
    must(embed_context_create(&o, &ctx) == EMBED_OK);
    descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    must(descriptor >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  }
  must(ftruncate(descriptor, (off_t)size) == 0 && pwrite(descriptor, data, size, 0) == (ssize_t)size);
  most = 64 * size + (1 << 16);
  const embed_file_options copied = {.size = sizeof copied, .flags = EMBED_FILE_COPY};
  if (embed_file_open(ctx, path, &copied, &f) != EMBED_OK) {
    failed(ctx, f);
    return 0;
  }
  most = (size_t)-1;
  use_tensors(ctx, f, (int64_t)size);
  use_strings(ctx, f);
  use_roles(ctx, f);
  embed_file_release(f);
  return 0;
}
