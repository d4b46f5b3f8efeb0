/* status.c - `perdure status`: the server, its store and what it is doing. */
#include <inttypes.h>

#include "cli/proto_json.h"
#include "cli/session.h"
#include "cli/text.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

typedef Perdure__V1__StatusResponse StatusResponse;

static usec_t span_of(const Google__Protobuf__Duration *d)
{
    usec_t span = 0;

    return d && wire_duration_read(d, &span) ? span : 0;
}

static void put_server(struct strbuf *out, const StatusResponse *r, const char *server)
{
    strbuf_appendf(out, "server     perdure %.*s at %s, up ", BYTES_FMT(wire_view(r->version)),
                   server);
    put_span(out, span_of(r->uptime));
    strbuf_append_str(out, r->draining ? ", draining\n" : "\n");
}

static void put_store(struct strbuf *out, const Perdure__V1__StoreStatus *s)
{
    if (!s)
        return;
    strbuf_append_str(out, "store      ");
    put_clean(out, wire_view(s->url), 0);
    strbuf_append_str(out, ", ");
    put_size(out, s->bytes);
    strbuf_append_str(out, ", log ");
    put_size(out, s->wal_bytes);
    strbuf_appendf(out, ", schema %" PRIu32 ", %" PRIu32 " partitions\n", s->schema_version,
                   s->partitions);
}

static void put_commits(struct strbuf *out, const Perdure__V1__CommitStatus *c)
{
    if (!c)
        return;
    strbuf_appendf(out,
                   "commits    %" PRIu64 " with %" PRIu64 " commands (%.1f each), %" PRIu64
                   " flushes, the last took ",
                   c->batches, c->commands,
                   c->batches ? (double)c->commands / (double)c->batches : 0.0, c->flushes);
    put_span(out, span_of(c->last_latency));
    strbuf_append_char(out, '\n');
}

static void put_counts(struct strbuf *out, const StatusResponse *r)
{
    struct table t;

    table_init(&t, 4);
    for (size_t i = 0; i < r->n_instances; i++) {
        table_cell(&t, wire_view(r->instances[i]->hub));
        table_cell(&t, wire_view(r->instances[i]->kind));
        table_cell(&t, wire_view(r->instances[i]->status));
        table_cellf(&t, "%" PRId64, r->instances[i]->count);
    }
    for (size_t i = 0; i < r->n_ready; i++) {
        table_cell(&t, wire_view(r->ready[i]->hub));
        table_cell(&t, wire_view(r->ready[i]->kind));
        table_cell(&t, BYTES_LIT("waits for a worker"));
        table_cellf(&t, "%" PRIu64, r->ready[i]->count);
    }
    if (t.count > 0)
        strbuf_append_char(out, '\n');
    table_put(&t, out);
}

enum err run_status(struct invocation *in, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    Perdure__V1__StatusRequest req = PERDURE__V1__STATUS_REQUEST__INIT;
    StatusResponse *r;
    enum err e = session_call(in, ADMIN("Status"), &req.base, SESSION_TIMEOUT,
                              &perdure__v1__status_response__descriptor, &r, err);

    if (e)
        return e;
    if (in->json)
        return output_json(proto_json(&r->base), err);
    put_server(&text, r, in->server);
    put_store(&text, r->store);
    put_commits(&text, r->commits);
    strbuf_appendf(&text,
                   "work       %" PRIu64 " held by workers on %" PRIu64 " streams, %" PRIu64
                   " timers, %" PRIu64 " waits, %" PRIu64 " connections\n",
                   r->in_flight, r->streams, r->timers, r->waiters, r->connections);
    put_counts(&text, r);
    return output_text(&text, err);
}
