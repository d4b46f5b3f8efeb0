/* value.h - between protobuf-c's view of bytes and ours, and the wrappers of well-known types.
 *
 * Every string and bytes field of the generated structs is a ProtobufCBinaryData that borrows its
 * bytes (proto/mark_text.py): from the request after wire_unpack(), from wherever the caller likes
 * before wire_pack(). Nothing here copies or owns.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "google/protobuf/wrappers.pb-c.h"

/* A string field that may not be told from an empty one; never none. */
static inline struct bytes wire_view(ProtobufCBinaryData b)
{
    return b.len ? bytes_of(b.data, b.len) : BYTES_LIT("");
}

static inline ProtobufCBinaryData wire_data(struct bytes b)
{
    union { /* protobuf-c has no const view; nothing writes through it */
        const uint8_t *in;
        uint8_t *out;
    } u = {.in = b.ptr};
    return (ProtobufCBinaryData){.len = b.len, .data = u.out};
}

/* An absent wrapper is none, a present and empty one is not. */
static inline struct bytes wire_string(const Google__Protobuf__StringValue *s)
{
    return s ? wire_view(s->value) : BYTES_NONE;
}

/* Fills *box with `text` and returns it; NULL, and nothing done, for none. */
static inline Google__Protobuf__StringValue *wire_box(Google__Protobuf__StringValue *box,
                                                      struct bytes text)
{
    if (bytes_is_none(text))
        return NULL;
    google__protobuf__string_value__init(box);
    box->value = wire_data(text);
    return box;
}

/* The same with a box from the arena. */
static inline Google__Protobuf__StringValue *wire_string_value(struct arena *a, struct bytes text)
{
    return bytes_is_none(text) ? NULL : wire_box(arena_new(a, Google__Protobuf__StringValue), text);
}
