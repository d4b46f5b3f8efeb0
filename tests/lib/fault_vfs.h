/* fault_vfs.h - a SQLite VFS for tests: calls that fail on demand, and power cuts.
 *
 * It wraps the default VFS under the name FAULT_VFS. One set of rules for the whole process,
 * guarded by a mutex. For power cuts it remembers, for each file, what was flushed (xSync) and the
 * writes since; a cut keeps the flushed bytes and any subset of the later writes, torn at 512 bytes.
 * Creating, renaming and deleting files counts as durable at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

#define FAULT_VFS "perdure-fault"

enum fault_op {
    FAULT_READ,
    FAULT_WRITE, /* of a page: a larger write counts as several, and stops where one fails */
    FAULT_GROW,  /* a write beyond the end of the file, as a full disk refuses it */
    FAULT_SYNC,
    FAULT_TRUNCATE,
    FAULT_SIZE,
    FAULT_OPEN,
    FAULT_DELETE,
    FAULT_LOCK, /* of the file or of the log's index */
    FAULT_MAP,  /* the log's index */
    FAULT_OPS
};

void fault_vfs_register(void); /* once or more */
void fault_vfs_reset(void);    /* no rules, counts at 0; forgets files */

/* From now on the `nth` call of `op` (1: the next one) gives the SQLite code `rc`; with `lasting`
 * all later ones too, until fault_vfs_heal(). */
void fault_vfs_fail(enum fault_op op, unsigned nth, int rc, bool lasting);
/* As a file system that became read-only: no write, and files open read-only. */
void fault_vfs_read_only(bool on);
void fault_vfs_heal(void);
unsigned fault_vfs_fired(void); /* calls that failed since the last fault_vfs_fail() */
unsigned fault_vfs_calls(enum fault_op op);
unsigned fault_vfs_whole_writes(void); /* as SQLite made them */

/* Called after each write and sync of a recorded file with the number of the call, outside the mutex. */
typedef void fault_vfs_fn(void *arg, unsigned call);
void fault_vfs_watch(fault_vfs_fn *fn, void *arg);
/* Starts or stops to remember writes (for files opened from now on). */
void fault_vfs_record(bool on);
/* Writes what a power cut now could leave of all files known into the directory `dest`; with p NULL
 * only what was flushed, else also each later write with a chance of one half, or a torn one. */
void fault_vfs_power_cut(const char *dest, struct prng *p);
