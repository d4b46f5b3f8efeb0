/* orch_query.c - what clients see of an instance: state, waits, history (spec 3.3, 3.4, 3.14). */
#include "durabletask/orchestration.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/pack.h"
#include "wire/reader.h"
#include "wire/timestamp.h"
#include "wire/unpack.h"
#include "wire/value.h"
#include "wire/writer.h"

/* ---- payloads: in the first and the last event of history ------------------------------------------------ */

struct find {
    struct step *s;
    HistoryEvent__EventTypeCase type;
    uint64_t row;
    struct bytes body; /* copied */
    bool is_there;     /* the row, and it decodes */
};

static bool find_event(void *arg, struct bytes event)
{
    struct find *f = arg;
    struct event_head head;
    if (!event_peek(event, &head) || head.type != f->type)
        return true;
    f->body = arena_dup(f->s->arena, head.body);
    return false;
}

static void find_in_frames(struct find *f, struct bytes frames)
{
    struct error ignored; /* event_of_row() says which row it is */
    f->is_there = orch_frames_each(frames, find_event, f, &ignored) == OK;
}

static bool find_in_row(void *arg, const struct store_history *h)
{
    struct find *f = arg;
    if (h->row == f->row)
        find_in_frames(f, h->frames);
    return false;
}

/* Body of an event of `row`; none if it is not there. */
static enum err event_of_row(struct step *s, const struct object *o, uint64_t row,
                             HistoryEvent__EventTypeCase type, struct bytes *body,
                             struct error *err)
{
    const struct orchestration *st = orch_of(o);
    struct find f = {.s = s, .row = row, .type = type, .body = BYTES_NONE};
    enum err rc = OK;
    if (st->is_framed && (row == 1 || row == o->row.history_rows)) { /* in memory */
        struct bytes all = strbuf_bytes(&st->frames);
        size_t at = row == 1 ? 0 : st->last_row; /* nothing is there when all rows are empty */
        find_in_frames(&f, at > 0 ? bytes_of(all.ptr + at, all.len - at) : all);
    } else {
        rc = store_history_read(s->reader, o->row.execution, row, 1, find_in_row, &f, err);
    }
    *body = f.body;
    if (!rc && !f.is_there)
        return error_set(err, ERR_CORRUPT, "history of instance '%.*s' has no good row %llu",
                         BYTES_FMT(o->row.id), (unsigned long long)row);
    return rc;
}

static bool take_started(struct orchestration *st, size_t at, struct bytes *body)
{
    struct event_head head;
    if (at >= st->inbox_count ||
        st->inbox[at].type != HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED ||
        !event_peek(st->inbox[at].event, &head))
        return false;
    *body = head.body;
    return true;
}

/* From executionStarted: in the first row of history, unless the first turn gave it back (numEventsProcessed): then still in front
 * of the inbox, or in a later row. */
static enum err input_of(struct step *s, struct object *o, struct bytes *input, struct error *err)
{
    struct bytes body = BYTES_NONE;
    enum err rc = OK;
    *input = BYTES_NONE;
    if (o->row.history_rows > 0)
        rc = event_of_row(s, o, 1, HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED, &body, err);
    if (!rc && bytes_is_none(body) && !orch_is_terminal(o)) {
        rc = orch_inbox_need(s, o, o->row.inbox_first, 2, SIZE_MAX, err);
        if (!rc && !take_started(orch_of(o), 0, &body))
            (void)take_started(orch_of(o), 1, &body);
    }
    for (uint64_t row = 2; !rc && row <= o->row.history_rows && bytes_is_none(body); row++)
        rc = event_of_row(s, o, row, HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED, &body, err);
    if (rc)
        return rc;
    *input = wire_string_value_find(body, 3);
    return OK;
}

/* ---- state -------------------------------------------------------------------------------------------------- */

static void add_tags(struct arena *a, OrchestrationState *state, struct bytes text)
{
    if (bytes_is_none(text))
        return;
    json_t *object = json_loadb((const char *)text.ptr, text.len, JSON_ALLOW_NUL, NULL);
    const char *key;
    size_t key_len;
    json_t *value;
    struct event_tags tags = {0};
    json_object_keylen_foreach(object, key, key_len, value)
    {
        struct bytes v = bytes_of(json_string_value(value), json_string_length(value));
        event_tags_add(a, &tags, arena_dup(a, bytes_of(key, key_len)), arena_dup(a, v));
    }
    json_decref(object);
    state->n_tags = tags.count;
    state->tags = (OrchestrationState__TagsEntry **)(void *)tags.entries;
}

static Google__Protobuf__Timestamp *stamp(struct arena *a, usec_t t)
{
    Google__Protobuf__Timestamp *ts = arena_new(a, Google__Protobuf__Timestamp);
    *ts = wire_time(t);
    return ts;
}

static enum err add_payloads(struct step *s, struct object *o, OrchestrationState *state,
                             struct error *err)
{
    struct bytes input, done;
    enum err rc = input_of(s, o, &input, err);
    if (rc)
        return rc;
    state->input = wire_string_value(s->arena, input);
    if (!orch_is_terminal(o))
        return OK;
    if ((rc = event_of_row(s, o, o->row.history_rows, HISTORY_EVENT__EVENT_TYPE_EXECUTION_COMPLETED,
                           &done, err)))
        return rc;
    state->output = wire_string_value(s->arena, wire_string_value_find(done, 2));
    struct bytes failure = wire_bytes_find(done, 3);
    if (o->row.status == ORCH_FAILED && !bytes_is_none(failure))
        return wire_unpack(&task_failure_details__descriptor, s->arena, failure,
                           &WIRE_LIMITS_COMPLETION, &state->failuredetails, err);
    return OK;
}

static enum err make_state(struct step *s, struct object *o, bool payloads,
                           OrchestrationState *state, struct error *err)
{
    const struct store_object *row = &o->row;
    struct arena *a = s->arena;
    orchestration_state__init(state);
    state->instanceid = wire_data(row->id);
    state->name = wire_data(row->name);
    state->version = row->version.len ? wire_string_value(a, row->version) : NULL;
    state->orchestrationstatus = (OrchestrationStatus)row->status;
    state->createdtimestamp = stamp(a, row->created);
    state->lastupdatedtimestamp = stamp(a, row->updated);
    if (row->scheduled)
        state->scheduledstarttimestamp = stamp(a, row->scheduled);
    if (orch_is_terminal(o))
        state->completedtimestamp = stamp(a, row->completed);
    state->customstatus = row->custom_status.len ? wire_string_value(a, row->custom_status) : NULL;
    state->executionid = wire_string_value(a, row->execution_id);
    state->parentinstanceid = wire_string_value(a, row->parent_id);
    add_tags(a, state, row->tags);
    return payloads ? add_payloads(s, o, state, err) : OK;
}

static enum err put_state(struct step *s, struct object *o, bool payloads, struct strbuf *reply,
                          struct error *err)
{
    OrchestrationState state;
    enum err rc = make_state(s, o, payloads, &state, err);
    if (rc)
        return rc;
    wire_put_bool(reply, 1, true); /* GetInstanceResponse.exists */
    wire_pack_field(2, &state.base, reply);
    return OK;
}

enum err orch_state_put(struct step *s, const struct store_object *row, bool payloads,
                        struct strbuf *out, struct error *err)
{
    struct object o = {.kind = &ORCHESTRATION, .row = *row};
    OrchestrationState state;
    (void)orch_new_state(&o);
    enum err rc = make_state(s, &o, payloads, &state, err);
    if (!rc)
        wire_pack_field(1, &state.base, out);
    orch_unload(&o);
    if (!s->e) /* else the arena is of the whole batch */
        arena_reset(s->arena);
    return rc;
}

static enum err find_target(struct step *s, struct command *cmd, uint32_t *hub, struct object **o,
                            struct error *err)
{
    *hub = 0;
    enum err rc = step_hub(s, cmd->hub, false, hub, err);
    if (!rc)
        rc = step_find(s, *hub, &ORCHESTRATION, cmd->id, o, err);
    return rc;
}

enum err orch_get(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_get *get = cmd->request;
    struct object *o;
    uint32_t hub;
    enum err rc = find_target(s, cmd, &hub, &o, err);
    if (rc == ERR_NOT_FOUND)
        return OK; /* exists = false: an empty answer */
    return rc ? rc : put_state(s, o, get->payloads, &cmd->reply, err);
}

/* ---- waits ------------------------------------------------------------------------------------------------------ */

bool orch_waiter_met(const struct object *o, uint32_t mode)
{
    if (orch_is_terminal(o))
        return true;
    return (mode & DT_WAIT_START) && o->row.base_status != ORCH_PENDING;
}

enum err orch_waiter_answer(struct step *s, struct object *o, uint32_t mode, struct strbuf *reply,
                            struct error *err)
{
    return o ? put_state(s, o, mode & DT_WAIT_PAYLOADS, reply, err) : OK;
}

void orch_waiter_late(const struct object *o, uint32_t mode, struct error *err)
{
    enum err rc = error_set(err, ERR_DEADLINE, "Timed out waiting for instance '%.*s' to %s",
                            BYTES_FMT(o->row.id), mode & DT_WAIT_START ? "start" : "complete");
    (void)rc; /* the code is in *err */
}

enum err orch_wait(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_get *get = cmd->request;
    struct object *o;
    uint32_t hub;
    enum err rc = find_target(s, cmd, &hub, &o, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == OK && orch_waiter_met(o, get->mode))
        return put_state(s, o, get->payloads, &cmd->reply, err);
    return step_wait(s, cmd, hub, &ORCHESTRATION, get->mode, get->wait_id, err);
}

/* ---- history, a page at a time ------------------------------------------------------------------------------------ */

#define CHUNK_EVENTS_MAX 1000
#define CHUNK_EVENTS 1 /* HistoryChunk.events */

struct page {
    struct strbuf *out;
    uint64_t to_row, next_row;
    size_t bytes_max;
    uint32_t events;
    bool is_damaged;
};

/* Whole frames, as many as the row says: else the reader would get a shorter history and call it complete. */
static bool is_whole(const struct store_history *h)
{
    struct wire_reader reader = wire_reader_of(h->frames);
    struct wire_field f;
    uint32_t count = 0;
    while (wire_next(&reader, &f))
        count++;
    return !reader.is_bad && count == h->events;
}

static bool page_row(void *arg, const struct store_history *h)
{
    struct page *p = arg;
    if (h->row > p->to_row)
        return false;
    bool fits = p->events == 0 || (p->events + h->events <= CHUNK_EVENTS_MAX &&
                                   p->out->len + h->frames.len <= p->bytes_max);
    if (!fits)
        return false;
    p->is_damaged = !is_whole(h);
    if (p->is_damaged)
        return false;
    strbuf_append_bytes(p->out, h->frames);
    p->events += h->events;
    p->next_row = h->row + 1;
    return true;
}

static enum err history_target(struct step *s, struct command *cmd, const struct dt_history *h,
                               struct dt_history_page *page, struct error *err)
{
    struct object *o;
    uint32_t hub;
    enum err rc = find_target(s, cmd, &hub, &o, err);
    if (rc == ERR_NOT_FOUND ||
        (!rc && !bytes_is_none(h->execution_id) && !bytes_eq(h->execution_id, o->row.execution_id)))
        return error_set(err, ERR_NOT_FOUND, "Orchestration instance '%.*s' not found",
                         BYTES_FMT(cmd->id));
    if (rc)
        return rc;
    page->execution = o->row.execution;
    page->to_row = o->row.history_rows;
    page->next_row = 1;
    return OK;
}

enum err orch_history_page(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_history *h = cmd->request;
    struct dt_history_page page = {
        .execution = h->execution, .next_row = h->from_row, .to_row = h->to_row};
    enum err rc = h->is_first ? history_target(s, cmd, h, &page, err) : OK;
    if (rc)
        return rc;
    CLEANUP(strbuf_deinit) struct strbuf chunk = {0};
    if (page.next_row <= page.to_row) {
        struct page p = {
            .out = &chunk,
            .to_row = page.to_row,
            .next_row = page.next_row,
            .bytes_max = s->settings->history_chunk_bytes,
        };
        rc = store_history_read(s->reader, page.execution, page.next_row, p.bytes_max, page_row, &p,
                                err);
        if (rc && rc != ERR_CORRUPT)
            return rc;
        if (rc || p.is_damaged || (h->is_first && p.next_row == page.next_row))
            return error_set(err, ERR_CORRUPT,
                             "the history of instance '%.*s' is damaged in the store",
                             BYTES_FMT(cmd->id));
        if (p.next_row == page.next_row)
            return error_set(
                err, ERR_CONFLICT,
                "the history of instance '%.*s' was replaced while it was read; read it again",
                BYTES_FMT(cmd->id));
        page.next_row = p.next_row;
    }
    page.chunk_len = chunk.len;
    strbuf_append(&cmd->reply, &page, sizeof(page));
    strbuf_append(&cmd->reply, chunk.ptr, chunk.len);
    return OK;
}
