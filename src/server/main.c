/* main.c - the command: `perdure serve` here, everything else in cli/. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "server/serve.h"

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--help"))
            return true;
    return false;
}

/* Started without standard descriptors, the first files and sockets would get their numbers, and what is meant for people would
 * be written into them. Opened the wrong way round: using one fails, as it does when it is closed. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return; /* no /dev/null: as bad as before */
}

int main(int argc, char **argv)
{
    bool is_serve = argc > 1 && !strcmp(argv[1], "serve");

    fill_standard_descriptors();

    if ((is_serve && asks_for_help(argc, argv)) ||
        (argc == 3 && !strcmp(argv[1], "help") && !strcmp(argv[2], "serve"))) {
        fputs(SERVE_HELP, stdout);
        return 0;
    }
    return is_serve ? serve(argc - 2, argv + 2) : cli_main(argc, argv);
}
