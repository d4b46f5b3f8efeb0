/* test_trim.c - memory goes back once, when a busy time is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/trim.h"

static void it_waits_for_silence_after_work(void **state)
{
    struct trim t = {0};
    usec_t cpu = 30 * USEC_PER_MSEC;
    (void)state;
    assert_false(trim_is_due(&t, cpu)); /* the start alone is too little */
    for (int i = 0; i < 20; i++)
        assert_false(trim_is_due(&t, cpu += 500 * USEC_PER_MSEC));
    assert_true(trim_is_due(&t, cpu += USEC_PER_MSEC));
    assert_false(trim_is_due(&t, cpu += USEC_PER_MSEC)); /* once */
}

/* An idle server that is looked at now and then does so seldom. */
static void little_work_adds_up(void **state)
{
    struct trim t = {0};
    int trims = 0;
    (void)state;
    for (int i = 1; i <= 1000; i++)
        trims += trim_is_due(&t, i * USEC_PER_MSEC);
    assert_int_equal(trims, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_for_silence_after_work),
        cmocka_unit_test(little_work_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
