#include "server/admin.h"

#include <stdlib.h>

#include "base/assert.h"
#include "perdure_admin.pb-c.h"
#include "server/jobs.h"
#include "wire/wire.h"

typedef Perdure__V1__WorkerInfo WorkerInfo;
typedef Perdure__V1__WorkerSlots WorkerSlots;

struct admin {
    struct dt_host host;
    struct host *process;
    struct store *store;
    struct bytes url;
    const struct grpc_front *front;
    usec_t started; /* wall */
    struct jobs *jobs;
    struct rpc_method methods[4];
};

struct request {
    struct command cmd;
    struct loop_task task;
    struct admin *admin;
    struct rpc_call *call;
    void *thread;
    struct bytes hub; /* of WorkersRequest */
};

static const char *const WORK_NAMES[WORK_KINDS] = {"", "orchestration", "activity"};
static const char *const STATUS_NAMES[8] = {"RUNNING", "COMPLETED", "CONTINUED_AS_NEW",
                                            "FAILED",  "CANCELED",  "TERMINATED",
                                            "PENDING", "SUSPENDED"};

/* ---- from the engine's thread to the answer --------------------------------------------------------------- */

static void answer(struct loop_task *task)
{
    struct request *r = CONTAINER_OF(task, struct request, task);
    if (r->cmd.status) {
        rpc_call_fail(r->call, r->cmd.error);
    } else {
        struct rpc_msg *msg = rpc_msg_new(r->cmd.reply.len);
        if (r->cmd.reply.len)
            memcpy(rpc_msg_data(msg), r->cmd.reply.ptr, r->cmd.reply.len);
        rpc_call_reply(r->call, msg);
    }
    rpc_call_unref(r->call);
    command_deinit(&r->cmd);
    free(r);
}

static void done(struct command *cmd)
{
    struct request *r = CONTAINER_OF(cmd, struct request, cmd);
    r->task.fn = answer;
    r->admin->host.post(r->admin->host.arg, r->thread, &r->task);
}

static struct request *request_new(struct admin *a, struct rpc_call *call, struct arena *arena,
                                   void (*control)(struct engine *e, struct command *cmd))
{
    struct request *r = calloc(1, sizeof(*r));
    ASSERT(r);
    r->admin = a;
    r->call = rpc_call_ref(call);
    r->thread = a->host.thread(a->host.arg, call);
    r->cmd.arena = arena;
    r->cmd.control = control;
    r->cmd.done = done;
    return r;
}

/* ---- Workers ------------------------------------------------------------------------------------------------- */

struct workers {
    struct request *r;
    WorkerInfo **items;
    size_t count, cap;
};

static void put_filters(struct strbuf *out, const struct work_stream_options *o)
{
    for (unsigned k = 1; k < WORK_KINDS; k++) {
        strbuf_appendf(out, "%s%s:", out->len ? "; " : "", WORK_NAMES[k]);
        for (size_t i = 0; i < o->filter_count[k]; i++) {
            const struct work_filter *f = &o->filters[k][i];
            strbuf_appendf(out, "%s%.*s", i ? ", " : " ", BYTES_FMT(f->name));
            for (size_t v = 0; v < f->version_count; v++)
                strbuf_appendf(out, "%s%.*s", v ? "|" : "@", BYTES_FMT(f->versions[v]));
        }
        if (o->filter_count[k] == 0)
            strbuf_append_str(out, " none");
    }
}

static WorkerSlots *slots(struct arena *a, unsigned kind, const struct work_stream_options *o,
                          const uint32_t unsettled[WORK_KINDS])
{
    WorkerSlots *s = arena_new(a, WorkerSlots);
    perdure__v1__worker_slots__init(s);
    s->kind = wire_data(bytes_str(WORK_NAMES[kind]));
    s->max = (int32_t)(o->capacity[kind] ? o->capacity[kind] : o->capacity_total);
    s->unsettled = (int32_t)unsettled[kind];
    return s;
}

static void one_worker(void *arg, const struct work_stream_options *o, usec_t connected,
                       const uint32_t unsettled[WORK_KINDS])
{
    struct workers *w = arg;
    struct arena *a = w->r->cmd.arena;
    if (w->r->hub.len > 0 && !bytes_eq_nocase(o->hub, w->r->hub))
        return;
    WorkerInfo *i = arena_new(a, WorkerInfo);
    perdure__v1__worker_info__init(i);
    i->hub = wire_data(o->hub);
    i->stream_id = o->id;
    i->worker_instance_id = wire_data(o->worker_instance_id);
    i->worker_id = wire_data(o->worker_id);
    i->user_agent = wire_data(o->user_agent);
    i->x_user_agent = wire_data(o->x_user_agent);
    i->peer = wire_data(o->peer);
    i->token_less = o->token_less;
    i->connected = arena_new(a, Google__Protobuf__Timestamp);
    *i->connected = wire_time(connected);
    i->n_slots = WORK_KINDS - 1;
    i->slots = arena_array(a, WorkerSlots *, WORK_KINDS - 1);
    for (unsigned k = 1; k < WORK_KINDS; k++)
        i->slots[k - 1] = slots(a, k, o, unsettled);
    if (o->filtered) {
        CLEANUP(strbuf_deinit) struct strbuf text = {0};
        put_filters(&text, o);
        i->filters = wire_data(arena_dup(a, strbuf_bytes(&text)));
    }
    if (w->count == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 16;
        w->items = realloc(w->items, w->cap * sizeof(WorkerInfo *));
        ASSERT(w->items);
    }
    w->items[w->count++] = i;
}

static void control_workers(struct engine *e, struct command *cmd)
{
    struct workers w = {.r = CONTAINER_OF(cmd, struct request, cmd)};
    work_streams_each(e, one_worker, &w);
    Perdure__V1__WorkersResponse resp = PERDURE__V1__WORKERS_RESPONSE__INIT;
    resp.n_workers = w.count;
    resp.workers = w.items;
    wire_pack_into(&resp.base, &cmd->reply);
    free(w.items);
    cmd->done(cmd);
}

static void workers(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    Perdure__V1__WorkersRequest *req;
    struct error err = {0};
    if (wire_unpack(&perdure__v1__workers_request__descriptor, arena, msg, &WIRE_LIMITS, &req,
                    &err)) {
        rpc_call_fail(call, &err);
        arena_free(arena);
        return;
    }
    struct admin *a = service;
    struct request *r = request_new(a, call, arena, control_workers);
    r->hub = wire_view(req->hub);
    a->host.submit(a->host.arg, &r->cmd);
}

/* ---- Status --------------------------------------------------------------------------------------------------- */

typedef Perdure__V1__StatusResponse StatusResponse;
typedef Perdure__V1__InstanceCount InstanceCount;
typedef Perdure__V1__QueueLength QueueLength;

struct status {
    struct arena *arena;
    StatusResponse resp;
    size_t instances_cap, ready_cap;
};

static void *grow(struct arena *a, void *old, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return old;
    *cap = *cap ? *cap * 2 : 16;
    void *bigger = arena_alloc(a, *cap * size);
    if (count)
        memcpy(bigger, old, count * size);
    return bigger;
}

static void one_count(void *arg, struct bytes hub, uint8_t kind, int32_t status, int64_t count)
{
    struct status *s = arg;
    StatusResponse *resp = &s->resp;
    (void)kind;
    if (count == 0 || status < 0 || status > 7)
        return;
    InstanceCount *c = arena_new(s->arena, InstanceCount);
    perdure__v1__instance_count__init(c);
    c->hub = wire_data(arena_dup(s->arena, hub));
    c->kind = wire_data(BYTES_LIT("orchestration"));
    c->status = wire_data(bytes_str(STATUS_NAMES[status]));
    c->count = count;
    resp->instances =
        grow(s->arena, resp->instances, resp->n_instances, &s->instances_cap, sizeof(c));
    resp->instances[resp->n_instances++] = c;
}

static void one_queue(void *arg, struct bytes hub, uint8_t kind, uint64_t ready)
{
    struct status *s = arg;
    StatusResponse *resp = &s->resp;
    if (ready == 0)
        return;
    QueueLength *q = arena_new(s->arena, QueueLength);
    perdure__v1__queue_length__init(q);
    q->hub = wire_data(arena_dup(s->arena, hub));
    q->kind = wire_data(bytes_str(WORK_NAMES[kind]));
    q->count = ready;
    resp->ready = grow(s->arena, resp->ready, resp->n_ready, &s->ready_cap, sizeof(q));
    resp->ready[resp->n_ready++] = q;
}

static void control_status(struct engine *e, struct command *cmd)
{
    struct request *r = CONTAINER_OF(cmd, struct request, cmd);
    struct admin *a = r->admin;
    struct status s = {.arena = cmd->arena, .resp = PERDURE__V1__STATUS_RESPONSE__INIT};
    struct engine_stats es;
    struct store_stats ss;
    engine_stats(e, &es);
    store_stats(a->store, &ss);
    usec_t now = clock_wall(clock_system());
    Google__Protobuf__Timestamp started = wire_time(a->started);
    Google__Protobuf__Duration uptime = wire_duration(MAX(now - a->started, 0));
    Google__Protobuf__Duration latency = wire_duration(es.last_commit_time);
    Perdure__V1__StoreStatus store = PERDURE__V1__STORE_STATUS__INIT;
    Perdure__V1__CommitStatus commits = PERDURE__V1__COMMIT_STATUS__INIT;
    store.url = wire_data(a->url);
    store.bytes = ss.store_bytes;
    store.wal_bytes = ss.wal_bytes;
    store.schema_version = store_info(a->store)->schema;
    store.partitions = store_info(a->store)->partitions;
    commits.last_latency = &latency;
    commits.batches = es.batches;
    commits.commands = es.commands;
    commits.flushes = ss.flushes;
    s.resp.version = wire_data(BYTES_LIT(PERDURE_VERSION));
    s.resp.started = &started;
    s.resp.uptime = &uptime;
    s.resp.store = &store;
    s.resp.commits = &commits;
    s.resp.in_flight = engine_in_flight(e);
    s.resp.waiters = es.waiters;
    s.resp.timers = es.timers;
    s.resp.streams = es.streams;
    s.resp.connections = a->front ? grpc_front_connections(a->front) : 0;
    s.resp.draining = atomic_load(&a->process->is_draining);
    cmd->status = engine_counts(e, one_count, &s, command_error(cmd));
    engine_ready_each(e, one_queue, &s);
    wire_pack_into(&s.resp.base, &cmd->reply);
    cmd->done(cmd);
}

static void status(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct admin *a = service;
    (void)msg;
    struct request *r = request_new(a, call, arena, control_status);
    a->host.submit(a->host.arg, &r->cmd);
}

/* ---- the service ------------------------------------------------------------------------------------------------ */

struct admin *admin_new(struct host *host, struct store *store, struct bytes url)
{
    struct admin *a = calloc(1, sizeof(*a));
    ASSERT(a);
    a->host = host_for_service(host);
    a->process = host;
    a->store = store;
    a->url = url;
    a->started = clock_wall(clock_system());
    a->jobs = jobs_new(host, store, url);
    return a;
}

void admin_stop(struct admin *a)
{
    if (a)
        jobs_stop(a->jobs);
}

void admin_free(struct admin *a)
{
    if (a)
        jobs_free(a->jobs);
    free(a);
}

void admin_front(struct admin *a, const struct grpc_front *front)
{
    a->front = front;
}

void admin_register(struct admin *a, struct rpc_server *server)
{
    a->methods[0] = (struct rpc_method){.path = "/perdure.v1.Admin/Workers",
                                        .bytes_max = KIB(64),
                                        .message = workers,
                                        .service = a};
    a->methods[1] = (struct rpc_method){
        .path = "/perdure.v1.Admin/Status", .bytes_max = KIB(64), .message = status, .service = a};
    a->methods[2] = (struct rpc_method){.path = "/perdure.v1.Admin/CheckStore",
                                        .bytes_max = KIB(64),
                                        .message = jobs_check,
                                        .closed = jobs_closed,
                                        .service = a->jobs};
    a->methods[3] = (struct rpc_method){.path = "/perdure.v1.Admin/BackupStore",
                                        .kind = RPC_SERVER_STREAM,
                                        .bytes_max = KIB(64),
                                        .message = jobs_backup,
                                        .closed = jobs_closed,
                                        .service = a->jobs};
    rpc_server_add(server, a->methods, ARRAY_LEN(a->methods));
}
