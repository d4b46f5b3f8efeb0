/* test_docs.c - every statement in docs/store.md gives the rows that the page shows. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "store_fixture.h"

static const usec_t T0 = (usec_t)1767323045 * USEC_PER_SEC; /* 2026-01-02T03:04:05Z */

static void put(struct store_fixture *f, uint64_t key, uint32_t hub, const char *id, int32_t status,
                const char *tags, const char *custom)
{
    struct store_object o = {
        .key = key,
        .hub = hub,
        .kind = 1,
        .id = bytes_str(id),
        .name = BYTES_LIT("Order"),
        .status = status,
        .base_status = status,
        .created = T0 + (usec_t)(key - 1) * USEC_PER_SEC,
        .updated = T0 + (usec_t)(key - 1) * USEC_PER_SEC,
        .completed = status == 3 ? T0 + 55 * USEC_PER_SEC + 250000 : 0,
        .execution = key + 100,
        .history_events = key == 2   ? 7
                          : key == 3 ? 0
                                     : 5,
        .history_bytes = key == 2   ? 700
                         : key == 3 ? 0
                                    : 500,
        .tags = bytes_str(tags),
        .custom_status = bytes_str(custom),
    };

    OKAY(store_object_insert(f->st, &o, &err));
    OKAY(store_count_add(f->st, hub, 1, status, 1, &err));
}

static void post(struct store_fixture *f, uint64_t object, int64_t seq)
{
    OKAY(store_inbox_append(
        f->st, &(struct store_inbox){.object = object, .seq = seq, .event = BYTES_LIT("x")}, &err));
}

/* The store that the page talks about. */
static void fill(struct store_fixture *f)
{
    uint32_t hub = 0, group = 0;

    OKAY(store_begin(f->st, &err));
    OKAY(store_hub_create(f->st, BYTES_LIT("default"), T0, &hub, &err));
    OKAY(store_group_intern(f->st, hub, 2, BYTES_LIT("ChargeCard"), BYTES_NONE, &group, &err));
    put(f, 1, hub, "order-1", 1, "{\"customer\":\"acme\"}", "\"done\"");
    put(f, 2, hub, "order-2", 0, "{\"customer\":\"acme\"}", "\"half\"");
    put(f, 3, hub, "order-3", 6, NULL, NULL);
    put(f, 4, hub, "order-4", 3, "{\"customer\":\"other\"}", NULL);
    post(f, 2, 1);
    post(f, 2, 2);
    post(f, 3, 1);
    struct store_task t = {.group = group, .key = 50, .object = 2, .time = T0 + USEC_PER_SEC};
    OKAY(store_task_insert(f->st, &t, &err));
    struct store_timer tm = {.due = T0 + 86400 * USEC_PER_SEC, .key = 51, .object = 2};
    OKAY(store_timer_insert(f->st, &tm, &err));
    OKAY(store_commit(f->st, &err));
}

static int add_row(void *arg, int n, char **values, char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        strbuf_appendf(arg, "%s%s", i ? "|" : "", values[i] ? values[i] : "");
    strbuf_append_char(arg, '\n');
    return 0;
}

/* The text between the line `open` and the next line of three backquotes, from *at on; *at moves
 * behind it. NULL: none. */
static char *block(char **at, const char *open)
{
    char *start = strstr(*at, open);

    if (!start)
        return NULL;
    start += strlen(open);
    char *end = strstr(start, "```\n");
    assert_non_null(end);
    *end = '\0';
    *at = end + 4;
    return start;
}

static void every_example_is_true(void **state)
{
    struct store_fixture *f = *state;
    CLEANUP(strbuf_deinit) struct strbuf page = {0};
    FILE *file = fopen(PERDURE_SOURCE_DIR "/docs/store.md", "rb");
    sqlite3 *db = NULL;
    unsigned count = 0;
    size_t n;

    assert_non_null(file);
    while ((n = fread(strbuf_reserve(&page, 4096), 1, 4096, file)) > 0)
        page.len += n;
    assert_int_equal(fclose(file), 0);
    strbuf_append_char(&page, '\0');
    fill(f);

    /* Beside the running store, as a person would. */
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    char *at = (char *)page.ptr, *statement;
    while ((statement = block(&at, "```sql\n"))) {
        CLEANUP(strbuf_deinit) struct strbuf got = {0};
        char *message = NULL, *want = block(&at, "```text\n");
        assert_non_null(want);
        if (sqlite3_exec(db, statement, add_row, &got, &message) != SQLITE_OK)
            fail_msg("%s%s", statement, message);
        if (strcmp(strbuf_cstr(&got), want) != 0)
            fail_msg("%sgives\n%snot\n%s", statement, strbuf_cstr(&got), want);
        count++;
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_in_range(count, 10, 100);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest TESTS[] = {
        STORE_TEST(every_example_is_true),
    };

    (void)argc;
    return store_fixture_run(2, (char *[]){argv[0], (char[]){"sqlite"}}, TESTS, ARRAY_LEN(TESTS));
}
