#include "engine/command.h"

#include <stdlib.h>

#include "base/assert.h"

struct error *command_error(struct command *cmd)
{
    if (!cmd->error) {
        cmd->error = calloc(1, sizeof(*cmd->error));
        ASSERT(cmd->error);
    }
    return cmd->error;
}

void command_deinit(struct command *cmd)
{
    free(cmd->error);
    cmd->error = NULL;
    strbuf_deinit(&cmd->reply);
    arena_free(cmd->arena);
    cmd->arena = NULL;
}
