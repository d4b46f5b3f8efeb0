#include "bench/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "wire/wire.h"

struct pending {
    struct bench *bench;
    bench_answer_fn *fn;
    void *arg;
    struct arena *arena;
    struct bytes answer;
};

static struct rpc_msg *pack(const ProtobufCMessage *m)
{
    size_t size = wire_packed_size(m);
    struct rpc_msg *msg = rpc_msg_new(size);

    wire_pack(m, rpc_msg_data(msg), size);
    return msg;
}

struct rpc_call *bench_call(struct bench_link *k, const char *path, usec_t timeout,
                            const struct rpc_client_events *ev, const ProtobufCMessage *request)
{
    struct bench *b = k->bench;
    struct rpc_metadata md = {"taskhub", bytes_str(b->opts->hub)};
    struct rpc_conn *conn = channel_conn(k->channel);
    struct rpc_call *call = conn ? rpc_conn_call(conn, path, &md, b->opts->hub ? 1 : 0, timeout,
                                                 false, ev, loop_now(b->loop))
                                 : NULL;

    if (!call) {
        if (!b->is_given_up)
            bench_fail(b, "a connection was lost");
        bench_give_up(b);
        return NULL;
    }
    rpc_call_send(call, pack(request));
    rpc_call_close_send(call);
    if (timeout > 0)
        channel_call_started(k->channel);
    return call;
}

static void got_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                        struct bytes msg)
{
    struct pending *p = arg;

    arena_free(p->arena);
    p->arena = arena;
    p->answer = msg;
}

static void got_end(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct pending *p = arg;

    p->bench->answers++;
    p->fn(p->bench, p->arg, status, message, p->answer);
    arena_free(p->arena);
    rpc_call_unref(call);
    free(p);
}

void bench_unary(struct bench_link *k, const char *path, usec_t timeout,
                 const ProtobufCMessage *request, bench_answer_fn *fn, void *arg)
{
    struct pending *p = calloc(1, sizeof(*p));

    ASSERT(p);
    *p = (struct pending){.bench = k->bench, .fn = fn, .arg = arg};
    struct rpc_client_events ev = {.message = got_message, .finished = got_end, .arg = p};
    if (!bench_call(k, path, timeout, &ev, request))
        free(p);
}
