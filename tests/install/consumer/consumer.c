/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody else's program: exit status 0 when the installed library answers. */
#include <embed/embed.h>
#include <string.h>

int main(void) {
  embed_context *ctx = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  const float rows[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const int32_t id = 1;
  float row[3] = {0}, logits[2] = {0};
  int wrong = embed_version() != EMBED_VERSION;
  wrong |= embed_context_create(NULL, &ctx) != EMBED_OK;
  wrong |= embed_table_view(ctx, rows, 2, 3, NULL, NULL, NULL, &table) != EMBED_OK;
  wrong |= embed_lookup(ctx, table, &id, 1, row, EMBED_F32, 0, NULL) != EMBED_OK;
  wrong |= embed_head_create(ctx, table, NULL, NULL, &head) != EMBED_OK;
  wrong |= embed_logits(ctx, head, row, EMBED_F32, 1, 0, logits, 0, NULL) != EMBED_OK;
  wrong |= memcmp(row, rows[1], sizeof row) != 0 || logits[0] != 32 || logits[1] != 77;
  embed_head_release(head);
  embed_table_release(table);
  embed_context_release(ctx);
  return wrong;
}
