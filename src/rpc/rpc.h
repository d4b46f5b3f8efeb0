/* rpc.h - gRPC over HTTP/2, both ends, as a machine that eats and yields bytes.
 *
 * No sockets, threads, clocks or timers in here: the shell feeds what arrived, takes what is to be
 * sent, and asks when it wants to be woken. HTTP/2 is nghttp2's; this layer adds gRPC's framing,
 * metadata, status, deadlines and compression (gRPC PROTOCOL-HTTP2, spec section 2).
 *
 * A connection and all its calls belong to one thread. Callbacks run inside rpc_conn_recv(),
 * rpc_conn_tick() and the call functions' own callers never see re-entry of the same callback for
 * the same call. A call stays allocated while it is referenced (rpc_call_ref), also after its
 * connection is gone; every function on a finished or closed call is then harmless.
 * Tests: tests/unit/test_rpc_*.c, tests/interop/
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/time.h"

/* gRPC's status numbers. */
enum {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED
};

struct rpc_conn; /* one HTTP/2 connection, either end */
struct rpc_call; /* one gRPC call on it, either end */
struct
    rpc_server; /* what all server connections share: methods, limits, budget for buffered bytes */

/* ---- messages to send ------------------------------------------------------------------------ */

/* Bytes to send as one gRPC message; reference counted (not atomic: hand it over, do not share it
 * between threads), so one answer can go to a thousand waiters of one thread. The five bytes of the
 * gRPC prefix are kept in front of the data: no copy is made to frame it. */
struct rpc_msg;
struct rpc_msg *rpc_msg_new(size_t len); /* one reference; fill rpc_msg_data() */
uint8_t *rpc_msg_data(struct rpc_msg *m);
size_t rpc_msg_len(const struct rpc_msg *m);
struct rpc_msg *rpc_msg_ref(struct rpc_msg *m);
void rpc_msg_unref(struct rpc_msg *m); /* NULL is fine */

/* ---- the server end -------------------------------------------------------------------------- */

enum rpc_kind { RPC_UNARY, RPC_CLIENT_STREAM, RPC_SERVER_STREAM, RPC_BIDI };

/* What a unary method's request does while overload.queued_bytes of requests that are not yet answered are in memory (spec 8.6). */
enum rpc_weight {
    RPC_NOT_COUNTED, /* nothing, and it is not counted: its answer does not wait for a commit */
    RPC_COUNTED,     /* is given to the handler, which may refuse it */
    RPC_HELD_BACK,   /* waits in its stream, by flow control, until there is room: never refused */
};

struct rpc_method {
    const char *path; /* "/TaskHubSidecarService/Hello" */
    enum rpc_kind kind;
    enum rpc_weight weight;
    size_t bytes_max; /* largest request, if less than request.bytes; 0: that */
    /* The deadline is the handler's own: at it `deadline` is called instead of ending the call with DEADLINE_EXCEEDED (it
     * must finish the call at once or soon; the layer ends it 1 s later). NULL: the layer ends the call. */
    void (*deadline)(struct rpc_call *call, void *service);
    /* A whole request message, decompressed. For RPC_UNARY and RPC_SERVER_STREAM it is called exactly once, after the
     * client's END_STREAM; the layer refuses zero or two messages there (UNIMPLEMENTED/INTERNAL as gRPC says).
     * `msg` is the call's to keep: it is allocated in `arena`, which the handler takes (arena_free). */
    void (*message)(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
    /* Streaming kinds: the call has begun, before any message. May be NULL. */
    void (*start)(struct rpc_call *call, void *service);
    /* Client streaming kinds: the client has sent its last message. May be NULL for others. */
    void (*half_close)(struct rpc_call *call, void *service);
    /* The call is over, and not by the handler's own finish: cancelled, reset, deadline, connection lost. Called once at
     * most, never after rpc_call_finish() and its like, and only if the handler has seen the call (start, message or
     * oversize ran). May be NULL. */
    void (*closed)(struct rpc_call *call, void *service);
    /* A message that exceeds request.bytes, when the method wants to look at it all the same: called with successive pieces of the
     * (decompressed) message instead of `message`, ending with last = true. NULL: RESOURCE_EXHAUSTED at once. (Completions, spec 5.3.)
     * Up to 4 x request.bytes are read so; then comes an empty last piece, and the rest of the stream is not read. Also one for which
     * there is no memory: rpc_call_has_no_room(). */
    void (*oversize)(struct rpc_call *call, void *service, struct bytes piece, bool last);
    void *service; /* given back to the callbacks */
};

struct rpc_server_options {
    /* request.bytes, request.buffered_bytes, overload.queued_bytes, streams.connection, keepalive.* */
    const struct settings *settings;
    /* Sees each finished call once, for metrics and logs. `method` is NULL for unknown ones. May be NULL. */
    void (*on_finish)(void *arg, const struct rpc_method *method, int grpc_status, usec_t took);
    /* Asked before a call is dispatched (authentication, drain). Returns OK or the error to answer. May be NULL. */
    enum err (*admit)(void *arg, struct rpc_call *call, const struct rpc_method *method,
                      struct error *err);
    void *arg;
};

struct rpc_server *rpc_server_new(const struct rpc_server_options *opts);
void rpc_server_free(struct rpc_server *s);
/* Adds a table of methods; `methods` must outlive the server. Before the first connection only. */
void rpc_server_add(struct rpc_server *s, const struct rpc_method *methods, size_t count);

/* ---- connections, both ends ------------------------------------------------------------------ */

struct rpc_conn_events {
    /* There is something to send: call rpc_conn_send() soon (once a round). Called at most once until then. */
    void (*want_send)(void *arg);
    /* From ANY thread: room for a waiting request has become free (request.buffered_bytes): call rpc_conn_tick() on the
     * connection's thread soon. Must only post. NULL: the connection then looks again every 20 ms while it waits. */
    void (*wake)(void *arg);
    void *arg;
};

/* A server connection. `peer` is for logs ("127.0.0.1:5000", "unix:"). `id` is unique in the process. */
struct rpc_conn *rpc_conn_new_server(struct rpc_server *s, uint64_t id, struct bytes peer,
                                     const struct rpc_conn_events *ev, usec_t now);
struct rpc_conn_client_options {
    const char *authority;
    const char *user_agent;
    const char *authorization;                /* the header of every call; NULL: none */
    bool is_secure;                           /* :scheme https */
    size_t message_bytes_max;                 /* largest answer message; 0: no limit */
    usec_t keepalive_idle, keepalive_timeout; /* 0: off */
};
struct rpc_conn *rpc_conn_new_client(const struct rpc_conn_client_options *opts,
                                     const struct rpc_conn_events *ev, usec_t now);
/* Closes all calls (their `closed` runs) and frees the connection. NULL is fine. */
void rpc_conn_free(struct rpc_conn *c);

/* Bytes that arrived. ERR_*: the connection is broken and must be freed after sending what is left. `now` is monotonic, everywhere here. */
MUST_CHECK enum err rpc_conn_recv(struct rpc_conn *c, struct bytes in, usec_t now,
                                  struct error *err);
/* Appends to `out` what is to be sent now, up to about `max` bytes; many frames at once. False: nothing more at the moment. */
bool rpc_conn_send(struct rpc_conn *c, struct strbuf *out, size_t max, usec_t now);
/* True when both sides are through (after GOAWAY) and the socket can be closed. */
bool rpc_conn_is_finished(const struct rpc_conn *c);
/* Deadlines, keepalive. Call at rpc_conn_next_tick() (monotonic; USEC_NEVER: none). ERR_*: as for recv. */
MUST_CHECK enum err rpc_conn_tick(struct rpc_conn *c, usec_t now, struct error *err);
usec_t rpc_conn_next_tick(const struct rpc_conn *c);
/* Server: GOAWAY(NO_ERROR): no new calls; those that run may finish (spec 8.7). */
void rpc_conn_shutdown(struct rpc_conn *c);
/* Server: what `admit` allowed may not be allowed any more. It is asked again for each call that lasts (streams, waits) or whose
 * request has not wholly come; those that it refuses end with its error. */
void rpc_conn_recheck(struct rpc_conn *c);
/* Client: false once the server has sent GOAWAY or the connection broke: rpc_conn_call() would return NULL. */
bool rpc_conn_takes_calls(const struct rpc_conn *c);
struct bytes rpc_conn_peer(const struct rpc_conn *c);
size_t rpc_conn_call_count(const struct rpc_conn *c);
void *rpc_conn_context(const struct rpc_conn *c); /* free for the layer above; NULL at first */
void rpc_conn_set_context(struct rpc_conn *c, void *context);

/* ---- calls on the server --------------------------------------------------------------------- */

struct rpc_call *rpc_call_ref(struct rpc_call *call);
void rpc_call_unref(struct rpc_call *call);                  /* NULL is fine */
bool rpc_call_is_open(const struct rpc_call *call);          /* not finished, not closed */
struct rpc_conn *rpc_call_conn(const struct rpc_call *call); /* NULL once the connection is gone */
uint64_t rpc_call_conn_id(const struct rpc_call *call);      /* also then */
const struct rpc_method *rpc_call_method(const struct rpc_call *call);
/* Request metadata by lowercase name; `-bin` values decoded; BYTES_NONE when absent. Several of one name: the first. */
struct bytes rpc_call_header(const struct rpc_call *call, const char *name);
usec_t rpc_call_deadline(const struct rpc_call *call); /* monotonic; USEC_NEVER when none */
void *rpc_call_context(const struct rpc_call *call);   /* free for the handler; NULL at first */
void rpc_call_set_context(struct rpc_call *call, void *context);
bool rpc_call_has_no_room(const struct rpc_call *call); /* for rpc_method.oversize */
/* Metadata to send with the headers (before the first message) or with the trailers. Copied; `-bin` values are encoded. */
void rpc_call_add_header(struct rpc_call *call, const char *name, struct bytes value);
void rpc_call_add_trailer(struct rpc_call *call, const char *name, struct bytes value);
void rpc_call_send_headers(struct rpc_call *call); /* now, before any message (streams, spec 8.1) */
/* Sends one message (takes the reference). Unary handlers send one and finish; rpc_call_reply() does both. */
void rpc_call_send(struct rpc_call *call, struct rpc_msg *msg);
void rpc_call_reply(struct rpc_call *call, struct rpc_msg *msg);
/* Ends the call: status and message (percent-encoded by the layer; trailers-only if nothing was sent). */
void rpc_call_finish(struct rpc_call *call, int grpc_status, struct bytes message);
/* The same from an error: status of err->code, its message, never file or line. */
void rpc_call_fail(struct rpc_call *call, const struct error *err);
void rpc_call_set_details(struct rpc_call *call,
                          struct bytes status_details); /* grpc-status-details-bin */
/* Bytes given to rpc_call_send() that have not been handed to the socket yet. */
size_t rpc_call_unsent(const struct rpc_call *call);
/* Calls fn(call, arg) once, the next time unsent falls to `below` or less. One at a time. */
void rpc_call_on_drained(struct rpc_call *call, size_t below, void (*fn)(struct rpc_call *, void *),
                         void *arg);

/* Stop and resume reading; flow control is the back-pressure. */
void rpc_call_pause(struct rpc_call *call);
void rpc_call_resume(struct rpc_call *call);

/* ---- calls of the client --------------------------------------------------------------------- */

struct rpc_client_events {
    /* Answer headers are there; rpc_call_header() reads them. May be NULL. */
    void (*headers)(struct rpc_call *call, void *arg);
    /* A whole message; `msg` lives in `arena`, which the callee takes. */
    void (*message)(struct rpc_call *call, void *arg, struct arena *arena, struct bytes msg);
    /* The end, once, always: grpc status and message (from trailers, or made from the HTTP/2 error as gRPC says: e.g. UNAVAILABLE
     * when the connection broke, CANCELLED, DEADLINE_EXCEEDED locally). rpc_call_trailer() reads metadata here. */
    void (*finished)(struct rpc_call *call, void *arg, int grpc_status, struct bytes message);
    void *arg;
};

struct rpc_metadata {
    const char *name;
    struct bytes value;
};

/* Starts a call: one reference is the caller's. NULL: the connection takes no more (GOAWAY, broken). `timeout` 0: none. */
struct rpc_call *rpc_conn_call(struct rpc_conn *c, const char *path, const struct rpc_metadata *md,
                               size_t md_count, usec_t timeout, bool gzip,
                               const struct rpc_client_events *ev, usec_t now);
void rpc_call_close_send(struct rpc_call *call); /* no more messages from this side */
void rpc_call_cancel(
    struct rpc_call *call); /* RST_STREAM(CANCEL); finished() runs with CANCELLED */
struct bytes rpc_call_trailer(const struct rpc_call *call, const char *name);
