/* SPDX-License-Identifier: BSD-3-Clause */
#include "targets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An integer type of numpy: "<i4", ">u2", "|u1". */
typedef struct integer_type {
  int bytes, big_endian, has_sign;
} integer_type;

static int is_integer_type(const char *stored, integer_type *out) {
  if (strlen(stored) != 3 || !strchr("iu", stored[1]) || !strchr("1248", stored[2])) return 0;
  *out = (integer_type){.bytes = stored[2] - '0', .big_endian = stored[0] == '>', .has_sign = stored[1] == 'i'};
  return 1;
}

/* Above INT64_MAX: INT64_MAX, which is no row either. */
static int64_t integer_at(const unsigned char *at, integer_type type) {
  uint64_t value = 0;
  for (int i = 0; i < type.bytes; ++i) value = value << 8 | at[type.big_endian ? i : type.bytes - 1 - i];
  const uint64_t sign = (uint64_t)1 << (8 * type.bytes - 1);
  if (type.has_sign && value & sign) return -(int64_t)(sign - (value & (sign - 1)) - 1) - 1;
  return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int check_tensor(const embed_file *file, const char *path, const embed_tensor_info *tensor, int64_t n, integer_type *type) {
  if (strcmp(embed_file_format(file), "npy") != 0 || !is_integer_type(tensor->stored, type))
    return cli_fail(path, "targets are an .npy file of integers, this is %s of \"%s\"", embed_file_format(file), tensor->stored);
  if (tensor->rank != 1) return cli_fail(path, "targets are [n], not of rank %d", (int)tensor->rank);
  if (tensor->shape[0] != n) return cli_fail(path, "there are %" PRId64 " targets for %" PRId64 " hidden states", tensor->shape[0], n);
  return CLI_DONE;
}

static int read_integers(const cli_session *s, const char *path, int64_t offset, integer_type type, int64_t n, int32_t *targets) {
  const int64_t vocab = embed_head_vocab(s->head);
  unsigned char bytes[8];
  FILE *in = fopen(path, "rb");
  if (!in || fseeko(in, (off_t)offset, SEEK_SET) != 0) {
    const int why = errno;
    if (in) fclose(in);
    return cli_fail(path, "%s", strerror(why));
  }
  int status = CLI_DONE;
  for (int64_t i = 0; i < n && !status; ++i) {
    if (fread(bytes, (size_t)type.bytes, 1, in) != 1) {
      status = cli_fail(path, "it ends in front of target %" PRId64 " of %" PRId64, i, n);
      break;
    }
    const int64_t id = integer_at(bytes, type);
    if (id < 0 || id >= vocab)
      status = cli_fail(path, "target %" PRId64 " at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", id, i, vocab);
    targets[i] = (int32_t)id;
  }
  fclose(in);
  return status;
}

static int read_file(const cli_session *s, const char *path, const embed_file *file, int64_t n, int32_t **targets) {
  embed_tensor_info tensor = {.size = sizeof tensor};
  integer_type type = {0};
  if (embed_file_count(file) != 1) return cli_fail(path, "targets are one array, here are %" PRId64, embed_file_count(file));
  if (embed_file_tensor(s->ctx, file, 0, &tensor) != EMBED_OK) return cli_fail(path, "%s", embed_error_text(s->ctx));
  int status = check_tensor(file, path, &tensor, n, &type);
  if (status) return status;
  *targets = cli_array(s, n, 1, sizeof **targets);
  return *targets ? read_integers(s, path, tensor.offset, type, n, *targets) : CLI_FAILED;
}

int cli_targets_read(const cli_session *s, const char *path, int64_t n, int32_t **targets) {
  embed_file *file = NULL;
  *targets = NULL;
  if (embed_file_open(s->ctx, path, NULL, &file) != EMBED_OK) return cli_fail(path, "%s", embed_error_text(s->ctx));
  int status = read_file(s, path, file, n, targets);
  embed_file_release(file);
  return status;
}
