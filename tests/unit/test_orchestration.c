/* test_orchestration.c - the orchestration kind on the engine, without a socket: turns, timers, children, control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/world.h"
#include "wire/value.h"

#define COMPLETED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED
#define FAILED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED
#define AS_NEW ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW
#define TERMINATED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED
#define RUNNING ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING
#define PENDING ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING
#define SUSPENDED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_SUSPENDED

static void assert_ok(const struct world_answer *a)
{
    if (a->status)
        print_error("%s\n", a->msg);
    assert_true(a->is_done);
    assert_int_equal(a->status, OK);
}

static void assert_text(const Google__Protobuf__StringValue *v, const char *expected)
{
    if (!expected) {
        assert_null(v);
        return;
    }
    assert_non_null(v);
    assert_int_equal(v->value.len, strlen(expected));
    assert_memory_equal(v->value.data, expected, strlen(expected));
}

/* checklist: 12, 24, 31, 35 */
static void hello_runs_to_its_end(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "a", "Hello", "\"in\""));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, PENDING);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionStarted");
    assert_string_equal(world_past_events(w, turn), "");
    assert_ok(world_complete(w, turn, act_task(w, 1, "Say", "\"x\""), NULL));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, RUNNING);
    struct world_item *task = world_task(st);
    assert_text(task->item->activityrequest->input, "\"x\"");
    assert_ok(world_result(w, task, "\"done\""));
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted TaskCompleted(1)");
    assert_string_equal(world_past_events(w, turn),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#1");
    assert_ok(world_complete(w, turn, act_done(w, 2, COMPLETED, "\"out\""), NULL));
    OrchestrationState *s = world_get(w, "a");
    assert_int_equal(s->orchestrationstatus, COMPLETED);
    assert_text(s->input, "\"in\"");
    assert_text(s->output, "\"out\"");
    assert_null(s->failuredetails);
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 34 */
static void the_twelve_events(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "a", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), NULL));
    assert_ok(world_result(w, world_task(st), "1"));
    assert_ok(world_complete(w, world_turn(st), act_timer(w, 2, w->wall + USEC_PER_SEC), NULL));
    assert_null(world_next(st));
    world_advance(w, USEC_PER_SEC - 1);
    assert_null(world_next(st));
    world_advance(w, 1);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted TimerFired(2)");
    assert_ok(world_complete(w, turn, act_child(w, 3, "C", "kid"), NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, "7"), NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 4, COMPLETED, "8"), NULL));
    assert_string_equal(
        world_history(w, "a"),
        "OrchestratorStarted ExecutionStarted TaskScheduled#1 OrchestratorStarted TaskCompleted(1) "
        "TimerCreated#2 OrchestratorStarted TimerFired(2) ChildCreated#3 OrchestratorStarted "
        "ChildCompleted(3) ExecutionCompleted");
    world_free(w);
}

/* checklist: 51, 66, 78, 85, 89, 90 */
static void continue_as_new_carries_what_it_should(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "a", "P", "1"));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL),
                             act_timer(w, 2, w->wall + 100), NULL));
    struct world_item *task = world_task(st);
    assert_ok(world_raise(w, "a", "go", "1"));
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(go)");
    assert_ok(world_raise(w, "a", "later", "2"));
    assert_ok(world_result(w, task, "late")); /* waits in the inbox, for the old execution */
    world_advance(w, 200);                    /* so does the timer */
    assert_ok(world_complete(w, turn, act_done(w, 3, AS_NEW, "2"), NULL));
    turn = world_turn(st);
    assert_string_equal(world_past_events(w, turn), "");
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(later)");
    assert_int_equal(world_get(w, "a")->orchestrationstatus, RUNNING);
    assert_text(world_get(w, "a")->input, "2");
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, COMPLETED);
    assert_text(world_get(w, "a")->output, NULL);
    world_free(w);
}

/* checklist: 79, 80, 81 */
static void suspend_holds_and_resume_delivers(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    SuspendRequest sus = SUSPEND_REQUEST__INIT;
    ResumeRequest res = RESUME_REQUEST__INIT;
    (void)state;
    assert_ok(world_start(w, "a", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), NULL));
    assert_ok(world_do(w, DT_SUSPEND, "a", &sus));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, SUSPENDED);
    assert_ok(world_result(w, world_task(st), "1"));
    assert_ok(world_raise(w, "a", "e", NULL));
    assert_null(world_next(st));
    assert_ok(world_do(w, DT_RESUME, "a", &res));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, RUNNING);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted Suspended TaskCompleted(1) EventRaised(e) Resumed");
    assert_ok(world_complete(w, turn, act_done(w, 2, COMPLETED, NULL), NULL));
    assert_ok(world_do(w, DT_SUSPEND, "a", &sus));
    assert_int_equal(world_get(w, "a")->orchestrationstatus, COMPLETED);
    assert_int_equal(world_do(w, DT_SUSPEND, "nobody", &sus)->status, ERR_NOT_FOUND);
    world_free(w);
}

/* checklist: 83, 84, 86, 152 */
static void terminate_in_its_forms(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    assert_ok(world_start(w, "never", "P", NULL));
    assert_ok(world_terminate(w, "never", "\"bye\"", false));
    assert_int_equal(world_get(w, "never")->orchestrationstatus, TERMINATED);
    assert_text(world_get(w, "never")->output, "\"bye\"");
    assert_string_equal(
        world_history(w, "never"),
        "OrchestratorStarted ExecutionStarted ExecutionTerminated ExecutionCompleted");

    struct world_stream *st = world_stream(w, 10, 10);
    assert_ok(world_start(w, "p", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_child(w, 1, "C", "kid"), NULL));
    assert_ok(world_complete(w, world_turn(st), act_child(w, 1, "C", "grandkid"), NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_ok(world_terminate(w, "p", "\"x\"", true));
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionTerminated");
    assert_ok(world_complete(w, turn, act_done(w, 2, TERMINATED, "\"x\""), NULL));
    assert_int_equal(world_get(w, "p")->orchestrationstatus, TERMINATED);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionTerminated");
    assert_ok(world_complete(w, turn, NULL));
    assert_int_equal(world_get(w, "kid")->orchestrationstatus, TERMINATED);
    world_close(st);
    world_advance(w, 31 * USEC_PER_SEC); /* nobody answers for the grandkid */
    assert_int_equal(world_get(w, "grandkid")->orchestrationstatus, TERMINATED);
    assert_text(world_get(w, "grandkid")->output, "\"x\"");

    st = world_stream(w, 10, 10);
    assert_ok(world_start(w, "lost", "P", NULL));
    world_turn(st);
    assert_ok(world_terminate(w, "lost", NULL, false));
    assert_int_equal(world_get(w, "lost")->orchestrationstatus, PENDING);
    world_close(st);
    assert_int_equal(world_get(w, "lost")->orchestrationstatus, TERMINATED);
    world_free(w);
}

/* checklist: 126, 130, 131, 132 */
static void items_come_again(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(a);
    world_close(a);
    struct world_stream *b = world_stream(w, 10, 10);
    struct world_item *second = world_turn(b);
    assert_ok(world_complete(w, first, act_task(w, 1, "Wrong", NULL), NULL)); /* stale */
    assert_int_equal(world_get(w, "i")->orchestrationstatus, PENDING);
    world_abandon(w, second);
    assert_null(world_next(b));
    world_advance(w, USEC_PER_SEC);
    struct world_item *third = world_turn(b);
    assert_ok(world_complete(w, third, act_task(w, 1, "T", NULL), NULL));
    struct world_item *task = world_task(b);
    world_close(b);
    assert_ok(
        world_result(w, task, "1")); /* an activity's token is good until another answer came */
    struct world_stream *c = world_stream(w, 10, 10);
    assert_string_equal(world_new_events(w, world_turn(c)), "OrchestratorStarted TaskCompleted(1)");
    world_free(w);
}

/* checklist: 44 */
static void invalid_actions_fail_the_instance_alone(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "T", NULL), act_task(w, 2, "", NULL),
                             NULL));
    OrchestrationState *s = world_get(w, "i");
    assert_int_equal(s->orchestrationstatus, FAILED);
    assert_true(
        bytes_eq(wire_view(s->failuredetails->errortype), BYTES_LIT("InvalidOrchestratorAction")));
    assert_null(world_next(st)); /* T was not scheduled */
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted ExecutionCompleted");
    world_free(w);
}

/* checklist: 26, 28, 30 */
static void waits_are_bound_to_the_id(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    struct world_answer *start = world_wait(w, "i", DT_WAIT_START, 1);
    struct world_answer *done = world_wait(w, "i", DT_WAIT_COMPLETION, 2);
    struct world_answer *late = world_wait(w, "i", DT_WAIT_COMPLETION, 3);
    struct world_answer *unknown = world_wait(w, "nobody", DT_WAIT_COMPLETION, 4);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_false(start->is_done);
    struct world_item *turn = world_turn(st);
    engine_wait_expire(w->e, 3);
    assert_int_equal(late->status, ERR_DEADLINE);
    assert_string_equal(late->msg, "Timed out waiting for instance 'i' to complete");
    engine_wait_expire(w->e, 4);
    assert_ok(unknown);
    assert_int_equal(unknown->reply.len, 0);
    assert_ok(world_complete(w, turn, act_done(w, 1, AS_NEW, NULL), NULL));
    assert_ok(start);
    assert_false(done->is_done);
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_ok(done);
    world_free(w);
}

/* checklist: 15, 18 */
static void a_terminal_instance_is_replaced(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 10, 10);
    (void)state;
    assert_ok(world_start(w, "i", "P", "1"));
    struct world_answer *again = world_start(w, "i", "P", "2");
    assert_int_equal(again->status, ERR_EXISTS);
    assert_string_equal(again->msg, "Orchestration instance 'i' already exists");
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, "9"), NULL));
    assert_ok(world_start(w, "i", "P", "2"));
    assert_int_equal(world_get(w, "i")->orchestrationstatus, PENDING);
    assert_text(world_get(w, "i")->input, "2");
    assert_text(world_get(w, "i")->output, NULL);
    world_free(w);
}

/* checklist: 139, 157 */
static void token_less_answers_do_not_cross(void **state)
{
    struct world *w = world_new(NULL);
    struct work_stream_options go = {.token_less = true, .connection = 7};
    struct world_stream *a = world_stream_with(w, &go);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *first = world_turn(a);
    const char *events = world_new_events(w, first);
    world_close(a); /* it may still answer on its next connection */
    go.connection = 8;
    struct world_stream *b = world_stream_with(w, &go);
    assert_null(world_next(b)); /* not before a second has passed */
    world_advance(w, USEC_PER_SEC + 1);
    struct world_item *second = world_turn(b);
    assert_string_equal(world_new_events(w, second), events);
    HistoryEvent *x = first->item->orchestratorrequest->newevents[0],
                 *y = second->item->orchestratorrequest->newevents[0];
    assert_int_equal(x->timestamp->seconds, y->timestamp->seconds);
    assert_int_equal(x->timestamp->nanos, y->timestamp->nanos);
    assert_ok(world_complete_on(w, 8, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, 1);
    assert_null(
        world_next(b)); /* the first dispatch may still be answered: its second is not over */
    assert_ok(world_complete_on(w, 9, "i", NULL, act_done(w, 1, COMPLETED, "\"old\""), NULL));
    assert_int_equal(world_get(w, "i")->orchestrationstatus,
                     RUNNING); /* that was the first one's answer */
    world_advance(w, USEC_PER_SEC + 1);
    assert_string_equal(world_new_events(w, world_turn(b)), "OrchestratorStarted TimerFired(0)");
    assert_ok(world_complete_on(w, 8, "i", NULL, act_done(w, 1, COMPLETED, "\"new\""), NULL));
    assert_text(world_get(w, "i")->output, "\"new\"");
    world_free(w);
}

/* checklist: 157 */
static void token_less_turns_come_again_on_their_own_connection(void **state)
{
    struct world *w = world_new(NULL);
    struct work_stream_options go = {.token_less = true, .connection = 7};
    struct world_stream *a = world_stream_with(w, &go);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    world_turn(a);
    world_close(a);
    struct world_stream *b = world_stream_with(w, &go); /* the same connection, another stream */
    assert_null(world_next(b));
    world_advance(w, USEC_PER_SEC + 1);
    world_turn(b);
    assert_ok(world_complete_on(w, 7, "i", NULL, act_timer(w, 0, w->wall), NULL));
    world_advance(w, USEC_PER_SEC + 1);
    assert_string_equal(world_new_events(w, world_turn(b)), "OrchestratorStarted TimerFired(0)");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_runs_to_its_end),
        cmocka_unit_test(the_twelve_events),
        cmocka_unit_test(continue_as_new_carries_what_it_should),
        cmocka_unit_test(suspend_holds_and_resume_delivers),
        cmocka_unit_test(terminate_in_its_forms),
        cmocka_unit_test(items_come_again),
        cmocka_unit_test(invalid_actions_fail_the_instance_alone),
        cmocka_unit_test(waits_are_bound_to_the_id),
        cmocka_unit_test(a_terminal_instance_is_replaced),
        cmocka_unit_test(token_less_answers_do_not_cross),
        cmocka_unit_test(token_less_turns_come_again_on_their_own_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
