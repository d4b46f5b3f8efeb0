#include "sim/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/net.h"
#include "sim/program.h"
#include "wire/pack.h"
#include "wire/timestamp.h"
#include "wire/value.h"

#define RETRIES 3

struct client {
    struct sim *s;
    unsigned number;
    uint64_t actor;
    struct prng p;
    bool retries;
    usec_t pause_max;
    struct net_conn *conn;
    struct sched_event next, connect;
    uint32_t op_count;
};

/* A request that may be sent again. */
struct attempt {
    struct client *c;
    const char *method;
    struct strbuf bytes;
    usec_t timeout;
    unsigned left;
};

struct net_conn *client_conn(struct client *c)
{
    return c->conn;
}

/* ---- sending ----------------------------------------------------------------------------------------------- */

static void attempt_free(struct attempt *t)
{
    strbuf_deinit(&t->bytes);
    free(t);
}

static void attempt_over(struct call *call, void *arg);

static void attempt_send(struct attempt *t)
{
    struct client *c = t->c;
    struct call *call = NULL;
    c->s->actions++;
    if (c->conn && c->conn->client)
        call = net_call(c->conn, t->method, strbuf_bytes(&t->bytes), t->timeout, attempt_over, t);
    if (!call || call->is_over)
        attempt_free(t);
}

static void attempt_again(void *arg)
{
    attempt_send(arg);
}

static void attempt_over(struct call *call, void *arg)
{
    struct attempt *t = arg;
    struct client *c = t->c;
    bool may_retry = c->retries && t->left > 0 && !c->s->is_over &&
                     (call->status == GRPC_UNAVAILABLE || call->status == GRPC_RESOURCE_EXHAUSTED);
    if (call->status == GRPC_DEADLINE_EXCEEDED)
        hit(HIT_CLIENT_DEADLINE);
    if (!may_retry) {
        attempt_free(t);
        return;
    }
    hit(HIT_CLIENT_RETRY);
    t->left--;
    sched_call(&c->s->sched, sim_now(c->s) + 300 * USEC_PER_MSEC, attempt_again, t);
}

static void give_up(void *arg)
{
    struct call *call = arg;
    if (call->is_over)
        return;
    hit(HIT_CLIENT_GAVE_UP);
    net_cancel(call);
}

static void once_over(struct call *call, void *arg)
{
    (void)arg;
    if (call->status == GRPC_DEADLINE_EXCEEDED)
        hit(HIT_CLIENT_DEADLINE);
    if (call->messages > 1)
        hit(HIT_LIMIT_PAGES);
    if (call->status == GRPC_RESOURCE_EXHAUSTED && strstr(call->message_text, "waiters.hub"))
        hit(HIT_LIMIT_WAITERS_HUB);
    if (call->status == GRPC_RESOURCE_EXHAUSTED && strstr(call->message_text, "waiters.connection"))
        hit(HIT_LIMIT_WAITERS_CONN);
}

static void call(struct client *c, struct prng *p, const char *method, const ProtobufCMessage *msg)
{
    usec_t timeout = draw_one_in(p, 8) ? draw_time(p, USEC_PER_MSEC, 60 * USEC_PER_MSEC) : 0;
    struct attempt *t = calloc(1, sizeof(*t));
    ASSERT(t);
    t->c = c;
    t->method = method;
    t->timeout = timeout;
    t->left = RETRIES;
    wire_pack_into(msg, &t->bytes);
    attempt_send(t);
}

/* Without retries, perhaps given up. */
static void watch(struct client *c, struct prng *p, const char *method, const ProtobufCMessage *msg,
                  usec_t timeout)
{
    c->s->actions++;
    struct call *call = net_call_message(c->conn, method, msg, timeout, once_over, c);
    if (!call->is_over && draw_one_in(p, 4))
        sched_call(&c->s->sched, sim_now(c->s) + draw_time(p, USEC_PER_MSEC, 10 * USEC_PER_SEC),
                   give_up, call);
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

static const char *draw_id(struct client *c, struct prng *p, struct arena *a)
{
    unsigned n = (unsigned)prng_below(p, c->s->id_count);
    uint64_t luck = prng_below(p, 40);
    if (luck == 0)
        return "unheard-of";
    if (luck < 4)
        return arena_printf(a, "i%u.%u", n, (unsigned)prng_below(p, 8));
    return arena_printf(a, "i%u", n);
}

static Google__Protobuf__Timestamp *draw_start_time(struct client *c, struct prng *p,
                                                    struct arena *a)
{
    Google__Protobuf__Timestamp *ts = arena_new(a, Google__Protobuf__Timestamp);
    usec_t at =
        draw_one_in(p, 4) ? 0 : sim_wall(c->s) + draw_time(p, -USEC_PER_SEC, 15 * USEC_PER_SEC);
    *ts = wire_time(at);
    return ts;
}

static OrchestrationIdReusePolicy *draw_policy(struct prng *p, struct arena *a)
{
    OrchestrationIdReusePolicy *policy = arena_new(a, OrchestrationIdReusePolicy);
    orchestration_id_reuse_policy__init(policy);
    policy->replaceablestatus = arena_array(a, OrchestrationStatus, 8);
    for (int i = 0; i < 8; i++)
        if (i != 2 && (draw_one_in(p, 2) || (i == 5 && !draw_one_in(p, 10))))
            policy->replaceablestatus[policy->n_replaceablestatus++] = (OrchestrationStatus)i;
    return policy;
}

/* As GO's older protocol has it: 0 error, 1 ignore, 2 terminate. */
static void add_old_action(OrchestrationIdReusePolicy *policy, struct arena *a, uint64_t action)
{
    ProtobufCMessageUnknownField *f = arena_new(a, ProtobufCMessageUnknownField);
    uint8_t *data = arena_array(a, uint8_t, 1);
    *data = (uint8_t)action;
    *f = (ProtobufCMessageUnknownField){
        .tag = 2, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = data};
    policy->base.n_unknown_fields = 1;
    policy->base.unknown_fields = f;
}

static void start(struct client *c, struct prng *p, struct arena *a)
{
    CreateInstanceRequest req;
    create_instance_request__init(&req);
    uint64_t bad = prng_below(p, 60);
    req.instanceid = wire_data(bytes_str(bad == 0   ? "@entity@1"
                                         : bad == 1 ? "i0\n"
                                         : bad == 2 ? ""
                                                    : draw_id(c, p, a)));
    req.name = wire_data(bad == 3   ? BYTES_LIT("")
                         : bad == 4 ? BYTES_LIT("X") /* nobody runs it */
                                    : BYTES_LIT("P"));
    if (!draw_one_in(p, 8))
        req.input = wire_string_value(a, draw_one_in(p, 4) ? BYTES_LIT("1") : BYTES_LIT("0"));
    if (draw_one_in(p, 8))
        req.version = wire_string_value(a, draw_one_in(p, 2) ? BYTES_LIT("2") : BYTES_LIT(""));
    if (draw_one_in(p, 3))
        req.orchestrationidreusepolicy = draw_policy(p, a);
    if (draw_one_in(p, 6))
        req.scheduledstarttimestamp = draw_start_time(c, p, a);
    if (draw_one_in(p, 10)) {
        uint64_t low = prng_u64(p), high = prng_u64(p);
        req.executionid = wire_string_value(
            a, bytes_str(arena_printf(a, "%016llx%016llx", (unsigned long long)high,
                                      (unsigned long long)low)));
    }
    struct prng own = sched_stream(c->s->seed, "labels", ((uint64_t)c->number << 32) + c->op_count);
    if (draw_one_in(&own, 2)) {
        struct labels l = program_labels(a, prng_u64(&own));
        req.n_tags = l.n_tags;
        req.tags = l.tags;
        req.parenttracecontext = l.trace;
    }
    if (req.orchestrationidreusepolicy && draw_one_in(&own, 4))
        add_old_action(req.orchestrationidreusepolicy, a, prng_below(&own, 3));
    call(c, p, "StartInstance", &req.base);
}

static void raise_event(struct client *c, struct prng *p, struct arena *a)
{
    RaiseEventRequest req;
    raise_event_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.name = wire_data(draw_one_in(p, 40) ? BYTES_LIT("")
                         : draw_one_in(p, 3)
                             ? BYTES_LIT("go")
                             : bytes_str(arena_printf(a, "e%u-%u", c->number, c->op_count)));
    if (!draw_one_in(p, 5))
        req.input = wire_string_value(a, BYTES_LIT("data"));
    call(c, p, "RaiseEvent", &req.base);
}

static void terminate(struct client *c, struct prng *p, struct arena *a)
{
    TerminateRequest req;
    terminate_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.recursive = draw_one_in(p, 2);
    if (!draw_one_in(p, 4))
        req.output = wire_string_value(a, BYTES_LIT("enough"));
    call(c, p, "TerminateInstance", &req.base);
}

static Google__Protobuf__StringValue *draw_reason(struct prng *p, struct arena *a)
{
    uint64_t luck = prng_below(p, 3);
    return luck == 0 ? NULL
                     : wire_string_value(a, luck == 1 ? BYTES_LIT("") : BYTES_LIT("because"));
}

static void suspend(struct client *c, struct prng *p, struct arena *a)
{
    SuspendRequest req;
    suspend_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.reason = draw_reason(p, a);
    call(c, p, "SuspendInstance", &req.base);
}

static void resume(struct client *c, struct prng *p, struct arena *a)
{
    ResumeRequest req;
    resume_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.reason = draw_reason(p, a);
    call(c, p, "ResumeInstance", &req.base);
}

static void purge(struct client *c, struct prng *p, struct arena *a)
{
    PurgeInstancesRequest req;
    purge_instances_request__init(&req);
    req.request_case = PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID;
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.isorchestration = draw_one_in(p, 2);
    call(c, p, "PurgeInstances", &req.base);
}

static void look(struct client *c, struct prng *p, struct arena *a)
{
    GetInstanceRequest req;
    get_instance_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.getinputsandoutputs = draw_one_in(p, 2);
    call(c, p, "GetInstance", &req.base);
}

static void wait(struct client *c, struct prng *p, struct arena *a)
{
    GetInstanceRequest req;
    get_instance_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    req.getinputsandoutputs = draw_one_in(p, 2);
    usec_t timeout = draw_one_in(p, 3) ? 0 : draw_time(p, 5 * USEC_PER_MSEC, 15 * USEC_PER_SEC);
    watch(c, p, draw_one_in(p, 3) ? "WaitForInstanceStart" : "WaitForInstanceCompletion", &req.base,
          timeout);
}

static void read_history(struct client *c, struct prng *p, struct arena *a)
{
    StreamInstanceHistoryRequest req;
    stream_instance_history_request__init(&req);
    req.instanceid = wire_data(bytes_str(draw_id(c, p, a)));
    if (draw_one_in(p, 6))
        req.executionid = wire_string_value(a, BYTES_LIT("00000000000000000000000000000000"));
    req.forworkitemprocessing = draw_one_in(p, 5);
    watch(c, p, "StreamInstanceHistory", &req.base, 0);
}

static void operate(struct client *c)
{
    static const struct {
        unsigned share;
        void (*fn)(struct client *c, struct prng *p, struct arena *a);
    } OPS[] = {{28, start}, {22, raise_event}, {5, terminate}, {6, suspend},     {8, resume},
               {4, purge},  {10, look},        {11, wait},     {6, read_history}};
    struct prng p =
        sched_stream(c->s->seed, "client op", ((uint64_t)c->number << 32) + c->op_count);
    struct arena *a = arena_create();
    uint64_t luck = prng_below(&p, 100);
    size_t i = 0;
    for (; luck >= OPS[i].share; i++)
        luck -= OPS[i].share;
    OPS[i].fn(c, &p, a);
    arena_free(a);
}

static void next_op(void *arg)
{
    struct client *c = arg;
    struct sim *s = c->s;
    if (s->is_over)
        return;
    uint32_t index = c->op_count++;
    usec_t pause = draw_time(&c->p, 0, c->pause_max);
    sched_set(&s->sched, &c->next, sim_now(s) + pause);
    if (c->conn && c->conn->client && sim_takes(s, (uint16_t)(SIM_OP_CLIENT + c->number), index))
        operate(c);
}

void client_resume(struct client *c, struct bytes id)
{
    ResumeRequest req;
    resume_request__init(&req);
    req.instanceid = wire_data(id);
    if (c->conn && c->conn->client)
        net_call_message(c->conn, "ResumeInstance", &req.base, 0, NULL, NULL);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void conn_lost(void *arg)
{
    struct client *c = arg;
    c->conn = NULL;
    sched_set(&c->s->sched, &c->connect,
              sim_now(c->s) + draw_time(&c->p, 10 * USEC_PER_MSEC, 500 * USEC_PER_MSEC));
}

static void connect_now(void *arg)
{
    static const char *const AGENTS[] = {"grpc-python/1.62.0", "grpc-go/1.56.3",
                                         "grpc-java-netty/1.59.0", "grpc-node-js/1.9"};
    struct client *c = arg;
    if (c->conn)
        return;
    c->conn = net_connect(c->s, c->actor, AGENTS[c->number % ARRAY_LEN(AGENTS)],
                          sim_hub(c->s, c->actor), conn_lost, c);
    if (!c->conn)
        conn_lost(c);
}

void client_start(struct client *c)
{
    sched_set(&c->s->sched, &c->connect, sim_now(c->s));
    sched_set(&c->s->sched, &c->next, sim_now(c->s) + draw_time(&c->p, 0, 500 * USEC_PER_MSEC));
}

struct client *client_new(struct sim *s, unsigned n)
{
    struct client *c = calloc(1, sizeof(*c));
    ASSERT(c);
    c->s = s;
    c->number = n;
    c->actor = 100 + n;
    c->p = sched_stream(s->seed, "client", n);
    c->retries = prng_below(&c->p, 2);
    c->pause_max = (usec_t)draw_range(&c->p, 200, 900) * USEC_PER_MSEC;
    c->next = (struct sched_event){.fn = next_op, .arg = c};
    c->connect = (struct sched_event){.fn = connect_now, .arg = c};
    return c;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    sched_cancel(&c->s->sched, &c->next);
    sched_cancel(&c->s->sched, &c->connect);
    free(c);
}
