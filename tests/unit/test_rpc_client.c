/* The client end against answers made by hand: what each end of a call means as a gRPC status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "rpc/rpc.h"
#include "rpc_frames.h"

struct answer {
    struct rpc_conn *c;
    struct rpc_call *call;
    struct strbuf in;
    usec_t now;
    size_t messages, bytes;
    int finished, status;
    char message[256], extra[32];
};

static void want_send(void *arg UNUSED)
{
}

static void on_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                       struct bytes msg)
{
    struct answer *a = arg;

    a->messages++;
    a->bytes += msg.len;
    arena_free(arena);
}

static void on_finished(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct answer *a = arg;

    a->finished++;
    a->status = status;
    snprintf(a->message, sizeof(a->message), "%.*s", BYTES_FMT(message));
    snprintf(a->extra, sizeof(a->extra), "%.*s", BYTES_FMT(rpc_call_trailer(call, "x-extra-bin")));
}

static void take_output(struct answer *a)
{
    struct strbuf out = {0};

    while (rpc_conn_send(a->c, &out, KIB(64), a->now))
        ;
    strbuf_deinit(&out);
}

static void begin(struct answer *a)
{
    const struct rpc_conn_events ev = {.want_send = want_send};
    const struct rpc_conn_client_options opts = {
        .authority = "a", .user_agent = "test", .message_bytes_max = 1000};
    const struct rpc_client_events cev = {.message = on_message, .finished = on_finished, .arg = a};

    memset(a, 0, sizeof(*a));
    a->now = USEC_PER_SEC;
    a->c = rpc_conn_new_client(&opts, &ev, a->now);
    a->call = rpc_conn_call(a->c, "/a", NULL, 0, 10 * USEC_PER_SEC, false, &cev, a->now);
    assert_non_null(a->call);
    rpc_call_send(a->call, rpc_msg_new(0));
    rpc_call_close_send(a->call);
    take_output(a);
    rpc_put_frame(&a->in, NGHTTP2_SETTINGS, 0, 0, bytes_of("", 0));
}

static void put_headers(struct answer *a, bool end, const char *const *fields)
{
    struct strbuf h = {0};

    for (; *fields; fields += 2)
        rpc_put_field(&h, fields[0], fields[1]);
    rpc_put_frame(&a->in, NGHTTP2_HEADERS, (uint8_t)(NGHTTP2_FLAG_END_HEADERS | (end ? 1 : 0)), 1,
                  strbuf_bytes(&h));
    strbuf_deinit(&h);
}

#define HEADERS(a, end, ...) put_headers((a), (end), (const char *const[]){__VA_ARGS__, NULL})
#define OK_HEADERS ":status", "200", "content-type", "application/grpc"

static void run(struct answer *a)
{
    assert_int_equal(rpc_conn_recv(a->c, strbuf_bytes(&a->in), a->now, NULL), OK);
    take_output(a);
}

/* Runs what was put together, ends the connection and compares. */
static void expect(struct answer *a, int status, const char *message)
{
    run(a);
    rpc_conn_free(a->c);
    assert_int_equal(a->finished, 1);
    assert_int_equal(a->status, status);
    assert_string_equal(a->message, message);
    rpc_call_unref(a->call);
    strbuf_deinit(&a->in);
}

static void test_answer_and_trailers(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, false, OK_HEADERS);
    rpc_put_frame(&a.in, NGHTTP2_DATA, 0, 1,
                  BYTES_LIT("\0\0\0\0\x03"
                            "abc"));
    HEADERS(&a, true, "grpc-status", "0", "x-extra-bin", "aGk=");
    expect(&a, GRPC_OK, "");
    assert_int_equal(a.messages, 1);
    assert_int_equal(a.bytes, 3);
    assert_string_equal(a.extra, "hi");
}

static void test_trailers_only(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, true, OK_HEADERS, "grpc-status", "5", "grpc-message", "no%20such%2", "x-extra-bin",
            "aGk");
    expect(&a, GRPC_NOT_FOUND, "no such%2");
    assert_string_equal(a.extra, "hi");
}

static void test_informational_headers_are_skipped(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, false, ":status", "103");
    HEADERS(&a, false, OK_HEADERS);
    HEADERS(&a, true, "grpc-status", "0");
    expect(&a, GRPC_OK, "");
}

static void test_odd_statuses(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, true, OK_HEADERS, "grpc-status", "99");
    expect(&a, GRPC_UNKNOWN, "");
    begin(&a);
    HEADERS(&a, true, OK_HEADERS, "grpc-status", "nine");
    expect(&a, GRPC_UNKNOWN, "");
    begin(&a);
    HEADERS(&a, true, OK_HEADERS);
    expect(&a, GRPC_INTERNAL, "the server ended the stream without a status");
}

static void test_http_statuses(void **state UNUSED)
{
    static const struct {
        const char *http;
        int status;
    } ROWS[] = {
        {"400", GRPC_INTERNAL},      {"401", GRPC_UNAUTHENTICATED}, {"403", GRPC_PERMISSION_DENIED},
        {"404", GRPC_UNIMPLEMENTED}, {"429", GRPC_UNAVAILABLE},     {"502", GRPC_UNAVAILABLE},
        {"503", GRPC_UNAVAILABLE},   {"504", GRPC_UNAVAILABLE},     {"418", GRPC_UNKNOWN}};

    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct answer a;
        char text[32];
        begin(&a);
        HEADERS(&a, false, ":status", ROWS[i].http, "content-type", "text/html");
        rpc_put_frame(&a.in, NGHTTP2_DATA, 1, 1, BYTES_LIT("<html>"));
        snprintf(text, sizeof(text), "HTTP status %s", ROWS[i].http);
        expect(&a, ROWS[i].status, text);
        assert_int_equal(a.messages, 0);
    }
}

static void test_resets(void **state UNUSED)
{
    static const struct {
        uint8_t code;
        int status;
    } ROWS[] = {{NGHTTP2_NO_ERROR, GRPC_INTERNAL},
                {NGHTTP2_INTERNAL_ERROR, GRPC_INTERNAL},
                {NGHTTP2_REFUSED_STREAM, GRPC_UNAVAILABLE},
                {NGHTTP2_CANCEL, GRPC_CANCELLED},
                {NGHTTP2_ENHANCE_YOUR_CALM, GRPC_RESOURCE_EXHAUSTED},
                {NGHTTP2_INADEQUATE_SECURITY, GRPC_PERMISSION_DENIED}};

    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct answer a;
        const uint8_t code[4] = {0, 0, 0, ROWS[i].code};
        begin(&a);
        rpc_put_frame(&a.in, NGHTTP2_RST_STREAM, 0, 1, bytes_of(code, 4));
        run(&a);
        strbuf_reset(&a.in);
        assert_int_equal(a.finished, 1);
        assert_int_equal(a.status, ROWS[i].status);
        rpc_conn_free(a.c);
        rpc_call_unref(a.call);
        strbuf_deinit(&a.in);
    }
}

static void test_reset_past_the_deadline_is_the_deadline(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    a.now += 10 * USEC_PER_SEC;
    rpc_put_frame(&a.in, NGHTTP2_RST_STREAM, 0, 1, bytes_of("\0\0\0\x08", 4));
    expect(&a, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
}

static void test_goaway_says_which_calls_are_lost(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    rpc_put_frame(&a.in, NGHTTP2_GOAWAY, 0, 0,
                  bytes_of("\0\0\0\0\0\0\0\0", 8)); /* nothing was begun */
    run(&a);
    strbuf_reset(&a.in);
    assert_int_equal(a.finished, 1);
    assert_int_equal(a.status, GRPC_UNAVAILABLE);
    assert_false(rpc_conn_takes_calls(a.c));
    assert_true(rpc_conn_is_finished(a.c));
    rpc_conn_free(a.c);
    rpc_call_unref(a.call);
    strbuf_deinit(&a.in);
}

static void test_answer_over_the_limit(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, false, OK_HEADERS);
    rpc_put_frame(&a.in, NGHTTP2_DATA, 0, 1, BYTES_LIT("\0\0\0\x03\xe9"));
    expect(&a, GRPC_RESOURCE_EXHAUSTED, "answer 1001 bytes > limit 1000");
}

static void test_answer_cut_off(void **state UNUSED)
{
    struct answer a;

    begin(&a);
    HEADERS(&a, false, OK_HEADERS);
    rpc_put_frame(&a.in, NGHTTP2_DATA, 0, 1,
                  BYTES_LIT("\0\0\0\0\x09"
                            "abc"));
    HEADERS(&a, true, "grpc-status", "0");
    expect(&a, GRPC_INTERNAL, "the stream ended within a message");
    begin(&a);
    HEADERS(&a, false, OK_HEADERS, "grpc-encoding", "br");
    expect(&a, GRPC_INTERNAL, "the answer has an unknown grpc-encoding");
    begin(&a);
    expect(&a, GRPC_UNAVAILABLE, "the connection was lost or refuses the call");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_and_trailers),
        cmocka_unit_test(test_trailers_only),
        cmocka_unit_test(test_informational_headers_are_skipped),
        cmocka_unit_test(test_odd_statuses),
        cmocka_unit_test(test_http_statuses),
        cmocka_unit_test(test_resets),
        cmocka_unit_test(test_reset_past_the_deadline_is_the_deadline),
        cmocka_unit_test(test_goaway_says_which_calls_are_lost),
        cmocka_unit_test(test_answer_over_the_limit),
        cmocka_unit_test(test_answer_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
