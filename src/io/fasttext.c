/* SPDX-License-Identifier: BSD-3-Clause */
/* fastText's models, .bin and .ftz (fasttext.cc, args.cc, dictionary.cc, densematrix.cc, quantmatrix.cc, productquantizer.cc):
 *
 *   magic, version; 12 numbers and a double of arguments; the dictionary: counts, words, labels, in a pruned model pairs of a bucket
 *   and its row; the input matrix, a row per word and behind them one per bucket of n-grams; the output matrix, a row per label or
 *   per word. Matrices are floats, or product-quantised. The oldest files have neither magic nor what quantising needs.
 *
 * Floats are a table in place, and so are quantised rows: EMBED_PQ. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "io/byte_order.h"
#include "io/cursor.h"
#include "io/decoded.h"
#include "io/format.h"
#include "io/text.h"
#include "io/word2vec_header.h"

enum { MAGIC = 793712314, OLDEST = 11, NEWEST = 12 };
enum { DIM, WS, EPOCH, MIN_COUNT, NEG, WORD_NGRAMS, LOSS, MODEL, BUCKET, MINN, MAXN, UPDATE_RATE, ARGS };
enum { HIERARCHICAL = 1, LAST_LOSS = 4, SUPERVISED = 3 };
enum { HEAD_BYTES = 8, ARGS_BYTES = 4 * ARGS + 8, COUNTS = 20, LEAST_ENTRY = 10 /* NUL, count, kind */, PAIR = 8, CENTROIDS = 256 };
enum { INPUT, OUTPUT, PRUNED };

typedef struct reader {
  embed__cursor in;
  embed_file *f;
  int32_t args[ARGS];
  int32_t version; /* 0 = the format without one */
  int32_t size, words, labels;
  int64_t word_tokens; /* of the training text */
  int64_t pruned;      /* rows of n-grams that were kept, -1 = all */
  bool quantised;
} reader;

#define MALFORMED(r, at, ...) embed__fail((r)->in.ctx, EMBED_E_FORMAT, (at), __VA_ARGS__)

static int32_t i32_at(const unsigned char *p) { return (int32_t)embed__le32(p); }

/* Arguments that fastText can have written. */
static bool are_arguments(const unsigned char *p) {
  const int32_t loss = i32_at(p + 4 * LOSS), model = i32_at(p + 4 * MODEL);
  return i32_at(p + 4 * DIM) >= 1 && loss >= HIERARCHICAL && loss <= LAST_LOSS && model >= 1 && model <= SUPERVISED && i32_at(p + 4 * BUCKET) >= 0;
}

/* Of the files that have no magic. */
static bool is_oldest(const unsigned char *data, int64_t bytes) {
  if (bytes < ARGS_BYTES + COUNTS || !are_arguments(data)) return false;
  const unsigned char *counts = data + ARGS_BYTES;
  const int32_t size = i32_at(counts), words = i32_at(counts + 4), labels = i32_at(counts + 8);
  return size > 0 && words >= 0 && labels >= 0 && words <= size && size - words == labels && (bytes - ARGS_BYTES - COUNTS) / LEAST_ENTRY >= size;
}

bool embed__fasttext_probe(const unsigned char *data, int64_t bytes) { return (bytes >= HEAD_BYTES && embed__le32(data) == MAGIC) || is_oldest(data, bytes); }

/* --- Arguments */

static embed_status add_number(reader *r, const char *key, double number) {
  enum { DIGITS = 32 };
  char text[DIGITS];
  embed__text t = embed__text_in(text, sizeof text);
  embed__text_real(&t, number);
  return embed__file_add_metadata(r->in.ctx, r->f, key, (int64_t)strlen(key), text, (int64_t)strlen(text), number);
}

static embed_status add_word(reader *r, const char *key, const char *value) {
  return embed__file_add_metadata(r->in.ctx, r->f, key, (int64_t)strlen(key), value, (int64_t)strlen(value), (double)NAN);
}

static embed_status add_arguments(reader *r) {
  static const char *const keys[ARGS] = {"fasttext.dim",  "fasttext.ws",    "fasttext.epoch",  "fasttext.minCount", "fasttext.neg",  "fasttext.wordNgrams",
                                         "fasttext.loss", "fasttext.model", "fasttext.bucket", "fasttext.minn",     "fasttext.maxn", "fasttext.lrUpdateRate"};
  static const char *const losses[] = {"hs", "ns", "softmax", "ova"}, *const models[] = {"cbow", "skipgram", "supervised"};
  if (r->version) EMBED__TRY(add_number(r, "fasttext.version", r->version));
  for (int i = 0; i < ARGS; ++i) {
    if (i == LOSS)
      EMBED__TRY(add_word(r, keys[i], losses[r->args[i] - 1]));
    else if (i == MODEL)
      EMBED__TRY(add_word(r, keys[i], models[r->args[i] - 1]));
    else
      EMBED__TRY(add_number(r, keys[i], r->args[i]));
  }
  return EMBED_OK;
}

static embed_status read_head(reader *r) {
  static const char what[] = "fastText's arguments";
  embed__cursor *in = &r->in;
  const bool oldest = in->end < 4 || embed__le32(in->data) != MAGIC;
  if (oldest && !is_oldest(in->data, in->end))
    return MALFORMED(r, 0, "%s: it does not begin with fastText's magic number, nor as its files did before they had one", in->label);
  if (!oldest) {
    in->at = 4;
    EMBED__TRY(embed__take_i32(in, "fastText's version", &r->version));
    if (r->version < OLDEST || r->version > NEWEST)
      return embed__fail(in->ctx, EMBED_E_UNSUPPORTED, 4, "%s: fastText version %d; %d and %d are read", in->label, r->version, OLDEST, NEWEST);
  }
  EMBED__TRY(embed__need(in, ARGS_BYTES, what));
  if (!are_arguments(in->data + in->at))
    return MALFORMED(r, in->at, "%s: the arguments at byte %" PRId64 " have a dim, loss, model or bucket that fastText does not know", in->label, in->at);
  for (int i = 0; i < ARGS; ++i) EMBED__TRY(embed__take_i32(in, what, &r->args[i]));
  in->at += 8;                                                                 /* the sampling threshold */
  if (r->version == OLDEST && r->args[MODEL] == SUPERVISED) r->args[MAXN] = 0; /* it had n-grams of characters in its arguments alone */
  return add_arguments(r);
}

/* --- The dictionary */

typedef struct entry {
  const unsigned char *name;
  int64_t bytes, count;
} entry;

/* Proved by the first pass. */
static entry next_entry(embed__cursor *in) {
  entry e = {.name = in->data + in->at};
  const unsigned char *nul = memchr(e.name, 0, (size_t)(in->end - in->at));
  e.bytes = nul - e.name;
  e.count = (int64_t)embed__le64(nul + 1);
  in->at += e.bytes + LEAST_ENTRY;
  return e;
}

static embed_status prove_entry(reader *r, int32_t i, int64_t *bytes) {
  embed__cursor *in = &r->in;
  const int64_t at = in->at;
  const unsigned char *name = in->data + at, *nul = at < in->end ? memchr(name, 0, (size_t)(in->end - at)) : NULL;
  if (!nul || in->end - (nul - in->data) < LEAST_ENTRY)
    return MALFORMED(r, in->end, "%s: the file ends at byte %" PRId64 " in entry %d of the dictionary: it was cut short", in->label, in->end, i);
  const int kind = nul[LEAST_ENTRY - 1], wanted = i >= r->words;
  in->at += nul - name + LEAST_ENTRY;
  if (kind != wanted)
    return MALFORMED(r, in->at - 1, "%s: entry %d of the dictionary is of kind %d (byte %" PRId64 "), %d words of kind 0 and %d labels of kind 1 are there",
                     in->label, i, kind, in->at - 1, r->words, r->labels);
  const int64_t count = (int64_t)embed__le64(nul + 1);
  if (count < 0)
    return MALFORMED(r, in->at - 9, "%s: entry %d of the dictionary has a count of %" PRId64 " (byte %" PRId64 ")", in->label, i, count, in->at - 9);
  if (!wanted) *bytes += nul - name;
  return EMBED_OK;
}

static embed_status add_label(reader *r, int32_t i, const entry *e) {
  enum { KEY = 48 };
  char key[KEY];
  embed__text t = embed__text_in(key, sizeof key);
  embed__text_add(&t, "fasttext.label.");
  embed__text_number(&t, i);
  return embed__file_add_metadata(r->in.ctx, r->f, key, (int64_t)strlen(key), e->name, e->bytes, (double)NAN);
}

/* What fastText makes its tree of, and draws negative samples by, are the counts of labels in a classifier, else of words. */
static void take_counts(const reader *r, const int64_t *counts) {
  r->f->token_counts = (embed__counts){counts, r->words};
  r->f->head_counts = r->args[MODEL] == SUPERVISED ? (embed__counts){counts + r->words, r->labels} : r->f->token_counts;
}

static embed_status read_entries(reader *r) {
  embed__cursor *in = &r->in;
  const int64_t first = in->at;
  int64_t bytes = 0, *counts;
  unsigned char *room;
  EMBED__TRY(embed__check_room(in, r->size, LEAST_ENTRY, "entries of the dictionary"));
  for (int32_t i = 0; i < r->size; ++i) EMBED__TRY(prove_entry(r, i, &bytes));
  EMBED__TRY(embed__tokens_new(in->ctx, r->words, bytes, &r->f->tokens));
  EMBED__TRY(embed__file_room(in->ctx, r->f, (int64_t)sizeof *counts * r->size, &room));
  counts = (int64_t *)(void *)room;
  in->at = first;
  for (int32_t i = 0; i < r->words; ++i) {
    const entry e = next_entry(in);
    embed__tokens_append(r->f->tokens, e.name, e.bytes);
    counts[i] = e.count;
  }
  embed__tokens_index(r->f->tokens);
  for (int32_t i = 0; i < r->labels; ++i) {
    const entry e = next_entry(in);
    counts[r->words + i] = e.count;
    EMBED__TRY(add_label(r, i, &e));
  }
  take_counts(r, counts);
  return EMBED_OK;
}

/* Which row, counted from the words on, a kept bucket has. */
static embed_status read_pruned(reader *r) {
  embed__cursor *in = &r->in;
  if (r->pruned < 0) return EMBED_OK;
  EMBED__TRY(embed__check_room(in, r->pruned, PAIR, "pairs of pruned n-grams"));
  r->f->tensors[PRUNED] = (embed__tensor){
      .name = "pruned", .stored = "i32", .shape = {r->pruned, 2}, .rank = 2, .offset = in->at, .bytes = PAIR * r->pruned, .dtype = EMBED_DTYPE_NONE};
  r->f->tensor_count = PRUNED + 1;
  for (int64_t i = 0; i < r->pruned; ++i, in->at += PAIR) {
    const int32_t bucket = i32_at(in->data + in->at), row = i32_at(in->data + in->at + 4);
    if (bucket < 0 || bucket >= r->args[BUCKET])
      return MALFORMED(r, in->at, "%s: pruned n-gram %" PRId64 " (byte %" PRId64 ") is of bucket %d, there are %d", in->label, i, in->at, bucket,
                       r->args[BUCKET]);
    if (row < 0 || row >= r->pruned)
      return MALFORMED(r, in->at + 4, "%s: pruned n-gram %" PRId64 " (byte %" PRId64 ") has row %d, there are %" PRId64, in->label, i, in->at + 4, row,
                       r->pruned);
  }
  return EMBED_OK;
}

static bool are_counts(const unsigned char *p) {
  const int64_t size = i32_at(p), words = i32_at(p + 4), labels = i32_at(p + 8);
  return words >= 0 && labels >= 0 && words + labels == size;
}

/* floret has the same magic, and two more arguments, its mode and how many hashes it takes, in front of the last ones. */
static bool is_floret(const reader *r, int64_t counts) {
  enum { MORE = 8, BEHIND = 12, MODES = 2, HASHES = 4 };
  const unsigned char *p = r->in.data + counts;
  if (r->in.end - counts < MORE + COUNTS || are_counts(p) || !are_counts(p + MORE)) return false;
  const int32_t mode = i32_at(p - BEHIND), hashes = i32_at(p - BEHIND + 4);
  return mode >= 1 && mode <= MODES && hashes >= 1 && hashes <= HASHES;
}

static embed_status read_dictionary(reader *r) {
  static const char what[] = "the counts of the dictionary";
  embed__cursor *in = &r->in;
  const int64_t at = in->at;
  EMBED__TRY(embed__take_i32(in, what, &r->size));
  EMBED__TRY(embed__take_i32(in, what, &r->words));
  EMBED__TRY(embed__take_i32(in, what, &r->labels));
  EMBED__TRY(embed__take_i64(in, what, &r->word_tokens));
  if (is_floret(r, at))
    return embed__fail(in->ctx, EMBED_E_UNSUPPORTED, at - 12,
                       "%s: it is a model of floret, whose arguments are more than fastText's (byte %" PRId64 "): its save_vectors writes text that is read",
                       in->label, at - 12);
  r->pruned = -1;
  if (r->version) EMBED__TRY(embed__take_i64(in, what, &r->pruned));
  if (!are_counts(in->data + at) || r->pruned < -1)
    return MALFORMED(r, at, "%s: the dictionary at byte %" PRId64 " has %d entries, %d words, %d labels and %" PRId64 " pruned n-grams", in->label, at, r->size,
                     r->words, r->labels, r->pruned);
  EMBED__TRY(read_entries(r));
  return read_pruned(r);
}

/* --- The matrices */

static embed_status read_extents(reader *r, const char *name, int64_t rows, int64_t *at) {
  int64_t m, n;
  *at = r->in.at;
  EMBED__TRY(embed__take_i64(&r->in, "the extents of a matrix", &m));
  EMBED__TRY(embed__take_i64(&r->in, "the extents of a matrix", &n));
  if (m == rows && n == r->args[DIM]) return EMBED_OK;
  return MALFORMED(r, *at,
                   "%s: the %s matrix at byte %" PRId64 " is of %" PRId64 " rows and %" PRId64 " columns, the dictionary and the arguments ask for %" PRId64
                   " and %d",
                   r->in.label, name, *at, m, n, rows, r->args[DIM]);
}

static embed_status read_floats(reader *r, const char *name, int64_t rows, embed__tensor *tensor) {
  int64_t at, bytes;
  EMBED__TRY(read_extents(r, name, rows, &at));
  if (!embed__mul(4 * (int64_t)r->args[DIM], rows, &bytes))
    return embed__fail(r->in.ctx, EMBED_E_OVERFLOW, at, "%s: the size of the %s matrix at byte %" PRId64 " does not fit into 64 bits", r->in.label, name, at);
  EMBED__TRY(embed__need(&r->in, bytes, "the numbers of a matrix"));
  *tensor = (embed__tensor){.name = name,
                            .stored = "f32",
                            .shape = {rows, r->args[DIM]},
                            .rank = 2,
                            .offset = r->in.at,
                            .bytes = bytes,
                            .dtype = EMBED_F32,
                            .swapped = embed__is_swapped(EMBED_F32, false)};
  r->in.at += bytes;
  return EMBED_OK;
}

/* A quantiser of vectors of dim columns: what it says of itself against what the matrix has. */
static embed_status read_quantiser(reader *r, int64_t dim, embed__pq *pq) {
  static const char what[] = "a product quantiser";
  const int64_t at = r->in.at;
  int32_t columns, parts, width, last;
  EMBED__TRY(embed__take_i32(&r->in, what, &columns));
  EMBED__TRY(embed__take_i32(&r->in, what, &parts));
  EMBED__TRY(embed__take_i32(&r->in, what, &width));
  EMBED__TRY(embed__take_i32(&r->in, what, &last));
  if (columns != dim || width < 1 || parts != embed__ceil_div(dim, width) || last < 1 || last > width || (int64_t)(parts - 1) * width + last != dim)
    return MALFORMED(r, at, "%s: the quantiser at byte %" PRId64 " cuts %d columns into %d parts of %d, the last of %d; the matrix has %" PRId64 " columns",
                     r->in.label, at, columns, parts, width, last, dim);
  if (width > EMBED__PQ_WIDEST)
    return embed__fail(r->in.ctx, EMBED_E_UNSUPPORTED, at, "%s: the quantiser at byte %" PRId64 " has parts of %d columns, at most %d are decoded", r->in.label,
                       at, width, EMBED__PQ_WIDEST);
  EMBED__TRY(embed__need(&r->in, 4 * CENTROIDS * dim, "the centroids of a quantiser"));
  pq->dim = dim;
  pq->parts = parts;
  pq->width = width;
  pq->last = last;
  pq->centroids = CENTROIDS;
  pq->values = r->in.at;
  r->in.at += 4 * CENTROIDS * dim;
  return EMBED_OK;
}

static embed_status read_flag(reader *r, const char *what, bool *out) {
  uint8_t flag;
  EMBED__TRY(embed__take_u8(&r->in, what, &flag));
  *out = flag != 0;
  if (flag <= 1) return EMBED_OK;
  return MALFORMED(r, r->in.at - 1, "%s: byte %" PRId64 " says with %d %s, it is 0 or 1", r->in.label, r->in.at - 1, flag, what);
}

static embed_status read_quantised(reader *r, const char *name, int64_t rows, embed__tensor *tensor) {
  embed__pq pq = {.rows = rows, .norms = -1, .norm_values = -1, .projection = -1}, norms = {.rows = rows};
  int64_t at;
  int32_t codes;
  bool normed;
  EMBED__TRY(read_flag(r, "whether norms are quantised", &normed));
  EMBED__TRY(read_extents(r, name, rows, &at));
  EMBED__TRY(embed__take_i32(&r->in, "the size of the codes", &codes));
  EMBED__TRY(embed__check_room(&r->in, codes, 1, "codes"));
  pq.codes = r->in.at;
  r->in.at += codes;
  EMBED__TRY(read_quantiser(r, r->args[DIM], &pq));
  if (codes != rows * pq.parts)
    return MALFORMED(r, at, "%s: the %s matrix at byte %" PRId64 " has %d codes, %" PRId64 " rows of %" PRId64 " parts need %" PRId64, r->in.label, name, at,
                     codes, rows, pq.parts, rows * pq.parts);
  if (normed) {
    EMBED__TRY(embed__need(&r->in, rows, "the codes of norms"));
    pq.norms = r->in.at;
    r->in.at += rows;
    EMBED__TRY(read_quantiser(r, 1, &norms));
    pq.norm_values = norms.values;
  }
  return embed__pq_tensor(r->in.ctx, r->f, name, &pq, tensor);
}

static embed_status read_input(reader *r) {
  embed__tensor *input = &r->f->tensors[INPUT];
  const int64_t rows = r->words + (r->pruned >= 0 ? r->pruned : r->args[BUCKET]);
  if (r->version) EMBED__TRY(read_flag(r, "whether the input matrix is quantised", &r->quantised));
  if (!r->quantised && r->pruned >= 0)
    return MALFORMED(r, r->in.at - 1, "%s: the model is pruned and its input matrix not quantised (byte %" PRId64 "): fastText itself refuses it", r->in.label,
                     r->in.at - 1);
  EMBED__TRY((r->quantised ? read_quantised : read_floats)(r, "input", rows, input));
  input->vocab = r->words < rows ? r->words : 0; /* what follows is of n-grams */
  return EMBED_OK;
}

/* With the hierarchical softmax a row is a node of its tree and not a word's or label's. */
static embed_status read_output(reader *r) {
  bool quantised = false;
  if (r->version) EMBED__TRY(read_flag(r, "whether the output matrix is quantised", &quantised));
  quantised = quantised && r->quantised;
  EMBED__TRY((quantised ? read_quantised : read_floats)(r, "output", r->args[MODEL] == SUPERVISED ? r->labels : r->words, &r->f->tensors[OUTPUT]));
  r->f->roles_given = true;
  r->f->roles[EMBED_ROLE_TOKEN] = INPUT;
  r->f->roles[EMBED_ROLE_HEAD] = r->args[LOSS] == HIERARCHICAL ? -1 : OUTPUT;
  return EMBED_OK;
}

static embed_status add_notes(const reader *r) {
  embed_context *ctx = r->in.ctx;
  if (r->args[MAXN] > 0 && r->args[BUCKET] > 0)
    EMBED__TRY(embed__file_note_line(ctx, r->f,
                                     "rows are of words alone: fastText's vector of a word is the mean of its row and of its n-grams', which stand behind"));
  if (r->args[LOSS] == HIERARCHICAL) EMBED__TRY(embed__file_note_line(ctx, r->f, "the output matrix has the nodes of a tree and is no head: the loss was hs"));
  EMBED__TRY(embed__word2vec_note_tokens(ctx, r->f));
  const int64_t behind = r->in.end - r->in.at;
  return behind == 0 ? EMBED_OK : embed__file_note(ctx, r->f, behind, "bytes behind the output matrix are not read");
}

embed_status embed__fasttext_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.in = embed__cursor_of(ctx, f), .f = f};
  if (HEAD_BYTES + ARGS_BYTES > embed__header_limit(o))
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the header has %d bytes, at most %" PRId64 " were asked for", f->label, HEAD_BYTES + ARGS_BYTES,
                       embed__header_limit(o));
  EMBED__TRY(embed__file_tensors(ctx, f, PRUNED + 1));
  f->tensor_count = OUTPUT + 1;
  EMBED__TRY(read_head(&r));
  EMBED__TRY(read_dictionary(&r));
  EMBED__TRY(read_input(&r));
  EMBED__TRY(read_output(&r));
  return add_notes(&r);
}
