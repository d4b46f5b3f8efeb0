#include "base/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

static const char *const KIND_NAMES[] = {"counter", "gauge", "histogram"};

struct metric {
    struct metric *next;
    enum metric_kind kind;
    char *name, *labels, *help;
    double scale;
    union {
        struct counter counter;
        struct gauge gauge;
        struct histogram histogram;
    };
};

struct hook {
    struct hook *next;
    void (*fn)(void *arg);
    void *arg;
};

struct metrics {
    struct metric *first, **last;
    struct hook *hooks, **last_hook;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = calloc(1, sizeof(*m));
    ASSERT(m);
    m->last = &m->first;
    m->last_hook = &m->hooks;
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (struct metric *x = m->first, *next; x; x = next) {
        next = x->next;
        free(x->name);
        free(x->labels);
        free(x->help);
        free(x);
    }
    for (struct hook *h = m->hooks, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    free(m);
}

static bool is_metric_name(const char *s)
{
    if (*s >= '0' && *s <= '9')
        return false;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
    return n > 0 && s[n] == '\0';
}

static char *copy(const char *s)
{
    char *p = strdup(s);
    ASSERT(p);
    return p;
}

static struct metric *add(struct metrics *m, enum metric_kind kind, const char *name,
                          const char *labels, const char *help)
{
    ASSERT(is_metric_name(name));
    struct metric *x = calloc(1, sizeof(*x));
    ASSERT(x);
    x->kind = kind;
    x->name = copy(name);
    x->labels = copy(labels);
    x->help = copy(help);
    *m->last = x;
    m->last = &x->next;
    return x;
}

struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels,
                                const char *help)
{
    return &add(m, METRIC_COUNTER, name, labels, help)->counter;
}

struct gauge *metrics_gauge(struct metrics *m, const char *name, const char *labels,
                            const char *help)
{
    return &add(m, METRIC_GAUGE, name, labels, help)->gauge;
}

struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels,
                                    const char *help, double scale)
{
    ASSERT(scale > 0);
    struct metric *x = add(m, METRIC_HISTOGRAM, name, labels, help);
    x->scale = scale;
    return &x->histogram;
}

void metrics_on_render(struct metrics *m, void (*fn)(void *arg), void *arg)
{
    struct hook *h = malloc(sizeof(*h));
    ASSERT(h);
    *h = (struct hook){.fn = fn, .arg = arg};
    *m->last_hook = h;
    m->last_hook = &h->next;
}

void histogram_observe(struct histogram *h, uint64_t v)
{
    /* Bucket i holds what is at most 2^i and more than the one before. */
    unsigned i = v <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(v - 1);
    i = MIN(i, HISTOGRAM_BUCKETS - 1u);
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, v, memory_order_relaxed);
}

static void render_header(const struct metric *x, struct strbuf *out)
{
    strbuf_appendf(out, "# HELP %s ", x->name);
    for (const char *s = x->help; *s; s++) {
        if (*s == '\n')
            strbuf_append_str(out, "\\n");
        else if (*s == '\\')
            strbuf_append_str(out, "\\\\");
        else
            strbuf_append_char(out, *s);
    }
    strbuf_appendf(out, "\n# TYPE %s %s\n", x->name, KIND_NAMES[x->kind]);
}

/* The name, and the labels in braces with `le` when it is given. */
static void render_name(const struct metric *x, const char *suffix, const char *le,
                        struct strbuf *out)
{
    bool labels = x->labels[0] != '\0';

    strbuf_append_str(out, x->name);
    strbuf_append_str(out, suffix);
    if (labels || le) {
        strbuf_append_char(out, '{');
        strbuf_append_str(out, x->labels);
        if (le)
            strbuf_appendf(out, "%sle=\"%s\"", labels ? "," : "", le);
        strbuf_append_char(out, '}');
    }
    strbuf_append_char(out, ' ');
}

static void render_histogram(const struct metric *x, struct strbuf *out)
{
    const struct histogram *h = &x->histogram;
    uint64_t total = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        char le[32] = "+Inf";
        if (i < HISTOGRAM_BUCKETS - 1)
            (void)snprintf(le, sizeof(le), "%.10g", (double)(UINT64_C(1) << i) / x->scale);
        total += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        render_name(x, "_bucket", le, out);
        strbuf_appendf(out, "%" PRIu64 "\n", total);
    }
    render_name(x, "_sum", NULL, out);
    strbuf_appendf(out, "%.15g\n",
                   (double)atomic_load_explicit(&h->sum, memory_order_relaxed) / x->scale);
    /* Of the buckets just read, not h->count, which may be ahead: both must agree. */
    render_name(x, "_count", NULL, out);
    strbuf_appendf(out, "%" PRIu64 "\n", total);
}

static void render_metric(const struct metric *x, struct strbuf *out)
{
    switch (x->kind) {
    case METRIC_COUNTER:
        render_name(x, "", NULL, out);
        strbuf_appendf(out, "%" PRIu64 "\n", counter_get(&x->counter));
        break;
    case METRIC_GAUGE:
        render_name(x, "", NULL, out);
        strbuf_appendf(out, "%" PRId64 "\n", gauge_get(&x->gauge));
        break;
    case METRIC_HISTOGRAM:
        render_histogram(x, out);
        break;
    }
}

void metrics_render(struct metrics *m, struct strbuf *out)
{
    const char *family = "";

    for (struct hook *h = m->hooks; h; h = h->next)
        h->fn(h->arg);
    for (const struct metric *x = m->first; x; x = x->next) {
        if (strcmp(family, x->name) != 0)
            render_header(x, out);
        family = x->name;
        render_metric(x, out);
    }
}
