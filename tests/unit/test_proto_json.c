/* Messages as proto3 JSON: cli/proto_json.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/proto_json.h"
#include "durabletask.pb-c.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

static void expect(const ProtobufCMessage *msg, const char *json)
{
    json_t *j = proto_json(msg);
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);

    assert_string_equal(text, json);
    free(text);
    json_decref(j);
}

static void expect_text(const char *text, size_t len, const char *json)
{
    Google__Protobuf__StringValue v = GOOGLE__PROTOBUF__STRING_VALUE__INIT;

    v.value = wire_data(bytes_of(text, len));
    expect(&v.base, json);
}

static void fields_have_their_defaults_and_messages_may_be_absent(void **state)
{
    SuspendRequest s = SUSPEND_REQUEST__INIT;
    Google__Protobuf__StringValue empty = GOOGLE__PROTOBUF__STRING_VALUE__INIT;

    (void)state;
    expect(&s.base, "{\"instanceId\":\"\"}");
    s.instanceid = wire_data(BYTES_LIT("a"));
    s.reason = &empty;
    expect(&s.base, "{\"instanceId\":\"a\",\"reason\":\"\"}");
}

static void names_are_camel_case_and_long_numbers_text(void **state)
{
    Perdure__V1__CommitStatus c = PERDURE__V1__COMMIT_STATUS__INIT;
    Perdure__V1__InstanceCount i = PERDURE__V1__INSTANCE_COUNT__INIT;
    Google__Protobuf__Duration d = {
        .base = PROTOBUF_C_MESSAGE_INIT(&google__protobuf__duration__descriptor)};

    (void)state;
    c.batches = UINT64_MAX;
    d.nanos = 1500000;
    c.last_latency = &d;
    expect(&c.base, "{\"lastLatency\":\"0.001500s\",\"batches\":\"18446744073709551615\","
                    "\"commands\":\"0\",\"flushes\":\"0\"}");
    i.count = INT64_MIN;
    expect(&i.base,
           "{\"hub\":\"\",\"kind\":\"\",\"status\":\"\",\"count\":\"-9223372036854775808\"}");
}

static void text_is_kept_whole(void **state)
{
    (void)state;
    expect_text("a\0\"\n", 4, "\"a\\u0000\\\"\\n\"");
    expect_text("\xc3\xa9", 2, "\"\xc3\xa9\"");
    expect_text("", 0, "\"\"");
}

static void a_oneof_has_at_most_one_member(void **state)
{
    HistoryEvent e = HISTORY_EVENT__INIT;
    TaskCompletedEvent done = TASK_COMPLETED_EVENT__INIT;
    Google__Protobuf__Timestamp at = wire_time((usec_t)1767323045123456);

    (void)state;
    e.eventid = -1;
    e.timestamp = &at;
    expect(&e.base, "{\"eventId\":-1,\"timestamp\":\"2026-01-02T03:04:05.123456Z\"}");
    e.event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED;
    e.taskcompleted = &done;
    done.taskscheduledid = 7;
    expect(&e.base, "{\"eventId\":-1,\"timestamp\":\"2026-01-02T03:04:05.123456Z\","
                    "\"taskCompleted\":{\"taskScheduledId\":7}}");
}

static void maps_are_objects_and_values_free_json(void **state)
{
    TaskFailureDetails f = TASK_FAILURE_DETAILS__INIT;
    TaskFailureDetails__PropertiesEntry entry = TASK_FAILURE_DETAILS__PROPERTIES_ENTRY__INIT,
                                        *entries[] = {&entry};
    Google__Protobuf__Value list = GOOGLE__PROTOBUF__VALUE__INIT,
                            number = GOOGLE__PROTOBUF__VALUE__INIT,
                            yes = GOOGLE__PROTOBUF__VALUE__INIT,
                            nothing = GOOGLE__PROTOBUF__VALUE__INIT,
                            *values[] = {&number, &yes, &nothing};
    Google__Protobuf__ListValue items = GOOGLE__PROTOBUF__LIST_VALUE__INIT;

    (void)state;
    number.kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE;
    number.number_value = 2.5;
    yes.kind_case = GOOGLE__PROTOBUF__VALUE__KIND_BOOL_VALUE;
    yes.bool_value = true;
    nothing.kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE;
    items.n_values = ARRAY_LEN(values);
    items.values = values;
    list.kind_case = GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE;
    list.list_value = &items;
    entry.key = wire_data(BYTES_LIT("k"));
    entry.value = &list;
    f.n_properties = 1;
    f.properties = entries;
    f.errortype = wire_data(BYTES_LIT("E"));
    expect(&f.base, "{\"errorType\":\"E\",\"errorMessage\":\"\",\"isNonRetriable\":false,"
                    "\"properties\":{\"k\":[2.5,true,null]}}");
}

static void enums_have_names_and_lists_are_there_when_empty(void **state)
{
    GetWorkItemsRequest g = GET_WORK_ITEMS_REQUEST__INIT;
    WorkerCapability caps[] = {WORKER_CAPABILITY__WORKER_CAPABILITY_LARGE_PAYLOADS,
                               (WorkerCapability)99};

    (void)state;
    expect(&g.base, "{\"maxConcurrentOrchestrationWorkItems\":0,"
                    "\"maxConcurrentActivityWorkItems\":0,\"maxConcurrentEntityWorkItems\":0,"
                    "\"capabilities\":[],\"workerInstanceId\":\"\"}");
    g.n_capabilities = 2;
    g.capabilities = caps;
    expect(&g.base, "{\"maxConcurrentOrchestrationWorkItems\":0,"
                    "\"maxConcurrentActivityWorkItems\":0,\"maxConcurrentEntityWorkItems\":0,"
                    "\"capabilities\":[\"WORKER_CAPABILITY_LARGE_PAYLOADS\",99],"
                    "\"workerInstanceId\":\"\"}");
}

static void times_of_every_kind(void **state)
{
    Google__Protobuf__Timestamp t = {
        .base = PROTOBUF_C_MESSAGE_INIT(&google__protobuf__timestamp__descriptor)};
    Google__Protobuf__Duration d = {
        .base = PROTOBUF_C_MESSAGE_INIT(&google__protobuf__duration__descriptor)};

    (void)state;
    expect(&t.base, "\"1970-01-01T00:00:00.000000Z\"");
    t.seconds = WIRE_SECONDS_MAX;
    t.nanos = 123456789;
    expect(&t.base, "\"9999-12-31T23:59:59.123456789Z\"");
    t.seconds = WIRE_SECONDS_MIN;
    t.nanos = 1000;
    expect(&t.base, "\"0001-01-01T00:00:00.000001Z\"");
    t.seconds = WIRE_SECONDS_MAX + 1; /* what JSON cannot say is null */
    expect(&t.base, "null");
    d.seconds = -3;
    expect(&d.base, "\"-3s\"");
    d.nanos = -5;
    expect(&d.base, "\"-3.000000005s\"");
    d.seconds = 0;
    d.nanos = 0;
    expect(&d.base, "\"0s\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_their_defaults_and_messages_may_be_absent),
        cmocka_unit_test(names_are_camel_case_and_long_numbers_text),
        cmocka_unit_test(text_is_kept_whole),
        cmocka_unit_test(a_oneof_has_at_most_one_member),
        cmocka_unit_test(maps_are_objects_and_values_free_json),
        cmocka_unit_test(enums_have_names_and_lists_are_there_when_empty),
        cmocka_unit_test(times_of_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
