#include "server/executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/log.h"

/* Parts of wal.bytes. A checkpoint begins when the log has grown by CHECKPOINT_SHARE since the last one: a page that changed
 * often meanwhile is copied once. If the log has grown by less than RESTART_SHARE when it is through, the executor copies
 * those few pages itself, so that the log starts anew. */
#define CHECKPOINT_SHARE 2
#define RESTART_SHARE 8
#define RESTART_WAIT (2 * USEC_PER_MSEC) /* longest wait for readers then */
#define LOG_WAIT USEC_PER_SEC            /* and for the log to restart past wal.bytes, each time */
#define PUBLISH_EVERY (50 * USEC_PER_MSEC)
#define PUBLISH_SHARE                                                                              \
    50 /* at most this part of the time goes into it: counts are rows for each hub */
#define LOG_COMPLAINS_EVERY (60 * USEC_PER_SEC)

struct executor {
    struct engine *engine;
    struct store *store;
    const struct settings *settings;
    const struct clock *clock;
    pthread_t thread, checkpoint_thread;
    bool is_started, has_checkpointer;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct command *head, **tail;
    bool is_asleep, is_stopping, is_stopped;
    _Atomic size_t in_flight, queued_bytes;
    size_t taken_bytes; /* of queued_bytes: with the engine; its thread only */
    _Atomic bool is_healthy;
    _Atomic usec_t batch_begun; /* monotonic; 0: none */
    usec_t complained;
    void (*publish)(void *arg, struct engine *e);
    void *publish_arg;
    usec_t published, publish_pause;
    bool is_unpublished; /* something ran since */
    void (*batch_end)(void *arg);
    void *batch_end_arg;

    struct store_checkpointer *checkpointer;
    pthread_mutex_t checkpoint_lock;
    pthread_cond_t checkpoint_wake;
    bool checkpoint_wanted, checkpoint_stops;
    _Atomic bool is_copied;                     /* the checkpoint that was asked for is through */
    uint64_t log_seen, log_asked, log_ask_next; /* log sizes; the executor's thread only */
};

static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

static struct timespec after(const struct executor *x, usec_t wait)
{
    usec_t until = clock_monotonic(x->clock) + wait;
    return (struct timespec){.tv_sec = until / USEC_PER_SEC,
                             .tv_nsec = until % USEC_PER_SEC * 1000};
}

/* ---- checkpoints ------------------------------------------------------------------------------------------ */

static void *checkpoint_run(void *arg)
{
    struct executor *x = arg;
    usec_t quiet_until = 0;
    pthread_mutex_lock(&x->checkpoint_lock);
    while (!x->checkpoint_stops) {
        if (!x->checkpoint_wanted) {
            pthread_cond_wait(&x->checkpoint_wake, &x->checkpoint_lock);
            continue;
        }
        x->checkpoint_wanted = false;
        pthread_mutex_unlock(&x->checkpoint_lock);
        struct error err = {0};
        usec_t now = clock_monotonic(x->clock);
        if (store_checkpoint(x->checkpointer, &err) && now >= quiet_until) {
            /* On a full disk each batch asks for one: a line for each would fill it further. */
            log_error(LOG_WARN, "store: checkpoint failed", &err);
            quiet_until = now + LOG_COMPLAINS_EVERY;
        }
        atomic_store(&x->is_copied, true);
        pthread_mutex_lock(&x->checkpoint_lock);
    }
    pthread_mutex_unlock(&x->checkpoint_lock);
    return NULL;
}

static void checkpoint_ask(struct executor *x)
{
    pthread_mutex_lock(&x->checkpoint_lock);
    x->checkpoint_wanted = true;
    pthread_cond_signal(&x->checkpoint_wake);
    pthread_mutex_unlock(&x->checkpoint_lock);
}

static void restart_log(struct executor *x, usec_t wait)
{
    struct error err = {0};
    if (store_log_restart(x->store, wait, &err))
        log_error(LOG_WARN, "store: the log could not be restarted", &err);
}

static void complain_of_log(struct executor *x, uint64_t log)
{
    usec_t now = clock_monotonic(x->clock);
    if (log <= 2 * x->settings->wal_bytes || now - x->complained <= LOG_COMPLAINS_EVERY)
        return;
    x->complained = now;
    LOG(LOG_WARN, "store: a long read keeps the log from restarting; it grows until that read ends",
        LOG_UINT("wal_bytes", log));
}

static void keep_log_bounded(struct executor *x)
{
    uint64_t log = store_log_bytes(x->store), max = x->settings->wal_bytes;
    if (!x->has_checkpointer)
        return;
    if (log < x->log_seen) /* it has started anew */
        x->log_ask_next = 0;
    x->log_seen = log;
    x->log_ask_next = MAX(x->log_ask_next, max / CHECKPOINT_SHARE);
    if (atomic_exchange(&x->is_copied, false) && log >= x->log_asked &&
        log - x->log_asked < max / RESTART_SHARE) {
        restart_log(x, RESTART_WAIT);
    } else if (log > x->log_ask_next) {
        x->log_asked = log;
        x->log_ask_next = log + max / CHECKPOINT_SHARE;
        checkpoint_ask(x);
    }
    if (store_log_bytes(x->store) <= max)
        return;
    restart_log(x, LOG_WAIT);
    complain_of_log(x, store_log_bytes(x->store));
}

/* ---- the executor ------------------------------------------------------------------------------------------- */

/* Moves the queue to the engine; waits for it when there is nothing to do. False: stop. */
static bool take_queue(struct executor *x, bool more)
{
    pthread_mutex_lock(&x->lock);
    if (!x->head && !more && !x->is_stopping) {
        usec_t idle = engine_idle_time(x->engine);
        if (x->is_unpublished)
            idle = MIN(idle, x->publish_pause);
        if (idle > 0) {
            struct timespec until = after(x, idle);
            x->is_asleep = true;
            pthread_cond_timedwait(&x->wake, &x->lock, &until);
            x->is_asleep = false;
        }
    }
    struct command *all = x->head;
    x->head = NULL;
    x->tail = &x->head;
    bool go_on = !x->is_stopping || all;
    pthread_mutex_unlock(&x->lock);
    while (all) {
        struct command *next = all->next;
        x->taken_bytes += all->bytes;
        engine_submit(x->engine, all);
        all = next;
    }
    return go_on;
}

static void publish(struct executor *x)
{
    usec_t now = clock_monotonic(x->clock);
    x->is_unpublished = x->publish && now - x->published < x->publish_pause;
    if (!x->publish || x->is_unpublished)
        return;
    x->publish(x->publish_arg, x->engine);
    x->published = clock_monotonic(x->clock);
    x->publish_pause = MAX(PUBLISH_EVERY, (x->published - now) * PUBLISH_SHARE);
}

void executor_on_publish(struct executor *x, void (*fn)(void *arg, struct engine *e), void *arg)
{
    x->publish = fn;
    x->publish_arg = arg;
}

static void *executor_run(void *arg)
{
    struct executor *x = arg;
    bool more = true;
    while (take_queue(x, more)) {
        atomic_store(&x->batch_begun, clock_monotonic(x->clock));
        more = engine_run(x->engine);
        /* Before an answer leaves: what its reader asks next is not refused for the batch that is over. */
        atomic_store(&x->batch_begun, 0);
        size_t left = engine_queued_bytes(x->engine); /* a batch does not take all there is */
        atomic_fetch_sub(&x->queued_bytes, x->taken_bytes - left);
        x->taken_bytes = left;
        atomic_store(&x->in_flight, engine_in_flight(x->engine));
        atomic_store(&x->is_healthy, engine_is_healthy(x->engine));
        if (x->batch_end)
            x->batch_end(x->batch_end_arg);
        keep_log_bounded(x);
        publish(x);
    }
    return NULL;
}

enum err executor_new(const struct executor_options *opts, struct executor **out, struct error *err)
{
    struct executor *x = calloc(1, sizeof(*x));
    ASSERT(x);
    x->engine = opts->engine;
    x->store = opts->store;
    x->settings = opts->settings;
    x->clock = opts->clock;
    x->tail = &x->head;
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->checkpoint_lock, NULL);
    cond_init(&x->wake);
    cond_init(&x->checkpoint_wake);
    atomic_store(&x->is_healthy, engine_is_healthy(x->engine));
    enum err rc = store_checkpointer_open(x->store, &x->checkpointer, err);
    if (rc) {
        executor_free(x);
        return rc;
    }
    x->has_checkpointer = x->checkpointer != NULL;
    *out = x;
    return OK;
}

enum err executor_start(struct executor *x, struct error *err)
{
    if (pthread_create(&x->thread, NULL, executor_run, x))
        return error_set(err, ERR_IO, "could not start the executor's thread");
    x->is_started = true;
    if (x->has_checkpointer && pthread_create(&x->checkpoint_thread, NULL, checkpoint_run, x)) {
        x->has_checkpointer = false;
        return error_set(err, ERR_IO, "could not start the checkpoint thread");
    }
    return OK;
}

static void refuse_chain(struct command *first)
{
    for (struct command *cmd = first, *next; cmd; cmd = next) {
        next = cmd->next;
        cmd->status = error_set(command_error(cmd), ERR_UNAVAILABLE, "the server is stopping");
        cmd->done(cmd);
    }
}

void executor_stop(struct executor *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_stopping = true;
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->lock);
    if (x->is_started)
        pthread_join(x->thread, NULL);
    pthread_mutex_lock(&x->checkpoint_lock);
    x->checkpoint_stops = true;
    pthread_cond_signal(&x->checkpoint_wake);
    pthread_mutex_unlock(&x->checkpoint_lock);
    if (x->is_started && x->has_checkpointer)
        pthread_join(x->checkpoint_thread, NULL);
    pthread_mutex_lock(&x->lock);
    x->is_stopped = true;
    struct command *rest = x->head;
    x->head = NULL;
    x->tail = &x->head;
    pthread_mutex_unlock(&x->lock);
    refuse_chain(rest); /* came between the last batch and now */
}

void executor_free(struct executor *x)
{
    if (!x)
        return;
    store_checkpointer_close(x->checkpointer);
    pthread_cond_destroy(&x->wake);
    pthread_cond_destroy(&x->checkpoint_wake);
    pthread_mutex_destroy(&x->lock);
    pthread_mutex_destroy(&x->checkpoint_lock);
    free(x);
}

void executor_post_chain(struct executor *x, struct command *first, struct command *last)
{
    size_t bytes = 0;
    last->next = NULL;
    for (struct command *cmd = first; cmd; cmd = cmd->next)
        bytes += cmd->bytes;
    pthread_mutex_lock(&x->lock);
    bool stopped = x->is_stopped;
    if (!stopped) {
        atomic_fetch_add(&x->queued_bytes, bytes);
        *x->tail = first;
        x->tail = &last->next;
        if (x->is_asleep)
            pthread_cond_signal(&x->wake);
    }
    pthread_mutex_unlock(&x->lock);
    if (stopped)
        refuse_chain(first);
}

void executor_post(struct executor *x, struct command *cmd)
{
    executor_post_chain(x, cmd, cmd);
}

bool executor_is_current(const struct executor *x)
{
    return x->is_started && pthread_equal(pthread_self(), x->thread);
}

void executor_on_batch_end(struct executor *x, void (*fn)(void *arg), void *arg)
{
    x->batch_end = fn;
    x->batch_end_arg = arg;
}

/* ---- calls from other threads --------------------------------------------------------------------------------- */

struct call {
    struct command cmd;
    void (*fn)(struct engine *e, void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
};

static void call_done(struct command *cmd)
{
    struct call *c = CONTAINER_OF(cmd, struct call, cmd);
    pthread_mutex_lock(&c->lock);
    c->is_over = true;
    pthread_cond_signal(&c->over);
    pthread_mutex_unlock(&c->lock);
}

static void call_control(struct engine *e, struct command *cmd)
{
    struct call *c = CONTAINER_OF(cmd, struct call, cmd);
    c->fn(e, c->arg);
    cmd->done(cmd);
}

void executor_call(struct executor *x, void (*fn)(struct engine *e, void *arg), void *arg)
{
    struct call c = {.fn = fn, .arg = arg};
    c.cmd.control = call_control;
    c.cmd.done = call_done;
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.over, NULL);
    executor_post(x, &c.cmd);
    pthread_mutex_lock(&c.lock);
    while (!c.is_over)
        pthread_cond_wait(&c.over, &c.lock);
    pthread_mutex_unlock(&c.lock);
    command_deinit(&c.cmd);
    pthread_cond_destroy(&c.over);
    pthread_mutex_destroy(&c.lock);
}

size_t executor_in_flight(const struct executor *x)
{
    return atomic_load(&x->in_flight);
}

size_t executor_queued_bytes(const struct executor *x)
{
    return atomic_load(&x->queued_bytes);
}

bool executor_is_healthy(const struct executor *x)
{
    return atomic_load(&x->is_healthy);
}

usec_t executor_batch_age(const struct executor *x)
{
    usec_t begun = atomic_load(&x->batch_begun);
    return begun ? MAX(clock_monotonic(x->clock) - begun, 0) : 0;
}
