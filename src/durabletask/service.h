/* service.h - TaskHubSidecarService: the gRPC methods, on the loop threads.
 *
 * A handler decodes and validates, makes a command, and gives it to the host, which owns threads: the command comes back on the
 * engine's thread and its answer goes to the call's own thread as a task. Nothing here blocks.
 * Tests: tests/raw, tests/sdk
 */
#pragma once

#include "base/task.h"
#include "engine/engine.h"
#include "rpc/rpc.h"

/* What the service needs from the process around it; every function may be called from any loop thread, submit and post also
 * from the engine's. */
struct dt_host {
    void (*submit)(void *arg, struct command *cmd);
    /* The same for a command that only reads, with step.reader alone; submit() where there is no reader. */
    void (*read)(void *arg, struct command *cmd);
    void *(*thread)(void *arg, const struct rpc_call *call); /* the call's loop */
    void (*post)(void *arg, void *thread, struct loop_task *task);
    bool (*is_draining)(void *arg);
    /* OK, or why a request of so many bytes is not taken now, which adds work or a wait (spec 8.6). */
    enum err (*overload)(void *arg, size_t bytes, struct error *err);
    const struct clock *clock;
    /* OK, or why the caller may not do what is left to the role admin. NULL: everybody may. */
    enum err (*may_administer)(void *arg, const struct rpc_call *call, struct error *err);
    void *arg;
};

struct dt_service;

struct dt_service *dt_service_new(const struct dt_host *host, const struct settings *settings);
void dt_service_free(struct dt_service *svc); /* after the last call is gone */
/* Adds all 29 methods. */
void dt_service_register(struct dt_service *svc, struct rpc_server *server);
/* The object kind that the engine needs (engine_options.kinds and .front). */
extern const struct object_kind ORCHESTRATION;
