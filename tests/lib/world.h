/* world.h - the engine with the orchestration kind in one thread: memory store, a clock that the test turns, workers that
 * are arrays of items. For unit tests of the core without sockets or gRPC.
 */
#pragma once

#include "durabletask.pb-c.h"
#include "durabletask/requests.h"
#include "durabletask/service.h"
#include "engine/engine.h"

struct world_item {
    struct arena *arena;
    WorkItem *item;
    struct bytes token;
};

struct world_stream {
    struct world *w;
    uint64_t id;
    struct world_item **items;
    size_t count, taken;
    size_t unsent; /* what the sink claims */
    bool ended;
    enum err end_status;
};

struct world {
    struct settings settings;
    struct clock clock;
    usec_t wall, mono;
    struct prng prng;
    struct store *store;
    struct engine *e;
    struct arena *arena;
    char *url;
    const char *vfs;
    char dir[64], path[128]; /* of world_new_file() */
    const char *hub;         /* of commands and streams; NULL: default */
    bool is_held;            /* commands are queued only, until world_run() */
    size_t cmd_bytes;        /* what commands claim to hold */
    uint64_t asked_for_room; /* how often the engine asked a stream for its unsent bytes */
    uint64_t next_id;
    struct world_stream **streams;
    size_t stream_count;
};

/* `url` NULL: memory. */
struct world *world_new(const char *url);
/* A file in a directory of its own, which world_free() removes; `vfs` NULL: the default. */
struct world *world_new_file(const char *vfs);
/* The first number that a statement gives, on a connection of its own; it may also change something. Files only. */
int64_t world_sql(struct world *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void world_free(struct world *w);
void world_restart(struct world *w); /* as after a crash: nothing is closed cleanly but the file */
void world_run(struct world *w);     /* until there is nothing to do */
void world_advance(struct world *w, usec_t by); /* both clocks, then runs */

struct world_answer {
    bool is_done;
    enum err status;
    char msg[ERROR_MSG_MAX];
    struct strbuf reply;
};
/* Runs one command to its end, or leaves it waiting. */
struct world_answer *world_do(struct world *w, enum dt_command type, const char *id,
                              const void *request);
struct world_answer *world_do_on(struct world *w, uint64_t connection, enum dt_command type,
                                 const char *id, const void *request);

/* Common requests. */
struct world_answer *world_start(struct world *w, const char *id, const char *name,
                                 const char *input);
struct world_answer *world_raise(struct world *w, const char *id, const char *name,
                                 const char *data);
struct world_answer *world_terminate(struct world *w, const char *id, const char *output,
                                     bool recursive);
OrchestrationState *world_get(struct world *w, const char *id); /* with payloads; NULL: unknown */
struct world_answer *world_wait(struct world *w, const char *id, uint32_t mode, uint64_t wait_id);

struct world_stream *world_stream(struct world *w, uint32_t turns, uint32_t tasks);
struct world_stream *world_stream_with(struct world *w, const struct work_stream_options *opts);
void world_close(struct world_stream *st);
/* The next item, NULL: none. */
struct world_item *world_next(struct world_stream *st);
struct world_item *world_turn(struct world_stream *st); /* asserts that it is one */
struct world_item *world_task(struct world_stream *st);

/* Actions, from the world's arena. */
OrchestratorAction *act_task(struct world *w, int32_t id, const char *name, const char *input);
OrchestratorAction *act_timer(struct world *w, int32_t id, usec_t due);
OrchestratorAction *act_child(struct world *w, int32_t id, const char *name, const char *instance);
OrchestratorAction *act_send(struct world *w, int32_t id, const char *target, const char *name,
                             const char *data);
OrchestratorAction *act_done(struct world *w, int32_t id, OrchestrationStatus status,
                             const char *result);

/* NULL-terminated actions. Answers the turn. */
struct world_answer *world_complete(struct world *w, const struct world_item *turn, ...)
    __attribute__((sentinel));
struct world_answer *world_complete_on(struct world *w, uint64_t connection, const char *id,
                                       const char *token, ...) __attribute__((sentinel));
struct world_answer *world_result(struct world *w, const struct world_item *task,
                                  const char *result);
struct world_answer *world_failure(struct world *w, const struct world_item *task, const char *type,
                                   const char *msg);
/* The same in steps, for answers with other fields. The response lives in the world's arena. */
OrchestratorResponse *world_response(struct world *w, const struct world_item *turn, ...)
    __attribute__((sentinel));
struct world_answer *world_answer(struct world *w, uint64_t connection,
                                  const OrchestratorResponse *r);
/* An activity's result without a token. */
struct world_answer *world_result_on(struct world *w, uint64_t connection, const char *id,
                                     int32_t task, const char *result);
struct world_answer *world_suspend(struct world *w, const char *id);
struct world_answer *world_resume(struct world *w, const char *id);
struct world_answer *world_purge(struct world *w, const char *id);
struct world_answer *world_purge_all(struct world *w, const char *const *ids, size_t count,
                                     bool recursive);
uint64_t world_purged(const struct world_answer *a); /* how many a purge has removed */
/* Gives the item back. */
void world_abandon(struct world *w, const struct world_item *item);

/* Event names of past and new events, or of the stored history: "OrchestratorStarted ExecutionStarted ..." with
 * ids and refs: "TaskScheduled#1", "TaskCompleted(1)". In the world's arena. */
const char *world_new_events(struct world *w, const struct world_item *turn);
const char *world_past_events(struct world *w, const struct world_item *turn);
const char *world_history(struct world *w, const char *id);
/* The stored history, as pastEvents. */
const OrchestratorRequest *world_events(struct world *w, const char *id);
