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
    DT_PURGE,         /* none */
    DT_COMPLETE_TURN, /* OrchestratorResponse */
    DT_COMPLETE_TASK, /* ActivityResponse */
    DT_BAD_TURN,      /* struct dt_bad */
    DT_BAD_TASK,      /* struct dt_bad */
    DT_HISTORY,       /* struct dt_history */
};

#define DT_STATUS_BIT(status) (1u << (unsigned)(status))

struct dt_start {
    const CreateInstanceRequest *request;
    usec_t start_at; /* 0: not scheduled */
    bool has_policy;
    uint32_t replaceable; /* DT_STATUS_BIT()s */
    int old_action;       /* field 2 of GO's older policy message: 1 IGNORE, 2 TERMINATE; 0: none */
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
