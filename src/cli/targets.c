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

/* What a file of ids is called in messages. */
typedef struct kind {
  const char *one, *many;
} kind;

static int check_tensor(const embed_file *file, const char *path, kind k, const embed_tensor_info *tensor, integer_type *type) {
  if (strcmp(embed_file_format(file), "npy") != 0 || !is_integer_type(tensor->stored, type))
    return cli_fail(path, "%s are an .npy file of integers, this is %s of \"%s\"", k.many, embed_file_format(file), tensor->stored);
  if (tensor->rank != 1) return cli_fail(path, "%s are [n], not of rank %d", k.many, (int)tensor->rank);
  return CLI_DONE;
}

static int read_integers(const cli_session *s, const char *path, kind k, int64_t offset, integer_type type, int64_t n, int32_t *ids) {
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
      status = cli_fail(path, "it ends in front of %s %" PRId64 " of %" PRId64, k.one, i, n);
      break;
    }
    const int64_t id = integer_at(bytes, type);
    if (id < 0 || id >= vocab)
      status = cli_fail(path, "%s %" PRId64 " at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", k.one, id, i, vocab);
    ids[i] = (int32_t)id;
  }
  fclose(in);
  return status;
}

/* *n below 0: as many as there are. */
static int read_file(const cli_session *s, const char *path, kind k, const embed_file *file, int64_t *n, int32_t **ids) {
  embed_tensor_info tensor = {.size = sizeof tensor};
  integer_type type = {0};
  if (embed_file_count(file) != 1) return cli_fail(path, "%s are one array, here are %" PRId64, k.many, embed_file_count(file));
  if (embed_file_tensor(s->ctx, file, 0, &tensor) != EMBED_OK) return cli_fail(path, "%s", embed_error_text(s->ctx));
  int status = check_tensor(file, path, k, &tensor, &type);
  if (status) return status;
  if (*n >= 0 && tensor.shape[0] != *n) return cli_fail(path, "there are %" PRId64 " %s for %" PRId64 " hidden states", tensor.shape[0], k.many, *n);
  *n = tensor.shape[0];
  *ids = cli_array(s, *n, 1, sizeof **ids);
  return *ids ? read_integers(s, path, k, tensor.offset, type, *n, *ids) : CLI_FAILED;
}

static int read_ids(const cli_session *s, const char *path, kind k, int64_t *n, int32_t **ids) {
  embed_file *file = NULL;
  *ids = NULL;
  if (embed_file_open(s->ctx, path, NULL, &file) != EMBED_OK) return cli_fail(path, "%s", embed_error_text(s->ctx));
  int status = read_file(s, path, k, file, n, ids);
  embed_file_release(file);
  return status;
}

int cli_targets_read(const cli_session *s, const char *path, int64_t n, int32_t **targets) {
  return read_ids(s, path, (kind){"target", "targets"}, &n, targets);
}

int cli_history_read(const cli_session *s, const char *path, int64_t *n, int32_t **ids) {
  *n = -1;
  return read_ids(s, path, (kind){"id", "ids of a history"}, n, ids);
}
