/* due.c - nothing to do: what should have happened by now (spec 6.2, 8.1, 8.3). */
#include <stdlib.h>

#include "base/assert.h"
#include "internal.h"

#define PATIENCE (5 * USEC_PER_SEC)

/* Since when this has been seen at each look; 0: for the first time now. */
static usec_t seen_for(struct model *m, uint64_t key)
{
    for (size_t n = 0; n < m->since_n; n++)
        if (m->since[n].key == key) {
            m->since[n].look = m->look;
            return m->mono - m->since[n].at;
        }
    if (m->since_n == m->since_cap) {
        m->since_cap = m->since_cap ? m->since_cap * 2 : 32;
        m->since = realloc(m->since, m->since_cap * sizeof(*m->since));
        ASSERT(m->since);
    }
    m->since[m->since_n++] = (struct since){.key = key, .at = m->mono, .look = m->look};
    return 0;
}

static void forget_unseen(struct model *m)
{
    for (size_t n = m->since_n; n-- > 0;)
        if (m->since[n].look != m->look)
            m->since[n] = m->since[--m->since_n];
}

static usec_t patience_for(const struct model *m, uint64_t item)
{
    usec_t most = PATIENCE + (usec_t)m->settings->tokenless_redelivery;
    for (size_t n = 0; n < m->abandons.n; n++)
        if (m->abandons.at[n].item == item)
            most = MAX(most, PATIENCE + 2 * backoff_of(m, &m->abandons.at[n]));
    return most;
}

static bool holds_unanswered(const struct model *m, const struct stream *s, const struct inst *i)
{
    for (size_t n = 0; n < m->dispatches.n; n++) {
        const struct dispatch *p = m->dispatches.at[n];
        if (p->is_turn && p->token_less && !p->answered && !p->lost && p->inst == i->serial &&
            p->process == m->process && p->connection == s->connection)
            return true;
    }
    return false;
}

const struct stream *stream_for_turn(const struct model *m, const struct inst *i)
{
    for (size_t n = 0; n < m->streams.n; n++) {
        const struct stream *s = m->streams.at[n];
        if (s->is_open && !s->is_slow && stream_takes_turn(s, i) && has_room(m, s, true) &&
            !(s->token_less && holds_unanswered(m, s, i)))
            return s;
    }
    return NULL;
}

const struct stream *stream_for_task(const struct model *m, const struct task *t)
{
    for (size_t n = 0; n < m->streams.n; n++) {
        const struct stream *s = m->streams.at[n];
        if (s->is_open && !s->is_slow && stream_takes_task(s, t) && has_room(m, s, false))
            return s;
    }
    return NULL;
}

/* ready.group bounds what the server holds in memory of one name and version, what is in flight included; beyond half of it, the
 * rest waits in the store until something is settled. */
static bool group_is_full(const struct model *m, bool turns, const char *hub, struct bytes name,
                          struct bytes version)
{
    uint64_t n = 0;
    for (size_t k = 0; turns && k < m->state.insts.n; k++) {
        const struct inst *i = m->state.insts.at[k];
        n += i->hub == hub && bytes_eq(i->name, name) && bytes_eq(i->version, version) &&
             (is_dispatchable(i) || turn_in_flight(m, i));
    }
    for (size_t k = 0; !turns && k < m->state.tasks.n; k++) {
        const struct task *t = &m->state.tasks.at[k];
        n += t->hub == hub && bytes_eq(t->name, name) && bytes_eq(t->version, version);
    }
    return n > m->settings->ready_group / 2;
}

/* A turn that its group had no room for is found in the store later, where nothing says that it was not ready when the process
 * started: it, too, counts as having been out token-less. */
void count_unloaded_as_out(struct model *m)
{
    for (size_t n = 0; m->state.insts.n > m->settings->ready_group / 2 && n < m->state.insts.n;
         n++) {
        struct inst *i = m->state.insts.at[n];
        if (i->maybe_out != i->turns + 1 && is_dispatchable(i) && !turn_in_flight(m, i) &&
            group_is_full(m, true, i->hub, i->name, i->version))
            i->maybe_out = i->turns + 1;
    }
}

static void look_for_starved(struct model *m)
{
    for (size_t n = 0; n < m->state.insts.n; n++) {
        const struct inst *i = m->state.insts.at[n];
        uint64_t item = i->serial << 1 | 1;
        if (!is_dispatchable(i) || turn_in_flight(m, i) ||
            group_is_full(m, true, i->hub, i->name, i->version))
            continue;
        const struct stream *s = stream_for_turn(m, i);
        if (s && seen_for(m, item << 32 | (i->turns << 1)) > patience_for(m, item))
            found(m, CHECK_STARVED,
                  "a turn of '%.*s' is ready, stream %llu has room, and it does not go out",
                  BYTES_FMT(i->id), (unsigned long long)s->id);
    }
    for (size_t n = 0; n < m->state.tasks.n; n++) {
        const struct task *t = &m->state.tasks.at[n];
        if (t->terminated || holder(m, t->serial) ||
            group_is_full(m, false, t->hub, t->name, t->version))
            continue;
        const struct stream *s = stream_for_task(m, t);
        if (s && seen_for(m, t->serial << 33) > patience_for(m, t->serial << 1))
            found(m, CHECK_STARVED,
                  "activity %d '%.*s' is ready, stream %llu has room, and it does not go out",
                  t->id, BYTES_FMT(t->name), (unsigned long long)s->id);
    }
}

/* Spec 8.2, part 1 of the simulator: due timers fire within 1 s, also after the clock stepped forward. */
static void look_for_late(struct model *m)
{
    for (size_t n = 0; n < m->state.timers.n; n++) {
        const struct timer *t = &m->state.timers.at[n];
        const struct inst *i = state_by_serial(&m->state, t->inst);
        if (i && t->due <= m->wall && seen_for(m, t->serial << 33 | 1) > USEC_PER_SEC)
            found(m, CHECK_TIMER_LATE,
                  "timer %d (kind %d) of '%.*s' was due at %lld and has not fired at %lld", t->id,
                  (int)t->kind, BYTES_FMT(i->id), (long long)t->due, (long long)m->wall);
    }
}

void model_idle(struct model *m)
{
    if (m->findings)
        return;
    m->look++;
    waiters_idle(m);
    look_for_starved(m);
    look_for_late(m);
    forget_unseen(m);
}
