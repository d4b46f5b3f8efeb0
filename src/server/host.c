#include "server/host.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"

/* The inbox of the loop that runs on this thread. */
static _Thread_local struct host_inbox *own_inbox;

static void batch_ended(void *arg)
{
    struct host *h = arg;
    for (size_t i = 0; i < h->loop_count; i++) {
        struct host_outbox *o = &h->out[i];
        if (!o->first)
            continue;
        loop_post_chain(o->loop, o->first, o->last);
        o->first = o->last = NULL;
    }
}

static void round_ended(void *arg)
{
    struct host_inbox *in = arg;
    own_inbox = in;
    if (!in->first)
        return;
    struct command *first = in->first, *last = in->last;
    in->first = in->last = NULL;
    executor_post_chain(in->host->executor, first, last);
    atomic_store_explicit(&in->bytes, 0, memory_order_relaxed); /* they count there now */
}

void host_init(struct host *h, struct executor *x, const struct settings *settings,
               struct auth *auth)
{
    h->auth = auth;
    h->executor = x;
    h->settings = settings;
    atomic_store(&h->is_draining, false);
    atomic_store(&h->disk_free, UINT64_MAX);
    executor_on_batch_end(x, batch_ended, h);
}

void host_add_loop(struct host *h, struct loop *loop)
{
    ASSERT(h->loop_count < HOST_LOOPS_MAX);
    h->out[h->loop_count] = (struct host_outbox){.loop = loop};
    h->in[h->loop_count] = (struct host_inbox){.host = h};
    loop_on_round_end(loop, round_ended, &h->in[h->loop_count]);
    h->loop_count++;
}

static void submit(void *arg, struct command *cmd)
{
    struct host *h = arg;
    struct host_inbox *in = own_inbox;
    cmd->next = NULL;
    if (!in || in->host != h) {
        executor_post(h->executor, cmd);
        return;
    }
    if (in->last)
        in->last->next = cmd;
    else
        in->first = cmd;
    in->last = cmd;
    size_t bytes = atomic_load_explicit(&in->bytes, memory_order_relaxed);
    atomic_store_explicit(&in->bytes, bytes + cmd->bytes, memory_order_relaxed);
}

static void read_only(void *arg, struct command *cmd)
{
    struct host *h = arg;
    if (h->reader)
        reader_post(h->reader, cmd);
    else
        submit(arg, cmd);
}

static void *thread_of(void *arg, const struct rpc_call *call)
{
    (void)arg;
    return ((struct host_connection *)rpc_conn_context(rpc_call_conn(call)))->loop;
}

static void post(void *arg, void *thread, struct loop_task *task)
{
    struct host *h = arg;
    struct host_outbox *o = NULL;
    if (executor_is_current(h->executor))
        for (size_t i = 0; i < h->loop_count; i++)
            if (h->out[i].loop == thread)
                o = &h->out[i];
    if (!o) {
        loop_post(thread, task);
        return;
    }
    task->next = NULL;
    if (o->last)
        o->last->next = task;
    else
        o->first = task;
    o->last = task;
}

static bool is_draining(void *arg)
{
    return atomic_load(&((struct host *)arg)->is_draining);
}

/* Requests that are not stepped yet: the executor's, and those of this round of the loops. */
static size_t waiting_bytes(const struct host *h)
{
    size_t bytes = executor_queued_bytes(h->executor);
    for (size_t i = 0; i < h->loop_count; i++)
        bytes += atomic_load_explicit(&h->in[i].bytes, memory_order_relaxed);
    return bytes;
}

static enum err overload(void *arg, size_t bytes, struct error *err)
{
    struct host *h = arg;
    const struct settings *s = h->settings;
    uint64_t disk = atomic_load_explicit(&h->disk_free, memory_order_relaxed);
    if (disk < s->overload_disk_free)
        return error_set(err, ERR_LIMIT,
                         "the store's disk has %" PRIu64
                         " bytes free, less than overload.disk_free (%" PRIu64
                         "): no new work is taken; free some space",
                         disk, s->overload_disk_free);
    usec_t age = executor_batch_age(h->executor);
    if (s->overload_commit_time && age > (usec_t)s->overload_commit_time)
        return error_set(err, ERR_LIMIT,
                         "the commit now running takes %" PRId64
                         " ms, longer than overload.commit_time: no new work "
                         "is taken; try again with backoff",
                         age / USEC_PER_MSEC);
    size_t waiting = waiting_bytes(h);
    if (waiting > 0 && waiting + bytes > s->overload_queued_bytes)
        return error_set(
            err, ERR_LIMIT,
            "requests of %zu bytes wait in memory, more than overload.queued_bytes: no new work is "
            "taken; try again with backoff",
            waiting + bytes);
    return OK;
}

/* ---- who calls -------------------------------------------------------------------------------------------- */

static struct auth_seat *seat_of(const struct rpc_call *call)
{
    return &((struct host_connection *)rpc_conn_context(rpc_call_conn(call)))->seat;
}

static struct auth_request request_of(const struct rpc_call *call, const struct rpc_method *method)
{
    return (struct auth_request){.path = method->path,
                                 .authorization = rpc_call_header(call, "authorization"),
                                 .hub = rpc_call_header(call, "taskhub")};
}

enum err host_admit(struct host *h, const struct rpc_call *call, const struct rpc_method *method,
                    struct error *err)
{
    struct auth_request req = request_of(call, method);
    return auth_check(h->auth, seat_of(call), &req, err);
}

static enum err may_administer(void *arg, const struct rpc_call *call, struct error *err)
{
    struct host *h = arg;
    struct auth_request req = request_of(call, rpc_call_method(call));
    return auth_check_admin(h->auth, seat_of(call), &req, err);
}

struct dt_host host_for_service(struct host *h)
{
    return (struct dt_host){
        .submit = submit,
        .read = read_only,
        .thread = thread_of,
        .post = post,
        .clock = clock_system(),
        .is_draining = is_draining,
        .overload = overload,
        .may_administer = may_administer,
        .arg = h,
    };
}

void host_connection_opened(void *arg, struct loop *loop, struct rpc_conn *conn)
{
    (void)arg;
    struct host_connection *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->loop = loop;
    rpc_conn_set_context(conn, c);
}

void host_connection_closed(void *arg, struct loop *loop, struct rpc_conn *conn)
{
    (void)arg;
    (void)loop;
    struct host_connection *c = rpc_conn_context(conn);
    rpc_conn_set_context(conn, NULL); /* calls that end now ask for neither thread nor key */
    auth_seat_deinit(&c->seat);
    free(c);
}
