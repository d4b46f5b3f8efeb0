/* suspend.c - `perdure suspend ID` and `perdure resume ID`. */
#include "cli/outcome.h"
#include "wire/wire.h"

const struct option SUSPEND_OPTIONS[] = {
    {"reason", "TEXT", "kept in the history", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static struct bytes reason(const struct invocation *in)
{
    return bytes_str(invocation_value(in, "reason"));
}

static enum err look(struct invocation *in, bool *is_suspended, struct error *err)
{
    OrchestrationState *state;
    enum err e;

    if ((e = session_look_up(in, in->args[0], false, &state, err)) ||
        (e = refuse_ended(state, in->args[0], err)))
        return e;
    *is_suspended =
        state->orchestrationstatus == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_SUSPENDED;
    return OK;
}

enum err run_suspend(struct invocation *in, struct error *err)
{
    SuspendRequest req = SUSPEND_REQUEST__INIT;
    bool is_suspended;
    enum err e = look(in, &is_suspended, err);

    if (e)
        return e;
    if (is_suspended)
        return outcome_print(in, in->args[0], "unchanged", "is suspended already", err);
    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.reason = wire_string_value(in->arena, reason(in));
    if ((e = session_call(in, DURABLE_TASK("SuspendInstance"), &req.base, SESSION_TIMEOUT, NULL,
                          NULL, err)))
        return e;
    return outcome_print(in, in->args[0], "suspended", "suspended", err);
}

enum err run_resume(struct invocation *in, struct error *err)
{
    ResumeRequest req = RESUME_REQUEST__INIT;
    bool is_suspended;
    enum err e = look(in, &is_suspended, err);

    if (e)
        return e;
    if (!is_suspended)
        return outcome_print(in, in->args[0], "unchanged", "is not suspended", err);
    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.reason = wire_string_value(in->arena, reason(in));
    if ((e = session_call(in, DURABLE_TASK("ResumeInstance"), &req.base, SESSION_TIMEOUT, NULL,
                          NULL, err)))
        return e;
    return outcome_print(in, in->args[0], "resumed", "resumed", err);
}
