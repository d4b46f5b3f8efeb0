/* main.c - runs seeds, prints what they found and how to run them again. `sim --help` says how. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "sim/shrink.h"
#include "sim/sim.h"

static const char USAGE[] =
    "sim [--seed N | --seeds A-B] [options]\n"
    "  --seed N       one seed\n"
    "  --seeds A-B    all from A to B (1-300 without any)\n"
    "  --trace        says what happens, on stderr\n"
    "  --quiet        a line for failing seeds only\n"
    "  --hits         how often each fault, limit, recovery path and row of the spec was reached; "
    "  --hits=table   the same, a line `hit COUNT NAME` each; a zero is none's fault\n"
    "a zero fails\n"
    "  --hashes       a line `SEED HASH` for each, and nothing else\n"
    "  --time MS      activity ends after so many simulated milliseconds\n"
    "  --sync MS      each flush takes so long\n"
    "  --steps N      orchestrations end after so many actions\n"
    "  --no-faults    nothing goes wrong\n"
    "  --keep A.I,... only these decisions are taken (of actor A the I-th), as --shrink says\n"
    "  --without A,.. these actors take no part, as --shrink says\n"
    "  --shrink       makes a failing seed small: fewer actors, operations and faults, less time\n"
    "  --log          the server's log, on stderr\n"
    "  --keep-going   goes on after a seed that failed\n";

struct args {
    uint64_t first, last;
    bool is_quiet, wants_hits, wants_table, wants_hashes, shrinks, keeps_going;
    struct sim_options sim;
    struct sim_op *kept;
};

static bool parse_kept(struct args *a, const char *text)
{
    size_t n = 0, cap = strlen(text) / 2 + 1;
    a->kept = calloc(cap, sizeof(*a->kept));
    while (*text && n < cap) {
        char *end;
        unsigned long actor = strtoul(text, &end, 10);
        if (*end != '.' || actor >= SIM_ACTORS)
            return false;
        a->kept[n++] = (struct sim_op){(uint16_t)actor, (uint32_t)strtoul(end + 1, &end, 10)};
        if (*end != ',' && *end != 0)
            return false;
        text = *end ? end + 1 : end;
    }
    qsort(a->kept, n, sizeof(*a->kept), sim_compare_ops);
    a->sim.kept = a->kept;
    a->sim.kept_count = n;
    return true;
}

static bool parse_without(struct args *a, const char *text)
{
    while (*text) {
        char *end;
        unsigned long actor = strtoul(text, &end, 10);
        if (actor >= SIM_ACTORS || (*end != ',' && *end != 0))
            return false;
        a->sim.without[actor] = true;
        text = *end ? end + 1 : end;
    }
    return true;
}

static bool parse_seeds(struct args *a, const char *text)
{
    char *end;
    a->first = a->last = strtoull(text, &end, 10);
    if (*end == '-')
        a->last = strtoull(end + 1, &end, 10);
    return *end == 0 && a->first > 0 && a->last >= a->first;
}

enum flag {
    OPT_SEED = 1,
    OPT_SEEDS,
    OPT_TRACE,
    OPT_QUIET,
    OPT_HITS,
    OPT_HASHES,
    OPT_TIME,
    OPT_SYNC,
    OPT_STEPS,
    OPT_NO_FAULTS,
    OPT_KEEP,
    OPT_WITHOUT,
    OPT_SHRINK,
    OPT_LOG,
    OPT_KEEP_GOING,
    OPT_HELP
};

static bool parse(struct args *a, int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"seed", required_argument, NULL, OPT_SEED},
                                            {"seeds", required_argument, NULL, OPT_SEEDS},
                                            {"trace", no_argument, NULL, OPT_TRACE},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"hits", optional_argument, NULL, OPT_HITS},
                                            {"hashes", no_argument, NULL, OPT_HASHES},
                                            {"time", required_argument, NULL, OPT_TIME},
                                            {"sync", required_argument, NULL, OPT_SYNC},
                                            {"steps", required_argument, NULL, OPT_STEPS},
                                            {"no-faults", no_argument, NULL, OPT_NO_FAULTS},
                                            {"keep", required_argument, NULL, OPT_KEEP},
                                            {"without", required_argument, NULL, OPT_WITHOUT},
                                            {"shrink", no_argument, NULL, OPT_SHRINK},
                                            {"log", no_argument, NULL, OPT_LOG},
                                            {"keep-going", no_argument, NULL, OPT_KEEP_GOING},
                                            {"help", no_argument, NULL, OPT_HELP},
                                            {NULL, 0, NULL, 0}};
    *a = (struct args){.first = 1, .last = 300};
    log_setup(LOG_ERROR + 1, LOG_TEXT);
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (c) {
        case OPT_SEED:
        case OPT_SEEDS:
            if (!parse_seeds(a, optarg))
                return false;
            break;
        case OPT_TRACE:
            a->sim.is_traced = true;
            break;
        case OPT_QUIET:
            a->is_quiet = true;
            break;
        case OPT_HITS:
            a->wants_hits = true;
            a->wants_table = optarg && strcmp(optarg, "table") == 0;
            break;
        case OPT_HASHES:
            a->wants_hashes = true;
            break;
        case OPT_TIME:
            a->sim.time_max = strtoll(optarg, NULL, 10) * USEC_PER_MSEC;
            break;
        case OPT_SYNC:
            a->sim.sync_time = strtoll(optarg, NULL, 10) * USEC_PER_MSEC;
            break;
        case OPT_STEPS:
            a->sim.steps = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case OPT_NO_FAULTS:
            a->sim.drop_all_faults = true;
            break;
        case OPT_KEEP:
            if (!parse_kept(a, optarg))
                return false;
            break;
        case OPT_WITHOUT:
            if (!parse_without(a, optarg))
                return false;
            break;
        case OPT_SHRINK:
            a->shrinks = true;
            break;
        case OPT_LOG:
            log_setup(LOG_INFO, LOG_TEXT);
            break;
        case OPT_KEEP_GOING:
            a->keeps_going = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc;
}

static void report(const struct args *a, uint64_t seed, const struct sim_report *r)
{
    if (a->wants_hashes) {
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, r->hash);
    } else if (!a->is_quiet || r->result != SIM_OK) {
        printf("seed %" PRIu64 " %s hash=%016" PRIx64 " commands=%" PRIu64 " actions=%" PRIu64
               " crashes=%" PRIu64 " faults=%" PRIu64 " time=%.1fs%s\n",
               seed, r->result == SIM_OK ? "ok" : "FAILED", r->hash, r->commands, r->actions,
               r->crashes, r->other_faults, (double)r->time / 1e6, r->is_quiet ? " quiet" : "");
    }
    if (r->result == SIM_OK)
        return;
    printf("checker: %s\n%s\nreplay: build/tests/sim/sim --seed %" PRIu64 "%s --trace\n",
           r->checker, r->text, seed, a->sim.drop_all_faults ? " --no-faults" : "");
}

static volatile sig_atomic_t running_low, running_high; /* halves of the seed that runs */

/* An ASSERT of the product or of the simulator. */
static void on_abort(int sig)
{
    char line[64];
    uint64_t seed = (uint64_t)(uint32_t)running_high << 32 | (uint32_t)running_low;
    int n = snprintf(line, sizeof(line), "seed %" PRIu64 " FAILED\nchecker: crash\n", seed);
    IGNORE_RESULT(write(STDOUT_FILENO, line, (size_t)n)); /* there is nothing else to be done */
    signal(sig, SIG_DFL);
    raise(sig);
}

/* What each seed must reach. */
static bool is_too_tame(const struct args *a, const struct sim_report *r)
{
    if (a->sim.time_max || a->sim.drop_all_faults || a->sim.kept)
        return false;
    return r->commands < 1000 || (!r->is_quiet && (r->crashes < 3 || r->other_faults < 20));
}

int main(int argc, char **argv)
{
    struct args a;
    unsigned failed = 0;
    if (!parse(&a, argc, argv)) {
        fputs(USAGE, stderr);
        return 2;
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    if (a.shrinks)
        return shrink(&a.sim, a.first) ? 0 : 1;
    for (uint64_t seed = a.first; seed <= a.last; seed++) {
        struct sim_report r;
        a.sim.seed = seed;
        running_low = (sig_atomic_t)(uint32_t)seed;
        running_high = (sig_atomic_t)(uint32_t)(seed >> 32);
        sim_run(&a.sim, &r);
        if (r.result == SIM_OK && is_too_tame(&a, &r)) {
            r.result = SIM_FAILED;
            (void)snprintf(r.checker, sizeof(r.checker), "tame");
            (void)snprintf(r.text, sizeof(r.text), "the seed did too little");
        }
        report(&a, seed, &r);
        fflush(stdout);
        failed += r.result != SIM_OK;
        if (failed && !a.keeps_going)
            break;
    }
    if (a.wants_table) {
        hits_table();
    } else if (a.wants_hits && !hits_print()) {
        printf("something was never reached\n");
        failed++;
    }
    free(a.kept);
    return failed ? 1 : 0;
}
