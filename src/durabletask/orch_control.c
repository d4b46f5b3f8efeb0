/* orch_control.c - events, suspension, termination, timers and mail (spec 3.5-3.7, 6.2-6.6). */
#include "durabletask/orchestration.h"

#include "wire/reader.h"
#include "wire/value.h"
#include "wire/writer.h"

/* ---- events ------------------------------------------------------------------------------------------- */

enum err orch_raise_to(struct step *s, struct object *o, struct bytes name, struct bytes input,
                       struct error *err)
{
    if (orch_is_terminal(o))
        return OK;
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_raised(&event, s->now, name, input);
    struct arrival a = {.type = HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED,
                        .event = strbuf_bytes(&event)};
    return orch_arrive(s, o, &a, err);
}

enum err orch_raise(struct step *s, struct command *cmd, struct error *err)
{
    const RaiseEventRequest *req = cmd->request;
    struct object *o;
    enum err rc = orch_target(s, cmd, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? orch_not_found(cmd, err) : rc;
    return orch_raise_to(s, o, wire_view(req->name), wire_string(req->input), err);
}

/* ---- suspend, resume -------------------------------------------------------------------------------------- */

enum err orch_suspend(struct step *s, struct command *cmd, struct error *err)
{
    const SuspendRequest *req = cmd->request;
    struct object *o;
    enum err rc = orch_target(s, cmd, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? orch_not_found(cmd, err) : rc;
    if (orch_is_terminal(o) || o->row.status == ORCH_SUSPENDED)
        return OK;
    o->row.base_status = o->row.status;
    o->row.status = ORCH_SUSPENDED;
    step_save(s, o);
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_execution_suspended(&event, s->now, wire_string(req->reason));
    struct arrival a = {.type = HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED,
                        .event = strbuf_bytes(&event)};
    return orch_arrive(s, o, &a, err);
}

/* Whether the turn has been out token-less, or may have been before this process started: then its stored cut is what any late
 * answer is about, and stays (spec 8.2). */
static bool keeps_cut(const struct object *o, const struct work *w)
{
    if (o->row.cut_time == 0 || o->row.cut_seq < o->row.inbox_first)
        return false;
    if (!w)
        return true; /* it was ready when the server started: a ready turn of this process has a record */
    return orch_turn_is_current(o, w) ? w->state == WORK_FLIGHT || w->turn.exact : w->recovered;
}

enum err orch_resume(struct step *s, struct command *cmd, struct error *err)
{
    const ResumeRequest *req = cmd->request;
    struct object *o;
    enum err rc = orch_target(s, cmd, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? orch_not_found(cmd, err) : rc;
    if (o->row.status != ORCH_SUSPENDED)
        return OK;
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_execution_resumed(&event, s->now, wire_string(req->reason));
    struct arrival a = {.type = HISTORY_EVENT__EVENT_TYPE_EXECUTION_RESUMED,
                        .event = strbuf_bytes(&event)};
    if ((rc = orch_arrive(s, o, &a, err)))
        return rc;
    o->row.status = o->row.base_status;
    step_save(s, o);
    const struct work *w = step_turn(s, o);
    bool keeps = keeps_cut(o, w);
    if (keeps && !w)
        orch_of(o)->recovered = true;
    return orch_offer(s, o, !keeps, err);
}

/* ---- terminate ------------------------------------------------------------------------------------------------ */

enum err orch_terminate_object(struct step *s, struct object *o, struct bytes output, bool recurse,
                               struct error *err)
{
    if (orch_is_terminal(o) || (o->row.flags & ORCH_TERMINATING))
        return OK;
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_execution_terminated(&event, s->now, output, recurse);
    struct arrival a = {.type = HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED,
                        .event = strbuf_bytes(&event)};
    const struct work *w = step_turn(s, o);
    bool in_flight = orch_turn_is_current(o, w) && w->state == WORK_FLIGHT;
    bool was_ready = orch_is_dispatchable(o);
    enum err rc = orch_inbox_put_front(s, o, &a, err);
    if (rc)
        return rc;
    o->row.flags |= ORCH_TERMINATING;
    orch_touch(s, o);
    step_save(s, o);
    if (o->row.history_rows == 0 && !in_flight)
        return orch_force_terminate(s, o, err);
    if (o->row.history_rows == 0)
        step_turn_notify(s, o);
    uint64_t key;
    if ((rc = step_next_key(s, 1, &key, err)))
        return rc;
    struct store_timer t = {
        .due = usec_add(s->now, (usec_t)s->settings->terminate_grace),
        .key = key,
        .object = o->row.key,
        .execution = o->row.execution,
        .what = ORCH_TIMER_GRACE,
    };
    if ((rc = step_timer_add(s, &t, err)))
        return rc;
    return orch_offer(s, o, !was_ready, err);
}

enum err orch_terminate(struct step *s, struct command *cmd, struct error *err)
{
    const TerminateRequest *req = cmd->request;
    struct object *o;
    enum err rc = orch_target(s, cmd, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    return orch_terminate_object(s, o, wire_string(req->output), req->recursive, err);
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static enum err user_timer(struct step *s, struct object *o, const struct store_timer *t,
                           struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_timer_fired(&event, s->now, orch_timer_id(t->ref), t->due, orch_timer_nanos(t->ref));
    struct arrival a = {
        .type = HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED,
        .ref = orch_timer_id(t->ref),
        .execution = t->execution,
        .event = strbuf_bytes(&event),
    };
    return orch_arrive(s, o, &a, err);
}

enum err orch_timer(struct step *s, struct object *o, const struct store_timer *t,
                    struct error *err)
{
    if (orch_is_terminal(o) || t->execution != o->row.execution)
        return OK;
    switch ((enum orch_timer)t->what) {
    case ORCH_TIMER_USER:
        return user_timer(s, o, t, err);
    case ORCH_TIMER_START:
        o->row.flags &= ~(uint32_t)ORCH_START_WAITS;
        orch_touch(s, o);
        step_save(s, o);
        return orch_offer(s, o, true, err);
    case ORCH_TIMER_GRACE:
        return o->row.flags & ORCH_TERMINATING ? orch_force_terminate(s, o, err) : OK;
    }
    return error_set(err, ERR_CORRUPT, "timer %llu is of the unknown sort %d",
                     (unsigned long long)t->key, t->what);
}

/* ---- mail -------------------------------------------------------------------------------------------------------- */

/* Field 1: the parent's execution id; 2: executionTerminated's body. */
static enum err mail_terminate(struct step *s, struct object *o, const struct store_mail *m,
                               struct error *err)
{
    struct bytes parent = wire_bytes_find(m->payload, 1), body = wire_bytes_find(m->payload, 2);
    struct bytes link =
        wire_bytes_find(o->row.parent, 4); /* ParentInstanceInfo.orchestrationInstance */
    if (!bytes_eq(wire_string_value_find(link, 2), parent))
        return OK; /* the id belongs to another instance now */
    struct bytes text = wire_string_value_find(body, 1);
    bool recurse = wire_varint_find(body, 2) != 0;
    if (orch_is_terminal(o) && recurse)
        return orch_cascade(s, o, text, err);
    return orch_terminate_object(s, o, text, recurse, err);
}

/* Field 1: the execution id; 2: event type; 3: task id; 4: the event. */
static enum err mail_child_done(struct step *s, struct object *o, const struct store_mail *m,
                                struct error *err)
{
    if (orch_is_terminal(o) || !bytes_eq(wire_bytes_find(m->payload, 1), o->row.execution_id))
        return OK;
    struct arrival a = {
        .type = (HistoryEvent__EventTypeCase)wire_varint_find(m->payload, 2),
        .ref = (int64_t)wire_varint_find(m->payload, 3),
        .execution = o->row.execution,
        .event = wire_bytes_find(m->payload, 4),
    };
    return orch_arrive(s, o, &a, err);
}

enum err orch_mail(struct step *s, const struct store_mail *m, struct error *err)
{
    struct object *o;
    enum err rc = step_find(s, m->hub, &ORCHESTRATION, m->id, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    return m->what == ORCH_MAIL_TERMINATE ? mail_terminate(s, o, m, err)
                                          : mail_child_done(s, o, m, err);
}
