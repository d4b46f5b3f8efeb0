/* get.c - `perdure get ID`: the state of an instance, now. */
#include "cli/session.h"
#include "cli/state.h"

enum err run_get(struct invocation *in, struct error *err)
{
    OrchestrationState *state;
    enum err e = session_look_up(in, in->args[0], true, &state, err);

    return e ? e : state_print(in, state, err);
}
