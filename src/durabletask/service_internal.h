/* service_internal.h - what the handler files share. */
#pragma once

#include <pthread.h>

#include "base/hashmap.h"
#include "durabletask.pb-c.h"
#include "durabletask/requests.h"
#include "durabletask/service.h"
#include "wire/unpack.h"

struct dt_service {
    struct dt_host host;
    const struct settings *settings;
    struct rpc_method *methods;
    pthread_mutex_t lock;       /* connections */
    struct hashmap connections; /* struct dt_connection */
    _Atomic uint64_t next_id;   /* of waits and streams */
};

/* What is remembered of a connection while it has waits or work-item streams. Its fields are its own thread's. */
struct dt_connection {
    struct hash_node node;
    uint64_t id;
    uint32_t users;
    uint32_t waits;
    bool saw_token; /* a completion with a token came: not token-less (spec 8.2) */
    bool
        error_answered; /* to a completion of a token-less worker: its streams are dead (spec 8.2) */
    struct list streams; /* struct dt_stream */
};

struct dt_connection *dt_connection_get(struct dt_service *svc,
                                        uint64_t id); /* one more user; made if missing */
struct dt_connection *dt_connection_peek(struct dt_service *svc, uint64_t id); /* NULL: none */
void dt_connection_put(struct dt_service *svc, struct dt_connection *c);

/* One request on its way through the engine. */
struct dt_request {
    struct command cmd;
    struct loop_task task;
    struct dt_service *svc;
    struct rpc_call *call;
    void *thread;
    struct dt_connection *connection; /* waits */
    uint64_t wait_id;
    /* On the call's thread, with the outcome in cmd. NULL: reply or fail. */
    void (*finish)(struct dt_request *r);
    void *extra;
};

/* A request for `type` with hub set from the headers; it owns the arena. NULL: the call was answered with an error. */
struct dt_request *dt_request_new(struct dt_service *svc, struct rpc_call *call,
                                  struct arena *arena, size_t bytes, enum dt_command type);
void dt_request_free(struct dt_request *r);
void dt_request_submit(struct dt_request *r);
/* A control command without an answer. */
void dt_control(struct dt_service *svc, void (*fn)(struct engine *e, struct command *cmd),
                uint64_t value, void *context);

/* Task hub of the call, lowercased into the arena. ERR_INVALID. */
MUST_CHECK enum err dt_hub_of(const struct rpc_call *call, struct arena *arena, struct bytes *hub,
                              struct error *err);
MUST_CHECK enum err dt_check_id(struct bytes id, size_t chars_max, struct error *err);
/* Fails the call with what is wrong and drops the request. */
void dt_refuse(struct dt_request *r, const struct error *err);
/* Decodes the message. False: the call was answered. */
MUST_CHECK bool dt_decode(struct dt_request *r, const ProtobufCMessageDescriptor *desc,
                          struct bytes msg, void *out);
bool dt_is_token_less(const struct rpc_call *call); /* by its user-agent */
void dt_fail(struct rpc_call *call, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* service_complete.c, service_stream.c, service_history.c */
void dt_complete_turn(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void dt_complete_task(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void dt_oversize_turn(struct rpc_call *call, void *service, struct bytes piece, bool last);
void dt_oversize_task(struct rpc_call *call, void *service, struct bytes piece, bool last);
void dt_oversize_closed(struct rpc_call *call, void *service);
void dt_abandon(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void dt_get_work_items(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void dt_work_items_closed(struct rpc_call *call, void *service);
void dt_stream_history(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void dt_stream_history_closed(struct rpc_call *call, void *service);
/* service_manage.c */
void dt_query_instances(struct rpc_call *call, void *service, struct arena *arena,
                        struct bytes msg);
void dt_list_instance_ids(struct rpc_call *call, void *service, struct arena *arena,
                          struct bytes msg);
void dt_purge_instances(struct rpc_call *call, void *service, struct arena *arena,
                        struct bytes msg);
void dt_purge_closed(struct rpc_call *call, void *service);
void dt_skip_graceful(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
/* Ends the older streams of a connection whose worker has left them (spec 8.2). */
void dt_streams_end(struct dt_service *svc, struct dt_connection *c);
