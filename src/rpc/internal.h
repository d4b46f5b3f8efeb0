/* internal.h - what the files of rpc/ share: the structs behind rpc.h.
 *
 * conn.c owns the nghttp2 session and its callbacks; receive.c puts messages together; call.c sends
 * them; server.c and client.c give the two ends their own start and end.
 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/hashmap.h"
#include "base/heap.h"
#include "base/list.h"
#include "rpc/budget.h"
#include "rpc/gzip.h"
#include "rpc/meta.h"
#include "rpc/rpc.h"

#define RPC_PREFIX_LEN 5
#define RPC_HEADER_LIST_MAX KIB(64) /* names, values and 32 a field; announced (BL-131) */
#define RPC_SERVER_WINDOW KIB(256)  /* of a stream before its first prefix is seen */
#define RPC_CLIENT_WINDOW MIB(4)    /* of a stream of the client end */
#define RPC_CONN_WINDOW (1 << 30)   /* never the brake: streams are */
#define RPC_STALL_TIME                                                                             \
    (30 * USEC_PER_SEC)                 /* a request that holds room and does not move (spec 2) */
#define RPC_DEADLINE_GRACE USEC_PER_SEC /* for handlers that end their calls themselves */
#define RPC_ROOM_POLL (20 * USEC_PER_MSEC)
#define RPC_OVERSIZE_FACTOR 4          /* x request.bytes are read of a message that is too large */
#define RPC_REQUEST_COST KIB(1)        /* a request in memory takes that besides its bytes */
#define RPC_RESET_RATE 1000            /* unanswered calls reset a second, for long (BL-129) */
#define RPC_REFUSAL_BYTES KIB(64)      /* read of a request that is not gRPC before it is refused */
#define RPC_OUTBOUND_SLACK 10000       /* frames that may wait beside two a call */
#define RPC_SHUTDOWN_WAIT USEC_PER_SEC /* for the ping between the two GOAWAYs */

struct rpc_msg {
    unsigned refs;
    size_t len;      /* of the data, without prefix */
    uint8_t frame[]; /* prefix and data */
};

/* Messages waiting to be sent, a ring. Zeroed is empty. */
struct msg_queue {
    struct rpc_msg **v;
    unsigned head, count, cap;
    size_t offset; /* bytes of the first that are gone */
    size_t bytes;  /* all that is left, prefixes included */
};

void msg_queue_push(struct msg_queue *q, struct rpc_msg *m);        /* takes the reference */
void msg_queue_take(struct msg_queue *q, uint8_t *out, size_t len); /* copies len <= bytes out */
void msg_queue_drop_unbegun(struct msg_queue *q); /* all but a message that is partly gone */
void msg_queue_deinit(struct msg_queue *q);

/* Fields to send; the text is in the call's arena. */
struct nv_list {
    nghttp2_nv *v;
    size_t count, cap;
};

enum rx_mode { RX_PREFIX, RX_ROOM, RX_BODY, RX_PIECES, RX_DISCARD };

/* Puts incoming messages together. */
struct receiver {
    enum rx_mode mode;
    uint8_t prefix[RPC_PREFIX_LEN];
    uint8_t prefix_len;
    bool compressed;   /* this message */
    bool paused;       /* by the user */
    bool has_message;  /* unary: it is in `arena`, waiting for END_STREAM */
    bool was_oversize; /* its pieces went to the method */
    bool has_no_room;  /* for want of memory, not because it is too large */
    size_t len, got;   /* of the message that is coming */
    size_t pieces;     /* decompressed bytes given to `oversize` */
    struct arena *arena;
    uint8_t *buf;
    struct bytes message;
    struct gunzip *gunzip;
    struct strbuf held;        /* came while waiting for room or paused */
    uint64_t total, window;    /* bytes of the stream received and allowed so far */
    uint64_t done;             /* bytes of it that were processed */
    struct budget_claim claim; /* for what has not arrived yet */
    usec_t progress;           /* when bytes came last */
};

struct rpc_call {
    struct rpc_conn *conn; /* NULL once the stream or the connection is gone */
    uint64_t conn_id;
    unsigned refs;
    int32_t stream_id;
    bool is_server;
    bool stream_open; /* nghttp2 knows it */
    bool headers_sent;
    bool finished;    /* server: this side has said its end. client: finished() ran */
    bool send_closed; /* client: close_send() */
    bool half_closed; /* the peer has sent END_STREAM */
    bool end_seen;    /* and it was processed */
    bool deferred;    /* nghttp2 waits for rpc_call_resume_data */
    bool seen;        /* the handler knows of it */
    bool closed_told;
    bool deadline_called;
    bool too_big; /* header list over the limit */
    bool bad_timeout;
    bool gzip; /* client: compress; both: the peer compresses */
    bool peer_gzip;
    bool bad_encoding;
    bool headers_seen;             /* client: the first block is through */
    bool room_wanted;              /* in conn->waiting */
    bool peer_reset;               /* RST_STREAM has come */
    const char *refusal;           /* HTTP status to answer at the request's end: it is not gRPC */
    bool plain_http;               /* answered as HTTP, without gRPC's framing and trailers */
    struct list_node node;         /* conn->calls */
    struct list_node room_node;    /* conn->waiting */
    struct list_node drained_node; /* conn->drained */
    struct list_node wake_node;    /* conn->wakeable */
    struct heap_node timer;
    usec_t due;      /* of `timer` */
    usec_t deadline; /* USEC_NEVER: none */
    usec_t started;
    size_t header_bytes;
    const struct rpc_method *method;
    nghttp2_rcbuf *path, *verb, *content_type;
    struct meta in, trailers;
    struct arena *arena; /* small things of this call, made when needed */
    struct receiver rx;
    struct budget_claim unanswered; /* of server->unanswered, from the prefix to the answer */
    struct msg_queue out;
    struct nv_list out_headers, out_trailers;
    int status;
    struct bytes message; /* percent-encoded, in arena */
    struct bytes details;
    void *context;
    size_t drained_below;
    void (*drained)(struct rpc_call *, void *);
    void *drained_arg;
    void (*on_wake)(struct rpc_call *, void *);
    void *wake_arg;
    /* client */
    struct rpc_client_events ev;
    int http_status;
    int peer_status; /* grpc-status as received; -1: none */
    struct bytes peer_message;
};

struct method_node {
    struct hash_node node;
    const struct rpc_method *method;
};

struct rpc_server {
    struct rpc_server_options opts;
    struct budget budget;     /* request.buffered_bytes */
    struct budget unanswered; /* overload.queued_bytes */
    struct hashmap methods;
};

/* closed.c: which streams the peer has ended, and where in the frames its bytes are. */
struct closed_streams {
    int32_t newest; /* largest number that the peer has opened */
    int32_t ended;  /* the last stream it ended in the bytes at hand; -1: none */
    struct {
        int32_t stream_id;
        bool peer_ended;
    } last[64];
    size_t next;     /* in `last` */
    size_t skip;     /* bytes to the next frame header */
    uint8_t head[9]; /* a frame header as far as it has come */
    uint8_t head_len;
};

struct rpc_conn {
    nghttp2_session *session;
    struct rpc_server *server; /* NULL: a client connection */
    struct client_options {
        char *authority, *user_agent, *authorization; /* "": no such header */
        bool is_secure;
        size_t message_bytes_max;
    } client;
    struct rpc_conn_events ev;
    uint64_t id;
    char *peer;
    void *context;
    usec_t now, last_recv, ping_sent; /* ping_sent 0: none is out */
    usec_t keepalive_idle, keepalive_timeout;
    bool send_wanted;
    bool in_callbacks; /* inside recv, send or tick: no want_send needed */
    bool shutting_down, goaway_sent, broken;
    usec_t shutdown_due; /* the final GOAWAY goes then at the latest */
    struct strbuf *out;  /* inside rpc_conn_send() */
    struct list calls, waiting, drained, wakeable;
    struct heap timers;
    size_t call_count;
    struct rpc_call *pool;
    unsigned pool_count;
    struct closed_streams closed; /* server */
    /* rapid resets: a bucket of those still allowed */
    double reset_tokens;
    usec_t reset_at;
};

/* ---- conn.c ---- */
void conn_want_send(struct rpc_conn *c);
void conn_run_waiting(struct rpc_conn *c);
void conn_abuse(struct rpc_conn *c); /* ends it with ENHANCE_YOUR_CALM */

/* ---- closed.c ---- */
void closed_remember(struct rpc_conn *c, const struct rpc_call *call);
void closed_check_headers(struct rpc_conn *c, int32_t stream_id);
ssize_t closed_recv(struct rpc_conn *c,
                    struct bytes in); /* nghttp2_session_mem_recv() and the checks */

/* ---- call.c ---- */
struct rpc_call *call_new(struct rpc_conn *c, int32_t stream_id);
void call_set_timer(struct rpc_call *call); /* recomputes `due` */
void call_detach(struct rpc_call *call);    /* from its connection; drops what it holds of it */
struct arena *call_arena(struct rpc_call *call);
void call_resume_data(struct rpc_call *call);
nghttp2_data_provider call_provider(struct rpc_call *call);
void nv_list_add(struct nv_list *l, nghttp2_nv nv);
void call_add_nv(struct rpc_call *call, struct nv_list *l, const char *name, struct bytes value);
int call_send_data(struct rpc_call *call, const uint8_t *framehd, size_t len);
void call_run_drained(struct rpc_conn *c);
/* `fn` runs at each tick of the connection while the call is open; call_wake() hastens one, from any thread. */
void call_on_wake(struct rpc_call *call, void (*fn)(struct rpc_call *, void *), void *arg);
void call_wake(struct rpc_call *call); /* while the call is known to be open */
void call_run_wakeable(struct rpc_conn *c);
#define NV_STATIC(n, v)                                                                            \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), sizeof(n) - 1, sizeof(v) - 1,        \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                           \
    }

/* ---- receive.c ---- */
void call_receive(struct rpc_call *call, struct bytes in, bool frame_ends_stream);
void call_receive_end(struct rpc_call *call);   /* END_STREAM has come */
void call_receive_go_on(struct rpc_call *call); /* room or resume */
void receiver_deinit(struct rpc_call *call);
bool receiver_is_stalled(const struct rpc_call *call, usec_t now);

/* ---- server.c ---- */
void server_call_headers(struct rpc_call *call); /* the block is complete: dispatch */
void server_submit_trailers(struct rpc_call *call);
void server_send_headers(struct rpc_call *call);
void server_refuse(struct rpc_call *call); /* sends `refusal` */
void server_call_timer(struct rpc_call *call);
void server_call_closed(struct rpc_call *call, uint32_t error_code);
/* Ends a call on the layer's own account and tells the handler. */
void server_abort(struct rpc_call *call, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* ---- client.c ---- */
void client_call_headers(struct rpc_call *call, bool end_stream);
void client_call_timer(struct rpc_call *call);
void client_call_closed(struct rpc_call *call, uint32_t error_code);
void client_end(struct rpc_call *call); /* all that came before the end is processed */
void client_finish(struct rpc_call *call, int status, struct bytes message);
void client_abort(struct rpc_call *call, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
