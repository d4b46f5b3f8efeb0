/* replay.h - reads the history of one execution of a benchmark's orchestration.
 *
 * Keeps what the programs of workload.c decide from, and refuses what no server may send: results of what was never asked for,
 * a second result, a history that does not begin.
 * Tests: tests/unit/test_bench_workload.c
 */
#pragma once

#include "bench/workload.h"

#define REPLAY_ACTIONS_MAX 128 /* ids 0 to 127; a program numbers its actions from 1 */

struct replay {
    struct bytes name, input;
    usec_t now; /* of the turn */
    unsigned asked, answered;
    uint64_t sum;        /* of the numbers of all results */
    struct bytes result; /* the latest */
    struct bytes event;  /* none: not yet */
    bool is_terminated, has_failed;
    struct bytes failure;
    uint8_t state[REPLAY_ACTIONS_MAX]; /* enum in replay.c */
};

/* Views live as long as the request. ERR_CORRUPT: the history cannot be. */
MUST_CHECK enum err replay_read(const OrchestratorRequest *req, struct replay *out,
                                struct error *err);
