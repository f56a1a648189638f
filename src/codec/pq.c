/* SPDX-License-Identifier: BSD-3-Clause */
/* Product-quantised rows: codes alone, which mean something beside a table's centroids. table/pq.c decodes them (embed__decode_stored), and
 * nothing encodes: to find centroids is a training of its own. Whoever calls these two has forgotten to ask for the codebook. */
#include "codec/codec.h"

const embed__codec embed__codec_pq = {-1, false, true, NULL, NULL, EMBED__FORM_pq};
