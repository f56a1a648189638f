/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/format.h"

#include <string.h>

#include "core/error.h"
#include "io/text.h"

static const embed__format registry[] = {
#define FORMAT(name, extension, probe, open) {name, extension, probe, open},
#include "io/formats.def"
#undef FORMAT
};
enum { COUNT = sizeof registry / sizeof *registry, NAMES = 256 };

static const char *all_names(char room[NAMES]) {
  embed__text names = embed__text_in(room, NAMES);
  for (int i = 0; i < COUNT; ++i) {
    if (i) embed__text_add(&names, ", ");
    embed__text_add(&names, registry[i].name);
  }
  return room;
}

static bool begins(const embed__map *m, const char *with, size_t bytes) { return m->bytes >= (int64_t)bytes && memcmp(m->data, with, bytes) == 0; }

static unsigned char lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 'a' - 'A') : c; }

/* ASCII's case alone: strcasecmp follows the host's locale. */
static bool same_letters(const void *a, const char *b, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (lower(((const unsigned char *)a)[i]) != lower((unsigned char)b[i])) return false;
  return true;
}

static bool is_html(const embed__map *m) {
  static const char *const starts[] = {"<!doctype html", "<html"};
  int64_t at = 0;
  while (at < m->bytes && memchr(" \t\r\n", m->data[at], 4)) ++at;
  for (size_t i = 0; i < sizeof starts / sizeof *starts; ++i) {
    size_t bytes = strlen(starts[i]);
    if (m->bytes - at >= (int64_t)bytes && same_letters(m->data + at, starts[i], bytes)) return true;
  }
  return false;
}

const char *embed__mistaken_for(const embed__map *m) {
  if (begins(m, "\x1F\x8B", 2)) return "it is gzip data: unpack it first";
  if (m->bytes > 1 && m->data[0] == 0x80 && m->data[1] >= 2 && m->data[1] <= 5)
    return "it is a Python pickle, which is never run: save its rows in another way (gensim: save_word2vec_format, or the .npy beside it)";
  if (begins(m, "PK\x03\x04", 4) || begins(m, "PK\x05\x06", 4)) return "it is a zip archive: unpack it first";
  if (begins(m, "version https://git-lfs.github.com/spec/", 40)) return "it is a Git LFS pointer: fetch the file that it stands for (git lfs pull)";
  if (is_html(m)) return "it is an HTML page, perhaps one that a server sent instead of the file";
  return NULL;
}

/* The format that the path ends like, NULL = none. */
static const embed__format *named_like(const char *label) {
  const embed__format *longest = NULL;
  for (int i = 0; i < COUNT; ++i) {
    size_t bytes = strlen(registry[i].extension), whole = strlen(label);
    if (whole > bytes && same_letters(label + whole - bytes, registry[i].extension, bytes) && (!longest || bytes > strlen(longest->extension)))
      longest = &registry[i];
  }
  return longest;
}

static embed_status unrecognised(embed_context *ctx, const embed_file *f) {
  char names[NAMES];
  const char *instead = embed__mistaken_for(&f->map);
  const embed__format *named = named_like(f->label);
  if (instead && named)
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: it is not %s: %s (formats tried: %s)", f->label, named->name, instead, all_names(names));
  if (instead) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: %s (formats tried: %s)", f->label, instead, all_names(names));
  if (named)
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: its name says %s, by its first bytes it is not %s (formats tried: %s)", f->label, named->name, named->name,
                       all_names(names));
  return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: no format recognises it (formats tried: %s)", f->label, all_names(names));
}

embed_status embed__format_choose(embed_context *ctx, embed_file *f, const char *name) {
  char names[NAMES];
  for (int i = 0; i < COUNT; ++i) {
    if (name ? strcmp(registry[i].name, name) != 0 : !registry[i].probe(f->map.data, f->map.bytes)) continue;
    f->format = &registry[i];
    return EMBED_OK;
  }
  if (name) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "no format is named \"%.40s\"; there are %s", name, all_names(names));
  return unrecognised(ctx, f);
}
