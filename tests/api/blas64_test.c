/* SPDX-License-Identifier: BSD-3-Clause */
/* OB-05: a host that has loaded an OpenBLAS with 64-bit integers for everybody. Its functions bear the names that the
 * library calls, and come first: every product must be right with them too. */
#include "test.h"

#include <dlfcn.h>
#include <embed/embed.h>

#define FIND(library, name) ((__typeof__(&name))(uintptr_t)dlsym((library), #name))

/* Ones on the stack, where the upper halves of 64-bit arguments will stand. */
__attribute__((noinline)) static void leave_ones_behind(void) {
  volatile unsigned char ones[16384];
  for (size_t i = 0; i < sizeof ones; ++i) ones[i] = 0xFF;
}

/* HD-03: the identity gives the hidden state back. */
static void identity_through_openblas(void *library, int64_t n, int64_t dim) {
  embed_context *ctx = NULL;
  embed_table *t = NULL;
  embed_head *head = NULL;
  embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_BLAS};
  float *x = malloc((size_t)(n * dim) * sizeof *x), *w = calloc((size_t)(dim * dim), sizeof *w), *z = malloc((size_t)(n * dim) * sizeof *z);
  for (int64_t i = 0; i < n * dim; ++i) x[i] = (float)(i % 1000);
  for (int64_t i = 0; i < dim; ++i) w[i * (dim + 1)] = 1;
  assert_int_equal(FIND(library, embed_context_create)(NULL, &ctx), EMBED_OK);
  assert_int_equal(FIND(library, embed_table_view)(ctx, w, dim, dim, NULL, NULL, NULL, &t), EMBED_OK);
  assert_int_equal(FIND(library, embed_head_create)(ctx, t, NULL, &o, &head), EMBED_OK);
  memset(z, 0xFF, (size_t)(n * dim) * sizeof *z);
  leave_ones_behind();
  embed_status status = FIND(library, embed_logits)(ctx, head, x, EMBED_F32, n, 0, z, 0, NULL);
  if (status == EMBED_E_UNSUPPORTED) skip(); /* built without OpenBLAS */
  assert_int_equal(status, EMBED_OK);
  assert_memory_equal(z, x, (size_t)(n * dim) * sizeof *z);
  memset(z, 0xFF, (size_t)(n * dim) * sizeof *z);
  leave_ones_behind();
  assert_int_equal(FIND(library, embed_mix)(ctx, t, x, n, 0, z, 0, NULL), EMBED_OK);
  assert_memory_equal(z, x, (size_t)(n * dim) * sizeof *z);
  FIND(library, embed_head_release)(head);
  FIND(library, embed_table_release)(t);
  FIND(library, embed_context_release)(ctx);
  free(x);
  free(w);
  free(z);
}

static void products_are_right_beside_an_openblas_of_64_bit_integers(void **state) {
  (void)state;
  if (!dlopen("libopenblas64.so.0", RTLD_NOW | RTLD_GLOBAL)) skip();
  void *library = dlopen(LIBEMBED, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  identity_through_openblas(library, 45, 33);
  identity_through_openblas(library, 64, 512);
  identity_through_openblas(library, 300, 100);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right_beside_an_openblas_of_64_bit_integers)};
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
