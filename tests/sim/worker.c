#include "sim/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/net.h"
#include "sim/program.h"
#include "sim/server.h"
#include "wire/pack.h"
#include "wire/unpack.h"
#include "wire/value.h"

#define SPARE_MAX 24
#define JAVA_NEW_STREAM (5 * USEC_PER_SEC)

enum sdk { SDK_PY, SDK_JS, SDK_GO, SDK_JAVA, SDK_COUNT };

enum habit {
    HABIT_FORGETS = 1,
    HABIT_TWICE = 2,
    HABIT_STALE = 4,
    HABIT_ABANDONS = 8,
    HABIT_PARTIAL = 16,
    HABIT_LIES = 32,
    HABIT_SLOW = 64,
};

static const char *const AGENTS[SDK_COUNT] = {"grpc-python/1.62.0",
                                              "durabletask-js grpc-node-js/1.9",
                                              "app grpc-go/1.56.3", "grpc-java-netty/1.59.0"};

/* An item the worker has, until it is answered. */
struct held {
    struct list_node link;
    struct worker *w;
    struct arena *arena;
    WorkItem *item;
    uint32_t index; /* of all items of this worker */
    struct sched_event answer;
    usec_t came;
};

/* A completion that was sent, to be sent again much later; or one that was held back, to be sent when its turn is out again. */
struct spare {
    const char *method;
    struct strbuf bytes;
    uint64_t turn; /* hash of the instance's id; 0: it was sent */
};

struct worker {
    struct sim *s;
    unsigned number;
    uint64_t actor;
    enum sdk sdk;
    unsigned habits;
    bool filters;
    uint32_t turns, tasks; /* limits; 0: none */
    struct prng p;
    struct net_conn *conn;
    struct call *stream;
    struct list items; /* struct held */
    uint32_t item_count;
    usec_t busy_until; /* JAVA */
    usec_t backoff;
    struct spare spares[SPARE_MAX];
    size_t spare_count;
    uint64_t spare_wanted; /* the turn whose old answer goes next; 0: any */
    struct sched_event connect, spare_event;
};

bool worker_is_token_less(const struct worker *w)
{
    return w->sdk == SDK_GO || w->sdk == SDK_JAVA;
}

struct net_conn *worker_conn(struct worker *w)
{
    return w->conn;
}

/* ---- items ------------------------------------------------------------------------------------------------ */

static void held_free(struct held *h)
{
    sched_cancel(&h->w->s->sched, &h->answer);
    list_remove(&h->link);
    arena_free(h->arena);
    free(h);
}

static void drop_items(struct worker *w)
{
    while (!list_is_empty(&w->items))
        held_free(LIST_ENTRY(list_first(&w->items), struct held, link));
}

static void open_stream(struct worker *w);
static void open_again(void *arg)
{
    struct worker *w = arg;
    if (w->conn && w->conn->client)
        open_stream(w);
}

/* JAVA leaves its stream open and unread. */
static void completion_over(struct call *c, void *arg)
{
    struct worker *w = arg;
    if (c->status == GRPC_UNAVAILABLE && c->is_answered)
        hit(HIT_AGAIN_REFUSED);
    if (c->status == GRPC_RESOURCE_EXHAUSTED && strstr(c->message_text, "maximum history size"))
        hit(HIT_LIMIT_HISTORY);
    if (w->sdk != SDK_JAVA || c->status == GRPC_OK || !w->stream || !w->conn || !w->conn->client)
        return;
    w->stream->message = NULL;
    w->stream->done = NULL;
    w->stream = NULL;
    drop_items(w);
    sched_call(&w->s->sched, sim_now(w->s) + JAVA_NEW_STREAM, open_again, w);
}

static void complete(struct worker *w, const char *method, struct bytes bytes)
{
    if (!w->conn || !w->conn->client)
        return;
    w->s->actions++;
    net_call(w->conn, method, bytes, 0, completion_over, w);
}

static void complete_message(struct worker *w, const char *method, const ProtobufCMessage *msg)
{
    struct strbuf bytes = {0};
    wire_pack_into(msg, &bytes);
    complete(w, method, strbuf_bytes(&bytes));
    if (w->habits & HABIT_STALE && !(w->habits & HABIT_LIES) && w->spare_count < SPARE_MAX) {
        w->spares[w->spare_count++] = (struct spare){method, bytes, 0};
        return;
    }
    strbuf_deinit(&bytes);
}

static void send_spare(void *arg)
{
    struct worker *w = arg;
    struct sim *s = w->s;
    if (s->is_over)
        return;
    sched_set(&s->sched, &w->spare_event,
              sim_now(s) + draw_time(&w->p, 200 * USEC_PER_MSEC, 8 * USEC_PER_SEC));
    if (w->spare_count == 0)
        return;
    size_t i = prng_below(&w->p, w->spare_count);
    for (size_t k = 0; w->spare_wanted && k < w->spare_count; k++)
        if (w->spares[k].turn == w->spare_wanted)
            i = k;
    w->spare_wanted = 0;
    hit(HIT_ITEM_STALE);
    complete(w, w->spares[i].method, strbuf_bytes(&w->spares[i].bytes));
    strbuf_deinit(&w->spares[i].bytes);
    w->spares[i] = w->spares[--w->spare_count];
}

static void abandon(struct held *h, bool is_turn)
{
    AbandonOrchestrationTaskRequest req;
    abandon_orchestration_task_request__init(&req);
    req.completiontoken = h->item->completiontoken;
    hit(HIT_ITEM_ABANDONED);
    complete_message(h->w,
                     is_turn ? "AbandonTaskOrchestratorWorkItem" : "AbandonTaskActivityWorkItem",
                     &req.base);
}

/* ---- turns ---------------------------------------------------------------------------------------------------- */

static Google__Protobuf__Int32Value *number(struct arena *a, int32_t value)
{
    Google__Protobuf__Int32Value *v = arena_new(a, Google__Protobuf__Int32Value);
    google__protobuf__int32_value__init(v);
    v->value = value;
    return v;
}

static void add_action(struct arena *a, OrchestratorResponse *r, OrchestratorAction *act)
{
    OrchestratorAction **all = arena_array(a, OrchestratorAction *, r->n_actions + 1);
    for (size_t i = 0; i < r->n_actions; i++)
        all[i] = r->actions[i];
    all[r->n_actions++] = act;
    r->actions = all;
}

static void lie_about_actions(struct arena *a, struct prng *p, OrchestratorResponse *r)
{
    OrchestratorAction *act =
        program_action(a, 190, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE__NOT_SET);
    hit(HIT_LIE_ACTION);
    switch (prng_below(p, 4)) {
    case 0:
        act->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK;
        act->scheduletask = arena_new(a, ScheduleTaskAction);
        schedule_task_action__init(act->scheduletask);
        break;
    case 1:
        act->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION;
        act->completeorchestration = arena_new(a, CompleteOrchestrationAction);
        complete_orchestration_action__init(act->completeorchestration);
        break;
    case 2:
        act->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER;
        act->createtimer = arena_new(a, CreateTimerAction);
        create_timer_action__init(act->createtimer);
        break;
    default:
        break; /* an empty oneof */
    }
    add_action(a, r, act);
}

static Google__Protobuf__StringValue *filler(struct arena *a, size_t len, uint8_t with)
{
    uint8_t *p = arena_alloc(a, len);
    memset(p, with, len);
    return wire_string_value(a, bytes_of(p, len));
}

static void lie(struct worker *w, struct held *h, struct prng *p, OrchestratorResponse *r)
{
    struct arena *a = h->arena;
    switch (prng_below(p, 7)) {
    case 0:
        hit(HIT_LIE_UTF8);
        r->customstatus = filler(a, 3, 0xff);
        break;
    case 1:
        if (w->s->settings.request_bytes > KIB(64))
            break;
        hit(HIT_LIE_OVERSIZE);
        r->customstatus = filler(a, w->s->settings.request_bytes + 10, 'x');
        break;
    case 2:
        hit(HIT_LIE_IDS);
        r->instanceid = wire_data(BYTES_LIT("somebody-else"));
        break;
    case 3:
        hit(HIT_LIE_COUNT);
        r->numeventsprocessed = number(a, prng_below(p, 2) ? -1 : 100000);
        break;
    case 4:
        hit(HIT_LIE_GAP);
        r->ispartial = true;
        r->chunkindex = number(a, 5);
        break;
    case 5: {
        hit(HIT_LIE_DEEP);
        OrchestratorAction *act = program_action(
            a, 191, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION);
        act->completeorchestration = arena_new(a, CompleteOrchestrationAction);
        complete_orchestration_action__init(act->completeorchestration);
        act->completeorchestration->orchestrationstatus =
            ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED;
        act->completeorchestration->failuredetails =
            program_failure(a, prng_below(p, 2) ? 150 : 400);
        add_action(a, r, act);
        break;
    }
    default:
        lie_about_actions(a, p, r);
    }
}

static void send_chunk(struct held *h, const OrchestratorResponse *whole, int32_t index,
                       size_t from, size_t to, bool is_last)
{
    OrchestratorResponse part = *whole;
    part.ispartial = !is_last;
    part.actions = whole->actions + from;
    part.n_actions = to - from;
    part.chunkindex = number(h->arena, index);
    if (index > 0)
        part.numeventsprocessed = number(h->arena, 0);
    complete_message(h->w, "CompleteOrchestratorTask", &part.base);
}

/* Whole actions in chunks; the first has numEventsProcessed unset, the later ones 0. Some begin anew after the first, which drops
 * it: what follows counts from there. */
static void send_chunks(struct held *h, struct prng *p, const OrchestratorResponse *r)
{
    size_t n = r->n_actions, half = n / 2, last = n ? n - 1 : 0;
    hit(HIT_ITEM_CHUNKED);
    if (draw_one_in(p, 2)) {
        hit(HIT_ITEM_ANEW);
        send_chunk(h, r, 0, 0, half / 2, false);
        send_chunk(h, r, 0, 0, half / 2, false);
        send_chunk(h, r, 1, half / 2, last, false);
        send_chunk(h, r, 2, last, n, true);
        return;
    }
    send_chunk(h, r, 0, 0, half, false);
    send_chunk(h, r, 1, half, n, true);
}

static bool respond(struct held *h, OrchestratorResponse *r, unsigned events_max, uint64_t salt)
{
    struct worker *w = h->w;
    const OrchestratorRequest *req = h->item->orchestratorrequest;
    const struct program_options opts = {
        .ids = (unsigned)w->s->id_count,
        .events_max = events_max,
        .is_go = w->sdk == SDK_GO,
        .salt = salt,
        .steps = w->s->opts.steps,
    };
    orchestrator_response__init(r);
    r->instanceid = req->instanceid;
    if (!worker_is_token_less(w))
        r->completiontoken = h->item->completiontoken;
    const char *wrong = program_answer(h->arena, req, &opts, r);
    if (h->index % 4 == 1) {
        r->orchestrationtracecontext = arena_new(h->arena, OrchestrationTraceContext);
        orchestration_trace_context__init(r->orchestrationtracecontext);
        if (h->index % 8 == 1) /* PY echoes an empty one when it has none */
            r->orchestrationtracecontext->spanid =
                wire_string_value(h->arena, BYTES_LIT("b7ad6b7169203331"));
    }
    if (wrong)
        sim_fail(w->s, "replay", "turn of '%.*s': %s", BYTES_FMT(wire_view(req->instanceid)),
                 wrong);
    return !wrong;
}

static void answer_turn(struct held *h, struct prng *p, unsigned habits)
{
    struct worker *w = h->w;
    size_t n = h->item->orchestratorrequest->n_newevents;
    OrchestratorResponse r;
    if (habits & HABIT_PARTIAL && n > 2 && draw_one_in(p, 3)) {
        unsigned part = (unsigned)draw_range(p, 2, n - 1);
        if (!respond(h, &r, part, 0))
            return;
        hit(HIT_ITEM_PARTIAL);
        r.numeventsprocessed = number(h->arena, (int32_t)part);
        complete_message(w, "CompleteOrchestratorTask", &r.base);
        return;
    }
    if (!respond(h, &r, 0, prng_u64(p)))
        return;
    if (habits & HABIT_PARTIAL && draw_one_in(p, 6)) {
        hit(HIT_ITEM_HISTORY);
        r.requireshistory = true;
        r.n_actions = 0;
    } else if (habits & HABIT_PARTIAL && draw_one_in(p, 4)) {
        send_chunks(h, p, &r);
        return;
    } else if (habits & HABIT_LIES && draw_one_in(p, 6)) {
        lie(w, h, p, &r);
    }
    complete_message(w, "CompleteOrchestratorTask", &r.base);
    if (habits & HABIT_TWICE && draw_one_in(p, 3)) {
        hit(HIT_ITEM_TWICE);
        complete_message(w, "CompleteOrchestratorTask", &r.base);
    }
}

/* Gives the turn back, and answers it all the same once it is out again: with a token that is no longer the turn's. */
static void hold_back(struct held *h, struct prng *p)
{
    struct worker *w = h->w;
    OrchestratorResponse r;
    if (!respond(h, &r, 0, prng_u64(p)))
        return;
    struct strbuf bytes = {0};
    wire_pack_into(&r.base, &bytes);
    w->spares[w->spare_count++] =
        (struct spare){"CompleteOrchestratorTask", bytes, bytes_hash(wire_view(r.instanceid))};
    abandon(h, true);
}

/* The turn is out: whoever holds an old answer back lets it go. */
static void release_old(struct sim *s, uint64_t turn)
{
    for (size_t i = 0; i < s->worker_count; i++) {
        struct worker *w = s->workers[i];
        for (size_t k = 0; k < w->spare_count; k++) {
            if (w->spares[k].turn != turn)
                continue;
            w->spare_wanted = turn;
            sched_set(&s->sched, &w->spare_event, sim_now(s));
        }
    }
}

/* ---- activities -------------------------------------------------------------------------------------------------- */

static void lie_about_task(struct worker *w, struct held *h, struct prng *p, ActivityResponse *r)
{
    switch (prng_below(p, 4)) {
    case 0:
        hit(HIT_LIE_IDS);
        r->taskid += 1000;
        break;
    case 1:
        hit(HIT_LIE_UTF8);
        r->result = filler(h->arena, 3, 0xfe);
        break;
    case 2:
        if (w->s->settings.request_bytes > KIB(64))
            break;
        hit(HIT_LIE_OVERSIZE);
        r->result = filler(h->arena, w->s->settings.request_bytes + 10, 'y');
        break;
    default:
        hit(HIT_LIE_DEEP);
        r->failuredetails = program_failure(h->arena, prng_below(p, 2) ? 150 : 400);
    }
}

static uint64_t task_hash(const ActivityRequest *r)
{
    return bytes_hash(wire_view(r->orchestrationinstance->instanceid)) +
           (uint64_t)r->taskid * 7919 + 1;
}

static void answer_task(struct held *h, struct prng *p, unsigned habits)
{
    struct worker *w = h->w;
    const ActivityRequest *req = h->item->activityrequest;
    ActivityResponse r;
    activity_response__init(&r);
    r.instanceid = req->orchestrationinstance->instanceid;
    r.taskid = req->taskid;
    if (!worker_is_token_less(w))
        r.completiontoken = h->item->completiontoken;
    bool fails =
        bytes_eq(wire_view(req->name), BYTES_LIT("F")) ? draw_one_in(p, 2) : draw_one_in(p, 10);
    if (fails)
        r.failuredetails = program_failure(h->arena, 1 + (unsigned)prng_below(p, 3));
    else if (!draw_one_in(p, 8))
        r.result =
            wire_string_value(h->arena, draw_one_in(p, 8) ? BYTES_LIT("") : BYTES_LIT("done"));
    if (habits & HABIT_LIES && draw_one_in(p, 8))
        lie_about_task(w, h, p, &r);
    if (habits & HABIT_STALE && !(habits & HABIT_LIES) && draw_one_in(p, 4) &&
        w->spare_count < SPARE_MAX) {
        struct strbuf bytes = {0}; /* given back, and answered all the same when it is out again */
        wire_pack_into(&r.base, &bytes);
        w->spares[w->spare_count++] = (struct spare){"CompleteActivityTask", bytes, task_hash(req)};
        abandon(h, false);
        return;
    }
    complete_message(w, "CompleteActivityTask", &r.base);
    if (habits & HABIT_TWICE && draw_one_in(p, 3)) {
        hit(HIT_ITEM_TWICE);
        complete_message(w, "CompleteActivityTask", &r.base);
    }
}

static void answer(void *arg)
{
    struct held *h = arg;
    struct worker *w = h->w;
    struct prng p = sched_stream(w->s->seed, "item", ((uint64_t)w->number << 32) + h->index);
    unsigned habits = w->habits;
    bool is_turn = h->item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    if (!sim_takes(w->s, (uint16_t)(SIM_OP_WORKER + w->number), h->index))
        habits = 0;
    if (habits & HABIT_FORGETS && draw_one_in(&p, 12)) {
        hit(HIT_ITEM_FORGOTTEN);
        held_free(h);
        return;
    }
    if (habits & HABIT_STALE && is_turn && w->spare_count < SPARE_MAX && draw_one_in(&p, 8))
        hold_back(h, &p);
    else if (habits & HABIT_ABANDONS && draw_one_in(&p, 5))
        abandon(h, is_turn);
    else if (is_turn)
        answer_turn(h, &p, habits);
    else
        answer_task(h, &p, habits);
    held_free(h);
}

/* How long the work takes. */
static usec_t work_time(struct worker *w, uint32_t index)
{
    struct prng p = sched_stream(w->s->seed, "work", ((uint64_t)w->number << 32) + index);
    if (!worker_is_token_less(w) && !w->s->is_over && draw_one_in(&p, 30))
        return draw_time(&p, USEC_PER_SEC, 12 * USEC_PER_SEC);
    return draw_time(&p, 100, 25 * USEC_PER_MSEC);
}

/* The limits that an item shows, and whether a worker without tokens is given the very same batch again. */
static void note_item(struct worker *w, const WorkItem *item)
{
    struct sim *s = w->s;
    size_t turns = 0;
    LIST_FOR_EACH (&w->items, n)
        turns += LIST_ENTRY(n, struct held, link)->item->request_case ==
                 WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    if (w->turns && turns >= w->turns)
        hit(HIT_LIMIT_STREAM);
    if (w->sdk == SDK_JAVA && turns >= s->settings.tokenless_unsettled)
        hit(HIT_LIMIT_TOKENLESS);
    if (item->request_case != WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST)
        return;
    const OrchestratorRequest *r = item->orchestratorrequest;
    if (r->n_newevents > s->settings.turn_events)
        hit(HIT_LIMIT_TURN_EVENTS);
    if (!worker_is_token_less(w))
        return;
    struct strbuf batch = {0};
    wire_pack_into(&r->base, &batch);
    uint64_t hash = bytes_hash(strbuf_bytes(&batch));
    strbuf_deinit(&batch);
    for (size_t i = 0; i < ARRAY_LEN(s->batches); i++)
        if (s->batches[i] == hash) {
            hit(HIT_AGAIN_EXACT);
            return;
        }
    s->batches[s->batch_count++ % ARRAY_LEN(s->batches)] = hash;
}

static void print_item(const struct worker *w, const struct held *h)
{
    const OrchestratorRequest *r = h->item->orchestratorrequest;
    if (h->item->request_case != WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST) {
        const ActivityRequest *t = h->item->activityrequest;
        fprintf(stderr, "           worker %u: activity %d of '%.*s'\n", w->number, t->taskid,
                BYTES_FMT(wire_view(t->orchestrationinstance->instanceid)));
        return;
    }
    fprintf(stderr, "           worker %u: turn of '%.*s' %.*s, %zu past events, new:", w->number,
            BYTES_FMT(wire_view(r->instanceid)), BYTES_FMT(wire_string(r->executionid)),
            r->n_pastevents);
    for (size_t i = 0; i < r->n_newevents; i++)
        fprintf(stderr, " %d", (int)r->newevents[i]->event_type_case);
    fprintf(stderr, "\n");
}

static void item_came(struct call *c, struct bytes msg, void *arg)
{
    struct worker *w = arg;
    struct sim *s = w->s;
    struct error err = {0};
    struct held *h = calloc(1, sizeof(*h));
    ASSERT(h);
    h->arena = arena_create();
    struct bytes copy = arena_dup(h->arena, msg);
    if (wire_unpack(&work_item__descriptor, h->arena, copy, &WIRE_LIMITS, &h->item, &err)) {
        sim_fail(s, "item", "a work item cannot be read: %s", err.msg);
        arena_free(h->arena);
        free(h);
        return;
    }
    if (h->item->request_case == WORK_ITEM__REQUEST_HEALTH_PING || c != w->stream) {
        arena_free(h->arena);
        free(h);
        return;
    }
    h->w = w;
    h->index = w->item_count++;
    h->came = sim_now(s);
    h->answer = (struct sched_event){.fn = answer, .arg = h};
    list_push_back(&w->items, &h->link);
    usec_t begin = w->sdk == SDK_JAVA ? MAX(sim_now(s), w->busy_until) : sim_now(s);
    usec_t at = begin + work_time(w, h->index);
    w->busy_until = at;
    sched_set(&s->sched, &h->answer, at);
    note_item(w, h->item);
    if (h->item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST)
        release_old(s, bytes_hash(wire_view(h->item->orchestratorrequest->instanceid)));
    else
        release_old(s, task_hash(h->item->activityrequest));
    if (s->opts.is_traced)
        print_item(w, h);
}

/* ---- connections ---------------------------------------------------------------------------------------------------- */

static void connect_in(struct worker *w, usec_t pause)
{
    if (!w->s->opts.without[SIM_OP_WORKER + w->number])
        sched_set(&w->s->sched, &w->connect, sim_now(w->s) + pause);
}

static usec_t next_backoff(struct worker *w, bool was_ok)
{
    usec_t max = w->s->is_over ? 2 * USEC_PER_SEC : 6 * USEC_PER_SEC;
    if (was_ok && (w->sdk == SDK_PY || w->sdk == SDK_JAVA))
        return 10 * USEC_PER_MSEC; /* they reconnect at once */
    w->backoff =
        w->sdk == SDK_JAVA ? 5 * USEC_PER_SEC : MIN(MAX(w->backoff * 2, USEC_PER_SEC), max);
    return draw_time(&w->p, w->backoff / 4, w->backoff);
}

/* Items under way when a connection breaks: GO answers soon on the next one, others drop them. */
static void conn_lost(void *arg)
{
    struct worker *w = arg;
    w->conn = NULL;
    w->stream = NULL;
    if (w->sdk != SDK_GO)
        drop_items(w);
    LIST_FOR_EACH (&w->items, n) {
        struct held *h = LIST_ENTRY(n, struct held, link);
        if (h->answer.at > sim_now(w->s) + (usec_t)w->s->settings.tokenless_redelivery / 2)
            held_free(h);
    }
    connect_in(w, w->sdk == SDK_GO ? 20 * USEC_PER_MSEC : next_backoff(w, false));
}

static void stream_over(struct call *c, void *arg)
{
    struct worker *w = arg;
    if (c != w->stream)
        return;
    w->stream = NULL;
    if (!w->conn || !w->conn->client)
        return; /* conn_lost() follows */
    if (!worker_is_token_less(w))
        drop_items(w);
    sched_call(&w->s->sched, sim_now(w->s) + next_backoff(w, c->status == GRPC_OK), open_again, w);
}

/* An entry of some versions; 0: of all. */
static OrchestrationFilter *turn_filter(struct arena *a, const char *name, size_t versions)
{
    static const char *const VERSIONS[] = {"2", ""};
    OrchestrationFilter *f = arena_new(a, OrchestrationFilter);
    orchestration_filter__init(f);
    f->name = wire_data(bytes_str(name));
    f->versions = arena_array(a, ProtobufCBinaryData, ARRAY_LEN(VERSIONS));
    for (size_t i = 0; i < versions; i++)
        f->versions[f->n_versions++] = wire_data(bytes_str(VERSIONS[i]));
    return f;
}

static void add_turn(WorkItemFilters *f, OrchestrationFilter *entry)
{
    f->orchestrations[f->n_orchestrations++] = entry;
}

static void add_task(struct arena *a, WorkItemFilters *f, const OrchestrationFilter *like)
{
    ActivityFilter *t = arena_new(a, ActivityFilter);
    activity_filter__init(t);
    t->name = like->name;
    t->n_versions = like->n_versions;
    t->versions = like->versions;
    f->activities[f->n_activities++] = t;
}

/* The worker's own, the same on each stream. One entry may be of no version and another, of the same name, of some. */
static void add_filters(struct worker *w, struct arena *a, GetWorkItemsRequest *req)
{
    static const char *const TASKS[] = {"T", "U", "F"};
    struct prng p = sched_stream(w->s->seed, "filters", w->number);
    WorkItemFilters *f = req->workitemfilters = arena_new(a, WorkItemFilters);
    work_item_filters__init(f);
    size_t versions = prng_below(&p, 3);
    bool twice = draw_one_in(&p, 2);
    if (versions)
        hit(HIT_FILTER_VERSION);
    f->orchestrations = arena_array(a, OrchestrationFilter *, 2);
    add_turn(f, turn_filter(a, "P", versions));
    if (twice)
        add_turn(f, turn_filter(a, "P", 0));
    f->activities = arena_array(a, ActivityFilter *, 2 * ARRAY_LEN(TASKS));
    for (size_t i = 0; i < ARRAY_LEN(TASKS); i++) {
        add_task(a, f, turn_filter(a, TASKS[i], versions));
        if (twice)
            add_task(a, f, turn_filter(a, TASKS[i], 0));
    }
}

static void open_stream(struct worker *w)
{
    GetWorkItemsRequest req;
    struct arena *a = arena_create();
    if (w->stream)
        return;
    get_work_items_request__init(&req);
    req.maxconcurrentorchestrationworkitems = (int32_t)w->turns;
    req.maxconcurrentactivityworkitems = (int32_t)w->tasks;
    if (w->filters)
        add_filters(w, a, &req);
    struct call *c = net_call_message(w->conn, "GetWorkItems", &req.base, 0, stream_over, w);
    arena_free(a);
    if (c->is_over) {
        sched_call(&w->s->sched, sim_now(w->s) + next_backoff(w, false), open_again, w);
        return;
    }
    c->message = item_came;
    w->stream = c;
}

static void greeted(struct call *c, void *arg)
{
    struct worker *w = arg;
    if (!w->conn || !w->conn->client)
        return;
    if (c->status == GRPC_OK) {
        w->backoff = 0;
        open_stream(w);
    } else {
        net_reset(w->conn);
    }
}

static void connect_now(void *arg)
{
    struct worker *w = arg;
    struct sim *s = w->s;
    if (w->conn)
        return;
    w->conn = net_connect(s, w->actor, AGENTS[w->sdk], sim_hub(s, w->actor), conn_lost, w);
    if (!w->conn) {
        connect_in(w, next_backoff(w, false));
        return;
    }
    w->conn->token_less = worker_is_token_less(w);
    if (w->habits & HABIT_SLOW) {
        w->conn->down.read_max = 40 + prng_below(&w->p, 400);
        hit(HIT_SLOW_READER);
    }
    if (w->sdk == SDK_JAVA) {
        open_stream(w);
        return;
    }
    if (net_call(w->conn, "Hello", BYTES_LIT(""), 30 * USEC_PER_SEC, greeted, w)->is_over)
        net_reset(w->conn);
}

void worker_die(struct worker *w, usec_t pause)
{
    hit(HIT_WORKER_GONE);
    drop_items(w);
    if (!w->conn) {
        connect_in(w, pause);
        return;
    }
    net_reset(w->conn);
}

void worker_start(struct worker *w)
{
    connect_in(w, (usec_t)prng_below(&w->p, 200 * USEC_PER_MSEC));
    if (w->habits & HABIT_STALE)
        sched_set(&w->s->sched, &w->spare_event, sim_now(w->s) + USEC_PER_SEC);
}

void worker_behave(struct worker *w)
{
    unsigned habits = w->habits;
    w->habits = 0;
    if (!w->conn)
        return;
    w->conn->down.read_max = 0;
    if (habits & HABIT_FORGETS) { /* nobody else gets what it forgot while its stream is open */
        drop_items(w);
        net_reset(w->conn);
    }
}

struct worker *worker_new(struct sim *s, unsigned n)
{
    static const unsigned TROUBLE[] = {HABIT_FORGETS, HABIT_TWICE, HABIT_STALE, HABIT_ABANDONS,
                                       HABIT_PARTIAL, HABIT_LIES,  HABIT_SLOW};
    struct worker *w = calloc(1, sizeof(*w));
    ASSERT(w);
    w->s = s;
    w->number = n;
    w->actor = 200 + n;
    w->p = sched_stream(s->seed, "worker", n);
    w->sdk = (enum sdk)prng_below(&w->p, SDK_COUNT);
    if (n < 2)
        w->sdk = prng_below(&w->p, 2) ? SDK_PY : SDK_JS; /* one at least that takes all there is */
    if (w->sdk == SDK_PY) {
        w->turns = (uint32_t)draw_range(&w->p, 1, 3);
        w->tasks = (uint32_t)draw_range(&w->p, 1, 3);
        w->filters = n >= 2 && draw_one_in(&w->p, 2);
    }
    if (!s->is_quiet && draw_one_in(&w->p, 4) == 0)
        w->habits = TROUBLE[prng_below(&w->p, ARRAY_LEN(TROUBLE))];
    if (!s->is_quiet && draw_one_in(&w->p, 3))
        w->habits |= TROUBLE[prng_below(&w->p, ARRAY_LEN(TROUBLE))];
    if (worker_is_token_less(w))
        w->habits &= HABIT_FORGETS;
    list_init(&w->items);
    w->connect = (struct sched_event){.fn = connect_now, .arg = w};
    w->spare_event = (struct sched_event){.fn = send_spare, .arg = w};
    return w;
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    drop_items(w);
    for (size_t i = 0; i < w->spare_count; i++)
        strbuf_deinit(&w->spares[i].bytes);
    sched_cancel(&w->s->sched, &w->connect);
    sched_cancel(&w->s->sched, &w->spare_event);
    free(w);
}
