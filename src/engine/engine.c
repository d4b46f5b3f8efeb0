/* engine.c - batches: take what is queued, step it in one transaction, commit, perform the effects.
 *
 *   engine_run: control commands -> BEGIN -> units (commands, due timers, mail, clean-up) -> rows of changed objects -> COMMIT
 *               -> effects -> waiters -> answers -> time-outs -> recovery -> dispatch
 *
 * A unit is stepped without a savepoint first. One that fails after it wrote something makes the whole batch be undone and
 * stepped again, now with a savepoint each; commands are never changed by a step, so stepping twice is the same as once.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"

#define BATCH_COMMANDS 4096
#define BATCH_BYTES                                                                                \
    MIB(16) /* of requests; one may be larger: else small calls wait for the flush of all large ones */
#define BATCH_TIMERS 1000
#define BATCH_MAIL 64
#define TRASH_ROWS 500
#define REOPEN_PAUSE (250 * USEC_PER_MSEC)
#define IDLE_MAX USEC_PER_SEC

/* ---- life ------------------------------------------------------------------------------------------ */

struct engine *engine_new(const struct engine_options *opts)
{
    struct engine *e = calloc(1, sizeof(*e));
    ASSERT(e);
    e->store = opts->store;
    e->reader = store_reader(opts->store);
    e->settings = opts->settings;
    e->clock = opts->clock;
    e->prng = opts->prng;
    e->kinds = opts->kinds;
    e->front = opts->front;
    e->tokens = token_keys_new(bytes_of(store_info(e->store)->secret, STORE_SECRET_LEN));
    e->tail = &e->head;
    e->arena = arena_create();
    list_init(&e->dirty);
    list_init(&e->lru);
    list_init(&e->hubs);
    list_init(&e->active_hubs);
    list_init(&e->stream_list);
    list_init(&e->refills);
    list_init(&e->wanted);
    list_init(&e->tokenless_expiry);
    list_init(&e->tokenless_old);
    heap_init(&e->work_timers, work_less_until);
    heap_init(&e->pings, stream_less_ping);
    timers_reset(e);
    e->started = e->now = clock_monotonic(e->clock);
    e->wall = clock_wall(e->clock);
    struct error err = {0};
    e->is_healthy = recovery_start(e, &err) == OK;
    if (!e->is_healthy)
        log_error(LOG_ERROR, "engine: cannot read the store", &err);
    return e;
}

static void command_fail(struct command *cmd, enum err status, const char *message)
{
    cmd->status = error_set(command_error(cmd), status, "%s", message);
    cmd->done(cmd);
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    while (e->head) {
        struct command *cmd = e->head;
        e->head = cmd->next;
        command_fail(cmd, ERR_UNAVAILABLE, "the server is stopping");
    }
    waiters_free(e);
    dispatch_free(e);
    cache_drop(e);
    hashmap_deinit(&e->by_key);
    hashmap_deinit(&e->by_id);
    timers_reset(e);
    heap_deinit(&e->timers);
    free(e->units.items);
    free(e->pending.items);
    free(e->effects);
    free(e->touched);
    arena_free(e->arena);
    token_keys_free(e->tokens);
    free(e);
}

void engine_submit(struct engine *e, struct command *cmd)
{
    cmd->next = NULL;
    *e->tail = cmd;
    e->tail = &cmd->next;
    e->queued_bytes += cmd->bytes;
}

size_t engine_queued_bytes(const struct engine *e)
{
    return e->queued_bytes;
}

bool engine_is_healthy(const struct engine *e)
{
    return e->is_healthy;
}

#define ORPHANS_COMPLAIN_EVERY (60 * USEC_PER_SEC)

void engine_orphan(struct engine *e, const char *what, uint64_t object)
{
    if (e->trash_waits)
        return; /* it may belong to an instance whose purge is not finished */
    e->stats.orphans++;
    if (e->now < e->orphans_quiet_until)
        return;
    e->orphans_quiet_until = usec_add(e->now, ORPHANS_COMPLAIN_EVERY);
    LOG(LOG_WARN, "engine: dropped work of an instance that is gone", LOG_STR("what", what),
        LOG_UINT("object", object), LOG_UINT("dropped", e->stats.orphans));
}

struct token_keys *engine_tokens(struct engine *e)
{
    return e->tokens;
}

/* ---- units -------------------------------------------------------------------------------------------- */

void unit_push(struct unit_list *l, const struct unit *u)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->items = realloc(l->items, l->cap * sizeof(*l->items));
        ASSERT(l->items);
    }
    l->items[l->count++] = *u;
}

void engine_pend(struct engine *e, const struct unit *u)
{
    unit_push(&e->pending, u);
}

void step_init(struct engine *e, struct step *s)
{
    *s = (struct step){
        .e = e,
        .store = e->store,
        .reader = e->reader,
        .settings = e->settings,
        .arena = e->arena,
        .now = e->wall,
    };
}

static bool take_mail(void *arg, const struct store_mail *m)
{
    struct engine *e = arg;
    struct unit u = {.type = UNIT_MAIL, .key = m->seq, .mail = *m};
    u.mail.id = arena_dup(e->arena, m->id);
    u.mail.payload = arena_dup(e->arena, m->payload);
    unit_push(&e->units, &u);
    return true;
}

static bool take_trash(void *arg, const struct store_trash *t)
{
    struct engine *e = arg;
    unit_push(&e->units, &(struct unit){.type = UNIT_TRASH, .key = t->seq, .trash = *t});
    return true;
}

static bool look_at_mail(void *arg UNUSED, const struct store_mail *m UNUSED)
{
    return false;
}

static enum err probe_mail(void *arg, uint64_t after, struct error *err)
{
    struct engine *e = arg;
    return store_mail_read(e->reader, after, 1, look_at_mail, NULL, err);
}

static bool look_at_trash(void *arg UNUSED, const struct store_trash *t UNUSED)
{
    return false;
}

static enum err probe_trash(void *arg, uint64_t after, struct error *err)
{
    struct engine *e = arg;
    return store_trash_read(e->reader, after, 1, look_at_trash, NULL, err);
}

/* The next row cannot be read: on behind it. *waits false: nothing is there. */
static enum err skip_rows(struct engine *e, const char *what, damage_probe_fn *probe,
                          uint64_t *after, bool *waits, struct error *err)
{
    damage_log(e, what, err);
    enum err rc = damage_skip(probe, e, after, err);
    *waits = rc == OK;
    return rc == ERR_CORRUPT ? OK : rc;
}

static enum err collect_mail(struct engine *e, struct error *err)
{
    size_t before = e->units.count;
    enum err rc = store_mail_read(e->reader, e->mail_after, BATCH_MAIL, take_mail, e, err);
    size_t taken = e->units.count - before;
    if (rc == ERR_CORRUPT && taken == 0)
        return skip_rows(e, "engine: messages that cannot be read are not delivered", probe_mail,
                         &e->mail_after, &e->mail_waits, err);
    e->mail_waits = taken == BATCH_MAIL || rc;
    return rc == ERR_CORRUPT ? OK : rc;
}

static enum err collect_trash(struct engine *e, struct error *err)
{
    size_t before = e->units.count;
    enum err rc = store_trash_read(e->reader, e->trash_after, 1, take_trash, e, err);
    if (rc == ERR_CORRUPT)
        return skip_rows(e, "engine: what cannot be read is not cleaned up", probe_trash,
                         &e->trash_after, &e->trash_waits, err);
    e->trash_waits = e->units.count > before || rc;
    return rc;
}

static enum err collect_rows(struct engine *e, struct error *err)
{
    size_t at_first = e->units.count;
    enum err rc = timers_load(e, err);
    if (rc)
        return rc;
    timers_collect(e, &e->units, BATCH_TIMERS);
    if ((e->mail_waits && (rc = collect_mail(e, err))) ||
        (e->trash_waits && (rc = collect_trash(e, err))))
        return rc;
    e->has_steps = e->has_steps || e->units.count > at_first;
    return OK;
}

/* Control commands are units too: they run after the commit, in their place among the others. */
static void collect_commands(struct engine *e)
{
    size_t bytes = 0;
    for (size_t n = 0; e->head && n < BATCH_COMMANDS && bytes < BATCH_BYTES; n++) {
        struct command *cmd = e->head;
        e->head = cmd->next;
        bytes += cmd->bytes;
        e->queued_bytes -= cmd->bytes;
        if (!e->head)
            e->tail = &e->head;
        if (cmd->control) {
            unit_push(&e->units, &(struct unit){.type = UNIT_CONTROL, .cmd = cmd});
            continue;
        }
        e->has_steps = true;
        for (unsigned i = 0; i < 4; i++)
            cmd->fresh[i] = prng_u64(e->prng);
        unit_push(&e->units, &(struct unit){.type = UNIT_COMMAND, .cmd = cmd});
    }
}

static void collect_pending(struct engine *e)
{
    e->has_steps = e->has_steps || e->pending.count > 0;
    for (size_t i = 0; i < e->pending.count; i++)
        unit_push(&e->units, &e->pending.items[i]);
    e->pending.count = 0;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

static enum err step_command(struct step *s, struct command *cmd, struct error *err)
{
    cmd->now = s->now;
    memcpy(s->fresh, cmd->fresh, sizeof(s->fresh));
    strbuf_reset(&cmd->reply);
    cmd->settled_with_error = cmd->waiting = false;
    return cmd->kind->command(s, cmd, err);
}

static enum err step_timer(struct step *s, const struct unit *u, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_timer t;
    struct object *o;
    bool existed;
    enum err rc = store_timer_get(s->reader, u->due, u->key, &t, &buf, err);
    if (rc == ERR_NOT_FOUND)
        return OK; /* cancelled */
    if (rc)
        return rc;
    rc = object_by_key(s, t.object, &o, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    s->wrote = true;
    enum err gone = store_timer_delete(s->store, u->due, u->key, &existed, err);
    if (!gone && rc == ERR_NOT_FOUND)
        engine_orphan(s->e, "timer", t.object);
    if (gone || rc == ERR_NOT_FOUND)
        return gone;
    return o->kind->timer(s, o, &t, err);
}

static enum err step_one_mail(struct step *s, const struct unit *u, struct error *err)
{
    const struct object_kind *kind = NULL;
    for (size_t i = 0; s->e->kinds[i]; i++)
        if (s->e->kinds[i]->id == u->mail.kind)
            kind = s->e->kinds[i];
    if (!kind)
        return error_set(err, ERR_CORRUPT, "mail %llu is for the unknown kind %u",
                         (unsigned long long)u->key, u->mail.kind);
    enum err rc = kind->mail(s, &u->mail, err);
    if (rc)
        return rc;
    s->wrote = true;
    return store_mail_delete(s->store, u->key, err);
}

static enum err step_one_trash(struct step *s, const struct unit *u, struct error *err)
{
    uint32_t deleted = 0, timers = 0;
    enum err rc;
    s->wrote = true;
    if (u->trash.what == STORE_TRASH_INBOX) {
        rc = store_inbox_delete(s->store, u->trash.key, INT64_MIN, INT64_MAX, TRASH_ROWS, &deleted,
                                err);
    } else {
        rc = OK;
        if (u->trash.what == STORE_TRASH_EXECUTION)
            rc = store_history_delete(s->store, u->trash.key, TRASH_ROWS, &deleted, err);
        if (!rc)
            rc = store_timer_delete_execution(s->store, u->trash.key, TRASH_ROWS, &timers, err);
    }
    if (rc)
        return rc;
    if (deleted < TRASH_ROWS && timers < TRASH_ROWS)
        return store_trash_delete(s->store, u->key, err);
    return OK;
}

static enum err drop_inbox(struct step *s, uint64_t object, struct error *err)
{
    uint32_t deleted = 0;
    s->wrote = true;
    enum err rc =
        store_inbox_delete(s->store, object, INT64_MIN, INT64_MAX, TRASH_ROWS, &deleted, err);
    if (!rc && deleted > 0)
        engine_orphan(s->e, "inbox", object);
    return rc || deleted < TRASH_ROWS ? rc : step_trash(s, STORE_TRASH_INBOX, object, err);
}

static enum err step_object(struct step *s, const struct unit *u, struct error *err)
{
    struct object *o;
    enum err rc = object_by_key(s, u->key, &o, err);
    if (rc == ERR_NOT_FOUND) {
        effect_add(s->e, EFFECT_TURN_SETTLE)->key = u->key;
        return drop_inbox(s, u->key, err);
    }
    if (rc)
        return rc;
    if (u->type == UNIT_CHECK)
        return o->kind->turn_check(s, o, u->recovered, err);
    if (u->type == UNIT_RECUT)
        return o->kind->turn_recut(s, o, err);
    effect_add(s->e, EFFECT_TURN_DECIDE)->key = u->key;
    return o->kind->turn_returned(s, o, err);
}

static enum err step_unit(struct step *s, struct unit *u, struct error *err)
{
    switch (u->type) {
    case UNIT_COMMAND:
        return step_command(s, u->cmd, err);
    case UNIT_CONTROL:
        return OK;
    case UNIT_TIMER:
        return step_timer(s, u, err);
    case UNIT_MAIL:
        return step_one_mail(s, u, err);
    case UNIT_TRASH:
        return step_one_trash(s, u, err);
    case UNIT_DROP:
        return step_task_end(s, u->group, u->key, &(bool){false}, err);
    case UNIT_CHECK:
    case UNIT_RETURNED:
    case UNIT_RECUT:
        return step_object(s, u, err);
    }
    return OK;
}

/* ---- one batch --------------------------------------------------------------------------------------------- */

enum outcome { BATCH_OK, BATCH_AGAIN, BATCH_BROKEN };

static void unit_failed(struct engine *e, struct unit *u, enum err rc, const struct error *err)
{
    u->status = rc;
    if (u->type == UNIT_MAIL) /* it stays in the store, and is tried again by the next process */
        e->mail_after = MAX(e->mail_after, u->key);
    if (u->type == UNIT_TRASH) /* likewise */
        e->trash_after = MAX(e->trash_after, u->key);
    if (u->type == UNIT_COMMAND) {
        *command_error(u->cmd) = *err;
        return;
    }
    struct error logged = *err;
    if (rc == ERR_CORRUPT) /* there may be many */
        damage_log(e, "engine: an internal step failed", err);
    else
        log_error(LOG_ERROR, "engine: an internal step failed", &logged);
}

/* Without savepoints: fast, but a step that fails late spoils the batch. */
static enum outcome batch_fast(struct engine *e, struct error *err)
{
    for (size_t i = 0; i < e->units.count; i++) {
        struct unit *u = &e->units.items[i];
        struct error failed; /* not cleared: hundreds of bytes for each command */
        failed.code = OK;
        failed.msg[0] = 0;
        step_init(e, &e->step);
        size_t effects = e->effect_count;
        u->status = OK;
        enum err rc = step_unit(&e->step, u, &failed);
        if (store_is_tainted(e->store))
            return BATCH_AGAIN;
        if (!rc)
            continue;
        if (rc == ERR_UNAVAILABLE) {
            *err = failed;
            return BATCH_BROKEN;
        }
        if (e->step.wrote)
            return BATCH_AGAIN;
        e->effect_count = effects;
        unit_failed(e, u, rc, &failed);
    }
    return BATCH_OK;
}

/* Puts back what was not stepped yet, for the next batch. */
static void unit_put_back(struct engine *e, struct unit *u)
{
    switch (u->type) {
    case UNIT_COMMAND:
    case UNIT_CONTROL:
        u->cmd->next = e->head;
        if (!e->head)
            e->tail = &u->cmd->next;
        e->head = u->cmd;
        e->queued_bytes += u->cmd->bytes;
        return;
    case UNIT_TIMER:
        timers_added(e, u->due, u->key);
        return;
    case UNIT_MAIL:
        e->mail_waits = true;
        return;
    case UNIT_TRASH:
        e->trash_waits = true;
        return;
    case UNIT_CHECK:
    case UNIT_RETURNED:
    case UNIT_RECUT:
    case UNIT_DROP:
        engine_pend(e, u);
        return;
    }
}

/* It met damage, and with it nothing of this transaction can be written: those before it are stepped again without it, those
 * behind it in the next batch. */
static void unit_leave_out(struct engine *e, size_t index)
{
    e->units.items[index].is_out = true;
    while (e->units.count > index + 1)
        unit_put_back(e, &e->units.items[--e->units.count]);
}

/* Steps a unit and writes what it changed. */
static enum err unit_try(struct engine *e, struct unit *u, struct error *failed)
{
    step_init(e, &e->step);
    u->status = OK;
    enum err rc = step_unit(&e->step, u, failed);
    if (!rc)
        rc = cache_flush(&e->step, failed);
    if (!rc && store_is_tainted(e->store))
        rc = error_set(failed, ERR_CORRUPT, "something that was read is damaged in the store");
    return rc;
}

static enum outcome batch_careful(struct engine *e, struct error *err)
{
    for (size_t i = 0; i < e->units.count; i++) {
        struct unit *u = &e->units.items[i];
        struct error failed = {0};
        size_t effects = e->effect_count, touched = e->touched_count;
        if (u->is_out)
            continue;
        if (store_savepoint(e->store, err))
            return BATCH_BROKEN;
        enum err rc = unit_try(e, u, &failed);
        if (rc == ERR_UNAVAILABLE) {
            *err = failed;
            return BATCH_BROKEN;
        }
        if (!rc) {
            if (store_savepoint_release(e->store, err))
                return BATCH_BROKEN;
            continue;
        }
        bool goes_on = !store_is_tainted(e->store) && !e->names_damaged;
        if (goes_on) {
            if (store_savepoint_undo(e->store, err))
                return BATCH_BROKEN;
            e->effect_count = effects;
            e->touched_count = touched;
            cache_drop(e);
            groups_forget_numbers(e);
            if (recovery_names(e, err))
                return BATCH_BROKEN;
            goes_on = !store_is_tainted(e->store);
        }
        unit_failed(e, u, rc, &failed);
        if (!goes_on) {
            unit_leave_out(e, i);
            return BATCH_AGAIN;
        }
    }
    return BATCH_OK;
}

static void batch_undo(struct engine *e)
{
    store_rollback(e->store);
    cache_drop(e);
    groups_forget_numbers(e);
    e->effect_count = e->touched_count = 0;
    e->mail_waits = true; /* what was taken is still there */
}

static enum outcome batch_commit(struct engine *e, struct error *err)
{
    step_init(e, &e->step);
    if (cache_flush(&e->step, err))
        return BATCH_AGAIN;
    usec_t begun = clock_monotonic(e->clock);
    bool wrote = store_has_writes(e->store);
    enum err rc = store_commit(e->store, err);
    usec_t took = clock_monotonic(e->clock) - begun;
    if (!rc && wrote) { /* a batch that only read is no commit */
        e->stats.batches++;
        e->stats.commands += e->units.count;
        e->stats.last_commit_time = took;
    }
    if (e->on_commit && (wrote || rc))
        e->on_commit(e->on_commit_arg, took, e->units.count, rc == OK);
    if (rc && !store_is_failed(e->store))
        return BATCH_AGAIN; /* without the numbers that could not be written */
    return rc ? BATCH_BROKEN : BATCH_OK;
}

static enum outcome batch_try(struct engine *e, bool careful, struct error *err)
{
    if (store_begin(e->store, err))
        return BATCH_BROKEN;
    enum outcome out = careful ? batch_careful(e, err) : batch_fast(e, err);
    if (out == BATCH_OK)
        out = batch_commit(e, err);
    if (out == BATCH_OK)
        return out;
    batch_undo(e);
    if (out == BATCH_AGAIN && recovery_names(e, err))
        return BATCH_BROKEN;
    return out;
}

/* ---- after the batch ------------------------------------------------------------------------------------------ */

static void command_answer(struct engine *e, struct unit *u)
{
    struct command *cmd = u->cmd;
    if (u->type == UNIT_CONTROL) {
        cmd->control(e, cmd);
        return;
    }
    cmd->status = u->status;
    if (cmd->settled_with_error && u->status == OK) {
        cmd->status = cmd->error->code;
    } else if (u->status != OK && cmd->item.kind) {
        work_abandon(e, &cmd->item);
    }
    cmd->done(cmd);
}

/* What follows a batch reads in one transaction, if it reads at all: it sees one state, and the store takes its locks once. */
static void read_begin(struct engine *e)
{
    if (!e->is_reading)
        store_read_begin(e->store);
    e->is_reading = true;
}

static void read_end(struct engine *e)
{
    store_read_end(e->store);
    e->is_reading = false;
}

static void wake(struct engine *e, uint64_t key)
{
    struct step s;
    struct object *o;
    struct error err = {0};
    step_init(e, &s);
    if (object_by_key(&s, key, &o, &err) ==
        OK) /* else it is gone again, or the store is: waiters_check() */
        waiters_wake(e, o);
}

static void batch_done(struct engine *e)
{
    for (size_t i = 0; i < e->units.count; i++) {
        struct unit *u = &e->units.items[i];
        if (u->type == UNIT_COMMAND && u->status == OK && u->cmd->waiting)
            u->cmd = NULL; /* a waiter's from now on: this very batch may answer it */
    }
    read_begin(e);
    effects_perform(e);
    if (e->awaited.count > 0)
        for (size_t i = 0; i < e->touched_count; i++)
            wake(e, e->touched[i]);
    e->touched_count = 0;
    for (size_t i = 0; i < e->units.count; i++)
        if (e->units.items[i].cmd)
            command_answer(e, &e->units.items[i]);
    e->units.count = 0;
}

static const char *const REFUSED =
    "the store cannot commit now, nothing was changed; try again in a moment";

static void batch_refuse(struct engine *e)
{
    for (size_t i = 0; i < e->units.count; i++) {
        struct unit *u = &e->units.items[i];
        if (u->type == UNIT_CONTROL) {
            command_answer(e, u);
        } else if (u->type == UNIT_COMMAND) {
            u->status = error_set(command_error(u->cmd), ERR_UNAVAILABLE, "%s", REFUSED);
            u->cmd->waiting = false;
            if (u->cmd->kind->refused && !u->cmd->item.kind)
                u->cmd->kind->refused(e, u->cmd);
            command_answer(e, u);
        } else if (u->type == UNIT_CHECK || u->type == UNIT_RETURNED || u->type == UNIT_RECUT ||
                   u->type == UNIT_DROP) {
            engine_pend(e, u);
        }
    }
    e->units.count = 0;
    timers_reset(e); /* those collected are read again */
}

static void store_lost(struct engine *e, const struct error *cause)
{
    struct error logged = *cause;
    log_error(LOG_ERROR, "engine: the store refused a batch", &logged);
    e->stats.commits_failed++;
    e->is_healthy = false;
    /* At once the first time. A store that opens and then refuses the next batch too (a full disk) is not asked in a loop. */
    e->retry_at = e->failed_in_row++ ? usec_add(e->now, REOPEN_PAUSE) : e->now;
}

static void store_try_again(struct engine *e)
{
    struct error err = {0};
    if (e->retry_at > e->now)
        return;
    enum err rc = store_reopen(e->store, &err);
    e->reader = store_reader(e->store);
    if (rc || recovery_start(e, &err)) {
        e->retry_at = usec_add(e->now, REOPEN_PAUSE);
        return;
    }
    e->is_healthy = true;
    timers_reset(e);
    waiters_check(e);
    LOG(LOG_INFO, "engine: the store is back", LOG_UINT("failed_batches", e->stats.commits_failed));
}

static void run_batch(struct engine *e)
{
    struct error err = {0};
    collect_pending(e);
    if (collect_rows(e, &err)) {
        store_lost(e, &err);
        batch_refuse(e);
        return;
    }
    if (!e->has_steps) { /* control commands only, or nothing */
        batch_done(e);
        return;
    }
    enum outcome out = batch_try(e, false, &err);
    /* Each time without one unit more, or without the numbers. */
    for (size_t n = e->units.count + 2; out == BATCH_AGAIN && n > 0; n--)
        out = batch_try(e, true, &err);
    e->now = clock_monotonic(e->clock); /* what begins now is not shorter by the flush */
    if (out == BATCH_OK) {
        e->failed_in_row = 0;
        batch_done(e);
        return;
    }
    store_lost(e, &err);
    batch_refuse(e);
    store_try_again(e);
}

bool engine_run(struct engine *e)
{
    e->now = clock_monotonic(e->clock);
    e->wall = clock_wall(e->clock);
    arena_reset(e->arena);
    e->has_steps = false;
    collect_commands(e);
    if (!e->is_healthy)
        store_try_again(e);
    if (e->is_healthy)
        run_batch(e);
    else
        batch_refuse(e);
    e->now = clock_monotonic(e->clock);
    read_begin(e);
    dispatch_timeouts(e);
    tokenless_expire(e);
    stream_pings(e);
    bool more = e->is_healthy && recovery_refill(e);
    more = (e->is_healthy && recovery_step(e)) || more;
    more = dispatch_run(e) || more;
    cache_trim(e);
    read_end(e);
    if (e->is_healthy && store_is_failed(e->store)) { /* found while reading */
        store_lost(e, store_failure(e->store));
    }
    return more || e->head ||
           (e->is_healthy && (e->pending.count > 0 || e->mail_waits || e->trash_waits ||
                              timers_unread(e) || timers_next(e) <= e->wall));
}

usec_t engine_idle_time(struct engine *e)
{
    usec_t now = clock_monotonic(e->clock), wall = clock_wall(e->clock);
    usec_t wait = IDLE_MAX, timer = timers_next(e), next = dispatch_next(e);
    if (timer != USEC_NEVER)
        wait = MIN(wait, MAX(timer - wall, 0));
    if (next != USEC_NEVER)
        wait = MIN(wait, MAX(next - now, 0));
    if (!e->is_healthy)
        wait = MIN(wait, MAX(e->retry_at - now, 0));
    return wait;
}
