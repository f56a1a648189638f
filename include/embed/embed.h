/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/embed.h: the whole of libembed in one include. */
#ifndef EMBED_EMBED_H
#define EMBED_EMBED_H

#include <embed/context.h>
#include <embed/geometry.h>
#include <embed/head.h>
#include <embed/io.h>
#include <embed/lookup.h>
#include <embed/loss.h>
#include <embed/optim.h>
#include <embed/table.h>
#include <embed/types.h>

#endif
