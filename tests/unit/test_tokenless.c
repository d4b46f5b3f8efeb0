/* test_tokenless.c - workers that send no tokens: which answer belongs to which dispatch (spec 8.2). */
#include <stdio.h>

#include "lib/world.h"

#include "lib/world_check.h"

static struct world_stream *go_worker(struct world *w, uint64_t connection)
{
    struct work_stream_options o = {.token_less = true, .connection = connection};
    return world_stream_with(w, &o);
}

/* Starts "i", whose first turn is out on connection 7, which is lost, and then on 8, whose stream it returns. */
static struct world_stream *out_on_two_connections(struct world *w)
{
    struct world_stream *lost = go_worker(w, 7);
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(lost);
    world_close(lost);
    struct world_stream *st = go_worker(w, 8);
    world_advance(w, SECOND + 1);
    world_turn(st);
    return st;
}

static usec_t started_of(const struct world_item *turn)
{
    const Google__Protobuf__Timestamp *t = turn->item->orchestratorrequest->newevents[0]->timestamp;
    return t->seconds * SECOND + t->nanos / 1000;
}

/* The same events with the same times. */
static void assert_same_batch(struct world *w, const struct world_item *a,
                              const struct world_item *b)
{
    assert_string_equal(world_new_events(w, a), world_new_events(w, b));
    assert_string_equal(world_past_events(w, a), world_past_events(w, b));
    assert_int_equal(started_of(a), started_of(b));
    assert_false(bytes_eq(a->token, b->token));
}

/* checklist: 62, 139 */
static void activities_are_matched_by_ids_from_anywhere(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL),
                                act_task(w, 1, "T", NULL), NULL));
    world_task(st);
    assert_ok(world_result_on(w, 99, "i", 0, "a"));
    assert_ok(world_result_on(w, 99, "i", 0, "again"));
    assert_ok(world_result_on(w, 7, "i", 5, "unknown"));
    assert_ok(world_result_on(w, 7, "nobody", 0, "unknown"));
    world_restart(w);
    assert_ok(world_result_on(w, 1, "i", 1, "after the restart"));
    st = go_worker(w, 8);
    world_advance(w, 2 * SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted TaskCompleted(0)");
    world_free(w);
}

static void a_proxy_may_bring_answers_on_other_connections(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    for (int i = 0; i < 3; i++) {
        world_turn(st);
        assert_ok(
            world_complete_on(w, 50 + (uint64_t)i, "i", NULL, act_timer(w, i, w->wall), NULL));
        world_advance(w, 1);
    }
    world_turn(st);
    assert_ok(world_complete_on(w, 60, "i", NULL, act_done(w, 9, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    assert_ok(world_complete_on(w, 60, "i", NULL, act_done(w, 9, FAILED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* Nothing is out: an answer without a token settles nothing. */
static void an_answer_to_nothing_settles_nothing(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", PENDING);
    struct world_stream *tokens = world_stream(w, 1, 1);
    struct world_item *turn = world_turn(tokens);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", PENDING); /* it is out with a worker that has tokens */
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* checklist: 157 */
static void after_a_timeout_another_connection_gets_it_or_it_waits(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = go_worker(w, 7);
    (void)state;
    w->settings.turn_timeout = 10 * SECOND;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(a);
    world_advance(w, 60 * SECOND);
    assert_null(world_next(a)); /* at most one unanswered on a connection */
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_stream *b = go_worker(w, 8);
    struct world_item *second = world_turn(b);
    assert_same_batch(w, first, second);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL), NULL)); /* first wins */
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#0");
    for (struct world_item *it; (it = world_next(b));)
        assert_false(is_turn(it)); /* the second may still answer */
    assert_ok(world_complete_on(w, 8, "i", NULL, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", RUNNING);
    int turns = 0;
    for (struct world_item *it; (it = world_next(a)) || (it = world_next(b));)
        turns += is_turn(it); /* both have answered: no more waiting */
    assert_int_equal(turns, 1);
    world_free(w);
}

/* checklist: 157 */
static void what_was_out_before_a_restart_is_repeated_exactly(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "i", NULL, NULL));
    assert_ok(world_raise(w, "i", "a", NULL));
    struct world_item *turn = world_turn(st);
    const char *events = world_new_events(w, turn);
    usec_t started = started_of(turn);
    assert_ok(world_raise(w, "i", "b", NULL));
    w->wall += SECOND / 2;
    world_restart(w);
    st = go_worker(w, 8);
    world_advance(w, SECOND / 2);
    assert_null(world_next(st)); /* not before a second */
    world_advance(w, SECOND);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), events);
    assert_int_equal(started_of(turn), started);
    assert_ok(world_complete_on(w, 8, "i", NULL, NULL));
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted EventRaised(b)");
    world_free(w);
}

/* Memory has room for one turn: the other is found, refused, and an arrival offers it again when there is room. */
static void a_turn_that_found_no_room_after_a_restart_is_repeated_too(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_start(w, "j", "P", NULL));
    world_turn(st);
    const char *events = world_new_events(w, world_turn(st));
    w->settings.ready_group = 1;
    world_restart(w);
    world_run(w);
    st = go_worker(w, 8);
    world_advance(w, 2 * SECOND);
    const struct world_item *turn = world_turn(st);
    bool first = bytes_eq(wire_view(turn->item->orchestratorrequest->instanceid), BYTES_LIT("i"));
    w->is_held = true;
    world_complete_on(w, 8, first ? "i" : "j", NULL, NULL);
    world_raise(w, first ? "j" : "i", "later", NULL);
    w->is_held = false;
    world_run(w);
    assert_string_equal(world_new_events(w, world_turn(st)), events);
    world_free(w);
}

/* checklist: 157 */
static void an_answer_from_before_a_restart_counts_once(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(st);
    world_restart(w);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_timer(w, 0, w->wall), NULL));
    assert_state(w, "i", RUNNING);
    world_advance(w, 2 * SECOND);
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TimerCreated#0");
    st = go_worker(w, 8);
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted TimerFired(0)");
    world_free(w);
}

/* A cut that is over a second old is made anew before a first dispatch. */
static void an_old_cut_is_made_anew(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_advance(w, 100 * SECOND);
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_stream *st = go_worker(w, 7);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(e)");
    assert_true(started_of(turn) >= w->wall - SECOND);
    world_free(w);
}

/* A worker with tokens gets the very batch that is out without one. */
static void a_batch_stays_exact_for_workers_with_tokens(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *go = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(go);
    world_close(go);
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_stream *st = world_stream(w, 1, 1);
    assert_null(world_next(st));
    world_advance(w, SECOND + 1);
    struct world_item *second = world_turn(st);
    assert_same_batch(w, first, second);
    assert_ok(
        world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL), NULL)); /* the first's */
    assert_state(w, "i", RUNNING);
    assert_ok(world_complete(w, second, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", RUNNING);
    world_free(w);
}

/* checklist: 157, 158 */
static void a_stream_that_ended_frees_its_connection(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(a);
    world_close(a);
    a = go_worker(w, 7); /* the same connection */
    assert_null(world_next(a));
    world_advance(w, SECOND + 1);
    struct world_item *second = world_turn(a);
    assert_same_batch(w, first, second);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, 1);
    assert_null(world_next(a));
    world_advance(w, SECOND + 1);
    assert_string_equal(world_new_events(w, world_turn(a)), "OrchestratorStarted TimerFired(0)");
    world_free(w);
}

static void flush_takes_half_a_second(void *arg, usec_t took UNUSED, uint64_t commands UNUSED,
                                      bool ok UNUSED)
{
    struct world *w = arg;
    w->mono += SECOND / 2;
    engine_on_commit(w->e, NULL, NULL); /* this one only */
}

/* The second that other answers have begins when the first is answered, not when its batch began. */
static void the_wait_for_other_answers_is_not_shorter_by_the_flush(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = out_on_two_connections(w);
    (void)state;
    engine_on_commit(w->e, flush_takes_half_a_second, w);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, SECOND - 1);
    assert_null(world_next(a));
    world_advance(w, 1);
    assert_string_equal(world_new_events(w, world_turn(a)), "OrchestratorStarted TimerFired(0)");
    world_free(w);
}

/* The late answer to an earlier turn, on a connection that has not this one, is never taken for it. */
static void late_answers_from_elsewhere_are_told_apart(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *b = out_on_two_connections(w);
    (void)state;
    assert_ok(world_complete_on(w, 8, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, SECOND + 1);
    world_turn(b);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", RUNNING);
    /* Nor does forgetting the old one lose what is out now. */
    world_advance(w, 200 * SECOND);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

static void what_is_out_outlives_the_memory_of_late_answers(void **state)
{
    struct world *w = world_new(NULL);
    w->settings.turn_timeout = 0;
    struct world_stream *b = out_on_two_connections(w);
    (void)state;
    assert_ok(world_complete_on(w, 8, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, SECOND + 1);
    world_turn(b); /* out while the first dispatch is forgotten */
    world_advance(w, 700 * SECOND);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* An answer to the instance that was replaced is not one to its successor. */
static void replaced_instances_are_told_apart(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = go_worker(w, 7);
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    struct dt_start start = {.request = &req,
                             .has_policy = true,
                             .replaceable = DT_STATUS_BIT(PENDING) | DT_STATUS_BIT(TERMINATED)};
    (void)state;
    req.name = wire_data(BYTES_LIT("P"));
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(st);
    assert_ok(world_do(w, DT_START, "i", &start));
    assert_null(world_next(st)); /* its first answer may still come */
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", PENDING);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted");
    assert_ok(world_complete_on(w, 7, "i", NULL, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* A completion with a token shows that the connection's worker has them. */
static void a_token_ends_the_suspicion(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    work_connection_has_tokens(w->e, 7);
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    world_close(st);
    st = go_worker(w, 7);
    work_connection_has_tokens(w->e, 7);
    struct world_item *again = world_turn(st); /* at once */
    assert_ok(world_complete(w, turn, act_done(w, 1, FAILED, NULL), NULL));
    assert_ok(world_complete(w, again, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* A cut that was made anew is the one that is repeated after a restart, not the one that came with the first event. */
static void a_new_cut_survives_a_restart(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_raise(w, "i", "e", NULL));
    world_advance(w, 3 * SECOND); /* the cut is too old for a first dispatch */
    struct world_item *first = world_turn(go_worker(w, 7));
    assert_string_equal(world_new_events(w, first),
                        "OrchestratorStarted ExecutionStarted EventRaised(e)");
    assert_int_equal(started_of(first), w->wall);
    char events[200];
    usec_t started = started_of(first);
    snprintf(events, sizeof(events), "%s", world_new_events(w, first));
    world_restart(w);
    struct world_stream *st = go_worker(w, 8);
    world_advance(w, 2 * SECOND);
    struct world_item *again = world_turn(st);
    assert_string_equal(world_new_events(w, again), events);
    assert_int_equal(started_of(again), started);
    world_free(w);
}

/* A turn that was out when the instance was suspended and the server went down: its answer may still come, and is about its batch. */
static void a_suspended_turn_is_repeated_after_a_restart(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(go_worker(w, 7));
    usec_t started = started_of(first);
    world_advance(w, SECOND);
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_raise(w, "i", "e", NULL));
    world_restart(w);
    assert_ok(world_resume(w, "i"));
    struct world_stream *st = go_worker(w, 8);
    world_advance(w, 2 * SECOND);
    struct world_item *again = world_turn(st);
    assert_string_equal(world_new_events(w, again), "OrchestratorStarted ExecutionStarted");
    assert_int_equal(started_of(again), started);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_task(w, 0, "T", NULL), NULL));
    world_advance(w, 2 * SECOND);
    struct world_item *it = world_next(st);
    if (!is_turn(it))
        it = world_turn(st);
    assert_string_equal(world_new_events(w, it),
                        "OrchestratorStarted Suspended EventRaised(e) Resumed");
    world_free(w);
}

/* Answers that come after the end of the execution, or of the instance: nobody waits for them, but the worker (JAVA's holds
 * so many items at most) has room again and nobody runs the work once more. */
static void answers_of_finished_executions_give_room_back(void **state)
{
    struct world *w = world_new_file(NULL);
    struct work_stream_options o = {.token_less = true, .connection = 7, .capacity_total = 3};
    struct world_stream *st = world_stream_with(w, &o);
    (void)state;
    for (int i = 0; i < 3; i++) { /* completed, purged, continued as new */
        const char *id = arena_printf(w->arena, "i%d", i);
        assert_ok(world_start(w, id, "P", NULL));
        world_turn(st);
        assert_ok(world_complete_on(w, 7, id, NULL, act_task(w, 0, "T", NULL),
                                    act_task(w, 1, "T", NULL),
                                    act_done(w, 2, i == 2 ? AS_NEW : COMPLETED, NULL), NULL));
        if (i == 1)
            assert_ok(world_purge(w, id));
        for (int k = 0; k < (i == 2 ? 3 : 2); k++) {
            struct world_item *it = world_next(st);
            assert_non_null(it);
            if (is_turn(it))
                assert_ok(world_complete_on(w, 7, id, NULL, act_done(w, 0, COMPLETED, NULL), NULL));
        }
        assert_ok(world_result_on(w, 7, id, 0, "late"));
        assert_ok(world_result_on(w, 7, id, 1, "late"));
        assert_int_equal(world_sql(w, "SELECT count(*) FROM task"), 0);
        struct engine_stats stats;
        engine_stats(w->e, &stats);
        assert_int_equal(stats.flight[WORK_TASK], 0);
    }
    world_free(w);
}

/* The answer to an older execution's activity, while nobody has the new one's of the same ids yet. */
static void an_older_activity_is_told_apart_from_one_not_handed_out(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = go_worker(w, 7);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(st);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL),
                                act_done(w, 1, AS_NEW, NULL), NULL));
    world_task(st);
    world_turn(st);
    w->is_held = true;
    struct world_answer *turn = world_complete_on(w, 7, "i", NULL, act_task(w, 0, "T", NULL), NULL);
    struct world_answer *late = world_result_on(w, 7, "i", 0, "late");
    w->is_held = false;
    world_run(w);
    assert_ok(turn);
    assert_ok(late);
    world_task(st);
    assert_null(world_next(st)); /* no turn: nothing has arrived */
    assert_int_equal(world_sql(w, "SELECT count(*) FROM task"), 1);
    assert_ok(world_result_on(w, 7, "i", 0, "right"));
    assert_int_equal(world_sql(w, "SELECT count(*) FROM task"), 0);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted TaskCompleted(0)");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activities_are_matched_by_ids_from_anywhere),
        cmocka_unit_test(a_proxy_may_bring_answers_on_other_connections),
        cmocka_unit_test(an_answer_to_nothing_settles_nothing),
        cmocka_unit_test(after_a_timeout_another_connection_gets_it_or_it_waits),
        cmocka_unit_test(what_was_out_before_a_restart_is_repeated_exactly),
        cmocka_unit_test(an_answer_from_before_a_restart_counts_once),
        cmocka_unit_test(an_old_cut_is_made_anew),
        cmocka_unit_test(a_batch_stays_exact_for_workers_with_tokens),
        cmocka_unit_test(a_stream_that_ended_frees_its_connection),
        cmocka_unit_test(the_wait_for_other_answers_is_not_shorter_by_the_flush),
        cmocka_unit_test(late_answers_from_elsewhere_are_told_apart),
        cmocka_unit_test(what_is_out_outlives_the_memory_of_late_answers),
        cmocka_unit_test(replaced_instances_are_told_apart),
        cmocka_unit_test(a_token_ends_the_suspicion),
        cmocka_unit_test(a_new_cut_survives_a_restart),
        cmocka_unit_test(a_suspended_turn_is_repeated_after_a_restart),
        cmocka_unit_test(a_turn_that_found_no_room_after_a_restart_is_repeated_too),
        cmocka_unit_test(answers_of_finished_executions_give_room_back),
        cmocka_unit_test(an_older_activity_is_told_apart_from_one_not_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
