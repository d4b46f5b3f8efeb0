/* client.c - the client's side of a call: request headers, answer, and what its end means. */
#include <stdio.h>

#include "base/assert.h"
#include "rpc/internal.h"
#include "rpc/text.h"

/* ---- start ----------------------------------------------------------------------------------- */

static nghttp2_nv nv_of(const char *name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.ptr, strlen(name),
                        value.len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static void build_headers(struct rpc_call *call, const char *path, usec_t timeout,
                          struct nv_list *l)
{
    static const nghttp2_nv FIXED[] = {NV_STATIC(":method", "POST"), NV_STATIC(":scheme", "http"),
                                       NV_STATIC(":scheme", "https")};
    static const nghttp2_nv REST[] = {NV_STATIC("te", "trailers"),
                                      NV_STATIC("content-type", "application/grpc")};
    const struct rpc_conn *c = call->conn;

    nv_list_add(l, FIXED[0]);
    nv_list_add(l, FIXED[c->client.is_secure ? 2 : 1]);
    nv_list_add(l, nv_of(":path", bytes_str(path)));
    nv_list_add(l, nv_of(":authority", bytes_str(c->client.authority)));
    nv_list_add(l, REST[0]);
    nv_list_add(l, REST[1]);
    if (c->client.user_agent[0])
        nv_list_add(l, nv_of("user-agent", bytes_str(c->client.user_agent)));
    if (c->client.authorization[0])
        nv_list_add(l, nv_of("authorization", bytes_str(c->client.authorization)));
    nv_list_add(l, nv_of("grpc-accept-encoding", BYTES_LIT("identity,gzip")));
    if (call->gzip)
        nv_list_add(l, nv_of("grpc-encoding", BYTES_LIT("gzip")));
    if (timeout > 0) {
        char text[RPC_TIMEOUT_LEN];
        struct bytes t = bytes_of(text, rpc_timeout_format(timeout, text));
        nv_list_add(l, nv_of("grpc-timeout", arena_dup(call_arena(call), t)));
    }
}

bool rpc_conn_takes_calls(const struct rpc_conn *c)
{
    return !c->server && !c->shutting_down && !c->broken &&
           nghttp2_session_check_request_allowed(c->session);
}

struct rpc_call *rpc_conn_call(struct rpc_conn *c, const char *path, const struct rpc_metadata *md,
                               size_t md_count, usec_t timeout, bool gzip,
                               const struct rpc_client_events *ev, usec_t now)
{
    if (!rpc_conn_takes_calls(c))
        return NULL;
    c->now = MAX(c->now, now);
    struct rpc_call *call = call_new(c, 0);
    call->ev = *ev;
    call->gzip = gzip;
    call->headers_sent = true;
    if (timeout > 0)
        call->deadline = usec_add(now, timeout);
    build_headers(call, path, timeout, &call->out_headers);
    for (size_t i = 0; i < md_count; i++)
        call_add_nv(call, &call->out_headers, md[i].name, md[i].value);
    nghttp2_data_provider provider = call_provider(call);
    int32_t id = nghttp2_submit_request(c->session, NULL, call->out_headers.v,
                                        call->out_headers.count, &provider, call);
    if (id < 0) {
        call_detach(call);
        return NULL;
    }
    call->stream_id = id;
    call_set_timer(call);
    conn_want_send(c);
    return rpc_call_ref(call);
}

void rpc_call_close_send(struct rpc_call *call)
{
    if (call->is_server || call->send_closed || !call->conn)
        return;
    call->send_closed = true;
    call_resume_data(call);
}

/* ---- the end --------------------------------------------------------------------------------- */

void client_finish(struct rpc_call *call, int status, struct bytes message)
{
    if (call->finished)
        return;
    call->finished = true;
    call->status = status;
    if (call->conn)
        call_set_timer(call);
    if (call->ev.finished)
        call->ev.finished(call, call->ev.arg, status, message);
}

static void reset(struct rpc_call *call, uint32_t code)
{
    if (!call->conn || !call->stream_open)
        return;
    (void)nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id, code);
    conn_want_send(call->conn);
}

void client_abort(struct rpc_call *call, int status, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (call->finished)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    reset(call, NGHTTP2_CANCEL);
    client_finish(call, status, bytes_str(text));
}

void rpc_call_cancel(struct rpc_call *call)
{
    if (!call->is_server)
        client_abort(call, GRPC_CANCELLED, "cancelled by the caller");
}

void client_call_timer(struct rpc_call *call)
{
    if (call->conn->now >= call->deadline)
        client_abort(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* grpc-status and grpc-message of a header block. */
static void take_status(struct rpc_call *call, const struct meta *m)
{
    struct bytes status = meta_find(m, "grpc-status"), message = meta_find(m, "grpc-message");
    uint64_t n;

    if (bytes_is_none(status))
        return;
    call->peer_status =
        bytes_parse_u64(status, &n) && n <= GRPC_UNAUTHENTICATED ? (int)n : GRPC_UNKNOWN;
    if (message.len > 0) {
        struct strbuf text = {0};
        rpc_percent_decode(message, &text);
        call->peer_message = arena_dup(call_arena(call), strbuf_bytes(&text));
        strbuf_deinit(&text);
    }
}

/* gRPC's "HTTP to gRPC status code mapping". */
static int status_of_http(int http)
{
    switch (http) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

static int status_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

void client_end(struct rpc_call *call)
{
    if (call->finished || call->peer_status < 0)
        return;

    if (!call->send_closed)
        reset(call, NGHTTP2_NO_ERROR);
    client_finish(call, call->peer_status, call->peer_message);
}

void client_call_headers(struct rpc_call *call, bool end_stream)
{
    if (call->finished || call->http_status / 100 == 1) { /* 1xx: the real ones follow */
        call->http_status = 0;
        return;
    }
    bool first = !call->headers_seen;
    call->headers_seen = true;
    if (call->too_big) {
        client_abort(call, GRPC_RESOURCE_EXHAUSTED, "answer metadata > limit %zu bytes",
                     RPC_HEADER_LIST_MAX);
        return;
    }
    if (first && end_stream) { /* trailers only */
        struct meta m = call->trailers;
        call->trailers = call->in;
        call->in = m;
    }
    if (first && !end_stream) {
        if (call->http_status == 200 && call->ev.headers)
            call->ev.headers(call, call->ev.arg);
        else if (call->http_status != 200)
            call->rx.mode = RX_DISCARD;
        if (call->bad_encoding && !call->finished)
            client_abort(call, GRPC_INTERNAL, "the answer has an unknown grpc-encoding");
    }
    if (!end_stream)
        return;
    take_status(call, &call->trailers);
    call_receive_end(call);
}

void client_call_closed(struct rpc_call *call, uint32_t error_code)
{
    char text[160];

    if (call->finished)
        return;
    if (call->rx.paused) { /* what waits is given all the same: it cannot wait longer */
        call->rx.paused = false;
        call_receive_go_on(call);
    }
    if (call->finished)
        return;
    if (call->peer_status >= 0) {
        client_finish(call, call->peer_status, call->peer_message);
        return;
    }
    if (call->http_status != 0 && call->http_status != 200) {
        snprintf(text, sizeof(text), "HTTP status %d", call->http_status);
        client_finish(call, status_of_http(call->http_status), bytes_str(text));
        return;
    }
    if (call->conn->now >= call->deadline) { /* the server's own time-out was a little faster */
        client_finish(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("deadline exceeded"));
        return;
    }
    if (error_code == NGHTTP2_NO_ERROR)
        snprintf(text, sizeof(text), "the server ended the stream without a status");
    else if (error_code == NGHTTP2_REFUSED_STREAM)
        snprintf(text, sizeof(text), "the connection was lost or refuses the call");
    else
        snprintf(text, sizeof(text), "the stream was reset: %s",
                 nghttp2_http2_strerror(error_code));
    client_finish(call, status_of_reset(error_code), bytes_str(text));
}
