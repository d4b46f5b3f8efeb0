/* grpc_listener.h - gRPC listeners and their connections, spread over the loop threads.
 *
 * Glue: accepted sockets go round-robin to the loops; each connection there is a loop_stream that
 * feeds an rpc_conn. Made before the loops run and freed after they have stopped; in between only
 * the functions that say so may be called from other threads.
 * Tests: tests/unit/test_grpc_listener.c
 */
#pragma once

#include "base/limits.h"
#include "loop/loop.h"
#include "loop/tls.h"
#include "rpc/rpc.h"

struct grpc_front;

struct grpc_front_options {
    struct loop *const *loops; /* copied; the first one accepts */
    size_t loop_count;
    struct rpc_server *server;
    const struct settings *settings; /* connections.max, connections.address */
    struct tls *tls;                 /* NULL: plaintext */
    uint64_t files_max; /* connections that the limit of open files leaves room for; 0: no matter */
    /* A connection has come, on its loop's thread: the place for rpc_conn_set_context(). May be NULL. */
    void (*opened)(void *arg, struct loop *loop, struct rpc_conn *conn);
    /* It goes, before its calls are closed; its context is still there. May be NULL. */
    void (*closed)(void *arg, struct loop *loop, struct rpc_conn *conn);
    void *arg;
};

struct grpc_front *grpc_front_new(const struct grpc_front_options *opts);
/* After the loops have stopped: closes what is left. NULL is fine. */
void grpc_front_free(struct grpc_front *f);
/* Adds a listener, before the loops run. Errors as loop_listener_new(). */
MUST_CHECK enum err grpc_front_listen(struct grpc_front *f, struct bytes address,
                                      struct error *err);
/* Appends the addresses as given with real ports, separated by commas. */
void grpc_front_addresses(const struct grpc_front *f, struct strbuf *out);
/* From any thread: closes the listeners (drain). */
void grpc_front_stop_listening(struct grpc_front *f);
/* From any thread: GOAWAY on every connection, each closes when its calls have ended. */
void grpc_front_shutdown(struct grpc_front *f);
/* From any thread: rpc_conn_recheck() on every connection, soon. */
void grpc_front_recheck(struct grpc_front *f);
/* From any thread. */
size_t grpc_front_connections(const struct grpc_front *f);
/* Why connections are closed at once. From any thread: how many were. */
enum grpc_refusal { REFUSED_MAX, REFUSED_ADDRESS, REFUSED_FILES, REFUSALS };
extern const char *const GRPC_REFUSAL_NAMES[REFUSALS];
uint64_t grpc_front_refused(const struct grpc_front *f, enum grpc_refusal why);
uint64_t grpc_front_failed_handshakes(const struct grpc_front *f); /* of TLS. From any thread. */
