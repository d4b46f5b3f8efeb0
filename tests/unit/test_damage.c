/* What a damaged page or row does to a running engine: it fails what it concerns, and nobody else notices. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/fault_vfs.h"
#include "lib/world.h"

#include "lib/world_check.h"

#define PAGE 4096
#define MANY 400

/* ---- damage ---------------------------------------------------------------------------------------- */

/* Overwrites a page of the table: its `nth` leaf, or its root. */
static void spoil_page(struct world *w, const char *table, int nth)
{
    uint8_t rubbish[PAGE];
    world_sql(w, "PRAGMA wal_checkpoint(TRUNCATE)");
    int64_t page = nth < 0
                       ? world_sql(w, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", table)
                       : world_sql(w,
                                   "SELECT pageno FROM dbstat WHERE name = '%s' AND pagetype = "
                                   "'leaf' ORDER BY path LIMIT 1 OFFSET %d",
                                   table, nth);
    assert_true(page > 1);
    memset(rubbish, 0xa5, sizeof(rubbish));
    int fd = open(w->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, rubbish, PAGE, (page - 1) * PAGE), PAGE);
    close(fd);
}

#define ROOT (-1)

static const char *nth_id(struct world *w, int i)
{
    return arena_printf(w->arena, "i%03d", i);
}

/* A new instance lives from start to end. */
static void others_are_served(struct world *w, struct world_stream *st)
{
    assert_ok(world_start(w, "other", "Other", "1"));
    struct world_item *turn = world_turn(st);
    assert_string_equal(turn_id(w, turn), "other");
    assert_ok(world_complete(w, turn, act_done(w, 0, COMPLETED, "2"), NULL));
    assert_state(w, "other", COMPLETED);
}

static struct world *quiet_world(void)
{
    log_setup((enum log_level)(LOG_ERROR + 1), LOG_TEXT); /* damage is reported, at length */
    struct world *w = world_new_file(NULL);
    w->settings.tokenless_redelivery = 0; /* turns come back at once after a restart */
    return w;
}

/* ---- timers ---------------------------------------------------------------------------------------- */

static void wait_for_timers(struct world *w, int count)
{
    struct world_stream *st = world_stream(w, 0, 0);
    for (int i = 0; i < count; i++) {
        assert_ok(world_start(w, nth_id(w, i), "O", "1"));
        assert_ok(
            world_complete(w, world_turn(st), act_timer(w, 0, w->wall + (1 + i) * SECOND), NULL));
    }
}

static void timers_on_other_pages_fire(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    wait_for_timers(w, MANY);
    spoil_page(w, "timer", 1);
    world_restart(w);
    struct world_stream *st = world_stream(w, 0, 0);
    others_are_served(w, st);
    int fired = 0;
    bool behind = false;
    for (int i = 0; i <= MANY; i++)
        world_advance(w, SECOND);
    for (struct world_item *it; (it = world_next(st)); fired++)
        behind = behind || !strcmp(turn_id(w, it), nth_id(w, MANY * 3 / 4));
    assert_true(fired > MANY / 2 && fired < MANY);
    assert_true(behind);
    world_free(w);
}

static void without_the_timer_table_the_rest_goes_on(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    wait_for_timers(w, MANY);
    assert_ok(world_start(w, "waits", "W", "1"));
    spoil_page(w, "timer", ROOT);
    world_restart(w);
    struct world_stream *st = world_stream(w, 0, 0);
    /* Who wants a timer is refused and can try again. */
    assert_refused(world_complete(w, world_turn(st), act_timer(w, 0, w->wall + SECOND), NULL),
                   ERR_CORRUPT);
    world_advance(w, SECOND * MANY * 2);
    while (world_next(st)) /* the refused turn comes back */
        ;
    assert_ok(world_start(w, "other", "Other", "1"));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 0, COMPLETED, "2"), NULL));
    world_free(w);
}

/* ---- messages and clean-up ------------------------------------------------------------------------- */

/* Rows for receivers that nobody knows, and in between one for a kind that nobody knows. */
static void put_mail(struct world *w, int count)
{
    world_sql(
        w,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
        "INSERT INTO mailbox (seq, hub, kind, partition, id, what, payload) "
        "SELECT i, 1, CASE WHEN i = 5 THEN 77 ELSE 1 END, 0, 'nobody', 1, zeroblob(200) FROM n",
        count);
}

static void mail_on_other_pages_is_delivered(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    put_mail(w, MANY);
    spoil_page(w, "mailbox", 3);
    world_restart(w);
    others_are_served(w, world_stream(w, 0, 0));
    assert_int_equal(world_sql(w, "SELECT count(*) FROM mailbox WHERE seq < 10"), 1); /* no. 5 */
    assert_int_equal(world_sql(w, "SELECT count(*) FROM mailbox WHERE seq > %d", MANY - 10), 0);
    world_free(w);
}

static void without_the_mailbox_the_rest_goes_on(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    put_mail(w, MANY);
    spoil_page(w, "mailbox", ROOT);
    world_restart(w);
    others_are_served(w, world_stream(w, 0, 0));
    world_free(w);
}

/* Inboxes of no object, to be deleted. */
static void put_trash(struct world *w, int count)
{
    world_sql(w,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO trash (seq, what, key) SELECT i, 2, 1000000 + i FROM n",
              count);
}

static void trash_on_other_pages_is_emptied(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    put_trash(w, MANY * 4);
    spoil_page(w, "trash", 1);
    world_restart(w);
    others_are_served(w, world_stream(w, 0, 0));
    assert_int_equal(world_sql(w, "SELECT count(*) FROM trash WHERE seq > %d", MANY * 4 - 10), 0);
    world_free(w);
}

/* An inbox on a damaged page cannot be deleted; what comes behind it in the trash can. */
static void trash_that_cannot_be_emptied_holds_nothing_up(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    world_sql(w, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
                 "INSERT INTO inbox (object, seq, type, execution, ref, time, ready, event) "
                 "SELECT 1000000 + i, 1, 1, 1, 1, 1, 1, zeroblob(200) FROM n");
    put_trash(w, 400);
    spoil_page(w, "inbox", 3);
    world_restart(w);
    others_are_served(w, world_stream(w, 0, 0));
    int64_t left = world_sql(w, "SELECT count(*) FROM trash");
    assert_true(left > 0 && left < 60);
    assert_int_equal(world_sql(w, "SELECT count(*) FROM trash WHERE seq > 350"), 0);
    world_free(w);
}

/* ---- what waits for workers ------------------------------------------------------------------------ */

static void turns_on_other_pages_are_handed_out(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    for (int i = 0; i < MANY; i++)
        assert_ok(world_start(w, nth_id(w, i), "O", "1"));
    spoil_page(w, "inbox", 2);
    world_restart(w);
    struct world_stream *st = world_stream(w, 0, 0);
    int count = 0;
    bool last = false;
    for (struct world_item *it; (it = world_next(st)); count++)
        last = last || !strcmp(turn_id(w, it), nth_id(w, MANY - 1));
    assert_true(count > MANY * 9 / 10 && count < MANY);
    assert_true(last);
    others_are_served(w, st);
    world_free(w);
}

static struct world_item *next_turn(struct world_stream *st)
{
    struct world_item *it = world_next(st);
    while (it && !is_turn(it))
        it = world_next(st);
    assert_non_null(it);
    return it;
}

static void activities_on_other_pages_are_handed_out(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    struct world_stream *st = world_stream(w, 0, 0);
    for (int i = 0; i < MANY; i++) {
        const char *input = arena_printf(w->arena, "\"%0100d\"", i);
        assert_ok(world_start(w, nth_id(w, i), "O", "1"));
        assert_ok(world_complete(w, next_turn(st), act_task(w, 0, i % 2 ? "T" : "U", input), NULL));
    }
    spoil_page(w, "task", 1);
    spoil_page(w, "task", 8);
    world_restart(w);
    st = world_stream(w, 0, 0);
    int count = 0;
    while (world_next(st))
        count++;
    assert_true(count > MANY * 8 / 10 && count < MANY);
    others_are_served(w, st);
    world_free(w);
}

/* ---- names and numbers ----------------------------------------------------------------------------- */

static void damaged_numbers_stop_nothing(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    assert_ok(world_start(w, "i", "O", "1"));
    spoil_page(w, "count", ROOT);
    world_restart(w);
    struct world_stream *st = world_stream(w, 0, 0);
    assert_ok(world_complete(w, world_turn(st), act_done(w, 0, COMPLETED, "2"), NULL));
    others_are_served(w, st);
    world_free(w);
}

static void names_that_cannot_be_read_concern_their_own(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    struct world_stream *st = world_stream(w, 0, 0);
    for (int i = 0; i < MANY; i++) {
        assert_ok(world_start(w, nth_id(w, i), "O", "1"));
        assert_ok(world_complete(w, next_turn(st),
                                 act_task(w, 0, arena_printf(w->arena, "T%0100d", i), "1"), NULL));
    }
    spoil_page(w, "workgroup", 2);
    world_restart(w);
    st = world_stream(w, 0, 0);
    int count = 0;
    while (world_next(st))
        count++;
    assert_true(count > 0);
    others_are_served(w, st);
    world_free(w);
}

/* ---- rows that are not what was written ------------------------------------------------------------ */

static void a_changed_row_is_an_error_of_its_instance(void **state)
{
    /* Each leaves the row's form intact, and a text in it that is none any more. */
    static const char *const CHANGES[] = {
        "UPDATE history SET frames = CAST(replace(frames, x'73656372', x'ff656372') AS BLOB) "
        "WHERE execution = (SELECT execution FROM object WHERE id = 'i') RETURNING 1",
        "UPDATE inbox SET event = CAST(replace(event, x'73656372', x'ff656372') AS BLOB) "
        "WHERE object = (SELECT key FROM object WHERE id = 'i') RETURNING 1",
        "UPDATE object SET custom_status = CAST(x'22ff22' AS TEXT) WHERE id = 'i' RETURNING 1",
        "UPDATE object SET name = CAST(x'ff' AS TEXT) WHERE id = 'i' RETURNING 1",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CHANGES); i++) {
        struct world *w = quiet_world();
        struct world_stream *st = world_stream(w, 0, 0);
        assert_ok(world_start(w, "i", "O", "\"secret\""));
        assert_ok(world_complete(w, world_turn(st), act_task(w, 0, "T", "\"secret\""), NULL));
        assert_ok(world_result(w, world_task(st), "\"secret\""));
        assert_int_equal(world_sql(w, "%s", CHANGES[i]), 1);
        world_restart(w);
        st = world_stream(w, 0, 0);
        assert_null(world_next(st)); /* no worker sees it */
        struct dt_get *get = arena_new(w->arena, struct dt_get);
        get->payloads = true;
        if (i != 1) /* a client asks for nothing of the inbox */
            assert_refused(world_do(w, DT_GET, "i", get), ERR_CORRUPT);
        others_are_served(w, st);
        world_free(w);
    }
}

static void a_changed_activity_is_not_handed_out(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    struct world_stream *st = world_stream(w, 1, 0);
    assert_ok(world_start(w, "i", "O", "1"));
    assert_ok(world_complete(w, world_turn(st), act_task(w, 0, "T", "\"secret\""),
                             act_task(w, 1, "T", "\"fine\""), NULL));
    world_close(st);
    assert_int_equal(world_sql(w, "UPDATE task SET payload = CAST(replace(payload, x'73656372', "
                                  "x'ff656372') AS BLOB) WHERE ref = 0 RETURNING 1"),
                     1);
    world_restart(w);
    st = world_stream(w, 0, 0);
    assert_int_equal(world_task(st)->item->activityrequest->taskid, 1);
    assert_null(world_next(st));
    others_are_served(w, st);
    world_free(w);
}

static void a_changed_timer_does_not_fire(void **state)
{
    struct world *w = quiet_world();
    (void)state;
    wait_for_timers(w, 2);
    assert_int_equal(world_sql(w, "UPDATE timer SET ref = 9 WHERE due = (SELECT min(due) FROM "
                                  "timer) RETURNING 1"),
                     1);
    world_restart(w);
    struct world_stream *st = world_stream(w, 0, 0);
    world_advance(w, 10 * SECOND);
    assert_string_equal(turn_id(w, world_turn(st)), nth_id(w, 1));
    assert_null(world_next(st));
    others_are_served(w, st);
    world_free(w);
}

/* Found by fuzz_store: a server calculates with what it reads. */
static void numbers_that_no_server_writes_are_damage(void **state)
{
    static const char *const CHANGES[] = {
        "UPDATE inbox SET seq = 9223372036854775807, sum = NULL WHERE object = "
        "(SELECT key FROM object WHERE id = 'i') RETURNING 1",
        "UPDATE inbox SET time = -9223372036854775807 - 1, sum = NULL WHERE object = "
        "(SELECT key FROM object WHERE id = 'i') RETURNING 1",
        "UPDATE object SET inbox_next = 9223372036854775807, sum = NULL WHERE id = 'i' RETURNING 1",
        "UPDATE object SET cut_time = 9223372036854775807, sum = NULL WHERE id = 'i' RETURNING 1",
        "UPDATE object SET history_bytes = 9223372036854775807, sum = NULL WHERE id = 'i' "
        "RETURNING 1",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CHANGES); i++) {
        struct world *w = quiet_world();
        struct world_stream *st = world_stream(w, 0, 0);
        assert_ok(world_start(w, "i", "O", "1"));
        assert_ok(world_complete(w, world_turn(st), NULL));
        assert_ok(world_raise(w, "i", "e", "1"));
        assert_int_equal(world_sql(w, "%s", CHANGES[i]), 1);
        world_restart(w);
        st = world_stream(w, 0, 0);
        assert_null(world_next(st));
        others_are_served(w, st);
        world_free(w);
    }
}

/* Found by fuzz_store: rows that are gone are no empty answer. */
static void a_history_without_its_rows_is_damaged(void **state)
{
    (void)state;
    struct world *w = quiet_world();
    struct world_stream *st = world_stream(w, 0, 0);
    assert_ok(world_start(w, "i", "O", "\"in\""));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 0, COMPLETED, "\"out\""), NULL));
    assert_int_equal(world_sql(w, "DELETE FROM history RETURNING 1"), 1);
    world_restart(w);
    struct dt_get *get = arena_new(w->arena, struct dt_get);
    get->payloads = true;
    assert_refused(world_do(w, DT_GET, "i", get), ERR_CORRUPT);
    world_free(w);
}

/* Found by fuzz_store: the frames in memory are no place then. */
static void a_history_of_empty_rows_has_no_input(void **state)
{
    (void)state;
    struct world *w = quiet_world();
    struct world_stream *st = world_stream(w, 0, 0);
    assert_ok(world_start(w, "i", "O", "\"in\""));
    assert_ok(world_complete(w, world_turn(st), act_done(w, 0, COMPLETED, "\"out\""), NULL));
    world_sql(w, "UPDATE history SET frames = x'', sum = NULL RETURNING 1");
    world_sql(w, "UPDATE object SET history_bytes = 0, status = 0, base_status = 0, sum = NULL "
                 "RETURNING 1");
    world_restart(w);
    st = world_stream(w, 0, 0);
    assert_ok(world_raise(w, "i", "e", "1"));
    (void)world_turn(st); /* reads the history, and keeps it */
    assert_null(world_get(w, "i")->input);
    world_free(w);
}

/* Found by fuzz_store: the kind was an index. */
static void a_sort_of_work_that_is_none_is_nobodys(void **state)
{
    static const char *const CHANGES[] = {"UPDATE workgroup SET kind = 255 RETURNING 1",
                                          "UPDATE workgroup SET kind = 0 RETURNING 1",
                                          "UPDATE workgroup SET kind = -1 RETURNING 1",
                                          "UPDATE workgroup SET hub = 4294967297 RETURNING 1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(CHANGES); i++) {
        struct world *w = quiet_world();
        struct world_stream *st = world_stream(w, 0, 0);
        assert_ok(world_start(w, "i", "O", "1"));
        assert_ok(world_complete(w, world_turn(st), act_task(w, 0, "T", "1"), NULL));
        assert_int_equal(world_sql(w, "%s", CHANGES[i]), 1);
        world_restart(w);
        others_are_served(w, world_stream(w, 0, 0));
        world_free(w);
    }
}

/* ---- the log --------------------------------------------------------------------------------------- */

/* Runs with stderr in a file, and gives the file's text. */
static char *log_of(struct world *w, void (*fn)(struct world *w))
{
    static char text[8192];
    FILE *f = tmpfile();
    assert_non_null(f);
    int old = dup(STDERR_FILENO);
    dup2(fileno(f), STDERR_FILENO);
    fn(w);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static void hand_out(struct world *w)
{
    fault_vfs_fail(FAULT_LOCK, 1, SQLITE_IOERR_LOCK, true);
    world_stream(w, 0, 0);
}

static void the_log_says_why_a_read_failed(void **state)
{
    (void)state;
    fault_vfs_register();
    fault_vfs_reset();
    log_setup(LOG_ERROR, LOG_TEXT);
    struct world *w = world_new_file(FAULT_VFS);
    w->settings.cache_objects = 1;
    assert_ok(world_start(w, "i", "O", "1"));
    assert_ok(world_start(w, "j", "O", "1"));
    world_restart(w); /* the turns are ready, and one of them is read when somebody takes it */
    char *log = log_of(w, hand_out);
    fault_vfs_heal();
    assert_non_null(strstr(log, "the store refused a batch"));
    assert_non_null(strstr(log, "disk I/O error"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_on_other_pages_fire),
        cmocka_unit_test(without_the_timer_table_the_rest_goes_on),
        cmocka_unit_test(mail_on_other_pages_is_delivered),
        cmocka_unit_test(without_the_mailbox_the_rest_goes_on),
        cmocka_unit_test(trash_on_other_pages_is_emptied),
        cmocka_unit_test(trash_that_cannot_be_emptied_holds_nothing_up),
        cmocka_unit_test(turns_on_other_pages_are_handed_out),
        cmocka_unit_test(activities_on_other_pages_are_handed_out),
        cmocka_unit_test(damaged_numbers_stop_nothing),
        cmocka_unit_test(names_that_cannot_be_read_concern_their_own),
        cmocka_unit_test(a_changed_row_is_an_error_of_its_instance),
        cmocka_unit_test(a_changed_activity_is_not_handed_out),
        cmocka_unit_test(a_changed_timer_does_not_fire),
        cmocka_unit_test(numbers_that_no_server_writes_are_damage),
        cmocka_unit_test(a_history_without_its_rows_is_damaged),
        cmocka_unit_test(a_history_of_empty_rows_has_no_input),
        cmocka_unit_test(a_sort_of_work_that_is_none_is_nobodys),
        cmocka_unit_test(the_log_says_why_a_read_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
