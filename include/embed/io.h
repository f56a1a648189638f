/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/io.h: opening and writing files that hold a vocabulary. */
#ifndef EMBED_IO_H
#define EMBED_IO_H

#include <embed/types.h>
#include <embed/head.h>
#include <embed/table.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct embed_file_options {
  uint32_t size, flags; /* EMBED_FILE_* */
  int64_t max_header;   /* refuse a longer header, bytes; 0 = 100 MB */
  int64_t dim;          /* headerless text: columns expected; 0 = detect */
  int64_t vocab;        /* rows expected: another number is EMBED_E_MISMATCH giving both; 0 = any */
  const char *format;   /* a name of the format registry; NULL = by content */
  const void *reserved;
} embed_file_options;
enum { EMBED_FILE_POPULATE = 1 /* fault pages in now */, EMBED_FILE_COPY = 2 /* read instead of map */,
       EMBED_FILE_CHECK = 4 /* check all sums of formats that have them */ };
typedef int32_t embed_role;
enum { EMBED_ROLE_NONE = -1, EMBED_ROLE_TOKEN = 0, EMBED_ROLE_HEAD, EMBED_ROLE_HEAD_BIAS, EMBED_ROLE_POSITION, EMBED_ROLE_TYPE, EMBED_ROLE_NORM,
       EMBED_ROLE_NORM_BIAS, EMBED_ROLE_PER_LAYER /* rows for every layer */, EMBED_ROLE_NGRAM /* rows of n-grams */ };
typedef struct embed_tensor_info { /* output struct; strings live as long as the file */
  uint32_t size, flags;
  const char *name, *stored; /* the file's own names of tensor and type */
  int64_t shape[8];          /* outermost first */
  int64_t offset, bytes;
  int32_t rank;
  embed_dtype dtype;         /* EMBED_DTYPE_NONE = no table type */
  embed_role role;
  int32_t shard;
} embed_tensor_info;
typedef struct embed_conventions { /* output struct: what the file's family does */
  uint32_t size, flags;
  float lookup_scale;      /* Gemma: sqrt(dim) */
  embed_dtype scale_round;
  float logit_scale, logit_softcap;
  float norm_epsilon;
  int32_t norm_flags;      /* EMBED_NORM_* */
} embed_conventions;
/**
 * embed_file_open: opens a model file, recognised by its content, and proves all of it.
 *
 * Types    npy 1.0 to 3.0 (one tensor, "array"); word2vec binary (one tensor, "vectors", and a token per row), with or without
 *          newlines between rows; word2vec text and GloVe text ("vectors", a token per row: only 0x20 separates, the last dim fields
 *          are the numbers, read correctly rounded whatever the host's locale); libembed's own container .embed; GGUF 2 and 3 of either byte order (tensors of every ggml type are listed, tokens are those of tokenizer.ggml.tokens;
 *          one without tensors is a vocabulary); safetensors (F64 F32 F16 BF16 are tables, other types are listed), and the index of
 *          its shards, model.safetensors.index.json: all shards are opened and proved, tensors come in the map's order, and the map
 *          decides where a tensor is. npz ("NAME" of each NAME.npy, stored or, in a build with zlib, deflated; arrays of objects and
 *          structures are listed, never unpickled); PyTorch's checkpoints, zip archives and the files of before 1.6, TorchScript's (objects are read by their attributes), and pytorch_model.bin.index.json as that of safetensors
 *          ("model.wte.weight" of nested dicts, "0" of lists and tuples, "tensor" of one alone; storages that several tensors share are
 *          theirs alike; vectors and matrices of any strides are tables, but expanded ones, which are listed): nothing of their pickle is ever run, and one that names more than
 *          tensors and plain values is refused, the name said; fastText .bin and .ftz ("input", its first rows with a word each, those behind them of n-grams
 *          and no ids; "output", the head but after hierarchical softmax; arguments and labels are metadata, counts embed_file_class_counts); finalfusion
 *          ("embeddings", "norms"); llama2.c checkpoints of all versions (run.c's names; tokens of tok<rows>.bin or tokenizer.bin in
 *          the same folder); Model2Vec's safetensors ("token_embeddings" where tokens share rows or have weights). Formats that
 *          are asked for by name alone: "raw", "raw-f64", "raw-f16", "raw-bf16" (little-endian rows, "array") and "glove-binary"
 *          ("vectors", "bias", "context", "context_bias"; tokens of a vocab.txt in the same folder): dim or vocab gives the shape.
 * Folders  path may be a folder as transformers and Model2Vec save them: its model.safetensors is opened, else model.safetensors.index.json,
 *          pytorch_model.bin, or pytorch_model.bin.index.json.
 * Options  format asks for one by name ("npy", "word2vec") and skips what tells it from its kin. max_header bounds the header (or index, or pickle);
 *          npy's ends at 10,000 bytes anyway, numpy's own limit. dim: columns of text without a
 *          header, 0 = by its first line; formats that state it ignore it. EMBED_FILE_COPY reads the
 *          file into memory of the context's allocator; without it the file is mapped read-only and must not be cut short while the
 *          handle lives (SIGBUS): replace model files by rename. A mapped .embed file opens by its head and directory alone, whatever
 *          its size: the sums of rows and tokens are not looked at. EMBED_FILE_CHECK reads all of it once and checks every section's
 *          sum (EMBED_FILE_COPY does too), so does `embed verify`. It checks the stored members of npz and PyTorch files too; deflated ones
 *          are inflated and checked in any case. Other formats have no sums, and nothing is read for it.
 * Errors   E_FORMAT (embed_error_at = the byte; a file cut short: its size; a wrong sum: the text names the section), E_UNSUPPORTED (valid, not read by this version: pickled
 *          or structured npy; encrypted members, other methods than deflate; PyTorch's whole modules, but TorchScript's), E_OVERFLOW (sizes past 64 bits), E_IO (the text carries the system's reason; folders without a
 *          model, FIFOs and devices fail at once), E_NOT_FOUND (no such format), E_MISMATCH (opts->vocab), E_OPTION, E_MEMORY, E_CANCELLED.
 *          *out is NULL then. No descriptor stays open either way.
 * Threads  ctx exclusive; the file may then be used by any number of threads at once.
 * Cost     npy: its header. word2vec: one pass over the file and a copy of its rows, on the context's threads; nothing of the file is
 *          used afterwards. npz: its directory and headers; deflated arrays (and PyTorch's members) are inflated into memory of their own, at most 1032 bytes for
 *          one of the file. PyTorch: its directory, pickle and the headers of its members. A head stored beside the table is compared with it, and with its scales, up to the first byte that differs: both are read
 *          whole where they are equal. Scales of packed ends in a wider type than half are read once. Memory is bounded by a small multiple of the file's size, whatever its header says.
 *          A tokenizer.json beside the file is read whole, at some 150 MB/s.
 * Since    0.1.
 * Source   numpy/lib/format.py; APPNOTE.TXT 6.3 (zip); torch/serialization.py; word2vec.c.
 */
EMBED_FN embed_status embed_file_open(embed_context *ctx, const char *path, const embed_file_options *opts, embed_file **out); /* everything is proved before it returns */
/**
 * embed_file_retain: one more owner; returns f.
 *
 * Errors   none; NULL gives NULL.
 * Threads  from any thread, at any time.
 * Cost     an atomic addition.
 * Since    0.1.
 */
EMBED_API embed_file *embed_file_retain(const embed_file *f);
/**
 * embed_file_release: one owner less. Tables made from a file hold it themselves: handles go in any order.
 *
 * Errors   none; NULL does nothing.
 * Threads  from any thread, at any time.
 * Cost     an atomic subtraction; the last unmaps and frees.
 * Since    0.1.
 */
EMBED_API void embed_file_release(const embed_file *f);
/**
 * embed_file_format: the format's name ("npy"), static.
 *
 * Errors   none; NULL for NULL.
 * Threads  f shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const char *embed_file_format(const embed_file *f);
/**
 * embed_file_notes: what is odd but no error (repeated or empty tokens, bytes behind an array, rows without tokens), and how roles and the
 * tie were decided where that was not by a name alone; valid as long as the file lives.
 *
 * Errors   none; NULL for NULL.
 * Threads  f shared.
 * Cost     none: the text was made when the file was opened.
 * Since    0.1.
 */
EMBED_API const char *embed_file_notes(const embed_file *f); /* how roles and ties were decided, conflicts; one a line; "" = nothing to say */
/**
 * embed_file_count: number of tensors.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  f shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_file_count(const embed_file *f);     /* tensors */
/**
 * embed_file_tensor: describes tensor i, 0 <= i < embed_file_count.
 *
 * A tensor whose type no table has is listed with dtype EMBED_DTYPE_NONE and its own name in `stored`. offset is that of its first
 * element in the file, -1 where its numbers are not one block there (word2vec); of EMBED_PQ offset and bytes are those of its codes. role is
 * the first that it has: a tied head's table says EMBED_ROLE_TOKEN.
 * Errors   E_ARGUMENT (i), E_OPTION (out->size). out is untouched then.
 * Threads  f shared, ctx exclusive.
 * Cost     copies a few fields.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_tensor(embed_context *ctx, const embed_file *f, int64_t i, embed_tensor_info *out);
/**
 * embed_file_find: the index of the tensor of this name.
 * Errors   E_NOT_FOUND (the text names those that exist; *i untouched).
 * Threads  f shared, ctx exclusive.
 * Cost     compares the name with every tensor's.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_find(embed_context *ctx, const embed_file *f, const char *name, int64_t *i);
/**
 * embed_file_role: the tensor that has this role.
 *
 * Tensors are known by the names that families give them (GGUF's and transformers'), by the ends of names, and as a last resort the
 * table by its shape; the notes say what was found otherwise than by its name. A head that is not stored, or is stored and equals the
 * table byte for byte, is the table: tied. A head that differs is the head, whatever metadata says. A file that stores the head alone
 * is tied the other way round. EMBED_ROLE_NORM is the norm in front of the head; where a family has none there (BERT) it is the norm
 * of the summed input rows, and the notes say so. EMBED_ROLE_POSITION are rows that are added to the token's; where a family multiplies
 * by them (a log-bilinear model) the notes say so. EMBED_ROLE_PER_LAYER is the table of rows for every layer (Gemma 3n: [vocab, layers *
 * dim]), EMBED_ROLE_NGRAM the first table of n-grams' rows; llama.cpp gives both one name, the number of rows tells them apart.
 * Errors   E_ARGUMENT (no such role).
 * Threads  f shared, ctx exclusive.
 * Cost     none: roles were decided when the file was opened.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_role(embed_context *ctx, const embed_file *f, embed_role role, int64_t *i); /* HEAD = TOKEN's index when tied; -1 = none */
/**
 * embed_file_conventions: what the file's family does between ids and rows, hidden states and logits.
 *
 * By general.architecture and its keys (GGUF), or by model_type and the keys of a config.json in the same folder (safetensors, their
 * index, PyTorch): Gemma's sqrt(dim), Granite's and MiniCPM's scales (their logit_scale divides, Command R's multiplies), soft-cap, norm. Without
 * either all is neutral: scales 1, soft-cap off, no norm. norm_epsilon 0: the file does not say. GGUF's norm weights are ready for use
 * (Gemma's hold 1 + w); transformers' hold w, and norm_flags has EMBED_NORM_PLUS_ONE. scale_round is the rows' own type where
 * transformers rounds the scale to it. A config.json changes nothing else: what tie_word_embeddings and vocab_size say otherwise than the
 * file is in embed_file_notes, and so is one that cannot be read, is no strict JSON, or is that of a model of another width.
 * Errors   E_OPTION (out->size; out untouched).
 * Threads  f shared, ctx exclusive.
 * Cost     copies a few fields.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_conventions(embed_context *ctx, const embed_file *f, embed_conventions *out);
/**
 * embed_file_table: the table of a tensor, read-only.
 *
 * Shapes   [rows, dim]; [n] opens as one row [1, n]. Rows of a token table or head behind the file's last token are padding: vocab
 *          is the number of tokens then. More tokens than rows, or another vocab_size in the metadata, change nothing and are noted.
 * Types    float tensors as they are stored. In C order and this machine's byte order the table is a view of the file, at any
 *          alignment, nothing copied; Fortran order and the other byte order are converted into a new table by each call (keep
 *          it). word2vec rows were copied when the file was opened: all calls give the same table. Product-quantised rows (fastText,
 *          finalfusion; stored "pq") are an EMBED_PQ view of the file, whose centroids are copied by each call; those behind a projection
 *          (finalfusion's OPQ: dim * dim products a row), groups of int8 (llama2.c, "q8") and shared rows (Model2Vec, "mapped", "weighted")
 *          are decoded into a new f32 table by each call, Model2Vec's int8 rows into one of int8_row with scale 1. safetensors' F8_E4M3, F8_E5M2 and I8 with a
 *          tensor of scales beside them (NAME_scale or NAME_scale_inv: one, or one for each row, 128 or 32 columns, 128 x 128) are
 *          multiplied by them into f32, I8 with one for all or for each row into int8_row, I8 with zero points (NAME_zero_point, one for
 *          each scale) and bitsandbytes' int8 (X.SCB) likewise; with scales or zero points of another form they are EMBED_DTYPE_NONE.
 *          Packed integers in safetensors get the shape that they stand for and keep their names: MLX's X.weight with X.scales (stored
 *          "mlx4-g64": bits, group; "mxfp4-g32", "mxfp8-g32", "nvfp4-g16"), compressed-tensors' X.weight_packed ("int4-g128"), GPTQ's and AWQ's
 *          X.qweight ("gptq4-g128", "awq4-g128"; "-by-index": columns have groups of their own), bitsandbytes' four bits ("bnb-nf4"). Each call
 *          decodes them into the smallest dtype that has every number's bits: MLX's of 4 bits at most with half scales into q4_1,
 *          compressed-tensors' without zero points into int4_group or, a scale a row, int8_row, all else into f32. MLX's shapes tell bits
 *          times group alone: norms as wide as the rows tell the two, or else config.json's "quantization". Where nothing does, or parts
 *          are missing or do not agree, they are EMBED_DTYPE_NONE, and the error says what is the matter.
 * Empty    0 rows are a table.
 * Errors   E_MISMATCH (another rank, or no columns; the text has the shape), E_UNSUPPORTED (EMBED_DTYPE_NONE), E_ARGUMENT (i),
 *          E_NOT_FOUND (i = -1 of a file without a token table, say a vocabulary alone), E_MEMORY, E_CANCELLED. *out is NULL then.
 * Threads  f shared, ctx exclusive. The table holds the file: release both in any order.
 * Cost     a view: nothing; a conversion: reads and writes the tensor once, on the context's threads.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out); /* maps; i = -1: the token table */
/**
 * embed_file_head: the output side of the file.
 *
 * Shapes   tied: the head is table (NULL = a view of the file's), which may be another form of it with as many columns, say a converted
 *          copy. Untied: a view of the stored head; table is not used. The file's bias, one number per row, is copied.
 * Options  as embed_head_create, and: logit_scale, logit_softcap 0 = the file's (EMBED_HEAD_RAW: 1 and off); REQUIRE_TIED fails where the
 *          file's head is not its table, REQUIRE_UNTIED where it stores none; of a file that stores the same numbers twice
 *          REQUIRE_UNTIED takes the second.
 * Errors   E_NOT_FOUND (REQUIRE_UNTIED of a file without a head of its own: the text names what is there; a file with neither head nor
 *          table), E_MISMATCH (REQUIRE_TIED of an untied file; a head and a table of different widths; a bias of another length),
 *          E_OPTION (both REQUIRE flags), as embed_file_table and embed_head_create. *out is NULL then.
 * Threads  f and table shared, ctx exclusive. The head holds its table.
 * Cost     as embed_file_table and embed_head_create.
 * Since    0.1.
 */
/* table NULL = open it; tied: retains table. opts NULL = scale and soft-cap of embed_file_conventions. */
EMBED_FN embed_status embed_file_head(embed_context *ctx, const embed_file *f, const embed_table *table, const embed_head_options *opts, embed_head **out);
/**
 * embed_file_token: the token of row id, arbitrary bytes (not always UTF-8, possibly none), valid as long as the file.
 *
 * Types    As stored: the marks of word pieces (##), blanks and bytes are part of them. Of safetensors, its index and PyTorch's checkpoints
 *          they are those of a tokenizer.json (BPE, WordPiece, WordLevel, Unigram, and its added tokens, which come first where both name
 *          an id) or else of a vocab.txt (a token per line) in the same folder; of npz those of a vocab.txt with a line for each row. Ids
 *          past the rows are left out and noted; rows without a token stay ids, for such a file may be another model's. One that is
 *          broken, or longer than max_header, is noted and not used; the tensors open all the same.
 * Errors   none; NULL and *bytes = 0 where there is none, and for NULL. bytes may be NULL.
 * Threads  f shared.
 * Cost     none: the bytes are there.
 * Since    0.1.
 */
EMBED_API const char *embed_file_token(const embed_file *f, int64_t id, int64_t *bytes); /* as stored, a NUL after it; NULL = none */
/**
 * embed_file_token_id: the row of a token of `bytes` bytes, compared byte by byte; the lowest row where several have it.
 * Empty    bytes = 0 asks for the empty token; token is not read then and may be NULL.
 * Errors   E_NOT_FOUND (no row has it, or the format names no tokens; *id untouched), E_ARGUMENT (bytes < 0).
 * Threads  f shared, ctx exclusive.
 * Cost     one look into the index of tokens.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_token_id(embed_context *ctx, const embed_file *f, const char *token, int64_t bytes, int64_t *id);
/**
 * embed_file_class_counts: how often the training text had each class, in the classes' order: what embed_huffman_create and
 * embed_candidates_create take.
 *
 *   EMBED_ROLE_TOKEN  the rows of the token table that have a token
 *   EMBED_ROLE_HEAD   what the output side predicts: labels of a classifier, else words. After fastText's hierarchical softmax, when
 *                     "output" has the inner nodes of a tree, they are its leaves
 *
 * Shapes   counts [room], NULL when room is 0; *classes: how many there are; more than room are not written.
 * Errors   E_NOT_FOUND (the format has no counts: only fastText's has), E_ARGUMENT (another role; room). Outputs are untouched then.
 *          Counts are at least 0: embed_file_open proves it. Their sum need not fit into 64 bits.
 * Threads  f shared, ctx exclusive.
 * Cost     copies 8 bytes a class.
 * Since    0.1.
 * Source   fastText's Dictionary::getCounts.
 */
EMBED_FN embed_status embed_file_class_counts(embed_context *ctx, const embed_file *f, embed_role role, int64_t *counts, int64_t room, int64_t *classes);
/**
 * embed_file_metadata: entry i >= 0 of the file's own key-value pairs, in the file's order; strings live as long as the file and have a
 * NUL behind them.
 *
 * Types    Values are text. Numbers of a typed format (GGUF) read in decimal, floats with 9 significant digits and a point whatever the
 *          locale, bools as true and false; arrays of up to 16 numbers as "[1, 2]", others as "[49152 strings]".
 * Errors   E_NOT_FOUND (no such entry: the end of the list; npy and word2vec have none). Outputs are untouched then.
 * Threads  f shared, ctx exclusive.
 * Cost     none: the pairs are there.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_metadata(embed_context *ctx, const embed_file *f, int64_t i, const char **key, const char **value, int64_t *value_bytes);

typedef struct embed_writer_options { uint32_t size, flags; int64_t max_memory; const char *format; const void *reserved; } embed_writer_options;
/**
 * embed_writer_create: a file to be, in memory until embed_writer_commit writes it in one pass.
 *
 * Types    The format is opts->format, or what the path ends in: safetensors (.safetensors), gguf (.gguf, version 3), npy (.npy), npz
 *          (.npz, stored members), word2vec (.bin, .w2v), word2vec-text (.vec, .txt), finalfusion (.fifu), embed (.embed, libembed's
 *          own: every dtype, tokens, roles; src/io/FORMAT.md).
 * Options  max_memory: bytes of a block of rows on its way to the file (0 = 8 MiB; one row at least).
 * Errors   E_NOT_FOUND (no such format; the text names those that exist), E_IO (no such folder, one that may not be written to, a
 *          target that is no regular file), E_OPTION, E_MEMORY; *out is NULL. Nothing has been written yet in any case.
 * Threads  ctx and the writer exclusive, in every call.
 * Cost     one allocation; looks at the folder.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_create(embed_context *ctx, const char *path, const embed_writer_options *opts, embed_writer **out);
/**
 * embed_writer_table: one more table. It is retained, and read at commit: what it holds then is written.
 *
 * Shapes   npy, npz, safetensors and gguf hold all rows and no vocab, both of word2vec's formats and finalfusion the first vocab rows,
 *          embed both. npy, word2vec's and finalfusion hold one table and keep no name. A table that embed_file_table made of a tensor
 *          [n] is [n] again in safetensors, gguf, npz and embed, one row [1, n] in npy.
 * Types    as NULL: as the table is stored (word2vec's and finalfusion: f32). Else as->dtype (EMBED_DTYPE_NONE keeps the source's),
 *          group, vocab (0 = the table's), row_bytes (embed alone). safetensors: F64 F32 F16 BF16; gguf: these and all of GGUF's
 *          blocks; npy and npz: F64 F32 F16; word2vec's and finalfusion: F32; embed: all. word2vec-text has the fewest digits that give
 *          each float back. finalfusion's rows are written as they are, without norms: its libraries take rows of length 1 for granted
 *          when they compare.
 * Errors   E_UNSUPPORTED (dtype, a second table, row_bytes, in gguf no rows: what the format cannot hold), E_ARGUMENT (a name twice or
 *          empty, not UTF-8 in safetensors and npz, over 63 bytes in gguf; a committed writer), E_OPTION, E_MEMORY. The writer is as
 *          before then.
 * Threads  t shared, ctx and w exclusive.
 * Cost     a copy of the name.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_table(embed_context *ctx, embed_writer *w, const char *name, const embed_table *t, const embed_table_options *as); /* converts while streaming */
/**
 * embed_writer_head: the prepared form of h beside its table, for .embed: embed_file_head with EMBED_HEAD_PREPARE then takes it where
 * it lies in the file instead of making it. The head is retained, and read at commit.
 *
 * Types    a head of EMBED_HEAD_PREPARE whose table has been handed in as it is stored (embed_writer_table, as = NULL).
 * Errors   E_ARGUMENT (no prepared form, a head of the same table twice, a committed writer), E_NOT_FOUND (its table has not been handed
 *          in), E_STALE (here and at commit), E_UNSUPPORTED (another format than .embed; a big-endian machine), E_MEMORY.
 * Threads  h shared, ctx and w exclusive.
 * Cost     a copy of a name; commit writes embed_head_describe's extra_bytes, less the bias.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_head(embed_context *ctx, embed_writer *w, const embed_head *h); /* its prepared form, after its table */
/**
 * embed_writer_alias: name is another name of the table `of` (a head tied to the token table). The table is stored once; opened again,
 * the file has the metadata "tied.NAME" = the table's name.
 *
 * Errors   E_NOT_FOUND (no table of this name has been handed in), E_UNSUPPORTED (formats but safetensors, gguf, embed), E_ARGUMENT (a
 *          name twice), E_MEMORY.
 * Threads  ctx and w exclusive.
 * Cost     a copy of the name.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_alias(embed_context *ctx, embed_writer *w, const char *name, const char *of); /* a tie */
/**
 * embed_writer_tokens: copies the tokens of a file, id by id; before any embed_writer_token.
 *
 * Types    From a little-endian GGUF file to gguf the arrays of its tokenizer come along (tokenizer.ggml.scores, token_type, merges, ...; of
 *          those with an element per token only while their number stays the same), and its metadata keeps its kinds:
 *          embed_writer_metadata. The file is retained then, as long as the writer's contents.
 * Errors   E_UNSUPPORTED (npy, npz, safetensors), E_NOT_FOUND (the file names none), and those of embed_writer_token; no token is kept then.
 * Threads  from shared, ctx and w exclusive.
 * Cost     a copy of all tokens.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_tokens(embed_context *ctx, embed_writer *w, const embed_file *from);
/**
 * embed_writer_token: the token of one id, any bytes; again = instead of the one before.
 *
 * Empty    bytes = 0 is the empty token (embed, gguf, finalfusion). Ids that are left out have none (embed) or are an error at commit
 *          (word2vec's and finalfusion: of any row; gguf: below the largest).
 * Errors   E_ARGUMENT (a token that word2vec's formats could not read back: empty, with a blank or a newline, over 64 KiB; in finalfusion
 *          one that is not UTF-8, and at commit one that stands twice; embed_error_at = id), E_ID (id below 0 or past int32),
 *          E_UNSUPPORTED (npy, npz, safetensors), E_MEMORY.
 * Threads  ctx and w exclusive.
 * Cost     a copy of the token.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_token(embed_context *ctx, embed_writer *w, int64_t id, const char *token, int64_t bytes);
/**
 * embed_writer_metadata: a key-value pair (safetensors, gguf, embed). safetensors adds format = pt where no such key is given, gguf
 * general.architecture = embed, and always general.alignment and, of blocks, general.quantization_version.
 *
 * Types    In an .embed file these keys say what embed_file_role and embed_file_conventions answer, and are no metadata afterwards:
 *          embed.role.ROLE (token, head, head_bias, position, type, norm, norm_bias, per_layer, ngram) = a table's name or an alias; embed.lookup_scale,
 *          embed.logit_scale, embed.logit_softcap, embed.norm_epsilon = a decimal number; embed.scale_round = a dtype's name;
 *          embed.norm_flags = a number. Without embed.role.token roles are found by the tables' names. In safetensors and gguf the scales,
 *          the soft-cap and the norm stay metadata and are what embed_file_conventions answers; roles go by names.
 *          In gguf a pair that the file of embed_writer_tokens has with the same text is written as it stands there, be it a number, a
 *          bool or an array of any length. Of another the key tells whether it is a number or a bool (ends like .block_count, _token_id,
 *          .layer_norm_rms_epsilon); a value that is none, and every other key's, is a string.
 * Errors   E_ARGUMENT (a key twice, empty, or beginning with "tied."; not UTF-8 in safetensors; in gguf what the writer itself puts down:
 *          tokenizer.ggml.tokens, general.alignment, general.quantization_version; embed's own keys: at commit), E_UNSUPPORTED (other
 *          formats), E_MEMORY.
 * Threads  ctx and w exclusive.
 * Cost     a copy of the pair.
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_metadata(embed_context *ctx, embed_writer *w, const char *key, const char *value, int64_t value_bytes);
/**
 * embed_writer_commit: writes everything, and only then gives it the path's name: whoever opens the path finds the old file or the new
 * one, whole, whatever happens meanwhile (an error, a kill, a crash of the machine).
 *
 *   a temporary ".NAME.16 hexadecimal digits.embed-tmp" in the same folder, fsync, rename, fsync of the folder
 *
 * The new file has the old one's permissions, and its owner where the system allows that; a new one has 0666 less the umask. Where the
 * path is a symbolic link the file that it leads to is replaced. Other hard links keep the old file, mappings of it too: a file may be
 * rewritten from itself. Only a kill leaves a temporary behind.
 *
 * Errors   E_IO (the text has the system's reason: a full disk, no permission), E_NONFINITE (embed_error_at = a row that the dtype
 *          cannot hold, or word2vec-text: it has no infinities and no NaN), E_CANCELLED, E_ARGUMENT (no table, a row without a token,
 *          committed already), E_MEMORY. The old file is as it was and no temporary is left; commit may be tried again. A limit on file
 *          sizes (RLIMIT_FSIZE) raises SIGXFSZ, which is the program's to ignore.
 * Threads  rows are converted on the context's threads, written on this one (word2vec-text: on one of them); progress counts bytes.
 * Cost     reads each table once and writes the file once; memory: max_memory (word2vec-text: twice) and, of tokens, their section
 *          (embed) or an index (finalfusion).
 * Since    0.1.
 */
EMBED_FN embed_status embed_writer_commit(embed_context *ctx, embed_writer *w); /* fsync, rename */
/**
 * embed_writer_release: lets go of everything; without a commit nothing is left.
 *
 * Errors   none; NULL does nothing.
 * Threads  w exclusive.
 * Cost     frees.
 * Since    0.1.
 */
EMBED_API void embed_writer_release(embed_writer *w);                           /* without commit nothing is left */

#ifdef __cplusplus
}
#endif
#endif
