/* Timestamps and durations: timestamp.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/timestamp.h"

static bool read_time(int64_t seconds, int32_t nanos, usec_t *out)
{
    Google__Protobuf__Timestamp ts = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    ts.seconds = seconds;
    ts.nanos = nanos;
    return wire_time_read(&ts, out);
}

/* A due time is never early: 1 ns past a microsecond is the next microsecond. */
static void finer_times_round_up(void **state)
{
    usec_t t = -1;
    (void)state;
    assert_true(read_time(1, 0, &t) && t == 1000000);
    assert_true(read_time(1, 1, &t) && t == 1000001);
    assert_true(read_time(1, 999, &t) && t == 1000001);
    assert_true(read_time(1, 1000, &t) && t == 1000001);
    assert_true(read_time(1, 999999999, &t) && t == 2000000);
    assert_true(read_time(-1, 1, &t) && t == -999999);
    assert_true(read_time(0, 0, &t) && t == 0);
}

static void times_that_do_not_exist_are_refused(void **state)
{
    usec_t t = 42;
    (void)state;
    assert_false(read_time(-62135596801, 0, &t));
    assert_false(read_time(253402300800, 0, &t));
    assert_false(read_time(0, -1, &t));
    assert_false(read_time(0, 1000000000, &t));
    assert_false(read_time(INT64_MAX, 0, &t));
    assert_false(read_time(INT64_MIN, 0, &t));
    assert_int_equal(t, 42);
    assert_true(read_time(-62135596800, 0, &t));
    assert_true(read_time(253402300799, 999999999, &t));
}

/* What was stored is sent, and what was sent is read as what was stored. */
static void times_round_trip_to_the_digit(void **state)
{
    static const usec_t TIMES[] = {0,
                                   1,
                                   999999,
                                   1000000,
                                   -1,
                                   -1000000,
                                   -999999,
                                   1764547200123456,
                                   -62135596800000000,
                                   253402300799999999};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        Google__Protobuf__Timestamp ts = wire_time(TIMES[i]);
        usec_t back;
        assert_in_range(ts.nanos, 0, 999999999);
        assert_int_equal(ts.nanos % 1000, 0);
        assert_true(wire_time_read(&ts, &back));
        assert_int_equal(back, TIMES[i]);
    }
}

/* The last nanosecond of 9999 rounds up out of the range; it is sent as the last microsecond of it. */
static void the_end_of_time_stays_in_range(void **state)
{
    usec_t t;
    (void)state;
    assert_true(read_time(253402300799, 999999999, &t));
    Google__Protobuf__Timestamp ts = wire_time(t);
    assert_true(ts.seconds == 253402300799 && ts.nanos == 999999000);
    ts = wire_time(USEC_NEVER);
    assert_true(ts.seconds == 253402300799);
    ts = wire_time(INT64_MIN);
    assert_true(ts.seconds == -62135596800 && ts.nanos == 0);
}

static void epoch_and_absent_are_unset(void **state)
{
    Google__Protobuf__Timestamp ts = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    (void)state;
    assert_true(wire_time_is_unset(NULL));
    assert_true(wire_time_is_unset(&ts));
    ts.nanos = 1;
    assert_false(wire_time_is_unset(&ts));
}

static bool read_duration(int64_t seconds, int32_t nanos, usec_t *out)
{
    Google__Protobuf__Duration d = GOOGLE__PROTOBUF__DURATION__INIT;
    d.seconds = seconds;
    d.nanos = nanos;
    return wire_duration_read(&d, out);
}

static void durations_round_up_and_keep_their_sign(void **state)
{
    usec_t d = 7;
    (void)state;
    assert_true(read_duration(2, 1, &d) && d == 2000001);
    assert_true(read_duration(-2, -1, &d) && d == -2000000);
    assert_true(read_duration(-2, -1001, &d) && d == -2000001);
    assert_true(read_duration(0, -5000, &d) && d == -5);
    d = 7;
    assert_false(read_duration(1, -1, &d));
    assert_false(read_duration(-1, 1, &d));
    assert_false(read_duration(0, 1000000000, &d));
    assert_false(read_duration(315576000001, 0, &d));
    assert_int_equal(d, 7);

    Google__Protobuf__Duration out = wire_duration(-1500000);
    assert_true(out.seconds == -1 && out.nanos == -500000000);
    assert_true(wire_duration_read(&out, &d) && d == -1500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finer_times_round_up),
        cmocka_unit_test(times_that_do_not_exist_are_refused),
        cmocka_unit_test(times_round_trip_to_the_digit),
        cmocka_unit_test(the_end_of_time_stays_in_range),
        cmocka_unit_test(epoch_and_absent_are_unset),
        cmocka_unit_test(durations_round_up_and_keep_their_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
