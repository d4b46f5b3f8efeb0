/* waiters.c - blocked waits: a record each, bound to a hub and id, answered at a commit that meets them.
 *
 * The limits: settings waiters.hub and waiters.connection (the latter is kept by the front end, which
 * knows connections). Waits do not survive a restart: clients ask again.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

struct waiter_key {
    const struct hub *hub;
    uint8_t kind;
    struct bytes id;
};

static uint64_t key_hash(const struct waiter_key *k)
{
    return bytes_hash(k->id) ^ hash_u64((uint64_t)(uintptr_t)k->hub ^ k->kind);
}

static bool same_object(const struct hash_node *n, const void *key)
{
    const struct waiter_key *k = key;
    const struct waiter *w = CONTAINER_OF(n, struct waiter, by_object);
    return w->hub == k->hub && w->kind == k->kind && bytes_eq(bytes_of(w->id, w->id_len), k->id);
}

static bool same_wait(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct waiter, by_id)->wait_id == *(const uint64_t *)key;
}

static const struct object_kind *kind_by_id(const struct engine *e, uint8_t id)
{
    for (size_t i = 0; e->kinds[i]; i++)
        if (e->kinds[i]->id == id)
            return e->kinds[i];
    return NULL;
}

/* Takes the waiter out and gives its command back to the caller. */
static struct command *waiter_remove(struct engine *e, struct waiter *w)
{
    struct command *cmd = w->cmd;
    hashmap_remove(&e->waiters, &w->by_object);
    hashmap_remove(&e->waiters_by_id, &w->by_id);
    struct hub *hub = w->hub;
    hub->waiters--;
    free(w);
    hub_forget_unused(e, hub);
    cmd->waiting = false;
    return cmd;
}

void waiter_register(struct engine *e, const struct effect *fx)
{
    struct command *cmd = fx->cmd;
    struct hub *hub = fx->hub ? hub_by_id(e, fx->hub) : hub_by_name(e, cmd->hub, true);
    struct waiter *w = calloc(1, sizeof(*w) + cmd->id.len);
    ASSERT(w);
    w->cmd = cmd;
    w->hub = hub;
    w->wait_id = fx->wait_id;
    w->mode = fx->mode;
    w->kind = fx->kind->id;
    w->id_len = (uint32_t)cmd->id.len;
    memcpy(w->id, cmd->id.ptr, cmd->id.len);
    hub->waiters++;
    struct waiter_key key = {hub, w->kind, bytes_of(w->id, w->id_len)};
    hashmap_insert(&e->waiters, &w->by_object, key_hash(&key));
    hashmap_insert(&e->waiters_by_id, &w->by_id, hash_u64(w->wait_id));
    /* A hundred thousand waits hold a record each, not an arena each. */
    cmd->id = cmd->hub = BYTES_NONE;
    cmd->request = NULL;
    arena_free(cmd->arena);
    cmd->arena = NULL;
}

static struct waiter *waiters_of(struct engine *e, const struct waiter_key *key)
{
    struct waiter *all = NULL;
    uint64_t hash = key_hash(key);
    struct hash_node *n = hashmap_find(&e->waiters, hash, same_object, key);
    for (; n; n = n->next) {
        if (n->hash != hash || !same_object(n, key))
            continue;
        struct waiter *w = CONTAINER_OF(n, struct waiter, by_object);
        w->next_same = all;
        all = w;
    }
    return all;
}

static void answer(struct engine *e, struct waiter *w, struct object *o,
                   const struct object_kind *kind, struct strbuf answers[2])
{
    uint32_t mode = w->mode;
    struct command *cmd = waiter_remove(e, w);
    struct strbuf *made = &answers[(mode >> 1) & 1]; /* bit 1: with payloads (kind.h) */
    if (!made->ptr) {
        struct step s;
        step_init(e, &s);
        cmd->status = kind->waiter_answer(&s, o, mode, made, command_error(cmd));
        if (cmd->status) {
            cmd->done(cmd);
            return;
        }
    }
    strbuf_append(&cmd->reply, made->ptr, made->len);
    cmd->status = OK;
    cmd->done(cmd);
}

void waiters_wake(struct engine *e, struct object *o)
{
    struct hub *hub = hub_by_id(e, o->row.hub);
    struct waiter_key key = {hub, o->row.kind, o->row.id};
    struct strbuf answers[2] = {{0}, {0}};
    for (struct waiter *w = waiters_of(e, &key), *next; w; w = next) {
        next = w->next_same;
        if (o->kind->waiter_met(o, w->mode))
            answer(e, w, o, o->kind, answers);
    }
    strbuf_deinit(&answers[0]);
    strbuf_deinit(&answers[1]);
}

/* A commit that failed may have met them, and so may one whose waiters could not be looked up. */
void waiters_check(struct engine *e)
{
    HASHMAP_FOR_EACH (&e->waiters_by_id, n) {
        struct waiter *w = CONTAINER_OF(n, struct waiter, by_id);
        const struct object_kind *kind = kind_by_id(e, w->kind);
        struct object *o;
        struct step s;
        struct error err = {0};
        step_init(e, &s);
        if (!w->hub->id || step_find(&s, w->hub->id, kind, bytes_of(w->id, w->id_len), &o, &err) ||
            !kind->waiter_met(o, w->mode))
            continue;
        struct strbuf answers[2] = {{0}, {0}};
        answer(e, w, o, kind, answers);
        strbuf_deinit(&answers[0]);
        strbuf_deinit(&answers[1]);
    }
}

static void end(struct engine *e, struct waiter *w, enum err status, const char *message)
{
    struct command *cmd = waiter_remove(e, w);
    cmd->status = error_set(command_error(cmd), status, "%s", message);
    cmd->done(cmd);
}

static void expire(struct engine *e, struct waiter *w)
{
    const struct object_kind *kind = kind_by_id(e, w->kind);
    uint32_t mode = w->mode;
    struct object *o = NULL;
    struct step s;
    struct error err = {0};
    if (!e->is_healthy) { /* whether it exists cannot be said */
        end(e, w, ERR_UNAVAILABLE, "the store cannot be read now; try again in a moment");
        return;
    }
    step_init(e, &s);
    enum err rc = w->hub->id ? step_find(&s, w->hub->id, kind, bytes_of(w->id, w->id_len), &o, &err)
                             : ERR_NOT_FOUND;
    struct command *cmd = waiter_remove(e, w);
    if (rc == ERR_NOT_FOUND) {
        cmd->status = kind->waiter_answer(&s, NULL, mode, &cmd->reply, command_error(cmd));
    } else if (rc) {
        cmd->status = rc;
        *command_error(cmd) = err;
    } else {
        cmd->status = ERR_DEADLINE;
        kind->waiter_late(o, mode, command_error(cmd));
    }
    cmd->done(cmd);
}

void engine_wait_expire(struct engine *e, uint64_t wait_id)
{
    struct hash_node *n = hashmap_find(&e->waiters_by_id, hash_u64(wait_id), same_wait, &wait_id);
    if (n)
        expire(e, CONTAINER_OF(n, struct waiter, by_id));
}

void engine_wait_cancel(struct engine *e, uint64_t wait_id)
{
    struct hash_node *n = hashmap_find(&e->waiters_by_id, hash_u64(wait_id), same_wait, &wait_id);
    if (n)
        end(e, CONTAINER_OF(n, struct waiter, by_id), ERR_CANCELLED, "the caller gave up");
}

void waiters_end_all(struct engine *e, enum err status, const char *message)
{
    HASHMAP_FOR_EACH (&e->waiters_by_id, n)
        end(e, CONTAINER_OF(n, struct waiter, by_id), status, message);
}

void waiters_free(struct engine *e)
{
    waiters_end_all(e, ERR_UNAVAILABLE, "the server is stopping");
    hashmap_deinit(&e->waiters);
    hashmap_deinit(&e->waiters_by_id);
}
