/* test_engine.c - batches: one commit, one command's failure, a store that fails and comes back. */
#include <stdio.h>

#include <sqlite3.h>

#include "lib/fault_vfs.h"
#include "lib/world.h"

#include "lib/world_check.h"

static struct world *faulty_world(void)
{
    fault_vfs_register();
    fault_vfs_reset();
    return world_new_file(FAULT_VFS);
}

/* The next commits fail, until the_store_heals(). */
static void the_store_fails(void)
{
    fault_vfs_fail(FAULT_WRITE, 1, SQLITE_IOERR_WRITE, true);
}

static void the_store_heals(struct world *w)
{
    fault_vfs_heal();
    world_advance(w, 300 * USEC_PER_MSEC);
    assert_true(engine_is_healthy(w->e));
}

/* Makes the next turn of an instance impossible to store: its history row is there already. */
static void take_history_row(struct world *w, const char *id, int row)
{
    world_sql(w,
              "INSERT INTO history (execution, row, key_base, events, time, frames) "
              "SELECT execution, %d, 0, 1, 1, x'' FROM object WHERE id = '%s'",
              row, id);
}

/* checklist: 37 */
static void a_batch_is_stepped_in_order_and_committed_once(void **state)
{
    struct world *w = world_new_file(NULL);
    struct store_stats before, after;
    (void)state;
    store_stats(w->store, &before);
    w->is_held = true;
    struct world_answer *start = world_start(w, "a", "P", NULL);
    struct world_answer *event = world_raise(w, "a", "e", "1");
    struct world_answer *nobody = world_raise(w, "b", "e", "1");
    struct world_answer *again = world_start(w, "a", "P", NULL);
    assert_false(start->is_done);
    w->is_held = false;
    world_run(w);
    assert_ok(start);
    assert_ok(event);
    assert_refused(nobody, ERR_NOT_FOUND);
    assert_refused(again, ERR_EXISTS);
    store_stats(w->store, &after);
    assert_int_equal(after.commits - before.commits, 1);
    struct world_stream *st = world_stream(w, 1, 1);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted EventRaised(e)");
    world_free(w);
}

/* A command that fails after it wrote undoes only itself: others of its batch, their waiters, work, timers and messages live. */
static void a_late_failure_undoes_only_itself(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    struct world_item *turns[3];
    const char *const IDS[] = {"a", "b", "c"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_ok(world_start(w, IDS[i], "P", NULL));
        assert_ok(
            world_complete(w, world_turn(st), act_timer(w, 1, w->wall + 3600 * SECOND), NULL));
        assert_ok(world_raise(w, IDS[i], "go", NULL));
        turns[i] = world_turn(st);
    }
    assert_ok(world_start(w, "due", "Q", NULL));
    assert_ok(world_complete(w, world_turn(st), act_timer(w, 1, w->wall + SECOND), NULL));
    struct world_answer *wait = world_wait(w, "a", DT_WAIT_COMPLETION, 1);
    take_history_row(w, "b", 2);
    w->is_held = true;
    struct world_answer *a = world_complete(w, turns[0], act_done(w, 2, COMPLETED, "1"), NULL);
    struct world_answer *b = world_complete(w, turns[1], act_task(w, 2, "Never", NULL), NULL);
    struct world_answer *c =
        world_complete(w, turns[2], act_task(w, 2, "T", NULL), act_child(w, 3, "C", "kid"), NULL);
    struct world_answer *d = world_start(w, "d", "R", NULL);
    w->is_held = false;
    world_advance(w, SECOND); /* the timer of `due` is in this batch too */
    assert_ok(a);
    assert_true(b->is_done && b->status != OK && b->status != ERR_UNAVAILABLE);
    assert_ok(c);
    assert_ok(d);
    assert_ok(wait);
    assert_state(w, "a", COMPLETED);
    assert_state(w, "b", RUNNING);
    assert_string_equal(world_history(w, "c"),
                        "OrchestratorStarted ExecutionStarted TimerCreated#1 OrchestratorStarted "
                        "EventRaised(go) TaskScheduled#2 ChildCreated#3");
    int kids = 0, tasks = 0, dues = 0, ds = 0;
    for (struct world_item *it; (it = world_next(st));) {
        if (!is_turn(it)) {
            tasks++;
            assert_ok(world_result(w, it, "1"));
            continue;
        }
        kids += strcmp(turn_id(w, it), "kid") == 0;
        dues += strcmp(turn_id(w, it), "due") == 0;
        ds += strcmp(turn_id(w, it), "d") == 0;
        assert_ok(world_complete(w, it, NULL));
    }
    assert_int_equal(tasks, 1);
    assert_int_equal(kids, 1);
    assert_int_equal(dues, 1);
    assert_int_equal(ds, 1);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM task"), 0);
    world_free(w);
}

/* The worker whose answer could not be stored does not send it again: its item comes back, with backoff. */
static void the_item_of_a_failed_completion_comes_again(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "b", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_raise(w, "b", "go", NULL));
    struct world_item *turn = world_turn(st);
    take_history_row(w, "b", 2);
    assert_true(world_complete(w, turn, NULL)->status != OK);
    assert_null(world_next(st));
    world_sql(w, "DELETE FROM history WHERE row = 2");
    world_advance(w, SECOND);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(go)");
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "b", COMPLETED);
    world_free(w);
}

/* Everything is UNAVAILABLE while the store takes no commit; nothing is half-applied, and what was refused can be done afterwards. */
static void a_failing_store_refuses_all_and_recovers_by_itself(void **state)
{
    struct world *w = faulty_world();
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "a", "P", NULL));
    assert_ok(world_start(w, "k", "P", NULL));
    struct world_item *a = world_turn(st), *k = world_turn(st);
    assert_ok(world_complete(w, k, act_task(w, 1, "T", NULL), NULL));
    struct world_item *task = world_task(st);
    the_store_fails();
    assert_refused(world_start(w, "b", "P", NULL), ERR_UNAVAILABLE);
    assert_false(engine_is_healthy(w->e));
    assert_refused(world_complete(w, a, act_done(w, 1, COMPLETED, NULL), NULL), ERR_UNAVAILABLE);
    assert_refused(world_result(w, task, "lost"), ERR_UNAVAILABLE);
    assert_refused(world_raise(w, "a", "e", NULL), ERR_UNAVAILABLE);
    struct dt_get get = {.payloads = false};
    assert_refused(world_do(w, DT_GET, "nobody", &get),
                   ERR_UNAVAILABLE); /* never "does not exist" */
    world_advance(w, 10 * SECOND);
    assert_false(engine_is_healthy(w->e));
    assert_null(world_next(st));
    the_store_heals(w);
    world_advance(w, SECOND);
    int turns = 0, tasks = 0;
    for (struct world_item *it; (it = world_next(st));) {
        if (is_turn(it)) {
            turns++;
            assert_ok(world_complete(w, it, act_done(w, 9, COMPLETED, "late"), NULL));
        } else {
            tasks++;
            assert_ok(world_result(w, it, "found"));
        }
    }
    assert_int_equal(tasks, 1);
    assert_true(turns >= 2); /* a, k after its task; b if its commit had reached the file */
    assert_state(w, "a", COMPLETED);
    assert_text(world_get(w, "a")->output, "late");
    assert_state(w, "k", COMPLETED);
    world_free(w);
}

/* A commit that was refused may be in the file all the same: then it is acted upon. */
static void a_refused_commit_that_is_there_after_all_is_handed_out(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct world *w = faulty_world();
        struct world_stream *st = world_stream(w, 10, 10);
        assert_ok(world_start(w, "a", "P", NULL));
        struct world_item *turn = world_turn(st);
        struct world_answer *wait = world_wait(w, "a", DT_WAIT_START, 1);
        fault_vfs_fail(FAULT_SYNC, nth, SQLITE_IOERR_FSYNC, false);
        struct world_answer *answer =
            world_complete(w, turn, act_task(w, 1, "T", NULL), act_child(w, 2, "C", "kid"), NULL);
        world_advance(w, SECOND);
        world_advance(w, SECOND);
        bool there = world_get(w, "a")->orchestrationstatus == RUNNING;
        assert_true(there || answer->status == ERR_UNAVAILABLE);
        assert_int_equal(wait->is_done, there);
        int tasks = 0, kids = 0, again = 0;
        for (struct world_item *it; (it = world_next(st));) {
            tasks += !is_turn(it);
            kids += is_turn(it) && strcmp(turn_id(w, it), "kid") == 0;
            again += is_turn(it) && strcmp(turn_id(w, it), "a") == 0;
        }
        assert_int_equal(tasks, there);
        assert_int_equal(kids, there);
        assert_int_equal(again, !there);
        world_free(w);
    }
}

/* A full disk lets the store be opened again, and then refuses the next batch: no spinning, and all is there when it has room. */
static void a_full_disk_is_not_asked_in_a_loop(void **state)
{
    struct world *w = faulty_world();
    struct world_stream *st = world_stream(w, 1, 1);
    struct engine_stats before, after;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_timer(w, 1, w->wall + SECOND), NULL));
    engine_stats(w->e, &before);
    fault_vfs_fail(FAULT_GROW, 1, SQLITE_FULL, true);
    for (int i = 0; i < 100; i++)
        world_advance(w, 50 * USEC_PER_MSEC);
    engine_stats(w->e, &after);
    assert_in_range(after.commits_failed - before.commits_failed, 1, 30);
    the_store_heals(w);
    world_advance(w, SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted TimerFired(1)");
    world_free(w);
}

/* While the store is away hubs have no numbers; the worker is told OK, and sends it once. */
static void an_abandon_while_the_store_is_away_counts(void **state)
{
    struct world *w = faulty_world();
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    the_store_fails();
    assert_int_equal(world_start(w, "j", "P", NULL)->status, ERR_UNAVAILABLE);
    assert_false(engine_is_healthy(w->e));
    w->hub = "other"; /* another hub's worker gives nothing back */
    world_abandon(w, turn);
    assert_int_equal(engine_in_flight(w->e), 1);
    w->hub = NULL;
    world_abandon(w, turn);
    assert_int_equal(engine_in_flight(w->e), 0);
    the_store_heals(w);
    world_advance(w, SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted");
    world_free(w);
}

/* checklist: 157 */
static void a_turn_whose_new_cut_was_refused_goes_out_later(void **state)
{
    struct world *w = faulty_world();
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_advance(w, 100 * SECOND);
    the_store_fails();
    struct work_stream_options go = {.token_less = true, .connection = 7};
    struct world_stream *st = world_stream_with(w, &go);
    world_advance(w, SECOND);
    assert_null(world_next(st));
    assert_false(engine_is_healthy(w->e)); /* the commit with the cut was refused */
    the_store_heals(w);
    struct world_item *turn = world_turn(st);
    const Google__Protobuf__Timestamp *started =
        turn->item->orchestratorrequest->newevents[0]->timestamp;
    assert_true(started->seconds * SECOND >= w->wall - SECOND);
    world_free(w);
}

/* Token-less workers do not repeat a refused completion either. */
static void refused_completions_without_tokens_come_again(void **state)
{
    struct world *w = faulty_world();
    struct work_stream_options go = {.token_less = true, .connection = 7};
    struct world_stream *st = world_stream_with(w, &go);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_start(w, "j", "P", NULL));
    world_turn(st);
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL), NULL));
    world_task(st);
    the_store_fails();
    assert_refused(world_result_on(w, 7, "i", 0, "1"), ERR_UNAVAILABLE);       /* stepped */
    assert_refused(world_complete_on(w, 7, "j", NULL, NULL), ERR_UNAVAILABLE); /* not stepped */
    the_store_heals(w);
    world_advance(w, 2 * SECOND);
    struct world_item *it = world_next(st), *other = world_next(st);
    assert_non_null(it);
    assert_non_null(other);
    assert_true(is_turn(it) != is_turn(other));
    assert_ok(world_result_on(w, 7, "i", 0, "1"));
    assert_ok(world_complete_on(w, 7, "j", NULL, act_done(w, 0, COMPLETED, NULL), NULL));
    assert_state(w, "j", COMPLETED);
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);

    assert_ok(world_start(w, "k", "P", NULL));
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "k", NULL, act_task(w, 0, "T", NULL), NULL));
    world_task(st);
    the_store_fails();
    assert_refused(world_start(w, "x", "P", NULL), ERR_UNAVAILABLE);
    assert_refused(world_result_on(w, 7, "k", 0, "1"), ERR_UNAVAILABLE); /* not stepped */
    the_store_heals(w);
    world_advance(w, 2 * SECOND);
    int tasks = 0;
    while ((it = world_next(st)))
        tasks += !is_turn(it);
    assert_int_equal(tasks, 1);
    world_free(w);
}

static void a_wait_that_ends_while_the_store_is_away_tells_no_lies(void **state)
{
    struct world *w = faulty_world();
    (void)state;
    assert_ok(world_start(w, "a", "P", NULL));
    struct world_answer *known = world_wait(w, "a", DT_WAIT_COMPLETION, 1);
    struct world_answer *kept = world_wait(w, "a", DT_WAIT_COMPLETION, 2);
    the_store_fails();
    assert_refused(world_raise(w, "a", "e", NULL), ERR_UNAVAILABLE);
    engine_wait_expire(w->e, 1);
    assert_refused(known, ERR_UNAVAILABLE);
    the_store_heals(w);
    assert_false(kept->is_done);
    struct world_stream *st = world_stream(w, 1, 1);
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_ok(kept);
    world_free(w);
}

/* Every call of the file system fails once, one after the other: each command is there wholly, or not at all and refused. */
static void any_single_failure_leaves_nothing_half_applied(void **state)
{
    static const enum fault_op OPS[] = {FAULT_WRITE, FAULT_SYNC, FAULT_GROW, FAULT_SIZE,
                                        FAULT_LOCK};
    (void)state;
    for (size_t op = 0; op < ARRAY_LEN(OPS); op++) {
        for (unsigned nth = 1; nth <= 8; nth++) {
            struct world *w = faulty_world();
            struct world_stream *st = world_stream(w, 10, 10);
            fault_vfs_fail(OPS[op], nth, OPS[op] == FAULT_GROW ? SQLITE_FULL : SQLITE_IOERR_WRITE,
                           false);
            for (int i = 0; i < 10; i++) {
                enum err rc = world_start(w, "a", "P", NULL)->status;
                assert_true(rc == OK || rc == ERR_EXISTS || rc == ERR_UNAVAILABLE);
                if (rc != ERR_UNAVAILABLE)
                    break;
                world_advance(w, SECOND);
            }
            for (int i = 0; i < 8; i++) {
                world_advance(w, SECOND);
                for (struct world_item *it; (it = world_next(st));) {
                    if (!is_turn(it))
                        (void)world_result(w, it, "1");
                    else if (it->item->orchestratorrequest->n_pastevents == 0)
                        (void)world_complete(w, it, act_task(w, 1, "T", NULL), NULL);
                    else
                        (void)world_complete(w, it, act_done(w, 2, COMPLETED, NULL), NULL);
                }
            }
            fault_vfs_heal();
            world_advance(w, SECOND);
            assert_state(w, "a", COMPLETED);
            assert_string_equal(world_history(w, "a"),
                                "OrchestratorStarted ExecutionStarted TaskScheduled#1 "
                                "OrchestratorStarted TaskCompleted(1) ExecutionCompleted");
            assert_int_equal(world_sql(w, "SELECT count(*) FROM inbox"), 0);
            assert_int_equal(world_sql(w, "SELECT count(*) FROM task"), 0);
            assert_int_equal(world_sql(w, "SELECT n FROM count WHERE status = 1"), 1);
            assert_int_equal(world_sql(w, "SELECT sum(n) FROM count"), 1);
            world_free(w);
        }
    }
}

/* With one object in memory at a time everything works as ever. */
static void a_tiny_cache_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t objects = 1; objects <= 4; objects++) {
        struct world *w = world_new_file(NULL);
        w->settings.cache_objects = objects;
        struct world_stream *st = world_stream(w, 0, 0);
        assert_ok(world_start(w, "p", "P", NULL));
        assert_ok(world_complete(w, world_turn(st), act_child(w, 1, "C", "k1"),
                                 act_child(w, 2, "C", "k2"), act_task(w, 3, "T", NULL),
                                 act_timer(w, 4, w->wall + SECOND), NULL));
        int left = 5;
        for (int i = 0; i < 100 && left > 0; i++) {
            struct world_item *it = world_next(st);
            if (!it) {
                world_advance(w, SECOND);
                continue;
            }
            if (!is_turn(it)) {
                assert_ok(world_result_on(w, 9, "p", 3, "1")); /* by ids: needs the open actions */
            } else if (strcmp(turn_id(w, it), "p") != 0) {
                assert_ok(world_complete(w, it, act_done(w, 1, COMPLETED, "\"kid\""), NULL));
            } else {
                left -= (int)it->item->orchestratorrequest->n_newevents - 1;
                assert_ok(left > 1 ? world_complete(w, it, NULL)
                                   : world_complete(w, it, act_done(w, 5, COMPLETED, NULL), NULL));
            }
            if (left == 1)
                left = 0;
        }
        assert_state(w, "p", COMPLETED);
        struct engine_stats stats;
        engine_stats(w->e, &stats);
        assert_true(stats.objects_cached <= objects);
        assert_int_equal(
            world_sql(w, "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM timer) + "
                         "(SELECT count(*) FROM inbox)"),
            0);
        world_free(w);
    }
}

/* Work that is ready cannot be read: that is no silent end of the dispatcher. The server is not ready meanwhile, says so,
 * and hands the work out when the store can be read again, after one failure as after many.
 * reports: BL-011 */
static void dispatch_survives_a_store_that_cannot_be_read(void **state)
{
    (void)state;
    for (int is_lasting = 0; is_lasting <= 1; is_lasting++) {
        struct world *w = faulty_world();
        struct engine_stats stats;
        int got = 0;
        struct world_stream *st = world_stream(w, 1, 100);
        for (int i = 0; i < 30; i++) {
            struct world_item *it;
            char id[16];
            snprintf(id, sizeof(id), "%d", i);
            assert_ok(world_start(w, id, "P", NULL));
            while (!is_turn(it = world_next(st)))
                ; /* an activity before it: nobody does those */
            assert_ok(world_complete(w, it, act_task(w, 1, "T", NULL), NULL));
        }
        world_restart(w); /* nothing of it is in memory */
        fault_vfs_fail(FAULT_LOCK, 1, SQLITE_IOERR_LOCK, is_lasting);
        st = world_stream(w, 1, 100);
        engine_stats(w->e, &stats);
        assert_true(stats.commits_failed > 0);
        assert_false(engine_is_healthy(w->e));
        if (is_lasting) {
            world_advance(w, 300 * USEC_PER_MSEC);
            assert_false(engine_is_healthy(w->e));
            assert_null(world_next(st));
        }
        the_store_heals(w);
        while (world_next(st))
            got++;
        assert_int_equal(got, 30);
        world_free(w);
    }
}

/* What is decoded is bounded by bytes too. */
static void a_cache_of_few_bytes_holds_few(void **state)
{
    struct world *w = world_new_file(NULL);
    struct engine_stats stats;
    char id[16];
    (void)state;
    w->settings.cache_bytes = 8192;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "%d", i);
        assert_ok(world_start(w, id, "P", NULL));
    }
    engine_stats(w->e, &stats);
    assert_true(stats.objects_cached < 50);
    assert_true(stats.objects_cached_bytes <= 8192);
    assert_state(w, "0", PENDING);
    world_free(w);
}

/* Requests count as waiting in memory until a batch has taken them: overload is told by that. */
static void queued_bytes_are_those_that_no_batch_took(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    w->is_held = true;
    w->cmd_bytes = 10;
    for (int i = 0; i < 5000; i++)
        (void)world_raise(w, "nobody", "e", NULL);
    assert_int_equal(engine_queued_bytes(w->e), 50000);
    assert_true(engine_run(w->e)); /* one batch */
    assert_in_range(engine_queued_bytes(w->e), 1, 49990);
    world_run(w);
    assert_int_equal(engine_queued_bytes(w->e), 0);
    world_free(w);
}

/* Large requests do not all go into one flush that everything else waits for. */
static void a_batch_is_bounded_in_bytes(void **state)
{
    struct world *w = world_new_file(NULL);
    size_t left[4];
    (void)state;
    w->is_held = true;
    w->cmd_bytes = MIB(12);
    for (int i = 0; i < 4; i++)
        (void)world_raise(w, "nobody", "e", NULL);
    w->cmd_bytes = MIB(64); /* larger than a batch: it goes all the same */
    for (int i = 0; i < 2; i++)
        (void)world_raise(w, "nobody", "e", NULL);
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        (void)engine_run(w->e);
        left[i] = engine_queued_bytes(w->e);
    }
    assert_int_equal(left[0], MIB(12 + 12 + 64 + 64));
    assert_int_equal(left[1], MIB(64 + 64));
    assert_int_equal(left[2], MIB(64));
    assert_int_equal(left[3], 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_stepped_in_order_and_committed_once),
        cmocka_unit_test(a_late_failure_undoes_only_itself),
        cmocka_unit_test(the_item_of_a_failed_completion_comes_again),
        cmocka_unit_test(a_failing_store_refuses_all_and_recovers_by_itself),
        cmocka_unit_test(a_refused_commit_that_is_there_after_all_is_handed_out),
        cmocka_unit_test(a_full_disk_is_not_asked_in_a_loop),
        cmocka_unit_test(an_abandon_while_the_store_is_away_counts),
        cmocka_unit_test(a_turn_whose_new_cut_was_refused_goes_out_later),
        cmocka_unit_test(refused_completions_without_tokens_come_again),
        cmocka_unit_test(a_wait_that_ends_while_the_store_is_away_tells_no_lies),
        cmocka_unit_test(any_single_failure_leaves_nothing_half_applied),
        cmocka_unit_test(a_tiny_cache_changes_nothing),
        cmocka_unit_test(dispatch_survives_a_store_that_cannot_be_read),
        cmocka_unit_test(a_cache_of_few_bytes_holds_few),
        cmocka_unit_test(queued_bytes_are_those_that_no_batch_took),
        cmocka_unit_test(a_batch_is_bounded_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
