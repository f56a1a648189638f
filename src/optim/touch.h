/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__TOUCH_H
#define EMBED__TOUCH_H

#include "optim/optim.h"

/* All rows stand at o->step afterwards, frozen ones with the bits that they had. Nothing is done for kinds that are not deferred. */
embed_status embed__touch_all(embed_context *ctx, embed_optimizer *o, embed_table *t);

#endif
