/* The model beside the real engine on random commands: no finding, whatever happens. Part of what holds
 * tests/sim/model to the product (the simulator does the same with faults); MODEL_SEEDS and MODEL_FIRST set the seeds.
 */
#include "model_world.h"

#define IDS 7
#define ROUNDS 250

struct play {
    struct mw *w;
    struct prng p;
    uint64_t streams[4];
    bool token_less[4];
    struct mw_item *held[64];
    size_t held_n;
};

static unsigned roll(struct play *g, unsigned n)
{
    return (unsigned)(prng_u64(&g->p) % n);
}

static const char *some_id(struct play *g)
{
    return arena_printf(g->w->arena, "i%u", roll(g, IDS));
}

static void client(struct play *g)
{
    struct mw *w = g->w;
    const char *id = some_id(g);
    switch (roll(g, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: {
        CreateInstanceRequest *q = arena_new(w->arena, CreateInstanceRequest);
        create_instance_request__init(q);
        q->instanceid = wire_data(roll(g, 12) ? bytes_str(id) : BYTES_LIT(""));
        q->name = wire_data(BYTES_LIT("Root"));
        usec_t at = 0;
        if (roll(g, 6) == 0) {
            at = w->wall + roll(g, 5) * SECOND;
            q->scheduledstarttimestamp = arena_new(w->arena, Google__Protobuf__Timestamp);
            google__protobuf__timestamp__init(q->scheduledstarttimestamp);
            q->scheduledstarttimestamp->seconds = at / SECOND;
            q->scheduledstarttimestamp->nanos = (int32_t)(at % SECOND) * 1000;
        }
        if (roll(g, 4) == 0) {
            q->orchestrationidreusepolicy = arena_new(w->arena, OrchestrationIdReusePolicy);
            orchestration_id_reuse_policy__init(q->orchestrationidreusepolicy);
            static OrchestrationStatus all[] = {5, 0, 6, 7, 1, 3};
            q->orchestrationidreusepolicy->replaceablestatus = all;
            q->orchestrationidreusepolicy->n_replaceablestatus = 6;
        }
        mw_start_with(w, q, at);
        break;
    }
    case 4:
    case 5:
    case 6:
        mw_raise(w, id, "ev", arena_printf(w->arena, "%u", roll(g, 1000)));
        break;
    case 7:
        mw_suspend(w, id);
        break;
    case 8:
    case 9:
        mw_resume(w, id);
        break;
    case 10:
        mw_terminate(w, id, roll(g, 2));
        break;
    case 11:
        mw_purge(w, id);
        break;
    case 12:
        mw_get(w, roll(g, 2) ? "WaitForInstanceCompletion" : "WaitForInstanceStart", id,
               roll(g, 2));
        break;
    default:
        mw_get(w, "GetInstance", id, roll(g, 2));
        break;
    }
}

static OrchestratorAction *some_action(struct play *g, int32_t id)
{
    struct mw *w = g->w;
    switch (roll(g, 8)) {
    case 0:
    case 1:
    case 2:
        return mw_task(w, id);
    case 3:
        return mw_timer(w, id, w->wall + (usec_t)roll(g, 4000000) - 500000);
    case 4:
        return mw_child(w, id, roll(g, 2) ? some_id(g) : "");
    case 5:
        return mw_send_event(w, id, some_id(g));
    case 6: {
        OrchestratorAction *a =
            mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION);
        a->terminateorchestration = arena_new(w->arena, TerminateOrchestrationAction);
        terminate_orchestration_action__init(a->terminateorchestration);
        a->terminateorchestration->instanceid = wire_data(bytes_str(some_id(g)));
        a->terminateorchestration->recurse = roll(g, 2) == 0;
        return roll(g, 3) ? mw_task(w, id) : a;
    }
    default:
        return roll(g, 12)
                   ? mw_timer(w, id, w->wall + 1000)
                   : mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE__NOT_SET);
    }
}

static void answer_turn(struct play *g, struct mw_item *it, bool token_less)
{
    static const OrchestrationStatus ENDS[] = {1, 1, 1, 3, 5, 4, 2, 2};
    struct mw *w = g->w;
    OrchestratorResponse *q = arena_new(w->arena, OrchestratorResponse);
    orchestrator_response__init(q);
    q->instanceid = it->item->orchestratorrequest->instanceid;
    if (!token_less)
        q->completiontoken = it->item->completiontoken;
    q->actions = arena_array(w->arena, OrchestratorAction *, 8);
    int32_t base = (int32_t)roll(g, 6);
    for (unsigned n = roll(g, 4); n > 0; n--)
        q->actions[q->n_actions++] = some_action(g, base++);
    if (roll(g, 3) == 0) {
        OrchestratorAction *a = mw_finish(w, base, ENDS[roll(g, 8)]);
        if (roll(g, 3) == 0 && a->completeorchestration->orchestrationstatus == 2) {
            HistoryEvent *e = arena_new(w->arena, HistoryEvent);
            history_event__init(e);
            e->event_type_case = HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED;
            e->eventraised = arena_new(w->arena, EventRaisedEvent);
            event_raised_event__init(e->eventraised);
            e->eventraised->name = wire_data(BYTES_LIT("carried"));
            a->completeorchestration->carryoverevents = arena_array(w->arena, HistoryEvent *, 1);
            a->completeorchestration->carryoverevents[0] = e;
            a->completeorchestration->n_carryoverevents = 1;
        }
        q->actions[q->n_actions++] = a;
    }
    if (roll(g, 3) == 0)
        q->customstatus = mw_box(w, roll(g, 2) ? "\"half\"" : "");
    if (roll(g, 8) == 0) {
        q->numeventsprocessed = arena_new(w->arena, Google__Protobuf__Int32Value);
        google__protobuf__int32_value__init(q->numeventsprocessed);
        q->numeventsprocessed->value = (int32_t)roll(g, 4);
    }
    if (roll(g, 20) == 0)
        q->requireshistory = true;
    if (!token_less && roll(g, 12) == 0) {
        q->ispartial = true;
        if (roll(g, 2)) {
            q->chunkindex = arena_new(w->arena, Google__Protobuf__Int32Value);
            google__protobuf__int32_value__init(q->chunkindex);
        }
    }
    mw_respond(w, q, it->connection, token_less);
}

static void worker(struct play *g)
{
    struct mw *w = g->w;
    struct mw_item *it = NULL;
    if (g->held_n < 64 && roll(g, 3) && (it = mw_next(w))) {
        struct mw_item *copy = arena_new(w->arena, struct mw_item);
        *copy = *it;
        g->held[g->held_n++] = copy;
        return;
    }
    if (g->held_n == 0)
        return;
    size_t n = roll(g, (unsigned)g->held_n);
    it = g->held[n];
    bool token_less = false;
    for (int k = 0; k < 4; k++)
        if (g->streams[k] == it->stream)
            token_less = g->token_less[k];
    if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST)
        mw_result(w, it, token_less, roll(g, 4) == 0);
    else
        answer_turn(g, it, token_less);
    if (token_less || roll(g, 6)) /* else it answers again some time */
        g->held[n] = g->held[--g->held_n];
}

static void open_stream(struct play *g, int k)
{
    g->token_less[k] = k == 3;
    g->streams[k] = mw_stream(g->w, k == 3 ? 0 : (int32_t)roll(g, 4),
                              k == 3 ? 0 : (int32_t)roll(g, 4), g->token_less[k], 0);
}

static bool play(uint64_t seed)
{
    struct mw *w = mw_new(seed);
    struct play g = {.w = w};
    prng_seed(&g.p, seed);
    w->settings.cache_objects = 1 + roll(&g, 8);
    w->settings.turn_events = 1 + roll(&g, 5);
    if (roll(&g, 3) == 0)
        w->settings.history_max_events = 12 + roll(&g, 30);
    mw_settle(w);
    engine_free(w->e);
    store_close(w->store);
    mw_open(w); /* with these settings */
    for (int k = 0; k < 4; k++)
        if (k < 2 || roll(&g, 2))
            open_stream(&g, k);
    for (int round = 0; round < ROUNDS && !w->findings; round++) {
        for (unsigned n = roll(&g, 6); n > 0; n--)
            client(&g);
        for (unsigned n = roll(&g, 6); n > 0; n--)
            worker(&g);
        if (roll(&g, 3) == 0)
            mw_advance(w, (usec_t)roll(&g, 2000000));
        else
            mw_run(w);
        if (roll(&g, 25) == 0) {
            int k = (int)roll(&g, 4);
            if (g.streams[k])
                mw_stream_close(w, g.streams[k]);
            mw_run(w);
            open_stream(&g, k);
        }
        if (roll(&g, 60) == 0) {
            mw_crash(w);
            memset(g.streams, 0, sizeof(g.streams));
            for (int k = 0; k < 4; k++)
                if (k < 2 || roll(&g, 2))
                    open_stream(&g, k);
        }
    }
    bool ok = !w->findings;
    if (!ok && getenv("MODEL_PRINT"))
        model_print(w->m, NULL, BYTES_NONE);
    if (!ok) {
        print_error("seed %llu: [%s] %s\n", (unsigned long long)seed, w->checker, w->text);
    }
    mw_free(w);
    return ok;
}

static void random_commands_without_a_finding(void **state)
{
    const char *first = getenv("MODEL_FIRST"), *count = getenv("MODEL_SEEDS");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1,
             n = count ? strtoull(count, NULL, 10) : 6;
    unsigned bad = 0;
    (void)state;
    for (uint64_t seed = from; seed < from + n; seed++)
        bad += !play(seed);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_without_a_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
