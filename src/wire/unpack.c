#include "wire/unpack.h"

#include "base/assert.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "wire/reader.h"

const struct wire_limits WIRE_LIMITS = {
    .depth = 100,
    .elements = 500000,
    .bytes = MIB(128),
};
const struct wire_limits WIRE_LIMITS_COMPLETION = {
    .depth = 300,
    .elements = 1000000,
    .bytes = MIB(256),
};

/* Where the decoder is: one on the stack for each open message, so that an error can name its place. */
struct place {
    const struct place *up;
    const ProtobufCFieldDescriptor *field; /* of the message above; NULL for the outermost */
    size_t index;                          /* of a repeated field */
};

struct unpacker {
    struct arena *arena;
    const struct wire_limits *limits;
    const ProtobufCMessageDescriptor *root;
    const uint8_t *start;
    struct error *err;
    size_t elements; /* so far */
    size_t bytes;
};

static enum err unpack_fields(struct unpacker *u, ProtobufCMessage *msg, struct bytes in,
                              unsigned depth, const struct place *at);

/* ---- errors ---------------------------------------------------------------------------------- */

#define PATH_LEVELS_SHOWN 8 /* of a long path: the outermost and the innermost ones */

static void path_append_one(struct strbuf *out, const struct place *at)
{
    if (out->len)
        strbuf_append_char(out, '.');
    strbuf_append_str(out, at->field->name);
    if (at->field->label == PROTOBUF_C_LABEL_REPEATED)
        strbuf_appendf(out, "[%zu]", at->index);
}

/* Recursion is bounded by the depth limit, like that of the decoder itself. */
static void path_append(struct strbuf *out, const struct place *at, size_t below)
{
    if (!at || !at->field)
        return;
    path_append(out, at->up, below + 1);
    bool is_outer = !at->up || !at->up->field || !at->up->up || !at->up->up->field;
    if (below < PATH_LEVELS_SHOWN || is_outer)
        path_append_one(out, at);
    else if (below == PATH_LEVELS_SHOWN)
        strbuf_append_str(out, "...");
}

/* ERR_INVALID, naming the place of `field` (may be NULL) in the message at `at`. */
static enum err fail(const struct unpacker *u, const struct place *at,
                     const ProtobufCFieldDescriptor *field, size_t index, const uint8_t *pos,
                     const char *what)
{
    struct strbuf path = {0};
    struct place here = {.up = at, .field = field, .index = index};

    path_append(&path, field ? &here : at, 0);
    enum err e = error_set(u->err, ERR_INVALID, "cannot decode %s: %s%sat byte %zu: %s",
                           u->root->short_name, path.len ? strbuf_cstr(&path) : "",
                           path.len ? " " : "", (size_t)(pos - u->start), what);
    strbuf_deinit(&path);
    return e;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Room for `bytes`, or NULL when that is past the limit. */
static void *take(struct unpacker *u, size_t bytes)
{
    if (bytes > u->limits->bytes - u->bytes)
        return NULL;
    u->bytes += bytes;
    return arena_alloc(u->arena, bytes);
}

static bool count_one(struct unpacker *u)
{
    return ++u->elements <= u->limits->elements;
}

/* Grows an array that doubles: it is full when its count is 0 or a power of two from 4 on. */
static bool array_grow(struct unpacker *u, void **array, size_t count, size_t item_size)
{
    if (count != 0 && (count < 4 || (count & (count - 1)) != 0))
        return true;
    size_t cap = count ? 2 * count : 4;
    void *bigger = take(u, cap * item_size);
    if (!bigger)
        return false;
    if (count)
        memcpy(bigger, *array, count * item_size);
    *array = bigger;
    return true;
}

static ProtobufCMessage *message_new(struct unpacker *u, const ProtobufCMessageDescriptor *desc)
{
    ProtobufCMessage *msg = take(u, desc->sizeof_message);
    if (msg)
        protobuf_c_message_init(desc, msg);
    return msg;
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    case PROTOBUF_C_TYPE_STRING: /* mark_text.py leaves none */
        break;
    }
    ASSERT(type != PROTOBUF_C_TYPE_STRING);
    return 0;
}

static enum wire_type value_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
        break;
    }
    return WIRE_VARINT;
}

static uint64_t unzigzag(uint64_t v)
{
    return (v >> 1) ^ (0 - (v & 1));
}

/* Stores a number at `to`; `raw` is the varint or the fixed bits. */
static void number_store(ProtobufCType type, uint64_t raw, void *to)
{
    protobuf_c_boolean truth;
    uint32_t low;

    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        truth = raw != 0;
        memcpy(to, &truth, sizeof(truth));
        return;
    case PROTOBUF_C_TYPE_SINT32:
        low = (uint32_t)unzigzag((uint32_t)raw);
        memcpy(to, &low, sizeof(low));
        return;
    case PROTOBUF_C_TYPE_SINT64:
        raw = unzigzag(raw);
        memcpy(to, &raw, sizeof(raw));
        return;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT:
        low = (uint32_t)raw; /* protobuf: the low 32 bits of what was sent */
        memcpy(to, &low, sizeof(low));
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(to, &raw, sizeof(raw));
        return;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        ASSERT(value_wire_type(type) != WIRE_BYTES); /* the caller's */
    }
}

static bool number_read(const uint8_t **pos, const uint8_t *end, enum wire_type type, uint64_t *out)
{
    if (type == WIRE_VARINT)
        return wire_varint(pos, end, out);
    size_t width = type == WIRE_FIXED64 ? 8 : 4;
    if ((size_t)(end - *pos) < width)
        return false;
    *out = 0;
    memcpy(out, *pos, width); /* little-endian, as the wire is; see the check in pack.c */
    *pos += width;
    return true;
}

/* ---- fields ---------------------------------------------------------------------------------- */

const ProtobufCFieldDescriptor *wire_field_of(const ProtobufCMessageDescriptor *desc,
                                              uint32_t number)
{
    if (number - 1 < desc->n_fields && desc->fields[number - 1].id == number)
        return &desc->fields[number - 1]; /* most messages number their fields without gaps */

    size_t low = 0, high = desc->n_fields; /* fields are in order of number */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (desc->fields[mid].id == number)
            return &desc->fields[mid];
        if (desc->fields[mid].id < number)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static void *member(ProtobufCMessage *msg, unsigned offset)
{
    return (char *)msg + offset;
}

/* What is being stored, and where. */
struct target {
    ProtobufCMessage *msg;
    const ProtobufCFieldDescriptor *field;
    const struct place *at;
    const uint8_t *pos; /* of the tag, for errors */
    size_t index;
    void *slot;
};

static enum err fail_at(const struct unpacker *u, const struct target *t, const char *what)
{
    return fail(u, t->at, t->field, t->index, t->pos, what);
}

static enum err fail_limit(const struct unpacker *u, const struct target *t)
{
    return fail_at(u, t,
                   u->elements > u->limits->elements ? "too many elements"
                                                     : "takes too much memory when decoded");
}

/* Sets t->slot: the member, or one more item of the array. A member of a oneof ends the others. */
static enum err slot_open(struct unpacker *u, struct target *t)
{
    const ProtobufCFieldDescriptor *field = t->field;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t size = value_size(field->type);
        size_t *count = member(t->msg, field->quantifier_offset);
        void **array = member(t->msg, field->offset);
        t->index = *count;
        if (!count_one(u) || !array_grow(u, array, *count, size))
            return fail_limit(u, t);
        t->slot = (char *)*array + *count * size;
        memset(t->slot, 0, size);
        ++*count;
        return OK;
    }
    t->slot = member(t->msg, field->offset);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t *which = member(t->msg, field->quantifier_offset);
        if (*which != field->id)
            memset(t->slot, 0, value_size(field->type));
        *which = field->id;
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL &&
               field->type != PROTOBUF_C_TYPE_MESSAGE) {
        protobuf_c_boolean *has = member(t->msg, field->quantifier_offset);
        *has = true;
    }
    return OK;
}

static enum err message_store(struct unpacker *u, struct target *t, struct bytes content,
                              unsigned depth)
{
    struct place inner = {.up = t->at, .field = t->field, .index = t->index};
    ProtobufCMessage **slot = t->slot;

    if (depth >= u->limits->depth)
        return fail_at(u, t, "nested too deep");
    if (!*slot) { /* else it merges with what came before */
        if (t->field->label != PROTOBUF_C_LABEL_REPEATED && !count_one(u))
            return fail_limit(u, t);
        *slot = message_new(u, t->field->descriptor);
        if (!*slot)
            return fail_limit(u, t);
    }
    return unpack_fields(u, *slot, content, depth + 1, &inner);
}

static enum err bytes_store(struct unpacker *u, struct target *t, struct bytes content,
                            unsigned depth)
{
    enum err e = slot_open(u, t);
    if (e)
        return e;
    if (t->field->type == PROTOBUF_C_TYPE_MESSAGE)
        return message_store(u, t, content, depth);
    if ((t->field->flags & WIRE_FIELD_TEXT) && !utf8_is_valid(content))
        return fail_at(u, t, "not valid UTF-8");
    union { /* protobuf-c has no const view */
        const uint8_t *in;
        uint8_t *out;
    } data = {.in = content.ptr};
    *(ProtobufCBinaryData *)t->slot = (ProtobufCBinaryData){.len = content.len, .data = data.out};
    return OK;
}

static enum err packed_store(struct unpacker *u, struct target *t, struct bytes content)
{
    enum wire_type type = value_wire_type(t->field->type);
    const uint8_t *pos = content.ptr, *end = content.ptr + content.len;

    while (pos < end) {
        uint64_t raw;
        t->pos = pos;
        if (!number_read(&pos, end, type, &raw))
            return fail_at(u, t, "malformed packed values");
        enum err e = slot_open(u, t);
        if (e)
            return e;
        number_store(t->field->type, raw, t->slot);
    }
    return OK;
}

/* Keeps a field that the .proto does not have, to be sent on as it came. */
static enum err unknown_store(struct unpacker *u, struct target *t, uint32_t number,
                              enum wire_type type, struct bytes data)
{
    void *array = t->msg->unknown_fields;
    if (!count_one(u) ||
        !array_grow(u, &array, t->msg->n_unknown_fields, sizeof(ProtobufCMessageUnknownField)))
        return fail_limit(u, t);
    t->msg->unknown_fields = array;
    union {
        const uint8_t *in;
        uint8_t *out;
    } view = {.in = data.ptr};
    t->msg->unknown_fields[t->msg->n_unknown_fields++] = (ProtobufCMessageUnknownField){
        .tag = number,
        .wire_type = (ProtobufCWireType)type,
        .len = data.len,
        .data = view.out,
    };
    return OK;
}

static enum err unknown_read(struct unpacker *u, struct target *t, const uint8_t **pos,
                             const uint8_t *end, uint32_t number, enum wire_type type,
                             unsigned depth)
{
    const uint8_t *from = *pos;
    struct bytes group;
    uint64_t value;

    switch (type) {
    case WIRE_GROUP:
        if (!wire_group_skip(pos, end, number, u->limits->depth - depth, &group))
            return fail_at(u, t, "malformed group, or nested too deep");
        return OK; /* dropped: proto3 has no groups */
    case WIRE_GROUP_END:
        return fail_at(u, t, "the end of a group that did not begin");
    case WIRE_BYTES:
        if (!wire_varint(pos, end, &value) || value > (size_t)(end - *pos))
            return fail_at(u, t, "cut short");
        *pos += value;
        break;
    case WIRE_VARINT:
    case WIRE_FIXED32:
    case WIRE_FIXED64:
        if (!number_read(pos, end, type, &value))
            return fail_at(u, t, "malformed number");
        break;
    }
    return unknown_store(u, t, number, type, bytes_of(from, (size_t)(*pos - from)));
}

static enum err known_read(struct unpacker *u, struct target *t, const uint8_t **pos,
                           const uint8_t *end, enum wire_type type, unsigned depth)
{
    enum wire_type expected = value_wire_type(t->field->type);
    bool is_packed = expected != WIRE_BYTES && type == WIRE_BYTES &&
                     t->field->label == PROTOBUF_C_LABEL_REPEATED;
    uint64_t value;

    if (type != expected && !is_packed)
        return fail_at(u, t, "has the wrong wire type");
    if (type != WIRE_BYTES) {
        if (!number_read(pos, end, type, &value))
            return fail_at(u, t, "malformed number");
        enum err e = slot_open(u, t);
        if (e)
            return e;
        number_store(t->field->type, value, t->slot);
        return OK;
    }
    if (!wire_varint(pos, end, &value) || value > (size_t)(end - *pos))
        return fail_at(u, t, "cut short");
    struct bytes content = bytes_of(*pos, (size_t)value);
    *pos += value;
    return is_packed ? packed_store(u, t, content) : bytes_store(u, t, content, depth);
}

static enum err unpack_fields(struct unpacker *u, ProtobufCMessage *msg, struct bytes in,
                              unsigned depth, const struct place *at)
{
    const uint8_t *pos = in.ptr, *end = in.ptr + in.len;

    while (pos < end) {
        struct target t = {.msg = msg, .at = at, .pos = pos};
        uint32_t number;
        enum wire_type type;
        if (!wire_tag(&pos, end, &number, &type))
            return fail_at(u, &t, "malformed tag");
        t.field = wire_field_of(msg->descriptor, number);
        enum err e = t.field ? known_read(u, &t, &pos, end, type, depth)
                             : unknown_read(u, &t, &pos, end, number, type, depth);
        if (e)
            return e;
    }
    return OK;
}

enum err wire_unpack(const ProtobufCMessageDescriptor *desc, struct arena *arena, struct bytes in,
                     const struct wire_limits *limits, void *out, struct error *err)
{
    struct unpacker u = {
        .arena = arena,
        .limits = limits,
        .root = desc,
        .start = in.ptr,
        .err = err,
    };
    struct place top = {0};
    ProtobufCMessage *msg = message_new(&u, desc);

    if (!msg)
        return error_set(err, ERR_INVALID, "cannot decode %s: takes too much memory when decoded",
                         desc->short_name);
    enum err e = in.len ? unpack_fields(&u, msg, in, 0, &top) : OK;
    if (e)
        return e;
    memcpy(out, &msg, sizeof(msg));
    return OK;
}
