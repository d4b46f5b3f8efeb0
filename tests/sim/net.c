#include "sim/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/server.h"
#include "wire/pack.h"
#include "wire/reader.h"

#define IN_FLIGHT_MAX KIB(64) /* of a pipe: then the sender waits */
#define SEND_PIECE KIB(32)

struct chunk {
    struct chunk *next;
    usec_t at;
    size_t len, taken;
    uint8_t data[];
};

static usec_t client_mono(const struct net_conn *c)
{
    return 1000 * USEC_PER_SEC + sim_now(c->s);
}

/* ---- pipes --------------------------------------------------------------------------------------------- */

static void pipe_drop(struct pipe *p)
{
    for (struct chunk *k = p->first, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    p->first = NULL;
    p->last = &p->first;
    p->bytes = 0;
}

static void pipe_arm(struct sim *s, struct pipe *p)
{
    if (p->first && !heap_has(&p->deliver.node))
        sched_set(&s->sched, &p->deliver, MAX(p->first->at, p->stalled_until));
}

static void pipe_put(struct net_conn *c, struct pipe *p, const uint8_t *data, size_t len)
{
    struct sim *s = c->s;
    while (len > 0 && !p->drops) {
        size_t n = len;
        if (s->is_nasty && draw_one_in(&c->p, 3)) {
            n = 1 + prng_below(&c->p, MIN(len, (size_t)200));
            hit(HIT_CONN_SPLIT);
        }
        struct chunk *k = malloc(sizeof(*k) + n);
        ASSERT(k);
        usec_t delay =
            s->is_nasty ? draw_time(&c->p, 50, 20 * USEC_PER_MSEC) : draw_time(&c->p, 30, 400);
        *k = (struct chunk){.at = MAX(p->last_at, sim_now(s) + delay), .len = n};
        memcpy(k->data, data, n);
        p->last_at = k->at;
        *p->last = k;
        p->last = &k->next;
        p->bytes += n;
        data += n;
        len -= n;
    }
    pipe_arm(s, p);
}

/* The bytes that are due, at most the reader's portion. */
static void pipe_take(struct net_conn *c, struct pipe *p, struct strbuf *out)
{
    usec_t now = sim_now(c->s);
    size_t room = p->read_max ? p->read_max : SIZE_MAX;
    while (p->first && p->first->at <= now && room > 0) {
        struct chunk *k = p->first;
        size_t n = MIN(room, k->len - k->taken);
        strbuf_append(out, k->data + k->taken, n);
        k->taken += n;
        room -= n;
        p->bytes -= n;
        if (k->taken < k->len)
            break;
        if (!(p->first = k->next))
            p->last = &p->first;
        free(k);
    }
    if (p->first)
        sched_set(&c->s->sched, &p->deliver,
                  MAX(MAX(p->first->at, p->stalled_until), now + (p->read_max ? 2000 : 0)));
}

/* ---- ends ------------------------------------------------------------------------------------------------ */

static void server_end(struct net_conn *c)
{
    struct rpc_conn *rpc = c->server;
    c->server = NULL;
    sched_cancel(&c->s->sched, &c->server_send);
    sched_cancel(&c->s->sched, &c->server_tick);
    rpc_conn_free(rpc);
}

static void conn_free(struct net_conn *c)
{
    struct sim *s = c->s;
    server_end(c);
    struct rpc_conn *rpc = c->client;
    c->client = NULL;
    rpc_conn_free(rpc);
    struct sched_event *events[] = {&c->client_send, &c->client_tick, &c->ends, &c->up.deliver,
                                    &c->down.deliver};
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        sched_cancel(&s->sched, events[i]);
    pipe_drop(&c->up);
    pipe_drop(&c->down);
    list_remove(&c->link);
    free(c);
}

static void conn_ends(void *arg)
{
    struct net_conn *c = arg;
    void (*closed)(void *) = c->closed;
    void *closed_arg = c->arg;
    conn_free(c);
    if (closed)
        closed(closed_arg);
}

/* Never inside a callback of rpc/: as an event. */
static void conn_end_soon(struct net_conn *c, usec_t after)
{
    usec_t at = sim_now(c->s) + after;
    if (!heap_has(&c->ends.node) || c->ends.at > at)
        sched_set(&c->s->sched, &c->ends, at);
}

static void arm_tick(struct net_conn *c, struct rpc_conn *rpc, struct sched_event *ev)
{
    usec_t due = rpc_conn_next_tick(rpc);
    if (due == USEC_NEVER)
        return;
    due -= 1000 * USEC_PER_SEC;
    if (!heap_has(&ev->node) || ev->at > due)
        sched_set(&c->s->sched, ev, due);
}

static void want_client_send(void *arg)
{
    struct net_conn *c = arg;
    sched_set(&c->s->sched, &c->client_send, sim_now(c->s));
}

static void want_server_send(void *arg)
{
    struct net_conn *c = arg;
    sched_set(&c->s->sched, &c->server_send, sim_now(c->s));
}

static void server_wake(void *arg)
{
    struct net_conn *c = arg;
    sched_set(&c->s->sched, &c->server_tick, sim_now(c->s));
}

static void send_all(struct net_conn *c, struct rpc_conn *rpc, struct pipe *p,
                     struct sched_event *again)
{
    struct strbuf out = {0};
    bool more = true;
    while (more && p->bytes < IN_FLIGHT_MAX) {
        strbuf_reset(&out);
        more = rpc_conn_send(rpc, &out, SEND_PIECE, client_mono(c));
        if (out.len == 0)
            break;
        pipe_put(c, p, out.ptr, out.len);
    }
    strbuf_deinit(&out);
    if (more && p->bytes >= IN_FLIGHT_MAX)
        sched_set(&c->s->sched, again, sim_now(c->s) + 5 * USEC_PER_MSEC);
}

static void client_sends(void *arg)
{
    struct net_conn *c = arg;
    send_all(c, c->client, &c->up, &c->client_send);
    arm_tick(c, c->client, &c->client_tick);
}

static void server_sends(void *arg)
{
    struct net_conn *c = arg;
    if (!c->server)
        return;
    send_all(c, c->server, &c->down, &c->server_send);
    arm_tick(c, c->server, &c->server_tick);
    if (rpc_conn_is_finished(c->server))
        conn_end_soon(c, 1000);
}

static void client_ticks(void *arg)
{
    struct net_conn *c = arg;
    struct error err = {0};
    if (rpc_conn_tick(c->client, client_mono(c), &err))
        conn_end_soon(c, 0);
    else
        arm_tick(c, c->client, &c->client_tick);
}

static void server_ticks(void *arg)
{
    struct net_conn *c = arg;
    struct error err = {0};
    if (!c->server)
        return;
    if (rpc_conn_tick(c->server, client_mono(c), &err)) {
        server_end(c); /* keepalive: the client hears of it when the network lets it */
        if (!c->down.drops)
            conn_end_soon(c, 1000);
        return;
    }
    arm_tick(c, c->server, &c->server_tick);
}

static void up_arrives(void *arg)
{
    struct net_conn *c = arg;
    struct strbuf in = {0};
    struct error err = {0};
    pipe_take(c, &c->up, &in);
    if (c->server && in.len) {
        if (rpc_conn_recv(c->server, strbuf_bytes(&in), client_mono(c), &err)) {
            sim_fail(c->s, "protocol", "the server ends a sound connection: %s", err.msg);
            conn_end_soon(c, 0);
        } else {
            arm_tick(c, c->server, &c->server_tick);
        }
    }
    strbuf_deinit(&in);
}

static void down_arrives(void *arg)
{
    struct net_conn *c = arg;
    struct strbuf in = {0};
    struct error err = {0};
    pipe_take(c, &c->down, &in);
    if (in.len && rpc_conn_recv(c->client, strbuf_bytes(&in), client_mono(c), &err)) {
        sim_fail(c->s, "protocol", "the client ends a sound connection: %s", err.msg);
        conn_end_soon(c, 0);
    }
    strbuf_deinit(&in);
    arm_tick(c, c->client, &c->client_tick);
    if (rpc_conn_is_finished(c->client) ||
        (!rpc_conn_takes_calls(c->client) && rpc_conn_call_count(c->client) == 0))
        conn_end_soon(c, 0);
}

struct net_conn *net_connect(struct sim *s, uint64_t actor, const char *user_agent, const char *hub,
                             void (*closed)(void *arg), void *arg)
{
    struct net_conn *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->s = s;
    c->id = ++s->next_conn;
    c->actor = actor;
    c->p = sched_stream(s->seed, "net", c->id);
    c->closed = closed;
    c->arg = arg;
    c->has_hub = hub != NULL;
    (void)snprintf(c->hub, sizeof(c->hub), "%s", hub ? hub : "");
    c->up.last = &c->up.first;
    c->down.last = &c->down.first;
    c->client_send = (struct sched_event){.fn = client_sends, .arg = c};
    c->server_send = (struct sched_event){.fn = server_sends, .arg = c};
    c->client_tick = (struct sched_event){.fn = client_ticks, .arg = c};
    c->server_tick = (struct sched_event){.fn = server_ticks, .arg = c};
    c->ends = (struct sched_event){.fn = conn_ends, .arg = c};
    c->up.deliver = (struct sched_event){.fn = up_arrives, .arg = c};
    c->down.deliver = (struct sched_event){.fn = down_arrives, .arg = c};
    const struct rpc_conn_events server_ev = {want_server_send, server_wake, c};
    if (!(c->server = server_accept(s->server, c, c->id, &server_ev))) {
        free(c);
        return NULL;
    }
    const struct rpc_conn_events ev = {want_client_send, NULL, c};
    const struct rpc_conn_client_options o = {
        .authority = "sim",
        .user_agent = user_agent,
        .keepalive_idle = 10 * USEC_PER_SEC,
        .keepalive_timeout = 10 * USEC_PER_SEC,
    };
    c->client = rpc_conn_new_client(&o, &ev, client_mono(c));
    list_push_back(&s->conns, &c->link);
    arm_tick(c, c->server, &c->server_tick);
    return c;
}

void net_reset(struct net_conn *c)
{
    server_end(c);
    conn_end_soon(c, 0);
}

void net_trouble(struct net_conn *c, enum net_trouble what, usec_t time)
{
    struct sim *s = c->s;
    usec_t until = sim_now(s) + time;
    switch (what) {
    case NET_RESET:
        hit(HIT_CONN_RESET);
        net_reset(c);
        return;
    case NET_FROZEN:
        hit(HIT_CONN_FROZEN);
        c->up.stalled_until = c->down.stalled_until = until;
        break;
    case NET_HALF_OPEN:
        hit(HIT_CONN_HALF_OPEN);
        c->up.drops = c->down.drops = true;
        pipe_drop(&c->up);
        pipe_drop(&c->down);
        conn_end_soon(c, time); /* then the client's machine notices */
        return;
    case NET_STALLED:
        hit(HIT_CONN_STALLED);
        *(draw_one_in(&c->p, 2) ? &c->up.stalled_until : &c->down.stalled_until) = until;
        break;
    }
    sched_cancel(&s->sched, &c->up.deliver);
    sched_cancel(&s->sched, &c->down.deliver);
    pipe_arm(s, &c->up);
    pipe_arm(s, &c->down);
}

void net_server_gone(struct sim *s)
{
    LIST_FOR_EACH (&s->conns, n) {
        struct net_conn *c = LIST_ENTRY(n, struct net_conn, link);
        if (!c->server)
            continue;
        server_end(c);
        /* What is on its way still arrives; then the reset. */
        if (!c->down.drops)
            conn_end_soon(c, MAX(c->down.last_at - sim_now(s), 0) + 100);
    }
}

void net_free_all(struct sim *s)
{
    LIST_FOR_EACH (&s->conns, n) {
        struct net_conn *c = LIST_ENTRY(n, struct net_conn, link);
        conn_free(c);
    }
    for (size_t i = 0; i < s->call_count; i++) {
        struct call *c = s->calls[i];
        union {
            const uint8_t *in;
            uint8_t *out;
        } u = {.in = c->request.ptr};
        free(u.out);
        strbuf_deinit(&c->reply);
        free(c);
    }
    free(s->calls);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

static void call_message(struct rpc_call *rpc, void *arg, struct arena *arena, struct bytes msg)
{
    struct call *c = arg;
    (void)rpc;
    c->messages++;
    strbuf_reset(&c->reply);
    strbuf_append_bytes(&c->reply, msg);
    if (c->message)
        c->message(c, msg, c->arg);
    arena_free(arena);
}

static void call_finished(struct rpc_call *rpc, void *arg, int status, struct bytes message)
{
    struct call *c = arg;
    (void)snprintf(c->message_text, sizeof(c->message_text), "%.*s", BYTES_FMT(message));
    c->is_over = true;
    c->status = status;
    c->conn = NULL;
    c->rpc = NULL;
    sim_trace(c->s, "over %" PRIu64 " %s %d", c->id, c->method, status);
    if (c->done)
        c->done(c, c->arg);
    rpc_call_unref(rpc);
}

static struct call *call_new(struct sim *s)
{
    struct call *c = calloc(1, sizeof(*c));
    ASSERT(c);
    if (s->call_count == s->call_cap) {
        s->call_cap = MAX((size_t)256, s->call_cap * 2);
        s->calls = realloc(s->calls, s->call_cap * sizeof(struct call *));
        ASSERT(s->calls);
    }
    s->calls[s->call_count++] = c;
    c->id = s->call_count;
    c->s = s;
    return c;
}

struct call *net_call(struct net_conn *conn, const char *method, struct bytes request,
                      usec_t timeout, void (*done)(struct call *c, void *arg), void *arg)
{
    struct sim *s = conn->s;
    struct call *c = call_new(s);
    uint8_t *copy = malloc(request.len + 1);
    ASSERT(copy);
    if (request.len)
        memcpy(copy, request.ptr, request.len);
    c->actor = conn->actor;
    c->conn = conn;
    c->method = method;
    c->request = bytes_of(copy, request.len);
    c->done = done;
    c->arg = arg;
    char path[96], number[24];
    (void)snprintf(path, sizeof(path), "/TaskHubSidecarService/%s", method);
    (void)snprintf(number, sizeof(number), "%" PRIu64, c->id);
    const struct rpc_metadata md[] = {{"x-sim-call", bytes_str(number)},
                                      {"taskhub", bytes_str(conn->hub)}};
    const struct rpc_client_events ev = {NULL, call_message, call_finished, c};
    sim_trace(s, "sent %" PRIu64 " %s actor=%" PRIu64 " %zu %" PRIx64, c->id, method, c->actor,
              request.len, bytes_hash(c->request));
    if (s->opts.is_traced && strncmp(method, "Abandon", 7) != 0 &&
        strcmp(method, "GetWorkItems") != 0)
        fprintf(stderr, "           '%.*s'\n", BYTES_FMT(wire_bytes_find(c->request, 1)));
    if (conn->client)
        c->rpc = rpc_conn_call(conn->client, path, md, conn->has_hub ? 2 : 1, timeout, false, &ev,
                               client_mono(conn));
    if (!c->rpc) { /* the server says goodbye */
        c->is_over = true;
        c->status = GRPC_UNAVAILABLE;
        c->conn = NULL;
        return c;
    }
    struct rpc_msg *m = rpc_msg_new(request.len);
    if (request.len)
        memcpy(rpc_msg_data(m), request.ptr, request.len);
    rpc_call_send(c->rpc, m);
    rpc_call_close_send(c->rpc);
    return c;
}

struct call *net_call_message(struct net_conn *c, const char *method, const ProtobufCMessage *msg,
                              usec_t timeout, void (*done)(struct call *c, void *arg), void *arg)
{
    struct strbuf bytes = {0};
    wire_pack_into(msg, &bytes);
    struct call *call = net_call(c, method, strbuf_bytes(&bytes), timeout, done, arg);
    strbuf_deinit(&bytes);
    return call;
}

void net_cancel(struct call *c)
{
    if (!c->is_over && c->rpc)
        rpc_call_cancel(c->rpc);
}
