/* listener.c - listening sockets: one or two (localhost) of an address, and accepting. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "loop/internal.h"

#define SOCKETS_MAX 8
#define ACCEPTS_A_ROUND 64
#define PORT_TRIES 16 /* for a port that is free on both families */
#define ACCEPT_PAUSE (100 * USEC_PER_MSEC)
#define COMPLAINS_EVERY (60 * USEC_PER_SEC)

struct loop_listener {
    struct loop *loop;
    struct loop_address address;
    int fds[SOCKETS_MAX];
    struct event *events[SOCKETS_MAX];
    size_t count;
    unsigned port;
    dev_t dev; /* of the Unix socket's file: only our own is removed */
    ino_t ino;
    struct loop_timer *pause;
    usec_t complained; /* when it was last logged that nothing can be accepted */
    int spare; /* given up for a moment to close a connection that there is no descriptor for */
    loop_accept_fn *fn;
    void *arg;
};

/* ---- accepting ------------------------------------------------------------------------------- */

static void set_accepting(struct loop_listener *ln, bool on)
{
    for (size_t i = 0; i < ln->count; i++) {
        if (on)
            event_add(ln->events[i], NULL);
        else
            event_del(ln->events[i]);
    }
}

static void on_pause_over(void *arg)
{
    set_accepting(arg, true);
}

static int spare_descriptor(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Out of descriptors: who connects is told so by the end of the connection, and not left in the queue. 0, or the errno: EAGAIN
 * when nobody waits any more. */
static int close_next(struct loop_listener *ln, int fd)
{
    if (ln->spare < 0)
        ln->spare = spare_descriptor();
    if (ln->spare < 0)
        return errno;
    close(ln->spare);
    int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    int e = conn < 0 ? errno : 0;
    if (conn >= 0)
        close(conn);
    ln->spare = spare_descriptor();
    if (conn >= 0)
        ln->fn(ln->arg, -1, BYTES_NONE);
    return e;
}

/* A pause, so that the level-triggered event does not spin. */
static void accept_failed(struct loop_listener *ln, int e)
{
    usec_t now = loop_now(ln->loop);

    if (e == EAGAIN || e == EINTR || e == ECONNABORTED)
        return;
    if (ln->complained == 0 || now - ln->complained >= COMPLAINS_EVERY) {
        ln->complained = now;
        LOG(LOG_WARN, "listener: cannot accept", LOG_STR("reason", strerror(e)));
    }
    set_accepting(ln, false);
    loop_timer_set(ln->pause, usec_add(loop_now(ln->loop), ACCEPT_PAUSE));
}

static void on_acceptable(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct loop_listener *ln = arg;

    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        struct sockaddr_storage sa;
        socklen_t len = sizeof(sa);
        int conn = accept4((int)fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (conn < 0) {
            int e = errno;
            if (e == EMFILE || e == ENFILE)
                e = close_next(ln, (int)fd);
            if (e == 0)
                continue;
            accept_failed(ln, e);
            return;
        }
        struct strbuf peer = {0};
        loop_sockaddr_format((struct sockaddr *)&sa, &peer);
        ln->fn(ln->arg, conn, strbuf_bytes(&peer));
        strbuf_deinit(&peer);
    }
}

/* ---- binding --------------------------------------------------------------------------------- */

static unsigned port_of(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return 0;
    if (sa.ss_family == AF_INET) {
        memcpy(&in, &sa, sizeof(in));
        return ntohs(in.sin_port);
    }
    memcpy(&in6, &sa, sizeof(in6));
    return ntohs(in6.sin6_port);
}

static void set_port(struct sockaddr_storage *sa, unsigned port)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (sa->ss_family == AF_INET) {
        memcpy(&in, sa, sizeof(in));
        in.sin_port = htons((uint16_t)port);
        memcpy(sa, &in, sizeof(in));
    } else {
        memcpy(&in6, sa, sizeof(in6));
        in6.sin6_port = htons((uint16_t)port);
        memcpy(sa, &in6, sizeof(in6));
    }
}

/* A bound and listening socket, or -1 with errno. */
static int listen_on(const struct sockaddr_storage *sa, socklen_t len, bool dual, int backlog)
{
    int one = 1, v6only = dual ? 0 : 1,
        fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (sa->ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
    if (bind(fd, (const struct sockaddr *)sa, len) == 0 && listen(fd, backlog) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static void close_all(struct loop_listener *ln)
{
    for (size_t i = 0; i < ln->count; i++)
        close(ln->fds[i]);
    ln->count = 0;
}

static bool family_is_missing(int e)
{
    return e == EAFNOSUPPORT || e == EADDRNOTAVAIL || e == EPROTONOSUPPORT;
}

/* One socket an address of `list`, all on one port. Returns 0 or errno; a family the machine lacks is left out. */
static int bind_list(struct loop_listener *ln, const struct addrinfo *list, int backlog)
{
    bool dual =
        strcmp(ln->address.host, "::") == 0; /* "[::]" means every address of both families */
    int missing = EADDRNOTAVAIL;

    ln->port = 0;
    for (const struct addrinfo *ai = list; ai && ln->count < SOCKETS_MAX; ai = ai->ai_next) {
        struct sockaddr_storage sa = {0};
        memcpy(&sa, ai->ai_addr, ai->ai_addrlen);
        if (ln->port != 0)
            set_port(&sa, ln->port);
        int fd = listen_on(&sa, ai->ai_addrlen, dual, backlog);
        if (fd < 0 && family_is_missing(errno)) {
            missing = errno;
            continue;
        }
        if (fd < 0) {
            int e = errno;
            close_all(ln);
            return e;
        }
        ln->fds[ln->count++] = fd;
        ln->port = port_of(fd);
    }
    return ln->count > 0 ? 0 : missing;
}

static int bind_names(struct loop_listener *ln, int backlog, const char **why)
{
    const struct loop_address *a = &ln->address;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *v4 = NULL, *v6 = NULL;
    int e = 0, rv;

    if (a->is_localhost) { /* whatever /etc/hosts says */
        hints.ai_flags |= AI_NUMERICHOST;
        rv = getaddrinfo("127.0.0.1", a->port, &hints, &v4);
        if (rv == 0)
            rv = getaddrinfo("::1", a->port, &hints, &v6);
        if (rv == 0)
            v4->ai_next = v6;
    } else {
        rv = getaddrinfo(a->host, a->port, &hints, &v4);
    }
    if (rv != 0)
        *why = gai_strerror(rv);
    else
        for (int i = 0; i < PORT_TRIES; i++) {
            e = bind_list(ln, v4, backlog);
            if (e != EADDRINUSE || strcmp(a->port, "0") != 0)
                break;
        }
    if (e)
        *why = strerror(e);
    if (v4)
        freeaddrinfo(v4); /* v6 hangs on it */
    return *why ? -1 : 0;
}

/* A socket file nobody listens on is a leftover of a killed server. False: it must stay. */
static bool remove_stale(const char *path, const char **why)
{
    struct stat st;
    int fd;

    if (lstat(path, &st) != 0)
        return true;
    if (!S_ISSOCK(st.st_mode)) {
        *why = "there is a file that is not a socket";
        return false;
    }
    int e = loop_unix_socket(path, &fd, true);
    if (e == 0) {
        close(fd);
        *why = "another process listens there";
        return false;
    }
    if (e != ECONNREFUSED) {
        *why = strerror(e);
        return false;
    }
    (void)unlink(path); /* bind() tells if it could not be */
    return true;
}

static int bind_unix(struct loop_listener *ln, int backlog, const char **why)
{
    const char *path = ln->address.host;
    struct stat st;
    int fd;

    if (!remove_stale(path, why))
        return -1;
    int e = loop_unix_socket(path, &fd, false);
    if (e) {
        *why = strerror(e);
        return -1;
    }
    ln->fds[ln->count++] = fd;
    (void)evutil_make_socket_nonblocking(fd);
    /* Nobody can connect before listen(), so nobody gets in with the wrong mode. */
    if (chmod(path, 0660) != 0 || lstat(path, &st) != 0 || listen(fd, backlog) != 0) {
        *why = strerror(errno);
        close_all(ln);
        return -1;
    }
    ln->dev = st.st_dev;
    ln->ino = st.st_ino;
    return 0;
}

enum err loop_listener_new(struct loop *l, const struct loop_listen_options *opts,
                           loop_accept_fn *fn, void *arg, struct loop_listener **out,
                           struct error *err)
{
    struct loop_listener *ln = calloc(1, sizeof(*ln));
    int backlog = opts->backlog > 0 ? opts->backlog : 1024;
    const char *why = NULL;

    ASSERT(ln);
    enum err e = loop_address_parse(opts->address, &ln->address, err);
    if (e == OK &&
        (ln->address.is_unix ? bind_unix(ln, backlog, &why) : bind_names(ln, backlog, &why)) != 0)
        e = error_set(
            err, ERR_IO,
            "could not listen on \"%.*s\": %s; choose another address or stop the process "
            "that has it",
            BYTES_FMT(opts->address), why);
    if (e) {
        free(ln);
        return e;
    }
    ln->loop = l;
    ln->fn = fn;
    ln->arg = arg;
    ln->spare = spare_descriptor();
    ln->pause = loop_timer_new(l, on_pause_over, ln);
    for (size_t i = 0; i < ln->count; i++) {
        ln->events[i] = event_new(l->base, ln->fds[i], EV_READ | EV_PERSIST, on_acceptable, ln);
        ASSERT(ln->events[i]);
    }
    set_accepting(ln, true);
    *out = ln;
    return OK;
}

void loop_listener_free(struct loop_listener *ln)
{
    struct stat st;

    if (!ln)
        return;
    for (size_t i = 0; i < ln->count; i++)
        event_free(ln->events[i]);
    close_all(ln);
    if (ln->spare >= 0)
        close(ln->spare);
    loop_timer_free(ln->pause);
    if (ln->address.is_unix && lstat(ln->address.host, &st) == 0 && st.st_dev == ln->dev &&
        st.st_ino == ln->ino)
        (void)unlink(ln->address.host); /* a leftover is found stale by the next start */
    free(ln);
}

size_t loop_listener_lend(struct loop_listener *ln, int *fds, size_t max)
{
    set_accepting(ln, false);
    for (size_t i = 0; i < MIN(ln->count, max); i++)
        fds[i] = ln->fds[i];
    return MIN(ln->count, max);
}

void loop_listener_address(const struct loop_listener *ln, struct strbuf *out)
{
    const struct loop_address *a = &ln->address;

    if (a->is_unix)
        strbuf_appendf(out, "unix:%s", a->host);
    else if (strchr(a->host, ':'))
        strbuf_appendf(out, "[%s]:%u", a->host, ln->port);
    else
        strbuf_appendf(out, "%s:%u", a->host, ln->port);
}
