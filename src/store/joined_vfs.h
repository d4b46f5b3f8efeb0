/* joined_vfs.h - a SQLite VFS that writes neighbouring bytes with one call.
 *
 * Internal to src/store. SQLite writes each page of the log with two calls, 24 bytes and 4096, and
 * each page of a checkpoint with one; most of them continue the one before. This VFS lies over
 * another one and gathers such writes of the database and of its log, up to JOINED_BYTES a file, in
 * memory. It writes them before anybody could miss them: before the file is read, flushed, cut,
 * measured or locked through this connection, and, for the log, before its index says that there is
 * something new (xShmBarrier, xShmLock of the database's file). So a flush covers exactly the bytes
 * it covered before, other connections and processes see the same bytes at the same moments, and a
 * crash leaves nothing that it could not have left before. What a transaction wrote ahead and then
 * rolled back is not written at all. An error of a gathered write is that of
 * the next call that can fail.
 *
 * One for each open database; a connection's files are used on its thread only.
 * Tests: tests/store/test_joined_vfs.c, and tests/store/test_faults.c runs through it.
 */
#pragma once

#include <sqlite3.h>

/* SQLite's VFS for Unix cannot write 128 KiB or more in one call. */
#define JOINED_BYTES (124 * 1024)

struct joined_vfs;

/* Registers a new VFS over `base` (NULL: SQLite's default one), under a name of its own; NULL: there
 * is no VFS of that name. */
struct joined_vfs *joined_vfs_new(const char *base);
/* All of its files are closed. NULL is fine. */
void joined_vfs_free(struct joined_vfs *v);
const char *joined_vfs_name(const struct joined_vfs *v);
