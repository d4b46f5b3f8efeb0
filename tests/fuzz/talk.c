#include "talk.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/wire.h"

/* clang-format off */
static const struct method {
    const char *name;
    const ProtobufCMessageDescriptor *answer; /* NULL: it is refused, whatever comes */
} METHODS[] = {
    {"Hello", &google__protobuf__empty__descriptor},
    {"StartInstance", &create_instance_response__descriptor},
    {"GetInstance", &get_instance_response__descriptor},
    {"WaitForInstanceStart", &get_instance_response__descriptor},
    {"WaitForInstanceCompletion", &get_instance_response__descriptor},
    {"RaiseEvent", &raise_event_response__descriptor},
    {"TerminateInstance", &terminate_response__descriptor},
    {"SuspendInstance", &suspend_response__descriptor},
    {"ResumeInstance", &resume_response__descriptor},
    {"PurgeInstances", &purge_instances_response__descriptor},
    {"GetWorkItems", &work_item__descriptor},
    {"CompleteActivityTask", &complete_task_response__descriptor},
    {"CompleteOrchestratorTask", &complete_task_response__descriptor},
    {"StreamInstanceHistory", &history_chunk__descriptor},
    {"AbandonTaskActivityWorkItem", &abandon_activity_task_response__descriptor},
    {"AbandonTaskOrchestratorWorkItem", &abandon_orchestration_task_response__descriptor},
    {"RewindInstance", NULL},
    {"RestartInstance", &restart_instance_response__descriptor},
    {"QueryInstances", &query_instances_response__descriptor},
    {"ListInstanceIds", &list_instance_ids_response__descriptor},
    {"CompleteEntityTask", NULL},
    {"CreateTaskHub", NULL},
    {"DeleteTaskHub", NULL},
    {"SignalEntity", NULL},
    {"GetEntity", NULL},
    {"QueryEntities", NULL},
    {"CleanEntityStorage", NULL},
    {"AbandonTaskEntityWorkItem", NULL},
    {"SkipGracefulOrchestrationTerminations", &skip_graceful_orchestration_terminations_response__descriptor},
};
/* clang-format on */
static_assert(ARRAY_LEN(METHODS) == TALK_METHODS, "all of the service");

/* Some methods stream: any number of answers. */
static bool streams(unsigned method)
{
    return METHODS[method].answer == &work_item__descriptor ||
           METHODS[method].answer == &history_chunk__descriptor;
}

unsigned talk_method(const char *name)
{
    unsigned i = 0;

    while (strcmp(METHODS[i].name, name) != 0)
        ASSERT(++i < TALK_METHODS);
    return i;
}

/* ---- answers ----------------------------------------------------------------------------------- */

static void keep_item(struct talk *t, struct arena *arena, WorkItem *item)
{
    bool is_work = item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST ||
                   item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST;

    ASSERT(is_work || item->request_case == WORK_ITEM__REQUEST_HEALTH_PING);
    if (is_work && t->item_count < TALK_HELD_MAX)
        t->items[t->item_count++] = (struct talk_item){arena, item};
    else
        arena_free(arena);
}

static void on_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                       struct bytes msg)
{
    struct talk_call *c = arg;
    const ProtobufCMessageDescriptor *desc = METHODS[c->method].answer;
    ProtobufCMessage *answer;
    struct error err = {0};

    ASSERT(!c->is_over && desc);
    c->messages++;
    bool decodes = wire_unpack(desc, arena, msg, &WIRE_LIMITS, &answer, &err) == OK;
    if (!decodes && !c->t->lies)
        fprintf(stderr, "%s: %s\n", METHODS[c->method].name, err.msg);
    ASSERT(decodes || c->t->lies);
    if (desc == &work_item__descriptor && decodes) {
        keep_item(c->t, arena, (WorkItem *)(void *)answer);
        return;
    }
    arena_free(c->arena);
    c->arena = arena;
    c->last = msg;
}

static void on_finished(struct rpc_call *call UNUSED, void *arg, int status, struct bytes message)
{
    struct talk_call *c = arg;

    ASSERT(!c->is_over); /* once */
    ASSERT(status >= 0 && status <= GRPC_UNAUTHENTICATED);
    ASSERT(status != GRPC_OK || streams(c->method) || c->messages == 1);
    c->is_over = true;
    c->status = status;
    if (status == GRPC_UNAVAILABLE && !c->t->is_closing)
        c->t->unavailable++;
    if (!c->arena)
        c->arena = arena_create();
    c->error = arena_dup(c->arena, message);
}

/* ---- calls ------------------------------------------------------------------------------------- */

struct talk *talk_new(struct served *s, const char *user_agent)
{
    struct talk *t = calloc(1, sizeof(*t));

    ASSERT(t);
    t->s = s;
    t->conn = served_connect(s, user_agent);
    served_run(s);
    return t;
}

void talk_item_free(struct talk_item *it)
{
    arena_free(it->arena);
}

void talk_free(struct talk *t)
{
    if (!t)
        return;
    struct served *s = t->s;
    t->is_closing = true;
    served_close(t->conn);
    served_run(s);
    for (size_t i = 0; i < t->call_count; i++) {
        ASSERT(t->calls[i]->is_over); /* its connection is gone */
        rpc_call_unref(t->calls[i]->call);
        arena_free(t->calls[i]->arena);
        free(t->calls[i]);
    }
    for (size_t i = 0; i < t->item_count; i++)
        talk_item_free(&t->items[i]);
    free(t);
}

struct talk_call *talk_begin(struct talk *t, unsigned method, struct bytes request, usec_t timeout)
{
    const struct rpc_client_events ev = {.message = on_message, .finished = on_finished};
    const struct rpc_metadata hub = {"taskhub", bytes_str(t->hub ? t->hub : "")};
    char path[96];

    ASSERT(method < TALK_METHODS);
    if (t->call_count == TALK_HELD_MAX || !rpc_conn_takes_calls(t->conn->client))
        return NULL;
    struct talk_call *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->t = t;
    c->method = method;
    struct rpc_client_events events = ev;
    events.arg = c;
    (void)snprintf(path, sizeof(path), "/TaskHubSidecarService/%s", METHODS[method].name);
    c->call = rpc_conn_call(t->conn->client, path, &hub, t->hub ? 1 : 0, timeout, false, &events,
                            t->s->w->mono);
    ASSERT(c->call);
    t->calls[t->call_count++] = c;
    struct rpc_msg *m = rpc_msg_new(request.len);
    if (request.len)
        memcpy(rpc_msg_data(m), request.ptr, request.len);
    rpc_call_send(c->call, m);
    rpc_call_close_send(c->call);
    served_run(t->s);
    return c;
}

struct talk_call *talk_say(struct talk *t, const char *method, const ProtobufCMessage *request)
{
    CLEANUP(strbuf_deinit) struct strbuf bytes = {0};

    wire_pack_into(request, &bytes);
    return talk_begin(t, talk_method(method), strbuf_bytes(&bytes), 0);
}

bool talk_take(struct talk *t, WorkItem__RequestCase kind, struct talk_item *out)
{
    for (size_t i = 0; i < t->item_count; i++) {
        if (kind && t->items[i].item->request_case != kind)
            continue;
        *out = t->items[i];
        memmove(&t->items[i], &t->items[i + 1], (t->item_count - i - 1) * sizeof(t->items[0]));
        t->item_count--;
        return true;
    }
    return false;
}

/* ---- the probe --------------------------------------------------------------------------------- */

static ProtobufCBinaryData text(const char *s)
{
    return wire_data(bytes_str(s));
}

static void must_be_ok(const struct talk_call *c)
{
    if (c && c->is_over && c->status == GRPC_OK)
        return;
    fprintf(stderr, "the probe: %s: status %d: %.*s\n", c ? METHODS[c->method].name : "no call",
            c ? c->is_over ? c->status : -1 : -1, c ? (int)c->error.len : 0,
            c ? (const char *)c->error.ptr : "");
    abort(); /* others are not served */
}

/* A worker for the probe's own names alone. */
static void open_worker(struct talk *t, const char *name)
{
    GetWorkItemsRequest req = GET_WORK_ITEMS_REQUEST__INIT;
    WorkItemFilters filters = WORK_ITEM_FILTERS__INIT;
    OrchestrationFilter orchestration = ORCHESTRATION_FILTER__INIT, *orchestrations[1];
    ActivityFilter activity = ACTIVITY_FILTER__INIT, *activities[1];

    orchestration.name = activity.name = text(name);
    orchestrations[0] = &orchestration;
    activities[0] = &activity;
    filters.n_orchestrations = filters.n_activities = 1;
    filters.orchestrations = orchestrations;
    filters.activities = activities;
    req.workitemfilters = &filters;
    const struct talk_call *c = talk_say(t, "GetWorkItems", &req.base);
    ASSERT(c && !c->is_over);
}

static void answer_turn(struct talk *t, OrchestratorAction *action)
{
    struct talk_item it;
    OrchestratorResponse r = ORCHESTRATOR_RESPONSE__INIT;
    OrchestratorAction *actions[] = {action};

    bool any = talk_take(t, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST, &it);
    ASSERT(any);
    r.instanceid = it.item->orchestratorrequest->instanceid;
    r.completiontoken = it.item->completiontoken;
    r.n_actions = 1;
    r.actions = actions;
    must_be_ok(talk_say(t, "CompleteOrchestratorTask", &r.base));
    talk_item_free(&it);
}

static void answer_activity(struct talk *t)
{
    struct talk_item it;
    ActivityResponse r = ACTIVITY_RESPONSE__INIT;

    bool any = talk_take(t, WORK_ITEM__REQUEST_ACTIVITY_REQUEST, &it);
    ASSERT(any);
    r.instanceid = it.item->activityrequest->orchestrationinstance->instanceid;
    r.taskid = it.item->activityrequest->taskid;
    r.completiontoken = it.item->completiontoken;
    must_be_ok(talk_say(t, "CompleteActivityTask", &r.base));
    talk_item_free(&it);
}

static void run_probe(struct talk *t, const char *name)
{
    CreateInstanceRequest start = CREATE_INSTANCE_REQUEST__INIT;
    GetInstanceRequest get = GET_INSTANCE_REQUEST__INIT;
    OrchestratorAction act = ORCHESTRATOR_ACTION__INIT;
    ScheduleTaskAction task = SCHEDULE_TASK_ACTION__INIT;
    CompleteOrchestrationAction done = COMPLETE_ORCHESTRATION_ACTION__INIT;
    GetInstanceResponse *state;
    struct error err;

    start.instanceid = start.name = get.instanceid = task.name = text(name);
    must_be_ok(talk_say(t, "StartInstance", &start.base));
    act.orchestrator_action_type_case = ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK;
    act.scheduletask = &task;
    answer_turn(t, &act);
    answer_activity(t);
    act.id = 1;
    act.orchestrator_action_type_case =
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION;
    act.completeorchestration = &done;
    done.orchestrationstatus = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;
    answer_turn(t, &act);
    struct talk_call *c = talk_say(t, "GetInstance", &get.base);
    must_be_ok(c);
    enum err e = wire_unpack(&get_instance_response__descriptor, c->arena, c->last, &WIRE_LIMITS,
                             &state, &err);
    ASSERT(e == OK && state->exists);
    ASSERT(state->orchestrationstate->orchestrationstatus ==
           ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED);
}

void talk_probe(struct served *s, struct bytes input)
{
    char name[40]; /* one that the input does not hold */
    struct talk *t = talk_new(s, "probe");

    (void)snprintf(name, sizeof(name), "probe-%016llx", (unsigned long long)bytes_hash(input));
    open_worker(t, name);
    run_probe(t, name);
    talk_free(t);
}
