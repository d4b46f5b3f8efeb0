/* The growing buffer: strbuf.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "base/strbuf.h"

static void appends_text_and_binary(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;
    strbuf_append_str(&b, "ab");
    strbuf_append_char(&b, 'c');
    strbuf_append(&b, "\0d", 2);
    strbuf_append_bytes(&b, BYTES_LIT("e"));
    strbuf_append_bytes(&b, BYTES_NONE);
    strbuf_append(&b, NULL, 0);
    assert_true(bytes_eq(strbuf_bytes(&b), BYTES_LIT("abc\0de")));
    strbuf_reset(&b);
    assert_string_equal(strbuf_cstr(&b), "");
    assert_int_equal(b.len, 0);
}

static void an_empty_buffer_is_usable(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;
    assert_int_equal(strbuf_bytes(&b).len, 0);
    strbuf_consume(&b, 0);
    strbuf_deinit(&b);
    assert_string_equal(strbuf_cstr(&b), "");
    strbuf_deinit(&b);
    strbuf_appendf(&b, "%s", "");
    assert_int_equal(b.len, 0);
}

static void formats_across_every_capacity(void **state)
{
    (void)state;
    for (int width = 0; width < 300; width++) {
        CLEANUP(strbuf_deinit) struct strbuf b = {0};
        strbuf_append_str(&b, "x");
        strbuf_appendf(&b, "%*d", width, 7);
        strbuf_appendf(&b, "%s", "y");
        assert_int_equal(b.len, 2 + (size_t)(width > 1 ? width : 1));
        assert_int_equal(b.ptr[b.len - 1], 'y');
        assert_int_equal(b.ptr[b.len - 2], '7');
    }
}

static void consumes_from_the_front(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;
    strbuf_append_str(&b, "abcdef");
    strbuf_consume(&b, 2);
    assert_string_equal(strbuf_cstr(&b), "cdef");
    strbuf_consume(&b, 4);
    assert_int_equal(b.len, 0);
    strbuf_append_str(&b, "g");
    assert_string_equal(strbuf_cstr(&b), "g");
}

static void reserve_gives_room_and_keeps_the_rest(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;
    strbuf_append_str(&b, "head");
    memset(strbuf_reserve(&b, 10000), 'x', 10000);
    assert_int_equal(b.len, 4);
    assert_true(b.cap >= 10004);
    b.len += 10000;
    assert_memory_equal(b.ptr, "headxx", 6);
    assert_string_equal(strbuf_cstr(&b) + 10002, "xx");
}

static void take_hands_the_memory_over(void **state)
{
    struct strbuf b = {0};
    size_t len = 9;
    (void)state;
    assert_null(strbuf_take(&b, &len));
    assert_int_equal(len, 0);
    strbuf_append_str(&b, "mine");
    uint8_t *p = strbuf_take(&b, &len);
    assert_int_equal(len, 4);
    assert_memory_equal(p, "mine", 4);
    assert_null(b.ptr);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_text_and_binary),
        cmocka_unit_test(an_empty_buffer_is_usable),
        cmocka_unit_test(formats_across_every_capacity),
        cmocka_unit_test(consumes_from_the_front),
        cmocka_unit_test(reserve_gives_room_and_keeps_the_rest),
        cmocka_unit_test(take_hands_the_memory_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
