/* dispatch.c - ready work to streams: groups, order, choice of the worker, time-outs.
 *
 *   READY --dispatch--> FLIGHT --settled (work_end)--> gone
 *     ^                   |
 *     |    stream lost, abandoned, timed out
 *     +------- PAUSED <---+      PAUSED: no worker may have it before `until`
 *
 * Within a hub and kind the oldest ready item goes first; kinds, hubs and streams take turns. Groups without a stream
 * that has room are blocked, and cost nothing until one has (audience.c).
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"

#define DISPATCH_BUDGET 2000
#define BACKOFF_FIRST USEC_PER_SEC

/* ---- hubs and groups ---------------------------------------------------------------------------- */

static bool hub_has_id(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct hub, by_id)->id == *(const uint32_t *)key;
}

static bool hub_has_name(const struct hash_node *n, const void *key)
{
    const struct hub *h = CONTAINER_OF(n, struct hub, by_name);
    return bytes_eq(bytes_str(h->name), *(const struct bytes *)key);
}

struct hub *hub_by_id(struct engine *e, uint32_t id)
{
    struct hash_node *n = hashmap_find(&e->hubs_by_id, hash_u64(id), hub_has_id, &id);
    return n ? CONTAINER_OF(n, struct hub, by_id) : NULL;
}

void hub_set_id(struct engine *e, struct hub *h, uint32_t id)
{
    if (h->id == id)
        return;
    if (h->id)
        hashmap_remove(&e->hubs_by_id, &h->by_id);
    h->id = id;
    if (id)
        hashmap_insert(&e->hubs_by_id, &h->by_id, hash_u64(id));
}

struct hub *hub_by_name(struct engine *e, struct bytes name, bool create)
{
    uint64_t hash = bytes_hash(name);
    struct hash_node *found = hashmap_find(&e->hubs_by_name, hash, hub_has_name, &name);
    if (found)
        return CONTAINER_OF(found, struct hub, by_name);
    if (!create)
        return NULL;
    struct hub *h = calloc(1, sizeof(*h));
    ASSERT(h);
    h->name = malloc(name.len + 1);
    ASSERT(h->name);
    memcpy(h->name, name.ptr, name.len);
    h->name[name.len] = 0;
    list_init(&h->streams);
    list_init(&h->groups);
    list_init(&h->audiences);
    for (unsigned k = 1; k < WORK_KINDS; k++)
        heap_init(&h->runnable[k], audience_less);
    list_push_back(&e->hubs, &h->link);
    hashmap_insert(&e->hubs_by_name, &h->by_name, hash);
    return h;
}

static void hub_free(struct engine *e, struct hub *h)
{
    hub_set_id(e, h, 0);
    hashmap_remove(&e->hubs_by_name, &h->by_name);
    list_remove(&h->link);
    if (list_is_linked(&h->active))
        list_remove(&h->active);
    for (unsigned k = 1; k < WORK_KINDS; k++)
        heap_deinit(&h->runnable[k]);
    free(h->name);
    free(h);
}

void hub_forget_unused(struct engine *e, struct hub *h)
{
    if (!h->id && h->waiters == 0 && list_is_empty(&h->streams) && list_is_empty(&h->groups))
        hub_free(e, h);
}

struct group_key {
    const struct hub *hub;
    uint8_t kind;
    struct bytes name, version;
};

static bool same_group(const struct hash_node *n, const void *key)
{
    const struct group_key *k = key;
    const struct group *g = CONTAINER_OF(n, struct group, by_name);
    return g->hub == k->hub && g->kind == k->kind &&
           bytes_eq(bytes_of(g->name, g->name_len), k->name) &&
           bytes_eq(bytes_of(g->version, g->version_len), k->version);
}

static char *dup(struct bytes b)
{
    char *p = malloc(b.len + 1);
    ASSERT(p);
    if (b.len)
        memcpy(p, b.ptr, b.len);
    p[b.len] = 0;
    return p;
}

struct group *group_get(struct engine *e, struct hub *hub, uint8_t kind, struct bytes name,
                        struct bytes version)
{
    struct group_key key = {hub, kind, name, version};
    uint64_t hash =
        bytes_hash(name) ^ hash_u64(bytes_hash(version) + kind) ^ (uint64_t)(uintptr_t)hub;
    struct hash_node *n = hashmap_find(&e->groups, hash, same_group, &key);
    if (n)
        return CONTAINER_OF(n, struct group, by_name);
    struct group *g = calloc(1, sizeof(*g));
    ASSERT(g);
    g->hub = hub;
    g->kind = kind;
    g->name = dup(name);
    g->name_len = name.len;
    g->version = dup(version);
    g->version_len = version.len;
    heap_init(&g->ready, work_less_order);
    list_init(&g->paused);
    hashmap_insert(&e->groups, &g->by_name, hash);
    list_push_back(&hub->groups, &g->link);
    audience_enter(g);
    return g;
}

void groups_forget_numbers(struct engine *e)
{
    HASHMAP_FOR_EACH (&e->groups, n)
        CONTAINER_OF(n, struct group, by_name)->number = 0;
    LIST_FOR_EACH (&e->hubs, n)
        hub_set_id(e, LIST_ENTRY(n, struct hub, link), 0);
}

/* ---- work records ---------------------------------------------------------------------------------- */

bool work_less_order(const struct heap_node *a, const struct heap_node *b)
{
    return CONTAINER_OF(a, struct work, ready)->order < CONTAINER_OF(b, struct work, ready)->order;
}

bool work_less_until(const struct heap_node *a, const struct heap_node *b)
{
    const struct work *x = CONTAINER_OF(a, struct work, timer),
                      *y = CONTAINER_OF(b, struct work, timer);
    return x->until != y->until ? x->until < y->until : x->order < y->order;
}

struct work_key {
    uint8_t kind;
    uint64_t key;
};

static bool same_work(const struct hash_node *n, const void *key)
{
    const struct work_key *k = key;
    const struct work *w = CONTAINER_OF(n, struct work, node);
    return w->kind == k->kind && w->key == k->key;
}

static uint64_t work_hash(uint8_t kind, uint64_t key)
{
    return hash_u64(key * 4 + kind);
}

struct work *work_find(const struct engine *e, uint8_t kind, uint64_t key)
{
    struct work_key k = {kind, key};
    struct hash_node *n = hashmap_find(&e->works, work_hash(kind, key), same_work, &k);
    return n ? CONTAINER_OF(n, struct work, node) : NULL;
}

struct work *work_add(struct engine *e, uint8_t kind, uint64_t key, uint64_t object,
                      struct group *g)
{
    if (g->in_memory >= e->settings->ready_group)
        return NULL;
    struct work *w = calloc(1, sizeof(*w));
    ASSERT(w);
    w->kind = kind;
    w->key = key;
    w->object = object;
    w->group = g;
    w->order = ++e->next_order;
    w->state = WORK_COMMAND;
    w->until = USEC_NEVER;
    g->in_memory++;
    hashmap_insert(&e->works, &w->node, work_hash(kind, key));
    return w;
}

void work_set_timer(struct engine *e, struct work *w, usec_t until)
{
    if (heap_has(&w->timer))
        heap_remove(&e->work_timers, &w->timer);
    w->until = until;
    if (until != USEC_NEVER)
        heap_push(&e->work_timers, &w->timer);
}

/* Takes the item out of whatever its state keeps it in. */
static void work_detach(struct engine *e, struct work *w)
{
    struct group *g = w->group;
    struct work_stream *st = w->stream;
    work_set_timer(e, w, USEC_NEVER);
    switch ((enum work_state)w->state) {
    case WORK_READY:
        group_unplace(g);
        heap_remove(&g->ready, &w->ready);
        group_place(e, g);
        e->ready[w->kind]--;
        break;
    case WORK_PAUSED:
        list_remove(&w->link);
        g->paused_for_room -= w->waits_for_room;
        g->audience->paused_for_room -= w->waits_for_room;
        e->paused--;
        break;
    case WORK_FLIGHT:
        list_remove(&w->link);
        w->stream = NULL;
        e->flight[w->kind]--;
        st->unsettled[w->kind]--;
        for (uint8_t k = 1; k < WORK_KINDS; k++)
            stream_gained_room(e, st, k);
        break;
    case WORK_COMMAND:
        break;
    }
    w->state = WORK_COMMAND;
}

static void turn_drop_chunks(struct turn *t)
{
    if (t->chunks)
        t->chunks_free(t->chunks);
    t->chunks = NULL;
}

void work_end(struct engine *e, struct work *w)
{
    work_detach(e, w);
    if (w->tokenless_key)
        tokenless_settled(e, w->tokenless_key, w->turn.execution, w->turn.row);
    turn_drop_chunks(&w->turn);
    w->group->in_memory--;
    recovery_want(e, w->group);
    hashmap_remove(&e->works, &w->node);
    free(w);
}

void work_make_ready(struct engine *e, struct work *w)
{
    struct group *g = w->group;
    if (w->state != WORK_COMMAND)
        work_detach(e, w);
    w->state = WORK_READY;
    e->ready[w->kind]++;
    group_unplace(g);
    heap_push(&g->ready, &w->ready);
    group_place(e, g);
}

/* Nobody may have it before `until` (USEC_NEVER: before something changes). */
static void work_pause(struct engine *e, struct work *w, usec_t until, bool for_room)
{
    work_detach(e, w);
    w->state = WORK_PAUSED;
    w->waits_for_room = for_room;
    w->group->paused_for_room += for_room;
    w->group->audience->paused_for_room += for_room;
    list_push_back(&w->group->paused, &w->link);
    e->paused++;
    work_set_timer(e, w, until);
}

void work_give_back(struct engine *e, struct work *w, usec_t hold_until)
{
    turn_drop_chunks(&w->turn);
    w->hold_until = MAX(w->hold_until, hold_until);
    if (!w->notify_return) {
        work_make_ready(e, w);
        return;
    }
    work_detach(e, w); /* the kind decides first: no step_turn_ready() before that brings it back */
    engine_pend(e, &(struct unit){.type = UNIT_RETURNED, .key = w->object});
}

/* ---- abandon ------------------------------------------------------------------------------------------ */

static usec_t next_backoff(const struct engine *e, usec_t backoff)
{
    usec_t max = (usec_t)e->settings->abandon_backoff_max;
    return MIN(backoff ? backoff * 2 : BACKOFF_FIRST, max);
}

static bool is_shunned(const struct work *w, const struct work_stream *st)
{
    for (unsigned i = 0; i < w->shunned_count; i++)
        if (w->shunned[i] == st->opts.id)
            return true;
    return false;
}

bool work_abandon(struct engine *e, const struct item_ref *item)
{
    struct work *w = work_find(e, item->kind, item->key);
    if (!w || w->nonce != item->nonce || w->state != WORK_FLIGHT)
        return false;
    e->now = clock_monotonic(e->clock);
    e->stats.redelivered_abandon++;
    w->backoff = next_backoff(e, w->backoff);
    if (w->shun_until <= e->now)
        w->shunned_count = 0;
    w->shun_until = usec_add(e->now, w->backoff);
    bool is_new = !is_shunned(w, w->stream), is_full = w->shunned_count == WORK_SHUNNED_MAX;
    if (is_new && !is_full)
        w->shunned[w->shunned_count++] = w->stream->opts.id;
    /* Given back by more streams than are remembered: nobody gets it before that. */
    work_give_back(e, w, is_new && is_full ? w->shun_until : 0);
    return true;
}

/* By the hub's name: while the store is away its number is not known. */
bool work_abandon_in(struct engine *e, struct bytes hub, const struct item_ref *item)
{
    const struct work *w = work_find(e, item->kind, item->key);
    return w && bytes_eq(bytes_str(w->group->hub->name), hub) && work_abandon(e, item);
}

/* ---- choosing a stream -------------------------------------------------------------------------------------- */

struct choice {
    struct work_stream *stream;
    bool allowed_is_full; /* one that may have this very item is full */
    usec_t until;         /* when one with room may have it */
};

static bool may_have(struct engine *e, const struct work *w, const struct work_stream *st,
                     usec_t *until)
{
    if (w->hold_until > e->now) {
        *until = MIN(*until, w->hold_until);
        return false;
    }
    if (w->shun_until > e->now && is_shunned(w, st)) {
        *until = MIN(*until, w->shun_until);
        return false;
    }
    if (st->opts.token_less && w->kind == WORK_TURN && w->tokenless_key)
        return tokenless_may_dispatch(e, w->tokenless_key, st->opts.connection, until);
    return true;
}

/* More room first (no limit: fewest unsettled), then the one that waited longest. */
static bool better(const struct work_stream *a, const struct work_stream *b, uint8_t kind)
{
    int64_t room_a =
        (a->opts.capacity[kind] ? (int64_t)a->opts.capacity[kind] : INT32_MAX) - a->unsettled[kind];
    int64_t room_b =
        (b->opts.capacity[kind] ? (int64_t)b->opts.capacity[kind] : INT32_MAX) - b->unsettled[kind];
    return room_a != room_b ? room_a > room_b : a->last_used < b->last_used;
}

static void choose(struct engine *e, const struct work *w, uint64_t sticky, struct choice *c)
{
    const struct audience *a = w->group->audience;
    *c = (struct choice){.until = USEC_NEVER};
    for (size_t i = 0; i < a->stream_count; i++) {
        struct work_stream *st = a->streams[i];
        usec_t until = USEC_NEVER;
        bool allowed = may_have(e, w, st, &until);
        if (!stream_has_room(e, st, a->kind)) {
            c->allowed_is_full = c->allowed_is_full || allowed;
            continue;
        }
        c->until = MIN(c->until, until);
        if (!allowed)
            continue;
        if (sticky && st->worker_hash == sticky) {
            c->stream = st;
            return;
        }
        if (!c->stream || better(st, c->stream, a->kind))
            c->stream = st;
    }
}

static uint64_t work_answer_hash(uint8_t kind, struct bytes id, int64_t ref)
{
    return bytes_hash(id) ^ hash_u64(((uint64_t)ref << 8) + kind);
}

static struct work *find_answered(struct work_stream *st, uint8_t kind, uint64_t hash)
{
    LIST_FOR_EACH (&st->flight, n) {
        struct work *w = LIST_ENTRY(n, struct work, link);
        if (w->kind == kind && w->answer_hash == hash)
            return w;
    }
    return NULL;
}

struct item_ref work_answered(struct engine *e, const struct command *cmd, uint8_t kind,
                              struct bytes id, int64_t ref)
{
    uint64_t hash = work_answer_hash(kind, id, ref);
    struct hub *hub = hub_by_name(e, cmd->hub, false);
    struct work *found = NULL;
    for (struct list_node *n = hub ? hub->streams.head.next : NULL; n && n != &hub->streams.head;
         n = n->next) {
        struct work_stream *st = LIST_ENTRY(n, struct work_stream, link);
        bool same = st->opts.connection == cmd->connection;
        struct work *w =
            st->opts.token_less && (same || !found) ? find_answered(st, kind, hash) : NULL;
        if (w)
            found = w;
        if (w && same)
            break;
    }
    if (!found)
        return (struct item_ref){0};
    if (found->tokenless_key)
        tokenless_lost(e, found->tokenless_key, found->stream->opts.connection);
    return (struct item_ref){kind, found->key, found->nonce};
}

/* What the item's token said. ERR_NOT_FOUND: its row is gone. */
static enum err token_again(struct engine *e, const struct work *w, struct token *t,
                            struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_task row;
    memset(t, 0, sizeof(*t));
    t->kind = w->kind;
    t->hub = w->group->hub->id;
    t->object = w->object;
    t->nonce = w->nonce;
    if (w->kind == WORK_TURN) {
        t->execution = w->turn.execution;
        t->key = w->turn.row;
        return OK;
    }
    enum err rc = store_task_get(e->reader, w->group->number, w->key, &row, &buf, err);
    if (rc)
        return rc;
    t->execution = row.execution;
    t->key = row.key;
    t->group = row.group;
    t->ref = (int32_t)row.ref;
    return OK;
}

void work_items_of_connection(struct engine *e, uint64_t connection, work_item_fn *fn, void *arg)
{
    LIST_FOR_EACH (&e->stream_list, s) {
        struct work_stream *st = LIST_ENTRY(s, struct work_stream, all);
        if (st->opts.connection != connection)
            continue;
        LIST_FOR_EACH (&st->flight, n) {
            struct work *w = LIST_ENTRY(n, struct work, link);
            struct error ignored; /* what cannot be read now comes again when the stream ends */
            struct token t;
            char text[TOKEN_TEXT_MAX];
            if (w->tokenless_key)
                tokenless_lost(e, w->tokenless_key, connection);
            if (!token_again(e, w, &t, &ignored))
                fn(arg, w->kind, bytes_str(st->hub->name),
                   bytes_of(text, token_encode(e->tokens, &t, text)));
        }
    }
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

enum sent { SENT, SENT_NOT, SENT_ASKED }; /* ASKED: an internal command decides first */

static size_t make_token(struct engine *e, struct work *w, const struct object *o,
                         const struct store_task *t, char text[TOKEN_TEXT_MAX])
{
    do
        w->nonce = prng_u64(e->prng);
    while (w->nonce == 0);
    struct token token;
    memset(&token, 0, sizeof(token));
    token.kind = w->kind;
    token.hub = w->group->hub->id;
    token.object = w->object;
    token.nonce = w->nonce;
    if (t) {
        token.execution = t->execution;
        token.key = t->key;
        token.group = t->group;
        token.ref = (int32_t)t->ref;
    } else {
        token.execution = o->row.execution;
        token.key = o->row.history_rows + 1;
    }
    return token_encode(e->tokens, &token, text);
}

static void fly(struct engine *e, struct work *w, struct work_stream *st, void *item)
{
    w->state = WORK_FLIGHT;
    w->stream = st;
    list_push_back(&st->flight, &w->link);
    st->unsettled[w->kind]++;
    st->last_used = ++e->next_use;
    e->flight[w->kind]++;
    usec_t timeout =
        (usec_t)(w->kind == WORK_TURN ? e->settings->turn_timeout : e->settings->activity_timeout);
    work_set_timer(e, w, timeout ? usec_add(e->now, timeout) : USEC_NEVER);
    st->sink.send(st->sink.arg, item);
    stream_sent(e, st);
}

static enum sent send_turn(struct engine *e, struct work *w, struct work_stream *st,
                           struct object *o, struct step *s, struct error *err)
{
    bool first = w->turn.row != o->row.history_rows + 1 || w->turn.execution != o->row.execution;
    turn_drop_chunks(
        &w->turn); /* of an earlier dispatch, also if they came when its stream had ended */
    if (first)
        memset(&w->turn, 0, sizeof(w->turn));
    bool exact = w->recovered || st->opts.token_less || w->turn.exact;
    if (exact && first && !w->recovered &&
        o->kind->turn_is_stale(o, e->wall, (usec_t)e->settings->tokenless_redelivery)) {
        work_detach(e, w);
        engine_pend(e, &(struct unit){.type = UNIT_RECUT, .key = w->object});
        return SENT_ASKED;
    }
    char text[TOKEN_TEXT_MAX];
    size_t len = make_token(e, w, o, NULL, text);
    struct turn turn = w->turn;
    void *item;
    size_t item_bytes;
    if (o->kind->turn_build(s, o, w, exact, bytes_of(text, len), &turn, &item, &item_bytes, err))
        return SENT_NOT;
    work_detach(e, w);
    w->turn = turn;
    w->turn.exact = exact;
    if (st->opts.token_less) {
        w->tokenless_key = tokenless_key(w->group->hub, o->row.id);
        w->answer_hash = work_answer_hash(WORK_TURN, o->row.id, 0);
        tokenless_dispatched(e, w->tokenless_key, st->opts.connection, turn.execution, turn.row);
    }
    o->last_worker = st->worker_hash;
    fly(e, w, st, item);
    return SENT;
}

static enum sent send_task(struct engine *e, struct work *w, struct work_stream *st, struct step *s,
                           struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_task t;
    if (store_task_get(e->reader, w->group->number, w->key, &t, &buf, err))
        return SENT_NOT;
    if (st->opts.token_less)
        w->answer_hash = work_answer_hash(WORK_TASK, e->front->task_instance(&t), t.ref);
    if (w->nonce || w->recovered) { /* handed out before: much may have happened since */
        struct object *o;
        enum err rc = object_by_key(s, t.object, &o, err);
        bool is_orphan = rc == ERR_NOT_FOUND;
        if (is_orphan || (rc == OK && !o->kind->task_may_go(o, &t))) {
            if (is_orphan)
                engine_orphan(e, "activity", t.object);
            work_detach(e, w);
            engine_pend(e, &(struct unit){.type = UNIT_DROP, .key = w->key, .group = t.group});
            return SENT_ASKED;
        }
    }
    char text[TOKEN_TEXT_MAX];
    size_t len = make_token(e, w, NULL, &t, text);
    void *item;
    size_t item_bytes;
    if (e->front->task_build(s, &t, bytes_of(text, len), &item, &item_bytes, err))
        return SENT_NOT;
    work_detach(e, w);
    fly(e, w, st, item);
    return SENT;
}

/* A damaged row must not stop the others: it is looked at again after a while. False: the store is away, all must wait. */
static bool work_set_aside(struct engine *e, struct work *w, struct error *err)
{
    if (store_is_failed(e->store))
        return false;
    if (err->code == ERR_NOT_FOUND) {
        work_end(e, w);
        return true;
    }
    struct error logged = *err;
    log_error(LOG_ERROR, "engine: cannot make a work item", &logged);
    w->backoff = next_backoff(e, w->backoff);
    w->hold_until = usec_add(e->now, w->backoff);
    work_pause(e, w, w->hold_until, false);
    return true;
}

/* Offers the oldest item of the audience's groups. False: the audience is out of the running for now. */
static bool audience_dispatch(struct engine *e, struct audience *a)
{
    if (!audience_has_room(e, a))
        return false;
    struct group *g = CONTAINER_OF(heap_min(&a->waiting), struct group, waiting);
    struct work *w = CONTAINER_OF(heap_min(&g->ready), struct work, ready);
    struct object *o = NULL;
    struct step s;
    struct error err = {0};
    step_init(e, &s);
    enum err rc = OK;
    if (w->kind == WORK_TURN) {
        rc = object_by_key(&s, w->object, &o, &err);
        if (rc) {
            if (rc == ERR_NOT_FOUND) /* its inbox is still there */
                engine_pend(e, &(struct unit){.type = UNIT_CHECK, .key = w->object});
            err.code = rc;
            return work_set_aside(e, w, &err);
        }
    }
    if (o && !o->kind->turn_may_go(o)) {
        work_pause(e, w, USEC_NEVER, false);
        return true;
    }
    if (o && e->tokenless.count > 0)
        w->tokenless_key = tokenless_key(g->hub, o->row.id);
    struct choice c;
    choose(e, w, o ? o->last_worker : 0, &c);
    if (!c.stream) {
        work_pause(e, w, c.until, c.allowed_is_full);
        return true;
    }
    enum sent sent =
        o ? send_turn(e, w, c.stream, o, &s, &err) : send_task(e, w, c.stream, &s, &err);
    return sent == SENT_NOT ? work_set_aside(e, w, &err) : true;
}

/* One item of one kind of this hub; kinds take turns. */
static bool hub_dispatch(struct engine *e, struct hub *h)
{
    for (unsigned i = 1; i < WORK_KINDS; i++) {
        unsigned kind = 1 + (h->next_kind + i) % (WORK_KINDS - 1);
        for (struct heap_node *n; (n = heap_min(&h->runnable[kind]));) {
            if (store_is_failed(e->store))
                return false;
            if (audience_dispatch(e, CONTAINER_OF(n, struct audience, runnable))) {
                h->next_kind = kind - 1;
                return true;
            }
        }
    }
    return false;
}

bool dispatch_run(struct engine *e)
{
    if (e->draining || !e->is_healthy)
        return false;
    arena_reset(e->arena);
    size_t sent = 0;
    bool progress = true;
    while (progress && sent < DISPATCH_BUDGET) {
        progress = false;
        LIST_FOR_EACH (&e->active_hubs, n) {
            if (!hub_dispatch(e, LIST_ENTRY(n, struct hub, active))) {
                if (!store_is_failed(e->store))
                    list_remove(n); /* nothing to hand out now; group_place() links it again */
                continue;
            }
            progress = true;
            if (++sent % 64 == 0) {
                arena_reset(e->arena);
                cache_trim(e);
            }
        }
    }
    return progress;
}

/* ---- time ---------------------------------------------------------------------------------------------------------- */

void dispatch_timeouts(struct engine *e)
{
    for (struct heap_node *n; (n = heap_min(&e->work_timers));) {
        struct work *w = CONTAINER_OF(n, struct work, timer);
        if (w->until > e->now)
            return;
        if (w->state == WORK_PAUSED) {
            work_make_ready(e, w);
            continue;
        }
        ASSERT(w->state == WORK_FLIGHT);
        e->stats.redelivered_timeout++;
        /* Preferably elsewhere: who had it shuns it for a moment. */
        w->shunned[0] = w->stream->opts.id;
        w->shunned_count = 1;
        w->shun_until = w->group->audience->stream_count > 1 ? usec_add(e->now, USEC_PER_SEC) : 0;
        work_give_back(e, w, 0);
    }
}

usec_t dispatch_next(const struct engine *e)
{
    usec_t next = USEC_NEVER;
    const struct heap_node *n = heap_min(&e->work_timers);
    if (n)
        next = CONTAINER_OF(n, struct work, timer)->until;
    if ((n = heap_min(&e->pings)))
        next = MIN(next, CONTAINER_OF(n, struct work_stream, ping)->ping_at);
    return MIN(next, tokenless_next(e));
}

void dispatch_free(struct engine *e)
{
    stream_end_all(e, ERR_UNAVAILABLE, "the server is stopping");
    HASHMAP_FOR_EACH (&e->works, n)
        work_end(e, CONTAINER_OF(n, struct work, node));
    hashmap_deinit(&e->works);
    tokenless_free(e);
    LIST_FOR_EACH (&e->hubs, h) {
        struct hub *hub = LIST_ENTRY(h, struct hub, link);
        LIST_FOR_EACH (&hub->groups, n) {
            struct group *g = LIST_ENTRY(n, struct group, link);
            audience_leave(g);
            heap_deinit(&g->ready);
            free(g->name);
            free(g->version);
            free(g);
        }
        LIST_FOR_EACH (&hub->audiences, n)
            audience_free(LIST_ENTRY(n, struct audience, link));
        hub_free(e, hub);
    }
    hashmap_deinit(&e->hubs_by_name);
    hashmap_deinit(&e->hubs_by_id);
    hashmap_deinit(&e->groups);
    hashmap_deinit(&e->streams);
    heap_deinit(&e->work_timers);
    heap_deinit(&e->pings);
}
