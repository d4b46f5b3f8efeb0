/* bench.c - `perdure bench`: measures a Durable Task server. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "bench/bench.h"
#include "cli/command.h"
#include "cli/text.h"

const struct option BENCH_OPTIONS[] = {
    {"concurrency", "N", "operations at a time (64)", NULL, false},
    {"rate", "N",
     "operations due each second, whatever the server does; without it each follows another", NULL,
     false},
    {"duration", "D", "measure that long (10s)", NULL, false},
    {"count", "N", "measure so many operations instead", NULL, false},
    {"warmup", "N|D", "before that: so many operations, or that long (1s)", NULL, false},
    {"payload", "SIZE", "added to every input, result and event (0)", NULL, false},
    {"delay", "D", "of the workload timer (10ms)", NULL, false},
    {"connections", "N", "2 to 8: half for clients, half for workers (8)", NULL, false},
    {"timeout", "D", "of a wait; give up when the server answers nothing for so long (60s)", NULL,
     false},
    {"pid", "PID",
     "the server's process here: its CPU, memory and disk writes, with its children's", NULL,
     false},
    {NULL, NULL, NULL, NULL, false},
};

/* ---- what is asked for ----------------------------------------------------------------------------- */

static enum err read_number(const struct invocation *in, const char *option, uint64_t min,
                            uint64_t max, uint64_t *out, struct error *err)
{
    const char *text = invocation_value(in, option);
    uint64_t v;

    if (!text)
        return OK;
    if (!bytes_parse_u64(bytes_str(text), &v) || v < min || v > max)
        return error_set(err, ERR_INVALID, "--%s: \"%s\" is no number from %" PRIu64 " to %" PRIu64,
                         option, text, min, max);
    *out = v;
    return OK;
}

static enum err read_time(const struct invocation *in, const char *option, usec_t *out,
                          struct error *err)
{
    enum err e = invocation_duration(in, option, out, err);

    if (!e && invocation_has(in, option) && *out == 0)
        return error_set(err, ERR_INVALID, "--%s: more than nothing, please", option);
    return e;
}

static enum err read_warmup(const struct invocation *in, struct bench_span *out, struct error *err)
{
    const char *text = invocation_value(in, "warmup");

    if (text && bytes_parse_u64(bytes_str(text), &out->count)) {
        out->time = 0;
        return OK;
    }
    return invocation_duration(in, "warmup", &out->time, err);
}

static enum err read_workload(const struct invocation *in, const struct workload **out,
                              struct error *err)
{
    const char *name = in->arg_count > 0 ? in->args[0] : "hello1";
    struct strbuf names = {0};

    *out = workload_find(name);
    if (*out)
        return OK;
    for (size_t i = 0; i < WORKLOAD_COUNT; i++)
        strbuf_appendf(&names, "%s%s", i ? ", " : "", WORKLOADS[i].name);
    error_set(err, ERR_INVALID, "no workload \"%s\"; there are %s", name, strbuf_cstr(&names));
    strbuf_deinit(&names);
    return ERR_INVALID;
}

static enum err read_payload(const struct invocation *in, uint64_t *out, struct error *err)
{
    const char *text = invocation_value(in, "payload");

    if (!text)
        return OK;
    enum err e = size_parse(bytes_str(text), out, err);
    if (e)
        return error_wrap(err, e, "--payload");
    if (*out > WORKLOAD_PAYLOAD_MAX)
        return error_set(err, ERR_INVALID, "--payload: more than %zu bytes",
                         (size_t)WORKLOAD_PAYLOAD_MAX);
    return OK;
}

static enum err read_options(const struct invocation *in, struct bench_options *o,
                             struct error *err)
{
    uint64_t pid = 0, rate = 0;
    enum err e;

    if ((e = read_workload(in, &o->workload, err)) ||
        (e = read_number(in, "concurrency", 1, BENCH_CONCURRENCY_MAX, &o->concurrency, err)) ||
        (e = read_number(in, "rate", 1, 10000000, &rate, err)) ||
        (e = read_number(in, "count", 1, UINT32_MAX, &o->measure.count, err)) ||
        (e = read_number(in, "connections", 2, BENCH_CONNECTIONS_MAX, &o->connections, err)) ||
        (e = read_number(in, "pid", 1, INT32_MAX, &pid, err)) ||
        (e = read_time(in, "duration", &o->measure.time, err)) ||
        (e = read_time(in, "delay", &o->delay, err)) ||
        (e = read_time(in, "timeout", &o->timeout, err)) ||
        (e = read_warmup(in, &o->warmup, err)) || (e = read_payload(in, &o->payload_bytes, err)))
        return e;
    if (o->measure.count > 0 && invocation_has(in, "duration"))
        return error_set(err, ERR_INVALID, "--count and --duration exclude each other");
    o->rate = (double)rate;
    o->pid = (int)pid;
    if (o->pid > 0 && !process_tree_use(o->pid).is_known)
        return error_set(err, ERR_INVALID, "--pid: there is no process %d here", o->pid);
    return OK;
}

/* ---- figures --------------------------------------------------------------------------------------- */

/* A figure that is not known is below 0 and left out. */
struct figures {
    double rate, turns, activities, history_bytes, client_cpu_us;
    double cpu_us, cpu_us_activity, written_bytes;
    double commands_batch, flushes;
    uint64_t rss_bytes, rss_peak_bytes;
    unsigned processes;
};

static double per(double sum, uint64_t n)
{
    return n ? sum / (double)n : -1;
}

static struct figures figures_of(const struct bench_result *r)
{
    const struct process_use *p = &r->begun, *q = &r->ended;
    const struct bench_commits *c = &r->commits_begun, *d = &r->commits_ended;
    uint64_t n = r->operations;
    struct figures f = {
        .rate = r->took > 0 ? (double)n * 1e6 / (double)r->took : 0,
        .turns = per((double)r->turns, n),
        .activities = per((double)r->activities, n),
        .history_bytes = per((double)r->history_bytes, n),
        .client_cpu_us = per((double)r->client_cpu, n),
        .cpu_us = -1,
        .cpu_us_activity = -1,
        .written_bytes = -1,
        .commands_batch = -1,
        .flushes = -1,
        .rss_bytes = q->rss_bytes,
        .rss_peak_bytes = q->rss_peak_bytes,
        .processes = q->count,
    };

    if (p->is_known && q->is_known) {
        f.cpu_us = per((double)(q->cpu - p->cpu), n);
        f.cpu_us_activity = per((double)(q->cpu - p->cpu), r->activities);
        if (p->knows_written && q->knows_written)
            f.written_bytes = per((double)q->written_bytes - (double)p->written_bytes, n);
    }
    if (c->is_known && d->is_known) {
        f.commands_batch = per((double)(d->commands - c->commands), d->batches - c->batches);
        f.flushes = per((double)(d->flushes - c->flushes), n);
    }
    return f;
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static json_t *known(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *times_json(const struct hdr *h)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "min", (double)h->min / 1e3,
                     "mean", hdr_mean(h) / 1e3, "p50", (double)hdr_at(h, 0.5) / 1e3, "p90",
                     (double)hdr_at(h, 0.9) / 1e3, "p99", (double)hdr_at(h, 0.99) / 1e3, "p99.9",
                     (double)hdr_at(h, 0.999) / 1e3, "p99.99", (double)hdr_at(h, 0.9999) / 1e3,
                     "max", (double)h->max / 1e3);
}

static json_t *server_json(const struct figures *f)
{
    if (f->processes == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:i}", "cpuUs", known(f->cpu_us),
                     "cpuUsPerActivity", known(f->cpu_us_activity), "writtenBytes",
                     known(f->written_bytes), "rssBytes", (json_int_t)f->rss_bytes, "rssPeakBytes",
                     (json_int_t)f->rss_peak_bytes, "processes", (int)f->processes);
}

static json_t *failures_json(const struct bench_result *r)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < MIN(r->failed, (uint64_t)BENCH_FAILURES_TOLD); i++)
        json_array_append_new(list, json_string(r->failures[i]));
    return list;
}

static json_t *result_json(const struct bench_options *o, const struct bench_result *r,
                           const struct figures *f)
{
    json_t *commits = f->flushes < 0
                          ? json_null()
                          : json_pack("{s:o, s:o}", "commandsPerBatch", known(f->commands_batch),
                                      "flushes", known(f->flushes));
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:o, s:I, s:I, s:b, s:I, s:o, s:I, s:f, s:f, s:o, s:o, s:{s:o, s:o, "
        "s:o, s:o}, s:o, s:o}",
        "workload", o->workload->name, "server", o->server, "loop", o->rate > 0 ? "open" : "closed",
        "concurrency", (json_int_t)o->concurrency, "targetRate",
        o->rate > 0 ? json_real(o->rate) : json_null(), "connections", (json_int_t)o->connections,
        "payloadBytes", (json_int_t)o->payload_bytes, "valid", r->failed == 0, "failed",
        (json_int_t)r->failed, "failures", failures_json(r), "operations",
        (json_int_t)r->operations, "seconds", (double)r->took / 1e6, "rate", f->rate, "latencyMs",
        times_json(&r->latency), "serviceMs", times_json(&r->service), "perOperation", "turns",
        known(f->turns), "activities", known(f->activities), "historyBytes",
        known(f->history_bytes), "clientCpuUs", known(f->client_cpu_us), "process", server_json(f),
        "commits", commits);
}

/* ---- text ------------------------------------------------------------------------------------------ */

static void put_times(struct strbuf *out, const char *name, const struct hdr *h)
{
    static const struct {
        const char *name;
        double at;
    } POINTS[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};

    strbuf_appendf(out, "%-10s", name);
    for (size_t i = 0; i < ARRAY_LEN(POINTS); i++)
        strbuf_appendf(out, "%s%s %.3f ms", i ? "  " : " ", POINTS[i].name,
                       (double)hdr_at(h, POINTS[i].at) / 1e3);
    strbuf_append_char(out, '\n');
}

static void put_size_of(struct strbuf *out, const char *name, uint64_t bytes)
{
    strbuf_append_str(out, name);
    put_size(out, bytes);
}

static void put_process(struct strbuf *out, const struct figures *f)
{
    if (f->processes == 0)
        return;
    strbuf_appendf(out, "server     %.1f us CPU", MAX(f->cpu_us, 0.0));
    if (f->cpu_us_activity >= 0)
        strbuf_appendf(out, ", %.1f us an activity", f->cpu_us_activity);
    if (f->written_bytes >= 0)
        strbuf_appendf(out, ", %.0f bytes written", f->written_bytes);
    put_size_of(out, ", ", f->rss_bytes);
    put_size_of(out, " resident, at most ", f->rss_peak_bytes);
    strbuf_append_char(out, '\n');
}

static void put_result(struct strbuf *out, const struct bench_options *o,
                       const struct bench_result *r, const struct figures *f)
{
    strbuf_appendf(out,
                   "workload   %s, payload %" PRIu64 ", concurrency %" PRIu64 ", %" PRIu64
                   " connections, ",
                   o->workload->name, o->payload_bytes, o->concurrency, o->connections);
    if (o->rate > 0)
        strbuf_appendf(out, "%.0f/s due\n", o->rate);
    else
        strbuf_append_str(out, "closed loop\n");
    strbuf_appendf(out, "operations %" PRIu64 " in %.3f s, %.1f/s\n", r->operations,
                   (double)r->took / 1e6, f->rate);
    put_times(out, "latency", &r->latency);
    if (o->rate > 0)
        put_times(out, "service", &r->service);
    strbuf_appendf(out,
                   "each       %.2f turns, %.2f activities, %.0f history bytes to the worker, %.1f "
                   "us CPU of this client\n",
                   MAX(f->turns, 0.0), MAX(f->activities, 0.0), MAX(f->history_bytes, 0.0),
                   MAX(f->client_cpu_us, 0.0));
    put_process(out, f);
    if (f->flushes >= 0)
        strbuf_appendf(out, "commits    %.4f flushes, %.2f commands a batch\n", f->flushes,
                       MAX(f->commands_batch, 0.0));
    for (uint64_t i = 0; i < MIN(r->failed, (uint64_t)BENCH_FAILURES_TOLD); i++) {
        strbuf_append_str(out, "failure    ");
        put_clean(out, bytes_str(r->failures[i]), 0);
        strbuf_append_char(out, '\n');
    }
}

/* ---- the run --------------------------------------------------------------------------------------- */

static enum err tell(const struct invocation *in, const struct bench_options *o,
                     const struct bench_result *r, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    struct figures f = figures_of(r);

    if (in->json)
        return output_json(result_json(o, r, &f), err);
    put_result(&text, o, r, &f);
    return output_text(&text, err);
}

enum err run_bench(struct invocation *in, struct error *err)
{
    struct bench_options o = {
        .clock = clock_system(),
        .server = in->server,
        .hub = in->hub,
        .warmup = {.time = USEC_PER_SEC},
        .measure = {.time = 10 * USEC_PER_SEC},
        .concurrency = 64,
        .connections = BENCH_CONNECTIONS_MAX,
        .delay = 10 * USEC_PER_MSEC,
        .timeout = 60 * USEC_PER_SEC,
    };
    enum err e = read_options(in, &o, err);

    if (e || (e = invocation_secure(in, err)))
        return e;
    o.tls = in->tls;
    o.api_key = in->api_key;
    struct bench_result *r = calloc(1, sizeof(*r));
    ASSERT(r);
    if (!(e = bench_run(&o, r, err)))
        e = tell(in, &o, r, err);
    if (!e && r->failed > 0)
        e = error_set(err, ERR_INTERNAL, "the run is invalid, %" PRIu64 " failures: %s", r->failed,
                      r->failures[0]);
    free(r);
    return e;
}
