/* Connections by address: peers.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/peers.h"

static void ports_do_not_count(void **state UNUSED)
{
    struct peers *p = peers_new();
    struct peer *a = peers_enter(p, BYTES_LIT("10.0.0.1:1000"), 2),
                *b = peers_enter(p, BYTES_LIT("10.0.0.1:1001"), 2);

    assert_non_null(a);
    assert_ptr_equal(a, b);
    assert_null(peers_enter(p, BYTES_LIT("10.0.0.1:1002"), 2));
    struct peer *other = peers_enter(p, BYTES_LIT("10.0.0.2:1000"), 2);
    assert_non_null(other);
    peers_leave(p, a);
    assert_ptr_equal(peers_enter(p, BYTES_LIT("10.0.0.1:1002"), 2), b);
    assert_null(peers_enter(p, BYTES_LIT("10.0.0.1:1003"), 2));
    peers_leave(p, other);
    peers_free(p); /* with two left */
}

static void families_are_apart(void **state UNUSED)
{
    struct peers *p = peers_new();
    struct peer *six = peers_enter(p, BYTES_LIT("[::1]:1"), 1),
                *local = peers_enter(p, BYTES_LIT("unix:"), 1);

    assert_non_null(six);
    assert_non_null(local);
    assert_null(peers_enter(p, BYTES_LIT("[::1]:2"), 1));
    assert_non_null(peers_enter(p, BYTES_LIT("[::2]:1"), 1));
    assert_null(peers_enter(p, BYTES_LIT("unix:"), 1));
    peers_leave(p, six);
    assert_non_null(peers_enter(p, BYTES_LIT("[::1]:3"), 1)); /* its record is made anew */
    peers_leave(p, local);
    peers_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_do_not_count),
        cmocka_unit_test(families_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
