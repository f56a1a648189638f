/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a file, on the disk and under its name before the call returns. The peer puts as many bytes there by write(2) from memory that
 * is warm, a MiB at a time, and waits for the disk as well: the rate of the disk in this run. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "op.h"

enum { ROWS = OP_ROWS / 3 };

static const struct {
  const char *name;
  int64_t rows; /* of OP_DIM */
  bool tokens;
} formats[] = {{"gguf", ROWS, true},         {"npz", ROWS, false},  {"word2vec-text", ROWS / 3, true}, {"finalfusion", ROWS, true},
               {"safetensors", ROWS, false}, {"embed", ROWS, true}, {"word2vec", ROWS, true},          {"npy", ROWS, false}}; /* n of the line */

typedef struct write_job {
  op *o;
  op_outcome *outcome;
  embed_table *rows;
  embed_writer *writer;
  int format;
  char path[64], peer_path[64];
  int64_t bytes; /* of the file */
} write_job;

static void prepare(void *job) {
  write_job *j = job;
  embed_context *ctx = j->o->context;
  embed_writer_options options = {.size = sizeof options, .format = formats[j->format].name};
  embed_writer_release(j->writer);
  j->writer = NULL;
  unlink(j->path); /* to free the pages of an old file takes its time, too */
  op_note(j->o, j->outcome, embed_writer_create(ctx, j->path, &options, &j->writer));
  if (!j->writer) return;
  op_note(j->o, j->outcome, embed_writer_table(ctx, j->writer, "token_embd.weight", j->rows, NULL));
  for (int64_t id = 0; formats[j->format].tokens && id < formats[j->format].rows; ++id) {
    char token[32];
    op_note(j->o, j->outcome, embed_writer_token(ctx, j->writer, id, token, snprintf(token, sizeof token, "word%d", (int)id)));
  }
}

static void write_file(void *job) {
  write_job *j = job;
  if (j->writer) op_note(j->o, j->outcome, embed_writer_commit(j->o->context, j->writer));
}

static void write_bytes(void *job) {
  enum { PIECE = 1 << 20 };
  static char piece[PIECE];
  write_job *j = job;
  int descriptor = open(j->peer_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (int64_t left = j->bytes; left > 0;) {
    const ssize_t done = write(descriptor, piece, left < PIECE ? (size_t)left : PIECE);
    if (done <= 0) {
      snprintf(j->outcome->text, sizeof j->outcome->text, "the disk does not take the peer's file");
      break;
    }
    left -= done;
  }
  if (fsync(descriptor) != 0) snprintf(j->outcome->text, sizeof j->outcome->text, "the disk cannot be flushed");
  close(descriptor);
}

static void remove_peer(void *job) {
  write_job *j = job;
  unlink(j->peer_path);
}

void op_write(op *o, const op_line *line) {
  const double fast = 1 / 0.85; /* GB/s: no more is asked for where the disk is faster */
  op_outcome outcome = {0};
  char what[64];
  write_job j = {.o = o, .outcome = &outcome, .format = (int)line->n};
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "of the disk"};
  const embed_table *t = op_table(o, EMBED_F32, &outcome);
  embed_table_options options = {.size = sizeof options};
  snprintf(what, sizeof what, "write   f32   %dx%d  %s", (int)formats[j.format].rows, OP_DIM, formats[j.format].name);
  snprintf(j.path, sizeof j.path, "%s/bench-op-%ld.written", P_tmpdir, (long)getpid());
  snprintf(j.peer_path, sizeof j.peer_path, "%s/bench-op-%ld.peer", P_tmpdir, (long)getpid());
  if (t) op_note(o, &outcome, embed_table_view(o->context, embed_table_data(t), formats[j.format].rows, OP_DIM, &options, NULL, NULL, &j.rows));
  if (j.rows) {
    struct stat about = {0};
    prepare(&j);
    write_file(&j);
    if (stat(j.path, &about) == 0) j.bytes = about.st_size;
    const bench_work works[2] = {{.call = write_file, .prepare = prepare, .job = &j, .waits = true},
                                 {.call = write_bytes, .prepare = remove_peer, .job = &j, .waits = true}};
    bench_figure figures[2] = {0};
    if (!op_wrong(&outcome)) bench_measure(o->bench, works, 2, figures);
    r.ours = figures[0];
    r.peer = figures[1];
    r.figure = r.ours.seconds > 0 ? (double)j.bytes / r.ours.seconds / 1e9 : 0;
    r.limit = r.peer.seconds > 0 ? (double)j.bytes / r.peer.seconds / 1e9 : 0;
    if (r.limit > fast) r.limit = fast;
  }
  embed_writer_release(j.writer);
  embed_table_release(j.rows);
  unlink(j.path);
  unlink(j.peer_path);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}
