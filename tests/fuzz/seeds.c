/* SPDX-License-Identifier: BSD-3-Clause */
/* seeds FOLDER: writes FOLDER/json and FOLDER/file, what the fuzzers begin with: a small file of each kind that the tests make. */
#include "io/gguf_file.h"
#include "io/safetensors_file.h"

enum { ROOM = 4096 };

static const char *folder;

static void seed(const char *target, const char *name, const void *bytes, size_t count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, target);
  (void)mkdir(folder, 0700);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(bytes, 1, count, out) != count || fclose(out) != 0) {
    perror(path);
    exit(1);
  }
}

static void json_seeds(void) {
  static const char *const texts[] = {
      "[0,-1,12.5,-2e3,1E+2,9223372036854775807,-9223372036854775808,1.7976931348623157e308]",
      "[true,false,null,\"\",\"a\\n\\u00e9\\ud83d\\ude00\\\"\",\"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\"]",
      "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":{\"a\":[[{}]]}}",
      "{\"a\":1,\"\\u0061\":2}",
  };
  char name[32];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    snprintf(name, sizeof name, "text%zu", i);
    seed("json", name, texts[i], strlen(texts[i]));
  }
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind) {
    snprintf(name, sizeof name, "header%d", kind);
    seed("json", name, good_safetensors[kind].header, strlen(good_safetensors[kind].header));
  }
}

static void file_seeds(void) {
  static const char *const npy[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                                    "{'descr': '>f2', 'fortran_order': True, 'shape': (6, 4), }"};
  static const char text[] = "2 3\nthe 0.5 -1e-3 nan\nof 1 2 3\n", glove[] = "the 0.5 -1.25 3\n<unk> 1 2 3\n";
  static unsigned char file[ROOM];
  static const float data[12] = {0, 1, -2, 3.5f};
  char name[32];
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind) {
    snprintf(name, sizeof name, "safetensors%d", kind);
    seed("file", name, file, make_good_safetensors(kind, file));
  }
  seed("file", "index", file, make_index(file, ROOM, "a", "1.safetensors", "b", "2.safetensors"));
  for (int i = 0; i < 2; ++i) {
    snprintf(name, sizeof name, "npy%d", i);
    seed("file", name, file, make_npy(file, i + 1, npy[i], 16, data, sizeof data));
  }
  memcpy(file, "2 3\nof ", 7);
  memcpy(file + 7, data, 12);
  memcpy(file + 19, "\nthe ", 5);
  memcpy(file + 24, data, 12);
  seed("file", "word2vec", file, 36);
  seed("file", "word2vec_text", text, sizeof text - 1);
  seed("file", "glove", glove, sizeof glove - 1);
  gg_simple(4, 3);
  seed("file", "gguf", gg, gg_count);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  json_seeds();
  file_seeds();
  return 0;
}
