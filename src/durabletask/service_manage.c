/* service_manage.c - calls about many instances: QueryInstances, ListInstanceIds, PurgeInstances and
 * SkipGracefulOrchestrationTerminations (spec 3.8-3.10, 3.17).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "durabletask/service_internal.h"
#include "wire/reader.h"
#include "wire/timestamp.h"
#include "wire/value.h"
#include "wire/writer.h"

#define BATCH_MAX 500
#define PURGE_PAGE 100 /* instances that a purge by filter looks up at a time */
#define DEADLINE_MARGIN                                                                            \
    (500 * USEC_PER_MSEC) /* before a call's deadline a purge answers what it has done */
#define STATUSES 8

/* ---- filters --------------------------------------------------------------------------------------------- */

static enum err read_time(const Google__Protobuf__Timestamp *t, const char *field, usec_t *out,
                          struct error *err)
{
    if (!t || wire_time_read(t, out))
        return OK;
    return error_set(err, ERR_INVALID, "%s is no time: seconds %lld, nanos %d", field,
                     (long long)t->seconds, t->nanos);
}

static enum err read_times(const Google__Protobuf__Timestamp *from, const char *from_field,
                           const Google__Protobuf__Timestamp *to, const char *to_field,
                           struct dt_filter *f, struct error *err)
{
    f->from = INT64_MIN;
    f->to = INT64_MAX;
    enum err rc = read_time(from, from_field, &f->from, err);
    return rc ? rc : read_time(to, to_field, &f->to, err);
}

/* An unknown status is one that no instance has. */
static uint32_t read_statuses(const OrchestrationStatus *statuses, size_t count)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++)
        bits |= statuses[i] >= 0 && (int)statuses[i] < STATUSES ? DT_STATUS_BIT(statuses[i])
                                                                : DT_STATUS_BIT(31);
    return bits;
}

static enum err read_size(const struct dt_service *svc, const char *field, int32_t asked,
                          size_t *out, struct error *err)
{
    if (asked < 0)
        return error_set(err, ERR_INVALID,
                         "%s is %d: give a positive number, or 0 for the server's own", field,
                         asked);
    size_t size = asked ? (size_t)asked : svc->settings->page_default;
    *out = MIN(size, svc->settings->page_max);
    return OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------- */

/* A place as text: the time, '|', the id. */
static enum err read_place(const Google__Protobuf__StringValue *text, const char *field,
                           struct dt_list *list, struct error *err)
{
    struct bytes b = wire_string(text);
    list->after_time = INT64_MIN;
    list->after_id = BYTES_LIT("");
    if (bytes_is_none(b) || b.len == 0)
        return OK;
    const uint8_t *bar = memchr(b.ptr, '|', b.len);
    struct error ignored;
    if (bar) {
        size_t len = (size_t)(bar - b.ptr);
        list->after_id = bytes_of(bar + 1, b.len - len - 1);
        if (b.ptr[0] != '+' && b.ptr[0] != '-' && list->after_id.len > 0 &&
            !usec_parse_time(bytes_of(b.ptr, len), 0, &list->after_time, &ignored))
            return OK;
    }
    return error_set(err, ERR_INVALID,
                     "%s '%.*s' is not one that this server gave: leave it unset to begin anew",
                     field, (int)MIN(b.len, (size_t)100), (const char *)b.ptr);
}

static struct bytes place_text(struct arena *a, const struct dt_listed *l, struct bytes id)
{
    char time[USEC_TEXT_LEN];
    struct strbuf out = {0};
    usec_format(l->time, time);
    strbuf_appendf(&out, "%s|", time);
    strbuf_append_bytes(&out, id);
    struct bytes copy = arena_dup(a, strbuf_bytes(&out));
    strbuf_deinit(&out);
    return copy;
}

/* The reply of DT_LIST in its parts. */
static struct dt_listed listed_of(const struct command *cmd, struct bytes *id, struct bytes *items)
{
    struct dt_listed l = {0};
    *id = *items = BYTES_LIT("");
    if (cmd->reply.len < sizeof(l)) /* an unknown hub */
        return l;
    memcpy(&l, cmd->reply.ptr, sizeof(l));
    *id = bytes_of(cmd->reply.ptr + sizeof(l), l.id_len);
    *items = bytes_of(cmd->reply.ptr + sizeof(l) + l.id_len, cmd->reply.len - sizeof(l) - l.id_len);
    return l;
}

/* Items as field 1, the place to go on behind as field 2 (a StringValue): the same in both answers. */
static void list_finished(struct dt_request *r)
{
    if (r->cmd.status) {
        rpc_call_fail(r->call, r->cmd.error);
        dt_request_free(r);
        return;
    }
    struct bytes id, items;
    struct dt_listed l = listed_of(&r->cmd, &id, &items);
    CLEANUP(strbuf_deinit) struct strbuf next = {0};
    if (l.has_more)
        wire_put_string_value(&next, 2, place_text(r->cmd.arena, &l, id));
    struct rpc_msg *msg = rpc_msg_new(items.len + next.len);
    if (items.len)
        memcpy(rpc_msg_data(msg), items.ptr, items.len);
    if (next.len)
        memcpy(rpc_msg_data(msg) + items.len, next.ptr, next.len);
    rpc_call_reply(r->call, msg);
    dt_request_free(r);
}

static void submit_list(struct dt_request *r, struct dt_list *list)
{
    r->cmd.request = list;
    r->finish = list_finished;
    r->svc->host.read(r->svc->host.arg, &r->cmd);
}

static bool names_hub(const InstanceQuery *q, struct bytes hub)
{
    for (size_t i = 0; i < q->n_taskhubnames; i++)
        if (bytes_eq_nocase(wire_string(q->taskhubnames[i]), hub))
            return true;
    return q->n_taskhubnames == 0;
}

static enum err read_query(const struct dt_service *svc, const InstanceQuery *q,
                           struct dt_list *list, struct error *err)
{
    struct dt_filter *f = &list->filter;
    enum err rc;
    f->statuses = read_statuses(q->runtimestatus, q->n_runtimestatus);
    f->prefix = wire_string(q->instanceidprefix);
    list->of = q->fetchinputsandoutputs ? DT_LIST_PAYLOADS : DT_LIST_STATES;
    if ((rc = read_times(q->createdtimefrom, "createdTimeFrom", q->createdtimeto, "createdTimeTo",
                         f, err)) ||
        (rc = read_size(svc, "maxInstanceCount", q->maxinstancecount, &list->count_max, err)))
        return rc;
    return read_place(q->continuationtoken, "continuationToken", list, err);
}

void dt_query_instances(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    static const InstanceQuery EVERYTHING = INSTANCE_QUERY__INIT;
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_LIST);
    QueryInstancesRequest *req;
    struct error err = {0};
    if (!r || !dt_decode(r, &query_instances_request__descriptor, msg, &req))
        return;
    const InstanceQuery *q = req->query ? req->query : &EVERYTHING;
    struct dt_list *list = arena_new(arena, struct dt_list);
    *list = (struct dt_list){0};
    if (read_query(service, q, list, &err)) {
        dt_refuse(r, &err);
    } else if (!names_hub(q, r->cmd.hub)) {
        list_finished(r); /* nothing of this hub is asked for */
    } else {
        submit_list(r, list);
    }
}

void dt_list_instance_ids(struct rpc_call *call, void *service, struct arena *arena,
                          struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_LIST);
    ListInstanceIdsRequest *req;
    struct error err = {0};
    if (!r || !dt_decode(r, &list_instance_ids_request__descriptor, msg, &req))
        return;
    struct dt_list *list = arena_new(arena, struct dt_list);
    *list = (struct dt_list){.of = DT_LIST_IDS, .by_completed = true};
    list->filter.statuses = read_statuses(req->runtimestatus, req->n_runtimestatus);
    list->filter.ended = true;
    if (read_times(req->completedtimefrom, "completedTimeFrom", req->completedtimeto,
                   "completedTimeTo", &list->filter, &err) ||
        read_size(service, "pageSize", req->pagesize, &list->count_max, &err) ||
        read_place(req->lastinstancekey, "lastInstanceKey", list, &err))
        dt_refuse(r, &err);
    else
        submit_list(r, list);
}

/* ---- PurgeInstances ------------------------------------------------------------------------------------------ */

/* One call, over as many steps as it takes: of what it names, or page by page of what its filter finds. */
struct purging {
    struct dt_service *svc;
    struct rpc_call *call;
    struct arena *arena;        /* of the call's message */
    struct dt_request *waiting; /* the step that runs */
    struct dt_purge req;
    bool by_filter;
    struct dt_filter filter;
    struct dt_listed place; /* of the last page that was looked up */
    struct strbuf place_id;
    struct arena *page; /* of its ids */
    usec_t give_up;     /* monotonic */
    uint64_t deleted;
};

static void purging_free(struct purging *p)
{
    rpc_call_unref(p->call);
    arena_free(p->arena);
    arena_free(p->page);
    strbuf_deinit(&p->place_id);
    free(p);
}

static void purge_answer(struct purging *p, bool is_complete)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    if (p->deleted > 0)
        wire_put_int(&out, 1, (int64_t)MIN(p->deleted, (uint64_t)INT32_MAX));
    size_t complete = wire_put_begin(&out, 2); /* a BoolValue, always there */
    if (is_complete)
        wire_put_bool(&out, 1, true);
    wire_put_end(&out, complete);
    struct rpc_msg *msg = rpc_msg_new(out.len);
    memcpy(rpc_msg_data(msg), out.ptr, out.len);
    rpc_call_set_context(p->call, NULL);
    rpc_call_reply(p->call, msg);
    purging_free(p);
}

/* The outcome of a step. False: there is nothing more to do. */
static bool step_came(struct purging *p, struct dt_request *r)
{
    p->waiting = NULL;
    if (!rpc_call_is_open(p->call)) {
        purging_free(p);
        return false;
    }
    if (!r->cmd.status)
        return true;
    rpc_call_set_context(p->call, NULL);
    rpc_call_fail(p->call, r->cmd.error);
    purging_free(p);
    return false;
}

static struct dt_request *purge_step(struct purging *p, enum dt_command type,
                                     void (*finish)(struct dt_request *r))
{
    struct dt_request *r = dt_request_new(p->svc, p->call, arena_create(), 0, type);
    ASSERT(r); /* the hub was fine before */
    r->finish = finish;
    r->extra = p;
    p->waiting = r;
    return r;
}

static void purge_next(struct purging *p);

static void ids_purged(struct dt_request *r)
{
    struct purging *p = r->extra;
    if (step_came(p, r)) { /* PurgeInstancesResponse */
        struct bytes reply = strbuf_bytes(&r->cmd.reply);
        p->deleted += wire_varint_find(reply, 1);
        if (wire_varint_find(wire_bytes_find(reply, 2), 1))
            p->req.count = 0;
        purge_next(p);
    }
    dt_request_free(r);
}

static bool one_id(struct purging *p, struct bytes *rest)
{
    struct wire_reader reader = wire_reader_of(*rest);
    struct wire_field f;
    if (!wire_next(&reader, &f))
        return false;
    ((struct bytes *)(uintptr_t)p->req.ids)[p->req.count++] = arena_dup(p->page, f.bytes);
    *rest = bytes_of(rest->ptr + f.raw.len, rest->len - f.raw.len);
    return true;
}

static void page_looked_up(struct dt_request *r)
{
    struct purging *p = r->extra;
    struct bytes id, items;
    if (step_came(p, r)) {
        p->place = listed_of(&r->cmd, &id, &items);
        strbuf_reset(&p->place_id);
        strbuf_append_bytes(&p->place_id, id);
        arena_reset(p->page);
        p->req.ids = arena_array(p->page, struct bytes, p->place.count + 1);
        p->req.count = 0;
        while (one_id(p, &items))
            ;
        purge_next(p);
    }
    dt_request_free(r);
}

static void look_up(struct purging *p)
{
    struct dt_request *r = purge_step(p, DT_LIST, page_looked_up);
    struct dt_list *list = arena_new(r->cmd.arena, struct dt_list);
    *list = (struct dt_list){
        .filter = p->filter,
        .of = DT_LIST_IDS,
        .count_max = PURGE_PAGE,
        .after_time = p->place.time,
        .after_id = arena_dup(r->cmd.arena, strbuf_bytes(&p->place_id)),
    };
    r->cmd.request = list;
    p->svc->host.read(p->svc->host.arg, &r->cmd);
}

static void purge_next(struct purging *p)
{
    bool is_late = p->by_filter && p->deleted > 0 &&
                   (p->deleted >= p->svc->settings->purge_per_call ||
                    clock_monotonic(p->svc->host.clock) >= p->give_up);
    if (is_late) {
        purge_answer(p, p->req.count == 0 && !p->place.has_more);
    } else if (p->req.count > 0) {
        struct dt_request *r = purge_step(p, DT_PURGE, ids_purged);
        r->cmd.request = &p->req;
        dt_request_submit(r);
    } else if (p->by_filter && p->place.has_more) {
        look_up(p);
    } else {
        purge_answer(p, true);
    }
}

static enum err read_filter(struct purging *p, const PurgeInstanceFilter *f, struct error *err)
{
    usec_t timeout = USEC_NEVER;
    p->by_filter = true;
    p->filter.statuses = read_statuses(f->runtimestatus, f->n_runtimestatus);
    p->filter.ended = true;
    p->filter.prefix = BYTES_LIT("");
    p->req.filter = &p->filter;
    p->place = (struct dt_listed){.has_more = true, .time = INT64_MIN};
    if (f->timeout && (!wire_duration_read(f->timeout, &timeout) || timeout <= 0))
        return error_set(err, ERR_INVALID,
                         "timeout is %lld s and %d ns: give a positive one, or none",
                         (long long)f->timeout->seconds, f->timeout->nanos);
    usec_t deadline = rpc_call_deadline(p->call);
    usec_t now = clock_monotonic(p->svc->host.clock);
    p->give_up = usec_add(now, timeout);
    if (deadline != USEC_NEVER)
        p->give_up = MIN(p->give_up, deadline - DEADLINE_MARGIN);
    return read_times(f->createdtimefrom, "createdTimeFrom", f->createdtimeto, "createdTimeTo",
                      &p->filter, err);
}

static enum err check_batch(const InstanceBatch *batch, struct error *err)
{
    if (batch && batch->n_instanceids <= BATCH_MAX)
        return OK;
    return error_set(err, ERR_INVALID, "A batch must not have more than %d instance ids",
                     BATCH_MAX);
}

static enum err read_purge(struct purging *p, const PurgeInstancesRequest *req, struct error *err)
{
    const struct dt_host *host = &p->svc->host;
    struct bytes *ids;
    enum err rc;
    p->req.recursive = req->recursive;
    switch (req->request_case) {
    case PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID:
        ids = arena_new(p->arena, struct bytes);
        *ids = wire_view(req->instanceid);
        p->req.ids = ids;
        p->req.count = 1;
        return dt_check_id(*ids, p->svc->settings->id_action_chars, err);
    case PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_BATCH:
        if ((rc = check_batch(req->instancebatch, err)))
            return rc;
        ids = arena_array(p->arena, struct bytes, req->instancebatch->n_instanceids + 1);
        for (size_t i = 0; i < req->instancebatch->n_instanceids; i++)
            ids[i] = wire_view(req->instancebatch->instanceids[i]);
        p->req.ids = ids;
        p->req.count = req->instancebatch->n_instanceids;
        return OK;
    case PURGE_INSTANCES_REQUEST__REQUEST_PURGE_INSTANCE_FILTER:
        rc = host->may_administer ? host->may_administer(host->arg, p->call, err) : OK;
        return rc ? rc : read_filter(p, req->purgeinstancefilter, err);
    default:
        return error_set(
            err, ERR_INVALID,
            "PurgeInstances needs one of instanceId, purgeInstanceFilter and instanceBatch");
    }
}

void dt_purge_instances(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct purging *p = calloc(1, sizeof(*p));
    PurgeInstancesRequest *req;
    struct error err = {0};
    struct bytes hub;
    ASSERT(p);
    p->svc = service;
    p->call = rpc_call_ref(call);
    p->arena = arena;
    p->page = arena_create();
    if (dt_hub_of(call, arena, &hub, &err) ||
        wire_unpack(&purge_instances_request__descriptor, arena, msg, &WIRE_LIMITS, &req, &err) ||
        read_purge(p, req, &err)) {
        rpc_call_fail(call, &err);
        purging_free(p);
        return;
    }
    rpc_call_set_context(call, p);
    purge_next(p);
}

void dt_purge_closed(struct rpc_call *call, void *service)
{
    struct purging *p = rpc_call_context(call);
    (void)service;
    rpc_call_set_context(call, NULL);
    if (p && !p->waiting)
        purging_free(p); /* else when the step comes back */
}

/* ---- SkipGracefulOrchestrationTerminations ---------------------------------------------------------------------- */

void dt_skip_graceful(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct dt_request *r = dt_request_new(service, call, arena, msg.len, DT_SKIP_GRACEFUL);
    SkipGracefulOrchestrationTerminationsRequest *req;
    struct error err = {0};
    if (!r ||
        !dt_decode(r, &skip_graceful_orchestration_terminations_request__descriptor, msg, &req))
        return;
    if (!req->instancebatch || req->instancebatch->n_instanceids == 0)
        error_set(&err, ERR_INVALID, "instanceBatch has no instance ids: give 1 to %d", BATCH_MAX);
    if (err.code || check_batch(req->instancebatch, &err)) {
        dt_refuse(r, &err);
        return;
    }
    r->cmd.request = req;
    dt_request_submit(r);
}
