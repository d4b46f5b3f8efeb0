/* task.c - workers' answers to activities (spec 6.1, 8.2). */
#include "internal.h"

static struct task *task_by_serial(const struct state *s, uint64_t serial)
{
    for (size_t n = 0; n < s->tasks.n; n++)
        if (s->tasks.at[n].serial == serial)
            return &s->tasks.at[n];
    return NULL;
}

static struct task *task_by_ids(const struct run *r, const struct call *c, struct bytes id,
                                int32_t task)
{
    const struct inst *i = state_find(r->s, c->hub, id);
    for (size_t n = r->s->tasks.n; i && !is_terminal(i) && n-- > 0;) {
        struct task *t = &r->s->tasks.at[n];
        if (t->inst == i->serial && t->exec == i->exec && t->id == task)
            return t;
    }
    return NULL;
}

#define ORPHANS_MAX 16

/* Nobody waits for their results, but the worker has done one of them: its row goes, so that it is not handed out again. Those of
 * the connection, else of all. */
static size_t find_orphans(const struct run *r, const struct call *c, const ActivityResponse *q,
                           uint64_t orphans[ORPHANS_MAX])
{
    size_t count = 0;
    for (int anywhere = 0; anywhere < 2 && count == 0; anywhere++) {
        for (size_t n = 0; n < r->s->tasks.n && count < ORPHANS_MAX; n++) {
            const struct task *t = &r->s->tasks.at[n];
            const struct dispatch *d = holder(r->m, t->serial);
            if (t->orphan && t->id == q->taskid && t->hub == c->hub && d && d->token_less &&
                bytes_eq(t->id_of, view(q->instanceid)) &&
                (anywhere || d->connection == c->connection))
                orphans[count++] = t->serial;
        }
    }
    return count;
}

/* A worker without tokens still works on a task of that name which went with its instance: nothing is left to be settled. */
static bool has_what_is_gone(const struct run *r, const struct call *c, const ActivityResponse *q)
{
    const struct model *m = r->m;
    for (size_t n = m->settled_to; n < m->dispatches.n; n++) {
        const struct dispatch *d = m->dispatches.at[n];
        if (!d->is_turn && d->token_less && d->process == m->process && d->state == OUT &&
            d->connection == c->connection && d->task_id == q->taskid &&
            bytes_eq(d->id_of, view(q->instanceid)) && !task_by_serial(r->s, d->task))
            return true;
    }
    return false;
}

/* An older task is meant when no worker without tokens can have the one that is open. Who has what is not always to be seen from
 * outside, and of the tasks of several executions nothing says which it is: then the database decides. */
static bool ends_older(struct run *r, const struct call *c, const ActivityResponse *q,
                       const struct task *t)
{
    uint64_t orphans[ORPHANS_MAX];
    unsigned count = (unsigned)find_orphans(r, c, q, orphans);
    unsigned older = count + (t && has_what_is_gone(r, c, q));
    if (older == 0)
        return false;
    const struct dispatch *d = t ? holder(r->m, t->serial) : NULL;
    unsigned first = d && d->token_less ? older : 0; /* which is the likeliest; `older`: none */
    unsigned taken = (first + choose(r, older + 1)) % (older + 1);
    if (taken >= count)
        return taken < older;
    r->changed = true;
    VEC_REMOVE(&r->s->tasks, (size_t)(task_by_serial(r->s, orphans[taken]) - r->s->tasks.at));
    return true;
}

struct verdict run_task(struct run *r, struct call *c)
{
    const ActivityResponse *q = c->request;
    struct arena *a = r->m->arena;
    if (!q)
        return (struct verdict){.status = -1};
    struct bytes token = view(q->completiontoken);
    const struct dispatch *d = token.len ? dispatch_of_token(r->m, token) : NULL;
    struct task *t = NULL;
    if (d && !d->is_turn)
        t = task_by_serial(r->s, d->task);
    else if (token.len == 0)
        t = task_by_ids(r, c, view(q->instanceid), q->taskid);
    if (t && t->hub != c->hub)
        t = NULL;
    if (token.len == 0 && ends_older(r, c, q, t)) {
        HIT(r, 6_1_LATE);
        return settles_nothing(r, c, d);
    }
    struct inst *i = t ? state_by_serial(r->s, t->inst) : NULL;
    if (!t && d && !d->is_turn) /* resolved already */
        i = state_by_serial(r->s, d->inst);
    bool is_over = !i || is_terminal(i) || i->exec != (t ? t->exec : d->exec);
    if (d && !is_over && i->hub == c->hub &&
        ((q->instanceid.len > 0 && !bytes_eq(view(q->instanceid), i->id)) ||
         q->taskid != d->task_id))
        return give_back(d);
    if (!t || is_over) {
        HIT(r, 6_1_LATE);
        if (t) {
            VEC_REMOVE(&r->s->tasks, (size_t)(t - r->s->tasks.at));
            r->changed = true;
        }
        return settles_nothing(r, c, d);
    }
    if (d && d->process != r->m->process)
        HIT(r, 6_1_OLD_TOKEN);
    struct verdict large = {0};
    bool is_large = is_too_large(r->m, c);
    if (is_large && !gives_up(r, t->serial << 1, &large))
        return large;
    struct task done = *t;
    VEC_REMOVE(&r->s->tasks, (size_t)(t - r->s->tasks.at));
    r->changed = true;
    HistoryEvent *msg;
    if (is_large || is_bad(r, q)) {
        HIT(r, 5_3_BAD);
        msg = event_msg(a, EV_TASK_BAD, -1, r->now);
        msg->taskfailed->taskscheduledid = done.id;
        msg->taskfailed->failuredetails =
            failure_make(a, is_large ? "WorkItemTooLarge" : "InvalidCompletion", true, "");
        struct event *bad = event_of(a, msg);
        bad->exec = i->exec;
        bad->fuzzy = true;
        arrive(r, i, bad);
        struct verdict v = {.changes = true, .answers = d ? d->number : 0};
        if (d) {
            v.status = is_large ? G_EXHAUSTED : G_INVALID;
            v.commits_error = true;
        }
        return v;
    }
    if (q->failuredetails) {
        failure_cut(q->failuredetails, (unsigned)r->m->settings->failure_levels);
        msg = event_msg(a, EV_TASK_BAD, -1, r->now);
        msg->taskfailed->taskscheduledid = done.id;
        msg->taskfailed->failuredetails = q->failuredetails;
    } else {
        msg = event_msg(a, EV_TASK_OK, -1, r->now);
        msg->taskcompleted->taskscheduledid = done.id;
        msg->taskcompleted->result = q->result;
    }
    struct event *e = event_of(a, msg);
    e->exec = i->exec;
    arrive(r, i, e);
    return (struct verdict){.changes = true, .answers = d ? d->number : 0};
}
