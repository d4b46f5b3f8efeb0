/* worker.c - role worker: a work-item stream on each connection, answered as program.c says.
 *
 * Holds --orchestrations turns and --activities activities a stream (0: no limit). With --rate it answers at most so many
 * items a second, all streams together; with --delay-ms each that much later; results have --bytes. A stream that
 * ends is opened again. An error answer that --allow names is no fault.
 * Prints a line when all streams are open, and runs until standard input is closed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "drive.h"

struct answer {
    struct list_node node;
    struct link *link;
    struct arena *arena;
    const char *path;
    ProtobufCMessage *message;
    usec_t due;
};

struct stream {
    struct link *link;
    struct rpc_call *call;
    bool is_open;
};

static struct {
    struct drive *drive;
    struct list queue; /* of struct answer */
    uint64_t turns, activities, open;
    size_t item_bytes_max;
    double credit;
    usec_t credited;
    char *result;
    struct latencies late, answered;
} w;

/* ---- answers ------------------------------------------------------------------------------------------ */

struct sent {
    struct drive *drive;
    usec_t begun;
};

static void answered(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct sent *s = arg;

    if (drive_counts(s->drive, status, message, "a completion"))
        latency_note(&w.answered, drive_now(s->drive) - s->begun);
    free(s);
}

static void answer_send(struct answer *a)
{
    struct sent *s = calloc(1, sizeof(*s));

    ASSERT(s);
    *s = (struct sent){w.drive, drive_now(w.drive)};
    link_call(a->link, a->path, a->message, answered, s);
    arena_free(a->arena);
    free(a);
}

static void queue_tick(void *arg)
{
    struct drive *d = arg;
    usec_t now = drive_now(d);

    if (d->opts.rate) {
        w.credit += (double)d->opts.rate * (double)(now - w.credited) / 1e6;
        w.credit = MIN(w.credit, (double)d->opts.rate);
    }
    w.credited = now;
    for (struct list_node *n; (n = list_first(&w.queue));) {
        struct answer *a = LIST_ENTRY(n, struct answer, node);
        if (a->due > now || (d->opts.rate && w.credit < 1))
            break;
        w.credit -= 1;
        list_remove(n);
        answer_send(a);
    }
    drive_after(d, 5 * USEC_PER_MSEC, queue_tick, d);
}

static void answer(struct link *k, struct arena *arena, const char *path, ProtobufCMessage *message)
{
    struct drive *d = k->drive;
    struct answer *a = calloc(1, sizeof(*a));

    ASSERT(a);
    *a = (struct answer){.link = k, .arena = arena, .path = path, .message = message};
    if (d->opts.rate == 0 && d->opts.delay_ms == 0) {
        answer_send(a);
        return;
    }
    a->due = usec_add(drive_now(d), (usec_t)d->opts.delay_ms * USEC_PER_MSEC);
    list_push_back(&w.queue, &a->node);
}

/* ---- items -------------------------------------------------------------------------------------------- */

static void note_timers(struct drive *d, const OrchestratorRequest *req)
{
    usec_t now = clock_wall(d->clock), due;

    for (size_t i = 0; i < req->n_newevents; i++) {
        const HistoryEvent *ev = req->newevents[i];
        if (ev->event_type_case != HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED ||
            !wire_time_read(ev->timerfired->fireat, &due))
            continue;
        if (now < due)
            drive_wrong(d, "a timer fired %" PRId64 " us early", due - now);
        latency_note(&w.late, MAX(now - due, 0));
    }
}

static void decide(struct link *k, struct arena *arena, const WorkItem *item, struct tally *t)
{
    const OrchestratorRequest *req = item->orchestratorrequest;
    OrchestratorResponse *resp = arena_new(arena, OrchestratorResponse);

    for (size_t i = 0; i < req->n_newevents; i++)
        tally_event(t, req->newevents[i]);
    note_timers(k->drive, req);
    orchestrator_response__init(resp);
    program_decide(t, clock_wall(k->drive->clock), arena, resp);
    resp->instanceid = req->instanceid;
    resp->completiontoken = item->completiontoken;
    w.turns++;
    answer(k, arena, DT_PATH("CompleteOrchestratorTask"), &resp->base);
}

static void got_turn(struct link *k, struct arena *arena, const WorkItem *item)
{
    const OrchestratorRequest *req = item->orchestratorrequest;
    struct tally t = {.arena = arena};

    for (size_t i = 0; i < req->n_pastevents; i++)
        tally_event(&t, req->pastevents[i]);
    decide(k, arena, item, &t);
}

static void got_task(struct link *k, struct arena *arena, const WorkItem *item)
{
    const ActivityRequest *req = item->activityrequest;
    ActivityResponse *resp = arena_new(arena, ActivityResponse);
    Google__Protobuf__StringValue *result = arena_new(arena, Google__Protobuf__StringValue);

    activity_response__init(resp);
    resp->instanceid = req->orchestrationinstance->instanceid;
    resp->taskid = req->taskid;
    resp->result =
        w.result ? wire_box(result, bytes_of(w.result, k->drive->opts.bytes)) : req->input;
    resp->completiontoken = item->completiontoken;
    w.activities++;
    answer(k, arena, DT_PATH("CompleteActivityTask"), &resp->base);
}

static void got_item(struct rpc_call *call UNUSED, void *arg, struct arena *arena, struct bytes msg)
{
    struct stream *s = arg;
    WorkItem *item;
    struct error err = {0};

    w.item_bytes_max = MAX(w.item_bytes_max, msg.len);
    if (wire_unpack(&work_item__descriptor, arena, msg, &DRIVE_LIMITS, &item, &err)) {
        drive_wrong(s->link->drive, "a work item does not decode: %s", err.msg);
    } else if (item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST) {
        got_turn(s->link, arena, item);
        return;
    } else if (item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST) {
        got_task(s->link, arena, item);
        return;
    } /* else: a HealthPing */
    arena_free(arena);
}

/* ---- streams ------------------------------------------------------------------------------------------ */

static void stream_open(struct stream *s);

static void stream_ready(void *arg, struct rpc_conn *conn, const struct error *err UNUSED)
{
    struct stream *s = arg;

    if (conn)
        stream_open(s);
    else
        channel_when_ready(s->link->channel, stream_ready, s);
}

static void stream_again(void *arg)
{
    struct stream *s = arg;

    channel_when_ready(s->link->channel, stream_ready, s);
}

static void items_ended(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct stream *s = arg;

    if (status && status != GRPC_UNAVAILABLE && !drive_allows(s->link->drive, status))
        drive_wrong(s->link->drive, "a stream ended: %d %.*s", status, BYTES_FMT(message));
    s->link->drive->lost++;
    w.open -= s->is_open;
    s->is_open = false;
    rpc_call_unref(call);
    s->call = NULL;
    drive_after(s->link->drive, 50 * USEC_PER_MSEC, stream_again, s);
}

static void said_hello(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct stream *s = arg;
    struct drive *d = s->link->drive;
    GetWorkItemsRequest req = GET_WORK_ITEMS_REQUEST__INIT;
    struct rpc_client_events ev = {.message = got_item, .finished = items_ended, .arg = s};

    if (status) {
        if (status != GRPC_UNAVAILABLE && !drive_allows(d, status))
            drive_wrong(d, "Hello: %d %.*s", status, BYTES_FMT(message));
        d->lost++;
        drive_after(d, 50 * USEC_PER_MSEC, stream_again, s);
        return;
    }
    req.maxconcurrentorchestrationworkitems = (int32_t)d->opts.orchestrations;
    req.maxconcurrentactivityworkitems = (int32_t)d->opts.activities;
    s->call = link_stream(s->link, DT_PATH("GetWorkItems"), &req.base, &ev);
    if (!s->call) {
        drive_after(d, 50 * USEC_PER_MSEC, stream_again, s);
        return;
    }
    s->is_open = true;
    if (++w.open == d->link_count)
        printf("{\"open\":%" PRIu64 "}\n", w.open);
}

static void stream_open(struct stream *s)
{
    Google__Protobuf__Empty hello = GOOGLE__PROTOBUF__EMPTY__INIT;

    link_call(s->link, DT_PATH("Hello"), &hello.base, said_hello, s);
}

void role_worker(struct drive *d)
{
    struct stream *streams = calloc(d->link_count, sizeof(*streams));

    ASSERT(streams);
    w.drive = d;
    list_init(&w.queue);
    w.credited = drive_now(d);
    if (d->opts.bytes) {
        w.result = malloc(d->opts.bytes);
        ASSERT(w.result);
        memset(w.result, 'r', d->opts.bytes);
    }
    for (size_t i = 0; i < d->link_count; i++) {
        streams[i].link = &d->links[i];
        stream_open(&streams[i]);
    }
    if (d->opts.rate || d->opts.delay_ms)
        queue_tick(d);
}

void worker_report(struct drive *d UNUSED)
{
    printf("\"turns\":%" PRIu64 ",\"activities\":%" PRIu64 ",\"item_bytes_max\":%zu,", w.turns,
           w.activities, w.item_bytes_max);
    latency_print(&w.answered, "completion_ms");
    latency_print(&w.late, "timer_late_ms");
}
