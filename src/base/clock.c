/* clock.c - the system's clock: the one place that calls clock_gettime(). */
#include <time.h>

#include "base/assert.h"
#include "base/time.h"

static usec_t read_clock(clockid_t id)
{
    struct timespec ts;
    ASSERT(clock_gettime(id, &ts) == 0);
    return (usec_t)ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
}

static usec_t system_wall(void *arg UNUSED)
{
    return read_clock(CLOCK_REALTIME);
}

static usec_t system_monotonic(void *arg UNUSED)
{
    return read_clock(CLOCK_MONOTONIC);
}

const struct clock *clock_system(void)
{
    static const struct clock SYSTEM = {.wall = system_wall, .monotonic = system_monotonic};
    return &SYSTEM;
}
