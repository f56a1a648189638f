/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of one instruction set; loops.c includes this once for each, with LOOPS(name), TARGET, INTEGERS, FLOATS,
 * MULTIPLY_ADD(x, y, z), STREAM(to, value) and FENCE() defined. */

TARGET static inline __attribute__((always_inline)) uint64_t LOOPS(read_side_by_side)(const char *at, size_t stretch, int streams) {
  INTEGERS mixed = {0};
  for (size_t i = 0; i < stretch; i += 64)
    for (int s = 0; s < streams; ++s)
      for (size_t w = 0; w < 64; w += sizeof mixed) mixed ^= *(const INTEGERS *)(at + (size_t)s * stretch + i + w);
  uint64_t lanes[sizeof mixed / 8], total = 0;
  memcpy(lanes, &mixed, sizeof mixed);
  for (size_t k = 0; k < sizeof mixed / 8; ++k) total ^= lanes[k];
  return total;
}

/* A constant number of streams unrolls the inner loop. */
TARGET static uint64_t LOOPS(read)(const char *at, size_t stretch, int streams) {
  switch (streams) {
    case 1: return LOOPS(read_side_by_side)(at, stretch, 1);
    case 2: return LOOPS(read_side_by_side)(at, stretch, 2);
    case 3: return LOOPS(read_side_by_side)(at, stretch, 3);
    case 4: return LOOPS(read_side_by_side)(at, stretch, 4);
    case 5: return LOOPS(read_side_by_side)(at, stretch, 5);
    default: return LOOPS(read_side_by_side)(at, stretch, 6);
  }
}

TARGET static void LOOPS(write)(char *to, size_t bytes) {
  INTEGERS value = {0};
  for (size_t i = 0; i < bytes; i += sizeof value) STREAM(to + i, value);
  FENCE();
}

/* A block is loaded before any of it is stored: taking turns line by line is slower. */
TARGET static void LOOPS(copy)(char *to, const char *from, size_t bytes) {
  INTEGERS block[8];
  for (size_t i = 0; i < bytes; i += sizeof block) {
    for (size_t k = 0; k < 8; ++k) block[k] = *(const INTEGERS *)(from + i + k * sizeof *block);
    for (size_t k = 0; k < 8; ++k) STREAM(to + i + k * sizeof *block, block[k]);
  }
  FENCE();
}

TARGET static float LOOPS(multiply_add)(int64_t steps) {
  FLOATS x, y, sums[CHAINS];
  float lanes[sizeof x / sizeof(float)];
  for (size_t k = 0; k < sizeof x / sizeof(float); ++k) {
    ((float *)&x)[k] = unknown_half;
    ((float *)&y)[k] = 2 * unknown_half;
  }
  for (int k = 0; k < CHAINS; ++k) sums[k] = y;
  for (int64_t i = 0; i < steps; ++i)
    for (int k = 0; k < CHAINS; ++k) sums[k] = MULTIPLY_ADD(x, sums[k], y);
  for (int k = 1; k < CHAINS; ++k) sums[0] += sums[k];
  memcpy(lanes, &sums[0], sizeof lanes);
  return lanes[0] + lanes[1];
}

static const bench_loops LOOPS(loops) = {LOOPS_NAME,  LOOPS(read),         LOOPS(write),
                                         LOOPS(copy), LOOPS(multiply_add), 2.0 * CHAINS *(double)(sizeof(FLOATS) / sizeof(float))};

#undef LOOPS
#undef LOOPS_NAME
#undef TARGET
#undef INTEGERS
#undef FLOATS
#undef MULTIPLY_ADD
#undef STREAM
#undef FENCE
