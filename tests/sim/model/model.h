/* model.h - the plain model of the protocol's state machine, and the checkers that hold a run of the server to it.
 *
 * Written from the specification alone: it includes only base/ headers, the generated messages and sqlite3.h (tools/check-layers.py
 * holds that). It is told what clients and workers sent and received, which calls each commit held and in which order, crashes, and
 * the clock; it recomputes every instance from that, reads the database with SQL of its own, and reports each difference.
 *
 * Order of the reports of one batch: model_call() for each call when its request reaches the server, model_commit() right
 * after the commit and before anything that follows it, then model_item() and model_answer() as the server lets them out.
 *
 * Ownership: everything passed in is borrowed for the call. Times are microseconds. One thread.
 * Tests: tests/unit/test_sim_model.c, tests/unit/test_sim_model_open.c, tests/unit/test_sim_model_random.c
 */
#pragma once

#include <sqlite3.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/time.h"

struct model;

/* A finding. The names of the checkers are in MODEL_CHECKERS. */
typedef void model_found_fn(void *arg, const char *checker, const char *text);

struct model_options {
    const struct settings *settings; /* as drawn for the run; borrowed */
    /* A connection that sees exactly what is FLUSHED at this instant (what a power cut that loses every unflushed byte would
     * leave), for reading. *generation changes whenever statements have to be prepared anew (another connection, another database).
     * NULL: it cannot be read now; the check is left out. */
    sqlite3 *(*image)(void *arg, uint64_t *generation);
    model_found_fn *found;
    void *arg;
    unsigned
        full_every; /* compare the whole database at every n-th commit, else only what a commit touched; 0: 16 */
};

struct model *model_new(const struct model_options *opts);
void model_free(struct model *m);

/* Both clocks as the server sees them; before each report at which they have changed. */
void model_clock(struct model *m, usec_t wall, usec_t mono);

/* ---- calls ------------------------------------------------------------------------------------------------ */

struct model_call {
    uint64_t id;         /* unique in the run, never 0 */
    uint64_t actor;      /* for messages only */
    uint64_t connection; /* unique in the run, never 0 */
    const char *hub;     /* as in the header; NULL: none */
    const char *method;  /* "StartInstance" */
    struct bytes request;
    bool token_less; /* by its user-agent (spec 8.2) */
};

/* The server has the whole request. */
void model_call(struct model *m, const struct model_call *c);
/* The server has let an answer out: a gRPC status; `reply` is the message when it is 0. A call that the connection's end, a crash or
 * the caller's deadline ended without an answer of the server's own gets model_call_lost() instead. */
void model_answer(struct model *m, uint64_t call, int status, const char *message,
                  struct bytes reply);
void model_call_lost(struct model *m, uint64_t call);

/* ---- commits ------------------------------------------------------------------------------------------------ */

/* A batch of calls, in the order in which they were stepped, at wall clock `now`. Calls that only read or were refused belong to it
 * as well; those that are answered without any commit are taken as calls that changed nothing, which is checked. */
struct model_batch {
    usec_t now;
    const uint64_t *calls;
    size_t count;
};
/* Committed, and the server takes it for flushed. Also for a batch without calls (timers, internal steps). */
void model_commit(struct model *m, const struct model_batch *b);
/* The store refused the batch (write, flush). All its calls are refused; until the next good commit they may still turn
 * up after a crash. */
void model_commit_failed(struct model *m, const struct model_batch *b);
/* The process is gone. `b`: the batch whose commit had begun and not ended; NULL: none. Streams, waits and calls of that process
 * are over (no model_stream_end() or model_call_lost() is needed). */
void model_crash(struct model *m, const struct model_batch *b);
/* A process has opened the store (the image can be read) and has not committed anything yet. */
void model_recovered(struct model *m);

/* ---- work ----------------------------------------------------------------------------------------------------- */

struct model_stream {
    uint64_t id;         /* unique in the run, never 0 */
    uint64_t connection; /* as in struct model_call */
    const char *hub;
    struct bytes request; /* GetWorkItemsRequest */
    bool token_less;
    uint32_t capacity_total; /* tokenless.unsettled for a stream of Java's; 0: none */
};
/* The server has the request and has accepted it. */
void model_stream_open(struct model *m, const struct model_stream *s);
/* It is over, for whatever reason, at the moment the server learns of it. Unknown ids are fine. */
void model_stream_end(struct model *m, uint64_t stream);
/* The server has let an item out on the stream: as early as that can be seen. Health pings too. */
void model_item(struct model *m, uint64_t stream, struct bytes item);

/* The stream's reader is slow (or fast again): it may be given nothing for reasons that the model does not see. */
void model_stream_slow(struct model *m, uint64_t stream, bool is_slow);
/* Unsettled items as the server counts them, at a moment when it has nothing to do. */
void model_stream_figure(struct model *m, uint64_t stream, uint64_t turns, uint64_t tasks);

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The server has nothing to do at this moment (engine_run() gave false), its store takes commits, and everything it let out has been
 * reported. Call it after most runs: what should have happened by now is looked for here. */
void model_idle(struct model *m);
/* From now on no more faults; streams that the workers keep are open. */
void model_quiet(struct model *m);
/* A figure of the server, at rest: "instances" with hub and status, "waiters", "timers", "ready", "flight", "streams". */
void model_figure(struct model *m, const char *what, const char *hub, int status, int64_t value);
/* All that must hold at the end of a run: called after 30 simulated minutes of quiet, with everything delivered. */
void model_end(struct model *m);

/* ---- what a simulator may ask, to steer actors and to print -------------------------------------------------------- */

/* -1: no such instance; else OrchestrationStatus. */
int model_status(const struct model *m, const char *hub, struct bytes id);
/* Counts of what the run has reached, by name (rows of the spec's tables: "6.4 replaced"): the names are fixed, all are listed. */
typedef void model_reach_fn(void *arg, const char *name, uint64_t count);
void model_reached(const struct model *m, model_reach_fn *fn, void *arg);
uint64_t model_findings(const struct model *m);
/* Everything the model holds of an instance, for a report; NULL id: of all. */
void model_print(const struct model *m, const char *hub, struct bytes id);

extern const char *const MODEL_CHECKERS[]; /* NULL-terminated */
