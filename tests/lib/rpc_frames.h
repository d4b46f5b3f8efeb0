/* rpc_frames.h - HTTP/2 frames made by hand, for bytes that no library would send. */
#pragma once

#include "base/strbuf.h"

void rpc_put_frame(struct strbuf *b, uint8_t type, uint8_t flags, uint32_t stream,
                   struct bytes body);
/* One field of a header block, as a literal without indexing; both texts are short. */
void rpc_put_field(struct strbuf *b, const char *name, const char *value);
