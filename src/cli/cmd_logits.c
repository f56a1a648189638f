/* SPDX-License-Identifier: BSD-3-Clause */
/* embed logits FILE --hidden H.npy --npy OUT: [n, vocab] logits, a block of hidden states at a time; with --json what OUT is. */
#include <stdlib.h>
#include <string.h>

#include "hidden.h"
#include "json.h"
#include "npy_out.h"
#include "progress.h"

enum { BLOCK_BYTES = 1 << 26 };

static int write_logits(cli_session *s, cli_npy *out, const float *hidden, int64_t n) {
  int64_t vocab = embed_head_vocab(s->head), dim = embed_head_dim(s->head), most = vocab > 0 && vocab < BLOCK_BYTES / 4 ? BLOCK_BYTES / 4 / vocab : 1;
  if (most > n) most = n;
  float *logits = cli_array(s, most, vocab, sizeof *logits);
  int status = logits ? CLI_DONE : CLI_FAILED;
  for (int64_t i = 0, rows; !status && i < n; i += rows) {
    rows = n - i < most ? n - i : most;
    cli_progress_step(i, n);
    if (embed_logits(s->ctx, s->head, hidden + i * dim, EMBED_F32, rows, 0, logits, 0, NULL) != EMBED_OK) status = cli_library_fail(s);
    if (!status) status = cli_npy_write(out, logits, rows * vocab);
  }
  free(logits);
  return status;
}

static void tell_json(const char *npy, int64_t rows, int64_t vocab) {
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "file"), cli_json_bytes(&j, npy, (int64_t)strlen(npy));
  cli_json_key(&j, "rows"), cli_json_integer(&j, rows);
  cli_json_key(&j, "vocab"), cli_json_integer(&j, vocab);
  cli_json_close(&j, '}');
  cli_json_end();
}

int cli_logits(const cli_options *o) {
  cli_session s;
  cli_npy out;
  float *hidden = NULL;
  int64_t n = 0;
  if (!o->hidden) return cli_usage("logits", "--hidden is missing");
  if (!o->npy) return cli_usage("logits", "--npy is missing");
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_head(&s, NULL);
  if (!status) status = cli_hidden_read(&s, o->hidden, &hidden, &n);
  if (!status) status = cli_npy_open(&out, o->npy, n, embed_head_vocab(s.head), (const char *const[]){s.path, o->hidden}, 2);
  if (!status) {
    status = write_logits(&s, &out, hidden, n);
    if (status) {
      cli_npy_drop(&out);
    } else {
      status = cli_npy_close(&out);
    }
  }
  if (!status && o->json) {
    cli_progress_end();
    tell_json(o->npy, n, embed_head_vocab(s.head));
  }
  free(hidden);
  cli_session_close(&s);
  return status;
}
