/* test_sim_disk.c - the simulator's disk and its view of what is flushed; and what the store makes of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/flushed.h"
#include "sim/sched.h"
#include "sim/vfs.h"
#include "store/store.h"

struct fixture {
    struct prng disk_prng, random;
    struct disk disk;
    struct vfs vfs;
    struct settings settings;
    struct prng prng;
    char dir[64], url[80];
    bool has_crashed;
    struct store *store;
};

static usec_t wall(void *arg)
{
    (void)arg;
    return INT64_C(1800000000) * USEC_PER_SEC;
}

static void takes(void *arg, usec_t time)
{
    (void)arg;
    (void)time;
}

static usec_t sync_time(void *arg)
{
    (void)arg;
    return 0;
}

static void crashed(void *arg)
{
    ((struct fixture *)arg)->has_crashed = true;
}

static const struct clock CLOCK = {wall, wall, NULL};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->disk_prng = sched_stream(1, "disk", 0);
    f->random = f->prng = sched_stream(1, "random", 0);
    disk_init(&f->disk, &f->disk_prng, 512);
    f->vfs = (struct vfs){.disk = &f->disk,
                          .random = &f->random,
                          .wall = wall,
                          .takes = takes,
                          .sync_time = sync_time,
                          .crashed = crashed,
                          .arg = f};
    vfs_use(&f->vfs);
    settings_defaults(&f->settings);
    snprintf(f->dir, sizeof(f->dir), "/tmp/sim-disk-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->url, sizeof(f->url), "sqlite:%s/t.db", f->dir);
    flushed_show(&f->disk, "t.db");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char path[96];
    store_close(f->store);
    snprintf(path, sizeof(path), "%s/t.db", f->dir);
    (void)unlink(path);
    (void)rmdir(f->dir);
    disk_deinit(&f->disk);
    free(f);
    return 0;
}

static enum err open_store(struct fixture *f)
{
    struct error err = {0};
    const struct store_options o = {.url = bytes_str(f->url),
                                    .settings = &f->settings,
                                    .clock = &CLOCK,
                                    .prng = &f->prng,
                                    .vfs = SIM_VFS};
    if (vfs_settle(&f->vfs, "t.db-wal"))
        return ERR_STORE_OPEN;
    enum err rc = store_open(&o, &f->store, &err);
    if (rc)
        f->store = NULL;
    return rc;
}

static enum err make_hub(struct fixture *f, const char *name)
{
    struct error err = {0};
    uint32_t hub;
    enum err rc = store_begin(f->store, &err);
    if (!rc)
        rc = store_hub_create(f->store, bytes_str(name), 1, &hub, &err);
    if (!rc)
        rc = store_commit(f->store, &err);
    store_rollback(f->store);
    return rc;
}

/* The process is gone; what the disk keeps of it is `how`. */
static void crash(struct fixture *f, enum disk_cut how)
{
    vfs_kill(&f->vfs);
    store_close(f->store);
    f->store = NULL;
    disk_crash(&f->disk, how);
    vfs_revive(&f->vfs);
}

/* Number of hubs in what is flushed; -1: there is no database. */
static int flushed_hubs(void)
{
    sqlite3 *db;
    sqlite3_stmt *st = NULL;
    int n = -1;
    assert_int_equal(sqlite3_open_v2("flushed.db", &db, SQLITE_OPEN_READONLY, SIM_VFS_FLUSHED),
                     SQLITE_OK);
    if (flushed_is_there() &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM hub", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static void the_view_shows_what_is_flushed_and_no_more(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(flushed_hubs(), -1);
    assert_int_equal(open_store(f), OK);
    assert_int_equal(flushed_hubs(), 0);
    assert_int_equal(make_hub(f, "a"), OK);
    assert_int_equal(flushed_hubs(), 1);
    vfs_fail(&f->vfs, VFS_SYNC, 1, SQLITE_IOERR_FSYNC, true);
    assert_int_equal(make_hub(f, "b"), ERR_UNAVAILABLE);
    vfs_heal(&f->vfs);
    struct error err = {0};
    assert_int_equal(store_reopen(f->store, &err), OK);
    assert_int_equal(flushed_hubs(), 1);
    assert_int_equal(make_hub(f, "c"), OK);
    assert_int_equal(flushed_hubs(), 2);
}

static void a_cut_keeps_what_was_flushed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_store(f), OK);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "h%d", i);
        assert_int_equal(make_hub(f, name), OK);
        crash(f, i % 2 ? DISK_CUT_SOME : DISK_CUT_ALL);
        assert_int_equal(open_store(f), OK);
        assert_int_equal(flushed_hubs(), i + 1);
    }
}

/* At each call of the VFS: the last hub is there or is not, the others are. */
static void a_crash_at_any_call_is_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    int hubs = 0;
    assert_int_equal(open_store(f), OK);
    for (unsigned n = 1; n < 60; n++) {
        char name[16];
        snprintf(name, sizeof(name), "h%u", n);
        f->has_crashed = false;
        f->vfs.crash_call = n;
        f->vfs.crash_leaves_write = n % 2;
        enum err rc = make_hub(f, name);
        f->vfs.crash_call = 0;
        assert_true(rc == OK || f->has_crashed);
        crash(f, DISK_CUT_SOME);
        assert_int_equal(open_store(f), OK);
        int now = flushed_hubs();
        assert_true(now == hubs + 1 || (now == hubs && rc != OK));
        hubs = now;
    }
}

/* kill -9 between the write of a commit and its flush: the next process sees it, so it must not get lost any more. */
static void what_a_killed_process_left_is_flushed_when_the_store_opens(void **state)
{
    struct fixture *f = *state;
    unsigned left = 0;
    assert_int_equal(open_store(f), OK);
    for (unsigned n = 1; n < 40; n++) {
        char name[16];
        snprintf(name, sizeof(name), "k%u", n);
        f->vfs.crash_call = n;
        f->vfs.crash_leaves_write = true;
        enum err rc = make_hub(f, name);
        f->vfs.crash_call = 0;
        crash(f, DISK_CUT_NONE);
        left += rc != OK && disk_has_waiting(&f->disk);
        assert_int_equal(open_store(f), OK);
        assert_false(disk_has_waiting(&f->disk));
        int seen = flushed_hubs();
        crash(f, DISK_CUT_ALL);
        assert_int_equal(open_store(f), OK);
        assert_int_equal(flushed_hubs(), seen);
    }
    assert_true(left > 0);
}

/* The flush with which it opens fails, and loses them: they are gone then, and not only after the next power cut. */
static void a_flush_that_fails_at_the_opening_decides(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_store(f), OK);
    for (unsigned n = 1; n < 40; n++) {
        char name[16];
        snprintf(name, sizeof(name), "k%u", n);
        f->vfs.crash_call = n;
        f->vfs.crash_leaves_write = true;
        IGNORE_RESULT(make_hub(f, name));
        f->vfs.crash_call = 0;
        crash(f, DISK_CUT_NONE);
        vfs_fail(&f->vfs, VFS_SYNC, 1 + n % 3, SQLITE_IOERR_FSYNC, false);
        enum err rc = open_store(f);
        vfs_heal(&f->vfs);
        if (rc)
            assert_int_equal(open_store(f), OK);
        int seen = flushed_hubs();
        crash(f, DISK_CUT_ALL);
        assert_int_equal(open_store(f), OK);
        assert_int_equal(flushed_hubs(), seen);
        assert_true(seen >= (int)n - 1);
        if (seen < (int)n)
            assert_int_equal(make_hub(f, name), OK);
    }
}

/* Never a byte outside of what was written. */
static void torn_writes_stay_inside(void **state)
{
    struct fixture *f = *state;
    struct disk_file *file = disk_create(&f->disk, "x");
    uint8_t old[3000], new[700];
    memset(old, 'o', sizeof(old));
    memset(new, 'n', sizeof(new));
    disk_write(&f->disk, file, old, sizeof(old), 0);
    disk_sync(&f->disk, file);
    disk_sync_entries(&f->disk);
    for (int i = 0; i < 200; i++) {
        disk_write(&f->disk, file, new, sizeof(new), 1000);
        disk_crash(&f->disk, DISK_CUT_SOME);
        file = disk_find(&f->disk, "x");
        assert_non_null(file);
        assert_int_equal(file->seen.len, sizeof(old));
        for (size_t k = 0; k < sizeof(old); k++)
            assert_true(file->seen.ptr[k] == 'o' || (k >= 1000 && k < 1700));
        disk_write(&f->disk, file, old, sizeof(old), 0);
        disk_sync(&f->disk, file);
    }
    assert_true(f->disk.kept > 0 && f->disk.lost > 0 && f->disk.torn > 0);
}

static void new_names_and_sizes_may_be_lost(void **state)
{
    struct fixture *f = *state;
    unsigned gone = 0, short_ones = 0;
    for (int i = 0; i < 200; i++) {
        struct disk_file *file = disk_create(&f->disk, "y");
        disk_write(&f->disk, file, "0123456789", 10, 0);
        if (i % 2)
            disk_sync_entries(&f->disk);
        disk_crash(&f->disk, DISK_CUT_SOME);
        file = disk_find(&f->disk, "y");
        assert_true(file || i % 2 == 0);
        gone += !file;
        short_ones += file && file->seen.len == 0;
        if (file) {
            disk_delete(&f->disk, file);
            disk_sync_entries(&f->disk);
        }
    }
    assert_true(gone > 20 && gone < 90);
    assert_true(short_ones > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_view_shows_what_is_flushed_and_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_cut_keeps_what_was_flushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_at_any_call_is_all_or_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_flushed_when_the_store_opens,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flush_that_fails_at_the_opening_decides, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(torn_writes_stay_inside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_names_and_sizes_may_be_lost, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
