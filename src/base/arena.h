/* arena.h - memory that is freed all at once: one turn, one request.
 *
 * Allocations are 16-byte aligned, zeroed by arena_zalloc()/arena_new() only, and live until
 * arena_reset() or arena_free(). Blocks double from 1 KiB to 64 KiB; larger requests get a block of
 * their own. Not thread-safe, but may be handed from thread to thread. Out of memory aborts.
 * Tests: tests/unit/test_arena.c
 */
#pragma once

#include "base/bytes.h"

struct arena;

struct arena *arena_create(void);
void arena_free(struct arena *a); /* NULL is fine */
void arena_reset(struct arena *a);
size_t arena_bytes(const struct arena *a); /* memory held */

void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);
#define arena_new(a, type) ((type *)arena_zalloc((a), sizeof(type)))
#define arena_array(a, type, n) ((type *)arena_zalloc((a), sizeof(type) * (size_t)(n)))

/* Copies; a none view stays none, an empty one stays present and empty. */
struct bytes arena_dup(struct arena *a, struct bytes b);
char *arena_cstr(struct arena *a, struct bytes b); /* NUL-terminated copy */
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
