/* SPDX-License-Identifier: BSD-3-Clause */
#include <embed/embed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 100, MOST = 32 };

/* Where a network would be: the state leans towards the last token's row. */
static void network(float *hidden, const float *row) {
  for (int j = 0; j < DIM; ++j) hidden[j] = 0.5f * hidden[j] + row[j];
}

static int said(const int32_t *tokens, int n, int32_t id) {
  while (n > 0)
    if (tokens[--n] == id) return 1;
  return 0;
}

static embed_status decode(embed_context *ctx, const embed_table *table, const embed_head *head, int32_t *tokens, int n) {
  float hidden[DIM] = {0}, row[DIM], logits[MOST];
  int32_t best[MOST];
  embed_status status = EMBED_OK;
  for (int step = 1; step < n && !status; ++step) {
    status = embed_lookup(ctx, table, &tokens[step - 1], 1, row, EMBED_F32, 0, NULL); /* token -> vector */
    if (status) break;
    network(hidden, row);
    status = embed_topk(ctx, head, hidden, EMBED_F32, 1, 0, step + 1, best, logits, NULL, NULL, NULL); /* state -> tokens */
    int pick = 0;
    while (!status && said(tokens, step, best[pick])) ++pick; /* no word twice */
    tokens[step] = best[pick];
  }
  return status;
}

int main(int argc, char **argv) {
  embed_context *ctx = NULL;
  embed_file *file = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  int64_t first = -1;
  int32_t tokens[MOST];
  int n = argc == 4 ? atoi(argv[3]) : 0;
  if (n < 1 || n >= MOST || embed_context_create(NULL, &ctx)) return 2;
  embed_status status = embed_file_open(ctx, argv[1], NULL, &file);
  if (!status) status = embed_file_table(ctx, file, -1, &table);
  if (!status) status = embed_file_head(ctx, file, table, NULL, &head); /* tied, if the file is */
  if (!status) status = embed_file_token_id(ctx, file, argv[2], (int64_t)strlen(argv[2]), &first);
  if (!status && embed_table_dim(table) != DIM) return fprintf(stderr, "this program is for %d columns\n", DIM), 1;
  tokens[0] = (int32_t)first;
  if (!status) status = decode(ctx, table, head, tokens, n);
  if (status) fprintf(stderr, "%s\n", embed_error_text(ctx));
  for (int i = 0; i < n && !status; ++i) printf("%s%s", embed_file_token(file, tokens[i], NULL), i + 1 < n ? " " : "\n");
  embed_head_release(head);
  embed_table_release(table);
  embed_file_release(file);
  embed_context_release(ctx);
  return status != EMBED_OK;
}
