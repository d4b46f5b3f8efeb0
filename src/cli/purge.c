/* purge.c - `perdure purge`: removes ended instances with their histories, one or all that a filter finds. */
#include <inttypes.h>

#include "cli/outcome.h"
#include "cli/state.h"
#include "cli/text.h"
#include "wire/wire.h"

#define CALL_TIME (60 * USEC_PER_SEC) /* one of the calls of a purge by filter */

const struct option PURGE_OPTIONS[] = {
    {"status", "S", "instead of an ID: all that ended with this status; repeatable", NULL, true},
    {"before", "T", "instead of an ID: all that ended, and were created before this", NULL, false},
    {"recursive", NULL, "their sub-orchestrations that have ended too", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

/* ---- by filter --------------------------------------------------------------------------------- */

static enum err print_count(const struct invocation *in, uint64_t count, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};

    if (in->json)
        return output_json(json_pack("{s:I}", "deletedInstanceCount", (json_int_t)count), err);
    strbuf_appendf(&line, "%" PRIu64 " purged\n", count);
    return output_text(&line, err);
}

static enum err purge_by_filter(struct invocation *in, struct error *err)
{
    PurgeInstancesRequest req = PURGE_INSTANCES_REQUEST__INIT;
    PurgeInstanceFilter filter = PURGE_INSTANCE_FILTER__INIT;
    PurgeInstancesResponse *resp;
    uint64_t count = 0;
    bool is_complete = false;
    enum err e;

    if ((e = statuses_read(in, &filter.runtimestatus, &filter.n_runtimestatus, err)) ||
        (e = option_time(in, "before", &filter.createdtimeto, err)))
        return e;
    req.request_case = PURGE_INSTANCES_REQUEST__REQUEST_PURGE_INSTANCE_FILTER;
    req.purgeinstancefilter = &filter;
    req.recursive = invocation_has(in, "recursive");
    while (!is_complete) {
        if ((e = session_call(in, DURABLE_TASK("PurgeInstances"), &req.base, CALL_TIME,
                              &purge_instances_response__descriptor, &resp, err)))
            return e;
        count += (uint64_t)resp->deletedinstancecount;
        is_complete = !resp->iscomplete || resp->iscomplete->value;
    }
    return print_count(in, count, err);
}

/* ---- by id ------------------------------------------------------------------------------------- */

static enum err refuse_unended(const OrchestrationState *state, const char *id, struct error *err)
{
    if (status_is_terminal(state->orchestrationstatus))
        return OK;
    return error_set(err, ERR_STATE,
                     "instance \"%s\" has not ended (%s); only ended ones are purged: terminate it "
                     "first",
                     id, status_name(state->orchestrationstatus));
}

static enum err purge_by_id(struct invocation *in, struct error *err)
{
    PurgeInstancesRequest req = PURGE_INSTANCES_REQUEST__INIT;
    PurgeInstancesResponse *resp;
    const char *id = in->args[0];
    OrchestrationState *state;
    enum err e;

    if ((e = session_look_up(in, id, false, &state, err)) || (e = refuse_unended(state, id, err)))
        return e;
    req.request_case = PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID;
    req.instanceid = wire_data(bytes_str(id));
    req.isorchestration = true;
    req.recursive = invocation_has(in, "recursive");
    if ((e = session_call(in, DURABLE_TASK("PurgeInstances"), &req.base, SESSION_TIMEOUT,
                          &purge_instances_response__descriptor, &resp, err)))
        return e;
    if (resp->deletedinstancecount == 0) /* somebody was here between the two calls */
        return error_set(err, ERR_CONFLICT,
                         "instance \"%s\" was removed or replaced meanwhile; nothing was purged",
                         id);
    return outcome_print(in, id, "purged", "purged", err);
}

enum err run_purge(struct invocation *in, struct error *err)
{
    bool filters = invocation_has(in, "status") || invocation_has(in, "before");

    if (filters == (in->arg_count > 0))
        return error_set(err, ERR_INVALID,
                         filters
                             ? "give an ID, or --status and --before, not both"
                             : "an ID is missing, or --status or --before; see perdure help purge");
    return filters ? purge_by_filter(in, err) : purge_by_id(in, err);
}
