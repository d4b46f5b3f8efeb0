/* prng.h - randomness that is passed in.
 *
 * A table of one function, so that the simulator gives every component its own seeded stream.
 * The only caller of getrandom() is base/prng.c. Not thread-safe: one per thread.
 * Tests: tests/unit/test_prng.c
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t s[4]; /* xoshiro256** */
};

void prng_seed(struct prng *p, uint64_t seed); /* repeatable */
void prng_seed_system(struct prng *p);         /* from the kernel; aborts if it has none */
uint64_t prng_u64(struct prng *p);
uint64_t prng_below(struct prng *p, uint64_t limit); /* 0 <= x < limit, limit > 0, unbiased */
void prng_fill(struct prng *p, void *out, size_t len);
/* Bytes for keys and secrets straight from the kernel; aborts if it has none. */
void random_secret(void *out, size_t len);
