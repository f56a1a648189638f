/* SPDX-License-Identifier: BSD-3-Clause */
/* finalfusion (finalfusion-rust, src/chunks): "FiFu", version 0, the numbers of the chunks that follow; each of those begins with its
 * number and its length. A vocabulary (words; in most kinds parameters of n-grams too, whose rows stand behind the words'), an array
 * of floats or a product-quantised one, norms that the rows had before they were made of length 1, metadata in TOML.
 *
 * The array of floats is a table in place, quantised rows are one of EMBED_PQ, or are decoded by each embed_file_table where they have a
 * projection. A file may be an array's chunk alone, without a header. */
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

enum { SIMPLE = 1, ARRAY, BUCKETS, QUANTISED, METADATA, NORMS, FASTTEXT, EXPLICIT, FLORET, CHUNKS };
enum { TYPE_U8 = 1, TYPE_F32 = 10, CHUNK_HEAD = 12, LARGEST_EXPONENT = 48, TENSORS = 2, ROW = 8 /* bytes that say which an n-gram has */ };

typedef struct reader {
  embed__cursor in;
  embed_file *f;
  int64_t words;            /* -1 = no vocabulary yet */
  int64_t rows, least_rows; /* that the vocabulary has, -1 = it does not say; with its words alone */
  int64_t vocabulary_at;
  int64_t array, norms; /* tensors, -1 = none yet */
  int64_t uncounted;    /* bytes of the chunk that some writer does not count */
} reader;

#define MALFORMED(r, at, ...) embed__fail((r)->in.ctx, EMBED_E_FORMAT, (at), __VA_ARGS__)

static bool is_lone_array(const unsigned char *data, int64_t bytes) {
  return bytes > CHUNK_HEAD && (embed__le32(data) == ARRAY || embed__le32(data) == QUANTISED) && embed__le64(data + 4) == (uint64_t)(bytes - CHUNK_HEAD);
}

bool embed__finalfusion_probe(const unsigned char *data, int64_t bytes) { return (bytes >= 4 && memcmp(data, "FiFu", 4) == 0) || is_lone_array(data, bytes); }

/* --- Vocabularies */

static embed_status add_number(reader *r, const char *key, uint32_t number) {
  enum { DIGITS = 16 };
  char text[DIGITS];
  embed__text t = embed__text_in(text, sizeof text);
  embed__text_number(&t, number);
  return embed__file_add_metadata(r->in.ctx, r->f, key, (int64_t)strlen(key), text, (int64_t)strlen(text), number);
}

/* Strings behind their lengths, each with `more` bytes behind it: proves them, and returns the bytes of them all. */
static embed_status prove_strings(reader *r, int64_t count, int64_t more, const char *what, int64_t *bytes) {
  embed__cursor *in = &r->in;
  *bytes = 0;
  EMBED__TRY(embed__check_room(in, count, 4 + more, what));
  for (int64_t i = 0; i < count; ++i) {
    uint32_t length;
    EMBED__TRY(embed__take_u32(in, what, &length));
    EMBED__TRY(embed__need(in, length + more, what));
    in->at += length + more;
    *bytes += length;
  }
  return EMBED_OK;
}

static embed_status read_words(reader *r, int64_t count) {
  embed__cursor *in = &r->in;
  int64_t at = in->at, bytes;
  EMBED__TRY(prove_strings(r, count, 0, "words", &bytes));
  EMBED__TRY(embed__tokens_new(in->ctx, count, bytes, &r->f->tokens));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t length = embed__le32(in->data + at);
    embed__tokens_append(r->f->tokens, in->data + at + 4, length);
    at += 4 + (int64_t)length;
  }
  embed__tokens_index(r->f->tokens);
  r->words = r->least_rows = count;
  return EMBED_OK;
}

/* The range of n-grams that words are cut into. */
static embed_status read_range(reader *r) {
  uint32_t least, most;
  EMBED__TRY(embed__take_u32(&r->in, "the lengths of n-grams", &least));
  EMBED__TRY(embed__take_u32(&r->in, "the lengths of n-grams", &most));
  EMBED__TRY(add_number(r, "finalfusion.min_n", least));
  return add_number(r, "finalfusion.max_n", most);
}

static embed_status read_vocabulary(reader *r, uint32_t kind) {
  embed__cursor *in = &r->in;
  int64_t count, grams = 0, bytes;
  uint32_t buckets = 0;
  r->vocabulary_at = in->at;
  EMBED__TRY(embed__take_i64(in, "the number of words", &count));
  if (kind == EXPLICIT) EMBED__TRY(embed__take_i64(in, "the number of n-grams", &grams));
  if (kind != SIMPLE) EMBED__TRY(read_range(r));
  if (kind == BUCKETS || kind == FASTTEXT) {
    const int64_t at = in->at;
    EMBED__TRY(embed__take_u32(in, "the number of buckets", &buckets));
    if (kind == BUCKETS && buckets > LARGEST_EXPONENT)
      return MALFORMED(r, at, "%s: there are 2^%" PRIu32 " buckets of n-grams (byte %" PRId64 "), at most 2^%d may be", in->label, buckets, at,
                       LARGEST_EXPONENT);
    EMBED__TRY(add_number(r, kind == BUCKETS ? "finalfusion.buckets_exp" : "finalfusion.buckets", buckets));
  }
  EMBED__TRY(read_words(r, count));
  if (kind != EXPLICIT) r->rows = count + (kind == BUCKETS ? (int64_t)1 << buckets : (int64_t)buckets);
  if (kind == EXPLICIT) EMBED__TRY(prove_strings(r, grams, ROW, "n-grams with their rows", &bytes));
  r->uncounted = ROW * grams; /* finalfusion-python's way */
  return EMBED_OK;
}

/* --- Arrays */

static embed_status check_type(reader *r, uint32_t wanted, const char *what) {
  const int64_t at = r->in.at;
  uint32_t type;
  EMBED__TRY(embed__take_u32(&r->in, what, &type));
  if (type == wanted) return EMBED_OK;
  return embed__fail(r->in.ctx, EMBED_E_UNSUPPORTED, at, "%s: %s at byte %" PRId64 " is %" PRIu32 ", %" PRIu32 " is read", r->in.label, what, at, type, wanted);
}

/* To the next multiple of 4 bytes of the file, 4 where this is one. */
static embed_status skip_padding(reader *r) {
  const int64_t padding = 4 - r->in.at % 4;
  EMBED__TRY(embed__need(&r->in, padding, "padding"));
  r->in.at += padding;
  return EMBED_OK;
}

/* rows * columns floats that stand here; *at: where. */
static embed_status skip_floats(reader *r, int64_t rows, int64_t columns, const char *what, int64_t *at) {
  int64_t bytes;
  *at = r->in.at;
  if (!embed__mul(rows, columns, &bytes) || !embed__mul(bytes, 4, &bytes))
    return embed__fail(r->in.ctx, EMBED_E_OVERFLOW, *at, "%s: %s at byte %" PRId64 " are %" PRId64 " rows of %" PRId64 ": their size does not fit into 64 bits",
                       r->in.label, what, *at, rows, columns);
  EMBED__TRY(embed__need(&r->in, bytes, what));
  r->in.at += bytes;
  return EMBED_OK;
}

static embed_status read_array(reader *r, embed__tensor *tensor) {
  const int64_t start = r->in.at;
  int64_t rows, at;
  uint32_t dim;
  EMBED__TRY(embed__take_i64(&r->in, "the extents of an array", &rows));
  EMBED__TRY(embed__take_u32(&r->in, "the extents of an array", &dim));
  EMBED__TRY(check_type(r, TYPE_F32, "the type of an array"));
  EMBED__TRY(skip_padding(r));
  if (dim == 0) return MALFORMED(r, start, "%s: the array at byte %" PRId64 " has no columns", r->in.label, start);
  EMBED__TRY(skip_floats(r, rows, dim, "the numbers of an array", &at));
  *tensor = (embed__tensor){.name = "embeddings",
                            .stored = "f32",
                            .shape = {rows, dim},
                            .rank = 2,
                            .offset = at,
                            .bytes = 4 * rows * (int64_t)dim,
                            .dtype = EMBED_F32,
                            .swapped = embed__is_swapped(EMBED_F32, false)};
  return EMBED_OK;
}

/* Codes have 256 values; fewer centroids than that means looking at each. */
static embed_status prove_codes(reader *r, const embed__pq *pq) {
  const int64_t count = pq->rows * pq->parts; /* fits: they lie in the file */
  for (int64_t i = 0; i < count && pq->centroids < 256; ++i)
    if (r->in.data[pq->codes + i] >= pq->centroids)
      return MALFORMED(r, pq->codes + i, "%s: the code at byte %" PRId64 " is %d, there are %" PRId64 " centroids", r->in.label, pq->codes + i,
                       r->in.data[pq->codes + i], pq->centroids);
  return EMBED_OK;
}

static embed_status read_quantised(reader *r, embed__tensor *tensor) {
  static const char what[] = "the extents of a quantised array";
  embed__pq pq = {.norms = -1, .norm_values = -1, .projection = -1};
  const int64_t start = r->in.at;
  uint32_t projected, normed, parts, dim, centroids;
  int64_t count;
  EMBED__TRY(embed__take_u32(&r->in, what, &projected));
  EMBED__TRY(embed__take_u32(&r->in, what, &normed));
  EMBED__TRY(embed__take_u32(&r->in, what, &parts));
  EMBED__TRY(embed__take_u32(&r->in, what, &dim));
  EMBED__TRY(embed__take_u32(&r->in, what, &centroids));
  EMBED__TRY(embed__take_i64(&r->in, what, &pq.rows));
  EMBED__TRY(check_type(r, TYPE_U8, "the type of codes"));
  EMBED__TRY(check_type(r, TYPE_F32, "the type of a quantised array"));
  if (dim == 0 || parts == 0 || dim % parts != 0 || centroids == 0 || pq.rows < 0)
    return MALFORMED(r, start,
                     "%s: the quantised array at byte %" PRId64 " has %" PRId64 " rows of %" PRIu32 " columns in %" PRIu32 " parts of %" PRIu32 " centroids",
                     r->in.label, start, pq.rows, dim, parts, centroids);
  if (dim / parts > EMBED__PQ_WIDEST)
    return embed__fail(r->in.ctx, EMBED_E_UNSUPPORTED, start,
                       "%s: the quantised array at byte %" PRId64 " has parts of %" PRIu32 " columns, at most %d are decoded", r->in.label, start, dim / parts,
                       EMBED__PQ_WIDEST);
  EMBED__TRY(skip_padding(r));
  pq.dim = dim;
  pq.parts = parts;
  pq.width = pq.last = dim / parts;
  pq.centroids = centroids;
  if (projected) EMBED__TRY(skip_floats(r, dim, dim, "the numbers of a projection", &pq.projection));
  EMBED__TRY(skip_floats(r, centroids, dim, "centroids", &pq.values));
  if (normed) EMBED__TRY(skip_floats(r, pq.rows, 1, "norms", &pq.norms));
  if (!embed__mul(pq.rows, parts, &count)) count = INT64_MAX;
  EMBED__TRY(embed__need(&r->in, count, "the codes of a quantised array"));
  pq.codes = r->in.at;
  r->in.at += count;
  EMBED__TRY(prove_codes(r, &pq));
  return embed__pq_tensor(r->in.ctx, r->f, "embeddings", &pq, tensor);
}

static embed_status read_norms(reader *r, embed__tensor *tensor) {
  int64_t count, at;
  EMBED__TRY(embed__take_i64(&r->in, "the number of norms", &count));
  EMBED__TRY(check_type(r, TYPE_F32, "the type of norms"));
  EMBED__TRY(skip_padding(r));
  EMBED__TRY(skip_floats(r, count, 1, "norms", &at));
  *tensor = (embed__tensor){.name = "norms",
                            .stored = "f32",
                            .shape = {count},
                            .rank = 1,
                            .offset = at,
                            .bytes = 4 * count,
                            .dtype = EMBED_F32,
                            .swapped = embed__is_swapped(EMBED_F32, false)};
  return EMBED_OK;
}

/* --- Chunks */

static const char *const names[CHUNKS] = {"",         "a vocabulary", "an array",     "a vocabulary", "a quantised array",
                                          "metadata", "norms",        "a vocabulary", "a vocabulary", "a floret vocabulary"};

static embed_status read_chunk(reader *r, uint32_t kind, int64_t bytes) {
  const int64_t first = r->in.at;
  embed_file *f = r->f;
  switch (kind) {
    case ARRAY:
    case QUANTISED:
    case NORMS: {
      int64_t *own = kind == NORMS ? &r->norms : &r->array;
      if (*own >= 0)
        return MALFORMED(r, first - CHUNK_HEAD, "%s: %s stands there a second time (byte %" PRId64 ")", r->in.label, names[kind], first - CHUNK_HEAD);
      embed__tensor *tensor = &f->tensors[f->tensor_count];
      EMBED__TRY((kind == ARRAY ? read_array : kind == NORMS ? read_norms : read_quantised)(r, tensor));
      *own = f->tensor_count++;
      break;
    }
    case METADATA:
      EMBED__TRY(embed__file_add_metadata(r->in.ctx, f, "finalfusion.metadata", 20, r->in.data + first, bytes, (double)NAN));
      r->in.at += bytes;
      break;
    case FLORET: /* its words have no rows */
      EMBED__TRY(embed__file_note_line(r->in.ctx, f, "the vocabulary is floret's: rows are of hashed n-grams, none is a word's"));
      r->in.at += bytes;
      break;
    default:
      if (r->words >= 0)
        return MALFORMED(r, first - CHUNK_HEAD, "%s: a vocabulary stands there a second time (byte %" PRId64 ")", r->in.label, first - CHUNK_HEAD);
      EMBED__TRY(read_vocabulary(r, kind));
  }
  const int64_t read = r->in.at - first;
  return read == bytes || (kind == EXPLICIT && read - r->uncounted == bytes)
             ? EMBED_OK
             : MALFORMED(r, first - 8, "%s: the chunk at byte %" PRId64 ", %s, has %" PRId64 " bytes by its length, %" PRId64 " by what it holds", r->in.label,
                         first - CHUNK_HEAD, names[kind], bytes, read);
}

/* wanted: by the header, 0 = there is none. */
static embed_status read_next(reader *r, uint32_t wanted) {
  const int64_t at = r->in.at;
  uint32_t kind;
  int64_t bytes;
  EMBED__TRY(embed__take_u32(&r->in, "the number of a chunk", &kind));
  EMBED__TRY(embed__take_i64(&r->in, "the length of a chunk", &bytes));
  if (wanted && kind != wanted)
    return MALFORMED(r, at, "%s: the chunk at byte %" PRId64 " has the number %" PRIu32 ", the header says %" PRIu32, r->in.label, at, kind, wanted);
  if (kind == 0 || kind >= CHUNKS)
    return embed__fail(r->in.ctx, EMBED_E_UNSUPPORTED, at, "%s: the chunk at byte %" PRId64 " has the number %" PRIu32 ", 1 to %d are known", r->in.label, at,
                       kind, CHUNKS - 1);
  EMBED__TRY(embed__check_room(&r->in, bytes, 1, "bytes of a chunk"));
  return read_chunk(r, kind, bytes);
}

static embed_status read_chunks(reader *r, const embed_file_options *o) {
  uint32_t version, count;
  if (is_lone_array(r->in.data, r->in.end)) return read_next(r, 0);
  if (r->in.end < 4 || memcmp(r->in.data, "FiFu", 4) != 0) return MALFORMED(r, 0, "%s: it does not begin with finalfusion's \"FiFu\"", r->in.label);
  r->in.at = 4;
  EMBED__TRY(embed__take_u32(&r->in, "finalfusion's version", &version));
  if (version != 0) return embed__fail(r->in.ctx, EMBED_E_UNSUPPORTED, 4, "%s: finalfusion version %" PRIu32 "; 0 is read", r->in.label, version);
  EMBED__TRY(embed__take_u32(&r->in, "the number of chunks", &count));
  EMBED__TRY(embed__check_room(&r->in, count, 4 + CHUNK_HEAD, "chunks"));
  if (4 * (int64_t)count + CHUNK_HEAD > embed__header_limit(o))
    return MALFORMED(r, 8, "%s: the header has %" PRId64 " bytes, at most %" PRId64 " were asked for", r->in.label, 4 * (int64_t)count + CHUNK_HEAD,
                     embed__header_limit(o));
  const unsigned char *kinds = r->in.data + r->in.at;
  r->in.at += 4 * (int64_t)count;
  for (uint32_t i = 0; i < count; ++i) EMBED__TRY(read_next(r, embed__le32(kinds + 4 * (size_t)i)));
  return EMBED_OK;
}

/* Words and rows are told by two chunks. */
static embed_status check_rows(reader *r) {
  if (r->array < 0 || r->words < 0) return EMBED_OK;
  embed__tensor *array = &r->f->tensors[r->array];
  const int64_t rows = array->shape[0];
  if (r->rows >= 0 ? rows != r->rows : rows < r->least_rows)
    return MALFORMED(r, r->vocabulary_at, "%s: the vocabulary at byte %" PRId64 " has %" PRId64 " rows, the array %" PRId64, r->in.label, r->vocabulary_at,
                     r->rows >= 0 ? r->rows : r->least_rows, rows);
  array->vocab = r->words < rows ? r->words : 0; /* what follows is of n-grams */
  return EMBED_OK;
}

embed_status embed__finalfusion_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.in = embed__cursor_of(ctx, f), .f = f, .words = -1, .rows = -1, .array = -1, .norms = -1};
  EMBED__TRY(embed__file_tensors(ctx, f, TENSORS));
  f->tensor_count = 0;
  EMBED__TRY(read_chunks(&r, o));
  EMBED__TRY(check_rows(&r));
  f->roles_given = true;
  f->roles[EMBED_ROLE_TOKEN] = r.array;
  if (f->tokens) EMBED__TRY(embed__word2vec_note_tokens(ctx, f));
  const int64_t behind = r.in.end - r.in.at;
  return behind == 0 ? EMBED_OK : embed__file_note(ctx, f, behind, "bytes behind the last chunk are not read");
}
