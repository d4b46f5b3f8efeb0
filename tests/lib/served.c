#include "lib/served.h"

#include <stdlib.h>

#include "base/assert.h"
#include "rpc/health.h"

#define RUNS_MAX 100000 /* rounds of one served_run(): more is a hang */

/* ---- what the service asks of its host --------------------------------------------------------- */

static void submit(void *arg, struct command *cmd)
{
    struct served *s = arg;

    engine_submit(s->w->e, cmd);
}

static void *thread_of(void *arg, const struct rpc_call *call)
{
    ASSERT(rpc_call_conn(call)); /* a handler runs while the connection is there */
    return arg;
}

static void post(void *arg, void *thread, struct loop_task *task)
{
    struct served *s = arg;

    ASSERT(thread == s);
    task->next = NULL;
    *s->last = task;
    s->last = &task->next;
}

static bool is_draining(void *arg)
{
    return ((struct served *)arg)->is_draining;
}

static enum err overload(void *arg UNUSED, size_t bytes UNUSED, struct error *err UNUSED)
{
    return OK;
}

static void on_finish(void *arg, const struct rpc_method *method UNUSED, int status,
                      usec_t took UNUSED)
{
    struct served *s = arg;

    ASSERT(status >= 0 && (size_t)status < ARRAY_LEN(s->finished));
    s->finished[status]++;
}

/* ---- connections ------------------------------------------------------------------------------- */

static void want_send(void *arg UNUSED)
{
}

static struct served_conn *conn_new(struct served *s)
{
    const struct rpc_conn_events ev = {.want_send = want_send};
    struct served_conn *c = calloc(1, sizeof(*c));

    ASSERT(c);
    c->s = s;
    c->server = rpc_conn_new_server(s->rpc, ++s->next_id, BYTES_LIT("unix:"), &ev, s->w->mono);
    list_push_back(&s->conns, &c->link);
    return c;
}

struct served_conn *served_by_hand(struct served *s)
{
    return conn_new(s);
}

struct served_conn *served_connect(struct served *s, const char *user_agent)
{
    const struct rpc_conn_events ev = {.want_send = want_send};
    const struct rpc_conn_client_options opts = {.authority = "a", .user_agent = user_agent};
    struct served_conn *c = conn_new(s);

    c->client = rpc_conn_new_client(&opts, &ev, s->w->mono);
    return c;
}

void served_close(struct served_conn *c)
{
    list_remove(&c->link);
    rpc_conn_free(c->client);
    rpc_conn_free(c->server);
    strbuf_deinit(&c->out);
    free(c);
}

bool served_feed(struct served_conn *c, struct bytes in)
{
    size_t piece = c->piece ? c->piece : SIZE_MAX;

    while (in.len > 0 && !c->is_broken) {
        size_t n = MIN(piece, in.len);
        c->is_broken = rpc_conn_recv(c->server, bytes_of(in.ptr, n), c->s->w->mono, NULL) != OK;
        in = bytes_of(in.ptr + n, in.len - n);
    }
    return !c->is_broken;
}

/* From one end to the other. True: something was moved. */
static bool move(struct served_conn *c, struct rpc_conn *from, struct rpc_conn *to)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    usec_t now = c->s->w->mono;

    while (rpc_conn_send(from, &buf, KIB(64), now))
        ;
    size_t piece = c->piece ? c->piece : SIZE_MAX;
    for (size_t at = 0; at < buf.len && !c->is_broken; at += MIN(piece, buf.len - at))
        c->is_broken =
            rpc_conn_recv(to, bytes_of(buf.ptr + at, MIN(piece, buf.len - at)), now, NULL) != OK;
    return buf.len > 0;
}

static bool conn_run(struct served_conn *c)
{
    if (c->is_broken)
        return false;
    if (c->client) {
        bool moved = move(c, c->client, c->server);
        return move(c, c->server, c->client) || moved;
    }
    size_t before = c->out.len;
    while (rpc_conn_send(c->server, &c->out, KIB(64), c->s->w->mono))
        ;
    return c->out.len > before;
}

static void conn_tick(struct served_conn *c)
{
    usec_t now = c->s->w->mono;
    struct rpc_conn *ends[] = {c->server, c->client};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends[i] && !c->is_broken && rpc_conn_next_tick(ends[i]) <= now)
            c->is_broken = rpc_conn_tick(ends[i], now, NULL) != OK;
}

/* ---- running ----------------------------------------------------------------------------------- */

static bool run_tasks(struct served *s)
{
    struct loop_task *t = s->first;

    s->first = NULL;
    s->last = &s->first;
    for (struct loop_task *next; t; t = next) {
        next = t->next;
        t->fn(t);
        if (!next)
            return true;
    }
    return false;
}

static bool run_once(struct served *s)
{
    bool progress = false;

    LIST_FOR_EACH (&s->conns, n)
        progress = conn_run(LIST_ENTRY(n, struct served_conn, link)) || progress;
    progress = engine_run(s->w->e) || progress;
    return run_tasks(s) || progress;
}

void served_run(struct served *s)
{
    unsigned rounds = 0;

    while (run_once(s))
        ASSERT(++rounds < RUNS_MAX);
}

void served_advance(struct served *s, usec_t by)
{
    s->w->wall = usec_add(s->w->wall, by);
    s->w->mono = usec_add(s->w->mono, by);
    LIST_FOR_EACH (&s->conns, n)
        conn_tick(LIST_ENTRY(n, struct served_conn, link));
    served_run(s);
}

struct served *served_new(struct world *w)
{
    struct served *s = calloc(1, sizeof(*s));
    const struct dt_host host = {
        .submit = submit,
        .read = submit,
        .thread = thread_of,
        .post = post,
        .is_draining = is_draining,
        .overload = overload,
        .clock = &w->clock,
        .arg = s,
    };

    ASSERT(s);
    s->w = w;
    s->last = &s->first;
    list_init(&s->conns);
    s->rpc = rpc_server_new(
        &(struct rpc_server_options){.settings = &w->settings, .on_finish = on_finish, .arg = s});
    s->service = dt_service_new(&host, &w->settings);
    dt_service_register(s->service, s->rpc);
    s->health = health_new();
    health_add_service(s->health, "TaskHubSidecarService");
    health_register(s->health, s->rpc);
    health_set(s->health, true);
    return s;
}

void served_free(struct served *s)
{
    LIST_FOR_EACH (&s->conns, n)
        served_close(LIST_ENTRY(n, struct served_conn, link));
    served_run(s); /* what the calls left behind */
    engine_drain_end(s->w->e);
    served_run(s);
    struct world *w = s->w;
    engine_free(w->e); /* answers what it still has, by posting */
    w->e = NULL;
    run_tasks(s);
    dt_service_free(s->service);
    rpc_server_free(s->rpc);
    health_free(s->health);
    world_free(w);
    free(s);
}
