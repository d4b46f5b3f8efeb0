/* turn.c - workers' answers to turns, with their actions (spec 4.3, 4.4, 5, 6.7). */
#include <stdlib.h>

#include "base/utf8.h"
#include "internal.h"

/* ---- what is open in a history ----------------------------------------------------------------------------- */

/* A scheduling of this kind and id without a resolution. */
static bool is_open(const struct inst *i, int kind, int32_t id)
{
    int open = 0;
    for (size_t n = 0; n < i->history.n; n++) {
        const struct event *e = i->history.at[n];
        if (e->type == kind && e->id == id)
            open++;
        else if (resolved_kind(e->type) == kind && e->ref == id && open > 0)
            open--;
    }
    return open > 0;
}

static bool was_there(const struct inst *i, int kind, int32_t id)
{
    for (size_t n = 0; n < i->history.n; n++)
        if (i->history.at[n]->type == kind && i->history.at[n]->id == id)
            return true;
    return false;
}

/* ---- judging a response -------------------------------------------------------------------------------------- */

struct turn {
    struct run *r;
    struct inst *i;
    OrchestratorAction **actions;
    size_t n;
    const CompleteOrchestrationAction *done;
    const struct event *terminated; /* the turn had it */
    bool drops_new, ends, continues;
    size_t from; /* of the history: before this turn */
};

/* 0: fine; 1: invalid; 2: what is wrong with it is a matter of the text (as 1). Spec 5.3. */
static bool bad_target(const struct turn *t, struct bytes id)
{
    return !utf8_is_valid(id) || utf8_has_control(id) ||
           utf8_length(id) > t->r->m->settings->id_action_chars;
}

static bool is_invalid(const struct turn *t, const OrchestratorAction *a)
{
    usec_t due;
    struct bytes id;
    switch ((int)a->orchestrator_action_type_case) {
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK:
        return a->scheduletask->name.len == 0;
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER:
        return !a->createtimer->fireat || !stamp_read(a->createtimer->fireat, &due);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION:
        return a->createsuborchestration->name.len == 0 ||
               bad_target(t, view(a->createsuborchestration->instanceid));
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT:
        id = a->sendevent->instance ? view(a->sendevent->instance->instanceid) : BYTES_LIT("");
        return a->sendevent->name.len == 0 || id.len == 0 || bad_target(t, id);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION:
        id = view(a->terminateorchestration->instanceid);
        return id.len == 0 || bad_target(t, id);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION:
        return false; /* only the one that counts is judged */
    default:
        return true; /* empty; entities and rewind come with later issues */
    }
}

/* Of several the one with the lowest id counts (spec 4.4). */
static void choose_completion(struct turn *t, bool *invalid)
{
    const OrchestratorAction *chosen = NULL;
    for (size_t n = 0; n < t->n; n++)
        if (t->actions[n]->orchestrator_action_type_case ==
                ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION &&
            (!chosen || t->actions[n]->id < chosen->id))
            chosen = t->actions[n];
    if (!chosen)
        return;
    t->done = chosen->completeorchestration;
    int status = (int)t->done->orchestrationstatus;
    *invalid = !is_terminal_status(status) && status != ST_CONTINUED;
}

/* ---- carrying actions out --------------------------------------------------------------------------------------- */

struct planned {
    const OrchestratorAction *a;
    struct bytes child;
};

static bool is_repeat(struct turn *t, int kind, int32_t id)
{
    if (!is_open(t->i, kind, id)) {
        if (was_there(t->i, kind, id))
            HIT(t->r, 5_2_AGAIN);
        return false;
    }
    if (kind == EV_TASK)
        HIT(t->r, 5_2_TASK);
    else if (kind == EV_TIMER)
        HIT(t->r, 5_2_TIMER);
    else
        HIT(t->r, 5_2_CHILD);
    return true;
}

static bool drops(struct turn *t)
{
    if (t->drops_new)
        HIT(t->r, 6_6_3);
    return t->drops_new;
}

static bool record_task(struct turn *t, const OrchestratorAction *a)
{
    const ScheduleTaskAction *s = a->scheduletask;
    struct arena *ar = t->r->m->arena;
    if (drops(t) || is_repeat(t, EV_TASK, a->id))
        return false;
    HistoryEvent *msg = event_msg(ar, EV_TASK, a->id, t->r->now);
    TaskScheduledEvent *e = msg->taskscheduled;
    e->name = s->name;
    e->version = s->version;
    e->input = s->input;
    e->parenttracecontext = s->parenttracecontext;
    e->n_tags = s->n_tags;
    e->tags = (TaskScheduledEvent__TagsEntry **)(void *)s->tags;
    history_put(t->r, t->i, msg);
    return true;
}

static bool record_timer(struct turn *t, const OrchestratorAction *a)
{
    if (drops(t) || is_repeat(t, EV_TIMER, a->id))
        return false;
    HistoryEvent *msg = event_msg(t->r->m->arena, EV_TIMER, a->id, t->r->now);
    msg->timercreated->fireat = a->createtimer->fireat;
    history_put(t->r, t->i, msg);
    return true;
}

static bool record_child(struct turn *t, const OrchestratorAction *a, struct bytes *id)
{
    const CreateSubOrchestrationAction *c = a->createsuborchestration;
    struct arena *ar = t->r->m->arena;
    if (drops(t) || is_repeat(t, EV_CHILD, a->id))
        return false;
    *id = view(c->instanceid);
    if (id->len == 0)
        *id = bytes_str(arena_printf(ar, "%.*s:%04x", BYTES_FMT(exec_text(t->r->m, t->i->exec)),
                                     (unsigned)a->id));
    HistoryEvent *msg = event_msg(ar, EV_CHILD, a->id, t->r->now);
    SubOrchestrationInstanceCreatedEvent *e = msg->suborchestrationinstancecreated;
    e->instanceid = data_of(*id);
    e->name = c->name;
    e->version = c->version;
    e->input = c->input;
    e->parenttracecontext = c->parenttracecontext;
    e->n_tags = c->n_tags;
    e->tags = (SubOrchestrationInstanceCreatedEvent__TagsEntry **)(void *)c->tags;
    history_put(t->r, t->i, msg);
    return true;
}

static bool record_sent(struct turn *t, const OrchestratorAction *a)
{
    const SendEventAction *s = a->sendevent;
    if (was_there(t->i, EV_SENT, a->id)) {
        HIT(t->r, 5_2_SENT);
        return false;
    }
    HistoryEvent *msg = event_msg(t->r->m->arena, EV_SENT, a->id, t->r->now);
    msg->eventsent->instanceid = s->instance->instanceid;
    msg->eventsent->name = s->name;
    msg->eventsent->input = s->data;
    history_put(t->r, t->i, msg);
    return true;
}

/* Its history event; false: a repeat, or dropped. */
static bool record(struct turn *t, const OrchestratorAction *a, struct bytes *child)
{
    switch ((int)a->orchestrator_action_type_case) {
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK:
        return record_task(t, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER:
        return record_timer(t, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION:
        return record_child(t, a, child);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT:
        return record_sent(t, a);
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION:
        return true;
    default:
        return false;
    }
}

static void schedule(struct turn *t, const OrchestratorAction *a)
{
    struct arena *ar = t->r->m->arena;
    const ScheduleTaskAction *s = a->scheduletask;
    ActivityRequest *q = arena_new(ar, ActivityRequest);
    activity_request__init(q);
    q->name = s->name;
    q->version = s->version;
    q->input = s->input;
    q->parenttracecontext = s->parenttracecontext;
    q->taskid = a->id;
    q->n_tags = s->n_tags;
    q->tags = (ActivityRequest__TagsEntry **)(void *)s->tags;
    q->orchestrationinstance = arena_new(ar, OrchestrationInstance);
    orchestration_instance__init(q->orchestrationinstance);
    q->orchestrationinstance->instanceid = data_of(t->i->id);
    q->orchestrationinstance->executionid = box(ar, exec_text(t->r->m, t->i->exec));
    struct task task = {
        .inst = t->i->serial,
        .exec = t->i->exec,
        .id = a->id,
        .hub = t->i->hub,
        .id_of = t->i->id,
        .name = view(s->name),
        .version = s->version ? boxed(s->version)
                              : (bytes_is_none(t->i->version) ? BYTES_LIT("") : t->i->version),
        .request = canonical(ar, q),
        .serial = ++t->r->m->next_serial,
    };
    VEC_PUSH(&t->r->s->tasks, task);
}

static void arm(struct turn *t, const OrchestratorAction *a)
{
    struct timer timer = {
        .inst = t->i->serial,
        .exec = t->i->exec,
        .kind = TIMER_USER,
        .id = a->id,
        .when = a->createtimer->fireat,
        .serial = ++t->r->m->next_serial,
    };
    if (t->ends || t->continues || !stamp_read(a->createtimer->fireat, &timer.due))
        return; /* the last turn arms none */
    VEC_PUSH(&t->r->s->timers, timer);
}

static struct bytes target_of(const OrchestratorAction *a)
{
    if (a->orchestrator_action_type_case ==
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT)
        return view(a->sendevent->instance->instanceid);
    if (a->orchestrator_action_type_case ==
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_TERMINATE_ORCHESTRATION)
        return view(a->terminateorchestration->instanceid);
    return BYTES_NONE;
}

static void send(struct turn *t, const OrchestratorAction *a)
{
    struct inst *target = state_find(t->r->s, t->i->hub, target_of(a));
    if (!target)
        return;
    if (a->orchestrator_action_type_case ==
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SEND_EVENT)
        raise_to(t->r, target, view(a->sendevent->name), boxed(a->sendevent->data));
    else
        terminate(t->r, target, boxed(a->terminateorchestration->reason),
                  a->terminateorchestration->recurse);
}

static void carry_out(struct turn *t, const struct planned *p)
{
    switch ((int)p->a->orchestrator_action_type_case) {
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK:
        schedule(t, p->a);
        break;
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER:
        arm(t, p->a);
        break;
    case ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION:
        start_child(t->r, t->i, p->a, p->child);
        break;
    default:
        if (!bytes_eq(target_of(p->a), t->i->id)) /* to itself: after the turn */
            send(t, p->a);
        break;
    }
}

/* ---- continue-as-new (spec 6.7) ------------------------------------------------------------------------------------ */

static bool moves_along(int type)
{
    return type == EV_RAISED || type == EV_SUSPENDED || type == EV_RESUMED || type == EV_TERMINATED;
}

/* Tags of the old execution overlaid by the action's. */
static void overlay(struct arena *a, struct inst *i, const CompleteOrchestrationAction *done)
{
    if (done->n_tags == 0)
        return;
    size_t n = i->n_tags;
    ExecutionStartedEvent__TagsEntry **all =
        arena_array(a, ExecutionStartedEvent__TagsEntry *, n + done->n_tags);
    if (n)
        memcpy(all, i->tags, n * sizeof(*all));
    for (size_t k = 0; k < done->n_tags; k++) {
        ExecutionStartedEvent__TagsEntry *tag = (void *)done->tags[k];
        size_t at = 0;
        while (at < n && !bytes_eq(view(all[at]->key), view(tag->key)))
            at++;
        all[at] = tag;
        n += at == n;
    }
    i->tags = all;
    i->n_tags = n;
}

static void continue_as_new(struct turn *t)
{
    struct run *r = t->r;
    struct inst *i = t->i;
    struct arena *a = r->m->arena;
    bool suspended_in_history = false;
    for (size_t n = 0; n < i->history.n; n++) {
        if (i->history.at[n]->type == EV_SUSPENDED)
            suspended_in_history = true;
        else if (i->history.at[n]->type == EV_RESUMED)
            suspended_in_history = false;
    }
    for (size_t n = r->s->timers.n; n-- > 0;)
        if (r->s->timers.at[n].inst == i->serial)
            VEC_REMOVE(&r->s->timers, n);
    for (size_t n = 0; n < r->s->tasks.n; n++)
        if (r->s->tasks.at[n].inst == i->serial)
            r->s->tasks.at[n].orphan = true;
    i->history.n = i->checked_rows = i->checked_events = 0;
    i->chunks.n = 0;
    i->exec = exec_new(r->m);
    i->exec_turns = 0;
    i->last_started = 0;
    i->trace = BYTES_NONE;
    i->input = boxed(t->done->result);
    if (t->done->newversion)
        i->version = boxed(t->done->newversion);
    overlay(a, i, t->done);
    i->base = ST_RUNNING;
    if (i->status != ST_SUSPENDED)
        i->status = ST_RUNNING;
    else
        HIT(r, 1_3_CAN_SUSPENDED);
    HIT(r, 1_3_CAN);
    if (i->parent)
        HIT(r, 6_4_CAN);

    VEC(struct event *) waiting = {0};
    for (size_t n = 0; n < i->inbox.n; n++)
        if (moves_along(i->inbox.at[n]->type))
            VEC_PUSH(&waiting, i->inbox.at[n]);
    if (waiting.n)
        HIT(r, 6_7_INBOX);
    i->inbox.n = 0;
    put_started(r, i, false);
    if (i->status == ST_SUSPENDED && suspended_in_history)
        arrive(r, i, event_of(a, event_msg(a, EV_SUSPENDED, -1, r->now)));
    for (size_t n = 0; n < t->done->n_carryoverevents; n++) {
        const HistoryEvent *e = t->done->carryoverevents[n];
        if ((int)e->event_type_case == EV_RAISED) {
            HIT(r, 6_7_CARRY);
            raise_to(r, i, view(e->eventraised->name), boxed(e->eventraised->input));
        }
    }
    for (size_t n = 0; n < waiting.n; n++)
        arrive(r, i, waiting.at[n]);
    VEC_FREE(&waiting);
    if (i->terminating) {
        HIT(r, 6_6_CAN);
        force_terminate(r, i);
    }
}

/* ---- the commit of a turn (spec 4.4) ---------------------------------------------------------------------------------- */

static void set_from_response(struct turn *t, const OrchestratorResponse *q)
{
    struct bytes custom = boxed(q->customstatus);
    t->i->custom = custom.len ? custom : BYTES_NONE;
    if (q->orchestrationtracecontext) {
        struct bytes trace = canonical(t->r->m->arena, q->orchestrationtracecontext);
        if (trace.len)
            t->i->trace = trace;
    }
}

/* The consumed events leave the inbox for the history. */
static void consume(struct turn *t, const struct dispatch *d, size_t entries)
{
    struct inst *i = t->i;
    if (entries == 0)
        return;
    history_put(t->r, i, event_msg(t->r->m->arena, EV_TURN, -1, d->started))->any_time =
        d->started == 0;
    i->last_started = d->started;
    for (size_t n = 0; n + 1 < entries; n++) {
        struct event *e = d->events.at[n];
        VEC_PUSH(&i->history, e);
        if (e->type == EV_TERMINATED) {
            t->terminated = e;
            i->terminating = false;
        }
        for (size_t k = 0; k < i->inbox.n; k++) {
            if (i->inbox.at[k] == e) {
                VEC_REMOVE(&i->inbox, k);
                break;
            }
        }
    }
}

/* 0: no, 1: yes, 2: at the edge, where header bytes and the event that may follow decide. */
static int is_over_limit(const struct turn *t, bool completes)
{
    const struct settings *set = t->r->m->settings;
    size_t events = t->i->history.n + completes, bytes = 0;
    for (size_t n = 0; n < t->i->history.n; n++)
        bytes += t->i->history.at[n]->size + 3;
    if (events > set->history_max_events || bytes > set->history_max_bytes + bytes / 8 + 64)
        return 1;
    if (events + 1 > set->history_max_events || bytes + bytes / 8 + 64 > set->history_max_bytes)
        return 2;
    return 0;
}

static struct verdict fail_turn(struct turn *t, const char *type)
{
    struct arena *a = t->r->m->arena;
    HIT(t->r, 1_3_SERVER_FAILED);
    t->i->terminating = false;
    finish(t->r, t->i, ST_FAILED, BYTES_NONE, failure_make(a, type, true, ""), true, false,
           BYTES_NONE);
    return (struct verdict){.changes = true};
}

static TaskFailureDetails *failure_of(struct turn *t, bool *fuzzy)
{
    struct bytes details = boxed(t->done->details);
    *fuzzy = false;
    if (t->done->failuredetails) {
        failure_cut(t->done->failuredetails, (unsigned)t->r->m->settings->failure_levels);
        return t->done->failuredetails;
    }
    *fuzzy = details.len == 0;
    TaskFailureDetails *f = failure_make(t->r->m->arena, "OrchestrationFailed", false, "");
    f->errormessage = data_of(details.len ? details : BYTES_LIT(""));
    return f;
}

static void end_turn(struct turn *t, int status)
{
    struct run *r = t->r;
    struct bytes result = t->done ? boxed(t->done->result) : BYTES_NONE;
    TaskFailureDetails *failure = NULL;
    bool fuzzy = false, recurse = false;
    struct bytes reason = BYTES_NONE;
    if (t->i->status == ST_SUSPENDED)
        HIT(r, 1_3_END_SUSPENDED);
    if (t->terminated) {
        reason = boxed(t->terminated->msg->executionterminated->input);
        recurse = t->terminated->msg->executionterminated->recurse;
        if (!t->done || t->continues) {
            HIT(r, 6_6_2_FORCED);
            result = reason;
        } else if (status == ST_TERMINATED) {
            HIT(r, 6_6_2);
        } else {
            HIT(r, 6_6_2_OUTCOME);
        }
    }
    if (status == ST_FAILED) {
        failure = failure_of(t, &fuzzy);
        HIT(r, 1_3_FAILED);
    } else if (status == ST_COMPLETED) {
        HIT(r, 1_3_COMPLETED);
    } else if (status == ST_TERMINATED) {
        HIT(r, 1_3_TERMINATED);
    } else {
        HIT(r, 1_3_CANCELED);
    }
    finish(r, t->i, status, result, failure, fuzzy, recurse, reason);
}

static void go_on(struct turn *t)
{
    struct inst *i = t->i;
    struct run *r = t->r;
    i->turns++;
    i->exec_turns++;
    i->chunks.n = 0;
    if (i->status == ST_SUSPENDED)
        HIT(r, 1_3_TURN_SUSPENDED);
    if (i->base == ST_PENDING) {
        HIT(r, 1_3_RUNNING);
        i->base = ST_RUNNING;
    }
    if (i->status == ST_PENDING)
        i->status = ST_RUNNING;
    touch(r, i);
    if (t->continues)
        continue_as_new(t);
}

static int outcome(struct turn *t)
{
    int status = t->done ? (int)t->done->orchestrationstatus : -1;
    t->continues = status == ST_CONTINUED;
    if (t->terminated && (!t->done || t->continues))
        status = ST_TERMINATED;
    t->ends = is_terminal_status(status);
    t->drops_new = status == ST_TERMINATED;
    if (t->ends && t->terminated && (!t->done || t->continues))
        return status; /* continues stays set: the worker's result is not the outcome */
    t->continues = t->continues && !t->ends;
    return status;
}

static struct verdict commit(struct turn *t, const struct dispatch *d,
                             const OrchestratorResponse *q, size_t entries, bool token_less)
{
    struct run *r = t->r;
    struct inst *i = t->i;
    bool invalid = false;
    consume(t, d, entries);
    choose_completion(t, &invalid);
    int status = outcome(t);
    for (size_t n = 0; n < t->n; n++)
        invalid = invalid || is_invalid(t, t->actions[n]);
    set_from_response(t, q);
    if (invalid) {
        HIT(r, 5_3_INVALID);
        return fail_turn(t, "InvalidOrchestratorAction");
    }
    size_t before = i->history.n;
    VEC(struct planned) planned = {0};
    for (size_t n = 0; n < t->n; n++) {
        struct planned p = {.a = t->actions[n], .child = BYTES_NONE};
        if (record(t, p.a, &p.child))
            VEC_PUSH(&planned, p);
    }
    int over = t->ends || !t->continues ? is_over_limit(t, t->ends) : 0;
    if (over == 1 || (over == 2 && choose(r, 2) == 1)) {
        HIT(r, 4_5_LIMIT);
        i->history.n = before;
        VEC_FREE(&planned);
        struct verdict v = fail_turn(t, "HistoryLimitExceeded");
        if (!token_less) {
            v.status = G_EXHAUSTED;
            v.commits_error = true;
            v.message =
                arena_printf(r->m->arena, "Orchestration '%.*s' would exceed maximum history size",
                             BYTES_FMT(i->id));
        }
        return v;
    }
    r->changed = true;
    for (size_t n = 0; n < planned.n; n++)
        carry_out(t, &planned.at[n]);
    if (t->ends)
        end_turn(t, status);
    else
        go_on(t);
    for (size_t n = 0; n < planned.n && !is_terminal(i); n++)
        if (bytes_eq(target_of(planned.at[n].a), i->id) &&
            !bytes_is_none(target_of(planned.at[n].a)))
            send(t, planned.at[n].a);
    VEC_FREE(&planned);
    return (struct verdict){.changes = true, .maybe_over = over == 2 && !token_less};
}

/* ---- chunks (spec 4.3) --------------------------------------------------------------------------------------------------- */

struct verdict give_back(const struct dispatch *d)
{
    return (struct verdict){.status = G_INVALID, .gives_back = d->number};
}

static bool is_gap(struct inst *i, const struct dispatch *d, const OrchestratorResponse *q,
                   bool *is_old)
{
    for (size_t n = i->chunks.n; n-- > 0;)
        if (i->chunks.at[n].dispatch != d->number) /* of a dispatch that was given back */
            VEC_REMOVE(&i->chunks, n);
    int32_t next = (int32_t)i->chunks.n;
    int32_t index = q->chunkindex ? q->chunkindex->value : next;
    *is_old = index > 0 && index < next;
    return index < 0 || index > next;
}

static struct verdict store_chunk(struct run *r, struct inst *i, const struct dispatch *d,
                                  const OrchestratorResponse *q)
{
    bool is_old;
    HIT(r, 4_3_PARTIAL);
    if (is_gap(i, d, q, &is_old))
        return give_back(d);
    if (!is_old) {
        if (q->chunkindex && q->chunkindex->value == 0)
            i->chunks.n = 0;
        VEC_PUSH(&i->chunks, ((struct chunk){.dispatch = d->number, .response = q}));
    }
    return (struct verdict){.extends = true, .answers = d->number};
}

static void join(struct turn *t, const OrchestratorResponse *q)
{
    struct inst *i = t->i;
    size_t n = q->n_actions;
    for (size_t k = 0; k < i->chunks.n; k++)
        n += i->chunks.at[k].response->n_actions;
    t->actions = arena_array(t->r->m->arena, OrchestratorAction *, n + 1);
    for (size_t k = 0; k < i->chunks.n; k++)
        for (size_t j = 0; j < i->chunks.at[k].response->n_actions; j++)
            t->actions[t->n++] = i->chunks.at[k].response->actions[j];
    for (size_t j = 0; j < q->n_actions; j++)
        t->actions[t->n++] = q->actions[j];
}

static struct verdict apply(struct run *r, struct inst *i, const struct dispatch *d,
                            const OrchestratorResponse *q, bool token_less)
{
    struct turn t = {.r = r, .i = i, .from = i->history.n};
    bool is_old;
    if (is_gap(i, d, q, &is_old))
        return give_back(d);
    if (q->chunkindex && q->chunkindex->value == 0)
        i->chunks.n = 0;
    join(&t, q);
    const Google__Protobuf__Int32Value *said =
        i->chunks.n ? i->chunks.at[0].response->numeventsprocessed : q->numeventsprocessed;
    size_t entries = d->events.n + 1;
    if (said) {
        HIT(r, 4_3_PROCESSED);
        if (said->value < 0 || (size_t)said->value > entries)
            return give_back(d);
        entries = (size_t)said->value;
    }
    if (entries == 0 && t.n == 0)
        return (struct verdict){.gives_back = d->number, .is_abandon = true};
    struct verdict v = commit(&t, d, q, entries, token_less);
    v.answers = d->number;
    return v;
}

/* ---- whose turn ------------------------------------------------------------------------------------------------------------- */

/* The current dispatch of an instance, if this one is it. */
static bool is_current(const struct run *r, const struct inst *i, const struct dispatch *d)
{
    const struct dispatch *last = dispatch_last(r->m, i->serial);
    return d && d == last && d->is_turn && d->process == r->m->process && !is_terminal(i) &&
           d->exec == i->exec && d->turns == i->turns;
}

/* Token-less (spec 8.2): the ids alone. `*allowed`: it may count. */
static const struct dispatch *by_ids(struct run *r, const struct call *c, const struct inst *i,
                                     int *allowed)
{
    const struct dispatch *turn = NULL;
    bool same_connection = false, earlier_open = false;
    for (size_t n = 0; n < r->m->dispatches.n; n++) {
        const struct dispatch *d = r->m->dispatches.at[n];
        if (!d->is_turn || d->inst != i->serial || d->exec != i->exec)
            continue;
        if (d->turns == i->turns) {
            turn = d;
            same_connection = same_connection || (d->token_less && d->connection == c->connection);
        } else if (d->token_less && !d->answered && d->process == r->m->process) {
            earlier_open = true;
        }
    }
    *allowed = same_connection || !earlier_open ? 1 : 0;
    return turn;
}

/* A completion whose content is refused settles its item as failed (spec 5.3). */
static struct verdict fail_bad(struct run *r, struct inst *i, const struct dispatch *d,
                               bool token_less)
{
    struct turn t = {.r = r, .i = i};
    HIT(r, 5_3_BAD);
    consume(&t, d, d->events.n + 1);
    struct verdict v = fail_turn(&t, "InvalidCompletion");
    v.answers = d->number;
    if (!token_less) {
        v.status = G_INVALID;
        v.commits_error = true;
    }
    return v;
}

#define DEPTH_MAX 300

/* Bad UTF-8, or nested too deep; at the very edge the database decides. */
bool is_bad(struct run *r, const void *msg)
{
    bool bad_text;
    unsigned depth = message_depth(msg, &bad_text);
    if (bad_text || depth > DEPTH_MAX + 2)
        return true;
    return depth > DEPTH_MAX - 2 && choose(r, 2);
}

/* One that was too large to keep ends its dispatch; after so many the item fails. True: it fails now. */
bool gives_up(struct run *r, uint64_t item, struct verdict *v)
{
    unsigned times = breaks_of(r->m, item) + 1, max = (unsigned)r->m->settings->oversize_breaks;
    *v = (struct verdict){.status = G_EXHAUSTED, .breaks = item};
    /* What broke in one batch, or before a batch that failed, is counted by the server alone. */
    return times + 1 >= max && choose(r, 2) == (times >= max ? 0u : 1u);
}

static struct verdict turn_too_large(struct run *r, struct inst *i, const struct dispatch *d,
                                     bool token_less)
{
    struct turn t = {.r = r, .i = i};
    struct verdict v;
    touch_id(r->m, i->hub, i->id);
    if (!gives_up(r, i->serial << 1 | 1, &v))
        return v;
    consume(&t, d, d->events.n + 1);
    v = fail_turn(&t, "WorkItemTooLarge");
    v.answers = d->number;
    v.status = token_less ? G_OK : G_EXHAUSTED;
    v.commits_error = !token_less;
    return v;
}

/* A completion that settles nothing: OK (spec 8.2), unless its content is refused as such. */
struct verdict settles_nothing(struct run *r, const struct call *c, const struct dispatch *d)
{
    bool bad_text;
    unsigned depth = message_depth(c->request, &bad_text);
    bool is_refused = bad_text || depth > DEPTH_MAX - 2 || is_too_large(r->m, c);
    return (struct verdict){.status = is_refused ? -1 : 0, .answers = d ? d->number : 0};
}

static struct verdict ignored(struct run *r, const struct call *c)
{
    HIT(r, 8_2_REFUSED);
    return settles_nothing(r, c, NULL);
}

/* After a server start every ready turn counts as having been out, with the batch of its stored cut, which only the
 * database knows. */
static struct verdict settle_unseen(struct run *r, const struct call *c, struct inst *i,
                                    const OrchestratorResponse *q)
{
    struct dispatch cut = {.is_turn = true, .exec = i->exec, .turns = i->turns};
    if (!is_dispatchable(i) || r->m->process < 2 || q->requireshistory || q->ispartial)
        return ignored(r, c);
    unsigned n = choose(r, 1 + (i->terminating ? 1 : (unsigned)MIN(i->inbox.n, 8)));
    if (n == 0)
        return ignored(r, c);
    for (size_t k = 0; k < i->inbox.n && cut.events.n < n; k++)
        if ((i->inbox.at[k]->type == EV_TERMINATED) == i->terminating)
            VEC_PUSH(&cut.events, i->inbox.at[k]);
    struct verdict v = apply(r, i, &cut, q, true);
    VEC_FREE(&cut.events);
    HIT(r, 8_2_TOKENLESS);
    return v;
}

static struct verdict run_tokenless(struct run *r, struct call *c, const OrchestratorResponse *q)
{
    struct inst *i = state_find(r->s, c->hub, view(q->instanceid));
    int allowed;
    if (!i || is_terminal(i))
        return ignored(r, c);
    touch_id(r->m, i->hub, i->id); /* the database decides, also against what changes nothing */
    const struct dispatch *d = by_ids(r, c, i, &allowed);
    if (!allowed)
        return ignored(r, c);
    if (!d)
        return settle_unseen(r, c, i, q);
    bool is_ours = d->token_less && d->connection == c->connection;
    if (choose(r, 2) == (is_ours ? 1u : 0u))
        return ignored(r, c);
    HIT(r, 8_2_TOKENLESS);
    if (is_too_large(r->m, c))
        return turn_too_large(r, i, d, true);
    if (is_bad(r, q))
        return fail_bad(r, i, d, true);
    if (q->requireshistory)
        return (struct verdict){.gives_back = d->number};
    return q->ispartial ? store_chunk(r, i, d, q) : apply(r, i, d, q, true);
}

struct verdict run_turn(struct run *r, struct call *c)
{
    const OrchestratorResponse *q = c->request;
    if (!q)
        return (struct verdict){.status = -1};
    struct bytes token = view(q->completiontoken);
    if (token.len == 0)
        return run_tokenless(r, c, q);
    const struct dispatch *d = dispatch_of_token(r->m, token);
    struct inst *i = d && d->is_turn ? state_by_serial(r->s, d->inst) : NULL;
    if (!i || i->hub != c->hub || !is_current(r, i, d)) {
        HIT(r, 8_2_STALE);
        return settles_nothing(r, c, d);
    }
    if (is_too_large(r->m, c))
        return turn_too_large(r, i, d, false);
    if (q->instanceid.len > 0 && !bytes_eq(view(q->instanceid), i->id))
        return give_back(d);
    if (is_bad(r, q))
        return fail_bad(r, i, d, false);
    if (q->requireshistory) {
        HIT(r, 4_3_HISTORY);
        return (struct verdict){.gives_back = d->number};
    }
    if (q->ispartial)
        return store_chunk(r, i, d, q);
    return apply(r, i, d, q, false);
}
