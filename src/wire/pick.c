#include "wire/pick.h"

#include "wire/reader.h"

/* clang-format off */
static const struct {
    uint32_t instance, task, token; /* field numbers; 0: there is none */
} FIELDS[] = {
    [WIRE_PICK_ORCHESTRATOR] = {1, 0, 4},
    [WIRE_PICK_ACTIVITY]     = {1, 2, 5},
    [WIRE_PICK_ENTITY]       = {0, 0, 5},
};
/* clang-format on */

void wire_pick_init(struct wire_pick *p, enum wire_pick_kind kind)
{
    memset(p, 0, offsetof(struct wire_pick, instance_bytes));
    p->kind = kind;
    p->phase = WIRE_PICK_TAG;
    p->instance = (struct wire_pick_text){.at = p->instance_bytes, .cap = WIRE_PICK_INSTANCE_MAX};
    p->token = (struct wire_pick_text){.at = p->token_bytes, .cap = WIRE_PICK_TOKEN_MAX};
}

/* Adds a byte to the varint; true when that was the last one. */
static bool varint_step(struct wire_pick *p, uint8_t byte)
{
    if (p->varint_bytes == 9 && byte > 1) {
        p->is_bad = true;
        return false;
    }
    p->varint |= (uint64_t)(byte & 0x7f) << (7 * p->varint_bytes++);
    return byte < 0x80;
}

static void phase_begin(struct wire_pick *p, enum wire_pick_phase phase)
{
    p->phase = phase;
    p->varint = 0;
    p->varint_bytes = 0;
}

static void content_begin(struct wire_pick *p, uint64_t len)
{
    if (p->into) { /* a later one wins, also over a whole one */
        p->into->is_found = false;
        p->into->len = 0;
    }
    p->left = len;
    p->phase = WIRE_PICK_CONTENT;
}

static void content_end(struct wire_pick *p)
{
    if (p->into)
        p->into->is_found = p->into->len <= p->into->cap;
    phase_begin(p, WIRE_PICK_TAG);
}

static void tag_take(struct wire_pick *p)
{
    uint64_t tag = p->varint;

    if (tag > UINT32_MAX || tag >> 3 == 0 || p->varint_bytes > 5) {
        p->is_bad = true;
        return;
    }
    p->number = (uint32_t)(tag >> 3);
    p->into = NULL;
    if (p->group_depth == 0 && p->number == FIELDS[p->kind].instance)
        p->into = &p->instance;
    else if (p->group_depth == 0 && p->number == FIELDS[p->kind].token)
        p->into = &p->token;

    switch (tag & 7) {
    case WIRE_VARINT:
        phase_begin(p, WIRE_PICK_NUMBER);
        break;
    case WIRE_BYTES:
        phase_begin(p, WIRE_PICK_LENGTH);
        break;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        p->into = NULL;
        content_begin(p, (tag & 7) == WIRE_FIXED64 ? 8 : 4);
        break;
    case WIRE_GROUP: /* nothing inside is ours, however deep */
        p->group_depth++;
        phase_begin(p, WIRE_PICK_TAG);
        break;
    case WIRE_GROUP_END:
        p->is_bad = p->group_depth == 0;
        p->group_depth -= !p->is_bad;
        phase_begin(p, WIRE_PICK_TAG);
        break;
    default:
        p->is_bad = true;
    }
}

static void number_take(struct wire_pick *p)
{
    if (p->group_depth == 0 && p->number == FIELDS[p->kind].task) {
        p->task = (int32_t)(uint32_t)p->varint;
        p->has_task = true;
    }
    phase_begin(p, WIRE_PICK_TAG);
}

/* Takes as much of the content as is there; returns how much. */
static size_t content_step(struct wire_pick *p, struct bytes piece)
{
    size_t take = (size_t)MIN((uint64_t)piece.len, p->left);
    struct wire_pick_text *into = p->into;

    if (into) {
        size_t room = into->len < into->cap ? into->cap - into->len : 0;
        if (take)
            memcpy(into->at + MIN(into->len, into->cap), piece.ptr, MIN(take, room));
        into->len += take; /* past cap: too long */
    }
    p->left -= take;
    if (p->left == 0)
        content_end(p);
    return take;
}

void wire_pick_feed(struct wire_pick *p, struct bytes piece)
{
    while (piece.len > 0 && !p->is_bad) {
        if (p->phase == WIRE_PICK_CONTENT) {
            size_t used = content_step(p, piece);
            piece = bytes_of(piece.ptr + used, piece.len - used);
            continue;
        }
        bool is_whole = varint_step(p, *piece.ptr);
        piece = bytes_of(piece.ptr + 1, piece.len - 1);
        if (!is_whole)
            continue;
        if (p->phase == WIRE_PICK_TAG) {
            tag_take(p);
        } else if (p->phase == WIRE_PICK_NUMBER) {
            number_take(p);
        } else {
            content_begin(p, p->varint);
            if (p->left == 0)
                content_end(p);
        }
    }
}

struct bytes wire_pick_instance(const struct wire_pick *p)
{
    return p->instance.is_found ? bytes_of(p->instance.at, p->instance.len) : BYTES_NONE;
}

struct bytes wire_pick_token(const struct wire_pick *p)
{
    return p->token.is_found ? bytes_of(p->token.at, p->token.len) : BYTES_NONE;
}
