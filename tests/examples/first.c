/* SPDX-License-Identifier: BSD-3-Clause */
#include <embed/embed.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  embed_context *ctx = NULL;
  embed_file *file = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  int64_t id = -1;
  int32_t best[3];
  float row[100], logits[3];
  if (argc != 3 || embed_context_create(NULL, &ctx)) return 2;
  if (embed_file_open(ctx, argv[1], NULL, &file) || embed_file_table(ctx, file, -1, &table) ||
      embed_file_token_id(ctx, file, argv[2], (int64_t)strlen(argv[2]), &id) ||       /* token -> id */
      embed_lookup_i64(ctx, table, &id, 1, row, EMBED_F32, 0, NULL) ||                /* id -> vector */
      embed_head_create(ctx, table, NULL, NULL, &head) ||                             /* tied: the same table */
      embed_topk(ctx, head, row, EMBED_F32, 1, 0, 3, best, logits, NULL, NULL, NULL)) /* vector -> tokens */
    return fprintf(stderr, "%s\n", embed_error_text(ctx)), 1;
  for (int i = 0; i < 3; ++i) printf("%s %.4f\n", embed_file_token(file, best[i], NULL), (double)logits[i]);
  embed_head_release(head);
  embed_table_release(table);
  embed_file_release(file);
  embed_context_release(ctx);
  return 0;
}
