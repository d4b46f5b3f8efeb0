/* raise.c - role raise: --count events to the instance --prefix0, numbered from --from, in order on one connection.
 *
 * --concurrency calls are under way at a time.
 */
#include "base/assert.h"
#include "drive.h"

#define HELD 65536 /* begin times of calls under way */

static struct {
    uint64_t sent, answered;
    usec_t begun, took;
    struct latencies took_each;
    usec_t begins[HELD];
} r;

static void raise_more(struct drive *d);

static void answered(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct drive *d = arg;
    usec_t now = drive_now(d);

    if (drive_counts(d, status, message, "RaiseEvent"))
        latency_note(&r.took_each, now - r.begins[r.answered % HELD]); /* answers come in order */
    if (++r.answered == d->opts.count) {
        r.took = now - r.begun;
        drive_end(d);
        return;
    }
    raise_more(d);
}

static void raise_more(struct drive *d)
{
    while (r.sent < d->opts.count && r.sent - r.answered < MIN(d->opts.concurrency, HELD)) {
        RaiseEventRequest req = RAISE_EVENT_REQUEST__INIT;
        Google__Protobuf__StringValue input;
        struct id id = drive_id(d, 0);
        char text[32];
        snprintf(text, sizeof(text), "%" PRIu64, d->opts.from + r.sent);
        req.instanceid = wire_data(bytes_str(id.text));
        req.name = wire_data(BYTES_LIT("e"));
        req.input = wire_box(&input, bytes_str(text));
        r.begins[r.sent++ % HELD] = drive_now(d);
        link_call(&d->links[0], DT_PATH("RaiseEvent"), &req.base, answered, d);
    }
}

void role_raise(struct drive *d)
{
    r.begun = drive_now(d);
    raise_more(d);
}

void raise_report(struct drive *d UNUSED)
{
    printf("\"raised\":%" PRIu64 ",\"seconds\":%.3f,", r.answered, (double)r.took / 1e6);
    latency_print(&r.took_each, "raise_ms");
}
