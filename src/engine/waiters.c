/* waiters.c - blocked waits: a record each, bound to a hub and id, answered at a commit that meets them.
 *
 * The limits: settings waiters.hub and waiters.connection (the latter is kept by the front end, which
 * knows connections). Waits do not survive a restart: clients ask again.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

struct awaited_key {
    struct hub *hub;
    uint8_t kind;
    struct bytes id;
};

static uint64_t key_hash(const struct awaited_key *k)
{
    return bytes_hash(k->id) ^ hash_u64((uint64_t)(uintptr_t)k->hub ^ k->kind);
}

static struct bytes id_of(const struct awaited *a)
{
    return bytes_of(a->id, a->id_len);
}

static bool same_object(const struct hash_node *n, const void *key)
{
    const struct awaited_key *k = key;
    const struct awaited *a = CONTAINER_OF(n, struct awaited, node);
    return a->hub == k->hub && a->kind == k->kind && bytes_eq(id_of(a), k->id);
}

static struct awaited *find(const struct engine *e, const struct awaited_key *key)
{
    struct hash_node *n = hashmap_find(&e->awaited, key_hash(key), same_object, key);
    return n ? CONTAINER_OF(n, struct awaited, node) : NULL;
}

static struct awaited *find_or_add(struct engine *e, const struct awaited_key *key)
{
    struct awaited *a = find(e, key);
    if (a)
        return a;
    a = calloc(1, sizeof(*a) + key->id.len);
    ASSERT(a);
    list_init(&a->waiters);
    a->hub = key->hub;
    a->kind = key->kind;
    a->id_len = (uint32_t)key->id.len;
    memcpy(a->id, key->id.ptr, key->id.len);
    hashmap_insert(&e->awaited, &a->node, key_hash(key));
    return a;
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
    struct awaited *a = w->of;
    struct hub *hub = a->hub;
    hashmap_remove(&e->waiters_by_id, &w->by_id);
    if (list_is_linked(&w->same))
        list_remove(&w->same);
    free(w);
    hub->waiters--;
    if (--a->count == 0) {
        hashmap_remove(&e->awaited, &a->node);
        free(a);
    }
    hub_forget_unused(e, hub);
    cmd->waiting = false;
    return cmd;
}

void waiter_register(struct engine *e, const struct effect *fx)
{
    struct command *cmd = fx->cmd;
    struct hub *hub = fx->hub ? hub_by_id(e, fx->hub) : hub_by_name(e, cmd->hub, true);
    struct awaited *a = find_or_add(e, &(struct awaited_key){hub, fx->kind->id, cmd->id});
    struct waiter *w = calloc(1, sizeof(*w));
    ASSERT(w);
    w->of = a;
    w->cmd = cmd;
    w->wait_id = fx->wait_id;
    w->mode = fx->mode;
    list_push_back(&a->waiters, &w->same);
    a->count++;
    hub->waiters++;
    hashmap_insert(&e->waiters_by_id, &w->by_id, hash_u64(w->wait_id));
    /* A hundred thousand waits hold a record each, not an arena each. */
    cmd->id = cmd->hub = BYTES_NONE;
    cmd->request = NULL;
    arena_free(cmd->arena);
    cmd->arena = NULL;
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
    struct awaited *a = find(e, &(struct awaited_key){hub, o->row.kind, o->row.id});
    struct strbuf answers[2] = {{0}, {0}};
    struct list met;
    if (!a)
        return;
    list_init(&met);
    LIST_FOR_EACH (&a->waiters, n) {
        if (!o->kind->waiter_met(o, LIST_ENTRY(n, struct waiter, same)->mode))
            continue;
        list_remove(n);
        list_push_back(&met, n);
    }
    for (struct list_node *n; (n = list_pop_front(&met));)
        answer(e, LIST_ENTRY(n, struct waiter, same), o, o->kind, answers);
    strbuf_deinit(&answers[0]);
    strbuf_deinit(&answers[1]);
}

/* A commit that failed may have met them, and so may one whose waiters could not be looked up. */
void waiters_check(struct engine *e)
{
    HASHMAP_FOR_EACH (&e->waiters_by_id, n) {
        struct waiter *w = CONTAINER_OF(n, struct waiter, by_id);
        const struct awaited *a = w->of;
        const struct object_kind *kind = kind_by_id(e, a->kind);
        struct object *o;
        struct step s;
        struct error err = {0};
        step_init(e, &s);
        if (!a->hub->id || step_find(&s, a->hub->id, kind, id_of(a), &o, &err) ||
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
    const struct awaited *a = w->of;
    const struct object_kind *kind = kind_by_id(e, a->kind);
    uint32_t mode = w->mode;
    struct object *o = NULL;
    struct step s;
    struct error err = {0};
    if (!e->is_healthy) { /* whether it exists cannot be said */
        end(e, w, ERR_UNAVAILABLE, "the store cannot be read now; try again in a moment");
        return;
    }
    step_init(e, &s);
    enum err rc = a->hub->id ? step_find(&s, a->hub->id, kind, id_of(a), &o, &err) : ERR_NOT_FOUND;
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
    hashmap_deinit(&e->awaited);
    hashmap_deinit(&e->waiters_by_id);
}
