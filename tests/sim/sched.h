/* sched.h - simulated time: events in order of (time, order of making), and random streams that a seed derives.
 *
 * The simulator is one thread. What happens at a time is an event; running it may make more. Times are monotonic
 * microseconds since the start of the run. Each actor and each kind of fault has a stream of its own, made from the seed and a name, so that
 * leaving one out changes nothing for the others.
 * Tests: tests/suites/25-sim.sh (the same seed gives the same run)
 */
#pragma once

#include "base/heap.h"
#include "base/prng.h"
#include "base/time.h"

struct sched_event {
    struct heap_node node;
    usec_t at;
    uint64_t order;
    void (*fn)(void *arg);
    void *arg;
    bool is_once; /* made by sched_call(): freed when it ran */
};

struct sched {
    struct heap heap;
    usec_t now;
    uint64_t next_order;
};

void sched_init(struct sched *s);
void sched_deinit(struct sched *s); /* events that sched_call() made are dropped */
/* (Re)arms an event that the caller owns; `at` in the past means now. */
void sched_set(struct sched *s, struct sched_event *ev, usec_t at);
void sched_cancel(struct sched *s, struct sched_event *ev); /* harmless if it is not armed */
/* Calls fn(arg) once; cannot be taken back. */
void sched_call(struct sched *s, usec_t at, void (*fn)(void *arg), void *arg);
/* Runs the next event and moves the time to it. False: there is none, or it is later than `until` (then now = until). */
bool sched_step(struct sched *s, usec_t until);

/* The stream of an actor or of a kind of fault. */
struct prng sched_stream(uint64_t seed, const char *name, uint64_t index);
/* from..to inclusive. */
uint64_t draw_range(struct prng *p, uint64_t from, uint64_t to);
/* One in `n`. */
bool draw_one_in(struct prng *p, uint64_t n);
/* A time between `from` and `to`, short ones more often. */
usec_t draw_time(struct prng *p, usec_t from, usec_t to);
