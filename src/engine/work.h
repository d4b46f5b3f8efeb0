/* work.h - work items: what is ready, who takes it, what is in flight.
 *
 * Ready work waits by group (hub, kind, name, version), oldest first. A stream is one worker's open call; it
 * takes items of the groups its filters match, up to its limits. All of it is memory: the store's inbox and task
 * rows are the truth, from which recovery.c fills it again. Changed only after a commit (output commit) or by control
 * commands; steps only look. Engine's thread only.
 * Tests: tests/unit/test_dispatch.c
 */
#pragma once

#include "base/hashmap.h"
#include "base/heap.h"
#include "base/list.h"
#include "engine/command.h"
#include "engine/token.h"

enum work_kind { WORK_TURN = 1, WORK_TASK = 2 };
#define WORK_KINDS 3 /* kinds are indexes 1.. */

struct dispatch;
struct group;
struct hub;
struct object;
struct work_stream;

enum work_state {
    WORK_READY,   /* in its group's heap */
    WORK_PAUSED,  /* nobody may take it before `until` (or nobody who is there) */
    WORK_FLIGHT,  /* with `stream` */
    WORK_COMMAND, /* an internal command decides about it */
};

/* The batch of a turn that is or was out: what its completion settles. */
struct turn {
    uint64_t execution;
    uint64_t row;   /* history row it will become */
    usec_t started; /* timestamp of its orchestratorStarted */
    int64_t first,
        last; /* inbox seqs, inclusive; rows in between meant for other executions are skipped and dropped */
    uint32_t events; /* with the orchestratorStarted */
    bool exact;      /* to be repeated exactly (it went out token-less) */
    void *chunks;    /* stored partial completions, the kind's */
    void (*chunks_free)(void *chunks);
};

#define WORK_SHUNNED_MAX 4

struct work {
    struct hash_node node;
    uint8_t kind;  /* enum work_kind */
    uint8_t state; /* enum work_state */
    bool
        recovered; /* was ready or in flight when the server started: counts as having been out token-less */
    bool notify_return; /* the kind wants to know when the turn comes back unsettled */
    uint64_t key;       /* turn: object key; task: task key */
    uint64_t object;    /* whose it is */
    struct group *group;
    uint64_t tokenless_key; /* turns that are or were out */
    uint64_t answer_hash;   /* on a token-less stream: of what its answer will name */
    bool waits_for_room;    /* PAUSED: a worker that may have it is full */
    uint64_t order;         /* place in line; kept over redeliveries */
    struct heap_node ready;
    struct list_node link; /* FLIGHT: of the stream; PAUSED: of the group */
    struct heap_node timer;
    usec_t until; /* monotonic: FLIGHT time-out, end of PAUSED; USEC_NEVER */
    struct work_stream *stream;
    uint64_t nonce;    /* of the latest dispatch; 0: never dispatched */
    usec_t hold_until; /* monotonic: not redelivered before (spec 8.2) */
    usec_t backoff;
    usec_t shun_until; /* monotonic: those who abandoned it do not get it before */
    uint64_t shunned
        [WORK_SHUNNED_MAX]; /* ids of streams that gave it back; of more of them it waits for all */
    uint8_t shunned_count;
    uint16_t breaks; /* dispatches that ended with an oversize completion or item (spec 5.3, 8.4) */
    struct turn turn; /* WORK_TURN, once dispatched (row != 0) */
};

/* ---- streams --------------------------------------------------------------------------------------- */

/* Names (and versions) of one kind that a stream takes. */
struct work_filter {
    struct bytes name;
    const struct bytes *versions; /* "" is: no version */
    size_t version_count;         /* 0: any version */
};

struct work_stream_options {
    struct bytes hub;
    uint64_t id;                   /* unique in the process, never 0 */
    uint64_t connection;           /* unique in the process */
    uint32_t capacity[WORK_KINDS]; /* 0: no limit */
    uint32_t capacity_total;       /* over all kinds; 0: no limit */
    bool filtered;                 /* else everything matches */
    const struct work_filter *filters[WORK_KINDS];
    size_t filter_count[WORK_KINDS];
    bool token_less;
    struct bytes worker; /* identity for stickiness and logs; not trusted */
    struct bytes worker_instance_id, worker_id, user_agent, x_user_agent, peer; /* labels */
};

/* What the shell gives to a stream. send() takes the item, which a kind's turn_build or task_build made. */
struct work_sink {
    void (*send)(void *arg, void *item);
    size_t (*unsent)(void *arg);
    /* The engine ends the stream (drain: OK; hub gone: UNAVAILABLE). The stream is gone when it returns. */
    void (*end)(void *arg, enum err status, const char *message);
    void *arg;
};

/* ERR_NOT_FOUND: unknown hub with hub.auto_create off. ERR_UNAVAILABLE: draining. Options are copied. */
MUST_CHECK enum err work_stream_open(struct engine *e, const struct work_stream_options *opts,
                                     const struct work_sink *sink, struct error *err);
/* Gives its items back at once, in their old places, and calls the sink's end() with OK. Unknown ids are fine. */
void work_stream_end(struct engine *e, uint64_t id);
void work_stream_writable(struct engine *e, uint64_t id);
/* A completion with a token came on this connection: its streams are not token-less after all. */
void work_connection_has_tokens(struct engine *e, uint64_t connection);
/* The item on a token-less stream of the hub, best of this connection, that an answer naming `id` (and for a task its `ref`) is
 * about. Counts as answered. kind 0: none. Without the store. */
struct item_ref work_answered(struct engine *e, const struct command *cmd, uint8_t kind,
                              struct bytes id, int64_t ref);
/* Calls fn with the token of each item that streams of this connection hold. They count as answered. */
typedef void work_item_fn(void *arg, uint8_t kind, struct bytes hub, struct bytes token);
void work_items_of_connection(struct engine *e, uint64_t connection, work_item_fn *fn, void *arg);
/* Gives one item back with backoff (abandon). False: the token is stale. */
bool work_abandon(struct engine *e, const struct item_ref *item);
/* The same if it is an item of that hub. */
bool work_abandon_in(struct engine *e, struct bytes hub, const struct item_ref *item);

typedef void work_stream_fn(void *arg, const struct work_stream_options *o, usec_t connected_wall,
                            const uint32_t unsettled[WORK_KINDS]);
void work_streams_each(struct engine *e, work_stream_fn *fn, void *arg);
