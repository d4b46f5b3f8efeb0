/* interop_server.c - grpc.testing.TestService on our gRPC layer, for gRPC's official interop clients
 * and for h2spec.
 *
 * `interop_server ADDRESS [SETTING=VALUE ...]` prints "ready ADDRESS" when it listens and serves until
 * it is killed; SIGTERM shuts down gracefully.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "base/log.h"
#include "grpc_testing.h"
#include "rpc/health.h"
#include "server/grpc_listener.h"

/* ---- answers --------------------------------------------------------------------------------- */

static struct rpc_msg *answer_of(size_t size)
{
    struct strbuf out = {0};

    gt_write_answer(size, &out);
    struct rpc_msg *m = rpc_msg_new(out.len);
    memcpy(rpc_msg_data(m), out.ptr, out.len);
    strbuf_deinit(&out);
    return m;
}

/* custom_metadata: what comes is sent back. */
static void echo_metadata(struct rpc_call *call)
{
    struct bytes initial = rpc_call_header(call, "x-grpc-test-echo-initial");
    struct bytes trailing = rpc_call_header(call, "x-grpc-test-echo-trailing-bin");

    if (!bytes_is_none(initial))
        rpc_call_add_header(call, "x-grpc-test-echo-initial", initial);
    if (!bytes_is_none(trailing))
        rpc_call_add_trailer(call, "x-grpc-test-echo-trailing-bin", trailing);
}

static bool parse(struct rpc_call *call, enum gt_kind kind, struct bytes msg, struct gt_request *r)
{
    if (gt_parse_request(kind, msg, r))
        return true;
    rpc_call_finish(call, GRPC_INVALID_ARGUMENT, BYTES_LIT("malformed request"));
    return false;
}

/* ---- unary ----------------------------------------------------------------------------------- */

static void empty_call(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                       struct bytes msg UNUSED)
{
    echo_metadata(call);
    rpc_call_reply(call, rpc_msg_new(0));
    arena_free(arena);
}

static void unary_call(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                       struct bytes msg)
{
    struct gt_request r;

    echo_metadata(call);
    if (parse(call, GT_SIMPLE, msg, &r)) {
        if (r.has_status && r.status != 0)
            rpc_call_finish(call, (int)r.status, r.status_message);
        else
            rpc_call_reply(call, answer_of(r.response_size));
    }
    arena_free(arena);
}

/* ---- streams --------------------------------------------------------------------------------- */

struct sum {
    uint64_t bytes;
};

static void input_start(struct rpc_call *call, void *service UNUSED)
{
    rpc_call_set_context(call, calloc(1, sizeof(struct sum)));
}

static void input_message(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                          struct bytes msg)
{
    struct sum *sum = rpc_call_context(call);
    struct gt_request r;

    if (parse(call, GT_STREAMING_INPUT, msg, &r))
        sum->bytes += r.payload_len;
    else
        free(sum);
    arena_free(arena);
}

static void input_half_close(struct rpc_call *call, void *service UNUSED)
{
    struct sum *sum = rpc_call_context(call);
    struct strbuf out = {0};

    gt_write_aggregate((uint32_t)sum->bytes, &out);
    struct rpc_msg *m = rpc_msg_new(out.len);
    if (out.len > 0)
        memcpy(rpc_msg_data(m), out.ptr, out.len);
    strbuf_deinit(&out);
    free(sum);
    rpc_call_reply(call, m);
}

static void input_closed(struct rpc_call *call, void *service UNUSED)
{
    free(rpc_call_context(call));
}

/* Sends the answers that a request asks for. False: it asked for an error instead. */
static bool send_answers(struct rpc_call *call, const struct gt_request *r)
{
    for (size_t i = 0; i < r->parameter_count; i++)
        rpc_call_send(call, answer_of(r->parameters[i].size));
    if (!r->has_status || r->status == 0)
        return true;
    rpc_call_finish(call, (int)r->status, r->status_message);
    return false;
}

static void output_call(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                        struct bytes msg)
{
    struct gt_request r;

    echo_metadata(call);
    if (parse(call, GT_STREAMING_OUTPUT, msg, &r) && send_answers(call, &r))
        rpc_call_finish(call, GRPC_OK, BYTES_NONE);
    arena_free(arena);
}

static void duplex_start(struct rpc_call *call, void *service UNUSED)
{
    echo_metadata(call);
}

static void duplex_message(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                           struct bytes msg)
{
    struct gt_request r;

    if (parse(call, GT_STREAMING_OUTPUT, msg, &r))
        send_answers(call, &r);
    arena_free(arena);
}

static void duplex_half_close(struct rpc_call *call, void *service UNUSED)
{
    rpc_call_finish(call, GRPC_OK, BYTES_NONE);
}

#define PATH(name) "/grpc.testing.TestService/" name

static const struct rpc_method METHODS[] = {
    {.path = PATH("EmptyCall"), .kind = RPC_UNARY, .message = empty_call},
    {.path = PATH("UnaryCall"), .kind = RPC_UNARY, .message = unary_call},
    {.path = PATH("CacheableUnaryCall"), .kind = RPC_UNARY, .message = unary_call},
    {.path = PATH("StreamingOutputCall"), .kind = RPC_SERVER_STREAM, .message = output_call},
    {.path = PATH("StreamingInputCall"),
     .kind = RPC_CLIENT_STREAM,
     .start = input_start,
     .message = input_message,
     .half_close = input_half_close,
     .closed = input_closed},
    {.path = PATH("FullDuplexCall"),
     .kind = RPC_BIDI,
     .start = duplex_start,
     .message = duplex_message,
     .half_close = duplex_half_close},
};

/* ---- the process ----------------------------------------------------------------------------- */

struct shutdown {
    struct grpc_front *front;
    struct loop **loops;
    struct loop_timer *timer;
};

static void stop_when_empty(void *arg)
{
    struct shutdown *sd = arg;

    if (grpc_front_connections(sd->front) == 0) {
        loop_stop(sd->loops[0]);
        loop_stop(sd->loops[1]);
        return;
    }
    loop_timer_set(sd->timer, usec_add(loop_now(sd->loops[0]), 10 * USEC_PER_MSEC));
}

static void on_term(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct shutdown *sd = arg;

    grpc_front_stop_listening(sd->front);
    grpc_front_shutdown(sd->front);
    stop_when_empty(sd);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static bool apply_settings(struct settings *set, int argc, char **argv)
{
    struct error err;

    settings_defaults(set);
    for (int i = 2; i < argc; i++) {
        struct bytes arg = bytes_str(argv[i]);
        const uint8_t *eq = memchr(arg.ptr, '=', arg.len);
        size_t n = eq ? (size_t)(eq - arg.ptr) : arg.len;
        if (!eq ||
            settings_set(set, bytes_of(arg.ptr, n), bytes_of(eq + 1, arg.len - n - 1), &err)) {
            fprintf(stderr, "bad setting %s\n", argv[i]);
            return false;
        }
    }
    return true;
}

static void announce(const struct grpc_front *front)
{
    struct strbuf text = {0};

    grpc_front_addresses(front, &text);
    printf("ready %s\n", strbuf_cstr(&text));
    fflush(stdout);
    strbuf_deinit(&text);
}

int main(int argc, char **argv)
{
    struct settings set;
    struct error err = {0};
    struct loop *loops[2];
    pthread_t thread;

    log_setup(LOG_INFO, LOG_TEXT);
    if (argc < 2 || !apply_settings(&set, argc, argv))
        return 2;
    const struct rpc_server_options opts = {.settings = &set};
    struct rpc_server *server = rpc_server_new(&opts);
    struct health *health = health_new();
    health_register(health, server);
    health_set(health, true);
    rpc_server_add(server, METHODS, ARRAY_LEN(METHODS));
    if (loop_new(&loops[0], &err) || loop_new(&loops[1], &err))
        return 1;
    struct grpc_front *front = grpc_front_new(&(struct grpc_front_options){
        .loops = loops, .loop_count = 2, .server = server, .settings = &set});
    if (grpc_front_listen(front, bytes_str(argv[1]), &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    struct shutdown sd = {.front = front, .loops = loops};
    sd.timer = loop_timer_new(loops[0], stop_when_empty, &sd);
    struct event *term = evsignal_new(loop_event_base(loops[0]), SIGTERM, on_term, &sd);
    event_add(term, NULL);
    announce(front);
    pthread_create(&thread, NULL, run_loop, loops[1]);
    loop_run(loops[0]);
    pthread_join(thread, NULL);
    event_free(term);
    loop_timer_free(sd.timer);
    grpc_front_free(front);
    loop_free(loops[0]);
    loop_free(loops[1]);
    rpc_server_free(server);
    health_free(health);
    return 0;
}
