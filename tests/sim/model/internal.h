/* internal.h - what the files of the model share: values, the state of all instances, dispatches, calls.
 *
 * Events are immutable once made (but for what only the server can choose, which is taken over from the database the first time it
 * is seen there) and live as long as the model; a state is therefore copied by copying its arrays.
 */
#pragma once

#include "model.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/hashmap.h"
#include "base/strbuf.h"
#include "durabletask.pb-c.h"

/* clang-format off */
/*  C(name, "what a finding of it means") */
#define CHECKERS(C)                                                                                     \
    C(FLUSHED,     "flushed")     /* a commit was taken for flushed and is not in the flushed image */   \
    C(ACK,         "ack")         /* OK for a change that no commit has made */                          \
    C(STATUS,      "status")      /* another status code or text than the specification's */             \
    C(REPLY,       "reply")       /* an answer shows another state than the committed one */             \
    C(WAITER,      "waiter")      /* a wait was forgotten, or ended for no reason */                     \
    C(OBJECT,      "object")      /* an instance's row differs */                                        \
    C(HISTORY,     "history")     /* stored history differs */                                           \
    C(INBOX,       "inbox")       /* an event lost, doubled, swapped or altered */                       \
    C(TASKS,       "tasks")       /* scheduled activities differ */                                      \
    C(TIMERS,      "timers")      /* timer rows differ */                                                \
    C(TIMER_EARLY, "timer-early")                                                                        \
    C(TIMER_LATE,  "timer-late")                                                                         \
    C(MAIL,        "mail")        /* messages under way differ */                                        \
    C(RECOVERY,    "recovery")    /* after a crash: neither with nor without the unknown batch */        \
    C(COUNTS,      "counts")      /* counters and figures differ from the rows */                        \
    C(LEAK,        "leak")        /* work that no commit has made */                                     \
    C(PAST,        "turn-past")   /* pastEvents are not the committed history */                         \
    C(NEW,         "turn-new")    /* newEvents are not the front of the inbox */                         \
    C(ITEM,        "item")        /* other fields of a work item */                                      \
    C(TOKEN,       "token")       /* not fresh, not unique, too long */                                  \
    C(TWICE,       "turn-twice")  /* a turn in two hands */                                              \
    C(SUSPENDED,   "suspended")   /* a turn of a suspended instance went out */                          \
    C(START,       "start-early") /* before its scheduled start */                                       \
    C(SLOTS,       "slots")       /* more items than a stream takes, or room never given back */         \
    C(FILTER,      "filter")      /* an item that the stream did not ask for */                          \
    C(BACKOFF,     "backoff")     /* given to the one who abandoned it, too soon */                      \
    C(TOKENLESS,   "tokenless")   /* rules of workers without tokens */                                  \
    C(CANCELLED,   "cancelled")   /* an activity of a terminated execution was handed out */             \
    C(STARVED,     "starved")     /* ready work, a stream with room, and nothing happens */              \
    C(PURGE,       "purge")       /* rows that belong to nobody */                                       \
    C(REPLAY,      "replay")      /* a stored history that no orchestrator could have made */            \
    C(STUCK,       "stuck")       /* not ended, though its worker and inputs exist */                    \
    C(IMAGE,       "image")       /* the database cannot be read */
/* clang-format on */

#define CHECKER_ENUM(name, text) CHECK_##name,
enum checker { CHECKERS(CHECKER_ENUM) CHECK_COUNT };
#undef CHECKER_ENUM

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t n, cap;                                                                             \
    }
void vec_grow(void *vec, size_t size); /* room for one more */
#define VEC_PUSH(v, value) (vec_grow((v), sizeof(*(v)->at)), (v)->at[(v)->n++] = (value))
#define VEC_REMOVE(v, i)                                                                           \
    (memmove(&(v)->at[i], &(v)->at[(i) + 1], ((v)->n - (i)-1) * sizeof(*(v)->at)), (v)->n--)
#define VEC_FREE(v) (free((v)->at), memset((v), 0, sizeof(*(v))))

/* ---- values.c ---------------------------------------------------------------------------------------- */

enum {
    ST_RUNNING = 0,
    ST_COMPLETED = 1,
    ST_CONTINUED = 2,
    ST_FAILED = 3,
    ST_CANCELED = 4,
    ST_TERMINATED = 5,
    ST_PENDING = 6,
    ST_SUSPENDED = 7,
};

/* Short names of the event kinds. */
#define EV(kind) HISTORY_EVENT__EVENT_TYPE_##kind
#define EV_STARTED EV(EXECUTION_STARTED)
#define EV_COMPLETED EV(EXECUTION_COMPLETED)
#define EV_TERMINATED EV(EXECUTION_TERMINATED)
#define EV_TASK EV(TASK_SCHEDULED)
#define EV_TASK_OK EV(TASK_COMPLETED)
#define EV_TASK_BAD EV(TASK_FAILED)
#define EV_CHILD EV(SUB_ORCHESTRATION_INSTANCE_CREATED)
#define EV_CHILD_OK EV(SUB_ORCHESTRATION_INSTANCE_COMPLETED)
#define EV_CHILD_BAD EV(SUB_ORCHESTRATION_INSTANCE_FAILED)
#define EV_TIMER EV(TIMER_CREATED)
#define EV_FIRED EV(TIMER_FIRED)
#define EV_TURN EV(ORCHESTRATOR_STARTED)
#define EV_SENT EV(EVENT_SENT)
#define EV_RAISED EV(EVENT_RAISED)
#define EV_SUSPENDED EV(EXECUTION_SUSPENDED)
#define EV_RESUMED EV(EXECUTION_RESUMED)

struct event {
    int type;
    int32_t id;  /* -1: it arrived */
    int32_t ref; /* of what a resolution resolves */
    usec_t time;
    HistoryEvent *msg;
    struct bytes body; /* canonical, without id and time */
    uint64_t exec;     /* execution it is meant for; 0: whichever is current */
    bool fuzzy;    /* the text of its failure is the server's choice: taken over when first seen */
    bool any_time; /* likewise its time */
    bool unbound;  /* executionStarted of `exec` whose id is not known yet */
    uint32_t size; /* about its bytes on the wire */
};

static inline struct bytes view(ProtobufCBinaryData d)
{
    return bytes_of(d.data ? d.data : (const uint8_t *)"", d.len);
}

static inline ProtobufCBinaryData data_of(struct bytes b)
{
    return (ProtobufCBinaryData){.len = b.len, .data = (uint8_t *)(uintptr_t)b.ptr};
}

/* None when the message is absent. */
struct bytes boxed(const Google__Protobuf__StringValue *v);
Google__Protobuf__StringValue *box(struct arena *a, struct bytes b); /* NULL for none */
Google__Protobuf__Timestamp *stamp(struct arena *a, usec_t t);
/* False: no valid time. Rounds up to microseconds. */
bool stamp_read(const Google__Protobuf__Timestamp *ts, usec_t *out);
bool is_hex32(struct bytes b);
bool is_terminal_status(int status);
/* NULL: malformed. In the arena. */
void *unpack(struct arena *a, const ProtobufCMessageDescriptor *d, struct bytes b);
/* The one encoding of a message: maps sorted, unknown fields dropped (the message is changed so). */
struct bytes canonical(struct arena *a, void *msg);
/* From a message whose id and timestamp are taken as they are; memory from the arena, `msg` is kept. */
struct event *event_of(struct arena *a, HistoryEvent *msg);
/* A fresh HistoryEvent of a kind, its body to be filled in through the union. */
HistoryEvent *event_msg(struct arena *a, int type, int32_t id, usec_t time);
bool is_resolution(int type);
int resolved_kind(int type); /* taskCompleted -> taskScheduled; 0: none */
const char *event_name(int type);
TaskFailureDetails *failure_make(struct arena *a, const char *type, bool non_retriable,
                                 const char *message);
TaskFailureDetails *failure_in(const HistoryEvent *msg); /* NULL: it has none */
const char *status_name(int status);
/* Messages within messages, itself included; *bad_text: some text is no UTF-8. */
unsigned message_depth(const void *msg, bool *bad_text);
void failure_cut(TaskFailureDetails *f, unsigned levels);

/* ---- the state ------------------------------------------------------------------------------------------ */

struct task {
    uint64_t inst, exec; /* whose */
    int32_t id;
    const char *hub;
    struct bytes id_of;         /* its instance's */
    struct bytes name, version; /* version: for matching */
    struct bytes request;       /* canonical ActivityRequest */
    bool terminated;            /* its execution was: nobody may be given it any more */
    bool orphan;                /* its result goes nowhere */
    bool gone;                  /* its instance is: the server may drop it */
    uint64_t serial;
};

enum timer_kind { TIMER_USER = 1, TIMER_START = 2, TIMER_GRACE = 3 };

struct timer {
    uint64_t inst, exec;
    enum timer_kind kind;
    int32_t id;
    usec_t due;                        /* rounded up */
    Google__Protobuf__Timestamp *when; /* as the action said */
    uint64_t serial;
};

struct mail {
    const char *hub;
    struct bytes target, parent_execution; /* terminate the child `target` of that execution */
    struct bytes input;
    uint64_t serial;
    uint64_t seq; /* its row's; 0: not seen yet */
    bool is_new;  /* made by the batch that is being run */
};

struct chunk {
    uint64_t dispatch;
    const OrchestratorResponse *response;
};

struct inst {
    uint64_t serial; /* of this incarnation, never reused */
    const char *hub;
    struct bytes id; /* none: minted, and not known yet */
    struct bytes name, version;
    int status, base;
    usec_t created, updated, completed, scheduled;
    bool start_waits;
    uint64_t exec; /* its text: model.exec_text */
    TraceContext *parent_trace;
    struct bytes input, output, custom, trace;
    TaskFailureDetails *failure;
    bool failure_fuzzy;
    ExecutionStartedEvent__TagsEntry **tags;
    size_t n_tags;
    ParentInstanceInfo *parent;
    bool terminating;
    uint64_t
        maybe_out; /* 1 + turns: this turn was there when the process started, and counts as having been out token-less */
    uint64_t turns;      /* committed turns of all its executions */
    uint64_t exec_turns; /* of this one */
    usec_t last_started;
    VEC(struct event *) history, inbox; /* inbox: without what is meant for older executions */
    VEC(struct chunk) chunks;
    size_t checked_rows, checked_events; /* of the history, against the database */
};

struct state {
    VEC(struct inst *) insts;
    VEC(struct task) tasks;
    VEC(struct timer) timers;
    VEC(struct mail) mails;
};

void state_copy(struct state *to, const struct state *from);
void state_free(struct state *s);
struct inst *state_find(const struct state *s, const char *hub, struct bytes id);
struct inst *state_by_serial(const struct state *s, uint64_t serial);
static inline bool is_terminal(const struct inst *i)
{
    return is_terminal_status(i->status);
}
/* Spec 4.1, but for a turn in flight. */
bool is_dispatchable(const struct inst *i);

/* ---- dispatches, streams --------------------------------------------------------------------------------------- */

enum dispatch_state {
    OUT, /* with a stream, unsettled */
    RETURNED, /* given back: its stream ended, abandoned, refused; an answer that comes first still counts */
    SETTLED,
};

struct dispatch {
    uint64_t number; /* grows */
    bool is_turn, token_less;
    struct bytes token;
    uint64_t inst, exec, turns; /* turns: of the instance when it went out */
    uint64_t task;              /* serial */
    int32_t task_id;
    struct bytes id_of;         /* the task's instance's */
    VEC(struct event *) events; /* without the orchestratorStarted */
    usec_t started;
    uint64_t stream, connection, process;
    usec_t at;    /* monotonic */
    usec_t lease; /* monotonic: at, or the last chunk */
    enum dispatch_state state;
    bool answered;
    usec_t answered_at;
    usec_t returned_at;
    bool lost; /* returned because its stream ended */
    struct hash_node node;
};

struct abandon {   /* the backoff of an item on the streams of those who gave it back */
    uint64_t item; /* instance serial << 1 | 1, or task serial << 1 */
    uint64_t stream;
    usec_t at;
    unsigned times;
};

/* Dispatches of an item that ended with a completion that was too large to keep (spec 5.3, 8.4). */
struct breaks {
    uint64_t item;
    unsigned times;
};

struct stream {
    uint64_t id, connection;
    const char *hub;
    GetWorkItemsRequest *request;
    bool token_less, is_open, is_slow;
    uint32_t capacity_total;
};

/* ---- calls -------------------------------------------------------------------------------------------------------- */

enum method {
    M_START,
    M_GET,
    M_WAIT_START,
    M_WAIT_END,
    M_RAISE,
    M_TERMINATE,
    M_SUSPEND,
    M_RESUME,
    M_PURGE,
    M_TURN,
    M_TASK,
    M_ABANDON_TURN,
    M_ABANDON_TASK,
    M_HISTORY,
    M_OTHER,
};

/* gRPC's status codes. */
enum {
    G_OK = 0,
    G_CANCELLED = 1,
    G_INVALID = 3,
    G_DEADLINE = 4,
    G_NOT_FOUND = 5,
    G_EXISTS = 6,
    G_EXHAUSTED = 8,
    G_UNAVAILABLE = 14,
};

/* What the specification says that a call does, at its place in a batch. */
struct verdict {
    int status;          /* gRPC */
    const char *message; /* NULL: any */
    bool changes;        /* the database */
    bool waits;
    bool commits_error;  /* the answer is an error although something was committed */
    void *reply;         /* a message, canonical when it is compared; NULL: an empty one */
    uint64_t exec;       /* its executionId is that of this execution */
    uint64_t minted;     /* serial of the instance whose id the server chose */
    uint64_t gives_back; /* number of a dispatch that this call gives back */
    bool extends;        /* a chunk: the lease of `settles` */
    uint64_t answers;    /* number of the dispatch that it answers */
    bool is_abandon;
    bool maybe_over; /* the history limit: the server knows, and the instance is gone */
    bool is_fuzzy;   /* the reply's failure has a text of the server's choice */
    uint64_t breaks; /* item that had a completion too large to keep */
};

struct call {
    uint64_t id, actor, connection;
    const char *hub;
    enum method method;
    const char *method_name;
    void *request; /* NULL: it does not decode */
    struct bytes raw;
    bool token_less;
    bool is_done, is_lost;
    bool is_committed, is_refused; /* it was in a good or in a failed batch */
    bool is_waiting;               /* blocked by a commit, or since it was evaluated */
    bool wait_due;                 /* its condition was true after a commit */
    struct verdict verdict;        /* once committed */
    uint64_t process;
    struct hash_node node;
};

/* ---- the model ----------------------------------------------------------------------------------------------------- */

struct unknown_batch { /* one that may turn up after a crash */
    bool is_there;
    usec_t now;
    VEC(uint64_t) calls;
};

struct model {
    struct model_options opts;
    const struct settings *settings;
    struct arena *arena;
    struct state state;
    VEC(struct bytes) exec_text; /* by number; none: not known yet */
    uint64_t next_serial;
    usec_t wall, mono, wall_max;
    uint64_t process;
    struct unknown_batch unknown;  /* refused by the store */
    struct unknown_batch stepping; /* in which the process died */
    struct hashmap calls, tokens;
    VEC(struct call *) call_list;
    VEC(struct dispatch *) dispatches;
    VEC(struct dispatch *) last_of; /* by serial of the instance: its latest turn */
    VEC(struct stream *) streams;
    VEC(struct abandon) abandons;
    VEC(struct breaks) breaks;
    VEC(const char *) hubs;
    size_t settled_to;   /* all earlier dispatches are settled */
    size_t waiting_from; /* no earlier call is waiting */

    /* Instances touched since the last comparison. */
    struct touched {
        const char *hub;
        struct bytes id;
    } * touched;
    size_t touched_n, touched_cap;
    uint64_t commits;

    sqlite3 *db; /* as image() gave it, with the statements prepared for it */
    uint64_t generation;
    sqlite3_stmt *statements[16];

    bool is_down;          /* crashed, and not recovered yet */
    bool is_quiet, traces; /* MODEL_TRACE in the environment: every report to stderr */
    uint64_t findings;
    VEC(uint64_t) reached; /* by enum reach */
    /* Since when (monotonic) something is overdue; keys are serials. */
    struct since {
        uint64_t key, look;
        usec_t at;
    } * since;
    uint64_t look;
    size_t since_n, since_cap;
    usec_t quiet_at, crashed_at, recovered_at;
};

void trace(const struct model *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
void found(struct model *m, enum checker c, const char *fmt, ...) PRINTF_LIKE(3, 4);
struct bytes exec_text(const struct model *m, uint64_t exec);

/* A difference that was seen, before it is known whether it counts. */
struct diff {
    bool any;
    unsigned count; /* of differences; the first is told */
    enum checker checker;
    char text[1200];
};
void differ(struct diff *d, enum checker c, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct image;

/* ---- rules.c, turn.c: one batch ------------------------------------------------------------------------------------- */

#define CHOICES_MAX 32
struct choices {
    uint8_t taken[CHOICES_MAX], of[CHOICES_MAX];
    size_t used;
};

struct run {
    struct model *m;
    struct state *s;
    usec_t now;
    struct choices *choices; /* NULL: the likeliest */
    bool changed;
    struct diff diff; /* a rule that was broken on the way */
};
/* Where the specification leaves it open, or the model cannot see: 0 is the likeliest; the database decides. */
unsigned choose(struct run *r, unsigned of);

void touch(struct run *r, struct inst *i);
void touch_id(struct model *m, const char *hub, struct bytes id);
struct verdict run_call(struct run *r, struct call *c);
void run_internal(struct run *r, const struct image *img);
void arrive(struct run *r, struct inst *i, struct event *e);
struct inst *create(struct run *r, const char *hub, struct bytes id);
void replace(struct run *r, struct inst *i);
void remove_inst(struct run *r, struct inst *i);
void raise_to(struct run *r, struct inst *i, struct bytes name, struct bytes input);
void terminate(struct run *r, struct inst *i, struct bytes output, bool recurse);
void force_terminate(struct run *r, struct inst *i);
void put_started(struct run *r, struct inst *i, bool in_front);
void start_child(struct run *r, struct inst *parent, const OrchestratorAction *a, struct bytes id);
void finish(struct run *r, struct inst *i, int status, struct bytes result,
            TaskFailureDetails *failure, bool fuzzy, bool recurse, struct bytes reason);
struct event *history_put(struct run *r, struct inst *i, HistoryEvent *msg);
void fire(struct run *r, struct timer t);
void run_mail(struct run *r, struct mail mail);
struct verdict run_turn(struct run *r, struct call *c);
struct verdict run_task(struct run *r, struct call *c);
/* Of both. */
struct verdict settles_nothing(struct run *r, const struct call *c, const struct dispatch *d);
struct verdict give_back(const struct dispatch *d);
bool is_bad(struct run *r, const void *msg);
bool gives_up(struct run *r, uint64_t item, struct verdict *v);
bool wait_met(const struct inst *i, enum method method);
void *state_reply(struct run *r, const struct inst *i, bool payloads);
uint64_t exec_new(struct model *m);

/* ---- image.c ---------------------------------------------------------------------------------------------------------- */

/* What the database holds of the small tables, read as a whole at each commit. */
struct image_timer {
    uint64_t key, object, execution, ref;
    usec_t due;
    int what;
    struct bytes id, exec;
    const char *hub;
    bool is_stray; /* of no instance, an ended one, or an earlier execution */
    bool matched;
};
struct image_mail {
    uint64_t seq;
    const char *hub;
    struct bytes id;
};
struct image {
    sqlite3 *db;
    struct arena *arena;
    VEC(struct image_timer) timers;
    VEC(struct image_mail) mails;
    size_t trash;
};
/* False: no database. */
bool image_open(struct model *m, struct image *img);
void image_close(struct model *m, struct image *img);
void image_forget(struct model *m);
/* Status of an instance as stored; -1: none. *exec: its execution id (in the image's arena). */
int image_status(struct model *m, const struct image *img, const char *hub, struct bytes id,
                 struct bytes *exec);
/* What was touched, or everything; takes over what the server has chosen. */
void image_compare(struct model *m, const struct image *img, struct state *s, bool whole,
                   struct diff *d);
bool image_has_timer(const struct model *m, const struct image *img, const struct state *s,
                     const struct timer *t);
/* NULL: alike; else what is not. Takes over what the server has chosen. */
const char *event_differs(struct model *m, struct arena *a, struct inst *i, struct event *mine,
                          HistoryEvent *theirs);
void image_rest(struct model *m, const struct image *img, struct diff *d); /* at the end */

/* ---- work.c, answers.c, end.c ------------------------------------------------------------------------------------------ */

struct dispatch *dispatch_of_token(const struct model *m, struct bytes token);
struct dispatch *dispatch_last(const struct model *m, uint64_t inst);
struct dispatch *dispatch_by_number(const struct model *m, uint64_t number);
/* The dispatch that has the activity now, unsettled; NULL: none. */
struct dispatch *holder(const struct model *m, uint64_t task);
bool has_room(const struct model *m, const struct stream *s, bool turn);
usec_t backoff_of(const struct model *m, const struct abandon *b);
/* A turn of this execution is with a worker now. */
bool turn_in_flight(const struct model *m, const struct inst *i);
void count_unloaded_as_out(struct model *m);
void settle_all(struct model *m); /* dispatches whose turn or task is over */
void dispatch_return(struct model *m, struct dispatch *d, bool is_abandon);
/* Its worker asks for it once more: whatever it said before, it may come at once. */
void dispatch_again(struct model *m, struct dispatch *d);
struct stream *stream_by_id(const struct model *m, uint64_t id);
bool stream_takes_turn(const struct stream *s, const struct inst *i);
bool stream_takes_task(const struct stream *s, const struct task *t);
bool is_too_large(const struct model *m, const struct call *c);
unsigned breaks_of(const struct model *m, uint64_t item);
void breaks_add(struct model *m, uint64_t item);
const struct stream *stream_for_turn(const struct model *m, const struct inst *i);
const struct stream *stream_for_task(const struct model *m, const struct task *t);
void stream_count(const struct model *m, const struct stream *s, uint32_t *turns, uint32_t *tasks);
void waiters_due(struct model *m, const uint64_t *calls, size_t n);
void waiters_look(struct model *m);
void waiters_idle(struct model *m);
size_t waiters_count(const struct model *m);
/* An answer without a token, to an item that the same connection holds: which of the dispatches it answers. */
void tokenless_answered(struct model *m, const struct call *c);
struct dispatch *tokenless_refused(struct model *m, const struct call *c, struct bytes id,
                                   bool is_turn, int32_t task);
/* For messages: the first field that differs. */
const char *request_text(struct arena *a, void *request);
const char *reply_text(struct arena *a, void *want, void *got);
void replay_check(struct model *m, const struct inst *i);
const char *hub_name(struct model *m, const char *hub); /* as the server takes it; NULL: bad */

/* clang-format off */
#define REACH(R)                                                                                        \
    R(1_3_START, "1.3 none -> PENDING") R(1_3_RUNNING, "1.3 PENDING -> RUNNING")                         \
    R(1_3_SUSPEND, "1.3 -> SUSPENDED") R(1_3_RESUME, "1.3 SUSPENDED -> base")                            \
    R(1_3_TURN_SUSPENDED, "1.3 a turn commits while SUSPENDED")                                          \
    R(1_3_END_SUSPENDED, "1.3 a turn ends a SUSPENDED instance")                                         \
    R(1_3_CAN_SUSPENDED, "1.3 continue-as-new while SUSPENDED")                                          \
    R(1_3_COMPLETED, "1.3 -> COMPLETED") R(1_3_FAILED, "1.3 -> FAILED")                                  \
    R(1_3_TERMINATED, "1.3 -> TERMINATED by a turn") R(1_3_CANCELED, "1.3 -> CANCELED")                  \
    R(1_3_CAN, "1.3 continue-as-new") R(1_3_TERM_PENDING, "1.3 PENDING terminated by the server alone")  \
    R(1_3_TERM_QUEUED, "1.3 termination waits for a turn")                                               \
    R(1_3_REPLACE_RUNNING, "1.3 running-type replaced") R(1_3_REPLACE_TERMINAL, "1.3 terminal replaced") \
    R(1_3_PURGE, "1.3 purged") R(1_3_SERVER_FAILED, "1.3 FAILED by the server")                          \
    R(3_2_EXISTS, "3.2 refused: exists") R(3_2_SCHEDULED, "3.2 scheduled start")                         \
    R(3_4_BLOCKED, "3.4 a wait blocks") R(3_4_WOKEN, "3.4 a wait is woken")                              \
    R(4_3_PARTIAL, "4.3 chunk") R(4_3_PROCESSED, "4.3 numEventsProcessed")                               \
    R(4_3_HISTORY, "4.3 requiresHistory") R(4_5_LIMIT, "4.5 history limit")                              \
    R(5_2_TASK, "5.2 repeat of a task") R(5_2_TIMER, "5.2 repeat of a timer")                            \
    R(5_2_CHILD, "5.2 repeat of a child") R(5_2_SENT, "5.2 repeat of a sent event")                      \
    R(5_2_AGAIN, "5.2 a resolved id scheduled again")                                                    \
    R(5_2_TERMINATE, "5.2 target has a pending terminate")                                               \
    R(5_3_INVALID, "5.3 invalid action") R(5_3_BAD, "5.3 undecodable completion")                        \
    R(6_1_LATE, "6.1 result that nobody waits for")                                                      \
    R(6_1_OLD_TOKEN, "6.1 result under an earlier token")                                                \
    R(6_2_FIRED, "6.2 timer fired") R(6_2_SUSPENDED, "6.2 timer fired while SUSPENDED")                  \
    R(6_4_START, "6.4 child started") R(6_4_TERMINAL, "6.4 id of a terminal instance")                   \
    R(6_4_REPEAT, "6.4 running child of the same task") R(6_4_TAKEN, "6.4 id of another running one")    \
    R(6_4_COMPLETED, "6.4 child completed") R(6_4_FAILED, "6.4 child failed")                            \
    R(6_4_TERMINATED, "6.4 child terminated") R(6_4_REPLACED, "6.4 child replaced")                      \
    R(6_4_NO_PARENT, "6.4 parent gone, terminal or another execution")                                   \
    R(6_4_CAN, "6.4 child continued as new")                                                             \
    R(6_6_1, "6.6.1 never run") R(6_6_1_LOST, "6.6.1 first turn lost") R(6_6_2, "6.6.2 by its turn")     \
    R(6_6_2_FORCED, "6.6.2 worker did not terminate it") R(6_6_2_OUTCOME, "6.6.2 worker's outcome stands") \
    R(6_6_3, "6.6.3 new work dropped") R(6_6_4, "6.6.4 after the grace time") R(6_6_5, "6.6.5 recursive") \
    R(6_6_CAN, "6.7 termination meets continue-as-new")                                                  \
    R(6_7_CARRY, "6.7 carryover events") R(6_7_INBOX, "6.7 arrivals move along")                         \
    R(8_2_STALE, "8.2 stale completion") R(8_2_TOKENLESS, "8.2 token-less completion")                   \
    R(8_2_REFUSED, "8.2 token-less completion ignored")                                                  \
    R(8_5_STREAM, "8.5 given back: stream ended") R(8_5_ABANDON, "8.5 given back: abandoned")            \
    R(8_5_TIMEOUT, "8.5 given back: time-out") R(8_5_REFUSED, "8.5 given back: refused by the store")    \
    R(8_5_INVALID, "8.5 given back: INVALID_ARGUMENT") R(8_5_REDELIVERED, "8.5 delivered again")         \
    R(RECOVERED_WITH, "crash: unknown batch wholly there") R(RECOVERED_WITHOUT, "crash: wholly absent")  \
    R(RECOVERED, "crash: nothing unknown")
/* clang-format on */
#define REACH_ENUM(name, text) REACH_##name,
enum reach { REACH(REACH_ENUM) REACH_COUNT };
#undef REACH_ENUM
void reached(struct model *m, enum reach what);
#define HIT(r, name) reached((r)->m, REACH_##name)
