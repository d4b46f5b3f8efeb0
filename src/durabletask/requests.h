/* requests.h - the commands of orchestrations: what the RPC handlers put into struct command.
 *
 * Made on a loop thread from a decoded and validated request; everything lives in the command's arena. Hub names are lowercase,
 * ids have been checked for form and length.
 */
#pragma once

#include "durabletask.pb-c.h"
#include "engine/command.h"

enum dt_command {
    DT_START,         /* struct dt_start */
    DT_GET,           /* struct dt_get */
    DT_WAIT,          /* struct dt_get */
    DT_RAISE,         /* RaiseEventRequest */
    DT_TERMINATE,     /* TerminateRequest */
    DT_SUSPEND,       /* SuspendRequest */
    DT_RESUME,        /* ResumeRequest */
    DT_PURGE,         /* struct dt_purge */
    DT_COMPLETE_TURN, /* OrchestratorResponse */
    DT_COMPLETE_TASK, /* ActivityResponse */
    DT_BAD_TURN,      /* struct dt_bad */
    DT_BAD_TASK,      /* struct dt_bad */
    DT_HISTORY,       /* struct dt_history */
    DT_LIST,          /* struct dt_list */
    DT_RESTART,       /* RestartInstanceRequest */
    DT_SKIP_GRACEFUL, /* SkipGracefulOrchestrationTerminationsRequest */
};

#define DT_STATUS_BIT(status) (1u << (unsigned)(status))

struct dt_start {
    const CreateInstanceRequest *request;
    usec_t start_at; /* 0: not scheduled */
    bool has_policy;
    uint32_t replaceable; /* DT_STATUS_BIT()s */
    int old_action;       /* field 2 of GO's older policy message: 1 IGNORE, 2 TERMINATE; 0: none */
};

/* Which instances: all of what is set holds. */
struct dt_filter {
    uint32_t statuses; /* DT_STATUS_BIT()s; 0: any */
    usec_t from,
        to; /* created, or completed; from inclusive, to exclusive; INT64_MIN, INT64_MAX: not set */
    struct bytes prefix; /* of the id; none or empty: any */
    bool ended;          /* terminal ones only */
};

/* What a list is of; `by_completed` decides which time it goes by. */
enum dt_list_of { DT_LIST_STATES, DT_LIST_PAYLOADS, DT_LIST_IDS };

/* A page of a list, in the order of (time, id). Needs no engine. */
struct dt_list {
    struct dt_filter filter;
    enum dt_list_of of;
    bool by_completed;
    size_t count_max;  /* on the page */
    usec_t after_time; /* behind this place; INT64_MIN: from the start */
    struct bytes after_id;
};

/* The reply: this, then the id of the place to go on behind, then the states or ids as fields 1 of the answer. */
struct dt_listed {
    bool has_more;
    usec_t time;
    size_t id_len;
    uint64_t count;
};

/* Removes those of the ids that have ended, and answers PurgeInstancesResponse. A step removes so many of their descendants at most:
 * isComplete false then says that there are more. */
#define DT_PURGE_STEP 500
struct dt_purge {
    const struct bytes *ids;
    size_t count;
    bool recursive; /* their ended descendants first */
    const struct dt_filter
        *filter; /* those only of which it holds, by the time of creation; NULL: all */
};

/* Modes of a wait; as of engine/kind.h bit 1 is "with payloads". */
enum dt_wait_mode { DT_WAIT_COMPLETION = 0, DT_WAIT_START = 1, DT_WAIT_PAYLOADS = 2 };

struct dt_get {
    bool payloads;
    uint32_t mode;    /* DT_WAIT */
    uint64_t wait_id; /* DT_WAIT */
};

/* A completion that could not be decoded or was too large to keep (spec 5.3). */
struct dt_bad {
    struct bytes token; /* none or empty: token-less */
    bool has_task;
    int32_t task_id;
    bool is_too_large;
    bool has_no_room;   /* nothing is wrong with it: there was no memory for it */
    const char *reason; /* what is wrong with it */
};

struct dt_history {
    struct bytes execution_id; /* none: the current one */
    bool is_first;
    uint64_t execution;        /* later pages */
    uint64_t from_row, to_row; /* to_row 0: the end as of now */
};

/* Reply of DT_HISTORY: what the handler needs, then the chunk. */
struct dt_history_page {
    uint64_t execution, next_row, to_row; /* next_row > to_row: that was all */
    uint64_t chunk_len; /* bytes behind this struct: events as fields of HistoryChunk */
};
