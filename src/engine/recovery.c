/* recovery.c - from rows to ready work: after a start, and when more waits in the store than memory holds.
 *
 * Turns: objects with something in their inbox, found by a skip scan in slices between batches. At a start that goes through all;
 * for groups that have room again it begins at the first object that one of them had no room for, and ends when each of them has
 * none left, so that a long backlog is gone through once and not once a refill. Tasks: the rows of each group, oldest first,
 * fetched when the group's memory has room.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"

#define SLICE 256

static void add_group(void *arg, const struct store_group *g)
{
    struct engine *e = arg;
    struct hub *hub = hub_by_id(e, g->hub);
    if (hub && g->kind > 0 &&
        g->kind < WORK_KINDS) /* else the row is damaged, or a later version's */
        group_get(e, hub, g->kind, g->name, g->version)->number = g->group;
}

static void add_hub(void *arg, uint32_t id, struct bytes name)
{
    hub_set_id(arg, hub_by_name(arg, name, true), id);
}

/* The groups with a number, in its order: there may be many thousands. */
struct numbered {
    struct engine *e;
    struct group **groups;
    size_t count;
};

static int by_number(const void *a, const void *b)
{
    const struct group *const *x = a;
    const struct group *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

static void numbered_init(struct numbered *all, struct engine *e)
{
    *all = (struct numbered){.e = e};
    if (e->groups.count == 0)
        return;
    all->groups = calloc(e->groups.count, sizeof(struct group *));
    ASSERT(all->groups);
    HASHMAP_FOR_EACH (&e->groups, n) {
        struct group *g = CONTAINER_OF(n, struct group, by_name);
        if (g->number)
            all->groups[all->count++] = g;
    }
    qsort(all->groups, all->count, sizeof(struct group *), by_number);
}

static void mark_group(void *arg, uint64_t number)
{
    const struct numbered *all = arg;
    size_t lo = 0, hi = all->count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (all->groups[mid]->number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == all->count || all->groups[lo]->number != number)
        return;
    all->groups[lo]->more_in_store = true;
    recovery_want(all->e, all->groups[lo]);
}

/* Names that cannot be read are found one by one when they are used, or not. */
enum err recovery_names(struct engine *e, struct error *err)
{
    enum err rc = store_hub_list(e->reader, add_hub, e, err);
    if (rc && rc != ERR_CORRUPT)
        return rc;
    if (rc)
        damage_log(e, "engine: not all task hubs can be read", err);
    e->names_damaged = rc == ERR_CORRUPT;
    rc = store_group_list(e->reader, add_group, e, err);
    if (rc && rc != ERR_CORRUPT)
        return rc;
    if (rc)
        damage_log(e, "engine: not all names of work can be read", err);
    e->names_damaged = e->names_damaged || rc == ERR_CORRUPT;
    return OK;
}

/* At start, and again when the store was away: a commit that failed may have reached it all the same. */
enum err recovery_start(struct engine *e, struct error *err)
{
    struct numbered all;
    enum err rc = recovery_names(e, err);
    if (rc)
        return rc;
    numbered_init(&all, e);
    rc = store_task_groups(e->reader, mark_group, &all, err);
    if (rc == ERR_CORRUPT) { /* any may have some: each is looked at */
        damage_log(e, "engine: not all waiting activities can be read", err);
        for (size_t i = 0; i < all.count; i++)
            mark_group(&all, all.groups[i]->number);
        rc = OK;
    }
    free(all.groups);
    if (rc)
        return rc;
    e->rescan_turns = true;
    e->mail_waits = e->trash_waits = true;
    return OK;
}

/* ---- turns ------------------------------------------------------------------------------------------------- */

struct slice {
    struct engine *e;
    uint64_t last;
    uint32_t count;
};

static void found_object(void *arg, uint64_t key)
{
    struct slice *s = arg;
    s->last = key;
    s->count++;
    s->e->stats.scanned++;
    if (!work_find(s->e, WORK_TURN, key))
        engine_pend(s->e, &(struct unit){.type = UNIT_CHECK, .key = key, .recovered = true});
}

static void look_at_object(void *arg UNUSED, uint64_t key UNUSED)
{
}

static enum err probe_objects(void *arg, uint64_t after, struct error *err)
{
    struct engine *e = arg;
    return store_inbox_objects(e->reader, after, 1, look_at_object, NULL, err);
}

/* The next instance with work cannot be read. False: nothing behind it can, or not now. */
static bool skip_objects(struct engine *e, struct error *err)
{
    damage_log(e, "engine: turns that cannot be read are not handed out", err);
    enum err rc = damage_skip(probe_objects, e, &e->recover_after, err);
    if (rc == ERR_CORRUPT)
        e->recovering_turns = false;
    return rc == OK;
}

static void forget_wanted(struct engine *e)
{
    while (list_pop_front(&e->wanted))
        ;
}

void recovery_refused(struct group *g, uint64_t object)
{
    g->more_in_store = true;
    g->cursor = g->cursor ? MIN(g->cursor, object) : object;
    if (list_is_linked(&g->wanted))
        list_remove(&g->wanted);
}

static void begin_full_scan(struct engine *e)
{
    e->rescan_turns = false;
    e->recovering_turns = e->scans_all = true;
    e->recover_after = 0;
    forget_wanted(e);
}

/* False: there is nothing to look for now. */
static bool is_scanning(struct engine *e)
{
    if (e->recovering_turns && !e->scans_all && list_is_empty(&e->wanted))
        e->recovering_turns = false; /* each has as much as it has room for */
    if (!e->recovering_turns && e->rescan_turns)
        begin_full_scan(e);
    return e->recovering_turns;
}

bool recovery_step(struct engine *e)
{
    bool was_scanning = e->recovering_turns;
    if (!is_scanning(e))
        return was_scanning; /* groups may have waited for its end */
    struct slice s = {.e = e, .last = e->recover_after};
    struct error err = {0};
    enum err rc = store_inbox_objects(e->reader, e->recover_after, SLICE, found_object, &s, &err);
    if (rc && rc != ERR_CORRUPT) {
        log_error(LOG_ERROR, "engine: cannot look for ready work", &err);
        return false; /* tried again with the next batch */
    }
    e->recover_after = s.last;
    if (rc) /* those before it first */
        return s.count > 0 || skip_objects(e, &err) || e->rescan_turns;
    e->recovering_turns = s.count == SLICE;
    if (!e->recovering_turns)
        forget_wanted(e);
    return e->recovering_turns || e->rescan_turns || !list_is_empty(&e->refills);
}

/* ---- tasks ------------------------------------------------------------------------------------------------- */

static bool has_room(const struct engine *e, const struct group *g)
{
    return g->in_memory <= e->settings->ready_group / 2;
}

void recovery_want(struct engine *e, struct group *g)
{
    if (g->more_in_store && has_room(e, g) && !list_is_linked(&g->refill))
        list_push_back(&e->refills, &g->refill);
}

struct refill {
    struct engine *e;
    struct group *g;
    uint32_t count;
    bool full;
};

static bool found_task(void *arg, const struct store_task *t)
{
    struct refill *r = arg;
    if (!work_find(r->e, WORK_TASK, t->key)) {
        struct work *w = work_add(r->e, WORK_TASK, t->key, t->object, r->g);
        if (!w) {
            r->full = true;
            return false;
        }
        w->recovered = true;
        work_make_ready(r->e, w);
    }
    r->g->cursor = MAX(r->g->cursor, t->key);
    r->count++;
    return true;
}

static bool look_at_task(void *arg UNUSED, const struct store_task *t UNUSED)
{
    return false;
}

static enum err probe_tasks(void *arg, uint64_t after, struct error *err)
{
    struct refill *r = arg;
    return store_task_read(r->e->reader, r->g->number, after, 1, look_at_task, NULL, err);
}

/* The group's next row cannot be read. False: the store cannot be now. */
static bool skip_tasks(struct refill *r, struct error *err)
{
    damage_log(r->e, "engine: activities that cannot be read are not handed out", err);
    enum err rc = damage_skip(probe_tasks, r, &r->g->cursor, err);
    r->g->more_in_store = rc != ERR_CORRUPT;
    return rc == OK || rc == ERR_CORRUPT;
}

/* False: the store cannot be read now. */
static bool refill_tasks(struct engine *e, struct group *g)
{
    struct refill r = {.e = e, .g = g};
    struct error err = {0};
    uint32_t max = (uint32_t)MIN(e->settings->ready_group - g->in_memory + 1, (uint64_t)SLICE * 4);
    enum err rc = store_task_read(e->reader, g->number, g->cursor, max, found_task, &r, &err);
    if (rc == ERR_CORRUPT) /* those before it first */
        return r.count > 0 || r.full || skip_tasks(&r, &err);
    if (rc) {
        log_error(LOG_ERROR, "engine: cannot read waiting activities", &err);
        return false;
    }
    g->more_in_store = r.full || r.count == max;
    return true;
}

/* The scan that runs may be past what this group waits for; the next one is for all that want one by then. */
static bool begin_scan_for_groups(struct engine *e)
{
    uint64_t first = UINT64_MAX;
    forget_wanted(e);
    LIST_FOR_EACH (&e->refills, n) {
        struct group *g = LIST_ENTRY(n, struct group, refill);
        if (g->kind != WORK_TURN)
            continue;
        list_remove(n);
        if (!g->more_in_store || !has_room(e, g))
            continue;
        first = MIN(first, g->cursor);
        g->cursor = 0;
        g->more_in_store = false;
        list_push_back(&e->wanted, &g->wanted);
    }
    if (first == UINT64_MAX)
        return false;
    e->recovering_turns = true;
    e->scans_all = false;
    e->recover_after = first - 1;
    return true;
}

bool recovery_refill(struct engine *e)
{
    bool more = !e->recovering_turns && !e->rescan_turns && begin_scan_for_groups(e);
    LIST_FOR_EACH (&e->refills, n) {
        struct group *g = LIST_ENTRY(n, struct group, refill);
        if (g->kind == WORK_TURN)
            continue; /* when the scan that runs is through */
        if (!refill_tasks(e, g))
            return more; /* tried again with the next batch */
        if (!g->more_in_store || !has_room(e, g))
            list_remove(n);
        else
            more = true;
    }
    return more;
}
