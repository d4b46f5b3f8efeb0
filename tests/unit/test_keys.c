/* The file of API keys: what is made is found again, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/keys.h"

#define RANDOM_BYTES (KEY_ID_LEN / 2 + KEY_SECRET_BYTES + 16)
#define CREATED 1764547200000000 /* 2025-12-01 */

struct made {
    char key[KEY_TEXT_LEN + 1];
    struct strbuf file;
};

static void make(struct made *m, uint8_t seed, uint32_t roles, const char *hubs, const char *name)
{
    uint8_t random[RANDOM_BYTES];

    for (size_t i = 0; i < sizeof(random); i++)
        random[i] = (uint8_t)(seed + i);
    key_make(random, roles, bytes_str(hubs), CREATED, bytes_str(name), m->key, &m->file);
}

static struct keys *parsed(const char *text)
{
    struct keys *k;
    struct error err;

    if (keys_parse(bytes_str(text), &k, &err))
        fail_msg("%s", err.msg);
    return k;
}

static void a_key_is_found_by_its_text(void **state)
{
    struct made m = {0};

    (void)state;
    make(&m, 1, ROLE_CLIENT | ROLE_WORKER, "*", "the shop's workers");
    char first[KEY_TEXT_LEN + 1];
    memcpy(first, m.key, sizeof(first));
    make(&m, 100, ROLE_READ, "a,b", "");
    assert_string_equal(first, "pdk_010203040506_0708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                               "20212223242526");
    assert_null(strstr(strbuf_cstr(&m.file), first + 17)); /* the secret is not in the file */
    struct keys *k = parsed(strbuf_cstr(&m.file));
    assert_int_equal(keys_count(k), 2);
    const struct key *key = keys_find(k, bytes_str(first));
    assert_non_null(key);
    assert_string_equal(key->id, "010203040506");
    assert_int_equal(key->roles, ROLE_CLIENT | ROLE_WORKER);
    assert_true(bytes_eq(key->name, BYTES_LIT("the shop's workers")));
    assert_int_equal(key->created, CREATED);
    assert_ptr_equal(keys_find(k, bytes_str(m.key)), keys_at(k, 1));
    keys_unref(k);
    strbuf_deinit(&m.file);
}

/* Any one character that differs. */
static void a_key_that_differs_is_not_found(void **state)
{
    struct made m = {0};

    (void)state;
    make(&m, 1, ROLE_READ, "*", "");
    struct keys *k = parsed(strbuf_cstr(&m.file));
    for (size_t i = 0; i < KEY_TEXT_LEN; i++) {
        char other[KEY_TEXT_LEN + 1];
        memcpy(other, m.key, sizeof(other));
        other[i] = other[i] == '0' ? '1' : '0';
        assert_null(keys_find(k, bytes_str(other)));
    }
    assert_null(keys_find(k, bytes_of(m.key, KEY_TEXT_LEN - 1)));
    assert_null(keys_find(k, BYTES_LIT("")));
    assert_null(keys_find(k, BYTES_NONE));
    keys_unref(k);
    strbuf_deinit(&m.file);
}

/* The salt: one secret twice has two hashes. */
static void hashes_are_salted(void **state)
{
    uint8_t random[RANDOM_BYTES] = {0};
    char key[KEY_TEXT_LEN + 1];
    struct strbuf a = {0}, b = {0};

    (void)state;
    key_make(random, ROLE_READ, BYTES_LIT("*"), CREATED, BYTES_NONE, key, &a);
    random[RANDOM_BYTES - 1] = 1;
    key_make(random, ROLE_READ, BYTES_LIT("*"), CREATED, BYTES_NONE, key, &b);
    assert_memory_not_equal(a.ptr + 13 + 40, b.ptr + 13 + 40, 64);
    assert_memory_equal(a.ptr, b.ptr, 13 + 7);
    strbuf_deinit(&a);
    strbuf_deinit(&b);
}

static void hubs_are_compared_in_any_case(void **state)
{
    const struct key some = {.hubs = BYTES_LIT("shop,back-office")}, all = {.hubs = BYTES_LIT("*")};

    (void)state;
    assert_true(key_is_for_hub(&some, BYTES_LIT("shop")));
    assert_true(key_is_for_hub(&some, BYTES_LIT("Back-Office")));
    assert_false(key_is_for_hub(&some, BYTES_LIT("back")));
    assert_false(key_is_for_hub(&some, BYTES_LIT("shop,back-office")));
    assert_false(key_is_for_hub(&some, BYTES_LIT("")));
    assert_true(key_is_for_hub(&all, BYTES_LIT("anything")));
}

#define LINE_HEAD                                                                                  \
    "010203040506 sha256:"                                                                         \
    "000102030405060708090a0b0c0d0e0f:"                                                            \
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static void refused(const char *text, const char *message)
{
    struct keys *k;
    struct error err;

    assert_int_equal(keys_parse(bytes_str(text), &k, &err), ERR_INVALID);
    if (!strstr(err.msg, message))
        fail_msg("\"%s\": %s", text, err.msg);
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    refused("\n# x\nhello\n", "line 3: the id must be 12 hexadecimal digits");
    refused("010203040506 md5:00 read * 2026-01-01T00:00:00Z",
            "line 1: the second word must be sha256:SALT:HASH");
    refused(
        LINE_HEAD " reader * 2026-01-01T00:00:00Z",
        "line 1: \"reader\" is no role; use read, client, worker, admin, or several with commas");
    refused(LINE_HEAD "  * 2026-01-01T00:00:00Z", "line 1: \"\" is no role");
    refused(LINE_HEAD " read, * 2026-01-01T00:00:00Z", "line 1: \"\" is no role");
    refused(LINE_HEAD " read a,,b 2026-01-01T00:00:00Z", "line 1: \"\" is no task hub");
    refused(LINE_HEAD " read a.b 2026-01-01T00:00:00Z", "line 1: \"a.b\" is no task hub");
    refused(LINE_HEAD " read * yesterday", "line 1: \"yesterday\" is no time");
    refused(LINE_HEAD " read * -2h", "line 1: \"-2h\" is no time");
    refused(LINE_HEAD " read * 2026-01-01T00:00:00Z a\x01", "line 1: the name must be text");
    refused(LINE_HEAD " read * 2026-01-01T00:00:00Z\n" LINE_HEAD " read * 2026-01-01T00:00:00Z\n",
            "line 2: the id 010203040506 is there twice");
}

static void fine_lines(void **state)
{
    (void)state;
    struct keys *k =
        parsed("# perdure\n\n" LINE_HEAD " admin,read A,b 2026-01-01T00:00:00Z a b c\r\n");
    const struct key *key = keys_of_id(k, BYTES_LIT("010203040506"));
    assert_non_null(key);
    assert_int_equal(key->roles, ROLE_ADMIN | ROLE_READ);
    assert_true(bytes_eq(key->hubs, BYTES_LIT("a,b")));
    assert_true(bytes_eq(key->name, BYTES_LIT("a b c")));
    keys_unref(k);
    keys_unref(parsed(""));
}

static void files_that_cannot_be_read(void **state)
{
    struct keys *k;
    struct error err;

    (void)state;
    assert_int_equal(keys_read("/nonexistent/keys", &k, &err), ERR_INVALID);
    assert_string_equal(err.msg,
                        "could not read the API keys \"/nonexistent/keys\": No such file or "
                        "directory (perdure key create makes it)");
    assert_int_equal(keys_read("/", &k, &err), ERR_INVALID);
    assert_string_equal(err.msg, "could not read the API keys \"/\": Is a directory");
}

static void roles_have_names(void **state)
{
    struct strbuf text = {0};
    uint32_t roles = 0;
    struct error err;

    (void)state;
    assert_int_equal(roles_parse(BYTES_LIT("worker,client,worker"), &roles, &err), OK);
    assert_int_equal(roles, ROLE_WORKER | ROLE_CLIENT);
    roles_format(ROLES_ALL, &text);
    assert_string_equal(strbuf_cstr(&text), "read,client,worker,admin");
    assert_int_equal(roles_parse(BYTES_LIT(""), &roles, &err), ERR_INVALID);
    assert_int_equal(roles_parse(BYTES_LIT("Admin"), &roles, &err), ERR_INVALID);
    strbuf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_by_its_text),
        cmocka_unit_test(a_key_that_differs_is_not_found),
        cmocka_unit_test(hashes_are_salted),
        cmocka_unit_test(hubs_are_compared_in_any_case),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(fine_lines),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(roles_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
