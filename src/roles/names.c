/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensor a name of roles.def fits. */
#include <string.h>

#include "roles/names.h"

enum { EMBED_ROLE_INPUT_NORM = EMBED__INPUT_NORM }; /* for roles.def */

typedef struct role_name {
  int32_t role;
  bool ending; /* what stands before it may vary */
  const char *name;
} role_name;

static const role_name names[] = {
#define NAME(role, name)   {EMBED_ROLE_##role, false, name},
#define ENDING(role, name) {EMBED_ROLE_##role, true, name},
#include "roles/roles.def"
#undef NAME
#undef ENDING
};
enum { NAMES = sizeof names / sizeof *names };

/* A name alone is no proof: a table has rows, a norm has one. */
static bool fits(const embed__tensor *tensor, int32_t role) {
  switch (role) {
    case EMBED_ROLE_TOKEN:
    case EMBED_ROLE_HEAD:
    case EMBED_ROLE_POSITION:
    case EMBED_ROLE_TYPE: return tensor->rank == 2;
    default: return tensor->rank == 1 || (tensor->rank == 2 && tensor->shape[0] == 1);
  }
}

int64_t embed__tensor_named(const embed_file *f, const char *name) {
  if (f->names) return embed__tokens_find(f->names, name, (int64_t)strlen(name));
  for (int64_t i = 0; i < f->tensor_count; ++i)
    if (!strcmp(f->tensors[i].name, name)) return i;
  return -1;
}

static bool ends_in(const char *name, size_t bytes, const char *ending, size_t ending_bytes) {
  return bytes > ending_bytes && name[bytes - ending_bytes - 1] == '.' && !memcmp(name + bytes - ending_bytes, ending, ending_bytes);
}

/* "model.layers.61.embed_tokens.weight": a part that is a number. */
static bool is_in_a_list(const char *name) {
  for (const char *part = name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
    size_t digits = strspn(part, "0123456789");
    if (digits && part[digits] == '.') return true;
  }
  return false;
}

/* The shortest name that ends so, of equals the first; layers of prediction heads repeat the names of the ends. */
static int64_t tensor_ending(const embed_file *f, int32_t role, const char *ending, bool in_lists) {
  int64_t best = -1;
  size_t ending_bytes = strlen(ending), best_bytes = SIZE_MAX;
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    const char *name = f->tensors[i].name;
    size_t bytes = strlen(name);
    if (bytes >= best_bytes || !ends_in(name, bytes, ending, ending_bytes) || !fits(&f->tensors[i], role) || is_in_a_list(name) != in_lists) continue;
    best = i;
    best_bytes = bytes;
  }
  return best;
}

int64_t embed__role_named(const embed_file *f, int32_t role, const char **ending) {
  *ending = NULL;
  for (int k = 0; k < NAMES; ++k) {
    int64_t i = names[k].role == role ? embed__tensor_named(f, names[k].name) : -1;
    if (i >= 0 && fits(&f->tensors[i], role)) return i;
  }
  for (int k = 0; k < 2 * NAMES; ++k) { /* outside lists before inside */
    const role_name *name = &names[k % NAMES];
    int64_t i = name->role == role && name->ending ? tensor_ending(f, role, name->name, k >= NAMES) : -1;
    if (i < 0) continue;
    *ending = name->name;
    return i;
  }
  return -1;
}

int64_t embed__role_sibling(const embed_file *f, int32_t role, int64_t of, const char *from, const char *to) {
  enum { LONGEST = 512 };
  char name[LONGEST];
  size_t bytes = strlen(f->tensors[of].name), from_bytes = strlen(from), to_bytes = strlen(to);
  if (!ends_in(f->tensors[of].name, bytes, from, from_bytes) || bytes - from_bytes + to_bytes >= LONGEST) return -1;
  memcpy(name, f->tensors[of].name, bytes - from_bytes);
  memcpy(name + bytes - from_bytes, to, to_bytes + 1);
  int64_t i = embed__tensor_named(f, name);
  return i >= 0 && fits(&f->tensors[i], role) ? i : -1;
}

bool embed__is_role_name(const char *name, int32_t role) {
  size_t bytes = strlen(name);
  for (int k = 0; k < NAMES; ++k)
    if (names[k].role == role && (!strcmp(name, names[k].name) || (names[k].ending && ends_in(name, bytes, names[k].name, strlen(names[k].name))))) return true;
  return false;
}
