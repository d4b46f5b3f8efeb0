/* server.c - the server's side of a call: dispatch, answers, trailers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/internal.h"
#include "rpc/text.h"

/* ---- methods --------------------------------------------------------------------------------- */

struct rpc_server *rpc_server_new(const struct rpc_server_options *opts)
{
    struct rpc_server *s = calloc(1, sizeof(*s));

    ASSERT(s && opts->settings);
    s->opts = *opts;
    budget_init(&s->budget, opts->settings->request_buffered_bytes);
    budget_init(&s->unanswered, opts->settings->overload_queued_bytes);
    return s;
}

void rpc_server_free(struct rpc_server *s)
{
    if (!s)
        return;
    HASHMAP_FOR_EACH (&s->methods, n) {
        hashmap_remove(&s->methods, n);
        free(CONTAINER_OF(n, struct method_node, node));
    }
    hashmap_deinit(&s->methods);
    budget_deinit(&s->budget);
    budget_deinit(&s->unanswered);
    free(s);
}

void rpc_server_add(struct rpc_server *s, const struct rpc_method *methods, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct method_node *n = calloc(1, sizeof(*n));
        ASSERT(n && methods[i].message);
        n->method = &methods[i];
        hashmap_insert(&s->methods, &n->node, bytes_hash(bytes_str(methods[i].path)));
    }
}

static bool path_eq(const struct hash_node *node, const void *key)
{
    const struct bytes *path = key;
    const struct method_node *n = CONTAINER_OF(node, struct method_node, node);

    return bytes_eq(bytes_str(n->method->path), *path);
}

static const struct rpc_method *find_method(const struct rpc_server *s, struct bytes path)
{
    struct hash_node *n = hashmap_find(&s->methods, bytes_hash(path), path_eq, &path);

    return n ? CONTAINER_OF(n, struct method_node, node)->method : NULL;
}

/* ---- trailers -------------------------------------------------------------------------------- */

static nghttp2_nv status_nv(int status)
{
    static const char *const NUMBERS[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                          "9", "10", "11", "12", "13", "14", "15", "16"};
    const char *text = NUMBERS[status >= 0 && status <= 16 ? status : GRPC_UNKNOWN];

    return (nghttp2_nv){(uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)(uintptr_t)text, 11,
                        strlen(text), NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static nghttp2_nv message_nv(struct bytes message)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)(uintptr_t)message.ptr,
                        12, message.len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

void server_submit_trailers(struct rpc_call *call)
{
    nghttp2_nv few[2] = {status_nv(call->status)};
    nghttp2_nv *nva = few;
    size_t count = 1;

    if (call->out_trailers.count > 0) {
        nv_list_add(&call->out_trailers, status_nv(call->status));
        if (call->message.len > 0)
            nv_list_add(&call->out_trailers, message_nv(call->message));
        nva = call->out_trailers.v;
        count = call->out_trailers.count;
    } else if (call->message.len > 0) {
        few[count++] = message_nv(call->message);
    }
    (void)nghttp2_submit_trailer(call->conn->session, call->stream_id, nva,
                                 count); /* may be reset */
}

/* ---- headers --------------------------------------------------------------------------------- */

void server_send_headers(struct rpc_call *call)
{
    nghttp2_nv fixed[2] = {NV_STATIC(":status", "200"),
                           NV_STATIC("content-type", "application/grpc")};
    nghttp2_nv *nva = fixed;
    size_t count = 2;
    struct nv_list all = {0};

    call->headers_sent = true;
    if (call->out_headers.count > 0) {
        nv_list_add(&all, fixed[0]);
        nv_list_add(&all, fixed[1]);
        for (size_t i = 0; i < call->out_headers.count; i++)
            nv_list_add(&all, call->out_headers.v[i]);
        nva = all.v;
        count = all.count;
    }
    nghttp2_data_provider provider = call_provider(call);
    (void)nghttp2_submit_response(call->conn->session, call->stream_id, nva, count, &provider);
    free(all.v);
    conn_want_send(call->conn);
}

void rpc_call_send_headers(struct rpc_call *call)
{
    if (rpc_call_is_open(call) && !call->headers_sent)
        server_send_headers(call);
}

/* Headers that are trailers too: nothing was or will be sent. */
static void send_trailers_only(struct rpc_call *call)
{
    nghttp2_nv fixed[2] = {NV_STATIC(":status", "200"),
                           NV_STATIC("content-type", "application/grpc")};
    struct nv_list all = {0};

    call->headers_sent = true;
    nv_list_add(&all, fixed[0]);
    nv_list_add(&all, fixed[1]);
    for (size_t i = 0; i < call->out_headers.count; i++)
        nv_list_add(&all, call->out_headers.v[i]);
    nv_list_add(&all, status_nv(call->status));
    if (call->message.len > 0)
        nv_list_add(&all, message_nv(call->message));
    for (size_t i = 0; i < call->out_trailers.count; i++)
        nv_list_add(&all, call->out_trailers.v[i]);
    (void)nghttp2_submit_response(call->conn->session, call->stream_id, all.v, all.count, NULL);
    free(all.v);
    conn_want_send(call->conn);
}

/* ---- the end --------------------------------------------------------------------------------- */

#define MESSAGE_BYTES_MAX KIB(4) /* of a status text, encoded; headers are no place for more */

static void set_status(struct rpc_call *call, int status, struct bytes message)
{
    struct strbuf text = {0};

    call->finished = true;
    call->status = status;
    if (message.len > 0) {
        rpc_percent_encode(bytes_of(message.ptr, MIN(message.len, MESSAGE_BYTES_MAX)), &text);
        call->message = arena_dup(call_arena(call), strbuf_bytes(&text));
        strbuf_deinit(&text);
    }
    call_set_timer(call);
}

static void finish(struct rpc_call *call, int grpc_status, struct bytes message)
{
    if (!call->is_server || !rpc_call_is_open(call))
        return;
    set_status(call, grpc_status, message);
    if (call->headers_sent)
        call_resume_data(call);
    else if (call->out.count == 0)
        send_trailers_only(call);
    else
        server_send_headers(call);
}

void rpc_call_finish(struct rpc_call *call, int grpc_status, struct bytes message)
{
    budget_release(&call->unanswered); /* also of a call that was closed meanwhile */
    finish(call, grpc_status, message);
}

void rpc_call_reply(struct rpc_call *call, struct rpc_msg *msg)
{
    if (rpc_call_is_open(call))
        msg_queue_push(&call->out, msg);
    else
        rpc_msg_unref(msg);
    rpc_call_finish(call, GRPC_OK, BYTES_NONE);
}

void rpc_call_fail(struct rpc_call *call, const struct error *err)
{
    rpc_call_finish(call, err_grpc_status(err->code), bytes_str(err->msg));
}

/* Tells the handler that the call is over, if it knows of the call and has not ended it itself. */
static void tell_closed(struct rpc_call *call)
{
    if (call->closed_told || !call->seen)
        return;
    call->closed_told = true;
    if (call->method && call->method->closed)
        call->method->closed(call, call->method->service);
}

void server_abort(struct rpc_call *call, int status, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!rpc_call_is_open(call))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    msg_queue_drop_unbegun(&call->out);    /* nobody waits for more; a message half out is ended */
    finish(call, status, bytes_str(text)); /* the handler may still hold its message */
    tell_closed(call);
}

void server_call_closed(struct rpc_call *call, uint32_t error_code)
{
    const struct rpc_server_options *opts = &call->conn->server->opts;

    if (!call->finished) {
        call->finished = true;
        call->status = error_code == NGHTTP2_CANCEL ? GRPC_CANCELLED : GRPC_UNAVAILABLE;
        tell_closed(call);
    }
    if (opts->on_finish)
        opts->on_finish(opts->arg, call->method, call->status, call->conn->now - call->started);
}

void server_call_timer(struct rpc_call *call)
{
    usec_t now = call->conn->now;

    if (receiver_is_stalled(call, now)) {
        server_abort(call, GRPC_RESOURCE_EXHAUSTED, "the request stalled for %d s",
                     (int)(RPC_STALL_TIME / USEC_PER_SEC));
        receiver_deinit(call);
    } else if (now >= call->deadline) {
        if (call->method && call->method->deadline && call->seen && !call->deadline_called) {
            call->deadline_called = true;
            call->method->deadline(call, call->method->service);
        } else if (!call->deadline_called || now >= call->deadline + RPC_DEADLINE_GRACE) {
            server_abort(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
        }
    }
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* A request that is not gRPC: an answer that people understand. */
void server_refuse(struct rpc_call *call)
{
    static const char TEXT[] = "This port speaks gRPC: POST with content-type application/grpc.\n";
    nghttp2_nv nva[2] = {{(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t)call->refusal, 7,
                          3, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE},
                         NV_STATIC("content-type", "text/plain; charset=utf-8")};
    struct rpc_msg *m = rpc_msg_new(sizeof(TEXT) - 1);

    memcpy(rpc_msg_data(m), TEXT, sizeof(TEXT) - 1);
    msg_queue_push(&call->out, m);
    call->out.offset = RPC_PREFIX_LEN; /* plain HTTP: no gRPC framing */
    call->out.bytes -= RPC_PREFIX_LEN;
    call->headers_sent = call->finished = call->plain_http = true;
    call->status = GRPC_UNKNOWN;
    call_set_timer(call);
    nghttp2_data_provider provider = call_provider(call);
    (void)nghttp2_submit_response(call->conn->session, call->stream_id, nva, 2, &provider);
    conn_want_send(call->conn);
}

/* It is answered at its end, as any HTTP server would. */
static void refuse_at_end(struct rpc_call *call, const char *status)
{
    call->refusal = status;
    call->deadline = call->conn->now + RPC_STALL_TIME;
    call_set_timer(call);
}

static bool is_grpc(const struct rpc_call *call)
{
    static const struct bytes GRPC = BYTES_LIT("application/grpc");

    if (!call->content_type)
        return false;
    struct bytes t = rcbuf_bytes(call->content_type);
    return bytes_starts_with(t, GRPC) &&
           (t.len == GRPC.len || t.ptr[GRPC.len] == '+' || t.ptr[GRPC.len] == ';');
}

static void refuse_encoding(struct rpc_call *call)
{
    rpc_call_add_header(call, "grpc-accept-encoding", BYTES_LIT("identity,gzip"));
    rpc_call_finish(call, GRPC_UNIMPLEMENTED,
                    BYTES_LIT("this grpc-encoding is not supported: use identity or gzip"));
}

/* Whatever forbids to run the method. False: answered. */
static bool may_run(struct rpc_call *call)
{
    const struct rpc_server_options *opts = &call->conn->server->opts;
    struct error err = {0};

    if (call->too_big) {
        server_abort(call, GRPC_RESOURCE_EXHAUSTED, "request metadata > limit %zu bytes",
                     RPC_HEADER_LIST_MAX);
        return false;
    }
    if (!call->verb || !bytes_eq(rcbuf_bytes(call->verb), BYTES_LIT("POST"))) {
        refuse_at_end(call, "405");
        return false;
    }
    if (!is_grpc(call)) {
        refuse_at_end(call, "415");
        return false;
    }
    struct bytes path = call->path ? rcbuf_bytes(call->path) : BYTES_NONE;
    call->method = find_method(call->conn->server, path);
    if (!call->method)
        server_abort(call, GRPC_UNIMPLEMENTED, "unknown method %.*s", (int)MIN(path.len, 200),
                     (const char *)(path.ptr ? path.ptr : (const uint8_t *)""));
    else if (call->bad_timeout)
        server_abort(call, GRPC_INVALID_ARGUMENT, "malformed grpc-timeout");
    else if (call->bad_encoding)
        refuse_encoding(call);
    else if (opts->admit && opts->admit(opts->arg, call, call->method, &err) != OK)
        rpc_call_fail(call, &err);
    return !call->finished && !call->refusal;
}

void server_call_headers(struct rpc_call *call)
{
    if (!may_run(call))
        return;
    call_set_timer(call);
    if (call->conn->now >= call->deadline) {
        server_abort(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
        return;
    }
    if (call->method->start && call->method->kind != RPC_UNARY) {
        call->seen = true;
        call->method->start(call, call->method->service);
    }
}

/* ---- permissions that are withdrawn ----------------------------------------------------------- */

/* Others are answered at once; whether they took effect would be left open. */
static bool lasts(const struct rpc_call *call)
{
    return !call->seen || call->method->kind != RPC_UNARY || call->method->deadline;
}

void rpc_conn_recheck(struct rpc_conn *c)
{
    const struct rpc_server_options *opts = &c->server->opts;
    struct error err = {0};

    LIST_FOR_EACH (&c->calls, n) {
        struct rpc_call *call = LIST_ENTRY(n, struct rpc_call, node);
        if (opts->admit && call->method && rpc_call_is_open(call) && lasts(call) &&
            opts->admit(opts->arg, call, call->method, &err) != OK)
            server_abort(call, err_grpc_status(err.code), "%s", err.msg);
    }
}
