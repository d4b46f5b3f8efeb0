/* flood.c - role flood: --connections at once, each with one Hello: served, closed by the server, or neither within 20 s. */
#include "base/assert.h"
#include "drive.h"

#define PATIENCE (20 * USEC_PER_SEC)

static struct {
    uint64_t served, refused;
    usec_t begun;
    struct latencies refusals;
} f;

static void answered(void *arg, int status, struct bytes message UNUSED, struct bytes answer UNUSED)
{
    struct drive *d = arg;

    f.served += status == GRPC_OK;
    f.refused += status != GRPC_OK;
    if (status)
        latency_note(&f.refusals, drive_now(d) - f.begun);
    if (f.served + f.refused == d->link_count)
        drive_end(d);
}

static void lost_patience(void *arg)
{
    drive_end(arg);
}

void role_flood(struct drive *d)
{
    Google__Protobuf__Empty hello = GOOGLE__PROTOBUF__EMPTY__INIT;

    f.begun = drive_now(d);
    for (size_t i = 0; i < d->link_count; i++)
        link_call(&d->links[i], DT_PATH("Hello"), &hello.base, answered, d);
    drive_after(d, PATIENCE, lost_patience, d);
}

void flood_report(struct drive *d)
{
    printf("\"served\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"hung\":%" PRIu64 ",", f.served,
           f.refused, d->link_count - f.served - f.refused);
    latency_print(&f.refusals, "refuse_ms");
}
