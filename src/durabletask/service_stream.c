/* service_stream.c - GetWorkItems: the stream that work items go out on (spec 8.1).
 *
 *   loop thread                                engine's thread
 *   request -> options -> control command  ->  work_stream_open()
 *   rpc_call_send() <- task per item       <-  sink.send()
 *   closed, drained -> control commands    ->  work_stream_close(), work_stream_writable()
 *
 * struct dt_stream lives until both sides have let go: the engine's last task (stream gone) comes behind all its items.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "durabletask/service_internal.h"
#include "wire/value.h"

#define JAVA_STREAM "grpc-java-netty/"

struct dt_stream {
    struct list_node link; /* connection's */
    struct dt_service *svc;
    struct rpc_call *call;
    void *thread;
    struct dt_connection *connection;
    struct arena *arena;
    struct work_stream_options opts;
    struct loop_task gone;
    enum err status; /* of the end, OK or why it could not be opened */
    struct error error;
    bool is_open;          /* the call: loop thread only */
    _Atomic size_t queued; /* bytes on their way to the loop */
    _Atomic size_t level;  /* bytes the call had unsent when last looked at */
};

struct item_task {
    struct loop_task task;
    struct dt_stream *st;
    struct rpc_msg *msg;
};

/* ---- the engine's side ---------------------------------------------------------------------------------------- */

static void control_writable(struct engine *e, struct command *cmd)
{
    work_stream_writable(e, cmd->object);
    cmd->done(cmd);
}

static void stream_drained(struct rpc_call *call, void *arg)
{
    struct dt_stream *st = arg;
    atomic_store(&st->level, rpc_call_unsent(call));
    if (st->is_open)
        dt_control(st->svc, control_writable, st->opts.id, NULL);
}

/* On the loop thread. */
static void send_item(struct loop_task *task)
{
    struct item_task *it = CONTAINER_OF(task, struct item_task, task);
    struct dt_stream *st = it->st;
    size_t len = rpc_msg_len(it->msg);
    if (st->is_open && rpc_call_is_open(st->call)) {
        size_t limit = st->svc->settings->stream_unsent_bytes;
        rpc_call_send(st->call, it->msg);
        size_t unsent = rpc_call_unsent(st->call);
        atomic_store(&st->level, unsent);
        if (unsent >= limit / 2)
            rpc_call_on_drained(st->call, limit / 4, stream_drained, st);
    } else {
        rpc_msg_unref(it->msg);
    }
    atomic_fetch_sub(&st->queued, len);
    free(it);
}

static void sink_send(void *arg, void *item)
{
    struct dt_stream *st = arg;
    struct item_task *it = malloc(sizeof(*it));
    ASSERT(it);
    *it = (struct item_task){.task = {.fn = send_item}, .st = st, .msg = item};
    atomic_fetch_add(&st->queued, rpc_msg_len(it->msg));
    st->svc->host.post(st->svc->host.arg, st->thread, &it->task);
}

static size_t sink_unsent(void *arg)
{
    struct dt_stream *st = arg;
    return atomic_load_explicit(&st->queued, memory_order_relaxed) +
           atomic_load_explicit(&st->level, memory_order_relaxed);
}

/* Loop thread: the engine knows the stream no more. */
static void stream_gone(struct loop_task *task)
{
    struct dt_stream *st = CONTAINER_OF(task, struct dt_stream, gone);
    if (st->is_open) {
        st->is_open = false;
        rpc_call_set_context(st->call, NULL);
        if (st->status)
            rpc_call_fail(st->call, &st->error);
        else
            rpc_call_finish(st->call, 0, BYTES_LIT(""));
    }
    list_remove(&st->link);
    dt_connection_put(st->svc, st->connection);
    rpc_call_unref(st->call);
    arena_free(st->arena);
    free(st);
}

static void post_gone(struct dt_stream *st)
{
    st->gone.fn = stream_gone;
    st->svc->host.post(st->svc->host.arg, st->thread, &st->gone);
}

static void sink_end(void *arg, enum err status, const char *message)
{
    struct dt_stream *st = arg;
    st->status = status;
    if (status)
        error_set(&st->error, status, "%s", message);
    post_gone(st);
}

static void control_open(struct engine *e, struct command *cmd)
{
    struct dt_stream *st = cmd->context;
    struct work_sink sink = {.send = sink_send, .unsent = sink_unsent, .end = sink_end, .arg = st};
    st->status = work_stream_open(e, &st->opts, &sink, &st->error);
    if (st->status) {
        st->error.code = st->status;
        post_gone(st);
    }
    cmd->done(cmd);
}

static void control_close(struct engine *e, struct command *cmd)
{
    work_stream_end(e, cmd->object); /* sink_end() follows, unless the stream is gone already */
    cmd->done(cmd);
}

/* ---- the request -------------------------------------------------------------------------------------------------- */

static const struct bytes *versions_of(struct arena *a, size_t count, const ProtobufCBinaryData *in)
{
    struct bytes *out = arena_array(a, struct bytes, count);
    for (size_t i = 0; i < count; i++)
        out[i] = wire_view(in[i]);
    return out;
}

static void read_filters(struct arena *a, const WorkItemFilters *f, struct work_stream_options *o)
{
    o->filtered = true;
    struct work_filter *turns = arena_array(a, struct work_filter, f->n_orchestrations);
    for (size_t i = 0; i < f->n_orchestrations; i++) {
        const OrchestrationFilter *in = f->orchestrations[i];
        turns[i] = (struct work_filter){
            wire_view(in->name), versions_of(a, in->n_versions, in->versions), in->n_versions};
    }
    struct work_filter *tasks = arena_array(a, struct work_filter, f->n_activities);
    for (size_t i = 0; i < f->n_activities; i++) {
        const ActivityFilter *in = f->activities[i];
        tasks[i] = (struct work_filter){
            wire_view(in->name), versions_of(a, in->n_versions, in->versions), in->n_versions};
    }
    o->filters[WORK_TURN] = turns;
    o->filter_count[WORK_TURN] = f->n_orchestrations;
    o->filters[WORK_TASK] = tasks;
    o->filter_count[WORK_TASK] = f->n_activities;
}

static enum err check_request(const struct dt_service *svc, const GetWorkItemsRequest *req,
                              struct error *err)
{
    if (req->maxconcurrentorchestrationworkitems < 0 || req->maxconcurrentactivityworkitems < 0 ||
        req->maxconcurrententityworkitems < 0)
        return error_set(err, ERR_INVALID, "a maxConcurrent…WorkItems is negative; 0 is no limit");
    struct bytes worker = wire_view(req->worker_instance_id);
    if (worker.len > svc->settings->worker_name_bytes)
        return error_set(err, ERR_INVALID,
                         "worker_instance_id has %zu bytes; at most %llu are allowed", worker.len,
                         (unsigned long long)svc->settings->worker_name_bytes);
    if (utf8_has_control(worker))
        return error_set(err, ERR_INVALID, "worker_instance_id has a control character");
    return OK;
}

static void fill_options(struct dt_stream *st, const GetWorkItemsRequest *req)
{
    struct work_stream_options *o = &st->opts;
    struct rpc_call *call = st->call;
    struct arena *a = st->arena;
    o->id = atomic_fetch_add(&st->svc->next_id, 1);
    o->connection = rpc_call_conn_id(call);
    o->capacity[WORK_TURN] = (uint32_t)req->maxconcurrentorchestrationworkitems;
    o->capacity[WORK_TASK] = (uint32_t)req->maxconcurrentactivityworkitems;
    o->user_agent = arena_dup(a, rpc_call_header(call, "user-agent"));
    o->x_user_agent = arena_dup(a, rpc_call_header(call, "x-user-agent"));
    o->worker_id = arena_dup(a, rpc_call_header(call, "workerid"));
    o->worker_instance_id = wire_view(req->worker_instance_id);
    const struct rpc_conn *conn = rpc_call_conn(call);
    o->peer = conn ? arena_dup(a, rpc_conn_peer(conn)) : BYTES_LIT("");
    o->worker = o->worker_instance_id.len ? o->worker_instance_id
                : o->worker_id.len        ? o->worker_id
                                          : o->peer;
    o->token_less = dt_is_token_less(call) && !st->connection->saw_token;
    bool unlimited = !o->capacity[WORK_TURN] && !o->capacity[WORK_TASK];
    if (o->token_less && unlimited && bytes_contains(o->user_agent, BYTES_LIT(JAVA_STREAM)))
        o->capacity_total =
            (uint32_t)st->svc->settings->tokenless_unsettled; /* it runs one item at a time */
    if (req->workitemfilters)
        read_filters(a, req->workitemfilters, o);
}

void dt_streams_end(struct dt_service *svc, struct dt_connection *c)
{
    LIST_FOR_EACH (&c->streams, n) {
        struct dt_stream *st = LIST_ENTRY(n, struct dt_stream, link);
        dt_control(svc, control_close, st->opts.id, NULL);
    }
    c->error_answered = false;
}

static enum err read_request(struct dt_service *svc, struct rpc_call *call, struct arena *arena,
                             struct bytes msg, GetWorkItemsRequest **req, struct bytes *hub,
                             struct error *err)
{
    if (svc->host.is_draining(svc->host.arg))
        return error_set(err, ERR_UNAVAILABLE, "the server is stopping; connect again in a moment");
    enum err rc = dt_hub_of(call, arena, hub, err);
    if (!rc)
        rc = wire_unpack(&get_work_items_request__descriptor, arena, msg, &WIRE_LIMITS, req, err);
    return rc ? rc : check_request(svc, *req, err);
}

void dt_get_work_items(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct dt_service *svc = service;
    struct error err = {0};
    GetWorkItemsRequest *req;
    struct bytes hub;
    if (read_request(svc, call, arena, msg, &req, &hub, &err)) {
        rpc_call_fail(call, &err);
        arena_free(arena);
        return;
    }
    struct dt_stream *st = calloc(1, sizeof(*st));
    ASSERT(st);
    st->svc = svc;
    st->call = rpc_call_ref(call);
    st->thread = svc->host.thread(svc->host.arg, call);
    st->arena = arena;
    st->is_open = true;
    st->opts.hub = hub;
    st->connection = dt_connection_get(svc, rpc_call_conn_id(call));
    fill_options(st, req);
    if (st->connection->error_answered)
        dt_streams_end(svc, st->connection);
    list_push_back(&st->connection->streams, &st->link);
    rpc_call_set_context(call, st);
    rpc_call_send_headers(call);
    dt_control(svc, control_open, st->opts.id, st);
}

void dt_work_items_closed(struct rpc_call *call, void *service)
{
    struct dt_stream *st = rpc_call_context(call);
    if (!st)
        return;
    st->is_open = false;
    rpc_call_set_context(call, NULL);
    dt_control(service, control_close, st->opts.id, NULL);
}
