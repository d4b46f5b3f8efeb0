/* store.h - the durable store: rows of objects, histories, inboxes, tasks, timers.
 *
 * One interface for every backend: SQLite (also :memory:) now, PostgreSQL later. Statements are
 * written once, with `$1` parameters and `INSERT ... ON CONFLICT`; only DDL and driver differ. The
 * store knows no protocol: names, ids and payloads are bytes, statuses and kinds are numbers that
 * an object kind defines.
 *
 * struct store is the writer: one thread. Everything between store_begin() and store_commit() is
 * one transaction, durable (synchronous=FULL) when store_commit() returns OK. struct store_reader
 * is a read-only view: the writer's own (sees what the open transaction wrote), or a connection of
 * its own for another thread.
 *
 * Ids, names, versions, execution ids, custom statuses and tags are text: UTF-8 that the front end
 * has checked (PostgreSQL will refuse a NUL in them; SQLite does not). The rest is bytes. Keys and
 * other unsigned numbers must fit into 63 bits (ERR_INTERNAL); as bounds of a read they may be
 * anything.
 *
 * What is read in an order comes in it: rows that do not are damage (ERR_CORRUPT behind the last good one).
 *
 * Views in rows given to callbacks are borrowed for the call. A callback may read other tables with
 * the same reader, but not call the function that calls it (ERR_INTERNAL), and must not write.
 *
 * Errors, everywhere: ERR_UNAVAILABLE: the store cannot do it now (disk full, I/O error, read-only,
 * busy), the transaction must be rolled back and the store reopened: until store_reopen() works,
 * the writer and its own reader answer nothing else (readers of other threads go on); ERR_CORRUPT:
 * stored bytes are damaged (this call only); ERR_INTERNAL: a bug. ERR_NOT_FOUND only where a
 * function says so. Outputs are set on OK only.
 *
 * Tests: tests/store/ (test_conformance*.c on every backend)
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/prng.h"
#include "base/strbuf.h"
#include "base/time.h"

struct store;
struct store_reader;

struct store_options {
    struct bytes url; /* `sqlite:PATH` or `memory` */
    const struct settings *settings;
    const struct clock *clock;
    struct prng *prng;   /* keys of a new store; borrowed */
    const char *vfs;     /* SQLite VFS name of the tests; NULL: the default */
    uint32_t partitions; /* of a store that is created; 0: STORE_PARTITIONS_DEFAULT */
    /* A stopped store, under its lock: nothing is made, migrated or written; only store_reader() and what takes one. Then
     * ERR_STORE_OPEN also for a file that is not there or has another schema. */
    bool read_only;
};

#define STORE_PARTITIONS_DEFAULT 64
#define STORE_SECRET_LEN 32

struct store_info {
    uint32_t schema;                  /* migration number */
    uint32_t partitions;              /* fixed when the store was made */
    uint8_t secret[STORE_SECRET_LEN]; /* key of completion tokens, fixed likewise */
    usec_t created;
};

/* Opens or creates, takes PATH.lock (holding pid), runs missing migrations. Reads header and schema
 * only, however large the store. ERR_STORE_OPEN: locked by another process (pid named), newer
 * schema, not a store of ours, cannot be opened; the message names file, reason and remedy.
 * ERR_INVALID: the URL or the number of partitions is no good. */
MUST_CHECK enum err store_open(const struct store_options *opts, struct store **out,
                               struct error *err);
/* Rolls back; NULL is fine. Close its readers and checkpointers first. */
void store_close(struct store *st);
/* After ERR_UNAVAILABLE: rolls back, drops the connections, opens them again and resets the log,
 * keeping the lock. */
MUST_CHECK enum err store_reopen(struct store *st, struct error *err);
const struct store_info *store_info(const struct store *st);

/* ---- transactions ---------------------------------------------------------------------------- */

MUST_CHECK enum err store_begin(struct store *st, struct error *err);
/* On an error nothing was committed as far as one can know, and the transaction is over:
 * store_reopen(). ERR_CORRUPT and not failed: try the same transaction once more. */
MUST_CHECK enum err store_commit(struct store *st, struct error *err);
void store_rollback(struct store *st); /* harmless without a transaction */
/* Until store_read_end() what is read through the writer's own reader is of one state: the first read begins a transaction.
 * Not within one, and no store_begin() before the end. */
void store_read_begin(struct store *st);
void store_read_end(struct store *st);
/* A call answered ERR_UNAVAILABLE since it was opened: every other one will, until store_reopen(). */
bool store_is_failed(const struct store *st);
/* What it answered then; only while the store is failed. */
const struct error *store_failure(const struct store *st);
/* A read or write of the open transaction met damage (ERR_CORRUPT): SQLite then refuses to write and to commit, also behind a
 * savepoint. Only a rollback is left, and to try the rest without what met it. */
bool store_is_tainted(const struct store *st);
/* Since store_begin(); a commit without any does not flush. */
bool store_has_writes(const struct store *st);
/* One level: a command whose failure must undo only itself. */
MUST_CHECK enum err store_savepoint(struct store *st, struct error *err);
MUST_CHECK enum err store_savepoint_release(struct store *st, struct error *err);
/* Back to it, and forgets it. */
MUST_CHECK enum err store_savepoint_undo(struct store *st, struct error *err);

/* A number that is larger than all before, in this store's life; reserved in blocks inside the
 * transaction (gaps happen). A rolled-back transaction does not give them back; those that no
 * committed transaction got may be given out again after a restart. */
MUST_CHECK enum err store_next_key(struct store *st, uint64_t count, uint64_t *first,
                                   struct error *err);

/* ---- readers --------------------------------------------------------------------------------- */

struct store_reader *store_reader(struct store *st); /* the writer's own; lives as long */
/* A connection of its own for one other thread at a time. ERR_UNIMPLEMENTED: this backend has none
 * (`memory`): read through the writer's thread instead. */
MUST_CHECK enum err store_reader_open(struct store *st, struct store_reader **out,
                                      struct error *err);
void store_reader_close(struct store_reader *r);
/* Several reads that must agree; short: it pins the log. Not for the writer's own reader. */
MUST_CHECK enum err store_reader_begin(struct store_reader *r, struct error *err);
void store_reader_end(struct store_reader *r);

/* ---- hubs and groups ------------------------------------------------------------------------- */

/* ERR_NOT_FOUND. Names are stored and compared as given (the front end folds case). */
MUST_CHECK enum err store_hub_find(struct store_reader *r, struct bytes name, uint32_t *hub,
                                   struct error *err);
/* ERR_EXISTS: the name is taken. */
MUST_CHECK enum err store_hub_create(struct store *st, struct bytes name, usec_t now, uint32_t *hub,
                                     struct error *err);
typedef void store_hub_fn(void *arg, uint32_t hub, struct bytes name);
MUST_CHECK enum err store_hub_list(struct store_reader *r, store_hub_fn *fn, void *arg,
                                   struct error *err);

/* A group names a sort of work: what filters look at. `version` none and empty are one group. */
struct store_group {
    uint32_t group;
    uint32_t hub;
    uint8_t kind; /* WORK_TURN, WORK_TASK, ... (engine) */
    struct bytes name, version;
};
MUST_CHECK enum err store_group_intern(struct store *st, uint32_t hub, uint8_t kind,
                                       struct bytes name, struct bytes version, uint32_t *group,
                                       struct error *err);
typedef void store_group_fn(void *arg, const struct store_group *g);
MUST_CHECK enum err store_group_list(struct store_reader *r, store_group_fn *fn, void *arg,
                                     struct error *err);

/* ---- objects --------------------------------------------------------------------------------- */

struct store_object {
    uint64_t key; /* growing; fresh for each object made or replaced */
    uint32_t hub;
    uint8_t kind;               /* OBJECT_ORCHESTRATION, ... (engine) */
    uint32_t partition;         /* hash(hub, id) mod partitions */
    struct bytes id;            /* unique within (hub, kind) */
    struct bytes name, version; /* version none: absent */
    int32_t status;             /* the kind's */
    int32_t base_status;        /* the one remembered under a suspension; else equal to status */
    uint32_t flags;             /* the kind's */
    usec_t created, updated, completed, scheduled; /* wall clock; 0: not set */
    uint64_t execution; /* growing key of the current execution: owner of history, tasks, timers */
    struct bytes execution_id;
    uint64_t history_rows, history_events, history_bytes; /* of this execution */
    usec_t last_started; /* timestamp of the last orchestratorStarted */
    /* Seq for the next arrival; arrivals grow, front insertions shrink from inbox_first. */
    int64_t inbox_next;
    int64_t inbox_first; /* lowest seq that may be there */
    /* The stored cut of a ready turn (spec 8.2): last seq of it; 0 with cut_time 0: none. */
    int64_t cut_seq;
    usec_t cut_time;
    struct bytes custom_status; /* none: absent */
    struct bytes tags;          /* JSON object text; none: no tags */
    struct bytes trace;         /* encoded, the kind's */
    struct bytes parent_id;     /* none: no parent */
    struct bytes parent;        /* encoded link, the kind's */
};

/* ERR_NOT_FOUND. The row's views live in `buf` until its next use. */
MUST_CHECK enum err store_object_find(struct store_reader *r, uint32_t hub, uint8_t kind,
                                      struct bytes id, struct store_object *out, struct strbuf *buf,
                                      struct error *err);
MUST_CHECK enum err store_object_get(struct store_reader *r, uint64_t key, struct store_object *out,
                                     struct strbuf *buf, struct error *err);
/* Objects of a hub and kind in the order of (created, id), or of (completed, id) those that have ended: behind the place given, with a
 * time below `to`, at most `max` rows, of which damaged ones are passed over. */
struct store_place {
    usec_t time;
    struct bytes id; /* "": before all of that time */
};
typedef bool store_object_fn(void *arg, const struct store_object *o);
MUST_CHECK enum err store_object_list(struct store_reader *r, uint32_t hub, uint8_t kind,
                                      bool by_completed, const struct store_place *after, usec_t to,
                                      uint32_t max, store_object_fn *fn, void *arg,
                                      struct error *err);
MUST_CHECK enum err store_object_insert(struct store *st, const struct store_object *o,
                                        struct error *err);
/* All columns but key, hub, kind, partition, id, created. ERR_NOT_FOUND: there is no such row any
 * more (somebody deleted it by hand). */
MUST_CHECK enum err store_object_update(struct store *st, const struct store_object *o,
                                        struct error *err);
MUST_CHECK enum err store_object_delete(struct store *st, uint64_t key, struct error *err);
/* Adds to the number of objects by status, kept by the same transactions (never COUNT(*)). */
MUST_CHECK enum err store_count_add(struct store *st, uint32_t hub, uint8_t kind, int32_t status,
                                    int64_t delta, struct error *err);
typedef void store_count_fn(void *arg, uint32_t hub, uint8_t kind, int32_t status, int64_t count);
MUST_CHECK enum err store_count_list(struct store_reader *r, store_count_fn *fn, void *arg,
                                     struct error *err);

/* ---- history: one row a turn ----------------------------------------------------------------- */

struct store_history {
    uint64_t execution;
    uint64_t row;      /* 1, 2, ... without gaps */
    uint64_t key_base; /* keys of what this turn scheduled are key_base + ordinal (engine) */
    uint32_t events;
    usec_t time;
    struct bytes frames; /* events framed as the kind's protobuf field, ready to be sent */
};
MUST_CHECK enum err store_history_append(struct store *st, const struct store_history *h,
                                         struct error *err);
/* A callback that returns false ends the walk with OK. */
typedef bool store_history_fn(void *arg, const struct store_history *h);
/* Rows from `from_row` on, in order, until about `bytes_max` were given (at least one row). */
MUST_CHECK enum err store_history_read(struct store_reader *r, uint64_t execution,
                                       uint64_t from_row, size_t bytes_max, store_history_fn *fn,
                                       void *arg, struct error *err);
/* At most `rows_max` rows, any; *deleted < rows_max: nothing is left. */
MUST_CHECK enum err store_history_delete(struct store *st, uint64_t execution, uint32_t rows_max,
                                         uint32_t *deleted, struct error *err);

/* ---- inbox ----------------------------------------------------------------------------------- */

struct store_inbox {
    uint64_t object;
    int64_t seq;        /* order within the object */
    int32_t type;       /* the kind's event type */
    uint64_t execution; /* the execution it is meant for; 0: whichever is current */
    int64_t ref;        /* the kind's (task id, timer id) */
    usec_t time;        /* when it arrived */
    /* != 0: this arrival made the turn ready, at that time: the stored cut is this row. */
    usec_t ready;
    struct bytes event; /* encoded, unframed */
};
MUST_CHECK enum err store_inbox_append(struct store *st, const struct store_inbox *m,
                                       struct error *err);
typedef bool store_inbox_fn(void *arg, const struct store_inbox *m);
/* From `from_seq` on, in order, up to rows_max rows and about bytes_max bytes (at least one row).
 * */
MUST_CHECK enum err store_inbox_read(struct store_reader *r, uint64_t object, int64_t from_seq,
                                     uint32_t rows_max, size_t bytes_max, store_inbox_fn *fn,
                                     void *arg, struct error *err);
/* from_seq..to_seq inclusive, at most rows_max (0: no limit); *deleted (may be NULL). */
MUST_CHECK enum err store_inbox_delete(struct store *st, uint64_t object, int64_t from_seq,
                                       int64_t to_seq, uint32_t rows_max, uint32_t *deleted,
                                       struct error *err);
/* The lowest and highest seq of an object's inbox; *any = false (and both 0) when it is empty. Two
 * seeks. */
MUST_CHECK enum err store_inbox_bounds(struct store_reader *r, uint64_t object, bool *any,
                                       int64_t *first, int64_t *last, struct error *err);
/* Objects with something in the inbox, keys > after, ascending, at most `max`: a skip scan, not a
 * scan of the rows. */
typedef void store_key_fn(void *arg, uint64_t key);
MUST_CHECK enum err store_inbox_objects(struct store_reader *r, uint64_t after, uint32_t max,
                                        store_key_fn *fn, void *arg, struct error *err);

/* ---- tasks: scheduled work that waits for a result ------------------------------------------- */

struct store_task {
    uint32_t group;
    uint64_t key; /* unique, growing: oldest first within the group */
    uint64_t object;
    uint64_t execution;
    int64_t ref;          /* the kind's (task id) */
    usec_t time;          /* when it was scheduled */
    struct bytes payload; /* encoded work item body */
};
MUST_CHECK enum err store_task_insert(struct store *st, const struct store_task *t,
                                      struct error *err);
/* ERR_NOT_FOUND. */
MUST_CHECK enum err store_task_get(struct store_reader *r, uint32_t group, uint64_t key,
                                   struct store_task *out, struct strbuf *buf, struct error *err);
MUST_CHECK enum err store_task_delete(struct store *st, uint32_t group, uint64_t key, bool *existed,
                                      struct error *err);
typedef bool store_task_fn(void *arg, const struct store_task *t); /* t->payload is none here */
/* Keys > after of one group, ascending, at most `max`; without payloads. */
MUST_CHECK enum err store_task_read(struct store_reader *r, uint32_t group, uint64_t after,
                                    uint32_t max, store_task_fn *fn, void *arg, struct error *err);
/* Groups that have tasks: a skip scan. */
MUST_CHECK enum err store_task_groups(struct store_reader *r, store_key_fn *fn, void *arg,
                                      struct error *err);

/* ---- timers ---------------------------------------------------------------------------------- */

struct store_timer {
    usec_t due;   /* wall clock */
    uint64_t key; /* unique */
    uint64_t object;
    uint64_t execution;
    int32_t what; /* the kind's: user timer, scheduled start, grace time */
    int64_t ref;
    struct bytes payload;
};
MUST_CHECK enum err store_timer_insert(struct store *st, const struct store_timer *t,
                                       struct error *err);
MUST_CHECK enum err store_timer_delete(struct store *st, usec_t due, uint64_t key, bool *existed,
                                       struct error *err);
/* ERR_NOT_FOUND. */
MUST_CHECK enum err store_timer_get(struct store_reader *r, usec_t due, uint64_t key,
                                    struct store_timer *out, struct strbuf *buf, struct error *err);
typedef bool store_timer_fn(void *arg, const struct store_timer *t);
/* (due, key) > (after_due, after_key) and due <= due_max, in that order, at most `max`. */
MUST_CHECK enum err store_timer_read(struct store_reader *r, usec_t after_due, uint64_t after_key,
                                     usec_t due_max, uint32_t max, store_timer_fn *fn, void *arg,
                                     struct error *err);
/* Of one execution, at most rows_max; *deleted < rows_max: none left. By an index, not a scan. */
MUST_CHECK enum err store_timer_delete_execution(struct store *st, uint64_t execution,
                                                 uint32_t rows_max, uint32_t *deleted,
                                                 struct error *err);
MUST_CHECK enum err store_timer_count(struct store_reader *r, uint64_t *count,
                                      struct error *err); /* kept as a counter row */

/* ---- mailbox: messages to objects that are handled in a later batch or by another owner ------ */

struct store_mail {
    uint64_t seq;
    uint32_t hub;
    uint8_t kind; /* of the receiver */
    uint32_t partition;
    struct bytes id; /* of the receiver */
    int32_t what;    /* the kind's */
    struct bytes payload;
};
MUST_CHECK enum err store_mail_insert(struct store *st, const struct store_mail *m,
                                      struct error *err);
typedef bool store_mail_fn(void *arg, const struct store_mail *m);
MUST_CHECK enum err store_mail_read(struct store_reader *r, uint64_t after, uint32_t max,
                                    store_mail_fn *fn, void *arg, struct error *err);
MUST_CHECK enum err store_mail_delete(struct store *st, uint64_t seq, struct error *err);

/* ---- trash: bulk deletes still to be done, in bounded steps, resumed after a crash ----------- */

enum store_trash_what {
    STORE_TRASH_EXECUTION = 1 /* history and timers of it */,
    STORE_TRASH_INBOX = 2 /* all inbox rows of an object key */,
    STORE_TRASH_TIMERS = 3 /* timers of an execution */
};
struct store_trash {
    uint64_t seq;
    int32_t what;
    uint64_t key;
};
MUST_CHECK enum err store_trash_insert(struct store *st, const struct store_trash *t,
                                       struct error *err);
typedef bool store_trash_fn(void *arg, const struct store_trash *t);
/* seq > after, in order, at most `max`. */
MUST_CHECK enum err store_trash_read(struct store_reader *r, uint64_t after, uint32_t max,
                                     store_trash_fn *fn, void *arg, struct error *err);
MUST_CHECK enum err store_trash_delete(struct store *st, uint64_t seq, struct error *err);

/* ---- looking at all of it, and copying it ------------------------------------------------------ */

struct store_verify_events {
    /* `name` is one of those of docs/operating.md, `text` says what and where; a hundred of a name at most. */
    void (*finding)(void *arg, const char *name, const char *text);
    /* The readable objects in order of their keys, and the rows of each one's history after it. */
    void (*object)(void *arg, const struct store_object *o);
    void (*history)(void *arg, const struct store_history *h);
    void *arg;
};
/* Reads every row and says what does not hold: damage, rows without an owner, numbers that are not those of the rows. In one
 * transaction, which pins the log meanwhile. ERR_UNAVAILABLE: stopped, or the database cannot be read. */
MUST_CHECK enum err store_verify(struct store_reader *r, const struct store_verify_events *ev,
                                 struct error *err);
/* Copies what is committed now into a new file at `path`, whole and flushed, which store_open() opens; likewise in one transaction.
 * ERR_EXISTS: a file is there. On another error none is left. */
MUST_CHECK enum err store_copy(struct store_reader *r, const char *path, struct error *err);
/* From now on both end soon after *stop is set, with ERR_UNAVAILABLE. */
void store_reader_stop_at(struct store_reader *r, const _Atomic bool *stop);

/* ---- upkeep ---------------------------------------------------------------------------------- */

struct store_stats {
    uint64_t store_bytes, wal_bytes;
    uint64_t commits, flushes; /* since open */
};
void store_stats(struct store *st, struct store_stats *out); /* any thread; cheap */
uint64_t store_log_bytes(const struct store *st); /* wal_bytes; any thread; no system call */

/* Copies the log into the database. The checkpointer is a connection of its own, for a thread of
 * its own (or the simulator's step); passive: never blocks the writer. NULL for `memory`. */
struct store_checkpointer;
MUST_CHECK enum err store_checkpointer_open(struct store *st, struct store_checkpointer **out,
                                            struct error *err);
void store_checkpointer_close(struct store_checkpointer *c);
MUST_CHECK enum err store_checkpoint(struct store_checkpointer *c, struct error *err);
/* On the writer's thread between two transactions: finishes a checkpoint and restarts the log,
 * waiting at most `wait` for readers. OK also when readers kept it from restarting (look at
 * store_stats). */
MUST_CHECK enum err store_log_restart(struct store *st, usec_t wait, struct error *err);
