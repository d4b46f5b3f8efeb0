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
    if (s->state == STREAM_OPEN && !s->ops->received(s, s->arg, bytes_of(l->read_buf, (size_t)n)))
        loop_stream_close(s, true);
}

static void on_writable(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct loop_stream *s = arg;

    s->writable_wait = false;
    mark_dirty(s);
}

static void on_linger(void *arg)
{
    die(arg);
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
    s->linger = loop_timer_new(s->loop, on_linger, s);
    loop_timer_set(s->linger, usec_add(loop_now(s->loop), LINGER_TIME));
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
    (void)shutdown(s->fd, SHUT_WR); /* the peer may be gone */
    s->state = STREAM_LINGERING;
}

/* The round's one write of a stream. */
static void flush(struct loop_stream *s)
{
    struct loop *l = s->loop;

    if (s->rest.len > 0) {
        if (write_out(s, strbuf_bytes(&s->rest), true) && !s->writable_wait)
            mark_dirty(s); /* more may have come meanwhile */
        return;
    }
    if (s->want_send && s->state != STREAM_LINGERING) {
        s->want_send = false;
        strbuf_reset(&l->out);
        s->ops->produce(s, s->arg, &l->out, LOOP_WRITE_BYTES);
        /* A full round's worth: there may be more, also when the socket does not take all of this. */
        if (l->out.len >= LOOP_WRITE_BYTES)
            s->want_send = true;
        if (l->out.len > 0 && (!write_out(s, strbuf_bytes(&l->out), false) || s->writable_wait))
            return;
    }
    if (s->state == STREAM_FLUSHING && !s->want_send)
        shut_down(s);
    else if (s->want_send && s->state != STREAM_DEAD)
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
