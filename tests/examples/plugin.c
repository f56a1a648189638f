/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin that uses libembed: its host loads it, calls it, unloads it, again and again. The pool outlives the plugin: libembed
 * itself stays loaded, so that its threads keep the code they sleep in. */
#include <embed/embed.h>

__attribute__((visibility("default"))) int plugin_start(int threads, void **pool) {
  embed_pool *made = NULL;
  int status = embed_pool_create(threads, &made);
  *pool = made;
  return status;
}

/* How many of the first 100 rows of a table are their own nearest row, on the pool's threads. */
__attribute__((visibility("default"))) int plugin_work(void *pool) {
  enum { ROWS = 5000, DIM = 32, N = 100 };
  static float rows[N * DIM], scores[N];
  embed_context_options with = {.size = sizeof with, .pool = pool};
  embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .seed = 3};
  embed_context *ctx = NULL;
  embed_table *table = NULL;
  int32_t ids[N], best[N];
  int mirrored = 0;
  for (int i = 0; i < N; ++i) ids[i] = i;
  if (embed_context_create(&with, &ctx)) return -1;
  if (!embed_table_create(ctx, ROWS, DIM, NULL, &table) && !embed_table_init(ctx, table, &normal) &&
      !embed_lookup(ctx, table, ids, N, rows, EMBED_F32, 0, NULL) && !embed_nearest(ctx, table, rows, N, 0, 1, NULL, 0, best, scores, NULL, NULL))
    for (int i = 0; i < N; ++i) mirrored += best[i] == i;
  embed_table_release(table);
  embed_context_release(ctx);
  return mirrored;
}

__attribute__((visibility("default"))) void plugin_stop(void *pool) { embed_pool_release(pool); }
