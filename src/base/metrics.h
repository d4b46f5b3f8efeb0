/* metrics.h - counters, gauges and histograms, and their Prometheus text.
 *
 * Metrics are registered at start into a struct metrics that is passed in, then updated with relaxed atomics from any
 * thread. Label values are fixed at registration (one handle a label set), so nothing a peer sends
 * can grow the set. Rendering walks them in order of registration; families of one name must be
 * registered together.
 * Tests: tests/unit/test_metrics.c
 */
#pragma once

#include <stdatomic.h>

#include "base/strbuf.h"

struct metrics; /* a registry */

struct counter {
    _Atomic uint64_t value;
};

struct gauge {
    _Atomic int64_t value;
};

#define HISTOGRAM_BUCKETS 28 /* powers of two from 1, last is +Inf; unit scaled when rendered */
struct histogram {
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
    _Atomic uint64_t count, sum; /* in the unit observed (microseconds or items) */
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
/* `labels` is Prometheus label text without braces (`method="Hello",code="OK"`) or "". All strings
 * are copied. Handles live as long as the registry. */
struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels,
                                const char *help);
struct gauge *metrics_gauge(struct metrics *m, const char *name, const char *labels,
                            const char *help);
/* `scale` divides when rendered: 1e6 turns observed microseconds into seconds, 1 keeps items. */
struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels,
                                    const char *help, double scale);
/* Called before each rendering, to set gauges that are read and not kept. */
void metrics_on_render(struct metrics *m, void (*fn)(void *arg), void *arg);
void metrics_render(struct metrics *m, struct strbuf *out);

static inline void counter_add(struct counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}

static inline uint64_t counter_get(const struct counter *c)
{
    return atomic_load_explicit(&c->value, memory_order_relaxed);
}

static inline void gauge_set(struct gauge *g, int64_t v)
{
    atomic_store_explicit(&g->value, v, memory_order_relaxed);
}

static inline void gauge_add(struct gauge *g, int64_t n)
{
    atomic_fetch_add_explicit(&g->value, n, memory_order_relaxed);
}

static inline int64_t gauge_get(const struct gauge *g)
{
    return atomic_load_explicit(&g->value, memory_order_relaxed);
}

void histogram_observe(struct histogram *h, uint64_t v);
