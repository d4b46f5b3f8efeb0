/* mac.h - a short keyed checksum (SipHash-2-4 with 8 bytes) for tokens that must not be made up.
 *
 * Ours, since each token needs one and OpenSSL's takes a thousand instructions to begin. Never changes after it is made:
 * any thread.
 * Tests: tests/unit/test_mac.c
 */
#pragma once

#include "base/bytes.h"

struct mac;

#define MAC_KEY_LEN 16
struct mac *mac_new(const uint8_t key[MAC_KEY_LEN]);
void mac_free(struct mac *m); /* NULL is fine */
uint64_t mac_sum(const struct mac *m, struct bytes data);
