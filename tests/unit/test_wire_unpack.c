/* Whole messages there and back: unpack.h, pack.h, value.h, against protobuf-c's own functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "durabletask.pb-c.h"
#include "google/protobuf/struct.pb-c.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

#define S(text) BYTES_LIT(text)

static int setup(void **state)
{
    *state = arena_create();
    return 0;
}

static int teardown(void **state)
{
    arena_free(*state);
    return 0;
}

static void *unpack(struct arena *a, const ProtobufCMessageDescriptor *desc, struct bytes in)
{
    void *out = NULL;
    struct error err = {0};
    if (wire_unpack(desc, a, in, &WIRE_LIMITS, &out, &err))
        fail_msg("%s", err.msg);
    return out;
}

static struct bytes pack(struct arena *a, const ProtobufCMessage *msg)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    wire_pack_into(msg, &b);
    return arena_dup(a, b.len ? strbuf_bytes(&b) : BYTES_LIT(""));
}

/* What protobuf-c makes of `in`, packed by protobuf-c. */
static struct bytes reference(struct arena *a, const ProtobufCMessageDescriptor *desc,
                              struct bytes in)
{
    ProtobufCMessage *msg = protobuf_c_message_unpack(desc, NULL, in.len, in.ptr);
    assert_non_null(msg);
    size_t size = protobuf_c_message_get_packed_size(msg);
    uint8_t *out = arena_alloc(a, size + 1);
    assert_int_equal(protobuf_c_message_pack(msg, out), size);
    protobuf_c_message_free_unpacked(msg, NULL);
    return bytes_of(out, size);
}

/* Our decoder and encoder give what protobuf-c's do. Returns our decoded message. */
static void *same_as_protobuf_c(struct arena *a, const ProtobufCMessageDescriptor *desc,
                                struct bytes in)
{
    ProtobufCMessage *msg = unpack(a, desc, in);
    struct bytes ours = pack(a, msg);
    struct bytes theirs = reference(a, desc, in);
    assert_int_equal(ours.len, theirs.len);
    assert_memory_equal(ours.ptr, theirs.ptr, ours.len);
    assert_int_equal(wire_packed_size(msg), protobuf_c_message_get_packed_size(msg));
    return msg;
}

static Google__Protobuf__Value *number(struct arena *a, double d)
{
    Google__Protobuf__Value *v = arena_new(a, Google__Protobuf__Value);
    google__protobuf__value__init(v);
    v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE;
    v->number_value = d;
    return v;
}

static Google__Protobuf__Value *text(struct arena *a, struct bytes s)
{
    Google__Protobuf__Value *v = number(a, 0);
    v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE;
    v->string_value = wire_data(s);
    return v;
}

static Google__Protobuf__Value *null(struct arena *a)
{
    Google__Protobuf__Value *v = number(a, 0);
    v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE;
    v->null_value = GOOGLE__PROTOBUF__NULL_VALUE__NULL_VALUE;
    return v;
}

static Google__Protobuf__Value *list(struct arena *a, Google__Protobuf__Value **values, size_t n)
{
    Google__Protobuf__Value *v = number(a, 0);
    v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE;
    v->list_value = arena_new(a, Google__Protobuf__ListValue);
    google__protobuf__list_value__init(v->list_value);
    v->list_value->n_values = n;
    v->list_value->values = arena_array(a, Google__Protobuf__Value *, n);
    memcpy(v->list_value->values, values, n * sizeof(*values));
    return v;
}

static void property_add(struct arena *a, TaskFailureDetails *d, struct bytes key,
                         Google__Protobuf__Value *value)
{
    TaskFailureDetails__PropertiesEntry *entry = arena_new(a, TaskFailureDetails__PropertiesEntry);
    TaskFailureDetails__PropertiesEntry **all =
        arena_array(a, TaskFailureDetails__PropertiesEntry *, d->n_properties + 1);
    task_failure_details__properties_entry__init(entry);
    entry->key = wire_data(key);
    entry->value = value;
    if (d->n_properties)
        memcpy(all, d->properties, d->n_properties * sizeof(*all));
    all[d->n_properties++] = entry;
    d->properties = all;
}

static const double NUMBERS[] = {0.0, -0.0, 1e308, 5e-324, 0.1, -1.0 / 3, 9007199254740993.0};

static TaskFailureDetails *failure_with_properties(struct arena *a)
{
    TaskFailureDetails *d = arena_new(a, TaskFailureDetails);
    Google__Protobuf__Value *items[ARRAY_LEN(NUMBERS)];

    task_failure_details__init(d);
    d->errortype = wire_data(S("ValueError"));
    d->errormessage = wire_data(S("nul \0 and \xf0\x9f\x98\x80"));
    d->stacktrace = wire_string_value(a, S(""));
    d->isnonretriable = 1;
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++)
        items[i] = number(a, NUMBERS[i]);
    property_add(a, d, S("numbers"), list(a, items, ARRAY_LEN(NUMBERS)));
    property_add(a, d, S("null"), null(a));
    property_add(a, d, S("text"), text(a, S("\xc3\xa9\0")));
    property_add(a, d, S("empty text"), text(a, S("")));
    property_add(a, d, S("empty list"), list(a, items, 0));
    property_add(a, d, S(""), NULL);
    return d;
}

static void failure_properties_come_back_bit_for_bit(void **state)
{
    struct arena *a = *state;
    TaskFailureDetails *d = failure_with_properties(a);
    d->innerfailure = failure_with_properties(a);

    struct bytes encoded = pack(a, &d->base);
    TaskFailureDetails *got = same_as_protobuf_c(a, &task_failure_details__descriptor, encoded);
    assert_true(bytes_eq(wire_view(got->errormessage), S("nul \0 and \xf0\x9f\x98\x80")));
    assert_true(got->isnonretriable);
    assert_false(bytes_is_none(wire_string(got->stacktrace)));
    assert_int_equal(got->n_properties, 6);

    const Google__Protobuf__ListValue *numbers =
        got->innerfailure->properties[0]->value->list_value;
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++)
        assert_memory_equal(&numbers->values[i]->number_value, &NUMBERS[i], sizeof(double));
    assert_int_equal(got->properties[1]->value->kind_case,
                     GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE);
    assert_int_equal(got->properties[3]->value->kind_case,
                     GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE);
    assert_null(got->properties[5]->value);
}

/* Strings are not copied: they lie in the input. */
static void strings_are_views_into_the_input(void **state)
{
    struct arena *a = *state;
    struct bytes in = S("\x0a\x05hello\x12\x02hi");
    CreateInstanceRequest *r = unpack(a, &create_instance_request__descriptor, in);
    assert_ptr_equal(r->instanceid.data, in.ptr + 2);
    assert_ptr_equal(r->name.data, in.ptr + 9);
}

static void absent_empty_and_set_are_kept_apart(void **state)
{
    struct arena *a = *state;
    /* version {}, input {value: "x"}, no executionId */
    struct bytes in = S("\x0a\x01i\x12\x01n\x1a\x00\x22\x03\x0a\x01x");
    CreateInstanceRequest *r = same_as_protobuf_c(a, &create_instance_request__descriptor, in);
    struct bytes version = wire_string(r->version);
    assert_true(!bytes_is_none(version) && version.len == 0);
    assert_true(bytes_eq(wire_string(r->input), S("x")));
    assert_true(bytes_is_none(wire_string(r->executionid)));
    assert_true(bytes_eq(pack(a, &r->base), in));
}

static void an_empty_message_is_all_unset(void **state)
{
    struct arena *a = *state;
    OrchestratorResponse *r = unpack(a, &orchestrator_response__descriptor, BYTES_NONE);
    assert_int_equal(r->n_actions, 0);
    assert_null(r->customstatus);
    assert_int_equal(wire_packed_size(&r->base), 0);
    assert_int_equal(wire_view(r->instanceid).len, 0);
    assert_false(bytes_is_none(wire_view(r->instanceid)));
}

static void arrays_of_any_length_keep_their_order(void **state)
{
    struct arena *a = *state;
    for (size_t n = 0; n <= 70; n++) {
        CLEANUP(strbuf_deinit) struct strbuf b = {0};
        for (size_t i = 0; i < n; i++) {
            wire_put_head(&b, 2, 2); /* actions { id: i } */
            wire_put_uint(&b, 1, i);
        }
        struct bytes in = arena_dup(a, strbuf_bytes(&b));
        OrchestratorResponse *r = unpack(a, &orchestrator_response__descriptor, in);
        assert_int_equal(r->n_actions, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(r->actions[i]->id, i);
    }
}

/* protobuf: repeated numbers may be packed or not, also both in one message. */
static void packed_and_unpacked_numbers_are_one_list(void **state)
{
    struct arena *a = *state;
    struct bytes in = S("\x52\x03\x01\x02\x03\x50\x02\x52\x00\x50\x01");
    GetWorkItemsRequest *r = same_as_protobuf_c(a, &get_work_items_request__descriptor, in);
    static const WorkerCapability EXPECTED[] = {1, 2, 3, 2, 1};
    assert_int_equal(r->n_capabilities, 5);
    assert_memory_equal(r->capabilities, EXPECTED, sizeof(EXPECTED));
}

static void later_values_win_and_messages_merge(void **state)
{
    struct arena *a = *state;
    /* instanceId twice; actions merge by appending; customStatus {} then {value} then {} again */
    struct bytes in = S("\x0a\x01"
                        "a\x1a\x00\x1a\x03\x0a\x01x\x0a\x01"
                        "b\x1a\x00\x12\x02\x08\x01\x12\x02\x08\x02");
    OrchestratorResponse *r = same_as_protobuf_c(a, &orchestrator_response__descriptor, in);
    assert_true(bytes_eq(wire_view(r->instanceid), S("b")));
    assert_true(bytes_eq(wire_string(r->customstatus), S("x")));
    assert_int_equal(r->n_actions, 2);

    /* workItemFilters twice: their lists are joined */
    in = S("\x5a\x05\x0a\x03\x0a\x01"
           "a\x5a\x05\x0a\x03\x0a\x01"
           "b");
    GetWorkItemsRequest *g = unpack(a, &get_work_items_request__descriptor, in);
    assert_int_equal(g->workitemfilters->n_orchestrations, 2);
    assert_true(bytes_eq(wire_view(g->workitemfilters->orchestrations[1]->name), S("b")));
}

static void the_last_member_of_a_oneof_wins(void **state)
{
    struct arena *a = *state;
    /* scheduleTask{name a}, createTimer{}, createTimer{fireAt{seconds 1}}: the timer, merged */
    struct bytes in = S("\x12\x03\x0a\x01"
                        "a\x22\x00\x22\x04\x0a\x02\x08\x01");
    OrchestratorAction *r = unpack(a, &orchestrator_action__descriptor, in);
    assert_int_equal(r->orchestrator_action_type_case,
                     ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_CREATE_TIMER);
    assert_int_equal(r->createtimer->fireat->seconds, 1);
    assert_true(bytes_eq(pack(a, &r->base), S("\x22\x04\x0a\x02\x08\x01")));

    /* and back again: the first scheduleTask is forgotten */
    in = S("\x12\x03\x0a\x01"
           "a\x22\x00\x12\x00");
    r = unpack(a, &orchestrator_action__descriptor, in);
    assert_int_equal(r->orchestrator_action_type_case,
                     ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK);
    assert_int_equal(wire_view(r->scheduletask->name).len, 0);

    /* a string member, then a message member */
    in = S("\x0a\x01"
           "a\x12\x00");
    PurgeInstancesRequest *p = unpack(a, &purge_instances_request__descriptor, in);
    assert_int_equal(p->request_case, PURGE_INSTANCES_REQUEST__REQUEST_PURGE_INSTANCE_FILTER);
    assert_non_null(p->purgeinstancefilter);
}

static void unknown_fields_are_kept_and_sent_on(void **state)
{
    struct arena *a = *state;
    /* 2: an action of the older reuse policy; 9: bytes; 10: fixed32; 11: fixed64 */
    struct bytes in = S("\x08\x01\x10\x02\x4a\x03xyz\x55\x01\x02\x03\x04\x59\x01\x02\x03\x04\x05"
                        "\x06\x07\x08\xa0\x06\xff\xff\x03");
    OrchestrationIdReusePolicy *p =
        same_as_protobuf_c(a, &orchestration_id_reuse_policy__descriptor, in);
    assert_int_equal(p->base.n_unknown_fields, 5);
    assert_int_equal(p->base.unknown_fields[0].tag, 2);
    assert_int_equal(p->base.unknown_fields[0].wire_type, PROTOBUF_C_WIRE_TYPE_VARINT);
    assert_int_equal(p->base.unknown_fields[0].data[0], 2);
    assert_int_equal(p->base.unknown_fields[4].tag, 100);
}

static void unknown_groups_are_skipped(void **state)
{
    struct arena *a = *state;
    struct bytes in = S("\x0a\x01i\x7b\x0a\x03xyz\x83\x01\x08\x01\x84\x01\x7c\x12\x01n");
    CreateInstanceRequest *r = unpack(a, &create_instance_request__descriptor, in);
    assert_true(bytes_eq(wire_view(r->name), S("n")));
    assert_int_equal(r->base.n_unknown_fields, 0);
}

static void numbers_are_cut_and_widened_as_protobuf_does(void **state)
{
    struct arena *a = *state;
    HistoryEvent e = HISTORY_EVENT__INIT;
    e.eventid = -1;
    struct bytes in = pack(a, &e.base);
    assert_int_equal(in.len, 11); /* ten bytes of varint */
    HistoryEvent *got = same_as_protobuf_c(a, &history_event__descriptor, in);
    assert_int_equal(got->eventid, -1);

    in = S("\x08\xff\xff\xff\xff\x0f"); /* five bytes: also -1 for an int32 */
    got = unpack(a, &history_event__descriptor, in);
    assert_int_equal(got->eventid, -1);

    in = S("\x28\x80\x80\x80\x80\x80\x01"); /* a bool of 2^35 is true */
    TaskFailureDetails *d = unpack(a, &task_failure_details__descriptor, in);
    assert_true(d->isnonretriable);

    in = S("\x08\xff\x01"); /* an enum value that does not exist is kept */
    ExecutionCompletedEvent *c = same_as_protobuf_c(a, &execution_completed_event__descriptor, in);
    assert_int_equal(c->orchestrationstatus, 255);
}

static void unsigned_numbers_of_the_admin_service_round_trip(void **state)
{
    struct arena *a = *state;
    Perdure__V1__InstanceCount count = PERDURE__V1__INSTANCE_COUNT__INIT;
    Perdure__V1__StoreStatus store = PERDURE__V1__STORE_STATUS__INIT;
    count.count = INT64_MIN;
    store.bytes = UINT64_MAX;
    store.schema_version = UINT32_MAX;
    Perdure__V1__InstanceCount *c =
        same_as_protobuf_c(a, &perdure__v1__instance_count__descriptor, pack(a, &count.base));
    assert_true(c->count == INT64_MIN);
    Perdure__V1__StoreStatus *s =
        same_as_protobuf_c(a, &perdure__v1__store_status__descriptor, pack(a, &store.base));
    assert_true(s->bytes == UINT64_MAX && s->schema_version == UINT32_MAX);
}

/* A payload in a deep message: every length is right, whatever its size. */
static void lengths_are_right_at_every_size(void **state)
{
    struct arena *a = *state;
    static const size_t SIZES[] = {0, 1, 100, 118, 119, 120, 127, 128, 16380, 16384, 2097152};

    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
        uint8_t *payload = arena_alloc(a, SIZES[i] + 1);
        memset(payload, 'x', SIZES[i]);
        HistoryEvent e = HISTORY_EVENT__INIT;
        TaskCompletedEvent body = TASK_COMPLETED_EVENT__INIT;
        OrchestratorRequest turn = ORCHESTRATOR_REQUEST__INIT;
        HistoryEvent *events[] = {&e, &e};
        e.event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED;
        e.taskcompleted = &body;
        body.result = wire_string_value(a, bytes_of(payload, SIZES[i]));
        turn.n_newevents = 2;
        turn.newevents = events;
        OrchestratorRequest *got =
            same_as_protobuf_c(a, &orchestrator_request__descriptor, pack(a, &turn.base));
        assert_int_equal(got->newevents[1]->taskcompleted->result->value.len, SIZES[i]);
    }
}

static void pack_field_frames_the_message(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    OrchestrationInstance i = ORCHESTRATION_INSTANCE__INIT;
    (void)state;
    i.instanceid = wire_data(S("abc"));
    wire_pack_field(4, &i.base, &b);
    assert_true(bytes_eq(strbuf_bytes(&b), S("\x22\x05\x0a\x03"
                                             "abc")));
}

/* ---- the generated descriptors ------------------------------------------------------------------ */

static void check_marks(const ProtobufCMessageDescriptor *desc, unsigned depth)
{
    if (depth > 12) /* the types are recursive; all are met well before */
        return;
    for (unsigned i = 0; i < desc->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &desc->fields[i];
        assert_int_not_equal(f->type, PROTOBUF_C_TYPE_STRING);
        /* the only field of bytes there is */
        bool is_bytes = desc == &perdure__v1__backup_chunk__descriptor && f->id == 1;
        assert_int_equal((f->flags & WIRE_FIELD_TEXT) != 0,
                         f->type == PROTOBUF_C_TYPE_BYTES && !is_bytes);
        assert_ptr_equal(wire_field_of(desc, f->id), f);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            check_marks(f->descriptor, depth + 1);
    }
    assert_null(wire_field_of(desc, 0));
    assert_null(wire_field_of(desc, WIRE_NUMBER_MAX));
}

static void check_service(const ProtobufCServiceDescriptor *service, unsigned methods)
{
    assert_int_equal(service->n_methods, methods);
    for (unsigned i = 0; i < methods; i++) {
        check_marks(service->methods[i].input, 8);
        check_marks(service->methods[i].output, 8);
    }
}

static void every_string_is_a_view_and_marked_as_text(void **state)
{
    (void)state;
    check_service(&task_hub_sidecar_service__descriptor, 29);
    check_service(&perdure__v1__admin__descriptor, 4);
    assert_false(google__protobuf__bytes_value__descriptor.fields[0].flags & WIRE_FIELD_TEXT);
    assert_true(google__protobuf__string_value__descriptor.fields[0].flags & WIRE_FIELD_TEXT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(failure_properties_come_back_bit_for_bit),
        TEST(strings_are_views_into_the_input),
        TEST(absent_empty_and_set_are_kept_apart),
        TEST(an_empty_message_is_all_unset),
        TEST(arrays_of_any_length_keep_their_order),
        TEST(packed_and_unpacked_numbers_are_one_list),
        TEST(later_values_win_and_messages_merge),
        TEST(the_last_member_of_a_oneof_wins),
        TEST(unknown_fields_are_kept_and_sent_on),
        TEST(unknown_groups_are_skipped),
        TEST(numbers_are_cut_and_widened_as_protobuf_does),
        TEST(unsigned_numbers_of_the_admin_service_round_trip),
        TEST(lengths_are_right_at_every_size),
        TEST(pack_field_frames_the_message),
        TEST(every_string_is_a_view_and_marked_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
