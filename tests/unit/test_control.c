/* test_control.c - suspend, terminate, continue-as-new, purge, replacement, hubs (spec 3, 6.5-6.7). */
#include <stdio.h>

#include "lib/world.h"

#include "lib/world_check.h"

static struct world_item *turn_of(struct world *w, struct world_stream *st, const char *id)
{
    for (struct world_item *it; (it = world_next(st));)
        if (is_turn(it) && strcmp(turn_id(w, it), id) == 0)
            return it;
    print_error("no turn of '%s'\n", id);
    fail();
    return NULL;
}

static struct world_answer *start_replacing(struct world *w, const char *id, uint32_t statuses)
{
    CreateInstanceRequest *req = arena_new(w->arena, CreateInstanceRequest);
    struct dt_start *start = arena_new(w->arena, struct dt_start);
    create_instance_request__init(req);
    req->instanceid = wire_data(bytes_str(id));
    req->name = wire_data(BYTES_LIT("P"));
    start->request = req;
    start->has_policy = true;
    start->replaceable = statuses;
    return world_do(w, DT_START, id, start);
}

/* The server ended "i" by itself, before any turn of it was committed (spec 6.6.1). */
static void assert_ended_without_a_turn(struct world *w)
{
    assert_state(w, "i", TERMINATED);
    assert_string_equal(
        world_history(w, "i"),
        "OrchestratorStarted ExecutionStarted ExecutionTerminated ExecutionCompleted");
}

/* checklist: 80 */
static void suspended_before_its_first_turn(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_suspend(w, "i"));
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_START, 1);
    struct world_stream *st = world_stream(w, 1, 1);
    assert_null(world_next(st));
    assert_state(w, "i", SUSPENDED);
    assert_ok(world_resume(w, "i"));
    assert_state(w, "i", PENDING);
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_resume(w, "i"));
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted Suspended Resumed");
    assert_false(wait->is_done);
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_complete(w, turn, NULL));
    assert_ok(wait);
    assert_state(w, "i", SUSPENDED);
    assert_null(world_next(st));
    assert_ok(world_resume(w, "i"));
    assert_state(w, "i", RUNNING);
    world_free(w);
}

/* checklist: 82 */
static void terminate_goes_through_a_suspension(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_raise(w, "i", "e", NULL));
    assert_ok(world_terminate(w, "i", "x", false));
    assert_ok(world_terminate(w, "i", "y", false)); /* pending already */
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionTerminated");
    assert_ok(world_complete(w, turn, NULL));
    assert_state(w, "i", TERMINATED);
    assert_text(world_get(w, "i")->output, "x");
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 84, 87, 151 */
static void terminate_waits_for_the_turn_in_flight(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_raise(w, "i", "a", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_raise(w, "i", "b", NULL));
    assert_ok(world_terminate(w, "i", "x", false));
    assert_ok(world_complete(w, turn, act_task(w, 1, "T", NULL), NULL));
    for (turn = NULL; !turn;) {
        struct world_item *it = world_next(st);
        turn = is_turn(it) ? it : NULL;
    }
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionTerminated");
    assert_string_equal(world_past_events(w, turn),
                        "OrchestratorStarted ExecutionStarted OrchestratorStarted EventRaised(a) "
                        "TaskScheduled#1");
    world_advance(w, 29 * SECOND);
    assert_state(w, "i", RUNNING);
    world_advance(w, 2 * SECOND); /* nobody answered: the server does it */
    assert_state(w, "i", TERMINATED);
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, "late"), NULL));
    assert_state(w, "i", TERMINATED);
    assert_ok(world_terminate(w, "i", "again", true));
    assert_ok(world_terminate(w, "nobody", "x", true));
    world_free(w);
}

/* A worker's own outcome in the turn that had the termination stands; continue-as-new does not. checklist: 85 */
static void what_a_worker_answers_to_a_termination(void **state)
{
    static const OrchestrationStatus GIVEN[] = {COMPLETED, FAILED, TERMINATED, AS_NEW};
    static const OrchestrationStatus WANT[] = {COMPLETED, FAILED, TERMINATED, TERMINATED};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(GIVEN); i++) {
        struct world *w = world_new(NULL);
        struct world_stream *st = world_stream(w, 0, 0);
        assert_ok(world_start(w, "i", "P", NULL));
        assert_ok(world_start(w, "to", "Q", NULL));
        assert_ok(world_complete(w, turn_of(w, st, "i"), NULL));
        assert_ok(world_terminate(w, "i", "x", false));
        assert_ok(world_complete(w, turn_of(w, st, "i"), act_task(w, 1, "T", NULL),
                                 act_send(w, 2, "to", "bye", NULL), act_child(w, 3, "C", "kid"),
                                 act_timer(w, 4, w->wall), act_done(w, 5, GIVEN[i], "w"), NULL));
        assert_state(w, "i", WANT[i]);
        bool runs_on = WANT[i] != TERMINATED;
        assert_text(world_get(w, "i")->output, GIVEN[i] == AS_NEW ? "x" : "w");
        int tasks = 0;
        for (struct world_item *it; (it = world_next(st));)
            tasks += !is_turn(it);
        assert_int_equal(tasks, runs_on);
        assert_int_equal(world_get(w, "kid") != NULL, runs_on);
        assert_non_null(strstr(world_history(w, "i"), "EventSent#2"));
        assert_int_equal(strstr(world_history(w, "i"), "TaskScheduled#1") != NULL, runs_on);
        world_free(w);
    }
}

/* checklist: 85, 89 */
static void a_pending_termination_ends_the_next_execution(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    char *big = arena_alloc(w->arena, 100001);
    (void)state;
    memset(big, 'x', 100000);
    big[100000] = 0;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_terminate(w, "i", "x", false));
    assert_ok(world_complete(w, turn, act_done(w, 1, AS_NEW, big), NULL));
    assert_state(w, "i", TERMINATED);
    assert_text(world_get(w, "i")->output, "x");
    assert_string_equal(
        world_history(w, "i"),
        "OrchestratorStarted ExecutionStarted ExecutionTerminated ExecutionCompleted");
    assert_null(world_next(st));
    world_free(w);
}

/* In one batch: the next execution has no turn out, whatever the old one had. */
static void terminate_right_behind_continue_as_new(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    w->is_held = true;
    struct world_answer *next = world_complete(w, turn, act_done(w, 1, AS_NEW, NULL), NULL);
    struct world_answer *end = world_terminate(w, "i", "x", false);
    w->is_held = false;
    world_run(w);
    assert_ok(next);
    assert_ok(end);
    assert_ended_without_a_turn(w);
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 86; reports: BL-055 */
static void recursion_takes_the_whole_tree_over_restarts(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "n0", "P", NULL));
    for (int i = 0; i < 6; i++)
        assert_ok(world_complete(w, turn_of(w, st, arena_printf(w->arena, "n%d", i)),
                                 act_child(w, 1, "P", arena_printf(w->arena, "n%d", i + 1)), NULL));
    assert_ok(world_complete(w, turn_of(w, st, "n6"), NULL));
    assert_ok(world_raise(w, "n0", "e", NULL));
    struct world_item *turn = turn_of(w, st, "n0");
    assert_ok(world_terminate(w, "n0", "x", true));
    assert_ok(world_complete(w, turn, act_child(w, 2, "P", "new"), NULL)); /* created beside it */
    for (int i = 0; i < 60; i++) {
        if (i % 10 == 3)
            world_restart(w);
        world_advance(w, 5 * SECOND); /* nobody answers: each level waits its grace */
    }
    for (int i = 0; i < 60; i++)
        world_advance(w, 5 * SECOND);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM object WHERE status <> 5"), 0);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM object"), 8);
    assert_int_equal(
        world_sql(w, "SELECT (SELECT count(*) FROM mailbox) + (SELECT count(*) FROM timer) + "
                     "(SELECT count(*) FROM inbox)"),
        0);
    assert_text(world_get(w, "n6")->output, "x");
    world_free(w);
}

/* In one batch: the first turn comes back unsettled, and the termination then needs no worker; one that got it alone would have
 * no executionStarted. checklist: 152 */
static void terminate_right_behind_a_turn_given_back(void **state)
{
    Google__Protobuf__Int32Value none = GOOGLE__PROTOBUF__INT32_VALUE__INIT;
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct world *w = world_new(NULL);
        struct world_stream *st = world_stream(w, 1, 1);
        assert_ok(world_start(w, "i", "P", NULL));
        struct world_item *turn = world_turn(st);
        OrchestratorResponse *r = world_response(w, turn, NULL);
        r->requireshistory = way % 2 == 0;
        if (way % 2) /* none of its events, no action: as an abandon */
            r->numeventsprocessed = &none;
        w->is_held = true;
        struct world_answer *back = world_answer(w, 1, r), *pause = NULL, *on = NULL;
        if (way >= 2)
            pause = world_suspend(w, "i");
        struct world_answer *end = world_terminate(w, "i", "x", false);
        if (way >= 2)
            on = world_resume(w, "i");
        w->is_held = false;
        world_run(w);
        assert_ok(back);
        assert_ok(end);
        assert_true(way < 2 || (pause->is_done && on->is_done && !pause->status && !on->status));
        world_advance(w, 2 * SECOND);
        assert_null(world_next(st));
        assert_ended_without_a_turn(w);
        world_free(w);
    }
}

/* The process that had the first turn out is gone, and an event arrives before the next one has looked at the instance. */
static void an_event_before_a_lost_first_turn_is_looked_at(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_non_null(world_turn(st));
    assert_ok(world_terminate(w, "i", "x", false));
    assert_state(w, "i", PENDING);
    w->is_held = true;
    world_restart(w);
    struct world_answer *raised = world_raise(w, "i", "e", NULL);
    st = world_stream(w, 1, 1);
    w->is_held = false;
    world_run(w);
    assert_ok(raised);
    assert_null(world_next(st));
    assert_ended_without_a_turn(w);
    world_free(w);
}

/* checklist: 78, 89 */
static void continue_as_new_keeps_the_order_of_events(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_raise(w, "i", "a", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_raise(w, "i", "c", NULL));
    assert_ok(world_suspend(w, "i"));
    assert_ok(world_raise(w, "i", "d", NULL));
    OrchestratorAction *done = act_done(w, 1, AS_NEW, NULL);
    HistoryEvent events[3];
    HistoryEvent *carry[3];
    EventRaisedEvent raised = EVENT_RAISED_EVENT__INIT;
    raised.name = wire_data(BYTES_LIT("b"));
    for (int i = 0; i < 3; i++) {
        history_event__init(&events[i]);
        events[i].event_type_case = HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED;
        events[i].eventraised = &raised;
        carry[i] = &events[i];
    }
    TaskCompletedEvent other = TASK_COMPLETED_EVENT__INIT;
    events[1].event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED; /* dropped */
    events[1].taskcompleted = &other;
    done->completeorchestration->carryoverevents = carry;
    done->completeorchestration->n_carryoverevents = 3;
    assert_ok(world_complete(w, turn, done, NULL));
    assert_state(w, "i", SUSPENDED);
    assert_null(world_next(st));
    assert_ok(world_resume(w, "i"));
    assert_state(w, "i", RUNNING);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted EventRaised(b) EventRaised(b) "
                        "EventRaised(c) Suspended EventRaised(d) Resumed");
    world_free(w);
}

/* Each carried event goes in front of those behind it: far more than are kept in memory, in order, none lost or doubled, and in a
 * time that does not grow with their square (a million would take an hour). */
static void continue_as_new_carries_very_many_events(void **state)
{
    enum { CARRIED = 50000 };
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    struct world_item *turn;
    size_t seen = 0;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    turn = world_turn(st);
    assert_ok(world_raise(w, "i", "behind", NULL));
    OrchestratorAction *done = act_done(w, 1, AS_NEW, NULL);
    HistoryEvent *events = arena_array(w->arena, HistoryEvent, CARRIED);
    EventRaisedEvent *raised = arena_array(w->arena, EventRaisedEvent, CARRIED);
    HistoryEvent **carry = arena_array(w->arena, HistoryEvent *, CARRIED);
    for (size_t i = 0; i < CARRIED; i++) {
        history_event__init(&events[i]);
        event_raised_event__init(&raised[i]);
        raised[i].name = wire_data(bytes_str(arena_printf(w->arena, "%zu", i)));
        events[i].event_type_case = HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED;
        events[i].eventraised = &raised[i];
        carry[i] = &events[i];
    }
    done->completeorchestration->carryoverevents = carry;
    done->completeorchestration->n_carryoverevents = CARRIED;
    assert_ok(world_complete(w, turn, done, NULL));
    w->settings.turn_events = 100000;
    while (seen <= CARRIED) {
        turn = world_turn(st);
        const OrchestratorRequest *r = turn->item->orchestratorrequest;
        for (size_t i = 0; i < r->n_newevents; i++) {
            const HistoryEvent *ev = r->newevents[i];
            if (ev->event_type_case != HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED)
                continue;
            const char *want = seen < CARRIED ? arena_printf(w->arena, "%zu", seen) : "behind";
            assert_true(bytes_eq(wire_view(ev->eventraised->name), bytes_str(want)));
            seen++;
        }
        assert_ok(world_complete(w, turn, NULL));
    }
    assert_null(world_next(st));
    world_free(w);
}

/* A suspension whose event is in the old history already: the new execution begins suspended, however much waits in its inbox,
 * and hears of each change in turn. */
static void continue_as_new_carries_a_suspension_in_history(void **state)
{
    (void)state;
    for (int waiting = 0; waiting <= 100; waiting += 100) {
        struct world *w = world_new(NULL);
        struct world_stream *st = world_stream(w, 1, 1);
        assert_ok(world_start(w, "i", "P", NULL));
        assert_ok(world_complete(w, world_turn(st), NULL));
        w->settings.turn_events = 1;
        assert_ok(world_suspend(w, "i"));
        assert_ok(world_resume(w, "i"));
        struct world_item *turn = world_turn(st);
        assert_string_equal(world_new_events(w, turn), "OrchestratorStarted Suspended");
        w->settings.turn_events = 1000;
        assert_ok(world_suspend(w, "i"));
        for (int i = 0; i < waiting; i++)
            assert_ok(world_raise(w, "i", "e", NULL));
        assert_ok(world_complete(w, turn, act_done(w, 1, AS_NEW, NULL), NULL));
        assert_state(w, "i", SUSPENDED);
        assert_ok(world_resume(w, "i"));
        turn = world_turn(st);
        OrchestratorRequest *r = turn->item->orchestratorrequest;
        bool suspended = false;
        size_t changes = 0;
        for (size_t i = 0; i < r->n_newevents; i++) {
            bool on =
                r->newevents[i]->event_type_case == HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED;
            bool off =
                r->newevents[i]->event_type_case == HISTORY_EVENT__EVENT_TYPE_EXECUTION_RESUMED;
            assert_true(!on || !suspended);
            assert_true(!off || suspended);
            suspended = on || (suspended && !off);
            changes += on || off;
        }
        assert_false(suspended);
        assert_int_equal(changes, 4);
        assert_int_equal(r->n_newevents, 6 + (size_t)waiting);
        world_free(w);
    }
}

/* checklist: 18, 51, 66, 90 */
static void a_replaced_instance_leaves_nothing_behind(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", "old"));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "Out", NULL),
                             act_timer(w, 2, w->wall + SECOND), act_child(w, 3, "C", "kid"), NULL));
    struct world_item *task = NULL, *kid = NULL;
    for (struct world_item *it; (it = world_next(st));)
        *(is_turn(it) ? &kid : &task) = it;
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(world_raise(w, "i", "f", NULL));
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    assert_refused(start_replacing(w, "i", DT_STATUS_BIT(COMPLETED) | DT_STATUS_BIT(FAILED)),
                   ERR_EXISTS);
    assert_ok(start_replacing(w, "i", DT_STATUS_BIT(RUNNING) | DT_STATUS_BIT(TERMINATED)));
    assert_state(w, "i", PENDING);
    assert_text(world_get(w, "i")->input, NULL);
    assert_ok(world_result(w, task, "late"));
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, "late"), NULL));
    assert_ok(world_complete(w, kid, act_done(w, 1, COMPLETED, "late"), NULL));
    world_advance(w, 10 * SECOND);
    struct world_item *fresh = world_turn(st);
    assert_string_equal(world_new_events(w, fresh), "OrchestratorStarted ExecutionStarted");
    assert_false(wait->is_done);
    assert_ok(world_complete(w, fresh, act_done(w, 1, COMPLETED, "new"), NULL));
    assert_ok(wait);
    assert_null(world_next(st));
    assert_text(world_get(w, "i")->output, "new");
    assert_int_equal(
        world_sql(w, "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM timer) + "
                     "(SELECT count(*) FROM inbox) + (SELECT count(*) FROM trash)"),
        0);
    assert_int_equal(world_sql(w, "SELECT sum(n) FROM count"), 2);
    world_free(w);
}

/* checklist: 22, 93 */
static void purge_takes_only_what_is_over(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_purge(w, "i"));
    assert_non_null(world_get(w, "i"));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    struct world_answer *a = world_purge(w, "i");
    assert_ok(a);
    assert_int_equal(world_purged(a), 1);
    assert_null(world_get(w, "i"));
    assert_int_equal(world_purged(world_purge(w, "i")), 0);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_state(w, "i", PENDING);
    assert_int_equal(world_sql(w, "SELECT sum(n) FROM count"), 1);
    world_free(w);
}

/* checklist: 4 */
static void hubs_do_not_see_each_other(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *here = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", "here"));
    w->hub = "there";
    assert_null(world_get(w, "i"));
    assert_ok(world_start(w, "i", "P", "there"));
    struct world_stream *there = world_stream(w, 0, 0);
    struct world_item *turn = world_turn(there);
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    w->hub = NULL;
    assert_ok(world_complete(w, turn, act_done(w, 1, FAILED, NULL), NULL)); /* in the wrong hub */
    assert_ok(world_complete(w, world_turn(here), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_state(w, "i", COMPLETED);
    assert_false(wait->is_done);
    w->hub = "there";
    assert_state(w, "i", PENDING);
    assert_ok(world_complete(w, turn, act_send(w, 1, "i", "e", NULL), NULL));
    assert_state(w, "i", RUNNING);
    w->settings.hub_auto_create = false;
    w->hub = "nowhere";
    assert_refused(world_start(w, "i", "P", NULL), ERR_NOT_FOUND);
    world_free(w);
}

/* checklist: 14, 83 */
static void a_scheduled_start_waits_and_can_be_ended(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    struct dt_start start = {.request = &req, .start_at = w->wall + 2 * SECOND};
    (void)state;
    req.name = wire_data(BYTES_LIT("P"));
    assert_ok(world_do(w, DT_START, "a", &start));
    assert_ok(world_do(w, DT_START, "b", &start));
    assert_ok(world_raise(w, "a", "e", NULL));
    assert_null(world_next(st));
    assert_ok(world_terminate(w, "b", "x", false));
    assert_state(w, "b", TERMINATED);
    world_advance(w, 2 * SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)),
                        "OrchestratorStarted ExecutionStarted EventRaised(e)");
    assert_null(world_next(st));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suspended_before_its_first_turn),
        cmocka_unit_test(terminate_goes_through_a_suspension),
        cmocka_unit_test(terminate_waits_for_the_turn_in_flight),
        cmocka_unit_test(what_a_worker_answers_to_a_termination),
        cmocka_unit_test(a_pending_termination_ends_the_next_execution),
        cmocka_unit_test(terminate_right_behind_continue_as_new),
        cmocka_unit_test(recursion_takes_the_whole_tree_over_restarts),
        cmocka_unit_test(continue_as_new_keeps_the_order_of_events),
        cmocka_unit_test(terminate_right_behind_a_turn_given_back),
        cmocka_unit_test(an_event_before_a_lost_first_turn_is_looked_at),
        cmocka_unit_test(continue_as_new_carries_very_many_events),
        cmocka_unit_test(continue_as_new_carries_a_suspension_in_history),
        cmocka_unit_test(a_replaced_instance_leaves_nothing_behind),
        cmocka_unit_test(purge_takes_only_what_is_over),
        cmocka_unit_test(hubs_do_not_see_each_other),
        cmocka_unit_test(a_scheduled_start_waits_and_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
