/* SPDX-License-Identifier: BSD-3-Clause */
/* A head survives what kills a program that calls OpenBLAS as it comes: hundreds of callers, a forked child, little
 * address space (OB-01, OB-03). Each scene runs in a process of its own, with OpenBLAS on its usual threads and on one;
 * it must end in time, with the right numbers and without a word on stderr. */
#include "test.h"

#include <embed/embed.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifdef TEST_SANITIZED
enum { CALLS = 10 }; /* each takes several times as long */
#else
enum { CALLS = 50 };
#endif

enum { N = 48, VOCAB = 523, DIM = 64 };

static float w[VOCAB * DIM], x[N * DIM], want[N * VOCAB], want_row[VOCAB];
static embed_table *table;
static embed_head *head;
static uint32_t head_flags = EMBED_HEAD_BLAS; /* whatever the planner thinks; without OpenBLAS there are our kernels to show */

static embed_context *context(embed_pool *pool) {
  embed_context_options o = {.size = sizeof o, .pool = pool};
  embed_context *ctx = NULL;
  return embed_context_create(&o, &ctx) == EMBED_OK ? ctx : NULL;
}

/* Small integers: every order of summation gives the same float. */
static int prepare(embed_context *ctx) {
  uint64_t seed = 9;
  for (int i = 0; i < VOCAB * DIM; ++i) w[i] = (float)(int)(test_random(&seed) % 17) - 8;
  for (int i = 0; i < N * DIM; ++i) x[i] = (float)(int)(test_random(&seed) % 17) - 8;
  for (int i = 0; i < N; ++i)
    for (int v = 0; v < VOCAB; ++v) {
      float sum = 0;
      for (int j = 0; j < DIM; ++j) sum += x[i * DIM + j] * w[v * DIM + j];
      want[i * VOCAB + v] = sum;
    }
  if (embed_table_view(ctx, w, VOCAB, DIM, NULL, NULL, NULL, &table)) return 1;
  embed_head_options o = {.size = sizeof o, .flags = head_flags};
  if (embed_head_create(ctx, table, NULL, &o, &head)) return 1;
  embed_status s = embed_logits(ctx, head, x, EMBED_F32, 1, 0, want_row, 0, NULL);
  if (s != EMBED_E_UNSUPPORTED) return s != EMBED_OK;
  embed_head_release(head);
  head_flags = 0;
  return embed_head_create(ctx, table, NULL, NULL, &head) != EMBED_OK;
}

/* What the blas goal asks for: that the OpenBLAS of this folder is the one that is loaded, and that it takes the CPU for
 * what it is told. 77: this CPU cannot be taken for that. */
static int asked_openblas(void) {
  const char *folder = getenv("TEST_OPENBLAS"), *core = getenv("OPENBLAS_CORETYPE");
  char line[4400];
  int loaded = 0;
  if (!folder) return 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "libopenblas")) loaded |= strstr(line, folder) ? 1 : 2;
  if (maps) fclose(maps);
  if (loaded != 1) return 13;
  char *(*core_name)(void) = (__typeof__(core_name))(uintptr_t)dlsym(RTLD_DEFAULT, "openblas_get_corename");
  return core && core_name && strcmp(core, core_name()) ? 77 : 0;
}

static int right(embed_context *ctx, float *z) {
  memset(z, 0xFF, sizeof want);
  return embed_logits(ctx, head, x, EMBED_F32, N, 0, z, 0, NULL) == EMBED_OK && !memcmp(z, want, sizeof want);
}

static void *some_calls(void *wrong) {
  embed_context *ctx = context(NULL);
  float *z = malloc(sizeof want);
  for (int i = 0; i < CALLS && ctx && z; ++i)
    if (!right(ctx, z)) __atomic_fetch_add((int *)wrong, 1, __ATOMIC_RELAXED);
  if (!ctx || !z) __atomic_fetch_add((int *)wrong, 1, __ATOMIC_RELAXED);
  free(z);
  embed_context_release(ctx);
  return NULL;
}

/* 400 threads with stacks of 128 KiB. */
static int many_callers(void) {
  enum { CALLERS = 400 };
  static pthread_t threads[CALLERS];
  pthread_attr_t small;
  int wrong = 0, started = 0;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);
  while (started < CALLERS && !pthread_create(&threads[started], &small, some_calls, &wrong)) ++started;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started == CALLERS && wrong == 0 ? 0 : 1;
}

/* OB-01's own shape, of which every thread of OpenBLAS gets a part. */
enum { LARGE_N = 64, LARGE = 512 };
static float large_x[LARGE_N * LARGE], large_w[LARGE * LARGE], large_want[LARGE_N * LARGE], large_z[LARGE_N * LARGE];
static embed_head *large_head;

static int prepare_large(embed_context *ctx) {
  uint64_t seed = 21;
  embed_table *t = NULL;
  for (int i = 0; i < LARGE_N * LARGE; ++i) large_x[i] = (float)(int)(test_random(&seed) % 17) - 8;
  for (int i = 0; i < LARGE * LARGE; ++i) large_w[i] = (float)(int)(test_random(&seed) % 17) - 8;
  for (int i = 0; i < LARGE_N; ++i)
    for (int v = 0; v < LARGE; ++v)
      for (int j = 0; j < LARGE; ++j) large_want[i * LARGE + v] += large_x[i * LARGE + j] * large_w[v * LARGE + j];
  embed_head_options o = {.size = sizeof o, .flags = head_flags};
  return embed_table_view(ctx, large_w, LARGE, LARGE, NULL, NULL, NULL, &t) || embed_head_create(ctx, t, NULL, &o, &large_head);
}

static int right_large(embed_context *ctx) {
  memset(large_z, 0xFF, sizeof large_z);
  return embed_logits(ctx, large_head, large_x, EMBED_F32, LARGE_N, 0, large_z, 0, NULL) == EMBED_OK && !memcmp(large_z, large_want, sizeof large_z);
}

/* OB-01: the child gets numbers too, then the parent again. */
static int forked_child(void) {
  embed_pool *pool = NULL;
  static float z[N * VOCAB];
  if (embed_pool_create(2, &pool)) return 1;
  embed_context *ctx = context(NULL), *pooled = context(pool);
  if (prepare_large(ctx) || !right(ctx, z) || !right(pooled, z) || !right_large(pooled)) return 2;
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (embed_logits(pooled, head, x, EMBED_F32, N, 0, z, 0, NULL) != EMBED_E_UNSUPPORTED) _exit(3);
    embed_context *fresh = context(NULL);
    _exit(fresh && right(fresh, z) && right(ctx, z) && right_large(ctx) ? 0 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 || !right(ctx, z) || !right(pooled, z) || !right_large(ctx)) return 5;
  embed_context_release(ctx);
  embed_context_release(pooled);
  embed_pool_release(pool);
  return 0;
}

/* OpenBLAS's own threads map a buffer when they first run, which may be late on a busy machine: under the limit they would
 * then try for ever, whoever calls them. Waits until every other thread sleeps. */
static void let_workers_start(void) {
  for (int quiet = 0, tries = 0; quiet < 3 && tries < 1000; ++tries) {
    DIR *tasks = opendir("/proc/self/task");
    int running = 0;
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
      char path[300], line[512] = "";
      if (task->d_name[0] == '.') continue;
      snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
      FILE *f = fopen(path, "r");
      if (!f || atoi(task->d_name) == (int)getpid()) {
        if (f) fclose(f);
        continue;
      }
      if (fgets(line, sizeof line, f) && strrchr(line, ')')) running += strrchr(line, ')')[2] != 'S';
      fclose(f);
    }
    if (tasks) closedir(tasks);
    quiet = running ? 0 : quiet + 1;
    usleep(10000);
  }
}

/* A limit of 1 GiB, or so little above what is mapped now that OpenBLAS finds no room for its buffers. */
static int limited_to(rlim_t bytes) {
  const struct rlimit limit = {bytes, bytes};
  static float z[N * VOCAB];
  embed_context *ctx = context(NULL);
  if (!ctx || setrlimit(RLIMIT_AS, &limit)) return 1;
  for (int i = 0; i < 3; ++i)
    if (!right(ctx, z)) return 2;
  static float identity[7 * VOCAB], rows[7 * DIM];
  for (int i = 0; i < 7; ++i) identity[i * VOCAB + i] = 1;
  if (embed_mix(ctx, table, identity, 7, 0, rows, 0, NULL) || memcmp(rows, w, sizeof rows)) return 3;
  embed_context_release(ctx);
  return 0;
}

static rlim_t mapped_now(void) {
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%lu", &pages) != 1) pages = 0;
    fclose(f);
  }
  return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void *other_shapes(void *wrong) { /* OB-03: n 1..3, V 257, d 3000, integer operands */
  enum { V = 257, D = 3000 };
  float *table_data = malloc(sizeof *table_data * V * D), *hidden = malloc(sizeof *hidden * 3 * D), *z = malloc(sizeof *z * 3 * V);
  embed_context *ctx = context(NULL);
  embed_table *t = NULL;
  embed_head *h = NULL;
  uint64_t seed = 77;
  int bad = !table_data || !hidden || !z || !ctx;
  for (int i = 0; !bad && i < V * D; ++i) table_data[i] = (float)(int)(test_random(&seed) % 5) - 2;
  for (int i = 0; !bad && i < 3 * D; ++i) hidden[i] = (float)(int)(test_random(&seed) % 5) - 2;
  bad = bad || embed_table_view(ctx, table_data, V, D, NULL, NULL, NULL, &t) || embed_head_create(ctx, t, NULL, NULL, &h);
  for (int call = 0; !bad && call < 200; ++call) {
    int n = 1 + call % 3, i = call % n, v = call % V;
    double sum = 0;
    bad = embed_logits(ctx, h, hidden, EMBED_F32, n, 0, z, 0, NULL) != EMBED_OK;
    for (int j = 0; j < D; ++j) sum += (double)hidden[i * D + j] * (double)table_data[v * D + j];
    bad = bad || (double)z[i * V + v] != sum;
  }
  if (bad) __atomic_fetch_add((int *)wrong, 1, __ATOMIC_RELAXED);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  free(table_data);
  free(hidden);
  free(z);
  return NULL;
}

static int sixteen_callers(void) {
  pthread_t threads[16];
  int wrong = 0, started = 0;
  while (started < 16 && !pthread_create(&threads[started], NULL, other_shapes, &wrong)) ++started;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started == 16 && wrong == 0 ? 0 : 1;
}

static int play(const char *scene) {
  embed_context *ctx = context(NULL);
  int unlike = asked_openblas();
  if (unlike) return unlike;
  if (!ctx || prepare(ctx)) return 10;
  embed_context_release(ctx);
  if (!strcmp(scene, "many")) return many_callers();
  if (!strcmp(scene, "fork")) return forked_child();
  let_workers_start();
  if (!strcmp(scene, "gib")) return limited_to((rlim_t)1 << 30);
  if (!strcmp(scene, "tight")) return limited_to(mapped_now() + ((rlim_t)100 << 20));
  if (!strcmp(scene, "tight after a large product")) { /* one that makes OpenBLAS map all its buffers */
    static float wide[512 * DIM], square[512 * VOCAB];
    embed_context *warm = context(NULL);
    if (!warm || embed_logits(warm, head, wide, EMBED_F32, 512, 0, square, 0, NULL)) return 12;
    embed_context_release(warm);
    return limited_to(mapped_now() + ((rlim_t)100 << 20));
  }
  if (!strcmp(scene, "sixteen")) return sixteen_callers();
  return 11;
}

/* Runs a scene in a new process: exit 0 in time, nothing printed. */
static void stage(const char *scene, const char *openblas_threads) {
  int pipes[2];
  char said[512];
  ssize_t length = 0, part;
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], STDERR_FILENO);
    dup2(pipes[1], STDOUT_FILENO);
    close(pipes[0]);
    close(pipes[1]);
    if (openblas_threads) {
      setenv("OPENBLAS_NUM_THREADS", openblas_threads, 1);
      setenv("OMP_NUM_THREADS", openblas_threads, 1);
    }
    alarm(250);
    execl("/proc/self/exe", "blas_test", "--scene", scene, (char *)NULL);
    _exit(127);
  }
  close(pipes[1]);
  while (length < (ssize_t)sizeof said - 1 && (part = read(pipes[0], said + length, sizeof said - 1 - (size_t)length)) > 0) length += part;
  said[length] = '\0';
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
  assert_string_equal(said, "");
  assert_int_equal(status, 0);
}

static void both_ways(const char *scene) {
  stage(scene, NULL);
  stage(scene, "1");
}

static void four_hundred_callers_get_right_numbers(void **state) {
  (void)state;
  both_ways("many");
}

static void sixteen_callers_of_odd_shapes(void **state) {
  (void)state;
  both_ways("sixteen");
}

static void a_forked_child_gets_numbers(void **state) {
  (void)state;
  both_ways("fork");
}

static void little_address_space_is_enough(void **state) {
  (void)state;
#ifdef TEST_SANITIZED
  skip(); /* the shadow memory alone is terabytes */
#else
  both_ways("gib");
  both_ways("tight");
  both_ways("tight after a large product");
#endif
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--scene")) return play(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(four_hundred_callers_get_right_numbers),
      cmocka_unit_test(sixteen_callers_of_odd_shapes),
      cmocka_unit_test(a_forked_child_gets_numbers),
      cmocka_unit_test(little_address_space_is_enough),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
