/* reader.h - a thread with a store connection of its own, for reads that scan: they neither wait for the executor nor hold it up.
 *
 * Each command is one short read. A store without such connections (`memory`) has no reader: read through the executor.
 */
#pragma once

#include "engine/command.h"
#include "store/store.h"

struct reader;

/* *out is NULL where the store has no reader connections. */
MUST_CHECK enum err reader_new(struct store *store, const struct settings *settings,
                               struct reader **out, struct error *err);
/* Answers what is queued with UNAVAILABLE; before the store is closed. NULL is fine. */
void reader_free(struct reader *r);
/* Any thread: steps the kind's command with a reader only (no engine, no transaction); it comes back through done(), on the reader's thread. */
void reader_post(struct reader *r, struct command *cmd);
