#include "sim/finish.h"

#include <inttypes.h>
#include <stdio.h>

#include "sim/client.h"
#include "sim/faults.h"
#include "sim/program.h"
#include "sim/server.h"
#include "sim/worker.h"
#include "wire/unpack.h"

#define HEALING (30 * 60 * USEC_PER_SEC)
#define LOOK_EVERY (5 * USEC_PER_SEC)

/* The first number that a statement gives, from the flushed image; -1: it cannot be read. */
static int64_t number(struct sim *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    if (sqlite3_prepare_v2(s->image, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

/* Nobody else resumes them any more. */
static void resume_all(struct sim *s)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->image,
                           "SELECT o.id, h.name FROM object AS o JOIN hub AS h ON h.hub = o.hub "
                           "WHERE o.status = 7 ORDER BY o.key",
                           -1, &st, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(st) == SQLITE_ROW) {
        struct bytes id = bytes_of(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
        bool other = sqlite3_column_bytes(st, 1) == 5; /* "other" */
        client_resume(s->clients[other && s->has_two_hubs], id);
    }
    sqlite3_finalize(st);
}

/* Those that somebody would run. */
#define LIVING "FROM object WHERE status IN (0, 6, 7) AND name <> 'X'"

static bool is_quiet(struct sim *s)
{
    return server_is_idle(s->server) && number(s, "SELECT count(*) " LIVING) == 0 &&
           number(s, "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM mailbox) + "
                     "(SELECT count(*) FROM trash)") == 0;
}

static void say_what_lives(struct sim *s)
{
    sqlite3_stmt *st = NULL;
    char text[2000];
    int len = 0;
    text[0] = 0;
    if (s->opts.is_traced)
        server_print_work(s->server);
    if (sqlite3_prepare_v2(
            s->image,
            "SELECT id, status, flags, inbox_first, inbox_next, history_rows, key " LIVING
            " LIMIT 5",
            -1, &st, NULL) == SQLITE_OK) {
        while (sqlite3_step(st) == SQLITE_ROW && len < 1500)
            len += snprintf(text + len, sizeof(text) - (size_t)len,
                            " %s: status %d flags %d inbox %d..%d rows %d key %d;",
                            (const char *)sqlite3_column_text(st, 0), sqlite3_column_int(st, 1),
                            sqlite3_column_int(st, 2), sqlite3_column_int(st, 3),
                            sqlite3_column_int(st, 4), sqlite3_column_int(st, 5),
                            sqlite3_column_int(st, 6));
        sqlite3_finalize(st);
    }
    sim_fail(s, "liveness",
             "30 minutes after the last fault %" PRId64 " instances have not ended, %" PRId64
             " activities wait, idle %d:%s",
             number(s, "SELECT count(*) " LIVING), number(s, "SELECT count(*) FROM task"),
             server_is_idle(s->server), text);
}

void sim_print_living(struct sim *s)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(
            s->image,
            "SELECT key, hub, id, name, status, flags, inbox_first, inbox_next, history_rows, "
            "scheduled FROM object WHERE status IN (0, 6, 7) ORDER BY key",
            -1, &st, NULL) != SQLITE_OK)
        return;
    fprintf(stderr,
            "  key|hub|id|name|status|flags|inbox_first|inbox_next|history_rows|scheduled\n");
    while (sqlite3_step(st) == SQLITE_ROW) {
        fprintf(stderr, "  ");
        for (int i = 0; i < sqlite3_column_count(st); i++)
            fprintf(stderr, "%s%s", i ? "|" : "", (const char *)sqlite3_column_text(st, i));
        fprintf(stderr, "\n");
    }
    sqlite3_finalize(st);
}

static void check_rows(struct sim *s)
{
    static const char *const EMPTY[][2] = {
        {"SELECT count(*) FROM inbox AS i WHERE NOT EXISTS (SELECT 1 FROM object AS o WHERE o.key "
         "= i.object AND o.status IN (0, 6, 7))",
         "inbox rows of nobody who lives"},
        {"SELECT count(*) FROM timer AS t WHERE NOT EXISTS (SELECT 1 FROM object AS o WHERE o.key "
         "= t.object AND o.status IN (0, 6, 7))",
         "timers of nobody who lives"},
        {"SELECT count(*) FROM history AS h WHERE NOT EXISTS (SELECT 1 FROM object AS o WHERE "
         "o.execution = h.execution)",
         "history of no execution"},
        {"SELECT count(*) FROM object AS o WHERE history_rows <> (SELECT count(*) FROM history AS "
         "h WHERE h.execution = o.execution)",
         "objects whose number of history rows is wrong"},
        {"SELECT count(*) FROM count AS c WHERE n <> (SELECT count(*) FROM object AS o WHERE o.hub "
         "= c.hub AND o.kind = c.kind AND o.status = c.status)",
         "counters that are wrong"},
        {"SELECT (SELECT coalesce(sum(n), 0) FROM count) - (SELECT count(*) FROM object)",
         "objects that are not counted"},
        {"SELECT (SELECT number FROM meta WHERE name = 'timers') - (SELECT count(*) FROM timer)",
         "timers that are not counted"},
    };
    for (size_t i = 0; i < ARRAY_LEN(EMPTY); i++) {
        int64_t n = number(s, EMPTY[i][0]);
        if (n != 0)
            sim_fail(s, "rows", "%" PRId64 " %s", n, EMPTY[i][1]);
    }
}

static void check_history(struct sim *s, struct bytes id, int64_t execution, bool is_over)
{
    sqlite3_stmt *st = NULL;
    struct strbuf frames = {0};
    struct arena *a = arena_create();
    OrchestratorRequest *all;
    struct error err = {0};
    if (sqlite3_prepare_v2(s->image, "SELECT frames FROM history WHERE execution = ?1 ORDER BY row",
                           -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(st, 1, execution);
        while (sqlite3_step(st) == SQLITE_ROW)
            strbuf_append(&frames, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
        sqlite3_finalize(st);
    }
    const char *wrong = NULL;
    if (wire_unpack(&orchestrator_request__descriptor, a, strbuf_bytes(&frames), &WIRE_LIMITS, &all,
                    &err))
        wrong = err.msg;
    else
        wrong = program_check(a, id, all->pastevents, all->n_pastevents, is_over);
    if (wrong)
        sim_fail(s, "replay", "history of '%.*s': %s", BYTES_FMT(id), wrong);
    arena_free(a);
    strbuf_deinit(&frames);
}

static void check_histories(struct sim *s)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->image, "SELECT id, execution, status FROM object ORDER BY key", -1,
                           &st, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(st) == SQLITE_ROW && !s->has_failed) {
        char id[256];
        int status = sqlite3_column_int(st, 2);
        (void)snprintf(id, sizeof(id), "%s", (const char *)sqlite3_column_text(st, 0));
        check_history(s, bytes_str(id), sqlite3_column_int64(st, 1),
                      status != 0 && status != 6 && status != 7);
    }
    sqlite3_finalize(st);
}

static void run_until(struct sim *s, usec_t until)
{
    while (!s->has_failed && sim_step(s, until))
        ;
}

void sim_finish(struct sim *s)
{
    s->is_over = true;
    faults_end(s->faults);
    for (size_t i = 0; i < s->worker_count; i++)
        worker_behave(s->workers[i]);
    sim_trace(s, "the faults are over");
    usec_t end = sim_now(s) + HEALING;
    bool quiet = false;
    run_until(s, sim_now(s) + LOOK_EVERY);
    model_quiet(s->model);
    while (!s->has_failed && !quiet && sim_now(s) < end) {
        resume_all(s);
        run_until(s, sim_now(s) + LOOK_EVERY);
        quiet = is_quiet(s);
    }
    if (!s->has_failed && !quiet)
        say_what_lives(s);
    run_until(s, sim_now(s) + 40 * USEC_PER_SEC);
    while (!s->has_failed && !server_is_idle(s->server) && sim_now(s) < end)
        run_until(s, sim_now(s) + USEC_PER_MSEC * 100);
    if (s->has_failed)
        return;
    check_rows(s);
    check_histories(s);
    if (!s->has_failed) {
        model_clock(s->model, server_wall(s->server), server_mono(s->server));
        server_figures(s->server);
    }
    if (!s->has_failed)
        model_end(s->model);
}
