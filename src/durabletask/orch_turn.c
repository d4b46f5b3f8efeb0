/* orch_turn.c - the batch of a turn and the work item that carries it (spec 4.2, 8.2). */
#include "durabletask/orchestration.h"

#include "rpc/rpc.h"
#include "wire/reader.h"
#include "wire/writer.h"

#define ITEM_ORCHESTRATOR 1 /* WorkItem.orchestratorRequest */
#define ITEM_TOKEN 10       /* WorkItem.completionToken */
#define REQUEST_NEW_EVENTS 4

/* ---- which events --------------------------------------------------------------------------------------- */

/* fireAt of a timerFired, in microseconds; INT64_MIN for other events. */
static usec_t fire_at_of(const struct inbox_row *r)
{
    struct event_head head;
    if (r->type != HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED || !event_peek(r->event, &head))
        return INT64_MIN;
    struct bytes ts = wire_bytes_find(head.body, 1);
    if (bytes_is_none(ts))
        return INT64_MIN;
    return (usec_t)wire_varint_find(ts, 1) * USEC_PER_SEC + (usec_t)wire_varint_find(ts, 2) / 1000;
}

/* Takes rows from the front up to `last_max` and the turn's limits; t->started is at least `time`. */
static enum err select_rows(struct step *s, struct object *o, int64_t last_max, usec_t time,
                            struct turn *t, struct error *err)
{
    size_t rows_max = s->settings->turn_events, bytes_max = s->settings->turn_bytes, bytes = 0,
           live = 0, skipped = 0;
    t->execution = o->row.execution;
    t->row = o->row.history_rows + 1;
    t->started = MAX(time, o->row.last_started);
    t->first = o->row.inbox_first;
    t->last = t->first - 1;
    for (int64_t seq = t->first; seq <= last_max && live < rows_max; seq++) {
        if (!orch_inbox_row(o, seq)) {
            enum err rc = orch_inbox_need(s, o, seq, rows_max - live,
                                          bytes_max > bytes ? bytes_max - bytes : 1, err);
            if (rc)
                return rc;
        }
        const struct inbox_row *r = orch_inbox_row(o, seq);
        if (!r)
            break;
        if (!orch_row_is_live(o, r)) {
            skipped += r->event.len + sizeof(*r);
            if (live > 0 && skipped > bytes_max)
                break;
            continue;
        }
        if (live > 0 && bytes + r->event.len > bytes_max)
            break;
        usec_t fire_at = fire_at_of(r);
        if (fire_at != INT64_MIN && fire_at + 1 > t->started)
            t->started = fire_at + 1;
        bytes += r->event.len;
        live++;
        t->last = seq;
        if (r->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED)
            break; /* it comes alone, and first */
    }
    t->events = (uint32_t)live + 1;
    if (live == 0)
        return error_set(err, ERR_NOT_FOUND, "instance '%.*s' has no event for its execution",
                         BYTES_FMT(o->row.id));
    return OK;
}

enum err orch_turn_of_cut(struct step *s, struct object *o, struct turn *turn, struct error *err)
{
    bool has_cut = o->row.cut_time != 0 && o->row.cut_seq >= o->row.inbox_first;
    int64_t last = has_cut ? o->row.cut_seq : o->row.inbox_next - 1;
    if (o->row.flags & ORCH_TERMINATING)
        last = o->row.inbox_first;
    enum err rc = select_rows(s, o, last, has_cut ? o->row.cut_time : o->row.updated, turn, err);
    if (rc == ERR_NOT_FOUND) /* the cut had only what is meant for others */
        rc = select_rows(s, o, o->row.inbox_next - 1, o->row.updated, turn, err);
    return rc;
}

static enum err select_batch(struct step *s, struct object *o, const struct work *w, bool exact,
                             struct turn *t, struct error *err)
{
    bool again = w->turn.row == o->row.history_rows + 1 && w->turn.execution == o->row.execution;
    if (exact && again && w->turn.exact)
        return orch_inbox_need(s, o, t->first, (size_t)(t->last - t->first + 1), SIZE_MAX, err);
    if (exact)
        return orch_turn_of_cut(s, o, t, err);
    int64_t last = o->row.flags & ORCH_TERMINATING ? o->row.inbox_first : o->row.inbox_next - 1;
    return select_rows(s, o, last, s->now, t, err);
}

/* ---- the item ------------------------------------------------------------------------------------------------ */

struct copy {
    uint8_t *at;
    uint64_t left;
};

static enum err copy_frames(void *arg, struct bytes frames)
{
    struct copy *c = arg;
    if (frames.len > c->left)
        return ERR_CORRUPT;
    if (frames.len)
        memcpy(c->at, frames.ptr, frames.len);
    c->at += frames.len;
    c->left -= frames.len;
    return OK;
}

static void put_new_events(struct strbuf *out, const struct object *o, const struct turn *t)
{
    struct strbuf event = {0};
    event_orchestrator_started(&event, t->started);
    wire_put_bytes(out, REQUEST_NEW_EVENTS, strbuf_bytes(&event));
    strbuf_deinit(&event);
    for (int64_t seq = t->first; seq <= t->last; seq++) {
        const struct inbox_row *r = orch_inbox_row(o, seq);
        if (r && orch_row_is_live(o, r))
            wire_put_bytes(out, REQUEST_NEW_EVENTS, r->event);
    }
}

/* What stands before and behind the past events. */
static void put_edges(struct strbuf *before, struct strbuf *after, const struct object *o,
                      const struct turn *t)
{
    wire_put_bytes(before, 1, o->row.id);
    wire_put_string_value(before, 2, o->row.execution_id);
    put_new_events(after, o, t);
    wire_put_bytes(after, 5,
                   BYTES_LIT("\x0a\x00")); /* entityParameters{entityMessageReorderWindow = 0 s} */
    if (!bytes_is_none(o->row.trace))
        wire_put_bytes(after, 8, o->row.trace);
}

enum err orch_turn_build(struct step *s, struct object *o, const struct work *w, bool exact,
                         struct bytes token, struct turn *turn, void **item, size_t *item_bytes,
                         struct error *err)
{
    enum err rc = select_batch(s, o, w, exact, turn, err);
    if (rc)
        return rc;
    CLEANUP(strbuf_deinit) struct strbuf before = {0}, after = {0}, head = {0};
    put_edges(&before, &after, o, turn);
    size_t inner = before.len + o->row.history_bytes + after.len;
    wire_put_head(&head, ITEM_ORCHESTRATOR, inner);
    size_t size = head.len + inner + wire_size_bytes(ITEM_TOKEN, token.len);

    struct rpc_msg *msg = rpc_msg_new(size);
    uint8_t *p = rpc_msg_data(msg);
    memcpy(p, head.ptr, head.len);
    memcpy(p + head.len, before.ptr, before.len);
    struct copy c = {.at = p + head.len + before.len, .left = o->row.history_bytes};
    rc = orch_history_each(s, o, copy_frames, &c, err);
    if (!rc && c.left > 0)
        rc = ERR_CORRUPT;
    if (rc) {
        rpc_msg_unref(msg);
        return rc == ERR_CORRUPT
                   ? error_set(err, rc, "history of instance '%.*s' is not as long as its row says",
                               BYTES_FMT(o->row.id))
                   : rc;
    }
    memcpy(c.at, after.ptr, after.len);
    strbuf_reset(&head);
    wire_put_bytes(&head, ITEM_TOKEN, token);
    memcpy(c.at + after.len, head.ptr, head.len);
    orch_account(o);
    *item = msg;
    *item_bytes = size;
    return OK;
}

/* ---- readiness, for the engine ----------------------------------------------------------------------------------- */

enum err orch_turn_recut(struct step *s, struct object *o, struct error *err)
{
    step_save(s, o);
    return orch_offer(s, o, true, err);
}

enum err orch_turn_check(struct step *s, struct object *o, bool recovered, struct error *err)
{
    if ((o->row.flags & ORCH_TERMINATING) && o->row.history_rows == 0 && !step_turn(s, o))
        return orch_force_terminate(s, o, err); /* its first turn was lost with the process */
    orch_of(o)->recovered = recovered;
    return orch_offer(s, o, false, err);
}

enum err orch_turn_returned(struct step *s, struct object *o, struct error *err)
{
    if ((o->row.flags & ORCH_TERMINATING) && o->row.history_rows == 0)
        return orch_force_terminate(s, o, err);
    return orch_offer(s, o, false, err);
}

bool orch_turn_is_stale(const struct object *o, usec_t now_wall, usec_t age_max)
{
    usec_t cut = o->row.cut_time;
    return cut == 0 || o->row.cut_seq < o->row.inbox_first || cut > now_wall + age_max ||
           now_wall - cut > age_max;
}
