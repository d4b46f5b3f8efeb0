/* What the specification leaves open, or the model cannot see: the database decides. Each test has the right trace, which must pass,
 * and a wrong one beside it, which must still be seen.
 */
#include "model_world.h"

#include "sim/model/internal.h"

enum { MANY = 12 };

static bool spoils; /* the next commit: something in it is wrong beside what is open */

static void spoil(struct mw *w)
{
    if (spoils)
        mw_sql(w, "UPDATE object SET custom_status = 'x' WHERE id = 'i7'");
}

/* An answer of which the model hears, and the server does not: as one that it takes for a late one. */
static uint64_t unheard(struct mw *w, const struct mw_item *it, bool token_less)
{
    OrchestratorResponse q = ORCHESTRATOR_RESPONSE__INIT;
    q.instanceid = it->item->orchestratorrequest->instanceid;
    if (!token_less)
        q.completiontoken = it->item->completiontoken;
    uint8_t *raw = arena_alloc(w->arena, protobuf_c_message_get_packed_size(&q.base) + 1);
    struct model_call c = {.id = ++w->next_id,
                           .connection = it->connection,
                           .method = "CompleteOrchestratorTask",
                           .request = bytes_of(raw, protobuf_c_message_pack(&q.base, raw)),
                           .token_less = token_less};
    model_call(w->m, &c);
    return c.id;
}

/* Each may count or not, and that is more combinations than anybody can try. */
static void many_answers_that_were_not_taken(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        mw_stream(w, 0, 0, true, 0);
        for (int i = 0; i < MANY; i++)
            mw_start(w, arena_printf(w->arena, "i%d", i), "P");
        mw_run(w);
        assert_no_finding(w);
        for (int i = 0; i < MANY; i++)
            w->queue[w->queued++] = unheard(w, mw_turn(w), true);
        spoils = lie;
        w->before_commit = spoil;
        mw_raise(w, "i7", "e", "1");
        mw_run(w);
        if (lie)
            assert_finding(w, "object");
        else
            assert_no_finding(w);
        mw_free(w);
    }
}

static void an_answer_that_no_commit_has_had(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        mw_stream(w, 0, 0, !lie, 0);
        mw_start(w, "i", "P");
        mw_run(w);
        uint64_t call = unheard(w, mw_turn(w), !lie);
        assert_no_finding(w);
        model_answer(w->m, call, 0, "", BYTES_NONE);
        if (lie) /* its token says which turn it is for */
            assert_finding(w, "ack");
        else
            assert_no_finding(w);
        mw_raise(w, "i", "e", "1");
        mw_run(w);
        assert_int_equal(w->findings != 0, lie);
        mw_free(w);
    }
}

static void lose_mail(struct mw *w)
{
    if (spoils)
        mw_sql(w, "DELETE FROM mailbox");
}

/* A child that has started itself: the message that ends it makes another one to the same name. */
static void a_message_that_makes_another_to_the_same(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        mw_stream(w, 4, 4, false, 0);
        spoils = lie;
        w->before_commit = lose_mail;
        mw_start(w, "p", "P");
        mw_run(w);
        mw_complete(w, mw_turn(w), false, mw_child(w, 1, "c"), NULL);
        mw_run(w);
        mw_complete(w, mw_turn(w), false, mw_child(w, 1, "c"),
                    mw_finish(w, 2, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED), NULL);
        mw_run(w);
        mw_terminate(w, "p", true);
        mw_complete(w, mw_turn(w), false, NULL);
        mw_run(w);
        assert_no_finding(w);
        mw_complete(w, mw_turn(w), false,
                    mw_finish(w, 2, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED), NULL);
        mw_run(w);
        mw_get(w, "GetInstance", "p", true);
        mw_run(w);
        if (lie)
            assert_finding(w, "mail");
        else
            assert_no_finding(w);
        mw_free(w);
    }
}

static void lose_tasks(struct mw *w)
{
    if (spoils)
        mw_sql(w, "DELETE FROM task");
}

/* The same id of two executions that are over, and an answer that names no execution. */
static void an_answer_to_one_of_two_forgotten_tasks(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        struct mw_item *it, *task = NULL;
        int turns = 0;
        mw_stream(w, 4, 4, true, 0);
        mw_start(w, "i", "P");
        mw_run(w);
        while ((it = mw_next(w))) {
            if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST)
                task = it;
            else if (turns++ < 2)
                mw_complete(
                    w, it, true, mw_task(w, 1),
                    mw_finish(w, 2, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW),
                    NULL);
            mw_run(w);
        }
        assert_non_null(task);
        assert_int_equal(mw_sql(w, "SELECT count(*) FROM task"), 2);
        assert_no_finding(w);
        spoils = lie;
        w->before_commit = lose_tasks; /* both of them */
        mw_result(w, task, true, false);
        mw_run(w);
        assert_int_equal(mw_sql(w, "SELECT count(*) FROM task"), !lie);
        if (lie)
            assert_finding(w, "tasks");
        else
            assert_no_finding(w);
        mw_free(w);
    }
}

/* A bad answer and, in the same commit, the wish for the whole history: the turn may come back at once. Without the wish it may not,
 * to the one that gave the bad answer. */
static void a_turn_that_is_refused_and_asked_for(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        uint64_t stream = mw_stream(w, 1, 1, false, 0);
        mw_start(w, "i", "P");
        mw_run(w);
        struct mw_item *it = mw_turn(w);
        OrchestratorResponse bad = ORCHESTRATOR_RESPONSE__INIT, wish = ORCHESTRATOR_RESPONSE__INIT;
        Google__Protobuf__Int32Value many = GOOGLE__PROTOBUF__INT32_VALUE__INIT;
        bad.instanceid = wish.instanceid = it->item->orchestratorrequest->instanceid;
        bad.completiontoken = wish.completiontoken = it->item->completiontoken;
        many.value = 99;
        bad.numeventsprocessed = &many;
        wish.requireshistory = true;
        mw_respond(w, &bad, it->connection, false);
        if (!lie)
            mw_respond(w, &wish, it->connection, false);
        mw_run(w);
        assert_no_finding(w);
        if (lie) {
            assert_null(mw_next(w));
            it->item->completiontoken = wire_data(BYTES_LIT("another"));
            uint8_t *raw =
                arena_alloc(w->arena, protobuf_c_message_get_packed_size(&it->item->base));
            model_item(w->m, stream, bytes_of(raw, protobuf_c_message_pack(&it->item->base, raw)));
            assert_finding(w, "backoff");
        } else {
            assert_non_null(mw_next(w));
        }
        mw_free(w);
    }
}

/* A turn that one worker without tokens keeps, and another has answered: the next one waits a second, and not for ever. */
static void a_connection_that_never_answers(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct mw *w = mw_new(5);
        mw_stream(w, 1, 1, true, 0);
        mw_start(w, "i", "P");
        mw_run(w);
        assert_non_null(mw_turn(w)); /* and forgotten */
        uint64_t other = mw_stream(w, 1, 1, false, 0);
        mw_advance(w, (usec_t)w->settings.turn_timeout + SECOND);
        struct mw_item *it = mw_turn(w);
        assert_int_equal(it->stream, other);
        mw_complete(w, it, false, NULL);
        mw_run(w);
        mw_stream_close(w, other);
        mw_raise(w, "i", "e", "1");
        mw_run(w);
        assert_null(mw_next(w));
        assert_no_finding(w);
        if (lie) /* the server has begun to wait for a second */
            w->settings.tokenless_redelivery = 10 * (uint64_t)SECOND;
        mw_advance(w, 2 * SECOND);
        assert_non_null(mw_next(w));
        if (lie)
            assert_finding(w, "tokenless");
        else
            assert_no_finding(w);
        mw_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_answers_that_were_not_taken),
        cmocka_unit_test(an_answer_that_no_commit_has_had),
        cmocka_unit_test(a_message_that_makes_another_to_the_same),
        cmocka_unit_test(an_answer_to_one_of_two_forgotten_tasks),
        cmocka_unit_test(a_turn_that_is_refused_and_asked_for),
        cmocka_unit_test(a_connection_that_never_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
