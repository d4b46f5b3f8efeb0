/* wait.c - role wait: --count blocked WaitForInstanceCompletion calls, one an instance, spread over the connections.
 *
 * Sends them all (--concurrency more each round trip of a Hello, so that they are known to wait), prints {"waiting":N}, and
 * ends when every one was answered with the output --expect.
 */
#include "base/assert.h"
#include "drive.h"

static struct {
    uint64_t sent, answered, refused;
    usec_t begun, opened, ended;
    struct latencies done; /* since the last line came */
    usec_t go_at;
} v;

static void send_more(struct drive *d);

static void answered(void *arg, int status, struct bytes message, struct bytes answer)
{
    struct drive *d = arg;
    struct arena *a = arena_create();
    GetInstanceResponse *resp;

    if (!drive_counts(d, status, message, "a wait"))
        v.refused++;
    else if (wire_unpack(&get_instance_response__descriptor, a, answer, &DRIVE_LIMITS, &resp,
                         NULL) ||
             !resp->exists ||
             !bytes_eq(wire_string(resp->orchestrationstate->output), bytes_str(d->opts.expect)))
        drive_wrong(d, "a wait has a wrong answer");
    else
        latency_note(&v.done, drive_now(d) - (v.go_at ? v.go_at : v.begun));
    arena_free(a);
    if (++v.answered == d->opts.count) {
        v.ended = drive_now(d);
        drive_end(d);
    }
}

static void round_over(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct drive *d = arg;

    if (status)
        drive_wrong(d, "Hello: %d %.*s", status, BYTES_FMT(message));
    if (v.sent < d->opts.count) {
        send_more(d);
        return;
    }
    v.opened = drive_now(d);
    printf("{\"waiting\":%" PRIu64 ",\"seconds\":%.3f}\n", v.sent,
           (double)(v.opened - v.begun) / 1e6);
}

static void send_more(struct drive *d)
{
    Google__Protobuf__Empty hello = GOOGLE__PROTOBUF__EMPTY__INIT;

    for (uint64_t i = 0; i < d->opts.concurrency && v.sent < d->opts.count; i++, v.sent++) {
        GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
        struct id id = drive_id(d, d->opts.from + v.sent);
        req.instanceid = wire_data(bytes_str(id.text));
        req.getinputsandoutputs = true;
        link_call(link_of(d, v.sent), DT_PATH("WaitForInstanceCompletion"), &req.base, answered, d);
    }
    link_call(link_of(d, v.sent), DT_PATH("Hello"), &hello.base, round_over, d);
}

static void on_go(struct drive *d)
{
    v.go_at = drive_now(d);
}

void role_wait(struct drive *d)
{
    v.begun = drive_now(d);
    d->go = on_go;
    send_more(d);
}

void wait_report(struct drive *d UNUSED)
{
    printf("\"sent\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"refused\":%" PRIu64 ",", v.sent,
           v.answered, v.refused);
    latency_print(&v.done, "answer_ms");
}
