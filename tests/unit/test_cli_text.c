/* What commands print for people: cli/text.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "cli/text.h"

static void expect_clean(struct bytes in, size_t max, const char *out)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};

    put_clean(&b, in, max);
    assert_string_equal(strbuf_cstr(&b), out);
}

/* No payload can move the cursor, ring the bell or forge a line. */
static void control_characters_are_shown_not_sent(void **state)
{
    (void)state;
    expect_clean(BYTES_LIT("a\nb\t\r"), 0, "a\\nb\\t\\r");
    expect_clean(BYTES_LIT("\x1b[2J\x07\x7f"), 0, "\\x1b[2J\\x07\\x7f");
    expect_clean(BYTES_LIT("\xc2\x9b"
                           "31m"),
                 0, "\\x9b31m");
    expect_clean(bytes_of("\0x", 2), 0, "\\x00x");
    expect_clean(BYTES_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 0,
                 "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_clean(BYTES_NONE, 0, "");
}

static void long_text_is_cut_at_a_character(void **state)
{
    (void)state;
    expect_clean(BYTES_LIT("abc"), 3, "abc");
    expect_clean(BYTES_LIT("abcd"), 3, "abc...");
    expect_clean(BYTES_LIT("\xc3\xa9\xc3\xa9\xc3\xa9"), 2, "\xc3\xa9\xc3\xa9...");
    expect_clean(BYTES_LIT("a\xf0\x9f"), 0, "a\xf0\x9f"); /* cut-off text is no reason to read on */
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    struct table t;

    (void)state;
    table_init(&t, 3);
    table_cell(&t, BYTES_LIT("A"));
    table_cell(&t, BYTES_LIT("LONG HEAD"));
    table_cell(&t, BYTES_LIT("C"));
    table_cellf(&t, "%d", 12345);
    table_cell(&t, BYTES_LIT("\xc3\xa9"));
    table_cell(&t, BYTES_LIT("last"));
    table_cell(&t, BYTES_LIT("x"));
    table_cell(&t, BYTES_LIT("a\nb"));
    table_cell(&t, BYTES_LIT(""));
    table_put(&t, &out);
    assert_string_equal(strbuf_cstr(&out), "A      LONG HEAD  C\n"
                                           "12345  \xc3\xa9          last\n"
                                           "x      a\\nb\n");
    table_put(&t, &out); /* it is empty now */
    assert_int_equal(t.count, 0);
}

static void expect_size(uint64_t bytes, const char *text)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};

    put_size(&b, bytes);
    assert_string_equal(strbuf_cstr(&b), text);
}

static void expect_span(usec_t span, const char *text)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};

    put_span(&b, span);
    assert_string_equal(strbuf_cstr(&b), text);
}

static void amounts_have_a_fitting_unit(void **state)
{
    (void)state;
    expect_size(0, "0 B");
    expect_size(1023, "1023 B");
    expect_size(1536, "1.5 KiB");
    expect_size(MIB(3), "3.0 MiB");
    expect_size((uint64_t)5 << 50, "5120.0 TiB");
    expect_span(120, "0.120 ms");
    expect_span(12345000, "12.345 s");
    expect_span(61 * USEC_PER_SEC, "1m 1s");
    expect_span(7320 * USEC_PER_SEC, "2h 2m");
    expect_span(49 * 3600 * USEC_PER_SEC, "2d 1h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_shown_not_sent),
        cmocka_unit_test(long_text_is_cut_at_a_character),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(amounts_have_a_fitting_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
