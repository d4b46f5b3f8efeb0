#include "wire/timestamp.h"

#define NANOS_PER_SEC 1000000000
#define NANOS_PER_USEC 1000
#define DURATION_SECONDS_MAX INT64_C(315576000000) /* duration.proto */

bool wire_time_read(const Google__Protobuf__Timestamp *ts, usec_t *out)
{
    if (ts->seconds < WIRE_SECONDS_MIN || ts->seconds > WIRE_SECONDS_MAX || ts->nanos < 0 ||
        ts->nanos >= NANOS_PER_SEC)
        return false;
    *out = ts->seconds * USEC_PER_SEC + (ts->nanos + NANOS_PER_USEC - 1) / NANOS_PER_USEC;
    return true;
}

bool wire_time_is_unset(const Google__Protobuf__Timestamp *ts)
{
    return !ts || (ts->seconds == 0 && ts->nanos == 0);
}

Google__Protobuf__Timestamp wire_time(usec_t t)
{
    Google__Protobuf__Timestamp ts = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

    t = MAX(t, WIRE_SECONDS_MIN * USEC_PER_SEC);
    t = MIN(t, WIRE_SECONDS_MAX * USEC_PER_SEC + USEC_PER_SEC - 1);
    int64_t part = t % USEC_PER_SEC;
    if (part < 0) /* nanos count forward, also before 1970 */
        part += USEC_PER_SEC;
    ts.seconds = (t - part) / USEC_PER_SEC;
    ts.nanos = (int32_t)part * NANOS_PER_USEC;
    return ts;
}

bool wire_duration_read(const Google__Protobuf__Duration *d, usec_t *out)
{
    if (d->seconds < -DURATION_SECONDS_MAX || d->seconds > DURATION_SECONDS_MAX ||
        d->nanos <= -NANOS_PER_SEC || d->nanos >= NANOS_PER_SEC ||
        (d->seconds > 0 && d->nanos < 0) || (d->seconds < 0 && d->nanos > 0))
        return false;
    int64_t part = d->nanos / NANOS_PER_USEC; /* towards zero: up, for negative ones */
    if (d->nanos > 0 && d->nanos % NANOS_PER_USEC)
        part++;
    *out = d->seconds * USEC_PER_SEC + part;
    return true;
}

Google__Protobuf__Duration wire_duration(usec_t d)
{
    Google__Protobuf__Duration out = GOOGLE__PROTOBUF__DURATION__INIT;

    d = MAX(d, -DURATION_SECONDS_MAX * USEC_PER_SEC);
    d = MIN(d, DURATION_SECONDS_MAX * USEC_PER_SEC);
    out.seconds = d / USEC_PER_SEC;
    out.nanos = (int32_t)(d % USEC_PER_SEC) * NANOS_PER_USEC;
    return out;
}
