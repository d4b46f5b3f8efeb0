/* fuzz_conn.c - HTTP/2 and gRPC bytes into a connection of the real service, and into a client's end.
 *
 * The first byte: bit 0 the client's end, bit 1 bytes as they are (else a list of frames), the rest how many bytes are handed over
 * at a time (0: all). A list of frames is read as operations, so that an input need not get HPACK and lengths right to come far:
 * what each takes stands at its function.
 *
 * Whatever comes: no crash, no hang, each call ends once, nothing stays behind, and afterwards others are served.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "lib/rpc_frames.h"
#include "talk.h"
#include "wire/wire.h"

#define FRAMES_MAX 200
#define END_STREAM 1
#define END_HEADERS 4

static const struct bytes PREFACE =
    BYTES_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");

static const char *const PATHS[] = {
    "StartInstance",
    "GetInstance",
    "GetWorkItems",
    "WaitForInstanceCompletion",
    "RaiseEvent",
    "TerminateInstance",
    "PurgeInstances",
    "CompleteActivityTask",
    "StreamInstanceHistory",
    "CompleteOrchestratorTask",
    "AbandonTaskActivityWorkItem",
    "Hello",
    "WaitForInstanceStart",
    "SuspendInstance",
    "QueryInstances",
    "nothing",
};

struct input {
    struct bytes left;
    uint32_t next_stream; /* of the peer that is played */
};

static uint8_t take_byte(struct input *in)
{
    if (in->left.len == 0)
        return 0;
    uint8_t b = in->left.ptr[0];
    in->left = bytes_of(in->left.ptr + 1, in->left.len - 1);
    return b;
}

static struct bytes take_bytes(struct input *in)
{
    size_t len = take_byte(in);

    len = MIN(len, in->left.len);
    struct bytes b = bytes_of(in->left.ptr, len);

    in->left = bytes_of(in->left.ptr + len, in->left.len - len);
    return b;
}

/* One of the latest streams: a byte, how far back. */
static uint32_t take_stream(struct input *in)
{
    uint32_t back = take_byte(in) * 2u + 2;

    return in->next_stream > back ? in->next_stream - back : 1;
}

/* A method, and a byte of bits. */
static void put_request(struct input *in, struct strbuf *out)
{
    CLEANUP(strbuf_deinit) struct strbuf block = {0}, path = {0};
    uint8_t method = take_byte(in), bits = take_byte(in);
    bool is_health = method >= 128;

    strbuf_appendf(&path, "/%s/%s", is_health ? "grpc.health.v1.Health" : "TaskHubSidecarService",
                   is_health ? (method & 1 ? "Check" : "Watch") : PATHS[method % ARRAY_LEN(PATHS)]);
    rpc_put_field(&block, ":method", "POST");
    rpc_put_field(&block, ":scheme", "http");
    rpc_put_field(&block, ":path", strbuf_cstr(&path));
    rpc_put_field(&block, ":authority", "a");
    if (!(bits & 2))
        rpc_put_field(&block, "te", "trailers");
    rpc_put_field(&block, "content-type", bits & 4 ? "text/plain" : "application/grpc");
    if (bits & 8)
        rpc_put_field(&block, "grpc-timeout", "1S");
    if (bits & 16)
        rpc_put_field(&block, "grpc-encoding", "gzip");
    if (bits & 32)
        rpc_put_field(&block, "taskhub", "Other");
    if (bits & 64)
        rpc_put_field(&block, "user-agent", "grpc-java-netty/1.60.0");
    if (bits & 128)
        rpc_put_field(&block, "x-data-bin", "AAE");
    rpc_put_frame(out, 1, END_HEADERS | (bits & END_STREAM), in->next_stream, strbuf_bytes(&block));
    in->next_stream += 2;
}

/* A stream, and a byte of bits: headers or trailers of an answer. */
static void put_response(struct input *in, struct strbuf *out)
{
    CLEANUP(strbuf_deinit) struct strbuf block = {0};
    uint32_t stream = take_stream(in);
    uint8_t bits = take_byte(in);

    if (!(bits & 2)) {
        rpc_put_field(&block, ":status", bits & 4 ? "503" : "200");
        rpc_put_field(&block, "content-type", bits & 8 ? "text/html" : "application/grpc");
    }
    if (bits & 16)
        rpc_put_field(&block, "grpc-encoding", "gzip");
    if (bits & (2 | 32)) {
        static const char *const STATUSES[] = {"0", "5", "14", "99"};
        rpc_put_field(&block, "grpc-status", STATUSES[bits >> 6]);
        rpc_put_field(&block, "grpc-message", "a%20b%zz%");
    }
    rpc_put_frame(out, 1, END_HEADERS | (bits & END_STREAM), stream, strbuf_bytes(&block));
}

/* A stream, a byte of bits, and a message: framed as gRPC frames it, or with a length that is wrong. */
static void put_message(struct input *in, struct strbuf *out)
{
    CLEANUP(strbuf_deinit) struct strbuf body = {0};
    uint32_t stream = take_stream(in);
    uint8_t bits = take_byte(in);
    struct bytes m = take_bytes(in);
    size_t len = m.len + (bits >> 4);

    strbuf_append_char(&body, (char)(bits >> 1 & 1));
    strbuf_append(&body, (const uint8_t[]){0, 0, (uint8_t)(len >> 8), (uint8_t)len}, 4);
    strbuf_append_bytes(&body, m);
    rpc_put_frame(out, 0, bits & END_STREAM, stream, strbuf_bytes(&body));
}

/* Type, flags, a stream, and what is in it. */
static void put_any(struct input *in, struct strbuf *out)
{
    uint8_t type = take_byte(in), flags = take_byte(in);
    uint8_t on = in->left.len ? in->left.ptr[0] : 0;
    uint32_t stream = on == 255 ? 0 : take_stream(in);

    if (on == 255)
        take_byte(in);
    rpc_put_frame(out, type, flags, stream, take_bytes(in));
}

enum { PUT_HEAD, PUT_MESSAGE, PUT_ANY, PUT_RESET, PUT_RAW, PASS_TIME, SHUT_DOWN, CANCEL, KINDS };

/* The bytes of the next operation; a number for what is none: PASS_TIME, SHUT_DOWN, CANCEL. */
static unsigned next_operation(struct input *in, bool to_client, struct strbuf *out)
{
    unsigned kind = take_byte(in) % KINDS;

    switch (kind) {
    case PUT_HEAD:
        if (to_client)
            put_response(in, out);
        else
            put_request(in, out);
        break;
    case PUT_MESSAGE:
        put_message(in, out);
        break;
    case PUT_ANY:
        put_any(in, out);
        break;
    case PUT_RESET: {
        uint32_t stream = take_stream(in);
        rpc_put_frame(out, 3, 0, stream,
                      bytes_of((const uint8_t[]){0, 0, 0, take_byte(in) & 15}, 4));
        break;
    }
    case PUT_RAW:
        strbuf_append_bytes(out, take_bytes(in));
        break;
    default:
        break;
    }
    return kind;
}

/* ---- the server's end -------------------------------------------------------------------------- */

static void play_client(struct served *s, struct served_conn *c, struct input *in, bool is_raw)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};

    if (!served_feed(c, PREFACE))
        return;
    if (is_raw) {
        served_feed(c, in->left);
        return;
    }
    for (unsigned i = 0; i < FRAMES_MAX && in->left.len > 0 && !c->is_broken; i++) {
        strbuf_reset(&out);
        switch (next_operation(in, false, &out)) {
        case PASS_TIME:
            served_advance(s, (usec_t)3600 * USEC_PER_SEC >> (take_byte(in) % 32));
            break;
        case SHUT_DOWN:
            rpc_conn_shutdown(c->server);
            break;
        default:
            served_feed(c, strbuf_bytes(&out));
            break;
        }
        served_run(s);
    }
}

static void fuzz_server(struct bytes in, bool is_raw, size_t piece, struct bytes whole)
{
    struct world *w = world_new(NULL);

    w->settings.request_bytes = 4096;
    w->settings.request_buffered_bytes = 8192;
    w->settings.streams_connection = 50;
    struct served *s = served_new(w);
    struct served_conn *c = served_by_hand(s);
    struct input input = {.left = in, .next_stream = 1};
    c->piece = piece;
    play_client(s, c, &input, is_raw);
    served_run(s);
    served_advance(s, USEC_PER_SEC);
    served_close(c);
    talk_probe(s, whole);
    served_free(s);
}

/* ---- the client's end -------------------------------------------------------------------------- */

#define CALLS 3

static int finished;

static void on_answer(struct rpc_call *call UNUSED, void *arg UNUSED, struct arena *arena,
                      struct bytes msg)
{
    WorkItem *item;
    enum err e = wire_unpack(&work_item__descriptor, arena, msg, &WIRE_LIMITS, &item, NULL);

    (void)e; /* the server may send anything */
    arena_free(arena);
}

static void on_finished(struct rpc_call *call, void *arg UNUSED, int status,
                        struct bytes message UNUSED)
{
    ASSERT(status >= 0 && status <= GRPC_UNAUTHENTICATED);
    (void)rpc_call_trailer(call, "x-bin");
    finished++;
}

static void want_send(void *arg UNUSED)
{
}

static bool feed_client(struct rpc_conn *c, struct bytes in, size_t piece, usec_t now)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};

    while (in.len > 0) {
        size_t n = MIN(piece ? piece : in.len, in.len);
        if (rpc_conn_recv(c, bytes_of(in.ptr, n), now, NULL) != OK)
            return false;
        in = bytes_of(in.ptr + n, in.len - n);
        while (rpc_conn_send(c, &out, KIB(64), now))
            strbuf_reset(&out);
    }
    return true;
}

static void play_server(struct rpc_conn *c, struct rpc_call *calls[CALLS], struct input *in,
                        bool is_raw, size_t piece)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    usec_t now = 2 * USEC_PER_SEC;

    if (is_raw) {
        feed_client(c, in->left, piece, now);
        return;
    }
    rpc_put_frame(&out, 4, 0, 0, BYTES_LIT(""));
    for (unsigned i = 0; i < FRAMES_MAX && in->left.len > 0; i++) {
        unsigned kind = next_operation(in, true, &out);
        if (kind == PASS_TIME)
            now += (usec_t)3600 * USEC_PER_SEC >> (take_byte(in) % 32);
        else if (kind == CANCEL)
            rpc_call_cancel(calls[take_byte(in) % CALLS]);
        if (!feed_client(c, strbuf_bytes(&out), piece, now) ||
            (rpc_conn_next_tick(c) <= now && rpc_conn_tick(c, now, NULL) != OK))
            return;
        strbuf_reset(&out);
    }
}

static void fuzz_client(struct bytes in, bool is_raw, size_t piece)
{
    const struct rpc_conn_client_options opts = {
        .authority = "a", .user_agent = "", .message_bytes_max = 4096};
    const struct rpc_conn_events conn_events = {.want_send = want_send};
    const struct rpc_client_events ev = {.message = on_answer, .finished = on_finished};
    struct rpc_conn *c = rpc_conn_new_client(&opts, &conn_events, USEC_PER_SEC);
    struct rpc_call *calls[CALLS];
    struct input input = {.left = in, .next_stream = 1 + 2 * CALLS};

    finished = 0;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = rpc_conn_call(c, "/TaskHubSidecarService/GetWorkItems", NULL, 0,
                                 i == 2 ? USEC_PER_SEC * 60 : 0, i == 1, &ev, USEC_PER_SEC);
        ASSERT(calls[i]);
        rpc_call_send(calls[i], rpc_msg_new(3));
        if (i != 1)
            rpc_call_close_send(calls[i]);
    }
    play_server(c, calls, &input, is_raw, piece);
    for (int i = 0; i < CALLS; i++)
        rpc_call_unref(calls[i]);
    rpc_conn_free(c);
    ASSERT(finished == CALLS);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    log_setup(LOG_ERROR, LOG_TEXT);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes in = bytes_of(data + 1, size - 1);
    bool is_raw = data[0] & 2;
    size_t piece = data[0] >> 2;
    if (data[0] & 1)
        fuzz_client(in, is_raw, piece);
    else
        fuzz_server(in, is_raw, piece, bytes_of(data, size));
    return 0;
}
