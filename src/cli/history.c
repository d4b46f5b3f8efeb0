/* history.c - `perdure history ID`: the committed history, event by event as it arrives. */
#include "cli/proto_json.h"
#include "cli/session.h"
#include "cli/text.h"
#include "wire/wire.h"

#define DETAIL_CHARS 60 /* of a payload, for people */

const struct option HISTORY_OPTIONS[] = {
    {"follow", NULL, NULL, "following a history comes with a later version; ask again", false},
    {NULL, NULL, NULL, NULL, false},
};

struct listing {
    struct invocation *in;
    struct arena *arena; /* of one chunk */
    struct table table;
    enum err result;
    struct error *err;
};

/* ---- for people -------------------------------------------------------------------------------- */

static void put_detail(struct strbuf *out, const char *key, const json_t *value)
{
    const char *gap = out->len > 0 ? " " : "";

    if (json_is_string(value) && json_string_length(value) > 0) {
        strbuf_appendf(out, "%s%s=", gap, key);
        put_clean(out, bytes_of(json_string_value(value), json_string_length(value)), DETAIL_CHARS);
    } else if (json_is_integer(value)) {
        strbuf_appendf(out, "%s%s=%" JSON_INTEGER_FORMAT, gap, key, json_integer_value(value));
    } else if (json_is_object(value) && json_object_get(value, "errorMessage")) {
        strbuf_appendf(out, "%s%s=%s: ", gap, key,
                       json_string_value(json_object_get(value, "errorType")));
        const json_t *text = json_object_get(value, "errorMessage");
        put_clean(out, bytes_of(json_string_value(text), json_string_length(text)), DETAIL_CHARS);
    }
}

/* The member that names the kind of event: the only object besides the time. */
static void put_event(struct listing *l, const json_t *event)
{
    CLEANUP(strbuf_deinit) struct strbuf detail = {0};
    const char *kind = "?", *key;
    json_t *body = NULL, *value;
    union { /* jansson's iterators take no const */
        const json_t *in;
        json_t *out;
    } e = {.in = event};

    json_object_foreach(e.out, key, value)
    {
        if (json_is_object(value)) {
            kind = key;
            body = value;
        }
    }
    json_object_foreach(body, key, value) put_detail(&detail, key, value);
    table_cellf(&l->table, "%" JSON_INTEGER_FORMAT,
                json_integer_value(json_object_get(event, "eventId")));
    table_cell(&l->table, bytes_str(json_string_value(json_object_get(event, "timestamp"))));
    table_cell(&l->table, bytes_str(kind));
    table_cell(&l->table, detail.len ? strbuf_bytes(&detail) : BYTES_LIT(""));
}

/* ---- chunks ------------------------------------------------------------------------------------ */

static enum err show(struct listing *l, const HistoryChunk *chunk)
{
    enum err e = OK;

    for (size_t i = 0; !e && i < chunk->n_events; i++) {
        json_t *event = proto_json(&chunk->events[i]->base);
        if (l->in->json) {
            e = output_json(event, l->err);
            continue;
        }
        put_event(l, event);
        json_decref(event);
    }
    return e;
}

static bool take(void *arg, struct bytes message)
{
    struct listing *l = arg;
    HistoryChunk *chunk;

    arena_reset(l->arena);
    l->result =
        wire_unpack(&history_chunk__descriptor, l->arena, message, &WIRE_LIMITS, &chunk, l->err);
    if (l->result)
        error_wrap(l->err, l->result, "the answer of the server does not decode");
    else
        l->result = show(l, chunk);
    return l->result == OK;
}

static enum err print_table(struct listing *l)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    table_put(&l->table, &text);
    return l->in->json ? OK : output_text(&text, l->err);
}

enum err run_history(struct invocation *in, struct error *err)
{
    static const char *const HEADS[] = {"ID", "TIME", "EVENT", "DETAIL"};
    StreamInstanceHistoryRequest req = STREAM_INSTANCE_HISTORY_REQUEST__INIT;
    struct listing l = {.in = in, .arena = arena_create(), .err = err};

    table_init(&l.table, ARRAY_LEN(HEADS));
    for (size_t i = 0; !in->json && i < ARRAY_LEN(HEADS); i++)
        table_cell(&l.table, bytes_str(HEADS[i]));
    req.instanceid = wire_data(bytes_str(in->args[0]));
    enum err e = session_stream(in, DURABLE_TASK("StreamInstanceHistory"), &req.base,
                                SESSION_FOREVER, take, &l, err);
    e = e ? e : l.result;
    if (!e)
        e = print_table(&l);
    strbuf_deinit(&l.table.cells);
    arena_free(l.arena);
    return e;
}
