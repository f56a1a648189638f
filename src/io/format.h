/* SPDX-License-Identifier: BSD-3-Clause */
/* What a file format is: two functions and a line in formats.def. */
#ifndef EMBED__FORMAT_H
#define EMBED__FORMAT_H

#include "io/file.h"

/* Whether the first bytes look like this format. Cheap, and never an error. */
typedef bool embed__probe(const unsigned char *data, int64_t bytes);
/* Proves the whole file and fills f's tensors, tokens and notes. On failure f is released by the caller, as it is. */
typedef embed_status embed__open(embed_context *ctx, embed_file *f, const embed_file_options *o);

struct embed__format {
  const char *name, *extension;
  embed__probe *probe;
  embed__open *open;
};

#define FORMAT(name, extension, probe, open) \
  embed__probe probe;                        \
  embed__open open;
#include "io/formats.def"
#undef FORMAT

/* Sets f->format: the one that name asks for (NULL = the first that recognises the content). E_NOT_FOUND: no such name;
 * E_FORMAT: no format recognises the file. */
embed_status embed__format_choose(embed_context *ctx, embed_file *f, const char *name);

/* What people hand in instead of a model, in words ("it is gzip data: unpack it first"); NULL = none of those. */
const char *embed__mistaken_for(const embed__map *m);

#endif
