/* interop_client.c - gRPC's interop cases on our client end.
 *
 * `interop_client ADDRESS CASE...`, each named as in gRPC's interop-test-descriptions; prints PASS or
 * FAIL with the case's name and exits 1 if one failed. "compressed_unary" is a case of our own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/channel.h"
#include "grpc_testing.h"

#define PATH(name) "/grpc.testing.TestService/" name
#define CASE_TIME (15 * USEC_PER_SEC)

static struct channel *channel;
static bool timed_out, failed;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #cond);                                      \
            failed = true;                                                                         \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* ---- one call, waited for ---------------------------------------------------------------------- */

struct waited {
    struct rpc_call *call;
    struct rpc_client_events ev;
    struct rpc_conn *conn;
    size_t messages;
    struct strbuf last; /* message */
    bool is_ready, is_finished;
    int status;
    char message[512];
};

static void stop(void)
{
    loop_stop(channel_loop(channel));
}

static void on_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                       struct bytes msg)
{
    struct waited *w = arg;

    w->messages++;
    strbuf_reset(&w->last);
    strbuf_append_bytes(&w->last, msg);
    arena_free(arena);
    stop();
}

static void on_finished(struct rpc_call *call UNUSED, void *arg, int status, struct bytes message)
{
    struct waited *w = arg;

    w->is_finished = true;
    w->status = status;
    snprintf(w->message, sizeof(w->message), "%.*s", BYTES_FMT(message));
    stop();
}

static void on_ready(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct waited *w = arg;

    if (err)
        printf("%s\n", err->msg);
    w->conn = conn;
    w->is_ready = true;
    stop();
}

static void on_timeout(void *arg UNUSED)
{
    timed_out = true;
    stop();
}

static void run(void)
{
    loop_run(channel_loop(channel));
}

static void begin(struct waited *w, const char *path, const struct rpc_metadata *md,
                  size_t md_count, usec_t timeout, bool gzip)
{
    memset(w, 0, sizeof(*w));
    channel_when_ready(channel, on_ready, w);
    while (!w->is_ready)
        run();
    if (!w->conn) {
        w->is_finished = true;
        w->status = GRPC_UNAVAILABLE;
        return;
    }
    w->ev = (struct rpc_client_events){.message = on_message, .finished = on_finished, .arg = w};
    w->call = rpc_conn_call(w->conn, path, md, md_count, timeout, gzip, &w->ev,
                            loop_now(channel_loop(channel)));
    channel_call_started(channel);
}

static void send_request(struct waited *w, enum gt_kind kind, const struct gt_request *r)
{
    struct strbuf out = {0};

    if (!w->call)
        return;
    gt_write_request(kind, r, &out);
    struct rpc_msg *m = rpc_msg_new(out.len);
    if (out.len > 0)
        memcpy(rpc_msg_data(m), out.ptr, out.len);
    rpc_call_send(w->call, m);
    strbuf_deinit(&out);
}

static void wait_end(struct waited *w)
{
    while (!w->is_finished && !timed_out)
        run();
}

static void wait_messages(struct waited *w, size_t count)
{
    while (w->messages < count && !w->is_finished && !timed_out)
        run();
}

static void end(struct waited *w)
{
    if (w->call && !w->is_finished)
        rpc_call_cancel(w->call);
    rpc_call_unref(w->call);
    strbuf_deinit(&w->last);
}

/* One request, all answers, the end. */
static void unary(struct waited *w, const char *path, const struct rpc_metadata *md,
                  size_t md_count, bool gzip, const struct gt_request *r)
{
    begin(w, path, md, md_count, 0, gzip);
    send_request(w, GT_SIMPLE, r);
    if (w->call)
        rpc_call_close_send(w->call);
    wait_end(w);
}

static size_t answer_len(const struct waited *w)
{
    size_t len = SIZE_MAX;

    return gt_parse_answer(strbuf_bytes(&w->last), &len) ? len : SIZE_MAX;
}

/* ---- the cases --------------------------------------------------------------------------------- */

static void empty_unary(void)
{
    struct waited w;

    unary(&w, PATH("EmptyCall"), NULL, 0, false, &(struct gt_request){0});
    CHECK(w.status == GRPC_OK && w.messages == 1 && w.last.len == 0);
    end(&w);
}

static void check_large(bool gzip)
{
    struct waited w;

    unary(&w, PATH("UnaryCall"), NULL, 0, gzip,
          &(struct gt_request){.response_size = 314159, .payload_len = 271828});
    CHECK(w.status == GRPC_OK && w.messages == 1);
    CHECK(answer_len(&w) == 314159);
    end(&w);
}

static void large_unary(void)
{
    check_large(false);
}

static void compressed_unary(void)
{
    check_large(true);
}

static const uint32_t REQUEST_SIZES[] = {27182, 8, 1828, 45904};
static const uint32_t ANSWER_SIZES[] = {31415, 9, 2653, 58979};

static void client_streaming(void)
{
    struct waited w;
    uint32_t sum;

    begin(&w, PATH("StreamingInputCall"), NULL, 0, 0, false);
    for (size_t i = 0; i < 4; i++)
        send_request(&w, GT_STREAMING_INPUT, &(struct gt_request){.payload_len = REQUEST_SIZES[i]});
    rpc_call_close_send(w.call);
    wait_end(&w);
    CHECK(w.status == GRPC_OK && w.messages == 1);
    CHECK(gt_parse_aggregate(strbuf_bytes(&w.last), &sum) && sum == 74922);
    end(&w);
}

static void server_streaming(void)
{
    struct waited w;
    struct gt_request r = {.parameter_count = 4};

    for (size_t i = 0; i < 4; i++)
        r.parameters[i].size = ANSWER_SIZES[i];
    begin(&w, PATH("StreamingOutputCall"), NULL, 0, 0, false);
    send_request(&w, GT_STREAMING_OUTPUT, &r);
    rpc_call_close_send(w.call);
    for (size_t i = 0; i < 4; i++) {
        wait_messages(&w, i + 1);
        CHECK(w.messages >= i + 1);
        if (w.messages == i + 1)
            CHECK(answer_len(&w) == ANSWER_SIZES[i]);
    }
    wait_end(&w);
    CHECK(w.status == GRPC_OK && w.messages == 4);
    end(&w);
}

static void ping_pong(void)
{
    struct waited w;

    begin(&w, PATH("FullDuplexCall"), NULL, 0, 0, false);
    for (size_t i = 0; i < 4; i++) {
        struct gt_request r = {.parameter_count = 1, .payload_len = REQUEST_SIZES[i]};
        r.parameters[0].size = ANSWER_SIZES[i];
        send_request(&w, GT_STREAMING_OUTPUT, &r);
        wait_messages(&w, i + 1);
        CHECK(w.messages == i + 1 && answer_len(&w) == ANSWER_SIZES[i]);
    }
    rpc_call_close_send(w.call);
    wait_end(&w);
    CHECK(w.status == GRPC_OK && w.messages == 4);
    end(&w);
}

static void empty_stream(void)
{
    struct waited w;

    begin(&w, PATH("FullDuplexCall"), NULL, 0, 0, false);
    rpc_call_close_send(w.call);
    wait_end(&w);
    CHECK(w.status == GRPC_OK && w.messages == 0);
    end(&w);
}

static void timeout_on_sleeping_server(void)
{
    struct waited w;

    begin(&w, PATH("FullDuplexCall"), NULL, 0, USEC_PER_MSEC, false);
    send_request(&w, GT_STREAMING_OUTPUT, &(struct gt_request){.payload_len = 27182});
    wait_end(&w);
    if (w.status != GRPC_DEADLINE_EXCEEDED)
        printf("status %d: %s\n", w.status, w.message);
    CHECK(w.status == GRPC_DEADLINE_EXCEEDED);
    end(&w);
}

static void cancel_after_begin(void)
{
    struct waited w;

    begin(&w, PATH("StreamingInputCall"), NULL, 0, 0, false);
    rpc_call_cancel(w.call);
    CHECK(w.is_finished && w.status == GRPC_CANCELLED);
    end(&w);
}

static void cancel_after_first_response(void)
{
    struct waited w;
    struct gt_request r = {.parameter_count = 1, .payload_len = 27182};

    r.parameters[0].size = 31415;
    begin(&w, PATH("FullDuplexCall"), NULL, 0, 0, false);
    send_request(&w, GT_STREAMING_OUTPUT, &r);
    wait_messages(&w, 1);
    CHECK(answer_len(&w) == 31415);
    rpc_call_cancel(w.call);
    CHECK(w.is_finished && w.status == GRPC_CANCELLED);
    end(&w);
}

static void check_status(uint32_t status, struct bytes text)
{
    struct waited w;
    struct gt_request r = {.has_status = true, .status = status, .status_message = text};

    unary(&w, PATH("UnaryCall"), NULL, 0, false, &r);
    CHECK(w.status == (int)status && bytes_eq(bytes_str(w.message), text));
    end(&w);
    begin(&w, PATH("FullDuplexCall"), NULL, 0, 0, false);
    send_request(&w, GT_STREAMING_OUTPUT, &r);
    rpc_call_close_send(w.call);
    wait_end(&w);
    CHECK(w.status == (int)status && bytes_eq(bytes_str(w.message), text));
    end(&w);
}

static void status_code_and_message(void)
{
    check_status(GRPC_UNKNOWN, BYTES_LIT("test status message"));
}

static void special_status_message(void)
{
    check_status(GRPC_UNKNOWN,
                 BYTES_LIT("\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and "
                           "non-BMP \xf0\x9f\x98\x88\t\n"));
}

static void check_metadata(struct waited *w)
{
    CHECK(w->status == GRPC_OK);
    CHECK(bytes_eq(rpc_call_header(w->call, "x-grpc-test-echo-initial"),
                   BYTES_LIT("test_initial_metadata_value")));
    CHECK(bytes_eq(rpc_call_trailer(w->call, "x-grpc-test-echo-trailing-bin"),
                   BYTES_LIT("\xab\xab\xab")));
}

static void custom_metadata(void)
{
    struct waited w;
    const struct rpc_metadata md[] = {
        {"x-grpc-test-echo-initial", BYTES_LIT("test_initial_metadata_value")},
        {"x-grpc-test-echo-trailing-bin", BYTES_LIT("\xab\xab\xab")}};
    struct gt_request r = {.parameter_count = 1, .payload_len = 271828};

    r.parameters[0].size = 314159;
    unary(&w, PATH("UnaryCall"), md, 2, false,
          &(struct gt_request){.response_size = 314159, .payload_len = 271828});
    check_metadata(&w);
    end(&w);
    begin(&w, PATH("FullDuplexCall"), md, 2, 0, false);
    send_request(&w, GT_STREAMING_OUTPUT, &r);
    rpc_call_close_send(w.call);
    wait_end(&w);
    check_metadata(&w);
    end(&w);
}

static void unimplemented_method(void)
{
    struct waited w;

    unary(&w, PATH("UnimplementedCall"), NULL, 0, false, &(struct gt_request){0});
    CHECK(w.status == GRPC_UNIMPLEMENTED);
    end(&w);
}

static void unimplemented_service(void)
{
    struct waited w;

    unary(&w, "/grpc.testing.UnimplementedService/UnimplementedCall", NULL, 0, false,
          &(struct gt_request){0});
    CHECK(w.status == GRPC_UNIMPLEMENTED);
    end(&w);
}

#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct {
    const char *name;
    void (*fn)(void);
} CASES[] = {
    CASE(empty_unary),
    CASE(large_unary),
    CASE(client_streaming),
    CASE(server_streaming),
    CASE(ping_pong),
    CASE(empty_stream),
    CASE(timeout_on_sleeping_server),
    CASE(cancel_after_begin),
    CASE(cancel_after_first_response),
    CASE(status_code_and_message),
    CASE(special_status_message),
    CASE(custom_metadata),
    CASE(unimplemented_method),
    CASE(unimplemented_service),
    CASE(compressed_unary),
};

static bool run_case(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        if (strcmp(CASES[i].name, name) != 0)
            continue;
        struct loop_timer *t = loop_timer_new(channel_loop(channel), on_timeout, NULL);
        loop_timer_set(t, usec_add(loop_now(channel_loop(channel)), CASE_TIME));
        failed = timed_out = false;
        CASES[i].fn();
        loop_timer_free(t);
        printf("%s %s%s\n", failed || timed_out ? "FAIL" : "PASS", name,
               timed_out ? " (timed out)" : "");
        fflush(stdout);
        return !failed && !timed_out;
    }
    printf("FAIL %s (no such case)\n", name);
    return false;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    bool ok = argc > 2;

    if (argc < 2 || channel_new(NULL, &(struct channel_options){.address = bytes_str(argv[1])},
                                &channel, &err)) {
        fprintf(stderr, "usage: interop_client ADDRESS CASE... %s\n", err.msg);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        ok &= run_case(argv[i]);
    channel_free(channel);
    return ok ? 0 : 1;
}
