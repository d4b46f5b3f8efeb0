#include "store/store.h"

#include "base/assert.h"
#include "store/internal.h"
#include "store/schema.h"

#include <stdlib.h>

#define KEY_BLOCK 4096 /* numbers reserved at a time: one row written for so many */
#define PARTITIONS_MAX 65536
#define REOPEN_LOG_WAIT (USEC_PER_SEC)

struct store_checkpointer {
    struct conn *conn;
};

static const struct driver *driver_of(const struct conn *c)
{
    return c->driver;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum err meta_secret(struct store *st, struct error *err)
{
    CLEANUP(cursor_end) struct cursor cur = {0};
    struct value cols[2];
    bool row;
    enum err e;

    if ((e = reader_query(&st->reader, STMT_META_GET, (struct value[]){value_text(META_SECRET)},
                          &cur, err)) ||
        (e = reader_next(&st->reader, &cur, cols, &row, err)))
        return e;
    if (!row || cols[1].type != VALUE_BLOB || cols[1].b.len != STORE_SECRET_LEN)
        return error_set(err, ERR_CORRUPT,
                         "row \"secret\" of table \"meta\" is missing or damaged");
    memcpy(st->info.secret, cols[1].b.ptr, STORE_SECRET_LEN);
    return OK;
}

static enum err load_next_key(struct store *st, struct error *err)
{
    uint64_t next;
    enum err e = reader_meta_number(&st->reader, META_NEXT_KEY, INT64_MAX, &next, err);

    if (e)
        return e;
    /* After a reopen numbers may have been given out beyond what was committed: never again. */
    st->key_next = MAX(st->key_next, next);
    st->key_end = st->key_end_committed = next;
    return OK;
}

static enum err load_info(struct store *st, struct error *err)
{
    uint64_t partitions, created;
    enum err e;

    if ((e = reader_meta_number(&st->reader, META_PARTITIONS, PARTITIONS_MAX, &partitions, err)) ||
        (e = reader_meta_number(&st->reader, META_CREATED, INT64_MAX, &created, err)) ||
        (e = meta_secret(st, err)) || (e = load_next_key(st, err)))
        return e;
    if (partitions == 0)
        return error_set(err, ERR_CORRUPT, "row \"partitions\" of table \"meta\" is damaged");
    st->info.partitions = (uint32_t)partitions;
    st->info.created = (usec_t)created;
    return OK;
}

static enum err meta_set(struct store *st, struct bytes name, int64_t number, struct bytes bytes,
                         struct error *err)
{
    struct value params[] = {value_text(name), value_int(number), value_blob(bytes)};

    return store_run(st, STMT_META_SET, params, NULL, err);
}

/* What is fixed when the store is made. */
static enum err write_info(struct store *st, const struct store_options *opts, struct error *err)
{
    uint8_t secret[STORE_SECRET_LEN];
    uint32_t partitions = opts->partitions ? opts->partitions : STORE_PARTITIONS_DEFAULT;
    enum err e;

    if (partitions > PARTITIONS_MAX)
        return error_set(err, ERR_INVALID, "%u partitions are too many: at most %d", partitions,
                         PARTITIONS_MAX);
    prng_fill(opts->prng, secret, sizeof(secret));
    if ((e = meta_set(st, META_PARTITIONS, partitions, BYTES_NONE, err)) ||
        (e = meta_set(st, META_SECRET, 0, bytes_of(secret, sizeof(secret)), err)) ||
        (e = meta_set(st, META_CREATED, clock_wall(opts->clock), BYTES_NONE, err)) ||
        (e = meta_set(st, META_NEXT_KEY, 1, BYTES_NONE, err)))
        return e;
    return meta_set(st, META_TIMERS, 0, BYTES_NONE, err);
}

/* One transaction a migration: a crash leaves the store at one number or the next. */
static enum err migrate_one(struct store *st, const struct store_options *opts, uint32_t number,
                            struct error *err)
{
    enum err e = store_begin(st, err);

    if (e)
        return e;
    if ((e = st->driver->migrate(st->conn, number, err)) ||
        (number == 1 && (e = write_info(st, opts, err)))) {
        store_rollback(st);
        return error_wrap(err, e, "could not apply migration %u", number);
    }
    st->has_writes = true;
    return store_commit(st, err);
}

static enum err migrate(struct store *st, const struct store_options *opts, struct error *err)
{
    uint32_t number;
    enum err e = st->driver->schema(st->conn, &number, err);

    if (e)
        return e;
    if (number > SCHEMA_NUMBER)
        return error_set(
            err, ERR_STORE_OPEN,
            "\"%s\" has schema %u and this server knows up to %d: use a newer server for it",
            st->driver->label(st->db), number, SCHEMA_NUMBER);
    if (number == 0 && (e = st->driver->prepare(st->conn, err)))
        return e;
    while (number < SCHEMA_NUMBER)
        if ((e = migrate_one(st, opts, ++number, err)))
            return e;
    st->info.schema = number;
    return st->driver->settle(st->conn, err);
}

static enum err connect_writer(struct store *st, struct error *err)
{
    enum err e = st->driver->connect(st->db, CONN_WRITER, &st->conn, err);

    st->reader = (struct store_reader){.conn = e ? NULL : st->conn, .st = st};
    return e;
}

/* What the schema must be for a store that is only looked at. */
static enum err connect_read_only(struct store *st, struct error *err)
{
    uint32_t number;
    enum err e = st->driver->connect(st->db, CONN_READER, &st->conn, err);

    st->reader = (struct store_reader){.conn = e ? NULL : st->conn, .st = st};
    if (e || (e = st->driver->schema(st->conn, &number, err)))
        return e;
    st->info.schema = number;
    if (number == SCHEMA_NUMBER)
        return OK;
    return error_set(err, ERR_STORE_OPEN,
                     "\"%s\" has schema %u and this program looks at schema %d only: %s",
                     st->driver->label(st->db), number, SCHEMA_NUMBER,
                     number > SCHEMA_NUMBER ? "use a newer one"
                                            : "start `perdure serve` on it once, which changes it");
}

static enum err open_connections(struct store *st, const struct store_options *opts,
                                 struct error *err)
{
    enum err e = opts->read_only ? connect_read_only(st, err) : connect_writer(st, err);

    return e || opts->read_only ? e : migrate(st, opts, err);
}

static const struct driver *find_driver(struct bytes url)
{
    if (bytes_eq(url, BYTES_LIT("memory")))
        return &DRIVER_MEMORY;
    if (bytes_starts_with(url, BYTES_LIT("sqlite:")))
        return &DRIVER_SQLITE;
    return NULL;
}

enum err store_open(const struct store_options *opts, struct store **out, struct error *err)
{
    const struct driver *driver = find_driver(opts->url);
    enum err e;

    if (!driver)
        return error_set(err, ERR_INVALID, "cannot open store \"%.*s\": give sqlite:PATH or memory",
                         BYTES_FMT(opts->url));
    struct store *st = calloc(1, sizeof(*st));
    if (!st)
        abort(); /* out of memory */
    *st = (struct store){.driver = driver, .settings = opts->settings, .clock = opts->clock};
    if ((e = driver->open(opts, &st->db, err)) || (e = open_connections(st, opts, err)) ||
        (e = load_info(st, err))) {
        if (e == ERR_CORRUPT)
            e = error_wrap(err, ERR_STORE_OPEN, "store \"%s\" is damaged, restore a backup",
                           driver->label(st->db));
        else if (e != ERR_INVALID)
            e = error_wrap(err, ERR_STORE_OPEN, "cannot open the store");
        store_close(st);
        return e;
    }
    *out = st;
    return OK;
}

void store_close(struct store *st)
{
    if (!st)
        return;
    store_rollback(st);
    store_read_end(st);
    st->driver->disconnect(st->conn);
    if (st->db)
        st->driver->close(st->db);
    store_pending_deinit(&st->pending);
    store_pending_deinit(&st->nested);
    store_recent_deinit(st);
    free(st);
}

/* Writes something small, so that a store that can be read but not written stays closed. */
static enum err probe(struct store *st, struct error *err)
{
    enum err e;
    uint64_t first;

    if ((e = load_next_key(st, err)) || (e = store_begin(st, err)))
        return e;
    st->key_end = st->key_next; /* forces a reservation */
    if ((e = store_next_key(st, 1, &first, err))) {
        store_rollback(st);
        return e;
    }
    return store_commit(st, err);
}

/* The log is reset because a flush that failed may have lost pages that later flushes would not
 * write again: what was committed goes into the database and the log starts anew.
 *
 * The old connection stays until the new one has restarted the log: while one of them is open, the log's
 * index is, and with it the knowledge that the frames of a commit that failed are none. A first opener
 * would take them for committed. */
enum err store_reopen(struct store *st, struct error *err)
{
    struct conn *old = NULL;
    enum err e = OK;

    store_rollback(st);
    store_read_end(st);
    st->failed = false;
    if (st->conn) /* if that failed before */
        st->driver->rollback(st->conn);
    if (st->driver->has_readers || !st->conn) { /* `memory` has its data in the connection */
        old = st->conn;
        st->conn = NULL;
        e = connect_writer(st, err);
    }
    if (e || (e = st->driver->log_restart(st->conn, REOPEN_LOG_WAIT, err)) ||
        (e = probe(st, err))) {
        if (old) {
            st->driver->disconnect(st->conn);
            st->conn = old;
            st->reader.conn = old;
        }
        st->failed = true;
        return error_wrap(err, e == ERR_CORRUPT ? e : ERR_UNAVAILABLE,
                          "could not reopen the store");
    }
    st->driver->disconnect(old);
    return OK;
}

bool store_is_failed(const struct store *st)
{
    return st->failed;
}

const struct store_info *store_info(const struct store *st)
{
    return &st->info;
}

/* ---- transactions ---------------------------------------------------------------------------- */

enum err store_begin(struct store *st, struct error *err)
{
    enum err e;

    ASSERT(!st->in_txn && !st->holds_reads);
    if ((e = store_check(st, err)))
        return e;
    if ((e = store_noted(st, st->driver->begin(st->conn, true, err), err)))
        return e;
    store_recent_clear(st);
    st->in_txn = true;
    st->has_writes = false;
    return OK;
}

static void end_txn(struct store *st)
{
    st->in_txn = st->in_savepoint = st->has_writes = st->tainted = false;
    store_pending_clear(&st->pending);
    store_pending_clear(&st->nested);
}

void store_read_begin(struct store *st)
{
    ASSERT(!st->in_txn);
    st->holds_reads = true;
}

void store_read_end(struct store *st)
{
    if (st->in_read)
        st->driver->rollback(st->conn); /* nothing was written */
    st->holds_reads = st->in_read = false;
}

void store_rollback(struct store *st)
{
    if (!st->in_txn)
        return;
    st->driver->rollback(st->conn);
    store_recent_clear(st);
    st->key_end = st->key_end_committed; /* numbers given out stay given out: key_next */
    end_txn(st);
}

enum err store_commit(struct store *st, struct error *err)
{
    enum err e;

    ASSERT(st->in_txn && !st->in_savepoint);
    if (!(e = store_check(st, err)))
        e = store_pending_write(st, err);
    bool has_begun = e != ERR_CORRUPT; /* else only numbers were refused */
    if (!e)
        e = store_noted(st, st->driver->commit(st->conn, err), err);
    if (e) {
        store_rollback(st);
        if (has_begun) /* whatever the reason was, nobody knows what the database holds now */
            (void)store_noted(st, ERR_UNAVAILABLE, err);
        return error_wrap(err, e, "could not commit");
    }
    atomic_fetch_add(&st->commits, 1);
    if (st->has_writes)
        atomic_fetch_add(&st->flushes, 1);
    st->key_end_committed = st->key_end;
    end_txn(st);
    return OK;
}

bool store_has_writes(const struct store *st)
{
    return st->has_writes;
}

enum err store_savepoint(struct store *st, struct error *err)
{
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(st->in_txn && !st->in_savepoint);
    if ((e = store_noted(st, st->driver->savepoint(st->conn, err), err)))
        return e;
    st->in_savepoint = true;
    st->savepoint_has_writes = st->has_writes;
    st->key_end_savepoint = st->key_end;
    return OK;
}

enum err store_savepoint_release(struct store *st, struct error *err)
{
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(st->in_savepoint);
    if ((e = store_noted(st, st->driver->release(st->conn, err), err)))
        return e;
    st->in_savepoint = false;
    store_pending_merge(&st->pending, &st->nested);
    store_pending_clear(&st->nested);
    return OK;
}

enum err store_savepoint_undo(struct store *st, struct error *err)
{
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(st->in_savepoint);
    if ((e = store_noted(st, st->driver->undo(st->conn, err), err)))
        return e;
    st->in_savepoint = false;
    store_recent_clear(st);
    st->has_writes = st->savepoint_has_writes;
    st->key_end = st->key_end_savepoint;
    store_pending_clear(&st->nested);
    return OK;
}

enum err store_next_key(struct store *st, uint64_t count, uint64_t *first, struct error *err)
{
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(st->in_txn && count > 0);
    if (count > (uint64_t)INT64_MAX - KEY_BLOCK - st->key_next)
        return error_set(err, ERR_INTERNAL, "no numbers are left");
    if (st->key_next + count > st->key_end) {
        uint64_t end = st->key_next + MAX(count, (uint64_t)KEY_BLOCK);
        struct value params[] = {value_text(META_NEXT_KEY), value_int((int64_t)end)};
        if ((e = store_run(st, STMT_META_NUMBER, params, NULL, err)))
            return e;
        st->key_end = end;
    }
    *first = st->key_next;
    st->key_next += count;
    return OK;
}

/* ---- readers --------------------------------------------------------------------------------- */

struct store_reader *store_reader(struct store *st)
{
    return &st->reader;
}

enum err store_reader_open(struct store *st, struct store_reader **out, struct error *err)
{
    struct conn *conn;
    enum err e;

    if (!st->driver->has_readers)
        return error_set(err, ERR_UNIMPLEMENTED, "store \"%s\" has one connection only",
                         st->driver->label(st->db));
    if ((e = st->driver->connect(st->db, CONN_READER, &conn, err)))
        return e;
    struct store_reader *r = calloc(1, sizeof(*r));
    if (!r)
        abort(); /* out of memory */
    r->conn = conn;
    *out = r;
    return OK;
}

void store_reader_close(struct store_reader *r)
{
    if (!r)
        return;
    ASSERT(!r->st); /* the writer's own goes with the store */
    driver_of(r->conn)->disconnect(r->conn);
    free(r);
}

enum err store_reader_begin(struct store_reader *r, struct error *err)
{
    ASSERT(!r->st && !r->in_txn);
    enum err e = driver_of(r->conn)->begin(r->conn, false, err);

    r->in_txn = e == OK;
    return e;
}

void store_reader_end(struct store_reader *r)
{
    if (r->in_txn)
        driver_of(r->conn)->rollback(r->conn); /* nothing was written */
    r->in_txn = false;
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

void store_stats(struct store *st, struct store_stats *out)
{
    struct db_sizes sizes;

    st->driver->sizes(st->db, &sizes);
    *out = (struct store_stats){
        .store_bytes = sizes.store_bytes,
        .wal_bytes = sizes.log_bytes,
        .commits = atomic_load(&st->commits),
        .flushes = atomic_load(&st->flushes),
    };
}

uint64_t store_log_bytes(const struct store *st)
{
    return st->driver->log_bytes(st->db);
}

enum err store_checkpointer_open(struct store *st, struct store_checkpointer **out,
                                 struct error *err)
{
    struct conn *conn;
    enum err e;

    if (!st->driver->has_readers) {
        *out = NULL;
        return OK;
    }
    if ((e = st->driver->connect(st->db, CONN_CHECKPOINT, &conn, err)))
        return e;
    struct store_checkpointer *c = calloc(1, sizeof(*c));
    if (!c)
        abort(); /* out of memory */
    c->conn = conn;
    *out = c;
    return OK;
}

void store_checkpointer_close(struct store_checkpointer *c)
{
    if (!c)
        return;
    driver_of(c->conn)->disconnect(c->conn);
    free(c);
}

enum err store_checkpoint(struct store_checkpointer *c, struct error *err)
{
    return c ? driver_of(c->conn)->checkpoint(c->conn, err) : OK;
}

enum err store_log_restart(struct store *st, usec_t wait, struct error *err)
{
    enum err e;

    if ((e = store_check(st, err)))
        return e;
    ASSERT(!st->in_txn);
    return store_noted(st, st->driver->log_restart(st->conn, wait, err), err);
}
