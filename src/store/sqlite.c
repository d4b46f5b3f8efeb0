/* sqlite.c - the driver for SQLite: files in WAL mode, and :memory:. */
#include "base/assert.h"
#include "base/time.h"
#include "store/driver.h"
#include "store/joined_vfs.h"
#include "store/page_cache.h"
#include "store/schema.h"
#include "store/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096 /* measured: see docs/store.md */
#define WAL_HEADER 32
#define WAL_FRAME (PAGE_SIZE + 24)
#define BUSY_MS 5000 /* somebody's `sqlite3` may hold the write lock for a moment */

/* Page caches grow to this and no further; an idle connection holds a few pages. */
#define CACHE_WRITER_KIB 16384
#define CACHE_READER_KIB 4096
#define CACHE_CHECKPOINT_KIB 64

struct db {
    const struct driver *driver;
    struct sqlite_file file;   /* unused for `memory` */
    char *vfs;                 /* that connections are opened with; NULL: the default */
    struct joined_vfs *joined; /* what `vfs` names; NULL: for `memory` */
    char *immutable;           /* URI of a file that is only looked at and has no log; else NULL */
    int64_t wal_limit;         /* the log file shrinks to this when it restarts */
    _Atomic uint64_t log_bytes, memory_bytes;
    pthread_mutex_t lock;
    pthread_cond_t copied;
    bool is_copying; /* a checkpoint runs; SQLite refuses a second one at once */
};

struct prepared {
    sqlite3_stmt *stmt; /* NULL: not prepared yet */
    bool busy;          /* a cursor walks it */
    int index[STATEMENT_PARAMS_MAX];
};

enum control {
    CTL_BEGIN,
    CTL_BEGIN_READ,
    CTL_COMMIT,
    CTL_ROLLBACK,
    CTL_SAVEPOINT,
    CTL_RELEASE,
    CTL_UNDO,
    CTL_COUNT
};

static const char *const CONTROLS[CTL_COUNT] = {
    [CTL_BEGIN] = "BEGIN IMMEDIATE", [CTL_BEGIN_READ] = "BEGIN",      [CTL_COMMIT] = "COMMIT",
    [CTL_ROLLBACK] = "ROLLBACK",     [CTL_SAVEPOINT] = "SAVEPOINT s", [CTL_RELEASE] = "RELEASE s",
    [CTL_UNDO] = "ROLLBACK TO s",
};

struct sqlite_conn {
    struct conn base;
    struct db *db;
    enum conn_role role;
    sqlite3 *sql;
    uint64_t commits;
    const _Atomic bool *stop; /* NULL: none */
    sqlite3_stmt *controls[CTL_COUNT];
    struct prepared stmts[STMT_COUNT];
};

static struct sqlite_conn *self(struct conn *c)
{
    return CONTAINER_OF(c, struct sqlite_conn, base);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static enum err map_code(int rc)
{
    if (rc == SQLITE_IOERR_DATA || rc == SQLITE_IOERR_CORRUPTFS)
        return ERR_CORRUPT;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return OK;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return ERR_CORRUPT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_NOMEM:
    case SQLITE_ABORT:
    case SQLITE_INTERRUPT:
    case SQLITE_NOLFS:
        return ERR_UNAVAILABLE;
    }
    return ERR_INTERNAL; /* a constraint, misuse, an SQL error: a bug of ours */
}

static const char *db_label(const struct db *db)
{
    return db->file.path ? db->file.path : "memory";
}

static enum err fail(struct sqlite_conn *c, int rc, struct error *err, const char *doing)
{
    enum err e = map_code(rc);
    int sys = sqlite3_system_errno(c->sql);

    ASSERT(e != OK);
    if (e == ERR_UNAVAILABLE && sys != 0 && (rc & 0xff) != SQLITE_BUSY)
        return error_set(err, e, "could not %s in store \"%s\": %s (%s, %s)", doing,
                         db_label(c->db), sqlite3_errmsg(c->sql), sqlite3_errstr(rc),
                         strerror(sys));
    return error_set(err, e, "%s %s in store \"%s\": %s (%s)",
                     e == ERR_UNAVAILABLE ? "could not" : "cannot", doing, db_label(c->db),
                     sqlite3_errmsg(c->sql), sqlite3_errstr(rc));
}

/* ---- the database ---------------------------------------------------------------------------- */

static void configure_once(void)
{
    /* No memory statistics: they cost a mutex for each allocation. Fails when somebody (a test's
     * VFS) has started SQLite before, which is as well. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    (void)page_cache_install(); /* likewise */
    (void)sqlite3_initialize();
}

static struct db *db_new(const struct driver *driver, const struct store_options *opts)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct db *db = calloc(1, sizeof(*db));

    pthread_once(&once, configure_once);
    if (!db || (opts->vfs && !(db->vfs = strdup(opts->vfs))))
        abort(); /* out of memory */
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&db->copied, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&db->lock, NULL);
    db->driver = driver;
    db->file.lock_fd = -1;
    db->wal_limit = opts->settings ? (int64_t)opts->settings->wal_bytes : (int64_t)MIB(64);
    return db;
}

static void db_close(struct db *db)
{
    sqlite_file_close(&db->file);
    joined_vfs_free(db->joined);
    pthread_cond_destroy(&db->copied);
    pthread_mutex_destroy(&db->lock);
    free(db->vfs);
    free(db->immutable);
    free(db);
}

/* Nothing is made beside the file. Its lock is ours, so nobody changes it. */
static char *immutable_uri(const char *path)
{
    struct strbuf uri = {0};

    strbuf_append_str(&uri, "file:");
    for (const char *p = path; *p; p++)
        if (strchr("%?#", *p))
            strbuf_appendf(&uri, "%%%02X", (unsigned)*p);
        else
            strbuf_append(&uri, p, 1);
    strbuf_append_str(&uri, "?immutable=1");
    char *copy = strdup(strbuf_cstr(&uri));
    strbuf_deinit(&uri);
    if (!copy)
        abort(); /* out of memory */
    return copy;
}

static enum err db_open(const struct store_options *opts, struct db **out, struct error *err)
{
    static const struct bytes SCHEME = BYTES_LIT("sqlite:");
    struct bytes path = bytes_of(opts->url.ptr + SCHEME.len, opts->url.len - SCHEME.len);
    struct db *db = db_new(&DRIVER_SQLITE, opts);
    enum err e = opts->read_only ? sqlite_file_exists(path, err) : OK;

    if (!e)
        e = sqlite_file_open(path, &db->file, err);

    if (e) {
        db_close(db);
        return e;
    }
    if ((db->joined = joined_vfs_new(db->vfs))) { /* else opening a connection says what is wrong */
        free(db->vfs);
        db->vfs = strdup(joined_vfs_name(db->joined));
        if (!db->vfs)
            abort(); /* out of memory */
    }
    if (opts->read_only && !sqlite_file_has_log(&db->file))
        db->immutable = immutable_uri(db->file.path);
    *out = db;
    return OK;
}

static enum err memory_open(const struct store_options *opts, struct db **out, struct error *err)
{
    (void)err;
    *out = db_new(&DRIVER_MEMORY, opts);
    return OK;
}

static void db_sizes(struct db *db, struct db_sizes *out)
{
    struct stat sb;

    /* stat() only: opening and closing the file would drop SQLite's locks on it. */
    out->log_bytes = atomic_load(&db->log_bytes);
    out->store_bytes = atomic_load(&db->memory_bytes);
    if (db->file.path)
        out->store_bytes = stat(db->file.path, &sb) == 0 ? (uint64_t)sb.st_size : 0;
}

static uint64_t db_log_bytes(const struct db *db)
{
    return atomic_load(&db->log_bytes);
}

/* ---- connections ----------------------------------------------------------------------------- */

static int exec(struct sqlite_conn *c, const char *sql)
{
    return sqlite3_exec(c->sql, sql, NULL, NULL, NULL);
}

static int set_pragma(struct sqlite_conn *c, const char *name, int64_t number)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "PRAGMA %s = %lld", name, (long long)number);
    return exec(c, sql);
}

static int read_number(struct sqlite_conn *c, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->sql, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        *out = sqlite3_column_int64(stmt, 0);
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_ERROR; /* these statements give one row */
    }
    int finalized = sqlite3_finalize(stmt);
    return rc != SQLITE_OK ? rc : finalized;
}

/* After each commit: how long the log is now. Setting it also turns off automatic checkpoints. */
static int note_log(void *arg, sqlite3 *sql, const char *name, int frames)
{
    struct db *db = arg;

    (void)sql;
    (void)name;
    atomic_store(&db->log_bytes, WAL_HEADER + (uint64_t)frames * WAL_FRAME);
    return SQLITE_OK;
}

static int set_up(struct sqlite_conn *c)
{
    int64_t kib = c->role == CONN_WRITER   ? CACHE_WRITER_KIB
                  : c->role == CONN_READER ? CACHE_READER_KIB
                                           : CACHE_CHECKPOINT_KIB;
    int rc;

    sqlite3_busy_timeout(c->sql, BUSY_MS);
    sqlite3_extended_result_codes(c->sql, 1);
    /* No mmap: a page that cannot be read must be an error, not a SIGBUS. */
    if ((rc = exec(c,
                   "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; "
                   "PRAGMA cell_size_check = ON; PRAGMA secure_delete = OFF")) ||
        (rc = set_pragma(c, "cache_size", -kib)))
        return rc;
    if (c->role == CONN_READER)
        return exec(c, "PRAGMA query_only = ON");
    if ((rc = exec(c, "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0")) ||
        c->role == CONN_CHECKPOINT)
        return rc;
    sqlite3_wal_hook(c->sql, note_log, c->db);
    return set_pragma(c, "journal_size_limit", c->db->wal_limit);
}

static void conn_close(struct conn *base)
{
    if (!base)
        return;
    struct sqlite_conn *c = self(base);
    for (size_t i = 0; i < ARRAY_LEN(c->controls); i++)
        sqlite3_finalize(c->controls[i]);
    for (size_t i = 0; i < ARRAY_LEN(c->stmts); i++)
        sqlite3_finalize(c->stmts[i].stmt);
    int rc = sqlite3_close(c->sql); /* rolls back */
    ASSERT(rc == SQLITE_OK);
    free(c);
}

static enum err conn_open(struct db *db, enum conn_role role, struct conn **out, struct error *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                (role == CONN_READER ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                (db->immutable ? SQLITE_OPEN_URI : 0);
    const char *name = db->immutable ? db->immutable : db->file.path ? db->file.path : ":memory:";
    struct sqlite_conn *c = calloc(1, sizeof(*c));
    enum err e;

    if (!c)
        abort(); /* out of memory */
    *c = (struct sqlite_conn){.base.driver = db->driver, .db = db, .role = role};
    int rc = sqlite3_open_v2(name, &c->sql, flags, db->vfs);
    if (!c->sql)
        abort(); /* out of memory: SQLite gives no handle then only */
    if (rc == SQLITE_OK && role == CONN_WRITER && sqlite3_db_readonly(c->sql, "main") == 1) {
        e = error_set(err, ERR_UNAVAILABLE,
                      "could not write to store \"%s\": the file or its file system is read-only; "
                      "make it writable",
                      db_label(db));
        conn_close(&c->base);
        return e;
    }
    if (rc == SQLITE_OK)
        rc = set_up(c);
    if (rc != SQLITE_OK) {
        e = fail(c, rc, err, "open a connection");
        conn_close(&c->base);
        return e;
    }
    *out = &c->base;
    return OK;
}

/* ---- schema ---------------------------------------------------------------------------------- */

static enum err conn_schema(struct conn *base, uint32_t *number, struct error *err)
{
    struct sqlite_conn *c = self(base);
    int64_t version = 0, id = 0, tables = 0;
    int rc;

    if ((rc = read_number(c, "SELECT count(*) FROM sqlite_schema", &tables)) ||
        (rc = read_number(c, "PRAGMA user_version", &version)) ||
        (rc = read_number(c, "PRAGMA application_id", &id)))
        return fail(c, rc, err, "read the schema number");
    if (tables == 0 && id == 0 && version == 0) {
        *number = 0;
        return OK;
    }
    if (id != SCHEMA_APPLICATION_ID)
        return error_set(err, ERR_STORE_OPEN,
                         "\"%s\" is an SQLite database of another program (application_id %lld); "
                         "it was left as it "
                         "is: give another file",
                         db_label(c->db), (long long)id);
    if (version < 1 || version > UINT32_MAX)
        return error_set(err, ERR_CORRUPT, "schema number %lld of \"%s\" is damaged",
                         (long long)version, db_label(c->db));
    *number = (uint32_t)version;
    return OK;
}

static bool is_laid_out(struct sqlite_conn *c)
{
    int64_t size = 0, mode = 0;

    return read_number(c, "PRAGMA page_size", &size) == SQLITE_OK &&
           read_number(c, "PRAGMA auto_vacuum", &mode) == SQLITE_OK && size == PAGE_SIZE &&
           mode == 2;
}

/* Page size and auto_vacuum hold for a file without a first page; one that has it (somebody's empty
 * database, a creation that was cut) is laid out anew by VACUUM. */
static enum err conn_prepare(struct conn *base, struct error *err)
{
    struct sqlite_conn *c = self(base);
    int rc = set_pragma(c, "page_size", PAGE_SIZE);

    if (rc == SQLITE_OK)
        rc = exec(c, "PRAGMA auto_vacuum = INCREMENTAL");
    if (rc == SQLITE_OK && !is_laid_out(c))
        rc = exec(c, "VACUUM");
    if (rc != SQLITE_OK)
        return fail(c, rc, err, "lay out a new file");
    if (!is_laid_out(c))
        return error_set(err, ERR_INTERNAL, "could not lay out \"%s\"", db_label(c->db));
    return OK;
}

static enum err conn_migrate(struct conn *base, uint32_t number, struct error *err)
{
    struct sqlite_conn *c = self(base);
    int rc = exec(c, schema_sqlite(number));

    if (rc == SQLITE_OK)
        rc = set_pragma(c, "application_id", SCHEMA_APPLICATION_ID);
    if (rc == SQLITE_OK)
        rc = set_pragma(c, "user_version", number);
    return rc == SQLITE_OK ? OK : fail(c, rc, err, "change the schema");
}

/* A process that was killed may have left transactions in the log that it never flushed. They are
 * read from now on, so a power cut must not take them any more. */
static int flush_log(struct sqlite_conn *c)
{
    sqlite3_file *log = NULL;
    int64_t number;
    int rc = read_number(c, "PRAGMA schema_version", &number); /* opens the log */

    if (rc == SQLITE_OK)
        rc = sqlite3_file_control(c->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK && log && log->pMethods)
        rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    return rc;
}

static enum err conn_settle(struct conn *base, struct error *err)
{
    struct sqlite_conn *c = self(base);
    int rc = c->db->file.path ? exec(c, "PRAGMA journal_mode = WAL") : SQLITE_OK;

    if (rc == SQLITE_OK && c->db->file.path)
        rc = flush_log(c);
    return rc == SQLITE_OK ? OK : fail(c, rc, err, "turn on the write-ahead log");
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int control(struct sqlite_conn *c, enum control which)
{
    sqlite3_stmt **stmt = &c->controls[which];
    int rc;

    if (!*stmt && (rc = sqlite3_prepare_v3(c->sql, CONTROLS[which], -1, SQLITE_PREPARE_PERSISTENT,
                                           stmt, NULL)))
        return rc;
    rc = sqlite3_step(*stmt);
    int reset = sqlite3_reset(*stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : reset != SQLITE_OK ? reset : rc;
}

static enum err control_checked(struct conn *base, enum control which, struct error *err,
                                const char *doing)
{
    struct sqlite_conn *c = self(base);
    int rc = control(c, which);

    return rc == SQLITE_OK ? OK : fail(c, rc, err, doing);
}

/* SQLite may have rolled back by itself after an I/O error. A ROLLBACK that fails (no memory, an interrupt) is made up for before
 * the connection is used again or closed behind another one: what it holds would keep everybody else from writing. */
static void conn_rollback(struct conn *base)
{
    struct sqlite_conn *c = self(base);

    if (!sqlite3_get_autocommit(c->sql))
        (void)control(c, CTL_ROLLBACK);
}

static enum err conn_begin(struct conn *base, bool write, struct error *err)
{
    conn_rollback(base);
    return control_checked(base, write ? CTL_BEGIN : CTL_BEGIN_READ, err, "begin a transaction");
}

/* `memory` has no file whose size tells: ask now and then. */
static void note_memory(struct sqlite_conn *c)
{
    int64_t pages;

    if (!c->db->file.path && c->commits++ % 64 == 0 &&
        read_number(c, "PRAGMA page_count", &pages) == SQLITE_OK)
        atomic_store(&c->db->memory_bytes, (uint64_t)pages * PAGE_SIZE);
}

static enum err conn_commit(struct conn *base, struct error *err)
{
    enum err e = control_checked(base, CTL_COMMIT, err, "commit");

    if (e)
        conn_rollback(base);
    else
        note_memory(self(base));
    return e;
}

static enum err conn_savepoint(struct conn *base, struct error *err)
{
    return control_checked(base, CTL_SAVEPOINT, err, "set a savepoint");
}

static enum err conn_release(struct conn *base, struct error *err)
{
    return control_checked(base, CTL_RELEASE, err, "release a savepoint");
}

static enum err conn_undo(struct conn *base, struct error *err)
{
    enum err e = control_checked(base, CTL_UNDO, err, "go back to a savepoint");

    return e ? e : control_checked(base, CTL_RELEASE, err, "release a savepoint");
}

/* ---- statements ------------------------------------------------------------------------------ */

/* SQLite numbers parameters in the order in which it meets them, so `$2` may be number 1: their
 * indexes are asked for by name, once. */
static enum err prepare(struct sqlite_conn *c, enum stmt id, struct error *err)
{
    const struct statement *s = &STATEMENTS[id];
    struct prepared *p = &c->stmts[id];
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v3(c->sql, s->sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);

    if (rc != SQLITE_OK)
        return fail(c, rc, err, "prepare a statement");
    ASSERT(sqlite3_bind_parameter_count(stmt) == (int)s->params);
    ASSERT(sqlite3_column_count(stmt) == (int)strlen(s->cols));
    for (unsigned i = 0; i < s->params; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "$%u", i + 1);
        p->index[i] = sqlite3_bind_parameter_index(stmt, name);
        ASSERT(p->index[i] > 0);
    }
    p->stmt = stmt;
    return OK;
}

/* Values are bound without copies: they live until the statement is reset. */
static int bind(const struct prepared *p, unsigned n, const struct value *params)
{
    int rc = SQLITE_OK;

    for (unsigned i = 0; i < n && rc == SQLITE_OK; i++) {
        const struct value *v = &params[i];
        int at = p->index[i];
        switch (v->type) {
        case VALUE_NULL:
            rc = sqlite3_bind_null(p->stmt, at);
            break;
        case VALUE_INT:
            rc = sqlite3_bind_int64(p->stmt, at, v->i);
            break;
        case VALUE_TEXT:
            rc = sqlite3_bind_text64(p->stmt, at, (const char *)v->b.ptr, v->b.len, SQLITE_STATIC,
                                     SQLITE_UTF8);
            break;
        case VALUE_BLOB:
            rc = sqlite3_bind_blob64(p->stmt, at, v->b.ptr, v->b.len, SQLITE_STATIC);
            break;
        }
    }
    return rc;
}

static enum err start(struct conn *base, enum stmt id, const struct value *params,
                      struct prepared **out, struct error *err)
{
    struct sqlite_conn *c = self(base);
    struct prepared *p = &c->stmts[id];
    enum err e;

    if (!p->stmt && (e = prepare(c, id, err)))
        return e;
    if (p->busy)
        return error_set(err, ERR_INTERNAL, "statement %s is used inside its own callback",
                         STATEMENTS[id].name);
    int rc = bind(p, STATEMENTS[id].params, params);
    if (rc != SQLITE_OK)
        return fail(c, rc, err, "bind values");
    *out = p;
    return OK;
}

static enum err conn_run(struct conn *base, enum stmt id, const struct value *params,
                         uint64_t *changed, struct error *err)
{
    struct sqlite_conn *c = self(base);
    struct prepared *p;
    enum err e = start(base, id, params, &p, err);

    if (e)
        return e;
    int rc = sqlite3_step(p->stmt);
    if (rc != SQLITE_DONE) {
        e = fail(c, rc == SQLITE_ROW ? SQLITE_MISUSE : rc, err, "write a row");
        sqlite3_reset(p->stmt);
        return error_wrap(err, e, "%s", STATEMENTS[id].name);
    }
    if (changed)
        *changed = (uint64_t)sqlite3_changes64(c->sql);
    rc = sqlite3_reset(p->stmt);
    return rc == SQLITE_OK ? OK : fail(c, rc, err, "write a row");
}

static enum err conn_query(struct conn *base, enum stmt id, const struct value *params,
                           struct cursor *out, struct error *err)
{
    struct prepared *p;
    enum err e = start(base, id, params, &p, err);

    if (e)
        return e;
    p->busy = true;
    *out = (struct cursor){.conn = base, .id = id, .handle = p};
    return OK;
}

/* A view of zero bytes is present, and SQLite gives NULL for it. */
static struct bytes column_bytes(sqlite3_stmt *stmt, int i)
{
    const void *ptr = sqlite3_column_blob(stmt, i); /* of a text too: no conversion */
    int len = sqlite3_column_bytes(stmt, i);

    return bytes_of(ptr ? ptr : "", (size_t)len);
}

static bool read_column(sqlite3_stmt *stmt, int i, char want, struct value *out)
{
    int type = sqlite3_column_type(stmt, i);
    bool nullable = want < 'a';
    int expect = want == 'i' || want == 'I'   ? SQLITE_INTEGER
                 : want == 't' || want == 'T' ? SQLITE_TEXT
                                              : SQLITE_BLOB;

    if (type == SQLITE_NULL && nullable) {
        *out = (struct value){.type = VALUE_NULL};
        return true;
    }
    if (type != expect)
        return false;
    if (type == SQLITE_INTEGER)
        *out = value_int(sqlite3_column_int64(stmt, i));
    else
        *out = (struct value){.type = type == SQLITE_TEXT ? VALUE_TEXT : VALUE_BLOB,
                              .b = column_bytes(stmt, i)};
    return true;
}

static enum err conn_next(struct cursor *cur, struct value *cols, bool *row, struct error *err)
{
    struct sqlite_conn *c = self(cur->conn);
    const struct statement *s = &STATEMENTS[cur->id];
    struct prepared *p = cur->handle;
    int rc = sqlite3_step(p->stmt);

    if (rc == SQLITE_DONE) {
        *row = false;
        return OK;
    }
    if (rc != SQLITE_ROW) {
        enum err e = fail(c, rc, err, "read rows");
        return error_wrap(err, e, "%s", s->name);
    }
    for (int i = 0; s->cols[i]; i++) {
        if (!read_column(p->stmt, i, s->cols[i], &cols[i])) {
            if (sqlite3_errcode(c->sql) == SQLITE_NOMEM)
                abort(); /* out of memory */
            return error_set(err, ERR_CORRUPT, "store \"%s\" holds a damaged row: %s, column %d",
                             db_label(c->db), s->name, i);
        }
    }
    *row = true;
    return OK;
}

static void conn_end(struct cursor *cur)
{
    struct prepared *p = cur->handle;

    if (!p)
        return;
    (void)sqlite3_reset(p->stmt); /* repeats the error that the last step returned */
    p->busy = false;
    cur->handle = NULL;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Waits at most `wait` for a checkpoint that runs. False: it still does. */
static bool copy_begin(struct db *db, usec_t wait)
{
    usec_t until = clock_monotonic(clock_system()) + MAX(wait, 0);
    struct timespec ts = {.tv_sec = until / USEC_PER_SEC, .tv_nsec = until % USEC_PER_SEC * 1000};

    pthread_mutex_lock(&db->lock);
    while (db->is_copying && wait > 0 && pthread_cond_timedwait(&db->copied, &db->lock, &ts) == 0)
        continue;
    bool begun = !db->is_copying;
    db->is_copying = true;
    pthread_mutex_unlock(&db->lock);
    return begun;
}

static void copy_end(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    db->is_copying = false;
    pthread_cond_signal(&db->copied);
    pthread_mutex_unlock(&db->lock);
}

static enum err conn_checkpoint(struct conn *base, struct error *err)
{
    struct sqlite_conn *c = self(base);

    if (!copy_begin(c->db, 0))
        return OK; /* the writer restarts the log just now, which does the same work */
    int rc = sqlite3_wal_checkpoint_v2(c->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    copy_end(c->db);
    if (rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY) /* busy: somebody's `sqlite3` does it */
        return OK;
    return fail(c, rc, err, "copy the log into the database");
}

/* RESTART and not TRUNCATE: a log that keeps its blocks can still be written on a full disk. */
static enum err conn_log_restart(struct conn *base, usec_t wait, struct error *err)
{
    struct sqlite_conn *c = self(base);
    usec_t ms = wait / USEC_PER_MSEC;

    if (!copy_begin(c->db, wait))
        return OK;
    sqlite3_busy_timeout(c->sql, (int)MIN(MAX(ms, 0), 60000));
    int rc = sqlite3_wal_checkpoint_v2(c->sql, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    sqlite3_busy_timeout(c->sql, BUSY_MS);
    copy_end(c->db);
    if (rc == SQLITE_OK)
        atomic_store(&c->db->log_bytes, 0);
    if (rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY)
        return OK;
    return fail(c, rc, err, "restart the log");
}

static enum err memory_log(struct conn *base, usec_t wait, struct error *err)
{
    (void)base;
    (void)wait;
    (void)err;
    return OK; /* there is no log */
}

static enum err memory_checkpoint(struct conn *base, struct error *err)
{
    return memory_log(base, 0, err);
}

/* ---- looking at all of it, and copying it ------------------------------------------------------ */

#define STOP_EVERY 10000 /* instructions of SQLite's machine between two looks at the stop flag */
#define COPY_PAGES 256   /* a step */

static int is_stopped(void *arg)
{
    return atomic_load_explicit((const _Atomic bool *)arg, memory_order_relaxed);
}

static void conn_stop_at(struct conn *base, const _Atomic bool *stop)
{
    struct sqlite_conn *c = self(base);

    c->stop = stop;
    sqlite3_progress_handler(c->sql, STOP_EVERY, is_stopped, (void *)(uintptr_t)stop);
}

static enum err conn_integrity(struct conn *base, void (*fn)(void *arg, const char *text),
                               void *arg, struct error *err)
{
    struct sqlite_conn *c = self(base);
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->sql, "PRAGMA integrity_check(100)", -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(stmt, 0);
            if (text && strcmp(text, "ok") != 0)
                fn(arg, text);
        }
    enum err e = rc == SQLITE_DONE ? OK : fail(c, rc, err, "check the database");
    sqlite3_finalize(stmt);
    return e;
}

static int copy_steps(struct sqlite_conn *c, sqlite3_backup *copy)
{
    int rc = SQLITE_OK;

    while (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        if (c->stop && atomic_load(c->stop))
            return SQLITE_INTERRUPT;
        rc = sqlite3_backup_step(copy, COPY_PAGES);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The reader's transaction stays open from before the first step to the last: each step sees the same, and SQLite, which begins anew
 * when somebody else writes between two steps, never does. */
static enum err copy_into(struct sqlite_conn *c, sqlite3 *to, const char *path, struct error *err)
{
    int rc =
        sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL, NULL);
    int64_t any;
    sqlite3_backup *copy = NULL;

    if (rc == SQLITE_OK)
        rc = read_number(c, "PRAGMA schema_version", &any); /* BEGIN alone sees nothing yet */
    if (rc == SQLITE_OK)
        copy = sqlite3_backup_init(to, "main", c->sql, "main");
    if (copy)
        rc = copy_steps(c, copy);
    int finished = sqlite3_backup_finish(copy);
    if (rc == SQLITE_OK)
        rc = copy ? finished : sqlite3_extended_errcode(to);
    if (rc == SQLITE_OK)
        return OK;
    return error_set(err, ERR_UNAVAILABLE, "could not copy store \"%s\" into \"%s\": %s",
                     db_label(c->db), path, sqlite3_errstr(rc));
}

static enum err flush_copy(const char *path, int fd, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf dir = {0};
    const char *slash = strrchr(path, '/');

    strbuf_append(&dir, path, slash ? (size_t)(slash - path) + 1 : 0);
    int at = open(slash ? strbuf_cstr(&dir) : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fsync(fd) == 0 && at >= 0 && fsync(at) == 0;
    int sys = errno;
    if (at >= 0)
        close(at);
    return ok ? OK
              : error_set(err, ERR_UNAVAILABLE, "could not flush \"%s\": %s", path, strerror(sys));
}

static enum err conn_copy(struct conn *base, const char *path, struct error *err)
{
    sqlite3 *to = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_set(err, errno == EEXIST ? ERR_EXISTS : ERR_UNAVAILABLE,
                         "cannot make \"%s\": %s; give a path where no file is", path,
                         strerror(errno));
    enum err e = OK;
    if (sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        e = error_set(err, ERR_UNAVAILABLE, "cannot write to \"%s\"", path);
    if (!e)
        e = copy_into(self(base), to, path, err);
    sqlite3_close(to);
    if (!e)
        e = flush_copy(path, fd, err);
    close(fd);
    if (e)
        (void)unlink(path);
    return e;
}

#define DRIVER_SHARED                                                                              \
    .close = db_close, .label = db_label, .sizes = db_sizes, .log_bytes = db_log_bytes,            \
    .connect = conn_open, .disconnect = conn_close, .schema = conn_schema,                         \
    .migrate = conn_migrate, .prepare = conn_prepare, .settle = conn_settle, .begin = conn_begin,  \
    .commit = conn_commit, .rollback = conn_rollback, .savepoint = conn_savepoint,                 \
    .release = conn_release, .undo = conn_undo, .run = conn_run, .query = conn_query,              \
    .next = conn_next, .end = conn_end, .integrity = conn_integrity, .copy = conn_copy,            \
    .stop_at = conn_stop_at

const struct driver DRIVER_SQLITE = {
    .name = "sqlite",
    .has_readers = true,
    .open = db_open,
    .checkpoint = conn_checkpoint,
    .log_restart = conn_log_restart,
    DRIVER_SHARED,
};

const struct driver DRIVER_MEMORY = {
    .name = "memory",
    .has_readers = false,
    .open = memory_open,
    .checkpoint = memory_checkpoint,
    .log_restart = memory_log,
    DRIVER_SHARED,
};
