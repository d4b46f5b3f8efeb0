/* call.c - what both ends of a call share: counting, metadata, the queue of what is to be sent. */
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/internal.h"

#define POOL_MAX 64

struct rpc_call *call_new(struct rpc_conn *c, int32_t stream_id)
{
    struct rpc_call *call = c->pool;

    if (call) {
        c->pool = call->context;
        c->pool_count--;
    } else {
        call = malloc(sizeof(*call));
        ASSERT(call);
    }
    /* The arrays of the two metadata lists need no zeroing. */
    memset(call, 0, offsetof(struct rpc_call, in));
    call->in.count = call->in.cap = 0;
    call->in.more = NULL;
    call->trailers.count = call->trailers.cap = 0;
    call->trailers.more = NULL;
    memset((char *)call + offsetof(struct rpc_call, arena), 0,
           sizeof(*call) - offsetof(struct rpc_call, arena));
    call->conn = c;
    call->conn_id = c->id;
    call->refs = 1;
    call->stream_id = stream_id;
    call->is_server = c->server != NULL;
    call->stream_open = true;
    call->deadline = call->due = USEC_NEVER;
    call->started = call->rx.progress = c->now;
    call->rx.window = call->is_server ? RPC_SERVER_WINDOW : RPC_CLIENT_WINDOW;
    call->peer_status = -1;
    list_push_back(&c->calls, &call->node);
    c->call_count++;
    return call;
}

/* Drops what a call still owns when nobody looks at it any more. */
static void call_clear(struct rpc_call *call)
{
    ASSERT(!call->conn);
    budget_release(&call->unanswered);
    if (call->path)
        nghttp2_rcbuf_decref(call->path);
    if (call->verb)
        nghttp2_rcbuf_decref(call->verb);
    if (call->content_type)
        nghttp2_rcbuf_decref(call->content_type);
    meta_deinit(&call->in);
    meta_deinit(&call->trailers);
    arena_free(call->arena);
    free(call->out_headers.v);
    free(call->out_trailers.v);
}

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    call->refs++;
    return call;
}

void rpc_call_unref(struct rpc_call *call)
{
    if (call && --call->refs == 0) {
        call_clear(call);
        free(call);
    }
}

/* Gives a finished call's memory back to its connection, if nobody else holds it. */
static void call_recycle(struct rpc_conn *c, struct rpc_call *call)
{
    if (call->refs > 1 || c->pool_count >= POOL_MAX) {
        rpc_call_unref(call);
        return;
    }
    call_clear(call);
    call->context = c->pool;
    c->pool = call;
    c->pool_count++;
}

void call_detach(struct rpc_call *call)
{
    struct rpc_conn *c = call->conn;

    receiver_deinit(call);
    if (heap_has(&call->timer))
        heap_remove(&c->timers, &call->timer);
    if (list_is_linked(&call->drained_node))
        list_remove(&call->drained_node);
    if (list_is_linked(&call->wake_node))
        list_remove(&call->wake_node);
    msg_queue_deinit(&call->out);
    list_remove(&call->node);
    c->call_count--;
    call->conn = NULL;
    call->stream_open = false;
    call_recycle(c, call);
}

/* ---- timers ---------------------------------------------------------------------------------- */

void call_set_timer(struct rpc_call *call)
{
    struct rpc_conn *c = call->conn;
    usec_t due = USEC_NEVER;

    if (!call->finished)
        due = call->deadline_called ? usec_add(call->deadline, RPC_DEADLINE_GRACE) : call->deadline;
    if (!call->finished && call->rx.claim.state == CLAIM_GRANTED && call->rx.mode != RX_ROOM)
        due = MIN(due, call->rx.progress + RPC_STALL_TIME);
    if (due == call->due)
        return;
    if (heap_has(&call->timer))
        heap_remove(&c->timers, &call->timer);
    call->due = due;
    if (due != USEC_NEVER)
        heap_push(&c->timers, &call->timer);
}

/* ---- looking --------------------------------------------------------------------------------- */

bool rpc_call_is_open(const struct rpc_call *call)
{
    return call->conn && call->stream_open && !call->finished;
}

struct rpc_conn *rpc_call_conn(const struct rpc_call *call)
{
    return call->conn;
}

uint64_t rpc_call_conn_id(const struct rpc_call *call)
{
    return call->conn_id;
}

const struct rpc_method *rpc_call_method(const struct rpc_call *call)
{
    return call->method;
}

struct arena *call_arena(struct rpc_call *call)
{
    if (!call->arena)
        call->arena = arena_create();
    return call->arena;
}

struct bytes rpc_call_header(const struct rpc_call *call, const char *name)
{
    struct rpc_call *own = (struct rpc_call *)(uintptr_t)call; /* its arena may be made */

    return meta_get(&call->in, name, &own->arena);
}

struct bytes rpc_call_trailer(const struct rpc_call *call, const char *name)
{
    struct rpc_call *own = (struct rpc_call *)(uintptr_t)call;

    return meta_get(&call->trailers, name, &own->arena);
}

usec_t rpc_call_deadline(const struct rpc_call *call)
{
    return call->deadline;
}

void *rpc_call_context(const struct rpc_call *call)
{
    return call->context;
}

void rpc_call_set_context(struct rpc_call *call, void *context)
{
    call->context = context;
}

bool rpc_call_has_no_room(const struct rpc_call *call)
{
    return call->rx.has_no_room;
}

size_t rpc_call_unsent(const struct rpc_call *call)
{
    return call->out.bytes;
}

/* ---- metadata to send ------------------------------------------------------------------------ */

void nv_list_add(struct nv_list *l, nghttp2_nv nv)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        nghttp2_nv *v = realloc(l->v, cap * sizeof(*v));
        ASSERT(v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->count++] = nv;
}

static bool is_bin(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && memcmp(name + n - 4, "-bin", 4) == 0;
}

void call_add_nv(struct rpc_call *call, struct nv_list *l, const char *name, struct bytes value)
{
    struct arena *a = call_arena(call);
    struct bytes n = arena_dup(a, bytes_str(name)), v;

    if (is_bin(name)) {
        char *text = arena_alloc(a, BASE64_LEN(value.len) + 1);
        v = bytes_of(text, base64_encode(value, false, text));
    } else {
        v = arena_dup(a, value.ptr ? value : bytes_of("", 0));
    }
    nv_list_add(l, (nghttp2_nv){(uint8_t *)(uintptr_t)n.ptr, (uint8_t *)(uintptr_t)v.ptr, n.len,
                                v.len, NGHTTP2_NV_FLAG_NONE});
}

void rpc_call_add_header(struct rpc_call *call, const char *name, struct bytes value)
{
    if (rpc_call_is_open(call) && !call->headers_sent)
        call_add_nv(call, &call->out_headers, name, value);
}

void rpc_call_add_trailer(struct rpc_call *call, const char *name, struct bytes value)
{
    if (rpc_call_is_open(call))
        call_add_nv(call, &call->out_trailers, name, value);
}

void rpc_call_set_details(struct rpc_call *call, struct bytes status_details)
{
    rpc_call_add_trailer(call, "grpc-status-details-bin", status_details);
}

/* ---- messages to send ------------------------------------------------------------------------ */

void call_resume_data(struct rpc_call *call)
{
    if (!call->deferred)
        return;
    call->deferred = false;
    (void)nghttp2_session_resume_data(call->conn->session, call->stream_id); /* may be closing */
    conn_want_send(call->conn);
}

static struct rpc_msg *compressed(struct rpc_msg *msg)
{
    struct strbuf packed = {0};

    gzip_compress(bytes_of(rpc_msg_data(msg), msg->len), &packed);
    struct rpc_msg *m = rpc_msg_new(packed.len);
    m->frame[0] = 1;
    memcpy(rpc_msg_data(m), packed.ptr, packed.len);
    strbuf_deinit(&packed);
    rpc_msg_unref(msg);
    return m;
}

void rpc_call_send(struct rpc_call *call, struct rpc_msg *msg)
{
    if (!rpc_call_is_open(call) || call->send_closed) {
        rpc_msg_unref(msg);
        return;
    }
    msg_queue_push(&call->out, call->gzip ? compressed(msg) : msg);
    if (call->is_server && !call->headers_sent)
        server_send_headers(call);
    call_resume_data(call);
}

/* nghttp2 asks how much of the stream's data it may frame now. */
static ssize_t data_read(nghttp2_session *session UNUSED, int32_t stream_id UNUSED,
                         uint8_t *buf UNUSED, size_t length, uint32_t *flags,
                         nghttp2_data_source *source, void *user UNUSED)
{
    struct rpc_call *call = source->ptr;
    size_t n = MIN(length, call->out.bytes);
    bool ended = call->is_server ? call->finished : call->send_closed || call->finished;

    if (n == 0 && !ended) {
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == call->out.bytes && ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (call->is_server && !call->plain_http) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            server_submit_trailers(call);
        }
    }
    return (ssize_t)n;
}

nghttp2_data_provider call_provider(struct rpc_call *call)
{
    return (nghttp2_data_provider){.source = {.ptr = call}, .read_callback = data_read};
}

#define FRAME_HEAD_LEN 9

int call_send_data(struct rpc_call *call, const uint8_t *framehd, size_t len)
{
    struct strbuf *out = call->conn->out;
    uint8_t *p = strbuf_reserve(out, FRAME_HEAD_LEN + len);

    memcpy(p, framehd, FRAME_HEAD_LEN);
    msg_queue_take(&call->out, p + FRAME_HEAD_LEN, len);
    out->len += FRAME_HEAD_LEN + len;
    if (call->drained && call->out.bytes <= call->drained_below &&
        !list_is_linked(&call->drained_node))
        list_push_back(&call->conn->drained, &call->drained_node);
    return 0;
}

void call_run_drained(struct rpc_conn *c)
{
    for (struct list_node *n; (n = list_pop_front(&c->drained));) {
        struct rpc_call *call = LIST_ENTRY(n, struct rpc_call, drained_node);
        void (*fn)(struct rpc_call *, void *) = call->drained;
        call->drained = NULL;
        if (fn && !call->finished)
            fn(call, call->drained_arg);
    }
}

void rpc_call_on_drained(struct rpc_call *call, size_t below, void (*fn)(struct rpc_call *, void *),
                         void *arg)
{
    call->drained_below = below;
    call->drained = fn;
    call->drained_arg = arg;
    if (!rpc_call_is_open(call) || call->out.bytes > below)
        return;
    if (!list_is_linked(&call->drained_node)) /* it is so already: at the next round */
        list_push_back(&call->conn->drained, &call->drained_node);
    conn_want_send(call->conn);
}

void call_on_wake(struct rpc_call *call, void (*fn)(struct rpc_call *, void *), void *arg)
{
    call->on_wake = fn;
    call->wake_arg = arg;
    list_push_back(&call->conn->wakeable, &call->wake_node);
}

void call_wake(struct rpc_call *call)
{
    const struct rpc_conn_events *ev = &call->conn->ev;

    if (ev->wake)
        ev->wake(ev->arg);
}

void call_run_wakeable(struct rpc_conn *c)
{
    LIST_FOR_EACH (&c->wakeable, n) {
        struct rpc_call *call = LIST_ENTRY(n, struct rpc_call, wake_node);
        if (rpc_call_is_open(call))
            call->on_wake(call, call->wake_arg);
    }
}
