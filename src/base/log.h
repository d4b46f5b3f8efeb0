/* log.h - structured logs to stderr: one event a line, `key=value` or JSON.
 *
 * Process-wide by nature (level, format and sink are set once at start, level again on SIGHUP);
 * thread-safe: a line is one write(). Values with spaces, quotes or control characters are quoted
 * and escaped, so that no payload can forge a line. Never log payloads.
 * Tests: tests/unit/test_log.c
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
    const char *key;
    enum { LOG_F_STR, LOG_F_BYTES, LOG_F_INT, LOG_F_UINT } type;
    union {
        const char *str;
        struct bytes bytes;
        int64_t i;
        uint64_t u;
    };
};

#define LOG_STR(k, v) ((struct log_field){.key = (k), .type = LOG_F_STR, .str = (v)})
#define LOG_BYTES(k, v) ((struct log_field){.key = (k), .type = LOG_F_BYTES, .bytes = (v)})
#define LOG_INT(k, v) ((struct log_field){.key = (k), .type = LOG_F_INT, .i = (int64_t)(v)})
#define LOG_UINT(k, v) ((struct log_field){.key = (k), .type = LOG_F_UINT, .u = (uint64_t)(v)})

void log_setup(enum log_level level, enum log_format format);
bool log_level_parse(struct bytes text, enum log_level *out); /* debug info warn error */
bool log_enabled(enum log_level level);
/* `event` is a short fixed text such as "store: commit failed". */
void log_event(enum log_level level, const char *event, const struct log_field *fields, size_t n);
#define LOG(level, event, ...)                                                                     \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_event((level), (event), (const struct log_field[]){__VA_ARGS__},                   \
                      sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)); \
    } while (0)
/* Logs `err` with code, message, errno and place. */
void log_error(enum log_level level, const char *event, const struct error *err);
