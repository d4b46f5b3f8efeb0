/* The histogram and the schedule of the benchmark: bench/hdr.h, bench/pace.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"
#include "bench/hdr.h"
#include "bench/pace.h"

static int by_value(const void *a, const void *b)
{
    usec_t x = *(const usec_t *)a, y = *(const usec_t *)b;
    return x < y ? -1 : x > y;
}

static struct hdr *fresh(void)
{
    struct hdr *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    return h;
}

static void an_empty_one_says_zero(void **state)
{
    struct hdr *h = fresh();
    (void)state;
    assert_int_equal(hdr_at(h, 0.5), 0);
    assert_int_equal(h->max, 0);
    assert_true(hdr_mean(h) >= 0 && hdr_mean(h) <= 0);
    free(h);
}

/* Of one value, whatever its size, every fraction is that value. */
static void one_value_is_itself(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 36; bits++) {
        for (int d = -1; d <= 1; d++) {
            struct hdr *h = fresh();
            usec_t v = ((usec_t)1 << bits) + d;
            hdr_record(h, v);
            assert_int_equal(hdr_at(h, 0), v);
            assert_int_equal(hdr_at(h, 0.5), v);
            assert_int_equal(hdr_at(h, 1), v);
            assert_int_equal(h->min, v);
            free(h);
        }
    }
}

static void what_is_too_long_or_negative_is_cut(void **state)
{
    struct hdr *h = fresh();
    (void)state;
    hdr_record(h, -5);
    hdr_record(h, USEC_NEVER);
    assert_int_equal(h->count, 2);
    assert_int_equal(h->min, 0);
    assert_int_equal(h->max, HDR_VALUE_MAX);
    assert_int_equal(hdr_at(h, 1), HDR_VALUE_MAX);
    assert_int_equal(h->counts[HDR_COUNTS - 1], 1); /* the last one: there are none too many */
    free(h);
}

/* Times of all sizes against the sorted array: never below, and at most a thousandth above. */
static void agrees_with_an_array(void **state)
{
    enum { N = 20000 };
    static const double POINTS[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    usec_t *all = calloc(N, sizeof(*all));
    struct hdr *h = fresh();
    struct prng prng;
    double sum = 0;
    (void)state;
    assert_non_null(all);
    prng_seed(&prng, 11);
    for (size_t i = 0; i < N; i++) {
        all[i] = (usec_t)prng_below(&prng, (uint64_t)1 << (1 + prng_below(&prng, 35)));
        hdr_record(h, all[i]);
        sum += (double)all[i];
    }
    qsort(all, N, sizeof(*all), by_value);
    for (size_t i = 0; i < ARRAY_LEN(POINTS); i++) {
        size_t rank = (size_t)(POINTS[i] * N);
        usec_t exact = all[rank > 0 ? rank - 1 : 0], got = hdr_at(h, POINTS[i]);
        assert_true(got >= exact);
        assert_true((double)got <= (double)exact * 1.001 + 1);
    }
    assert_true(hdr_mean(h) > sum / N * 0.999999 && hdr_mean(h) < sum / N * 1.000001);
    assert_int_equal(h->max, all[N - 1]);
    assert_int_equal(h->min, all[0]);
    free(all);
    free(h);
}

static void operations_are_due_at_fixed_times(void **state)
{
    struct pace p = {.begun = 1000, .rate = 3};
    usec_t due = 0;
    (void)state;
    assert_false(pace_take(&p, 999, &due));
    assert_int_equal(p.taken, 0);
    assert_true(pace_take(&p, 1000, &due));
    assert_int_equal(due, 1000);
    assert_false(pace_take(&p, 1000, &due));
    assert_int_equal(pace_next_due(&p), 1000 + 333333);
    for (int i = 1; i < 3000000; i++)
        assert_true(pace_take(&p, USEC_NEVER, &due));
    assert_int_equal(due, 1000 + 2999999 * (usec_t)1000000 / 3); /* no drift */
}

/* A server that takes 1 ms, but stands still from 1 s to 2 s; 100 a second, one at a time. What is sent sees 1 ms in all but one of
 * 300 operations; counted from when they were due, a third of them had to wait, on average half a second. */
static void a_stall_is_seen_by_all_that_were_due(void **state)
{
    struct pace p = {.begun = 0, .rate = 100};
    struct hdr *latency = fresh(), *service = fresh();
    usec_t now = 0, due;
    (void)state;
    while (p.taken < 300) {
        if (!pace_take(&p, now, &due)) {
            now = pace_next_due(&p);
            continue;
        }
        usec_t sent = now;
        now += 1000;
        if (sent <= 1000000 && now > 1000000)
            now = 2000000;
        hdr_record(latency, now - due);
        hdr_record(service, now - sent);
    }
    assert_int_equal(hdr_at(service, 0.99), 1000);
    assert_int_equal(service->max, 1000000);
    assert_int_equal(latency->max, 1000000);
    assert_int_equal(hdr_at(latency, 0.5), 1000);
    assert_true(hdr_at(latency, 0.99) > 950000);
    assert_true(hdr_at(latency, 0.9) > 600000);
    free(latency);
    free(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_says_zero),
        cmocka_unit_test(one_value_is_itself),
        cmocka_unit_test(what_is_too_long_or_negative_is_cut),
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(operations_are_due_at_fixed_times),
        cmocka_unit_test(a_stall_is_seen_by_all_that_were_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
