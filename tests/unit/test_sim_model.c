/* Each checker of tests/sim/model sees the lie that it is for, and nothing in the true trace beside it. The traces come from the
 * real engine; the lies are told between it and the model, or in the database behind its back.
 */
#include "model_world.h"

#include "sim/model/internal.h"

static const OrchestrationStatus COMPLETED = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;

/* A hub with `stream` for all that comes; nothing is wrong so far. */
static struct mw *world(uint64_t *stream)
{
    struct mw *w = mw_new(7);
    uint64_t id = mw_stream(w, 4, 4, false, 0);
    if (stream)
        *stream = id;
    return w;
}

static void everything_right(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_get(w, "WaitForInstanceCompletion", "i", true);
    mw_run(w);
    mw_complete(w, mw_turn(w), false, mw_task(w, 1), mw_timer(w, 2, w->wall + SECOND),
                mw_child(w, 3, "kid"), mw_send_event(w, 4, "i"), NULL);
    mw_suspend(w, "i");
    mw_run(w);
    mw_resume(w, "i");
    mw_advance(w, 2 * SECOND);
    for (struct mw_item *it; (it = mw_next(w));) {
        if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST)
            mw_result(w, it, false, true);
        else
            mw_complete(w, it, false, mw_finish(w, 9, COMPLETED), NULL);
        mw_run(w);
    }
    mw_get(w, "GetInstance", "i", true);
    mw_purge(w, "kid");
    mw_run(w);
    mw_crash(w);
    mw_run(w);
    model_quiet(w->m);
    model_end(w->m);
    assert_no_finding(w);
    mw_free(w);
}

/* ---- the database ------------------------------------------------------------------------------------------- */

static const char *tampering;

static void tamper(struct mw *w)
{
    mw_sql(w, tampering);
}

/* An instance with a task, a timer and an open turn's worth of inbox; the statement spoils the commit that follows. */
static void spoil(const char *sql, const char *checker)
{
    struct mw *w = world(NULL);
    mw_start(w, "i", "P");
    mw_run(w);
    mw_complete(w, mw_turn(w), false, mw_task(w, 1), mw_timer(w, 2, w->wall + 60 * SECOND), NULL);
    mw_run(w);
    mw_suspend(w, "i");
    mw_raise(w, "i", "first", "1");
    mw_run(w);
    assert_no_finding(w);
    tampering = sql;
    w->before_commit = tamper;
    mw_raise(w, "i", "second", "2");
    mw_run(w);
    assert_finding(w, checker);
    mw_free(w);
}

static void lost_doubled_and_swapped_events(void **state)
{
    (void)state;
    spoil("DELETE FROM inbox WHERE seq = (SELECT max(seq) FROM inbox) - 1", "inbox");
    spoil("INSERT INTO inbox (object, seq, type, execution, ref, time, ready, event) SELECT "
          "object, seq + 1, type, execution, ref, time, ready, event "
          "FROM inbox WHERE seq = (SELECT max(seq) FROM inbox)",
          "inbox");
    spoil("UPDATE inbox SET event = (SELECT event FROM inbox ORDER BY seq DESC LIMIT 1) "
          "WHERE seq = (SELECT max(seq) FROM inbox) - 1",
          "inbox");
}

static void rows_of_instances_tasks_and_timers(void **state)
{
    (void)state;
    spoil("UPDATE object SET status = 0", "object");
    spoil("UPDATE object SET custom_status = 'x'", "object");
    spoil("UPDATE object SET history_events = history_events + 1", "history");
    spoil("DELETE FROM task", "tasks");
    spoil("UPDATE timer SET due = due + 1", "timer-early");
    spoil("DELETE FROM timer", "timer-early");
    spoil("INSERT INTO timer (due, key, object, execution, what, ref, payload) SELECT due + 1, key "
          "+ 1, object, execution, what, ref, payload FROM "
          "timer",
          "timers");
    spoil("INSERT INTO mailbox (seq, hub, kind, partition, id, what, payload) VALUES (1, 1, 1, 0, "
          "'i', 1, x'')",
          "mail");
}

/* ---- commits and answers ---------------------------------------------------------------------------------------- */

static void undo(struct mw *w)
{
    mw_sql(w, "DELETE FROM inbox WHERE seq = (SELECT max(seq) FROM inbox)");
}

static void a_commit_that_is_not_flushed(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    w->before_commit = undo; /* as if it had stayed in memory */
    mw_raise(w, "i", "e", "1");
    mw_run(w);
    assert_finding(w, "flushed");
    mw_free(w);
}

static void ok_before_the_commit(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    w->hides_commits = true;
    mw_start(w, "i", "P");
    mw_run(w);
    assert_finding(w, "ack");
    mw_free(w);
}

static void another_status_or_state(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    w->lies_about_answers = true;
    w->lie_status = 5;
    mw_raise(w, "i", "e", "1");
    mw_run(w);
    assert_finding(w, "status");
    mw_free(w);

    w = world(NULL);
    mw_start(w, "i", "P");
    mw_run(w);
    mw_get(w, "GetInstance", "i", true);
    w->hides_answers = true;
    mw_run(w);
    assert_no_finding(w);
    model_answer(w->m, w->next_id, 0, "", BYTES_NONE); /* exists = false */
    assert_finding(w, "reply");
    mw_free(w);

    w = world(NULL);
    w->lies_about_answers = true;
    w->lie_status = 14; /* UNAVAILABLE, and committed */
    mw_start(w, "i", "P");
    mw_run(w);
    assert_finding(w, "status");
    mw_free(w);
}

static void a_wait_that_is_forgotten_or_ends_early(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_get(w, "WaitForInstanceCompletion", "i", false);
    mw_run(w);
    w->hides_answers = true;
    mw_complete(w, mw_turn(w), false, mw_finish(w, 1, COMPLETED), NULL);
    mw_run(w);
    assert_finding(w, "waiter");
    mw_free(w);

    w = world(NULL);
    mw_start(w, "i", "P");
    mw_get(w, "WaitForInstanceCompletion", "i", false);
    mw_run(w);
    model_answer(w->m, w->next_id, 0, "", BYTES_NONE);
    assert_finding(w, "waiter");
    mw_free(w);
}

/* ---- crashes ------------------------------------------------------------------------------------------------------- */

static void what_a_crash_may_not_take(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_raise(w, "i", "e", "1");
    mw_run(w);
    assert_no_finding(w);
    undo(w);
    model_crash(w->m, NULL);
    model_recovered(w->m);
    assert_finding(w, "recovery");
    mw_free(w);
}

static void an_unknown_batch_is_there_or_not(void **state)
{
    for (int there = 0; there < 2; there++) {
        struct mw *w = world(NULL);
        (void)state;
        mw_start(w, "i", "P");
        mw_run(w);
        w->hides_commits = w->hides_answers = there;
        uint64_t call = w->next_id + 1;
        if (there) {
            mw_raise(w, "i", "e", "1");
            mw_run(w);
        } else {
            struct model_call c = {.id = call, .connection = 1, .method = "RaiseEvent"};
            RaiseEventRequest q = RAISE_EVENT_REQUEST__INIT;
            uint8_t raw[64];
            q.instanceid = wire_data(BYTES_LIT("i"));
            q.name = wire_data(BYTES_LIT("e"));
            c.request = bytes_of(raw, protobuf_c_message_pack(&q.base, raw));
            model_call(w->m, &c);
        }
        struct model_batch b = {.now = w->wall, .calls = &call, .count = 1};
        model_commit_failed(w->m, &b);
        model_crash(w->m, NULL);
        model_recovered(w->m);
        assert_no_finding(w);
        mw_free(w);
    }
}

/* ---- timers ---------------------------------------------------------------------------------------------------------- */

static void a_timer_that_does_not_fire(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    mw_complete(w, mw_turn(w), false, mw_timer(w, 1, w->wall + 5 * SECOND), NULL);
    mw_run(w);
    assert_no_finding(w);
    model_clock(w->m, w->wall + 6 * SECOND, w->mono + 6 * SECOND);
    model_idle(w->m);
    assert_no_finding(w);
    model_clock(w->m, w->wall + 8 * SECOND, w->mono + 8 * SECOND);
    model_idle(w->m);
    assert_finding(w, "timer-late");
    mw_free(w);
}

/* ---- work items ---------------------------------------------------------------------------------------------------------- */

enum item_lie { NO_PAST, TWO_EVENTS, NO_EVENT, OTHER_TOKEN, NO_ENTITIES, OTHER_EXECUTION };
static enum item_lie item_lie;

static bool lie_about(struct mw *w, WorkItem *item)
{
    OrchestratorRequest *q = item->orchestratorrequest;
    if (item->request_case != WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST || !w->has_item_tamper)
        return false;
    switch (item_lie) {
    case NO_PAST:
        q->n_pastevents--;
        break;
    case TWO_EVENTS: {
        HistoryEvent **twice = arena_array(w->arena, HistoryEvent *, q->n_newevents + 1);
        memcpy(twice, q->newevents, q->n_newevents * sizeof(*twice));
        twice[q->n_newevents] = twice[q->n_newevents - 1];
        q->newevents = twice;
        q->n_newevents++;
        break;
    }
    case NO_EVENT:
        q->n_newevents = 1;
        break;
    case OTHER_TOKEN:
        item->completiontoken = w->items[0].item->completiontoken;
        break;
    case NO_ENTITIES:
        q->entityparameters = NULL;
        break;
    case OTHER_EXECUTION:
        q->executionid = mw_box(w, "00000000000000000000000000000000");
        break;
    }
    return true;
}

static void items_that_are_not_as_they_must_be(void **state)
{
    static const struct {
        enum item_lie lie;
        const char *checker;
    } CASES[] = {
        {NO_PAST, "turn-past"}, {TWO_EVENTS, "turn-new"}, {NO_EVENT, "turn-new"},
        {OTHER_TOKEN, "token"}, {NO_ENTITIES, "item"},    {OTHER_EXECUTION, "leak"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct mw *w = world(NULL);
        w->tamper_item = lie_about;
        item_lie = CASES[i].lie;
        mw_start(w, "i", "P");
        mw_run(w);
        mw_complete(w, mw_turn(w), false, NULL);
        mw_run(w);
        assert_no_finding(w);
        w->has_item_tamper = true;
        mw_raise(w, "i", "e", "1");
        mw_run(w);
        assert_finding(w, CASES[i].checker);
        mw_free(w);
    }
}

/* The same item once more, as it stands; with another token. */
static void again(struct mw *w, struct mw_item *it, uint64_t stream, const char *token)
{
    it->item->completiontoken = wire_data(bytes_str(token));
    uint8_t *raw = arena_alloc(w->arena, protobuf_c_message_get_packed_size(&it->item->base));
    model_item(w->m, stream, bytes_of(raw, protobuf_c_message_pack(&it->item->base, raw)));
}

static void work_in_two_hands_or_for_nobody(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    again(w, mw_turn(w), stream, "another");
    assert_finding(w, "turn-twice");
    mw_free(w);

    w = world(&stream); /* nothing has scheduled it */
    mw_start(w, "i", "P");
    mw_run(w);
    WorkItem item = WORK_ITEM__INIT;
    ActivityRequest q = ACTIVITY_REQUEST__INIT;
    struct mw_item it = {.item = &item};
    q.name = wire_data(BYTES_LIT("Act"));
    item.request_case = WORK_ITEM__REQUEST_ACTIVITY_REQUEST;
    item.activityrequest = &q;
    again(w, &it, stream, "t");
    assert_finding(w, "leak");
    mw_free(w);
}

static void turns_that_must_wait(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    struct mw_item *first = mw_turn(w);
    mw_stream_close(w, stream);
    mw_suspend(w, "i");
    mw_run(w);
    stream = mw_stream(w, 1, 1, false, 0);
    mw_run(w);
    assert_no_finding(w);
    again(w, first, stream, "t");
    assert_finding(w, "suspended");
    mw_free(w);

    w = world(&stream);
    CreateInstanceRequest *q = arena_new(w->arena, CreateInstanceRequest);
    create_instance_request__init(q);
    q->instanceid = wire_data(BYTES_LIT("later"));
    q->name = wire_data(BYTES_LIT("P"));
    q->executionid = mw_box(w, "0123456789abcdef0123456789abcdef");
    q->scheduledstarttimestamp = arena_new(w->arena, Google__Protobuf__Timestamp);
    google__protobuf__timestamp__init(q->scheduledstarttimestamp);
    q->scheduledstarttimestamp->seconds = w->wall / SECOND + 5;
    mw_start_with(w, q, w->wall + 5 * SECOND);
    mw_run(w);
    assert_no_finding(w);
    WorkItem item = WORK_ITEM__INIT;
    OrchestratorRequest turn = ORCHESTRATOR_REQUEST__INIT;
    struct mw_item early = {.item = &item};
    turn.instanceid = q->instanceid;
    turn.executionid = q->executionid;
    item.request_case = WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    item.orchestratorrequest = &turn;
    again(w, &early, stream, "t");
    assert_finding(w, "start-early");
    mw_free(w);
}

static void an_abandoned_item_comes_back_too_soon(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    struct mw_item *it = mw_turn(w);
    AbandonOrchestrationTaskRequest q = ABANDON_ORCHESTRATION_TASK_REQUEST__INIT;
    uint8_t raw[300];
    q.completiontoken = it->item->completiontoken;
    struct model_call c = {.id = 5000,
                           .connection = it->connection,
                           .method = "AbandonTaskOrchestratorWorkItem",
                           .request = bytes_of(raw, protobuf_c_message_pack(&q.base, raw))};
    model_call(w->m, &c);
    model_answer(w->m, 5000, 0, "", BYTES_NONE);
    model_clock(w->m, w->wall + SECOND / 2, w->mono + SECOND / 2);
    again(w, it, stream, "t");
    assert_finding(w, "backoff");
    mw_free(w);
}

static void a_stream_gets_what_it_did_not_ask_for(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    mw_stream_close(w, stream);
    GetWorkItemsRequest q = GET_WORK_ITEMS_REQUEST__INIT;
    WorkItemFilters nothing = WORK_ITEM_FILTERS__INIT;
    uint8_t raw[64];
    q.workitemfilters = &nothing;
    struct model_stream s = {.id = 900,
                             .connection = 900,
                             .request = bytes_of(raw, protobuf_c_message_pack(&q.base, raw))};
    model_stream_open(w->m, &s);
    again(w, mw_turn(w), 900, "t");
    assert_finding(w, "filter");
    mw_free(w);
}

static void a_token_less_turn_comes_again_at_once(void **state)
{
    struct mw *w = mw_new(3);
    (void)state;
    uint64_t stream = mw_stream(w, 0, 0, true, 0);
    mw_start(w, "i", "P");
    mw_run(w);
    mw_stream_close(w, stream);
    struct model_stream s = {.id = 900, .connection = 900, .token_less = true};
    model_stream_open(w->m, &s);
    again(w, mw_turn(w), 900, "t");
    assert_finding(w, "tokenless");
    mw_free(w);
}

static void an_activity_of_a_terminated_execution(void **state)
{
    uint64_t stream;
    struct mw *w = world(&stream);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    mw_complete(w, mw_turn(w), false, mw_task(w, 1), NULL);
    mw_run(w);
    struct mw_item *task = mw_next(w);
    mw_terminate(w, "i", false);
    mw_run(w);
    mw_complete(w, mw_turn(w), false,
                mw_finish(w, 2, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED), NULL);
    mw_run(w);
    assert_no_finding(w);
    again(w, task, stream, "t");
    assert_finding(w, "cancelled");
    mw_free(w);
}

static void a_history_that_nobody_could_have_made(void **state)
{
    static const int LEGAL[] = {EV_TURN, EV_STARTED, EV_TIMER, EV_TURN, EV_FIRED};
    static const int TWICE[] = {EV_TURN, EV_STARTED, EV_TIMER, EV_TURN, EV_FIRED, EV_FIRED};
    static const int NEVER[] = {EV_TURN, EV_STARTED, EV_TURN, EV_FIRED};
    static const struct {
        const int *types;
        size_t n;
        bool is_legal;
    } CASES[] = {{LEGAL, ARRAY_LEN(LEGAL), true},
                 {TWICE, ARRAY_LEN(TWICE), false},
                 {NEVER, ARRAY_LEN(NEVER), false}};
    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
        struct mw *w = mw_new(3);
        struct inst i = {.id = BYTES_LIT("i"), .status = ST_RUNNING};
        for (size_t n = 0; n < CASES[c].n; n++) {
            int type = CASES[c].types[n];
            HistoryEvent *msg = event_msg(w->arena, type, type == EV_TIMER ? 1 : -1, w->wall);
            if (type == EV_FIRED) {
                msg->timerfired->timerid = 1;
                msg->timerfired->fireat = stamp(w->arena, w->wall);
            }
            VEC_PUSH(&i.history, event_of(w->arena, msg));
        }
        replay_check(w->m, &i);
        if (CASES[c].is_legal)
            assert_no_finding(w);
        else
            assert_finding(w, "replay");
        VEC_FREE(&i.history);
        mw_free(w);
    }
}

static void a_database_that_cannot_be_read(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    w->has_no_image = true;
    mw_start(w, "i", "P");
    mw_run(w);
    assert_finding(w, "image");
    mw_free(w);
}

static void slots_are_counted(void **state)
{
    uint64_t stream;
    struct mw *w = mw_new(3);
    (void)state;
    stream = mw_stream(w, 1, 1, false, 0);
    mw_start(w, "a", "P");
    mw_start(w, "b", "P");
    mw_run(w);
    assert_no_finding(w);
    model_stream_figure(w->m, stream, 1, 0);
    assert_no_finding(w);
    model_stream_figure(w->m, stream, 2, 0); /* one that was settled and never given back */
    assert_finding(w, "slots");
    mw_free(w);
}

static void ready_work_that_does_not_go_out(void **state)
{
    struct mw *w = mw_new(3);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    struct model_stream s = {.id = 900, .connection = 900}; /* the engine knows nothing of it */
    model_stream_open(w->m, &s);
    for (int i = 0; i < 12; i++) {
        model_clock(w->m, w->wall, w->mono + i * SECOND);
        model_idle(w->m);
    }
    assert_finding(w, "starved");
    mw_free(w);
}

static void figures_and_the_end(void **state)
{
    struct mw *w = world(NULL);
    (void)state;
    mw_start(w, "i", "P");
    mw_run(w);
    model_figure(w->m, "instances", "default", 6, 1);
    assert_no_finding(w);
    model_figure(w->m, "instances", "default", 6, 2);
    assert_finding(w, "counts");
    mw_free(w);

    w = world(NULL); /* rows of an instance that was purged */
    mw_start(w, "i", "P");
    mw_run(w);
    mw_complete(w, mw_turn(w), false, mw_finish(w, 1, COMPLETED), NULL);
    mw_run(w);
    mw_purge(w, "i");
    mw_run(w);
    assert_no_finding(w);
    mw_sql(w, "INSERT INTO history (execution, row, key_base, events, time, frames) VALUES "
              "(424242, 1, 0, 1, 1, x'')");
    model_end(w->m);
    assert_finding(w, "purge");
    mw_free(w);

    w = mw_new(3); /* a worker and an event, and nothing happens */
    mw_start(w, "i", "P");
    mw_run(w);
    struct model_stream s = {.id = 900, .connection = 900};
    model_stream_open(w->m, &s);
    model_end(w->m);
    assert_finding(w, "stuck");
    mw_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_right),
        cmocka_unit_test(lost_doubled_and_swapped_events),
        cmocka_unit_test(rows_of_instances_tasks_and_timers),
        cmocka_unit_test(a_commit_that_is_not_flushed),
        cmocka_unit_test(ok_before_the_commit),
        cmocka_unit_test(another_status_or_state),
        cmocka_unit_test(a_wait_that_is_forgotten_or_ends_early),
        cmocka_unit_test(what_a_crash_may_not_take),
        cmocka_unit_test(an_unknown_batch_is_there_or_not),
        cmocka_unit_test(a_timer_that_does_not_fire),
        cmocka_unit_test(items_that_are_not_as_they_must_be),
        cmocka_unit_test(work_in_two_hands_or_for_nobody),
        cmocka_unit_test(turns_that_must_wait),
        cmocka_unit_test(an_abandoned_item_comes_back_too_soon),
        cmocka_unit_test(a_stream_gets_what_it_did_not_ask_for),
        cmocka_unit_test(a_token_less_turn_comes_again_at_once),
        cmocka_unit_test(an_activity_of_a_terminated_execution),
        cmocka_unit_test(a_history_that_nobody_could_have_made),
        cmocka_unit_test(a_database_that_cannot_be_read),
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(ready_work_that_does_not_go_out),
        cmocka_unit_test(figures_and_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
