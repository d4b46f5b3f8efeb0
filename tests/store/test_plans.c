/* test_plans.c - how SQLite runs the statements: by keys, whatever grows. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "store/statements.h"
#include "store_fixture.h"

/* These list small tables, or are read from the front with a limit; `s` is the skip scan's own row.
 * */
static const struct {
    const char *statement, *detail;
} MAY_SCAN[] = {
    {"HUB_LIST", "SCAN hub"},
    {"GROUP_LIST", "SCAN workgroup"},
    {"COUNT_LIST", "SCAN count"},
    {"TRASH_READ", "SCAN trash"},
    {"INBOX_OBJECTS", "SCAN s"},
    {"TASK_GROUPS", "SCAN s"},
    {"INBOX_BOUNDS", "SCAN CONSTANT ROW"},
};

/* Of store_verify(), which reads everything. */
static const char *const READS_ALL[] = {
    "OBJECT_ALL",      "TASK_ALL",      "TIMER_ALL",     "MAIL_ALL",
    "HISTORY_ORPHANS", "INBOX_ORPHANS", "TIMER_ORPHANS", "TASK_ORPHANS",
    "HUB_ORPHANS",     "COUNT_WRONG",   "TIMER_COUNT",   "KEY_HIGHEST",
};

static bool reads_all(const char *statement)
{
    for (size_t i = 0; i < ARRAY_LEN(READS_ALL); i++)
        if (strcmp(READS_ALL[i], statement) == 0)
            return true;
    return false;
}

static bool may_scan(const char *statement, const char *detail)
{
    for (size_t i = 0; i < ARRAY_LEN(MAY_SCAN); i++)
        if (strcmp(MAY_SCAN[i].statement, statement) == 0 &&
            strcmp(MAY_SCAN[i].detail, detail) == 0)
            return true;
    return false;
}

static sqlite3 *open_raw(const struct store_fixture *f)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    return db;
}

static void no_statement_scans_what_grows(void **state)
{
    struct store_fixture *f = *state;
    unsigned searches = 0;

    sqlite3 *db = open_raw(f);
    for (size_t i = 0; i < STMT_COUNT; i++) {
        CLEANUP(strbuf_deinit) struct strbuf text = {0};
        sqlite3_stmt *stmt = NULL;
        if (reads_all(STATEMENTS[i].name))
            continue;
        strbuf_appendf(&text, "EXPLAIN QUERY PLAN %s", STATEMENTS[i].sql);
        assert_int_equal(sqlite3_prepare_v2(db, strbuf_cstr(&text), -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            const char *detail = (const char *)sqlite3_column_text(stmt, 3);
            searches += strncmp(detail, "SEARCH ", 7) == 0;
            if ((strncmp(detail, "SCAN ", 5) == 0 && !may_scan(STATEMENTS[i].name, detail)) ||
                strstr(detail, "TEMP B-TREE") || strstr(detail, "AUTOMATIC"))
                fail_msg("%s: %s", STATEMENTS[i].name, detail);
        }
        sqlite3_finalize(stmt);
    }
    assert_true(searches > 20);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define ROWS 20000

static void fill(struct store_fixture *f)
{
    OKAY(store_begin(f->st, &err));
    for (int64_t i = 0; i < ROWS; i++) {
        uint64_t key = (uint64_t)i + 1;
        struct store_inbox in = {.object = 10 + (uint64_t)i % 4, .seq = i, .event = BYTES_LIT("x")};
        struct store_task t = {
            .group = 10 + (uint32_t)i % 4, .key = key, .payload = BYTES_LIT("x")};
        struct store_timer tm = {.due = i, .key = key, .execution = (uint64_t)i % 1000};
        OKAY(store_inbox_append(f->st, &in, &err));
        OKAY(store_task_insert(f->st, &t, &err));
        OKAY(store_timer_insert(f->st, &tm, &err));
        if (i % 4 == 0)
            OKAY(store_history_append(f->st,
                                      &(struct store_history){.execution = 1 + key % 3,
                                                              .row = key,
                                                              .frames = BYTES_LIT("x")},
                                      &err));
    }
    OKAY(store_commit(f->st, &err));
}

/* Steps of SQLite's machine for one run, with these numbers as parameters. */
static int steps(sqlite3 *db, enum stmt id, const int64_t *params)
{
    sqlite3_stmt *stmt = NULL;
    char name[16];

    assert_int_equal(sqlite3_prepare_v2(db, STATEMENTS[id].sql, -1, &stmt, NULL), SQLITE_OK);
    for (unsigned i = 0; i < STATEMENTS[id].params; i++) {
        (void)snprintf(name, sizeof(name), "$%u", i + 1);
        assert_int_equal(
            sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, name), params[i]),
            SQLITE_OK);
    }
    while (sqlite3_step(stmt) == SQLITE_ROW)
        continue;
    int n = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return n;
}

/* 20,000 rows in each table: what a statement does depends on the rows it gives, not on the others.
 * */
static void work_follows_the_rows_asked_for(void **state)
{
    static const struct {
        enum stmt id;
        int64_t params[4];
        int steps_max;
    } RUNS[] = {
        {STMT_INBOX_OBJECTS, {0, 100}, 300}, /* 4 objects */
        {STMT_INBOX_OBJECTS, {11, 1}, 200},
        {STMT_TASK_GROUPS, {-1, INT64_MAX}, 300},
        {STMT_INBOX_BOUNDS, {10}, 60},
        {STMT_INBOX_READ, {10, 10000, 5}, 200},
        {STMT_TASK_READ, {12, 10000, 5}, 200},
        {STMT_TASK_GET, {11, 2}, 50},
        {STMT_TIMER_READ, {10000, 0, 10003, 100}, 200},
        {STMT_TIMER_READ, {10000, 0, INT64_MAX, 5}, 200},
        {STMT_TIMER_DELETE_OF, {7, 10}, 600}, /* 10 of 20 rows */
        {STMT_TIMER_DELETE_OF, {5000, 10}, 100},
        {STMT_HISTORY_DELETE, {1, 10}, 600},
        {STMT_INBOX_DELETE_MAX, {10, 100, 5000, 10}, 600},
        {STMT_INBOX_DELETE, {11, 100, 110}, 200},
    };
    struct store_fixture *f = *state;

    fill(f);
    sqlite3 *db = open_raw(f);
    for (size_t i = 0; i < ARRAY_LEN(RUNS); i++) {
        int n = steps(db, RUNS[i].id, RUNS[i].params);
        if (n > RUNS[i].steps_max || n < 5)
            fail_msg("%s took %d steps", STATEMENTS[RUNS[i].id].name, n);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define PAGE 100

/* Steps for a page behind this time. */
static int page_steps(sqlite3 *db, enum stmt id, int64_t time)
{
    sqlite3_stmt *stmt = NULL;
    const int64_t numbers[] = {1, 1, time, 0, PAGE};
    char name[16];
    int rows = 0;

    assert_int_equal(sqlite3_prepare_v2(db, STATEMENTS[id].sql, -1, &stmt, NULL), SQLITE_OK);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "$%d", i + 1);
        int at = sqlite3_bind_parameter_index(stmt, name);
        int rc = i == 3 ? sqlite3_bind_text(stmt, at, "", 0, SQLITE_STATIC)
                        : sqlite3_bind_int64(stmt, at, numbers[i]);
        assert_int_equal(rc, SQLITE_OK);
    }
    while (sqlite3_step(stmt) == SQLITE_ROW)
        rows++;
    assert_int_equal(rows, PAGE);
    int n = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return n;
}

/* The first page of 20,000 objects costs what the last one costs. */
static void pages_cost_the_same_from_first_to_last(void **state)
{
    static const enum stmt LISTS[] = {STMT_OBJECT_CREATED, STMT_OBJECT_COMPLETED};
    struct store_fixture *f = *state;
    char id[32];

    OKAY(store_begin(f->st, &err));
    for (uint64_t key = 1; key <= ROWS; key++) {
        struct store_object o = store_fixture_object(key);
        (void)snprintf(id, sizeof(id), "i%llu", (unsigned long long)key * 7919 % ROWS);
        o.hub = o.kind = 1;
        o.id = bytes_str(id);
        o.created = o.completed = (usec_t)key * 10;
        OKAY(store_object_insert(f->st, &o, &err));
    }
    OKAY(store_commit(f->st, &err));
    sqlite3 *db = open_raw(f);
    for (size_t i = 0; i < ARRAY_LEN(LISTS); i++) {
        int first = page_steps(db, LISTS[i], INT64_MIN);
        for (int64_t at = 0; at <= (ROWS - PAGE) * 10; at += 10 * 1990)
            assert_in_range(page_steps(db, LISTS[i], at + 1), first - 10, first + 10);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(no_statement_scans_what_grows),
        STORE_TEST(work_follows_the_rows_asked_for),
        STORE_TEST(pages_cost_the_same_from_first_to_last),
    };

    (void)argc;
    return store_fixture_run(2, (char *[]){argv[0], (char[]){"sqlite"}}, TESTS, ARRAY_LEN(TESTS));
}
