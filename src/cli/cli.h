/* cli.h - `perdure COMMAND`: the commands of a client (design in docs/cli.md).
 *
 * They call a server through the gRPC client end, one command a process, one thread.
 * Tests: tests/cli/
 */
#pragma once

/* Runs the command named by argv[1] and returns the exit status: 0 done, 1 failed, 2 usage, 4 not found, 5 refused by state,
 * 6 unavailable or timed out. */
int cli_main(int argc, char *const *argv);
