/* SPDX-License-Identifier: BSD-3-Clause */
/* What a family does between ids and rows, hidden states and logits: conventions.def by the architecture that a GGUF file names. */
#include <embed/lookup.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/options.h"
#include "io/text.h"
#include "roles/roles.h"

enum { NONE = 0, SQRT_DIM = -1, KEY = -2, TIMES = -3, OVER = -4, BASE_256 = -5 }; /* above 0: the scale itself */

typedef struct family {
  const char *architecture;
  double lookup, logits;
} family;

static const family families[] = {
#define FAMILY(architecture, lookup, logits) {architecture, lookup, logits},
#include "roles/conventions.def"
#undef FAMILY
};

static const family *find_family(const char *architecture) {
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i)
    if (!strcmp(families[i].architecture, architecture)) return &families[i];
  return NULL;
}

/* {architecture}.key as a float above 0; 0 = it is not there, or no such number. */
static float positive_key(const embed_file *f, const char *architecture, const char *key) {
  enum { LONGEST = 160 };
  char whole[LONGEST];
  embed__text text = embed__text_in(whole, sizeof whole);
  embed__text_add(&text, architecture);
  embed__text_add(&text, ".");
  embed__text_add(&text, key);
  const embed__metadata *m = embed__file_metadata_find(f, whole);
  return m && m->number >= (double)FLT_MIN && m->number <= (double)FLT_MAX ? (float)m->number : 0.0f;
}

static float lookup_scale(const embed_file *f, const family *of, int64_t dim) {
  if (of->lookup > 0) return (float)of->lookup;
  if (of->lookup == SQRT_DIM) return dim > 0 ? sqrtf((float)dim) : 1.0f;
  float scale = of->lookup == KEY ? positive_key(f, of->architecture, "embedding_scale") : 0.0f;
  return scale > 0 ? scale : 1.0f;
}

static float logit_scale(const embed_file *f, const family *of, int64_t dim) {
  if (of->logits == BASE_256) return dim > 0 ? 256.0f / (float)dim : 1.0f;
  float scale = of->logits == NONE ? 0.0f : positive_key(f, of->architecture, "logit_scale");
  if (scale <= 0) return 1.0f;
  return of->logits == OVER ? 1.0f / scale : scale;
}

/* GGUF's converters store RMS weights ready for use, Gemma's 1 + w included: EMBED_NORM_PLUS_ONE is never right for them. Which of
 * the two keys the file has says which norm the family uses. */
static void learn_norm(const embed_file *f, const char *architecture, embed_conventions *c) {
  c->norm_epsilon = positive_key(f, architecture, "attention.layer_norm_rms_epsilon");
  if (c->norm_epsilon > 0) return;
  c->norm_epsilon = positive_key(f, architecture, "attention.layer_norm_epsilon");
  if (c->norm_epsilon > 0) c->norm_flags = EMBED_NORM_LAYER;
}

static bool is_scale(double number) { return isfinite(number) && number != 0; }

static double number_at(const embed_file *f, const char *key) {
  const embed__metadata *m = embed__file_metadata_find(f, key);
  return m ? m->number : (double)NAN;
}

/* The keys that .embed takes in (embed_writer_metadata), as `embed convert` leaves them in the metadata of safetensors. */
bool embed__own_conventions(const embed_file *f, embed_conventions *out) {
  const double lookup = number_at(f, "embed.lookup_scale"), logits = number_at(f, "embed.logit_scale"), softcap = number_at(f, "embed.logit_softcap");
  const double epsilon = number_at(f, "embed.norm_epsilon"), flags = number_at(f, "embed.norm_flags");
  const embed__metadata *round = embed__file_metadata_find(f, "embed.scale_round");
  if (!is_scale(lookup) && !is_scale(logits)) return false;
  *out = (embed_conventions){.size = sizeof *out, .lookup_scale = 1.0f, .scale_round = EMBED_F32, .logit_scale = 1.0f};
  if (is_scale(lookup)) out->lookup_scale = (float)lookup;
  if (is_scale(logits)) out->logit_scale = (float)logits;
  if (softcap > 0 && isfinite(softcap)) out->logit_softcap = (float)softcap;
  if (epsilon > 0 && isfinite(epsilon)) out->norm_epsilon = (float)epsilon;
  for (int32_t known = 0; known <= (EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE); ++known)
    if (flags == (double)known) out->norm_flags = known & (EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE);
  for (embed_dtype t = EMBED_F32; round && t <= EMBED_BF16; ++t)
    if (!strcmp(round->value, embed__dtype_name(t))) out->scale_round = t;
  return true;
}

embed_conventions embed__file_conventions(const embed_file *f) {
  if (f->conventions.size) return f->conventions; /* an .embed file's, or its config.json's: config.c */
  embed_conventions c = {.size = sizeof c, .lookup_scale = 1.0f, .scale_round = EMBED_F32, .logit_scale = 1.0f};
  const embed__metadata *architecture = embed__file_metadata_find(f, "general.architecture");
  int64_t rows, dim = 0, table = f->roles[EMBED_ROLE_TOKEN];
  if (embed__own_conventions(f, &c) || !architecture) return c; /* or a plain table */
  const family *of = find_family(architecture->value);
  if (table >= 0 && !embed__tensor_extents(&f->tensors[table], &rows, &dim)) dim = 0;
  c.logit_softcap = positive_key(f, architecture->value, "final_logit_softcapping"); /* Gemma 2, Gemma 3n, Grok 2 */
  learn_norm(f, architecture->value, &c);
  if (!of) return c;
  c.lookup_scale = lookup_scale(f, of, dim);
  c.logit_scale = logit_scale(f, of, dim);
  return c;
}

embed_status embed_file_conventions(embed_context *ctx, const embed_file *f, embed_conventions *out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  const embed_conventions c = embed__file_conventions(f);
  return embed__output(ctx, "out", out, &c, sizeof c);
}
