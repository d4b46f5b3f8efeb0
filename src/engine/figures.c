/* figures.c - what an engine is asked from outside its batches: its figures, and to drain. */
#include "engine/internal.h"

void engine_drain(struct engine *e)
{
    e->draining = true;
}

void engine_drain_end(struct engine *e)
{
    waiters_end_all(e, ERR_UNAVAILABLE, "the server is stopping; connect again in a moment");
    stream_end_all(e, OK, "");
}

size_t engine_in_flight(const struct engine *e)
{
    size_t n = 0;
    for (unsigned k = 1; k < WORK_KINDS; k++)
        n += e->flight[k];
    return n;
}

void engine_stats(struct engine *e, struct engine_stats *out)
{
    *out = e->stats;
    memcpy(out->ready, e->ready, sizeof(out->ready));
    memcpy(out->flight, e->flight, sizeof(out->flight));
    out->paused = e->paused;
    out->waiters = e->waiters_by_id.count;
    out->streams = e->streams.count;
    out->objects_cached = e->by_key.count;
    out->objects_cached_bytes = e->cache_bytes;
    struct error err;
    if (store_timer_count(e->reader, &out->timers, &err))
        out->timers = e->timers.count;
}

struct counts {
    struct engine *e;
    engine_count_fn *fn;
    void *arg;
};

static void one_count(void *arg, uint32_t hub, uint8_t kind, int32_t status, int64_t count)
{
    struct counts *c = arg;
    struct hub *h = hub_by_id(c->e, hub);
    c->fn(c->arg, h ? bytes_str(h->name) : BYTES_NONE, kind, status, count);
}

enum err engine_counts(struct engine *e, engine_count_fn *fn, void *arg, struct error *err)
{
    struct counts c = {e, fn, arg};
    return store_count_list(e->reader, one_count, &c, err);
}

void engine_ready_each(struct engine *e, engine_ready_fn *fn, void *arg)
{
    LIST_FOR_EACH (&e->hubs, n) {
        struct hub *h = LIST_ENTRY(n, struct hub, link);
        uint64_t ready[WORK_KINDS] = {0};
        LIST_FOR_EACH (&h->groups, m) {
            struct group *g = LIST_ENTRY(m, struct group, link);
            ready[g->kind] += g->ready.count;
        }
        for (uint8_t k = 1; k < WORK_KINDS; k++)
            fn(arg, bytes_str(h->name), k, ready[k]);
    }
}

void engine_on_commit(struct engine *e,
                      void (*fn)(void *arg, usec_t took, uint64_t commands, bool ok), void *arg)
{
    e->on_commit = fn;
    e->on_commit_arg = arg;
}
