/* internal.h - a run of the benchmark, as its files share it: run.c has the phases and the connections, client.c the operations,
 * worker.c the work, calls.c the calls of all three.
 *
 * One thread, one loop. Everything lives until bench_run() returns.
 * Tests: tests/cli/test_bench.py
 */
#pragma once

#include "base/prng.h"
#include "bench/bench.h"
#include "bench/pace.h"
#include "client/channel.h"

#define DURABLE_TASK(method) "/TaskHubSidecarService/" method

struct bench;
struct event;

struct bench_link { /* one connection */
    struct bench *bench;
    struct channel *channel;
    struct rpc_call *items; /* of a worker: its stream */
};

/* An operation in the making, and the place of the next one. */
struct bench_op {
    struct bench *bench;
    struct bench_link *link;
    const enum bench_stage *stage; /* the one that runs */
    char id[33];                   /* as text; its first eight characters are the seed */
    usec_t due, sent;
    struct bench_op *next_free;
};

enum bench_phase { PHASE_PREPARE, PHASE_WARM_UP, PHASE_MEASURE, PHASE_OVER };

struct bench {
    const struct bench_options *opts;
    struct bench_result *result;
    struct loop *loop;
    struct prng prng;
    struct bench_link links[BENCH_CONNECTIONS_MAX];
    size_t link_count, client_count, told;
    enum err connect_failure;
    struct error *err;

    enum bench_phase phase;
    const struct workload *workload; /* of this phase */
    struct bench_span span;
    usec_t begun;
    uint64_t started, ended;
    struct pace pace;
    bool is_open; /* loop: this phase has a pace */
    struct event *tick;
    int tick_fd;

    struct bench_op *ops, *free_ops;
    struct arena *arena; /* of the op or work item at hand */
    char (*pool)[33];    /* wait-only: instances that have ended */
    size_t pool_count;

    struct loop_timer *watchdog;
    uint64_t seen_answers, answers; /* of all calls and streams */
    usec_t client_cpu_begun;
    bool is_given_up;
};

/* ---- calls.c ------------------------------------------------------------------------------------- */

/* `answer` lives for the call of `fn`; `message` is the status's. */
typedef void bench_answer_fn(struct bench *b, void *arg, int status, struct bytes message,
                             struct bytes answer);
/* One request, one answer. `timeout` 0: none. When the connection is gone, the run is given up and fn is not called. */
void bench_unary(struct bench_link *k, const char *path, usec_t timeout,
                 const ProtobufCMessage *request, bench_answer_fn *fn, void *arg);
/* NULL: the connection is gone, and the run is given up. */
struct rpc_call *bench_call(struct bench_link *k, const char *path, usec_t timeout,
                            const struct rpc_client_events *ev, const ProtobufCMessage *request);

/* ---- run.c --------------------------------------------------------------------------------------- */

usec_t bench_now(const struct bench *b); /* read now, not the round's */
void bench_fail(struct bench *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Nothing more can be learnt: the loop ends. */
void bench_give_up(struct bench *b);
void bench_phase_ended(struct bench *b);
/* Open loop: client_go_on() is called when the next operation is due. */
void bench_arm_tick(struct bench *b);

/* ---- client.c ------------------------------------------------------------------------------------ */

/* Makes the places of all operations, spread over the clients' connections. */
void client_init(struct bench *b);
void client_deinit(struct bench *b);
/* Starts what may run now: at the beginning of a phase and when an operation is due. */
void client_go_on(struct bench *b);

/* ---- worker.c ------------------------------------------------------------------------------------ */

void worker_open(struct bench_link *k);
