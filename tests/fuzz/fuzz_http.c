/* fuzz_http.c - HTTP/1.1 bytes into the routes of src/http, over a real socket in this one thread.
 *
 * The first byte says what /readyz finds and how many bytes are written at a time; the rest is what a client sends before it
 * closes its side. The loop is turned by hand without waiting, until nothing happens any more, so a run does not depend on time.
 *
 * Whatever comes: no crash, no hang, what comes back begins like an answer, and the next client is served.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "http/http.h"

#define TURNS_QUIET 8   /* in a row without anything to read: it is over */
#define TURNS_MAX 20000 /* more is a hang */

static struct loop *loop;
static struct metrics *metrics;
static struct http *http;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static bool is_ready;

static enum err ready(void *arg UNUSED, struct error *err)
{
    return is_ready ? OK : error_set(err, ERR_UNAVAILABLE, "the store cannot commit\r\nnow");
}

static void remove_socket(void)
{
    http_free(http);
    loop_free(loop);
    metrics_free(metrics);
    unlink(address.sun_path);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    struct error err = {0};
    char url[sizeof(address.sun_path) + 8];

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/fuzz-http-%ld",
                   (long)getpid());
    (void)snprintf(url, sizeof(url), "unix:%s", address.sun_path);
    metrics = metrics_new();
    enum err e = loop_new(&loop, &err);
    ASSERT(e == OK);
    http = http_new(&(struct http_options){.loop = loop, .metrics = metrics, .ready = ready});
    e = http_listen(http, bytes_str(url), &err);
    if (e)
        fprintf(stderr, "%s\n", err.msg);
    ASSERT(e == OK);
    atexit(remove_socket);
    return 0;
}

static int connect_to_it(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    ASSERT(fd >= 0);
    int rc = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    ASSERT(rc == 0);
    return fd;
}

struct answer {
    char head[16];
    size_t len;
    bool is_over;
};

/* True: something came. */
static bool read_some(int fd, struct answer *a)
{
    char buf[4096];
    ssize_t n = recv(fd, buf, sizeof(buf), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        a->is_over = true;
    if (n <= 0)
        return n == 0;
    size_t room = sizeof(a->head) - MIN(a->len, sizeof(a->head));
    memcpy(a->head + MIN(a->len, sizeof(a->head)), buf, MIN(room, (size_t)n));
    a->len += (size_t)n;
    return true;
}

static void turn(int fd, struct answer *a)
{
    unsigned quiet = 0, turns = 0;

    while (!a->is_over && quiet < TURNS_QUIET) {
        ASSERT(++turns < TURNS_MAX);
        event_base_loop(loop_event_base(loop), EVLOOP_NONBLOCK);
        quiet = read_some(fd, a) ? 0 : quiet + 1;
    }
}

static void send_all(int fd, struct bytes in, size_t piece, struct answer *a)
{
    while (in.len > 0 && !a->is_over) {
        ssize_t n = send(fd, in.ptr, MIN(piece, in.len), MSG_NOSIGNAL);
        if (n > 0)
            in = bytes_of(in.ptr + n, in.len - (size_t)n);
        else if (errno != EAGAIN && errno != EWOULDBLOCK)
            return; /* it has hung up */
        turn(fd, a);
    }
}

static void ask(struct bytes in, size_t piece, struct answer *a)
{
    int fd = connect_to_it();

    send_all(fd, in, piece, a);
    shutdown(fd, SHUT_WR);
    turn(fd, a);
    close(fd);
    for (unsigned i = 0; i < TURNS_QUIET; i++)
        event_base_loop(loop_event_base(loop), EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bytes PROBE = BYTES_LIT("GET /healthz HTTP/1.0\r\n\r\n");
    struct answer a = {.len = 0}, probe = {.len = 0};

    if (size == 0)
        return 0;
    is_ready = data[0] & 1;
    size_t piece = data[0] >> 1 ? data[0] >> 1 : SIZE_MAX;
    ask(bytes_of(data + 1, size - 1), piece, &a);
    ASSERT(a.len == 0 || !memcmp(a.head, "HTTP/", MIN(a.len, 5u)));
    ask(PROBE, SIZE_MAX, &probe);
    ASSERT(probe.len > 12 && !memcmp(probe.head, "HTTP/1.0 200", 12));
    return 0;
}
