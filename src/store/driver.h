/* driver.h - what one database does for the store: connections, statements, transactions.
 *
 * Internal to src/store. A driver knows no table: it prepares STATEMENTS by number, binds values,
 * steps, and applies the DDL that schema.h has for it. SQLite is one driver (sqlite.c); PostgreSQL
 * fits with arrays of values and typed result columns.
 *
 * Errors of every function: ERR_UNAVAILABLE, ERR_CORRUPT, ERR_INTERNAL as in store.h. `struct db`
 * is one open database and may be used from any thread once open; a `struct conn` is for one thread
 * at a time.
 */
#pragma once

#include "store/statements.h"
#include "store/store.h"

enum value_type { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB };

struct value {
    enum value_type type;
    int64_t i;
    struct bytes b; /* parameters: borrowed until the statement ran; columns: until the next row */
};

enum conn_role {
    CONN_WRITER,     /* reads and writes; one a database */
    CONN_READER,     /* read-only */
    CONN_CHECKPOINT, /* for the checkpointer's thread */
};

struct db;
struct driver;

struct conn { /* first member of the driver's own */
    const struct driver *driver;
};

struct cursor {
    struct conn *conn;
    enum stmt id;
    void *handle; /* the driver's; NULL: ended */
};

struct db_sizes {
    uint64_t store_bytes, log_bytes;
};

struct driver {
    const char *name;
    bool has_readers; /* false: one connection only, no checkpoints */

    /* Locks the database against other servers and checks that it is ours or empty, without
     * changing it. ERR_STORE_OPEN with reason and remedy. */
    enum err (*open)(const struct store_options *opts, struct db **out, struct error *err);
    void (*close)(struct db *db);              /* all connections are closed; gives up the lock */
    const char *(*label)(const struct db *db); /* for messages */
    void (*sizes)(struct db *db, struct db_sizes *out); /* any thread */
    uint64_t (*log_bytes)(const struct db *db);         /* any thread; no system call */

    enum err (*connect)(struct db *db, enum conn_role role, struct conn **out, struct error *err);
    void (*disconnect)(struct conn *c); /* rolls back; NULL is fine */

    /* The number of the last migration that was applied; 0: an empty database. */
    enum err (*schema)(struct conn *c, uint32_t *number, struct error *err);
    /* Before the first migration of an empty database: what no transaction can hold. */
    enum err (*prepare)(struct conn *c, struct error *err);
    /* Applies the DDL of one migration inside the open transaction, and notes its number. */
    enum err (*migrate)(struct conn *c, uint32_t number, struct error *err);
    /* After the migrations, likewise (SQLite: the WAL mode). */
    enum err (*settle)(struct conn *c, struct error *err);

    enum err (*begin)(struct conn *c, bool write, struct error *err);
    enum err (*commit)(struct conn *c, struct error *err); /* on an error the transaction is over */
    void (*rollback)(struct conn *c);                      /* harmless without a transaction */
    enum err (*savepoint)(struct conn *c, struct error *err);
    enum err (*release)(struct conn *c, struct error *err);
    enum err (*undo)(struct conn *c, struct error *err);

    /* A statement without result rows; *changed may be NULL. */
    enum err (*run)(struct conn *c, enum stmt id, const struct value *params, uint64_t *changed,
                    struct error *err);
    /* A statement with result rows: query, next until !*row, end. One cursor a statement. */
    enum err (*query)(struct conn *c, enum stmt id, const struct value *params, struct cursor *out,
                      struct error *err);
    enum err (*next)(struct cursor *cur, struct value *cols, bool *row, struct error *err);
    void (*end)(struct cursor *cur); /* harmless when ended */

    /* The database's own check of itself: a text for each thing that is wrong, a hundred at most. */
    enum err (*integrity)(struct conn *c, void (*fn)(void *arg, const char *text), void *arg,
                          struct error *err);
    /* Copies what the connection's transaction sees into a new file, flushed. ERR_EXISTS: it is there. */
    enum err (*copy)(struct conn *c, const char *path, struct error *err);
    /* From now on statements end with ERR_UNAVAILABLE soon after *stop is set. */
    void (*stop_at)(struct conn *c, const _Atomic bool *stop);

    /* Passive, on a CONN_CHECKPOINT. */
    enum err (*checkpoint)(struct conn *c, struct error *err);
    /* On the writer, outside a transaction. */
    enum err (*log_restart)(struct conn *c, usec_t wait, struct error *err);
};

extern const struct driver DRIVER_SQLITE; /* sqlite:PATH */
extern const struct driver DRIVER_MEMORY; /* memory */

static inline struct value value_int(int64_t i)
{
    return (struct value){.type = VALUE_INT, .i = i};
}

static inline struct value value_text(struct bytes b)
{
    return (struct value){.type = bytes_is_none(b) ? VALUE_NULL : VALUE_TEXT, .b = b};
}

static inline struct value value_blob(struct bytes b)
{
    return (struct value){.type = bytes_is_none(b) ? VALUE_NULL : VALUE_BLOB, .b = b};
}
