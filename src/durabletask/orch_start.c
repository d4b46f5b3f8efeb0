/* orch_start.c - new instances: by a client, as a child, in place of another, as the next execution. */
#include "durabletask/orchestration.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "wire/pack.h"
#include "wire/value.h"
#include "wire/writer.h"

static void set_tags(json_t *object, struct event_tags tags)
{
    for (size_t i = 0; i < tags.count; i++) {
        struct bytes key = wire_view(tags.entries[i]->key),
                     value = wire_view(tags.entries[i]->value);
        json_object_setn_new(object, (const char *)key.ptr, key.len,
                             json_stringn((const char *)value.ptr, value.len));
    }
}

struct bytes orch_tags_json(struct arena *a, struct event_tags tags)
{
    if (tags.count == 0)
        return BYTES_NONE;
    json_t *object = json_object();
    set_tags(object, tags);
    char *text = json_dumps(object, JSON_COMPACT);
    struct bytes copy = arena_dup(a, bytes_str(text));
    free(text);
    json_decref(object);
    return copy;
}

const char *orch_tags_fault(struct bytes stored, struct event_tags over)
{
    json_t *object = NULL, *value;
    const char *key;
    size_t key_len, bytes = 0;
    static_assert(EVENT_TAGS_MAX == 64 && EVENT_TAGS_BYTES_MAX == 8192, "the text says so");
    if (over.count == 0)
        return NULL;
    if (event_tags_have_nul(over))
        return "the key of a tag has a NUL character";
    if (!bytes_is_none(stored))
        object = json_loadb((const char *)stored.ptr, stored.len, JSON_ALLOW_NUL, NULL);
    if (!object)
        object = json_object();
    set_tags(object, over);
    json_object_keylen_foreach(object, key, key_len, value) bytes +=
        key_len + json_string_length(value);
    bool fits = json_object_size(object) <= EVENT_TAGS_MAX && bytes <= EVENT_TAGS_BYTES_MAX;
    json_decref(object);
    return fits ? NULL : "the instance would have more than 64 tags, or 8192 bytes of them";
}

static void set_execution(struct step *s, struct object *o, struct bytes id)
{
    char minted[33];
    if (bytes_is_none(id)) {
        step_hex_id(s, minted);
        id = bytes_of(minted, 32);
    }
    object_set(o, &o->row.execution_id, id);
}

/* executionStarted as the first row of the inbox. */
static enum err put_started(struct step *s, struct object *o, struct event_started *started,
                            bool in_front, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    started->instance = o->row.id;
    started->execution = o->row.execution_id;
    event_execution_started(&event, s->now, started);
    struct arrival a = {
        .type = HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED,
        .execution = o->row.execution,
        .event = strbuf_bytes(&event),
    };
    return in_front ? orch_inbox_put_front(s, o, &a, err) : orch_arrive(s, o, &a, err);
}

enum err orch_create(struct step *s, const struct orch_new *n, struct object **out,
                     struct error *err)
{
    struct object *o;
    enum err rc = step_create(s, n->hub, &ORCHESTRATION, n->id, &o, err);
    if (rc)
        return rc;
    orch_new_state(o)->is_hydrated = true;
    o->row.status = o->row.base_status = ORCH_PENDING;
    object_set(o, &o->row.name, n->started.name);
    object_set(o, &o->row.version, n->started.version);
    object_set(o, &o->row.tags, orch_tags_json(s->arena, n->started.tags));
    object_set(o, &o->row.parent, n->parent);
    object_set(o, &o->row.parent_id, n->parent_id);
    set_execution(s, o, n->execution_id);
    struct event_started started = n->started;
    if (n->start_at > s->now) {
        o->row.flags |= ORCH_START_WAITS;
        o->row.scheduled = started.start_at = n->start_at;
        uint64_t key;
        if ((rc = step_next_key(s, 1, &key, err)))
            return rc;
        struct store_timer t = {
            .due = n->start_at,
            .key = key,
            .object = o->row.key,
            .execution = o->row.execution,
            .what = ORCH_TIMER_START,
        };
        if ((rc = step_timer_add(s, &t, err)))
            return rc;
    }
    step_save(s, o);
    if ((rc = put_started(s, o, &started, false, err)))
        return rc;
    *out = o;
    return OK;
}

enum err orch_replace(struct step *s, struct object *o, struct error *err)
{
    enum err rc;
    if (!orch_is_terminal(o)) {
        if ((rc = orch_tell_replaced(s, o, err)) || (rc = orch_hydrate(s, o, err)))
            return rc;
        LIST_FOR_EACH (&orch_of(o)->open_list, n) { /* what is not handed out yet never will be */
            struct open_action *a = LIST_ENTRY(n, struct open_action, link);
            bool existed;
            if (a->kind == HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED &&
                (rc = step_task_end(s, a->group, a->key, &existed, err)))
                return rc;
        }
    }
    return step_delete(s, o, err);
}

/* ---- StartInstance ------------------------------------------------------------------------------------ */

/* Whether an existing instance gives way (spec 3.2). *keep: success, and it stays. */
static enum err reuse(const struct dt_start *start, const struct object *o, bool *keep,
                      struct error *err)
{
    bool terminal = orch_is_terminal(o);
    bool listed = start->replaceable & DT_STATUS_BIT(o->row.status);
    *keep = start->old_action == 1 && listed;
    if (*keep || (start->old_action == 2 && listed))
        return OK;
    if (!start->has_policy)
        return terminal ? OK
                        : error_set(err, ERR_EXISTS, "Orchestration instance '%.*s' already exists",
                                    BYTES_FMT(o->row.id));
    return listed ? OK
                  : error_set(
                        err, ERR_EXISTS,
                        "Orchestration instance '%.*s' already exists with non-replaceable status",
                        BYTES_FMT(o->row.id));
}

static bool is_execution_id(struct bytes id)
{
    if (id.len != 32)
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (!((id.ptr[i] >= '0' && id.ptr[i] <= '9') || (id.ptr[i] >= 'a' && id.ptr[i] <= 'f')))
            return false;
    return true;
}

static void reply_id(struct command *cmd, struct bytes id)
{
    wire_put_bytes(&cmd->reply, 1, id); /* CreateInstanceResponse.instanceId */
}

enum err orch_start(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_start *start = cmd->request;
    const CreateInstanceRequest *req = start->request;
    uint32_t hub;
    enum err rc = step_hub(s, cmd->hub, true, &hub, err);
    if (rc)
        return rc;
    char minted[33];
    struct bytes id = cmd->id;
    if (id.len == 0) {
        step_hex_id(s, minted);
        id = bytes_of(minted, 32);
    }
    struct object *o;
    rc = step_find(s, hub, &ORCHESTRATION, id, &o, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == OK) {
        bool keep;
        if ((rc = reuse(start, o, &keep, err)))
            return rc;
        if (keep) {
            reply_id(cmd, id);
            return OK;
        }
        if ((rc = orch_replace(s, o, err)))
            return rc;
    }
    struct bytes execution = wire_string(req->executionid);
    struct orch_new n = {
        .hub = hub,
        .id = id,
        .started = event_started_of_request(req),
        .execution_id = is_execution_id(execution) ? execution : BYTES_NONE,
        .start_at = start->start_at,
    };
    if ((rc = orch_create(s, &n, &o, err)))
        return rc;
    reply_id(cmd, id);
    return OK;
}

/* ---- children -------------------------------------------------------------------------------------------- */

static struct bytes encode_parent(struct step *s, const struct object *parent, int32_t task_id)
{
    OrchestrationInstance instance = ORCHESTRATION_INSTANCE__INIT;
    ParentInstanceInfo info = PARENT_INSTANCE_INFO__INIT;
    Google__Protobuf__StringValue execution, name, version;
    instance.instanceid = wire_data(parent->row.id);
    instance.executionid = wire_box(&execution, parent->row.execution_id);
    info.orchestrationinstance = &instance;
    info.taskscheduledid = task_id;
    info.name = wire_box(&name, parent->row.name);
    info.version = wire_box(&version, parent->row.version);
    size_t size = wire_packed_size(&info.base);
    uint8_t *out = arena_alloc(s->arena, size ? size : 1);
    wire_pack(&info.base, out, size);
    return bytes_of(out, size);
}

static enum err child_exists(struct step *s, struct object *parent, int32_t task_id,
                             struct bytes id, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_child_failed(&event, s->now, task_id,
                       event_failure(s->arena, "OrchestrationAlreadyExists", false,
                                     "Orchestration instance '%.*s' already exists",
                                     BYTES_FMT(id)));
    struct arrival a = {
        .type = HISTORY_EVENT__EVENT_TYPE_SUB_ORCHESTRATION_INSTANCE_FAILED,
        .ref = task_id,
        .execution = parent->row.execution,
        .event = strbuf_bytes(&event),
    };
    return orch_arrive(s, parent, &a, err);
}

enum err orch_start_child(struct step *s, struct object *parent, int32_t task_id,
                          const CreateSubOrchestrationAction *action, struct bytes id,
                          struct error *err)
{
    if (id.len > 0 && id.ptr[0] == '@') /* an entity's */
        return child_exists(s, parent, task_id, id, err);
    struct bytes link = encode_parent(s, parent, task_id);
    struct object *o;
    enum err rc = step_find(s, parent->row.hub, &ORCHESTRATION, id, &o, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == OK) {
        if (!orch_is_terminal(o))
            return bytes_eq(o->row.parent, link) ? OK : child_exists(s, parent, task_id, id, err);
        if ((rc = orch_replace(s, o, err)))
            return rc;
    }
    struct event_parent p = {
        .task_id = task_id,
        .name = parent->row.name,
        .version = parent->row.version,
        .instance = parent->row.id,
        .execution = parent->row.execution_id,
    };
    struct orch_new n = {
        .hub = parent->row.hub,
        .id = id,
        .started = event_started_of_action(action),
        .parent = link,
        .parent_id = parent->row.id,
    };
    n.started.parent = &p;
    return orch_create(s, &n, &o, err);
}

/* ---- continue-as-new ------------------------------------------------------------------------------------------ */

/* What the new execution needs to know of the old one's history. */
struct old_history {
    struct arena *arena;
    struct bytes started;    /* the executionStarted it began with; none: not found */
    bool was_suspended_last; /* the last word on suspension in it was executionSuspended */
    struct error *err;
};

static bool look_at(void *arg, struct bytes event)
{
    struct old_history *h = arg;
    struct event_head head;
    if (!event_peek(event, &head))
        return true;
    if (head.type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED && bytes_is_none(h->started))
        h->started = arena_dup(h->arena, event);
    else if (head.type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED)
        h->was_suspended_last = true;
    else if (head.type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_RESUMED)
        h->was_suspended_last = false;
    return true;
}

static enum err look_at_piece(void *arg, struct bytes frames)
{
    struct old_history *h = arg;
    return orch_frames_each(frames, look_at, h, h->err);
}

static enum err put_carryover(struct step *s, struct object *o,
                              const CompleteOrchestrationAction *action, struct error *err)
{
    for (size_t i = action->n_carryoverevents; i-- > 0;) {
        const HistoryEvent *ev = action->carryoverevents[i];
        if (ev->event_type_case != HISTORY_EVENT__EVENT_TYPE_EVENT_RAISED) {
            /* SDKs send no others (spec 6.7). */
            LOG(LOG_WARN, "continue-as-new: an event that cannot be carried over was dropped",
                LOG_BYTES("instance", o->row.id), LOG_INT("type", ev->event_type_case));
            continue;
        }
        CLEANUP(strbuf_deinit) struct strbuf event = {0};
        event_raised(&event, s->now, wire_view(ev->eventraised->name),
                     wire_string(ev->eventraised->input));
        struct arrival a = {.type = ev->event_type_case, .event = strbuf_bytes(&event)};
        enum err rc = orch_inbox_put_front(s, o, &a, err);
        if (rc)
            return rc;
    }
    return OK;
}

static enum err put_suspended(struct step *s, struct object *o, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_execution_suspended(&event, s->now, BYTES_NONE);
    struct arrival a = {.type = HISTORY_EVENT__EVENT_TYPE_EXECUTION_SUSPENDED,
                        .event = strbuf_bytes(&event)};
    return orch_inbox_put_front(s, o, &a, err);
}

/* A turn whose first events were given back (numEventsProcessed) may have left it in the inbox. */
static void look_in_inbox(const struct object *o, struct old_history *h)
{
    for (int64_t i = 0; i < 2 && bytes_is_none(h->started); i++) {
        const struct inbox_row *r = orch_inbox_row(o, o->row.inbox_first + i);
        if (r && r->type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED)
            h->started = arena_dup(h->arena, r->event);
    }
}

/* ---- RestartInstance -------------------------------------------------------------------------------------------- */

enum err orch_started_of(struct step *s, struct object *o, struct event_started *out,
                         struct error *err)
{
    struct old_history old = {.arena = s->arena, .started = BYTES_NONE, .err = err};
    enum err rc = orch_history_each(s, o, look_at_piece, &old, err);
    if (!rc && bytes_is_none(old.started))
        rc = orch_inbox_need(s, o, o->row.inbox_first, 2, SIZE_MAX, err);
    if (rc)
        return rc;
    look_in_inbox(o, &old);
    return event_started_read(s->arena, old.started, out, err);
}

enum err orch_restart(struct step *s, struct command *cmd, struct error *err)
{
    const RestartInstanceRequest *req = cmd->request;
    struct object *o;
    struct event_started started;
    char minted[33];
    enum err rc = orch_target(s, cmd, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? orch_not_found(cmd, err) : rc;
    if (!req->restartwithnewinstanceid && !orch_is_terminal(o))
        return error_set(err, ERR_STATE, "Orchestration instance '%.*s' is not in a terminal state",
                         BYTES_FMT(cmd->id));
    if ((rc = orch_started_of(s, o, &started, err)))
        return rc;
    started.parent = NULL;
    started.start_at = 0;
    started.trace = NULL;
    struct orch_new n = {.hub = o->row.hub, .id = cmd->id, .started = started};
    if (req->restartwithnewinstanceid) {
        step_hex_id(s, minted);
        n.id = bytes_of(minted, 32);
    } else if ((rc = orch_replace(s, o, err))) {
        return rc;
    }
    if ((rc = orch_create(s, &n, &o, err)))
        return rc;
    reply_id(cmd, n.id);
    return OK;
}

/* ---- continue-as-new, the step ----------------------------------------------------------------------------------- */

enum err orch_continue_as_new(struct step *s, struct object *o,
                              const CompleteOrchestrationAction *action, struct error *err)
{
    struct orchestration *st = orch_of(o);
    struct old_history old = {.arena = s->arena, .started = BYTES_NONE, .err = err};
    struct event_started started;
    enum err rc;
    if ((rc = orch_history_each(s, o, look_at_piece, &old, err)))
        return rc;
    look_in_inbox(o, &old);
    if ((rc = event_started_read(s->arena, old.started, &started, err)))
        return rc;
    started.input = arena_dup(s->arena, wire_string(action->result));
    if (action->newversion)
        started.version = wire_string(action->newversion);
    started.tags = event_tags_overlay(s->arena, started.tags, EVENT_TAGS_OF(action));
    started.start_at = 0;

    uint64_t execution;
    if ((rc = step_next_key(s, 1, &execution, err)) ||
        (rc = step_trash(s, STORE_TRASH_EXECUTION, o->row.execution, err)))
        return rc;
    o->row.execution = execution;
    if ((rc = orch_inbox_sweep(s, o, err)))
        return rc;
    o->row.history_rows = o->row.history_events = o->row.history_bytes = 0;
    o->row.last_started = 0;
    strbuf_deinit(&st->frames);
    st->is_framed = false;
    orch_open_clear(o);
    st->is_hydrated = true;
    set_execution(s, o, BYTES_NONE);
    object_set(o, &o->row.version, started.version);
    object_set(o, &o->row.tags, orch_tags_json(s->arena, started.tags));
    object_set(o, &o->row.trace, BYTES_NONE);
    o->row.base_status = ORCH_RUNNING;
    if (o->row.status != ORCH_SUSPENDED)
        o->row.status = ORCH_RUNNING;

    bool terminates = o->row.flags & ORCH_TERMINATING;
    if (terminates) { /* it ends the new execution at once: nothing else of the inbox matters */
        if ((rc = put_started(s, o, &started, true, err)))
            return rc;
        return orch_force_terminate(s, o, err);
    }
    if ((rc = put_carryover(s, o, action, err)))
        return rc;
    if (o->row.status == ORCH_SUSPENDED && old.was_suspended_last &&
        (rc = put_suspended(s, o, err))) /* else it waits in the inbox, and moves along */
        return rc;
    return put_started(s, o, &started, true, err);
}
