#include "wire/writer.h"

#include "base/assert.h"

void wire_put_varint(struct strbuf *b, uint64_t value)
{
    uint8_t *out = strbuf_reserve(b, WIRE_VARINT_MAX);
    b->len += (size_t)(wire_write_varint(out, value) - out);
}

void wire_put_tag(struct strbuf *b, uint32_t number, enum wire_type type)
{
    ASSERT(number > 0 && number <= WIRE_NUMBER_MAX);
    wire_put_varint(b, (uint64_t)number << 3 | type);
}

void wire_put_uint(struct strbuf *b, uint32_t number, uint64_t value)
{
    wire_put_tag(b, number, WIRE_VARINT);
    wire_put_varint(b, value);
}

void wire_put_int(struct strbuf *b, uint32_t number, int64_t value)
{
    wire_put_uint(b, number, (uint64_t)value); /* negative ones take ten bytes, also int32 */
}

void wire_put_bool(struct strbuf *b, uint32_t number, bool value)
{
    wire_put_uint(b, number, value);
}

void wire_put_head(struct strbuf *b, uint32_t number, size_t len)
{
    wire_put_tag(b, number, WIRE_BYTES);
    wire_put_varint(b, len);
}

void wire_put_bytes(struct strbuf *b, uint32_t number, struct bytes content)
{
    wire_put_head(b, number, content.len);
    strbuf_append_bytes(b, content);
}

void wire_put_string_value(struct strbuf *b, uint32_t number, struct bytes content)
{
    if (bytes_is_none(content))
        return;
    if (content.len == 0) { /* proto3 leaves an empty string out of its wrapper */
        wire_put_head(b, number, 0);
        return;
    }
    wire_put_head(b, number, wire_size_bytes(1, content.len));
    wire_put_bytes(b, 1, content);
}

size_t wire_put_begin(struct strbuf *b, uint32_t number)
{
    wire_put_tag(b, number, WIRE_BYTES);
    strbuf_append_char(b, 0); /* room for a length below 128 */
    return b->len;
}

void wire_put_end(struct strbuf *b, size_t place)
{
    ASSERT(place > 0 && place <= b->len);
    size_t len = b->len - place;
    size_t more = wire_size_varint(len) - 1;

    if (more > 0) {
        strbuf_reserve(b, more);
        memmove(b->ptr + place + more, b->ptr + place, len);
        b->len += more;
    }
    wire_write_varint(b->ptr + place - 1, len);
}
