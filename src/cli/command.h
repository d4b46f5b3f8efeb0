/* command.h - one command: its row in the table of cli.c, and what a run of it is given.
 *
 * A command is `struct command` and a function `run`. It answers on stdout, with its own text or one JSON document, and returns an
 * error for the caller to print; the error's code gives the exit status.
 * Tests: tests/unit/test_cli_options.c, tests/cli/
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/time.h"
#include "client/channel.h"

#define INVOCATION_ARGS_MAX 4
#define INVOCATION_OPTIONS_MAX 128

struct option {
    const char *name;  /* without dashes; NULL ends a list */
    const char *value; /* what it takes, for the help; NULL: nothing */
    const char *help;
    const char *later; /* not NULL: refused, and this is why */
    bool repeats;
};

struct invocation;

struct command {
    const char *name;
    const char *arguments; /* for the help: "ID EVENT [DATA]" */
    size_t args_min, args_max;
    const char *summary;
    const struct option *options; /* besides the common ones; NULL: none */
    enum err (*run)(struct invocation *in, struct error *err);
    const char *later; /* not NULL: refused, and this is why */
};

/* What was typed, and what the run keeps. */
struct invocation {
    const struct command *command;
    const char *args[INVOCATION_ARGS_MAX];
    size_t arg_count;
    struct {
        const struct option *option;
        const char *value; /* NULL: takes none */
    } given[INVOCATION_OPTIONS_MAX];
    size_t given_count;
    const char *tls_ca, *tls_cert, *tls_key; /* NULL: not given */
    const char *api_key;      /* the same; after invocation_secure() the key itself */
    struct tls *tls;          /* by invocation_secure(); NULL: plaintext */
    const char *server, *hub; /* hub NULL: the server's default */
    bool json;
    struct arena *arena; /* for whatever the run needs until its end */
    struct channel *channel;
    /* Set by a run that did what it was asked, with a bad outcome to tell: an instance that failed. */
    bool has_failed;
};

/* Those that every command takes. */
extern const struct option COMMON_OPTIONS[];

/* Reads the words behind the command. ERR_INVALID: unknown or refused option, missing value, too many or too few arguments; the
 * message says which and what to do. `env` looks a variable up (getenv). */
MUST_CHECK enum err invocation_read(struct invocation *in, const struct command *command, int argc,
                                    char *const *argv, const char *(*env)(const char *name),
                                    struct error *err);
bool invocation_has(const struct invocation *in, const char *option);
/* The value, the last one if it was given more than once; NULL: not given. */
const char *invocation_value(const struct invocation *in, const char *option);
/* Makes `tls` and `api_key` from what was given: before the first connection. ERR_INVALID: half of a pair, TLS options for a plaintext
 * address, a file that cannot be used. */
MUST_CHECK enum err invocation_secure(struct invocation *in, struct error *err);
/* *out is untouched when the option was not given. ERR_INVALID: its value is no duration. */
MUST_CHECK enum err invocation_duration(const struct invocation *in, const char *option,
                                        usec_t *out, struct error *err);

/* The commands, each in the file of its name; suspend.c has both suspend and resume. */
extern const struct option START_OPTIONS[], WAIT_OPTIONS[], SUSPEND_OPTIONS[], TERMINATE_OPTIONS[],
    LIST_OPTIONS[], RESTART_OPTIONS[], PURGE_OPTIONS[], HISTORY_OPTIONS[], CHECK_OPTIONS[],
    BENCH_OPTIONS[], KEY_OPTIONS[];
enum err run_start(struct invocation *in, struct error *err);
enum err run_get(struct invocation *in, struct error *err);
enum err run_list(struct invocation *in, struct error *err);
enum err run_restart(struct invocation *in, struct error *err);
enum err run_wait(struct invocation *in, struct error *err);
enum err run_raise(struct invocation *in, struct error *err);
enum err run_suspend(struct invocation *in, struct error *err);
enum err run_resume(struct invocation *in, struct error *err);
enum err run_terminate(struct invocation *in, struct error *err);
enum err run_purge(struct invocation *in, struct error *err);
enum err run_history(struct invocation *in, struct error *err);
enum err run_workers(struct invocation *in, struct error *err);
enum err run_status(struct invocation *in, struct error *err);
enum err run_backup(struct invocation *in, struct error *err);
enum err run_check(struct invocation *in, struct error *err);
enum err run_bench(struct invocation *in, struct error *err);
enum err run_key(struct invocation *in, struct error *err);
enum err run_version(struct invocation *in, struct error *err);
