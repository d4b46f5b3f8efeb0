/* service.c - the unary methods of clients, and what all handlers share. */
#include "durabletask/service.h"

#include <assert.h>
#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "durabletask/events.h"
#include "durabletask/service_internal.h"
#include "wire/reader.h"
#include "wire/timestamp.h"
#include "wire/value.h"

#define HUB_MAX 64

/* ---- connections ------------------------------------------------------------------------------------------ */

static bool same_connection(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct dt_connection, node)->id == *(const uint64_t *)key;
}

static struct dt_connection *find(struct dt_service *svc, uint64_t id)
{
    struct hash_node *n = hashmap_find(&svc->connections, hash_u64(id), same_connection, &id);
    return n ? CONTAINER_OF(n, struct dt_connection, node) : NULL;
}

struct dt_connection *dt_connection_peek(struct dt_service *svc, uint64_t id)
{
    pthread_mutex_lock(&svc->lock);
    struct dt_connection *c = find(svc, id);
    pthread_mutex_unlock(&svc->lock);
    return c;
}

struct dt_connection *dt_connection_get(struct dt_service *svc, uint64_t id)
{
    pthread_mutex_lock(&svc->lock);
    struct dt_connection *c = find(svc, id);
    if (!c) {
        c = calloc(1, sizeof(*c));
        ASSERT(c);
        c->id = id;
        list_init(&c->streams);
        hashmap_insert(&svc->connections, &c->node, hash_u64(id));
    }
    c->users++;
    pthread_mutex_unlock(&svc->lock);
    return c;
}

void dt_connection_put(struct dt_service *svc, struct dt_connection *c)
{
    pthread_mutex_lock(&svc->lock);
    bool gone = --c->users == 0;
    if (gone)
        hashmap_remove(&svc->connections, &c->node);
    pthread_mutex_unlock(&svc->lock);
    if (gone)
        free(c);
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

void dt_fail(struct rpc_call *call, enum err code, const char *fmt, ...)
{
    char text[ERROR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rpc_call_finish(call, err_grpc_status(code), bytes_str(text));
}

enum err dt_hub_of(const struct rpc_call *call, struct arena *arena, struct bytes *hub,
                   struct error *err)
{
    struct bytes name = rpc_call_header(call, "taskhub");
    if (bytes_is_none(name)) {
        *hub = BYTES_LIT("default");
        return OK;
    }
    if (name.len < 1 || name.len > HUB_MAX)
        return error_set(err, ERR_INVALID,
                         "the taskhub header has %zu characters; a task hub's name has 1 to %d",
                         name.len, HUB_MAX);
    uint8_t *lower = arena_alloc(arena, name.len);
    for (size_t i = 0; i < name.len; i++) {
        int c = name.ptr[i];
        if (c > 127 || (!isalnum(c) && c != '_' && c != '-'))
            return error_set(err, ERR_INVALID,
                             "the taskhub header '%.*s' is no task hub name: letters, digits, '_' "
                             "and '-' are allowed",
                             BYTES_FMT(name));
        lower[i] = (uint8_t)tolower(c);
    }
    *hub = bytes_of(lower, name.len);
    return OK;
}

enum err dt_check_id(struct bytes id, size_t chars_max, struct error *err)
{
    if (id.len == 0)
        return error_set(err, ERR_INVALID, "instanceId must not be empty");
    size_t chars = utf8_length(id);
    if (chars > chars_max)
        return error_set(err, ERR_INVALID,
                         "Instance id length %zu exceeds the maximum length of %zu", chars,
                         chars_max);
    if (utf8_has_control(id))
        return error_set(err, ERR_INVALID,
                         "Instance id has a control character; none is allowed in instance ids");
    return OK;
}

bool dt_is_token_less(const struct rpc_call *call)
{
    struct bytes ua = rpc_call_header(call, "user-agent");
    return bytes_contains(ua, BYTES_LIT("grpc-go/")) ||
           bytes_contains(ua, BYTES_LIT("grpc-java-netty/"));
}

void dt_request_free(struct dt_request *r)
{
    if (!r)
        return;
    command_deinit(&r->cmd);
    rpc_call_unref(r->call);
    free(r);
}

static void reply(struct rpc_call *call, const struct strbuf *bytes)
{
    struct rpc_msg *msg = rpc_msg_new(bytes->len);
    if (bytes->len)
        memcpy(rpc_msg_data(msg), bytes->ptr, bytes->len);
    rpc_call_reply(call, msg);
}

static void wait_over(struct dt_request *r)
{
    if (!r->connection)
        return;
    r->connection->waits--;
    dt_connection_put(r->svc, r->connection);
    if (rpc_call_context(r->call) == r)
        rpc_call_set_context(r->call, NULL);
}

/* On the call's thread, after the commit. */
static void request_finished(struct loop_task *task)
{
    struct dt_request *r = CONTAINER_OF(task, struct dt_request, task);
    wait_over(r);
    if (r->finish) {
        r->finish(r);
        return;
    }
    if (r->cmd.status)
        rpc_call_fail(r->call, r->cmd.error);
    else
        reply(r->call, &r->cmd.reply);
    dt_request_free(r);
}

/* On the engine's thread. */
static void request_done(struct command *cmd)
{
    struct dt_request *r = CONTAINER_OF(cmd, struct dt_request, cmd);
    r->task.fn = request_finished;
    if (cmd->status)
        command_error(cmd)->code = cmd->status;
    r->svc->host.post(r->svc->host.arg, r->thread, &r->task);
}

struct dt_request *dt_request_new(struct dt_service *svc, struct rpc_call *call,
                                  struct arena *arena, size_t bytes, enum dt_command type)
{
    struct error err = {0};
    struct bytes hub;
    if (dt_hub_of(call, arena, &hub, &err)) {
        rpc_call_fail(call, &err);
        arena_free(arena);
        return NULL;
    }
    struct dt_request *r = calloc(1, sizeof(*r));
    ASSERT(r);
    r->svc = svc;
    r->call = rpc_call_ref(call);
    r->thread = svc->host.thread(svc->host.arg, call);
    r->cmd.kind = &ORCHESTRATION;
    r->cmd.type = (int32_t)type;
    r->cmd.hub = hub;
    r->cmd.arena = arena;
    r->cmd.bytes = bytes + sizeof(*r);
    r->cmd.connection = rpc_call_conn_id(call);
    r->cmd.deadline = rpc_call_deadline(call);
    r->cmd.done = request_done;
    return r;
}

void dt_request_submit(struct dt_request *r)
{
    r->svc->host.submit(r->svc->host.arg, &r->cmd);
}

static void control_done(struct command *cmd)
{
    command_deinit(cmd);
    free(cmd);
}

void dt_control(struct dt_service *svc, void (*fn)(struct engine *e, struct command *cmd),
                uint64_t value, void *context)
{
    struct command *cmd = calloc(1, sizeof(*cmd));
    ASSERT(cmd);
    cmd->control = fn;
    cmd->object = value;
    cmd->context = context;
    cmd->done = control_done;
    svc->host.submit(svc->host.arg, cmd);
}

void dt_refuse(struct dt_request *r, const struct error *err)
{
    rpc_call_fail(r->call, err);
    dt_request_free(r);
}

bool dt_decode(struct dt_request *r, const ProtobufCMessageDescriptor *desc, struct bytes msg,
               void *out)
{
    struct error err = {0};
    if (!wire_unpack(desc, r->cmd.arena, msg, &WIRE_LIMITS, out, &err))
        return true;
    dt_refuse(r, &err);
    return false;
}

static bool set_target(struct dt_request *r, struct bytes id)
{
    struct error err = {0};
    r->cmd.id = id;
    if (!dt_check_id(id, r->svc->settings->id_action_chars, &err))
        return true;
    dt_refuse(r, &err);
    return false;
}

static bool not_overloaded(struct dt_request *r)
{
    struct error err = {0};
    r->cmd.flags |= COMMAND_ADDS_WORK;
    if (!r->svc->host.overload(r->svc->host.arg, r->cmd.bytes, &err))
        return true;
    dt_refuse(r, &err);
    return false;
}

/* ---- methods --------------------------------------------------------------------------------------------------- */

static void hello(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    (void)service;
    (void)msg;
    arena_free(arena);
    rpc_call_reply(call, rpc_msg_new(0));
}

static bool read_old_action(const OrchestrationIdReusePolicy *policy, int *action)
{
    for (unsigned i = 0; i < policy->base.n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *f = &policy->base.unknown_fields[i];
        const uint8_t *p = f->data;
        uint64_t value;
        if (f->tag == 2 && f->wire_type == PROTOBUF_C_WIRE_TYPE_VARINT &&
            wire_varint(&p, f->data + f->len, &value)) {
            *action = value <= 2 ? (int)value : 0;
            return true;
        }
    }
    return false;
}

static enum err check_policy(struct dt_start *start, struct error *err)
{
    const OrchestrationIdReusePolicy *policy = start->request->orchestrationidreusepolicy;
    if (!policy)
        return OK;
    start->has_policy = true;
    for (size_t i = 0; i < policy->n_replaceablestatus; i++)
        if ((unsigned)policy->replaceablestatus[i] < 32)
            start->replaceable |= DT_STATUS_BIT(policy->replaceablestatus[i]);
    if (read_old_action(policy, &start->old_action))
        return OK;
    uint32_t running = DT_STATUS_BIT(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING) |
                       DT_STATUS_BIT(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING) |
                       DT_STATUS_BIT(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_SUSPENDED);
    uint32_t terminated = DT_STATUS_BIT(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED);
    if ((start->replaceable & running) && !(start->replaceable & terminated))
        return error_set(err, ERR_INVALID,
                         "Invalid reusable statuses: cannot exclude 'Terminated' while also "
                         "allowing reuse of running "
                         "instances");
    return OK;
}

static enum err check_start_id(const struct dt_service *svc, struct bytes id, struct error *err)
{
    if (id.len == 0)
        return OK;
    enum err rc = dt_check_id(id, svc->settings->id_client_chars, err);
    if (!rc && id.ptr[0] == '@')
        return error_set(
            err, ERR_INVALID,
            "Instance id '%.*s' starts with '@'; such ids are those of entities, choose another",
            BYTES_FMT(id));
    return rc;
}

static enum err check_tags(const CreateInstanceRequest *req, struct error *err)
{
    size_t bytes = event_tags_bytes(EVENT_TAGS_OF(req));
    if (req->n_tags > EVENT_TAGS_MAX || bytes > EVENT_TAGS_BYTES_MAX)
        return error_set(err, ERR_INVALID,
                         "the tags are %zu with %zu bytes; at most %d with %zu bytes are allowed",
                         req->n_tags, bytes, EVENT_TAGS_MAX, EVENT_TAGS_BYTES_MAX);
    if (event_tags_have_nul(EVENT_TAGS_OF(req)))
        return error_set(err, ERR_INVALID, "the key of a tag has a NUL character; leave it out");
    return OK;
}

static enum err check_start(const struct dt_service *svc, struct dt_start *start, struct error *err)
{
    const CreateInstanceRequest *req = start->request;
    enum err rc = check_start_id(svc, wire_view(req->instanceid), err);
    if (rc)
        return rc;
    if (req->name.len == 0)
        return error_set(err, ERR_INVALID, "name must not be empty");
    if (!wire_time_is_unset(req->scheduledstarttimestamp) &&
        !wire_time_read(req->scheduledstarttimestamp, &start->start_at))
        return error_set(
            err, ERR_INVALID,
            "scheduledStartTimestamp is no valid time: the year is outside 1 to 9999, or "
            "nanos outside 0 to 999999999");
    if ((rc = check_tags(req, err)))
        return rc;
    return check_policy(start, err);
}

static void start_instance(struct rpc_call *call, void *service, struct arena *arena,
                           struct bytes msg)
{
    struct dt_service *svc = service;
    struct dt_request *r = dt_request_new(svc, call, arena, msg.len, DT_START);
    struct error err = {0};
    if (!r || !not_overloaded(r))
        return;
    struct dt_start *start = arena_new(arena, struct dt_start);
    if (!dt_decode(r, &create_instance_request__descriptor, msg, &start->request))
        return;
    if (check_start(svc, start, &err)) {
        dt_refuse(r, &err);
        return;
    }
    r->cmd.id = wire_view(start->request->instanceid);
    r->cmd.request = start;
    dt_request_submit(r);
}

static void get_instance(struct rpc_call *call, void *service, struct arena *arena,
                         struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_GET);
    GetInstanceRequest *req;
    if (!r || !dt_decode(r, &get_instance_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    struct dt_get *get = arena_new(arena, struct dt_get);
    get->payloads = req->getinputsandoutputs;
    r->cmd.request = get;
    dt_request_submit(r);
}

/* ---- waits ---- */

static bool begin_wait(struct dt_request *r)
{
    struct dt_service *svc = r->svc;
    struct error err = {0};
    if (svc->host.is_draining(svc->host.arg)) {
        error_set(&err, ERR_UNAVAILABLE, "the server is stopping; connect again in a moment");
        dt_refuse(r, &err);
        return false;
    }
    struct dt_connection *c = dt_connection_get(svc, r->cmd.connection);
    if (c->waits >= svc->settings->waiters_connection) {
        error_set(&err, ERR_LIMIT,
                  "this connection has %u waits, the most that waiters.connection allows",
                  c->waits);
        dt_refuse(r, &err);
        dt_connection_put(svc, c);
        return false;
    }
    c->waits++;
    r->connection = c;
    return true;
}

static void wait_for(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg,
                     uint32_t mode)
{
    struct dt_service *svc = service;
    struct dt_request *r = dt_request_new(svc, call, arena, msg.len, DT_WAIT);
    GetInstanceRequest *req;
    if (!r || !not_overloaded(r) || !dt_decode(r, &get_instance_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)) || !begin_wait(r))
        return;
    struct dt_get *get = arena_new(arena, struct dt_get);
    get->payloads = req->getinputsandoutputs;
    get->mode = mode | (get->payloads ? (uint32_t)DT_WAIT_PAYLOADS : 0);
    get->wait_id = r->wait_id = atomic_fetch_add(&svc->next_id, 1);
    r->cmd.request = get;
    rpc_call_set_context(call, r);
    dt_request_submit(r);
}

static void wait_for_start(struct rpc_call *call, void *service, struct arena *arena,
                           struct bytes msg)
{
    wait_for(call, service, arena, msg, DT_WAIT_START);
}

static void wait_for_completion(struct rpc_call *call, void *service, struct arena *arena,
                                struct bytes msg)
{
    wait_for(call, service, arena, msg, DT_WAIT_COMPLETION);
}

static void control_expire(struct engine *e, struct command *cmd)
{
    engine_wait_expire(e, cmd->object);
    cmd->done(cmd);
}

static void control_cancel(struct engine *e, struct command *cmd)
{
    engine_wait_cancel(e, cmd->object);
    cmd->done(cmd);
}

static void wait_deadline(struct rpc_call *call, void *service)
{
    struct dt_request *r = rpc_call_context(call);
    if (r)
        dt_control(service, control_expire, r->wait_id, NULL);
    else
        rpc_call_finish(call, err_grpc_status(ERR_DEADLINE),
                        BYTES_LIT("the call's deadline has passed"));
}

static void wait_closed(struct rpc_call *call, void *service)
{
    struct dt_request *r = rpc_call_context(call);
    if (r)
        dt_control(service, control_cancel, r->wait_id, NULL);
}

/* ---- changes of one instance ---- */

static void raise_event(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_RAISE);
    RaiseEventRequest *req;
    struct error err = {0};
    if (!r || !not_overloaded(r) || !dt_decode(r, &raise_event_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    if (req->name.len == 0) {
        error_set(&err, ERR_INVALID, "the name of the event for instance '%.*s' must not be empty",
                  BYTES_FMT(r->cmd.id));
        dt_refuse(r, &err);
        return;
    }
    r->cmd.request = req;
    dt_request_submit(r);
}

static void terminate_instance(struct rpc_call *call, void *service, struct arena *arena,
                               struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_TERMINATE);
    TerminateRequest *req;
    if (!r || !dt_decode(r, &terminate_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    r->cmd.request = req;
    dt_request_submit(r);
}

static void suspend_instance(struct rpc_call *call, void *service, struct arena *arena,
                             struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_SUSPEND);
    SuspendRequest *req;
    if (!r || !dt_decode(r, &suspend_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    r->cmd.request = req;
    dt_request_submit(r);
}

static void resume_instance(struct rpc_call *call, void *service, struct arena *arena,
                            struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_RESUME);
    ResumeRequest *req;
    if (!r || !dt_decode(r, &resume_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    r->cmd.request = req;
    dt_request_submit(r);
}

static void restart_instance(struct rpc_call *call, void *service, struct arena *arena,
                             struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_RESTART);
    RestartInstanceRequest *req;
    if (!r || !not_overloaded(r) ||
        !dt_decode(r, &restart_instance_request__descriptor, msg, &req) ||
        !set_target(r, wire_view(req->instanceid)))
        return;
    r->cmd.request = req;
    dt_request_submit(r);
}

/* ---- what is not built yet ---- */

static void later(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    (void)service;
    (void)msg;
    arena_free(arena);
    const char *path = rpc_call_method(call)->path;
    dt_fail(call, ERR_UNIMPLEMENTED, "%s comes with a later version of this server",
            strrchr(path, '/') + 1);
}

/* Of those that name something and carry nothing, and are not counted or stay in memory. */
#define SMALL KIB(64)

/* clang-format off */
#define PATH(name) "/TaskHubSidecarService/" name
static const struct rpc_method METHODS[] = {
    {.path = PATH("Hello"), .bytes_max = SMALL, .message = hello},
    {.path = PATH("StartInstance"), .weight = RPC_COUNTED, .message = start_instance},
    {.path = PATH("GetInstance"), .bytes_max = SMALL, .message = get_instance},
    {.path = PATH("RewindInstance"), .message = later},
    {.path = PATH("RestartInstance"), .weight = RPC_COUNTED, .bytes_max = SMALL, .message = restart_instance},
    {.path = PATH("WaitForInstanceStart"), .bytes_max = SMALL, .message = wait_for_start, .deadline = wait_deadline, .closed = wait_closed},
    {.path = PATH("WaitForInstanceCompletion"), .bytes_max = SMALL, .message = wait_for_completion, .deadline = wait_deadline, .closed = wait_closed},
    {.path = PATH("RaiseEvent"), .weight = RPC_COUNTED, .message = raise_event},
    {.path = PATH("TerminateInstance"), .weight = RPC_HELD_BACK, .message = terminate_instance},
    {.path = PATH("SuspendInstance"), .weight = RPC_HELD_BACK, .message = suspend_instance},
    {.path = PATH("ResumeInstance"), .weight = RPC_HELD_BACK, .message = resume_instance},
    {.path = PATH("QueryInstances"), .bytes_max = SMALL, .message = dt_query_instances},
    {.path = PATH("ListInstanceIds"), .bytes_max = SMALL, .message = dt_list_instance_ids},
    {.path = PATH("PurgeInstances"), .weight = RPC_HELD_BACK, .message = dt_purge_instances, .closed = dt_purge_closed},
    {.path = PATH("GetWorkItems"), .kind = RPC_SERVER_STREAM, .bytes_max = MIB(4), .message = dt_get_work_items, .closed = dt_work_items_closed},
    {.path = PATH("CompleteActivityTask"), .weight = RPC_HELD_BACK, .message = dt_complete_task, .oversize = dt_oversize_task, .closed = dt_oversize_closed},
    {.path = PATH("CompleteOrchestratorTask"), .weight = RPC_HELD_BACK, .message = dt_complete_turn, .oversize = dt_oversize_turn, .closed = dt_oversize_closed},
    {.path = PATH("CompleteEntityTask"), .message = later},
    {.path = PATH("StreamInstanceHistory"), .kind = RPC_SERVER_STREAM, .bytes_max = SMALL, .message = dt_stream_history, .closed = dt_stream_history_closed},
    {.path = PATH("CreateTaskHub"), .message = later},
    {.path = PATH("DeleteTaskHub"), .message = later},
    {.path = PATH("SignalEntity"), .message = later},
    {.path = PATH("GetEntity"), .message = later},
    {.path = PATH("QueryEntities"), .message = later},
    {.path = PATH("CleanEntityStorage"), .message = later},
    {.path = PATH("AbandonTaskActivityWorkItem"), .weight = RPC_HELD_BACK, .bytes_max = SMALL, .message = dt_abandon},
    {.path = PATH("AbandonTaskOrchestratorWorkItem"), .weight = RPC_HELD_BACK, .bytes_max = SMALL, .message = dt_abandon},
    {.path = PATH("AbandonTaskEntityWorkItem"), .message = later},
    {.path = PATH("SkipGracefulOrchestrationTerminations"), .weight = RPC_HELD_BACK, .message = dt_skip_graceful},
};
/* clang-format on */

struct dt_service *dt_service_new(const struct dt_host *host, const struct settings *settings)
{
    struct dt_service *svc = calloc(1, sizeof(*svc));
    ASSERT(svc);
    svc->host = *host;
    svc->settings = settings;
    pthread_mutex_init(&svc->lock, NULL);
    atomic_store(&svc->next_id, 1);
    return svc;
}

void dt_service_free(struct dt_service *svc)
{
    if (!svc)
        return;
    hashmap_deinit(&svc->connections);
    pthread_mutex_destroy(&svc->lock);
    free(svc->methods);
    free(svc);
}

void dt_service_register(struct dt_service *svc, struct rpc_server *server)
{
    static_assert(ARRAY_LEN(METHODS) == 29, "the service has 29 methods");
    svc->methods = malloc(sizeof(METHODS));
    ASSERT(svc->methods);
    memcpy(svc->methods, METHODS, sizeof(METHODS));
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
        svc->methods[i].service = svc;
    rpc_server_add(server, svc->methods, ARRAY_LEN(METHODS));
}
