/* events.h - builds and reads encoded history events.
 *
 * History and inbox hold events in wire form, so that a work item is made by copying bytes. Each
 * builder appends one encoded HistoryEvent to `out`, without a frame around it. Text is a view: none
 * leaves the field out, present and empty is sent as such. What is passed in is only read. Events
 * that record an action have its id; all that arrive have -1 (spec 4.2). Times are wall-clock, and
 * what is sent has the digits that were passed in, no more.
 * Tests: tests/unit/test_events.c
 */
#pragma once

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/time.h"
#include "durabletask.pb-c.h"

#define EVENT_ID_ARRIVED (-1)

/* ---- tags -------------------------------------------------------------------------------------- */

/* Tags of any message: all their entry messages are alike. Views into whatever they were taken from. */
struct event_tags {
    size_t count;
    ExecutionStartedEvent__TagsEntry **entries;
};

/* Of an instance (spec 6.8); keys and values together. */
#define EVENT_TAGS_MAX 64
#define EVENT_TAGS_BYTES_MAX KIB(8)
size_t event_tags_bytes(struct event_tags tags);
/* Some key has a NUL character, which no JSON library keeps. */
bool event_tags_have_nul(struct event_tags tags);

/* Of a generated struct with a field `tags`. */
#define EVENT_TAGS_OF(message)                                                                     \
    ((struct event_tags){.count = (message)->n_tags,                                               \
                         .entries = (ExecutionStartedEvent__TagsEntry **)(void *)(message)->tags})

/* `base` with those of `over` added, or in their place where the key is there already (order is that
 * of first appearance). With an empty base: `over` without the repeats that a map may have on the wire.
 * New entries come from the arena and borrow keys and values. */
struct event_tags event_tags_overlay(struct arena *a, struct event_tags base,
                                     struct event_tags over);
/* Adds one at the end, unchecked, to tags that were all added so; the array doubles in the arena. */
void event_tags_add(struct arena *a, struct event_tags *tags, struct bytes key, struct bytes value);

/* ---- the start of an execution ------------------------------------------------------------------ */

/* Who asked for a child; all are sent, as DTS does. */
struct event_parent {
    int32_t task_id;      /* of the action */
    struct bytes name;    /* of the parent orchestration */
    struct bytes version; /* none: absent */
    struct bytes instance, execution;
};

struct event_started {
    struct bytes instance, execution;
    struct bytes name;
    struct bytes version, input;       /* none: absent */
    const struct event_parent *parent; /* NULL: no child */
    usec_t start_at;                   /* scheduled start; 0: not sent */
    TraceContext *trace;               /* parentTraceContext; NULL: none */
    struct event_tags tags;
};

void event_execution_started(struct strbuf *out, usec_t time, const struct event_started *s);

/* What the request or the action says; instance, execution, parent and start_at are the caller's. */
struct event_started event_started_of_request(const CreateInstanceRequest *request);
struct event_started event_started_of_action(const CreateSubOrchestrationAction *action);

/* Reads an encoded executionStarted event back; views into `event`, structs in the arena. ERR_CORRUPT: it
 * is not one. start_at is 0 when it was not sent. */
MUST_CHECK enum err event_started_read(struct arena *a, struct bytes event,
                                       struct event_started *out, struct error *err);

/* ---- the others, in the order of the oneof ------------------------------------------------------- */

void event_execution_completed(struct strbuf *out, usec_t time, OrchestrationStatus status,
                               struct bytes result, TaskFailureDetails *failure);
void event_execution_terminated(struct strbuf *out, usec_t time, struct bytes input, bool recurse);
void event_task_scheduled(struct strbuf *out, int32_t id, usec_t time,
                          const ScheduleTaskAction *action);
void event_task_completed(struct strbuf *out, usec_t time, int32_t task_id, struct bytes result);
void event_task_failed(struct strbuf *out, usec_t time, int32_t task_id,
                       TaskFailureDetails *failure);
/* `instance` is the id that is used, also when the action left it empty. */
void event_child_created(struct strbuf *out, int32_t id, usec_t time,
                         const CreateSubOrchestrationAction *action, struct bytes instance);
void event_child_completed(struct strbuf *out, usec_t time, int32_t task_id, struct bytes result);
void event_child_failed(struct strbuf *out, usec_t time, int32_t task_id,
                        TaskFailureDetails *failure);
/* `due` is the action's fireAt rounded up to microseconds, `nanos` (0..999) what was rounded: the very fireAt is
 * sent, which SDKs compare. */
void event_timer_created(struct strbuf *out, int32_t id, usec_t time, usec_t due, unsigned nanos);
void event_timer_fired(struct strbuf *out, usec_t time, int32_t timer_id, usec_t due,
                       unsigned nanos);
void event_orchestrator_started(struct strbuf *out, usec_t time);
void event_sent(struct strbuf *out, int32_t id, usec_t time, struct bytes instance,
                struct bytes name, struct bytes input);
void event_raised(struct strbuf *out, usec_t time, struct bytes name, struct bytes input);
void event_execution_suspended(struct strbuf *out, usec_t time, struct bytes input);
void event_execution_resumed(struct strbuf *out, usec_t time, struct bytes input);

/* ---- reading --------------------------------------------------------------------------------------- */

/* What the state machine asks of an event, without decoding it. */
struct event_head {
    int32_t id;
    usec_t time;                      /* 0: absent */
    HistoryEvent__EventTypeCase type; /* 0 (..._NOT_SET): none */
    int32_t ref;                      /* taskScheduledId or timerId of a resolution, else 0 */
    struct bytes name; /* of a task, child, event or start; else none. "" when it was not sent */
    struct bytes body; /* the event's own message; wire_*_find() read it */
};

/* False: malformed, or a time that does not exist. *out then is unspecified. */
bool event_peek(struct bytes event, struct event_head *out);
/* Resolutions: taskCompleted, taskFailed, both of a child, timerFired. */
bool event_is_resolution(HistoryEvent__EventTypeCase type);
/* The kind of event that a resolution resolves: taskScheduled, ...Created; 0 for others. */
HistoryEvent__EventTypeCase event_resolved_by(HistoryEvent__EventTypeCase type);

/* ---- what goes with them ----------------------------------------------------------------------------- */

/* Appends an encoded ActivityRequest: what a worker gets, without token and frame. */
void event_activity_request(struct strbuf *out, const ScheduleTaskAction *action, int32_t task_id,
                            struct bytes instance, struct bytes execution);

/* Failure details that the server makes; all memory from the arena. `type` must outlive it. */
TaskFailureDetails *event_failure(struct arena *a, const char *type, bool is_non_retriable,
                                  const char *fmt, ...) PRINTF_LIKE(4, 5);
