/* kind.c - the table that makes orchestrations an object kind of the engine. */
#include "durabletask/orchestration.h"

#include "engine/engine.h"
#include "rpc/rpc.h"
#include "wire/reader.h"
#include "wire/value.h"
#include "wire/writer.h"

typedef enum err dt_step_fn(struct step *s, struct command *cmd, struct error *err);

static dt_step_fn *const STEPS[] = {
    [DT_START] = orch_start,
    [DT_GET] = orch_get,
    [DT_WAIT] = orch_wait,
    [DT_RAISE] = orch_raise,
    [DT_TERMINATE] = orch_terminate,
    [DT_SUSPEND] = orch_suspend,
    [DT_RESUME] = orch_resume,
    [DT_PURGE] = orch_purge,
    [DT_COMPLETE_TURN] = orch_complete_turn,
    [DT_COMPLETE_TASK] = activity_complete,
    [DT_BAD_TURN] = orch_bad_turn,
    [DT_BAD_TASK] = activity_bad,
    [DT_HISTORY] = orch_history_page,
    [DT_LIST] = orch_list,
    [DT_RESTART] = orch_restart,
    [DT_SKIP_GRACEFUL] = orch_skip_graceful,
};

static enum err command(struct step *s, struct command *cmd, struct error *err)
{
    uint32_t hub;
    if (cmd->type == DT_COMPLETE_TURN && !cmd->arena)
        return OK; /* a chunk that was stored when this batch was stepped before; its ids may be gone */
    if (s->e && !s->settings->hub_auto_create) { /* an unknown hub is an error, not an empty hub */
        enum err rc = step_hub(s, cmd->hub, false, &hub, err);
        if (rc)
            return rc;
    }
    return STEPS[cmd->type](s, cmd, err);
}

/* A completion names its item by token, or by ids. */
static void refused(struct engine *e, struct command *cmd)
{
    struct bytes token, id = cmd->id;
    int32_t task = 0;
    bool is_turn = cmd->type == DT_COMPLETE_TURN || cmd->type == DT_BAD_TURN;
    if (cmd->type == DT_COMPLETE_TURN) {
        token = wire_view(((const OrchestratorResponse *)cmd->request)->completiontoken);
    } else if (cmd->type == DT_COMPLETE_TASK) {
        const ActivityResponse *r = cmd->request;
        token = wire_view(r->completiontoken);
        task = r->taskid;
    } else if (cmd->type == DT_BAD_TURN || cmd->type == DT_BAD_TASK) {
        const struct dt_bad *bad = cmd->request;
        token = bad->token;
        task = bad->task_id;
    } else {
        return;
    }
    struct token t;
    if (token.len == 0)
        cmd->item = work_answered(e, cmd, is_turn ? WORK_TURN : WORK_TASK, id, task);
    else if (token_decode(engine_tokens(e), token, &t))
        cmd->item = (struct item_ref){t.kind, t.kind == WORK_TURN ? t.object : t.key, t.nonce};
}

static void *ping_build(void)
{
    struct strbuf out = {0};
    wire_put_bytes(&out, 4, BYTES_LIT("")); /* WorkItem.healthPing */
    struct rpc_msg *msg = rpc_msg_new(out.len);
    memcpy(rpc_msg_data(msg), out.ptr, out.len);
    strbuf_deinit(&out);
    return msg;
}

static bool turn_may_go(const struct object *o)
{
    return orch_is_dispatchable(o);
}

/* Activities run on after COMPLETED, FAILED and continue-as-new; those of a TERMINATED execution end with the worker that has them
 * (spec 6.6). */
/* ActivityRequest.orchestrationInstance.instanceId. */
static struct bytes task_instance(const struct store_task *t)
{
    struct bytes id = wire_bytes_find(wire_bytes_find(t->payload, 4), 1);
    return bytes_is_none(id) ? BYTES_LIT("") : id;
}

static bool task_may_go(const struct object *o, const struct store_task *t)
{
    return o->row.status != ORCH_TERMINATED || o->row.execution != t->execution;
}

const struct object_kind ORCHESTRATION = {
    .id = OBJECT_ORCHESTRATION,
    .name = "orchestration",
    .load = orch_load,
    .unload = orch_unload,
    .command = command,
    .refused = refused,
    .timer = orch_timer,
    .mail = orch_mail,
    .turn_check = orch_turn_check,
    .turn_may_go = turn_may_go,
    .turn_returned = orch_turn_returned,
    .turn_recut = orch_turn_recut,
    .turn_is_stale = orch_turn_is_stale,
    .turn_build = orch_turn_build,
    .task_build = activity_build,
    .task_may_go = task_may_go,
    .task_instance = task_instance,
    .ping_build = ping_build,
    .waiter_met = orch_waiter_met,
    .waiter_answer = orch_waiter_answer,
    .waiter_late = orch_waiter_late,
};
