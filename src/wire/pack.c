#include "wire/pack.h"

#include "base/assert.h"
#include "wire/writer.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "fixed32 and fixed64 are copied as they lie in memory");

static const void *member(const ProtobufCMessage *msg, unsigned offset)
{
    return (const char *)msg + offset;
}

static uint64_t load32(const void *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

static uint64_t load64(const void *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/* ---- one value: what it is on the wire --------------------------------------------------------- */

struct value {
    enum wire_type type;
    uint64_t number;    /* a varint, or the bits of a fixed one */
    struct bytes bytes; /* WIRE_BYTES, when `message` is NULL */
    const ProtobufCMessage *message;
    size_t width; /* in memory, for the next item of an array */
};

/* Two's complement to 64 bits, as protobuf sends int32 and enums. */
static uint64_t widen(const void *at)
{
    return (uint64_t)(int64_t)(int32_t)load32(at);
}

static struct value value_load(ProtobufCType type, const void *at)
{
    const ProtobufCBinaryData *data = at;
    const ProtobufCMessage *const *message = at;
    int64_t v;

    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        return (struct value){.type = WIRE_VARINT, .number = widen(at), .width = 4};
    case PROTOBUF_C_TYPE_UINT32:
        return (struct value){.type = WIRE_VARINT, .number = load32(at), .width = 4};
    case PROTOBUF_C_TYPE_SINT32:
        v = (int32_t)load32(at);
        return (struct value){.type = WIRE_VARINT,
                              .number = (uint32_t)(((uint32_t)v << 1) ^ (uint32_t)(v >> 31)),
                              .width = 4};
    case PROTOBUF_C_TYPE_BOOL:
        return (struct value){
            .type = WIRE_VARINT, .number = load32(at) != 0, .width = sizeof(protobuf_c_boolean)};
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return (struct value){.type = WIRE_VARINT, .number = load64(at), .width = 8};
    case PROTOBUF_C_TYPE_SINT64:
        v = (int64_t)load64(at);
        return (struct value){
            .type = WIRE_VARINT, .number = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63), .width = 8};
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return (struct value){.type = WIRE_FIXED32, .number = load32(at), .width = 4};
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return (struct value){.type = WIRE_FIXED64, .number = load64(at), .width = 8};
    case PROTOBUF_C_TYPE_BYTES:
        return (struct value){
            .type = WIRE_BYTES, .bytes = bytes_of(data->data, data->len), .width = sizeof(*data)};
    case PROTOBUF_C_TYPE_MESSAGE:
        return (struct value){.type = WIRE_BYTES, .message = *message, .width = sizeof(*message)};
    case PROTOBUF_C_TYPE_STRING: /* mark_text.py leaves none */
        break;
    }
    ASSERT(type != PROTOBUF_C_TYPE_STRING);
    return (struct value){.type = WIRE_VARINT};
}

static bool is_number(const ProtobufCFieldDescriptor *field)
{
    return field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_BYTES;
}

/* Whether a number is neither 0 nor -0.0, which is zero too, as protobuf-c has it. */
static bool is_not_zero(const ProtobufCFieldDescriptor *field, const void *at)
{
    struct value v = value_load(field->type, at);

    if (field->type == PROTOBUF_C_TYPE_DOUBLE)
        return v.number << 1 != 0;
    if (field->type == PROTOBUF_C_TYPE_FLOAT)
        return (uint32_t)(v.number << 1) != 0;
    return v.number != 0;
}

/* Whether a singular field is sent: presence where the message has it, else any value but zero.
 * Most fields of most messages are not: the common cases come first and load nothing more. */
static inline bool is_sent(const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *field)
{
    const void *at = member(msg, field->offset);
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        if (load32(member(msg, field->quantifier_offset)) != field->id)
            return false;
        return !is_message || *(const ProtobufCMessage *const *)at;
    }
    if (is_message)
        return *(const ProtobufCMessage *const *)at != NULL;
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL)
        return load32(member(msg, field->quantifier_offset)) != 0;
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len > 0;
    return is_not_zero(field, at);
}

/* ---- sizes ------------------------------------------------------------------------------------- */

static size_t value_size(const struct value *v)
{
    size_t len;

    switch (v->type) {
    case WIRE_VARINT:
        return wire_size_varint(v->number);
    case WIRE_FIXED64:
        return 8;
    case WIRE_FIXED32:
        return 4;
    case WIRE_BYTES:
        len = v->message ? wire_packed_size(v->message) : v->bytes.len;
        return wire_size_varint(len) + len;
    case WIRE_GROUP:
    case WIRE_GROUP_END:
        break;
    }
    return 0;
}

static size_t array_size(const ProtobufCFieldDescriptor *field, const char *items, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        struct value v = value_load(field->type, items);
        size += value_size(&v);
        items += v.width;
    }
    if (is_number(field)) /* packed */
        return count ? wire_size_tag(field->id) + wire_size_varint(size) + size : 0;
    return size + count * wire_size_tag(field->id);
}

size_t wire_packed_size(const ProtobufCMessage *msg)
{
    const ProtobufCMessageDescriptor *desc = msg->descriptor;
    size_t size = 0;

    for (unsigned i = 0; i < desc->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &desc->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            const size_t *count = member(msg, field->quantifier_offset);
            const char *const *items = member(msg, field->offset);
            size += array_size(field, *items, *count);
            continue;
        }
        if (!is_sent(msg, field))
            continue;
        struct value v = value_load(field->type, member(msg, field->offset));
        size += wire_size_tag(field->id) + value_size(&v);
    }
    for (unsigned i = 0; i < msg->n_unknown_fields; i++)
        size += wire_size_tag(msg->unknown_fields[i].tag) + msg->unknown_fields[i].len;
    return size;
}

/* ---- writing, from the end: each function returns the new start ------------------------------- */

static uint8_t *message_write(const ProtobufCMessage *msg, uint8_t *end);

static uint8_t *varint_write(uint64_t value, uint8_t *end)
{
    uint8_t *out = end - wire_size_varint(value);
    wire_write_varint(out, value);
    return out;
}

static uint8_t *tag_write(uint32_t number, enum wire_type type, uint8_t *end)
{
    return varint_write((uint64_t)number << 3 | type, end);
}

static uint8_t *raw_write(const void *data, size_t len, uint8_t *end)
{
    if (len)
        memcpy(end - len, data, len);
    return end - len;
}

static uint8_t *value_write(const struct value *v, uint8_t *end)
{
    uint8_t *start;

    switch (v->type) {
    case WIRE_VARINT:
        return varint_write(v->number, end);
    case WIRE_FIXED64:
        return raw_write(&v->number, 8, end);
    case WIRE_FIXED32:
        return raw_write(&v->number, 4, end);
    case WIRE_BYTES:
        start = v->message ? message_write(v->message, end)
                           : raw_write(v->bytes.ptr, v->bytes.len, end);
        return varint_write((size_t)(end - start), start);
    case WIRE_GROUP:
    case WIRE_GROUP_END:
        break;
    }
    return end;
}

static uint8_t *array_write(const ProtobufCFieldDescriptor *field, const char *items, size_t count,
                            uint8_t *end)
{
    uint8_t *p = end;

    if (count == 0)
        return p;
    size_t width = value_load(field->type, items).width;
    for (size_t i = count; i-- > 0;) {
        struct value v = value_load(field->type, items + i * width);
        p = value_write(&v, p);
        if (!is_number(field))
            p = tag_write(field->id, v.type, p);
    }
    if (is_number(field)) {
        p = varint_write((size_t)(end - p), p);
        p = tag_write(field->id, WIRE_BYTES, p);
    }
    return p;
}

static uint8_t *message_write(const ProtobufCMessage *msg, uint8_t *end)
{
    const ProtobufCMessageDescriptor *desc = msg->descriptor;
    uint8_t *p = end;

    for (unsigned i = msg->n_unknown_fields; i-- > 0;) {
        const ProtobufCMessageUnknownField *unknown = &msg->unknown_fields[i];
        p = raw_write(unknown->data, unknown->len, p);
        p = tag_write(unknown->tag, (enum wire_type)unknown->wire_type, p);
    }
    for (unsigned i = desc->n_fields; i-- > 0;) {
        const ProtobufCFieldDescriptor *field = &desc->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            const size_t *count = member(msg, field->quantifier_offset);
            const char *const *items = member(msg, field->offset);
            p = array_write(field, *items, *count, p);
            continue;
        }
        if (!is_sent(msg, field))
            continue;
        struct value v = value_load(field->type, member(msg, field->offset));
        p = tag_write(field->id, v.type, value_write(&v, p));
    }
    return p;
}

void wire_pack(const ProtobufCMessage *msg, uint8_t *out, size_t size)
{
    uint8_t *start = message_write(msg, out + size);
    ASSERT(start == out);
}

void wire_pack_into(const ProtobufCMessage *msg, struct strbuf *out)
{
    size_t size = wire_packed_size(msg);
    uint8_t *at = strbuf_reserve(out, size);
    if (size)
        wire_pack(msg, at, size);
    out->len += size;
}

void wire_pack_field(uint32_t number, const ProtobufCMessage *msg, struct strbuf *out)
{
    size_t size = wire_packed_size(msg);
    wire_put_head(out, number, size);
    uint8_t *at = strbuf_reserve(out, size);
    if (size)
        wire_pack(msg, at, size);
    out->len += size;
}
