#include "sim/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "durabletask/service.h"
#include "durabletask/service_internal.h"
#include "engine/internal.h"
#include "sim/flushed.h"
#include "sim/net.h"

#define RUN_TIME 20 /* of a batch without its flushes */
#define OPEN_AGAIN (200 * USEC_PER_MSEC)
#define CHECKPOINT_SHARE 4
#define METHOD_PREFIX "/TaskHubSidecarService/"

enum state { DOWN, UP, DRAINING, DYING };

struct server {
    struct sim *s;
    enum state state;
    bool is_doomed; /* no further batch: it dies when this one is over */
    bool is_dead;   /* being taken down */
    bool in_engine, is_opening;
    usec_t ahead; /* time that passed in the call that is running */
    usec_t busy_until, batch_begun, crashed_at, drain_until;
    usec_t batch_wall; /* wall clock when the batch began */
    struct clock clock;
    struct prng prng;
    uint64_t starts;
    struct store *store;
    struct engine *engine;
    struct store_checkpointer *checkpointer;
    struct rpc_server *rpc;
    struct dt_service *service;
    struct rpc_call *last_call; /* the one whose handler runs */
    void (*request_done)(struct command *cmd);
    struct command *head, **tail;
    size_t queued_bytes;
    uint64_t *batch; /* calls of the batch that is stepped */
    size_t batch_count, batch_cap;
    bool batch_is_open;  /* its commit was not seen yet */
    struct list streams; /* struct stream */
    struct loop_task *leftover, **leftover_tail;
    struct sched_event run_event, die_event, start_event, drain_event, checkpoint_event;
    uint64_t last_stale, last_lost, last_timeout, last_abandon, last_failed, last_ready;
};

/* One GetWorkItems call that the engine knows, between it and the handler's sink. */
struct stream {
    struct list_node link;
    struct server *sv;
    uint64_t id;
    struct call *call;
    void (*open)(struct engine *e, struct command *cmd); /* the handler's */
    struct work_sink sink;                               /* the handler's */
    bool is_open;
    uint32_t capacity[WORK_KINDS], held[WORK_KINDS];
};

usec_t server_mono(const struct server *sv)
{
    return 1000 * USEC_PER_SEC + sim_now(sv->s) + sv->ahead;
}

usec_t server_wall(const struct server *sv)
{
    return sim_wall(sv->s) + sv->ahead;
}

static usec_t clock_wall_now(void *arg)
{
    return server_wall(arg);
}

static usec_t clock_mono_now(void *arg)
{
    return server_mono(arg);
}

static void tell_time(struct server *sv)
{
    model_clock(sv->s->model, server_wall(sv), server_mono(sv));
}

bool server_is_up(const struct server *sv)
{
    return sv->state == UP;
}

bool server_is_running(const struct server *sv)
{
    return sim_now(sv->s) < sv->busy_until;
}

bool server_in_engine(const struct server *sv)
{
    return sv->in_engine;
}

/* ---- what is let out ------------------------------------------------------------------------------------ */

static struct call *call_of(struct server *sv, const struct rpc_call *rpc)
{
    uint64_t id = 0;
    if (!bytes_parse_u64(rpc_call_header(rpc, "x-sim-call"), &id) || id == 0 ||
        id > sv->s->call_count)
        return NULL;
    return sv->s->calls[id - 1];
}

static bool is_observed(const struct server *sv)
{
    return !sv->is_dead && sv->state != DYING && !sv->s->has_failed;
}

static void tell_answer(struct server *sv, struct call *c, const struct command *cmd)
{
    struct bytes reply = strbuf_bytes(&cmd->reply);
    int status = err_grpc_status(cmd->status);
    if (cmd->status == OK && cmd->type == DT_HISTORY && !cmd->control) {
        struct dt_history_page page;
        memcpy(&page, cmd->reply.ptr, sizeof(page));
        if (page.next_row <= page.to_row)
            return; /* more pages follow */
        reply = BYTES_LIT("");
    }
    if (cmd->control || cmd->type == DT_COMPLETE_TURN || cmd->type == DT_COMPLETE_TASK)
        reply = BYTES_LIT("");
    c->is_answered = true;
    sim_trace(sv->s, "answer %" PRIu64 " %s %d %" PRIx64, c->id, c->method, status,
              bytes_hash(reply));
    if (!c->is_known)
        return;
    tell_time(sv);
    if (cmd->status == ERR_CANCELLED)
        model_call_lost(sv->s->model, c->id);
    else
        model_answer(sv->s->model, c->id, status, cmd->status ? cmd->error->msg : "",
                     status ? BYTES_NONE : reply);
}

/* In place of the handler's done(): the moment at which the answer is let out. */
static void request_answered(struct command *cmd)
{
    struct dt_request *r = CONTAINER_OF(cmd, struct dt_request, cmd);
    struct server *sv = r->svc->host.arg;
    struct call *c = call_of(sv, r->call);
    if (c && is_observed(sv))
        tell_answer(sv, c, cmd);
    sv->request_done(cmd);
}

static void sink_send(void *arg, void *item)
{
    struct stream *st = arg;
    struct server *sv = st->sv;
    struct bytes bytes = bytes_of(rpc_msg_data(item), rpc_msg_len(item));
    if (is_observed(sv)) {
        sim_trace(sv->s, "item stream=%" PRIu64 " %zu %" PRIx64, st->id, bytes.len,
                  bytes_hash(bytes));
        tell_time(sv);
        model_item(sv->s->model, st->id, bytes);
    }
    st->sink.send(st->sink.arg, item);
}

static size_t sink_unsent(void *arg)
{
    struct stream *st = arg;
    size_t n = st->sink.unsent(st->sink.arg);
    if (n >= st->sv->s->settings.stream_unsent_bytes)
        hit(HIT_LIMIT_UNSENT);
    return n;
}

static void stream_free(struct stream *st)
{
    list_remove(&st->link);
    free(st);
}

static void sink_end(void *arg, enum err status, const char *message)
{
    struct stream *st = arg;
    struct server *sv = st->sv;
    struct work_sink sink = st->sink;
    if (is_observed(sv)) {
        sim_trace(sv->s, "stream %" PRIu64 " ends %d", st->id, status);
        tell_time(sv);
        model_stream_end(sv->s->model, st->id);
    }
    stream_free(st);
    sink.end(sink.arg, status, message);
}

static struct stream *stream_find(struct server *sv, uint64_t id)
{
    LIST_FOR_EACH (&sv->streams, n)
        if (LIST_ENTRY(n, struct stream, link)->id == id)
            return LIST_ENTRY(n, struct stream, link);
    return NULL;
}

static struct work_stream *engine_stream(struct engine *e, uint64_t id)
{
    LIST_FOR_EACH (&e->stream_list, n)
        if (LIST_ENTRY(n, struct work_stream, all)->opts.id == id)
            return LIST_ENTRY(n, struct work_stream, all);
    return NULL;
}

/* The handler opens its stream; then its items pass here. */
static void stream_opens(struct engine *e, struct command *cmd)
{
    struct server *sv = CONTAINER_OF(e->clock, struct server, clock);
    uint64_t id = cmd->object;
    struct stream *st = stream_find(sv, id);
    st->open(e, cmd);
    struct work_stream *ws = engine_stream(e, id);
    if (!ws) {
        stream_free(st);
        return;
    }
    st->sink = ws->sink;
    ws->sink = (struct work_sink){sink_send, sink_unsent, sink_end, st};
    if (!is_observed(sv) || !st->call)
        return;
    sim_trace(sv->s, "stream %" PRIu64 " opens, call %" PRIu64, id, st->call->id);
    tell_time(sv);
    model_stream_open(sv->s->model, &(struct model_stream){
                                        .id = id,
                                        .connection = ws->opts.connection,
                                        .hub = sim_hub(sv->s, st->call->actor),
                                        .request = st->call->request,
                                        .token_less = ws->opts.token_less,
                                        .capacity_total = ws->opts.capacity_total,
                                    });
}

/* ---- the handlers' host -------------------------------------------------------------------------------------- */

static void wake(struct server *sv)
{
    if (sv->state == UP || sv->state == DRAINING)
        sched_set(&sv->s->sched, &sv->run_event, MAX(sim_now(sv->s), sv->busy_until));
}

static void tell_call(struct server *sv, struct dt_request *r)
{
    struct call *c = call_of(sv, r->call);
    if (!sv->request_done)
        sv->request_done = r->cmd.done;
    r->cmd.done = request_answered;
    if (!c || c->is_known || !is_observed(sv))
        return;
    sv->s->commands++;
    if (strcmp(c->method, "StreamInstanceHistory") == 0)
        return;
    c->is_known = true;
    sim_trace(sv->s, "call %" PRIu64 " %s actor=%" PRIu64, c->id, c->method, c->actor);
    tell_time(sv);
    const char *hub = sim_hub(sv->s, c->actor);
    model_call(sv->s->model, &(struct model_call){
                                 .id = c->id,
                                 .actor = c->actor,
                                 .connection = rpc_call_conn_id(r->call),
                                 .hub = hub,
                                 .method = c->method,
                                 .request = c->request,
                                 .token_less = dt_is_token_less(r->call),
                             });
}

static void host_submit(void *arg, struct command *cmd)
{
    struct server *sv = arg;
    if (cmd->kind && cmd->done != request_answered) {
        tell_call(sv, CONTAINER_OF(cmd, struct dt_request, cmd));
    } else if (!cmd->kind &&
               cmd->context) { /* GetWorkItems: the only control command with a context */
        struct stream *st = calloc(1, sizeof(*st));
        ASSERT(st);
        st->sv = sv;
        st->id = cmd->object;
        st->call = call_of(sv, sv->last_call);
        st->open = cmd->control;
        cmd->control = stream_opens;
        list_push_back(&sv->streams, &st->link);
    }
    cmd->next = NULL;
    *sv->tail = cmd;
    sv->tail = &cmd->next;
    sv->queued_bytes += cmd->bytes;
    wake(sv);
}

static void *host_thread(void *arg, const struct rpc_call *call)
{
    struct server *sv = arg;
    union {
        const struct rpc_call *in;
        struct rpc_call *out;
    } u = {.in = call};
    sv->last_call = u.out;
    return sv;
}

static void run_task(void *arg)
{
    struct loop_task *task = arg;
    task->fn(task);
}

static void host_post(void *arg, void *thread, struct loop_task *task)
{
    struct server *sv = arg;
    (void)thread;
    if (sv->is_dead || sv->state == DYING) {
        task->next = NULL;
        *sv->leftover_tail = task;
        sv->leftover_tail = &task->next;
        return;
    }
    sched_call(&sv->s->sched, sim_now(sv->s) + sv->ahead, run_task, task);
}

static bool host_is_draining(void *arg)
{
    return ((struct server *)arg)->state == DRAINING;
}

static enum err host_overload(void *arg, size_t bytes UNUSED, struct error *err)
{
    struct server *sv = arg;
    const struct settings *set = &sv->s->settings;
    size_t used = disk_bytes(&sv->s->disk), capacity = sv->s->vfs.capacity;
    uint64_t disk_free = capacity == 0 ? UINT64_MAX : capacity > used ? capacity - used : 0;
    usec_t age = sim_now(sv->s) < sv->busy_until ? sim_now(sv->s) - sv->batch_begun : 0;
    if (disk_free < set->overload_disk_free) {
        hit(HIT_LIMIT_DISK_FREE);
        return error_set(err, ERR_LIMIT, "the disk is nearly full");
    }
    if (set->overload_commit_time && age > (usec_t)set->overload_commit_time) {
        hit(HIT_LIMIT_COMMIT_TIME);
        return error_set(err, ERR_LIMIT, "the commit now running takes too long");
    }
    return OK;
}

struct rpc_conn *server_accept(struct server *sv, struct net_conn *c, uint64_t id,
                               const struct rpc_conn_events *ev)
{
    if (sv->state != UP && sv->state != DRAINING)
        return NULL;
    char peer[32];
    (void)snprintf(peer, sizeof(peer), "10.0.0.%" PRIu64 ":1", c->actor);
    struct rpc_conn *rpc = rpc_conn_new_server(sv->rpc, id, bytes_str(peer), ev, server_mono(sv));
    rpc_conn_set_context(rpc, sv);
    return rpc;
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

static void add_to_batch(struct server *sv, struct command *cmd)
{
    struct call *c = NULL;
    if (cmd->kind && !cmd->control)
        c = call_of(sv, CONTAINER_OF(cmd, struct dt_request, cmd)->call);
    if (!c)
        return;
    if (sv->batch_count == sv->batch_cap) {
        sv->batch_cap = MAX((size_t)64, sv->batch_cap * 2);
        sv->batch = realloc(sv->batch, sv->batch_cap * sizeof(*sv->batch));
        ASSERT(sv->batch);
    }
    sv->batch[sv->batch_count++] = c->id;
}

static void committed(void *arg, usec_t took, uint64_t commands, bool ok)
{
    struct server *sv = arg;
    struct model_batch b = {sv->batch_wall, sv->batch, sv->batch_count};
    (void)took;
    (void)commands;
    if (!is_observed(sv))
        return;
    sv->batch_is_open = false;
    sim_trace(sv->s, "commit of %zu calls: %s", b.count, ok ? "ok" : "failed");
    if (b.count >= 8)
        hit(HIT_BATCH_LARGE);
    tell_time(sv);
    if (ok)
        model_commit(sv->s->model, &b);
    else
        model_commit_failed(sv->s->model, &b);
}

static void keep_log_bounded(struct server *sv)
{
    struct store_stats stats;
    struct error err = {0};
    store_stats(sv->store, &stats);
    if (stats.wal_bytes > sv->s->settings.wal_bytes / CHECKPOINT_SHARE)
        sched_set(&sv->s->sched, &sv->checkpoint_event, sim_now(sv->s) + sv->ahead);
    if (stats.wal_bytes <= sv->s->settings.wal_bytes)
        return;
    if (store_log_restart(sv->store, USEC_PER_SEC, &err) == OK)
        hit(HIT_LOG_RESTART);
}

static void note_stats(struct server *sv)
{
    struct engine_stats st;
    engine_stats(sv->engine, &st);
    hit_add(HIT_STALE, st.stale_completions - sv->last_stale);
    hit_add(HIT_AGAIN_LOST, st.redelivered_lost - sv->last_lost);
    hit_add(HIT_AGAIN_TIMEOUT, st.redelivered_timeout - sv->last_timeout);
    hit_add(HIT_AGAIN_ABANDON, st.redelivered_abandon - sv->last_abandon);
    hit_add(HIT_COMMIT_REFUSED, st.commits_failed - sv->last_failed);
    if (st.objects_cached >= sv->s->settings.cache_objects)
        hit(HIT_LIMIT_CACHE);
    if (st.ready[WORK_TASK] >= sv->s->settings.ready_group)
        hit(HIT_LIMIT_READY);
    sv->last_stale = st.stale_completions;
    sv->last_lost = st.redelivered_lost;
    sv->last_timeout = st.redelivered_timeout;
    sv->last_abandon = st.redelivered_abandon;
    sv->last_failed = st.commits_failed;
}

static void die_at(struct server *sv, usec_t at)
{
    sched_set(&sv->s->sched, &sv->die_event, at);
}

static void tell_stream(void *arg, const struct work_stream_options *o, usec_t connected,
                        const uint32_t unsettled[WORK_KINDS])
{
    struct server *sv = arg;
    (void)connected;
    model_stream_figure(sv->s->model, o->id, unsettled[WORK_TURN], unsettled[WORK_TASK]);
}

/* Nothing is left to do: what should have happened by now is looked for. */
static void tell_idle(struct server *sv)
{
    if (!is_observed(sv) || sv->state != UP || !engine_is_healthy(sv->engine))
        return;
    tell_time(sv);
    LIST_FOR_EACH (&sv->streams, n) {
        struct stream *st = LIST_ENTRY(n, struct stream, link);
        if (st->sink.unsent)
            model_stream_slow(sv->s->model, st->id,
                              st->sink.unsent(st->sink.arg) >= sv->s->settings.stream_unsent_bytes);
    }
    model_idle(sv->s->model);
    work_streams_each(sv->engine, tell_stream, sv);
}

static void run(void *arg)
{
    struct server *sv = arg;
    struct sim *s = sv->s;
    if (sv->is_doomed)
        return;
    sv->batch_count = 0;
    sv->batch_begun = sim_now(s);
    sv->batch_wall = sim_wall(s);
    sv->batch_is_open = true;
    for (struct command *cmd = sv->head, *next; cmd; cmd = next) {
        next = cmd->next;
        add_to_batch(sv, cmd);
        engine_submit(sv->engine, cmd);
    }
    sv->head = NULL;
    sv->tail = &sv->head;
    sv->queued_bytes = 0;
    sv->in_engine = true;
    bool more = engine_run(sv->engine);
    if (sv->state != DYING) {
        sv->batch_is_open = false;
        keep_log_bounded(sv);
    }
    sv->in_engine = false;
    if (!more && !sv->head)
        tell_idle(sv);
    sv->busy_until = sim_now(s) + sv->ahead + RUN_TIME;
    sv->ahead = 0;
    if (sv->state == DYING) {
        die_at(sv, sv->crashed_at);
        return;
    }
    note_stats(sv);
    usec_t idle = more || sv->head ? 0 : engine_idle_time(sv->engine);
    sched_set(&s->sched, &sv->run_event, sv->busy_until + idle);
}

void server_checkpoint(struct server *sv)
{
    sched_set(&sv->s->sched, &sv->checkpoint_event, sim_now(sv->s));
}

static void checkpoint(void *arg)
{
    struct server *sv = arg;
    struct error err = {0};
    if (sv->state != UP && sv->state != DRAINING)
        return;
    if (server_is_running(sv)) {
        sched_set(&sv->s->sched, &sv->checkpoint_event, sv->busy_until);
        return;
    }
    if (store_checkpoint(sv->checkpointer, &err) == OK)
        hit(HIT_CHECKPOINT);
    sim_trace(sv->s, "checkpoint");
    if (sv->state == DYING)
        die_at(sv, sim_now(sv->s));
}

/* ---- the end of a process ------------------------------------------------------------------------------------------ */

/* The armed crash has come, in a call of the VFS or of the store. */
static void vfs_crashed(void *arg)
{
    struct server *sv = ((struct sim *)arg)->server;
    if (sv->is_opening)
        hit(HIT_CRASH_OPENING);
    if (sv->engine &&
        !sv->engine->is_healthy) /* it is refused, or the store is being opened again */
        sv->batch_is_open = false;
    sv->crashed_at = sim_now(sv->s) + sv->ahead;
    sim_trace(sv->s, "crash at %" PRId64 "%s", sv->crashed_at,
              sv->batch_is_open ? ", in a batch" : "");
    sv->state = DYING;
}

static void run_leftovers(struct server *sv)
{
    while (sv->head || sv->leftover) {
        struct command *cmd = sv->head;
        struct loop_task *task = sv->leftover;
        if (cmd) {
            if (!(sv->head = cmd->next))
                sv->tail = &sv->head;
            if (cmd->control) {
                cmd->control(sv->engine, cmd);
                continue;
            }
            cmd->status = error_set(command_error(cmd), ERR_UNAVAILABLE, "the server is stopping");
            cmd->done(cmd);
            continue;
        }
        if (!(sv->leftover = task->next))
            sv->leftover_tail = &sv->leftover;
        task->fn(task);
    }
}

static void take_down(struct server *sv)
{
    struct sim *s = sv->s;
    sv->is_dead = true;
    sched_cancel(&s->sched, &sv->run_event);
    sched_cancel(&s->sched, &sv->checkpoint_event);
    sched_cancel(&s->sched, &sv->drain_event);
    net_server_gone(s);
    if (sv->engine) {
        run_leftovers(sv);
        struct engine *e = sv->engine;
        engine_free(e);
        sv->engine = NULL;
        run_leftovers(sv);
    }
    while (!list_is_empty(&sv->streams))
        stream_free(LIST_ENTRY(list_first(&sv->streams), struct stream, link));
    dt_service_free(sv->service);
    rpc_server_free(sv->rpc);
    store_checkpointer_close(sv->checkpointer);
    store_close(sv->store);
    sv->service = NULL;
    sv->rpc = NULL;
    sv->checkpointer = NULL;
    sv->store = NULL;
    sv->is_dead = sv->is_doomed = false;
    sv->state = DOWN;
}

static enum disk_cut draw_cut(struct sim *s)
{
    uint64_t luck = prng_below(&s->disk_prng, 10);
    enum disk_cut how = luck < 3 ? DISK_CUT_NONE : luck < 5 ? DISK_CUT_ALL : DISK_CUT_SOME;
    hit(how == DISK_CUT_NONE ? HIT_CUT_NONE : how == DISK_CUT_ALL ? HIT_CUT_ALL : HIT_CUT_SOME);
    return how;
}

static void die(void *arg)
{
    struct server *sv = arg;
    struct sim *s = sv->s;
    struct model_batch b = {sv->batch_wall, sv->batch, sv->batch_count};
    bool in_batch = sv->batch_is_open;
    bool is_clean = sv->state == DRAINING;
    sv->is_doomed = true;
    if (sv->state != DYING && server_is_running(sv)) { /* what the batch lets out leaves first */
        die_at(sv, sv->busy_until);
        return;
    }
    if (!is_clean)
        vfs_kill(&s->vfs);
    sched_cancel(&s->sched, &sv->die_event);
    take_down(sv);
    sv->batch_is_open = false;
    tell_time(sv);
    model_crash(s->model, in_batch ? &b : NULL);
    enum disk_cut how = is_clean ? DISK_CUT_NONE : draw_cut(s);
    if (!is_clean) {
        s->crashes++;
        disk_crash(&s->disk, how);
    }
    vfs_revive(&s->vfs);
    sim_trace(s, "process ends, cut %d", how);
    usec_t pause = draw_time(&s->disk_prng, 10 * USEC_PER_MSEC, 3 * USEC_PER_SEC);
    sched_set(&s->sched, &sv->start_event, sim_now(s) + pause);
}

void server_crash(struct server *sv)
{
    if (sv->state != UP && sv->state != DRAINING)
        return;
    sv->state = UP;
    sv->is_doomed = true;
    hit(HIT_CRASH_IDLE);
    die_at(sv, MAX(sim_now(sv->s), sv->busy_until));
}

/* ---- drain ----------------------------------------------------------------------------------------------------------- */

static void drain_step(void *arg)
{
    struct server *sv = arg;
    struct sim *s = sv->s;
    if (sv->state != DRAINING)
        return;
    bool is_over = engine_in_flight(sv->engine) == 0 || sim_now(s) >= sv->drain_until;
    if (server_is_running(sv) || !is_over) {
        sched_set(&s->sched, &sv->drain_event, sim_now(s) + 50 * USEC_PER_MSEC);
        return;
    }
    engine_drain_end(sv->engine);
    hit(HIT_DRAINED);
    LIST_FOR_EACH (&s->conns, n) {
        struct net_conn *c = LIST_ENTRY(n, struct net_conn, link);
        if (c->server)
            rpc_conn_shutdown(c->server);
    }
    wake(sv);
    die_at(sv, sim_now(s) + 300 * USEC_PER_MSEC);
}

void server_stop(struct server *sv)
{
    if (sv->state != UP || heap_has(&sv->die_event.node))
        return;
    sim_trace(sv->s, "SIGTERM");
    sv->state = DRAINING;
    sv->drain_until = sim_now(sv->s) + (usec_t)sv->s->settings.drain_time;
    engine_drain(sv->engine);
    sched_set(&sv->s->sched, &sv->drain_event, sim_now(sv->s));
}

/* ---- the start of a process ------------------------------------------------------------------------------------------- */

static int64_t image_number(struct sim *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = 0;
    if (sqlite3_prepare_v2(s->image, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static void note_recovery(struct server *sv)
{
    struct sim *s = sv->s;
    char sql[128];
    if (sv->starts == 1)
        return;
    int64_t inbox = image_number(s, "SELECT count(*) FROM inbox");
    int64_t tasks = image_number(s, "SELECT count(*) FROM task");
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM timer WHERE due <= %" PRId64,
                   server_wall(sv));
    int64_t timers = image_number(s, sql);
    int64_t mail = image_number(s, "SELECT count(*) FROM mailbox");
    hit_add(HIT_RECOVER_TURNS, inbox > 0);
    hit_add(HIT_RECOVER_TASKS, tasks > 0);
    hit_add(HIT_RECOVER_TIMERS, timers > 0);
    hit_add(HIT_RECOVER_MAIL, mail > 0);
    hit_add(HIT_RECOVER_EMPTY, inbox + tasks == 0);
    hit_add(HIT_AGAIN_RESTART, inbox + tasks > 0);
}

static enum err open_store(struct server *sv, struct error *err)
{
    struct sim *s = sv->s;
    struct store_options so = {
        .url = bytes_str(s->url),
        .settings = &s->settings,
        .clock = &sv->clock,
        .prng = &sv->prng,
        .vfs = SIM_VFS,
    };
    if (vfs_settle(&s->vfs, "sim.db-wal"))
        return error_set(err, ERR_STORE_OPEN, "the log cannot be flushed");
    enum err rc = store_open(&so, &sv->store, err);
    if (rc) {
        sv->store = NULL;
        return rc;
    }
    return store_checkpointer_open(sv->store, &sv->checkpointer, err);
}

static void make_parts(struct server *sv)
{
    static const struct object_kind *const KINDS[] = {&ORCHESTRATION, NULL};
    struct sim *s = sv->s;
    struct engine_options eo = {
        .store = sv->store,
        .settings = &s->settings,
        .clock = &sv->clock,
        .prng = &sv->prng,
        .kinds = KINDS,
        .front = &ORCHESTRATION,
    };
    sv->engine = engine_new(&eo);
    engine_on_commit(sv->engine, committed, sv);
    sv->rpc = rpc_server_new(&(struct rpc_server_options){.settings = &s->settings});
    struct dt_host host = {
        .submit = host_submit,
        .read = host_submit,
        .thread = host_thread,
        .post = host_post,
        .is_draining = host_is_draining,
        .overload = host_overload,
        .clock = &sv->clock,
        .arg = sv,
    };
    sv->service = dt_service_new(&host, &s->settings);
    dt_service_register(sv->service, sv->rpc);
}

static void start(void *arg)
{
    struct server *sv = arg;
    struct sim *s = sv->s;
    struct error err = {0};
    sv->starts++;
    sv->prng = sched_stream(s->seed, "server", sv->starts);
    sv->is_opening = true;
    sv->in_engine = true;
    sv->state = DOWN;
    enum err rc = open_store(sv, &err);
    sv->is_opening = sv->in_engine = false;
    usec_t took = sv->ahead;
    sv->ahead = 0;
    if (sv->state == DYING) {
        die_at(sv, sim_now(s) + took);
        return;
    }
    if (rc) {
        sim_trace(s, "the store does not open: %s", err_name(rc));
        if (rc != ERR_UNAVAILABLE && err.code != ERR_STORE_OPEN)
            sim_fail(s, "open", "the store does not open: %s", err.msg);
        hit(HIT_REOPEN_FAILED);
        store_checkpointer_close(sv->checkpointer);
        sv->checkpointer = NULL;
        store_close(sv->store);
        sv->store = NULL;
        sched_set(&s->sched, &sv->start_event, sim_now(s) + OPEN_AGAIN);
        return;
    }
    sim_trace(s, "process starts");
    sv->last_stale = sv->last_lost = sv->last_timeout = sv->last_abandon = sv->last_failed = 0;
    tell_time(sv);
    model_recovered(s->model);
    note_recovery(sv);
    sv->in_engine = true;
    make_parts(sv);
    sv->in_engine = false;
    sv->busy_until = sim_now(s) + sv->ahead;
    sv->ahead = 0;
    if (sv->state == DYING) {
        die_at(sv, sim_now(s));
        return;
    }
    sv->state = UP;
    sched_set(&s->sched, &sv->run_event, sv->busy_until);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static usec_t vfs_wall(void *arg)
{
    return server_wall(((struct sim *)arg)->server);
}

static void vfs_takes(void *arg, usec_t time)
{
    struct server *sv = ((struct sim *)arg)->server;
    if (sv->in_engine)
        sv->ahead += time;
}

static usec_t vfs_sync_time(void *arg)
{
    struct sim *s = arg;
    usec_t t = draw_time(&s->sync_prng, s->sync_min, s->sync_max);
    if (s->opts.sync_time)
        return s->opts.sync_time;
    return sim_now(s) < s->sync_slow_until ? t * 20 : t;
}

struct server *server_new(struct sim *s)
{
    struct server *sv = calloc(1, sizeof(*sv));
    ASSERT(sv);
    sv->s = s;
    sv->clock = (struct clock){clock_wall_now, clock_mono_now, sv};
    sv->tail = &sv->head;
    sv->leftover_tail = &sv->leftover;
    list_init(&sv->streams);
    sv->run_event = (struct sched_event){.fn = run, .arg = sv};
    sv->die_event = (struct sched_event){.fn = die, .arg = sv};
    sv->start_event = (struct sched_event){.fn = start, .arg = sv};
    sv->drain_event = (struct sched_event){.fn = drain_step, .arg = sv};
    sv->checkpoint_event = (struct sched_event){.fn = checkpoint, .arg = sv};
    s->server = sv;
    s->vfs.wall = vfs_wall;
    s->vfs.takes = vfs_takes;
    s->vfs.sync_time = vfs_sync_time;
    s->vfs.crashed = vfs_crashed;
    s->vfs.arg = s;
    return sv;
}

void server_start(struct server *sv)
{
    sched_set(&sv->s->sched, &sv->start_event, sim_now(sv->s));
}

void server_free(struct server *sv)
{
    if (!sv)
        return;
    if (sv->store)
        take_down(sv);
    struct sched_event *events[] = {&sv->run_event, &sv->die_event, &sv->start_event,
                                    &sv->drain_event, &sv->checkpoint_event};
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        sched_cancel(&sv->s->sched, events[i]);
    free(sv->batch);
    free(sv);
}

bool server_is_idle(struct server *sv)
{
    struct engine_stats st;
    if (sv->state != UP || sv->head || server_is_running(sv))
        return false;
    engine_stats(sv->engine, &st);
    for (unsigned k = 1; k < WORK_KINDS; k++)
        if (st.ready[k] || st.flight[k])
            return false;
    return st.paused == 0;
}

static void tell_count(void *arg, struct bytes hub, uint8_t kind, int32_t status, int64_t count)
{
    struct server *sv = arg;
    char name[80];
    (void)kind;
    (void)snprintf(name, sizeof(name), "%.*s", BYTES_FMT(hub));
    model_figure(sv->s->model, "instances", name, status, count);
}

void server_figures(struct server *sv)
{
    struct engine_stats st;
    struct error err = {0};
    engine_stats(sv->engine, &st);
    if (engine_counts(sv->engine, tell_count, sv, &err))
        sim_fail(sv->s, "figures", "the counters cannot be read: %s", err.msg);
    model_figure(sv->s->model, "waiters", NULL, 0, (int64_t)st.waiters);
    model_figure(sv->s->model, "timers", NULL, 0, (int64_t)st.timers);
    model_figure(sv->s->model, "streams", NULL, 0, (int64_t)st.streams);
    int64_t ready = (int64_t)st.paused, flight = 0;
    for (unsigned k = 1; k < WORK_KINDS; k++) {
        ready += (int64_t)st.ready[k];
        flight += (int64_t)st.flight[k];
    }
    model_figure(sv->s->model, "ready", NULL, 0, ready);
    model_figure(sv->s->model, "flight", NULL, 0, flight);
}

void server_print_work(struct server *sv)
{
    if (!sv->engine)
        return;
    HASHMAP_FOR_EACH (&sv->engine->works, n) {
        const struct work *w = CONTAINER_OF(n, struct work, node);
        fprintf(stderr,
                "  %s %" PRIu64 " of object %" PRIu64 ": state %d stream %" PRIu64
                " connection %" PRIu64 "\n",
                w->kind == WORK_TURN ? "turn" : "task", w->key, w->object, w->state,
                w->stream ? w->stream->opts.id : 0, w->stream ? w->stream->opts.connection : 0);
    }
    LIST_FOR_EACH (&sv->engine->stream_list, n) {
        const struct work_stream *st = LIST_ENTRY(n, struct work_stream, all);
        fprintf(stderr,
                "  stream %" PRIu64 " connection %" PRIu64 " %.*s unsettled %u+%u unsent %zu\n",
                st->opts.id, st->opts.connection, BYTES_FMT(st->opts.user_agent),
                st->unsettled[WORK_TURN], st->unsettled[WORK_TASK], st->sink.unsent(st->sink.arg));
    }
}
