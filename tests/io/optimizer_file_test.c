/* SPDX-License-Identifier: BSD-3-Clause */
/* An optimiser saved beside its table goes on with the bits that it would have had; a file that says nonsense is refused. */
#include "writing.h"

#include <stdlib.h>

enum { ROWS = 60, DIM = 9, N = 8 };

static const embed_optimizer_kind kinds[] = {EMBED_OPTIM_SGD,   EMBED_OPTIM_ADAGRAD,        EMBED_OPTIM_ADAGRAD_ROW, EMBED_OPTIM_ADAM_SPARSE,
                                             EMBED_OPTIM_ADAMW, EMBED_OPTIM_ADAMW_DEFERRED, EMBED_OPTIM_ADAM_LAZY,   EMBED_OPTIM_ADAM_ROW,
                                             EMBED_OPTIM_FTRL,  EMBED_OPTIM_ADAFACTOR};

static embed_optimizer_options options_of(embed_optimizer_kind kind) {
  embed_optimizer_options o = {.size = sizeof o, .kind = kind, .lr = 0.01, .weight_decay = 0.1, .seed = 5};
  if (kind == EMBED_OPTIM_SGD) o.momentum = 0.9;
  return o;
}

static void steps(embed_context *ctx, embed_optimizer *o, embed_table *t, int first, int end) {
  for (int s = first; s < end; ++s) {
    uint64_t random = (uint64_t)s * 31 + 1;
    int32_t ids[N];
    float values[N * DIM];
    embed_grad *g = NULL;
    const embed_step_options rate = {.size = sizeof rate, .flags = EMBED_STEP_LR, .lr = 0.001 * (s % 17 + 1)};
    for (int i = 0; i < N; ++i) ids[i] = (int32_t)(test_random(&random) % ROWS);
    for (int i = 0; i < N * DIM; ++i) values[i] = test_uniform(&random);
    done(ctx, embed_grad_create(ctx, DIM, &g));
    done(ctx, embed_grad_add(ctx, g, ids, N, values, 0));
    done(ctx, embed_optimizer_step(ctx, o, t, g, &rate));
    embed_grad_release(g);
  }
}

static embed_table *table_new(embed_context *ctx, embed_dtype dtype) {
  embed_table *t = NULL;
  const embed_table_options as = {.size = sizeof as, .dtype = dtype};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_UNIFORM, .scale = 1, .seed = 1};
  done(ctx, embed_table_create(ctx, ROWS, DIM, &as, &t));
  done(ctx, embed_table_init(ctx, t, &init));
  return t;
}

static void save(embed_context *ctx, const char *path, embed_optimizer *o, const embed_table *t) {
  embed_writer *w = NULL;
  done(ctx, embed_writer_create(ctx, path, NULL, &w));
  done(ctx, embed_writer_table(ctx, w, "token_embd.weight", t, NULL));
  done(ctx, embed_writer_optimizer(ctx, w, o, t));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
}

static embed_table *copy_of_file(embed_context *ctx, const embed_file *f) {
  embed_table *view = NULL, *t = NULL;
  const embed_table_options same = {.size = sizeof same, .dtype = EMBED_DTYPE_NONE};
  done(ctx, embed_file_table(ctx, f, -1, &view));
  done(ctx, embed_table_convert(ctx, view, &same, &t));
  embed_table_release(view);
  return t;
}

static void training_goes_on_with_the_same_bits(void **state) {
  (void)state;
  if (TEST_BIG_ENDIAN) skip();
  counting c = {0};
  embed_context *ctx = counting_context(&c);
  fresh_folder();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    for (int variant = 0; variant < 4; ++variant) {
      embed_optimizer_options options = options_of(kinds[i]);
      if (variant & 1) options.state = EMBED_BF16;
      if ((variant & 1) && kinds[i] == EMBED_OPTIM_ADAMW_DEFERRED) options.flags = EMBED_OPTIM_REPLAY;
      embed_table *a = table_new(ctx, variant & 1 ? EMBED_BF16 : EMBED_F32);
      embed_optimizer *o = NULL, *again = NULL;
      done(ctx, embed_optimizer_create(ctx, a, &options, &o));
      steps(ctx, o, a, 1, 150);
      if (variant & 2) {
        done(ctx, embed_optimizer_freeze(ctx, o, a, 3, 20, NULL, 1));
        steps(ctx, o, a, 150, 300); /* a history that does not begin with the first step */
      }
      save(ctx, in_folder("o.embed"), o, a);
      embed_file *f = open_file(ctx, in_folder("o.embed"), &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_CHECK});
      embed_table *b = copy_of_file(ctx, f);
      done(ctx, embed_optimizer_restore(ctx, f, -1, b, &again));
      embed_file_release(f);
      assert_int_equal(embed_optimizer_steps(again), embed_optimizer_steps(o));
      steps(ctx, o, a, 300, 700);
      steps(ctx, again, b, 300, 700);
      done(ctx, embed_optimizer_touch(ctx, o, a, NULL, 0));
      done(ctx, embed_optimizer_touch(ctx, again, b, NULL, 0));
      assert_memory_equal(embed_table_data(a), embed_table_data(b), (size_t)(ROWS * embed_table_row_bytes(a)));
      embed_optimizer_release(o);
      embed_optimizer_release(again);
      embed_table_release(a);
      embed_table_release(b);
    }
  remove_folder();
  embed_context_release(ctx);
}

static void what_cannot_be_saved_is_refused(void **state) {
  (void)state;
  if (TEST_BIG_ENDIAN) skip();
  counting c = {0};
  embed_context *ctx = counting_context(&c);
  embed_table *t = table_new(ctx, EMBED_F32), *other = table_new(ctx, EMBED_BF16);
  const embed_optimizer_options adam = options_of(EMBED_OPTIM_ADAM_SPARSE);
  embed_optimizer *o = NULL, *again = (embed_optimizer *)(void *)t;
  embed_writer *w = NULL;
  fresh_folder();
  done(ctx, embed_optimizer_create(ctx, t, &adam, &o));
  done(ctx, embed_writer_create(ctx, in_folder("o.embed"), NULL, &w));
  assert_int_equal(embed_writer_optimizer(ctx, w, o, t), EMBED_E_NOT_FOUND);
  assert_int_equal(embed_writer_optimizer(ctx, w, o, other), EMBED_E_MISMATCH);
  assert_int_equal(embed_writer_optimizer(ctx, w, NULL, t), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  done(ctx, embed_writer_optimizer(ctx, w, o, t));
  assert_int_equal(embed_writer_optimizer(ctx, w, o, t), EMBED_E_ARGUMENT);
  steps(ctx, o, t, 1, 2);
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_STALE);
  assert_int_equal(names_in_folder(), 0);
  embed_optimizer_release(o); /* the writer has it still */
  embed_writer_release(w);
  w = NULL;
  done(ctx, embed_optimizer_create(ctx, t, &adam, &o));
  done(ctx, embed_writer_create(ctx, in_folder("o.safetensors"), NULL, &w));
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  assert_int_equal(embed_writer_optimizer(ctx, w, o, t), EMBED_E_UNSUPPORTED);
  done(ctx, embed_writer_commit(ctx, w));
  assert_int_equal(embed_writer_optimizer(ctx, w, o, t), EMBED_E_ARGUMENT);
  embed_writer_release(w);
  embed_file *f = open_file(ctx, in_folder("o.safetensors"), NULL);
  assert_int_equal(embed_optimizer_restore(ctx, f, 0, t, &again), EMBED_E_NOT_FOUND);
  assert_null(again);
  assert_int_equal(embed_optimizer_restore(ctx, f, 7, t, &again), EMBED_E_ARGUMENT);
  embed_file_release(f);
  save(ctx, in_folder("p.embed"), o, t);
  f = open_file(ctx, in_folder("p.embed"), NULL);
  assert_int_equal(embed_optimizer_restore(ctx, f, -1, other, &again), EMBED_E_MISMATCH);
  embed_file_release(f);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_table_release(other);
  remove_folder();
  embed_context_release(ctx);
}

/* CRC-32C, bit by bit: what a hostile writer would put there. */
static uint32_t sum_of(const unsigned char *at, size_t bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= at[i];
    for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

static uint64_t number(const unsigned char *at, int bytes) {
  uint64_t x = 0;
  for (int i = 0; i < bytes; ++i) x |= (uint64_t)at[i] << 8 * i;
  return x;
}

static void put(unsigned char *at, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = (unsigned char)(x >> 8 * i);
}

/* Each byte of the header, and stamps and rates, set to other values with all sums made right again: an error, or an optimiser that
 * takes steps and touches without harm (a sanitized build watches). */
static void hostile_sections_are_refused_or_harmless(void **state) {
  (void)state;
  if (TEST_BIG_ENDIAN) skip();
  counting c = {0};
  embed_context *ctx = counting_context(&c);
  fresh_folder();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const embed_optimizer_options options = options_of(kinds[i]);
    embed_table *t = table_new(ctx, EMBED_F32);
    embed_optimizer *o = NULL;
    done(ctx, embed_optimizer_create(ctx, t, &options, &o));
    steps(ctx, o, t, 1, 4);
    save(ctx, in_folder("h.embed"), o, t);
    embed_optimizer_release(o);
    size_t bytes;
    unsigned char *whole = read_file(in_folder("h.embed"), &bytes);
    const unsigned sections = (unsigned)number(whole + 12, 4);
    unsigned char *entry = NULL;
    for (unsigned s = 0; s < sections; ++s)
      if (number(whole + 64 + 96 * s, 4) == 5) entry = whole + 64 + 96 * s;
    assert_non_null(entry);
    unsigned char *section = whole + number(entry + 8, 8);
    const size_t length = (size_t)number(entry + 16, 8), directory = (size_t)number(whole + 24, 8);
    int refused = 0;
    for (size_t at = 0; at < length; at += at < 160 ? 1 : length > 4000 ? 97 : 13) {
      static const unsigned char values[] = {0, 1, 0x7F, 0x80, 0xFF};
      for (int v = 0; v < 5; ++v) {
        const unsigned char was = section[at];
        section[at] = values[v];
        put(entry + 24, sum_of(section, length), 4);
        put(whole + 32, sum_of(whole + 64, directory - 64), 4);
        put(whole + 60, sum_of(whole, 60), 4);
        FILE *out = fopen(in_folder("x.embed"), "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(whole, 1, bytes, out), bytes);
        fclose(out);
        embed_file *f = open_file(ctx, in_folder("x.embed"), NULL);
        const embed_status status = embed_optimizer_restore(ctx, f, -1, t, &o);
        if (status == EMBED_OK) {
          embed_table *copy = copy_of_file(ctx, f);
          embed_grad *g = NULL;
          const int32_t id = 1;
          const float ones[DIM] = {1};
          done(ctx, embed_grad_create(ctx, DIM, &g));
          done(ctx, embed_grad_add(ctx, g, &id, 1, ones, 0));
          const embed_status step = embed_optimizer_step(ctx, o, copy, g, NULL);
          assert_true(step == EMBED_OK || step == EMBED_E_OPTION); /* a rate of the header whose decay is too large */
          done(ctx, embed_optimizer_touch(ctx, o, copy, NULL, 0));
          embed_grad_release(g);
          embed_table_release(copy);
        } else {
          assert_null(o);
          assert_true(status == EMBED_E_FORMAT || status == EMBED_E_MISMATCH || status == EMBED_E_UNSUPPORTED);
          ++refused;
        }
        embed_optimizer_release(o);
        embed_file_release(f);
        section[at] = was;
      }
    }
    assert_true(refused > 100);
    free(whole);
    embed_table_release(t);
  }
  remove_folder();
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(training_goes_on_with_the_same_bits),
    cmocka_unit_test(what_cannot_be_saved_is_refused),
    cmocka_unit_test(hostile_sections_are_refused_or_harmless),
};
TEST_MAIN(tests)
