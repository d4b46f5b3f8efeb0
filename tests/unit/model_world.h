/* model_world.h - the engine with the orchestration kind, and the simulator's model watching it. For tests of the model: a right
 * trace comes from the real thing, a wrong one from a test that alters what the model is told or what the database holds.
 *
 * A file on a RAM disk, one thread, a clock that the test turns. Include it once, last.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "durabletask.pb-c.h"
#include "durabletask/requests.h"
#include "durabletask/service.h"
#include "engine/engine.h"
#include "rpc/rpc.h"
#include "sim/model/model.h"
#include "wire/unpack.h"
#include "wire/value.h"

#define SECOND USEC_PER_SEC

struct mw_item {
    WorkItem *item; /* in the world's arena */
    struct bytes raw;
    uint64_t stream, connection;
    bool is_taken;
};

struct mw {
    struct settings settings;
    struct clock clock;
    usec_t wall, mono;
    struct prng prng;
    struct store *store;
    struct engine *e;
    struct arena *arena;
    char dir[64], path[128];
    struct model *m;
    sqlite3 *db; /* the model's */
    uint64_t generation;
    uint64_t next_id;
    uint64_t queue[1024]; /* calls that the next batch takes */
    size_t queued;
    bool has_item_tamper, has_no_image;
    struct mw_item *items;
    size_t item_count;
    char checker[32], text[1500]; /* the first finding */
    unsigned findings;
    /* Lies that a test tells the model. */
    void (*before_commit)(struct mw *w); /* between the commit and its report */
    bool (*tamper_item)(struct mw *w,
                        WorkItem *item); /* true: it was changed; report the changed one */
    bool hides_commits, hides_answers, lies_about_answers;
    int lie_status;
};

static void mw_found(void *arg, const char *checker, const char *text)
{
    struct mw *w = arg;
    if (w->findings++)
        return;
    snprintf(w->checker, sizeof(w->checker), "%s", checker);
    snprintf(w->text, sizeof(w->text), "%s", text);
}

static sqlite3 *mw_image(void *arg, uint64_t *generation)
{
    struct mw *w = arg;
    if (w->has_no_image)
        return NULL;
    if (!w->db) {
        ASSERT(sqlite3_open_v2(w->path, &w->db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
        w->generation++;
    }
    *generation = w->generation;
    return w->db;
}

static usec_t mw_wall(void *arg)
{
    return ((struct mw *)arg)->wall;
}

static usec_t mw_mono(void *arg)
{
    return ((struct mw *)arg)->mono;
}

static void mw_on_commit(void *arg, usec_t took, uint64_t commands, bool ok)
{
    struct mw *w = arg;
    struct model_batch b = {.now = w->wall, .calls = w->queue, .count = w->queued};
    (void)took;
    (void)commands;
    if (w->hides_commits)
        return;
    if (!ok) {
        model_commit_failed(w->m, &b);
        return;
    }
    if (w->before_commit)
        w->before_commit(w);
    model_commit(w->m, &b);
}

static void mw_open(struct mw *w)
{
    static const struct object_kind *const KINDS[] = {&ORCHESTRATION, NULL};
    struct error err = {0};
    char url[160];
    snprintf(url, sizeof(url), "sqlite:%s", w->path);
    struct store_options so = {
        .url = bytes_str(url), .settings = &w->settings, .clock = &w->clock, .prng = &w->prng};
    enum err rc = store_open(&so, &w->store, &err);
    ASSERT(rc == OK);
    struct engine_options eo = {.store = w->store,
                                .settings = &w->settings,
                                .clock = &w->clock,
                                .prng = &w->prng,
                                .kinds = KINDS,
                                .front = &ORCHESTRATION};
    w->e = engine_new(&eo);
    engine_on_commit(w->e, mw_on_commit, w);
}

static inline void mw_settle(struct mw *w) /* settings were changed: before the first call */
{
    model_free(w->m);
    struct model_options mo = {
        .settings = &w->settings, .image = mw_image, .found = mw_found, .arg = w, .full_every = 4};
    w->m = model_new(&mo);
    model_clock(w->m, w->wall, w->mono);
}

static struct mw *mw_new(uint64_t seed)
{
    struct mw *w = calloc(1, sizeof(*w));
    ASSERT(w);
    settings_defaults(&w->settings);
    w->wall = 1800000000 * USEC_PER_SEC;
    w->mono = 1000 * USEC_PER_SEC;
    w->clock = (struct clock){mw_wall, mw_mono, w};
    prng_seed(&w->prng, seed);
    w->arena = arena_create();
    snprintf(w->dir, sizeof(w->dir), "%s/perdure-model-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(w->dir));
    snprintf(w->path, sizeof(w->path), "%s/s.db", w->dir);
    mw_settle(w);
    mw_open(w);
    return w;
}

/* One statement on the database, behind the server's back. */
static inline int64_t mw_sql(struct mw *w, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    ASSERT(sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (!rc)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        print_error("%s: %s\n", sql, sqlite3_errmsg(db));
        fail();
    }
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return number;
}

static void mw_clock(struct mw *w)
{
    model_clock(w->m, w->wall, w->mono);
}

static void mw_run(struct mw *w)
{
    for (int i = 0; i < 10000; i++) {
        mw_clock(w);
        bool more = engine_run(w->e);
        w->queued = 0;
        if (!more)
            break;
    }
    if (engine_is_healthy(w->e))
        model_idle(w->m);
}

static inline void mw_advance(struct mw *w, usec_t by)
{
    w->wall += by;
    w->mono += by;
    mw_run(w);
}

static void mw_close(struct mw *w)
{
    if (w->db) {
        model_free(w->m);
        sqlite3_close(w->db);
    } else {
        model_free(w->m);
    }
    w->db = NULL;
    w->m = NULL;
    engine_free(w->e);
    store_close(w->store);
}

static void mw_free(struct mw *w)
{
    char path[400];
    mw_close(w);
    DIR *d = opendir(w->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", w->dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    closedir(d);
    rmdir(w->dir);
    arena_free(w->arena);
    free(w->items);
    free(w);
}

/* ---- calls ------------------------------------------------------------------------------------------- */

struct mw_pending {
    struct command cmd;
    struct mw *w;
    uint64_t id;
    int *status; /* -1 until it is answered */
};

static void mw_done(struct command *cmd)
{
    struct mw_pending *p = CONTAINER_OF(cmd, struct mw_pending, cmd);
    struct mw *w = p->w;
    int status = err_grpc_status(cmd->status);
    *p->status = status;
    if (w->m && !w->hides_answers)
        model_answer(w->m, p->id, w->lies_about_answers ? w->lie_status : status,
                     cmd->status ? cmd->error->msg : "", strbuf_bytes(&cmd->reply));
    command_deinit(cmd);
    free(p);
}

/* `request`: the message; `command`: what the engine gets. Queued until mw_run(). */
static int *mw_submit(struct mw *w, const char *method, enum dt_command type, struct bytes id,
                      void *request, const void *command, uint64_t connection, bool token_less)
{
    struct mw_pending *p = calloc(1, sizeof(*p));
    ASSERT(p);
    ProtobufCMessage *msg = request;
    uint8_t *raw = arena_alloc(w->arena, protobuf_c_message_get_packed_size(msg) + 1);
    struct model_call call = {.id = ++w->next_id,
                              .connection = connection,
                              .method = method,
                              .request = bytes_of(raw, protobuf_c_message_pack(msg, raw)),
                              .token_less = token_less};
    mw_clock(w);
    model_call(w->m, &call);
    p->w = w;
    p->id = call.id;
    p->status = arena_new(w->arena, int);
    *p->status = -1;
    p->cmd.kind = &ORCHESTRATION;
    p->cmd.type = (int32_t)type;
    p->cmd.arena = arena_create();
    p->cmd.hub = BYTES_LIT("default");
    p->cmd.id = arena_dup(p->cmd.arena, id);
    p->cmd.request = command;
    p->cmd.connection = connection;
    p->cmd.done = mw_done;
    ASSERT(w->queued < ARRAY_LEN(w->queue));
    w->queue[w->queued++] = call.id;
    int *status = p->status;
    engine_submit(w->e, &p->cmd);
    return status;
}

static inline Google__Protobuf__StringValue *mw_box(struct mw *w, const char *s)
{
    return wire_string_value(w->arena, bytes_str(s));
}

static inline int *mw_start_with(struct mw *w, CreateInstanceRequest *q, usec_t at)
{
    struct dt_start *start = arena_new(w->arena, struct dt_start);
    start->request = q;
    start->start_at = at;
    if (q->orchestrationidreusepolicy) {
        start->has_policy = true;
        for (size_t i = 0; i < q->orchestrationidreusepolicy->n_replaceablestatus; i++)
            start->replaceable |=
                DT_STATUS_BIT(q->orchestrationidreusepolicy->replaceablestatus[i]);
    }
    return mw_submit(w, "StartInstance", DT_START, wire_view(q->instanceid), q, start, 1, false);
}

static inline int *mw_start(struct mw *w, const char *id, const char *name)
{
    CreateInstanceRequest *q = arena_new(w->arena, CreateInstanceRequest);
    create_instance_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    q->name = wire_data(bytes_str(name));
    q->input = mw_box(w, "\"in\"");
    return mw_start_with(w, q, 0);
}

static inline int *mw_raise(struct mw *w, const char *id, const char *name, const char *data)
{
    RaiseEventRequest *q = arena_new(w->arena, RaiseEventRequest);
    raise_event_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    q->name = wire_data(bytes_str(name));
    q->input = mw_box(w, data);
    return mw_submit(w, "RaiseEvent", DT_RAISE, bytes_str(id), q, q, 1, false);
}

static inline int *mw_terminate(struct mw *w, const char *id, bool recursive)
{
    TerminateRequest *q = arena_new(w->arena, TerminateRequest);
    terminate_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    q->output = mw_box(w, "\"over\"");
    q->recursive = recursive;
    return mw_submit(w, "TerminateInstance", DT_TERMINATE, bytes_str(id), q, q, 1, false);
}

static inline int *mw_suspend(struct mw *w, const char *id)
{
    SuspendRequest *q = arena_new(w->arena, SuspendRequest);
    suspend_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    return mw_submit(w, "SuspendInstance", DT_SUSPEND, bytes_str(id), q, q, 1, false);
}

static inline int *mw_resume(struct mw *w, const char *id)
{
    ResumeRequest *q = arena_new(w->arena, ResumeRequest);
    resume_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    return mw_submit(w, "ResumeInstance", DT_RESUME, bytes_str(id), q, q, 1, false);
}

static inline int *mw_purge(struct mw *w, const char *id)
{
    PurgeInstancesRequest *q = arena_new(w->arena, PurgeInstancesRequest);
    purge_instances_request__init(q);
    q->request_case = PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID;
    q->instanceid = wire_data(bytes_str(id));
    struct bytes *ids = arena_new(w->arena, struct bytes);
    *ids = wire_view(q->instanceid);
    struct dt_purge *purge = arena_new(w->arena, struct dt_purge);
    *purge = (struct dt_purge){.ids = ids, .count = 1};
    return mw_submit(w, "PurgeInstances", DT_PURGE, bytes_str(id), q, purge, 1, false);
}

static inline int *mw_get(struct mw *w, const char *method, const char *id, bool payloads)
{
    GetInstanceRequest *q = arena_new(w->arena, GetInstanceRequest);
    get_instance_request__init(q);
    q->instanceid = wire_data(bytes_str(id));
    q->getinputsandoutputs = payloads;
    struct dt_get *get = arena_new(w->arena, struct dt_get);
    get->payloads = payloads;
    get->wait_id = w->next_id + 1;
    bool start = strcmp(method, "WaitForInstanceStart") == 0;
    get->mode = (start ? DT_WAIT_START : 0) | (payloads ? DT_WAIT_PAYLOADS : 0);
    bool wait = strcmp(method, "GetInstance") != 0;
    return mw_submit(w, method, wait ? DT_WAIT : DT_GET, bytes_str(id), q, get, 1, false);
}

/* ---- workers ------------------------------------------------------------------------------------------- */

struct mw_sink {
    struct mw *w;
    uint64_t stream, connection;
};

static void mw_send(void *arg, void *item)
{
    struct mw_sink *s = arg;
    struct mw *w = s->w;
    struct error err = {0};
    struct mw_item *it;
    w->items = realloc(w->items, (w->item_count + 1) * sizeof(*w->items));
    it = &w->items[w->item_count++];
    *it = (struct mw_item){.stream = s->stream, .connection = s->connection};
    it->raw = arena_dup(w->arena, bytes_of(rpc_msg_data(item), rpc_msg_len(item)));
    rpc_msg_unref(item);
    ASSERT(wire_unpack(&work_item__descriptor, w->arena, it->raw, &WIRE_LIMITS, &it->item, &err) ==
           OK);
    if (it->item->request_case == WORK_ITEM__REQUEST_HEALTH_PING)
        it->is_taken = true;
    if (w->tamper_item && w->tamper_item(w, it->item)) {
        uint8_t *raw =
            arena_alloc(w->arena, protobuf_c_message_get_packed_size(&it->item->base) + 1);
        it->raw = bytes_of(raw, protobuf_c_message_pack(&it->item->base, raw));
    }
    mw_clock(w);
    model_item(w->m, s->stream, it->raw);
}

static size_t mw_unsent(void *arg)
{
    (void)arg;
    return 0;
}

static void mw_end(void *arg, enum err status, const char *message)
{
    struct mw_sink *s = arg;
    (void)status;
    (void)message;
    if (s->w->m)
        model_stream_end(s->w->m, s->stream);
    free(s);
}

static inline uint64_t mw_stream(struct mw *w, int32_t turns, int32_t tasks, bool token_less,
                                 uint64_t connection)
{
    struct error err = {0};
    GetWorkItemsRequest q = GET_WORK_ITEMS_REQUEST__INIT;
    uint8_t raw[64];
    q.maxconcurrentorchestrationworkitems = turns;
    q.maxconcurrentactivityworkitems = tasks;
    struct mw_sink *s = calloc(1, sizeof(*s));
    ASSERT(s);
    s->w = w;
    s->stream = ++w->next_id;
    s->connection = connection ? connection : s->stream;
    struct model_stream ms = {
        .id = s->stream,
        .connection = s->connection,
        .request = bytes_of(raw, protobuf_c_message_pack(&q.base, raw)),
        .token_less = token_less,
    };
    struct work_stream_options o = {
        .hub = BYTES_LIT("default"),
        .id = s->stream,
        .connection = s->connection,
        .capacity = {[WORK_TURN] = (uint32_t)turns, [WORK_TASK] = (uint32_t)tasks},
        .token_less = token_less,
        .worker = bytes_str(arena_printf(w->arena, "w%d", (int)s->stream)),
    };
    struct work_sink sink = {mw_send, mw_unsent, mw_end, s};
    model_stream_open(w->m, &ms);
    uint64_t id = s->stream;
    ASSERT(work_stream_open(w->e, &o, &sink, &err) == OK);
    return id;
}

static inline void mw_stream_close(struct mw *w, uint64_t id)
{
    work_stream_end(w->e, id);
}

/* The next item that nobody took; NULL: none. */
static inline struct mw_item *mw_next(struct mw *w)
{
    for (size_t i = 0; i < w->item_count; i++)
        if (!w->items[i].is_taken) {
            w->items[i].is_taken = true;
            struct mw_item *copy = arena_new(w->arena, struct mw_item);
            *copy = w->items[i]; /* the array moves */
            return copy;
        }
    return NULL;
}

static inline struct mw_item *mw_turn(struct mw *w)
{
    struct mw_item *it = mw_next(w);
    assert_non_null(it);
    assert_int_equal(it->item->request_case, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST);
    return it;
}

static inline OrchestratorAction *mw_action(struct mw *w, int32_t id, int kind)
{
    OrchestratorAction *a = arena_new(w->arena, OrchestratorAction);
    orchestrator_action__init(a);
    a->id = id;
    a->orchestrator_action_type_case = (OrchestratorAction__OrchestratorActionTypeCase)kind;
    return a;
}

static inline OrchestratorAction *mw_task(struct mw *w, int32_t id)
{
    OrchestratorAction *a =
        mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK);
    a->scheduletask = arena_new(w->arena, ScheduleTaskAction);
    schedule_task_action__init(a->scheduletask);
    a->scheduletask->name = wire_data(BYTES_LIT("Act"));
    return a;
}

static inline OrchestratorAction *mw_timer(struct mw *w, int32_t id, usec_t due)
{
    OrchestratorAction *a =
        mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER);
    a->createtimer = arena_new(w->arena, CreateTimerAction);
    create_timer_action__init(a->createtimer);
    a->createtimer->fireat = arena_new(w->arena, Google__Protobuf__Timestamp);
    google__protobuf__timestamp__init(a->createtimer->fireat);
    a->createtimer->fireat->seconds = due / USEC_PER_SEC;
    a->createtimer->fireat->nanos = (int32_t)(due % USEC_PER_SEC) * 1000;
    return a;
}

static inline OrchestratorAction *mw_child(struct mw *w, int32_t id, const char *instance)
{
    OrchestratorAction *a =
        mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION);
    a->createsuborchestration = arena_new(w->arena, CreateSubOrchestrationAction);
    create_sub_orchestration_action__init(a->createsuborchestration);
    a->createsuborchestration->name = wire_data(BYTES_LIT("Child"));
    a->createsuborchestration->instanceid = wire_data(bytes_str(instance));
    return a;
}

static inline OrchestratorAction *mw_send_event(struct mw *w, int32_t id, const char *target)
{
    OrchestratorAction *a =
        mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT);
    a->sendevent = arena_new(w->arena, SendEventAction);
    send_event_action__init(a->sendevent);
    a->sendevent->name = wire_data(BYTES_LIT("sent"));
    a->sendevent->instance = arena_new(w->arena, OrchestrationInstance);
    orchestration_instance__init(a->sendevent->instance);
    a->sendevent->instance->instanceid = wire_data(bytes_str(target));
    return a;
}

static inline OrchestratorAction *mw_finish(struct mw *w, int32_t id, OrchestrationStatus status)
{
    OrchestratorAction *a =
        mw_action(w, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION);
    a->completeorchestration = arena_new(w->arena, CompleteOrchestrationAction);
    complete_orchestration_action__init(a->completeorchestration);
    a->completeorchestration->orchestrationstatus = status;
    a->completeorchestration->result = mw_box(w, "\"out\"");
    return a;
}

static inline int *mw_respond(struct mw *w, OrchestratorResponse *q, uint64_t connection,
                              bool token_less)
{
    return mw_submit(w, "CompleteOrchestratorTask", DT_COMPLETE_TURN, wire_view(q->instanceid), q,
                     q, connection, token_less);
}

/* Queued; NULL-terminated actions. */
static inline int *mw_complete(struct mw *w, const struct mw_item *it, bool token_less, ...)
{
    OrchestratorResponse *q = arena_new(w->arena, OrchestratorResponse);
    orchestrator_response__init(q);
    q->instanceid = it->item->orchestratorrequest->instanceid;
    if (!token_less)
        q->completiontoken = it->item->completiontoken;
    q->actions = arena_array(w->arena, OrchestratorAction *, 64);
    va_list ap;
    va_start(ap, token_less);
    for (OrchestratorAction *a; (a = va_arg(ap, OrchestratorAction *));)
        q->actions[q->n_actions++] = a;
    va_end(ap);
    return mw_respond(w, q, it->connection, token_less);
}

static inline int *mw_result(struct mw *w, const struct mw_item *it, bool token_less, bool fails)
{
    ActivityRequest *a = it->item->activityrequest;
    ActivityResponse *q = arena_new(w->arena, ActivityResponse);
    activity_response__init(q);
    q->instanceid = a->orchestrationinstance->instanceid;
    q->taskid = a->taskid;
    q->result = mw_box(w, "\"done\"");
    if (!token_less)
        q->completiontoken = it->item->completiontoken;
    if (fails) {
        q->failuredetails = arena_new(w->arena, TaskFailureDetails);
        task_failure_details__init(q->failuredetails);
        q->failuredetails->errortype = wire_data(BYTES_LIT("E"));
        q->failuredetails->errormessage = wire_data(BYTES_LIT("no"));
    }
    return mw_submit(w, "CompleteActivityTask", DT_COMPLETE_TASK, wire_view(q->instanceid), q, q,
                     it->connection, token_less);
}

static inline void mw_crash(struct mw *w)
{
    w->hides_answers = true; /* engine_free() answers UNAVAILABLE: nobody hears it */
    struct model *m = w->m;
    w->m = NULL;
    engine_free(w->e);
    w->m = m;
    store_close(w->store);
    w->hides_answers = false;
    w->queued = 0;
    model_crash(m, NULL);
    w->mono += SECOND;
    mw_clock(w);
    mw_open(w);
    model_recovered(m);
}

#define assert_no_finding(w) mw_assert_none((w), __FILE__, __LINE__)
static inline void mw_assert_none(struct mw *w, const char *file, int line)
{
    if (!w->findings)
        return;
    print_error("%s:%d: [%s] %s\n", file, line, w->checker, w->text);
    model_print(w->m, NULL, BYTES_NONE);
    fail();
}

#define assert_finding(w, name) mw_assert_found((w), (name), __FILE__, __LINE__)
static inline void mw_assert_found(struct mw *w, const char *name, const char *file, int line)
{
    if (w->findings && strcmp(w->checker, name) == 0)
        return;
    print_error("%s:%d: %s instead of a finding of %s: %s\n", file, line,
                w->findings ? w->checker : "nothing", name, w->text);
    fail();
}
