/* arena.c - bump allocation in blocks.
 *
 * The first block lies behind the struct itself, so a small arena is one malloc(). Blocks double;
 * what does not fit in half a block of the largest size gets one of its own, behind the current
 * one, which goes on being filled. A reset keeps the newest, largest block. Under the address
 * sanitizer memory that is not handed out is poisoned: a use after a reset is caught.
 */
#include "base/arena.h"

#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#define ARENA_ALIGN ((size_t)16)
#define BLOCK_BYTES_MIN KIB(1)
#define BLOCK_BYTES_MAX KIB(64)

struct block {
    struct block *older;
    size_t size; /* with this header */
};

struct arena {
    uint8_t *pos, *end;    /* free part of the current block */
    struct block *current; /* newest of the doubling blocks, NULL: the inline one */
    struct block *large;   /* blocks of their own */
    size_t held;           /* all memory, with this struct */
    size_t next_size;
};

static_assert(sizeof(struct block) % ARENA_ALIGN == 0, "payload of a block is aligned");
static_assert(sizeof(struct arena) % ARENA_ALIGN == 0, "payload of the first block is aligned");

static void use_inline(struct arena *a)
{
    a->pos = (uint8_t *)(a + 1);
    a->end = (uint8_t *)a + BLOCK_BYTES_MIN;
    a->current = NULL;
    a->next_size = 2 * BLOCK_BYTES_MIN;
    ASAN_POISON_MEMORY_REGION(a->pos, (size_t)(a->end - a->pos));
}

static void use_block(struct arena *a, struct block *b)
{
    a->pos = (uint8_t *)(b + 1);
    a->end = (uint8_t *)b + b->size;
    a->current = b;
    ASAN_POISON_MEMORY_REGION(a->pos, (size_t)(a->end - a->pos));
}

static struct block *new_block(struct arena *a, size_t size, struct block *older)
{
    struct block *b = malloc(size);
    ASSERT(b);
    b->older = older;
    b->size = size;
    a->held += size;
    return b;
}

static void free_blocks(struct arena *a, struct block *b)
{
    while (b) {
        struct block *older = b->older;
        a->held -= b->size;
        free(b);
        b = older;
    }
}

struct arena *arena_create(void)
{
    struct arena *a = malloc(BLOCK_BYTES_MIN);
    ASSERT(a);
    a->large = NULL;
    a->held = BLOCK_BYTES_MIN;
    use_inline(a);
    return a;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    free_blocks(a, a->current);
    free_blocks(a, a->large);
    free(a);
}

void arena_reset(struct arena *a)
{
    free_blocks(a, a->large);
    a->large = NULL;
    if (!a->current) {
        use_inline(a);
        return;
    }
    free_blocks(a, a->current->older);
    a->current->older = NULL;
    use_block(a, a->current);
}

size_t arena_bytes(const struct arena *a)
{
    return a->held;
}

/* `size` is rounded up and not in the current block. */
static void *alloc_slow(struct arena *a, size_t size)
{
    if (size > BLOCK_BYTES_MAX / 2) {
        a->large = new_block(a, sizeof(struct block) + size, a->large);
        return a->large + 1;
    }
    while (a->next_size < sizeof(struct block) + size)
        a->next_size *= 2;
    use_block(a, new_block(a, a->next_size, a->current));
    a->next_size = MIN(a->next_size * 2, BLOCK_BYTES_MAX);
    void *p = a->pos;
    a->pos += size;
    return p;
}

void *arena_alloc(struct arena *a, size_t size)
{
    ASSERT(size <= SIZE_MAX / 2);
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
    void *p;

    if (LIKELY(rounded <= (size_t)(a->end - a->pos))) {
        p = a->pos;
        a->pos += rounded;
    } else {
        p = alloc_slow(a, rounded);
    }
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    return memset(arena_alloc(a, size), 0, size);
}

struct bytes arena_dup(struct arena *a, struct bytes b)
{
    if (bytes_is_none(b))
        return BYTES_NONE;
    uint8_t *p = arena_alloc(a, b.len);
    if (b.len > 0)
        memcpy(p, b.ptr, b.len);
    return bytes_of(p, b.len);
}

char *arena_cstr(struct arena *a, struct bytes b)
{
    char *s = arena_alloc(a, b.len + 1);
    if (b.len > 0)
        memcpy(s, b.ptr, b.len);
    s[b.len] = '\0';
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    char small[256];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    size_t size = (size_t)n + 1;
    char *s = arena_alloc(a, size);
    if (size <= sizeof(small))
        return memcpy(s, small, size);
    va_start(ap, fmt);
    int n2 = vsnprintf(s, size, fmt, ap);
    va_end(ap);
    ASSERT(n2 == n);
    return s;
}
