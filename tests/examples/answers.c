/* SPDX-License-Identifier: BSD-3-Clause */
/* answers FILE WORD TARGET: what one sweep of the table says of a hidden state, here the word's own row. */
#include <embed/embed.h>
#include <stdio.h>
#include <string.h>

enum { K = 3, MOST = 4096 };

static embed_status find(embed_context *ctx, const embed_file *file, const char *word, int32_t *id) {
  int64_t row = -1;
  embed_status status = embed_file_token_id(ctx, file, word, (int64_t)strlen(word), &row);
  *id = (int32_t)row;
  return status;
}

static embed_status ask(embed_context *ctx, const embed_head *head, const float *hidden, int32_t target, const embed_rules *rules, embed_result *result) {
  embed_sample_params draw = {.size = sizeof draw, .seed = 1, .temperature = 1, .top_p = 0.9};
  embed_sweep_options all = {.size = sizeof all, .k = K, .ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOKEN};
  all.ask |= EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK | EMBED_ASK_ENTROPY; /* the head's own, without rules */
  return embed_sweep(ctx, head, hidden, EMBED_F32, 0, NULL, 1, &target, &rules, &draw, 1, &all, result);
}

static void print(const embed_file *file, const embed_result *result, const char *target) {
  const int32_t *best = embed_result_i32(result, EMBED_ASK_TOPK_IDS, NULL, NULL), *drawn = embed_result_i32(result, EMBED_ASK_TOKEN, NULL, NULL);
  const float *logprob = embed_result_f32(result, EMBED_ASK_TARGET_LOGPROB, NULL, NULL), *entropy = embed_result_f32(result, EMBED_ASK_ENTROPY, NULL, NULL);
  printf("best:");
  for (int i = 0; i < K; ++i) printf(" %s", embed_file_token(file, best[i], NULL));
  printf("\ndrawn: %s\n", embed_file_token(file, *drawn, NULL));
  printf("%s: log-probability %.3f, rank %d\n", target, (double)*logprob, (int)*embed_result_i32(result, EMBED_ASK_TARGET_RANK, NULL, NULL));
  printf("entropy: %.5f\n", (double)*entropy);
}

int main(int argc, char **argv) {
  embed_context *ctx = NULL;
  embed_file *file = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  embed_rules *rules = NULL;
  embed_result *result = NULL;
  float hidden[MOST];
  int32_t word = -1, target = -1;
  if (argc != 4 || embed_context_create(NULL, &ctx)) return 2;
  embed_status status = embed_file_open(ctx, argv[1], NULL, &file);
  if (!status) status = embed_file_table(ctx, file, -1, &table);
  if (!status) status = embed_file_head(ctx, file, table, NULL, &head);
  if (!status && embed_table_dim(table) > MOST) return fprintf(stderr, "this program is for %d columns\n", MOST), 1;
  if (!status) status = find(ctx, file, argv[2], &word);
  if (!status) status = find(ctx, file, argv[3], &target);
  if (!status) status = embed_lookup(ctx, table, &word, 1, hidden, EMBED_F32, 0, NULL);
  if (!status) status = embed_rules_create(ctx, embed_head_vocab(head), &rules);
  if (!status) status = embed_rules_ban(ctx, rules, &word, 1); /* any word but this one */
  if (!status) status = embed_result_create(ctx, &result);
  if (!status) status = ask(ctx, head, hidden, target, rules, result);
  if (status) fprintf(stderr, "%s\n", embed_error_text(ctx));
  if (!status) print(file, result, argv[3]);
  embed_result_release(result);
  embed_rules_release(rules);
  embed_head_release(head);
  embed_table_release(table);
  embed_file_release(file);
  embed_context_release(ctx);
  return status != EMBED_OK;
}
