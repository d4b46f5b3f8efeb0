/* serve.h - `perdure serve`: opens the store, wires everything, serves until a signal ends it. */
#pragma once

/* Exit status of the process (design/cli.md). */
int serve(int argc, char *const *args);
/* `help serve`. */
extern const char SERVE_HELP[];
