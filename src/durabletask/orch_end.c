/* orch_end.c - how executions end: completion, termination by the server, failures the server makes; who is told (spec 4.4,
 * 4.5, 6.4, 6.6).
 */
#include "durabletask/orchestration.h"

#include <stdlib.h>

#include "wire/pack.h"
#include "wire/reader.h"
#include "wire/value.h"
#include "wire/writer.h"

usec_t orch_next_started(const struct step *s, const struct object *o)
{
    return MAX(s->now, o->row.last_started);
}

void orch_put_completed(struct step *s, struct strbuf *frames, const struct orch_outcome *out)
{
    struct strbuf event = {0};
    event_execution_completed(&event, s->now, (OrchestrationStatus)out->status, out->result,
                              out->failure);
    orch_frame_put(frames, strbuf_bytes(&event));
    strbuf_deinit(&event);
}

/* ---- the parent --------------------------------------------------------------------------------------- */

struct parent_link {
    struct bytes instance, execution;
    int32_t task_id;
};

/* From the encoded ParentInstanceInfo: taskScheduledId 1, orchestrationInstance 4 {instanceId 1, executionId 2}. */
static struct parent_link link_of(const struct object *o)
{
    struct bytes instance = wire_bytes_find(o->row.parent, 4);
    return (struct parent_link){
        .instance = wire_bytes_find(instance, 1),
        .execution = wire_string_value_find(instance, 2),
        .task_id = (int32_t)wire_varint_find(o->row.parent, 1),
    };
}

static enum err mail_parent(struct step *s, struct object *o, const struct parent_link *l,
                            HistoryEvent__EventTypeCase type, struct bytes event, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf payload = {0};
    wire_put_bytes(&payload, 1, l->execution);
    wire_put_uint(&payload, 2, (uint64_t)type);
    wire_put_int(&payload, 3, l->task_id);
    wire_put_bytes(&payload, 4, event);
    struct store_mail m = {
        .hub = o->row.hub,
        .kind = OBJECT_ORCHESTRATION,
        .id = l->instance,
        .what = ORCH_MAIL_CHILD_DONE,
        .payload = strbuf_bytes(&payload),
    };
    return step_mail(s, &m, err);
}

static enum err tell(struct step *s, struct object *o, HistoryEvent__EventTypeCase type,
                     struct bytes event, const struct parent_link *l, struct error *err)
{
    struct object *parent;
    enum err rc = step_find(s, o->row.hub, &ORCHESTRATION, l->instance, &parent, err);
    if (rc ==
        ERR_CORRUPT) /* the parent is damaged: its message waits, this instance ends all the same */
        return mail_parent(s, o, l, type, event, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    if (orch_is_terminal(parent) || !bytes_eq(parent->row.execution_id, l->execution))
        return OK;
    struct arrival a = {
        .type = type, .ref = l->task_id, .execution = parent->row.execution, .event = event};
    return orch_arrive(s, parent, &a, err);
}

static TaskFailureDetails *terminated_child(struct step *s, const struct object *o,
                                            struct bytes output)
{
    if (bytes_is_none(output) || output.len == 0)
        return event_failure(s->arena, "SubOrchestrationTerminated", true,
                             "Sub-orchestration instance '%.*s' was terminated.",
                             BYTES_FMT(o->row.id));
    return event_failure(s->arena, "SubOrchestrationTerminated", true,
                         "Sub-orchestration instance '%.*s' was terminated. %.*s",
                         BYTES_FMT(o->row.id), BYTES_FMT(output));
}

enum err orch_tell_parent(struct step *s, struct object *o, const struct orch_outcome *out,
                          struct error *err)
{
    if (bytes_is_none(o->row.parent))
        return OK;
    struct parent_link l = link_of(o);
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    HistoryEvent__EventTypeCase type = HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED;
    if (out->status == ORCH_COMPLETED) {
        type = HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED;
        event_child_completed(&event, s->now, l.task_id, out->result);
    } else if (out->status == ORCH_FAILED) {
        event_child_failed(&event, s->now, l.task_id, out->failure);
    } else {
        event_child_failed(&event, s->now, l.task_id, terminated_child(s, o, out->result));
    }
    return tell(s, o, type, strbuf_bytes(&event), &l, err);
}

enum err orch_tell_replaced(struct step *s, struct object *o, struct error *err)
{
    if (bytes_is_none(o->row.parent))
        return OK;
    struct parent_link l = link_of(o);
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_child_failed(
        &event, s->now, l.task_id,
        event_failure(s->arena, "SubOrchestrationReplaced", true,
                      "Sub-orchestration instance '%.*s' was replaced by a new start",
                      BYTES_FMT(o->row.id)));
    return tell(s, o, HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED,
                strbuf_bytes(&event), &l, err);
}

/* ---- the terminal commit -------------------------------------------------------------------------------- */

struct cascade {
    struct step *s;
    struct object *o;
    struct bytes reason;
    enum err rc;
    struct error *err;
};

static enum err terminate_child(struct cascade *c, struct bytes child)
{
    CLEANUP(strbuf_deinit) struct strbuf payload = {0};
    wire_put_bytes(&payload, 1, c->o->row.execution_id);
    size_t body = wire_put_begin(&payload, 2);
    wire_put_string_value(&payload, 1, c->reason);
    wire_put_bool(&payload, 2, true);
    wire_put_end(&payload, body);
    struct store_mail m = {
        .hub = c->o->row.hub,
        .kind = OBJECT_ORCHESTRATION,
        .id = child,
        .what = ORCH_MAIL_TERMINATE,
        .payload = strbuf_bytes(&payload),
    };
    return step_mail(c->s, &m, c->err);
}

static bool cascade_event(void *arg, struct bytes event)
{
    struct cascade *c = arg;
    struct event_head head;
    if (event_peek(event, &head) &&
        head.type == HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED)
        c->rc = terminate_child(c, arena_dup(c->s->arena, wire_bytes_find(head.body, 1)));
    return c->rc == OK;
}

static enum err cascade_piece(void *arg, struct bytes frames)
{
    struct cascade *c = arg;
    enum err rc = orch_frames_each(frames, cascade_event, c, c->err);
    return rc ? rc : c->rc;
}

/* Every child of this execution, ended ones too: what runs below a failed child must not go on (BL-055). */
enum err orch_cascade(struct step *s, struct object *o, struct bytes reason, struct error *err)
{
    struct cascade c = {.s = s, .o = o, .reason = reason, .err = err};
    return orch_history_each(s, o, cascade_piece, &c, err);
}

/* Timers go; of a TERMINATED execution also activities nobody has yet, and its children if asked. */
static enum err close_open(struct step *s, struct object *o, const struct orch_outcome *out,
                           struct error *err)
{
    struct orchestration *st = orch_of(o);
    bool timers = o->row.scheduled != 0 || (o->row.flags & (ORCH_TERMINATING | ORCH_START_WAITS));
    enum err rc;
    LIST_FOR_EACH (&st->open_list, n) {
        struct open_action *a = LIST_ENTRY(n, struct open_action, link);
        bool existed;
        rc = OK;
        if (a->kind == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED)
            timers = true;
        else if (out->status == ORCH_TERMINATED &&
                 a->kind == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED &&
                 !step_task_in_flight(s, a->key))
            rc = step_task_end(s, a->group, a->key, &existed, err);
        if (rc)
            return rc;
    }
    if (out->status == ORCH_TERMINATED && out->recurse &&
        (rc = orch_cascade(s, o, out->reason, err)))
        return rc;
    return timers ? step_trash(s, STORE_TRASH_TIMERS, o->row.execution, err) : OK;
}

enum err orch_finish(struct step *s, struct object *o, const struct orch_outcome *out,
                     struct error *err)
{
    enum err rc;
    if ((rc = orch_hydrate(s, o, err)) || (rc = close_open(s, o, out, err)) ||
        (rc = orch_tell_parent(s, o, out, err)))
        return rc;
    if (!orch_inbox_is_empty(o)) {
        struct orchestration *st = orch_of(o);
        if (o->row.inbox_next - o->row.inbox_first <= (int64_t)st->inbox_count) {
            rc = orch_inbox_take(s, o, o->row.inbox_next - 1, err);
        } else {
            rc = step_trash(s, STORE_TRASH_INBOX, o->row.key, err);
            o->row.inbox_first = o->row.inbox_next;
            for (size_t i = 0; i < st->inbox_count; i++)
                free((void *)(uintptr_t)st->inbox[i].event.ptr);
            st->inbox_count = st->inbox_bytes = 0;
        }
        if (rc)
            return rc;
    }
    o->row.status = o->row.base_status = (int32_t)out->status;
    o->row.flags = 0;
    orch_touch(s, o);
    o->row.completed = MAX(s->now, o->row.created);
    o->row.cut_seq = 0;
    o->row.cut_time = 0;
    orch_open_clear(o);
    orch_of(o)->is_hydrated = false;
    step_turn_settle(s, o);
    step_save(s, o);
    orch_account(o);
    return OK;
}

/* ---- ends that the server makes ---------------------------------------------------------------------------- */

static void put_row(struct strbuf *frames, uint32_t *events, const struct inbox_row *r)
{
    orch_frame_put(frames, r->event);
    ++*events;
}

static void put_started(struct object *o, struct strbuf *frames, uint32_t *events, usec_t time)
{
    struct strbuf event = {0};
    event_orchestrator_started(&event, time);
    orch_frame_put(frames, strbuf_bytes(&event));
    strbuf_deinit(&event);
    o->row.last_started = time;
    ++*events;
}

enum err orch_force_terminate(struct step *s, struct object *o, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf frames = {0};
    uint32_t events = 0;
    enum err rc = orch_inbox_need(s, o, o->row.inbox_first, 3, KIB(64), err);
    if (rc)
        return rc;
    /* In front: executionTerminated, with the executionStarted of a never-run execution before or behind it. */
    const struct inbox_row *terminated = NULL, *started = NULL;
    for (int64_t i = 0; i < 3; i++) {
        const struct inbox_row *r = orch_inbox_row(o, o->row.inbox_first + i);
        if (r && r->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED && !terminated)
            terminated = r;
        if (r && r->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED && !started)
            started = r;
    }
    if (!terminated)
        return error_set(err, ERR_CORRUPT,
                         "instance '%.*s' is being terminated, but its inbox does not say so",
                         BYTES_FMT(o->row.id));
    s->wrote = true;
    put_started(o, &frames, &events, orch_next_started(s, o));
    if (o->row.history_rows == 0 && started)
        put_row(&frames, &events, started);
    put_row(&frames, &events, terminated);
    struct event_head head;
    if (!event_peek(terminated->event, &head))
        return error_set(err, ERR_CORRUPT,
                         "an event in the inbox of instance '%.*s' does not decode",
                         BYTES_FMT(o->row.id));
    struct bytes output = arena_dup(s->arena, wire_string_value_find(head.body, 1));
    struct orch_outcome out = {
        .status = ORCH_TERMINATED,
        .result = output,
        .recurse = wire_varint_find(head.body, 2) != 0,
        .reason = output,
    };
    orch_put_completed(s, &frames, &out);
    if ((rc = orch_history_append(s, o, strbuf_bytes(&frames), events + 1, 0, err)))
        return rc;
    return orch_finish(s, o, &out, err);
}

enum err orch_terminate_now(struct step *s, struct object *o, struct bytes reason,
                            struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf frames = {0}, terminated = {0};
    uint32_t events = 0;
    enum err rc = orch_inbox_need(s, o, o->row.inbox_first, 3, KIB(64), err);
    if (rc)
        return rc;
    s->wrote = true;
    put_started(o, &frames, &events, orch_next_started(s, o));
    for (int64_t i = 0; i < 3 && o->row.history_rows == 0; i++) {
        const struct inbox_row *r = orch_inbox_row(o, o->row.inbox_first + i);
        if (r && r->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED)
            put_row(&frames, &events, r);
    }
    event_execution_terminated(&terminated, s->now, reason, false);
    orch_frame_put(&frames, strbuf_bytes(&terminated));
    struct orch_outcome out = {.status = ORCH_TERMINATED, .result = BYTES_NONE};
    orch_put_completed(s, &frames, &out);
    if ((rc = orch_history_append(s, o, strbuf_bytes(&frames), events + 2, 0, err)))
        return rc;
    return orch_finish(s, o, &out, err);
}

enum err orch_fail(struct step *s, struct object *o, const struct turn *turn,
                   TaskFailureDetails *failure, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf frames = {0};
    uint32_t events = 0;
    enum err rc =
        orch_inbox_need(s, o, turn->first, (size_t)(turn->last - turn->first + 1), SIZE_MAX, err);
    if (rc)
        return rc;
    s->wrote = true;
    put_started(o, &frames, &events, turn->started);
    for (int64_t seq = turn->first; seq <= turn->last; seq++) {
        const struct inbox_row *r = orch_inbox_row(o, seq);
        if (r && orch_row_is_live(o, r))
            put_row(&frames, &events, r);
    }
    struct orch_outcome out = {.status = ORCH_FAILED, .result = BYTES_NONE, .failure = failure};
    orch_put_completed(s, &frames, &out);
    if ((rc = orch_history_append(s, o, strbuf_bytes(&frames), events + 1, 0, err)))
        return rc;
    return orch_finish(s, o, &out, err);
}
