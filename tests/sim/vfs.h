/* vfs.h - SQLite on the simulated disk: a VFS that fails, takes simulated time and stops at any call.
 *
 * Randomness and clock of SQLite come from here too. One disk and one process at a time (a new one after each crash). A crash is armed for the
 * n-th call of the VFS, or of the store (each statement that starts); from that call on every call fails and nothing more reaches the
 * disk, until vfs_revive(). A second VFS, SIM_VFS_FLUSHED, shows read-only and at any moment the database that a power cut that keeps nothing unflushed
 * would leave behind, after recovery (flushed.c).
 *
 * One thread. Tests: tests/unit/test_sim_disk.c
 */
#pragma once

#include <sqlite3.h>

#include "base/time.h"
#include "sim/disk.h"

#define SIM_VFS "perdure-sim"
#define SIM_VFS_FLUSHED "perdure-sim-flushed"

enum vfs_op {
    VFS_READ,
    VFS_WRITE,
    VFS_GROW, /* a write behind the end of the file */
    VFS_SYNC,
    VFS_TRUNCATE,
    VFS_SIZE,
    VFS_OPEN,
    VFS_DELETE,
    VFS_LOCK,  /* of the file, or of the log's index */
    VFS_MAP,   /* the log's index */
    VFS_STORE, /* a statement starts */
    VFS_OPS
};

struct vfs_rule {
    unsigned nth; /* the nth next call fails; 0: none */
    int rc;
    bool is_lasting; /* and all after it */
    uint64_t fired;
};

struct vfs {
    struct disk *disk;
    struct prng *random; /* SQLite's */
    /* Wall clock, and time that passes in a call. */
    usec_t (*wall)(void *arg);
    void (*takes)(void *arg, usec_t time);
    usec_t (*sync_time)(void *arg); /* drawn for each flush */
    void (*crashed)(void *arg);     /* the armed crash has come */
    void *arg;

    bool is_dead;
    unsigned crash_call, crash_store; /* countdowns; 0: not armed */
    bool crash_leaves_write;          /* a write that is hit by the crash is made, and waits */
    size_t
        capacity; /* writes that would grow all files beyond this find the disk full; 0: no limit */
    bool is_read_only;
    struct vfs_rule rules[VFS_OPS];
    uint64_t calls[VFS_OPS];
    uint64_t syncs_lost, full, refused_read_only;
};

/* Registers both; once. `v` is used from now on, and lives as long as any connection. */
void vfs_use(struct vfs *v);
void vfs_fail(struct vfs *v, enum vfs_op op, unsigned nth, int rc, bool is_lasting);
void vfs_heal(struct vfs *v); /* no rule, no limit, no armed crash */
void vfs_kill(struct vfs *v); /* the crash, now */
/* What the store does with the log in the real file system before it opens it (sqlite_file.c): flush it, and forget what the
 * system shows of it, so that it is read from the disk. SQLITE_OK, or what the flush says. */
int vfs_settle(struct vfs *v, const char *name);
void vfs_revive(struct vfs *v); /* after the process is gone and disk_crash() */
