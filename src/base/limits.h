/* limits.h - the settings that exist so far, with unit, default and where the rule comes from.
 *
 * One table: `--set KEY=VALUE`, the config file and docs/settings.md are held to it by a test. A
 * struct settings is filled at start and passed to the constructors; it never changes afterwards.
 * Tests: tests/unit/test_limits.c
 */
#pragma once

#include "base/error.h"
#include "base/roles.h"
#include "base/strbuf.h"
#include "base/time.h"

/* clang-format off */
/*  S(field, key, kind, default, min, max, "what, unit, spec section")
 *  kind: COUNT (plain number), BYTES (64MiB), TIME (30s, off = 0), BOOL (true, false), ROLES (base/roles.h) */
#define SETTINGS_TABLE(S)                                                                            \
    S(request_bytes,          "request.bytes",          BYTES, MIB(64),   1024, MIB(512), "largest request (2)")                              \
    S(request_buffered_bytes, "request.buffered_bytes", BYTES, MIB(128),  1024, MIB(16384), "requests not yet wholly received, all connections (2)") \
    S(stream_unsent_bytes,    "stream.unsent_bytes",    BYTES, MIB(1),    1,    MIB(1024), "unsent bytes at which a work-item stream gets no more (2)") \
    S(hub_auto_create,        "hub.auto_create",        BOOL,  1,         0,    1,         "make a task hub on first use (2)")                 \
    S(id_client_chars,        "id.client_chars",        COUNT, 100,       1,    1024,      "longest instance id from a client, characters (1.4)") \
    S(id_action_chars,        "id.action_chars",        COUNT, 1024,      1,    4096,      "longest instance id in actions and look-ups, characters (1.4)") \
    S(waiters_hub,            "waiters.hub",            COUNT, 100000,    1,    100000000, "blocked waits a hub (3.4)")                        \
    S(waiters_connection,     "waiters.connection",     COUNT, 20000,     1,    100000000, "blocked waits a connection (3.4)")                 \
    S(history_chunk_bytes,    "history.chunk_bytes",    BYTES, KIB(256),  1,    MIB(4),    "chunk of StreamInstanceHistory (3.14)")            \
    S(page_default,           "page.default",           COUNT, 100,       1,    100000,    "instances on a page of a query that names no number (3.8, 3.9)") \
    S(page_max,               "page.max",               COUNT, 1000,      1,    100000,    "instances on a page at most (3.8, 3.9)")           \
    S(purge_per_call,         "purge.per_call",         COUNT, 10000,     1,    100000000, "instances that one purge by filter removes at most (3.10)") \
    S(turn_events,            "turn.events",            COUNT, 1000,      1,    100000,    "inbox events given to one turn (4.2)")             \
    S(turn_bytes,             "turn.bytes",             BYTES, MIB(1),    1,    MIB(64),   "inbox bytes given to one turn (4.2)")              \
    S(turn_timeout,           "turn.timeout",           TIME,  300000000, 0,    86400000000, "an unsettled turn is redelivered after this (8.5)") \
    S(turn_chunk_bytes,       "turn.chunk_bytes",       BYTES, MIB(64),   1,    MIB(512), "all chunks of one chunked completion (4.3)")       \
    S(history_max_events,     "history.max_events",     COUNT, 100000,    3,    100000000, "events an execution may have (4.5)")               \
    S(history_max_bytes,      "history.max_bytes",      BYTES, MIB(256),  1024, MIB(2048), "bytes of events an execution may have (4.5)")      \
    S(terminate_grace,        "terminate.grace",        TIME,  30000000,  0,    86400000000, "a termination no worker answered is done by the server after this (6.6)") \
    S(activity_timeout,       "activity.timeout",       TIME,  0,         0,    31536000000000, "an unsettled activity is redelivered after this; off = never (6.1)") \
    S(abandon_backoff_max,    "abandon.backoff_max",    TIME,  60000000,  1000, 3600000000, "longest pause after abandons, from 1 s doubling (8.5)") \
    S(failure_levels,         "failure.levels",         COUNT, 64,        1,    90,        "levels of failure details that are kept (6.8)")    \
    S(oversize_breaks,        "oversize.breaks",        COUNT, 5,         1,    1000,      "dispatches that may end with too large a completion before the item fails (5.3, 8.4)") \
    S(worker_name_bytes,      "worker.name_bytes",      BYTES, 128,       1,    4096,      "longest worker_instance_id (8.1)")                 \
    S(tokenless_unsettled,    "tokenless.unsettled",    COUNT, 16,        1,    1000000,   "unsettled items a Java stream holds (8.1)")        \
    S(tokenless_redelivery,   "tokenless.redelivery",   TIME,  1000000,   0,    3600000000, "token-less work is not redelivered before this (8.2)") \
    S(overload_disk_free,     "overload.disk_free",     BYTES, MIB(256),  0,    MIB(1048576), "less free disk refuses new work (8.6)")         \
    S(overload_commit_time,   "overload.commit_time",   TIME,  2000000,   0,    3600000000, "a commit running longer refuses new work; off = never (8.6)") \
    S(overload_queued_bytes,  "overload.queued_bytes",  BYTES, MIB(128),  1024, MIB(16384), "requests waiting in memory beyond which new work is refused and completions are held back (8.6)") \
    S(connections_max,        "connections.max",        COUNT, 20000,     1,    1000000,   "connections in total")                             \
    S(connections_address,    "connections.address",    COUNT, 12000,     1,    1000000,   "connections of one address; Unix sockets are one")              \
    S(streams_connection,     "streams.connection",     COUNT, 20000,     1,    1000000,   "open calls a connection")                          \
    S(keepalive_idle,         "keepalive.idle",         TIME,  30000000,  1000, 86400000000, "a silent connection is pinged after this (2)")   \
    S(keepalive_timeout,      "keepalive.timeout",      TIME,  20000000,  1000, 86400000000, "and closed this much later (2)")                 \
    S(ping_interval,          "ping.interval",          TIME,  30000000,  1000, 86400000000, "HealthPing item on an idle work-item stream (8.1)") \
    S(drain_time,             "drain.time",             TIME,  30000000,  0,    3600000000, "longest drain after SIGTERM (8.7)")               \
    S(cache_objects,          "cache.objects",          COUNT, 20000,     1,    100000000, "decoded objects kept in memory")                   \
    S(cache_bytes,            "cache.bytes",            BYTES, MIB(64),   1,    MIB(65536), "memory of decoded objects")                       \
    S(ready_group,            "ready.group",            COUNT, 100000,    1,    100000000, "ready items of one name and version kept in memory; the rest wait in the store") \
    S(wal_bytes,              "wal.bytes",              BYTES, MIB(64),   KIB(64), MIB(65536), "log size at which the executor waits for a checkpoint")  \
    S(auth_cert_roles,        "auth.cert_roles",        ROLES, 6,         1,    15,        "roles of a client certificate that comes without an API key") \
    S(loop_threads,           "loop.threads",           COUNT, 0,         0,    64,        "event-loop threads; 0: one for each two processors, at most 8")
/* clang-format on */

#define SETTINGS_FIELD(field, key, kind, def, min, max, text) uint64_t field;
struct settings {
    SETTINGS_TABLE(SETTINGS_FIELD)
};
#undef SETTINGS_FIELD

enum setting_kind { SETTING_COUNT, SETTING_BYTES, SETTING_TIME, SETTING_BOOL, SETTING_ROLES };

struct setting_info {
    const char *key;
    enum setting_kind kind;
    uint64_t def, min, max;
    const char *text;
    size_t offset; /* of the field in struct settings */
};

extern const struct setting_info SETTING_INFO[];
extern const size_t SETTING_INFO_COUNT;

void settings_defaults(struct settings *s);
/* ERR_INVALID: unknown key (the message lists near ones) or a bad or out-of-range value; *s is unchanged. */
MUST_CHECK enum err settings_set(struct settings *s, struct bytes key, struct bytes value,
                                 struct error *err);
void setting_format(const struct setting_info *info, uint64_t value, struct strbuf *out);
