/* store_fixture.h - opens stores for tests, in a directory that goes away at the end.
 *
 * One fixture is one place for a store; close and open
 * it as often as the test likes.
 */
#pragma once

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/prng.h"
#include "store/store.h"

struct store_fixture {
    bool is_memory;
    char dir[PATH_MAX];  /* "" for `memory` */
    char path[PATH_MAX]; /* of the database file */
    char url[PATH_MAX + 64];
    const char *vfs;
    uint32_t partitions;
    struct settings settings;
    struct prng prng;
    struct store *st;       /* NULL: closed */
    struct store_reader *r; /* the writer's own */
};

/* `kind` is "sqlite" (a file in a fresh directory) or "memory". Not opened yet. */
void store_fixture_init(struct store_fixture *f, const char *kind);
void store_fixture_deinit(struct store_fixture *f); /* closes, removes the directory */
enum err store_fixture_try_open(struct store_fixture *f, struct error *err);
void store_fixture_open(struct store_fixture *f); /* fails the test on an error */
void store_fixture_close(struct store_fixture *f);

void store_fixture_again(struct store_fixture *f); /* closes and opens, where that keeps anything */

/* The whole list on every backend, or on those named by the arguments; each test gets an open
 * fixture of its own as *state. */
int store_fixture_set_up(void **state);
int store_fixture_tear_down(void **state);
#define STORE_TEST(fn)                                                                             \
    cmocka_unit_test_setup_teardown(fn, store_fixture_set_up, store_fixture_tear_down)
int store_fixture_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

/* Checks that `call`, which must use `&err`, gives `want`; the message is printed otherwise. */
void store_expect(enum err got, enum err want, const struct error *err, const char *call,
                  const char *file, int line);
#define EXPECT(want, call)                                                                         \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        enum err got_ = (call);                                                                    \
        store_expect(got_, (want), &err, #call, __FILE__, __LINE__);                               \
    } while (0)
#define OKAY(call) EXPECT(OK, call)

/* A transaction of statements that must work. */
#define IN_TXN(st, ...)                                                                            \
    do {                                                                                           \
        OKAY(store_begin(st, &err));                                                               \
        __VA_ARGS__;                                                                               \
        OKAY(store_commit(st, &err));                                                              \
    } while (0)

#define CHECK_BYTES(got, want)                                                                     \
    do {                                                                                           \
        struct bytes g_ = (got), w_ = (want);                                                      \
        assert_int_equal(bytes_is_none(g_), bytes_is_none(w_));                                    \
        assert_int_equal(g_.len, w_.len);                                                          \
        if (w_.len)                                                                                \
            assert_memory_equal(g_.ptr, w_.ptr, w_.len);                                           \
    } while (0)

#define CHECK_STR(log, want) assert_string_equal(strbuf_cstr(log), want)

/* An object with every column set from `key`, none absent; views are static. */
struct store_object store_fixture_object(uint64_t key);
