/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call begins, fails and ends. Every public call that can fail starts with EMBED__BEGIN; one that takes
 * scratch returns through embed__end. */
#ifndef EMBED__ERROR_H
#define EMBED__ERROR_H

#include <stddef.h>

#include "core/context.h"

/* Records the failure in ctx and returns status. at: position of the offending item or byte, -1 = none.
 * The text says what, where, and the two numbers; no %f or %g in it (they follow the host's locale). */
__attribute__((format(printf, 4, 5))) embed_status embed__fail(embed_context *ctx, embed_status status, int64_t at, const char *format, ...);
embed_status embed__out_of_memory(embed_context *ctx, int64_t bytes); /* bytes < 0: a size that does not fit */
embed_status embed__null(embed_context *ctx, const char *argument);   /* "argument is NULL" */

/* Clears the last error and gives scratch of the last call back to this one; E_UNSUPPORTED in a forked child. */
embed_status embed__begin(embed_context *ctx);
/* Keeps at most max_scratch for the next call; returns status. */
embed_status embed__end(embed_context *ctx, embed_status status);

#define EMBED__TRY(call)                                   \
  do {                                                     \
    embed_status embed__status_ = (call);                  \
    if (embed__status_ != EMBED_OK) return embed__status_; \
  } while (0)

#define EMBED__BEGIN(ctx)                \
  do {                                   \
    if (!(ctx)) return EMBED_E_ARGUMENT; \
    EMBED__TRY(embed__begin(ctx));       \
  } while (0)

/* A handle or an out-parameter that must not be NULL. */
#define EMBED__NOT_NULL(ctx, argument)                     \
  do {                                                     \
    if (!(argument)) return embed__null((ctx), #argument); \
  } while (0)

#endif
