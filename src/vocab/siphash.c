/* SPDX-License-Identifier: BSD-3-Clause */
#include "vocab/siphash.h"

#include "vocab/hash.h"

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void mix(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0];
  v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2];
  v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

/* The count % 8 bytes behind the whole words, zeros above. */
static inline uint64_t rest_of(const unsigned char *p, int64_t count) {
  const int64_t rest = count % 8;
  if (count >= 8) return rest ? embed__word8(p + count - 8) >> (64 - 8 * rest) : 0;
  return embed__word_part(p, rest);
}

uint64_t embed__siphash(const uint64_t key[2], const void *bytes, int64_t count) {
  const unsigned char *p = bytes;
  uint64_t v[4] = {key[0] ^ 0x736F6D6570736575u, key[1] ^ 0x646F72616E646F6Du, key[0] ^ 0x6C7967656E657261u, key[1] ^ 0x7465646279746573u};
  int64_t whole = count - count % 8;
  for (int64_t i = 0; i < whole; i += 8) {
    const uint64_t word = embed__word8(p + i);
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
  }
  const uint64_t last = (uint64_t)count << 56 | rest_of(p, count);
  v[3] ^= last;
  mix(v);
  v[0] ^= last;
  v[2] ^= 0xFF;
  for (int i = 0; i < 3; ++i) mix(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
