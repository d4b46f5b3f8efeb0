/* engine.h - the core: batches of commands over one store shard, in one thread, without I/O of its own.
 *
 * engine_run() takes all submitted commands, due timers, mail and clean-up steps, steps them in one transaction,
 * commits it, and only then performs the effects: answers, work to streams, timers. Clock, randomness and store are passed
 * in; nothing here starts a thread, sleeps or reads a clock of its own, so a simulator can drive it.
 *
 * Failure: a step that fails before it wrote anything answers its error and the batch goes on. One that fails later undoes the batch, which is then
 * stepped again with a savepoint each. A commit that fails answers UNAVAILABLE to all, drops the cache and reopens the store
 * (retried every 250 ms; until then every command answers UNAVAILABLE). Stored bytes that are damaged fail what they concern:
 * a table that is read in order is read on behind the place (damage.c).
 * Tests: tests/unit/test_engine.c, tests/sim
 */
#pragma once

#include "base/limits.h"
#include "base/prng.h"
#include "engine/command.h"
#include "engine/kind.h"
#include "store/store.h"

struct engine;

struct engine_options {
    struct store *store; /* borrowed */
    const struct settings *settings;
    const struct clock *clock;
    struct prng *prng;
    const struct object_kind *const *kinds; /* NULL-terminated */
    const struct object_kind *front;        /* builds pings */
};

struct engine *engine_new(const struct engine_options *opts);
/* Answers what is queued or waiting with UNAVAILABLE. */
void engine_free(struct engine *e);

/* Takes the command; it comes back through its done(). */
void engine_submit(struct engine *e, struct command *cmd);
/* Bytes of the commands that no batch has taken yet. */
size_t engine_queued_bytes(const struct engine *e);
/* One batch. True: there is more to do at once. */
bool engine_run(struct engine *e);
/* How long it may sleep without new commands; at most 1 s (wall clocks step). */
usec_t engine_idle_time(struct engine *e);

/* No new work goes out; GetWorkItems streams and waits are refused by the front end. */
void engine_drain(struct engine *e);
/* Ends all waits with UNAVAILABLE and all streams with OK. */
void engine_drain_end(struct engine *e);
/* For front ends: completions are matched by them. The engine's thread only. */
struct token_keys *engine_tokens(struct engine *e);
size_t engine_in_flight(const struct engine *e);
bool engine_is_healthy(const struct engine *e); /* the store takes commits */

/* Deadline of a wait: answers as spec 3.4 says. Unknown ids are fine. Control commands' helpers. */
void engine_wait_expire(struct engine *e, uint64_t wait_id);
void engine_wait_cancel(struct engine *e, uint64_t wait_id);

struct engine_stats {
    uint64_t batches, commands, commits_failed;
    uint64_t ready[WORK_KINDS], flight[WORK_KINDS], paused;
    uint64_t waiters, timers, streams, objects_cached, objects_cached_bytes;
    uint64_t redelivered_lost, redelivered_timeout, redelivered_abandon, stale_completions;
    uint64_t damaged_reads; /* of tables that go on behind what cannot be read */
    uint64_t orphans; /* timers, inboxes and activities dropped because their object was gone */
    uint64_t scanned; /* objects that scans for ready turns came across */
    usec_t last_commit_time;
};
void engine_stats(struct engine *e, struct engine_stats *out);
typedef void engine_count_fn(void *arg, struct bytes hub, uint8_t kind, int32_t status,
                             int64_t count);
MUST_CHECK enum err engine_counts(struct engine *e, engine_count_fn *fn, void *arg,
                                  struct error *err);
typedef void engine_ready_fn(void *arg, struct bytes hub, uint8_t kind, uint64_t ready);
void engine_ready_each(struct engine *e, engine_ready_fn *fn, void *arg);
/* Called after each commit attempt with its duration and number of commands (metrics); may be NULL. */
void engine_on_commit(struct engine *e,
                      void (*fn)(void *arg, usec_t took, uint64_t commands, bool ok), void *arg);
