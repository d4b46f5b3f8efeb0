/* flushed.h - the database as it is on the medium: what a power cut that keeps nothing unflushed would leave, after recovery.
 *
 * A read-only VFS with one database in it. A page is the last one that a committed transaction of the flushed log has, else that of
 * the flushed database file; the log is followed as it grows, by the rules of its format (header, salts, chained checksums). To
 * SQLite it looks like a database without a log, whose change counter moves whenever something on the medium did, so that one
 * connection can be kept open for a whole run.
 *
 * One thread. Tests: tests/unit/test_sim_disk.c
 */
#pragma once

#include "sim/disk.h"

/* SQLITE_OK, or what sqlite3_vfs_register() says. Shows the disk of the last flushed_show(). */
int flushed_register(const char *vfs_name);
/* `name`: of the database file. */
void flushed_show(struct disk *d, const char *name);
/* False: there is no database on the medium that could be read (none yet, or its first transactions are being written). */
bool flushed_is_there(void);
