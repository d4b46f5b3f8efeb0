/* page_cache.h - SQLite's page cache without a walk through all of it at each commit.
 *
 * Internal to src/store. At the end of each transaction SQLite drops the pages beyond the end of the
 * database from its cache, of which there are none; its cache knows that by the highest page number
 * it has seen. But a page that is moved within a b-tree has the number of the lock page (262145) for
 * a moment, and then the next commit looks at every page in the cache: 4096 cache misses for 16 MiB.
 * This lies over SQLite's own cache and leaves that call out when there is nothing to drop.
 *
 * Tests: tests/store/test_page_cache.c
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Once a process, before SQLite is initialized. False: SQLite is in use already, and stays as it is. */
bool page_cache_install(void);
/* Calls of SQLite that would have walked through a cache, and those that did; for tests. */
uint64_t page_cache_truncations_left_out(void);
uint64_t page_cache_truncations_done(void);
