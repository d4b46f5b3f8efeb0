/* damage.c - reading on behind a place of a table that cannot be read.
 *
 * Timers, messages, clean-up, ready turns and waiting activities are read in the order of their keys. A page that is damaged ends
 * such a read; what stands on it is lost until a backup is put back, but not what stands behind it: the first key from where a
 * row can be read again is found by doubling, then halving, some hundred look-ups for a page.
 */
#include "engine/internal.h"

#include "base/log.h"

#define COMPLAIN_EVERY (60 * USEC_PER_SEC)

void damage_log(struct engine *e, const char *what, const struct error *cause)
{
    struct error logged = *cause;
    e->stats.damaged_reads++;
    if (e->now < e->damage_quiet_until)
        return;
    e->damage_quiet_until = usec_add(e->now, COMPLAIN_EVERY);
    log_error(LOG_ERROR, what, &logged);
}

static uint64_t further(uint64_t at, uint64_t by)
{
    return at > UINT64_MAX - by ? UINT64_MAX : at + by;
}

enum err damage_skip(damage_probe_fn *probe, void *arg, uint64_t *after, struct error *err)
{
    uint64_t bad = *after, good, by = 1;
    for (;; by = by > UINT64_MAX / 2 ? UINT64_MAX : by * 2) {
        good = further(bad, by);
        enum err rc = good == bad ? ERR_CORRUPT : probe(arg, good, err);
        if (rc == OK)
            break;
        if (rc != ERR_CORRUPT || good == bad)
            return rc;
        bad = good;
    }
    while (good - bad > 1) {
        uint64_t mid = bad + (good - bad) / 2;
        enum err rc = probe(arg, mid, err);
        if (rc && rc != ERR_CORRUPT)
            return rc;
        if (rc)
            bad = mid;
        else
            good = mid;
    }
    *after = good;
    return OK;
}
