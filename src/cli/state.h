/* state.h - an instance as commands show it.
 *
 * Tests: tests/cli/test_commands.py
 */
#pragma once

#include <jansson.h>

#include "cli/command.h"
#include "durabletask.pb-c.h"

/* "RUNNING"; a number that has no name is shown as "STATUS_<n>" in a static buffer of the process. */
const char *status_name(OrchestrationStatus status);
bool status_is_terminal(OrchestrationStatus status);
/* The values of each --status that was given, with the array in the invocation's arena. ERR_INVALID: no status of that name. */
MUST_CHECK enum err statuses_read(const struct invocation *in, OrchestrationStatus **out,
                                  size_t *count, struct error *err);
/* A time of an option; NULL when it was not given. ERR_INVALID. */
MUST_CHECK enum err option_time(const struct invocation *in, const char *option,
                                Google__Protobuf__Timestamp **out, struct error *err);
/* As --json shows it. */
json_t *state_json(const OrchestrationState *s); /* a new reference */
/* Prints it, as columns or (--json) as one document. */
MUST_CHECK enum err state_print(const struct invocation *in, const OrchestrationState *s,
                                struct error *err);
/* What `wait` and `start --wait` end with: state_print(), and a note of an outcome that is no success. */
MUST_CHECK enum err state_conclude(struct invocation *in, const OrchestrationState *s,
                                   struct error *err);
