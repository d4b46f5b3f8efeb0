/* audience.c - the streams that match a group; groups that the same streams match share one.
 *
 * Workers of one kind register the same names, so thousands of names have few audiences. That an audience's streams lack room is
 * found once, and ends once, for all of its groups: a turn costs the same however many names wait.
 *
 *   hub.runnable[kind]: audiences that have something ready and may have room, by their oldest item
 *   audience.waiting:   its groups that have something ready, by their oldest item
 *
 * No two audiences of a hub and kind have the same streams: opening a stream splits those of which it matches a part, closing
 * one joins what has become equal.
 */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static uint64_t group_order(const struct heap_node *n)
{
    const struct heap_node *oldest = heap_min(&CONTAINER_OF(n, struct group, waiting)->ready);
    return CONTAINER_OF(oldest, struct work, ready)->order;
}

static bool group_less(const struct heap_node *a, const struct heap_node *b)
{
    return group_order(a) < group_order(b);
}

bool audience_less(const struct heap_node *a, const struct heap_node *b)
{
    return group_less(heap_min(&CONTAINER_OF(a, struct audience, runnable)->waiting),
                      heap_min(&CONTAINER_OF(b, struct audience, runnable)->waiting));
}

/* ---- placing ------------------------------------------------------------------------------------------ */

static void unplace(struct audience *a)
{
    if (heap_has(&a->runnable))
        heap_remove(&a->hub->runnable[a->kind], &a->runnable);
}

static void place(struct engine *e, struct audience *a)
{
    if (heap_has(&a->runnable) || a->blocked || a->waiting.count == 0 || a->stream_count == 0)
        return;
    heap_push(&a->hub->runnable[a->kind], &a->runnable);
    if (!list_is_linked(&a->hub->active))
        list_push_back(&e->active_hubs, &a->hub->active);
}

void group_unplace(struct group *g)
{
    unplace(g->audience);
    if (heap_has(&g->waiting))
        heap_remove(&g->audience->waiting, &g->waiting);
}

void group_place(struct engine *e, struct group *g)
{
    if (!heap_has(&g->waiting) && g->ready.count > 0)
        heap_push(&g->audience->waiting, &g->waiting);
    place(e, g->audience);
}

bool audience_has_room(struct engine *e, struct audience *a)
{
    for (size_t i = 0; i < a->stream_count; i++)
        if (stream_has_room(e, a->streams[i], a->kind))
            return true;
    a->blocked = true; /* each of them is marked as full: audience_look_again() comes */
    unplace(a);
    return false;
}

/* ---- making and joining ------------------------------------------------------------------------------- */

static bool has_streams(const struct audience *a, struct work_stream *const *streams, size_t count)
{
    return a->stream_count == count &&
           (count == 0 || memcmp(a->streams, streams, count * sizeof(a->streams[0])) == 0);
}

static struct audience *find(struct hub *hub, uint8_t kind, struct work_stream *const *streams,
                             size_t count, const struct audience *but)
{
    LIST_FOR_EACH (&hub->audiences, n) {
        struct audience *a = LIST_ENTRY(n, struct audience, link);
        if (a != but && a->kind == kind && has_streams(a, streams, count))
            return a;
    }
    return NULL;
}

static void add_stream(struct audience *a, struct work_stream *st)
{
    if (a->stream_count == a->stream_cap) {
        a->stream_cap = a->stream_cap ? a->stream_cap * 2 : 4;
        a->streams = realloc(a->streams, a->stream_cap * sizeof(*a->streams));
        ASSERT(a->streams);
    }
    a->streams[a->stream_count++] = st;
}

/* In front of the others: a walk over them that is under way does not meet it. */
static struct audience *make(struct hub *hub, uint8_t kind, struct work_stream *const *streams,
                             size_t count)
{
    struct audience *a = calloc(1, sizeof(*a));
    ASSERT(a);
    a->hub = hub;
    a->kind = kind;
    list_init(&a->members);
    heap_init(&a->waiting, group_less);
    for (size_t i = 0; i < count; i++)
        add_stream(a, streams[i]);
    list_push_front(&hub->audiences, &a->link);
    return a;
}

void audience_free(struct audience *a)
{
    ASSERT(a->member_count == 0 && !heap_has(&a->runnable));
    list_remove(&a->link);
    heap_deinit(&a->waiting);
    free(a->streams);
    free(a);
}

static void enter(struct audience *a, struct group *g)
{
    g->audience = a;
    list_push_back(&a->members, &g->member);
    a->member_count++;
    a->paused_for_room += g->paused_for_room;
}

void audience_leave(struct group *g)
{
    struct audience *a = g->audience;
    group_unplace(g);
    list_remove(&g->member);
    a->member_count--;
    a->paused_for_room -= g->paused_for_room;
    g->audience = NULL;
}

static void move_group(struct engine *e, struct group *g, struct audience *to)
{
    struct audience *from = g->audience;
    audience_leave(g);
    place(e, from);
    enter(to, g);
    group_place(e, g);
}

void audience_enter(struct group *g)
{
    struct hub *hub = g->hub;
    struct audience key = {0};
    LIST_FOR_EACH (&hub->streams, n) {
        struct work_stream *st = LIST_ENTRY(n, struct work_stream, link);
        if (stream_matches(st, g))
            add_stream(&key, st);
    }
    struct audience *a = find(hub, g->kind, key.streams, key.stream_count, NULL);
    enter(a ? a : make(hub, g->kind, key.streams, key.stream_count), g);
    free(key.streams);
}

/* ---- streams come and go ------------------------------------------------------------------------------ */

static void wake_paused(struct engine *e, struct group *g, bool all)
{
    LIST_FOR_EACH (&g->paused, n) {
        struct work *w = LIST_ENTRY(n, struct work, link);
        if (all || w->waits_for_room)
            work_make_ready(e, w);
    }
}

static size_t count_matches(const struct audience *a, const struct work_stream *st)
{
    size_t count = 0;
    LIST_FOR_EACH (&a->members, n)
        count += stream_matches(st, LIST_ENTRY(n, struct group, member));
    return count;
}

/* Those of its groups that the stream matches get an audience of their own. */
static struct audience *split(struct engine *e, struct audience *a, const struct work_stream *st)
{
    struct audience *part = make(a->hub, a->kind, a->streams, a->stream_count);
    LIST_FOR_EACH (&a->members, n) {
        struct group *g = LIST_ENTRY(n, struct group, member);
        if (stream_matches(st, g))
            move_group(e, g, part);
    }
    return part;
}

void audience_stream_opened(struct engine *e, struct work_stream *st)
{
    LIST_FOR_EACH (&st->hub->audiences, n) {
        struct audience *a = LIST_ENTRY(n, struct audience, link);
        size_t matches = count_matches(a, st);
        if (matches == 0)
            continue;
        if (matches < a->member_count)
            a = split(e, a, st);
        add_stream(a, st);
        a->blocked = false;
        place(e, a);
        LIST_FOR_EACH (&a->members, m)
            wake_paused(e, LIST_ENTRY(m, struct group, member), true);
    }
}

static bool has_stream(const struct audience *a, const struct work_stream *st, size_t *at)
{
    for (*at = 0; *at < a->stream_count; ++*at)
        if (a->streams[*at] == st)
            return true;
    return false;
}

static void join(struct engine *e, struct audience *a, struct audience *twin)
{
    twin->blocked = twin->blocked && a->blocked;
    LIST_FOR_EACH (&a->members, n)
        move_group(e, LIST_ENTRY(n, struct group, member), twin);
    place(e, twin);
    audience_free(a);
}

void audience_stream_closed(struct engine *e, struct work_stream *st)
{
    LIST_FOR_EACH (&st->hub->audiences, n) {
        struct audience *a = LIST_ENTRY(n, struct audience, link);
        size_t at;
        if (!has_stream(a, st, &at))
            continue;
        memmove(&a->streams[at], &a->streams[at + 1],
                (a->stream_count - at - 1) * sizeof(a->streams[0]));
        if (--a->stream_count == 0)
            unplace(a);
        struct audience *twin = find(a->hub, a->kind, a->streams, a->stream_count, a);
        if (twin)
            join(e, a, twin);
    }
}

void audience_look_again(struct engine *e, const struct work_stream *st, uint8_t kind)
{
    LIST_FOR_EACH (&st->hub->audiences, n) {
        struct audience *a = LIST_ENTRY(n, struct audience, link);
        size_t at;
        if (a->kind != kind || (!a->blocked && a->paused_for_room == 0) || !has_stream(a, st, &at))
            continue;
        a->blocked = false;
        place(e, a);
        if (a->paused_for_room == 0)
            continue;
        LIST_FOR_EACH (&a->members, m)
            wake_paused(e, LIST_ENTRY(m, struct group, member), false);
    }
}
