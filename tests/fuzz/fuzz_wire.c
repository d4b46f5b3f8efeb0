/* fuzz_wire.c - what a peer may send as a message, through every reader of it.
 *
 * The first byte chooses the message type (and the pieces for pick.h), the rest is the message. What
 * decodes must encode, decode again and encode to the same bytes.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "durabletask.pb-c.h"
#include "durabletask/events.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

static const struct wire_limits LIMITS = {.depth = 100, .elements = 20000, .bytes = MIB(4)};

static const ProtobufCMessageDescriptor *const TYPES[] = {
    &orchestrator_response__descriptor,
    &activity_response__descriptor,
    &entity_batch_result__descriptor,
    &create_instance_request__descriptor,
    &get_work_items_request__descriptor,
    &purge_instances_request__descriptor,
    &query_instances_request__descriptor,
    &history_event__descriptor,
    &task_failure_details__descriptor,
    &google__protobuf__value__descriptor,
    &work_item__descriptor,
    &perdure__v1__status_response__descriptor,
};

static void decode(const ProtobufCMessageDescriptor *desc, struct bytes in)
{
    struct arena *a = arena_create();
    CLEANUP(strbuf_deinit) struct strbuf first = {0}, second = {0};
    ProtobufCMessage *msg, *again;
    struct error err;

    if (wire_unpack(desc, a, in, &LIMITS, &msg, &err) == OK) {
        wire_pack_into(msg, &first);
        enum err e =
            wire_unpack(desc, a, strbuf_bytes(&first), &WIRE_LIMITS_COMPLETION, &again, &err);
        ASSERT(e == OK);
        wire_pack_into(again, &second);
        ASSERT(bytes_eq(strbuf_bytes(&first), strbuf_bytes(&second)));
        if (desc == &task_failure_details__descriptor)
            (void)wire_failure_cut((TaskFailureDetails *)(void *)msg, 5);
    }
    arena_free(a);
}

static void pick(enum wire_pick_kind kind, struct bytes in, size_t piece)
{
    static struct wire_pick whole, cut;

    wire_pick_init(&whole, kind);
    wire_pick_feed(&whole, in);
    wire_pick_init(&cut, kind);
    for (size_t at = 0; at < in.len; at += piece)
        wire_pick_feed(&cut, bytes_of(in.ptr + at, MIN(piece, in.len - at)));
    ASSERT(whole.is_bad == cut.is_bad && whole.has_task == cut.has_task);
    ASSERT(bytes_eq(wire_pick_token(&whole), wire_pick_token(&cut)));
    ASSERT(bytes_eq(wire_pick_instance(&whole), wire_pick_instance(&cut)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct wire_field f;
    struct event_head head;

    if (len == 0)
        return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    struct wire_reader r = wire_reader_of(in);
    while (wire_next(&r, &f))
        ASSERT(f.raw.len > 0);
    ASSERT(r.is_bad || r.pos == r.end);
    decode(TYPES[data[0] % ARRAY_LEN(TYPES)], in);
    (void)event_peek(in, &head);
    for (int kind = WIRE_PICK_ORCHESTRATOR; kind <= WIRE_PICK_ENTITY; kind++)
        pick((enum wire_pick_kind)kind, in, data[0] % 7u + 1);
    return 0;
}
