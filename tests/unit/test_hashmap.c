/* The intrusive hash table, held to a plain array: hashmap.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hashmap.h"
#include "base/prng.h"

struct entry {
    struct hash_node node;
    uint64_t key;
    bool in, seen;
};

static struct entry *entry_of(struct hash_node *n)
{
    return n ? CONTAINER_OF(n, struct entry, node) : NULL;
}

static bool has_key(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct entry, node)->key == *(const uint64_t *)key;
}

static struct entry *find(const struct hashmap *m, uint64_t key, uint64_t hash)
{
    return entry_of(hashmap_find(m, hash, has_key, &key));
}

static void an_empty_table_finds_nothing(void **state)
{
    struct hashmap m = {0};
    (void)state;
    assert_null(find(&m, 1, 1));
    assert_null(hashmap_first(&m));
    HASHMAP_FOR_EACH (&m, n)
        fail();
    hashmap_deinit(&m);
    assert_null(find(&m, 1, 1));
}

/* Random inserts and removals; few distinct hashes, so that chains are long. */
static void agrees_with_an_array(void **state)
{
    static struct entry entries[500];
    struct hashmap m = {0};
    struct prng prng;
    size_t count = 0;
    (void)state;
    prng_seed(&prng, 7);
    for (int step = 0; step < 20000; step++) {
        size_t i = prng_below(&prng, ARRAY_LEN(entries));
        struct entry *e = &entries[i];
        uint64_t hash = i % 3 == 0 ? i % 7 : hash_u64(i);
        e->key = i;
        assert_ptr_equal(find(&m, i, hash), e->in ? e : NULL);
        if (e->in) {
            hashmap_remove(&m, &e->node);
            count--;
        } else {
            hashmap_insert(&m, &e->node, hash);
            count++;
        }
        e->in = !e->in;
        assert_int_equal(m.count, count);
    }
    size_t walked = 0;
    HASHMAP_FOR_EACH (&m, n) {
        assert_true(entry_of(n)->in && !entry_of(n)->seen);
        entry_of(n)->seen = true;
        walked++;
    }
    assert_int_equal(walked, count);
    hashmap_deinit(&m);
}

static void the_walk_may_remove_its_entry(void **state)
{
    static struct entry entries[100];
    struct hashmap m = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
        entries[i].key = i;
        hashmap_insert(&m, &entries[i].node, hash_u64(i));
    }
    HASHMAP_FOR_EACH (&m, n) {
        if (entry_of(n)->key % 2)
            hashmap_remove(&m, n);
    }
    assert_int_equal(m.count, 50);
    for (uint64_t i = 0; i < ARRAY_LEN(entries); i++)
        assert_int_equal(find(&m, i, hash_u64(i)) != NULL, i % 2 == 0);
    hashmap_deinit(&m);
}

static void equal_keys_may_be_in_it_twice(void **state)
{
    struct entry a = {.key = 1}, b = {.key = 1};
    struct hashmap m = {0};
    (void)state;
    hashmap_insert(&m, &a.node, 1);
    hashmap_insert(&m, &b.node, 1);
    hashmap_remove(&m, &find(&m, 1, 1)->node);
    assert_non_null(find(&m, 1, 1));
    hashmap_remove(&m, &find(&m, 1, 1)->node);
    assert_null(find(&m, 1, 1));
    hashmap_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_finds_nothing),
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(the_walk_may_remove_its_entry),
        cmocka_unit_test(equal_keys_may_be_in_it_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
