/* test_conformance_rows.c - histories, inboxes, tasks, timers, mail, trash, readers and the log:
 * what every backend must do; see test_conformance.c. */
#include "store_fixture.h"

#include <stdio.h>
#include <stdlib.h>

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

/* ---- history --------------------------------------------------------------------------------- */

static bool log_history(void *arg, const struct store_history *h)
{
    strbuf_appendf(arg, "%llu:%llu/%llu/%u/%lld=%zu ", (unsigned long long)h->execution,
                   (unsigned long long)h->row, (unsigned long long)h->key_base, h->events,
                   (long long)h->time, h->frames.len);
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

static void check_history(struct store_fixture *f, uint64_t execution, uint64_t from,
                          size_t bytes_max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_history_read(f->r, execution, from, bytes_max, log_history, &log, &err));
    CHECK_STR(&log, want);
}

static void history_is_read_in_order_and_in_parts(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    IN_TXN(f->st, append_history(f, 7, 2, 20); append_history(f, 7, 1, 10);
           append_history(f, 8, 1, 1); append_history(f, 7, 3, 30); append_history(f, 6, 9, 0));
    store_fixture_again(f);
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

static void check_inbox(struct store_fixture *f, uint64_t object, int64_t from, uint32_t rows_max,
                        size_t bytes_max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_inbox_read(f->r, object, from, rows_max, bytes_max, log_inbox, &log, &err));
    CHECK_STR(&log, want);
}

static void inbox_is_read_in_order_and_in_parts(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    IN_TXN(f->st, post(f, 5, 1, "b"); post(f, 5, -2, "a"); post(f, 5, 3, "ccc");
           post(f, 6, 0, "other"); post(f, 5, INT64_MAX, "z"); post(f, 5, INT64_MIN, "0"));
    store_fixture_again(f);
    check_inbox(f, 5, INT64_MIN, 100, SIZE_MAX,
                "-9223372036854775808=0 -2=a 1=b 3=ccc 9223372036854775807=z ");
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

static void check_bounds(struct store_fixture *f, uint64_t object, bool any, int64_t first,
                         int64_t last)
{
    bool got = !any;
    int64_t lo = 99, hi = 99;

    OKAY(store_inbox_bounds(f->r, object, &got, &lo, &hi, &err));
    assert_int_equal(got, any);
    assert_int_equal(lo, first);
    assert_int_equal(hi, last);
}

static void inbox_bounds(void **state)
{
    struct store_fixture *f = *state;

    check_bounds(f, 5, false, 0, 0);
    IN_TXN(f->st, post(f, 5, 3, "x"); post(f, 5, -4, "x"); post(f, 5, 0, "x"); post(f, 4, 100, "x");
           post(f, 6, INT64_MIN, "x"); post(f, 6, INT64_MAX, "x"));
    check_bounds(f, 5, true, -4, 3);
    check_bounds(f, 4, true, 100, 100);
    check_bounds(f, 6, true, INT64_MIN, INT64_MAX);
    check_bounds(f, UINT64_MAX, false, 0, 0);
}

static void log_key(void *arg, uint64_t key)
{
    strbuf_appendf(arg, "%llu ", (unsigned long long)key);
}

static void check_inbox_objects(struct store_fixture *f, uint64_t after, uint32_t max,
                                const char *want)
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
    struct store_task t = {
        .group = group, .key = key, .ref = -(int64_t)key, .payload = BYTES_LIT("work")};

    OKAY(store_task_insert(f->st, &t, &err));
}

static void check_tasks(struct store_fixture *f, uint32_t group, uint64_t after, uint32_t max,
                        const char *want)
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
    store_fixture_again(f);
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
    strbuf_appendf(arg, "%lld/%llu=%.*s ", (long long)t->due, (unsigned long long)t->key,
                   BYTES_FMT(t->payload));
    return true;
}

static bool log_timer_once(void *arg, const struct store_timer *t)
{
    return log_timer(arg, t), false;
}

static void arm(struct store_fixture *f, usec_t due, uint64_t key, uint64_t execution)
{
    struct store_timer t = {
        .due = due, .key = key, .execution = execution, .payload = BYTES_LIT("p")};

    OKAY(store_timer_insert(f->st, &t, &err));
}

static void check_timers(struct store_fixture *f, usec_t after_due, uint64_t after_key,
                         usec_t due_max, uint32_t max, const char *want)
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

    IN_TXN(f->st, arm(f, 100, 9, 1); arm(f, 100, 3, 1); arm(f, 50, 20, 2); arm(f, INT64_MAX, 1, 2);
           arm(f, -5, 7, 2));
    store_fixture_again(f);
    check_timers(f, INT64_MIN, 0, INT64_MAX, 100,
                 "-5/7=p 50/20=p 100/3=p 100/9=p 9223372036854775807/1=p ");
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
    store_fixture_again(f);
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
    strbuf_appendf(arg, "%llu/%u/%u/%u/%.*s/%d=%.*s%s ", (unsigned long long)m->seq, m->hub,
                   m->kind, m->partition, BYTES_FMT(m->id), m->what, BYTES_FMT(m->payload),
                   bytes_is_none(m->payload) ? "none" : "");
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
    struct store_mail a = {
        .seq = 5, .hub = 1, .kind = 2, .partition = 3, .id = BYTES_LIT("to"), .what = -4};
    struct store_mail b = {
        .seq = INT64_MAX, .hub = UINT32_MAX, .kind = 255, .payload = BYTES_LIT("x")};

    IN_TXN(f->st, OKAY(store_mail_insert(f->st, &b, &err));
           OKAY(store_mail_insert(f->st, &a, &err)));
    store_fixture_again(f);
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
    strbuf_appendf(arg, "%llu/%d/%llu ", (unsigned long long)t->seq, t->what,
                   (unsigned long long)t->key);
    return true;
}

static void check_trash(struct store_fixture *f, uint32_t max, const char *want)
{
    CLEANUP(strbuf_deinit) struct strbuf log = {0};

    OKAY(store_trash_read(f->r, 0, max, log_trash, &log, &err));
    CHECK_STR(&log, want);
}

static void trash(void **state)
{
    struct store_fixture *f = *state;
    struct store_trash a = {.seq = 9, .what = STORE_TRASH_INBOX, .key = 77};
    struct store_trash b = {.seq = 8, .what = STORE_TRASH_EXECUTION, .key = INT64_MAX};

    IN_TXN(f->st, OKAY(store_trash_insert(f->st, &a, &err));
           OKAY(store_trash_insert(f->st, &b, &err)));
    store_fixture_again(f);
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
    IN_TXN(
        f->st,
        OKAY(store_history_append(
            f->st, &(struct store_history){.execution = 1, .row = 1, .frames = strbuf_bytes(&big)},
            &err));
        OKAY(store_task_insert(
            f->st, &(struct store_task){.group = 1, .key = 1, .payload = strbuf_bytes(&big)},
            &err)));
    store_fixture_again(f);
    OKAY(store_history_read(f->r, 1, 1, 1, keep_history, &got, &err));
    assert_int_equal(got.len, len);
    assert_memory_equal(got.ptr, big.ptr, len);
    OKAY(store_task_get(f->r, 1, 1, &t, &buf, &err));
    CHECK_BYTES(t.payload, strbuf_bytes(&big));
    /* A read of the keys alone does not touch the payloads. */
    check_tasks(f, 1, 0, 10, "1/1/0 ");
    IN_TXN(f->st, OKAY(store_history_delete(f->st, 1, 10, NULL, &err));
           OKAY(store_task_delete(f->st, 1, 1, NULL, &err)));
}

/* ---- other connections ----------------------------------------------------------------------- */

static void readers_see_commits_only(void **state)
{
    struct store_fixture *f = *state;
    struct store_reader *own = f->r, *r = NULL;

    if (f->is_memory) {
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
    if (f->is_memory) {
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(history_is_read_in_order_and_in_parts),
        STORE_TEST(history_is_deleted_in_steps),
        STORE_TEST(inbox_is_read_in_order_and_in_parts),
        STORE_TEST(inbox_rows_keep_every_column),
        STORE_TEST(inbox_is_deleted_by_range_and_in_steps),
        STORE_TEST(inbox_bounds),
        STORE_TEST(inbox_objects_are_listed_once_each),
        STORE_TEST(tasks),
        STORE_TEST(timers_are_read_by_due_then_key),
        STORE_TEST(timers_keep_every_column),
        STORE_TEST(timers_are_deleted_and_counted),
        STORE_TEST(mailbox),
        STORE_TEST(trash),
        STORE_TEST(huge_payloads_come_back_whole),
        STORE_TEST(readers_see_commits_only),
        STORE_TEST(checkpoints_empty_the_log),
    };

    return store_fixture_run(argc, argv, TESTS, ARRAY_LEN(TESTS));
}
