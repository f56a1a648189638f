/* SPDX-License-Identifier: BSD-3-Clause */
/* Products by the library's own kernels, in place where the stored form has some, else on rows decoded a few at a time. */
#include <stddef.h>

#include "core/checked.h"
#include "sweep/sweep.h"

enum {
  DECODED_ROWS = 32, /* stay in L2 beside the hidden vectors */
  FEW_HIDDEN = 4     /* one pass of the kernels that decode in registers; the bits are the same */
};

int64_t embed__decoded_rows(const embed_table *t) { return t->codec->stored < 0 ? DECODED_ROWS : 0; }

int64_t embed__decoded_floats(const embed_table *t) {
  int64_t floats;
  (void)embed__mul(embed__decoded_rows(t), t->dim, &floats); /* -1 where that does not fit */
  return floats;
}

void embed__product(const embed__kernels *k, const embed_table *t, int64_t first, int64_t count, const float *x, int64_t ldx, int64_t n, float *decoded,
                    float *z, int64_t ldz) {
  embed__dot_blocks *blocks = n <= FEW_HIDDEN ? k->dot_blocks.tile[t->codec->form] : NULL;
  if (t->codec->stored >= 0 || blocks) {
    const unsigned char *rows;
    for (int64_t done = 0, together, stride; done < count; done += together) {
      together = embed__rows_together(t, first + done, count - done, &rows, &stride);
      if (blocks)
        blocks(rows, stride, together, x, ldx, n, t->dim, t->group, z + done, ldz);
      else
        k->dot.tile[t->codec->stored](rows, stride, together, x, ldx, n, t->dim, z + done, ldz);
    }
    return;
  }
  for (int64_t done = 0; done < count; done += DECODED_ROWS) {
    int64_t rows = embed__min(DECODED_ROWS, count - done);
    for (int64_t r = 0; r < rows; ++r) embed__decode_stored(k, t, first + done + r, decoded + r * t->dim, 1.0f);
    k->dot.tile[EMBED__STORED_F32](decoded, 4 * t->dim, rows, x, ldx, n, t->dim, z + done, ldz);
  }
}

void embed__merge_tree(void *states, int64_t count, size_t state_bytes, void (*merge)(void *a, const void *b)) {
  unsigned char *state = states;
  for (int64_t step = 1; step < count; step *= 2)
    for (int64_t i = 0; i + step < count; i += 2 * step) merge(state + (size_t)i * state_bytes, state + (size_t)(i + step) * state_bytes);
}
