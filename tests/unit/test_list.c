/* The intrusive list: list.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/strbuf.h"

struct entry {
    char name;
    struct list_node node;
};

static void expect(struct list *l, const char *names)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    LIST_FOR_EACH (l, n)
        strbuf_append_char(&out, LIST_ENTRY(n, struct entry, node)->name);
    assert_string_equal(strbuf_cstr(&out), names);
}

static void keeps_order_at_both_ends(void **state)
{
    struct entry a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'}, d = {.name = 'd'};
    struct list l;
    (void)state;
    list_init(&l);
    assert_true(list_is_empty(&l));
    assert_null(list_first(&l));
    assert_null(list_pop_front(&l));
    assert_false(list_is_linked(&a.node));
    list_push_back(&l, &b.node);
    list_push_back(&l, &c.node);
    list_push_front(&l, &a.node);
    list_insert_before(&c.node, &d.node);
    expect(&l, "abdc");
    assert_true(list_is_linked(&a.node));
    list_remove(&d.node);
    assert_false(list_is_linked(&d.node));
    expect(&l, "abc");
    assert_ptr_equal(list_pop_front(&l), &a.node);
    expect(&l, "bc");
}

static void the_walk_may_remove_its_entry(void **state)
{
    struct entry e[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
    struct list l;
    (void)state;
    list_init(&l);
    for (size_t i = 0; i < ARRAY_LEN(e); i++)
        list_push_back(&l, &e[i].node);
    LIST_FOR_EACH (&l, n) {
        if (LIST_ENTRY(n, struct entry, node)->name != 'b')
            list_remove(n);
    }
    expect(&l, "b");
}

static void splices_one_behind_the_other(void **state)
{
    struct entry a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'};
    struct list to, from;
    (void)state;
    list_init(&to);
    list_init(&from);
    list_splice_back(&to, &from);
    expect(&to, "");
    list_push_back(&to, &a.node);
    list_push_back(&from, &b.node);
    list_push_back(&from, &c.node);
    list_splice_back(&to, &from);
    expect(&to, "abc");
    expect(&from, "");
    list_splice_back(&to, &from);
    expect(&to, "abc");
    list_splice_back(&from, &to);
    expect(&from, "abc");
    expect(&to, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_at_both_ends),
        cmocka_unit_test(the_walk_may_remove_its_entry),
        cmocka_unit_test(splices_one_behind_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
