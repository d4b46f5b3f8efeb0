/* end.c - what must hold at the end: histories that can be replayed, nothing left over, nothing stuck; figures; printing. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* ---- replay ------------------------------------------------------------------------------------------------ */

/* What an orchestrator sees when it runs over a history again: what it has asked for and not been told of yet. */
struct replay {
    struct model *m;
    const struct inst *i;
    VEC(struct event *) open;
    size_t at;
};

static void illegal(struct replay *p, const char *what)
{
    found(p->m, CHECK_REPLAY, "event %zu of the history of '%.*s', a %s: %s", p->at,
          BYTES_FMT(p->i->id), event_name(p->i->history.at[p->at]->type), what);
}

static void resolve(struct replay *p, const struct event *e)
{
    for (size_t n = 0; n < p->open.n; n++) {
        if (p->open.at[n]->type == resolved_kind(e->type) && p->open.at[n]->id == e->ref) {
            VEC_REMOVE(&p->open, n);
            return;
        }
    }
    illegal(p, "it resolves nothing that is open");
}

static bool is_action(int type)
{
    return type == EV_TASK || type == EV_TIMER || type == EV_CHILD || type == EV_SENT;
}

void replay_check(struct model *m, const struct inst *i)
{
    struct replay p = {.m = m, .i = i};
    bool acting = false, has_started = false;
    usec_t now = 0;
    for (p.at = 0; p.at < i->history.n; p.at++) {
        struct event *e = i->history.at[p.at];
        bool last = p.at + 1 == i->history.n;
        if (e->time <= 0)
            illegal(&p, "it has no time");
        /* A turn may have given executionStarted back (numEventsProcessed): then it comes later, but before all that arrives. */
        bool arrives = e->type != EV_TURN && e->type != EV_COMPLETED && !is_action(e->type);
        if (arrives && (e->type == EV_STARTED) == has_started)
            illegal(&p, "executionStarted is the first that arrives, once");
        has_started = has_started || e->type == EV_STARTED;
        if ((e->type == EV_COMPLETED) != (last && is_terminal(i)))
            illegal(&p, "executionCompleted is the last event of an ended history, and only there");
        if (e->type == EV_TURN) {
            if (e->time < now)
                illegal(&p, "the orchestrator's time goes back");
            now = e->time;
            acting = false;
        } else if (is_action(e->type)) {
            acting = true;
            if (e->type != EV_SENT)
                VEC_PUSH(&p.open, e);
        } else if (e->type != EV_COMPLETED && acting) {
            illegal(&p, "it arrived between the actions of a turn");
        }
        if (is_resolution(e->type))
            resolve(&p, e);
        if (e->type == EV_FIRED && e->time > 0) {
            usec_t due = e->msg->timerfired->fireat->seconds * USEC_PER_SEC;
            if (now < due)
                illegal(&p, "the turn's time is before the timer's");
        }
    }
    VEC_FREE(&p.open);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

void model_quiet(struct model *m)
{
    m->is_quiet = true;
    m->quiet_at = m->mono;
}

static void look_for_stuck(struct model *m)
{
    for (size_t n = 0; n < m->state.insts.n; n++) {
        const struct inst *i = m->state.insts.at[n];
        const struct dispatch *d = dispatch_last(m, i->serial);
        if (is_dispatchable(i) && !turn_in_flight(m, i) && stream_for_turn(m, i))
            found(m, CHECK_STUCK,
                  "'%.*s' (%s) has events and a worker, and its turn does not go out",
                  BYTES_FMT(i->id), status_name(i->status));
        if (turn_in_flight(m, i) && m->mono - d->at > 600 * USEC_PER_SEC)
            found(m, CHECK_STUCK, "a turn of '%.*s' has been out for ten minutes",
                  BYTES_FMT(i->id));
        if (i->terminating)
            found(m, CHECK_STUCK, "the termination of '%.*s' has not come", BYTES_FMT(i->id));
    }
    for (size_t n = 0; n < m->state.tasks.n; n++) {
        const struct task *t = &m->state.tasks.at[n];
        if (!t->terminated && stream_for_task(m, t))
            found(m, CHECK_STUCK, "activity %d '%.*s' has a worker and is not done%s", t->id,
                  BYTES_FMT(t->name), t->orphan ? " (an orphan)" : "");
    }
    for (size_t n = 0; n < m->state.timers.n; n++)
        if (m->state.timers.at[n].due + USEC_PER_SEC < m->wall)
            found(m, CHECK_STUCK, "a timer of %lld has not fired",
                  (long long)m->state.timers.at[n].due);
    if (m->state.mails.n > 0)
        found(m, CHECK_STUCK, "%zu messages are still under way", m->state.mails.n);
}

void model_end(struct model *m)
{
    struct image img;
    struct diff d = {0};
    if (m->findings)
        return;
    if (!image_open(m, &img)) {
        found(m, CHECK_IMAGE, "the database cannot be read at the end");
        return;
    }
    image_compare(m, &img, &m->state, true, &d);
    if (!d.any)
        image_rest(m, &img, &d);
    if (d.any)
        found(m, d.checker, "at the end: %s", d.text);
    image_close(m, &img);
    for (size_t n = 0; n < m->state.insts.n; n++)
        replay_check(m, m->state.insts.at[n]);
    waiters_idle(m);
    look_for_stuck(m);
}

/* ---- figures -------------------------------------------------------------------------------------------------------- */

static int64_t figure_of(const struct model *m, const char *what, const char *hub, int status)
{
    int64_t n = 0;
    if (strcmp(what, "instances") == 0)
        for (size_t k = 0; k < m->state.insts.n; k++)
            n += m->state.insts.at[k]->hub == hub && m->state.insts.at[k]->status == status;
    else if (strcmp(what, "timers") == 0)
        n = (int64_t)m->state.timers.n;
    else if (strcmp(what, "streams") == 0)
        for (size_t k = 0; k < m->streams.n; k++)
            n += m->streams.at[k]->is_open;
    else if (strcmp(what, "waiters") == 0)
        n = (int64_t)waiters_count(m);
    else if (strcmp(what, "flight") == 0)
        for (size_t k = 0; k < m->streams.n; k++) {
            uint32_t turns, tasks;
            if (m->streams.at[k]->is_open) {
                stream_count(m, m->streams.at[k], &turns, &tasks);
                n += turns + tasks;
            }
        }
    else
        n = -1;
    return n;
}

void model_figure(struct model *m, const char *what, const char *hub, int status, int64_t value)
{
    int64_t want = figure_of(m, what, hub ? hub_name(m, hub) : NULL, status);
    if (want >= 0 && want != value)
        found(m, CHECK_COUNTS, "%s%s%s: the server says %lld, there are %lld", what,
              status >= 0 ? " " : "", status >= 0 ? status_name(status) : "", (long long)value,
              (long long)want);
}

int model_status(const struct model *m, const char *hub, struct bytes id)
{
    for (size_t n = 0; n < m->state.insts.n; n++) {
        const struct inst *i = m->state.insts.at[n];
        if (strcmp(i->hub, hub ? hub : "default") == 0 && bytes_eq(i->id, id))
            return i->status;
    }
    return -1;
}

/* ---- printing ------------------------------------------------------------------------------------------------------------ */

static void print_events(const char *what, struct event *const *at, size_t n)
{
    printf("    %s:", what);
    for (size_t k = 0; k < n; k++) {
        printf(" %s", event_name(at[k]->type));
        if (at[k]->id >= 0)
            printf("#%d", at[k]->id);
        if (is_resolution(at[k]->type))
            printf("(%d)", at[k]->ref);
    }
    printf("\n");
}

static void print_inst(const struct model *m, const struct inst *i)
{
    const struct dispatch *d = dispatch_last(m, i->serial);
    printf("  %s/%.*s %s %.*s execution %.*s, %llu turns%s%s\n", i->hub, BYTES_FMT(i->id),
           status_name(i->status), BYTES_FMT(i->name), BYTES_FMT(exec_text(m, i->exec)),
           (unsigned long long)i->turns, i->terminating ? ", terminating" : "",
           i->start_waits ? ", start waits" : "");
    print_events("history", i->history.at, i->history.n);
    print_events("inbox", i->inbox.at, i->inbox.n);
    if (d)
        printf("    last dispatch: stream %llu, %s\n", (unsigned long long)d->stream,
               d->state == OUT ? "out" : (d->state == RETURNED ? "given back" : "settled"));
    for (size_t n = 0; n < m->state.timers.n; n++)
        if (m->state.timers.at[n].inst == i->serial)
            printf("    timer %d kind %d due %lld\n", m->state.timers.at[n].id,
                   (int)m->state.timers.at[n].kind, (long long)m->state.timers.at[n].due);
    for (size_t n = 0; n < m->state.tasks.n; n++)
        if (m->state.tasks.at[n].inst == i->serial)
            printf("    activity %d %.*s%s%s\n", m->state.tasks.at[n].id,
                   BYTES_FMT(m->state.tasks.at[n].name),
                   m->state.tasks.at[n].orphan ? " orphan" : "",
                   m->state.tasks.at[n].terminated ? " terminated" : "");
}

void model_print(const struct model *m, const char *hub, struct bytes id)
{
    for (size_t n = 0; n < m->state.insts.n; n++) {
        const struct inst *i = m->state.insts.at[n];
        if (bytes_is_none(id) ||
            (strcmp(i->hub, hub ? hub : "default") == 0 && bytes_eq(i->id, id)))
            print_inst(m, i);
    }
}

/* ---- where two messages differ --------------------------------------------------------------------------------------------- */

static const char *state_text(struct arena *a, OrchestrationState *s)
{
    return arena_printf(
        a,
        "%.*s %s created %lld updated %lld completed %lld input %.*s output %.*s custom %.*s "
        "execution %.*s parent %.*s tags %zu failure %.*s/%.*s version %.*s",
        BYTES_FMT(view(s->instanceid)), status_name((int)s->orchestrationstatus),
        (long long)(s->createdtimestamp ? s->createdtimestamp->seconds * USEC_PER_SEC +
                                              s->createdtimestamp->nanos / 1000
                                        : 0),
        (long long)(s->lastupdatedtimestamp ? s->lastupdatedtimestamp->seconds * USEC_PER_SEC +
                                                  s->lastupdatedtimestamp->nanos / 1000
                                            : 0),
        (long long)(s->completedtimestamp ? s->completedtimestamp->seconds * USEC_PER_SEC +
                                                s->completedtimestamp->nanos / 1000
                                          : 0),
        BYTES_FMT(boxed(s->input)), BYTES_FMT(boxed(s->output)), BYTES_FMT(boxed(s->customstatus)),
        BYTES_FMT(boxed(s->executionid)), BYTES_FMT(boxed(s->parentinstanceid)), s->n_tags,
        BYTES_FMT(s->failuredetails ? view(s->failuredetails->errortype) : BYTES_NONE),
        BYTES_FMT(s->failuredetails ? view(s->failuredetails->errormessage) : BYTES_NONE),
        BYTES_FMT(boxed(s->version)));
}

const char *reply_text(struct arena *a, void *want, void *got)
{
    ProtobufCMessage *x = want, *y = got;
    if (!x || !y || x->descriptor != &get_instance_response__descriptor ||
        y->descriptor != &get_instance_response__descriptor)
        return "";
    GetInstanceResponse *w = want, *g = got;
    return arena_printf(a, ": {%s} instead of {%s}",
                        g->orchestrationstate ? state_text(a, g->orchestrationstate) : "none",
                        w->orchestrationstate ? state_text(a, w->orchestrationstate) : "none");
}

static const char *actions_text(struct arena *a, const OrchestratorResponse *q)
{
    const char *text = "";
    for (size_t n = 0; n < q->n_actions; n++) {
        const OrchestratorAction *act = q->actions[n];
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(
            &orchestrator_action__descriptor, (unsigned)act->orchestrator_action_type_case);
        text = arena_printf(a, "%s %s#%d", text, f ? f->name : "nothing", act->id);
        if (act->orchestrator_action_type_case ==
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION)
            text = arena_printf(a, "%s=%s", text,
                                status_name((int)act->completeorchestration->orchestrationstatus));
        if (act->orchestrator_action_type_case ==
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_SUB_ORCHESTRATION)
            text = arena_printf(a, "%s=%.*s", text,
                                BYTES_FMT(view(act->createsuborchestration->instanceid)));
    }
    return text;
}

const char *request_text(struct arena *a, void *request)
{
    ProtobufCMessage *msg = request;
    if (msg->descriptor == &orchestrator_response__descriptor) {
        OrchestratorResponse *q = request;
        return arena_printf(
            a, "'%.*s' token %.*s%s%s%s chunk %d processed %d:%s", BYTES_FMT(view(q->instanceid)),
            (int)q->completiontoken.len,
            q->completiontoken.len ? (const char *)q->completiontoken.data : "",
            q->ispartial ? " partial" : "", q->requireshistory ? " requiresHistory" : "",
            q->completiontoken.len ? "" : " token-less", q->chunkindex ? q->chunkindex->value : -1,
            q->numeventsprocessed ? q->numeventsprocessed->value : -1, actions_text(a, q));
    }
    if (msg->descriptor == &activity_response__descriptor) {
        ActivityResponse *q = request;
        return arena_printf(a, "'%.*s' task %d%s", BYTES_FMT(view(q->instanceid)), q->taskid,
                            q->completiontoken.len ? "" : " token-less");
    }
    if (msg->descriptor->n_fields == 0 || msg->descriptor->fields[0].id != 1 ||
        msg->descriptor == &purge_instances_request__descriptor)
        return "";
    return arena_printf(a, "'%.*s'", BYTES_FMT(view(((RaiseEventRequest *)request)->instanceid)));
}
