/* sim.h - one simulated run: the server, its clients and workers, their network, disk and clock, from one seed.
 *
 *   clients, workers  --calls-->  net (byte pipes, rpc/ at both ends)  -->  server (handlers, engine, store)  -->  vfs, disk
 *          ^                                                                    |
 *          +------------------------- faults, clock ------- model <-- what was sent, committed, handed out
 *
 * Everything happens in one thread, on simulated time (sched.h). Internal to tests/sim. How it fits together: docs/testing.md.
 */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "durabletask.pb-c.h"
#include "rpc/rpc.h"
#include "sim/hits.h"
#include "sim/model/model.h"
#include "sim/sched.h"
#include "sim/vfs.h"

#define SIM_CLIENTS_MAX 8
#define SIM_WORKERS_MAX 8
#define SIM_EPOCH (INT64_C(1800000000) * USEC_PER_SEC)

struct server;
struct net_conn;
struct call;
struct client;
struct worker;
struct faults;

/* One decision of an actor or of the faults; leaving it out changes no other one. */
struct sim_op {
    uint16_t actor; /* SIM_OP_CLIENT + n, SIM_OP_WORKER + n, SIM_OP_FAULT + kind */
    uint32_t index;
};
enum { SIM_OP_CLIENT = 0, SIM_OP_WORKER = 32, SIM_OP_FAULT = 64, SIM_ACTORS = 96 };

struct sim_options {
    uint64_t seed;
    bool is_traced;
    usec_t time_max;           /* of activity; 0: the seed's */
    const struct sim_op *kept; /* sorted: only these decisions are taken; NULL: all */
    size_t kept_count;
    bool without[SIM_ACTORS]; /* these take no part */
    bool drop_all_faults;
    unsigned steps;   /* of each orchestration's program; 0: as usual */
    usec_t sync_time; /* of each flush: a longer one makes larger batches; 0: the seed's */
    void (*on_op)(void *arg, struct sim_op op); /* each decision that is taken; may be NULL */
    void *on_op_arg;
};

struct sim {
    struct sim_options opts;
    uint64_t seed;
    bool is_quiet; /* a seed without faults */
    bool is_nasty; /* pipes that split and stall */
    bool has_two_hubs;
    bool is_over; /* faults have stopped */
    struct sched sched;
    usec_t activity;
    uint64_t events;    /* that ran at this very time: too many are a loop */
    usec_t wall_offset; /* wall clock - simulated time */
    usec_t wall_high;
    struct settings settings;
    struct prng draw; /* of the seed's own settings */

    struct prng disk_prng, sqlite_prng, sync_prng;
    struct disk disk;
    struct vfs vfs;
    usec_t sync_min, sync_max, sync_slow_until;
    char dir[96], url[128];
    sqlite3 *image;
    uint64_t image_generation;
    struct model *model;

    struct server *server;
    struct list conns; /* struct net_conn */
    uint64_t next_conn;
    struct call **calls; /* by id - 1 */
    size_t call_count, call_cap;
    uint64_t commands; /* calls that reached the engine */
    uint64_t actions;  /* of clients and workers */
    uint64_t crashes, other_faults;

    struct client *clients[SIM_CLIENTS_MAX];
    size_t client_count;
    struct worker *workers[SIM_WORKERS_MAX];
    size_t worker_count;
    struct faults *faults;
    size_t id_count; /* instance ids that clients use: i0 .. */

    uint64_t batches[64]; /* hashes of the last turns that went to workers without tokens */
    uint64_t batch_count;

    uint64_t hash;
    bool has_failed;
    char checker[64];
    char failure[4096];
};

enum sim_result { SIM_OK, SIM_FAILED };

/* One run. What went wrong is in *checker and *text (until the next run). */
struct sim_report {
    enum sim_result result;
    uint64_t hash, commands, actions, crashes, other_faults;
    usec_t time, activity; /* of the run, and until the faults stopped */
    bool is_quiet;
    char checker[64];
    char text[4096];
};
void sim_run(const struct sim_options *opts, struct sim_report *out);

/* ---- for the parts --------------------------------------------------------------------------------------- */

static inline usec_t sim_now(const struct sim *s)
{
    return s->sched.now;
}
usec_t sim_wall(const struct sim *s); /* of the machine, now */
void sim_trace(struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The run has failed: it ends with the event that is running. The first one counts. */
void sim_fail(struct sim *s, const char *checker, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* One event, not later than `until`. False: there is none. */
bool sim_step(struct sim *s, usec_t until);
/* Whether an actor's next decision is to be taken (the shrinker leaves some out). */
bool sim_takes(struct sim *s, uint16_t actor, uint32_t index);
int sim_compare_ops(const void *a, const void *b);
const char *sim_hub(struct sim *s, uint64_t actor); /* NULL: the header is not sent */
