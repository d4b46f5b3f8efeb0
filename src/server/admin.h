/* admin.h - perdure.v1.Admin: what the Durable Task calls do not offer (proto/perdure_admin.proto). */
#pragma once

#include "server/grpc_listener.h"
#include "server/host.h"

struct admin;

struct admin *admin_new(struct host *host, struct store *store,
                        struct bytes url); /* url borrowed */
/* Ends long reads of the store; the loops have stopped, their connections are still there. NULL is fine. */
void admin_stop(struct admin *a);
void admin_free(struct admin *a);
void admin_register(struct admin *a, struct rpc_server *server);
void admin_front(struct admin *a, const struct grpc_front *front); /* before threads run */
