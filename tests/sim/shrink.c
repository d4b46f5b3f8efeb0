#include "sim/shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

#define OPS_MAX 200000
#define RUNS_MAX 600   /* each a fraction of a second */
#define SECONDS_MAX 20 /* of one run: then it loops */
#define ACTIONS_GOAL 50

/* What a run in a process of its own tells. */
struct outcome {
    struct sim_report report;
    bool is_over; /* else the process died: checker "crash" */
    size_t count;
    struct sim_op ops[OPS_MAX]; /* decisions that were taken */
};

struct shrinker {
    uint64_t seed;
    struct outcome *last; /* shared with the process that runs */
    /* The smallest run that fails so far. */
    struct sim_options opts;
    struct sim_op *kept;
    size_t kept_count;
    struct sim_report best;
    char checker[64];
    unsigned runs;
};

static void note_op(void *arg, struct sim_op op)
{
    struct outcome *o = arg;
    if (o->count < OPS_MAX)
        o->ops[o->count++] = op;
}

/* In a process of its own: an ASSERT is a finding too. */
static void run(struct shrinker *sh, const struct sim_options *opts)
{
    struct outcome *o = sh->last;
    o->is_over = false;
    o->count = 0;
    memset(&o->report, 0, sizeof(o->report));
    fflush(stdout);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        struct sim_options mine = *opts;
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(2);
        alarm(SECONDS_MAX);
        mine.on_op = note_op;
        mine.on_op_arg = o;
        sim_run(&mine, &o->report);
        o->is_over = true;
        _exit(0);
    }
    IGNORE_RESULT(waitpid(pid, NULL, 0));
    sh->runs++;
    if (!o->is_over) {
        o->report.result = SIM_FAILED;
        (void)snprintf(o->report.checker, sizeof(o->report.checker), "crash");
    }
}

/* Keeps what the last run was made of. */
static void accept(struct shrinker *sh, const struct sim_options *opts)
{
    struct outcome *o = sh->last;
    sh->best = o->report;
    sh->opts = *opts;
    qsort(o->ops, o->count, sizeof(o->ops[0]), sim_compare_ops);
    memcpy(sh->kept, o->ops, o->count * sizeof(o->ops[0]));
    sh->kept_count = o->count;
    sh->opts.kept = sh->kept;
    sh->opts.kept_count = sh->kept_count;
}

static bool tries(struct shrinker *sh, const struct sim_options *opts)
{
    if (sh->runs >= RUNS_MAX)
        return false;
    run(sh, opts);
    if (sh->last->report.result != SIM_FAILED || strcmp(sh->last->report.checker, sh->checker) != 0)
        return false;
    if (sh->last->report.actions > sh->best.actions) /* without something it went on for longer */
        return false;
    accept(sh, opts);
    return true;
}

static void shrink_time(struct shrinker *sh)
{
    for (int share = 2; share <= 16; share *= 2) {
        struct sim_options opts = sh->opts;
        opts.time_max = sh->opts.time_max - sh->opts.time_max / share;
        while (opts.time_max > 0 && tries(sh, &opts))
            opts.time_max = sh->opts.time_max - sh->opts.time_max / share;
    }
}

/* Shorter programs; and flushes that take long, so that calls meet in one batch without other calls around them. */
static void shrink_programs(struct shrinker *sh)
{
    static const usec_t SYNCS[] = {0, 20 * USEC_PER_MSEC, 60 * USEC_PER_MSEC, 100 * USEC_PER_MSEC,
                                   200 * USEC_PER_MSEC};
    static const unsigned STEPS[] = {0, 4, 3, 2, 1};
    for (size_t i = 0; i < ARRAY_LEN(STEPS) * ARRAY_LEN(SYNCS); i++) {
        struct sim_options opts = sh->opts;
        unsigned steps = STEPS[i / ARRAY_LEN(SYNCS)];
        usec_t sync = SYNCS[i % ARRAY_LEN(SYNCS)];
        opts.steps = steps ? steps : opts.steps;
        opts.sync_time = sync ? sync : opts.sync_time;
        if (opts.steps != sh->opts.steps || opts.sync_time != sh->opts.sync_time)
            (void)tries(sh, &opts);
    }
}

static void shrink_actors(struct shrinker *sh)
{
    for (size_t actor = SIM_ACTORS; actor-- > 0;) {
        bool is_worker = actor >= SIM_OP_WORKER && actor < SIM_OP_WORKER + SIM_WORKERS_MAX,
             is_used = is_worker;
        for (size_t i = 0; i < sh->kept_count; i++)
            is_used = is_used || sh->kept[i].actor == actor;
        struct sim_options opts = sh->opts;
        opts.without[actor] = true;
        if (is_used && !sh->opts.without[actor])
            (void)tries(sh, &opts);
    }
}

/* Leaves out `len` decisions from `from` on. */
static bool try_without(struct shrinker *sh, size_t from, size_t len)
{
    struct sim_op *some = calloc(sh->kept_count + 1, sizeof(*some));
    struct sim_options opts = sh->opts;
    ASSERT(some);
    memcpy(some, sh->kept, from * sizeof(*some));
    memcpy(some + from, sh->kept + from + len, (sh->kept_count - from - len) * sizeof(*some));
    opts.kept = some;
    opts.kept_count = sh->kept_count - len;
    bool fails = tries(sh, &opts);
    free(some);
    return fails;
}

static void shrink_ops(struct shrinker *sh)
{
    for (size_t len = sh->kept_count / 2; len > 0; len /= 2)
        for (size_t from = 0; from + len <= sh->kept_count;)
            if (!try_without(sh, from, len))
                from += len;
}

static void print(const struct shrinker *sh)
{
    printf("checker: %s\n%s\nshrunk: actions=%" PRIu64 " decisions=%zu time=%.3fs runs=%u\n",
           sh->checker, sh->best.text, sh->best.actions, sh->kept_count,
           (double)sh->best.time / 1e6, sh->runs);
    printf("replay: build/tests/sim/sim --seed %" PRIu64 " --trace --time %" PRId64, sh->seed,
           (sh->opts.time_max + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
    if (sh->opts.sync_time)
        printf(" --sync %" PRId64, sh->opts.sync_time / USEC_PER_MSEC);
    if (sh->opts.steps)
        printf(" --steps %u", sh->opts.steps);
    printf(" --keep ");
    for (size_t i = 0; i < sh->kept_count; i++)
        printf("%s%u.%u", i ? "," : "", sh->kept[i].actor, sh->kept[i].index);
    const char *sep = " --without ";
    for (size_t i = 0; i < SIM_ACTORS; i++)
        if (sh->opts.without[i]) {
            printf("%s%zu", sep, i);
            sep = ",";
        }
    printf("\n");
}

bool shrink(const struct sim_options *opts, uint64_t seed)
{
    struct shrinker *sh = calloc(1, sizeof(*sh));
    ASSERT(sh);
    sh->seed = seed;
    sh->last =
        mmap(NULL, sizeof(*sh->last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sh->kept = calloc(OPS_MAX, sizeof(*sh->kept));
    ASSERT(sh->last != MAP_FAILED && sh->kept);
    struct sim_options first = *opts;
    first.seed = seed;
    run(sh, &first);
    bool fails = sh->last->report.result == SIM_FAILED;
    if (fails) {
        (void)snprintf(sh->checker, sizeof(sh->checker), "%s", sh->last->report.checker);
        if (sh->last->report.activity > 0)
            first.time_max = (sh->last->report.activity / USEC_PER_MSEC + 1) * USEC_PER_MSEC;
        accept(sh, &first);
        for (uint64_t before = UINT64_MAX; sh->best.actions < before && sh->runs < RUNS_MAX;) {
            before = sh->best.actions;
            shrink_programs(sh);
            shrink_time(sh);
            shrink_actors(sh);
            shrink_ops(sh);
        }
        print(sh);
    } else {
        printf("seed %" PRIu64 " does not fail\n", seed);
    }
    IGNORE_RESULT(munmap(sh->last, sizeof(*sh->last)));
    free(sh->kept);
    free(sh);
    return fails;
}
