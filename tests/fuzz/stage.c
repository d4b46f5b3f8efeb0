#include "stage.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/wire.h"

#define COMPLETED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED
#define FAILED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED

const struct stage_instance STAGE[STAGE_INSTANCES] = {
    {"done", NULL, COMPLETED},     {"failed", NULL, FAILED},       {"turn", NULL, COMPLETED},
    {"activity", NULL, COMPLETED}, {"timer", NULL, COMPLETED},     {"parent", "child", COMPLETED},
    {"child", NULL, COMPLETED},    {"suspended", NULL, COMPLETED}, {"scheduled", NULL, COMPLETED},
    {"long", NULL, COMPLETED},
};

/* ---- building ---------------------------------------------------------------------------------- */

static void must(const struct world_answer *a)
{
    if (!a->is_done || a->status)
        fprintf(stderr, "the stage: %s\n", a->msg);
    ASSERT(a->is_done && a->status == OK);
}

static void ended(struct world *w, struct world_stream *st)
{
    must(world_start(w, "done", "Done", "\"in\""));
    must(world_complete(w, world_turn(st), act_task(w, 0, "T", "1"), NULL));
    must(world_result(w, world_task(st), "\"result\""));
    must(world_complete(w, world_turn(st), act_done(w, 1, COMPLETED, "\"out\""), NULL));

    must(world_start(w, "failed", "Failed", "\"in\""));
    OrchestratorAction *act = act_done(w, 0, FAILED, "");
    TaskFailureDetails *why = arena_new(w->arena, TaskFailureDetails);
    task_failure_details__init(why);
    why->errortype = wire_data(BYTES_LIT("Error"));
    why->errormessage = wire_data(BYTES_LIT("message"));
    act->completeorchestration->failuredetails = why;
    must(world_complete(w, world_turn(st), act, NULL));
}

static void waiting(struct world *w, struct world_stream *st)
{
    must(world_start(w, "activity", "Activity", "\"in\""));
    must(world_complete(w, world_turn(st), act_task(w, 0, "A", "\"input\""), NULL));
    (void)world_task(st); /* lost with the process */
    must(world_start(w, "timer", "Timer", "1"));
    must(world_complete(w, world_turn(st), act_timer(w, 0, w->wall + 60 * USEC_PER_SEC), NULL));
    must(world_start(w, "parent", "Parent", "1"));
    must(world_complete(w, world_turn(st), act_child(w, 0, "Child", "child"), NULL));
    (void)world_turn(st); /* the child's, likewise */
    must(world_start(w, "long", "Long", "1"));
    for (int i = 0; i < 6; i++) {
        must(world_complete(w, world_turn(st), act_task(w, i, "T", "\"0123456789\""), NULL));
        must(world_result(w, world_task(st), "\"0123456789\""));
    }
    (void)world_turn(st);
}

static void not_begun(struct world *w)
{
    CreateInstanceRequest *req = arena_new(w->arena, CreateInstanceRequest);
    struct dt_start *start = arena_new(w->arena, struct dt_start);

    must(world_start(w, "turn", "Turn", "\"in\""));
    must(world_raise(w, "turn", "event", "\"data\""));
    must(world_start(w, "suspended", "Suspended", "1"));
    must(world_suspend(w, "suspended"));
    for (int i = 0; i < 3; i++)
        must(world_raise(w, "suspended", "event", "\"data\""));
    create_instance_request__init(req);
    req->instanceid = wire_data(BYTES_LIT("scheduled"));
    req->name = wire_data(BYTES_LIT("Scheduled"));
    start->request = req;
    start->start_at = w->wall + 30 * USEC_PER_SEC;
    must(world_do(w, DT_START, "scheduled", start));
}

static void read_file(const char *path, struct strbuf *out)
{
    FILE *f = fopen(path, "re");
    size_t n;

    ASSERT(f);
    while ((n = fread(strbuf_reserve(out, KIB(64)), 1, KIB(64), f)) > 0)
        out->len += n;
    fclose(f);
}

void stage_build(struct strbuf *image)
{
    struct world *w = world_new_file(NULL);
    struct world_stream *st = world_stream(w, 0, 0);

    ended(w, st);
    waiting(w, st);
    world_close(st);
    not_begun(w);
    /* What is only there between two batches: a message, and rows of nobody to be deleted. */
    world_sql(w, "INSERT INTO mailbox (seq, hub, kind, partition, id, what, payload) "
                 "VALUES (1, 1, 1, 0, 'nobody', 1, x'')");
    world_sql(w, "INSERT INTO history (execution, row, key_base, events, time, frames) "
                 "VALUES (900, 1, 0, 1, 1, x'')");
    world_sql(w, "INSERT INTO trash (seq, what, key) VALUES (1, 1, 900), (2, 2, 901)");
    world_sql(w, "PRAGMA wal_checkpoint(TRUNCATE)");
    read_file(w->path, image);
    world_free(w);
}

/* ---- playing ----------------------------------------------------------------------------------- */

static void finish_turn(struct talk *t, const struct talk_item *it)
{
    OrchestratorResponse r = ORCHESTRATOR_RESPONSE__INIT;
    OrchestratorAction act = ORCHESTRATOR_ACTION__INIT, *acts[] = {&act};
    CompleteOrchestrationAction done = COMPLETE_ORCHESTRATION_ACTION__INIT;
    const OrchestratorRequest *req = it->item->orchestratorrequest;

    r.instanceid = req->instanceid;
    r.completiontoken = it->item->completiontoken;
    /* What waits goes on waiting: the first turn of "parent" and its like is long past. */
    act.id = 90;
    act.orchestrator_action_type_case =
        ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION;
    act.completeorchestration = &done;
    done.orchestrationstatus = COMPLETED;
    r.n_actions = 1;
    r.actions = acts;
    talk_say(t, "CompleteOrchestratorTask", &r.base);
}

static void finish_activity(struct talk *t, const struct talk_item *it)
{
    ActivityResponse r = ACTIVITY_RESPONSE__INIT;
    const ActivityRequest *req = it->item->activityrequest;

    if (req->orchestrationinstance)
        r.instanceid = req->orchestrationinstance->instanceid;
    r.taskid = req->taskid;
    r.completiontoken = it->item->completiontoken;
    talk_say(t, "CompleteActivityTask", &r.base);
}

static void answer_all(struct talk *t)
{
    struct talk_item it;

    for (int i = 0; i < 100 && talk_take(t, WORK_ITEM__REQUEST__NOT_SET, &it); i++) {
        if (it.item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST)
            finish_turn(t, &it);
        else
            finish_activity(t, &it);
        talk_item_free(&it);
    }
}

unsigned stage_finish(struct served *s, bool lies)
{
    GetWorkItemsRequest all = GET_WORK_ITEMS_REQUEST__INIT;
    ResumeRequest resume = RESUME_REQUEST__INIT;
    struct talk *t = talk_new(s, "perdure-test/1");

    t->lies = lies;
    resume.instanceid = wire_data(BYTES_LIT("suspended"));
    talk_say(t, "ResumeInstance", &resume.base);
    talk_say(t, "GetWorkItems", &all.base);
    for (int i = 0; i < 12; i++) {
        served_advance(s, 10 * USEC_PER_SEC);
        answer_all(t);
    }
    unsigned unavailable = t->unavailable;
    talk_free(t);
    return unavailable;
}
