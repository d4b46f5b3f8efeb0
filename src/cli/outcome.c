#include "cli/outcome.h"

#include "cli/state.h"
#include "cli/text.h"

enum err outcome_print(const struct invocation *in, const char *id, const char *word,
                       const char *text, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};

    if (in->json)
        return output_json(json_pack("{s:s, s:s}", "instanceId", id, "result", word), err);
    put_clean(&line, bytes_str(id), 0);
    strbuf_appendf(&line, ": %s\n", text);
    return output_text(&line, err);
}

enum err refuse_ended(const OrchestrationState *state, const char *id, struct error *err)
{
    if (!status_is_terminal(state->orchestrationstatus))
        return OK;
    return error_set(err, ERR_STATE, "instance \"%s\" has ended (%s)", id,
                     status_name(state->orchestrationstatus));
}
