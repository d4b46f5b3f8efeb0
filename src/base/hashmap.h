/* hashmap.h - intrusive hash table with chaining; the caller hashes and compares.
 *
 * Grows by doubling at load 1; never shrinks. Iteration order is unspecified: nothing observable
 * may depend on it. Not thread-safe. Zero-initialise ({0}); hashmap_deinit() frees the table, not
 * the entries.
 * Tests: tests/unit/test_hashmap.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct hash_node {
    struct hash_node *next;
    uint64_t hash;
};

struct hashmap {
    struct hash_node **slots;
    size_t slot_count; /* a power of two, or 0 */
    size_t count;
};

typedef bool hash_eq_fn(const struct hash_node *node, const void *key);

void hashmap_deinit(struct hashmap *m);
struct hash_node *hashmap_find(const struct hashmap *m, uint64_t hash, hash_eq_fn *eq,
                               const void *key);
void hashmap_insert(struct hashmap *m, struct hash_node *n, uint64_t hash); /* no look-up first */
void hashmap_remove(struct hashmap *m, struct hash_node *n); /* it must be in the table */

/* Walks all entries: start with *pos = NULL ... the entry returned may be removed before the next
 * call if `next` was fetched first; see HASHMAP_FOR_EACH, whose body may remove `n` itself. */
struct hash_node *hashmap_first(const struct hashmap *m);
struct hash_node *hashmap_next(const struct hashmap *m, const struct hash_node *n);
#define HASHMAP_FOR_EACH(m, n)                                                                     \
    for (struct hash_node *n = hashmap_first(m), *n##_next = n ? hashmap_next(m, n) : NULL; n;     \
         n = n##_next, n##_next = n ? hashmap_next(m, n) : NULL)

/* Mixes an integer key (splitmix64 finaliser). */
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
