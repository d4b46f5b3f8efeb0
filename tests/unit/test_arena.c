/* Memory freed all at once: arena.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/prng.h"

static void is_zeroed(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(p[i], 0);
}

/* Random sizes over many resets: aligned, apart from each other, and zeroed where promised. */
static void allocations_are_aligned_and_disjoint(void **state)
{
    struct arena *a = arena_create();
    struct prng prng;
    (void)state;
    prng_seed(&prng, 1);
    for (int round = 0; round < 50; round++) {
        uint8_t *ptrs[200];
        size_t sizes[200];
        for (size_t i = 0; i < ARRAY_LEN(ptrs); i++) {
            size_t limit = prng_below(&prng, 20) == 0 ? KIB(100) : 200;
            sizes[i] = prng_below(&prng, limit);
            ptrs[i] = arena_zalloc(a, sizes[i]);
            assert_int_equal((uintptr_t)ptrs[i] % 16, 0);
            is_zeroed(ptrs[i], sizes[i]);
            memset(ptrs[i], (int)i, sizes[i]);
        }
        for (size_t i = 0; i < ARRAY_LEN(ptrs); i++) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(ptrs[i][k], (uint8_t)i);
        }
        arena_reset(a);
    }
    arena_free(a);
    arena_free(NULL);
}

/* A long-lived arena keeps one block of at most 64 KiB, however large a turn was. */
static void reset_gives_memory_back(void **state)
{
    struct arena *a = arena_create();
    (void)state;
    size_t fresh = arena_bytes(a);
    assert_true(fresh > 0 && fresh <= KIB(1));
    (void)arena_alloc(a, MIB(1));
    assert_true(arena_bytes(a) > MIB(1));
    arena_reset(a);
    assert_int_equal(arena_bytes(a), fresh);
    for (int i = 0; i < 10000; i++)
        (void)arena_alloc(a, 100);
    assert_true(arena_bytes(a) > 10000 * 100);
    arena_reset(a);
    assert_true(arena_bytes(a) <= KIB(65));
    size_t held = arena_bytes(a);
    for (int i = 0; i < 500; i++)
        (void)arena_alloc(a, 100);
    assert_int_equal(arena_bytes(a), held); /* the kept block serves the next turn */
    arena_free(a);
}

static void large_blocks_leave_the_current_one_in_use(void **state)
{
    struct arena *a = arena_create();
    (void)state;
    uint8_t *first = arena_alloc(a, 16);
    (void)arena_alloc(a, KIB(500));
    uint8_t *second = arena_alloc(a, 16);
    assert_ptr_equal(second, first + 16);
    arena_free(a);
}

static void copies_keep_none_and_empty(void **state)
{
    struct arena *a = arena_create();
    (void)state;
    char text[] = "text";
    struct bytes copy = arena_dup(a, bytes_of(text, 4));
    char *s = arena_cstr(a, bytes_of(text, 3));
    text[0] = 'n';
    assert_true(bytes_eq(copy, BYTES_LIT("text")));
    assert_string_equal(s, "tex");
    assert_true(bytes_is_none(arena_dup(a, BYTES_NONE)));
    struct bytes empty = arena_dup(a, BYTES_LIT(""));
    assert_true(!bytes_is_none(empty) && empty.len == 0);
    assert_string_equal(arena_cstr(a, BYTES_NONE), "");
    arena_free(a);
}

static void prints_short_and_long(void **state)
{
    struct arena *a = arena_create();
    (void)state;
    assert_string_equal(arena_printf(a, "%d-%s", 5, "x"), "5-x");
    for (int width = 250; width < 260; width++) { /* about the size of its own buffer */
        const char *s = arena_printf(a, "%*d", width, 3);
        assert_int_equal(strlen(s), width);
        assert_int_equal(s[width - 1], '3');
    }
    arena_free(a);
}

static void arrays_and_structs_are_typed(void **state)
{
    struct arena *a = arena_create();
    (void)state;
    uint64_t *numbers = arena_array(a, uint64_t, 100);
    struct bytes *view = arena_new(a, struct bytes);
    is_zeroed((const uint8_t *)numbers, 800);
    assert_true(bytes_is_none(*view));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_disjoint),
        cmocka_unit_test(reset_gives_memory_back),
        cmocka_unit_test(large_blocks_leave_the_current_one_in_use),
        cmocka_unit_test(copies_keep_none_and_empty),
        cmocka_unit_test(prints_short_and_long),
        cmocka_unit_test(arrays_and_structs_are_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
