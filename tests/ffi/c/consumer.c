/* SPDX-License-Identifier: BSD-3-Clause */
/* What a C program does with the installed library: consumer FOLDER_OF_TEST_DATA. C99; no file of this project but <embed/embed.h>. */
#include <embed/embed.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 257, DIM = 24, IDS = 64, THREADS = 64 };

#define MUST(condition)                                                       \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "consumer.c:%d: %s is not so\n", __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define OK(call) MUST((call) == EMBED_OK)

static int32_t ids[IDS];
static float rows[IDS * DIM];

static embed_context *context(const char *isa, embed_pool *pool) {
  embed_context *ctx = NULL;
  embed_context_options o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.isa = isa;
  o.pool = pool;
  OK(embed_context_create(&o, &ctx));
  return ctx;
}

static embed_table *random_table(embed_context *ctx) {
  embed_table *t = NULL;
  embed_init_options o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.kind = EMBED_INIT_NORMAL;
  o.scale = 1;
  o.seed = 5;
  OK(embed_table_create(ctx, ROWS, DIM, NULL, &t));
  OK(embed_table_init(ctx, t, &o));
  return t;
}

static void three_views_agree(embed_context *ctx, const embed_table *t) {
  static float one_hot[IDS * ROWS], mixed[IDS * DIM], scalar_rows[IDS * DIM];
  embed_context *scalar = context("scalar", NULL);
  int i;
  for (i = 0; i < IDS; ++i) {
    ids[i] = i * 37 % ROWS;
    one_hot[i * ROWS + ids[i]] = 1;
  }
  OK(embed_lookup(ctx, t, ids, IDS, rows, EMBED_F32, 0, NULL));
  OK(embed_lookup(scalar, t, ids, IDS, scalar_rows, EMBED_F32, 0, NULL));
  OK(embed_mix(ctx, t, one_hot, IDS, 0, mixed, 0, NULL));
  MUST(memcmp(rows, scalar_rows, sizeof rows) == 0);
  MUST(memcmp(rows, mixed, sizeof rows) == 0);
  MUST(memcmp(rows, (const float *)embed_table_data(t) + ids[0] * DIM, DIM * sizeof(float)) == 0);
  printf("three views  agree on %d rows (%s, %s, one-hot mix)\n", IDS, embed_context_isa(scalar), embed_context_isa(ctx));
  embed_context_release(scalar);
}

static void the_tied_head_mirrors_the_table(embed_context *ctx, const embed_table *t, embed_head *h) {
  static float logits[ROWS];
  float unit[DIM] = {0}, best[3];
  int32_t best_ids[3], count;
  int v, largest = 0;
  unit[3] = 1;
  MUST(embed_head_is_tied(h, t) == 1);
  OK(embed_logits(ctx, h, unit, EMBED_F32, 1, 0, logits, 0, NULL));
  for (v = 0; v < ROWS; ++v) {
    MUST(logits[v] == ((const float *)embed_table_data(t))[v * DIM + 3]);
    if (logits[v] > logits[largest]) largest = v;
  }
  OK(embed_topk(ctx, h, unit, EMBED_F32, 1, 0, 3, best_ids, best, NULL, &count, NULL));
  MUST(best_ids[0] == largest && best[0] == logits[largest] && count == 3 && best[0] >= best[1] && best[1] >= best[2]);
  printf("tied head    unit vector gives column 3; top-k %d %d %d\n", best_ids[0], best_ids[1], best_ids[2]);
}

static void one_sweep_answers(embed_context *ctx, embed_head *h) {
  static float logits[IDS * ROWS], best[IDS * 3], sums[IDS];
  static int32_t best_ids[IDS * 3], targets[IDS];
  const float *logprobs;
  embed_result *r = NULL;
  embed_sweep_options o;
  int64_t n = -1, k = -1;
  int i;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.k = 3;
  o.ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK;
  OK(embed_topk(ctx, h, rows, EMBED_F32, IDS, 0, 3, best_ids, best, sums, NULL, NULL));
  OK(embed_logits(ctx, h, rows, EMBED_F32, IDS, 0, logits, 0, NULL));
  for (i = 0; i < IDS; ++i) targets[i] = best_ids[i * 3 + i % 3];
  OK(embed_result_create(ctx, &r));
  OK(embed_sweep(ctx, h, rows, EMBED_F32, 0, NULL, IDS, targets, NULL, NULL, 0, &o, r));
  MUST(memcmp(embed_result_i32(r, EMBED_ASK_TOPK_IDS, &n, &k), best_ids, sizeof best_ids) == 0 && n == IDS && k == 3);
  MUST(memcmp(embed_result_f32(r, EMBED_ASK_TOPK_LOGITS, NULL, NULL), best, sizeof best) == 0);
  logprobs = embed_result_f32(r, EMBED_ASK_TARGET_LOGPROB, &n, &k);
  MUST(logprobs && n == IDS && k == 1 && embed_result_f32(r, EMBED_ASK_ENTROPY, NULL, NULL) == NULL);
  for (i = 0; i < IDS; ++i) {
    MUST(embed_result_i32(r, EMBED_ASK_TARGET_RANK, NULL, NULL)[i] == i % 3 + 1);
    MUST(fabsf(logprobs[i] - (logits[i * ROWS + targets[i]] - sums[i])) < 1e-4f);
  }
  targets[5] = ROWS;
  MUST(embed_sweep(ctx, h, rows, EMBED_F32, 0, NULL, IDS, targets, NULL, NULL, 0, &o, r) == EMBED_E_ID && embed_error_at(ctx) == 5);
  embed_result_release(r);
  printf("one sweep    the best %d, log-probability and rank of %d targets\n", 3, IDS);
}

static void rules_and_seeds_decide_what_is_drawn(embed_context *ctx, embed_head *h) {
  int32_t best[2], first[IDS], again[IDS];
  float logits[2], logprob;
  embed_rules *rules = NULL;
  const embed_rules *of_row[1];
  embed_sample_params p;
  int i, drawn = 0;
  memset(&p, 0, sizeof p);
  p.size = sizeof p;
  OK(embed_topk(ctx, h, rows, EMBED_F32, 1, 0, 2, best, logits, NULL, NULL, NULL));
  OK(embed_rules_create(ctx, ROWS, &rules));
  OK(embed_rules_ban(ctx, rules, best, 1));
  of_row[0] = rules;
  OK(embed_sample(ctx, h, rows, EMBED_F32, 1, 0, of_row, &p, 1, first, &logprob, NULL));
  MUST(first[0] == best[1] && logprob < 0);
  embed_rules_clear(rules);
  OK(embed_rules_push(ctx, rules, best, 2));
  OK(embed_rules_pop(ctx, rules, 1));
  MUST(embed_rules_pop(ctx, rules, 2) == EMBED_E_ARGUMENT);
  p.temperature = 3;
  for (i = 0; i < IDS; ++i) {
    p.position = i;
    OK(embed_sample(ctx, h, rows, EMBED_F32, 1, 0, of_row, &p, 1, first + i, NULL, NULL));
    OK(embed_sample(ctx, h, rows, EMBED_F32, 1, 0, NULL, &p, 1, again + i, NULL, NULL));
    drawn += first[i] != first[0];
  }
  MUST(memcmp(first, again, sizeof first) == 0 && drawn > 0); /* without penalties a history does not matter */
  embed_rules_release(rules);
  printf("sampling     a banned token is not drawn; position and seed decide which is\n");
}

static void a_wrong_id_says_where(embed_context *ctx, const embed_table *t) {
  const int32_t wrong[4] = {0, 1, 2, 50257};
  float out[4 * DIM];
  int i;
  for (i = 0; i < 4 * DIM; ++i) out[i] = -7;
  MUST(embed_lookup(ctx, t, wrong, 4, out, EMBED_F32, 0, NULL) == EMBED_E_ID);
  MUST(embed_error_at(ctx) == 3);
  MUST(strstr(embed_error_text(ctx), "50257") && strstr(embed_error_text(ctx), "position 3"));
  for (i = 0; i < 4 * DIM; ++i) MUST(out[i] == -7);
  printf("wrong id     %s, at %ld: %s\n", embed_status_name(EMBED_E_ID), (long)embed_error_at(ctx), embed_error_text(ctx));
  MUST(embed_lookup(ctx, t, wrong, -1, out, EMBED_F32, 0, NULL) == EMBED_E_ARGUMENT);
  MUST(embed_lookup(ctx, NULL, wrong, 1, out, EMBED_F32, 0, NULL) == EMBED_E_ARGUMENT);
  MUST(embed_lookup(ctx, t, NULL, 1, out, EMBED_F32, 0, NULL) == EMBED_E_ARGUMENT);
  OK(embed_lookup(ctx, t, NULL, 0, NULL, EMBED_F32, 0, NULL));
}

static void a_file_opens(embed_context *ctx, const char *folder) {
  char path[4096];
  embed_file *file = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  int64_t king = -1;
  int32_t best[3];
  float row[100], logits[3];
  int i;
  snprintf(path, sizeof path, "%s/glove-2000x100.bin", folder);
  OK(embed_file_open(ctx, path, NULL, &file));
  OK(embed_file_table(ctx, file, -1, &table));
  OK(embed_file_head(ctx, file, table, NULL, &head));
  OK(embed_file_token_id(ctx, file, "king", 4, &king));
  OK(embed_lookup_i64(ctx, table, &king, 1, row, EMBED_F32, 0, NULL));
  OK(embed_topk(ctx, head, row, EMBED_F32, 1, 0, 3, best, logits, NULL, NULL, NULL));
  for (i = 0; i < 3; ++i) printf("%s %s %.4f\n", i ? "            " : "file        ", embed_file_token(file, best[i], NULL), (double)logits[i]);
  MUST(strcmp(embed_file_token(file, best[2], NULL), "queen") == 0 && fabsf(logits[2] - 27.5883f) < 1e-3f);
  embed_file_release(file);
  embed_head_release(head);
  embed_table_release(table);
  MUST(embed_file_open(ctx, "/no/such/file", NULL, &file) == EMBED_E_IO && file == NULL);
}

typedef struct shared {
  const embed_table *table;
  const embed_head *head;
  embed_pool *pool;
  int32_t best[IDS];
  int number;
} shared;

static void *one_of_many(void *arg) {
  const shared *s = (const shared *)arg;
  embed_context *ctx = context(NULL, s->pool);
  float mine[IDS * DIM], logits[IDS];
  int32_t best[IDS], wrong = -1 - s->number;
  int round;
  for (round = 0; round < 20; ++round) {
    OK(embed_lookup(ctx, s->table, ids, IDS, mine, EMBED_F32, 0, NULL));
    MUST(memcmp(mine, rows, sizeof mine) == 0);
    OK(embed_topk(ctx, s->head, mine, EMBED_F32, IDS, 0, 1, best, logits, NULL, NULL, NULL));
    MUST(memcmp(best, s->best, sizeof best) == 0);
    MUST(embed_lookup(ctx, s->table, &wrong, 1, mine, EMBED_F32, 0, NULL) == EMBED_E_ID && embed_error_at(ctx) == 0);
  }
  embed_context_release(ctx);
  return NULL;
}

static void many_threads_share_one_table(embed_context *ctx, const embed_table *t, const embed_head *h) {
  pthread_t threads[THREADS];
  static shared each[THREADS];
  float logits[IDS];
  embed_pool *pool = NULL;
  int i;
  OK(embed_pool_create(2, &pool));
  for (i = 0; i < THREADS; ++i) {
    each[i].table = t;
    each[i].head = h;
    each[i].pool = pool;
    each[i].number = i;
    OK(embed_topk(ctx, h, rows, EMBED_F32, IDS, 0, 1, each[i].best, logits, NULL, NULL, NULL));
    MUST(pthread_create(&threads[i], NULL, one_of_many, &each[i]) == 0);
  }
  for (i = 0; i < THREADS; ++i) MUST(pthread_join(threads[i], NULL) == 0);
  embed_pool_release(pool);
  printf("%d threads   on one table, head and pool: the same bits\n", THREADS);
}

int main(int argc, char **argv) {
  embed_context *ctx = context(NULL, NULL);
  embed_table *t = random_table(ctx);
  embed_head *h = NULL;
  MUST(argc == 2);
  MUST(embed_version() == EMBED_VERSION);
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  three_views_agree(ctx, t);
  the_tied_head_mirrors_the_table(ctx, t, h);
  one_sweep_answers(ctx, h);
  rules_and_seeds_decide_what_is_drawn(ctx, h);
  a_wrong_id_says_where(ctx, t);
  a_file_opens(ctx, argv[1]);
  many_threads_share_one_table(ctx, t, h);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  return 0;
}
