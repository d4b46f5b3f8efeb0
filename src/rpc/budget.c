#include "rpc/budget.h"

#include "base/assert.h"

void budget_init(struct budget *b, uint64_t limit)
{
    pthread_mutex_init(&b->lock, NULL);
    b->limit = limit;
    b->used = b->held = 0;
    list_init(&b->waiting);
}

void budget_deinit(struct budget *b)
{
    ASSERT(list_is_empty(&b->waiting));
    pthread_mutex_destroy(&b->lock);
}

static bool fits(const struct budget *b, uint64_t bytes)
{
    return b->used == 0 || (b->used <= b->limit && bytes <= b->limit - b->used);
}

static void grant(struct budget *b, struct budget_claim *c)
{
    b->used += c->bytes;
    c->state = CLAIM_GRANTED;
}

enum claim_state budget_claim(struct budget *b, struct budget_claim *c, uint64_t bytes)
{
    ASSERT(c->state == CLAIM_NONE);
    pthread_mutex_lock(&b->lock);
    c->budget = b;
    c->bytes = bytes;
    if (list_is_empty(&b->waiting) && fits(b, bytes)) {
        grant(b, c);
    } else {
        c->state = CLAIM_WAITING;
        list_push_back(&b->waiting, &c->node);
    }
    enum claim_state state = c->state;
    pthread_mutex_unlock(&b->lock);
    return state;
}

void budget_force(struct budget *b, struct budget_claim *c, uint64_t bytes)
{
    ASSERT(c->state == CLAIM_NONE);
    pthread_mutex_lock(&b->lock);
    c->budget = b;
    c->bytes = bytes;
    grant(b, c);
    pthread_mutex_unlock(&b->lock);
}

/* Of what is in memory already: there is some room past the limit, but not without end. */
static bool may_overshoot(const struct budget *b, uint64_t own, uint64_t bytes)
{
    return b->used == own || b->used + bytes <= 2 * b->limit;
}

bool budget_take(struct budget *b, struct budget_claim *c, uint64_t bytes)
{
    ASSERT(c->state == CLAIM_NONE);
    pthread_mutex_lock(&b->lock);
    bool ok = may_overshoot(b, 0, bytes);
    if (ok) {
        c->budget = b;
        c->bytes = bytes;
        grant(b, c);
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

bool budget_grow(struct budget_claim *c, uint64_t more)
{
    if (more == 0 || c->state != CLAIM_GRANTED) /* only its owner leaves that state */
        return true;
    struct budget *b = c->budget;
    pthread_mutex_lock(&b->lock);
    bool ok = may_overshoot(b, c->bytes, more);
    if (ok) {
        c->bytes += more;
        b->used += more;
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

enum claim_state budget_state(const struct budget_claim *c)
{
    return c->state;
}

static void grant_waiting(struct budget *b)
{
    for (struct list_node *n; (n = list_first(&b->waiting));) {
        struct budget_claim *c = LIST_ENTRY(n, struct budget_claim, node);
        if (!fits(b, c->bytes))
            return;
        list_remove(n);
        grant(b, c);
        if (c->wake)
            c->wake(c->arg);
    }
}

void budget_release(struct budget_claim *c)
{
    if (c->state == CLAIM_NONE) /* only its owner leaves this state: no lock is needed to see it */
        return;
    struct budget *b = c->budget;
    pthread_mutex_lock(&b->lock);
    if (c->state == CLAIM_WAITING)
        list_remove(&c->node);
    else
        b->used -= c->bytes;
    c->state = CLAIM_NONE;
    c->bytes = 0;
    grant_waiting(b);
    pthread_mutex_unlock(&b->lock);
}

bool budget_hold(struct budget *b, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    bool ok = b->held + bytes <= b->limit;
    if (ok)
        b->held += bytes;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

void budget_unhold(struct budget *b, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    ASSERT(b->held >= bytes);
    b->held -= bytes;
    pthread_mutex_unlock(&b->lock);
}
