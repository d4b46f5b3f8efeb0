/* pace.h - the open loop: when each operation is due, whatever became of those before it.
 *
 * Operation n is due n / rate after the beginning. A server that stalls does not slow the schedule down: operations that could
 * not be sent in time are sent late, and their latency counts from when they were due. That is what corrects for coordinated
 * omission (a closed loop sends nothing while it waits, and so leaves out just the bad moments).
 * Tests: tests/unit/test_bench_hdr.c
 */
#pragma once

#include "base/time.h"

struct pace {
    usec_t begun;
    double rate; /* operations a second, above 0 */
    uint64_t taken;
};

static inline usec_t pace_next_due(const struct pace *p)
{
    return p->begun + (usec_t)((double)p->taken * 1e6 / p->rate);
}

/* True, and *due says when it should have been sent: the next operation is to be sent now. */
static inline bool pace_take(struct pace *p, usec_t now, usec_t *due)
{
    if (pace_next_due(p) > now)
        return false;
    *due = pace_next_due(p);
    p->taken++;
    return true;
}
