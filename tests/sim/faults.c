#include "sim/faults.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/client.h"
#include "sim/net.h"
#include "sim/server.h"
#include "sim/worker.h"

struct kind {
    struct faults *f;
    enum fault what;
    struct prng p;
    struct sched_event next;
    uint32_t count;
};

struct faults {
    struct sim *s;
    struct kind kinds[FAULT_KINDS];
    struct sched_event heal; /* of the disk */
    bool is_broken;
};

/* Mean time between two of a kind. */
static const usec_t PAUSES[FAULT_KINDS] = {
    [FAULT_CRASH_CALL] = 5500 * USEC_PER_MSEC, [FAULT_CRASH_STORE] = 9 * USEC_PER_SEC,
    [FAULT_CRASH_IDLE] = 12 * USEC_PER_SEC,    [FAULT_STOP] = 25 * USEC_PER_SEC,
    [FAULT_IO] = 3600 * USEC_PER_MSEC,         [FAULT_FLUSH] = 4 * USEC_PER_SEC,
    [FAULT_FULL] = 12 * USEC_PER_SEC,          [FAULT_READ_ONLY] = 20 * USEC_PER_SEC,
    [FAULT_SLOW] = 8 * USEC_PER_SEC,           [FAULT_CLOCK] = 5 * USEC_PER_SEC,
    [FAULT_NET] = 1500 * USEC_PER_MSEC,        [FAULT_WORKER] = 4 * USEC_PER_SEC,
    [FAULT_CHECKPOINT] = 2 * USEC_PER_SEC,
};

/* ---- the disk ------------------------------------------------------------------------------------------------ */

static void heal_disk(void *arg)
{
    struct faults *f = arg;
    struct vfs *v = &f->s->vfs;
    unsigned call = v->crash_call, store = v->crash_store;
    vfs_heal(v);
    v->crash_call = call;
    v->crash_store = store;
    f->is_broken = false;
    sim_trace(f->s, "the disk is mended");
}

static void break_disk(struct kind *k, usec_t time)
{
    k->f->is_broken = true;
    sched_set(&k->f->s->sched, &k->f->heal, sim_now(k->f->s) + time);
}

static bool fail_io(struct kind *k)
{
    static const struct {
        enum vfs_op op;
        int rc;
        enum hit hit;
    } OPS[] = {
        {VFS_READ, SQLITE_IOERR_READ, HIT_IO_READ},  {VFS_WRITE, SQLITE_IOERR_WRITE, HIT_IO_WRITE},
        {VFS_LOCK, SQLITE_IOERR_LOCK, HIT_IO_LOCK},  {VFS_MAP, SQLITE_IOERR_SHMMAP, HIT_IO_MAP},
        {VFS_STORE, SQLITE_INTERRUPT, HIT_IO_STORE},
    };
    size_t i = prng_below(&k->p, ARRAY_LEN(OPS));
    bool lasts = draw_one_in(&k->p, 3) && OPS[i].op != VFS_STORE;
    if (k->f->is_broken)
        return false;
    hit(OPS[i].hit);
    vfs_fail(&k->f->s->vfs, OPS[i].op, 1 + (unsigned)prng_below(&k->p, 20), OPS[i].rc, lasts);
    break_disk(k, draw_time(&k->p, 50 * USEC_PER_MSEC, 2 * USEC_PER_SEC));
    return true;
}

static bool fail_flush(struct kind *k)
{
    if (k->f->is_broken)
        return false;
    bool lasts = draw_one_in(&k->p, 5);
    vfs_fail(&k->f->s->vfs, VFS_SYNC, 1 + (unsigned)prng_below(&k->p, 4), SQLITE_IOERR_FSYNC,
             lasts);
    break_disk(k, draw_time(&k->p, 50 * USEC_PER_MSEC, 2 * USEC_PER_SEC));
    return true;
}

static bool fill_disk(struct kind *k)
{
    struct sim *s = k->f->s;
    if (k->f->is_broken)
        return false;
    s->vfs.capacity = disk_bytes(&s->disk) + prng_below(&k->p, 40000);
    break_disk(k, draw_time(&k->p, 200 * USEC_PER_MSEC, 4 * USEC_PER_SEC));
    return true;
}

static bool make_read_only(struct kind *k)
{
    if (k->f->is_broken)
        return false;
    hit(HIT_READ_ONLY);
    k->f->s->vfs.is_read_only = true;
    break_disk(k, draw_time(&k->p, 100 * USEC_PER_MSEC, 2 * USEC_PER_SEC));
    return true;
}

static bool slow_down(struct kind *k)
{
    hit(HIT_SLOW_DISK);
    k->f->s->sync_slow_until =
        sim_now(k->f->s) + draw_time(&k->p, 200 * USEC_PER_MSEC, 3 * USEC_PER_SEC);
    return true;
}

/* ---- processes, clock, network ------------------------------------------------------------------------------------ */

static bool arm_crash(struct kind *k, bool in_store)
{
    struct vfs *v = &k->f->s->vfs;
    if (v->crash_call || v->crash_store || v->is_dead)
        return false;
    unsigned n = 1 + (unsigned)prng_below(&k->p, draw_one_in(&k->p, 3) ? 400 : 40);
    v->crash_leaves_write = draw_one_in(&k->p, 2);
    *(in_store ? &v->crash_store : &v->crash_call) = n;
    hit(in_store ? HIT_CRASH_STORE : HIT_CRASH_CALL);
    return true;
}

static bool step_clock(struct kind *k)
{
    struct sim *s = k->f->s;
    usec_t by = draw_time(&k->p, 10 * USEC_PER_MSEC, 40 * USEC_PER_SEC);
    bool back = draw_one_in(&k->p, 2);
    hit(back ? HIT_CLOCK_BACK : HIT_CLOCK_FORWARD);
    s->wall_offset += back ? -by : by;
    return true;
}

static struct net_conn *draw_conn(struct kind *k, bool *token_less)
{
    struct sim *s = k->f->s;
    size_t n = prng_below(&k->p, s->client_count + s->worker_count);
    *token_less = false;
    if (n < s->client_count)
        return client_conn(s->clients[n]);
    struct worker *w = s->workers[n - s->client_count];
    *token_less = worker_is_token_less(w);
    return worker_conn(w);
}

static bool trouble_net(struct kind *k)
{
    bool token_less;
    enum net_trouble what = (enum net_trouble)prng_below(&k->p, 4);
    usec_t time = draw_time(&k->p, 50 * USEC_PER_MSEC, 20 * USEC_PER_SEC);
    struct net_conn *c = draw_conn(k, &token_less);
    if (!c || !c->client || !c->server)
        return false;
    /* A late answer without a token may settle a later turn: a stated limit (spec 8.2). */
    if (token_less && (what == NET_FROZEN || what == NET_STALLED))
        time = MIN(time, (usec_t)k->f->s->settings.tokenless_redelivery / 4);
    net_trouble(c, what, time);
    return true;
}

static bool strike(struct kind *k)
{
    struct sim *s = k->f->s;
    switch (k->what) {
    case FAULT_CRASH_CALL:
        return arm_crash(k, false);
    case FAULT_CRASH_STORE:
        return arm_crash(k, true);
    case FAULT_CRASH_IDLE:
        server_crash(s->server);
        return true;
    case FAULT_STOP:
        server_stop(s->server);
        return true;
    case FAULT_IO:
        return fail_io(k);
    case FAULT_FLUSH:
        return fail_flush(k);
    case FAULT_FULL:
        return fill_disk(k);
    case FAULT_READ_ONLY:
        return make_read_only(k);
    case FAULT_SLOW:
        return slow_down(k);
    case FAULT_CLOCK:
        return step_clock(k);
    case FAULT_NET:
        return trouble_net(k);
    case FAULT_WORKER: {
        struct worker *w = s->workers[prng_below(&k->p, s->worker_count)];
        worker_die(w, draw_time(&k->p, 100 * USEC_PER_MSEC, 3 * USEC_PER_SEC));
        return true;
    }
    case FAULT_CHECKPOINT:
        server_checkpoint(s->server);
        return false;
    case FAULT_KINDS:
        break;
    }
    return false;
}

/* Its draws are its own, so that one that is left out moves no other. */
static void next_fault(void *arg)
{
    struct kind *k = arg;
    struct sim *s = k->f->s;
    usec_t pause = PAUSES[k->what];
    uint32_t index = k->count++;
    if (s->is_over && k->what != FAULT_CHECKPOINT)
        return;
    struct prng own = sched_stream(s->seed, "fault", ((uint64_t)k->what << 32) + index);
    sched_set(&s->sched, &k->next,
              sim_now(s) + pause / 4 + (usec_t)prng_below(&own, (uint64_t)pause * 3 / 2));
    if (k->what == FAULT_CHECKPOINT) {
        if (!s->is_over || index % 16 == 0)
            strike(k);
        return;
    }
    if (s->opts.drop_all_faults || !sim_takes(s, (uint16_t)(SIM_OP_FAULT + k->what), index))
        return;
    k->p = own;
    sim_trace(s, "fault %d", k->what);
    if (strike(k) && k->what > FAULT_CRASH_IDLE)
        s->other_faults++;
}

void faults_start(struct faults *f)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        struct kind *k = &f->kinds[i];
        if (f->s->is_quiet && i != FAULT_CHECKPOINT)
            continue;
        struct prng p = sched_stream(f->s->seed, "first fault", (uint64_t)i);
        sched_set(&f->s->sched, &k->next,
                  sim_now(f->s) + (usec_t)prng_below(&p, (uint64_t)PAUSES[i]));
    }
}

void faults_end(struct faults *f)
{
    struct sim *s = f->s;
    sched_cancel(&s->sched, &f->heal);
    vfs_heal(&s->vfs);
    f->is_broken = false;
    s->sync_slow_until = 0;
}

struct faults *faults_new(struct sim *s)
{
    struct faults *f = calloc(1, sizeof(*f));
    ASSERT(f);
    f->s = s;
    f->heal = (struct sched_event){.fn = heal_disk, .arg = f};
    for (int i = 0; i < FAULT_KINDS; i++) {
        struct kind *k = &f->kinds[i];
        k->f = f;
        k->what = (enum fault)i;
        k->next = (struct sched_event){.fn = next_fault, .arg = k};
    }
    return f;
}

void faults_free(struct faults *f)
{
    if (!f)
        return;
    for (int i = 0; i < FAULT_KINDS; i++)
        sched_cancel(&f->s->sched, &f->kinds[i].next);
    sched_cancel(&f->s->sched, &f->heal);
    free(f);
}
