/* The orchestrations of the benchmark, played against a server of a few lines: bench/workload.h, bench/replay.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

#include <cmocka.h>

#include "bench/workload.h"
#include "wire/wire.h"

#define EVENTS_MAX 400
#define SEED "0123abcd"

/* ---- a history --------------------------------------------------------------------------------- */

struct play {
    struct arena *arena;
    HistoryEvent *events[EVENTS_MAX];
    size_t count, past; /* the first `past` were in an earlier turn */
    unsigned turns, executions;
    OrchestratorResponse resp;
};

static struct bytes text(struct play *p, uint64_t number)
{
    struct value v = {BYTES_LIT(SEED), number, value_pad(p->arena, BYTES_LIT(SEED), 30)};
    return value_text(p->arena, &v);
}

static HistoryEvent *add(struct play *p, int32_t id, HistoryEvent__EventTypeCase type)
{
    HistoryEvent *e = arena_new(p->arena, HistoryEvent);

    assert_true(p->count < EVENTS_MAX);
    history_event__init(e);
    e->eventid = id;
    e->event_type_case = type;
    e->timestamp = arena_new(p->arena, Google__Protobuf__Timestamp);
    *e->timestamp = wire_time(1000000 * USEC_PER_SEC);
    p->events[p->count++] = e;
    return e;
}

static void add_start(struct play *p, const char *name, struct bytes input)
{
    HistoryEvent *turn = add(p, -1, HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED);
    turn->orchestratorstarted = arena_new(p->arena, OrchestratorStartedEvent);
    orchestrator_started_event__init(turn->orchestratorstarted);
    HistoryEvent *e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED);
    e->executionstarted = arena_new(p->arena, ExecutionStartedEvent);
    execution_started_event__init(e->executionstarted);
    e->executionstarted->name = wire_data(bytes_str(name));
    e->executionstarted->input = wire_string_value(p->arena, input);
    p->executions++;
}

static void add_asked(struct play *p, int32_t id)
{
    HistoryEvent *e = add(p, id, HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED);
    e->taskscheduled = arena_new(p->arena, TaskScheduledEvent);
    task_scheduled_event__init(e->taskscheduled);
}

static void add_result(struct play *p, int32_t id, struct bytes result)
{
    HistoryEvent *e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED);
    e->taskcompleted = arena_new(p->arena, TaskCompletedEvent);
    task_completed_event__init(e->taskcompleted);
    e->taskcompleted->taskscheduledid = id;
    e->taskcompleted->result = wire_string_value(p->arena, result);
}

static void add_failure(struct play *p, int32_t id, const char *why)
{
    HistoryEvent *e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_TASK_FAILED);
    e->taskfailed = arena_new(p->arena, TaskFailedEvent);
    task_failed_event__init(e->taskfailed);
    e->taskfailed->taskscheduledid = id;
    e->taskfailed->failuredetails = arena_new(p->arena, TaskFailureDetails);
    task_failure_details__init(e->taskfailed->failuredetails);
    e->taskfailed->failuredetails->errormessage = wire_data(bytes_str(why));
}

static void add_timer(struct play *p, int32_t id)
{
    HistoryEvent *e = add(p, id, HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED);
    e->timercreated = arena_new(p->arena, TimerCreatedEvent);
    timer_created_event__init(e->timercreated);
    e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED);
    e->timerfired = arena_new(p->arena, TimerFiredEvent);
    timer_fired_event__init(e->timerfired);
    e->timerfired->timerid = id;
}

static void add_event(struct play *p, const char *name, struct bytes data)
{
    HistoryEvent *e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED);
    e->eventraised = arena_new(p->arena, EventRaisedEvent);
    event_raised_event__init(e->eventraised);
    e->eventraised->name = wire_data(bytes_str(name));
    e->eventraised->input = wire_string_value(p->arena, data);
}

static enum err decide(struct play *p, struct error *err)
{
    OrchestratorRequest req = ORCHESTRATOR_REQUEST__INIT;

    *err = (struct error){0};
    req.instanceid = wire_data(BYTES_LIT("i"));
    req.pastevents = p->events;
    req.n_pastevents = p->past;
    req.newevents = p->events + p->past;
    req.n_newevents = p->count - p->past;
    p->turns++;
    return workload_decide(&req, p->arena, &p->resp, err);
}

/* ---- the server ---------------------------------------------------------------------------------- */

static struct bytes run_to_end(struct arena *a, const char *name, struct bytes input,
                               struct play *p);

static void run_activity(struct play *p, const OrchestratorAction *action)
{
    ActivityRequest req = ACTIVITY_REQUEST__INIT;
    struct bytes result;
    struct error err = {0};

    req.name = action->scheduletask->name;
    req.input = action->scheduletask->input;
    assert_int_equal(workload_activity(&req, p->arena, &result, &err), OK);
    add_asked(p, action->id);
    add_result(p, action->id, result);
}

static void run_child(struct play *p, const OrchestratorAction *action)
{
    const CreateSubOrchestrationAction *c = action->createsuborchestration;
    struct play child;
    const char *name = arena_cstr(p->arena, wire_view(c->name));
    assert_true(bytes_eq(wire_view(c->instanceid), BYTES_LIT("i:0001")));
    struct bytes result = run_to_end(p->arena, name, wire_string(c->input), &child);
    HistoryEvent *e =
        add(p, action->id, HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED);
    e->suborchestrationinstancecreated = arena_new(p->arena, SubOrchestrationInstanceCreatedEvent);
    sub_orchestration_instance_created_event__init(e->suborchestrationinstancecreated);
    e = add(p, -1, HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED);
    e->suborchestrationinstancecompleted =
        arena_new(p->arena, SubOrchestrationInstanceCompletedEvent);
    sub_orchestration_instance_completed_event__init(e->suborchestrationinstancecompleted);
    e->suborchestrationinstancecompleted->taskscheduledid = action->id;
    e->suborchestrationinstancecompleted->result = wire_string_value(p->arena, result);
}

/* Applies the actions of the turn; the output if it was the last. */
static struct bytes apply(struct play *p, const char *name)
{
    OrchestratorResponse r = p->resp;

    p->past = p->count;
    for (size_t i = 0; i < r.n_actions; i++) {
        const OrchestratorAction *a = r.actions[i];
        const CompleteOrchestrationAction *end = a->completeorchestration;
        switch ((int)a->orchestrator_action_type_case) {
        case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK:
            run_activity(p, a);
            break;
        case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION:
            run_child(p, a);
            break;
        case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER: {
            usec_t at;
            assert_true(wire_time_read(a->createtimer->fireat, &at));
            assert_int_equal(at, 1000000 * USEC_PER_SEC + 10000);
            add_timer(p, a->id);
            break;
        }
        default:
            assert_int_equal(r.n_actions, 1);
            if (end->orchestrationstatus == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED)
                return wire_string(end->result);
            assert_int_equal(end->orchestrationstatus,
                             ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW);
            p->count = p->past = 0;
            add_start(p, name, wire_string(end->result));
        }
    }
    if (r.n_actions == 0)
        add_event(p, "GO", text(p, 1)); /* names of events have no case */
    return BYTES_NONE;
}

static struct bytes run_to_end(struct arena *a, const char *name, struct bytes input,
                               struct play *p)
{
    struct error err;

    *p = (struct play){.arena = a};
    add_start(p, name, input);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(decide(p, &err), OK);
        struct bytes output = apply(p, name);
        if (!bytes_is_none(output))
            return output;
    }
    fail_msg("%s does not end", name);
    return BYTES_NONE;
}

/* ---- tests --------------------------------------------------------------------------------------- */

static void values(void **state)
{
    struct arena *a = arena_create();
    struct value v = {BYTES_LIT(SEED), 42, value_pad(a, BYTES_LIT(SEED), 5)}, w;
    static const char *const BAD[] = {
        "",
        "\"\"",
        "\"0123abcd\"",
        "\"0123abcd.\"",
        "\"0123abcd.1\"",
        "\"0123abcd.x.pad\"",
        "\"0123abcd..pad\"",
        "0123abcd.1.pad",
        "\"0123abcd1.1.pad\"",
    };
    (void)state;
    assert_true(value_read(value_text(a, &v), &w));
    assert_true(bytes_eq(w.seed, v.seed) && w.number == 42 && bytes_eq(w.pad, v.pad));
    v.pad = BYTES_LIT("");
    assert_true(bytes_eq(value_text(a, &v), BYTES_LIT("\"0123abcd.42.\"")));
    assert_true(value_read(value_text(a, &v), &w) && w.pad.len == 0);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        assert_false(value_read(bytes_str(BAD[i]), &w));
    assert_false(
        bytes_eq(value_pad(a, BYTES_LIT("0123abcd"), 8), value_pad(a, BYTES_LIT("0123abce"), 8)));
    arena_free(a);
}

/* Each to its end: the output that the client expects, after as many turns as it should take. */
static void workloads_end_as_expected(void **state)
{
    static const struct {
        const char *name;
        unsigned turns, executions;
    } EXPECTED[] = {
        {"hello1", 2, 1},   {"chain5", 6, 1}, {"chain50", 51, 1}, {"fanout100", 2, 1},
        {"timer", 2, 1},    {"event", 2, 1},  {"suborch", 2, 1},  {"continue-as-new", 10, 5},
        {"wait-only", 2, 1}};
    (void)state;
    assert_int_equal(ARRAY_LEN(EXPECTED), WORKLOAD_COUNT);
    for (size_t i = 0; i < WORKLOAD_COUNT; i++) {
        struct arena *a = arena_create();
        struct play p = {.arena = a};
        const struct workload *w = workload_find(EXPECTED[i].name);
        assert_non_null(w);
        uint64_t number = w->takes_delay ? 10000 : 0;
        struct bytes input = text(&p, number);
        struct bytes output = run_to_end(a, workload_orchestration(w), input, &p);
        assert_true(bytes_eq(output, text(&p, w->takes_delay ? number : w->result)));
        assert_int_equal(p.turns, EXPECTED[i].turns);
        assert_int_equal(p.executions, EXPECTED[i].executions);
        arena_free(a);
    }
    assert_null(workload_find("hello"));
}

/* A turn that brings only a part of the results has nothing to do; all actions are in the history once. */
static void results_may_come_one_by_one(void **state)
{
    struct arena *a = arena_create();
    struct play p = {.arena = a};
    struct error err;
    (void)state;
    add_start(&p, "fanout100", text(&p, 0));
    assert_int_equal(decide(&p, &err), OK);
    assert_int_equal(p.resp.n_actions, 100);
    for (size_t i = 0; i < 100; i++)
        add_asked(&p, p.resp.actions[i]->id);
    for (size_t i = 100; i-- > 0;) { /* the other way round */
        p.past = p.count;
        add_result(&p, (int32_t)i + 1, text(&p, i + 1));
        assert_int_equal(decide(&p, &err), OK);
        assert_int_equal(p.resp.n_actions, i == 0);
    }
    assert_true(
        bytes_eq(wire_string(p.resp.actions[0]->completeorchestration->result), text(&p, 5050)));
    arena_free(a);
}

/* A lost turn comes again with the same history: the same actions under the same ids. */
static void a_repeated_turn_decides_alike(void **state)
{
    struct arena *a = arena_create();
    struct play p = {.arena = a};
    struct error err;
    (void)state;
    add_start(&p, "chain5", text(&p, 0));
    add_asked(&p, 1);
    add_result(&p, 1, text(&p, 1));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(decide(&p, &err), OK);
        assert_int_equal(p.resp.n_actions, 1);
        assert_int_equal(p.resp.actions[0]->id, 2);
        assert_true(bytes_eq(wire_string(p.resp.actions[0]->scheduletask->input), text(&p, 1)));
    }
    arena_free(a);
}

static void a_failed_activity_fails_the_instance(void **state)
{
    struct arena *a = arena_create();
    struct play p = {.arena = a};
    struct error err;
    (void)state;
    add_start(&p, "hello1", text(&p, 0));
    add_asked(&p, 1);
    add_failure(&p, 1, "broken");
    assert_int_equal(decide(&p, &err), OK);
    const CompleteOrchestrationAction *end = p.resp.actions[0]->completeorchestration;
    assert_int_equal(end->orchestrationstatus, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED);
    assert_true(bytes_eq(wire_view(end->failuredetails->errormessage), BYTES_LIT("broken")));
    arena_free(a);
}

/* ---- what no server may send --------------------------------------------------------------------- */

static void a_second_result(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_asked(p, 1);
    add_result(p, 1, text(p, 1));
    add_result(p, 1, text(p, 1));
}

static void a_result_of_nothing(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_result(p, 1, text(p, 1));
}

static void an_impossible_id(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_asked(p, 1);
    add_result(p, 1 << 30, text(p, 1));
}

static void an_action_twice(struct play *p)
{
    add_start(p, "chain5", text(p, 0));
    add_asked(p, 1);
    add_asked(p, 1);
}

static void a_foreign_result(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_asked(p, 1);
    add_result(p, 1, BYTES_LIT("\"ffffffff.1.\""));
}

static void a_cut_payload(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_asked(p, 1);
    add_result(p, 1, BYTES_LIT("\"" SEED ".1.abc\""));
}

static void a_result_that_is_no_value(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_asked(p, 1);
    add_result(p, 1, BYTES_NONE);
}

static void two_beginnings(struct play *p)
{
    add_start(p, "hello1", text(p, 0));
    add_start(p, "hello1", text(p, 0));
}

static void no_beginning(struct play *p)
{
    add_asked(p, 1);
}

static void another_event(struct play *p)
{
    add_start(p, "event", text(p, 0));
    add_event(p, "stop", text(p, 1));
}

static void an_input_that_is_no_value(struct play *p)
{
    add_start(p, "hello1", BYTES_LIT("\"hello\""));
}

static void impossible_histories_are_refused(void **state)
{
    static const struct {
        void (*make)(struct play *p);
        const char *why;
    } CASES[] = {
        {a_second_result, "a result of action 1, which is not open"},
        {a_result_of_nothing, "a result of action 1, which is not open"},
        {an_impossible_id, "a result of action 1073741824, which is not open"},
        {an_action_twice, "action 1 is in the history twice, or not ours"},
        {a_foreign_result, "the result of action 1 is another instance's, or damaged"},
        {a_cut_payload, "the result of action 1 is another instance's, or damaged"},
        {a_result_that_is_no_value, "the result of action 1 is no value"},
        {two_beginnings, "a history that begins twice"},
        {no_beginning, "a history without a beginning"},
        {another_event, "an event that nobody raised"},
        {an_input_that_is_no_value, "the input of the history is no value"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct play p = {.arena = arena_create()};
        struct error err;
        CASES[i].make(&p);
        assert_int_equal(decide(&p, &err), ERR_CORRUPT);
        assert_string_equal(err.msg, CASES[i].why);
        arena_free(p.arena);
    }
}

static void others_work_is_refused(void **state)
{
    struct play p = {.arena = arena_create()};
    ActivityRequest req = ACTIVITY_REQUEST__INIT;
    Google__Protobuf__StringValue box;
    struct bytes result;
    struct error err = {0};
    (void)state;
    add_start(&p, "order", text(&p, 0));
    assert_int_equal(decide(&p, &err), ERR_UNIMPLEMENTED);
    req.name = wire_data(BYTES_LIT("charge"));
    assert_int_equal(workload_activity(&req, p.arena, &result, &err), ERR_UNIMPLEMENTED);
    req.name = wire_data(BYTES_LIT(WORKLOAD_ACTIVITY));
    req.input = wire_box(&box, BYTES_LIT("\"x\""));
    assert_int_equal(workload_activity(&req, p.arena, &result, &err), ERR_CORRUPT);
    arena_free(p.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(workloads_end_as_expected),
        cmocka_unit_test(results_may_come_one_by_one),
        cmocka_unit_test(a_repeated_turn_decides_alike),
        cmocka_unit_test(a_failed_activity_fails_the_instance),
        cmocka_unit_test(impossible_histories_are_refused),
        cmocka_unit_test(others_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
