#include "grpc_testing.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct field {
    uint32_t number;
    uint64_t value;     /* varint */
    struct bytes bytes; /* length-delimited */
};

static bool take_varint(struct bytes *b, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && b->len > 0; shift += 7) {
        uint8_t c = *b->ptr;
        *b = bytes_of(b->ptr + 1, b->len - 1);
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

/* 1: a field; 0: the end; -1: malformed. */
static int next_field(struct bytes *b, struct field *f)
{
    uint64_t key, n;

    if (b->len == 0)
        return 0;
    *f = (struct field){0};
    if (!take_varint(b, &key))
        return -1;
    f->number = (uint32_t)(key >> 3);
    if ((key & 7) == 0)
        return take_varint(b, &f->value) ? 1 : -1;
    if ((key & 7) != 2 || !take_varint(b, &n) || n > b->len)
        return -1;
    f->bytes = bytes_of(b->ptr, (size_t)n);
    *b = bytes_of(b->ptr + n, b->len - (size_t)n);
    return 1;
}

static bool payload_length(struct bytes payload, size_t *len)
{
    struct field f;
    int rv;

    while ((rv = next_field(&payload, &f)) > 0)
        if (f.number == 2)
            *len = f.bytes.len;
    return rv == 0;
}

static bool parse_status(struct bytes b, struct gt_request *out)
{
    struct field f;
    int rv;

    out->has_status = true;
    while ((rv = next_field(&b, &f)) > 0) {
        if (f.number == 1)
            out->status = (uint32_t)f.value;
        else if (f.number == 2)
            out->status_message = f.bytes;
    }
    return rv == 0;
}

static bool parse_parameters(struct bytes b, struct gt_request *out)
{
    struct field f;
    int rv;

    if (out->parameter_count == GT_PARAMETERS_MAX)
        return false;
    size_t i = out->parameter_count++;
    while ((rv = next_field(&b, &f)) > 0) {
        if (f.number == 1)
            out->parameters[i].size = (uint32_t)f.value;
        else if (f.number == 2)
            out->parameters[i].interval_us = (uint32_t)f.value;
    }
    return rv == 0;
}

bool gt_parse_request(enum gt_kind kind, struct bytes msg, struct gt_request *out)
{
    struct field f;
    int rv;
    bool ok = true;

    memset(out, 0, sizeof(*out));
    while (ok && (rv = next_field(&msg, &f)) > 0) {
        if (f.number == (kind == GT_STREAMING_INPUT ? 1 : 3))
            ok = payload_length(f.bytes, &out->payload_len);
        else if (f.number == 2 && kind == GT_SIMPLE)
            out->response_size = (uint32_t)f.value;
        else if (f.number == 2 && kind == GT_STREAMING_OUTPUT)
            ok = parse_parameters(f.bytes, out);
        else if (f.number == 7)
            ok = parse_status(f.bytes, out);
    }
    return ok && rv == 0;
}

bool gt_parse_answer(struct bytes msg, size_t *len)
{
    struct field f;
    int rv;

    *len = 0;
    while ((rv = next_field(&msg, &f)) > 0)
        if (f.number == 1 && !payload_length(f.bytes, len))
            return false;
    return rv == 0;
}

bool gt_parse_aggregate(struct bytes msg, uint32_t *size)
{
    struct field f;
    int rv;

    *size = 0;
    while ((rv = next_field(&msg, &f)) > 0)
        if (f.number == 1)
            *size = (uint32_t)f.value;
    return rv == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_varint(struct strbuf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        strbuf_append_char(out, (char)(0x80 | (v & 0x7f)));
    strbuf_append_char(out, (char)v);
}

static void put_number(struct strbuf *out, uint32_t field, uint64_t v)
{
    if (v == 0)
        return;
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, v);
}

static void put_bytes(struct strbuf *out, uint32_t field, struct bytes b)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, b.len);
    strbuf_append_bytes(out, b);
}

/* Payload{body: `size` zeros} as field `field`. */
static void put_payload(struct strbuf *out, uint32_t field, size_t size)
{
    struct strbuf p = {0};

    put_varint(&p, 2 << 3 | 2);
    put_varint(&p, size);
    memset(strbuf_reserve(&p, size + 1), 0, size);
    p.len += size;
    put_bytes(out, field, strbuf_bytes(&p));
    strbuf_deinit(&p);
}

void gt_write_answer(size_t size, struct strbuf *out)
{
    put_payload(out, 1, size);
}

void gt_write_aggregate(uint32_t size, struct strbuf *out)
{
    put_number(out, 1, size);
}

void gt_write_request(enum gt_kind kind, const struct gt_request *r, struct strbuf *out)
{
    struct strbuf sub = {0};

    if (kind == GT_SIMPLE)
        put_number(out, 2, r->response_size);
    for (size_t i = 0; kind == GT_STREAMING_OUTPUT && i < r->parameter_count; i++) {
        strbuf_reset(&sub);
        put_number(&sub, 1, r->parameters[i].size);
        put_number(&sub, 2, r->parameters[i].interval_us);
        put_bytes(out, 2, strbuf_bytes(&sub));
    }
    if (r->payload_len > 0)
        put_payload(out, kind == GT_STREAMING_INPUT ? 1 : 3, r->payload_len);
    if (r->has_status) {
        strbuf_reset(&sub);
        put_number(&sub, 1, r->status);
        put_bytes(&sub, 2, r->status_message);
        put_bytes(out, 7, strbuf_bytes(&sub));
    }
    strbuf_deinit(&sub);
}
