/* wait.c - `perdure wait ID`: until it has ended, or started; also for an id that does not exist yet. */
#include "cli/session.h"
#include "cli/state.h"
#include "wire/wire.h"

const struct option WAIT_OPTIONS[] = {
    {"timeout", "D", "no longer than this (500ms, 2s, 5m, 1h); then exit 6", NULL, false},
    {"for", "start|completion", "what to wait for (completion)", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static enum err read_goal(const struct invocation *in, bool *is_start, struct error *err)
{
    struct bytes goal = bytes_str(invocation_value(in, "for"));

    *is_start = bytes_eq(goal, BYTES_LIT("start"));
    if (*is_start || bytes_is_none(goal) || bytes_eq(goal, BYTES_LIT("completion")))
        return OK;
    return error_set(err, ERR_INVALID, "--for: \"%.*s\" is neither start nor completion",
                     BYTES_FMT(goal));
}

enum err run_wait(struct invocation *in, struct error *err)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
    GetInstanceResponse *resp;
    usec_t timeout = SESSION_FOREVER;
    bool is_start;
    enum err e;

    if ((e = invocation_duration(in, "timeout", &timeout, err)) ||
        (e = read_goal(in, &is_start, err)))
        return e;
    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.getinputsandoutputs = true;
    e = session_call(in,
                     is_start ? DURABLE_TASK("WaitForInstanceStart")
                              : DURABLE_TASK("WaitForInstanceCompletion"),
                     &req.base, timeout, &get_instance_response__descriptor, &resp, err);
    if (e)
        return e;
    if (!resp->exists || !resp->orchestrationstate)
        return session_not_found(in, in->args[0], err);
    return is_start ? state_print(in, resp->orchestrationstate, err)
                    : state_conclude(in, resp->orchestrationstate, err);
}
