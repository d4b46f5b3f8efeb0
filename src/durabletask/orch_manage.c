/* orch_manage.c - what operators do to many instances: lists, purge, ending them without their workers (spec 3.8-3.10, 3.17). */
#include "durabletask/orchestration.h"

#include "wire/reader.h"
#include "wire/value.h"
#include "wire/writer.h"

enum err orch_target(struct step *s, struct command *cmd, struct object **o, struct error *err)
{
    uint32_t hub;
    enum err rc = step_hub(s, cmd->hub, false, &hub, err);
    if (!rc)
        rc = step_find(s, hub, &ORCHESTRATION, cmd->id, o, err);
    return rc;
}

enum err orch_not_found(const struct command *cmd, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "Orchestration instance '%.*s' not found",
                     BYTES_FMT(cmd->id));
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

#define EXAMINED_MAX 10000 /* rows a page */
#define ANSWER_MAX 3670016 /* bytes a page: 3.5 MiB */

bool orch_filter_holds(const struct dt_filter *f, const struct store_object *o, usec_t time)
{
    if (f->statuses && !(f->statuses & DT_STATUS_BIT(o->status)))
        return false;
    if (f->ended && !orch_is_terminal_status(o->status))
        return false;
    return time >= f->from && time < f->to && bytes_starts_with(o->id, f->prefix);
}

struct listing {
    struct step *s;
    struct error *err;
    const struct dt_list *req;
    struct dt_listed out;
    struct strbuf id, items; /* the place to go on behind; the fields */
    unsigned examined;
    enum err rc;
};

static void remember_place(struct listing *l, usec_t time, struct bytes id)
{
    l->out.time = time;
    strbuf_reset(&l->id);
    strbuf_append_bytes(&l->id, id);
}

static bool one_listed(void *arg, const struct store_object *o)
{
    struct listing *l = arg;
    usec_t time = l->req->by_completed ? o->completed : o->created;
    bool holds = orch_filter_holds(&l->req->filter, o, time);
    bool is_full = l->out.count == l->req->count_max || l->items.len > ANSWER_MAX;
    if (holds && is_full) { /* there is one more: the page ends behind the last one on it */
        l->out.has_more = true;
        return false;
    }
    if (holds) {
        if (l->req->of == DT_LIST_IDS)
            wire_put_bytes(&l->items, 1, o->id);
        else
            l->rc = orch_state_put(l->s, o, l->req->of == DT_LIST_PAYLOADS, &l->items, l->err);
        l->out.count++;
    }
    if (!is_full)
        remember_place(l, time, o->id);
    l->out.has_more = ++l->examined == EXAMINED_MAX;
    return !l->rc && !l->out.has_more;
}

static enum err list(struct listing *l, struct command *cmd)
{
    const struct dt_list *req = l->req;
    struct store_place after = {.time = req->after_time, .id = req->after_id};
    uint32_t hub;
    enum err rc = store_hub_find(l->s->reader, cmd->hub, &hub, l->err);
    if (rc == ERR_NOT_FOUND && l->s->settings->hub_auto_create)
        return OK; /* it would be empty */
    if (rc == ERR_NOT_FOUND)
        return error_set(l->err, rc, "Task hub '%.*s' not found", BYTES_FMT(cmd->hub));
    if (after.time < req->filter.from)
        after = (struct store_place){.time = req->filter.from, .id = BYTES_LIT("")};
    if (!rc)
        rc = store_object_list(l->s->reader, hub, OBJECT_ORCHESTRATION, req->by_completed, &after,
                               req->filter.to, EXAMINED_MAX, one_listed, l, l->err);
    return rc ? rc : l->rc;
}

enum err orch_list(struct step *s, struct command *cmd, struct error *err)
{
    struct listing l = {.s = s, .err = err, .req = cmd->request};
    bool is_reader = !s->e; /* a connection of its own: one state of the store for the whole page */
    enum err rc = is_reader ? store_reader_begin(s->reader, err) : OK;
    if (rc)
        return rc;
    rc = list(&l, cmd);
    if (is_reader)
        store_reader_end(s->reader);
    l.out.id_len = l.id.len;
    if (!rc) {
        strbuf_append(&cmd->reply, &l.out, sizeof(l.out));
        strbuf_append_bytes(&cmd->reply, strbuf_bytes(&l.id));
        strbuf_append_bytes(&cmd->reply, strbuf_bytes(&l.items));
    }
    strbuf_deinit(&l.id);
    strbuf_deinit(&l.items);
    return rc;
}

/* ---- purge ------------------------------------------------------------------------------------------------------ */

/* An instance on the way from one that was asked for down to its last descendant. */
struct level {
    uint64_t key;
    struct bytes *children; /* ids, in the batch's arena */
    size_t count, cap, next;
};

struct purge {
    struct step *s;
    struct error *err;
    uint32_t hub;
    struct level *levels; /* from the top down */
    size_t depth, cap;
    uint64_t deleted;
    bool has_more;
};

static bool note_child(void *arg, struct bytes event)
{
    struct purge *p = arg;
    struct level *l = &p->levels[p->depth - 1];
    struct event_head head;
    if (!event_peek(event, &head) ||
        head.type != HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_CREATED)
        return true;
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        struct bytes *bigger = arena_array(p->s->arena, struct bytes, cap);
        if (l->count)
            memcpy(bigger, l->children, l->count * sizeof(*bigger));
        l->children = bigger;
        l->cap = cap;
    }
    l->children[l->count++] = arena_dup(p->s->arena, wire_bytes_find(head.body, 1));
    return true;
}

static enum err note_children(void *arg, struct bytes frames)
{
    struct purge *p = arg;
    return orch_frames_each(frames, note_child, p, p->err);
}

static enum err go_down(struct purge *p, struct object *o)
{
    if (p->depth == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 8;
        struct level *bigger = arena_array(p->s->arena, struct level, cap);
        if (p->depth)
            memcpy(bigger, p->levels, p->depth * sizeof(*bigger));
        p->levels = bigger;
        p->cap = cap;
    }
    p->levels[p->depth++] = (struct level){.key = o->row.key};
    return orch_history_each(p->s, o, note_children, p, p->err);
}

/* parent: instanceId 1 and executionId 2 of field 4 of its link. */
static bool is_child_of(const struct object *o, const struct object *parent)
{
    struct bytes instance = wire_bytes_find(o->row.parent, 4);
    return bytes_eq(wire_bytes_find(instance, 1), parent->row.id) &&
           bytes_eq(wire_string_value_find(instance, 2), parent->row.execution_id);
}

/* The next child of the lowest level that has to go first; NULL: none. */
static enum err next_child(struct purge *p, struct object *parent, struct object **child)
{
    struct level *l = &p->levels[p->depth - 1];
    *child = NULL;
    while (l->next < l->count) {
        struct object *o;
        enum err rc = step_find(p->s, p->hub, &ORCHESTRATION, l->children[l->next++], &o, p->err);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
        if (rc == OK && orch_is_terminal(o) && is_child_of(o, parent)) {
            *child = o;
            return OK;
        }
    }
    return OK;
}

/* Deepest first: what is cut off and asked for again goes on where it was. */
static enum err purge_tree(struct purge *p, struct object *top)
{
    enum err rc = go_down(p, top);
    while (!rc && p->depth > 0) {
        struct object *o, *child;
        if ((rc = step_get(p->s, p->levels[p->depth - 1].key, &o, p->err)) ||
            (rc = next_child(p, o, &child)))
            return rc;
        if (child) {
            rc = go_down(p, child);
            continue;
        }
        if (p->deleted == DT_PURGE_STEP) {
            p->has_more = true;
            return OK;
        }
        rc = step_delete(p->s, o, p->err);
        p->deleted++;
        p->depth--;
    }
    return rc;
}

static enum err purge_one(struct purge *p, const struct dt_purge *req, struct bytes id)
{
    struct object *o;
    enum err rc = step_find(p->s, p->hub, &ORCHESTRATION, id, &o, p->err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    if (!orch_is_terminal(o) ||
        (req->filter && !orch_filter_holds(req->filter, &o->row, o->row.created)))
        return OK;
    if (req->recursive) {
        p->depth = 0;
        return purge_tree(p, o);
    }
    p->deleted++;
    return step_delete(p->s, o, p->err);
}

enum err orch_purge(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_purge *req = cmd->request;
    struct purge p = {.s = s, .err = err};
    enum err rc = step_hub(s, cmd->hub, false, &p.hub, err);
    for (size_t i = 0; !rc && i < req->count && !p.has_more; i++)
        rc = purge_one(&p, req, req->ids[i]);
    if (rc && rc != ERR_NOT_FOUND) /* an unknown hub has no instances */
        return rc;
    if (p.deleted > 0)
        wire_put_int(&cmd->reply, 1, (int64_t)p.deleted);
    wire_put_bytes(&cmd->reply, 2, p.has_more ? BYTES_LIT("") : BYTES_LIT("\x08\x01"));
    return OK;
}

/* ---- SkipGracefulOrchestrationTerminations ------------------------------------------------------------------------- */

enum err orch_skip_graceful(struct step *s, struct command *cmd, struct error *err)
{
    const SkipGracefulOrchestrationTerminationsRequest *req = cmd->request;
    uint32_t hub = 0;
    enum err known = step_hub(s, cmd->hub, false, &hub, err);
    if (known && known != ERR_NOT_FOUND)
        return known;
    for (size_t i = 0; i < req->instancebatch->n_instanceids; i++) {
        struct bytes id = wire_view(req->instancebatch->instanceids[i]);
        struct object *o;
        enum err rc = known ? known : step_find(s, hub, &ORCHESTRATION, id, &o, err);
        if (rc == OK && !orch_is_terminal(o))
            rc = orch_terminate_now(s, o, wire_string(req->reason), err);
        else if (rc == OK || rc == ERR_NOT_FOUND)
            wire_put_bytes(&cmd->reply, 1, id);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
    }
    return OK;
}
