#include "store/page_cache.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PENDING_BYTE 0x40000000u /* of SQLite's locks; nothing is stored in its page */

struct cache {
    sqlite3_pcache *real;
    unsigned pending; /* number of the lock page */
    unsigned key_max; /* no page but the lock page has a higher number */
    bool has_pending; /* maybe */
};

static sqlite3_pcache_methods2 real;
static _Atomic uint64_t left_out, done;

static struct cache *of(sqlite3_pcache *c)
{
    return (struct cache *)(void *)c;
}

static void note(struct cache *c, unsigned key)
{
    if (key == c->pending)
        c->has_pending = true;
    else if (key > c->key_max)
        c->key_max = key;
}

static int cache_init(void *arg)
{
    (void)arg;
    return real.xInit(real.pArg);
}

static void cache_shutdown(void *arg)
{
    (void)arg;
    real.xShutdown(real.pArg);
}

static sqlite3_pcache *cache_create(int page_size, int extra, int purgeable)
{
    struct cache *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->real = real.xCreate(page_size, extra, purgeable);
    if (!c->real) {
        free(c);
        return NULL;
    }
    c->pending = PENDING_BYTE / (unsigned)page_size + 1;
    return (sqlite3_pcache *)(void *)c;
}

static void cache_size(sqlite3_pcache *c, int pages)
{
    real.xCachesize(of(c)->real, pages);
}

static int cache_count(sqlite3_pcache *c)
{
    return real.xPagecount(of(c)->real);
}

static sqlite3_pcache_page *cache_fetch(sqlite3_pcache *c, unsigned key, int create)
{
    sqlite3_pcache_page *page = real.xFetch(of(c)->real, key, create);

    if (page && create)
        note(of(c), key);
    return page;
}

static void cache_unpin(sqlite3_pcache *c, sqlite3_pcache_page *page, int discard)
{
    real.xUnpin(of(c)->real, page, discard);
}

static void cache_rekey(sqlite3_pcache *c, sqlite3_pcache_page *page, unsigned from, unsigned to)
{
    if (from == of(c)->pending)
        of(c)->has_pending = false;
    note(of(c), to);
    real.xRekey(of(c)->real, page, from, to);
}

static void cache_truncate(sqlite3_pcache *p, unsigned limit)
{
    struct cache *c = of(p);

    if (limit > c->key_max && (!c->has_pending || limit > c->pending)) {
        atomic_fetch_add_explicit(&left_out, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
    real.xTruncate(c->real, limit);
    if (limit <= c->key_max)
        c->key_max = limit > 0 ? limit - 1 : 0;
    if (limit <= c->pending)
        c->has_pending = false;
}

static void cache_destroy(sqlite3_pcache *c)
{
    real.xDestroy(of(c)->real);
    free(c);
}

static void cache_shrink(sqlite3_pcache *c)
{
    real.xShrink(of(c)->real);
}

bool page_cache_install(void)
{
    static const sqlite3_pcache_methods2 OURS = {
        .iVersion = 1,
        .xInit = cache_init,
        .xShutdown = cache_shutdown,
        .xCreate = cache_create,
        .xCachesize = cache_size,
        .xPagecount = cache_count,
        .xFetch = cache_fetch,
        .xUnpin = cache_unpin,
        .xRekey = cache_rekey,
        .xTruncate = cache_truncate,
        .xDestroy = cache_destroy,
        .xShrink = cache_shrink,
    };

    return sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &real) == SQLITE_OK && real.xCreate &&
           sqlite3_config(SQLITE_CONFIG_PCACHE2, &OURS) == SQLITE_OK;
}

uint64_t page_cache_truncations_left_out(void)
{
    return atomic_load(&left_out);
}

uint64_t page_cache_truncations_done(void)
{
    return atomic_load(&done);
}
