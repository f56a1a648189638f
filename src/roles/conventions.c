/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/options.h"
#include "roles/roles.h"

/* Plain tables: rows and logits as they are. */
embed_conventions embed__file_conventions(const embed_file *f) {
  (void)f;
  return (embed_conventions){.size = sizeof(embed_conventions), .lookup_scale = 1.0f, .scale_round = EMBED_F32, .logit_scale = 1.0f};
}

embed_status embed_file_conventions(embed_context *ctx, const embed_file *f, embed_conventions *out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  const embed_conventions c = embed__file_conventions(f);
  return embed__output(ctx, "out", out, &c, sizeof c);
}
