/* pick.h - finds out whose completion it is, from a message that is not kept.
 *
 * For a completion too large to hold (spec 5.3): its bytes are skipped as they come, and only the
 * ids and the token among its own fields are copied out. It also serves a completion that does not
 * decode, as far as it is well-formed. Memory is bounded: this struct.
 * Tests: tests/unit/test_wire_pick.c
 */
#pragma once

#include "base/bytes.h"

#define WIRE_PICK_INSTANCE_MAX 4096 /* bytes: 1024 characters (spec 1.4) */
#define WIRE_PICK_TOKEN_MAX 256     /* spec 8.2 */

enum wire_pick_kind {
    WIRE_PICK_ORCHESTRATOR, /* OrchestratorResponse */
    WIRE_PICK_ACTIVITY,     /* ActivityResponse */
    WIRE_PICK_ENTITY,       /* EntityBatchResult: a token only */
};

struct wire_pick_text {
    uint8_t *at;
    size_t cap, len;
    bool is_found; /* whole, and not too long */
};

struct wire_pick {
    struct wire_pick_text instance, token;
    bool has_task;
    int32_t task;
    bool is_bad; /* malformed: nothing more will be found */

    enum wire_pick_kind kind;
    enum wire_pick_phase {
        WIRE_PICK_TAG,
        WIRE_PICK_NUMBER,
        WIRE_PICK_LENGTH,
        WIRE_PICK_CONTENT
    } phase;
    uint64_t varint; /* being read */
    unsigned varint_bytes;
    uint64_t left;               /* bytes of the value still to come */
    struct wire_pick_text *into; /* NULL: skip */
    uint32_t number;
    unsigned group_depth;
    uint8_t instance_bytes[WIRE_PICK_INSTANCE_MAX];
    uint8_t token_bytes[WIRE_PICK_TOKEN_MAX];
};

/* The struct points into itself: do not copy it. */
void wire_pick_init(struct wire_pick *p, enum wire_pick_kind kind);
/* The next piece of the message, however it is cut. */
void wire_pick_feed(struct wire_pick *p, struct bytes piece);
/* What was found so far; none when it was not reached (a proto3 field that is empty never is) or is
 * longer than such an id or token can be. */
struct bytes wire_pick_instance(const struct wire_pick *p);
struct bytes wire_pick_token(const struct wire_pick *p);
