/* work.c - tasks, timers, the mailbox and the trash. */
#include "base/assert.h"
#include "store/internal.h"

/* One row into `cols`. ERR_NOT_FOUND: no row. The columns live until the cursor ends. */
static enum err read_one(struct store_reader *r, enum stmt id, const struct value *params,
                         struct cursor *cur, struct value *cols, struct error *err)
{
    bool row;
    enum err e;

    if ((e = reader_query(r, id, params, cur, err)) || (e = reader_next(r, cur, cols, &row, err)))
        return e;
    return row ? OK : error_set(err, ERR_NOT_FOUND, "no such row");
}

static enum err delete_one(struct store *st, enum stmt id, const struct value *params,
                           bool *existed, struct error *err)
{
    uint64_t changed;
    enum err e = store_run(st, id, params, &changed, err);

    if (!e && existed)
        *existed = changed > 0;
    return e;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

enum err store_task_insert(struct store *st, const struct store_task *t, struct error *err)
{
    struct value params[] = {
        value_int(t->group),
        value_int((int64_t)t->key),
        value_int((int64_t)t->object),
        value_int((int64_t)t->execution),
        value_int(t->ref),
        value_int(t->time),
        value_blob(t->payload),
        {0},
    };

    if (!key_fits(t->key) || !key_fits(t->object) || !key_fits(t->execution))
        return key_error(MAX(MAX(t->key, t->object), t->execution), err);
    params[7] = store_sum(params, 7);
    enum err e = store_run(st, STMT_TASK_INSERT, params, NULL, err);
    if (!e)
        store_recent_add(st, t);
    return e;
}

/* From memory, if the last transaction inserted it. */
static bool task_get_recent(const struct store *st, uint32_t group, uint64_t key,
                            struct store_task *out, struct strbuf *buf)
{
    struct store_task t;

    if (!store_recent_find(st, group, key, &t))
        return false;
    strbuf_reset(buf);
    (void)strbuf_reserve(buf, t.payload.len + 1);
    t.payload = strbuf_keep(buf, t.payload);
    *out = t;
    return true;
}

enum err store_task_get(struct store_reader *r, uint32_t group, uint64_t key,
                        struct store_task *out, struct strbuf *buf, struct error *err)
{
    struct value params[] = {value_int(group), value_int(limit_key(key))};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[8] = {params[0], params[1]}; /* as they were inserted */
    enum err e;

    if (r->st && (e = store_check(r->st, err)))
        return e;
    if (r->st && task_get_recent(r->st, group, key, out, buf))
        return OK;
    e = read_one(r, STMT_TASK_GET, params, &cur, c + 2, err);

    if (e || (e = store_sum_check("task", &c[7], c, 7, err)))
        return e;
    strbuf_reset(buf);
    (void)strbuf_reserve(buf, c[6].b.len + 1);
    *out = (struct store_task){
        .group = group,
        .key = key,
        .object = (uint64_t)c[2].i,
        .execution = (uint64_t)c[3].i,
        .ref = c[4].i,
        .time = c[5].i,
        .payload = strbuf_keep(buf, c[6].b),
    };
    return OK;
}

enum err store_task_delete(struct store *st, uint32_t group, uint64_t key, bool *existed,
                           struct error *err)
{
    store_recent_delete(st, key);
    struct value params[] = {value_int(group), value_int(limit_key(key))};

    return delete_one(st, STMT_TASK_DELETE, params, existed, err);
}

enum err store_task_read(struct store_reader *r, uint32_t group, uint64_t after, uint32_t max,
                         store_task_fn *fn, void *arg, struct error *err)
{
    struct value params[] = {value_int(group), value_int(limit_key(after)), value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[5];
    bool row;
    int64_t last = limit_key(after);
    enum err e = reader_query(r, STMT_TASK_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row) {
        struct store_task t = {
            .group = group,
            .key = (uint64_t)c[0].i,
            .object = (uint64_t)c[1].i,
            .execution = (uint64_t)c[2].i,
            .ref = c[3].i,
            .time = c[4].i,
        };
        if (c[0].i <= last)
            return store_disorder("task", err);
        last = c[0].i;
        if (!fn(arg, &t))
            break;
    }
    return e;
}

enum err store_task_groups(struct store_reader *r, store_key_fn *fn, void *arg, struct error *err)
{
    struct value params[] = {value_int(-1), value_int(INT64_MAX)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value col;
    bool row;
    int64_t last = -1;
    enum err e = reader_query(r, STMT_TASK_GROUPS, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, &col, &row, err)) == OK && row) {
        if (col.i <= last)
            return store_disorder("task", err);
        last = col.i;
        fn(arg, (uint64_t)col.i);
    }
    return e;
}

/* ---- timers ---------------------------------------------------------------------------------- */

enum err store_timer_insert(struct store *st, const struct store_timer *t, struct error *err)
{
    struct value params[] = {
        value_int(t->due),
        value_int((int64_t)t->key),
        value_int((int64_t)t->object),
        value_int((int64_t)t->execution),
        value_int(t->what),
        value_int(t->ref),
        value_blob(t->payload),
        {0},
    };
    enum err e;

    if (!key_fits(t->key) || !key_fits(t->object) || !key_fits(t->execution))
        return key_error(MAX(MAX(t->key, t->object), t->execution), err);
    params[7] = store_sum(params, 7);
    if ((e = store_run(st, STMT_TIMER_INSERT, params, NULL, err)))
        return e;
    store_pending_timers(st, 1);
    return OK;
}

enum err store_timer_delete(struct store *st, usec_t due, uint64_t key, bool *existed,
                            struct error *err)
{
    struct value params[] = {value_int(due), value_int(limit_key(key))};
    bool gone = false;
    enum err e = delete_one(st, STMT_TIMER_DELETE, params, &gone, err);

    if (e)
        return e;
    store_pending_timers(st, gone ? -1 : 0);
    if (existed)
        *existed = gone;
    return OK;
}

enum err store_timer_get(struct store_reader *r, usec_t due, uint64_t key, struct store_timer *out,
                         struct strbuf *buf, struct error *err)
{
    struct value params[] = {value_int(due), value_int(limit_key(key))};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[8] = {params[0], params[1]}; /* as they were inserted */
    enum err e = read_one(r, STMT_TIMER_GET, params, &cur, c + 2, err);

    if (e || (e = store_sum_check("timer", &c[7], c, 7, err)))
        return e;
    strbuf_reset(buf);
    (void)strbuf_reserve(buf, c[6].b.len + 1);
    *out = (struct store_timer){
        .due = due,
        .key = key,
        .object = (uint64_t)c[2].i,
        .execution = (uint64_t)c[3].i,
        .what = (int32_t)c[4].i,
        .ref = c[5].i,
        .payload = strbuf_keep(buf, c[6].b),
    };
    return OK;
}

enum err store_timer_read(struct store_reader *r, usec_t after_due, uint64_t after_key,
                          usec_t due_max, uint32_t max, store_timer_fn *fn, void *arg,
                          struct error *err)
{
    struct value params[] = {value_int(after_due), value_int(limit_key(after_key)),
                             value_int(due_max), value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[7];
    bool row;
    usec_t due = after_due;
    int64_t key = limit_key(after_key);
    enum err e = reader_query(r, STMT_TIMER_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row) {
        struct store_timer t = {
            .due = c[0].i,
            .key = (uint64_t)c[1].i,
            .object = (uint64_t)c[2].i,
            .execution = (uint64_t)c[3].i,
            .what = (int32_t)c[4].i,
            .ref = c[5].i,
            .payload = c[6].b,
        };
        if (t.due < due || (t.due == due && c[1].i <= key))
            return store_disorder("timer", err);
        due = t.due;
        key = c[1].i;
        if (!fn(arg, &t))
            break;
    }
    return e;
}

enum err store_timer_delete_execution(struct store *st, uint64_t execution, uint32_t rows_max,
                                      uint32_t *deleted, struct error *err)
{
    struct value params[] = {value_int(limit_key(execution)), value_int(rows_max)};
    uint64_t changed;
    enum err e = store_run(st, STMT_TIMER_DELETE_OF, params, &changed, err);

    if (e)
        return e;
    store_pending_timers(st, -(int64_t)changed);
    if (deleted)
        *deleted = (uint32_t)changed;
    return OK;
}

enum err store_timer_count(struct store_reader *r, uint64_t *count, struct error *err)
{
    uint64_t stored;
    enum err e = reader_meta_number(r, META_TIMERS, INT64_MAX, &stored, err);

    if (e)
        return e;
    int64_t now = (int64_t)stored + (r->st ? r->st->pending.timers + r->st->nested.timers : 0);
    *count = now > 0 ? (uint64_t)now : 0;
    return OK;
}

/* ---- mailbox --------------------------------------------------------------------------------- */

enum err store_mail_insert(struct store *st, const struct store_mail *m, struct error *err)
{
    struct value params[] = {
        value_int((int64_t)m->seq),
        value_int(m->hub),
        value_int(m->kind),
        value_int(m->partition),
        value_text(bytes_is_none(m->id) ? BYTES_LIT("") : m->id),
        value_int(m->what),
        value_blob(m->payload),
        {0},
    };

    if (!key_fits(m->seq))
        return key_error(m->seq, err);
    params[7] = store_sum(params, 7);
    return store_run(st, STMT_MAIL_INSERT, params, NULL, err);
}

enum err store_mail_read(struct store_reader *r, uint64_t after, uint32_t max, store_mail_fn *fn,
                         void *arg, struct error *err)
{
    struct value params[] = {value_int(limit_key(after)), value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[8];
    bool row;
    int64_t last = limit_key(after);
    enum err e = reader_query(r, STMT_MAIL_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row) {
        struct store_mail m = {
            .seq = (uint64_t)c[0].i,
            .hub = (uint32_t)c[1].i,
            .kind = (uint8_t)c[2].i,
            .partition = (uint32_t)c[3].i,
            .id = c[4].b,
            .what = (int32_t)c[5].i,
            .payload = c[6].b,
        };
        if (c[0].i <= last)
            return store_disorder("mailbox", err);
        if ((e = store_sum_check("mailbox", &c[7], c, 7, err)))
            return e;
        last = c[0].i;
        if (!fn(arg, &m))
            break;
    }
    return e;
}

enum err store_mail_delete(struct store *st, uint64_t seq, struct error *err)
{
    return store_run(st, STMT_MAIL_DELETE, (struct value[]){value_int(limit_key(seq))}, NULL, err);
}

/* ---- trash ----------------------------------------------------------------------------------- */

enum err store_trash_insert(struct store *st, const struct store_trash *t, struct error *err)
{
    struct value params[] = {value_int((int64_t)t->seq), value_int(t->what),
                             value_int((int64_t)t->key)};

    if (!key_fits(t->seq) || !key_fits(t->key))
        return key_error(MAX(t->seq, t->key), err);
    return store_run(st, STMT_TRASH_INSERT, params, NULL, err);
}

enum err store_trash_read(struct store_reader *r, uint64_t after, uint32_t max, store_trash_fn *fn,
                          void *arg, struct error *err)
{
    struct value params[] = {value_int(limit_key(after)), value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[3];
    bool row;
    int64_t last = limit_key(after);
    enum err e = reader_query(r, STMT_TRASH_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row) {
        struct store_trash t = {
            .seq = (uint64_t)c[0].i, .what = (int32_t)c[1].i, .key = (uint64_t)c[2].i};
        if (c[0].i <= last)
            return store_disorder("trash", err);
        last = c[0].i;
        if (!fn(arg, &t))
            break;
    }
    return e;
}

enum err store_trash_delete(struct store *st, uint64_t seq, struct error *err)
{
    return store_run(st, STMT_TRASH_DELETE, (struct value[]){value_int(limit_key(seq))}, NULL, err);
}
