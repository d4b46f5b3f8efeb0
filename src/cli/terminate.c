/* terminate.c - `perdure terminate ID`: asks an instance to end. */
#include "cli/outcome.h"
#include "cli/payload.h"
#include "wire/wire.h"

const struct option TERMINATE_OPTIONS[] = {
    {"recursive", NULL, "its sub-orchestrations too", NULL, false},
    {"output", "JSON|@FILE|-", "what becomes its output", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

enum err run_terminate(struct invocation *in, struct error *err)
{
    TerminateRequest req = TERMINATE_REQUEST__INIT;
    const char *output = invocation_value(in, "output");
    struct bytes payload = BYTES_NONE;
    OrchestrationState *state;
    enum err e;

    if ((output && (e = payload_read(in, "--output", output, &payload, err))) ||
        (e = session_look_up(in, in->args[0], false, &state, err)) ||
        (e = refuse_ended(state, in->args[0], err)))
        return e;
    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.output = wire_string_value(in->arena, payload);
    req.recursive = invocation_has(in, "recursive");
    if ((e = session_call(in, DURABLE_TASK("TerminateInstance"), &req.base, SESSION_TIMEOUT, NULL,
                          NULL, err)))
        return e;
    return outcome_print(in, in->args[0], "terminating", "termination asked for", err);
}
