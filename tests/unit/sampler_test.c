/* SPDX-License-Identifier: BSD-3-Clause */
/* Sampling from the logits of a row: known answers, both tiers against filters written here with a sort, the draw against
 * a Philox and a Gumbel written here. */
#include "test.h"

#include <math.h>
#include <stdbool.h>

#include "core/checked.h"
#include "core/context.h"
#include "core/cpu.h"
#include "core/error.h"
#include "head/sampler.h"
#include "sweep/sweep.h"

enum { MOST = 6000 };

static embed__kernels kernels;
static embed_context *context;

static int begin(void **state) {
  (void)state;
  embed__level_fill(embed__level_best(embed__cpu_let()), &kernels);
  return embed_context_create(NULL, &context) == EMBED_OK ? 0 : -1;
}
static int end(void **state) {
  (void)state;
  embed_context_release(context);
  return 0;
}

static embed__sampler sampler_of(embed_sample_params p, int64_t vocab) {
  const embed__sampler *samplers;
  int64_t stride;
  p.size = sizeof p;
  assert_int_equal(embed__begin(context), EMBED_OK);
  assert_int_equal(embed__samplers(context, &p, 1, 1, vocab, &samplers, &stride), EMBED_OK);
  assert_int_equal(stride, 0);
  return samplers[0];
}

/* What a draw says, and which columns survived. */
typedef struct answer {
  embed__outcome outcome;
  embed__drawn drawn;
  bool kept[MOST];
} answer;

static embed__statistics statistics_of_row(const embed__sampler *s, const float *z) {
  embed__statistics blocks[MOST / EMBED__BLOCK + 1];
  int64_t count = 0;
  for (int64_t at = 0; at < s->vocab; at += EMBED__BLOCK) blocks[count++] = embed__statistics_of(&kernels, s, z + at, embed__min(EMBED__BLOCK, s->vocab - at));
  embed__merge_tree(blocks, count, sizeof *blocks, embed__statistics_merge);
  return blocks[0];
}

/* As a sweep does it, tile by tile. */
static answer first_tier(const embed__sampler *s, const float *z) {
  static embed__ranked entries[EMBED__CANDIDATES];
  static answer a;
  memset(&a, 0, sizeof a);
  const embed__statistics whole = statistics_of_row(s, z);
  if (s->plain) {
    embed__gumbel g = embed__gumbel_start();
    for (int64_t at = 0; at < s->vocab; at += EMBED__BLOCK)
      embed__gumbel_offer(&kernels, s, &g, z + at, embed__min(EMBED__BLOCK, s->vocab - at), (int32_t)at, NULL);
    a.outcome = embed__sampler_take(s, &g, &whole, &a.drawn);
    return a;
  }
  embed__topk top = {.entries = entries, .capacity = s->keep};
  for (int64_t at = 0; at < s->vocab; at += EMBED__BLOCK)
    embed__topk_offer(&kernels, &top, z + at, embed__min(EMBED__BLOCK, s->vocab - at), (int32_t)at, NULL, 0);
  embed__topk_sort(&top);
  a.outcome = embed__sampler_draw(s, entries, top.count, s->needs_statistics || s->greedy ? &whole : NULL, NULL, &a.drawn);
  if (a.outcome == EMBED__DRAWN && !s->greedy)
    for (int64_t i = 0; i < a.drawn.survivors; ++i) a.kept[entries[i].id] = true;
  return a;
}

static answer second_tier(const embed__sampler *s, const float *z) {
  static float copy[MOST];
  static embed__weighed room[MOST];
  static answer a;
  memset(&a, 0, sizeof a);
  memcpy(copy, z, (size_t)s->vocab * sizeof *z);
  a.outcome = embed__sampler_draw_all(&kernels, s, copy, NULL, room, &a.drawn);
  if (a.outcome == EMBED__DRAWN && !s->greedy && !s->plain)
    for (int64_t i = 0; i < s->vocab; ++i) a.kept[i] = copy[i] > -INFINITY;
  return a;
}

/* The filters by their definitions: probabilities of the survivors, sorted each time. */
typedef struct entry {
  double z, p, key;
  int id;
} entry;
static int by_value(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return x->z != y->z ? (x->z > y->z ? -1 : 1) : x->id - y->id;
}
static int by_key(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return x->key != y->key ? (x->key < y->key ? -1 : 1) : by_value(a, b);
}

static void renormalise(entry *e, int n, double temperature) {
  double sum = 0, largest = -INFINITY;
  for (int i = 0; i < n; ++i) largest = fmax(largest, e[i].z);
  for (int i = 0; i < n; ++i) sum += exp(e[i].z / temperature - largest / temperature);
  for (int i = 0; i < n; ++i) e[i].p = exp(e[i].z / temperature - largest / temperature) / sum;
}

static int shortest_prefix(const entry *e, int n, double p, int min_keep) {
  double sum = 0;
  int keep = 0;
  while (keep < n && (sum < p || keep < min_keep)) sum += e[keep++].p;
  return keep;
}

static int reference(const embed_sample_params *q, const float *z, int vocab, entry *e) {
  static const char orders[2][6] = {"skpmt", "sktpm"};
  const double t = q->order == EMBED_ORDER_HF ? q->temperature : 1;
  const int min_keep = q->min_keep ? q->min_keep : 1;
  int n = 0;
  for (int i = 0; i < vocab; ++i)
    if (z[i] > -INFINITY) e[n++] = (entry){.z = (double)z[i], .id = i};
  for (const char *filter = orders[q->order]; *filter; ++filter) {
    int keep = n;
    qsort(e, (size_t)n, sizeof *e, by_value);
    renormalise(e, n, t);
    if (*filter == 's' && q->top_n_sigma > 0) {
      double mean = 0, variance = 0;
      for (int i = 0; i < n; ++i) mean += e[i].z / n;
      for (int i = 0; i < n; ++i) variance += (e[i].z - mean) * (e[i].z - mean) / n;
      for (keep = 0; keep < n && e[keep].z >= e[0].z - q->top_n_sigma * sqrt(variance);) ++keep;
    } else if (*filter == 'k' && q->top_k > 0) {
      keep = q->top_k < n ? q->top_k : n;
    } else if (*filter == 'p' && q->top_p > 0 && q->top_p < 1) {
      keep = shortest_prefix(e, n, q->top_p, min_keep);
    } else if (*filter == 'm' && q->min_p > 0) {
      for (keep = 0; keep < n && (q->order == EMBED_ORDER_HF ? e[keep].p >= q->min_p * e[0].p : e[keep].z >= e[0].z + log(q->min_p));) ++keep;
    } else if (*filter == 't' && q->typical_p > 0 && q->typical_p < 1) {
      double entropy = 0;
      for (int i = 0; i < n; ++i) entropy -= e[i].p > 0 ? e[i].p * log(e[i].p) : 0;
      for (int i = 0; i < n; ++i) e[i].key = fabs(-log(e[i].p) - entropy);
      qsort(e, (size_t)n, sizeof *e, by_key);
      keep = shortest_prefix(e, n, q->typical_p, min_keep);
    }
    n = keep < min_keep ? (min_keep < n ? min_keep : n) : keep;
  }
  qsort(e, (size_t)n, sizeof *e, by_value);
  renormalise(e, n, q->temperature);
  return n;
}

/* Philox4x32-10 from its paper, and a draw by the largest z / T + noise. */
static double noise_of(uint64_t seed, uint64_t position, int id) {
  uint32_t c[4] = {(uint32_t)id / 4, (uint32_t)(position & 0xFFFFFFFFu), (uint32_t)(position >> 32), 2};
  for (uint64_t round = 0; round < 10; ++round) {
    const uint32_t k0 = (uint32_t)(seed + round * 0x9E3779B9u), k1 = (uint32_t)((seed >> 32) + round * 0xBB67AE85u);
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
  }
  return -log(-log((2.0 * (double)c[id % 4] + 1.0) * 0x1p-33));
}

static int drawn_from(const embed_sample_params *q, const entry *e, int n) {
  double best = -INFINITY;
  int id = -1;
  for (int i = 0; i < n; ++i) {
    const double x = e[i].z / q->temperature + noise_of(q->seed, (uint64_t)q->position, e[i].id);
    if (x > best) best = x, id = e[i].id;
  }
  return id;
}

static const float kat[5] = {2, 1, 0.5f, 0.1f, -1};

static void the_two_orders_keep_their_known_sets(void **state) {
  static const double hf[3] = {.4810242633, .2917559637, .2272197730}, llamacpp[2] = {.6224593312, .3775406688};
  (void)state;
  for (int order = 0; order < 2; ++order) {
    const embed_sample_params p = {.temperature = 2, .top_k = 4, .top_p = 0.7, .min_p = 0.3, .order = order};
    const embed__sampler s = sampler_of(p, 5);
    for (int tier = 0; tier < 2; ++tier) {
      const answer a = tier ? second_tier(&s, kat) : first_tier(&s, kat);
      assert_int_equal(a.outcome, EMBED__DRAWN);
      assert_int_equal(a.drawn.survivors, order ? 2 : 3);
      for (int i = 0; i < 5; ++i) {
        assert_int_equal(a.kept[i], i < (order ? 2 : 3));
        if (a.kept[i]) assert_true(fabs(exp(embed__drawn_logprob(&a.drawn, (double)kat[i] / 2)) - (order ? llamacpp : hf)[i]) < 1e-8);
      }
    }
  }
}

static void boundary_sums_follow_the_definition(void **state) {
  /* Weights 1, 1, 1, 1: a half of the sum is two of them, in double exactly. Then HF's cases with .5, .25, .25. */
  const float even[4] = {7, 7, 7, 7};
  (void)state;
  for (int order = 0; order < 2; ++order) {
    embed__sampler s = sampler_of((embed_sample_params){.temperature = 1, .top_p = 0.5, .order = order}, 4);
    answer a = first_tier(&s, even);
    assert_int_equal(a.drawn.survivors, 2);
    assert_true(a.kept[0] && a.kept[1]);
    s = sampler_of((embed_sample_params){.temperature = 1, .top_p = nextafter(0.5, 1), .order = order}, 4);
    assert_int_equal(first_tier(&s, even).drawn.survivors, 3);
    s = sampler_of((embed_sample_params){.temperature = 1, .top_p = 1e-300, .order = order}, 4);
    assert_int_equal(first_tier(&s, even).drawn.survivors, 1);
    s = sampler_of((embed_sample_params){.temperature = 1, .top_p = 0.1, .min_p = 1, .min_keep = 3, .order = order}, 4);
    assert_int_equal(first_tier(&s, even).drawn.survivors, 3);
  }
  const float halves[3] = {2, 1, 1};
  embed__sampler s = sampler_of((embed_sample_params){.temperature = 1, .top_k = 2}, 3);
  const answer a = first_tier(&s, halves);
  assert_true(a.kept[0] && a.kept[1] && !a.kept[2]); /* exactly k: the tie with the k-th goes to the lower id, HF would keep both */
}

static void noise_is_the_known_answer(void **state) {
  static const struct {
    uint64_t seed;
    int64_t position;
    int32_t id;
    double sum;
  } known[] = {{42, 0, 0, 1.8890888375}, {42, 8, 1, 3.2881178863}, {((uint64_t)1 << 40) + 5, ((int64_t)1 << 33) + 1, 0, NAN}};
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    const embed_sample_params p = {.temperature = 1, .seed = known[i].seed, .position = known[i].position};
    const embed__sampler s = sampler_of(p, 5);
    embed__gumbel g = embed__gumbel_start();
    assert_true(s.plain && !s.greedy && s.keep == 0);
    embed__gumbel_offer(&kernels, &s, &g, kat, 5, 0, NULL);
    assert_int_equal(g.column, known[i].id);
    if (!isnan(known[i].sum)) assert_true(fabs(g.best - known[i].sum) < 1e-9);
    assert_int_equal(second_tier(&s, kat).drawn.column, known[i].id);
  }
}

static void fill(float *z, int n, int kind, uint64_t *random) {
  for (int i = 0; i < n; ++i) {
    const double u = (double)test_uniform(random), v = (double)test_uniform(random);
    const float values[] = {(float)(5 * u), (float)(u + v), (float)(i % 9) + 0.25f, (float)(40 * u * v), 3.0f, (float)(12 * u * u * u)};
    z[i] = values[kind];
    if (kind == 3 && i % 7 == 2) z[i] = -INFINITY;
  }
}

static embed_sample_params random_params(uint64_t *random) {
  embed_sample_params p = {.seed = test_random(random), .position = (int64_t)(test_random(random) >> 20), .temperature = exp((double)test_uniform(random))};
  const uint64_t which = test_random(random) >> 50;
  static const int32_t ks[] = {1, 2, 40, 1000, 1023, 1024, 1025, 3000, 100000};
  if (which & 1) p.top_k = ks[(which >> 6) % 9];
  if (which & 2) p.top_p = 0.02 + 0.979 * fabs((double)test_uniform(random));
  if (which & 4) p.min_p = pow(fabs((double)test_uniform(random)), 4);
  if (which & 8) p.typical_p = 0.02 + 0.979 * fabs((double)test_uniform(random));
  if (which & 16) p.top_n_sigma = 3 * fabs((double)test_uniform(random)) + 1e-9;
  if (which & 32) p.min_keep = (int32_t)(which >> 6) % 5;
  p.order = (embed_sample_order)(which >> 10 & 1);
  return p;
}

static void both_tiers_are_the_reference(void **state) {
  static const int vocabs[] = {1, 5, 300, 1024, 1025, MOST};
  static entry e[MOST];
  static float z[MOST];
  static answer first;
  uint64_t random = 11;
  int proved = 0, wide = 0, all = 0;
  (void)state;
  for (int round = 0; round < 1500; ++round) {
    const int vocab = vocabs[round % 6];
    embed_sample_params p = random_params(&random);
    fill(z, vocab, round / 6 % 6, &random);
    const embed__sampler s = sampler_of(p, vocab);
    const int n = reference(&p, z, vocab, e), id = drawn_from(&p, e, n);
    first = first_tier(&s, z);
    const answer second = second_tier(&s, z);
    assert_int_equal(second.outcome, EMBED__DRAWN);
    if (!s.plain) {
      assert_int_equal(second.drawn.survivors, n);
      for (int i = 0; i < n; ++i) assert_true(second.kept[e[i].id]);
    }
    assert_int_equal(second.drawn.column, id);
    for (int i = 0; i < n; ++i)
      if (e[i].id == id) assert_true(fabs(second.drawn.logprob - log(e[i].p)) < 1e-9);
    ++all;
    wide += !s.plain && n > EMBED__CANDIDATES;
    if (first.outcome == EMBED__WANTS_ALL) continue;
    assert_int_equal(first.outcome, EMBED__DRAWN);
    ++proved;
    assert_int_equal(first.drawn.column, id);
    assert_memory_equal(first.kept, second.kept, sizeof first.kept);
    assert_true(fabs(first.drawn.logprob - second.drawn.logprob) < 1e-10);
  }
  assert_true(proved > all / 2 && proved < all && wide > 20); /* both tiers had work */
}

/* With fewer than 1,024 survivors the first tier proves all but typicality: nucleus, min-p, top-n-sigma. */
static void what_is_narrow_needs_no_second_tier(void **state) {
  static float z[MOST];
  uint64_t random = 12;
  (void)state;
  for (int i = 0; i < MOST; ++i) z[i] = -(float)i * 0.02f + 0.001f * test_uniform(&random);
  for (int order = 0; order < 2; ++order) {
    const embed_sample_params narrow[] = {{.temperature = 0.9, .top_p = 0.95, .order = order},
                                          {.temperature = 1.1, .min_p = 0.05, .order = order},
                                          {.temperature = 1, .top_n_sigma = 0.5, .typical_p = 0.9, .order = order},
                                          {.temperature = 1, .top_k = 50, .typical_p = 0.9, .order = order},
                                          {.temperature = 1, .top_k = 1024, .order = order}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; ++i) {
      const embed__sampler s = sampler_of(narrow[i], MOST);
      assert_int_equal(first_tier(&s, z).outcome, EMBED__DRAWN);
    }
    const embed_sample_params wide[] = {{.temperature = 1, .typical_p = 0.9, .order = order}, {.temperature = 1, .top_k = 1025, .order = order}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; ++i) {
      const embed__sampler s = sampler_of(wide[i], MOST);
      assert_int_equal(first_tier(&s, z).outcome, EMBED__WANTS_ALL);
      assert_int_equal(second_tier(&s, z).outcome, EMBED__DRAWN);
    }
  }
}

/* Tiles in any order, slots merged in any order, extreme temperatures: the largest sum, computed one by one. */
static void plain_draws_do_not_depend_on_tiles_or_slots(void **state) {
  static const double temperatures[] = {1, 0.7, 1e-3, 1e-12, 1e-200, 30, 1e12, 1e250};
  static float z[MOST];
  static entry e[MOST];
  uint64_t random = 13;
  (void)state;
  for (int round = 0; round < 400; ++round) {
    const int vocab = round % 3 == 0 ? MOST : 1 + (int)(test_random(&random) >> 52) % 2000;
    const embed_sample_params p = {.seed = test_random(&random), .position = round, .temperature = temperatures[round % 8]};
    const embed__sampler s = sampler_of(p, vocab);
    int n = 0;
    fill(z, vocab, round / 8 % 6, &random);
    if (round % 5 == 4)
      for (int i = 0; i < vocab; ++i) z[i] *= 1e30f;
    for (int i = 0; i < vocab; ++i)
      if (z[i] > -INFINITY) e[n++] = (entry){.z = (double)z[i], .id = i};
    const int want = drawn_from(&p, e, n);
    for (int way = 0; way < 4; ++way) {
      embed__gumbel slots[3] = {embed__gumbel_start(), embed__gumbel_start(), embed__gumbel_start()};
      int32_t original[EMBED__BLOCK];
      const int64_t tile = way == 0 ? EMBED__BLOCK : way == 1 ? 100 : 1 + (int64_t)(test_random(&random) >> 55);
      const int64_t tiles = embed__ceil_div(vocab, tile);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t at = (way % 2 ? tiles - 1 - t : t) * tile, count = embed__min(tile, vocab - at);
        for (int64_t i = 0; i < count; ++i) original[i] = (int32_t)(at + i);
        embed__gumbel_offer(&kernels, &s, &slots[t % (way + 1) % 3], z + at, count, (int32_t)at, way == 2 ? original : NULL);
      }
      embed__gumbel_merge(&slots[1], &slots[2]);
      embed__gumbel_merge(&slots[way % 2], &slots[1 - way % 2]);
      assert_int_equal(slots[way % 2].column, want);
      assert_true(slots[way % 2].value == z[want]);
    }
  }
}

/* A bound that is not below a column's own sum of the best keeps it; those that are surely below are gone. */
static void what_may_still_be_drawn_is_kept(void **state) {
  static const double temperatures[] = {1, 0.7, 1e-3, 1e-200, 30, 1e250};
  static const float odd[] = {INFINITY, NAN, -INFINITY};
  float upper[EMBED__BLOCK], kept[EMBED__BLOCK];
  int32_t original[EMBED__BLOCK];
  uint64_t random = 29;
  int64_t dropped = 0;
  (void)state;
  for (int round = 0; round < 600; ++round) {
    const int n = 1 + (int)(test_random(&random) % EMBED__BLOCK), first = 4096 * (int)(test_random(&random) % 50);
    const embed_sample_params p = {.seed = test_random(&random), .position = round, .temperature = temperatures[round % 6]};
    const embed__sampler s = sampler_of(p, 1000000);
    const bool mapped = round % 2;
    double sums[EMBED__BLOCK];
    int64_t want = 0;
    fill(upper, n, round / 6 % 6, &random);
    if (round % 3 == 0) upper[test_random(&random) % (uint64_t)n] = odd[round / 3 % 3];
    for (int i = 0; i < n; ++i) {
      original[i] = (int32_t)(7 * i + round);
      sums[i] = (double)upper[i] / p.temperature + noise_of(p.seed, (uint64_t)p.position, mapped ? original[i] : first + i);
    }
    const double best = sums[test_random(&random) % (uint64_t)n];
    if (isnan(best)) continue;
    memcpy(kept, upper, sizeof kept);
    const int64_t count = embed__gumbel_screen(&kernels, &s, best, kept, n, first, mapped ? original : NULL);
    for (int i = 0; i < n; ++i) {
      assert_true(kept[i] == (sums[i] < best ? -INFINITY : INFINITY));
      want += !(sums[i] < best);
    }
    assert_int_equal(count, want);
    dropped += n - count;
  }
  assert_true(dropped > 50000);
}

/* Columns of a subset take the noise of their ids. */
static void subsets_draw_with_their_original_ids(void **state) {
  static float z[300];
  static int32_t original[300];
  static embed__weighed room[300];
  uint64_t random = 14;
  (void)state;
  for (int round = 0; round < 100; ++round) {
    const embed_sample_params p = {.seed = 9, .position = round, .temperature = 1.3, .top_p = round % 2 ? 0.9 : 0};
    const embed__sampler s = sampler_of(p, 300);
    double best = -INFINITY;
    int want = -1;
    embed__drawn drawn;
    float copy[300];
    for (int i = 0; i < 300; ++i) {
      z[i] = 3 * test_uniform(&random);
      original[i] = 1000 + 7 * i;
    }
    memcpy(copy, z, sizeof copy);
    assert_int_equal(embed__sampler_draw_all(&kernels, &s, copy, original, room, &drawn), EMBED__DRAWN);
    for (int i = 0; i < 300; ++i) {
      const double x = (double)z[i] / 1.3 + noise_of(9, (uint64_t)round, original[i]);
      if ((s.plain || copy[i] > -INFINITY) && x > best) best = x, want = i;
    }
    assert_int_equal(drawn.column, want);
  }
}

static void rows_without_a_distribution_say_so(void **state) {
  float z[5] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  const embed_sample_params kinds[] = {{.temperature = 0}, {.temperature = 1}, {.temperature = 1, .top_p = 0.5}, {.temperature = 1, .top_k = 2}};
  (void)state;
  for (int kind = 0; kind < 4; ++kind) {
    const embed__sampler s = sampler_of(kinds[kind], 5);
    for (int i = 0; i < 5; ++i) z[i] = -INFINITY;
    assert_int_equal(first_tier(&s, z).outcome, EMBED__NOTHING);
    assert_int_equal(second_tier(&s, z).outcome, EMBED__NOTHING);
    z[3] = -5;
    assert_int_equal(first_tier(&s, z).drawn.column, 3);
    assert_int_equal(second_tier(&s, z).drawn.column, 3);
    assert_true(second_tier(&s, z).drawn.logprob == 0 && first_tier(&s, z).drawn.logprob == 0);
    static const float bad[] = {NAN, INFINITY};
    for (int b = 0; b < 2; ++b) {
      z[1] = bad[b];
      assert_int_equal(first_tier(&s, z).outcome, kind == 0 ? EMBED__DRAWN : EMBED__UNDEFINED);
      assert_int_equal(second_tier(&s, z).outcome, kind == 0 ? EMBED__DRAWN : EMBED__UNDEFINED);
      if (kind == 0) assert_int_equal(second_tier(&s, z).drawn.column, 1);
    }
  }
}

static void statistics_are_those_of_the_row(void **state) {
  static float z[MOST];
  uint64_t random = 15;
  (void)state;
  for (int round = 0; round < 40; ++round) {
    const embed__sampler s = sampler_of((embed_sample_params){.temperature = 0.3 + round * 0.1, .top_p = 0.9, .top_n_sigma = 1}, MOST);
    long double sum = 0, mean = 0, squares = 0, largest = -INFINITY;
    int count = 0;
    fill(z, MOST, round % 6, &random);
    for (int i = 0; i < 1100 && round % 4 == 1; ++i) z[i] = -INFINITY; /* a block of nothing */
    for (int i = 0; i < MOST; ++i)
      if (z[i] > -INFINITY) ++count, mean += (long double)z[i], largest = fmaxl(largest, (long double)z[i]);
    mean /= count;
    for (int i = 0; i < MOST; ++i) {
      if (z[i] > -INFINITY) squares += ((long double)z[i] - mean) * ((long double)z[i] - mean);
      sum += expl(((long double)z[i] - largest) / (long double)s.temperature);
    }
    const embed__statistics got = statistics_of_row(&s, z);
    assert_true(fabsl((long double)got.sum - sum) < 1e-12L * sum);
    assert_true(fabsl((long double)got.top - largest / (long double)s.temperature) < 1e-13L * fabsl((long double)got.top));
    assert_true(got.count == (double)count);
    assert_true(fabsl((long double)got.mean - mean) < 1e-12L && fabsl((long double)got.squares - squares) < 1e-9L * squares + 1e-20L);
  }
}

static embed_status checked(embed_sample_params p) {
  const embed__sampler *samplers;
  int64_t stride;
  p.size = sizeof p;
  assert_int_equal(embed__begin(context), EMBED_OK);
  return embed__samplers(context, &p, 1, 1, 100, &samplers, &stride);
}

static void bad_parameters_are_refused(void **state) {
  const embed_sample_params bad[] = {{.temperature = -1},
                                     {.temperature = NAN},
                                     {.temperature = INFINITY},
                                     {.temperature = 1e-251},
                                     {.top_p = -0.1},
                                     {.top_p = 1.0001},
                                     {.top_p = NAN},
                                     {.min_p = -1},
                                     {.min_p = 1.5},
                                     {.min_p = NAN},
                                     {.typical_p = 2},
                                     {.typical_p = -2},
                                     {.typical_p = NAN},
                                     {.top_n_sigma = -1},
                                     {.top_n_sigma = NAN},
                                     {.repetition = -1},
                                     {.repetition = NAN},
                                     {.frequency = NAN},
                                     {.presence = INFINITY},
                                     {.position = -1},
                                     {.top_k = -1},
                                     {.last_n = -1},
                                     {.min_keep = -1},
                                     {.order = 2},
                                     {.order = EMBED_ORDER_NONE},
                                     {.flags = 1},
                                     {.top_n_sigma = INFINITY}};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) assert_int_equal(checked(bad[i]), EMBED_E_OPTION);
  assert_int_equal(checked((embed_sample_params){.temperature = 1e-250, .top_p = 1, .min_p = 1, .typical_p = 1, .frequency = -2, .presence = -2}), EMBED_OK);
}

static void parameters_per_row_stand_their_size_apart(void **state) {
  struct longer { /* of a newer header */
    embed_sample_params known;
    uint64_t unknown;
  } rows[3] = {{{0}, 0}};
  const embed__sampler *samplers;
  int64_t stride;
  (void)state;
  for (int i = 0; i < 3; ++i) rows[i].known = (embed_sample_params){.size = sizeof rows[0], .temperature = 1 + i, .repetition = i, .top_k = 200};
  assert_int_equal(embed__begin(context), EMBED_OK);
  assert_int_equal(embed__samplers(context, &rows[0].known, 3, 3, 100, &samplers, &stride), EMBED_OK);
  assert_int_equal(stride, 1);
  for (int i = 0; i < 3; ++i) {
    assert_true(samplers[i].temperature == 1 + i && samplers[i].penalties.repetition == (i ? i : 1));
    assert_true(samplers[i].plain); /* top_k 200 of 100 is off */
  }
  assert_int_equal(embed__samplers(context, &rows[0].known, 2, 3, 100, &samplers, &stride), EMBED_E_ARGUMENT);
  assert_int_equal(embed__samplers(context, NULL, 3, 3, 100, &samplers, &stride), EMBED_E_ARGUMENT);
  assert_int_equal(embed__samplers(context, NULL, 0, 3, 100, &samplers, &stride), EMBED_OK);
  assert_true(stride == 0 && samplers[0].greedy && samplers[0].keep == 1);
  rows[2].known.top_p = 7;
  assert_int_equal(embed__samplers(context, &rows[0].known, 3, 3, 100, &samplers, &stride), EMBED_E_OPTION);
  assert_int_equal(embed_error_at(context), 2);
  assert_string_equal(embed_error_text(context), "params[2]: top_p is outside [0, 1]");
  rows[1].unknown = 1;
  assert_int_equal(embed__samplers(context, &rows[0].known, 3, 3, 100, &samplers, &stride), EMBED_E_OPTION);
  assert_int_equal(embed_error_at(context), 1);
  rows[1].known.size = 40;
  assert_int_equal(embed__samplers(context, &rows[0].known, 3, 3, 100, &samplers, &stride), EMBED_E_OPTION);
  assert_non_null(strstr(embed_error_text(context), "params[1].size is 40"));
}

/* Pearson's statistic of draws at positions 0 .. DRAWS - 1; below the line with probability 1 - 1e-6 (Wilson-Hilferty). */
static void draws_follow_their_distribution(void **state) {
  enum { VOCAB = 12, DRAWS = 100000 };
  const float z[VOCAB] = {1, 0.3f, 2, -1, 0, 1.5f, -0.5f, 2.2f, 0.1f, -2, 0.7f, 1.1f};
  const embed_sample_params kinds[] = {{.temperature = 1},
                                       {.temperature = 1.7},
                                       {.temperature = 0.8, .top_k = 5},
                                       {.temperature = 1, .top_p = 0.8},
                                       {.temperature = 1, .min_p = 0.2},
                                       {.temperature = 1.2, .typical_p = 0.7, .order = EMBED_ORDER_LLAMACPP},
                                       {.temperature = 1.2, .top_n_sigma = 1, .top_p = 0.9, .order = EMBED_ORDER_LLAMACPP}};
  (void)state;
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
    embed_sample_params p = kinds[kind];
    int64_t counts[VOCAB] = {0};
    entry e[VOCAB];
    p.seed = 77 + kind;
    embed__sampler s = sampler_of(p, VOCAB);
    for (s.position = 0; s.position < DRAWS; ++s.position) ++counts[first_tier(&s, z).drawn.column];
    const int n = reference(&p, z, VOCAB, e);
    double statistic = 0, free = n - 1;
    int64_t seen = 0;
    for (int i = 0; i < n; ++i) {
      const double want = DRAWS * e[i].p;
      statistic += ((double)counts[e[i].id] - want) * ((double)counts[e[i].id] - want) / want;
      seen += counts[e[i].id];
    }
    assert_int_equal(seen, DRAWS); /* nothing else is ever drawn */
    const double cube = 1 - 2 / (9 * free) + 4.75 * sqrt(2 / (9 * free));
    assert_true(statistic < free * cube * cube * cube);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_two_orders_keep_their_known_sets),
    cmocka_unit_test(boundary_sums_follow_the_definition),
    cmocka_unit_test(noise_is_the_known_answer),
    cmocka_unit_test(both_tiers_are_the_reference),
    cmocka_unit_test(what_is_narrow_needs_no_second_tier),
    cmocka_unit_test(plain_draws_do_not_depend_on_tiles_or_slots),
    cmocka_unit_test(what_may_still_be_drawn_is_kept),
    cmocka_unit_test(subsets_draw_with_their_original_ids),
    cmocka_unit_test(rows_without_a_distribution_say_so),
    cmocka_unit_test(statistics_are_those_of_the_row),
    cmocka_unit_test(bad_parameters_are_refused),
    cmocka_unit_test(parameters_per_row_stand_their_size_apart),
    cmocka_unit_test(draws_follow_their_distribution),
};
int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, begin, end);
}
