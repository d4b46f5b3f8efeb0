/* restart.c - `perdure restart ID`: begins an instance anew, with the input it had. */
#include "cli/outcome.h"
#include "cli/text.h"
#include "wire/wire.h"

const struct option RESTART_OPTIONS[] = {
    {"new-id", NULL, "under a new id, which is printed; the old one stays as it is", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

enum err run_restart(struct invocation *in, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};
    RestartInstanceRequest req = RESTART_INSTANCE_REQUEST__INIT;
    RestartInstanceResponse *resp;

    req.instanceid = wire_data(bytes_str(in->args[0]));
    req.restartwithnewinstanceid = invocation_has(in, "new-id");
    enum err e = session_call(in, DURABLE_TASK("RestartInstance"), &req.base, SESSION_TIMEOUT,
                              &restart_instance_response__descriptor, &resp, err);
    if (e)
        return e;
    struct bytes id = wire_view(resp->instanceid);
    if (in->json)
        return output_json(json_pack("{s:s%}", "instanceId", id.ptr, id.len), err);
    put_clean(&line, id, 0);
    strbuf_append_char(&line, '\n');
    return output_text(&line, err);
}
