/* timestamp.h - google.protobuf.Timestamp and Duration to microseconds and back.
 *
 * What the server stores and sends has microseconds: a finer due time is rounded up, so that nothing
 * fires early, and what is sent later are the very digits that were stored (spec 1.5).
 * Tests: tests/unit/test_wire_time.c
 */
#pragma once

#include "base/time.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

#define WIRE_SECONDS_MIN INT64_C(-62135596800) /* 0001-01-01T00:00:00Z */
#define WIRE_SECONDS_MAX INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

/* Microseconds, rounded up. False, and *out untouched: year outside 1..9999, nanos outside 0..999999999. */
bool wire_time_read(const Google__Protobuf__Timestamp *ts, usec_t *out);

/* Absent, or 0 seconds and 0 nanos: "not set" in scheduledStartTimestamp and scheduledTime. */
bool wire_time_is_unset(const Google__Protobuf__Timestamp *ts);

/* A timestamp to be packed; `t` is cut to the range above. */
Google__Protobuf__Timestamp wire_time(usec_t t);

/* Microseconds, rounded up; false for a value that protobuf does not allow (beyond 10,000 years, nanos out
 * of range or of the other sign). */
bool wire_duration_read(const Google__Protobuf__Duration *d, usec_t *out);
Google__Protobuf__Duration wire_duration(usec_t d);
