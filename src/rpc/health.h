/* health.h - the standard service grpc.health.v1.Health: Check and Watch.
 *
 * One status for the whole server (serving or not), asked for by the empty name or by the name of a
 * known service. health_set() may be called from any thread; the rest before the first connection.
 * Tests: tests/unit/test_rpc_conn.c, tests/cli/test_http.py
 */
#pragma once

#include "rpc/rpc.h"

struct health;

struct health *health_new(void);    /* not serving at first */
void health_free(struct health *h); /* after the server's connections are gone; NULL is fine */
void health_add_service(struct health *h, const char *name); /* a literal */
void health_register(struct health *h, struct rpc_server *s);
void health_set(struct health *h, bool serving); /* tells those who watch */
