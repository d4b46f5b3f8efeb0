/* command.h - one request to the engine, with everything that comes from outside.
 *
 * A command is made by a front end on any thread, given to engine_submit() on the engine's thread, stepped in a
 * batch, and comes back through done() after the batch's commit: never before what it did is durable. The
 * same state and the same command give the same effects; so a batch that has to be undone is simply stepped again.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/time.h"

struct command;
struct engine;
struct object_kind;

/* The work item that a completion settles or an abandon gives back; kind 0: none. */
struct item_ref {
    uint8_t kind; /* WORK_TURN, WORK_TASK */
    uint64_t key;
    uint64_t nonce;
};

enum command_flags {
    COMMAND_ADDS_WORK = 1, /* refused early under overload (spec 8.6) */
};

struct command {
    struct command *next; /* the queue's */

    /* What: either a kind's command, or a control command (no transaction, no object). */
    const struct object_kind *kind;
    int32_t type; /* the kind's own numbering */
    void (*control)(struct engine *e,
                    struct command *cmd); /* runs after the batch's commit; takes the command */

    /* Whom: a hub and id, or an object's key. */
    struct bytes hub, id;
    uint64_t object;

    const void *request; /* the kind's, in `arena` */
    struct arena *arena; /* owns request, hub and id; done() frees it with the command */
    size_t bytes;        /* memory it holds, for the overload limit */
    uint32_t flags;
    struct item_ref item; /* given back with backoff when the command fails (spec 8.5) */
    uint64_t connection;  /* it came in on; 0: internal */
    usec_t deadline;      /* monotonic; USEC_NEVER: none */

    /* Set by the engine before the step: wall clock of the batch, fresh random bits. */
    usec_t now;
    uint64_t fresh[4];

    /* Outcome: status OK and `reply` (encoded answer), or an error. */
    enum err status;
    struct error *error; /* of a failure; command_error() */
    struct strbuf reply;
    bool
        settled_with_error; /* the step committed on purpose although it answers an error (spec 4.5) */
    uint8_t tokenless;      /* engine: 0 undecided, 1 settles, 2 does not */
    bool waiting;           /* the step left the answer to a waiter */
    bool break_counted;     /* engine: step_breaks() counted it */

    void (*done)(struct command *cmd); /* on the engine's thread; takes the command */
    void *context;                     /* the caller's */
};

/* Room for the command's error, made when it is first needed: most commands succeed, and a hundred thousand waits would hold one
 * each. Freed by command_deinit(). */
struct error *command_error(struct command *cmd);
/* Frees error, reply and arena. */
void command_deinit(struct command *cmd);
