/* bench.h - a benchmark of any Durable Task server: plays its clients and its workers, in one thread.
 *
 * Closed loop: `concurrency` operations at a time, each followed by the next. Open loop (rate > 0): operations are due at fixed
 * times (pace.h), at most `concurrency` of them run at once. An operation is one instance from its start to its answered wait, or
 * for wait-only the wait. First what wait-only needs, then the warm-up, then the measurement; each ends when all of its operations
 * have ended, so that nothing of one is counted in the other.
 *
 * Half of the connections are clients', half are workers', each of these with one stream of work. Ids are random. Every output is
 * checked, every history is checked by the worker; one failure makes the result invalid. Blocking; no thread of its own.
 * Tests: tests/cli/test_bench.py; tests/unit/test_bench_hdr.c, tests/unit/test_bench_workload.c
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "bench/hdr.h"
#include "bench/process.h"
#include "bench/workload.h"

#define BENCH_CONNECTIONS_MAX 8
#define BENCH_CONCURRENCY_MAX 100000
#define BENCH_FAILURES_TOLD 5  /* texts that are kept */
#define BENCH_FAILURES_MAX 100 /* then the run is given up */
#define BENCH_FAILURE_MAX 400  /* bytes of a text */

/* How long a part of the run is: so many operations or, with 0 of them, so much time; both 0: it is left out. */
struct bench_span {
    uint64_t count;
    usec_t time;
};

struct tls;

struct bench_options {
    const struct clock *clock;
    const char *server;
    struct tls *tls;     /* NULL: plaintext */
    const char *api_key; /* NULL: none */
    const char *hub;     /* NULL: no header, the server's default */
    const struct workload *workload;
    struct bench_span warmup, measure;
    uint64_t concurrency, connections;
    double rate; /* operations a second; 0: closed loop */
    uint64_t payload_bytes;
    usec_t delay;   /* of timer */
    usec_t timeout; /* of a wait; also, without a single answer: the run is given up */
    int pid;        /* of the server; 0: not looked at */
};

/* What the server's perdure.v1.Admin tells, since its start. Other servers do not have it. */
struct bench_commits {
    bool is_known;
    uint64_t batches, commands, flushes;
};

struct bench_result {
    uint64_t operations; /* measured */
    usec_t took;         /* from the first one's start to the last one's end */
    struct hdr latency;  /* from when it was due (open loop) or sent */
    struct hdr service;  /* from when it was sent */
    uint64_t turns, activities,
        history_bytes; /* history: past and new events of all turns, as sent to the worker */
    struct process_use begun, ended;
    struct bench_commits commits_begun, commits_ended;
    usec_t client_cpu; /* of this process */
    uint64_t failed;   /* warm-up included */
    char failures[BENCH_FAILURES_TOLD][BENCH_FAILURE_MAX];
};

/* ERR_UNAVAILABLE: no connection could be made. Whatever goes wrong later is in out->failed and out->failures. `out` is large: on the
 * heap, zeroed. */
MUST_CHECK enum err bench_run(const struct bench_options *opts, struct bench_result *out,
                              struct error *err);
