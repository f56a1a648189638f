/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/crc32c.h"

/* polynomial: its bits the other way round. */
static void make_table(embed__crc32c *c, uint32_t polynomial) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
    c->table[0][byte] = sum;
  }
  for (int behind = 1; behind < 8; ++behind) /* the same byte with so many zeros behind it */
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t sum = c->table[behind - 1][byte];
      c->table[behind][byte] = sum >> 8 ^ c->table[0][sum & 255];
    }
}

void embed__crc32c_init(embed__crc32c *c) { make_table(c, 0x82F63B78u); }

void embed__crc32_init(embed__crc32c *c) { make_table(c, 0xEDB88320u); }

uint32_t embed__crc32c_add(const embed__crc32c *c, uint32_t sum, const void *bytes, int64_t count) {
  const unsigned char *p = bytes;
  const uint32_t(*t)[256] = c->table;
  sum = ~sum;
  for (; count >= 8; count -= 8, p += 8) {
    uint32_t low = sum ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    sum = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
  }
  for (; count > 0; --count) sum = sum >> 8 ^ t[0][(sum ^ *p++) & 255];
  return ~sum;
}
