/* step.c - what a step may do besides reading and writing objects (object.c). */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

void step_hex_id(struct step *s, char out[33])
{
    uint64_t words[2];
    for (unsigned i = 0; i < 2; i++) {
        unsigned n = s->fresh_used++;
        words[i] = hash_u64(s->fresh[n % 4] + (uint64_t)(n / 4) * 0x9e3779b97f4a7c15u);
    }
    hex_encode((const uint8_t *)words, sizeof(words), out);
    out[32] = 0;
}

enum err step_next_key(struct step *s, uint64_t count, uint64_t *first, struct error *err)
{
    s->wrote = true;
    return store_next_key(s->store, count, first, err);
}

enum err step_hub(struct step *s, struct bytes name, bool create, uint32_t *hub, struct error *err)
{
    struct hub *h = hub_by_name(s->e, name, false);
    if (h && h->id) {
        *hub = h->id;
        return OK;
    }
    uint32_t id = 0;
    enum err rc = store_hub_find(s->reader, name, &id, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_NOT_FOUND) {
        if (!create || !s->settings->hub_auto_create)
            return s->settings->hub_auto_create
                       ? ERR_NOT_FOUND
                       : error_set(err, ERR_NOT_FOUND, "Task hub '%.*s' not found",
                                   BYTES_FMT(name));
        s->wrote = true;
        if ((rc = store_hub_create(s->store, name, s->now, &id, err)))
            return rc;
    }
    hub_set_id(s->e, hub_by_name(s->e, name, true), id);
    *hub = id;
    return OK;
}

static enum err group_number(struct step *s, struct group *g, struct error *err)
{
    if (g->number)
        return OK;
    s->wrote = true;
    return store_group_intern(s->store, g->hub->id, g->kind, bytes_of(g->name, g->name_len),
                              bytes_of(g->version, g->version_len), &g->number, err);
}

static enum err group_of(struct step *s, uint32_t hub, enum work_kind kind, struct bytes name,
                         struct bytes version, struct group **out, struct error *err)
{
    struct hub *h = hub_by_id(s->e, hub);
    if (!h)
        return error_set(err, ERR_CORRUPT, "task hub number %u is not in the store", hub);
    *out = group_get(s->e, h, (uint8_t)kind, name, version);
    return group_number(s, *out, err);
}

enum err step_group(struct step *s, uint32_t hub, enum work_kind kind, struct bytes name,
                    struct bytes version, uint32_t *group, struct error *err)
{
    struct group *g;
    enum err rc = group_of(s, hub, kind, name, version, &g, err);
    if (!rc)
        *group = g->number;
    return rc;
}

enum err step_turn_ready(struct step *s, struct object *o, struct bytes name, struct bytes version,
                         bool recovered, struct error *err)
{
    struct hub *h = hub_by_id(s->e, o->row.hub);
    if (!h)
        return error_set(err, ERR_CORRUPT, "task hub number %u is not in the store", o->row.hub);
    struct effect *fx = effect_add(s->e, EFFECT_TURN_READY);
    fx->key = o->row.key;
    fx->group = group_get(s->e, h, WORK_TURN, name, version);
    fx->recovered = recovered;
    return OK;
}

void step_turn_settle(struct step *s, struct object *o)
{
    effect_add(s->e, EFFECT_TURN_SETTLE)->key = o->row.key;
}

void step_turn_again(struct step *s, struct object *o)
{
    effect_add(s->e, EFFECT_TURN_AGAIN)->key = o->row.key;
}

void step_turn_abandon(struct step *s, struct object *o)
{
    effect_add(s->e, EFFECT_TURN_ABANDON)->key = o->row.key;
}

void step_count_stale(struct step *s)
{
    s->e->stats.stale_completions++;
}

const struct work *step_turn(struct step *s, const struct object *o)
{
    return work_find(s->e, WORK_TURN, o->row.key);
}

struct work *step_turn_mutable(struct step *s, const struct object *o)
{
    return work_find(s->e, WORK_TURN, o->row.key);
}

void step_turn_extend(struct step *s, struct work *w)
{
    usec_t timeout = (usec_t)s->settings->turn_timeout;
    if (w->state == WORK_FLIGHT && timeout)
        work_set_timer(s->e, w, usec_add(s->e->now, timeout));
}

void step_turn_notify(struct step *s, struct object *o)
{
    effect_add(s->e, EFFECT_TURN_NOTIFY)->key = o->row.key;
}

enum err step_task_add(struct step *s, struct object *o, struct store_task *t, struct bytes name,
                       struct bytes version, struct error *err)
{
    struct group *g;
    enum err rc = group_of(s, o->row.hub, WORK_TASK, name, version, &g, err);
    if (rc)
        return rc;
    s->wrote = true;
    t->group = g->number;
    if ((rc = store_task_insert(s->store, t, err)))
        return rc;
    struct effect *fx = effect_add(s->e, EFFECT_TASK_READY);
    fx->key = t->key;
    fx->object = t->object;
    fx->group = g;
    return OK;
}

enum err step_task_end(struct step *s, uint32_t group, uint64_t key, bool *existed,
                       struct error *err)
{
    s->wrote = true;
    enum err rc = store_task_delete(s->store, group, key, existed, err);
    if (!rc)
        effect_add(s->e, EFFECT_TASK_END)->key = key;
    return rc;
}

bool step_breaks(struct step *s, struct command *cmd, enum work_kind kind, uint64_t key,
                 uint64_t breaks_max)
{
    struct work *w = work_find(s->e, (uint8_t)kind, key);
    if (!w)
        return true;
    if (!cmd->break_counted)
        w->breaks++;
    cmd->break_counted = true;
    return w->breaks >= breaks_max;
}

bool step_task_in_flight(struct step *s, uint64_t key)
{
    const struct work *w = work_find(s->e, WORK_TASK, key);
    return w && w->state == WORK_FLIGHT;
}

bool step_task_is_out_tokenless(struct step *s, uint64_t key)
{
    const struct work *w = work_find(s->e, WORK_TASK, key);
    return w && w->state == WORK_FLIGHT && w->stream->opts.token_less;
}

struct item_ref step_task_item(struct step *s, uint64_t key)
{
    const struct work *w = work_find(s->e, WORK_TASK, key);
    return w && w->state == WORK_FLIGHT ? (struct item_ref){WORK_TASK, key, w->nonce}
                                        : (struct item_ref){0};
}

bool step_task_answered(struct step *s, const struct command *cmd, struct bytes id, int64_t ref,
                        uint32_t *group, uint64_t *key)
{
    struct item_ref item = work_answered(s->e, cmd, WORK_TASK, id, ref);
    const struct work *w = item.kind ? work_find(s->e, WORK_TASK, item.key) : NULL;
    if (!w)
        return false;
    *group = w->group->number;
    *key = w->key;
    return true;
}

enum err step_timer_add(struct step *s, const struct store_timer *t, struct error *err)
{
    s->wrote = true;
    enum err rc = store_timer_insert(s->store, t, err);
    if (rc)
        return rc;
    struct effect *fx = effect_add(s->e, EFFECT_TIMER);
    fx->due = t->due;
    fx->key = t->key;
    return OK;
}

enum err step_mail(struct step *s, struct store_mail *m, struct error *err)
{
    enum err rc = step_next_key(s, 1, &m->seq, err);
    if (rc)
        return rc;
    m->partition =
        (uint32_t)(object_id_hash(m->hub, m->kind, m->id) % store_info(s->store)->partitions);
    s->e->mail_waits = true;
    return store_mail_insert(s->store, m, err);
}

/* What is small goes at once: most executions have a few rows. */
#define TRASH_INLINE 64

static enum err drop_inline(struct step *s, enum store_trash_what what, uint64_t key, bool *is_gone,
                            struct error *err)
{
    uint32_t rows = 0, timers = 0;
    enum err rc = OK;
    if (what == STORE_TRASH_INBOX)
        rc = store_inbox_delete(s->store, key, INT64_MIN, INT64_MAX, TRASH_INLINE, &rows, err);
    if (!rc && what == STORE_TRASH_EXECUTION)
        rc = store_history_delete(s->store, key, TRASH_INLINE, &rows, err);
    if (!rc && what != STORE_TRASH_INBOX)
        rc = store_timer_delete_execution(s->store, key, TRASH_INLINE, &timers, err);
    *is_gone = rows < TRASH_INLINE && timers < TRASH_INLINE;
    return rc;
}

enum err step_trash(struct step *s, enum store_trash_what what, uint64_t key, struct error *err)
{
    bool is_gone;
    s->wrote = true;
    enum err rc = drop_inline(s, what, key, &is_gone, err);
    if (rc || is_gone)
        return rc;
    struct store_trash t = {.what = (int32_t)what, .key = key};
    if ((rc = step_next_key(s, 1, &t.seq, err)))
        return rc;
    s->e->trash_waits = true;
    return store_trash_insert(s->store, &t, err);
}

enum err step_wait(struct step *s, struct command *cmd, uint32_t hub,
                   const struct object_kind *kind, uint32_t mode, uint64_t wait_id,
                   struct error *err)
{
    struct engine *e = s->e;
    struct hub *h = hub ? hub_by_id(e, hub) : hub_by_name(e, cmd->hub, false);
    if (h && h->waiters >= e->settings->waiters_hub)
        return error_set(err, ERR_LIMIT,
                         "task hub '%s' has %llu waits, the most that waiters.hub allows", h->name,
                         (unsigned long long)h->waiters);
    struct effect *fx = effect_add(e, EFFECT_WAIT);
    fx->cmd = cmd;
    fx->hub = hub;
    fx->kind = kind;
    fx->mode = mode;
    fx->wait_id = wait_id;
    cmd->waiting = true;
    return OK;
}
