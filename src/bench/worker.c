#include "bench/internal.h"

#include "wire/wire.h"

/* Field numbers of WorkItem and OrchestratorRequest. */
enum { ITEM_TURN = 1, TURN_PAST = 3, TURN_NEW = 4 };

static void completed(struct bench *b, void *what, int status, struct bytes message,
                      struct bytes answer UNUSED)
{
    if (status != GRPC_OK && b->phase != PHASE_OVER && !b->is_given_up)
        bench_fail(b, "%s: %s: %.*s", (const char *)what, grpc_status_name(status),
                   BYTES_FMT(message));
}

/* Of the encoded work item: its events, past and new. */
static uint64_t history_bytes(struct bytes item)
{
    struct wire_reader r = wire_reader_of(wire_bytes_find(item, ITEM_TURN));
    struct wire_field f;
    uint64_t n = 0;

    while (wire_next(&r, &f))
        if (f.number == TURN_PAST || f.number == TURN_NEW)
            n += f.raw.len;
    return n;
}

static void answer_turn(struct bench_link *k, const OrchestratorRequest *req,
                        ProtobufCBinaryData token, uint64_t bytes)
{
    struct bench *b = k->bench;
    OrchestratorResponse resp;
    struct error err;

    if (workload_decide(req, b->arena, &resp, &err)) {
        bench_fail(b, "instance \"%.*s\": %s", BYTES_FMT(wire_view(req->instanceid)), err.msg);
        bench_give_up(b); /* nobody can answer it: its operation would not end */
        return;
    }
    resp.completiontoken = token;
    if (b->phase == PHASE_MEASURE) {
        b->result->turns++;
        b->result->history_bytes += bytes;
    }
    static char what[] = "CompleteOrchestratorTask";
    bench_unary(k, DURABLE_TASK("CompleteOrchestratorTask"), 0, &resp.base, completed, what);
}

static void answer_activity(struct bench_link *k, const ActivityRequest *req,
                            ProtobufCBinaryData token)
{
    struct bench *b = k->bench;
    ActivityResponse resp = ACTIVITY_RESPONSE__INIT;
    struct bytes result;
    struct error err;

    if (workload_activity(req, b->arena, &result, &err)) {
        bench_fail(b, "%s", err.msg);
        bench_give_up(b);
        return;
    }
    if (req->orchestrationinstance)
        resp.instanceid = req->orchestrationinstance->instanceid;
    resp.taskid = req->taskid;
    resp.completiontoken = token;
    resp.result = wire_string_value(b->arena, result);
    if (b->phase == PHASE_MEASURE)
        b->result->activities++;
    static char what[] = "CompleteActivityTask";
    bench_unary(k, DURABLE_TASK("CompleteActivityTask"), 0, &resp.base, completed, what);
}

static void got_item(struct rpc_call *call UNUSED, void *arg, struct arena *arena, struct bytes msg)
{
    struct bench_link *k = arg;
    struct bench *b = k->bench;
    WorkItem *item;
    struct error err;

    b->answers++;
    if (wire_unpack(&work_item__descriptor, b->arena, msg, &WIRE_LIMITS, &item, &err))
        bench_fail(b, "a work item does not decode: %s", err.msg);
    else if (item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST)
        answer_turn(k, item->orchestratorrequest, item->completiontoken, history_bytes(msg));
    else if (item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST)
        answer_activity(k, item->activityrequest, item->completiontoken);
    arena_reset(b->arena);
    arena_free(arena);
}

static void items_ended(struct rpc_call *call UNUSED, void *arg, int status, struct bytes message)
{
    struct bench_link *k = arg;

    if (k->bench->phase == PHASE_OVER || k->bench->is_given_up)
        return;
    bench_fail(k->bench, "the stream of work ended: %s: %.*s", grpc_status_name(status),
               BYTES_FMT(message));
    bench_give_up(k->bench);
}

/* Only what is ours: the hub may have other work, and other workers for it. */
void worker_open(struct bench_link *k)
{
    struct arena *a = k->bench->arena;
    GetWorkItemsRequest req = GET_WORK_ITEMS_REQUEST__INIT;
    WorkItemFilters filters = WORK_ITEM_FILTERS__INIT;
    ActivityFilter activity = ACTIVITY_FILTER__INIT, *activities[] = {&activity};
    struct rpc_client_events ev = {.message = got_item, .finished = items_ended, .arg = k};

    activity.name = wire_data(BYTES_LIT(WORKLOAD_ACTIVITY));
    filters.n_activities = 1;
    filters.activities = activities;
    filters.orchestrations = arena_array(a, OrchestrationFilter *, WORKLOAD_COUNT);
    for (size_t i = 0; i < WORKLOAD_COUNT; i++) {
        if (WORKLOADS[i].orchestration)
            continue;
        OrchestrationFilter *f = arena_new(a, OrchestrationFilter);
        orchestration_filter__init(f);
        f->name = wire_data(bytes_str(WORKLOADS[i].name));
        filters.orchestrations[filters.n_orchestrations++] = f;
    }
    req.workitemfilters = &filters;
    req.worker_instance_id = wire_data(BYTES_LIT("perdure-bench"));
    k->items = bench_call(k, DURABLE_TASK("GetWorkItems"), 0, &ev, &req.base);
    arena_reset(a);
}
