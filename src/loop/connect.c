/* connect.c - connecting: every address of a name in turn, without blocking.
 *
 * Resolving a name may block; the loops of the server never connect.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "loop/internal.h"

struct connecting {
    struct loop *loop;
    struct loop_address address;
    struct bytes text; /* as given, for messages; own copy */
    struct addrinfo *list, *next;
    int fd;
    struct event *event;
    struct loop_timer *timer;
    usec_t due;
    const char *why;
    void (*fn)(void *arg, int fd, const struct error *err);
    void *arg;
};

static void done(struct connecting *c, int fd)
{
    struct error err = {0};

    if (c->event)
        event_free(c->event);
    loop_timer_free(c->timer);
    if (c->list)
        freeaddrinfo(c->list);
    if (fd < 0)
        error_set(&err, ERR_UNAVAILABLE, "could not connect to \"%.*s\": %s", BYTES_FMT(c->text),
                  c->why);
    c->fn(c->arg, fd, fd < 0 ? &err : NULL);
    free((void *)(uintptr_t)c->text.ptr);
    free(c);
}

static void try_next(struct connecting *c);

static void give_up_address(struct connecting *c, int e)
{
    c->why = strerror(e);
    close(c->fd);
    c->fd = -1;
    try_next(c);
}

static void on_connected(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct connecting *c = arg;
    int e = 0;
    socklen_t len = sizeof(e);

    (void)getsockopt((int)fd, SOL_SOCKET, SO_ERROR, &e, &len);
    event_free(c->event);
    c->event = NULL;
    if (e)
        give_up_address(c, e);
    else
        done(c, c->fd);
}

static void try_next(struct connecting *c)
{
    const struct addrinfo *ai = c->next;

    if (!ai) {
        done(c, -1);
        return;
    }
    c->next = ai->ai_next;
    c->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        c->why = strerror(errno);
        try_next(c);
        return;
    }
    if (connect(c->fd, ai->ai_addr, ai->ai_addrlen) != 0 && errno != EINPROGRESS) {
        give_up_address(c, errno);
        return;
    }
    c->event = event_new(c->loop->base, c->fd, EV_WRITE, on_connected, c);
    ASSERT(c->event && event_add(c->event, NULL) == 0);
}

static void on_timeout(void *arg)
{
    struct connecting *c = arg;

    c->why = "timed out";
    if (c->event) { /* before its descriptor goes */
        event_free(c->event);
        c->event = NULL;
    }
    if (c->fd >= 0)
        close(c->fd);
    done(c, -1);
}

/* The first step, in the next round: fn never runs inside loop_connect(). */
static void on_start(void *arg)
{
    struct connecting *c = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

    if (c->why) {
        done(c, -1);
        return;
    }
    if (c->address.is_unix) {
        int e = loop_unix_socket(c->address.host, &c->fd, true);
        c->why = e ? strerror(e) : NULL;
        done(c, e ? -1 : c->fd);
        return;
    }
    int rv = getaddrinfo(c->address.host, c->address.port, &hints, &c->list);
    if (rv != 0) {
        c->why = gai_strerror(rv);
        done(c, -1);
        return;
    }
    loop_timer_free(c->timer);
    c->timer = loop_timer_new(c->loop, on_timeout, c);
    loop_timer_set(c->timer, c->due);
    c->next = c->list;
    try_next(c);
}

void loop_connect(struct loop *l, struct bytes address, usec_t timeout,
                  void (*fn)(void *arg, int fd, const struct error *err), void *arg)
{
    struct connecting *c = calloc(1, sizeof(*c));
    uint8_t *copy = malloc(address.len + 1);

    ASSERT(c && copy);
    memcpy(copy, address.ptr, address.len);
    c->text = bytes_of(copy, address.len);
    c->loop = l;
    c->fd = -1;
    c->fn = fn;
    c->arg = arg;
    c->due = timeout > 0 ? usec_add(loop_now(l), timeout) : USEC_NEVER;
    if (loop_address_parse(c->text, &c->address, NULL) != OK)
        c->why = "the address is not HOST:PORT, [IPV6]:PORT or unix:PATH";
    c->timer = loop_timer_new(l, on_start, c);
    loop_timer_set(c->timer, loop_now(l));
}
