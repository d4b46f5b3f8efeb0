#include "sim/program.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/hashmap.h"
#include "sim/sched.h"
#include "wire/timestamp.h"
#include "wire/value.h"

#define IDS_MAX 200
#define STEPS 7
#define DEPTH 2
#define GENERATIONS 3
#define ATTEMPTS 3
#define CARRIED 3
#define ACTIONS_MAX 64

struct seen_action {
    const HistoryEvent *event; /* that recorded it; NULL: not seen */
    bool is_open, is_released; /* released: nobody waits for it any more */
    bool has_failed;
    int attempts;
};

struct view {
    struct arena *a;
    const struct program_options *opts;
    struct bytes id, input;
    struct seen_action ids[IDS_MAX];
    int32_t first, next; /* ids: first .. next-1 are used */
    int open;
    const HistoryEvent *raised[CARRIED];
    size_t raised_count;
    const HistoryEvent *sent[IDS_MAX];
    size_t sent_count;
    usec_t now; /* of the last orchestratorStarted */
    bool is_started, is_ended, is_suspended, is_terminated, is_terminated_now;
    struct bytes terminated_input;
    const char *wrong;
};

/* ---- helpers ------------------------------------------------------------------------------------------- */

static ProtobufCBinaryData text(const char *s)
{
    return wire_data(bytes_str(s));
}

static Google__Protobuf__StringValue *box(struct arena *a, const char *s)
{
    return wire_string_value(a, bytes_str(s));
}

static uint64_t plan_of(const struct view *v, int32_t at)
{
    const char *key = arena_printf(v->a, "%.*s/%.*s/%d", BYTES_FMT(v->id), BYTES_FMT(v->input), at);
    return hash_u64(bytes_hash(bytes_str(key)));
}

static int generation_of(const struct view *v)
{
    uint64_t n = 0;
    return bytes_parse_u64(v->input, &n) ? (int)n : 0;
}

static int depth_of(struct bytes id)
{
    int n = 0;
    for (size_t i = 0; i < id.len; i++)
        n += id.ptr[i] == '.' || id.ptr[i] == ':';
    return n;
}

enum step {
    STEP_TASKS,
    STEP_TIMER,
    STEP_CHILD,
    STEP_SEND,
    STEP_BOTH,
    STEP_WAIT,
    STEP_RETRY,
    STEP_TERMINATE,
    STEP_KINDS
};

static enum step step_of(uint64_t plan)
{
    static const enum step BY_LUCK[16] = {STEP_TASKS, STEP_TASKS, STEP_TASKS, STEP_TIMER,
                                          STEP_TIMER, STEP_CHILD, STEP_CHILD, STEP_CHILD,
                                          STEP_SEND,  STEP_SEND,  STEP_BOTH,  STEP_BOTH,
                                          STEP_WAIT,  STEP_WAIT,  STEP_RETRY, STEP_TERMINATE};
    return BY_LUCK[plan % 16];
}

/* ---- replay -------------------------------------------------------------------------------------------------- */

static void see_action(struct view *v, const HistoryEvent *ev)
{
    int32_t id = ev->eventid;
    if (id < 0 || id >= IDS_MAX) {
        v->wrong = "an action's event has an id that nobody gave";
        return;
    }
    struct seen_action *s = &v->ids[id];
    if (s->is_open)
        v->wrong = "an action that is still open was recorded again";
    s->event = ev;
    s->attempts++;
    s->is_open = true;
    s->is_released = s->has_failed = false;
    v->open++;
    v->next = MAX(v->next, id + 1);
}

static void see_resolution(struct view *v, int32_t id, HistoryEvent__EventTypeCase of, bool failed)
{
    if (id < 0 || id >= IDS_MAX || !v->ids[id].event) {
        v->wrong = "a resolution of something that was never asked for";
        return;
    }
    struct seen_action *s = &v->ids[id];
    if (!s->is_open)
        v->wrong = "a second resolution of one action";
    else if (s->event->event_type_case != of)
        v->wrong = "a resolution of another kind than the action's";
    else if (!s->is_released)
        v->open--;
    s->is_open = false;
    s->has_failed = failed;
}

/* "go" ends what a waiting step waits for. */
static void see_raised(struct view *v, const HistoryEvent *ev)
{
    v->raised[v->raised_count++ % CARRIED] = ev;
    if (!bytes_eq(wire_view(ev->eventraised->name), BYTES_LIT("go")))
        return;
    for (int32_t i = 0; i < v->next; i++) {
        struct seen_action *s = &v->ids[i];
        if (s->is_open && !s->is_released && step_of(plan_of(v, i)) == STEP_WAIT) {
            s->is_released = true;
            v->open--;
        }
    }
}

static void see_started(struct view *v, const HistoryEvent *ev)
{
    if (v->is_started)
        v->wrong = "executionStarted comes twice";
    v->is_started = true;
    v->input = wire_string(ev->executionstarted->input);
    /* PY and JS count from 1, GO and JAVA from 0. */
    v->first = v->next = (int32_t)(bytes_hash(v->id) % 2);
}

static void see(struct view *v, const HistoryEvent *ev)
{
    if (v->is_ended)
        v->wrong = "an event behind executionCompleted";
    switch (ev->event_type_case) {
    case HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED: {
        usec_t at = 0;
        if (!ev->timestamp || !wire_time_read(ev->timestamp, &at) || at < v->now)
            v->wrong = "orchestratorStarted goes back in time";
        v->now = at;
        break;
    }
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED:
        see_started(v, ev);
        break;
    case HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED:
    case HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED:
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED:
        see_action(v, ev);
        break;
    case HISTORY_EVENT__EVENT_TYPE_EVENT_SENT:
        v->next = MAX(v->next, ev->eventid + 1);
        if (v->sent_count < IDS_MAX)
            v->sent[v->sent_count++] = ev;
        break;
    case HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED:
        see_resolution(v, ev->taskcompleted->taskscheduledid,
                       HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED, false);
        break;
    case HISTORY_EVENT__EVENT_TYPE_TASK_FAILED:
        see_resolution(v, ev->taskfailed->taskscheduledid, HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED,
                       true);
        break;
    case HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED:
        see_resolution(v, ev->timerfired->timerid, HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED, false);
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED:
        see_resolution(v, ev->suborchestrationinstancecompleted->taskscheduledid,
                       HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED, false);
        break;
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED:
        see_resolution(v, ev->suborchestrationinstancefailed->taskscheduledid,
                       HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED, true);
        break;
    case HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED:
        see_raised(v, ev);
        break;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED:
        v->is_terminated = v->is_terminated_now = true;
        v->terminated_input = wire_string(ev->executionterminated->input);
        break;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED:
        v->is_suspended = true;
        break;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_RESUMED:
        v->is_suspended = false;
        break;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_COMPLETED:
        v->is_ended = true;
        break;
    default:
        v->wrong = "an event of a kind that no worker knows";
        break;
    }
}

/* ---- actions --------------------------------------------------------------------------------------------------- */

OrchestratorAction *program_action(struct arena *a, int32_t id, int kind)
{
    OrchestratorAction *act = arena_new(a, OrchestratorAction);
    orchestrator_action__init(act);
    act->id = id;
    act->orchestrator_action_type_case = (OrchestratorAction__OrchestratorActionTypeCase)kind;
    return act;
}

struct labels program_labels(struct arena *a, uint64_t luck)
{
    static const char *const KEYS[] = {"team", "", "caf\xc3\xa9"};
    struct labels l = {.n_tags = luck % 4};
    ExecutionStartedEvent__TagsEntry **tags =
        arena_array(a, ExecutionStartedEvent__TagsEntry *, ARRAY_LEN(KEYS));
    for (size_t i = 0; i < l.n_tags; i++) {
        tags[i] = arena_new(a, ExecutionStartedEvent__TagsEntry);
        execution_started_event__tags_entry__init(tags[i]);
        tags[i]->key = text(KEYS[i]);
        tags[i]->value = text(arena_printf(a, "%u", (unsigned)(luck % 97)));
    }
    l.tags = tags;
    if (luck / 4 % 3 == 0) {
        l.trace = arena_new(a, TraceContext);
        trace_context__init(l.trace);
        l.trace->traceparent = text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        l.trace->tracestate = luck % 2 ? box(a, "k=v") : NULL;
    }
    return l;
}

static OrchestratorAction *task(struct view *v, int32_t id, const char *name, const char *version)
{
    OrchestratorAction *act =
        program_action(v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK);
    ScheduleTaskAction *t = act->scheduletask = arena_new(v->a, ScheduleTaskAction);
    schedule_task_action__init(t);
    t->name = text(name);
    t->version = box(v->a, version);
    t->input = box(v->a, arena_printf(v->a, "in %d", id));
    struct labels l = program_labels(v->a, (uint64_t)id);
    t->n_tags = l.n_tags;
    t->tags = l.tags;
    t->parenttracecontext = l.trace;
    return act;
}

static OrchestratorAction *timer(struct view *v, int32_t id, usec_t due, int32_t nanos)
{
    OrchestratorAction *act =
        program_action(v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER);
    CreateTimerAction *t = act->createtimer = arena_new(v->a, CreateTimerAction);
    create_timer_action__init(t);
    t->fireat = arena_new(v->a, Google__Protobuf__Timestamp);
    *t->fireat = wire_time(due);
    t->fireat->nanos += nanos;
    return act;
}

static OrchestratorAction *child(struct view *v, int32_t id, const char *instance,
                                 const char *version)
{
    OrchestratorAction *act = program_action(
        v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION);
    CreateSubOrchestrationAction *c = act->createsuborchestration =
        arena_new(v->a, CreateSubOrchestrationAction);
    create_sub_orchestration_action__init(c);
    c->name = text("P");
    c->version = box(v->a, version);
    c->instanceid = text(instance);
    c->input = box(v->a, "0");
    struct labels l = program_labels(v->a, (uint64_t)id + 1);
    c->n_tags = l.n_tags;
    c->tags = l.tags;
    c->parenttracecontext = l.trace;
    return act;
}

static OrchestratorAction *send(struct view *v, int32_t id, struct bytes target, struct bytes name,
                                struct bytes data)
{
    OrchestratorAction *act =
        program_action(v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT);
    SendEventAction *s = act->sendevent = arena_new(v->a, SendEventAction);
    send_event_action__init(s);
    s->instance = arena_new(v->a, OrchestrationInstance);
    orchestration_instance__init(s->instance);
    s->instance->instanceid = wire_data(target);
    s->name = wire_data(name);
    s->data = wire_string_value(v->a, data);
    return act;
}

static OrchestratorAction *terminate(struct view *v, int32_t id, const char *target, bool recurse)
{
    OrchestratorAction *act = program_action(
        v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION);
    TerminateOrchestrationAction *t = act->terminateorchestration =
        arena_new(v->a, TerminateOrchestrationAction);
    terminate_orchestration_action__init(t);
    t->instanceid = text(target);
    t->reason = box(v->a, "told by another");
    t->recurse = recurse;
    return act;
}

static OrchestratorAction *done(struct view *v, int32_t id, OrchestrationStatus status,
                                struct bytes result)
{
    OrchestratorAction *act = program_action(
        v->a, id, ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION);
    CompleteOrchestrationAction *c = act->completeorchestration =
        arena_new(v->a, CompleteOrchestrationAction);
    complete_orchestration_action__init(c);
    c->orchestrationstatus = status;
    c->result = wire_string_value(v->a, result);
    struct labels l = program_labels(v->a, (uint64_t)id + 2);
    c->n_tags = l.n_tags;
    c->tags = l.tags;
    return act;
}

TaskFailureDetails *program_failure(struct arena *a, unsigned levels)
{
    TaskFailureDetails *f = arena_new(a, TaskFailureDetails);
    task_failure_details__init(f);
    f->errortype = text("SimError");
    f->errormessage = text(levels % 2 ? "it failed" : "");
    f->stacktrace = box(a, "at program.c");
    if (levels > 1)
        f->innerfailure = program_failure(a, levels - 1);
    return f;
}

static const char *pool_id(const struct view *v, uint64_t n)
{
    return arena_printf(v->a, "i%u", (unsigned)(n % v->opts->ids));
}

/* ---- decisions ---------------------------------------------------------------------------------------------------- */

static size_t begin_child(struct view *v, uint64_t plan, int32_t id, OrchestratorAction **out)
{
    if (depth_of(v->id) >= DEPTH) {
        out[0] = timer(v, id, 0, 0);
        return 1;
    }
    uint64_t how = plan / 16 % 8;
    size_t n;
    const char *name = how == 0   ? ""
                       : how == 1 ? pool_id(v, plan / 128)
                                  : arena_printf(v->a, "%.*s.%d", BYTES_FMT(v->id), id);
    out[0] = child(v, id, name, how == 2 ? "2" : NULL);
    for (n = 1; how >= 6 && n <= plan / 128 % 4;
         n++) /* several, which may end in one batch with a turn of their parent's */
        out[n] = child(v, id + (int32_t)n,
                       arena_printf(v->a, "%.*s.%d", BYTES_FMT(v->id), id + (int32_t)n), NULL);
    return n;
}

static size_t begin_send(struct view *v, uint64_t plan, int32_t id, OrchestratorAction **out)
{
    uint64_t how = plan / 16 % 8;
    struct bytes target = how == 0   ? v->id
                          : how == 1 ? BYTES_LIT("nobody")
                                     : bytes_str(pool_id(v, plan / 128));
    out[0] = send(v, id, target, how % 2 ? BYTES_LIT("go") : BYTES_LIT("ping"),
                  how == 3 ? BYTES_NONE : BYTES_LIT("hello"));
    out[1] = task(v, id + 1, "T", NULL);
    return 2;
}

static size_t begin_step(struct view *v, OrchestratorAction **out)
{
    int32_t id = v->next;
    uint64_t plan = plan_of(v, id);
    usec_t later = (usec_t)(plan / 1024 % 8000) * USEC_PER_MSEC;
    size_t n = 0;
    switch (step_of(plan)) {
    case STEP_TASKS:
        for (uint64_t i = 0; i <= plan / 16 % 4; i++)
            out[n++] =
                task(v, id + (int32_t)i, plan / 64 % 3 ? "T" : "U", plan / 256 % 4 ? NULL : "2");
        return n;
    case STEP_TIMER:
        out[0] = plan / 16 % 8 == 0 ? timer(v, id, -5 * USEC_PER_SEC, 0)
                                    : timer(v, id, v->now + later, plan / 16 % 2 ? 7 : 0);
        return 1;
    case STEP_CHILD:
        return begin_child(v, plan, id, out);
    case STEP_SEND:
        return begin_send(v, plan, id, out);
    case STEP_BOTH:
        out[0] = task(v, id, "U", NULL);
        out[1] = timer(v, id + 1, v->now + later / 4, 0);
        return 2;
    case STEP_WAIT:
        out[0] = timer(v, id, v->now + USEC_PER_SEC + later, 0);
        return 1;
    case STEP_RETRY:
        out[0] = task(v, id, "F", NULL);
        return 1;
    case STEP_TERMINATE:
        out[0] = terminate(v, id,
                           plan / 16 % 4 == 0 ? arena_printf(v->a, "%.*s.1", BYTES_FMT(v->id))
                                              : pool_id(v, plan / 64),
                           plan / 8192 % 2);
        out[1] = task(v, id + 1, "T", NULL);
        return 2;
    case STEP_KINDS:
        break;
    }
    return 0;
}

static OrchestratorAction *continue_as_new(struct view *v, uint64_t plan)
{
    OrchestratorAction *act =
        done(v, v->next, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW,
             bytes_str(arena_printf(v->a, "%d", generation_of(v) + 1)));
    CompleteOrchestrationAction *c = act->completeorchestration;
    if (plan / 32 % 4 == 0)
        c->newversion = box(v->a, "2");
    if (plan / 128 % 2 == 0) {
        c->carryoverevents = arena_array(v->a, HistoryEvent *, CARRIED);
        size_t n = MIN(v->raised_count, (size_t)CARRIED);
        for (size_t i = 0; i < n; i++) {
            union { /* packed only */
                const HistoryEvent *in;
                HistoryEvent *out;
            } u = {.in = v->raised[(v->raised_count - n + i) % CARRIED]};
            c->carryoverevents[c->n_carryoverevents++] = u.out;
        }
    }
    return act;
}

static size_t end(struct view *v, OrchestratorAction **out)
{
    uint64_t plan = plan_of(v, 1000);
    size_t n = 0;
    if (plan % 5 == 0) /* fire and forget */
        out[n++] = task(v, v->next++, "T", NULL);
    if (plan / 8 % 9 == 0 && depth_of(v->id) < DEPTH)
        out[n++] =
            child(v, v->next, arena_printf(v->a, "%.*s.%d", BYTES_FMT(v->id), v->next), NULL),
        v->next++;
    if (plan / 16 % 9 == 0)
        out[n++] = send(v, v->next++, v->id, BYTES_LIT("ping"), BYTES_LIT("to myself"));
    if (!v->opts->steps && generation_of(v) + 1 < GENERATIONS && plan % 3 == 0) {
        out[n++] = continue_as_new(v, plan / 64);
        return n;
    }
    OrchestrationStatus status = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;
    if (plan / 64 % 8 == 0)
        status = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED;
    else if (plan / 64 % 32 == 1)
        status = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CANCELED;
    else if (plan / 64 % 32 == 2)
        status = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED;
    out[n] = done(v, v->next, status, plan / 4096 % 4 ? BYTES_LIT("end") : BYTES_LIT(""));
    if (status == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED && plan / 4096 % 4)
        out[n]->completeorchestration->failuredetails = program_failure(v->a, 3);
    return n + 1;
}

/* In the turn that has the termination, or in one after it that went on. */
static size_t end_terminated(struct view *v, OrchestratorAction **out)
{
    uint64_t plan = plan_of(v, 2000) % 8;
    size_t n = 0;
    if (v->opts->is_go && plan < 4)
        return 0;
    if (plan == 5)
        out[n++] = task(v, v->next++, "T", NULL);
    if (plan == 6)
        out[n++] = continue_as_new(v, 0);
    else if (plan == 7)
        out[n++] = done(v, v->next, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED,
                        BYTES_LIT("none the less"));
    else
        out[n++] = done(v, v->next, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED,
                        v->terminated_input);
    return n;
}

/* Workers repeat what they have not seen confirmed (spec 5.2). */
static size_t repeat(struct view *v, OrchestratorAction **out)
{
    uint64_t habit = bytes_hash(v->id) / 2 % 7;
    size_t n = 0;
    for (size_t i = 0; habit == 0 && i < v->sent_count && n < 8; i++) {
        const EventSentEvent *e = v->sent[i]->eventsent;
        out[n++] = send(v, v->sent[i]->eventid, wire_view(e->instanceid), wire_view(e->name),
                        wire_string(e->input));
    }
    for (int32_t i = 0; habit == 1 && i < v->next && n < 8; i++) {
        const HistoryEvent *ev = v->ids[i].event;
        if (!v->ids[i].is_open || v->ids[i].is_released)
            continue;
        if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED)
            out[n++] = task(v, i, "T", NULL);
        else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED)
            out[n++] = timer(v, i, v->now, 0);
        else
            out[n++] = child(
                v, i, arena_cstr(v->a, wire_view(ev->suborchestrationinstancecreated->instanceid)),
                NULL);
    }
    return n;
}

static size_t retry(struct view *v, OrchestratorAction **out)
{
    size_t n = 0;
    for (int32_t i = v->first; i < v->next && n < 8; i++) {
        struct seen_action *s = &v->ids[i];
        if (s->event && !s->is_open && s->has_failed && s->attempts < ATTEMPTS &&
            s->event->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED &&
            step_of(plan_of(v, i)) == STEP_RETRY)
            out[n++] = task(v, i, "F", NULL);
    }
    return n;
}

static size_t decide(struct view *v, OrchestratorAction **out)
{
    if (v->is_terminated)
        return end_terminated(v, out);
    if (!v->is_started || v->is_suspended)
        return 0;
    size_t n = repeat(v, out);
    if (v->open > 0)
        return n;
    size_t again = retry(v, out + n);
    if (again > 0)
        return n + again;
    int32_t steps = v->opts->steps ? (int32_t)v->opts->steps : STEPS;
    return n + (v->next - v->first >= steps ? end(v, out + n) : begin_step(v, out + n));
}

static void shuffle(struct arena *a, OrchestratorAction **actions, size_t n, uint64_t salt)
{
    struct prng p;
    (void)a;
    prng_seed(&p, salt);
    for (size_t i = n; i > 1; i--) {
        size_t k = prng_below(&p, i);
        OrchestratorAction *x = actions[k];
        actions[k] = actions[i - 1];
        actions[i - 1] = x;
    }
}

const char *program_answer(struct arena *a, const OrchestratorRequest *r,
                           const struct program_options *opts, OrchestratorResponse *out)
{
    struct view *v = arena_new(a, struct view);
    v->a = a;
    v->opts = opts;
    v->id = wire_view(r->instanceid);
    v->input = BYTES_LIT("");
    size_t news = opts->events_max ? MIN((size_t)opts->events_max, r->n_newevents) : r->n_newevents;
    for (size_t i = 0; i < r->n_pastevents; i++)
        see(v, r->pastevents[i]);
    v->is_terminated_now = false;
    for (size_t i = 0; i < news; i++) {
        bool is_start =
            r->newevents[i]->event_type_case == HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED;
        if (is_start != (i == 0))
            v->wrong = "newEvents do not begin with their one orchestratorStarted";
        see(v, r->newevents[i]);
    }
    if (v->wrong)
        return v->wrong;
    out->actions = arena_array(a, OrchestratorAction *, ACTIONS_MAX);
    out->n_actions = decide(v, out->actions);
    ASSERT(out->n_actions < ACTIONS_MAX);
    if (opts->is_go)
        shuffle(a, out->actions, out->n_actions, opts->salt);
    if (plan_of(v, v->next) % 4 == 0)
        out->customstatus = box(a, arena_printf(a, "at %d", v->next));
    return NULL;
}

const char *program_check(struct arena *a, struct bytes id, HistoryEvent *const *events, size_t n,
                          bool is_over)
{
    static const struct program_options OPTS = {.ids = 1};
    struct view *v = arena_new(a, struct view);
    v->a = a;
    v->opts = &OPTS;
    v->id = id;
    v->input = BYTES_LIT("");
    for (size_t i = 0; i < n; i++)
        see(v, events[i]);
    if (!v->wrong && is_over && (!v->is_started || !v->is_ended))
        return "the history of an instance that is over has no beginning or no end";
    return v->wrong;
}
