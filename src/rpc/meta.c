#include "rpc/meta.h"

#include <stdlib.h>

#include "base/assert.h"

static struct meta_pair *pairs(const struct meta *m)
{
    return m->cap > 0 ? m->more : (struct meta_pair *)(uintptr_t)m->first;
}

void meta_deinit(struct meta *m)
{
    struct meta_pair *p = pairs(m);

    for (size_t i = 0; i < m->count; i++) {
        nghttp2_rcbuf_decref(p[i].name);
        nghttp2_rcbuf_decref(p[i].value);
    }
    free(m->more);
    m->more = NULL;
    m->count = m->cap = 0;
}

void meta_add(struct meta *m, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    size_t cap = m->cap > 0 ? m->cap : META_INLINE;

    if (m->count == cap) {
        struct meta_pair *v = malloc(cap * 2 * sizeof(*v));
        ASSERT(v);
        memcpy(v, pairs(m), m->count * sizeof(*v));
        free(m->more);
        m->more = v;
        m->cap = cap * 2;
    }
    nghttp2_rcbuf_incref(name);
    nghttp2_rcbuf_incref(value);
    pairs(m)[m->count++] = (struct meta_pair){name, value};
}

struct bytes meta_find(const struct meta *m, const char *name)
{
    struct bytes want = bytes_str(name);
    const struct meta_pair *p = pairs(m);

    for (size_t i = 0; i < m->count; i++) {
        if (bytes_eq(rcbuf_bytes(p[i].name), want)) {
            struct bytes v = rcbuf_bytes(p[i].value);
            return v.ptr ? v : bytes_of("", 0);
        }
    }
    return BYTES_NONE;
}

struct bytes meta_get(const struct meta *m, const char *name, struct arena **arena)
{
    struct bytes raw = meta_find(m, name);
    size_t name_len = strlen(name), len;

    if (bytes_is_none(raw) || name_len < 4 || memcmp(name + name_len - 4, "-bin", 4) != 0)
        return raw;
    const uint8_t *comma = raw.len ? memchr(raw.ptr, ',', raw.len) : NULL;
    if (comma) /* several values joined by a proxy: the first */
        raw.len = (size_t)(comma - raw.ptr);
    if (!*arena)
        *arena = arena_create();
    uint8_t *out = arena_alloc(*arena, raw.len + 1);
    return base64_decode(raw, out, &len) ? bytes_of(out, len) : BYTES_NONE;
}
