/* service_history.c - StreamInstanceHistory: page by page, the next one only when the last was read (spec 3.14). */
#include <stdlib.h>

#include "base/assert.h"
#include "durabletask/service_internal.h"
#include "wire/reader.h"
#include "wire/value.h"
#include "wire/writer.h"

#define CHUNK_EVENTS_MAX 1000

struct dt_history_stream {
    struct dt_service *svc;
    struct rpc_call *call;
    struct dt_request *waiting; /* the page that is being read */
    char *id;
    size_t id_len;
    uint64_t execution, next_row, to_row;
};

static void stream_free(struct dt_history_stream *h)
{
    rpc_call_unref(h->call);
    free(h->id);
    free(h);
}

static char *dup(struct bytes b)
{
    char *p = malloc(b.len + 1);
    ASSERT(p);
    memcpy(p, b.ptr, b.len);
    return p;
}

static void send_chunk(struct rpc_call *call, struct bytes events)
{
    if (events.len == 0)
        return;
    struct rpc_msg *msg = rpc_msg_new(events.len);
    memcpy(rpc_msg_data(msg), events.ptr, events.len);
    rpc_call_send(call, msg);
}

/* Stored frames are those of pastEvents; HistoryChunk.events has another tag of the same length. One page may be
 * several chunks: an event larger than a chunk is alone in one. */
static void send_events(struct dt_history_stream *h, uint8_t *bytes, size_t len)
{
    struct wire_reader r = wire_reader_of(bytes_of(bytes, len));
    struct wire_field f;
    size_t begin = 0, end = 0, count = 0;
    while (wire_next(&r, &f)) {
        bytes[end] = (uint8_t)((1 << 3) | WIRE_BYTES);
        bool full = count > 0 && (end - begin + f.raw.len > h->svc->settings->history_chunk_bytes ||
                                  count == CHUNK_EVENTS_MAX);
        if (full) {
            send_chunk(h->call, bytes_of(bytes + begin, end - begin));
            begin = end;
            count = 0;
        }
        end += f.raw.len;
        count++;
    }
    send_chunk(h->call, bytes_of(bytes + begin, end - begin));
}

static void next_page(struct dt_history_stream *h);

static void drained(struct rpc_call *call, void *arg)
{
    (void)call;
    next_page(arg);
}

static void page_arrived(struct dt_request *r)
{
    struct dt_history_stream *h = r->extra;
    struct dt_history_page page;
    h->waiting = NULL;
    if (!rpc_call_is_open(h->call)) {
        stream_free(h);
    } else if (r->cmd.status) {
        rpc_call_set_context(h->call, NULL);
        rpc_call_fail(h->call, r->cmd.error);
        stream_free(h);
    } else {
        memcpy(&page, r->cmd.reply.ptr, sizeof(page));
        send_events(h, r->cmd.reply.ptr + sizeof(page), page.chunk_len);
        h->execution = page.execution;
        h->next_row = page.next_row;
        h->to_row = page.to_row;
        if (h->next_row > h->to_row) {
            rpc_call_set_context(h->call, NULL);
            rpc_call_finish(h->call, 0, BYTES_LIT(""));
            stream_free(h);
        } else if (rpc_call_unsent(h->call) > h->svc->settings->history_chunk_bytes) {
            rpc_call_on_drained(h->call, h->svc->settings->history_chunk_bytes, drained, h);
        } else {
            next_page(h);
        }
    }
    dt_request_free(r);
}

static void submit_page(struct dt_history_stream *h, struct dt_request *r, struct dt_history *req)
{
    r->cmd.request = req;
    r->extra = h;
    r->finish = page_arrived;
    h->waiting = r;
    if (req->is_first)
        dt_request_submit(r); /* which execution, and how far: the engine knows */
    else
        h->svc->host.read(h->svc->host.arg, &r->cmd);
}

static void next_page(struct dt_history_stream *h)
{
    struct arena *arena = arena_create();
    struct dt_request *r = dt_request_new(h->svc, h->call, arena, 0, DT_HISTORY);
    if (!r)
        return; /* cannot be: the hub was fine before */
    struct dt_history *req = arena_new(arena, struct dt_history);
    *req = (struct dt_history){
        .execution = h->execution, .from_row = h->next_row, .to_row = h->to_row};
    r->cmd.id = arena_dup(arena, bytes_of(h->id, h->id_len));
    submit_page(h, r, req);
}

void dt_stream_history(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct dt_service *svc = service;
    struct dt_request *r = dt_request_new(svc, call, arena, msg.len, DT_HISTORY);
    struct error err = {0};
    StreamInstanceHistoryRequest *in;
    if (!r)
        return;
    if (wire_unpack(&stream_instance_history_request__descriptor, arena, msg, &WIRE_LIMITS, &in,
                    &err) ||
        dt_check_id(wire_view(in->instanceid), svc->settings->id_action_chars, &err)) {
        rpc_call_fail(call, &err);
        dt_request_free(r);
        return;
    }
    struct dt_history *req = arena_new(arena, struct dt_history);
    req->is_first = true;
    req->execution_id = wire_string(in->executionid);
    /* forWorkItemProcessing asks for the pastEvents of the turn in flight: what is committed is just that. */
    if (req->execution_id.len == 0)
        req->execution_id = BYTES_NONE;
    r->cmd.id = wire_view(in->instanceid);

    struct dt_history_stream *h = calloc(1, sizeof(*h));
    ASSERT(h);
    h->svc = svc;
    h->call = rpc_call_ref(call);
    h->id = dup(r->cmd.id);
    h->id_len = r->cmd.id.len;
    rpc_call_set_context(call, h);
    submit_page(h, r, req);
}

void dt_stream_history_closed(struct rpc_call *call, void *service)
{
    struct dt_history_stream *h = rpc_call_context(call);
    (void)service;
    rpc_call_set_context(call, NULL);
    if (h && !h->waiting)
        stream_free(h); /* else when the page comes back */
}
