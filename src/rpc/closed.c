/* closed.c - frames for streams that are gone.
 *
 * nghttp2 would keep every closed stream, as many as may be open, to tell a late frame from a wrong one;
 * with thousands of calls a connection that is megabytes each, so it is told not to, and then ignores
 * them all. Here the last few are remembered, and DATA and HEADERS on one that the peer itself has ended
 * end the connection (RFC 9113, 5.1). If this side ended it, its frames were on their way: ignored.
 *
 * HEADERS are seen by nghttp2's callback. DATA it drops without a word, so the frame headers are read
 * here as well, just enough to find them.
 */
#include "rpc/internal.h"

#define FRAME_HEAD_LEN 9

void closed_remember(struct rpc_conn *c, const struct rpc_call *call)
{
    struct closed_streams *cs = &c->closed;

    cs->last[cs->next].stream_id = call->stream_id;
    cs->last[cs->next].peer_ended = call->half_closed || call->peer_reset;
    cs->next = (cs->next + 1) % ARRAY_LEN(cs->last);
}

static void check_closed_stream(struct rpc_conn *c, int32_t stream_id, uint8_t type)
{
    const struct closed_streams *cs = &c->closed;
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(cs->last); i++) {
        if (cs->last[i].stream_id != stream_id)
            continue;
        if (!cs->last[i].peer_ended)
            return;
        known = true;
    }
    if (known)
        (void)nghttp2_session_terminate_session(c->session, NGHTTP2_STREAM_CLOSED);
    else if (type == NGHTTP2_HEADERS) /* gRPC has no request trailers: a number that goes back */
        (void)nghttp2_session_terminate_session(c->session, NGHTTP2_PROTOCOL_ERROR);
}

void closed_check_headers(struct rpc_conn *c, int32_t stream_id)
{
    if (stream_id > c->closed.newest)
        c->closed.newest = stream_id;
    else if ((stream_id & 1) && !nghttp2_session_find_stream(c->session, stream_id))
        check_closed_stream(c, stream_id, NGHTTP2_HEADERS);
}

/* The frame whose header is in cs->head. True: it may be DATA on a stream that is gone, so what comes
 * before it has to be processed first. */
static bool is_suspect(struct rpc_conn *c, int32_t *stream_id)
{
    struct closed_streams *cs = &c->closed;
    const uint8_t *h = cs->head;
    uint8_t type = h[3], flags = h[4];
    bool suspect;

    *stream_id = (int32_t)((uint32_t)(h[5] & 0x7f) << 24 | (uint32_t)h[6] << 16 |
                           (uint32_t)h[7] << 8 | h[8]);
    cs->skip = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    cs->head_len = 0;
    suspect = type == NGHTTP2_DATA && (*stream_id == cs->ended || *stream_id <= cs->newest);
    if (suspect && *stream_id != cs->ended && nghttp2_session_find_stream(c->session, *stream_id))
        suspect = false;
    if (type == NGHTTP2_RST_STREAM ||
        ((type == NGHTTP2_DATA || type == NGHTTP2_HEADERS) && (flags & NGHTTP2_FLAG_END_STREAM)))
        cs->ended = *stream_id;
    return suspect;
}

/* Reads on from in[i]. True: *at is where a suspect frame's header begins (0 if it began in earlier
 * bytes), *next where to go on. */
static bool find_suspect(struct rpc_conn *c, struct bytes in, size_t i, size_t *at, size_t *next,
                         int32_t *stream_id)
{
    struct closed_streams *cs = &c->closed;

    while (i < in.len) {
        if (cs->skip > 0) {
            size_t n = MIN(cs->skip, in.len - i);
            cs->skip -= n;
            i += n;
            continue;
        }
        size_t n = MIN((size_t)(FRAME_HEAD_LEN - cs->head_len), in.len - i);
        memcpy(cs->head + cs->head_len, in.ptr + i, n);
        size_t begun = cs->head_len;
        cs->head_len = (uint8_t)(cs->head_len + n);
        if (cs->head_len < FRAME_HEAD_LEN)
            return false;
        *at = begun > 0 ? 0 : i;
        i += n;
        if (is_suspect(c, stream_id)) {
            *next = i;
            return true;
        }
    }
    return false;
}

ssize_t closed_recv(struct rpc_conn *c, struct bytes in)
{
    size_t fed = 0, at, next = 0;
    int32_t stream_id;

    c->closed.ended = -1;
    while (find_suspect(c, in, next, &at, &next, &stream_id)) {
        ssize_t n = at > fed ? nghttp2_session_mem_recv(c->session, in.ptr + fed, at - fed) : 0;
        if (n < 0)
            return n;
        fed = MAX(fed, at);
        if (!nghttp2_session_find_stream(c->session, stream_id))
            check_closed_stream(c, stream_id, NGHTTP2_DATA);
    }
    return nghttp2_session_mem_recv(c->session, in.ptr + fed, in.len - fed);
}
