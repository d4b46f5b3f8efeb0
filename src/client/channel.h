/* channel.h - a client's connection to one server: made on demand, made again when it is lost.
 *
 * Two ways to use it. On a loop: channel_when_ready() gives the rpc_conn to start calls on. Blocking,
 * for commands: channel_new(NULL, ...) brings its own loop, and channel_unary() and channel_stream()
 * run it until the call has ended. One thread at a time.
 * Tests: tests/unit/test_grpc_listener.c
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "loop/tls.h"
#include "rpc/rpc.h"

struct channel;

struct channel_options {
    struct bytes
        address; /* HOST:PORT, [v6]:PORT, unix:PATH; http://, https://, grpc://, grpcs:// before it are fine */
    struct tls *tls; /* of a client, borrowed; the certificate must be for HOST. NULL: plaintext */
    const char *api_key;                      /* sent with every call; NULL: none */
    const char *user_agent;                   /* NULL: "perdure" */
    size_t message_bytes_max;                 /* largest answer message; 0: no limit */
    usec_t connect_timeout;                   /* 0: 10 s */
    usec_t keepalive_idle, keepalive_timeout; /* 0: no pings */
};

/* ERR_INVALID: the address does not parse. `loop` NULL: one of its own, for the blocking calls. */
MUST_CHECK enum err channel_new(struct loop *loop, const struct channel_options *opts,
                                struct channel **out, struct error *err);
void channel_free(struct channel *ch); /* running calls end with UNAVAILABLE; NULL is fine */

/* The connection if there is a usable one, else NULL. */
struct rpc_conn *channel_conn(struct channel *ch);
bool channel_has_connected(const struct channel *ch); /* at least once */
bool channel_was_refused(
    const struct channel *ch); /* the last attempt reached a server and got no TLS with it */
struct loop *channel_loop(struct channel *ch);
/* Calls fn once, never from within: with a usable connection, or with NULL and why there is none. After a failure the
 * next attempt waits 100 ms, then doubling to 5 s. */
typedef void channel_ready_fn(void *arg, struct rpc_conn *conn, const struct error *err);
void channel_when_ready(struct channel *ch, channel_ready_fn *fn, void *arg);
/* After rpc_conn_call() on the connection: its time-out may be the next thing due. */
void channel_call_started(struct channel *ch);

/* ---- blocking, on the channel's own loop ------------------------------------------------------ */

/* One request, one answer (appended to `answer`, may be NULL). Errors: those of the gRPC status, with the server's
 * message; ERR_UNAVAILABLE when it cannot be reached. `timeout` 0: none. */
MUST_CHECK enum err channel_unary(struct channel *ch, const char *path,
                                  const struct rpc_metadata *md, size_t md_count,
                                  struct bytes request, usec_t timeout, struct strbuf *answer,
                                  struct error *err);
/* Server streaming: fn gets each message and returns false to stop (which is OK then). */
MUST_CHECK enum err channel_stream(struct channel *ch, const char *path,
                                   const struct rpc_metadata *md, size_t md_count,
                                   struct bytes request, usec_t timeout,
                                   bool (*fn)(void *arg, struct bytes message), void *arg,
                                   struct error *err);
