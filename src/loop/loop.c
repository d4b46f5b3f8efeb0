/* loop.c - the rounds of a loop: wait, events, posted work, timers, then the output of all streams. */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "loop/internal.h"

struct loop_timer {
    struct heap_node node;
    struct loop *loop;
    usec_t due;
    uint64_t number;
    void (*fn)(void *arg);
    void *arg;
};

static bool timer_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct loop_timer *x = CONTAINER_OF(a, struct loop_timer, node);
    const struct loop_timer *y = CONTAINER_OF(b, struct loop_timer, node);

    return x->due != y->due ? x->due < y->due : x->number < y->number;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void on_wake(evutil_socket_t fd, short what UNUSED, void *arg UNUSED)
{
    uint64_t n;

    (void)!read((int)fd, &n, sizeof(n)); /* only to make it silent again */
}

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct loop *l = arg;

    l->timer_armed = USEC_NEVER; /* run_timers() comes after all events */
}

static struct event_base *make_base(void)
{
    struct event_config *cfg = event_config_new();

    if (!cfg)
        return NULL;
    event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(cfg);
    event_config_free(cfg);
    return base;
}

enum err loop_new(struct loop **out, struct error *err)
{
    struct loop *l = calloc(1, sizeof(*l));

    ASSERT(l);
    l->base = make_base();
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!l->base || l->wake_fd < 0) {
        enum err e = error_set(err, ERR_IO, "could not make an event loop: %s", strerror(errno));
        if (l->base)
            event_base_free(l->base);
        if (l->wake_fd >= 0)
            close(l->wake_fd);
        free(l);
        return e;
    }
    l->wake_event = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
    l->timer_event = evtimer_new(l->base, on_timer, l);
    ASSERT(l->wake_event && l->timer_event && event_add(l->wake_event, NULL) == 0);
    l->timer_armed = USEC_NEVER;
    heap_init(&l->timers, timer_less);
    list_init(&l->dirty);
    list_init(&l->streams);
    l->read_buf = malloc(LOOP_READ_BYTES);
    ASSERT(l->read_buf);
    l->now_is_old = true;
    *out = l;
    return OK;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    loop_close_streams(l);
    event_free(l->wake_event);
    event_free(l->timer_event);
    event_base_free(l->base);
    close(l->wake_fd);
    heap_deinit(&l->timers);
    strbuf_deinit(&l->out);
    strbuf_deinit(&l->sealed);
    free(l->round_ends);
    free(l->read_buf);
    free(l);
}

struct event_base *loop_event_base(struct loop *l)
{
    return l->base;
}

usec_t loop_now(const struct loop *l)
{
    struct loop *own = (struct loop *)(uintptr_t)l;

    if (l->now_is_old) {
        own->now = clock_monotonic(clock_system());
        own->now_is_old = false;
    }
    return l->now;
}

/* ---- work from other threads ----------------------------------------------------------------- */

void loop_post(struct loop *l, struct loop_task *task)
{
    task->next = NULL;
    loop_post_chain(l, task, task);
}

void loop_post_chain(struct loop *l, struct loop_task *first, struct loop_task *last)
{
    struct loop_task *newest = NULL, *oldest = first; /* the stack holds them newest first */
    while (first) {
        struct loop_task *next = first == last ? NULL : first->next;
        first->next = newest;
        newest = first;
        first = next;
    }
    struct loop_task *head = atomic_load_explicit(&l->posted, memory_order_relaxed);

    do {
        oldest->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&l->posted, &head, newest, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (!head) { /* the first since the loop looked */
        uint64_t one = 1;
        (void)!write(l->wake_fd, &one, sizeof(one)); /* full means that it is awake already */
    }
}

static void run_posted(struct loop *l)
{
    struct loop_task *t = atomic_exchange_explicit(&l->posted, NULL, memory_order_acq_rel);
    struct loop_task *in_order = NULL;

    while (t) {
        struct loop_task *next = t->next;
        t->next = in_order;
        in_order = t;
        t = next;
    }
    while (in_order) {
        struct loop_task *next = in_order->next; /* fn may free the task */
        in_order->fn(in_order);
        in_order = next;
    }
}

void loop_stop(struct loop *l)
{
    uint64_t one = 1;

    atomic_store(&l->stopping, true);
    (void)!write(l->wake_fd, &one, sizeof(one));
}

void loop_on_round_end(struct loop *l, void (*fn)(void *arg), void *arg)
{
    struct round_end *v = realloc(l->round_ends, (l->round_end_count + 1) * sizeof(*v));

    ASSERT(v);
    v[l->round_end_count++] = (struct round_end){fn, arg};
    l->round_ends = v;
}

/* ---- timers ---------------------------------------------------------------------------------- */

struct loop_timer *loop_timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
    struct loop_timer *t = calloc(1, sizeof(*t));

    ASSERT(t);
    t->loop = l;
    t->due = USEC_NEVER;
    t->number = l->timer_count++;
    t->fn = fn;
    t->arg = arg;
    return t;
}

void loop_timer_set(struct loop_timer *t, usec_t due)
{
    if (due == t->due && (due == USEC_NEVER || heap_has(&t->node)))
        return;
    if (heap_has(&t->node))
        heap_remove(&t->loop->timers, &t->node);
    t->due = due;
    if (due != USEC_NEVER)
        heap_push(&t->loop->timers, &t->node);
}

void loop_timer_free(struct loop_timer *t)
{
    if (!t)
        return;
    loop_timer_set(t, USEC_NEVER);
    free(t);
}

static void run_timers(struct loop *l)
{
    usec_t now = loop_now(l);
    size_t most = l->timers.count; /* one that sets itself again for now waits for the next round */

    for (struct heap_node *n; most > 0 && (n = heap_min(&l->timers)); most--) {
        struct loop_timer *t = CONTAINER_OF(n, struct loop_timer, node);
        if (t->due > now)
            return;
        heap_remove(&l->timers, n);
        t->due = USEC_NEVER;
        t->fn(t->arg);
    }
}

static void arm_timer(struct loop *l)
{
    struct heap_node *n = heap_min(&l->timers);
    usec_t due = n ? CONTAINER_OF(n, struct loop_timer, node)->due : USEC_NEVER;

    if (due == l->timer_armed)
        return;
    l->timer_armed = due;
    if (due == USEC_NEVER) {
        evtimer_del(l->timer_event);
        return;
    }
    usec_t wait = MAX(due - loop_now(l), 1);
    struct timeval tv = {.tv_sec = wait / USEC_PER_SEC, .tv_usec = wait % USEC_PER_SEC};
    evtimer_add(l->timer_event, &tv);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Everything that a round does after its events. True: there is more to do at once. */
static bool finish_round(struct loop *l)
{
    run_posted(l);
    run_timers(l);
    bool more =
        loop_flush_streams(l); /* also closes streams: their owners may have something to post */
    for (size_t i = 0; i < l->round_end_count; i++)
        l->round_ends[i].fn(l->round_ends[i].arg);
    return more || !list_is_empty(&l->dirty);
}

void loop_run(struct loop *l)
{
    bool more = true; /* what was asked for before the loop ran */

    while (!atomic_load_explicit(&l->stopping, memory_order_relaxed)) {
        arm_timer(l);
        l->now_is_old = true; /* the first who asks in the round reads the clock */
        event_base_loop(l->base, EVLOOP_ONCE | (more ? EVLOOP_NONBLOCK : 0));
        more = finish_round(l);
    }
    atomic_store(&l->stopping, false);
    loop_reap(l);
}

void loop_reap(struct loop *l)
{
    run_posted(l);
    loop_flush_streams(l);
}
