/* SPDX-License-Identifier: BSD-3-Clause */
/* A file opened for a command: its context and pool, its table and head. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <embed/embed.h>

#include "cli.h"

typedef struct cli_session {
  const char *path;
  embed_pool *pool;
  embed_context *ctx;
  embed_file *file;
  embed_table *table; /* after cli_session_table */
  embed_head *head;   /* after cli_session_head */
} cli_session;

/* Each: 0, or CLI_FAILED after the one line on stderr. cli_session_close in either case. */
int cli_session_open(cli_session *s, const cli_options *o);
int cli_session_table(cli_session *s);
int cli_session_head(cli_session *s, const embed_head_options *options);
void cli_session_close(cli_session *s);

int cli_context(cli_session *s, const char *isa, embed_context **out);            /* isa NULL = the CPU's best */
int cli_library_fail(const cli_session *s);                                       /* the line for the last failure of s->ctx */
void *cli_array(const cli_session *s, int64_t count, int64_t each, size_t bytes); /* count * each things of `bytes`; NULL after the line */

/* A word of the file's tokens, or '#' and digits: the row of that number. */
int cli_session_row(cli_session *s, const char *word, int32_t *id);

#endif
