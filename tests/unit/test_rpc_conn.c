/* A connection over its life: keepalive, pings, drain, floods, budget, health, and bytes that are not right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "rpc/health.h"
#include "rpc_fixture.h"
#include "rpc_frames.h"

static void call_once(struct rpc_fixture *f, int status)
{
    struct seen_call sc;

    rpc_fixture_call(f, &sc, "/test.T/Echo", NULL, 0, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(f);
    assert_true(sc.is_finished);
    assert_int_equal(sc.status, status);
    seen_call_deinit(&sc);
}

/* ---- frames by hand ---------------------------------------------------------------------------- */

static void put_preface(struct strbuf *b)
{
    strbuf_append_str(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    rpc_put_frame(b, NGHTTP2_SETTINGS, 0, 0, bytes_of("", 0));
}

static void put_request(struct strbuf *b, uint32_t stream, const char *method, const char *type,
                        const char *encoding, const char *timeout, bool end)
{
    struct strbuf h = {0};

    rpc_put_field(&h, ":method", method);
    rpc_put_field(&h, ":scheme", "http");
    rpc_put_field(&h, ":path", "/test.T/Echo");
    rpc_put_field(&h, ":authority", "t");
    if (type)
        rpc_put_field(&h, "content-type", type);
    if (encoding)
        rpc_put_field(&h, "grpc-encoding", encoding);
    if (timeout)
        rpc_put_field(&h, "grpc-timeout", timeout);
    rpc_put_frame(b, NGHTTP2_HEADERS, (uint8_t)(NGHTTP2_FLAG_END_HEADERS | (end ? 1 : 0)), stream,
                  strbuf_bytes(&h));
    strbuf_deinit(&h);
}

/* A server end fed with bytes by hand. What it sends is in `out`. */
struct raw {
    struct rpc_fixture f;
    struct strbuf in, out;
    enum err result;
};

static void raw_init(struct raw *r)
{
    memset(r, 0, sizeof(*r));
    rpc_fixture_init(&r->f);
    r->f.settings.request_bytes = 10000;
    rpc_fixture_start(&r->f);
    rpc_conn_free(r->f.c);
    rpc_conn_free(r->f.s);
    r->f.c = NULL;
    rpc_fixture_new_server_conn(&r->f);
    put_preface(&r->in);
}

static void raw_run(struct raw *r)
{
    r->result = rpc_conn_recv(r->f.s, strbuf_bytes(&r->in), r->f.now, NULL);
    strbuf_reset(&r->in);
    while (rpc_conn_send(r->f.s, &r->out, MIB(1), r->f.now))
        ;
}

static void raw_deinit(struct raw *r)
{
    rpc_fixture_deinit(&r->f);
    strbuf_deinit(&r->in);
    strbuf_deinit(&r->out);
}

/* The n-th frame of a type that the server sent; its payload, BYTES_NONE when there is none. */
static struct bytes find_frame(const struct raw *r, uint8_t type, int n)
{
    struct bytes b = strbuf_bytes(&r->out);

    while (b.len >= 9) {
        size_t len = (size_t)b.ptr[0] << 16 | (size_t)b.ptr[1] << 8 | b.ptr[2];
        if (b.ptr[3] == type && n-- == 0)
            return bytes_of(b.ptr + 9, len);
        b = bytes_of(b.ptr + 9 + len, b.len - 9 - len);
    }
    return BYTES_NONE;
}

static bool has_text(const struct raw *r, const char *text)
{
    return bytes_contains(strbuf_bytes(&r->out), bytes_str(text));
}

static uint32_t goaway_code(const struct raw *r)
{
    struct bytes g = find_frame(r, NGHTTP2_GOAWAY, 0);

    return bytes_is_none(g) ? UINT32_MAX
                            : (uint32_t)g.ptr[4] << 24 | (uint32_t)g.ptr[5] << 16 |
                                  (uint32_t)g.ptr[6] << 8 | g.ptr[7];
}

/* ---- keepalive and pings ----------------------------------------------------------------------- */

static void test_silent_peer_is_pinged_and_closed(void **state UNUSED)
{
    struct rpc_fixture f;
    struct error err;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    for (int i = 0; i < 10; i++) /* a live peer acknowledges */
        rpc_fixture_advance(&f, 30 * USEC_PER_SEC);
    call_once(&f, GRPC_OK);
    assert_int_equal(rpc_conn_next_tick(f.s), f.now + 30 * USEC_PER_SEC);
    f.now += 30 * USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(f.s, f.now, &err), OK); /* the ping goes into the void */
    assert_true(f.s_wants);
    assert_int_equal(rpc_conn_next_tick(f.s), f.now + 20 * USEC_PER_SEC);
    f.now += 20 * USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(f.s, f.now, &err), ERR_UNAVAILABLE);
    rpc_fixture_deinit(&f);
}

static void test_frozen_peer_is_found_while_items_go_to_it(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    enum err e = OK;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/Stream", NULL, 0, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    f.blocked_to_client = true; /* it takes nothing in, and so says nothing */
    for (int second = 1; e == OK; second++) {
        assert_true(second <= 50);
        f.now += USEC_PER_SEC;
        rpc_fixture_send(f.held, BYTES_LIT("item"));
        rpc_fixture_pump(&f);
        if (rpc_conn_next_tick(f.s) <= f.now)
            e = rpc_conn_tick(f.s, f.now, NULL);
        if (second == 50)
            assert_int_equal(e, ERR_UNAVAILABLE);
    }
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_client_pings_are_answered_for_ever(void **state UNUSED)
{
    struct raw r;

    raw_init(&r);
    raw_run(&r);
    for (int i = 0; i < 1000; i++) { /* every 10 s for hours, with no call (BL-125) */
        r.f.now += 10 * USEC_PER_SEC;
        rpc_put_frame(&r.in, NGHTTP2_PING, 0, 0, BYTES_LIT("12345678"));
        strbuf_reset(&r.out);
        raw_run(&r);
        assert_int_equal(r.result, OK);
        assert_true(bytes_eq(find_frame(&r, NGHTTP2_PING, 0), BYTES_LIT("12345678")));
        assert_true(bytes_is_none(find_frame(&r, NGHTTP2_GOAWAY, 0)));
    }
    raw_deinit(&r);
}

static void test_ping_flood_is_bounded(void **state UNUSED)
{
    struct raw r;

    raw_init(&r);
    for (int i = 0; i < 5000; i++) /* in one read: no chance to answer between */
        rpc_put_frame(&r.in, NGHTTP2_PING, 0, 0, BYTES_LIT("12345678"));
    raw_run(&r);
    assert_int_not_equal(r.result, OK);
    assert_true(r.out.len < 1100 * 17 + 200);
    raw_deinit(&r);
}

/* ---- drain ------------------------------------------------------------------------------------- */

static void test_shutdown_lets_calls_finish(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/Hold", NULL, 0, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    rpc_conn_shutdown(f.s);
    rpc_fixture_pump(&f);
    assert_false(rpc_conn_takes_calls(f.c));
    assert_false(rpc_conn_is_finished(f.s));
    assert_false(sc.is_finished);
    rpc_call_reply(f.held, rpc_msg_new(0));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_OK);
    assert_true(rpc_conn_is_finished(f.s));
    assert_true(rpc_conn_is_finished(f.c));
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_shutdown_serves_what_was_on_its_way(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    rpc_conn_shutdown(f.s); /* the client has not heard of it yet */
    rpc_fixture_call(&f, &sc, "/test.T/Echo", NULL, 0, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_OK);
    assert_true(rpc_conn_is_finished(f.s));
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_shutdown_without_ping_answer(void **state UNUSED)
{
    struct raw r;

    raw_init(&r);
    raw_run(&r);
    rpc_conn_shutdown(r.f.s);
    raw_run(&r);
    assert_int_equal(goaway_code(&r), NGHTTP2_NO_ERROR);
    assert_false(rpc_conn_is_finished(r.f.s));
    r.f.now += USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(r.f.s, r.f.now, NULL), OK);
    raw_run(&r);
    assert_false(bytes_is_none(find_frame(&r, NGHTTP2_GOAWAY, 1)));
    assert_true(rpc_conn_is_finished(r.f.s));
    raw_deinit(&r);
}

/* ---- resets ------------------------------------------------------------------------------------ */

static void test_thousands_of_waits_may_time_out_at_once(void **state UNUSED)
{
    enum { WAITS = 5000 };
    struct rpc_fixture f;
    struct seen_call *sc = calloc(WAITS, sizeof(*sc));

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    for (size_t i = 0; i < WAITS; i++)
        rpc_fixture_call(&f, &sc[i], "/test.T/Hold", NULL, 0, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    assert_int_equal(f.messages, WAITS);
    for (size_t i = 0; i < WAITS; i++)
        rpc_call_cancel(sc[i].call);
    rpc_fixture_pump(&f);
    assert_int_equal(f.closes, WAITS);
    call_once(&f, GRPC_OK);
    for (size_t i = 0; i < WAITS; i++)
        seen_call_deinit(&sc[i]);
    free(sc);
    rpc_fixture_deinit(&f);
}

static void test_rapid_reset_is_cut(void **state UNUSED)
{
    struct raw r;
    uint32_t stream = 1;
    int seconds;

    raw_init(&r);
    r.f.settings.streams_connection = 1000;
    raw_run(&r);
    for (seconds = 0; r.result == OK && seconds < 60; seconds++) { /* BL-129 */
        r.f.now += USEC_PER_SEC;
        for (int i = 0; i < 5000; i++, stream += 2) {
            put_request(&r.in, stream, "POST", "application/grpc", NULL, NULL, false);
            rpc_put_frame(&r.in, NGHTTP2_RST_STREAM, 0, stream, bytes_of("\0\0\0\x08", 4));
        }
        raw_run(&r);
    }
    assert_int_equal(r.result, ERR_LIMIT);
    assert_true(seconds < 15);
    assert_int_equal(goaway_code(&r), NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(rpc_conn_is_finished(r.f.s));
    raw_deinit(&r);
}

static void test_answers_that_nobody_reads_are_bounded(void **state UNUSED)
{
    struct raw r;
    uint32_t stream = 1;
    size_t fed = 0;

    raw_init(&r);
    r.f.settings.streams_connection = 100;
    raw_run(&r);
    while (r.result == OK && fed < MIB(20)) { /* each makes a RST_STREAM; nothing is taken out */
        for (int i = 0; i < 100; i++, stream += 2)
            put_request(&r.in, stream, "", "application/grpc", NULL, NULL, true);
        fed += r.in.len;
        r.result = rpc_conn_recv(r.f.s, strbuf_bytes(&r.in), r.f.now, NULL);
        strbuf_reset(&r.in);
    }
    assert_int_equal(r.result, ERR_LIMIT);
    assert_true(fed < MIB(2));
    raw_deinit(&r);
}

/* ---- bad requests ------------------------------------------------------------------------------ */

static void test_requests_that_are_not_grpc(void **state UNUSED)
{
    struct raw r;

    raw_init(&r);
    put_request(&r.in, 1, "POST", "application/json", NULL, NULL, true);
    put_request(&r.in, 3, "POST", NULL, NULL, NULL, true);
    put_request(&r.in, 5, "POST", "application/grpcx", NULL, NULL, true);
    put_request(&r.in, 7, "GET", "application/grpc", NULL, NULL, true);
    raw_run(&r);
    assert_int_equal(r.result, OK);
    assert_true(has_text(&r, "415"));
    assert_true(has_text(&r, "405"));
    for (int i = 0; i < 4; i++)
        assert_true(
            bytes_starts_with(find_frame(&r, NGHTTP2_DATA, i), BYTES_LIT("This port speaks gRPC")));
    assert_int_equal(r.f.messages, 0);
    raw_deinit(&r);
}

static void check_bad_body(const char *encoding, const char *timeout, struct bytes data,
                           const char *status, const char *text)
{
    struct raw r;

    raw_init(&r);
    put_request(&r.in, 1, "POST", "application/grpc+proto", encoding, timeout, false);
    rpc_put_frame(&r.in, NGHTTP2_DATA, 1, 1, data);
    raw_run(&r);
    assert_int_equal(r.result, OK);
    assert_int_equal(r.f.messages, 0);
    assert_true(rpc_fixture_hpack_has(find_frame(&r, NGHTTP2_HEADERS, 0), "grpc-status", status));
    assert_true(rpc_fixture_hpack_has(find_frame(&r, NGHTTP2_HEADERS, 0), "grpc-message", text));
    assert_int_equal(r.f.finishes, 1);
    raw_deinit(&r);
}

static void test_malformed_messages(void **state UNUSED)
{
    struct bytes one = BYTES_LIT("\0\0\0\0\x01x");

    check_bad_body(NULL, NULL, BYTES_LIT("\0\0\0"), "13", "the stream ended within a message");
    check_bad_body(NULL, NULL, BYTES_LIT("\0\0\0\0\x05xx"), "13",
                   "the stream ended within a message");
    check_bad_body(NULL, NULL, BYTES_LIT(""), "13", "no request message");
    check_bad_body(NULL, NULL, BYTES_LIT("\0\0\0\0\x01x\0\0\0\0\x01y"), "13",
                   "more than one request message");
    check_bad_body(NULL, NULL, BYTES_LIT("\x02\0\0\0\x01x"), "13", "bad gRPC frame: unknown flags");
    check_bad_body(NULL, NULL, BYTES_LIT("\x01\0\0\0\x01x"), "13",
                   "compressed message without grpc-encoding");
    check_bad_body("gzip", NULL, BYTES_LIT("\x01\0\0\0\x01x"), "13",
                   "cannot decompress the message");
    check_bad_body("snappy", NULL, one, "12",
                   "this grpc-encoding is not supported: use identity or gzip");
    check_bad_body(NULL, "5x", one, "3", "malformed grpc-timeout");
    check_bad_body(NULL, "0m", one, "4", "deadline exceeded");
    check_bad_body(NULL, NULL, BYTES_LIT("\0\xff\xff\xff\xff"), "8",
                   "request 4294967295 bytes > limit 10000");
}

static void test_garbage_is_an_error_and_no_crash(void **state UNUSED)
{
    struct raw r;

    raw_init(&r);
    strbuf_reset(&r.in);
    strbuf_append_str(&r.in, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_run(&r);
    assert_int_equal(r.result, ERR_INVALID);
    raw_deinit(&r);
    for (unsigned seed = 0; seed < 300; seed++) { /* a good request with one byte changed */
        raw_init(&r);
        put_request(&r.in, 1, "POST", "application/grpc", NULL, NULL, false);
        rpc_put_frame(&r.in, NGHTTP2_DATA, 1, 1, BYTES_LIT("\0\0\0\0\x01x"));
        size_t at = 24 + (seed * 7919u) % (r.in.len - 24);
        r.in.ptr[at] = (uint8_t)(r.in.ptr[at] ^ (1u << seed % 8));
        raw_run(&r);
        raw_deinit(&r);
    }
}

/* ---- room for requests ------------------------------------------------------------------------- */

static void test_requests_wait_for_room_in_order(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call a, b, c, d;
    struct strbuf half = {0};
    static uint8_t body[MIB(1)];

    rpc_fixture_init(&f);
    f.settings.request_buffered_bytes = MIB(1) + KIB(512);
    rpc_fixture_start(&f);
    /* the first stops in the middle and holds its room */
    rpc_fixture_call(&f, &a, "/test.T/Bidi", NULL, 0, 0, false, BYTES_NONE);
    rpc_fixture_pump(&f);
    rpc_fixture_send(a.call, bytes_of(body, sizeof(body)));
    f.c_wants = rpc_conn_send(f.c, &half, KIB(100), f.now);
    assert_int_equal(rpc_conn_recv(f.s, strbuf_bytes(&half), f.now, NULL), OK);
    struct rpc_conn *other = rpc_fixture_second_client(&f);
    rpc_fixture_call_on(&f, other, &b, "/test.T/Echo", bytes_of(body, sizeof(body)));
    rpc_fixture_call_on(&f, other, &c, "/test.T/Echo", bytes_of(body, KIB(300)));
    rpc_fixture_pump_second(&f);
    assert_false(b.is_finished);
    assert_false(c.is_finished); /* it would fit beside the first, but the second came before it */
    assert_true(f.bytes_to_second < KIB(256) * 2 + KIB(10)); /* no window beyond the first one */
    rpc_fixture_call_on(&f, other, &d, "/test.T/Echo", BYTES_LIT("small")); /* whole at once */
    rpc_fixture_pump_second(&f);
    assert_int_equal(d.status, GRPC_OK);
    assert_true(d.is_finished);
    strbuf_deinit(&half);
    /* 30 s without a byte of the first: it is reset, the others go on */
    assert_int_equal(f.wakes, 0);
    f.now += 31 * USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    assert_true(f.wakes > 0);
    rpc_fixture_tick_second(&f);
    rpc_fixture_pump_second(&f);
    assert_int_equal(b.status, GRPC_OK);
    assert_int_equal(b.message_len, sizeof(body));
    assert_int_equal(c.status, GRPC_OK);
    assert_int_equal(f.closes, 1);
    seen_call_deinit(&b);
    seen_call_deinit(&c);
    seen_call_deinit(&d);
    rpc_call_cancel(a.call);
    seen_call_deinit(&a);
    rpc_fixture_deinit(&f);
}

/* Spec 8.6: past the limit completions wait in their streams; nothing of them is refused. */
static void test_requests_are_held_back_while_others_have_no_answer(void **state UNUSED)
{
    static uint8_t body[KIB(600)];
    struct rpc_fixture f;
    struct seen_call large[3], small, counted, echo;

    rpc_fixture_init(&f);
    f.settings.overload_queued_bytes = MIB(1);
    rpc_fixture_start(&f);
    struct rpc_conn *other = rpc_fixture_second_client(&f);
    rpc_fixture_call_on(&f, other, &large[0], "/test.T/HeldBack", bytes_of(body, sizeof(body)));
    rpc_fixture_pump_second(&f);
    assert_int_equal(f.messages, 1);
    struct rpc_call *first = rpc_call_ref(f.held);
    uint64_t before = f.bytes_to_second;
    rpc_fixture_call_on(&f, other, &large[1], "/test.T/HeldBack", bytes_of(body, sizeof(body)));
    rpc_fixture_call_on(&f, other, &large[2], "/test.T/HeldBack", bytes_of(body, sizeof(body)));
    rpc_fixture_call_on(&f, other, &small, "/test.T/HeldBack", BYTES_LIT("small"));
    rpc_fixture_pump_second(&f);
    assert_int_equal(f.messages, 1); /* the small one is whole, but came later */
    assert_true(f.bytes_to_second - before < 2 * KIB(256) + KIB(10)); /* two first windows */
    rpc_fixture_call_on(&f, other, &echo, "/test.T/Echo", BYTES_LIT("another method"));
    rpc_fixture_call_on(&f, other, &counted, "/test.T/Counted", bytes_of(body, sizeof(body)));
    rpc_fixture_pump_second(&f);
    assert_true(echo.is_finished);
    assert_int_equal(f.messages, 3); /* the counted one is the handler's to refuse */
    assert_true(!large[1].is_finished && !small.is_finished);
    struct rpc_call *second = rpc_call_ref(f.held);
    rpc_call_reply(second, rpc_msg_new(0));
    rpc_fixture_pump_second(&f);
    assert_int_equal(f.messages, 3);

    rpc_call_cancel(large[1].call); /* leaves the queue */
    rpc_call_cancel(large[0].call); /* is gone, but its handler has not ended */
    rpc_fixture_pump_second(&f);
    assert_int_equal(f.closes, 1);
    assert_int_equal(f.messages, 3);
    assert_int_equal(f.wakes, 0);
    rpc_call_reply(first, rpc_msg_new(0));
    assert_true(f.wakes > 0);
    rpc_fixture_tick_second(&f);
    rpc_fixture_pump_second(&f);
    assert_int_equal(f.messages, 5); /* the third large one and, beside it, the small one */
    rpc_call_unref(first);
    rpc_call_unref(second);
    rpc_call_cancel(large[2].call);
    rpc_call_cancel(small.call);
    rpc_fixture_pump_second(&f);
    for (size_t i = 0; i < 3; i++)
        seen_call_deinit(&large[i]);
    seen_call_deinit(&small);
    seen_call_deinit(&counted);
    seen_call_deinit(&echo);
    rpc_fixture_deinit(&f);
}

/* ---- health ------------------------------------------------------------------------------------ */

static void test_health_check_and_watch(void **state UNUSED)
{
    struct rpc_fixture f;
    struct health *h = health_new();
    struct seen_call sc, watch, unknown;

    health_add_service(h, "TaskHubSidecarService");
    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    health_register(h, f.server);
    rpc_fixture_call(&f, &sc, "/grpc.health.v1.Health/Check", NULL, 0, 0, false, bytes_of("", 0));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_OK);
    assert_memory_equal(sc.text.ptr, "\x08\x02", 2); /* NOT_SERVING */
    seen_call_deinit(&sc);
    rpc_fixture_call(&f, &sc, "/grpc.health.v1.Health/Check", NULL, 0, 0, false,
                     BYTES_LIT("\x0a\x01x"));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_NOT_FOUND);
    seen_call_deinit(&sc);
    rpc_fixture_call(&f, &sc, "/grpc.health.v1.Health/Check", NULL, 0, 0, false,
                     BYTES_LIT("\x0a\x09x"));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_INVALID_ARGUMENT);
    seen_call_deinit(&sc);

    rpc_fixture_call(&f, &watch, "/grpc.health.v1.Health/Watch", NULL, 0, 0, false,
                     BYTES_LIT("\x0a\x15TaskHubSidecarService"));
    rpc_fixture_call(&f, &unknown, "/grpc.health.v1.Health/Watch", NULL, 0, 0, false,
                     BYTES_LIT("\x0a\x01x"));
    rpc_fixture_pump(&f);
    assert_int_equal(watch.messages, 1);
    assert_memory_equal(unknown.text.ptr, "\x08\x03",
                        2); /* SERVICE_UNKNOWN, and the stream stays */
    health_set(h, true);
    assert_int_equal(f.wakes, 2);
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    rpc_fixture_pump(&f);
    assert_int_equal(watch.messages, 2);
    assert_memory_equal(watch.text.ptr, "\x08\x02\x08\x01", 4);
    assert_int_equal(unknown.messages, 1);
    rpc_call_cancel(watch.call);
    rpc_fixture_pump(&f);
    health_set(h, false);
    assert_int_equal(f.wakes, 3); /* the unknown one still listens */
    seen_call_deinit(&watch);
    seen_call_deinit(&unknown);
    rpc_fixture_deinit(&f);
    health_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_peer_is_pinged_and_closed),
        cmocka_unit_test(test_frozen_peer_is_found_while_items_go_to_it),
        cmocka_unit_test(test_client_pings_are_answered_for_ever),
        cmocka_unit_test(test_ping_flood_is_bounded),
        cmocka_unit_test(test_shutdown_lets_calls_finish),
        cmocka_unit_test(test_shutdown_serves_what_was_on_its_way),
        cmocka_unit_test(test_shutdown_without_ping_answer),
        cmocka_unit_test(test_thousands_of_waits_may_time_out_at_once),
        cmocka_unit_test(test_rapid_reset_is_cut),
        cmocka_unit_test(test_answers_that_nobody_reads_are_bounded),
        cmocka_unit_test(test_requests_that_are_not_grpc),
        cmocka_unit_test(test_malformed_messages),
        cmocka_unit_test(test_garbage_is_an_error_and_no_crash),
        cmocka_unit_test(test_requests_wait_for_room_in_order),
        cmocka_unit_test(test_requests_are_held_back_while_others_have_no_answer),
        cmocka_unit_test(test_health_check_and_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
