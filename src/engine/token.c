#include "engine/token.h"

#include <assert.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mac.h"

#define TOKEN_FORMAT 1
#define TOKEN_BYTES                                                                                \
    54 /* 1 format, 1 kind, 4 hub, 8 object, 8 execution, 8 key, 4 group, 4 ref, 8 nonce, 8 mac */
#define TOKEN_SIGNED (TOKEN_BYTES - 8)

struct token_keys {
    struct mac *mac;
};

struct token_keys *token_keys_new(struct bytes secret)
{
    ASSERT(secret.len >= MAC_KEY_LEN);
    struct token_keys *k = calloc(1, sizeof(*k));
    ASSERT(k);
    k->mac = mac_new(secret.ptr);
    return k;
}

void token_keys_free(struct token_keys *k)
{
    if (!k)
        return;
    mac_free(k->mac);
    free(k);
}

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

static uint64_t get(const uint8_t **p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)(*(*p)++) << (8 * i);
    return v;
}

size_t token_encode(struct token_keys *k, const struct token *t, char out[TOKEN_TEXT_MAX])
{
    uint8_t raw[TOKEN_BYTES], *p = raw;
    p = put(p, TOKEN_FORMAT, 1);
    p = put(p, t->kind, 1);
    p = put(p, t->hub, 4);
    p = put(p, t->object, 8);
    p = put(p, t->execution, 8);
    p = put(p, t->key, 8);
    p = put(p, t->group, 4);
    p = put(p, (uint32_t)t->ref, 4);
    p = put(p, t->nonce, 8);
    ASSERT(p == raw + TOKEN_SIGNED);
    put(p, mac_sum(k->mac, bytes_of(raw, TOKEN_SIGNED)), 8);
    static_assert(BASE64_LEN(TOKEN_BYTES) < TOKEN_TEXT_MAX, "a token fits its buffer");
    return base64_encode(bytes_of(raw, sizeof(raw)), false, out);
}

bool token_decode(struct token_keys *k, struct bytes text, struct token *out)
{
    uint8_t raw[TOKEN_TEXT_MAX];
    size_t len = 0;
    if (text.len != BASE64_LEN(TOKEN_BYTES) || !base64_decode(text, raw, &len) ||
        len != TOKEN_BYTES)
        return false;
    const uint8_t *p = raw;
    if (get(&p, 1) != TOKEN_FORMAT)
        return false;
    struct token t;
    memset(&t, 0, sizeof(t));
    t.kind = (uint8_t)get(&p, 1);
    t.hub = (uint32_t)get(&p, 4);
    t.object = get(&p, 8);
    t.execution = get(&p, 8);
    t.key = get(&p, 8);
    t.group = (uint32_t)get(&p, 4);
    t.ref = (int32_t)(uint32_t)get(&p, 4);
    t.nonce = get(&p, 8);
    if (get(&p, 8) != mac_sum(k->mac, bytes_of(raw, TOKEN_SIGNED)))
        return false;
    *out = t;
    return true;
}
