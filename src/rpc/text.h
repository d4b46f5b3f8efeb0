/* text.h - the small texts of gRPC over HTTP/2: percent-encoded messages and time-outs.
 *
 * Pure functions. Tests: tests/unit/test_rpc_text.c
 */
#pragma once

#include "base/bytes.h"
#include "base/strbuf.h"
#include "base/time.h"

/* Appends `in` as grpc-message wants it: printable ASCII but '%' stays, all else becomes %XX. */
void rpc_percent_encode(struct bytes in, struct strbuf *out);
/* Appends the decoded text; a broken escape is kept as it is, as gRPC asks. */
void rpc_percent_decode(struct bytes in, struct strbuf *out);

/* grpc-timeout: 1 to 8 digits and one of H M S m u n. False: malformed. Nanoseconds are rounded up. */
bool rpc_timeout_parse(struct bytes text, usec_t *out);
#define RPC_TIMEOUT_LEN 12
/* The shortest text that is not less than `timeout` (> 0); returns its length. */
size_t rpc_timeout_format(usec_t timeout, char out[RPC_TIMEOUT_LEN]);
