/* blocking.c - calls that wait, for commands: they run the channel's own loop until the call has ended. */
#include "base/assert.h"
#include "client/channel.h"

struct blocking {
    struct channel *ch;
    struct rpc_call *call;
    struct rpc_client_events ev;
    const char *path;
    const struct rpc_metadata *md;
    size_t md_count;
    struct bytes request;
    usec_t due; /* of the whole, connecting included; USEC_NEVER: none */
    bool (*fn)(void *arg, struct bytes message);
    void *arg;
    bool stopped; /* by fn */
    enum err result;
    struct error *err;
};

static void end(struct blocking *b, enum err result)
{
    b->result = result;
    loop_stop(channel_loop(b->ch));
}

static void on_message(struct rpc_call *call, void *arg, struct arena *arena, struct bytes msg)
{
    struct blocking *b = arg;

    if (!b->stopped && !b->fn(b->arg, msg)) {
        b->stopped = true;
        rpc_call_cancel(call);
    }
    arena_free(arena);
}

static void on_finished(struct rpc_call *call UNUSED, void *arg, int status, struct bytes message)
{
    struct blocking *b = arg;

    if (status == GRPC_OK || b->stopped)
        end(b, OK);
    else if (message.len > 0)
        end(b, error_set(b->err, err_from_grpc(status), "%.*s", BYTES_FMT(message)));
    else
        end(b, error_set(b->err, err_from_grpc(status), "%s", grpc_status_name(status)));
}

static void on_ready(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct blocking *b = arg;
    usec_t now = loop_now(channel_loop(b->ch));

    if (!conn) {
        if (b->err)
            *b->err = *err;
        end(b, err->code);
        return;
    }
    usec_t left = b->due == USEC_NEVER ? 0 : MAX(b->due - now, 1);
    b->call = rpc_conn_call(conn, b->path, b->md, b->md_count, left, false, &b->ev, now);
    if (!b->call) {
        end(b, error_set(b->err, ERR_UNAVAILABLE, "the connection takes no calls"));
        return;
    }
    struct rpc_msg *m = rpc_msg_new(b->request.len);
    if (b->request.len > 0)
        memcpy(rpc_msg_data(m), b->request.ptr, b->request.len);
    rpc_call_send(b->call, m);
    rpc_call_close_send(b->call);
    channel_call_started(b->ch);
}

enum err channel_stream(struct channel *ch, const char *path, const struct rpc_metadata *md,
                        size_t md_count, struct bytes request, usec_t timeout,
                        bool (*fn)(void *arg, struct bytes message), void *arg, struct error *err)
{
    usec_t now = loop_now(channel_loop(ch));
    struct blocking b = {.ch = ch,
                         .ev = {.message = on_message, .finished = on_finished},
                         .path = path,
                         .md = md,
                         .md_count = md_count,
                         .request = request,
                         .due = timeout > 0 ? usec_add(now, timeout) : USEC_NEVER,
                         .fn = fn,
                         .arg = arg,
                         .err = err};

    b.ev.arg = &b;
    if (channel_conn(ch))
        on_ready(&b, channel_conn(ch), NULL);
    else
        channel_when_ready(ch, on_ready, &b);
    loop_run(channel_loop(ch));
    rpc_call_unref(b.call);
    return b.result;
}

struct unary {
    struct strbuf *answer;
    size_t count;
};

static bool take_answer(void *arg, struct bytes message)
{
    struct unary *u = arg;

    u->count++;
    if (u->answer)
        strbuf_append_bytes(u->answer, message);
    return true;
}

enum err channel_unary(struct channel *ch, const char *path, const struct rpc_metadata *md,
                       size_t md_count, struct bytes request, usec_t timeout, struct strbuf *answer,
                       struct error *err)
{
    struct unary u = {.answer = answer};
    enum err e = channel_stream(ch, path, md, md_count, request, timeout, take_answer, &u, err);

    if (e == OK && u.count != 1)
        return error_set(err, ERR_INTERNAL, "%zu answers to a unary call", u.count);
    return e;
}
