#include "store/joined_vfs.h"

#include "base/assert.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the log's index. */
#define LOCK_OF_WRITER 0
#define LOCK_OF_CHECKPOINTER 1

struct joined_vfs {
    sqlite3_vfs base;
    sqlite3_vfs *real;
    char name[40];
};

struct joined_file {
    sqlite3_file base;
    sqlite3_file *real;           /* lives behind this struct */
    struct joined_file *log, *db; /* of a database: its log, and the other way; NULL: none */
    uint8_t *buf;                 /* JOINED_BYTES; NULL: nothing was written yet */
    size_t len;                   /* gathered: these bytes, at `at` of the file */
    sqlite3_int64 at;
    int failed; /* what a call that returns nothing could not tell */
};

static struct joined_file *of(sqlite3_file *f)
{
    return (struct joined_file *)(void *)f;
}

static sqlite3_file *real_of(sqlite3_file *f)
{
    return of(f)->real;
}

/* ---- gathering ------------------------------------------------------------------------------- */

static int put_out(struct joined_file *f)
{
    int rc = f->failed;
    size_t len = f->len;

    f->failed = SQLITE_OK;
    f->len = 0; /* what could not be written is given up: the transaction fails */
    if (rc == SQLITE_OK && len > 0)
        rc = f->real->pMethods->xWrite(f->real, f->buf, (int)len, f->at);
    return rc;
}

static int gather(struct joined_file *f, const void *data, size_t len, sqlite3_int64 at)
{
    int rc = SQLITE_OK;

    if (f->failed ||
        (f->len > 0 && (at != f->at + (sqlite3_int64)f->len || f->len + len > JOINED_BYTES)))
        rc = put_out(f);
    if (rc != SQLITE_OK)
        return rc;
    if (len > JOINED_BYTES || (!f->buf && !(f->buf = malloc(JOINED_BYTES))))
        return f->real->pMethods->xWrite(f->real, data, (int)len, at);
    if (f->len == 0)
        f->at = at;
    memcpy(f->buf + f->len, data, len);
    f->len += len;
    return SQLITE_OK;
}

/* Before others are told of something new. */
static void put_out_quietly(struct joined_file *db)
{
    if (db->len > 0)
        db->failed = put_out(db);
    if (db->log && db->log->len > 0)
        db->log->failed = put_out(db->log);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *file)
{
    struct joined_file *f = of(file);
    int rc = put_out(f);

    if (f->log)
        f->log->db = NULL;
    if (f->db)
        f->db->log = NULL;
    free(f->buf);
    int closed = f->real->pMethods->xClose(f->real);
    return rc != SQLITE_OK ? rc : closed;
}

static int file_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    int rc = put_out(of(f));

    return rc ? rc : real_of(f)->pMethods->xRead(real_of(f), out, n, at);
}

static int file_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    return gather(of(f), data, (size_t)n, at);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = put_out(of(f));

    return rc ? rc : real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
    int rc = put_out(of(f));

    return rc ? rc : real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *out)
{
    int rc = put_out(of(f));

    return rc ? rc : real_of(f)->pMethods->xFileSize(real_of(f), out);
}

static int file_lock(sqlite3_file *f, int level)
{
    int rc = put_out(of(f));

    return rc ? rc : real_of(f)->pMethods->xLock(real_of(f), level);
}

static int file_unlock(sqlite3_file *f, int level)
{
    int rc = put_out(of(f)), unlocked = real_of(f)->pMethods->xUnlock(real_of(f), level);

    return rc ? rc : unlocked;
}

static int file_check_lock(sqlite3_file *f, int *out)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    int rc = put_out(of(f));

    if (rc) /* SQLite does not look at every answer */
        of(f)->failed = rc;
    return rc ? rc : real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int file_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int file_traits(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int file_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
    return real_of(f)->pMethods->xShmMap(real_of(f), region, size, extend, out);
}

/* Committed frames were written before the barrier, the pages of a checkpoint before it was noted. What is left when the
 * writer's or the checkpointer's lock goes is of a transaction that was rolled back, or of a checkpoint that was given up:
 * nobody will read it, and it must not come after what the next holder of the lock writes. */
static void forget_left_over(struct joined_file *db, int first, int n)
{
    if (db->log && first <= LOCK_OF_WRITER && LOCK_OF_WRITER < first + n)
        db->log->len = 0;
    if (first <= LOCK_OF_CHECKPOINTER && LOCK_OF_CHECKPOINTER < first + n)
        db->len = 0;
}

static int file_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    if (flags & SQLITE_SHM_UNLOCK)
        forget_left_over(of(f), offset, n);
    put_out_quietly(of(f));
    return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *f)
{
    put_out_quietly(of(f));
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int file_shm_unmap(sqlite3_file *f, int delete)
{
    put_out_quietly(of(f));
    return real_of(f)->pMethods->xShmUnmap(real_of(f), delete);
}

/* Version 2: without xFetch, since nothing is mapped (sqlite.c). */
static const sqlite3_io_methods METHODS = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---- the VFS --------------------------------------------------------------------------------- */

static sqlite3_vfs *under(sqlite3_vfs *v)
{
    return ((struct joined_vfs *)(void *)v)->real;
}

/* The database that a log belongs to, which is open before it. */
static void pair(struct joined_file *log, const char *path)
{
    sqlite3_file *db = path ? sqlite3_database_file_object(path) : NULL;

    if (!db || db->pMethods != &METHODS)
        return;
    log->db = of(db);
    of(db)->log = log;
}

static int vfs_open(sqlite3_vfs *v, const char *path, sqlite3_file *file, int flags, int *out)
{
    struct joined_file *f = of(file);

    if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return under(v)->xOpen(under(v), path, file, flags, out);
    *f = (struct joined_file){.real = (sqlite3_file *)(void *)(f + 1)};
    f->real->pMethods = NULL;
    int rc = under(v)->xOpen(under(v), path, f->real, flags, out);
    if (rc != SQLITE_OK) {
        if (f->real->pMethods) /* SQLite closes a file that has methods, opened or not */
            (void)f->real->pMethods->xClose(f->real);
        return rc;
    }
    f->base.pMethods = &METHODS;
    if (flags & SQLITE_OPEN_WAL)
        pair(f, path);
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *path, int sync_dir)
{
    return under(v)->xDelete(under(v), path, sync_dir);
}

static int vfs_access(sqlite3_vfs *v, const char *path, int flags, int *out)
{
    return under(v)->xAccess(under(v), path, flags, out);
}

static int vfs_full_path(sqlite3_vfs *v, const char *path, int n, char *out)
{
    return under(v)->xFullPathname(under(v), path, n, out);
}

static int vfs_randomness(sqlite3_vfs *v, int n, char *out)
{
    return under(v)->xRandomness(under(v), n, out);
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
    return under(v)->xSleep(under(v), us);
}

static int vfs_time(sqlite3_vfs *v, double *out)
{
    return under(v)->xCurrentTime(under(v), out);
}

static int vfs_error(sqlite3_vfs *v, int n, char *out)
{
    return under(v)->xGetLastError(under(v), n, out);
}

static int vfs_time_ms(sqlite3_vfs *v, sqlite3_int64 *out)
{
    return under(v)->xCurrentTimeInt64(under(v), out);
}

struct joined_vfs *joined_vfs_new(const char *base)
{
    sqlite3_vfs *real = sqlite3_vfs_find(base);

    if (!real)
        return NULL;
    struct joined_vfs *v = calloc(1, sizeof(*v));
    if (!v)
        abort(); /* out of memory */
    (void)snprintf(v->name, sizeof(v->name), "perdure-joined-%p", (void *)v);
    v->real = real;
    v->base = (sqlite3_vfs){
        .iVersion = real->iVersion >= 2 ? 2 : 1,
        .szOsFile = (int)sizeof(struct joined_file) + real->szOsFile,
        .mxPathname = real->mxPathname,
        .zName = v->name,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time,
        .xGetLastError = real->xGetLastError ? vfs_error : NULL,
        .xCurrentTimeInt64 = vfs_time_ms,
    };
    if (sqlite3_vfs_register(&v->base, 0) != SQLITE_OK)
        abort(); /* out of memory */
    return v;
}

void joined_vfs_free(struct joined_vfs *v)
{
    if (!v)
        return;
    (void)sqlite3_vfs_unregister(&v->base);
    free(v);
}

const char *joined_vfs_name(const struct joined_vfs *v)
{
    return v->name;
}
