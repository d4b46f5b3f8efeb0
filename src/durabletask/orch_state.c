/* orch_state.c - an orchestration in memory: what is read from history and inbox, and kept beside the row. */
#include "durabletask/orchestration.h"

#include <stdlib.h>

#include "base/assert.h"
#include "wire/reader.h"
#include "wire/timestamp.h"
#include "wire/writer.h"

#define FRAMES_KEPT MIB(1) /* longer histories are read from the store for each turn */
#define INBOX_LOADED 64    /* rows read with the object */
#define PAST_EVENTS                                                                                \
    3 /* OrchestratorRequest.pastEvents: the field that stored events are framed as */

/* ---- life ------------------------------------------------------------------------------------------- */

struct orchestration *orch_new_state(struct object *o)
{
    struct orchestration *st = calloc(1, sizeof(*st));
    ASSERT(st);
    list_init(&st->open_list);
    o->state = st;
    return st;
}

void orch_account(struct object *o)
{
    const struct orchestration *st = orch_of(o);
    object_account(o, sizeof(*st) + st->inbox_cap * sizeof(*st->inbox) + st->inbox_bytes +
                          st->frames.cap + st->open_bytes);
}

void orch_open_clear(struct object *o)
{
    struct orchestration *st = orch_of(o);
    LIST_FOR_EACH (&st->open_list, n)
        free(LIST_ENTRY(n, struct open_action, link));
    list_init(&st->open_list);
    hashmap_deinit(&st->open);
    st->open = (struct hashmap){0};
    st->open_bytes = 0;
}

void orch_unload(struct object *o)
{
    struct orchestration *st = orch_of(o);
    if (!st)
        return;
    for (size_t i = 0; i < st->inbox_count; i++)
        free((void *)(uintptr_t)st->inbox[i].event.ptr);
    free(st->inbox);
    strbuf_deinit(&st->frames);
    orch_open_clear(o);
    free(st);
    o->state = NULL;
}

static bool first_row_time(void *arg, const struct store_inbox *m)
{
    *(struct store_inbox *)arg = *m;
    return false;
}

static enum err inbox_is_damaged(const struct object *o, struct error *err)
{
    return error_set(err, ERR_CORRUPT, "a number in the inbox of instance '%.*s' is out of range",
                     BYTES_FMT(o->row.id));
}

static enum err load_inbox(struct step *s, struct object *o, struct error *err)
{
    struct store_object *row = &o->row;
    bool any;
    int64_t first, last;
    enum err rc = store_inbox_bounds(s->reader, row->key, &any, &first, &last, err);
    if (rc)
        return rc;
    if (!any) {
        row->inbox_first = row->inbox_next;
        return OK;
    }
    if (!stored_is_sane(first) || !stored_is_sane(last))
        return inbox_is_damaged(o, err);
    row->inbox_first = first;
    row->inbox_next = last + 1;
    struct store_inbox edge = {0};
    if ((rc = store_inbox_read(s->reader, row->key, last, 1, 1, first_row_time, &edge, err)))
        return rc;
    if (!stored_is_sane(edge.time))
        return inbox_is_damaged(o, err);
    row->updated = MAX(row->updated, edge.time);
    if ((rc = store_inbox_read(s->reader, row->key, first, 1, 1, first_row_time, &edge, err)))
        return rc;
    if (!stored_is_sane(edge.ready))
        return inbox_is_damaged(o, err);
    /* That arrival made the turn ready, with a cut of its own; one that the object's row has is newer. */
    if (edge.ready && (row->cut_time == 0 || row->cut_seq < first)) {
        row->cut_seq = first;
        row->cut_time = edge.ready;
    }
    return orch_inbox_need(s, o, first, INBOX_LOADED, KIB(64), err);
}

enum err orch_load(struct step *s, struct object *o, struct error *err)
{
    orch_new_state(o);
    enum err rc = load_inbox(s, o, err);
    if (rc)
        return rc;
    orch_of(o)->recovered = orch_is_dispatchable(o) && !step_turn(s, o);
    orch_account(o);
    return OK;
}

/* ---- history ------------------------------------------------------------------------------------------ */

void orch_frame_put(struct strbuf *out, struct bytes event)
{
    wire_put_bytes(out, PAST_EVENTS, event);
}

enum err orch_frames_each(struct bytes frames, orch_frame_fn *fn, void *arg, struct error *err)
{
    struct wire_reader r = wire_reader_of(frames);
    struct wire_field f;
    while (wire_next(&r, &f)) {
        if (f.type != WIRE_BYTES || f.number != PAST_EVENTS)
            return error_set(err, ERR_CORRUPT, "a history row holds something else than events");
        if (!fn(arg, f.bytes))
            return OK;
    }
    return r.is_bad ? error_set(err, ERR_CORRUPT, "a history row does not decode") : OK;
}

struct walk {
    orch_piece_fn *fn;
    void *arg;
    enum err rc;
    uint64_t next_row;
    struct object *fill; /* keep the frames in its cache */
};

static bool walk_row(void *arg, const struct store_history *h)
{
    struct walk *w = arg;
    if (h->row != w->next_row) {
        w->rc = ERR_CORRUPT;
        return false;
    }
    w->next_row++;
    if (w->fill) {
        orch_of(w->fill)->last_row = orch_of(w->fill)->frames.len;
        strbuf_append_bytes(&orch_of(w->fill)->frames, h->frames);
    }
    w->rc = w->fn(w->arg, h->frames);
    return w->rc == OK;
}

enum err orch_history_each(struct step *s, const struct object *o, orch_piece_fn *fn, void *arg,
                           struct error *err)
{
    struct orchestration *st = orch_of(o);
    if (o->row.history_rows == 0)
        return OK;
    if (st->is_framed)
        return fn(arg, strbuf_bytes(&st->frames));
    bool keep = o->row.history_bytes <= FRAMES_KEPT;
    struct walk w = {
        .fn = fn, .arg = arg, .next_row = 1, .fill = keep ? (struct object *)(uintptr_t)o : NULL};
    strbuf_reset(&st->frames);
    while (w.next_row <= o->row.history_rows && !w.rc) {
        uint64_t before = w.next_row;
        enum err rc =
            store_history_read(s->reader, o->row.execution, w.next_row, MIB(1), walk_row, &w, err);
        if (rc)
            return rc;
        if (w.next_row == before)
            w.rc = ERR_CORRUPT;
    }
    if (w.rc == ERR_CORRUPT)
        return error_set(err, ERR_CORRUPT,
                         "history of instance '%.*s' has no good row %llu of %llu",
                         BYTES_FMT(o->row.id), (unsigned long long)w.next_row,
                         (unsigned long long)o->row.history_rows);
    if (!w.rc && keep)
        st->is_framed = true;
    return w.rc;
}

enum err orch_history_append(struct step *s, struct object *o, struct bytes frames, uint32_t events,
                             uint64_t key_base, struct error *err)
{
    struct orchestration *st = orch_of(o);
    struct store_history h = {
        .execution = o->row.execution,
        .row = o->row.history_rows + 1,
        .key_base = key_base,
        .events = events,
        .time = s->now,
        .frames = frames,
    };
    s->wrote = true;
    enum err rc = store_history_append(s->store, &h, err);
    if (rc)
        return rc;
    bool was_whole = st->is_framed || o->row.history_rows == 0;
    o->row.history_rows++;
    o->row.history_events += events;
    o->row.history_bytes += frames.len;
    if (was_whole && o->row.history_bytes <= FRAMES_KEPT) {
        st->last_row = st->frames.len;
        strbuf_append_bytes(&st->frames, frames);
        st->is_framed = true;
    } else {
        strbuf_deinit(&st->frames);
        st->is_framed = false;
    }
    return OK;
}

/* ---- open actions --------------------------------------------------------------------------------------- */

struct open_key {
    HistoryEvent__EventTypeCase kind;
    int32_t id;
};

static bool same_open(const struct hash_node *n, const void *key)
{
    const struct open_key *k = key;
    const struct open_action *a = CONTAINER_OF(n, struct open_action, node);
    return a->kind == k->kind && a->id == k->id;
}

static uint64_t open_hash(HistoryEvent__EventTypeCase kind, int32_t id)
{
    return hash_u64(((uint64_t)kind << 32) | (uint32_t)id);
}

struct open_action *orch_open_find(const struct object *o, HistoryEvent__EventTypeCase kind,
                                   int32_t id)
{
    struct open_key key = {kind, id};
    struct hash_node *n = hashmap_find(&orch_of(o)->open, open_hash(kind, id), same_open, &key);
    return n ? CONTAINER_OF(n, struct open_action, node) : NULL;
}

void orch_open_add(struct object *o, const struct open_action *a)
{
    struct orchestration *st = orch_of(o);
    struct open_action *copy = malloc(sizeof(*copy));
    ASSERT(copy);
    *copy = *a;
    hashmap_insert(&st->open, &copy->node, open_hash(a->kind, a->id));
    list_push_back(&st->open_list, &copy->link);
    st->open_bytes += sizeof(*copy) + 16;
}

void orch_open_remove(struct object *o, HistoryEvent__EventTypeCase kind, int32_t id)
{
    struct orchestration *st = orch_of(o);
    struct open_action *a = orch_open_find(o, kind, id);
    if (!a)
        return;
    hashmap_remove(&st->open, &a->node);
    list_remove(&a->link);
    st->open_bytes -= sizeof(*a) + 16;
    free(a);
}

struct bytes orch_task_version(const struct object *o, struct bytes version)
{
    if (!bytes_is_none(version))
        return version;
    return bytes_is_none(o->row.version) ? BYTES_LIT("") : o->row.version;
}

struct hydration {
    struct step *s;
    struct object *o;
    uint64_t next_key;
    enum err rc;
    struct error *err;
};

static enum err hydrate_action(struct hydration *h, const struct event_head *head)
{
    struct open_action a = {.kind = head->type, .id = head->id};
    enum err rc = OK;
    if (head->type == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED ||
        head->type == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED)
        a.key = h->next_key++;
    if (head->type == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED)
        rc = step_group(h->s, h->o->row.hub, WORK_TASK, head->name,
                        orch_task_version(h->o, wire_string_value_find(head->body, 2)), &a.group,
                        h->err);
    if (!rc)
        orch_open_add(h->o, &a);
    return rc;
}

static bool hydrate_event(void *arg, struct bytes event)
{
    struct hydration *h = arg;
    struct event_head head;
    if (!event_peek(event, &head)) {
        h->rc = error_set(h->err, ERR_CORRUPT,
                          "an event in the history of instance '%.*s' does not decode",
                          BYTES_FMT(h->o->row.id));
        return false;
    }
    if (head.type == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED ||
        head.type == HISTORY_EVENT__EVENT_TYPE_TIMER_CREATED ||
        head.type == HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED ||
        head.type == HISTORY_EVENT__EVENT_TYPE_EVENT_SENT)
        h->rc = hydrate_action(h, &head);
    else if (event_is_resolution(head.type))
        orch_open_remove(h->o, event_resolved_by(head.type), head.ref);
    return h->rc == OK;
}

static bool hydrate_row(void *arg, const struct store_history *row)
{
    struct hydration *h = arg;
    h->next_key = row->key_base;
    enum err rc = orch_frames_each(row->frames, hydrate_event, h, h->err);
    if (rc && !h->rc)
        h->rc = rc;
    return h->rc == OK;
}

enum err orch_hydrate(struct step *s, struct object *o, struct error *err)
{
    struct orchestration *st = orch_of(o);
    if (st->is_hydrated)
        return OK;
    struct hydration h = {.s = s, .o = o, .err = err};
    if (o->row.history_rows > 0) {
        enum err rc =
            store_history_read(s->reader, o->row.execution, 1, SIZE_MAX, hydrate_row, &h, err);
        if (rc || h.rc) {
            orch_open_clear(o);
            return rc ? rc : h.rc;
        }
    }
    st->is_hydrated = true;
    orch_account(o);
    return OK;
}
