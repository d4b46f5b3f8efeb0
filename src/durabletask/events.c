#include "durabletask/events.h"

#include <stdarg.h>

#include "base/assert.h"
#include "wire/wire.h"

/* EVENT_TAGS_OF() takes one for the other. */
#define TAGS_ALIKE(type)                                                                           \
    static_assert(sizeof(type) == sizeof(ExecutionStartedEvent__TagsEntry) &&                      \
                      offsetof(type, key) == offsetof(ExecutionStartedEvent__TagsEntry, key) &&    \
                      offsetof(type, value) == offsetof(ExecutionStartedEvent__TagsEntry, value),  \
                  #type " differs")
TAGS_ALIKE(CreateInstanceRequest__TagsEntry);
TAGS_ALIKE(ScheduleTaskAction__TagsEntry);
TAGS_ALIKE(CreateSubOrchestrationAction__TagsEntry);
TAGS_ALIKE(CompleteOrchestrationAction__TagsEntry);
TAGS_ALIKE(TaskScheduledEvent__TagsEntry);
TAGS_ALIKE(SubOrchestrationInstanceCreatedEvent__TagsEntry);
TAGS_ALIKE(ActivityRequest__TagsEntry);
TAGS_ALIKE(OrchestrationState__TagsEntry);

/* ---- tags -------------------------------------------------------------------------------------- */

void event_tags_add(struct arena *a, struct event_tags *tags, struct bytes key, struct bytes value)
{
    ExecutionStartedEvent__TagsEntry *entry = arena_new(a, ExecutionStartedEvent__TagsEntry);
    size_t n = tags->count;

    execution_started_event__tags_entry__init(entry);
    entry->key = wire_data(key);
    entry->value = wire_data(value);
    if ((n & (n - 1)) == 0) { /* full: it doubles */
        ExecutionStartedEvent__TagsEntry **entries =
            arena_array(a, ExecutionStartedEvent__TagsEntry *, n ? 2 * n : 1);
        if (n)
            memcpy(entries, tags->entries, n * sizeof(*entries));
        tags->entries = entries;
    }
    tags->entries[tags->count++] = entry;
}

size_t event_tags_bytes(struct event_tags tags)
{
    size_t bytes = 0;

    for (size_t i = 0; i < tags.count; i++)
        bytes += tags.entries[i]->key.len + tags.entries[i]->value.len;
    return bytes;
}

bool event_tags_have_nul(struct event_tags tags)
{
    for (size_t i = 0; i < tags.count; i++) {
        struct bytes key = wire_view(tags.entries[i]->key);
        if (key.len > 0 && memchr(key.ptr, 0, key.len))
            return true;
    }
    return false;
}

static size_t tag_place(const struct event_tags *tags, struct bytes key)
{
    for (size_t i = 0; i < tags->count; i++) { /* EVENT_TAGS_MAX at most */
        if (bytes_eq(wire_view(tags->entries[i]->key), key))
            return i;
    }
    return tags->count;
}

static void tags_merge(struct event_tags *into, struct event_tags from)
{
    for (size_t i = 0; i < from.count; i++) {
        size_t place = tag_place(into, wire_view(from.entries[i]->key));
        into->entries[place] = from.entries[i];
        if (place == into->count)
            into->count++;
    }
}

struct event_tags event_tags_overlay(struct arena *a, struct event_tags base,
                                     struct event_tags over)
{
    struct event_tags out = {0};

    if (base.count + over.count == 0)
        return out;
    out.entries = arena_array(a, ExecutionStartedEvent__TagsEntry *, base.count + over.count);
    tags_merge(&out, base);
    tags_merge(&out, over);
    return out;
}

/* ---- building ---------------------------------------------------------------------------------- */

/* An event on the stack: fill in the body and its case, then event_end(). */
struct builder {
    HistoryEvent event;
    Google__Protobuf__Timestamp time;
};

static void event_begin(struct builder *b, int32_t id, usec_t time,
                        HistoryEvent__EventTypeCase type)
{
    history_event__init(&b->event);
    b->time = wire_time(time);
    b->event.eventid = id;
    b->event.timestamp = &b->time;
    b->event.event_type_case = type;
}

static void event_end(const struct builder *b, struct strbuf *out)
{
    wire_pack_into(&b->event.base, out);
}

static OrchestrationInstance instance_of(struct bytes instance, struct bytes execution,
                                         Google__Protobuf__StringValue *box)
{
    OrchestrationInstance out = ORCHESTRATION_INSTANCE__INIT;
    out.instanceid = wire_data(instance);
    out.executionid = wire_box(box, execution);
    return out;
}

/* The link to the parent, with room for what it points to. */
struct parent_link {
    ParentInstanceInfo info;
    OrchestrationInstance instance;
    Google__Protobuf__StringValue name, version, execution;
};

static ParentInstanceInfo *parent_link_fill(struct parent_link *link, const struct event_parent *p)
{
    if (!p)
        return NULL;
    parent_instance_info__init(&link->info);
    link->instance = instance_of(p->instance, p->execution, &link->execution);
    link->info.taskscheduledid = p->task_id;
    link->info.name = wire_box(&link->name, p->name);
    link->info.version = wire_box(&link->version, p->version);
    link->info.orchestrationinstance = &link->instance;
    return &link->info;
}

void event_execution_started(struct strbuf *out, usec_t time, const struct event_started *s)
{
    struct builder b;
    struct parent_link link;
    ExecutionStartedEvent body = EXECUTION_STARTED_EVENT__INIT;
    Google__Protobuf__StringValue version, input, execution;
    OrchestrationInstance instance = instance_of(s->instance, s->execution, &execution);
    Google__Protobuf__Timestamp start_at = wire_time(s->start_at);

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED);
    body.name = wire_data(s->name);
    body.version = wire_box(&version, s->version);
    body.input = wire_box(&input, s->input);
    body.orchestrationinstance = &instance;
    body.parentinstance = parent_link_fill(&link, s->parent);
    body.scheduledstarttimestamp = s->start_at ? &start_at : NULL;
    body.parenttracecontext = s->trace;
    body.n_tags = s->tags.count;
    body.tags = s->tags.entries;
    b.event.executionstarted = &body;
    event_end(&b, out);
}

struct event_started event_started_of_request(const CreateInstanceRequest *request)
{
    return (struct event_started){
        .name = wire_view(request->name),
        .version = wire_string(request->version),
        .input = wire_string(request->input),
        .trace = request->parenttracecontext,
        .tags = EVENT_TAGS_OF(request),
    };
}

struct event_started event_started_of_action(const CreateSubOrchestrationAction *action)
{
    return (struct event_started){
        .name = wire_view(action->name),
        .version = wire_string(action->version),
        .input = wire_string(action->input),
        .trace = action->parenttracecontext,
        .tags = EVENT_TAGS_OF(action),
    };
}

static const struct event_parent *parent_read(struct arena *a, const ParentInstanceInfo *info)
{
    if (!info)
        return NULL;
    const OrchestrationInstance *instance = info->orchestrationinstance;
    struct event_parent *p = arena_new(a, struct event_parent);
    p->task_id = info->taskscheduledid;
    p->name = wire_string(info->name);
    p->version = wire_string(info->version);
    p->instance = instance ? wire_view(instance->instanceid) : BYTES_NONE;
    p->execution = instance ? wire_string(instance->executionid) : BYTES_NONE;
    return p;
}

enum err event_started_read(struct arena *a, struct bytes event, struct event_started *out,
                            struct error *err)
{
    HistoryEvent *e;
    usec_t start_at = 0;

    if (wire_unpack(&history_event__descriptor, a, event, &WIRE_LIMITS_COMPLETION, &e, err))
        return error_wrap(err, ERR_CORRUPT, "cannot read the start of an execution");
    const ExecutionStartedEvent *body = e->executionstarted;
    if (e->event_type_case != HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED ||
        !body->orchestrationinstance ||
        (body->scheduledstarttimestamp &&
         !wire_time_read(body->scheduledstarttimestamp, &start_at)))
        return error_set(err, ERR_CORRUPT, "cannot read the start of an execution: event %d",
                         (int)e->event_type_case);
    *out = (struct event_started){
        .instance = wire_view(body->orchestrationinstance->instanceid),
        .execution = wire_string(body->orchestrationinstance->executionid),
        .name = wire_view(body->name),
        .version = wire_string(body->version),
        .input = wire_string(body->input),
        .parent = parent_read(a, body->parentinstance),
        .start_at = start_at,
        .trace = body->parenttracecontext,
        .tags = EVENT_TAGS_OF(body),
    };
    return OK;
}

void event_execution_completed(struct strbuf *out, usec_t time, OrchestrationStatus status,
                               struct bytes result, TaskFailureDetails *failure)
{
    struct builder b;
    ExecutionCompletedEvent body = EXECUTION_COMPLETED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EXECUTION_COMPLETED);
    body.orchestrationstatus = status;
    body.result = wire_box(&box, result);
    body.failuredetails = failure;
    b.event.executioncompleted = &body;
    event_end(&b, out);
}

void event_execution_terminated(struct strbuf *out, usec_t time, struct bytes input, bool recurse)
{
    struct builder b;
    ExecutionTerminatedEvent body = EXECUTION_TERMINATED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED);
    body.input = wire_box(&box, input);
    body.recurse = recurse;
    b.event.executionterminated = &body;
    event_end(&b, out);
}

void event_task_scheduled(struct strbuf *out, int32_t id, usec_t time,
                          const ScheduleTaskAction *action)
{
    struct builder b;
    TaskScheduledEvent body = TASK_SCHEDULED_EVENT__INIT;

    event_begin(&b, id, time, HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED);
    body.name = action->name;
    body.version = action->version;
    body.input = action->input;
    body.parenttracecontext = action->parenttracecontext;
    body.n_tags = action->n_tags;
    body.tags = (TaskScheduledEvent__TagsEntry **)(void *)action->tags;
    b.event.taskscheduled = &body;
    event_end(&b, out);
}

void event_task_completed(struct strbuf *out, usec_t time, int32_t task_id, struct bytes result)
{
    struct builder b;
    TaskCompletedEvent body = TASK_COMPLETED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED);
    body.taskscheduledid = task_id;
    body.result = wire_box(&box, result);
    b.event.taskcompleted = &body;
    event_end(&b, out);
}

void event_task_failed(struct strbuf *out, usec_t time, int32_t task_id,
                       TaskFailureDetails *failure)
{
    struct builder b;
    TaskFailedEvent body = TASK_FAILED_EVENT__INIT;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_TASK_FAILED);
    body.taskscheduledid = task_id;
    body.failuredetails = failure;
    b.event.taskfailed = &body;
    event_end(&b, out);
}

void event_child_created(struct strbuf *out, int32_t id, usec_t time,
                         const CreateSubOrchestrationAction *action, struct bytes instance)
{
    struct builder b;
    SubOrchestrationInstanceCreatedEvent body = SUB_ORCHESTRATION_INSTANCE_CREATED_EVENT__INIT;

    event_begin(&b, id, time, HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED);
    body.instanceid = wire_data(instance);
    body.name = action->name;
    body.version = action->version;
    body.input = action->input;
    body.parenttracecontext = action->parenttracecontext;
    body.n_tags = action->n_tags;
    body.tags = (SubOrchestrationInstanceCreatedEvent__TagsEntry **)(void *)action->tags;
    b.event.suborchestrationinstancecreated = &body;
    event_end(&b, out);
}

void event_child_completed(struct strbuf *out, usec_t time, int32_t task_id, struct bytes result)
{
    struct builder b;
    SubOrchestrationInstanceCompletedEvent body = SUB_ORCHESTRATION_INSTANCE_COMPLETED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time,
                HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED);
    body.taskscheduledid = task_id;
    body.result = wire_box(&box, result);
    b.event.suborchestrationinstancecompleted = &body;
    event_end(&b, out);
}

void event_child_failed(struct strbuf *out, usec_t time, int32_t task_id,
                        TaskFailureDetails *failure)
{
    struct builder b;
    SubOrchestrationInstanceFailedEvent body = SUB_ORCHESTRATION_INSTANCE_FAILED_EVENT__INIT;

    event_begin(&b, EVENT_ID_ARRIVED, time,
                HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED);
    body.taskscheduledid = task_id;
    body.failuredetails = failure;
    b.event.suborchestrationinstancefailed = &body;
    event_end(&b, out);
}

static Google__Protobuf__Timestamp exact_time(usec_t due, unsigned nanos)
{
    Google__Protobuf__Timestamp ts = wire_time(nanos ? due - 1 : due);
    ts.nanos += (int32_t)nanos;
    return ts;
}

void event_timer_created(struct strbuf *out, int32_t id, usec_t time, usec_t due, unsigned nanos)
{
    struct builder b;
    TimerCreatedEvent body = TIMER_CREATED_EVENT__INIT;
    Google__Protobuf__Timestamp fire_at = exact_time(due, nanos);

    event_begin(&b, id, time, HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED);
    body.fireat = &fire_at;
    b.event.timercreated = &body;
    event_end(&b, out);
}

void event_timer_fired(struct strbuf *out, usec_t time, int32_t timer_id, usec_t due,
                       unsigned nanos)
{
    struct builder b;
    TimerFiredEvent body = TIMER_FIRED_EVENT__INIT;
    Google__Protobuf__Timestamp fire_at = exact_time(due, nanos);

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED);
    body.fireat = &fire_at;
    body.timerid = timer_id;
    b.event.timerfired = &body;
    event_end(&b, out);
}

void event_orchestrator_started(struct strbuf *out, usec_t time)
{
    Google__Protobuf__Timestamp ts = wire_time(time);
    size_t seconds = ts.seconds ? 1 + wire_size_varint((uint64_t)ts.seconds) : 0;
    size_t nanos = ts.nanos ? 1 + wire_size_varint((uint64_t)ts.nanos) : 0;

    /* By hand: each turn has one, and the general way costs 20 times as much. */
    wire_put_int(out, 1, EVENT_ID_ARRIVED);
    wire_put_head(out, 2, seconds + nanos);
    if (seconds)
        wire_put_int(out, 1, ts.seconds);
    if (nanos)
        wire_put_int(out, 2, ts.nanos);
    wire_put_head(out, HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED, 0);
}

void event_sent(struct strbuf *out, int32_t id, usec_t time, struct bytes instance,
                struct bytes name, struct bytes input)
{
    struct builder b;
    EventSentEvent body = EVENT_SENT_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, id, time, HISTORY_EVENT__EVENT_TYPE_EVENT_SENT);
    body.instanceid = wire_data(instance);
    body.name = wire_data(name);
    body.input = wire_box(&box, input);
    b.event.eventsent = &body;
    event_end(&b, out);
}

void event_raised(struct strbuf *out, usec_t time, struct bytes name, struct bytes input)
{
    struct builder b;
    EventRaisedEvent body = EVENT_RAISED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED);
    body.name = wire_data(name);
    body.input = wire_box(&box, input);
    b.event.eventraised = &body;
    event_end(&b, out);
}

void event_execution_suspended(struct strbuf *out, usec_t time, struct bytes input)
{
    struct builder b;
    ExecutionSuspendedEvent body = EXECUTION_SUSPENDED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED);
    body.input = wire_box(&box, input);
    b.event.executionsuspended = &body;
    event_end(&b, out);
}

void event_execution_resumed(struct strbuf *out, usec_t time, struct bytes input)
{
    struct builder b;
    ExecutionResumedEvent body = EXECUTION_RESUMED_EVENT__INIT;
    Google__Protobuf__StringValue box;

    event_begin(&b, EVENT_ID_ARRIVED, time, HISTORY_EVENT__EVENT_TYPE_EXECUTION_RESUMED);
    body.input = wire_box(&box, input);
    b.event.executionresumed = &body;
    event_end(&b, out);
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Where a body keeps what event_peek() tells, and what a resolution resolves. */
struct shape {
    uint8_t ref, name; /* field numbers; 0: it has none */
    uint8_t resolves;  /* event type; 0: nothing */
};

/* clang-format off */
static const struct shape SHAPES[] = {
    [HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED]                    = {.name = 1},
    [HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED]                       = {.name = 1},
    [HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED]                       = {.ref = 1, .resolves = HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED},
    [HISTORY_EVENT__EVENT_TYPE_TASK_FAILED]                          = {.ref = 1, .resolves = HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED},
    [HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED]   = {.name = 2},
    [HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED] = {.ref = 1, .resolves = HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED},
    [HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED]    = {.ref = 1, .resolves = HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED},
    [HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED]                          = {.ref = 2, .resolves = HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED},
    [HISTORY_EVENT__EVENT_TYPE_EVENT_SENT]                           = {.name = 2},
    [HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED]                         = {.name = 1},
};
/* clang-format on */

#define FIELD_EVENT_ID 1
#define FIELD_TIMESTAMP 2

static struct shape shape_of(HistoryEvent__EventTypeCase type)
{
    return (size_t)type < ARRAY_LEN(SHAPES) ? SHAPES[type] : (struct shape){0};
}

bool event_is_resolution(HistoryEvent__EventTypeCase type)
{
    return shape_of(type).resolves != 0;
}

HistoryEvent__EventTypeCase event_resolved_by(HistoryEvent__EventTypeCase type)
{
    return (HistoryEvent__EventTypeCase)shape_of(type).resolves;
}

static bool time_peek(struct bytes encoded, usec_t *out)
{
    Google__Protobuf__Timestamp ts = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    struct wire_reader r = wire_reader_of(encoded);
    struct wire_field f;

    while (wire_next(&r, &f)) {
        if (f.number == 1 && f.type == WIRE_VARINT)
            ts.seconds = (int64_t)f.value;
        else if (f.number == 2 && f.type == WIRE_VARINT)
            ts.nanos = (int32_t)(uint32_t)f.value;
    }
    return !r.is_bad && wire_time_read(&ts, out);
}

/* Reads ref and name of the body; false when it is malformed. */
static bool body_peek(struct event_head *h)
{
    struct shape shape = shape_of(h->type);
    struct wire_reader r = wire_reader_of(h->body);
    struct wire_field f;

    if (!shape.ref && !shape.name)
        return true;
    if (shape.name)
        h->name = BYTES_LIT("");
    while (wire_next(&r, &f)) {
        if (f.number == shape.ref && f.type == WIRE_VARINT)
            h->ref = (int32_t)(uint32_t)f.value;
        else if (f.number == shape.name && f.type == WIRE_BYTES)
            h->name = f.bytes;
        else
            continue;
        break; /* no body has both; the rest may be long, and our own bytes repeat no field */
    }
    return !r.is_bad;
}

bool event_peek(struct bytes event, struct event_head *out)
{
    struct wire_reader r = wire_reader_of(event);
    struct wire_field f;

    *out = (struct event_head){0};
    while (wire_next(&r, &f)) {
        if (f.number == FIELD_EVENT_ID && f.type == WIRE_VARINT) {
            out->id = (int32_t)(uint32_t)f.value;
        } else if (f.number == FIELD_TIMESTAMP && f.type == WIRE_BYTES) {
            if (!time_peek(f.bytes, &out->time))
                return false;
        } else if (f.type == WIRE_BYTES) {
            out->type = (HistoryEvent__EventTypeCase)f.number;
            out->body = f.bytes;
        }
    }
    return !r.is_bad && body_peek(out);
}

/* ---- what goes with them --------------------------------------------------------------------------- */

void event_activity_request(struct strbuf *out, const ScheduleTaskAction *action, int32_t task_id,
                            struct bytes instance, struct bytes execution)
{
    ActivityRequest request = ACTIVITY_REQUEST__INIT;
    Google__Protobuf__StringValue box;
    OrchestrationInstance orchestration = instance_of(instance, execution, &box);

    request.name = action->name;
    request.version = action->version;
    request.input = action->input;
    request.orchestrationinstance = &orchestration;
    request.taskid = task_id;
    request.parenttracecontext = action->parenttracecontext;
    request.n_tags = action->n_tags;
    request.tags = (ActivityRequest__TagsEntry **)(void *)action->tags;
    wire_pack_into(&request.base, out);
}

TaskFailureDetails *event_failure(struct arena *a, const char *type, bool is_non_retriable,
                                  const char *fmt, ...)
{
    TaskFailureDetails *failure = arena_new(a, TaskFailureDetails);
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    va_list ap;

    va_start(ap, fmt);
    strbuf_vappendf(&text, fmt, ap);
    va_end(ap);
    task_failure_details__init(failure);
    failure->errortype = wire_data(bytes_str(type));
    failure->errormessage = wire_data(arena_dup(a, strbuf_bytes(&text)));
    failure->isnonretriable = is_non_retriable;
    return failure;
}
