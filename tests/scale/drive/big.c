/* big.c - role big: for --duration-ms each connection starts an instance with an input of --bytes, and takes it away again.
 *
 * A start that is refused with a code that --allow names is tried again a little later; what was started is terminated and
 * purged, and no worker is there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "drive.h"

struct sender {
    struct link *link;
    uint64_t number;
    usec_t begun;
};

static struct {
    char *input;
    uint64_t next, running, accepted, purged;
    usec_t begun, took;
    struct latencies start;
} b;

static void sender_next(struct sender *s);

static void sender_again(void *arg)
{
    sender_next(arg);
}

static void purged(void *arg, int status, struct bytes message, struct bytes answer)
{
    struct sender *s = arg;
    struct drive *d = s->link->drive;
    struct arena *a = arena_create();
    PurgeInstancesResponse *resp;

    if (status)
        drive_wrong(d, "PurgeInstances: %d %.*s", status, BYTES_FMT(message));
    else if (wire_unpack(&purge_instances_response__descriptor, a, answer, &DRIVE_LIMITS, &resp,
                         NULL) ||
             resp->deletedinstancecount != 1)
        drive_wrong(d, "nothing was purged");
    else
        b.purged++;
    arena_free(a);
    sender_next(s);
}

static void terminated(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct sender *s = arg;
    struct drive *d = s->link->drive;
    PurgeInstancesRequest req = PURGE_INSTANCES_REQUEST__INIT;
    struct id id = drive_id(d, s->number);

    if (status)
        drive_wrong(d, "TerminateInstance: %d %.*s", status, BYTES_FMT(message));
    req.request_case = PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID;
    req.instanceid = wire_data(bytes_str(id.text));
    link_call(s->link, DT_PATH("PurgeInstances"), &req.base, purged, s);
}

static void started(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct sender *s = arg;
    struct drive *d = s->link->drive;
    TerminateRequest req = TERMINATE_REQUEST__INIT;
    struct id id = drive_id(d, s->number);

    if (!drive_counts(d, status, message, "StartInstance")) {
        drive_after(d, 100 * USEC_PER_MSEC, sender_again, s);
        return;
    }
    b.accepted++;
    latency_note(&b.start, drive_now(d) - s->begun);
    req.instanceid = wire_data(bytes_str(id.text));
    link_call(s->link, DT_PATH("TerminateInstance"), &req.base, terminated, s);
}

static void sender_next(struct sender *s)
{
    struct drive *d = s->link->drive;
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    Google__Protobuf__StringValue input;

    if (drive_now(d) - b.begun >= (usec_t)d->opts.duration_ms * USEC_PER_MSEC) {
        if (--b.running == 0) {
            b.took = drive_now(d) - b.begun;
            drive_end(d);
        }
        return;
    }
    s->number = d->opts.from + b.next++;
    s->begun = drive_now(d);
    struct id id = drive_id(d, s->number);
    req.instanceid = wire_data(bytes_str(id.text));
    req.name = wire_data(bytes_str(d->opts.name));
    req.input = wire_box(&input, bytes_of(b.input, d->opts.bytes));
    link_call(s->link, DT_PATH("StartInstance"), &req.base, started, s);
}

void role_big(struct drive *d)
{
    struct sender *senders = calloc(d->link_count, sizeof(*senders));

    ASSERT(senders);
    b.input = malloc(d->opts.bytes + 1);
    ASSERT(b.input);
    memset(b.input, 'x', d->opts.bytes);
    b.begun = drive_now(d);
    b.running = d->link_count;
    for (size_t i = 0; i < d->link_count; i++) {
        senders[i].link = &d->links[i];
        sender_next(&senders[i]);
    }
}

void big_report(struct drive *d UNUSED)
{
    printf("\"sent\":%" PRIu64 ",\"accepted\":%" PRIu64 ",\"purged\":%" PRIu64 ",\"seconds\":%.3f,",
           b.next, b.accepted, b.purged, (double)b.took / 1e6);
    latency_print(&b.start, "start_ms");
}
