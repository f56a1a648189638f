/* SPDX-License-Identifier: BSD-3-Clause */
/* Extra sections of .embed files, and the sum that guards them: what no public call reaches yet. */
#include "test.h"

#include <embed/embed.h>

#include "core/context.h"
#include "io/container.h"
#include "io/crc32c.h"

static void crc32c_gives_the_published_sums(void **state) {
  (void)state;
  embed__crc32c crc;
  unsigned char bytes[32];
  embed__crc32c_init(&crc);
  assert_int_equal(embed__crc32c_add(&crc, 0, "123456789", 9), 0xE3069283u);
  memset(bytes, 0, sizeof bytes);
  assert_int_equal(embed__crc32c_add(&crc, 0, bytes, 32), 0x8A9136AAu); /* RFC 3720, B.4 */
  memset(bytes, 0xFF, sizeof bytes);
  assert_int_equal(embed__crc32c_add(&crc, 0, bytes, 32), 0x62A8AB43u);
  for (int i = 0; i < 32; ++i) bytes[i] = (unsigned char)i;
  assert_int_equal(embed__crc32c_add(&crc, 0, bytes, 32), 0x46DD794Eu);
  for (int cut = 0; cut <= 32; ++cut) assert_int_equal(embed__crc32c_add(&crc, embed__crc32c_add(&crc, 0, bytes, cut), bytes + cut, 32 - cut), 0x46DD794Eu);
}

enum { SECTIONS = 3, NAMES = EMBED__HEAD + SECTIONS * EMBED__ENTRY, FIRST = 448, SECOND = 512, TABLE = 4096, BYTES = TABLE + 4 };

static void entry(unsigned char *file, const embed__crc32c *crc, int i, uint32_t kind, int offset, int bytes, int name, int name_bytes) {
  unsigned char *e = file + EMBED__HEAD + i * EMBED__ENTRY;
  embed__put_le(e + EMBED__ENTRY_KIND, kind, 4);
  embed__put_le(e + EMBED__ENTRY_OFFSET, (uint64_t)offset, 8);
  embed__put_le(e + EMBED__ENTRY_BYTES, (uint64_t)bytes, 8);
  embed__put_le(e + EMBED__ENTRY_SUM, embed__crc32c_add(crc, 0, file + offset, bytes), 4);
  embed__put_le(e + EMBED__ENTRY_NAME, (uint64_t)(NAMES + name), 8);
  embed__put_le(e + EMBED__ENTRY_NAME_BYTES, (uint64_t)name_bytes, 4);
}

static void extra_sections_are_found_by_name_and_guarded_by_their_sums(void **state) {
  (void)state;
  static unsigned char file[BYTES];
  embed__crc32c crc;
  char path[64] = "/tmp/container_extra.XXXXXX";
  embed_context *ctx = NULL;
  embed_file *f = NULL;
  const unsigned char *data = NULL;
  int64_t bytes = -1;
  embed__crc32c_init(&crc);
  memcpy(file, EMBED__CONTAINER_MAGIC, 8);
  embed__put_le(file + EMBED__HEAD_MAJOR, 1, 2);
  embed__put_le(file + EMBED__HEAD_SECTIONS, SECTIONS, 4);
  embed__put_le(file + EMBED__HEAD_FILE, BYTES, 8);
  embed__put_le(file + EMBED__HEAD_END, NAMES + 8, 8);
  memcpy(file + NAMES, "t\0one\0x", 8);
  memcpy(file + FIRST, "state", 5);
  memcpy(file + SECOND, "sketch", 6);
  entry(file, &crc, 0, EMBED__SECTION_EXTRA, FIRST, 5, 2, 3);
  entry(file, &crc, 1, EMBED__SECTION_EXTRA, SECOND, 6, 6, 1);
  entry(file, &crc, 2, EMBED__SECTION_TABLE, TABLE, 4, 0, 1);
  unsigned char *t = file + EMBED__HEAD + 2 * EMBED__ENTRY;
  embed__put_le(t + EMBED__ENTRY_ROWS, 1, 8);
  embed__put_le(t + EMBED__ENTRY_VOCAB, 1, 8);
  embed__put_le(t + EMBED__ENTRY_DIM, 1, 8);
  embed__put_le(t + EMBED__ENTRY_ROW_BYTES, 4, 8);
  embed__put_le(file + EMBED__HEAD_DIRECTORY_SUM, embed__crc32c_add(&crc, 0, file + EMBED__HEAD, NAMES + 8 - EMBED__HEAD), 4);
  embed__put_le(file + EMBED__HEAD_SUM, embed__crc32c_add(&crc, 0, file, EMBED__HEAD_SUM), 4);
  file[SECOND] ^= 1; /* damaged behind the writer's back */
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, file, BYTES), BYTES);
  close(descriptor);
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  if (embed_file_open(ctx, path, NULL, &f) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_int_equal(embed__container_extra(ctx, f, "one", &data, &bytes), EMBED_OK);
  assert_int_equal(bytes, 5);
  assert_memory_equal(data, "state", 5);
  assert_int_equal(embed__container_extra(ctx, f, "x", &data, &bytes), EMBED_E_FORMAT);
  assert_int_equal(embed_error_at(ctx), SECOND);
  assert_int_equal(embed__container_extra(ctx, f, "t", &data, &bytes), EMBED_E_NOT_FOUND); /* a table is none */
  assert_int_equal(bytes, 5);
  embed_file_release(f);
  unlink(path);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(crc32c_gives_the_published_sums),
    cmocka_unit_test(extra_sections_are_found_by_name_and_guarded_by_their_sums),
};
TEST_MAIN(tests)
