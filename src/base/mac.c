/* mac.c - SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"), figures 2.1 and 2.2. */
#include "base/mac.h"

#include <endian.h>
#include <stdlib.h>

#include "base/assert.h"

struct mac {
    uint64_t k0, k1;
};

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void rounds(struct state *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

/* Up to eight bytes, the first one lowest, whatever the machine's order is. */
static uint64_t word(const uint8_t *p, size_t len)
{
    uint64_t w = 0;
    if (len > 0)
        memcpy(&w, p, len);
    return le64toh(w);
}

static void absorb(struct state *s, uint64_t w)
{
    s->v3 ^= w;
    rounds(s, 2);
    s->v0 ^= w;
}

struct mac *mac_new(const uint8_t key[MAC_KEY_LEN])
{
    struct mac *m = calloc(1, sizeof(*m));
    ASSERT(m);
    m->k0 = word(key, 8);
    m->k1 = word(key + 8, 8);
    return m;
}

void mac_free(struct mac *m)
{
    free(m);
}

uint64_t mac_sum(const struct mac *m, struct bytes data)
{
    struct state s = {m->k0 ^ 0x736f6d6570736575, m->k1 ^ 0x646f72616e646f6d,
                      m->k0 ^ 0x6c7967656e657261, m->k1 ^ 0x7465646279746573};
    size_t at = 0;
    for (; at + 8 <= data.len; at += 8)
        absorb(&s, word(data.ptr + at, 8));
    absorb(&s, word(data.ptr + at, data.len - at) | (uint64_t)data.len << 56);
    s.v2 ^= 0xff;
    rounds(&s, 4);
    return htole64(s.v0 ^ s.v1 ^ s.v2 ^ s.v3); /* the bytes are what counts */
}
