/* time.h - microseconds, and the clock that is passed in.
 *
 * Due times are wall-clock microseconds since 1970 UTC; durations and time-outs are taken on the
 * monotonic clock. The only caller of clock_gettime() is base/clock.c; everything else is given a
 * struct clock.
 * Tests: tests/unit/test_time.c
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

typedef int64_t usec_t;

#define USEC_NEVER INT64_MAX
#define USEC_PER_MSEC ((usec_t)1000)
#define USEC_PER_SEC ((usec_t)1000000)

struct clock {
    usec_t (*wall)(void *arg);      /* may step both ways */
    usec_t (*monotonic)(void *arg); /* never goes back */
    void *arg;
};

const struct clock *clock_system(void);
/* The CPU time that a process of this machine has used, all its threads, also those that have ended. False: there is none. */
bool clock_process_cpu(int pid, usec_t *out);

static inline usec_t clock_wall(const struct clock *c)
{
    return c->wall(c->arg);
}

static inline usec_t clock_monotonic(const struct clock *c)
{
    return c->monotonic(c->arg);
}

usec_t usec_add(usec_t a, usec_t b); /* saturates at USEC_NEVER and at 0 below */

/* `500ms`, `2s`, `5m`, `1h`, `1d`, `250us`; `off` and `0` give 0. */
MUST_CHECK enum err usec_parse_duration(struct bytes text, usec_t *out, struct error *err);
/* RFC 3339, or relative to `now` as `+30s` and `-2h`. */
MUST_CHECK enum err usec_parse_time(struct bytes text, usec_t now, usec_t *out, struct error *err);
#define USEC_TEXT_LEN 32
/* RFC 3339 in UTC with microseconds (`2026-12-01T01:02:03.000004Z`), NUL-terminated. */
void usec_format(usec_t t, char out[USEC_TEXT_LEN]);
/* `64MiB`, `256KiB`, `1GiB`, `100`, `off` = 0; whole bytes. */
MUST_CHECK enum err size_parse(struct bytes text, uint64_t *out, struct error *err);
