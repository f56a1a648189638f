/* SPDX-License-Identifier: BSD-3-Clause */
/* story [options] CHECKPOINT TOKENIZER: a small language model tells a story. The two files are those of karpathy's llama2.c
 * (stories260K.bin, tok512.bin). Both ends of the model are libembed's: embed_lookup turns the last token into a vector, embed_sample
 * turns the hidden state into the next token. What lies between is all here, a transformer of the Llama family in plain C.
 *
 *   -t TEMPERATURE  0 if left out: always the most probable token
 *   -p TOP_P        draws from the fewest tokens whose probabilities reach it
 *   -s SEED         another seed, another story; the same one, the same story
 *   -i              ids instead of text */
#include <embed/embed.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOS = 1, STEPS = 256 }; /* BOS begins a text and ends it */

/* The model's arrays: those of the checkpoint in its order, each for all layers; then what is kept and worked on. */
enum { TOKENS, ATTENTION_NORM, QUERY, KEY, VALUE, OUTPUT, FFN_NORM, GATE, DOWN, UP, FINAL_NORM, WEIGHTS };
enum { KEYS = WEIGHTS, VALUES /* of earlier positions: [layers, context, kv_dim] */, SCORES, NORMED, QUERIES, ATTENDED, GATED, WIDE, ARRAYS };

typedef struct model {
  struct {
    int32_t dim, ffn_dim, layers, heads, kv_heads, vocab, context;
  } shape;                                /* as the checkpoint begins */
  int64_t dim, ffn_dim, head_dim, kv_dim; /* head_dim: columns of one head; kv_dim: of a position's keys */
  float *at[ARRAYS];
} model;

/* out [rows] = w [rows, columns] x [columns] */
static void multiply(float *out, const float *w, const float *x, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    out[i] = 0;
    for (int64_t j = 0; j < columns; ++j) out[i] += w[i * columns + j] * x[j];
  }
}

/* x += w y */
static void add_product(float *x, const float *w, const float *y, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) x[i] += w[i * columns + j] * y[j];
}

static embed_status norm(embed_context *ctx, float *out, const float *x, const float *weight, int64_t dim) {
  const embed_norm_options options = {.size = sizeof options, .epsilon = 1e-5f};
  memcpy(out, x, (size_t)dim * sizeof *x);
  return embed_norm_rows(ctx, out, EMBED_F32, 1, dim, 0, weight, NULL, &options);
}

/* Rotary positions: each pair of columns turns by an angle that grows with the position, slower from pair to pair of a head. */
static void rotate(float *x, int64_t columns, int64_t head_dim, int64_t position) {
  for (int64_t j = 0; j < columns; j += 2) {
    const double angle = (double)position / pow(10000, (double)(j % head_dim) / (double)head_dim);
    const float c = (float)cos(angle), s = (float)sin(angle), a = x[j], b = x[j + 1];
    x[j] = a * c - b * s;
    x[j + 1] = a * s + b * c;
  }
}

/* One head: the mean of the values so far, weighted by the softmax of key times query. */
static void attend(const model *m, float *out, const float *query, const float *keys, const float *values, int64_t position) {
  float *scores = m->at[SCORES], largest = -INFINITY, sum = 0;
  for (int64_t t = 0; t <= position; ++t) {
    multiply(&scores[t], keys + t * m->kv_dim, query, 1, m->head_dim);
    scores[t] /= sqrtf((float)m->head_dim);
    largest = fmaxf(largest, scores[t]);
  }
  for (int64_t t = 0; t <= position; ++t) sum += scores[t] = expf(scores[t] - largest);
  for (int64_t j = 0; j < m->head_dim; ++j) {
    out[j] = 0;
    for (int64_t t = 0; t <= position; ++t) out[j] += scores[t] / sum * values[t * m->kv_dim + j];
  }
}

/* x += attention(norm(x)) */
static embed_status attention(embed_context *ctx, const model *m, float *x, int64_t layer, int64_t position) {
  const int64_t dim = m->dim, kv_dim = m->kv_dim, head_dim = m->head_dim, seen = layer * m->shape.context * kv_dim;
  float *keys = m->at[KEYS] + seen, *values = m->at[VALUES] + seen, *key = keys + position * kv_dim, *value = values + position * kv_dim;
  const embed_status status = norm(ctx, m->at[NORMED], x, m->at[ATTENTION_NORM] + layer * dim, dim);
  multiply(m->at[QUERIES], m->at[QUERY] + layer * dim * dim, m->at[NORMED], dim, dim);
  multiply(key, m->at[KEY] + layer * kv_dim * dim, m->at[NORMED], kv_dim, dim);
  multiply(value, m->at[VALUE] + layer * kv_dim * dim, m->at[NORMED], kv_dim, dim);
  rotate(m->at[QUERIES], dim, head_dim, position);
  rotate(key, kv_dim, head_dim, position);
  for (int64_t h = 0; h < m->shape.heads; ++h) {
    const int64_t shared = h * m->shape.kv_heads / m->shape.heads * head_dim; /* several heads read the same keys and values */
    attend(m, m->at[ATTENDED] + h * head_dim, m->at[QUERIES] + h * head_dim, keys + shared, values + shared, position);
  }
  add_product(x, m->at[OUTPUT] + layer * dim * dim, m->at[ATTENDED], dim, dim);
  return status;
}

/* x += down (silu(gate norm(x)) * up norm(x)) */
static embed_status feed_forward(embed_context *ctx, const model *m, float *x, int64_t layer) {
  const int64_t dim = m->dim, ffn_dim = m->ffn_dim, matrix = layer * dim * ffn_dim;
  float *gated = m->at[GATED], *wide = m->at[WIDE];
  const embed_status status = norm(ctx, m->at[NORMED], x, m->at[FFN_NORM] + layer * dim, dim);
  multiply(gated, m->at[GATE] + matrix, m->at[NORMED], ffn_dim, dim);
  multiply(wide, m->at[UP] + matrix, m->at[NORMED], ffn_dim, dim);
  for (int64_t j = 0; j < ffn_dim; ++j) wide[j] *= gated[j] / (1 + expf(-gated[j]));
  add_product(x, m->at[DOWN] + matrix, wide, dim, ffn_dim);
  return status;
}

/* From the vector x of the token at this position to the hidden state that the head reads. */
static embed_status network(embed_context *ctx, const model *m, float *x, int64_t position, float *hidden) {
  embed_status status = EMBED_OK;
  for (int64_t layer = 0; layer < m->shape.layers && !status; ++layer) {
    status = attention(ctx, m, x, layer, position);
    if (!status) status = feed_forward(ctx, m, x, layer);
  }
  return status ? status : norm(ctx, hidden, x, m->at[FINAL_NORM], m->dim);
}

static int load(model *m, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  int whole = fread(&m->shape, sizeof m->shape, 1, f) == 1;
  const int64_t layers = m->shape.layers, heads = m->shape.heads, vocab = m->shape.vocab, context = m->shape.context;
  whole = whole && heads > 0 && m->shape.dim > 0 && m->shape.dim % heads == 0 && context >= STEPS && vocab > 0; /* below 0: an untied head */
  const int64_t dim = m->dim = m->shape.dim, ffn_dim = m->ffn_dim = m->shape.ffn_dim;
  const int64_t head_dim = m->head_dim = whole ? dim / heads : 0, kv_dim = m->kv_dim = m->shape.kv_heads * head_dim;
  const int64_t floats[ARRAYS] = {
      [TOKENS] = vocab * dim,
      [ATTENTION_NORM] = layers * dim,
      [QUERY] = layers * dim * dim,
      [KEY] = layers * kv_dim * dim,
      [VALUE] = layers * kv_dim * dim,
      [OUTPUT] = layers * dim * dim,
      [FFN_NORM] = layers * dim,
      [GATE] = layers * dim * ffn_dim,
      [DOWN] = layers * dim * ffn_dim,
      [UP] = layers * dim * ffn_dim,
      [FINAL_NORM] = dim,
      [KEYS] = layers * context * kv_dim,
      [VALUES] = layers * context * kv_dim,
      [SCORES] = context,
      [NORMED] = dim,
      [QUERIES] = dim,
      [ATTENDED] = dim,
      [GATED] = ffn_dim,
      [WIDE] = ffn_dim,
  };
  for (int i = 0; i < ARRAYS && whole; ++i) {
    m->at[i] = calloc((size_t)floats[i], sizeof(float));
    whole = m->at[i] && (i >= WEIGHTS || fread(m->at[i], sizeof(float), (size_t)floats[i], f) == (size_t)floats[i]);
  }
  fclose(f);
  return whole;
}

/* The tokenizer: how long a token is at most; then of each token a score, its length and its bytes. Texts [vocab, *width], each ends in NUL. */
static char *load_texts(const char *path, int32_t vocab, int32_t *width) {
  FILE *f = fopen(path, "rb");
  int32_t longest = 0, bytes;
  float score;
  if (!f) return NULL;
  int whole = fread(&longest, sizeof longest, 1, f) == 1 && longest > 0 && longest < 1000;
  char *texts = whole ? calloc((size_t)vocab, (size_t)longest + 1) : NULL;
  *width = longest + 1;
  for (int32_t id = 0; id < vocab && texts && whole; ++id)
    whole = fread(&score, sizeof score, 1, f) == 1 && fread(&bytes, sizeof bytes, 1, f) == 1 && bytes >= 0 && bytes <= longest &&
            fread(texts + id * *width, 1, (size_t)bytes, f) == (size_t)bytes;
  fclose(f);
  if (whole) return texts;
  free(texts);
  return NULL;
}

static void say(const char *text, int at_start) {
  unsigned byte;
  if (sscanf(text, "<0x%2X>", &byte) == 1) {
    putchar((int)byte); /* a byte that no token has */
  } else {
    fputs(text + (at_start && *text == ' '), stdout);
  }
}

static embed_status tell(embed_context *ctx, const model *m, const embed_table *table, const embed_head *head, embed_sample_params *draw, const char *texts,
                         int width) {
  float *x = calloc((size_t)m->dim, sizeof *x), *hidden = calloc((size_t)m->dim, sizeof *hidden);
  embed_status status = x && hidden ? EMBED_OK : EMBED_E_MEMORY;
  int32_t token = BOS;
  for (int64_t position = 0; position < STEPS && !status; ++position) {
    status = embed_lookup(ctx, table, &token, 1, x, EMBED_F32, 0, NULL); /* token -> vector */
    if (!status) status = network(ctx, m, x, position, hidden);
    draw->position = position;
    if (!status) status = embed_sample(ctx, head, hidden, EMBED_F32, 1, 0, NULL, draw, 1, &token, NULL, NULL); /* state -> token */
    if (status || token == BOS) break;
    if (texts) {
      say(texts + token * width, position == 0);
    } else {
      printf("%d\n", (int)token);
    }
  }
  if (texts && !status) putchar('\n');
  free(x);
  free(hidden);
  return status;
}

int main(int argc, char **argv) {
  embed_context *ctx = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  model m = {0};
  embed_sample_params draw = {.size = sizeof draw};
  int option, ids = 0, width = 0;
  while ((option = getopt(argc, argv, "t:p:s:i")) != -1) {
    switch (option) {
      case 't': draw.temperature = atof(optarg); break;
      case 'p': draw.top_p = atof(optarg); break;
      case 's': draw.seed = strtoull(optarg, NULL, 10); break;
      case 'i': ids = 1; break;
      default: return 2;
    }
  }
  if (argc - optind != 2 || embed_context_create(NULL, &ctx)) return 2;
  const char *checkpoint = argv[optind], *tokenizer = argv[optind + 1];
  char *texts = NULL;
  int failed = 1;
  if (!load(&m, checkpoint)) {
    fprintf(stderr, "%s: no whole checkpoint of llama2.c with a tied head\n", checkpoint);
  } else if (!(texts = load_texts(tokenizer, m.shape.vocab, &width))) {
    fprintf(stderr, "%s: no tokenizer of %d tokens\n", tokenizer, (int)m.shape.vocab);
  } else {
    embed_status status = embed_table_view(ctx, m.at[TOKENS], m.shape.vocab, m.dim, NULL, NULL, NULL, &table);
    if (!status) status = embed_head_create(ctx, table, NULL, NULL, &head); /* tied: the same table */
    if (!status) status = tell(ctx, &m, table, head, &draw, ids ? NULL : texts, width);
    if (status) fprintf(stderr, "%s\n", embed_error_text(ctx));
    failed = status != EMBED_OK;
  }
  embed_head_release(head);
  embed_table_release(table);
  embed_context_release(ctx);
  for (int i = 0; i < ARRAYS; ++i) free(m.at[i]);
  free(texts);
  return failed;
}
