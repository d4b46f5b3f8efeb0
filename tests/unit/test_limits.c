/* The table of settings: limits.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static uint64_t value_of(const struct settings *s, const struct setting_info *info)
{
    uint64_t v;
    memcpy(&v, (const char *)s + info->offset, sizeof(v));
    return v;
}

static void the_table_is_sound(void **state)
{
    struct settings s;
    (void)state;
    assert_int_equal(sizeof(s), SETTING_INFO_COUNT * sizeof(uint64_t));
    settings_defaults(&s);
    assert_int_equal(s.request_bytes, MIB(64));
    for (size_t i = 0; i < SETTING_INFO_COUNT; i++) {
        const struct setting_info *info = &SETTING_INFO[i];
        assert_true(info->min <= info->def && info->def <= info->max);
        assert_int_equal(value_of(&s, info), info->def);
        assert_true(strlen(info->text) > 0 && strlen(info->key) <= 40);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(info->key, SETTING_INFO[k].key);
    }
}

/* What is written is read back as the same value: default, least and most of every setting. */
static void values_go_both_ways(void **state)
{
    struct settings s;
    (void)state;
    settings_defaults(&s);
    for (size_t i = 0; i < SETTING_INFO_COUNT; i++) {
        const struct setting_info *info = &SETTING_INFO[i];
        uint64_t values[] = {info->min, info->max, info->def};
        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            CLEANUP(strbuf_deinit) struct strbuf text = {0};
            struct error err = {0};
            setting_format(info, values[k], &text);
            if (settings_set(&s, bytes_str(info->key), strbuf_bytes(&text), &err))
                fail_msg("%s", err.msg);
            assert_int_equal(value_of(&s, info), values[k]);
        }
    }
}

static void sets_one_by_its_key(void **state)
{
    struct settings s;
    (void)state;
    settings_defaults(&s);
    assert_int_equal(settings_set(&s, BYTES_LIT("request.bytes"), BYTES_LIT("1MiB"), NULL), OK);
    assert_int_equal(s.request_bytes, MIB(1));
    assert_int_equal(settings_set(&s, BYTES_LIT("hub.auto_create"), BYTES_LIT("false"), NULL), OK);
    assert_int_equal(s.hub_auto_create, 0);
    assert_int_equal(settings_set(&s, BYTES_LIT("turn.timeout"), BYTES_LIT("500ms"), NULL), OK);
    assert_int_equal(s.turn_timeout, 500000);
    assert_int_equal(settings_set(&s, BYTES_LIT("turn.timeout"), BYTES_LIT("off"), NULL), OK);
    assert_int_equal(s.turn_timeout, 0);
    assert_int_equal(settings_set(&s, BYTES_LIT("turn.events"), BYTES_LIT("7"), NULL), OK);
    assert_int_equal(s.turn_events, 7);
}

static void expect_refusal(const char *key, const char *value, const char *message)
{
    struct settings s, before;
    struct error err = {0};
    settings_defaults(&s);
    before = s;
    assert_int_equal(settings_set(&s, bytes_str(key), bytes_str(value), &err), ERR_INVALID);
    assert_string_equal(err.msg, message);
    assert_memory_equal(&s, &before, sizeof(s));
    assert_int_equal(settings_set(&s, bytes_str(key), bytes_str(value), NULL), ERR_INVALID);
}

static void bad_settings_say_what_is_wrong(void **state)
{
    (void)state;
    expect_refusal("request.byte", "1",
                   "unknown setting \"request.byte\": near ones are request.bytes, "
                   "request.buffered_bytes");
    expect_refusal("hub_auto_create", "true",
                   "unknown setting \"hub_auto_create\": near ones are hub.auto_create");
    expect_refusal("zzzzzzzzzzzz", "1", "unknown setting \"zzzzzzzzzzzz\"");
    expect_refusal("", "1", "unknown setting \"\"");
    expect_refusal("turn.events", "many",
                   "cannot set \"turn.events\": \"many\" is not a whole number");
    expect_refusal("turn.events", "0",
                   "setting \"turn.events\" cannot be \"0\": the range is 1 to 100000");
    expect_refusal("request.bytes", "1B",
                   "setting \"request.bytes\" cannot be \"1B\": the range is 1KiB to 512MiB");
    expect_refusal("hub.auto_create", "yes",
                   "cannot set \"hub.auto_create\": \"yes\" is neither true nor false");
    expect_refusal("turn.timeout", "5",
                   "cannot set \"turn.timeout\": \"5\" is not a duration: use a number and us, "
                   "ms, s, m, h or d, as in 30s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(values_go_both_ways),
        cmocka_unit_test(sets_one_by_its_key),
        cmocka_unit_test(bad_settings_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
