/* test_open.c - whose file it is, who holds it, and what damage does. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "fault_vfs.h"
#include "store_fixture.h"

static int set_up(void **state)
{
    struct store_fixture *f = malloc(sizeof(*f));

    assert_non_null(f);
    store_fixture_init(f, "sqlite");
    *state = f;
    return 0;
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void beside(const struct store_fixture *f, const char *suffix, char out[PATH_MAX])
{
    if ((size_t)snprintf(out, PATH_MAX, "%s%s", f->path, suffix) >= PATH_MAX)
        abort();
}

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static struct strbuf read_file(const char *path)
{
    struct strbuf b = {0};
    FILE *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    while ((n = fread(strbuf_reserve(&b, 65536), 1, 65536, file)) > 0)
        b.len += n;
    assert_int_equal(fclose(file), 0);
    return b;
}

/* Statements through a connection of our own. */
static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", text, message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t sql_number(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return n;
}

/* Opening must fail with each of the texts in its message. */
static void refused(struct store_fixture *f, const char *a, const char *b, const char *c)
{
    const char *const texts[] = {a, b, c};
    struct error e_ = {0};

    assert_int_equal(store_fixture_try_open(f, &e_), ERR_STORE_OPEN);
    assert_null(f->st);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i] && !strstr(e_.msg, texts[i]))
            fail_msg("\"%s\" is not in \"%s\"", texts[i], e_.msg);
    assert_null(strchr(e_.msg, '\n'));
}

/* Refused, and neither the file nor its directory changed. */
static void refused_untouched(struct store_fixture *f, const char *a, const char *b)
{
    static const char *const BESIDE[] = {".lock", "-wal", "-shm", "-journal"};
    CLEANUP(strbuf_deinit) struct strbuf before = read_file(f->path);
    char path[PATH_MAX];
    bool there[ARRAY_LEN(BESIDE)];

    for (size_t i = 0; i < ARRAY_LEN(BESIDE); i++) {
        beside(f, BESIDE[i], path);
        there[i] = access(path, F_OK) == 0;
    }
    refused(f, f->path, a, b);
    CLEANUP(strbuf_deinit) struct strbuf after = read_file(f->path);
    assert_int_equal(after.len, before.len);
    if (before.len)
        assert_memory_equal(after.ptr, before.ptr, before.len);
    for (size_t i = 0; i < ARRAY_LEN(BESIDE); i++) {
        beside(f, BESIDE[i], path);
        assert_int_equal(access(path, F_OK) == 0, there[i]);
    }
}

static void put_objects(struct store_fixture *f, uint64_t from, uint64_t n, size_t history)
{
    CLEANUP(strbuf_deinit) struct strbuf fill = {0};

    memset(strbuf_reserve(&fill, history + 1), 'x', history + 1);
    OKAY(store_begin(f->st, &err));
    for (uint64_t key = from; key < from + n; key++) {
        struct store_object o = store_fixture_object(key);
        char id[32];
        (void)snprintf(id, sizeof(id), "id-%llu", (unsigned long long)key);
        o.id = bytes_str(id);
        o.execution = key;
        OKAY(store_object_insert(f->st, &o, &err));
        struct store_history h = {
            .execution = key, .row = 1, .frames = bytes_of(fill.ptr, history)};
        OKAY(store_history_append(f->st, &h, &err));
    }
    OKAY(store_commit(f->st, &err));
}

static bool take_row(void *arg, const struct store_history *h)
{
    *(size_t *)arg += h->frames.len;
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void a_new_file_is_made_for_good(void **state)
{
    struct store_fixture *f = *state;
    struct stat sb;

    store_fixture_open(f);
    assert_int_equal(stat(f->path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(sql_number(f->path, "PRAGMA application_id"), 0x50524455);
    assert_int_equal(sql_number(f->path, "PRAGMA user_version"), 3);
    assert_int_equal(sql_number(f->path, "PRAGMA page_size"), 4096);
    assert_int_equal(sql_number(f->path, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(
        sql_number(f->path, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"),
        1);
    store_fixture_close(f);

    char path[PATH_MAX];
    beside(f, ".lock", path);
    assert_int_not_equal(access(path, F_OK), 0); /* a clean stop leaves the database only */
    beside(f, "-wal", path);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void empty_files_become_stores(void **state)
{
    struct store_fixture *f = *state;

    write_file(f->path, "", 0);
    store_fixture_open(f);
    store_fixture_close(f);
    assert_int_equal(unlink(f->path), 0);
    /* Somebody's SQLite database without anything in it, laid out otherwise. */
    sql(f->path, "PRAGMA page_size = 1024; VACUUM");
    assert_int_equal(sql_number(f->path, "PRAGMA page_size"), 1024);
    store_fixture_open(f);
    put_objects(f, 1, 1, 10);
    store_fixture_close(f);
    assert_int_equal(sql_number(f->path, "PRAGMA page_size"), 4096);
    assert_int_equal(sql_number(f->path, "PRAGMA auto_vacuum"), 2);
}

static void foreign_files_are_left_alone(void **state)
{
    struct store_fixture *f = *state;
    uint8_t zeros[8192] = {0};

    write_file(f->path,
               "hello, this is a text of mine, and it is longer than a header has to be: "
               "one hundred bytes, to be exact",
               104);
    refused_untouched(f, "not an SQLite database", "give another file");
    write_file(f->path, "x", 1);
    refused_untouched(f, "not an SQLite database", "give another file");
    write_file(f->path, zeros, sizeof(zeros));
    refused_untouched(f, "not an SQLite database", "give another file");
    assert_int_equal(unlink(f->path), 0);

    sql(f->path, "CREATE TABLE mine (a); INSERT INTO mine VALUES (1); PRAGMA auto_vacuum = FULL");
    refused_untouched(f, "another program", "give another file");
    sql(f->path, "PRAGMA journal_mode = WAL");
    refused_untouched(f, "another program", "give another file");
    sql(f->path, "PRAGMA application_id = 77");
    refused_untouched(f, "application_id 77", "give another file");
    assert_int_equal(unlink(f->path), 0);
    sql(f->path, "PRAGMA application_id = 77"); /* empty, but claimed */
    refused_untouched(f, "application_id 77", "give another file");
    assert_int_equal(sql_number(f->path, "PRAGMA application_id"), 77);
}

static void a_newer_schema_is_refused(void **state)
{
    struct store_fixture *f = *state;

    store_fixture_open(f);
    store_fixture_close(f);
    sql(f->path, "PRAGMA user_version = 1000");
    refused(f, f->path, "schema 1000", "use a newer server");
    assert_int_equal(sql_number(f->path, "PRAGMA user_version"), 1000);
    sql(f->path, "PRAGMA user_version = 3");
    store_fixture_open(f);
}

static void damaged_meta_rows_are_refused(void **state)
{
    static const char *const DAMAGE[] = {
        "DELETE FROM meta WHERE name = 'secret'",
        "UPDATE meta SET bytes = x'00' WHERE name = 'secret'",
        "UPDATE meta SET number = 0 WHERE name = 'partitions'",
        "UPDATE meta SET number = NULL WHERE name = 'partitions'",
        "UPDATE meta SET number = -1 WHERE name = 'next_key'",
        "DELETE FROM meta WHERE name = 'next_key'",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -5",
    };
    struct store_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(DAMAGE); i++) {
        store_fixture_open(f);
        store_fixture_close(f);
        sql(f->path, DAMAGE[i]);
        refused(f, f->path, "damaged", "restore a backup");
        assert_int_equal(unlink(f->path), 0);
    }
}

static void bad_paths_are_explained(void **state)
{
    struct store_fixture *f = *state;
    char path[PATH_MAX];

    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s/no/such/s.db", f->dir);
    refused(f, "/no/such", "No such file or directory", "create it");
    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s", f->dir);
    refused(f, f->dir, "is a directory", "give a file");
    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s/", f->dir);
    refused(f, f->dir, "directory", "give a file");
    (void)snprintf(f->url, sizeof(f->url), "sqlite:");
    refused(f, "path is empty", "sqlite:perdure.db", NULL);
    write_file(f->path, "", 0);
    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s/below", f->path);
    refused(f, f->path, "Not a directory", NULL);
    assert_int_equal(unlink(f->path), 0);
    if ((size_t)snprintf(path, sizeof(path), "%s/fifo", f->dir) >= sizeof(path))
        abort();
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s/fifo", f->dir);
    refused(f, path, "not a regular file", "give another path");
}

/* As a user who may not write there. */
static void missing_permissions_are_explained(void **state)
{
    struct store_fixture *f = *state;
    bool root = geteuid() == 0;

    store_fixture_open(f);
    store_fixture_close(f);
    assert_int_equal(chmod(f->dir, 0755), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    else
        assert_int_equal(chmod(f->dir, 0555), 0);
    refused(f, f->path, "Permission denied", "writable");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->dir, root ? 0777 : 0755), 0);
    assert_int_equal(chmod(f->path, root ? 0644 : 0444), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    refused(f, f->path, "Permission denied", "read and write");
    if (root)
        assert_int_equal(seteuid(0), 0);
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void one_process_at_a_time(void **state)
{
    struct store_fixture *f = *state, other = *f;
    char path[PATH_MAX], pid[64];

    store_fixture_open(f);
    (void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    refused(&other, f->path, pid, "stop that server");
    beside(f, ".lock", path);
    CLEANUP(strbuf_deinit) struct strbuf text = read_file(path);
    (void)snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    CHECK_STR(&text, pid);

    /* By any name of the file. */
    if ((size_t)snprintf(path, sizeof(path), "%s/link.db", f->dir) >= sizeof(path))
        abort();
    assert_int_equal(symlink("s.db", path), 0);
    (void)snprintf(other.url, sizeof(other.url), "sqlite:%s", path);
    refused(&other, f->path, "in use", NULL);
    (void)snprintf(other.url, sizeof(other.url), "sqlite:%s/./s.db", f->dir);
    refused(&other, f->path, "in use", NULL);

    /* The database file is not locked: people look into it, and write. */
    sql(f->path, "BEGIN IMMEDIATE; INSERT INTO hub (name, created) VALUES ('by hand', 1); COMMIT");
    uint32_t hub = 0;
    OKAY(store_hub_find(f->r, BYTES_LIT("by hand"), &hub, &err));

    store_fixture_close(f);
    OKAY(store_fixture_try_open(&other, &err));
    store_fixture_close(&other);
}

static void a_killed_holder_blocks_nobody(void **state)
{
    struct store_fixture *f = *state;
    int ready[2];
    char byte, text[64];

    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error e_;
        if (store_fixture_try_open(f, &e_) || store_begin(f->st, &e_) ||
            store_trash_insert(f->st, &(struct store_trash){.seq = 1}, &e_) ||
            store_commit(f->st, &e_) || store_begin(f->st, &e_) ||
            store_trash_insert(f->st, &(struct store_trash){.seq = 2}, &e_))
            _exit(1);
        (void)!write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    (void)snprintf(text, sizeof(text), "process %ld", (long)child);
    refused(f, f->path, text, "stop that server");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);

    store_fixture_open(f); /* its lock file is still there */
    store_fixture_close(f);
    assert_int_equal(sql_number(f->path, "SELECT count(*) FROM trash"), 1);
}

static void a_stale_lock_file_is_no_lock(void **state)
{
    struct store_fixture *f = *state, other = *f;
    char path[PATH_MAX];

    beside(f, ".lock", path);
    write_file(path, "1\n", 2); /* init is alive, but holds nothing */
    store_fixture_open(f);
    write_file(path, "rubbish\n", 8); /* somebody writes into it: the lock is the kernel's */
    refused(&other, f->path, "another process", "stop that server");
    store_fixture_close(f);
    /* A symbolic link in its place is not followed. */
    assert_int_equal(symlink("elsewhere", path), 0);
    refused(f, path, "lock file", NULL);
    assert_int_equal(unlink(path), 0);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Overwrites the leaf pages of a table's rows 10 to 20, as far as dbstat knows them. */
static void damage(const struct store_fixture *f, const char *table)
{
    CLEANUP(strbuf_deinit) struct strbuf q = {0};
    uint8_t rubbish[4096];
    int64_t page;

    strbuf_appendf(
        &q,
        "SELECT pageno FROM dbstat WHERE name = '%s' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 "
        "OFFSET 3",
        table);
    page = sql_number(f->path, strbuf_cstr(&q));
    memset(rubbish, 0xa5, sizeof(rubbish));
    int fd = open(f->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && page > 1);
    assert_int_equal(pwrite(fd, rubbish, sizeof(rubbish), (page - 1) * 4096), sizeof(rubbish));
    close(fd);
}

static void damage_is_found_when_read_and_hurts_nobody_else(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    unsigned fine[2] = {0}, corrupt[2] = {0};

    store_fixture_open(f);
    put_objects(f, 1, 400, 600);
    store_fixture_close(f);
    damage(f, "history");
    damage(f, "object");

    store_fixture_open(f); /* it does not look there */
    for (uint64_t key = 1; key <= 400; key++) {
        struct store_object o;
        struct error e_;
        size_t bytes = 0;
        enum err e = store_history_read(f->r, key, 1, SIZE_MAX, take_row, &bytes, &e_);
        assert_true((e == OK && bytes == 600) || e == ERR_CORRUPT);
        e ? corrupt[0]++ : fine[0]++;
        e = store_object_get(f->r, key, &o, &buf, &e_);
        assert_true(e == OK || e == ERR_CORRUPT);
        e ? corrupt[1]++ : fine[1]++;
    }
    for (int i = 0; i < 2; i++)
        assert_true(corrupt[i] > 0 && corrupt[i] < 60 && fine[i] > 300);
    put_objects(f, 1000, 50, 600); /* the store goes on */
    store_fixture_again(f);
    size_t bytes = 0;
    OKAY(store_history_read(f->r, 1049, 1, SIZE_MAX, take_row, &bytes, &err));
    assert_int_equal(bytes, 600);
}

/* Deleting or replacing by hand what STRICT lets through gives ERR_CORRUPT or nothing, never a
 * crash. */
static void rows_changed_by_hand_are_errors(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object o;

    store_fixture_open(f);
    put_objects(f, 1, 3, 10);
    sql(f->path, "UPDATE object SET kind = 300 WHERE key = 1; UPDATE object SET status = 1 << 40 "
                 "WHERE key = 2;"
                 "UPDATE object SET execution = -1 WHERE key = 3");
    for (uint64_t key = 1; key <= 3; key++)
        EXPECT(ERR_CORRUPT, store_object_get(f->r, key, &o, &buf, &err));
}

/* Sums are stored: what gives another one tomorrow makes every store a damaged one. */
static void the_sum_of_a_row_never_changes(void **state)
{
    struct store_fixture *f = *state;
    struct store_history h = {.execution = 7,
                              .row = 1,
                              .key_base = 9,
                              .events = 2,
                              .time = 1,
                              .frames = BYTES_LIT("abc")};

    store_fixture_open(f);
    OKAY(store_begin(f->st, &err));
    OKAY(store_history_append(f->st, &h, &err));
    OKAY(store_commit(f->st, &err));
    assert_int_equal(sql_number(f->path, "SELECT sum FROM history"), 0x77d457ca);
}

/* A row that is not what was written is an error; without a sum it is taken as it is. */
static void a_row_with_another_sum_is_damaged(void **state)
{
    struct store_fixture *f = *state;
    size_t bytes = 0;

    store_fixture_open(f);
    put_objects(f, 1, 1, 10);
    sql(f->path, "UPDATE history SET frames = x'78787878787878787879'");
    EXPECT(ERR_CORRUPT, store_history_read(f->r, 1, 1, SIZE_MAX, take_row, &bytes, &err));
    sql(f->path, "UPDATE history SET sum = NULL");
    OKAY(store_history_read(f->r, 1, 1, SIZE_MAX, take_row, &bytes, &err));
    assert_int_equal(bytes, 10);
}

/* Copies what is on disk now, as a crash would leave it (the log index is rebuilt). */
static void crash_copy(const struct store_fixture *f, struct store_fixture *out, size_t cut)
{
    static const char *const FILES[] = {"", "-wal"};
    char from[PATH_MAX], to[PATH_MAX];

    store_fixture_init(out, "sqlite");
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        beside(f, FILES[i], from);
        beside(out, FILES[i], to);
        CLEANUP(strbuf_deinit) struct strbuf data = read_file(from);
        size_t less = i == 1 ? MIN(cut, data.len) : 0;
        write_file(to, data.ptr, data.len - less);
    }
}

/* BL-014: the last 1 to 4,096 bytes of the log are gone. */
static void a_torn_log_loses_the_end_only(void **state)
{
    static const size_t CUTS[] = {0,    1,    2,    7,    24,   100,  511,  512,
                                  1000, 2048, 4000, 4095, 4096, 4119, 4120, 4121};
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};

    store_fixture_open(f);
    for (uint64_t key = 1; key <= 10; key++)
        put_objects(f, key, 1, 100);
    for (size_t i = 0; i < ARRAY_LEN(CUTS); i++) {
        struct store_fixture after;
        struct store_object o;
        crash_copy(f, &after, CUTS[i]);
        store_fixture_open(&after);
        for (uint64_t key = 1; key <= 9; key++)
            OKAY(store_object_get(after.r, key, &o, &buf, &err));
        EXPECT(CUTS[i] ? ERR_NOT_FOUND : OK, store_object_get(after.r, 10, &o, &buf, &err));
        put_objects(&after, 100, 2, 100);
        store_fixture_close(&after);
        assert_int_equal(
            sql_number(after.path,
                       "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
            1);
        store_fixture_deinit(&after);
    }
}

static void opening_reads_little_however_large_the_store(void **state)
{
    struct store_fixture *f = *state;
    struct stat sb;

    fault_vfs_register();
    fault_vfs_reset();
    f->vfs = FAULT_VFS;
    store_fixture_open(f);
    for (uint64_t key = 1; key <= 2000; key += 100)
        put_objects(f, key, 100, 10000);
    store_fixture_close(f);
    assert_int_equal(stat(f->path, &sb), 0);
    assert_true(sb.st_size > 20000000);
    unsigned before = fault_vfs_calls(FAULT_READ);
    store_fixture_open(f);
    assert_in_range(fault_vfs_calls(FAULT_READ) - before, 1, 20);
    store_fixture_close(f);
    fault_vfs_reset();
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, store_fixture_tear_down)

int main(void)
{
    static const struct CMUnitTest TESTS[] = {
        T(a_new_file_is_made_for_good),
        T(empty_files_become_stores),
        T(foreign_files_are_left_alone),
        T(a_newer_schema_is_refused),
        T(damaged_meta_rows_are_refused),
        T(bad_paths_are_explained),
        T(missing_permissions_are_explained),
        T(one_process_at_a_time),
        T(a_killed_holder_blocks_nobody),
        T(a_stale_lock_file_is_no_lock),
        T(damage_is_found_when_read_and_hurts_nobody_else),
        T(the_sum_of_a_row_never_changes),
        T(a_row_with_another_sum_is_damaged),
        T(rows_changed_by_hand_are_errors),
        T(a_torn_log_loses_the_end_only),
        T(opening_reads_little_however_large_the_store),
    };

    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
