/* test_waiters.c - blocked waits: who is woken, when, and with what (spec 3.4). */
#include <stdio.h>
#include <stdlib.h>

#include "lib/world.h"
#include "wire/unpack.h"

#include "lib/world_check.h"

static OrchestrationState *state_in(struct world *w, const struct world_answer *a)
{
    struct error err = {0};
    GetInstanceResponse *resp;
    assert_ok(a);
    enum err rc = wire_unpack(&get_instance_response__descriptor, w->arena, strbuf_bytes(&a->reply),
                              &WIRE_LIMITS, &resp, &err);
    assert_int_equal(rc, OK);
    return resp->exists ? resp->orchestrationstate : NULL;
}

/* checklist: 23, 29 */
static void a_thousand_waits_on_one_instance(void **state)
{
    struct world *w = world_new(NULL);
    struct world_answer *waits[1000];
    (void)state;
    for (int i = 0; i < 1000; i++)
        waits[i] = world_wait(w, "i", i % 2 ? DT_WAIT_PAYLOADS : 0, (uint64_t)i + 1);
    struct world_stream *st = world_stream(w, 1, 1);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, "out"), NULL));
    for (int i = 0; i < 1000; i++) {
        OrchestrationState *s = state_in(w, waits[i]);
        assert_int_equal(s->orchestrationstatus, COMPLETED);
        assert_text(s->output, i % 2 ? "out" : NULL);
    }
    struct engine_stats stats;
    engine_stats(w->e, &stats);
    assert_int_equal(stats.waiters, 0);
    world_free(w);
}

/* checklist: 26, 30 */
static void waits_outlive_replacement_and_purge(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    struct dt_start start = {.request = &req,
                             .has_policy = true,
                             .replaceable = DT_STATUS_BIT(RUNNING) | DT_STATUS_BIT(TERMINATED)};
    (void)state;
    req.name = wire_data(BYTES_LIT("P"));
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    assert_ok(world_do(w, DT_START, "i", &start));
    assert_false(wait->is_done);
    w->is_held = true; /* replaced, then purged while others come: the one wait is answered once */
    struct world_answer *purge = world_purge(w, "i");
    w->is_held = false;
    world_run(w);
    assert_ok(purge);
    assert_false(wait->is_done);
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_ok(wait);
    assert_ok(world_purge(w, "i"));
    struct world_answer *later = world_wait(w, "i", DT_WAIT_COMPLETION, 2);
    assert_false(later->is_done);
    engine_wait_expire(w->e, 2);
    assert_null(state_in(w, later));
    world_free(w);
}

/* Ended and purged, or ended and started again, in one batch: what the wait sees is the state of the commit. */
static void a_batch_that_ends_and_removes(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    w->is_held = true;
    struct world_answer *late = world_wait(w, "i", DT_WAIT_COMPLETION, 2);
    struct world_answer *done = world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL);
    struct world_answer *now = world_wait(w, "i", DT_WAIT_COMPLETION, 3);
    struct world_answer *again = world_start(w, "i", "P", NULL);
    w->is_held = false;
    world_run(w);
    assert_ok(done);
    assert_ok(now);
    assert_ok(again);
    assert_false(wait->is_done);
    assert_false(late->is_done);
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_ok(wait);
    assert_ok(late);
    world_free(w);
}

static void expire_second(struct engine *e, struct command *cmd)
{
    engine_wait_expire(e, cmd->object);
    cmd->done(cmd);
}

static void free_command(struct command *cmd)
{
    command_deinit(cmd);
    free(cmd);
}

/* The deadline and the completion in one batch: one answer, that of the commit. */
static void expiry_and_completion_in_one_batch(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(st);
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    w->is_held = true;
    struct world_answer *fresh = world_wait(w, "i", DT_WAIT_COMPLETION, 2);
    for (uint64_t id = 1; id <= 2; id++) {
        struct command *cmd = calloc(1, sizeof(*cmd));
        cmd->control = expire_second;
        cmd->object = id;
        cmd->done = free_command;
        engine_submit(w->e, cmd);
    }
    struct world_answer *done = world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL);
    w->is_held = false;
    world_run(w);
    assert_ok(done);
    assert_ok(wait);
    assert_ok(fresh);
    world_free(w);
}

/* checklist: 27, 28, 143 */
static void waits_that_are_given_up_leave_nothing(void **state)
{
    struct world *w = world_new(NULL);
    struct engine_stats stats;
    (void)state;
    w->settings.waiters_hub = 500;
    for (uint64_t i = 1; i <= 500; i++)
        assert_false(world_wait(w, "i", DT_WAIT_COMPLETION, i)->is_done);
    assert_refused(world_wait(w, "i", DT_WAIT_COMPLETION, 501), ERR_LIMIT);
    world_advance(w, 86400 * SECOND); /* no cap of the server's own */
    for (uint64_t i = 1; i <= 500; i++)
        engine_wait_cancel(w->e, i);
    engine_stats(w->e, &stats);
    assert_int_equal(stats.waiters, 0);
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_answer *start = world_wait(w, "i", DT_WAIT_START, 600);
    engine_wait_expire(w->e, 600);
    assert_refused(start, ERR_DEADLINE);
    assert_string_equal(start->msg, "Timed out waiting for instance 'i' to start");
    world_free(w);
}

static void draining_ends_all_waits_and_streams(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    struct world_answer *wait = world_wait(w, "i", DT_WAIT_COMPLETION, 1);
    engine_drain(w->e);
    assert_ok(world_start(w, "i", "P", NULL)); /* still taken, not handed out */
    assert_null(world_next(st));
    engine_drain_end(w->e);
    assert_refused(wait, ERR_UNAVAILABLE);
    assert_true(st->ended);
    assert_int_equal(st->end_status, OK);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_waits_on_one_instance),
        cmocka_unit_test(waits_outlive_replacement_and_purge),
        cmocka_unit_test(a_batch_that_ends_and_removes),
        cmocka_unit_test(expiry_and_completion_in_one_batch),
        cmocka_unit_test(waits_that_are_given_up_leave_nothing),
        cmocka_unit_test(draining_ends_all_waits_and_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
