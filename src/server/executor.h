/* executor.h - the thread that runs the engine, and the one that checkpoints its store.
 *
 * Commands come from any thread; those that arrive during a flush make the next batch. Between two batches the executor waits for
 * the log to restart when it has grown past wal.bytes (at most 1 s each time).
 */
#pragma once

#include "engine/engine.h"

struct executor;

struct executor_options {
    struct engine
        *engine; /* borrowed; used by the executor's thread only from executor_start() on */
    struct store *store;
    const struct settings *settings;
    const struct clock *clock;
};

MUST_CHECK enum err executor_new(const struct executor_options *opts, struct executor **out,
                                 struct error *err);
/* Before executor_start(): called on the executor's thread within 50 ms of what ran, and not more often, to publish figures. */
void executor_on_publish(struct executor *x, void (*fn)(void *arg, struct engine *e), void *arg);
MUST_CHECK enum err executor_start(struct executor *x, struct error *err);
/* Runs what is queued, then ends the threads. */
void executor_stop(struct executor *x);
void executor_free(struct executor *x); /* after executor_stop(); NULL is fine */

/* Any thread. The command comes back through its done(), on the executor's thread. After executor_stop() it is answered UNAVAILABLE at
 * once, on the caller's. */
void executor_post(struct executor *x, struct command *cmd);
/* The same for a chain, first to last, that is linked by `next`. */
void executor_post_chain(struct executor *x, struct command *first, struct command *last);
/* True on the executor's own thread. */
bool executor_is_current(const struct executor *x);
/* Before executor_start(): called on the executor's thread after each batch, to hand over what it posted. */
void executor_on_batch_end(struct executor *x, void (*fn)(void *arg), void *arg);
/* Runs fn(engine, arg) on the executor's thread and waits for it; not from a loop thread. */
void executor_call(struct executor *x, void (*fn)(struct engine *e, void *arg), void *arg);

/* Any thread, cheap. */
size_t executor_in_flight(const struct executor *x);
size_t executor_queued_bytes(const struct executor *x); /* of commands not yet answered */
bool executor_is_healthy(const struct executor *x);     /* the store takes commits */
/* How long the batch now running has been running; 0: none is. */
usec_t executor_batch_age(const struct executor *x);
