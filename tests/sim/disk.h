/* disk.h - a simulated disk: files in memory, and what a power cut leaves of them.
 *
 * A file has two contents: the one that the process sees, and the one on the medium. Writes change the first and wait; disk_sync() moves them to
 * the second. A power cut keeps, loses or tears each sector of each waiting write, never a byte outside of what was written; it may
 * lose a new size, a new directory entry or a deletion that was not flushed. A flush that fails loses what it should have
 * written (each sector by chance), and the next one knows nothing of it, as Linux does.
 *
 * One thread. Tests: tests/suites/25-sim.sh
 */
#pragma once

#include "base/bytes.h"
#include "base/list.h"
#include "base/prng.h"

struct disk_write {
    struct disk_write *next;
    uint64_t at;
    size_t len;
    bool is_truncate; /* to `at` bytes */
    uint8_t data[];
};

struct disk_content {
    uint8_t *ptr;
    size_t len, cap;
};

struct disk_file {
    struct list_node link;
    char name[128];
    struct disk_content seen, medium;
    struct disk_write *waiting, **end;
    bool is_seen;      /* in the directory as the process sees it */
    bool is_on_medium; /* in the directory on the medium */
    unsigned opens;
    uint64_t changes; /* counts changes of `medium` */
};

struct disk {
    struct list files;
    struct prng *p;
    unsigned sector;  /* 512 or 4096 */
    uint64_t changes; /* counts changes of anything on the medium */
    uint64_t kept, lost, torn, sizes_lost, entries_lost; /* what cuts did, counted */
};

void disk_init(struct disk *d, struct prng *p, unsigned sector);
void disk_deinit(struct disk *d);

struct disk_file *disk_find(struct disk *d,
                            const char *name); /* as the process sees it; NULL: none */
struct disk_file *disk_find_on_medium(struct disk *d, const char *name);
struct disk_file *disk_create(struct disk *d, const char *name);
void disk_delete(struct disk *d, struct disk_file *f);
void disk_sync_entries(struct disk *d); /* creations and deletions */

void disk_write(struct disk *d, struct disk_file *f, const void *data, size_t len, uint64_t at);
void disk_truncate(struct disk *d, struct disk_file *f, uint64_t len);
void disk_sync(struct disk *d, struct disk_file *f);
/* The flush fails: what waited is on the medium in part, and forgotten. */
void disk_sync_lost(struct disk *d, struct disk_file *f);
/* What the system shows is what is on the medium. */
void disk_forget(struct disk_file *f);
size_t disk_bytes(const struct disk *d); /* of all files that the process sees */
bool disk_has_waiting(const struct disk *d);

enum disk_cut {
    DISK_CUT_NONE, /* the process dies, the machine does not: nothing is lost, and what waits goes on waiting */
    DISK_CUT_ALL,  /* nothing that waited is kept */
    DISK_CUT_SOME, /* by chance, sector by sector */
};
/* All files are closed. */
void disk_crash(struct disk *d, enum disk_cut how);
