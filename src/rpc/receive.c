/* receive.c - from the bytes of a stream to whole messages: prefix, room, body, decompression.
 *
 * A stream may send one window ahead of what was processed, and the rest of a message once room for it
 * was granted (budget.h). A message that is held back (RPC_HELD_BACK) also needs room among the requests that
 * have no answer yet. What comes while a call waits for room or is paused is held, and its window is not renewed: that is
 * the back-pressure. The connection's own window is always renewed.
 */
#include "base/assert.h"
#include "rpc/internal.h"

#include <stdio.h>

static size_t message_limit(const struct rpc_call *call)
{
    if (call->is_server) {
        size_t max = call->conn->server->opts.settings->request_bytes,
               own = call->method->bytes_max;
        return own > 0 ? MIN(own, max) : max;
    }
    return call->conn->client.message_bytes_max ? call->conn->client.message_bytes_max : SIZE_MAX;
}

static bool takes_one_message(const struct rpc_call *call)
{
    return call->is_server &&
           (call->method->kind == RPC_UNARY || call->method->kind == RPC_SERVER_STREAM);
}

static void release_room(struct rpc_call *call)
{
    if (call->rx.claim.state == CLAIM_NONE)
        return;
    budget_release(&call->rx.claim);
    call_set_timer(call);
}

static void leave_waiting(struct rpc_call *call)
{
    if (call->room_wanted)
        list_remove(&call->room_node);
    call->room_wanted = false;
}

static void drop_held(struct rpc_call *call)
{
    if (call->is_server && call->rx.held.len > 0)
        budget_unhold(&call->conn->server->budget, call->rx.held.len);
    strbuf_deinit(&call->rx.held);
}

/* Nothing more is wanted of this stream. */
static void discard(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    leave_waiting(call);
    drop_held(call);
    release_room(call);
    if (budget_state(&call->unanswered) == CLAIM_WAITING)
        budget_release(&call->unanswered);
    arena_free(rx->arena);
    rx->arena = NULL;
    rx->buf = NULL;
    gunzip_free(rx->gunzip);
    rx->gunzip = NULL;
    rx->has_message = false;
    rx->mode = RX_DISCARD;
}

void receiver_deinit(struct rpc_call *call)
{
    discard(call);
}

PRINTF_LIKE(3, 4)
static void fail(struct rpc_call *call, int status, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (call->is_server)
        server_abort(call, status, "%s", text);
    else
        client_abort(call, status, "%s", text);
    if (call->conn)
        discard(call);
}

/* ---- delivering ------------------------------------------------------------------------------ */

static void deliver(struct rpc_call *call, struct arena *arena, struct bytes msg)
{
    if (call->finished || (call->is_server && call->closed_told)) {
        arena_free(arena);
        return;
    }
    if (!call->is_server) {
        if (call->ev.message)
            call->ev.message(call, call->ev.arg, arena, msg);
        else
            arena_free(arena);
        return;
    }
    call->seen = true;
    call->method->message(call, call->method->service, arena, msg);
}

/* Where decompressed bytes go. */
struct inflated {
    struct rpc_call *call;
    struct strbuf out;
    size_t limit;
};

static bool collect(void *arg, struct bytes piece)
{
    struct inflated *inf = arg;

    if (piece.len > inf->limit - inf->out.len)
        return false;
    strbuf_append_bytes(&inf->out, piece);
    return true;
}

static bool give_piece(struct rpc_call *call, struct bytes piece, bool last)
{
    struct receiver *rx = &call->rx;

    if (call->finished || call->closed_told || rx->mode == RX_DISCARD)
        return false;
    rx->pieces += piece.len;
    if (rx->pieces / RPC_OVERSIZE_FACTOR >
        message_limit(call)) { /* the method answers without it */
        rx->mode = RX_DISCARD;
        piece.len = 0;
        last = true;
    }
    call->seen = true;
    call->method->oversize(call, call->method->service, piece, last);
    return !call->finished && rx->mode != RX_DISCARD;
}

static bool inflate_piece(void *arg, struct bytes piece)
{
    return give_piece(arg, piece, false);
}

static bool can_oversize(const struct rpc_call *call)
{
    return call->is_server && call->method->oversize;
}

/* A compressed message that is small, but whose content is too large. */
static void oversize_inflated(struct rpc_call *call, struct bytes packed)
{
    struct gunzip *g = gunzip_new();
    enum gunzip_result r = gunzip_feed(g, packed, inflate_piece, call);

    gunzip_free(g);
    if (r == GUNZIP_END)
        call->rx.was_oversize = true;
    else if (r != GUNZIP_STOPPED)
        fail(call, GRPC_INTERNAL, "cannot decompress the message");
}

/* Decompresses the message in place of itself. False: the call has ended, or its pieces are given away. */
static bool decompress(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;
    struct inflated inf = {.call = call, .limit = message_limit(call)};
    struct gunzip *g = gunzip_new();
    enum gunzip_result r = gunzip_feed(g, rx->message, collect, &inf);
    bool ok = r == GUNZIP_END;

    gunzip_free(g);
    if (ok) {
        arena_reset(rx->arena);
        rx->message = arena_dup(rx->arena, strbuf_bytes(&inf.out));
    } else if (r == GUNZIP_STOPPED && can_oversize(call)) {
        oversize_inflated(call, rx->message);
    } else if (r == GUNZIP_STOPPED) {
        fail(call, GRPC_RESOURCE_EXHAUSTED, "decompressed message > limit %zu bytes", inf.limit);
    } else {
        fail(call, GRPC_INTERNAL, "cannot decompress the message");
    }
    strbuf_deinit(&inf.out);
    return ok;
}

/* Counts what the prefix did not announce. False: there is no memory for it. */
static bool grow_room(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;
    size_t more = rx->message.len > rx->len ? rx->message.len - rx->len : 0;

    return budget_grow(&call->unanswered, more) && budget_grow(&rx->claim, more);
}

static bool keep_message(struct rpc_call *call, bool stream_ends)
{
    struct receiver *rx = &call->rx;

    if (!grow_room(call))
        return false;
    if (stream_ends || rx->claim.state != CLAIM_NONE)
        return true;
    if (!budget_take(&call->conn->server->budget, &rx->claim, rx->message.len))
        return false;
    call_set_timer(call); /* it waits here for END_STREAM */
    return true;
}

/* There is no memory for the message: the method sees it, if it can take it so, and nothing is kept. */
static void give_up_message(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    if (!can_oversize(call)) {
        fail(call, GRPC_RESOURCE_EXHAUSTED, "too many requests wait for memory");
        return;
    }
    rx->was_oversize = rx->has_no_room = true;
    give_piece(call, rx->message, false);
    release_room(call);
    budget_release(&call->unanswered);
    arena_free(rx->arena);
    rx->arena = NULL;
}

/* The message in rx->buf is whole. */
static void message_complete(struct rpc_call *call, bool stream_ends)
{
    struct receiver *rx = &call->rx;

    rx->message = bytes_of(rx->buf ? rx->buf : (const uint8_t *)"", rx->len);
    rx->buf = NULL;
    rx->mode = RX_PREFIX;
    rx->prefix_len = 0;
    if (rx->compressed && !decompress(call)) {
        arena_free(rx->arena);
        rx->arena = NULL;
        return;
    }
    if (!takes_one_message(call)) {
        struct arena *arena = rx->arena;
        rx->arena = NULL;
        if (call->is_server)
            release_room(call);
        deliver(call, arena, rx->message);
        return;
    }
    rx->has_message = keep_message(call, stream_ends);
    if (!rx->has_message)
        give_up_message(call);
}

/* ---- assembling ------------------------------------------------------------------------------ */

static void claim_wake(void *arg)
{
    struct rpc_conn *c = arg;

    if (c->ev.wake)
        c->ev.wake(c->ev.arg);
}

/* True: the claim was granted, now or before. */
static bool has_claim(struct rpc_call *call, struct budget *b, struct budget_claim *c, size_t bytes)
{
    if (budget_state(c) != CLAIM_NONE)
        return budget_state(c) == CLAIM_GRANTED;
    c->wake = claim_wake;
    c->arg = call->conn;
    return budget_claim(b, c, bytes) == CLAIM_GRANTED;
}

/* Asks for room for a message of which `avail` bytes are here. False: it has to wait. */
static bool claim_room(struct rpc_call *call, size_t avail)
{
    struct receiver *rx = &call->rx;

    if (!call->is_server)
        return true;
    struct budget *unanswered = &call->conn->server->unanswered;
    size_t cost = rx->len + RPC_REQUEST_COST;
    bool granted = call->method->weight != RPC_HELD_BACK ||
                   has_claim(call, unanswered, &call->unanswered, cost);
    if (granted && rx->len > avail) { /* the rest is still to come */
        granted = has_claim(call, &call->conn->server->budget, &rx->claim, rx->len);
        if (granted)
            call_set_timer(call);
    }
    /* Not before there is room to receive it: what waits for that must not hold completions back. */
    if (granted && call->method->weight == RPC_COUNTED &&
        budget_state(&call->unanswered) == CLAIM_NONE)
        budget_force(unanswered, &call->unanswered, cost);
    if (!granted && !call->room_wanted) {
        call->room_wanted = true;
        list_push_back(&call->conn->waiting, &call->room_node);
    }
    return granted;
}

static void begin_body(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    rx->mode = RX_BODY;
    rx->got = 0;
    rx->arena = arena_create();
    rx->buf = rx->len > 0 ? arena_alloc(rx->arena, rx->len) : NULL;
}

static void begin_oversize(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    rx->mode = RX_PIECES;
    rx->got = 0;
    rx->was_oversize = true;
    if (rx->compressed)
        rx->gunzip = gunzip_new();
}

/* The prefix is whole; `avail` bytes of what follows are here. */
static void begin_message(struct rpc_call *call, size_t avail)
{
    struct receiver *rx = &call->rx;
    const uint8_t *p = rx->prefix;

    rx->compressed = p[0] == 1;
    rx->len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    rx->prefix_len = 0;
    if (p[0] > 1)
        fail(call, GRPC_INTERNAL, "bad gRPC frame: unknown flags");
    else if (rx->compressed && !call->peer_gzip)
        fail(call, GRPC_INTERNAL, "compressed message without grpc-encoding");
    else if (takes_one_message(call) && (rx->has_message || rx->was_oversize))
        fail(call, GRPC_INTERNAL, "more than one request message");
    else if (rx->len > message_limit(call) && can_oversize(call))
        begin_oversize(call);
    else if (rx->len > message_limit(call))
        fail(call, GRPC_RESOURCE_EXHAUSTED, "%s %zu bytes > limit %zu",
             call->is_server ? "request" : "answer", rx->len, message_limit(call));
    else if (claim_room(call, avail))
        begin_body(call);
    else
        rx->mode = RX_ROOM;
}

static size_t take_prefix(struct rpc_call *call, struct bytes in)
{
    struct receiver *rx = &call->rx;
    size_t n = MIN(in.len, (size_t)(RPC_PREFIX_LEN - rx->prefix_len));

    memcpy(rx->prefix + rx->prefix_len, in.ptr, n);
    rx->prefix_len = (uint8_t)(rx->prefix_len + n);
    if (rx->prefix_len == RPC_PREFIX_LEN)
        begin_message(call, in.len - n);
    return n;
}

static size_t take_body(struct rpc_call *call, struct bytes in)
{
    struct receiver *rx = &call->rx;
    size_t n = MIN(in.len, rx->len - rx->got);

    if (n > 0)
        memcpy(rx->buf + rx->got, in.ptr, n);
    rx->got += n;
    return n;
}

static size_t take_piece(struct rpc_call *call, struct bytes in)
{
    struct receiver *rx = &call->rx;
    size_t n = MIN(in.len, rx->len - rx->got);
    struct bytes piece = bytes_of(in.ptr, n);

    rx->got += n;
    if (rx->compressed) {
        enum gunzip_result r = gunzip_feed(rx->gunzip, piece, inflate_piece, call);
        bool last = rx->got == rx->len;
        if (r == GUNZIP_BAD || (r == GUNZIP_MORE && last))
            fail(call, GRPC_INTERNAL, "cannot decompress the message");
    } else {
        give_piece(call, piece, false);
    }
    if (rx->mode == RX_PIECES && rx->got == rx->len)
        rx->mode = RX_PREFIX;
    if (call->finished)
        rx->mode = RX_DISCARD;
    return n;
}

/* Processes what it can of `in`; returns how much that was. */
static size_t process(struct rpc_call *call, struct bytes in, bool stream_ends)
{
    struct receiver *rx = &call->rx;
    size_t i = 0;

    while (!rx->paused && rx->mode != RX_ROOM) {
        struct bytes rest = bytes_of(in.ptr + i, in.len - i);
        if (rx->mode == RX_BODY) {
            i += take_body(call, rest);
            if (rx->got < rx->len)
                break;
            message_complete(call, stream_ends && i == in.len);
            if (call->finished || !call->conn)
                rx->mode = RX_DISCARD;
        } else if (rest.len == 0) {
            break;
        } else if (rx->mode == RX_PREFIX) {
            i += take_prefix(call, rest);
        } else if (rx->mode == RX_PIECES) {
            i += take_piece(call, rest);
        } else {
            i = in.len; /* RX_DISCARD */
        }
    }
    rx->done += i;
    return i;
}

/* Allows the peer one window beyond what was processed, or the rest of the message that has room. */
static void renew_window(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;
    uint64_t size = call->is_server ? RPC_SERVER_WINDOW : RPC_CLIENT_WINDOW;
    uint64_t target = rx->done + size;

    if (!call->conn || !call->stream_open || call->half_closed || call->finished || rx->paused ||
        rx->mode == RX_ROOM || rx->mode == RX_DISCARD)
        return;
    if (rx->mode == RX_BODY)
        target += rx->len - rx->got;
    target = MIN(target, rx->total + INT32_MAX);
    if (target < rx->window + size / 2)
        return;
    if (nghttp2_submit_window_update(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                     (int32_t)(target - rx->window)) == 0)
        rx->window = target;
    conn_want_send(call->conn);
}

/* A message waits for room, and there is no memory for what has come of it: it goes to the method in pieces. */
static void skim(struct rpc_call *call, struct bytes in)
{
    struct receiver *rx = &call->rx;
    struct strbuf held = rx->held;

    rx->held = (struct strbuf){0};
    if (held.len > 0)
        budget_unhold(&call->conn->server->budget, held.len);
    leave_waiting(call);
    release_room(call);
    budget_release(&call->unanswered);
    rx->has_no_room = true;
    begin_oversize(call);
    if (held.len > 0)
        process(call, strbuf_bytes(&held), false);
    process(call, in, false);
    strbuf_deinit(&held);
    renew_window(call);
}

static void hold(struct rpc_call *call, struct bytes in)
{
    if (in.len == 0)
        return;
    if (!call->is_server || budget_hold(&call->conn->server->budget, in.len))
        strbuf_append_bytes(&call->rx.held, in);
    else if (call->rx.mode == RX_ROOM && can_oversize(call))
        skim(call, in);
    else
        fail(call, GRPC_RESOURCE_EXHAUSTED, "too many requests wait for memory");
}

void call_receive(struct rpc_call *call, struct bytes in, bool stream_ends)
{
    struct receiver *rx = &call->rx;

    rx->total += in.len;
    rx->progress = call->conn->now;
    if (rx->mode == RX_DISCARD || call->finished)
        return;
    if (call->refusal) {
        if (rx->total > RPC_REFUSAL_BYTES)
            server_refuse(call);
        return;
    }
    if (rx->held.len > 0) {
        hold(call, in);
        return;
    }
    size_t n = process(call, in, stream_ends);
    if (n < in.len && rx->mode != RX_DISCARD)
        hold(call, bytes_of(in.ptr + n, in.len - n));
    renew_window(call);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void deliver_only_message(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    if (rx->was_oversize) {
        give_piece(call, bytes_of("", 0), true);
    } else if (!rx->has_message) {
        fail(call, GRPC_INTERNAL, "no request message");
    } else {
        struct arena *arena = rx->arena;
        rx->arena = NULL;
        rx->has_message = false;
        release_room(call);
        deliver(call, arena, rx->message);
    }
}

/* All that came before END_STREAM is processed. */
static void process_end(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    call->end_seen = true;
    if (call->finished)
        return;
    if (rx->mode == RX_DISCARD) {
        if (!call->is_server)
            client_end(call);
        return;
    }
    if (rx->mode != RX_PREFIX || rx->prefix_len > 0)
        fail(call, GRPC_INTERNAL, "the stream ended within a message");
    else if (takes_one_message(call))
        deliver_only_message(call);
    else if (!call->is_server)
        client_end(call);
    else if (call->method->half_close)
        call->method->half_close(call, call->method->service);
}

void call_receive_end(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    call->half_closed = true;
    if (call->refusal && !call->finished)
        server_refuse(call);
    if (rx->mode == RX_ROOM || rx->paused || rx->held.len > 0)
        return; /* call_receive_go_on() comes here again */
    process_end(call);
}

void call_receive_go_on(struct rpc_call *call)
{
    struct receiver *rx = &call->rx;

    if (rx->paused || !call->conn)
        return;
    if (rx->mode == RX_ROOM) {
        if (!claim_room(call, rx->held.len))
            return;
        leave_waiting(call);
        rx->progress = call->conn->now;
        begin_body(call);
        call_set_timer(call);
    }
    struct strbuf held = rx->held;
    rx->held = (struct strbuf){0};
    if (call->is_server && held.len > 0)
        budget_unhold(&call->conn->server->budget, held.len);
    size_t n = process(call, strbuf_bytes(&held), call->half_closed);
    if (n < held.len && call->conn && rx->mode != RX_DISCARD)
        hold(call, bytes_of(held.ptr + n, held.len - n));
    strbuf_deinit(&held);
    if (!call->conn)
        return;
    renew_window(call);
    if (call->half_closed && !call->end_seen && rx->held.len == 0 && rx->mode != RX_ROOM &&
        !rx->paused)
        process_end(call);
}

bool receiver_is_stalled(const struct rpc_call *call, usec_t now)
{
    return call->rx.claim.state == CLAIM_GRANTED && call->rx.mode != RX_ROOM &&
           now - call->rx.progress >= RPC_STALL_TIME;
}

void rpc_call_pause(struct rpc_call *call)
{
    call->rx.paused = true;
}

void rpc_call_resume(struct rpc_call *call)
{
    if (!call->rx.paused)
        return;
    call->rx.paused = false;
    if (call->conn && call->stream_open)
        call_receive_go_on(call);
}
