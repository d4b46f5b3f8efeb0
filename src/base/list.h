/* list.h - intrusive doubly linked list, circular with a head.
 *
 * A node that is in no list has next == NULL after list_remove() or zero-initialisation.
 * Tests: tests/unit/test_list.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
};

static inline void list_init(struct list *l)
{
    l->head.prev = l->head.next = &l->head;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->head.next == &l->head;
}

static inline bool list_is_linked(const struct list_node *n)
{
    return n->next != NULL;
}

static inline void list_insert_before(struct list_node *at, struct list_node *n)
{
    n->prev = at->prev;
    n->next = at;
    at->prev->next = n;
    at->prev = n;
}

static inline void list_push_back(struct list *l, struct list_node *n)
{
    list_insert_before(&l->head, n);
}

static inline void list_push_front(struct list *l, struct list_node *n)
{
    list_insert_before(l->head.next, n);
}

static inline void list_remove(struct list_node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
}

static inline struct list_node *list_first(struct list *l) /* NULL when empty */
{
    return list_is_empty(l) ? NULL : l->head.next;
}

static inline struct list_node *list_pop_front(struct list *l) /* NULL when empty */
{
    struct list_node *n = list_first(l);
    if (n)
        list_remove(n);
    return n;
}

/* Moves all nodes of `from` behind those of `to`; `from` is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->head.next->prev = to->head.prev;
    to->head.prev->next = from->head.next;
    from->head.prev->next = &to->head;
    to->head.prev = from->head.prev;
    list_init(from);
}

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)
/* The body may remove `n` itself, but no other node. */
#define LIST_FOR_EACH(l, n)                                                                        \
    for (struct list_node *n = (l)->head.next, *n##_next = n->next; n != &(l)->head;               \
         n = n##_next, n##_next = n->next)
