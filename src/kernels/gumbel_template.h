/* SPDX-License-Identifier: BSD-3-Clause */
/* Philox over vectors of 64-bit lanes: a lane holds a counter's 32-bit numbers in its lower half, whatever is above. The product of
 * two lower halves is then low and high word in one lane. Before it is included a level defines
 *   LANES, wide           64-bit lanes of a vector, its type
 *   all(u32)              in every lane
 *   times(a, b)           product of the lower halves
 *   upper(a)              the upper halves moved down
 *   xor3(a, b, c)
 *   quads(first)          counters first + i in the lanes, so that store_quads gives ids in order
 *   store_quads(out, c)   the four words of all lanes' counters, 4 * LANES words
 *   quads_of(ids)         ids[i] >> 2 of LANES ids
 *   store_chosen(out, ids, c)  word ids[i] & 3 of lane i, LANES words */

static void philox(uint64_t seed, uint64_t position, wide quad, wide c[4]) {
  const wide m0 = all(0xD2511F53u), m1 = all(0xCD9E8D57u);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  wide c0 = quad, c1 = all((uint32_t)position), c2 = all((uint32_t)(position >> 32)), c3 = all(2);
  for (int round = 0; round < 10; ++round) {
    wide p0 = times(m0, c0), p1 = times(m1, c2);
    c0 = xor3(upper(p1), c1, all(k0));
    c2 = xor3(upper(p0), c3, all(k1));
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  c[0] = c0;
  c[1] = c1;
  c[2] = c2;
  c[3] = c3;
}

/* Vectors begin at ids that are multiples of 4: a first or last one that is not wanted whole goes through a buffer. */
static void words(uint64_t seed, uint64_t position, uint32_t first, int64_t n, uint32_t *out) {
  int64_t skip = first & 3;
  wide c[4];
  for (int64_t at = -skip; at < n; at += 4 * LANES) {
    philox(seed, position, quads((first >> 2) + (uint32_t)((at + skip) >> 2)), c);
    if (at >= 0 && n - at >= 4 * LANES) {
      store_quads(out + at, c);
      continue;
    }
    uint32_t some[4 * LANES];
    store_quads(some, c);
    for (int64_t i = at < 0 ? 0 : at; i < n && i < at + 4 * LANES; ++i) out[i] = some[i - at];
  }
}

static void words_of(uint64_t seed, uint64_t position, const int32_t *ids, int64_t n, uint32_t *out) {
  wide c[4];
  for (int64_t at = 0; at < n; at += LANES) {
    int32_t some[LANES] = {0};
    uint32_t chosen[LANES];
    int64_t part = n - at < LANES ? n - at : LANES;
    memcpy(some, ids + at, (size_t)part * sizeof *some);
    philox(seed, position, quads_of(some), c);
    store_chosen(chosen, some, c);
    memcpy(out + at, chosen, (size_t)part * sizeof *out);
  }
}
