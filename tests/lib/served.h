/* served.h - a world behind real connections: bytes in, bytes out, the real service, one thread, the world's clock.
 *
 * The Durable Task service and the health service are registered on an rpc_server; what the server puts between them and the
 * engine (executor, loops) is a queue that served_run() empties. A connection is a server end alone, for bytes made by hand, or
 * with a client end that it is joined to.
 * Tests: tests/fuzz/fuzz_conn.c, tests/fuzz/fuzz_messages.c
 */
#pragma once

#include "base/task.h"
#include "lib/world.h"
#include "rpc/rpc.h"

struct health;
struct served_conn;

struct served {
    struct world *w;
    struct rpc_server *rpc;
    struct dt_service *service;
    struct health *health;
    struct loop_task *first, **last; /* posted to the only loop there is */
    struct list conns;
    uint64_t next_id;
    bool is_draining;
    /* Statuses of finished calls on the server's side. */
    uint64_t finished[17];
};

struct served_conn {
    struct served *s;
    struct list_node link;
    struct rpc_conn *server, *client; /* client NULL: bytes by hand */
    bool is_broken;                   /* bytes are no longer moved */
    size_t piece;                     /* bytes handed over at a time; 0: all */
    struct strbuf out;                /* by hand: what the server end has sent */
};

/* Takes the world. */
struct served *served_new(struct world *w);
void served_free(struct served *s);
/* Moves bytes, runs the engine and what was posted, until nothing is left to do. */
void served_run(struct served *s);
/* Both clocks go on, the ends are ticked, and all runs. */
void served_advance(struct served *s, usec_t by);

struct served_conn *served_by_hand(struct served *s);
struct served_conn *served_connect(struct served *s, const char *user_agent);
void served_close(struct served_conn *c);
/* Bytes to the server end of a connection by hand. False: it is broken. */
bool served_feed(struct served_conn *c, struct bytes in);
