/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call begins and ends: declared in error.h beside how it fails. */
#include <inttypes.h>
#include <unistd.h>

#include "core/error.h"

embed_status embed__begin(embed_context *ctx) {
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  embed__scratch_reset(&ctx->scratch, &ctx->memory);
  if (ctx->pool && ctx->pool_pid != (int64_t)getpid())
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "this context's pool has its threads in process %" PRId64 ", not in the forked child", ctx->pool_pid);
  return EMBED_OK;
}

embed_status embed__end(embed_context *ctx, embed_status status) {
  embed__scratch_keep(&ctx->scratch, &ctx->memory, ctx->max_scratch);
  return status;
}
