/* test_conformance.c - what every backend of store.h must do. Runs on `sqlite` and `memory`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store_fixture.h"

static const char *backend;

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

static int set_up(void **state)
{
    struct store_fixture *f = malloc(sizeof(*f));

    assert_non_null(f);
    store_fixture_init(f, backend);
    store_fixture_open(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    store_fixture_deinit(*state);
    free(*state);
    return 0;
}

/* Closes and opens again, where that keeps anything. */
static void again(struct store_fixture *f)
{
    if (strcmp(backend, "memory") == 0)
        return;
    store_fixture_close(f);
    store_fixture_open(f);
}

/* ---- the store itself ------------------------------------------------------------------------ */

static void info_is_fixed_at_birth(void **state)
{
    struct store_fixture *f = *state;
    struct store_info before = *store_info(f->st), *after;

    assert_int_equal(before.schema, 1);
    assert_int_equal(before.partitions, STORE_PARTITIONS_DEFAULT);
    assert_true(before.created > 1600000000 * USEC_PER_SEC);
    uint8_t zero[STORE_SECRET_LEN] = {0};
    assert_memory_not_equal(before.secret, zero, sizeof(zero));

    f->partitions = 8; /* of no effect on a store that exists */
    again(f);
    after = &(struct store_info){0};
    *after = *store_info(f->st);
    assert_int_equal(after->partitions, before.partitions);
    assert_int_equal(after->created, before.created);
    assert_memory_equal(after->secret, before.secret, STORE_SECRET_LEN);
}

static void partitions_may_be_chosen(void **state)
{
    struct store_fixture f;

    (void)state;
    store_fixture_init(&f, backend);
    f.partitions = 5;
    store_fixture_open(&f);
    assert_int_equal(store_info(f.st)->partitions, 5);
    store_fixture_deinit(&f);
}

static void unknown_urls_are_refused(void **state)
{
    static const char *const BAD[] = {"", "memory2", "postgres://x", "sqlite", "s.db", "Sqlite:x"};
    struct store_fixture *f = *state, other = *f;

    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct error err = {0};
        (void)snprintf(other.url, sizeof(other.url), "%s", BAD[i]);
        other.st = NULL;
        assert_int_equal(store_fixture_try_open(&other, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "sqlite:PATH or memory"));
    }
}

static uint64_t take_keys(struct store_fixture *f, uint64_t count)
{
    uint64_t first = 0;

    OKAY(store_next_key(f->st, count, &first, &err));
    return first;
}

static void keys_grow_and_never_repeat(void **state)
{
    struct store_fixture *f = *state;
    uint64_t last = 0, committed = 0;

    for (int round = 0; round < 20; round++) {
        OKAY(store_begin(f->st, &err));
        for (uint64_t n = 1; n < 3000; n = n * 3 + 1) {
            uint64_t first = take_keys(f, n);
            assert_true(first > last);
            last = first + n - 1;
        }
        if (round % 3 == 0)
            store_rollback(f->st); /* they stay given out */
        else {
            OKAY(store_commit(f->st, &err));
            committed = last;
        }
        if (round % 5 == 0 && strcmp(backend, "memory") != 0) {
            again(f);
            last = committed; /* what was never committed, nobody has */
        }
    }
}

static void keys_survive_an_undone_savepoint(void **state)
{
    struct store_fixture *f = *state;

    OKAY(store_begin(f->st, &err));
    uint64_t a = take_keys(f, 1);
    OKAY(store_savepoint(f->st, &err));
    uint64_t b = take_keys(f, 10000); /* a reservation of its own, undone below */
    OKAY(store_savepoint_undo(f->st, &err));
    uint64_t c = take_keys(f, 10);
    assert_true(a < b && c >= b + 10000);
    OKAY(store_commit(f->st, &err));
    again(f);
    OKAY(store_begin(f->st, &err));
    assert_true(take_keys(f, 1) >= c + 10);
    store_rollback(f->st);
}

static void too_many_keys_are_refused(void **state)
{
    struct store_fixture *f = *state;
    uint64_t first;

    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_INTERNAL, store_next_key(f->st, UINT64_MAX, &first, &err));
    EXPECT(ERR_INTERNAL, store_next_key(f->st, INT64_MAX, &first, &err));
    assert_true(take_keys(f, 1) > 0);
    OKAY(store_commit(f->st, &err));
}

/* ---- hubs and groups ------------------------------------------------------------------------- */

static void log_hub(void *arg, uint32_t hub, struct bytes name)
{
    (void)hub;
    strbuf_appendf(arg, "%.*s ", BYTES_FMT(name));
}

static uint32_t make_hub(struct store_fixture *f, const char *name)
{
    uint32_t hub = 0;

    OKAY(store_hub_create(f->st, bytes_str(name), 5, &hub, &err));
    assert_true(hub > 0);
    return hub;
}

static void hubs(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};
    uint32_t a = 0, b = 0, c = 0;

    EXPECT(ERR_NOT_FOUND, store_hub_find(f->r, BYTES_LIT("one"), &a, &err));
    IN_TXN(f->st, a = make_hub(f, "one"); b = make_hub(f, "Zwei \xc3\xa4"); c = make_hub(f, ""));
    assert_true(a != b && b != c && a != c);
    again(f);
    uint32_t found = 0;
    OKAY(store_hub_find(f->r, BYTES_LIT("Zwei \xc3\xa4"), &found, &err));
    assert_int_equal(found, b);
    OKAY(store_hub_find(f->r, BYTES_LIT(""), &found, &err));
    assert_int_equal(found, c);
    EXPECT(ERR_NOT_FOUND, store_hub_find(f->r, BYTES_LIT("ONE"), &found, &err)); /* as given */
    assert_int_equal(found, c);                                                 /* untouched */
    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_EXISTS, store_hub_create(f->st, BYTES_LIT("one"), 5, &found, &err));
    OKAY(store_commit(f->st, &err));
    OKAY(store_hub_list(f->r, log_hub, &log, &err));
    CHECK_STR(&log, "one Zwei \xc3\xa4  ");
}

static void log_group(void *arg, const struct store_group *g)
{
    strbuf_appendf(arg, "%u/%u/%.*s/%.*s ", g->hub, g->kind, BYTES_FMT(g->name), BYTES_FMT(g->version));
}

static uint32_t intern(struct store_fixture *f, uint32_t hub, uint8_t kind, const char *name, const char *version)
{
    uint32_t g = 0;

    OKAY(store_group_intern(f->st, hub, kind, bytes_str(name), bytes_str(version), &g, &err));
    return g;
}

static void groups_are_interned(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};
    uint32_t g[6] = {0};

    IN_TXN(f->st, g[0] = intern(f, 1, 1, "a", NULL); g[1] = intern(f, 1, 1, "a", "");
           g[2] = intern(f, 1, 1, "a", "2"); g[3] = intern(f, 1, 2, "a", NULL); g[4] = intern(f, 2, 1, "a", NULL);
           g[5] = intern(f, 1, 255, NULL, NULL));
    assert_int_equal(g[0], g[1]); /* none and empty are one */
    for (int i = 1; i < 6; i++)
        for (int k = i + 1; k < 6; k++)
            assert_int_not_equal(g[i], g[k]);
    again(f);
    IN_TXN(f->st, assert_int_equal(intern(f, 1, 1, "a", "2"), g[2]));
    OKAY(store_group_list(f->r, log_group, &log, &err));
    CHECK_STR(&log, "1/1/a/ 1/1/a/2 1/2/a/ 2/1/a/ 1/255// ");
}

static void rolled_back_hub_and_group_are_gone(void **state)
{
    struct store_fixture *f = *state;
    uint32_t hub;

    OKAY(store_begin(f->st, &err));
    (void)make_hub(f, "gone");
    (void)intern(f, 1, 1, "gone", NULL);
    store_rollback(f->st);
    store_rollback(f->st); /* harmless */
    EXPECT(ERR_NOT_FOUND, store_hub_find(f->r, BYTES_LIT("gone"), &hub, &err));
    CLEANUP(strbuf_deinit) struct strbuf log = {0};
    OKAY(store_group_list(f->r, log_group, &log, &err));
    CHECK_STR(&log, "");
}

/* ---- objects --------------------------------------------------------------------------------- */

static void check_object(const struct store_object *got, const struct store_object *want)
{
    struct store_object a = *got, b = *want;
    struct bytes *va[] = {&a.id,   &a.name,  &a.version,   &a.execution_id, &a.custom_status,
                          &a.tags, &a.trace, &a.parent_id, &a.parent};
    struct bytes *vb[] = {&b.id,   &b.name,  &b.version,   &b.execution_id, &b.custom_status,
                          &b.tags, &b.trace, &b.parent_id, &b.parent};

    for (size_t i = 0; i < ARRAY_LEN(va); i++) {
        CHECK_BYTES(*va[i], *vb[i]);
        *va[i] = *vb[i] = BYTES_NONE;
    }
    assert_int_equal(a.key, b.key);
    assert_int_equal(a.hub, b.hub);
    assert_int_equal(a.kind, b.kind);
    assert_int_equal(a.partition, b.partition);
    assert_int_equal(a.status, b.status);
    assert_int_equal(a.base_status, b.base_status);
    assert_int_equal(a.flags, b.flags);
    assert_int_equal(a.created, b.created);
    assert_int_equal(a.updated, b.updated);
    assert_int_equal(a.completed, b.completed);
    assert_int_equal(a.scheduled, b.scheduled);
    assert_int_equal(a.execution, b.execution);
    assert_int_equal(a.history_rows, b.history_rows);
    assert_int_equal(a.history_events, b.history_events);
    assert_int_equal(a.history_bytes, b.history_bytes);
    assert_int_equal(a.last_started, b.last_started);
    assert_int_equal(a.inbox_next, b.inbox_next);
    assert_int_equal(a.inbox_first, b.inbox_first);
    assert_int_equal(a.cut_seq, b.cut_seq);
    assert_int_equal(a.cut_time, b.cut_time);
}

static void check_stored(struct store_fixture *f, const struct store_object *want)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object got;

    OKAY(store_object_get(f->r, want->key, &got, &buf, &err));
    check_object(&got, want);
    OKAY(store_object_find(f->r, want->hub, want->kind, want->id, &got, &buf, &err));
    check_object(&got, want);
}

static void objects_keep_every_column(void **state)
{
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object(42);

    IN_TXN(f->st, OKAY(store_object_insert(f->st, &o, &err)));
    again(f);
    check_stored(f, &o);
}

static void objects_update_every_column(void **state)
{
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object(42), other = store_fixture_object(43);

    other.id = BYTES_LIT("other");
    IN_TXN(f->st, OKAY(store_object_insert(f->st, &o, &err)); OKAY(store_object_insert(f->st, &other, &err)));
    o.name = BYTES_LIT("Name2");
    o.version = BYTES_LIT("");
    o.status = -1;
    o.base_status = INT32_MAX;
    o.flags = 0;
    o.updated = INT64_MAX;
    o.completed = INT64_MIN;
    o.scheduled = 9;
    o.execution = INT64_MAX;
    o.execution_id = BYTES_LIT("e2");
    o.history_rows = INT64_MAX - 1;
    o.history_events = INT64_MAX;
    o.history_bytes = INT64_MAX;
    o.last_started = INT64_MIN;
    o.inbox_next = INT64_MAX;
    o.inbox_first = INT64_MIN;
    o.cut_seq = INT64_MIN;
    o.cut_time = INT64_MAX;
    o.custom_status = BYTES_LIT("");
    o.tags = BYTES_NONE;
    o.trace = BYTES_LIT("");
    o.parent_id = BYTES_NONE;
    o.parent = BYTES_NONE;
    IN_TXN(f->st, OKAY(store_object_update(f->st, &o, &err)));
    again(f);
    check_stored(f, &o);
    check_stored(f, &other);
}

static void absent_is_not_empty(void **state)
{
    struct store_fixture *f = *state;
    struct store_object none = {.key = 1, .hub = 1, .kind = 1, .id = BYTES_LIT("none")};
    struct store_object empty = {.key = 2, .hub = 1, .kind = 1, .id = BYTES_LIT("")};

    empty.name = empty.version = empty.execution_id = empty.custom_status = empty.tags = BYTES_LIT("");
    empty.trace = empty.parent_id = empty.parent = BYTES_LIT("");
    IN_TXN(f->st, OKAY(store_object_insert(f->st, &none, &err)); OKAY(store_object_insert(f->st, &empty, &err)));
    check_stored(f, &none);
    check_stored(f, &empty);
}

static void objects_are_found_by_hub_kind_and_id(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object got;

    OKAY(store_begin(f->st, &err));
    for (uint64_t i = 0; i < 8; i++) {
        struct store_object o = store_fixture_object(100 + i);
        o.hub = i & 1 ? 1 : UINT32_MAX;
        o.kind = i & 2 ? 1 : UINT8_MAX;
        o.id = i & 4 ? BYTES_LIT("x") : BYTES_LIT("X");
        OKAY(store_object_insert(f->st, &o, &err));
    }
    OKAY(store_commit(f->st, &err));
    OKAY(store_object_find(f->r, UINT32_MAX, 1, BYTES_LIT("x"), &got, &buf, &err));
    assert_int_equal(got.key, 106);
    OKAY(store_object_find(f->r, 1, UINT8_MAX, BYTES_LIT("X"), &got, &buf, &err));
    assert_int_equal(got.key, 101);
    EXPECT(ERR_NOT_FOUND, store_object_find(f->r, 1, 2, BYTES_LIT("X"), &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_object_find(f->r, 1, 1, BYTES_LIT("xx"), &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_object_get(f->r, 1, &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_object_get(f->r, UINT64_MAX, &got, &buf, &err));
    assert_int_equal(got.key, 101); /* untouched */
}

static void ids_of_any_text_are_told_apart(void **state)
{
    static const struct bytes IDS[] = {
        BYTES_LIT("a"), BYTES_LIT("a "), BYTES_LIT("A"), BYTES_LIT("\xc3\xa4"), BYTES_LIT("a\xcc\x88"),
        BYTES_LIT("%_"), BYTES_LIT("'"), BYTES_LIT("1"), BYTES_LIT("1.0"), BYTES_LIT("x'00'"),
    };
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object(0);

    OKAY(store_begin(f->st, &err));
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++) {
        o.key = i + 1;
        o.id = IDS[i];
        OKAY(store_object_insert(f->st, &o, &err));
    }
    OKAY(store_commit(f->st, &err));
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++) {
        o.key = i + 1;
        o.id = IDS[i];
        check_stored(f, &o);
    }
}

static void a_taken_id_or_key_is_a_bug_and_undoes_only_itself(void **state)
{
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object(42), same_key = o, same_id = o, fine = o;

    same_key.id = BYTES_LIT("other");
    same_id.key = 43;
    fine.key = 44;
    fine.id = BYTES_LIT("fine");
    OKAY(store_begin(f->st, &err));
    OKAY(store_object_insert(f->st, &o, &err));
    EXPECT(ERR_INTERNAL, store_object_insert(f->st, &same_key, &err));
    EXPECT(ERR_INTERNAL, store_object_insert(f->st, &same_id, &err));
    OKAY(store_object_insert(f->st, &fine, &err));
    OKAY(store_commit(f->st, &err));
    check_stored(f, &o);
    check_stored(f, &fine);
}

static void numbers_beyond_63_bits_are_refused(void **state)
{
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object((uint64_t)INT64_MAX + 1);
    struct store_task t = {.group = 1, .key = UINT64_MAX};
    struct store_timer tm = {.due = 1, .key = UINT64_MAX};
    struct store_inbox in = {.object = UINT64_MAX};
    struct store_history h = {.execution = UINT64_MAX};
    struct store_mail mail = {.seq = UINT64_MAX};
    struct store_trash trash = {.key = UINT64_MAX};

    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_INTERNAL, store_object_insert(f->st, &o, &err));
    EXPECT(ERR_INTERNAL, store_task_insert(f->st, &t, &err));
    EXPECT(ERR_INTERNAL, store_timer_insert(f->st, &tm, &err));
    EXPECT(ERR_INTERNAL, store_inbox_append(f->st, &in, &err));
    EXPECT(ERR_INTERNAL, store_history_append(f->st, &h, &err));
    EXPECT(ERR_INTERNAL, store_mail_insert(f->st, &mail, &err));
    EXPECT(ERR_INTERNAL, store_trash_insert(f->st, &trash, &err));
    o = store_fixture_object(INT64_MAX);
    o.execution = INT64_MAX;
    OKAY(store_object_insert(f->st, &o, &err));
    OKAY(store_commit(f->st, &err));
    check_stored(f, &o);
}

static void deleted_objects_are_gone(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object o = store_fixture_object(42), got;

    IN_TXN(f->st, OKAY(store_object_insert(f->st, &o, &err)));
    IN_TXN(f->st, OKAY(store_object_delete(f->st, 42, &err)); OKAY(store_object_delete(f->st, 41, &err)));
    EXPECT(ERR_NOT_FOUND, store_object_get(f->r, 42, &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_object_find(f->r, 1, 1, o.id, &got, &buf, &err));
    /* BL-064: somebody deleted the row by hand while we held it. */
    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_CORRUPT, store_object_update(f->st, &o, &err));
    OKAY(store_commit(f->st, &err));
    /* The id is free again. */
    o.key = 50;
    IN_TXN(f->st, OKAY(store_object_insert(f->st, &o, &err)));
    check_stored(f, &o);
}

static void log_count(void *arg, uint32_t hub, uint8_t kind, int32_t status, int64_t count)
{
    strbuf_appendf(arg, "%u/%u/%d=%lld ", hub, kind, status, (long long)count);
}

static void check_counts(struct store_fixture *f, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_count_list(f->r, log_count, &log, &err));
    CHECK_STR(&log, want);
}

static void count_add(struct store_fixture *f, uint32_t hub, int32_t status, int64_t delta)
{
    OKAY(store_count_add(f->st, hub, 1, status, delta, &err));
}

static void counts_follow_transactions_and_savepoints(void **state)
{
    struct store_fixture *f = *state;

    OKAY(store_begin(f->st, &err));
    count_add(f, 2, 6, 1);
    count_add(f, 1, 0, 5);
    count_add(f, 1, 6, 1);
    count_add(f, 1, 6, -1);
    check_counts(f, "1/1/0=5 2/1/6=1 "); /* as the open transaction has it */
    OKAY(store_savepoint(f->st, &err));
    count_add(f, 1, 0, 100);
    check_counts(f, "1/1/0=105 2/1/6=1 ");
    OKAY(store_savepoint_undo(f->st, &err));
    OKAY(store_savepoint(f->st, &err));
    count_add(f, 1, 0, 1);
    OKAY(store_savepoint_release(f->st, &err));
    assert_true(store_has_writes(f->st));
    OKAY(store_commit(f->st, &err));
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    again(f);
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    OKAY(store_begin(f->st, &err));
    count_add(f, 1, 0, -6);
    count_add(f, 1, -7, 3);
    store_rollback(f->st);
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    IN_TXN(f->st, count_add(f, 1, 0, -6); count_add(f, 1, -7, 3));
    check_counts(f, "1/1/-7=3 2/1/6=1 "); /* none left: no line */
}

/* ---- transactions ---------------------------------------------------------------------------- */

static bool exists(struct store_fixture *f, uint64_t key)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object o;
    struct error err;
    enum err e = store_object_get(f->r, key, &o, &buf, &err);

    assert_true(e == OK || e == ERR_NOT_FOUND);
    return e == OK;
}

static void put(struct store_fixture *f, uint64_t key)
{
    struct store_object o = store_fixture_object(key);
    char id[32];

    (void)snprintf(id, sizeof(id), "id-%llu", (unsigned long long)key);
    o.id = bytes_str(id);
    OKAY(store_object_insert(f->st, &o, &err));
}

static void rollback_undoes_all(void **state)
{
    struct store_fixture *f = *state;

    IN_TXN(f->st, put(f, 1));
    OKAY(store_begin(f->st, &err));
    put(f, 2);
    OKAY(store_object_delete(f->st, 1, &err));
    assert_true(exists(f, 2) && !exists(f, 1)); /* the writer's reader sees it */
    store_rollback(f->st);
    assert_true(exists(f, 1) && !exists(f, 2));
    OKAY(store_begin(f->st, &err)); /* left open: closing rolls back */
    put(f, 3);
    if (strcmp(backend, "memory") != 0) {
        again(f);
        assert_true(exists(f, 1) && !exists(f, 3));
    } else {
        store_rollback(f->st);
    }
}

static void a_savepoint_undoes_only_its_own(void **state)
{
    struct store_fixture *f = *state;

    OKAY(store_begin(f->st, &err));
    put(f, 1);
    OKAY(store_savepoint(f->st, &err));
    put(f, 2);
    OKAY(store_object_delete(f->st, 1, &err));
    OKAY(store_savepoint_undo(f->st, &err));
    assert_true(exists(f, 1) && !exists(f, 2));
    OKAY(store_savepoint(f->st, &err)); /* the same name again */
    put(f, 3);
    OKAY(store_savepoint_release(f->st, &err));
    OKAY(store_savepoint(f->st, &err));
    put(f, 4);
    OKAY(store_savepoint_undo(f->st, &err));
    OKAY(store_commit(f->st, &err));
    again(f);
    assert_true(exists(f, 1) && !exists(f, 2) && exists(f, 3) && !exists(f, 4));
}

static void has_writes_tells_what_must_be_flushed(void **state)
{
    struct store_fixture *f = *state;
    struct store_stats before, after;

    store_stats(f->st, &before);
    OKAY(store_begin(f->st, &err));
    assert_false(store_has_writes(f->st));
    (void)exists(f, 1);
    assert_false(store_has_writes(f->st));
    OKAY(store_savepoint(f->st, &err));
    put(f, 1);
    assert_true(store_has_writes(f->st));
    OKAY(store_savepoint_undo(f->st, &err));
    assert_false(store_has_writes(f->st));
    OKAY(store_commit(f->st, &err));
    store_stats(f->st, &after);
    assert_int_equal(after.commits, before.commits + 1);
    assert_int_equal(after.flushes, before.flushes);

    OKAY(store_begin(f->st, &err));
    put(f, 1);
    assert_true(store_has_writes(f->st));
    OKAY(store_commit(f->st, &err));
    store_stats(f->st, &after);
    assert_int_equal(after.commits, before.commits + 2);
    assert_int_equal(after.flushes, before.flushes + 1);
    assert_true(after.store_bytes > 0);
    if (strcmp(backend, "memory") != 0)
        assert_true(after.wal_bytes > 4096);
}

static void reopening_a_healthy_store_keeps_all(void **state)
{
    struct store_fixture *f = *state;

    IN_TXN(f->st, put(f, 1); count_add(f, 1, 0, 1); (void)take_keys(f, 5));
    OKAY(store_begin(f->st, &err));
    uint64_t key = take_keys(f, 1);
    put(f, 2);
    count_add(f, 1, 0, 1);
    OKAY(store_reopen(f->st, &err)); /* rolls back */
    f->r = store_reader(f->st);
    assert_true(exists(f, 1) && !exists(f, 2));
    check_counts(f, "1/1/0=1 ");
    IN_TXN(f->st, assert_true(take_keys(f, 1) > key));
}

/* ---- history --------------------------------------------------------------------------------- */

static bool log_history(void *arg, const struct store_history *h)
{
    strbuf_appendf(arg, "%llu:%llu/%llu/%u/%lld=%zu ", (unsigned long long)h->execution, (unsigned long long)h->row,
                   (unsigned long long)h->key_base, h->events, (long long)h->time, h->frames.len);
    return true;
}

static bool log_history_once(void *arg, const struct store_history *h)
{
    return log_history(arg, h), false;
}

static void append_history(struct store_fixture *f, uint64_t execution, uint64_t row, size_t len)
{
    static const uint8_t FILL[64] = {0};
    struct store_history h = {
        .execution = execution,
        .row = row,
        .key_base = row * 10,
        .events = 3,
        .time = 9,
        .frames = bytes_of(FILL, len),
    };

    OKAY(store_history_append(f->st, &h, &err));
}

static void check_history(struct store_fixture *f, uint64_t execution, uint64_t from, size_t bytes_max,
                          const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_history_read(f->r, execution, from, bytes_max, log_history, &log, &err));
    CHECK_STR(&log, want);
}

static void history_is_read_in_order_and_in_parts(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    IN_TXN(f->st, append_history(f, 7, 2, 20); append_history(f, 7, 1, 10); append_history(f, 8, 1, 1);
           append_history(f, 7, 3, 30); append_history(f, 6, 9, 0));
    again(f);
    check_history(f, 7, 1, SIZE_MAX, "7:1/10/3/9=10 7:2/20/3/9=20 7:3/30/3/9=30 ");
    check_history(f, 7, 0, 1, "7:1/10/3/9=10 "); /* at least one */
    check_history(f, 7, 1, 11, "7:1/10/3/9=10 7:2/20/3/9=20 ");
    check_history(f, 7, 3, SIZE_MAX, "7:3/30/3/9=30 ");
    check_history(f, 7, 4, SIZE_MAX, "");
    check_history(f, 7, UINT64_MAX, SIZE_MAX, "");
    check_history(f, 9, 1, SIZE_MAX, "");
    check_history(f, 6, 1, SIZE_MAX, "6:9/90/3/9=0 ");
    OKAY(store_history_read(f->r, 7, 1, SIZE_MAX, log_history_once, &log, &err));
    CHECK_STR(&log, "7:1/10/3/9=10 ");
    OKAY(store_begin(f->st, &err));
    struct store_history twice = {.execution = 7, .row = 3, .frames = BYTES_LIT("x")};
    EXPECT(ERR_INTERNAL, store_history_append(f->st, &twice, &err));
    OKAY(store_commit(f->st, &err));
}

static void history_is_deleted_in_steps(void **state)
{
    struct store_fixture *f = *state;
    uint32_t n = 99;

    OKAY(store_begin(f->st, &err));
    for (uint64_t i = 1; i <= 5; i++)
        append_history(f, 7, i, 1);
    append_history(f, 8, 1, 1);
    OKAY(store_history_delete(f->st, 7, 2, &n, &err));
    assert_int_equal(n, 2);
    OKAY(store_history_delete(f->st, 7, 2, &n, &err));
    assert_int_equal(n, 2);
    OKAY(store_history_delete(f->st, 7, 2, &n, &err));
    assert_int_equal(n, 1);
    OKAY(store_history_delete(f->st, 7, 2, &n, &err));
    assert_int_equal(n, 0);
    OKAY(store_commit(f->st, &err));
    check_history(f, 7, 1, SIZE_MAX, "");
    check_history(f, 8, 1, SIZE_MAX, "8:1/10/3/9=1 ");
}

/* ---- inbox ----------------------------------------------------------------------------------- */

static bool log_inbox(void *arg, const struct store_inbox *m)
{
    strbuf_appendf(arg, "%lld=%.*s ", (long long)m->seq, BYTES_FMT(m->event));
    return true;
}

static bool log_inbox_once(void *arg, const struct store_inbox *m)
{
    return log_inbox(arg, m), false;
}

static void post(struct store_fixture *f, uint64_t object, int64_t seq, const char *event)
{
    struct store_inbox m = {.object = object, .seq = seq, .event = bytes_str(event)};

    OKAY(store_inbox_append(f->st, &m, &err));
}

static void check_inbox(struct store_fixture *f, uint64_t object, int64_t from, uint32_t rows_max, size_t bytes_max,
                        const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_inbox_read(f->r, object, from, rows_max, bytes_max, log_inbox, &log, &err));
    CHECK_STR(&log, want);
}

static void inbox_is_read_in_order_and_in_parts(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    IN_TXN(f->st, post(f, 5, 1, "b"); post(f, 5, -2, "a"); post(f, 5, 3, "ccc"); post(f, 6, 0, "other");
           post(f, 5, INT64_MAX, "z"); post(f, 5, INT64_MIN, "0"));
    again(f);
    check_inbox(f, 5, INT64_MIN, 100, SIZE_MAX, "-9223372036854775808=0 -2=a 1=b 3=ccc 9223372036854775807=z ");
    check_inbox(f, 5, -2, 2, SIZE_MAX, "-2=a 1=b ");
    check_inbox(f, 5, -1, 100, 3, "1=b 3=ccc ");
    check_inbox(f, 5, 3, 100, 1, "3=ccc "); /* at least one */
    check_inbox(f, 5, INT64_MAX, 100, SIZE_MAX, "9223372036854775807=z ");
    check_inbox(f, 7, 0, 100, SIZE_MAX, "");
    OKAY(store_inbox_read(f->r, 5, 0, 100, SIZE_MAX, log_inbox_once, &log, &err));
    CHECK_STR(&log, "1=b ");
}

static bool keep_inbox(void *arg, const struct store_inbox *m)
{
    struct store_inbox *out = arg;

    *out = *m;
    assert_int_equal(m->event.len, 3);
    assert_memory_equal(m->event.ptr, "\0\xff\x01", 3);
    return true;
}

static void inbox_rows_keep_every_column(void **state)
{
    struct store_fixture *f = *state;
    struct store_inbox m = {
        .object = INT64_MAX,
        .seq = -5,
        .type = INT32_MIN,
        .execution = INT64_MAX,
        .ref = INT64_MIN,
        .time = INT64_MAX,
        .ready = 77,
        .event = BYTES_LIT("\0\xff\x01"),
    };
    struct store_inbox got;

    IN_TXN(f->st, OKAY(store_inbox_append(f->st, &m, &err)));
    OKAY(store_inbox_read(f->r, INT64_MAX, INT64_MIN, 1, SIZE_MAX, keep_inbox, &got, &err));
    assert_int_equal(got.object, m.object);
    assert_int_equal(got.seq, m.seq);
    assert_int_equal(got.type, m.type);
    assert_int_equal(got.execution, m.execution);
    assert_int_equal(got.ref, m.ref);
    assert_int_equal(got.time, m.time);
    assert_int_equal(got.ready, m.ready);
}

static void inbox_is_deleted_by_range_and_in_steps(void **state)
{
    struct store_fixture *f = *state;
    uint32_t n = 99;

    OKAY(store_begin(f->st, &err));
    for (int64_t i = -3; i <= 6; i++)
        post(f, 5, i, "x");
    post(f, 4, 0, "y");
    OKAY(store_inbox_delete(f->st, 5, -3, -2, 0, &n, &err));
    assert_int_equal(n, 2);
    check_inbox(f, 5, INT64_MIN, 2, SIZE_MAX, "-1=x 0=x ");
    OKAY(store_inbox_delete(f->st, 5, 0, INT64_MAX, 3, &n, &err)); /* 0, 1, 2 */
    assert_int_equal(n, 3);
    check_inbox(f, 5, INT64_MIN, 100, SIZE_MAX, "-1=x 3=x 4=x 5=x 6=x ");
    OKAY(store_inbox_delete(f->st, 5, INT64_MIN, INT64_MAX, 0, NULL, &err));
    OKAY(store_inbox_delete(f->st, 5, INT64_MIN, INT64_MAX, 10, &n, &err));
    assert_int_equal(n, 0);
    OKAY(store_commit(f->st, &err));
    check_inbox(f, 5, INT64_MIN, 100, SIZE_MAX, "");
    check_inbox(f, 4, INT64_MIN, 100, SIZE_MAX, "0=y ");
}

static void log_key(void *arg, uint64_t key)
{
    strbuf_appendf(arg, "%llu ", (unsigned long long)key);
}

static void check_inbox_objects(struct store_fixture *f, uint64_t after, uint32_t max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_inbox_objects(f->r, after, max, log_key, &log, &err));
    CHECK_STR(&log, want);
}

static void inbox_objects_are_listed_once_each(void **state)
{
    struct store_fixture *f = *state;

    check_inbox_objects(f, 0, 10, "");
    OKAY(store_begin(f->st, &err));
    for (int64_t i = 0; i < 50; i++) {
        post(f, 3, i, "x");
        post(f, 9, -i, "x");
        post(f, INT64_MAX, i, "x");
        post(f, 4, i, "x");
    }
    OKAY(store_commit(f->st, &err));
    check_inbox_objects(f, 0, 10, "3 4 9 9223372036854775807 ");
    check_inbox_objects(f, 3, 2, "4 9 ");
    check_inbox_objects(f, 5, 1, "9 ");
    check_inbox_objects(f, INT64_MAX, 10, "");
    check_inbox_objects(f, UINT64_MAX, 10, "");
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static bool log_task(void *arg, const struct store_task *t)
{
    assert_true(bytes_is_none(t->payload));
    strbuf_appendf(arg, "%u/%llu/%lld ", t->group, (unsigned long long)t->key, (long long)t->ref);
    return true;
}

static bool log_task_once(void *arg, const struct store_task *t)
{
    return log_task(arg, t), false;
}

static void add_task(struct store_fixture *f, uint32_t group, uint64_t key)
{
    struct store_task t = {.group = group, .key = key, .ref = -(int64_t)key, .payload = BYTES_LIT("work")};

    OKAY(store_task_insert(f->st, &t, &err));
}

static void check_tasks(struct store_fixture *f, uint32_t group, uint64_t after, uint32_t max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_task_read(f->r, group, after, max, log_task, &log, &err));
    CHECK_STR(&log, want);
}

static void tasks(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0}, buf = {0};
    struct store_task t = {
        .group = UINT32_MAX,
        .key = INT64_MAX,
        .object = 3,
        .execution = 4,
        .ref = INT64_MIN,
        .time = 6,
        .payload = BYTES_LIT("\0work\xff"),
    };
    struct store_task got;
    bool existed = false;

    IN_TXN(f->st, add_task(f, 2, 20); add_task(f, 2, 10); add_task(f, 2, 30); add_task(f, 5, 1);
           OKAY(store_task_insert(f->st, &t, &err)));
    again(f);
    check_tasks(f, 2, 0, 100, "2/10/-10 2/20/-20 2/30/-30 ");
    check_tasks(f, 2, 10, 1, "2/20/-20 ");
    check_tasks(f, 2, UINT64_MAX, 1, "");
    check_tasks(f, 1, 0, 100, "");
    OKAY(store_task_read(f->r, 2, 0, 100, log_task_once, &log, &err));
    CHECK_STR(&log, "2/10/-10 ");

    OKAY(store_task_get(f->r, UINT32_MAX, INT64_MAX, &got, &buf, &err));
    assert_int_equal(got.group, t.group);
    assert_int_equal(got.key, t.key);
    assert_int_equal(got.object, t.object);
    assert_int_equal(got.execution, t.execution);
    assert_int_equal(got.ref, t.ref);
    assert_int_equal(got.time, t.time);
    CHECK_BYTES(got.payload, t.payload);
    EXPECT(ERR_NOT_FOUND, store_task_get(f->r, 2, 11, &got, &buf, &err));

    strbuf_reset(&log);
    OKAY(store_task_groups(f->r, log_key, &log, &err));
    CHECK_STR(&log, "2 5 4294967295 ");

    OKAY(store_begin(f->st, &err));
    OKAY(store_task_delete(f->st, 2, 20, &existed, &err));
    assert_true(existed);
    OKAY(store_task_delete(f->st, 2, 20, &existed, &err));
    assert_false(existed);
    OKAY(store_task_delete(f->st, 5, 1, NULL, &err));
    EXPECT(ERR_INTERNAL, store_task_insert(f->st, &t, &err)); /* unique */
    OKAY(store_commit(f->st, &err));
    check_tasks(f, 2, 0, 100, "2/10/-10 2/30/-30 ");
    strbuf_reset(&log);
    OKAY(store_task_groups(f->r, log_key, &log, &err));
    CHECK_STR(&log, "2 4294967295 ");
}

/* ---- timers ---------------------------------------------------------------------------------- */

static bool log_timer(void *arg, const struct store_timer *t)
{
    strbuf_appendf(arg, "%lld/%llu=%.*s ", (long long)t->due, (unsigned long long)t->key, BYTES_FMT(t->payload));
    return true;
}

static bool log_timer_once(void *arg, const struct store_timer *t)
{
    return log_timer(arg, t), false;
}

static void arm(struct store_fixture *f, usec_t due, uint64_t key, uint64_t execution)
{
    struct store_timer t = {.due = due, .key = key, .execution = execution, .payload = BYTES_LIT("p")};

    OKAY(store_timer_insert(f->st, &t, &err));
}

static void check_timers(struct store_fixture *f, usec_t after_due, uint64_t after_key, usec_t due_max, uint32_t max,
                         const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_timer_read(f->r, after_due, after_key, due_max, max, log_timer, &log, &err));
    CHECK_STR(&log, want);
}

static void check_timer_count(struct store_fixture *f, uint64_t want)
{
    uint64_t count = 99;

    OKAY(store_timer_count(f->r, &count, &err));
    assert_int_equal(count, want);
}

static void timers_are_read_by_due_then_key(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    IN_TXN(f->st, arm(f, 100, 9, 1); arm(f, 100, 3, 1); arm(f, 50, 20, 2); arm(f, INT64_MAX, 1, 2); arm(f, -5, 7, 2));
    again(f);
    check_timers(f, INT64_MIN, 0, INT64_MAX, 100, "-5/7=p 50/20=p 100/3=p 100/9=p 9223372036854775807/1=p ");
    check_timers(f, 0, 0, 100, 100, "50/20=p 100/3=p 100/9=p "); /* due_max is included */
    check_timers(f, 50, 20, 99, 100, "");
    check_timers(f, 50, 19, 99, 100, "50/20=p ");
    check_timers(f, 100, 3, 1000, 100, "100/9=p ");
    check_timers(f, 100, UINT64_MAX, 1000, 100, "");
    check_timers(f, 0, 0, INT64_MAX, 2, "50/20=p 100/3=p ");
    OKAY(store_timer_read(f->r, 0, 0, 100, 100, log_timer_once, &log, &err));
    CHECK_STR(&log, "50/20=p ");
    check_timer_count(f, 5);
}

static void timers_keep_every_column(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_timer t = {
        .due = 1,
        .key = INT64_MAX,
        .object = INT64_MAX,
        .execution = INT64_MAX,
        .what = INT32_MIN,
        .ref = INT64_MAX,
        .payload = BYTES_LIT(""),
    };
    struct store_timer got;

    IN_TXN(f->st, OKAY(store_timer_insert(f->st, &t, &err)));
    OKAY(store_timer_get(f->r, 1, INT64_MAX, &got, &buf, &err));
    assert_int_equal(got.due, t.due);
    assert_int_equal(got.key, t.key);
    assert_int_equal(got.object, t.object);
    assert_int_equal(got.execution, t.execution);
    assert_int_equal(got.what, t.what);
    assert_int_equal(got.ref, t.ref);
    CHECK_BYTES(got.payload, t.payload);
    EXPECT(ERR_NOT_FOUND, store_timer_get(f->r, 2, INT64_MAX, &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_timer_get(f->r, 1, 1, &got, &buf, &err));
}

static void timers_are_deleted_and_counted(void **state)
{
    struct store_fixture *f = *state;
    bool existed = false;
    uint32_t n = 99;

    OKAY(store_begin(f->st, &err));
    for (uint64_t i = 1; i <= 7; i++)
        arm(f, 100 - (usec_t)i, i, i % 2 ? 11 : 12);
    check_timer_count(f, 7); /* as the open transaction has it */
    OKAY(store_savepoint(f->st, &err));
    arm(f, 1, 99, 11);
    check_timer_count(f, 8);
    OKAY(store_savepoint_undo(f->st, &err));
    OKAY(store_commit(f->st, &err));
    check_timer_count(f, 7);

    OKAY(store_begin(f->st, &err));
    OKAY(store_timer_delete(f->st, 99, 1, &existed, &err));
    assert_true(existed);
    OKAY(store_timer_delete(f->st, 99, 1, &existed, &err));
    assert_false(existed);
    OKAY(store_timer_delete_execution(f->st, 11, 2, &n, &err)); /* of 3, 5, 7 */
    assert_int_equal(n, 2);
    OKAY(store_timer_delete_execution(f->st, 11, 2, &n, &err));
    assert_int_equal(n, 1);
    OKAY(store_timer_delete_execution(f->st, 11, 2, &n, &err));
    assert_int_equal(n, 0);
    check_timer_count(f, 3);
    OKAY(store_commit(f->st, &err));
    again(f);
    check_timers(f, 0, 0, INT64_MAX, 10, "94/6=p 96/4=p 98/2=p ");
    check_timer_count(f, 3);
    OKAY(store_begin(f->st, &err));
    OKAY(store_timer_delete_execution(f->st, 12, 100, &n, &err));
    store_rollback(f->st);
    check_timer_count(f, 3);
}

/* ---- mailbox and trash ----------------------------------------------------------------------- */

static bool log_mail(void *arg, const struct store_mail *m)
{
    strbuf_appendf(arg, "%llu/%u/%u/%u/%.*s/%d=%.*s%s ", (unsigned long long)m->seq, m->hub, m->kind, m->partition,
                   BYTES_FMT(m->id), m->what, BYTES_FMT(m->payload), bytes_is_none(m->payload) ? "none" : "");
    return true;
}

static bool log_mail_once(void *arg, const struct store_mail *m)
{
    return log_mail(arg, m), false;
}

static void check_mail(struct store_fixture *f, uint64_t after, uint32_t max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_mail_read(f->r, after, max, log_mail, &log, &err));
    CHECK_STR(&log, want);
}

static void mailbox(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};
    struct store_mail a = {.seq = 5, .hub = 1, .kind = 2, .partition = 3, .id = BYTES_LIT("to"), .what = -4};
    struct store_mail b = {.seq = INT64_MAX, .hub = UINT32_MAX, .kind = 255, .payload = BYTES_LIT("x")};

    IN_TXN(f->st, OKAY(store_mail_insert(f->st, &b, &err)); OKAY(store_mail_insert(f->st, &a, &err)));
    again(f);
    check_mail(f, 0, 10, "5/1/2/3/to/-4=none 9223372036854775807/4294967295/255/0//0=x ");
    check_mail(f, 0, 1, "5/1/2/3/to/-4=none ");
    check_mail(f, 5, 10, "9223372036854775807/4294967295/255/0//0=x ");
    OKAY(store_mail_read(f->r, 0, 10, log_mail_once, &log, &err));
    CHECK_STR(&log, "5/1/2/3/to/-4=none ");
    IN_TXN(f->st, OKAY(store_mail_delete(f->st, 5, &err)); OKAY(store_mail_delete(f->st, 6, &err)));
    check_mail(f, 0, 10, "9223372036854775807/4294967295/255/0//0=x ");
}

static bool log_trash(void *arg, const struct store_trash *t)
{
    strbuf_appendf(arg, "%llu/%d/%llu ", (unsigned long long)t->seq, t->what, (unsigned long long)t->key);
    return true;
}

static void check_trash(struct store_fixture *f, uint32_t max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_trash_read(f->r, max, log_trash, &log, &err));
    CHECK_STR(&log, want);
}

static void trash(void **state)
{
    struct store_fixture *f = *state;
    struct store_trash a = {.seq = 9, .what = STORE_TRASH_INBOX, .key = 77};
    struct store_trash b = {.seq = 8, .what = STORE_TRASH_EXECUTION, .key = INT64_MAX};

    IN_TXN(f->st, OKAY(store_trash_insert(f->st, &a, &err)); OKAY(store_trash_insert(f->st, &b, &err)));
    again(f);
    check_trash(f, 10, "8/1/9223372036854775807 9/2/77 "); /* oldest first */
    check_trash(f, 1, "8/1/9223372036854775807 ");
    IN_TXN(f->st, OKAY(store_trash_delete(f->st, 8, &err)));
    check_trash(f, 10, "9/2/77 ");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool keep_history(void *arg, const struct store_history *h)
{
    strbuf_append_bytes(arg, h->frames);
    return true;
}

static void huge_payloads_come_back_whole(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf big = {0}, buf = {0}, got = {0};
    size_t len = MIB(16);
    struct store_task t;

    prng_fill(&f->prng, strbuf_reserve(&big, len), len);
    big.len = len;
    IN_TXN(f->st,
           OKAY(store_history_append(f->st, &(struct store_history){.execution = 1, .row = 1, .frames = strbuf_bytes(&big)}, &err));
           OKAY(store_task_insert(f->st, &(struct store_task){.group = 1, .key = 1, .payload = strbuf_bytes(&big)}, &err)));
    again(f);
    OKAY(store_history_read(f->r, 1, 1, 1, keep_history, &got, &err));
    assert_int_equal(got.len, len);
    assert_memory_equal(got.ptr, big.ptr, len);
    OKAY(store_task_get(f->r, 1, 1, &t, &buf, &err));
    CHECK_BYTES(t.payload, strbuf_bytes(&big));
    /* A read of the keys alone does not touch the payloads. */
    check_tasks(f, 1, 0, 10, "1/1/0 ");
    IN_TXN(f->st, OKAY(store_history_delete(f->st, 1, 10, NULL, &err)); OKAY(store_task_delete(f->st, 1, 1, NULL, &err)));
}

/* ---- other connections ----------------------------------------------------------------------- */

static void readers_see_commits_only(void **state)
{
    struct store_fixture *f = *state;
    struct store_reader *own = f->r, *r = NULL;

    if (strcmp(backend, "memory") == 0) {
        EXPECT(ERR_UNIMPLEMENTED, store_reader_open(f->st, &r, &err));
        return;
    }
    OKAY(store_reader_open(f->st, &r, &err));
    f->r = r;
    OKAY(store_begin(f->st, &err));
    put(f, 1);
    count_add(f, 1, 0, 1);
    arm(f, 1, 1, 1);
    assert_false(exists(f, 1));
    check_counts(f, "");
    check_timer_count(f, 0);
    OKAY(store_commit(f->st, &err));
    assert_true(exists(f, 1));
    check_counts(f, "1/1/0=1 ");
    check_timer_count(f, 1);

    OKAY(store_reader_begin(r, &err)); /* from the first read on, one state */
    assert_false(exists(f, 2));
    IN_TXN(f->st, put(f, 2));
    assert_false(exists(f, 2));
    store_reader_end(r);
    assert_true(exists(f, 2));

    /* It outlives a reopen of the writer. */
    OKAY(store_reopen(f->st, &err));
    IN_TXN(f->st, put(f, 3));
    assert_true(exists(f, 3));
    store_reader_close(r);
    store_reader_close(NULL);
    f->r = own;
}

static void checkpoints_empty_the_log(void **state)
{
    struct store_fixture *f = *state;
    struct store_checkpointer *c = NULL;
    struct store_stats stats;
    uint64_t key = 1;

    OKAY(store_checkpointer_open(f->st, &c, &err));
    if (strcmp(backend, "memory") == 0) {
        assert_null(c);
        OKAY(store_checkpoint(c, &err));
        OKAY(store_log_restart(f->st, 0, &err));
        store_checkpointer_close(c);
        return;
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++, key++)
            IN_TXN(f->st, put(f, key));
        store_stats(f->st, &stats);
        assert_true(stats.wal_bytes > 20 * 4096);
        OKAY(store_checkpoint(c, &err));
        OKAY(store_log_restart(f->st, 0, &err));
        store_stats(f->st, &stats);
        assert_int_equal(stats.wal_bytes, 0);
    }

    /* A snapshot keeps the log from restarting: no error, and nothing lost. */
    struct store_reader *own = f->r, *r;
    OKAY(store_reader_open(f->st, &r, &err));
    f->r = r;
    IN_TXN(f->st, put(f, key));
    OKAY(store_reader_begin(r, &err));
    assert_true(exists(f, key));
    key++;
    IN_TXN(f->st, put(f, key));
    OKAY(store_checkpoint(c, &err));
    OKAY(store_log_restart(f->st, 1000, &err));
    store_stats(f->st, &stats);
    assert_true(stats.wal_bytes > 0);
    assert_false(exists(f, key));
    store_reader_end(r);
    OKAY(store_log_restart(f->st, 1000, &err));
    store_stats(f->st, &stats);
    assert_int_equal(stats.wal_bytes, 0);
    assert_true(exists(f, key));
    store_reader_close(r);
    f->r = own;
    store_checkpointer_close(c);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

static int run(const char *name)
{
    static const struct CMUnitTest TESTS[] = {
        T(info_is_fixed_at_birth),
        T(partitions_may_be_chosen),
        T(unknown_urls_are_refused),
        T(keys_grow_and_never_repeat),
        T(keys_survive_an_undone_savepoint),
        T(too_many_keys_are_refused),
        T(hubs),
        T(groups_are_interned),
        T(rolled_back_hub_and_group_are_gone),
        T(objects_keep_every_column),
        T(objects_update_every_column),
        T(absent_is_not_empty),
        T(objects_are_found_by_hub_kind_and_id),
        T(ids_of_any_text_are_told_apart),
        T(a_taken_id_or_key_is_a_bug_and_undoes_only_itself),
        T(numbers_beyond_63_bits_are_refused),
        T(deleted_objects_are_gone),
        T(counts_follow_transactions_and_savepoints),
        T(rollback_undoes_all),
        T(a_savepoint_undoes_only_its_own),
        T(has_writes_tells_what_must_be_flushed),
        T(reopening_a_healthy_store_keeps_all),
        T(history_is_read_in_order_and_in_parts),
        T(history_is_deleted_in_steps),
        T(inbox_is_read_in_order_and_in_parts),
        T(inbox_rows_keep_every_column),
        T(inbox_is_deleted_by_range_and_in_steps),
        T(inbox_objects_are_listed_once_each),
        T(tasks),
        T(timers_are_read_by_due_then_key),
        T(timers_keep_every_column),
        T(timers_are_deleted_and_counted),
        T(mailbox),
        T(trash),
        T(huge_payloads_come_back_whole),
        T(readers_see_commits_only),
        T(checkpoints_empty_the_log),
    };

    backend = name;
    return cmocka_run_group_tests_name(name, TESTS, NULL, NULL);
}

int main(void)
{
    return run("sqlite") + run("memory");
}
