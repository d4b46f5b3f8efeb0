/* kind.h - object kinds and what their steps may do.
 *
 * An object kind (orchestration; later entity, run, ...) gives the engine a table of functions. A step reads and writes the
 * store only through struct step; whatever reaches the world (answers, work, timers) is an effect that the engine performs after the
 * commit. Cached objects are changed in place and thrown away when the batch is undone. No clock, no randomness, no I/O of its own.
 */
#pragma once

#include "base/limits.h"
#include "engine/command.h"
#include "engine/work.h"
#include "store/store.h"

struct object {
    struct hash_node by_key, by_id;
    struct list_node lru;
    struct list_node dirty_link;
    const struct object_kind *kind;
    struct store_object
        row;      /* its byte views are owned by the object: change them with object_set() */
    void *state;  /* the kind's */
    size_t bytes; /* memory of row and state, kept by object_account() */
    size_t counted_bytes; /* what of it the cache has counted */
    uint64_t last_worker; /* hash of the worker that ran its last turn; 0: none */
    bool is_new;          /* not in the store yet */
    bool is_dirty;
    bool is_deleted;
    int32_t counted_status; /* as the counters have it; -1: not counted */
};

/* Times, orders and counts that come from the store are far from the ends of their type, so that one can calculate with them; the
 * year 9999 is not 2^58 microseconds away. What is not is damage. */
#define STORED_MAX ((uint64_t)1 << 60)
static inline bool stored_is_sane(int64_t v)
{
    return v > -(int64_t)STORED_MAX && v < (int64_t)STORED_MAX;
}

/* Replaces an owned view by a copy of `value` (none frees it). */
void object_set(struct object *o, struct bytes *field, struct bytes value);
void object_account(struct object *o, size_t state_bytes);

struct step {
    struct engine *e;
    struct store *store;
    struct store_reader *reader; /* the writer's own: sees this batch */
    const struct settings *settings;
    struct arena *arena; /* of the batch */
    usec_t now;          /* wall clock */
    uint64_t fresh[4];
    unsigned fresh_used;
    bool
        wrote; /* anything; a step sets it before its own store_*() writes: a later error then undoes the step */
};

/* ---- objects ------------------------------------------------------------------------------------------ */

/* ERR_NOT_FOUND: no such object (err is untouched by that). */
MUST_CHECK enum err step_find(struct step *s, uint32_t hub, const struct object_kind *kind,
                              struct bytes id, struct object **out, struct error *err);
MUST_CHECK enum err step_get(struct step *s, uint64_t key, struct object **out, struct error *err);
/* A new object with a fresh key and a fresh execution key; created = updated = now; not saved before the first step_save(). */
MUST_CHECK enum err step_create(struct step *s, uint32_t hub, const struct object_kind *kind,
                                struct bytes id, struct object **out, struct error *err);
/* The row is written at the end of the batch. */
void step_save(struct step *s, struct object *o);
/* Removes the object; its history, timers and inbox go to the trash; its turn dies. */
MUST_CHECK enum err step_delete(struct step *s, struct object *o, struct error *err);
/* Hub number of a name. create: made when missing (if hub.auto_create), else ERR_NOT_FOUND. */
MUST_CHECK enum err step_hub(struct step *s, struct bytes name, bool create, uint32_t *hub,
                             struct error *err);
MUST_CHECK enum err step_next_key(struct step *s, uint64_t count, uint64_t *first,
                                  struct error *err);
/* 32 lowercase hex digits from the command's fresh bits; different at each call of a step. */
void step_hex_id(struct step *s, char out[33]);

/* ---- work ---------------------------------------------------------------------------------------------- */

/* The turn of `o` is ready: offered after the commit under (name, version). A turn already known stays as it is. */
MUST_CHECK enum err step_turn_ready(struct step *s, struct object *o, struct bytes name,
                                    struct bytes version, bool recovered, struct error *err);
/* The turn is over or dead: its stream's slot is free, its token stale. `answered`: by the worker that had it. */
void step_turn_settle(struct step *s, struct object *o);
/* The work record of the object's turn, NULL if it has none. To look at only. */
const struct work *step_turn(struct step *s, const struct object *o);
/* Token-less workers (spec 8.2): may this answer, from cmd->connection, settle the turn that is current? Decided once a command. */
bool step_tokenless_answer(struct step *s, struct command *cmd, struct object *o);
/* The record may be changed for what needs no commit: chunks and lease of a partial completion. */
struct work *step_turn_mutable(struct step *s, const struct object *o);
void step_turn_extend(struct step *s, struct work *w);
/* Nothing was settled: the turn goes out again at once, with a new token. */
void step_turn_again(struct step *s, struct object *o);
/* The worker gives the turn back: ready again with backoff. */
void step_turn_abandon(struct step *s, struct object *o);
void step_count_stale(struct step *s); /* a completion that came too late: for the metrics */
/* Asks for kind->turn_returned when the turn in flight comes back unsettled; after the commit if none is in flight. */
void step_turn_notify(struct step *s, struct object *o);
/* Writes the task row and offers it after the commit. t->group is set here from name and version. */
MUST_CHECK enum err step_task_add(struct step *s, struct object *o, struct store_task *t,
                                  struct bytes name, struct bytes version, struct error *err);
/* Deletes the row; *existed says whether it was still open. Its item is settled after the commit. */
MUST_CHECK enum err step_task_end(struct step *s, uint32_t group, uint64_t key, bool *existed,
                                  struct error *err);
/* Counts a completion that was too large to keep, once a command; true when it was one too many (or the item is unknown). `key`
 * as in struct work. */
bool step_breaks(struct step *s, struct command *cmd, enum work_kind kind, uint64_t key,
                 uint64_t breaks_max);
bool step_task_in_flight(struct step *s, uint64_t key);
/* The same, and the worker that has it sends no tokens. */
bool step_task_is_out_tokenless(struct step *s, uint64_t key);
/* The item of the task's dispatch; kind 0: it is not in flight. */
struct item_ref step_task_item(struct step *s, uint64_t key);
/* The task in flight that an answer without a token is about, when no open action has these ids, or nobody can have that one:
 * its execution is over, and only its worker's room is to be given back. False: none. */
bool step_task_answered(struct step *s, const struct command *cmd, struct bytes id, int64_t ref,
                        uint32_t *group, uint64_t *key);
/* Group number of a name and version, as step_task_add() uses it. */
MUST_CHECK enum err step_group(struct step *s, uint32_t hub, enum work_kind kind, struct bytes name,
                               struct bytes version, uint32_t *group, struct error *err);

/* ---- timers, mail, bulk deletes -------------------------------------------------------------------------- */

MUST_CHECK enum err step_timer_add(struct step *s, const struct store_timer *t, struct error *err);
/* A message handled in a later batch (exactly once, also over a crash). seq and partition are set here. */
MUST_CHECK enum err step_mail(struct step *s, struct store_mail *m, struct error *err);
/* History and timers of an execution, or its timers, or the inbox of an object: at once if few, else in bounded steps after
 * this commit. */
MUST_CHECK enum err step_trash(struct step *s, enum store_trash_what what, uint64_t key,
                               struct error *err);

/* ---- waiters ---------------------------------------------------------------------------------------------- */

/* Leaves the answer of `cmd` to a commit of the object (hub, id) that makes kind->waiter_met() true for `mode`; the object need
 * not exist. ERR_LIMIT: too many. `wait_id` names it for engine_wait_expire() and engine_wait_cancel(). */
MUST_CHECK enum err step_wait(struct step *s, struct command *cmd, uint32_t hub,
                              const struct object_kind *kind, uint32_t mode, uint64_t wait_id,
                              struct error *err);

/* ---- the table ---------------------------------------------------------------------------------------------- */

struct object_kind {
    uint8_t id; /* stored; never reused */
    const char *name;
    /* Builds o->state from o->row (and the store). */
    enum err (*load)(struct step *s, struct object *o, struct error *err);
    void (*unload)(struct object *o);
    enum err (*command)(struct step *s, struct command *cmd, struct error *err);
    /* The command is answered UNAVAILABLE without a step: sets cmd->item, if it is a completion, without the store. May be NULL. */
    void (*refused)(struct engine *e, struct command *cmd);
    /* The row is deleted by the engine. */
    enum err (*timer)(struct step *s, struct object *o, const struct store_timer *t,
                      struct error *err);
    enum err (*mail)(struct step *s, const struct store_mail *m, struct error *err);
    /* Calls step_turn_ready() if the object has a dispatchable turn (recovery). */
    enum err (*turn_check)(struct step *s, struct object *o, bool recovered, struct error *err);
    /* False: the turn must wait (suspended); step_turn_ready() brings it back. */
    bool (*turn_may_go)(const struct object *o);
    /* A turn came back unsettled and step_turn_notify() had been called: it stays back until step_turn_ready(). */
    enum err (*turn_returned)(struct step *s, struct object *o, struct error *err);
    /* Stores a new cut and time for a turn that is to go out token-less (spec 8.2). */
    enum err (*turn_recut)(struct step *s, struct object *o, struct error *err);
    /* True: the stored cut is too old for a token-less dispatch. */
    bool (*turn_is_stale)(const struct object *o, usec_t now_wall, usec_t age_max);
    /* The item to send, and its batch in *turn (w->turn holds the previous one; exact: repeat it). Outside a transaction. */
    enum err (*turn_build)(struct step *s, struct object *o, const struct work *w, bool exact,
                           struct bytes token, struct turn *turn, void **item, size_t *item_bytes,
                           struct error *err);
    enum err (*task_build)(struct step *s, const struct store_task *t, struct bytes token,
                           void **item, size_t *item_bytes, struct error *err);
    /* False: nobody waits for it and nobody shall run it (its execution was terminated): asked before it is handed out again. */
    bool (*task_may_go)(const struct object *o, const struct store_task *t);
    /* The instance that an answer without a token will name. */
    struct bytes (*task_instance)(const struct store_task *t);
    void *(*ping_build)(void);
    /* Waiters: is it over, and the answer. `o` NULL: unknown (only after the deadline). */
    bool (*waiter_met)(const struct object *o, uint32_t mode);
    enum err (*waiter_answer)(struct step *s, struct object *o, uint32_t mode, struct strbuf *reply,
                              struct error *err);
    /* The text of DEADLINE_EXCEEDED for an existing object. */
    void (*waiter_late)(const struct object *o, uint32_t mode, struct error *err);
};
