/* fuzz_store.c - a store that was damaged while nobody had it open: pages of its file, or rows.
 *
 * The first byte: bit 0 pages, else rows; bit 1 (rows) with sums that fit what was changed, as a bug of ours would leave them. The
 * rest are operations, read as their functions say. Then the store is opened, clients ask, a worker does all there is to do.
 *
 * Whatever was damaged: no crash, no hang, and no answer that does not decode. Rows that were changed are never given to anybody.
 * Where one instance's rows were changed, all others end as they should, and a new one is served.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "stage.h"
#include "wire/wire.h"

#define PAGE 4096
#define OPERATIONS_MAX 16

static struct strbuf image;
static char path[64];

/* ---- input ------------------------------------------------------------------------------------- */

static uint8_t take_byte(struct bytes *in)
{
    if (in->len == 0)
        return 0;
    uint8_t b = in->ptr[0];
    *in = bytes_of(in->ptr + 1, in->len - 1);
    return b;
}

static struct bytes take_bytes(struct bytes *in)
{
    size_t len = take_byte(in);

    len = MIN(len, in->len);
    struct bytes b = bytes_of(in->ptr, len);
    *in = bytes_of(in->ptr + len, in->len - len);
    return b;
}

/* ---- files ------------------------------------------------------------------------------------- */

static void write_file(const char *suffix, struct bytes data)
{
    char name[80];

    (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    FILE *f = fopen(name, "we");
    ASSERT(f);
    size_t n = fwrite(data.ptr, 1, data.len, f);
    ASSERT(n == data.len);
    fclose(f);
}

static void remove_files(void)
{
    static const char *const SUFFIXES[] = {"", "-wal", "-shm", "-journal", ".lock"};
    char name[80];

    for (size_t i = 0; i < ARRAY_LEN(SUFFIXES); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", path, SUFFIXES[i]);
        unlink(name);
    }
}

/* ---- pages ------------------------------------------------------------------------------------- */

/* Which, what (0 bytes, 1 another page in its place, 2 zeros, 3 the file ends there, 4 bits), and where. */
static void change_page(struct bytes *in, struct strbuf *file)
{
    size_t pages = file->len / PAGE;
    size_t at = take_byte(in) % pages * PAGE;
    uint8_t what = take_byte(in) % 5;
    size_t offset = take_byte(in) * 16u + take_byte(in) % 16u;

    if (what == 0) {
        struct bytes b = take_bytes(in);
        memcpy(file->ptr + at + offset, b.ptr, MIN(b.len, PAGE - offset));
    } else if (what == 1) {
        memmove(file->ptr + at, file->ptr + take_byte(in) % pages * PAGE, PAGE);
    } else if (what == 2) {
        memset(file->ptr + at, 0, PAGE);
    } else if (what == 3 && at > 0) {
        file->len = at + offset;
    } else if (what == 4) {
        file->ptr[at + offset] ^= take_byte(in);
    }
}

static void damage_pages(struct bytes in)
{
    CLEANUP(strbuf_deinit) struct strbuf file = {0};

    strbuf_append_bytes(&file, strbuf_bytes(&image));
    for (int i = 0; i < OPERATIONS_MAX && in.len > 0 && file.len >= PAGE; i++) {
        if (in.ptr[0] == 255) { /* what is left is a log */
            write_file("-wal", bytes_of(in.ptr + 1, in.len - 1));
            break;
        }
        change_page(&in, &file);
    }
    write_file("", strbuf_bytes(&file));
}

/* ---- rows -------------------------------------------------------------------------------------- */

static const struct table {
    const char *name, *key;
    const char *columns[30];
    const char *owner; /* the object's key, of a row */
} TABLES[] = {
    {"object",
     "key",
     {"hub",
      "kind",
      "partition",
      "id",
      "name",
      "version",
      "status",
      "base_status",
      "flags",
      "created",
      "updated",
      "completed",
      "scheduled",
      "execution",
      "execution_id",
      "history_rows",
      "history_events",
      "history_bytes",
      "last_started",
      "inbox_next",
      "inbox_first",
      "cut_seq",
      "cut_time",
      "custom_status",
      "tags",
      "trace",
      "parent_id",
      "parent",
      "key"},
     "key"},
    {"history",
     "execution, row",
     {"key_base", "events", "time", "frames", "row", "execution"},
     "(SELECT key FROM object AS o WHERE o.execution = t.execution)"},
    {"inbox",
     "object, seq",
     {"type", "execution", "ref", "time", "ready", "event", "seq", "object"},
     "object"},
    {"task", "grp, key", {"object", "execution", "ref", "time", "payload", "key", "grp"}, "object"},
    {"timer",
     "due, key",
     {"object", "execution", "what", "ref", "payload", "due", "key"},
     "object"},
    {"mailbox", "seq", {"hub", "kind", "partition", "id", "what", "payload", "seq"}, "0"},
    {"trash", "seq", {"what", "key", "seq"}, "0"},
    /* All of them concern more than one. */
    {"hub", "hub", {"name", "created", "hub"}, NULL},
    {"workgroup", "grp", {"hub", "kind", "name", "version", "grp"}, NULL},
    {"count", "hub, kind, status", {"n", "status", "kind"}, NULL},
    {"meta", "name", {"number", "bytes", "name"}, NULL},
};

/* What the operations did. */
struct outcome {
    bool touched[STAGE_INSTANCES];
    bool
        unreadable[STAGE_INSTANCES]; /* its object or history says something that was not written */
    bool all;                        /* something shared was changed, or nobody knows what */
};

static size_t count_columns(const struct table *t)
{
    size_t n = 0;

    while (n < ARRAY_LEN(t->columns) && t->columns[n])
        n++;
    return n;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *text)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(db, text, -1, &st, NULL);

    if (rc != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(db));
    ASSERT(rc == SQLITE_OK);
    return st;
}

/* Whose row it is. */
static void note_owner(sqlite3 *db, const struct table *t, unsigned row, struct outcome *out,
                       bool is_readable)
{
    char text[512];

    if (!t->owner) {
        out->all = true;
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "SELECT id FROM object WHERE key = (SELECT %s FROM %s AS t ORDER BY %s "
                   "LIMIT 1 OFFSET %u)",
                   t->owner, t->name, t->key, row);
    sqlite3_stmt *st = prepare(db, text);
    if (sqlite3_step(st) == SQLITE_ROW) {
        const char *id = (const char *)sqlite3_column_text(st, 0);
        for (size_t i = 0; i < STAGE_INSTANCES; i++) {
            if (strcmp(STAGE[i].id, id) != 0)
                continue;
            if (out->unreadable[i])
                out->all = true; /* changed once more: perhaps back */
            out->touched[i] = true;
            out->unreadable[i] = out->unreadable[i] || !is_readable;
        }
    }
    sqlite3_finalize(st);
}

/* A type and its value. */
static void bind_value(sqlite3_stmt *st, uint8_t type, struct bytes *in)
{
    static const int64_t NUMBERS[] = {0, 1, -1, 2, 255, INT32_MAX, INT64_MAX, INT64_MIN};
    struct bytes b;

    switch (type % 5) {
    case 0:
        sqlite3_bind_int64(st, 1, NUMBERS[take_byte(in) % ARRAY_LEN(NUMBERS)]);
        return;
    case 1:
        sqlite3_bind_int64(st, 1, take_byte(in));
        return;
    case 2:
        b = take_bytes(in);
        sqlite3_bind_text(st, 1, (const char *)b.ptr, (int)b.len, SQLITE_TRANSIENT);
        return;
    case 3:
        b = take_bytes(in);
        sqlite3_bind_blob(st, 1, b.len ? (const void *)b.ptr : "", (int)b.len, SQLITE_TRANSIENT);
        return;
    default:
        sqlite3_bind_null(st, 1);
        return;
    }
}

static bool has_sum(const struct table *t)
{
    return t - TABLES <= 5;
}

/* Table, row, column, and a type with a value; the last column but one further: the row is deleted. */
static void change_row(sqlite3 *db, struct bytes *in, bool fits, struct outcome *out)
{
    const struct table *t = &TABLES[take_byte(in) % ARRAY_LEN(TABLES)];
    unsigned row = take_byte(in) % 16;
    size_t columns = count_columns(t), column = take_byte(in) % (columns + 1);
    char text[768];
    bool is_delete = column == columns;

    if (is_delete)
        (void)snprintf(text, sizeof(text),
                       "DELETE FROM %s WHERE (%s) = (SELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET "
                       "%u) AND ?1 IS NULL",
                       t->name, t->key, t->key, t->name, t->key, row);
    else
        (void)snprintf(text, sizeof(text),
                       "UPDATE %s SET %s = ?1%s WHERE (%s) = (SELECT %s FROM %s ORDER BY %s LIMIT "
                       "1 OFFSET %u) AND %s IS NOT ?1",
                       t->name, t->columns[column], fits && has_sum(t) ? ", sum = NULL" : "",
                       t->key, t->key, t->name, t->key, row, t->columns[column]);
    bool is_readable = fits || is_delete || t - TABLES > 1;
    struct outcome before = *out;
    note_owner(db, t, row, out, is_readable);
    if (t->owner &&
        column + 2 >= columns) /* a row moved or deleted: to or from whom is not followed */
        out->all = true;
    sqlite3_stmt *st = prepare(db, text);
    if (!is_delete)
        bind_value(st, take_byte(in), in);
    int rc = sqlite3_step(st); /* a value that the schema refuses is refused */
    if (rc != SQLITE_DONE || sqlite3_changes(db) == 0)
        *out = before;
    sqlite3_finalize(st);
}

static void damage_rows(struct bytes in, bool fits, struct outcome *out)
{
    sqlite3 *db;

    write_file("", strbuf_bytes(&image));
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
    ASSERT(rc == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < OPERATIONS_MAX && in.len > 0; i++)
        change_row(db, &in, fits, out);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
}

/* ---- the check --------------------------------------------------------------------------------- */

static bool opens(void)
{
    struct world *w = world_new(NULL); /* for settings and clocks */
    char url[80];
    struct error err = {0};
    struct store *st;

    (void)snprintf(url, sizeof(url), "sqlite:%s", path);
    enum err e = store_open(
        &(struct store_options){
            .url = bytes_str(url), .settings = &w->settings, .clock = &w->clock, .prng = &w->prng},
        &st, &err);
    ASSERT(e == OK || (err.code == e && err.msg[0]));
    if (!e)
        store_close(st);
    world_free(w);
    return e == OK;
}

static struct talk_call *ask(struct talk *t, const char *method, const char *id)
{
    GetInstanceRequest get = GET_INSTANCE_REQUEST__INIT;
    StreamInstanceHistoryRequest history = STREAM_INSTANCE_HISTORY_REQUEST__INIT;

    get.instanceid = history.instanceid = wire_data(bytes_str(id));
    get.getinputsandoutputs = true;
    return talk_say(t, method, !strcmp(method, "GetInstance") ? &get.base : &history.base);
}

/* What was changed is not given to anybody. */
static void must_not_tell(struct talk *t, const struct outcome *out)
{
    for (size_t i = 0; i < STAGE_INSTANCES; i++) {
        const struct talk_call *get = ask(t, "GetInstance", STAGE[i].id);
        const struct talk_call *history = ask(t, "StreamInstanceHistory", STAGE[i].id);
        bool told = get && get->status == GRPC_OK && history && history->status == GRPC_OK;
        if (!out->all && out->unreadable[i] && told)
            fprintf(stderr, "%s was told although its rows were changed\n", STAGE[i].id);
        ASSERT(out->all || !out->unreadable[i] || !told);
    }
}

static bool is_concerned(const struct outcome *out, size_t i)
{
    bool other = false;

    for (size_t j = 0; STAGE[i].needs && j < STAGE_INSTANCES; j++)
        other = other || (!strcmp(STAGE[j].id, STAGE[i].needs) && out->touched[j]);
    return out->touched[i] || other;
}

static void others_must_end(struct talk *t, const struct outcome *out)
{
    GetInstanceResponse *r;

    for (size_t i = 0; i < STAGE_INSTANCES; i++) {
        struct talk_call *c = ask(t, "GetInstance", STAGE[i].id);
        ASSERT(c && c->is_over);
        if (is_concerned(out, i))
            continue;
        bool is_ok =
            c->status == GRPC_OK && wire_unpack(&get_instance_response__descriptor, c->arena,
                                                c->last, &WIRE_LIMITS, &r, NULL) == OK;
        if (!is_ok || !r->exists ||
            (int32_t)r->orchestrationstate->orchestrationstatus != STAGE[i].status)
            fprintf(stderr, "%s did not end as it should: grpc status %d, %.*s\n", STAGE[i].id,
                    c->status, BYTES_FMT(c->error));
        ASSERT(is_ok && r->exists);
        ASSERT((int32_t)r->orchestrationstate->orchestrationstatus == STAGE[i].status);
    }
}

static void run(const struct outcome *out, bool is_paged, bool lies, struct bytes whole)
{
    char url[80];

    (void)snprintf(url, sizeof(url), "sqlite:%s", path);
    struct served *s = served_new(world_new(url));
    struct talk *t = talk_new(s, "perdure-test/1");
    t->lies = lies;
    must_not_tell(t, out);
    unsigned unavailable = stage_finish(s, lies);
    if (!is_paged && !out->all) {
        others_must_end(t, out);
        talk_probe(s, whole);
        ASSERT(unavailable + t->unavailable == 0);
    }
    talk_free(t);
    served_free(s);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    log_setup(getenv("FUZZ_LOG") ? LOG_DEBUG : (enum log_level)(LOG_ERROR + 1), LOG_TEXT);
    (void)snprintf(path, sizeof(path), "%s/perdure-fuzz-store-%ld",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    stage_build(&image);
    ASSERT(image.len % PAGE == 0);
    atexit(remove_files);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome out = {.all = false};

    if (size == 0)
        return 0;
    bool is_paged = data[0] & 1, fits = !is_paged && data[0] & 2;
    remove_files();
    if (is_paged)
        damage_pages(bytes_of(data + 1, size - 1));
    else
        damage_rows(bytes_of(data + 1, size - 1), fits, &out);
    if (opens())
        run(&out, is_paged, fits, bytes_of(data, size));
    remove_files();
    return 0;
}
