/* mac.h - a short keyed checksum (SipHash-2-4 with 8 bytes, by OpenSSL) for tokens that must not be made up.
 *
 * Not thread-safe: one struct mac per thread.
 * Tests: tests/unit/test_mac.c
 */
#pragma once

#include "base/bytes.h"

struct mac;

#define MAC_KEY_LEN 16
struct mac *mac_new(const uint8_t key[MAC_KEY_LEN]); /* aborts if OpenSSL has no SipHash */
void mac_free(struct mac *m);                        /* NULL is fine */
uint64_t mac_sum(struct mac *m, struct bytes data);
