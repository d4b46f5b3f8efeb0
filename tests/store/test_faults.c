/* test_faults.c - calls of the file system that fail, and power cuts, at every possible place.
 *
 * After any of them: nothing is half-applied, what was acknowledged is there, everything answers
 * ERR_UNAVAILABLE until store_reopen() works, and that works once the cause is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "fault_vfs.h"
#include "store_fixture.h"

static const struct {
    enum fault_op op;
    int rc;
    const char *name;
} FAULTS[] = {
    {FAULT_GROW, SQLITE_FULL, "disk full"},
    {FAULT_WRITE, SQLITE_IOERR_WRITE, "write error"},
    {FAULT_SYNC, SQLITE_IOERR_FSYNC, "flush error"},
    {FAULT_READ, SQLITE_IOERR_READ, "read error"},
    {FAULT_TRUNCATE, SQLITE_IOERR_TRUNCATE, "truncate error"},
    {FAULT_SIZE, SQLITE_IOERR_FSTAT, "size error"},
    {FAULT_OPEN, SQLITE_CANTOPEN, "cannot open"},
    {FAULT_DELETE, SQLITE_IOERR_DELETE, "delete error"},
    {FAULT_LOCK, SQLITE_IOERR_LOCK, "lock error"},
    {FAULT_LOCK, SQLITE_BUSY, "busy"},
    {FAULT_MAP, SQLITE_IOERR_SHMMAP, "map error"},
};

static int set_up(void **state)
{
    struct store_fixture *f = malloc(sizeof(*f));

    assert_non_null(f);
    fault_vfs_register();
    fault_vfs_reset();
    store_fixture_init(f, "sqlite");
    f->vfs = FAULT_VFS;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fault_vfs_heal();
    store_fixture_deinit(*state);
    fault_vfs_reset();
    free(*state);
    return 0;
}

/* ---- groups: objects, rows and counts that belong together ----------------------------------- */

#define GROUP 4      /* objects a transaction */
#define HISTORY 9000 /* bytes of each: overflow pages */

static enum err write_rows(struct store *st, uint64_t key, struct error *err)
{
    static const uint8_t FILL[HISTORY] = {7};
    char id[32];
    struct store_object o = store_fixture_object(key);
    enum err e;

    (void)snprintf(id, sizeof(id), "id-%llu", (unsigned long long)key);
    o.id = bytes_str(id);
    if ((e = store_object_insert(st, &o, err)) ||
        (e = store_history_append(
             st,
             &(struct store_history){.execution = key, .row = 1, .frames = bytes_of(FILL, HISTORY)},
             err)) ||
        (e = store_inbox_append(
             st, &(struct store_inbox){.object = key, .seq = 1, .event = BYTES_LIT("x")}, err)) ||
        (e = store_timer_insert(st, &(struct store_timer){.due = 9, .key = key, .execution = key},
                                err)))
        return e;
    return store_count_add(st, 1, 1, 0, 1, err);
}

/* One transaction that adds group `g`; rolled back on an error, as the engine does. */
static enum err write_group(struct store *st, uint64_t g, struct error *err)
{
    uint64_t first;
    enum err e = store_begin(st, err);

    if (e)
        return e;
    e = store_next_key(st, 1, &first, err);
    for (uint64_t i = 0; !e && i < GROUP; i++)
        e = write_rows(st, g * GROUP + i + 1, err);
    if (!e)
        return store_commit(st, err);
    store_rollback(st);
    return e;
}

struct seen {
    uint64_t objects, groups; /* groups: 0..groups-1 are whole */
};

static bool count_row(void *arg, const struct store_history *h)
{
    assert_int_equal(h->frames.len, HISTORY);
    *(uint64_t *)arg += 1;
    return true;
}

static bool count_inbox(void *arg, const struct store_inbox *m)
{
    (void)m;
    *(uint64_t *)arg += 1;
    return true;
}

static void keep_count(void *arg, uint32_t hub, uint8_t kind, int32_t status, int64_t n)
{
    (void)hub;
    (void)kind;
    (void)status;
    *(uint64_t *)arg = (uint64_t)n;
}

/* A row is there with all that was written with it, or nothing of it is. */
static bool has_rows(struct store_reader *r, uint64_t key)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object o;
    struct error e_;
    uint64_t rows = 0, inbox = 0;
    enum err e = store_object_get(r, key, &o, &buf, &e_);

    assert_true(e == OK || e == ERR_NOT_FOUND);
    OKAY(store_history_read(r, key, 1, SIZE_MAX, count_row, &rows, &err));
    OKAY(store_inbox_read(r, key, 0, 10, SIZE_MAX, count_inbox, &inbox, &err));
    assert_int_equal(rows, e == OK);
    assert_int_equal(inbox, e == OK);
    return e == OK;
}

/* Reads all: every group is whole or absent, no later one without the earlier ones, and the counts
 * agree. */
static struct seen check_all(struct store_reader *r, uint64_t groups_max)
{
    struct seen s = {0};
    uint64_t count = 0, timers = 0;

    for (uint64_t g = 0; g < groups_max; g++) {
        uint64_t there = 0;
        for (uint64_t i = 0; i < GROUP; i++)
            there += has_rows(r, g * GROUP + i + 1);
        assert_true(there == 0 || there == GROUP);
        if (there)
            assert_int_equal(s.groups++, g);
        s.objects += there;
    }
    OKAY(store_count_list(r, keep_count, &count, &err));
    OKAY(store_timer_count(r, &timers, &err));
    assert_int_equal(count, s.objects);
    assert_int_equal(timers, s.objects);
    return s;
}

static void check_integrity(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "ok");
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- one call fails -------------------------------------------------------------------------- */

/* All that a caller may do while the store is down. */
static void check_down(struct store_fixture *f)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object o;
    uint64_t n;

    EXPECT(ERR_UNAVAILABLE, store_begin(f->st, &err));
    EXPECT(ERR_UNAVAILABLE, store_object_get(store_reader(f->st), 1, &o, &buf, &err));
    EXPECT(ERR_UNAVAILABLE, store_timer_count(store_reader(f->st), &n, &err));
    EXPECT(ERR_UNAVAILABLE, store_log_restart(f->st, 0, &err));
    store_rollback(f->st);
}

static void reopen(struct store_fixture *f)
{
    OKAY(store_reopen(f->st, &err));
    f->r = store_reader(f->st);
}

/* Fails the nth call of one sort while group 1 is written into a store that has group 0. False:
 * there was no such call any more. */
static bool one_failure(struct store_fixture *f, size_t fault, unsigned nth)
{
    struct error e_ = {0};
    struct seen s;

    store_fixture_open(f);
    OKAY(write_group(f->st, 0, &err));
    fault_vfs_fail(FAULTS[fault].op, nth, FAULTS[fault].rc, false);
    enum err e = write_group(f->st, 1, &e_);
    bool fired = fault_vfs_fired() > 0;
    fault_vfs_heal();

    if (e != OK) {
        assert_true(fired);
        assert_int_equal(e, ERR_UNAVAILABLE);
        assert_true(strlen(e_.msg) > 10);
        check_down(f);
        reopen(f);
    }
    s = check_all(f->r, 3);
    assert_true(s.groups == 1 || s.groups == 2);
    if (e == OK)
        assert_int_equal(s.groups, 2);
    OKAY(write_group(f->st, s.groups, &err)); /* it works again */
    assert_int_equal(check_all(f->r, 4).groups, s.groups + 1);
    store_fixture_close(f);
    check_integrity(f->path);
    store_fixture_open(f);
    assert_int_equal(check_all(f->r, 4).groups, s.groups + 1);
    store_fixture_close(f);
    (void)unlink(f->path);
    return fired;
}

static void a_failed_call_undoes_the_whole_transaction(void **state)
{
    struct store_fixture *f = *state;
    unsigned total = 0;

    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        unsigned nth = 1;
        while (one_failure(f, i, nth))
            nth++;
        total += nth - 1;
    }
    assert_true(total > 30); /* the faults did hit something */
}

/* ---- one call fails while the log is emptied, while the store is opened ---------------------- */

static bool checkpoint_failure(struct store_fixture *f, size_t fault, unsigned nth, bool restart)
{
    struct store_checkpointer *c = NULL;
    struct error e_;
    enum err e;

    store_fixture_open(f);
    OKAY(store_checkpointer_open(f->st, &c, &err));
    for (uint64_t g = 0; g < 3; g++)
        OKAY(write_group(f->st, g, &err));
    fault_vfs_fail(FAULTS[fault].op, nth, FAULTS[fault].rc, false);
    e = restart ? store_log_restart(f->st, 0, &e_) : store_checkpoint(c, &e_);
    bool fired = fault_vfs_fired() > 0;
    fault_vfs_heal();
    assert_true(e == OK || (fired && e == ERR_UNAVAILABLE));
    if (restart && e)
        reopen(f);
    assert_int_equal(check_all(f->r, 4).groups, 3);
    OKAY(store_checkpoint(c, &err)); /* the next one works */
    OKAY(write_group(f->st, 3, &err));
    store_checkpointer_close(c);
    store_fixture_close(f);
    check_integrity(f->path);
    store_fixture_open(f);
    assert_int_equal(check_all(f->r, 5).groups, 4);
    store_fixture_close(f);
    (void)unlink(f->path);
    return fired;
}

static void a_failed_checkpoint_loses_nothing(void **state)
{
    struct store_fixture *f = *state;
    unsigned total = 0;

    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        for (int restart = 0; restart < 2; restart++) {
            unsigned nth = 1;
            while (checkpoint_failure(f, i, nth, restart))
                nth++;
            total += nth - 1;
        }
    }
    assert_true(total > 30);
}

static bool new_store_failure(struct store_fixture *f, size_t fault, unsigned nth)
{
    struct error e_ = {0};

    fault_vfs_fail(FAULTS[fault].op, nth, FAULTS[fault].rc, false);
    enum err e = store_fixture_try_open(f, &e_);
    bool fired = fault_vfs_fired() > 0;
    fault_vfs_heal();
    if (e) {
        assert_true(fired);
        assert_int_equal(e, ERR_STORE_OPEN);
        assert_non_null(strstr(e_.msg, f->path));
        store_fixture_open(f);
    }
    assert_int_equal(store_info(f->st)->partitions, STORE_PARTITIONS_DEFAULT);
    OKAY(write_group(f->st, 0, &err));
    assert_int_equal(check_all(f->r, 2).groups, 1);
    store_fixture_close(f);
    check_integrity(f->path);
    (void)unlink(f->path);
    return fired;
}

static void a_store_that_could_not_be_made_is_made_later(void **state)
{
    struct store_fixture *f = *state;
    unsigned total = 0;

    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        unsigned nth = 1;
        while (new_store_failure(f, i, nth))
            nth++;
        total += nth - 1;
    }
    assert_true(total > 50);
}

/* ---- the cause lasts ------------------------------------------------------------------------- */

static void check_lasting(struct store_fixture *f, void (*begin)(void), bool empty_log)
{
    struct store_reader *r = NULL;
    uint64_t groups = 1;

    store_fixture_open(f);
    OKAY(store_reader_open(f->st, &r, &err));
    OKAY(write_group(f->st, 0, &err));
    if (empty_log)
        OKAY(store_log_restart(f->st, 0, &err));
    begin();
    for (; groups < 2000; groups++) { /* a full disk hits when the log must grow */
        struct error e_;
        enum err e = write_group(f->st, groups, &e_);
        if (e == OK)
            continue;
        assert_int_equal(e, ERR_UNAVAILABLE);
        break;
    }
    for (int i = 0; i < 3; i++) {
        check_down(f);
        EXPECT(ERR_UNAVAILABLE, store_reopen(f->st, &err));
        assert_true(check_all(r, groups + 1).groups >= groups); /* queries go on */
    }
    fault_vfs_heal();
    reopen(f);
    groups = check_all(f->r, groups + 1).groups;
    OKAY(write_group(f->st, groups, &err));
    assert_int_equal(check_all(r, groups + 2).groups, groups + 1);
    store_reader_close(r);
    store_fixture_close(f);
    check_integrity(f->path);
}

static void disk_full(void)
{
    fault_vfs_fail(FAULT_WRITE, 1, SQLITE_FULL, true);
}

static void flush_broken(void)
{
    fault_vfs_fail(FAULT_SYNC, 1, SQLITE_IOERR_FSYNC, true);
}

static void read_only(void)
{
    fault_vfs_read_only(true);
}

static void a_full_disk_is_survived(void **state)
{
    check_lasting(*state, disk_full, false);
    assert_int_equal(unlink(((struct store_fixture *)*state)->path), 0);
    check_lasting(*state, disk_full, true);
}

static void a_broken_flush_is_survived(void **state)
{
    check_lasting(*state, flush_broken, false);
    assert_int_equal(unlink(((struct store_fixture *)*state)->path), 0);
    check_lasting(*state, flush_broken, true);
}

static void a_read_only_file_system_is_survived(void **state)
{
    check_lasting(*state, read_only, false);
    assert_int_equal(unlink(((struct store_fixture *)*state)->path), 0);
    check_lasting(*state, read_only, true);
}

/* The log keeps its blocks over a restart: what fits into them can be written on a full disk
 * (BL-138). */
static void a_full_disk_leaves_room_in_the_log(void **state)
{
    struct store_fixture *f = *state;

    store_fixture_open(f);
    for (uint64_t g = 0; g < 20; g++)
        OKAY(write_group(f->st, g, &err));
    OKAY(store_log_restart(f->st, 0, &err));
    fault_vfs_fail(FAULT_GROW, 1, SQLITE_FULL, true);
    OKAY(store_begin(f->st, &err));
    for (uint64_t key = 1; key <= 10; key++) { /* a purge */
        OKAY(store_object_delete(f->st, key, &err));
        OKAY(store_history_delete(f->st, key, 100, NULL, &err));
    }
    OKAY(store_commit(f->st, &err));
    assert_int_equal(fault_vfs_fired(), 0);
}

static void a_read_only_file_is_not_opened(void **state)
{
    struct store_fixture *f = *state;
    struct error e_ = {0};

    store_fixture_open(f);
    OKAY(write_group(f->st, 0, &err));
    store_fixture_close(f);
    fault_vfs_read_only(true);
    assert_int_equal(store_fixture_try_open(f, &e_), ERR_STORE_OPEN);
    assert_non_null(strstr(e_.msg, f->path));
    assert_non_null(strstr(e_.msg, "read-only"));
    assert_non_null(strstr(e_.msg, "make it writable"));
    fault_vfs_heal();
    store_fixture_open(f);
    assert_int_equal(check_all(f->r, 2).groups, 1);
}

/* ---- power cuts ------------------------------------------------------------------------------ */

struct cuts {
    struct store_fixture *f;
    struct prng prng;
    unsigned acknowledged, begun; /* groups */
    unsigned checked;
};

static void copy_dir(char *out, size_t size, const struct store_fixture *f)
{
    if ((size_t)snprintf(out, size, "%s/cut", f->dir) >= size)
        abort();
    if (mkdir(out, 0700) != 0)
        abort();
}

static void remove_copy(const char *dir)
{
    static const char *const FILES[] = {"s.db", "s.db-wal", "s.db-shm", "s.db-journal",
                                        "s.db.lock"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, FILES[i]) < sizeof(path))
            (void)unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* Opens what a cut left: all that was acknowledged, at most what was begun, nothing half. */
static void check_cut(struct cuts *c, struct prng *luck)
{
    struct store_fixture after;
    char dir[PATH_MAX];

    fault_vfs_record(false);
    copy_dir(dir, sizeof(dir), c->f);
    fault_vfs_power_cut(dir, luck);
    store_fixture_init(&after, "memory");
    after.vfs = FAULT_VFS; /* quicker: it does not really flush */
    if ((size_t)snprintf(after.url, sizeof(after.url), "sqlite:%s/s.db", dir) >= sizeof(after.url))
        abort();
    store_fixture_open(&after);
    struct seen s = check_all(after.r, c->begun + 1);
    assert_in_range(s.groups, c->acknowledged, c->begun);
    OKAY(write_group(after.st, s.groups, &err));
    assert_int_equal(check_all(after.r, c->begun + 2).groups, s.groups + 1);
    store_fixture_close(&after);
    if ((size_t)snprintf(after.path, sizeof(after.path), "%s/s.db", dir) >= sizeof(after.path))
        abort();
    check_integrity(after.path);
    store_fixture_deinit(&after);
    remove_copy(dir);
    c->checked++;
    fault_vfs_record(true);
}

static void cut(void *arg, unsigned call)
{
    struct cuts *c = arg;

    (void)call;
    check_cut(c, NULL);
    check_cut(c, &c->prng);
}

/* reports: BL-137 */
static void power_cuts_leave_what_was_acknowledged(void **state)
{
    struct store_fixture *f = *state;
    struct cuts c = {.f = f};
    struct store_checkpointer *ckpt;

    prng_seed(&c.prng, 20260101);
    fault_vfs_record(true);
    fault_vfs_watch(cut, &c);
    store_fixture_open(f); /* the making of the store is cut as well */
    OKAY(store_checkpointer_open(f->st, &ckpt, &err));
    for (unsigned g = 0; g < 4; g++) {
        c.begun = g + 1;
        OKAY(write_group(f->st, g, &err));
        c.acknowledged = g + 1;
        if (g == 1)
            OKAY(store_checkpoint(ckpt, &err));
        if (g == 2)
            OKAY(store_log_restart(f->st, 0, &err));
    }
    store_checkpointer_close(ckpt);
    store_fixture_close(f); /* copies the log back: cut too */
    fault_vfs_watch(NULL, NULL);
    assert_true(c.checked > 200);
}

/* What SQLite calls salt-1 in the header of the log: another one each time the log begins anew. */
static uint32_t log_salt(const struct store_fixture *f)
{
    char path[PATH_MAX];
    uint8_t head[32];

    assert_true((size_t)snprintf(path, sizeof(path), "%s-wal", f->path) < sizeof(path));
    FILE *log = fopen(path, "rb");
    assert_non_null(log);
    assert_int_equal(fread(head, 1, sizeof(head), log), sizeof(head));
    fclose(log);
    return (uint32_t)head[16] << 24 | (uint32_t)head[17] << 16 | (uint32_t)head[18] << 8 | head[19];
}

/* A failed flush, then a reopen, then a cut: the log was reset, so later commits do not stand on
 * bytes that never reached the disk. */
static void a_cut_after_a_failed_flush_leaves_what_was_acknowledged(void **state)
{
    struct store_fixture *f = *state;
    struct cuts c = {.f = f};

    prng_seed(&c.prng, 7);
    fault_vfs_record(true);
    store_fixture_open(f);
    for (unsigned round = 0; round < 4; round++) {
        unsigned groups = c.acknowledged;
        struct error e_;
        fault_vfs_fail(FAULT_SYNC, 1, SQLITE_IOERR_FSYNC, false);
        assert_int_equal(write_group(f->st, groups, &e_), ERR_UNAVAILABLE);
        uint32_t salt = log_salt(f);
        reopen(f);
        assert_true(log_salt(f) != salt);
        groups = (unsigned)check_all(f->r, groups + 2).groups;
        c.begun = groups + 1;
        OKAY(write_group(f->st, groups, &err));
        c.acknowledged = groups + 1;
        for (int i = 0; i < 10; i++)
            check_cut(&c, i ? &c.prng : NULL);
    }
}

/* How many of them are interrupted when they start. */
static unsigned bad_commits, bad_rollbacks;

static int statement_starts(unsigned what, void *db, void *stmt, void *sql)
{
    unsigned *left = strcmp(sql, "COMMIT") == 0     ? &bad_commits
                     : strcmp(sql, "ROLLBACK") == 0 ? &bad_rollbacks
                                                    : NULL;
    (void)what;
    (void)stmt;
    if (left && *left > 0) {
        --*left;
        sqlite3_interrupt(db);
    }
    return 0;
}

static int connection_opened(sqlite3 *db, const char **message,
                             const struct sqlite3_api_routines *api)
{
    (void)message;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, statement_starts, db);
}

/* What a rollback that fails leaves open keeps the store neither from being used nor from being opened anew. */
static void a_rollback_that_fails_is_made_up_for(void **state)
{
    struct store_fixture *f = *state;
    struct store_reader *r;
    struct error e_;
    unsigned groups = 0;

    sqlite3_auto_extension((void (*)(void))(uintptr_t)connection_opened);
    store_fixture_open(f);
    OKAY(store_reader_open(f->st, &r, &err));
    for (; groups < 2; groups++) { /* of the reads of the writer, and of a reader */
        store_read_begin(f->st);
        check_all(f->r, groups + 1);
        OKAY(store_reader_begin(r, &err));
        check_all(r, groups + 1);
        bad_rollbacks = 2;
        store_read_end(f->st);
        store_reader_end(r);
        assert_int_equal(bad_rollbacks, 0);
        OKAY(write_group(f->st, groups, &err));
        OKAY(store_reader_begin(r, &err));
        assert_int_equal(check_all(r, groups + 2).groups, groups + 1);
        store_reader_end(r);
    }
    for (unsigned times = 1; times < 3; times++, groups++) { /* of a commit that was refused */
        bad_commits = 1;
        bad_rollbacks = times;
        assert_int_equal(write_group(f->st, groups, &e_), ERR_UNAVAILABLE);
        assert_int_equal(bad_rollbacks, 0);
        reopen(f);
        OKAY(write_group(f->st, groups, &err));
    }
    store_reader_close(r);
    sqlite3_cancel_auto_extension((void (*)(void))(uintptr_t)connection_opened);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest TESTS[] = {
        T(a_failed_call_undoes_the_whole_transaction),
        T(a_failed_checkpoint_loses_nothing),
        T(a_store_that_could_not_be_made_is_made_later),
        T(a_full_disk_is_survived),
        T(a_broken_flush_is_survived),
        T(a_read_only_file_system_is_survived),
        T(a_full_disk_leaves_room_in_the_log),
        T(a_read_only_file_is_not_opened),
        T(power_cuts_leave_what_was_acknowledged),
        T(a_rollback_that_fails_is_made_up_for),
        T(a_cut_after_a_failed_flush_leaves_what_was_acknowledged),
    };

    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
