#include "rpc_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

/* ---- the service ----------------------------------------------------------------------------- */

static void count_closed(struct rpc_call *call, void *service)
{
    struct rpc_fixture *f = service;

    f->closes++;
    if (f->held == call) {
        rpc_call_unref(f->held);
        f->held = NULL;
    }
}

static void echo(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct rpc_fixture *f = service;
    struct rpc_msg *m = rpc_msg_new(msg.len);

    f->messages++;
    if (msg.len > 0)
        memcpy(rpc_msg_data(m), msg.ptr, msg.len);
    struct bytes h = rpc_call_header(call, "x-echo");
    if (!bytes_is_none(h)) {
        rpc_call_add_header(call, "x-echo", h);
        rpc_call_add_trailer(call, "x-trail-bin", rpc_call_header(call, "x-data-bin"));
    }
    rpc_call_reply(call, m);
    arena_free(arena);
}

static void hold(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg UNUSED)
{
    struct rpc_fixture *f = service;

    f->messages++;
    rpc_call_unref(f->held);
    f->held = rpc_call_ref(call);
    arena_free(arena);
}

static void hold_deadline(struct rpc_call *call, void *service)
{
    struct rpc_fixture *f = service;

    f->deadlines++;
    if (bytes_is_none(rpc_call_header(call, "x-sleep")))
        rpc_call_finish(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("by the handler"));
}

/* Fails with the status and the message that the request names: one byte, then text. */
static void fail_as_told(struct rpc_call *call, void *service, struct arena *arena,
                         struct bytes msg)
{
    struct rpc_fixture *f = service;

    f->messages++;
    rpc_call_set_details(call, BYTES_LIT("\x01\x02\xff"));
    rpc_call_finish(call, msg.ptr[0], bytes_of(msg.ptr + 1, msg.len - 1));
    arena_free(arena);
}

static void oversize(struct rpc_call *call, void *service, struct bytes piece, bool last)
{
    struct rpc_fixture *f = service;

    f->oversize_bytes += piece.len;
    if (!last)
        return;
    f->oversize_last = true;
    f->oversize_no_room = rpc_call_has_no_room(call);
    rpc_call_finish(call, GRPC_FAILED_PRECONDITION, BYTES_LIT("looked at"));
}

static void stream_start(struct rpc_call *call, void *service)
{
    struct rpc_fixture *f = service;

    f->starts++;
    rpc_call_unref(f->held);
    f->held = rpc_call_ref(call);
    rpc_call_send_headers(call);
}

static void bidi_message(struct rpc_call *call UNUSED, void *service, struct arena *arena,
                         struct bytes msg)
{
    struct rpc_fixture *f = service;

    f->messages++;
    strbuf_append_bytes(&f->collected, msg);
    arena_free(arena);
}

static void bidi_half_close(struct rpc_call *call UNUSED, void *service)
{
    struct rpc_fixture *f = service;

    f->half_closes++;
}

#define METHODS 9

static void add_methods(struct rpc_fixture *f, struct rpc_method *m)
{
    m[0] = (struct rpc_method){.path = "/test.T/Echo", .kind = RPC_UNARY, .message = echo};
    m[1] = (struct rpc_method){.path = "/test.T/Hold",
                               .kind = RPC_UNARY,
                               .message = hold,
                               .deadline = hold_deadline,
                               .closed = count_closed};
    m[2] = (struct rpc_method){.path = "/test.T/Fail", .kind = RPC_UNARY, .message = fail_as_told};
    m[3] = (struct rpc_method){
        .path = "/test.T/Big", .weight = RPC_HELD_BACK, .message = echo, .oversize = oversize};
    m[4] = (struct rpc_method){.path = "/test.T/Stream",
                               .kind = RPC_SERVER_STREAM,
                               .message = hold,
                               .closed = count_closed};
    m[5] = (struct rpc_method){.path = "/test.T/Bidi",
                               .kind = RPC_BIDI,
                               .message = bidi_message,
                               .start = stream_start,
                               .half_close = bidi_half_close,
                               .closed = count_closed};
    m[6] = (struct rpc_method){
        .path = "/test.T/Counted", .weight = RPC_COUNTED, .message = hold, .closed = count_closed};
    m[7] = (struct rpc_method){.path = "/test.T/HeldBack",
                               .weight = RPC_HELD_BACK,
                               .message = hold,
                               .closed = count_closed};
    m[8] = (struct rpc_method){.path = "/test.T/Small", .bytes_max = 100, .message = echo};
    for (size_t i = 0; i < METHODS; i++)
        m[i].service = f;
    rpc_server_add(f->server, m, METHODS);
}

static void on_finish(void *arg, const struct rpc_method *method UNUSED, int status, usec_t took)
{
    struct rpc_fixture *f = arg;

    assert_true(took >= 0);
    f->finishes++;
    f->last_status = status;
}

/* ---- the ends -------------------------------------------------------------------------------- */

static void server_wants(void *arg)
{
    ((struct rpc_fixture *)arg)->s_wants = true;
}

static void client_wants(void *arg)
{
    ((struct rpc_fixture *)arg)->c_wants = true;
}

static void wake(void *arg)
{
    ((struct rpc_fixture *)arg)->wakes++;
}

static struct rpc_method
    methods[METHODS]; /* the same for each fixture but for `service`: one at a time */

void rpc_fixture_init(struct rpc_fixture *f)
{
    memset(f, 0, sizeof(*f));
    settings_defaults(&f->settings);
    f->now = 1000 * USEC_PER_SEC;
}

void rpc_fixture_new_server_conn(struct rpc_fixture *f)
{
    const struct rpc_conn_events ev = {.want_send = server_wants, .wake = wake, .arg = f};

    f->s = rpc_conn_new_server(f->server, 7, BYTES_LIT("memory"), &ev, f->now);
}

void rpc_fixture_start(struct rpc_fixture *f)
{
    const struct rpc_server_options opts = {
        .settings = &f->settings, .on_finish = on_finish, .arg = f};
    const struct rpc_conn_events cev = {.want_send = client_wants, .arg = f};
    const struct rpc_conn_client_options copts = {.authority = "test", .user_agent = "fixture/1"};

    f->server = rpc_server_new(&opts);
    add_methods(f, methods);
    rpc_fixture_new_server_conn(f);
    f->c = rpc_conn_new_client(&copts, &cev, f->now);
    rpc_fixture_pump(f);
}

void rpc_fixture_deinit(struct rpc_fixture *f)
{
    rpc_conn_free(f->c);
    rpc_conn_free(f->s);
    rpc_conn_free(f->c2);
    rpc_conn_free(f->s2);
    rpc_call_unref(f->held);
    rpc_server_free(f->server);
    strbuf_deinit(&f->kept);
    strbuf_deinit(&f->collected);
}

static void feed(struct rpc_fixture *f, struct rpc_conn *to, struct bytes b)
{
    size_t piece = f->piece ? f->piece : b.len;

    for (size_t i = 0; i < b.len; i += piece)
        assert_int_equal(
            rpc_conn_recv(to, bytes_of(b.ptr + i, MIN(piece, b.len - i)), f->now, NULL), OK);
}

static bool move(struct rpc_fixture *f, struct rpc_conn *from, struct rpc_conn *to, bool *wants)
{
    struct strbuf out = {0};

    if (!*wants)
        return false;
    *wants = rpc_conn_send(from, &out, KIB(64), f->now);
    if (from == f->s && f->blocked_to_client) {
        strbuf_append_bytes(&f->kept, strbuf_bytes(&out));
    } else {
        *(from == f->s ? &f->bytes_to_client : &f->bytes_to_server) += out.len;
        feed(f, to, strbuf_bytes(&out));
    }
    strbuf_deinit(&out);
    return true;
}

void rpc_fixture_pump(struct rpc_fixture *f)
{
    bool moved = true;

    if (!f->blocked_to_client && f->kept.len > 0) {
        struct strbuf kept = f->kept;
        f->kept = (struct strbuf){0};
        feed(f, f->c, strbuf_bytes(&kept));
        strbuf_deinit(&kept);
    }
    while (moved) {
        moved = move(f, f->c, f->s, &f->c_wants);
        moved |= move(f, f->s, f->c, &f->s_wants);
    }
}

void rpc_fixture_advance(struct rpc_fixture *f, usec_t by)
{
    f->now += by;
    if (rpc_conn_next_tick(f->s) <= f->now)
        assert_int_equal(rpc_conn_tick(f->s, f->now, NULL), OK);
    if (rpc_conn_next_tick(f->c) <= f->now)
        assert_int_equal(rpc_conn_tick(f->c, f->now, NULL), OK);
    rpc_fixture_pump(f);
}

/* ---- the client's calls ---------------------------------------------------------------------- */

static void on_headers(struct rpc_call *call UNUSED, void *arg)
{
    ((struct seen_call *)arg)->has_headers = true;
}

static void on_message(struct rpc_call *call UNUSED, void *arg, struct arena *arena,
                       struct bytes msg)
{
    struct seen_call *sc = arg;

    sc->messages++;
    sc->message_len = msg.len;
    strbuf_append_bytes(&sc->text, msg);
    arena_free(arena);
}

static void on_finished(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct seen_call *sc = arg;
    struct bytes t = rpc_call_trailer(call, "x-trail-bin");

    sc->is_finished = true;
    sc->finished_count++;
    sc->status = status;
    snprintf(sc->message, sizeof(sc->message), "%.*s", BYTES_FMT(message));
    snprintf(sc->trailer, sizeof(sc->trailer), "%.*s", BYTES_FMT(t));
}

void rpc_fixture_send(struct rpc_call *call, struct bytes body)
{
    struct rpc_msg *m = rpc_msg_new(body.len);

    if (body.len > 0)
        memcpy(rpc_msg_data(m), body.ptr, body.len);
    rpc_call_send(call, m);
}

static void start_call(struct rpc_fixture *f, struct rpc_conn *c, struct seen_call *sc,
                       const char *path, const struct rpc_metadata *md, size_t md_count,
                       usec_t timeout, bool gzip, struct bytes body)
{
    const struct rpc_client_events ev = {on_headers, on_message, on_finished, sc};

    memset(sc, 0, sizeof(*sc));
    sc->call = rpc_conn_call(c, path, md, md_count, timeout, gzip, &ev, f->now);
    assert_non_null(sc->call);
    if (bytes_is_none(body))
        return;
    rpc_fixture_send(sc->call, body);
    rpc_call_close_send(sc->call);
}

void rpc_fixture_call(struct rpc_fixture *f, struct seen_call *sc, const char *path,
                      const struct rpc_metadata *md, size_t md_count, usec_t timeout, bool gzip,
                      struct bytes body)
{
    start_call(f, f->c, sc, path, md, md_count, timeout, gzip, body);
}

void rpc_fixture_call_on(struct rpc_fixture *f, struct rpc_conn *c, struct seen_call *sc,
                         const char *path, struct bytes body)
{
    start_call(f, c, sc, path, NULL, 0, 0, false, body);
}

void seen_call_deinit(struct seen_call *sc)
{
    rpc_call_unref(sc->call);
    strbuf_deinit(&sc->text);
}

/* ---- the second connection ------------------------------------------------------------------- */

static void server2_wants(void *arg)
{
    ((struct rpc_fixture *)arg)->s2_wants = true;
}

static void client2_wants(void *arg)
{
    ((struct rpc_fixture *)arg)->c2_wants = true;
}

struct rpc_conn *rpc_fixture_second_client(struct rpc_fixture *f)
{
    const struct rpc_conn_events sev = {.want_send = server2_wants, .wake = wake, .arg = f};
    const struct rpc_conn_events cev = {.want_send = client2_wants, .arg = f};
    const struct rpc_conn_client_options copts = {.authority = "test", .user_agent = "fixture/2"};

    f->s2 = rpc_conn_new_server(f->server, 8, BYTES_LIT("memory"), &sev, f->now);
    f->c2 = rpc_conn_new_client(&copts, &cev, f->now);
    rpc_fixture_pump_second(f);
    f->bytes_to_second = 0;
    return f->c2;
}

void rpc_fixture_pump_second(struct rpc_fixture *f)
{
    while (f->c2_wants || f->s2_wants) {
        struct strbuf out = {0};
        f->c2_wants = rpc_conn_send(f->c2, &out, KIB(64), f->now);
        f->bytes_to_second += out.len;
        feed(f, f->s2, strbuf_bytes(&out));
        strbuf_reset(&out);
        f->s2_wants = rpc_conn_send(f->s2, &out, KIB(64), f->now);
        feed(f, f->c2, strbuf_bytes(&out));
        strbuf_deinit(&out);
    }
}

void rpc_fixture_tick_second(struct rpc_fixture *f)
{
    assert_int_equal(rpc_conn_tick(f->s2, f->now, NULL), OK);
}

bool rpc_fixture_hpack_has(struct bytes block, const char *name, const char *value)
{
    nghttp2_hd_inflater *inflater;
    bool found = false;
    int flags = 0;

    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    while (block.len > 0 && !(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block.ptr, block.len, 1);
        assert_true(n >= 0);
        block = bytes_of(block.ptr + n, block.len - (size_t)n);
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            found |= bytes_eq(bytes_of(nv.name, nv.namelen), bytes_str(name)) &&
                     bytes_eq(bytes_of(nv.value, nv.valuelen), bytes_str(value));
    }
    nghttp2_hd_inflate_del(inflater);
    return found;
}
