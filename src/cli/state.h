/* state.h - an instance as commands show it.
 *
 * Tests: tests/cli/test_commands.py
 */
#pragma once

#include "cli/command.h"
#include "durabletask.pb-c.h"

/* "RUNNING"; a number that has no name is shown as "STATUS_<n>" in a static buffer of the process. */
const char *status_name(OrchestrationStatus status);
bool status_is_terminal(OrchestrationStatus status);
/* Prints it, as columns or (--json) as one document. */
MUST_CHECK enum err state_print(const struct invocation *in, const OrchestrationState *s,
                                struct error *err);
/* What `wait` and `start --wait` end with: state_print(), and a note of an outcome that is no success. */
MUST_CHECK enum err state_conclude(struct invocation *in, const OrchestrationState *s,
                                   struct error *err);
