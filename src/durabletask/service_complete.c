/* service_complete.c - completions and abandons of work items (spec 4.3, 5.3, 6.1, 8.5).
 *
 * A completion that does not decode or is too large still settles or gives back its item: what names it is picked out of the
 * bytes (wire/pick.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "durabletask/service_internal.h"
#include "engine/engine.h"
#include "wire/pick.h"
#include "wire/value.h"

static void control_has_tokens(struct engine *e, struct command *cmd)
{
    work_connection_has_tokens(e, cmd->object);
    cmd->done(cmd);
}

/* A token shows that the connection's worker is not token-less. */
static void note_token(struct dt_service *svc, struct rpc_call *call, bool has_token)
{
    struct dt_connection *c = NULL;
    if (has_token && dt_is_token_less(call))
        c = dt_connection_peek(svc, rpc_call_conn_id(call));
    if (!c || c->saw_token)
        return;
    c->saw_token = true;
    dt_control(svc, control_has_tokens, c->id, NULL);
}

/* JAVA leaves its stream unread after an error to a completion (spec 8.2). */
static void completion_finished(struct dt_request *r)
{
    if (r->cmd.status == OK) {
        rpc_call_reply(r->call, rpc_msg_new(0)); /* CompleteTaskResponse */
    } else {
        struct dt_connection *c =
            dt_is_token_less(r->call) ? dt_connection_peek(r->svc, r->cmd.connection) : NULL;
        if (c && !c->saw_token)
            c->error_answered = true;
        rpc_call_fail(r->call, r->cmd.error);
    }
    dt_request_free(r);
}

/* ---- whose it was cannot be told ---- */

struct giving_back {
    struct engine *e;
    const struct dt_bad *of;
};

static void internal_done(struct command *cmd)
{
    command_deinit(cmd);
    free(cmd);
}

/* A bad completion of that item, from nobody. */
static void give_back(void *arg, uint8_t kind, struct bytes hub, struct bytes token)
{
    const struct giving_back *g = arg;
    struct command *cmd = calloc(1, sizeof(*cmd));
    ASSERT(cmd);
    cmd->arena = arena_create();
    struct dt_bad *bad = arena_new(cmd->arena, struct dt_bad);
    bad->token = arena_dup(cmd->arena, token);
    bad->is_too_large = true;
    bad->has_no_room = g->of->has_no_room;
    bad->reason = arena_cstr(cmd->arena, bytes_str(g->of->reason));
    cmd->kind = &ORCHESTRATION;
    cmd->type = kind == WORK_TURN ? DT_BAD_TURN : DT_BAD_TASK;
    cmd->hub = arena_dup(cmd->arena, hub);
    cmd->id = BYTES_LIT("");
    cmd->request = bad;
    cmd->deadline = USEC_NEVER;
    cmd->done = internal_done;
    engine_submit(g->e, cmd);
}

/* The token lay behind what was read: it may be any item of the connection (spec 5.3). */
static void control_give_back(struct engine *e, struct command *cmd)
{
    const struct dt_bad *bad = cmd->request;
    struct giving_back g = {.e = e, .of = bad};
    work_items_of_connection(e, cmd->connection, give_back, &g);
    cmd->status = error_set(command_error(cmd), ERR_LIMIT, "%s", bad->reason);
    cmd->done(cmd);
}

static bool is_token_less(const struct dt_request *r)
{
    const struct dt_connection *c = dt_connection_peek(r->svc, r->cmd.connection);
    return dt_is_token_less(r->call) && !(c && c->saw_token);
}

static void submit_bad(struct dt_request *r, const struct wire_pick *pick, bool is_too_large,
                       const char *reason)
{
    struct arena *arena = r->cmd.arena;
    struct dt_bad *bad = arena_new(arena, struct dt_bad);
    bad->token = arena_dup(arena, wire_pick_token(pick));
    bad->has_task = pick->has_task;
    bad->task_id = pick->task;
    bad->is_too_large = is_too_large;
    bad->has_no_room = rpc_call_has_no_room(r->call);
    bad->reason = arena_cstr(arena, bytes_str(reason));
    r->cmd.id = arena_dup(arena, wire_pick_instance(pick));
    if (bytes_is_none(r->cmd.id))
        r->cmd.id = BYTES_LIT("");
    r->cmd.request = bad;
    r->finish = completion_finished;
    note_token(r->svc, r->call, bad->token.len > 0);
    if (is_too_large && bad->token.len == 0 && (r->cmd.id.len == 0 || !is_token_less(r)))
        r->cmd.control = control_give_back;
    dt_request_submit(r);
}

static void undecodable(struct dt_request *r, enum wire_pick_kind kind, struct bytes msg,
                        const struct error *err)
{
    struct wire_pick *pick = arena_new(r->cmd.arena, struct wire_pick);
    wire_pick_init(pick, kind);
    wire_pick_feed(pick, msg);
    struct bytes token = wire_pick_token(pick);
    if (token.len == 0 && !dt_is_token_less(r->call)) { /* nobody's item */
        rpc_call_fail(r->call, err);
        dt_request_free(r);
        return;
    }
    submit_bad(r, pick, false, err->msg);
}

/* What a kind of completion has of its own. */
struct completion {
    const ProtobufCMessageDescriptor *message;
    enum wire_pick_kind pick;
    enum dt_command good, bad;
};

static const struct completion TURN = {&orchestrator_response__descriptor, WIRE_PICK_ORCHESTRATOR,
                                       DT_COMPLETE_TURN, DT_BAD_TURN};
static const struct completion TASK = {&activity_response__descriptor, WIRE_PICK_ACTIVITY,
                                       DT_COMPLETE_TASK, DT_BAD_TASK};

/* The request with its message; NULL: it does not decode, and is on its way as a bad one or answered. */
static struct dt_request *decode(const struct completion *c, struct dt_service *svc,
                                 struct rpc_call *call, struct arena *arena, struct bytes msg,
                                 void *out)
{
    struct dt_request *r = dt_request_new(svc, call, arena, msg.len, c->good);
    struct error err = {0};
    if (!r)
        return NULL;
    if (!wire_unpack(c->message, arena, msg, &WIRE_LIMITS_COMPLETION, out, &err))
        return r;
    r->cmd.type = (int32_t)c->bad;
    undecodable(r, c->pick, msg, &err);
    return NULL;
}

static void submit(struct dt_request *r, struct bytes id, const void *message, bool has_token)
{
    r->cmd.id = id;
    r->cmd.request = message;
    r->finish = completion_finished;
    note_token(r->svc, r->call, has_token);
    dt_request_submit(r);
}

void dt_complete_turn(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    OrchestratorResponse *m;
    struct dt_request *r = decode(&TURN, service, call, arena, msg, &m);
    if (r)
        submit(r, wire_view(m->instanceid), m, m->completiontoken.len > 0);
}

void dt_complete_task(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    ActivityResponse *m;
    struct dt_request *r = decode(&TASK, service, call, arena, msg, &m);
    if (r)
        submit(r, wire_view(m->instanceid), m, m->completiontoken.len > 0);
}

/* ---- too large to keep ------------------------------------------------------------------------------------ */

static void oversize(struct rpc_call *call, struct dt_service *svc, struct bytes piece, bool last,
                     const struct completion *c)
{
    struct wire_pick *pick = rpc_call_context(call);
    if (!pick) {
        pick = malloc(sizeof(*pick));
        ASSERT(pick);
        wire_pick_init(pick, c->pick);
        rpc_call_set_context(call, pick);
    }
    wire_pick_feed(pick, piece);
    if (!last)
        return;
    rpc_call_set_context(call, NULL);
    struct dt_request *r = dt_request_new(svc, call, arena_create(), 0, c->bad);
    if (r) {
        char reason[128];
        if (rpc_call_has_no_room(call))
            snprintf(reason, sizeof(reason),
                     "too many requests wait for memory; the work comes again");
        else
            snprintf(reason, sizeof(reason),
                     "the completion is larger than request.bytes (%llu bytes)",
                     (unsigned long long)svc->settings->request_bytes);
        submit_bad(r, pick, true, reason);
    }
    free(pick);
}

void dt_oversize_turn(struct rpc_call *call, void *service, struct bytes piece, bool last)
{
    oversize(call, service, piece, last, &TURN);
}

void dt_oversize_task(struct rpc_call *call, void *service, struct bytes piece, bool last)
{
    oversize(call, service, piece, last, &TASK);
}

void dt_oversize_closed(struct rpc_call *call, void *service)
{
    (void)service;
    free(rpc_call_context(call));
    rpc_call_set_context(call, NULL);
}

/* ---- abandon ------------------------------------------------------------------------------------------------ */

static void control_abandon(struct engine *e, struct command *cmd)
{
    struct token t;
    if (token_decode(engine_tokens(e), cmd->id, &t)) {
        uint64_t key = t.kind == WORK_TURN ? t.object : t.key;
        struct item_ref item = {t.kind, key, t.nonce};
        (void)work_abandon_in(e, cmd->hub, &item); /* stale: OK all the same */
    }
    cmd->status = OK;
    cmd->done(cmd);
}

void dt_abandon(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_COMPLETE_TURN);
    struct error err = {0};
    AbandonOrchestrationTaskRequest *req; /* all three have the same one field */
    if (!r)
        return;
    if (wire_unpack(&abandon_orchestration_task_request__descriptor, arena, msg, &WIRE_LIMITS, &req,
                    &err)) {
        rpc_call_fail(call, &err);
        dt_request_free(r);
        return;
    }
    r->cmd.id = wire_view(req->completiontoken);
    r->cmd.control = control_abandon;
    dt_request_submit(r);
}
