#include "base/assert.h"

#include <stdlib.h>

#include "base/log.h"

void assert_failed(const char *expr, const char *file, int line)
{
    /* The log allocates nothing, so this works out of memory too. */
    log_event(LOG_ERROR, "assertion failed",
              (const struct log_field[]){LOG_STR("condition", expr), LOG_STR("file", file),
                                         LOG_INT("line", line)},
              3);
    abort();
}
