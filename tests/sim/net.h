/* net.h - connections between clients and the server: two byte pipes with delays and faults, rpc/ at each end. */
#pragma once

#include "sim/sim.h"

enum net_trouble { NET_RESET, NET_FROZEN, NET_HALF_OPEN, NET_STALLED };

struct pipe {
    struct chunk *first, **last;
    size_t bytes;
    usec_t last_at;       /* chunks keep their order */
    usec_t stalled_until; /* nothing is delivered before */
    bool drops;           /* half-open: sent bytes vanish */
    size_t read_max;      /* a slow reader takes so much each time; 0: all */
    struct sched_event deliver;
};

struct net_conn {
    struct list_node link;
    struct sim *s;
    uint64_t id;
    uint64_t actor;
    bool token_less, is_java;
    struct prng p;
    struct rpc_conn *client, *server; /* server NULL: it is gone */
    struct pipe up, down;
    struct sched_event client_send, server_send, client_tick, server_tick, ends;
    char hub[32];
    bool has_hub;
    void (*closed)(void *arg); /* the client's end is gone; the connection is freed after it */
    void *arg;
};

/* NULL: refused (nobody listens). */
struct net_conn *net_connect(struct sim *s, uint64_t actor, const char *user_agent, const char *hub,
                             void (*closed)(void *arg), void *arg);
/* Both ends learn of it now; a later event frees it. */
void net_reset(struct net_conn *c);
void net_trouble(struct net_conn *c, enum net_trouble what, usec_t time);
/* The server's process is gone: all its ends are. */
void net_server_gone(struct sim *s);
void net_free_all(struct sim *s);

/* One RPC as the client sees it; lives until the run ends. */
struct call {
    uint64_t id;
    struct sim *s;
    uint64_t actor;
    struct net_conn *conn; /* NULL once it is over */
    const char *method;
    struct bytes request; /* owned */
    struct rpc_call *rpc;
    struct strbuf reply; /* the last message */
    unsigned messages;
    bool is_over;
    bool is_known;    /* to the model */
    bool is_answered; /* by the server */
    int status;
    char message_text[160]; /* of the status */
    /* Each message of a stream. May be NULL. */
    void (*message)(struct call *c, struct bytes msg, void *arg);
    /* The end, once. May be NULL. */
    void (*done)(struct call *c, void *arg);
    void *arg;
};

struct call *net_call(struct net_conn *c, const char *method, struct bytes request, usec_t timeout,
                      void (*done)(struct call *c, void *arg), void *arg);
struct call *net_call_message(struct net_conn *c, const char *method, const ProtobufCMessage *msg,
                              usec_t timeout, void (*done)(struct call *c, void *arg), void *arg);
void net_cancel(struct call *c);
