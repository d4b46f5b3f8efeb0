/* store_fixture.h - opens stores for tests, in a directory that goes away at the end.
 *
 * Include it after "test" headers of cmocka. One fixture is one place for a store; close and open
 * it as often as the test likes.
 */
#pragma once

#include <limits.h>

#include "base/limits.h"
#include "base/prng.h"
#include "store/store.h"

struct store_fixture {
    char dir[PATH_MAX];  /* "" for `memory` */
    char path[PATH_MAX]; /* of the database file */
    char url[PATH_MAX + 16];
    const char *vfs;
    uint32_t partitions;
    struct settings settings;
    struct prng prng;
    struct store *st; /* NULL: closed */
    struct store_reader *r; /* the writer's own */
};

/* `kind` is "sqlite" (a file in a fresh directory) or "memory". Not opened yet. */
void store_fixture_init(struct store_fixture *f, const char *kind);
void store_fixture_deinit(struct store_fixture *f); /* closes, removes the directory */
enum err store_fixture_try_open(struct store_fixture *f, struct error *err);
void store_fixture_open(struct store_fixture *f); /* fails the test on an error */
void store_fixture_close(struct store_fixture *f);

/* Checks that `call`, which must use `&err`, gives `want`; the message is printed otherwise. */
void store_expect(enum err got, enum err want, const struct error *err, const char *call, const char *file, int line);
#define EXPECT(want, call)                                                                         \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        enum err got_ = (call);                                                                    \
        store_expect(got_, (want), &err, #call, __FILE__, __LINE__);                               \
    } while (0)
#define OKAY(call) EXPECT(OK, call)

/* An object with every column set from `key`, none absent; views are static. */
struct store_object store_fixture_object(uint64_t key);
