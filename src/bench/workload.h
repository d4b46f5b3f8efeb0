/* workload.h - what the benchmark's orchestrations do, as pure functions: from a turn's history to its actions.
 *
 * Every payload is a value: the JSON text "SSSSSSSS.K.PAD" of a seed that only its instance has, a number, and as many characters
 * as --payload says. The activity `step` gives the same back with K + 1. So an output shows that each step ran, in order, for this
 * instance and no other, with its payload whole. An orchestration is known by the name in its history and knows nothing else; a
 * history that could not have come about is an error, and makes the run invalid.
 * Tests: tests/unit/test_bench_workload.c
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/time.h"
#include "durabletask.pb-c.h"

#define WORKLOAD_ACTIVITY "step"
#define WORKLOAD_EVENT "go"
#define WORKLOAD_PAYLOAD_MAX MIB(32)

/* What the client does for one operation, in this order. */
enum bench_stage {
    STAGE_END,
    STAGE_START,      /* StartInstance */
    STAGE_WAIT_START, /* WaitForInstanceStart */
    STAGE_RAISE,      /* RaiseEvent */
    STAGE_WAIT,       /* WaitForInstanceCompletion: the output is checked */
};

struct workload {
    const char *name;          /* the orchestration's too */
    const char *orchestration; /* NULL: the same */
    const char *help;
    enum bench_stage stages[5];
    uint64_t result;  /* the number that its output has */
    bool takes_delay; /* its input's number is the time it sleeps, and its output's too */
};

extern const struct workload WORKLOADS[];
extern const size_t WORKLOAD_COUNT;
const struct workload *workload_find(const char *name); /* NULL: there is none */
const char *workload_orchestration(const struct workload *w);

struct value {
    struct bytes seed; /* eight characters */
    uint64_t number;
    struct bytes pad;
};

bool value_read(struct bytes text, struct value *out); /* views into `text` */
struct bytes value_text(struct arena *a, const struct value *v);
/* `pad` characters that depend on the seed. */
struct bytes value_pad(struct arena *a, struct bytes seed, size_t len);

/* Decides one turn. `resp` gets instance id and actions, which live in the arena; it may have none, when the turn brought nothing
 * that lets the orchestration go on. ERR_CORRUPT: the history cannot be. ERR_UNIMPLEMENTED: another orchestration than ours. */
MUST_CHECK enum err workload_decide(const OrchestratorRequest *req, struct arena *a,
                                    OrchestratorResponse *resp, struct error *err);
/* Runs the activity. ERR_CORRUPT: its input is no value. */
MUST_CHECK enum err workload_activity(const ActivityRequest *req, struct arena *a,
                                      struct bytes *result, struct error *err);
