/* trim.h - when to give freed memory back to the system: once it is quiet after a busy time.
 *
 * malloc keeps what was freed for the next burst: after ten thousand connections, or a million timers, a process that does nothing
 * would stay as large as it was at its busiest. malloc_trim() costs milliseconds and holds locks, so it waits for silence.
 * Pure: the caller tells the time that the process used so far. One thread.
 * Tests: tests/unit/test_trim.c
 */
#pragma once

#include <stdbool.h>

#include "base/time.h"

/* Zero-initialised it is ready. */
struct trim {
    usec_t seen, busy; /* CPU time: at the last look; since memory was last given back */
};

/* About once a second. True: now. */
bool trim_is_due(struct trim *t, usec_t cpu_time);
