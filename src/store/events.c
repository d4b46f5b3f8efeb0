/* events.c - histories and inboxes. */
#include "base/assert.h"
#include "store/internal.h"

/* ---- history --------------------------------------------------------------------------------- */

enum err store_history_append(struct store *st, const struct store_history *h, struct error *err)
{
    struct value params[] = {
        value_int((int64_t)h->execution),
        value_int((int64_t)h->row),
        value_int((int64_t)h->key_base),
        value_int(h->events),
        value_int(h->time),
        value_blob(h->frames),
        {0},
    };

    if (!key_fits(h->execution) || !key_fits(h->row) || !key_fits(h->key_base))
        return key_error(MAX(MAX(h->execution, h->row), h->key_base), err);
    params[6] = store_sum(params, 6);
    return store_run(st, STMT_HISTORY_INSERT, params, NULL, err);
}

enum err store_history_read(struct store_reader *r, uint64_t execution, uint64_t from_row,
                            size_t bytes_max, store_history_fn *fn, void *arg, struct error *err)
{
    struct value params[] = {value_int(limit_key(execution)), value_int(limit_key(from_row))};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[7] = {params[0]}; /* as they were inserted */
    size_t bytes = 0;
    bool row;
    enum err e = reader_query(r, STMT_HISTORY_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c + 1, &row, err)) == OK && row) {
        struct store_history h = {
            .execution = execution,
            .row = (uint64_t)c[1].i,
            .key_base = (uint64_t)c[2].i,
            .events = (uint32_t)c[3].i,
            .time = c[4].i,
            .frames = c[5].b,
        };
        if ((e = store_sum_check("history", &c[6], c, 6, err)))
            return e;
        bytes += h.frames.len;
        if (!fn(arg, &h) || bytes >= bytes_max)
            break;
    }
    return e;
}

/* `rows_max` as a parameter, and what was deleted as a number of rows. */
static enum err delete_rows(struct store *st, enum stmt id, const struct value *params,
                            uint32_t *deleted, struct error *err)
{
    uint64_t changed;
    enum err e = store_run(st, id, params, &changed, err);

    if (!e && deleted)
        *deleted = (uint32_t)MIN(changed, (uint64_t)UINT32_MAX);
    return e;
}

enum err store_history_delete(struct store *st, uint64_t execution, uint32_t rows_max,
                              uint32_t *deleted, struct error *err)
{
    struct value params[] = {value_int(limit_key(execution)), value_int(rows_max)};

    return delete_rows(st, STMT_HISTORY_DELETE, params, deleted, err);
}

/* ---- inbox ----------------------------------------------------------------------------------- */

enum err store_inbox_append(struct store *st, const struct store_inbox *m, struct error *err)
{
    struct value params[] = {
        value_int((int64_t)m->object),
        value_int(m->seq),
        value_int(m->type),
        value_int((int64_t)m->execution),
        value_int(m->ref),
        value_int(m->time),
        value_int(m->ready),
        value_blob(m->event),
        {0},
    };

    if (!key_fits(m->object) || !key_fits(m->execution))
        return key_error(MAX(m->object, m->execution), err);
    params[8] = store_sum(params, 8);
    return store_run(st, STMT_INBOX_INSERT, params, NULL, err);
}

enum err store_inbox_read(struct store_reader *r, uint64_t object, int64_t from_seq,
                          uint32_t rows_max, size_t bytes_max, store_inbox_fn *fn, void *arg,
                          struct error *err)
{
    struct value params[] = {value_int(limit_key(object)), value_int(from_seq),
                             value_int(rows_max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[9] = {params[0]}; /* as they were inserted */
    size_t bytes = 0;
    bool row;
    enum err e = reader_query(r, STMT_INBOX_READ, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, c + 1, &row, err)) == OK && row) {
        struct store_inbox m = {
            .object = object,
            .seq = c[1].i,
            .type = (int32_t)c[2].i,
            .execution = (uint64_t)c[3].i,
            .ref = c[4].i,
            .time = c[5].i,
            .ready = c[6].i,
            .event = c[7].b,
        };
        if ((e = store_sum_check("inbox", &c[8], c, 8, err)))
            return e;
        bytes += m.event.len;
        if (!fn(arg, &m) || bytes >= bytes_max)
            break;
    }
    return e;
}

enum err store_inbox_delete(struct store *st, uint64_t object, int64_t from_seq, int64_t to_seq,
                            uint32_t rows_max, uint32_t *deleted, struct error *err)
{
    struct value params[] = {value_int(limit_key(object)), value_int(from_seq), value_int(to_seq),
                             value_int(rows_max)};

    return delete_rows(st, rows_max ? STMT_INBOX_DELETE_MAX : STMT_INBOX_DELETE, params, deleted,
                       err);
}

enum err store_inbox_bounds(struct store_reader *r, uint64_t object, bool *any, int64_t *first,
                            int64_t *last, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[2];
    bool row;
    enum err e = reader_query(r, STMT_INBOX_BOUNDS, (struct value[]){value_int(limit_key(object))},
                              &cur, err);

    if (e || (e = reader_next(r, &cur, c, &row, err)))
        return e;
    *any = row && c[0].type == VALUE_INT && c[1].type == VALUE_INT;
    *first = *any ? c[0].i : 0;
    *last = *any ? c[1].i : 0;
    return OK;
}

enum err store_inbox_objects(struct store_reader *r, uint64_t after, uint32_t max, store_key_fn *fn,
                             void *arg, struct error *err)
{
    struct value params[] = {value_int(limit_key(after)), value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value col;
    bool row;
    int64_t last = limit_key(after);
    enum err e = reader_query(r, STMT_INBOX_OBJECTS, params, &cur, err);

    while (!e && (e = reader_next(r, &cur, &col, &row, err)) == OK && row) {
        if (col.i <= last)
            return store_disorder("inbox", err);
        last = col.i;
        fn(arg, (uint64_t)col.i);
    }
    return e;
}
