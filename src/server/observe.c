#include "server/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "durabletask.pb-c.h"

#define METHODS_MAX 48

/* The codes that get a series of their own; others share "OTHER". */
static const int CODES[] = {0, 1, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 16};
#define CODE_COUNT (ARRAY_LEN(CODES) + 1)

struct method {
    char path[96];
    _Atomic(const struct rpc_method *) known; /* the table's row, once it was seen */
    struct counter *calls[CODE_COUNT];
};

struct observe {
    struct store *store;
    const struct grpc_front *front;
    struct method methods[METHODS_MAX + 1]; /* the last: unknown ones */
    size_t method_count;
    struct histogram *call_time, *commit_time, *batch_size;
    struct counter *commits_failed, *flushes;
    uint64_t flushes_seen, failed_seen;
    struct gauge *instances[8];
    struct gauge *ready[WORK_KINDS], *flight[WORK_KINDS];
    struct gauge *paused, *waiters, *timers, *streams, *connections, *cached, *cached_bytes,
        *store_bytes, *wal_bytes, *healthy;
    struct counter *redelivered[3], *stale, *orphans, *damaged;
    struct counter *refused[REFUSALS];
    uint64_t refused_seen[REFUSALS];
    struct gauge *certificate_end;
    struct counter *rereads[2], *keys_rereads[2], *unsecured;
    uint64_t unsecured_seen;
    uint64_t redelivered_seen[3], stale_seen, orphans_seen, damaged_seen;
};

static const char *const STATUS_NAMES[8] = {"RUNNING",  "COMPLETED",  NULL,      "FAILED",
                                            "CANCELED", "TERMINATED", "PENDING", "SUSPENDED"};

static void add_method(struct observe *o, struct metrics *m, const char *service, const char *name)
{
    struct method *me = &o->methods[o->method_count++];
    ASSERT(o->method_count <= METHODS_MAX + 1);
    snprintf(me->path, sizeof(me->path), "/%s/%s", service, name);
    for (size_t c = 0; c < CODE_COUNT; c++) {
        char labels[160];
        snprintf(labels, sizeof(labels), "method=\"%s\",code=\"%s\"", name,
                 c < ARRAY_LEN(CODES) ? grpc_status_name(CODES[c]) : "OTHER");
        me->calls[c] = metrics_counter(m, "perdure_rpcs_total", labels,
                                       "Finished calls by method and gRPC status");
    }
}

static void add_methods(struct observe *o, struct metrics *m)
{
    for (unsigned i = 0; i < task_hub_sidecar_service__descriptor.n_methods; i++)
        add_method(o, m, "TaskHubSidecarService",
                   task_hub_sidecar_service__descriptor.methods[i].name);
    add_method(o, m, "perdure.v1.Admin", "Workers");
    add_method(o, m, "perdure.v1.Admin", "Status");
    add_method(o, m, "perdure.v1.Admin", "CheckStore");
    add_method(o, m, "perdure.v1.Admin", "BackupStore");
    add_method(o, m, "grpc.health.v1.Health", "Check");
    add_method(o, m, "grpc.health.v1.Health", "Watch");
    add_method(o, m, "", "unknown");
}

static void add_gauges(struct observe *o, struct metrics *m)
{
    for (int i = 0; i < 8; i++) {
        char labels[40];
        if (!STATUS_NAMES[i])
            continue;
        snprintf(labels, sizeof(labels), "status=\"%s\"", STATUS_NAMES[i]);
        o->instances[i] = metrics_gauge(m, "perdure_instances", labels,
                                        "Stored orchestration instances by status");
    }
    static const char *const KIND[WORK_KINDS] = {NULL, "kind=\"orchestration\"",
                                                 "kind=\"activity\""};
    for (unsigned k = 1; k < WORK_KINDS; k++)
        o->ready[k] =
            metrics_gauge(m, "perdure_work_ready", KIND[k], "Work items that wait for a worker");
    for (unsigned k = 1; k < WORK_KINDS; k++)
        o->flight[k] =
            metrics_gauge(m, "perdure_work_in_flight", KIND[k], "Work items that workers hold");
    o->paused = metrics_gauge(m, "perdure_work_paused", "",
                              "Work items that wait out a backoff or a suspension");
    o->waiters = metrics_gauge(m, "perdure_waiters", "", "Blocked WaitForInstance calls");
    o->timers = metrics_gauge(m, "perdure_timers", "", "Pending durable timers");
    o->streams = metrics_gauge(m, "perdure_work_streams", "", "Open GetWorkItems streams");
    o->connections = metrics_gauge(m, "perdure_connections", "", "Open gRPC connections");
    o->cached = metrics_gauge(m, "perdure_cached_objects", "", "Instances decoded in memory");
    o->cached_bytes =
        metrics_gauge(m, "perdure_cached_bytes", "", "Memory of instances decoded in memory");
    o->store_bytes = metrics_gauge(m, "perdure_store_bytes", "", "Size of the store's database");
    o->wal_bytes = metrics_gauge(m, "perdure_store_wal_bytes", "", "Size of the store's log");
    o->healthy = metrics_gauge(m, "perdure_store_healthy", "", "1 while the store takes commits");
}

static void add_engine_counters(struct observe *o, struct metrics *m)
{
    static const char *const REASON[3] = {"reason=\"stream_lost\"", "reason=\"timeout\"",
                                          "reason=\"abandoned\""};
    o->call_time = metrics_histogram(m, "perdure_rpc_seconds", "",
                                     "Time of finished calls, waits and streams included", 1e6);
    o->commit_time = metrics_histogram(m, "perdure_commit_seconds", "",
                                       "Time of a batch's commit and flush", 1e6);
    o->batch_size =
        metrics_histogram(m, "perdure_batch_commands", "", "Commands that shared a commit", 1);
    o->commits_failed = metrics_counter(m, "perdure_commits_failed_total", "",
                                        "Batches that the store refused or could not read");
    o->flushes =
        metrics_counter(m, "perdure_store_flushes_total", "", "Flushes of the store's log");
    for (unsigned i = 0; i < REFUSALS; i++) {
        char label[64];
        snprintf(label, sizeof(label), "limit=\"%s\"", GRPC_REFUSAL_NAMES[i]);
        o->refused[i] = metrics_counter(m, "perdure_connections_refused_total", label,
                                        "gRPC connections that were closed at once");
    }
    for (unsigned i = 0; i < 3; i++)
        o->redelivered[i] = metrics_counter(m, "perdure_redeliveries_total", REASON[i],
                                            "Work items handed out again");
    o->stale = metrics_counter(m, "perdure_stale_completions_total", "",
                               "Completions that came too late and changed nothing");
    o->orphans = metrics_counter(m, "perdure_orphans_dropped_total", "",
                                 "Timers, inboxes and activities dropped: their instance was gone");
    o->damaged = metrics_counter(m, "perdure_damage_met_total", "",
                                 "Times that stored rows could not be read and were passed over");
    char build[160];
    snprintf(build, sizeof(build), "version=\"%s\",compiler=\"%s\"", PERDURE_VERSION,
             PERDURE_COMPILER);
    gauge_set(metrics_gauge(m, "perdure_build_info", build, "Always 1"), 1);
}

static void follow(struct counter *c, uint64_t *seen, uint64_t now)
{
    counter_add(c, now - *seen);
    *seen = now;
}

static void add_tls(struct observe *o, struct metrics *m)
{
    o->certificate_end =
        metrics_gauge(m, "perdure_tls_certificate_expiry_timestamp_seconds", "",
                      "When the certificate in use, or one of its chain, expires; 0: no TLS");
    o->rereads[0] = metrics_counter(m, "perdure_tls_rereads_total", "result=\"ok\"",
                                    "Times that SIGHUP made the certificates be read again");
    o->rereads[1] = metrics_counter(m, "perdure_tls_rereads_total", "result=\"failed\"",
                                    "Times that SIGHUP made the certificates be read again");
    o->keys_rereads[0] = metrics_counter(m, "perdure_api_keys_rereads_total", "result=\"ok\"",
                                         "Times that the file of API keys was read again");
    o->keys_rereads[1] = metrics_counter(m, "perdure_api_keys_rereads_total", "result=\"failed\"",
                                         "Times that the file of API keys was read again");
    o->unsecured = metrics_counter(m, "perdure_tls_handshakes_failed_total", "",
                                   "gRPC connections that ended in the TLS handshake");
}

/* Those that change without the engine's doing. */
static void before_render(void *arg)
{
    struct observe *o = arg;
    gauge_set(o->connections, o->front ? (int64_t)grpc_front_connections(o->front) : 0);
    for (unsigned i = 0; o->front && i < REFUSALS; i++)
        follow(o->refused[i], &o->refused_seen[i], grpc_front_refused(o->front, i));
    if (o->front)
        follow(o->unsecured, &o->unsecured_seen, grpc_front_failed_handshakes(o->front));
}

struct observe *observe_new(struct metrics *m, struct store *store)
{
    struct observe *o = calloc(1, sizeof(*o));
    ASSERT(o);
    o->store = store;
    add_methods(o, m);
    add_engine_counters(o, m);
    add_gauges(o, m);
    add_tls(o, m);
    metrics_on_render(m, before_render, o);
    return o;
}

void observe_free(struct observe *o)
{
    free(o);
}

void observe_front(struct observe *o, const struct grpc_front *front)
{
    o->front = front;
}

void observe_certificates(struct observe *o, usec_t expires)
{
    gauge_set(o->certificate_end, expires / USEC_PER_SEC);
}

void observe_reread(struct observe *o, bool ok)
{
    counter_add(o->rereads[ok ? 0 : 1], 1);
}

void observe_keys_reread(struct observe *o, bool ok)
{
    counter_add(o->keys_rereads[ok ? 0 : 1], 1);
}

static struct method *method_of(struct observe *o, const struct rpc_method *method)
{
    struct method *unknown = &o->methods[o->method_count - 1];
    if (!method)
        return unknown;
    for (size_t i = 0; i + 1 < o->method_count; i++)
        if (atomic_load_explicit(&o->methods[i].known, memory_order_relaxed) == method)
            return &o->methods[i];
    for (size_t i = 0; i + 1 < o->method_count; i++) {
        if (strcmp(o->methods[i].path, method->path))
            continue;
        atomic_store_explicit(&o->methods[i].known, method, memory_order_relaxed);
        return &o->methods[i];
    }
    return unknown;
}

void observe_call(void *arg, const struct rpc_method *method, int grpc_status, usec_t took)
{
    struct observe *o = arg;
    size_t code = 0;
    while (code < ARRAY_LEN(CODES) && CODES[code] != grpc_status)
        code++;
    counter_add(method_of(o, method)->calls[code], 1);
    histogram_observe(o->call_time, (uint64_t)MAX(took, 0));
}

void observe_commit(void *arg, usec_t took, uint64_t commands, bool ok)
{
    struct observe *o = arg;
    histogram_observe(o->commit_time, (uint64_t)MAX(took, 0));
    histogram_observe(o->batch_size, commands);
    (void)ok; /* failures are counted with those of reads: observe_publish() */
}

static void one_count(void *arg, struct bytes hub, uint8_t kind, int32_t status, int64_t count)
{
    int64_t *sums = arg;
    (void)hub;
    (void)kind;
    if (status >= 0 && status < 8)
        sums[status] += count;
}

void observe_publish(void *arg, struct engine *e)
{
    struct observe *o = arg;
    struct engine_stats s;
    struct store_stats st;
    struct error err;
    int64_t sums[8] = {0};
    engine_stats(e, &s);
    store_stats(o->store, &st);
    if (!engine_counts(e, one_count, sums, &err))
        for (int i = 0; i < 8; i++)
            if (o->instances[i])
                gauge_set(o->instances[i], sums[i]);
    for (unsigned k = 1; k < WORK_KINDS; k++) {
        gauge_set(o->ready[k], (int64_t)s.ready[k]);
        gauge_set(o->flight[k], (int64_t)s.flight[k]);
    }
    gauge_set(o->paused, (int64_t)s.paused);
    gauge_set(o->waiters, (int64_t)s.waiters);
    gauge_set(o->timers, (int64_t)s.timers);
    gauge_set(o->streams, (int64_t)s.streams);
    gauge_set(o->cached, (int64_t)s.objects_cached);
    gauge_set(o->cached_bytes, (int64_t)s.objects_cached_bytes);
    gauge_set(o->store_bytes, (int64_t)st.store_bytes);
    gauge_set(o->wal_bytes, (int64_t)st.wal_bytes);
    gauge_set(o->healthy, engine_is_healthy(e));
    follow(o->commits_failed, &o->failed_seen, s.commits_failed);
    follow(o->flushes, &o->flushes_seen, st.flushes);
    follow(o->redelivered[0], &o->redelivered_seen[0], s.redelivered_lost);
    follow(o->redelivered[1], &o->redelivered_seen[1], s.redelivered_timeout);
    follow(o->redelivered[2], &o->redelivered_seen[2], s.redelivered_abandon);
    follow(o->stale, &o->stale_seen, s.stale_completions);
    follow(o->orphans, &o->orphans_seen, s.orphans);
    follow(o->damaged, &o->damaged_seen, s.damaged_reads);
}
