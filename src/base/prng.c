/* prng.c - xoshiro256** by Blackman and Vigna, seeded by splitmix64; the one place that calls
 * getrandom(). */
#include "base/prng.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void prng_seed(struct prng *p, uint64_t seed)
{
    /* splitmix64 never gives four zeros in a row, the one state that xoshiro cannot leave. */
    for (size_t i = 0; i < ARRAY_LEN(p->s); i++)
        p->s[i] = splitmix64(&seed);
}

void prng_seed_system(struct prng *p)
{
    uint64_t seed;
    random_secret(&seed, sizeof(seed));
    prng_seed(p, seed);
    /* All 256 bits from the kernel: ids of two servers must not meet. */
    uint64_t fresh[ARRAY_LEN(p->s)];
    random_secret(fresh, sizeof(fresh));
    for (size_t i = 0; i < ARRAY_LEN(p->s); i++)
        p->s[i] ^= fresh[i];
    if (!(p->s[0] | p->s[1] | p->s[2] | p->s[3]))
        prng_seed(p, seed);
}

uint64_t prng_u64(struct prng *p)
{
    uint64_t *s = p->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t prng_below(struct prng *p, uint64_t limit)
{
    ASSERT(limit > 0);
    uint64_t biased =
        (0 - limit) % limit; /* 2^64 mod limit: that many draws would be one too many */
    uint64_t x;
    do {
        x = prng_u64(p);
    } while (x < biased);
    return x % limit;
}

void prng_fill(struct prng *p, void *out, size_t len)
{
    uint8_t *at = out;
    while (len > 0) {
        uint64_t x = prng_u64(p);
        size_t n = MIN(len, sizeof(x));
        memcpy(at, &x, n);
        at += n;
        len -= n;
    }
}

void random_secret(void *out, size_t len)
{
    uint8_t *at = out;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        ASSERT(n > 0);
        at += n;
        len -= (size_t)n;
    }
}
