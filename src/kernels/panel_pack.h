/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an element of a row stands in a panel of floats, and copying it there: the layout's specification, and what the
 * vector levels do with rows that do not fill their registers. */
#ifndef EMBED__PANEL_PACK_H
#define EMBED__PANEL_PACK_H

#include <string.h>

#include "kernels/panel.h"
#include "kernels/template.h"

INLINE int64_t panel_element_bytes(embed__panel_form form) { return form == EMBED__PANEL_F32 ? 4 : 2; }
INLINE int64_t panel_columns(embed__panel_form form, int64_t dim) { return form == EMBED__PANEL_F32 ? dim : dim + dim % 2; } /* with the one of zeros */

INLINE int64_t panel_position(embed__panel_form form, int64_t column, int64_t lane) {
  if (form == EMBED__PANEL_F32) return 64 * column + 4 * lane;
  if (form == EMBED__PANEL_F16) return 32 * column + 2 * lane;
  return 64 * (column / 2) + 4 * lane + 2 * (column % 2);
}

/* Columns from `first` on. */
INLINE void panel_put(embed__panel_form form, const void *rows, int64_t row_bytes, int64_t count, int64_t first, int64_t dim, unsigned char *panel) {
  const int64_t bytes = panel_element_bytes(form);
  for (int64_t lane = 0; lane < EMBED__PANEL_ROWS; ++lane) {
    const unsigned char *row = (const unsigned char *)rows + lane * row_bytes;
    for (int64_t j = first; j < panel_columns(form, dim); ++j) {
      unsigned char *at = panel + panel_position(form, j, lane);
      if (lane < count && j < dim)
        memcpy(at, row + j * bytes, (size_t)bytes);
      else
        memset(at, 0, (size_t)bytes);
    }
  }
}

#endif
