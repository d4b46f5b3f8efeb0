/* peers.h - how many connections each address has, for the setting connections.address.
 *
 * One record for each address that has a connection now; ports do not count. Clients of Unix sockets have no address
 * and share one record. Thread-safe: one thread accepts, the loops' threads close.
 * Tests: tests/unit/test_peers.c
 */
#pragma once

#include "base/bytes.h"

struct peers;
struct peer; /* an address */

struct peers *peers_new(void);
/* Frees what is left as well: sockets on their way to a loop that has stopped. NULL is fine. */
void peers_free(struct peers *p);
/* One more connection of `name` ("HOST:PORT", copied), to be given back by peers_leave(). NULL: it has `max`
 * (> 0) already, and nothing was counted. */
struct peer *peers_enter(struct peers *p, struct bytes name, uint64_t max);
void peers_leave(struct peers *p, struct peer *peer);
