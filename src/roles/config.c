/* SPDX-License-Identifier: BSD-3-Clause */
/* config.json of transformers: config.def by the family that it names. Its text_config, where it has one, is the language model's own
 * and comes before what stands outside. Keys that are absent, null or of another kind say nothing. */
#include "roles/config.h"

#include <embed/lookup.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/floats.h"
#include "io/json.h"
#include "roles/notes.h"
#include "roles/roles.h"

enum { LONGEST = 1 << 20 /* bytes of a config: real ones have a few thousand */ };
enum { NONE, SQRT_DIM, MULTIPLIER, SCALE_EMB, TIMES, OVER, DIM_BASE, TIED_SQRT };
enum { BY_KEY, RMS, PLUS_ONE, LAYER_PLUS_ONE };

static const struct model {
  const char *type, *prefix;
  int lookup, logits, norm;
} models[] = {
#define MODEL(type, prefix, lookup, logits, norm) {type, prefix, lookup, logits, norm},
#include "roles/config.def"
#undef MODEL
};

enum {
  HIDDEN,
  EMBEDDING,
  VOCAB,
  RMS_EPSILON,
  LAYER_EPSILON,
  OTHER_EPSILON,
  SOFTCAP,
  LOGIT_SCALE,
  LOGITS_SCALING,
  EMBEDDING_MULTIPLIER,
  EMB_SCALE,
  BASE,
  NUMBERS
};

static const struct {
  const char *key;
  int number;
} keys[] = {
    {"hidden_size", HIDDEN},
    {"d_model", HIDDEN},
    {"n_embd", HIDDEN},
    {"embedding_size", EMBEDDING},      /* ALBERT, ELECTRA: a projection stands behind the rows */
    {"word_embed_proj_dim", EMBEDDING}, /* OPT 350M */
    {"vocab_size", VOCAB},
    {"rms_norm_eps", RMS_EPSILON},
    {"layer_norm_eps", LAYER_EPSILON},
    {"layer_norm_epsilon", LAYER_EPSILON},
    {"norm_epsilon", LAYER_EPSILON},
    {"norm_eps", OTHER_EPSILON}, /* layer norms and RMS norms: it takes a family of config.def */
    {"final_logit_softcapping", SOFTCAP},
    {"logit_scale", LOGIT_SCALE},
    {"logits_scaling", LOGITS_SCALING},
    {"embedding_multiplier", EMBEDDING_MULTIPLIER},
    {"scale_emb", EMB_SCALE},
    {"dim_model_base", BASE},
};

typedef struct config {
  const char *model_type, *architecture; /* in the text; NULL = not said */
  double number[NUMBERS];                /* NaN = not said */
  int tie;                               /* 0, 1, -1 = not said */
} config;

/* --- Reading */

/* What is left of the value whose first token was read with the containers above it `depth` deep. */
static embed_status drain(embed__json *j, int depth) {
  while (j->depth > depth) EMBED__TRY(embed__json_next(j));
  return EMBED_OK;
}

static double number_of(const embed__json *j) {
  const unsigned char *first = (const unsigned char *)j->string, *end = first + j->string_bytes;
  float value;
  if (j->kind == EMBED__JSON_INTEGER) return (double)j->integer;
  return j->kind == EMBED__JSON_REAL && embed__read_float(first, end, &value) == end ? (double)value : (double)NAN;
}

/* The text of a string; NULL = it is none, or it has a NUL in it. */
static const char *string_of(const embed__json *j) { return j->kind == EMBED__JSON_STRING && (int64_t)strlen(j->string) == j->string_bytes ? j->string : NULL; }

static int number_named(const embed__json *j) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
    if (embed__json_is(j, keys[i].key)) return keys[i].number;
  return -1;
}

static embed_status read_object(embed__json *j, config *c, config *text);

static embed_status read_value(embed__json *j, config *c, config *text) {
  const int depth = j->depth, number = number_named(j);
  const bool type = embed__json_is(j, "model_type"), list = embed__json_is(j, "architectures"), tie = embed__json_is(j, "tie_word_embeddings");
  const bool inner = text && embed__json_is(j, "text_config");
  EMBED__TRY(embed__json_next(j));
  if (inner && j->kind == EMBED__JSON_OBJECT) return read_object(j, text, NULL);
  if (type) c->model_type = string_of(j);
  if (tie) c->tie = j->kind == EMBED__JSON_TRUE ? 1 : j->kind == EMBED__JSON_FALSE ? 0 : -1;
  if (list && j->kind == EMBED__JSON_ARRAY) {
    EMBED__TRY(embed__json_next(j));
    c->architecture = string_of(j);
  }
  if (number >= 0 && !isnan(number_of(j))) c->number[number] = number_of(j);
  return drain(j, depth);
}

static embed_status read_object(embed__json *j, config *c, config *text) {
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    EMBED__TRY(read_value(j, c, text));
  }
}

static void say_nothing(config *c) {
  *c = (config){.tie = -1};
  for (int i = 0; i < NUMBERS; ++i) c->number[i] = (double)NAN;
}

static embed_status parse(embed_context *ctx, char *bytes, int64_t count, config *c) {
  embed__json j;
  config text;
  say_nothing(c);
  say_nothing(&text);
  embed__json_begin(&j, ctx, "config.json", bytes, count, 0);
  embed_status status = embed__json_expect(&j, EMBED__JSON_OBJECT, "an object");
  if (status == EMBED_OK) status = read_object(&j, c, &text);
  if (status == EMBED_OK) status = embed__json_expect(&j, EMBED__JSON_END, "blanks behind the object");
  embed__json_end(&j);
  if (text.model_type) c->model_type = text.model_type;
  if (text.architecture) c->architecture = text.architecture;
  if (text.tie >= 0) c->tie = text.tie;
  for (int i = 0; i < NUMBERS; ++i)
    if (!isnan(text.number[i])) c->number[i] = text.number[i];
  return status;
}

/* --- What it says against what the file holds */

static embed_status note_conflict(embed_context *ctx, embed_file *f, const char *what, const char *value, const char *then) {
  embed__line line;
  embed__line_start(&line, "config.json says ");
  embed__text_add(&line.text, what);
  embed__text_add(&line.text, value);
  embed__text_add(&line.text, then);
  return embed__file_note_line(ctx, f, line.bytes);
}

/* "config.json says vocab_size 100, "wte.weight" has 128 rows: the rows count" */
static embed_status note_extent(embed_context *ctx, embed_file *f, const char *key, double says, int64_t has, const char *then) {
  embed__line line;
  embed__line_start(&line, "config.json says ");
  embed__text_add(&line.text, key);
  embed__text_real(&line.text, says);
  embed__text_add(&line.text, ", ");
  embed__line_name(&line, f->tensors[f->roles[EMBED_ROLE_TOKEN]].name);
  embed__text_add(&line.text, " has ");
  embed__text_number(&line.text, has);
  embed__text_add(&line.text, then);
  return embed__file_note_line(ctx, f, line.bytes);
}

static embed_status compare_tie(embed_context *ctx, embed_file *f, const config *c) {
  const bool tied = f->roles[EMBED_ROLE_HEAD] == f->roles[EMBED_ROLE_TOKEN];
  if (c->tie < 0 || tied == (c->tie == 1)) return EMBED_OK;
  const char *then = !tied              ? ", the file holds a head that is not the table: untied"
                     : f->own_head >= 0 ? ", the file's head equals its table: tied"
                                        : ", the file holds one table for both ends: tied";
  return note_conflict(ctx, f, "tie_word_embeddings ", c->tie ? "true" : "false", then);
}

/* --- Conventions */

static bool is_class(const char *name, const char *prefix) {
  size_t bytes = strlen(prefix);
  return !strncmp(name, prefix, bytes) && (!strncmp(name + bytes, "For", 3) || !strncmp(name + bytes, "Model", 5));
}

static const struct model *find_model(const config *c) {
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i)
    if (c->model_type ? !strcmp(c->model_type, models[i].type) : c->architecture && is_class(c->architecture, models[i].prefix)) return &models[i];
  return NULL;
}

/* A number above 0 that a float holds; 0 = none. */
static float positive(const config *c, int number) {
  double value = c->number[number];
  return value >= (double)FLT_MIN && value <= (double)FLT_MAX ? (float)value : 0.0f;
}

static float or_one(float scale) { return scale > 0 ? scale : 1.0f; }

static float lookup_scale(const config *c, int how, int64_t dim) {
  if (how == SQRT_DIM) return sqrtf((float)dim);
  return or_one(how == MULTIPLIER ? positive(c, EMBEDDING_MULTIPLIER) : how == SCALE_EMB ? positive(c, EMB_SCALE) : 0.0f);
}

static float logit_scale(const config *c, int how, int64_t dim, bool tied) {
  switch (how) {
    case TIMES: return or_one(positive(c, LOGIT_SCALE));
    case OVER: return 1.0f / or_one(positive(c, LOGITS_SCALING));
    case DIM_BASE: return or_one(positive(c, BASE) / (float)dim);
    case TIED_SQRT: return tied && c->tie != 0 ? 1.0f / sqrtf((float)dim) : 1.0f;
    default: return 1.0f;
  }
}

static void learn_norm(const config *c, int norm, embed_conventions *out) {
  const float rms = positive(c, RMS_EPSILON), layer = positive(c, LAYER_EPSILON), other = positive(c, OTHER_EPSILON);
  if (norm == PLUS_ONE) out->norm_flags = EMBED_NORM_PLUS_ONE;
  if (norm == LAYER_PLUS_ONE) out->norm_flags = EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE;
  out->norm_epsilon = rms > 0 ? rms : layer > 0 ? layer : norm == BY_KEY ? 0.0f : other;
  if (norm == BY_KEY && rms == 0 && layer > 0) out->norm_flags = EMBED_NORM_LAYER;
}

static embed_status learn_conventions(embed_context *ctx, embed_file *f, const config *c, int64_t dim) {
  const embed__tensor *table = &f->tensors[f->roles[EMBED_ROLE_TOKEN]];
  const struct model *of = find_model(c);
  embed_conventions *out = &f->conventions;
  embed__line line;
  if (embed__own_conventions(f, out) || embed__file_metadata_find(f, "general.architecture")) { /* converted: the file says it itself */
    out->size = 0;
    return EMBED_OK;
  }
  *out = (embed_conventions){.size = sizeof *out, .lookup_scale = 1.0f, .scale_round = EMBED_F32, .logit_scale = 1.0f};
  out->logit_softcap = positive(c, SOFTCAP);
  learn_norm(c, of ? of->norm : BY_KEY, out);
  if (of) {
    out->lookup_scale = lookup_scale(c, of->lookup, dim);
    out->logit_scale = logit_scale(c, of->logits, dim, f->roles[EMBED_ROLE_HEAD] == f->roles[EMBED_ROLE_TOKEN]);
    if (of->lookup == SQRT_DIM && embed__is_float(table->dtype)) out->scale_round = table->dtype;
  }
  if (out->lookup_scale == 1 && out->logit_scale == 1 && out->logit_softcap == 0 && out->norm_epsilon == 0 && out->norm_flags == 0) {
    out->size = 0; /* nothing was learnt */
    return EMBED_OK;
  }
  embed__line_start(&line, "scales, soft-cap and norm are those of config.json");
  if (c->model_type || c->architecture) embed__text_add(&line.text, ": ");
  if (c->model_type || c->architecture) embed__line_name(&line, c->model_type ? c->model_type : c->architecture);
  return embed__file_note_line(ctx, f, line.bytes);
}

static embed_status apply(embed_context *ctx, embed_file *f, const config *c) {
  const int64_t table = f->roles[EMBED_ROLE_TOKEN];
  int64_t rows, dim;
  if (table < 0 || !embed__tensor_extents(&f->tensors[table], &rows, &dim) || dim < 1) return EMBED_OK;
  const double hidden = c->number[HIDDEN], narrow = c->number[EMBEDDING], vocab = c->number[VOCAB];
  if (!isnan(hidden) && hidden != (double)dim && narrow != (double)dim)
    return note_extent(ctx, f, "a hidden size of ", hidden, dim, " columns: it is another model's and not used");
  EMBED__TRY(compare_tie(ctx, f, c));
  if (!isnan(vocab) && vocab != (double)rows) EMBED__TRY(note_extent(ctx, f, "vocab_size ", vocab, rows, " rows: the rows count"));
  return learn_conventions(ctx, f, c, dim);
}

/* --- The file */

static embed_status read_map(embed_context *ctx, embed_file *f, const embed__map *map) {
  config c;
  if (map->bytes > LONGEST) return embed__fail(ctx, EMBED_E_FORMAT, LONGEST, "config.json: it has more than %d bytes", LONGEST);
  char *text = embed__allocate(&ctx->memory, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  if (!text) return embed__out_of_memory(ctx, map->bytes + 1);
  memcpy(text, map->data, (size_t)map->bytes);
  text[map->bytes] = '\0';
  embed_status status = parse(ctx, text, map->bytes, &c);
  if (status == EMBED_OK) status = apply(ctx, f, &c);
  embed__free(&ctx->memory, text, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  return status;
}

/* The failure becomes a note, and the context forgets it. */
static embed_status note_failure(embed_context *ctx, embed_file *f) {
  embed__line line;
  embed__line_start(&line, ctx->error_text);
  embed__text_add(&line.text, ": it is not used");
  for (char *at = line.bytes; *at; ++at)
    if ((unsigned char)*at < 32 || *at == 127) *at = '?';
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  return embed__file_note_line(ctx, f, line.bytes);
}

embed_status embed__config_read(embed_context *ctx, embed_file *f, const char *path, uint32_t flags) {
  static const char name[] = "config.json";
  const char *slash = strrchr(path, '/');
  const size_t folder = slash ? (size_t)(slash - path) + 1 : 0, bytes = folder + sizeof name;
  embed__map map = {.data = NULL};
  char *whole = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!whole) return embed__out_of_memory(ctx, (int64_t)bytes);
  memcpy(whole, path, folder);
  memcpy(whole + folder, name, sizeof name);
  embed_status status = EMBED_OK;
  if (embed__map_is_there(whole)) {
    status = embed__map_open(ctx, whole, name, flags & EMBED_FILE_COPY, &map);
    if (status == EMBED_OK) status = read_map(ctx, f, &map);
    if (status != EMBED_OK && status != EMBED_E_MEMORY) status = note_failure(ctx, f);
  }
  embed__map_close(&ctx->memory, &map);
  embed__free(&ctx->memory, whole, bytes, EMBED__ALIGNMENT);
  return status;
}
