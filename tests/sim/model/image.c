/* image.c - the database, read with the model's own SQL, and what it has to hold. */
#include <stdlib.h>

#include "internal.h"

enum query {
    Q_OBJECT,
    Q_HISTORY,
    Q_INBOX,
    Q_TIMERS,
    Q_TASKS,
    Q_MAIL,
    Q_TRASH,
    Q_OBJECTS,
    Q_COUNTS,
    Q_STRAYS,
    QUERIES
};

static const char *const SQL[QUERIES] = {
    [Q_OBJECT] = "SELECT o.key, o.status, o.base_status, o.created, o.completed, o.scheduled, "
                 "o.execution, o.execution_id, o.history_events, o.custom_status, o.name, "
                 "o.version, o.parent_id FROM object AS o JOIN hub AS h ON h.hub = o.hub "
                 "WHERE h.name = ?1 AND o.kind = 1 AND o.id = ?2",
    [Q_HISTORY] = "SELECT row, frames FROM history WHERE execution = ?1 AND row > ?2 ORDER BY row",
    [Q_INBOX] = "SELECT execution, event FROM inbox WHERE object = ?1 ORDER BY seq",
    [Q_TIMERS] = "SELECT t.due, t.key, t.object, t.execution, t.what, t.ref, o.id, h.name, "
                 "o.execution, o.execution_id, o.status FROM timer AS t "
                 "LEFT JOIN object AS o ON o.key = t.object LEFT JOIN hub AS h ON h.hub = o.hub "
                 "ORDER BY t.due, t.key",
    [Q_TASKS] = "SELECT t.payload, g.name, g.version, h.name FROM task AS t "
                "LEFT JOIN workgroup AS g ON g.grp = t.grp LEFT JOIN hub AS h ON h.hub = g.hub "
                "ORDER BY t.key",
    [Q_MAIL] = "SELECT m.id, h.name, m.seq FROM mailbox AS m LEFT JOIN hub AS h ON h.hub = m.hub "
               "ORDER BY m.seq",
    [Q_TRASH] = "SELECT count(*) FROM trash",
    [Q_OBJECTS] = "SELECT o.id, h.name, o.name FROM object AS o LEFT JOIN hub AS h "
                  "ON h.hub = o.hub WHERE o.kind = 1 ORDER BY o.key",
    [Q_COUNTS] = "SELECT hub, status, sum(n) FROM (SELECT hub, status, n FROM count WHERE kind = 1 "
                 "UNION ALL SELECT hub, status, -1 FROM object WHERE kind = 1) "
                 "GROUP BY hub, status HAVING sum(n) <> 0",
    [Q_STRAYS] =
        "SELECT (SELECT count(*) FROM history WHERE execution NOT IN "
        "(SELECT execution FROM object)), (SELECT count(*) FROM inbox WHERE object NOT IN "
        "(SELECT key FROM object)), (SELECT count(*) FROM timer WHERE execution NOT IN "
        "(SELECT execution FROM object)), (SELECT count(*) FROM inbox AS i JOIN object AS o "
        "ON o.key = i.object WHERE o.status IN (1, 3, 4, 5))",
};

static sqlite3_stmt *query(struct model *m, enum query q)
{
    if (!m->statements[q] && sqlite3_prepare_v3(m->db, SQL[q], -1, SQLITE_PREPARE_PERSISTENT,
                                                &m->statements[q], NULL) != SQLITE_OK)
        found(m, CHECK_IMAGE, "%s: %s", SQL[q], sqlite3_errmsg(m->db));
    if (m->statements[q])
        sqlite3_reset(m->statements[q]);
    return m->statements[q];
}

static bool step(struct model *m, sqlite3_stmt *st)
{
    int rc = st ? sqlite3_step(st) : SQLITE_DONE;
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        found(m, CHECK_IMAGE, "%s", sqlite3_errmsg(m->db));
    if (st)
        sqlite3_reset(st);
    return false;
}

static void bind_text(sqlite3_stmt *st, int at, struct bytes b)
{
    sqlite3_bind_text(st, at, (const char *)(b.ptr ? b.ptr : (const uint8_t *)""), (int)b.len,
                      SQLITE_STATIC);
}

static struct bytes column(sqlite3_stmt *st, int at)
{
    if (sqlite3_column_type(st, at) == SQLITE_NULL)
        return BYTES_NONE;
    const void *p = sqlite3_column_type(st, at) == SQLITE_BLOB ? sqlite3_column_blob(st, at)
                                                               : sqlite3_column_text(st, at);
    return bytes_of(p ? p : "", (size_t)sqlite3_column_bytes(st, at));
}

/* ---- opening --------------------------------------------------------------------------------------------- */

static void read_timers(struct model *m, struct image *img)
{
    sqlite3_stmt *st = query(m, Q_TIMERS);
    while (step(m, st)) {
        struct image_timer t = {
            .due = sqlite3_column_int64(st, 0),
            .key = (uint64_t)sqlite3_column_int64(st, 1),
            .object = (uint64_t)sqlite3_column_int64(st, 2),
            .execution = (uint64_t)sqlite3_column_int64(st, 3),
            .what = sqlite3_column_int(st, 4),
            .ref = (uint64_t)sqlite3_column_int64(st, 5),
            .id = arena_dup(img->arena, column(st, 6)),
            .hub = hub_name(m, arena_cstr(img->arena, column(st, 7))),
            .exec = arena_dup(img->arena, column(st, 9)),
        };
        t.is_stray = bytes_is_none(t.id) || (uint64_t)sqlite3_column_int64(st, 8) != t.execution ||
                     is_terminal_status(sqlite3_column_int(st, 10));
        VEC_PUSH(&img->timers, t);
    }
}

bool image_open(struct model *m, struct image *img)
{
    uint64_t generation = m->generation;
    *img = (struct image){.db = m->opts.image(m->opts.arg, &generation)};
    if (!img->db)
        return false;
    if (img->db != m->db || generation != m->generation) {
        for (size_t i = 0; i < QUERIES; i++) {
            if (m->db == img->db && m->statements[i])
                sqlite3_finalize(m->statements[i]);
            m->statements[i] = NULL;
        }
        m->db = img->db;
        m->generation = generation;
    }
    img->arena = arena_create();
    sqlite3_exec(m->db, "BEGIN", NULL, NULL, NULL);
    read_timers(m, img);
    sqlite3_stmt *st = query(m, Q_MAIL);
    while (step(m, st)) {
        struct image_mail mail = {.id = arena_dup(img->arena, column(st, 0)),
                                  .hub = hub_name(m, arena_cstr(img->arena, column(st, 1))),
                                  .seq = (uint64_t)sqlite3_column_int64(st, 2)};
        VEC_PUSH(&img->mails, mail);
    }
    st = query(m, Q_TRASH);
    if (step(m, st))
        img->trash = (size_t)sqlite3_column_int64(st, 0);
    if (st)
        sqlite3_reset(st);
    return true;
}

void image_close(struct model *m, struct image *img)
{
    if (!img->db)
        return;
    for (size_t i = 0; i < QUERIES; i++)
        if (m->statements[i])
            sqlite3_reset(m->statements[i]);
    sqlite3_exec(m->db, "COMMIT", NULL, NULL, NULL);
    VEC_FREE(&img->timers);
    VEC_FREE(&img->mails);
    arena_free(img->arena);
}

void image_forget(struct model *m)
{
    for (size_t i = 0; i < QUERIES; i++) {
        if (m->statements[i])
            sqlite3_finalize(m->statements[i]);
        m->statements[i] = NULL;
    }
    m->db = NULL;
}

int image_status(struct model *m, const struct image *img, const char *hub, struct bytes id,
                 struct bytes *exec)
{
    sqlite3_stmt *st = query(m, Q_OBJECT);
    int status = -1;
    *exec = BYTES_NONE;
    if (!st)
        return status;
    bind_text(st, 1, bytes_str(hub));
    bind_text(st, 2, id);
    if (step(m, st)) {
        status = sqlite3_column_int(st, 1);
        *exec = arena_dup(img->arena, column(st, 7));
    }
    sqlite3_reset(st);
    return status;
}

/* ---- timers ------------------------------------------------------------------------------------------------- */

/* Of the kind `what` of the timer table: 1 a user's, ref = id and, above it, the nanoseconds that were rounded up; 2 a scheduled
 * start; 3 a termination's time of grace. */
static bool same_timer(const struct model *m, const struct image_timer *row, const struct inst *i,
                       const struct timer *t)
{
    struct bytes exec = exec_text(m, t->exec);
    return !row->is_stray && row->what == (int)t->kind && row->due == t->due &&
           row->hub == i->hub && bytes_eq(row->id, i->id) &&
           (bytes_is_none(exec) || bytes_eq(row->exec, exec)) &&
           (t->kind != TIMER_USER || (int32_t)(uint32_t)row->ref == t->id);
}

bool image_has_timer(const struct model *m, const struct image *img, const struct state *s,
                     const struct timer *t)
{
    const struct inst *i = state_by_serial(s, t->inst);
    if (!i || bytes_is_none(i->id))
        return true;
    for (size_t n = 0; n < img->timers.n; n++)
        if (same_timer(m, &img->timers.at[n], i, t))
            return true;
    return false;
}

static void compare_timers(struct model *m, const struct image *img, const struct state *s,
                           struct diff *d)
{
    for (size_t n = 0; n < img->timers.n; n++)
        img->timers.at[n].matched = false;
    for (size_t k = 0; k < s->timers.n; k++) {
        const struct timer *t = &s->timers.at[k];
        const struct inst *i = state_by_serial(s, t->inst);
        bool there = false;
        for (size_t n = 0; i && !there && n < img->timers.n; n++)
            if (!img->timers.at[n].matched && same_timer(m, &img->timers.at[n], i, t))
                there = img->timers.at[n].matched = true;
        if (i && !there)
            differ(d, CHECK_TIMERS, "timer %d (kind %d, due %lld) of '%.*s' is not stored", t->id,
                   (int)t->kind, (long long)t->due, BYTES_FMT(i->id));
    }
    for (size_t n = 0; n < img->timers.n; n++) {
        const struct image_timer *row = &img->timers.at[n];
        if (!row->matched && !(row->is_stray && img->trash > 0))
            differ(d, CHECK_TIMERS,
                   "a timer is stored (kind %d, ref %d, due %lld, of '%.*s'%s) that should not be",
                   row->what, (int)(int32_t)(uint32_t)row->ref, (long long)row->due,
                   BYTES_FMT(row->id), row->is_stray ? ", another execution" : "");
    }
}

/* ---- activities ------------------------------------------------------------------------------------------------ */

static void compare_tasks(struct model *m, const struct image *img, struct state *s, struct diff *d)
{
    bool *matched = arena_array(img->arena, bool, s->tasks.n + 1);
    sqlite3_stmt *st = query(m, Q_TASKS);
    while (step(m, st)) {
        ActivityRequest *q = unpack(img->arena, &activity_request__descriptor, column(st, 0));
        struct bytes request = q ? canonical(img->arena, q) : column(st, 0);
        const char *hub = hub_name(m, arena_cstr(img->arena, column(st, 3)));
        size_t k = 0;
        while (k < s->tasks.n && (matched[k] || s->tasks.at[k].hub != hub ||
                                  !bytes_eq(s->tasks.at[k].request, request)))
            k++;
        if (k == s->tasks.n) {
            differ(d, CHECK_TASKS, "activity %d '%.*s' of '%.*s' is stored and should not be",
                   q ? q->taskid : -1, BYTES_FMT(column(st, 1)),
                   BYTES_FMT(q ? view(q->orchestrationinstance->instanceid) : BYTES_LIT("?")));
            continue;
        }
        matched[k] = true;
        if (!bytes_eq(s->tasks.at[k].name, column(st, 1)) ||
            !bytes_eq(s->tasks.at[k].version, column(st, 2)))
            differ(d, CHECK_TASKS, "activity %d waits as '%.*s' version '%.*s', not '%.*s'",
                   s->tasks.at[k].id, BYTES_FMT(column(st, 1)), BYTES_FMT(column(st, 2)),
                   BYTES_FMT(s->tasks.at[k].version));
    }
    for (size_t k = s->tasks.n; k-- > 0;) {
        const struct task *t = &s->tasks.at[k];
        if (matched[k])
            continue;
        if (!t->terminated && !t->gone) { /* cancelled, unless somebody has it */
            const struct inst *i = state_by_serial(s, t->inst);
            differ(d, CHECK_TASKS, "activity %d '%.*s' of '%.*s' is not stored%s", t->id,
                   BYTES_FMT(t->name), BYTES_FMT(i ? i->id : BYTES_LIT("(gone)")),
                   t->orphan ? " (an orphan)" : "");
            continue;
        }
        VEC_REMOVE(&s->tasks, k);
    }
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

/* Takes over what only the server could choose. */
static void take_over(struct model *m, struct inst *i, struct event *mine, HistoryEvent *theirs)
{
    if (mine->unbound && (int)theirs->event_type_case == EV_STARTED &&
        !bytes_is_none(exec_text(m, mine->exec))) {
        OrchestrationInstance *o = mine->msg->executionstarted->orchestrationinstance;
        o->instanceid = data_of(i->id);
        o->executionid = box(m->arena, exec_text(m, mine->exec));
        mine->body = event_of(m->arena, mine->msg)->body;
        mine->unbound = false;
    }
    TaskFailureDetails *f = failure_in(mine->msg), *g = failure_in(theirs);
    if (mine->fuzzy && f && g) {
        f->errormessage = data_of(arena_dup(m->arena, view(g->errormessage)));
        mine->body = event_of(m->arena, mine->msg)->body;
        mine->fuzzy = false;
    }
    if (mine->any_time && theirs->timestamp) {
        mine->time = theirs->timestamp->seconds * USEC_PER_SEC + theirs->timestamp->nanos / 1000;
        mine->msg->timestamp = stamp(m->arena, mine->time);
        mine->any_time = false;
        if (mine->type == EV_TURN)
            i->last_started = mine->time;
    }
}

/* NULL: alike; else what is not. */
const char *event_differs(struct model *m, struct arena *a, struct inst *i, struct event *mine,
                          HistoryEvent *theirs)
{
    take_over(m, i, mine, theirs);
    const struct event *e = event_of(a, theirs);
    if (mine->type != e->type)
        return arena_printf(a, "it is %s", event_name(e->type));
    if (mine->id != e->id)
        return arena_printf(a, "its id is %d, not %d", e->id, mine->id);
    if (mine->time != e->time)
        return arena_printf(a, "its time is %lld, not %lld", (long long)e->time,
                            (long long)mine->time);
    if (!bytes_eq(mine->body, e->body))
        return "its content differs";
    return NULL;
}

static void compare_history(struct model *m, const struct image *img, struct inst *i,
                            uint64_t execution, struct diff *d)
{
    sqlite3_stmt *st = query(m, Q_HISTORY);
    sqlite3_bind_int64(st, 1, (sqlite3_int64)execution);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)i->checked_rows);
    size_t at = i->checked_events;
    while (step(m, st)) {
        /* Framed as pastEvents of an OrchestratorRequest. */
        OrchestratorRequest *q =
            unpack(img->arena, &orchestrator_request__descriptor, column(st, 1));
        i->checked_rows = (size_t)sqlite3_column_int64(st, 0);
        for (size_t n = 0; q && n < q->n_pastevents; n++, at++) {
            if (at >= i->history.n) {
                differ(d, CHECK_HISTORY,
                       "history of '%.*s' has a %s as event %zu that should not be there",
                       BYTES_FMT(i->id), event_name((int)q->pastevents[n]->event_type_case), at);
                break;
            }
            const char *what = event_differs(m, img->arena, i, i->history.at[at], q->pastevents[n]);
            if (what)
                differ(d, CHECK_HISTORY, "event %zu of the history of '%.*s', a %s: %s", at,
                       BYTES_FMT(i->id), event_name(i->history.at[at]->type), what);
        }
    }
    if (at < i->history.n)
        differ(d, CHECK_HISTORY,
               "history of '%.*s' has %zu events instead of %zu; the next would be %s",
               BYTES_FMT(i->id), at, i->history.n, event_name(i->history.at[at]->type));
    i->checked_events = at;
}

/* The termination is delivered alone: where it stands among the others means nothing. */
static void compare_inbox(struct model *m, const struct image *img, struct inst *i, uint64_t object,
                          uint64_t execution, struct diff *d)
{
    sqlite3_stmt *st = query(m, Q_INBOX);
    sqlite3_bind_int64(st, 1, (sqlite3_int64)object);
    size_t at = 0;
    struct event *terminated = NULL;
    for (size_t n = 0; n < i->inbox.n; n++)
        if (i->inbox.at[n]->type == EV_TERMINATED)
            terminated = i->inbox.at[n];
    while (step(m, st)) {
        uint64_t meant = (uint64_t)sqlite3_column_int64(st, 0);
        if (meant != 0 && meant != execution)
            continue;
        HistoryEvent *theirs = unpack(img->arena, &history_event__descriptor, column(st, 1));
        if (!theirs) {
            differ(d, CHECK_INBOX, "an event in the inbox of '%.*s' does not decode",
                   BYTES_FMT(i->id));
            continue;
        }
        struct event *mine;
        if ((int)theirs->event_type_case == EV_TERMINATED) {
            mine = terminated;
            terminated = NULL;
        } else {
            while (at < i->inbox.n && i->inbox.at[at]->type == EV_TERMINATED)
                at++;
            mine = at < i->inbox.n ? i->inbox.at[at++] : NULL;
        }
        if (!mine) {
            differ(d, CHECK_INBOX, "the inbox of '%.*s' has a %s that should not be there",
                   BYTES_FMT(i->id), event_name((int)theirs->event_type_case));
            continue;
        }
        const char *what = event_differs(m, img->arena, i, mine, theirs);
        if (what)
            differ(d, CHECK_INBOX, "%s in the inbox of '%.*s': %s", event_name(mine->type),
                   BYTES_FMT(i->id), what);
    }
    while (at < i->inbox.n && i->inbox.at[at]->type == EV_TERMINATED)
        at++;
    if (at < i->inbox.n || terminated)
        differ(d, CHECK_INBOX, "%s is not in the inbox of '%.*s'",
               event_name(terminated ? EV_TERMINATED : i->inbox.at[at]->type), BYTES_FMT(i->id));
}

/* ---- instances --------------------------------------------------------------------------------------------------------- */

static bool same_text(struct bytes a, struct bytes b)
{
    return bytes_eq(a, b); /* absent and empty are shown alike */
}

static void take_execution(struct model *m, struct inst *i, struct bytes exec, struct diff *d)
{
    struct bytes known = exec_text(m, i->exec);
    if (bytes_is_none(known)) {
        if (!is_hex32(exec))
            differ(d, CHECK_OBJECT, "'%.*s' has the execution id '%.*s'", BYTES_FMT(i->id),
                   BYTES_FMT(exec));
        for (size_t n = 0; n < m->exec_text.n; n++)
            if (!bytes_is_none(m->exec_text.at[n]) && bytes_eq(m->exec_text.at[n], exec))
                differ(d, CHECK_OBJECT, "'%.*s' has an execution id that was there before",
                       BYTES_FMT(i->id));
        m->exec_text.at[i->exec] = arena_dup(m->arena, exec);
    } else if (!bytes_eq(known, exec)) {
        differ(d, CHECK_OBJECT, "'%.*s' has the execution id %.*s, not %.*s", BYTES_FMT(i->id),
               BYTES_FMT(exec), BYTES_FMT(known));
    }
}

static void compare_inst(struct model *m, const struct image *img, const char *hub, struct bytes id,
                         struct inst *i, struct diff *d)
{
    sqlite3_stmt *st = query(m, Q_OBJECT);
    if (!st)
        return;
    bind_text(st, 1, bytes_str(hub));
    bind_text(st, 2, id);
    bool is_there = step(m, st);
    if (!is_there || !i) {
        if (is_there)
            differ(d, CHECK_OBJECT, "'%.*s' is stored (%s) and should not exist", BYTES_FMT(id),
                   status_name(sqlite3_column_int(st, 1)));
        else if (i)
            differ(d, CHECK_OBJECT, "'%.*s' is not stored; it should be %s", BYTES_FMT(id),
                   status_name(i->status));
        sqlite3_reset(st);
        return;
    }
    uint64_t key = (uint64_t)sqlite3_column_int64(st, 0),
             execution = (uint64_t)sqlite3_column_int64(st, 6);
    int status = sqlite3_column_int(st, 1), base = sqlite3_column_int(st, 2);
    if (status != i->status || (status == ST_SUSPENDED && base != i->base))
        differ(d, CHECK_OBJECT, "'%.*s' is stored as %s (%s), not as %s (%s)", BYTES_FMT(id),
               status_name(status), status_name(base), status_name(i->status),
               status_name(i->base));
    take_execution(m, i, column(st, 7), d);
    if (sqlite3_column_int64(st, 3) != i->created)
        differ(d, CHECK_OBJECT, "'%.*s' was created at %lld, not %lld", BYTES_FMT(id),
               (long long)sqlite3_column_int64(st, 3), (long long)i->created);
    if (is_terminal(i) && sqlite3_column_int64(st, 4) != i->completed)
        differ(d, CHECK_OBJECT, "'%.*s' was completed at %lld, not %lld", BYTES_FMT(id),
               (long long)sqlite3_column_int64(st, 4), (long long)i->completed);
    if (sqlite3_column_int64(st, 5) != i->scheduled)
        differ(d, CHECK_OBJECT, "'%.*s' is scheduled for %lld, not %lld", BYTES_FMT(id),
               (long long)sqlite3_column_int64(st, 5), (long long)i->scheduled);
    if ((size_t)sqlite3_column_int64(st, 8) != i->history.n)
        differ(d, CHECK_HISTORY, "'%.*s' says it has %lld events, not %zu", BYTES_FMT(id),
               (long long)sqlite3_column_int64(st, 8), i->history.n);
    if (!same_text(column(st, 9), i->custom))
        differ(d, CHECK_OBJECT, "'%.*s' has the custom status '%.*s', not '%.*s'", BYTES_FMT(id),
               BYTES_FMT(column(st, 9)), BYTES_FMT(i->custom));
    if (!same_text(column(st, 10), i->name) || !same_text(column(st, 11), i->version))
        differ(d, CHECK_OBJECT, "'%.*s' has the name '%.*s' and version '%.*s'", BYTES_FMT(id),
               BYTES_FMT(column(st, 10)), BYTES_FMT(column(st, 11)));
    struct bytes parent =
        i->parent ? view(i->parent->orchestrationinstance->instanceid) : BYTES_NONE;
    if (!same_text(column(st, 12), parent))
        differ(d, CHECK_OBJECT, "'%.*s' has the parent '%.*s', not '%.*s'", BYTES_FMT(id),
               BYTES_FMT(column(st, 12)), BYTES_FMT(parent));
    sqlite3_reset(st);
    compare_history(m, img, i, execution, d);
    if (!is_terminal(i))
        compare_inbox(m, img, i, key, execution, d);
}

/* Instances whose ids the server chose: the rows that nobody else owns, in order of creation. */
static void take_ids(struct model *m, struct state *s)
{
    size_t next = 0;
    while (next < s->insts.n && !bytes_is_none(s->insts.at[next]->id))
        next++;
    if (next == s->insts.n)
        return;
    sqlite3_stmt *st = query(m, Q_OBJECTS);
    while (step(m, st)) {
        const char *hub = hub_name(m, arena_cstr(m->arena, column(st, 1)));
        struct bytes id = column(st, 0);
        if (next == s->insts.n || !is_hex32(id) || state_find(s, hub, id) ||
            hub != s->insts.at[next]->hub)
            continue;
        s->insts.at[next]->id = arena_dup(m->arena, id);
        touch_id(m, hub, s->insts.at[next]->id);
        while (next < s->insts.n && !bytes_is_none(s->insts.at[next]->id))
            next++;
    }
}

static void compare_all(struct model *m, const struct image *img, struct state *s, struct diff *d)
{
    size_t stored = 0;
    sqlite3_stmt *st = query(m, Q_OBJECTS);
    while (step(m, st)) {
        const char *hub = hub_name(m, arena_cstr(img->arena, column(st, 1)));
        stored++;
        if (!state_find(s, hub, column(st, 0)))
            differ(d, CHECK_OBJECT, "'%.*s' is stored and should not exist",
                   BYTES_FMT(column(st, 0)));
    }
    for (size_t n = 0; n < s->insts.n; n++) {
        struct inst *i = s->insts.at[n];
        i->checked_rows = i->checked_events = 0;
        compare_inst(m, img, i->hub, i->id, i, d);
    }
    if (stored != s->insts.n)
        differ(d, CHECK_OBJECT, "%zu instances are stored, not %zu", stored, s->insts.n);
    st = query(m, Q_COUNTS);
    while (step(m, st))
        differ(d, CHECK_COUNTS, "the counter of hub %lld, %s is off by %lld",
               (long long)sqlite3_column_int64(st, 0), status_name(sqlite3_column_int(st, 1)),
               (long long)sqlite3_column_int64(st, 2));
}

void image_compare(struct model *m, const struct image *img, struct state *s, bool whole,
                   struct diff *d)
{
    take_ids(m, s);
    if (whole)
        compare_all(m, img, s, d);
    for (size_t n = 0; !whole && n < m->touched_n; n++)
        compare_inst(m, img, m->touched[n].hub, m->touched[n].id,
                     state_find(s, m->touched[n].hub, m->touched[n].id), d);
    compare_tasks(m, img, s, d);
    compare_timers(m, img, s, d);
    if (img->mails.n != s->mails.n)
        differ(d, CHECK_MAIL, "%zu messages are under way, not %zu", img->mails.n, s->mails.n);
    for (size_t n = 0; n < MIN(img->mails.n, s->mails.n); n++) {
        struct mail *mine = &s->mails.at[n];
        if (mine->seq && mine->seq != img->mails.at[n].seq)
            differ(d, CHECK_MAIL, "message %zu, for '%.*s', is another one than before", n,
                   BYTES_FMT(mine->target));
        mine->seq = img->mails.at[n].seq;
        if (!bytes_eq(img->mails.at[n].id, mine->target))
            differ(d, CHECK_MAIL, "message %zu is for '%.*s', not '%.*s'", n,
                   BYTES_FMT(img->mails.at[n].id), BYTES_FMT(mine->target));
    }
}

void image_rest(struct model *m, const struct image *img, struct diff *d)
{
    sqlite3_stmt *st = query(m, Q_STRAYS);
    static const char *const WHAT[] = {"history rows of no instance", "inbox rows of no instance",
                                       "timers of no instance", "inbox rows of ended instances"};
    if (img->trash > 0)
        differ(d, CHECK_PURGE, "%zu deletions are still to be done", img->trash);
    if (step(m, st))
        for (int k = 0; k < 4; k++)
            if (sqlite3_column_int64(st, k) > 0)
                differ(d, CHECK_PURGE, "%lld %s are left", (long long)sqlite3_column_int64(st, k),
                       WHAT[k]);
    if (st)
        sqlite3_reset(st);
}
