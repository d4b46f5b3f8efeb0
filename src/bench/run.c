#include "bench/internal.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

#define POOL 256 /* instances that wait-only waits for */

static void begin_phase(struct bench *b, enum bench_phase phase);

usec_t bench_now(const struct bench *b)
{
    return clock_monotonic(b->opts->clock);
}

void bench_fail(struct bench *b, const char *fmt, ...)
{
    struct bench_result *r = b->result;
    va_list ap;

    if (r->failed < BENCH_FAILURES_TOLD) {
        va_start(ap, fmt);
        vsnprintf(r->failures[r->failed], BENCH_FAILURE_MAX, fmt, ap);
        va_end(ap);
    }
    if (++r->failed >= BENCH_FAILURES_MAX)
        bench_give_up(b);
}

void bench_give_up(struct bench *b)
{
    b->is_given_up = true;
    loop_stop(b->loop);
}

/* ---- what the server says of itself -------------------------------------------------------------- */

/* UNIMPLEMENTED from other servers is fine: then nothing is known. */
static void got_status(struct bench *b, void *arg, int status, struct bytes message UNUSED,
                       struct bytes answer)
{
    struct bench_commits *out = arg;
    Perdure__V1__StatusResponse *resp;

    if (b->is_given_up)
        return;
    if (status == GRPC_OK &&
        !wire_unpack(&perdure__v1__status_response__descriptor, b->arena, answer, &WIRE_LIMITS,
                     &resp, NULL) &&
        resp->commits)
        *out = (struct bench_commits){true, resp->commits->batches, resp->commits->commands,
                                      resp->commits->flushes};
    arena_reset(b->arena);
    if (b->phase == PHASE_OVER)
        loop_stop(b->loop);
    else
        begin_phase(b, PHASE_MEASURE);
}

static void ask_status(struct bench *b, struct bench_commits *out)
{
    Perdure__V1__StatusRequest req = PERDURE__V1__STATUS_REQUEST__INIT;

    bench_unary(&b->links[0], "/perdure.v1.Admin/Status", 0, &req.base, got_status, out);
}

/* ---- phases -------------------------------------------------------------------------------------- */

static usec_t own_cpu(void)
{
    usec_t cpu = 0;

    return clock_process_cpu(getpid(), &cpu) ? cpu : 0;
}

static void begin_measuring(struct bench *b)
{
    b->result->begun = process_tree_use(b->opts->pid);
    b->client_cpu_begun = own_cpu();
}

static void end_measuring(struct bench *b)
{
    b->result->ended = process_tree_use(b->opts->pid);
    b->result->client_cpu = own_cpu() - b->client_cpu_begun;
    b->phase = PHASE_OVER;
    ask_status(b, &b->result->commits_ended);
}

/* To the microsecond: the loop's own timers are up to a millisecond late. */
void bench_arm_tick(struct bench *b)
{
    usec_t due = pace_next_due(&b->pace);
    struct itimerspec at = {.it_value = {due / USEC_PER_SEC, due % USEC_PER_SEC * 1000}};

    timerfd_settime(b->tick_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void on_tick(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct bench *b = arg;
    uint64_t times;

    if (read(fd, &times, sizeof(times)) != sizeof(times) || !b->is_open)
        return;
    client_go_on(b);
}

/* An open loop has a number of operations, also where a time was asked for. */
static void begin_span(struct bench *b, struct bench_span span)
{
    bool is_open = b->opts->rate > 0 && b->phase != PHASE_PREPARE;

    if (is_open && span.count == 0)
        span.count = MAX((uint64_t)(b->opts->rate * (double)span.time / 1e6), 1);
    b->span = span;
    b->started = b->ended = 0;
    b->begun = bench_now(b);
    b->is_open = is_open;
    b->pace = (struct pace){.begun = b->begun, .rate = b->opts->rate};
    client_go_on(b);
}

static void begin_phase(struct bench *b, enum bench_phase phase)
{
    const struct bench_options *o = b->opts;

    b->phase = phase;
    b->workload = o->workload;
    switch (phase) {
    case PHASE_PREPARE:
        b->workload = workload_find("hello1");
        begin_span(b, (struct bench_span){.count = POOL});
        break;
    case PHASE_WARM_UP:
        begin_span(b, o->warmup);
        break;
    case PHASE_MEASURE:
        begin_measuring(b);
        begin_span(b, o->measure);
        break;
    case PHASE_OVER:
        break;
    }
}

/* The answer to the question begins the measurement, so that it is not part of it. */
void bench_phase_ended(struct bench *b)
{
    const struct bench_span *w = &b->opts->warmup;

    if (b->phase == PHASE_MEASURE)
        end_measuring(b);
    else if (b->phase == PHASE_PREPARE && (w->count > 0 || w->time > 0))
        begin_phase(b, PHASE_WARM_UP);
    else
        ask_status(b, &b->result->commits_begun);
}

static void begin_run(struct bench *b)
{
    if (b->opts->workload->stages[0] == STAGE_WAIT) {
        begin_phase(b, PHASE_PREPARE);
        return;
    }
    b->phase = PHASE_PREPARE; /* with nothing to prepare */
    bench_phase_ended(b);
}

/* ---- connections ------------------------------------------------------------------------------- */

/* All of them tell, also when the first one has failed: an attempt that is under way belongs to the loop. */
static void connected(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct bench_link *k = arg;
    struct bench *b = k->bench;

    if (!conn && !b->connect_failure)
        b->connect_failure = error_set(b->err, ERR_UNAVAILABLE, "no server at \"%s\": %s",
                                       b->opts->server, err->msg);
    if (conn && k >= &b->links[b->client_count])
        worker_open(k);
    if (++b->told < b->link_count)
        return;
    if (b->connect_failure) {
        bench_give_up(b);
        return;
    }
    loop_timer_set(b->watchdog, bench_now(b) + b->opts->timeout);
    if (!b->is_given_up)
        begin_run(b);
}

static enum err open_links(struct bench *b, struct error *err)
{
    const struct bench_options *o = b->opts;
    struct channel_options opts = {.address = bytes_str(o->server),
                                   .tls = o->tls,
                                   .api_key = o->api_key,
                                   .user_agent = "perdure-bench/" PERDURE_VERSION};
    enum err e;

    for (size_t i = 0; i < o->connections; i++, b->link_count++) {
        b->links[i].bench = b;
        if ((e = channel_new(b->loop, &opts, &b->links[i].channel, err)))
            return error_wrap(err, e, "--server");
    }
    for (size_t i = 0; i < b->link_count; i++)
        channel_when_ready(b->links[i].channel, connected, &b->links[i]);
    return OK;
}

static void watch(void *arg)
{
    struct bench *b = arg;

    if (b->answers == b->seen_answers && b->phase != PHASE_OVER) {
        bench_fail(
            b, "the server has answered nothing for %.6g s, with %" PRIu64 " operations under way",
            (double)b->opts->timeout / (double)USEC_PER_SEC, b->started - b->ended);
        bench_give_up(b);
        return;
    }
    b->seen_answers = b->answers;
    loop_timer_set(b->watchdog, bench_now(b) + b->opts->timeout);
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static enum err init(struct bench *b, struct error *err)
{
    enum err e = loop_new(&b->loop, err);

    if (e)
        return e;
    prng_seed_system(&b->prng);
    b->arena = arena_create();
    b->pool = calloc(POOL, sizeof(*b->pool));
    ASSERT(b->pool);
    b->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (b->tick_fd < 0)
        return error_set(err, ERR_IO, "cannot make a timer");
    b->tick = event_new(loop_event_base(b->loop), b->tick_fd, EV_READ | EV_PERSIST, on_tick, b);
    ASSERT(b->tick && event_add(b->tick, NULL) == 0);
    b->client_count = b->opts->connections / 2;
    client_init(b);
    b->watchdog = loop_timer_new(b->loop, watch, b);
    return open_links(b, err);
}

static void deinit(struct bench *b)
{
    b->is_given_up = true; /* what ends now says nothing */
    for (size_t i = 0; i < b->link_count; i++)
        channel_free(b->links[i].channel);
    for (size_t i = 0; i < b->link_count; i++)
        rpc_call_unref(b->links[i].items);
    if (b->watchdog)
        loop_timer_free(b->watchdog);
    if (b->tick)
        event_free(b->tick);
    if (b->loop && b->tick_fd >= 0)
        close(b->tick_fd);
    loop_free(b->loop);
    client_deinit(b);
    arena_free(b->arena);
    free(b->pool);
}

enum err bench_run(const struct bench_options *opts, struct bench_result *out, struct error *err)
{
    struct bench *b = calloc(1, sizeof(*b));

    ASSERT(b && opts->connections >= 2 && opts->connections <= BENCH_CONNECTIONS_MAX);
    b->opts = opts;
    b->result = out;
    b->err = err;
    enum err e = init(b, err);
    if (!e) {
        loop_run(b->loop);
        e = b->connect_failure;
    }
    if (!e && out->failed == 0 && b->phase != PHASE_OVER)
        e = error_set(err, ERR_INTERNAL, "the run ended before its end");
    deinit(b);
    free(b);
    return e;
}
