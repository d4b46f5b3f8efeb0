/* hdr.h - a histogram of times that keeps three digits of each, whatever their size.
 *
 * As HdrHistogram has it: linear up to 2,048 us, then 1,024 steps a doubling, so a value is known to a thousandth of itself. One
 * struct is 216 KiB, lives on the heap or in a heap struct, and needs no other memory. Zero-initialise it. Not thread-safe.
 * Tests: tests/unit/test_bench_hdr.c
 */
#pragma once

#include "base/time.h"

#define HDR_VALUE_MAX (((usec_t)1 << 36) - 1) /* 19 hours; what is longer counts as this */
#define HDR_COUNTS (2048 + 25 * 1024)

struct hdr {
    uint64_t count;
    usec_t min, max; /* 0 when empty */
    double sum;
    uint64_t counts[HDR_COUNTS];
};

void hdr_record(struct hdr *h, usec_t value); /* below 0 counts as 0 */
/* The smallest value that `fraction` of all recorded ones do not exceed, to a thousandth; 0 when empty. */
usec_t hdr_at(const struct hdr *h, double fraction);
double hdr_mean(const struct hdr *h);
