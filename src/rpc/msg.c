/* msg.c - one message to send, with its gRPC prefix in front, counted. */
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/internal.h"

struct rpc_msg *rpc_msg_new(size_t len)
{
    ASSERT(len <= UINT32_MAX);
    struct rpc_msg *m = malloc(sizeof(*m) + RPC_PREFIX_LEN + len);
    ASSERT(m);
    m->refs = 1;
    m->len = len;
    m->frame[0] = 0;
    m->frame[1] = (uint8_t)(len >> 24);
    m->frame[2] = (uint8_t)(len >> 16);
    m->frame[3] = (uint8_t)(len >> 8);
    m->frame[4] = (uint8_t)len;
    return m;
}

uint8_t *rpc_msg_data(struct rpc_msg *m)
{
    return m->frame + RPC_PREFIX_LEN;
}

size_t rpc_msg_len(const struct rpc_msg *m)
{
    return m->len;
}

struct rpc_msg *rpc_msg_ref(struct rpc_msg *m)
{
    m->refs++;
    return m;
}

void rpc_msg_unref(struct rpc_msg *m)
{
    if (m && --m->refs == 0)
        free(m);
}

void msg_queue_push(struct msg_queue *q, struct rpc_msg *m)
{
    if (q->count == q->cap) {
        unsigned cap = q->cap == 0 ? 4 : q->cap * 2;
        struct rpc_msg **v = malloc(cap * sizeof(struct rpc_msg *));
        ASSERT(v);
        for (unsigned i = 0; i < q->count; i++)
            v[i] = q->v[(q->head + i) % q->cap];
        free(q->v);
        q->v = v;
        q->cap = cap;
        q->head = 0;
    }
    q->v[(q->head + q->count) % q->cap] = m;
    q->count++;
    q->bytes += m->len + RPC_PREFIX_LEN;
}

static void pop(struct msg_queue *q)
{
    rpc_msg_unref(q->v[q->head]);
    q->head = (q->head + 1) % q->cap;
    q->count--;
    q->offset = 0;
}

void msg_queue_take(struct msg_queue *q, uint8_t *out, size_t len)
{
    ASSERT(len <= q->bytes);
    q->bytes -= len;
    while (len > 0) {
        struct rpc_msg *m = q->v[q->head];
        size_t left = RPC_PREFIX_LEN + m->len - q->offset;
        size_t n = MIN(left, len);
        memcpy(out, m->frame + q->offset, n);
        out += n;
        len -= n;
        q->offset += n;
        if (n == left)
            pop(q);
    }
}

void msg_queue_drop_unbegun(struct msg_queue *q)
{
    unsigned keep = q->offset > 0 ? 1 : 0;

    while (q->count > keep) {
        struct rpc_msg *m = q->v[(q->head + q->count - 1) % q->cap];
        q->bytes -= m->len + RPC_PREFIX_LEN;
        rpc_msg_unref(m);
        q->count--;
    }
}

void msg_queue_deinit(struct msg_queue *q)
{
    while (q->count > 0)
        pop(q);
    free(q->v);
    memset(q, 0, sizeof(*q));
}
