/* test_engine_faults.c - the engine on a store whose disk fails: what was refused did not happen and nobody
 * was told of it; what was acknowledged is there; and it goes on by itself (spec 2, 8.5).
 *
 * The n-th write or flush fails, for every n that a start and a turn's answer come to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "lib/fault_vfs.h"
#include "lib/world.h"
#include "wire/value.h"

struct seen {
    unsigned turns_a, turns_b, tasks;
    struct world_item *turn_a;
};

/* What the worker got since it looked last. */
static void look(struct world_stream *st, struct seen *seen)
{
    for (struct world_item *it; (it = world_next(st));) {
        if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST) {
            seen->tasks++;
            continue;
        }
        assert_int_equal(it->item->request_case, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST);
        if (bytes_eq(wire_view(it->item->orchestratorrequest->instanceid), BYTES_LIT("b"))) {
            seen->turns_b++;
        } else {
            seen->turns_a++;
            seen->turn_a = it;
        }
    }
}

static bool was_refused(const struct world_answer *a)
{
    assert_true(a->is_done);
    if (a->status == OK)
        return false;
    assert_int_equal(a->status, ERR_UNAVAILABLE);
    assert_string_equal(a->msg,
                        "the store cannot commit now, nothing was changed; try again in a moment");
    return true;
}

static void check_rows(struct world *w, bool has_b)
{
    assert_int_equal(world_get(w, "b") != NULL, has_b);
    assert_string_equal(world_history(w, "a"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#1");
}

/* The answer to a's turn, under the fault. True: it was refused. */
static bool answer_turn(struct world *w, struct world_stream *st, struct seen *seen)
{
    bool refused = was_refused(world_complete(w, seen->turn_a, act_task(w, 1, "T", NULL), NULL));

    look(st, seen);
    assert_int_equal(seen->tasks, refused ? 0 : 1); /* handed out only if it is in the store */
    return refused;
}

/* True: the fault came. */
static bool run(const char *url, enum fault_op op, unsigned nth, int code, bool lasting)
{
    struct world *w = world_new(url);
    struct world_stream *st = world_stream(w, 10, 10);
    struct seen seen = {0};

    assert_false(was_refused(world_start(w, "a", "P", NULL)));
    look(st, &seen);
    assert_int_equal(seen.turns_a, 1);

    fault_vfs_fail(op, nth, code, lasting);
    bool b_refused = was_refused(world_start(w, "b", "P", NULL));
    look(st, &seen);
    assert_int_equal(seen.turns_b, b_refused ? 0 : 1);
    bool a_refused = answer_turn(w, st, &seen);
    bool fired = fault_vfs_fired() > 0;
    fault_vfs_heal();

    world_advance(w,
                  2 * USEC_PER_SEC); /* the store is opened again; what was given back has waited */
    assert_true(engine_is_healthy(w->e));
    look(st, &seen);
    if (a_refused) { /* its worker sends nothing again: the turn comes anew */
        assert_int_equal(seen.turns_a, 2);
        assert_false(answer_turn(w, st, &seen));
    }
    check_rows(w, !b_refused);
    world_restart(w);
    check_rows(w, !b_refused);
    world_free(w);
    return fired;
}

static void at_every_call(enum fault_op op, int code, bool lasting)
{
    char dir[] = "/tmp/engine-faults-XXXXXX", path[64], url[80];
    unsigned nth = 0;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/store.db", dir);
    snprintf(url, sizeof(url), "sqlite:%s", path);
    for (bool fired = true; fired; nth++) {
        fault_vfs_reset();
        fired = run(url, op, nth + 1, code, lasting);
        assert_int_equal(unlink(path), 0);
        assert_true(nth < 1000);
    }
    assert_true(nth > 1); /* else nothing was ever failed */
    assert_int_equal(rmdir(dir), 0);
}

static void a_failed_flush(void **state)
{
    (void)state;
    at_every_call(FAULT_SYNC, SQLITE_IOERR_FSYNC, false);
    at_every_call(FAULT_SYNC, SQLITE_IOERR_FSYNC, true);
}

static void a_failed_write(void **state)
{
    (void)state;
    at_every_call(FAULT_WRITE, SQLITE_IOERR_WRITE, false);
    at_every_call(FAULT_WRITE, SQLITE_FULL, true);
}

static int setup(void **state)
{
    (void)state;
    fault_vfs_register();
    return sqlite3_vfs_register(sqlite3_vfs_find(FAULT_VFS),
                                1); /* the engine's store takes the default */
}

int main(void)
{
    const struct CMUnitTest TESTS[] = {
        cmocka_unit_test(a_failed_flush),
        cmocka_unit_test(a_failed_write),
    };

    return cmocka_run_group_tests(TESTS, setup, NULL);
}
