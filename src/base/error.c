#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

struct err_info {
    const char *name, *text;
    int grpc, http, exit;
};

#define ERR_INFO(name, grpc, http, exit, text) {#name, text, grpc, http, exit},
static const struct err_info ERRORS[] = {ERR_TABLE(ERR_INFO)};
#undef ERR_INFO
static_assert(ARRAY_LEN(ERRORS) == ERR_COUNT, "one row a code");

static const char *const GRPC_NAMES[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

static const struct err_info *info_of(enum err e)
{
    ASSERT((unsigned)e < ERR_COUNT);
    return &ERRORS[e];
}

const char *err_name(enum err e)
{
    return info_of(e)->name;
}

const char *err_text(enum err e)
{
    return info_of(e)->text;
}

int err_grpc_status(enum err e)
{
    return info_of(e)->grpc;
}

int err_http_status(enum err e)
{
    return info_of(e)->http;
}

int err_exit_status(enum err e)
{
    return info_of(e)->exit;
}

enum err err_from_grpc(int status)
{
    if (status == 15) /* DATA_LOSS: no code of ours answers it, but a peer may */
        return ERR_CORRUPT;
    for (size_t i = 0; i < ERR_COUNT; i++) { /* the first row of a status is its general one */
        if (ERRORS[i].grpc == status)
            return (enum err)i;
    }
    return ERR_UNKNOWN;
}

const char *grpc_status_name(int status)
{
    if (status < 0 || (size_t)status >= ARRAY_LEN(GRPC_NAMES))
        return "UNKNOWN";
    return GRPC_NAMES[status];
}

/* Cuts what vsnprintf() may have cut within a character. */
static void end_at_character(char msg[ERROR_MSG_MAX])
{
    struct bytes text = bytes_of(msg, ERROR_MSG_MAX - 1);
    size_t last = text.len; /* start of the last character */

    while (last > 0 && (msg[last - 1] & 0xC0) == 0x80)
        last--;
    if (last > 0 && (msg[last - 1] & 0x80))
        last--;
    else
        last = text.len;
    if (last < text.len && !utf8_is_valid(bytes_of(msg + last, text.len - last)))
        msg[last] = '\0';
}

enum err error_set_at(struct error *err, enum err code, const char *file, int line, const char *fmt,
                      ...)
{
    int sys = code == ERR_IO ? errno : 0;
    va_list ap;

    if (!err)
        return code;
    /* The message may quote the one of *err itself. */
    char msg[ERROR_MSG_MAX];
    va_start(ap, fmt);
    int n = vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    if (n >= ERROR_MSG_MAX)
        end_at_character(msg);
    err->code = code;
    err->sys = sys;
    err->file = file;
    err->line = line;
    memcpy(err->msg, msg, n >= 0 ? strlen(msg) + 1 : 0);
    return code;
}

enum err error_wrap(struct error *err, enum err code, const char *fmt, ...)
{
    char msg[ERROR_MSG_MAX];
    va_list ap;

    if (!err)
        return code;
    va_start(ap, fmt);
    int n = vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    size_t used = MIN((size_t)n, sizeof(msg) - 1);
    if (err->msg[0] != '\0')
        n += snprintf(msg + used, sizeof(msg) - used, ": %s", err->msg);
    if (n >= ERROR_MSG_MAX)
        end_at_character(msg);
    memcpy(err->msg, msg, sizeof(msg));
    err->code = code;
    return code;
}
