#include "http/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"

#define LISTENERS_MAX 16
#define HEADERS_MAX KIB(16)
#define BODY_MAX KIB(64)
#define IDLE_SECONDS 60
/* Those that get a 405 of ours; libevent answers 501 to the rest. */
#define METHODS                                                                                    \
    (EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |     \
     EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH)

static const struct timeval ACCEPT_PAUSE = {.tv_usec = 100000};

struct http {
    struct http_options opts;
    struct evhttp *server;
    struct loop_listener *listeners[LISTENERS_MAX];
    size_t count;
};

static void respond(struct evhttp_request *req, int status, const char *reason, const char *type,
                    struct bytes body)
{
    struct evbuffer *buf = evbuffer_new();
    ASSERT(buf);
    evbuffer_add(buf, body.ptr, body.len);
    evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", type);
    evhttp_send_reply(req, status, reason, buf);
    evbuffer_free(buf);
}

static void respond_text(struct evhttp_request *req, int status, const char *reason,
                         const char *text)
{
    respond(req, status, reason, "text/plain; charset=utf-8", bytes_str(text));
}

static void healthz(struct http *h, struct evhttp_request *req)
{
    (void)h;
    respond_text(req, 200, "OK", "ok\n");
}

static void readyz(struct http *h, struct evhttp_request *req)
{
    struct error err = {0};
    char text[ERROR_MSG_MAX + 2];
    if (!h->opts.ready(h->opts.arg, &err)) {
        respond_text(req, 200, "OK", "ready\n");
        return;
    }
    snprintf(text, sizeof(text), "%s\n", err.msg);
    respond_text(req, 503, "Service Unavailable", text);
}

static void metrics(struct http *h, struct evhttp_request *req)
{
    struct strbuf out = {0};
    metrics_render(h->opts.metrics, &out);
    respond(req, 200, "OK", "text/plain; version=0.0.4; charset=utf-8", strbuf_bytes(&out));
    strbuf_deinit(&out);
}

static const struct route {
    const char *path;
    void (*get)(struct http *h, struct evhttp_request *req);
} ROUTES[] = {
    {"/healthz", healthz},
    {"/readyz", readyz},
    {"/metrics", metrics},
};

/* False: answered. */
static bool is_admitted(struct http *h, struct evhttp_request *req, const char *path)
{
    const char *shown = evhttp_find_header(evhttp_request_get_input_headers(req), "Authorization");
    struct error err = {0};
    char text[ERROR_MSG_MAX + 2];
    if (!h->opts.admit || !h->opts.admit(h->opts.arg, path, bytes_str(shown), &err))
        return true;
    bool is_unknown = err.code == ERR_UNAUTHENTICATED;
    if (is_unknown)
        evhttp_add_header(evhttp_request_get_output_headers(req), "WWW-Authenticate", "Bearer");
    snprintf(text, sizeof(text), "%s\n", err.msg);
    respond_text(req, err_http_status(err.code), is_unknown ? "Unauthorized" : "Forbidden", text);
    return false;
}

static void dispatch(struct evhttp_request *req, void *arg)
{
    struct http *h = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    enum evhttp_cmd_type method = evhttp_request_get_command(req);
    for (size_t i = 0; path && i < ARRAY_LEN(ROUTES); i++) {
        if (!bytes_eq(bytes_str(path), bytes_str(ROUTES[i].path)))
            continue;
        if (method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD) {
            if (is_admitted(h, req, ROUTES[i].path))
                ROUTES[i].get(h, req);
            return;
        }
        evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "GET, HEAD");
        respond_text(req, 405, "Method Not Allowed", "only GET and HEAD are allowed here\n");
        return;
    }
    respond_text(req, 404, "Not Found", "no such page; there are /healthz, /readyz and /metrics\n");
}

static void accept_again(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    evconnlistener_enable(arg);
}

/* Out of descriptors: a pause, so that the level-triggered event does not spin. */
static void on_accept_failed(struct evconnlistener *l, void *arg UNUSED)
{
    evconnlistener_disable(l);
    if (event_base_once(evconnlistener_get_base(l), -1, EV_TIMEOUT, accept_again, l, &ACCEPT_PAUSE))
        evconnlistener_enable(l);
}

static struct bufferevent *secured(struct event_base *base, void *arg)
{
    return bufferevent_openssl_socket_new(base, -1, tls_accept(arg, TLS_HTTP1),
                                          BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

struct http *http_new(const struct http_options *opts)
{
    struct http *h = calloc(1, sizeof(*h));
    ASSERT(h);
    h->opts = *opts;
    h->server = evhttp_new(loop_event_base(opts->loop));
    ASSERT(h->server);
    evhttp_set_max_headers_size(h->server, (ev_ssize_t)HEADERS_MAX);
    evhttp_set_max_body_size(h->server, (ev_ssize_t)BODY_MAX);
    evhttp_set_timeout(h->server, IDLE_SECONDS);
    evhttp_set_allowed_methods(h->server, METHODS);
    evhttp_set_gencb(h->server, dispatch, h);
    if (opts->tls)
        evhttp_set_bevcb(h->server, secured, opts->tls);
    return h;
}

void http_free(struct http *h)
{
    if (!h)
        return;
    evhttp_free(h->server);
    for (size_t i = 0; i < h->count; i++)
        loop_listener_free(h->listeners[i]);
    free(h);
}

static void never(void *arg, int fd, struct bytes peer)
{
    (void)arg;
    (void)peer;
    close(fd);
}

enum err http_listen(struct http *h, struct bytes address, struct error *err)
{
    if (h->count == LISTENERS_MAX)
        return error_set(err, ERR_INVALID, "more than %d HTTP addresses", LISTENERS_MAX);
    struct loop_listen_options opts = {.address = address, .backlog = 128};
    struct loop_listener *l;
    enum err rc = loop_listener_new(h->opts.loop, &opts, never, NULL, &l, err);
    if (rc)
        return rc;
    h->listeners[h->count++] = l;
    int fds[8];
    size_t n = loop_listener_lend(l, fds, ARRAY_LEN(fds));
    for (size_t i = 0; i < n; i++) {
        int own = dup(fds[i]);
        struct evhttp_bound_socket *bound =
            own < 0 ? NULL : evhttp_accept_socket_with_handle(h->server, own);
        if (!bound)
            return error_set(err, ERR_IO, "could not serve HTTP on \"%.*s\"", BYTES_FMT(address));
        evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(bound), on_accept_failed);
    }
    return OK;
}

void http_addresses(const struct http *h, struct strbuf *out)
{
    for (size_t i = 0; i < h->count; i++) {
        if (i)
            strbuf_append_char(out, ',');
        loop_listener_address(h->listeners[i], out);
    }
}
