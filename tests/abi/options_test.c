/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs built against older and newer headers: each options struct in each call that takes it. */
#include "test.h"

#include <embed/embed.h>

static void stub(void **state) { (void)state; }

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stub),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
