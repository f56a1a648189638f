/* SPDX-License-Identifier: BSD-3-Clause */
#include "roles/roles.h"

#include "core/error.h"

/* A file of one tensor: it is the token table, and the head is tied to it. */
void embed__roles_resolve(embed_file *f) {
  f->roles[EMBED_ROLE_TOKEN] = 0;
  f->roles[EMBED_ROLE_HEAD] = 0;
}

embed_status embed_file_role(embed_context *ctx, const embed_file *f, embed_role role, int64_t *i) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, i);
  if (role < 0 || role >= EMBED__ROLES) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%d is no role: they are 0 to %d", role, EMBED__ROLES - 1);
  *i = f->roles[role];
  return EMBED_OK;
}
