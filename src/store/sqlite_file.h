/* sqlite_file.h - the files round an SQLite store: where it is, whose it is, and PATH.lock.
 *
 * Internal to src/store. The lock is an open-file-description lock on PATH.lock, so a holder that
 * crashed leaves nothing that blocks; the file holds the pid of the last holder as text. The
 * database file itself is never locked by us: people may open it with `sqlite3` meanwhile. It is
 * also never opened by us while a connection to it exists in this process, since closing it would
 * drop SQLite's POSIX locks.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

struct sqlite_file {
    char *path; /* absolute, symbolic links of an existing file followed */
    char *lock_path;
    int lock_fd;  /* -1: not locked */
    bool created; /* the database file did not exist */
};

/* Finds, locks, creates if need be (mode 0600, no bytes) and looks at the header. ERR_STORE_OPEN
 * with reason and remedy; then nothing is held and nothing was left behind or changed. */
MUST_CHECK enum err sqlite_file_open(struct bytes path, struct sqlite_file *f, struct error *err);
/* ERR_STORE_OPEN: there is no such file. */
MUST_CHECK enum err sqlite_file_exists(struct bytes path, struct error *err);
bool sqlite_file_has_log(const struct sqlite_file *f);
/* Gives up the lock and removes PATH.lock; removes a database file that we made and that is still
 * empty. All connections are closed. */
void sqlite_file_close(struct sqlite_file *f);
