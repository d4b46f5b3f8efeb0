/* jobs.h - perdure.v1.Admin's CheckStore and BackupStore: reads of the whole store, on a thread and a connection of their own.
 *
 * One of each at a time. While one runs, what is committed stays in the log: it cannot be emptied before the end.
 * Tests: tests/cli/test_check.py
 */
#pragma once

#include "server/host.h"

struct jobs;

struct jobs *jobs_new(struct host *host, struct store *store, struct bytes url); /* url borrowed */
/* Ends those that run. The loops have stopped; before the calls and the store are closed. */
void jobs_stop(struct jobs *j);
void jobs_free(struct jobs *j); /* NULL is fine */

/* For struct rpc_method; the service is the jobs. */
void jobs_check(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void jobs_backup(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg);
void jobs_closed(struct rpc_call *call, void *service);
