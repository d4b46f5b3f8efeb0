/* calls.c - connections, calls, and what is counted of them. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "drive.h"

const struct wire_limits DRIVE_LIMITS = {100, SIZE_MAX, SIZE_MAX};

/* ---- connections -------------------------------------------------------------------------------------- */

struct opening {
    struct drive *drive;
    void (*fn)(struct drive *d);
};

static struct opening opening;

static void connected(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct link *k = arg;
    struct drive *d = k->drive;

    if (!conn) {
        fprintf(stderr, "drive: cannot connect: %s\n", err->msg);
        exit(1);
    }
    if (++d->connected == d->link_count)
        opening.fn(d);
}

void links_open(struct drive *d, void (*fn)(struct drive *d))
{
    struct error err = {0};

    opening = (struct opening){d, fn};
    d->link_count = d->opts.connections;
    d->links = calloc(d->link_count, sizeof(*d->links));
    ASSERT(d->links);
    for (size_t i = 0; i < d->link_count; i++) {
        struct link *k = &d->links[i];
        struct channel_options opts = {.address = bytes_str(d->opts.server),
                                       .user_agent = "perdure-scale",
                                       .connect_timeout = 60 * USEC_PER_SEC};
        *k = (struct link){.drive = d, .index = i};
        if (channel_new(d->loop, &opts, &k->channel, &err)) {
            fprintf(stderr, "drive: %s\n", err.msg);
            exit(1);
        }
        channel_when_ready(k->channel, connected, k);
    }
}

struct link *link_of(struct drive *d, uint64_t n)
{
    return &d->links[n % d->link_count];
}

/* ---- calls -------------------------------------------------------------------------------------------- */

struct pending {
    answered_fn *fn;
    void *arg;
    struct arena *arena;
    struct bytes answer;
};

static void got_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                        struct bytes msg)
{
    struct pending *p = arg;

    arena_free(p->arena);
    p->arena = arena;
    p->answer = msg;
}

static void got_end(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct pending *p = arg;

    p->fn(p->arg, status, message, p->answer);
    arena_free(p->arena);
    rpc_call_unref(call);
    free(p);
}

static void no_connection(void *arg)
{
    struct pending *p = arg;

    p->fn(p->arg, GRPC_UNAVAILABLE, BYTES_LIT("no connection"), BYTES_NONE);
    free(p);
}

struct rpc_call *link_stream(struct link *k, const char *path, const ProtobufCMessage *request,
                             const struct rpc_client_events *ev)
{
    struct rpc_metadata md = {"taskhub", bytes_str(k->drive->opts.hub)};
    struct rpc_conn *conn = channel_conn(k->channel);
    struct rpc_call *call =
        conn ? rpc_conn_call(conn, path, &md, 1, 0, false, ev, loop_now(k->drive->loop)) : NULL;

    if (!call)
        return NULL;
    size_t size = wire_packed_size(request);
    struct rpc_msg *msg = rpc_msg_new(size);
    wire_pack(request, rpc_msg_data(msg), size);
    rpc_call_send(call, msg);
    rpc_call_close_send(call);
    channel_call_started(k->channel);
    return call;
}

void link_call(struct link *k, const char *path, const ProtobufCMessage *request, answered_fn *fn,
               void *arg)
{
    struct pending *p = calloc(1, sizeof(*p));
    struct rpc_client_events ev = {.message = got_message, .finished = got_end, .arg = p};

    ASSERT(p);
    p->fn = fn;
    p->arg = arg;
    if (!link_stream(k, path, request, &ev))
        drive_after(k->drive, 10 * USEC_PER_MSEC, no_connection, p);
}

/* ---- time --------------------------------------------------------------------------------------------- */

struct later {
    struct loop_timer *timer;
    void (*fn)(void *arg);
    void *arg;
};

static void on_later(void *arg)
{
    struct later *l = arg;
    struct later copy = *l;

    loop_timer_free(l->timer);
    free(l);
    copy.fn(copy.arg);
}

void drive_after(struct drive *d, usec_t wait, void (*fn)(void *arg), void *arg)
{
    struct later *l = calloc(1, sizeof(*l));

    ASSERT(l);
    *l = (struct later){loop_timer_new(d->loop, on_later, l), fn, arg};
    loop_timer_set(l->timer, usec_add(drive_now(d), wait));
}

usec_t drive_now(const struct drive *d)
{
    return clock_monotonic(d->clock);
}

void drive_end(struct drive *d)
{
    loop_stop(d->loop);
}

/* ---- figures ------------------------------------------------------------------------------------------ */

void drive_wrong(struct drive *d, const char *fmt, ...)
{
    va_list ap;

    if (d->wrong++ >= 20) /* the first tell enough */
        return;
    va_start(ap, fmt);
    fprintf(stderr, "drive: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
}

bool drive_allows(const struct drive *d, int status)
{
    char text[16];
    size_t n = (size_t)snprintf(text, sizeof(text), "%d", status);

    for (const char *at = d->opts.allow; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0))
        if (strcspn(at, ",") == n && strncmp(at, text, n) == 0)
            return true;
    return false;
}

bool drive_counts(struct drive *d, int status, struct bytes message, const char *what)
{
    ASSERT(status >= 0 && status < CODES);
    d->codes[status]++;
    if (status == GRPC_OK)
        return true;
    if (!drive_allows(d, status))
        drive_wrong(d, "%s: %d %.*s", what, status, BYTES_FMT(message));
    return false;
}

void latency_note(struct latencies *l, usec_t took)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 4096;
        l->us = realloc(l->us, l->cap * sizeof(*l->us));
        ASSERT(l->us);
    }
    l->us[l->count++] = (uint32_t)MIN(took, (usec_t)UINT32_MAX);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double at_part(const struct latencies *l, double part)
{
    return l->count ? l->us[(size_t)(part * (double)(l->count - 1))] / 1000.0 : 0;
}

void latency_print(struct latencies *l, const char *name)
{
    if (l->count)
        qsort(l->us, l->count, sizeof(*l->us), by_value);
    printf("\"%s\":{\"count\":%zu,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f},", name, l->count,
           at_part(l, 0.5), at_part(l, 0.99), at_part(l, 1));
}

void codes_print(const struct drive *d)
{
    const char *comma = "";

    printf("\"codes\":{");
    for (int i = 0; i < CODES; i++) {
        if (d->codes[i] == 0)
            continue;
        printf("%s\"%d\":%" PRIu64, comma, i, d->codes[i]);
        comma = ",";
    }
    printf("},");
}

struct id drive_id(const struct drive *d, uint64_t n)
{
    struct id id;

    snprintf(id.text, sizeof(id.text), "%s%" PRIu64, d->opts.prefix, n);
    return id;
}
