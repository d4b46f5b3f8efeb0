/* writer.h - appends single protobuf fields to a strbuf.
 *
 * wire_put_* write the field as it is, also a zero or an empty one: leaving out what is unset is the
 * caller's. wire_size_* tell how long the result is, so that a length can be written before what it
 * measures and nothing is moved afterwards.
 * Tests: tests/unit/test_wire_fields.c
 */
#pragma once

#include "base/strbuf.h"
#include "wire/reader.h"

#define WIRE_VARINT_MAX 10 /* bytes */

static inline size_t wire_size_varint(uint64_t value)
{
    return (70 - (size_t)__builtin_clzll(value | 1)) / 7; /* bits, rounded up to sevens */
}

static inline size_t wire_size_tag(uint32_t number)
{
    return wire_size_varint((uint64_t)number << 3);
}

/* A bytes, string or sub-message field of `len` bytes of content, tag and length included. */
static inline size_t wire_size_bytes(uint32_t number, size_t len)
{
    return wire_size_tag(number) + wire_size_varint(len) + len;
}

/* Writes at `out`, which has room for WIRE_VARINT_MAX bytes; returns the place behind. */
static inline uint8_t *wire_write_varint(uint8_t *out, uint64_t value)
{
    while (value > 0x7f) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

void wire_put_varint(struct strbuf *b, uint64_t value); /* bare, without a tag */
void wire_put_tag(struct strbuf *b, uint32_t number, enum wire_type type);
void wire_put_uint(struct strbuf *b, uint32_t number, uint64_t value);
void wire_put_int(struct strbuf *b, uint32_t number, int64_t value); /* int32, int64, enum */
void wire_put_bool(struct strbuf *b, uint32_t number, bool value);
void wire_put_bytes(struct strbuf *b, uint32_t number, struct bytes content); /* bytes, string */
/* Tag and length of a field whose `len` bytes of content the caller appends next. */
void wire_put_head(struct strbuf *b, uint32_t number, size_t len);
/* google.protobuf.StringValue in field `number`: none is left out, present and empty is written. */
void wire_put_string_value(struct strbuf *b, uint32_t number, struct bytes content);

/* A sub-message of unknown length: the place of its content is returned and goes into the end call,
 * which writes the length before it and moves the content up when that takes more than a byte. */
size_t wire_put_begin(struct strbuf *b, uint32_t number);
void wire_put_end(struct strbuf *b, size_t place);
