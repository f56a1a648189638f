/* SPDX-License-Identifier: BSD-3-Clause */
/* replay PATH...: each file, and each file of each folder, to the fuzzer's function once. For seeds, and for what a fuzzer found. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replayed;

static int replay(const char *path) {
  struct stat about = {0};
  FILE *in = fopen(path, "rb");
  if (!in || fstat(fileno(in), &about) != 0) {
    perror(path);
    if (in) fclose(in);
    return 0;
  }
  size_t size = (size_t)about.st_size;
  uint8_t *data = malloc(size ? size : 1); /* exactly: the sanitizer sees one byte too far */
  int whole = data && fread(data, 1, size, in) == size;
  fclose(in);
  if (whole) (void)LLVMFuzzerTestOneInput(data, size);
  free(data);
  replayed += whole;
  return whole;
}

static int replay_folder(const char *path, DIR *folder) {
  char file[4096];
  int good = 1;
  for (struct dirent *entry; (entry = readdir(folder));)
    if (entry->d_name[0] != '.' && snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file) good &= replay(file);
  closedir(folder);
  return good;
}

int main(int argc, char **argv) {
  int good = 1;
  for (int i = 1; i < argc; ++i) {
    DIR *folder = opendir(argv[i]);
    good &= folder ? replay_folder(argv[i], folder) : replay(argv[i]);
  }
  printf("%d files replayed\n", replayed);
  return good && replayed ? 0 : 1;
}
