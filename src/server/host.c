#include "server/host.h"

#include <inttypes.h>

void host_init(struct host *h, struct executor *x, const struct settings *settings)
{
    h->executor = x;
    h->settings = settings;
    atomic_store(&h->is_draining, false);
    atomic_store(&h->disk_free, UINT64_MAX);
}

static void submit(void *arg, struct command *cmd)
{
    executor_post(((struct host *)arg)->executor, cmd);
}

static void *thread_of(void *arg, const struct rpc_call *call)
{
    (void)arg;
    return rpc_conn_context(rpc_call_conn(call));
}

static void post(void *arg, void *thread, struct loop_task *task)
{
    (void)arg;
    loop_post(thread, task);
}

static bool is_draining(void *arg)
{
    return atomic_load(&((struct host *)arg)->is_draining);
}

static enum err overload(void *arg, struct error *err)
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
    size_t queued = executor_queued_bytes(h->executor);
    if (queued > s->overload_queued_bytes)
        return error_set(
            err, ERR_LIMIT,
            "requests of %zu bytes wait in memory, more than overload.queued_bytes: no new work is "
            "taken; try again with backoff",
            queued);
    return OK;
}

struct dt_host host_for_service(struct host *h)
{
    return (struct dt_host){
        .submit = submit,
        .thread = thread_of,
        .post = post,
        .is_draining = is_draining,
        .overload = overload,
        .arg = h,
    };
}

void host_connection_opened(void *arg, struct loop *loop, struct rpc_conn *conn)
{
    (void)arg;
    rpc_conn_set_context(conn, loop);
}
