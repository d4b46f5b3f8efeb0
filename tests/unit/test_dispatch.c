/* test_dispatch.c - who gets what: filters, limits, order, fairness, giving back (spec 8). */
#include <stdio.h>

#include "lib/world.h"

#include "lib/world_check.h"

static struct world_answer *start_version(struct world *w, const char *id, const char *name,
                                          const char *version)
{
    CreateInstanceRequest *req = arena_new(w->arena, CreateInstanceRequest);
    struct dt_start *start = arena_new(w->arena, struct dt_start);
    create_instance_request__init(req);
    req->name = wire_data(bytes_str(name));
    req->version = wire_string_value(w->arena, bytes_str(version));
    start->request = req;
    return world_do(w, DT_START, id, start);
}

static int count_items(struct world_stream *st)
{
    int n = 0;
    while (world_next(st))
        n++;
    return n;
}

static const char *name(struct world *w, const char *prefix, int i)
{
    return arena_printf(w->arena, "%s%d", prefix, i);
}

/* checklist: 125 */
static void limits_are_per_kind_and_stream(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 2, 1), *b = world_stream(w, 1, 1);
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    assert_int_equal(a->count, 2);
    assert_int_equal(b->count, 1);
    struct world_item *turn = world_turn(b);
    assert_ok(world_complete(w, turn, act_task(w, 1, "T", NULL), act_task(w, 2, "T", NULL),
                             act_task(w, 3, "T", NULL), NULL));
    assert_int_equal(a->count + b->count, 2 + 2 + 2); /* a turn for b, a task for each */
    struct work_stream_options java = {.capacity_total = 3};
    struct world_stream *c = world_stream_with(w, &java);
    assert_int_equal(c->count, 2); /* a turn and a task are left */
    for (int i = 5; i < 9; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    assert_int_equal(c->count, 3);
    world_free(w);
}

/* checklist: 126 */
static void work_spreads_and_a_lost_workers_comes_back_in_order(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 0, 0), *b = world_stream(w, 0, 0);
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    assert_int_equal(a->count, 5);
    assert_int_equal(b->count, 5);
    world_close(a);
    assert_int_equal(b->count, 10);
    world_close(b);
    struct world_stream *c = world_stream(w, 1, 0);
    for (int i = 0; i < 10; i++) {
        struct world_item *turn = world_turn(c);
        assert_string_equal(turn_id(w, turn), name(w, "i", i));
        assert_ok(world_complete(w, turn, act_done(w, 1, COMPLETED, NULL), NULL));
    }
    world_free(w);
}

/* checklist: 127, 128 */
static void filters_by_name_and_version(void **state)
{
    static const struct {
        const char *name, *version;
        bool a, b, c, d;
    } CASES[] = {
        /* a: P with 1; b: P twice, one entry without versions; c: P any; d: P unversioned */
        {"P", "1", true, true, true, false},    {"P", "2", false, false, true, false},
        {"P", NULL, false, false, true, true},  {"P", "", false, false, true, true},
        {"p", "1", false, false, false, false}, {"Q", "1", false, false, false, false},
    };
    const struct bytes one[] = {BYTES_LIT("1")}, none[] = {BYTES_LIT("")};
    const struct work_filter a[] = {{BYTES_LIT("P"), one, 1}};
    const struct work_filter b[] = {{BYTES_LIT("P"), one, 1}, {BYTES_LIT("P"), NULL, 0}};
    const struct work_filter c[] = {{BYTES_LIT("P"), NULL, 0}};
    const struct work_filter d[] = {{BYTES_LIT("P"), none, 1}};
    const struct work_filter *const FILTERS[] = {a, b, c, d};
    const size_t COUNTS[] = {1, 2, 1, 1};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        for (size_t f = 0; f < 4; f++) {
            struct world *w = world_new(NULL);
            struct work_stream_options o = {.filtered = true};
            o.filters[WORK_TURN] = FILTERS[f];
            o.filter_count[WORK_TURN] = COUNTS[f];
            struct world_stream *st = world_stream_with(w, &o);
            assert_ok(start_version(w, "i", CASES[i].name, CASES[i].version));
            const bool want[] = {CASES[i].a, CASES[i].b, CASES[i].c, CASES[i].d};
            assert_int_equal(count_items(st), want[f]);
            world_free(w);
        }
    }
}

/* checklist: 127, 128 */
static void an_empty_list_takes_nothing_and_what_nobody_takes_blocks_nobody(void **state)
{
    struct world *w = world_new(NULL);
    struct work_stream_options none = {.filtered = true};
    const struct bytes v2[] = {BYTES_LIT("2")};
    const struct work_filter tasks[] = {{BYTES_LIT("T"), v2, 1}};
    struct work_stream_options only = {.filtered = true};
    (void)state;
    only.filters[WORK_TASK] = tasks;
    only.filter_count[WORK_TASK] = 1;
    struct world_stream *nothing = world_stream_with(w, &none), *b = world_stream_with(w, &only);
    for (int i = 0; i < 3; i++)
        assert_ok(start_version(w, name(w, "i", i), "P", "2"));
    assert_int_equal(count_items(nothing) + count_items(b), 0);
    assert_state(w, "i0", PENDING);
    struct world_stream *st = world_stream(w, 1, 0);
    /* No version of its own: that of the orchestration is used for matching, and is not sent. */
    OrchestratorAction *own = act_task(w, 2, "T", NULL), *empty = act_task(w, 3, "T", NULL);
    own->scheduletask->version = wire_string_value(w->arena, BYTES_LIT("1"));
    empty->scheduletask->version = wire_string_value(w->arena, BYTES_LIT(""));
    struct work_filter turns[] = {{BYTES_LIT("P"), NULL, 0}};
    struct work_stream_options turns_only = {.filtered = true};
    turns_only.filters[WORK_TURN] = turns;
    turns_only.filter_count[WORK_TURN] = 1;
    struct world_item *turn = world_turn(st);
    world_close(st);
    st = world_stream_with(w, &turns_only);
    turn = world_turn(st);
    assert_ok(world_complete(w, turn, act_task(w, 1, "T", NULL), own, empty, NULL));
    struct world_item *task = world_task(b);
    assert_int_equal(task->item->activityrequest->taskid, 1);
    assert_null(task->item->activityrequest->version);
    assert_null(world_next(b));
    world_free(w);
}

/* checklist: 154 */
static void a_new_version_is_matched_from_the_next_turn_on(void **state)
{
    struct world *w = world_new(NULL);
    const struct bytes v1[] = {BYTES_LIT("1")}, v2[] = {BYTES_LIT("2")};
    const struct work_filter one[] = {{BYTES_LIT("P"), v1, 1}}, two[] = {{BYTES_LIT("P"), v2, 1}};
    struct work_stream_options a = {.filtered = true}, b = {.filtered = true};
    (void)state;
    a.filters[WORK_TURN] = one;
    b.filters[WORK_TURN] = two;
    a.filter_count[WORK_TURN] = b.filter_count[WORK_TURN] = 1;
    struct world_stream *sa = world_stream_with(w, &a), *sb = world_stream_with(w, &b);
    assert_ok(start_version(w, "i", "P", "1"));
    OrchestratorAction *done = act_done(w, 1, AS_NEW, NULL);
    done->completeorchestration->newversion = wire_string_value(w->arena, BYTES_LIT("2"));
    assert_ok(world_complete(w, world_turn(sa), done, NULL));
    assert_null(world_next(sa));
    struct world_item *turn = world_turn(sb);
    assert_text(turn->item->orchestratorrequest->newevents[1]->executionstarted->version, "2");
    assert_text(world_get(w, "i")->version, "2");
    world_free(w);
}

/* checklist: 132 */
static void an_abandoned_item_goes_to_another_first(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    struct world_item *turn = world_turn(a);
    struct world_stream *b = world_stream(w, 1, 1);
    world_abandon(w, turn);
    struct world_item *other = world_turn(b); /* at once */
    assert_null(world_next(a));
    world_abandon(w, turn); /* its token is used up */
    assert_ok(world_complete(w, turn, act_done(w, 1, FAILED, NULL), NULL));
    assert_state(w, "i", PENDING);
    world_abandon(w, other);
    assert_null(world_next(b));
    assert_null(world_next(a));
    world_advance(w, 2 * SECOND);
    assert_int_equal(count_items(a) + count_items(b), 1);
    world_free(w);
}

/* More streams give an item back than it remembers: none of them gets it before its time. */
static void many_that_gave_it_back_are_all_waited_for(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *streams[WORK_SHUNNED_MAX + 2];
    int items = 0;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        streams[i] = world_stream(w, 1, 1);
        if (i + 1 < ARRAY_LEN(streams))
            world_abandon(w, world_turn(streams[i]));
        for (size_t k = 0; k <= i; k++)
            assert_null(world_next(streams[k])); /* nor the last, which has not given it back */
    }
    world_advance(w, 17 * SECOND); /* the fifth pause is of 16 s */
    for (size_t i = 0; i < ARRAY_LEN(streams); i++)
        items += count_items(streams[i]);
    assert_int_equal(items, 1);
    world_free(w);
}

/* Backoff doubles to the limit, and nobody else may have it either. */
static void backoff_grows_to_its_limit(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    usec_t wait = SECOND;
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    for (int i = 0; i < 9; i++) {
        world_abandon(w, world_turn(a));
        world_advance(w, wait - 1);
        assert_null(world_next(a));
        world_advance(w, 1);
        wait = MIN(2 * wait, 60 * SECOND);
    }
    assert_ok(world_complete(w, world_turn(a), act_done(w, 1, COMPLETED, NULL), NULL));
    world_free(w);
}

/* checklist: 91 */
static void endless_loops_do_not_starve_others(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_ok(world_start(w, name(w, "loop", i), "Loop", NULL));
    for (int i = 0; i < 20; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    int others = 0;
    for (int i = 0; i < 30; i++) {
        struct world_item *turn = world_turn(st);
        bool is_loop = strncmp(turn_id(w, turn), "loop", 4) == 0;
        others += !is_loop;
        assert_ok(
            world_complete(w, turn, act_done(w, 1, is_loop ? AS_NEW : COMPLETED, NULL), NULL));
    }
    assert_int_equal(others, 20);
    struct world_item *it = world_turn(st);
    assert_string_equal(world_past_events(w, it), ""); /* old executions are gone */
    world_free(w);
}

/* Kinds and hubs take turns on a server with one slow worker each. */
static void kinds_and_hubs_take_turns(void **state)
{
    struct world *w = world_new(NULL);
    struct work_stream_options o = {.capacity_total = 1};
    (void)state;
    assert_ok(world_start(w, "fan", "P", NULL));
    struct world_stream *st = world_stream(w, 1, 0);
    struct world_item *turn = world_turn(st);
    OrchestratorResponse *r = world_response(w, turn, NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 20);
    for (int i = 0; i < 20; i++)
        actions[i] = act_task(w, i, "T", NULL);
    r->actions = actions;
    r->n_actions = 20;
    world_close(st);
    st = world_stream_with(w, &o);
    turn = world_turn(st);
    r->completiontoken = wire_data(turn->token);
    for (int i = 0; i < 20; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    assert_ok(world_answer(w, 1, r));
    int kinds[2] = {0};
    for (int i = 0; i < 20; i++) {
        struct world_item *it = world_next(st);
        kinds[is_turn(it)]++;
        if (is_turn(it))
            assert_ok(world_complete(w, it, act_done(w, 1, COMPLETED, NULL), NULL));
        else
            assert_ok(world_result(w, it, NULL));
    }
    assert_int_equal(kinds[0], 10);
    assert_int_equal(kinds[1], 10);
    world_free(w);
}

/* The worker that ran the last turn is preferred, if it has room; else nobody waits for it. */
static void an_instance_sticks_to_its_worker(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_start(w, "q", "P", NULL));
    assert_ok(world_complete(w, world_turn(a), NULL));
    struct world_item *turn = world_turn(a);
    struct world_stream *b = world_stream(w, 5, 1);
    for (int i = 0; i < 5; i++) {
        assert_ok(world_complete(w, turn, NULL));
        assert_ok(world_raise(w, "q", "e", NULL));
        turn = world_turn(a);
    }
    assert_ok(world_raise(w, "i", "e", NULL));
    assert_string_equal(turn_id(w, world_turn(b)), "i");
    world_free(w);
}

/* checklist: 134 */
static void a_stream_that_is_not_read_gets_no_more(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 0, 0);
    (void)state;
    st->unsent = MIB(1);
    for (int i = 0; i < 10; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    world_advance(w, 3600 * SECOND); /* no pings either */
    assert_int_equal(st->count, 0);
    st->unsent = 0;
    work_stream_writable(w->e, st->id);
    assert_int_equal(count_items(st), 10);
    world_free(w);
}

/* checklist: 129 */
static void an_idle_stream_is_pinged(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    world_advance(w, 30 * SECOND);
    assert_int_equal(st->count, 1);
    assert_int_equal(st->items[0]->item->request_case, WORK_ITEM__REQUEST_HEALTH_PING);
    world_advance(w, 20 * SECOND);
    assert_ok(world_start(w, "i", "P", NULL));
    assert_int_equal(st->count, 2);
    world_advance(w, 29 * SECOND);
    assert_int_equal(st->count, 2); /* an item counts as well */
    world_advance(w, SECOND);
    assert_int_equal(st->count, 3);
    world_free(w);
}

/* The slot of an item is free once it is settled by anybody, also by the end of its instance. */
static void slots_are_freed_by_every_end(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *st = world_stream(w, 1, 1);
    (void)state;
    assert_ok(world_start(w, "i", "P", NULL));
    assert_ok(world_start(w, "j", "P", NULL));
    assert_ok(world_complete(w, world_turn(st), NULL));
    assert_string_equal(turn_id(w, world_turn(st)), "j");
    assert_ok(world_raise(w, "i", "e", NULL));
    assert_null(world_next(st));
    assert_ok(world_terminate(w, "j", "x", false));
    world_advance(w, 31 * SECOND); /* the grace time frees it */
    assert_state(w, "j", TERMINATED);
    assert_string_equal(turn_id(w, world_turn(st)), "i");
    struct engine_stats stats;
    engine_stats(w->e, &stats);
    assert_int_equal(stats.flight[WORK_TURN], 1);
    assert_int_equal(stats.ready[WORK_TURN] + stats.paused, 0);
    world_free(w);
}

/* Two abandoned items with a worker that is full: nothing is lost when it has room again. */
static void paused_items_wake_when_their_worker_has_room(void **state)
{
    struct world *w = world_new(NULL);
    struct world_stream *a = world_stream(w, 1, 1), *b = world_stream(w, 1, 1);
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_ok(world_start(w, name(w, "i", i), "P", NULL));
    int done = 0;
    world_abandon(w, world_turn(a));
    for (int i = 0; i < 40 && done < 4; i++) {
        struct world_stream *st = i % 2 ? a : b;
        struct world_item *it = world_next(st);
        if (!it) {
            world_advance(w, SECOND);
            continue;
        }
        if (i < 6) {
            world_abandon(w, it);
            continue;
        }
        assert_ok(world_complete(w, it, act_done(w, 1, COMPLETED, NULL), NULL));
        done++;
    }
    assert_int_equal(done, 4);
    world_free(w);
}

static void hub_seen(void *arg, struct bytes hub, uint8_t kind, uint64_t ready)
{
    unsigned *seen = arg;
    (void)ready;
    if (kind == WORK_TURN && bytes_eq(hub, BYTES_LIT("bogus")))
        (*seen)++;
}

static unsigned times_kept(struct world *w)
{
    unsigned seen = 0;
    engine_ready_each(w->e, hub_seen, &seen);
    return seen;
}

/* Clients may ask for any name of a hub: what is not in the store is kept only while somebody waits on it. */
static void a_hub_that_nobody_uses_is_forgotten(void **state)
{
    struct world *w = world_new(NULL);
    (void)state;
    w->hub = "bogus";
    struct world_stream *a = world_stream(w, 1, 1), *b = world_stream(w, 1, 1);
    struct world_answer *wait = world_wait(w, "x", 0, 77);
    assert_false(wait->is_done);
    assert_int_equal(times_kept(w), 1);
    world_close(a);
    engine_wait_expire(w->e, 77);
    assert_int_equal(times_kept(w), 1);
    world_close(b);
    assert_int_equal(times_kept(w), 0);
    wait = world_wait(w, "x", 0, 78);
    assert_int_equal(times_kept(w), 1);
    engine_wait_expire(w->e, 78);
    assert_int_equal(times_kept(w), 0);

    /* One that is in the store stays, and its waits are met by what comes later. */
    a = world_stream(w, 1, 1);
    wait = world_wait(w, "x", 0, 79);
    assert_ok(world_start(w, "x", "P", NULL));
    assert_ok(world_complete(w, world_turn(a), act_done(w, 1, COMPLETED, NULL), NULL));
    assert_true(wait->is_done);
    world_close(a);
    assert_int_equal(times_kept(w), 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_per_kind_and_stream),
        cmocka_unit_test(work_spreads_and_a_lost_workers_comes_back_in_order),
        cmocka_unit_test(filters_by_name_and_version),
        cmocka_unit_test(an_empty_list_takes_nothing_and_what_nobody_takes_blocks_nobody),
        cmocka_unit_test(a_new_version_is_matched_from_the_next_turn_on),
        cmocka_unit_test(an_abandoned_item_goes_to_another_first),
        cmocka_unit_test(many_that_gave_it_back_are_all_waited_for),
        cmocka_unit_test(backoff_grows_to_its_limit),
        cmocka_unit_test(endless_loops_do_not_starve_others),
        cmocka_unit_test(kinds_and_hubs_take_turns),
        cmocka_unit_test(a_hub_that_nobody_uses_is_forgotten),
        cmocka_unit_test(an_instance_sticks_to_its_worker),
        cmocka_unit_test(a_stream_that_is_not_read_gets_no_more),
        cmocka_unit_test(an_idle_stream_is_pinged),
        cmocka_unit_test(slots_are_freed_by_every_end),
        cmocka_unit_test(paused_items_wake_when_their_worker_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
