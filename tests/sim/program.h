/* program.h - what the simulated orchestrations do: a program derived from the instance's id and input, by replay.
 *
 * Like an SDK's orchestrator it knows nothing but the events of the request; asked twice with the same events it
 * decides the same. What it sees must be a legal history: a resolution of something open, once, nothing behind the end.
 */
#pragma once

#include "base/arena.h"
#include "base/time.h"
#include "durabletask.pb-c.h"

struct program_options {
    unsigned ids;        /* instances that clients start are i0 .. i<ids-1> */
    unsigned events_max; /* of newEvents that are looked at (numEventsProcessed); 0: all */
    bool
        is_go; /* habits of Go: random order of actions, two completions, no action when terminated */
    uint64_t salt;  /* of the order */
    unsigned steps; /* actions after which a program ends for good; 0: as usual */
};

/* Fills the actions and customStatus of *out; NULL, or what is wrong with the history. */
const char *program_answer(struct arena *a, const OrchestratorRequest *r,
                           const struct program_options *opts, OrchestratorResponse *out);
/* Replays a whole history (at the end of a run). */
const char *program_check(struct arena *a, struct bytes id, HistoryEvent *const *events, size_t n,
                          bool is_over);

/* Tags and a trace context, or neither, by `luck`; all generated entry types of tags are alike. */
struct labels {
    size_t n_tags;
    void *tags; /* an array of pointers */
    TraceContext *trace;
};
struct labels program_labels(struct arena *a, uint64_t luck);
/* Failure details of `levels` levels. */
TaskFailureDetails *program_failure(struct arena *a, unsigned levels);
OrchestratorAction *program_action(struct arena *a, int32_t id, int kind);
