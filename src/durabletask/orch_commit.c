/* orch_commit.c - a worker's answer to a turn: whose it is, chunks, and the commit (spec 4.3, 4.4, 8.2). */
#include "durabletask/orchestration.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "engine/engine.h"
#include "wire/failure.h"
#include "wire/pack.h"
#include "wire/reader.h"
#include "wire/value.h"

/* ---- whose answer it is ----------------------------------------------------------------------------------- */

struct answered {
    struct object *o;  /* NULL: nothing to do, answer OK */
    struct turn turn;  /* the batch it settles */
    struct work *work; /* may be NULL (token-less, after a restart) */
    bool token_less;
};

static void log_stale(const char *what, struct bytes instance)
{
    LOG(LOG_DEBUG, "completion ignored", LOG_STR("reason", what), LOG_BYTES("instance", instance));
}

static enum err by_ids(struct step *s, struct command *cmd, struct bytes instance,
                       struct answered *a, struct error *err)
{
    uint32_t hub;
    struct object *o;
    a->token_less = true;
    enum err rc = step_hub(s, cmd->hub, false, &hub, err);
    if (!rc)
        rc = step_find(s, hub, &ORCHESTRATION, instance, &o, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? OK : rc;
    if (orch_is_terminal(o) || !step_tokenless_answer(s, cmd, o))
        return OK;
    struct work *w = step_turn_mutable(s, o);
    if (w)
        cmd->item = (struct item_ref){WORK_TURN, w->key, w->nonce};
    if (orch_turn_is_current(o, w))
        a->turn = w->turn;
    else if ((rc = orch_turn_of_cut(s, o, &a->turn, err)))
        return rc == ERR_NOT_FOUND ? OK : rc;
    a->o = o;
    a->work = w;
    return OK;
}

static enum err by_token(struct step *s, struct command *cmd, struct bytes text,
                         struct bytes instance, struct answered *a, struct error *err)
{
    struct token t;
    uint32_t hub;
    struct object *o;
    if (!token_decode(engine_tokens(s->e), text, &t) || t.kind != WORK_TURN) {
        log_stale("unknown token", instance);
        return OK;
    }
    enum err rc = step_hub(s, cmd->hub, false, &hub, err);
    if (rc == ERR_NOT_FOUND || (!rc && hub != t.hub)) {
        log_stale("token of another task hub", instance);
        return OK;
    }
    if (rc || (rc = step_get(s, t.object, &o, err)))
        return rc == ERR_NOT_FOUND ? OK : rc;
    struct work *w = step_turn_mutable(s, o);
    if (!orch_turn_is_current(o, w) || w->nonce != t.nonce || t.execution != o->row.execution ||
        t.key != o->row.history_rows + 1 || orch_is_terminal(o)) {
        step_count_stale(s);
        log_stale("stale token", instance);
        return OK;
    }
    cmd->item = (struct item_ref){WORK_TURN, w->key, w->nonce};
    if (instance.len > 0 && !bytes_eq(instance, o->row.id))
        return error_set(
            err, ERR_INVALID,
            "the completion names instance '%.*s', but its token is of instance '%.*s'",
            BYTES_FMT(instance), BYTES_FMT(o->row.id));
    a->o = o;
    a->work = w;
    a->turn = w->turn;
    return OK;
}

static enum err find_answered(struct step *s, struct command *cmd, struct bytes token,
                              struct bytes instance, struct answered *a, struct error *err)
{
    *a = (struct answered){0};
    return token.len == 0 ? by_ids(s, cmd, instance, a, err)
                          : by_token(s, cmd, token, instance, a, err);
}

/* ---- chunked completions ------------------------------------------------------------------------------------ */

struct chunk {
    struct chunk *next;
    struct arena *arena; /* of its request, which it owns */
    const OrchestratorResponse *response;
};

struct chunks {
    struct chunk *first, **last;
    int32_t next_index;
    size_t actions, bytes;
};

static void chunks_free(void *arg)
{
    struct chunks *all = arg;
    for (struct chunk *c = all->first, *next; c; c = next) {
        next = c->next;
        arena_free(c->arena);
        free(c);
    }
    free(all);
}

static void chunks_drop(struct work *w)
{
    if (w && w->turn.chunks) {
        w->turn.chunks_free(w->turn.chunks);
        w->turn.chunks = NULL;
    }
}

/* *is_old: stored already. ERR_INVALID: a gap. */
static enum err check_index(const struct answered *a, const OrchestratorResponse *req, bool *is_old,
                            struct error *err)
{
    const struct chunks *all = a->work ? a->work->turn.chunks : NULL;
    int32_t next = all ? all->next_index : 0;
    int32_t index = req->chunkindex ? req->chunkindex->value : next;
    *is_old = false;
    if (index == 0)
        return OK;
    if (index < 0 || index > next)
        return error_set(err, ERR_INVALID,
                         "chunk %d of the completion of instance '%.*s' came, but chunk %d is next",
                         index, BYTES_FMT(a->o->row.id), next);
    *is_old = index < next;
    return OK;
}

/* An answer whose content is no good fails the instance; one too large to keep only if that happens again and again (spec 5.3). */
static enum err refuse_answer(struct step *s, struct command *cmd, const struct answered *a,
                              bool is_too_large, const char *reason, struct error *err)
{
    enum err status = is_too_large ? ERR_LIMIT : ERR_INVALID;
    bool gives_up = !is_too_large ||
                    step_breaks(s, cmd, WORK_TURN, a->o->row.key, s->settings->oversize_breaks);
    if (!gives_up) /* given back: another dispatch may answer with less */
        return error_set(err, status, "%s", reason);
    TaskFailureDetails *failure =
        event_failure(s->arena, is_too_large ? "WorkItemTooLarge" : "InvalidCompletion", true,
                      "The completion of a turn of instance '%.*s' was refused: %s",
                      BYTES_FMT(a->o->row.id), reason);
    enum err rc = orch_fail(s, a->o, &a->turn, failure, err);
    if (!rc && !a->token_less) {
        error_set(command_error(cmd), status, "%s", reason);
        cmd->settled_with_error = true;
    }
    return rc;
}

static bool exceeds_chunk_bytes(const struct step *s, const struct chunks *all,
                                const struct command *cmd)
{
    return all && all->bytes + cmd->bytes > s->settings->turn_chunk_bytes;
}

static enum err refuse_chunks(struct step *s, struct command *cmd, const struct answered *a,
                              struct error *err)
{
    const char *reason = arena_printf(s->arena, "its chunks exceed turn.chunk_bytes (%llu bytes)",
                                      (unsigned long long)s->settings->turn_chunk_bytes);
    return refuse_answer(s, cmd, a, true, reason, err);
}

/* Memory only: the turn stays in flight, and a lost stream drops the chunks. */
static enum err store_chunk(struct step *s, struct command *cmd, const struct answered *a,
                            struct error *err)
{
    const OrchestratorResponse *req = cmd->request;
    struct work *w = a->work;
    bool is_old;
    enum err rc = check_index(a, req, &is_old, err);
    if (rc || is_old || !w)
        return rc;
    if (req->chunkindex && req->chunkindex->value == 0)
        chunks_drop(w);
    struct chunks *all = w->turn.chunks;
    if (!all) {
        all = calloc(1, sizeof(*all));
        ASSERT(all);
        all->last = &all->first;
        w->turn.chunks = all;
        w->turn.chunks_free = chunks_free;
    }
    if (exceeds_chunk_bytes(s, all, cmd))
        return refuse_chunks(s, cmd, a, err);
    struct chunk *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->arena =
        cmd->arena; /* the command is not stepped again with effect: the index is known then */
    c->response = req;
    cmd->arena = NULL;
    *all->last = c;
    all->last = &c->next;
    all->next_index++;
    all->bytes += cmd->bytes;
    all->actions += req->n_actions;
    step_turn_extend(s, w);
    return OK;
}

struct joined {
    OrchestratorAction **actions;
    size_t count;
    bool has_processed;
    int32_t processed;
};

static void join_chunks(struct step *s, const struct chunks *all, const OrchestratorResponse *last,
                        struct joined *j)
{
    const OrchestratorResponse *first = all && all->first ? all->first->response : last;
    *j = (struct joined){
        .actions = last->actions,
        .count = last->n_actions,
        .has_processed = first->numeventsprocessed != NULL,
        .processed = first->numeventsprocessed ? first->numeventsprocessed->value : 0,
    };
    if (first == last)
        return;
    size_t n = 0;
    OrchestratorAction **actions =
        arena_array(s->arena, OrchestratorAction *, all->actions + last->n_actions);
    for (const struct chunk *c = all->first; c; c = c->next)
        for (size_t i = 0; i < c->response->n_actions; i++)
            actions[n++] = c->response->actions[i];
    for (size_t i = 0; i < last->n_actions; i++)
        actions[n++] = last->actions[i];
    j->actions = actions;
    j->count = n;
}

/* ---- the commit -------------------------------------------------------------------------------------------------- */

struct committing {
    struct object *o;
    const struct turn *turn;
    const OrchestratorResponse *response;
    int64_t last; /* last row that is consumed */
    bool has_terminated;
    struct bytes terminated; /* body of executionTerminated */
    struct strbuf frames;
    uint32_t events;
    struct plan plan;
};

/* The rows of the batch that enter history: framed, their resolutions closed. */
static enum err consume(struct step *s, struct committing *c, uint32_t entries, struct error *err)
{
    struct object *o = c->o;
    struct strbuf event = {0};
    c->last = c->turn->first - 1;
    if (entries == 0)
        return OK;
    event_orchestrator_started(&event, c->turn->started);
    orch_frame_put(&c->frames, strbuf_bytes(&event));
    strbuf_deinit(&event);
    c->events = 1;
    for (int64_t seq = c->turn->first; seq <= c->turn->last && c->events < entries; seq++) {
        const struct inbox_row *r = orch_inbox_row(o, seq);
        if (!r)
            return error_set(err, ERR_CORRUPT, "inbox row %lld of instance '%.*s' is gone",
                             (long long)seq, BYTES_FMT(o->row.id));
        c->last = seq;
        if (!orch_row_is_live(o, r))
            continue;
        orch_frame_put(&c->frames, r->event);
        c->events++;
        HistoryEvent__EventTypeCase type = (HistoryEvent__EventTypeCase)r->type;
        struct event_head head;
        if (type == HISTORY_EVENT__EVENT_TYPE_EXECUTION_TERMINATED && event_peek(r->event, &head)) {
            c->has_terminated = true;
            c->terminated = arena_dup(s->arena, head.body);
        } else if (event_is_resolution(type)) {
            orch_open_remove(o, event_resolved_by(type), (int32_t)r->ref);
        }
    }
    if (c->events == c->turn->events)
        c->last = c->turn->last;
    return OK;
}

static struct bytes terminated_input(struct step *s, const struct committing *c)
{
    return arena_dup(s->arena, wire_string_value_find(c->terminated, 1));
}

static TaskFailureDetails *failure_of(struct step *s, const CompleteOrchestrationAction *done)
{
    if (done->failuredetails) {
        wire_failure_cut(done->failuredetails, (unsigned)s->settings->failure_levels);
        return done->failuredetails;
    }
    struct bytes details = wire_string(done->details);
    if (details.len == 0)
        details = BYTES_LIT("The orchestration failed without details");
    return event_failure(s->arena, "OrchestrationFailed", false, "%.*s", BYTES_FMT(details));
}

/* How the turn ends the execution. False: it does not. */
static bool outcome_of(struct step *s, const struct committing *c, struct orch_outcome *out)
{
    const CompleteOrchestrationAction *done = c->plan.completion;
    *out = (struct orch_outcome){.result = BYTES_NONE, .reason = BYTES_NONE};
    if (c->plan.invalid) {
        out->status = ORCH_FAILED;
        out->failure = c->plan.invalid;
        return true;
    }
    bool continues = done && (int)done->orchestrationstatus == ORCH_CONTINUED_AS_NEW;
    if (c->has_terminated) {
        out->reason = terminated_input(s, c);
        out->recurse = wire_varint_find(c->terminated, 2) != 0;
        if (!done || continues) {
            out->status = ORCH_TERMINATED;
            out->result = out->reason;
            return true;
        }
    }
    if (!done || continues)
        return false;
    out->status = (enum orch_status)(int)done->orchestrationstatus;
    out->result = wire_string(done->result);
    if (out->status == ORCH_FAILED)
        out->failure = failure_of(s, done);
    return true;
}

static void set_from_response(struct step *s, struct object *o, const OrchestratorResponse *r)
{
    struct bytes custom = wire_string(r->customstatus);
    object_set(o, &o->row.custom_status, custom.len ? custom : BYTES_NONE);
    if (r->orchestrationtracecontext) {
        size_t size = wire_packed_size(&r->orchestrationtracecontext->base);
        if (size > 0) {
            uint8_t *copy = arena_alloc(s->arena, size);
            wire_pack(&r->orchestrationtracecontext->base, copy, size);
            object_set(o, &o->row.trace, bytes_of(copy, size));
        }
    }
}

static bool is_over_limit(const struct step *s, const struct committing *c)
{
    const struct store_object *row = &c->o->row;
    return row->history_events + c->events + c->plan.events + 1 > s->settings->history_max_events ||
           row->history_bytes + c->frames.len + c->plan.frames.len > s->settings->history_max_bytes;
}

static enum err end_turn(struct step *s, struct committing *c, const struct orch_outcome *out,
                         bool applies, uint64_t key_base, struct error *err)
{
    enum err rc = OK;
    orch_put_completed(s, &c->frames, out);
    if ((rc = orch_history_append(s, c->o, strbuf_bytes(&c->frames), c->events + 1, key_base, err)))
        return rc;
    if (applies && (rc = plan_apply(s, c->o, &c->plan, key_base, true, false, err)))
        return rc;
    return orch_finish(s, c->o, out, err); /* the inbox goes with it */
}

static enum err go_on(struct step *s, struct committing *c, bool continues, uint64_t key_base,
                      struct error *err)
{
    struct object *o = c->o;
    enum err rc;
    if ((rc = orch_history_append(s, o, strbuf_bytes(&c->frames), c->events, key_base, err)) ||
        (rc = plan_apply(s, o, &c->plan, key_base, continues, continues, err)) ||
        (rc = orch_inbox_take_batch(s, o, c->turn->first, c->last, err)) ||
        (!continues && (rc = orch_inbox_sweep(s, o, err))))
        return rc;
    if (o->row.base_status == ORCH_PENDING)
        o->row.base_status = ORCH_RUNNING;
    if (o->row.status == ORCH_PENDING)
        o->row.status = ORCH_RUNNING;
    orch_touch(s, o);
    step_save(s, o);
    step_turn_settle(s, o);
    if (continues && (rc = orch_continue_as_new(s, o, c->plan.completion, err)))
        return rc;
    if ((rc = plan_apply_to_self(s, o, &c->plan, err)))
        return rc;
    orch_account(o);
    return orch_offer(s, o, true, err);
}

static enum err commit_turn(struct step *s, struct command *cmd, struct committing *c,
                            const struct joined *j, bool token_less, struct error *err)
{
    struct object *o = c->o;
    enum err rc = plan_actions(s, o, j->actions, j->count, c->has_terminated, &c->plan, err);
    if (rc)
        return rc;
    struct orch_outcome out;
    bool ends = outcome_of(s, c, &out);
    bool continues = !ends && c->plan.completion;
    bool applies = !c->plan.invalid;
    if (!continues && applies && is_over_limit(s, c)) {
        out = (struct orch_outcome){.status = ORCH_FAILED, .result = BYTES_NONE};
        out.failure = event_failure(s->arena, "HistoryLimitExceeded", true,
                                    "Orchestration '%.*s' would exceed maximum history size",
                                    BYTES_FMT(o->row.id));
        ends = true;
        applies = false;
        if (!token_less) {
            error_set(command_error(cmd), ERR_LIMIT,
                      "Orchestration '%.*s' would exceed maximum history size",
                      BYTES_FMT(o->row.id));
            cmd->settled_with_error = true;
        }
    }
    set_from_response(s, o, c->response);
    o->row.last_started = c->events ? c->turn->started : o->row.last_started;
    uint64_t key_base = 0;
    if (applies) {
        strbuf_append_bytes(&c->frames, strbuf_bytes(&c->plan.frames));
        c->events += c->plan.events;
        if (c->plan.keys && (rc = step_next_key(s, c->plan.keys, &key_base, err)))
            return rc;
    }
    return ends ? end_turn(s, c, &out, applies, key_base, err)
                : go_on(s, c, continues, key_base, err);
}

static enum err apply_answer(struct step *s, struct command *cmd, const struct answered *a,
                             struct error *err)
{
    const OrchestratorResponse *req = cmd->request;
    struct object *o = a->o;
    struct joined j;
    bool is_old;
    enum err rc = check_index(a, req, &is_old, err);
    if (rc)
        return rc;
    bool anew = req->chunkindex && req->chunkindex->value == 0;
    const struct chunks *chunks = a->work && !anew ? a->work->turn.chunks : NULL;
    if (exceeds_chunk_bytes(s, chunks, cmd))
        return refuse_chunks(s, cmd, a, err);
    join_chunks(s, chunks, req, &j);
    uint32_t entries = a->turn.events;
    if (j.has_processed && (j.processed < 0 || (uint32_t)j.processed > entries))
        return error_set(err, ERR_INVALID,
                         "numEventsProcessed is %d, but the turn of instance '%.*s' had %u events",
                         j.processed, BYTES_FMT(o->row.id), entries);
    if (j.has_processed)
        entries = (uint32_t)j.processed;
    if (entries == 0 && j.count == 0) {
        step_turn_abandon(s, o);
        return OK;
    }
    if ((rc = orch_hydrate(s, o, err)) ||
        (rc = orch_inbox_need(s, o, a->turn.first, (size_t)(a->turn.last - a->turn.first + 1),
                              SIZE_MAX, err)))
        return rc;
    struct turn turn = a->turn;
    struct committing c = {.o = o, .turn = &turn, .response = req, .terminated = BYTES_NONE};
    plan_init(&c.plan);
    s->wrote = true; /* open actions change from here on */
    rc = consume(s, &c, entries, err);
    if (!rc)
        rc = commit_turn(s, cmd, &c, &j, a->token_less, err);
    plan_deinit(&c.plan);
    strbuf_deinit(&c.frames);
    return rc;
}

enum err orch_complete_turn(struct step *s, struct command *cmd, struct error *err)
{
    const OrchestratorResponse *req = cmd->request;
    struct answered a;
    enum err rc =
        find_answered(s, cmd, wire_view(req->completiontoken), wire_view(req->instanceid), &a, err);
    if (rc || !a.o)
        return rc;
    if (req->requireshistory) {
        step_turn_again(s, a.o);
        return OK;
    }
    return req->ispartial ? store_chunk(s, cmd, &a, err) : apply_answer(s, cmd, &a, err);
}

enum err orch_bad_turn(struct step *s, struct command *cmd, struct error *err)
{
    const struct dt_bad *bad = cmd->request;
    struct answered a;
    enum err rc = find_answered(s, cmd, bad->token, cmd->id, &a, err);
    if (rc || !a.o)
        return rc;
    if (bad->has_no_room) /* given back */
        return error_set(err, ERR_LIMIT, "%s", bad->reason);
    return refuse_answer(s, cmd, &a, bad->is_too_large, bad->reason, err);
}
