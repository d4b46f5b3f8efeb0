/* Times, durations and sizes: time.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"

static usec_t duration(const char *text)
{
    usec_t t = -1;
    struct error err = {0};
    if (usec_parse_duration(bytes_str(text), &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

static void reads_durations(void **state)
{
    static const char *const BAD[] = {"",
                                      "5",
                                      "s",
                                      "-5s",
                                      "+5s",
                                      "1.5s",
                                      "5 s",
                                      "5S",
                                      "5sec",
                                      "1h30m",
                                      " 5s",
                                      "5s ",
                                      "OFF",
                                      "00",
                                      "99999999999999999999s",
                                      "200000000000d"};
    (void)state;
    assert_int_equal(duration("250us"), 250);
    assert_int_equal(duration("500ms"), 500000);
    assert_int_equal(duration("2s"), 2000000);
    assert_int_equal(duration("5m"), 300000000);
    assert_int_equal(duration("1h"), 3600000000);
    assert_int_equal(duration("1d"), 86400000000);
    assert_int_equal(duration("0s"), 0);
    assert_int_equal(duration("0"), 0);
    assert_int_equal(duration("off"), 0);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        usec_t t = 7;
        struct error err = {0};
        if (usec_parse_duration(bytes_str(BAD[i]), &t, &err) != ERR_INVALID)
            fail_msg("\"%s\" was accepted", BAD[i]);
        assert_int_equal(t, 7);
        assert_string_not_equal(err.msg, "");
    }
}

static uint64_t size(const char *text)
{
    uint64_t n = 7;
    struct error err = {0};
    if (size_parse(bytes_str(text), &n, &err))
        fail_msg("%s", err.msg);
    return n;
}

static void reads_sizes(void **state)
{
    static const char *const BAD[] = {
        "",     "MiB",    "-1", "1 MiB",       "1MB",
        "1mib", "1.5MiB", "1K", "16777216TiB", "18446744073709551616"};
    (void)state;
    assert_int_equal(size("100"), 100);
    assert_int_equal(size("100B"), 100);
    assert_int_equal(size("256KiB"), 262144);
    assert_int_equal(size("64MiB"), 67108864);
    assert_int_equal(size("1GiB"), 1073741824);
    assert_int_equal(size("2TiB"), 2199023255552);
    assert_int_equal(size("off"), 0);
    assert_true(size("18446744073709551615") == UINT64_MAX);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        uint64_t n = 7;
        struct error err = {0};
        if (size_parse(bytes_str(BAD[i]), &n, &err) != ERR_INVALID)
            fail_msg("\"%s\" was accepted", BAD[i]);
        assert_int_equal(n, 7);
    }
}

static usec_t time_of(const char *text, usec_t now)
{
    usec_t t = -1;
    struct error err = {0};
    if (usec_parse_time(bytes_str(text), now, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

static void reads_times(void **state)
{
    (void)state;
    assert_int_equal(time_of("1970-01-01T00:00:00Z", 5), 0);
    assert_int_equal(time_of("1970-01-01t00:00:01z", 5), 1000000);
    assert_int_equal(time_of("1969-12-31T23:59:59.5Z", 5), -500000);
    assert_int_equal(time_of("2026-12-01T01:02:03.000004Z", 5), 1796086923000004);
    assert_int_equal(time_of("2026-12-01 01:02:03+01:30", 5), 1796081523000000);
    assert_int_equal(time_of("2026-12-01T01:02:03-00:30", 5), 1796088723000000);
    assert_int_equal(time_of("2024-02-29T00:00:00Z", 5), 1709164800000000);
    assert_int_equal(time_of("2000-02-29T00:00:00Z", 5), 951782400000000);
    assert_int_equal(time_of("2016-12-31T23:59:60Z", 5), 1483228800000000); /* a leap second */
    assert_int_equal(time_of("9999-12-31T23:59:59.999999Z", 5), 253402300799999999);
    assert_int_equal(time_of("0001-01-01T00:00:00Z", 5), -62135596800000000);
}

/* A timer may be late but never early: 1 ns past a microsecond is the next one. */
static void finer_fractions_round_up(void **state)
{
    (void)state;
    assert_int_equal(time_of("1970-01-01T00:00:00.1Z", 0), 100000);
    assert_int_equal(time_of("1970-01-01T00:00:00.000000001Z", 0), 1);
    assert_int_equal(time_of("1970-01-01T00:00:00.000001000Z", 0), 1);
    assert_int_equal(time_of("1970-01-01T00:00:00.9999999Z", 0), 1000000);
}

static void reads_relative_times(void **state)
{
    (void)state;
    assert_int_equal(time_of("+30s", 1000000), 31000000);
    assert_int_equal(time_of("-2h", 10000000000), 2800000000);
    assert_int_equal(time_of("-2h", 5), 0);
    assert_int_equal(time_of("+0s", 5), 5);
}

static void bad_times_are_refused(void **state)
{
    static const char *const BAD[] = {
        "",
        "+",
        "-",
        "+30",
        "30s",
        "now",
        "2026-12-01",
        "2026-12-01T01:02:03",
        "2026-12-01T01:02Z",
        "2026-13-01T01:02:03Z",
        "2026-00-01T01:02:03Z",
        "2026-12-00T01:02:03Z",
        "2026-11-31T01:02:03Z",
        "2026-02-29T01:02:03Z",
        "2100-02-29T01:02:03Z",
        "2026-12-01T24:02:03Z",
        "2026-12-01T01:60:03Z",
        "2026-12-01T01:02:61Z",
        "2026-12-01T01:02:03.Z",
        "2026-12-01T01:02:03+0130",
        "2026-12-01T01:02:03+24:00",
        "2026-12-01T01:02:03Zx",
        "26-12-01T01:02:03Z",
        "-2026-12-01T01:02:03Z",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        usec_t t = 7;
        struct error err = {0};
        if (usec_parse_time(bytes_str(BAD[i]), 1, &t, &err) != ERR_INVALID)
            fail_msg("\"%s\" was accepted", BAD[i]);
        assert_int_equal(t, 7);
    }
    usec_t t;
    assert_int_equal(usec_parse_time(BYTES_LIT("2026-12-01T01:02:03\0"), 1, &t, NULL), ERR_INVALID);
}

static void expect_text(usec_t t, const char *want)
{
    char text[USEC_TEXT_LEN];
    usec_format(t, text);
    assert_string_equal(text, want);
}

static void writes_times(void **state)
{
    (void)state;
    expect_text(0, "1970-01-01T00:00:00.000000Z");
    expect_text(-1, "1969-12-31T23:59:59.999999Z");
    expect_text(1796086923000004, "2026-12-01T01:02:03.000004Z");
    expect_text(951782400000000, "2000-02-29T00:00:00.000000Z");
    expect_text(253402300799999999, "9999-12-31T23:59:59.999999Z");
    expect_text(INT64_MAX, "294247-01-10T04:00:54.775807Z");
    expect_text(INT64_MIN, "-290308-12-21T19:59:05.224192Z");
}

/* Every day of 400 years and some, and odd times in them. */
static void what_is_written_reads_the_same(void **state)
{
    (void)state;
    for (int64_t day = -150000; day < 150000; day++) {
        char text[USEC_TEXT_LEN];
        usec_t t = day * 86400 * USEC_PER_SEC + day * 7919 % 86400000000;
        usec_format(t, text);
        assert_int_equal(time_of(text, 0), t);
    }
}

static void addition_saturates(void **state)
{
    (void)state;
    assert_int_equal(usec_add(2, 3), 5);
    assert_int_equal(usec_add(2, -3), 0);
    assert_int_equal(usec_add(USEC_NEVER, -3), USEC_NEVER);
    assert_int_equal(usec_add(5, USEC_NEVER), USEC_NEVER);
    assert_int_equal(usec_add(USEC_NEVER - 1, 5), USEC_NEVER);
    assert_int_equal(usec_add(INT64_MIN, -1), 0);
}

static void the_system_clocks_go_on(void **state)
{
    const struct clock *c = clock_system();
    (void)state;
    usec_t a = clock_monotonic(c);
    usec_t b = clock_monotonic(c);
    assert_true(a > 0 && b >= a);
    assert_true(clock_wall(c) > 1577836800000000); /* 2020 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_durations),      cmocka_unit_test(reads_sizes),
        cmocka_unit_test(reads_times),          cmocka_unit_test(finer_fractions_round_up),
        cmocka_unit_test(reads_relative_times), cmocka_unit_test(bad_times_are_refused),
        cmocka_unit_test(writes_times),         cmocka_unit_test(what_is_written_reads_the_same),
        cmocka_unit_test(addition_saturates),   cmocka_unit_test(the_system_clocks_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
