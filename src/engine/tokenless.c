/* tokenless.c - workers that send no completion tokens (Go, Java): which answer belongs to which dispatch (spec 8.2).
 *
 * For each instance that is out on such a worker there is a record: the dispatches not answered yet, and a time before
 * which the next turn stays off token-less streams. Keyed by hub and id, not by object: an instance that replaces
 * another under its id can still be hit by the old one's answers. Memory only: after a restart every turn that
 * was ready counts as having been out (struct work.recovered).
 * Tests: tests/unit/test_tokenless.c
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

/* How long an answer to a dispatch that another one overtook is still told apart. */
#define LATE_ANSWERS (600 * USEC_PER_SEC)

struct dispatch_out {
    uint64_t connection, execution, row;
    bool
        lost; /* its stream has ended: it may be answered, but the turn may go out again on that connection */
};

struct tokenless {
    struct hash_node node;
    struct list_node expiry; /* linked while hold_until is set */
    struct list_node old;    /* linked when only late answers are waited for */
    usec_t drop_at;          /* monotonic */
    uint64_t key;
    usec_t hold_until; /* monotonic; 0: none */
    struct dispatch_out *out;
    uint32_t count, cap;
};

uint64_t tokenless_key(const struct hub *hub, struct bytes id)
{
    return bytes_hash(id) ^ hash_u64((uint64_t)(uintptr_t)hub);
}

static bool same_key(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct tokenless, node)->key == *(const uint64_t *)key;
}

static struct tokenless *find(const struct engine *e, uint64_t key)
{
    struct hash_node *n = hashmap_find(&e->tokenless, hash_u64(key), same_key, &key);
    return n ? CONTAINER_OF(n, struct tokenless, node) : NULL;
}

static void drop(struct engine *e, struct tokenless *t)
{
    hashmap_remove(&e->tokenless, &t->node);
    if (list_is_linked(&t->expiry))
        list_remove(&t->expiry);
    if (list_is_linked(&t->old))
        list_remove(&t->old);
    free(t->out);
    free(t);
}

static void remove_out(struct tokenless *t, uint32_t i)
{
    memmove(&t->out[i], &t->out[i + 1], (t->count - i - 1) * sizeof(*t->out));
    t->count--;
}

void tokenless_dispatched(struct engine *e, uint64_t key, uint64_t connection, uint64_t execution,
                          uint64_t row)
{
    struct tokenless *t = find(e, key);
    if (!t) {
        t = calloc(1, sizeof(*t));
        ASSERT(t);
        t->key = key;
        hashmap_insert(&e->tokenless, &t->node, hash_u64(key));
    }
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 2;
        t->out = realloc(t->out, t->cap * sizeof(*t->out));
        ASSERT(t->out);
    }
    t->out[t->count++] =
        (struct dispatch_out){.connection = connection, .execution = execution, .row = row};
}

void tokenless_lost(struct engine *e, uint64_t key, uint64_t connection)
{
    struct tokenless *t = find(e, key);
    for (uint32_t i = 0; t && i < t->count; i++)
        if (t->out[i].connection == connection)
            t->out[i].lost = true;
}

bool tokenless_may_dispatch(struct engine *e, uint64_t key, uint64_t connection, usec_t *until)
{
    struct tokenless *t = find(e, key);
    if (!t)
        return true;
    if (t->hold_until > e->now) {
        *until = MIN(*until, t->hold_until);
        return false;
    }
    for (uint32_t i = 0; i < t->count; i++)
        if (t->out[i].connection == connection && !t->out[i].lost)
            return false;
    return true;
}

void tokenless_settled(struct engine *e, uint64_t key, uint64_t execution, uint64_t row)
{
    struct tokenless *t = find(e, key);
    if (!t)
        return;
    bool open = false;
    for (uint32_t i = 0; i < t->count; i++)
        open = open || (t->out[i].execution == execution && t->out[i].row == row);
    if (t->count == 0) {
        drop(e, t);
    } else if (open && !t->hold_until) {
        /* Others still have it: their answers may come, and must not settle the next turn. */
        t->hold_until = usec_add(e->now, (usec_t)e->settings->tokenless_redelivery);
        list_push_back(&e->tokenless_expiry, &t->expiry);
    }
}

/* What has been dispatched since stays. */
static void forget_lost(struct engine *e, struct tokenless *t)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->count; i++)
        if (!t->out[i].lost)
            t->out[kept++] = t->out[i];
    t->count = kept;
    list_remove(&t->old);
    if (kept == 0 && !t->hold_until)
        drop(e, t);
}

void tokenless_expire(struct engine *e)
{
    for (struct list_node *n; (n = list_first(&e->tokenless_expiry));) {
        struct tokenless *t = LIST_ENTRY(n, struct tokenless, expiry);
        if (t->hold_until > e->now)
            break;
        t->hold_until = 0;
        for (uint32_t i = 0; i < t->count; i++)
            t->out[i].lost = true; /* no longer waited for */
        list_remove(&t->expiry);
        if (list_is_linked(&t->old))
            list_remove(&t->old);
        t->drop_at = usec_add(e->now, LATE_ANSWERS);
        list_push_back(&e->tokenless_old, &t->old);
    }
    for (struct list_node *n; (n = list_first(&e->tokenless_old));) {
        struct tokenless *t = LIST_ENTRY(n, struct tokenless, old);
        if (t->drop_at > e->now)
            break;
        forget_lost(e, t); /* answers after this are a stated limit */
    }
}

usec_t tokenless_next(const struct engine *e)
{
    const struct list_node *n = e->tokenless_expiry.head.next;
    return n == &e->tokenless_expiry.head ? USEC_NEVER
                                          : LIST_ENTRY(n, struct tokenless, expiry)->hold_until;
}

void tokenless_free(struct engine *e)
{
    HASHMAP_FOR_EACH (&e->tokenless, n)
        drop(e, CONTAINER_OF(n, struct tokenless, node));
    hashmap_deinit(&e->tokenless);
}

/* The rules of spec 8.2, in its order. */
static bool decide(struct tokenless *t, const struct work *w, const struct object *o,
                   uint64_t connection)
{
    uint64_t execution = o->row.execution, row = o->row.history_rows + 1;
    bool is_out = w && w->turn.row == row && w->turn.execution == execution;
    if (!t) /* never sent token-less by this process: the answer to a dispatch before a restart, or nobody's */
        return w && w->recovered && (w->state != WORK_FLIGHT || w->stream->opts.token_less);
    uint32_t older = t->count;
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->out[i].connection != connection)
            continue;
        if (is_out && t->out[i].execution == execution && t->out[i].row == row) {
            remove_out(t, i);
            return true;
        }
        older = MIN(older, i);
    }
    if (older < t->count) { /* the answer to an earlier turn of this connection */
        remove_out(t, older);
        return false;
    }
    /* From another connection: a proxy may split them, or the worker came back on a new one. */
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->out[i].execution != execution || t->out[i].row != row) {
            remove_out(t, i);
            return false;
        }
    }
    if (t->count == 0)
        return false;
    remove_out(t, 0);
    return is_out;
}

bool step_tokenless_answer(struct step *s, struct command *cmd, struct object *o)
{
    if (cmd->tokenless == 0) {
        struct engine *e = s->e;
        struct hub *hub = hub_by_id(e, o->row.hub);
        struct tokenless *t = find(e, tokenless_key(hub, o->row.id));
        struct work *w = work_find(e, WORK_TURN, o->row.key);
        bool settles = decide(t, w, o, cmd->connection);
        if (!settles && w && w->state == WORK_PAUSED)
            work_make_ready(e, w); /* this connection may have it again */
        if (t && t->count == 0)    /* all have answered: nothing to wait for */
            drop(e, t);
        cmd->tokenless = settles ? 1 : 2;
    }
    return cmd->tokenless == 1;
}
