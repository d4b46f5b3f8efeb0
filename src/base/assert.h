/* assert.h - ASSERT stays on in release builds: for our own mistakes, never for input.
 *
 * A failed ASSERT logs the condition with its place and aborts; the server then recovers as from
 * any crash.
 * Tests: tests/unit/test_log.c
 */
#pragma once

#include "base/macros.h"

__attribute__((noreturn, cold)) void assert_failed(const char *expr, const char *file, int line);

#define ASSERT(cond)                                                                               \
    do {                                                                                           \
        if (UNLIKELY(!(cond)))                                                                     \
            assert_failed(#cond, __FILE__, __LINE__);                                              \
    } while (0)
