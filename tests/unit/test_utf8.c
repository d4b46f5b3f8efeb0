/* Valid and invalid text: utf8.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

/* Writes a code point as UTF-8 would, also one that has no place there. */
static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

/* All of them, and some more that there are not. */
static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x200000; c++) {
        uint8_t text[4];
        size_t len = encode(c, text);
        bool real = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
        if (utf8_is_valid(bytes_of(text, len)) != real)
            fail_msg("U+%04X", c);
        for (size_t cut = 1; real && cut < len; cut++) {
            if (utf8_is_valid(bytes_of(text, cut)))
                fail_msg("U+%04X cut to %zu", c, cut);
        }
    }
}

static void bad_text_is_found_anywhere(void **state)
{
    static const char *const BAD[] = {
        "\x80",         "\xbf",     "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80",
        "\xe0\x9f\xbf", "\xc3\x28", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf5\x80\x80\x80",
        "\xfe",         "\xff",     "\xe2\x28\xa1",     "\xe2\x82\x28",     "\xf0\x90\x80\x28",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        for (size_t before = 0; before < 20; before++) { /* words of eight are looked at at once */
            char text[64];
            memset(text, 'a', sizeof(text));
            memcpy(text + before, BAD[i], strlen(BAD[i]));
            assert_false(utf8_is_valid(bytes_of(text, before + strlen(BAD[i]))));
            assert_false(utf8_is_valid(bytes_of(text, sizeof(text))));
        }
    }
    assert_true(utf8_is_valid(BYTES_NONE));
    assert_true(utf8_is_valid(BYTES_LIT("a\0b")));
}

static void counts_characters(void **state)
{
    (void)state;
    assert_int_equal(utf8_length(BYTES_LIT("")), 0);
    assert_int_equal(utf8_length(BYTES_LIT("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80")), 4);
}

static void finds_control_characters(void **state)
{
    (void)state;
    assert_false(utf8_has_control(BYTES_LIT("a b~\xc3\xa4")));
    assert_false(utf8_has_control(BYTES_LIT("\xc2\x80"))); /* U+0080 is none of ours */
    assert_true(utf8_has_control(BYTES_LIT("a\n")));
    assert_true(utf8_has_control(BYTES_LIT("\0")));
    assert_true(utf8_has_control(BYTES_LIT("\x7f")));
}

static void cuts_at_a_characters_end(void **state)
{
    struct bytes text = BYTES_LIT("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    static const size_t WANT[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    (void)state;
    for (size_t max = 0; max < ARRAY_LEN(WANT); max++)
        assert_int_equal(utf8_cut(text, max), WANT[max]);
    assert_int_equal(utf8_cut(BYTES_NONE, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),         cmocka_unit_test(bad_text_is_found_anywhere),
        cmocka_unit_test(counts_characters),        cmocka_unit_test(finds_control_characters),
        cmocka_unit_test(cuts_at_a_characters_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
