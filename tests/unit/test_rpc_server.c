/* Client end against server end over memory: calls of each kind, their ends, deadlines, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "rpc/internal.h"
#include "rpc_fixture.h"

static void unary(struct rpc_fixture *f, struct seen_call *sc, const char *path, struct bytes body)
{
    rpc_fixture_call(f, sc, path, NULL, 0, 0, false, body);
    rpc_fixture_pump(f);
}

static void test_unary_echo_with_metadata(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    const struct rpc_metadata md[] = {{"x-echo", BYTES_LIT("hi there")},
                                      {"x-data-bin", BYTES_LIT("\x00\x01\xffz")}};

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/Echo", md, 2, 0, false, BYTES_LIT("hello"));
    rpc_fixture_pump(&f);
    assert_true(sc.is_finished);
    assert_int_equal(sc.finished_count, 1);
    assert_int_equal(sc.status, GRPC_OK);
    assert_int_equal(sc.messages, 1);
    assert_memory_equal(sc.text.ptr, "hello", 5);
    assert_true(bytes_eq(rpc_call_header(sc.call, "x-echo"), BYTES_LIT("hi there")));
    assert_true(bytes_eq(rpc_call_trailer(sc.call, "x-trail-bin"), BYTES_LIT("\x00\x01\xffz")));
    assert_int_equal(f.finishes, 1);
    assert_int_equal(rpc_conn_call_count(f.s), 0);
    assert_int_equal(rpc_conn_call_count(f.c), 0);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_bytes_split_at_every_size(void **state UNUSED)
{
    for (size_t piece = 1; piece < 80; piece++) {
        struct rpc_fixture f;
        struct seen_call a, b;

        rpc_fixture_init(&f);
        f.piece = piece;
        rpc_fixture_start(&f);
        rpc_fixture_call(&f, &a, "/test.T/Echo", NULL, 0, 0, false, BYTES_LIT("first"));
        rpc_fixture_call(&f, &b, "/test.T/Echo", NULL, 0, 0, true, BYTES_LIT("second, packed"));
        rpc_fixture_pump(&f);
        assert_int_equal(a.status, GRPC_OK);
        assert_memory_equal(a.text.ptr, "first", 5);
        assert_int_equal(b.status, GRPC_OK);
        assert_memory_equal(b.text.ptr, "second, packed", 14);
        seen_call_deinit(&a);
        seen_call_deinit(&b);
        rpc_fixture_deinit(&f);
    }
}

static void test_many_calls_at_once_and_empty_message(void **state UNUSED)
{
    struct rpc_fixture f;
    static struct seen_call sc[500];

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    for (size_t i = 0; i < 500; i++)
        rpc_fixture_call(&f, &sc[i], "/test.T/Echo", NULL, 0, 0, false,
                         i % 2 ? BYTES_LIT("x") : bytes_of("", 0));
    rpc_fixture_pump(&f);
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal(sc[i].status, GRPC_OK);
        assert_int_equal(sc[i].messages, 1);
        assert_int_equal(sc[i].text.len, i % 2);
        seen_call_deinit(&sc[i]);
    }
    assert_int_equal(f.messages, 500);
    rpc_fixture_deinit(&f);
}

static void test_error_with_details_and_strange_message(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Fail", BYTES_LIT("\x05\t100% of \xe2\x98\xba\r\nlost"));
    assert_int_equal(sc.status, GRPC_NOT_FOUND);
    assert_string_equal(sc.message, "\t100% of \xe2\x98\xba\r\nlost");
    assert_true(
        bytes_eq(rpc_call_trailer(sc.call, "grpc-status-details-bin"), BYTES_LIT("\x01\x02\xff")));
    assert_int_equal(f.last_status, GRPC_NOT_FOUND);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_unknown_method(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Nope", BYTES_LIT("x"));
    assert_int_equal(sc.status, GRPC_UNIMPLEMENTED);
    assert_string_equal(sc.message, "unknown method /test.T/Nope");
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_deadline_is_the_handlers_or_the_layers(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    const struct rpc_metadata sleep_md[] = {{"x-sleep", BYTES_LIT("1")}};

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    f.blocked_to_client = true; /* the client's own deadline must not be what is seen */
    rpc_fixture_call(&f, &sc, "/test.T/Hold", NULL, 0, 2 * USEC_PER_SEC, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    assert_true(rpc_conn_next_tick(f.s) <= f.now + 2 * USEC_PER_SEC);
    f.now += 2 * USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    assert_int_equal(f.deadlines, 1);
    f.blocked_to_client = false;
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_DEADLINE_EXCEEDED);
    assert_string_equal(sc.message, "by the handler");
    assert_int_equal(f.closes, 0); /* it has ended the call itself */
    seen_call_deinit(&sc);

    rpc_fixture_call(&f, &sc, "/test.T/Hold", sleep_md, 1, 2 * USEC_PER_SEC, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    f.now += 2 * USEC_PER_SEC;
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    assert_int_equal(f.deadlines, 2);
    assert_true(rpc_call_is_open(f.held));
    f.now += USEC_PER_SEC; /* the grace is over */
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    assert_int_equal(f.closes, 1);
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_DEADLINE_EXCEEDED);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_client_deadline(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/Stream", NULL, 0, 50 * USEC_PER_MSEC, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    assert_false(sc.is_finished);
    f.now += 50 * USEC_PER_MSEC;
    assert_int_equal(rpc_conn_tick(f.c, f.now, NULL), OK);
    assert_true(sc.is_finished);
    assert_int_equal(sc.status, GRPC_DEADLINE_EXCEEDED);
    rpc_fixture_pump(&f);
    assert_int_equal(f.closes, 1);
    assert_int_equal(f.last_status, GRPC_CANCELLED);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_cancel_reaches_the_handler_once(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Hold", BYTES_LIT("x"));
    struct rpc_call *call = rpc_call_ref(f.held);
    rpc_call_cancel(sc.call);
    rpc_call_cancel(sc.call);
    assert_int_equal(sc.finished_count, 1);
    assert_int_equal(sc.status, GRPC_CANCELLED);
    rpc_fixture_pump(&f);
    assert_int_equal(f.closes, 1);
    /* the handler's answer comes too late and is harmless */
    assert_false(rpc_call_is_open(call));
    assert_null(rpc_call_conn(call));
    assert_int_equal(rpc_call_conn_id(call), 7);
    rpc_call_reply(call, rpc_msg_new(3));
    rpc_call_finish(call, 0, BYTES_NONE);
    rpc_call_send_headers(call);
    rpc_call_add_trailer(call, "x", BYTES_LIT("y"));
    rpc_call_unref(call);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_lost_connection_closes_calls(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Hold", BYTES_LIT("x"));
    rpc_conn_free(f.s);
    f.s = NULL;
    assert_int_equal(f.closes, 1);
    rpc_conn_free(f.c);
    f.c = NULL;
    assert_int_equal(sc.status, GRPC_UNAVAILABLE);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static int drained_count;

static void on_drained(struct rpc_call *call, void *arg)
{
    drained_count++;
    assert_true(rpc_call_unsent(call) <= *(size_t *)arg);
}

static void test_server_stream_and_drained(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    size_t below = 100;
    struct rpc_msg *m = rpc_msg_new(50000);

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Stream", BYTES_LIT("x"));
    memset(rpc_msg_data(m), 'a', 50000);
    for (int i = 0; i < 200; i++)
        rpc_call_send(f.held, rpc_msg_ref(m)); /* 10 MB, the window is 4 MiB */
    rpc_msg_unref(m);
    drained_count = 0;
    rpc_call_on_drained(f.held, below, on_drained, &below);
    assert_int_equal(rpc_call_unsent(f.held), 200 * 50005);
    rpc_call_pause(sc.call); /* a client that does not read */
    rpc_fixture_pump(&f);
    assert_true(rpc_call_unsent(f.held) > MIB(5));
    assert_int_equal(drained_count, 0);
    assert_true(sc.messages < 10);
    rpc_call_resume(sc.call);
    rpc_fixture_pump(&f);
    assert_int_equal(sc.messages, 200);
    assert_int_equal(drained_count, 1);
    assert_int_equal(rpc_call_unsent(f.held), 0);
    rpc_call_finish(f.held, GRPC_OK, BYTES_NONE);
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_OK);
    assert_true(sc.is_finished);
    assert_int_equal(f.closes, 0);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_bidi_both_ways_and_pause(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    static uint8_t big[KIB(100)];

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Bidi", BYTES_NONE);
    assert_int_equal(f.starts, 1);
    assert_true(sc.has_headers); /* at once, before any message */
    rpc_fixture_send(sc.call, BYTES_LIT("one"));
    rpc_fixture_pump(&f);
    assert_int_equal(f.messages, 1);
    rpc_fixture_send(f.held, BYTES_LIT("answer"));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.messages, 1);

    rpc_call_pause(f.held);
    for (int i = 0; i < 50; i++)
        rpc_fixture_send(sc.call, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_int_equal(f.messages, 1);
    assert_true(rpc_call_unsent(sc.call) > MIB(4)); /* one window went, the rest waits here */
    rpc_call_resume(f.held);
    rpc_fixture_pump(&f);
    assert_int_equal(f.messages, 51);
    assert_int_equal(f.collected.len, 3 + 50 * sizeof(big));

    rpc_call_close_send(sc.call);
    rpc_fixture_pump(&f);
    assert_int_equal(f.half_closes, 1);
    rpc_call_finish(f.held, GRPC_ABORTED, BYTES_LIT("enough"));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_ABORTED);
    assert_string_equal(sc.message, "enough");
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_early_finish_while_the_client_still_sends(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Bidi", BYTES_NONE);
    rpc_call_finish(f.held, GRPC_OK, BYTES_NONE);
    rpc_fixture_pump(&f);
    assert_true(sc.is_finished);
    assert_int_equal(sc.status, GRPC_OK); /* trailers, then RST_STREAM(NO_ERROR) */
    assert_int_equal(rpc_conn_call_count(f.s), 0);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_request_over_the_limit(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc, next;
    static uint8_t big[3000];

    rpc_fixture_init(&f);
    f.settings.request_bytes = 2000;
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Echo", bytes_of(big, sizeof(big)));
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "request 3000 bytes > limit 2000");
    unary(&f, &next, "/test.T/Echo", bytes_of(big, 2000)); /* the connection is usable */
    assert_int_equal(next.status, GRPC_OK);
    seen_call_deinit(&sc);
    seen_call_deinit(&next);

    rpc_fixture_call(&f, &sc, "/test.T/Echo", NULL, 0, 0, true, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f); /* a small message that is large inside */
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "decompressed message > limit 2000 bytes");
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void check_oversize(bool gzip, size_t len, int status, size_t bytes)
{
    struct rpc_fixture f;
    struct seen_call sc;
    static uint8_t big[20000];

    rpc_fixture_init(&f);
    f.settings.request_bytes = 2000;
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/Big", NULL, 0, 0, gzip, bytes_of(big, len));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, status);
    assert_true(f.oversize_last);
    assert_false(f.oversize_no_room);
    if (bytes)
        assert_int_equal(f.oversize_bytes, bytes);
    assert_true(f.oversize_bytes <= 4 * 2000 + 3);
    assert_int_equal(f.messages, 0);
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

static void test_oversize_goes_in_pieces(void **state UNUSED)
{
    check_oversize(false, 2001, GRPC_FAILED_PRECONDITION, 2001);
    check_oversize(false, 8000, GRPC_FAILED_PRECONDITION, 8000);
    check_oversize(true, 8000, GRPC_FAILED_PRECONDITION, 8000);
    /* Up to four times as much is looked at; the method answers without the rest. */
    check_oversize(false, 20000, GRPC_FAILED_PRECONDITION, 0);
    check_oversize(true, 20000, GRPC_FAILED_PRECONDITION, 0);
}

static void test_a_method_may_have_a_limit_of_its_own(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    static uint8_t big[5000];

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    unary(&f, &sc, "/test.T/Small", bytes_of(big, 100));
    assert_int_equal(sc.status, GRPC_OK);
    seen_call_deinit(&sc);
    unary(&f, &sc, "/test.T/Small", bytes_of(big, 101));
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "request 101 bytes > limit 100");
    seen_call_deinit(&sc);
    rpc_fixture_call(&f, &sc, "/test.T/Small", NULL, 0, 0, true, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "decompressed message > limit 100 bytes");
    seen_call_deinit(&sc);
    rpc_fixture_deinit(&f);
}

/* What waits for room has its first window in memory. Without memory for that, a completion's method sees it pass (it has to
 * know whose it was), others are refused. */
static void test_no_memory_to_wait_in(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    struct budget_claim others = {0};
    static uint8_t big[600000];

    rpc_fixture_init(&f);
    f.settings.request_buffered_bytes = 2000;
    rpc_fixture_start(&f);
    assert_int_equal(budget_claim(&f.server->budget, &others, 2000), CLAIM_GRANTED);
    unary(&f, &sc, "/test.T/Big", bytes_of(big, sizeof(big)));
    assert_int_equal(sc.status, GRPC_FAILED_PRECONDITION);
    assert_true(f.oversize_last && f.oversize_no_room);
    assert_int_equal(f.oversize_bytes, sizeof(big));
    assert_int_equal(f.messages, 0);
    seen_call_deinit(&sc);
    unary(&f, &sc, "/test.T/Echo", bytes_of(big, sizeof(big)));
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "too many requests wait for memory");
    seen_call_deinit(&sc);
    assert_int_equal(f.server->budget.used, 2000);
    assert_int_equal(f.server->budget.held, 0);
    assert_int_equal(f.server->unanswered.used, 0);
    budget_release(&others);
    rpc_fixture_deinit(&f);
}

/* A small message that decompresses to a large one takes room for what it is. */
static void test_decompressed_messages_take_their_room(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc;
    struct budget_claim others = {0};
    static uint8_t big[20000];

    rpc_fixture_init(&f);
    f.settings.overload_queued_bytes = 4000;
    rpc_fixture_start(&f);
    rpc_fixture_call(&f, &sc, "/test.T/HeldBack", NULL, 0, 0, true, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_true(f.server->unanswered.used > sizeof(big)); /* alone: it may */
    rpc_call_finish(f.held, GRPC_OK, BYTES_NONE);
    rpc_fixture_pump(&f);
    seen_call_deinit(&sc);
    assert_int_equal(f.server->unanswered.used, 0);

    assert_int_equal(budget_claim(&f.server->unanswered, &others, 2000), CLAIM_GRANTED);
    rpc_fixture_call(&f, &sc, "/test.T/Big", NULL, 0, 0, true, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_FAILED_PRECONDITION);
    assert_true(f.oversize_last && f.oversize_no_room);
    assert_int_equal(f.oversize_bytes, sizeof(big));
    seen_call_deinit(&sc);
    rpc_fixture_call(&f, &sc, "/test.T/HeldBack", NULL, 0, 0, true, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    seen_call_deinit(&sc);
    assert_int_equal(f.server->unanswered.used, 2000);
    budget_release(&others);
    rpc_fixture_deinit(&f);
}

/* A start that waits for room to be received is not counted: it holds no completion back. One that was let in is taken, however
 * much came meanwhile. */
static void test_what_waits_for_room_holds_no_completion_back(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call start, completion, small;
    struct budget_claim others = {0}, flood = {0};
    static uint8_t big[600000];

    rpc_fixture_init(&f);
    f.settings.overload_queued_bytes = 1000000;
    rpc_fixture_start(&f);
    assert_int_equal(budget_claim(&f.server->budget, &others, f.settings.request_buffered_bytes),
                     CLAIM_GRANTED);
    rpc_fixture_call(&f, &completion, "/test.T/Big", NULL, 0, 0, false, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    uint64_t let_in = f.server->unanswered.used;
    assert_true(let_in > sizeof(big));
    rpc_fixture_call(&f, &start, "/test.T/Counted", NULL, 0, 0, false, bytes_of(big, sizeof(big)));
    rpc_fixture_pump(&f);
    assert_int_equal(f.server->unanswered.used, let_in);
    unary(&f, &small, "/test.T/Big", bytes_str("small"));
    assert_int_equal(small.status, GRPC_OK);
    seen_call_deinit(&small);

    budget_force(&f.server->unanswered, &flood, 3000000);
    budget_release(&others);
    assert_int_equal(rpc_conn_tick(f.s, f.now, NULL), OK);
    rpc_fixture_pump(&f);
    assert_true(completion.is_finished);
    assert_int_equal(completion.status, GRPC_OK);
    assert_int_equal(f.server->unanswered.used, 3000000 + let_in); /* the start's, now */
    rpc_call_finish(f.held, GRPC_OK, BYTES_NONE);
    rpc_fixture_pump(&f);
    assert_int_equal(start.status, GRPC_OK);
    assert_int_equal(f.server->unanswered.used, 3000000);
    budget_release(&flood);
    seen_call_deinit(&completion);
    seen_call_deinit(&start);
    rpc_fixture_deinit(&f);
}

/* Whole messages whose calls do not end are in memory too. */
static void test_messages_without_an_end_are_bounded(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc[6];
    static uint8_t big[1000];
    int refused = 0;

    rpc_fixture_init(&f);
    f.settings.request_buffered_bytes = 2000;
    rpc_fixture_start(&f);
    for (size_t i = 0; i < ARRAY_LEN(sc); i++) {
        rpc_fixture_call(&f, &sc[i], "/test.T/Echo", NULL, 0, 0, false, BYTES_NONE);
        rpc_fixture_send(sc[i].call, bytes_of(big, sizeof(big)));
        rpc_fixture_pump(&f);
    }
    assert_true(f.server->budget.used <= 4000);
    for (size_t i = 0; i < ARRAY_LEN(sc); i++) {
        refused += sc[i].status == GRPC_RESOURCE_EXHAUSTED;
        seen_call_deinit(&sc[i]);
    }
    assert_int_equal(refused, 2);
    rpc_fixture_deinit(&f);
}

static void test_too_much_metadata(void **state UNUSED)
{
    struct rpc_fixture f;
    struct seen_call sc, next;
    static char value[9000];
    struct rpc_metadata md[60];

    rpc_fixture_init(&f);
    rpc_fixture_start(&f);
    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < ARRAY_LEN(md); i++)
        md[i] = (struct rpc_metadata){"x-much", bytes_of(value, sizeof(value))};
    rpc_fixture_call(&f, &sc, "/test.T/Echo", md, 9, 0, false, BYTES_LIT("x")); /* BL-131 */
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sc.message, "request metadata > limit 65536 bytes");
    seen_call_deinit(&sc);
    rpc_fixture_call(&f, &sc, "/test.T/Echo", md, 60, 0, false, BYTES_LIT("x")); /* 540 KB */
    rpc_fixture_pump(&f);
    assert_int_equal(sc.status, GRPC_RESOURCE_EXHAUSTED);
    rpc_fixture_call(&f, &next, "/test.T/Echo", md, 6, 0, false, BYTES_LIT("x"));
    rpc_fixture_pump(&f);
    assert_int_equal(next.status, GRPC_OK);
    seen_call_deinit(&sc);
    seen_call_deinit(&next);
    rpc_fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_echo_with_metadata),
        cmocka_unit_test(test_bytes_split_at_every_size),
        cmocka_unit_test(test_many_calls_at_once_and_empty_message),
        cmocka_unit_test(test_error_with_details_and_strange_message),
        cmocka_unit_test(test_unknown_method),
        cmocka_unit_test(test_deadline_is_the_handlers_or_the_layers),
        cmocka_unit_test(test_client_deadline),
        cmocka_unit_test(test_cancel_reaches_the_handler_once),
        cmocka_unit_test(test_lost_connection_closes_calls),
        cmocka_unit_test(test_server_stream_and_drained),
        cmocka_unit_test(test_bidi_both_ways_and_pause),
        cmocka_unit_test(test_early_finish_while_the_client_still_sends),
        cmocka_unit_test(test_request_over_the_limit),
        cmocka_unit_test(test_oversize_goes_in_pieces),
        cmocka_unit_test(test_a_method_may_have_a_limit_of_its_own),
        cmocka_unit_test(test_no_memory_to_wait_in),
        cmocka_unit_test(test_decompressed_messages_take_their_room),
        cmocka_unit_test(test_what_waits_for_room_holds_no_completion_back),
        cmocka_unit_test(test_messages_without_an_end_are_bounded),
        cmocka_unit_test(test_too_much_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
