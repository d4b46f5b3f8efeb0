/* program.c - the orchestrators: each decides from the history alone.
 *
 *   rounds  "R N"    R times N activities, each round when the one before is done; output: their number
 *   timers  "N MS"   N timers, all due MS from the first turn; output: how many fired
 *   events  "N SEEN" waits for N events, continuing as new at each turn; output: N
 *   collect "N"      the same in one history
 *
 * A name may go on behind a slash: "rounds/7". Events carry numbers: 0, 1, 2 and so on. An event out of order, missing or doubled fails the instance.
 */
#include <string.h>

#include "base/assert.h"
#include "drive.h"

static struct bytes text_of(const Google__Protobuf__StringValue *v)
{
    return v ? bytes_of(v->value.data, v->value.len) : BYTES_NONE;
}

/* The first two numbers of "A B". */
static void numbers(struct bytes text, uint64_t out[2])
{
    size_t at = 0;

    out[0] = out[1] = 0;
    for (int i = 0; i < 2; i++) {
        for (; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
            out[i] = out[i] * 10 + (uint64_t)(text.ptr[at] - '0');
        while (at < text.len && text.ptr[at] == ' ')
            at++;
    }
}

static void started(struct tally *t, const HistoryEvent *ev)
{
    uint64_t n[2];

    t->has_started = true;
    t->name = arena_dup(t->arena,
                        bytes_of(ev->executionstarted->name.data, ev->executionstarted->name.len));
    for (size_t i = 0; i < t->name.len; i++)
        if (t->name.ptr[i] == '/')
            t->name.len = i;
    t->input = arena_dup(t->arena, text_of(ev->executionstarted->input));
    numbers(t->input, n);
    if (bytes_eq(t->name, BYTES_LIT("events")))
        t->next_event = n[1];
}

static void raised(struct tally *t, const HistoryEvent *ev)
{
    uint64_t n[2];

    numbers(text_of(ev->eventraised->input), n);
    if (n[0] != t->next_event && !t->is_out_of_order) {
        t->is_out_of_order = true;
        t->bad_event = arena_dup(t->arena, text_of(ev->eventraised->input));
    }
    t->next_event = n[0] + 1;
    t->raised++;
}

void tally_event(struct tally *t, const HistoryEvent *ev)
{
    if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED)
        started(t, ev);
    else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED)
        raised(t, ev);
    else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED)
        t->scheduled++;
    else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED)
        t->completed++;
    else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED)
        t->timers++;
    else if (ev->event_type_case == HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED)
        t->fired++;
}

static OrchestratorAction *new_action(struct arena *a, uint64_t id)
{
    OrchestratorAction *action = arena_new(a, OrchestratorAction);

    orchestrator_action__init(action);
    action->id = (int32_t)id;
    return action;
}

static Google__Protobuf__StringValue *box(struct arena *a, struct bytes text)
{
    return wire_box(arena_new(a, Google__Protobuf__StringValue), text);
}

static void schedule(struct arena *a, OrchestratorResponse *resp, uint64_t first, uint64_t count)
{
    resp->n_actions = count;
    resp->actions = arena_array(a, OrchestratorAction *, count);
    for (uint64_t i = 0; i < count; i++) {
        OrchestratorAction *action = resp->actions[i] = new_action(a, first + i);
        ScheduleTaskAction *task = arena_new(a, ScheduleTaskAction);
        schedule_task_action__init(task);
        task->name = wire_data(BYTES_LIT("step"));
        task->input = box(a, bytes_str(arena_printf(a, "%" PRIu64, first + i)));
        action->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK;
        action->scheduletask = task;
    }
}

static void set_timers(struct arena *a, OrchestratorResponse *resp, uint64_t count, usec_t due)
{
    Google__Protobuf__Timestamp *at = arena_new(a, Google__Protobuf__Timestamp);

    *at = wire_time(due);
    resp->n_actions = count;
    resp->actions = arena_array(a, OrchestratorAction *, count);
    for (uint64_t i = 0; i < count; i++) {
        OrchestratorAction *action = resp->actions[i] = new_action(a, i + 1);
        CreateTimerAction *timer = arena_new(a, CreateTimerAction);
        create_timer_action__init(timer);
        timer->fireat = at;
        action->orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER;
        action->createtimer = timer;
    }
}

static void end(struct arena *a, OrchestratorResponse *resp, OrchestrationStatus status,
                struct bytes result)
{
    OrchestratorAction *action = new_action(a, 1000000000);
    CompleteOrchestrationAction *done = arena_new(a, CompleteOrchestrationAction);

    complete_orchestration_action__init(done);
    done->orchestrationstatus = status;
    done->result = box(a, result);
    action->orchestrator_action_type_case =
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION;
    action->completeorchestration = done;
    resp->n_actions = 1;
    resp->actions = arena_array(a, OrchestratorAction *, 1);
    resp->actions[0] = action;
}

static void complete(struct arena *a, OrchestratorResponse *resp, uint64_t output)
{
    end(a, resp, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED,
        bytes_str(arena_printf(a, "%" PRIu64, output)));
}

static void fail(struct arena *a, OrchestratorResponse *resp, const char *why)
{
    end(a, resp, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED, bytes_str(why));
}

static void go_on_with_events(const struct tally *t, struct arena *a, OrchestratorResponse *resp,
                              const uint64_t n[2])
{
    if (t->is_out_of_order)
        fail(a, resp, arena_printf(a, "event %.*s is out of order", BYTES_FMT(t->bad_event)));
    else if (t->next_event >= n[0])
        complete(a, resp, t->next_event);
    else if (bytes_eq(t->name, BYTES_LIT("events")) && t->raised > 0)
        end(a, resp, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW,
            bytes_str(arena_printf(a, "%" PRIu64 " %" PRIu64, n[0], t->next_event)));
}

void program_decide(struct tally *t, usec_t wall, struct arena *a, OrchestratorResponse *resp)
{
    uint64_t n[2];

    numbers(t->input, n);
    if (!t->has_started) {
        fail(a, resp, "the history has no beginning");
    } else if (bytes_eq(t->name, BYTES_LIT("rounds"))) {
        if (t->completed == n[0] * n[1])
            complete(a, resp, t->completed);
        else if (t->completed == t->scheduled)
            schedule(a, resp, t->scheduled + 1, n[1]);
    } else if (bytes_eq(t->name, BYTES_LIT("timers"))) {
        if (t->timers == 0)
            set_timers(a, resp, n[0], usec_add(wall, (usec_t)n[1] * USEC_PER_MSEC));
        else if (t->fired == n[0])
            complete(a, resp, t->fired);
    } else if (bytes_eq(t->name, BYTES_LIT("events")) || bytes_eq(t->name, BYTES_LIT("collect"))) {
        go_on_with_events(t, a, resp, n);
    } else {
        fail(a, resp, "no such orchestrator");
    }
}
