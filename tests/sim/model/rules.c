/* rules.c - what clients' calls do (spec 3), how messages arrive, how executions begin and end (spec 1.3, 6). */
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "internal.h"

unsigned choose(struct run *r, unsigned of)
{
    struct choices *c = r->choices;
    if (!c || c->used == CHOICES_MAX)
        return 0;
    c->of[c->used] = (uint8_t)of;
    if (c->taken[c->used] >= of) /* after other choices before it */
        c->taken[c->used] = 0;
    return c->taken[c->used++];
}

void touch_id(struct model *m, const char *hub, struct bytes id)
{
    if (bytes_is_none(id))
        return;
    for (size_t i = 0; i < m->touched_n; i++)
        if (m->touched[i].hub == hub && bytes_eq(m->touched[i].id, id))
            return;
    if (m->touched_n == m->touched_cap) {
        m->touched_cap = m->touched_cap ? m->touched_cap * 2 : 32;
        m->touched = realloc(m->touched, m->touched_cap * sizeof(*m->touched));
        ASSERT(m->touched);
    }
    m->touched[m->touched_n].hub = hub;
    m->touched[m->touched_n++].id = id;
}

/* The instance changes: "lastUpdated never goes back" (spec 1.3). */
void touch(struct run *r, struct inst *i)
{
    i->updated = MAX(i->updated, r->now);
    r->changed = true;
    touch_id(r->m, i->hub, i->id);
}

uint64_t exec_new(struct model *m)
{
    VEC_PUSH(&m->exec_text, BYTES_NONE);
    return m->exec_text.n - 1;
}

void arrive(struct run *r, struct inst *i, struct event *e)
{
    VEC_PUSH(&i->inbox, e);
    touch(r, i);
}

struct event *history_put(struct run *r, struct inst *i, HistoryEvent *msg)
{
    struct event *e = event_of(r->m->arena, msg);
    VEC_PUSH(&i->history, e);
    return e;
}

/* ---- executions begin ----------------------------------------------------------------------------------- */

struct inst *create(struct run *r, const char *hub, struct bytes id)
{
    struct inst *i = calloc(1, sizeof(*i));
    ASSERT(i);
    i->serial = ++r->m->next_serial;
    i->hub = hub;
    i->id = id;
    i->status = i->base = ST_PENDING;
    i->created = i->updated = r->now;
    i->exec = exec_new(r->m);
    i->version = i->input = i->output = i->custom = i->trace = BYTES_NONE;
    VEC_PUSH(&r->s->insts, i);
    HIT(r, 1_3_START);
    touch(r, i);
    return i;
}

void put_started(struct run *r, struct inst *i, bool in_front)
{
    struct arena *a = r->m->arena;
    HistoryEvent *msg = event_msg(a, EV_STARTED, -1, r->now);
    ExecutionStartedEvent *s = msg->executionstarted;
    s->name = data_of(i->name);
    s->version = box(a, i->version);
    s->input = box(a, i->input);
    s->parentinstance = i->parent;
    s->parenttracecontext = i->parent_trace;
    s->tags = i->tags;
    s->n_tags = i->n_tags;
    if (i->scheduled && i->exec_turns == 0 && i->turns == 0)
        s->scheduledstarttimestamp = stamp(a, i->scheduled);
    s->orchestrationinstance = arena_new(a, OrchestrationInstance);
    orchestration_instance__init(s->orchestrationinstance);
    s->orchestrationinstance->instanceid = data_of(bytes_is_none(i->id) ? BYTES_LIT("") : i->id);
    struct event *e = event_of(a, msg);
    e->exec = i->exec;
    e->unbound = true;
    arrive(r, i, e);
    if (in_front) {
        memmove(&i->inbox.at[1], &i->inbox.at[0], (i->inbox.n - 1) * sizeof(*i->inbox.at));
        i->inbox.at[0] = e;
    }
}

static void tell_parent(struct run *r, const struct inst *i, int status, struct bytes result,
                        TaskFailureDetails *failure, bool fuzzy);

/* An instance gives way to another under its id (spec 3.2, 6.4). */
void replace(struct run *r, struct inst *i)
{
    struct arena *a = r->m->arena;
    if (is_terminal(i)) {
        HIT(r, 1_3_REPLACE_TERMINAL);
    } else {
        HIT(r, 1_3_REPLACE_RUNNING);
        tell_parent(r, i, -1, BYTES_NONE, failure_make(a, "SubOrchestrationReplaced", true, ""),
                    true);
    }
    bool running = !is_terminal(i);
    for (size_t n = r->s->tasks.n; n-- > 0;)
        if (running && r->s->tasks.at[n].inst == i->serial &&
            r->s->tasks.at[n].exec == i->exec) /* "unresolved activities go" */
            VEC_REMOVE(&r->s->tasks, n);
    r->changed = true;
    remove_inst(r, i);
}

/* ---- messages between instances --------------------------------------------------------------------------- */

void raise_to(struct run *r, struct inst *i, struct bytes name, struct bytes input)
{
    if (is_terminal(i))
        return;
    HistoryEvent *msg = event_msg(r->m->arena, EV_RAISED, -1, r->now);
    msg->eventraised->name = data_of(name);
    msg->eventraised->input = box(r->m->arena, input);
    arrive(r, i, event_of(r->m->arena, msg));
}

static struct event *child_event(struct run *r, int32_t task, int status, struct bytes result,
                                 TaskFailureDetails *failure)
{
    struct arena *a = r->m->arena;
    HistoryEvent *msg;
    if (status == ST_COMPLETED) {
        msg = event_msg(a, EV_CHILD_OK, -1, r->now);
        msg->suborchestrationinstancecompleted->taskscheduledid = task;
        msg->suborchestrationinstancecompleted->result = box(a, result);
    } else {
        msg = event_msg(a, EV_CHILD_BAD, -1, r->now);
        msg->suborchestrationinstancefailed->taskscheduledid = task;
        msg->suborchestrationinstancefailed->failuredetails = failure;
    }
    return event_of(a, msg);
}

/* The child's end, to its parent's inbox (spec 6.4). Status -1: it was replaced. */
static void tell_parent(struct run *r, const struct inst *i, int status, struct bytes result,
                        TaskFailureDetails *failure, bool fuzzy)
{
    struct arena *a = r->m->arena;
    if (!i->parent)
        return;
    const OrchestrationInstance *of = i->parent->orchestrationinstance;
    struct inst *parent = state_find(r->s, i->hub, view(of->instanceid));
    if (!parent || is_terminal(parent) || parent == i ||
        !bytes_eq(exec_text(r->m, parent->exec), boxed(of->executionid))) {
        HIT(r, 6_4_NO_PARENT);
        return;
    }
    if (status == ST_TERMINATED || status == ST_CANCELED) {
        const char *text =
            result.len > 0
                ? arena_printf(a, "Sub-orchestration instance '%.*s' was terminated. %.*s",
                               BYTES_FMT(i->id), BYTES_FMT(result))
                : arena_printf(a, "Sub-orchestration instance '%.*s' was terminated.",
                               BYTES_FMT(i->id));
        failure = failure_make(a, "SubOrchestrationTerminated", true, text);
        HIT(r, 6_4_TERMINATED);
    } else if (status == ST_COMPLETED) {
        HIT(r, 6_4_COMPLETED);
    } else if (status == ST_FAILED) {
        HIT(r, 6_4_FAILED);
    } else {
        HIT(r, 6_4_REPLACED);
    }
    struct event *e = child_event(r, i->parent->taskscheduledid, status, result, failure);
    e->exec = parent->exec;
    e->fuzzy = fuzzy && status != ST_TERMINATED && status != ST_CANCELED && status != ST_COMPLETED;
    arrive(r, parent, e);
}

static void child_exists(struct run *r, struct inst *parent, int32_t task, struct bytes id)
{
    struct arena *a = r->m->arena;
    const char *text =
        arena_printf(a, "Orchestration instance '%.*s' already exists", BYTES_FMT(id));
    struct event *e = child_event(r, task, ST_FAILED, BYTES_NONE,
                                  failure_make(a, "OrchestrationAlreadyExists", false, text));
    e->exec = parent->exec;
    HIT(r, 6_4_TAKEN);
    arrive(r, parent, e);
}

void start_child(struct run *r, struct inst *parent, const OrchestratorAction *act, struct bytes id)
{
    struct arena *a = r->m->arena;
    const CreateSubOrchestrationAction *c = act->createsuborchestration;
    if (id.len > 0 && id.ptr[0] == '@') {
        child_exists(r, parent, act->id, id);
        return;
    }
    struct bytes parent_exec = exec_text(r->m, parent->exec);
    struct inst *old = state_find(r->s, parent->hub, id);
    if (old && !is_terminal(old)) {
        const ParentInstanceInfo *p = old->parent;
        if (p && p->taskscheduledid == act->id &&
            bytes_eq(view(p->orchestrationinstance->instanceid), parent->id) &&
            bytes_eq(boxed(p->orchestrationinstance->executionid), parent_exec)) {
            HIT(r, 6_4_REPEAT);
            return;
        }
        child_exists(r, parent, act->id, id);
        return;
    }
    if (old) {
        HIT(r, 6_4_TERMINAL);
        replace(r, old);
    }
    struct inst *i = create(r, parent->hub, id);
    HIT(r, 6_4_START);
    i->name = view(c->name);
    i->version = boxed(c->version);
    i->input = boxed(c->input);
    i->parent_trace = c->parenttracecontext;
    i->tags = (ExecutionStartedEvent__TagsEntry **)(void *)c->tags;
    i->n_tags = c->n_tags;
    i->parent = arena_new(a, ParentInstanceInfo);
    parent_instance_info__init(i->parent);
    i->parent->taskscheduledid = act->id;
    i->parent->name = box(a, parent->name);
    i->parent->version = box(a, parent->version);
    i->parent->orchestrationinstance = arena_new(a, OrchestrationInstance);
    orchestration_instance__init(i->parent->orchestrationinstance);
    i->parent->orchestrationinstance->instanceid = data_of(parent->id);
    i->parent->orchestrationinstance->executionid = box(a, parent_exec);
    put_started(r, i, false);
}

/* ---- termination (spec 6.6) ---------------------------------------------------------------------------------- */

static const struct event *pending_termination(const struct inst *i)
{
    for (size_t n = 0; n < i->inbox.n; n++)
        if (i->inbox.at[n]->type == EV_TERMINATED)
            return i->inbox.at[n];
    return NULL;
}

/* By the server alone. */
void force_terminate(struct run *r, struct inst *i)
{
    struct arena *a = r->m->arena;
    const struct event *t = pending_termination(i);
    ASSERT(t);
    usec_t now = MAX(r->now, i->last_started);
    history_put(r, i, event_msg(a, EV_TURN, -1, now));
    for (size_t n = 0; i->exec_turns == 0 && n < i->inbox.n; n++)
        if (i->inbox.at[n]->type == EV_STARTED)
            VEC_PUSH(&i->history, i->inbox.at[n]);
    VEC_PUSH(&i->history, (struct event *)(uintptr_t)t);
    struct bytes output = boxed(t->msg->executionterminated->input);
    finish(r, i, ST_TERMINATED, output, NULL, false, t->msg->executionterminated->recurse, output);
}

void terminate(struct run *r, struct inst *i, struct bytes output, bool recurse)
{
    struct arena *a = r->m->arena;
    if (is_terminal(i))
        return;
    if (i->terminating) {
        HIT(r, 5_2_TERMINATE);
        return;
    }
    HistoryEvent *msg = event_msg(a, EV_TERMINATED, -1, r->now);
    msg->executionterminated->input = box(a, output);
    msg->executionterminated->recurse = recurse;
    arrive(r, i, event_of(a, msg));
    i->terminating = true;
    /* Whether its first turn is in a worker's hands at this very moment is not always to be seen from outside. */
    bool alone = i->exec_turns == 0 && !turn_in_flight(r->m, i);
    if (i->exec_turns == 0 && choose(r, 2))
        alone = !alone;
    if (alone) {
        HIT(r, 6_6_1);
        HIT(r, 1_3_TERM_PENDING);
        force_terminate(r, i);
        return;
    }
    HIT(r, 1_3_TERM_QUEUED);
    struct timer t = {.inst = i->serial,
                      .exec = i->exec,
                      .kind = TIMER_GRACE,
                      .due = usec_add(r->now, (usec_t)r->m->settings->terminate_grace),
                      .serial = ++r->m->next_serial};
    VEC_PUSH(&r->s->timers, t);
}

/* Every child that this execution started: a message each, handled in a later batch (spec 6.6.5). */
static void cascade(struct run *r, const struct inst *i, struct bytes input)
{
    for (size_t n = 0; n < i->history.n; n++) {
        const struct event *e = i->history.at[n];
        if (e->type != EV_CHILD)
            continue;
        struct mail mail = {
            .hub = i->hub,
            .target = view(e->msg->suborchestrationinstancecreated->instanceid),
            .parent_execution = exec_text(r->m, i->exec),
            .input = input,
            .serial = ++r->m->next_serial,
            .is_new = true,
        };
        VEC_PUSH(&r->s->mails, mail);
        HIT(r, 6_6_5);
        r->changed = true;
    }
}

void run_mail(struct run *r, struct mail mail)
{
    struct inst *i = state_find(r->s, mail.hub, mail.target);
    r->changed = true;
    if (!i || !i->parent ||
        !bytes_eq(boxed(i->parent->orchestrationinstance->executionid), mail.parent_execution))
        return;
    if (is_terminal(i)) /* what runs below it must not go on */
        cascade(r, i, mail.input);
    else
        terminate(r, i, mail.input, true);
}

/* ---- the end of an execution (spec 4.4) ----------------------------------------------------------------------- */

static void drop_timers(struct run *r, const struct inst *i)
{
    for (size_t n = r->s->timers.n; n-- > 0;)
        if (r->s->timers.at[n].inst == i->serial)
            VEC_REMOVE(&r->s->timers, n);
}

void finish(struct run *r, struct inst *i, int status, struct bytes result,
            TaskFailureDetails *failure, bool fuzzy, bool recurse, struct bytes reason)
{
    struct arena *a = r->m->arena;
    HistoryEvent *msg = event_msg(a, EV_COMPLETED, -1, r->now);
    msg->executioncompleted->orchestrationstatus = (OrchestrationStatus)status;
    msg->executioncompleted->result = box(a, result);
    msg->executioncompleted->failuredetails = status == ST_FAILED ? failure : NULL;
    history_put(r, i, msg)->fuzzy = fuzzy && status == ST_FAILED;
    bool has_started = false;
    for (size_t n = 0; n < i->history.n; n++)
        has_started = has_started || i->history.at[n]->type == EV_STARTED;
    if (!has_started) /* given back by numEventsProcessed, and gone with the inbox */
        i->input = BYTES_NONE;
    i->output = result;
    i->failure = status == ST_FAILED ? failure : NULL;
    i->failure_fuzzy = fuzzy;
    drop_timers(r, i);
    for (size_t n = 0; n < r->s->tasks.n; n++) {
        struct task *t = &r->s->tasks.at[n];
        if (t->inst != i->serial)
            continue;
        t->orphan = true;
        t->terminated = t->terminated || (status == ST_TERMINATED && t->exec == i->exec);
    }
    tell_parent(r, i, status, result, failure, fuzzy);
    i->inbox.n = 0;
    i->chunks.n = 0;
    i->status = i->base = status;
    i->start_waits = i->terminating = false;
    i->turns++;
    i->exec_turns++;
    i->completed = MAX(r->now, i->created);
    if (status == ST_TERMINATED && recurse)
        cascade(r, i, reason);
    touch(r, i);
}

/* ---- timers --------------------------------------------------------------------------------------------------------- */

void fire(struct run *r, struct timer t)
{
    struct inst *i = state_by_serial(r->s, t.inst);
    r->changed = true;
    if (!i || is_terminal(i) || i->exec != t.exec)
        return;
    if (t.due > r->m->wall_max)
        differ(&r->diff, CHECK_TIMER_EARLY,
               "timer %d (kind %d) of '%.*s' is due at %lld, the highest clock shown is %lld", t.id,
               (int)t.kind, BYTES_FMT(i->id), (long long)t.due, (long long)r->m->wall_max);
    touch_id(r->m, i->hub, i->id);
    if (t.kind == TIMER_START) {
        i->start_waits = false;
        touch(r, i);
    } else if (t.kind == TIMER_GRACE) {
        if (i->terminating) {
            HIT(r, 6_6_4);
            force_terminate(r, i);
        }
    } else {
        HistoryEvent *msg = event_msg(r->m->arena, EV_FIRED, -1, r->now);
        msg->timerfired->timerid = t.id;
        msg->timerfired->fireat = t.when;
        struct event *e = event_of(r->m->arena, msg);
        e->exec = i->exec;
        HIT(r, 6_2_FIRED);
        if (i->status == ST_SUSPENDED)
            HIT(r, 6_2_SUSPENDED);
        arrive(r, i, e);
    }
}

/* ---- what the server does by itself in a batch, as the database shows it ------------------------------------------------ */

/* First turns that were lost with their worker (spec 6.6.1), timers that fired, messages that were handled. */
void run_internal(struct run *r, const struct image *img)
{
    for (size_t n = 0; n < r->s->insts.n; n++) {
        struct inst *i = r->s->insts.at[n];
        struct bytes exec;
        if (!i->terminating || i->exec_turns > 0 ||
            image_status(r->m, img, i->hub, i->id, &exec) != ST_TERMINATED ||
            !bytes_eq(exec, exec_text(r->m, i->exec)))
            continue;
        bool grace = false;
        for (size_t k = 0; k < r->s->timers.n; k++)
            grace = grace || (r->s->timers.at[k].inst == i->serial &&
                              r->s->timers.at[k].kind == TIMER_GRACE &&
                              r->s->timers.at[k].due <= r->m->wall_max);
        if (grace)
            continue; /* below */
        if (turn_in_flight(r->m, i))
            continue; /* it may not: the comparison says so */
        HIT(r, 6_6_1_LOST);
        force_terminate(r, i);
    }
    for (;;) { /* in order of due time */
        size_t first = SIZE_MAX;
        for (size_t n = 0; n < r->s->timers.n; n++)
            if (!image_has_timer(r->m, img, r->s, &r->s->timers.at[n]) &&
                (first == SIZE_MAX || r->s->timers.at[n].due < r->s->timers.at[first].due))
                first = n;
        if (first == SIZE_MAX)
            break;
        struct timer t = r->s->timers.at[first];
        VEC_REMOVE(&r->s->timers, first);
        fire(r, t);
    }
    size_t old = 0;
    for (size_t n = 0; n < r->s->mails.n; n++)
        old += !r->s->mails.at[n].is_new;
    /* Those that are still there stand in front, in order; a message made in this batch is handled in a later one. */
    for (; old > 0 && (img->mails.n == 0 || img->mails.at[0].seq != r->s->mails.at[0].seq); old--) {
        struct mail mail = r->s->mails.at[0];
        VEC_REMOVE(&r->s->mails, 0);
        run_mail(r, mail);
    }
    for (size_t n = 0; n < r->s->mails.n; n++)
        r->s->mails.at[n].is_new = false;
}

/* ---- clients' calls ------------------------------------------------------------------------------------------------------ */

static struct verdict refuse(int status, const char *message)
{
    return (struct verdict){.status = status, .message = message};
}

static struct verdict fine(const struct run *r)
{
    return (struct verdict){.changes = r->changed};
}

static struct verdict not_found(struct run *r, struct bytes id)
{
    return refuse(G_NOT_FOUND, arena_printf(r->m->arena, "Orchestration instance '%.*s' not found",
                                            BYTES_FMT(id)));
}

/* Spec 1.4; NULL: fine. */
static bool bad_id(const struct run *r, struct bytes id, size_t max, struct verdict *v)
{
    if (id.len == 0) {
        *v = refuse(G_INVALID, "instanceId must not be empty");
        return true;
    }
    if (!utf8_is_valid(id) || utf8_has_control(id)) {
        *v = refuse(G_INVALID, NULL);
        return true;
    }
    size_t n = utf8_length(id);
    if (n <= max)
        return false;
    *v = refuse(G_INVALID,
                arena_printf(r->m->arena,
                             "Instance id length %zu exceeds the maximum length of %zu", n, max));
    return true;
}

/* GO's older field 2 of the policy, which is unknown now: -1 when it is not there. */
static int old_action(const OrchestrationIdReusePolicy *p)
{
    for (size_t i = 0; p && i < p->base.n_unknown_fields; i++)
        if (p->base.unknown_fields[i].tag == 2 && p->base.unknown_fields[i].len > 0)
            return p->base.unknown_fields[i].data[0];
    return -1;
}

static bool listed(const OrchestrationIdReusePolicy *p, int status)
{
    for (size_t i = 0; p && i < p->n_replaceablestatus; i++)
        if ((int)p->replaceablestatus[i] == status)
            return true;
    return false;
}

/* True: the verdict is made. */
static bool reuse(struct run *r, struct inst *old, const OrchestrationIdReusePolicy *p, int action,
                  struct verdict *v)
{
    bool is_listed = listed(p, old->status);
    if (action == 1 && is_listed) {
        *v = fine(r);
        return true;
    }
    if (action == 2 && is_listed)
        return false;
    if (!p && is_terminal(old))
        return false;
    if (p && is_listed)
        return false;
    HIT(r, 3_2_EXISTS);
    *v =
        refuse(G_EXISTS, arena_printf(r->m->arena, "Orchestration instance '%.*s' already exists%s",
                                      BYTES_FMT(old->id), p ? " with non-replaceable status" : ""));
    return true;
}

static struct verdict run_start(struct run *r, struct call *c)
{
    CreateInstanceRequest *q = c->request;
    struct verdict v;
    struct arena *a = r->m->arena;
    struct bytes id = view(q->instanceid);
    const OrchestrationIdReusePolicy *p = q->orchestrationidreusepolicy;
    int action = old_action(p);
    usec_t at = 0;
    if (id.len > 0 && bad_id(r, id, r->m->settings->id_client_chars, &v))
        return v;
    if (id.len > 0 && id.ptr[0] == '@')
        return refuse(G_INVALID, NULL);
    if (q->name.len == 0)
        return refuse(G_INVALID, "name must not be empty");
    if (q->scheduledstarttimestamp && !stamp_read(q->scheduledstarttimestamp, &at))
        return refuse(G_INVALID, NULL);
    if (action < 0 && (listed(p, ST_PENDING) || listed(p, ST_RUNNING) || listed(p, ST_SUSPENDED)) &&
        !listed(p, ST_TERMINATED))
        return refuse(G_INVALID, "Invalid reusable statuses: cannot exclude 'Terminated' while "
                                 "also allowing reuse of running instances");
    CreateInstanceResponse *reply = arena_new(a, CreateInstanceResponse);
    create_instance_response__init(reply);
    reply->instanceid = data_of(id);
    struct inst *old = id.len > 0 ? state_find(r->s, c->hub, id) : NULL;
    if (old && reuse(r, old, p, action, &v)) {
        if (v.status == G_OK)
            v.reply = reply;
        return v;
    }
    if (old)
        replace(r, old);
    struct inst *i = create(r, c->hub, id.len ? id : BYTES_NONE);
    i->name = view(q->name);
    i->version = boxed(q->version);
    i->input = boxed(q->input);
    i->parent_trace = q->parenttracecontext;
    i->tags = (ExecutionStartedEvent__TagsEntry **)(void *)q->tags;
    i->n_tags = q->n_tags;
    if (q->executionid && is_hex32(boxed(q->executionid)))
        r->m->exec_text.at[i->exec] = boxed(q->executionid);
    if (at > r->now) {
        HIT(r, 3_2_SCHEDULED);
        i->scheduled = at;
        i->start_waits = true;
        struct timer t = {.inst = i->serial,
                          .exec = i->exec,
                          .kind = TIMER_START,
                          .due = at,
                          .serial = ++r->m->next_serial};
        VEC_PUSH(&r->s->timers, t);
    }
    put_started(r, i, false);
    return (struct verdict){.changes = true, .reply = reply, .minted = id.len ? 0 : i->serial};
}

void *state_reply(struct run *r, const struct inst *i, bool payloads)
{
    struct arena *a = r->m->arena;
    GetInstanceResponse *g = arena_new(a, GetInstanceResponse);
    get_instance_response__init(g);
    if (!i)
        return g;
    OrchestrationState *s = g->orchestrationstate = arena_new(a, OrchestrationState);
    orchestration_state__init(s);
    g->exists = true;
    s->instanceid = data_of(i->id);
    s->name = data_of(i->name);
    s->version = i->version.len ? box(a, i->version) : NULL;
    s->orchestrationstatus = (OrchestrationStatus)i->status;
    s->createdtimestamp = stamp(a, i->created);
    s->lastupdatedtimestamp = stamp(a, i->updated);
    s->scheduledstarttimestamp = i->scheduled ? stamp(a, i->scheduled) : NULL;
    s->completedtimestamp = is_terminal(i) ? stamp(a, i->completed) : NULL;
    s->customstatus = i->custom.len ? box(a, i->custom) : NULL;
    s->parentinstanceid =
        i->parent ? box(a, view(i->parent->orchestrationinstance->instanceid)) : NULL;
    s->tags = (OrchestrationState__TagsEntry **)(void *)i->tags;
    s->n_tags = i->n_tags;
    if (payloads) {
        s->input = box(a, i->input);
        s->output = is_terminal(i) ? box(a, i->output) : NULL;
        s->failuredetails = i->status == ST_FAILED ? i->failure : NULL;
    }
    return g;
}

bool wait_met(const struct inst *i, enum method method)
{
    if (!i)
        return false;
    return is_terminal(i) || (method == M_WAIT_START && i->base != ST_PENDING);
}

static struct verdict run_get(struct run *r, struct call *c)
{
    GetInstanceRequest *q = c->request;
    struct verdict v = {0};
    struct bytes id = view(q->instanceid);
    if (bad_id(r, id, r->m->settings->id_action_chars, &v))
        return v;
    const struct inst *i = state_find(r->s, c->hub, id);
    if (c->method != M_GET && !wait_met(i, c->method)) {
        HIT(r, 3_4_BLOCKED);
        return (struct verdict){.waits = true};
    }
    return (struct verdict){.reply = state_reply(r, i, q->getinputsandoutputs),
                            .exec = i ? i->exec : 0,
                            .is_fuzzy = i && i->failure_fuzzy};
}

static struct verdict run_raise(struct run *r, struct call *c)
{
    RaiseEventRequest *q = c->request;
    struct verdict v;
    struct bytes id = view(q->instanceid);
    if (bad_id(r, id, r->m->settings->id_action_chars, &v))
        return v;
    if (q->name.len == 0)
        return refuse(G_INVALID, NULL);
    struct inst *i = state_find(r->s, c->hub, id);
    if (!i)
        return not_found(r, id);
    raise_to(r, i, view(q->name), boxed(q->input));
    return fine(r);
}

static struct verdict run_terminate(struct run *r, struct call *c)
{
    TerminateRequest *q = c->request;
    struct verdict v;
    struct bytes id = view(q->instanceid);
    if (bad_id(r, id, r->m->settings->id_action_chars, &v))
        return v;
    struct inst *i = state_find(r->s, c->hub, id);
    if (i)
        terminate(r, i, boxed(q->output), q->recursive);
    return fine(r);
}

static struct verdict run_suspend(struct run *r, struct call *c)
{
    SuspendRequest *q = c->request; /* ResumeRequest has the same fields */
    struct verdict v;
    struct bytes id = view(q->instanceid);
    bool resume = c->method == M_RESUME;
    if (bad_id(r, id, r->m->settings->id_action_chars, &v))
        return v;
    struct inst *i = state_find(r->s, c->hub, id);
    if (!i)
        return not_found(r, id);
    if (is_terminal(i) || (i->status == ST_SUSPENDED) != resume)
        return fine(r);
    HistoryEvent *msg = event_msg(r->m->arena, resume ? EV_RESUMED : EV_SUSPENDED, -1, r->now);
    if (resume) {
        HIT(r, 1_3_RESUME);
        msg->executionresumed->input = box(r->m->arena, boxed(q->reason));
        i->status = i->base;
    } else {
        HIT(r, 1_3_SUSPEND);
        msg->executionsuspended->input = box(r->m->arena, boxed(q->reason));
        i->base = i->status;
        i->status = ST_SUSPENDED;
    }
    arrive(r, i, event_of(r->m->arena, msg));
    return fine(r);
}

static struct verdict run_purge(struct run *r, struct call *c)
{
    PurgeInstancesRequest *q = c->request;
    struct arena *a = r->m->arena;
    if (q->request_case == PURGE_INSTANCES_REQUEST__REQUEST__NOT_SET)
        return refuse(G_INVALID, NULL);
    if (q->request_case != PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID)
        return (struct verdict){.status = -1}; /* no client of the simulator sends it */
    struct verdict v;
    struct bytes id = view(q->instanceid);
    if (bad_id(r, id, r->m->settings->id_action_chars, &v))
        return v;
    PurgeInstancesResponse *reply = arena_new(a, PurgeInstancesResponse);
    purge_instances_response__init(reply);
    reply->iscomplete = arena_new(a, Google__Protobuf__BoolValue);
    google__protobuf__bool_value__init(reply->iscomplete);
    reply->iscomplete->value = true;
    struct inst *i = state_find(r->s, c->hub, id);
    if (i && is_terminal(i)) {
        HIT(r, 1_3_PURGE);
        reply->deletedinstancecount = 1;
        r->changed = true;
        remove_inst(r, i);
    }
    v = fine(r);
    v.reply = reply;
    return v;
}

static struct verdict run_abandon(struct run *r, struct call *c)
{
    AbandonOrchestrationTaskRequest *q = c->request; /* all three have the same field */
    const struct dispatch *d = dispatch_of_token(r->m, view(q->completiontoken));
    struct verdict v = {0};
    if (d) {
        v.gives_back = d->number;
        v.is_abandon = true;
    }
    return v;
}

struct verdict run_call(struct run *r, struct call *c)
{
    struct verdict v;
    bool before = r->changed;
    r->changed = false;
    if (!c->hub ||
        (!c->request && c->method != M_TURN && c->method != M_TASK && c->method != M_HISTORY)) {
        r->changed = before;
        return refuse(G_INVALID, NULL);
    }
    switch (c->method) {
    case M_START:
        v = run_start(r, c);
        break;
    case M_GET:
    case M_WAIT_START:
    case M_WAIT_END:
        v = run_get(r, c);
        break;
    case M_RAISE:
        v = run_raise(r, c);
        break;
    case M_TERMINATE:
        v = run_terminate(r, c);
        break;
    case M_SUSPEND:
    case M_RESUME:
        v = run_suspend(r, c);
        break;
    case M_PURGE:
        v = run_purge(r, c);
        break;
    case M_TURN:
        v = run_turn(r, c);
        break;
    case M_TASK:
        v = run_task(r, c);
        break;
    case M_ABANDON_TURN:
    case M_ABANDON_TASK:
        v = run_abandon(r, c);
        break;
    default:
        v = (struct verdict){.status = -1};
        break;
    }
    v.changes = r->changed;
    r->changed = r->changed || before;
    return v;
}
