/* activity.c - activities: work items out, results in (spec 6.1). */
#include "durabletask/orchestration.h"

#include "base/log.h"
#include "engine/engine.h"
#include "rpc/rpc.h"
#include "wire/failure.h"
#include "wire/value.h"
#include "wire/writer.h"

#define ITEM_ACTIVITY 2 /* WorkItem.activityRequest */
#define ITEM_TOKEN 10

enum err activity_build(struct step *s, const struct store_task *t, struct bytes token, void **item,
                        size_t *item_bytes, struct error *err)
{
    (void)s;
    (void)err;
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    wire_put_head(&out, ITEM_ACTIVITY, t->payload.len);
    size_t head = out.len;
    wire_put_bytes(&out, ITEM_TOKEN, token);
    struct rpc_msg *msg = rpc_msg_new(out.len + t->payload.len);
    uint8_t *p = rpc_msg_data(msg);
    memcpy(p, out.ptr, head);
    if (t->payload.len)
        memcpy(p + head, t->payload.ptr, t->payload.len);
    memcpy(p + head + t->payload.len, out.ptr + head, out.len - head);
    *item = msg;
    *item_bytes = rpc_msg_len(msg);
    return OK;
}

/* The scheduling that an answer is for; o NULL: none, answer OK. */
struct scheduling {
    struct object *o;
    uint32_t group;
    uint64_t key, execution;
    int32_t task_id;
    bool token_less;
};

/* Nobody waits for this answer any more, but its worker has room again, and nobody shall run the task once more. */
static enum err end_answered(struct step *s, const struct command *cmd, struct bytes instance,
                             int32_t task_id, struct error *err)
{
    uint32_t group;
    uint64_t key;
    bool existed;
    step_count_stale(s);
    if (!step_task_answered(s, cmd, instance, task_id, &group, &key))
        return OK;
    return step_task_end(s, group, key, &existed, err);
}

/* A worker without tokens has a task of an older execution with the same ids, and none has the one that is open. */
static bool is_for_older(struct step *s, const struct command *cmd, struct bytes instance,
                         const struct open_action *a)
{
    uint32_t group;
    uint64_t key;
    return !step_task_is_out_tokenless(s, a->key) &&
           step_task_answered(s, cmd, instance, a->id, &group, &key);
}

static enum err by_ids(struct step *s, struct command *cmd, struct bytes instance, int32_t task_id,
                       struct scheduling *sc, struct error *err)
{
    uint32_t hub;
    struct object *o;
    sc->token_less = true;
    enum err rc = step_hub(s, cmd->hub, false, &hub, err);
    if (!rc)
        rc = step_find(s, hub, &ORCHESTRATION, instance, &o, err);
    if (rc == ERR_NOT_FOUND || (!rc && orch_is_terminal(o)))
        return end_answered(s, cmd, instance, task_id, err);
    if (rc || (rc = orch_hydrate(s, o, err)))
        return rc;
    const struct open_action *a =
        orch_open_find(o, HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED, task_id);
    if (!a || is_for_older(s, cmd, instance, a))
        return end_answered(s, cmd, instance, task_id, err);
    sc->o = o;
    sc->group = a->group;
    sc->key = a->key;
    sc->execution = o->row.execution;
    sc->task_id = task_id;
    cmd->item = step_task_item(s, a->key);
    return OK;
}

static enum err check_ids(struct bytes instance, bool has_task, int32_t task_id,
                          const struct scheduling *sc, struct error *err)
{
    if (instance.len > 0 && !bytes_eq(instance, sc->o->row.id))
        return error_set(
            err, ERR_INVALID,
            "the completion names instance '%.*s', but its token is of instance '%.*s'",
            BYTES_FMT(instance), BYTES_FMT(sc->o->row.id));
    if (has_task && task_id != sc->task_id)
        return error_set(
            err, ERR_INVALID,
            "the completion names task %d of instance '%.*s', but its token is of task %d", task_id,
            BYTES_FMT(sc->o->row.id), sc->task_id);
    return OK;
}

static enum err by_token(struct step *s, struct command *cmd, struct bytes text,
                         struct bytes instance, bool has_task, int32_t task_id,
                         struct scheduling *sc, struct error *err)
{
    struct token t;
    uint32_t hub;
    if (!token_decode(engine_tokens(s->e), text, &t) || t.kind != WORK_TASK) {
        LOG(LOG_DEBUG, "completion ignored", LOG_STR("reason", "unknown token"),
            LOG_BYTES("instance", instance));
        return OK;
    }
    enum err rc = step_hub(s, cmd->hub, false, &hub, err);
    if (rc == ERR_NOT_FOUND || (!rc && hub != t.hub)) {
        LOG(LOG_DEBUG, "completion ignored", LOG_STR("reason", "token of another task hub"),
            LOG_BYTES("instance", instance));
        return OK;
    }
    if (rc)
        return rc;
    sc->group = t.group;
    sc->key = t.key;
    sc->execution = t.execution;
    sc->task_id = t.ref;
    cmd->item = (struct item_ref){WORK_TASK, t.key, t.nonce};
    rc = step_get(s, t.object, &sc->o, err);
    if (rc == ERR_NOT_FOUND ||
        (!rc && (orch_is_terminal(sc->o) || sc->execution != sc->o->row.execution))) {
        bool existed;
        sc->o = NULL; /* nobody waits for it, whatever is wrong with it besides */
        step_count_stale(s);
        return step_task_end(s, t.group, t.key, &existed, err);
    }
    return rc ? rc : check_ids(instance, has_task, task_id, sc, err);
}

static enum err find_scheduling(struct step *s, struct command *cmd, struct bytes token,
                                struct bytes instance, bool has_task, int32_t task_id,
                                struct scheduling *sc, struct error *err)
{
    *sc = (struct scheduling){0};
    return token.len == 0 ? by_ids(s, cmd, instance, task_id, sc, err)
                          : by_token(s, cmd, token, instance, has_task, task_id, sc, err);
}

/* The first answer counts. */
static enum err resolve(struct step *s, const struct scheduling *sc,
                        HistoryEvent__EventTypeCase type, struct bytes event, struct error *err)
{
    bool existed;
    enum err rc = step_task_end(s, sc->group, sc->key, &existed, err);
    if (rc || !existed) {
        if (!rc)
            step_count_stale(s);
        return rc;
    }
    struct arrival a = {
        .type = type, .ref = sc->task_id, .execution = sc->execution, .event = event};
    return orch_arrive(s, sc->o, &a, err);
}

enum err activity_complete(struct step *s, struct command *cmd, struct error *err)
{
    const ActivityResponse *req = cmd->request;
    struct scheduling sc;
    enum err rc = find_scheduling(s, cmd, wire_view(req->completiontoken),
                                  wire_view(req->instanceid), true, req->taskid, &sc, err);
    if (rc || !sc.o)
        return rc;
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    if (!req->failuredetails) {
        event_task_completed(&event, s->now, sc.task_id, wire_string(req->result));
        return resolve(s, &sc, HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED, strbuf_bytes(&event), err);
    }
    wire_failure_cut(req->failuredetails, (unsigned)s->settings->failure_levels);
    event_task_failed(&event, s->now, sc.task_id, req->failuredetails);
    return resolve(s, &sc, HISTORY_EVENT__EVENT_TYPE_TASK_FAILED, strbuf_bytes(&event), err);
}

enum err activity_bad(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_bad *bad = cmd->request;
    struct scheduling sc;
    enum err rc =
        find_scheduling(s, cmd, bad->token, cmd->id, bad->has_task, bad->task_id, &sc, err);
    if (rc || !sc.o)
        return rc;
    if (bad->has_no_room) /* given back */
        return error_set(err, ERR_LIMIT, "%s", bad->reason);
    enum err status = bad->is_too_large ? ERR_LIMIT : ERR_INVALID;
    if (bad->is_too_large && !step_breaks(s, cmd, WORK_TASK, sc.key, s->settings->oversize_breaks))
        return error_set(err, status, "%s", bad->reason);
    CLEANUP(strbuf_deinit) struct strbuf event = {0};
    event_task_failed(
        &event, s->now, sc.task_id,
        event_failure(s->arena, bad->is_too_large ? "WorkItemTooLarge" : "InvalidCompletion", true,
                      "The completion of task %d was refused: %s", sc.task_id, bad->reason));
    if ((rc = resolve(s, &sc, HISTORY_EVENT__EVENT_TYPE_TASK_FAILED, strbuf_bytes(&event), err)))
        return rc;
    if (!sc.token_less) {
        error_set(command_error(cmd), status, "%s", bad->reason);
        cmd->settled_with_error = true;
    }
    return OK;
}
