/* run.c - running statements for the functions of the tables, and the pending numbers. */
#include "base/assert.h"
#include "base/hashmap.h"
#include "base/log.h"
#include "store/internal.h"

#include <stdlib.h>

enum err store_check(const struct store *st, struct error *err)
{
    if (LIKELY(!st->failed))
        return OK;
    return error_set(err, ERR_UNAVAILABLE, "the store failed before and is not open again yet");
}

enum err store_noted(struct store *st, enum err e, const struct error *err)
{
    if (e == ERR_CORRUPT && st->in_txn)
        st->tainted = true;
    if (e != ERR_UNAVAILABLE)
        return e;
    if (!st->failed) {
        if (err)
            st->failure = *err;
        else
            error_set(&st->failure, e, "a call failed");
    }
    st->failed = true;
    return e;
}

bool store_is_tainted(const struct store *st)
{
    return st->tainted;
}

const struct error *store_failure(const struct store *st)
{
    return &st->failure;
}

static uint64_t sum_add(uint64_t sum, const struct value *v)
{
    uint64_t part = (uint64_t)v->type << 60;

    if (v->type == VALUE_INT)
        part ^= (uint64_t)v->i;
    else if (v->type != VALUE_NULL)
        part ^= bytes_hash(v->b);
    return hash_u64(sum * 3 + part + 1);
}

struct value store_sum(const struct value *cols, size_t count)
{
    uint64_t sum = count;

    for (size_t i = 0; i < count; i++)
        sum = sum_add(sum, &cols[i]);
    return value_int((int64_t)(sum >> 33)); /* four bytes in the row */
}

enum err store_sum_check(const char *table, const struct value *sum, const struct value *cols,
                         size_t count, struct error *err)
{
    if (sum->type == VALUE_NULL || sum->i == store_sum(cols, count).i)
        return OK;
    return error_set(err, ERR_CORRUPT,
                     "a row of table \"%s\" is damaged: it is not what was written", table);
}

enum err store_disorder(const char *table, struct error *err)
{
    return error_set(err, ERR_CORRUPT, "rows of table \"%s\" are out of order", table);
}

void cursor_end(struct cursor *cur)
{
    if (cur->handle)
        cur->conn->driver->end(cur);
}

enum err key_error(uint64_t key, struct error *err)
{
    return error_set(err, ERR_INTERNAL, "number %llu does not fit into 63 bits",
                     (unsigned long long)key);
}

struct bytes strbuf_keep(struct strbuf *buf, struct bytes b)
{
    if (bytes_is_none(b))
        return b;
    size_t at = buf->len;
    strbuf_append(buf, b.ptr, b.len);
    return bytes_of(buf->ptr + at, b.len);
}

enum err store_run(struct store *st, enum stmt id, const struct value *params, uint64_t *changed,
                   struct error *err)
{
    enum err e = store_check(st, err);

    if (e)
        return e;
    ASSERT(st->in_txn);
    st->has_writes = true;
    return store_noted(st, st->driver->run(st->conn, id, params, changed, err), err);
}

enum err store_run_number(struct store *st, enum stmt id, const struct value *params, int64_t *out,
                          bool *row, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value col;
    bool got = false, more = false;
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(st->in_txn);
    st->has_writes = true;
    if ((e = st->driver->query(st->conn, id, params, &cur, err)) ||
        (e = st->driver->next(&cur, &col, &got, err)))
        return store_noted(st, e, err);
    int64_t number = got ? col.i : 0;
    while (got && !e && (e = st->driver->next(&cur, &col, &more, err)) == OK && more)
        continue; /* to its end, so that the write is complete */
    if (e)
        return store_noted(st, e, err);
    if (got)
        *out = number;
    *row = got;
    return OK;
}

enum err reader_query(struct store_reader *r, enum stmt id, const struct value *params,
                      struct cursor *out, struct error *err)
{
    enum err e;

    if (!r->st)
        return r->conn->driver->query(r->conn, id, params, out, err);
    struct store *st = r->st;
    if ((e = store_check(st, err)))
        return e;
    if (st->holds_reads && !st->in_read) {
        if ((e = store_noted(st, st->driver->begin(st->conn, false, err), err)))
            return e;
        st->in_read = true;
    }
    return store_noted(st, r->conn->driver->query(r->conn, id, params, out, err), err);
}

enum err reader_next(struct store_reader *r, struct cursor *cur, struct value *cols, bool *row,
                     struct error *err)
{
    enum err e = r->conn->driver->next(cur, cols, row, err);

    return r->st ? store_noted(r->st, e, err) : e;
}

enum err reader_meta_number(struct store_reader *r, struct bytes name, uint64_t max, uint64_t *out,
                            struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value cols[2];
    bool row;
    enum err e;

    if ((e = reader_query(r, STMT_META_GET, (struct value[]){value_text(name)}, &cur, err)) ||
        (e = reader_next(r, &cur, cols, &row, err)))
        return e;
    if (!row || cols[0].type != VALUE_INT || cols[0].i < 0 || (uint64_t)cols[0].i > max)
        return error_set(err, ERR_CORRUPT, "row \"%.*s\" of table \"meta\" is missing or damaged",
                         BYTES_FMT(name));
    *out = (uint64_t)cols[0].i;
    return OK;
}

/* ---- pending numbers ------------------------------------------------------------------------- */

static int delta_cmp(const struct count_delta *a, const struct count_delta *b)
{
    if (a->hub != b->hub)
        return a->hub < b->hub ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->status < b->status ? -1 : a->status > b->status;
}

void store_pending_add(struct pending *p, const struct count_delta *d)
{
    size_t lo = 0, hi = p->len;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (delta_cmp(&p->counts[mid], d) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < p->len && delta_cmp(&p->counts[lo], d) == 0) {
        p->counts[lo].n += d->n;
        return;
    }
    if (p->len == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 16;
        p->counts = realloc(p->counts, p->cap * sizeof(*p->counts));
        if (!p->counts)
            abort(); /* out of memory */
    }
    memmove(&p->counts[lo + 1], &p->counts[lo], (p->len - lo) * sizeof(*p->counts));
    p->counts[lo] = *d;
    p->len++;
}

void store_pending_count(struct store *st, const struct count_delta *d)
{
    store_pending_add(st->in_savepoint ? &st->nested : &st->pending, d);
}

void store_pending_timers(struct store *st, int64_t delta)
{
    *(st->in_savepoint ? &st->nested.timers : &st->pending.timers) += delta;
}

void store_pending_merge(struct pending *into, const struct pending *p)
{
    for (size_t i = 0; i < p->len; i++)
        store_pending_add(into, &p->counts[i]);
    into->timers += p->timers;
}

void store_pending_clear(struct pending *p)
{
    p->len = 0;
    p->timers = 0;
}

void store_pending_deinit(struct pending *p)
{
    free(p->counts);
    *p = (struct pending){0};
}

/* Counts are for people to see: where they are damaged they stay as they are, and work goes on. */
static enum err write_number(struct store *st, enum stmt id, const struct value *params,
                             struct error *err)
{
    enum err e = store_run(st, id, params, NULL, err);

    if (e != ERR_CORRUPT)
        return e;
    if (err)
        log_error(LOG_ERROR, "store: the numbers of instances and timers are kept no more", err);
    st->counts_damaged = true;
    return e;
}

enum err store_pending_write(struct store *st, struct error *err)
{
    struct pending *p = &st->pending;
    enum err e;

    if (st->counts_damaged)
        store_pending_clear(p);
    for (size_t i = 0; i < p->len; i++) {
        const struct count_delta *d = &p->counts[i];
        struct value params[] = {value_int(d->hub), value_int(d->kind), value_int(d->status),
                                 value_int(d->n)};
        if (d->n != 0 && (e = write_number(st, STMT_COUNT_ADD, params, err)))
            return e;
    }
    struct value params[] = {value_text(META_TIMERS), value_int(p->timers)};
    if (p->timers != 0 && (e = write_number(st, STMT_META_ADD, params, err)))
        return e;
    store_pending_clear(p);
    return OK;
}
