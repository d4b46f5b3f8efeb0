/* macros.h - the few language helpers that every module uses.
 *
 * Nothing here allocates or keeps state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As <assert.h> has it, whose assert() nobody should use: see base/assert.h. */
#define static_assert _Static_assert

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define UNUSED __attribute__((unused))
/* For a result that the library insists on and nobody needs; a comment says why. */
#define IGNORE_RESULT(call)                                                                        \
    do {                                                                                           \
        __typeof__(call) ignored_ UNUSED = (call);                                                 \
    } while (0)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Through uintptr_t, so that a const pointer may be walked with the same macro. */
#define CONTAINER_OF(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
