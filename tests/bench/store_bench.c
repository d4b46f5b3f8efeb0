/* store_bench.c - CPU of the rows of one-activity orchestrations, flushed and checkpointed.
 *
 * store_bench [ORCHESTRATIONS] [IN_FLIGHT] [PATH] [LIVE]
 *
 * LIVE more stay in the store as a server would leave them, each with an activity that waits for a worker.
 *
 * IN_FLIGHT orchestrations go in step, four group commits for each lot of them: start; first turn;
 * activity result; last turn. That is 1 object and 2 inbox rows inserted, 2 inbox rows deleted, 2
 * history rows, 1 task inserted and deleted, 2 object updates and the counts. A thread checkpoints
 * the log as the server's does. Prints CPU (user and system, all threads) and time for each
 * orchestration, in five parts, so that growth shows.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/prng.h"
#include "store/store.h"

#define EVENTS_1                                                                                   \
    350 /* bytes of the history row of the first turn, and so on: as `hello1` has them */
#define EVENTS_2 300
#define INBOX 180
#define TASK 150

struct bench {
    struct store *st;
    struct settings settings;
    struct prng prng;
    struct store_checkpointer *ckpt;
    atomic_bool stop;
    unsigned checkpoints;
    uint64_t in_flight;
    struct store_object *objects;
    char (*ids)[33];
    uint64_t *tasks;
};

static const uint8_t FILL[512] = {42};

static void must(enum err e, const struct error *err)
{
    if (e == OK)
        return;
    (void)fprintf(stderr, "%s\n", err->msg);
    exit(1);
}
#define MUST(call)                                                                                 \
    do {                                                                                           \
        struct error err;                                                                          \
        must((call), &err);                                                                        \
    } while (0)

static struct bytes fill(size_t len)
{
    return bytes_of(FILL, len);
}

static uint64_t next_key(struct bench *b)
{
    uint64_t key;

    MUST(store_next_key(b->st, 1, &key, &err));
    return key;
}

static void inbox_append(struct bench *b, struct store_object *o)
{
    struct store_inbox m = {
        .object = o->key,
        .seq = o->inbox_next++,
        .type = 1,
        .execution = o->execution,
        .time = clock_wall(clock_system()),
        .event = fill(INBOX),
    };
    MUST(store_inbox_append(b->st, &m, &err));
}

static void history_append(struct bench *b, struct store_object *o, size_t len)
{
    struct store_history h = {
        .execution = o->execution,
        .row = ++o->history_rows,
        .key_base = o->key,
        .events = 3,
        .time = o->updated,
        .frames = fill(len),
    };
    MUST(store_history_append(b->st, &h, &err));
    o->history_bytes += len;
    o->history_events += 3;
}

static void count_move(struct bench *b, int32_t from, int32_t to)
{
    MUST(store_count_add(b->st, 1, 1, from, -1, &err));
    MUST(store_count_add(b->st, 1, 1, to, 1, &err));
}

static void step_start(struct bench *b, uint64_t i)
{
    static const char HEX[] = "0123456789abcdef";
    struct store_object *o = &b->objects[i], found;
    struct strbuf buf = {0};
    usec_t now = clock_wall(clock_system());

    for (int k = 0; k < 32; k++)
        b->ids[i][k] = HEX[prng_below(&b->prng, 16)];
    *o = (struct store_object){
        .key = next_key(b),
        .hub = 1,
        .kind = 1,
        .partition = (uint32_t)(i % 64),
        .id = bytes_of(b->ids[i], 32),
        .name = BYTES_LIT("hello1"),
        .status = 6,
        .base_status = 6,
        .created = now,
        .updated = now,
        .execution_id = bytes_of(b->ids[i], 32),
        .inbox_first = 1,
        .inbox_next = 1,
    };
    o->execution = o->key;
    if (store_object_find(store_reader(b->st), 1, 1, o->id, &found, &buf, NULL) != ERR_NOT_FOUND)
        abort();
    strbuf_deinit(&buf);
    inbox_append(b, o);
    MUST(store_object_insert(b->st, o, &err));
    MUST(store_count_add(b->st, 1, 1, 6, 1, &err));
}

static void step_turn(struct bench *b, uint64_t i, bool last)
{
    struct store_object *o = &b->objects[i];

    o->updated = clock_wall(clock_system());
    MUST(store_inbox_delete(b->st, o->key, o->inbox_first, o->inbox_next - 1, 0, NULL, &err));
    o->inbox_first = o->inbox_next;
    history_append(b, o, last ? EVENTS_2 : EVENTS_1);
    if (last) {
        o->completed = o->updated;
        o->custom_status = BYTES_LIT("\"done\"");
    } else {
        struct store_task t = {
            .group = 2,
            .key = b->tasks[i] = next_key(b),
            .object = o->key,
            .execution = o->execution,
            .ref = 1,
            .time = o->updated,
            .payload = fill(TASK),
        };
        MUST(store_task_insert(b->st, &t, &err));
    }
    count_move(b, o->status, last ? 1 : 0);
    o->status = o->base_status = last ? 1 : 0;
    MUST(store_object_update(b->st, o, &err));
}

static void step_result(struct bench *b, uint64_t i)
{
    bool existed;

    MUST(store_task_delete(b->st, 2, b->tasks[i], &existed, &err));
    if (!existed)
        abort();
    inbox_append(b, &b->objects[i]);
}

static void run_lot(struct bench *b)
{
    for (int step = 0; step < 4; step++) {
        MUST(store_begin(b->st, &err));
        for (uint64_t i = 0; i < b->in_flight; i++) {
            if (step == 0)
                step_start(b, i);
            else if (step == 2)
                step_result(b, i);
            else
                step_turn(b, i, step == 3);
        }
        MUST(store_commit(b->st, &err));
        struct store_stats s;
        store_stats(b->st, &s);
        if (s.wal_bytes > b->settings.wal_bytes)
            MUST(store_log_restart(b->st, USEC_PER_SEC, &err));
    }
}

static void *checkpointer(void *arg)
{
    struct bench *b = arg;
    struct store_stats s;

    while (!atomic_load(&b->stop)) {
        usleep(100000);
        store_stats(b->st, &s);
        if (s.wal_bytes > b->settings.wal_bytes / 4) {
            MUST(store_checkpoint(b->ckpt, &err));
            b->checkpoints++;
        }
    }
    return NULL;
}

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* In lots of its own: started, and the first turn answered. */
static void leave_live(struct bench *b, uint64_t live)
{
    for (uint64_t done = 0; done < live; done += b->in_flight) {
        for (int step = 0; step < 2; step++) {
            MUST(store_begin(b->st, &err));
            for (uint64_t i = 0; i < b->in_flight && done + i < live; i++) {
                if (step == 0)
                    step_start(b, i);
                else
                    step_turn(b, i, false);
            }
            MUST(store_commit(b->st, &err));
        }
    }
}

/* The hub and the groups that the rows name. */
static void name_numbers(struct bench *b)
{
    uint32_t hub = 0, group = 0;
    MUST(store_begin(b->st, &err));
    MUST(store_hub_create(b->st, BYTES_LIT("default"), clock_wall(clock_system()), &hub, &err));
    MUST(store_group_intern(b->st, hub, 1, BYTES_LIT("hello1"), BYTES_NONE, &group, &err));
    MUST(store_group_intern(b->st, hub, 2, BYTES_LIT("step"), BYTES_NONE, &group, &err));
    MUST(store_commit(b->st, &err));
    if (hub != 1 || group != 2)
        abort();
}

int main(int argc, char **argv)
{
    uint64_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct bench b = {.in_flight = argc > 2 ? strtoull(argv[2], NULL, 10) : 64};
    const char *path = argc > 3 ? argv[3] : "store_bench.db";
    uint64_t live = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    char url[4096];
    pthread_t thread;

    if (b.in_flight == 0 || total < b.in_flight * 5) {
        (void)fprintf(stderr, "usage: store_bench [ORCHESTRATIONS] [IN_FLIGHT] [PATH] [LIVE]\n");
        return 2;
    }
    settings_defaults(&b.settings);
    prng_seed_system(&b.prng);
    b.objects = calloc(b.in_flight, sizeof(*b.objects));
    b.ids = calloc(b.in_flight, sizeof(*b.ids));
    b.tasks = calloc(b.in_flight, sizeof(*b.tasks));
    bool memory = bytes_eq(bytes_str(path), BYTES_LIT("memory"));
    (void)snprintf(url, sizeof(url), "%s%s", memory ? "" : "sqlite:", path);
    usec_t opening = clock_monotonic(clock_system());
    MUST(store_open(&(struct store_options){.url = bytes_str(url),
                                            .settings = &b.settings,
                                            .clock = clock_system(),
                                            .prng = &b.prng},
                    &b.st, &err));
    (void)printf("open: %.1f ms\n", (double)(clock_monotonic(clock_system()) - opening) / 1000);
    MUST(store_checkpointer_open(b.st, &b.ckpt, &err));
    if (!memory && pthread_create(&thread, NULL, checkpointer, &b) != 0)
        return 1;
    name_numbers(&b);
    for (int part = 0; part < 5; part++) {
        uint64_t lots = total / 5 / b.in_flight;
        double cpu = cpu_us();
        usec_t start = clock_monotonic(clock_system());
        for (uint64_t i = 0; i < lots; i++)
            run_lot(&b);
        double n = (double)(lots * b.in_flight);
        (void)printf("%9.0f orchestrations: %.1f us CPU, %.1f us each\n", n, (cpu_us() - cpu) / n,
                     (double)(clock_monotonic(clock_system()) - start) / n);
    }
    leave_live(&b, live);
    struct store_stats s;
    struct rusage u;
    store_stats(b.st, &s);
    getrusage(RUSAGE_SELF, &u);
    (void)printf("store %.1f MiB, log %.1f MiB, %u checkpoints, %llu flushes, peak %ld KiB\n",
                 (double)s.store_bytes / 1048576, (double)s.wal_bytes / 1048576, b.checkpoints,
                 (unsigned long long)s.flushes, u.ru_maxrss);
    atomic_store(&b.stop, true);
    if (!memory)
        pthread_join(thread, NULL);
    store_checkpointer_close(b.ckpt);
    store_close(b.st);
    free(b.objects);
    free(b.ids);
    free(b.tasks);
    return 0;
}
