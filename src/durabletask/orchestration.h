/* orchestration.h - the orchestration object kind: its state and the steps that its files share.
 *
 * The row (struct store_object) holds status, times, parent link; this state holds what is derived from history and
 * inbox. The inbox is a dense range of sequence numbers [row.inbox_first, row.inbox_next): arrivals grow it, a turn's commit takes
 * a prefix, a pending executionTerminated and a new execution's start are put in front. Rows meant for an earlier execution stay until a
 * turn's commit sweeps over them; they are never shown.
 *
 *   PENDING --first turn--> RUNNING --completion--> COMPLETED | FAILED | TERMINATED | CANCELED
 *      |  SuspendInstance      |  continue-as-new: RUNNING, new execution
 *      +--> SUSPENDED <--------+  ResumeInstance: back to the remembered base status       (spec 1.3)
 *
 * Everything here runs in steps, on the engine's thread (engine/kind.h). Internal to src/durabletask.
 */
#pragma once

#include "durabletask.pb-c.h"
#include "durabletask/events.h"
#include "durabletask/requests.h"
#include "engine/kind.h"

#define OBJECT_ORCHESTRATION 1

enum orch_status {
    ORCH_RUNNING = 0,
    ORCH_COMPLETED = 1,
    ORCH_CONTINUED_AS_NEW = 2, /* only ever an action's */
    ORCH_FAILED = 3,
    ORCH_CANCELED = 4,
    ORCH_TERMINATED = 5,
    ORCH_PENDING = 6,
    ORCH_SUSPENDED = 7,
};

enum orch_flags {
    ORCH_START_WAITS = 1, /* the scheduled start has not come */
    ORCH_TERMINATING = 2, /* executionTerminated is the first inbox row */
};

/* store_timer.ref of a user's timer: its id, and the nanoseconds of fireAt that `due` rounds up. */
static inline int64_t orch_timer_ref(int32_t id, unsigned nanos)
{
    return (int64_t)((uint64_t)nanos << 32 | (uint32_t)id);
}

static inline int32_t orch_timer_id(int64_t ref)
{
    return (int32_t)(uint32_t)ref;
}

static inline unsigned orch_timer_nanos(int64_t ref)
{
    return (unsigned)((uint64_t)ref >> 32);
}

enum orch_timer { ORCH_TIMER_USER = 1, ORCH_TIMER_START = 2, ORCH_TIMER_GRACE = 3 };
enum orch_mail { ORCH_MAIL_TERMINATE = 1, ORCH_MAIL_CHILD_DONE = 2 };

/* An event in history that has no resolution there yet; eventSent never has one. */
struct open_action {
    struct hash_node node;
    struct list_node link; /* in the order of history */
    HistoryEvent__EventTypeCase kind;
    int32_t id;
    uint32_t group; /* task */
    uint64_t key;   /* task, timer */
};

struct inbox_row {
    int64_t seq;
    int32_t type; /* HistoryEvent__EventTypeCase */
    uint64_t execution;
    int64_t ref;
    usec_t time;
    struct bytes event; /* owned */
};

struct orchestration {
    /* The first rows of the inbox, from row.inbox_first on without gaps. */
    struct inbox_row *inbox;
    size_t inbox_count, inbox_cap, inbox_bytes;
    /* All history frames, or nothing (is_framed false). */
    struct strbuf frames;
    size_t last_row; /* where the last history row begins in them */
    bool is_framed;
    /* Open actions, once needed. */
    bool is_hydrated;
    struct hashmap open;
    struct list open_list;
    size_t open_bytes;
    bool recovered; /* its ready turn was ready before this process saw it */
};

static inline struct orchestration *orch_of(const struct object *o)
{
    return o->state;
}

static inline bool orch_is_terminal_status(int32_t status)
{
    return status == ORCH_COMPLETED || status == ORCH_FAILED || status == ORCH_TERMINATED ||
           status == ORCH_CANCELED;
}

static inline bool orch_is_terminal(const struct object *o)
{
    return orch_is_terminal_status(o->row.status);
}

/* The record's batch is that of the turn the object would now run: false also when an earlier step of this batch ended it. */
static inline bool orch_turn_is_current(const struct object *o, const struct work *w)
{
    return w && w->turn.row == o->row.history_rows + 1 && w->turn.execution == o->row.execution;
}

extern const struct object_kind ORCHESTRATION;

/* ---- orch_state.c: load, caches -------------------------------------------------------------------- */

enum err orch_load(struct step *s, struct object *o, struct error *err);
void orch_unload(struct object *o);
void orch_account(struct object *o);
struct orchestration *orch_new_state(struct object *o);
/* Fills the map of open actions from history. ERR_CORRUPT. */
MUST_CHECK enum err orch_hydrate(struct step *s, struct object *o, struct error *err);
struct open_action *orch_open_find(const struct object *o, HistoryEvent__EventTypeCase kind,
                                   int32_t id);
void orch_open_add(struct object *o, const struct open_action *a);
void orch_open_remove(struct object *o, HistoryEvent__EventTypeCase kind, int32_t id);
void orch_open_clear(struct object *o);
/* Version for matching an activity: its own, else the orchestration's (spec 8.3). */
struct bytes orch_task_version(const struct object *o, struct bytes version);

typedef bool orch_frame_fn(void *arg, struct bytes event); /* false: stop */
/* Each event of framed bytes. ERR_CORRUPT. */
MUST_CHECK enum err orch_frames_each(struct bytes frames, orch_frame_fn *fn, void *arg,
                                     struct error *err);
/* Frames of rows from..: the cached ones or from the store, in pieces. */
typedef enum err orch_piece_fn(void *arg, struct bytes frames);
MUST_CHECK enum err orch_history_each(struct step *s, const struct object *o, orch_piece_fn *fn,
                                      void *arg, struct error *err);
/* Appends a history row and keeps the cache. `row.history_*` are advanced; the caller saves the object. */
MUST_CHECK enum err orch_history_append(struct step *s, struct object *o, struct bytes frames,
                                        uint32_t events, uint64_t key_base, struct error *err);
void orch_frame_put(struct strbuf *out, struct bytes event); /* one event as a pastEvents field */

/* ---- orch_inbox.c: arrivals and readiness ------------------------------------------------------------ */

struct arrival {
    HistoryEvent__EventTypeCase type;
    int64_t ref;
    uint64_t execution; /* 0: any */
    struct bytes event;
};

bool orch_inbox_is_empty(const struct object *o);
/* Appends; when that makes a turn ready, offers it and stores its cut with the row. */
MUST_CHECK enum err orch_arrive(struct step *s, struct object *o, const struct arrival *a,
                                struct error *err);
/* Puts a row in front of all. */
MUST_CHECK enum err orch_inbox_put_front(struct step *s, struct object *o, const struct arrival *a,
                                         struct error *err);
/* Deletes the rows from..last of a turn's batch; what was put in front of it meanwhile stays in front. */
MUST_CHECK enum err orch_inbox_take_batch(struct step *s, struct object *o, int64_t from,
                                          int64_t last, struct error *err);
/* Deletes all rows up to `last`. */
MUST_CHECK enum err orch_inbox_take(struct step *s, struct object *o, int64_t last,
                                    struct error *err);
/* Deletes rows in front that are meant for an earlier execution. */
MUST_CHECK enum err orch_inbox_sweep(struct step *s, struct object *o, struct error *err);
/* Makes the first rows from `from` on available in memory: up to rows_max and about bytes_max, at least one if there is one. */
MUST_CHECK enum err orch_inbox_need(struct step *s, struct object *o, int64_t from, size_t rows_max,
                                    size_t bytes_max, struct error *err);
const struct inbox_row *orch_inbox_row(const struct object *o,
                                       int64_t seq); /* NULL: not in memory */
bool orch_row_is_live(const struct object *o, const struct inbox_row *r);
bool orch_is_dispatchable(const struct object *o); /* spec 4.1, but for the turn in flight */
/* Offers the turn if there is one; `cut`: stores a new cut in the row (the caller saves it). */
MUST_CHECK enum err orch_offer(struct step *s, struct object *o, bool cut, struct error *err);
void orch_touch(struct step *s, struct object *o); /* lastUpdated */

/* ---- orch_start.c ------------------------------------------------------------------------------------- */

struct orch_new {
    uint32_t hub;
    struct bytes id;
    struct event_started started; /* instance and execution are filled in here */
    struct bytes execution_id;    /* none: minted */
    struct bytes parent;          /* encoded ParentInstanceInfo; none: no parent */
    struct bytes parent_id;
    usec_t start_at; /* 0: at once */
};
MUST_CHECK enum err orch_create(struct step *s, const struct orch_new *n, struct object **out,
                                struct error *err);
MUST_CHECK enum err orch_start(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_restart(struct step *s, struct command *cmd, struct error *err);
/* The executionStarted of the current execution; views and structs live in the batch's arena. ERR_CORRUPT. */
MUST_CHECK enum err orch_started_of(struct step *s, struct object *o, struct event_started *out,
                                    struct error *err);
/* Removes an instance that another takes the place of; tells the parent of a running one. */
MUST_CHECK enum err orch_replace(struct step *s, struct object *o, struct error *err);
/* A child asked for by an action of `parent`. */
MUST_CHECK enum err orch_start_child(struct step *s, struct object *parent, int32_t task_id,
                                     const CreateSubOrchestrationAction *action, struct bytes id,
                                     struct error *err);
/* Ends the current execution and begins the next, in the turn's own commit (spec 6.7). */
MUST_CHECK enum err orch_continue_as_new(struct step *s, struct object *o,
                                         const CompleteOrchestrationAction *action,
                                         struct error *err);
struct bytes orch_tags_json(struct arena *a, struct event_tags tags); /* none when empty */
/* Why an instance whose row has `stored` may not get `over` on top of them; NULL: it may. */
const char *orch_tags_fault(struct bytes stored, struct event_tags over);

/* ---- orch_manage.c --------------------------------------------------------------------------------------- */

/* The instance that a command names. ERR_NOT_FOUND, of which err is not told: also the hub. */
MUST_CHECK enum err orch_target(struct step *s, struct command *cmd, struct object **o,
                                struct error *err);
enum err orch_not_found(const struct command *cmd, struct error *err); /* the text for clients */
/* `time`: the one that the filter is about. */
bool orch_filter_holds(const struct dt_filter *f, const struct store_object *o, usec_t time);
MUST_CHECK enum err orch_list(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_purge(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_skip_graceful(struct step *s, struct command *cmd, struct error *err);

/* ---- orch_control.c --------------------------------------------------------------------------------------- */

MUST_CHECK enum err orch_raise(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_raise_to(struct step *s, struct object *o, struct bytes name,
                                  struct bytes input, struct error *err);
MUST_CHECK enum err orch_suspend(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_resume(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_terminate(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_terminate_object(struct step *s, struct object *o, struct bytes output,
                                          bool recurse, struct error *err);
MUST_CHECK enum err orch_mail(struct step *s, const struct store_mail *m, struct error *err);
MUST_CHECK enum err orch_timer(struct step *s, struct object *o, const struct store_timer *t,
                               struct error *err);

/* ---- orch_end.c: terminal statuses -------------------------------------------------------------------------- */

struct orch_outcome {
    enum orch_status status;
    struct bytes result;         /* none: no output */
    TaskFailureDetails *failure; /* FAILED */
    bool recurse;                /* TERMINATED: children too */
    struct bytes reason;         /* what the children get */
};
/* Appends executionCompleted to `frames` (not yet stored). */
void orch_put_completed(struct step *s, struct strbuf *frames, const struct orch_outcome *out);
/* After the history row is stored: status, parent, timers, inbox, tasks, children. */
MUST_CHECK enum err orch_finish(struct step *s, struct object *o, const struct orch_outcome *out,
                                struct error *err);
/* Recursive termination: a message to every child of the current execution. */
MUST_CHECK enum err orch_cascade(struct step *s, struct object *o, struct bytes reason,
                                 struct error *err);
/* TERMINATED by the server alone: never-run ones get their executionStarted into history too. */
MUST_CHECK enum err orch_force_terminate(struct step *s, struct object *o, struct error *err);
/* The same at once, whatever waits or is out, and without output. */
MUST_CHECK enum err orch_terminate_now(struct step *s, struct object *o, struct bytes reason,
                                       struct error *err);
/* FAILED by the server, the waiting batch into history as in a turn. */
MUST_CHECK enum err orch_fail(struct step *s, struct object *o, const struct turn *turn,
                              TaskFailureDetails *failure, struct error *err);
/* A child's end, to the parent that `o`'s link names. */
MUST_CHECK enum err orch_tell_parent(struct step *s, struct object *o,
                                     const struct orch_outcome *out, struct error *err);
MUST_CHECK enum err orch_tell_replaced(struct step *s, struct object *o, struct error *err);
usec_t
orch_next_started(const struct step *s,
                  const struct object *o); /* timestamp for an orchestratorStarted made now */

/* ---- orch_turn.c, orch_commit.c ------------------------------------------------------------------------------- */

enum err orch_turn_build(struct step *s, struct object *o, const struct work *w, bool exact,
                         struct bytes token, struct turn *turn, void **item, size_t *item_bytes,
                         struct error *err);
/* The batch that the stored cut describes. */
MUST_CHECK enum err orch_turn_of_cut(struct step *s, struct object *o, struct turn *turn,
                                     struct error *err);
enum err orch_turn_recut(struct step *s, struct object *o, struct error *err);
enum err orch_turn_check(struct step *s, struct object *o, bool recovered, struct error *err);
enum err orch_turn_returned(struct step *s, struct object *o, struct error *err);
bool orch_turn_is_stale(const struct object *o, usec_t now_wall, usec_t age_max);
MUST_CHECK enum err orch_complete_turn(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_bad_turn(struct step *s, struct command *cmd, struct error *err);

/* ---- orch_actions.c --------------------------------------------------------------------------------------------- */

/* What a response's actions come to, before anything is written. */
struct plan_item {
    struct plan_item *next;
    struct hash_node node;
    HistoryEvent__EventTypeCase kind; /* of its history event; 0: none (terminate) */
    int32_t id;
    const OrchestratorAction *action;
    struct bytes child; /* id used */
    usec_t due;
    unsigned nanos; /* of fireAt, below the microsecond that `due` was rounded up to */
};

struct plan {
    struct plan_item *first, **last;
    size_t count, keys; /* keys: tasks and timers, which get one each */
    const CompleteOrchestrationAction *completion;
    struct strbuf frames; /* history events of the actions, framed */
    uint32_t events;
    TaskFailureDetails *invalid; /* set: nothing is applied, the instance fails with this */
};

void plan_init(struct plan *p);
void plan_deinit(struct plan *p);
/* `terminates`: the turn ends TERMINATED, so that new tasks, timers and children are dropped (spec 6.6). The object is hydrated. */
MUST_CHECK enum err plan_actions(struct step *s, struct object *o,
                                 OrchestratorAction *const *actions, size_t count,
                                 bool has_terminated, struct plan *p, struct error *err);
/* Writes what the plan says. `keep_open`: record the actions as open (the execution goes on). */
MUST_CHECK enum err plan_apply(struct step *s, struct object *o, const struct plan *p,
                               uint64_t key_base, bool is_last_turn, bool continues_as_new,
                               struct error *err);
/* What the actions send to this very instance: after the turn. */
MUST_CHECK enum err plan_apply_to_self(struct step *s, struct object *o, const struct plan *p,
                                       struct error *err);

/* ---- orch_query.c --------------------------------------------------------------------------------------------------- */

/* The state of a row that need not be in memory, as field 1. */
MUST_CHECK enum err orch_state_put(struct step *s, const struct store_object *row, bool payloads,
                                   struct strbuf *out, struct error *err);
MUST_CHECK enum err orch_get(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_wait(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err orch_history_page(struct step *s, struct command *cmd, struct error *err);
bool orch_waiter_met(const struct object *o, uint32_t mode);
enum err orch_waiter_answer(struct step *s, struct object *o, uint32_t mode, struct strbuf *reply,
                            struct error *err);
void orch_waiter_late(const struct object *o, uint32_t mode, struct error *err);

/* ---- activity.c ------------------------------------------------------------------------------------------------------- */

MUST_CHECK enum err activity_complete(struct step *s, struct command *cmd, struct error *err);
MUST_CHECK enum err activity_bad(struct step *s, struct command *cmd, struct error *err);
enum err activity_build(struct step *s, const struct store_task *t, struct bytes token, void **item,
                        size_t *item_bytes, struct error *err);
