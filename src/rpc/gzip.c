#include "rpc/gzip.h"

#include <stdlib.h>

#include <zlib.h>

#include "base/assert.h"

#define PIECE_BYTES KIB(64)

struct gunzip {
    z_stream z;
    bool ended;
    uint8_t out[PIECE_BYTES];
};

struct gunzip *gunzip_new(void)
{
    struct gunzip *g = malloc(sizeof(*g));
    ASSERT(g);
    memset(&g->z, 0, sizeof(g->z));
    g->ended = false;
    ASSERT(inflateInit2(&g->z, MAX_WBITS + 16) == Z_OK); /* + 16: a gzip header, no zlib one */
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    free(g);
}

/* Inflates what z.next_in has until it is used up or the end is reached. */
static enum gunzip_result inflate_all(struct gunzip *g, bool (*piece)(void *, struct bytes),
                                      void *arg)
{
    for (;;) {
        g->z.next_out = g->out;
        g->z.avail_out = PIECE_BYTES;
        int rv = inflate(&g->z, Z_NO_FLUSH);
        if (rv != Z_OK && rv != Z_STREAM_END && rv != Z_BUF_ERROR)
            return GUNZIP_BAD;
        size_t n = PIECE_BYTES - g->z.avail_out;
        if (n > 0 && !piece(arg, bytes_of(g->out, n)))
            return GUNZIP_STOPPED;
        if (rv == Z_STREAM_END) {
            g->ended = true;
            return g->z.avail_in == 0 ? GUNZIP_END : GUNZIP_BAD;
        }
        if (g->z.avail_in == 0 && g->z.avail_out != 0)
            return GUNZIP_MORE;
        if (rv == Z_BUF_ERROR && n == 0)
            return GUNZIP_MORE;
    }
}

enum gunzip_result gunzip_feed(struct gunzip *g, struct bytes in,
                               bool (*piece)(void *, struct bytes), void *arg)
{
    if (g->ended)
        return in.len == 0 ? GUNZIP_END : GUNZIP_BAD;
    while (in.len > 0) {
        size_t n = MIN(in.len, MIB(16)); /* zlib counts in unsigned int */
        g->z.next_in = (z_const Bytef *)(uintptr_t)in.ptr;
        g->z.avail_in = (uInt)n;
        in = bytes_of(in.ptr + n, in.len - n);
        enum gunzip_result r = inflate_all(g, piece, arg);
        if (r == GUNZIP_END && in.len > 0)
            return GUNZIP_BAD;
        if (r != GUNZIP_MORE)
            return r;
    }
    return GUNZIP_MORE;
}

void gzip_compress(struct bytes in, struct strbuf *out)
{
    z_stream z = {0};

    ASSERT(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK);
    size_t bound = deflateBound(&z, in.len);
    z.next_in = (z_const Bytef *)(uintptr_t)in.ptr;
    size_t left_in = in.len, left_out = bound;
    z.next_out = strbuf_reserve(out, bound);
    int rv;
    do {
        size_t n_in = MIN(left_in, MIB(16)), n_out = MIN(left_out, MIB(16));
        z.avail_in = (uInt)n_in;
        z.avail_out = (uInt)n_out;
        rv = deflate(&z, left_in == n_in ? Z_FINISH : Z_NO_FLUSH);
        left_in -= n_in - z.avail_in;
        left_out -= n_out - z.avail_out;
    } while (rv == Z_OK);
    ASSERT(rv == Z_STREAM_END);
    out->len += bound - left_out;
    deflateEnd(&z);
}
