/* reader.h - walks over the fields of one encoded protobuf message.
 *
 * A reader borrows the bytes and allocates nothing; every view it gives points into them. It takes
 * what protobuf's own parsers take: varints of up to ten bytes (tags: five), also longer than
 * needed, and groups, which are given as one field.
 * Tests: tests/unit/test_wire_fields.c
 */
#pragma once

#include "base/bytes.h"

/* The wire types, by their numbers. */
enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_GROUP = 3, /* as a field: everything up to its end tag */
    WIRE_GROUP_END = 4,
    WIRE_FIXED32 = 5,
};

#define WIRE_GROUP_DEPTH_MAX 100 /* groups in groups; deeper is malformed */
#define WIRE_NUMBER_MAX ((1u << 29) - 1)

struct wire_reader {
    const uint8_t *pos, *end, *start;
    bool is_bad; /* malformed at byte (pos - start) */
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;     /* WIRE_VARINT, WIRE_FIXED32, WIRE_FIXED64 */
    struct bytes bytes; /* WIRE_BYTES: the content; WIRE_GROUP: the fields between the tags */
    struct bytes raw;   /* the field as encoded, tag included */
};

static inline struct wire_reader wire_reader_of(struct bytes message)
{
    const uint8_t *end = message.len ? message.ptr + message.len : message.ptr;
    return (struct wire_reader){.pos = message.ptr, .end = end, .start = message.ptr};
}

/* Reads one varint at *pos and moves *pos behind it. False, and *pos untouched: cut short, or longer
 * than ten bytes, or past 64 bits. */
bool wire_varint_slow(const uint8_t **pos, const uint8_t *end, uint64_t *out);
static inline bool wire_varint(const uint8_t **pos, const uint8_t *end, uint64_t *out)
{
    if (LIKELY(*pos < end && **pos < 0x80)) {
        *out = *(*pos)++;
        return true;
    }
    return wire_varint_slow(pos, end, out);
}

/* Reads a tag at *pos. False: malformed, field number 0, or a wire type that does not exist. */
bool wire_tag(const uint8_t **pos, const uint8_t *end, uint32_t *number, enum wire_type *type);

/* Moves *pos, which is behind a group's start tag, behind its end tag; *inside is what was between.
 * False: malformed, or nested deeper than `depth_max` groups. */
bool wire_group_skip(const uint8_t **pos, const uint8_t *end, uint32_t number, unsigned depth_max,
                     struct bytes *inside);

/* The next field; false at the end of the message and, with r->is_bad set, at a malformed one. */
bool wire_next(struct wire_reader *r, struct wire_field *out);

/* The last field of this number and type in the message (later ones win, as protobuf says); false
 * when there is none or the message is malformed. */
bool wire_field_find(struct bytes message, uint32_t number, enum wire_type type,
                     struct wire_field *out);

/* The last bytes field of that number; BYTES_NONE when absent. Present and empty is not none. */
struct bytes wire_bytes_find(struct bytes message, uint32_t number);
/* The text in a google.protobuf.StringValue of that number: none when absent, not none when empty. */
struct bytes wire_string_value_find(struct bytes message, uint32_t number);
/* The last varint of that number, 0 when absent. */
uint64_t wire_varint_find(struct bytes message, uint32_t number);
