/* raise.c - `perdure raise ID EVENT [DATA]`: sends an external event. */
#include "cli/outcome.h"
#include "cli/payload.h"
#include "wire/wire.h"

enum err run_raise(struct invocation *in, struct error *err)
{
    RaiseEventRequest req = RAISE_EVENT_REQUEST__INIT;
    struct bytes data = BYTES_NONE;
    enum err e;

    if (in->arg_count > 2 && (e = payload_read(in, "the event's data", in->args[2], &data, err)))
        return e;
    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.name = wire_data(bytes_str(in->args[1]));
    req.input = wire_string_value(in->arena, data);
    if ((e = session_call(in, DURABLE_TASK("RaiseEvent"), &req.base, SESSION_TIMEOUT, NULL, NULL,
                          err)))
        return e;
    return outcome_print(in, in->args[0], "raised", "event raised", err);
}
