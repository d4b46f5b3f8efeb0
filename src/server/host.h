/* host.h - what the Durable Task service needs from the process: the executor's queue, the loops, overload (spec 8.6), drain.
 *
 * A connection's context (rpc_conn_set_context) is a struct host_connection: see host_connection_opened().
 */
#pragma once

#include <stdatomic.h>

#include "durabletask/service.h"
#include "loop/loop.h"
#include "server/auth.h"
#include "server/executor.h"
#include "server/reader.h"

/* What the executor has for one loop, until its batch ends. */
struct host_outbox {
    struct loop *loop;
    struct loop_task *first, *last;
};

/* What one loop has for the executor, until its round ends. */
struct host_inbox {
    struct host *host;
    struct command *first, *last;
    _Atomic size_t bytes; /* of these; written by the loop's thread only */
};

#define HOST_LOOPS_MAX 64

struct host_connection {
    struct loop *loop;
    struct auth_seat seat;
};

/* Both ways go in bursts: a wake-up of another thread costs more than most commands. */
struct host {
    struct host_outbox out[HOST_LOOPS_MAX];
    struct host_inbox in[HOST_LOOPS_MAX];
    size_t loop_count;
    struct executor *executor;
    struct reader *reader; /* NULL: none */
    const struct settings *settings;
    struct auth *auth;
    _Atomic bool is_draining;
    _Atomic uint64_t disk_free; /* bytes; UINT64_MAX: not known or not on disk */
};

void host_init(struct host *h, struct executor *x, const struct settings *settings,
               struct auth *auth);
/* Before the loop runs: its commands go to the executor at the end of each round. */
void host_add_loop(struct host *h, struct loop *loop);
struct dt_host host_for_service(struct host *h);
/* For grpc_front_options.opened and .closed. */
void host_connection_opened(void *arg, struct loop *loop, struct rpc_conn *conn);
void host_connection_closed(void *arg, struct loop *loop, struct rpc_conn *conn);
/* For rpc_server_options.admit, with its own `arg`. */
MUST_CHECK enum err host_admit(struct host *h, const struct rpc_call *call,
                               const struct rpc_method *method, struct error *err);
