/* fuzz_messages.c - every message of the Durable Task service, through the real handlers, engine and store, in any order.
 *
 * The input is a list of operations: a byte that says which, two bytes of length, and so many bytes (the last operation has the
 * rest). Below TALK_METHODS the byte is a method and the bytes are its message; the others are what clients and workers do
 * besides: answer the items they were handed, give them back, cancel calls, lose connections, let time pass.
 *
 * Whatever comes: no crash, no hang, no answer that does not decode, no INTERNAL, and afterwards others are served.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "talk.h"
#include "wire/wire.h"

#define OPERATIONS_MAX 64

enum extra {
    ADVANCE = TALK_METHODS, /* a byte: how many halvings of an hour */
    CANCEL,                 /* a byte: which call */
    RECONNECT,              /* a byte: as whom */
    HUB,                    /* a byte: which task hub the next calls name */
    ANSWER_TURN, /* OrchestratorResponse; instance and token are those of the oldest turn */
    ANSWER_TASK, /* ActivityResponse, likewise */
    GIVE_BACK,   /* the oldest item */
    TIMED_WAIT,  /* GetInstanceRequest: a wait of 1 s for its end */
    OPERATIONS
};

static const char *const AGENTS[] = {"perdure-test/1", "grpc-go/1.70.0", "grpc-java-netty/1.60.0"};
static const char *const HUBS[] = {NULL, "default", "Other", "no hub"};

static uint8_t first_byte(struct bytes in)
{
    return in.len ? in.ptr[0] : 0;
}

/* The response names the item that the worker holds. */
static void answer_turn(struct talk *t, struct bytes in)
{
    struct arena *a = arena_create();
    struct talk_item it;
    OrchestratorResponse *r;

    if (wire_unpack(&orchestrator_response__descriptor, a, in, &WIRE_LIMITS_COMPLETION, &r, NULL) ==
            OK &&
        talk_take(t, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST, &it)) {
        r->instanceid = it.item->orchestratorrequest->instanceid;
        r->completiontoken = it.item->completiontoken;
        talk_say(t, "CompleteOrchestratorTask", &r->base);
        talk_item_free(&it);
    }
    arena_free(a);
}

static void answer_task(struct talk *t, struct bytes in)
{
    struct arena *a = arena_create();
    struct talk_item it;
    ActivityResponse *r;

    if (wire_unpack(&activity_response__descriptor, a, in, &WIRE_LIMITS_COMPLETION, &r, NULL) ==
            OK &&
        talk_take(t, WORK_ITEM__REQUEST_ACTIVITY_REQUEST, &it)) {
        r->instanceid = it.item->activityrequest->orchestrationinstance->instanceid;
        r->taskid = it.item->activityrequest->taskid;
        r->completiontoken = it.item->completiontoken;
        talk_say(t, "CompleteActivityTask", &r->base);
        talk_item_free(&it);
    }
    arena_free(a);
}

static void give_back(struct talk *t)
{
    AbandonOrchestrationTaskRequest r = ABANDON_ORCHESTRATION_TASK_REQUEST__INIT;
    struct talk_item it;

    if (!talk_take(t, WORK_ITEM__REQUEST__NOT_SET, &it))
        return;
    bool is_turn = it.item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    r.completiontoken = it.item->completiontoken;
    talk_say(t, is_turn ? "AbandonTaskOrchestratorWorkItem" : "AbandonTaskActivityWorkItem",
             &r.base);
    talk_item_free(&it);
}

static struct talk *reconnect(struct talk *t, struct bytes in)
{
    struct served *s = t->s;

    talk_free(t);
    return talk_new(s, AGENTS[first_byte(in) % ARRAY_LEN(AGENTS)]);
}

static struct talk *operate(struct talk *t, unsigned op, struct bytes in)
{
    if (op < TALK_METHODS) {
        talk_begin(t, op, in, 0);
        return t;
    }
    switch ((enum extra)op) {
    case ADVANCE:
        served_advance(t->s, (usec_t)3600 * USEC_PER_SEC >> (first_byte(in) % 32));
        break;
    case CANCEL:
        if (t->call_count) {
            rpc_call_cancel(t->calls[first_byte(in) % t->call_count]->call);
            served_run(t->s);
        }
        break;
    case RECONNECT:
        return reconnect(t, in);
    case HUB:
        t->hub = HUBS[first_byte(in) % ARRAY_LEN(HUBS)];
        break;
    case ANSWER_TURN:
        answer_turn(t, in);
        break;
    case ANSWER_TASK:
        answer_task(t, in);
        break;
    case GIVE_BACK:
        give_back(t);
        break;
    case TIMED_WAIT:
        talk_begin(t, talk_method("WaitForInstanceCompletion"), in, USEC_PER_SEC);
        break;
    case OPERATIONS:
        break;
    }
    return t;
}

static bool next(struct bytes *in, unsigned *op, struct bytes *body)
{
    if (in->len < 3)
        return false;
    size_t len = in->ptr[1] | (size_t)in->ptr[2] << 8;
    *op = in->ptr[0] % OPERATIONS;
    *in = bytes_of(in->ptr + 3, in->len - 3);
    len = MIN(len, in->len);
    *body = bytes_of(in->ptr, len);
    *in = bytes_of(in->ptr + len, in->len - len);
    return true;
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    log_setup(LOG_ERROR, LOG_TEXT);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_of(data, size), body;
    unsigned op, count = 0;
    struct world *w = world_new(NULL);

    w->settings.turn_events = 5;
    w->settings.history_chunk_bytes = 256;
    w->settings.cache_objects = 1;
    w->settings.request_bytes = 2048; /* an input can be larger */
    w->settings.stream_unsent_bytes = 1024;
    w->settings.ready_group = 4;
    struct served *s = served_new(w);
    struct talk *t = talk_new(s, AGENTS[0]);
    while (count++ < OPERATIONS_MAX && next(&in, &op, &body))
        t = operate(t, op, body);
    talk_free(t);
    talk_probe(s, bytes_of(data, size));
    ASSERT(s->finished[GRPC_INTERNAL] == 0);
    served_free(s);
    return 0;
}
