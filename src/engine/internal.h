/* internal.h - what the files of src/engine share; no other folder includes it.
 *
 * One struct engine, one thread. engine.c runs batches, object.c is the cache, step.c what steps may do, effects.c what
 * follows a commit, dispatch.c, audience.c and stream.c hand out work, tokenless.c knows workers without tokens,
 * waiters.c, timers.c, recovery.c as their names say.
 */
#pragma once

#include "base/arena.h"
#include "base/hashmap.h"
#include "base/heap.h"
#include "base/list.h"
#include "engine/engine.h"

/* ---- hubs, groups --------------------------------------------------------------------------------- */

struct hub {
    struct list_node link;   /* engine.hubs, in order of making */
    struct list_node active; /* engine.active_hubs: it may have something to hand out */
    struct hash_node by_name, by_id;
    uint32_t id; /* 0: not in the store (yet), and not in engine.hubs_by_id */
    char *name;
    struct list streams, groups, audiences;
    struct heap runnable
        [WORK_KINDS]; /* audiences with ready items and no known lack of room, by their oldest item */
    uint64_t waiters;
    unsigned next_kind; /* rotation */
};

struct group {
    struct list_node link; /* hub.groups */
    struct hash_node by_name;
    struct audience *audience;
    struct list_node member;  /* audience.members */
    struct heap_node waiting; /* audience.waiting: it has something ready */
    struct hub *hub;
    uint32_t number; /* in the store; 0: not there (any more) */
    uint8_t kind;    /* enum work_kind */
    char *name, *version;
    size_t name_len, version_len;
    struct heap ready; /* struct work by order */
    struct list paused;
    size_t paused_for_room;
    size_t in_memory; /* ready, paused and in flight */
    bool
        more_in_store; /* tasks: rows behind `cursor` are not in memory; turns: some were not taken in */
    struct list_node refill; /* engine.refills */
    struct list_node wanted; /* turns: engine.wanted */
    uint64_t
        cursor; /* tasks: the last row taken in; turns: the first object that was not, 0: none */
};

/* The streams that match a group: audience.c. */
struct audience {
    struct list_node link;     /* hub.audiences */
    struct heap_node runnable; /* hub.runnable[kind] */
    struct hub *hub;
    uint8_t kind;
    bool blocked;                 /* none of them has room */
    struct work_stream **streams; /* in order of opening */
    size_t stream_count, stream_cap;
    struct list members; /* its groups */
    size_t member_count;
    struct heap waiting;    /* those with something ready, by their oldest item */
    size_t paused_for_room; /* items of its groups */
};

struct work_stream {
    struct list_node link; /* hub.streams */
    struct list_node all;  /* engine.streams */
    struct hash_node by_id;
    struct heap_node ping;
    usec_t ping_at;
    struct work_stream_options opts;
    struct arena *arena; /* owns opts */
    struct work_sink sink;
    struct hub *hub;
    struct list flight; /* struct work */
    uint32_t unsettled[WORK_KINDS];
    bool full[WORK_KINDS]; /* lacked room when it was looked at */
    uint64_t last_used;
    uint64_t worker_hash;
    usec_t connected; /* wall */
};

/* ---- effects ---------------------------------------------------------------------------------------- */

enum effect_type {
    EFFECT_TURN_READY,
    EFFECT_TURN_SETTLE,
    EFFECT_TURN_AGAIN,
    EFFECT_TURN_ABANDON,
    EFFECT_TURN_NOTIFY,
    EFFECT_TURN_DECIDE,
    EFFECT_TASK_READY,
    EFFECT_TASK_END,
    EFFECT_TIMER,
    EFFECT_WAIT
};

struct effect {
    enum effect_type type;
    bool recovered;
    uint64_t key, object;
    usec_t due;
    struct group *group;
    struct command *cmd;
    uint64_t wait_id;
    uint32_t hub, mode;
    const struct object_kind *kind;
};

/* What a batch steps, one after the other. */
enum unit_type {
    UNIT_COMMAND,
    UNIT_CONTROL,
    UNIT_TIMER,
    UNIT_MAIL,
    UNIT_TRASH,
    UNIT_CHECK,
    UNIT_RETURNED,
    UNIT_RECUT,
    UNIT_DROP
};

struct unit {
    enum unit_type type;
    struct command *cmd;
    uint64_t key; /* object (CHECK, RETURNED, RECUT), timer, mail, trash */
    usec_t due;   /* timer */
    bool recovered;
    uint32_t group; /* DROP */
    struct store_mail mail;
    struct store_trash trash;
    enum err status;
    bool is_out; /* of the batch: it failed for good */
};

struct unit_list {
    struct unit *items;
    size_t count, cap;
};

struct timer_entry {
    struct heap_node node;
    usec_t due;
    uint64_t key;
};

/* The waits on one object: there may be very many, so none is looked for among the others. */
struct awaited {
    struct hash_node node;
    struct list waiters; /* oldest first */
    size_t count;        /* with those that are being answered */
    struct hub *hub;
    uint8_t kind;
    uint32_t id_len;
    char id[];
};

struct waiter {
    struct hash_node by_id;
    struct list_node same; /* of->waiters */
    struct awaited *of;
    struct command *cmd;
    uint64_t wait_id;
    uint32_t mode;
};

struct engine {
    struct store *store;
    struct store_reader *reader;
    const struct settings *settings;
    const struct clock *clock;
    struct prng *prng;
    const struct object_kind *const *kinds;
    const struct object_kind *front;
    struct token_keys *tokens;
    void (*on_commit)(void *arg, usec_t took, uint64_t commands, bool ok);
    void *on_commit_arg;

    /* queue and batch */
    struct command *head, **tail;
    size_t queued_bytes;
    struct unit_list pending; /* internal units for the next batch */
    struct unit_list units;   /* the batch now stepped */
    bool has_steps;           /* some of them need a transaction */
    struct step step;
    struct arena *arena;
    struct effect *effects;
    size_t effect_count, effect_cap;
    struct list dirty; /* struct object */
    uint64_t *touched; /* keys of objects that were written, for their waiters */
    size_t touched_count, touched_cap;
    bool is_healthy;
    bool is_reading;        /* a transaction is open for what follows a batch */
    usec_t retry_at;        /* monotonic */
    uint32_t failed_in_row; /* batches, since the last one that was committed */
    usec_t wall, now;       /* of this run: wall, monotonic */
    usec_t started;         /* monotonic */

    /* object cache */
    struct hashmap by_key, by_id;
    struct list lru;
    size_t cache_bytes;

    /* timers */
    struct heap timers;
    usec_t timers_due; /* rows up to (timers_due, timers_key) are in the heap */
    uint64_t timers_key;
    bool timers_all; /* no row beyond */

    bool mail_waits, trash_waits;
    usec_t damage_quiet_until;        /* monotonic */
    bool names_damaged;               /* of hubs or groups: not all can be read */
    usec_t orphans_quiet_until;       /* monotonic */
    uint64_t mail_after, trash_after; /* those before could not be handled or read */

    /* waiters */
    struct hashmap awaited, waiters_by_id;

    /* dispatch */
    struct list hubs, active_hubs;
    struct hashmap hubs_by_name, hubs_by_id;
    struct hashmap groups;
    struct hashmap works;
    struct hashmap streams;
    struct list stream_list;
    struct heap work_timers; /* struct work by until */
    struct heap pings;
    uint64_t next_order, next_use;
    uint64_t ready[WORK_KINDS], flight[WORK_KINDS], paused;
    bool draining;
    struct hashmap tokenless;
    struct list tokenless_expiry, tokenless_old;

    /* recovery */
    bool recovering_turns;
    bool scans_all;         /* else: for the groups in `wanted` */
    uint64_t recover_after; /* object key */
    bool rescan_turns;      /* all of it once more, when this scan is through */
    struct list refills;    /* groups with room in memory and more in the store */
    struct list wanted;     /* those of turns that had room all through this scan */

    struct engine_stats stats;
};

/* engine.c */
void engine_pend(struct engine *e, const struct unit *u);
/* Counts something that was dropped because its object is not there (a row deleted by hand); warns, at most once a minute. */
void engine_orphan(struct engine *e, const char *what, uint64_t object);
void step_init(struct engine *e, struct step *s);

/* damage.c: what is read in order goes on behind a place that cannot be read. */

/* Reads one row behind `after`. ERR_CORRUPT: it cannot. */
typedef enum err damage_probe_fn(void *arg, uint64_t after, struct error *err);
/* Moves *after, behind which nothing can be read, to the next place behind which something can (or nothing is there any more).
 * ERR_CORRUPT: there is none; others: the store is away. */
MUST_CHECK enum err damage_skip(damage_probe_fn *probe, void *arg, uint64_t *after,
                                struct error *err);
/* Counts it; logs it at most once a minute. */
void damage_log(struct engine *e, const char *what, const struct error *cause);

/* object.c */
MUST_CHECK enum err object_by_key(struct step *s, uint64_t key, struct object **out,
                                  struct error *err);
void cache_drop(struct engine *e); /* everything; nothing may be dirty any more */
void cache_trim(struct engine *e); /* down to the limits; skips dirty objects */
MUST_CHECK enum err cache_flush(struct step *s, struct error *err); /* writes dirty rows */
uint64_t object_id_hash(uint32_t hub, uint8_t kind, struct bytes id);

/* effects.c */
struct effect *effect_add(struct engine *e, enum effect_type type);
void effects_perform(struct engine *e);

/* dispatch.c */
struct hub *hub_by_name(struct engine *e, struct bytes name, bool create);
struct hub *hub_by_id(struct engine *e, uint32_t id);
void hub_set_id(struct engine *e, struct hub *h, uint32_t id);
/* Frees the record of a hub that is not in the store and that nobody waits on: clients may ask for any name. */
void hub_forget_unused(struct engine *e, struct hub *h);
struct group *group_get(struct engine *e, struct hub *hub, uint8_t kind, struct bytes name,
                        struct bytes version);
void groups_forget_numbers(
    struct engine *e); /* after an undone batch: numbers may not be in the store */
struct work *work_find(const struct engine *e, uint8_t kind, uint64_t key);
struct work *work_add(struct engine *e, uint8_t kind, uint64_t key, uint64_t object,
                      struct group *g);
void work_end(struct engine *e, struct work *w);
void work_give_back(struct engine *e, struct work *w,
                    usec_t hold_until); /* READY again, old place */
void work_make_ready(struct engine *e, struct work *w);
void work_set_timer(struct engine *e, struct work *w, usec_t until);
bool dispatch_run(struct engine *e); /* hands out what can be handed out; true: not all of it yet */
void dispatch_timeouts(struct engine *e);
usec_t dispatch_next(const struct engine *e); /* monotonic */
void dispatch_free(struct engine *e);
heap_less_fn work_less_order, work_less_until, audience_less, stream_less_ping;

/* audience.c */
/* The group where its oldest ready item belongs: before and after that item changes. */
void group_unplace(struct group *g);
void group_place(struct engine *e, struct group *g);
void audience_enter(struct group *g); /* of a new group */
void audience_leave(struct group *g);
bool audience_has_room(struct engine *e, struct audience *a); /* false: it is blocked now */
void audience_stream_opened(struct engine *e, struct work_stream *st);
void audience_stream_closed(struct engine *e, struct work_stream *st);
/* The stream has room again for that kind. */
void audience_look_again(struct engine *e, const struct work_stream *st, uint8_t kind);
void audience_free(struct audience *a);

/* stream.c */
bool stream_matches(const struct work_stream *st, const struct group *g);
bool stream_has_room(struct engine *e, struct work_stream *st, uint8_t kind);
void stream_gained_room(struct engine *e, struct work_stream *st, uint8_t kind);
void stream_end_all(struct engine *e, enum err status, const char *message);
void stream_pings(struct engine *e);
void stream_sent(struct engine *e,
                 struct work_stream *st); /* an item went out: the ping waits again */

/* tokenless.c */
uint64_t tokenless_key(const struct hub *hub, struct bytes id);
void tokenless_dispatched(struct engine *e, uint64_t key, uint64_t connection, uint64_t execution,
                          uint64_t row);
/* The stream it went out on has ended. */
void tokenless_lost(struct engine *e, uint64_t key, uint64_t connection);
/* False: not on this connection now; *until is when to look again (USEC_NEVER: when something changes). */
bool tokenless_may_dispatch(struct engine *e, uint64_t key, uint64_t connection, usec_t *until);
void tokenless_settled(struct engine *e, uint64_t key, uint64_t execution, uint64_t row);
void tokenless_expire(struct engine *e);
usec_t tokenless_next(const struct engine *e);
void tokenless_free(struct engine *e);

/* waiters.c */
void waiter_register(struct engine *e, const struct effect *fx);
void waiters_wake(struct engine *e, struct object *o);
void waiters_check(struct engine *e); /* all of them, after the store was away */
void waiters_end_all(struct engine *e, enum err status, const char *message);
void waiters_free(struct engine *e);

/* timers.c */
MUST_CHECK enum err timers_load(struct engine *e, struct error *err); /* when the heap runs empty */
void timers_added(struct engine *e, usec_t due, uint64_t key);
void timers_collect(struct engine *e, struct unit_list *units, size_t max);
void timers_reset(struct engine *e);
usec_t timers_next(const struct engine *e); /* wall; USEC_NEVER */
bool timers_unread(const struct engine *e); /* the next one is not known before timers_load() */

/* recovery.c */
MUST_CHECK enum err recovery_start(struct engine *e, struct error *err);
/* Numbers of hubs and groups. */
MUST_CHECK enum err recovery_names(struct engine *e, struct error *err);
bool recovery_step(struct engine *e); /* true: more to do */
/* The group has room again for what waits in the store. */
void recovery_want(struct engine *e, struct group *g);
/* The object has a turn ready, and its group no room in memory. */
void recovery_refused(struct group *g, uint64_t object);
bool recovery_refill(struct engine *e); /* true: more to do */

void unit_push(struct unit_list *l, const struct unit *u);
