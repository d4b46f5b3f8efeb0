/* purge.c - `perdure purge ID`: removes an ended instance with its history. */
#include "cli/outcome.h"
#include "cli/state.h"
#include "wire/wire.h"

#define FILTERS_LATER "purging by a filter comes with a later version; give an ID"

const struct option PURGE_OPTIONS[] = {
    {"recursive", NULL, NULL,
     "removing sub-orchestrations along comes with a later version; purge each by its ID", false},
    {"status", "S", NULL, FILTERS_LATER, false},
    {"before", "T", NULL, FILTERS_LATER, false},
    {NULL, NULL, NULL, NULL, false},
};

static enum err refuse_unended(const OrchestrationState *state, const char *id, struct error *err)
{
    if (status_is_terminal(state->orchestrationstatus))
        return OK;
    return error_set(err, ERR_STATE,
                     "instance \"%s\" has not ended (%s); only ended ones are purged: terminate it "
                     "first",
                     id, status_name(state->orchestrationstatus));
}

enum err run_purge(struct invocation *in, struct error *err)
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
    if ((e = session_call(in, DURABLE_TASK("PurgeInstances"), &req.base, SESSION_TIMEOUT,
                          &purge_instances_response__descriptor, &resp, err)))
        return e;
    if (resp->deletedinstancecount == 0) /* somebody was here between the two calls */
        return error_set(err, ERR_CONFLICT,
                         "instance \"%s\" was removed or replaced meanwhile; nothing was purged",
                         id);
    return outcome_print(in, id, "purged", "purged", err);
}
