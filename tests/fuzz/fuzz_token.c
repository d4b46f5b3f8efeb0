/* fuzz_token.c - completion tokens: text that anybody may send, and tokens of ours whose fields fit nothing.
 *
 * Two instances are at work: one waits for its activity, one for its turn; both items are out. The first byte chooses the method
 * that carries the token, and what the rest is: text; a genuine token with bytes changed (pairs of place and change); or fields
 * that replace those of a genuine token, which is then signed with the store's key (as of a store that was put back from a backup).
 *
 * Text that is not a token of ours changes nothing: both items can still be answered. A signed token may say anything, and then:
 * no crash, and others are served.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "engine/token.h"
#include "talk.h"
#include "wire/wire.h"

enum form { AS_TEXT, CHANGED, SIGNED, FORMS };

static const char *const METHODS[] = {"CompleteOrchestratorTask", "CompleteActivityTask",
                                      "AbandonTaskOrchestratorWorkItem",
                                      "AbandonTaskActivityWorkItem"};

struct stage {
    struct served *s;
    struct talk *t;
    struct talk_item task, turn;
};

static ProtobufCBinaryData text(const char *s)
{
    return wire_data(bytes_str(s));
}

static void start(struct talk *t, const char *id)
{
    CreateInstanceRequest r = CREATE_INSTANCE_REQUEST__INIT;

    r.instanceid = text(id);
    r.name = text("O");
    talk_say(t, "StartInstance", &r.base);
}

static struct talk_call *answer_turn(struct talk *t, const struct talk_item *it, int32_t id)
{
    OrchestratorResponse r = ORCHESTRATOR_RESPONSE__INIT;
    OrchestratorAction act = ORCHESTRATOR_ACTION__INIT, *acts[] = {&act};
    ScheduleTaskAction task = SCHEDULE_TASK_ACTION__INIT;

    act.id = id;
    act.orchestrator_action_type_case = ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK;
    act.scheduletask = &task;
    task.name = text("T");
    r.instanceid = it->item->orchestratorrequest->instanceid;
    r.completiontoken = it->item->completiontoken;
    r.n_actions = 1;
    r.actions = acts;
    return talk_say(t, "CompleteOrchestratorTask", &r.base);
}

static struct talk_call *answer_task(struct talk *t, const struct talk_item *it)
{
    ActivityResponse r = ACTIVITY_RESPONSE__INIT;

    r.instanceid = it->item->activityrequest->orchestrationinstance->instanceid;
    r.taskid = it->item->activityrequest->taskid;
    r.completiontoken = it->item->completiontoken;
    return talk_say(t, "CompleteActivityTask", &r.base);
}

static void must_take(struct talk *t, WorkItem__RequestCase kind, struct talk_item *out)
{
    bool any = talk_take(t, kind, out);

    ASSERT(any);
}

static void set_up(struct stage *st)
{
    GetWorkItemsRequest all = GET_WORK_ITEMS_REQUEST__INIT;

    st->s = served_new(world_new(NULL));
    st->t = talk_new(st->s, "perdure-test/1");
    talk_say(st->t, "GetWorkItems", &all.base);
    start(st->t, "a");
    must_take(st->t, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST, &st->turn);
    answer_turn(st->t, &st->turn, 0);
    talk_item_free(&st->turn);
    must_take(st->t, WORK_ITEM__REQUEST_ACTIVITY_REQUEST, &st->task);
    start(st->t, "b");
    must_take(st->t, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST, &st->turn);
}

/* Both items can be answered, and the answers count: a's next turn comes, and b's activity. */
static void must_be_untouched(struct stage *st)
{
    struct talk_item it;

    answer_task(st->t, &st->task);
    must_take(st->t, WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST, &it);
    talk_item_free(&it);
    answer_turn(st->t, &st->turn, 0);
    must_take(st->t, WORK_ITEM__REQUEST_ACTIVITY_REQUEST, &it);
    talk_item_free(&it);
}

static void send_token(struct stage *st, unsigned method, struct bytes token)
{
    OrchestratorResponse turn = ORCHESTRATOR_RESPONSE__INIT;
    ActivityResponse task = ACTIVITY_RESPONSE__INIT;
    AbandonOrchestrationTaskRequest abandon = ABANDON_ORCHESTRATION_TASK_REQUEST__INIT;
    const ProtobufCMessage *requests[] = {&turn.base, &task.base, &abandon.base, &abandon.base};

    turn.completiontoken = task.completiontoken = abandon.completiontoken = wire_data(token);
    talk_say(st->t, METHODS[method], requests[method]);
}

static void change(char *token, size_t len, struct bytes how)
{
    for (size_t i = 0; i + 1 < how.len && len > 0; i += 2)
        token[how.ptr[i] % len] = (char)(token[how.ptr[i] % len] ^ how.ptr[i + 1]);
}

/* Nine bytes each: which field, and its new value. */
static void replace_fields(struct token *t, struct bytes how)
{
    for (size_t i = 0; i + 9 <= how.len; i += 9) {
        uint64_t v;
        memcpy(&v, how.ptr + i + 1, sizeof(v));
        switch (how.ptr[i] % 8) {
        case 0:
            t->kind = (uint8_t)v;
            break;
        case 1:
            t->hub = (uint32_t)v;
            break;
        case 2:
            t->object = v;
            break;
        case 3:
            t->execution = v;
            break;
        case 4:
            t->key = v;
            break;
        case 5:
            t->group = (uint32_t)v;
            break;
        case 6:
            t->ref = (int32_t)(uint32_t)v;
            break;
        default:
            t->nonce = v;
            break;
        }
    }
}

static struct bytes token_of(const struct talk_item *it)
{
    return wire_view(it->item->completiontoken);
}

static void send_signed(struct stage *st, unsigned method, struct bytes genuine, struct bytes how)
{
    char out[TOKEN_TEXT_MAX];
    struct token t;

    bool is_ours = token_decode(engine_tokens(st->s->w->e), genuine, &t);
    ASSERT(is_ours);
    replace_fields(&t, how);
    size_t len = token_encode(engine_tokens(st->s->w->e), &t, out);
    send_token(st, method, bytes_of(out, len));
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    log_setup(LOG_ERROR, LOG_TEXT);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stage st;

    if (size == 0)
        return 0;
    set_up(&st);
    struct bytes rest = bytes_of(data + 1, size - 1);
    unsigned method = data[0] % 4, form = (data[0] >> 2) % FORMS;
    struct bytes genuine = token_of(data[0] & 128 ? &st.turn : &st.task);
    char copy[TOKEN_TEXT_MAX];
    struct bytes token = rest;
    if (form == CHANGED) {
        ASSERT(genuine.len <= sizeof(copy));
        memcpy(copy, genuine.ptr, genuine.len);
        change(copy, genuine.len, rest);
        token = bytes_of(copy, genuine.len);
    }
    if (form == SIGNED) {
        send_signed(&st, method, genuine, rest);
    } else if (token.len > 0 && !bytes_eq(token, token_of(&st.turn)) &&
               !bytes_eq(token, token_of(&st.task))) {
        send_token(&st, method, token);
        must_be_untouched(&st);
    }
    talk_item_free(&st.task);
    talk_item_free(&st.turn);
    talk_free(st.t);
    talk_probe(st.s, bytes_of(data, size));
    served_free(st.s);
    return 0;
}
