/* stream.c - connected sockets: one read and one write a round. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "loop/internal.h"
#include "loop/tls.h"

#define TLS_TIME (10 * USEC_PER_SEC)   /* for a handshake */
#define TLS_PENDING_MAX KIB(64)        /* answers of TLS itself to a peer that does not read them */
#define LINGER_TIME (2 * USEC_PER_SEC) /* for a peer to take what is left and close */

enum stream_state {
    STREAM_OPEN,
    STREAM_FLUSHING,  /* closed by us; produce() still gives */
    STREAM_LINGERING, /* all is written and shut down; waits for the peer's end */
    STREAM_DEAD       /* to be freed at the end of the round */
};

struct loop_stream {
    struct loop *loop;
    int fd;
    enum stream_state state;
    bool paused, want_send, writable_wait;
    struct event *read_event, *write_event;
    struct list_node node;  /* loop->streams */
    struct list_node dirty; /* loop->dirty */
    struct strbuf rest;     /* produced, and not taken by the socket */
    struct loop_timer *linger;
    struct tls_session *tls; /* NULL: plain */
    const struct loop_stream_ops *ops;
    void *arg;
};

static void mark_dirty(struct loop_stream *s)
{
    if (!list_is_linked(&s->dirty))
        list_push_back(&s->loop->dirty, &s->dirty);
}

static void die(struct loop_stream *s)
{
    s->state = STREAM_DEAD;
    mark_dirty(s);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static void on_linger(void *arg)
{
    die(arg);
}

static void set_linger(struct loop_stream *s, usec_t time)
{
    loop_timer_free(s->linger);
    s->linger = loop_timer_new(s->loop, on_linger, s);
    loop_timer_set(s->linger, usec_add(loop_now(s->loop), time));
}

/* Sends the alert that says why, if the socket takes it at once. What still comes is read and dropped for a moment: a reset, which
 * unread bytes bring about, would take the alert back. */
static void end_tls(struct loop_stream *s)
{
    struct strbuf *out = &s->loop->sealed;

    strbuf_reset(out);
    tls_session_take(s->tls, out);
    if (s->rest.len > 0) {
        die(s);
        return;
    }
    if (out->len > 0)
        (void)send(s->fd, out->ptr, out->len, MSG_NOSIGNAL);
    (void)shutdown(s->fd, SHUT_WR);
    s->state = STREAM_LINGERING;
    set_linger(s, LINGER_TIME);
}

/* False: it has failed. */
static bool go_on_with_handshake(struct loop_stream *s)
{
    if (tls_session_is_secured(s->tls))
        return true;
    if (!tls_session_step(s->tls)) {
        end_tls(s);
        return false;
    }
    mark_dirty(s);
    if (!tls_session_is_secured(s->tls))
        return true;
    loop_timer_free(s->linger);
    s->linger = NULL;
    return true;
}

/* As much as there is, up to LOOP_READ_BYTES, in the loop's buffer. */
static size_t read_decrypted(struct loop_stream *s, bool *is_over)
{
    size_t got = 0;
    ssize_t n = 1;

    while (got < LOOP_READ_BYTES && n > 0) {
        n = tls_session_read(s->tls, s->loop->read_buf + got, LOOP_READ_BYTES - got);
        if (n > 0)
            got += (size_t)n;
    }
    *is_over = n < 0;
    return got;
}

static void receive_tls(struct loop_stream *s, struct bytes in)
{
    bool is_over = false;

    tls_session_feed(s->tls, in);
    if (!go_on_with_handshake(s) || !tls_session_is_secured(s->tls))
        return;
    while (!is_over && s->state != STREAM_DEAD) {
        size_t n = read_decrypted(s, &is_over);
        if (n == 0)
            break;
        if (s->state == STREAM_OPEN && !s->ops->received(s, s->arg, bytes_of(s->loop->read_buf, n)))
            loop_stream_close(s, true);
    }
    size_t pending = tls_session_pending(s->tls);
    if (pending > TLS_PENDING_MAX)
        die(s);
    else if (is_over && s->state != STREAM_DEAD)
        end_tls(s);
    else if (pending > 0)
        mark_dirty(s);
}

static bool may_produce(const struct loop_stream *s)
{
    return s->want_send && s->state != STREAM_LINGERING &&
           (!s->tls || tls_session_is_secured(s->tls));
}

/* What goes to the socket for what was produced, and for what TLS itself has to say. */
static struct bytes seal(struct loop_stream *s, struct bytes produced)
{
    struct strbuf *out = &s->loop->sealed;

    if (!s->tls)
        return produced;
    strbuf_reset(out);
    if (produced.len > 0 && !tls_session_write(s->tls, produced))
        die(s);
    tls_session_take(s->tls, out);
    return strbuf_bytes(out);
}

void loop_stream_secure(struct loop_stream *s, struct tls_session *session)
{
    ASSERT(!s->tls && s->state == STREAM_OPEN);
    s->tls = session;
    set_linger(s, TLS_TIME);
    (void)go_on_with_handshake(s); /* a client speaks first */
}

const struct error *loop_stream_tls_error(const struct loop_stream *s)
{
    return s->tls ? tls_session_error(s->tls) : NULL;
}

/* ---- input ----------------------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct loop_stream *s = arg;
    struct loop *l = s->loop;

    if (s->state == STREAM_DEAD)
        return;
    ssize_t n = recv((int)fd, l->read_buf, LOOP_READ_BYTES, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        die(s);
        return;
    }
    if (s->tls && s->state != STREAM_LINGERING)
        receive_tls(s, bytes_of(l->read_buf, (size_t)n));
    else if (s->state == STREAM_OPEN &&
             !s->ops->received(s, s->arg, bytes_of(l->read_buf, (size_t)n)))
        loop_stream_close(s, true);
}

static void on_writable(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct loop_stream *s = arg;

    s->writable_wait = false;
    mark_dirty(s);
}

struct loop_stream *loop_stream_new(struct loop *l, int fd, const struct loop_stream_ops *ops,
                                    void *arg)
{
    struct loop_stream *s = calloc(1, sizeof(*s));
    int one = 1;

    ASSERT(s);
    s->loop = l;
    s->fd = fd;
    s->ops = ops;
    s->arg = arg;
    (void)evutil_make_socket_nonblocking(fd);
    (void)evutil_make_socket_closeonexec(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on a Unix socket */
    s->read_event = event_new(l->base, fd, EV_READ | EV_PERSIST, on_readable, s);
    ASSERT(s->read_event && event_add(s->read_event, NULL) == 0);
    list_push_back(&l->streams, &s->node);
    return s;
}

void loop_stream_want_send(struct loop_stream *s)
{
    s->want_send = true;
    if (!s->writable_wait)
        mark_dirty(s);
}

void loop_stream_pause(struct loop_stream *s, bool paused)
{
    if (s->paused == paused || s->state != STREAM_OPEN)
        return;
    s->paused = paused;
    if (paused)
        event_del(s->read_event);
    else
        event_add(s->read_event, NULL);
}

void loop_stream_close(struct loop_stream *s, bool flush)
{
    if (s->state == STREAM_DEAD || (flush && s->state != STREAM_OPEN))
        return;
    if (!flush) {
        die(s);
        return;
    }
    if (s->paused)
        event_add(s->read_event, NULL);
    s->state = STREAM_FLUSHING;
    set_linger(s, LINGER_TIME);
    s->want_send = true;
    if (!s->writable_wait)
        mark_dirty(s);
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Writes; keeps what the socket does not take. False: the stream is dead. */
static bool write_out(struct loop_stream *s, struct bytes b, bool is_rest)
{
    ssize_t n = send(s->fd, b.ptr, b.len, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        s->state = STREAM_DEAD;
        return false;
    }
    size_t sent = n < 0 ? 0 : (size_t)n;
    if (is_rest)
        strbuf_consume(&s->rest, sent);
    else if (sent < b.len)
        strbuf_append(&s->rest, b.ptr + sent, b.len - sent);
    if (s->rest.len == 0) {
        strbuf_deinit(&s->rest);
        return true;
    }
    if (!s->write_event)
        s->write_event = event_new(s->loop->base, s->fd, EV_WRITE, on_writable, s);
    ASSERT(s->write_event && event_add(s->write_event, NULL) == 0);
    s->writable_wait = true;
    return true;
}

static void shut_down(struct loop_stream *s)
{
    if (s->tls) {
        tls_session_end(s->tls);
        struct bytes b = seal(s, BYTES_NONE);
        if (b.len > 0)
            (void)send(s->fd, b.ptr, b.len, MSG_NOSIGNAL); /* nothing else waits */
    }
    (void)shutdown(s->fd, SHUT_WR); /* the peer may be gone */
    s->state = STREAM_LINGERING;
}

/* The round's one write of a stream. */
static void flush(struct loop_stream *s)
{
    struct loop *l = s->loop;
    bool produces = may_produce(s);

    if (s->rest.len > 0) {
        if (write_out(s, strbuf_bytes(&s->rest), true) && !s->writable_wait)
            mark_dirty(s); /* more may have come meanwhile */
        return;
    }
    strbuf_reset(&l->out);
    if (produces) {
        s->want_send = false;
        s->ops->produce(s, s->arg, &l->out, LOOP_WRITE_BYTES);
        /* A full round's worth: there may be more, also when the socket does not take all of this. */
        if (l->out.len >= LOOP_WRITE_BYTES)
            s->want_send = true;
    }
    struct bytes b = seal(s, strbuf_bytes(&l->out));
    if (b.len > 0 && (!write_out(s, b, false) || s->writable_wait))
        return;
    if (s->state == STREAM_FLUSHING && !may_produce(s))
        shut_down(s);
    else if (may_produce(s) && s->state != STREAM_DEAD)
        mark_dirty(s);
}

static void stream_free(struct loop_stream *s)
{
    s->ops->closed(s, s->arg);
    if (list_is_linked(&s->dirty))
        list_remove(&s->dirty);
    list_remove(&s->node);
    event_free(s->read_event);
    if (s->write_event)
        event_free(s->write_event);
    loop_timer_free(s->linger);
    strbuf_deinit(&s->rest);
    tls_session_free(s->tls);
    close(s->fd);
    free(s);
}

bool loop_flush_streams(struct loop *l)
{
    struct list now;

    list_init(&now);
    list_splice_back(&now, &l->dirty);
    for (struct list_node *n; (n = list_pop_front(&now));) {
        struct loop_stream *s = LIST_ENTRY(n, struct loop_stream, dirty);
        if (s->state != STREAM_DEAD && !s->writable_wait)
            flush(s);
        if (s->state == STREAM_DEAD)
            stream_free(s);
    }
    return !list_is_empty(&l->dirty);
}

void loop_close_streams(struct loop *l)
{
    for (struct list_node *n; (n = list_first(&l->streams));)
        stream_free(LIST_ENTRY(n, struct loop_stream, node));
}
