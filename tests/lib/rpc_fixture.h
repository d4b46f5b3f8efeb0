/* rpc_fixture.h - a client end and a server end of rpc/ joined by memory, with a clock of the test.
 *
 * A test service with one method of each kind; what it sees is counted in struct rpc_fixture.
 */
#pragma once

#include "base/limits.h"
#include "rpc/rpc.h"

struct seen_call { /* the client's view of one call */
    struct rpc_call *call;
    struct strbuf text; /* all messages, joined */
    size_t messages;
    size_t message_len; /* of the last */
    bool has_headers, is_finished;
    int finished_count;
    int status;
    char message[256];
    char trailer[64];
};

struct rpc_fixture {
    struct settings settings;
    struct rpc_server *server;
    struct rpc_conn *s, *c; /* server end, client end */
    bool s_wants, c_wants;
    int wakes;
    usec_t now;
    size_t piece;           /* bytes handed over at a time; 0: all */
    bool blocked_to_client; /* what the server sends is kept back */
    struct strbuf kept;
    uint64_t bytes_to_server, bytes_to_client;
    /* what the service saw */
    int messages, closes, half_closes, starts, deadlines, finishes;
    int last_status;
    size_t oversize_bytes;
    bool oversize_last, oversize_no_room;
    struct rpc_call *
        held; /* a reference to the last call of /test.T/Hold, /Stream, /Bidi, /Counted, /HeldBack */
    struct strbuf collected;
    /* a second pair of ends on the same server */
    struct rpc_conn *s2, *c2;
    bool s2_wants, c2_wants;
    uint64_t bytes_to_second;
};

void rpc_fixture_init(struct rpc_fixture *f);
void rpc_fixture_start(struct rpc_fixture *f); /* after settings were changed */
void rpc_fixture_deinit(struct rpc_fixture *f);
/* Moves bytes both ways until nothing is left. */
void rpc_fixture_pump(struct rpc_fixture *f);
void rpc_fixture_advance(struct rpc_fixture *f,
                         usec_t by); /* time passes; ticks both ends; pumps */
/* Starts a call; `body` NULL: no message yet. Unary style: one message and close when `body` is given. */
void rpc_fixture_call(struct rpc_fixture *f, struct seen_call *sc, const char *path,
                      const struct rpc_metadata *md, size_t md_count, usec_t timeout, bool gzip,
                      struct bytes body);
void rpc_fixture_send(struct rpc_call *call, struct bytes body);
void seen_call_deinit(struct seen_call *sc);

/* A second connection, and what the functions above do for the first. */
struct rpc_conn *rpc_fixture_second_client(struct rpc_fixture *f);
void rpc_fixture_call_on(struct rpc_fixture *f, struct rpc_conn *c, struct seen_call *sc,
                         const char *path, struct bytes body);
void rpc_fixture_pump_second(struct rpc_fixture *f);
void rpc_fixture_tick_second(struct rpc_fixture *f);
/* A fresh server end, for bytes made by hand. */
void rpc_fixture_new_server_conn(struct rpc_fixture *f);
/* The header block is the first of its connection and has that field. */
bool rpc_fixture_hpack_has(struct bytes block, const char *name, const char *value);
