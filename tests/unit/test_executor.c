/* test_executor.c - the thread that runs the engine: what it tells other threads about the batch, and when. */
#include <pthread.h>
#include <stdatomic.h>

#include "lib/world.h"
#include "server/executor.h"

#include "lib/world_check.h"

#define BYTES_WAITING 1000

struct fixture {
    struct world *world;
    struct executor *executor;
    struct command cmd;
    _Atomic usec_t now; /* each look at the clock takes a second */
    usec_t age_within, age_at_end;
    size_t bytes_within, bytes_at_end;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
};

static usec_t tick(void *arg)
{
    return atomic_fetch_add(&((struct fixture *)arg)->now, USEC_PER_SEC);
}

static void within(struct engine *e, struct command *cmd)
{
    (void)e;
    struct fixture *f = CONTAINER_OF(cmd, struct fixture, cmd);
    f->age_within = executor_batch_age(f->executor);
    f->bytes_within = executor_queued_bytes(f->executor);
    cmd->done(cmd);
}

static void done(struct command *cmd)
{
    (void)cmd; /* the answer leaves with the end of the batch */
}

static void at_end(void *arg)
{
    struct fixture *f = arg;
    pthread_mutex_lock(&f->lock);
    if (!f->is_over && f->bytes_within) {
        f->age_at_end = executor_batch_age(f->executor);
        f->bytes_at_end = executor_queued_bytes(f->executor);
        f->is_over = true;
        pthread_cond_signal(&f->over);
    }
    pthread_mutex_unlock(&f->lock);
}

/* Whoever reads an answer may ask again at once: the batch that is over must not make the server refuse that. */
static void test_a_batch_is_over_before_its_answers_leave(void **state)
{
    (void)state;
    struct fixture f = {.world = world_new(NULL), .now = 1000 * USEC_PER_SEC};
    struct clock clock = {tick, tick, &f};
    struct executor_options opts = {
        .engine = f.world->e,
        .store = f.world->store,
        .settings = &f.world->settings,
        .clock = &clock,
    };
    struct error err = {0};
    pthread_mutex_init(&f.lock, NULL);
    pthread_cond_init(&f.over, NULL);
    assert_int_equal(executor_new(&opts, &f.executor, &err), OK);
    executor_on_batch_end(f.executor, at_end, &f);
    f.cmd = (struct command){.control = within, .done = done, .bytes = BYTES_WAITING};
    assert_int_equal(executor_start(f.executor, &err), OK);
    executor_post(f.executor, &f.cmd);
    pthread_mutex_lock(&f.lock);
    while (!f.is_over)
        pthread_cond_wait(&f.over, &f.lock);
    pthread_mutex_unlock(&f.lock);
    executor_stop(f.executor);
    assert_true(f.age_within > 0);
    assert_int_equal(f.bytes_within, BYTES_WAITING);
    assert_int_equal(f.age_at_end, 0);
    assert_int_equal(f.bytes_at_end, 0);
    command_deinit(&f.cmd);
    executor_free(f.executor);
    pthread_cond_destroy(&f.over);
    pthread_mutex_destroy(&f.lock);
    world_free(f.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_is_over_before_its_answers_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
