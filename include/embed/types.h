/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/types.h: statuses, dtypes and handle types of libembed. */
#ifndef EMBED_TYPES_H
#define EMBED_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMBED_VERSION_MAJOR 0
#define EMBED_VERSION_MINOR 1
#define EMBED_VERSION_PATCH 0
#define EMBED_VERSION ((EMBED_VERSION_MAJOR << 16) | (EMBED_VERSION_MINOR << 8) | EMBED_VERSION_PATCH)
#if defined(__GNUC__)
#define EMBED_API __attribute__((visibility("default")))
#define EMBED_FN EMBED_API __attribute__((warn_unused_result)) /* exported, result must be used */
#else
#define EMBED_API
#define EMBED_FN
#endif

typedef int32_t embed_status; /* 0 = success, negative = error; an integer, not an enum, for FFI */
enum {
  EMBED_OK = 0,
  EMBED_E_ARGUMENT = -1,    /* an argument breaks its documented contract */
  EMBED_E_MEMORY = -2,      /* the allocator returned NULL */
  EMBED_E_ID = -3,          /* id outside [0, vocab); embed_error_at() is its position; nothing was written */
  EMBED_E_OPTION = -4,      /* options struct: bad size, bad value, unknown flag, or a field this version does not know */
  EMBED_E_UNSUPPORTED = -5, /* valid, but not built in or not on this CPU */
  EMBED_E_FORMAT = -6,      /* file breaks its format; embed_error_at() is the byte offset */
  EMBED_E_IO = -7,          /* a system call failed; the text carries strerror */
  EMBED_E_NOT_FOUND = -8,   /* no tensor, token or format of that name */
  EMBED_E_READ_ONLY = -9,   /* table memory may not be written */
  EMBED_E_OVERFLOW = -10,   /* rows * dim * element size does not fit */
  EMBED_E_CANCELLED = -11,  /* the context's cancel flag or progress callback stopped it; outputs unspecified */
  EMBED_E_STALE = -12,      /* the table changed after this head was prepared or sketched: refresh it */
  EMBED_E_MISMATCH = -13,   /* two things that must agree do not (shape, tie, vocabulary); the text gives both */
  EMBED_E_CALLBACK = -14,   /* the caller's executor or callback failed; outputs unspecified */
  EMBED_E_NONFINITE = -15   /* NaN or infinity where the call was asked to refuse it, or a row with nothing to rank; embed_error_at() is its position */
};
typedef int32_t embed_dtype; /* values are ABI: never renumbered, never reused; 64 + ggml type id for GGUF blocks */
enum {
  EMBED_DTYPE_NONE = -1,
  EMBED_F32 = 0, EMBED_F16 = 1, EMBED_BF16 = 2, EMBED_F64 = 3, EMBED_F8_E4M3 = 4, EMBED_F8_E5M2 = 5,
  /* Row layouts are ABI; all fields little-endian, any alignment. */
  EMBED_I8_ROW = 16,   /* int8[dim], then f32 scale: scale * q, q in [-127, 127] */
  EMBED_I4_GROUP = 17, /* per group of 32, 64 or 128 columns: f16 scale, then group/2 bytes; within 32 columns byte j holds column j (low) and j + 16 (high): scale * (nibble - 8); encoded per group as ggml's Q4_0 (group 32 gives its bytes); a short last group is stored whole */
  EMBED_U8_ROW = 18,   /* uint8[dim], then f32 scale and f32 bias: fma(scale, q, bias) (FBGEMM's row) */
  EMBED_U4_ROW = 19,   /* ceil(dim / 2) bytes, column 2 i in the low and 2 i + 1 in the high bits of byte i, then f16 scale and f16 bias: scale * q + bias (FBGEMM's row of 4 bits) */
  EMBED_U2_ROW = 20,   /* ceil(dim / 4) bytes, columns 4 i .. 4 i + 3 from the low bits of byte i up, then as EMBED_U4_ROW */
  EMBED_PQ = 32,       /* product-quantised: ceil(dim / group) codes of 1 byte, each the number of its part's centroid; group = columns of a part; the centroids are the table's (embed_table_view_pq) */
  EMBED_Q4_0 = 66, EMBED_Q4_1 = 67, EMBED_Q5_0 = 70, EMBED_Q5_1 = 71, EMBED_Q8_0 = 72,
  EMBED_Q2_K = 74, EMBED_Q3_K = 75, EMBED_Q4_K = 76, EMBED_Q5_K = 77, EMBED_Q6_K = 78,
  EMBED_IQ4_NL = 84, EMBED_IQ4_XS = 87, EMBED_MXFP4 = 103, EMBED_NVFP4 = 104
};
typedef struct embed_context embed_context;     /* scratch, last error, ISA, executor: one thread at a time */
typedef struct embed_pool embed_pool;           /* worker threads, shareable by contexts */
typedef struct embed_table embed_table;         /* [rows, dim] matrix, reference-counted */
typedef struct embed_head embed_head;           /* a table seen from the output side */
typedef struct embed_result embed_result;       /* what one sweep found; reusable */
typedef struct embed_rules embed_rules;         /* one sequence's bans, biases and history */
typedef struct embed_candidates embed_candidates; /* a distribution from which sampled losses draw */
typedef struct embed_huffman embed_huffman;     /* the tree of a hierarchical softmax */
typedef struct embed_grad embed_grad;           /* gradient of a table: sparse rows or dense */
typedef struct embed_optimizer embed_optimizer; /* per-row optimiser state of one table */
typedef struct embed_file embed_file;           /* opened and fully validated checkpoint, reference-counted */
typedef struct embed_writer embed_writer;       /* a file being written; nothing has its name before commit */

/**
 * embed_version: the version of the library that was loaded; EMBED_VERSION is the header's.
 *
 *   major << 16 | minor << 8 | patch
 *
 * Errors   none.
 * Threads  any.
 * Cost     none.
 * Since    0.1.
 */
EMBED_API uint32_t embed_version(void);                  /* EMBED_VERSION of the library loaded */
/**
 * embed_status_name: the constant's name, for logs. embed_error_text says what happened.
 *
 * Errors   "unknown status" for a number that is none.
 * Threads  any.
 * Cost     none.
 * Since    0.1.
 */
EMBED_API const char *embed_status_name(embed_status s); /* "EMBED_E_ID"; static, never NULL */
/**
 * embed_dtype_name: the name that embed_dtype_find takes: "f32", "f16", "bf16", "f64", "f8_e4m3", "f8_e5m2", "int8_row", "int4_group",
 * "uint8_row", "uint4_row", "uint2_row"; of GGUF's blocks "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
 * "iq4_nl", "iq4_xs", "mxfp4", "nvfp4"; of product-quantised rows "pq".
 *
 * Types    every dtype that a table may have.
 * Errors   NULL for what this library cannot store.
 * Threads  any.
 * Cost     a search of a short list.
 * Since    0.1.
 */
EMBED_API const char *embed_dtype_name(embed_dtype t);   /* "q8_0"; static, NULL = no such dtype */
/**
 * embed_dtype_find: the dtype of a name, letter by letter.
 *
 * Errors   EMBED_DTYPE_NONE for an unknown name or NULL.
 * Threads  any.
 * Cost     a search of a short list.
 * Since    0.1.
 */
EMBED_API embed_dtype embed_dtype_find(const char *name);
/**
 * embed_row_bytes: bytes of one packed row.
 *
 * Shapes   dim columns, at least 1; group columns per scale (0 = 32, else 32, 64 or 128), used by grouped dtypes alone; of EMBED_PQ
 *          columns of a part, at least 1.
 * Types    any dtype of this library.
 * Errors   returned: E_UNSUPPORTED (a dim that is no whole number of blocks), E_ARGUMENT (no dtype, dim, group), E_OVERFLOW.
 * Threads  any.
 * Cost     none.
 * Since    0.1.
 */
EMBED_FN int64_t embed_row_bytes(embed_dtype t, int64_t dim, int32_t group); /* packed row, or a status < 0 */

#ifdef __cplusplus
}
#endif
#endif
