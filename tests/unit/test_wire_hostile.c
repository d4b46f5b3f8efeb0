/* What a peer should not send: unpack.h refuses it with a reason and a place, and nothing crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"
#include "durabletask.pb-c.h"
#include "wire/wire.h"

#define S(text) BYTES_LIT(text)

static const struct wire_limits SMALL = {.depth = 100, .elements = 1000, .bytes = KIB(256)};

/* OK, or the error's text in `msg`. The input is copied to memory of its very size, so that the
 * address sanitizer sees a read past its end. */
static enum err try(const ProtobufCMessageDescriptor *desc, struct bytes in,
                    const struct wire_limits *limits, char msg[ERROR_MSG_MAX])
{
    struct arena *a = arena_create();
    struct error err = {0};
    void *out = NULL;
    uint8_t *exact = malloc(in.len ? in.len : 1);

    assert_non_null(exact);
    if (in.len)
        memcpy(exact, in.ptr, in.len);
    enum err e = wire_unpack(desc, a, bytes_of(exact, in.len), limits, &out, &err);
    assert_true(e == OK ? out != NULL : out == NULL);
    if (e == OK) { /* what was taken can be sent again */
        CLEANUP(strbuf_deinit) struct strbuf b = {0};
        wire_pack_into(out, &b);
    } else {
        assert_int_equal(e, ERR_INVALID);
        assert_int_equal(err.code, ERR_INVALID);
    }
    if (msg)
        memcpy(msg, err.msg, ERROR_MSG_MAX);
    arena_free(a);
    free(exact);
    return e;
}

static void check_refused(const ProtobufCMessageDescriptor *desc, struct bytes in,
                          const char *expected)
{
    char msg[ERROR_MSG_MAX];
    assert_int_equal(try(desc, in, &WIRE_LIMITS, msg), ERR_INVALID);
    assert_string_equal(msg, expected);
}

/* Wraps the content of *b as field `number`, times over; built from the inside to the outside. */
static struct bytes nested(struct strbuf *b, uint32_t number, unsigned depth)
{
    struct strbuf reversed = {0};

    strbuf_reset(b);
    for (unsigned i = 0; i < depth; i++) {
        uint8_t head[2 * WIRE_VARINT_MAX];
        uint8_t *end = wire_write_varint(head, (uint64_t)number << 3 | WIRE_BYTES);
        end = wire_write_varint(end, reversed.len);
        while (end > head)
            strbuf_append(&reversed, --end, 1);
    }
    for (size_t i = reversed.len; i-- > 0;)
        strbuf_append(b, &reversed.ptr[i], 1);
    strbuf_deinit(&reversed);
    return strbuf_bytes(b);
}

static void ten_thousand_levels_in_34_kb_are_refused(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    char msg[ERROR_MSG_MAX];
    (void)state;

    struct bytes in = nested(&b, 4, 10000); /* innerFailure */
    assert_in_range(in.len, 30000, 40000);
    assert_int_equal(try(&task_failure_details__descriptor, in, &WIRE_LIMITS, msg), ERR_INVALID);
    assert_non_null(strstr(msg, "nested too deep"));
    assert_non_null(strstr(msg, "innerFailure.innerFailure"));
    assert_int_equal(try(&task_failure_details__descriptor, in, &WIRE_LIMITS_COMPLETION, msg),
                     ERR_INVALID);

    in = nested(&b, 15, 10000); /* a field that nobody knows is not looked into */
    assert_int_equal(try(&task_failure_details__descriptor, in, &WIRE_LIMITS, msg), OK);
}

/* 100 levels below the outermost message, 300 for completions: the last good one and the next. */
static void depth_is_counted_exactly(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    const ProtobufCMessageDescriptor *desc = &task_failure_details__descriptor;
    (void)state;

    assert_int_equal(try(desc, nested(&b, 4, 100), &WIRE_LIMITS, NULL), OK);
    assert_int_equal(try(desc, nested(&b, 4, 101), &WIRE_LIMITS, NULL), ERR_INVALID);
    assert_int_equal(try(desc, nested(&b, 4, 300), &WIRE_LIMITS_COMPLETION, NULL), OK);
    assert_int_equal(try(desc, nested(&b, 4, 301), &WIRE_LIMITS_COMPLETION, NULL), ERR_INVALID);
    /* a list of values takes two levels: fifty are a hundred */
    for (unsigned lists = 50; lists <= 51; lists++) {
        CLEANUP(strbuf_deinit) struct strbuf v = {0};
        for (unsigned i = 0; i < lists; i++) {
            CLEANUP(strbuf_deinit) struct strbuf outer = {0};
            wire_put_head(&outer, 6, wire_size_bytes(1, v.len));         /* Value.list_value */
            wire_put_bytes(&outer, 1, v.len ? strbuf_bytes(&v) : S("")); /* ListValue.values */
            strbuf_reset(&v);
            strbuf_append_bytes(&v, strbuf_bytes(&outer));
        }
        assert_int_equal(
            try(&google__protobuf__value__descriptor, strbuf_bytes(&v), &WIRE_LIMITS, NULL),
            lists == 50 ? OK : ERR_INVALID);
    }
}

static void groups_count_as_depth(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static const struct wire_limits LIMITS = {.depth = 10, .elements = 100, .bytes = 10000};
    (void)state;

    for (unsigned depth = 10; depth <= 11; depth++) {
        strbuf_reset(&b);
        for (unsigned i = 0; i < depth; i++)
            strbuf_append_char(&b, 0x7b); /* 15 begins */
        for (unsigned i = 0; i < depth; i++)
            strbuf_append_char(&b, 0x7c);
        assert_int_equal(try(&task_failure_details__descriptor, strbuf_bytes(&b), &LIMITS, NULL),
                         depth == 10 ? OK : ERR_INVALID);
    }
    strbuf_reset(&b);
    for (unsigned i = 0; i < 100000; i++)
        strbuf_append_char(&b, 0x7b);
    assert_int_equal(
        try(&task_failure_details__descriptor, strbuf_bytes(&b), &WIRE_LIMITS_COMPLETION, NULL),
        ERR_INVALID);
}

static void text_that_is_not_utf8_is_refused_wherever_it_is(void **state)
{
    (void)state;
    check_refused(&create_instance_request__descriptor, S("\x0a\x02i\xff"),
                  "cannot decode CreateInstanceRequest: instanceId at byte 0: not valid UTF-8");
    check_refused(&create_instance_request__descriptor, S("\x12\x01n\x22\x03\x0a\x01\x80"),
                  "cannot decode CreateInstanceRequest: input.value at byte 5: not valid UTF-8");
    /* the key and the value of the second tag */
    check_refused(&create_instance_request__descriptor,
                  S("\x42\x03\x0a\x01k\x42\x04\x0a\x02\xc0\x80"),
                  "cannot decode CreateInstanceRequest: tags[1].key at byte 7: not valid UTF-8");
    check_refused(&create_instance_request__descriptor, S("\x42\x05\x12\x03\xed\xa0\x80"),
                  "cannot decode CreateInstanceRequest: tags[0].value at byte 2: not valid UTF-8");
    check_refused(&instance_batch__descriptor,
                  S("\x0a\x01"
                    "a\x0a\x01\xfe"),
                  "cannot decode InstanceBatch: instanceIds[1] at byte 3: not valid UTF-8");
    /* a string in a list in a property of failure details of the third action */
    check_refused(
        &orchestrator_response__descriptor,
        S("\x12\x00\x12\x00\x12\x11\x32\x0f\x32\x0d\x32\x0b\x12\x09\x32\x07\x0a\x00\x0a"
          "\x03\x1a\x01\xff"),
        "cannot decode OrchestratorResponse: actions[2].completeOrchestration."
        "failureDetails.properties[0].value.list_value.values[1].string_value at byte 20: "
        "not valid UTF-8");
    /* what nobody knows may hold anything */
    assert_int_equal(
        try(&create_instance_request__descriptor, S("\xf2\x07\x02\xff\xfe"), &WIRE_LIMITS, NULL),
        OK);
}

static void malformed_fields_are_named(void **state)
{
    const ProtobufCMessageDescriptor *desc = &orchestrator_response__descriptor;
    (void)state;
    check_refused(desc, S("\x00\x01"),
                  "cannot decode OrchestratorResponse: at byte 0: malformed tag");
    check_refused(desc, S("\x0f"), "cannot decode OrchestratorResponse: at byte 0: malformed tag");
    check_refused(desc,
                  S("\x0a\x05"
                    "ab"),
                  "cannot decode OrchestratorResponse: instanceId at byte 0: cut short");
    check_refused(desc, S("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                  "cannot decode OrchestratorResponse: instanceId at byte 0: cut short");
    check_refused(desc, S("\x12\x02\x08\x80"),
                  "cannot decode OrchestratorResponse: actions[0].id at byte 2: malformed number");
    check_refused(
        desc, S("\x08\x01"),
        "cannot decode OrchestratorResponse: instanceId at byte 0: has the wrong wire type");
    check_refused(desc, S("\x3a\x01\x01"),
                  "cannot decode OrchestratorResponse: requiresHistory at "
                  "byte 0: has the wrong wire type");
    check_refused(desc, S("\x7c"),
                  "cannot decode OrchestratorResponse: at byte 0: the end of a "
                  "group that did not begin");
    check_refused(desc, S("\x7b\x84\x01"),
                  "cannot decode OrchestratorResponse: at byte 0: "
                  "malformed group, or nested too deep");
    check_refused(desc, S("\x7d\x01"),
                  "cannot decode OrchestratorResponse: at byte 0: malformed number");
    check_refused(&get_work_items_request__descriptor, S("\x52\x02\x01\x80"),
                  "cannot decode GetWorkItemsRequest: capabilities[0] at byte 3: malformed packed "
                  "values");
}

/* Two bytes make a sub-message of dozens: elements and memory are counted while decoding. */
static void bombs_of_small_elements_stop_at_the_limit(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    char msg[ERROR_MSG_MAX];
    (void)state;

    for (unsigned i = 0; i < 1000; i++)
        strbuf_append(&b, "\x12\x00", 2); /* actions {} */
    assert_int_equal(try(&orchestrator_response__descriptor, strbuf_bytes(&b), &SMALL, msg), OK);
    strbuf_append(&b, "\x12\x00", 2);
    assert_int_equal(try(&orchestrator_response__descriptor, strbuf_bytes(&b), &SMALL, msg),
                     ERR_INVALID);
    assert_string_equal(msg, "cannot decode OrchestratorResponse: actions[1000] at byte 2000: too "
                             "many elements");

    strbuf_reset(&b);
    for (unsigned i = 0; i < 1001; i++)
        strbuf_append(&b, "\xf8\x07\x01", 3); /* 127: 1, unknown */
    assert_int_equal(try(&orchestrator_response__descriptor, strbuf_bytes(&b), &SMALL, msg),
                     ERR_INVALID);
    assert_non_null(strstr(msg, "too many elements"));

    strbuf_reset(&b);
    wire_put_head(&b, 10, 1001);
    for (unsigned i = 0; i < 1001; i++)
        strbuf_append_char(&b, 1); /* capabilities, packed */
    assert_int_equal(try(&get_work_items_request__descriptor, strbuf_bytes(&b), &SMALL, msg),
                     ERR_INVALID);
    assert_non_null(strstr(msg, "too many elements"));
}

static void memory_is_bounded_before_it_is_taken(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static const struct wire_limits LIMITS = {.depth = 100, .elements = 1000000, .bytes = KIB(64)};
    struct arena *a = arena_create();
    struct error err = {0};
    void *out = NULL;
    (void)state;

    for (unsigned i = 0; i < 500000; i++)
        strbuf_append(&b, "\x12\x00", 2);
    assert_int_equal(
        wire_unpack(&orchestrator_response__descriptor, a, strbuf_bytes(&b), &LIMITS, &out, &err),
        ERR_INVALID);
    assert_non_null(strstr(err.msg, "takes too much memory when decoded"));
    assert_true(arena_bytes(a) < KIB(256));
    arena_free(a);
}

/* Singular messages that come again and again merge in place: linear in time and memory. */
static void many_repeats_of_one_message_are_cheap(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    struct arena *a = arena_create();
    GetWorkItemsRequest *out = NULL;
    (void)state;

    for (unsigned i = 0; i < 400000; i++)
        strbuf_append(&b, "\x5a\x02\x0a\x00", 4); /* workItemFilters { orchestrations {} } */
    assert_int_equal(wire_unpack(&get_work_items_request__descriptor, a, strbuf_bytes(&b),
                                 &WIRE_LIMITS, &out, NULL),
                     OK);
    assert_int_equal(out->workitemfilters->n_orchestrations, 400000);
    arena_free(a);
}

/* A message of everything: a turn's answer with each kind of action, tags, failures, properties. */
static struct bytes sample(struct strbuf *b, bool has_group)
{
    struct bytes failure =
        S("\x0a\x01T\x12\x02\xc3\xa9\x1a\x02\x0a\x00\x22\x03\x0a\x01I\x28\x01\x32"
          "\x11\x0a\x01k\x12\x0c\x32\x0a\x0a\x02\x08\x00\x0a\x04\x1a\x02hi");

    wire_put_bytes(b, 1, S("instance"));
    size_t action = wire_put_begin(b, 2);
    wire_put_uint(b, 1, 1);
    size_t task = wire_put_begin(b, 2); /* scheduleTask */
    wire_put_bytes(b, 1, S("name"));
    wire_put_string_value(b, 2, S("v"));
    wire_put_string_value(b, 3, S(""));
    wire_put_bytes(b, 4, S("\x0a\x01k\x12\x01v"));
    wire_put_end(b, task);
    wire_put_end(b, action);
    wire_put_bytes(b, 2, S("\x08\x02\x22\x07\x0a\x05\x08\x80\x01\x10\x05")); /* createTimer */
    action = wire_put_begin(b, 2);
    size_t complete = wire_put_begin(b, 6);
    wire_put_uint(b, 1, 3);
    wire_put_bytes(b, 6, failure);
    size_t carried = wire_put_begin(b, 5);
    wire_put_int(b, 1, -1);
    size_t raised = wire_put_begin(b, 17);
    wire_put_bytes(b, 1, S("e"));
    wire_put_string_value(b, 2, S("42"));
    wire_put_end(b, raised);
    wire_put_end(b, carried);
    wire_put_end(b, complete);
    wire_put_end(b, action);
    wire_put_string_value(b, 3, S("status"));
    wire_put_bytes(b, 4, S("token"));
    strbuf_append_bytes(b, S("\x2a\x02\x08\x05")); /* numEventsProcessed */
    if (has_group)
        strbuf_append_bytes(b, S("\x7b\x08\x01\x7c"));
    strbuf_append_bytes(b, S("\xf5\x07\x01\x02\x03\x04")); /* an unknown fixed32 */
    return strbuf_bytes(b);
}

static void a_message_cut_at_any_byte_crashes_nothing(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    struct bytes whole = sample(&b, true);
    size_t refused = 0;
    (void)state;

    assert_int_equal(try(&orchestrator_response__descriptor, whole, &WIRE_LIMITS, NULL), OK);
    for (size_t len = 0; len < whole.len; len++) {
        refused += try(&orchestrator_response__descriptor, bytes_of(whole.ptr, len), &WIRE_LIMITS,
                       NULL) != OK;
    }
    assert_in_range(whole.len - refused, 1, 12); /* good only where a field of the outermost ends */
}

static void every_byte_changed_to_every_value_crashes_nothing(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;

    sample(&b, true);
    for (size_t i = 0; i < b.len; i++) {
        uint8_t was = b.ptr[i];
        for (unsigned v = 0; v < 256; v += 3) {
            b.ptr[i] = (uint8_t)v;
            (void)try(&orchestrator_response__descriptor, strbuf_bytes(&b), &SMALL, NULL);
        }
        b.ptr[i] = was;
    }
}

/* What both take, both read alike, but where a singular message came twice: merging them, protobuf-c
 * loses the unknown fields of the first. */
static void random_changes_decode_as_protobuf_c_decodes_them(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    struct prng rng;
    unsigned same = 0, lossy = 0;
    (void)state;

    prng_seed(&rng, 20261201);
    for (unsigned round = 0; round < 20000; round++) {
        struct arena *a = arena_create();
        ProtobufCMessage *ours = NULL;
        strbuf_reset(&b);
        sample(&b, false); /* protobuf-c takes no groups */
        for (unsigned n = (unsigned)prng_below(&rng, 3) + 1; n > 0; n--)
            b.ptr[prng_below(&rng, b.len)] = (uint8_t)prng_u64(&rng);
        if (wire_unpack(&orchestrator_response__descriptor, a, strbuf_bytes(&b), &SMALL, &ours,
                        NULL) == OK) {
            ProtobufCMessage *theirs =
                protobuf_c_message_unpack(&orchestrator_response__descriptor, NULL, b.len, b.ptr);
            if (theirs) {
                CLEANUP(strbuf_deinit) struct strbuf one = {0}, other = {0};
                wire_pack_into(ours, &one);
                wire_pack_into(theirs, &other);
                bool is_same = bytes_eq(strbuf_bytes(&one), strbuf_bytes(&other));
                assert_true(is_same || other.len < one.len);
                same += is_same;
                lossy += !is_same;
                protobuf_c_message_free_unpacked(theirs, NULL);
            }
        }
        arena_free(a);
    }
    assert_true(same > 2000);
    assert_true(lossy < same / 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_levels_in_34_kb_are_refused),
        cmocka_unit_test(depth_is_counted_exactly),
        cmocka_unit_test(groups_count_as_depth),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_wherever_it_is),
        cmocka_unit_test(malformed_fields_are_named),
        cmocka_unit_test(bombs_of_small_elements_stop_at_the_limit),
        cmocka_unit_test(memory_is_bounded_before_it_is_taken),
        cmocka_unit_test(many_repeats_of_one_message_are_cheap),
        cmocka_unit_test(a_message_cut_at_any_byte_crashes_nothing),
        cmocka_unit_test(every_byte_changed_to_every_value_crashes_nothing),
        cmocka_unit_test(random_changes_decode_as_protobuf_c_decodes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
