/* conn.c - one HTTP/2 connection: the nghttp2 session, its callbacks, keepalive and shutdown. */
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/internal.h"
#include "rpc/text.h"

/* ---- headers --------------------------------------------------------------------------------- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct rpc_conn *c = user;

    if (!c->server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct rpc_call *call = call_new(c, frame->hd.stream_id);
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int on_begin_frame(nghttp2_session *session UNUSED, const nghttp2_frame_hd *hd, void *user)
{
    struct rpc_conn *c = user;

    if (c->server && hd->type == NGHTTP2_HEADERS)
        closed_check_headers(c, hd->stream_id);
    return 0;
}

static void keep(nghttp2_rcbuf **slot, nghttp2_rcbuf *value)
{
    if (*slot)
        return; /* nghttp2 refuses doubled pseudo-headers; of others the first counts */
    nghttp2_rcbuf_incref(value);
    *slot = value;
}

static void take_timeout(struct rpc_call *call, struct bytes value)
{
    usec_t timeout;

    if (rpc_timeout_parse(value, &timeout))
        call->deadline = usec_add(call->conn->now, timeout);
    else
        call->bad_timeout = true;
}

static void take_encoding(struct rpc_call *call, struct bytes value)
{
    if (bytes_eq(value, BYTES_LIT("gzip")))
        call->peer_gzip = true;
    else if (!bytes_eq(value, BYTES_LIT("identity")))
        call->bad_encoding = true;
}

/* Fields that the layer itself reads. False: metadata of the user. */
static bool take_known_header(struct rpc_call *call, struct bytes n, nghttp2_rcbuf *value)
{
    struct bytes v = rcbuf_bytes(value);

    switch (n.len) {
    case 2:
        return memcmp(n.ptr, "te", 2) == 0;
    case 5:
        if (memcmp(n.ptr, ":path", 5) != 0)
            return false;
        keep(&call->path, value);
        return true;
    case 7:
        if (memcmp(n.ptr, ":method", 7) == 0)
            keep(&call->verb, value);
        else if (memcmp(n.ptr, ":status", 7) == 0)
            call->http_status =
                v.len == 3 ? (v.ptr[0] - '0') * 100 + (v.ptr[1] - '0') * 10 + v.ptr[2] - '0' : 0;
        else
            return memcmp(n.ptr, ":scheme", 7) == 0;
        return true;
    case 12:
        if (memcmp(n.ptr, "content-type", 12) == 0)
            keep(&call->content_type, value);
        else if (memcmp(n.ptr, "grpc-timeout", 12) == 0 && call->is_server)
            take_timeout(call, v);
        else
            return false;
        return true;
    case 13:
        if (memcmp(n.ptr, "grpc-encoding", 13) != 0)
            return false;
        take_encoding(call, v);
        return true;
    case 20:
        return memcmp(n.ptr, "grpc-accept-encoding", 20) == 0;
    default:
        return false;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags UNUSED, void *user UNUSED)
{
    struct rpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (!call || !call->conn)
        return 0;
    struct bytes n = rcbuf_bytes(name);
    call->header_bytes += n.len + rcbuf_bytes(value).len + 32;
    if (call->header_bytes > RPC_HEADER_LIST_MAX) {
        call->too_big = true;
        if (!(n.len > 0 && n.ptr[0] == ':'))
            return 0; /* read on: the connection's compression state depends on it */
    }
    if (call->headers_seen || !take_known_header(call, n, value))
        meta_add(call->headers_seen ? &call->trailers : &call->in, name, value);
    return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                         const uint8_t *data, size_t len, void *user UNUSED)
{
    struct rpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void)nghttp2_session_consume_connection(session, len); /* fails only when out of memory */
    if (call && call->conn)
        call_receive(call, bytes_of(data, len), flags & NGHTTP2_FLAG_END_STREAM);
    return 0;
}

static void on_headers_frame(struct rpc_call *call, const nghttp2_frame *frame)
{
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    if (call->is_server) {
        if (!call->headers_seen) {
            call->headers_seen = true;
            server_call_headers(call);
        }
        if (end)
            call_receive_end(call);
    } else {
        client_call_headers(call, end);
    }
}

/* True if one more reset is within the rate. Honest clients reset thousands of waits at once when these
 * time out, but not for long. */
static bool may_reset(struct rpc_conn *c)
{
    double burst = 2.0 * (double)c->server->opts.settings->streams_connection;
    double since = (double)(c->now - c->reset_at) / (double)USEC_PER_SEC;

    if (burst < 1000)
        burst = 1000;
    c->reset_tokens = MIN(burst, c->reset_tokens + since * RPC_RESET_RATE);
    c->reset_at = c->now;
    c->reset_tokens -= 1;
    return c->reset_tokens >= 0;
}

static void count_reset(struct rpc_conn *c)
{
    if (c->server && !may_reset(c))
        conn_abuse(c);
}

static const uint8_t SHUTDOWN_PING[8] = {'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'};

static void send_final_goaway(struct rpc_conn *c)
{
    if (c->goaway_sent)
        return;
    c->goaway_sent = true;
    c->shutdown_due = USEC_NEVER;
    (void)nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(c->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
    conn_want_send(c);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct rpc_conn *c = user;
    struct rpc_call *call;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (call && call->conn)
            on_headers_frame(call, frame);
        break;
    case NGHTTP2_DATA:
        if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            break;
        call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (call && call->conn)
            call_receive_end(call);
        break;
    case NGHTTP2_RST_STREAM:
        call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (!call)
            break;
        call->peer_reset = true;
        if (!call->finished)
            count_reset(c);
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) && c->shutting_down &&
            memcmp(frame->ping.opaque_data, SHUTDOWN_PING, sizeof(SHUTDOWN_PING)) == 0)
            send_final_goaway(c);
        break;
    case NGHTTP2_GOAWAY:
        if (!c->server)
            c->shutting_down = true;
        break;
    default:
        break;
    }
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct rpc_conn *c = user;

    if (!c->server)
        return 0;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
        count_reset(c); /* a peer that makes us reset costs as much as one that does it itself */
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        struct rpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (call && call->conn && !call->half_closed) /* answered before the request was all here */
            (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                            NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session UNUSED, int32_t stream_id, uint32_t error_code,
                           void *user)
{
    struct rpc_conn *c = user;
    struct rpc_call *call = nghttp2_session_get_stream_user_data(c->session, stream_id);

    if (!call || !call->conn)
        return 0;
    call->stream_open = false;
    closed_remember(c, call);
    if (c->server)
        server_call_closed(call, error_code);
    else
        client_call_closed(call, error_code);
    nghttp2_session_set_stream_user_data(c->session, stream_id, NULL);
    call_detach(call);
    return 0;
}

static int send_data(nghttp2_session *session UNUSED, nghttp2_frame *frame UNUSED,
                     const uint8_t *framehd, size_t length, nghttp2_data_source *source,
                     void *user UNUSED)
{
    return call_send_data(source->ptr, framehd, length);
}

/* ---- making ---------------------------------------------------------------------------------- */

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *cb;

    ASSERT(nghttp2_session_callbacks_new(&cb) == 0);
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, send_data);
    return cb;
}

static nghttp2_option *make_options(void)
{
    nghttp2_option *opt;

    ASSERT(nghttp2_option_new(&opt) == 0);
    nghttp2_option_set_no_auto_window_update(opt, 1); /* receive.c gives window */
    nghttp2_option_set_no_closed_streams(opt, 1);     /* else it keeps as many as may be open */
    nghttp2_option_set_max_send_header_block_length(opt,
                                                    MIB(1)); /* the peer says what is too much */
    nghttp2_option_set_max_continuations(opt,
                                         64); /* metadata over the limit is read, to answer it */
    nghttp2_option_set_max_outbound_ack(opt, 1000); /* ping floods */
    /* Its own limit (burst 1,000) would cut an honest client whose waits time out: count_reset(). */
    nghttp2_option_set_stream_reset_rate_limit(opt, 1u << 30, 1u << 30);
    return opt;
}

static bool timer_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct rpc_call *x = CONTAINER_OF(a, struct rpc_call, timer);
    const struct rpc_call *y = CONTAINER_OF(b, struct rpc_call, timer);

    return x->due != y->due ? x->due < y->due : x->stream_id < y->stream_id;
}

static struct rpc_conn *conn_new(const struct rpc_conn_events *ev, usec_t now)
{
    struct rpc_conn *c = calloc(1, sizeof(*c));

    ASSERT(c);
    c->ev = *ev;
    c->now = c->last_recv = now;
    c->shutdown_due = USEC_NEVER;
    list_init(&c->calls);
    list_init(&c->waiting);
    list_init(&c->drained);
    list_init(&c->wakeable);
    heap_init(&c->timers, timer_less);
    return c;
}

static void conn_start(struct rpc_conn *c, const nghttp2_settings_entry *iv, size_t count)
{
    nghttp2_session_callbacks *cb = make_callbacks();
    nghttp2_option *opt = make_options();

    if (c->server)
        ASSERT(nghttp2_session_server_new2(&c->session, cb, c, opt) == 0);
    else
        ASSERT(nghttp2_session_client_new2(&c->session, cb, c, opt) == 0);
    nghttp2_option_del(opt);
    nghttp2_session_callbacks_del(cb);
    ASSERT(nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, iv, count) == 0);
    ASSERT(nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                 RPC_CONN_WINDOW) == 0);
    conn_want_send(c);
}

static char *copy_text(struct bytes b)
{
    char *s = malloc(b.len + 1);

    ASSERT(s);
    if (b.len > 0)
        memcpy(s, b.ptr, b.len);
    s[b.len] = 0;
    return s;
}

struct rpc_conn *rpc_conn_new_server(struct rpc_server *s, uint64_t id, struct bytes peer,
                                     const struct rpc_conn_events *ev, usec_t now)
{
    struct rpc_conn *c = conn_new(ev, now);
    const struct settings *set = s->opts.settings;
    const nghttp2_settings_entry iv[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)set->streams_connection},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, RPC_SERVER_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RPC_HEADER_LIST_MAX},
    };

    c->server = s;
    c->closed.skip = NGHTTP2_CLIENT_MAGIC_LEN;
    c->id = id;
    c->peer = copy_text(peer);
    c->keepalive_idle = (usec_t)set->keepalive_idle;
    c->keepalive_timeout = (usec_t)set->keepalive_timeout;
    c->reset_tokens = 2.0 * (double)set->streams_connection;
    c->reset_at = now;
    conn_start(c, iv, ARRAY_LEN(iv));
    return c;
}

struct rpc_conn *rpc_conn_new_client(const struct rpc_conn_client_options *opts,
                                     const struct rpc_conn_events *ev, usec_t now)
{
    struct rpc_conn *c = conn_new(ev, now);
    const nghttp2_settings_entry iv[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, RPC_CLIENT_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RPC_HEADER_LIST_MAX},
    };

    c->client.authority = copy_text(bytes_str(opts->authority));
    c->client.user_agent = copy_text(bytes_str(opts->user_agent));
    c->client.authorization = copy_text(bytes_str(opts->authorization));
    c->client.is_secure = opts->is_secure;
    c->client.message_bytes_max = opts->message_bytes_max;
    c->keepalive_idle = opts->keepalive_idle;
    c->keepalive_timeout = opts->keepalive_timeout;
    conn_start(c, iv, ARRAY_LEN(iv));
    return c;
}

void rpc_conn_free(struct rpc_conn *c)
{
    if (!c)
        return;
    c->in_callbacks = true; /* nothing is sent any more */
    for (struct list_node *n; (n = list_first(&c->calls));) {
        struct rpc_call *call = LIST_ENTRY(n, struct rpc_call, node);
        call->stream_open = false;
        if (c->server)
            server_call_closed(call, NGHTTP2_INTERNAL_ERROR);
        else
            client_call_closed(call, NGHTTP2_REFUSED_STREAM);
        call_detach(call);
    }
    nghttp2_session_del(c->session);
    heap_deinit(&c->timers);
    for (struct rpc_call *call; (call = c->pool);) {
        c->pool = call->context;
        free(call);
    }
    free(c->client.authority);
    free(c->client.user_agent);
    free(c->client.authorization);
    free(c->peer);
    free(c);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void conn_want_send(struct rpc_conn *c)
{
    if (c->send_wanted || c->in_callbacks)
        return;
    c->send_wanted = true;
    c->ev.want_send(c->ev.arg);
}

static void want_send_if_any(struct rpc_conn *c)
{
    c->in_callbacks = false;
    if (nghttp2_session_want_write(c->session) || !list_is_empty(&c->drained))
        conn_want_send(c);
}

void conn_abuse(struct rpc_conn *c)
{
    if (c->broken)
        return;
    c->broken = true;
    (void)nghttp2_session_terminate_session(c->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

enum err rpc_conn_recv(struct rpc_conn *c, struct bytes in, usec_t now, struct error *err)
{
    c->now = c->last_recv = now;
    c->ping_sent = 0;
    c->in_callbacks = true;
    ssize_t n =
        c->server ? closed_recv(c, in) : nghttp2_session_mem_recv(c->session, in.ptr, in.len);
    want_send_if_any(c);
    if (n < 0) {
        c->broken = true;
        return error_set(err, ERR_INVALID, "HTTP/2 connection of \"%s\" is broken: %s",
                         c->peer ? c->peer : "", nghttp2_strerror((int)n));
    }
    if (c->broken)
        return error_set(err, ERR_LIMIT, "peer \"%s\" resets calls too fast",
                         c->peer ? c->peer : "");
    if (c->server && nghttp2_session_get_outbound_queue_size(c->session) >
                         2 * c->server->opts.settings->streams_connection + RPC_OUTBOUND_SLACK) {
        c->broken = true;
        return error_set(err, ERR_LIMIT, "peer \"%s\" makes answers and does not read them",
                         c->peer ? c->peer : "");
    }
    return OK;
}

bool rpc_conn_send(struct rpc_conn *c, struct strbuf *out, size_t max, usec_t now)
{
    size_t start = out->len;
    bool more = true;

    c->now = now;
    c->send_wanted = false;
    c->in_callbacks = true;
    c->out = out;
    while (out->len - start < max) {
        const uint8_t *p;
        size_t before = out->len;
        ssize_t n = nghttp2_session_mem_send(c->session, &p);
        if (n > 0)
            strbuf_append(out, p, (size_t)n);
        if (n < 0)
            c->broken = true;
        if (n > 0 || out->len > before)
            continue;
        if (n < 0 || list_is_empty(&c->drained)) {
            more = false;
            break;
        }
        call_run_drained(c); /* they may have something more */
    }
    c->out = NULL;
    c->in_callbacks = false;
    if (more)
        c->send_wanted = true; /* the caller comes again by itself */
    return more;
}

bool rpc_conn_is_finished(const struct rpc_conn *c)
{
    return !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
}

/* ---- time ------------------------------------------------------------------------------------ */

void conn_run_waiting(struct rpc_conn *c)
{
    LIST_FOR_EACH (&c->waiting, n) {
        struct rpc_call *call = LIST_ENTRY(n, struct rpc_call, room_node);
        if (budget_state(&call->rx.claim) != CLAIM_WAITING &&
            budget_state(&call->unanswered) != CLAIM_WAITING)
            call_receive_go_on(call);
    }
}

static enum err run_keepalive(struct rpc_conn *c, struct error *err)
{
    if (c->keepalive_idle == 0)
        return OK;
    if (c->ping_sent != 0) {
        if (c->now - c->ping_sent < c->keepalive_timeout)
            return OK;
        c->broken = true;
        return error_set(err, ERR_UNAVAILABLE, "peer \"%s\" does not answer pings",
                         c->peer ? c->peer : "");
    }
    if (c->now - c->last_recv >= c->keepalive_idle) {
        c->ping_sent = c->now;
        (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
    }
    return OK;
}

static void run_timers(struct rpc_conn *c)
{
    for (struct heap_node *n; (n = heap_min(&c->timers));) {
        struct rpc_call *call = CONTAINER_OF(n, struct rpc_call, timer);
        if (call->due > c->now)
            return;
        heap_remove(&c->timers, n);
        call->due = USEC_NEVER;
        rpc_call_ref(call);
        if (c->server)
            server_call_timer(call);
        else
            client_call_timer(call);
        if (call->conn)
            call_set_timer(call);
        rpc_call_unref(call);
    }
}

enum err rpc_conn_tick(struct rpc_conn *c, usec_t now, struct error *err)
{
    c->now = now;
    c->in_callbacks = true;
    run_timers(c);
    conn_run_waiting(c);
    call_run_wakeable(c);
    if (c->now >= c->shutdown_due)
        send_final_goaway(c);
    enum err e = run_keepalive(c, err);
    want_send_if_any(c);
    return e;
}

usec_t rpc_conn_next_tick(const struct rpc_conn *c)
{
    struct heap_node *n = heap_min(&c->timers);
    usec_t due = n ? CONTAINER_OF(n, struct rpc_call, timer)->due : USEC_NEVER;

    if (c->keepalive_idle > 0)
        due = MIN(due, c->ping_sent ? c->ping_sent + c->keepalive_timeout
                                    : c->last_recv + c->keepalive_idle);
    if (c->waiting.head.next != &c->waiting.head && !c->ev.wake)
        due = MIN(due, c->now + RPC_ROOM_POLL);
    return MIN(due, c->shutdown_due);
}

void rpc_conn_shutdown(struct rpc_conn *c)
{
    if (c->shutting_down)
        return;
    c->shutting_down = true;
    c->shutdown_due = c->now + RPC_SHUTDOWN_WAIT;
    (void)nghttp2_submit_shutdown_notice(c->session);
    (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, SHUTDOWN_PING);
    conn_want_send(c);
}

/* ---- looking --------------------------------------------------------------------------------- */

struct bytes rpc_conn_peer(const struct rpc_conn *c)
{
    return bytes_str(c->peer);
}

size_t rpc_conn_call_count(const struct rpc_conn *c)
{
    return c->call_count;
}

void *rpc_conn_context(const struct rpc_conn *c)
{
    return c->context;
}

void rpc_conn_set_context(struct rpc_conn *c, void *context)
{
    c->context = context;
}
