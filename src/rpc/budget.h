/* budget.h - room for requests over all connections of a server: those that have not wholly arrived, those without an answer.
 *
 * Room is claimed by the gRPC length prefix. Claims that do not fit wait, in order of arrival, and
 * nobody overtakes them. Thread-safe: connections of several threads share one budget.
 * Tests: tests/unit/test_rpc_text.c
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/list.h"

enum claim_state { CLAIM_NONE, CLAIM_WAITING, CLAIM_GRANTED };

struct budget {
    pthread_mutex_t lock;
    uint64_t limit, used, held; /* bytes */
    struct list waiting;        /* of struct budget_claim, oldest first */
};

/* Embedded in the call; zero-initialised it is CLAIM_NONE. */
struct budget_claim {
    struct list_node node;
    struct budget *budget; /* of the claim; unless CLAIM_NONE */
    uint64_t bytes;
    _Atomic(enum claim_state) state; /* written under the lock, looked at by its owner without */
    void (*wake)(void *arg);         /* may be NULL; runs under the lock, from any thread */
    void *arg;
};

void budget_init(struct budget *b, uint64_t limit);
void budget_deinit(struct budget *b);
/* Claims room; CLAIM_GRANTED at once, or CLAIM_WAITING: then `wake` runs when it is granted. A claim
 * beyond the whole limit is granted when nothing else is. */
enum claim_state budget_claim(struct budget *b, struct budget_claim *c, uint64_t bytes);
/* Takes room without asking (bytes that are in memory already, and soon answered). */
void budget_force(struct budget *b, struct budget_claim *c, uint64_t bytes);
/* The same for bytes that may stay. False: that would be more than twice the limit, and others have room too; nothing was
 * taken. */
bool budget_take(struct budget *b, struct budget_claim *c, uint64_t bytes);
/* Takes `more` for a claim that was granted (others: true, and nothing is done). False: as for budget_take(). */
bool budget_grow(struct budget_claim *c, uint64_t more);
enum claim_state budget_state(const struct budget_claim *c);
/* Gives the room back, or leaves the queue. Harmless for CLAIM_NONE. */
void budget_release(struct budget_claim *c);
/* Bytes of waiting requests that came within their first window. False: over the limit; nothing was added. */
bool budget_hold(struct budget *b, uint64_t bytes);
void budget_unhold(struct budget *b, uint64_t bytes);
