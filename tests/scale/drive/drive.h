/* drive.h - clients and workers by the thousand against a Durable Task server, for `make scale`.
 *
 *   drive ROLE --server HOST:PORT [--KEY VALUE]...
 *
 * One thread, one role a process: what a role does is said atop its file. The keys are in OPTIONS (main.c). A role prints
 * a JSON object a line: when it has reached a point that the runner waits for, and at its end. It goes on
 * when a line comes on standard input, and ends early when that is closed.
 * Exit status: 0, or 1 when an answer was wrong or an error came that --allow does not name.
 * Tests: tests/suites/46-scale.sh runs every role.
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "client/channel.h"
#include "durabletask.pb-c.h"
#include "loop/loop.h"
#include "wire/wire.h"

#define DT_PATH(m) "/TaskHubSidecarService/" m
#define CODES 17

extern const struct wire_limits DRIVE_LIMITS; /* none to speak of: work items may be huge */

struct options {
    const char *server, *hub, *name, *input, *expect, *prefix, *allow;
    uint64_t connections, concurrency, count, rate, orchestrations, activities, bytes;
    uint64_t duration_ms, delay_ms, from;
    uint64_t verify, wait, names;
};

struct link; /* a connection */

/* In us; sorted when they are printed. */
struct latencies {
    uint32_t *us;
    size_t count, cap;
};

struct drive {
    struct loop *loop;
    const struct clock *clock;
    struct options opts;
    struct link *links;
    size_t link_count, connected;   /* at least once */
    uint64_t codes[CODES];          /* answers by gRPC status, of the calls the role counts */
    uint64_t wrong;                 /* what must not be */
    uint64_t lost;                  /* connections and streams that ended unasked */
    void (*go)(struct drive *d);    /* a line came on standard input */
    void (*ended)(struct drive *d); /* standard input was closed; NULL: the role ends */
};

struct link {
    struct drive *drive;
    struct channel *channel;
    size_t index;
    void *role;
};

/* ---- calls.c ------------------------------------------------------------------------------------------ */

/* Opens --connections of them; fn once all are there. */
void links_open(struct drive *d, void (*fn)(struct drive *d));
void links_close(struct drive *d);
struct link *link_of(struct drive *d, uint64_t n); /* in turn */

typedef void answered_fn(void *arg, int status, struct bytes message, struct bytes answer);
/* A unary call; fn once, never from within. Without a connection it ends with UNAVAILABLE. */
void link_call(struct link *k, const char *path, const ProtobufCMessage *request, answered_fn *fn,
               void *arg);
/* Server streaming: got() each message, then fn. NULL: there is no connection. The caller has a reference. */
struct rpc_call *link_stream(struct link *k, const char *path, const ProtobufCMessage *request,
                             const struct rpc_client_events *ev);

/* Calls fn(arg) after that time. */
void drive_after(struct drive *d, usec_t wait, void (*fn)(void *arg), void *arg);
usec_t drive_now(const struct drive *d); /* monotonic, now */
/* Counts an answer. True: OK. An error that is not allowed is told, and counted as wrong. */
bool drive_counts(struct drive *d, int status, struct bytes message, const char *what);
bool drive_allows(const struct drive *d, int status);
PRINTF_LIKE(2, 3)
void drive_wrong(struct drive *d, const char *fmt, ...);
void drive_end(struct drive *d); /* leaves the loop */

void latency_note(struct latencies *l, usec_t took);
void latency_print(struct latencies *l, const char *name); /* `"name":{...},` in ms */
void codes_print(const struct drive *d);                   /* `"codes":{...},` */

/* The id of number n: --prefix and n. */
struct id {
    char text[96];
};
struct id drive_id(const struct drive *d, uint64_t n);

/* ---- program.c ---------------------------------------------------------------------------------------- */

/* What a history says so far. */
struct tally {
    struct arena *arena; /* of the strings */
    struct bytes name, input;
    uint64_t scheduled, completed, timers, fired, raised;
    uint64_t next_event; /* events are numbers, one after the other */
    bool has_started, is_out_of_order;
    struct bytes bad_event;
};

void tally_event(struct tally *t, const HistoryEvent *ev);
/* The actions that follow, in the arena. */
void program_decide(struct tally *t, usec_t wall, struct arena *a, OrchestratorResponse *resp);

/* ---- roles -------------------------------------------------------------------------------------------- */

void role_worker(struct drive *d);
void role_start(struct drive *d);
void role_wait(struct drive *d);
void role_raise(struct drive *d);
void role_idle(struct drive *d);
void role_big(struct drive *d);
void role_flood(struct drive *d);
void role_check(struct drive *d);
void role_read(struct drive *d);
/* Their last line. */
void worker_report(struct drive *d);
void start_report(struct drive *d);
void wait_report(struct drive *d);
void raise_report(struct drive *d);
void idle_report(struct drive *d);
void big_report(struct drive *d);
void flood_report(struct drive *d);
