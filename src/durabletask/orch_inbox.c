/* orch_inbox.c - what arrives, in what order, and when that makes a turn (spec 4.1, 4.2). */
#include "durabletask/orchestration.h"

#include <stdlib.h>

#include "base/assert.h"

#define INBOX_KEPT 64 /* rows in memory beyond which arrivals are not added */
#define INBOX_KEPT_BYTES KIB(64)

bool orch_inbox_is_empty(const struct object *o)
{
    return o->row.inbox_first == o->row.inbox_next;
}

bool orch_row_is_live(const struct object *o, const struct inbox_row *r)
{
    return r->execution == 0 || r->execution == o->row.execution;
}

void orch_touch(struct step *s, struct object *o)
{
    o->row.updated = MAX(o->row.updated, s->now);
}

const struct inbox_row *orch_inbox_row(const struct object *o, int64_t seq)
{
    const struct orchestration *st = orch_of(o);
    int64_t index = seq - o->row.inbox_first;
    return index >= 0 && index < (int64_t)st->inbox_count ? &st->inbox[index] : NULL;
}

static void reserve(struct orchestration *st)
{
    if (st->inbox_count < st->inbox_cap)
        return;
    st->inbox_cap = st->inbox_cap ? st->inbox_cap * 2 : 4;
    st->inbox = realloc(st->inbox, st->inbox_cap * sizeof(*st->inbox));
    ASSERT(st->inbox);
}

static struct bytes own(struct bytes b)
{
    uint8_t *copy = malloc(b.len ? b.len : 1);
    ASSERT(copy);
    if (b.len)
        memcpy(copy, b.ptr, b.len);
    return bytes_of(copy, b.len);
}

static struct inbox_row row_of(const struct store_inbox *m)
{
    return (struct inbox_row){
        .seq = m->seq,
        .type = m->type,
        .execution = m->execution,
        .ref = m->ref,
        .time = m->time,
        .event = own(m->event),
    };
}

static void keep_last(struct orchestration *st, const struct store_inbox *m)
{
    reserve(st);
    st->inbox[st->inbox_count++] = row_of(m);
    st->inbox_bytes += m->event.len;
}

/* It stays in the store. */
static void drop_last(struct orchestration *st)
{
    struct bytes event = st->inbox[--st->inbox_count].event;
    st->inbox_bytes -= event.len;
    free((void *)(uintptr_t)event.ptr);
}

struct need {
    struct object *o;
    bool gap;
};

static bool need_row(void *arg, const struct store_inbox *m)
{
    struct need *n = arg;
    struct orchestration *st = orch_of(n->o);
    n->gap = m->seq != n->o->row.inbox_first + (int64_t)st->inbox_count;
    if (n->gap)
        return false;
    keep_last(st, m);
    return true;
}

enum err orch_inbox_need(struct step *s, struct object *o, int64_t from, size_t rows_max,
                         size_t bytes_max, struct error *err)
{
    struct orchestration *st = orch_of(o);
    int64_t to = MIN(o->row.inbox_next, from + (int64_t)rows_max);
    size_t bytes = 0;
    for (int64_t seq = from; seq < o->row.inbox_first + (int64_t)st->inbox_count && seq < to; seq++)
        bytes += st->inbox[seq - o->row.inbox_first].event.len;
    struct need n = {.o = o};
    while (!n.gap && bytes < bytes_max) {
        int64_t next = o->row.inbox_first + (int64_t)st->inbox_count;
        if (next >= to)
            return OK;
        size_t before = st->inbox_bytes;
        enum err rc = store_inbox_read(s->reader, o->row.key, next, (uint32_t)(to - next),
                                       bytes_max - bytes, need_row, &n, err);
        if (rc)
            return rc;
        if (o->row.inbox_first + (int64_t)st->inbox_count == next)
            n.gap = true;
        bytes += st->inbox_bytes - before;
    }
    return n.gap ? error_set(err, ERR_CORRUPT, "inbox of instance '%.*s' has a gap behind row %lld",
                             BYTES_FMT(o->row.id),
                             (long long)(o->row.inbox_first + (int64_t)st->inbox_count))
                 : OK;
}

/* ---- readiness -------------------------------------------------------------------------------------------- */

/* Something that is meant for this execution; rows not in memory are taken to be. */
static bool has_live(const struct object *o)
{
    const struct orchestration *st = orch_of(o);
    for (size_t i = 0; i < st->inbox_count; i++)
        if (orch_row_is_live(o, &st->inbox[i]))
            return true;
    return o->row.inbox_next - o->row.inbox_first > (int64_t)st->inbox_count;
}

bool orch_is_dispatchable(const struct object *o)
{
    if (orch_is_terminal(o) || o->is_deleted || orch_inbox_is_empty(o))
        return false;
    if (o->row.flags & ORCH_TERMINATING)
        return true;
    return o->row.status != ORCH_SUSPENDED && !(o->row.flags & ORCH_START_WAITS) && has_live(o);
}

enum err orch_offer(struct step *s, struct object *o, bool cut, struct error *err)
{
    if (cut)
        orch_of(o)->recovered = false;
    if (!orch_is_dispatchable(o)) {
        if (cut)
            o->row.cut_time = 0; /* what it says was another turn's */
        return OK;
    }
    if ((o->row.flags & ORCH_TERMINATING) && o->row.history_rows == 0) {
        const struct work *w = step_turn(s, o);
        if (!orch_turn_is_current(o, w) || w->state != WORK_FLIGHT) {
            step_turn_notify(s, o); /* ended without a worker, in a step of its own (spec 6.6) */
            return OK;
        }
    }
    if (cut) {
        o->row.cut_seq = o->row.inbox_next - 1;
        o->row.cut_time = s->now;
    }
    bool recovered = orch_of(o)->recovered; /* stays: its group may have no room for it yet */
    struct bytes version = bytes_is_none(o->row.version) ? BYTES_LIT("") : o->row.version;
    return step_turn_ready(s, o, o->row.name, version, recovered, err);
}

/* ---- changes ------------------------------------------------------------------------------------------------ */

enum err orch_arrive(struct step *s, struct object *o, const struct arrival *a, struct error *err)
{
    struct orchestration *st = orch_of(o);
    bool was_ready = orch_is_dispatchable(o);
    bool makes_ready =
        !was_ready && o->row.status != ORCH_SUSPENDED && !(o->row.flags & ORCH_START_WAITS);
    struct store_inbox m = {
        .object = o->row.key,
        .seq = o->row.inbox_next,
        .type = (int32_t)a->type,
        .execution = a->execution,
        .ref = a->ref,
        .time =
            MAX(o->row.updated, s->now), /* lastUpdated never goes back, and the last row has it */
        .ready = makes_ready ? s->now : 0,
        .event = a->event,
    };
    s->wrote = true;
    enum err rc = store_inbox_append(s->store, &m, err);
    if (rc)
        return rc;
    bool is_whole = o->row.inbox_next - o->row.inbox_first == (int64_t)st->inbox_count;
    if (is_whole && st->inbox_count < INBOX_KEPT &&
        st->inbox_bytes + a->event.len <= INBOX_KEPT_BYTES)
        keep_last(st, &m);
    o->row.inbox_next++;
    orch_touch(s, o);
    if (makes_ready) {
        o->row.cut_seq = m.seq;
        o->row.cut_time = s->now;
        st->recovered = false;
    }
    orch_account(o);
    /* Rows not in memory were taken to be live: the work record knows better. */
    return was_ready && step_turn(s, o) ? OK : orch_offer(s, o, false, err);
}

enum err orch_inbox_put_front(struct step *s, struct object *o, const struct arrival *a,
                              struct error *err)
{
    struct orchestration *st = orch_of(o);
    struct store_inbox m = {
        .object = o->row.key,
        .seq = o->row.inbox_first - 1,
        .type = (int32_t)a->type,
        .execution = a->execution,
        .ref = a->ref,
        .time = s->now,
        .event = a->event,
    };
    s->wrote = true;
    enum err rc = store_inbox_append(s->store, &m, err);
    if (rc)
        return rc;
    if (st->inbox_count >=
        INBOX_KEPT) /* thousands may be carried over, and each moves those behind it */
        drop_last(st);
    reserve(st);
    memmove(&st->inbox[1], &st->inbox[0], st->inbox_count * sizeof(*st->inbox));
    st->inbox[0] = row_of(&m);
    st->inbox_count++;
    st->inbox_bytes += a->event.len;
    o->row.inbox_first--;
    orch_account(o);
    return OK;
}

enum err orch_inbox_take_batch(struct step *s, struct object *o, int64_t from, int64_t last,
                               struct error *err)
{
    int64_t front = from - o->row.inbox_first; /* rows that came in front while the turn was out */
    if (last < from)
        return OK;
    if (front <= 0)
        return orch_inbox_take(s, o, last, err);
    struct arrival *kept = arena_array(s->arena, struct arrival, front);
    for (int64_t i = 0; i < front; i++) {
        const struct inbox_row *r = orch_inbox_row(o, o->row.inbox_first + i);
        if (!r)
            return error_set(err, ERR_CORRUPT, "inbox row %lld of instance '%.*s' is gone",
                             (long long)(o->row.inbox_first + i), BYTES_FMT(o->row.id));
        kept[i] = (struct arrival){
            .type = (HistoryEvent__EventTypeCase)r->type,
            .ref = r->ref,
            .execution = r->execution,
            .event = arena_dup(s->arena, r->event),
        };
    }
    enum err rc = orch_inbox_take(s, o, last, err);
    while (!rc && front-- > 0)
        rc = orch_inbox_put_front(s, o, &kept[front], err);
    return rc;
}

#define SWEEP_ROWS 64
#define SWEEP_BYTES_MAX MIB(16) /* of one commit */

/* What an earlier execution left in front is in nobody's way, but would be read by every turn that looks for its first event. */
enum err orch_inbox_sweep(struct step *s, struct object *o, struct error *err)
{
    size_t bytes = 0;
    while (bytes < SWEEP_BYTES_MAX) {
        const struct inbox_row *r;
        int64_t last = o->row.inbox_first - 1;
        enum err rc = orch_inbox_need(s, o, o->row.inbox_first, SWEEP_ROWS, KIB(64), err);
        if (rc)
            return rc;
        while ((r = orch_inbox_row(o, last + 1)) && !orch_row_is_live(o, r)) {
            bytes += r->event.len + sizeof(*r);
            last++;
        }
        if (last < o->row.inbox_first || (rc = orch_inbox_take(s, o, last, err)))
            return rc;
    }
    return OK;
}

enum err orch_inbox_take(struct step *s, struct object *o, int64_t last, struct error *err)
{
    struct orchestration *st = orch_of(o);
    int64_t count = last - o->row.inbox_first + 1;
    if (count <= 0)
        return OK;
    s->wrote = true;
    enum err rc = store_inbox_delete(s->store, o->row.key, o->row.inbox_first, last, 0, NULL, err);
    if (rc)
        return rc;
    size_t gone = MIN((size_t)count, st->inbox_count);
    for (size_t i = 0; i < gone; i++) {
        st->inbox_bytes -= st->inbox[i].event.len;
        free((void *)(uintptr_t)st->inbox[i].event.ptr);
    }
    memmove(&st->inbox[0], &st->inbox[gone], (st->inbox_count - gone) * sizeof(*st->inbox));
    st->inbox_count -= gone;
    o->row.inbox_first = last + 1;
    return OK;
}
