#include "server/grpc_listener.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "server/peers.h"

#define LOG_EVERY (10 * USEC_PER_SEC) /* what peers can bring about */

struct front_loop {
    struct grpc_front *front;
    struct loop *loop;
    struct list conns; /* of this loop; its thread only */
    struct loop_task shutdown_task;
    atomic_bool shutdown_posted;
    struct loop_task recheck_task;
    atomic_bool recheck_posted;
};

struct grpc_front {
    struct grpc_front_options opts;
    struct front_loop *loops;
    size_t next_loop;
    struct peers *peers;
    struct loop_listener **listeners;
    size_t listener_count;
    struct loop_task stop_task;
    atomic_bool stop_posted;
    _Atomic uint64_t next_id;
    _Atomic size_t count;
    usec_t refused_at; /* when the last refusal was logged */
    _Atomic uint64_t refused[REFUSALS];
    _Atomic usec_t unsecured_at; /* when the last failed handshake was logged */
    _Atomic uint64_t unsecured;
};

const char *const GRPC_REFUSAL_NAMES[REFUSALS] = {"connections.max", "connections.address",
                                                  "open files"};

struct grpc_conn {
    struct front_loop *fl;
    struct rpc_conn *rpc;
    struct peer *peer;
    struct loop_stream *stream;
    struct loop_timer *timer;
    usec_t armed;
    struct list_node node;
    struct loop_task wake_task;
    atomic_bool wake_posted;
    bool gone; /* freed once the posted wake has run */
};

/* ---- one connection -------------------------------------------------------------------------- */

static void arm(struct grpc_conn *c)
{
    usec_t due = rpc_conn_next_tick(c->rpc);

    if (due >= c->armed) /* later is found out when it fires */
        return;
    c->armed = due;
    loop_timer_set(c->timer, due);
}

static void tick(struct grpc_conn *c)
{
    struct error err = {0};

    if (rpc_conn_tick(c->rpc, loop_now(c->fl->loop), &err) != OK) {
        log_error(LOG_INFO, "rpc: connection closed", &err);
        loop_stream_close(c->stream, false);
        return;
    }
    arm(c);
}

static void on_timer(void *arg)
{
    struct grpc_conn *c = arg;

    c->armed = USEC_NEVER;
    tick(c);
}

static void on_want_send(void *arg)
{
    struct grpc_conn *c = arg;

    if (c->stream)
        loop_stream_want_send(c->stream);
}

static void on_wake_task(struct loop_task *task)
{
    struct grpc_conn *c = CONTAINER_OF(task, struct grpc_conn, wake_task);

    atomic_store(&c->wake_posted, false);
    if (c->gone)
        free(c);
    else
        tick(c);
}

/* From any thread, under the budget's lock: rpc_conn_free() takes it too, so `c` is there. */
static void on_wake(void *arg)
{
    struct grpc_conn *c = arg;

    if (!atomic_exchange(&c->wake_posted, true))
        loop_post(c->fl->loop, &c->wake_task);
}

static bool on_received(struct loop_stream *s UNUSED, void *arg, struct bytes in)
{
    struct grpc_conn *c = arg;
    struct error err = {0};

    if (rpc_conn_recv(c->rpc, in, loop_now(c->fl->loop), &err) != OK) {
        log_error(LOG_INFO, "rpc: connection closed", &err);
        return false;
    }
    arm(c);
    return !rpc_conn_is_finished(c->rpc); /* after the peer's GOAWAY */
}

static void on_produce(struct loop_stream *s, void *arg, struct strbuf *out, size_t max)
{
    struct grpc_conn *c = arg;

    rpc_conn_send(c->rpc, out, max, loop_now(c->fl->loop));
    if (rpc_conn_is_finished(c->rpc))
        loop_stream_close(s, true);
}

static void note_failed_handshake(struct grpc_conn *c, const struct error *why)
{
    struct grpc_front *f = c->fl->front;
    usec_t now = loop_now(c->fl->loop), last = atomic_load(&f->unsecured_at);

    atomic_fetch_add(&f->unsecured, 1);
    if ((last != 0 && now - last < LOG_EVERY) ||
        !atomic_compare_exchange_strong(&f->unsecured_at, &last, now))
        return;
    LOG(LOG_WARN, "rpc: a connection is not secured", LOG_BYTES("peer", rpc_conn_peer(c->rpc)),
        LOG_STR("reason", why->msg));
}

static void on_closed(struct loop_stream *s, void *arg)
{
    struct grpc_conn *c = arg;
    const struct grpc_front_options *opts = &c->fl->front->opts;

    if (loop_stream_tls_error(s))
        note_failed_handshake(c, loop_stream_tls_error(s));
    c->stream = NULL;
    list_remove(&c->node);
    if (opts->closed)
        opts->closed(opts->arg, c->fl->loop, c->rpc);
    rpc_conn_free(c->rpc);
    loop_timer_free(c->timer);
    peers_leave(c->fl->front->peers, c->peer);
    atomic_fetch_sub(&c->fl->front->count, 1);
    c->gone = true;
    if (!atomic_load(&c->wake_posted))
        free(c);
}

/* A socket that was counted: `peer` is its place among those of its address. */
static void open_conn(struct front_loop *fl, int fd, struct bytes name, struct peer *peer)
{
    static const struct loop_stream_ops OPS = {on_received, on_produce, on_closed};
    struct grpc_conn *c = calloc(1, sizeof(*c));
    const struct rpc_conn_events ev = {.want_send = on_want_send, .wake = on_wake, .arg = c};
    const struct grpc_front_options *opts = &fl->front->opts;
    uint64_t id = atomic_fetch_add(&fl->front->next_id, 1) + 1;

    ASSERT(c);
    c->fl = fl;
    c->peer = peer;
    c->armed = USEC_NEVER;
    c->wake_task.fn = on_wake_task;
    c->timer = loop_timer_new(fl->loop, on_timer, c);
    c->stream = loop_stream_new(fl->loop, fd, &OPS, c);
    c->rpc = rpc_conn_new_server(opts->server, id, name, &ev, loop_now(fl->loop));
    list_push_back(&fl->conns, &c->node);
    if (opts->opened)
        opts->opened(opts->arg, fl->loop, c->rpc);
    if (opts->tls)
        loop_stream_secure(c->stream, tls_session_new(opts->tls, TLS_H2, NULL));
    arm(c);
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* A socket on its way to another loop. */
struct handover {
    struct loop_task task;
    struct front_loop *fl;
    int fd;
    struct peer *peer;
    size_t name_len;
    char name[];
};

static void on_handover(struct loop_task *task)
{
    struct handover *h = CONTAINER_OF(task, struct handover, task);

    open_conn(h->fl, h->fd, bytes_of(h->name, h->name_len), h->peer);
    free(h);
}

static void hand_over(struct front_loop *fl, int fd, struct bytes name, struct peer *peer)
{
    struct handover *h = malloc(sizeof(*h) + name.len);

    ASSERT(h);
    *h = (struct handover){
        .task.fn = on_handover, .fl = fl, .fd = fd, .peer = peer, .name_len = name.len};
    memcpy(h->name, name.ptr, name.len);
    loop_post(fl->loop, &h->task);
}

static void refuse(struct grpc_front *f, int fd, struct bytes name, enum grpc_refusal why)
{
    usec_t now = loop_now(f->loops[0].loop);

    if (fd >= 0)
        close(fd);
    atomic_fetch_sub(&f->count, 1);
    atomic_fetch_add(&f->refused[why], 1);
    if (f->refused_at != 0 && now - f->refused_at < LOG_EVERY)
        return;
    f->refused_at = now;
    LOG(LOG_WARN, "rpc: connections are refused", LOG_STR("limit", GRPC_REFUSAL_NAMES[why]),
        LOG_BYTES("peer", name), LOG_UINT("connections", atomic_load(&f->count)));
}

static void on_accept(void *arg, int fd, struct bytes name)
{
    struct grpc_front *f = arg;
    size_t before = atomic_fetch_add(&f->count, 1);

    if (fd < 0 || (f->opts.files_max && before >= f->opts.files_max)) {
        refuse(f, fd, name, REFUSED_FILES);
        return;
    }
    if (before >= f->opts.settings->connections_max) {
        refuse(f, fd, name, REFUSED_MAX);
        return;
    }
    struct peer *peer = peers_enter(f->peers, name, f->opts.settings->connections_address);
    if (!peer) {
        refuse(f, fd, name, REFUSED_ADDRESS);
        return;
    }
    struct front_loop *fl = &f->loops[f->next_loop];
    f->next_loop = (f->next_loop + 1) % f->opts.loop_count;
    if (fl == &f->loops[0])
        open_conn(fl, fd, name, peer);
    else
        hand_over(fl, fd, name, peer);
}

enum err grpc_front_listen(struct grpc_front *f, struct bytes address, struct error *err)
{
    const struct loop_listen_options opts = {.address = address, .backlog = 4096};
    struct loop_listener *ln;

    enum err e = loop_listener_new(f->loops[0].loop, &opts, on_accept, f, &ln, err);
    if (e)
        return e;
    f->listeners = realloc(f->listeners, (f->listener_count + 1) * sizeof(struct loop_listener *));
    ASSERT(f->listeners);
    f->listeners[f->listener_count++] = ln;
    return OK;
}

void grpc_front_addresses(const struct grpc_front *f, struct strbuf *out)
{
    for (size_t i = 0; i < f->listener_count; i++) {
        if (i > 0)
            strbuf_append_char(out, ',');
        loop_listener_address(f->listeners[i], out);
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void free_listeners(struct grpc_front *f)
{
    for (size_t i = 0; i < f->listener_count; i++)
        loop_listener_free(f->listeners[i]);
    f->listener_count = 0;
}

static void on_stop_task(struct loop_task *task)
{
    free_listeners(CONTAINER_OF(task, struct grpc_front, stop_task));
}

void grpc_front_stop_listening(struct grpc_front *f)
{
    if (!atomic_exchange(&f->stop_posted, true))
        loop_post(f->loops[0].loop, &f->stop_task);
}

static void on_shutdown_task(struct loop_task *task)
{
    struct front_loop *fl = CONTAINER_OF(task, struct front_loop, shutdown_task);

    LIST_FOR_EACH (&fl->conns, n) {
        struct grpc_conn *c = LIST_ENTRY(n, struct grpc_conn, node);
        rpc_conn_shutdown(c->rpc);
        arm(c);
    }
}

void grpc_front_shutdown(struct grpc_front *f)
{
    for (size_t i = 0; i < f->opts.loop_count; i++)
        if (!atomic_exchange(&f->loops[i].shutdown_posted, true))
            loop_post(f->loops[i].loop, &f->loops[i].shutdown_task);
}

static void on_recheck_task(struct loop_task *task)
{
    struct front_loop *fl = CONTAINER_OF(task, struct front_loop, recheck_task);

    atomic_store(&fl->recheck_posted, false);
    LIST_FOR_EACH (&fl->conns, n)
        rpc_conn_recheck(LIST_ENTRY(n, struct grpc_conn, node)->rpc);
}

void grpc_front_recheck(struct grpc_front *f)
{
    for (size_t i = 0; i < f->opts.loop_count; i++)
        if (!atomic_exchange(&f->loops[i].recheck_posted, true))
            loop_post(f->loops[i].loop, &f->loops[i].recheck_task);
}

size_t grpc_front_connections(const struct grpc_front *f)
{
    return atomic_load(&f->count);
}

uint64_t grpc_front_refused(const struct grpc_front *f, enum grpc_refusal why)
{
    return atomic_load(&f->refused[why]);
}

uint64_t grpc_front_failed_handshakes(const struct grpc_front *f)
{
    return atomic_load(&f->unsecured);
}

struct grpc_front *grpc_front_new(const struct grpc_front_options *opts)
{
    struct grpc_front *f = calloc(1, sizeof(*f));

    ASSERT(f && opts->loop_count > 0);
    f->opts = *opts;
    f->peers = peers_new();
    f->stop_task.fn = on_stop_task;
    f->loops = calloc(opts->loop_count, sizeof(*f->loops));
    ASSERT(f->loops);
    for (size_t i = 0; i < opts->loop_count; i++) {
        f->loops[i].front = f;
        f->loops[i].loop = opts->loops[i];
        f->loops[i].shutdown_task.fn = on_shutdown_task;
        f->loops[i].recheck_task.fn = on_recheck_task;
        list_init(&f->loops[i].conns);
    }
    f->opts.loops = NULL; /* the copy counts */
    return f;
}

void grpc_front_free(struct grpc_front *f)
{
    if (!f)
        return;
    free_listeners(f);
    for (size_t i = 0; i < f->opts.loop_count; i++)
        LIST_FOR_EACH (&f->loops[i].conns, n)
            loop_stream_close(LIST_ENTRY(n, struct grpc_conn, node)->stream, false);
    for (size_t i = 0; i < f->opts.loop_count; i++)
        loop_reap(f->loops[i].loop);
    peers_free(f->peers);
    free(f->listeners);
    free(f->loops);
    free(f);
}
