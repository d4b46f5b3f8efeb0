/* Seeded randomness: prng.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/prng.h"

/* The reference code of xoshiro256** with the state that splitmix64 makes of 1. */
static void a_seed_gives_the_same_numbers_for_ever(void **state)
{
    static const uint64_t WANT[] = {UINT64_C(0xb3f2af6d0fc710c5), UINT64_C(0x853b559647364cea),
                                    UINT64_C(0x92f89756082a4514), UINT64_C(0x642e1c7bc266a3a7)};
    struct prng p;
    (void)state;
    prng_seed(&p, 1);
    for (size_t i = 0; i < ARRAY_LEN(WANT); i++)
        assert_true(prng_u64(&p) == WANT[i]);
}

static void below_reaches_all_and_nothing_more(void **state)
{
    unsigned counts[10] = {0};
    struct prng p;
    (void)state;
    prng_seed(&p, 2);
    for (int i = 0; i < 10000; i++) {
        uint64_t x = prng_below(&p, ARRAY_LEN(counts));
        assert_true(x < ARRAY_LEN(counts));
        counts[x]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        assert_in_range(counts[i], 850, 1150);
    assert_int_equal(prng_below(&p, 1), 0);
    for (int i = 0; i < 100; i++) /* half of all draws are refused here */
        assert_true(prng_below(&p, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

static void fill_writes_just_what_it_should(void **state)
{
    struct prng p;
    (void)state;
    prng_seed(&p, 3);
    for (size_t len = 0; len < 40; len++) {
        uint8_t buf[48] = {0}, zero[48] = {0};
        prng_fill(&p, buf, len);
        assert_memory_equal(buf + len, zero, sizeof(buf) - len);
        if (len >= 8)
            assert_memory_not_equal(buf + len - 8, zero, 8);
    }
}

static void the_system_seeds_differ(void **state)
{
    struct prng a, b;
    uint8_t one[32] = {0}, two[32] = {0};
    (void)state;
    prng_seed_system(&a);
    prng_seed_system(&b);
    assert_true(prng_u64(&a) != prng_u64(&b));
    random_secret(one, sizeof(one));
    random_secret(two, sizeof(two));
    assert_memory_not_equal(one, two, sizeof(one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_the_same_numbers_for_ever),
        cmocka_unit_test(below_reaches_all_and_nothing_more),
        cmocka_unit_test(fill_writes_just_what_it_should),
        cmocka_unit_test(the_system_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
