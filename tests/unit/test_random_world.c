/* test_random_world.c - fifty small worlds drawn from fixed seeds: clients, workers with and without tokens, lost streams, restarts, a
 * store that fails now and then, clocks that step. At the end all heals, and everything must have ended well.
 *
 * Orchestrations follow a program that is drawn from their id: the worker decides from the events of the item alone, as a real one does, and
 * checks that they are a legal history. A seed as argument runs that one.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/fault_vfs.h"
#include "lib/world.h"

#include "lib/world_check.h"

#define SEEDS 50
#define OPERATIONS 160
#define IDS 12
#define HELD 64
#define WAITS 64
#define STREAMS 4
#define STEPS 5
#define DEPTH 3
#define GENERATIONS 3

struct held {
    struct world_item *item;
    uint64_t connection; /* 0: with a token */
};

struct wait {
    struct world_answer *answer;
    const char *id;
};

struct sim {
    struct world *w;
    struct prng p;
    uint64_t seed;
    struct world_stream *streams[STREAMS];
    uint64_t connections[STREAMS]; /* 0: with tokens */
    struct held held[HELD];
    size_t held_count;
    struct wait waits[WAITS];
    size_t wait_count;
    bool must_exist[IDS]; /* a start was acknowledged, and nothing removed it */
    uint64_t next_connection, next_event, next_wait;
    bool is_faulty;
};

static uint64_t draw(struct sim *s, uint64_t below)
{
    return prng_u64(&s->p) % below;
}

static const char *random_id(struct sim *s, size_t *index)
{
    *index = draw(s, IDS);
    return arena_printf(s->w->arena, "i%zu", *index);
}

/* ---- the program of an orchestration ------------------------------------------------------------------ */

/* What a history says: how many actions of each id are open, in what order they were made. */
struct view {
    const char *id;
    const char *input;
    bool started, terminated, ended;
    int32_t scheduled, open;
    bool is_open[256];
};

static void see(struct view *v, struct world *w, const HistoryEvent *ev)
{
    int32_t resolved = -1;
    assert_false(v->ended);
    assert_non_null(ev->timestamp);
    assert_true(ev->timestamp->seconds > 0);
    switch (ev->event_type_case) {
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED:
        assert_false(v->started);
        v->started = true;
        v->input = ev->executionstarted->input
                       ? arena_cstr(w->arena, wire_view(ev->executionstarted->input->value))
                       : "0";
        return;
    case HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED:
    case HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED:
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED:
        assert_in_range(ev->eventid, 0, 255);
        assert_false(v->is_open[ev->eventid]); /* ids are not used again here */
        assert_int_equal(ev->eventid, v->scheduled);
        v->is_open[ev->eventid] = true;
        v->scheduled++;
        v->open++;
        return;
    case HISTORY_EVENT__EVENT_TYPE_EVENT_SENT:
        assert_int_equal(ev->eventid, v->scheduled);
        v->scheduled++;
        return;
    case HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED:
        resolved = ev->taskcompleted->taskscheduledid;
        break;
    case HISTORY_EVENT__EVENT_TYPE_TASK_FAILED:
        resolved = ev->taskfailed->taskscheduledid;
        break;
    case HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED:
        resolved = ev->timerfired->timerid;
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED:
        resolved = ev->suborchestrationinstancecompleted->taskscheduledid;
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED:
        resolved = ev->suborchestrationinstancefailed->taskscheduledid;
        break;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED:
        v->terminated = true;
        return;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_COMPLETED:
        v->ended = true;
        return;
    default:
        return;
    }
    assert_in_range(resolved, 0, 255);
    assert_true(v->is_open[resolved]); /* once, and only what was asked for */
    v->is_open[resolved] = false;
    v->open--;
}

static uint64_t plan_of(const struct view *v, const char *what)
{
    struct strbuf key = {0};
    strbuf_appendf(&key, "%s/%s/%d/%s", v->id, v->input, v->scheduled, what);
    uint64_t hash = hash_u64(bytes_hash(strbuf_bytes(&key)));
    strbuf_deinit(&key);
    return hash;
}

static int depth_of(const char *id)
{
    int n = 0;
    for (; *id; id++)
        n += *id == '.';
    return n;
}

static size_t next_step(struct world *w, const struct view *v, OrchestratorAction **out)
{
    int32_t id = v->scheduled;
    size_t n = 0;
    int generation = atoi(v->input);
    if (v->terminated) {
        out[n++] = act_done(w, id, TERMINATED, "told");
        return n;
    }
    if (v->open > 0)
        return 0;
    uint64_t plan = plan_of(v, "step");
    if (v->scheduled >= STEPS) {
        bool next = generation + 1 < GENERATIONS && plan % 3 == 0;
        if (plan % 5 == 0) /* fire and forget */
            out[n++] = act_task(w, id++, "T", "last");
        out[n++] = act_done(w, id,
                            next            ? AS_NEW
                            : plan % 7 == 0 ? FAILED
                                            : COMPLETED,
                            next ? arena_printf(w->arena, "%d", generation + 1) : "end");
        return n;
    }
    switch (plan % 5) {
    case 0:
        for (uint64_t i = 0; i <= plan / 8 % 4; i++)
            out[n++] = act_task(w, id++, plan / 64 % 2 ? "T" : "U", "in");
        break;
    case 1:
        out[n++] = act_timer(w, id, w->wall + (usec_t)(plan / 8 % 20) * SECOND);
        break;
    case 2:
        out[n++] = depth_of(v->id) < DEPTH
                       ? act_child(w, id, "P", arena_printf(w->arena, "%s.%d", v->id, id))
                       : act_timer(w, id, 0);
        break;
    case 3:
        out[n++] =
            act_send(w, id++, arena_printf(w->arena, "i%d", (int)(plan / 8 % IDS)), "ping", NULL);
        out[n++] = act_task(w, id, "U", "in");
        break;
    default:
        out[n++] = act_task(w, id++, "T", "in");
        out[n++] = act_timer(w, id, w->wall + SECOND);
        break;
    }
    return n;
}

static OrchestratorResponse *answer_of(struct world *w, const struct world_item *turn)
{
    const OrchestratorRequest *r = turn->item->orchestratorrequest;
    struct view v = {.id = turn_id(w, turn), .input = "0"};
    assert_true(r->n_newevents >= 2);
    assert_int_equal(r->newevents[0]->event_type_case,
                     HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED);
    for (size_t i = 0; i < r->n_pastevents; i++)
        see(&v, w, r->pastevents[i]);
    for (size_t i = 0; i < r->n_newevents; i++) {
        assert_true(i == 0 || r->newevents[i]->event_type_case !=
                                  HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED);
        see(&v, w, r->newevents[i]);
    }
    assert_true(v.started);
    OrchestratorResponse *answer = world_response(w, turn, NULL);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 8);
    answer->n_actions = next_step(w, &v, actions);
    answer->actions = actions;
    return answer;
}

/* ---- workers -------------------------------------------------------------------------------------------------- */

static void take_items(struct sim *s)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct world_stream *st = s->connections[i] ? NULL : s->streams[i];
        for (struct world_item *it; st && s->held_count < HELD && (it = world_next(st));)
            s->held[s->held_count++] = (struct held){it, 0};
    }
}

static void settle(struct sim *s, const struct held *h)
{
    struct world *w = s->w;
    if (!is_turn(h->item)) {
        const ActivityRequest *r = h->item->item->activityrequest;
        if (h->connection)
            world_result_on(w, h->connection,
                            arena_cstr(w->arena, wire_view(r->orchestrationinstance->instanceid)),
                            r->taskid, "1");
        else if (draw(s, 8) == 0)
            world_failure(w, h->item, "E", "m");
        else
            world_result(w, h->item, "1");
        return;
    }
    OrchestratorResponse *r = answer_of(w, h->item);
    if (h->connection)
        r->completiontoken = wire_data(BYTES_LIT(""));
    world_answer(w, h->connection ? h->connection : 1, r);
}

static void work(struct sim *s)
{
    take_items(s);
    if (s->held_count == 0)
        return;
    size_t at = draw(s, s->held_count);
    struct held h = s->held[at];
    s->held[at] = s->held[--s->held_count];
    uint64_t fate = draw(s, 20);
    if (fate == 0 && !h.connection)
        world_abandon(s->w, h.item);
    else if (fate == 1)
        settle(s, &h), settle(s, &h); /* twice */
    else if (fate != 2)               /* 2: forgotten; its stream will end some day */
        settle(s, &h);
}

/* Without tokens: answered at once and once, or never. Later or doubled answers are the stated limit of spec 8.2. */
static void work_token_less(struct sim *s)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct world_stream *st = s->connections[i] ? s->streams[i] : NULL;
        for (struct world_item *it; st && (it = world_next(st));)
            if (draw(s, 5) > 0)
                settle(s, &(struct held){it, s->connections[i]});
    }
}

static void open_stream(struct sim *s, size_t i)
{
    struct work_stream_options o = {0};
    s->connections[i] = draw(s, 3) == 0 ? ++s->next_connection : 0;
    o.connection = s->connections[i];
    o.token_less = s->connections[i] != 0;
    o.capacity[WORK_TURN] = (uint32_t)draw(s, 4);
    o.capacity[WORK_TASK] = (uint32_t)draw(s, 4);
    s->streams[i] = world_stream_with(s->w, &o);
}

static void close_stream(struct sim *s, size_t i)
{
    if (s->streams[i])
        world_close(s->streams[i]);
    s->streams[i] = NULL;
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

static void start(struct sim *s)
{
    size_t i;
    const char *id = random_id(s, &i);
    CreateInstanceRequest *req = arena_new(s->w->arena, CreateInstanceRequest);
    struct dt_start *st = arena_new(s->w->arena, struct dt_start);
    create_instance_request__init(req);
    req->name = wire_data(BYTES_LIT("P"));
    req->input = wire_string_value(s->w->arena, BYTES_LIT("0"));
    st->request = req;
    if (draw(s, 3) == 0) {
        st->has_policy = true;
        st->replaceable = (uint32_t)draw(s, 256) | DT_STATUS_BIT(TERMINATED);
    }
    if (draw(s, 6) == 0)
        st->start_at = s->w->wall + (usec_t)draw(s, 30) * SECOND;
    if (world_do(s->w, DT_START, id, st)->status == OK)
        s->must_exist[i] = true;
}

static void wait_for(struct sim *s)
{
    size_t i;
    if (s->wait_count == WAITS)
        return;
    const char *id = random_id(s, &i);
    s->waits[s->wait_count++] =
        (struct wait){world_wait(s->w, id, DT_WAIT_COMPLETION, ++s->next_wait), id};
}

static void call(struct sim *s)
{
    size_t i;
    const char *id = random_id(s, &i);
    switch (draw(s, 6)) {
    case 0:
        world_terminate(s->w, id, "x", draw(s, 2));
        return;
    case 1:
        world_suspend(s->w, id);
        return;
    case 2:
        world_resume(s->w, id);
        return;
    case 3:
        s->must_exist[i] = false;
        world_purge(s->w, id);
        return;
    default:
        world_raise(s->w, id, arena_printf(s->w->arena, "e%d", (int)++s->next_event), NULL);
    }
}

/* ---- trouble ---------------------------------------------------------------------------------------------------------- */

static void restart(struct sim *s)
{
    fault_vfs_heal();
    s->is_faulty = false;
    s->held_count = 0;
    memset(s->streams, 0, sizeof(s->streams));
    world_restart(s->w);
    for (size_t i = 0; i < s->wait_count; i++)
        assert_true(s->waits[i].answer->is_done);
    s->wait_count = 0;
}

static void fail_something(struct sim *s)
{
    static const enum fault_op OPS[] = {FAULT_WRITE, FAULT_SYNC, FAULT_GROW, FAULT_READ,
                                        FAULT_LOCK};
    if (s->is_faulty) {
        fault_vfs_heal();
        s->is_faulty = false;
        return;
    }
    enum fault_op op = OPS[draw(s, ARRAY_LEN(OPS))];
    s->is_faulty = true;
    fault_vfs_fail(op, 1 + (unsigned)draw(s, 6), op == FAULT_GROW ? SQLITE_FULL : SQLITE_IOERR,
                   draw(s, 2));
}

static void time_goes(struct sim *s)
{
    if (draw(s, 20) == 0)
        s->w->wall += ((int64_t)draw(s, 200) - 100) * SECOND; /* a step, either way */
    world_advance(s->w, (usec_t)draw(s, 4000) * USEC_PER_MSEC);
}

static void operate(struct sim *s)
{
    uint64_t op = draw(s, 100);
    size_t i = draw(s, STREAMS);
    if (op < 12)
        start(s);
    else if (op < 24)
        call(s);
    else if (op < 28)
        wait_for(s);
    else if (op < 40)
        time_goes(s);
    else if (op < 46)
        s->streams[i] ? close_stream(s, i) : open_stream(s, i);
    else if (op < 47)
        restart(s);
    else if (op < 50)
        fail_something(s);
    else
        work(s);
    work_token_less(s);
}

/* ---- the end ------------------------------------------------------------------------------------------------------------ */

static int64_t running(struct sim *s)
{
    return world_sql(s->w, "SELECT count(*) FROM object WHERE status IN (0, 6, 7)");
}

static void heal(struct sim *s)
{
    struct world *w = s->w;
    fault_vfs_heal();
    world_advance(w, SECOND);
    assert_true(engine_is_healthy(w->e));
    for (size_t i = 0; i < STREAMS; i++)
        close_stream(s, i);
    s->held_count = 0;
    for (size_t i = 0; i < IDS; i++) {
        struct world_answer *a = world_resume(w, arena_printf(w->arena, "i%zu", i));
        assert_true(a->status == OK || a->status == ERR_NOT_FOUND);
    }
    s->streams[0] = world_stream(w, 0, 0);
    s->connections[0] = 0;
    for (int round = 0; round < 400; round++) {
        take_items(s);
        if (s->held_count == 0 && running(s) == 0)
            break;
        while (s->held_count > 0)
            settle(s, &s->held[--s->held_count]);
        world_advance(w, 10 * SECOND);
    }
    world_advance(w, 200 * SECOND);
    world_run(w);
}

static void check_history(struct world *w, const char *id)
{
    struct view v = {.id = id, .input = "0"};
    const OrchestratorRequest *all = world_events(w, id);
    for (size_t i = 0; i < all->n_pastevents; i++) {
        const HistoryEvent *ev = all->pastevents[i];
        see(&v, w, ev);
        for (size_t k = 0; ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED && k < i;
             k++) {
            const HistoryEvent *other = all->pastevents[k];
            bool same =
                other->event_type_case == HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED &&
                bytes_eq(wire_view(other->eventraised->name), wire_view(ev->eventraised->name)) &&
                ev->eventraised->name.data[0] == 'e';
            assert_false(same); /* no acknowledged event twice */
        }
    }
    assert_true(v.started);
    assert_true(v.ended);
}

static void check(struct sim *s)
{
    struct world *w = s->w;
    struct engine_stats stats;
    assert_int_equal(running(s), 0);
    static const char *const TABLES[] = {"inbox", "task", "timer", "mailbox", "trash"};
    for (size_t i = 0; i < ARRAY_LEN(TABLES); i++)
        assert_int_equal(world_sql(w, "SELECT count(*) FROM %s", TABLES[i]), 0);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM history WHERE execution NOT IN "
                                  "(SELECT execution FROM object)"),
                     0);
    assert_int_equal(
        world_sql(w, "SELECT count(*) FROM count AS c WHERE n <> (SELECT count(*) FROM object AS o "
                     "WHERE o.hub = c.hub AND o.kind = c.kind AND o.status = c.status)"),
        0);
    assert_int_equal(
        world_sql(w, "SELECT (SELECT sum(n) FROM count) - (SELECT count(*) FROM object)"), 0);
    assert_int_equal(world_sql(w, "SELECT number FROM meta WHERE name = 'timers'"), 0);
    engine_stats(w->e, &stats);
    for (unsigned k = 1; k < WORK_KINDS; k++)
        assert_int_equal(stats.ready[k] + stats.flight[k], 0);
    assert_int_equal(stats.paused, 0);
    for (size_t i = 0; i < IDS; i++) {
        const char *id = arena_printf(w->arena, "i%zu", i);
        OrchestrationState *state = world_get(w, id);
        assert_true(state || !s->must_exist[i]);
        if (state)
            check_history(w, id);
        for (size_t k = 0; k < s->wait_count; k++)
            if (strcmp(s->waits[k].id, id) == 0)
                assert_int_equal(state && !s->waits[k].answer->is_done, 0);
    }
}

static void run_seed(uint64_t seed)
{
    struct sim s = {.seed = seed, .next_connection = 1000};
    fault_vfs_register();
    fault_vfs_reset();
    prng_seed(&s.p, seed);
    s.w = world_new_file(FAULT_VFS);
    prng_seed(&s.w->prng, seed);
    if (seed % 2) {
        s.w->settings.cache_objects = 1 + draw(&s, 8);
        s.w->settings.ready_group = 1 + draw(&s, 6);
        s.w->settings.turn_events = 1 + draw(&s, 10);
    }
    if (seed % 3 == 0) {
        s.w->settings.turn_timeout = (5 + draw(&s, 30)) * SECOND;
        s.w->settings.activity_timeout = (5 + draw(&s, 30)) * SECOND;
    }
    for (int i = 0; i < OPERATIONS; i++)
        operate(&s);
    heal(&s);
    check(&s);
    world_free(s.w);
}

static uint64_t only;

static void every_world_ends_well(void **state)
{
    (void)state;
    for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run_seed(seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_world_ends_well)};
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
