/* timers.c - the near timers of the shard, earliest first: an index over the store's timer rows, which are the truth.
 *
 * At most TIMERS_MAX entries; the rest is read when these run out. A cancelled timer's entry stays until it is due and then finds
 * no row. Due times are wall-clock: a step forward makes them due at once, a step back makes them wait.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

#define TIMERS_READ 10000
#define TIMERS_MAX 40000

static bool timer_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct timer_entry *x = CONTAINER_OF(a, struct timer_entry, node);
    const struct timer_entry *y = CONTAINER_OF(b, struct timer_entry, node);
    return x->due != y->due ? x->due < y->due : x->key < y->key;
}

static void push(struct engine *e, usec_t due, uint64_t key)
{
    struct timer_entry *t = malloc(sizeof(*t));
    ASSERT(t);
    *t = (struct timer_entry){.due = due, .key = key};
    heap_push(&e->timers, &t->node);
}

void timers_reset(struct engine *e)
{
    for (struct heap_node *n; (n = heap_pop(&e->timers));)
        free(CONTAINER_OF(n, struct timer_entry, node));
    heap_deinit(&e->timers);
    heap_init(&e->timers, timer_less);
    e->timers_due = INT64_MIN;
    e->timers_key = 0;
    e->timers_all = false;
}

static bool take(void *arg, const struct store_timer *t)
{
    struct engine *e = arg;
    push(e, t->due, t->key);
    e->timers_due = t->due;
    e->timers_key = t->key;
    return true;
}

/* Due times in the order of unsigned numbers. */
static uint64_t place_of(usec_t due)
{
    return (uint64_t)due ^ (uint64_t)1 << 63;
}

static usec_t due_at(uint64_t place)
{
    return (usec_t)(place ^ (uint64_t)1 << 63);
}

static bool look(void *arg UNUSED, const struct store_timer *t UNUSED)
{
    return false;
}

static enum err probe(void *arg, uint64_t after, struct error *err)
{
    struct engine *e = arg;
    return store_timer_read(e->reader, due_at(after), UINT64_MAX, USEC_NEVER, 1, look, NULL, err);
}

/* The next row cannot be read. What was read before it comes first. */
static enum err skip_damage(struct engine *e, struct error *err)
{
    if (e->timers.count > 0)
        return OK;
    damage_log(e, "engine: timers that cannot be read do not fire", err);
    uint64_t place = place_of(e->timers_due);
    enum err rc = damage_skip(probe, e, &place, err);
    if (rc == OK) {
        e->timers_due = due_at(place);
        e->timers_key = UINT64_MAX;
        return OK; /* the next batch reads on */
    }
    e->timers_all = rc == ERR_CORRUPT; /* nothing behind it */
    return rc == ERR_CORRUPT ? OK : rc;
}

enum err timers_load(struct engine *e, struct error *err)
{
    if (e->timers_all || e->timers.count > 0)
        return OK;
    enum err rc = store_timer_read(e->reader, e->timers_due, e->timers_key, USEC_NEVER, TIMERS_READ,
                                   take, e, err);
    if (rc == ERR_CORRUPT)
        return skip_damage(e, err);
    if (!rc && e->timers.count < TIMERS_READ)
        e->timers_all = true;
    return rc;
}

void timers_added(struct engine *e, usec_t due, uint64_t key)
{
    bool within = due < e->timers_due || (due == e->timers_due && key <= e->timers_key);
    if (!e->timers_all && !within)
        return;
    push(e, due, key);
    if (e->timers.count > TIMERS_MAX)
        timers_reset(e);
}

void timers_collect(struct engine *e, struct unit_list *units, size_t max)
{
    for (struct heap_node *n; max > 0 && (n = heap_min(&e->timers)); max--) {
        struct timer_entry *t = CONTAINER_OF(n, struct timer_entry, node);
        if (t->due > e->wall)
            return;
        heap_pop(&e->timers);
        unit_push(units, &(struct unit){.type = UNIT_TIMER, .due = t->due, .key = t->key});
        free(t);
    }
}

usec_t timers_next(const struct engine *e)
{
    const struct heap_node *n = heap_min(&e->timers);
    return n ? CONTAINER_OF(n, struct timer_entry, node)->due : USEC_NEVER;
}

bool timers_unread(const struct engine *e)
{
    return !e->timers_all && e->timers.count == 0;
}
