/* SPDX-License-Identifier: BSD-3-Clause */
/* What a config.json beside a file says of its quantisation: MLX's "quantization" {"bits", "group_size", "MODULE": {"bits", "group_size"}},
 * transformers' "quantization_config" {"bits", "group_size", "checkpoint_format"}. roles/config.c reads the rest, and says what is
 * wrong with the file. */
#include "core/checked.h"
#include "core/memory.h"
#include "io/json.h"
#include "io/scales.h"

enum { LONGEST = 1 << 20, NAME = 400 };

typedef struct reading {
  embed_context *ctx;
  const embed_file *f;
  embed__hints *out;
} reading;

static embed_status drain(embed__json *j, int depth) {
  while (j->depth > depth) EMBED__TRY(embed__json_next(j));
  return EMBED_OK;
}

static embed_status read_width(embed__json *j, embed__width *out, bool *known) {
  int32_t *number = embed__json_is(j, "bits") ? &out->bits : embed__json_is(j, "group_size") ? &out->group : NULL;
  *known = number != NULL;
  if (!number) return EMBED_OK;
  const int depth = j->depth;
  EMBED__TRY(embed__json_next(j));
  if (j->kind == EMBED__JSON_INTEGER && j->integer > 0 && j->integer <= INT32_MAX) *number = (int32_t)j->integer;
  return drain(j, depth);
}

/* What stands behind the name of a module: numbers of its own. */
static embed_status read_own(reading *r, embed__json *j, int64_t tensor) {
  embed__width ignored = {0}, *out = &ignored;
  bool known;
  if (tensor >= 0 && !r->out->own) {
    r->out->count = r->f->tensor_count;
    r->out->own = embed__new(&r->ctx->memory, (size_t)r->out->count * sizeof *r->out->own);
    if (!r->out->own) return embed__out_of_memory(r->ctx, r->out->count * (int64_t)sizeof *r->out->own);
  }
  if (tensor >= 0) out = &r->out->own[tensor];
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    EMBED__TRY(read_width(j, out, &known));
    if (!known) EMBED__TRY(embed__json_skip(j));
  }
}

static int64_t weight_of(const embed_file *f, const char *module, int64_t bytes) {
  static const char ending[] = ".weight";
  char name[NAME];
  if (bytes + (int64_t)sizeof ending > NAME) return -1;
  memcpy(name, module, (size_t)bytes);
  memcpy(name + bytes, ending, sizeof ending);
  return embed__tokens_find(f->names, name, bytes + (int64_t)sizeof ending - 1);
}

static embed_status read_quantization(reading *r, embed__json *j) {
  bool known;
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    EMBED__TRY(read_width(j, &r->out->all, &known));
    if (known) continue;
    const int depth = j->depth;
    const bool format = embed__json_is(j, "checkpoint_format");
    const int64_t tensor = weight_of(r->f, j->string, j->string_bytes);
    EMBED__TRY(embed__json_next(j));
    if (format && j->kind == EMBED__JSON_STRING) r->out->plain_zeros = embed__json_is(j, "gptq_v2");
    if (j->kind == EMBED__JSON_OBJECT) EMBED__TRY(read_own(r, j, tensor));
    EMBED__TRY(drain(j, depth));
  }
}

static embed_status read_object(reading *r, embed__json *j) {
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "an object"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return embed__json_expect(j, EMBED__JSON_END, "blanks behind the object");
    const bool ours = embed__json_is(j, "quantization") || embed__json_is(j, "quantization_config");
    const int depth = j->depth;
    EMBED__TRY(embed__json_next(j));
    if (ours && j->kind == EMBED__JSON_OBJECT) EMBED__TRY(read_quantization(r, j));
    EMBED__TRY(drain(j, depth));
  }
}

static embed_status read_text(reading *r, const embed__map *map) {
  embed__json j;
  if (map->bytes > LONGEST) return EMBED_E_FORMAT;
  char *text = embed__allocate(&r->ctx->memory, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  if (!text) return embed__out_of_memory(r->ctx, map->bytes + 1);
  memcpy(text, map->data, (size_t)map->bytes);
  text[map->bytes] = '\0';
  embed__json_begin(&j, r->ctx, "config.json", text, map->bytes, 0);
  const embed_status status = read_object(r, &j);
  embed__json_end(&j);
  embed__free(&r->ctx->memory, text, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  return status;
}

/* Half of what it says would be worse than nothing. */
static embed_status forget(embed_context *ctx, embed__hints *out) {
  embed__hints_free(ctx, out);
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  return EMBED_OK;
}

embed_status embed__hints_read(embed_context *ctx, const embed_file *f, embed__hints *out) {
  static const char name[] = "config.json";
  const char *slash = strrchr(f->path, '/');
  const size_t folder = slash ? (size_t)(slash - f->path) + 1 : 0, bytes = folder + sizeof name;
  embed__map map = {.data = NULL};
  *out = (embed__hints){.own = NULL};
  char *path = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!path) return embed__out_of_memory(ctx, (int64_t)bytes);
  memcpy(path, f->path, folder);
  memcpy(path + folder, name, sizeof name);
  embed_status status = EMBED_OK;
  if (embed__map_is_there(path)) {
    const bool copied = f->shards ? f->shards[0].copied : f->map.copied; /* as what it lies beside */
    status = embed__map_open(ctx, path, name, copied ? EMBED_FILE_COPY : 0, &map);
    if (status == EMBED_OK) status = read_text(&(reading){.ctx = ctx, .f = f, .out = out}, &map);
    if (status != EMBED_OK && status != EMBED_E_MEMORY) status = forget(ctx, out);
  }
  embed__map_close(&ctx->memory, &map);
  embed__free(&ctx->memory, path, bytes, EMBED__ALIGNMENT);
  return status;
}

void embed__hints_free(embed_context *ctx, embed__hints *hints) {
  embed__free(&ctx->memory, hints->own, (size_t)hints->count * sizeof *hints->own, EMBED__ALIGNMENT);
  *hints = (embed__hints){.own = NULL};
}
