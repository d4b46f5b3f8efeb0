#include "rpc_frames.h"

void rpc_put_frame(struct strbuf *b, uint8_t type, uint8_t flags, uint32_t stream,
                   struct bytes body)
{
    const uint8_t head[9] = {(uint8_t)(body.len >> 16),
                             (uint8_t)(body.len >> 8),
                             (uint8_t)body.len,
                             type,
                             flags,
                             (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16),
                             (uint8_t)(stream >> 8),
                             (uint8_t)stream};

    strbuf_append(b, head, sizeof(head));
    strbuf_append_bytes(b, body);
}

void rpc_put_field(struct strbuf *b, const char *name, const char *value)
{
    strbuf_append_char(b, 0); /* literal without indexing */
    strbuf_append_char(b, (char)strlen(name));
    strbuf_append_str(b, name);
    strbuf_append_char(b, (char)strlen(value));
    strbuf_append_str(b, value);
}
