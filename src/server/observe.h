/* observe.h - the metrics of the process: what is counted where, under which names (docs/operating.md lists them).
 *
 * Counters are added to from the thread where things happen; gauges of the engine are set by the executor's thread
 * (observe_publish), so that a scrape never waits for a batch.
 */
#pragma once

#include "base/metrics.h"
#include "engine/engine.h"
#include "rpc/rpc.h"
#include "server/grpc_listener.h"

struct observe;

struct observe *observe_new(struct metrics *m, struct store *store);
void observe_free(struct observe *o);
void observe_front(struct observe *o, const struct grpc_front *front); /* before threads run */
/* Of TLS; from any thread. */
void observe_certificates(struct observe *o, usec_t expires);
void observe_reread(struct observe *o, bool ok);
void observe_keys_reread(struct observe *o, bool ok);
/* rpc_server_options.on_finish */
void observe_call(void *arg, const struct rpc_method *method, int grpc_status, usec_t took);
/* engine_on_commit() */
void observe_commit(void *arg, usec_t took, uint64_t commands, bool ok);
/* executor_options.publish */
void observe_publish(void *arg, struct engine *e);
