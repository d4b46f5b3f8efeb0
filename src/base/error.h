/* error.h - what went wrong: a code that is returned, and a message that travels beside it.
 *
 * `enum err` is returned and must be checked. `struct error *` is last and optional (NULL is fine);
 * it holds the code, errno, file and line of the first failure and one message, to which each
 * caller prepends what it was doing. One table maps codes to gRPC, HTTP and exit statuses.
 * Tests: tests/unit/test_error.c
 */
#pragma once

#include "base/macros.h"

/* clang-format off */
/*        name                 grpc http exit  meaning */
#define ERR_TABLE(X)                                                                                \
    X(OK,                      0,  200, 0, "fine")                                                  \
    X(ERR_CANCELLED,           1,  499, 1, "the caller gave up")                                    \
    X(ERR_UNKNOWN,             2,  500, 1, "an unknown status of a peer")                           \
    X(ERR_INVALID,             3,  400, 2, "bad input; fix it before another try")                  \
    X(ERR_DEADLINE,            4,  504, 6, "the caller's time ran out")                             \
    X(ERR_NOT_FOUND,           5,  404, 4, "no such instance, hub, event or row")                   \
    X(ERR_EXISTS,              6,  409, 5, "the id is taken")                                       \
    X(ERR_DENIED,              7,  403, 1, "known, but not allowed to")                             \
    X(ERR_LIMIT,               8,  429, 6, "a limit or an overload; nothing changed")               \
    X(ERR_STATE,               9,  412, 5, "refused in the state the thing is in")                  \
    X(ERR_CONFLICT,            10, 409, 1, "lost a race; re-read and retry")                        \
    X(ERR_RANGE,               11, 400, 2, "outside the valid range")                               \
    X(ERR_UNIMPLEMENTED,       12, 501, 1, "this server does not do that")                          \
    X(ERR_INTERNAL,            13, 500, 1, "a bug of ours")                                         \
    X(ERR_UNAVAILABLE,         14, 503, 6, "the store or peer is away; retry with backoff")         \
    X(ERR_CORRUPT,             13, 500, 1, "stored bytes do not decode")                            \
    X(ERR_UNAUTHENTICATED,     16, 401, 1, "no or bad credentials")                                 \
    X(ERR_IO,                  13, 500, 1, "the operating system refused")                          \
    X(ERR_STORE_OPEN,          13, 500, 3, "the store cannot be opened: locked, newer, not ours")
/* clang-format on */

#define ERR_ENUM(name, grpc, http, exit, text) name,
enum err { ERR_TABLE(ERR_ENUM) ERR_COUNT };
#undef ERR_ENUM

#define ERROR_MSG_MAX 1400 /* an id of 1024 characters and what is to be said of it */

struct error {
    enum err code;
    int sys; /* errno of the first failure, or 0 */
    const char *file;
    int line;
    char msg[ERROR_MSG_MAX]; /* NUL-terminated, cut at a character's end */
};

const char *err_name(enum err e); /* "ERR_NOT_FOUND" */
const char *err_text(enum err e);
int err_grpc_status(enum err e);
int err_http_status(enum err e);
int err_exit_status(enum err e);
enum err err_from_grpc(int status);       /* unknown numbers give ERR_UNKNOWN */
const char *grpc_status_name(int status); /* "NOT_FOUND"; "UNKNOWN" for others */

/* Sets *err (if not NULL) and returns `code`. errno is kept when code is ERR_IO. */
enum err error_set_at(struct error *err, enum err code, const char *file, int line, const char *fmt,
                      ...) PRINTF_LIKE(5, 6);
#define error_set(err, code, ...) error_set_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/* Prepends "<message>: " and returns `code` (also stored). */
enum err error_wrap(struct error *err, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);
