/* SPDX-License-Identifier: BSD-3-Clause */
/* embed info FILE: format, table, head and how they were found; tokens, conventions, rows that look never trained. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "progress.h"
#include "session.h"
#include "text.h"
#include "trained.h"

typedef struct facts {
  embed_tensor_info table, head;                  /* size 0 = the file has none */
  embed_tensor_info others[EMBED_ROLE_NGRAM + 1]; /* by role: what stands beside them */
  int tied;
  const char *dtype; /* of the table; its own word where no table can be made of it */
  int64_t rows, vocab, dim, bytes;
  embed_conventions conventions;
  int64_t tokens, tokenless; /* tokens; ids without one */
  int looked;                /* at the rows */
  cli_untrained untrained;
} facts;

/* By role, NULL = it is told otherwise. */
static const struct {
  const char *key, *label;
} beside[EMBED_ROLE_NGRAM + 1] = {{NULL, NULL},     {NULL, NULL},      {"head_bias", "bias"},   {"position", "position"}, {"type", "type"},
                                  {"norm", "norm"}, {"norm_bias", ""}, {"per_layer", "layers"}, {"ngram", "n-grams"}};

/* A tensor of a type that no table has is still described: its shape is known. */
static void learn_shape(facts *f) {
  const embed_tensor_info *t = &f->table;
  f->dtype = t->stored;
  f->rows = f->vocab = t->rank == 1 ? 1 : t->shape[0];
  f->dim = t->rank == 1 ? t->shape[0] : 1;
  for (int32_t i = 1; i < t->rank; ++i) f->dim *= t->shape[i]; /* the library proved that the product fits */
  f->bytes = t->bytes;
}

static int learn_table(cli_session *s, facts *f) {
  if (f->table.dtype == EMBED_DTYPE_NONE) {
    learn_shape(f);
    return CLI_DONE;
  }
  if (cli_session_table(s)) return CLI_FAILED;
  f->dtype = embed_dtype_name(embed_table_dtype(s->table));
  f->rows = embed_table_rows(s->table);
  f->vocab = embed_table_vocab(s->table);
  f->dim = embed_table_dim(s->table);
  if (__builtin_mul_overflow(f->rows, embed_table_row_bytes(s->table), &f->bytes)) return cli_fail(s->path, "the table's bytes cannot be counted");
  return CLI_DONE;
}

static int learn_rows(cli_session *s, facts *f) {
  int64_t id = 0;
  for (; id < f->vocab; ++id) embed_file_token(s->file, id, NULL) ? ++f->tokens : ++f->tokenless;
  for (; embed_file_token(s->file, id, NULL); ++id) ++f->tokens;
  if (!s->table) return CLI_DONE;
  f->looked = 1;
  return cli_untrained_find(s, strcmp(f->table.stored, "mapped") == 0, &f->untrained); /* Model2Vec: rows that tokens share */
}

static int learn(cli_session *s, facts *f) {
  int64_t table = -1, head = -1;
  *f = (facts){.conventions.size = sizeof f->conventions};
  if (embed_file_role(s->ctx, s->file, EMBED_ROLE_TOKEN, &table) != EMBED_OK) return cli_library_fail(s);
  if (embed_file_role(s->ctx, s->file, EMBED_ROLE_HEAD, &head) != EMBED_OK) return cli_library_fail(s);
  if (embed_file_conventions(s->ctx, s->file, &f->conventions) != EMBED_OK) return cli_library_fail(s);
  if (table >= 0) {
    f->table.size = sizeof f->table;
    if (embed_file_tensor(s->ctx, s->file, table, &f->table) != EMBED_OK) return cli_library_fail(s);
    if (learn_table(s, f)) return CLI_FAILED;
  }
  if (head >= 0) {
    f->head.size = sizeof f->head;
    if (embed_file_tensor(s->ctx, s->file, head, &f->head) != EMBED_OK) return cli_library_fail(s);
    f->tied = head == table;
  }
  for (embed_role role = EMBED_ROLE_HEAD_BIAS; role <= EMBED_ROLE_NGRAM; ++role) {
    int64_t i = -1;
    if (embed_file_role(s->ctx, s->file, role, &i) != EMBED_OK) return cli_library_fail(s);
    if (i < 0) continue;
    f->others[role].size = sizeof f->others[role];
    if (embed_file_tensor(s->ctx, s->file, i, &f->others[role]) != EMBED_OK) return cli_library_fail(s);
  }
  return learn_rows(s, f);
}

static const char *dtype_name(const embed_tensor_info *tensor) {
  const char *name = embed_dtype_name(tensor->dtype);
  return name ? name : tensor->stored;
}

static void notes_json(cli_json *j, const char *notes) {
  cli_json_open(j, '[');
  while (*notes) {
    size_t bytes = strcspn(notes, "\n");
    if (bytes) cli_json_bytes(j, notes, (int64_t)bytes);
    notes += bytes + (notes[bytes] == '\n');
  }
  cli_json_close(j, ']');
}

static void table_json(cli_json *j, const facts *f) {
  if (!f->table.size) {
    cli_json_null(j);
    return;
  }
  cli_json_open(j, '{');
  cli_json_key(j, "name"), cli_json_text(j, f->table.name);
  cli_json_key(j, "dtype"), cli_json_text(j, f->dtype);
  cli_json_key(j, "rows"), cli_json_integer(j, f->rows);
  cli_json_key(j, "vocab"), cli_json_integer(j, f->vocab);
  cli_json_key(j, "dim"), cli_json_integer(j, f->dim);
  cli_json_key(j, "bytes"), cli_json_integer(j, f->bytes);
  cli_json_close(j, '}');
}

static void head_json(cli_json *j, const facts *f) {
  if (!f->head.size) {
    cli_json_null(j);
    return;
  }
  cli_json_open(j, '{');
  cli_json_key(j, "name"), cli_json_text(j, f->head.name);
  cli_json_key(j, "tied"), cli_json_bool(j, f->tied);
  cli_json_key(j, "dtype"), cli_json_text(j, dtype_name(&f->head));
  cli_json_close(j, '}');
}

/* Names of the tensors beside the ends, by role. */
static void beside_json(cli_json *j, const facts *f) {
  cli_json_open(j, '{');
  for (embed_role role = EMBED_ROLE_HEAD_BIAS; role <= EMBED_ROLE_NGRAM; ++role)
    if (f->others[role].size) cli_json_key(j, beside[role].key), cli_json_text(j, f->others[role].name);
  cli_json_close(j, '}');
}

static void conventions_json(cli_json *j, const embed_conventions *c) {
  cli_json_open(j, '{');
  cli_json_key(j, "lookup_scale"), cli_json_float(j, c->lookup_scale);
  cli_json_key(j, "scale_round"), cli_json_text(j, embed_dtype_name(c->scale_round));
  cli_json_key(j, "logit_scale"), cli_json_float(j, c->logit_scale);
  cli_json_key(j, "logit_softcap"), cli_json_float(j, c->logit_softcap);
  cli_json_key(j, "norm_epsilon"), cli_json_float(j, c->norm_epsilon);
  cli_json_key(j, "layer_norm"), cli_json_bool(j, (c->norm_flags & EMBED_NORM_LAYER) != 0);
  cli_json_key(j, "norm_plus_one"), cli_json_bool(j, (c->norm_flags & EMBED_NORM_PLUS_ONE) != 0);
  cli_json_close(j, '}');
}

static void untrained_json(cli_json *j, const cli_session *s, const facts *f) {
  const cli_untrained *u = &f->untrained;
  if (!f->looked) {
    cli_json_null(j);
    return;
  }
  cli_json_open(j, '{');
  cli_json_key(j, "rows"), cli_json_integer(j, u->count);
  for (int kind = 0; kind < CLI_ROW_KINDS; ++kind) cli_json_key(j, cli_row_kinds[kind]), cli_json_integer(j, u->of_kind[kind]);
  cli_json_key(j, "median_norm"), cli_json_float(j, u->median);
  cli_json_key(j, "first"), cli_json_open(j, '[');
  for (int i = 0; i < u->shown_count; ++i) {
    int64_t bytes = 0;
    const char *token = embed_file_token(s->file, u->shown[i], &bytes);
    cli_json_open(j, '{');
    cli_json_key(j, "id"), cli_json_integer(j, u->shown[i]);
    cli_json_key(j, "token"), cli_json_bytes(j, token, bytes);
    cli_json_key(j, "norm"), cli_json_float(j, u->norms[i]);
    cli_json_key(j, "is"), cli_json_open(j, '[');
    for (int kind = 0; kind < CLI_ROW_KINDS; ++kind)
      if (u->kinds[i] >> kind & 1) cli_json_text(j, cli_row_kinds[kind]);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
  }
  cli_json_close(j, ']');
  cli_json_close(j, '}');
}

static void print_json(const cli_session *s, const facts *f) {
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "format"), cli_json_text(&j, embed_file_format(s->file));
  cli_json_key(&j, "tensors"), cli_json_integer(&j, embed_file_count(s->file));
  cli_json_key(&j, "table"), table_json(&j, f);
  cli_json_key(&j, "head"), head_json(&j, f);
  cli_json_key(&j, "beside"), beside_json(&j, f);
  cli_json_key(&j, "conventions"), conventions_json(&j, &f->conventions);
  cli_json_key(&j, "tokens"), cli_json_integer(&j, f->tokens);
  cli_json_key(&j, "never_trained"), untrained_json(&j, s, f);
  cli_json_key(&j, "notes"), notes_json(&j, embed_file_notes(s->file));
  cli_json_close(&j, '}');
  cli_json_end();
}

static void line(const char *label, const char *text) {
  printf("%-9s", label);
  cli_print_text(stdout, text, strlen(text));
}

/* bias     lm_head.bias  f32 [50257] */
static void print_other(const facts *f, embed_role role) {
  const embed_tensor_info *tensor = &f->others[role];
  if (!tensor->size) return;
  line(beside[role].label, tensor->name);
  printf("  %s [", dtype_name(tensor));
  for (int32_t i = 0; i < tensor->rank; ++i) printf("%s%" PRId64, i ? ", " : "", tensor->shape[i]);
  printf("]");
  if (role == EMBED_ROLE_NORM && f->conventions.norm_epsilon > 0)
    printf("  %s%s, epsilon %.7g", f->conventions.norm_flags & EMBED_NORM_LAYER ? "layer norm" : "RMS norm",
           f->conventions.norm_flags & EMBED_NORM_PLUS_ONE ? " of 1 + w" : "", (double)f->conventions.norm_epsilon);
  putchar('\n');
}

static void print_others(const facts *f) {
  for (embed_role role = EMBED_ROLE_HEAD_BIAS; role <= EMBED_ROLE_NGRAM; ++role) print_other(f, role);
}

static void print_tokens(const facts *f) {
  if (f->tokens == 0) return;
  printf("%-9s%" PRId64, "tokens", f->tokens);
  if (f->tokenless) printf(", %" PRId64 " of the valid ids have none", f->tokenless);
  if (f->tokens + f->tokenless > f->vocab) printf(", %" PRId64 " of them behind the rows", f->tokens + f->tokenless - f->vocab);
  putchar('\n');
}

/* unused   12 rows look never trained: 8 equal, 4 short (norm below a tenth of the median 3.2)
 *          36743 PlaneProtection (equal), ... */
static void print_untrained(const cli_session *s, const cli_untrained *u) {
  const char *between = ": ";
  if (u->count == 0) return;
  printf("%-9s%" PRId64 " rows look never trained", "unused", u->count);
  for (int kind = 0; kind < CLI_ROW_KINDS; ++kind) {
    if (!u->of_kind[kind]) continue;
    printf("%s%" PRId64 " %s", between, u->of_kind[kind], cli_row_kinds[kind]);
    between = ", ";
    if (1 << kind == CLI_ROW_EQUAL) printf(" to others");
    if (1 << kind == CLI_ROW_SHORT) printf(" (the median norm is %.6g)", (double)u->median);
    if (1 << kind == CLI_ROW_UNUSED) printf(" (cosine with the %" PRId64 " tokens named unused from %.4g)", u->named, (double)u->nearness);
    if (1 << kind == CLI_ROW_BROKEN) printf(" (NaN or infinite)");
  }
  printf("\n%-9s", "");
  for (int i = 0; i < u->shown_count; ++i) {
    int64_t bytes = 0;
    const char *token = embed_file_token(s->file, u->shown[i], &bytes);
    printf("%s%" PRId64, i ? ", " : "", u->shown[i]);
    if (token) putchar(' '), cli_print_text(stdout, token, (size_t)bytes);
    between = " (";
    for (int kind = 0; kind < CLI_ROW_KINDS; ++kind)
      if (u->kinds[i] >> kind & 1) printf("%s%s", between, cli_row_kinds[kind]), between = " ";
    putchar(')');
  }
  puts(u->count > u->shown_count ? ", ..." : "");
}

/* Why a table of 32064 rows has 32000 ids. */
static void print_padding(const facts *f) {
  if (f->vocab < f->rows)
    printf("%-9srows %" PRId64 " to %" PRId64 " are no ids: lookups refuse them, heads and neighbours leave them out\n", "padding", f->vocab, f->rows - 1);
}

static void print_scales(const embed_conventions *c) {
  if (c->lookup_scale != 0 && c->lookup_scale != 1)
    printf("%-9slookups are scaled by %.9g%s%s; the head reads the rows as they are\n", "scale", (double)c->lookup_scale,
           c->scale_round == EMBED_F32 ? "" : " rounded to ", c->scale_round == EMBED_F32 ? "" : embed_dtype_name(c->scale_round));
  if (c->logit_scale != 0 && c->logit_scale != 1) printf("%-9slogits are scaled by %.9g\n", "scale", (double)c->logit_scale);
  if (c->logit_softcap != 0) printf("%-9slogits are soft-capped at %.9g\n", "soft-cap", (double)c->logit_softcap);
}

static void print_facts(const cli_session *s, const facts *f) {
  line("file", s->path), putchar('\n');
  line("format", embed_file_format(s->file)), putchar('\n');
  printf("%-9s%" PRId64 "\n", "tensors", embed_file_count(s->file));
  if (f->table.size) {
    line("table", f->table.name);
    printf("  %s  %" PRId64 " rows x %" PRId64, f->dtype, f->rows, f->dim);
    if (f->vocab != f->rows) printf(", %" PRId64 " of them valid ids", f->vocab);
    printf("  %" PRId64 " bytes%s\n", f->bytes, f->table.dtype == EMBED_DTYPE_NONE ? ", a type that no table has here" : "");
  } else {
    line("table", "none"), putchar('\n');
  }
  line("head", f->head.size ? f->head.name : "none");
  if (f->head.size) printf("  %s  %s", dtype_name(&f->head), f->tied ? "tied: the table itself" : "untied");
  putchar('\n');
  print_others(f);
  if (f->table.size) print_padding(f);
  print_scales(&f->conventions);
  print_tokens(f);
  if (f->looked) print_untrained(s, &f->untrained);
  const char *label = "notes";
  for (const char *notes = embed_file_notes(s->file); *notes; label = "") {
    size_t bytes = strcspn(notes, "\n");
    printf("%-9s", label);
    cli_print_text(stdout, notes, bytes);
    putchar('\n');
    notes += bytes + (notes[bytes] == '\n');
  }
}

int cli_info(const cli_options *o) {
  cli_session s;
  facts f;
  int status = cli_session_open(&s, o);
  if (!status) status = learn(&s, &f);
  if (!status) {
    cli_progress_end();
    if (o->json) {
      print_json(&s, &f);
    } else {
      print_facts(&s, &f);
    }
  }
  cli_session_close(&s);
  return status;
}
