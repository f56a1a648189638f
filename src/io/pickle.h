/* SPDX-License-Identifier: BSD-3-Clause */
/* The pickles that torch.save and torch.jit.save write, without Python: a machine with a stack and a memo that knows the opcodes of protocol 2 and the
 * plain ones of 3 to 5, and the names of pickle.def. It makes values of them and calls nothing: any other name, and every opcode that
 * would run code or ask for it (EXT, PERSID of text, INST, OBJ), fails with its byte.
 *
 * No recursion; memory is bounded by a multiple of the text: each opcode makes at most one value. */
#ifndef EMBED__PICKLE_H
#define EMBED__PICKLE_H

#include <stdbool.h>

#include "core/error.h"

typedef enum embed__pickle_kind {
  EMBED__PICKLE_UNSET, /* a place of the memo that nothing was put to */
  EMBED__PICKLE_MARK,
  EMBED__PICKLE_PLAIN,        /* whatever no tensor depends on: None, numbers with a fraction, bytes, sets, arrays of numpy */
  EMBED__PICKLE_INT,          /* place = the number; bools too */
  EMBED__PICKLE_TEXT,         /* text[place .. place + count) */
  EMBED__PICKLE_TUPLE,        /* items[place .. place + count); where it has any, items[place - 1].place is its box, -1 = none was asked for yet */
  EMBED__PICKLE_BOX,          /* boxes[place]: a dict, a list or an object */
  EMBED__PICKLE_STORED,       /* items[place]: the name of its member, items[place + 1]: how many elements; count: types[count] */
  EMBED__PICKLE_TENSOR,       /* items[place .. place + count): what it is rebuilt from */
  EMBED__PICKLE_NAME,         /* names[place] of pickle.def; one of PLAIN's */
  EMBED__PICKLE_OTHER_TENSOR, /* makes one that is not listed: sparse, quantised by torch, without a storage */
  EMBED__PICKLE_DICT_TYPE,
  EMBED__PICKLE_FILLED_DICT_TYPE, /* made with a default for the keys that it lacks */
  EMBED__PICKLE_REBUILD,
  EMBED__PICKLE_REBUILD_TYPED,
  EMBED__PICKLE_REBUILD_CLASS,
  EMBED__PICKLE_PARAMETER,
  EMBED__PICKLE_FIRST, /* makes what it is called with first */
  EMBED__PICKLE_CLASS, /* of TorchScript: makes an object */
  EMBED__PICKLE_TYPE   /* types[place]; count: 1 = it was called by its storage's name */
} embed__pickle_kind;

typedef struct embed__pickle_value {
  uint32_t kind, count;
  int64_t place;
} embed__pickle_value;

/* What hangs in a dict or a list that may be, or hold, tensors (with every_value: all of it). The key of a list's is its place. */
typedef struct embed__pickle_entry {
  embed__pickle_value key, value;
  uint32_t next; /* + 1; 0 = the last */
} embed__pickle_entry;

typedef struct embed__pickle_box {
  uint32_t first, last; /* entries + 1; 0 = none */
  uint32_t count;       /* of all values of a list, tensors or not */
  bool list, object;    /* object: its entries are its attributes, once it is built */
  unsigned char seen;   /* the walks' own */
} embed__pickle_box;

typedef struct embed__pickle_type {
  const char *storage, *name; /* storage: NULL = none */
  int64_t bytes;
  int32_t dtype;
} embed__pickle_type;
extern const embed__pickle_type embed__pickle_types[];

typedef struct embed__pickle {
  embed_context *ctx;
  const char *label;
  const unsigned char *text; /* [bytes], bytes < 2^31 */
  int64_t bytes, base, at;   /* base: where the text stands in the file; at: the opcode that is run, at last what follows the pickle */
  bool every_value;
  embed__pickle_value root;                             /* what was pickled */
  embed__pickle_value *stack, *memo, *items, *storages; /* storages: STORED ones, each as often as it is named */
  embed__pickle_box *boxes;
  embed__pickle_entry *entries;
  int64_t stack_count, memo_count, item_count, storage_count, box_count, entry_count;
  int64_t stack_room, memo_room, item_room, storage_room, box_room, entry_room;
  int64_t other_tensors; /* made and not listed */
  int64_t objects;
} embed__pickle;

/* ctx, label, text, bytes and base are set, all else zero. On failure too p wants to be freed. E_FORMAT: not a pickle; E_UNSUPPORTED: one
 * that holds more than tensors and plain values. The text may go on behind it: p->at. */
embed_status embed__pickle_read(embed__pickle *p);
/* A tuple's box is a list of its items, made once. */
embed_status embed__pickle_box_of(embed__pickle *p, const embed__pickle_value *tuple, int64_t *box);
void embed__pickle_free(embed__pickle *p);
/* A failure at byte `at` of the text: "LABEL: WHAT at byte N". */
embed_status embed__pickle_fail(const embed__pickle *p, embed_status status, int64_t at, const char *what);

#endif
