#include "bench/hdr.h"

#include "base/assert.h"

#define LINEAR 2048u /* values below it have a count of their own */
#define HALF (LINEAR / 2)

static size_t index_of(uint64_t v)
{
    if (v < LINEAR)
        return v;
    unsigned shift = 53u - (unsigned)__builtin_clzll(v); /* leaves HALF <= v >> shift < LINEAR */
    return LINEAR + (shift - 1) * HALF + ((v >> shift) - HALF);
}

/* The largest value of that index. */
static uint64_t top_of(size_t index)
{
    if (index < LINEAR)
        return index;
    unsigned shift = (unsigned)((index - LINEAR) / HALF) + 1;
    uint64_t v = (index - LINEAR) % HALF + HALF;
    return ((v + 1) << shift) - 1;
}

void hdr_record(struct hdr *h, usec_t value)
{
    value = MIN(MAX(value, 0), HDR_VALUE_MAX);
    size_t i = index_of((uint64_t)value);

    ASSERT(i < HDR_COUNTS);
    h->counts[i]++;
    h->min = h->count == 0 ? value : MIN(h->min, value);
    h->max = MAX(h->max, value);
    h->sum += (double)value;
    h->count++;
}

usec_t hdr_at(const struct hdr *h, double fraction)
{
    double wanted = fraction * (double)h->count;
    uint64_t seen = 0;

    if (h->count == 0)
        return 0;
    for (size_t i = 0; i < HDR_COUNTS; i++) {
        seen += h->counts[i];
        if (seen > 0 && (double)seen >= wanted)
            return MIN((usec_t)top_of(i), h->max);
    }
    return h->max;
}

double hdr_mean(const struct hdr *h)
{
    return h->count ? h->sum / (double)h->count : 0;
}
