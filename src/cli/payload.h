/* payload.h - JSON that a command is given: as text, from a file (@FILE) or from standard input (-).
 *
 * Tests: tests/cli/test_commands.py
 */
#pragma once

#include "cli/command.h"

#define PAYLOAD_BYTES_MAX MIB(1024) /* as much as any server can be set to take */

/* *out lives in the invocation's arena and is sent as it was given, without the white space around it. ERR_INVALID: no JSON, or
 * cannot be read; `what` is named. */
MUST_CHECK enum err payload_read(const struct invocation *in, const char *what, const char *text,
                                 struct bytes *out, struct error *err);
