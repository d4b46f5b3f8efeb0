/* host.h - what the Durable Task service needs from the process: the executor's queue, the loops, overload (spec 8.6), drain.
 *
 * A connection's context (rpc_conn_set_context) is its loop: see host_connection_opened().
 */
#pragma once

#include <stdatomic.h>

#include "durabletask/service.h"
#include "loop/loop.h"
#include "server/executor.h"

struct host {
    struct executor *executor;
    const struct settings *settings;
    _Atomic bool is_draining;
    _Atomic uint64_t disk_free; /* bytes; UINT64_MAX: not known or not on disk */
};

void host_init(struct host *h, struct executor *x, const struct settings *settings);
struct dt_host host_for_service(struct host *h);
/* For grpc_front_options.opened. */
void host_connection_opened(void *arg, struct loop *loop, struct rpc_conn *conn);
