/* test_token.c - completion tokens cannot be made up and say what they are for (spec 8.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "engine/token.h"

static const struct token SAMPLE = {
    .kind = 2,
    .hub = 0xfedcba98,
    .object = UINT64_MAX,
    .execution = 1,
    .key = 0x0123456789abcdef,
    .group = 77,
    .ref = -5,
    .nonce = 42,
};

static void a_token_comes_back_as_it_was(void **state)
{
    struct token_keys *k = token_keys_new(BYTES_LIT("0123456789abcdef0123456789abcdef"));
    char text[TOKEN_TEXT_MAX];
    struct token t;
    (void)state;
    size_t len = token_encode(k, &SAMPLE, text);
    assert_true(len <= 256);
    assert_true(token_decode(k, bytes_of(text, len), &t));
    assert_int_equal(t.kind, SAMPLE.kind);
    assert_int_equal(t.hub, SAMPLE.hub);
    assert_true(t.object == SAMPLE.object && t.execution == SAMPLE.execution &&
                t.key == SAMPLE.key && t.nonce == SAMPLE.nonce);
    assert_int_equal(t.group, SAMPLE.group);
    assert_int_equal(t.ref, SAMPLE.ref);
    token_keys_free(k);
}

static void every_change_is_noticed(void **state)
{
    struct token_keys *k = token_keys_new(BYTES_LIT("0123456789abcdef0123456789abcdef"));
    char text[TOKEN_TEXT_MAX + 1];
    struct token t;
    (void)state;
    size_t len = token_encode(k, &SAMPLE, text);
    assert_true(token_decode(k, bytes_of(text, len), &t));
    for (size_t i = 0; i < len; i++) {
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            text[i] = (char)(text[i] ^ (char)flip);
            assert_false(token_decode(k, bytes_of(text, len), &t));
            text[i] = (char)(text[i] ^ (char)flip);
        }
    }
    for (size_t n = 0; n < len; n++)
        assert_false(token_decode(k, bytes_of(text, n), &t));
    text[len] = 'A';
    assert_false(token_decode(k, bytes_of(text, len + 1), &t));
    assert_false(token_decode(k, BYTES_LIT(""), &t));
    assert_false(token_decode(k, BYTES_NONE, &t));
    token_keys_free(k);
}

static void tokens_of_another_store_are_not_ours(void **state)
{
    struct token_keys *k = token_keys_new(BYTES_LIT("0123456789abcdef0123456789abcdef"));
    struct token_keys *other = token_keys_new(BYTES_LIT("1123456789abcdef0123456789abcdef"));
    char text[TOKEN_TEXT_MAX];
    struct token t;
    (void)state;
    size_t len = token_encode(k, &SAMPLE, text);
    assert_false(token_decode(other, bytes_of(text, len), &t));
    token_keys_free(other);
    token_keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_comes_back_as_it_was),
        cmocka_unit_test(every_change_is_noticed),
        cmocka_unit_test(tokens_of_another_store_are_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
