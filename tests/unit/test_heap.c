/* The intrusive heap, held to a plain array: heap.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/prng.h"

struct entry {
    uint64_t due;
    struct heap_node node;
    size_t id;
};

static const struct entry *entry_of(const struct heap_node *n)
{
    return CONTAINER_OF(n, struct entry, node);
}

static bool before(const struct entry *a, const struct entry *b)
{
    return a->due != b->due ? a->due < b->due : a->id < b->id;
}

static bool less(const struct heap_node *a, const struct heap_node *b)
{
    return before(entry_of(a), entry_of(b));
}

static void an_empty_heap_has_no_first(void **state)
{
    struct heap h;
    (void)state;
    heap_init(&h, less);
    assert_null(heap_min(&h));
    assert_null(heap_pop(&h));
    heap_deinit(&h);
}

static const struct entry *earliest(const struct entry *entries, size_t count)
{
    const struct entry *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (heap_has(&entries[i].node) && (!best || before(&entries[i], best)))
            best = &entries[i];
    }
    return best;
}

/* Random pushes, removals from the middle and pops; the first is always the earliest. */
static void agrees_with_an_array(void **state)
{
    static struct entry entries[200];
    struct heap h;
    struct prng prng;
    (void)state;
    prng_seed(&prng, 3);
    heap_init(&h, less);
    for (int step = 0; step < 20000; step++) {
        struct entry *e = &entries[prng_below(&prng, ARRAY_LEN(entries))];
        e->id = (size_t)(e - entries);
        if (heap_has(&e->node)) {
            heap_remove(&h, &e->node);
        } else {
            e->due = prng_below(&prng, 50); /* many are equal: the id decides */
            heap_push(&h, &e->node);
        }
        const struct entry *first = earliest(entries, ARRAY_LEN(entries));
        assert_ptr_equal(heap_min(&h), first ? &first->node : NULL);
    }
    assert_true(h.count > 10);
    while (h.count > 0) {
        const struct entry *first = earliest(entries, ARRAY_LEN(entries));
        assert_ptr_equal(heap_pop(&h), &first->node);
        assert_false(heap_has(&first->node));
    }
    heap_deinit(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_no_first),
        cmocka_unit_test(agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
