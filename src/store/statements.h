/* statements.h - every SQL statement of the store, once, for every driver.
 *
 * Parameters are `$1`, `$2`, ...; upserts are `INSERT ... ON CONFLICT`; nothing in here is known to
 * one database only. A statement is named by its enum, prepared once a connection at first use.
 * `cols` gives one letter a result column: i integer, t text, b bytes; capitals may be NULL.
 */
#pragma once

#include <stddef.h>

#define OBJECT_COLUMNS                                                                             \
    "key, hub, kind, partition, id, name, version, status, base_status, flags, created, updated, " \
    "completed, scheduled, execution, execution_id, history_rows, history_events, "                \
    "history_bytes, last_started, inbox_next, inbox_first, cut_seq, cut_time, custom_status, "     \
    "tags, trace, parent_id, parent, sum"
#define OBJECT_COLUMNS_TYPES "iiiitTTiiiiiiiiTiiiiiiiiTTBTBI"
#define OBJECT_COLUMNS_COUNT 30

/* A skip scan: one index look-up for each distinct value, however many rows share it. */
#define SKIP_SCAN(table, column)                                                                   \
    "WITH RECURSIVE s(v) AS (SELECT min(" column ") FROM " table " WHERE " column " > $1 "         \
    "UNION ALL SELECT (SELECT min(" column ") FROM " table " WHERE " column " > s.v) "             \
    "FROM s WHERE s.v IS NOT NULL) SELECT v FROM s WHERE v IS NOT NULL LIMIT $2"

/* clang-format off */
/*  S(name, parameters, cols, sql) */
#define STATEMENT_TABLE(S)                                                                         \
    S(META_GET,         1, "IB",    "SELECT number, bytes FROM meta WHERE name = $1")              \
    S(META_SET,         3, "",      "INSERT INTO meta (name, number, bytes) VALUES ($1, $2, $3) "  \
                                    "ON CONFLICT (name) DO UPDATE SET number = excluded.number, "  \
                                    "bytes = excluded.bytes")                                      \
    S(META_NUMBER,      2, "",      "UPDATE meta SET number = $2 WHERE name = $1")                 \
    S(META_ADD,         2, "",      "UPDATE meta SET number = number + $2 WHERE name = $1")        \
    S(HUB_FIND,         1, "i",     "SELECT hub FROM hub WHERE name = $1")                         \
    S(HUB_INSERT,       2, "i",     "INSERT INTO hub (name, created) VALUES ($1, $2) "             \
                                    "ON CONFLICT (name) DO NOTHING RETURNING hub")                 \
    S(HUB_LIST,         0, "it",    "SELECT hub, name FROM hub ORDER BY hub")                      \
    S(GROUP_FIND,       4, "i",     "SELECT grp FROM workgroup WHERE hub = $1 AND kind = $2 "      \
                                    "AND name = $3 AND version = $4")                              \
    S(GROUP_INSERT,     4, "i",     "INSERT INTO workgroup (hub, kind, name, version) "            \
                                    "VALUES ($1, $2, $3, $4) RETURNING grp")                       \
    S(GROUP_LIST,       0, "iiitt", "SELECT grp, hub, kind, name, version FROM workgroup "         \
                                    "ORDER BY grp")                                                \
    S(OBJECT_FIND,      3, OBJECT_COLUMNS_TYPES,                                                   \
                                    "SELECT " OBJECT_COLUMNS " FROM object "                       \
                                    "WHERE hub = $1 AND kind = $2 AND id = $3")                    \
    S(OBJECT_GET,       1, OBJECT_COLUMNS_TYPES,                                                   \
                                    "SELECT " OBJECT_COLUMNS " FROM object WHERE key = $1")        \
    /* <> and not >, which SQLite would take for the bound to begin at. */                         \
    S(OBJECT_CREATED,   5, OBJECT_COLUMNS_TYPES,                                                   \
                                    "SELECT " OBJECT_COLUMNS " FROM object "                       \
                                    "WHERE hub = $1 AND kind = $2 AND (created, id) > ($3, $4) "   \
                                    "ORDER BY created, id LIMIT $5")                               \
    S(OBJECT_COMPLETED, 5, OBJECT_COLUMNS_TYPES,                                                   \
                                    "SELECT " OBJECT_COLUMNS " FROM object "                       \
                                    "WHERE hub = $1 AND kind = $2 AND completed <> 0 "             \
                                    "AND (completed, id) > ($3, $4) "                              \
                                    "ORDER BY completed, id LIMIT $5")                             \
    S(OBJECT_INSERT,    OBJECT_COLUMNS_COUNT, "",                                                  \
                                    "INSERT INTO object (" OBJECT_COLUMNS ") VALUES ($1, $2, $3, " \
                                    "$4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "  \
                                    "$17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, " \
                                    "$29, $30)")                                                   \
    S(OBJECT_UPDATE,    25, "",     "UPDATE object SET name = $2, version = $3, status = $4, "     \
                                    "base_status = $5, flags = $6, updated = $7, completed = $8, " \
                                    "scheduled = $9, execution = $10, execution_id = $11, "        \
                                    "history_rows = $12, history_events = $13, "                   \
                                    "history_bytes = $14, last_started = $15, inbox_next = $16, "  \
                                    "inbox_first = $17, cut_seq = $18, cut_time = $19, "           \
                                    "custom_status = $20, tags = $21, trace = $22, "               \
                                    "parent_id = $23, parent = $24, sum = $25 WHERE key = $1")     \
    S(OBJECT_DELETE,    1, "",      "DELETE FROM object WHERE key = $1")                           \
    S(COUNT_ADD,        4, "",      "INSERT INTO count (hub, kind, status, n) "                    \
                                    "VALUES ($1, $2, $3, $4) ON CONFLICT (hub, kind, status) "     \
                                    "DO UPDATE SET n = count.n + excluded.n")                      \
    S(COUNT_LIST,       0, "iiii",  "SELECT hub, kind, status, n FROM count "                      \
                                    "ORDER BY hub, kind, status")                                  \
    S(HISTORY_INSERT,   7, "",      "INSERT INTO history (execution, row, key_base, events, time, "\
                                    "frames, sum) VALUES ($1, $2, $3, $4, $5, $6, $7)")            \
    S(HISTORY_READ,     2, "iiiiBI",                                                               \
                                    "SELECT row, key_base, events, time, frames, sum "             \
                                    "FROM history WHERE execution = $1 AND row >= $2 ORDER BY row")\
    S(HISTORY_DELETE,   2, "",      "DELETE FROM history WHERE execution = $1 AND row IN "         \
                                    "(SELECT row FROM history WHERE execution = $1 "               \
                                    "ORDER BY row LIMIT $2)")                                      \
    S(INBOX_INSERT,     9, "",      "INSERT INTO inbox (object, seq, type, execution, ref, time, " \
                                    "ready, event, sum) "                                          \
                                    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)")                 \
    S(INBOX_READ,       3, "iiiiiiBI",                                                             \
                                    "SELECT seq, type, execution, ref, time, ready, event, sum "   \
                                    "FROM inbox WHERE object = $1 AND seq >= $2 "                  \
                                    "ORDER BY seq LIMIT $3")                                       \
    S(INBOX_DELETE,     3, "",      "DELETE FROM inbox WHERE object = $1 AND seq >= $2 "           \
                                    "AND seq <= $3")                                               \
    S(INBOX_DELETE_MAX, 4, "",      "DELETE FROM inbox WHERE object = $1 AND seq IN "              \
                                    "(SELECT seq FROM inbox WHERE object = $1 AND seq >= $2 "      \
                                    "AND seq <= $3 ORDER BY seq LIMIT $4)")                        \
    S(INBOX_BOUNDS,     1, "II",    "SELECT (SELECT min(seq) FROM inbox WHERE object = $1), "      \
                                    "(SELECT max(seq) FROM inbox WHERE object = $1)")              \
    S(INBOX_OBJECTS,    2, "i",     SKIP_SCAN("inbox", "object"))                                  \
    S(TASK_INSERT,      8, "",      "INSERT INTO task (grp, key, object, execution, ref, time, "   \
                                    "payload, sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")       \
    S(TASK_GET,         2, "iiiiBI",                                                               \
                                    "SELECT object, execution, ref, time, payload, sum FROM task " \
                                    "WHERE grp = $1 AND key = $2")                                 \
    S(TASK_DELETE,      2, "",      "DELETE FROM task WHERE grp = $1 AND key = $2")                \
    S(TASK_READ,        3, "iiiii", "SELECT key, object, execution, ref, time FROM task "          \
                                    "WHERE grp = $1 AND key > $2 ORDER BY key LIMIT $3")           \
    S(TASK_GROUPS,      2, "i",     SKIP_SCAN("task", "grp"))                                      \
    S(TIMER_INSERT,     8, "",      "INSERT INTO timer (due, key, object, execution, what, ref, "  \
                                    "payload, sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")       \
    S(TIMER_DELETE,     2, "",      "DELETE FROM timer WHERE due = $1 AND key = $2")               \
    S(TIMER_GET,        2, "iiiiBI",                                                               \
                                    "SELECT object, execution, what, ref, payload, sum FROM timer "\
                                    "WHERE due = $1 AND key = $2")                                 \
    S(TIMER_READ,       4, "iiiiiiB",                                                              \
                                    "SELECT due, key, object, execution, what, ref, payload "      \
                                    "FROM timer WHERE (due, key) > ($1, $2) AND due <= $3 "        \
                                    "ORDER BY due, key LIMIT $4")                                  \
    S(TIMER_DELETE_OF,  2, "",      "DELETE FROM timer WHERE (due, key) IN (SELECT due, key "      \
                                    "FROM timer WHERE execution = $1 LIMIT $2)")                   \
    S(MAIL_INSERT,      8, "",      "INSERT INTO mailbox (seq, hub, kind, partition, id, what, "   \
                                    "payload, sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")       \
    S(MAIL_READ,        2, "iiiitiBI",                                                             \
                                    "SELECT seq, hub, kind, partition, id, what, payload, sum "    \
                                    "FROM mailbox WHERE seq > $1 ORDER BY seq LIMIT $2")           \
    S(MAIL_DELETE,      1, "",      "DELETE FROM mailbox WHERE seq = $1")                          \
    S(TRASH_INSERT,     3, "",      "INSERT INTO trash (seq, what, key) VALUES ($1, $2, $3)")      \
    S(TRASH_READ,       2, "iii",   "SELECT seq, what, key FROM trash WHERE seq > $1 "             \
                                    "ORDER BY seq LIMIT $2")                                       \
    S(TRASH_DELETE,     1, "",      "DELETE FROM trash WHERE seq = $1")                            \
    /* What store_verify() reads. */                                                               \
    S(OBJECT_ALL,       0, OBJECT_COLUMNS_TYPES,                                                   \
                                    "SELECT " OBJECT_COLUMNS " FROM object ORDER BY key")          \
    S(TASK_ALL,         0, "iiiiiiBI",                                                             \
                                    "SELECT grp, key, object, execution, ref, time, payload, sum " \
                                    "FROM task ORDER BY grp, key")                                 \
    S(TIMER_ALL,        0, "iiiiiiBI",                                                             \
                                    "SELECT due, key, object, execution, what, ref, payload, sum " \
                                    "FROM timer ORDER BY due, key")                                \
    S(MAIL_ALL,         0, "iiiitiBI",                                                             \
                                    "SELECT seq, hub, kind, partition, id, what, payload, sum "    \
                                    "FROM mailbox ORDER BY seq")                                   \
    S(HISTORY_ORPHANS,  0, "ii",    "SELECT execution, count(*) FROM history "                     \
                                    "WHERE execution NOT IN (SELECT execution FROM object) "       \
                                    "AND execution NOT IN (SELECT key FROM trash WHERE what = 1) " \
                                    "GROUP BY execution LIMIT 100")                                \
    S(INBOX_ORPHANS,    0, "ii",    "SELECT object, count(*) FROM inbox "                          \
                                    "WHERE object NOT IN (SELECT key FROM object) "                \
                                    "AND object NOT IN (SELECT key FROM trash WHERE what = 2) "    \
                                    "GROUP BY object LIMIT 100")                                   \
    S(TIMER_ORPHANS,    0, "ii",    "SELECT execution, count(*) FROM timer "                       \
                                    "WHERE execution NOT IN (SELECT execution FROM object) "       \
                                    "AND execution NOT IN "                                        \
                                    "(SELECT key FROM trash WHERE what IN (1, 3)) "                \
                                    "GROUP BY execution LIMIT 100")                                \
    S(TASK_ORPHANS,     0, "ii",    "SELECT grp, count(*) FROM task "                              \
                                    "WHERE grp NOT IN (SELECT grp FROM workgroup) "                \
                                    "GROUP BY grp LIMIT 100")                                      \
    S(HUB_ORPHANS,      0, "ii",    "SELECT hub, count(*) FROM (SELECT hub FROM object UNION ALL " \
                                    "SELECT hub FROM workgroup UNION ALL "                         \
                                    "SELECT hub FROM mailbox) AS used "                            \
                                    "WHERE hub NOT IN (SELECT hub FROM hub) "                      \
                                    "GROUP BY hub LIMIT 100")                                      \
    S(COUNT_WRONG,      0, "iiiii", "SELECT hub, kind, status, sum(kept), sum(there) FROM "        \
                                    "(SELECT hub, kind, status, n AS kept, 0 AS there FROM count " \
                                    "UNION ALL SELECT hub, kind, status, 0, count(*) FROM object " \
                                    "GROUP BY hub, kind, status) AS numbers "                      \
                                    "GROUP BY hub, kind, status HAVING sum(kept) <> sum(there)")   \
    S(TIMER_COUNT,      0, "i",     "SELECT count(*) FROM timer")                                  \
    S(KEY_HIGHEST,      0, "I",     "SELECT max(k) FROM (SELECT max(key) AS k FROM object "        \
                                    "UNION ALL SELECT max(execution) FROM object "                 \
                                    "UNION ALL SELECT max(key) FROM task "                         \
                                    "UNION ALL SELECT max(key) FROM timer) AS keys")
/* clang-format on */

#define STATEMENT_ENUM(name, params, cols, sql) STMT_##name,
enum stmt { STATEMENT_TABLE(STATEMENT_ENUM) STMT_COUNT };
#undef STATEMENT_ENUM

#define STATEMENT_PARAMS_MAX OBJECT_COLUMNS_COUNT
#define STATEMENT_COLUMNS_MAX OBJECT_COLUMNS_COUNT

struct statement {
    const char *name; /* "OBJECT_INSERT", for messages and tests */
    const char *sql;
    const char *cols;
    unsigned params;
};

extern const struct statement STATEMENTS[STMT_COUNT];
