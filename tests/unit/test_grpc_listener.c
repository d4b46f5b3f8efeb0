/* The server's listeners and the client's channel over real sockets, with two loop threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <pthread.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/channel.h"
#include "lib/certs.h"
#include "server/grpc_listener.h"

/* ---- a server in this process ------------------------------------------------------------------ */

struct served {
    struct settings settings;
    struct rpc_server *server;
    struct loop *loops[2];
    pthread_t threads[2];
    struct grpc_front *front;
    struct strbuf address;
    struct tls *tls;
    atomic_bool denies; /* `admit` refuses from now on */
    atomic_int opened, closed;
};

static atomic_int hanging; /* calls of /t.T/Hang and /t.T/Never that have begun */

static void echo(struct rpc_call *call, void *service UNUSED, struct arena *arena, struct bytes msg)
{
    struct rpc_msg *m = rpc_msg_new(msg.len);

    if (msg.len > 0)
        memcpy(rpc_msg_data(m), msg.ptr, msg.len);
    rpc_call_reply(call, m);
    arena_free(arena);
}

static void never(struct rpc_call *call UNUSED, void *service UNUSED, struct arena *arena,
                  struct bytes msg UNUSED)
{
    atomic_fetch_add(&hanging, 1);
    arena_free(arena);
}

static void refuse(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                   struct bytes msg UNUSED)
{
    rpc_call_finish(call, GRPC_NOT_FOUND, BYTES_LIT("no \"x\" here"));
    arena_free(arena);
}

static void count_to_ten(struct rpc_call *call, void *service UNUSED, struct arena *arena,
                         struct bytes msg UNUSED)
{
    for (uint8_t i = 0; i < 10; i++) {
        struct rpc_msg *m = rpc_msg_new(1);
        rpc_msg_data(m)[0] = i;
        rpc_call_send(call, m);
    }
    rpc_call_finish(call, GRPC_OK, BYTES_NONE);
    arena_free(arena);
}

static const struct rpc_method METHODS[] = {
    {.path = "/t.T/Echo", .kind = RPC_UNARY, .message = echo},
    {.path = "/t.T/Never", .kind = RPC_UNARY, .message = never},
    {.path = "/t.T/Hang", .kind = RPC_SERVER_STREAM, .message = never},
    {.path = "/t.T/Refuse", .kind = RPC_UNARY, .message = refuse},
    {.path = "/t.T/Count", .kind = RPC_SERVER_STREAM, .message = count_to_ten},
};

static void on_opened(void *arg, struct loop *loop, struct rpc_conn *conn)
{
    struct served *s = arg;

    assert_true(loop == s->loops[0] || loop == s->loops[1]);
    rpc_conn_set_context(conn, loop);
    atomic_fetch_add(&s->opened, 1);
}

static void on_closed(void *arg, struct loop *loop, struct rpc_conn *conn)
{
    struct served *s = arg;

    assert_ptr_equal(rpc_conn_context(conn), loop);
    atomic_fetch_add(&s->closed, 1);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void serve_init(struct served *s)
{
    memset(s, 0, sizeof(*s));
    settings_defaults(&s->settings);
}

static enum err admit(void *arg, struct rpc_call *call UNUSED,
                      const struct rpc_method *method UNUSED, struct error *err)
{
    struct served *s = arg;

    return atomic_load(&s->denies) ? error_set(err, ERR_UNAUTHENTICATED, "no more") : OK;
}

static void serve(struct served *s, const char *address)
{
    const struct rpc_server_options opts = {.settings = &s->settings, .admit = admit, .arg = s};
    struct error err;

    s->server = rpc_server_new(&opts);
    rpc_server_add(s->server, METHODS, ARRAY_LEN(METHODS));
    for (int i = 0; i < 2; i++)
        assert_int_equal(loop_new(&s->loops[i], NULL), OK);
    s->front = grpc_front_new(&(struct grpc_front_options){.loops = s->loops,
                                                           .loop_count = 2,
                                                           .server = s->server,
                                                           .settings = &s->settings,
                                                           .tls = s->tls,
                                                           .opened = on_opened,
                                                           .closed = on_closed,
                                                           .arg = s});
    if (grpc_front_listen(s->front, bytes_str(address), &err) != OK)
        fail_msg("%s", err.msg);
    strbuf_reset(&s->address);
    grpc_front_addresses(s->front, &s->address);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&s->threads[i], NULL, run_loop, s->loops[i]), 0);
}

static void stop_serving(struct served *s)
{
    for (int i = 0; i < 2; i++) {
        loop_stop(s->loops[i]);
        pthread_join(s->threads[i], NULL);
    }
    grpc_front_free(s->front);
    for (int i = 0; i < 2; i++)
        loop_free(s->loops[i]);
    rpc_server_free(s->server);
}

static struct channel *connect_to(struct bytes address)
{
    struct channel *ch;

    assert_int_equal(channel_new(NULL, &(struct channel_options){.address = address}, &ch, NULL),
                     OK);
    return ch;
}

static void wait_until(struct served *s, size_t connections)
{
    for (int i = 0; i < 1000 && grpc_front_connections(s->front) != connections; i++)
        usleep(5000);
    assert_int_equal(grpc_front_connections(s->front), connections);
}

static void check_echo(struct channel *ch, struct bytes body)
{
    struct strbuf answer = {0};
    struct error err;

    if (channel_unary(ch, "/t.T/Echo", NULL, 0, body, 10 * USEC_PER_SEC, &answer, &err) != OK)
        fail_msg("%s", err.msg);
    assert_true(bytes_eq(strbuf_bytes(&answer), body));
    strbuf_deinit(&answer);
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void test_calls_of_each_kind(void **state UNUSED)
{
    struct served s;
    struct error err;
    uint8_t *big = calloc(1, MIB(20));

    serve_init(&s);
    serve(&s, "localhost:0");
    struct channel *a = connect_to(strbuf_bytes(&s.address)),
                   *b = connect_to(strbuf_bytes(&s.address));
    check_echo(a, BYTES_LIT("hello"));
    check_echo(a, bytes_of("", 0));
    check_echo(b, bytes_of(big, MIB(20))); /* many windows, both ways */
    check_echo(a, BYTES_LIT("again"));
    assert_int_equal(atomic_load(&s.opened), 2);
    assert_int_equal(channel_unary(a, "/t.T/Refuse", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_NOT_FOUND);
    assert_string_equal(err.msg, "no \"x\" here");
    assert_int_equal(channel_unary(a, "/t.T/What", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_UNIMPLEMENTED);
    assert_int_equal(
        channel_unary(a, "/t.T/Never", NULL, 0, BYTES_NONE, 50 * USEC_PER_MSEC, NULL, &err),
        ERR_DEADLINE);
    check_echo(a, BYTES_LIT("still usable"));
    channel_free(a);
    channel_free(b);
    wait_until(&s, 0);
    assert_int_equal(atomic_load(&s.closed), 2);
    stop_serving(&s);
    strbuf_deinit(&s.address);
    free(big);
}

struct counted {
    int count, stop_at;
};

static bool on_number(void *arg, struct bytes message)
{
    struct counted *c = arg;

    assert_int_equal(message.len, 1);
    assert_int_equal(message.ptr[0], c->count);
    return ++c->count != c->stop_at;
}

static void test_server_streaming_and_stopping(void **state UNUSED)
{
    struct served s;
    struct counted all = {0}, some = {.stop_at = 3};

    serve_init(&s);
    serve(&s, "127.0.0.1:0");
    struct channel *ch = connect_to(strbuf_bytes(&s.address));
    assert_int_equal(
        channel_stream(ch, "/t.T/Count", NULL, 0, BYTES_NONE, 0, on_number, &all, NULL), OK);
    assert_int_equal(all.count, 10);
    assert_int_equal(
        channel_stream(ch, "/t.T/Count", NULL, 0, BYTES_NONE, 0, on_number, &some, NULL), OK);
    assert_int_equal(some.count, 3);
    check_echo(ch, BYTES_LIT("x"));
    channel_free(ch);
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

static void test_unix_socket_and_scheme(void **state UNUSED)
{
    struct served s;
    char dir[] = "/tmp/pd-grpc-XXXXXX", address[80];

    assert_non_null(mkdtemp(dir));
    snprintf(address, sizeof(address), "unix:%s/s", dir);
    serve_init(&s);
    serve(&s, address);
    assert_string_equal(strbuf_cstr(&s.address), address);
    struct channel *ch = connect_to(bytes_str(address));
    check_echo(ch, BYTES_LIT("x"));
    channel_free(ch);
    stop_serving(&s);
    assert_int_equal(rmdir(dir), 0); /* the socket's file is gone */
    strbuf_deinit(&s.address);
    struct error err;
    assert_int_equal(
        channel_new(NULL, &(struct channel_options){.address = BYTES_LIT("http://x")}, &ch, &err),
        ERR_INVALID);
}

static void test_channel_comes_back_after_a_restart(void **state UNUSED)
{
    struct served s;
    struct error err;

    serve_init(&s);
    serve(&s, "127.0.0.1:0");
    char *address = strdup(strbuf_cstr(&s.address));
    struct strbuf url = {0};
    strbuf_appendf(&url, "http://%s/", address);
    struct channel *ch = connect_to(strbuf_bytes(&url));
    check_echo(ch, BYTES_LIT("x"));
    stop_serving(&s);
    assert_int_equal(channel_unary(ch, "/t.T/Echo", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_UNAVAILABLE);
    assert_int_equal(channel_unary(ch, "/t.T/Echo", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, address)); /* says where */
    serve(&s, address);
    check_echo(ch, BYTES_LIT("x"));
    channel_free(ch);
    stop_serving(&s);
    strbuf_deinit(&s.address);
    strbuf_deinit(&url);
    free(address);
}

static void test_drain_closes_idle_connections(void **state UNUSED)
{
    struct served s;
    struct channel *ch[6];
    struct error err;

    serve_init(&s);
    serve(&s, "localhost:0");
    for (size_t i = 0; i < ARRAY_LEN(ch); i++) {
        ch[i] = connect_to(strbuf_bytes(&s.address));
        check_echo(ch[i], BYTES_LIT("x"));
    }
    wait_until(&s, ARRAY_LEN(ch));
    grpc_front_stop_listening(s.front);
    grpc_front_shutdown(s.front);
    wait_until(&s, 0); /* within the second that the ping may take, as the clients do not run */
    for (size_t i = 0; i < ARRAY_LEN(ch); i++) {
        assert_int_equal(channel_unary(ch[i], "/t.T/Echo", NULL, 0, BYTES_NONE, 0, NULL, &err),
                         ERR_UNAVAILABLE);
        channel_free(ch[i]);
    }
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

static void test_too_many_connections_are_refused(void **state UNUSED)
{
    struct served s;
    struct error err;

    serve_init(&s);
    s.settings.connections_max = 2;
    serve(&s, "localhost:0");
    struct channel *a = connect_to(strbuf_bytes(&s.address)),
                   *b = connect_to(strbuf_bytes(&s.address));
    struct channel *c = connect_to(strbuf_bytes(&s.address));
    check_echo(a, BYTES_LIT("x"));
    check_echo(b, BYTES_LIT("x"));
    assert_int_equal(channel_unary(c, "/t.T/Echo", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_UNAVAILABLE);
    channel_free(a);
    wait_until(&s, 1);
    check_echo(c, BYTES_LIT("x"));
    channel_free(b);
    channel_free(c);
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

static void test_one_address_has_its_own_limit(void **state UNUSED)
{
    struct served s;
    struct error err;

    serve_init(&s);
    s.settings.connections_address = 2;
    serve(&s, "127.0.0.1:0");
    struct channel *a = connect_to(strbuf_bytes(&s.address)),
                   *b = connect_to(strbuf_bytes(&s.address));
    struct channel *c = connect_to(strbuf_bytes(&s.address));
    check_echo(a, BYTES_LIT("x"));
    check_echo(b, BYTES_LIT("x"));
    assert_int_equal(channel_unary(c, "/t.T/Echo", NULL, 0, BYTES_NONE, 0, NULL, &err),
                     ERR_UNAVAILABLE);
    channel_free(a);
    wait_until(&s, 1);
    check_echo(c, BYTES_LIT("x"));
    channel_free(b);
    channel_free(c);
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

/* ---- requests that wait for room on another thread ---------------------------------------------- */

static void *send_big(void *arg)
{
    struct channel *ch = connect_to(*(struct bytes *)arg);
    uint8_t *big = calloc(1, MIB(4));

    for (int i = 0; i < 5; i++)
        check_echo(ch, bytes_of(big, MIB(4)));
    channel_free(ch);
    free(big);
    return NULL;
}

static void test_big_requests_share_little_room(void **state UNUSED)
{
    struct served s;
    pthread_t threads[8];

    serve_init(&s);
    s.settings.request_buffered_bytes = MIB(5); /* one of them at a time */
    serve(&s, "localhost:0");
    struct bytes address = strbuf_bytes(&s.address);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_big, &address), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

/* ---- TLS --------------------------------------------------------------------------------------- */

static struct tls *side(struct certs *c, enum tls_side which, const char *cert, const char *key,
                        const char *ca)
{
    struct tls_files f = {cert ? certs_name(c, cert) : NULL, key ? certs_name(c, key) : NULL,
                          ca ? certs_name(c, ca) : NULL};
    struct tls *t;
    struct error err;

    if (tls_new(which, &f, &t, &err) != OK)
        fail_msg("%s", err.msg);
    free((void *)(uintptr_t)f.cert);
    free((void *)(uintptr_t)f.key);
    free((void *)(uintptr_t)f.ca);
    return t;
}

static struct channel *connect_secured(struct served *s, struct tls *tls)
{
    const struct channel_options opts = {.address = strbuf_bytes(&s->address), .tls = tls};
    struct channel *ch;

    assert_int_equal(channel_new(NULL, &opts, &ch, NULL), OK);
    return ch;
}

static void check_no_connection(struct served *s, struct tls *tls, const char *why)
{
    struct channel *ch = connect_secured(s, tls);
    struct error err;

    assert_int_equal(
        channel_unary(ch, "/t.T/Echo", NULL, 0, BYTES_LIT("x"), 10 * USEC_PER_SEC, NULL, &err),
        ERR_UNAVAILABLE);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not in \"%s\"", why, err.msg);
    channel_free(ch);
}

static bool count_message(void *arg, struct bytes message UNUSED)
{
    ++*(int *)arg;
    return true;
}

/* Calls of all sizes; certificates that change meanwhile; clients that are not let in, and learn why. */
static void test_calls_over_tls(void **state UNUSED)
{
    struct served s;
    struct certs certs;
    uint8_t *big = calloc(1, MIB(20));
    int messages = 0;

    certs_make(&certs);
    serve_init(&s);
    s.tls = side(&certs, TLS_SERVER, "server.pem", "server.key", "ca.pem");
    struct tls *good = side(&certs, TLS_CLIENT, "client.pem", "client.key", "ca.pem"),
               *nobody = side(&certs, TLS_CLIENT, NULL, NULL, "ca.pem"),
               *stranger = side(&certs, TLS_CLIENT, "stranger.pem", "stranger.key", "ca.pem"),
               *doubter = side(&certs, TLS_CLIENT, "client.pem", "client.key", "other-ca.pem");
    serve(&s, "localhost:0");
    struct channel *a = connect_secured(&s, good), *b;
    check_echo(a, BYTES_LIT("hello"));
    check_echo(a, bytes_of(big, MIB(20)));
    for (int i = 0; i < 20; i++) {
        certs_renew(&certs, 10 + i);
        assert_int_equal(tls_reload(s.tls, NULL), OK);
        b = connect_secured(&s, good);
        check_echo(b, BYTES_LIT("new"));
        check_echo(a, BYTES_LIT("old"));
        channel_free(b);
    }
    assert_int_equal(
        channel_stream(a, "/t.T/Count", NULL, 0, BYTES_LIT(""), 0, count_message, &messages, NULL),
        OK);
    assert_int_equal(messages, 10);
    check_no_connection(&s, nobody, "certificate required");
    check_no_connection(&s, stranger, "unknown ca");
    check_no_connection(&s, doubter, "the TLS handshake failed: unable to get local issuer");
    b = connect_to(strbuf_bytes(&s.address));
    assert_int_equal(
        channel_unary(b, "/t.T/Echo", NULL, 0, BYTES_LIT("x"), 10 * USEC_PER_SEC, NULL, NULL),
        ERR_UNAVAILABLE);
    channel_free(b);
    check_echo(a, BYTES_LIT("still there"));
    wait_until(&s, 1);
    assert_int_equal(grpc_front_failed_handshakes(s.front), 4);
    channel_free(a);
    stop_serving(&s);
    tls_free(s.tls);
    tls_free(good);
    tls_free(nobody);
    tls_free(stranger);
    tls_free(doubter);
    certs_remove(&certs);
    strbuf_deinit(&s.address);
    free(big);
}

/* ---- permissions that are withdrawn ------------------------------------------------------------ */

static void *withdraw(void *arg)
{
    struct served *s = arg;

    while (atomic_load(&hanging) < 2)
        usleep(2000);
    atomic_store(&s->denies, true);
    grpc_front_recheck(s->front);
    return NULL;
}

struct unanswered {
    struct served *s;
    enum err result;
};

static void *call_never(void *arg)
{
    struct unanswered *u = arg;
    struct channel *ch = connect_to(strbuf_bytes(&u->s->address));

    u->result =
        channel_unary(ch, "/t.T/Never", NULL, 0, BYTES_LIT(""), 2 * USEC_PER_SEC, NULL, NULL);
    channel_free(ch);
    return NULL;
}

/* A stream ends at once; a call whose request is being worked on does not, whether it took effect would be unknown. */
static void test_what_lasts_is_rechecked(void **state UNUSED)
{
    struct served s;
    struct error err;
    pthread_t thread, other;
    int messages = 0;

    serve_init(&s);
    atomic_store(&hanging, 0);
    serve(&s, "localhost:0");
    struct unanswered u = {&s, OK};
    struct channel *ch = connect_to(strbuf_bytes(&s.address));
    assert_int_equal(pthread_create(&other, NULL, call_never, &u), 0);
    assert_int_equal(pthread_create(&thread, NULL, withdraw, &s), 0);
    assert_int_equal(channel_stream(ch, "/t.T/Hang", NULL, 0, BYTES_LIT(""), 20 * USEC_PER_SEC,
                                    count_message, &messages, &err),
                     ERR_UNAUTHENTICATED);
    assert_string_equal(err.msg, "no more");
    assert_int_equal(channel_unary(ch, "/t.T/Echo", NULL, 0, BYTES_LIT("x"), 0, NULL, &err),
                     ERR_UNAUTHENTICATED);
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    assert_int_equal(u.result, ERR_DEADLINE);
    channel_free(ch);
    stop_serving(&s);
    strbuf_deinit(&s.address);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_each_kind),
        cmocka_unit_test(test_server_streaming_and_stopping),
        cmocka_unit_test(test_unix_socket_and_scheme),
        cmocka_unit_test(test_channel_comes_back_after_a_restart),
        cmocka_unit_test(test_drain_closes_idle_connections),
        cmocka_unit_test(test_too_many_connections_are_refused),
        cmocka_unit_test(test_one_address_has_its_own_limit),
        cmocka_unit_test(test_big_requests_share_little_room),
        cmocka_unit_test(test_calls_over_tls),
        cmocka_unit_test(test_what_lasts_is_rechecked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
