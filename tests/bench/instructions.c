/* instructions.c - scenarios whose instructions are counted: the core in one thread, on the memory store, from a fixed seed.
 *
 *   instructions SCENARIO [ROUNDS]
 *
 * tests/bench/instructions.py runs each under callgrind and adds up what src/ spent inside measured(); the counts are kept in
 * tests/bench/instructions.txt. Sixteen instances go in step, so that batches have as many commands as a busy server's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "lib/rpc_fixture.h"
#include "lib/world.h"
#include "wire/value.h"

#define INSTANCES 16
#define ROUNDS_MAX 1000

struct bench {
    struct world *w;
    struct world_stream *workers;
    struct rpc_fixture rpc;
    uint64_t next_id, rounds;
    struct world_answer *waits[INSTANCES];
    char ids[INSTANCES][33];
};

static char *new_id(struct bench *b, size_t i)
{
    uint64_t words[2] = {prng_u64(&b->w->prng), prng_u64(&b->w->prng)};
    hex_encode((const uint8_t *)words, sizeof(words), b->ids[i]);
    return b->ids[i];
}

/* Commands of one round are queued and run as one batch. */
static void hold(struct bench *b)
{
    b->w->is_held = true;
}

static void run(struct bench *b)
{
    b->w->is_held = false;
    world_run(b->w);
}

static void start_all(struct bench *b, const char *name)
{
    hold(b);
    for (size_t i = 0; i < INSTANCES; i++)
        (void)world_start(b->w, new_id(b, i), name, "\"0\"");
    run(b);
    hold(b);
    for (size_t i = 0; i < INSTANCES; i++)
        b->waits[i] = world_wait(b->w, b->ids[i], DT_WAIT_COMPLETION | DT_WAIT_PAYLOADS, i + 1);
    run(b);
}

static void check_ended(struct bench *b)
{
    for (size_t i = 0; i < INSTANCES; i++) {
        if (!b->waits[i]->is_done || b->waits[i]->status) {
            fprintf(stderr, "instance %s has not ended\n", b->ids[i]);
            exit(1);
        }
    }
}

/* What a round handed out, answered in one batch: turns by `turn`, activities with their input. */
static bool answer_all(struct bench *b, void (*turn)(struct bench *, const struct world_item *))
{
    size_t end = b->workers->count;
    if (b->workers->taken == end)
        return false;
    hold(b);
    for (size_t i = b->workers->taken; i < end; i++) {
        struct world_item *it = b->workers->items[i];
        if (it->item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST)
            turn(b, it);
        else if (it->item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST)
            (void)world_result(b->w, it, "\"result\"");
    }
    b->workers->taken = end;
    run(b);
    return true;
}

static uint64_t count_done(const OrchestratorRequest *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_pastevents + r->n_newevents; i++) {
        const HistoryEvent *e =
            i < r->n_pastevents ? r->pastevents[i] : r->newevents[i - r->n_pastevents];
        n += e->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED;
    }
    return n;
}

static void chain(struct bench *b, const struct world_item *it, uint64_t steps)
{
    uint64_t done = count_done(it->item->orchestratorrequest);
    OrchestratorAction *a =
        done < steps ? act_task(b->w, (int32_t)done + 1, "step", "\"input\"")
                     : act_done(b->w, (int32_t)done + 1,
                                ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, "\"result\"");
    (void)world_complete(b->w, it, a, NULL);
}

static void hello1_turn(struct bench *b, const struct world_item *it)
{
    chain(b, it, 1);
}

static void chain50_turn(struct bench *b, const struct world_item *it)
{
    chain(b, it, 50);
}

#define FANOUT 100

static void fanout_turn(struct bench *b, const struct world_item *it)
{
    uint64_t done = count_done(it->item->orchestratorrequest);
    OrchestratorResponse *r = world_response(b->w, it, NULL);
    if (it->item->orchestratorrequest->n_pastevents == 0) {
        r->actions = arena_array(b->w->arena, OrchestratorAction *, FANOUT);
        for (; r->n_actions < FANOUT; r->n_actions++)
            r->actions[r->n_actions] =
                act_task(b->w, (int32_t)r->n_actions + 1, "step", "\"input\"");
    } else if (done == FANOUT) {
        r->n_actions = 1;
        r->actions[0] = act_done(
            b->w, FANOUT + 1, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, "\"result\"");
    }
    (void)world_answer(b->w, 1, r);
}

/* A timer that is cancelled by nothing and an event: three turns. */
static void event_turn(struct bench *b, const struct world_item *it)
{
    const OrchestratorRequest *r = it->item->orchestratorrequest;
    if (r->n_pastevents == 0)
        (void)world_complete(b->w, it, act_timer(b->w, 1, b->w->wall + USEC_PER_SEC), NULL);
    else if (r->newevents[r->n_newevents - 1]->event_type_case ==
             HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED)
        (void)world_complete(b->w, it, NULL);
    else
        (void)world_complete(
            b->w, it,
            act_done(b->w, 2, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, "\"result\""),
            NULL);
}

static void orchestrations(struct bench *b, const char *name,
                           void (*turn)(struct bench *, const struct world_item *))
{
    start_all(b, name);
    while (answer_all(b, turn))
        ;
}

static void hello1(struct bench *b)
{
    orchestrations(b, "hello1", hello1_turn);
    check_ended(b);
}

static void chain50(struct bench *b)
{
    orchestrations(b, "chain50", chain50_turn);
    check_ended(b);
}

static void fanout100(struct bench *b)
{
    orchestrations(b, "fanout100", fanout_turn);
    check_ended(b);
}

static void event(struct bench *b)
{
    orchestrations(b, "event", event_turn);
    world_advance(b->w, 2 * USEC_PER_SEC);
    while (answer_all(b, event_turn))
        ;
    hold(b);
    for (size_t i = 0; i < INSTANCES; i++)
        (void)world_raise(b->w, b->ids[i], "go", "\"data\"");
    run(b);
    while (answer_all(b, event_turn))
        ;
    check_ended(b);
}

/* As many calls at once as there are instances elsewhere, both ends of each. */
static void unary(struct bench *b)
{
    struct seen_call calls[INSTANCES] = {0};
    for (size_t i = 0; i < INSTANCES; i++)
        rpc_fixture_call(&b->rpc, &calls[i], "/test.T/Echo", NULL, 0, 0, false,
                         BYTES_LIT("a message of some thirty bytes"));
    rpc_fixture_pump(&b->rpc);
    for (size_t i = 0; i < INSTANCES; i++) {
        if (calls[i].messages != 1 || calls[i].status) {
            fprintf(stderr, "a call was not answered\n");
            exit(1);
        }
        seen_call_deinit(&calls[i]);
    }
}

static const struct scenario {
    const char *name;
    void (*fn)(struct bench *b);
} SCENARIOS[] = {
    {"hello1", hello1}, {"chain50", chain50}, {"fanout100", fanout100},
    {"event", event},   {"unary", unary},
};

/* What counts: tests/bench/instructions.py names it to callgrind. */
__attribute__((noinline)) void measured(const struct scenario *s, struct bench *b);
void measured(const struct scenario *s, struct bench *b)
{
    for (uint64_t i = 0; i < b->rounds; i++)
        s->fn(b);
}

static struct bench *set_up(uint64_t rounds)
{
    struct bench *b = calloc(1, sizeof(*b));
    ASSERT(b);
    b->rounds = rounds;
    b->w = world_new(NULL);
    b->workers = world_stream(b->w, 1000000, 1000000);
    rpc_fixture_init(&b->rpc);
    rpc_fixture_start(&b->rpc);
    return b;
}

static void tear_down(struct bench *b)
{
    rpc_fixture_deinit(&b->rpc);
    world_free(b->w);
    free(b);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 10;
    const struct scenario *s = NULL;
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(SCENARIOS); i++)
        if (!strcmp(argv[1], SCENARIOS[i].name))
            s = &SCENARIOS[i];
    if (!s || (argc > 2 && !bytes_parse_u64(bytes_str(argv[2]), &rounds)) || rounds == 0 ||
        rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: instructions hello1|chain50|fanout100|event|unary [ROUNDS]\n");
        return 2;
    }
    struct bench *b = set_up(rounds);
    measured(s, b);
    tear_down(b);
    printf("%s %" PRIu64 " rounds of %d, compiler %s\n", s->name, rounds, INSTANCES,
           PERDURE_COMPILER);
    return 0;
}
