/* faults.h - what goes wrong, and when: each kind has a random stream of its own. */
#pragma once

#include "sim/sim.h"

enum fault {
    FAULT_CRASH_CALL,  /* armed: at the n-th call of the VFS */
    FAULT_CRASH_STORE, /* armed: at the n-th call of the store */
    FAULT_CRASH_IDLE,
    FAULT_STOP, /* SIGTERM */
    FAULT_IO,
    FAULT_FLUSH,
    FAULT_FULL,
    FAULT_READ_ONLY,
    FAULT_SLOW,
    FAULT_CLOCK,
    FAULT_NET,
    FAULT_WORKER,
    FAULT_CHECKPOINT, /* not a fault: a step that somebody has to schedule */
    FAULT_KINDS
};

struct faults *faults_new(struct sim *s);
void faults_free(struct faults *f);
void faults_start(struct faults *f);
/* Everything is mended, and stays so. */
void faults_end(struct faults *f);
