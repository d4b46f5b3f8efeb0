#include "fault_vfs.h"

#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512
#define PIECE 4096
#define IMAGES_MAX 64

/* A write or (data NULL) a truncation that was not flushed yet. */
struct change {
    struct change *next;
    sqlite3_int64 at;
    size_t len;
    uint8_t *data;
};

struct image {
    char path[PATH_MAX]; /* "": free */
    uint8_t *flushed;
    size_t len;
    struct change *changes, **end;
};

struct fault_file {
    sqlite3_file base;
    struct image *image; /* NULL: not recorded */
    sqlite3_file *real;  /* lives behind this struct */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    enum fault_op op;
    unsigned nth; /* 0: no rule */
    int rc;
    bool lasting, read_only, recording;
    unsigned fired, calls[FAULT_OPS], watched, whole_writes;
    fault_vfs_fn *watch;
    void *watch_arg;
    struct image images[IMAGES_MAX];
} rules;

static sqlite3_vfs vfs;
static sqlite3_io_methods methods;

static struct fault_file *of(sqlite3_file *f)
{
    return (struct fault_file *)(void *)f;
}

static sqlite3_vfs *real_vfs(void)
{
    return vfs.pAppData;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Counts the call; the code it must fail with, or SQLITE_OK. */
static int fault(enum fault_op op)
{
    int rc = SQLITE_OK;

    pthread_mutex_lock(&mutex);
    rules.calls[op]++;
    if (rules.nth > 0 && rules.op == op && --rules.nth == 0) {
        rc = rules.rc;
        rules.fired++;
        if (rules.lasting)
            rules.nth = 1;
    }
    if (rc == SQLITE_OK && rules.read_only && (op == FAULT_WRITE || op == FAULT_TRUNCATE))
        rc = SQLITE_IOERR_WRITE;
    if (rc == SQLITE_OK && rules.read_only && op == FAULT_DELETE)
        rc = SQLITE_IOERR_DELETE;
    pthread_mutex_unlock(&mutex);
    return rc;
}

static void watch(const struct fault_file *f)
{
    if (!f->image)
        return;
    pthread_mutex_lock(&mutex);
    fault_vfs_fn *fn = rules.watch;
    void *arg = rules.watch_arg;
    unsigned call = ++rules.watched;
    pthread_mutex_unlock(&mutex);
    if (fn)
        fn(arg, call);
}

void fault_vfs_fail(enum fault_op op, unsigned nth, int rc, bool lasting)
{
    pthread_mutex_lock(&mutex);
    rules.op = op;
    rules.nth = nth;
    rules.rc = rc;
    rules.lasting = lasting;
    rules.fired = 0;
    pthread_mutex_unlock(&mutex);
}

void fault_vfs_read_only(bool on)
{
    pthread_mutex_lock(&mutex);
    rules.read_only = on;
    pthread_mutex_unlock(&mutex);
}

void fault_vfs_heal(void)
{
    pthread_mutex_lock(&mutex);
    rules.nth = 0;
    rules.read_only = false;
    pthread_mutex_unlock(&mutex);
}

unsigned fault_vfs_fired(void)
{
    pthread_mutex_lock(&mutex);
    unsigned n = rules.fired;
    pthread_mutex_unlock(&mutex);
    return n;
}

unsigned fault_vfs_calls(enum fault_op op)
{
    pthread_mutex_lock(&mutex);
    unsigned n = rules.calls[op];
    pthread_mutex_unlock(&mutex);
    return n;
}

unsigned fault_vfs_whole_writes(void)
{
    pthread_mutex_lock(&mutex);
    unsigned n = rules.whole_writes;
    pthread_mutex_unlock(&mutex);
    return n;
}

void fault_vfs_watch(fault_vfs_fn *fn, void *arg)
{
    pthread_mutex_lock(&mutex);
    rules.watch = fn;
    rules.watch_arg = arg;
    rules.watched = 0;
    pthread_mutex_unlock(&mutex);
}

/* ---- images: what a power cut leaves --------------------------------------------------------- */

static void *must_have(void *p)
{
    if (!p)
        abort(); /* out of memory */
    return p;
}

static void resize(uint8_t **data, size_t *len, size_t want)
{
    *data = must_have(realloc(*data, want + 1));
    if (want > *len)
        memset(*data + *len, 0, want - *len);
    *len = want;
}

static void apply(uint8_t **data, size_t *len, const struct change *c, size_t bytes)
{
    size_t at = (size_t)c->at;

    if (!c->data) {
        resize(data, len, at);
        return;
    }
    if (at + bytes > *len)
        resize(data, len, at + bytes);
    memcpy(*data + at, c->data, bytes);
}

static void forget_changes(struct image *i)
{
    for (struct change *c = i->changes, *next; c; c = next) {
        next = c->next;
        free(c->data);
        free(c);
    }
    i->changes = NULL;
    i->end = &i->changes;
}

static void image_drop(struct image *i)
{
    forget_changes(i);
    free(i->flushed);
    *i = (struct image){0};
}

static struct image *image_find(const char *path)
{
    for (size_t i = 0; i < IMAGES_MAX; i++)
        if (strcmp(rules.images[i].path, path) == 0)
            return &rules.images[i];
    return NULL;
}

/* What is in the file when it is opened counts as flushed. */
static void image_load(struct image *i, sqlite3_file *real)
{
    sqlite3_int64 size = 0;

    if (real->pMethods->xFileSize(real, &size) != SQLITE_OK)
        abort();
    resize(&i->flushed, &i->len, (size_t)size);
    if (size > 0 && real->pMethods->xRead(real, i->flushed, (int)size, 0) != SQLITE_OK)
        abort();
}

static struct image *image_open(const char *path, sqlite3_file *real)
{
    struct image *i = NULL;

    pthread_mutex_lock(&mutex);
    if (rules.recording && path && !(i = image_find(path)) && (i = image_find(""))) {
        (void)snprintf(i->path, sizeof(i->path), "%s", path);
        i->end = &i->changes;
        image_load(i, real);
    }
    pthread_mutex_unlock(&mutex);
    return i;
}

static void image_change(struct image *i, const void *data, size_t len, sqlite3_int64 at)
{
    if (!i)
        return;
    struct change *c = must_have(calloc(1, sizeof(*c)));
    c->at = at;
    c->len = len;
    if (data)
        memcpy(c->data = must_have(malloc(len + 1)), data, len);
    pthread_mutex_lock(&mutex);
    *i->end = c;
    i->end = &c->next;
    pthread_mutex_unlock(&mutex);
}

static void image_sync(struct image *i, bool kept)
{
    if (!i)
        return;
    pthread_mutex_lock(&mutex);
    for (struct change *c = i->changes; kept && c; c = c->next)
        apply(&i->flushed, &i->len, c, c->len);
    forget_changes(i);
    pthread_mutex_unlock(&mutex);
}

static void image_write(const struct image *i, const char *dest, struct prng *p)
{
    const char *slash = strrchr(i->path, '/');
    uint8_t *data = must_have(malloc(i->len + 1));
    size_t len = i->len;
    char path[PATH_MAX];

    memcpy(data, i->flushed, i->len);
    for (const struct change *c = i->changes; p && c; c = c->next) {
        uint64_t luck = prng_below(p, 8);
        if (luck < 4)
            apply(&data, &len, c, c->len);
        else if (luck == 4 && c->len > SECTOR)
            apply(&data, &len, c, (size_t)(1 + prng_below(p, c->len / SECTOR)) * SECTOR);
    }
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dest, slash ? slash + 1 : i->path) >=
        sizeof(path))
        abort();
    FILE *f = must_have(fopen(path, "wb"));
    if (fwrite(data, 1, len, f) != len || fclose(f) != 0)
        abort();
    free(data);
}

void fault_vfs_power_cut(const char *dest, struct prng *p)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < IMAGES_MAX; i++)
        if (rules.images[i].path[0])
            image_write(&rules.images[i], dest, p);
    pthread_mutex_unlock(&mutex);
}

void fault_vfs_record(bool on)
{
    pthread_mutex_lock(&mutex);
    rules.recording = on;
    pthread_mutex_unlock(&mutex);
}

void fault_vfs_reset(void)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < IMAGES_MAX; i++)
        image_drop(&rules.images[i]);
    memset(&rules, 0, sizeof(rules));
    pthread_mutex_unlock(&mutex);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *f)
{
    sqlite3_file *real = of(f)->real;

    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    int rc = fault(FAULT_READ);

    return rc ? rc : of(f)->real->pMethods->xRead(of(f)->real, out, n, at);
}

static int write_piece(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    sqlite3_file *real = of(f)->real;
    sqlite3_int64 size = 0;
    int rc = fault(FAULT_WRITE);

    if (rc == SQLITE_OK && real->pMethods->xFileSize(real, &size) == SQLITE_OK && at + n > size)
        rc = fault(FAULT_GROW);
    if (rc == SQLITE_OK && (rc = real->pMethods->xWrite(real, data, n, at)) == SQLITE_OK) {
        image_change(of(f)->image, data, (size_t)n, at);
        watch(of(f));
    }
    return rc;
}

/* A large write may stop at any page: each is a call of its own to the rules and to power cuts. */
static int file_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    int rc = SQLITE_OK;

    pthread_mutex_lock(&mutex);
    rules.whole_writes++;
    pthread_mutex_unlock(&mutex);
    for (int done = 0; rc == SQLITE_OK && done < n; done += PIECE) {
        int len = n - done < PIECE ? n - done : PIECE;
        rc = write_piece(f, (const char *)data + done, len, at + done);
    }
    return rc;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = fault(FAULT_TRUNCATE);

    if (rc == SQLITE_OK && (rc = of(f)->real->pMethods->xTruncate(of(f)->real, size)) == SQLITE_OK)
        image_change(of(f)->image, NULL, 0, size);
    return rc;
}

static int file_sync(sqlite3_file *f, int flags)
{
    int rc = fault(FAULT_SYNC);

    /* No real flush: the tests' power cuts are ours, and this is quicker. One that failed loses the
     * writes for good, as Linux does: the next flush is fine and does not write them. */
    (void)flags;
    image_sync(of(f)->image, rc == SQLITE_OK);
    if (rc == SQLITE_OK)
        watch(of(f));
    return rc;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *out)
{
    int rc = fault(FAULT_SIZE);

    return rc ? rc : of(f)->real->pMethods->xFileSize(of(f)->real, out);
}

static int file_lock(sqlite3_file *f, int level)
{
    int rc = fault(FAULT_LOCK);

    return rc ? rc : of(f)->real->pMethods->xLock(of(f)->real, level);
}

static int file_unlock(sqlite3_file *f, int level)
{
    return of(f)->real->pMethods->xUnlock(of(f)->real, level);
}

static int file_check_lock(sqlite3_file *f, int *out)
{
    return of(f)->real->pMethods->xCheckReservedLock(of(f)->real, out);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    return of(f)->real->pMethods->xFileControl(of(f)->real, op, arg);
}

static int file_sector(sqlite3_file *f)
{
    return of(f)->real->pMethods->xSectorSize(of(f)->real);
}

static int file_traits(sqlite3_file *f)
{
    return of(f)->real->pMethods->xDeviceCharacteristics(of(f)->real);
}

static int file_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
    int rc = fault(FAULT_MAP);

    return rc ? rc : of(f)->real->pMethods->xShmMap(of(f)->real, region, size, extend, out);
}

static int file_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    int rc = flags & SQLITE_SHM_LOCK ? fault(FAULT_LOCK) : SQLITE_OK;

    return rc ? rc : of(f)->real->pMethods->xShmLock(of(f)->real, offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *f)
{
    of(f)->real->pMethods->xShmBarrier(of(f)->real);
}

static int file_shm_unmap(sqlite3_file *f, int delete)
{
    return of(f)->real->pMethods->xShmUnmap(of(f)->real, delete);
}

/* ---- the VFS --------------------------------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
    struct fault_file *file = of(f);
    int rc = fault(FAULT_OPEN);

    (void)v;
    file->base.pMethods = NULL;
    file->image = NULL;
    file->real = (sqlite3_file *)(void *)(file + 1);
    file->real->pMethods = NULL;
    if (rc)
        return rc;
    pthread_mutex_lock(&mutex);
    bool read_only = rules.read_only;
    pthread_mutex_unlock(&mutex);
    if (read_only && flags & SQLITE_OPEN_READWRITE)
        flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    if ((rc = real_vfs()->xOpen(real_vfs(), name, file->real, flags, out_flags)))
        return rc;
    file->base.pMethods = &methods;
    file->image = image_open(name, file->real);
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync)
{
    int rc = fault(FAULT_DELETE);

    (void)v;
    if (rc || (rc = real_vfs()->xDelete(real_vfs(), name, sync)))
        return rc;
    pthread_mutex_lock(&mutex);
    struct image *i = image_find(name);
    if (i)
        image_drop(i);
    pthread_mutex_unlock(&mutex);
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
    (void)v;
    return real_vfs()->xAccess(real_vfs(), name, flags, out);
}

static int vfs_full_path(sqlite3_vfs *v, const char *name, int n, char *out)
{
    (void)v;
    return real_vfs()->xFullPathname(real_vfs(), name, n, out);
}

static int vfs_random(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    return real_vfs()->xRandomness(real_vfs(), n, out);
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
    (void)v;
    (void)us;
    return us; /* nobody else holds a lock in these tests: waiting helps nothing */
}

static int vfs_time(sqlite3_vfs *v, sqlite3_int64 *out)
{
    (void)v;
    return real_vfs()->xCurrentTimeInt64(real_vfs(), out);
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    return real_vfs()->xGetLastError(real_vfs(), n, out);
}

void fault_vfs_register(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);

    if (vfs.pAppData)
        return;
    methods = (sqlite3_io_methods){
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
    vfs = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = (int)sizeof(struct fault_file) + real->szOsFile,
        .mxPathname = real->mxPathname,
        .zName = FAULT_VFS,
        .pAppData = real,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_random,
        .xSleep = vfs_sleep,
        .xCurrentTimeInt64 = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
        abort();
}
