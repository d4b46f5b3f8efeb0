/* verify.h - whether what a store holds is what this server writes. `perdure check` asks it, on a stopped store and on a live one.
 *
 * Besides what store_verify() looks at: each history decodes, and is one that an orchestration can have (spec 4.2-4.4).
 * Tests: tests/cli/test_check.py
 */
#pragma once

#include "store/store.h"

struct dt_verify_result {
    uint64_t instances, events; /* that could be read */
    uint64_t findings;
};

/* finding(arg, name, text) as in struct store_verify_events. Errors are those of store_verify(). */
MUST_CHECK enum err dt_verify_store(struct store_reader *r,
                                    void (*finding)(void *arg, const char *name, const char *text),
                                    void *arg, struct dt_verify_result *out, struct error *err);
