/* test_timers.c - durable timers: when, how often, clocks that step, many of them (spec 6.2). */
#include <stdio.h>
#include <stdlib.h>

#include "lib/world.h"

#include "lib/world_check.h"

/* One instance with timers at the due times, ids from 0. */
static void timers_of(struct world *w, struct world_stream *st, const char *id, const usec_t *due,
                      size_t n)
{
    assert_ok(world_start(w, id, "P", NULL));
    OrchestratorResponse *r = world_response(w, world_turn(st), NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, n);
    for (size_t i = 0; i < n; i++)
        actions[i] = act_timer(w, (int32_t)i, due[i]);
    r->actions = actions;
    r->n_actions = n;
    assert_ok(world_answer(w, 1, r));
}

/* checklist: 33, 63, 64 */
static void past_present_and_far_ones(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    usec_t now = w->wall;
    const usec_t due[] = {now - 10 * SECOND, now,          0,
                          -SECOND,           now + SECOND, now + 60 * 365 * 86400 * SECOND};
    (void)state;
    timers_of(w, st, "i", due, 6);
    struct world_item *turn = world_turn(st);
    assert_non_null(strstr(world_new_events(w, turn), "TimerFired(0)"));
    OrchestratorRequest *r = turn->item->orchestratorrequest;
    int64_t started =
        r->newevents[0]->timestamp->seconds * SECOND + r->newevents[0]->timestamp->nanos / 1000;
    assert_int_equal(r->n_newevents, 5);
    for (size_t i = 1; i < r->n_newevents; i++) {
        TimerFiredEvent *f = r->newevents[i]->timerfired;
        usec_t at = f->fireat->seconds * SECOND + f->fireat->nanos / 1000;
        assert_int_equal(at, due[f->timerid]);
        assert_true(started > at);
    }
    assert_ok(world_complete(w, turn, NULL));
    world_advance(w, SECOND - 1);
    assert_null(world_next(st));
    world_advance(w, 1);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted TimerFired(4)");
    assert_ok(world_complete(w, turn, NULL));
    world_advance(w, 59 * 365 * 86400 * SECOND);
    assert_null(world_next(st));
    world_advance(w, 365 * 86400 * SECOND);
    assert_string_equal(world_new_events(w, world_turn(st)), "OrchestratorStarted TimerFired(5)");
    world_free(w);
}

/* checklist: 65 */
static void overdue_ones_fire_at_the_start(void **state)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    const usec_t due[] = {w->wall + SECOND, w->wall + 5 * SECOND, w->wall + 3600 * SECOND};
    (void)state;
    timers_of(w, st, "i", due, 3);
    w->wall += 60 * SECOND;
    world_restart(w);
    world_advance(w, 2 * SECOND);
    st = world_stream(w, 1, 1);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted TimerFired(0) TimerFired(1)");
    assert_ok(world_complete(w, turn, NULL));
    assert_int_equal(world_sql(w, "SELECT count(*) FROM timer"), 1);
    assert_int_equal(world_sql(w, "SELECT number FROM meta WHERE name = 'timers'"), 1);
    assert_null(world_next(st));
    world_free(w);
}

/* reports: BL-047 */
static void clock_steps_lose_and_double_nothing(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    const usec_t due[] = {w->wall + 10 * SECOND, w->wall + 20 * SECOND};
    (void)state;
    timers_of(w, st, "i", due, 2);
    w->wall -= 3600 * SECOND; /* back: it waits for its time on the clock */
    world_advance(w, 20 * SECOND);
    assert_null(world_next(st));
    w->wall += 3600 * SECOND; /* and right again */
    world_advance(w, 0);
    struct world_item *turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn),
                        "OrchestratorStarted TimerFired(0) TimerFired(1)");
    assert_ok(world_complete(w, turn, act_timer(w, 2, w->wall + 60 * SECOND), NULL));
    w->wall += 86400 * SECOND; /* forward: due at once */
    world_advance(w, 0);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted TimerFired(2)");
    w->wall -= 2 * 86400 * SECOND;
    assert_ok(world_complete(w, turn, act_timer(w, 3, w->wall + SECOND), NULL));
    world_advance(w, SECOND);
    turn = world_turn(st);
    assert_string_equal(world_new_events(w, turn), "OrchestratorStarted TimerFired(3)");
    assert_ok(world_complete(w, turn, NULL));
    world_advance(w, 3 * 86400 * SECOND);
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 66 */
static void cancelled_ones_do_not_fire(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    struct engine_stats stats;
    (void)state;
    const usec_t due[] = {w->wall + SECOND};
    timers_of(w, st, "done", due, 1);
    assert_ok(world_raise(w, "done", "e", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 9, COMPLETED, NULL), NULL));
    timers_of(w, st, "next", due, 1);
    assert_ok(world_raise(w, "next", "e", NULL));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 9, AS_NEW, NULL), NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    engine_stats(w->e, &stats);
    assert_int_equal(stats.timers, 0);
    world_advance(w, 10 * SECOND);
    assert_null(world_next(st));
    world_free(w);
}

/* checklist: 65; more than memory keeps: each once, none early, the near ones never behind the far ones. */
static void more_timers_than_memory_keeps(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    enum { INSTANCES = 90, EACH = 500, N = INSTANCES * EACH };
    usec_t *due = calloc(N, sizeof(*due)), begin = w->wall;
    bool *seen = calloc(N, sizeof(*seen));
    (void)state;
    for (size_t i = 0; i < N; i++) /* scattered over 1000 s */
        due[i] = begin + 10 * SECOND + (usec_t)(i * 7919 % 1000) * SECOND + (usec_t)i;
    for (int i = 0; i < INSTANCES; i++)
        timers_of(w, st, arena_printf(w->arena, "%d", i), due + i * EACH, EACH);
    const usec_t soon[] = {begin + SECOND};
    timers_of(w, st, "soon", soon, 1);
    assert_true(engine_idle_time(w->e) <= SECOND);
    world_advance(w, SECOND);
    struct world_item *turn = world_turn(st);
    assert_string_equal(turn_id(w, turn), "soon"); /* at its time */
    assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    size_t fired = 0;
    for (int step = 0; step < 11 && fired < N; step++) {
        world_advance(w, 100 * SECOND);
        while ((turn = world_next(st))) {
            OrchestratorRequest *r = turn->item->orchestratorrequest;
            for (size_t i = 1; i < r->n_newevents; i++, fired++) {
                size_t at = (size_t)atoi(turn_id(w, turn)) * EACH +
                            (size_t)r->newevents[i]->timerfired->timerid;
                assert_false(seen[at]);
                seen[at] = true;
                assert_true(due[at] <= w->wall);
            }
            assert_ok(world_complete(w, turn, NULL));
        }
    }
    assert_int_equal(fired, N);
    struct engine_stats stats;
    engine_stats(w->e, &stats);
    assert_int_equal(stats.timers, 0);
    free(due);
    free(seen);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_present_and_far_ones),
        cmocka_unit_test(overdue_ones_fire_at_the_start),
        cmocka_unit_test(clock_steps_lose_and_double_nothing),
        cmocka_unit_test(cancelled_ones_do_not_fire),
        cmocka_unit_test(more_timers_than_memory_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
