/* idle.c - role idle: --connections that say Hello and then nothing, but answer the server's pings.
 *
 * Prints {"open":N} when each has had its answer. A line on standard input: each says Hello once more, on the same connection.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "drive.h"

static struct {
    uint64_t answered;
    usec_t begun, opened;
    struct rpc_conn **conns; /* as they were at first */
    struct latencies first, second;
    bool is_second;
} q;

static void said(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct link *k = arg;
    struct drive *d = k->drive;

    drive_counts(d, status, message, "Hello");
    latency_note(q.is_second ? &q.second : &q.first, drive_now(d) - q.begun);
    if (!q.is_second)
        q.conns[k->index] = channel_conn(k->channel);
    if (++q.answered < d->link_count)
        return;
    if (q.is_second)
        drive_end(d);
    else
        printf("{\"open\":%zu,\"seconds\":%.3f}\n", d->link_count,
               (double)(drive_now(d) - q.begun) / 1e6);
}

static void say_hello(struct drive *d)
{
    Google__Protobuf__Empty hello = GOOGLE__PROTOBUF__EMPTY__INIT;

    q.answered = 0;
    q.begun = drive_now(d);
    for (size_t i = 0; i < d->link_count; i++) {
        if (q.is_second && channel_conn(d->links[i].channel) != q.conns[i])
            d->lost++;
        link_call(&d->links[i], DT_PATH("Hello"), &hello.base, said, &d->links[i]);
    }
}

static void on_go(struct drive *d)
{
    q.is_second = true;
    say_hello(d);
}

void role_idle(struct drive *d)
{
    q.conns = calloc(d->link_count, sizeof(struct rpc_conn *));
    ASSERT(q.conns);
    d->go = on_go;
    say_hello(d);
}

void idle_report(struct drive *d UNUSED)
{
    latency_print(&q.first, "first_ms");
    latency_print(&q.second, "second_ms");
}
