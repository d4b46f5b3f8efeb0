/* gzip.h - gRPC's gzip message compression, bounded.
 *
 * Tests: tests/unit/test_rpc_text.c, tests/unit/test_rpc_conn.c
 */
#pragma once

#include "base/bytes.h"
#include "base/strbuf.h"

struct gunzip;

struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g); /* NULL is fine */
enum gunzip_result { GUNZIP_MORE, GUNZIP_END, GUNZIP_BAD, GUNZIP_STOPPED };
/* Feeds compressed bytes; `piece` gets what comes out, in pieces of up to 64 KiB, and returns false to stop.
 * GUNZIP_END: the stream is complete (bytes behind its end make it GUNZIP_BAD). */
enum gunzip_result gunzip_feed(struct gunzip *g, struct bytes in,
                               bool (*piece)(void *arg, struct bytes out), void *arg);

/* Appends the compressed form. */
void gzip_compress(struct bytes in, struct strbuf *out);
