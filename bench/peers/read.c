/* SPDX-License-Identifier: BSD-3-Clause */
/* The read probe of head.py, on OpenMP's threads: a library of its own, so that it needs none of the peers. */
#include <omp.h>
#include <stdint.h>
#include <string.h>

/* Four far streams per thread. */
uint64_t peer_read(const char *memory, int64_t bytes, int threads) {
  uint64_t total = 0;
#pragma omp parallel num_threads(threads) reduction(^ : total)
  {
    const int64_t part = bytes / threads / 4 / 64 * 64;
    const char *from = memory + bytes / threads * omp_get_thread_num();
    uint64_t lanes[8] = {0};
    for (int64_t at = 0; at < part; at += 64)
      for (int stream = 0; stream < 4; ++stream)
        for (int i = 0; i < 8; ++i) {
          uint64_t word;
          memcpy(&word, from + stream * part + at + 8 * i, 8);
          lanes[i] ^= word;
        }
    for (int i = 0; i < 8; ++i) total ^= lanes[i];
  }
  return total;
}
