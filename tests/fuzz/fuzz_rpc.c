/* fuzz_rpc.c - what a peer may send as HTTP/2 and gRPC, to the server end and to the client end.
 *
 * The first byte chooses the end and how the rest is cut into pieces; the rest is what comes after the
 * connection preface. Time passes a little with each piece, and everything that is to be sent is taken.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/rpc.h"

static struct rpc_call *streaming; /* the last one, to have something to send to */

static void on_message(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                       struct bytes msg)
{
    struct rpc_msg *m = rpc_msg_new(msg.len);

    if (msg.len > 0)
        memcpy(rpc_msg_data(m), msg.ptr, msg.len);
    arena_free(arena);
    if (rpc_call_method(call)->kind == RPC_UNARY)
        rpc_call_reply(call, m);
    else
        rpc_call_send(call, m);
}

static void on_start(struct rpc_call *call, void *service UNUSED)
{
    rpc_call_unref(streaming);
    streaming = rpc_call_ref(call);
    rpc_call_send_headers(call);
}

static void on_half_close(struct rpc_call *call, void *service UNUSED)
{
    rpc_call_finish(call, GRPC_OK, BYTES_NONE);
}

static void on_oversize(struct rpc_call *call, void *service UNUSED, struct bytes piece UNUSED,
                        bool last)
{
    if (last)
        rpc_call_finish(call, GRPC_FAILED_PRECONDITION, BYTES_LIT("too large"));
}

static const struct rpc_method METHODS[] = {
    {.path = "/a", .kind = RPC_UNARY, .message = on_message},
    {.path = "/b", .kind = RPC_UNARY, .message = on_message, .oversize = on_oversize},
    {.path = "/c",
     .kind = RPC_BIDI,
     .message = on_message,
     .start = on_start,
     .half_close = on_half_close},
};

static void want_send(void *arg UNUSED)
{
}

static const struct rpc_conn_events EVENTS = {.want_send = want_send};

static void take_output(struct rpc_conn *c, usec_t now)
{
    struct strbuf out = {0};

    while (rpc_conn_send(c, &out, KIB(64), now))
        strbuf_reset(&out);
    strbuf_deinit(&out);
}

/* Feeds `in` in pieces. False: the connection is broken. */
static bool feed(struct rpc_conn *c, struct bytes in, size_t piece, usec_t *now)
{
    while (in.len > 0) {
        size_t n = MIN(piece, in.len);
        if (rpc_conn_recv(c, bytes_of(in.ptr, n), *now, NULL) != OK)
            return false;
        in = bytes_of(in.ptr + n, in.len - n);
        take_output(c, *now);
        *now += 100 * USEC_PER_MSEC;
        if (rpc_conn_next_tick(c) <= *now && rpc_conn_tick(c, *now, NULL) != OK)
            return false;
    }
    return true;
}

static void fuzz_server(struct bytes in, size_t piece)
{
    struct settings settings;
    usec_t now = USEC_PER_SEC;

    settings_defaults(&settings);
    settings.request_bytes = 4096;
    settings.request_buffered_bytes = 8192;
    settings.streams_connection = 50;
    struct rpc_server *s = rpc_server_new(&(struct rpc_server_options){.settings = &settings});
    rpc_server_add(s, METHODS, ARRAY_LEN(METHODS));
    struct rpc_conn *c = rpc_conn_new_server(s, 1, BYTES_LIT("fuzz"), &EVENTS, now);
    if (feed(c, BYTES_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"), SIZE_MAX,
             &now) &&
        feed(c, in, piece, &now)) {
        rpc_conn_shutdown(c);
        take_output(c, now);
        if (streaming)
            rpc_call_finish(streaming, GRPC_UNAVAILABLE, BYTES_LIT("over"));
        take_output(c, now);
    }
    rpc_conn_free(c);
    rpc_call_unref(streaming);
    streaming = NULL;
    rpc_server_free(s);
}

static int finished;

static void on_answer(struct rpc_call *call UNUSED, void *arg UNUSED, struct arena *arena,
                      struct bytes msg UNUSED)
{
    arena_free(arena);
}

static void on_finished(struct rpc_call *call, void *arg UNUSED, int status,
                        struct bytes message UNUSED)
{
    ASSERT(status >= 0 && status <= GRPC_UNAUTHENTICATED);
    (void)rpc_call_trailer(call, "x-bin");
    finished++;
}

static void fuzz_client(struct bytes in, size_t piece)
{
    const struct rpc_conn_client_options opts = {
        .authority = "a", .user_agent = "", .message_bytes_max = 4096};
    const struct rpc_client_events ev = {.message = on_answer, .finished = on_finished};
    usec_t now = USEC_PER_SEC;
    struct rpc_conn *c = rpc_conn_new_client(&opts, &EVENTS, now);
    int started = 0;

    finished = 0;
    for (; started < 3; started++) {
        struct rpc_call *call =
            rpc_conn_call(c, "/a", NULL, 0, started == 2 ? USEC_PER_SEC : 0, false, &ev, now);
        ASSERT(call);
        rpc_call_send(call, rpc_msg_new(3));
        if (started != 1)
            rpc_call_close_send(call);
        rpc_call_unref(call);
    }
    take_output(c, now);
    feed(c, in, piece, &now);
    rpc_conn_free(c);
    ASSERT(finished == started); /* each call ends once, whatever comes */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > KIB(64))
        return 0;
    size_t piece = (data[0] >> 1) == 0 ? SIZE_MAX : data[0] >> 1;
    if (data[0] & 1)
        fuzz_client(bytes_of(data + 1, size - 1), piece);
    else
        fuzz_server(bytes_of(data + 1, size - 1), piece);
    return 0;
}
