/* SPDX-License-Identifier: BSD-3-Clause */
/* Extra sections of .embed files, and the sum that guards them: what no public call reaches yet. */
#include "test.h"

#include <embed/embed.h>

#include "core/context.h"
#include "io/container.h"
#include "io/crc32c.h"
#include "io/writer.h"

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

/* --- Written with embed__writer_section */

static const char *temporary(const char *extension) {
  static char paths[2][80];
  static int next;
  char *path = paths[next++ % 2];
  snprintf(path, sizeof paths[0], "/tmp/container_extra-%ld%s", (long)getpid(), extension);
  return path;
}

static embed_writer *writer_with_a_table(embed_context *ctx, const char *path, embed_table **t) {
  embed_writer *w = NULL;
  assert_int_equal(embed_table_create(ctx, 3, 2, NULL, t), EMBED_OK);
  assert_int_equal(embed_writer_create(ctx, path, NULL, &w), EMBED_OK);
  assert_int_equal(embed_writer_table(ctx, w, "t", *t, NULL), EMBED_OK);
  return w;
}

typedef struct pieces {
  const unsigned char *data;
  int64_t bytes, piece;
  int calls;
} pieces;

static embed_status give_pieces(embed_context *ctx, void *arg, embed__section_sink *sink) {
  pieces *p = arg;
  ++p->calls;
  for (int64_t at = 0; at < p->bytes; at += p->piece) {
    int64_t count = p->bytes - at < p->piece ? p->bytes - at : p->piece;
    embed_status status = embed__section_add(ctx, sink, p->data + at, count);
    if (status != EMBED_OK) return status;
  }
  return EMBED_OK;
}

static void sections_come_back_in_place_as_they_were_written(void **state) {
  (void)state;
  enum { LARGE = 3 * 4096 + 5 };
  static unsigned char large[LARGE];
  const char *path = temporary(".embed");
  embed_context *ctx = NULL;
  embed_table *t = NULL;
  embed_file *f = NULL;
  for (int i = 0; i < LARGE; ++i) large[i] = (unsigned char)(i * 31 + i / 251);
  pieces p = {.data = large, .bytes = LARGE, .piece = 1000};
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  embed_writer *w = writer_with_a_table(ctx, path, &t);
  char small[] = "wrong";
  assert_int_equal(embed__writer_section(ctx, w, "optim.state", small, 5), EMBED_OK);
  assert_int_equal(embed__writer_section_from(ctx, w, "head.prepared", LARGE, give_pieces, &p, NULL), EMBED_OK);
  assert_int_equal(embed__writer_section(ctx, w, "t", large, LARGE), EMBED_OK); /* a table of this name is no hindrance */
  assert_int_equal(embed__writer_section(ctx, w, "nothing", NULL, 0), EMBED_OK);
  assert_int_equal(embed__writer_section(ctx, w, "t", small, 1), EMBED_E_ARGUMENT);
  assert_non_null(strstr(embed_error_text(ctx), "\"t\" stands twice"));
  assert_int_equal(embed__writer_section(ctx, w, "", small, 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed__writer_section(ctx, w, "x", small, -1), EMBED_E_ARGUMENT);
  memcpy(small, "right", 5); /* what it holds at commit counts */
  if (embed_writer_commit(ctx, w) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_int_equal(p.calls, 1);
  assert_int_equal(embed__writer_section(ctx, w, "late", small, 1), EMBED_E_ARGUMENT);
  embed_writer_release(w);
  const struct {
    const char *name;
    const void *data;
    int64_t bytes;
    uintptr_t alignment;
  } want[] = {{"optim.state", "right", 5, 64}, {"head.prepared", large, LARGE, 4096}, {"t", large, LARGE, 4096}, {"nothing", "", 0, 64}};
  for (uint32_t flags = 0; flags <= EMBED_FILE_CHECK; flags += EMBED_FILE_CHECK) {
    if (embed_file_open(ctx, path, &(embed_file_options){.size = sizeof(embed_file_options), .flags = flags}, &f) != EMBED_OK)
      fail_msg("%s", embed_error_text(ctx));
    assert_int_equal(embed_file_count(f), 1);
    for (size_t i = 0; i < sizeof want / sizeof *want; ++i) {
      const unsigned char *data = NULL;
      int64_t bytes = -1;
      if (embed__container_extra(ctx, f, want[i].name, &data, &bytes) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
      assert_int_equal(bytes, want[i].bytes);
      assert_memory_equal(data, want[i].data, (size_t)bytes);
      assert_int_equal((uintptr_t)data % want[i].alignment, 0);
      assert_true(data >= f->map.data && data + bytes <= f->map.data + f->map.bytes);
    }
    embed_file_release(f);
  }
  unlink(path);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* Too few bytes and too many: nothing is written, and the writer may try again. */
static void a_source_gives_what_it_announced_or_nothing_is_written(void **state) {
  (void)state;
  static const unsigned char bytes[100];
  const char *path = temporary(".embed");
  embed_context *ctx = NULL;
  embed_table *t = NULL;
  pieces p = {.data = bytes, .piece = 7};
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  embed_writer *w = writer_with_a_table(ctx, path, &t);
  assert_int_equal(embed__writer_section_from(ctx, w, "s", 50, give_pieces, &p, NULL), EMBED_OK);
  for (p.bytes = 49; p.bytes <= 51; p.bytes += 2) {
    assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
    assert_non_null(strstr(embed_error_text(ctx), "section \"s\" was to have 50 bytes"));
    assert_int_equal(access(path, F_OK), -1);
  }
  p.bytes = 50;
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_OK);
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(p.calls, 3);
  embed_writer_release(w);
  unlink(path);
  embed_table_release(t);
  embed_context_release(ctx);
}

static void other_formats_hold_no_sections(void **state) {
  (void)state;
  static const char *const extensions[] = {".npy", ".safetensors", ".bin"};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  for (int i = 0; i < 3; ++i) {
    embed_table *t = NULL;
    embed_writer *w = writer_with_a_table(ctx, temporary(extensions[i]), &t);
    assert_int_equal(embed__writer_section(ctx, w, "s", "x", 1), EMBED_E_UNSUPPORTED);
    assert_non_null(strstr(embed_error_text(ctx), "sections"));
    embed_writer_release(w);
    embed_table_release(t);
  }
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(crc32c_gives_the_published_sums),
    cmocka_unit_test(extra_sections_are_found_by_name_and_guarded_by_their_sums),
    cmocka_unit_test(sections_come_back_in_place_as_they_were_written),
    cmocka_unit_test(a_source_gives_what_it_announced_or_nothing_is_written),
    cmocka_unit_test(other_formats_hold_no_sections),
};
TEST_MAIN(tests)
