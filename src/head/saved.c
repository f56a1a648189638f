/* SPDX-License-Identifier: BSD-3-Clause */
/* The prepared form of a head in a file: a section "head.prepared.NAME" beside the table NAME (io/FORMAT.md), which a later
 * embed_file_head takes where it lies. */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "head/head.h"
#include "io/container.h"
#include "io/text.h"
#include "io/writer.h"

enum { NAME_BYTES = 512 };

/* False: the name is longer than that; such tables have no such section. */
static bool section_name(char name[NAME_BYTES], const char *table) {
  static const char prefix[] = "head.prepared.";
  if (strlen(table) >= NAME_BYTES - sizeof prefix) return false;
  memcpy(name, prefix, sizeof prefix);
  strcat(name, table);
  return true;
}

bool embed__head_saved(const embed_context *ctx, const embed_file *f, const char *name, const embed_table *t, embed__prepared *out) {
  char section[NAME_BYTES];
  const unsigned char *data;
  int64_t bytes;
  if (!section_name(section, name)) return false;
  embed__container_extra_in_place(f, section, &data, &bytes);
  return data && embed__prepared_view(ctx, t, data, bytes, out);
}

static embed_status give_block(embed_context *ctx, void *arg, embed__section_sink *sink) {
  const embed_head *h = arg;
  EMBED__TRY(embed__head_fresh(ctx, h));
  return embed__section_add(ctx, sink, h->prepared.block, (int64_t)h->prepared.bytes);
}

static void release_head(void *head) { embed_head_release(head); }

/* The name under which the writer has the head's table as it is stored; NULL = it has not. */
static const char *written_name(const embed_writer *w, const embed_table *t) {
  for (int64_t i = 0; i < w->tables.count; ++i) {
    const embed__written_table *written = embed__written(w, i);
    if (written->table == t && written->dtype == t->dtype && written->group == t->group && written->vocab == t->vocab) return written->name;
  }
  return NULL;
}

static embed_status write_head(embed_context *ctx, embed_writer *w, const embed_head *h) {
  char section[NAME_BYTES];
  if (!h->prepared.block) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: this head has no prepared form to be written", w->label);
  if (EMBED__BIG_ENDIAN_HOST) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: prepared forms are little-endian, this machine is not", w->label);
  EMBED__TRY(embed__head_fresh(ctx, h));
  const char *name = written_name(w, h->table);
  if (!name)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: the head's table is not among the %" PRId64 " tables handed in as they are stored", w->label,
                       w->tables.count);
  if (!section_name(section, name)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the table's name has more than %d bytes", w->label, NAME_BYTES);
  embed_head *shared = embed_head_retain(h);
  embed_status status = embed__writer_section_from(ctx, w, section, (int64_t)h->prepared.bytes, give_block, shared, release_head);
  if (status != EMBED_OK) embed_head_release(shared);
  return status;
}

embed_status embed_writer_head(embed_context *ctx, embed_writer *w, const embed_head *h) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, h);
  EMBED__TRY(embed__writer_open(ctx, w));
  return write_head(ctx, w, h);
}
