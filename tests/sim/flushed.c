#include "sim/flushed.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#define PAGE 4096
#define LOG_HEADER 32
#define FRAME_HEADER 24
#define FRAME (FRAME_HEADER + PAGE)

struct pending_page {
    uint32_t page;
    uint64_t at;
};

static struct {
    struct disk *disk;
    char name[120], log_name[128], journal_name[128];
    uint64_t seen; /* disk.changes that all below is of */
    bool is_there;
    uint32_t generation; /* the change counter that is shown */
    uint32_t pages;
    /* The log. */
    const struct disk_file *db, *log;
    uint64_t log_changes;
    uint8_t header[LOG_HEADER];
    bool has_header, is_big_endian;
    uint64_t next;      /* where the frames behind the last commit begin */
    uint32_t sums[2];   /* checksums up to there */
    uint32_t log_pages; /* pages of the database by the last commit; 0: none */
    uint64_t *places;   /* page number -> place of its bytes in the log; 0: in the database file */
    size_t place_count;
    struct pending_page *pending;
    size_t pending_count, pending_cap;
} view;

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 3; i >= 0; i--, v >>= 8)
        p[i] = (uint8_t)v;
}

/* ---- the log --------------------------------------------------------------------------------------------- */

static uint32_t word(const uint8_t *p)
{
    if (view.is_big_endian)
        return get32(p);
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static void add_sums(uint32_t sums[2], const uint8_t *p, size_t len)
{
    uint32_t a = sums[0], b = sums[1];
    for (size_t i = 0; i < len; i += 8) {
        a += word(p + i) + b;
        b += word(p + i + 4) + a;
    }
    sums[0] = a;
    sums[1] = b;
}

static void log_forget(void)
{
    view.has_header = false;
    view.log_pages = 0;
    view.next = LOG_HEADER;
    if (view.places)
        memset(view.places, 0, view.place_count * sizeof(*view.places));
}

static void log_begin(const struct disk_content *c)
{
    log_forget();
    if (c->len < LOG_HEADER || (get32(c->ptr) & ~1u) != 0x377f0682 || get32(c->ptr + 8) != PAGE)
        return;
    view.is_big_endian = get32(c->ptr) & 1;
    uint32_t sums[2] = {0, 0};
    add_sums(sums, c->ptr, 24);
    if (sums[0] != get32(c->ptr + 24) || sums[1] != get32(c->ptr + 28))
        return;
    memcpy(view.header, c->ptr, LOG_HEADER);
    memcpy(view.sums, sums, sizeof(sums));
    view.has_header = true;
}

static void take_pending(uint32_t pages)
{
    for (size_t i = 0; i < view.pending_count; i++) {
        uint32_t page = view.pending[i].page;
        if (page >= view.place_count) {
            size_t count = MAX((size_t)page + 1, view.place_count * 2);
            view.places = realloc(view.places, count * sizeof(*view.places));
            ASSERT(view.places);
            memset(view.places + view.place_count, 0,
                   (count - view.place_count) * sizeof(*view.places));
            view.place_count = count;
        }
        view.places[page] = view.pending[i].at;
    }
    view.log_pages = pages;
}

static void log_follow(const struct disk_content *c)
{
    uint32_t sums[2] = {view.sums[0], view.sums[1]};
    view.pending_count = 0;
    for (uint64_t at = view.next; at + FRAME <= c->len; at += FRAME) {
        const uint8_t *f = c->ptr + at;
        if (get32(f) == 0 || memcmp(f + 8, view.header + 16, 8) != 0)
            return;
        add_sums(sums, f, 8);
        add_sums(sums, f + FRAME_HEADER, PAGE);
        if (sums[0] != get32(f + 16) || sums[1] != get32(f + 20))
            return;
        if (view.pending_count == view.pending_cap) {
            view.pending_cap = MAX((size_t)64, view.pending_cap * 2);
            view.pending = realloc(view.pending, view.pending_cap * sizeof(*view.pending));
            ASSERT(view.pending);
        }
        view.pending[view.pending_count++] = (struct pending_page){get32(f), at + FRAME_HEADER};
        if (get32(f + 4) == 0)
            continue;
        take_pending(get32(f + 4));
        view.pending_count = 0;
        view.next = at + FRAME;
        memcpy(view.sums, sums, sizeof(sums));
    }
}

/* ---- the database ------------------------------------------------------------------------------------------ */

static bool has_hot_journal(void)
{
    const struct disk_file *j = disk_find_on_medium(view.disk, view.journal_name);
    return j && j->medium.len > 0 && j->medium.ptr[0] != 0;
}

static void refresh(void)
{
    if (view.seen == view.disk->changes && view.generation > 0)
        return;
    view.seen = view.disk->changes;
    view.generation++;
    view.db = disk_find_on_medium(view.disk, view.name);
    const struct disk_file *log = disk_find_on_medium(view.disk, view.log_name);
    if (!log) {
        log_forget();
    } else if (log != view.log || !view.has_header || log->medium.len < view.next ||
               memcmp(log->medium.ptr, view.header, LOG_HEADER) != 0) {
        log_begin(&log->medium);
        view.log_changes = 0;
    }
    if (log && view.has_header && view.log_changes != log->changes)
        log_follow(&log->medium);
    view.log = log;
    view.log_changes = log ? log->changes : 0;
    view.is_there = view.db && view.db->medium.len >= PAGE && !has_hot_journal();
    view.pages = view.log_pages ? view.log_pages
                 : view.db      ? (uint32_t)(view.db->medium.len / PAGE)
                                : 0;
}

bool flushed_is_there(void)
{
    refresh();
    return view.is_there;
}

void flushed_show(struct disk *d, const char *name)
{
    view.disk = d;
    view.generation = 0;
    view.log = NULL;
    (void)snprintf(view.name, sizeof(view.name), "%s", name);
    (void)snprintf(view.log_name, sizeof(view.log_name), "%s-wal", name);
    (void)snprintf(view.journal_name, sizeof(view.journal_name), "%s-journal", name);
    log_forget();
}

static const uint8_t *page_at(uint32_t page)
{
    static const uint8_t ZERO[PAGE];
    if (view.log_pages && page < view.place_count && view.places[page])
        return view.log->medium.ptr + view.places[page];
    if ((uint64_t)page * PAGE > view.db->medium.len)
        return ZERO;
    return view.db->medium.ptr + (uint64_t)(page - 1) * PAGE;
}

/* Page 1 as that of a database without a log, of this moment. */
static void show_first(uint8_t *page)
{
    memcpy(page, page_at(1), PAGE);
    page[18] = page[19] = 1;
    put32(page + 24, view.generation);
    put32(page + 28, view.pages);
    put32(page + 92, view.generation);
}

/* ---- SQLite's side ------------------------------------------------------------------------------------------- */

static int view_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

static int view_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    uint8_t first[PAGE];
    uint8_t *to = out;
    (void)f;
    refresh();
    if (!view.is_there || (uint64_t)at + (uint64_t)n > (uint64_t)view.pages * PAGE) {
        memset(out, 0, (size_t)n);
        return SQLITE_IOERR_SHORT_READ;
    }
    for (size_t done = 0; done < (size_t)n;) {
        uint64_t pos = (uint64_t)at + done;
        size_t skip = pos % PAGE, part = MIN((size_t)n - done, PAGE - skip);
        const uint8_t *page = first;
        if (pos < PAGE)
            show_first(first);
        else
            page = page_at((uint32_t)(pos / PAGE) + 1);
        memcpy(to + done, page + skip, part);
        done += part;
    }
    return SQLITE_OK;
}

static int view_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    (void)f;
    (void)data;
    (void)n;
    (void)at;
    return SQLITE_READONLY;
}

static int view_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    (void)f;
    (void)size;
    return SQLITE_READONLY;
}

static int view_number(sqlite3_file *f, int number)
{
    (void)f;
    (void)number;
    return SQLITE_OK;
}

static int view_size(sqlite3_file *f, sqlite3_int64 *out)
{
    (void)f;
    refresh();
    *out = (sqlite3_int64)view.pages * PAGE;
    return SQLITE_OK;
}

static int view_check_lock(sqlite3_file *f, int *out)
{
    (void)f;
    *out = 0;
    return SQLITE_OK;
}

static int view_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int view_zero(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static int view_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    static const sqlite3_io_methods METHODS = {
        .iVersion = 1,
        .xClose = view_close,
        .xRead = view_read,
        .xWrite = view_write,
        .xTruncate = view_truncate,
        .xSync = view_number,
        .xFileSize = view_size,
        .xLock = view_number,
        .xUnlock = view_number,
        .xCheckReservedLock = view_check_lock,
        .xFileControl = view_control,
        .xSectorSize = view_zero,
        .xDeviceCharacteristics = view_zero,
    };
    (void)v;
    (void)path;
    f->pMethods = flags & SQLITE_OPEN_MAIN_DB ? &METHODS : NULL;
    if (!f->pMethods)
        return SQLITE_CANTOPEN;
    if (out_flags)
        *out_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    return SQLITE_OK;
}

static int view_delete(sqlite3_vfs *v, const char *path, int sync)
{
    (void)v;
    (void)path;
    (void)sync;
    return SQLITE_READONLY;
}

static int view_access(sqlite3_vfs *v, const char *path, int flags, int *out)
{
    (void)v;
    (void)path;
    (void)flags;
    *out = 0; /* no journal, no log */
    return SQLITE_OK;
}

int flushed_register(const char *vfs_name)
{
    static sqlite3_vfs vfs;
    const sqlite3_vfs *sim = sqlite3_vfs_find(NULL);
    vfs = *sim; /* its paths, clock and randomness */
    vfs.pNext = NULL;
    vfs.szOsFile = sizeof(sqlite3_file);
    vfs.zName = vfs_name;
    vfs.xOpen = view_open;
    vfs.xDelete = view_delete;
    vfs.xAccess = view_access;
    return sqlite3_vfs_register(&vfs, 0);
}
