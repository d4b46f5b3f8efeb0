/* test_turns.c - batches of events, chunked and partial answers, what a turn shows and keeps (spec 4). */
#include <stdio.h>
#include <stdlib.h>

#include "lib/world.h"

#include "lib/world_check.h"

static Google__Protobuf__Int32Value *number(struct world *w, int32_t n)
{
    Google__Protobuf__Int32Value *v = arena_new(w->arena, Google__Protobuf__Int32Value);
    google__protobuf__int32_value__init(v);
    v->value = n;
    return v;
}

static OrchestratorResponse *chunk(struct world *w, const struct world_item *turn, int32_t index,
                                   bool is_partial, OrchestratorAction *a)
{
    OrchestratorResponse *r = world_response(w, turn, a, NULL);
    r->ispartial = is_partial;
    r->chunkindex = number(w, index);
    return r;
}

static const char *text_of(struct world *w, const char *prefix, int i)
{
    return arena_printf(w->arena, "%s%d", prefix, i);
}

/* checklist: 37, 38 */
static void events_of_a_turn_wait_for_the_next(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_raise(w, "i", "a", NULL));
    assert_ok(world_raise(w, "i", "b", NULL));
    assert_null(world_next(st));
    world_abandon(w, turn);
    world_advance(w, SECOND);
    turn = world_turn(st); /* a longer batch than before */
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(a) EventRaised(b)");
    assert_ok(world_raise(w, "i", "c", NULL));
    assert_ok(world_complete(w, turn, NULL));
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(c)");
    assert_string_equal(world_past_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(a) EventRaised(b)");
    world_free(w);
}

/* checklist: 39 */
static void custom_status_is_that_of_the_last_turn(void **state)
{
    static const char *const GIVEN[] = {"one", "two", NULL, "three", ""};
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    for (size_t i = 0; i < ARRAY_LEN(GIVEN); i++) {
        OrchestratorResponse *r = world_response(w, world_turn(st), NULL);
        r->customstatus = wire_string_value(w->arena, bytes_str(GIVEN[i]));
        assert_ok(world_answer(w, 1, r));
        assert_text(world_get(w, "i")->customstatus, GIVEN[i] && *GIVEN[i] ? GIVEN[i] : NULL);
        assert_ok(world_raise(w, "i", "e", NULL));
    }
    OrchestratorResponse *r =
        world_response(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL);
    r->customstatus = wire_string_value(w->arena, BYTES_LIT("last"));
    assert_ok(world_answer(w, 1, r));
    assert_text(world_get(w, "i")->customstatus, "last");
    world_free(w);
}

/* checklist: 45 */
static void requires_history_gives_the_turn_again_at_once(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    OrchestratorResponse *r = world_response(w, turn, act_task(w, 1, "Never", NULL), NULL);
    r->requireshistory = true;
    assert_ok(world_answer(w, 1, r));
    struct world_item *again = world_turn(st);
    assert_false(bytes_eq(turn->token, again->token));
    assert_string_equal(world_new_events(w, again), world_new_events(w, turn));
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL)); /* stale */
    assert_state(w, "i", PENDING);
    assert_ok(world_complete(w, again, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 46 */
static void chunks_are_one_turn_in_their_order(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 1, "A", NULL))));
    assert_ok(world_answer(w, 1, chunk(w, turn, 1, true, act_task(w, 2, "B", NULL))));
    assert_ok(world_answer(w, 1, chunk(w, turn, 1, true, act_task(w, 9, "Again", NULL))));
    assert_state(w, "i", PENDING);
    assert_ok(world_answer(w, 1, chunk(w, turn, 2, true, act_task(w, 3, "C", NULL))));
    assert_ok(world_answer(w, 1, chunk(w, turn, 3, false, act_task(w, 4, "D", NULL))));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#1 TaskScheduled#2 "
                        "TaskScheduled#3 TaskScheduled#4");
    world_free(w);
}

/* checklist: 46 */
static void chunks_start_anew_and_have_no_gaps(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 1, "Dropped", NULL))));
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 2, "B", NULL))));
    assert_ok(world_answer(w, 1, chunk(w, turn, 1, false, act_task(w, 3, "C", NULL))));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#2 TaskScheduled#3");
    assert_ok(world_raise(w, "i", "e", NULL));
    for (struct world_item *it; (it = world_next(st));)
        turn = is_turn(it) ? it : turn;
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 4, "D", NULL))));
    assert_refused(world_answer(w, 1, chunk(w, turn, 2, true, act_task(w, 5, "E", NULL))),
                   ERR_INVALID);
    world_advance(w, SECOND); /* treated as abandoned: chunks are dropped */
    turn = NULL;
    for (struct world_item *it; (it = world_next(st));)
        turn = is_turn(it) ? it : turn;
    assert_non_null(turn);
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 6, "Lost", NULL))));
    world_close(st);
    st = world_stream(w, 1, 0);
    turn = NULL;
    for (struct world_item *it; (it = world_next(st));)
        turn = is_turn(it) ? it : turn;
    assert_ok(world_complete(w, turn, act_task(w, 7, "Kept", NULL), NULL));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#2 TaskScheduled#3 "
                        "OrchestratorStarted EventRaised(e) TaskScheduled#7");
    world_free(w);
}

/* A chunk that comes behind the end of its stream: the next worker's answer is its own. */
static void chunks_of_an_earlier_dispatch_are_dropped(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    world_close(st);
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_task(w, 0, "Stray", NULL))));
    turn = world_turn(world_stream(w, 1, 0));
    assert_ok(world_complete(w, turn, act_timer(w, 0, w->wall + 60 * SECOND), NULL));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TimerCreated#0");
    world_free(w);
}

/* A chunk extends the turn's time; chunks over the limit end the dispatch, and too often the instance. */
static void chunks_hold_the_lease_and_have_a_limit(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    w->settings.turn_timeout = 10 * SECOND;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    for (int i = 0; i < 5; i++) {
        world_advance(w, 6 * SECOND);
        assert_ok(world_answer(w, 1, chunk(w, turn, i, true, act_timer(w, i, w->wall))));
    }
    assert_ok(world_answer(w, 1, chunk(w, turn, 5, false, act_done(w, 9, COMPLETED, NULL))));
    assert_state(w, "i", COMPLETED);

    w->settings.turn_chunk_bytes = 0; /* world's commands have no bytes: make them too many */
    w->settings.oversize_breaks = 3;
    assert_ok(world_start(w, "j", "P", NULL));
    for (int i = 0; i < 3; i++) {
        turn = world_turn(st);
        w->cmd_bytes = 100;
        assert_refused(world_answer(w, 1, chunk(w, turn, 0, true, act_timer(w, 1, 0))), ERR_LIMIT);
        w->cmd_bytes = 0;
        world_advance(w, 20 * SECOND);
    }
    assert_failure(w, "j", "WorkItemTooLarge");

    w->settings.turn_chunk_bytes = 150; /* the last one counts too */
    w->settings.oversize_breaks = 1;
    assert_ok(world_start(w, "k", "P", NULL));
    turn = world_turn(st);
    w->cmd_bytes = 100;
    assert_ok(world_answer(w, 1, chunk(w, turn, 0, true, act_timer(w, 1, 0))));
    assert_refused(world_answer(w, 1, chunk(w, turn, 1, false, act_done(w, 2, COMPLETED, NULL))),
                   ERR_LIMIT);
    w->cmd_bytes = 0;
    assert_failure(w, "k", "WorkItemTooLarge");
    world_free(w);
}

/* checklist: 47 */
static void num_events_processed_leaves_the_rest(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_raise(w, "i", "a", NULL));
    assert_ok(world_raise(w, "i", "b", NULL));
    struct world_item *turn = world_turn(st);
    OrchestratorResponse *r = world_response(w, turn, NULL);
    r->numeventsprocessed = number(w, 5);
    assert_refused(world_answer(w, 1, r), ERR_INVALID);
    world_advance(w, SECOND);
    r = world_response(w, world_turn(st), NULL);
    r->numeventsprocessed = number(w, -1);
    assert_refused(world_answer(w, 1, r), ERR_INVALID);
    world_advance(w, 2 * SECOND);
    r = world_response(w, world_turn(st), NULL);
    r->numeventsprocessed = number(w, 3);
    assert_ok(world_answer(w, 1, r));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted EventRaised(a)");
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(b)");
    r = world_response(w, turn, NULL);
    r->numeventsprocessed = number(w, 0); /* abandon */
    assert_ok(world_answer(w, 1, r));
    assert_null(world_next(st));
    world_advance(w, SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted EventRaised(b)");
    world_free(w);
}

/* The events given back may hold the start of the execution, which the next one is made from. */
static void continue_as_new_with_the_start_given_back(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", "1"));
    OrchestratorResponse *r = world_response(w, world_turn(st), act_done(w, 1, AS_NEW, "2"), NULL);
    r->numeventsprocessed = number(w, 1);
    assert_ok(world_answer(w, 1, r));
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionStarted");
    assert_text(turn->item->orchestratorrequest->newevents[1]->executionstarted->input, "2");
    world_free(w);
}

/* checklist: 33, 146 */
static void orchestrator_started_never_goes_back(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    int64_t last = 0;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    for (int i = 0; i < 6; i++) {
        struct world_item *turn = world_turn(st);
        HistoryEvent *ev = turn->item->orchestratorrequest->newevents[0];
        int64_t at = ev->timestamp->seconds * SECOND + ev->timestamp->nanos / 1000;
        assert_true(at >= last);
        last = at;
        assert_ok(world_complete(w, turn, NULL));
        w->wall += i % 2 ? 3600 * SECOND : -3600 * SECOND;
        assert_ok(world_raise(w, "i", "e", NULL));
        OrchestrationState *s = world_get(w, "i");
        assert_true(s->lastupdatedtimestamp->seconds >= s->createdtimestamp->seconds);
    }
    world_free(w);
}

/* The clock steps back between two arrivals, and the instance is read from the store again. */
static void last_updated_never_goes_back_over_a_reload(void **state)
{
    struct world *w = world_new_file(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    w->wall += 10 * SECOND;
    assert_ok(world_raise(w, "i", "e", NULL));
    int64_t before = world_get(w, "i")->lastupdatedtimestamp->seconds;
    w->wall -= 8 * SECOND;
    assert_ok(world_raise(w, "i", "e", NULL));
    assert_int_equal(world_get(w, "i")->lastupdatedtimestamp->seconds, before);
    world_restart(w);
    assert_int_equal(world_get(w, "i")->lastupdatedtimestamp->seconds, before);
    world_free(w);
}

/* checklist: 52 */
static void a_large_inbox_comes_in_bounded_batches(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    const int events = 20000;
    (void)state;
    w->settings.history_max_events = 1000000;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    w->is_held = true;
    for (int i = 0; i < events; i++)
        world_raise(w, "i", text_of(w, "e", i), NULL);
    w->is_held = false;
    world_run(w);
    assert_ok(world_complete(w, turn, NULL));
    int next = 0, turns = 0;
    for (; next < events; turns++) {
        turn = world_turn(st);
        OrchestratorRequest *r = turn->item->orchestratorrequest;
        assert_true(r->n_newevents <= 1001);
        for (size_t i = 0; i < r->n_newevents; i++) {
            HistoryEvent *ev = r->newevents[i];
            if (ev->event_type_case != HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED)
                continue;
            const char *want = text_of(w, "e", next++);
            assert_int_equal(ev->eventraised->name.len, strlen(want));
            assert_memory_equal(ev->eventraised->name.data, want, strlen(want));
        }
        struct engine_stats stats;
        engine_stats(w->e, &stats);
        assert_true(stats.objects_cached_bytes < MIB(2));
        assert_ok(world_complete(w, turn, act_done(w, 1, next < events ? AS_NEW : COMPLETED, NULL),
                                 NULL));
    }
    assert_true(turns <= events / 999 + 1);
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* turn.bytes bounds a batch; one event larger than it comes alone. */
static void bytes_bound_a_batch_too(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    char *big = arena_alloc(w->arena, 5001);
    (void)state;
    memset(big, 'x', 5000);
    big[5000] = 0;
    w->settings.turn_bytes = 2000;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_raise(w, "i", "a", big));
    assert_ok(world_raise(w, "i", "b", NULL));
    assert_ok(world_raise(w, "i", "c", big));
    static const char *const WANT[] = {
        "OrchestratorStarted ExecutionStarted", "OrchestratorStarted EventRaised(a)",
        "OrchestratorStarted EventRaised(b)", "OrchestratorStarted EventRaised(c)"};
    for (size_t i = 0; i < ARRAY_LEN(WANT); i++) {
        struct world_item *turn = world_turn(st);
        assert_string_equal(world_new_events(w, turn), WANT[i]);
        assert_ok(world_complete(w, turn, NULL));
    }
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 48 */
static void a_history_over_the_limit_fails_the_instance(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    w->settings.history_max_events = 6;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), NULL));
    assert_ok(world_result(w, world_task(st), "1"));
    struct world_answer *a = world_complete(w, world_turn(st), act_task(w, 2, "Never", NULL), NULL);
    assert_refused(a, ERR_LIMIT);
    assert_string_equal(a->msg, "Orchestration 'i' would exceed maximum history size");
    assert_failure(w, "i", "HistoryLimitExceeded");
    assert_true(world_get(w, "i")->failuredetails->isnonretriable);
    world_advance(w, 10 * SECOND);
    assert_null(world_next(st)); /* neither the task nor the turn again */
    world_free(w);
}

/* checklist: 49 */
static void the_trace_context_returns_until_the_next_execution(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    OrchestrationTraceContext trace = ORCHESTRATION_TRACE_CONTEXT__INIT;
    (void)state;
    trace.spanid = wire_string_value(w->arena, BYTES_LIT("span"));
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    assert_null(turn->item->orchestratorrequest->orchestrationtracecontext);
    OrchestratorResponse *r = world_response(w, turn, NULL);
    r->orchestrationtracecontext = &trace;
    assert_ok(world_answer(w, 1, r));
    assert_ok(world_raise(w, "i", "e", NULL));
    turn = world_turn(st);
    assert_text(turn->item->orchestratorrequest->orchestrationtracecontext->spanid, "span");
    assert_ok(world_complete(w, turn, act_done(w, 1, AS_NEW, NULL), NULL));
    assert_null(world_turn(st)->item->orchestratorrequest->orchestrationtracecontext);
    world_free(w);
}

/* checklist: 133 */
static void a_stuck_turn_goes_to_another_worker(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    w->settings.turn_timeout = 60 * SECOND;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(a);
    struct world_stream *b = world_stream(w, 1, 1);
    world_advance(w, 59 * SECOND);
    assert_null(world_next(b));
    world_advance(w, SECOND);
    struct world_item *again = world_turn(b);
    assert_ok(world_complete(w, turn, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", PENDING);
    assert_ok(world_complete(w, again, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* checklist: 131 */
static void a_late_completion_before_redelivery_counts(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(a);
    world_close(a);
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, "1"), NULL));
    assert_state(w, "i", COMPLETED);
    a = world_stream(w, 1, 1);
    assert_null(world_next(a));
    world_free(w);
}

/* A completion with the token of one turn that names another instance is refused and gives the turn back. */
static void ids_that_differ_from_the_token_are_refused(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    OrchestratorResponse *r = world_response(w, world_turn(st), act_task(w, 1, "T", NULL), NULL);
    r->instanceid = wire_data(BYTES_LIT("other"));
    assert_refused(world_answer(w, 1, r), ERR_INVALID);
    world_advance(w, SECOND);
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), NULL));
    struct world_item *task = world_task(st);
    ActivityResponse bad = ACTIVITY_RESPONSE__INIT;
    bad.instanceid = wire_data(BYTES_LIT("i"));
    bad.taskid = 2;
    bad.completiontoken = wire_data(task->token);
    assert_refused(world_do(w, DT_COMPLETE_TASK, "i", &bad), ERR_INVALID);
    assert_null(world_next(st));
    world_advance(w, SECOND);
    assert_ok(world_result(w, world_task(st), "1"));
    assert_refused(world_do(w, DT_COMPLETE_TASK, "i", &bad), ERR_INVALID);
    /* When nobody waits for it any more, nothing is wrong with it (spec 6.1, 8.2). */
    assert_ok(world_complete(w, world_turn(st), act_done(w, 3, COMPLETED, NULL), NULL));
    assert_ok(world_do(w, DT_COMPLETE_TASK, "i", &bad));
    struct dt_bad large = {.token = task->token, .is_too_large = true, .reason = "it is large"};
    assert_ok(world_do(w, DT_BAD_TASK, "i", &large));
    world_free(w);
}

/* Bad content settles the item as failed; too large gives it back a number of times first. */
static void bad_completions_settle_their_items(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    w->settings.oversize_breaks = 3;
    assert_ok(world_start(w, "i", "P", NULL));
    struct dt_bad bad = {.token = world_turn(st)->token, .reason = "it is bad"};
    assert_refused(world_do(w, DT_BAD_TURN, "i", &bad), ERR_INVALID);
    assert_failure(w, "i", "InvalidCompletion");

    assert_ok(world_start(w, "j", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), NULL));
    for (int i = 0; i < 3; i++) {
        struct world_item *task = world_task(st);
        bad = (struct dt_bad){.token = task->token,
                              .has_task = true,
                              .task_id = 1,
                              .is_too_large = true,
                              .reason = "it is large"};
        assert_refused(world_do(w, DT_BAD_TASK, "j", &bad), ERR_LIMIT);
        if (i < 2)
            assert_null(world_next(st));
        world_advance(w, 20 * SECOND);
    }
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted TaskFailed(1)");
    world_free(w);
}

/* What a turn leaves in memory counts at once, not when the instance is used again: with far timers that may be in a month. */
static void what_a_turn_leaves_in_memory_is_counted(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    struct engine_stats before, after;
    usec_t far = w->wall + 3600 * SECOND;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    engine_stats(w->e, &before);
    assert_ok(world_complete(w, turn, act_timer(w, 1, far), act_timer(w, 2, far),
                             act_timer(w, 3, far), act_timer(w, 4, far), act_timer(w, 5, far),
                             act_timer(w, 6, far), act_timer(w, 7, far), act_timer(w, 8, far),
                             NULL));
    engine_stats(w->e, &after);
    assert_true(after.objects_cached_bytes >=
                before.objects_cached_bytes + 8 * 64 /* bytes of an open action */);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_turn_leaves_in_memory_is_counted),
        cmocka_unit_test(events_of_a_turn_wait_for_the_next),
        cmocka_unit_test(custom_status_is_that_of_the_last_turn),
        cmocka_unit_test(requires_history_gives_the_turn_again_at_once),
        cmocka_unit_test(chunks_are_one_turn_in_their_order),
        cmocka_unit_test(chunks_start_anew_and_have_no_gaps),
        cmocka_unit_test(chunks_of_an_earlier_dispatch_are_dropped),
        cmocka_unit_test(chunks_hold_the_lease_and_have_a_limit),
        cmocka_unit_test(num_events_processed_leaves_the_rest),
        cmocka_unit_test(continue_as_new_with_the_start_given_back),
        cmocka_unit_test(orchestrator_started_never_goes_back),
        cmocka_unit_test(last_updated_never_goes_back_over_a_reload),
        cmocka_unit_test(a_large_inbox_comes_in_bounded_batches),
        cmocka_unit_test(bytes_bound_a_batch_too),
        cmocka_unit_test(a_history_over_the_limit_fails_the_instance),
        cmocka_unit_test(the_trace_context_returns_until_the_next_execution),
        cmocka_unit_test(a_stuck_turn_goes_to_another_worker),
        cmocka_unit_test(a_late_completion_before_redelivery_counts),
        cmocka_unit_test(ids_that_differ_from_the_token_are_refused),
        cmocka_unit_test(bad_completions_settle_their_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
