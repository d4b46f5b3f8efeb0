/* test_power_cut.c - the power goes at every write and flush of a server at work: what was acknowledged is there afterwards, what was
 * not is whole or absent, and every instance that is there can be brought to its end (spec 1.1).
 *
 * The store's own cuts: tests/store/test_faults.c. reports: BL-137
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/fault_vfs.h"
#include "lib/world.h"
#include "wire/value.h"

#include "lib/world_check.h"

#define IDS 6

enum stage { ABSENT, STARTED, ASKED, ANSWERED, ENDED };

struct books {
    struct world *w;
    struct prng prng;
    enum stage acknowledged[IDS], begun[IDS];
    unsigned cuts;
    unsigned found[ENDED + 1]; /* what a cut left of an instance, by what had been acknowledged */
};

static unsigned index_of(struct bytes id)
{
    assert_int_equal(id.len, 2);
    assert_in_range(id.ptr[1], '0', '0' + IDS - 1);
    return id.ptr[1] - '0';
}

/* Answers one item as its worker would; counts activities. */
static void answer(struct world *w, const struct world_item *it, unsigned tasks[IDS])
{
    if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST) {
        const ActivityRequest *r = it->item->activityrequest;
        tasks[index_of(wire_view(r->orchestrationinstance->instanceid))]++;
        assert_int_equal(world_result(w, it, "r")->status, OK);
        return;
    }
    bool is_answered = strstr(world_new_events(w, it), "TaskCompleted(1)") != NULL;
    OrchestratorAction *a = is_answered ? act_done(w, 2, COMPLETED, "r") : act_task(w, 1, "T", "x");
    assert_int_equal(world_complete(w, it, a, NULL)->status, OK);
}

static const char *const FILES[] = {"s.db", "s.db-wal", "s.db-shm", "s.db.lock"};

static void check_what_is_left(struct books *b, const char *dir)
{
    char url[200], path[200], id[3] = "i?";
    unsigned tasks[IDS] = {0};

    snprintf(url, sizeof(url), "sqlite:%s/s.db", dir);
    struct world *after = world_new(url);
    struct world_stream *st = world_stream(after, 100, 100);
    world_advance(after, 2 * USEC_PER_SEC);
    for (const struct world_item *it; (it = world_next(st));)
        answer(after, it, tasks);
    for (unsigned i = 0; i < IDS; i++) {
        id[1] = (char)('0' + i);
        const OrchestrationState *state = world_get(after, id);
        if (b->acknowledged[i] >= STARTED)
            assert_non_null(state);
        if (b->begun[i] == ABSENT)
            assert_null(state);
        assert_in_range(tasks[i], 0, b->acknowledged[i] >= ANSWERED ? 0 : 1);
        if (!state)
            continue;
        b->found[b->acknowledged[i]]++;
        assert_int_equal(state->orchestrationstatus, COMPLETED);
        assert_true(bytes_eq(wire_string(state->output), BYTES_LIT("r")));
        assert_string_equal(world_history(after, id),
                            "OrchestratorStarted ExecutionStarted TaskScheduled#1 "
                            "OrchestratorStarted TaskCompleted(1) ExecutionCompleted");
    }
    world_free(after);
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, FILES[i]);
        (void)unlink(path);
    }
}

static void cut(void *arg, unsigned call)
{
    struct books *b = arg;
    char dir[100];

    fault_vfs_record(false);
    snprintf(dir, sizeof(dir), "%s/cut", b->w->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    fault_vfs_power_cut(dir, call % 2 ? &b->prng : NULL);
    check_what_is_left(b, dir);
    assert_int_equal(rmdir(dir), 0);
    b->cuts++;
    fault_vfs_record(true);
}

static void acknowledge(struct books *b, unsigned i, const struct world_answer *a)
{
    assert_true(a->is_done);
    assert_int_equal(a->status, OK);
    b->acknowledged[i] = b->begun[i];
}

static void one_instance(struct books *b, struct world_stream *st, unsigned i)
{
    char id[3] = {'i', (char)('0' + i), 0};

    b->begun[i] = STARTED;
    acknowledge(b, i, world_start(b->w, id, "P", "input"));
    b->begun[i] = ASKED;
    acknowledge(b, i, world_complete(b->w, world_turn(st), act_task(b->w, 1, "T", "x"), NULL));
    b->begun[i] = ANSWERED;
    acknowledge(b, i, world_result(b->w, world_task(st), "r"));
    b->begun[i] = ENDED;
    acknowledge(b, i,
                world_complete(b->w, world_turn(st), act_done(b->w, 2, COMPLETED, "r"), NULL));
}

static void nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    struct books b = {0};

    prng_seed(&b.prng, 20260137);
    fault_vfs_register();
    fault_vfs_reset();
    fault_vfs_record(true);
    b.w = world_new_file(FAULT_VFS);
    struct world_stream *st = world_stream(b.w, 10, 10);
    fault_vfs_watch(cut, &b);
    for (unsigned i = 0; i < IDS; i++)
        one_instance(&b, st, i);
    fault_vfs_watch(NULL, NULL);
    fault_vfs_record(false);
    assert_true(b.cuts >= 100);
    for (enum stage s = STARTED; s <= ENDED; s++)
        assert_true(b.found[s] > 0);
    world_free(b.w);
    fault_vfs_reset();
}

int main(void)
{
    const struct CMUnitTest TESTS[] = {cmocka_unit_test(nothing_acknowledged_is_lost)};

    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
