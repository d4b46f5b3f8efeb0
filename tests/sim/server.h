/* server.h - the server's process: the real store, engine, handlers and rpc/, driven by the scheduler.
 *
 * Two threads of the real one are seen here: the executor, whose engine_run() takes the time of its flushes, so that calls pile up into
 * the next batch meanwhile; and the loops, where bytes arrive and go out at any time. What a batch lets out leaves at the
 * moment it was let out, also when a crash follows in the same batch. The model is told of each answer and item at that moment.
 */
#pragma once

#include "sim/sim.h"

struct server *server_new(struct sim *s);
void server_free(struct server *sv);
void server_start(struct server *sv); /* now; tried again until the store opens */
bool server_is_up(const struct server *sv);
bool server_is_running(const struct server *sv); /* a batch is going on (and time passes in it) */
/* A power cut or the end of the process; it is started again after `pause`. */
void server_crash(struct server *sv);
/* SIGTERM: drains, ends, is started again. */
void server_stop(struct server *sv);
/* Checkpoint as the checkpoint thread makes it. */
void server_checkpoint(struct server *sv);
/* Both clocks as the server sees them at this moment, in a batch too. */
usec_t server_mono(const struct server *sv);
usec_t server_wall(const struct server *sv);
/* A server end for a connection. */
struct rpc_conn *server_accept(struct server *sv, struct net_conn *c, uint64_t id,
                               const struct rpc_conn_events *ev);
/* The engine holds nothing ready, in flight or queued. */
bool server_is_idle(struct server *sv);
/* Figures for the model's end check. */
void server_figures(struct server *sv);
/* Adds what this process has counted to the hit table. */
void server_count_hits(struct server *sv);
bool server_in_engine(const struct server *sv);
/* What work the engine knows, on stderr. */
void server_print_work(struct server *sv);
