/* stream.c - the open calls of workers: what they match, how much room they have, their pings. */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"

static bool same_id(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct work_stream, by_id)->opts.id == *(const uint64_t *)key;
}

static struct work_stream *stream_find(const struct engine *e, uint64_t id)
{
    struct hash_node *n = hashmap_find(&e->streams, hash_u64(id), same_id, &id);
    return n ? CONTAINER_OF(n, struct work_stream, by_id) : NULL;
}

bool stream_less_ping(const struct heap_node *a, const struct heap_node *b)
{
    const struct work_stream *x = CONTAINER_OF(a, struct work_stream, ping);
    const struct work_stream *y = CONTAINER_OF(b, struct work_stream, ping);
    return x->ping_at != y->ping_at ? x->ping_at < y->ping_at : x->opts.id < y->opts.id;
}

static bool filter_has_version(const struct work_filter *f, struct bytes version)
{
    for (size_t i = 0; i < f->version_count; i++)
        if (bytes_eq(f->versions[i], version))
            return true;
    return false;
}

/* Entries of one name are joined; one without versions does not widen another's list (spec 8.3). */
bool stream_matches(const struct work_stream *st, const struct group *g)
{
    if (!st->opts.filtered)
        return true;
    bool named = false, restricted = false;
    for (size_t i = 0; i < st->opts.filter_count[g->kind]; i++) {
        const struct work_filter *f = &st->opts.filters[g->kind][i];
        if (!bytes_eq(f->name, bytes_of(g->name, g->name_len)))
            continue;
        named = true;
        if (f->version_count > 0) {
            restricted = true;
            if (filter_has_version(f, bytes_of(g->version, g->version_len)))
                return true;
        }
    }
    return named && !restricted;
}

bool stream_has_room(struct engine *e, struct work_stream *st, uint8_t kind)
{
    const struct work_stream_options *o = &st->opts;
    uint32_t total = 0;
    for (unsigned k = 1; k < WORK_KINDS; k++)
        total += st->unsettled[k];
    bool room = (!o->capacity[kind] || st->unsettled[kind] < o->capacity[kind]) &&
                (!o->capacity_total || total < o->capacity_total) &&
                st->sink.unsent(st->sink.arg) < e->settings->stream_unsent_bytes;
    if (!room)
        st->full[kind] = true;
    return room;
}

/* Groups that had found no room, and items that waited for another worker, look again. */
void stream_gained_room(struct engine *e, struct work_stream *st, uint8_t kind)
{
    if (!st->full[kind])
        return;
    st->full[kind] = false;
    audience_look_again(e, st, kind);
}

static void copy_options(struct work_stream *st, const struct work_stream_options *o)
{
    struct arena *a = st->arena = arena_create();
    st->opts = *o;
    struct bytes *views[] = {
        &st->opts.hub,       &st->opts.worker,     &st->opts.worker_instance_id,
        &st->opts.worker_id, &st->opts.user_agent, &st->opts.x_user_agent,
        &st->opts.peer};
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        *views[i] = arena_dup(a, *views[i]);
    for (unsigned k = 1; k < WORK_KINDS; k++) {
        struct work_filter *copy = arena_array(a, struct work_filter, o->filter_count[k]);
        for (size_t i = 0; i < o->filter_count[k]; i++) {
            const struct work_filter *f = &o->filters[k][i];
            struct bytes *versions = arena_array(a, struct bytes, f->version_count);
            for (size_t v = 0; v < f->version_count; v++)
                versions[v] = arena_dup(a, f->versions[v]);
            copy[i] = (struct work_filter){arena_dup(a, f->name), versions, f->version_count};
        }
        st->opts.filters[k] = copy;
    }
}

static enum err hub_must_exist(struct engine *e, struct bytes name, struct error *err)
{
    struct hub *h = hub_by_name(e, name, false);
    if (e->settings->hub_auto_create || (h && h->id))
        return OK;
    if (!e->is_healthy)
        return error_set(err, ERR_UNAVAILABLE,
                         "the store cannot be read now; connect again in a moment");
    return error_set(err, ERR_NOT_FOUND, "Task hub '%.*s' not found", BYTES_FMT(name));
}

enum err work_stream_open(struct engine *e, const struct work_stream_options *opts,
                          const struct work_sink *sink, struct error *err)
{
    enum err rc = hub_must_exist(e, opts->hub, err);
    if (rc)
        return rc;
    if (e->draining)
        return error_set(err, ERR_UNAVAILABLE, "the server is stopping; connect again in a moment");
    struct work_stream *st = calloc(1, sizeof(*st));
    ASSERT(st);
    copy_options(st, opts);
    st->sink = *sink;
    st->hub = hub_by_name(e, opts->hub, true);
    st->worker_hash = bytes_hash(opts->worker) | 1;
    st->connected = clock_wall(e->clock);
    list_init(&st->flight);
    list_push_back(&st->hub->streams, &st->link);
    list_push_back(&e->stream_list, &st->all);
    hashmap_insert(&e->streams, &st->by_id, hash_u64(st->opts.id));
    st->ping_at = usec_add(clock_monotonic(e->clock), (usec_t)e->settings->ping_interval);
    heap_push(&e->pings, &st->ping);
    audience_stream_opened(e, st);
    return OK;
}

static void stream_free(struct engine *e, struct work_stream *st)
{
    list_remove(&st->link);
    list_remove(&st->all);
    hashmap_remove(&e->streams, &st->by_id);
    heap_remove(&e->pings, &st->ping);
    audience_stream_closed(e, st);
    usec_t held = usec_add(e->now, (usec_t)e->settings->tokenless_redelivery);
    LIST_FOR_EACH (&st->flight, n) {
        struct work *w = LIST_ENTRY(n, struct work, link);
        e->stats.redelivered_lost++;
        if (w->tokenless_key)
            tokenless_lost(e, w->tokenless_key, st->opts.connection);
        /* A token-less worker's running turn may still answer on its next connection (spec 8.2). */
        work_give_back(e, w, st->opts.token_less && w->kind == WORK_TURN ? held : 0);
    }
    struct hub *hub = st->hub;
    arena_free(st->arena);
    free(st);
    hub_forget_unused(e, hub);
}

void work_stream_end(struct engine *e, uint64_t id)
{
    struct work_stream *st = stream_find(e, id);
    if (!st)
        return;
    struct work_sink sink = st->sink;
    e->now = clock_monotonic(e->clock);
    stream_free(e, st);
    sink.end(sink.arg, OK, "");
}

void work_stream_writable(struct engine *e, uint64_t id)
{
    struct work_stream *st = stream_find(e, id);
    if (!st)
        return;
    for (uint8_t k = 1; k < WORK_KINDS; k++)
        stream_gained_room(e, st, k);
}

void work_connection_has_tokens(struct engine *e, uint64_t connection)
{
    LIST_FOR_EACH (&e->stream_list, n) {
        struct work_stream *st = LIST_ENTRY(n, struct work_stream, all);
        if (st->opts.connection == connection)
            st->opts.token_less = false;
    }
}

void stream_end_all(struct engine *e, enum err status, const char *message)
{
    LIST_FOR_EACH (&e->stream_list, n) {
        struct work_stream *st = LIST_ENTRY(n, struct work_stream, all);
        struct work_sink sink = st->sink;
        stream_free(e, st);
        sink.end(sink.arg, status, message);
    }
}

void stream_sent(struct engine *e, struct work_stream *st)
{
    st->ping_at = usec_add(e->now, (usec_t)e->settings->ping_interval);
    heap_remove(&e->pings, &st->ping);
    heap_push(&e->pings, &st->ping);
}

void stream_pings(struct engine *e)
{
    for (struct heap_node *n; (n = heap_min(&e->pings));) {
        struct work_stream *st = CONTAINER_OF(n, struct work_stream, ping);
        if (st->ping_at > e->now)
            return;
        if (st->sink.unsent(st->sink.arg) < e->settings->stream_unsent_bytes)
            st->sink.send(st->sink.arg, e->front->ping_build());
        stream_sent(e, st);
    }
}

void work_streams_each(struct engine *e, work_stream_fn *fn, void *arg)
{
    LIST_FOR_EACH (&e->stream_list, n) {
        struct work_stream *st = LIST_ENTRY(n, struct work_stream, all);
        fn(arg, &st->opts, st->connected, st->unsettled);
    }
}
