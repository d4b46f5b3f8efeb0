#include "sim/sched.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hashmap.h"

static bool event_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct sched_event *x = CONTAINER_OF(a, struct sched_event, node);
    const struct sched_event *y = CONTAINER_OF(b, struct sched_event, node);
    return x->at != y->at ? x->at < y->at : x->order < y->order;
}

void sched_init(struct sched *s)
{
    *s = (struct sched){0};
    heap_init(&s->heap, event_less);
}

void sched_deinit(struct sched *s)
{
    for (struct heap_node *n; (n = heap_pop(&s->heap));) {
        struct sched_event *ev = CONTAINER_OF(n, struct sched_event, node);
        if (ev->is_once)
            free(ev);
    }
    heap_deinit(&s->heap);
}

void sched_set(struct sched *s, struct sched_event *ev, usec_t at)
{
    sched_cancel(s, ev);
    ev->at = MAX(at, s->now);
    ev->order = s->next_order++;
    heap_push(&s->heap, &ev->node);
}

void sched_cancel(struct sched *s, struct sched_event *ev)
{
    if (heap_has(&ev->node))
        heap_remove(&s->heap, &ev->node);
}

void sched_call(struct sched *s, usec_t at, void (*fn)(void *arg), void *arg)
{
    struct sched_event *ev = calloc(1, sizeof(*ev));
    ASSERT(ev);
    ev->fn = fn;
    ev->arg = arg;
    ev->is_once = true;
    sched_set(s, ev, at);
}

bool sched_step(struct sched *s, usec_t until)
{
    struct heap_node *n = heap_min(&s->heap);
    struct sched_event *ev = n ? CONTAINER_OF(n, struct sched_event, node) : NULL;
    if (!ev || ev->at > until) {
        s->now = MAX(s->now, until);
        return false;
    }
    heap_remove(&s->heap, n);
    s->now = ev->at;
    void (*fn)(void *) = ev->fn;
    void *arg = ev->arg;
    if (ev->is_once)
        free(ev);
    fn(arg);
    return true;
}

struct prng sched_stream(uint64_t seed, const char *name, uint64_t index)
{
    struct prng p;
    uint64_t mixed = hash_u64(seed * 0x9e3779b97f4a7c15u + bytes_hash(bytes_str(name)));
    prng_seed(&p, hash_u64(mixed + index * 0xbf58476d1ce4e5b9u));
    return p;
}

uint64_t draw_range(struct prng *p, uint64_t from, uint64_t to)
{
    return from + prng_below(p, to - from + 1);
}

bool draw_one_in(struct prng *p, uint64_t n)
{
    return prng_below(p, n) == 0;
}

usec_t draw_time(struct prng *p, usec_t from, usec_t to)
{
    uint64_t span = (uint64_t)(to - from) + 1;
    uint64_t cut =
        prng_below(p, span) + 1; /* a part of a part: the mean is a quarter of the span */
    return from + (usec_t)prng_below(p, cut);
}
