#include "sim/vfs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/flushed.h"

#define LOCKS 8 /* of the log's index */
#define REGIONS 64

/* The log's index of one database, shared by the connections of the process. */
struct index {
    char name[128];
    unsigned users;
    uint8_t *regions[REGIONS];
    unsigned shared[LOCKS];
    struct vfs_file *exclusive[LOCKS];
};

/* Locks of one database file. */
struct locks {
    struct disk_file *file;
    unsigned shared;
    struct vfs_file *reserved, *pending, *exclusive;
};

struct vfs_file {
    sqlite3_file base;
    struct disk_file *file;
    struct locks *locks;
    struct index *index;
    int level;
    uint8_t shared_mask, exclusive_mask;
    bool is_temporary, is_new;
};

static struct vfs *current;
static struct locks lock_table[16];
static struct index index_table[4];
static unsigned temporary_count;

static struct vfs_file *of(sqlite3_file *f)
{
    return (struct vfs_file *)(void *)f;
}

/* ---- faults --------------------------------------------------------------------------------------------- */

void vfs_fail(struct vfs *v, enum vfs_op op, unsigned nth, int rc, bool is_lasting)
{
    v->rules[op] = (struct vfs_rule){nth, rc, is_lasting, v->rules[op].fired};
}

void vfs_heal(struct vfs *v)
{
    for (unsigned i = 0; i < VFS_OPS; i++)
        v->rules[i].nth = 0;
    v->capacity = 0;
    v->is_read_only = false;
    v->crash_call = v->crash_store = 0;
}

void vfs_kill(struct vfs *v)
{
    if (v->is_dead)
        return;
    v->is_dead = true;
    v->crash_call = v->crash_store = 0;
    v->crashed(v->arg);
}

void vfs_revive(struct vfs *v)
{
    v->is_dead = false;
}

static bool counts_down(unsigned *left)
{
    return *left > 0 && --*left == 0;
}

/* Each call passes here first: the code that it must fail with, or SQLITE_OK. */
static int call(enum vfs_op op)
{
    struct vfs *v = current;
    struct vfs_rule *r = &v->rules[op];
    if (v->is_dead)
        return SQLITE_IOERR;
    v->calls[op]++;
    if (counts_down(op == VFS_STORE ? &v->crash_store : &v->crash_call)) {
        vfs_kill(v);
        return SQLITE_IOERR;
    }
    if (r->nth == 0 || --r->nth > 0)
        return SQLITE_OK;
    r->fired++;
    r->nth = r->is_lasting;
    return r->rc;
}

int vfs_settle(struct vfs *v, const char *name)
{
    struct disk_file *f = disk_find(v->disk, name);
    if (!f)
        return SQLITE_OK;
    v->takes(v->arg, v->sync_time(v->arg));
    int rc = call(VFS_SYNC);
    if (rc && !v->is_dead)
        disk_sync_lost(v->disk, f);
    if (rc)
        return rc;
    disk_sync(v->disk, f);
    disk_forget(f);
    return SQLITE_OK;
}

/* ---- reading and writing ------------------------------------------------------------------------------------ */

static void drop_locks(struct vfs_file *f);
static int shm_unmap(sqlite3_file *f, int delete);

static int file_close(sqlite3_file *f)
{
    struct vfs_file *v = of(f);
    (void)shm_unmap(f, 0);
    drop_locks(v);
    v->file->opens--;
    if (v->is_temporary)
        disk_delete(current->disk, v->file);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    int rc = call(VFS_READ);
    const struct disk_content *c = &of(f)->file->seen;
    if (rc)
        return rc;
    size_t have = (uint64_t)at < c->len ? MIN((size_t)n, c->len - (size_t)at) : 0;
    if (have)
        memcpy(out, c->ptr + at, have);
    if (have == (size_t)n)
        return SQLITE_OK;
    memset((uint8_t *)out + have, 0, (size_t)n - have);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    struct vfs *v = current;
    struct disk_file *file = of(f)->file;
    bool was_dead = v->is_dead, grows = (size_t)at + (size_t)n > file->seen.len;
    int rc = call(VFS_WRITE);
    if (rc && !was_dead && v->is_dead && v->crash_leaves_write)
        disk_write(v->disk, file, data, (size_t)n, (uint64_t)at);
    if (rc == SQLITE_OK && grows)
        rc = call(VFS_GROW);
    if (rc == SQLITE_OK && v->is_read_only) {
        v->refused_read_only++;
        rc = SQLITE_IOERR_WRITE;
    }
    if (rc == SQLITE_OK && grows && v->capacity &&
        disk_bytes(v->disk) + (size_t)at + (size_t)n - file->seen.len > v->capacity) {
        v->full++;
        rc = SQLITE_FULL;
    }
    if (rc == SQLITE_OK)
        disk_write(v->disk, file, data, (size_t)n, (uint64_t)at);
    return rc;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = call(VFS_TRUNCATE);
    if (rc == SQLITE_OK)
        disk_truncate(current->disk, of(f)->file, (uint64_t)size);
    return rc;
}

static int file_sync(sqlite3_file *f, int flags)
{
    struct vfs *v = current;
    struct vfs_file *file = of(f);
    (void)flags;
    if (!v->is_dead)
        v->takes(v->arg, v->sync_time(v->arg));
    int rc = call(VFS_SYNC);
    if (rc) {
        if (!v->is_dead) {
            v->syncs_lost++;
            disk_sync_lost(v->disk, file->file);
        }
        return rc;
    }
    disk_sync(v->disk, file->file);
    if (file->is_new)
        disk_sync_entries(v->disk);
    file->is_new = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *out)
{
    int rc = call(VFS_SIZE);
    *out = (sqlite3_int64)of(f)->file->seen.len;
    return rc;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *f)
{
    (void)f;
    return (int)current->disk->sector;
}

static int file_traits(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE; /* a write changes nothing beside it: disk.c */
}

/* ---- locks of the file ------------------------------------------------------------------------------------------ */

static struct locks *locks_of(struct disk_file *file)
{
    struct locks *free_slot = NULL;
    for (size_t i = 0; i < ARRAY_LEN(lock_table); i++) {
        if (lock_table[i].file == file)
            return &lock_table[i];
        if (!lock_table[i].file && !free_slot)
            free_slot = &lock_table[i];
    }
    ASSERT(free_slot);
    *free_slot = (struct locks){.file = file};
    return free_slot;
}

static int file_lock(sqlite3_file *f, int level)
{
    struct vfs_file *v = of(f);
    struct locks *l = v->locks;
    int rc = call(VFS_LOCK);
    if (rc || v->level >= level)
        return rc;
    if (level == SQLITE_LOCK_SHARED) {
        if ((l->pending && l->pending != v) || (l->exclusive && l->exclusive != v))
            return SQLITE_BUSY;
        l->shared++;
        v->level = SQLITE_LOCK_SHARED;
        return SQLITE_OK;
    }
    if (l->reserved && l->reserved != v)
        return SQLITE_BUSY;
    l->reserved = v;
    v->level = SQLITE_LOCK_RESERVED;
    if (level == SQLITE_LOCK_RESERVED)
        return SQLITE_OK;
    l->pending = v;
    v->level = SQLITE_LOCK_PENDING;
    if (l->shared > 1)
        return SQLITE_BUSY;
    l->exclusive = v;
    v->level = SQLITE_LOCK_EXCLUSIVE;
    return SQLITE_OK;
}

static int file_unlock(sqlite3_file *f, int level)
{
    struct vfs_file *v = of(f);
    struct locks *l = v->locks;
    if (v->level <= level)
        return SQLITE_OK;
    l->reserved = l->reserved == v ? NULL : l->reserved;
    l->pending = l->pending == v ? NULL : l->pending;
    l->exclusive = l->exclusive == v ? NULL : l->exclusive;
    if (level == SQLITE_LOCK_NONE && v->level >= SQLITE_LOCK_SHARED)
        l->shared--;
    v->level = level;
    return SQLITE_OK;
}

static void drop_locks(struct vfs_file *f)
{
    if (!f->locks)
        return;
    (void)file_unlock(&f->base, SQLITE_LOCK_NONE);
    struct locks *l = f->locks;
    if (f->file->opens == 1)
        *l = (struct locks){0};
    f->locks = NULL;
}

static int file_check_lock(sqlite3_file *f, int *out)
{
    const struct locks *l = of(f)->locks;
    *out = l->reserved || l->pending || l->exclusive;
    return SQLITE_OK;
}

/* ---- the log's index ------------------------------------------------------------------------------------------------ */

static struct index *index_of(const char *name)
{
    struct index *free_slot = NULL;
    for (size_t i = 0; i < ARRAY_LEN(index_table); i++) {
        if (index_table[i].users && strcmp(index_table[i].name, name) == 0)
            return &index_table[i];
        if (!index_table[i].users && !free_slot)
            free_slot = &index_table[i];
    }
    ASSERT(free_slot);
    *free_slot = (struct index){0};
    (void)snprintf(free_slot->name, sizeof(free_slot->name), "%s", name);
    return free_slot;
}

static int shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
    struct vfs_file *v = of(f);
    int rc = call(VFS_MAP);
    *out = NULL;
    if (rc)
        return rc;
    if (!v->index) {
        v->index = index_of(v->file->name);
        v->index->users++;
    }
    ASSERT(region < REGIONS);
    if (!v->index->regions[region] && extend) {
        v->index->regions[region] = calloc(1, (size_t)size);
        ASSERT(v->index->regions[region]);
    }
    *out = v->index->regions[region];
    return SQLITE_OK;
}

static int shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    struct vfs_file *v = of(f);
    struct index *x = v->index;
    uint8_t mask = (uint8_t)(((1u << n) - 1) << offset);
    int rc = flags & SQLITE_SHM_LOCK ? call(VFS_LOCK) : SQLITE_OK;
    if (rc)
        return rc;
    for (int i = offset; i < offset + n && flags & SQLITE_SHM_LOCK; i++) {
        bool own = v->exclusive_mask & (1u << i);
        unsigned others = x->shared[i] - (v->shared_mask & (1u << i) ? 1 : 0);
        if ((x->exclusive[i] && !own) || (flags & SQLITE_SHM_EXCLUSIVE && others > 0))
            return SQLITE_BUSY;
    }
    for (int i = offset; i < offset + n; i++) {
        uint8_t bit = (uint8_t)(1u << i);
        if (flags & SQLITE_SHM_EXCLUSIVE)
            x->exclusive[i] = flags & SQLITE_SHM_LOCK ? v : NULL;
        else if (flags & SQLITE_SHM_LOCK && !(v->shared_mask & bit))
            x->shared[i]++;
        else if (flags & SQLITE_SHM_UNLOCK && v->shared_mask & bit)
            x->shared[i]--;
    }
    uint8_t *held = flags & SQLITE_SHM_EXCLUSIVE ? &v->exclusive_mask : &v->shared_mask;
    *held = (uint8_t)(flags & SQLITE_SHM_LOCK ? *held | mask : *held & ~mask);
    return SQLITE_OK;
}

static void shm_barrier(sqlite3_file *f)
{
    (void)f;
}

static int shm_unmap(sqlite3_file *f, int delete)
{
    struct vfs_file *v = of(f);
    struct index *x = v->index;
    (void)delete;
    if (!x)
        return SQLITE_OK;
    for (int i = 0; i < LOCKS; i++) {
        if (x->exclusive[i] == v)
            x->exclusive[i] = NULL;
        x->shared[i] -= v->shared_mask & (1u << i) ? 1 : 0;
    }
    v->index = NULL;
    v->shared_mask = v->exclusive_mask = 0;
    if (--x->users > 0)
        return SQLITE_OK;
    for (size_t i = 0; i < REGIONS; i++)
        free(x->regions[i]);
    *x = (struct index){0};
    return SQLITE_OK;
}

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
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

/* ---- the VFS ------------------------------------------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int vfs_open(sqlite3_vfs *s, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    struct vfs *v = current;
    struct vfs_file *file = of(f);
    char temporary[32];
    int rc = call(VFS_OPEN);
    (void)s;
    *file = (struct vfs_file){.is_temporary = !path};
    if (rc)
        return rc == SQLITE_IOERR ? SQLITE_CANTOPEN : rc;
    (void)snprintf(temporary, sizeof(temporary), "temporary-%u", ++temporary_count);
    const char *name = path ? base_name(path) : temporary;
    if (!(file->file = disk_find(v->disk, name))) {
        /* The product makes its database file itself (in the real file system), so a missing one is an empty one. */
        if (!(flags & (SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB)))
            return SQLITE_CANTOPEN;
        file->file = disk_create(v->disk, name);
    }
    /* As SQLite does for Unix: the first flush of a journal flushes the directory too. */
    file->is_new =
        flags & SQLITE_OPEN_CREATE && flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL);
    file->file->opens++;
    file->locks = flags & SQLITE_OPEN_MAIN_DB ? locks_of(file->file) : NULL;
    file->base.pMethods = &METHODS;
    if (v->is_read_only && flags & SQLITE_OPEN_READWRITE)
        flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *s, const char *path, int sync)
{
    struct vfs *v = current;
    struct disk_file *file = disk_find(v->disk, base_name(path));
    int rc = call(VFS_DELETE);
    (void)s;
    if (rc == SQLITE_OK && v->is_read_only)
        rc = SQLITE_IOERR_DELETE;
    if (rc)
        return rc;
    if (!file)
        return SQLITE_IOERR_DELETE_NOENT;
    disk_delete(v->disk, file);
    if (sync)
        disk_sync_entries(v->disk);
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *s, const char *path, int flags, int *out)
{
    const struct disk_file *file = disk_find(current->disk, base_name(path));
    (void)s;
    *out = file && (flags != SQLITE_ACCESS_EXISTS || file->seen.len > 0);
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *s, const char *path, int n, char *out)
{
    (void)s;
    (void)snprintf(out, (size_t)n, "%s", path);
    return SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *s, int n, char *out)
{
    (void)s;
    prng_fill(current->random, out, (size_t)n);
    return n;
}

static int vfs_sleep(sqlite3_vfs *s, int us)
{
    (void)s;
    current->takes(current->arg, us);
    return us;
}

static int vfs_time(sqlite3_vfs *s, sqlite3_int64 *out)
{
    (void)s;
    *out = current->wall(current->arg) / 1000 +
           210866760000000; /* ms since noon in Greenwich, 24 November 4714 BC */
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *s, int n, char *out)
{
    (void)s;
    (void)n;
    (void)out;
    return 0;
}

/* ---- calls of the store ----------------------------------------------------------------------------------------------------- */

static int statement_starts(unsigned what, void *arg, void *stmt, void *sql)
{
    (void)what;
    (void)stmt;
    (void)sql;
    if (call(VFS_STORE))
        sqlite3_interrupt(arg);
    return 0;
}

static int connection_opened(sqlite3 *db, const char **message,
                             const struct sqlite3_api_routines *api)
{
    const char *path = sqlite3_db_filename(db, "main");
    (void)message;
    (void)api;
    if (path && path[0] == '/') /* the store's; the view of what is flushed has no path */
        sqlite3_trace_v2(db, SQLITE_TRACE_STMT, statement_starts, db);
    return SQLITE_OK;
}

void vfs_use(struct vfs *v)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .szOsFile = sizeof(struct vfs_file),
        .mxPathname = 512,
        .zName = SIM_VFS,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_random,
        .xSleep = vfs_sleep,
        .xCurrentTimeInt64 = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    if (!current) {
        current = v;
        (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
        int rc = sqlite3_vfs_register(&vfs, 1);
        if (rc == SQLITE_OK)
            rc = flushed_register(SIM_VFS_FLUSHED);
        if (rc == SQLITE_OK)
            rc = sqlite3_auto_extension((void (*)(void))connection_opened);
        ASSERT(rc == SQLITE_OK);
    }
    current = v;
    temporary_count = 0;
    sqlite3_randomness(0, NULL); /* SQLite's own generator is seeded anew, by vfs_random() */
}
