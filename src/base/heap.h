/* heap.h - intrusive binary min-heap; a node knows its place, so any node can be removed.
 *
 * Order is the caller's `less`; make it total (break ties by id), so that runs repeat.
 * Not thread-safe. heap_deinit() frees the array, not the entries.
 * Tests: tests/unit/test_heap.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

#define HEAP_NOWHERE ((size_t)0)

struct heap_node {
    size_t place; /* index + 1; HEAP_NOWHERE: in no heap */
};

typedef bool heap_less_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    heap_less_fn *less;
    struct heap_node **nodes;
    size_t count, cap;
};

void heap_init(struct heap *h, heap_less_fn *less);
void heap_deinit(struct heap *h);
void heap_push(struct heap *h, struct heap_node *n);
void heap_remove(struct heap *h, struct heap_node *n); /* it must be in the heap */
struct heap_node *heap_pop(struct heap *h);            /* NULL when empty */

static inline struct heap_node *heap_min(const struct heap *h) /* NULL when empty */
{
    return h->count ? h->nodes[0] : NULL;
}

static inline bool heap_has(const struct heap_node *n)
{
    return n->place != HEAP_NOWHERE;
}
