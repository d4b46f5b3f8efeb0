#include "durabletask/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "durabletask/events.h"
#include "durabletask/orchestration.h"
#include "wire/wire.h"

struct scheduled {
    HistoryEvent__EventTypeCase type;
    int32_t id;
};

struct verify {
    void (*finding)(void *arg, const char *name, const char *text);
    void *arg;
    struct dt_verify_result *out;
    struct arena *arena; /* of one event */
    struct strbuf id;    /* the object's */
    bool is_orchestration, is_terminal;
    bool is_bad; /* something was found: the rest would only follow from it */
    bool has_started, has_completed;
    bool is_acting; /* an action of this turn was seen */
    usec_t now;     /* of the last orchestratorStarted */
    uint64_t row, at;
    struct scheduled *open;
    size_t open_count, open_cap;
};

PRINTF_LIKE(3, 4)
static void bad(struct verify *v, const char *name, const char *fmt, ...)
{
    char what[256], text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "\"%s\", row %" PRIu64 ", event %" PRIu64 ": %s",
             strbuf_cstr(&v->id), v->row, v->at, what);
    v->out->findings++;
    v->finding(v->arg, name, text);
    v->is_bad = true;
}

static void object_end(struct verify *v)
{
    if (v->is_orchestration && !v->is_bad && v->is_terminal && !v->has_completed)
        bad(v, "history-order",
            "the instance has ended, and its history has no executionCompleted");
}

static void object_begins(void *arg, const struct store_object *o)
{
    struct verify *v = arg;

    object_end(v);
    v->out->instances++;
    strbuf_reset(&v->id);
    strbuf_append_bytes(&v->id, o->id);
    v->is_orchestration = o->kind == OBJECT_ORCHESTRATION;
    v->is_terminal = orch_is_terminal_status(o->status);
    v->is_bad = v->has_started = v->has_completed = v->is_acting = false;
    v->now = 0;
    v->row = v->at = 0;
    v->open_count = 0;
}

static bool is_action(HistoryEvent__EventTypeCase type)
{
    return type == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED ||
           type == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED ||
           type == HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED ||
           type == HISTORY_EVENT__EVENT_TYPE_EVENT_SENT;
}

static void schedule(struct verify *v, const struct event_head *e)
{
    if (v->open_count == v->open_cap) {
        v->open_cap = v->open_cap ? v->open_cap * 2 : 64;
        v->open = realloc(v->open, v->open_cap * sizeof(*v->open));
        ASSERT(v->open);
    }
    v->open[v->open_count++] = (struct scheduled){e->type, e->id};
}

static void resolve(struct verify *v, const struct event_head *e)
{
    HistoryEvent__EventTypeCase type = event_resolved_by(e->type);

    for (size_t i = 0; i < v->open_count; i++) {
        if (v->open[i].type == type && v->open[i].id == e->ref) {
            v->open[i] = v->open[--v->open_count];
            return;
        }
    }
    bad(v, "history-order", "it resolves %" PRId32 ", which is not open", e->ref);
}

static void turn_begins(struct verify *v, const struct event_head *e)
{
    if (e->time < v->now)
        bad(v, "history-order", "the orchestrator's time goes back");
    v->now = e->time;
    v->is_acting = false;
}

static void in_order(struct verify *v, const struct event_head *e)
{
    bool is_end = e->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_COMPLETED;
    bool is_turn = e->type == HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED;
    bool acts = is_action(e->type), arrives = !is_end && !is_turn && !acts;

    if (v->has_completed)
        bad(v, "history-order", "it comes after executionCompleted");
    else if (is_end && !v->is_terminal)
        bad(v, "history-order", "executionCompleted of an instance that has not ended");
    else if (e->time <= 0)
        bad(v, "history-order", "it has no time");
    else if (arrives && (e->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED) == v->has_started)
        bad(v, "history-order", "executionStarted is the first that arrives, once");
    else if (arrives && v->is_acting)
        bad(v, "history-order", "it arrived between the actions of a turn");
    v->has_started = v->has_started || arrives;
    v->has_completed = is_end;
    v->is_acting = v->is_acting || acts;
    if (is_turn)
        turn_begins(v, e);
    else if (acts && e->type != HISTORY_EVENT__EVENT_TYPE_EVENT_SENT)
        schedule(v, e);
    else if (!v->is_bad && event_is_resolution(e->type))
        resolve(v, e);
}

static bool one_event(void *arg, struct bytes event)
{
    struct verify *v = arg;
    struct event_head head;
    HistoryEvent *whole;
    struct error err;

    v->at++;
    if (v->is_bad)
        return false;
    arena_reset(v->arena);
    if (wire_unpack(&history_event__descriptor, v->arena, event, &WIRE_LIMITS, &whole, &err) ||
        !event_peek(event, &head) || head.type == HISTORY_EVENT__EVENT_TYPE__NOT_SET)
        bad(v, "history-undecodable", "it does not decode as a history event");
    else
        in_order(v, &head);
    return !v->is_bad;
}

static void one_row(void *arg, const struct store_history *h)
{
    struct verify *v = arg;
    struct error err;

    v->out->events += h->events;
    if (!v->is_orchestration || v->is_bad)
        return;
    v->row = h->row;
    v->at = 0;
    if (orch_frames_each(h->frames, one_event, v, &err) && !v->is_bad)
        bad(v, "history-undecodable", "the row is cut");
    else if (!v->is_bad && v->at != h->events)
        bad(v, "history-undecodable", "the row has not the %" PRIu32 " events that it says",
            h->events);
}

static void of_the_store(void *arg, const char *name, const char *text)
{
    struct verify *v = arg;

    v->out->findings++;
    v->finding(v->arg, name, text);
}

enum err dt_verify_store(struct store_reader *r,
                         void (*finding)(void *arg, const char *name, const char *text), void *arg,
                         struct dt_verify_result *out, struct error *err)
{
    struct verify v = {.finding = finding, .arg = arg, .out = out, .arena = arena_create()};
    const struct store_verify_events ev = {
        .finding = of_the_store, .object = object_begins, .history = one_row, .arg = &v};

    *out = (struct dt_verify_result){0};
    enum err e = store_verify(r, &ev, err);
    if (!e)
        object_end(&v);
    arena_free(v.arena);
    strbuf_deinit(&v.id);
    free(v.open);
    return e;
}
