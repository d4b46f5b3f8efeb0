#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#define STRBUF_CAP_MIN ((size_t)256) /* an event, or a message of a usual call */

void strbuf_deinit(struct strbuf *b)
{
    free(b->ptr);
    *b = (struct strbuf){0};
}

void strbuf_reset(struct strbuf *b)
{
    b->len = 0;
}

static void grow(struct strbuf *b, size_t more)
{
    ASSERT(more <= SIZE_MAX / 2 - b->len);
    size_t cap = MAX(b->cap * 2, STRBUF_CAP_MIN);
    if (cap < b->len + more)
        cap = b->len + more;
    uint8_t *ptr = realloc(b->ptr, cap);
    ASSERT(ptr);
    b->ptr = ptr;
    b->cap = cap;
}

uint8_t *strbuf_reserve(struct strbuf *b, size_t more)
{
    if (UNLIKELY(b->cap - b->len < more))
        grow(b, more);
    return b->ptr ? b->ptr + b->len : NULL;
}

void strbuf_append(struct strbuf *b, const void *p, size_t len)
{
    if (len == 0)
        return;
    memcpy(strbuf_reserve(b, len), p, len);
    b->len += len;
}

void strbuf_append_bytes(struct strbuf *b, struct bytes s)
{
    strbuf_append(b, s.ptr, s.len);
}

void strbuf_append_str(struct strbuf *b, const char *s)
{
    strbuf_append(b, s, strlen(s));
}

void strbuf_append_char(struct strbuf *b, char c)
{
    *strbuf_reserve(b, 1) = (uint8_t)c;
    b->len++;
}

void strbuf_appendf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strbuf_vappendf(b, fmt, ap);
    va_end(ap);
}

void strbuf_vappendf(struct strbuf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    strbuf_reserve(b, 1);
    size_t room = b->cap - b->len;
    int n = vsnprintf((char *)b->ptr + b->len, room, fmt, ap);
    ASSERT(n >= 0);
    if ((size_t)n >= room) {
        strbuf_reserve(b, (size_t)n + 1);
        int n2 = vsnprintf((char *)b->ptr + b->len, b->cap - b->len, fmt, again);
        ASSERT(n2 == n);
    }
    va_end(again);
    b->len += (size_t)n;
}

void strbuf_consume(struct strbuf *b, size_t n)
{
    ASSERT(n <= b->len);
    b->len -= n;
    if (n > 0 && b->len > 0)
        memmove(b->ptr, b->ptr + n, b->len);
}

const char *strbuf_cstr(struct strbuf *b)
{
    *strbuf_reserve(b, 1) = '\0';
    return (const char *)b->ptr;
}

struct bytes strbuf_bytes(const struct strbuf *b)
{
    return bytes_of(b->ptr, b->len);
}

uint8_t *strbuf_take(struct strbuf *b, size_t *len)
{
    uint8_t *ptr = b->ptr;
    *len = b->len;
    *b = (struct strbuf){0};
    return ptr;
}
