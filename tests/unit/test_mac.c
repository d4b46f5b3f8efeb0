/* SipHash, as stores of other machines have it: mac.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/mac.h"

/* The vectors of the reference code of SipHash-2-4: key 00..0f, data 00..len-1. */
static void agrees_with_the_reference(void **state)
{
    static const uint8_t WANT[][8] = {
        {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72},
        {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74},
        {0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d},
    };
    uint8_t key[MAC_KEY_LEN], data[3] = {0, 1, 2};
    (void)state;
    for (uint8_t i = 0; i < sizeof(key); i++)
        key[i] = i;
    struct mac *m = mac_new(key);
    for (size_t len = 0; len < ARRAY_LEN(WANT); len++) {
        uint64_t sum = mac_sum(m, bytes_of(data, len));
        assert_memory_equal(&sum, WANT[len], sizeof(sum));
        assert_true(mac_sum(m, bytes_of(data, len)) == sum); /* and again */
    }
    mac_free(m);
    mac_free(NULL);
}

static void the_key_matters(void **state)
{
    uint8_t key[MAC_KEY_LEN] = {1};
    (void)state;
    struct mac *a = mac_new(key);
    key[0] = 2;
    struct mac *b = mac_new(key);
    assert_true(mac_sum(a, BYTES_LIT("x")) != mac_sum(b, BYTES_LIT("x")));
    assert_true(mac_sum(a, BYTES_LIT("x")) != mac_sum(a, BYTES_LIT("y")));
    mac_free(a);
    mac_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(the_key_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
