#include "client/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"

#define CONNECT_TIMEOUT (10 * USEC_PER_SEC)
#define BACKOFF_MIN (100 * USEC_PER_MSEC)
#define BACKOFF_MAX (5 * USEC_PER_SEC)

struct waiter {
    struct list_node node;
    channel_ready_fn *fn;
    void *arg;
};

/* One connection; it may outlive its being the channel's current one, while calls run on it. */
struct link {
    struct channel *ch;
    struct list_node node;
    struct rpc_conn *rpc;
    struct loop_stream *stream;
    struct loop_timer *timer;
    usec_t armed;
    bool lost, is_usable; /* usable: no handshake is under way */
};

struct channel {
    struct loop *loop;
    bool owns_loop, has_connected, is_closing, was_refused;
    struct strbuf address, user_agent, authorization;
    struct channel_options opts;
    struct link *current;
    struct list links;
    struct list waiters;
    struct attempt *attempt;
    struct loop_timer *timer; /* the next attempt, or waiters to be told */
    usec_t backoff, not_before;
};

/* A connect that is under way. */
struct attempt {
    struct channel *ch; /* NULL: nobody wants it any more */
};

/* ---- a connection ---------------------------------------------------------------------------- */

static void arm(struct link *k)
{
    usec_t due = rpc_conn_next_tick(k->rpc);

    if (due >= k->armed)
        return;
    k->armed = due;
    loop_timer_set(k->timer, due);
}

static void lose(struct link *k)
{
    k->lost = true;
    if (k->ch->current == k)
        k->ch->current = NULL;
}

static void on_timer(void *arg)
{
    struct link *k = arg;

    k->armed = USEC_NEVER;
    if (rpc_conn_tick(k->rpc, loop_now(k->ch->loop), NULL) != OK) {
        lose(k);
        loop_stream_close(k->stream, false);
        return;
    }
    arm(k);
}

static void on_want_send(void *arg)
{
    struct link *k = arg;

    if (k->stream)
        loop_stream_want_send(k->stream);
}

static void tell_waiters(struct channel *ch, const struct error *err);
static void failed(struct channel *ch, const struct error *err);

static void use(struct link *k)
{
    struct channel *ch = k->ch;

    k->is_usable = true;
    ch->was_refused = false;
    ch->has_connected = true;
    ch->backoff = 0;
    ch->current = k;
    tell_waiters(ch, NULL);
}

static bool on_received(struct loop_stream *s UNUSED, void *arg, struct bytes in)
{
    struct link *k = arg;

    if (rpc_conn_recv(k->rpc, in, loop_now(k->ch->loop), NULL) != OK) {
        lose(k);
        return false;
    }
    arm(k);
    if (!k->is_usable) /* the server speaks first, once it has looked at our certificate */
        use(k);
    if (!rpc_conn_is_finished(k->rpc))
        return true;
    lose(k);
    return false;
}

static void on_produce(struct loop_stream *s, void *arg, struct strbuf *out, size_t max)
{
    struct link *k = arg;

    rpc_conn_send(k->rpc, out, max, loop_now(k->ch->loop));
    if (rpc_conn_is_finished(k->rpc)) {
        lose(k);
        loop_stream_close(s, true);
    }
}

static void tell_unsecured(struct link *k, const struct error *why)
{
    struct error err = {0};

    if (why)
        err = *why;
    else
        error_set(&err, ERR_UNAVAILABLE, "the connection ended in the TLS handshake");
    error_wrap(&err, ERR_UNAVAILABLE, "could not connect to \"%s\"", strbuf_cstr(&k->ch->address));
    k->ch->was_refused = true;
    failed(k->ch, &err);
}

static void on_closed(struct loop_stream *s, void *arg)
{
    struct link *k = arg;

    lose(k);
    if (!k->is_usable && !k->ch->is_closing)
        tell_unsecured(k, loop_stream_tls_error(s));
    k->stream = NULL;
    list_remove(&k->node);
    rpc_conn_free(k->rpc);
    loop_timer_free(k->timer);
    free(k);
}

/* The host of the address, NUL-terminated in `out`. */
static const char *host_of(struct channel *ch, char *out, size_t size)
{
    struct bytes a = strbuf_bytes(&ch->address);
    const uint8_t *colon = memrchr(a.ptr, ':', a.len); /* it was checked */
    struct bytes host = bytes_of(a.ptr, (size_t)(colon - a.ptr));

    if (bytes_starts_with(a, BYTES_LIT("unix:")))
        host = BYTES_LIT("localhost");
    else if (host.len > 2 && host.ptr[0] == '[')
        host = bytes_of(host.ptr + 1, host.len - 2);
    (void)snprintf(out, size, "%.*s", BYTES_FMT(host));
    return out;
}

static void open_link(struct channel *ch, int fd)
{
    static const struct loop_stream_ops OPS = {on_received, on_produce, on_closed};
    char host[256];
    struct link *k = calloc(1, sizeof(*k));
    const struct rpc_conn_events ev = {.want_send = on_want_send, .arg = k};
    const struct rpc_conn_client_options opts = {
        .authority = bytes_starts_with(strbuf_bytes(&ch->address), BYTES_LIT("unix:"))
                         ? "localhost"
                         : strbuf_cstr(&ch->address),
        .user_agent = strbuf_cstr(&ch->user_agent),
        .authorization = ch->opts.api_key ? strbuf_cstr(&ch->authorization) : NULL,
        .is_secure = ch->opts.tls != NULL,
        .message_bytes_max = ch->opts.message_bytes_max,
        .keepalive_idle = ch->opts.keepalive_idle,
        .keepalive_timeout = ch->opts.keepalive_timeout,
    };

    ASSERT(k);
    k->ch = ch;
    k->armed = USEC_NEVER;
    k->timer = loop_timer_new(ch->loop, on_timer, k);
    k->stream = loop_stream_new(ch->loop, fd, &OPS, k);
    k->rpc = rpc_conn_new_client(&opts, &ev, loop_now(ch->loop));
    list_push_back(&ch->links, &k->node);
    arm(k);
    if (ch->opts.tls)
        loop_stream_secure(k->stream,
                           tls_session_new(ch->opts.tls, TLS_H2, host_of(ch, host, sizeof(host))));
    else
        use(k);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void tell_waiters(struct channel *ch, const struct error *err)
{
    struct list now;

    list_init(&now);
    list_splice_back(&now, &ch->waiters);
    for (struct list_node *n; (n = list_pop_front(&now));) {
        struct waiter *w = LIST_ENTRY(n, struct waiter, node);
        w->fn(w->arg, ch->current ? ch->current->rpc : NULL, err);
        free(w);
    }
}

static void failed(struct channel *ch, const struct error *err)
{
    ch->backoff = ch->backoff == 0 ? BACKOFF_MIN : MIN(ch->backoff * 2, BACKOFF_MAX);
    ch->not_before = loop_now(ch->loop) + ch->backoff;
    tell_waiters(ch, err);
}

static void on_connected(void *arg, int fd, const struct error *err)
{
    struct attempt *a = arg;
    struct channel *ch = a->ch;

    free(a);
    if (!ch) {
        if (fd >= 0)
            close(fd);
        return;
    }
    ch->attempt = NULL;
    if (fd < 0)
        failed(ch, err);
    else
        open_link(ch, fd);
}

static bool is_securing(const struct channel *ch)
{
    LIST_FOR_EACH (&ch->links, n)
        if (!LIST_ENTRY(n, struct link, node)->is_usable)
            return true;
    return false;
}

static void on_attempt_due(void *arg)
{
    struct channel *ch = arg;

    if (list_is_empty(&ch->waiters) || ch->attempt || is_securing(ch))
        return;
    if (channel_conn(ch)) {
        tell_waiters(ch, NULL);
        return;
    }
    ch->attempt = calloc(1, sizeof(*ch->attempt));
    ASSERT(ch->attempt);
    ch->attempt->ch = ch;
    loop_connect(ch->loop, strbuf_bytes(&ch->address),
                 ch->opts.connect_timeout ? ch->opts.connect_timeout : CONNECT_TIMEOUT,
                 on_connected, ch->attempt);
}

struct rpc_conn *channel_conn(struct channel *ch)
{
    if (ch->current && !rpc_conn_takes_calls(ch->current->rpc))
        ch->current = NULL; /* its calls go on; new ones get a new connection */
    return ch->current ? ch->current->rpc : NULL;
}

bool channel_has_connected(const struct channel *ch)
{
    return ch->has_connected;
}

bool channel_was_refused(const struct channel *ch)
{
    return ch->was_refused;
}

struct loop *channel_loop(struct channel *ch)
{
    return ch->loop;
}

void channel_when_ready(struct channel *ch, channel_ready_fn *fn, void *arg)
{
    struct waiter *w = calloc(1, sizeof(*w));

    ASSERT(w);
    w->fn = fn;
    w->arg = arg;
    list_push_back(&ch->waiters, &w->node);
    loop_timer_set(ch->timer,
                   channel_conn(ch) ? loop_now(ch->loop) : MAX(loop_now(ch->loop), ch->not_before));
}

void channel_call_started(struct channel *ch)
{
    LIST_FOR_EACH (&ch->links, n)
        arm(LIST_ENTRY(n, struct link, node));
}

/* ---- making ---------------------------------------------------------------------------------- */

static struct bytes strip_scheme(struct bytes a)
{
    static const struct bytes SCHEMES[] = {BYTES_LIT("http://"), BYTES_LIT("grpc://"),
                                           BYTES_LIT("https://"), BYTES_LIT("grpcs://")};

    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++)
        if (bytes_starts_with(a, SCHEMES[i]))
            a = bytes_of(a.ptr + SCHEMES[i].len, a.len - SCHEMES[i].len);
    if (a.len > 0 && a.ptr[a.len - 1] == '/' && !bytes_starts_with(a, BYTES_LIT("unix:")))
        a.len--;
    return a;
}

enum err channel_new(struct loop *loop, const struct channel_options *opts, struct channel **out,
                     struct error *err)
{
    struct bytes address = strip_scheme(opts->address);
    enum err e = loop_address_check(address, err);
    bool owns = !loop;

    if (e || (owns && (e = loop_new(&loop, err))))
        return e;
    struct channel *ch = calloc(1, sizeof(*ch));
    ASSERT(ch);
    ch->loop = loop;
    ch->owns_loop = owns;
    ch->opts = *opts;
    strbuf_append_bytes(&ch->address, address);
    strbuf_append_str(&ch->user_agent, opts->user_agent ? opts->user_agent : "perdure");
    if (opts->api_key)
        strbuf_appendf(&ch->authorization, "Bearer %s", opts->api_key);
    list_init(&ch->links);
    list_init(&ch->waiters);
    ch->timer = loop_timer_new(loop, on_attempt_due, ch);
    *out = ch;
    return OK;
}

void channel_free(struct channel *ch)
{
    struct error gone;

    if (!ch)
        return;
    ch->is_closing = true;
    if (ch->attempt)
        ch->attempt->ch = NULL; /* its callback frees it */
    LIST_FOR_EACH (&ch->links, n)
        loop_stream_close(LIST_ENTRY(n, struct link, node)->stream, false);
    loop_reap(ch->loop);
    error_set(&gone, ERR_CANCELLED, "the channel is closed");
    ch->current = NULL;
    tell_waiters(ch, &gone);
    loop_timer_free(ch->timer);
    if (ch->owns_loop)
        loop_free(ch->loop);
    strbuf_deinit(&ch->address);
    strbuf_deinit(&ch->user_agent);
    strbuf_deinit(&ch->authorization);
    free(ch);
}
