/* loop.h - event-loop threads: descriptors, timers, wakeups; libevent behind it.
 *
 * A loop belongs to the thread that runs it; only loop_post() and loop_stop() may be called from
 * others. It moves bytes and knows no protocol.
 * Tests: tests/unit/test_loop.c
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "base/task.h" /* struct loop_task */
#include "base/time.h"

struct event_base; /* libevent's, for evhttp */

struct loop;

MUST_CHECK enum err loop_new(struct loop **out, struct error *err);
void loop_free(struct loop *l); /* after it stopped; NULL is fine */
void loop_run(struct loop *l);  /* on its thread, until loop_stop() */
/* From any thread. Work posted before is still run; loop_run() may be called again afterwards. */
void loop_stop(struct loop *l);
/* While the loop does not run: runs what is posted and frees the streams that are closed. For taking things apart in order. */
void loop_reap(struct loop *l);
struct event_base *loop_event_base(struct loop *l);
usec_t loop_now(const struct loop *l); /* monotonic, read once a round */

/* Work for the loop's thread, from any thread. Intrusive: the caller owns `task` and it must stay until fn ran. In order of posting.
 * One eventfd write for however many tasks are posted before the loop wakes. */
void loop_post(struct loop *l, struct loop_task *task);
/* The same for a chain, first to last, that is linked by `next`: one wake-up for all. */
void loop_post_chain(struct loop *l, struct loop_task *first, struct loop_task *last);
/* Runs fn(arg) at the end of each round (after all callbacks, before sleeping): flushes of batched output. */
void loop_on_round_end(struct loop *l, void (*fn)(void *arg), void *arg);

/* One-shot timers on the monotonic clock. */
struct loop_timer;
struct loop_timer *loop_timer_new(struct loop *l, void (*fn)(void *arg), void *arg);
void loop_timer_set(struct loop_timer *t, usec_t due); /* moves it; USEC_NEVER disarms */
void loop_timer_free(struct loop_timer *t);

/* ---- byte streams ---------------------------------------------------------------------------- */

/* A connected socket. One read and one write system call a round; output is asked for once a round, as much as there is. */
struct loop_stream;
struct tls_session;
struct loop_stream_ops {
    /* Bytes arrived (borrowed for the call). False: close the stream. */
    bool (*received)(struct loop_stream *s, void *arg, struct bytes in);
    /* Append what is to be sent, up to about `max` bytes. */
    void (*produce)(struct loop_stream *s, void *arg, struct strbuf *out, size_t max);
    /* The peer closed, an error happened or loop_stream_close() was called: last call for this stream, which is freed after it. */
    void (*closed)(struct loop_stream *s, void *arg);
};

/* Takes fd (non-blocking or not: it is made so). */
struct loop_stream *loop_stream_new(struct loop *l, int fd, const struct loop_stream_ops *ops,
                                    void *arg);
/* Before the first round of the stream: all goes through `session`, which it takes. There is neither received() nor produce() before the
 * handshake is over. */
void loop_stream_secure(struct loop_stream *s, struct tls_session *session);
/* In closed(): why there was no TLS; NULL: there was, or none was meant to be. */
const struct error *loop_stream_tls_error(const struct loop_stream *s);
void loop_stream_want_send(struct loop_stream *s);          /* produce() at the end of this round */
void loop_stream_pause(struct loop_stream *s, bool paused); /* stop or go on reading */
void loop_stream_close(struct loop_stream *s,
                       bool flush); /* flush: after what produce() still gives */

/* ---- addresses and listeners ------------------------------------------------------------------ */

/* `HOST:PORT`, `[v6]:PORT`, `unix:PATH`; `localhost` is IPv4 and IPv6 loopback on one port. */
struct loop_listener;
struct loop_listen_options {
    struct bytes address;
    int backlog;
};
/* Called on the loop's thread with each accepted descriptor, which it takes; or with -1 when the process had none left: that
 * connection was closed. */
typedef void loop_accept_fn(void *arg, int fd, struct bytes peer);
/* Binds now. ERR_INVALID: the address does not parse; ERR_IO: cannot be bound (message names address, reason, remedy). */
MUST_CHECK enum err loop_listener_new(struct loop *l, const struct loop_listen_options *opts,
                                      loop_accept_fn *fn, void *arg, struct loop_listener **out,
                                      struct error *err);
void loop_listener_free(struct loop_listener *l); /* closes; removes a Unix socket's file */
/* The address as given, with the real port. */
void loop_listener_address(const struct loop_listener *l, struct strbuf *out);
MUST_CHECK enum err loop_address_check(struct bytes address,
                                       struct error *err); /* ERR_INVALID: it does not parse */
/* Stops accepting here and lends the listening descriptors (they stay the listener's), for a server that accepts by itself. Returns how many. */
size_t loop_listener_lend(struct loop_listener *l, int *fds, size_t max);
bool loop_address_is_loopback(struct bytes address); /* unix: counts; unparsable: false */
/* Starts to connect; fn gets the connected fd (>= 0) or -1 with the error. Tries every address of the name. */
void loop_connect(struct loop *l, struct bytes address, usec_t timeout,
                  void (*fn)(void *arg, int fd, const struct error *err), void *arg);
