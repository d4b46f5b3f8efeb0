/* load.c - a load generator that plays clients and workers of a Durable Task server, in one thread.
 *
 *   load --server HOST:PORT [--workload hello1|chain5] [--concurrency N] [--count N | --duration D] [--warmup N]
 *        [--connections N] [--pid PID] [--hub NAME] [--json]
 *
 * Closed loop: N instances at a time, each StartInstance (random id) and WaitForInstanceCompletion; workers on the same number of
 * connections decode the history of each turn and decide from it alone, and echo tokens. Outputs are verified; one wrong or failed
 * operation makes the run invalid (exit 1). With --pid it prints the server's CPU per orchestration (user + system, from /proc)
 * and its resident memory; and what was committed and flushed, when the server has perdure.v1.Admin.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/prng.h"
#include "client/channel.h"
#include "durabletask.pb-c.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

#define PATH(m) "/TaskHubSidecarService/" m
#define CONNECTIONS_MAX 8

struct load;

struct connection {
    struct load *load;
    struct channel *channel;
    bool is_worker;
    struct rpc_call *items;
};

struct slot {
    struct load *load;
    struct connection *conn;
    char id[33];
    usec_t begun;
    bool is_waiting; /* for completion; else for the answer to the start */
};

/* Of Admin.Status: since the server's start. */
struct commits {
    bool is_known;
    uint64_t batches, commands, flushes;
};

struct load {
    struct loop *loop;
    struct prng prng;
    const struct clock *clock;
    const char *server, *workload, *hub;
    uint64_t steps, concurrency, count, warmup, connections;
    usec_t duration; /* 0: `count` ends it */
    int pid;
    bool json;
    struct connection conns[CONNECTIONS_MAX];
    struct slot *slots;
    uint64_t started, finished, failed, turns, activities;
    uint32_t *latency_us; /* of the counted ones */
    uint64_t latencies, latencies_cap;
    usec_t begun, ended;
    double cpu_begun, cpu_ended;
    size_t ready;
    struct commits commits_begun, commits_ended;
};

/* ---- calls ------------------------------------------------------------------------------------------- */

struct pending {
    struct load *load;
    struct slot *slot; /* NULL: a completion */
    struct arena *arena;
    struct bytes answer;
};

static bool slot_next(struct slot *s);
static void slot_answered(struct slot *s, int status, struct bytes message, struct bytes answer);

static void got_message(struct rpc_call *call, void *arg, struct arena *arena, struct bytes msg)
{
    struct pending *p = arg;
    (void)call;
    arena_free(p->arena);
    p->arena = arena;
    p->answer = msg;
}

static void got_end(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct pending *p = arg;
    if (p->slot) {
        slot_answered(p->slot, status, message, p->answer);
    } else if (status && !p->load->ended) { /* else: cut off, and its instance has ended */
        fprintf(stderr, "load: a completion failed: %d %.*s\n", status, BYTES_FMT(message));
        p->load->failed++;
    }
    arena_free(p->arena);
    rpc_call_unref(call);
    free(p);
}

static struct rpc_msg *pack(const ProtobufCMessage *m)
{
    size_t size = wire_packed_size(m);
    struct rpc_msg *msg = rpc_msg_new(size);
    wire_pack(m, rpc_msg_data(msg), size);
    return msg;
}

static struct rpc_call *begin(struct connection *c, const char *path,
                              const struct rpc_client_events *ev, const ProtobufCMessage *request)
{
    struct load *l = c->load;
    struct rpc_metadata md = {"taskhub", bytes_str(l->hub)};
    struct rpc_conn *conn = channel_conn(c->channel);
    struct rpc_call *call =
        conn ? rpc_conn_call(conn, path, &md, 1, 0, false, ev, loop_now(l->loop)) : NULL;
    if (!call) {
        fprintf(stderr, "load: the connection is gone\n");
        exit(1);
    }
    rpc_call_send(call, pack(request));
    rpc_call_close_send(call);
    return call;
}

static void unary(struct connection *c, const char *path, struct slot *s,
                  const ProtobufCMessage *request)
{
    struct pending *p = calloc(1, sizeof(*p));
    ASSERT(p);
    p->load = c->load;
    p->slot = s;
    struct rpc_client_events ev = {.message = got_message, .finished = got_end, .arg = p};
    begin(c, path, &ev, request);
}

/* ---- clients -------------------------------------------------------------------------------------------- */

static double cpu_of(int pid)
{
    char path[64], text[1024] = {0};
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = pid ? fopen(path, "r") : NULL;
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    unsigned long user = 0, system = 0;
    const char *p = n ? strrchr(text, ')') : NULL;
    if (!p ||
        sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static uint64_t rss_of(int pid)
{
    char path[64], line[256];
    uint64_t kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = pid ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmRSS: %" SCNu64, &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void ask_status(struct load *l, struct commits *out);

static bool is_over(const struct load *l)
{
    if (l->duration)
        return l->begun && clock_monotonic(l->clock) - l->begun >= l->duration;
    return l->started == l->warmup + l->count;
}

/* False: the run is over and nothing was started. */
static bool slot_next(struct slot *s)
{
    struct load *l = s->load;
    if (is_over(l))
        return false;
    if (l->started == l->warmup && l->begun == 0) {
        l->begun = clock_monotonic(l->clock);
        l->cpu_begun = cpu_of(l->pid);
        ask_status(l, &l->commits_begun);
    }
    l->started++;
    uint64_t words[2] = {prng_u64(&l->prng), prng_u64(&l->prng)};
    hex_encode((const uint8_t *)words, sizeof(words), s->id);
    s->is_waiting = false;
    s->begun = clock_monotonic(l->clock);
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    Google__Protobuf__StringValue input;
    req.instanceid = wire_data(bytes_of(s->id, 32));
    req.name = wire_data(bytes_str(l->workload));
    req.input = wire_box(&input, BYTES_LIT("\"0\""));
    unary(s->conn, PATH("StartInstance"), s, &req.base);
    return true;
}

static void slot_fail(struct slot *s, const char *why, struct bytes detail)
{
    fprintf(stderr, "load: instance %.32s: %s %.*s\n", s->id, why, BYTES_FMT(detail));
    s->load->failed++;
}

static void check_output(struct slot *s, struct bytes answer)
{
    struct arena *a = arena_create();
    GetInstanceResponse *resp;
    struct error err = {0};
    char expected[32];
    snprintf(expected, sizeof(expected), "\"%" PRIu64 "\"", s->load->steps);
    if (wire_unpack(&get_instance_response__descriptor, a, answer, &WIRE_LIMITS, &resp, &err))
        slot_fail(s, "the answer does not decode:", bytes_str(err.msg));
    else if (!resp->exists || resp->orchestrationstate->orchestrationstatus !=
                                  ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED)
        slot_fail(s, "it did not complete", BYTES_NONE);
    else if (!bytes_eq(wire_string(resp->orchestrationstate->output), bytes_str(expected)))
        slot_fail(s, "wrong output", wire_string(resp->orchestrationstate->output));
    arena_free(a);
}

static void note_latency(struct load *l, usec_t took)
{
    if (l->latencies == l->latencies_cap) {
        l->latencies_cap = l->latencies_cap ? l->latencies_cap * 2 : 4096;
        l->latency_us = realloc(l->latency_us, l->latencies_cap * sizeof(*l->latency_us));
        ASSERT(l->latency_us);
    }
    l->latency_us[l->latencies++] = (uint32_t)MIN(took, (usec_t)UINT32_MAX);
}

/* The figures are taken now; the loop ends when the server has told its own. */
static void end_of_run(struct load *l)
{
    l->ended = clock_monotonic(l->clock);
    l->cpu_ended = cpu_of(l->pid);
    ask_status(l, &l->commits_ended);
}

static void slot_answered(struct slot *s, int status, struct bytes message, struct bytes answer)
{
    struct load *l = s->load;
    if (status) {
        slot_fail(s, "a call failed:", message);
    } else if (!s->is_waiting) {
        s->is_waiting = true;
        GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
        req.instanceid = wire_data(bytes_of(s->id, 32));
        req.getinputsandoutputs = true;
        unary(s->conn, PATH("WaitForInstanceCompletion"), s, &req.base);
        return;
    } else {
        check_output(s, answer);
    }
    if (l->finished++ >= l->warmup)
        note_latency(l, clock_monotonic(l->clock) - s->begun);
    if (!slot_next(s) && l->finished == l->started)
        end_of_run(l);
}

/* ---- what the server says of itself ----------------------------------------------------------------------- */

struct question {
    struct load *load;
    struct commits *out;
};

static void got_status(struct rpc_call *call, void *arg, struct arena *arena, struct bytes msg)
{
    struct question *q = arg;
    Perdure__V1__StatusResponse *resp;
    (void)call;
    if (!wire_unpack(&perdure__v1__status_response__descriptor, arena, msg, &WIRE_LIMITS, &resp,
                     NULL) &&
        resp->commits)
        *q->out = (struct commits){true, resp->commits->batches, resp->commits->commands,
                                   resp->commits->flushes};
    arena_free(arena);
}

/* UNIMPLEMENTED from other servers is fine: then nothing is known. */
static void status_ended(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct question *q = arg;
    (void)status;
    (void)message;
    if (q->load->ended)
        loop_stop(q->load->loop);
    rpc_call_unref(call);
    free(q);
}

static void ask_status(struct load *l, struct commits *out)
{
    Perdure__V1__StatusRequest req = PERDURE__V1__STATUS_REQUEST__INIT;
    struct question *q = calloc(1, sizeof(*q));
    ASSERT(q);
    *q = (struct question){l, out};
    struct rpc_client_events ev = {.message = got_status, .finished = status_ended, .arg = q};
    begin(&l->conns[0], "/perdure.v1.Admin/Status", &ev, &req.base);
}

/* ---- workers ---------------------------------------------------------------------------------------------- */

static uint64_t count_completed(HistoryEvent *const *events, size_t n)
{
    uint64_t done = 0;
    for (size_t i = 0; i < n; i++)
        done += events[i]->event_type_case == HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED;
    return done;
}

static void answer_turn(struct connection *c, const OrchestratorRequest *req,
                        ProtobufCBinaryData token)
{
    uint64_t done = count_completed(req->pastevents, req->n_pastevents) +
                    count_completed(req->newevents, req->n_newevents);
    char text[32];
    snprintf(text, sizeof(text), "\"%" PRIu64 "\"", done);
    OrchestratorResponse resp = ORCHESTRATOR_RESPONSE__INIT;
    OrchestratorAction action = ORCHESTRATOR_ACTION__INIT, *actions[] = {&action};
    ScheduleTaskAction task = SCHEDULE_TASK_ACTION__INIT;
    CompleteOrchestrationAction end = COMPLETE_ORCHESTRATION_ACTION__INIT;
    Google__Protobuf__StringValue value;
    action.id = (int32_t)done + 1;
    if (done < c->load->steps) {
        action.orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK;
        action.scheduletask = &task;
        task.name = wire_data(BYTES_LIT("step"));
        task.input = wire_box(&value, bytes_str(text));
    } else {
        action.orchestrator_action_type_case =
            ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION;
        action.completeorchestration = &end;
        end.orchestrationstatus = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;
        end.result = wire_box(&value, bytes_str(text));
    }
    resp.instanceid = req->instanceid;
    resp.completiontoken = token;
    resp.n_actions = 1;
    resp.actions = actions;
    c->load->turns++;
    unary(c, PATH("CompleteOrchestratorTask"), NULL, &resp.base);
}

static void answer_task(struct connection *c, const ActivityRequest *req, ProtobufCBinaryData token)
{
    ActivityResponse resp = ACTIVITY_RESPONSE__INIT;
    resp.instanceid = req->orchestrationinstance->instanceid;
    resp.taskid = req->taskid;
    resp.result = req->input;
    resp.completiontoken = token;
    c->load->activities++;
    unary(c, PATH("CompleteActivityTask"), NULL, &resp.base);
}

static void got_item(struct rpc_call *call, void *arg, struct arena *arena, struct bytes msg)
{
    struct connection *c = arg;
    WorkItem *item;
    struct error err = {0};
    (void)call;
    if (wire_unpack(&work_item__descriptor, arena, msg, &WIRE_LIMITS, &item, &err)) {
        fprintf(stderr, "load: a work item does not decode: %s\n", err.msg);
        c->load->failed++;
    } else if (item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST) {
        answer_turn(c, item->orchestratorrequest, item->completiontoken);
    } else if (item->request_case == WORK_ITEM__REQUEST_ACTIVITY_REQUEST) {
        answer_task(c, item->activityrequest, item->completiontoken);
    }
    arena_free(arena);
}

static void items_ended(struct rpc_call *call, void *arg, int status, struct bytes message)
{
    struct connection *c = arg;
    (void)call;
    if (!c->load->ended) {
        fprintf(stderr, "load: the work-item stream ended: %d %.*s\n", status, BYTES_FMT(message));
        exit(1);
    }
}

static void connected(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct connection *c = arg;
    struct load *l = c->load;
    if (!conn) {
        fprintf(stderr, "load: cannot connect to %s: %s\n", l->server, err->msg);
        exit(1);
    }
    if (c->is_worker) {
        GetWorkItemsRequest req = GET_WORK_ITEMS_REQUEST__INIT;
        struct rpc_client_events ev = {.message = got_item, .finished = items_ended, .arg = c};
        c->items = begin(c, PATH("GetWorkItems"), &ev, &req.base);
    }
    if (++l->ready < l->connections)
        return;
    for (uint64_t i = 0; i < l->concurrency && slot_next(&l->slots[i]); i++)
        ;
}

/* ---- figures ------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_ms(const struct load *l, double p)
{
    if (l->latencies == 0)
        return 0;
    uint64_t i = (uint64_t)(p * (double)(l->latencies - 1));
    return l->latency_us[i] / 1000.0;
}

struct figures {
    double rate, p50, p99, cpu, batch, flushes; /* the last two an orchestration; 0: not known */
    uint64_t rss_kib;
};

static struct figures figures_of(struct load *l)
{
    double n = l->latencies ? (double)l->latencies : 1, took = (double)(l->ended - l->begun) / 1e6;
    const struct commits *from = &l->commits_begun, *to = &l->commits_ended;
    struct figures f = {.rate = (double)l->latencies / took, .rss_kib = rss_of(l->pid)};
    if (l->latencies)
        qsort(l->latency_us, l->latencies, sizeof(*l->latency_us), by_value);
    f.p50 = percentile_ms(l, 0.5);
    f.p99 = percentile_ms(l, 0.99);
    f.cpu = (l->cpu_ended - l->cpu_begun) * 1e6 / n;
    if (from->is_known && to->is_known && to->batches > from->batches) {
        f.batch = (double)(to->commands - from->commands) / (double)(to->batches - from->batches);
        f.flushes = (double)(to->flushes - from->flushes) / n;
    }
    return f;
}

static void report_json(const struct load *l, const struct figures *f)
{
    printf("{\"workload\":\"%s\",\"concurrency\":%" PRIu64 ",\"count\":%" PRIu64
           ",\"rate\":%.1f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"server_cpu_us\":%.1f,"
           "\"server_rss_kib\":%" PRIu64 ",\"commands_per_batch\":%.2f,"
           "\"flushes_per_instance\":%.4f,\"failed\":%" PRIu64 "}\n",
           l->workload, l->concurrency, l->latencies, f->rate, f->p50, f->p99, f->cpu, f->rss_kib,
           f->batch, f->flushes, l->failed);
}

static void report_text(const struct load *l, const struct figures *f)
{
    printf("workload %s  concurrency %" PRIu64 "  count %" PRIu64 "\n", l->workload, l->concurrency,
           l->latencies);
    printf("rate %.1f/s  p50 %.3f ms  p99 %.3f ms\n", f->rate, f->p50, f->p99);
    if (l->pid)
        printf("server CPU %.1f us an orchestration  resident %" PRIu64 " KiB\n", f->cpu,
               f->rss_kib);
    if (f->batch > 0)
        printf("commands %.2f a batch  flushes %.4f an orchestration\n", f->batch, f->flushes);
    printf("failed %" PRIu64 "\n", l->failed);
}

static void report(struct load *l)
{
    struct figures f = figures_of(l);
    if (l->json)
        report_json(l, &f);
    else
        report_text(l, &f);
}

/* ---- start ------------------------------------------------------------------------------------------------------ */

static void usage(const char *what)
{
    fprintf(stderr,
            "load: %s\nusage: load --server HOST:PORT [--workload hello1|chain5] [--concurrency N] "
            "[--count N | --duration D] "
            "[--warmup N] [--connections N] [--pid PID] [--hub NAME] [--json]\n",
            what);
    exit(2);
}

static uint64_t number(const char *text)
{
    uint64_t v;
    if (!bytes_parse_u64(bytes_str(text), &v))
        usage("a number is missing or wrong");
    return v;
}

static void parse(struct load *l, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "--json")) {
            l->json = true;
            continue;
        }
        i++;
        if (!strcmp(a, "--server"))
            l->server = v;
        else if (!strcmp(a, "--workload"))
            l->workload = v;
        else if (!strcmp(a, "--hub"))
            l->hub = v;
        else if (!strcmp(a, "--concurrency"))
            l->concurrency = number(v);
        else if (!strcmp(a, "--count"))
            l->count = number(v);
        else if (!strcmp(a, "--duration")) {
            if (usec_parse_duration(bytes_str(v), &l->duration, NULL) || l->duration == 0)
                usage("--duration is a time such as 10s");
        } else if (!strcmp(a, "--warmup"))
            l->warmup = number(v);
        else if (!strcmp(a, "--connections"))
            l->connections = number(v);
        else if (!strcmp(a, "--pid"))
            l->pid = (int)number(v);
        else
            usage("unknown option");
    }
    if (!strcmp(l->workload, "hello1"))
        l->steps = 1;
    else if (!strcmp(l->workload, "chain5"))
        l->steps = 5;
    else
        usage("the workload is hello1 or chain5");
    if (!l->server || l->concurrency == 0 || l->count == 0)
        usage("--server, a concurrency and a count are needed");
    if (l->connections < 2 || l->connections > CONNECTIONS_MAX)
        usage("--connections is 2 to 8: half for clients, half for workers");
}

int main(int argc, char **argv)
{
    struct load l = {.workload = "hello1",
                     .concurrency = 64,
                     .count = 20000,
                     .connections = 8,
                     .hub = "default"};
    struct error err = {0};
    l.clock = clock_system();
    parse(&l, argc, argv);
    prng_seed_system(&l.prng);
    l.slots = calloc(l.concurrency, sizeof(*l.slots));
    ASSERT(l.slots);
    if (loop_new(&l.loop, &err)) {
        fprintf(stderr, "load: %s\n", err.msg);
        return 1;
    }
    for (uint64_t i = 0; i < l.connections; i++) {
        struct connection *c = &l.conns[i];
        struct channel_options opts = {.address = bytes_str(l.server),
                                       .user_agent = "perdure-load"};
        c->load = &l;
        c->is_worker = i >= l.connections / 2;
        if (channel_new(l.loop, &opts, &c->channel, &err)) {
            fprintf(stderr, "load: %s\n", err.msg);
            return 1;
        }
    }
    for (uint64_t i = 0; i < l.concurrency; i++)
        l.slots[i] = (struct slot){.load = &l, .conn = &l.conns[i % (l.connections / 2)]};
    for (uint64_t i = 0; i < l.connections; i++)
        channel_when_ready(l.conns[i].channel, connected, &l.conns[i]);
    loop_run(l.loop);
    report(&l);
    for (uint64_t i = 0; i < l.connections; i++) {
        rpc_call_unref(l.conns[i].items);
        channel_free(l.conns[i].channel);
    }
    loop_free(l.loop);
    free(l.slots);
    free(l.latency_us);
    return l.failed ? 1 : 0;
}
