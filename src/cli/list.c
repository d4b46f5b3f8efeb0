/* list.c - `perdure list`: instances in the order of their creation, page by page until enough were found. */
#include <stdlib.h>

#include "cli/session.h"
#include "cli/state.h"
#include "cli/text.h"
#include "wire/wire.h"

#define LIMIT_DEFAULT 100
#define PAGE 500

const struct option LIST_OPTIONS[] = {
    {"status", "S", "only of this status, as RUNNING; repeatable", NULL, true},
    {"name", "N", "only orchestrations of this name", NULL, false},
    {"prefix", "P", "only ids that begin so", NULL, false},
    {"created-from", "T", "only those created then or later: RFC 3339, or relative as -2h", NULL,
     false},
    {"created-to", "T", "only those created before", NULL, false},
    {"tag", "K=V", "only with this tag; repeatable: with all of them", NULL, true},
    {"limit", "N", "show so many at most; 0: all (default 100)", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static const char *const HEADS[] = {"ID", "NAME", "STATUS", "CREATED", "ENDED"};

struct listing {
    struct invocation *in;
    InstanceQuery query;
    uint64_t limit, shown;
    struct table table;
    struct error *err;
};

static enum err read_limit(struct listing *l)
{
    const char *text = invocation_value(l->in, "limit");

    l->limit = LIMIT_DEFAULT;
    if (text && !bytes_parse_u64(bytes_str(text), &l->limit))
        return error_set(l->err, ERR_INVALID, "--limit: \"%s\" is no whole number", text);
    if (l->limit == 0)
        l->limit = UINT64_MAX;
    return OK;
}

static enum err read_query(struct listing *l)
{
    InstanceQuery *q = &l->query;
    const char *prefix = invocation_value(l->in, "prefix");
    enum err e;

    instance_query__init(q);
    if ((e = read_limit(l)) ||
        (e = statuses_read(l->in, &q->runtimestatus, &q->n_runtimestatus, l->err)) ||
        (e = option_time(l->in, "created-from", &q->createdtimefrom, l->err)) ||
        (e = option_time(l->in, "created-to", &q->createdtimeto, l->err)))
        return e;
    if (prefix)
        q->instanceidprefix = wire_string_value(l->in->arena, bytes_str(prefix));
    return OK;
}

/* What the call cannot ask for. */
static bool has_tag(const OrchestrationState *s, struct bytes text)
{
    const uint8_t *eq = memchr(text.ptr, '=', text.len);
    size_t len = eq ? (size_t)(eq - text.ptr) : text.len;

    for (size_t i = 0; i < s->n_tags; i++)
        if (bytes_eq(wire_view(s->tags[i]->key), bytes_of(text.ptr, len)) &&
            (!eq || bytes_eq(wire_view(s->tags[i]->value), bytes_of(eq + 1, text.len - len - 1))))
            return true;
    return false;
}

static bool is_meant(const struct listing *l, const OrchestrationState *s)
{
    const struct invocation *in = l->in;
    const char *name = invocation_value(in, "name");

    if (name && !bytes_eq(wire_view(s->name), bytes_str(name)))
        return false;
    for (size_t i = 0; i < in->given_count; i++)
        if (bytes_eq(bytes_str(in->given[i].option->name), BYTES_LIT("tag")) &&
            !has_tag(s, bytes_str(in->given[i].value)))
            return false;
    return true;
}

static void put_time(struct table *t, const Google__Protobuf__Timestamp *ts)
{
    char text[USEC_TEXT_LEN] = "-";
    usec_t at;

    if (ts && wire_time_read(ts, &at))
        usec_format(at, text);
    table_cell(t, bytes_str(text));
}

static enum err show(struct listing *l, const OrchestrationState *s)
{
    l->shown++;
    if (l->in->json)
        return output_json(state_json(s), l->err);
    table_cell(&l->table, wire_view(s->instanceid));
    table_cell(&l->table, wire_view(s->name));
    table_cell(&l->table, bytes_str(status_name(s->orchestrationstatus)));
    put_time(&l->table, s->createdtimestamp);
    put_time(&l->table, s->completedtimestamp);
    return OK;
}

static enum err one_page(struct listing *l, bool *is_last)
{
    QueryInstancesRequest req = QUERY_INSTANCES_REQUEST__INIT;
    QueryInstancesResponse *resp;
    bool filters_here = invocation_has(l->in, "name") || invocation_has(l->in, "tag");
    uint64_t wanted = filters_here ? PAGE : MIN(l->limit - l->shown, (uint64_t)PAGE);

    req.query = &l->query;
    l->query.maxinstancecount = (int32_t)wanted;
    enum err e = session_call(l->in, DURABLE_TASK("QueryInstances"), &req.base, SESSION_TIMEOUT,
                              &query_instances_response__descriptor, &resp, l->err);
    for (size_t i = 0; !e && i < resp->n_orchestrationstate && l->shown < l->limit; i++)
        if (is_meant(l, resp->orchestrationstate[i]))
            e = show(l, resp->orchestrationstate[i]);
    if (e)
        return e;
    l->query.continuationtoken = resp->continuationtoken;
    *is_last = !resp->continuationtoken || l->shown == l->limit;
    return OK;
}

enum err run_list(struct invocation *in, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    struct listing l = {.in = in, .err = err};
    bool is_last = false;
    enum err e = read_query(&l);

    table_init(&l.table, ARRAY_LEN(HEADS));
    for (size_t i = 0; i < ARRAY_LEN(HEADS); i++)
        table_cell(&l.table, bytes_str(HEADS[i]));
    while (!e && !is_last)
        e = one_page(&l, &is_last);
    table_put(&l.table, &text);
    return e || in->json ? e : output_text(&text, err);
}
