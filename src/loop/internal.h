/* internal.h - the struct behind loop.h, for the files of loop/. */
#pragma once

#include <stdatomic.h>

#include <event2/event.h>

#include "base/heap.h"
#include "loop/loop.h"

#define LOOP_READ_BYTES KIB(256)  /* one read takes at most this */
#define LOOP_WRITE_BYTES KIB(256) /* produce() is asked for about this much a round */

struct round_end {
    void (*fn)(void *arg);
    void *arg;
};

struct loop {
    struct event_base *base;
    int wake_fd;
    struct event *wake_event;
    struct event *timer_event;
    usec_t timer_armed; /* when timer_event fires; USEC_NEVER: it is not set */
    struct heap timers;
    uint64_t timer_count; /* numbers them, so that equal times fire in order of making */
    _Atomic(struct loop_task *) posted; /* newest first */
    atomic_bool stopping;
    usec_t now;
    bool now_is_old;   /* loop_now() reads the clock once a round, when first asked */
    struct list dirty; /* streams with something to do at the end of the round */
    struct list streams;
    struct round_end *round_ends;
    size_t round_end_count;
    uint8_t *read_buf;
    struct strbuf out;    /* what produce() fills, for one stream at a time */
    struct strbuf sealed; /* the same, encrypted */
};

/* stream.c: writes, closes. True: something is left for another round at once. */
bool loop_flush_streams(struct loop *l);
void loop_close_streams(struct loop *l); /* all that are left, when the loop is freed */

/* address.c */
struct sockaddr;
struct loop_address {
    bool is_unix, is_localhost;
    char host[256]; /* or the path */
    char port[8];
};
MUST_CHECK enum err loop_address_parse(struct bytes text, struct loop_address *out,
                                       struct error *err);
void loop_sockaddr_format(const struct sockaddr *sa, struct strbuf *out);
int loop_unix_socket(const char *path, int *fd, bool connecting); /* 0 or errno */
