/* objects.c - hubs, groups, objects and their counts. */
#include "base/assert.h"
#include "store/internal.h"

#include <stdlib.h>

/* ---- hubs and groups ------------------------------------------------------------------------- */

/* Of a hub or group. */
static bool is_number(const struct value *v)
{
    return v->i > 0 && v->i <= UINT32_MAX;
}

/* One number of one row. ERR_NOT_FOUND: no row. */
static enum err find_number(struct store_reader *r, enum stmt id, const struct value *params,
                            uint32_t *out, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value col;
    bool row;
    enum err e;

    if ((e = reader_query(r, id, params, &cur, err)) || (e = reader_next(r, &cur, &col, &row, err)))
        return e;
    if (!row)
        return error_set(err, ERR_NOT_FOUND, "no such row");
    if (col.i < 0 || col.i > UINT32_MAX)
        return error_set(err, ERR_CORRUPT, "number %lld is out of range", (long long)col.i);
    *out = (uint32_t)col.i;
    return OK;
}

static enum err insert_number(struct store *st, enum stmt id, const struct value *params,
                              uint32_t *out, bool *row, struct error *err)
{
    int64_t number = 0;
    enum err e = store_run_number(st, id, params, &number, row, err);

    if (e || !*row)
        return e;
    if (number <= 0 || number > UINT32_MAX)
        return error_set(err, ERR_LIMIT, "no numbers are left for hubs or groups");
    *out = (uint32_t)number;
    return OK;
}

enum err store_hub_find(struct store_reader *r, struct bytes name, uint32_t *hub, struct error *err)
{
    enum err e = find_number(r, STMT_HUB_FIND, (struct value[]){value_text(name)}, hub, err);

    return e ? error_wrap(err, e, "task hub \"%.*s\"", BYTES_FMT(name)) : OK;
}

enum err store_hub_create(struct store *st, struct bytes name, usec_t now, uint32_t *hub,
                          struct error *err)
{
    struct value params[] = {value_text(name), value_int(now)};
    bool row;
    enum err e = insert_number(st, STMT_HUB_INSERT, params, hub, &row, err);

    if (e)
        return error_wrap(err, e, "could not create task hub \"%.*s\"", BYTES_FMT(name));
    return row ? OK : error_set(err, ERR_EXISTS, "task hub \"%.*s\" exists", BYTES_FMT(name));
}

enum err store_hub_list(struct store_reader *r, store_hub_fn *fn, void *arg, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[2];
    bool row;
    enum err e = reader_query(r, STMT_HUB_LIST, NULL, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row)
        if (is_number(&c[0])) /* else it is nobody's */
            fn(arg, (uint32_t)c[0].i, c[1].b);
    return e;
}

static struct value text_or_empty(struct bytes b)
{
    return value_text(bytes_is_none(b) ? BYTES_LIT("") : b);
}

enum err store_group_intern(struct store *st, uint32_t hub, uint8_t kind, struct bytes name,
                            struct bytes version, uint32_t *group, struct error *err)
{
    struct value params[] = {value_int(hub), value_int(kind), text_or_empty(name),
                             text_or_empty(version)};
    struct error none;
    bool row;
    enum err e = find_number(&st->reader, STMT_GROUP_FIND, params, group, &none);

    if (e == OK)
        return OK;
    if (e == ERR_NOT_FOUND)
        e = insert_number(st, STMT_GROUP_INSERT, params, group, &row, err);
    else if (err)
        *err = none;
    return e ? error_wrap(err, e, "could not make group \"%.*s\"", BYTES_FMT(name)) : OK;
}

enum err store_group_list(struct store_reader *r, store_group_fn *fn, void *arg, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[5];
    bool row;
    enum err e = reader_query(r, STMT_GROUP_LIST, NULL, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row) {
        if (!is_number(&c[0]) || !is_number(&c[1]) || c[2].i < 0 || c[2].i > UINT8_MAX)
            continue; /* nobody's */
        struct store_group g = {
            .group = (uint32_t)c[0].i,
            .hub = (uint32_t)c[1].i,
            .kind = (uint8_t)c[2].i,
            .name = c[3].b,
            .version = c[4].b,
        };
        fn(arg, &g);
    }
    return e;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The columns of OBJECT_COLUMNS, in its order. */
enum {
    O_KEY,
    O_HUB,
    O_KIND,
    O_PARTITION,
    O_ID,
    O_NAME,
    O_VERSION,
    O_STATUS,
    O_BASE_STATUS,
    O_FLAGS,
    O_CREATED,
    O_UPDATED,
    O_COMPLETED,
    O_SCHEDULED,
    O_EXECUTION,
    O_EXECUTION_ID,
    O_HISTORY_ROWS,
    O_HISTORY_EVENTS,
    O_HISTORY_BYTES,
    O_LAST_STARTED,
    O_INBOX_NEXT,
    O_INBOX_FIRST,
    O_CUT_SEQ,
    O_CUT_TIME,
    O_CUSTOM_STATUS,
    O_TAGS,
    O_TRACE,
    O_PARENT_ID,
    O_PARENT,
    O_SUM,
    O_COUNT
};
_Static_assert(O_COUNT == OBJECT_COLUMNS_COUNT, "one number a column");

static bool object_decode(const struct value *c, struct store_object *o)
{
    if (c[O_KEY].i < 0 || c[O_HUB].i < 0 || c[O_HUB].i > UINT32_MAX || c[O_KIND].i < 0 ||
        c[O_KIND].i > UINT8_MAX || c[O_PARTITION].i < 0 || c[O_PARTITION].i > UINT32_MAX ||
        c[O_STATUS].i != (int32_t)c[O_STATUS].i ||
        c[O_BASE_STATUS].i != (int32_t)c[O_BASE_STATUS].i ||
        c[O_FLAGS].i != (uint32_t)c[O_FLAGS].i || c[O_EXECUTION].i < 0 || c[O_HISTORY_ROWS].i < 0 ||
        c[O_HISTORY_EVENTS].i < 0 || c[O_HISTORY_BYTES].i < 0)
        return false;
    *o = (struct store_object){
        .key = (uint64_t)c[O_KEY].i,
        .hub = (uint32_t)c[O_HUB].i,
        .kind = (uint8_t)c[O_KIND].i,
        .partition = (uint32_t)c[O_PARTITION].i,
        .id = c[O_ID].b,
        .name = c[O_NAME].b,
        .version = c[O_VERSION].b,
        .status = (int32_t)c[O_STATUS].i,
        .base_status = (int32_t)c[O_BASE_STATUS].i,
        .flags = (uint32_t)c[O_FLAGS].i,
        .created = c[O_CREATED].i,
        .updated = c[O_UPDATED].i,
        .completed = c[O_COMPLETED].i,
        .scheduled = c[O_SCHEDULED].i,
        .execution = (uint64_t)c[O_EXECUTION].i,
        .execution_id = c[O_EXECUTION_ID].b,
        .history_rows = (uint64_t)c[O_HISTORY_ROWS].i,
        .history_events = (uint64_t)c[O_HISTORY_EVENTS].i,
        .history_bytes = (uint64_t)c[O_HISTORY_BYTES].i,
        .last_started = c[O_LAST_STARTED].i,
        .inbox_next = c[O_INBOX_NEXT].i,
        .inbox_first = c[O_INBOX_FIRST].i,
        .cut_seq = c[O_CUT_SEQ].i,
        .cut_time = c[O_CUT_TIME].i,
        .custom_status = c[O_CUSTOM_STATUS].b,
        .tags = c[O_TAGS].b,
        .trace = c[O_TRACE].b,
        .parent_id = c[O_PARENT_ID].b,
        .parent = c[O_PARENT].b,
    };
    return true;
}

/* Moves the views from the cursor's memory into `buf`. */
static void object_keep(struct store_object *o, struct strbuf *buf)
{
    struct bytes *views[] = {&o->id,           &o->name,          &o->version,
                             &o->execution_id, &o->custom_status, &o->tags,
                             &o->trace,        &o->parent_id,     &o->parent};
    size_t len = 1;

    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        len += views[i]->len;
    strbuf_reset(buf);
    (void)strbuf_reserve(buf, len);
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        *views[i] = strbuf_keep(buf, *views[i]);
}

enum err store_object_of(const struct value *cols, struct store_object *out, struct error *err)
{
    enum err e = store_sum_check("object", &cols[O_SUM], cols, O_SUM, err);

    if (!object_decode(cols, out))
        return error_set(err, ERR_CORRUPT, "the row of object %lld is damaged",
                         (long long)cols[O_KEY].i);
    return e ? error_wrap(err, e, "object %lld", (long long)cols[O_KEY].i) : OK;
}

static enum err object_read(struct store_reader *r, enum stmt id, const struct value *params,
                            struct store_object *out, struct strbuf *buf, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value cols[O_COUNT];
    struct store_object o;
    bool row;
    enum err e;

    if ((e = reader_query(r, id, params, &cur, err)) || (e = reader_next(r, &cur, cols, &row, err)))
        return e;
    if (!row)
        return error_set(err, ERR_NOT_FOUND, "no such object");
    if ((e = store_object_of(cols, &o, err)))
        return e;
    object_keep(&o, buf);
    *out = o;
    return OK;
}

enum err store_object_find(struct store_reader *r, uint32_t hub, uint8_t kind, struct bytes id,
                           struct store_object *out, struct strbuf *buf, struct error *err)
{
    struct value params[] = {value_int(hub), value_int(kind), text_or_empty(id)};

    return object_read(r, STMT_OBJECT_FIND, params, out, buf, err);
}

enum err store_object_get(struct store_reader *r, uint64_t key, struct store_object *out,
                          struct strbuf *buf, struct error *err)
{
    if (!key_fits(key))
        return error_set(err, ERR_NOT_FOUND, "no such object");
    return object_read(r, STMT_OBJECT_GET, (struct value[]){value_int((int64_t)key)}, out, buf,
                       err);
}

enum err store_object_list(struct store_reader *r, uint32_t hub, uint8_t kind, bool by_completed,
                           const struct store_place *after, usec_t to, uint32_t max,
                           store_object_fn *fn, void *arg, struct error *err)
{
    struct value params[] = {value_int(hub),           value_int(kind), value_int(after->time),
                             text_or_empty(after->id), value_int(to),   value_int(max)};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value cols[O_COUNT];
    struct store_object o;
    bool row;
    enum err e = reader_query(r, by_completed ? STMT_OBJECT_COMPLETED : STMT_OBJECT_CREATED, params,
                              &cur, err);

    while (!e && (e = reader_next(r, &cur, cols, &row, err)) == OK && row) {
        if (store_object_of(cols, &o, err))
            continue;
        if ((by_completed ? o.completed : o.created) >= to || !fn(arg, &o))
            break;
    }
    return e;
}

static enum err object_check(const struct store_object *o, struct error *err)
{
    if (key_fits(o->key) && key_fits(o->execution) && key_fits(o->history_rows) &&
        key_fits(o->history_events) && key_fits(o->history_bytes))
        return OK;
    return error_set(err, ERR_INTERNAL, "a number of object %llu does not fit into 63 bits",
                     (unsigned long long)o->key);
}

/* All columns, in their order. */
static void object_values(const struct store_object *o, struct value cols[O_COUNT])
{
    const struct value values[O_SUM] = {
        [O_KEY] = value_int((int64_t)o->key),
        [O_HUB] = value_int(o->hub),
        [O_KIND] = value_int(o->kind),
        [O_PARTITION] = value_int(o->partition),
        [O_ID] = text_or_empty(o->id),
        [O_NAME] = value_text(o->name),
        [O_VERSION] = value_text(o->version),
        [O_STATUS] = value_int(o->status),
        [O_BASE_STATUS] = value_int(o->base_status),
        [O_FLAGS] = value_int(o->flags),
        [O_CREATED] = value_int(o->created),
        [O_UPDATED] = value_int(o->updated),
        [O_COMPLETED] = value_int(o->completed),
        [O_SCHEDULED] = value_int(o->scheduled),
        [O_EXECUTION] = value_int((int64_t)o->execution),
        [O_EXECUTION_ID] = value_text(o->execution_id),
        [O_HISTORY_ROWS] = value_int((int64_t)o->history_rows),
        [O_HISTORY_EVENTS] = value_int((int64_t)o->history_events),
        [O_HISTORY_BYTES] = value_int((int64_t)o->history_bytes),
        [O_LAST_STARTED] = value_int(o->last_started),
        [O_INBOX_NEXT] = value_int(o->inbox_next),
        [O_INBOX_FIRST] = value_int(o->inbox_first),
        [O_CUT_SEQ] = value_int(o->cut_seq),
        [O_CUT_TIME] = value_int(o->cut_time),
        [O_CUSTOM_STATUS] = value_text(o->custom_status),
        [O_TAGS] = value_text(o->tags),
        [O_TRACE] = value_blob(o->trace),
        [O_PARENT_ID] = value_text(o->parent_id),
        [O_PARENT] = value_blob(o->parent),
    };

    memcpy(cols, values, sizeof(values));
    cols[O_SUM] = store_sum(cols, O_SUM);
}

enum err store_object_insert(struct store *st, const struct store_object *o, struct error *err)
{
    struct value params[O_COUNT];
    enum err e = object_check(o, err);

    if (e)
        return e;
    object_values(o, params);
    return store_run(st, STMT_OBJECT_INSERT, params, NULL, err);
}

enum err store_object_update(struct store *st, const struct store_object *o, struct error *err)
{
    static const uint8_t COLUMNS[] = {
        O_KEY,          O_NAME,         O_VERSION,        O_STATUS,        O_BASE_STATUS,
        O_FLAGS,        O_UPDATED,      O_COMPLETED,      O_SCHEDULED,     O_EXECUTION,
        O_EXECUTION_ID, O_HISTORY_ROWS, O_HISTORY_EVENTS, O_HISTORY_BYTES, O_LAST_STARTED,
        O_INBOX_NEXT,   O_INBOX_FIRST,  O_CUT_SEQ,        O_CUT_TIME,      O_CUSTOM_STATUS,
        O_TAGS,         O_TRACE,        O_PARENT_ID,      O_PARENT,        O_SUM,
    };
    struct value all[O_COUNT], params[ARRAY_LEN(COLUMNS)];
    uint64_t changed;
    enum err e;

    if ((e = object_check(o, err)))
        return e;
    object_values(o, all);
    for (size_t i = 0; i < ARRAY_LEN(COLUMNS); i++)
        params[i] = all[COLUMNS[i]];
    if ((e = store_run(st, STMT_OBJECT_UPDATE, params, &changed, err)))
        return e;
    if (changed != 1) /* somebody deleted it by hand */
        return error_set(err, ERR_NOT_FOUND, "the row of object %llu (\"%.*s\") is gone",
                         (unsigned long long)o->key, BYTES_FMT(o->id));
    return OK;
}

enum err store_object_delete(struct store *st, uint64_t key, struct error *err)
{
    return store_run(st, STMT_OBJECT_DELETE, (struct value[]){value_int(limit_key(key))}, NULL,
                     err);
}

/* ---- counts ---------------------------------------------------------------------------------- */

enum err store_count_add(struct store *st, uint32_t hub, uint8_t kind, int32_t status,
                         int64_t delta, struct error *err)
{
    enum err e = store_check(st, err);

    if (e)
        return e;
    ASSERT(st->in_txn);
    store_pending_count(
        st, &(struct count_delta){.hub = hub, .kind = kind, .status = status, .n = delta});
    st->has_writes = true;
    return OK;
}

enum err store_count_list(struct store_reader *r, store_count_fn *fn, void *arg, struct error *err)
{
    CLEANUP(store_pending_deinit) struct pending sum = {0};
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[4];
    bool row;
    enum err e = reader_query(r, STMT_COUNT_LIST, NULL, &cur, err);

    while (!e && (e = reader_next(r, &cur, c, &row, err)) == OK && row)
        store_pending_add(&sum, &(struct count_delta){.hub = (uint32_t)c[0].i,
                                                      .kind = (uint8_t)c[1].i,
                                                      .status = (int32_t)c[2].i,
                                                      .n = c[3].i});
    if (e)
        return e;
    if (r->st) { /* what the open transaction has not written yet */
        store_pending_merge(&sum, &r->st->pending);
        store_pending_merge(&sum, &r->st->nested);
    }
    for (size_t i = 0; i < sum.len; i++)
        if (sum.counts[i].n != 0)
            fn(arg, sum.counts[i].hub, sum.counts[i].kind, sum.counts[i].status, sum.counts[i].n);
    return OK;
}
