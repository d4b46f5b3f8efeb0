/* outcome.h - what the commands that change an instance say and refuse alike.
 *
 * Tests: tests/cli/test_commands.py
 */
#pragma once

#include "cli/session.h"

/* Prints `text` for people, or {"instanceId": id, "result": word} with --json. */
MUST_CHECK enum err outcome_print(const struct invocation *in, const char *id, const char *word,
                                  const char *text, struct error *err);
/* ERR_STATE: it has ended. */
MUST_CHECK enum err refuse_ended(const OrchestrationState *state, const char *id,
                                 struct error *err);
