/* test_page_cache.c - commits do not walk through the page cache, and what must be dropped still is. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/page_cache.h"
#include "store_fixture.h"

static void insert_some(struct store_fixture *f, uint64_t first, unsigned n)
{
    char id[40];

    OKAY(store_begin(f->st, &err));
    for (uint64_t key = first; key < first + n; key++) {
        struct store_object o = store_fixture_object(key);
        (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)prng_u64(&f->prng));
        o.id = bytes_str(id);
        OKAY(store_object_insert(f->st, &o, &err));
    }
    OKAY(store_commit(f->st, &err));
}

/* Random ids split pages of the index in its middle, which moves pages. */
static void commits_do_not_walk_through_the_cache(void **state)
{
    struct store_fixture *f = *state;

    insert_some(f, 1, 10);
    uint64_t done = page_cache_truncations_done(), left_out = page_cache_truncations_left_out();
    for (unsigned i = 1; i < 300; i++)
        insert_some(f, i * 10 + 1, 10);
    assert_true(page_cache_truncations_left_out() - left_out >= 299);
    assert_int_equal(page_cache_truncations_done(), done);
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

/* Growing, rolling back, shrinking and growing again: a page that was beyond the end must not come
 * back with its old content. */
static void what_is_beyond_the_end_is_dropped(void **state)
{
    struct store_fixture *f = *state;
    char path[PATH_MAX + 8];
    sqlite3 *db = NULL;

    (void)snprintf(path, sizeof(path), "%s.2", f->path);
    const char *name = f->is_memory ? ":memory:" : path;
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
                                  "CREATE TABLE t (k TEXT PRIMARY KEY, b BLOB) WITHOUT ROWID",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    uint64_t done = page_cache_truncations_done();
    for (int i = 0; i < 30; i++) {
        const char *end = i % 3 == 0 ? "ROLLBACK" : "COMMIT";
        char sql[512];
        (void)snprintf(sql, sizeof(sql),
                       "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 400) INSERT INTO t SELECT hex(randomblob(8)), zeroblob(900) "
                       "FROM n; %s; DELETE FROM t WHERE k < '8'; PRAGMA incremental_vacuum",
                       end);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                         1);
    }
    assert_true(page_cache_truncations_done() > done);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void it_cannot_come_later(void **state)
{
    (void)state;
    assert_false(page_cache_install()); /* SQLite is in use */
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(commits_do_not_walk_through_the_cache),
        STORE_TEST(what_is_beyond_the_end_is_dropped),
        STORE_TEST(it_cannot_come_later),
    };

    return store_fixture_run(argc, argv, TESTS, ARRAY_LEN(TESTS));
}
