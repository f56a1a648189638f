/* SPDX-License-Identifier: BSD-3-Clause */
/* small_stack FILE: every kind of work under the limit that it is started with (ulimit -s 128), in main and in a thread of
 * 128 KiB. A fibre or a coroutine has no more. */
#include <embed/embed.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { N = 64, K = 40 };

#define DO(call)                                                                    \
  do {                                                                              \
    if (call) {                                                                     \
      fprintf(stderr, "line %d: %s\n", __LINE__, ctx ? embed_error_text(ctx) : ""); \
      return NULL;                                                                  \
    }                                                                               \
  } while (0)

static void *work(void *path) {
  embed_context *ctx = NULL;
  embed_pool *pool = NULL;
  embed_file *file = NULL;
  embed_table *table = NULL, *small = NULL;
  embed_head *head = NULL;
  embed_rules *rules = NULL;
  embed_result *result = NULL;
  embed_sweep_options all = {.size = sizeof all, .k = K, .ask = 1023};
  embed_sample_params draw = {.size = sizeof draw, .temperature = 1, .top_p = 0.99, .typical_p = 0.99, .min_p = 1e-9, .repetition = 1.1};
  DO(embed_pool_create(3, &pool));
  embed_context_options with = {.size = sizeof with, .pool = pool};
  DO(embed_context_create(&with, &ctx));
  DO(embed_file_open(ctx, path, NULL, &file));
  DO(embed_file_table(ctx, file, -1, &table));
  size_t dim = (size_t)embed_table_dim(table), vocab = (size_t)embed_table_vocab(table);
  float *rows = calloc(N * dim, sizeof *rows), *logits = calloc(N * vocab, sizeof *logits), scores[N * K], sums[N];
  int32_t ids[N], best[N * K], count[N];
  int64_t offsets[2] = {0, N};
  for (int i = 0; i < N; ++i) ids[i] = i;
  const embed_rules *of_row[N];
  DO(!rows || !logits);
  DO(embed_result_create(ctx, &result));
  DO(embed_rules_create(ctx, (int64_t)vocab, &rules));
  DO(embed_rules_ban(ctx, rules, ids, 9));
  DO(embed_rules_push(ctx, rules, ids, N));
  for (int i = 0; i < N; ++i) of_row[i] = rules;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP};
  for (int d = 0; d < 4; ++d) {
    embed_table_options to = {.size = sizeof to, .dtype = dtypes[d]};
    DO(embed_table_convert(ctx, table, &to, &small));
    DO(embed_lookup(ctx, small, ids, N, rows, EMBED_F32, 0, NULL));
    DO(embed_head_create(ctx, small, NULL, NULL, &head));
    DO(embed_logits(ctx, head, rows, EMBED_F32, N, 0, logits, 0, NULL)); /* with f32 through OpenBLAS */
    DO(embed_topk(ctx, head, rows, EMBED_F32, N, 0, K, best, scores, sums, count, NULL));
    DO(embed_sweep(ctx, head, rows, EMBED_F32, 0, NULL, N, ids, of_row, &draw, 1, &all, result));
    DO(embed_sample(ctx, head, rows, EMBED_F32, N, 0, NULL, &draw, 1, best, NULL, NULL));
    DO(embed_nearest(ctx, small, rows, N, 0, K, NULL, 0, best, scores, count, NULL));
    DO(embed_bag(ctx, small, ids, N, offsets, 1, NULL, rows, EMBED_F32, 0, NULL));
    DO(embed_mix(ctx, small, logits, 2, 0, rows, 0, NULL));
    DO(embed_norms(ctx, small, logits));
    embed_head_release(head);
    embed_table_release(small);
  }
  embed_result_release(result);
  embed_rules_release(rules);
  embed_table_release(table);
  embed_file_release(file);
  embed_context_release(ctx);
  embed_pool_release(pool);
  free(rows);
  free(logits);
  return path;
}

int main(int argc, char **argv) {
  struct rlimit limit;
  pthread_attr_t attributes;
  pthread_t thread;
  void *done = NULL;
  if (argc != 2 || getrlimit(RLIMIT_STACK, &limit)) return 2;
  if (!work(argv[1])) return 1;
  if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, 128 * 1024) || pthread_create(&thread, &attributes, work, argv[1]) ||
      pthread_join(thread, &done) || !done)
    return 1;
  printf("main's limit %lld KiB, a thread of 128 KiB: done\n", limit.rlim_cur == RLIM_INFINITY ? -1ll : (long long)limit.rlim_cur / 1024);
  return 0;
}
