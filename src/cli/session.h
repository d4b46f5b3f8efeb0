/* session.h - the calls of a command: connect once, one request, one answer.
 *
 * Errors have the server's message and the code of its status; ERR_UNAVAILABLE, with the address, when it cannot be reached.
 * Answers live in the invocation's arena.
 * Tests: tests/cli/
 */
#pragma once

#include "cli/command.h"
#include "durabletask.pb-c.h"

#define SESSION_TIMEOUT (30 * USEC_PER_SEC) /* of calls that should answer at once */
#define SESSION_FOREVER ((usec_t)0)

#define DURABLE_TASK(method) "/TaskHubSidecarService/" method
#define ADMIN(method) "/perdure.v1.Admin/" method

/* `answer` points to a pointer to the generated struct of `desc`; NULL: nobody looks at it. */
MUST_CHECK enum err session_call(struct invocation *in, const char *path,
                                 const ProtobufCMessage *request, usec_t timeout,
                                 const ProtobufCMessageDescriptor *desc, void *answer,
                                 struct error *err);
/* Server streaming: `fn` gets each message and returns false to stop. */
MUST_CHECK enum err session_stream(struct invocation *in, const char *path,
                                   const ProtobufCMessage *request, usec_t timeout,
                                   bool (*fn)(void *arg, struct bytes message), void *arg,
                                   struct error *err);
void session_close(struct invocation *in);

/* The instance's state. ERR_NOT_FOUND: there is no such instance. */
MUST_CHECK enum err session_look_up(struct invocation *in, const char *id, bool payloads,
                                    OrchestrationState **out, struct error *err);
/* ERR_NOT_FOUND, with one text for all commands. */
enum err session_not_found(const struct invocation *in, const char *id, struct error *err);
/* Waits until the instance has started, or has ended, with payloads; across restarts of a server that has been reached once. `timeout`
 * SESSION_FOREVER: as long as it takes. ERR_DEADLINE: not within the time. ERR_NOT_FOUND: nor was there such an instance at its end.
 * ERR_UNAVAILABLE: there was no server, or it stayed away (a minute, without a time-out). */
MUST_CHECK enum err session_wait(struct invocation *in, const char *id, bool is_start,
                                 usec_t timeout, OrchestrationState **out, struct error *err);
