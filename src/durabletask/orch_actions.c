/* orch_actions.c - the actions of a turn: judged as a whole first, then written (spec 5).
 *
 * plan_actions() writes nothing: it validates, drops repeats, encodes the history events. So an invalid action or a history
 * limit leaves nothing half-applied. plan_apply() then makes the effects, in the order of the list.
 */
#include "durabletask/orchestration.h"

#include <stdio.h>

#include "base/utf8.h"
#include "wire/timestamp.h"
#include "wire/value.h"

void plan_init(struct plan *p)
{
    *p = (struct plan){0};
    p->last = &p->first;
}

void plan_deinit(struct plan *p)
{
    strbuf_deinit(&p->frames);
}

/* ---- judging ------------------------------------------------------------------------------------------- */

struct planner {
    struct step *s;
    struct object *o;
    struct plan *p;
    bool drops_new;      /* the turn ends TERMINATED */
    struct hashmap seen; /* plan items of this response, by kind and id */
};

struct seen_key {
    HistoryEvent__EventTypeCase kind;
    int32_t id;
};

static bool same_seen(const struct hash_node *n, const void *key)
{
    const struct seen_key *k = key;
    const struct plan_item *it = CONTAINER_OF(n, struct plan_item, node);
    return it->kind == k->kind && it->id == k->id;
}

static uint64_t seen_hash(HistoryEvent__EventTypeCase kind, int32_t id)
{
    return hash_u64(((uint64_t)kind << 32) | (uint32_t)id);
}

/* In history and unresolved, or earlier in this response (spec 5.2). */
static bool is_repeat(const struct planner *pl, HistoryEvent__EventTypeCase kind, int32_t id)
{
    struct seen_key key = {kind, id};
    return orch_open_find(pl->o, kind, id) ||
           hashmap_find(&pl->seen, seen_hash(kind, id), same_seen, &key);
}

static struct plan_item *item_add(struct planner *pl, HistoryEvent__EventTypeCase kind,
                                  const OrchestratorAction *a)
{
    struct plan_item *it = arena_new(pl->s->arena, struct plan_item);
    it->kind = kind;
    it->id = a->id;
    it->action = a;
    *pl->p->last = it;
    pl->p->last = &it->next;
    pl->p->count++;
    if (kind)
        hashmap_insert(&pl->seen, &it->node, seen_hash(kind, a->id));
    return it;
}

static bool invalid(struct planner *pl, const OrchestratorAction *a, const char *what)
{
    pl->p->invalid = event_failure(pl->s->arena, "InvalidOrchestratorAction", true,
                                   "Orchestrator action %d of instance '%.*s' is invalid: %s",
                                   a->id, BYTES_FMT(pl->o->row.id), what);
    return false;
}

static void frame(struct planner *pl, struct strbuf *event)
{
    orch_frame_put(&pl->p->frames, strbuf_bytes(event));
    pl->p->events++;
    strbuf_deinit(event);
}

static bool plan_task(struct planner *pl, const OrchestratorAction *a)
{
    const HistoryEvent__EventTypeCase kind = HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED;
    if (a->scheduletask->name.len == 0)
        return invalid(pl, a, "the name of the task to schedule is empty");
    if (pl->drops_new || is_repeat(pl, kind, a->id))
        return true;
    item_add(pl, kind, a);
    pl->p->keys++;
    struct strbuf event = {0};
    event_task_scheduled(&event, a->id, pl->s->now, a->scheduletask);
    frame(pl, &event);
    return true;
}

static bool plan_timer(struct planner *pl, const OrchestratorAction *a)
{
    const HistoryEvent__EventTypeCase kind = HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED;
    usec_t due;
    if (!a->createtimer->fireat)
        return invalid(pl, a, "the timer has no fireAt");
    if (!wire_time_read(a->createtimer->fireat, &due))
        return invalid(pl, a, "the timer's fireAt is no valid time");
    if (pl->drops_new || is_repeat(pl, kind, a->id))
        return true;
    struct plan_item *it = item_add(pl, kind, a);
    it->due = due;
    it->nanos = (unsigned)a->createtimer->fireat->nanos % 1000;
    pl->p->keys++;
    struct strbuf event = {0};
    event_timer_created(&event, a->id, pl->s->now, due, it->nanos);
    frame(pl, &event);
    return true;
}

/* NULL: fine. Form and length of an id that an action names (spec 1.4). */
static const char *bad_id(const struct planner *pl, struct bytes id)
{
    if (utf8_has_control(id))
        return "the instance id has a control character";
    if (utf8_length(id) > pl->s->settings->id_action_chars)
        return "the instance id is too long";
    return NULL;
}

static bool plan_child(struct planner *pl, const OrchestratorAction *a)
{
    const HistoryEvent__EventTypeCase kind =
        HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED;
    const CreateSubOrchestrationAction *child = a->createsuborchestration;
    struct bytes id = wire_view(child->instanceid);
    if (child->name.len == 0)
        return invalid(pl, a, "the name of the sub-orchestration is empty");
    const char *bad = bad_id(pl, id);
    if (bad)
        return invalid(pl, a, bad);
    bad = orch_tags_fault(BYTES_NONE, EVENT_TAGS_OF(child));
    if (bad)
        return invalid(pl, a, bad);
    if (pl->drops_new || is_repeat(pl, kind, a->id))
        return true;
    if (id.len == 0)
        id = bytes_str(arena_printf(pl->s->arena, "%.*s:%04x", BYTES_FMT(pl->o->row.execution_id),
                                    (unsigned)a->id));
    item_add(pl, kind, a)->child = id;
    struct strbuf event = {0};
    event_child_created(&event, a->id, pl->s->now, child, id);
    frame(pl, &event);
    return true;
}

static bool plan_send(struct planner *pl, const OrchestratorAction *a)
{
    const HistoryEvent__EventTypeCase kind = HISTORY_EVENT__EVENT_TYPE_EVENT_SENT;
    const SendEventAction *send = a->sendevent;
    struct bytes target = send->instance ? wire_view(send->instance->instanceid) : BYTES_LIT("");
    if (send->name.len == 0)
        return invalid(pl, a, "the name of the event to send is empty");
    if (target.len == 0)
        return invalid(pl, a, "the event has no target instance");
    const char *bad = bad_id(pl, target);
    if (bad)
        return invalid(pl, a, bad);
    if (is_repeat(pl, kind, a->id))
        return true;
    item_add(pl, kind, a);
    struct strbuf event = {0};
    event_sent(&event, a->id, pl->s->now, target, wire_view(send->name), wire_string(send->data));
    frame(pl, &event);
    return true;
}

static bool plan_terminate(struct planner *pl, const OrchestratorAction *a)
{
    struct bytes target = wire_view(a->terminateorchestration->instanceid);
    if (target.len == 0)
        return invalid(pl, a, "the orchestration to terminate has no id");
    const char *bad = bad_id(pl, target);
    if (bad)
        return invalid(pl, a, bad);
    item_add(pl, HISTORY_EVENT__EVENT_TYPE__NOT_SET, a);
    return true;
}

static bool plan_one(struct planner *pl, const OrchestratorAction *a)
{
    switch (a->orchestrator_action_type_case) {
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK:
        return plan_task(pl, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER:
        return plan_timer(pl, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION:
        return plan_child(pl, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT:
        return plan_send(pl, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION:
        return plan_terminate(pl, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION:
        return true; /* chosen before */
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_ENTITY_MESSAGE:
        return invalid(pl, a, "entity messages are not supported by this server version");
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_REWIND_ORCHESTRATION:
        return invalid(pl, a, "no rewind of this instance is under way");
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE__NOT_SET:
    default:
        return invalid(pl, a, "it is empty, or of a kind that this server does not know");
    }
}

/* Of several completions the one with the lowest id counts (spec 4.4). */
static bool choose_completion(struct planner *pl, OrchestratorAction *const *actions, size_t count)
{
    const OrchestratorAction *chosen = NULL;
    for (size_t i = 0; i < count; i++)
        if (actions[i]->orchestrator_action_type_case ==
                ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION &&
            (!chosen || actions[i]->id < chosen->id))
            chosen = actions[i];
    if (!chosen)
        return true;
    pl->p->completion = chosen->completeorchestration;
    if ((int)pl->p->completion->orchestrationstatus == ORCH_CONTINUED_AS_NEW) {
        const char *bad = orch_tags_fault(pl->o->row.tags, EVENT_TAGS_OF(pl->p->completion));
        if (bad)
            return invalid(pl, chosen, bad);
    }
    switch ((int)pl->p->completion->orchestrationstatus) {
    case ORCH_COMPLETED:
    case ORCH_FAILED:
    case ORCH_TERMINATED:
    case ORCH_CANCELED:
    case ORCH_CONTINUED_AS_NEW:
        return true;
    default:
        return invalid(pl, chosen,
                       "its orchestrationStatus is not one that an orchestration can end with");
    }
}

enum err plan_actions(struct step *s, struct object *o, OrchestratorAction *const *actions,
                      size_t count, bool has_terminated, struct plan *p, struct error *err)
{
    (void)err;
    struct planner pl = {.s = s, .o = o, .p = p};
    if (choose_completion(&pl, actions, count)) {
        int status =
            p->completion ? (int)p->completion->orchestrationstatus : ORCH_CONTINUED_AS_NEW;
        pl.drops_new =
            status == ORCH_TERMINATED || (has_terminated && status == ORCH_CONTINUED_AS_NEW);
        for (size_t i = 0; i < count && plan_one(&pl, actions[i]); i++)
            ;
    }
    hashmap_deinit(&pl.seen);
    return OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static enum err apply_task(struct step *s, struct object *o, const struct plan_item *it,
                           uint64_t key, bool keep, struct error *err)
{
    const ScheduleTaskAction *task = it->action->scheduletask;
    CLEANUP(strbuf_deinit) struct strbuf payload = {0};
    event_activity_request(&payload, task, it->id, o->row.id, o->row.execution_id);
    struct store_task t = {
        .key = key,
        .object = o->row.key,
        .execution = o->row.execution,
        .ref = it->id,
        .time = s->now,
        .payload = strbuf_bytes(&payload),
    };
    enum err rc = step_task_add(s, o, &t, wire_view(task->name),
                                orch_task_version(o, wire_string(task->version)), err);
    if (!rc && keep)
        orch_open_add(
            o, &(struct open_action){.kind = it->kind, .id = it->id, .key = key, .group = t.group});
    return rc;
}

static enum err apply_timer(struct step *s, struct object *o, const struct plan_item *it,
                            uint64_t key, struct error *err)
{
    struct store_timer t = {
        .due = it->due,
        .key = key,
        .object = o->row.key,
        .execution = o->row.execution,
        .what = ORCH_TIMER_USER,
        .ref = orch_timer_ref(it->id, it->nanos),
    };
    orch_open_add(o, &(struct open_action){.kind = it->kind, .id = it->id, .key = key});
    return step_timer_add(s, &t, err);
}

static struct bytes target_of(const struct plan_item *it)
{
    return it->kind ? wire_view(it->action->sendevent->instance->instanceid)
                    : wire_view(it->action->terminateorchestration->instanceid);
}

/* sendEvent or terminateOrchestration, to `target`. */
static enum err deliver(struct step *s, struct object *target, const struct plan_item *it,
                        struct error *err)
{
    if (it->kind)
        return orch_raise_to(s, target, wire_view(it->action->sendevent->name),
                             wire_string(it->action->sendevent->data), err);
    const TerminateOrchestrationAction *t = it->action->terminateorchestration;
    return orch_terminate_object(s, target, wire_string(t->reason), t->recurse, err);
}

static enum err apply_to_other(struct step *s, struct object *o, const struct plan_item *it,
                               struct error *err)
{
    struct object *target;
    if (bytes_eq(target_of(it), o->row.id))
        return OK; /* plan_apply_to_self() */
    enum err rc = step_find(s, o->row.hub, &ORCHESTRATION, target_of(it), &target, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    return deliver(s, target, it, err);
}

enum err plan_apply(struct step *s, struct object *o, const struct plan *p, uint64_t key_base,
                    bool is_last_turn, bool continues_as_new, struct error *err)
{
    bool keep = !continues_as_new;
    for (const struct plan_item *it = p->first; it; it = it->next) {
        enum err rc = OK;
        switch (it->kind) {
        case HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED:
            rc = apply_task(s, o, it, key_base++, keep, err);
            break;
        case HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED:
            if (!is_last_turn)
                rc = apply_timer(s, o, it, key_base, err);
            key_base++;
            break;
        case HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED:
            if (keep)
                orch_open_add(o, &(struct open_action){.kind = it->kind, .id = it->id});
            rc = orch_start_child(s, o, it->id, it->action->createsuborchestration, it->child, err);
            break;
        case HISTORY_EVENT__EVENT_TYPE_EVENT_SENT:
            if (keep)
                orch_open_add(o, &(struct open_action){.kind = it->kind, .id = it->id});
            rc = apply_to_other(s, o, it, err);
            break;
        default:
            rc = apply_to_other(s, o, it, err);
            break;
        }
        if (rc)
            return rc;
    }
    return OK;
}

enum err plan_apply_to_self(struct step *s, struct object *o, const struct plan *p,
                            struct error *err)
{
    for (const struct plan_item *it = p->first; it && !orch_is_terminal(o); it = it->next) {
        bool sends = it->kind == HISTORY_EVENT__EVENT_TYPE_EVENT_SENT ||
                     it->kind == HISTORY_EVENT__EVENT_TYPE__NOT_SET;
        if (!sends || !bytes_eq(target_of(it), o->row.id))
            continue;
        enum err rc = deliver(s, o, it, err);
        if (rc)
            return rc;
    }
    return OK;
}
