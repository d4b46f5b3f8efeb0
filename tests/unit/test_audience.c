/* test_audience.c - many names wait: what a turn costs, and who gets what when streams with all sorts of filters come and go. */
#include <stdio.h>

#include "base/prng.h"
#include "lib/world.h"

#include "lib/world_check.h"

static const char *name_of(struct world *w, uint64_t i)
{
    return arena_printf(w->arena, "N%d", (int)i);
}

static void start_names(struct world *w, int count)
{
    for (int i = 0; i < count; i++)
        assert_ok(world_start(w, arena_printf(w->arena, "i%d", i), name_of(w, (uint64_t)i), NULL));
}

static void finish(struct world *w, struct world_stream *st)
{
    assert_ok(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, NULL), NULL));
}

/* How often streams were asked for room while `turns` turns were done, one at a time. */
static uint64_t cost_of_turns(int names, bool filtered, bool beside, int turns)
{
    struct world *w = world_new(NULL);
    struct work_filter *filters = arena_array(w->arena, struct work_filter, names);
    struct work_stream_options mine = {.capacity = {[WORK_TURN] = 1}, .filtered = filtered};
    for (int i = 0; i < names; i++)
        filters[i].name = bytes_str(name_of(w, (uint64_t)i));
    mine.filters[WORK_TURN] = filters;
    mine.filter_count[WORK_TURN] = (size_t)names;
    if (beside) { /* another worker in the hub, with room, that takes none of them */
        const struct work_filter other = {BYTES_LIT("other"), NULL, 0};
        struct work_stream_options theirs = {.filtered = true};
        theirs.filters[WORK_TURN] = &other;
        theirs.filter_count[WORK_TURN] = 1;
        world_stream_with(w, &theirs);
    }
    start_names(w, names);
    struct world_stream *st = world_stream_with(w, &mine);
    uint64_t before = w->asked_for_room;
    for (int i = 0; i < turns; i++)
        finish(w, st);
    uint64_t cost = w->asked_for_room - before;
    world_free(w);
    return cost;
}

static void a_turn_costs_the_same_however_many_names_wait(void **state)
{
    (void)state;
    for (int beside = 0; beside < 2; beside++)
        for (int filtered = 0; filtered < 2; filtered++) {
            uint64_t few = cost_of_turns(40, filtered, beside, 20);
            uint64_t many = cost_of_turns(600, filtered, beside, 20);
            assert_int_equal(few, many);
        }
}

enum { NAMES = 12, STREAMS = 6, ROOM = 2 };

struct crowd {
    struct world *w;
    struct world_stream *open[STREAMS];
    uint32_t takes[STREAMS]; /* a bit a name */
    int started[NAMES], done[NAMES], ids;
};

static unsigned number_of(struct world *w, const struct world_item *turn)
{
    const HistoryEvent *first = turn->item->orchestratorrequest->newevents[1];
    unsigned number = NAMES;
    sscanf(arena_cstr(w->arena, wire_view(first->executionstarted->name)), "N%u", &number);
    assert_true(number < NAMES);
    return number;
}

static void open_stream(struct crowd *c, uint64_t k, uint32_t takes)
{
    struct work_filter *f = arena_array(c->w->arena, struct work_filter, NAMES);
    struct work_stream_options o = {.filtered = true, .capacity = {[WORK_TURN] = ROOM}};
    c->takes[k] = takes;
    for (uint64_t i = 0; i < NAMES; i++)
        if (takes >> i & 1)
            f[o.filter_count[WORK_TURN]++].name = bytes_str(name_of(c->w, i));
    o.filters[WORK_TURN] = f;
    c->open[k] = world_stream_with(c->w, &o);
}

static void complete_one(struct crowd *c, struct world_stream *st, uint32_t takes)
{
    struct world_item *turn = world_turn(st);
    unsigned number = number_of(c->w, turn);
    assert_true(takes >> number & 1);
    assert_ok(world_complete(c->w, turn, act_done(c->w, 1, COMPLETED, NULL), NULL));
    c->done[number]++;
}

/* Nothing waits that a stream with room takes. */
static void nobody_waits_for_nothing(struct crowd *c)
{
    int waiting[NAMES];
    for (int n = 0; n < NAMES; n++)
        waiting[n] = c->started[n] - c->done[n];
    for (int k = 0; k < STREAMS; k++)
        for (size_t i = c->open[k] ? c->open[k]->taken : 0; c->open[k] && i < c->open[k]->count;
             i++)
            waiting[number_of(c->w, c->open[k]->items[i])]--;
    for (int k = 0; k < STREAMS; k++)
        for (int n = 0; n < NAMES; n++)
            if (c->open[k] && c->open[k]->count - c->open[k]->taken < ROOM && c->takes[k] >> n & 1)
                assert_int_equal(waiting[n], 0);
}

static void something_happens(struct crowd *c, struct prng *p)
{
    uint64_t k = prng_below(p, STREAMS), n = prng_below(p, NAMES);
    if (prng_below(p, 3) == 0) {
        assert_ok(
            world_start(c->w, arena_printf(c->w->arena, "i%d", c->ids++), name_of(c->w, n), NULL));
        c->started[n]++;
    } else if (!c->open[k]) {
        open_stream(c, k, (uint32_t)prng_below(p, 1u << NAMES));
    } else if (prng_below(p, 4) == 0) {
        world_close(c->open[k]);
        c->open[k] = NULL;
    } else if (c->open[k]->count > c->open[k]->taken) {
        complete_one(c, c->open[k], c->takes[k]);
    }
}

/* Each order of opening and closing streams whose filters overlap: an item goes to a stream that takes it as soon as one has room. */
static void streams_with_overlapping_filters_come_and_go(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct crowd c = {.w = world_new(NULL)};
        struct prng p;
        prng_seed(&p, seed);
        for (int i = 0; i < 200; i++) {
            something_happens(&c, &p);
            nobody_waits_for_nothing(&c);
        }
        struct world_stream *all = world_stream(c.w, 0, 0);
        for (int k = 0; k < STREAMS; k++)
            if (c.open[k])
                world_close(c.open[k]);
        while (all->count > all->taken)
            complete_one(&c, all, UINT32_MAX);
        for (int n = 0; n < NAMES; n++)
            assert_int_equal(c.done[n], c.started[n]);
        world_free(c.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_costs_the_same_however_many_names_wait),
        cmocka_unit_test(streams_with_overlapping_filters_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
