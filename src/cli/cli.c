#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#define LATER "comes with a later version"

/* clang-format off */
static const struct command COMMANDS[] = {
    {"start",     "NAME",            1, 1, "start an orchestration; prints its id",       START_OPTIONS,     run_start,     NULL},
    {"get",       "ID",              1, 1, "the state of an instance",                    NULL,              run_get,       NULL},
    {"list",      "",                0, 0, "instances, oldest first",                     LIST_OPTIONS,      run_list,      NULL},
    {"wait",      "ID",              1, 1, "wait until an instance has ended or started", WAIT_OPTIONS,      run_wait,      NULL},
    {"history",   "ID",              1, 1, "the history of an instance",                  HISTORY_OPTIONS,   run_history,   NULL},
    {"raise",     "ID EVENT [DATA]", 2, 3, "send an external event; DATA as --input",     NULL,              run_raise,     NULL},
    {"suspend",   "ID",              1, 1, "hold an instance's turns back",               SUSPEND_OPTIONS,   run_suspend,   NULL},
    {"resume",    "ID",              1, 1, "let them go on",                              SUSPEND_OPTIONS,   run_resume,    NULL},
    {"terminate", "ID",              1, 1, "end an instance",                             TERMINATE_OPTIONS, run_terminate, NULL},
    {"restart",   "ID",              1, 1, "begin an instance anew, with its input",      RESTART_OPTIONS,   run_restart,   NULL},
    {"purge",     "[ID]",            0, 1, "remove ended instances",                      PURGE_OPTIONS,     run_purge,     NULL},
    {"workers",   "",                0, 0, "the workers that are connected",              NULL,              run_workers,   NULL},
    {"status",    "",                0, 0, "the server, its store and its work",          NULL,              run_status,    NULL},
    {"backup",    "DEST",            1, 1, "copy a running server's store into a file",   NULL,              run_backup,    NULL},
    {"check",     "",                0, 0, "look whether a store is sound",               CHECK_OPTIONS,     run_check,     NULL},
    {"bench",     "[WORKLOAD]",      0, 1, "measure a server",                            BENCH_OPTIONS,     run_bench,     NULL},
    {"key",       "create|list|revoke [ID]", 1, 2, "the API keys of a server's file",     KEY_OPTIONS,       run_key,       NULL},
    {"version",   "",                0, 0, "the version of this program",                 NULL,              run_version,   NULL},
    {"rewind",    "", 0, 0, NULL, NULL, NULL, LATER},
    {"entity",    "", 0, 0, NULL, NULL, NULL, LATER},
    {"runs",      "", 0, 0, NULL, NULL, NULL, LATER},
    {"hub",       "", 0, 0, NULL, NULL, NULL, LATER "; a hub is made when it is first used"},
};
/* clang-format on */

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (!strcmp(COMMANDS[i].name, name))
            return &COMMANDS[i];
    return NULL;
}

/* ---- help -------------------------------------------------------------------------------------- */

static void put_options(struct strbuf *out, const struct option *list)
{
    struct table t;

    table_init(&t, 2);
    for (; list && list->name; list++) {
        if (list->later)
            continue;
        table_cellf(&t, "  --%s%s%s", list->name, list->value ? " " : "",
                    list->value ? list->value : "");
        table_cell(&t, bytes_str(list->help));
    }
    table_put(&t, out);
}

static void put_command_help(struct strbuf *out, const struct command *c)
{
    strbuf_appendf(out, "usage: perdure %s%s%s [OPTION]...\n\n  %s\n\n", c->name,
                   c->arguments[0] ? " " : "", c->arguments, c->summary);
    put_options(out, c->options);
    put_options(out, COMMON_OPTIONS);
}

static void put_help(struct strbuf *out)
{
    struct table t;

    strbuf_append_str(out, "usage: perdure COMMAND [OPTION]...\n\n");
    table_init(&t, 2);
    table_cell(&t, BYTES_LIT("  serve [FLAG]..."));
    table_cell(&t, BYTES_LIT("run the server; see perdure help serve"));
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        const struct command *c = &COMMANDS[i];
        if (c->later)
            continue;
        table_cellf(&t, "  %s %s", c->name, c->arguments);
        table_cell(&t, bytes_str(c->summary));
    }
    table_put(&t, out);
    strbuf_append_str(out, "\nOptions of all commands but serve:\n");
    put_options(out, COMMON_OPTIONS);
    strbuf_append_str(
        out, "\nperdure help COMMAND tells more. Exit status: 0 done, 1 failed, 2 usage, 4 not "
             "found, 5 refused by state,\n6 unavailable or timed out; serve: 3 when the store "
             "cannot be opened.\n");
}

/* ---- running ----------------------------------------------------------------------------------- */

static const char *environment(const char *name)
{
    return getenv(name);
}

static int fail(const char *command, enum err e, const struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};

    strbuf_appendf(&line, "perdure%s%s: ", command ? " " : "", command ? command : "");
    put_clean(&line, bytes_str(err->msg), 0);
    fprintf(stderr, "%s\n", strbuf_cstr(&line));
    return err_exit_status(e);
}

static int usage(const char *what, const char *word, const char *remedy)
{
    struct error err;

    return fail(NULL, error_set(&err, ERR_INVALID, "%s \"%s\"%s", what, word, remedy), &err);
}

static int print_help(const struct command *c)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    struct error err;

    if (c)
        put_command_help(&text, c);
    else
        put_help(&text);
    enum err e = output_text(&text, &err);
    return e ? fail(NULL, e, &err) : 0;
}

static int run(const struct command *c, int argc, char *const *argv)
{
    struct invocation in = {.arena = arena_create()};
    struct error err = {0};
    enum err e = invocation_read(&in, c, argc, argv, environment, &err);
    int status = 0;

    if (!e && invocation_has(&in, "help"))
        status = print_help(c);
    else if (!e)
        e = c->run(&in, &err);
    if (e)
        status = fail(c->name, e, &err);
    else if (in.has_failed)
        status = 1;
    session_close(&in);
    arena_free(in.arena);
    return status;
}

enum err run_version(struct invocation *in, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    if (in->json)
        return output_json(
            json_pack("{s:s, s:s}", "version", PERDURE_VERSION, "compiler", PERDURE_COMPILER), err);
    strbuf_appendf(&text, "perdure %s (%s)\n", PERDURE_VERSION, PERDURE_COMPILER);
    return output_text(&text, err);
}

static int help(int argc, char *const *argv)
{
    const struct command *c = argc > 2 ? find(argv[2]) : NULL;

    if (argc > 3)
        return usage("help takes one command, not also", argv[3], "");
    if (argc > 2 && !c)
        return usage("unknown command", argv[2], "; see perdure help");
    if (c && c->later)
        return usage("the command", c->name, " " LATER);
    return print_help(c);
}

int cli_main(int argc, char *const *argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    const struct command *c = find(name);
    struct error err;

    if (argc < 2) {
        fprintf(stderr, "perdure: a command is missing; see perdure help\n");
        return 2;
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return help(argc, argv);
    if (!strcmp(name, "--version"))
        c = find("version");
    if (!c)
        return usage("unknown command", name, "; see perdure help");
    if (c->later)
        return fail(c->name, error_set(&err, ERR_INVALID, "%s", c->later), &err);
    return run(c, argc - 2, argv + 2);
}
