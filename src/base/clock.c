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

bool clock_process_cpu(int pid, usec_t *out)
{
    clockid_t id;
    struct timespec ts;

    if (pid < 0 || pid > INT32_MAX / 8) /* a clock id has no room for it */
        return false;
    if (clock_getcpuclockid(pid, &id) || clock_gettime(id, &ts))
        return false;
    *out = (usec_t)ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
    return true;
}
