/* unpack.h - decodes bytes from a peer into protobuf-c's generated structs, within limits.
 *
 * One pass in place of a check followed by protobuf_c_message_unpack(), which has no nesting limit
 * and no UTF-8 check, copies every string, keeps its scratch memory in the arena, and takes quadratic
 * time for repeated singular messages. This one copies no bytes: strings are views into the input,
 * so the input must live as long as the message. Otherwise the result is the same: later values win,
 * messages merge, unknown fields are kept (groups among them are dropped), zero is unset.
 * Tests: tests/unit/test_wire_unpack.c, tests/unit/test_wire_hostile.c
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/error.h"

/* Set by proto/mark_text.py on every field that is `string` in the .proto. */
#define WIRE_FIELD_TEXT PROTOBUF_C_FIELD_FLAG_DEPRECATED

struct wire_limits {
    unsigned depth;  /* messages in messages below the outermost, map entries and groups too */
    size_t elements; /* sub-messages, items of repeated fields and unknown fields */
    size_t bytes;    /* memory of the structs and arrays; the strings stay in the input */
};

/* As deep as SDKs can parse what is sent on (spec 2). */
extern const struct wire_limits WIRE_LIMITS;
/* The three Complete... calls: 300 deep; failure details are cut before they are stored (6.8). */
extern const struct wire_limits WIRE_LIMITS_COMPLETION;

/* Decodes `in` as `desc` into the arena and sets the pointer that `out` points to (a `T **` of the
 * generated struct T of `desc`).
 *
 * ERR_INVALID: cut short, bad tag, varint or wire type, text that is not UTF-8, or past a limit; the
 * message names field and byte ("actions[3].scheduleTask.name at byte 217: not valid UTF-8").
 * *out is untouched then; what the arena got stays in it. */
MUST_CHECK enum err wire_unpack(const ProtobufCMessageDescriptor *desc, struct arena *arena,
                                struct bytes in, const struct wire_limits *limits, void *out,
                                struct error *err);

/* The field of that number, or NULL. */
const ProtobufCFieldDescriptor *wire_field_of(const ProtobufCMessageDescriptor *desc,
                                              uint32_t number);
