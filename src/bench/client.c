#include "bench/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "wire/wire.h"

static void run_stage(struct bench_op *op);

/* ---- beginning and end of an operation ----------------------------------------------------------- */

static bool has_more(const struct bench *b, usec_t now)
{
    if (b->is_given_up)
        return false;
    return b->span.count ? b->started < b->span.count : now - b->begun < b->span.time;
}

static void mint_id(struct bench_op *op)
{
    uint64_t words[2] = {prng_u64(&op->bench->prng), prng_u64(&op->bench->prng)};

    hex_encode((const uint8_t *)words, sizeof(words), op->id);
}

static void begin_op(struct bench_op *op, usec_t due, usec_t now)
{
    struct bench *b = op->bench;

    b->started++;
    op->due = due;
    op->sent = now;
    op->stage = b->workload->stages;
    if (*op->stage == STAGE_WAIT)
        memcpy(op->id, b->pool[prng_below(&b->prng, b->pool_count)], sizeof(op->id));
    else
        mint_id(op);
    run_stage(op);
}

/* Starts the next operation in this place, if there is one for now. */
static bool begin_next(struct bench_op *op)
{
    struct bench *b = op->bench;
    usec_t now = bench_now(b), due = now;

    if (!has_more(b, now) || (b->is_open && !pace_take(&b->pace, now, &due)))
        return false;
    begin_op(op, due, now);
    return true;
}

/* Nothing to do for now. Without a free place nobody waits for the time: whoever ends looks at the clock. */
static void put_back(struct bench_op *op)
{
    struct bench *b = op->bench;

    op->next_free = b->free_ops;
    b->free_ops = op;
    if (b->is_open && b->started < b->span.count)
        bench_arm_tick(b);
}

static void end_op(struct bench_op *op)
{
    struct bench *b = op->bench;
    usec_t now = bench_now(b);

    b->ended++;
    if (b->phase == PHASE_MEASURE) {
        b->result->operations++;
        b->result->took = now - b->begun;
        hdr_record(&b->result->latency, now - op->due);
        hdr_record(&b->result->service, now - op->sent);
    } else if (b->phase == PHASE_PREPARE) {
        memcpy(b->pool[b->pool_count++], op->id, sizeof(op->id));
    }
    if (begin_next(op))
        return;
    put_back(op);
    if (b->ended == b->started && !has_more(b, now))
        bench_phase_ended(b);
}

void client_go_on(struct bench *b)
{
    while (b->free_ops) {
        struct bench_op *op = b->free_ops;
        b->free_ops = op->next_free;
        if (begin_next(op))
            continue;
        put_back(op);
        return;
    }
}

/* ---- its calls ----------------------------------------------------------------------------------- */

static struct value value_of(const struct bench_op *op, uint64_t number)
{
    struct value v = {bytes_of(op->id, 8), number, BYTES_NONE};

    v.pad = value_pad(op->bench->arena, v.seed, op->bench->opts->payload_bytes);
    return v;
}

static struct bytes text_of(const struct bench_op *op, uint64_t number)
{
    struct value v = value_of(op, number);
    return value_text(op->bench->arena, &v);
}

static const char *status_text(OrchestrationStatus status)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&orchestration_status__descriptor, (int)status);
    return v ? v->name : "an unknown status";
}

/* At most 100 bytes of it. */
static struct bytes shown(struct bytes text)
{
    return bytes_of(text.ptr, MIN(text.len, 100));
}

static void check_output(struct bench_op *op, struct bytes answer)
{
    struct bench *b = op->bench;
    const struct workload *w = b->workload;
    uint64_t number = w->takes_delay ? (uint64_t)b->opts->delay : w->result;
    struct bytes expected = text_of(op, number), output;
    GetInstanceResponse *resp;
    struct error err;

    if (wire_unpack(&get_instance_response__descriptor, b->arena, answer, &WIRE_LIMITS, &resp,
                    &err)) {
        bench_fail(b, "instance %s: the answer does not decode: %s", op->id, err.msg);
        return;
    }
    const OrchestrationState *s = resp->exists ? resp->orchestrationstate : NULL;
    if (!s || s->orchestrationstatus != ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED) {
        bench_fail(b, "instance %s did not complete: %s", op->id,
                   s ? status_text(s->orchestrationstatus) : "it does not exist");
        return;
    }
    output = wire_string(s->output);
    if (!bytes_eq(output, expected))
        bench_fail(b, "instance %s: wrong output: %.*s, not %.*s", op->id, BYTES_FMT(shown(output)),
                   BYTES_FMT(shown(expected)));
    else if (w->takes_delay && bench_now(b) - op->sent < b->opts->delay)
        bench_fail(b, "instance %s ended before its timer was due", op->id);
}

static void stage_answered(struct bench *b, void *arg, int status, struct bytes message,
                           struct bytes answer)
{
    struct bench_op *op = arg;
    static const char *const NAMES[] = {"", "StartInstance", "WaitForInstanceStart", "RaiseEvent",
                                        "WaitForInstanceCompletion"};

    if (b->is_given_up)
        return;
    if (status != GRPC_OK) {
        bench_fail(b, "instance %s: %s: %s: %.*s", op->id, NAMES[*op->stage],
                   grpc_status_name(status), BYTES_FMT(message));
        end_op(op);
        return;
    }
    if (*op->stage == STAGE_WAIT)
        check_output(op, answer);
    arena_reset(b->arena);
    if (*++op->stage == STAGE_END)
        end_op(op);
    else
        run_stage(op);
}

static void start(struct bench_op *op)
{
    struct bench *b = op->bench;
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    Google__Protobuf__StringValue input;
    uint64_t number = b->workload->takes_delay ? (uint64_t)b->opts->delay : 0;

    req.instanceid = wire_data(bytes_str(op->id));
    req.name = wire_data(bytes_str(workload_orchestration(b->workload)));
    req.input = wire_box(&input, text_of(op, number));
    bench_unary(op->link, DURABLE_TASK("StartInstance"), 0, &req.base, stage_answered, op);
}

static void raise_event(struct bench_op *op)
{
    RaiseEventRequest req = RAISE_EVENT_REQUEST__INIT;
    Google__Protobuf__StringValue input;

    req.instanceid = wire_data(bytes_str(op->id));
    req.name = wire_data(BYTES_LIT(WORKLOAD_EVENT));
    req.input = wire_box(&input, text_of(op, op->bench->workload->result));
    bench_unary(op->link, DURABLE_TASK("RaiseEvent"), 0, &req.base, stage_answered, op);
}

/* With a deadline, as the SDKs' clients do; one server fails without. */
static void wait(struct bench_op *op, const char *path, bool payloads)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;

    req.instanceid = wire_data(bytes_str(op->id));
    req.getinputsandoutputs = payloads;
    bench_unary(op->link, path, op->bench->opts->timeout, &req.base, stage_answered, op);
}

static void run_stage(struct bench_op *op)
{
    switch (*op->stage) {
    case STAGE_START:
        start(op);
        break;
    case STAGE_WAIT_START:
        wait(op, DURABLE_TASK("WaitForInstanceStart"), false);
        break;
    case STAGE_RAISE:
        raise_event(op);
        break;
    case STAGE_WAIT:
        wait(op, DURABLE_TASK("WaitForInstanceCompletion"), true);
        break;
    case STAGE_END:
        break;
    }
    arena_reset(op->bench->arena);
}

/* ---- their places -------------------------------------------------------------------------------- */

void client_init(struct bench *b)
{
    uint64_t n = b->opts->concurrency;

    b->ops = calloc(n, sizeof(*b->ops));
    ASSERT(b->ops);
    for (uint64_t i = n; i-- > 0;) {
        b->ops[i] = (struct bench_op){
            .bench = b, .link = &b->links[i % b->client_count], .next_free = b->free_ops};
        b->free_ops = &b->ops[i];
    }
}

void client_deinit(struct bench *b)
{
    free(b->ops);
}
