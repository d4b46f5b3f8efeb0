#include "bench/workload.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "bench/replay.h"
#include "wire/wire.h"

#define SEED_LEN 8
#define EXECUTIONS 5 /* of continue-as-new */

/* clang-format off */
const struct workload WORKLOADS[] = {
    {"hello1",          NULL,     "one activity",                             {STAGE_START, STAGE_WAIT},    1, false},
    {"chain5",          NULL,     "5 activities, one after the other",        {STAGE_START, STAGE_WAIT},    5, false},
    {"chain50",         NULL,     "50 activities, one after the other",       {STAGE_START, STAGE_WAIT},   50, false},
    {"fanout100",       NULL,     "100 activities at once",                   {STAGE_START, STAGE_WAIT}, 5050, false},
    {"timer",           NULL,     "one timer, of --delay",                    {STAGE_START, STAGE_WAIT},    0, true},
    {"event",           NULL,     "one event, raised when it has started",    {STAGE_START, STAGE_WAIT_START, STAGE_RAISE, STAGE_WAIT}, 1, false},
    {"suborch",         NULL,     "one child, which runs hello1",             {STAGE_START, STAGE_WAIT},    1, false},
    {"continue-as-new", NULL,     "5 executions of one activity each",        {STAGE_START, STAGE_WAIT},    5, false},
    {"wait-only",       "hello1", "waits for instances that ended before",    {STAGE_WAIT},                 1, false},
};
/* clang-format on */
const size_t WORKLOAD_COUNT = ARRAY_LEN(WORKLOADS);

const struct workload *workload_find(const char *name)
{
    for (size_t i = 0; i < WORKLOAD_COUNT; i++)
        if (!strcmp(WORKLOADS[i].name, name))
            return &WORKLOADS[i];
    return NULL;
}

const char *workload_orchestration(const struct workload *w)
{
    return w->orchestration ? w->orchestration : w->name;
}

/* ---- values -------------------------------------------------------------------------------------- */

bool value_read(struct bytes text, struct value *out)
{
    size_t at = 1 + SEED_LEN, dot;

    if (text.len < at + 4 || text.ptr[0] != '"' || text.ptr[text.len - 1] != '"' ||
        text.ptr[at] != '.')
        return false;
    for (dot = at + 1; dot < text.len && text.ptr[dot] != '.'; dot++)
        ;
    if (dot == text.len ||
        !bytes_parse_u64(bytes_of(text.ptr + at + 1, dot - at - 1), &out->number))
        return false;
    out->seed = bytes_of(text.ptr + 1, SEED_LEN);
    out->pad = bytes_of(text.ptr + dot + 1, text.len - dot - 2);
    return true;
}

struct bytes value_text(struct arena *a, const struct value *v)
{
    char head[64];
    int len = snprintf(head, sizeof(head), "\"%.*s.%" PRIu64 ".", BYTES_FMT(v->seed), v->number);
    ASSERT(len > 0 && (size_t)len < sizeof(head));
    size_t head_len = (size_t)len, total = head_len + v->pad.len + 1;
    uint8_t *text = arena_alloc(a, total);

    memcpy(text, head, head_len);
    if (v->pad.len > 0)
        memcpy(text + head_len, v->pad.ptr, v->pad.len);
    text[total - 1] = '"';
    return bytes_of(text, total);
}

struct bytes value_pad(struct arena *a, struct bytes seed, size_t len)
{
    uint8_t *pad = arena_alloc(a, len + 1);

    for (size_t i = 0; i < len; i++)
        pad[i] = (uint8_t)('a' + (seed.ptr[i % seed.len] + i) % 26);
    return bytes_of(pad, len);
}

/* ---- a turn in the making ------------------------------------------------------------------------ */

struct turn {
    struct arena *arena;
    struct bytes instance;
    struct replay replay;
    struct value input;
    OrchestratorAction **actions;
    size_t count, cap;
    int32_t next_id;
};

static OrchestratorAction *add_action(struct turn *t,
                                      OrchestratorAction__OrchestratorActionTypeCase type)
{
    OrchestratorAction *action = arena_new(t->arena, OrchestratorAction);

    ASSERT(t->count < t->cap);
    orchestrator_action__init(action);
    action->id = t->next_id++;
    action->orchestrator_action_type_case = type;
    t->actions[t->count++] = action;
    return action;
}

static struct bytes numbered(struct turn *t, uint64_t number)
{
    struct value v = {t->input.seed, number, t->input.pad};
    return value_text(t->arena, &v);
}

static void schedule(struct turn *t, struct bytes input)
{
    OrchestratorAction *action =
        add_action(t, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK);
    ScheduleTaskAction *task = arena_new(t->arena, ScheduleTaskAction);

    schedule_task_action__init(task);
    action->scheduletask = task;
    task->name = wire_data(BYTES_LIT(WORKLOAD_ACTIVITY));
    task->input = wire_string_value(t->arena, input);
}

static CompleteOrchestrationAction *complete(struct turn *t, OrchestrationStatus status,
                                             struct bytes result)
{
    OrchestratorAction *action =
        add_action(t, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION);
    CompleteOrchestrationAction *end = arena_new(t->arena, CompleteOrchestrationAction);

    complete_orchestration_action__init(end);
    action->completeorchestration = end;
    end->orchestrationstatus = status;
    end->result = wire_string_value(t->arena, result);
    return end;
}

static void succeed(struct turn *t, struct bytes result)
{
    complete(t, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, result);
}

/* ---- the programs ------------------------------------------------------------------------------------ */

static void chain(struct turn *t, uint64_t steps)
{
    const struct replay *r = &t->replay;

    if (r->answered < r->asked)
        return;
    if (r->answered == steps)
        succeed(t, r->result);
    else
        schedule(t, r->answered == 0 ? r->input : r->result);
}

static void fan_out(struct turn *t, uint64_t width)
{
    const struct replay *r = &t->replay;

    for (uint64_t i = r->asked; i < width; i++)
        schedule(t, numbered(t, i));
    if (r->answered == width)
        succeed(t, numbered(t, r->sum));
}

static void sleep_once(struct turn *t, uint64_t unused UNUSED)
{
    const struct replay *r = &t->replay;

    if (r->answered > 0) {
        succeed(t, r->input);
    } else if (r->asked == 0) {
        OrchestratorAction *action =
            add_action(t, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER);
        action->createtimer = arena_new(t->arena, CreateTimerAction);
        create_timer_action__init(action->createtimer);
        action->createtimer->fireat = arena_new(t->arena, Google__Protobuf__Timestamp);
        *action->createtimer->fireat = wire_time(usec_add(r->now, (usec_t)t->input.number));
    }
}

static void wait_for_event(struct turn *t, uint64_t unused UNUSED)
{
    if (!bytes_is_none(t->replay.event))
        succeed(t, t->replay.event);
}

static void run_child(struct turn *t, uint64_t unused UNUSED)
{
    const struct replay *r = &t->replay;

    if (r->answered > 0) {
        succeed(t, r->result);
    } else if (r->asked == 0) {
        OrchestratorAction *action =
            add_action(t, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION);
        CreateSubOrchestrationAction *child = arena_new(t->arena, CreateSubOrchestrationAction);
        create_sub_orchestration_action__init(child);
        action->createsuborchestration = child;
        /* As the SDKs name it: not all servers make one up. */
        child->instanceid = wire_data(bytes_str(
            arena_printf(t->arena, "%.*s:%04x", BYTES_FMT(t->instance), (unsigned)action->id)));
        child->name = wire_data(BYTES_LIT("hello1"));
        child->input = wire_string_value(t->arena, r->input);
    }
}

static void continue_as_new(struct turn *t, uint64_t executions)
{
    const struct replay *r = &t->replay;
    struct value v;

    if (r->asked == 0)
        schedule(t, r->input);
    else if (r->answered == 1 && value_read(r->result, &v) && v.number >= executions)
        succeed(t, r->result);
    else if (r->answered == 1)
        complete(t, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW, r->result);
}

struct program {
    const char *name;
    void (*run)(struct turn *t, uint64_t n);
    uint64_t n;
    size_t actions_max;
};

/* clang-format off */
static const struct program PROGRAMS[] = {
    {"hello1",          chain,           1,          1},
    {"chain5",          chain,           5,          1},
    {"chain50",         chain,           50,         1},
    {"fanout100",       fan_out,         100,        101},
    {"timer",           sleep_once,      0,          1},
    {"event",           wait_for_event,  0,          1},
    {"suborch",         run_child,       0,          1},
    {"continue-as-new", continue_as_new, EXECUTIONS, 1},
};
/* clang-format on */

static const struct program *program_find(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(PROGRAMS); i++)
        if (bytes_eq(bytes_str(PROGRAMS[i].name), name))
            return &PROGRAMS[i];
    return NULL;
}

static void end_badly(struct turn *t)
{
    CompleteOrchestrationAction *end;

    if (t->replay.is_terminated) {
        complete(t, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED, BYTES_NONE);
        return;
    }
    end = complete(t, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED, BYTES_NONE);
    end->failuredetails = arena_new(t->arena, TaskFailureDetails);
    task_failure_details__init(end->failuredetails);
    end->failuredetails->errortype = wire_data(BYTES_LIT("BenchFailure"));
    end->failuredetails->errormessage = wire_data(t->replay.failure);
}

enum err workload_decide(const OrchestratorRequest *req, struct arena *a,
                         OrchestratorResponse *resp, struct error *err)
{
    struct turn *t = arena_new(a, struct turn);
    enum err e = replay_read(req, &t->replay, err);

    if (e)
        return e;
    const struct program *p = program_find(t->replay.name);
    if (!p)
        return error_set(err, ERR_UNIMPLEMENTED,
                         "a turn of the orchestration \"%.*s\", which is none of the benchmark's",
                         BYTES_FMT(t->replay.name));
    if (!value_read(t->replay.input, &t->input))
        return error_set(err, ERR_CORRUPT, "the input of the history is no value");
    t->arena = a;
    t->instance = wire_view(req->instanceid);
    t->cap = p->actions_max;
    t->actions = arena_array(a, OrchestratorAction *, t->cap);
    t->next_id = (int32_t)t->replay.asked + 1;
    if (t->replay.has_failed || t->replay.is_terminated)
        end_badly(t);
    else
        p->run(t, p->n);
    orchestrator_response__init(resp);
    resp->instanceid = req->instanceid;
    resp->n_actions = t->count;
    resp->actions = t->actions;
    return OK;
}

enum err workload_activity(const ActivityRequest *req, struct arena *a, struct bytes *result,
                           struct error *err)
{
    struct value v;

    if (!bytes_eq(wire_view(req->name), BYTES_LIT(WORKLOAD_ACTIVITY)))
        return error_set(err, ERR_UNIMPLEMENTED,
                         "the activity \"%.*s\", which is none of the benchmark's",
                         BYTES_FMT(wire_view(req->name)));
    if (!value_read(wire_string(req->input), &v))
        return error_set(err, ERR_CORRUPT, "the input of an activity is no value");
    v.number++;
    *result = value_text(a, &v);
    return OK;
}
