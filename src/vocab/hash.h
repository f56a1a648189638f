/* SPDX-License-Identifier: BSD-3-Clause */
/* A quick keyed hash of short strings, for indexes that live in memory: 16 bytes cost two multiplications (5 times as fast as
 * SipHash on the tokens of a vocabulary). Nothing is proved of it, so who uses it counts how far its strings have to move from
 * their slots, and takes embed__siphash where that is more than chance would have it: embed__hash_fails. */
#ifndef EMBED__HASH_H
#define EMBED__HASH_H

#include <stdbool.h>
#include <stdint.h>

enum { EMBED__HASH_SLACK = 16 /* bytes behind a string that may be read, for embed__hash_slack */ };

/* Little-endian on every machine. Put together as compilers know a load to be. */
static inline uint64_t embed__word4(const unsigned char *p) { return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24; }
static inline uint64_t embed__word8(const unsigned char *p) { return embed__word4(p) | embed__word4(p + 4) << 32; }

/* The first `rest` bytes at p, below 8, zeros above; the loads overlap so that no loop waits for a length to be known. */
static inline uint64_t embed__word_part(const unsigned char *p, int64_t rest) {
  if (rest >= 4) return embed__word4(p) | embed__word4(p + rest - 4) << (8 * (rest - 4));
  return rest ? (uint64_t)p[0] | (uint64_t)p[rest / 2] << (8 * (rest / 2)) | (uint64_t)p[rest - 1] << (8 * (rest - 1)) : 0;
}

/* Both halves of the product. */
static inline uint64_t embed__hash_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  const wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
  const uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF), left = (a >> 32) * (b & 0xFFFFFFFF), right = (a & 0xFFFFFFFF) * (b >> 32);
  const uint64_t middle = (low >> 32) + (left & 0xFFFFFFFF) + (right & 0xFFFFFFFF);
  return ((middle << 32) | (low & 0xFFFFFFFF)) ^ ((a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32));
#endif
}

/* low, high: the last block's 16 bytes, zeros behind its end. */
static inline uint64_t embed__hash_end(const uint64_t key[2], uint64_t state, uint64_t low, uint64_t high, int64_t bytes) {
  const uint64_t odd = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio: the length is spread over the word */
  return embed__hash_fold(embed__hash_fold(low ^ key[0] ^ state, high ^ key[1] ^ ((uint64_t)bytes * odd)) ^ key[1], key[0] | 1);
}

/* The blocks of 16 bytes before the last, which has 0 to 16. */
static inline uint64_t embed__hash_blocks(const uint64_t key[2], const unsigned char **p, int64_t *left) {
  uint64_t state = 0;
  for (; *left > 16; *p += 16, *left -= 16) state = embed__hash_fold(embed__word8(*p) ^ key[0] ^ state, embed__word8(*p + 8) ^ key[1]);
  return state;
}

static inline uint64_t embed__hash(const uint64_t key[2], const void *string, int64_t bytes) {
  const unsigned char *p = string;
  int64_t left = bytes;
  const uint64_t state = embed__hash_blocks(key, &p, &left);
  if (left < 8) return embed__hash_end(key, state, embed__word_part(p, left), 0, bytes);
  return embed__hash_end(key, state, embed__word8(p), left > 8 ? embed__word8(p + left - 8) >> (8 * (16 - left)) : 0, bytes);
}

/* From 16 - n on: n bytes to keep, 16 - n to clear. */
static const unsigned char embed__hash_masks[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

/* The same, of a string behind which 16 bytes more may be read: no branch waits for its length. */
static inline uint64_t embed__hash_slack(const uint64_t key[2], const void *string, int64_t bytes) {
  const unsigned char *p = string;
  int64_t left = bytes;
  const uint64_t state = embed__hash_blocks(key, &p, &left);
  const unsigned char *mask = embed__hash_masks + 16 - left;
  return embed__hash_end(key, state, embed__word8(p) & embed__word8(mask), embed__word8(p + 8) & embed__word8(mask + 8), bytes);
}

/* Whether `count` strings that walked `steps` slots together did so by design: in a table two thirds full the mean is one. */
static inline bool embed__hash_fails(int64_t steps, int64_t count) { return steps > 8 * count + 1024; }

#endif
