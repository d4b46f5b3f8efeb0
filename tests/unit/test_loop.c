/* Loops: posted work, timers, byte streams, addresses, listeners, connecting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/loop.h"

static struct loop *make_loop(void)
{
    struct loop *l;

    assert_int_equal(loop_new(&l, NULL), OK);
    return l;
}

static void on_too_late(void *arg UNUSED)
{
    fail_msg("the test hangs");
}

/* Runs until somebody stops the loop, but not for ever. */
static void run(struct loop *l)
{
    struct loop_timer *t = loop_timer_new(l, on_too_late, NULL);

    loop_timer_set(t, usec_add(loop_now(l), 20 * USEC_PER_SEC));
    loop_run(l);
    loop_timer_free(t);
}

/* ---- posted work ------------------------------------------------------------------------------- */

enum { TASKS = 10000 };

struct numbered {
    struct loop_task task;
    struct loop *loop;
    int number;
};

static int next_number;

static void on_task(struct loop_task *task)
{
    struct numbered *n = CONTAINER_OF(task, struct numbered, task);

    assert_int_equal(n->number, next_number);
    if (++next_number == TASKS)
        loop_stop(n->loop);
}

static void *post_all(void *arg)
{
    struct numbered *all = arg;

    for (int i = 0; i < TASKS; i++)
        loop_post(all[i].loop, &all[i].task);
    return NULL;
}

static void test_posts_from_another_thread_run_in_order(void **state UNUSED)
{
    struct loop *l = make_loop();
    struct numbered *all = calloc(TASKS, sizeof(*all));
    pthread_t thread;

    for (int i = 0; i < TASKS; i++)
        all[i] = (struct numbered){.task.fn = on_task, .loop = l, .number = i};
    next_number = 0;
    assert_int_equal(pthread_create(&thread, NULL, post_all, all), 0);
    run(l);
    pthread_join(thread, NULL);
    assert_int_equal(next_number, TASKS);
    free(all);
    loop_free(l);
}

static void test_stop_before_run_and_run_again(void **state UNUSED)
{
    struct loop *l = make_loop();

    loop_stop(l);
    run(l); /* returns at once */
    loop_stop(l);
    run(l);
    loop_free(l);
}

/* ---- timers ------------------------------------------------------------------------------------ */

static char letters[] = "abcd", fired[16];
static int round_ends;

static void on_fire(void *arg)
{
    size_t n = strlen(fired);

    assert_true(n < sizeof(fired) - 1);
    fired[n] = *(char *)arg;
}

static struct loop *stopped_loop;

static void on_stop(void *arg UNUSED)
{
    loop_stop(stopped_loop);
}

static void on_round_end(void *arg UNUSED)
{
    round_ends++;
}

static void test_timers_fire_in_order_and_never_early(void **state UNUSED)
{
    struct loop *l = make_loop();
    struct loop_timer *a = loop_timer_new(l, on_fire, &letters['a' - 'a']),
                      *b = loop_timer_new(l, on_fire, &letters['b' - 'a']);
    struct loop_timer *c = loop_timer_new(l, on_fire, &letters['c' - 'a']),
                      *d = loop_timer_new(l, on_fire, &letters['d' - 'a']);
    struct loop_timer *end = loop_timer_new(l, on_stop, NULL);
    usec_t now = loop_now(l);

    memset(fired, 0, sizeof(fired));
    stopped_loop = l;
    round_ends = 0;
    loop_on_round_end(l, on_round_end, NULL);
    loop_timer_set(a, now + 20 * USEC_PER_MSEC);
    loop_timer_set(b, now + 10 * USEC_PER_MSEC);
    loop_timer_set(c, now + 20 * USEC_PER_MSEC); /* the same time: in order of making */
    loop_timer_set(d, now + 5 * USEC_PER_MSEC);
    loop_timer_set(d, USEC_NEVER);
    loop_timer_set(end, now + 30 * USEC_PER_MSEC);
    run(l);
    assert_string_equal(fired, "bac");
    assert_true(loop_now(l) >= now + 30 * USEC_PER_MSEC);
    assert_true(round_ends >= 1);
    loop_timer_free(a);
    loop_timer_free(b);
    loop_timer_free(c);
    loop_timer_free(d);
    loop_timer_free(end);
    loop_free(l);
}

/* ---- streams ----------------------------------------------------------------------------------- */

enum { TOTAL = 5000000 };

struct end {
    struct loop *loop;
    struct loop_stream *stream;
    size_t to_send, received;
    bool is_closed;
    int *open;
};

static bool on_received(struct loop_stream *s UNUSED, void *arg, struct bytes in)
{
    struct end *e = arg;

    for (size_t i = 0; i < in.len; i += 997)
        assert_int_equal(in.ptr[i], (uint8_t)((e->received + i) * 7));
    e->received += in.len;
    return true;
}

static void on_produce(struct loop_stream *s, void *arg, struct strbuf *out, size_t max)
{
    struct end *e = arg;
    size_t n = MIN(max, e->to_send);
    uint8_t *p = strbuf_reserve(out, n);

    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((TOTAL - e->to_send + i) * 7);
    out->len += n;
    e->to_send -= n;
    if (e->to_send == 0)
        loop_stream_close(s, true);
}

static void on_closed(struct loop_stream *s UNUSED, void *arg)
{
    struct end *e = arg;

    e->is_closed = true;
    if (--*e->open == 0)
        loop_stop(e->loop);
}

static const struct loop_stream_ops OPS = {on_received, on_produce, on_closed};

static void test_stream_carries_everything_and_closes(void **state UNUSED)
{
    struct loop *l = make_loop();
    int fds[2], open = 2;
    struct end a = {.loop = l, .to_send = TOTAL, .open = &open}, b = {.loop = l, .open = &open};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    a.stream = loop_stream_new(l, fds[0], &OPS, &a);
    b.stream = loop_stream_new(l, fds[1], &OPS, &b);
    loop_stream_want_send(a.stream);
    run(l);
    assert_true(a.is_closed && b.is_closed);
    assert_int_equal(b.received, TOTAL);
    loop_free(l);
}

static void on_resume(void *arg)
{
    struct end *e = arg;

    assert_int_equal(e->received, 0);
    loop_stream_pause(e->stream, false);
}

static void test_paused_stream_reads_nothing(void **state UNUSED)
{
    struct loop *l = make_loop();
    int fds[2], open = 2;
    struct end a = {.loop = l, .to_send = TOTAL, .open = &open}, b = {.loop = l, .open = &open};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    a.stream = loop_stream_new(l, fds[0], &OPS, &a);
    b.stream = loop_stream_new(l, fds[1], &OPS, &b);
    loop_stream_pause(b.stream, true);
    loop_stream_want_send(a.stream);
    struct loop_timer *t = loop_timer_new(l, on_resume, &b);
    loop_timer_set(t, loop_now(l) + 30 * USEC_PER_MSEC);
    run(l);
    assert_int_equal(b.received, TOTAL);
    loop_timer_free(t);
    loop_free(l);
}

static void test_streams_left_are_closed_with_the_loop(void **state UNUSED)
{
    struct loop *l = make_loop();
    int fds[2], open = 3; /* never 0: the loop does not run */
    struct end a = {.loop = l, .open = &open}, b = {.loop = l, .open = &open};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    loop_stream_new(l, fds[0], &OPS, &a);
    loop_stream_new(l, fds[1], &OPS, &b);
    loop_free(l);
    assert_true(a.is_closed && b.is_closed);
}

/* ---- addresses --------------------------------------------------------------------------------- */

static void test_addresses(void **state UNUSED)
{
    static const struct {
        const char *text;
        bool is_good, is_loopback;
    } ROWS[] = {{"localhost:4001", true, true},
                {"LOCALHOST:1", true, true},
                {"127.0.0.1:0", true, true},
                {"127.9.9.9:80", true, true},
                {"[::1]:4001", true, true},
                {"unix:/tmp/x.sock", true, true},
                {"unix:relative", true, true},
                {"0.0.0.0:4001", true, false},
                {"[::]:4001", true, false},
                {"192.168.1.1:65535", true, false},
                {"example.org:80", true, false},
                {"[fe80::1]:80", true, false},
                {"", false, false},
                {"localhost", false, false},
                {"localhost:", false, false},
                {":4001", false, false},
                {"localhost:65536", false, false},
                {"localhost:-1", false, false},
                {"localhost:4001x", false, false},
                {"::1:4001", false, false},
                {"unix:", false, false}};

    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct error err = {0};
        enum err e = loop_address_check(bytes_str(ROWS[i].text), &err);
        assert_int_equal(e, ROWS[i].is_good ? OK : ERR_INVALID);
        if (e)
            assert_non_null(strstr(err.msg, "HOST:PORT"));
        assert_int_equal(loop_address_is_loopback(bytes_str(ROWS[i].text)), ROWS[i].is_loopback);
    }
}

/* ---- listeners and connecting ------------------------------------------------------------------- */

struct meeting {
    struct loop *loop;
    int accepted, connected, failed;
    char peer[64], why[ERROR_MSG_MAX];
};

static void maybe_stop(struct meeting *m)
{
    if (m->failed || (m->accepted && m->connected))
        loop_stop(m->loop);
}

static void on_accept(void *arg, int fd, struct bytes peer)
{
    struct meeting *m = arg;

    m->accepted++;
    snprintf(m->peer, sizeof(m->peer), "%.*s", BYTES_FMT(peer));
    close(fd);
    maybe_stop(m);
}

static void on_connected(void *arg, int fd, const struct error *err)
{
    struct meeting *m = arg;

    if (fd >= 0) {
        assert_null(err);
        m->connected++;
        close(fd);
    } else {
        m->failed++;
        snprintf(m->why, sizeof(m->why), "%s", err->msg);
    }
    maybe_stop(m);
}

static struct loop_listener *listen_at(struct meeting *m, const char *address)
{
    struct loop_listener *ln;
    struct error err;
    const struct loop_listen_options opts = {.address = bytes_str(address)};

    if (loop_listener_new(m->loop, &opts, on_accept, m, &ln, &err) != OK)
        fail_msg("%s", err.msg);
    return ln;
}

static void meet(struct meeting *m, const char *address)
{
    m->accepted = m->connected = m->failed = 0;
    loop_connect(m->loop, bytes_str(address), 5 * USEC_PER_SEC, on_connected, m);
    run(m->loop);
}

static void test_localhost_is_one_port_on_both_families(void **state UNUSED)
{
    struct meeting m = {.loop = make_loop()};
    struct loop_listener *ln = listen_at(&m, "localhost:0");
    struct strbuf address = {0};
    uint64_t port;
    char text[64];

    loop_listener_address(ln, &address);
    assert_true(bytes_starts_with(strbuf_bytes(&address), BYTES_LIT("localhost:")));
    assert_true(bytes_parse_u64(bytes_of(address.ptr + 10, address.len - 10), &port));
    assert_true(port > 0);
    snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)port);
    meet(&m, text);
    assert_int_equal(m.failed, 0);
    assert_memory_equal(m.peer, "127.0.0.1:", 10);
    snprintf(text, sizeof(text), "[::1]:%u", (unsigned)port);
    meet(&m, text);
    if (m.failed) /* a machine without IPv6: it is left out */
        print_message("no IPv6 here: %s\n", m.why);
    else
        assert_memory_equal(m.peer, "[::1]:", 6);
    meet(&m, strbuf_cstr(&address));
    assert_int_equal(m.failed, 0);

    struct loop_listener *second;
    struct error err;
    const struct loop_listen_options opts = {.address = strbuf_bytes(&address)};
    assert_int_equal(loop_listener_new(m.loop, &opts, on_accept, &m, &second, &err), ERR_IO);
    assert_non_null(strstr(err.msg, "Address already in use"));
    assert_non_null(strstr(err.msg, strbuf_cstr(&address)));
    loop_listener_free(ln);
    meet(&m, strbuf_cstr(&address));
    assert_int_equal(m.failed, 1);
    assert_non_null(strstr(m.why, "Connection refused"));
    strbuf_deinit(&address);
    loop_free(m.loop);
}

/* ---- without descriptors ------------------------------------------------------------------------ */

struct crowded {
    struct loop *loop;
    int refused, taken;
};

static void on_crowded(void *arg, int fd, struct bytes peer UNUSED)
{
    struct crowded *c = arg;
    if (fd < 0)
        c->refused++;
    else
        c->taken++;
    if (fd >= 0)
        close(fd);
    loop_stop(c->loop);
}

static int connect_blocking(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t port;

    assert_true(bytes_parse_u64(bytes_str(strrchr(address, ':') + 1), &port));
    sa.sin_port = htons((uint16_t)port);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

/* A connection that there is no descriptor for is closed at once, the next one with room is served. */
static void test_no_descriptor_left(void **state UNUSED)
{
    struct crowded c = {.loop = make_loop()};
    const struct loop_listen_options opts = {.address = BYTES_LIT("127.0.0.1:0")};
    struct loop_listener *ln;
    struct strbuf address = {0};
    struct rlimit before, low;
    int held[64], n = 0;
    char byte;

    assert_int_equal(loop_listener_new(c.loop, &opts, on_crowded, &c, &ln, NULL), OK);
    loop_listener_address(ln, &address);
    for (int i = 0; i < 2; i++) {
        int fd = connect_blocking(strbuf_cstr(&address));
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        low = before;
        low.rlim_cur = (rlim_t)fd + 4;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        for (n = 0; n < 64 && (held[n] = dup(0)) >= 0; n++)
            ;
        run(c.loop);
        assert_int_equal(c.refused, i + 1);
        assert_true(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
        while (n > 0)
            close(held[--n]);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        fd = connect_blocking(strbuf_cstr(&address));
        run(c.loop);
        assert_int_equal(c.taken, i + 1);
        close(fd);
    }
    loop_listener_free(ln);
    strbuf_deinit(&address);
    loop_free(c.loop);
}

static void test_explicit_addresses(void **state UNUSED)
{
    struct meeting m = {.loop = make_loop()};
    struct loop_listener *ln = listen_at(&m, "127.0.0.1:0");
    struct strbuf address = {0};

    loop_listener_address(ln, &address);
    meet(&m, strbuf_cstr(&address));
    assert_int_equal(m.accepted, 1);
    loop_listener_free(ln);
    strbuf_deinit(&address);
    meet(&m, "no address");
    assert_int_equal(m.failed, 1);
    assert_non_null(strstr(m.why, "HOST:PORT"));
    loop_free(m.loop);
}

static void test_unix_socket(void **state UNUSED)
{
    struct meeting m = {.loop = make_loop()};
    char dir[] = "/tmp/pd-loop-XXXXXX", path[64], address[80];
    struct stat st;
    struct loop_listener *second;
    struct error err;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(address, sizeof(address), "unix:%s", path);
    struct loop_listener *ln = listen_at(&m, address);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    meet(&m, address);
    assert_int_equal(m.failed, 0);
    assert_string_equal(m.peer, "unix:");

    /* somebody listens: refused */
    const struct loop_listen_options opts = {.address = bytes_str(address)};
    assert_int_equal(loop_listener_new(m.loop, &opts, on_accept, &m, &second, &err), ERR_IO);
    assert_non_null(strstr(err.msg, "another process listens there"));

    /* a killed server's leftover: taken over */
    char moved[80];
    snprintf(moved, sizeof(moved), "%s/kept", dir);
    assert_int_equal(link(path, moved), 0);
    loop_listener_free(ln);
    assert_int_not_equal(stat(path, &st), 0);
    assert_int_equal(rename(moved, path), 0);
    ln = listen_at(&m, address);
    meet(&m, address);
    assert_int_equal(m.failed, 0);
    loop_listener_free(ln);

    /* a file that is no socket stays */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(loop_listener_new(m.loop, &opts, on_accept, &m, &second, &err), ERR_IO);
    assert_non_null(strstr(err.msg, "not a socket"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    loop_free(m.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_from_another_thread_run_in_order),
        cmocka_unit_test(test_stop_before_run_and_run_again),
        cmocka_unit_test(test_timers_fire_in_order_and_never_early),
        cmocka_unit_test(test_stream_carries_everything_and_closes),
        cmocka_unit_test(test_paused_stream_reads_nothing),
        cmocka_unit_test(test_streams_left_are_closed_with_the_loop),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_localhost_is_one_port_on_both_families),
        cmocka_unit_test(test_no_descriptor_left),
        cmocka_unit_test(test_explicit_addresses),
        cmocka_unit_test(test_unix_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
