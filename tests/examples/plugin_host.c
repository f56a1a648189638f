/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_host PLUGIN.so: twenty times opened, used and closed, with one pool alive all the time. It knows nothing of libembed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define FIND(plugin, name) (uintptr_t) dlsym(plugin, name)

int main(int argc, char **argv) {
  enum { ROUNDS = 20 };
  void *pool = NULL;
  for (int round = 0; round < ROUNDS; ++round) {
    void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!plugin) return fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: plugin_host PLUGIN.so"), 1;
    int (*start)(int, void **) = (int (*)(int, void **))FIND(plugin, "plugin_start");
    int (*work)(void *) = (int (*)(void *))FIND(plugin, "plugin_work");
    void (*stop)(void *) = (void (*)(void *))FIND(plugin, "plugin_stop");
    if (!start || !work || !stop) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (round == 0 && start(3, &pool)) return fprintf(stderr, "no pool\n"), 1;
    int mirrored = work(pool);
    if (mirrored != 100) return fprintf(stderr, "round %d: %d of 100\n", round, mirrored), 1;
    if (round == ROUNDS - 1) stop(pool);
    dlclose(plugin);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* time enough for its threads to miss their code */
  }
  printf("%d rounds\n", ROUNDS);
  return 0;
}
