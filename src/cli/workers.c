/* workers.c - `perdure workers`: the work-item streams that are open. */
#include <inttypes.h>

#include "cli/proto_json.h"
#include "cli/session.h"
#include "cli/text.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

typedef Perdure__V1__WorkerInfo WorkerInfo;

static const char *const HEADS[] = {"STREAM",    "HUB",  "WORKER", "PEER",
                                    "CONNECTED", "WORK", "FILTERS"};

/* The most telling name a worker gave. */
static struct bytes name_of(const WorkerInfo *w)
{
    struct bytes names[] = {wire_view(w->worker_id), wire_view(w->worker_instance_id),
                            wire_view(w->x_user_agent), wire_view(w->user_agent)};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].len > 0)
            return names[i];
    return BYTES_LIT("-");
}

/* "orchestration 3/100, activity 0": held, and of how many at most. */
static void put_work(struct strbuf *out, const WorkerInfo *w)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        const Perdure__V1__WorkerSlots *s = w->slots[i];
        strbuf_appendf(out, "%s%.*s %" PRId32, i ? ", " : "", BYTES_FMT(wire_view(s->kind)),
                       s->unsettled);
        if (s->max > 0)
            strbuf_appendf(out, "/%" PRId32, s->max);
    }
}

static void put_row(struct table *t, const WorkerInfo *w)
{
    CLEANUP(strbuf_deinit) struct strbuf work = {0}, worker = {0};
    char since[USEC_TEXT_LEN] = "-";
    usec_t at;

    if (w->connected && wire_time_read(w->connected, &at))
        usec_format(at, since);
    put_work(&work, w);
    put_clean(&worker, name_of(w), 40);
    if (w->token_less)
        strbuf_append_str(&worker, " (no tokens)");
    table_cellf(t, "%" PRIu64, w->stream_id);
    table_cell(t, wire_view(w->hub));
    table_cell(t, strbuf_bytes(&worker));
    table_cell(t, wire_view(w->peer));
    table_cell(t, bytes_str(since));
    table_cell(t, work.len ? strbuf_bytes(&work) : BYTES_LIT("-"));
    table_cell(t, w->filters.len ? wire_view(w->filters) : BYTES_LIT("everything"));
}

enum err run_workers(struct invocation *in, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    Perdure__V1__WorkersRequest req = PERDURE__V1__WORKERS_REQUEST__INIT;
    Perdure__V1__WorkersResponse *resp;
    struct table t;

    if (in->hub)
        req.hub = wire_data(bytes_str(in->hub));
    enum err e = session_call(in, ADMIN("Workers"), &req.base, SESSION_TIMEOUT,
                              &perdure__v1__workers_response__descriptor, &resp, err);
    if (e)
        return e;
    if (in->json)
        return output_json(proto_json(&resp->base), err);
    table_init(&t, ARRAY_LEN(HEADS));
    for (size_t i = 0; i < ARRAY_LEN(HEADS); i++)
        table_cell(&t, bytes_str(HEADS[i]));
    for (size_t i = 0; i < resp->n_workers; i++)
        put_row(&t, resp->workers[i]);
    table_put(&t, &text);
    return output_text(&text, err);
}
