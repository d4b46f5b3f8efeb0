/* wait.c - `perdure wait ID`: until it has ended, or started; also for an id that does not exist yet. */
#include "cli/session.h"
#include "cli/state.h"

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
    OrchestrationState *state;
    usec_t timeout = SESSION_FOREVER;
    bool is_start;
    enum err e;

    if ((e = invocation_duration(in, "timeout", &timeout, err)) ||
        (e = read_goal(in, &is_start, err)) ||
        (e = session_wait(in, in->args[0], is_start, timeout, &state, err)))
        return e;
    return is_start ? state_print(in, state, err) : state_conclude(in, state, err);
}
