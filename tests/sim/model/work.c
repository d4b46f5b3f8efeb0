/* work.c - streams, dispatches, tokens; what a work item must be when it goes out (spec 4.2, 8). */
#include <stdlib.h>

#include "internal.h"

#define TOKEN_MAX 256

/* ---- look-ups ---------------------------------------------------------------------------------------------- */

static bool same_token(const struct hash_node *n, const void *key)
{
    return bytes_eq(CONTAINER_OF(n, struct dispatch, node)->token, *(const struct bytes *)key);
}

struct dispatch *dispatch_of_token(const struct model *m, struct bytes token)
{
    struct hash_node *n = hashmap_find(&m->tokens, bytes_hash(token), same_token, &token);
    return n ? CONTAINER_OF(n, struct dispatch, node) : NULL;
}

struct dispatch *dispatch_by_number(const struct model *m, uint64_t number)
{
    return number > 0 && number <= m->dispatches.n ? m->dispatches.at[number - 1] : NULL;
}

struct dispatch *dispatch_last(const struct model *m, uint64_t inst)
{
    return inst < m->last_of.n ? m->last_of.at[inst] : NULL;
}

static bool is_timed_out_at(const struct model *m, const struct dispatch *d, usec_t mono)
{
    uint64_t limit = d->is_turn ? m->settings->turn_timeout : m->settings->activity_timeout;
    return limit > 0 && mono - d->lease >= (usec_t)limit;
}

static bool is_timed_out(const struct model *m, const struct dispatch *d)
{
    return is_timed_out_at(m, d, m->mono);
}

static bool is_of_now(const struct inst *i, const struct dispatch *d)
{
    return d->exec == i->exec && d->turns == i->turns;
}

bool turn_in_flight(const struct model *m, const struct inst *i)
{
    const struct dispatch *d = dispatch_last(m, i->serial);
    return d && d->process == m->process && d->state == OUT && is_of_now(i, d) &&
           !is_timed_out(m, d);
}

struct stream *stream_by_id(const struct model *m, uint64_t id)
{
    for (size_t n = m->streams.n; n-- > 0;)
        if (m->streams.at[n]->id == id)
            return m->streams.at[n];
    return NULL;
}

/* ---- giving back, settling --------------------------------------------------------------------------------------- */

static uint64_t item_of(const struct dispatch *d)
{
    return d->is_turn ? d->inst << 1 | 1 : d->task << 1;
}

unsigned breaks_of(const struct model *m, uint64_t item)
{
    for (size_t n = 0; n < m->breaks.n; n++)
        if (m->breaks.at[n].item == item)
            return m->breaks.at[n].times;
    return 0;
}

void breaks_add(struct model *m, uint64_t item)
{
    for (size_t n = 0; n < m->breaks.n; n++)
        if (m->breaks.at[n].item == item) {
            m->breaks.at[n].times++;
            return;
        }
    VEC_PUSH(&m->breaks, ((struct breaks){.item = item, .times = 1}));
}

static void drop_chunks(struct model *m, const struct dispatch *d)
{
    struct inst *i = d->is_turn ? state_by_serial(&m->state, d->inst) : NULL;
    if (i && is_of_now(i, d))
        i->chunks.n = 0;
}

void dispatch_return(struct model *m, struct dispatch *d, bool is_abandon)
{
    if (d->state != OUT || d->process != m->process)
        return;
    d->state = RETURNED;
    d->returned_at = m->mono;
    drop_chunks(m, d);
    if (!is_abandon)
        return;
    struct abandon b = {.item = item_of(d), .stream = d->stream, .at = m->mono, .times = 1};
    for (size_t n = 0; n < m->abandons.n; n++)
        if (m->abandons.at[n].item == b.item && m->abandons.at[n].stream)
            b.times = MAX(b.times, m->abandons.at[n].times + 1);
    VEC_PUSH(&m->abandons, b);
}

static void forget_abandons(struct model *m, uint64_t item)
{
    for (size_t n = m->abandons.n; n-- > 0;)
        if (m->abandons.at[n].item == item)
            VEC_REMOVE(&m->abandons, n);
}

void dispatch_again(struct model *m, struct dispatch *d)
{
    if (d->process == m->process && d->state != SETTLED)
        forget_abandons(m, item_of(d));
}

static bool is_over(const struct model *m, const struct dispatch *d)
{
    if (d->is_turn) {
        const struct inst *i = state_by_serial(&m->state, d->inst);
        return !i || is_terminal(i) || !is_of_now(i, d);
    }
    for (size_t n = 0; n < m->state.tasks.n; n++)
        if (m->state.tasks.at[n].serial == d->task)
            return false;
    return true;
}

void settle_all(struct model *m)
{
    for (size_t n = m->settled_to; n < m->dispatches.n; n++) {
        struct dispatch *d = m->dispatches.at[n];
        if (d->state != SETTLED && is_over(m, d)) {
            d->state = SETTLED;
            forget_abandons(m, item_of(d));
        }
        if (d->state == SETTLED && n == m->settled_to)
            m->settled_to++;
    }
}

void model_stream_end(struct model *m, uint64_t id)
{
    struct stream *s = stream_by_id(m, id);
    if (!s || !s->is_open)
        return;
    s->is_open = false;
    trace(m, "stream %llu ends", (unsigned long long)id);
    for (size_t n = m->settled_to; n < m->dispatches.n; n++) {
        struct dispatch *d = m->dispatches.at[n];
        if (d->stream != id || d->state == SETTLED)
            continue;
        d->lost = true;
        if (d->state == OUT) {
            reached(m, REACH_8_5_STREAM);
            d->state = RETURNED;
            d->returned_at = m->mono;
            drop_chunks(m, d);
        }
    }
}

void model_stream_open(struct model *m, const struct model_stream *in)
{
    struct stream *s = calloc(1, sizeof(*s));
    ASSERT(s);
    s->id = in->id;
    s->connection = in->connection;
    s->hub = hub_name(m, in->hub);
    s->token_less = in->token_less;
    s->capacity_total = in->capacity_total;
    s->is_open = true;
    s->request =
        unpack(m->arena, &get_work_items_request__descriptor, arena_dup(m->arena, in->request));
    if (!s->request) {
        s->request = arena_new(m->arena, GetWorkItemsRequest);
        get_work_items_request__init(s->request);
    }
    VEC_PUSH(&m->streams, s);
}

void model_stream_slow(struct model *m, uint64_t id, bool is_slow)
{
    struct stream *s = stream_by_id(m, id);
    if (s)
        s->is_slow = is_slow;
}

/* ---- who may have what (spec 8.1, 8.3) ------------------------------------------------------------------------------ */

/* Entries of one name are joined; one without versions does not widen another's list. */
struct entry {
    struct bytes name;
    size_t n;
    ProtobufCBinaryData *versions;
};

static bool matches(const struct entry *e, size_t n, struct bytes name, struct bytes version)
{
    bool named = false, restricted = false, has = false;
    for (size_t k = 0; k < n; k++) {
        if (!bytes_eq(e[k].name, name))
            continue;
        named = true;
        restricted = restricted || e[k].n > 0;
        for (size_t j = 0; j < e[k].n; j++)
            has = has || bytes_eq(view(e[k].versions[j]), version);
    }
    return named && (!restricted || has);
}

bool stream_takes_turn(const struct stream *s, const struct inst *i)
{
    const WorkItemFilters *f = s->request->workitemfilters;
    struct entry e[64];
    if (s->hub != i->hub)
        return false;
    if (!f)
        return true;
    size_t n = MIN(f->n_orchestrations, ARRAY_LEN(e));
    for (size_t k = 0; k < n; k++)
        e[k] = (struct entry){view(f->orchestrations[k]->name), f->orchestrations[k]->n_versions,
                              f->orchestrations[k]->versions};
    return matches(e, n, i->name, i->version);
}

bool stream_takes_task(const struct stream *s, const struct task *t)
{
    const WorkItemFilters *f = s->request->workitemfilters;
    struct entry e[64];
    if (s->hub != t->hub)
        return false;
    if (!f)
        return true;
    size_t n = MIN(f->n_activities, ARRAY_LEN(e));
    for (size_t k = 0; k < n; k++)
        e[k] = (struct entry){view(f->activities[k]->name), f->activities[k]->n_versions,
                              f->activities[k]->versions};
    return matches(e, n, t->name, t->version);
}

void stream_count(const struct model *m, const struct stream *s, uint32_t *turns, uint32_t *tasks)
{
    *turns = *tasks = 0;
    for (size_t n = m->settled_to; n < m->dispatches.n; n++) {
        const struct dispatch *d = m->dispatches.at[n];
        if (d->stream != s->id || d->state != OUT || is_timed_out(m, d))
            continue;
        if (d->is_turn)
            ++*turns;
        else
            ++*tasks;
    }
}

bool has_room(const struct model *m, const struct stream *s, bool turn)
{
    uint32_t turns, tasks;
    stream_count(m, s, &turns, &tasks);
    int32_t limit = turn ? s->request->maxconcurrentorchestrationworkitems
                         : s->request->maxconcurrentactivityworkitems;
    uint32_t have = turn ? turns : tasks;
    return (limit == 0 || have < (uint32_t)limit) &&
           (s->capacity_total == 0 || turns + tasks < s->capacity_total);
}

void model_stream_figure(struct model *m, uint64_t stream, uint64_t turns, uint64_t tasks)
{
    const struct stream *s = stream_by_id(m, stream);
    uint32_t least_turns, least_tasks, late_turns = 0, late_tasks = 0;
    if (!s || !s->is_open || m->findings)
        return;
    stream_count(m, s, &least_turns, &least_tasks);
    for (size_t n = m->settled_to; n < m->dispatches.n;
         n++) { /* the server may not have seen that yet */
        const struct dispatch *d = m->dispatches.at[n];
        bool late = d->stream == s->id && d->state == OUT && is_timed_out(m, d);
        late_turns += late && d->is_turn;
        late_tasks += late && !d->is_turn;
    }
    /* An activity that nobody waits for any more may keep its place until its worker answers. */
    for (size_t n = 0; tasks > least_tasks + late_tasks && n < m->dispatches.n; n++) {
        const struct dispatch *d = m->dispatches.at[n];
        late_tasks +=
            d->stream == s->id && !d->is_turn && d->process == m->process && d->state == SETTLED;
    }
    if (turns < least_turns || turns > least_turns + late_turns || tasks < least_tasks ||
        tasks > least_tasks + late_tasks)
        found(m, CHECK_SLOTS,
              "stream %llu holds %llu turns and %llu activities by the server's count, %u and %u "
              "are unsettled",
              (unsigned long long)stream, (unsigned long long)turns, (unsigned long long)tasks,
              least_turns, least_tasks);
}

/* ---- a work item ------------------------------------------------------------------------------------------------------- */

static void check_token(struct model *m, struct bytes token)
{
    if (token.len == 0 || token.len > TOKEN_MAX)
        found(m, CHECK_TOKEN, "an item has a token of %zu bytes", token.len);
    else if (dispatch_of_token(m, token))
        found(m, CHECK_TOKEN, "an item has a token that was out before");
}

usec_t backoff_of(const struct model *m, const struct abandon *b)
{
    usec_t wait = USEC_PER_SEC;
    for (unsigned n = 1; n < b->times && wait < (usec_t)m->settings->abandon_backoff_max; n++)
        wait *= 2;
    return MIN(wait, (usec_t)m->settings->abandon_backoff_max);
}

static void check_backoff(struct model *m, const struct stream *s, uint64_t item, struct bytes id)
{
    for (size_t n = 0; n < m->abandons.n; n++) {
        const struct abandon *b = &m->abandons.at[n];
        if (b->item == item && b->stream == s->id && m->mono < b->at + backoff_of(m, b))
            found(m, CHECK_BACKOFF,
                  "an item of '%.*s' came back after %lld us to the stream that abandoned it",
                  BYTES_FMT(id), (long long)(m->mono - b->at));
    }
}

static struct dispatch *dispatch_new(struct model *m, const struct stream *s, bool is_turn,
                                     struct bytes token)
{
    struct dispatch *d = calloc(1, sizeof(*d));
    ASSERT(d);
    VEC_PUSH(&m->dispatches, d);
    d->number = m->dispatches.n;
    d->is_turn = is_turn;
    d->token = arena_dup(m->arena, token);
    d->token_less = s->token_less;
    d->stream = s->id;
    d->connection = s->connection;
    d->process = m->process;
    d->at = d->lease = m->mono;
    d->state = s->is_open ? OUT : RETURNED;
    hashmap_insert(&m->tokens, &d->node, bytes_hash(d->token));
    trace(m, "%s out on stream %llu connection %llu%s: dispatch %llu",
          is_turn ? "turn" : "activity", (unsigned long long)s->id,
          (unsigned long long)s->connection, s->token_less ? " token-less" : "",
          (unsigned long long)d->number);
    return d;
}

/* pastEvents are the committed history. Long ones are compared wholly now and then. */
static void check_past(struct model *m, struct arena *a, struct inst *i, OrchestratorRequest *q)
{
    if (q->requireshistorystreaming && q->n_pastevents == 0)
        return;
    if (q->n_pastevents != i->history.n) {
        found(m, CHECK_PAST, "a turn of '%.*s' has %zu past events, its history %zu",
              BYTES_FMT(i->id), q->n_pastevents, i->history.n);
        return;
    }
    size_t from = i->history.n > 8 && m->dispatches.n % 8 ? i->history.n - 6 : 0;
    for (size_t n = from; n < i->history.n; n++) {
        const char *what = event_differs(m, a, i, i->history.at[n], q->pastevents[n]);
        if (what)
            found(m, CHECK_PAST, "past event %zu of '%.*s', a %s: %s", n, BYTES_FMT(i->id),
                  event_name(i->history.at[n]->type), what);
    }
}

static usec_t time_of(const HistoryEvent *e)
{
    return e->timestamp ? e->timestamp->seconds * USEC_PER_SEC + e->timestamp->nanos / 1000 : 0;
}

/* "Now" for the orchestrator: never back, behind every timer of the batch (spec 4.2). */
static void check_started(struct model *m, const struct inst *i, const OrchestratorRequest *q)
{
    const HistoryEvent *e = q->newevents[0];
    usec_t at = time_of(e), least = i->last_started;
    if ((int)e->event_type_case != EV_TURN || e->eventid != -1) {
        found(m, CHECK_NEW, "the first new event of '%.*s' is %s", BYTES_FMT(i->id),
              event_name((int)e->event_type_case));
        return;
    }
    for (size_t n = 1; n < q->n_newevents; n++) {
        usec_t due;
        if ((int)q->newevents[n]->event_type_case == EV_FIRED &&
            q->newevents[n]->timerfired->fireat &&
            stamp_read(q->newevents[n]->timerfired->fireat, &due))
            least = MAX(least, q->newevents[n]->timerfired->fireat->seconds * USEC_PER_SEC +
                                   q->newevents[n]->timerfired->fireat->nanos / 1000 + 1);
    }
    if (at < least || at > MAX(least, m->wall_max) || at <= 0)
        found(
            m, CHECK_NEW, "orchestratorStarted of '%.*s' is at %lld; it must be from %lld to %lld",
            BYTES_FMT(i->id), (long long)at, (long long)least, (long long)MAX(least, m->wall_max));
}

/* newEvents are the front of the inbox; they are put into d->events. */
static void check_new(struct model *m, struct arena *a, struct inst *i, OrchestratorRequest *q,
                      struct dispatch *d)
{
    if (q->n_newevents < 2) {
        found(m, CHECK_NEW, "a turn of '%.*s' has %zu new events", BYTES_FMT(i->id),
              q->n_newevents);
        return;
    }
    check_started(m, i, q);
    d->started = time_of(q->newevents[0]);
    size_t at = 0, bytes = 0;
    /* A termination comes alone, but a batch that was out token-less is repeated as it was: check_again(). */
    bool alone = i->terminating && (int)q->newevents[1]->event_type_case == EV_TERMINATED;
    if (alone && i->exec_turns == 0)
        found(m, CHECK_NEW, "the first turn of '%.*s' has its termination and no executionStarted",
              BYTES_FMT(i->id));
    for (size_t n = 1; n < q->n_newevents; n++) {
        while (at < i->inbox.n && (i->inbox.at[at]->type == EV_TERMINATED) != alone)
            at++;
        if (at == i->inbox.n) {
            found(m, CHECK_NEW, "new event %zu of '%.*s' is a %s that is not in its inbox%s", n,
                  BYTES_FMT(i->id), event_name((int)q->newevents[n]->event_type_case),
                  alone ? " (a termination comes alone)" : "");
            return;
        }
        struct event *mine = i->inbox.at[at++];
        const char *what = event_differs(m, a, i, mine, q->newevents[n]);
        if (what) {
            found(m, CHECK_NEW, "new event %zu of '%.*s' should be the %s of its inbox: %s", n,
                  BYTES_FMT(i->id), event_name(mine->type), what);
            return;
        }
        bytes += mine->size;
        VEC_PUSH(&d->events, mine);
    }
    if (d->events.n > m->settings->turn_events ||
        (d->events.n > 1 && bytes > m->settings->turn_bytes))
        found(m, CHECK_NEW, "a turn of '%.*s' has %zu events of %zu bytes", BYTES_FMT(i->id),
              d->events.n, bytes);
}

static bool same_batch(const struct dispatch *a, const struct dispatch *b)
{
    return a->started == b->started && a->events.n == b->events.n &&
           (a->events.n == 0 ||
            memcmp(a->events.at, b->events.at, a->events.n * sizeof(*a->events.at)) == 0);
}

/* Against the earlier dispatches of this turn (spec 8.2, 8.5). */
static void check_again(struct model *m, const struct inst *i, const struct dispatch *d)
{
    const struct dispatch *longest = NULL, *token_less = NULL;
    for (size_t n = 0; n + 1 < m->dispatches.n; n++) {
        const struct dispatch *p = m->dispatches.at[n];
        if (!p->is_turn || p->inst != d->inst || !is_of_now(i, p))
            continue;
        reached(m, REACH_8_5_REDELIVERED);
        if (p->process == m->process && (!longest || p->events.n > longest->events.n))
            longest =
                p; /* after a start the stored cut is used, as if it had been out token-less */
        if (p->token_less)
            token_less = p;
    }
    bool terminates = d->events.n > 0 && d->events.at[0]->type == EV_TERMINATED;
    if (terminates) /* comes alone, whatever was out before */
        return;
    if (i->terminating && !token_less && i->maybe_out != i->turns + 1)
        found(m, CHECK_NEW, "a turn of '%.*s' went out without the termination that waits",
              BYTES_FMT(i->id));
    if (token_less && !same_batch(token_less, d))
        found(
            m, CHECK_TOKENLESS,
            "a turn of '%.*s' that was out token-less came again with another batch: %zu events at "
            "%lld, before %zu at %lld",
            BYTES_FMT(i->id), d->events.n, (long long)d->started, token_less->events.n,
            (long long)token_less->started);
    else if (!token_less && longest && i->maybe_out != i->turns + 1 &&
             d->events.n < longest->events.n && !d->token_less)
        found(m, CHECK_NEW, "a turn of '%.*s' came again with %zu events instead of %zu",
              BYTES_FMT(i->id), d->events.n, longest->events.n);
}

/* Its turn is over, and those who still have it were waited for long enough: their answers are a stated limit. */
static bool is_given_up(const struct model *m, const struct inst *i, const struct dispatch *d)
{
    usec_t hold = (usec_t)m->settings->tokenless_redelivery, first = INT64_MAX;
    if (is_of_now(i, d))
        return false;
    for (size_t n = 0; n < m->dispatches.n; n++) {
        const struct dispatch *p = m->dispatches.at[n];
        if (p->is_turn && p->inst == d->inst && p->exec == d->exec && p->turns == d->turns &&
            p->answered)
            first = MIN(first, p->answered_at);
    }
    return first != INT64_MAX && m->mono >= first + hold;
}

/* At most one unanswered dispatch on a connection; the next turn waits for the answers to the last (spec 8.2). */
static void check_tokenless(struct model *m, const struct stream *s, const struct inst *i)
{
    usec_t hold = (usec_t)m->settings->tokenless_redelivery;
    usec_t first_answer = 0;
    bool unanswered = false;
    for (size_t n = 0; n + 1 < m->dispatches.n; n++) {
        const struct dispatch *p = m->dispatches.at[n];
        if (!p->is_turn || !p->token_less || p->inst != i->serial || p->process != m->process)
            continue;
        if (s->token_less && !p->answered && !p->lost && p->connection == s->connection &&
            !is_given_up(m, i, p))
            found(m, CHECK_TOKENLESS,
                  "'%.*s' has an unanswered dispatch on this connection already", BYTES_FMT(i->id));
        if (p->exec == i->exec && p->turns + 1 == i->turns) {
            unanswered = unanswered || !p->answered;
            if (p->answered && (!first_answer || p->answered_at < first_answer))
                first_answer = p->answered_at;
        }
        if (is_of_now(i, p) && p->lost && !p->answered && s->token_less &&
            m->mono < p->returned_at + hold && !is_timed_out_at(m, p, p->returned_at))
            found(m, CHECK_TOKENLESS,
                  "a turn of '%.*s' came again %lld us after its token-less stream was lost",
                  BYTES_FMT(i->id), (long long)(m->mono - p->returned_at));
    }
    if (s->token_less && unanswered && first_answer && m->mono < first_answer + hold)
        found(m, CHECK_TOKENLESS,
              "the next turn of '%.*s' went out while answers to the last one are missing",
              BYTES_FMT(i->id));
}

static bool may_go(struct model *m, const struct inst *i)
{
    if (is_terminal(i)) {
        found(m, CHECK_LEAK, "a turn of '%.*s' went out, which is %s", BYTES_FMT(i->id),
              status_name(i->status));
    } else if (i->inbox.n == 0) {
        found(m, CHECK_LEAK, "a turn of '%.*s' went out, whose inbox is empty", BYTES_FMT(i->id));
    } else if (!i->terminating && i->status == ST_SUSPENDED) {
        found(m, CHECK_SUSPENDED, "a turn of '%.*s' went out, which is SUSPENDED",
              BYTES_FMT(i->id));
    } else if (!i->terminating && i->start_waits) {
        found(m, CHECK_START, "a turn of '%.*s' went out before its scheduled start",
              BYTES_FMT(i->id));
    } else {
        return true;
    }
    return false;
}

static void check_flight(struct model *m, const struct inst *i)
{
    struct dispatch *d = dispatch_last(m, i->serial);
    if (!d || d->process != m->process || d->state != OUT || !is_of_now(i, d))
        return;
    if (!is_timed_out(m, d)) {
        found(m, CHECK_TWICE, "a turn of '%.*s' went out while stream %llu has it",
              BYTES_FMT(i->id), (unsigned long long)d->stream);
        return;
    }
    reached(m, REACH_8_5_TIMEOUT);
    dispatch_return(m, d, false);
}

static void turn_out(struct model *m, struct arena *a, struct stream *s, WorkItem *item)
{
    OrchestratorRequest *q = item->orchestratorrequest;
    struct bytes id = view(q->instanceid);
    struct inst *i = state_find(&m->state, s->hub, id);
    if (!i) {
        found(m, CHECK_LEAK, "a turn of '%.*s' went out, which is not there", BYTES_FMT(id));
        return;
    }
    if (!bytes_eq(boxed(q->executionid), exec_text(m, i->exec))) {
        found(m, CHECK_LEAK, "a turn of '%.*s' has the execution id '%.*s'", BYTES_FMT(id),
              BYTES_FMT(boxed(q->executionid)));
        return;
    }
    if (!may_go(m, i))
        return;
    check_flight(m, i);
    if (!stream_takes_turn(s, i))
        found(m, CHECK_FILTER, "a turn of '%.*s' (%.*s) went to a stream that does not take it",
              BYTES_FMT(id), BYTES_FMT(i->name));
    if (!has_room(m, s, true))
        found(m, CHECK_SLOTS, "stream %llu got a turn beyond its limit", (unsigned long long)s->id);
    check_token(m, view(item->completiontoken));
    check_backoff(m, s, i->serial << 1 | 1, id);
    struct dispatch *d = dispatch_new(m, s, true, view(item->completiontoken));
    d->inst = i->serial;
    d->exec = i->exec;
    d->turns = i->turns;
    check_past(m, a, i, q);
    check_new(m, a, i, q, d);
    check_again(m, i, d);
    check_tokenless(m, s, i);
    if (!q->entityparameters || !q->entityparameters->entitymessagereorderwindow)
        found(m, CHECK_ITEM, "a turn of '%.*s' has no entityParameters", BYTES_FMT(id));
    struct bytes context = canonical(a, q->orchestrationtracecontext);
    if (!bytes_eq(context, bytes_is_none(i->trace) ? BYTES_LIT("") : i->trace))
        found(m, CHECK_ITEM, "a turn of '%.*s' has another trace context than was answered",
              BYTES_FMT(id));
    while (m->last_of.n <= i->serial)
        VEC_PUSH(&m->last_of, NULL);
    m->last_of.at[i->serial] = d;
    trace(m, "  of '%.*s', %zu past, %zu new events", BYTES_FMT(id), q->n_pastevents,
          q->n_newevents);
}

/* ---- activities ------------------------------------------------------------------------------------------------------------ */

struct dispatch *holder(const struct model *m, uint64_t task)
{
    for (size_t n = m->settled_to; n < m->dispatches.n; n++) {
        struct dispatch *d = m->dispatches.at[n];
        if (!d->is_turn && d->task == task && d->process == m->process && d->state == OUT)
            return d;
    }
    return NULL;
}

static void task_out(struct model *m, struct arena *a, struct stream *s, WorkItem *item)
{
    ActivityRequest *q = item->activityrequest;
    struct bytes request = canonical(a, q);
    struct task *t = NULL;
    struct dispatch *held = NULL;
    for (size_t n = 0; n < m->state.tasks.n && (!t || held); n++) {
        struct task *k = &m->state.tasks.at[n];
        if (k->hub == s->hub && bytes_eq(k->request, request)) {
            t = k;
            held = holder(m, k->serial);
        }
    }
    if (!t) {
        found(m, CHECK_LEAK, "activity %d '%.*s' of '%.*s' went out, which no commit has scheduled",
              q->taskid, BYTES_FMT(view(q->name)),
              BYTES_FMT(q->orchestrationinstance ? view(q->orchestrationinstance->instanceid)
                                                 : BYTES_LIT("")));
        return;
    }
    if (t->terminated)
        found(m, CHECK_CANCELLED, "activity %d '%.*s' of a terminated execution went out", t->id,
              BYTES_FMT(t->name));
    if (held && !is_timed_out(m, held))
        found(m, CHECK_TWICE, "activity %d '%.*s' went out while stream %llu has it", t->id,
              BYTES_FMT(t->name), (unsigned long long)held->stream);
    else if (held)
        dispatch_return(m, held, false);
    if (!stream_takes_task(s, t))
        found(m, CHECK_FILTER, "activity '%.*s' went to a stream that does not take it",
              BYTES_FMT(t->name));
    if (!has_room(m, s, false))
        found(m, CHECK_SLOTS, "stream %llu got an activity beyond its limit",
              (unsigned long long)s->id);
    check_token(m, view(item->completiontoken));
    check_backoff(m, s, t->serial << 1, t->name);
    struct dispatch *d = dispatch_new(m, s, false, view(item->completiontoken));
    d->inst = t->inst;
    d->exec = t->exec;
    d->task = t->serial;
    d->task_id = t->id;
    d->id_of = t->id_of;
    trace(m, "  of '%.*s' task %d", BYTES_FMT(view(q->orchestrationinstance->instanceid)), t->id);
}

void model_item(struct model *m, uint64_t stream, struct bytes bytes)
{
    struct stream *s = stream_by_id(m, stream);
    if (m->findings)
        return;
    struct arena *a = arena_create();
    WorkItem *item = unpack(a, &work_item__descriptor, bytes);
    if (!s || !item) {
        found(m, CHECK_ITEM, "an item %s", s ? "does not decode" : "came on an unknown stream");
    } else if (item->request_case == WORK_ITEM__REQUEST_HEALTH_PING) {
        if (item->completiontoken.len > 0)
            found(m, CHECK_ITEM, "a health ping has a token");
    } else if (item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST) {
        turn_out(m, a, s, item);
    } else if (item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST) {
        task_out(m, a, s, item);
    } else {
        found(m, CHECK_ITEM, "an item of kind %d", (int)item->request_case);
    }
    arena_free(a);
}

/* ---- answers without tokens ---------------------------------------------------------------------------------------------------- */

/* An answer that names only its instance answers the oldest unanswered dispatch of it on its connection, else of any. */
void tokenless_answered(struct model *m, const struct call *c)
{
    OrchestratorResponse *q = c->request;
    struct inst *i = state_find(&m->state, c->hub, view(q->instanceid));
    struct dispatch *other = NULL;
    if (q->completiontoken.len > 0 || !i)
        return;
    for (size_t n = 0; n < m->dispatches.n; n++) {
        struct dispatch *d = m->dispatches.at[n];
        if (!d->is_turn || !d->token_less || d->answered || d->inst != i->serial ||
            d->process != m->process)
            continue;
        if (d->connection == c->connection) {
            d->answered = true;
            d->answered_at = m->mono;
            return;
        }
        other = other ? other : d;
    }
}

struct dispatch *tokenless_refused(struct model *m, const struct call *c, struct bytes id,
                                   bool is_turn, int32_t task)
{
    struct inst *i = state_find(&m->state, c->hub, id);
    for (size_t n = m->dispatches.n; i && n-- > m->settled_to;) {
        struct dispatch *d = m->dispatches.at[n];
        if (d->is_turn != is_turn || d->inst != i->serial || d->process != m->process ||
            d->state != OUT || d->connection != c->connection || !d->token_less)
            continue;
        if (is_turn)
            return d;
        for (size_t k = 0; k < m->state.tasks.n; k++)
            if (m->state.tasks.at[k].serial == d->task && m->state.tasks.at[k].id == task)
                return d;
    }
    return NULL;
}
