#include "lib/world.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "durabletask/orchestration.h"
#include "rpc/rpc.h"
#include "wire/reader.h"
#include "wire/unpack.h"
#include "wire/value.h"

static usec_t wall_now(void *arg)
{
    return ((struct world *)arg)->wall;
}

static usec_t mono_now(void *arg)
{
    return ((struct world *)arg)->mono;
}

static void open_store(struct world *w)
{
    static const struct object_kind *const KINDS[] = {&ORCHESTRATION, NULL};
    struct error err = {0};
    struct store_options so = {
        .url = bytes_str(w->url),
        .settings = &w->settings,
        .clock = &w->clock,
        .prng = &w->prng,
        .vfs = w->vfs,
    };
    enum err rc = store_open(&so, &w->store, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    ASSERT(rc == OK);
    struct engine_options eo = {
        .store = w->store,
        .settings = &w->settings,
        .clock = &w->clock,
        .prng = &w->prng,
        .kinds = KINDS,
        .front = &ORCHESTRATION,
    };
    w->e = engine_new(&eo);
}

static struct world *new_world(void)
{
    struct world *w = calloc(1, sizeof(*w));
    settings_defaults(&w->settings);
    w->wall = 1800000000 * USEC_PER_SEC;
    w->mono = 1000 * USEC_PER_SEC;
    w->clock = (struct clock){wall_now, mono_now, w};
    prng_seed(&w->prng, 1);
    w->arena = arena_create();
    w->next_id = 100;
    return w;
}

struct world *world_new(const char *url)
{
    struct world *w = new_world();
    w->url = strdup(url ? url : "memory");
    open_store(w);
    return w;
}

struct world *world_new_file(const char *vfs)
{
    struct world *w = new_world();
    char url[160];
    /* In memory where there is such a place: thousands of commits must not wait for a disk. */
    snprintf(w->dir, sizeof(w->dir), "%s/perdure-world-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(w->dir));
    snprintf(w->path, sizeof(w->path), "%s/s.db", w->dir);
    snprintf(url, sizeof(url), "sqlite:%s", w->path);
    w->url = strdup(url);
    w->vfs = vfs;
    open_store(w);
    return w;
}

int64_t world_sql(struct world *w, const char *fmt, ...)
{
    char sql[1024];
    sqlite3 *db;
    sqlite3_stmt *st;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sql, sizeof(sql), fmt, ap);
    va_end(ap);
    ASSERT(sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE, w->vfs) == SQLITE_OK);
    ASSERT(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK);
    int rc = sqlite3_step(st);
    ASSERT(rc == SQLITE_ROW || rc == SQLITE_DONE);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return number;
}

static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    char path[400];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

static void stream_free(struct world_stream *st)
{
    for (size_t i = 0; i < st->count; i++)
        arena_free(st->items[i]->arena);
    free(st->items);
    free(st);
}

static void drop_streams(struct world *w)
{
    for (size_t i = 0; i < w->stream_count; i++)
        stream_free(w->streams[i]);
    free(w->streams);
    w->streams = NULL;
    w->stream_count = 0;
}

void world_free(struct world *w)
{
    engine_free(w->e);
    store_close(w->store);
    drop_streams(w);
    arena_free(w->arena);
    if (w->dir[0])
        remove_dir(w->dir);
    free(w->url);
    free(w);
}

void world_restart(struct world *w)
{
    engine_free(w->e);
    store_close(w->store);
    drop_streams(w);
    w->mono += USEC_PER_SEC;
    open_store(w);
    if (!w->is_held)
        world_run(w);
}

void world_run(struct world *w)
{
    for (int i = 0; i < 10000 && engine_run(w->e); i++)
        ;
}

void world_advance(struct world *w, usec_t by)
{
    w->wall += by;
    w->mono += by;
    world_run(w);
}

struct pending {
    struct command cmd;
    struct world_answer *answer;
};

static void command_done(struct command *cmd)
{
    struct pending *p = CONTAINER_OF(cmd, struct pending, cmd);
    p->answer->is_done = true;
    p->answer->status = cmd->status;
    snprintf(p->answer->msg, sizeof(p->answer->msg), "%s", cmd->status ? cmd->error->msg : "");
    p->answer->reply = cmd->reply;
    /* Copied into the world's arena by the caller's answer; free the heap with it. */
    struct bytes copy = arena_dup(cmd->context, strbuf_bytes(&cmd->reply));
    union {
        const uint8_t *in;
        uint8_t *out;
    } u = {.in = copy.ptr};
    p->answer->reply = (struct strbuf){.ptr = u.out, .len = copy.len, .cap = copy.len};
    command_deinit(cmd);
    free(p);
}

struct world_answer *world_do_on(struct world *w, uint64_t connection, enum dt_command type,
                                 const char *id, const void *request)
{
    struct pending *p = calloc(1, sizeof(*p));
    p->answer = arena_new(w->arena, struct world_answer);
    p->cmd.kind = &ORCHESTRATION;
    p->cmd.type = (int32_t)type;
    p->cmd.arena = arena_create();
    p->cmd.hub = arena_dup(p->cmd.arena, bytes_str(w->hub ? w->hub : "default"));
    p->cmd.id = arena_dup(p->cmd.arena, bytes_str(id));
    p->cmd.request = request;
    p->cmd.connection = connection;
    p->cmd.bytes = w->cmd_bytes;
    p->cmd.done = command_done;
    p->cmd.context = w->arena;
    struct world_answer *a = p->answer;
    engine_submit(w->e, &p->cmd);
    if (!w->is_held)
        world_run(w);
    return a;
}

struct world_answer *world_do(struct world *w, enum dt_command type, const char *id,
                              const void *request)
{
    return world_do_on(w, 1, type, id, request);
}

static ProtobufCBinaryData text(const char *s)
{
    return wire_data(s ? bytes_str(s) : BYTES_LIT(""));
}

static Google__Protobuf__StringValue *box(struct world *w, const char *s)
{
    return wire_string_value(w->arena, bytes_str(s));
}

struct world_answer *world_start(struct world *w, const char *id, const char *name,
                                 const char *input)
{
    CreateInstanceRequest *req = arena_new(w->arena, CreateInstanceRequest);
    create_instance_request__init(req);
    req->instanceid = text(id);
    req->name = text(name);
    req->input = box(w, input);
    struct dt_start *start = arena_new(w->arena, struct dt_start);
    start->request = req;
    return world_do(w, DT_START, id, start);
}

struct world_answer *world_raise(struct world *w, const char *id, const char *name,
                                 const char *data)
{
    RaiseEventRequest *req = arena_new(w->arena, RaiseEventRequest);
    raise_event_request__init(req);
    req->name = text(name);
    req->input = box(w, data);
    return world_do(w, DT_RAISE, id, req);
}

struct world_answer *world_terminate(struct world *w, const char *id, const char *output,
                                     bool recursive)
{
    TerminateRequest *req = arena_new(w->arena, TerminateRequest);
    terminate_request__init(req);
    req->output = box(w, output);
    req->recursive = recursive;
    return world_do(w, DT_TERMINATE, id, req);
}

OrchestrationState *world_get(struct world *w, const char *id)
{
    struct dt_get *get = arena_new(w->arena, struct dt_get);
    get->payloads = true;
    struct world_answer *a = world_do(w, DT_GET, id, get);
    ASSERT(a->is_done && a->status == OK);
    struct error err = {0};
    GetInstanceResponse *resp;
    enum err rc = wire_unpack(&get_instance_response__descriptor, w->arena, strbuf_bytes(&a->reply),
                              &WIRE_LIMITS, &resp, &err);
    ASSERT(rc == OK);
    return resp->exists ? resp->orchestrationstate : NULL;
}

struct world_answer *world_wait(struct world *w, const char *id, uint32_t mode, uint64_t wait_id)
{
    struct dt_get *get = arena_new(w->arena, struct dt_get);
    get->mode = mode;
    get->wait_id = wait_id;
    return world_do(w, DT_WAIT, id, get);
}

/* ---- streams --------------------------------------------------------------------------------------------- */

static void sink_send(void *arg, void *item)
{
    struct world_stream *st = arg;
    struct error err = {0};
    struct arena *arena = arena_create();
    struct world_item *it = arena_new(arena, struct world_item);
    it->arena = arena;
    struct bytes copy = arena_dup(arena, bytes_of(rpc_msg_data(item), rpc_msg_len(item)));
    rpc_msg_unref(item);
    enum err rc = wire_unpack(&work_item__descriptor, arena, copy, &WIRE_LIMITS, &it->item, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    ASSERT(rc == OK);
    it->token = wire_view(it->item->completiontoken);
    st->items = realloc(st->items, (st->count + 1) * sizeof(*st->items));
    st->items[st->count++] = it;
}

static size_t sink_unsent(void *arg)
{
    struct world_stream *st = arg;
    st->w->asked_for_room++;
    return st->unsent;
}

static void sink_end(void *arg, enum err status, const char *message)
{
    struct world_stream *st = arg;
    (void)message;
    st->ended = true;
    st->end_status = status;
}

struct world_stream *world_stream_with(struct world *w, const struct work_stream_options *opts)
{
    struct world_stream *st = calloc(1, sizeof(*st));
    struct error err = {0};
    struct work_stream_options o = *opts;
    st->w = w;
    st->id = o.id = ++w->next_id;
    if (!o.connection)
        o.connection = o.id;
    if (!o.hub.ptr)
        o.hub = bytes_str(w->hub ? w->hub : "default");
    o.worker = bytes_str(arena_printf(w->arena, "worker-%llu", (unsigned long long)o.id));
    struct work_sink sink = {sink_send, sink_unsent, sink_end, st};
    enum err rc = work_stream_open(w->e, &o, &sink, &err);
    ASSERT(rc == OK);
    w->streams = realloc(w->streams, (w->stream_count + 1) * sizeof(*w->streams));
    w->streams[w->stream_count++] = st;
    world_run(w);
    return st;
}

struct world_stream *world_stream(struct world *w, uint32_t turns, uint32_t tasks)
{
    struct work_stream_options o = {.capacity = {[WORK_TURN] = turns, [WORK_TASK] = tasks}};
    return world_stream_with(w, &o);
}

void world_close(struct world_stream *st)
{
    work_stream_end(st->w->e, st->id);
    world_run(st->w);
}

struct world_item *world_next(struct world_stream *st)
{
    world_run(st->w);
    while (st->taken < st->count) {
        struct world_item *it = st->items[st->taken++];
        if (it->item->request_case != WORK_ITEM__REQUEST_HEALTH_PING)
            return it;
    }
    return NULL;
}

struct world_item *world_turn(struct world_stream *st)
{
    struct world_item *it = world_next(st);
    ASSERT(it && it->item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST);
    return it;
}

struct world_item *world_task(struct world_stream *st)
{
    struct world_item *it = world_next(st);
    ASSERT(it && it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST);
    return it;
}

/* ---- actions ------------------------------------------------------------------------------------------------- */

static OrchestratorAction *action(struct world *w, int32_t id,
                                  OrchestratorAction__OrchestratorActionTypeCase kind)
{
    OrchestratorAction *a = arena_new(w->arena, OrchestratorAction);
    orchestrator_action__init(a);
    a->id = id;
    a->orchestrator_action_type_case = kind;
    return a;
}

OrchestratorAction *act_task(struct world *w, int32_t id, const char *name, const char *input)
{
    OrchestratorAction *a =
        action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK);
    a->scheduletask = arena_new(w->arena, ScheduleTaskAction);
    schedule_task_action__init(a->scheduletask);
    a->scheduletask->name = text(name);
    a->scheduletask->input = box(w, input);
    return a;
}

OrchestratorAction *act_timer(struct world *w, int32_t id, usec_t due)
{
    OrchestratorAction *a =
        action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER);
    a->createtimer = arena_new(w->arena, CreateTimerAction);
    create_timer_action__init(a->createtimer);
    Google__Protobuf__Timestamp *ts = arena_new(w->arena, Google__Protobuf__Timestamp);
    google__protobuf__timestamp__init(ts);
    ts->seconds = due / USEC_PER_SEC;
    ts->nanos = (int32_t)(due % USEC_PER_SEC) * 1000;
    a->createtimer->fireat = ts;
    return a;
}

OrchestratorAction *act_child(struct world *w, int32_t id, const char *name, const char *instance)
{
    OrchestratorAction *a =
        action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION);
    a->createsuborchestration = arena_new(w->arena, CreateSubOrchestrationAction);
    create_sub_orchestration_action__init(a->createsuborchestration);
    a->createsuborchestration->name = text(name);
    a->createsuborchestration->instanceid = text(instance);
    return a;
}

OrchestratorAction *act_send(struct world *w, int32_t id, const char *target, const char *name,
                             const char *data)
{
    OrchestratorAction *a = action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT);
    a->sendevent = arena_new(w->arena, SendEventAction);
    send_event_action__init(a->sendevent);
    a->sendevent->instance = arena_new(w->arena, OrchestrationInstance);
    orchestration_instance__init(a->sendevent->instance);
    a->sendevent->instance->instanceid = text(target);
    a->sendevent->name = text(name);
    a->sendevent->data = box(w, data);
    return a;
}

OrchestratorAction *act_done(struct world *w, int32_t id, OrchestrationStatus status,
                             const char *result)
{
    OrchestratorAction *a =
        action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION);
    a->completeorchestration = arena_new(w->arena, CompleteOrchestrationAction);
    complete_orchestration_action__init(a->completeorchestration);
    a->completeorchestration->orchestrationstatus = status;
    a->completeorchestration->result = box(w, result);
    return a;
}

struct world_answer *world_answer(struct world *w, uint64_t connection,
                                  const OrchestratorResponse *r)
{
    return world_do_on(w, connection, DT_COMPLETE_TURN,
                       arena_cstr(w->arena, wire_view(r->instanceid)), r);
}

static OrchestratorResponse *response(struct world *w, const char *id, struct bytes token,
                                      va_list ap)
{
    OrchestratorResponse *r = arena_new(w->arena, OrchestratorResponse);
    orchestrator_response__init(r);
    OrchestratorAction **actions = arena_array(w->arena, OrchestratorAction *, 64);
    for (OrchestratorAction *a; (a = va_arg(ap, OrchestratorAction *));) {
        ASSERT(r->n_actions < 64);
        actions[r->n_actions++] = a;
    }
    r->actions = actions;
    r->instanceid = text(id);
    r->completiontoken = wire_data(token);
    return r;
}

OrchestratorResponse *world_response(struct world *w, const struct world_item *turn, ...)
{
    va_list ap;
    va_start(ap, turn);
    char *id = arena_cstr(w->arena, wire_view(turn->item->orchestratorrequest->instanceid));
    OrchestratorResponse *r = response(w, id, arena_dup(w->arena, turn->token), ap);
    va_end(ap);
    return r;
}

struct world_answer *world_complete(struct world *w, const struct world_item *turn, ...)
{
    va_list ap;
    va_start(ap, turn);
    char *id = arena_cstr(w->arena, wire_view(turn->item->orchestratorrequest->instanceid));
    OrchestratorResponse *r = response(w, id, arena_dup(w->arena, turn->token), ap);
    va_end(ap);
    return world_answer(w, 1, r);
}

struct world_answer *world_complete_on(struct world *w, uint64_t connection, const char *id,
                                       const char *token, ...)
{
    va_list ap;
    va_start(ap, token);
    OrchestratorResponse *r = response(w, id, bytes_str(token ? token : ""), ap);
    va_end(ap);
    return world_answer(w, connection, r);
}

static ActivityResponse *task_response(struct world *w, const struct world_item *task, char **id)
{
    const ActivityRequest *req = task->item->activityrequest;
    ActivityResponse *r = arena_new(w->arena, ActivityResponse);
    activity_response__init(r);
    *id = arena_cstr(w->arena, wire_view(req->orchestrationinstance->instanceid));
    r->instanceid = text(*id);
    r->taskid = req->taskid;
    r->completiontoken = wire_data(arena_dup(w->arena, task->token));
    return r;
}

struct world_answer *world_result(struct world *w, const struct world_item *task,
                                  const char *result)
{
    char *id;
    ActivityResponse *r = task_response(w, task, &id);
    r->result = box(w, result);
    return world_do(w, DT_COMPLETE_TASK, id, r);
}

struct world_answer *world_failure(struct world *w, const struct world_item *task, const char *type,
                                   const char *msg)
{
    char *id;
    ActivityResponse *r = task_response(w, task, &id);
    r->failuredetails = arena_new(w->arena, TaskFailureDetails);
    task_failure_details__init(r->failuredetails);
    r->failuredetails->errortype = text(type);
    r->failuredetails->errormessage = text(msg);
    return world_do(w, DT_COMPLETE_TASK, id, r);
}

struct world_answer *world_result_on(struct world *w, uint64_t connection, const char *id,
                                     int32_t task, const char *result)
{
    ActivityResponse *r = arena_new(w->arena, ActivityResponse);
    activity_response__init(r);
    r->instanceid = text(arena_cstr(w->arena, bytes_str(id)));
    r->taskid = task;
    r->result = box(w, result);
    return world_do_on(w, connection, DT_COMPLETE_TASK, id, r);
}

struct world_answer *world_suspend(struct world *w, const char *id)
{
    SuspendRequest *req = arena_new(w->arena, SuspendRequest);
    suspend_request__init(req);
    return world_do(w, DT_SUSPEND, id, req);
}

struct world_answer *world_resume(struct world *w, const char *id)
{
    ResumeRequest *req = arena_new(w->arena, ResumeRequest);
    resume_request__init(req);
    return world_do(w, DT_RESUME, id, req);
}

struct world_answer *world_purge(struct world *w, const char *id)
{
    return world_purge_all(w, &id, 1, false);
}

struct world_answer *world_purge_all(struct world *w, const char *const *ids, size_t count,
                                     bool recursive)
{
    struct dt_purge *req = arena_new(w->arena, struct dt_purge);
    struct bytes *list = arena_array(w->arena, struct bytes, count);
    for (size_t i = 0; i < count; i++)
        list[i] = arena_dup(w->arena, bytes_str(ids[i]));
    *req = (struct dt_purge){.ids = list, .count = count, .recursive = recursive};
    return world_do(w, DT_PURGE, ids[0], req);
}

uint64_t world_purged(const struct world_answer *a)
{
    return wire_varint_find(strbuf_bytes(&a->reply), 1);
}

void world_abandon(struct world *w, const struct world_item *item)
{
    struct token t;
    ASSERT(token_decode(engine_tokens(w->e), item->token, &t));
    struct item_ref ref = {t.kind, t.kind == WORK_TURN ? t.object : t.key, t.nonce};
    work_abandon_in(w->e, bytes_str(w->hub ? w->hub : "default"), &ref);
    world_run(w);
}

/* ---- events as text ---------------------------------------------------------------------------------------------- */

static const char *event_name(int type)
{
    static const char *const NAMES[] = {
        [3] = "ExecutionStarted", [4] = "ExecutionCompleted", [5] = "ExecutionTerminated",
        [6] = "TaskScheduled",    [7] = "TaskCompleted",      [8] = "TaskFailed",
        [9] = "ChildCreated",     [10] = "ChildCompleted",    [11] = "ChildFailed",
        [12] = "TimerCreated",    [13] = "TimerFired",        [14] = "OrchestratorStarted",
        [16] = "EventSent",       [17] = "EventRaised",       [21] = "Suspended",
        [22] = "Resumed",
    };
    return type >= 0 && (size_t)type < ARRAY_LEN(NAMES) && NAMES[type] ? NAMES[type] : "?";
}

static void put_name(struct strbuf *out, const HistoryEvent *ev)
{
    strbuf_appendf(out, "%s%s", out->len ? " " : "", event_name((int)ev->event_type_case));
    if (ev->eventid >= 0)
        strbuf_appendf(out, "#%d", ev->eventid);
    switch (ev->event_type_case) {
    case HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED:
        strbuf_appendf(out, "(%d)", ev->taskcompleted->taskscheduledid);
        break;
    case HISTORY_EVENT__EVENT_TYPE_TASK_FAILED:
        strbuf_appendf(out, "(%d)", ev->taskfailed->taskscheduledid);
        break;
    case HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED:
        strbuf_appendf(out, "(%d)", ev->timerfired->timerid);
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED:
        strbuf_appendf(out, "(%d)", ev->suborchestrationinstancecompleted->taskscheduledid);
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED:
        strbuf_appendf(out, "(%d)", ev->suborchestrationinstancefailed->taskscheduledid);
        break;
    case HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED:
        strbuf_appendf(out, "(%.*s)", BYTES_FMT(wire_view(ev->eventraised->name)));
        break;
    default:
        break;
    }
}

static const char *names(struct world *w, HistoryEvent *const *events, size_t n)
{
    struct strbuf out = {0};
    for (size_t i = 0; i < n; i++)
        put_name(&out, events[i]);
    char *copy = arena_cstr(w->arena, strbuf_bytes(&out));
    strbuf_deinit(&out);
    return copy;
}

const char *world_new_events(struct world *w, const struct world_item *turn)
{
    return names(w, turn->item->orchestratorrequest->newevents,
                 turn->item->orchestratorrequest->n_newevents);
}

const char *world_past_events(struct world *w, const struct world_item *turn)
{
    return names(w, turn->item->orchestratorrequest->pastevents,
                 turn->item->orchestratorrequest->n_pastevents);
}

const OrchestratorRequest *world_events(struct world *w, const char *id)
{
    struct strbuf frames = {0};
    struct dt_history *req = arena_new(w->arena, struct dt_history);
    req->is_first = true;
    for (;;) {
        struct world_answer *a = world_do(w, DT_HISTORY, id, req);
        struct dt_history_page page;
        ASSERT(a->status == OK);
        memcpy(&page, a->reply.ptr, sizeof(page));
        strbuf_append(&frames, a->reply.ptr + sizeof(page), page.chunk_len);
        if (page.next_row > page.to_row)
            break;
        req = arena_new(w->arena, struct dt_history);
        *req = (struct dt_history){
            .execution = page.execution, .from_row = page.next_row, .to_row = page.to_row};
    }
    /* Stored frames are those of OrchestratorRequest.pastEvents. */
    OrchestratorRequest *all;
    struct error err = {0};
    struct bytes copy = arena_dup(w->arena, strbuf_bytes(&frames));
    strbuf_deinit(&frames);
    enum err rc =
        wire_unpack(&orchestrator_request__descriptor, w->arena, copy, &WIRE_LIMITS, &all, &err);
    ASSERT(rc == OK);
    return all;
}

const char *world_history(struct world *w, const char *id)
{
    const OrchestratorRequest *all = world_events(w, id);
    return names(w, all->pastevents, all->n_pastevents);
}
