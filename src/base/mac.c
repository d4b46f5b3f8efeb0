#include "base/mac.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>

#include "base/assert.h"

struct mac {
    EVP_MAC_CTX *ctx;
    uint8_t key[MAC_KEY_LEN];
};

struct mac *mac_new(const uint8_t key[MAC_KEY_LEN])
{
    struct mac *m = calloc(1, sizeof(*m));
    ASSERT(m);
    EVP_MAC *alg = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    ASSERT(alg);
    m->ctx = EVP_MAC_CTX_new(alg);
    ASSERT(m->ctx);
    EVP_MAC_free(alg);
    size_t size = sizeof(uint64_t);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
        OSSL_PARAM_construct_end(),
    };
    ASSERT(EVP_MAC_CTX_set_params(m->ctx, params) == 1);
    memcpy(m->key, key, MAC_KEY_LEN);
    return m;
}

void mac_free(struct mac *m)
{
    if (!m)
        return;
    EVP_MAC_CTX_free(m->ctx);
    free(m);
}

uint64_t mac_sum(struct mac *m, struct bytes data)
{
    uint64_t sum = 0;
    size_t len = 0;
    ASSERT(EVP_MAC_init(m->ctx, m->key, MAC_KEY_LEN, NULL) == 1);
    ASSERT(EVP_MAC_update(m->ctx, data.ptr, data.len) == 1);
    ASSERT(EVP_MAC_final(m->ctx, (unsigned char *)&sum, &len, sizeof(sum)) == 1);
    ASSERT(len == sizeof(sum));
    return sum;
}
