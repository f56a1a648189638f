/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__SIPHASH_H
#define EMBED__SIPHASH_H

#include <stdint.h>

/* SipHash-1-3: who does not know the key cannot choose strings that collide.
 * Aumasson, Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012. */
uint64_t embed__siphash(const uint64_t key[2], const void *bytes, int64_t count);

#endif
