#include "server/trim.h"

#define QUIET (10 * USEC_PER_MSEC) /* of CPU time between two looks */
#define BUSY                                                                                       \
    (100 * USEC_PER_MSEC) /* of CPU time since the last trim: there may be something to give back */

bool trim_is_due(struct trim *t, usec_t cpu_time)
{
    usec_t used = cpu_time - t->seen;
    t->seen = cpu_time;
    t->busy += used;
    if (used > QUIET || t->busy < BUSY)
        return false;
    t->busy = 0;
    return true;
}
