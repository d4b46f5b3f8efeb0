/* effects.c - what follows a commit: work offered and settled, timers armed, waits begun.
 *
 * Effects are collected by steps and performed in their order; a batch that is undone drops them.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

struct effect *effect_add(struct engine *e, enum effect_type type)
{
    if (e->effect_count == e->effect_cap) {
        e->effect_cap = e->effect_cap ? e->effect_cap * 2 : 64;
        e->effects = realloc(e->effects, e->effect_cap * sizeof(*e->effects));
        ASSERT(e->effects);
    }
    struct effect *fx = &e->effects[e->effect_count++];
    memset(fx, 0, sizeof(*fx));
    fx->type = type;
    return fx;
}

static void turn_ready(struct engine *e, const struct effect *fx)
{
    struct work *w = work_find(e, WORK_TURN, fx->key);
    if (w) {
        bool is_decided = w->state == WORK_COMMAND && !w->notify_return;
        if (is_decided || w->state == WORK_PAUSED)
            work_make_ready(e, w);
        return;
    }
    w = work_add(e, WORK_TURN, fx->key, fx->key, fx->group);
    if (!w) {
        recovery_refused(fx->group, fx->key);
        return;
    }
    w->recovered = fx->recovered;
    if (fx->recovered)
        w->hold_until = usec_add(e->started, (usec_t)e->settings->tokenless_redelivery);
    work_make_ready(e, w);
}

static void task_ready(struct engine *e, const struct effect *fx)
{
    struct group *g = fx->group;
    if (g->more_in_store)
        return; /* its turn comes when the rows before it have been fetched */
    struct work *w = work_add(e, WORK_TASK, fx->key, fx->object, g);
    if (w) {
        g->cursor = fx->key;
        work_make_ready(e, w);
    } else {
        g->more_in_store = true;
    }
}

/* One that is not out comes back now: an earlier effect of this batch may have given it back. */
static void turn_notify(struct engine *e, uint64_t object)
{
    struct work *w = work_find(e, WORK_TURN, object);
    if (!w) {
        engine_pend(e, &(struct unit){.type = UNIT_RETURNED, .key = object});
        return;
    }
    w->notify_return = true;
    if (w->state != WORK_FLIGHT)
        work_give_back(e, w, 0);
}

static void effect_perform(struct engine *e, const struct effect *fx)
{
    struct work *w;
    switch (fx->type) {
    case EFFECT_TURN_READY:
        turn_ready(e, fx);
        return;
    case EFFECT_TURN_SETTLE:
        if ((w = work_find(e, WORK_TURN, fx->key)))
            work_end(e, w);
        return;
    case EFFECT_TURN_AGAIN:
        if ((w = work_find(e, WORK_TURN, fx->key)))
            work_give_back(e, w, 0);
        return;
    case EFFECT_TURN_ABANDON:
        if ((w = work_find(e, WORK_TURN, fx->key)))
            work_abandon(e, &(struct item_ref){WORK_TURN, fx->key, w->nonce});
        return;
    case EFFECT_TURN_NOTIFY:
        turn_notify(e, fx->key);
        return;
    case EFFECT_TURN_DECIDE:
        if ((w = work_find(e, WORK_TURN, fx->key)))
            w->notify_return = false;
        return;
    case EFFECT_TASK_READY:
        task_ready(e, fx);
        return;
    case EFFECT_TASK_END:
        if ((w = work_find(e, WORK_TASK, fx->key)))
            work_end(e, w);
        return;
    case EFFECT_TIMER:
        timers_added(e, fx->due, fx->key);
        return;
    case EFFECT_WAIT:
        waiter_register(e, fx);
        return;
    }
}

void effects_perform(struct engine *e)
{
    for (size_t i = 0; i < e->effect_count; i++)
        effect_perform(e, &e->effects[i]);
    e->effect_count = 0;
}
