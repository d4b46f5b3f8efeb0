/* test_children.c - sub-orchestrations: how they start, end and answer (spec 6.4). */
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

/* The parent `p` with its child under the id, both started. */
static void parent_of(struct world *w, struct world_stream *st, const char *child)
{
    assert_ok(world_start(w, "p", "P", NULL));
    assert_ok(world_complete(w, turn_of(w, st, "p"), act_child(w, 1, "C", child), NULL));
}

static const TaskFailureDetails *failure_in(const struct world_item *turn)
{
    HistoryEvent *ev = turn->item->orchestratorrequest->newevents[1];
    assert_int_equal(ev->event_type_case,
                     HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED);
    return ev->suborchestrationinstancefailed->failuredetails;
}

static void assert_view(ProtobufCBinaryData v, const char *expected)
{
    assert_int_equal(v.len, strlen(expected));
    assert_memory_equal(v.data, expected, v.len);
}

/* checklist: 67, 71, 144 */
static void the_parent_link_is_whole(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "p", "Parent", NULL));
    struct world_item *turn = world_turn(st);
    const char *execution =
        arena_cstr(w->arena, wire_string(turn->item->orchestratorrequest->executionid));
    assert_ok(world_complete(w, turn, act_child(w, 0, "C", ""), NULL));
    turn = world_turn(st);
    const char *id = arena_printf(w->arena, "%s:0000", execution);
    assert_string_equal(turn_id(w, turn), id);
    ExecutionStartedEvent *ev = turn->item->orchestratorrequest->newevents[1]->executionstarted;
    assert_int_equal(ev->parentinstance->taskscheduledid, 0);
    assert_text(ev->parentinstance->name, "Parent");
    assert_view(ev->parentinstance->orchestrationinstance->instanceid, "p");
    assert_text(ev->parentinstance->orchestrationinstance->executionid, execution);
    assert_text(world_get(w, id)->parentinstanceid, "p");
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, "out"), NULL));
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ChildCompleted(0)");
    assert_text(
        turn->item->orchestratorrequest->newevents[1]->suborchestrationinstancecompleted->result,
        "out");
    world_free(w);
}

/* checklist: 68, 69, 147 */
static void how_a_child_ends_is_told(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    parent_of(w, st, "kid");
    OrchestratorAction *done = act_done(w, 1, FAILED, NULL);
    TaskFailureDetails outer = TASK_FAILURE_DETAILS__INIT, inner = TASK_FAILURE_DETAILS__INIT;
    outer.errortype = wire_data(BYTES_LIT("Outer"));
    outer.errormessage = wire_data(BYTES_LIT("m"));
    outer.innerfailure = &inner;
    inner.errortype = wire_data(BYTES_LIT("Inner"));
    done->completeorchestration->failuredetails = &outer;
    assert_ok(world_complete(w, turn_of(w, st, "kid"), done, NULL));
    struct world_item *turn = turn_of(w, st, "p");
    assert_view(failure_in(turn)->errortype, "Outer");
    assert_view(failure_in(turn)->innerfailure->errortype, "Inner");
    assert_ok(world_complete(w, turn, act_child(w, 1, "C", "kid"), NULL)); /* the same id again */
    assert_state(w, "kid", PENDING);
    world_free(w);
}

static void a_terminated_child_is_told_without_retries(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 0);
    (void)state;
    parent_of(w, st, "kid");
    struct world_item *kid = turn_of(w, st, "kid");
    assert_ok(world_complete(w, kid, NULL));
    assert_ok(world_terminate(w, "kid", "bye", false));
    assert_ok(world_complete(w, turn_of(w, st, "kid"), act_done(w, 1, TERMINATED, "bye"), NULL));
    struct world_item *turn = turn_of(w, st, "p");
    assert_view(failure_in(turn)->errortype, "SubOrchestrationTerminated");
    assert_view(failure_in(turn)->errormessage,
                "Sub-orchestration instance 'kid' was terminated. bye");
    assert_true(failure_in(turn)->isnonretriable);
    world_free(w);
}

/* checklist: 70 */
static void an_id_in_use_fails_the_child_alone(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "taken", "Q", NULL));
    turn_of(w, st, "taken");
    parent_of(w, st, "taken");
    struct world_item *turn = turn_of(w, st, "p");
    assert_view(failure_in(turn)->errortype, "OrchestrationAlreadyExists");
    assert_view(failure_in(turn)->errormessage, "Orchestration instance 'taken' already exists");
    assert_false(failure_in(turn)->isnonretriable);
    assert_ok(
        world_complete(w, turn, act_child(w, 2, "C", "p"), act_child(w, 3, "C", "@e@k"), NULL));
    turn = turn_of(w, st, "p"); /* its own id, and an entity's */
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted ChildFailed(2) ChildFailed(3)");
    assert_null(world_get(w, "taken")->parentinstanceid);
    world_free(w);
}

/* A terminal instance gives its id to a child; a running child asked for again is the same one. */
static void a_terminal_instance_is_replaced_by_a_child(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    assert_ok(world_start(w, "old", "Q", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, "old"), NULL));
    parent_of(w, st, "old");
    assert_state(w, "old", PENDING);
    assert_text(world_get(w, "old")->parentinstanceid, "p");
    assert_ok(world_complete(w, turn_of(w, st, "old"), act_done(w, 1, COMPLETED, "new"), NULL));
    assert_string_equal(world_new_events(w, turn_of(w, st, "p")),
                        "OrchestratorStarted ChildCompleted(1)");
    world_free(w);
}

static void a_replaced_child_is_told(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    struct dt_start start = {.has_policy = true};
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    (void)state;
    parent_of(w, st, "kid");
    struct world_item *old = turn_of(w, st, "kid");
    req.instanceid = wire_data(BYTES_LIT("kid"));
    req.name = wire_data(BYTES_LIT("Other"));
    start.request = &req;
    start.replaceable = DT_STATUS_BIT(PENDING) | DT_STATUS_BIT(TERMINATED);
    assert_ok(world_do(w, DT_START, "kid", &start));
    struct world_item *turn = NULL, *fresh = NULL;
    for (struct world_item *it; (it = world_next(st));)
        *(strcmp(turn_id(w, it), "p") == 0 ? &turn : &fresh) = it;
    assert_view(failure_in(turn)->errortype, "SubOrchestrationReplaced");
    assert_ok(world_complete(w, old, act_done(w, 1, COMPLETED, "old"), NULL));
    assert_state(w, "kid", PENDING);
    assert_ok(world_complete(w, turn, NULL));
    assert_ok(world_complete(w, fresh, act_done(w, 1, COMPLETED, "new"), NULL));
    assert_null(world_next(st)); /* nobody is told of that */
    world_free(w);
}

/* checklist: 72, 73 */
static void children_answer_once_and_only_to_their_execution(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    parent_of(w, st, "kid");
    for (int i = 0; i < 3; i++)
        assert_ok(world_complete(w, turn_of(w, st, "kid"), act_done(w, 1, AS_NEW, NULL), NULL));
    assert_ok(world_complete(w, turn_of(w, st, "kid"), act_done(w, 1, COMPLETED, NULL), NULL));
    struct world_item *turn = turn_of(w, st, "p");
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ChildCompleted(1)");
    assert_ok(world_complete(w, turn, act_child(w, 2, "C", "late"), act_child(w, 3, "C", "later"),
                             act_done(w, 4, AS_NEW, NULL), NULL));
    turn = NULL;
    struct world_item *late = NULL, *later = NULL;
    for (struct world_item *it; (it = world_next(st));)
        *(strcmp(turn_id(w, it), "p") == 0      ? &turn
          : strcmp(turn_id(w, it), "late") == 0 ? &late
                                                : &later) = it;
    assert_ok(world_complete(w, late, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted ExecutionStarted");
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_ok(world_purge(w, "p"));
    assert_ok(world_complete(w, later, act_done(w, 1, COMPLETED, NULL), NULL));
    assert_null(world_next(st));
    assert_state(w, "later", COMPLETED);
    world_free(w);
}

/* checklist: 74 */
static void a_thousand_children_answer_once_each(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    w->settings.cache_objects = 20;
    assert_ok(world_start(w, "p", "P", NULL));
    OrchestratorResponse *r = world_response(w, world_turn(st), NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 1000);
    for (int i = 0; i < 1000; i++)
        actions[i] = act_child(w, i, "C", "");
    r->actions = actions;
    r->n_actions = 1000;
    assert_ok(world_answer(w, 1, r));
    bool seen[1000] = {false};
    int answers = 0;
    while (answers < 1000) {
        struct world_item *it = world_turn(st);
        OrchestratorRequest *req = it->item->orchestratorrequest;
        if (strcmp(turn_id(w, it), "p") != 0) {
            assert_ok(world_complete(w, it, act_done(w, 1, COMPLETED, NULL), NULL));
            continue;
        }
        for (size_t i = 1; i < req->n_newevents; i++, answers++) {
            int32_t id = req->newevents[i]->suborchestrationinstancecompleted->taskscheduledid;
            assert_false(seen[id]);
            seen[id] = true;
        }
        assert_ok(answers < 1000 ? world_complete(w, it, NULL)
                                 : world_complete(w, it, act_done(w, 1, COMPLETED, NULL), NULL));
    }
    assert_state(w, "p", COMPLETED);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parent_link_is_whole),
        cmocka_unit_test(how_a_child_ends_is_told),
        cmocka_unit_test(a_terminated_child_is_told_without_retries),
        cmocka_unit_test(an_id_in_use_fails_the_child_alone),
        cmocka_unit_test(a_terminal_instance_is_replaced_by_a_child),
        cmocka_unit_test(a_replaced_child_is_told),
        cmocka_unit_test(children_answer_once_and_only_to_their_execution),
        cmocka_unit_test(a_thousand_children_answer_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
