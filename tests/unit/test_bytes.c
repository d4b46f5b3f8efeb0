/* Views, numbers, hex and base64: bytes.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"

#define L(s) BYTES_LIT(s)

static void none_and_empty_differ_but_are_equal(void **state)
{
    (void)state;
    assert_true(bytes_is_none(BYTES_NONE));
    assert_true(bytes_is_none(bytes_str(NULL)));
    assert_false(bytes_is_none(L("")));
    assert_true(bytes_eq(BYTES_NONE, L("")));
    assert_true(bytes_eq(L("abc"), bytes_str("abc")));
    assert_false(bytes_eq(L("abc"), L("abd")));
    assert_false(bytes_eq(L("abc"), L("ab")));
}

static void compares_as_memcmp_then_by_length(void **state)
{
    (void)state;
    assert_int_equal(bytes_cmp(L("a"), L("a")), 0);
    assert_true(bytes_cmp(L("a"), L("b")) < 0);
    assert_true(bytes_cmp(L("a"), L("ab")) < 0);
    assert_true(bytes_cmp(L("ab"), L("a")) > 0);
    assert_true(bytes_cmp(L("\xff"), L("a")) > 0); /* unsigned */
    assert_true(bytes_cmp(BYTES_NONE, L("a")) < 0);
    assert_int_equal(bytes_cmp(BYTES_NONE, L("")), 0);
}

static void ignores_case_of_ascii_only(void **state)
{
    (void)state;
    assert_true(bytes_eq_nocase(L("Content-TYPE"), L("content-type")));
    assert_false(bytes_eq_nocase(L("[a"), L("{a"))); /* 0x20 apart, no letters */
    assert_false(bytes_eq_nocase(L("\xc4"), L("\xe4")));
    assert_false(bytes_eq_nocase(L("a"), L("ab")));
}

static void finds_prefixes_and_parts(void **state)
{
    (void)state;
    assert_true(bytes_starts_with(L("abc"), L("ab")));
    assert_true(bytes_starts_with(L("abc"), L("")));
    assert_true(bytes_starts_with(BYTES_NONE, BYTES_NONE));
    assert_false(bytes_starts_with(L("ab"), L("abc")));
    assert_false(bytes_starts_with(L("abc"), L("b")));
    assert_true(bytes_contains(L("a\0bc"), L("\0b")));
    assert_true(bytes_contains(L("abc"), L("c")));
    assert_true(bytes_contains(BYTES_NONE, BYTES_NONE));
    assert_false(bytes_contains(L("abc"), L("cd")));
    assert_false(bytes_contains(BYTES_NONE, L("c")));
}

/* Stored hashes decide which partition an instance is in: they may never change. */
static void hash_is_the_same_for_ever(void **state)
{
    (void)state;
    assert_true(bytes_hash(L("")) == UINT64_C(0x2d06800538d394c2));
    assert_true(bytes_hash(BYTES_NONE) == UINT64_C(0x2d06800538d394c2));
    assert_true(bytes_hash(L("abc")) == UINT64_C(0x78af5f94892f3950));
}

static void parses_unsigned_numbers(void **state)
{
    static const char *const BAD[] = {"",    "-1", "+1",  " 1",   "1 ",
                                      "0x1", "1e", "1.0", "\xb2", "18446744073709551616"};
    uint64_t u = 7;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        assert_false(bytes_parse_u64(bytes_str(BAD[i]), &u));
    assert_false(bytes_parse_u64(BYTES_NONE, &u));
    assert_int_equal(u, 7);
    assert_true(bytes_parse_u64(L("0"), &u) && u == 0);
    assert_true(bytes_parse_u64(L("007"), &u) && u == 7);
    assert_true(bytes_parse_u64(L("18446744073709551615"), &u) && u == UINT64_MAX);
}

static void parses_signed_numbers(void **state)
{
    static const char *const BAD[] = {
        "", "-", "--1", "+1", "9223372036854775808", "-9223372036854775809"};
    int64_t i = 7;
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(BAD); k++)
        assert_false(bytes_parse_i64(bytes_str(BAD[k]), &i));
    assert_int_equal(i, 7);
    assert_true(bytes_parse_i64(L("-12"), &i) && i == -12);
    assert_true(bytes_parse_i64(L("9223372036854775807"), &i) && i == INT64_MAX);
    assert_true(bytes_parse_i64(L("-9223372036854775808"), &i) && i == INT64_MIN);
}

static void hex_goes_both_ways(void **state)
{
    static const uint8_t IN[] = {0x00, 0x1f, 0xa0, 0xff};
    uint8_t out[4];
    char text[8];
    (void)state;
    hex_encode(IN, sizeof(IN), text);
    assert_memory_equal(text, "001fa0ff", 8);
    assert_true(hex_decode(bytes_of(text, 8), out, 4));
    assert_memory_equal(out, IN, 4);
    assert_true(hex_decode(L("001FA0FF"), out, 4));
    assert_memory_equal(out, IN, 4);
    assert_false(hex_decode(L("001FA0F"), out, 4));
    assert_false(hex_decode(L("001FA0F"), out, 3));
    assert_false(hex_decode(L("001FA0FF00"), out, 4));
    assert_false(hex_decode(L("001FA0Fg"), out, 4));
    assert_true(hex_decode(L(""), out, 0));
}

static void check_base64(const char *plain, const char *padded)
{
    char text[32];
    uint8_t out[32];
    size_t len, bare = strcspn(padded, "=");

    len = base64_encode(bytes_str(plain), true, text);
    assert_int_equal(len, BASE64_LEN(strlen(plain)));
    assert_int_equal(len, strlen(padded));
    assert_memory_equal(text, padded, len);
    len = base64_encode(bytes_str(plain), false, text);
    assert_int_equal(len, bare);
    assert_memory_equal(text, padded, bare);
    assert_true(base64_decode(bytes_str(padded), out, &len));
    assert_true(bytes_eq(bytes_of(out, len), bytes_str(plain)));
    assert_true(base64_decode(bytes_of(padded, bare), out, &len));
    assert_true(bytes_eq(bytes_of(out, len), bytes_str(plain)));
}

/* The vectors of RFC 4648, section 10. */
static void base64_goes_both_ways(void **state)
{
    (void)state;
    check_base64("", "");
    check_base64("f", "Zg==");
    check_base64("fo", "Zm8=");
    check_base64("foo", "Zm9v");
    check_base64("foob", "Zm9vYg==");
    check_base64("fooba", "Zm9vYmE=");
    check_base64("foobar", "Zm9vYmFy");
    check_base64("\xfb\xff\xbe", "+/++");
}

static void bad_base64_is_refused(void **state)
{
    static const char *const BAD[] = {"A",    "AAAAA", "A===", "=",        "====", "AA=A",
                                      "A A=", "AA-_",  "AA=",  "Zg==Zg==", "AAA\n"};
    uint8_t out[32];
    size_t len;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        if (base64_decode(bytes_str(BAD[i]), out, &len))
            fail_msg("\"%s\" was accepted", BAD[i]);
    }
}

static void base64_keeps_every_byte(void **state)
{
    uint8_t in[256], out[BASE64_LEN(256)];
    char text[BASE64_LEN(256)];
    size_t len;
    (void)state;
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)(i * 167);
    for (size_t n = 0; n <= sizeof(in); n++) {
        size_t text_len = base64_encode(bytes_of(in, n), n % 2, text);
        assert_true(base64_decode(bytes_of(text, text_len), out, &len));
        assert_int_equal(len, n);
        assert_memory_equal(out, in, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_and_empty_differ_but_are_equal),
        cmocka_unit_test(compares_as_memcmp_then_by_length),
        cmocka_unit_test(ignores_case_of_ascii_only),
        cmocka_unit_test(finds_prefixes_and_parts),
        cmocka_unit_test(hash_is_the_same_for_ever),
        cmocka_unit_test(parses_unsigned_numbers),
        cmocka_unit_test(parses_signed_numbers),
        cmocka_unit_test(hex_goes_both_ways),
        cmocka_unit_test(base64_goes_both_ways),
        cmocka_unit_test(bad_base64_is_refused),
        cmocka_unit_test(base64_keeps_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
