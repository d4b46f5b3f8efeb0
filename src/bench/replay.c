#include "bench/replay.h"

#include <inttypes.h>

#include "wire/wire.h"

enum { UNKNOWN, ASKED, ANSWERED };

static enum err ask(struct replay *r, int32_t id, struct error *err)
{
    if (id < 0 || id >= REPLAY_ACTIONS_MAX || r->state[id] != UNKNOWN)
        return error_set(err, ERR_CORRUPT,
                         "action %" PRId32 " is in the history twice, or not ours", id);
    r->state[id] = ASKED;
    r->asked++;
    return OK;
}

static enum err answer(struct replay *r, int32_t id, struct error *err)
{
    if (id < 0 || id >= REPLAY_ACTIONS_MAX || r->state[id] != ASKED)
        return error_set(err, ERR_CORRUPT, "a result of action %" PRId32 ", which is not open", id);
    r->state[id] = ANSWERED;
    r->answered++;
    return OK;
}

/* A result of an activity or a child. */
static enum err answer_with(struct replay *r, int32_t id, const Google__Protobuf__StringValue *text,
                            struct error *err)
{
    struct value v, input;
    enum err e = answer(r, id, err);

    if (e)
        return e;
    r->result = wire_string(text);
    if (!value_read(r->result, &v))
        return error_set(err, ERR_CORRUPT, "the result of action %" PRId32 " is no value", id);
    if (value_read(r->input, &input) &&
        (!bytes_eq(v.seed, input.seed) || !bytes_eq(v.pad, input.pad)))
        return error_set(err, ERR_CORRUPT,
                         "the result of action %" PRId32 " is another instance's, or damaged", id);
    r->sum += v.number;
    return OK;
}

static enum err fail(struct replay *r, int32_t id, const TaskFailureDetails *f, struct error *err)
{
    r->has_failed = true;
    r->failure = f ? wire_view(f->errormessage) : BYTES_LIT("");
    return answer(r, id, err);
}

static enum err begin(struct replay *r, const ExecutionStartedEvent *e, struct error *err)
{
    if (!bytes_is_none(r->name))
        return error_set(err, ERR_CORRUPT, "a history that begins twice");
    r->name = wire_view(e->name);
    r->input = wire_string(e->input);
    return OK;
}

static enum err turn_begins(struct replay *r, const HistoryEvent *e, struct error *err)
{
    if (e->timestamp && !wire_time_read(e->timestamp, &r->now))
        return error_set(err, ERR_CORRUPT, "a turn at a time that is none");
    return OK;
}

/* Events that no program asks about are passed over. */
static enum err read_event(struct replay *r, const HistoryEvent *e, struct error *err)
{
    switch ((int)e->event_type_case) {
    case HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED:
        return turn_begins(r, e, err);
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED:
        return begin(r, e->executionstarted, err);
    case HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED:
    case HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED:
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED:
        return ask(r, e->eventid, err);
    case HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED:
        return answer_with(r, e->taskcompleted->taskscheduledid, e->taskcompleted->result, err);
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_COMPLETED:
        return answer_with(r, e->suborchestrationinstancecompleted->taskscheduledid,
                           e->suborchestrationinstancecompleted->result, err);
    case HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED:
        return answer(r, e->timerfired->timerid, err);
    case HISTORY_EVENT__EVENT_TYPE_TASK_FAILED:
        return fail(r, e->taskfailed->taskscheduledid, e->taskfailed->failuredetails, err);
    case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED:
        return fail(r, e->suborchestrationinstancefailed->taskscheduledid,
                    e->suborchestrationinstancefailed->failuredetails, err);
    case HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED:
        if (!bytes_eq_nocase(wire_view(e->eventraised->name), BYTES_LIT(WORKLOAD_EVENT)))
            return error_set(err, ERR_CORRUPT, "an event that nobody raised");
        r->event = e->eventraised->input ? wire_string(e->eventraised->input) : BYTES_LIT("");
        return OK;
    case HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED:
        r->is_terminated = true;
        return OK;
    default:
        return OK;
    }
}

enum err replay_read(const OrchestratorRequest *req, struct replay *out, struct error *err)
{
    enum err e = OK;

    *out = (struct replay){.now = 0};
    for (size_t i = 0; i < req->n_pastevents && !e; i++)
        e = read_event(out, req->pastevents[i], err);
    for (size_t i = 0; i < req->n_newevents && !e; i++)
        e = read_event(out, req->newevents[i], err);
    if (!e && bytes_is_none(out->name))
        return error_set(err, ERR_CORRUPT, "a history without a beginning");
    return e;
}
