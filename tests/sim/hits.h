/* hits.h - how often a run reached what it must reach: faults, limits, ways of recovery, reasons to hand work out again.
 *
 * Counted over all seeds of a process; rows of the spec's tables come from the model (model_reached()). A zero over the seeds of
 * `make test` fails there (tests/suites/25-sim.sh).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define HITS_TABLE(H)                                                       \
    H(CRASH_CALL,        "crash: at a call of the VFS")                     \
    H(CRASH_STORE,       "crash: at a call of the store")                   \
    H(CRASH_IDLE,        "crash: between two batches")                      \
    H(CRASH_OPENING,     "crash: while a store is opened")                  \
    H(CUT_NONE,          "crash: of the process only")                      \
    H(CUT_ALL,           "power cut: nothing unflushed is kept")            \
    H(CUT_SOME,          "power cut: sectors by chance")                    \
    H(SECTOR_KEPT,       "power cut: sector kept")                          \
    H(SECTOR_LOST,       "power cut: sector lost")                          \
    H(SECTOR_TORN,       "power cut: sector torn")                          \
    H(SIZE_LOST,         "power cut: file size lost")                       \
    H(ENTRY_LOST,        "power cut: directory entry lost")                 \
    H(FLUSH_LOST,        "fault: flush fails and loses its data")           \
    H(IO_READ,           "fault: read error")                               \
    H(IO_WRITE,          "fault: write error")                              \
    H(IO_LOCK,           "fault: lock error")                               \
    H(IO_MAP,            "fault: log index error")                          \
    H(IO_STORE,          "fault: a statement fails")                        \
    H(DISK_FULL,         "fault: disk full")                                \
    H(READ_ONLY,         "fault: file system read-only")                    \
    H(SLOW_DISK,         "fault: slow disk")                                \
    H(CLOCK_FORWARD,     "fault: clock steps forward")                      \
    H(CLOCK_BACK,        "fault: clock steps back")                         \
    H(CONN_RESET,        "fault: connection reset")                         \
    H(CONN_FROZEN,       "fault: connection frozen")                        \
    H(CONN_HALF_OPEN,    "fault: connection half-open")                     \
    H(CONN_STALLED,      "fault: connection stalls one way")                \
    H(CONN_SPLIT,        "fault: bytes split anywhere")                     \
    H(SLOW_READER,       "actor: slow reader")                              \
    H(WORKER_GONE,       "actor: worker process dies")                      \
    H(ITEM_FORGOTTEN,    "actor: item never answered")                      \
    H(ITEM_TWICE,        "actor: completion sent twice")                    \
    H(ITEM_STALE,        "actor: completion with an old token")             \
    H(ITEM_ABANDONED,    "actor: item abandoned")                           \
    H(ITEM_PARTIAL,      "actor: batch consumed in part")                   \
    H(ITEM_CHUNKED,      "actor: completion in chunks")                     \
    H(ITEM_ANEW,         "actor: chunks sent again from the first")         \
    H(ITEM_HISTORY,      "actor: asks for the history")                     \
    H(FILTER_VERSION,    "actor: worker of some versions only")             \
    H(LIE_ACTION,        "liar: invalid action")                            \
    H(LIE_UTF8,          "liar: completion that does not decode")           \
    H(LIE_OVERSIZE,      "liar: completion over request.bytes")             \
    H(LIE_IDS,           "liar: ids that are not the token's")              \
    H(LIE_COUNT,         "liar: numEventsProcessed out of range")           \
    H(LIE_GAP,           "liar: gap in the chunks")                         \
    H(LIE_DEEP,          "liar: deep failure details")                      \
    H(CLIENT_RETRY,      "actor: client retries")                           \
    H(CLIENT_DEADLINE,   "actor: client's deadline")                        \
    H(CLIENT_GAVE_UP,    "actor: client cancels")                           \
    H(LIMIT_CACHE,       "limit: cache.objects")                            \
    H(LIMIT_TURN_EVENTS, "limit: turn.events")                              \
    H(LIMIT_STREAM,      "limit: items of a stream")                        \
    H(LIMIT_PAGES,       "limit: history in several chunks")                \
    H(LIMIT_UNSENT,      "limit: stream.unsent_bytes")                      \
    H(LIMIT_WAITERS_HUB, "limit: waiters.hub")                              \
    H(LIMIT_WAITERS_CONN, "limit: waiters.connection")                      \
    H(LIMIT_READY,       "limit: ready.group")                              \
    H(LIMIT_HISTORY,     "limit: history.max_events")                       \
    H(LIMIT_COMMIT_TIME, "limit: overload.commit_time")                     \
    H(LIMIT_DISK_FREE,   "limit: overload.disk_free")                       \
    H(LIMIT_TOKENLESS,   "limit: tokenless.unsettled")                      \
    H(BATCH_LARGE,       "batch of eight calls or more")                    \
    H(CHECKPOINT,        "step: checkpoint")                                \
    H(LOG_RESTART,       "step: the log restarts")                          \
    H(COMMIT_REFUSED,    "recovery: a commit fails, the store is reopened") \
    H(RECOVER_TURNS,     "recovery: a start finds ready turns")             \
    H(RECOVER_TASKS,     "recovery: a start finds activities")              \
    H(RECOVER_TIMERS,    "recovery: a start finds overdue timers")          \
    H(RECOVER_MAIL,      "recovery: a start finds mail")                    \
    H(RECOVER_EMPTY,     "recovery: a start finds nothing")                 \
    H(REOPEN_FAILED,     "recovery: the store cannot be opened yet")        \
    H(AGAIN_LOST,        "redelivered: stream lost")                        \
    H(AGAIN_TIMEOUT,     "redelivered: not answered in time")               \
    H(AGAIN_ABANDON,     "redelivered: given back")                         \
    H(AGAIN_RESTART,     "redelivered: server start")                       \
    H(AGAIN_EXACT,       "redelivered: same batch to a token-less worker")  \
    H(AGAIN_REFUSED,     "redelivered: completion refused")                 \
    H(STALE,             "stale completion without effect")                 \
    H(DRAINED,           "server drains and ends its streams")
/* clang-format on */

#define HITS_ENUM(name, text) HIT_##name,
enum hit { HITS_TABLE(HITS_ENUM) HIT_COUNT };
#undef HITS_ENUM

extern uint64_t hits[HIT_COUNT];

static inline void hit(enum hit h)
{
    hits[h]++;
}

static inline void hit_add(enum hit h, uint64_t n)
{
    hits[h] += n;
}

/* A row of the spec that the model has seen. */
void hits_row(const char *name, uint64_t count);
/* Prints all; false: something was never reached. */
bool hits_print(void);
/* A line `hit COUNT NAME` each, for tables of several processes to be joined. */
void hits_table(void);
