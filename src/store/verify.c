/* verify.c - reading all of a store: what does not hold, and a copy. */
#include "base/assert.h"
#include "store/internal.h"

#include <inttypes.h>
#include <stdio.h>

#define FINDINGS_MAX 100 /* of a name */

struct verify {
    struct store_reader *r;
    const struct store_verify_events *ev;
    const char *last; /* name of the last finding, */
    unsigned count;   /* and how many of it there were */
};

static void say(struct verify *v, const char *name, const char *text)
{
    if (v->last != name) {
        v->last = name;
        v->count = 0;
    }
    if (v->count++ < FINDINGS_MAX)
        v->ev->finding(v->ev->arg, name, text);
}

PRINTF_LIKE(3, 4)
static void sayf(struct verify *v, const char *name, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    say(v, name, text);
}

static void damaged_page(void *arg, const char *text)
{
    say(arg, "database-damaged", text);
}

/* A row that cannot be read is a finding; the walk ends there and others go on. */
static enum err damage_found(struct verify *v, enum err e, const char *table,
                             const struct error *err)
{
    if (e != ERR_CORRUPT)
        return e;
    sayf(v, "row-damaged", "table \"%s\": %s", table, err->msg);
    return OK;
}

/* ---- rows by themselves -------------------------------------------------------------------------- */

/* All rows of a table, whose columns are those of its INSERT with the sum at the end. */
static enum err look_at_rows(struct verify *v, enum stmt id, const char *table, size_t count,
                             struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[STATEMENT_COLUMNS_MAX];
    bool row;
    enum err e = reader_query(v->r, id, NULL, &cur, err);

    while (!e && (e = reader_next(v->r, &cur, c, &row, err)) == OK && row)
        if (store_sum_check(table, &c[count], c, count, err))
            sayf(v, "row-damaged", "table \"%s\", row %" PRId64 " %" PRId64 ": %s", table, c[0].i,
                 c[1].i, err->msg);
    return damage_found(v, e, table, err);
}

/* ---- objects with what is theirs ------------------------------------------------------------------- */

struct owned {
    struct verify *v;
    const struct store_object *o;
    uint64_t rows, events, bytes;
    bool has_gap;
    int64_t seq;
};

static bool one_history(void *arg, const struct store_history *h)
{
    struct owned *w = arg;

    w->has_gap = w->has_gap || h->row != ++w->rows;
    w->events += h->events;
    w->bytes += h->frames.len;
    w->v->ev->history(w->v->ev->arg, h);
    return true;
}

static bool one_arrival(void *arg, const struct store_inbox *m)
{
    struct owned *w = arg;

    if (m->seq < w->o->inbox_first) /* inbox_next is written with the next turn only */
        sayf(w->v, "inbox-bounds",
             "\"%.*s\" has an inbox row %" PRId64 " before its first, %" PRId64,
             BYTES_FMT(w->o->id), m->seq, w->o->inbox_first);
    return true;
}

static enum err look_at_history(struct owned *w, struct error *err)
{
    const struct store_object *o = w->o;
    enum err e = store_history_read(w->v->r, o->execution, 1, SIZE_MAX, one_history, w, err);

    if (e)
        return damage_found(w->v, e, "history", err);
    if (w->has_gap || w->rows != o->history_rows)
        sayf(w->v, "history-gap",
             "\"%.*s\" has %" PRIu64 " rows of history%s, and its own row says %" PRIu64,
             BYTES_FMT(o->id), w->rows, w->has_gap ? " with gaps" : "", o->history_rows);
    else if (w->events != o->history_events || w->bytes != o->history_bytes)
        sayf(w->v, "history-numbers",
             "\"%.*s\" has %" PRIu64 " events of %" PRIu64 " bytes, and its own row says %" PRIu64
             " and %" PRIu64,
             BYTES_FMT(o->id), w->events, w->bytes, o->history_events, o->history_bytes);
    return OK;
}

static enum err look_at_object(struct verify *v, const struct store_object *o, struct error *err)
{
    struct owned w = {.v = v, .o = o};
    v->ev->object(v->ev->arg, o);
    enum err e = look_at_history(&w, err);

    if (!e)
        e = damage_found(
            v,
            store_inbox_read(v->r, o->key, INT64_MIN, UINT32_MAX, SIZE_MAX, one_arrival, &w, err),
            "inbox", err);
    return e;
}

static enum err look_at_objects(struct verify *v, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[STATEMENT_COLUMNS_MAX];
    struct store_object o;
    bool row;
    enum err e = reader_query(v->r, STMT_OBJECT_ALL, NULL, &cur, err);

    while (!e && (e = reader_next(v->r, &cur, c, &row, err)) == OK && row) {
        enum err bad = store_object_of(c, &o, err);
        if (bad)
            sayf(v, "row-damaged", "table \"object\": %s", err->msg);
        else
            e = look_at_object(v, &o, err);
    }
    return damage_found(v, e, "object", err);
}

/* ---- what belongs to nobody, and numbers ------------------------------------------------------------- */

static const struct {
    enum stmt id;
    const char *name, *fmt;
} ORPHANS[] = {
    {STMT_HISTORY_ORPHANS, "orphan-history",
     "execution %" PRId64 " has %" PRId64 " rows of history and belongs to no instance"},
    {STMT_INBOX_ORPHANS, "orphan-inbox",
     "object %" PRId64 " has %" PRId64 " inbox rows and does not exist"},
    {STMT_TIMER_ORPHANS, "orphan-timer",
     "execution %" PRId64 " has %" PRId64 " timers and belongs to no instance"},
    {STMT_TASK_ORPHANS, "orphan-work",
     "work group %" PRId64 " has %" PRId64 " rows and does not exist: no worker gets them"},
    {STMT_HUB_ORPHANS, "unknown-hub",
     "task hub %" PRId64 " is named by %" PRId64 " rows and does not exist"},
};

static enum err look_for_orphans(struct verify *v, size_t which, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[2];
    bool row;
    enum err e = reader_query(v->r, ORPHANS[which].id, NULL, &cur, err);

    while (!e && (e = reader_next(v->r, &cur, c, &row, err)) == OK && row) {
        char text[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof(text), ORPHANS[which].fmt, c[0].i, c[1].i);
#pragma GCC diagnostic pop
        say(v, ORPHANS[which].name, text);
    }
    return e;
}

static enum err look_at_counts(struct verify *v, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c[5];
    bool row;
    enum err e = reader_query(v->r, STMT_COUNT_WRONG, NULL, &cur, err);

    while (!e && (e = reader_next(v->r, &cur, c, &row, err)) == OK && row)
        sayf(v, "count-instances",
             "task hub %" PRId64 ", kind %" PRId64 ", status %" PRId64 ": counted as %" PRId64
             ", there are %" PRId64,
             c[0].i, c[1].i, c[2].i, c[3].i, c[4].i);
    return e;
}

static enum err one_number(struct verify *v, enum stmt id, int64_t *out, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value c;
    bool row;
    enum err e = reader_query(v->r, id, NULL, &cur, err);

    if (e || (e = reader_next(v->r, &cur, &c, &row, err)))
        return e;
    *out = row && c.type == VALUE_INT ? c.i : 0;
    return OK;
}

static enum err look_at_numbers(struct verify *v, struct error *err)
{
    uint64_t timers, next;
    int64_t there, highest;
    enum err e;

    if ((e = one_number(v, STMT_TIMER_COUNT, &there, err)) ||
        (e = one_number(v, STMT_KEY_HIGHEST, &highest, err)) ||
        (e = store_timer_count(v->r, &timers, err)) ||
        (e = reader_meta_number(v->r, META_NEXT_KEY, INT64_MAX, &next, err)))
        return damage_found(v, e, "meta", err);
    if ((uint64_t)there != timers)
        sayf(v, "count-timers", "counted as %" PRIu64 ", there are %" PRId64, timers, there);
    if ((uint64_t)highest >= next)
        sayf(v, "next-number", "the next number is %" PRIu64 ", and %" PRId64 " is in use", next,
             highest);
    return OK;
}

static enum err look_at_database(struct verify *v, struct error *err)
{
    enum err e = v->r->conn->driver->integrity(v->r->conn, damaged_page, v, err);

    if (e == ERR_CORRUPT) { /* damaged so that the check itself ends */
        say(v, "database-damaged", err->msg);
        return OK;
    }
    return e;
}

static enum err look_at_all(struct verify *v, struct error *err)
{
    enum err e;

    if ((e = look_at_database(v, err)) || (e = look_at_objects(v, err)) ||
        (e = look_at_rows(v, STMT_TASK_ALL, "task", 7, err)) ||
        (e = look_at_rows(v, STMT_TIMER_ALL, "timer", 7, err)) ||
        (e = look_at_rows(v, STMT_MAIL_ALL, "mailbox", 7, err)))
        return e;
    for (size_t i = 0; i < ARRAY_LEN(ORPHANS); i++)
        if ((e = damage_found(v, look_for_orphans(v, i, err), ORPHANS[i].name, err)))
            return e;
    if ((e = damage_found(v, look_at_counts(v, err), "count", err)))
        return e;
    return look_at_numbers(v, err);
}

static enum err begin(struct store_reader *r, struct error *err)
{
    if (!r->st)
        return store_reader_begin(r, err);
    store_read_begin(r->st); /* of a store that is open read-only */
    return OK;
}

static void end(struct store_reader *r)
{
    if (r->st)
        store_read_end(r->st);
    else
        store_reader_end(r);
}

enum err store_verify(struct store_reader *r, const struct store_verify_events *ev,
                      struct error *err)
{
    struct verify v = {.r = r, .ev = ev};
    enum err e = begin(r, err);

    if (e)
        return e;
    e = look_at_all(&v, err);
    end(r);
    return e;
}

enum err store_copy(struct store_reader *r, const char *path, struct error *err)
{
    enum err e = begin(r, err);

    if (e)
        return e;
    e = r->conn->driver->copy(r->conn, path, err);
    end(r);
    return e;
}

void store_reader_stop_at(struct store_reader *r, const _Atomic bool *stop)
{
    r->conn->driver->stop_at(r->conn, stop);
}
