/* model.c - reports come in here: calls, commits, crashes; what is decided by the database; what answers must be. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define TRIALS_MAX 512

#define CHECKER_TEXT(name, text) [CHECK_##name] = text,
const char *const MODEL_CHECKERS[CHECK_COUNT + 1] = {CHECKERS(CHECKER_TEXT)};

#define REACH_TEXT(name, text) [REACH_##name] = text,
static const char *const REACH_NAMES[REACH_COUNT] = {REACH(REACH_TEXT)};

void reached(struct model *m, enum reach what)
{
    m->reached.at[what]++;
}

void model_reached(const struct model *m, model_reach_fn *fn, void *arg)
{
    for (size_t i = 0; i < REACH_COUNT; i++)
        fn(arg, REACH_NAMES[i], m->reached.at[i]);
}

void trace(const struct model *m, const char *fmt, ...)
{
    va_list ap;
    if (!m->traces)
        return;
    fprintf(stderr, "%lld ", (long long)m->wall);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void found(struct model *m, enum checker c, const char *fmt, ...)
{
    char text[1400];
    va_list ap;
    if (m->findings++ > 0) /* what follows from the first one */
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->opts.found(m->opts.arg, MODEL_CHECKERS[c], text);
}

void differ(struct diff *d, enum checker c, const char *fmt, ...)
{
    va_list ap;
    d->count++;
    if (d->any)
        return;
    d->any = true;
    d->checker = c;
    va_start(ap, fmt);
    vsnprintf(d->text, sizeof(d->text), fmt, ap);
    va_end(ap);
}

struct bytes exec_text(const struct model *m, uint64_t exec)
{
    return m->exec_text.at[exec];
}

uint64_t model_findings(const struct model *m)
{
    return m->findings;
}

/* Lower case, one pointer for each name; NULL: not a name of a hub. */
const char *hub_name(struct model *m, const char *hub)
{
    char low[65];
    size_t n = 0;
    for (const char *p = hub ? hub : "default"; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (n == 64 || !(letter || (*p >= '0' && *p <= '9') || *p == '-' || *p == '_'))
            return NULL;
        low[n++] = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
    low[n] = 0;
    for (size_t i = 0; i < m->hubs.n; i++)
        if (strcmp(m->hubs.at[i], low) == 0)
            return m->hubs.at[i];
    if (n == 0)
        return NULL;
    VEC_PUSH(&m->hubs, arena_cstr(m->arena, bytes_str(low)));
    return m->hubs.at[m->hubs.n - 1];
}

/* ---- life ------------------------------------------------------------------------------------------------ */

struct model *model_new(const struct model_options *opts)
{
    struct model *m = calloc(1, sizeof(*m));
    ASSERT(m);
    m->opts = *opts;
    m->settings = opts->settings;
    m->arena = arena_create();
    m->process = 1;
    m->traces = getenv("MODEL_TRACE") != NULL;
    if (!m->opts.full_every)
        m->opts.full_every = 16;
    for (size_t i = 0; i < REACH_COUNT; i++)
        VEC_PUSH(&m->reached, 0);
    (void)exec_new(m); /* 0 is none */
    return m;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    image_forget(m);
    state_free(&m->state);
    for (size_t i = 0; i < m->dispatches.n; i++) {
        VEC_FREE(&m->dispatches.at[i]->events);
        free(m->dispatches.at[i]);
    }
    for (size_t i = 0; i < m->call_list.n; i++)
        free(m->call_list.at[i]);
    for (size_t i = 0; i < m->streams.n; i++)
        free(m->streams.at[i]);
    VEC_FREE(&m->dispatches);
    VEC_FREE(&m->call_list);
    VEC_FREE(&m->streams);
    VEC_FREE(&m->abandons);
    VEC_FREE(&m->breaks);
    VEC_FREE(&m->hubs);
    VEC_FREE(&m->exec_text);
    VEC_FREE(&m->reached);
    VEC_FREE(&m->unknown.calls);
    VEC_FREE(&m->stepping.calls);
    VEC_FREE(&m->last_of);
    hashmap_deinit(&m->calls);
    hashmap_deinit(&m->tokens);
    free(m->touched);
    free(m->since);
    arena_free(m->arena);
    free(m);
}

void model_clock(struct model *m, usec_t wall, usec_t mono)
{
    m->wall = wall;
    m->mono = mono;
    m->wall_max = MAX(m->wall_max, wall);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

static const struct method_info {
    const char *name;
    const ProtobufCMessageDescriptor *request, *reply;
} METHODS[M_OTHER] = {
    [M_START] = {"StartInstance", &create_instance_request__descriptor,
                 &create_instance_response__descriptor},
    [M_GET] = {"GetInstance", &get_instance_request__descriptor,
               &get_instance_response__descriptor},
    [M_WAIT_START] = {"WaitForInstanceStart", &get_instance_request__descriptor,
                      &get_instance_response__descriptor},
    [M_WAIT_END] = {"WaitForInstanceCompletion", &get_instance_request__descriptor,
                    &get_instance_response__descriptor},
    [M_RAISE] = {"RaiseEvent", &raise_event_request__descriptor, &raise_event_response__descriptor},
    [M_TERMINATE] = {"TerminateInstance", &terminate_request__descriptor,
                     &terminate_response__descriptor},
    [M_SUSPEND] = {"SuspendInstance", &suspend_request__descriptor, &suspend_response__descriptor},
    [M_RESUME] = {"ResumeInstance", &suspend_request__descriptor, &resume_response__descriptor},
    [M_PURGE] = {"PurgeInstances", &purge_instances_request__descriptor,
                 &purge_instances_response__descriptor},
    [M_TURN] = {"CompleteOrchestratorTask", &orchestrator_response__descriptor,
                &complete_task_response__descriptor},
    [M_TASK] = {"CompleteActivityTask", &activity_response__descriptor,
                &complete_task_response__descriptor},
    [M_ABANDON_TURN] = {"AbandonTaskOrchestratorWorkItem",
                        &abandon_orchestration_task_request__descriptor, NULL},
    [M_ABANDON_TASK] = {"AbandonTaskActivityWorkItem",
                        &abandon_orchestration_task_request__descriptor, NULL},
    [M_HISTORY] = {"StreamInstanceHistory", NULL, NULL},
};

static bool same_call(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct call, node)->id == *(const uint64_t *)key;
}

static struct call *call_by_id(const struct model *m, uint64_t id)
{
    struct hash_node *n = hashmap_find(&m->calls, hash_u64(id), same_call, &id);
    return n ? CONTAINER_OF(n, struct call, node) : NULL;
}

void model_call(struct model *m, const struct model_call *in)
{
    ASSERT(!call_by_id(m, in->id));
    struct call *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->id = in->id;
    c->actor = in->actor;
    c->connection = in->connection;
    c->hub = hub_name(m, in->hub);
    c->token_less = in->token_less;
    c->process = m->process;
    c->method = M_OTHER;
    for (int i = 0; i < M_OTHER; i++)
        if (strcmp(METHODS[i].name, in->method) == 0)
            c->method = (enum method)i;
    if (c->method != M_OTHER && METHODS[c->method].request) {
        c->raw = arena_dup(m->arena, in->request);
        c->request = unpack(m->arena, METHODS[c->method].request, c->raw);
    }
    hashmap_insert(&m->calls, &c->node, hash_u64(c->id));
    trace(m, "call %llu %s connection %llu %s", (unsigned long long)c->id, in->method,
          (unsigned long long)c->connection, c->request ? request_text(m->arena, c->request) : "");
    VEC_PUSH(&m->call_list, c);
}

void model_call_lost(struct model *m, uint64_t id)
{
    struct call *c = call_by_id(m, id);
    if (c)
        c->is_lost = true;
}

/* What was done to the items that a call is about. */
static void settle_call(struct model *m, const struct call *c, const struct verdict *v)
{
    struct dispatch *d = v->gives_back ? dispatch_by_number(m, v->gives_back) : NULL;
    if (d) {
        if (d->state == OUT)
            reached(m, v->status ? REACH_8_5_INVALID : REACH_8_5_ABANDON);
        bool is_abandon = v->is_abandon || v->status != 0;
        dispatch_return(m, d, is_abandon);
        if (!is_abandon)
            dispatch_again(m, d);
    }
    d = v->answers ? dispatch_by_number(m, v->answers) : NULL;
    if (d && v->extends) {
        d->lease = m->mono;
    } else if (d && !d->answered) {
        d->answered = true;
        d->answered_at = m->mono;
    }
    if (c->token_less && c->request && (c->method == M_TURN))
        tokenless_answered(m, c);
}

/* ---- one batch ---------------------------------------------------------------------------------------------------- */

static struct diff run_batch(struct model *m, struct state *s, const struct unknown_batch *b,
                             struct choices *choices, const struct image *img)
{
    struct run r = {.m = m, .s = s, .now = b->now, .choices = choices};
    for (size_t i = 0; i < b->calls.n; i++) {
        struct call *c = call_by_id(m, b->calls.at[i]);
        if (c)
            c->verdict = run_call(&r, c);
    }
    run_internal(&r, img);
    return r.diff;
}

/* The next combination of choices; false: there is none. */
static bool next_choices(struct choices *c)
{
    while (c->used > 0) {
        size_t last = c->used - 1;
        if (++c->taken[last] < c->of[last]) {
            memset(&c->taken[last + 1], 0, sizeof(c->taken) - last - 1);
            return true;
        }
        c->taken[last] = 0;
        c->used = last;
    }
    return false;
}

/* The runs of one batch on m->state, until the database agrees. */
struct trials {
    struct model *m;
    const struct unknown_batch *b;
    const struct image *img;
    bool whole;
    const struct state *before;
    struct diff *first; /* what differed at the first of them */
    size_t execs;
    unsigned run;
};

/* How many differences these choices leave. */
static unsigned try_choices(struct trials *t, struct choices *c)
{
    struct model *m = t->m;
    if (t->run++ > 0) {
        state_free(&m->state);
        state_copy(&m->state, t->before);
        m->exec_text.n = t->execs;
    }
    c->used = 0;
    struct diff d = run_batch(m, &m->state, t->b, c, t->img);
    image_compare(m, t->img, &m->state, t->whole, &d);
    if (t->run == 1)
        *t->first = d;
    return d.count;
}

/* One choice after the other, each kept if it leaves fewer differences: a batch of many calls has more combinations than can be
 * tried, and most of its choices have nothing to do with each other. */
static bool descend(struct trials *t, struct choices *best, unsigned left)
{
    for (bool better = true; better && t->run < TRIALS_MAX;) {
        better = false;
        for (size_t k = 0; k < best->used; k++) {
            for (unsigned n = 1; n < best->of[k]; n++) {
                struct choices c = *best;
                c.taken[k] = (uint8_t)((best->taken[k] + n) % best->of[k]);
                unsigned now = try_choices(t, &c);
                if (now == 0)
                    return true;
                if (now >= left)
                    continue;
                left = now;
                *best = c;
                better = true;
                break;
            }
        }
    }
    return false;
}

/* `first`: what differed at the first try. */
static bool decide(struct model *m, const struct unknown_batch *b, const struct image *img,
                   bool whole, const struct state *before, struct diff *first)
{
    struct trials t = {m, b, img, whole, before, first, m->exec_text.n, 0};
    struct choices choices = {0};
    unsigned left = try_choices(&t, &choices);
    if (left == 0)
        return true;
    struct choices best = choices;
    if (best.used > 1 && descend(&t, &best, left))
        return true;
    for (t.run = 1; t.run < TRIALS_MAX && next_choices(&choices);)
        if (try_choices(&t, &choices) == 0)
            return true;
    return false;
}

/* After a start, and after the store was opened anew, a turn that is ready counts as having been out token-less (spec 8.2). */
static void count_as_out(struct model *m)
{
    for (size_t i = 0; i < m->state.insts.n; i++)
        m->state.insts.at[i]->maybe_out = m->state.insts.at[i]->turns + 1;
}

static void batch_take(struct model *m, struct unknown_batch *to, const struct model_batch *b)
{
    (void)m;
    to->is_there = true;
    to->now = b->now;
    to->calls.n = 0;
    for (size_t i = 0; i < b->count; i++)
        VEC_PUSH(&to->calls, b->calls[i]);
}

static void after_commit(struct model *m, const struct unknown_batch *b)
{
    for (size_t i = 0; i < b->calls.n; i++) {
        struct call *c = call_by_id(m, b->calls.at[i]);
        if (!c || c->is_committed)
            continue;
        c->is_committed = true;
        c->is_waiting = c->verdict.waits;
        settle_call(m, c, &c->verdict);
        if (c->verdict.breaks)
            breaks_add(m, c->verdict.breaks);
    }
    settle_all(m);
    count_unloaded_as_out(m);
    m->touched_n = 0;
    waiters_look(m);
}

void model_commit(struct model *m, const struct model_batch *in)
{
    struct unknown_batch b = {0};
    struct image img;
    struct state before;
    if (m->findings)
        return;
    batch_take(m, &b, in);
    trace(m, "commit %llu of %zu calls", (unsigned long long)m->commits + 1, in->count);
    m->wall_max = MAX(m->wall_max, in->now);
    waiters_due(m, &b.calls.at[0], b.calls.n);
    m->unknown.is_there = false;
    m->commits++;
    if (!image_open(m, &img)) {
        found(m, CHECK_IMAGE, "the database cannot be read behind commit %llu",
              (unsigned long long)m->commits);
        VEC_FREE(&b.calls);
        return;
    }
    state_copy(&before, &m->state);
    struct diff first = {0}, nothing = {0};
    if (decide(m, &b, &img, m->commits % m->opts.full_every == 0, &before, &first)) {
        after_commit(m, &b);
    } else {
        image_compare(m, &img, &before, true, &nothing);
        if (!nothing.any)
            found(m, CHECK_FLUSHED, "commit %llu is not in the flushed image: %s",
                  (unsigned long long)m->commits, first.text);
        else
            found(m, first.checker, "after commit %llu: %s", (unsigned long long)m->commits,
                  first.text);
    }
    image_close(m, &img);
    state_free(&before);
    VEC_FREE(&b.calls);
}

void model_commit_failed(struct model *m, const struct model_batch *b)
{
    batch_take(m, &m->unknown, b);
    trace(m, "commit failed, %zu calls", b->count);
    for (size_t i = 0; i < b->count; i++) {
        struct call *c = call_by_id(m, b->calls[i]);
        if (c)
            c->is_refused = true;
    }
    m->since_n = 0; /* the store was away */
    count_as_out(m);
}

void model_crash(struct model *m, const struct model_batch *b)
{
    m->process += !m->is_down; /* a process that dies while it opens the store has done nothing */
    m->is_down = true;
    trace(m, "crash%s, %zu calls from %llu on", b ? " within a commit" : "", b ? b->count : 0,
          b && b->count ? (unsigned long long)b->calls[0] : 0);
    if (b)
        batch_take(m, &m->stepping, b);
    for (size_t i = 0; i < m->call_list.n; i++)
        m->call_list.at[i]->is_lost = true;
    for (size_t i = 0; i < m->streams.n; i++)
        m->streams.at[i]->is_open = false;
    m->since_n = 0;
    m->crashed_at = m->mono;
}

/* What only the process knew that is gone. */
static void forget_memory(struct model *m)
{
    for (size_t i = 0; i < m->state.insts.n; i++)
        m->state.insts.at[i]->chunks.n = 0;
    m->abandons.n = m->breaks.n = 0;
    for (size_t i = m->settled_to; i < m->dispatches.n; i++) {
        struct dispatch *d = m->dispatches.at[i];
        if (d->state == SETTLED || d->process == m->process)
            continue;
        d->lost = true;
        if (d->state == OUT) {
            reached(m, REACH_8_5_STREAM);
            d->state = RETURNED;
            d->returned_at = m->mono;
        }
    }
}

/* One of them, or both after each other, is in the database. */
static bool decide_unknown(struct model *m, const struct image *img, const struct state *before,
                           struct diff *with)
{
    struct unknown_batch both = {.is_there = true, .now = m->stepping.now};
    const struct unknown_batch *tries[3] = {&m->stepping, &m->unknown, &both};
    bool is_there = false;
    for (size_t i = 0; i < m->unknown.calls.n; i++)
        VEC_PUSH(&both.calls, m->unknown.calls.at[i]);
    for (size_t i = 0; i < m->stepping.calls.n; i++)
        VEC_PUSH(&both.calls, m->stepping.calls.at[i]);
    both.is_there = m->unknown.is_there && m->stepping.is_there;
    for (size_t n = 0; n < 3 && !is_there; n++) {
        if (!tries[n]->is_there)
            continue;
        state_free(&m->state);
        state_copy(&m->state, before);
        is_there = decide(m, tries[n], img, true, before, with);
    }
    VEC_FREE(&both.calls);
    return is_there;
}

void model_recovered(struct model *m)
{
    struct image img;
    struct diff without = {0}, with = {0};
    struct state before;
    m->recovered_at = m->mono;
    m->is_down = false;
    if (m->findings || !image_open(m, &img)) {
        if (!m->findings)
            found(m, CHECK_IMAGE, "the database cannot be read after a crash");
        return;
    }
    bool is_unknown = m->unknown.is_there || m->stepping.is_there;
    state_copy(&before, &m->state); /* comparing drops what the server may drop */
    image_compare(m, &img, &m->state, true, &without);
    if (!without.any) {
        reached(m, is_unknown ? REACH_RECOVERED_WITHOUT : REACH_RECOVERED);
    } else if (!is_unknown) {
        found(m, CHECK_RECOVERY, "after a crash without an unknown batch: %s", without.text);
    } else {
        m->process--; /* they were stepped by the process that is gone */
        if (decide_unknown(m, &img, &before, &with))
            reached(m, REACH_RECOVERED_WITH);
        else
            found(m, CHECK_RECOVERY, "after a crash: without the unknown batch: %s; with it: %s",
                  without.text, with.text);
        m->process++;
    }
    state_free(&before);
    forget_memory(m);
    m->unknown.is_there = m->stepping.is_there = false;
    m->touched_n = 0;
    count_as_out(m);
    settle_all(m);
    image_close(m, &img);
}

/* ---- answers -------------------------------------------------------------------------------------------------------- */

/* An instance that failed and was purged in its very batch: its failure's text is the server's choice, and no row shows it. */
static void show_failure(struct model *m, const struct verdict *v, void *theirs)
{
    const OrchestrationState *mine = ((GetInstanceResponse *)v->reply)->orchestrationstate;
    const GetInstanceResponse *g = theirs;
    TaskFailureDetails *f = mine ? mine->failuredetails : NULL;
    if (f && f->errormessage.len == 0 && g && g->orchestrationstate &&
        g->orchestrationstate->failuredetails)
        f->errormessage =
            data_of(arena_dup(m->arena, view(g->orchestrationstate->failuredetails->errormessage)));
}

/* An execution that was replaced in its very batch has an id that nothing else shows. */
static void show_execution(struct model *m, const struct verdict *v, void *theirs)
{
    OrchestrationState *mine = ((GetInstanceResponse *)v->reply)->orchestrationstate;
    const GetInstanceResponse *g = theirs;
    mine->executionid = box(m->arena, exec_text(m, v->exec));
    if (!mine->executionid && g && g->orchestrationstate &&
        is_hex32(boxed(g->orchestrationstate->executionid)))
        mine->executionid = g->orchestrationstate->executionid;
}

static void check_reply(struct model *m, const struct call *c, const struct verdict *v,
                        struct bytes reply)
{
    const ProtobufCMessageDescriptor *d = METHODS[c->method].reply;
    if (!d)
        return;
    struct arena *a = arena_create();
    ProtobufCMessage *theirs = unpack(a, d, reply);
    if (v->minted && theirs) {
        const struct inst *i = state_by_serial(&m->state, v->minted);
        CreateInstanceResponse *r = (CreateInstanceResponse *)(void *)theirs;
        if (!is_hex32(view(r->instanceid)) || (i && !bytes_eq(i->id, view(r->instanceid))))
            found(m, CHECK_REPLY, "StartInstance answered the id '%.*s'",
                  BYTES_FMT(view(r->instanceid)));
    } else {
        if (v->exec && c->method <= M_WAIT_END)
            show_execution(m, v, theirs);
        if (v->is_fuzzy)
            show_failure(m, v, theirs);
        struct bytes want = canonical(a, v->reply);
        if (!theirs || !bytes_eq(want, canonical(a, theirs)))
            found(m, CHECK_REPLY, "%s answered another state than the committed one%s",
                  METHODS[c->method].name, reply_text(a, v->reply, theirs));
    }
    arena_free(a);
}

/* A wait that was blocked, or would be. */
static void check_wait(struct model *m, struct call *c, int status, const char *message,
                       struct bytes reply)
{
    GetInstanceRequest *q = c->request;
    struct run r = {.m = m, .s = &m->state, .now = m->wall};
    const struct inst *i = state_find(&m->state, c->hub, view(q->instanceid));
    if (status == G_DEADLINE) {
        char want[1200];
        snprintf(want, sizeof(want), "Timed out waiting for instance '%.*s' to %s",
                 BYTES_FMT(view(q->instanceid)), c->method == M_WAIT_START ? "start" : "complete");
        if (!i)
            found(m, CHECK_WAITER, "a wait for an unknown instance ended DEADLINE_EXCEEDED");
        else if (wait_met(i, c->method) && c->wait_due)
            found(m, CHECK_WAITER, "a wait for '%.*s' timed out although it was %s",
                  BYTES_FMT(i->id), status_name(i->status));
        else if (message && *message && strcmp(want, message) != 0)
            found(m, CHECK_STATUS, "a wait timed out with the text '%s'", message);
        return;
    }
    if (status != G_OK) {
        found(m, CHECK_STATUS, "a wait was answered with status %d: %s", status, message);
        return;
    }
    if (!wait_met(i, c->method)) {
        if (i || reply.len > 0)
            found(m, CHECK_WAITER, "%s of '%.*s' was answered although it is %s",
                  METHODS[c->method].name, BYTES_FMT(view(q->instanceid)),
                  i ? status_name(i->status) : "unknown");
        return;
    }
    reached(m, REACH_3_4_WOKEN);
    struct verdict v = {.reply = state_reply(&r, i, q->getinputsandoutputs), .exec = i->exec};
    check_reply(m, c, &v, reply);
}

bool is_too_large(const struct model *m, const struct call *c)
{
    return c->raw.len > m->settings->request_bytes;
}

/* The store could not, or the server would not: nothing was changed, and a worker's item is given back (spec 8.5). */
static void refused(struct model *m, struct call *c, int status)
{
    if (c->is_committed && c->verdict.changes) {
        found(m, CHECK_STATUS, "%s was answered with status %d, but its change is committed",
              METHODS[c->method].name, status);
        return;
    }
    struct dispatch *d = NULL;
    if (status == G_UNAVAILABLE)
        count_as_out(m);
    if (c->method == M_TURN && c->request) {
        OrchestratorResponse *q = c->request;
        d = dispatch_of_token(m, view(q->completiontoken));
        if (q->completiontoken.len == 0)
            d = tokenless_refused(m, c, view(q->instanceid), true, 0);
    } else if (c->method == M_TASK && c->request) {
        ActivityResponse *q = c->request;
        d = dispatch_of_token(m, view(q->completiontoken));
        if (q->completiontoken.len == 0)
            d = tokenless_refused(m, c, view(q->instanceid), false, q->taskid);
    }
    if (d && d->state == OUT && d->process == m->process) {
        reached(m, REACH_8_5_REFUSED);
        dispatch_return(m, d, false);
        /* With backoff, for whoever gets it next. */
        VEC_PUSH(&m->abandons,
                 ((struct abandon){.item = d->is_turn ? d->inst << 1 | 1 : d->task << 1,
                                   .at = m->mono,
                                   .times = 7}));
    }
    if (d && d->token_less)
        d->answered = true;
    if (d && !c->is_committed && is_too_large(m, c))
        breaks_add(m, d->is_turn ? d->inst << 1 | 1 : d->task << 1);
}

static void check_verdict(struct model *m, struct call *c, const struct verdict *v, int status,
                          const char *message, struct bytes reply)
{
    if (v->status == -1 || (v->maybe_over && status == G_EXHAUSTED))
        return;
    if (v->status != status) {
        found(m, CHECK_STATUS, "%s was answered with status %d (%s) instead of %d (%s)",
              METHODS[c->method].name, status, message ? message : "", v->status,
              v->message ? v->message : "");
        return;
    }
    if (v->message && message && strcmp(v->message, message) != 0) {
        found(m, CHECK_STATUS, "%s was answered '%s' instead of '%s'", METHODS[c->method].name,
              message, v->message);
        return;
    }
    if (status == G_OK)
        check_reply(m, c, v, reply);
}

/* A call that no commit has had. Where it is open whether a token-less answer counts, it does not. */
static struct verdict run_uncommitted(struct model *m, struct call *c)
{
    bool is_open = c->token_less && (c->method == M_TURN || c->method == M_TASK);
    struct choices choices = {0};
    struct run r = {.m = m, .s = &m->state, .now = m->wall, .choices = is_open ? &choices : NULL};
    struct state before = {0};
    size_t execs = m->exec_text.n;
    if (is_open)
        state_copy(&before, &m->state);
    struct verdict v = run_call(&r, c);
    for (int n = 0; v.changes && n < TRIALS_MAX && next_choices(&choices); n++) {
        state_free(&m->state);
        state_copy(&m->state, &before);
        m->exec_text.n = execs;
        choices.used = 0;
        v = run_call(&r, c);
    }
    if (is_open)
        state_free(&before);
    return v;
}

void model_answer(struct model *m, uint64_t id, int status, const char *message, struct bytes reply)
{
    struct call *c = call_by_id(m, id);
    if (!c || m->findings)
        return;
    trace(m, "answer %llu status %d %s", (unsigned long long)id, status, message ? message : "");
    if (c->is_done)
        found(m, CHECK_STATUS, "call %llu was answered twice", (unsigned long long)id);
    c->is_done = true;
    if (c->method == M_OTHER || status == G_CANCELLED)
        return;
    bool is_wait = c->method == M_WAIT_START || c->method == M_WAIT_END;
    if (status == G_UNAVAILABLE ||
        (status == G_EXHAUSTED &&
         !(c->is_committed && (c->verdict.commits_error || c->verdict.maybe_over)))) {
        refused(m, c, status);
    } else if (is_wait && (c->is_waiting || status == G_DEADLINE)) {
        check_wait(m, c, status, message, reply);
    } else if (status == G_DEADLINE) {
        return;
    } else if (c->is_committed) {
        check_verdict(m, c, &c->verdict, status, message, reply);
    } else {
        struct verdict v = run_uncommitted(m, c);
        if (v.changes && status == G_OK) {
            found(m, CHECK_ACK, "%s was answered OK, and no commit has made its change%s",
                  METHODS[c->method].name, c->is_refused ? " (its batch failed)" : "");
        } else if (v.waits) {
            check_wait(m, c, status, message, reply);
        } else {
            check_verdict(m, c, &v, status, message, reply);
            settle_call(m, c, &v);
        }
    }
}

/* ---- waits -------------------------------------------------------------------------------------------------------------- */

static bool is_open_wait(const struct model *m, const struct call *c)
{
    return (c->method == M_WAIT_START || c->method == M_WAIT_END) && !c->is_done && !c->is_lost &&
           c->process == m->process;
}

/* Those that a commit has made due were answered before the next commit. */
void waiters_due(struct model *m, const uint64_t *calls, size_t n)
{
    (void)calls;
    (void)n;
    for (size_t i = m->waiting_from; i < m->call_list.n; i++) {
        const struct call *c = m->call_list.at[i];
        if (is_open_wait(m, c) && c->is_waiting && c->wait_due)
            found(m, CHECK_WAITER, "%s of '%.*s' is due and was not answered",
                  METHODS[c->method].name,
                  BYTES_FMT(view(((GetInstanceRequest *)c->request)->instanceid)));
    }
}

void waiters_look(struct model *m)
{
    bool any = false;
    for (size_t i = m->waiting_from; i < m->call_list.n; i++) {
        struct call *c = m->call_list.at[i];
        if (!is_open_wait(m, c)) {
            if (!any && (c->is_done || c->is_lost))
                m->waiting_from = i + 1;
            else
                any = true;
            continue;
        }
        any = true;
        if (c->is_waiting && c->request)
            c->wait_due = wait_met(
                state_find(&m->state, c->hub, view(((GetInstanceRequest *)c->request)->instanceid)),
                c->method);
    }
}

/* Nothing is left to do: every wait has been looked at. */
void waiters_idle(struct model *m)
{
    for (size_t i = m->waiting_from; i < m->call_list.n; i++)
        if (is_open_wait(m, m->call_list.at[i]) && m->call_list.at[i]->request &&
            m->call_list.at[i]->hub)
            m->call_list.at[i]->is_waiting = true;
    waiters_look(m);
    waiters_due(m, NULL, 0);
}

size_t waiters_count(const struct model *m)
{
    size_t count = 0;
    for (size_t i = m->waiting_from; i < m->call_list.n; i++)
        count += is_open_wait(m, m->call_list.at[i]);
    return count;
}
