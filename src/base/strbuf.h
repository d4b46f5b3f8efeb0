/* strbuf.h - a growing byte buffer on the heap, for text and binary alike.
 *
 * Zero-initialise it ({0}) or strbuf_init(); free with strbuf_deinit(). `ptr` may be NULL while
 * empty and is not NUL-terminated, but for strbuf_cstr(). Out of memory aborts.
 * Tests: tests/unit/test_strbuf.c
 */
#pragma once

#include <stdarg.h>

#include "base/bytes.h"

struct strbuf {
    uint8_t *ptr;
    size_t len;
    size_t cap;
};

void strbuf_deinit(struct strbuf *b);                   /* leaves it empty and usable */
void strbuf_reset(struct strbuf *b);                    /* keeps the memory */
uint8_t *strbuf_reserve(struct strbuf *b, size_t more); /* room for `more` behind len; returns it */
void strbuf_append(struct strbuf *b, const void *p, size_t len);
void strbuf_append_bytes(struct strbuf *b, struct bytes s);
void strbuf_append_str(struct strbuf *b, const char *s);
void strbuf_append_char(struct strbuf *b, char c);
void strbuf_appendf(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void strbuf_vappendf(struct strbuf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
void strbuf_consume(struct strbuf *b, size_t n);     /* drops the first n bytes (n <= len) */
const char *strbuf_cstr(struct strbuf *b);           /* NUL-terminated, until the next change */
struct bytes strbuf_bytes(const struct strbuf *b);   /* a view, until the next change */
uint8_t *strbuf_take(struct strbuf *b, size_t *len); /* the memory itself; free() it */
