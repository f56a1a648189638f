/* SPDX-License-Identifier: BSD-3-Clause */
#include "head/head.h"

#include <inttypes.h>

#include "core/options.h"
#include "roles/roles.h"

static embed_status check_options(embed_context *ctx, const embed_head_options *given, embed_head_options *o) {
  const uint32_t later = EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH, both = EMBED_HEAD_REQUIRE_TIED | EMBED_HEAD_REQUIRE_UNTIED;
  EMBED__TRY(embed__options(ctx, "embed_head_options", given, EMBED_HEAD_BLAS | EMBED_HEAD_RAW | later | both, o, sizeof *o));
  if (o->flags & later) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "prepared and sketched heads are not in this version");
  if ((o->flags & both) == both) return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_HEAD_REQUIRE_TIED and REQUIRE_UNTIED exclude each other");
  return EMBED_OK;
}

static embed_status tied_head(embed_context *ctx, const embed_file *f, const embed_table *table, embed_head_options *o, embed_head **out) {
  const embed_conventions file = embed__file_conventions(f);
  const embed__tensor *tokens = &f->tensors[f->roles[EMBED_ROLE_TOKEN]];
  embed_table *opened = NULL;
  if (o->flags & EMBED_HEAD_REQUIRE_UNTIED)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is no head of its own: \"%.100s\" is the token table and the only one of %" PRId64 " tensors",
                       f->label, tokens->name, f->tensor_count);
  if (!(o->flags & EMBED_HEAD_RAW)) {
    if (o->logit_scale == 0) o->logit_scale = file.logit_scale;
    if (o->logit_softcap == 0) o->logit_softcap = file.logit_softcap;
  }
  o->flags &= EMBED_HEAD_BLAS;
  if (!table) EMBED__TRY(embed__file_table(ctx, f, -1, &opened));
  embed_status status = embed__head_new(ctx, table ? table : opened, NULL, o, out);
  embed__table_release(opened); /* the head has its own reference */
  return status;
}

embed_status embed_file_head(embed_context *ctx, const embed_file *f, const embed_table *table, const embed_head_options *opts, embed_head **out) {
  embed_head_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(check_options(ctx, opts, &o));
  return embed__end(ctx, tied_head(ctx, f, table, &o, out));
}
