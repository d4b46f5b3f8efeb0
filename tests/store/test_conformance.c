/* test_conformance.c - what every backend of store.h must do. Runs on `sqlite` and `memory`. */
#include "store_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the store itself ------------------------------------------------------------------------ */

static void info_is_fixed_at_birth(void **state)
{
    struct store_fixture *f = *state;
    struct store_info before = *store_info(f->st), *after;

    assert_int_equal(before.schema, 3);
    assert_int_equal(before.partitions, STORE_PARTITIONS_DEFAULT);
    assert_true(before.created > 1600000000 * USEC_PER_SEC);
    uint8_t zero[STORE_SECRET_LEN] = {0};
    assert_memory_not_equal(before.secret, zero, sizeof(zero));

    f->partitions = 8; /* of no effect on a store that exists */
    store_fixture_again(f);
    after = &(struct store_info){0};
    *after = *store_info(f->st);
    assert_int_equal(after->partitions, before.partitions);
    assert_int_equal(after->created, before.created);
    assert_memory_equal(after->secret, before.secret, STORE_SECRET_LEN);
}

static void partitions_may_be_chosen(void **state)
{
    struct store_fixture f;

    store_fixture_init(&f, ((struct store_fixture *)*state)->is_memory ? "memory" : "sqlite");
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
        if (round % 5 == 0 && !f->is_memory) {
            store_fixture_again(f);
            last = committed; /* what was never committed, nobody has */
        }
    }
}

/* What was reserved by a transaction that was rolled back is not reserved. */
static void keys_after_a_rollback_are_reserved_again(void **state)
{
    struct store_fixture *f = *state;
    uint64_t key = 0;

    OKAY(store_begin(f->st, &err));
    (void)take_keys(f, 1);
    store_rollback(f->st);
    IN_TXN(f->st, key = take_keys(f, 1));
    store_fixture_again(f);
    IN_TXN(f->st, assert_true(take_keys(f, 1) > key));
}

static void keys_survive_an_undone_savepoint(void **state)
{
    struct store_fixture *f = *state;

    OKAY(store_begin(f->st, &err));
    uint64_t a = take_keys(f, 4090);
    OKAY(store_savepoint(f->st, &err));
    uint64_t b = take_keys(f, 20); /* a reservation of its own, undone below */
    OKAY(store_savepoint_undo(f->st, &err));
    uint64_t c = take_keys(f, 10);
    assert_true(a + 4090 <= b && b + 20 <= c);
    OKAY(store_commit(f->st, &err));
    store_fixture_again(f);
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
    store_fixture_again(f);
    uint32_t found = 0;
    OKAY(store_hub_find(f->r, BYTES_LIT("Zwei \xc3\xa4"), &found, &err));
    assert_int_equal(found, b);
    OKAY(store_hub_find(f->r, BYTES_LIT(""), &found, &err));
    assert_int_equal(found, c);
    EXPECT(ERR_NOT_FOUND, store_hub_find(f->r, BYTES_LIT("ONE"), &found, &err)); /* as given */
    assert_int_equal(found, c);                                                  /* untouched */
    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_EXISTS, store_hub_create(f->st, BYTES_LIT("one"), 5, &found, &err));
    OKAY(store_commit(f->st, &err));
    OKAY(store_hub_list(f->r, log_hub, &log, &err));
    CHECK_STR(&log, "one Zwei \xc3\xa4  ");
}

static void log_group(void *arg, const struct store_group *g)
{
    strbuf_appendf(arg, "%u/%u/%.*s/%.*s ", g->hub, g->kind, BYTES_FMT(g->name),
                   BYTES_FMT(g->version));
}

static uint32_t intern(struct store_fixture *f, uint32_t hub, uint8_t kind, const char *name,
                       const char *version)
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
           g[2] = intern(f, 1, 1, "a", "2"); g[3] = intern(f, 1, 2, "a", NULL);
           g[4] = intern(f, 2, 1, "a", NULL); g[5] = intern(f, 1, 255, NULL, NULL));
    assert_int_equal(g[0], g[1]); /* none and empty are one */
    for (int i = 1; i < 6; i++)
        for (int k = i + 1; k < 6; k++)
            assert_int_not_equal(g[i], g[k]);
    store_fixture_again(f);
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
    store_fixture_again(f);
    check_stored(f, &o);
}

static void objects_update_every_column(void **state)
{
    struct store_fixture *f = *state;
    struct store_object o = store_fixture_object(42), other = store_fixture_object(43);

    other.id = BYTES_LIT("other");
    IN_TXN(f->st, OKAY(store_object_insert(f->st, &o, &err));
           OKAY(store_object_insert(f->st, &other, &err)));
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
    store_fixture_again(f);
    check_stored(f, &o);
    check_stored(f, &other);
}

static void absent_is_not_empty(void **state)
{
    struct store_fixture *f = *state;
    struct store_object none = {.key = 1, .hub = 1, .kind = 1, .id = BYTES_LIT("none")};
    struct store_object empty = {.key = 2, .hub = 1, .kind = 1, .id = BYTES_LIT("")};

    empty.name = empty.version = empty.execution_id = empty.custom_status = empty.tags =
        BYTES_LIT("");
    empty.trace = empty.parent_id = empty.parent = BYTES_LIT("");
    IN_TXN(f->st, OKAY(store_object_insert(f->st, &none, &err));
           OKAY(store_object_insert(f->st, &empty, &err)));
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
        BYTES_LIT("a"),         BYTES_LIT("a "),    BYTES_LIT("A"), BYTES_LIT("\xc3\xa4"),
        BYTES_LIT("a\xcc\x88"), BYTES_LIT("%_"),    BYTES_LIT("'"), BYTES_LIT("1"),
        BYTES_LIT("1.0"),       BYTES_LIT("x'00'"),
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
    IN_TXN(f->st, OKAY(store_object_delete(f->st, 42, &err));
           OKAY(store_object_delete(f->st, 41, &err)));
    EXPECT(ERR_NOT_FOUND, store_object_get(f->r, 42, &got, &buf, &err));
    EXPECT(ERR_NOT_FOUND, store_object_find(f->r, 1, 1, o.id, &got, &buf, &err));
    /* BL-064: somebody deleted the row by hand while we held it. */
    OKAY(store_begin(f->st, &err));
    EXPECT(ERR_NOT_FOUND, store_object_update(f->st, &o, &err));
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
    store_fixture_again(f);
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    OKAY(store_begin(f->st, &err));
    count_add(f, 1, 0, -6);
    count_add(f, 1, -7, 3);
    store_rollback(f->st);
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    OKAY(store_begin(f->st, &err));
    OKAY(store_savepoint(f->st, &err));
    count_add(f, 1, 0, 50);
    store_rollback(f->st); /* of a savepoint too */
    check_counts(f, "1/1/0=6 2/1/6=1 ");
    IN_TXN(f->st, OKAY(store_savepoint(f->st, &err)); OKAY(store_savepoint_release(f->st, &err)));
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
    if (!f->is_memory) {
        store_fixture_again(f);
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
    store_fixture_again(f);
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
    if (!f->is_memory)
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(info_is_fixed_at_birth),
        STORE_TEST(partitions_may_be_chosen),
        STORE_TEST(unknown_urls_are_refused),
        STORE_TEST(keys_grow_and_never_repeat),
        STORE_TEST(keys_after_a_rollback_are_reserved_again),
        STORE_TEST(keys_survive_an_undone_savepoint),
        STORE_TEST(too_many_keys_are_refused),
        STORE_TEST(hubs),
        STORE_TEST(groups_are_interned),
        STORE_TEST(rolled_back_hub_and_group_are_gone),
        STORE_TEST(objects_keep_every_column),
        STORE_TEST(objects_update_every_column),
        STORE_TEST(absent_is_not_empty),
        STORE_TEST(objects_are_found_by_hub_kind_and_id),
        STORE_TEST(ids_of_any_text_are_told_apart),
        STORE_TEST(a_taken_id_or_key_is_a_bug_and_undoes_only_itself),
        STORE_TEST(numbers_beyond_63_bits_are_refused),
        STORE_TEST(deleted_objects_are_gone),
        STORE_TEST(counts_follow_transactions_and_savepoints),
        STORE_TEST(rollback_undoes_all),
        STORE_TEST(a_savepoint_undoes_only_its_own),
        STORE_TEST(has_writes_tells_what_must_be_flushed),
        STORE_TEST(reopening_a_healthy_store_keeps_all),
    };

    return store_fixture_run(argc, argv, TESTS, ARRAY_LEN(TESTS));
}
