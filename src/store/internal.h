/* internal.h - struct store and the helpers that its source files share. Not for other folders.
 *
 * store.c opens, commits and keeps numbers; objects.c, events.c and work.c are the functions of the
 * tables. All of them check for a failed store first, so that nothing runs between ERR_UNAVAILABLE
 * and a successful store_reopen().
 */
#pragma once

#include <stdatomic.h>

#include "store/driver.h"

struct store_reader {
    struct conn *conn;
    struct store *st; /* the writer's own reader; NULL: a connection of its own */
    bool in_txn;
};

/* Changes of one number of `count`, not written yet. */
struct count_delta {
    uint32_t hub;
    uint8_t kind;
    int32_t status;
    int64_t n;
};

/* Numbers that change many times in a transaction and are written once, at its commit. */
struct pending {
    struct count_delta *counts; /* sorted by hub, kind, status */
    size_t len, cap;
    int64_t timers;
};

/* Tasks that the transaction has inserted, or the last one when none is open: most go to a worker as soon as it is committed,
 * and need not be read back. Small ones only, and not many. */
#define RECENT_ROWS 4096
#define RECENT_BYTES KIB(512) /* of all payloads */

struct recent_task {
    struct store_task task; /* without its payload */
    size_t at, len;         /* of the payload in `bytes`; len SIZE_MAX: none */
    bool is_deleted;
};

struct recent {
    struct recent_task *tasks; /* by growing key */
    size_t count, cap;
    struct strbuf bytes;
};

struct store {
    const struct driver *driver;
    struct db *db;
    struct conn *conn; /* the writer; NULL after a reopen that did not work */
    struct store_reader reader;
    struct store_info info;
    const struct settings *settings;
    const struct clock *clock;
    bool failed;          /* until store_reopen() works */
    struct error failure; /* why */
    bool counts_damaged;  /* numbers of instances and timers are not written any more */
    bool tainted;         /* the open transaction has met damage */
    bool in_txn, in_savepoint, has_writes;
    bool holds_reads, in_read; /* between store_read_begin() and _end(); one came */
    bool savepoint_has_writes; /* has_writes when the savepoint was made */
    struct pending pending;    /* of the transaction */
    struct pending nested;     /* since the savepoint */
    uint64_t key_next;         /* the next number to give out */
    uint64_t key_end;          /* reserved up to here, exclusive, as this transaction sees it */
    uint64_t key_end_committed, key_end_savepoint;
    struct recent recent;
    _Atomic uint64_t commits, flushes;
};

/* A write statement of the open transaction; *changed may be NULL. */
MUST_CHECK enum err store_run(struct store *st, enum stmt id, const struct value *params,
                              uint64_t *changed, struct error *err);
/* A write statement that gives one number (RETURNING); *row false: none. */
MUST_CHECK enum err store_run_number(struct store *st, enum stmt id, const struct value *params,
                                     int64_t *out, bool *row, struct error *err);

MUST_CHECK enum err reader_query(struct store_reader *r, enum stmt id, const struct value *params,
                                 struct cursor *out, struct error *err);
MUST_CHECK enum err reader_next(struct store_reader *r, struct cursor *cur, struct value *cols,
                                bool *row, struct error *err);
void cursor_end(struct cursor *cur);

/* Adds to a pending number of the transaction or of the savepoint in it. */
void store_pending_timers(struct store *st, int64_t delta);
void store_pending_count(struct store *st, const struct count_delta *d);
void store_pending_add(struct pending *p, const struct count_delta *d);
void store_pending_merge(struct pending *into, const struct pending *p); /* timers too */
void store_pending_clear(struct pending *p);
void store_pending_deinit(struct pending *p);
/* Writes and clears what the transaction has pending. */
MUST_CHECK enum err store_pending_write(struct store *st, struct error *err);

/* ERR_UNAVAILABLE: the store failed and was not reopened. */
MUST_CHECK enum err store_check(const struct store *st, struct error *err);

/* Notes after ERR_UNAVAILABLE that the writer must be reopened, and why; after ERR_CORRUPT that the transaction is tainted;
 * returns `e`. */
enum err store_noted(struct store *st, enum err e, const struct error *err);
/* The value of a row's column `sum`, over its other columns in the order of their INSERT. Never changes: it is stored. 31 bits. */
struct value store_sum(const struct value *cols, size_t count);
/* ERR_CORRUPT: `sum` (read from the row) is there, and not that of the columns. */
MUST_CHECK enum err store_sum_check(const char *table, const struct value *sum,
                                    const struct value *cols, size_t count, struct error *err);
/* A row of OBJECT_COLUMNS; views into the columns. ERR_CORRUPT: damaged. */
MUST_CHECK enum err store_object_of(const struct value *cols, struct store_object *out,
                                    struct error *err);
/* ERR_CORRUPT: rows that are read in an order do not come in it. */
MUST_CHECK enum err store_disorder(const char *table, struct error *err);

void store_recent_add(struct store *st, const struct store_task *t);
void store_recent_delete(struct store *st, uint64_t key);
/* False: it is not known here. The payload lives until the next transaction. */
bool store_recent_find(const struct store *st, uint32_t group, uint64_t key,
                       struct store_task *out);
void store_recent_clear(struct store *st);
void store_recent_deinit(struct store *st);

/* Names of rows in `meta`. */
#define META_PARTITIONS BYTES_LIT("partitions")
#define META_SECRET BYTES_LIT("secret")
#define META_CREATED BYTES_LIT("created")
#define META_NEXT_KEY BYTES_LIT("next_key")
#define META_TIMERS BYTES_LIT("timers")

/* A number of `meta`, at most `max`. ERR_CORRUPT: missing or out of range. */
MUST_CHECK enum err reader_meta_number(struct store_reader *r, struct bytes name, uint64_t max,
                                       uint64_t *out, struct error *err);

/* Keys are stored in signed 64-bit columns. `limit_key` is for bounds, which may be anything. */
static inline bool key_fits(uint64_t key)
{
    return key <= (uint64_t)INT64_MAX;
}
enum err key_error(uint64_t key, struct error *err); /* ERR_INTERNAL: it does not fit */
static inline int64_t limit_key(uint64_t key)
{
    return key > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)key;
}

/* Copies the bytes of columns that are to outlive the cursor: reserve first, then copy each. */
struct bytes strbuf_keep(struct strbuf *buf, struct bytes b);
