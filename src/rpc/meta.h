/* meta.h - the metadata of one header block, as nghttp2's counted buffers: nothing is copied.
 *
 * A zeroed struct is an empty list. Tests: tests/unit/test_rpc_server.c
 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "base/bytes.h"

#define META_INLINE 12

struct meta_pair {
    nghttp2_rcbuf *name, *value;
};

struct meta {
    size_t count, cap; /* cap 0: the inline array */
    struct meta_pair *more;
    struct meta_pair first[META_INLINE];
};

void meta_deinit(struct meta *m); /* leaves it empty */
void meta_add(struct meta *m, nghttp2_rcbuf *name,
              nghttp2_rcbuf *value); /* takes a reference of each */
/* The first of that lowercase name, as it came; BYTES_NONE when absent. */
struct bytes meta_find(const struct meta *m, const char *name);
/* The same with `-bin` values decoded into *arena (made when needed). Undecodable: BYTES_NONE. */
struct bytes meta_get(const struct meta *m, const char *name, struct arena **arena);

static inline struct bytes rcbuf_bytes(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);
    return bytes_of(v.base, v.len);
}
