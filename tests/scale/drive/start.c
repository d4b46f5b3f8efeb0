/* start.c - roles start, check and read.
 *
 * start: starts --count instances (from number --from), or for --duration-ms; then --verify looks for them.
 *
 * --concurrency calls at a time, at most --rate a second. With --wait each slot waits for the end of its instance before the next.
 * What was acknowledged must end with the output --expect; what was refused with a code that --allow names must not exist. A
 * refused number is not tried again, its slot pauses a little. The line {"started":N,...} comes when all are
 * started; with --verify 1 the check follows at once, with --verify 2 when a line comes. With --names each has a name of its own.
 * check: waits for the end of --count instances that another process started, and looks at their output.
 * read: reads them once; what answers has to be there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "drive.h"

#define REFUSED_PAUSE (50 * USEC_PER_MSEC)

enum fate { FATE_NONE, FATE_STARTED, FATE_REFUSED, FATE_DONE };

struct slot {
    struct drive *drive;
    uint64_t number;
    usec_t begun;
};

static struct {
    struct slot *slots;
    uint8_t *fates; /* by number - from */
    uint64_t cap, next, checked, running, done, gone, found;
    double credit;
    usec_t begun, took, credited, check_begun, check_took;
    bool is_checking, is_over, is_reading;
    struct latencies start, wait;
} m;

static void slot_next(struct slot *s);
static void check_next(struct slot *s);

static uint8_t *fate_of(const struct drive *d, uint64_t number)
{
    return &m.fates[number - d->opts.from];
}

/* ---- what came out ------------------------------------------------------------------------------------ */

static bool has_ended_well(struct drive *d, struct bytes answer, const char *id)
{
    struct arena *a = arena_create();
    GetInstanceResponse *resp;
    struct error err = {0};
    bool ok = false;

    if (wire_unpack(&get_instance_response__descriptor, a, answer, &DRIVE_LIMITS, &resp, &err))
        drive_wrong(d, "%s: the answer does not decode: %s", id, err.msg);
    else if (!resp->exists)
        drive_wrong(d, "%s is lost", id);
    else if (resp->orchestrationstate->orchestrationstatus !=
             ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED)
        drive_wrong(d, "%s has status %d, output %.*s", id,
                    resp->orchestrationstate->orchestrationstatus,
                    BYTES_FMT(wire_string(resp->orchestrationstate->output)));
    else if (!bytes_eq(wire_string(resp->orchestrationstate->output), bytes_str(d->opts.expect)))
        drive_wrong(d, "%s has output %.*s", id,
                    BYTES_FMT(wire_string(resp->orchestrationstate->output)));
    else
        ok = true;
    arena_free(a);
    return ok;
}

static void ask(struct slot *s, const char *path, answered_fn *fn)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
    struct id id = drive_id(s->drive, s->number);

    req.instanceid = wire_data(bytes_str(id.text));
    req.getinputsandoutputs = true;
    link_call(link_of(s->drive, s->number), path, &req.base, fn, s);
}

/* ---- verify ------------------------------------------------------------------------------------------- */

static void finish_checks(struct drive *d)
{
    m.check_took = drive_now(d) - m.check_begun;
    drive_end(d);
}

static void ask_again(void *arg)
{
    struct slot *s = arg;

    check_next(s);
}

static void checked(void *arg, int status, struct bytes message, struct bytes answer)
{
    struct slot *s = arg;
    struct drive *d = s->drive;

    if (status) {
        if (!drive_allows(d, status))
            drive_wrong(d, "asking for %s: %d %.*s", drive_id(d, s->number).text, status,
                        BYTES_FMT(message));
        else {
            drive_after(d, REFUSED_PAUSE, ask_again, s);
            return;
        }
    } else if (has_ended_well(d, answer, drive_id(d, s->number).text)) {
        *fate_of(d, s->number) = FATE_DONE;
        m.done++;
    }
    s->number = UINT64_MAX;
    check_next(s);
}

/* What was refused must be absent; what is read, there. */
static void check_presence(void *arg, int status, struct bytes message, struct bytes answer)
{
    struct slot *s = arg;
    struct drive *d = s->drive;
    struct arena *a = arena_create();
    GetInstanceResponse *resp;

    if (m.is_reading)
        d->codes[status]++;
    if (status ||
        wire_unpack(&get_instance_response__descriptor, a, answer, &DRIVE_LIMITS, &resp, NULL)) {
        if (!m.is_reading || !drive_allows(d, status))
            drive_wrong(d, "asking for %s: %d %.*s", drive_id(d, s->number).text, status,
                        BYTES_FMT(message));
    } else if (m.is_reading && !resp->exists)
        drive_wrong(d, "%s is lost", drive_id(d, s->number).text);
    else if (!m.is_reading && resp->exists)
        drive_wrong(d, "%s was refused, and is there", drive_id(d, s->number).text);
    else if (m.is_reading)
        m.found++;
    else
        m.gone++;
    arena_free(a);
    s->number = UINT64_MAX;
    check_next(s);
}

/* The slot's next number, or the one it has to ask for again. */
static void check_next(struct slot *s)
{
    struct drive *d = s->drive;

    if (s->number == UINT64_MAX) {
        while (m.checked < m.next && *fate_of(d, d->opts.from + m.checked) == FATE_DONE)
            m.checked++;
        if (m.checked == m.next) {
            if (--m.running == 0)
                finish_checks(d);
            return;
        }
        s->number = d->opts.from + m.checked++;
    }
    if (m.is_reading || *fate_of(d, s->number) == FATE_REFUSED)
        ask(s, DT_PATH("GetInstance"), check_presence);
    else
        ask(s, DT_PATH("WaitForInstanceCompletion"), checked);
}

static void check_all(struct drive *d)
{
    if (m.is_checking || !m.is_over)
        return;
    m.is_checking = true;
    m.check_begun = drive_now(d);
    m.running = d->opts.concurrency;
    for (uint64_t i = 0; i < d->opts.concurrency; i++)
        m.slots[i].number = UINT64_MAX;
    for (uint64_t i = 0; i < d->opts.concurrency; i++)
        check_next(&m.slots[i]);
}

/* ---- start -------------------------------------------------------------------------------------------- */

static void finish_starts(struct drive *d)
{
    m.is_over = true;
    m.took = drive_now(d) - m.begun;
    printf("{\"started\":%" PRIu64 ",\"seconds\":%.3f}\n", d->codes[0], (double)m.took / 1e6);
    if (d->opts.verify == 1)
        check_all(d);
    else if (d->opts.verify == 0)
        drive_end(d);
}

static void slot_again(void *arg)
{
    slot_next(arg);
}

static void slot_waited(void *arg, int status, struct bytes message, struct bytes answer);

static void slot_wait_again(void *arg)
{
    ask(arg, DT_PATH("WaitForInstanceCompletion"), slot_waited);
}

static void slot_waited(void *arg, int status, struct bytes message, struct bytes answer)
{
    struct slot *s = arg;
    struct drive *d = s->drive;
    struct id id = drive_id(d, s->number);

    if (status && drive_allows(d, status)) {
        drive_after(d, REFUSED_PAUSE, slot_wait_again, s);
        return;
    }
    if (status)
        drive_wrong(d, "waiting for %s: %d %.*s", id.text, status, BYTES_FMT(message));
    else if (has_ended_well(d, answer, id.text)) {
        latency_note(&m.wait, drive_now(d) - s->begun);
        *fate_of(d, s->number) = FATE_DONE;
        m.done++;
    }
    slot_next(s);
}

static void slot_started(void *arg, int status, struct bytes message, struct bytes answer UNUSED)
{
    struct slot *s = arg;
    struct drive *d = s->drive;

    if (!drive_counts(d, status, message, "StartInstance")) {
        *fate_of(d, s->number) = FATE_REFUSED;
        drive_after(d, REFUSED_PAUSE, slot_again, s);
        return;
    }
    latency_note(&m.start, drive_now(d) - s->begun);
    *fate_of(d, s->number) = FATE_STARTED;
    if (d->opts.wait)
        ask(s, DT_PATH("WaitForInstanceCompletion"), slot_waited);
    else
        slot_next(s);
}

static bool is_over(const struct drive *d)
{
    if (d->opts.duration_ms)
        return drive_now(d) - m.begun >= (usec_t)d->opts.duration_ms * USEC_PER_MSEC;
    return m.next == d->opts.count;
}

static void need_fates(uint64_t count)
{
    if (count <= m.cap)
        return;
    uint64_t cap = MAX(count, m.cap * 2);
    m.fates = realloc(m.fates, cap);
    ASSERT(m.fates);
    memset(m.fates + m.cap, FATE_NONE, cap - m.cap);
    m.cap = cap;
}

/* False: not now. */
static bool takes_credit(const struct drive *d)
{
    if (d->opts.rate == 0)
        return true;
    usec_t now = drive_now(d);
    m.credit += (double)d->opts.rate * (double)(now - m.credited) / 1e6;
    m.credit = MIN(m.credit, (double)d->opts.rate);
    m.credited = now;
    if (m.credit < 1)
        return false;
    m.credit -= 1;
    return true;
}

static void slot_next(struct slot *s)
{
    struct drive *d = s->drive;
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    Google__Protobuf__StringValue input;
    char name[128];

    if (is_over(d)) {
        if (--m.running == 0)
            finish_starts(d);
        return;
    }
    if (!takes_credit(d)) {
        drive_after(d, 5 * USEC_PER_MSEC, slot_again, s);
        return;
    }
    s->number = d->opts.from + m.next++;
    need_fates(m.next);
    struct id id = drive_id(d, s->number);
    s->begun = drive_now(d);
    req.instanceid = wire_data(bytes_str(id.text));
    if (d->opts.names)
        snprintf(name, sizeof(name), "%s/%" PRIu64, d->opts.name, s->number);
    req.name = wire_data(bytes_str(d->opts.names ? name : d->opts.name));
    req.input = wire_box(&input, bytes_str(d->opts.input));
    link_call(link_of(d, s->number), DT_PATH("StartInstance"), &req.base, slot_started, s);
}

static void make_slots(struct drive *d)
{
    m.slots = calloc(d->opts.concurrency, sizeof(*m.slots));
    ASSERT(m.slots);
    for (uint64_t i = 0; i < d->opts.concurrency; i++)
        m.slots[i].drive = d;
}

void role_start(struct drive *d)
{
    make_slots(d);
    m.begun = m.credited = drive_now(d);
    m.running = d->opts.concurrency;
    d->go = check_all;
    for (uint64_t i = 0; i < d->opts.concurrency; i++)
        slot_next(&m.slots[i]);
}

void role_check(struct drive *d)
{
    make_slots(d);
    m.next = d->opts.count;
    need_fates(m.next);
    memset(m.fates, FATE_STARTED, m.next);
    m.is_over = true;
    check_all(d);
}

void role_read(struct drive *d)
{
    m.is_reading = true;
    role_check(d);
}

void start_report(struct drive *d UNUSED)
{
    printf("\"asked\":%" PRIu64 ",\"seconds\":%.3f,\"completed\":%" PRIu64 ",\"absent\":%" PRIu64
           ",\"found\":%" PRIu64 ",\"check_seconds\":%.3f,",
           m.next, (double)m.took / 1e6, m.done, m.gone, m.found, (double)m.check_took / 1e6);
    latency_print(&m.start, "start_ms");
    latency_print(&m.wait, "end_ms");
}
