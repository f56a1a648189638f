/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensor a name of roles.def fits. */
#include <string.h>

#include "roles/names.h"

enum { EMBED_ROLE_INPUT_NORM = EMBED__INPUT_NORM, EMBED_ROLE_FACTOR = EMBED__FACTOR }; /* for roles.def */

typedef struct role_name {
  int32_t role;
  bool ending;               /* what stands before it may vary */
  const char *name, *beside; /* the table that must be there, NULL = none */
} role_name;

static const role_name names[] = {
#define NAME(role, name)          {EMBED_ROLE_##role, false, name, NULL},
#define ENDING(role, name)        {EMBED_ROLE_##role, true, name, NULL},
#define BESIDE(role, name, table) {EMBED_ROLE_##role, false, name, table},
#include "roles/roles.def"
#undef NAME
#undef ENDING
#undef BESIDE
};
enum { NAMES = sizeof names / sizeof *names };

/* A name alone is no proof: a table has rows, a norm has one. */
static bool fits(const embed__tensor *tensor, int32_t role) {
  switch (role) {
    case EMBED_ROLE_TOKEN:
    case EMBED_ROLE_HEAD:
    case EMBED_ROLE_POSITION:
    case EMBED_ROLE_TYPE:
    case EMBED_ROLE_PER_LAYER:
    case EMBED_ROLE_NGRAM:
    case EMBED_ROLE_FACTOR: return tensor->rank == 2;
    default: return tensor->rank == 1 || (tensor->rank == 2 && tensor->shape[0] == 1);
  }
}

int64_t embed__tensor_named(const embed_file *f, const char *name) {
  if (f->names) return embed__tokens_find(f->names, name, (int64_t)strlen(name));
  for (int64_t i = 0; i < f->tensor_count; ++i)
    if (!strcmp(f->tensors[i].name, name)) return i;
  return -1;
}

/* What packed checkpoints call X.weight (io/packed.c). */
static const char *const packed[] = {"qweight", "weight_packed"};
enum { PACKED = sizeof packed / sizeof *packed };
static const char WEIGHT[] = "weight";
enum { WEIGHT_BYTES = sizeof WEIGHT - 1, LONGEST = 512 };

/* The bytes in front of "weight" at the end; 0 = it ends otherwise. */
static size_t stem_of(const char *name) {
  const size_t bytes = strlen(name);
  return bytes > WEIGHT_BYTES && name[bytes - WEIGHT_BYTES - 1] == '.' && !strcmp(name + bytes - WEIGHT_BYTES, WEIGHT) ? bytes - WEIGHT_BYTES : 0;
}

/* The tensor of this name, or, where there is none, the packed one. */
static int64_t tensor_called(const embed_file *f, const char *name) {
  char other[LONGEST];
  const int64_t i = embed__tensor_named(f, name);
  const size_t stem = i < 0 && f->names ? stem_of(name) : 0;
  if (stem == 0) return i;
  memcpy(other, name, stem); /* of roles.def: short */
  for (int k = 0; k < PACKED; ++k) {
    strcpy(other + stem, packed[k]);
    const int64_t found = embed__tensor_named(f, other);
    if (found >= 0 && f->tensors[found].decode) return found;
  }
  return -1;
}

/* The bytes of a packed tensor's name that X.weight has too, up to the dot; 0 = it is no packed one's. */
static size_t packed_stem(const char *name, size_t bytes) {
  for (int k = 0; k < PACKED; ++k) {
    const size_t end = strlen(packed[k]);
    if (bytes > end && name[bytes - end - 1] == '.' && !memcmp(name + bytes - end, packed[k], end)) return bytes - end;
  }
  return 0;
}

static bool ends_in(const char *name, size_t bytes, const char *ending, size_t ending_bytes) {
  return bytes > ending_bytes && name[bytes - ending_bytes - 1] == '.' && !memcmp(name + bytes - ending_bytes, ending, ending_bytes);
}

/* The same of a name that may be a packed one. */
static bool ends_as(const char *name, size_t bytes, const char *ending, size_t ending_bytes) {
  if (ends_in(name, bytes, ending, ending_bytes)) return true;
  const size_t has = packed_stem(name, bytes), wants = has ? stem_of(ending) : 0;
  return wants && has > wants && name[has - wants - 1] == '.' && !memcmp(name + has - wants, ending, wants);
}

/* "model.layers.61.embed_tokens.weight": a part that is a number. */
static bool is_in_a_list(const char *name) {
  for (const char *part = name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
    size_t digits = strspn(part, "0123456789");
    if (digits && part[digits] == '.') return true;
  }
  return false;
}

/* What an ending has found: the shortest name, of equals the first; [1]: of those in a list, as the layers of prediction heads, which
 * repeat the names of the ends, are. */
typedef struct found {
  const char *ending;
  size_t ending_bytes, bytes[2];
  int64_t tensor[2]; /* -1 = none */
} found;

static void try_ending(const embed__tensor *tensor, int64_t i, size_t bytes, int32_t role, found *f) {
  if (!ends_as(tensor->name, bytes, f->ending, f->ending_bytes) || !fits(tensor, role)) return;
  const bool in_list = is_in_a_list(tensor->name);
  if (bytes >= f->bytes[in_list]) return;
  f->tensor[in_list] = i;
  f->bytes[in_list] = bytes;
}

static int64_t tensor_ending(const embed_file *f, int32_t role, const char **ending) {
  found all[NAMES];
  int count = 0;
  for (int k = 0; k < NAMES; ++k)
    if (names[k].role == role && names[k].ending) all[count++] = (found){names[k].name, strlen(names[k].name), {SIZE_MAX, SIZE_MAX}, {-1, -1}};
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    int64_t bytes;
    if (!f->names || !embed__tokens_get(f->names, i, &bytes)) bytes = (int64_t)strlen(f->tensors[i].name);
    for (int k = 0; k < count; ++k) try_ending(&f->tensors[i], i, (size_t)bytes, role, &all[k]);
  }
  for (int in_list = 0; in_list < 2; ++in_list) /* outside lists before inside */
    for (int k = 0; k < count; ++k)
      if (all[k].tensor[in_list] >= 0) {
        *ending = all[k].ending;
        return all[k].tensor[in_list];
      }
  return -1;
}

/* The table of its family is there, and the tensor is of its shape. */
static bool is_beside(const embed_file *f, const embed__tensor *tensor, const char *table) {
  const int64_t i = embed__tensor_named(f, table);
  if (i < 0 || f->tensors[i].rank != 2) return false;
  const int64_t *shape = f->tensors[i].shape;
  return tensor->rank == 2 && tensor->shape[0] != 1 ? tensor->shape[1] == shape[1] : tensor->shape[tensor->rank - 1] == shape[0];
}

int64_t embed__role_named(const embed_file *f, int32_t role, const char **ending) {
  *ending = NULL;
  for (int k = 0; k < NAMES; ++k) {
    int64_t i = names[k].role == role ? tensor_called(f, names[k].name) : -1;
    if (i >= 0 && fits(&f->tensors[i], role) && (!names[k].beside || is_beside(f, &f->tensors[i], names[k].beside))) return i;
  }
  return tensor_ending(f, role, ending);
}

int64_t embed__role_sibling(const embed_file *f, int32_t role, int64_t of, const char *from, const char *to) {
  char name[LONGEST];
  const char *const whole = f->tensors[of].name;
  const size_t bytes = strlen(whole), to_bytes = strlen(to);
  size_t stem = ends_in(whole, bytes, from, strlen(from)) ? bytes - strlen(from) : 0;
  if (stem == 0 && !strcmp(from, WEIGHT)) stem = packed_stem(whole, bytes);
  if (stem == 0 || stem + to_bytes >= LONGEST) return -1;
  memcpy(name, whole, stem);
  memcpy(name + stem, to, to_bytes + 1);
  int64_t i = embed__tensor_named(f, name);
  return i >= 0 && fits(&f->tensors[i], role) ? i : -1;
}

static bool is_called(const char *name, size_t bytes, const char *wanted) {
  const size_t has = packed_stem(name, bytes);
  return !strcmp(name, wanted) || (has && has == stem_of(wanted) && !memcmp(name, wanted, has));
}

bool embed__is_role_name(const char *name, int32_t role) {
  size_t bytes = strlen(name);
  for (int k = 0; k < NAMES; ++k)
    if (names[k].role == role && !names[k].beside &&
        (is_called(name, bytes, names[k].name) || (names[k].ending && ends_as(name, bytes, names[k].name, strlen(names[k].name)))))
      return true;
  return false;
}
