/* SPDX-License-Identifier: BSD-3-Clause */
/* How the templates of the vector levels are compiled: INLINE makes one body into loops of constant shape, UNROLL before
 * a loop over an array of vectors gives each a register. Sanitizers check every step of what is unrolled, and compile
 * for minutes: they get the loops, and where ONE_BODY is defined one body for all shapes. */
#ifndef EMBED__TEMPLATE_H
#define EMBED__TEMPLATE_H

#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define UNROLL
#define ONE_BODY 1
#else
#define UNROLL _Pragma("unroll")
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL
#define ONE_BODY 1
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
