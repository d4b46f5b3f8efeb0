/* test_joined_vfs.c - writes that are gathered: fewer calls, the same bytes at the same moments.
 *
 * A VFS of this test lies below and writes down each call that reaches it. The log's frames of a
 * commit come as one write before its flush; a rolled-back transaction leaves nothing behind that
 * could spoil a later one; a write that fails fails the commit.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/joined_vfs.h"
#include "store_fixture.h"

#include "fault_vfs.h"

static sqlite3 *db_open(const struct store_fixture *f, const char *vfs)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
                     SQLITE_OK);
    return db;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return n;
}

struct files {
    struct store_fixture f;
    struct joined_vfs *v;
    sqlite3 *db;
};

#define FILL(rows)                                                                                 \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " rows ") "          \
    "INSERT INTO t SELECT NULL, zeroblob(3000) FROM n"

static int set_up(void **state)
{
    struct files *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    store_fixture_init(&t->f, "sqlite");
    fault_vfs_register();
    fault_vfs_reset();
    t->v = joined_vfs_new(FAULT_VFS);
    assert_non_null(t->v);
    t->db = db_open(&t->f, joined_vfs_name(t->v));
    assert_int_equal(run(t->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                                "PRAGMA wal_autocheckpoint = 0; "
                                "CREATE TABLE t (k INTEGER PRIMARY KEY, b BLOB)"),
                     SQLITE_OK);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct files *t = *state;

    fault_vfs_heal();
    assert_int_equal(sqlite3_close(t->db), SQLITE_OK);
    joined_vfs_free(t->v);
    store_fixture_deinit(&t->f);
    free(t);
    return 0;
}

/* About 25 pages, 50 writes of SQLite. */
static void a_commit_is_one_write_and_one_flush(void **state)
{
    struct files *t = *state;
    unsigned writes = fault_vfs_whole_writes(), flushes = fault_vfs_calls(FAULT_SYNC);

    assert_int_equal(run(t->db, FILL("20")), SQLITE_OK);
    assert_int_equal(fault_vfs_whole_writes() - writes, 1);
    assert_int_equal(fault_vfs_calls(FAULT_SYNC) - flushes, 1);
}

static void a_large_commit_takes_few_writes(void **state)
{
    struct files *t = *state;
    unsigned writes = fault_vfs_whole_writes();

    assert_int_equal(run(t->db, FILL("1000")), SQLITE_OK); /* 4 MiB and more */
    unsigned took = fault_vfs_whole_writes() - writes;
    assert_true(took >= 1000 * 4096 / JOINED_BYTES);
    assert_true(took <= 2 * 1000 * 4096 / JOINED_BYTES);
    assert_int_equal(number(t->db, "SELECT count(*) FROM t"), 1000);
}

static void a_checkpoint_writes_neighbours_together(void **state)
{
    struct files *t = *state;

    assert_int_equal(run(t->db, FILL("1000")), SQLITE_OK);
    unsigned writes = fault_vfs_whole_writes();
    assert_int_equal(run(t->db, "PRAGMA wal_checkpoint"), SQLITE_OK);
    assert_true(fault_vfs_whole_writes() - writes <= 40);
    sqlite3 *plain = db_open(&t->f, NULL);
    assert_int_equal(number(plain, "SELECT count(*) FROM t"), 1000);
    assert_int_equal(sqlite3_close(plain), SQLITE_OK);
}

/* Another connection, without this VFS, sees each commit at once, flushed or not. */
static void others_see_a_commit_at_once(void **state)
{
    static const char *const MODES[] = {"PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL",
                                        "PRAGMA synchronous = OFF"};
    struct files *t = *state;
    sqlite3 *plain = db_open(&t->f, NULL);
    int64_t rows = 0;

    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(run(t->db, MODES[i % ARRAY_LEN(MODES)]), SQLITE_OK);
        assert_int_equal(run(t->db, FILL("7")), SQLITE_OK);
        rows += 7;
        assert_int_equal(number(plain, "SELECT count(*) FROM t"), rows);
        if (i % 10 == 9)
            assert_int_equal(run(t->db, "PRAGMA wal_checkpoint(RESTART)"), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(plain), SQLITE_OK);
}

/* Pages that a small cache spills into the log are read back, and overwritten there. */
static void spilled_pages_come_back(void **state)
{
    struct files *t = *state;

    assert_int_equal(run(t->db, "PRAGMA cache_size = 10; BEGIN; " FILL(
                                    "200") "; "
                                           "UPDATE t SET b = zeroblob(3001); "
                                           "UPDATE t SET b = zeroblob(3002) WHERE k % 3 = 0"),
                     SQLITE_OK);
    assert_int_equal(number(t->db, "SELECT sum(length(b)) FROM t"), 200 * 3001 + 66);
    assert_int_equal(run(t->db, "COMMIT"), SQLITE_OK);
    sqlite3 *plain = db_open(&t->f, NULL);
    assert_int_equal(number(plain, "SELECT sum(length(b)) FROM t"), 200 * 3001 + 66);
    assert_int_equal(number(plain, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    assert_int_equal(sqlite3_close(plain), SQLITE_OK);
}

/* What a transaction spilled before it was rolled back must not reach the file after what another
 * connection wrote to the same place since. */
static void a_rolled_back_spill_stays_away(void **state)
{
    struct files *t = *state;
    sqlite3 *other = db_open(&t->f, joined_vfs_name(t->v));

    assert_int_equal(run(t->db, "PRAGMA cache_size = 10; BEGIN; " FILL("40") "; ROLLBACK"),
                     SQLITE_OK);
    assert_int_equal(run(other, FILL("50")), SQLITE_OK);
    assert_int_equal(number(t->db, "SELECT count(*) FROM t"), 50); /* whatever is left goes now */
    assert_int_equal(run(t->db, FILL("1")), SQLITE_OK);
    assert_int_equal(number(other, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 51);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

/* A checkpoint that is given up half-way must not overwrite what a later one has copied. */
static void a_checkpoint_given_up_leaves_nothing_behind(void **state)
{
    struct files *t = *state;

    for (unsigned nth = 1; nth < 40; nth++) {
        sqlite3 *other = db_open(&t->f, joined_vfs_name(t->v));
        assert_int_equal(run(t->db, "DELETE FROM t; " FILL("40")), SQLITE_OK);
        fault_vfs_fail(FAULT_READ, nth, SQLITE_IOERR_READ, false);
        (void)run(t->db, "PRAGMA wal_checkpoint");
        fault_vfs_heal();
        assert_int_equal(
            run(other, "UPDATE t SET b = zeroblob(2999); PRAGMA wal_checkpoint(RESTART)"),
            SQLITE_OK);
        (void)run(t->db, "PRAGMA wal_checkpoint");
        assert_int_equal(sqlite3_close(other), SQLITE_OK);
        sqlite3 *plain = db_open(&t->f, NULL);
        assert_int_equal(number(plain, "SELECT sum(length(b)) FROM t"), 40 * 2999);
        assert_int_equal(number(plain, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                         1);
        assert_int_equal(sqlite3_close(plain), SQLITE_OK);
    }
}

static void a_write_that_fails_fails_the_commit(void **state)
{
    struct files *t = *state;

    assert_int_equal(run(t->db, FILL("5")), SQLITE_OK);
    fault_vfs_fail(FAULT_WRITE, 1, SQLITE_FULL, false);
    assert_int_equal(run(t->db, FILL("5")), SQLITE_FULL);
    assert_int_equal(fault_vfs_fired(), 1);
    assert_int_equal(number(t->db, "SELECT count(*) FROM t"), 5);
    assert_int_equal(run(t->db, FILL("5")), SQLITE_OK);
    assert_int_equal(number(t->db, "SELECT count(*) FROM t"), 10);
}

/* The next call that can fail says it, where the write had to be done by one that cannot. */
static void an_error_is_never_lost(void **state)
{
    struct files *t = *state;

    assert_int_equal(run(t->db, "PRAGMA synchronous = OFF"), SQLITE_OK);
    fault_vfs_fail(FAULT_WRITE, 1, SQLITE_IOERR_WRITE, false);
    (void)run(t->db, FILL("5"));
    assert_int_equal(fault_vfs_fired(), 1);
    assert_int_not_equal(run(t->db, FILL("5")), SQLITE_OK);
}

static void an_unknown_vfs_is_none(void **state)
{
    (void)state;
    assert_null(joined_vfs_new("no-such-vfs"));
    joined_vfs_free(NULL);
}

int main(void)
{
#define FILES_TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FILES_TEST(a_commit_is_one_write_and_one_flush),
        FILES_TEST(a_large_commit_takes_few_writes),
        FILES_TEST(a_checkpoint_writes_neighbours_together),
        FILES_TEST(others_see_a_commit_at_once),
        FILES_TEST(spilled_pages_come_back),
        FILES_TEST(a_rolled_back_spill_stays_away),
        FILES_TEST(a_checkpoint_given_up_leaves_nothing_behind),
        FILES_TEST(a_write_that_fails_fails_the_commit),
        FILES_TEST(an_error_is_never_lost),
        cmocka_unit_test(an_unknown_vfs_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
