/* state.c - the state of all instances: look-ups and copies. */
#include <stdlib.h>

#include "internal.h"

struct inst *state_find(const struct state *s, const char *hub, struct bytes id)
{
    for (size_t i = 0; i < s->insts.n; i++)
        if (s->insts.at[i]->hub == hub && bytes_eq(s->insts.at[i]->id, id) &&
            !bytes_is_none(s->insts.at[i]->id))
            return s->insts.at[i];
    return NULL;
}

struct inst *state_by_serial(const struct state *s, uint64_t serial)
{
    for (size_t i = 0; i < s->insts.n; i++)
        if (s->insts.at[i]->serial == serial)
            return s->insts.at[i];
    return NULL;
}

static void *copied(const void *at, size_t bytes)
{
    if (!bytes)
        return NULL;
    void *p = malloc(bytes);
    ASSERT(p);
    memcpy(p, at, bytes);
    return p;
}

#define COPY_VEC(v) ((v)->at = copied((v)->at, (v)->n * sizeof(*(v)->at)), (v)->cap = (v)->n)

void state_copy(struct state *to, const struct state *from)
{
    *to = *from;
    COPY_VEC(&to->insts);
    COPY_VEC(&to->tasks);
    COPY_VEC(&to->timers);
    COPY_VEC(&to->mails);
    for (size_t i = 0; i < to->insts.n; i++) {
        struct inst *inst = to->insts.at[i] = copied(to->insts.at[i], sizeof(*inst));
        COPY_VEC(&inst->history);
        COPY_VEC(&inst->inbox);
        COPY_VEC(&inst->chunks);
    }
}

static void inst_free(struct inst *i)
{
    VEC_FREE(&i->history);
    VEC_FREE(&i->inbox);
    VEC_FREE(&i->chunks);
    free(i);
}

void state_free(struct state *s)
{
    for (size_t i = 0; i < s->insts.n; i++)
        inst_free(s->insts.at[i]);
    VEC_FREE(&s->insts);
    VEC_FREE(&s->tasks);
    VEC_FREE(&s->timers);
    VEC_FREE(&s->mails);
}

void remove_inst(struct run *r, struct inst *i)
{
    struct state *s = r->s;
    touch_id(r->m, i->hub, i->id);
    for (size_t n = s->timers.n; n-- > 0;)
        if (s->timers.at[n].inst == i->serial)
            VEC_REMOVE(&s->timers, n);
    for (size_t n = 0; n < s->tasks.n; n++)
        if (s->tasks.at[n].inst == i->serial)
            s->tasks.at[n].orphan = s->tasks.at[n].gone = true;
    for (size_t n = s->insts.n; n-- > 0;)
        if (s->insts.at[n] == i)
            VEC_REMOVE(&s->insts, n);
    inst_free(i);
}

bool is_dispatchable(const struct inst *i)
{
    if (is_terminal(i) || i->inbox.n == 0)
        return false;
    return i->terminating || (i->status != ST_SUSPENDED && !i->start_waits);
}
