#include "base/heap.h"

#include <stdlib.h>

#include "base/assert.h"

#define HEAP_CAP_MIN ((size_t)16)

void heap_init(struct heap *h, heap_less_fn *less)
{
    *h = (struct heap){.less = less};
}

void heap_deinit(struct heap *h)
{
    free(h->nodes);
    h->nodes = NULL;
    h->count = h->cap = 0;
}

static void put(struct heap *h, size_t i, struct heap_node *n)
{
    h->nodes[i] = n;
    n->place = i + 1;
}

/* Moves `n`, whose place is `i`, towards the root as far as it goes. */
static void sift_up(struct heap *h, size_t i, struct heap_node *n)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!h->less(n, h->nodes[parent]))
            break;
        put(h, i, h->nodes[parent]);
        i = parent;
    }
    put(h, i, n);
}

/* The same towards the leaves. */
static void sift_down(struct heap *h, size_t i, struct heap_node *n)
{
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && h->less(h->nodes[child + 1], h->nodes[child]))
            child++;
        if (!h->less(h->nodes[child], n))
            break;
        put(h, i, h->nodes[child]);
    }
    put(h, i, n);
}

void heap_push(struct heap *h, struct heap_node *n)
{
    ASSERT(!heap_has(n));
    if (h->count == h->cap) {
        h->cap = MAX(h->cap * 2, HEAP_CAP_MIN);
        struct heap_node **nodes = realloc(h->nodes, h->cap * sizeof(struct heap_node *));
        ASSERT(nodes);
        h->nodes = nodes;
    }
    sift_up(h, h->count++, n);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    ASSERT(n->place > 0 && n->place <= h->count);
    size_t i = n->place - 1;
    ASSERT(h->nodes[i] == n);
    struct heap_node *last = h->nodes[--h->count];

    n->place = HEAP_NOWHERE;
    if (last == n)
        return;
    if (i > 0 && h->less(last, h->nodes[(i - 1) / 2]))
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
}

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *n = heap_min(h);
    if (n)
        heap_remove(h, n);
    return n;
}
