#include "server/peers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/hashmap.h"

struct peer {
    struct hash_node node;
    uint64_t count; /* > 0 */
    size_t len;
    uint8_t address[];
};

struct peers {
    pthread_mutex_t lock;
    struct hashmap by_address;
};

struct peers *peers_new(void)
{
    struct peers *p = calloc(1, sizeof(*p));

    ASSERT(p);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    HASHMAP_FOR_EACH (&p->by_address, n)
        free(CONTAINER_OF(n, struct peer, node));
    hashmap_deinit(&p->by_address);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static struct bytes without_port(struct bytes name)
{
    for (size_t i = name.len; i > 0; i--)
        if (name.ptr[i - 1] == ':')
            return bytes_of(name.ptr, i - 1);
    return name;
}

static bool same_address(const struct hash_node *n, const void *key)
{
    const struct peer *peer = CONTAINER_OF(n, struct peer, node);

    return bytes_eq(bytes_of(peer->address, peer->len), *(const struct bytes *)key);
}

static struct peer *find_or_add(struct peers *p, struct bytes address)
{
    uint64_t hash = bytes_hash(address);
    struct hash_node *n = hashmap_find(&p->by_address, hash, same_address, &address);

    if (n)
        return CONTAINER_OF(n, struct peer, node);
    struct peer *peer = calloc(1, sizeof(*peer) + address.len);
    ASSERT(peer);
    peer->len = address.len;
    if (address.len > 0)
        memcpy(peer->address, address.ptr, address.len);
    hashmap_insert(&p->by_address, &peer->node, hash);
    return peer;
}

struct peer *peers_enter(struct peers *p, struct bytes name, uint64_t max)
{
    ASSERT(max > 0);
    pthread_mutex_lock(&p->lock);
    struct peer *peer = find_or_add(p, without_port(name));
    if (peer->count < max)
        peer->count++;
    else
        peer = NULL;
    pthread_mutex_unlock(&p->lock);
    return peer;
}

void peers_leave(struct peers *p, struct peer *peer)
{
    pthread_mutex_lock(&p->lock);
    ASSERT(peer->count > 0);
    if (--peer->count == 0) {
        hashmap_remove(&p->by_address, &peer->node);
        free(peer);
    }
    pthread_mutex_unlock(&p->lock);
}
