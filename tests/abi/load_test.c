/* SPDX-License-Identifier: BSD-3-Clause */
/* What loading the library and using it does to the process: nothing that outlives the call. */
#include "test.h"

#include <dlfcn.h>
#include <embed/embed.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define FIND(library, name) ((__typeof__(&name))(uintptr_t)dlsym((library), #name))

typedef struct process_state {
  struct sigaction actions[65];
  sigset_t blocked;
  stack_t stack;
  struct rlimit limit;
  mode_t mask;
  char locale[256];
  int rounding;
  unsigned mxcsr;
  float tiny; /* 1e-40 * 1: zero where subnormals are flushed */
} process_state;

static unsigned mxcsr(void) {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_stmxcsr() & ~0x3Fu; /* without the sticky exception flags */
#else
  return 0;
#endif
}

static float subnormal(void) {
  volatile float x = 1e-40f, one = 1.0f;
  return x * one;
}

static void look(process_state *s) {
  memset(s, 0, sizeof *s);
  for (int i = 1; i <= 64; ++i) (void)sigaction(i, NULL, &s->actions[i]);
  pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
  sigaltstack(NULL, &s->stack);
  getrlimit(RLIMIT_STACK, &s->limit);
  s->mask = umask(022);
  umask(s->mask);
  snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
  s->rounding = fegetround();
  s->mxcsr = mxcsr();
  s->tiny = subnormal();
}

static void *look_from_a_new_thread(void *out) {
  process_state *s = out;
  s->mxcsr = mxcsr();
  s->tiny = subnormal();
  return NULL;
}

static void use(void *library) {
  embed_context *ctx = NULL;
  embed_pool *pool = NULL;
  embed_table *table = NULL, *small = NULL;
  embed_context_options with_pool = {.size = sizeof with_pool};
  embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL};
  embed_table_options to_int8 = {.size = sizeof to_int8, .dtype = EMBED_I8_ROW};
  assert_int_equal(FIND(library, embed_pool_create)(3, &pool), EMBED_OK);
  with_pool.pool = pool;
  assert_int_equal(FIND(library, embed_context_create)(&with_pool, &ctx), EMBED_OK);
  embed_head *head = NULL;
  static float hidden[40 * 100], logits[40 * 2000];
  errno = 4711;
  assert_int_equal(FIND(library, embed_table_create)(ctx, 2000, 100, NULL, &table), EMBED_OK);
  assert_int_equal(FIND(library, embed_table_init)(ctx, table, &init), EMBED_OK);
  assert_int_equal(FIND(library, embed_table_convert)(ctx, table, &to_int8, &small), EMBED_OK);
  assert_int_equal(errno, 4711); /* untouched by a success */
  assert_int_equal(FIND(library, embed_head_create)(ctx, table, NULL, NULL, &head), EMBED_OK);
  assert_int_equal(FIND(library, embed_logits)(ctx, head, hidden, EMBED_F32, 40, 0, logits, 0, NULL), EMBED_OK); /* through BLAS */
  FIND(library, embed_head_release)(head);
  FIND(library, embed_table_release)(small);
  FIND(library, embed_table_release)(table);
  FIND(library, embed_context_release)(ctx);
  FIND(library, embed_pool_release)(pool);
}

static void same(const process_state *a, const process_state *b) {
  for (int i = 1; i <= 64; ++i) {
    assert_true(a->actions[i].sa_handler == b->actions[i].sa_handler);
    assert_int_equal(a->actions[i].sa_flags, b->actions[i].sa_flags);
  }
  assert_memory_equal(&a->blocked, &b->blocked, sizeof a->blocked);
  assert_true(a->stack.ss_sp == b->stack.ss_sp && a->stack.ss_size == b->stack.ss_size);
  assert_true(a->limit.rlim_cur == b->limit.rlim_cur && a->limit.rlim_max == b->limit.rlim_max);
  assert_int_equal(a->mask, b->mask);
  assert_string_equal(a->locale, b->locale);
  assert_int_equal(a->rounding, b->rounding);
  assert_int_equal(a->mxcsr, b->mxcsr);
  assert_true(a->tiny == b->tiny && b->tiny > 0);
}

/* OB-07, FF-03 */
static void loading_and_using_changes_nothing_of_the_process(void **state) {
  (void)state;
  process_state before, loaded, used, thread = {.tiny = 0};
  setlocale(LC_ALL, "C.UTF-8");
  look(&before);
  void *library = dlopen(LIBEMBED, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  look(&loaded);
  same(&before, &loaded);
  use(library);
  look(&used);
  same(&before, &used);
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, look_from_a_new_thread, &thread), 0);
  pthread_join(other, NULL);
  assert_int_equal(thread.mxcsr, before.mxcsr);
  assert_true(thread.tiny > 0);
  dlclose(library);
}

static void can_be_opened_and_closed_again_and_again(void **state) {
  (void)state;
  for (int i = 0; i < 20; ++i) {
    void *library = dlopen(LIBEMBED, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    use(library);
    dlclose(library);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loading_and_using_changes_nothing_of_the_process),
      cmocka_unit_test(can_be_opened_and_closed_again_and_again),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
