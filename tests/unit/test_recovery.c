/* test_recovery.c - what comes back from the store: after a restart, when memory overflowed, bulk deletes. */
#include <stdio.h>

#include "lib/world.h"

#include "lib/world_check.h"

static const char *name(struct world *w, const char *prefix, int i)
{
    return arena_printf(w->arena, "%s%03d", prefix, i);
}

/* Answers everything that comes on the stream: turns complete at their second run, or at once without tasks. Returns how many. */
static int work_off(struct world *w, struct world_stream *st)
{
    int n = 0;
    for (struct world_item *it; (it = world_next(st)); n++) {
        if (!is_turn(it))
            assert_ok(world_result(w, it, "1"));
        else
            assert_ok(world_complete(w, it, act_done(w, 99, COMPLETED, NULL), NULL));
    }
    return n;
}

static int completed(struct world *w)
{
    return (int)world_sql(w, "SELECT count(*) FROM object WHERE status = 1");
}

/* checklist: 13 */
static void a_thousand_turns_and_tasks_come_back_in_order(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    w->settings.ready_group = 8;
    w->settings.cache_objects = 3;
    for (int i = 0; i < 300; i++)
        assert_ok(world_start(w, name(w, "t", i), "P", NULL));
    struct world_stream *st = world_stream(w, 0, 1);
    assert_ok(world_start(w, "fan", "Fan", NULL));
    for (struct world_item *it = NULL; !it;) {
        it = world_next(st);
        if (!is_turn(it) || strcmp(turn_id(w, it), "fan") != 0) {
            it = NULL;
            continue;
        }
        OrchestratorResponse *r = world_response(w, it, NULL);
        OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 100);
        for (int i = 0; i < 100; i++)
            actions[i] = act_task(w, i, "T", name(w, "in", i));
        r->actions = actions;
        r->n_actions = 100;
        assert_ok(world_answer(w, 1, r));
    }
    world_restart(w);
    struct work_stream_options tasks_only = {.capacity = {[WORK_TASK] = 1}};
    struct work_filter any[] = {{.name = BYTES_LIT("T")}};
    tasks_only.filtered = true;
    tasks_only.filters[WORK_TASK] = any;
    tasks_only.filter_count[WORK_TASK] = 1;
    st = world_stream_with(w, &tasks_only);
    for (int i = 0; i < 100; i++) {
        struct world_item *it = world_task(st);
        assert_int_equal(it->item->activityrequest->taskid, i); /* oldest first */
        if (i == 40) {
            world_restart(w); /* again, in the middle */
            st = world_stream_with(w, &tasks_only);
            it = world_task(st);
            assert_int_equal(it->item->activityrequest->taskid, i);
        }
        assert_ok(world_result(w, it, "1"));
    }
    assert_null(world_next(st));
    world_close(st);
    world_advance(w, 2 * SECOND);
    st = world_stream(w, 0, 0);
    for (int i = 0; i < 50 && completed(w) < 301; i++) {
        work_off(w, st);
        world_advance(w, SECOND);
    }
    assert_int_equal(completed(w), 301);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM inbox"), 0);
    world_free(w);
}

/* All that memory holds is in flight: what waits in the store must follow all the same. */
static void tasks_follow_when_all_in_memory_are_in_flight(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    w->settings.ready_group = 4;
    assert_ok(world_start(w, "i", "P", NULL));
    OrchestratorResponse *r = world_response(w, world_turn(st), NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 40);
    for (int i = 0; i < 40; i++)
        actions[i] = act_task(w, i, "T", NULL);
    r->actions = actions;
    r->n_actions = 40;
    assert_ok(world_answer(w, 1, r));
    int done = 0;
    for (int round = 0; round < 40 && done < 40; round++) {
        struct world_item *held[8];
        int n = 0;
        for (struct world_item *it; n < 8 && (it = world_next(st));)
            if (!is_turn(it))
                held[n++] = it;
        assert_true(n <= 4);
        for (int i = 0; i < n; i++, done++)
            assert_ok(world_result(w, held[i], "1"));
    }
    assert_int_equal(done, 40);
    world_free(w);
}

/* Turns that overflowed come back when their own group has room, whatever waits in others. */
static void overflowed_turns_come_back_beside_a_group_without_workers(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    w->settings.ready_group = 10;
    world_advance(w, 2 * SECOND);
    for (int i = 0; i < 30; i++)
        assert_ok(world_start(w, name(w, "idle", i), "Nobody", NULL));
    for (int i = 0; i < 50; i++)
        assert_ok(world_start(w, name(w, "t", i), "P", NULL));
    struct work_filter only[] = {{.name = BYTES_LIT("P")}};
    struct work_stream_options o = {.filtered = true};
    o.filters[WORK_TURN] = only;
    o.filter_count[WORK_TURN] = 1;
    struct world_stream *st = world_stream_with(w, &o);
    for (int i = 0; i < 20 && completed(w) < 50; i++)
        work_off(w, st);
    assert_int_equal(completed(w), 50);
    st = world_stream(w, 0, 0);
    for (int i = 0; i < 20 && completed(w) < 80; i++)
        work_off(w, st);
    assert_int_equal(completed(w), 80);
    world_free(w);
}

static uint64_t scanned(struct world *w)
{
    struct engine_stats s;
    engine_stats(w->e, &s);
    return s.scanned;
}

/* However long the backlog, it is gone through about once and not once each time that memory has room again; also beside a name
 * whose items wait in front of it and that no worker takes. */
static void a_long_backlog_is_gone_through_once(void **state)
{
    enum { IDLE = 300, BUSY = 1500, GROUP = 40 };
    struct world *w = world_new_file(NULL);
    (void)state;
    w->settings.ready_group = GROUP;
    world_advance(w, 2 * SECOND);
    for (int i = 0; i < IDLE; i++)
        assert_ok(world_start(w, name(w, "idle", i), "Nobody", NULL));
    for (int i = 0; i < BUSY; i++)
        assert_ok(world_start(w, name(w, "t", i), "P", NULL));
    struct work_filter only[] = {{.name = BYTES_LIT("P")}};
    struct work_stream_options o = {.filtered = true, .capacity = {[WORK_TURN] = 3}};
    o.filters[WORK_TURN] = only;
    o.filter_count[WORK_TURN] = 1;
    uint64_t before = scanned(w);
    struct world_stream *st = world_stream_with(w, &o);
    for (int i = 0; i < BUSY; i++) {
        struct world_item *turn = world_turn(st);
        assert_string_equal(turn_id(w, turn), name(w, "t", i)); /* oldest first, over all refills */
        assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    }
    assert_int_equal(completed(w), BUSY);
    /* Slices are of 256, and each refill meets what it has in memory already. */
    uint64_t refills = BUSY / (GROUP / 2) + 1;
    assert_true(scanned(w) - before <= BUSY + refills * (256 + GROUP));
    st = world_stream(w, 0, 0);
    for (int i = 0; i < 40 && completed(w) < BUSY + IDLE; i++)
        work_off(w, st);
    assert_int_equal(completed(w), BUSY + IDLE);
    world_free(w);
}

/* A worker without limits gets all of it without anybody else's calls waking the server. */
static void more_items_than_one_round_hands_out(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    w->is_held = true;
    for (int i = 0; i < 5000; i++)
        world_start(w, name(w, "t", i), "P", NULL);
    w->is_held = false;
    world_run(w);
    struct world_stream *st = world_stream(w, 0, 0);
    assert_int_equal(st->count, 5000);
    world_free(w);
}

/* A long history and inbox go in bounded steps, also over a crash, and do not show meanwhile. */
static void bulk_deletes_are_resumed_after_a_crash(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    struct world_stream *st = world_stream(w, 1, 1);
    assert_ok(world_start(w, "i", "P", NULL));
    for (int i = 0; i < 700; i++) {
        assert_ok(
            world_complete(w, world_turn(st), act_timer(w, i, w->wall + 3600 * SECOND), NULL));
        assert_ok(world_raise(w, "i", "e", NULL));
    }
    struct world_item *turn = world_turn(st);
    w->is_held = true;
    for (int i = 0; i < 3000; i++)
        world_raise(w, "i", "late", NULL);
    struct world_answer *done = world_complete(w, turn, act_done(w, 0, COMPLETED, NULL), NULL);
    struct world_answer *purge = world_purge(w, "i");
    engine_run(w->e); /* one batch, then the crash */
    assert_ok(done);
    assert_ok(purge);
    assert_true(world_sql(w, "SELECT count(*) FROM trash") > 0);
    assert_true(world_sql(w, "SELECT count(*) FROM inbox") > 0);
    w->is_held = false;
    world_restart(w);
    world_run(w);
    assert_null(world_get(w, "i"));
    assert_int_equal(
        world_sql(w, "SELECT (SELECT count(*) FROM trash) + (SELECT count(*) FROM inbox) + "
                     "(SELECT count(*) FROM history) + (SELECT count(*) FROM timer)"),
        0);
    assert_int_equal(world_sql(w, "SELECT sum(n) FROM count"), 0);
    world_free(w);
}

/* An instance that ended with a large inbox is read while that is still being deleted. */
static void an_instance_is_read_while_its_inbox_goes(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    w->is_held = true;
    for (int i = 0; i < 2500; i++)
        world_raise(w, "i", "late", NULL);
    struct world_answer *done = world_complete(w, turn, act_done(w, 0, COMPLETED, NULL), NULL);
    engine_run(w->e);
    engine_run(w->e);
    assert_ok(done);
    w->is_held = false;
    assert_true(world_sql(w, "SELECT count(*) FROM inbox") > 0);
    world_restart(w); /* cold */
    assert_state(w, "i", COMPLETED);
    assert_ok(world_start(w, "i", "P", NULL));
    st = world_stream(w, 1, 1);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted");
    world_run(w);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM inbox"), 1);
    world_free(w);
}

/* checklist: 50, 57 */
static void tokens_are_good_over_a_restart(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    OrchestratorResponse *first = world_response(w, turn, act_task(w, 1, "T", NULL), NULL);
    assert_ok(world_answer(w, 1, first));
    struct world_item *task = world_task(st);
    char *token = arena_cstr(w->arena, task->token);
    world_restart(w);
    assert_ok(world_answer(w, 1, first)); /* answered before the crash: nothing more */
    ActivityResponse r = ACTIVITY_RESPONSE__INIT;
    r.instanceid = wire_data(BYTES_LIT("i"));
    r.taskid = 1;
    r.completiontoken = wire_data(bytes_str(token));
    assert_ok(world_do(w, DT_COMPLETE_TASK, "i", &r));
    assert_ok(world_do(w, DT_COMPLETE_TASK, "i", &r)); /* once */
    st = world_stream(w, 10, 10);
    world_advance(w, 2 * SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted TaskCompleted(1)");
    assert_null(world_next(st));
    world_free(w);
}

/* An inbox row of an earlier execution is nobody's turn, but must not hide the next event's. */
static void an_event_behind_a_hundred_stale_rows_makes_a_turn(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 10, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    OrchestratorResponse *r = world_response(w, world_turn(st), NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 201);
    for (int i = 0; i < 200; i++)
        actions[i] = act_task(w, i, "T", NULL);
    r->actions = actions;
    r->n_actions = 200;
    assert_ok(world_answer(w, 1, r));
    assert_ok(world_raise(w, "i", "go", NULL));
    struct world_item *turn = NULL, *tasks[200];
    int n = 0;
    for (struct world_item *it; (it = world_next(st));) {
        if (is_turn(it))
            turn = it;
        else
            tasks[n++] = it;
    }
    assert_int_equal(n, 200);
    assert_non_null(turn);
    assert_ok(
        world_raise(w, "i", "kept", NULL)); /* in front of the stale ones: they cannot be swept */
    for (int i = 0; i < 200; i++)
        assert_ok(world_result(w, tasks[i], "stale"));
    assert_ok(world_complete(w, turn, act_done(w, 999, AS_NEW, NULL), NULL));
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(kept)");
    assert_ok(world_complete(w, turn, NULL));
    assert_null(world_next(st));
    world_restart(w);
    world_restart(w);
    assert_ok(world_raise(w, "i", "after", NULL));
    st = world_stream(w, 10, 0);
    world_advance(w, 2 * SECOND);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(after)");
    assert_ok(world_complete(w, turn, NULL));
    assert_int_equal(world_sql(w, "SELECT count(*) FROM inbox"), 0);
    world_free(w);
}

/* Damaged rows of a history are an error of that call, never a shorter history that looks complete. */
static void a_damaged_history_is_not_a_short_one(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 10, 0);
    static const char *const DAMAGE[] = {
        "UPDATE history SET frames = x'ffffffffff' RETURNING 1",
        "UPDATE history SET frames = x'' RETURNING 1",
        "DELETE FROM history RETURNING 1",
    };
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_string_equal(world_history(w, "i"), "OrchestratorStarted ExecutionStarted");
    for (size_t i = 0; i < ARRAY_LEN(DAMAGE); i++) {
        assert_int_equal(world_sql(w, "%s", DAMAGE[i]), 1);
        struct dt_history *req = arena_new(w->arena, struct dt_history);
        req->is_first = true;
        struct world_answer *a = world_do(w, DT_HISTORY, "i", req);
        assert_int_equal(a->status, ERR_CORRUPT);
        assert_string_equal(a->msg, "the history of instance 'i' is damaged in the store");
    }
    assert_ok(world_start(w, "other", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    world_free(w);
}

/* ---- rows that somebody deleted by hand ---- */

static const char WAITING[] = "SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM timer) "
                              "+ (SELECT count(*) FROM task)";

static uint64_t orphans(struct world *w)
{
    struct engine_stats stats;
    engine_stats(w->e, &stats);
    return stats.orphans;
}

/* An instance with a timer, an activity in a worker's hands, and a turn in its hands. */
static struct world_item *busy(struct world *w, struct world_stream *st, struct world_item **task)
{
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_timer(w, 1, w->wall + SECOND),
                             act_task(w, 2, "T", NULL), NULL));
    *task = world_task(st);
    assert_ok(world_raise(w, "i", "e", NULL));
    return world_turn(st);
}

/* The instance is in memory; a call, an answer or a timer finds that its row is not there. reports: BL-064 */
static void a_row_that_vanishes_under_the_cache_takes_all_along(void **state)
{
    (void)state;
    enum { SUSPEND, ANSWER, TIMER, WAYS };
    for (int way = SUSPEND; way < WAYS; way++) {
        struct world *w = world_new_file(NULL);
        struct world_stream *st = world_stream(w, 5, 5);
        struct world_item *task, *turn = busy(w, st, &task);
        world_sql(w, "DELETE FROM object WHERE id = 'i'");
        if (way == SUSPEND)
            assert_refused(world_suspend(w, "i"), ERR_NOT_FOUND);
        if (way == TIMER) /* what arrives is put beside the row */
            world_advance(w, 2 * SECOND);
        if (way != SUSPEND)
            assert_ok(
                world_complete(w, turn, act_task(w, 3, "T", NULL), NULL)); /* as of one purged */
        world_advance(w, 2 * SECOND);
        world_abandon(w, task);
        world_advance(w, 5 * SECOND);
        assert_int_equal(world_sql(w, WAITING), 0);
        assert_int_equal(orphans(w), way == TIMER ? 2 : 3); /* inbox, task, timer */
        assert_null(world_next(st));
        assert_int_equal(engine_in_flight(w->e), 0);
        assert_ok(world_start(w, "i", "P", NULL)); /* the id is free */
        assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
        world_free(w);
    }
}

/* reports: BL-064 */
static void rows_without_an_instance_go_at_the_next_start(void **state)
{
    (void)state;
    struct world *w = world_new_file(NULL);
    struct world_item *task;
    busy(w, world_stream(w, 5, 5), &task);
    world_sql(w, "DELETE FROM object WHERE id = 'i'");
    world_restart(w);
    struct world_stream *st = world_stream(w, 5, 5);
    world_advance(w, 5 * SECOND);
    assert_null(world_next(st));
    assert_int_equal(world_sql(w, WAITING), 0);
    assert_int_equal(orphans(w), 3);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_turns_and_tasks_come_back_in_order),
        cmocka_unit_test(tasks_follow_when_all_in_memory_are_in_flight),
        cmocka_unit_test(overflowed_turns_come_back_beside_a_group_without_workers),
        cmocka_unit_test(a_long_backlog_is_gone_through_once),
        cmocka_unit_test(more_items_than_one_round_hands_out),
        cmocka_unit_test(bulk_deletes_are_resumed_after_a_crash),
        cmocka_unit_test(an_instance_is_read_while_its_inbox_goes),
        cmocka_unit_test(tokens_are_good_over_a_restart),
        cmocka_unit_test(an_event_behind_a_hundred_stale_rows_makes_a_turn),
        cmocka_unit_test(a_damaged_history_is_not_a_short_one),
        cmocka_unit_test(a_row_that_vanishes_under_the_cache_takes_all_along),
        cmocka_unit_test(rows_without_an_instance_go_at_the_next_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
