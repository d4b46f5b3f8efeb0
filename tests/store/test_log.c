/* test_log.c - the log under load: one writer, readers and a checkpointer on threads of their own.
 *
 * BL-116: nobody sees a busy error. The log stays bounded because the writer waits for it between
 * two transactions; a snapshot that is held lets it grow, and nothing else suffers.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>

#include "store_fixture.h"

#define WAL_LIMIT KIB(512)
#define COMMITS 600

struct load {
    struct store_fixture *f;
    atomic_bool stop;
    atomic_uint committed, reads, failures, checkpoints;
};

static void failed(struct load *l, const char *what, const struct error *err)
{
    print_error("%s: %s\n", what, err->msg);
    atomic_fetch_add(&l->failures, 1);
}

static void *checkpoint_loop(void *arg)
{
    struct load *l = arg;
    struct store_checkpointer *c;
    struct error err;

    if (store_checkpointer_open(l->f->st, &c, &err)) {
        failed(l, "open", &err);
        return NULL;
    }
    while (!atomic_load(&l->stop)) {
        if (store_checkpoint(c, &err))
            failed(l, "checkpoint", &err);
        atomic_fetch_add(&l->checkpoints, 1);
        usleep(2000);
    }
    store_checkpointer_close(c);
    return NULL;
}

static bool sum_trash(void *arg, const struct store_trash *t)
{
    *(uint64_t *)arg += t->key;
    return true;
}

/* Every transaction keeps the sum at 0 modulo 10 and the timers at the number of commits. */
static void *read_loop(void *arg)
{
    struct load *l = arg;
    struct store_reader *r;
    struct error err;

    if (store_reader_open(l->f->st, &r, &err)) {
        failed(l, "open", &err);
        return NULL;
    }
    while (!atomic_load(&l->stop)) {
        uint64_t sum = 0, timers = 0, again = 0;
        unsigned before = atomic_load(&l->committed);
        enum err e = store_reader_begin(r, &err);
        if (!e)
            e = store_timer_count(r, &timers, &err);
        if (!e)
            e = store_trash_read(r, 0, UINT32_MAX, sum_trash, &sum, &err);
        if (!e)
            e = store_timer_count(r, &again, &err);
        store_reader_end(r);
        if (e)
            failed(l, "read", &err);
        if (sum % 10 != 0 || timers != again || timers < before)
            atomic_fetch_add(&l->failures, 1);
        atomic_fetch_add(&l->reads, 1);
        usleep(500);
    }
    store_reader_close(r);
    return NULL;
}

static void write_one(struct store_fixture *f, unsigned n)
{
    static const uint8_t FILL[6000] = {1};
    uint64_t key = n + 1;

    OKAY(store_begin(f->st, &err));
    OKAY(store_trash_insert(f->st, &(struct store_trash){.seq = key * 2, .what = 1, .key = 3},
                            &err));
    OKAY(store_trash_insert(f->st, &(struct store_trash){.seq = key * 2 + 1, .what = 1, .key = 7},
                            &err));
    if (key > 50) {
        OKAY(store_trash_delete(f->st, (key - 50) * 2, &err));
        OKAY(store_trash_delete(f->st, (key - 50) * 2 + 1, &err));
    }
    OKAY(store_timer_insert(f->st, &(struct store_timer){.due = n, .key = key}, &err));
    OKAY(store_task_insert(
        f->st,
        &(struct store_task){.group = 1, .key = key, .payload = bytes_of(FILL, sizeof(FILL))},
        &err));
    OKAY(store_commit(f->st, &err));
}

/* The server waits 1 s each time. Here the bound is what counts, and a reader may be off the processor for long. */
#define LOG_WAIT (60 * USEC_PER_SEC)

static void the_log_stays_bounded_and_nobody_is_busy(void **state)
{
    struct store_fixture *f = *state;
    struct load l = {.f = f};
    pthread_t threads[4];
    struct store_stats s;
    uint64_t peak = 0;

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? read_loop : checkpoint_loop, &l), 0);
    for (unsigned n = 0; n < COMMITS; n++) {
        write_one(f, n);
        atomic_store(&l.committed, n + 1);
        store_stats(f->st, &s);
        peak = MAX(peak, s.wal_bytes);
        if (s.wal_bytes > WAL_LIMIT)
            OKAY(store_log_restart(f->st, LOG_WAIT, &err));
    }
    /* On a slow machine the writer may have been first: let everybody have a turn. */
    while (atomic_load(&l.reads) < 10 || atomic_load(&l.checkpoints) < 3)
        usleep(1000);
    atomic_store(&l.stop, true);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&l.failures), 0);
    assert_true(peak > WAL_LIMIT / 2);
    assert_true(peak < WAL_LIMIT * 2);
    assert_int_equal(s.flushes, COMMITS + store_info(f->st)->schema); /* and one a migration */
}

static void a_held_snapshot_only_lets_the_log_grow(void **state)
{
    struct store_fixture *f = *state;
    struct store_reader *r;
    struct store_checkpointer *c;
    struct store_stats s;
    uint64_t timers = 99;

    OKAY(store_reader_open(f->st, &r, &err));
    OKAY(store_checkpointer_open(f->st, &c, &err));
    write_one(f, 0);
    OKAY(store_reader_begin(r, &err));
    OKAY(store_timer_count(r, &timers, &err));
    for (unsigned n = 1; n < 100; n++) {
        write_one(f, n);
        OKAY(store_checkpoint(c, &err));
        OKAY(store_log_restart(f->st, 0, &err));
    }
    store_stats(f->st, &s);
    assert_true(s.wal_bytes > 100 * 6000);
    OKAY(store_timer_count(r, &timers, &err));
    assert_int_equal(timers, 1);
    store_reader_end(r);
    OKAY(store_log_restart(f->st, 0, &err));
    write_one(f, 100);
    store_stats(f->st, &s);
    assert_true(s.wal_bytes < 100000);
    store_reader_close(r);
    store_checkpointer_close(c);
}

static void *hold_write_lock(void *arg)
{
    sqlite3 *db = arg;

    usleep(200000);
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    return NULL;
}

/* Somebody's `sqlite3` holds the write lock for a moment: the writer waits. */
static void a_writer_beside_us_is_waited_for(void **state)
{
    struct store_fixture *f = *state;
    pthread_t thread;
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; DELETE FROM trash", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(pthread_create(&thread, NULL, hold_write_lock, db), 0);
    write_one(f, 0);
    pthread_join(thread, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(the_log_stays_bounded_and_nobody_is_busy),
        STORE_TEST(a_held_snapshot_only_lets_the_log_grow),
        STORE_TEST(a_writer_beside_us_is_waited_for),
    };

    (void)argc;
    return store_fixture_run(2, (char *[]){argv[0], (char[]){"sqlite"}}, TESTS, ARRAY_LEN(TESTS));
}
