/* SipHash, as stores of other machines have it: mac.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/mac.h"
#include "base/prng.h"

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

static uint64_t sum_of_openssl(EVP_MAC_CTX *ctx, const uint8_t *key, struct bytes data)
{
    uint64_t sum = 0;
    size_t len = 0;
    assert_int_equal(EVP_MAC_init(ctx, key, MAC_KEY_LEN, NULL), 1);
    assert_int_equal(EVP_MAC_update(ctx, data.ptr, data.len), 1);
    assert_int_equal(EVP_MAC_final(ctx, (unsigned char *)&sum, &len, sizeof(sum)), 1);
    assert_int_equal(len, sizeof(sum));
    return sum;
}

/* Random keys and data of every length around and over its words. */
static void agrees_with_openssl(void **state)
{
    EVP_MAC *alg = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    size_t size = sizeof(uint64_t);
    OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                           OSSL_PARAM_construct_end()};
    uint8_t key[MAC_KEY_LEN], data[300];
    struct prng prng;
    (void)state;
    assert_non_null(alg);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(alg);
    assert_int_equal(EVP_MAC_CTX_set_params(ctx, params), 1);
    prng_seed(&prng, 7);
    for (size_t len = 0; len <= sizeof(data); len++) {
        prng_fill(&prng, key, sizeof(key));
        prng_fill(&prng, data, sizeof(data));
        struct mac *m = mac_new(key);
        struct bytes view = bytes_of(data, len);
        assert_true(mac_sum(m, view) == sum_of_openssl(ctx, key, view));
        mac_free(m);
    }
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(alg);
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
        cmocka_unit_test(agrees_with_openssl),
        cmocka_unit_test(the_key_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
