/* bytes.h - a borrowed view of bytes: text or binary, not NUL-terminated, never owned.
 *
 * `ptr == NULL` with `len == 0` is "absent"; a view with a non-NULL `ptr` and `len == 0` is
 * "present and empty". Storing a view means copying what it points to.
 * Tests: tests/unit/test_bytes.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"

struct bytes {
    const uint8_t *ptr;
    size_t len;
};

#define BYTES_NONE ((struct bytes){NULL, 0})
#define BYTES_LIT(s) ((struct bytes){(const uint8_t *)(s), sizeof(s) - 1}) /* of a literal */
#define BYTES_FMT(b)                                                                               \
    (int)(b).len, (const char *)((b).ptr ? (b).ptr : (const uint8_t *)"") /* %.*s */

static inline struct bytes bytes_of(const void *ptr, size_t len)
{
    return (struct bytes){ptr, len};
}

/* A view of a C string; NULL gives BYTES_NONE. */
static inline struct bytes bytes_str(const char *s)
{
    return s ? (struct bytes){(const uint8_t *)s, strlen(s)} : BYTES_NONE;
}

static inline bool bytes_is_none(struct bytes b)
{
    return !b.ptr;
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool bytes_eq_nocase(struct bytes a, struct bytes b); /* ASCII letters only */
int bytes_cmp(struct bytes a, struct bytes b);        /* as memcmp, shorter first on a tie */
bool bytes_starts_with(struct bytes b, struct bytes prefix);
bool bytes_contains(struct bytes b, struct bytes needle);
uint64_t bytes_hash(struct bytes b); /* xxh3, unseeded: stable across runs and machines */

/* Decimal, whole view, no sign for u64; false (and *out untouched) otherwise. */
bool bytes_parse_u64(struct bytes b, uint64_t *out);
bool bytes_parse_i64(struct bytes b, int64_t *out);

/* Lowercase hex of `len` bytes into `out` (2 * len characters, no NUL). */
void hex_encode(const uint8_t *in, size_t len, char *out);
bool hex_decode(struct bytes text, uint8_t *out, size_t out_len); /* text.len == 2 * out_len */

/* base64, standard alphabet (gRPC -bin headers accept padded and unpadded). The encoders write no NUL
 * and return the length written; `out` holds BASE64_LEN(len). The decoder returns false on bad input. */
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)
size_t base64_encode(struct bytes in, bool pad, char *out);
bool base64_decode(struct bytes text, uint8_t *out, size_t *out_len); /* out holds text.len */
