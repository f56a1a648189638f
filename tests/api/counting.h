/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator that counts what it gave, checks what it gets back, and can fail at any of its calls. */
#ifndef TEST_COUNTING_H
#define TEST_COUNTING_H

#include <stdatomic.h>

#include "gather.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

typedef struct counting {
  _Atomic int64_t alive, calls; /* blocks now; allocations asked for, failed ones too */
  _Atomic int64_t bytes;        /* alive */
  _Atomic int64_t fail_at;      /* this call (0 = the next) and only this one returns NULL; negative: none */
  atomic_int wrong;             /* a release with another size or alignment than the allocation's */
  embed_allocator allocator;
} counting;

typedef struct counting_header {
  size_t bytes, alignment;
} counting_header;

/* The header lies in front of the block, so alignment bytes are spent on it. */
static inline void *counting_allocate(void *arg, size_t bytes, size_t alignment) {
  counting *c = arg;
  void *memory = NULL;
  atomic_fetch_add(&c->calls, 1);
  if (atomic_fetch_sub(&c->fail_at, 1) == 0) return NULL;
  if (alignment < sizeof(counting_header) || (alignment & (alignment - 1)) || bytes == 0 || bytes > SIZE_MAX - alignment) return NULL;
  if (posix_memalign(&memory, alignment, bytes + alignment)) return NULL;
  counting_header header = {bytes, alignment};
  unsigned char *block = (unsigned char *)memory + alignment;
  memcpy(block - sizeof header, &header, sizeof header);
  atomic_fetch_add(&c->alive, 1);
  atomic_fetch_add(&c->bytes, (int64_t)bytes);
  return block;
}

static inline void counting_release(void *arg, void *block, size_t bytes, size_t alignment) {
  counting *c = arg;
  counting_header header;
  memcpy(&header, (unsigned char *)block - sizeof header, sizeof header);
  if (header.bytes != bytes || header.alignment != alignment) atomic_store(&c->wrong, 1);
  atomic_fetch_sub(&c->alive, 1);
  atomic_fetch_sub(&c->bytes, (int64_t)header.bytes);
  free((unsigned char *)block - header.alignment);
}

static inline void counting_start(counting *c) {
  memset(c, 0, sizeof *c);
  atomic_store(&c->fail_at, -1);
  c->allocator = (embed_allocator){.size = sizeof c->allocator, .arg = c, .allocate = counting_allocate, .release = counting_release};
}

static inline embed_context *counting_context(counting *c, embed_pool *pool) {
  embed_context *ctx = NULL;
  embed_context_options o = {.size = sizeof o, .allocator = &c->allocator, .pool = pool};
  OK(embed_context_create(&o, &ctx));
  return ctx;
}

static inline void counting_check(counting *c) {
  assert_int_equal(atomic_load(&c->alive), 0);
  assert_int_equal(atomic_load(&c->bytes), 0);
  assert_false(atomic_load(&c->wrong));
}

#endif
