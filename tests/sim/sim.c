#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hashmap.h"
#include "sim/client.h"
#include "sim/faults.h"
#include "sim/finish.h"
#include "sim/flushed.h"
#include "sim/net.h"
#include "sim/server.h"
#include "sim/worker.h"

#define COMMANDS_MIN 1000
#define CRASHES_MIN 3
#define FAULTS_MIN 20
#define TIME_MAX (400 * USEC_PER_SEC)

/* ---- for the parts ---------------------------------------------------------------------------------------- */

usec_t sim_wall(const struct sim *s)
{
    return SIM_EPOCH + sim_now(s) + s->wall_offset;
}

void sim_trace(struct sim *s, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    struct bytes text = bytes_of(line, MIN((size_t)n, sizeof(line) - 1));
    s->hash = hash_u64(s->hash ^ (uint64_t)sim_now(s)) + bytes_hash(text);
    if (s->opts.is_traced)
        fprintf(stderr, "%10.6f %s\n", (double)sim_now(s) / 1e6, line);
}

void sim_fail(struct sim *s, const char *checker, const char *fmt, ...)
{
    va_list ap;
    if (s->has_failed)
        return;
    s->has_failed = true;
    (void)snprintf(s->checker, sizeof(s->checker), "%s", checker);
    va_start(ap, fmt);
    (void)vsnprintf(s->failure, sizeof(s->failure), fmt, ap);
    va_end(ap);
    sim_trace(s, "FAILED %s", checker);
    if (s->opts.is_traced)
        fprintf(stderr, "%s\n", s->failure);
}

int sim_compare_ops(const void *a, const void *b)
{
    const struct sim_op *x = a, *y = b;
    return x->actor != y->actor ? (x->actor < y->actor ? -1 : 1)
                                : (x->index > y->index) - (x->index < y->index);
}

bool sim_takes(struct sim *s, uint16_t actor, uint32_t index)
{
    struct sim_op op = {actor, index};
    if (s->opts.without[actor] || (s->opts.kept && !bsearch(&op, s->opts.kept, s->opts.kept_count,
                                                            sizeof(op), sim_compare_ops)))
        return false;
    if (s->opts.on_op)
        s->opts.on_op(s->opts.on_op_arg, op);
    return true;
}

const char *sim_hub(struct sim *s, uint64_t actor)
{
    return s->has_two_hubs && actor % 2 ? "other" : NULL;
}

#define EVENTS_MAX 100000 /* at one time */

bool sim_step(struct sim *s, usec_t until)
{
    usec_t before = sim_now(s);
    bool any = sched_step(&s->sched, until);
    s->events = sim_now(s) == before ? s->events + 1 : 0;
    if (s->events > EVENTS_MAX)
        sim_fail(s, "loop", "%d events and no time has passed", EVENTS_MAX);
    return any;
}

static void found(void *arg, const char *checker, const char *text)
{
    sim_fail(arg, checker, "%s", text);
}

static sqlite3 *flushed_image(void *arg, uint64_t *generation)
{
    struct sim *s = arg;
    *generation = 1;
    return flushed_is_there() ? s->image : NULL;
}

/* ---- what the seed draws ---------------------------------------------------------------------------------------- */

static void draw_settings(struct sim *s)
{
    struct prng *p = &s->draw;
    struct settings *set = &s->settings;
    settings_defaults(set);
    set->cache_objects = draw_range(p, 1, 8);
    set->turn_events = draw_one_in(p, 4) ? 100 : draw_range(p, 1, 5);
    set->ready_group =
        draw_range(p, 6, 14); /* those in flight count: fewer than half must be long ones */
    set->history_chunk_bytes = draw_range(p, 200, 3000);
    set->stream_unsent_bytes = draw_range(p, 200, 6000);
    set->waiters_hub = draw_range(p, 3, 20);
    set->waiters_connection = draw_range(p, 2, 8);
    set->turn_timeout = (uint64_t)(draw_range(p, 5, 20) * USEC_PER_SEC);
    set->activity_timeout = draw_one_in(p, 2) ? 0 : (uint64_t)(draw_range(p, 5, 20) * USEC_PER_SEC);
    set->terminate_grace = (uint64_t)(draw_range(p, 2, 20) * USEC_PER_SEC);
    set->abandon_backoff_max = (uint64_t)(draw_range(p, 1, 8) * USEC_PER_SEC);
    if (draw_one_in(p, 3))
        set->history_max_events = draw_range(p, 12, 60);
    set->request_bytes = draw_range(p, KIB(16), KIB(64));
    set->overload_commit_time = (uint64_t)(draw_range(p, 30, 400) * USEC_PER_MSEC);
    set->overload_disk_free = draw_range(p, 0, 30000);
    set->tokenless_unsettled = draw_range(p, 2, 16);
    struct prng own = sched_stream(s->seed, "redelivery", 0);
    if (draw_one_in(&own, 3)) /* a turn that waited longer needs a new cut */
        set->tokenless_redelivery = (uint64_t)(draw_range(&own, 100, 600) * USEC_PER_MSEC);
    set->wal_bytes = draw_range(p, KIB(64), KIB(512));
    set->keepalive_idle = (uint64_t)(draw_range(p, 2, 10) * USEC_PER_SEC);
    set->keepalive_timeout = (uint64_t)(draw_range(p, 1, 5) * USEC_PER_SEC);
    set->ping_interval = (uint64_t)(draw_range(p, 3, 30) * USEC_PER_SEC);
    set->drain_time = (uint64_t)(draw_range(p, 1, 5) * USEC_PER_SEC);
    s->sync_min = draw_one_in(p, 3) ? 0 : (usec_t)draw_range(p, 100, 2000);
    s->sync_max = s->sync_min + (usec_t)draw_range(p, 500, 30000);
    s->id_count = draw_range(p, 6, 20);
    s->is_quiet = s->seed % 10 == 7;
    s->is_nasty = s->seed % 3 == 0;
    s->has_two_hubs = s->seed % 4 == 1;
    s->client_count = draw_range(p, 3, 6);
    s->worker_count = draw_range(p, 3, 7);
}

/* ---- one run --------------------------------------------------------------------------------------------------------- */

static void open_disk(struct sim *s)
{
    s->disk_prng = sched_stream(s->seed, "disk", 0);
    s->sqlite_prng = sched_stream(s->seed, "sqlite", 0);
    s->sync_prng = sched_stream(s->seed, "sync", 0);
    disk_init(&s->disk, &s->disk_prng, s->seed % 2 ? 512 : 4096);
    s->vfs = (struct vfs){.disk = &s->disk, .random = &s->sqlite_prng};
    (void)snprintf(s->dir, sizeof(s->dir), "%s/perdure-sim-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(s->dir));
    (void)snprintf(s->url, sizeof(s->url), "sqlite:%s/sim.db", s->dir);
    vfs_use(&s->vfs);
    flushed_show(&s->disk, "sim.db");
    int rc = sqlite3_open_v2("flushed.db", &s->image, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                             SIM_VFS_FLUSHED);
    ASSERT(rc == SQLITE_OK);
}

static void close_disk(struct sim *s)
{
    char path[160];
    sqlite3_close_v2(s->image);
    (void)snprintf(path, sizeof(path), "%s/sim.db", s->dir);
    (void)unlink(path);
    (void)rmdir(s->dir);
    disk_deinit(&s->disk);
}

static void set_up(struct sim *s)
{
    sched_init(&s->sched);
    list_init(&s->conns);
    s->draw = sched_stream(s->seed, "settings", 0);
    draw_settings(s);
    open_disk(s);
    s->model = model_new(&(struct model_options){
        .settings = &s->settings, .image = flushed_image, .found = found, .arg = s});
    server_new(s);
    for (unsigned i = 0; i < s->worker_count; i++)
        s->workers[i] = worker_new(s, i);
    for (unsigned i = 0; i < s->client_count; i++)
        s->clients[i] = client_new(s, i);
    s->faults = faults_new(s);
}

static void begin(struct sim *s)
{
    if (!s->is_quiet && draw_one_in(&s->draw, 4)) { /* while the store is made, or a moment later */
        s->vfs.crash_call = 1 + (unsigned)prng_below(&s->draw, 250);
        hit(HIT_CRASH_CALL);
    }
    server_start(s->server);
    for (size_t i = 0; i < s->worker_count; i++)
        if (!s->opts.without[SIM_OP_WORKER + i])
            worker_start(s->workers[i]);
    for (size_t i = 0; i < s->client_count; i++)
        if (!s->opts.without[SIM_OP_CLIENT + i])
            client_start(s->clients[i]);
    faults_start(s->faults);
}

static bool has_seen_enough(const struct sim *s)
{
    if (s->opts.time_max)
        return sim_now(s) >= s->opts.time_max;
    if (sim_now(s) >= TIME_MAX)
        return true;
    return s->commands >= COMMANDS_MIN + COMMANDS_MIN / 20 &&
           (s->is_quiet || s->opts.drop_all_faults ||
            (s->crashes >= CRASHES_MIN && s->other_faults >= FAULTS_MIN));
}

static void tear_down(struct sim *s)
{
    server_free(s->server);
    net_free_all(s);
    for (size_t i = 0; i < s->worker_count; i++)
        worker_free(s->workers[i]);
    for (size_t i = 0; i < s->client_count; i++)
        client_free(s->clients[i]);
    faults_free(s->faults);
    model_free(s->model);
    sched_deinit(&s->sched);
    close_disk(s);
}

static void count_row(void *arg, const char *name, uint64_t count)
{
    (void)arg;
    hits_row(name, count);
}

static void count_hits(struct sim *s)
{
    hit_add(HIT_SECTOR_KEPT, s->disk.kept);
    hit_add(HIT_SECTOR_LOST, s->disk.lost);
    hit_add(HIT_SECTOR_TORN, s->disk.torn);
    hit_add(HIT_SIZE_LOST, s->disk.sizes_lost);
    hit_add(HIT_ENTRY_LOST, s->disk.entries_lost);
    hit_add(HIT_FLUSH_LOST, s->vfs.syncs_lost);
    hit_add(HIT_DISK_FULL, s->vfs.full);
    model_reached(s->model, count_row, NULL);
}

void sim_run(const struct sim_options *opts, struct sim_report *out)
{
    struct sim *s = calloc(1, sizeof(*s));
    ASSERT(s);
    s->opts = *opts;
    s->seed = opts->seed;
    set_up(s);
    begin(s);
    while (!s->has_failed && !has_seen_enough(s))
        (void)sim_step(s, sim_now(s) + USEC_PER_SEC);
    s->activity = sim_now(s);
    if (!s->has_failed)
        sim_finish(s);
    if (s->has_failed && s->opts.is_traced) {
        server_print_work(s->server);
        sim_print_living(s);
    }
    count_hits(s);
    *out = (struct sim_report){
        .result = s->has_failed ? SIM_FAILED : SIM_OK,
        .commands = s->commands,
        .actions = s->actions,
        .crashes = s->crashes,
        .other_faults = s->other_faults,
        .time = sim_now(s),
        .activity = s->activity,
        .is_quiet = s->is_quiet,
        .hash = s->hash,
    };
    memcpy(out->checker, s->checker, sizeof(out->checker));
    memcpy(out->text, s->failure, sizeof(out->text));
    tear_down(s);
    free(s);
}
