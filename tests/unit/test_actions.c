/* test_actions.c - what a turn's actions do: repeats, invalid ones, completions (spec 5). */
#include <stdio.h>

#include "durabletask/events.h"
#include "lib/world.h"

#include "lib/world_check.h"

static OrchestratorAction *act_terminate(struct world *w, int32_t id, const char *target)
{
    OrchestratorAction *a = act_done(w, id, COMPLETED, NULL);
    a->orchestrator_action_type_case =
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION;
    a->terminateorchestration = arena_new(w->arena, TerminateOrchestrationAction);
    terminate_orchestration_action__init(a->terminateorchestration);
    a->terminateorchestration->instanceid = wire_data(bytes_str(target));
    a->terminateorchestration->reason = wire_string_value(w->arena, BYTES_LIT("\"enough\""));
    return a;
}

/* One instance `i` with its first turn out. */
static struct world_item *first_turn(struct world *w, struct world_stream **st)
{
    *st = world_stream(w, 0, 0);
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn;
    do
        turn = world_turn(*st);
    while (strcmp(turn_id(w, turn), "i") != 0);
    return turn;
}

static struct world_item *next_turn(struct world_stream *st)
{
    for (struct world_item *it; (it = world_next(st));)
        if (is_turn(it))
            return it;
    return NULL;
}

/* Answers the activities there are; how many. */
static int tasks_of(struct world_stream *st)
{
    int n = 0;
    for (struct world_item *it; (it = world_next(st));) {
        if (is_turn(it))
            continue;
        assert_ok(world_result(st->w, it, NULL));
        n++;
    }
    return n;
}

/* checklist: 43, 144; reports: BL-030 */
static void a_repeat_of_what_is_open_is_dropped(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    usec_t later = w->wall + 3600 * SECOND;
    (void)state;
    assert_ok(world_complete(w, turn, act_task(w, 0, "T", NULL), act_task(w, 0, "T", NULL),
                             act_timer(w, 0, later), act_timer(w, 0, later),
                             act_child(w, 0, "C", "kid"), act_child(w, 0, "C", "kid"), NULL));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted TaskScheduled#0 TimerCreated#0 "
                        "ChildCreated#0");
    assert_ok(world_raise(w, "i", "e", NULL));
    struct world_item *task = NULL, *kid = NULL;
    turn = NULL;
    for (struct world_item *it; (it = world_next(st));) {
        if (!is_turn(it)) {
            assert_null(task);
            task = it;
        } else if (strcmp(turn_id(w, it), "i") == 0) {
            turn = it;
        } else {
            assert_null(kid);
            kid = it;
        }
    }
    assert_ok(world_complete(w, turn, act_task(w, 0, "T", NULL), act_timer(w, 0, later),
                             act_child(w, 0, "C", "kid"), NULL));
    assert_null(world_next(st));
    w->is_held = true;
    struct world_answer *failed = world_failure(w, task, "E", "failed");
    struct world_answer *ended = world_complete(w, kid, act_done(w, 1, FAILED, NULL), NULL);
    w->is_held = false;
    world_run(w);
    assert_ok(failed);
    assert_ok(ended);
    turn = next_turn(st);
    assert_non_null(turn);
    /* Resolved: a new attempt under the same id. */
    assert_ok(world_complete(w, turn, act_task(w, 0, "T", NULL), act_child(w, 0, "C", "kid"),
                             act_timer(w, 0, later), NULL));
    const char *h = world_history(w, "i");
    assert_non_null(strstr(h, "TaskFailed(0)"));
    assert_string_equal(h + strlen(h) - strlen("TaskScheduled#0 ChildCreated#0"),
                        "TaskScheduled#0 ChildCreated#0");
    assert_int_equal(tasks_of(st), 1);
    world_free(w);
}

/* checklist: 150 */
static void an_event_sent_again_every_turn_arrives_once(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    (void)state;
    assert_ok(world_start(w, "to", "Q", NULL));
    for (int i = 0; i < 3; i++) {
        assert_ok(world_complete(w, turn, act_send(w, 0, "to", "Ping", "1"), NULL));
        assert_ok(world_raise(w, "i", "e", NULL));
        while ((turn = next_turn(st)) && strcmp(turn_id(w, turn), "i") != 0)
            assert_ok(world_complete(w, turn, NULL));
    }
    assert_string_equal(
        world_history(w, "to"),
        "OrchestratorStarted ExecutionStarted OrchestratorStarted EventRaised(Ping)");
    const char *h = world_history(w, "i"), *sent = strstr(h, "EventSent#0");
    assert_non_null(sent);
    assert_null(strstr(sent + 1, "EventSent"));
    world_free(w);
}

/* checklist: 76 */
static void events_to_nobody_are_recorded_and_dropped(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    (void)state;
    assert_ok(world_complete(w, turn, act_send(w, 1, "missing", "A", NULL),
                             act_send(w, 2, "@counter@x", "B", NULL),
                             act_terminate(w, 3, "missing"), NULL));
    assert_string_equal(world_history(w, "i"),
                        "OrchestratorStarted ExecutionStarted EventSent#1 EventSent#2");
    world_free(w);
}

/* checklist: 77, 78 */
static void events_to_itself_come_after_the_turn(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    (void)state;
    assert_ok(world_complete(w, turn, act_send(w, 1, "i", "self", NULL), NULL));
    turn = next_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted EventRaised(self)");
    assert_ok(world_complete(w, turn, act_send(w, 2, "i", "next", NULL),
                             act_done(w, 3, AS_NEW, NULL), NULL));
    turn = next_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ExecutionStarted EventRaised(next)");
    assert_ok(world_complete(w, turn, act_send(w, 1, "i", "last", NULL),
                             act_done(w, 2, COMPLETED, NULL), NULL));
    assert_null(world_next(st));
    assert_state(w, "i", COMPLETED);
    world_free(w);
}

/* Terminates by an action: another, itself, and one that never ran (whose end the sender is told in the same turn). */
static void termination_by_an_action(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    assert_ok(
        world_complete(w, turn, act_child(w, 1, "C", "kid"), act_terminate(w, 2, "kid"), NULL));
    assert_state(w, "kid", TERMINATED);
    assert_text(world_get(w, "kid")->output, "\"enough\"");
    turn = next_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ChildFailed(1)");
    assert_ok(world_complete(w, turn, act_terminate(w, 3, "i"), NULL));
    assert_state(w, "i", RUNNING);
    turn = next_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionTerminated");
    assert_ok(world_complete(w, turn, NULL));
    assert_state(w, "i", TERMINATED);
    assert_text(world_get(w, "i")->output, "\"enough\"");
    world_free(w);
}

enum bad {
    BAD_EMPTY,
    BAD_UNKNOWN_STATUS,
    BAD_RUNNING_STATUS,
    BAD_TASK_NAME,
    BAD_CHILD_NAME,
    BAD_CHILD_ID,
    BAD_CHILD_ID_LONG,
    BAD_CHILD_TAGS,
    BAD_NEXT_TAGS,
    BAD_CHILD_TAG_KEY,
    BAD_NEXT_TAG_KEY,
    BAD_EVENT_NAME,
    BAD_EVENT_TARGET,
    BAD_NO_FIRE_AT,
    BAD_FIRE_AT_NANOS,
    BAD_FIRE_AT_YEAR,
    BAD_TERMINATE_TARGET,
    BAD_ENTITY,
    BAD_REWIND,
    BADS
};

static const char *text_of(struct world *w, char c, size_t len)
{
    char *text = arena_alloc(w->arena, len + 1);
    memset(text, c, len);
    text[len] = 0;
    return text;
}

/* "k0", "k1", ... */
static void put_tags(struct world *w, struct event_tags *tags, int from, int to, const char *value)
{
    for (int i = from; i < to; i++)
        event_tags_add(w->arena, tags, bytes_str(arena_printf(w->arena, "k%d", i)),
                       bytes_str(value));
}

static OrchestratorAction *act_next(struct world *w, int32_t id, struct event_tags tags)
{
    OrchestratorAction *a = act_done(w, id, AS_NEW, NULL);
    a->completeorchestration->n_tags = tags.count;
    a->completeorchestration->tags =
        (CompleteOrchestrationAction__TagsEntry **)(void *)tags.entries;
    return a;
}

static OrchestratorAction *act_bad(struct world *w, enum bad bad)
{
    OrchestratorAction *a = act_task(w, 7, "T", NULL);
    struct event_tags tags = {0};
    switch (bad) {
    case BAD_EMPTY:
        a->orchestrator_action_type_case = ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE__NOT_SET;
        return a;
    case BAD_UNKNOWN_STATUS:
        return act_done(w, 7, (OrchestrationStatus)77, NULL);
    case BAD_RUNNING_STATUS:
        return act_done(w, 7, RUNNING, NULL);
    case BAD_TASK_NAME:
        return act_task(w, 7, "", NULL);
    case BAD_CHILD_NAME:
        return act_child(w, 7, "", "kid");
    case BAD_CHILD_ID:
        return act_child(w, 7, "C", "a\nb");
    case BAD_CHILD_ID_LONG:
        return act_child(w, 7, "C", text_of(w, 'x', 1025));
    case BAD_CHILD_TAGS:
        a = act_child(w, 7, "C", "kid");
        put_tags(w, &tags, 0, 65, "v");
        a->createsuborchestration->n_tags = tags.count;
        a->createsuborchestration->tags =
            (CreateSubOrchestrationAction__TagsEntry **)(void *)tags.entries;
        return a;
    case BAD_CHILD_TAG_KEY:
        a = act_child(w, 7, "C", "kid");
        event_tags_add(w->arena, &tags, bytes_of("a\0b", 3), BYTES_LIT("v"));
        a->createsuborchestration->n_tags = tags.count;
        a->createsuborchestration->tags =
            (CreateSubOrchestrationAction__TagsEntry **)(void *)tags.entries;
        return a;
    case BAD_NEXT_TAG_KEY:
        event_tags_add(w->arena, &tags, bytes_of("\0", 1), BYTES_LIT("v"));
        return act_next(w, 7, tags);
    case BAD_NEXT_TAGS:
        put_tags(w, &tags, 0, 1, arena_cstr(w->arena, bytes_of(text_of(w, 'y', 8192), 8192)));
        return act_next(w, 7, tags);
    case BAD_EVENT_NAME:
        return act_send(w, 7, "to", "", NULL);
    case BAD_EVENT_TARGET:
        return act_send(w, 7, "", "E", NULL);
    case BAD_NO_FIRE_AT:
        a = act_timer(w, 7, 0);
        a->createtimer->fireat = NULL;
        return a;
    case BAD_FIRE_AT_NANOS:
        a = act_timer(w, 7, 0);
        a->createtimer->fireat->nanos = 1000000000;
        return a;
    case BAD_FIRE_AT_YEAR:
        a = act_timer(w, 7, 0);
        a->createtimer->fireat->seconds = 253402300800; /* year 10000 */
        return a;
    case BAD_TERMINATE_TARGET:
        return act_terminate(w, 7, "");
    case BAD_ENTITY:
        a->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_ENTITY_MESSAGE;
        return a;
    case BAD_REWIND:
        a->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_REWIND_ORCHESTRATION;
        return a;
    case BADS:
        break;
    }
    return NULL;
}

/* checklist: 44 */
static void each_invalid_action_fails_the_instance_alone(void **state)
{
    (void)state;
    for (int bad = 0; bad < BADS; bad++) {
        struct world *w = world_new(NULL);
        struct world_stream *st;
        struct world_item *turn = first_turn(w, &st);
        assert_ok(world_start(w, "to", "Q", NULL));
        assert_ok(world_complete(w, turn, act_task(w, 1, "T", NULL), act_child(w, 2, "C", "k"),
                                 act_send(w, 3, "to", "E", NULL), act_bad(w, (enum bad)bad), NULL));
        assert_failure(w, "i", "InvalidOrchestratorAction");
        assert_true(world_get(w, "i")->failuredetails->isnonretriable);
        assert_string_equal(world_history(w, "i"),
                            "OrchestratorStarted ExecutionStarted ExecutionCompleted");
        assert_null(world_get(w, "k"));
        turn = next_turn(st);
        assert_string_equal(turn_id(w, turn), "to");
        assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionStarted");
        assert_null(world_next(st));
        world_free(w);
    }
}

/* Tags add up over continue-as-new, and have their limit all the same. */
static void tags_of_all_executions_have_one_limit(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    struct event_tags first = {0}, same = {0}, more = {0};
    (void)state;
    put_tags(w, &first, 0, 64, "a");
    put_tags(w, &same, 10, 20, "b");
    put_tags(w, &more, 64, 65, "c");
    assert_ok(world_complete(w, turn, act_next(w, 1, first), NULL));
    assert_ok(world_complete(w, next_turn(st), act_next(w, 1, same), NULL));
    assert_int_equal(world_get(w, "i")->n_tags, 64);
    assert_ok(world_complete(w, next_turn(st), act_next(w, 1, more), NULL));
    assert_failure(w, "i", "InvalidOrchestratorAction");
    assert_int_equal(world_get(w, "i")->n_tags, 64);
    world_free(w);
}

/* A worker that says FAILED and nothing more. */
static void a_failure_without_details_has_a_text(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    (void)state;
    assert_ok(world_complete(w, turn, act_done(w, 1, FAILED, NULL), NULL));
    assert_failure(w, "i", "OrchestrationFailed");
    assert_string_equal(
        arena_cstr(w->arena, wire_view(world_get(w, "i")->failuredetails->errormessage)),
        "The orchestration failed without details");
    world_free(w);
}

/* checklist: 40, 41, 42, 145 */
static void the_completion_with_the_lowest_id_counts(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct world_stream *st;
        struct world_item *turn = first_turn(w, &st);
        OrchestratorAction *low = act_done(w, 3, COMPLETED, "low"),
                           *high = act_done(w, 4, FAILED, "high");
        assert_ok(world_complete(w, turn, order ? high : low, act_task(w, 1, "T", NULL),
                                 order ? low : high, act_child(w, 2, "C", order ? "k1" : "k0"),
                                 act_timer(w, 5, w->wall), NULL));
        assert_state(w, "i", COMPLETED);
        assert_text(world_get(w, "i")->output, "low");
        assert_non_null(world_get(w, order ? "k1" : "k0"));
        assert_int_equal(tasks_of(st), 1);
        assert_null(next_turn(st)); /* the timer was never armed */
        assert_string_equal(world_history(w, "i"),
                            "OrchestratorStarted ExecutionStarted TaskScheduled#1 ChildCreated#2 "
                            "TimerCreated#5 ExecutionCompleted");
        world_close(st);
    }
    struct engine_stats stats;
    engine_stats(w->e, &stats);
    assert_int_equal(stats.timers, 0);
    world_free(w);
}

/* checklist: 24, 60 */
static void completions_in_their_statuses(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st;
    struct world_item *turn = first_turn(w, &st);
    (void)state;
    OrchestratorAction *done = act_done(w, 2, COMPLETED, "");
    done->completeorchestration->failuredetails = arena_new(w->arena, TaskFailureDetails);
    task_failure_details__init(done->completeorchestration->failuredetails);
    assert_ok(world_complete(w, turn, act_task(w, 1, "T", NULL), done, NULL));
    assert_text(world_get(w, "i")->output, "");
    assert_null(world_get(w, "i")->failuredetails);
    struct world_item *task = world_task(st);
    assert_ok(world_result(w, task, "late"));
    assert_null(world_next(st));
    assert_ok(world_purge(w, "i"));
    assert_null(world_get(w, "i"));
    assert_ok(world_result(w, task, "later"));

    assert_ok(world_start(w, "i", "P", NULL));
    done = act_done(w, 1, FAILED, "out");
    done->completeorchestration->details = wire_string_value(w->arena, BYTES_LIT("why"));
    assert_ok(world_complete(w, world_turn(st), done, NULL));
    OrchestrationState *s = world_get(w, "i");
    assert_text(s->output, "out");
    assert_int_equal(s->failuredetails->errormessage.len, 3);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, CANCELED, "c"), NULL));
    assert_state(w, "i", CANCELED);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 1, "Never", NULL),
                             act_child(w, 2, "C", "never"), act_done(w, 3, TERMINATED, "t"), NULL));
    assert_state(w, "i", TERMINATED);
    assert_null(world_get(w, "i")->failuredetails);
    assert_null(world_get(w, "never"));
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 56, 61 */
static void one_scheduling_has_one_result(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(a), act_task(w, 1, "T", NULL), NULL));
    struct world_item *first = world_task(a);
    world_close(a);
    struct world_stream *b = world_stream(w, 1, 1);
    struct world_item *second = world_task(b);
    assert_ok(world_suspend(w, "i"));
    w->is_held = true;
    struct world_answer *x = world_result(w, second, "second"),
                        *y = world_result(w, first, "first"), *z = world_result(w, second, "again");
    w->is_held = false;
    world_run(w);
    assert_ok(x);
    assert_ok(y);
    assert_ok(z);
    assert_null(world_next(b));
    assert_ok(world_resume(w, "i"));
    struct world_item *turn = world_turn(b);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted Suspended TaskCompleted(1) Resumed");
    HistoryEvent *ev = turn->item->orchestratorrequest->newevents[2];
    assert_text(ev->taskcompleted->result, "second");
    world_free(w);
}

/* checklist: 59, 149 */
static void activities_come_again(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(a), act_task(w, 1, "T", NULL), NULL));
    world_abandon(w, world_task(a));
    assert_null(world_next(a));
    world_advance(w, SECOND);
    world_abandon(w, world_task(a));
    world_advance(w, SECOND);
    assert_null(world_next(a)); /* twice as long now */
    world_advance(w, SECOND);
    world_task(a);
    world_advance(w, 3600 * SECOND);
    assert_null(world_next(a)); /* no time limit by default */
    world_close(a);
    w->settings.activity_timeout = 60 * SECOND;
    a = world_stream(w, 1, 1);
    world_task(a);
    struct world_stream *b = world_stream(w, 1, 1);
    world_advance(w, 60 * SECOND);
    assert_ok(world_result(w, world_task(b), "1"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeat_of_what_is_open_is_dropped),
        cmocka_unit_test(an_event_sent_again_every_turn_arrives_once),
        cmocka_unit_test(events_to_nobody_are_recorded_and_dropped),
        cmocka_unit_test(events_to_itself_come_after_the_turn),
        cmocka_unit_test(termination_by_an_action),
        cmocka_unit_test(each_invalid_action_fails_the_instance_alone),
        cmocka_unit_test(tags_of_all_executions_have_one_limit),
        cmocka_unit_test(a_failure_without_details_has_a_text),
        cmocka_unit_test(the_completion_with_the_lowest_id_counts),
        cmocka_unit_test(completions_in_their_statuses),
        cmocka_unit_test(one_scheduling_has_one_result),
        cmocka_unit_test(activities_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
