#include "wire/reader.h"

bool wire_varint_slow(const uint8_t **pos, const uint8_t *end, uint64_t *out)
{
    const uint8_t *p = *pos;
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) /* the tenth byte holds one bit and ends it */
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            *pos = p;
            return true;
        }
    }
    return false;
}

bool wire_tag(const uint8_t **pos, const uint8_t *end, uint32_t *number, enum wire_type *type)
{
    const uint8_t *p = *pos;
    uint64_t tag;

    if (!wire_varint(&p, end, &tag) || p - *pos > 5 || tag > UINT32_MAX || tag >> 3 == 0 ||
        (tag & 7) > WIRE_FIXED32)
        return false;
    *number = (uint32_t)(tag >> 3);
    *type = (enum wire_type)(tag & 7);
    *pos = p;
    return true;
}

/* Moves *pos behind the value of a field that is no group. */
static bool value_skip(const uint8_t **pos, const uint8_t *end, enum wire_type type)
{
    uint64_t len = 0;

    switch (type) {
    case WIRE_VARINT:
        return wire_varint(pos, end, &len);
    case WIRE_FIXED64:
        len = 8;
        break;
    case WIRE_FIXED32:
        len = 4;
        break;
    case WIRE_BYTES:
        if (!wire_varint(pos, end, &len))
            return false;
        break;
    case WIRE_GROUP:
    case WIRE_GROUP_END:
        return false;
    }
    if (len > (size_t)(end - *pos))
        return false;
    *pos += len;
    return true;
}

bool wire_group_skip(const uint8_t **pos, const uint8_t *end, uint32_t number, unsigned depth_max,
                     struct bytes *inside)
{
    uint32_t open[WIRE_GROUP_DEPTH_MAX];
    const uint8_t *p = *pos;
    unsigned depth = 1;

    depth_max = MIN(depth_max, (unsigned)WIRE_GROUP_DEPTH_MAX);
    if (depth > depth_max)
        return false;
    open[0] = number;
    for (;;) {
        const uint8_t *tag_at = p;
        uint32_t n;
        enum wire_type type;
        if (!wire_tag(&p, end, &n, &type))
            return false;
        if (type == WIRE_GROUP_END) {
            if (n != open[--depth])
                return false;
            if (depth == 0) {
                *inside = bytes_of(*pos, (size_t)(tag_at - *pos));
                *pos = p;
                return true;
            }
        } else if (type == WIRE_GROUP) {
            if (depth == depth_max)
                return false;
            open[depth++] = n;
        } else if (!value_skip(&p, end, type)) {
            return false;
        }
    }
}

static uint64_t fixed(const uint8_t *p, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* Reads the value behind a tag; false when it is malformed. */
static bool value_read(const uint8_t **pos, const uint8_t *end, struct wire_field *f)
{
    size_t left = (size_t)(end - *pos);
    size_t width;

    f->value = 0;
    f->bytes = BYTES_NONE;
    switch (f->type) {
    case WIRE_VARINT:
        return wire_varint(pos, end, &f->value);
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        width = f->type == WIRE_FIXED64 ? 8 : 4;
        if (left < width)
            return false;
        f->value = fixed(*pos, width);
        *pos += width;
        return true;
    case WIRE_BYTES:
        if (!wire_varint(pos, end, &f->value) || f->value > (size_t)(end - *pos))
            return false;
        f->bytes = bytes_of(*pos, (size_t)f->value);
        *pos += f->value;
        return true;
    case WIRE_GROUP:
        return wire_group_skip(pos, end, f->number, WIRE_GROUP_DEPTH_MAX, &f->bytes);
    case WIRE_GROUP_END:
        return false;
    }
    return false;
}

bool wire_next(struct wire_reader *r, struct wire_field *out)
{
    const uint8_t *p = r->pos;

    if (p == r->end || r->is_bad)
        return false;
    if (!wire_tag(&p, r->end, &out->number, &out->type) || !value_read(&p, r->end, out)) {
        r->is_bad = true;
        return false;
    }
    out->raw = bytes_of(r->pos, (size_t)(p - r->pos));
    r->pos = p;
    return true;
}

bool wire_field_find(struct bytes message, uint32_t number, enum wire_type type,
                     struct wire_field *out)
{
    struct wire_reader r = wire_reader_of(message);
    struct wire_field f;
    bool found = false;

    while (wire_next(&r, &f)) {
        if (f.number == number && f.type == type) {
            *out = f;
            found = true;
        }
    }
    return found && !r.is_bad;
}

struct bytes wire_bytes_find(struct bytes message, uint32_t number)
{
    struct wire_field f;
    return wire_field_find(message, number, WIRE_BYTES, &f) ? f.bytes : BYTES_NONE;
}

struct bytes wire_string_value_find(struct bytes message, uint32_t number)
{
    struct bytes wrapper = wire_bytes_find(message, number);
    if (bytes_is_none(wrapper))
        return BYTES_NONE;
    struct bytes text = wire_bytes_find(wrapper, 1);
    return bytes_is_none(text) ? BYTES_LIT("") : text;
}

uint64_t wire_varint_find(struct bytes message, uint32_t number)
{
    struct wire_field f;
    return wire_field_find(message, number, WIRE_VARINT, &f) ? f.value : 0;
}
