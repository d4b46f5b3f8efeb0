/* History events, built and read: durabletask/events.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "durabletask/events.h"
#include "wire/wire.h"

#define S(text) BYTES_LIT(text)
#define NOW ((usec_t)1764547200123456)

struct fixture {
    struct arena *a;
    struct strbuf b;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.a = arena_create()};
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_free(f->a);
    strbuf_deinit(&f->b);
    return 0;
}

static void *unpack(struct fixture *f, const ProtobufCMessageDescriptor *desc)
{
    void *out = NULL;
    struct error err = {0};
    if (wire_unpack(desc, f->a, strbuf_bytes(&f->b), &WIRE_LIMITS, &out, &err))
        fail_msg("%s", err.msg);
    return out;
}

/* Decodes the one event in f->b, and checks what all events have and what event_peek() says of it. */
static HistoryEvent *read_event(struct fixture *f, int32_t id, HistoryEvent__EventTypeCase type,
                                int32_t ref, struct bytes name)
{
    HistoryEvent *e = unpack(f, &history_event__descriptor);
    struct event_head h;

    assert_int_equal(e->eventid, id);
    assert_int_equal(e->event_type_case, type);
    assert_int_equal(e->timestamp->seconds, NOW / 1000000);
    assert_int_equal(e->timestamp->nanos, 123456000);

    assert_true(event_peek(strbuf_bytes(&f->b), &h));
    assert_int_equal(h.id, id);
    assert_int_equal(h.type, type);
    assert_true(h.time == NOW);
    assert_int_equal(h.ref, ref);
    assert_int_equal(bytes_is_none(h.name), bytes_is_none(name));
    assert_true(bytes_eq(h.name, name));
    return e;
}

#define TYPE(name) HISTORY_EVENT__EVENT_TYPE_##name

/* It is written by hand, byte for byte as the packer would. */
static void started_by_hand_is_as_packed(struct fixture *f)
{
    static const usec_t TIMES[] = {
        0, 1, 999999, 1000000, NOW, NOW / 1000000 * 1000000, -1, INT64_MAX / 2};
    for (size_t i = 0; i < sizeof(TIMES) / sizeof(*TIMES); i++) {
        HistoryEvent e = HISTORY_EVENT__INIT;
        OrchestratorStartedEvent body = ORCHESTRATOR_STARTED_EVENT__INIT;
        Google__Protobuf__Timestamp ts = wire_time(TIMES[i]);
        struct strbuf packed = {0};
        e.eventid = -1;
        e.timestamp = &ts;
        e.event_type_case = HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED;
        e.orchestratorstarted = &body;
        wire_pack_into(&e.base, &packed);
        strbuf_reset(&f->b);
        event_orchestrator_started(&f->b, TIMES[i]);
        assert_true(bytes_eq(strbuf_bytes(&f->b), strbuf_bytes(&packed)));
        strbuf_deinit(&packed);
    }
}

static void what_happened_comes_back_with_payload_and_reference(void **state)
{
    struct fixture *f = *state;

    event_orchestrator_started(&f->b, NOW);
    read_event(f, -1, TYPE(ORCHESTRATOR_STARTED), 0, BYTES_NONE);
    started_by_hand_is_as_packed(f);

    strbuf_reset(&f->b);
    event_task_completed(&f->b, NOW, 7, S("\"result\""));
    HistoryEvent *e = read_event(f, -1, TYPE(TASK_COMPLETED), 7, BYTES_NONE);
    assert_true(bytes_eq(wire_string(e->taskcompleted->result), S("\"result\"")));

    strbuf_reset(&f->b);
    event_child_completed(&f->b, NOW, 3, S("r"));
    e = read_event(f, -1, TYPE(SUB_ORCHESTRATION_INSTANCE_COMPLETED), 3, BYTES_NONE);
    assert_true(bytes_eq(wire_string(e->suborchestrationinstancecompleted->result), S("r")));

    strbuf_reset(&f->b);
    event_raised(&f->b, NOW, S("approval"), S("true"));
    e = read_event(f, -1, TYPE(EVENT_RAISED), 0, S("approval"));
    assert_true(bytes_eq(wire_string(e->eventraised->input), S("true")));

    strbuf_reset(&f->b);
    event_execution_terminated(&f->b, NOW, S("why"), true);
    e = read_event(f, -1, TYPE(EXECUTION_TERMINATED), 0, BYTES_NONE);
    assert_true(e->executionterminated->recurse);
    assert_true(bytes_eq(wire_string(e->executionterminated->input), S("why")));

    strbuf_reset(&f->b);
    event_execution_suspended(&f->b, NOW, S("why"));
    e = read_event(f, -1, TYPE(EXECUTION_SUSPENDED), 0, BYTES_NONE);
    assert_true(bytes_eq(wire_string(e->executionsuspended->input), S("why")));

    strbuf_reset(&f->b);
    event_execution_resumed(&f->b, NOW, S(""));
    e = read_event(f, -1, TYPE(EXECUTION_RESUMED), 0, BYTES_NONE);
    assert_non_null(e->executionresumed->input);

    strbuf_reset(&f->b);
    event_execution_completed(&f->b, NOW, ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED,
                              S("out"), event_failure(f->a, "T", false, "m"));
    e = read_event(f, -1, TYPE(EXECUTION_COMPLETED), 0, BYTES_NONE);
    assert_int_equal(e->executioncompleted->orchestrationstatus, 3);
    assert_true(bytes_eq(wire_view(e->executioncompleted->failuredetails->errormessage), S("m")));
}

/* Ids count from 0 in Go and Java: a reference of 0 is one, also where proto3 sends nothing. */
static void a_reference_of_zero_is_real(void **state)
{
    struct fixture *f = *state;
    event_task_completed(&f->b, NOW, 0, BYTES_NONE);
    HistoryEvent *e = read_event(f, -1, TYPE(TASK_COMPLETED), 0, BYTES_NONE);
    assert_null(e->taskcompleted->result);

    strbuf_reset(&f->b);
    event_timer_created(&f->b, 0, NOW, NOW + 5, 0);
    read_event(f, 0, TYPE(TIMER_CREATED), 0, BYTES_NONE);
}

/* "" is a result: JavaScript sends it for undefined (spec 6.1). */
static void absent_and_empty_payloads_differ(void **state)
{
    struct fixture *f = *state;
    event_task_completed(&f->b, NOW, 1, S(""));
    HistoryEvent *e = read_event(f, -1, TYPE(TASK_COMPLETED), 1, BYTES_NONE);
    assert_non_null(e->taskcompleted->result);

    strbuf_reset(&f->b);
    event_raised(&f->b, NOW, S(""), BYTES_NONE);
    e = read_event(f, -1, TYPE(EVENT_RAISED), 0, S(""));
    assert_null(e->eventraised->input);
}

static void timers_have_the_same_due_time_to_the_digit(void **state)
{
    struct fixture *f = *state;
    usec_t due = NOW + 1;

    event_timer_created(&f->b, 9, NOW, due, 0);
    HistoryEvent *e = read_event(f, 9, TYPE(TIMER_CREATED), 0, BYTES_NONE);
    assert_int_equal(e->timercreated->fireat->nanos, 123457000);
    strbuf_reset(&f->b);
    event_timer_fired(&f->b, NOW, 9, due, 0);
    HistoryEvent *fired = read_event(f, -1, TYPE(TIMER_FIRED), 9, BYTES_NONE);
    assert_int_equal(fired->timerfired->fireat->seconds, e->timercreated->fireat->seconds);
    assert_int_equal(fired->timerfired->fireat->nanos, e->timercreated->fireat->nanos);
}

/* scheduleTask{name, version "", input, tags{k: v}, parentTraceContext{traceParent, spanID}} */
static ScheduleTaskAction *task_action(struct fixture *f)
{
    struct bytes in = S("\x0a\x05"
                        "greet\x12\x00\x1a\x04\x0a\x02hi\x22\x06\x0a\x01k\x12\x01v\x2a\x08\x0a\x02"
                        "tp\x12\x02sp");
    ScheduleTaskAction *out;
    assert_int_equal(
        wire_unpack(&schedule_task_action__descriptor, f->a, in, &WIRE_LIMITS, &out, NULL), OK);
    return out;
}

static void an_activity_is_recorded_and_handed_out_as_asked_for(void **state)
{
    struct fixture *f = *state;
    ScheduleTaskAction *action = task_action(f);

    event_task_scheduled(&f->b, 5, NOW, action);
    TaskScheduledEvent *e = read_event(f, 5, TYPE(TASK_SCHEDULED), 0, S("greet"))->taskscheduled;
    assert_true(bytes_eq(wire_string(e->input), S("hi")));
    assert_true(wire_string(e->version).len == 0 && e->version);
    assert_true(bytes_eq(wire_view(e->tags[0]->value), S("v")));
    assert_true(bytes_eq(wire_view(e->parenttracecontext->spanid), S("sp")));

    strbuf_reset(&f->b);
    event_activity_request(&f->b, action, 5, S("inst"), S("exec"));
    ActivityRequest *r = unpack(f, &activity_request__descriptor);
    assert_true(bytes_eq(wire_view(r->name), S("greet")));
    assert_true(bytes_eq(wire_string(r->input), S("hi")));
    assert_true(r->version && r->taskid == 5 && r->n_tags == 1);
    assert_true(bytes_eq(wire_view(r->tags[0]->key), S("k")));
    assert_true(bytes_eq(wire_view(r->parenttracecontext->traceparent), S("tp")));
    assert_true(bytes_eq(wire_view(r->orchestrationinstance->instanceid), S("inst")));
    assert_true(bytes_eq(wire_string(r->orchestrationinstance->executionid), S("exec")));
}

static void a_sent_event_keeps_target_and_name_byte_for_byte(void **state)
{
    struct fixture *f = *state;
    event_sent(&f->b, 4, NOW, S("Target\0x"), S("Name"), BYTES_NONE);
    HistoryEvent *e = read_event(f, 4, TYPE(EVENT_SENT), 0, S("Name"));
    assert_true(bytes_eq(wire_view(e->eventsent->instanceid), S("Target\0x")));
    assert_null(e->eventsent->input);
}

static void a_child_is_recorded_under_the_id_it_got(void **state)
{
    struct fixture *f = *state;
    CreateSubOrchestrationAction action = CREATE_SUB_ORCHESTRATION_ACTION__INIT;
    action.name = wire_data(S("child"));
    action.input = wire_string_value(f->a, S("1"));

    event_child_created(&f->b, 2, NOW, &action, S("exec:0002"));
    HistoryEvent *e = read_event(f, 2, TYPE(SUB_ORCHESTRATION_INSTANCE_CREATED), 0, S("child"));
    assert_true(
        bytes_eq(wire_view(e->suborchestrationinstancecreated->instanceid), S("exec:0002")));
    assert_true(bytes_eq(wire_string(e->suborchestrationinstancecreated->input), S("1")));

    strbuf_reset(&f->b);
    event_child_failed(&f->b, NOW, 2,
                       event_failure(f->a, "SubOrchestrationTerminated", true,
                                     "Sub-orchestration instance '%s' was terminated.", "c"));
    e = read_event(f, -1, TYPE(SUB_ORCHESTRATION_INSTANCE_FAILED), 2, BYTES_NONE);
    TaskFailureDetails *d = e->suborchestrationinstancefailed->failuredetails;
    assert_true(bytes_eq(wire_view(d->errortype), S("SubOrchestrationTerminated")));
    assert_true(
        bytes_eq(wire_view(d->errormessage), S("Sub-orchestration instance 'c' was terminated.")));
    assert_true(d->isnonretriable);
}

/* A failure goes through with all it has, what this server does not know included. */
static void failures_are_passed_on_whole(void **state)
{
    struct fixture *f = *state;
    struct bytes in =
        S("\x0a\x01T\x12\x01m\x1a\x00\x22\x03\x0a\x01I\x28\x01\x32\x05\x0a\x01k\x12\x00"
          "\xa2\x06\x01x");
    TaskFailureDetails *d;
    assert_int_equal(
        wire_unpack(&task_failure_details__descriptor, f->a, in, &WIRE_LIMITS, &d, NULL), OK);

    event_task_failed(&f->b, NOW, 1, d);
    read_event(f, -1, TYPE(TASK_FAILED), 1, BYTES_NONE);
    struct event_head h;
    assert_true(event_peek(strbuf_bytes(&f->b), &h));
    assert_true(bytes_eq(wire_bytes_find(h.body, 2), in));
}

static CreateInstanceRequest *start_request(struct fixture *f)
{
    CreateInstanceRequest *r = arena_new(f->a, CreateInstanceRequest);
    struct event_tags tags = {0};
    create_instance_request__init(r);
    r->name = wire_data(S("Order"));
    r->version = wire_string_value(f->a, S("1.0"));
    r->input = wire_string_value(f->a, S("{}"));
    r->parenttracecontext = arena_new(f->a, TraceContext);
    trace_context__init(r->parenttracecontext);
    r->parenttracecontext->traceparent = wire_data(S("00-1-2-01"));
    event_tags_add(f->a, &tags, S("team"), S("red"));
    r->n_tags = tags.count;
    r->tags = (CreateInstanceRequest__TagsEntry **)(void *)tags.entries;
    return r;
}

static void a_start_has_what_the_request_said(void **state)
{
    struct fixture *f = *state;
    struct event_started s = event_started_of_request(start_request(f));
    s.instance = S("order-1");
    s.execution = S("0123456789abcdef0123456789abcdef");

    event_execution_started(&f->b, NOW, &s);
    ExecutionStartedEvent *e =
        read_event(f, -1, TYPE(EXECUTION_STARTED), 0, S("Order"))->executionstarted;
    assert_true(bytes_eq(wire_view(e->orchestrationinstance->instanceid), S("order-1")));
    assert_true(bytes_eq(wire_string(e->orchestrationinstance->executionid),
                         S("0123456789abcdef0123456789abcdef")));
    assert_true(bytes_eq(wire_string(e->version), S("1.0")));
    assert_true(bytes_eq(wire_string(e->input), S("{}")));
    assert_true(bytes_eq(wire_view(e->parenttracecontext->traceparent), S("00-1-2-01")));
    assert_true(e->n_tags == 1 && bytes_eq(wire_view(e->tags[0]->value), S("red")));
    assert_null(e->parentinstance);
    assert_null(e->scheduledstarttimestamp);
}

static void a_childs_start_names_its_parent_and_reads_back(void **state)
{
    struct fixture *f = *state;
    struct event_parent parent = {.task_id = 0,
                                  .name = S("Parent"),
                                  .version = S(""),
                                  .instance = S("p"),
                                  .execution = S("pe")};
    struct event_started s = event_started_of_request(start_request(f)), back;
    s.instance = S("c");
    s.execution = S("ce");
    s.parent = &parent;
    s.start_at = NOW + 60000000;
    event_execution_started(&f->b, NOW, &s);

    assert_int_equal(event_started_read(f->a, strbuf_bytes(&f->b), &back, NULL), OK);
    assert_true(bytes_eq(back.instance, S("c")) && bytes_eq(back.execution, S("ce")));
    assert_true(bytes_eq(back.name, S("Order")) && bytes_eq(back.version, S("1.0")));
    assert_true(back.start_at == NOW + 60000000);
    assert_true(back.parent->task_id == 0 && bytes_eq(back.parent->name, S("Parent")));
    assert_true(!bytes_is_none(back.parent->version) && back.parent->version.len == 0);
    assert_true(bytes_eq(back.parent->instance, S("p")));
    assert_true(bytes_eq(back.parent->execution, S("pe")));
    assert_int_equal(back.tags.count, 1);

    struct bytes first = arena_dup(f->a, strbuf_bytes(&f->b));
    strbuf_reset(&f->b);
    event_execution_started(&f->b, NOW, &back); /* nothing is lost on the way */
    assert_true(bytes_eq(strbuf_bytes(&f->b), first));
}

static void other_bytes_are_no_start(void **state)
{
    struct fixture *f = *state;
    struct event_started s;
    struct error err = {0};
    event_raised(&f->b, NOW, S("e"), BYTES_NONE);
    assert_int_equal(event_started_read(f->a, strbuf_bytes(&f->b), &s, &err), ERR_CORRUPT);
    assert_int_equal(event_started_read(f->a, S("\x1a\x05"), &s, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "cannot read the start of an execution"));
    assert_int_equal(event_started_read(f->a, S("\x1a\x00"), &s, &err), ERR_CORRUPT);
}

static void tags_are_overlaid_key_by_key(void **state)
{
    struct fixture *f = *state;
    struct event_tags old = {0}, new = {0};
    event_tags_add(f->a, &old, S("a"), S("1"));
    event_tags_add(f->a, &old, S("b"), S("2"));
    event_tags_add(f->a, &new, S("b"), S("x"));
    event_tags_add(f->a, &new, S("c"), S("3"));
    event_tags_add(f->a, &new, S("b"), S("3"));

    struct event_tags both = event_tags_overlay(f->a, old, new);
    assert_int_equal(both.count, 3);
    assert_true(bytes_eq(wire_view(both.entries[0]->value), S("1")));
    assert_true(bytes_eq(wire_view(both.entries[1]->key), S("b")));
    assert_true(bytes_eq(wire_view(both.entries[1]->value), S("3")));
    assert_true(bytes_eq(wire_view(both.entries[2]->key), S("c")));
    assert_int_equal(event_tags_overlay(f->a, (struct event_tags){0}, new).count, 2);
    assert_int_equal(event_tags_overlay(f->a, (struct event_tags){0}, (struct event_tags){0}).count,
                     0);
}

static void peek_refuses_what_is_malformed(void **state)
{
    struct fixture *f = *state;
    struct event_head h;

    event_task_completed(&f->b, NOW, 300, S("result"));
    struct bytes whole = strbuf_bytes(&f->b);
    unsigned good = 0;
    for (size_t len = 0; len < whole.len; len++)
        good += event_peek(bytes_of(whole.ptr, len), &h);
    assert_int_equal(good, 3);                                           /* between the fields */
    assert_false(event_peek(S("\x12\x02\x10\x80"), &h));                 /* in the timestamp */
    assert_false(event_peek(S("\x12\x06\x10\x80\x94\xeb\xdc\x03"), &h)); /* 10^9 nanos */
    assert_false(event_peek(S("\x3a\x02\x08\x80"), &h));                 /* in the body */
    assert_true(event_peek(S(""), &h) && h.type == 0 && h.time == 0);
    assert_true(event_peek(S("\xca\x3e\x00"), &h)); /* a kind of the future: 1001 */
    assert_int_equal(h.type, 1001);
    assert_false(event_is_resolution(h.type));
}

static void resolutions_know_what_they_resolve(void **state)
{
    (void)state;
    assert_int_equal(event_resolved_by(TYPE(TASK_COMPLETED)), TYPE(TASK_SCHEDULED));
    assert_int_equal(event_resolved_by(TYPE(TASK_FAILED)), TYPE(TASK_SCHEDULED));
    assert_int_equal(event_resolved_by(TYPE(TIMER_FIRED)), TYPE(TIMER_CREATED));
    assert_int_equal(event_resolved_by(TYPE(SUB_ORCHESTRATION_INSTANCE_COMPLETED)),
                     TYPE(SUB_ORCHESTRATION_INSTANCE_CREATED));
    assert_int_equal(event_resolved_by(TYPE(SUB_ORCHESTRATION_INSTANCE_FAILED)),
                     TYPE(SUB_ORCHESTRATION_INSTANCE_CREATED));
    assert_true(event_is_resolution(TYPE(TIMER_FIRED)));
    assert_false(event_is_resolution(TYPE(EVENT_RAISED)));
    assert_false(event_is_resolution(TYPE(TASK_SCHEDULED)));
    assert_int_equal(event_resolved_by(TYPE(_NOT_SET)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_happened_comes_back_with_payload_and_reference),
        TEST(a_reference_of_zero_is_real),
        TEST(absent_and_empty_payloads_differ),
        TEST(timers_have_the_same_due_time_to_the_digit),
        TEST(an_activity_is_recorded_and_handed_out_as_asked_for),
        TEST(a_sent_event_keeps_target_and_name_byte_for_byte),
        TEST(a_child_is_recorded_under_the_id_it_got),
        TEST(failures_are_passed_on_whole),
        TEST(a_start_has_what_the_request_said),
        TEST(a_childs_start_names_its_parent_and_reads_back),
        TEST(other_bytes_are_no_start),
        TEST(tags_are_overlaid_key_by_key),
        TEST(peek_refuses_what_is_malformed),
        TEST(resolutions_know_what_they_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
