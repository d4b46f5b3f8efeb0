/* http.h - the HTTP/1.1 side: /healthz, /readyz, /metrics; libevent's evhttp on one loop.
 *
 * Made before its loop runs and freed after it stopped.
 * Tests: tests/cli/
 */
#pragma once

#include "base/metrics.h"
#include "loop/loop.h"
#include "loop/tls.h"

struct http;

struct http_options {
    struct loop *loop;
    struct metrics *metrics;
    /* OK, or why not: shown by /readyz. On the loop's thread. */
    enum err (*ready)(void *arg, struct error *err);
    /* May who sends this authorization header (none: there is none) get this path? ERR_UNAUTHENTICATED, ERR_DENIED. On the loop's thread. */
    enum err (*admit)(void *arg, const char *path, struct bytes authorization, struct error *err);
    void *arg;       /* of both */
    struct tls *tls; /* NULL: plaintext */
};

struct http *http_new(const struct http_options *opts);
void http_free(struct http *h); /* NULL is fine */
/* Errors as loop_listener_new(). */
MUST_CHECK enum err http_listen(struct http *h, struct bytes address, struct error *err);
/* Appends the addresses as given with real ports, separated by commas. */
void http_addresses(const struct http *h, struct strbuf *out);
