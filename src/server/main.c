/* main.c - the command: `perdure serve` here, everything else in cli/. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "server/serve.h"

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--help"))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    bool is_serve = argc > 1 && !strcmp(argv[1], "serve");

    if ((is_serve && asks_for_help(argc, argv)) ||
        (argc == 3 && !strcmp(argv[1], "help") && !strcmp(argv[2], "serve"))) {
        fputs(SERVE_HELP, stdout);
        return 0;
    }
    return is_serve ? serve(argc - 2, argv + 2) : cli_main(argc, argv);
}
