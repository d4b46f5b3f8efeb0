/* main.c - the command: `perdure serve` here, everything else in cli/. */
#include <stdio.h>
#include <string.h>

#include "server/serve.h"

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "serve"))
        return serve(argc - 2, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "version")) {
        printf("perdure %s (%s)\n", PERDURE_VERSION, PERDURE_COMPILER);
        return 0;
    }
    fprintf(stderr, "perdure: unknown command; see perdure help\n");
    return 2;
}
