/* Failure details cut to what SDKs can parse: failure.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/wire.h"

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

static TaskFailureDetails *chain(struct arena *a, unsigned levels)
{
    TaskFailureDetails *inner = NULL;
    for (unsigned i = levels; i > 0; i--) {
        TaskFailureDetails *d = arena_new(a, TaskFailureDetails);
        task_failure_details__init(d);
        d->errormessage = wire_data(bytes_str(arena_printf(a, "level %u", i)));
        d->innerfailure = inner;
        inner = d;
    }
    return inner;
}

static unsigned chain_levels(const TaskFailureDetails *d)
{
    unsigned levels = 0;
    for (; d; d = d->innerfailure)
        levels++;
    return levels;
}

/* A value with `nestings` lists or structs, by turns, round a number. */
static Google__Protobuf__Value *value(struct arena *a, unsigned nestings)
{
    Google__Protobuf__Value *v = arena_new(a, Google__Protobuf__Value);
    google__protobuf__value__init(v);
    if (nestings == 0) {
        v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE;
        v->number_value = 7;
    } else if (nestings % 2) {
        v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE;
        v->list_value = arena_new(a, Google__Protobuf__ListValue);
        google__protobuf__list_value__init(v->list_value);
        v->list_value->n_values = 1;
        v->list_value->values = arena_array(a, Google__Protobuf__Value *, 1);
        v->list_value->values[0] = value(a, nestings - 1);
    } else {
        Google__Protobuf__Struct__FieldsEntry *entry =
            arena_new(a, Google__Protobuf__Struct__FieldsEntry);
        google__protobuf__struct__fields_entry__init(entry);
        entry->value = value(a, nestings - 1);
        v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE;
        v->struct_value = arena_new(a, Google__Protobuf__Struct);
        google__protobuf__struct__init(v->struct_value);
        v->struct_value->n_fields = 1;
        v->struct_value->fields = arena_array(a, Google__Protobuf__Struct__FieldsEntry *, 1);
        v->struct_value->fields[0] = entry;
    }
    return v;
}

static unsigned value_nestings(const Google__Protobuf__Value *v)
{
    if (v->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE)
        return 1 + value_nestings(v->list_value->values[0]);
    if (v->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE)
        return 1 + value_nestings(v->struct_value->fields[0]->value);
    return 0;
}

static void property_set(struct arena *a, TaskFailureDetails *d, Google__Protobuf__Value *v)
{
    TaskFailureDetails__PropertiesEntry *entry = arena_new(a, TaskFailureDetails__PropertiesEntry);
    task_failure_details__properties_entry__init(entry);
    entry->value = v;
    d->n_properties = 1;
    d->properties = arena_array(a, TaskFailureDetails__PropertiesEntry *, 1);
    d->properties[0] = entry;
}

static void a_chain_is_cut_below_its_levels(void **state)
{
    TaskFailureDetails *d = chain(*state, 64);
    assert_false(wire_failure_cut(d, 64));
    assert_int_equal(chain_levels(d), 64);
    d = chain(*state, 65);
    assert_true(wire_failure_cut(d, 64));
    assert_int_equal(chain_levels(d), 64);
    d = chain(*state, 300);
    assert_true(wire_failure_cut(d, 1));
    assert_int_equal(chain_levels(d), 1);
    assert_false(wire_failure_cut(NULL, 64));
}

static void a_value_is_cut_where_three_levels_no_longer_fit(void **state)
{
    TaskFailureDetails *d = chain(*state, 1);

    property_set(*state, d, value(*state, 3)); /* 1 + 3 * 3 = 10 */
    assert_false(wire_failure_cut(d, 10));
    assert_int_equal(value_nestings(d->properties[0]->value), 3);
    assert_true(wire_failure_cut(d, 9));
    assert_int_equal(value_nestings(d->properties[0]->value), 2);
    assert_true(wire_failure_cut(d, 3));
    assert_int_equal(d->properties[0]->value->kind_case, GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE);

    property_set(*state, d, value(*state, 0)); /* plain values are never cut */
    assert_false(wire_failure_cut(d, 1));
    property_set(*state, d, NULL);
    assert_false(wire_failure_cut(d, 1));
}

/* Deeper failures leave less to their values: everything together stays under what Python takes. */
static void the_deepest_of_all_fits_into_a_work_item(void **state)
{
    struct arena *a = *state;
    TaskFailureDetails *d = chain(a, 80);
    for (TaskFailureDetails *at = d; at; at = at->innerfailure)
        property_set(a, at, value(a, 40));
    assert_true(wire_failure_cut(d, 64));
    assert_int_equal(chain_levels(d), 64);

    TaskFailedEvent failed = TASK_FAILED_EVENT__INIT;
    HistoryEvent event = HISTORY_EVENT__INIT, *events[] = {&event};
    OrchestratorRequest turn = ORCHESTRATOR_REQUEST__INIT;
    WorkItem item = WORK_ITEM__INIT, *again;
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    failed.failuredetails = d;
    event.event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_FAILED;
    event.taskfailed = &failed;
    turn.n_newevents = 1;
    turn.newevents = events;
    item.request_case = WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    item.orchestratorrequest = &turn;
    wire_pack_into(&item.base, &b);
    assert_int_equal(
        wire_unpack(&work_item__descriptor, a, strbuf_bytes(&b), &WIRE_LIMITS, &again, NULL), OK);

    unsigned level = 1;
    for (TaskFailureDetails *at = d; at; at = at->innerfailure, level++)
        assert_int_equal(value_nestings(at->properties[0]->value), (64 - level) / 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_is_cut_below_its_levels),
        TEST(a_value_is_cut_where_three_levels_no_longer_fit),
        TEST(the_deepest_of_all_fits_into_a_work_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
