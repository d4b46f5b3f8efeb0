#include "cli/proto_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "google/protobuf/struct.pb-c.h"
#include "wire/timestamp.h"
#include "wire/unpack.h"
#include "wire/value.h"

/* A JSON string of any text, U+0000 included; null for none. */
static json_t *json_text(struct bytes text)
{
    if (bytes_is_none(text))
        return json_null();
    json_t *j = json_stringn((const char *)text.ptr, text.len);
    return j ? j : json_string("(not UTF-8)");
}

/* ---- scalars ------------------------------------------------------------------------------------- */

static json_t *number_text(const char *fmt, ...) PRINTF_LIKE(1, 2);
static json_t *number_text(const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return json_string(text);
}

static json_t *real(double v)
{
    if (isnan(v))
        return json_string("NaN");
    if (isinf(v))
        return json_string(v > 0 ? "Infinity" : "-Infinity");
    if (v == floor(v) && fabs(v) < 1e15)
        return json_integer((json_int_t)v);
    return json_real(v);
}

static json_t *base64(struct bytes b)
{
    char *text = malloc(BASE64_LEN(b.len) + 1);
    ASSERT(text);
    json_t *j = json_stringn(text, base64_encode(b, true, text));
    free(text);
    return j;
}

static json_t *enum_name(const ProtobufCEnumDescriptor *desc, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(desc, value);
    return v ? json_string(v->name) : json_integer(value);
}

/* One value of the field's type, at `p`. */
static json_t *value_of(const ProtobufCFieldDescriptor *f, const void *p)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_integer(*(const int32_t *)p);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_integer(*(const uint32_t *)p);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return number_text("%" PRId64, *(const int64_t *)p);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return number_text("%" PRIu64, *(const uint64_t *)p);
    case PROTOBUF_C_TYPE_FLOAT:
        return real((double)*(const float *)p);
    case PROTOBUF_C_TYPE_DOUBLE:
        return real(*(const double *)p);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)p);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_name(f->descriptor, *(const int *)p);
    case PROTOBUF_C_TYPE_STRING:
        return json_text(bytes_str(*(char *const *)p));
    case PROTOBUF_C_TYPE_BYTES: {
        struct bytes b = wire_view(*(const ProtobufCBinaryData *)p);
        return f->flags & WIRE_FIELD_TEXT ? json_text(b) : base64(b);
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        return proto_json(*(ProtobufCMessage *const *)p);
    }
    return json_null();
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
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
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    }
    return 0;
}

/* ---- well-known types ---------------------------------------------------------------------------- */

/* Microseconds, as the server has them, or all nine digits when there are finer ones. */
static json_t *with_fraction(const char *before, int64_t nanos, const char *after)
{
    if (nanos % 1000 == 0)
        return number_text("%s.%06" PRId64 "%s", before, nanos / 1000, after);
    return number_text("%s.%09" PRId64 "%s", before, nanos, after);
}

static json_t *timestamp(const Google__Protobuf__Timestamp *ts)
{
    char text[USEC_TEXT_LEN];
    usec_t t;
    if (!wire_time_read(ts, &t))
        return json_null();
    usec_format(ts->seconds * USEC_PER_SEC, text);
    text[sizeof("2026-12-01T01:02:03") - 1] = 0;
    return with_fraction(text, ts->nanos, "Z");
}

static json_t *duration(const Google__Protobuf__Duration *d)
{
    char text[32];
    int64_t nanos = d->nanos < 0 ? -(int64_t)d->nanos : d->nanos;
    bool is_negative = d->seconds < 0 || d->nanos < 0;
    uint64_t seconds = d->seconds < 0 ? 0 - (uint64_t)d->seconds : (uint64_t)d->seconds;
    snprintf(text, sizeof(text), "%s%" PRIu64, is_negative ? "-" : "", seconds);
    return nanos ? with_fraction(text, nanos, "s") : number_text("%ss", text);
}

static json_t *list_value(const Google__Protobuf__ListValue *l)
{
    json_t *j = json_array();
    for (size_t i = 0; l && i < l->n_values; i++)
        json_array_append_new(j, proto_json(&l->values[i]->base));
    return j;
}

static void set(json_t *j, struct bytes key, json_t *value)
{
    json_object_setn_new(j, (const char *)key.ptr, key.len, value);
}

static json_t *struct_value(const Google__Protobuf__Struct *s)
{
    json_t *j = json_object();
    for (size_t i = 0; s && i < s->n_fields; i++)
        set(j, wire_view(s->fields[i]->key),
            s->fields[i]->value ? proto_json(&s->fields[i]->value->base) : json_null());
    return j;
}

static json_t *any_value(const Google__Protobuf__Value *v)
{
    switch (v->kind_case) {
    case GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE:
        return real(v->number_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE:
        return json_text(wire_view(v->string_value));
    case GOOGLE__PROTOBUF__VALUE__KIND_BOOL_VALUE:
        return json_boolean(v->bool_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE:
        return struct_value(v->struct_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE:
        return list_value(v->list_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE:
    case GOOGLE__PROTOBUF__VALUE__KIND__NOT_SET:
    case _GOOGLE__PROTOBUF__VALUE__KIND__CASE_IS_INT_SIZE:
        break;
    }
    return json_null();
}

/* NULL: an ordinary message. */
static json_t *well_known(const ProtobufCMessage *msg)
{
    const ProtobufCMessageDescriptor *d = msg->descriptor;
    const void *m = msg;
    if (strcmp(d->package_name, "google.protobuf"))
        return NULL;
    if (d == &google__protobuf__timestamp__descriptor)
        return timestamp(m);
    if (d == &google__protobuf__duration__descriptor)
        return duration(m);
    if (d == &google__protobuf__value__descriptor)
        return any_value(m);
    if (d == &google__protobuf__struct__descriptor)
        return struct_value(m);
    if (d == &google__protobuf__list_value__descriptor)
        return list_value(m);
    if (d->n_fields == 1 && !strcmp(d->fields[0].name, "value")) /* the wrappers */
        return value_of(&d->fields[0], (const char *)m + d->fields[0].offset);
    return NULL;
}

/* ---- messages ------------------------------------------------------------------------------------ */

/* lowerCamelCase: an underscore goes and makes the next letter big. */
static struct bytes json_name(const char *name, char *buf, size_t cap)
{
    size_t n = 0;
    bool big = false;
    for (; *name && n < cap; name++) {
        if (*name == '_') {
            big = true;
            continue;
        }
        buf[n++] = big && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        big = false;
    }
    return bytes_of(buf, n);
}

static bool is_map(const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;
    size_t len = f->type == PROTOBUF_C_TYPE_MESSAGE ? strlen(d->short_name) : 0;
    return len > 5 && !strcmp(d->short_name + len - 5, "Entry") && d->n_fields == 2 &&
           !strcmp(d->fields[0].name, "key") && !strcmp(d->fields[1].name, "value");
}

/* All maps of ours have text for keys. */
static json_t *map(ProtobufCMessage *const *entries, size_t count)
{
    json_t *j = json_object();
    for (size_t i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *f = entries[i]->descriptor->fields;
        const char *base = (const char *)entries[i];
        const void *value = base + f[1].offset;
        bool none = f[1].type == PROTOBUF_C_TYPE_MESSAGE && !*(ProtobufCMessage *const *)value;
        set(j, wire_view(*(const ProtobufCBinaryData *)(const void *)(base + f[0].offset)),
            none ? json_null() : value_of(&f[1], value));
    }
    return j;
}

static json_t *repeated(const ProtobufCFieldDescriptor *f, const char *items, size_t count)
{
    if (is_map(f))
        return map((ProtobufCMessage *const *)(const void *)items, count);
    json_t *j = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(j, value_of(f, items + i * size_of(f->type)));
    return j;
}

/* NULL: it is absent. */
static json_t *field(const ProtobufCFieldDescriptor *f, const char *base)
{
    const void *p = base + f->offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return repeated(f, *(const char *const *)p,
                        *(const size_t *)(const void *)(base + f->quantifier_offset));
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t set_one = *(const uint32_t *)(const void *)(base + f->quantifier_offset);
        return set_one == f->id ? value_of(f, p) : NULL;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && !*(ProtobufCMessage *const *)p)
        return NULL;
    return value_of(f, p);
}

json_t *proto_json(const ProtobufCMessage *msg)
{
    json_t *j = well_known(msg);
    if (j)
        return j;
    j = json_object();
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &msg->descriptor->fields[i];
        json_t *value = field(f, (const char *)msg);
        char name[96];
        if (value)
            set(j, json_name(f->name, name, sizeof(name)), value);
    }
    return j;
}
