/* log.c - builds a line in a buffer on the stack and writes it at once: nothing is allocated, so
 * that a failed assertion can be logged out of memory. A value longer than VALUE_MAX is cut and
 * ends in "..."; fields that do not fit the line any more are left out, and `cut=true` says so. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/time.h"
#include "base/utf8.h"

#define LINE_MAX_BYTES 4096 /* PIPE_BUF: also a pipe gets the line in one piece */
#define VALUE_MAX 1024
#define TAIL_BYTES 16 /* room for the mark of a cut line, and its end */

struct line {
    char buf[LINE_MAX_BYTES];
    size_t len;
    bool json, full;
};

static _Atomic int current_level = LOG_INFO;
static _Atomic int current_format = LOG_TEXT;

static const char *const LEVEL_NAMES[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level level, enum log_format format)
{
    atomic_store(&current_level, (int)level);
    atomic_store(&current_format, (int)format);
}

bool log_level_parse(struct bytes text, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(LEVEL_NAMES); i++) {
        if (bytes_eq(text, bytes_str(LEVEL_NAMES[i]))) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&current_level, memory_order_relaxed);
}

static void put(struct line *l, const char *p, size_t len)
{
    if (l->full || sizeof(l->buf) - TAIL_BYTES - l->len < len) {
        l->full = true;
        return;
    }
    memcpy(l->buf + l->len, p, len);
    l->len += len;
}

static void put_str(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

static bool is_plain(struct bytes v)
{
    if (v.len == 0)
        return false;
    for (size_t i = 0; i < v.len; i++) {
        uint8_t c = v.ptr[i];
        if (c <= ' ' || c >= 0x7F || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return true;
}

/* One byte or character of a quoted value, escaped as JSON does. */
static void put_escaped(struct line *l, const uint8_t *p, size_t len)
{
    char hex[8];

    if (len == 0) { /* not UTF-8 */
        if (l->json)
            put_str(l, "\\ufffd");
        else
            put(l, hex, (size_t)snprintf(hex, sizeof(hex), "\\x%02x", *p));
    } else if (*p == '"' || *p == '\\') {
        put(l, "\\", 1);
        put(l, (const char *)p, 1);
    } else if (*p == '\n') {
        put_str(l, "\\n");
    } else if (*p < 0x20 || *p == 0x7F) {
        put(l, hex, (size_t)snprintf(hex, sizeof(hex), "\\u%04x", *p));
    } else {
        put(l, (const char *)p, len);
    }
}

/* Length of the valid character at `i`, or 0. */
static size_t char_at(struct bytes v, size_t i)
{
    for (size_t len = 1; len <= 4 && i + len <= v.len; len++) {
        if (utf8_is_valid(bytes_of(v.ptr + i, len)))
            return len;
    }
    return 0;
}

static void put_text(struct line *l, struct bytes v)
{
    size_t end = utf8_cut(v, VALUE_MAX);
    bool cut = end < v.len;

    if (!l->json && !cut && is_plain(v)) {
        put(l, (const char *)v.ptr, v.len);
        return;
    }
    v.len = end;
    put(l, "\"", 1);
    for (size_t i = 0; i < v.len;) {
        size_t len = char_at(v, i);
        put_escaped(l, v.ptr + i, len);
        i += len ? len : 1;
    }
    put_str(l, cut ? "...\"" : "\"");
}

static void put_key(struct line *l, const char *key)
{
    if (l->json) {
        put_str(l, l->len > 1 ? ",\"" : "\"");
        put_str(l, key);
        put_str(l, "\":");
    } else {
        if (l->len > 0)
            put(l, " ", 1);
        put_str(l, key);
        put(l, "=", 1);
    }
}

static void put_field(struct line *l, const struct log_field *f)
{
    char number[24];
    size_t start = l->len;

    put_key(l, f->key);
    switch (f->type) {
    case LOG_F_STR:
        put_text(l, bytes_str(f->str));
        break;
    case LOG_F_BYTES:
        put_text(l, f->bytes);
        break;
    case LOG_F_INT:
        put(l, number, (size_t)snprintf(number, sizeof(number), "%" PRId64, f->i));
        break;
    case LOG_F_UINT:
        put(l, number, (size_t)snprintf(number, sizeof(number), "%" PRIu64, f->u));
        break;
    }
    if (l->full)
        l->len = start;
}

static void finish(struct line *l)
{
    const char *end = l->json   ? (l->full ? ",\"cut\":true}\n" : "}\n")
                      : l->full ? " cut=true\n"
                                : "\n";
    size_t len = strlen(end);
    memcpy(l->buf + l->len, end, len); /* TAIL_BYTES are kept free for it */
    l->len += len;
}

void log_event(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    struct line l;
    char time[USEC_TEXT_LEN];
    int saved = errno;

    l.len = 0;
    l.full = false;
    l.json = atomic_load_explicit(&current_format, memory_order_relaxed) == LOG_JSON;
    usec_format(clock_wall(clock_system()), time);
    if (l.json)
        put(&l, "{", 1);
    put_field(&l, &LOG_STR("time", time));
    put_field(&l, &LOG_STR("level", LEVEL_NAMES[level]));
    put_field(&l, &LOG_STR("event", event));
    for (size_t i = 0; i < n && !l.full; i++)
        put_field(&l, &fields[i]);
    finish(&l);
    /* Nobody is left to tell when stderr is gone. */
    IGNORE_RESULT(write(STDERR_FILENO, l.buf, l.len));
    errno = saved;
}

void log_error(enum log_level level, const char *event, const struct error *err)
{
    char place[256];
    struct log_field fields[4];
    size_t n = 0;

    if (!log_enabled(level))
        return;
    fields[n++] = LOG_STR("error", err_name(err->code));
    fields[n++] = LOG_STR("message", err->msg);
    if (err->sys)
        fields[n++] = LOG_INT("errno", err->sys);
    if (err->file) {
        (void)snprintf(place, sizeof(place), "%s:%d", err->file, err->line);
        fields[n++] = LOG_STR("place", place);
    }
    log_event(level, event, fields, n);
}
