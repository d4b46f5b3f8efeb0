#include "base/hashmap.h"

#include <stdlib.h>

#include "base/assert.h"

#define SLOT_COUNT_MIN ((size_t)16)

static struct hash_node **slot_of(const struct hashmap *m, uint64_t hash)
{
    return &m->slots[hash & (m->slot_count - 1)];
}

static void grow(struct hashmap *m)
{
    struct hash_node **old = m->slots;
    size_t old_count = m->slot_count;

    m->slot_count = MAX(old_count * 2, SLOT_COUNT_MIN);
    m->slots = calloc(m->slot_count, sizeof(*m->slots));
    ASSERT(m->slots);
    for (size_t i = 0; i < old_count; i++) {
        for (struct hash_node *n = old[i], *next; n; n = next) {
            next = n->next;
            struct hash_node **slot = slot_of(m, n->hash);
            n->next = *slot;
            *slot = n;
        }
    }
    free(old);
}

void hashmap_deinit(struct hashmap *m)
{
    free(m->slots);
    *m = (struct hashmap){0};
}

struct hash_node *hashmap_find(const struct hashmap *m, uint64_t hash, hash_eq_fn *eq,
                               const void *key)
{
    if (m->count == 0)
        return NULL;
    for (struct hash_node *n = *slot_of(m, hash); n; n = n->next) {
        if (n->hash == hash && eq(n, key))
            return n;
    }
    return NULL;
}

void hashmap_insert(struct hashmap *m, struct hash_node *n, uint64_t hash)
{
    if (m->count >= m->slot_count)
        grow(m);
    struct hash_node **slot = slot_of(m, hash);
    n->hash = hash;
    n->next = *slot;
    *slot = n;
    m->count++;
}

void hashmap_remove(struct hashmap *m, struct hash_node *n)
{
    ASSERT(m->count > 0);
    struct hash_node **at = slot_of(m, n->hash);
    while (*at && *at != n)
        at = &(*at)->next;
    ASSERT(*at); /* it was in another table, or in none */
    *at = n->next;
    n->next = NULL;
    m->count--;
}

static struct hash_node *first_from(const struct hashmap *m, size_t i)
{
    for (; i < m->slot_count; i++) {
        if (m->slots[i])
            return m->slots[i];
    }
    return NULL;
}

struct hash_node *hashmap_first(const struct hashmap *m)
{
    return m->count ? first_from(m, 0) : NULL;
}

struct hash_node *hashmap_next(const struct hashmap *m, const struct hash_node *n)
{
    if (n->next)
        return n->next;
    return first_from(m, (size_t)(n->hash & (m->slot_count - 1)) + 1);
}
